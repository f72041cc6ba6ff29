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

/// A command does not say what else a compiler reads.
#[test]
fn what_became_another_is_named() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc);
    field
        .scratch
        .write("w/h.c", "#include <value.h>\nint h = VALUE;");
    field.scratch.write("w/one/value.h", "#define VALUE 1");
    field.scratch.write("w/two/value.h", "#define VALUE 2");
    let words = ["-O1", "-c", "h.c", "-o", "h.o"];
    run(field.command(&words).env("CPATH", "one")).ok();
    let link = |path: &str| {
        field.lose();
        let mut command = field.command(&["main.o", "f.o", "g.o", "h.o", "-o", "program"]);
        run(command.env("CPATH", path)).ok().errors()
    };
    let same = link("one");
    assert_eq!(same.lines().count(), 1, "{same}");
    let another = link("two");
    assert_eq!(another.lines().count(), 2, "{another}");
    let named = another.lines().last().unwrap_or_default();
    assert!(
        named.contains("not what the lost tickets stood for") && named.ends_with(": h.o"),
        "{another}"
    );
    let same = link("two");
    assert_eq!(same.lines().count(), 1, "{same}");
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
    field.compile("main");
    let linked = field
        .link(&["main.o", "copy.o", "library.a", "-Wl,--no-remake"])
        .failed();
    let errors = linked.errors();
    assert!(errors.contains("copy.o, library.a(g.o)"), "{errors}");
    for name in ["copy.o", "library.a", "g.o"] {
        assert!(
            !field.is_there(name) && field.is_there(&format!("{name}.lost")),
            "{name}"
        );
    }
    assert!(field.is_there("f.o"));
}

/// A member of an archive of the build is made again as the object that it was made of, which takes its place.
#[test]
fn members_are_made_again_as_their_objects() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc);
    let w = |name: &str| field.scratch.join("w").join(name);
    let archive = |words: &[&str]| {
        let _ = fs::remove_file(w("library.a"));
        let mut command = field.scratch.command(&ar);
        run(command.current_dir(w("")).args(words)).ok();
    };
    for form in ["rcs", "rcsT"] {
        for name in ["main", "f", "g"] {
            field.compile(name);
        }
        archive(&[form, "library.a", "f.o", "g.o"]);
        field.lose();
        let errors = field.link(&["main.o", "library.a"]).ok().errors();
        assert!(errors.contains("made again"), "{errors}");
        field.works();
        assert!(ALL.iter().all(|name| field.is_ticket(name)));
        // The archive has the lost ones still; the objects are there.
        assert_eq!(field.link(&["main.o", "library.a"]).ok().errors(), "");
        field.works();
        assert_eq!(
            field
                .link(&[
                    "main.o",
                    "-Wl,--whole-archive",
                    "library.a",
                    "-Wl,--no-whole-archive"
                ])
                .ok()
                .errors(),
            ""
        );
    }
    archive(&["rcs", "library.a", "f.o", "g.o"]);
    field.lose();
    field.link(&["main.o", "library.a"]).ok();

    // Another object in its place, though its name and its source are the same, and none.
    let spoil: [(&dyn Fn(), &str); 3] = [
        (
            &|| {
                let words = ["-O0", "-DVALUE=5", "-c", "f.c", "-o", "f.o"];
                run(&mut field.command(&words)).ok();
            },
            "f.o, which is another file now",
        ),
        (
            &|| {
                let mut command = field.scratch.command(&field.gcc);
                run(command.current_dir(w("")).args(["-DVALUE=5", "-c", "f.c"])).ok();
            },
            "f.o, which is another file now",
        ),
        (
            &|| fs::remove_file(w("f.o")).unwrap(),
            "f.o, which is not there",
        ),
    ];
    for (spoil, why) in spoil {
        field.compile("f");
        archive(&["rcs", "library.a", "f.o", "g.o"]);
        field.lose();
        spoil();
        let errors = field.link(&["main.o", "library.a"]).failed().errors();
        assert!(
            errors.contains(why) && errors.contains("library.a(f.o)"),
            "{errors}"
        );
        for name in ["main", "g"] {
            field.compile(name);
        }
    }
}

