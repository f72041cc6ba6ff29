//! `repo-attack`: what `cargo xtask attack` runs.

use clap::Parser;
use repo_attack::{ATTACKS, Attack, Extent};
use repo_tests::sources::project_root;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
#[command(
    bin_name = "cargo xtask attack",
    about = "Attack the programs and their repositories; prints tries and failures of each kind"
)]
struct Arguments {
    /// Go on for so long; without it, each attack is tried as often as in the tests
    #[arg(long, value_name = "N")]
    hours: Option<f64>,
    /// Decides all numbers
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Only this kind of attack; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// List the kinds of attacks
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for attack in ATTACKS {
            println!("{:14} {}", attack.name, attack.what);
        }
        return ExitCode::SUCCESS;
    }
    let is_known = |name: &&String| ATTACKS.iter().any(|attack| attack.name == name.as_str());
    if let Some(unknown) = arguments.only.iter().find(|name| !is_known(name)) {
        eprintln!("attack: error: there is no attack {unknown}; --list shows all");
        return ExitCode::FAILURE;
    }
    let is_meant = |attack: &&Attack| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| name == attack.name)
    };
    let attacks: Vec<&Attack> = ATTACKS.iter().filter(is_meant).collect();
    let extent = match arguments.hours {
        Some(hours) if hours.is_finite() && hours > 0.0 => {
            Extent::Time(Duration::from_secs_f64(hours.min(1e5) * 3600.0))
        }
        Some(_) => {
            eprintln!("attack: error: --hours wants a number above 0");
            return ExitCode::FAILURE;
        }
        None => Extent::Short,
    };
    let keep = project_root().join("target/attack");
    // A panic that is caught is reported with the rest.
    std::panic::set_hook(Box::new(|_| {}));
    let mut report = |text: &str| eprintln!("attack: FAILED: {text}\n");
    let rows = repo_attack::run(&attacks, extent, arguments.seed, &keep, &mut report);
    print!("{}", repo_attack::run::table(&rows));
    match rows.iter().all(|row| row.failures.is_empty()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
