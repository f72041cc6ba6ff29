//! Manual pages and shell completions of the four programs.
//!
//! What `--help` says comes from the programs' own tables: clap's for `repo-cc`, `repo-dump` and `repo-gc`, the table of
//! options for `repo-ld`. What it does not say is written by hand, in `pages/`.
//!
//! | module | subject |
//! |---|---|
//! | [`pages`] | a page: the written text, with the tables where it asks for them |
//! | [`linker_options`] | the options of `repo-ld`, for its page and its completions |
//! | [`environment`] | the variables that the programs read |
//! | [`completions`] | for bash, zsh and fish |
//! | [`comparison`] | `repo-ld` beside GNU ld and lld, option by option |

pub mod comparison;
pub mod completions;
pub mod environment;
pub mod linker_options;
pub mod pages;

use std::path::PathBuf;

/// The programs, in the order of the manual.
pub const PROGRAMS: &[&str] = &["repo-cc", "repo-ld", "repo-dump", "repo-gc"];

/// A file as it is installed.
#[derive(Debug)]
pub struct Document {
    /// Its path below the prefix.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
}

/// All pages and completions, and the table that compares linkers.
///
/// # Panics
/// If a page asks for a table that there is not, or a completion cannot be made: tests see to that.
pub fn documents() -> Vec<Document> {
    let mut documents = Vec::new();
    for program in PROGRAMS {
        documents.push(Document {
            path: format!("share/man/man1/{program}.1").into(),
            text: pages::page(program),
        });
        documents.extend(completions::of(program));
    }
    documents.push(Document {
        path: "share/doc/program-repository/linker-options.md".into(),
        text: comparison::text(),
    });
    documents
}

/// The command line of a program that has clap's.
fn command(program: &str) -> Option<clap::Command> {
    use clap::CommandFactory as _;
    match program {
        "repo-cc" => Some(tools::cc::cli::Options::command()),
        "repo-dump" => Some(tools::dump::cli::Cli::command()),
        "repo-gc" => Some(compactor::cli::Cli::command()),
        _ => None,
    }
}
