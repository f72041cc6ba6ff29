//! `repo-dump --materialize`: objects in place of tickets, in archives and in whole trees.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

struct Field {
    scratch: Scratch,
    gcc: PathBuf,
    ar: PathBuf,
}

const LONG: &str = "a_member_with_a_name_of_some_length.o";

impl Field {
    /// Below `tree`: `main.o`, a ticket; `lib/libboth.a` of two tickets, an object and a text; and other files.
    fn new(gcc: PathBuf, ar: PathBuf) -> Field {
        let scratch = Scratch::new();
        for (name, text) in [
            (
                "f",
                "int common_one; int f(void) { return 40 + common_one; }",
            ),
            (
                "g",
                "__attribute__((weak)) int g(void) { return 1; } int g_data = 5;",
            ),
            ("h", "int h(void) { return 1; }"),
            (
                "main",
                "int f(void), g(void), h(void); int main(void) { return f() + g() + h() - 42; }",
            ),
        ] {
            scratch.write(format!("{name}.c"), text);
        }
        fs::create_dir_all(scratch.join("tree/lib")).unwrap();
        let field = Field { scratch, gcc, ar };
        let repo_cc = Binaries::get().path("repo-cc");
        for (source, output) in [("f.c", "f.o"), ("g.c", LONG), ("main.c", "tree/main.o")] {
            let mut command = field.scratch.command(repo_cc);
            let options = ["-fcommon", "-g", "-c", source, "-o", output];
            run(command.arg(&field.gcc).args(options)).ok();
            assert!(is_ticket_file(field.scratch.join(output)));
        }
        run(field.scratch.command(&field.gcc).args(["-c", "h.c"])).ok();
        field.scratch.write("text", "odd");
        field.scratch.write("tree/other.txt", "other");
        field.archive("rcs", "tree/lib/libboth.a");
        field
    }

    fn archive(&self, operation: &str, name: &str) {
        let members = ["f.o", "text", "h.o", LONG];
        run(self
            .scratch
            .command(&self.ar)
            .args([operation, name])
            .args(members))
        .ok();
    }

    fn dump(&self, words: &[&str]) -> Run {
        run(self
            .scratch
            .command(Binaries::get().path("repo-dump"))
            .args(words))
    }

    fn tool(&self, tool: impl AsRef<Path>, words: &[&str]) -> Run {
        run(self.scratch.command(tool).args(words))
    }

    /// Links without us.
    #[track_caller]
    fn links_plainly(&self, words: &[&str]) {
        self.tool(&self.gcc, &[words, &["-o", "program"]].concat())
            .ok();
        run(&mut self.scratch.command("./program")).ok();
    }

    fn lose_repository(&self) {
        fs::remove_file(self.scratch.repository()).unwrap();
    }
}

#[test]
fn archives_keep_order_names_and_what_is_no_ticket() {
    let [gcc, ar, nm] = require!("gcc", "ar", "nm");
    let field = Field::new(gcc, ar);
    field
        .dump(&["--materialize", "tree/main.o", "-o", "main.o"])
        .ok();
    let done = field
        .dump(&["--materialize", "tree/lib/libboth.a", "-o", "real.a"])
        .ok();
    assert_eq!((done.text(), done.errors()), (String::new(), String::new()));
    assert!(is_ticket_file(field.scratch.join("f.o")), "as it was");
    field.lose_repository();
    field.links_plainly(&["main.o", "real.a"]);
    let list = |archive: &str| field.tool(&field.ar, &["t", archive]).ok().text();
    assert_eq!(list("real.a"), list("tree/lib/libboth.a"));
    // ar makes the same index.
    let index = |archive: &str| {
        let shown = field.tool(&nm, &["--print-armap", archive]).ok().text();
        let index = shown.split("\n\n").next().unwrap().to_owned();
        assert!(index.contains(&format!("g in {LONG}")), "{index}");
        assert!(index.contains("common_one in f.o"), "{index}");
        assert!(!index.contains(tickets::EXPLANATION), "{index}");
        index
    };
    let ours = index("real.a");
    field.tool(&field.ar, &["s", "real.a"]).ok();
    assert_eq!(ours, index("real.a"));
    for (member, expected) in [("text", b"odd".to_vec()), ("h.o", read(&field, "h.o"))] {
        let done = field.tool(&field.ar, &["p", "real.a", member]).ok();
        assert!(done.stdout == expected, "{member}");
    }
}

fn read(field: &Field, name: &str) -> Vec<u8> {
    fs::read(field.scratch.join(name)).unwrap()
}

#[test]
fn archives_without_an_index_get_one() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc, ar);
    field.archive("rcS", "none.a");
    field
        .dump(&["--materialize", "tree/main.o", "--in-place"])
        .ok();
    field.dump(&["--materialize", "none.a", "--in-place"]).ok();
    field.links_plainly(&["tree/main.o", "none.a"]);
}