/// What is made again brings names and strings along that the repository did not have when the link began.
#[test]
fn what_is_made_again_is_seen_whole() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc);
    let functions: String = (0..300)
        .map(|n| format!("const char *new_name_{n}(void) {{ return \"text {n}\"; }}\n"))
        .collect();
    let sum: Vec<String> = (0..300).map(|n| format!("new_name_{n}()[5]")).collect();
    let text = format!(
        "{functions}int f(void) {{ return ({}) > 0; }}",
        sum.join(" + ")
    );
    field.scratch.write("w/f.c", text);
    field.compile("f");
    let mut command = field.scratch.command(&ar);
    command.current_dir(field.scratch.join("w"));
    run(command.args(["rcs", "library.a", "f.o", "g.o"])).ok();
    for inputs in [&ALL[..], &["main.o", "library.a"]] {
        field.lose();
        field.compile("main");
        let errors = field.link(inputs).ok().errors();
        assert!(errors.contains("2 lost tickets are made again"), "{errors}");
        field.works();
        for name in ["f", "g"] {
            field.compile(name);
        }
        let mut command = field.scratch.command(&ar);
        command.current_dir(field.scratch.join("w"));
        run(command.args(["rcs", "library.a", "f.o", "g.o"])).ok();
    }
}

/// What cargo makes: objects, an archive of them, and that in another one; `cargo build` takes it all to be up to date.
#[test]
fn archives_of_cargo() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc);
    for directory in ["target/debug/deps", "target/debug/build/part/out"] {
        fs::create_dir_all(field.scratch.join(directory)).unwrap();
    }
    let out = field.scratch.join("target/debug/build/part/out");
    for name in ["f", "g"] {
        let (source, object) = (format!("{name}.c"), out.join(format!("{name}.o")));
        let words = ["-DVALUE=1", "-c", &source, "-o", &object.to_string_lossy()];
        run(&mut field.command(&words)).ok();
    }
    let archive = "target/debug/deps/libpart.rlib";
    let mut command = field.scratch.command(&ar);
    command.args(["rcs", archive]).arg(out.join("f.o"));
    run(command.arg(out.join("g.o"))).ok();
    field.lose();
    field.compile("main");
    let link = || field.link(&["main.o", "../target/debug/deps/libpart.rlib"]);
    link().failed();
    field.scratch.write("target/.rustc_info.json", "{}");
    link().ok();
    field.works();
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
    let spoil: [(&dyn Fn(), &str); 3] = [
        (&|| fs::remove_file(&key).unwrap(), ""),
        (
            &|| fs::write(&key, [7; 32]).unwrap(),
            "another key than yours",
        ),
        (&shared, "with mode 0600"),
    ];
    for (spoil, spoilt) in spoil {
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
        if !spoilt.is_empty() {
            assert!(linked.errors().contains(spoilt), "{}", linked.report());
        }
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

/// A link to a ticket is that ticket; another name of its file, or a copy, is not where it was made.
#[test]
fn names_of_tickets() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc);
    let w = |name: &str| field.scratch.join("w").join(name);
    std::os::unix::fs::symlink("f.o", w("link.o")).unwrap();
    std::os::unix::fs::symlink("w", field.scratch.join("v")).unwrap();
    field.lose();
    field.link(&["main.o", "link.o", "../v/g.o"]).ok();
    field.works();
    fs::hard_link(w("g.o"), w("hard.o")).unwrap();
    field.lose();
    let linked = field.link(&["main.o", "f.o", "hard.o"]).failed();
    let errors = linked.errors();
    assert!(errors.contains("2 lost tickets are made again"), "{errors}");
    let g = w("g.o").canonicalize().unwrap();
    assert!(
        errors.contains(&format!("it was made as {}", g.display())),
        "{errors}"
    );
    assert!(
        !field.is_there("hard.o") && field.is_there("g.o"),
        "{errors}"
    );
}

