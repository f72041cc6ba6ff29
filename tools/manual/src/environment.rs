//! The environment variables that the programs read: one table for the manual pages, to which a test holds the
//! README's and the code (`tests/tests/readme.rs`).

/// A variable, and what it says.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The programs that read it, without `repo-`.
    pub readers: &'static [&'static str],
    /// What it says: one or two sentences.
    pub meaning: &'static str,
}

const ALL: &[&str] = &["cc", "ld", "dump", "gc"];

/// All of them, in the order of the manual.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "REPO_FILE",
        readers: ALL,
        meaning: "The repository, if --repo does not name one. It is trusted, whoever owns it.",
    },
    Variable {
        name: "REPO_LOG",
        readers: &["cc", "ld"],
        meaning: "A file to which one line is appended about each command, if --log does not name one.",
    },
    Variable {
        name: "REPO_LOCK_WAIT",
        readers: ALL,
        meaning: "How many seconds to wait at most for a process that has the repository locked and writes nothing (10).",
    },
    Variable {
        name: "XDG_STATE_HOME",
        readers: ALL,
        meaning: "Below it is the user's own repository. Without it, below ~/.local/state.",
    },
    Variable {
        name: "XDG_CACHE_HOME",
        readers: &["cc"],
        meaning: "Below it are the links through which gcc finds repo-ld. Without it, below ~/.cache.",
    },
    Variable {
        name: "XDG_CONFIG_HOME",
        readers: &["cc", "ld"],
        meaning: "Below it is the key with which repo-cc signs how tickets were made. Without it, below ~/.config.",
    },
    Variable {
        name: "HOME",
        readers: ALL,
        meaning: "The directory ~ of what is said here. repo-gc looks for archives of tickets beside the tickets and in the directories above them, up to this one and without it.",
    },
    Variable {
        name: "TMPDIR",
        readers: &["cc"],
        meaning: "Where these links are if there is neither a cache nor a home. Without it, /tmp.",
    },
    Variable {
        name: "PATH",
        readers: &["cc", "ld"],
        meaning: "Where repo-cc looks for compilers, and for a repo-ld if none is beside it; where repo-ld looks for another linker if it is asked for another machine.",
    },
    Variable {
        name: "SUDO_UID",
        readers: ALL,
        meaning: "For root: the user who called sudo, and whose repositories are trusted as well.",
    },
    Variable {
        name: "LD_LIBRARY_PATH",
        readers: &["ld"],
        meaning: "Where to look for what shared inputs need, as GNU ld does.",
    },
    Variable {
        name: "LD_RUN_PATH",
        readers: &["ld"],
        meaning: "The run path that is recorded if there is no -rpath, as GNU ld does.",
    },
    Variable {
        name: "NO_COLOR",
        readers: &["ld", "dump"],
        meaning: "If it is set and not empty: no colours, unless an option asks for them.",
    },
    Variable {
        name: "TERM",
        readers: &["ld"],
        meaning: "If it is dumb: no colours, unless an option asks for them.",
    },
    Variable {
        name: "CCC_OVERRIDE_OPTIONS",
        readers: &["cc"],
        meaning: "clang's own. It changes clang's options, so compiles by clang are passed on untouched while it is set.",
    },
    Variable {
        name: "CCACHE_DISABLE",
        readers: &["cc"],
        meaning: "ccache's own, which it sets for what it runs: compiles then leave ordinary objects, as ccache would keep tickets longer than what they name. Let repo-cc run ccache instead: repo-cc ccache gcc.",
    },
    Variable {
        name: "REPO_CC_CHOSEN",
        readers: &["cc"],
        meaning: "Set by repo-cc for what it runs, so that it does not call itself. Leave it alone.",
    },
    Variable {
        name: "REPO_LD_CALLED_FOR_ANOTHER",
        readers: &["ld"],
        meaning: "Set by repo-ld for another linker that it runs, so that it does not call itself. Leave it alone.",
    },
    Variable {
        name: "COLLECT_GCC",
        readers: &["ld"],
        meaning: "Set by compilers for their linkers. It is taken away from the commands that make lost tickets again.",
    },
    Variable {
        name: "COLLECT_GCC_OPTIONS",
        readers: &["ld"],
        meaning: "Set by compilers for their linkers. It is taken away from the commands that make lost tickets again.",
    },
    Variable {
        name: "COLLECT_LTO_WRAPPER",
        readers: &["ld"],
        meaning: "Set by compilers for their linkers. It is taken away from the commands that make lost tickets again.",
    },
    Variable {
        name: "COMPILER_PATH",
        readers: &["ld"],
        meaning: "Set by compilers for their linkers. It is taken away from the commands that make lost tickets again.",
    },
];
