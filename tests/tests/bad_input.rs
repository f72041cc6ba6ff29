//! Files that are not what they should be, and places that cannot be written:
//! one clear error that names the file, the exit code 1, nothing left behind
//! that looks finished, and nothing lost.

use repo_tests::binaries::Binaries;
use repo_tests::build::{Family, Toolchain};
use repo_tests::process::{Run, run};
use repo_tests::programs::Language;
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

const MAIN: &str = "#include <stdio.h>\n\
    int value(int);\n\
    int main(void) { printf(\"%d\\n\", value(20)); return 0; }\n";
const VALUE: &str = "static int twice(int x) { return 2 * x; }\n\
    const int table[] = {1, 2, 3};\n\
    int value(int x) { return twice(x) + table[x % 3]; }\n";
const RIGHT: &str = "43\n";

/// A small program whose units are compiled by gcc through the repository.
struct Program {
    scratch: Scratch,
    plain: Toolchain,
    ours: Toolchain,
}

impl Program {
    /// `None` without gcc.
    fn tickets() -> Option<Program> {
        let plain = Toolchain::plain(Family::Gcc)?;
        let ours = plain.through_repository(Binaries::get());
        let program = Program {
            scratch: Scratch::new(),
            plain,
            ours,
        };
        program.scratch.write("main.c", MAIN);
        program.scratch.write("value.c", VALUE);
        for source in ["main.c", "value.c"] {
            program.cc(&program.ours, &["-O1", "-c", source]).ok();
        }
        Some(program)
    }

    fn cc(&self, toolchain: &Toolchain, arguments: &[&str]) -> Run {
        run(toolchain
            .command(&self.scratch, Language::C)
            .args(arguments))
    }

    fn link(&self) -> Run {
        let _ = fs::remove_file(self.scratch.join("program"));
        self.cc(&self.ours, &["main.o", "value.o", "-o", "program"])
    }

    fn dump(&self, arguments: &[&str]) -> Run {
        let mut command = self.scratch.command(Binaries::get().path("repo-dump"));
        run(command.args(arguments))
    }

    fn execute(&self) -> String {
        run(&mut self.scratch.command(self.scratch.join("program")))
            .ok()
            .text()
    }

    /// The link fails, says `words` (lower case) and leaves no output.
    #[track_caller]
    fn link_fails_and_says(&self, words: &[&str]) {
        self.fails_and_says(self.link(), words);
    }

    /// The same of a link that makes no lost ticket again.
    #[track_caller]
    fn as_it_is_the_link_fails_and_says(&self, words: &[&str]) {
        let _ = fs::remove_file(self.scratch.join("program"));
        let arguments = ["main.o", "value.o", "-Wl,--no-remake", "-o", "program"];
        self.fails_and_says(self.cc(&self.ours, &arguments), words);
        // Those that are lost were set aside, so that a build makes them again.
        for object in ["main.o", "value.o"] {
            let aside = self.scratch.join(format!("{object}.lost"));
            if aside.exists() {
                fs::rename(aside, self.scratch.join(object)).expect("a file of ours");
            }
        }
    }

    #[track_caller]
    fn fails_and_says(&self, linked: Run, words: &[&str]) {
        let failed = linked.failed();
        let errors = failed.errors();
        assert!(errors.contains("repo-ld: error: "), "{}", failed.report());
        for word in words {
            assert!(errors.contains(word), "no {word:?} in\n{}", failed.report());
        }
        assert!(
            !self.scratch.join("program").exists(),
            "an output after\n{}",
            failed.report()
        );
    }
}

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// `repo-ld` on the file `name` alone.
fn link_alone(scratch: &Scratch, name: &str) -> Run {
    let mut command = scratch.command(Binaries::get().path("repo-ld"));
    run(command.args(["-o", "output", name]))
}

/// Whatever the input, the linker ends by itself and without a panic.
#[track_caller]
fn ends_cleanly(run: &Run) {
    assert!(
        run.status.code().is_some_and(|code| code != 101),
        "{}",
        run.report()
    );
    assert!(!run.errors().contains("panicked at"), "{}", run.report());
}

