//! Fat objects (`repo-cc --fat`): whole objects for whoever takes them, that name their compilations as well.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const SOURCE: &str = r#"
    int counter = 2; const char *word = "a word that is long enough";
    static __attribute__((noinline)) int inner(int n) { return n + counter; }
    int unused(void) { return 99; }
    int answer(int n) { return inner(n) * 2; }"#;
const MAIN: &str = r#"
    #include <stdio.h>
    int answer(int); extern const char *word;
    int main(void) { printf("%d %s\n", answer(19), word); return 0; }"#;
const SAID: &str = "42 a word that is long enough\n";

struct Field {
    scratch: Scratch,
    gcc: PathBuf,
}

impl Field {
    /// A program of two fat objects, `a.o` and `main.o`, and the same as the compiler makes them, `plain/a.o` and `plain/main.o`.
    fn new(gcc: PathBuf, options: &[&str]) -> Field {
        let scratch = Scratch::new();
        scratch.write("a.c", SOURCE);
        scratch.write("main.c", MAIN);
        fs::create_dir(scratch.join("plain")).unwrap();
        let field = Field { scratch, gcc };
        for name in ["a", "main"] {
            let (source, object) = (format!("{name}.c"), format!("{name}.o"));
            let words = [options, &["-O1", "-c", &source, "-o"]].concat();
            field.fat(&[&words[..], &[&object]].concat()).ok();
            let plain = format!("plain/{object}");
            let sections = ["-ffunction-sections", "-fdata-sections"];
            let mut command = field.scratch.command(&field.gcc);
            run(command.args(sections).args(&words).arg(plain)).ok();
        }
        field
    }

    fn fat(&self, words: &[&str]) -> Run {
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        run(command.arg("--fat").arg(&self.gcc).args(words))
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.scratch.join(name)).unwrap()
    }

    fn tool(&self, tool: impl AsRef<Path>, words: &[&str]) -> Run {
        run(self.scratch.command(tool).args(words))
    }

    fn ours(&self, program: &str, words: &[&str]) -> Run {
        self.tool(Binaries::get().path(program), words)
    }

    /// Links by `repo-ld`; says how many tickets and objects the link is of.
    #[track_caller]
    fn link(&self, words: &[&str]) -> (u64, u64) {
        let _ = fs::remove_file(self.scratch.join("program"));
        let _ = fs::remove_file(self.scratch.join("log"));
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        command.args(["--log", "log"]).arg(&self.gcc).args(words);
        let done = run(command.args(["-o", "program"])).ok();
        assert_eq!(done.errors(), "");
        self.works();
        let log = fs::read_to_string(self.scratch.join("log")).unwrap();
        let log = log.lines().find(|line| line.starts_with("repo-ld: "));
        let log = log.expect("a line about the link");
        let number = |word: &str| {
            let before = log[..log.find(word).unwrap_or_else(|| panic!("{log}"))].trim_end();
            let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next();
            digits.unwrap().parse().unwrap_or_else(|_| panic!("{log}"))
        };
        (number(" ticket"), number(" object"))
    }

    #[track_caller]
    fn works(&self) {
        let ran = run(&mut self.scratch.command("./program")).ok();
        assert_eq!(ran.text(), SAID);
    }
}

/// The objects of the C library that every program has.
fn objects_besides(field: &Field) -> u64 {
    let (tickets, objects) = field.link(&["plain/main.o", "plain/a.o"]);
    assert_eq!(tickets, 0);
    objects - 2
}

#[test]
fn they_are_the_compilers_objects_and_a_note_behind() {
    let [gcc] = require!("gcc");
    for options in [&[][..], &["-g"]] {
        let field = Field::new(gcc.clone(), options);
        for name in ["a.o", "main.o"] {
            let (fat, plain) = (field.read(name), field.read(&format!("plain/{name}")));
            assert!(fat.starts_with(&plain));
            assert!(fat.len() - plain.len() < 250, "{}", fat.len() - plain.len());
            assert!(fat.ends_with(b"RepoNote"));
            assert_eq!(tickets::within_fat(&fat), Some(&plain[..]));
        }
        let besides = objects_besides(&field);
        assert_eq!(field.link(&["main.o", "a.o"]), (2, besides));
        // The compilations of fat objects and of tickets are the same.
        let shown = field.ours("repo-dump", &["a.o"]).ok().text();
        assert!(shown.starts_with("fat object:"), "{shown}");
        let mut command = field.scratch.command(Binaries::get().path("repo-cc"));
        command
            .env("REPO_CC_FAT", "0")
            .arg(&field.gcc)
            .args(options);
        run(command.args(["-O1", "-c", "a.c", "-o", "ticket.o"])).ok();
        assert!(field.read("ticket.o").len() < 1500);
        let of_ticket = field.ours("repo-dump", &["ticket.o"]).ok().text();
        let compilation = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("compilation "));
            line.map(str::to_owned).expect("a compilation")
        };
        assert_eq!(compilation(&shown), compilation(&of_ticket));
        assert_eq!(field.link(&["main.o", "ticket.o"]), (2, besides));
    }
}

