//! The command line of `repo-gc`.

use clap::Parser;
use std::ffi::OsString;
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
it was asked for within the last --unused; with --max-size, what was asked for last of that.

Builds may go on meanwhile.

Exit codes:
  0  success
  1  the repository is damaged: the message names the file and the offset; nothing was changed
  2  wrong usage, or the system refused something; nothing was changed

The manual: man repo-gc"
)]
pub struct Cli {
    /// The repository (can be repeated: each in its turn)
    #[arg(long, value_name = "FILE")]
    pub repo: Vec<PathBuf>,
    /// Show which tickets, outputs and compilations would go, why, and how many bytes; change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Keep what was added less than this ago (s, m, h, d or w behind a number). Below 15m, only
    /// while no build runs: a ticket might be just about to be written again
    #[arg(long, value_name = "DURATION", default_value = GRACE, value_parser = duration)]
    pub grace: Duration,
    /// Drop what is known of compiles that nobody has asked for again for so long; 0: all of it
    #[arg(
        long, visible_alias = "max-age", value_name = "DURATION", default_value = UNUSED, value_parser = duration
    )]
    pub unused: Duration,
    /// Also drop of these, those first that were asked for longest ago, until the repository has no
    /// more than so many bytes (K, M, G, T, or Ki, Mi, Gi, Ti behind a number). What tickets and outputs need stays
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_size: Option<u64>,
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
    /// Show what keeps the record whose digest begins with these digits, as a path from what is live by
    /// itself, and do no more
    #[arg(long, value_name = "DIGEST", conflicts_with_all = ["dry_run", "list_roots", "forget", "idle"])]
    pub explain: Option<String>,
    /// Write JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Work at the lowest priority, only while the machine has nothing else to do, and only if that frees
    /// a twentieth of the repository: stop as soon as something else runs or waits for the disk, and go on when that is over
    #[arg(long, conflicts_with_all = ["dry_run", "list_roots", "forget"])]
    pub idle: bool,
    /// Have this done with --idle each day, with the other options that are given: by the user's systemd,
    /// or else by cron
    #[arg(long, conflicts_with_all = ["dry_run", "list_roots", "forget", "explain"])]
    pub install_timer: bool,
    /// End that
    #[arg(long, conflicts_with_all = ["dry_run", "list_roots", "forget", "explain", "install_timer"])]
    pub remove_timer: bool,
    /// This is the process that --idle stops and lets go on
    #[arg(long, hide = true)]
    pub paced: bool,
    /// Where --idle looks instead of /proc, for tests
    #[arg(long, hide = true, value_name = "DIRECTORY")]
    pub proc: Option<PathBuf>,
}

const GRACE: &str = "4h";
const UNUSED: &str = "30d";

impl Cli {
    /// The words that a timer is to run this program with: these options, and these repositories.
    ///
    /// # Errors
    /// If the working directory is gone, and a path is relative.
    pub fn for_timer(&self, repositories: &[PathBuf]) -> std::io::Result<Vec<OsString>> {
        let mut words: Vec<OsString> = vec!["--idle".into()];
        let mut add = |option: &str, value: OsString| {
            let mut word = OsString::from(option);
            word.push("=");
            word.push(value);
            words.push(word);
        };
        for repository in repositories {
            add("--repo", std::path::absolute(repository)?.into());
        }
        for (option, value, default) in [
            ("--grace", self.grace, GRACE),
            ("--unused", self.unused, UNUSED),
        ] {
            if duration(default) != Ok(value) {
                add(option, format!("{}s", value.as_secs()).into());
            }
        }
        if let Some(size) = self.max_size {
            add("--max-size", size.to_string().into());
        }
        for root in &self.roots {
            add("--root", std::path::absolute(root)?.into());
        }
        Ok(words)
    }
}

/// A number of bytes, or of what the letters behind it say.
fn size(text: &str) -> Result<u64, String> {
    store::program::budget::size(text)
        .ok_or_else(|| "must be a number, and K, M, G, T, Ki, Mi, Gi or Ti behind it".to_owned())
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