/// Where others can put files, a command may do something else than it did.
#[test]
fn no_command_runs_where_others_can_put_files() {
    use std::os::unix::fs::PermissionsExt;
    let [gcc] = require!("gcc");
    let field = Field::new(gcc);
    let mode = |path: &str, mode| {
        let path = field.scratch.join(path);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let refused = || {
        for name in ["main", "f", "g"] {
            field.compile(name);
        }
        field.lose();
        let linked = field.link(&ALL).failed();
        let errors = linked.errors();
        assert!(!errors.contains("made again"), "{errors}");
        assert!(errors.contains("others may write it"), "{errors}");
        assert!(errors.contains("3 tickets are lost"), "{errors}");
    };
    mode("w", 0o777);
    refused();
    // Not even in a sticky directory, where they can put sources that are gone; but beneath one.
    mode("w", 0o1777);
    refused();
    mode("w", 0o755);
    mode("", 0o777);
    refused();
    mode("", 0o1777);
    for name in ["main", "f", "g"] {
        field.compile(name);
    }
    field.lose();
    field.link(&ALL).ok();
    field.works();
    mode("", 0o700);
}

/// Another user's ticket, though it is signed, and another user's directory.
#[test]
fn no_command_runs_for_other_users() {
    let [gcc] = require!("gcc");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let field = Field::new(gcc);
    let own = |path: &str, user| {
        std::os::unix::fs::chown(field.scratch.join(path), Some(user), None).unwrap();
    };
    for path in ["w/f.o", "w"] {
        for name in ["main", "f", "g"] {
            field.compile(name);
        }
        field.lose();
        own(path, 54_321);
        let linked = field.link(&ALL).failed();
        let errors = linked.errors();
        assert!(
            errors.contains("f.o") && errors.contains("belongs to"),
            "{errors}"
        );
        if path == "w" {
            assert!(!errors.contains("made again by the command"), "{errors}");
        } else {
            // Nor is it set aside.
            assert!(field.is_there("f.o"), "{errors}");
        }
        own(path, 0);
    }
}

/// The directory in which a ticket was made is gone.
#[test]
fn a_directory_that_is_gone() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc);
    fs::create_dir(field.scratch.join("w/sub")).unwrap();
    let mut command = field.command(&["-c", "../g.c", "-o", "../g.o"]);
    run(command.current_dir(field.scratch.join("w/sub"))).ok();
    field.lose();
    // With relative paths it is made again from where it was made.
    field.link(&ALL).ok();
    field.works();
    field.lose();
    fs::remove_dir(field.scratch.join("w/sub")).unwrap();
    let errors = field.link(&ALL).failed().errors();
    assert!(
        errors.contains("w/sub, in which it was made, is gone"),
        "{errors}"
    );
    assert!(!field.is_there("g.o") && field.is_there("f.o"), "{errors}");
}

/// A command that makes something else than the ticket is run once, and then the ticket is lost as before.
#[test]
fn a_command_that_makes_something_else() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc);
    let w = |name: &str| field.scratch.join("w").join(name);
    let key = tickets::key::Key::read(&field.scratch.join("config/program-repository/key"));
    let key = key.unwrap().unwrap();
    let repository = store::program::Repository::open(&field.scratch.repository()).unwrap();
    let bytes = fs::read(w("f.o")).unwrap();
    let ticket = tickets::Ticket::parse(&bytes).unwrap().unwrap();
    let recipe = tickets::recipe::Recipe {
        ticket: w("f.o").canonicalize().unwrap(),
        directory: w("").canonicalize().unwrap(),
        command: ["gcc", "-c", "g.c", "-o", "elsewhere.o"]
            .map(Into::into)
            .to_vec(),
    };
    let made = recipe.encode(&tickets::named_path(&repository), &key);
    let bytes = tickets::ticket_bytes(&repository, &ticket.compilation, &made).unwrap();
    fs::write(w("f.o"), bytes).unwrap();
    drop(repository);
    field.lose();
    let errors = field.link(&ALL).failed().errors();
    assert_eq!(errors.matches("made again").count(), 1, "{errors}");
    assert!(errors.contains("error: f.o: "), "{errors}");
    assert!(field.is_ticket("elsewhere.o") && !field.is_there("f.o"));
}

