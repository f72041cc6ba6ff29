//! `cargo xtask install`: what is put below the prefix is found by compilers, `man` and shells, and goes away again.

use repo_tests::binaries::{Binaries, INSTALLED};
use repo_tests::compare::is_ticket_file;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const LINKERS: &str = "libexec/program-repository";
const COMPILERS: &str = "libexec/program-repository/compilers";

/// `cargo xtask install` with `words`, of the programs that this test has.
fn xtask(scratch: &Scratch, words: &[&str]) -> Run {
    let binaries = Binaries::get();
    let mut command = scratch.command(binaries.path("xtask"));
    command.arg("install").args(words);
    if !words.contains(&"--uninstall") {
        command.arg("--programs").arg(binaries.directory());
    }
    run(&mut command)
}

/// A scratch directory with an installation below `prefix`.
fn installed() -> Scratch {
    let scratch = Scratch::new();
    xtask(&scratch, &["--prefix", "prefix"]).ok();
    scratch.write(
        "hello.c",
        "#include <stdio.h>\nint main(void) { return puts(\"hello\") < 0; }\n",
    );
    scratch
}

/// A command that finds the directory `first` of the installation before all others.
fn with_path(scratch: &Scratch, first: &str, program: impl AsRef<Path>) -> Command {
    let mut path = OsString::from(scratch.join("prefix").join(first));
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = scratch.command(program);
    command
        .env("PATH", path)
        .env("REPO_LOG", scratch.join("log"));
    command
}

/// What the linker said of a link of `hello`, which runs.
#[track_caller]
fn linked(scratch: &Scratch, command: &mut Command) -> String {
    let _ = fs::remove_file(scratch.join("log"));
    run(command).ok();
    assert_eq!(run(&mut scratch.command("./hello")).ok().text(), "hello\n");
    let log = fs::read_to_string(scratch.join("log")).unwrap_or_default();
    let mut lines = log.lines().filter(|line| line.starts_with("repo-ld: "));
    lines.next().unwrap_or("").to_owned()
}

/// All that is below a directory, links and directories too.
fn below(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(inner) = directories.pop() {
        for entry in fs::read_dir(&inner).expect("a directory") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("its type").is_dir() {
                directories.push(entry.path());
            }
            let path = entry.path();
            found.insert(path.strip_prefix(directory).expect("below").to_owned());
        }
    }
    found
}

#[test]
fn compilers_find_the_linker() {
    let [gcc] = require!("gcc");
    let scratch = installed();
    let here = format!("-B{}", scratch.join("prefix").join(LINKERS).display());
    for choice in [
        &[][..],
        &["-fuse-ld=bfd"],
        &["-fuse-ld=gold"],
        &["-fuse-ld=lld"],
    ] {
        let mut command = with_path(&scratch, "bin", &gcc);
        command.args(["hello.c", "-o", "hello", &here]).args(choice);
        let line = linked(&scratch, &mut command);
        assert!(line.contains("full link"), "gcc {choice:?}: {line:?}");
    }
    if let Some([clang]) = tools::require(["clang"]) {
        let mut command = with_path(&scratch, "bin", clang);
        command.args(["hello.c", "-o", "hello", "-fuse-ld=repo"]);
        let line = linked(&scratch, &mut command);
        assert!(line.contains("full link"), "clang: {line:?}");
    }
    scratch.write("hello.rs", "fn main() { println!(\"hello\"); }\n");
    let mut command = with_path(&scratch, "bin", "rustc");
    command.args(["hello.rs", &format!("-Clink-arg={here}")]);
    let line = linked(&scratch, &mut command);
    assert!(line.contains("full link"), "rustc: {line:?}");
}

/// Who copies the programs copies those that are installed: all but the manual comes of them.
#[test]
fn without_the_program_that_writes_it_there_is_no_manual() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.join("programs")).expect("a directory");
    for name in INSTALLED {
        let program = Binaries::get().directory().join(name);
        fs::copy(program, scratch.join("programs").join(name)).expect("a copy");
    }
    let mut command = scratch.command(Binaries::get().path("xtask"));
    command.args(["install", "--prefix", "prefix", "--programs", "programs"]);
    let done = run(&mut command).ok();
    let said = done.errors();
    assert!(said.contains("programs has no repo-manual"), "{said}");
    assert!(!done.text().contains("manual pages"), "{}", done.text());
    let prefix = scratch.join("prefix");
    for name in INSTALLED {
        assert!(prefix.join("bin").join(name).is_file(), "{name}");
    }
    assert!(!prefix.join("share/man").exists());
    xtask(&scratch, &["--prefix", "prefix"]).ok();
    assert!(prefix.join("share/man/man1/repo-ld.1").exists());
}

