//! `RUSTC_WRAPPER=repo-cc`: libraries that rustc has made before come from the repository, as rustc would make them again.

use repo_tests::binaries::Binaries;
use repo_tests::process::run;
use repo_tests::scratch::{Scratch, settle};
use repo_tests::tools;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A workspace of two libraries and a program.
struct Workspace {
    scratch: Scratch,
    cargo: PathBuf,
}

/// What a build left, by names.
type Libraries = BTreeMap<String, Vec<u8>>;

impl Workspace {
    fn new(cargo: PathBuf) -> Workspace {
        let scratch = Scratch::new();
        let package = |name: &str, more: &str| {
            format!("[package]\nname = \"{name}\"\nversion = \"1.2.3\"\nedition = \"2021\"\n{more}")
        };
        scratch.write(
            "w/Cargo.toml",
            "[workspace]\nresolver = \"2\"\nmembers = [\"low\", \"high\", \"program\"]\n\
             [profile.dev]\nincremental = false\n",
        );
        scratch.write("w/low/Cargo.toml", package("low", ""));
        scratch.write(
            "w/low/src/lib.rs",
            "mod inner;\n#[inline]\npub fn f() -> String { format!(\"{} {} {}\", inner::N, \
             include_str!(\"text\").trim(), env!(\"CARGO_PKG_VERSION\")) }\n\
             pub fn set() -> Option<&'static str> { option_env!(\"OF_THE_TEST\") }\n\
             fn unused() {}\n",
        );
        scratch.write("w/low/src/inner.rs", "pub const N: u32 = 1;\n");
        scratch.write("w/low/src/text", "text\n");
        let low = "[dependencies]\nlow = { path = \"../low\" }\n";
        scratch.write("w/high/Cargo.toml", package("high", low));
        scratch.write(
            "w/high/src/lib.rs",
            "pub fn g() -> String { format!(\"<{} {:?}>\", low::f(), low::set()) }\n",
        );
        let high = "[dependencies]\nhigh = { path = \"../high\" }\n";
        scratch.write("w/program/Cargo.toml", package("program", high));
        scratch.write(
            "w/program/src/main.rs",
            "fn main() { println!(\"{}\", high::g()) }\n",
        );
        Workspace { scratch, cargo }
    }

    fn command(&self, target: &Path, arguments: &[&str]) -> Command {
        let mut command = self.scratch.command(&self.cargo);
        command
            .current_dir(self.scratch.join("w"))
            .env("CARGO_TARGET_DIR", target)
            .env("REPO_LOG", self.scratch.join("log"))
            .env_remove("RUSTC_WRAPPER")
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("OF_THE_TEST")
            .args(arguments)
            .args(["--offline", "--quiet"]);
        command
    }

    /// Builds in a new directory, and says what the program prints, what cargo said, and what libraries there are.
    fn build(&self, wrapped: bool, change: &dyn Fn(&mut Command)) -> (String, String, Libraries) {
        // The same each time, for its path gets into what is made.
        let target = self.scratch.join(if wrapped { "target" } else { "plain" });
        let _ = fs::remove_dir_all(&target);
        let _ = fs::remove_file(self.scratch.join("log"));
        let mut command = self.command(&target, &["build"]);
        if wrapped {
            command.env("RUSTC_WRAPPER", Binaries::get().path("repo-cc"));
        }
        change(&mut command);
        let errors = run(&mut command).ok().errors();
        let printed = run(&mut Command::new(target.join("debug/program")))
            .ok()
            .text();
        let mut libraries = Libraries::new();
        for entry in fs::read_dir(target.join("debug/deps")).expect("outputs") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            if name.ends_with(".rlib") || name.ends_with(".rmeta") {
                libraries.insert(name, fs::read(&path).expect("a library"));
            } else if name.ends_with(".d") && !name.starts_with("program") {
                let text = fs::read_to_string(&path).expect("a list");
                let text = text.replace(target.to_str().expect("UTF-8"), "");
                libraries.insert(name, text.into_bytes());
            }
        }
        assert!(libraries.len() >= 6, "{:?}", libraries.keys());
        (printed, errors, libraries)
    }

    fn hits(&self) -> usize {
        let log = fs::read_to_string(self.scratch.join("log")).unwrap_or_default();
        log.matches("hit: the compiler is not run").count()
    }

    /// Builds with and without us; asserts that it is the same, and that so many libraries were known.
    #[track_caller]
    fn check(&self, hits: usize, change: &dyn Fn(&mut Command)) -> String {
        let wrapped = self.build(true, change);
        let log = fs::read_to_string(self.scratch.join("log")).unwrap_or_default();
        assert_eq!(self.hits(), hits, "{log}");
        let plain = self.build(false, change);
        assert_eq!(wrapped.0, plain.0, "the program");
        assert_eq!(wrapped.1, plain.1, "what was said");
        let names = |of: &Libraries| of.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&wrapped.2), names(&plain.2));
        for (name, bytes) in &wrapped.2 {
            assert!(plain.2[name] == *bytes, "{name} is another one\n{log}");
        }
        wrapped.0
    }
}

