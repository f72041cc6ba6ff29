//! Counting: how often what was done, by all processes of this user, for each repository.
//!
//! A table of words that all processes map: a counter is a word that is added to. A counter's name is put into the table by whoever counts it first.

use super::shared::Words;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Words of a counter: hash of its name, count, name.
const COUNTER: usize = 16;
const COUNTERS: usize = 256;
const MOST_OF_NAME: usize = (COUNTER - 2) * 8;

/// Compiles that were not done, because the repository had what they would make.
pub const HITS: &str = "hit";
/// Of these, those of which a source is another one, in functions that are not used there.
pub const UNUSED: &str = "hit: an input is another one where it is not used";
/// Of these, those of which lines are others, which were changed in the debug information.
pub const MOVED: &str = "hit: lines of an input are others, in debug information only";
/// Compiles that nobody had done before.
pub const NEW: &str = "miss: not compiled before";
/// Compiles whose inputs are others than before.
pub const CHANGED: &str = "miss: an input is another one";
/// Compiles of which only those definitions were compiled that were new.
pub const IN_PART: &str = "compiled in part";
/// Results that were recorded.
pub const RECORDED: &str = "recorded";
/// Beginning of the names of reasons for which nothing is looked up.
pub const ORDINARY: &str = "ordinary: ";
/// Beginning of the names of reasons for which what was made is not recorded.
pub const UNRECORDED: &str = "not recorded: ";

/// The counters of a repository.
pub struct Counts {
    words: Option<Words>,
}

impl Counts {
    /// Opens the counters of the repository of this UUID, in `directory`. Where there can be none, nothing is counted.
    pub fn open(directory: Option<&Path>, uuid: [u8; 16]) -> Counts {
        let name: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("counts-1-{name}");
        Counts {
            words: directory
                .and_then(|directory| Words::open(directory, &name, COUNTER * COUNTERS).ok()),
        }
    }

    /// Adds to a counter.
    pub fn add(&self, name: &str, count: u64) {
        let Some(words) = &self.words else {
            return;
        };
        let name = &name.as_bytes()[..name.len().min(MOST_OF_NAME)];
        let hash = super::shared::hash(name) | 1;
        let table = words.words();
        for step in 0..COUNTERS {
            let at = (hash as usize / 2 + step) % COUNTERS * COUNTER;
            let counter = &table[at..at + COUNTER];
            let found = counter[0].load(Relaxed);
            if found == 0 {
                let won = counter[0].compare_exchange(0, hash, Relaxed, Relaxed);
                if won.is_err_and(|other| other != hash) {
                    continue;
                }
            } else if found != hash {
                continue;
            }
            if counter[2].load(Relaxed) == 0 {
                // Whoever is here writes the same.
                let mut padded = [0; MOST_OF_NAME];
                padded[..name.len()].copy_from_slice(name);
                let words: [u64; COUNTER - 2] = bytemuck::cast(padded);
                for (to, word) in counter[2..].iter().zip(words) {
                    to.store(word, Relaxed);
                }
            }
            counter[1].fetch_add(count, Relaxed);
            return;
        }
    }

    /// All counters that are not zero, by name.
    pub fn all(&self) -> Vec<(String, u64)> {
        let table = self.words.as_ref().map(Words::words).unwrap_or_default();
        let mut all: Vec<_> = (table.chunks_exact(COUNTER))
            .filter(|counter| counter[0].load(Relaxed) != 0)
            .map(|counter| {
                let words: [u64; COUNTER - 2] =
                    std::array::from_fn(|at| counter[at + 2].load(Relaxed));
                let name: [u8; MOST_OF_NAME] = bytemuck::cast(words);
                let end = name
                    .iter()
                    .position(|byte| *byte == 0)
                    .unwrap_or(name.len());
                let name = String::from_utf8_lossy(&name[..end]).into_owned();
                (name, counter[1].load(Relaxed))
            })
            .filter(|(_, count)| *count > 0)
            .collect();
        all.sort();
        all
    }

    /// Sets all counters to zero.
    pub fn zero(&self) {
        let table = self.words.as_ref().map(Words::words).unwrap_or_default();
        for counter in table.chunks_exact(COUNTER) {
            counter[1].store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_count_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let counts = || Counts::open(Some(dir.path()), [7; 16]);
        let names: Vec<String> = (0..20).map(|number| format!("reason {number}")).collect();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let counts = counts();
                    for _ in 0..100 {
                        names.iter().for_each(|name| counts.add(name, 2));
                    }
                });
            }
        });
        let all = counts().all();
        assert_eq!(all.len(), 20);
        assert!(
            all.iter()
                .all(|(name, count)| names.contains(name) && *count == 1600)
        );
        counts().zero();
        assert_eq!(counts().all(), []);
        counts().add(&"x".repeat(500), 1);
        assert_eq!(counts().all(), [("x".repeat(MOST_OF_NAME), 1)]);
        // Full, or nowhere: nothing is counted, and nothing is lost.
        for number in 0..1000 {
            counts().add(&number.to_string(), 1);
        }
        assert_eq!(counts().all().len(), COUNTERS - 20);
        Counts::open(None, [0; 16]).add("x", 1);
        assert_eq!(Counts::open(Some(dir.path()), [8; 16]).all(), []);
    }
}