#[test]
fn objects_that_are_cut_or_changed() {
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let scratch = Scratch::new();
    scratch.write("value.c", VALUE);
    let compile = [
        "-O1",
        "-g",
        "-ffunction-sections",
        "-c",
        "value.c",
        "-o",
        "good.o",
    ];
    run(plain.command(&scratch, Language::C).args(compile)).ok();
    let good = fs::read(scratch.join("good.o")).expect("just compiled");

    let refused = |name: &str, bytes: &[u8]| {
        scratch.write(name, bytes);
        let failed = link_alone(&scratch, name).code(1);
        let errors = failed.errors();
        assert!(
            errors.contains("repo-ld: error: ") && errors.contains(name),
            "{errors}"
        );
        ends_cleanly(&failed);
        assert!(
            !scratch.join("output").exists(),
            "an output after\n{errors}"
        );
    };
    // (An empty file is an empty linker script, for GNU ld too.)
    for length in [3, 16, 63, 64, good.len() / 3, good.len() - 1] {
        refused(&format!("cut-{length}.o"), &good[..length]);
    }
    // Fields of the ELF header: offset, size, value.
    let fields = [
        ("class", 4, 1, 1),
        ("byte-order", 5, 1, 2),
        ("machine", 18, 2, 40),
        ("section-headers-at-the-end", 40, 8, good.len() as u64),
        ("section-headers-beyond", 40, 8, u64::MAX - 63),
        ("section-header-size", 58, 2, 1),
        ("section-header-count", 60, 2, 0xfeff),
        ("section-names", 62, 2, 0xfefe),
    ];
    for (name, offset, size, value) in fields {
        let mut bytes = good.clone();
        bytes[offset..offset + size].copy_from_slice(&u64::to_le_bytes(value)[..size]);
        refused(&format!("{name}.o"), &bytes);
    }
    let mut random = Random(0x1234_5678_9abc_def1);
    for round in 0..150 {
        let mut bytes = good.clone();
        for _ in 0..1 + round % 4 {
            let place = random.below(bytes.len());
            bytes[place] = random.below(256) as u8;
        }
        scratch.write("changed.o", &bytes);
        ends_cleanly(&link_alone(&scratch, "changed.o"));
    }
}

#[test]
fn archives_that_are_cut_or_changed() {
    let [ar] = repo_tests::require!("ar");
    let Some(program) = Program::tickets() else {
        return;
    };
    let scratch = &program.scratch;
    run(scratch.command(ar).args(["rcs", "libvalue.a", "value.o"])).ok();
    let good = fs::read(scratch.join("libvalue.a")).expect("just made");
    let link = |bytes: &[u8]| {
        scratch.write("libvalue.a", bytes);
        let _ = fs::remove_file(scratch.join("program"));
        program.cc(&program.ours, &["main.o", "libvalue.a", "-o", "program"])
    };
    link(&good).ok();
    assert_eq!(program.execute(), RIGHT);
    for length in [7, 8, 40, 67, 70, good.len() / 2, good.len() - 40] {
        let failed = link(&good[..length]).failed();
        // Cut to nothing but its magic it is an empty archive, and a name is missing.
        let named = failed.errors().contains("libvalue.a") || failed.errors().contains("value");
        assert!(named, "{}", failed.report());
        ends_cleanly(&failed);
    }
    let mut random = Random(42);
    for _ in 0..60 {
        let mut bytes = good.clone();
        let place = random.below(bytes.len());
        bytes[place] ^= 1 << random.below(8);
        let linked = link(&bytes);
        ends_cleanly(&linked);
        if linked.status.success() {
            assert_eq!(program.execute(), RIGHT);
        }
    }
}

