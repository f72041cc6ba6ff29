//! What the programs make of real objects is what SPEC.md says: the reader that was written from it (`store/tests/golden`), and
//! shares no code with them, takes every record apart, and computes every digest, check and outline again.

#[path = "../../store/tests/golden/programs.rs"]
mod programs;
#[path = "../../store/tests/golden/reader.rs"]
mod reader;

use programs::{Programs, Summary};
use repo_hostile::targets::Target;
use repo_tests::binaries::Binaries;
use repo_tests::process::run;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::path::Path;

/// Objects of several compilers and languages that are kept in the source tree: exceptions, COMDAT groups, threads'
/// data, debug information; and records in envelopes.
#[test]
fn of_kept_objects() {
    let [bytes] = Target::Program.seeds().try_into().expect("one");
    let summary = Programs::new(bytes).check();
    assert!(
        summary.compilations >= 8 && summary.envelopes >= 16,
        "{summary:?}"
    );
    assert!(
        summary.packed > 20 && summary.plain > 20 && summary.one_fde > 4,
        "{summary:?}"
    );
}

fn check(scratch: &Scratch) -> Summary {
    let bytes = std::fs::read(scratch.repository()).expect("read");
    Programs::new(bytes).check()
}

fn features(compiler: &Path, extension: &str, options: &[&str]) {
    let scratch = Scratch::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/features");
    let mut count = 0;
    for entry in std::fs::read_dir(sources).expect("listed") {
        let path = entry.expect("listed").path();
        if path.extension().is_none_or(|found| found != extension) {
            continue;
        }
        let output = format!("{}.o", path.file_stem().expect("a name").display());
        let mut command = scratch.command(Binaries::get().path("repo-cc"));
        command.arg(compiler).args(options).arg("-c").arg(&path);
        run(command.args(["-o", &output])).ok();
        count += 1;
    }
    assert!(count > 1);
    let summary = check(&scratch);
    assert_eq!(summary.tickets, count);
    assert!(
        summary.plain > 0 && summary.one_fde > 0 && summary.pieces > 0,
        "{summary:?}"
    );
    // And what the compactor makes of that.
    let mut command = scratch.command(Binaries::get().path("repo-gc"));
    run(command.args(["--grace", "0s"])).ok();
    let after = check(&scratch);
    assert_eq!(
        (after.fragments, after.members, after.plain, after.one_fde),
        (
            summary.fragments,
            summary.members,
            summary.plain,
            summary.one_fde
        )
    );
}

#[test]
fn of_c_by_gcc() {
    let [gcc] = require!("gcc");
    features(&gcc, "c", &["-O2", "-g"]);
}

#[test]
fn of_cxx_by_clang() {
    let [clang] = require!("clang++");
    features(&clang, "cpp", &["-O1", "-g", "-fexceptions"]);
}
