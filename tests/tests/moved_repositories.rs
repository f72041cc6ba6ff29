//! A ticket's repository is not where the ticket says: `--repo` and `$REPO_FILE`, given to whichever program, reach links and
//! `repo-dump`; and it is found by its UUID where one would be made. So trees may be moved, copied and restored.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::run;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Field {
    scratch: Scratch,
    gcc: PathBuf,
}

impl Field {
    /// `project/a.o` and `project/main.o`, tickets of the repository `place`, which `--repo` has named.
    fn new(gcc: PathBuf, place: &str) -> Field {
        let scratch = Scratch::new();
        scratch.write("project/a.c", "int a(void) { return 7; }");
        let main = "int a(void); int main(void) { return a() - 7; }";
        scratch.write("project/main.c", main);
        let field = Field { scratch, gcc };
        for name in ["a", "main"] {
            let mut command = field.program("repo-cc");
            command.arg("--repo").arg(field.scratch.join(place));
            command.arg(&field.gcc).args(["-c", "-O1"]);
            run(command.arg(format!("{name}.c"))).ok();
            let object = format!("project/{name}.o");
            assert!(is_ticket_file(field.scratch.join(object)));
        }
        field
    }

    /// One of our programs, in `project`, without any setting.
    fn program(&self, name: &str) -> Command {
        let mut command = self.scratch.command(Binaries::get().path(name));
        command.current_dir(self.scratch.join("project"));
        command.env_remove("REPO_FILE");
        command
    }

    /// A link by `repo-cc`, with these options of its own and of the linker.
    fn link(&self, own: &[&str], linkers: &[&str]) -> Command {
        let mut command = self.program("repo-cc");
        command.args(own).arg(&self.gcc).args(["main.o", "a.o"]);
        // To make them again would hide that they were not found.
        command.args(["-Wl,--no-remake", "-o", "program"]);
        command.args(linkers);
        command
    }

    /// Every way in which a repository is named, or is not (`None`), must work.
    #[track_caller]
    fn all_work(&self, place: Option<&Path>) {
        let named = place.map(|place| place.to_str().unwrap().to_owned());
        let set = |mut command: Command, by_variable: bool| {
            if let (Some(named), true) = (&named, by_variable) {
                command.env("REPO_FILE", named);
            }
            command
        };
        let own: Vec<&str> = named.iter().flat_map(|named| ["--repo", named]).collect();
        let of_linker = named.as_ref().map(|named| format!("-Wl,--repo={named}"));
        let of_linker: Vec<&str> = of_linker.iter().map(String::as_str).collect();
        for mut link in [
            self.link(&own, &[]),
            self.link(&[], &of_linker),
            set(self.link(&[], &[]), true),
        ] {
            let _ = fs::remove_file(self.scratch.join("project/program"));
            let done = run(&mut link).ok();
            assert_eq!(done.errors(), "", "{}", done.report());
            run(&mut self.scratch.command("project/program")).ok();
        }
        // Without a compiler between.
        let mut link = self.program("repo-ld");
        link.args(&own)
            .args(["-r", "--no-remake", "-o", "merged.o"]);
        run(link.args(["main.o", "a.o"])).ok();
        let asked: [&[&str]; 4] = [
            &["a.o"],
            &["compilations", "main.o"],
            &["--diff", "a.o", "main.o"],
            &["--materialize", "a.o", "-o", "real.o"],
        ];
        for words in asked {
            for by_variable in [false, true] {
                let mut command = set(self.program("repo-dump"), by_variable);
                if !by_variable {
                    command.args(&own);
                }
                run(command.args(words)).ok();
            }
        }
    }

    fn none_works(&self) {
        run(&mut self.link(&[], &[])).failed();
        // They were set aside.
        for name in ["a.o", "main.o"] {
            let path = self.scratch.join("project").join(name);
            fs::rename(path.with_extension("o.lost"), path).unwrap();
        }
        run(self.program("repo-dump").arg("a.o")).failed();
    }
}

#[test]
fn a_repository_that_was_moved_is_named_or_found() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc, "first.repo");
    let at = |name: &str| field.scratch.join(name);
    field.all_work(None);
    fs::create_dir(at("elsewhere")).unwrap();
    fs::rename(at("first.repo"), at("elsewhere/second")).unwrap();
    field.none_works();
    field.all_work(Some(&at("elsewhere/second")));
    // Relative to where the program runs.
    field.all_work(Some(Path::new("../elsewhere/second")));
    // The nearest one above the tickets; in between, the wrong one.
    fs::rename(at("elsewhere/second"), at("program.repo")).unwrap();
    field.all_work(None);
    let own = at("state/program-repository");
    fs::create_dir_all(&own).unwrap();
    fs::rename(at("program.repo"), own.join("program.repo")).unwrap();
    field.all_work(None);
}

#[test]
fn a_tree_that_was_moved_has_its_repository_with_it() {
    let [gcc] = require!("gcc");
    let field = Field::new(gcc, "project/program.repo");
    let at = |name: &str| field.scratch.join(name);
    fs::rename(at("project"), at("other")).unwrap();
    fs::create_dir(at("project")).unwrap();
    for entry in fs::read_dir(at("other")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, at("project").join(path.file_name().unwrap())).unwrap();
    }
    fs::remove_dir_all(at("other")).unwrap();
    field.all_work(None);
    fs::rename(at("project"), at("moved")).unwrap();
    let mut command = field.scratch.command(Binaries::get().path("repo-cc"));
    command
        .current_dir(at("moved"))
        .env_remove("REPO_FILE")
        .arg(&field.gcc);
    let words = ["main.o", "a.o", "-Wl,--no-remake", "-o", "program"];
    run(command.args(words)).ok();
}
