//! Whole links. The first byte chooses how; what follows it is an input file of any kind (an object, an archive, a
//! shared object, a script), beside a sound object that defines the entry point and calls it.
#![no_main]

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use linker::args::Args;
use linker::diag::{DiagOptions, Diagnostics};
use linker::link::link;

/// Command lines to choose from, without inputs and output.
const WAYS: [&[&str]; 8] = [
    &["-static"],
    &["-pie", "--gc-sections", "--eh-frame-hdr"],
    &["-shared", "-z", "now", "--hash-style=both"],
    &["-static", "--gc-sections", "-s", "--build-id"],
    &["-r"],
    &["-pie", "--unresolved-symbols=ignore-all", "--icf=all"],
    &["-static", "--emit-relocs", "--noinhibit-exec"],
    &["-shared", "-Bsymbolic", "-Map=/dev/null", "--cref"],
];

/// An object that defines `_start` and calls `fuzzed`: `_start: call fuzzed@plt`, as GNU as assembles it.
const START: &[u8] = include_bytes!("../corpus/start.o");

struct Place {
    directory: tempfile::TempDir,
    start: PathBuf,
}

static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let directory = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    }
    .expect("a directory to work in");
    let start = directory.path().join("start.o");
    std::fs::write(&start, START).expect("files can be written");
    Place { directory, start }
});

fuzz_target!(|data: &[u8]| {
    let Some((way, data)) = data.split_first() else {
        return;
    };
    let place = &*PLACE;
    let input = place.directory.path().join("input");
    let output = place.directory.path().join("output");
    std::fs::write(&input, data).expect("files can be written");
    let mut line: Vec<OsString> = WAYS[usize::from(*way) % WAYS.len()]
        .iter()
        .map(OsString::from)
        .collect();
    line.extend([
        OsString::from("-o"),
        output.clone().into(),
        place.start.clone().into(),
        input.into(),
    ]);
    let args = Args::parse(line.into_iter()).expect("these are right");
    let diag = Diagnostics::new(DiagOptions::from_args(&args));
    let linked = link(&args, &diag, || {});
    let mut said = Vec::new();
    diag.flush(&mut said).expect("memory takes it");
    assert_eq!(linked.is_err(), diag.has_errors(), "{}", String::from_utf8_lossy(&said));
    assert_eq!(output.exists(), linked.is_ok(), "an output if and only if there was no error");
    let _ = std::fs::remove_file(&output);
});
