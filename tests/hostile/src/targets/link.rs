//! Whole links of command lines with several files, in this process. Inputs are files in memory that are written anew
//! each time, so that a link costs little more than its work. The output is read by another reader.

use super::corpus;
use crate::mutate::line::{Line, OPTIONS, Role, VALUED};
use crate::reader;
use linker::args::{Args, OutputFormat};
use linker::input::host::Host;
use linker::link::link;
use linker::messages::diag::{DiagOptions, Diagnostics};
use rayon::ThreadPoolBuilder;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Once};

/// Outputs that are longer are an error of the file system: a section may be aligned to a gigabyte, and many of those would
/// fill the machine.
const MOST_OUTPUT: u64 = 16 << 20;

/// A directory, in memory where there is such a place.
pub fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    }
    .expect("a directory to work in")
}

/// This process goes on after a link, and has its one thread already.
struct Here;

impl Host for Here {
    fn opened(&self, _: u64) {}
    fn finished(&self) {}
}

/// Where a thread's links work.
struct Bench {
    _directory: tempfile::TempDir,
    output: PathBuf,
    /// Files in memory, with their paths.
    files: Vec<(File, PathBuf)>,
}

impl Bench {
    fn new() -> Bench {
        static LIMIT: Once = Once::new();
        LIMIT.call_once(|| {
            // SAFETY: no handler is involved; a write beyond the limit becomes an error that is reported.
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
            let limit = Rlimit {
                current: Some(MOST_OUTPUT),
                maximum: None,
            };
            setrlimit(Resource::Fsize, limit).expect("limits can be lowered");
        });
        // Everything happens on this thread: to wake others costs more than these small inputs' work. (If it is one of
        // a pool's, it is so already.)
        let pool = ThreadPoolBuilder::new().num_threads(1).use_current_thread();
        let _ = pool.build().map(std::mem::forget);
        let directory = directory();
        Bench {
            output: directory.path().join("output"),
            _directory: directory,
            files: Vec::new(),
        }
    }

    /// Makes the bytes the file of this number.
    fn file(&mut self, number: usize, bytes: &[u8]) -> &Path {
        while self.files.len() <= number {
            let file = File::from(memfd_create("input", MemfdFlags::CLOEXEC).expect("memory"));
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            self.files.push((file, path));
        }
        let (file, path) = &self.files[number];
        ftruncate(file, 0).expect("a file of ours");
        file.write_all_at(bytes, 0).expect("room in memory");
        path
    }
}

thread_local! {
    static BENCH: std::cell::RefCell<Bench> = std::cell::RefCell::new(Bench::new());
}

/// Links the line that the bytes stand for.
pub fn run(bytes: &[u8]) {
    let line = Line::decode(bytes);
    if !line.files.is_empty() {
        BENCH.with_borrow_mut(|bench| bench.link(&line));
    }
}

/// Links files in the file system, in this process, as [`run`] does. Returns whether there was an output.
pub fn link_here(options: &[&str], files: impl Iterator<Item = PathBuf>) -> bool {
    BENCH.with_borrow_mut(|bench| {
        let mut words = bench.begin();
        words.extend(options.iter().map(OsString::from));
        words.extend(files.map(PathBuf::into_os_string));
        bench.link_words(words)
    })
}

impl Bench {
    /// Nothing outside of the line is looked for, and no file but the output is written: `-o` counts before what scripts say.
    fn begin(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["-nostdlib".into(), "--progress=never".into()];
        words.extend(["-o".into(), self.output.clone().into_os_string()]);
        words
    }

    fn link(&mut self, line: &Line) {
        let mut words = self.begin();
        words.extend(
            line.options
                .iter()
                .map(|option| OPTIONS[usize::from(*option) % OPTIONS.len()].into()),
        );
        for (number, (role, bytes)) in line.files.iter().enumerate() {
            if *role == Role::Value {
                if let Some((option, value)) = bytes.split_first() {
                    let mut word = OsString::from(VALUED[usize::from(*option) % VALUED.len()]);
                    word.push(OsStr::from_bytes(value));
                    words.push(word);
                }
                continue;
            }
            let path = self.file(number, bytes).as_os_str().to_owned();
            let joined = |option: &str| {
                let mut word = OsString::from(option);
                word.push(&path);
                word
            };
            match role {
                Role::File => words.push(path),
                Role::WholeArchive => {
                    words.extend(["--whole-archive".into(), path, "--no-whole-archive".into()])
                }
                Role::StartLib => words.extend(["--start-lib".into(), path, "--end-lib".into()]),
                Role::AsNeeded => {
                    words.extend(["--as-needed".into(), path, "--no-as-needed".into()])
                }
                Role::Script => words.push(joined("--script=")),
                Role::VersionScript => words.push(joined("--version-script=")),
                Role::DynamicList => words.push(joined("--dynamic-list=")),
                Role::ExportList => words.push(joined("--export-dynamic-symbol-list=")),
                Role::RetainSymbols => words.push(joined("--retain-symbols-file=")),
                Role::JustSymbols => words.push(joined("--just-symbols=")),
                Role::Binary => words.extend(["-bbinary".into(), path, "-bdefault".into()]),
                Role::Value => {}
            }
        }
        self.link_words(words);
    }

