//! What keeps compilations whose objects are gone: archives that links have read, and prefixes that the user has named, which the
//! repository remembers.

use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// A library of two members in `lib/`, and a program that uses one of them in `work/`.
struct Field {
    scratch: Scratch,
    gcc: PathBuf,
}

impl Field {
    fn new(gcc: PathBuf, ar: PathBuf) -> Field {
        let scratch = Scratch::new();
        for (name, text) in [
            (
                "work/main.c",
                "int value(void); int main(void) { return value() - 42; }",
            ),
            ("build/value.c", "int value(void) { return 42; }"),
            ("build/other.c", "int other(void) { return 1; }"),
        ] {
            scratch.write(name, text);
        }
        fs::create_dir(scratch.join("lib")).unwrap();
        let field = Field { scratch, gcc };
        for name in ["build/value", "build/other", "work/main"] {
            let (source, object) = (format!("{name}.c"), format!("{name}.o"));
            let words = ["-O1", "-c", &source, "-o", &object];
            run(field.compiler().args(words)).ok();
        }
        let mut command = field.scratch.command(ar);
        command.args(["rcs", "lib/libvalue.a", "build/value.o", "build/other.o"]);
        run(&mut command).ok();
        field
    }

    fn compiler(&self) -> Command {
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        command.arg(&self.gcc);
        command
    }

    fn link(&self, archive: &str, output: &str) -> Run {
        run(self.compiler().args(["work/main.o", archive, "-o", output]))
    }

    fn works(&self, archive: &str) {
        self.link(archive, "work/program").ok();
        run(&mut self.scratch.command(self.scratch.join("work/program"))).ok();
        fs::remove_file(self.scratch.join("work/program")).unwrap();
    }

    fn gc(&self, words: &[&str]) -> Run {
        let mut command = self.scratch.command(Binaries::get().path("repo-gc"));
        // What compiles have made is not kept for its own sake.
        if words.contains(&"--grace") {
            command.args(["--unused", "0"]);
        }
        run(command.args(words))
    }

    /// Throws away all that nothing needs, with all that was built.
    fn clean(&self, words: &[&str]) -> Run {
        fs::remove_dir_all(self.scratch.join("build")).unwrap();
        self.gc(&[&["--grace", "0"], words].concat()).ok()
    }

    /// What is on record of tickets and archives, and since when.
    fn on_record(&self) -> serde_json::Value {
        let mut command = self.scratch.command(Binaries::get().path("repo-dump"));
        let shown = run(command.args(["--json", "tickets"])).ok().text();
        serde_json::from_str(&shown).unwrap()
    }
}

#[test]
fn an_archive_that_a_link_has_read_keeps_its_members() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc, ar);
    field.works("lib/libvalue.a");
    let shown = field.gc(&["--roots"]).ok().text();
    let archive = field.scratch.join("lib/libvalue.a");
    let line = format!("archive {}: 2 tickets\n", archive.display());
    assert!(shown.contains(&line), "{shown}");
    // The output is gone, the objects are, and no ticket is beside the archive.
    field.clean(&[]);
    field.works("lib/libvalue.a");
    field.gc(&["--grace", "0"]).ok();
    field.works("lib/libvalue.a");
}

/// An archive that is moved to where no record says, and that no link has read since.
#[test]
fn prefixes_are_searched_and_remembered() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc, ar);
    fs::create_dir_all(field.scratch.join("usr/local")).unwrap();
    let rename = |from: &str, to: &str| {
        fs::rename(field.scratch.join(from), field.scratch.join(to)).unwrap();
    };
    rename("lib", "usr/local/lib");
    // A dry run names what it has found, and remembers nothing.
    let usr = field.scratch.join("usr");
    let told = field.gc(&["--dry-run", "--root", "usr"]).ok().text();
    let line = format!(
        "root {}: would be remembered, 1 file with tickets in it\n",
        usr.display()
    );
    assert!(told.contains(&line), "{told}");
    assert!(!field.gc(&["--roots"]).ok().text().contains("prefix "));
    let told = field.clean(&["--root", "./work/../usr/"]).text();
    assert!(told.contains("is remembered, 1 file"), "{told}");
    field.works("usr/local/lib/libvalue.a");

    // It is searched from now on: what is moved within it is found.
    rename("usr/local/lib", "usr/lib");
    field.gc(&["--grace", "0"]).ok();
    field.works("usr/lib/libvalue.a");

    // What is not there now may be back.
    rename("usr", "unmounted");
    let told = field.gc(&["--grace", "0"]).ok();
    assert!(
        told.errors().contains("not there now") && told.errors().contains("--forget"),
        "{}",
        told.report()
    );
    let shown = field.gc(&["--roots", "--json"]).ok().text();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["prefixes"][0]["exists"], false);
    rename("unmounted", "usr");
    field.works("usr/lib/libvalue.a");

    // Until it is forgotten.
    rename("usr", "gone");
    field.gc(&["--forget", "work/../usr"]).ok();
    let refused = field.gc(&["--forget", "usr"]).code(2);
    assert!(refused.errors().contains("--roots"), "{}", refused.report());
    // Nobody knows where it is now: it may have been copied before.
    let told = field.gc(&["--grace", "0"]).ok();
    assert!(
        told.errors().contains("libvalue.a: is gone") && told.errors().contains("--root DIRECTORY"),
        "{}",
        told.report()
    );
    let shown = field.gc(&["--roots"]).ok().text();
    assert!(shown.contains("0 remembered prefixes"), "{shown}");
    rename("gone", "usr");
    let refused = field.link("usr/lib/libvalue.a", "work/program").failed();
    assert!(
        refused.errors().contains("has no compilation"),
        "{}",
        refused.report()
    );
}