#[test]
fn inputs_that_are_not_there_or_no_objects() {
    let Some(program) = Program::tickets() else {
        return;
    };
    let scratch = &program.scratch;
    scratch.write("text.o", "this is no linker script\n");
    scratch.write("noise.o", [0x7f, 0xfe, 0, 1, 2, 3].repeat(50));
    fs::create_dir(scratch.join("directory.o")).expect("a directory can be made");
    for name in ["missing.o", "text.o", "noise.o", "directory.o"] {
        let failed = link_alone(scratch, name).code(1);
        assert!(failed.errors().contains(name), "{}", failed.report());
        ends_cleanly(&failed);
    }
    let mut command = scratch.command(Binaries::get().path("repo-ld"));
    let output = ["-e", "value", "-o", "no/such/directory/output", "value.o"];
    let failed = run(command.args(output)).code(1);
    assert!(
        failed.errors().contains("no/such/directory"),
        "{}",
        failed.report()
    );
}

/// `llvm-objcopy --strip-sections` leaves such objects: with all bytes, but nothing says what they are.
#[test]
fn an_object_without_section_headers_is_no_empty_one() {
    let Some(program) = Program::tickets() else {
        return;
    };
    let scratch = &program.scratch;
    program.cc(&program.plain, &["-c", "value.c"]).ok();
    let mut object = fs::read(scratch.join("value.o")).expect("an object");
    const E_SHOFF: std::ops::Range<usize> = 0x28..0x30;
    const E_SHNUM: std::ops::Range<usize> = 0x3c..0x40;
    for field in [E_SHOFF, E_SHNUM] {
        object[field].fill(0);
    }
    scratch.write("value.o", &object);
    let said = ["value.o", "without section headers"];
    program.link_fails_and_says(&said);
    // Also where nothing refers to it.
    scratch.write("main.c", "int main(void) { return 0; }\n");
    program.cc(&program.ours, &["-c", "main.c"]).ok();
    program.link_fails_and_says(&said);
}

#[test]
fn an_undefined_symbol_is_an_error() {
    let Some(program) = Program::tickets() else {
        return;
    };
    program
        .scratch
        .write("value.c", "int other(int x) { return x; }\n");
    program.cc(&program.ours, &["-c", "value.c"]).ok();
    program.link_fails_and_says(&["undefined symbol: value", "undefined reference to", "main"]);
    program.scratch.write(
        "value.c",
        "int value(int x) { return x; } int main(void) { return 1; }\n",
    );
    program.cc(&program.ours, &["-c", "value.c"]).ok();
    program.link_fails_and_says(&["duplicate symbol: main"]);
}

#[test]
fn tickets_without_their_repository() {
    let Some(program) = Program::tickets() else {
        return;
    };
    let repository = program.scratch.repository();
    program.link().ok();
    assert_eq!(program.execute(), RIGHT);
    // The repository is gone.
    let kept = program.scratch.join("kept");
    fs::rename(&repository, &kept).expect("a file of ours");
    program.as_it_is_the_link_fails_and_says(&["main.o", "program.repo"]);
    // Another is in its place, made by another compile.
    program
        .cc(&program.ours, &["-c", "value.c", "-o", "elsewhere.o"])
        .ok();
    program.as_it_is_the_link_fails_and_says(&["main.o"]);
    // Nothing was lost: with its repository back, all is as before.
    fs::rename(&kept, &repository).expect("a file of ours");
    program.link().ok();
    assert_eq!(program.execute(), RIGHT);
}

/// An older state of the right repository, which does not have the compilation.
#[test]
fn a_ticket_that_is_newer_than_the_repository() {
    let Some(program) = Program::tickets() else {
        return;
    };
    let repository = program.scratch.repository();
    let before = fs::read(&repository).expect("compiles made it");
    program
        .scratch
        .write("value.c", VALUE.replace("2 * x", "3 * x"));
    program.cc(&program.ours, &["-O1", "-c", "value.c"]).ok();
    fs::write(&repository, before).expect("a file of ours");
    program.as_it_is_the_link_fails_and_says(&["value.o"]);
    // Compiling again is the cure, which a link does by itself.
    program.link().ok();
    assert_eq!(program.execute(), "63\n");
}