/// A command that makes several objects does not write over one that is newer. (With `-x`: else there is a command for each.)
#[test]
fn objects_of_one_command() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc);
    let words = ["-DVALUE=1", "-x", "c", "-c", "f.c", "g.c"];
    let both = || run(&mut field.command(&words)).ok();
    both();
    field.lose();
    field.compile("main");
    let errors = field.link(&ALL).ok().errors();
    assert!(errors.contains("2 lost tickets are made again"), "{errors}");
    field.works();
    both();
    field.lose();
    field.compile("main");
    field.compile("g");
    let newer = fs::read(field.scratch.join("w/g.o")).unwrap();
    let errors = field.link(&ALL).failed().errors();
    assert!(
        errors.contains("would make") && errors.contains("g.o, too"),
        "{errors}"
    );
    assert_eq!(fs::read(field.scratch.join("w/g.o")).unwrap(), newer);
    assert!(!field.is_there("f.o"), "{errors}");
}

/// `make -j`: several links find the same tickets lost, while a compiler writes them again.
#[test]
fn links_at_the_same_time() {
    use std::os::unix::fs::PermissionsExt;
    let [gcc] = require!("gcc");
    let field = Field::new(gcc);
    let slow = field.scratch.write(
        "slow/gcc",
        format!(
            "#!/bin/sh\nfor word; do [ \"$word\" = -c ] && echo \"$*\" >> {}/count && sleep 0.3; done\nexec {} \"$@\"\n",
            field.scratch.path().display(),
            field.gcc.display()
        ),
    );
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    let field = Field { gcc: slow, ..field };
    for name in ["main", "f", "g"] {
        field.compile(name);
    }
    field.lose();
    let count = field.scratch.join("count");
    fs::remove_file(&count).unwrap();
    let links: Vec<_> = (0..6)
        .map(|number| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            let output = format!("program{number}");
            field
                .command(&["main.o", "f.o", "g.o", "-o", &output])
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for (number, link) in links.into_iter().enumerate() {
        let ended = link.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{number}: {said}");
        let program = field.scratch.join(format!("w/program{number}"));
        run(&mut field.scratch.command(program)).ok();
    }
    let commands = fs::read_to_string(count).unwrap();
    let compiles = commands.lines().filter(|line| line.contains(" -c "));
    assert_eq!(compiles.count(), 3, "{commands}");
}

/// A build compiles a source anew while a link makes its lost ticket again: both compilers are at it at the same time, and whoever is
/// last, what is there is a ticket that works, and the link has read it.
#[test]
fn a_build_and_a_link_make_the_same_ticket() {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Stdio;
    let [gcc] = require!("gcc");
    let field = Field::new(gcc);
    // Of f.c it waits for the other one: both are there, or this is no race. (Whoever waits in vain fails.)
    let meeting = field.scratch.write(
        "meeting/gcc",
        format!(
            "#!/bin/sh\ncase \"$*\" in *f.c*)\n  echo $$ >> {0}/there; tries=0\n  \
             until [ $(wc -l < {0}/there) -ge 2 ]; do\n    tries=$((tries + 1)); [ $tries -gt 3000 ] && exit 9; sleep 0.02\n  \
             done;;\nesac\nexec {1} \"$@\"\n",
            field.scratch.path().display(),
            field.gcc.display()
        ),
    );
    fs::set_permissions(&meeting, fs::Permissions::from_mode(0o755)).unwrap();
    let there = field.scratch.join("there");
    fs::write(&there, "1\n2\n").unwrap();
    let field = Field {
        gcc: meeting,
        ..field
    };
    for name in ["main", "f", "g"] {
        field.compile(name);
    }
    for round in 0..3 {
        field.lose();
        fs::write(&there, "").unwrap();
        let start = |words: &[&str]| {
            let mut command = field.command(words);
            command.stderr(Stdio::piped()).spawn().unwrap()
        };
        let build = ["-O1", "-DVALUE=1", "-c", "f.c", "-o", "f.o"];
        let both = [
            start(&["main.o", "f.o", "g.o", "-o", "program"]),
            start(&build),
        ];
        for started in both {
            let ended = started.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success(), "{round}: {said}");
        }
        let compiles = fs::read_to_string(&there).unwrap();
        assert_eq!(compiles.lines().count(), 2, "{compiles}");
        field.works();
        assert!(ALL.iter().all(|name| field.is_ticket(name)));
        assert_eq!(field.link(&ALL).ok().errors(), "");
        field.works();
    }
}

