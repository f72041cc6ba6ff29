//! The command line of `repo-dump`.

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Shows what a program repository holds.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "repo-dump",
    version,
    about = "Show what a program repository holds",
    long_about = "Show what a program repository holds.\n\n\
        Without a command: an overview. With a ticket (a file that stands in place of an object \
        file): what it says and the compilation that it names.",
    after_help = AFTER_HELP,
    args_conflicts_with_subcommands = false,
    subcommand_precedence_over_arg = true,
    group(ArgGroup::new("place").args(["output", "in_place"]))
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub common: Common,
    /// Options that are commands of their own.
    #[command(flatten)]
    pub action: Action,
    /// Where --materialize writes; for a directory, the directory below which
    #[arg(short, long, value_name = "FILE", requires = "materialize")]
    pub output: Option<PathBuf>,
    /// Have --materialize put objects in the tickets' places
    #[arg(long, requires = "materialize")]
    pub in_place: bool,
    /// A ticket to show, or a repository as with --repo (write ./NAME for a file that is called like a command)
    #[arg(value_name = "TICKET")]
    pub ticket: Option<PathBuf>,
    /// What to show.
    #[command(subcommand)]
    pub command: Option<Command>,
}

const AFTER_HELP: &str = "\
The repository is --repo FILE, else $REPO_FILE, else the nearest program.repo in this directory or \
above that belongs to you or root and that nobody else may write, else the user's own under $XDG_STATE_HOME/program-repository. A ticket names its repository \
itself.

A DIGEST is any unique prefix (at least four digits) of the digest that a list shows.

Exit codes:
  0  success
  1  the repository is damaged: the message names the file and the offset
  2  wrong usage, no such thing, or the system refused something

The manual: man repo-dump";

/// Options of every command.
#[derive(Clone, Args, Debug)]
pub struct Common {
    /// The repository
    #[arg(long, value_name = "FILE", global = true)]
    pub repo: Option<PathBuf>,
    /// Show the repository as it was after this transaction
    #[arg(long, value_name = "N", global = true)]
    pub revision: Option<u64>,
    /// Write JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Show C++ and Rust names as they are in the source
    #[arg(short = 'C', long, global = true)]
    pub demangle: bool,
    /// Colours: only on a terminal (and if $NO_COLOR is not set), always, or never
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub color: When,
}

/// When to do something that suits terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Options that are commands of their own.
#[derive(Clone, Args, Debug)]
#[group(multiple = true)]
pub struct Action {
    /// Bytes by kind, shared definitions, and the ratio to the object files
    #[arg(long, conflicts_with_all = ["verify", "repair", "diff", "materialize"])]
    pub stats: bool,
    /// Check everything: checksums, tables, and the digest of all content
    #[arg(long, conflicts_with_all = ["diff", "materialize"])]
    pub verify: bool,
    /// Make good what is damaged: indices are made again from the log, and what cannot be is dropped
    ///
    /// Says which tickets must be built again. Does first what --verify does, and
    /// changes nothing if all is well.
    #[arg(long, conflicts_with_all = ["diff", "materialize"])]
    pub repair: bool,
    /// What differs between two tickets or two revisions
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "materialize")]
    pub diff: Option<Vec<String>>,
    /// Write the compilation of a ticket (or with this digest) as an ELF object
    ///
    /// Of an archive that holds tickets: an archive of objects, in the same
    /// order and with the same names (of a thin one in place: of the files that
    /// it names, too). Of a directory: of all tickets and such archives below it
    /// (other files are not copied).
    #[arg(long, value_name = "TICKET", requires = "place")]
    pub materialize: Option<String>,
}

/// What to show.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// The file: UUID, format, size, newest revision, times
    Header,
    /// The transactions, newest first
    Revisions {
        /// Only the newest N
        #[arg(short = 'n', long, value_name = "N")]
        limit: Option<u64>,
    },
    /// The indices and vectors: number of records, fill of their tables
    Indices,
    /// The interned names
    Names {
        /// Only names that contain this, as objects have them or as the source does
        pattern: Option<String>,
    },
    /// The mergeable pieces: string literals and constants
    Pieces {
        /// Only pieces with this digest, or that contain this text
        pattern: Option<String>,
    },
    /// The definitions; one in full with its disassembly
    Fragments {
        /// Digests or symbol names, as objects have them or as the source does (n::f); a part of a name lists
        /// what has it
        #[arg(value_name = "DIGEST|SYMBOL")]
        which: Vec<String>,
    },
    /// What translation units defined; one in full
    Compilations {
        /// Digests or ticket files; of a ticket on record the end of its path is enough
        #[arg(value_name = "DIGEST|TICKET")]
        which: Vec<String>,
    },
    /// The ticket files, and which of them still exist
    Tickets {
        /// Only those whose path contains this
        pattern: Option<String>,
    },
    /// The DWARF types
    Types {
        /// Only types whose name contains this
        pattern: Option<String>,
    },
    /// What compilers have made, by their commands: what repo-cc needs not compile again
    Manifests {
        /// Only those of a command that contains this
        pattern: Option<String>,
        /// The one whose key begins so, in full: its inputs and all else that must be as it was
        #[arg(long, value_name = "DIGEST", conflicts_with = "pattern")]
        key: Option<String>,
    },
    /// What definitions depend on, of compiles that `REPO_CC_PRUNE=explain` or `repo-cc --explain` has explained
    Graph {
        /// Ticket files or compilations' digests: all of these; names or digests of definitions: these alone
        #[arg(value_name = "TICKET|SYMBOL|DIGEST", required = true)]
        which: Vec<String>,
    },
    /// Why two definitions of one name have the digests that `graph` shows, and not the same
    Why {
        /// The digest of the one
        from: String,
        /// That of the other
        to: String,
    },
    /// The records of an index whose kind need not be known: what keeps each, and to how much it refers
    Records {
        /// The index, by its number or its name, as `indices` lists them
        index: String,
    },
    /// The linked outputs; one in full
    Images {
        /// Outputs, by path
        which: Vec<PathBuf>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn tickets_and_commands_are_told_apart() {
        let cli = Cli::try_parse_from(["repo-dump", "a.o"]).expect("a ticket");
        assert_eq!(cli.ticket, Some("a.o".into()));
        let cli = Cli::try_parse_from(["repo-dump", "--json", "header"]).expect("a command");
        assert!(matches!(cli.command, Some(Command::Header)) && cli.common.json);
        let cli = Cli::try_parse_from(["repo-dump", "header", "--repo", "x"]).expect("a command");
        assert_eq!(cli.common.repo, Some("x".into()));
    }

    #[test]
    fn materialize_wants_an_output() {
        assert!(Cli::try_parse_from(["repo-dump", "--materialize", "a.o"]).is_err());
        let cli = Cli::try_parse_from(["repo-dump", "--materialize", "a.o", "-o", "b.o"]);
        assert_eq!(cli.expect("complete").output, Some("b.o".into()));
        let cli = Cli::try_parse_from(["repo-dump", "--materialize", "lib", "--in-place"]);
        assert!(cli.expect("complete").in_place);
        let both = [
            "repo-dump",
            "--materialize",
            "a.o",
            "--in-place",
            "-o",
            "b.o",
        ];
        assert!(Cli::try_parse_from(both).is_err());
        assert!(Cli::try_parse_from(["repo-dump", "--in-place"]).is_err());
        assert!(Cli::try_parse_from(["repo-dump", "--stats", "--verify"]).is_err());
        assert!(Cli::try_parse_from(["repo-dump", "--diff", "1"]).is_err());
    }
}