/// A repository with one bit changed, anywhere: `--verify` finds what changes
/// content; a link is right, or is an error.
#[test]
fn a_damaged_repository_never_makes_a_wrong_program() {
    let Some(program) = Program::tickets() else {
        return;
    };
    let repository = program.scratch.repository();
    let good = fs::read(&repository).expect("compiles made it");
    program.dump(&["--verify"]).ok();
    let mut random = Random(99);
    let mut found = 0;
    for _ in 0..60 {
        let mut bytes = good.clone();
        let place = random.below(bytes.len());
        bytes[place] ^= 1 << random.below(8);
        fs::write(&repository, &bytes).expect("a file of ours");
        let verified = program.dump(&["--verify"]);
        ends_cleanly(&verified);
        let linked = program.link();
        ends_cleanly(&linked);
        if verified.status.success() {
            // Nothing that matters was changed.
            assert!(linked.status.success(), "{}", linked.report());
            assert_eq!(program.execute(), RIGHT, "byte {place} changed");
        } else {
            found += 1;
            let said = verified.text() + &verified.errors();
            let place = said.contains("program.repo") && said.contains("offset");
            assert!(place, "{}", verified.report());
        }
        if !linked.status.success() {
            assert!(
                linked.errors().contains("repo-ld: error: "),
                "{}",
                linked.report()
            );
            assert!(
                !program.scratch.join("program").exists(),
                "{}",
                linked.report()
            );
        }
    }
    assert!(found > 0, "no damage was found: the test damages nothing");
    fs::write(&repository, &good).expect("a file of ours");
    program.link().ok();
    assert_eq!(program.execute(), RIGHT);
}

#[test]
fn a_repository_that_is_none() {
    let Some(program) = Program::tickets() else {
        return;
    };
    let repository = program.scratch.repository();
    let good = fs::read(&repository).expect("compiles made it");
    let noise = b"not a repository\n".repeat(1000);
    for (name, bytes) in [
        ("noise", &noise[..]),
        ("half", &good[..good.len() / 2]),
        ("head", &good[..100]),
    ] {
        fs::write(&repository, bytes).expect("a file of ours");
        let failed = program.dump(&["--verify"]).failed();
        assert!(
            failed.errors().contains("program.repo"),
            "{name}: {}",
            failed.report()
        );
        ends_cleanly(&failed);
        program.link_fails_and_says(&["program.repo"]);
        // A compile does what the build wants all the same: an object, for any linker.
        program
            .cc(&program.ours, &["-c", "value.c", "-o", "again.o"])
            .ok();
        program
            .cc(&program.plain, &["-c", "main.c", "-o", "plain.o"])
            .ok();
        program
            .cc(&program.plain, &["plain.o", "again.o", "-o", "ordinary"])
            .ok();
        // And the file is not written over: it may be somebody's.
        assert_eq!(
            fs::read(&repository).ok().as_deref(),
            Some(bytes),
            "{name} was changed"
        );
    }
}

