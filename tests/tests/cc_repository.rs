//! `repo-cc` and its repository: which one it uses, what it logs, and that a
//! repository that cannot be used makes a build slower, never broken.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::fs;
use std::path::Path;
use std::process::Command;

const A: &str = "int a(int x) { return x + 1; }\nstatic int s;\nint *b(void) { return &s; }\n";

/// `repo-cc gcc -c a.c -o OUTPUT` without a setting for the repository.
fn compile(scratch: &Scratch, gcc: &Path, options: &[&str], output: &str) -> Command {
    let source = scratch.write("a.c", A);
    let mut command = scratch.command(Binaries::get().path("repo-cc"));
    command.env_remove("REPO_FILE");
    command.args(options).arg(gcc);
    command.arg("-c").arg(source).arg("-o").arg(output);
    command
}

#[track_caller]
fn silent(run: Run) {
    let run = run.ok();
    assert_eq!((run.text(), run.errors()), (String::new(), String::new()));
}

#[test]
fn the_nearest_repository_above_the_output_then_the_users() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.join("project/build/deep")).expect("directories");
    // No program.repo anywhere: the user's own.
    silent(run(&mut compile(&scratch, &gcc, &[], "project/build/a.o")));
    assert!(is_ticket_file(scratch.join("project/build/a.o")));
    let state = scratch.join("state/program-repository");
    let users: Vec<_> = fs::read_dir(&state)
        .expect("the user's own")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .collect();
    assert!(!users.is_empty());
    let total = || -> u64 {
        let size = |path| fs::metadata(path).expect("a file").len();
        users.iter().map(size).sum()
    };
    let before = total();
    // An empty one made by the user: it is the nearest.
    let own = scratch.join("project/program.repo");
    silent(run(&mut compile(
        &scratch,
        &gcc,
        &["--repo", &own.to_string_lossy()],
        "project/first.o",
    )));
    let first = fs::metadata(&own).expect("made on first use").len();
    let mut other = compile(&scratch, &gcc, &[], "project/build/deep/b.o");
    other.args(["-O2", "-Da=other", "-Db=another"]);
    silent(run(&mut other));
    assert!(is_ticket_file(scratch.join("project/build/deep/b.o")));
    assert!(fs::metadata(&own).expect("still there").len() >= first);
    assert_eq!(
        total(),
        before,
        "the user's own was used though one is nearer"
    );
}

#[test]
fn option_before_variable_before_place() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    let (by_option, by_variable) = (scratch.join("option.repo"), scratch.join("variable.repo"));
    let mut command = compile(&scratch, &gcc, &[], "a.o");
    command.env("REPO_FILE", &by_variable);
    silent(run(&mut command));
    assert!(by_variable.exists() && !scratch.join("state").exists());
    let option = by_option.to_string_lossy();
    let mut command = compile(&scratch, &gcc, &["--repo", &option], "a.o");
    command.env("REPO_FILE", scratch.join("unused.repo"));
    silent(run(&mut command));
    assert!(by_option.exists() && !scratch.join("unused.repo").exists());
}

#[test]
fn the_log_says_what_was_stored_and_what_was_not() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    let log = scratch.join("log");
    let lines = |options: &[&str], arguments: &[&str]| {
        let _ = fs::remove_file(&log);
        let mut command = compile(&scratch, &gcc, options, "a.o");
        // What is stored is told by a compile, not by a hit of one that is
        // known, which the age of `a.c` would decide.
        command.env("REPO_CC_DISABLE", "1");
        command.env("REPO_LOG", &log).args(arguments);
        let done = run(&mut command);
        let text = fs::read_to_string(&log).expect("a log");
        (done, text.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let (_, first) = lines(&[], &[]);
    assert_eq!(first.len(), 1, "{first:?}");
    assert!(
        first[0].contains("a.o") && first[0].contains("ticket"),
        "{first:?}"
    );
    let (_, second) = lines(&[], &[]);
    assert!(second[0].contains(" 0 new"), "{second:?}");
    let (_, passed) = lines(&[], &["-E"]);
    assert!(passed[0].contains("preprocesses only"), "{passed:?}");
    let (failed, lines_of_failed) = lines(&[], &["-include", "no-such-file"]);
    assert!(!failed.status.success());
    assert!(lines_of_failed[0].contains("failed"), "{lines_of_failed:?}");
    let (told, _) = lines(&["--verbose"], &[]);
    assert!(told.errors().contains("ticket"), "{}", told.report());
}

/// Asserts that a compile succeeded with one warning that names the
/// repository, and left an object that links.
#[track_caller]
fn warned(scratch: &Scratch, gcc: &Path, done: Run, repository: &Path) {
    let done = done.ok();
    let errors = done.errors();
    assert_eq!(errors.lines().count(), 1, "{}", done.report());
    assert!(
        errors.starts_with("repo-cc: warning: "),
        "{}",
        done.report()
    );
    assert!(
        errors.contains(&*repository.to_string_lossy()),
        "{}",
        done.report()
    );
    assert!(!is_ticket_file(scratch.join("a.o")));
    let main = scratch.write("main.c", "int a(int); int main(void) { return a(-1); }\n");
    let program = scratch.join("main");
    run(scratch
        .command(gcc)
        .arg(main)
        .arg("a.o")
        .arg("-o")
        .arg(&program))
    .ok();
    run(&mut scratch.command(program)).ok();
}

#[test]
fn a_repository_that_cannot_be_used_leaves_the_object() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    scratch.write("file", "not a directory");
    let garbage = scratch.write("garbage.repo", vec![0xa5_u8; 100_000]);
    let text = scratch.write("text.repo", "int main(void) { return 0; }\n");
    for (repository, named) in [
        (scratch.join("file/in.repo"), scratch.join("file")),
        (scratch.join("file"), scratch.join("file")),
        ("/proc/in.repo".into(), "/proc/in.repo".into()),
        (garbage.clone(), garbage.clone()),
        (text.clone(), text.clone()),
        (scratch.path().to_owned(), scratch.path().to_owned()),
    ] {
        let mut command = compile(&scratch, &gcc, &[], "a.o");
        command.env("REPO_FILE", &repository);
        warned(&scratch, &gcc, run(&mut command), &named);
    }
    // What was there is left as it was.
    assert_eq!(fs::read(garbage).expect("a file"), vec![0xa5_u8; 100_000]);
    assert_eq!(
        fs::read_to_string(text).expect("a file"),
        "int main(void) { return 0; }\n"
    );
}