#[test]
fn trees_are_made_elsewhere_or_in_place() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc, ar);
    let at = |name: &str| field.scratch.join(name);
    std::os::unix::fs::symlink("main.o", at("tree/link.o")).unwrap();
    fs::copy(at("h.o"), at("tree/h.o")).unwrap();
    fs::set_permissions(at("tree/main.o"), fs::Permissions::from_mode(0o640)).unwrap();
    let past = SystemTime::now() - Duration::from_secs(5000);
    for name in ["tree/main.o", "tree/h.o"] {
        let file = fs::File::options().append(true).open(at(name)).unwrap();
        file.set_modified(past).unwrap();
    }
    let inode = |name: &str| at(name).metadata().unwrap().ino();
    let of_object = inode("tree/h.o");

    let done = field.dump(&["--materialize", "tree", "-o", "made"]).ok();
    assert_eq!(done.text(), "3 objects in 2 files\n");
    let mut names: Vec<_> = fs::read_dir(at("made"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["lib", "main.o"], "and no others");
    field.links_plainly(&["made/main.o", "made/lib/libboth.a"]);
    assert!(is_ticket_file(at("tree/main.o")));

    let done = field
        .dump(&["--json", "--materialize", "tree", "--in-place"])
        .ok();
    let said: serde_json::Value = serde_json::from_str(&done.text()).unwrap();
    assert_eq!(
        (&said["files"], &said["objects"], &said["failed"]),
        (&2.into(), &3.into(), &0.into())
    );
    for name in ["main.o", "lib/libboth.a"] {
        assert!(read(&field, &format!("tree/{name}")) == read(&field, &format!("made/{name}")));
    }
    // What it was, it is: nobody has to make anything again.
    let metadata = at("tree/main.o").metadata().unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o640);
    let age = past.duration_since(metadata.modified().unwrap());
    assert!(age.is_ok_and(|age| age < Duration::from_secs(1)));
    assert!(at("tree/link.o").is_symlink());
    assert_eq!(inode("tree/h.o"), of_object, "an object is not touched");
    field.lose_repository();
    field.links_plainly(&["tree/main.o", "tree/lib/libboth.a"]);
    let again = field.dump(&["--materialize", "tree", "--in-place"]).ok();
    assert_eq!(again.text(), "0 objects in 0 files\n");
}

/// A thin archive in a tree names files there: what they are now, its index says, and where they are in other archives.
#[test]
fn thin_archives_name_the_objects() {
    let [gcc, ar, nm] = require!("gcc", "ar", "nm");
    let field = Field::new(gcc, ar);
    let at = |name: &str| field.scratch.join(name);
    fs::create_dir(at("tree/parts")).unwrap();
    for name in ["f.o", "h.o", LONG] {
        fs::rename(at(name), at(&format!("tree/parts/{name}"))).unwrap();
    }
    let make = |archive: &str, members: &[&str]| {
        let mut command = field.scratch.command(&field.ar);
        run(command
            .current_dir(at("tree"))
            .args(["rcsT", archive])
            .args(members))
        .ok();
    };
    let long = format!("parts/{LONG}");
    make("aaa.a", &["parts/f.o", "parts/h.o", &long]);
    // One whose members are those of another archive.
    make("lib/nested.a", &["lib/libboth.a"]);
    let tree = ["tree/main.o", "tree/aaa.a", "tree/lib/nested.a"];
    let before = tree.map(|name| read(&field, name));

    // Elsewhere, what it names is in it.
    let done = field.dump(&["--materialize", "tree", "-o", "out"]).ok();
    assert_eq!(done.text(), "9 objects in 6 files\n");
    field
        .dump(&["--materialize", "tree/aaa.a", "-o", "one.a"])
        .ok();
    assert_eq!(before, tree.map(|name| read(&field, name)));
    let list = field.tool(&field.ar, &["t", "one.a"]).ok().text();
    assert_eq!(list, format!("f.o\nh.o\n{LONG}\n"));

    let done = field.dump(&["--materialize", "tree", "--in-place"]).ok();
    assert_eq!(done.text(), "5 objects in 6 files\n");
    field.lose_repository();
    for archive in ["tree/aaa.a", "tree/lib/nested.a"] {
        assert!(read(&field, archive).starts_with(b"!<thin>\n"), "{archive}");
        field.links_plainly(&["tree/main.o", archive]);
        let index = || {
            let shown = field.tool(&nm, &["--print-armap", archive]).ok().text();
            shown.split("\n\n").next().unwrap().to_owned()
        };
        let ours = index();
        assert!(!ours.contains(tickets::EXPLANATION), "{ours}");
        field.tool(&field.ar, &["s", archive]).ok();
        assert_eq!(ours, index());
    }
    let again = field.dump(&["--materialize", "tree", "--in-place"]).ok();
    assert_eq!(again.text(), "0 objects in 0 files\n");
    fs::remove_dir_all(at("tree")).unwrap();
    for archive in ["out/aaa.a", "out/lib/nested.a", "one.a"] {
        field.links_plainly(&["out/main.o", archive]);
    }
}

