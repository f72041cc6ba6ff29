//! `repo-dump`: shows what a program repository holds.

use clap::Parser;
use std::process::ExitCode;
use tools::dump::{self, cli::Cli};

fn main() -> ExitCode {
    store::guard::install("repo-dump", "what was shown is not all");
    dump::main(&Cli::parse())
}
