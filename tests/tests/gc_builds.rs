//! `repo-gc` among real builds: archives, compilers at work, and being killed.

use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

fn program(scratch: &Scratch, name: &str, arguments: &[&str]) -> Command {
    let mut command = scratch.command(Binaries::get().path(name));
    command.args(arguments);
    command
}

fn gc(scratch: &Scratch, arguments: &[&str]) -> Run {
    let mut command = program(scratch, "repo-gc", arguments);
    // What compiles have made is not kept for its own sake.
    if arguments.contains(&"--grace") {
        command.args(["--unused", "0"]);
    }
    run(&mut command)
}

fn dump(scratch: &Scratch, arguments: &[&str]) -> Run {
    run(&mut program(scratch, "repo-dump", arguments))
}

/// Compiles `source` into a ticket called `output`.
#[track_caller]
fn compile(scratch: &Scratch, gcc: &Path, source: &str, output: &str) {
    let mut command = program(scratch, "repo-cc", &[]);
    command.arg(gcc).args(["-O1", "-c", source, "-o", output]);
    let run = run(&mut command).ok();
    assert_eq!(run.errors(), "", "{}", run.report());
    let start = fs::read(scratch.join(output)).expect("the ticket can be read");
    let is_ticket = start.windows(5).any(|window| window == b"REPO\0");
    assert!(is_ticket, "{output} is no ticket");
}

/// Links what the tickets `names` stand for by the system's linker, and runs it.
#[track_caller]
fn link_and_run(scratch: &Scratch, gcc: &Path, names: &[&str]) -> String {
    let mut link = scratch.command(gcc);
    for name in names {
        let object = format!("{name}.real.o");
        dump(scratch, &["--materialize", name, "-o", &object]).ok();
        link.arg(object);
    }
    run(link.args(["-o", "program"])).ok();
    run(&mut scratch.command(scratch.join("program")))
        .ok()
        .text()
}

const MAIN: &str = "int puts(const char *); int value(void);\n\
                    int main(void) { puts(value() == 42 ? \"right\" : \"wrong\"); return 0; }\n";

#[test]
fn an_archive_keeps_its_members_alive() {
    let [gcc, ar] = require!("gcc", "ar");
    let scratch = Scratch::new();
    scratch.write("main.c", MAIN);
    scratch.write("value.c", "int value(void) { return 42; }\n");
    scratch.write("useless.c", "int useless(void) { return 1; }\n");
    fs::create_dir(scratch.join("objects")).expect("made");
    for name in ["main", "value", "useless"] {
        compile(
            &scratch,
            &gcc,
            &format!("{name}.c"),
            &format!("objects/{name}.o"),
        );
    }
    run(scratch
        .command(&ar)
        .args(["rcs", "libvalue.a", "objects/value.o"]))
    .ok();
    fs::rename(scratch.join("objects/main.o"), scratch.join("main.o")).expect("moved");
    fs::remove_dir_all(scratch.join("objects")).expect("removed");

    let told = gc(&scratch, &["--dry-run", "--grace", "0"]).ok();
    assert!(
        told.text()
            .contains("objects/useless.o: the file does not exist any more")
    );
    // Twice: what keeps them alive must stay known.
    for _ in 0..2 {
        let report = gc(&scratch, &["--grace", "0", "--json"]).ok().text();
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        assert_eq!(report["kept"]["compilations"], 2, "{report}");
        assert!(report["bytes_after"].as_u64() <= report["bytes_before"].as_u64());
    }
    dump(&scratch, &["--verify"]).ok();
    dump(&scratch, &["fragments", "useless"]).code(2);
    let tickets = dump(&scratch, &["tickets"]).ok().text();
    assert!(
        tickets.contains("archive") && tickets.contains("libvalue.a"),
        "{tickets}"
    );
    run(scratch.command(&ar).args(["x", "libvalue.a", "value.o"])).ok();
    let said = link_and_run(&scratch, &gcc, &["main.o", "value.o"]);
    assert_eq!(said, "right\n");
}

