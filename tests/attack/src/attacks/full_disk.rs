//! No room: a file system of a few pages, and limits on the size of files. What was there stays right, and there is an error.

use crate::field::UNITS;
use crate::oracle::{ends_below_file_size, ends_cleanly};
use crate::{Failure, Field, Verdict};
use repo_tests::process::{command_line, run};
use repo_tests::tools::on_path;
use std::process::Command;

/// One of the commands that write.
fn writer(field: &mut Field) -> Result<Command, Failure> {
    let unit = UNITS[field.random.below(UNITS.len())];
    field.edit(unit)?;
    Ok(match field.random.below(4) {
        0 => field.compact(),
        1 => field.link_alone(),
        _ => field.compile(unit),
    })
}

/// A compile that had no room has made no object, or an ordinary one, as the compiler does.
fn settle(field: &Field) -> Verdict {
    // The compiler's own half-written object is the compiler's; that of ours would be a ticket.
    let _ = std::fs::remove_file(field.scratch.join("program"));
    for unit in UNITS {
        let _ = std::fs::remove_file(field.ticket(unit));
    }
    field.survives()
}

/// In a mount namespace of its own, the directory is a tmpfs with room for what is there and a little more.
pub fn tmpfs(field: &mut Field) -> Verdict {
    if !rustix::process::geteuid().is_root() || on_path("unshare").is_none() {
        return Err(Failure::Impossible("needs root, and unshare".into()));
    }
    let room = field.good().len() / 1024 + 128 + field.random.below(220);
    let command = command_line(&writer(field)?);
    let place = field.scratch.path().display();
    // What is in the small file system afterwards is copied out of it: that is what the oracle looks at.
    let script = format!(
        "set -e; cp -a {place} {place}.full; mount -t tmpfs -o size={room}k,mode=0700 none {place}; \
         cp -a {place}.full/*.repo {place}.full/*.c {place}.full/*.o {place}/ || exit 99; \
         set +e; ({command}); code=$?; \
         umask 077; rm -rf {place}.full; cp -a {place} {place}.full; umount {place}; \
         cp -a {place}.full/. {place}/; rm -rf {place}.full; exit $code"
    );
    let mut unshare = Command::new("unshare");
    let ended = run(unshare.args(["--mount", "sh", "-c", &script]));
    let _ = std::fs::remove_dir_all(format!("{place}.full"));
    if ended.status.code() == Some(99) {
        return Err(Failure::Impossible(
            "the program itself does not fit".into(),
        ));
    }
    if ended.status.code() == Some(32) || ended.errors().contains("unshare failed") {
        return Err(Failure::Impossible(format!(
            "may not mount: {}",
            ended.errors()
        )));
    }
    ends_cleanly(&ended)?;
    settle(field)
}

/// `RLIMIT_FSIZE`.
pub fn file_size(field: &mut Field) -> Verdict {
    let limit = match field.random.below(3) {
        0 => field.random.below(8192),
        1 => field.random.below(field.good().len() * 2),
        _ => field.good().len() + field.random.below(4096),
    };
    let command = command_line(&writer(field)?);
    let mut shell = Command::new("sh");
    // As shells have it: the signal is ignored, or ends the process.
    let trap = if field.random.one_in(2) {
        "trap '' XFSZ; "
    } else {
        ""
    };
    let ended = run(shell.args([
        "-c",
        &format!(
            "{trap}exec prlimit --fsize={limit} sh -c \"$0\"",
            trap = trap
        ),
        &command,
    ]));
    ends_below_file_size(&ended)?;
    settle(field)
}