/// Runs the program's compile and link as a user who may not write in the
/// directory: root may write everywhere.
#[test]
fn a_directory_that_cannot_be_written() {
    let Some(program) = Program::tickets() else {
        return;
    };
    let scratch = &program.scratch;
    let closed = scratch.join("closed");
    fs::create_dir(&closed).expect("a directory can be made");
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).expect("our directory");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("our directory");
    fs::set_permissions(scratch.repository(), fs::Permissions::from_mode(0o644)).expect("ours");
    // Where this user cannot go, the programs may be: take copies.
    let binaries = scratch.join("binaries");
    fs::create_dir(&binaries).expect("a directory can be made");
    for name in ["repo-cc", "repo-ld"] {
        // By another process: what this one has open for writing cannot be run (ETXTBSY), nor what a child
        // has inherited that another test begins just now.
        let mut copy = scratch.command("cp");
        run(copy.arg(Binaries::get().path(name)).arg(&binaries)).ok();
    }
    let as_other = |words: &[&str]| {
        let mut command = scratch.command(binaries.join(words[0]));
        command.args(&words[1..]);
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        run(&mut command)
    };
    let gcc = program.plain.cc[0].to_string_lossy().into_owned();
    let failed = as_other(&["repo-cc", &gcc, "-c", "value.c", "-o", "closed/value.o"]).failed();
    assert!(
        failed.errors().contains("closed/value.o"),
        "{}",
        failed.report()
    );
    let failed = as_other(&["repo-ld", "-e", "value", "value.o", "-o", "closed/program"]);
    assert!(
        failed.errors().contains("closed/program"),
        "{}",
        failed.report()
    );
    failed.code(1);
    assert_eq!(
        fs::read_dir(&closed).expect("our directory").count(),
        0,
        "something was left"
    );
}

/// A file system of a megabyte, while it is mounted.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, and the test recorded as skipped, where we may not mount.
    fn mount(place: &Path, size: &str) -> Option<SmallDisk> {
        fs::create_dir(place).expect("a directory can be made");
        let mut mount = std::process::Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "small"])
            .arg(place);
        if !mount.output().is_ok_and(|output| output.status.success()) {
            tools::skip("the right to mount a tmpfs");
            return None;
        }
        Some(SmallDisk(place.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("--lazy")
            .arg(&self.0)
            .status();
    }
}

/// The repository's disk fills up in the middle of compiles: the build goes on
/// with ordinary objects or says what is wrong; what was stored is still there.
#[test]
fn a_full_disk() {
    let Some(program) = Program::tickets() else {
        return;
    };
    let scratch = &program.scratch;
    let Some(disk) = SmallDisk::mount(&scratch.join("disk"), "1m") else {
        return;
    };
    let repository = disk.0.join("small.repo");
    let compile = |source: &str, object: &str| {
        let mut command = program.ours.command(scratch, Language::C);
        run(command
            .env("REPO_FILE", &repository)
            .args(["-O1", "-c", source, "-o", object]))
    };
    compile("main.c", "main.o").ok();
    compile("value.c", "value.o").ok();
    // Data that nothing compresses and nobody has: two megabytes in twenty units.
    let mut random = Random(7);
    let mut full = false;
    for number in 0..20 {
        let bytes: Vec<_> = (0..100_000)
            .map(|_| random.below(256).to_string())
            .collect();
        scratch.write(
            "big.c",
            format!(
                "const unsigned char data_{number}[] = {{{}}};\n",
                bytes.join(",")
            ),
        );
        let object = format!("big{number}.o");
        let compiled = compile("big.c", &object);
        ends_cleanly(&compiled);
        if compiled.status.success() {
            let bytes = fs::read(scratch.join(&object)).expect("a compile made it");
            full |= bytes.len() > 100_000;
        } else {
            full = true;
            assert!(
                compiled.errors().contains("small.repo"),
                "{}",
                compiled.report()
            );
        }
    }
    assert!(full, "two megabytes went into a disk of one");
    let mut dump = scratch.command(Binaries::get().path("repo-dump"));
    run(dump.arg("--verify").env("REPO_FILE", &repository)).ok();
    let mut link = program.ours.command(scratch, Language::C);
    link.env("REPO_FILE", &repository)
        .args(["main.o", "value.o", "-o", "program"]);
    run(&mut link).ok();
    assert_eq!(program.execute(), RIGHT);
    // An output that does not fit: an error, and no output.
    let output = disk.0.join("program");
    let mut link = program.ours.command(scratch, Language::C);
    link.env("REPO_FILE", &repository)
        .args(["main.o", "value.o", "-static", "-o"])
        .arg(&output);
    let failed = run(&mut link).failed();
    assert!(
        failed.errors().contains("disk/program"),
        "{}",
        failed.report()
    );
    assert!(!output.exists());
}