#[test]
fn what_is_young_is_protected() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    scratch.write("value.c", "int value(void) { return 42; }\n");
    compile(&scratch, &gcc, "value.c", "value.o");
    let ticket = fs::read(scratch.join("value.o")).expect("read");
    fs::remove_file(scratch.join("value.o")).expect("removed");
    gc(&scratch, &[]).ok();
    fs::write(scratch.join("value.o"), ticket).expect("put back");
    dump(&scratch, &["value.o"]).ok();
}

#[test]
fn wrong_usage_and_missing_repositories_are_clear_errors() {
    let scratch = Scratch::new();
    // Where nothing was ever built there is nothing to throw away; a file that was named must be there.
    for arguments in [&[][..], &["--dry-run"], &["--json"]] {
        let said = gc(&scratch, arguments).ok().errors();
        assert!(
            said.contains("program.repo: there is no repository") && said.contains("--repo"),
            "{said}"
        );
    }
    let error = gc(&scratch, &["--repo", "other.repo"]).code(2).errors();
    assert!(
        error.starts_with("repo-gc: error: ")
            && error.contains("other.repo: there is no repository"),
        "{error}"
    );
    assert!(!scratch.repository().exists());
    scratch.write("program.repo", "something else");
    let error = gc(&scratch, &[]).code(1).errors();
    assert!(error.contains("not a repository"), "{error}");
    // The same from the process that works.
    let error = gc(&scratch, &["--idle"]).code(1).errors();
    assert!(error.contains("not a repository"), "{error}");
    gc(&scratch, &["--idle", "--dry-run"]).code(2);
    gc(&scratch, &["--max-size", "much"]).code(2);
    gc(&scratch, &["--grace", "soon"]).code(2);
}

#[test]
fn builds_go_on_meanwhile() {
    const UNITS: usize = 24;
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    for unit in 0..UNITS {
        let text = format!("int value{unit}(int x) {{ return x * {unit} + 7; }}\n");
        scratch.write(format!("{unit}.c"), text);
    }
    compile(&scratch, &gcc, "0.c", "0.o");
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::scope(|compilers| {
                for half in 0..2 {
                    let (scratch, gcc) = (&scratch, &gcc);
                    compilers.spawn(move || {
                        for unit in (half..UNITS).step_by(2) {
                            let (source, output) = (format!("{unit}.c"), format!("{unit}.o"));
                            compile(scratch, gcc, &source, &output);
                        }
                    });
                }
            });
            finished.store(true, Ordering::Release);
        });
        while !finished.load(Ordering::Acquire) {
            gc(&scratch, &[]).ok();
        }
    });
    dump(&scratch, &["--verify"]).ok();
    for unit in 0..UNITS {
        let ticket = format!("{unit}.o");
        let shown = dump(&scratch, &[&ticket]).ok().text();
        assert!(shown.contains(&format!("value{unit}")), "{shown}");
    }
}

/// When to kill the compactor.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Started,
    /// The new file has so many bytes.
    Copied(u64),
    /// The new file has taken the old one's place.
    Swapped,
}

#[test]
fn killed_at_any_time_it_leaves_one_good_repository() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    scratch.write("main.c", MAIN);
    scratch.write("value.c", "int value(void) { return 42; }\n");
    compile(&scratch, &gcc, "main.c", "main.o");
    compile(&scratch, &gcc, "value.c", "value.o");
    // Something that takes a while to copy.
    for unit in 0..4 {
        let functions: String = (0..400)
            .map(|n| format!("int f{unit}_{n}(int x) {{ return x * {n} + {unit}; }}\n"))
            .collect();
        scratch.write(format!("{unit}.c"), functions);
        compile(&scratch, &gcc, &format!("{unit}.c"), &format!("{unit}.o"));
    }
    let repository = scratch.repository();
    let size = fs::metadata(&repository).expect("it is there").len();
    let mut moments = vec![Moment::Started, Moment::Swapped];
    moments.extend((0..18).map(|part| Moment::Copied(size * part / 18)));
    let mut killed = 0;
    for &moment in &moments {
        killed += u32::from(kill_at(&scratch, moment));
        dump(&scratch, &["--verify"]).ok();
        dump(&scratch, &["3.o"]).ok();
    }
    assert!(
        killed > moments.len() as u32 / 2,
        "only {killed} were killed in time"
    );
    // The next one is not disturbed by what they left.
    gc(&scratch, &["--grace", "0"]).ok();
    assert_eq!(unfinished(&scratch).count(), 0);
    dump(&scratch, &["--verify"]).ok();
    assert_eq!(
        link_and_run(&scratch, &gcc, &["main.o", "value.o"]),
        "right\n"
    );
}

