//! Tickets whose repository is gone: those that say how they were made are made again by the link, and of all others a build
//! is told what to do. No command out of a file runs that the user's own `repo-cc` has not put at that very place.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::fs;
use std::path::PathBuf;

struct Field {
    scratch: Scratch,
    gcc: PathBuf,
}

impl Field {
    /// A program of three tickets in a directory of their own.
    fn new(gcc: PathBuf) -> Field {
        let scratch = Scratch::new();
        for (name, text) in [
            (
                "w/main.c",
                "int f(void), g(void); int main(void) { return f() + g() - 3; }",
            ),
            ("w/f.c", "int f(void) { return VALUE; }"),
            ("w/g.c", "int g(void) { return 2; }"),
        ] {
            scratch.write(name, text);
        }
        let field = Field { scratch, gcc };
        for name in ["main", "f", "g"] {
            field.compile(name);
        }
        field
    }

    fn command(&self, words: &[&str]) -> std::process::Command {
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        command.arg(&self.gcc).args(words);
        command.current_dir(self.scratch.join("w"));
        command
    }

    fn compile(&self, name: &str) {
        let (source, object) = (format!("{name}.c"), format!("{name}.o"));
        let words = ["-O1", "-DVALUE=1", "-c", &source, "-o", &object];
        run(&mut self.command(&words)).ok();
        assert!(self.is_ticket(&object));
    }

    fn is_ticket(&self, name: &str) -> bool {
        is_ticket_file(self.scratch.join("w").join(name))
    }

    fn is_there(&self, name: &str) -> bool {
        self.scratch.join("w").join(name).exists()
    }

    fn lose(&self) {
        fs::remove_file(self.scratch.repository()).unwrap();
    }

    fn link(&self, words: &[&str]) -> Run {
        let _ = fs::remove_file(self.scratch.join("w/program"));
        run(&mut self.command(&[words, &["-o", "program"]].concat()))
    }

    fn works(&self) {
        let mut program = self.scratch.command(self.scratch.join("w/program"));
        run(&mut program).ok();
    }
}

const ALL: [&str; 3] = ["main.o", "f.o", "g.o"];

#[test]
fn they_are_made_again_by_their_commands() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc);
    field.lose();
    let linked = field.link(&ALL).ok();
    let errors = linked.errors();
    assert!(errors.contains("3 lost tickets are made again"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    field.works();
    assert!(ALL.iter().all(|name| field.is_ticket(name)));
    // From then on they are as before.
    assert_eq!(field.link(&ALL).ok().errors(), "");
    // Another repository in the old one's place, and one that lacks a compilation.
    field.lose();
    field.compile("f");
    let linked = field.link(&ALL).ok();
    assert!(
        linked.errors().contains("2 lost tickets"),
        "{}",
        linked.report()
    );
    field.works();
    // Found by its UUID, a repository elsewhere makes that unnecessary.
    let moved = field.scratch.join("moved.repo");
    fs::rename(field.scratch.repository(), &moved).unwrap();
    let mut command = field.command(&["main.o", "f.o", "g.o", "-o", "program"]);
    assert_eq!(run(command.env("REPO_FILE", &moved)).ok().errors(), "");
}

#[test]
fn those_that_are_not_are_set_aside() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc);
    field.lose();
    let linked = field
        .link(&["main.o", "f.o", "g.o", "-Wl,--no-remake"])
        .failed();
    let errors = linked.errors();
    assert!(
        errors.contains("3 tickets are lost: main.o, f.o, g.o"),
        "{errors}"
    );
    assert!(errors.contains("start the build again"), "{errors}");
    for name in ALL {
        assert!(
            !field.is_there(name) && field.is_there(&format!("{name}.lost")),
            "{name}"
        );
    }

    // What is not where it was made: a copy, and a member of an archive. The objects of the archive are lost, too.
    for name in ["main", "f", "g"] {
        field.compile(name);
    }
    let in_w = |name: &str| field.scratch.join("w").join(name);
    fs::copy(in_w("f.o"), in_w("copy.o")).unwrap();
    run(field
        .scratch
        .command(&ar)
        .arg("rcs")
        .arg(in_w("library.a"))
        .arg(in_w("g.o")))
    .ok();
    field.lose();
    let linked = field.link(&["main.o", "copy.o", "library.a"]).failed();
    let errors = linked.errors();
    assert!(errors.contains("1 lost ticket is made again"), "{errors}");
    assert!(errors.contains("copy.o, library.a(g.o)"), "{errors}");
    for name in ["copy.o", "library.a", "g.o"] {
        assert!(
            !field.is_there(name) && field.is_there(&format!("{name}.lost")),
            "{name}"
        );
    }
    assert!(field.is_there("main.o") && field.is_there("f.o"));
}

#[test]
fn no_command_runs_that_is_not_the_users_own() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc);
    // Without the key, with another, and with one that others can read.
    let key = field.scratch.join("config/program-repository/key");
    let right = fs::read(&key).unwrap();
    let shared = || {
        use std::os::unix::fs::PermissionsExt;
        fs::write(&key, &right).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    };
    let spoil: [&dyn Fn(); 3] = [
        &|| fs::remove_file(&key).unwrap(),
        &|| fs::write(&key, [7; 32]).unwrap(),
        &shared,
    ];
    for spoil in spoil {
        for name in ["main", "f", "g"] {
            field.compile(name);
        }
        let kept = fs::read(&key).unwrap();
        field.lose();
        spoil();
        let linked = field.link(&ALL).failed();
        assert!(
            !linked.errors().contains("made again"),
            "{}",
            linked.report()
        );
        assert!(
            linked.errors().contains("3 tickets are lost"),
            "{}",
            linked.report()
        );
        fs::remove_file(&key).ok();
        fs::write(&key, kept).unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    }
    // A signed one that somebody has changed since.
    field.compile("f");
    let path = field.scratch.join("w/f.o");
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len() - 1;
    bytes[end] ^= 1;
    fs::write(&path, bytes).unwrap();
    field.lose();
    let linked = field.link(&["f.o"]).failed();
    assert!(
        !linked.errors().contains("made again"),
        "{}",
        linked.report()
    );
}

/// A command that fails now is an error as it would be in the build.
#[test]
fn a_command_that_fails_is_shown() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc);
    field.lose();
    fs::remove_file(field.scratch.join("w/f.c")).unwrap();
    let linked = field.link(&ALL).failed();
    let errors = linked.errors();
    assert!(
        errors.contains("failed: repo-cc") && errors.contains("-c f.c"),
        "{errors}"
    );
    assert!(
        errors.contains("error: f.o: it belongs to repository"),
        "{errors}"
    );
}