#[test]
fn the_variable_asks_for_them_too() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc, &[]);
    for (value, is_fat) in [("1", true), ("yes", true), ("0", false), ("", false)] {
        let mut command = field.scratch.command(Binaries::get().path("repo-cc"));
        command.env("REPO_CC_FAT", value).arg(&field.gcc);
        run(command.args(["-c", "a.c", "-o", "v.o"])).ok();
        assert_eq!(tickets::is_fat(&field.read("v.o")), is_fat, "{value:?}");
        assert!(is_ticket_file(field.scratch.join("v.o")));
    }
    // A compile without our options.
    let mut command = field.scratch.command(Binaries::get().path("repo-cc"));
    run(command.args(["--fat", "-c", "a.c", "-o", "w.o"])).ok();
    assert!(tickets::is_fat(&field.read("w.o")));
}

#[test]
fn build_scripts_of_cargo_get_them_where_rustc_links_otherwise() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc, &[]);
    let links = field.scratch.join("links");
    fs::create_dir_all(&links).expect("a directory");
    for name in ["cc", "repo-gcc"] {
        let of = Binaries::get().path("repo-cc");
        symlink(of, links.join(name)).expect("a link");
    }
    let script: &[(&str, &str)] = &[("OUT_DIR", "/o"), ("CARGO_CFG_UNIX", "")];
    let path = std::env::var("PATH").expect("a path");
    let with_links = format!("{}:{path}", links.display());
    let ours = links.join("repo-gcc").display().to_string();
    for (more, is_fat) in [
        (&[][..], true),
        (&[("RUSTC_LINKER", "gcc")], true),
        (&[("RUSTC_LINKER", &*ours)], false),
        (&[("PATH", &*with_links)], false),
        (&[("PATH", &*with_links), ("RUSTC_LINKER", "gcc")], true),
        (
            &[("PATH", &*with_links), ("RUSTC_LINKER", "repo-gcc")],
            false,
        ),
        (
            &[(
                "CARGO_ENCODED_RUSTFLAGS",
                "-Copt-level=3\u{1f}-Clink-arg=-fuse-ld=repo",
            )],
            false,
        ),
        (&[("CARGO_ENCODED_RUSTFLAGS", "-Clinker=clang")], true),
        (&[("REPO_CC_FAT", "0")], false),
    ] {
        let mut command = field.scratch.command(Binaries::get().path("repo-cc"));
        for name in ["RUSTC_LINKER", "CARGO_ENCODED_RUSTFLAGS"] {
            command.env_remove(name);
        }
        command
            .envs(script.iter().copied())
            .envs(more.iter().copied());
        command.arg(&field.gcc).args(["-c", "a.c", "-o", "s.o"]);
        run(&mut command).ok();
        assert_eq!(tickets::is_fat(&field.read("s.o")), is_fat, "{more:?}");
    }
    // What cargo runs otherwise has one of the two.
    let mut command = field.scratch.command(Binaries::get().path("repo-cc"));
    command.env("OUT_DIR", "/o").arg(&field.gcc);
    run(command.args(["-c", "a.c", "-o", "s.o"])).ok();
    assert!(!tickets::is_fat(&field.read("s.o")));
}