/// The files to which compactors have given names of their own.
fn unfinished(scratch: &Scratch) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(scratch.path()).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.to_string_lossy().contains("program.repo.gc-"))
}

/// Bytes of the new file of the compactor that is the process `id`: it has no name, but where
/// the file system makes only files that have one.
fn copied(scratch: &Scratch, id: u32) -> Option<u64> {
    let open = fs::read_dir(format!("/proc/{id}/fd")).ok()?;
    let open = open.flatten().map(|entry| entry.path());
    let files = open.chain(unfinished(scratch)).filter_map(|path| {
        let found = fs::metadata(&path).ok()?;
        let is_new = found.nlink() == 0 || path.starts_with(scratch.path());
        (found.is_file() && is_new).then_some(found.len())
    });
    files.max()
}

/// Starts a compactor, kills it at that moment, and says whether it was still alive.
fn kill_at(scratch: &Scratch, moment: Moment) -> bool {
    let inode = || fs::metadata(scratch.repository()).map_or(0, |metadata| metadata.ino());
    let before = inode();
    let mut child = program(scratch, "repo-gc", &["--grace", "0"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it can be started");
    loop {
        let has_come = match moment {
            Moment::Started => true,
            Moment::Copied(bytes) => {
                copied(scratch, child.id()).is_some_and(|copied| copied >= bytes)
            }
            Moment::Swapped => inode() != before,
        };
        let ended = child.try_wait().expect("it can be asked").is_some();
        if ended || has_come {
            // It may end by itself in this moment: no matter.
            let _ = child.kill();
            let status = child.wait().expect("it ends");
            return !status.success();
        }
    }
}

/// Root compacts the repository of a user who puts symbolic links to a file of root's
/// wherever a name of the compactor's comes up in his directory.
#[test]
fn root_gives_nothing_away_in_somebody_elses_directory() {
    const SOMEBODY: u32 = 54_321;
    let [gcc] = require!("gcc");
    if !rustix::process::geteuid().is_root() {
        return repo_tests::tools::skip("root's rights");
    }
    let scratch = Scratch::new();
    scratch.write("value.c", "int value(void) { return 42; }\n");
    compile(&scratch, &gcc, "value.c", "value.o");
    let repository = scratch.repository();
    fs::set_permissions(&repository, fs::Permissions::from_mode(0o640)).expect("set");
    for path in [scratch.path(), &repository] {
        chown(path, Some(SOMEBODY), Some(SOMEBODY)).expect("given");
    }
    let elsewhere = Scratch::new();
    let victim = elsewhere.write("victim", "root's");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).expect("set");
    let finished = AtomicBool::new(false);
    let mut compacted = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !finished.load(Ordering::Acquire) {
                for path in unfinished(&scratch).chain([scratch.join("program.repo.gc-tmp")]) {
                    let _ = fs::remove_file(&path);
                    let _ = symlink(&victim, &path);
                }
            }
        });
        for _ in 0..40 {
            // It may find that its file was replaced: then it says so.
            compacted += u32::from(gc(&scratch, &["--grace", "0"]).status.success());
        }
        finished.store(true, Ordering::Release);
    });
    let now = fs::metadata(&victim).expect("there");
    assert_eq!((now.uid(), now.mode() & 0o7777), (0, 0o600));
    assert_eq!(fs::read_to_string(&victim).expect("read"), "root's");
    for path in unfinished(&scratch) {
        fs::remove_file(path).expect("removed");
    }
    if fs::symlink_metadata(&repository).is_ok_and(|found| found.is_symlink()) {
        // The link was renamed over the repository between the last look and the renaming:
        // the user's own doing, in his own directory.
        return;
    }
    let now = fs::metadata(&repository).expect("there");
    assert_eq!((now.uid(), now.gid()), (SOMEBODY, SOMEBODY));
    assert_eq!(now.mode() & 0o7777, 0o640);
    assert!(compacted > 0, "not one of 40 was let be");
}
