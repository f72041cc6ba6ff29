//! The command line of `repo-gc`.

use clap::Parser;
use std::path::PathBuf;
use std::time::Duration;

/// Throws away what nothing needs any more.
#[derive(Debug, Parser)]
#[command(
    name = "repo-gc",
    version,
    about = "Throw away what no ticket of a program repository needs any more",
    after_help = "\
The repository is --repo FILE, else $REPO_FILE, else the nearest program.repo in this directory or \
above that is the user's own (or root's) and that nobody else may write, else the one under \
$XDG_STATE_HOME/program-repository (~/.local/state/program-repository). $REPO_LOCK_WAIT is how many \
seconds to wait at most for a process that has it locked and writes nothing (10).

Live is what is named by a ticket file that still exists: one that the repository has on record, \
or one (also inside an archive) in the directories of those and above them, or below a --root. \
Archives that repo-ld has read are on record. Also live are the inputs of linked outputs that still \
exist, all that is younger than --grace, and what repo-cc has compiled and needs not compile again, if \
it was asked for within the last --unused.

Builds may go on meanwhile.

Exit codes:
  0  success
  1  the repository is damaged: the message names the file and the offset; nothing was changed
  2  wrong usage, or the system refused something; nothing was changed

The manual: man repo-gc"
)]
pub struct Cli {
    /// The repository
    #[arg(long, value_name = "FILE")]
    pub repo: Option<PathBuf>,
    /// Show which tickets, outputs and compilations would go, why, and how many bytes; change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Keep what was added less than this ago (s, m, h, d or w behind a number). Below 15m, only
    /// while no build runs: a ticket might be just about to be written again
    #[arg(long, value_name = "DURATION", default_value = "4h", value_parser = duration)]
    pub grace: Duration,
    /// Drop what is known of compiles that nobody has asked for again for so long; 0: all of it
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = duration)]
    pub unused: Duration,
    /// Also look for tickets in this file, or below this directory, such as one into which libraries are
    /// installed (can be repeated). The repository remembers directories, and looks there each time
    #[arg(long = "root", value_name = "PATH")]
    pub roots: Vec<PathBuf>,
    /// Forget a directory that was named with --root (can be repeated), and do no more
    #[arg(long, value_name = "PATH", conflicts_with_all = ["roots", "dry_run", "list_roots"])]
    pub forget: Vec<PathBuf>,
    /// Show what keeps compilations (remembered directories, archives, directories with tickets,
    /// outputs), and do no more
    #[arg(long = "roots", conflicts_with_all = ["roots", "dry_run"])]
    pub list_roots: bool,
    /// Write JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Not available yet
    #[arg(long, hide = true)]
    pub idle: bool,
    /// Not available yet
    #[arg(long, hide = true)]
    pub install_timer: bool,
}

/// A number of seconds, or of what the letter behind it says.
fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let unit = match unit {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(format!("unknown unit {unit:?}; use s, m, h, d or w")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "must begin with a number".to_owned())?;
    number
        .checked_mul(unit)
        .map(Duration::from_secs)
        .ok_or_else(|| "is too long".to_owned())
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
    fn durations() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(duration("3w"), Ok(Duration::from_secs(1_814_400)));
        for bad in [
            "",
            "h",
            "-1s",
            "1y",
            "1.5h",
            "99999999999999999999",
            "30500568904944w",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
