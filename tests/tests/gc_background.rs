//! `repo-gc` that nobody calls: `--idle`, timers, and builds that start it.

use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn gc(scratch: &Scratch, words: &[&str]) -> Command {
    let mut command = scratch.command(Binaries::get().path("repo-gc"));
    command.args(words);
    command
}

/// A repository with a compilation that is live, and a larger one that is not.
fn fill(scratch: &Scratch, gcc: &Path) {
    scratch.write("value.c", "int value(void) { return 42; }\n");
    let many = (0..300).map(|n| format!("int f{n}(int x) {{ return x * {n} + 7; }}\n"));
    scratch.write("dead.c", many.collect::<String>());
    for (source, output) in [("value.c", "value.o"), ("dead.c", "dead.o")] {
        let mut command = scratch.command(Binaries::get().path("repo-cc"));
        run(command.arg(gcc).args(["-O1", "-c", source, "-o", output])).ok();
    }
    fs::remove_file(scratch.join("dead.o")).unwrap();
}

/// What `repo-gc` takes for `/proc`.
struct Machine(PathBuf);

impl Machine {
    fn new(scratch: &Scratch) -> Machine {
        let machine = Machine(scratch.join("proc"));
        fs::create_dir_all(machine.0.join("pressure")).unwrap();
        machine
    }

    /// So many tasks run beside the one that looks.
    fn runs(&self, tasks: u32) {
        let running = tasks + 1;
        self.write(
            "stat",
            &format!("cpu  1 2 3\nprocs_running {running}\nprocs_blocked 0\n"),
        );
    }

    /// The kernel's figure of the last ten seconds.
    fn presses(&self, percent: f64) {
        let text = format!("some avg10={percent:.2} avg60=0.00 avg300=0.00 total=1\n");
        self.write("pressure/cpu", &text);
    }

    fn write(&self, name: &str, text: &str) {
        // Never half of it.
        let new = self.0.join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.0.join(name)).unwrap();
    }
}

/// The state (proc(5)) of the process that works for a `repo-gc`, and its id.
fn worker_of(supervisor: u32) -> Option<(char, u32)> {
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let Some((_, fields)) = stat.rsplit_once(") ") else {
            continue;
        };
        let mut fields = fields.split(' ');
        let (state, parent) = (fields.next(), fields.next());
        if parent == Some(&supervisor.to_string()) {
            return state.and_then(|state| Some((state.chars().next()?, id)));
        }
    }
    None
}

/// Waits until the one that works is stopped.
#[track_caller]
fn wait_for_stop(supervisor: &mut Child) -> u32 {
    loop {
        assert!(supervisor.try_wait().unwrap().is_none(), "it has ended");
        if let Some(('T', id)) = worker_of(supervisor.id()) {
            return id;
        }
    }
}

#[test]
fn idle_compaction_waits_for_the_machine_and_dies_with_its_supervisor() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    fill(&scratch, &gcc);
    let machine = Machine::new(&scratch);
    let inode = || fs::metadata(scratch.repository()).unwrap().ino();
    let before = inode();
    let start = || {
        let proc = machine.0.to_str().unwrap();
        let words = ["--idle", "--grace", "0", "--unused", "0", "--proc", proc];
        let mut command = gc(&scratch, &words);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    // Something runs: it does not begin. Builds go on; and if it is killed, nothing is left of it.
    machine.runs(64);
    let mut idle = start();
    let worker = wait_for_stop(&mut idle);
    let mut command = scratch.command(Binaries::get().path("repo-cc"));
    run(command
        .arg(&gcc)
        .args(["-O2", "-c", "value.c", "-o", "value.o"]))
    .ok();
    assert_eq!(inode(), before);
    idle.kill().unwrap();
    idle.wait().unwrap();
    let state = || fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
    while state().contains("repo-gc") && !state().contains(") Z") {}
    // Nothing runs, but others were kept waiting just now.
    machine.runs(0);
    machine.presses(50.0);
    let mut idle = start();
    wait_for_stop(&mut idle);
    assert_eq!(inode(), before);
    machine.presses(0.0);
    let done = idle.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(
        String::from_utf8_lossy(&done.stdout).contains("kept 1 of"),
        "{done:?}"
    );
    assert_ne!(inode(), before);
    // It is not done again for nothing.
    let compacted = inode();
    let done = start().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && said.contains("too little would go"),
        "{said}"
    );
    assert_eq!(inode(), compacted);
    // Where nobody knows what the machine does, nothing is done.
    fs::remove_file(machine.0.join("stat")).unwrap();
    let done = start().wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(2));
}