/// Of a single thin archive, the files that it names are what is to be made.
#[test]
fn a_thin_archive_is_made_with_its_files() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc, ar);
    field.archive("rcST", "thin.a");
    field
        .dump(&["--materialize", "tree/main.o", "--in-place"])
        .ok();
    field.dump(&["--materialize", "thin.a", "--in-place"]).ok();
    field.lose_repository();
    assert!(!is_ticket_file(field.scratch.join("f.o")));
    field.links_plainly(&["tree/main.o", "thin.a"]);
    // What it names is not there, or is no member of what it names.
    field.tool(&field.ar, &["rcsT", "lost.a", "f.o"]).ok();
    fs::remove_file(field.scratch.join("f.o")).unwrap();
    let done = field.dump(&["--materialize", "lost.a", "--in-place"]);
    let said = done.code(2).errors();
    assert!(said.contains("f.o: cannot read"), "{said}");
}

#[test]
fn what_cannot_be_is_left_and_named() {
    let [gcc, ar, objcopy] = require!("gcc", "ar", "objcopy");
    let field = Field::new(gcc, ar);
    let at = |name: &str| field.scratch.join(name);
    // One ticket that was edited, one whose repository is gone: the others are made.
    let edit = ["--redefine-sym", "f=ff", "f.o", "tree/edited.o"];
    field.tool(&objcopy, &edit).ok();
    let mut command = field.scratch.command(Binaries::get().path("repo-cc"));
    command.env("REPO_FILE", at("gone.repo")).arg(&field.gcc);
    run(command.args(["-c", "f.c", "-o", "tree/lost.o"])).ok();
    fs::remove_file(at("gone.repo")).unwrap();
    field.archive("rcT", "tree/thin.a");
    let before = ["edited.o", "lost.o", "thin.a"].map(|name| read(&field, &format!("tree/{name}")));
    let done = field.dump(&["--materialize", "tree", "--in-place"]).code(2);
    assert!(done.text().starts_with("3 objects in 2 files\n3 as before"));
    let said = done.errors();
    for word in ["tree/edited.o: ", "tree/lost.o: ", "tree/thin.a: a thin"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let after = ["edited.o", "lost.o", "thin.a"].map(|name| read(&field, &format!("tree/{name}")));
    assert!(before == after);
    assert!(!is_ticket_file(at("tree/main.o")));
    // An archive is changed as a whole or not at all.
    let lost = ["rcs", "mixed.a", LONG, "tree/lost.o"];
    field.tool(&field.ar, &lost).ok();
    let before = read(&field, "mixed.a");
    let done = field.dump(&["--materialize", "mixed.a", "--in-place"]);
    let said = done.code(2).errors();
    assert!(said.contains("mixed.a(lost.o)"), "{said}");
    assert!(before == read(&field, "mixed.a"));
    // And what holds no tickets at all.
    let said = field
        .dump(&["--materialize", "text", "-o", "x"])
        .code(2)
        .errors();
    assert!(said.contains("text: not a ticket"), "{said}");
    let said = field
        .dump(&["--materialize", "no/such", "--in-place"])
        .code(2)
        .errors();
    assert!(said.contains("no/such"), "{said}");
    let none: Vec<_> = fs::read_dir(at("tree"))
        .unwrap()
        .filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with('.')
        })
        .collect();
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn fat_objects_become_what_the_compiler_wrote() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc, ar);
    let mut command = field.scratch.command(Binaries::get().path("repo-cc"));
    command.arg("--fat").arg(&field.gcc);
    run(command.args(["-g", "-c", "h.c", "-o", "fat.o"])).ok();
    let sections = ["-ffunction-sections", "-fdata-sections"];
    let mut command = field.scratch.command(&field.gcc);
    run(command
        .args(sections)
        .args(["-g", "-c", "h.c", "-o", "plain.o"]))
    .ok();
    field.tool(&field.ar, &["rcs", "fat.a", "fat.o"]).ok();
    // All that is needed is there.
    field.lose_repository();
    field.dump(&["--materialize", "fat.o", "-o", "made.o"]).ok();
    assert!(read(&field, "made.o") == read(&field, "plain.o"));
    field.dump(&["--materialize", "fat.a", "--in-place"]).ok();
    let member = field.tool(&field.ar, &["p", "fat.a", "fat.o"]).ok();
    assert!(member.stdout == read(&field, "plain.o"));
}