#[test]
fn libraries_are_made_once() {
    let Some([cargo]) = tools::require(["cargo"]) else {
        return;
    };
    let it = Workspace::new(cargo);
    let nothing = |_: &mut Command| {};
    // What is as old as the compile is not recorded.
    settle();
    assert_eq!(it.check(0, &nothing), "<1 text 1.2.3 None>\n");
    it.check(2, &nothing);
    let edit = |name: &str, text: &str| {
        it.scratch.write(Path::new("w").join(name), text);
        settle();
    };
    // A module; and what follows from it.
    edit("low/src/inner.rs", "pub const N: u32 = 2;\n");
    assert_eq!(it.check(0, &nothing), "<2 text 1.2.3 None>\n");
    it.check(2, &nothing);
    // What is only included.
    edit("low/src/text", "more\n");
    assert_eq!(it.check(0, &nothing), "<2 more 1.2.3 None>\n");
    it.check(2, &nothing);
    // A variable, that only one of them asks for: the other one sees it in what it uses.
    let set = |command: &mut Command| {
        command.env("OF_THE_TEST", "set");
    };
    assert_eq!(it.check(0, &set), "<2 more 1.2.3 Some(\"set\")>\n");
    it.check(2, &set);
    it.check(2, &nothing);
    // Options.
    let optimised = |command: &mut Command| {
        command.env("RUSTFLAGS", "-Copt-level=2");
    };
    it.check(0, &optimised);
    it.check(2, &optimised);
    // Back again.
    edit("low/src/inner.rs", "pub const N: u32 = 1;\n");
    edit("low/src/text", "text\n");
    it.check(2, &nothing);
    // The other one alone.
    edit("high/src/lib.rs", "pub fn g() -> String { low::f() }\n");
    assert_eq!(it.check(1, &nothing), "1 text 1.2.3\n");
    // Another directory of outputs.
    let target = it.scratch.join("elsewhere/target");
    let _ = fs::remove_file(it.scratch.join("log"));
    let mut command = it.command(&target, &["build"]);
    command.env("RUSTC_WRAPPER", Binaries::get().path("repo-cc"));
    run(&mut command).ok();
    assert_eq!(it.hits(), 2);
    let list = fs::read_dir(target.join("debug/deps")).expect("outputs");
    let list = list.flatten().find(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("low-") && name.ends_with(".d")
    });
    let text = fs::read_to_string(list.expect("a list").path()).expect("readable");
    assert!(text.contains("elsewhere/target"), "{text}");
    // Nothing is done that need not be, and checks have entries of their own.
    let mut command = it.command(&target, &["build"]);
    command.env("RUSTC_WRAPPER", Binaries::get().path("repo-cc"));
    let _ = fs::remove_file(it.scratch.join("log"));
    run(&mut command).ok();
    assert_eq!(it.hits(), 0);
    let mut command = it.scratch.command(Binaries::get().path("repo-dump"));
    run(command.args(["--verify"])).ok();
    let mut command = it.scratch.command(Binaries::get().path("repo-dump"));
    let listed = run(command.args(["manifests", "low"])).ok().text();
    assert!(listed.contains("--crate-name low"), "{listed}");
}