#[test]
fn every_linker_takes_them_and_leaves_the_note_out() {
    let [gcc] = require!("gcc");
    for options in [&[][..], &["-g"]] {
        let field = Field::new(gcc.clone(), options);
        let linkers = [
            ("ld", "bfd"),
            ("gold", "gold"),
            ("ld.lld", "lld"),
            ("mold", "mold"),
        ];
        for (name, chosen) in linkers {
            let Some(linker) = tools::find(name) else {
                tools::skip(&format!("fat objects by {name}"));
                continue;
            };
            // gcc looks for the name without a version.
            let directory = format!("linker-{chosen}");
            let at = field.scratch.join(&directory);
            fs::create_dir(&at).unwrap();
            std::os::unix::fs::symlink(&linker, at.join("ld")).unwrap();
            let with = format!("-B{directory}");
            let outputs = |objects: &[&str], output: &str| {
                let words = [&[&with[..], "-Wl,--build-id=none", "-o", output], objects].concat();
                field.tool(&field.gcc, &words).ok();
                field.read(output)
            };
            let fat = outputs(&["main.o", "a.o"], "program");
            field.works();
            let plain = outputs(&["plain/main.o", "plain/a.o"], "plain/program");
            assert!(memchr_of(&fat, b"RepoNote").is_none(), "{name}");
            assert_eq!(fat.len(), plain.len(), "{name}");
            // A merged object is one as any other.
            let words = ["-r", "-o", "merged.o", "main.o", "a.o"];
            field.tool(&linker, &words).ok();
            let merged = field.read("merged.o");
            let plain = ["-r", "-o", "plain/merged.o", "plain/main.o", "plain/a.o"];
            field.tool(&linker, &plain).ok();
            assert!(merged == field.read("plain/merged.o"), "{name}");
            assert!(!is_ticket_file(field.scratch.join("merged.o")), "{name}");
            let besides = objects_besides(&field);
            assert_eq!(field.link(&["merged.o"]), (0, besides + 1), "{name}");
        }
        // And ours.
        let words = ["-r", "-o", "merged.o", "main.o", "a.o"];
        field.ours("repo-ld", &words).ok();
        assert!(!is_ticket_file(field.scratch.join("merged.o")));
        let besides = objects_besides(&field);
        assert_eq!(field.link(&["merged.o"]), (0, besides + 1));
    }
}

fn memchr_of(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|window| window == word)
}

#[test]
fn tools_make_of_them_what_they_make_of_objects() {
    let [gcc, objcopy, strip] = require!("gcc", "objcopy", "strip");
    let field = Field::new(gcc, &["-g"]);
    let besides = objects_besides(&field);
    let edits: &[(&Path, &[&str])] = &[
        (&objcopy, &[]),
        (&objcopy, &["--weaken"]),
        (&objcopy, &["--strip-debug"]),
        (&objcopy, &["--globalize-symbol=inner"]),
        (&strip, &["-g"]),
        (&strip, &["--strip-unneeded"]),
    ];
    for (tool, words) in edits {
        let made = |object: &str| {
            fs::copy(field.scratch.join(object), field.scratch.join("edited.o")).unwrap();
            field.tool(tool, &[words, &["edited.o"][..]].concat()).ok();
            field.read("edited.o")
        };
        let (of_plain, of_fat) = (made("plain/a.o"), made("a.o"));
        assert!(of_fat == of_plain, "{} {words:?}", tool.display());
        assert_eq!(field.link(&["main.o", "edited.o"]), (1, besides + 1));
    }
    // A changed name is a changed name.
    let rename = ["--redefine-sym", "answer=question", "a.o", "edited.o"];
    field.tool(&objcopy, &rename).ok();
    let mut command = field.scratch.command(Binaries::get().path("repo-cc"));
    command.arg(&field.gcc);
    let failed = run(command.args(["main.o", "edited.o", "-o", "program"])).failed();
    assert!(failed.errors().contains("answer"), "{}", failed.report());
}

