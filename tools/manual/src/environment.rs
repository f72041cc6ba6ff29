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

const OF_COMPILERS: &str = "The compilers' own: part of what a compile is looked up by.";
const OF_TERMINALS: &str =
    "The compilers' own: where they write to a terminal, part of what a compile is looked up by.";
const OF_CARGO: &str = "Cargo's and rustc's own: part of what a library of Rust is looked up by.";
const OF_CARGO_ALL: &str =
    "Cargo's own, all that begin so: part of what a library of Rust is looked up by.";
const FOR_BUILD_SCRIPTS: &str = "Cargo's own, for build scripts: if neither the linker that cargo was told of nor cc on PATH lead to repo-cc or repo-ld, what they compile becomes fat objects, unless REPO_CC_FAT is set.";
const ASKS_FOR_MORE: &str =
    "The compilers' own: while it is set, every compile is done, whole, and none is recorded.";

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
        name: "REPO_LD_INCREMENTAL",
        readers: &["ld"],
        meaning: "0: links are not incremental; else they are; in both cases unless an option says so.",
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
        name: "REPO_MAX_SIZE",
        readers: &["cc"],
        meaning: "A size, such as 20G. When a compile finds that the repository is larger, it starts repo-gc --idle --max-size SIZE and does not wait for it, at most once an hour. Without it, never.",
    },
    Variable {
        name: "XDG_CONFIG_HOME",
        readers: &["cc", "ld", "gc"],
        meaning: "Below it is the key with which repo-cc signs how tickets were made, and what repo-gc --install-timer gives to systemd. Without it, below ~/.config.",
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
        name: "REPO_CC_PRUNE",
        readers: &["cc"],
        meaning: "Clang 19 generates nothing for definitions that the repository has, where that is understood. If it is 0, it compiles whole sources; if it is explain, it is also said what became of each definition, and why, as --explain says then; if it is 1, that is so even if REPO_CC_DISABLE is set.",
    },
    Variable {
        name: "REPO_CC_VERIFY",
        readers: &["cc"],
        meaning: "If it is set, each compile in which definitions were left out is done again as a whole, and without the plugin, all are compared, and the result is said. If they differ, what was made without the plugin is kept.",
    },
    Variable {
        name: "LD_LIBRARY_PATH",
        readers: &["cc", "ld"],
        meaning: "Where repo-ld looks for what shared inputs need, as GNU ld does. To repo-cc it is part of what a compile is looked up by.",
    },
    Variable {
        name: "LD_RUN_PATH",
        readers: &["ld"],
        meaning: "The run path that is recorded if there is no -rpath, as GNU ld does.",
    },
    Variable {
        name: "NO_COLOR",
        readers: &["cc", "ld", "dump"],
        meaning: "If it is set and not empty: no colours, unless an option asks for them. repo-cc lets the compiler write none to a terminal then.",
    },
    Variable {
        name: "TERM",
        readers: &["cc", "ld"],
        meaning: "If it is dumb: no colours, unless an option asks for them. repo-cc lets the compiler write none to a terminal then.",
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
        name: "REPO_CC_FAT",
        readers: &["cc"],
        meaning: "If it is set, and neither empty nor 0: as --fat.",
    },
    Variable {
        name: "REPO_CC_BASEDIR",
        readers: &["cc"],
        meaning: "A directory above the working directory. What the command line says of files below it is told to the compiler from the working directory on, so that what is compiled in one checkout is known in another one.",
    },
    Variable {
        name: "REPO_CC_DISABLE",
        readers: &["cc"],
        meaning: "If it is set, and neither empty nor 0: every compile is done, whole, and none is recorded.",
    },
    Variable {
        name: "REPO_CC_READONLY",
        readers: &["cc"],
        meaning: "If it is set, and neither empty nor 0: what is known of compiles is used, and nothing new is recorded.",
    },
    Variable {
        name: "COLORTERM",
        readers: &["cc"],
        meaning: OF_TERMINALS,
    },
    Variable {
        name: "COLUMNS",
        readers: &["cc"],
        meaning: OF_TERMINALS,
    },
    Variable {
        name: "TERM_PROGRAM",
        readers: &["cc"],
        meaning: OF_TERMINALS,
    },
    Variable {
        name: "TERM_PROGRAM_VERSION",
        readers: &["cc"],
        meaning: OF_TERMINALS,
    },
    Variable {
        name: "VTE_VERSION",
        readers: &["cc"],
        meaning: OF_TERMINALS,
    },
    Variable {
        name: "CLANG_NO_DEFAULT_CONFIG",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "CLICOLOR_FORCE",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "COMPILER_PATH",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "CPATH",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "CPLUS_INCLUDE_PATH",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "C_INCLUDE_PATH",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "GCC_COLORS",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "GCC_EXEC_PREFIX",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "GCC_EXTRA_DIAGNOSTIC_OUTPUT",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "GCC_ROOT",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "GCC_URLS",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "LANG",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "LANGUAGE",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "LC_ALL",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "LC_CTYPE",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "LC_MESSAGES",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "LD_PRELOAD",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "LIBRARY_PATH",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "LPATH",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "OBJC_INCLUDE_PATH",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "POSIXLY_CORRECT",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "SDKROOT",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "SOURCE_DATE_EPOCH",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "TERM_URLS",
        readers: &["cc"],
        meaning: OF_COMPILERS,
    },
    Variable {
        name: "CARGO_PKG_",
        readers: &["cc"],
        meaning: OF_CARGO_ALL,
    },
    Variable {
        name: "CARGO_MANIFEST_",
        readers: &["cc"],
        meaning: OF_CARGO_ALL,
    },
    Variable {
        name: "CARGO_CFG_",
        readers: &["cc"],
        meaning: OF_CARGO_ALL,
    },
    Variable {
        name: "CARGO_CRATE_NAME",
        readers: &["cc"],
        meaning: OF_CARGO,
    },
    Variable {
        name: "OUT_DIR",
        readers: &["cc"],
        meaning: OF_CARGO,
    },
    Variable {
        name: "RUSTC_LINKER",
        readers: &["cc"],
        meaning: FOR_BUILD_SCRIPTS,
    },
    Variable {
        name: "CARGO_ENCODED_RUSTFLAGS",
        readers: &["cc"],
        meaning: FOR_BUILD_SCRIPTS,
    },
    Variable {
        name: "RUSTC_BOOTSTRAP",
        readers: &["cc"],
        meaning: OF_CARGO,
    },
    Variable {
        name: "CCC_ADD_ARGS",
        readers: &["cc"],
        meaning: ASKS_FOR_MORE,
    },
    Variable {
        name: "CC_LOG_DIAGNOSTICS",
        readers: &["cc"],
        meaning: ASKS_FOR_MORE,
    },
    Variable {
        name: "CC_PRINT_HEADERS",
        readers: &["cc"],
        meaning: ASKS_FOR_MORE,
    },
    Variable {
        name: "CC_PRINT_INTERNAL_STAT",
        readers: &["cc"],
        meaning: ASKS_FOR_MORE,
    },
    Variable {
        name: "CC_PRINT_OPTIONS",
        readers: &["cc"],
        meaning: ASKS_FOR_MORE,
    },
    Variable {
        name: "CC_PRINT_PROC_STAT",
        readers: &["cc"],
        meaning: ASKS_FOR_MORE,
    },
    Variable {
        name: "DEPENDENCIES_OUTPUT",
        readers: &["cc"],
        meaning: ASKS_FOR_MORE,
    },
    Variable {
        name: "GCC_COMPARE_DEBUG",
        readers: &["cc"],
        meaning: ASKS_FOR_MORE,
    },
    Variable {
        name: "LD_AUDIT",
        readers: &["cc"],
        meaning: ASKS_FOR_MORE,
    },
    Variable {
        name: "SUNPRO_DEPENDENCIES",
        readers: &["cc"],
        meaning: ASKS_FOR_MORE,
    },
    Variable {
        name: "REPO_CC_CHOSEN",
        readers: &["cc"],
        meaning: "Set by repo-cc for what it runs, so that it does not call itself. Leave it alone.",
    },
    Variable {
        name: "REPO_CC_PLUGIN_REQUEST",
        readers: &["cc"],
        meaning: "Set by repo-cc for the plugin that it gives to clang. Leave it alone.",
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
];