/// A program of that name, which writes down what it is called with.
fn script(scratch: &Scratch, name: &str, text: &str) {
    let path = scratch.write(format!("bin/{name}"), format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn timers_are_systemds_or_else_crons() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    fill(&scratch, &gcc);
    let log = scratch.join("log").display().to_string();
    script(&scratch, "systemctl", &format!("echo \"$@\" >>'{log}'"));
    script(
        &scratch,
        "crontab",
        &format!("case $1 in -l) cat '{log}.cron' 2>/dev/null;; -) cat >'{log}.cron';; esac"),
    );
    let call = |words: &[&str]| -> Run {
        let mut command = gc(&scratch, words);
        let path = format!("{}:/usr/bin:/bin", scratch.join("bin").display());
        run(command.env("PATH", path))
    };
    let folder = scratch.join("config/systemd/user");
    let said = call(&["--install-timer", "--max-size", "20G", "--grace", "4h"])
        .ok()
        .text();
    assert!(said.contains("repo-gc.timer"), "{said}");
    let service = fs::read_to_string(folder.join("repo-gc.service")).unwrap();
    let repository = scratch.repository().display().to_string();
    let expected =
        format!("repo-gc\" \"--idle\" \"--repo={repository}\" \"--max-size=20000000000\"\n");
    assert!(service.contains(&expected), "{service}");
    // Threads that take long do that themselves: one that has the lock, or stops them, must not.
    assert!(!service.contains("CPUSchedulingPolicy") && !service.contains("Nice"));
    let timer = fs::read_to_string(folder.join("repo-gc.timer")).unwrap();
    assert!(timer.contains("OnCalendar=daily") && timer.contains("Persistent=true"));
    let calls = fs::read_to_string(&log).unwrap();
    assert!(
        calls.contains("--user enable --now repo-gc.timer"),
        "{calls}"
    );
    let said = call(&["--remove-timer"]).ok().text();
    assert!(said.contains("removed"), "{said}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    assert!(
        call(&["--remove-timer"])
            .ok()
            .text()
            .contains("there is no timer")
    );

    // Without it, a line of the crontab, which has others.
    script(&scratch, "systemctl", "exit 1");
    fs::write(format!("{log}.cron"), "# mine\n5 4 * * * other 50%\n").unwrap();
    for unused in ["2d", "3d"] {
        call(&["--install-timer", "--unused", unused]).ok();
    }
    let crontab = fs::read_to_string(format!("{log}.cron")).unwrap();
    let lines: Vec<&str> = crontab.lines().collect();
    assert_eq!(lines.len(), 3, "{crontab}");
    assert_eq!(lines[..2], ["# mine", "5 4 * * * other 50%"]);
    let expected = format!("'--idle' '--repo={repository}' '--unused=259200s' #");
    assert!(lines[2].contains(&expected), "{crontab}");
    call(&["--remove-timer"]).ok();
    let crontab = fs::read_to_string(format!("{log}.cron")).unwrap();
    assert_eq!(crontab, "# mine\n5 4 * * * other 50%\n");
    // Where systemd refuses, nothing is left, and the message says what it said.
    script(
        &scratch,
        "systemctl",
        "[ $2 != enable ] || { echo no bus >&2; exit 1; }",
    );
    let errors = call(&["--install-timer"]).code(2).errors();
    assert!(errors.contains("no bus"), "{errors}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn several_repositories_are_compacted_and_records_explained() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    fill(&scratch, &gcc);
    fs::copy(scratch.repository(), scratch.join("other.repo")).unwrap();
    let words = [
        "--grace",
        "0",
        "--unused",
        "0",
        "--json",
        "--repo",
        "program.repo",
        "--repo",
    ];
    let done = run(gc(&scratch, &words).arg("other.repo")).ok().text();
    let done: serde_json::Value = serde_json::from_str(&done).unwrap();
    assert_eq!(done[0]["kept"]["compilations"], 1, "{done}");
    assert!(
        done[1]["repository"]
            .as_str()
            .unwrap()
            .ends_with("other.repo"),
        "{done}"
    );
    // One that is not there is said, and keeps nobody from the others.
    let failed = run(gc(&scratch, &words).arg("none.repo")).code(2);
    assert!(
        failed
            .errors()
            .contains("none.repo: there is no repository")
    );
    assert!(failed.text().contains("program.repo"));

    let mut dump = scratch.command(Binaries::get().path("repo-dump"));
    let shown = run(dump.args(["--json", "tickets"])).ok().text();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let text = shown.to_string();
    let is_digest =
        |word: &&str| word.len() >= 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut words = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(is_digest);
    let digest = words
        .next()
        .unwrap_or_else(|| panic!("no digest in {text}"));
    let told = run(&mut gc(&scratch, &["--explain", digest])).ok().text();
    assert!(
        told.contains("the ticket ") && told.contains("value.o names"),
        "{told}"
    );
    run(&mut gc(&scratch, &["--explain", "zz"])).code(2);
}

#[test]
fn builds_have_a_repository_compacted_that_has_outgrown_its_size() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    // What is beside it is started.
    let own = scratch.join("bin/repo-cc");
    let calls = scratch.join("calls").display().to_string();
    script(
        &scratch,
        "repo-gc",
        &format!("echo \"$@\" >>'{calls}.new' && mv '{calls}.new' '{calls}'"),
    );
    fs::copy(Binaries::get().path("repo-cc"), &own).unwrap();
    let compile = |number: u32, max_size: Option<&str>| {
        let source = format!("{number}.c");
        scratch.write(
            &source,
            format!("int f{number}(int x) {{ return x * {number}; }}\n"),
        );
        let mut command = scratch.command(&own);
        if let Some(size) = max_size {
            command.env("REPO_MAX_SIZE", size);
        }
        command
            .arg("--log=log")
            .arg(&gcc)
            .args(["-O1", "-c", &source]);
        assert_eq!(run(&mut command).ok().errors(), "");
    };
    let mark = scratch.join("program.repo.links/compacted");
    compile(0, None);
    compile(1, Some("1T"));
    compile(2, Some("much"));
    assert!(!mark.exists());
    compile(3, Some("1K"));
    assert!(mark.exists());
    while !Path::new(&calls).exists() {}
    let repository = scratch.repository().canonicalize().unwrap();
    let expected = format!("--idle --repo {} --max-size 1000\n", repository.display());
    assert_eq!(fs::read_to_string(&calls).unwrap(), expected);
    // Not each time.
    fs::remove_file(&calls).unwrap();
    compile(4, Some("1K"));
    let log = fs::read_to_string(scratch.join("log")).unwrap();
    let told = |what: &str| log.lines().filter(|line| line.contains(what)).count();
    assert_eq!(told("repo-gc --idle was started"), 1, "{log}");
    assert_eq!(told("$REPO_MAX_SIZE is no size"), 1, "{log}");
}
