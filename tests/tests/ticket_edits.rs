//! What other tools do to tickets, which they take for objects: a link heeds it, or it says that it does not. `objcopy` that
//! asks for another program must not be passed over.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::path::{Path, PathBuf};

const SOURCE: &str = r#"
    int counter; int table[] = {1, 2, 3}; const int fixed[] = {4, 5, 6};
    static __attribute__((noinline)) int inner(int n) { return n + table[n % 3]; }
    __attribute__((weak)) int hook(void) { return 1; }
    int answer(int n) { return inner(n) + hook() + counter + fixed[n % 3]; }"#;
const MAIN: &str = r#"
    int answer(int);
    int main(void) { return answer(1) - 9; }"#;

struct Field {
    scratch: Scratch,
    gcc: PathBuf,
}

impl Field {
    /// A program of two tickets, `a.o` and `main.o`.
    fn new(gcc: PathBuf) -> Field {
        let scratch = Scratch::new();
        scratch.write("a.c", SOURCE);
        scratch.write("main.c", MAIN);
        let field = Field { scratch, gcc };
        for (source, ticket) in [("a.c", "a.o"), ("main.c", "main.o")] {
            field
                .compile(&["-O1", "-g", "-c", source, "-o", ticket])
                .ok();
            assert!(is_ticket_file(field.scratch.join(ticket)));
        }
        field
    }

    fn compile(&self, arguments: &[&str]) -> Run {
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        run(command.arg(&self.gcc).args(arguments))
    }

    fn tool(&self, tool: &Path, arguments: &[&str]) -> Run {
        run(self.scratch.command(tool).args(arguments))
    }

    fn link(&self, ticket: &str) -> Run {
        let _ = std::fs::remove_file(self.scratch.join("program"));
        self.compile(&["main.o", ticket, "-o", "program"])
    }
}

#[test]
fn another_program_is_never_made_silently() {
    let [gcc, objcopy, strip] = require!("gcc", "objcopy", "strip");
    let field = Field::new(gcc);
    field.scratch.write("note.txt", "words");
    field.scratch.write("names.txt", "answer question\n");
    let edits: &[(&Path, &[&str], &str)] = &[
        (&objcopy, &["--redefine-sym", "answer=question"], "answer"),
        (&objcopy, &["--redefine-syms=names.txt"], "answer"),
        (&objcopy, &["--keep-global-symbol=hook"], "answer"),
        (&objcopy, &["--localize-symbol=hook"], "hook"),
        (&objcopy, &["--globalize-symbol=inner"], "inner"),
        (&objcopy, &["--weaken-symbol=answer"], "answer"),
        (&objcopy, &["--weaken"], "answer"),
        (&objcopy, &["--strip-symbol=hook"], "hook"),
        (&objcopy, &["--prefix-symbols=my_"], "answer"),
        (
            &objcopy,
            &["--add-symbol", "more=.text:0,function,global"],
            "more",
        ),
        (&objcopy, &["--add-section", ".words=note.txt"], ".words"),
        (&objcopy, &["--rename-section", ".text=.fast"], ".text"),
        (
            &objcopy,
            &["--set-section-flags", ".data=alloc,readonly"],
            ".data",
        ),
        (
            &objcopy,
            &["--remove-section=.data", "--strip-symbol=table"],
            ".data",
        ),
        (&objcopy, &["--update-section", ".text=note.txt"], ".text"),
        (&objcopy, &["--set-section-alignment", ".text=64"], ".text"),
        (&strip, &["--strip-all"], ""),
    ];
    for (tool, arguments, named) in edits {
        let shown = format!("{} {arguments:?}", tool.display());
        std::fs::copy(field.scratch.join("a.o"), field.scratch.join("edited.o")).unwrap();
        field
            .tool(tool, &[arguments, &["edited.o"][..]].concat())
            .ok();
        let linked = field.link("edited.o").failed();
        let errors = linked.errors();
        assert!(
            errors.contains("edited.o: another tool"),
            "{shown}: {errors}"
        );
        assert!(errors.contains(named), "{shown}: {errors}");
        assert!(
            errors.contains("repo-dump --materialize"),
            "{shown}: {errors}"
        );
        assert!(!field.scratch.join("program").exists(), "{shown}");
    }
}