#[test]
fn what_is_not_kept_is_said() {
    let Some([cargo]) = tools::require(["cargo"]) else {
        return;
    };
    let it = Workspace::new(cargo);
    let manifest = it.scratch.join("w/Cargo.toml");
    let text = fs::read_to_string(&manifest).expect("there");
    fs::write(&manifest, text.replace("false", "true")).expect("written");
    for _ in 0..2 {
        let (printed, _, _) = it.build(true, &|_| {});
        assert_eq!(printed, "<1 text 1.2.3 None>\n");
        let log = fs::read_to_string(it.scratch.join("log")).expect("a log");
        let said = |what: &str| log.matches(what).count();
        assert_eq!(said("ordinary: incremental compilation"), 2, "{log}");
        assert_eq!(said("ordinary: a program, or a shared library"), 1, "{log}");
        assert_eq!(it.hits(), 0);
    }
    // Switched off.
    fs::write(&manifest, text).expect("written");
    for _ in 0..2 {
        it.build(true, &|command| {
            command.env("REPO_CC_DISABLE", "1");
        });
        assert_eq!(it.hits(), 0);
    }
}

#[test]
fn what_reads_files_that_nobody_lists_is_compiled_each_time() {
    let Some([cargo]) = tools::require(["cargo"]) else {
        return;
    };
    let it = Workspace::new(cargo);
    let file = it.scratch.write("data", "some bytes");
    let file = file.to_str().expect("UTF-8");
    let functions =
        "pub fn f() -> String { String::new() }\npub fn set() -> Option<&'static str> { None }\n";
    for more in [
        format!(
            "core::arch::global_asm!(\".pushsection .x\", \".INCBIN \\\"{file}\\\"\", \".popsection\");\n"
        ),
        format!(
            "use core::arch::global_asm as assemble;\n\
                 assemble!(\".pushsection .x\", concat!(\".inc\", \"bin\", \" \\\"{file}\\\"\"), \".popsection\");\n"
        ),
    ] {
        it.scratch
            .write("w/low/src/lib.rs", format!("{functions}{more}"));
        settle();
        for _ in 0..2 {
            it.build(true, &|_| {});
            let log = fs::read_to_string(it.scratch.join("log")).unwrap_or_default();
            let is_hit = |line: &str| line.contains(" low-") && line.contains("hit: ");
            assert!(
                log.contains("repo-cc: ") && !log.lines().any(is_hit),
                "{more}: {log}"
            );
        }
    }
}

/// A library that rustc itself is called for.
struct Library {
    scratch: Scratch,
    rustc: PathBuf,
}

impl Library {
    fn new() -> Option<Library> {
        let [rustc] = tools::require(["rustc"])?;
        let scratch = Scratch::new();
        Some(Library { scratch, rustc })
    }

    /// Calls a compiler, alone or by way of us: what it wrote into a directory that may have a slash behind, what it said, and whether it was known.
    fn call(
        &self,
        (rustc, is_ours): (&Path, bool),
        directory: &str,
        more: &[&str],
    ) -> (Libraries, String, bool) {
        let out = self.scratch.join(directory);
        let _ = fs::remove_dir_all(&out);
        let _ = fs::remove_file(self.scratch.join("log"));
        let mut command = match is_ours {
            true => {
                let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
                command
                    .arg("--log")
                    .arg(self.scratch.join("log"))
                    .arg(rustc);
                command
            }
            false => self.scratch.command(rustc),
        };
        fs::create_dir(&out).expect("a directory");
        let out = format!("{}/{directory}", self.scratch.path().display());
        command
            .args("--crate-name m --edition=2021 lib.rs --crate-type lib".split(' '))
            .args("--emit=dep-info,metadata,link -Cmetadata=1 --error-format=json".split(' '))
            .args(["--json=artifacts", "--out-dir", &out])
            .args(more);
        let errors = run(&mut command).ok().errors();
        let log = fs::read_to_string(self.scratch.join("log")).unwrap_or_default();
        let entries = fs::read_dir(&out).expect("outputs").flatten();
        let read = |path: PathBuf| fs::read(path).expect("a file");
        let libraries = entries
            .map(|entry| {
                (
                    entry.file_name().to_string_lossy().into_owned(),
                    read(entry.path()),
                )
            })
            .collect();
        (libraries, errors, log.contains("hit: "))
    }

