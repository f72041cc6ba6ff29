//! The table of attacks.

mod damage;
mod environment;
mod full_disk;
mod hostile;
mod kill;
mod users;

use crate::{Field, Verdict};

/// A kind of attack.
pub struct Attack {
    /// What it is called on the command line and in the table.
    pub name: &'static str,
    /// What it does, for `--list`.
    pub what: &'static str,
    /// How many tries the short form makes.
    pub short: u32,
    /// Makes one.
    pub attempt: fn(&mut Field) -> Verdict,
}

/// All of them.
pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "kill-moments",
        what: "SIGKILL at random moments to compiles, links and a compactor that run beside each other and a reader",
        short: 40,
        attempt: kill::at_a_moment,
    },
    Attack {
        name: "kill-calls",
        what: "SIGKILL at a system call that writes, renames or syncs (by strace)",
        short: 60,
        attempt: kill::at_a_call,
    },
    Attack {
        name: "single-bits",
        what: "one bit of the repository flipped",
        short: 60,
        attempt: damage::bit,
    },
    Attack {
        name: "cut-files",
        what: "repository or ticket cut short, or its end overwritten",
        short: 30,
        attempt: damage::cut,
    },
    Attack {
        name: "records",
        what: "fields of records changed, with all checksums made right again",
        short: 150,
        attempt: damage::records,
    },
    Attack {
        name: "tables",
        what: "words of tables, trailers and state changed, with checksums made right again",
        short: 60,
        attempt: damage::tables,
    },
    Attack {
        name: "full-disk",
        what: "compiles, links and compaction in a file system of a few pages (as root)",
        short: 24,
        attempt: full_disk::tmpfs,
    },
    Attack {
        name: "file-size",
        what: "compiles, links and compaction under a limit on the size of files",
        short: 30,
        attempt: full_disk::file_size,
    },
    Attack {
        name: "inputs",
        what: "objects, archives, scripts, shared objects and tickets changed field by field",
        short: 100,
        attempt: hostile::input,
    },
    Attack {
        name: "users",
        what: "programs of another user on this one's repository, and the other way round (as root)",
        short: 20,
        attempt: users::other,
    },
    Attack {
        name: "environment",
        what: "few descriptors, little memory, closed standard descriptors, no PATH or HOME, directories that cannot be written",
        short: 80,
        attempt: environment::odd,
    },
    Attack {
        name: "long-names",
        what: "names of outputs and tickets of up to 255 bytes",
        short: 6,
        attempt: environment::long_names,
    },
];