#[test]
fn what_changes_nothing_is_honoured() {
    let [gcc, objcopy, strip, ar] = require!("gcc", "objcopy", "strip", "ar");
    let field = Field::new(gcc);
    let edits: &[(&Path, &[&str])] = &[
        (&strip, &["-g"]),
        (&strip, &["--strip-unneeded"]),
        (&strip, &["-g", "-R", ".comment", "-p"]),
        (&objcopy, &[]),
        (&objcopy, &["--strip-debug"]),
        (&objcopy, &["--discard-all"]),
    ];
    for (tool, arguments) in edits {
        std::fs::copy(field.scratch.join("a.o"), field.scratch.join("edited.o")).unwrap();
        field
            .tool(tool, &[arguments, &["edited.o"][..]].concat())
            .ok();
        field.link("edited.o").ok();
        run(&mut field.scratch.command("./program")).ok();
        // And so in an archive.
        std::fs::copy(field.scratch.join("a.o"), field.scratch.join("member.o")).unwrap();
        field.tool(&ar, &["rcs", "library.a", "member.o"]).ok();
        field
            .tool(tool, &[arguments, &["library.a"][..]].concat())
            .ok();
        field.link("library.a").ok();
        run(&mut field.scratch.command("./program")).ok();
    }
}

/// Scripts discard notes, and tools remove them: that makes no program out of nothing.
#[test]
fn without_its_note_it_is_no_empty_object() {
    let [gcc, objcopy] = require!("gcc", "objcopy");
    let field = Field::new(gcc);
    let renamed = "--rename-section=.note.repo=.words";
    for option in ["--prefix-sections=.my", renamed] {
        std::fs::copy(field.scratch.join("a.o"), field.scratch.join("edited.o")).unwrap();
        field.tool(&objcopy, &[option, "edited.o"]).ok();
        says_that_it_was_changed(&field.link("edited.o").failed(), "edited.o");
    }
    for name in ["main.o", "a.o"] {
        let words = ["--remove-section=.note.repo", name];
        field.tool(&objcopy, &words).ok();
    }
    let link = field.link("a.o").failed();
    says_that_it_was_changed(&link, "a.o");
    says_that_it_was_changed(&link, "main.o");
    for name in ["ld", "gold", "ld.lld", "mold"] {
        let Some(linker) = repo_tests::tools::find(name) else {
            continue;
        };
        let failed = field.tool(&linker, &["main.o", "a.o", "-o", "linked", "-e", "0"]);
        let errors = failed.failed().errors();
        assert!(errors.contains(tickets::EXPLANATION), "{name}: {errors}");
    }
}

/// Each such file is named once, with what to do; and not that two files define a name that no source has.
fn says_that_it_was_changed(link: &Run, name: &str) {
    let errors = link.errors();
    let start = format!("{name}: another tool");
    assert_eq!(errors.matches(&start).count(), 1, "{errors}");
    assert!(errors.contains("repo-dump --materialize"), "{errors}");
    assert!(!errors.contains("duplicate symbol"), "{errors}");
}

/// Undefined symbols wait for the final link, so they do not stop `ld -r`: a symbol that is defined twice does.
#[test]
fn linkers_that_know_no_tickets_fail_at_once() {
    let [gcc, ld] = require!("gcc", "ld");
    let field = Field::new(gcc);
    for inputs in [&["a.o"][..], &["main.o"], &["a.o", "main.o"]] {
        let joined = field
            .tool(&ld, &[&["-r", "-o", "joined.o"], inputs].concat())
            .failed();
        assert!(
            joined.errors().contains(tickets::EXPLANATION),
            "{}",
            joined.report()
        );
        assert!(!field.scratch.join("joined.o").exists());
    }
}
