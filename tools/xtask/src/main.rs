//! `cargo xtask`: what one does with the project from its source tree.
//!
//! | command | what it does |
//! |---|---|
//! | `cargo xtask attack` | kills, damages, starves and misleads the programs, for as long as one likes |
//! | `cargo xtask corpus` | links much by one linker, remembers it, and compares another linker with it |
//! | `cargo xtask demo` | builds a real program through the repository, edits it, builds it again |
//! | `cargo xtask install` | installs the programs with their manual and completions, and removes them again |
//! | `cargo xtask layers` | checks that the linker's rooms, and the crates, know only what is below them |
//! | `cargo xtask packages` | builds real packages with ld and with repo-ld, and compares what their test suites say |
//! | `cargo xtask test` | runs every test, after installing what tests need where it may |

mod attack;
mod corpus;
mod demo;
mod install;
mod instrumented;
mod layers;
mod machine;
mod packages;
mod test;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    bin_name = "cargo xtask",
    about = "Developer commands of the program repository"
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Attack the programs and their repositories, and print tries and failures
    ///
    /// Kills, damaged repositories, full disks, hostile inputs, other users,
    /// limits. What fails is kept in target/attack. Without --hours, each kind
    /// of attack is tried as often as in the tests. More as root: file systems
    /// that are full, and other users.
    Attack {
        /// Arguments of the attacks: --hours N, --seed S, --only NAME, --list
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Compare what two linkers write, byte for byte
    ///
    /// For changes of the linker that must change no output. Record with the
    /// linker as it was, compare with the new one. Needs gcc and the crates registry.
    Corpus(corpus::Arguments),
    /// Build Lua through the repository, edit one function, build it again
    ///
    /// Needs gcc and the crates registry; everything is made in target/demo.
    Demo,
    /// Install the programs, or remove them
    ///
    /// Builds repo-cc, repo-ld, repo-dump and repo-gc without debug sections, and
    /// installs them with manual pages, completions for bash, zsh and fish, and
    /// links through which compilers find repo-ld, and build systems repo-cc.
    Install(install::Arguments),
    /// Check that rooms of the linker, and crates, know only what is below them
    ///
    /// Reads the sources; nothing is built.
    Layers(layers::Arguments),
    /// Build real packages with ld and with repo-ld, and compare their tests
    ///
    /// Needs gcc, the network (Debian's sources, crates, git), and what the
    /// packages need. Everything is made and kept in target/packages.
    Packages(packages::Arguments),
    /// Run every test of the workspace
    ///
    /// As root, installs the programs that tests need and that are missing
    /// (apt-get); otherwise names their packages. Without further arguments also
    /// runs the store's under AddressSanitizer and in many interleavings. At the
    /// end, lists the tests that could not run for want of a program.
    Test {
        /// Install nothing
        #[arg(long)]
        no_install: bool,
        /// Further arguments of `cargo test`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().verb {
        Verb::Attack { arguments } => attack::attack(&arguments),
        Verb::Corpus(arguments) => corpus::corpus(&arguments),
        Verb::Demo => demo::demo(),
        Verb::Install(arguments) => install::install(&arguments),
        Verb::Layers(arguments) => layers::layers(&arguments),
        Verb::Packages(arguments) => packages::packages(&arguments),
        Verb::Test {
            no_install,
            arguments,
        } => test::test(no_install, &arguments),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