/// Not a time: who changes a byte and nothing else has changed the object.
#[test]
fn one_changed_byte_is_heeded() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc, &[]);
    let besides = objects_besides(&field);
    let mut object = field.read("a.o");
    let at = memchr_of(&object, b"long enough").unwrap();
    object[at] = b'L';
    field.scratch.write("a.o", &object);
    let done = field.ours("repo-dump", &["a.o"]).code(2);
    assert!(
        done.errors().contains("has been changed"),
        "{}",
        done.report()
    );
    let mut command = field.scratch.command(Binaries::get().path("repo-cc"));
    run(command
        .arg(&field.gcc)
        .args(["main.o", "a.o", "-o", "program"]))
    .ok();
    let ran = run(&mut field.scratch.command("./program")).ok();
    assert_eq!(ran.text(), SAID.replace("long", "Long"));
    // A copy is as good as the original, whenever it was made.
    fs::copy(field.scratch.join("main.o"), field.scratch.join("copy.o")).unwrap();
    object[at] = b'l';
    field.scratch.write("a.o", &object);
    assert_eq!(field.link(&["copy.o", "a.o"]), (2, besides));
    // Cut off, or with something behind, it is an object.
    let whole = field.read("a.o");
    for changed in [
        [&whole[..], b"x"].concat(),
        whole[..whole.len() - 1].to_vec(),
    ] {
        field.scratch.write("a.o", changed);
        assert_eq!(field.link(&["main.o", "a.o"]), (1, besides + 1));
    }
}

#[test]
fn without_their_repository_they_are_objects() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc, &["-g"]);
    let besides = objects_besides(&field);
    // Moved away; another one in its place; something else.
    let (place, moved) = (field.scratch.repository(), field.scratch.join("moved"));
    fs::rename(&place, &moved).unwrap();
    assert_eq!(field.link(&["main.o", "a.o"]), (0, besides + 2));
    field.fat(&["-c", "a.c", "-o", "new.o"]).ok();
    assert_eq!(field.link(&["main.o", "a.o"]), (0, besides + 2));
    assert_eq!(field.link(&["main.o", "new.o"]), (1, besides + 1));
    fs::write(&place, "no repository").unwrap();
    assert_eq!(field.link(&["main.o", "a.o"]), (0, besides + 2));
    // Found by its UUID.
    fs::remove_file(&place).unwrap();
    let _ = fs::remove_file(field.scratch.join("program"));
    let mut command = field.scratch.command(Binaries::get().path("repo-cc"));
    command.env("REPO_FILE", &moved).args(["--log", "log2"]);
    run(command
        .arg(&field.gcc)
        .args(["main.o", "a.o", "-o", "program"]))
    .ok();
    let log = fs::read_to_string(field.scratch.join("log2")).unwrap();
    assert!(log.contains("2 tickets"), "{log}");
}

#[test]
fn archives_of_them_work_everywhere() {
    let [gcc, ar, strip] = require!("gcc", "ar", "strip");
    let field = Field::new(gcc, &["-g"]);
    let besides = objects_besides(&field);
    field.tool(&ar, &["rcs", "libfat.a", "a.o"]).ok();
    assert_eq!(field.link(&["main.o", "libfat.a"]), (2, besides));
    field.tool(&ar, &["rcsT", "thin.a", "a.o"]).ok();
    assert_eq!(field.link(&["main.o", "thin.a"]), (2, besides));
    field
        .tool(&field.gcc, &["main.o", "libfat.a", "-o", "program"])
        .ok();
    field.works();
    // As distributions do it: nothing but the object is left.
    field.tool(&strip, &["-g", "libfat.a"]).ok();
    assert!(memchr_of(&field.read("libfat.a"), b"RepoNote").is_none());
    assert_eq!(field.link(&["main.o", "libfat.a"]), (1, besides + 1));
}

#[test]
fn they_are_roots_for_the_compactor() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc, &[]);
    let besides = objects_besides(&field);
    field
        .ours("repo-gc", &["--grace", "0s", "--unused", "0s"])
        .ok();
    assert_eq!(field.link(&["main.o", "a.o"]), (2, besides));
    let listed = field.ours("repo-dump", &["tickets"]).ok().text();
    assert_eq!(listed.matches("live").count(), 2, "{listed}");
    // In an archive, without the object's own file and without the program.
    field.tool(&ar, &["rcs", "libfat.a", "a.o"]).ok();
    for name in ["a.o", "program"] {
        fs::remove_file(field.scratch.join(name)).unwrap();
    }
    field
        .ours("repo-gc", &["--grace", "0s", "--unused", "0s"])
        .ok();
    assert_eq!(field.link(&["main.o", "libfat.a"]), (2, besides));
    for name in ["libfat.a", "program"] {
        fs::remove_file(field.scratch.join(name)).unwrap();
    }
    field
        .ours("repo-gc", &["--grace", "0s", "--unused", "0s"])
        .ok();
    let left = field.ours("repo-dump", &["compilations"]).ok().text();
    assert!(!left.contains("a.o"), "{left}");
}