/// What was set aside before is written over; what only has such a name is not.
#[test]
fn names_of_what_is_set_aside() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc);
    let aside = || {
        field.compile("f");
        field.lose();
        field.link(&["f.o", "-Wl,--no-remake"]).failed()
    };
    aside();
    let first = fs::read(field.scratch.join("w/f.o.lost")).unwrap();
    aside();
    assert_ne!(fs::read(field.scratch.join("w/f.o.lost")).unwrap(), first);
    assert!(!field.is_there("f.o.lost.2"));
    field.scratch.write("w/f.o.lost", "mine");
    aside();
    assert_eq!(fs::read(field.scratch.join("w/f.o.lost")).unwrap(), b"mine");
    assert!(field.is_there("f.o.lost.2") && !field.is_there("f.o"));
    // In a directory that may not be written nothing is set aside, and the error is the same. (Root may write all.)
    if !rustix::process::geteuid().is_root() {
        use std::os::unix::fs::PermissionsExt;
        let w = field.scratch.join("w");
        field.compile("f");
        field.lose();
        fs::set_permissions(&w, fs::Permissions::from_mode(0o555)).unwrap();
        let linked = run(&mut field.command(&["f.o", "-o", "../program"])).failed();
        fs::set_permissions(&w, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(
            !linked.errors().contains("set aside"),
            "{}",
            linked.report()
        );
        assert!(field.is_there("f.o"));
    }
}

/// An archive that was installed is no build's to make again: it stays, and so do the objects that it was made of.
#[test]
fn installed_archives_stay() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc);
    fs::create_dir(field.scratch.join("lib")).unwrap();
    let archive = field.scratch.join("lib/library.a");
    let mut command = field.scratch.command(&ar);
    command.arg("rcs").arg(&archive).args(["w/f.o", "w/g.o"]);
    run(&mut command).ok();
    field.lose();
    field.compile("main");
    let linked = field.link(&["main.o", "../lib/library.a"]).failed();
    let errors = linked.errors();
    assert!(errors.contains("2 tickets are lost"), "{errors}");
    assert!(
        errors.contains("was made in") && errors.contains("-c f.c -o f.o"),
        "{errors}"
    );
    assert!(archive.exists() && field.is_there("f.o") && field.is_there("g.o"));
    // A thin archive in the build is made of objects that are there: it can be set aside.
    let mut command = field.scratch.command(&ar);
    command.current_dir(field.scratch.join("w"));
    run(command.args(["rcsT", "thin.a", "f.o", "g.o"])).ok();
    let words = ["main.o", "thin.a", "-Wl,--no-remake"];
    let errors = field.link(&words).failed().errors();
    assert!(errors.contains("set aside"), "{errors}");
    for name in ["thin.a", "f.o", "g.o"] {
        assert!(!field.is_there(name), "{name}: {errors}");
    }
}