#[test]
fn the_directory_of_compilers_stands_for_them() {
    let [_gcc] = require!("gcc");
    let scratch = installed();
    run(with_path(&scratch, COMPILERS, "sh").args(["-c", "gcc -c hello.c"])).ok();
    let mut link = with_path(&scratch, COMPILERS, "sh");
    let line = linked(&scratch, link.args(["-c", "gcc hello.o -o hello"]));
    assert!(line.contains(": 1 tickets"), "{line:?}");
    // What repo-cc itself gives gcc to find the linker has the same names.
    let of_repo_cc = below(&scratch.join("cache/program-repository"));
    let is_link = |path: &&PathBuf| path.components().count() == 2;
    let of_repo_cc: BTreeSet<_> = of_repo_cc
        .iter()
        .filter(is_link)
        .map(|path| path.file_name())
        .collect();
    let installed = below(&scratch.join("prefix").join(LINKERS));
    let is_link =
        |path: &&PathBuf| path.components().count() == 1 && *path != Path::new("compilers");
    let installed: BTreeSet<_> = installed
        .iter()
        .filter(is_link)
        .map(|path| path.file_name())
        .collect();
    assert_eq!(of_repo_cc, installed);
}

/// For tools that take all of `CC`, or its first word, for the name of one program.
#[test]
fn compilers_have_names_of_one_word() {
    let [_gcc] = require!("gcc");
    let scratch = installed();
    for (name, compile) in [
        ("repo-gcc", "repo-gcc -c hello.c"),
        ("repo-cc", "repo-cc -O1 -c hello.c"),
    ] {
        let _ = fs::remove_file(scratch.join("hello.o"));
        run(with_path(&scratch, "bin", "sh").args(["-c", compile])).ok();
        assert!(is_ticket_file(scratch.join("hello.o")), "{compile}");
        let mut link = with_path(&scratch, "bin", "sh");
        let line = linked(
            &scratch,
            link.args(["-c", &format!("{name} hello.o -o hello")]),
        );
        assert!(line.contains(": 1 tickets"), "{line:?}");
    }
    // A file is an argument if it is there.
    run(with_path(&scratch, "bin", "sh").args(["-c", "repo-cc hello.c -o hello && ./hello"])).ok();
    let missing = run(with_path(&scratch, "bin", "sh").args(["-c", "repo-cc missing.c"])).code(127);
    assert!(
        missing.errors().contains("missing.c"),
        "{}",
        missing.report()
    );
    // The links of --install-links, of a compiler that is there.
    let mut links = with_path(&scratch, "bin", "repo-cc");
    run(links.args(["--install-links", "links"])).ok();
    assert!(scratch.join("links/repo-gcc").is_symlink());
    assert!(!scratch.join("links/repo-repo-gcc").is_symlink());
}

/// The words of a help that are options.
fn options(help: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    help.split(|c: char| !is_part(c))
        .filter(|word| word.starts_with("--") && word.len() > 3)
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_manual_has_what_the_help_says() {
    let scratch = installed();
    let man = tools::find("man");
    for program in INSTALLED {
        let page = scratch.join(format!("prefix/share/man/man1/{program}.1"));
        let text = fs::read_to_string(&page)
            .expect("a page")
            .replace("\\-", "-");
        let help = run(scratch
            .command(scratch.join("prefix/bin").join(program))
            .arg("--help"))
        .ok()
        .text();
        assert!(help.contains(&format!("man {program}")), "{help}");
        let options = options(&help);
        assert!(options.len() > 3, "{program}: {options:?}");
        for option in options {
            assert!(
                text.contains(&option),
                "{program}: {option} is not in the manual"
            );
        }
        // As it is read.
        if let Some(man) = &man {
            let mut command = scratch.command(man);
            command
                .env("MANWIDTH", "80")
                .args(["--warnings", "-l"])
                .arg(&page);
            let done = run(&mut command).ok();
            assert_eq!(done.errors(), "", "{program}");
            assert!(
                done.text().contains("ENVIRONMENT") && done.text().contains("REPO_LOCK_WAIT"),
                "{}",
                done.text()
            );
        }
    }
    if man.is_none() {
        tools::skip("man");
    }
}

#[test]
fn shells_complete() {
    let scratch = installed();
    let share = scratch.join("prefix/share");
    let share = share.display();
    if let Some([bash]) = tools::require(["bash"]) {
        for (program, begun, whole) in [
            ("repo-gc", "--dr", "--dry-run"),
            ("repo-cc", "--inst", "--install-links"),
            ("repo-dump", "fragm", "fragments"),
            ("repo-ld", "--print-ti", "--print-timing"),
        ] {
            let script = format!(
                "source {share}/bash-completion/completions/{program} &&
                function=$(complete -p {program} | sed 's/.*-F \\([^ ]*\\).*/\\1/') &&
                COMP_WORDS=({program} {begun}) COMP_CWORD=1 && $function {program} {begun} {program} &&
                echo \"${{COMPREPLY[@]}}\""
            );
            let done = run(scratch.command(&bash).args(["--norc", "-c", &script])).ok();
            assert_eq!(done.text().trim(), whole, "{}", done.report());
        }
    }
    if let Some([fish]) = tools::require(["fish"]) {
        for program in INSTALLED {
            let script = format!(
                "source {share}/fish/vendor_completions.d/{program}.fish; complete -C '{program} --rep'"
            );
            let mut command = scratch.command(&fish);
            let done =
                run(command
                    .env("HOME", scratch.path())
                    .args(["--no-config", "-c", &script]))
                .ok();
            assert!(done.text().contains("--repo"), "{}", done.report());
        }
    }
    if let Some([zsh]) = tools::require(["zsh"]) {
        for program in INSTALLED {
            let file = format!("{share}/zsh/site-functions/_{program}");
            run(scratch.command(&zsh).args(["-f", "-n", &file])).ok();
            let text = fs::read_to_string(&file).expect("a completion");
            assert!(
                text.starts_with(&format!("#compdef {program}\n")),
                "{program}"
            );
        }
    }
}

#[test]
fn a_second_installation_takes_the_place_of_the_first() {
    let scratch = installed();
    let prefix = scratch.join("prefix");
    let before = below(&prefix);
    // Of an older release, which had one thing more; and somebody else's.
    let record = prefix.join("share/program-repository/installed");
    let mut text = fs::read_to_string(&record).expect("the record");
    text.push_str("bin/repo-old\n");
    fs::write(&record, text).expect("the record");
    scratch.write("prefix/bin/repo-old", "");
    scratch.write("prefix/bin/other", "");
    xtask(&scratch, &["--prefix", "prefix"]).ok();
    let mut after = below(&prefix);
    assert!(after.remove(Path::new("bin/other")));
    assert_eq!(before, after);
    for program in INSTALLED {
        let mode = prefix
            .join("bin")
            .join(program)
            .metadata()
            .expect("it")
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o755, "{program}");
    }
}

