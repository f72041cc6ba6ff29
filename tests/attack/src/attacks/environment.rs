//! Surroundings that programs are seldom tested in: limits, closed descriptors, variables that are missing, directories that
//! cannot be written, names of the greatest length.

use crate::field::UNITS;
use crate::oracle::{ends_cleanly, ends_silently, succeeds};
use crate::{Failure, Field, Verdict};
use repo_tests::process::{command_line, run};
use std::process::Command;

/// A shell line in which `$COMMAND` is the command, and whether the command can still say something.
const SURROUNDINGS: [(&str, bool); 13] = [
    ("exec $COMMAND 0<&-", true),
    ("exec $COMMAND 1>&-", true),
    ("exec $COMMAND 2>&-", false),
    ("exec $COMMAND 0<&- 1>&- 2>&-", false),
    ("exec $COMMAND >/dev/full", true),
    ("exec $COMMAND 2>/dev/full", false),
    ("PATH= exec $COMMAND", true),
    (
        "unset HOME XDG_CACHE_HOME XDG_STATE_HOME; exec $COMMAND",
        true,
    ),
    ("HOME=/nonexistent TMPDIR=/nonexistent exec $COMMAND", true),
    ("umask 0777; exec $COMMAND", true),
    ("umask 0; exec $COMMAND", true),
    ("ulimit -n NUMBER; exec $COMMAND", true),
    ("ulimit -v KILOBYTES; exec $COMMAND", true),
];

/// A command in one of these surroundings, and then the same command without.
pub fn odd(field: &mut Field) -> Verdict {
    let unit = UNITS[field.random.below(UNITS.len())];
    field.edit(unit)?;
    let command = match field.random.below(5) {
        0 => field.compact(),
        1 => field.link_alone(),
        2 => field.verify(),
        3 => field.link(),
        _ => field.compile(unit),
    };
    let (surroundings, can_say) = field.random.pick(&SURROUNDINGS);
    let number = (3 + field.random.below(30)).to_string();
    let kilobytes = (20_000 + field.random.below(400_000)).to_string();
    let line = command_line(&command);
    // `cd … && NAME=… program`: what stands before the program is the shell's.
    let (before, program) = line.split_once(" && ").unwrap_or(("true", &line));
    let script = surroundings
        .replace("NUMBER", &number)
        .replace("KILOBYTES", &kilobytes)
        .replace("exec $COMMAND", &format!("env {program}"));
    let ended = run(Command::new("sh").args(["-c", &format!("{before} && {{ {script}; }}")]));
    // The shell's own: env or the loader could not even start the program.
    let not_started = matches!(ended.status.code(), Some(2 | 125..=127));
    match (not_started, can_say) {
        (true, _) => {}
        (_, true) => ends_cleanly(&ended)?,
        (_, false) => ends_silently(&ended)?,
    }
    // Without permissions or room for its files the compiler makes what it makes; the repository is whole in any case.
    for unit in UNITS {
        let _ = std::fs::remove_file(field.ticket(unit));
    }
    let _ = std::fs::remove_file(field.scratch.join("program"));
    field.survives()
}

/// The longest names that a file can have.
pub fn long_names(field: &mut Field) -> Verdict {
    let length = 255 - field.random.below(4) * field.random.below(30);
    let name = format!("{}.o", "n".repeat(length - 2));
    let mut link = field.link();
    link.args(["-o", &name]);
    let linked = run(&mut link);
    succeeds(&linked)?;
    let unit = UNITS[field.random.below(UNITS.len())];
    let mut compile = field.compile(unit);
    compile.args(["-o", &name]);
    let compiled = run(&mut compile);
    // gcc's own assembler takes them.
    succeeds(&compiled)?;
    let _ = std::fs::remove_file(field.scratch.join(&name));
    match field.scratch.path().read_dir() {
        Ok(entries) => {
            let left = entries.flatten().find(|entry| {
                let name = entry.file_name();
                name.to_string_lossy().contains("nnnnnnnn")
            });
            match left {
                None => field.survives(),
                Some(left) => Err(Failure::broken(format!(
                    "{} was left behind",
                    left.path().display()
                ))),
            }
        }
        Err(why) => Err(Failure::Impossible(why.to_string())),
    }
}