/// What libtool makes is in `.libs`; `make` only sees the text files above, which go with it.
#[test]
fn trees_of_libtool() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc);
    fs::create_dir(field.scratch.join("w/.libs")).unwrap();
    for name in ["f", "g"] {
        let (source, object) = (format!("{name}.c"), format!(".libs/{name}.o"));
        run(&mut field.command(&["-DVALUE=1", "-c", &source, "-o", &object])).ok();
        let text = format!("# {name}.lo - a libtool object file\n");
        field.scratch.write(format!("w/{name}.lo"), text);
    }
    let mut command = field.scratch.command(&ar);
    command.current_dir(field.scratch.join("w"));
    run(command.args(["rcs", ".libs/libfg.a", ".libs/f.o", ".libs/g.o"])).ok();
    let text = "# libfg.la - a libtool library file\n";
    field.scratch.write("w/libfg.la", text);
    field.scratch.write("w/other.la", text);
    field.lose();
    field.compile("main");
    let link = |words: &[&str]| field.link(&[&["main.o", ".libs/libfg.a"], words].concat());
    let errors = link(&["-Wl,--no-remake"]).failed().errors();
    assert!(errors.contains("set aside"), "{errors}");
    for name in ["f.lo", "g.lo", "libfg.la", ".libs/libfg.a", ".libs/f.o"] {
        assert!(!field.is_there(name), "{name}: {errors}");
    }
    assert!(field.is_there("other.la"), "{errors}");
}

/// Trees that were moved, copied into a container, or restored: the repository is found by its UUID where one would be made.
#[test]
fn trees_that_were_moved() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc);
    let moved = field.scratch.join("moved");
    fs::rename(field.scratch.join("w"), &moved).unwrap();
    let repository = field.scratch.repository();
    let link = |environment: &[(&str, &std::path::Path)]| {
        let mut command = field.scratch.command(Binaries::get().path("repo-cc"));
        command.arg(&field.gcc).current_dir(&moved);
        command.env_remove("REPO_FILE");
        for (name, value) in environment {
            command.env(name, value);
        }
        let _ = fs::remove_file(moved.join("program"));
        run(command.args(["main.o", "f.o", "g.o", "-o", "program"]))
    };
    let places = [
        (moved.join("program.repo"), None),
        (
            field.scratch.join("home/program-repository/program.repo"),
            Some(("XDG_STATE_HOME", field.scratch.join("home"))),
        ),
        (
            field.scratch.join("elsewhere.repo"),
            Some(("REPO_FILE", field.scratch.join("elsewhere.repo"))),
        ),
    ];
    let mut now = repository;
    for (place, environment) in &places {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::rename(&now, place).unwrap();
        now = place.clone();
        let environment: Vec<_> = environment
            .iter()
            .map(|(name, value)| (*name, value.as_path()))
            .collect();
        assert_eq!(link(&environment).ok().errors(), "", "{}", place.display());
        run(&mut field.scratch.command(moved.join("program"))).ok();
    }
    // Without a repository nothing runs in the new place, and the build is told what to do.
    fs::remove_file(&now).unwrap();
    let errors = link(&[]).failed().errors();
    assert!(errors.contains("it was made as "), "{errors}");
    assert!(
        errors.contains("set aside") && !errors.contains("made again by"),
        "{errors}"
    );
}

/// A directory that is mounted at a second place, as containers do: there its files are not those that were made, whatever they say.
#[test]
fn no_command_runs_in_a_bind_mount() {
    let [gcc, unshare, _mount] = require!("gcc", "unshare", "mount");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    const NOT_ALLOWED: i32 = 77;
    let field = Field::new(gcc);
    field.lose();
    fs::create_dir(field.scratch.join("v")).unwrap();
    let script = "mount --bind w v || exit 77; cd v && exec \"$@\"";
    let mut command = field.scratch.command(&unshare);
    command
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(Binaries::get().path("repo-cc"))
        .arg(&field.gcc)
        .args(ALL)
        .args(["-o", "program"]);
    let linked = run(&mut command);
    if linked.status.code() == Some(NOT_ALLOWED) || linked.errors().contains("unshare failed") {
        return;
    }
    let errors = linked.failed().errors();
    assert!(!errors.contains("made again"), "{errors}");
    assert!(errors.contains("3 tickets are lost"), "{errors}");
    assert!(errors.contains("it was made as"), "{errors}");
    // In its own place it still is.
    for name in ["main", "f", "g"] {
        let aside = field.scratch.join(format!("w/{name}.o.lost"));
        if aside.exists() {
            fs::rename(aside, field.scratch.join(format!("w/{name}.o"))).unwrap();
        }
    }
    field.link(&ALL).ok();
    field.works();
}
