//! How large a repository is to become, and when a build is to have it made smaller.
//!
//! A build that is told a size ([`VARIABLE`]) looks at the file's size when it has added something, which costs one system
//! call; if it is too large, `repo-gc` is to be started, beside the build and with the lowest priority. Not with each compile: what
//! takes more than that may be needed. So a mark beside the repository says when that was done last.

use crate::states;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The environment variable that says so.
pub const VARIABLE: &str = "REPO_MAX_SIZE";

/// So much time is between two starts at least.
const PAUSE: Duration = Duration::from_secs(3600);

/// The mark's name, in the [folder](states) beside the repository.
const MARK: &str = "compacted";

/// A number of bytes: a whole number, and a unit (K, M, G, T; Ki, Mi, Gi, Ti; a B may follow).
pub fn size(text: &str) -> Option<u64> {
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let unit = unit.strip_suffix('B').unwrap_or(unit);
    let (letter, base) = match unit.strip_suffix('i') {
        Some(letter) => (letter, 1024_u64),
        None => (unit, 1000),
    };
    let power = match letter {
        "" if base == 1000 => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(base.pow(power))
}

/// Whether the repository has outgrown `max_size`, and nobody was told so lately: then the caller is to start the compactor, and
/// others are not.
pub fn is_to_be_compacted(repository: &Path, max_size: u64) -> bool {
    let length = std::fs::metadata(repository).map_or(0, |metadata| metadata.len());
    if length <= max_size {
        return false;
    }
    let Ok(folder) = states::make_folder(repository) else {
        return false;
    };
    let mark = folder.join(MARK);
    let marked = std::fs::symlink_metadata(&mark).and_then(|mark| mark.modified());
    // A mark of the future is one of a clock that was wrong.
    let is_recent = |marked| {
        let age = SystemTime::now().duration_since(marked);
        age.is_ok_and(|age| age < PAUSE)
    };
    if marked.is_ok_and(is_recent) {
        return false;
    }
    // Of several that come here at once, the one starts it whose file is there.
    let _ = std::fs::remove_file(&mark);
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&mark);
    made.is_ok()
}

#[cfg(test)]
mod tests {
    use super::{is_to_be_compacted, size};

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("20G", 20_000_000_000),
            ("20GB", 20_000_000_000),
            ("1k", 1000),
            ("3Ki", 3072),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "G", "1.5G", "-1", "1X", "1i", "1 G", "99999999999T"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn one_is_to_start_it() {
        let directory = tempfile::tempdir().unwrap();
        let repository = directory.path().join("program.repo");
        assert!(!is_to_be_compacted(&repository, 0));
        std::fs::write(&repository, "1234").unwrap();
        assert!(!is_to_be_compacted(&repository, 4));
        assert!(is_to_be_compacted(&repository, 3));
        assert!(!is_to_be_compacted(&repository, 3));
    }
}