    fn link_words(&self, words: Vec<OsString>) -> bool {
        let line = format!("{words:?}");
        let Ok(args) = Args::parse(words.into_iter()) else {
            return false;
        };
        // The program refuses that before it links.
        if args.inputs.is_empty() && args.scripts.is_empty() {
            return false;
        }
        let diag = Diagnostics::new(DiagOptions::from_args(&args));
        let linked = link(&args, &diag, &Here);
        let mut said = Vec::new();
        diag.flush(&mut said).expect("memory takes it");
        let said = String::from_utf8_lossy(&said);
        assert_eq!(linked.is_err(), diag.has_errors(), "{said}");
        let output = std::fs::read(&self.output);
        assert_eq!(
            output.is_ok(),
            linked.is_ok(),
            "an output if and only if there was no error: {said}"
        );
        if let Ok(output) = output {
            std::fs::remove_file(&self.output).expect("just read");
            if args.output_format != OutputFormat::Binary
                && let Err(why) = reader::read(&output, &args)
            {
                panic!("an output that cannot be read: {why}\n{said}\n{line}");
            }
        }
        linked.is_ok()
    }
}

/// An object that defines `_start` and calls `fuzzed`: `_start: call fuzzed@plt`, as GNU as assembles it.
pub const START: &[u8] = include_bytes!("../../../fuzz/corpus/start.o");

/// Lines to begin from: each object, archive and shared object in several kinds of links, scripts of all kinds with an
/// object.
pub fn seeds() -> &'static [Line] {
    static SEEDS: LazyLock<Vec<Line>> = LazyLock::new(|| {
        const WAYS: [&[&str]; 9] = [
            &["-static"],
            &["-pie", "--gc-sections", "--eh-frame-hdr"],
            &["-shared", "-znow", "--hash-style=both"],
            &["-static", "--gc-sections", "-s", "--build-id"],
            &["-r"],
            &["-pie", "--unresolved-symbols=ignore-all", "--icf=all"],
            &["-static", "--emit-relocs", "--noinhibit-exec"],
            &["-shared", "-Bsymbolic", "-Map=/dev/null", "--cref"],
            &[
                "-pie",
                "--unresolved-symbols=ignore-all",
                "-zpack-relative-relocs",
                "--gdb-index",
            ],
        ];
        let mut lines = Vec::new();
        let objects = corpus("object");
        for (_, object) in &objects {
            for way in WAYS {
                lines.push(Line::of(
                    way,
                    vec![(Role::File, START), (Role::File, object)],
                ));
            }
        }
        let pairs = objects.iter().zip(objects.iter().cycle().skip(1));
        for (number, ((_, one), (_, other))) in pairs.enumerate() {
            let way = WAYS[number % WAYS.len()];
            lines.push(Line::of(
                way,
                vec![
                    (Role::File, START),
                    (Role::File, one),
                    (Role::StartLib, other),
                ],
            ));
        }
        let object = &objects[0].1;
        for (_, shared) in &corpus("shared") {
            for way in [WAYS[1], WAYS[2], WAYS[5]] {
                lines.push(Line::of(
                    way,
                    vec![
                        (Role::File, START),
                        (Role::File, shared),
                        (Role::File, object),
                    ],
                ));
            }
        }
        for (_, archive) in &corpus("archive") {
            for role in [Role::File, Role::WholeArchive] {
                lines.push(Line::of(
                    WAYS[5],
                    vec![(Role::File, START), (role, archive), (Role::File, object)],
                ));
            }
        }
        for (_, script) in &corpus("script") {
            for way in [WAYS[0], WAYS[1], WAYS[2], WAYS[4], WAYS[8]] {
                for (_, object) in &objects {
                    lines.push(Line::of(
                        way,
                        vec![
                            (Role::Script, script),
                            (Role::File, START),
                            (Role::File, object),
                        ],
                    ));
                }
                lines.push(Line::of(
                    way,
                    vec![
                        (Role::File, START),
                        (Role::File, script),
                        (Role::File, object),
                    ],
                ));
            }
        }
        for (_, script) in &corpus("version_script") {
            for role in [
                Role::VersionScript,
                Role::DynamicList,
                Role::ExportList,
                Role::RetainSymbols,
            ] {
                lines.push(Line::of(
                    WAYS[2],
                    vec![(role, script), (Role::File, START), (Role::File, object)],
                ));
            }
        }
        lines
    });
    &SEEDS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a fuzzer has found, and what is mended since.
    #[test]
    fn lines_of_earlier_failures() {
        let lines = corpus("link");
        assert!(!lines.is_empty());
        for (_, bytes) in lines {
            run(&bytes);
        }
    }
}
