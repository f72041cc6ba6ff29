//! Files that never end, that make one wait, or that are larger than memory, where a
//! ticket or a repository is looked for: judged by what they are before they are read.
//!
//! A program that waits or reads for ever is killed after
//! [`LIMIT`](repo_tests::process::LIMIT); one that reads all of a large file runs out of
//! the memory that it is allowed.

use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Bytes of heap that a program may have.
const MEMORY: u64 = 1 << 29;

/// Runs one of the programs with little memory.
fn program(scratch: &Scratch, name: &str, arguments: &[&str]) -> Run {
    let mut command = scratch.command("prlimit");
    command.arg(format!("--data={MEMORY}"));
    command.arg(Binaries::get().path(name)).args(arguments);
    run(&mut command)
}

fn compile(scratch: &Scratch, gcc: &Path, name: &str) {
    let source = scratch.write(
        format!("{name}.c"),
        format!("int {name}(void) {{ return 1; }}\n"),
    );
    let mut command = scratch.command(Binaries::get().path("repo-cc"));
    command.arg(gcc).arg("-c").arg(source);
    // What is known of compiles would keep some compilations.
    command.env("REPO_CC_DISABLE", "1");
    run(command.arg("-o").arg(format!("{name}.o"))).ok();
}

fn make_fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).expect("a FIFO can be made");
}

/// An archive whose one member is of 3 GB, most of it a hole.
fn make_large_archive(path: &Path) {
    let size = 3_u64 << 30;
    let mut file = File::create(path).expect("created");
    let header = format!(
        "{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
        "large.o/", 0, 0, 0, "644", size
    );
    write!(file, "!<arch>\n{header}").expect("written");
    file.set_len(8 + 60 + size).expect("as long as it says");
}

#[test]
fn where_tickets_were() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    let names = [
        "fifo",
        "zero",
        "kmsg",
        "terminal",
        "large",
        "thin",
        "directory",
        "kept",
    ];
    for name in names {
        compile(&scratch, &gcc, name);
    }
    for name in &names[..7] {
        fs::remove_file(scratch.join(format!("{name}.o"))).expect("removed");
    }
    make_fifo(&scratch.join("fifo.o"));
    symlink("/dev/zero", scratch.join("zero.o")).expect("linked");
    symlink("/proc/kmsg", scratch.join("kmsg.o")).expect("linked");
    symlink("/dev/ptmx", scratch.join("terminal.o")).expect("linked");
    make_large_archive(&scratch.join("large.o"));
    // A thin archive, whose members are a FIFO, a device and a file of 3 GB.
    let mut thin = String::from("!<thin>\n");
    let table = "fifo.o/\nzero.o/\nkmsg.o/\nlarge.o/\n\n";
    thin += &format!("{:<48}{:<10}`\n{table}", "//", table.len());
    for offset in [0, 8, 16, 24] {
        let name = format!("/{offset}");
        thin += &format!(
            "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            0, 0, 0, "644", 1000
        );
    }
    scratch.write("thin.o", thin);
    fs::create_dir(scratch.join("directory.o")).expect("a directory");

    let tickets = program(&scratch, "repo-dump", &["tickets"]).ok().text();
    assert!(tickets.contains("kept.o"), "{tickets}");
    let live = tickets.lines().filter(|line| line.starts_with("live"));
    assert_eq!(live.count(), 1, "{tickets}");
    for arguments in [
        &["--dry-run", "--grace", "0"][..],
        &["--grace", "0", "--root", "."],
    ] {
        let report = program(&scratch, "repo-gc", arguments).ok();
        assert!(
            report.text().contains("1 of 8 compilations"),
            "{}",
            report.report()
        );
    }
    for name in &names[..7] {
        let file = format!("{name}.o");
        let shown = program(&scratch, "repo-dump", &[&file]).code(2);
        assert!(shown.errors().contains(&file), "{}", shown.report());
    }
    let output = ["--materialize", "fifo.o", "-o", "made.o"];
    program(&scratch, "repo-dump", &output).code(2);
    program(&scratch, "repo-dump", &["--diff", "kept.o", "zero.o"]).code(2);
}

#[test]
fn where_a_repository_was() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    compile(&scratch, &gcc, "a");
    let repository = scratch.repository();
    let named = repository.to_string_lossy();
    fs::remove_file(&repository).expect("removed");
    let special: [(&str, &dyn Fn()); 4] = [
        ("FIFO", &|| make_fifo(&repository)),
        ("device", &|| {
            symlink("/dev/zero", &repository).expect("linked")
        }),
        ("not a repository", &|| {
            symlink("/proc/kmsg", &repository).expect("linked")
        }),
        ("directory", &|| fs::create_dir(&repository).expect("made")),
    ];
    for (kind, make) in special {
        make();
        for (name, arguments) in [
            ("repo-ld", &["-e", "a", "-o", "out", "a.o"][..]),
            (
                "repo-ld",
                &["-e", "a", "-o", "out", "a.o", "--repo", &named],
            ),
            ("repo-dump", &["a.o"]),
            ("repo-dump", &["tickets"]),
            ("repo-gc", &[]),
        ] {
            let done = program(&scratch, name, arguments).failed();
            let said = done.errors();
            let is_clear = said.contains(&*named) || said.contains("/proc/kmsg");
            assert!(is_clear && said.contains(kind), "{kind}: {}", done.report());
        }
        // A compile goes on; found by search, it is passed over.
        let mut command = scratch.command(Binaries::get().path("repo-cc"));
        command.arg(&gcc).args(["-c", "a.c", "-o", "b.o"]);
        let by_hand = run(&mut command).ok();
        assert!(
            by_hand.errors().contains("stays an ordinary object"),
            "{}",
            by_hand.report()
        );
        let found = run(command.env_remove("REPO_FILE")).ok();
        assert!(
            found.errors().starts_with("repo-cc: warning: "),
            "{}",
            found.report()
        );
        if fs::remove_file(&repository).is_err() {
            fs::remove_dir(&repository).expect("removed");
        }
    }
}

/// Directly given to the linker: as pipes, some such files are inputs; others never end.
#[test]
fn devices_as_inputs() {
    let scratch = Scratch::new();
    for input in ["/dev/zero", "/proc/kmsg"] {
        let done = program(&scratch, "repo-ld", &["-o", "out", input]).failed();
        assert!(done.errors().contains(input), "{}", done.report());
    }
    assert!(!scratch.join("out").exists());
}