#[test]
fn several_outputs_give_one_warning() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    let sources = [scratch.write("a.c", A), scratch.write("b.c", "int bb;\n")];
    let garbage = scratch.write("garbage.repo", vec![0xa5_u8; 100_000]);
    let mut command = scratch.command(Binaries::get().path("repo-cc"));
    command.arg(&gcc).arg("-c").args(sources);
    command.env("REPO_FILE", &garbage);
    warned(&scratch, &gcc, run(&mut command), &garbage);
}

#[test]
fn a_full_disk_leaves_the_object_and_the_repository() {
    let [gcc, _make] = require!("gcc", "make");
    let scratch = Scratch::new();
    fs::create_dir(scratch.join("small")).expect("a directory");
    scratch.write("a.c", A);
    // About 2 MB of data that nothing shortens.
    let mut big = String::from("unsigned char big[] = {");
    let mut state = 1_u32;
    for _ in 0..2_000_000 / 4 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        big += &format!("{},", state >> 24);
    }
    big += "};\n";
    scratch.write("big.c", big);
    // A file system of its own, in name spaces of its own.
    let script = "mount -t tmpfs -o size=400k small small || exit 99
        $RC -c a.c -o a.o && $RC -c big.c -o big.o && $RC -O1 -c a.c -o a1.o
        echo $?";
    let mut command = scratch.command("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .env(
            "RC",
            format!(
                "{} {}",
                Binaries::get().path("repo-cc").display(),
                gcc.display()
            ),
        )
        .env("REPO_FILE", scratch.join("small/program.repo"));
    let done = run(&mut command);
    if done.status.code() == Some(99) || !done.status.success() {
        return repo_tests::tools::skip("name spaces");
    }
    assert_eq!(done.text(), "0\n", "{}", done.report());
    let errors = done.errors();
    assert!(
        errors.contains("repo-cc: warning: ") && errors.contains("big.o stays"),
        "{}",
        done.report()
    );
    assert!(!is_ticket_file(scratch.join("big.o")));
    // Before and after, what there was room for.
    assert!(is_ticket_file(scratch.join("a.o")), "{}", done.report());
    assert!(is_ticket_file(scratch.join("a1.o")), "{}", done.report());
}

#[test]
fn a_full_cache_is_not_the_compilers_affair() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    fs::create_dir(scratch.join("small")).expect("a directory");
    scratch.write("a.c", A);
    // What the assembler cannot write would be an error.
    let script = "mount -t tmpfs -o size=64k,$MORE small small || exit 99
        i=0; while [ $i -lt 100 ]; do echo x 2>/dev/null > small/$i || break; i=$((i+1)); done
        $RC -Wa,--fatal-warnings -c a.c -o a.o
        echo $?";
    for more in ["mode=700", "nr_inodes=16"] {
        let mut command = scratch.command("unshare");
        let repo_cc = Binaries::get().path("repo-cc");
        command
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .env("RC", format!("{} {}", repo_cc.display(), gcc.display()))
            .env("MORE", more)
            .env("XDG_CACHE_HOME", scratch.join("small"));
        let done = run(&mut command);
        if done.status.code() == Some(99) || !done.status.success() {
            return repo_tests::tools::skip("name spaces");
        }
        let said = (done.text(), done.errors());
        assert_eq!(said, ("0\n".to_owned(), String::new()), "{more}");
        assert!(is_ticket_file(scratch.join("a.o")));
    }
}

#[test]
fn who_asks_for_a_log_is_told_if_it_cannot_be_written() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    let log = scratch.write("file", "").join("log");
    let log = log.to_string_lossy();
    let asked = run(&mut compile(&scratch, &gcc, &["--log", &log], "a.o")).ok();
    let told = format!("repo-cc: warning: cannot write the log {log}: ");
    assert!(asked.errors().starts_with(&told), "{}", asked.report());
    assert_eq!(asked.errors().lines().count(), 1, "{}", asked.report());
    let mut command = compile(&scratch, &gcc, &[], "a.o");
    silent(run(command.env("REPO_LOG", &*log)));
    let mut link = scratch.command(Binaries::get().path("repo-ld"));
    link.env_remove("REPO_FILE");
    link.args(["-e", "a", "-o", "out", "a.o", "--log", &log]);
    let asked = run(&mut link).ok();
    let told = format!("repo-ld: warning: cannot write the log {log}: ");
    assert!(asked.errors().starts_with(&told), "{}", asked.report());
}
