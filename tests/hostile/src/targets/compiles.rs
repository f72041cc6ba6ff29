//! What `repo-cc` reads before, and in place of, a compile: sources, and objects whose lines have moved.

use object::Object;
use std::sync::OnceLock;
use tools::cc::untrusted;

/// Stands between a source as it was and as it is.
pub const NOW: &[u8] = b"\n#pragma now\n";

/// A source as it was and, if [`NOW`] stands behind that, as it is. The second is read as a list of files, and as Rust, too.
pub fn source(data: &[u8]) {
    let at = data.windows(NOW.len()).position(|part| part == NOW);
    let (before, now) = match at {
        Some(at) => (&data[..at], &data[at + NOW.len()..]),
        None => (data, data),
    };
    untrusted::sources(before, now);
    untrusted::dependencies(now);
    untrusted::rust(now);
}

/// An object with debug information, made of `a.c` in a directory that is called `.`.
pub fn moved_lines(data: &[u8]) {
    // One more is before every fourth line; so numbers come to need more bytes, too.
    let now: Vec<u32> = (1..=400).map(|line| line + line / 4).collect();
    let same: Vec<u32> = (1..=400).collect();
    for now in [now, same] {
        if let Some(moved) = moved(data, &now) {
            has_all_sections(data, &moved);
        }
    }
}

fn moved(object: &[u8], now: &[u32]) -> Option<Vec<u8>> {
    // The files that the sound objects name.
    static DIRECTORY: OnceLock<tempfile::TempDir> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let directory = tempfile::tempdir().expect("room");
        for name in ["a.c", "a.h"] {
            std::fs::write(directory.path().join(name), "").expect("room");
        }
        directory
    });
    untrusted::object(object, directory.path(), "a.c", now)
}

fn has_all_sections(data: &[u8], moved: &[u8]) {
    let sections = |bytes| object::File::parse(bytes).map(|file| file.sections().count());
    assert_eq!(sections(data).ok(), sections(moved).ok());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn the_sound_objects_are_moved() {
        let same: Vec<u32> = (1..=400).collect();
        let one_more: Vec<u32> = (2..=401).collect();
        let seeds = Target::MovedLines.seeds();
        assert!(seeds.len() > 2);
        for seed in seeds {
            assert!(moved(&seed, &same).is_some_and(|it| it.len() == seed.len()));
            assert!(moved(&seed, &one_more).is_some_and(|it| it != seed));
        }
    }
}