/// A ticket that was moved and then linked is known by the path at which the link has read it.
#[test]
fn a_ticket_that_a_link_has_read_elsewhere_is_found() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc, ar);
    fs::create_dir_all(field.scratch.join("far/away")).unwrap();
    let main = field.scratch.join("far/away/main.o");
    fs::rename(field.scratch.join("work/main.o"), &main).unwrap();
    let link = || {
        let words = ["far/away/main.o", "lib/libvalue.a", "-o", "work/program"];
        run(field.compiler().args(words))
    };
    link().ok();
    fs::remove_file(field.scratch.join("work/program")).unwrap();
    field.clean(&[]);
    link().ok();
}

/// One record says where an archive is: links do not write it again, and those that cannot write it go on.
#[test]
fn archives_are_recorded_once_and_never_in_the_way() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc, ar);
    let link = || field.link("lib/libvalue.a", "work/program").ok();
    link();
    let first = field.on_record();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(link().errors(), "");
    assert_eq!(field.on_record(), first);

    // Through a symbolic link it is the same archive.
    std::os::unix::fs::symlink("libvalue.a", field.scratch.join("lib/liblink.a")).unwrap();
    field.link("lib/liblink.a", "work/program").ok();
    let shown = field.gc(&["--roots"]).ok().text();
    assert_eq!(shown.matches("archive ").count(), 1, "{shown}");

    // And so by a path that leaves a directory again, also for who looks for files that links have read.
    fs::remove_file(field.scratch.join("lib/liblink.a")).unwrap();
    field.link("work/../lib/libvalue.a", "work/program").ok();
    field.clean(&[]);
    let shown = field.gc(&["--roots"]).ok().text();
    assert_eq!(shown.matches("archive ").count(), 1, "{shown}");

    // A repository that may only be read. (Root may write any.)
    let field = Field::new(field.gcc.clone(), PathBuf::from("ar"));
    let repository = field.scratch.repository();
    fs::set_permissions(&repository, fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(
        field.link("lib/libvalue.a", "work/program").ok().errors(),
        ""
    );
}

/// Others' repositories are not told of archives that their owners' compactors could not even look at.
#[test]
fn others_repositories_do_not_hear_of_archives() {
    let [gcc, ar] = require!("gcc", "ar");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let field = Field::new(gcc, ar);
    let repository = field.scratch.repository();
    std::os::unix::fs::chown(&repository, Some(54_321), None).unwrap();
    let mut command = field.compiler();
    command.args(["work/main.o", "lib/libvalue.a", "-o", "work/program"]);
    command.env_remove("REPO_FILE").env("SUDO_UID", "54321");
    run(&mut command).ok();
    std::os::unix::fs::chown(&repository, Some(0), None).unwrap();
    let shown = field.gc(&["--roots"]).ok().text();
    assert!(!shown.contains("archive "), "{shown}");
    assert!(shown.contains("output "), "{shown}");
}

/// A dry run says which tickets would go, and how many bytes; about so many go.
#[test]
fn a_dry_run_knows_how_much_would_go() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc, ar);
    let many: String = (0..400)
        .map(|n| format!("int useless_{n}(int x) {{ return x * {n} + {}; }}\n", n + 7))
        .collect();
    field.scratch.write("more/useless.c", &many);
    field
        .scratch
        .write("more/useful.c", many.replace("useless", "useful"));
    for name in ["useless", "useful"] {
        let words = ["-g", "-O1", "-c"].map(str::to_owned).to_vec();
        let files = [
            format!("more/{name}.c"),
            "-o".into(),
            format!("more/{name}.o"),
        ];
        run(field.compiler().args(words).args(files)).ok();
    }
    let useless = field.scratch.join("more/useless.o");
    fs::remove_file(&useless).unwrap();
    let text = field.gc(&["--dry-run", "--grace", "0"]).ok().text();
    let ticket = format!("ticket {}: the file does not exist", useless.display());
    assert!(text.contains(&ticket), "{text}");
    assert!(
        text.contains(&format!("({}): no ticket", useless.display())),
        "{text}"
    );
    assert!(text.contains(" would go; nothing was changed"), "{text}");
    let size = || fs::metadata(field.scratch.repository()).unwrap().len();
    let before = size();
    let told = field
        .gc(&["--dry-run", "--grace", "0", "--json"])
        .ok()
        .text();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(size(), before);
    assert_eq!(told["bytes_before"].as_u64(), Some(before));
    let foreseen = told["bytes_after"].as_u64().unwrap();
    field.gc(&["--grace", "0"]).ok();
    let after = size();
    // Packs of a compaction hold more, and so are smaller, than those of compiles.
    assert!(
        after.abs_diff(foreseen) * 10 < after && after < before,
        "{before} before, {foreseen} foreseen, {after} after"
    );
}

#[test]
fn json_of_names_that_are_no_text() {
    let [gcc, ar] = require!("gcc", "ar");
    let field = Field::new(gcc, ar);
    let name = OsStr::from_bytes(b"prefix-\xff");
    fs::rename(field.scratch.join("build"), field.scratch.join(name)).unwrap();
    let mut command = field.scratch.command(Binaries::get().path("repo-gc"));
    run(command.arg("--root").arg(name)).ok();
    let shown = field.gc(&["--roots", "--json"]).ok().text();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let paths = shown["prefixes"].as_array().unwrap().iter();
    let paths: Vec<&str> = paths.filter_map(|it| it["path"].as_str()).collect();
    assert!(
        paths.iter().any(|it| it.ends_with("prefix-\u{fffd}")),
        "{paths:?}"
    );
}