    /// Compiles with and without us, and asserts that it is the same. Whether it was known.
    #[track_caller]
    fn check(&self, rustc: &Path, directory: &str, more: &[&str]) -> bool {
        settle();
        let (ours, said, is_hit) = self.call((rustc, true), directory, more);
        let (plain, plainly, _) = self.call((rustc, false), directory, more);
        assert_eq!(said, plainly);
        assert!(ours == plain, "{:?} {:?}", ours.keys(), plain.keys());
        is_hit
    }
}

#[test]
fn files_with_unusual_names() {
    let Some(it) = Library::new() else { return };
    it.scratch.write(
        "lib.rs",
        "pub const A: &str = include_str!(\"a$$b\");\npub const B: &str = include_str!(\"c\\\\#d e\");\n",
    );
    for name in ["a$$b", "a$b", "c\\#d e", "c#d e"] {
        it.scratch.write(name, "1");
    }
    it.check(&it.rustc, "out", &[]);
    assert!(it.check(&it.rustc, "out", &[]));
    for name in ["a$$b", "c\\#d e"] {
        it.scratch.write(name, "2");
        assert!(!it.check(&it.rustc, "out", &[]), "{name}");
        assert!(it.check(&it.rustc, "out", &[]), "{name}");
    }
}

#[test]
fn directories_with_a_slash_behind() {
    let Some(it) = Library::new() else { return };
    it.scratch.write("lib.rs", "pub fn f() { let x = 1; }\n");
    it.check(&it.rustc, "out", &[]);
    for directory in ["out/", "other", "other/"] {
        assert!(it.check(&it.rustc, directory, &[]), "{directory}");
    }
    assert!(!it.check(&it.rustc, "other//", &[]));
}

#[test]
fn scripts_that_call_rustc() {
    let Some(it) = Library::new() else { return };
    it.scratch.write(
        "lib.rs",
        "#[cfg(more)]\npub fn f() -> u8 { 1 }\n#[cfg(not(more))]\npub fn f() -> u8 { 2 }\n",
    );
    let script = it.scratch.join("bin/rustc");
    for more in ["", "--cfg more", ""] {
        let text = format!("#!/bin/sh\nexec '{}' \"$@\" {more}\n", it.rustc.display());
        it.scratch.write("bin/rustc", text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&script, mode).expect("a mode");
        assert!(!it.check(&script, "out", &["--check-cfg=cfg(more)"]));
    }
}

#[test]
fn native_libraries_that_a_macro_names() {
    let Some([compiler, ar]) = tools::require(["gcc", "ar"]) else {
        return;
    };
    let Some(it) = Library::new() else { return };
    it.scratch.write(
        "lib.rs",
        "macro_rules! l { ($a:ident) => { #[$a(name = \"q\", kind = \"static\")] extern \"C\" { pub fn q() -> i32; } } }\nl!(link);\n",
    );
    for value in 1..3 {
        it.scratch
            .write("q.c", format!("int q(void) {{ return {value}; }}\n"));
        run(it.scratch.command(&compiler).args(["-c", "q.c"])).ok();
        run(it.scratch.command(&ar).args(["rcsD", "libq.a", "q.o"])).ok();
        assert!(!it.check(&it.rustc, "out", &["-Lnative=."]));
    }
}

#[test]
fn programs_are_linked_by_us_below_rustc() {
    let Some([compiler, ar]) = tools::require(["gcc", "ar"]) else {
        return;
    };
    let Some(it) = Library::new() else { return };
    let repo_cc = Binaries::get().path("repo-cc");
    let linker = it.scratch.join("repo-gcc");
    std::os::unix::fs::symlink(repo_cc, &linker).expect("a link");
    it.scratch.write("f.c", "int f(void) { return 4; }\n");
    it.scratch.write(
        "main.rs",
        "unsafe extern \"C\" { safe fn f() -> i32; }\nfn main() { println!(\"{}\", f()) }\n",
    );
    run((it.scratch.command(repo_cc).arg(&compiler)).args(["-c", "f.c"])).ok();
    run(it.scratch.command(&ar).args(["rcs", "libf.a", "f.o"])).ok();
    let linker = format!("-Clinker={}", linker.display());
    let mut command = it.scratch.command(repo_cc);
    command
        .arg(&it.rustc)
        .args(["main.rs", "-Lnative=.", "-lstatic=f", &linker]);
    run(&mut command).ok();
    let printed = run(&mut it.scratch.command(it.scratch.join("main"))).ok();
    assert_eq!(printed.text(), "4\n");
}
