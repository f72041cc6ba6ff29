//! `cargo xtask packages`: real packages, built from source with `repo-ld` as the only linker.
//!
//! Each package of the [table] is built twice with the same compiler, once with the system's ld and once
//! with repo-ld (with `--tickets` also through repo-cc), each in a directory of its own, and its own test suite is run on
//! each build. What is compared:
//!
//! * the outcome of every single test, by name ([`outcomes`]): what passes with ld must pass with repo-ld;
//! * that repo-ld is what linked: every executable and shared object of the build must have its line in repo-ld's log
//!   ([`outputs`]).
//!
//! Everything is kept in `target/packages`: a build is made again only if its recipe, the flags or the linker changed.

mod build;
mod outcomes;
mod outputs;
mod report;
mod source;
mod table;

use anyhow::{Result, bail};
use clap::Args;
use repo_tests::binaries::Binaries;
use repo_tests::sources::project_root;
use std::process::ExitCode;

/// What `cargo xtask packages` is asked to do.
#[derive(Args)]
pub struct Arguments {
    /// Packages to build; without any, all of them
    names: Vec<String>,
    /// List the packages and do nothing
    #[arg(long)]
    list: bool,
    /// Also build C and C++ packages through repo-cc, from tickets
    #[arg(long)]
    tickets: bool,
    /// With a distribution's flags (hardening, -z now, --as-needed), as dpkg-buildflags gives them
    #[arg(long)]
    distribution_flags: bool,
    /// With these, link-time optimisation, as distributions that build everything so have it
    #[arg(long, requires = "distribution_flags")]
    lto: bool,
    /// Run whole test suites where the table has a shorter selection (hours)
    #[arg(long)]
    thorough: bool,
    /// Build again even if nothing changed
    #[arg(long)]
    fresh: bool,
    /// Jobs of make and of test suites
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// The longest that a build or a test suite may take, as timeout(1) reads it
    #[arg(long, value_name = "DURATION", default_value = "6h")]
    limit: String,
    /// Remove each build when its results are known: they, the logs and the source stay
    #[arg(long)]
    remove: bool,
    /// A program to put before the compiler in all builds but those from tickets, for instance ccache
    #[arg(long)]
    launcher: Option<String>,
    /// The repo-ld (and repo-cc beside it) to use, rather than building this tree's
    #[arg(long, value_name = "DIR")]
    programs: Option<std::path::PathBuf>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// Builds, tests and compares. The exit code is 1 if something differs.
///
/// # Errors
/// If a name is not in the table, or this project's programs cannot be built.
pub fn packages(arguments: &Arguments) -> Result<ExitCode> {
    let chosen = choose(&arguments.names)?;
    if arguments.list {
        for package in chosen {
            println!("{:<16} {}", package.name, package.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let programs = match &arguments.programs {
        Some(directory) => directory.canonicalize()?,
        None => Binaries::release(&[])?.directory().to_owned(),
    };
    let options = build::Options {
        root: project_root().join("target/packages"),
        programs,
        flags: match (arguments.distribution_flags, arguments.lto) {
            (false, _) => build::Flags::Package,
            (true, false) => build::Flags::Distribution,
            (true, true) => build::Flags::DistributionLto,
        },
        thorough: arguments.thorough,
        fresh: arguments.fresh,
        jobs: arguments.jobs,
        launcher: arguments.launcher.clone(),
        limit: arguments.limit.clone(),
        remove: arguments.remove,
    };
    let mut results = Vec::new();
    for package in chosen {
        let result = report::PackageResult::of(package, &options, arguments.tickets);
        eprint!("{}", report::details(&result));
        results.push(result);
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report::json(&results))?);
    } else {
        print!("{}", report::table(&results));
    }
    let good = results.iter().all(report::PackageResult::is_good);
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn choose(names: &[String]) -> Result<Vec<&'static table::Package>> {
    if names.is_empty() {
        return Ok(table::PACKAGES.iter().collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        match table::PACKAGES.iter().find(|package| package.name == name) {
            Some(package) => chosen.push(package),
            None => bail!("no package {name}; cargo xtask packages --list shows them"),
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use repo_tests::tools;

    #[test]
    fn names_are_unique_and_unknown_ones_are_refused() {
        let names: std::collections::BTreeSet<_> =
            table::PACKAGES.iter().map(|package| package.name).collect();
        assert_eq!(names.len(), table::PACKAGES.len());
        assert!(choose(&["no-such-package".to_owned()]).is_err());
        assert_eq!(choose(&["zlib".to_owned()]).unwrap()[0].name, "zlib");
    }

    /// The smallest of them in full, from objects and from tickets.
    #[test]
    fn zlib() {
        if repo_tests::tools::require(["gcc", "ld", "make"]).is_none() {
            return;
        }
        for tool in ["apt-get", "dpkg-source"] {
            if tools::on_path(tool).is_none() {
                return tools::skip(tool);
            }
        }
        let options = build::Options {
            root: project_root().join("target/packages/of-tests"),
            programs: Binaries::get().directory().to_owned(),
            jobs: 2,
            ..build::Options::default()
        };
        let package = choose(&["zlib".to_owned()]).unwrap()[0];
        let result = report::PackageResult::of(package, &options, true);
        assert!(
            result.is_good(),
            "{}{}",
            report::details(&result),
            report::table(&[result])
        );
    }
}