#[test]
fn what_was_installed_goes_away_and_nothing_else() {
    let scratch = installed();
    let prefix = scratch.join("prefix");
    scratch.write("prefix/share/man/man1/other.1", "");
    // Made later, by hand.
    let later = prefix.join(COMPILERS);
    let links = run(scratch
        .command(prefix.join("bin/repo-cc"))
        .arg("--install-links")
        .arg(&later)
        .arg("my-gcc"));
    links.ok();
    assert!(later.join("my-gcc").is_symlink());
    xtask(&scratch, &["--prefix", "prefix", "--uninstall"]).ok();
    let left: Vec<_> = below(&prefix).into_iter().collect();
    let kept = [
        "share",
        "share/man",
        "share/man/man1",
        "share/man/man1/other.1",
    ];
    assert_eq!(left, kept.map(PathBuf::from));
    let again = xtask(&scratch, &["--prefix", "prefix", "--uninstall"]).failed();
    assert!(
        again.errors().contains("nothing was installed below"),
        "{}",
        again.report()
    );
}

#[test]
fn packages_are_made_elsewhere() {
    let [_gcc] = require!("gcc");
    let scratch = Scratch::new();
    let names = ["--compilers", "gcc,my-clang"];
    xtask(
        &scratch,
        &[&["--prefix", "/opt/x", "--dest-dir", "staged"], &names[..]].concat(),
    )
    .ok();
    assert!(!Path::new("/opt/x/bin/repo-ld").exists());
    let staged = scratch.join("staged/opt/x");
    let compilers = below(&staged.join(COMPILERS));
    assert_eq!(compilers, ["gcc", "my-clang"].map(PathBuf::from).into());
    // Nothing in it says where it was made, so it works where it is unpacked.
    let here = scratch.path().as_os_str().as_encoded_bytes();
    for path in below(&staged) {
        let path = staged.join(path);
        if let Ok(target) = fs::read_link(&path) {
            assert!(target.is_relative(), "{}", path.display());
        } else if path.is_file() && !path.starts_with(staged.join("bin")) {
            let bytes = fs::read(&path).expect("a file");
            assert!(
                !bytes.windows(here.len()).any(|part| part == here),
                "{}",
                path.display()
            );
        }
    }
    fs::rename(&staged, scratch.join("prefix")).expect("moved");
    scratch.write(
        "hello.c",
        "#include <stdio.h>\nint main(void) { return puts(\"hello\") < 0; }\n",
    );
    let mut link = with_path(&scratch, COMPILERS, "sh");
    let line = linked(&scratch, link.args(["-c", "gcc hello.c -o hello"]));
    assert!(line.contains("full link"), "{line:?}");
}

#[test]
fn a_mistake_is_told_and_what_was_put_there_can_be_removed() {
    let scratch = Scratch::new();
    let bad = xtask(&scratch, &["--prefix", "prefix", "--compilers", "make"]).failed();
    assert!(
        bad.errors().contains("make: not the name of a compiler"),
        "{}",
        bad.report()
    );
    xtask(&scratch, &["--prefix", "prefix", "--uninstall"]).ok();
    assert_eq!(below(&scratch.join("prefix")), BTreeSet::new());
    scratch.write("file", "");
    let bad = xtask(&scratch, &["--prefix", "file/below"]).failed();
    assert!(bad.errors().contains("file/below"), "{}", bad.report());
}
