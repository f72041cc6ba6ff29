//! How `repo-ld` ends: a large link returns when its output is complete, and another process, which shares its memory,
//! takes that apart afterwards. Nobody may notice that process: not by an exit code, not by a pipe that stays open, not by
//! an output that cannot be run yet.
//!
//! One test: it waits for all children of this process, and must not get those of another.

use repo_tests::binaries::Binaries;
use repo_tests::process::run;
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use std::io::Read as _;
use std::process::Command;

/// Waits until this process has no children left; returns how many there were. All must have ended well.
fn wait_for_all() -> usize {
    let mut count = 0;
    while let Ok(Some((_, status))) = wait(WaitOptions::empty()) {
        assert_eq!(status.exit_status(), Some(0), "what was left behind fails");
        count += 1;
    }
    count
}

#[test]
fn who_waits_for_a_link_does_not_wait_for_its_memory() {
    if tools::require(["gcc"]).is_none() {
        return;
    }
    // What children leave running becomes ours.
    set_child_subreaper(Some(getpid())).unwrap();
    let scratch = Scratch::new();
    scratch.write(
        "large.s",
        ".globl _start\n_start: mov $60, %eax\n mov $7, %edi\n syscall\n\
         .data\n .fill 50000000, 1, 5\n .section .note.GNU-stack,\"\",@progbits\n",
    );
    scratch.write(
        "missing.s",
        ".globl other\nother: call nowhere\n .section .note.GNU-stack,\"\",@progbits\n",
    );
    for name in ["large", "missing"] {
        let source = format!("{name}.s");
        run(scratch.command("gcc").args(["-c", &source])).ok();
    }
    let link = |arguments: &[&str]| -> Command {
        let mut command = scratch.command(Binaries::get().path("repo-ld"));
        command.args(arguments);
        command
    };

    for (fork, left_behind) in [(None, 1), (Some("--fork"), 1), (Some("--no-fork"), 0)] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        // As make's jobserver is handed on.
        fcntl_setfd(&writer, FdFlags::empty()).unwrap();
        // With a message on each stream.
        let linked = run(link(&["large.o", "--trace", "-e", "nowhere", "-o", "large"]).args(fork));
        drop(writer);
        // That it comes to an end shows that nobody has the other end any more.
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert!(linked.text().contains("large.o"), "{}", linked.report());
        assert!(linked.errors().contains("nowhere"), "{}", linked.report());
        linked.ok();
        // It can be run at once.
        run(&mut scratch.command(scratch.join("large"))).code(7);
        assert_eq!(wait_for_all(), left_behind, "{fork:?}");
    }

    // A link that fails says so itself.
    let failed = run(&mut link(&["large.o", "missing.o", "-o", "failed"])).failed();
    assert!(failed.errors().contains("nowhere"), "{}", failed.report());
    failed.code(1);
    assert_eq!(wait_for_all(), 0);
}
