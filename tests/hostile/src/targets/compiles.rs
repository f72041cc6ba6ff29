//! What `repo-cc` reads before, and in place of, a compile: sources, and objects whose lines have moved.

use object::Object;
use std::path::Path;
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
    static DIRECTORY: OnceLock<tempfile::TempDir> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let directory = tempfile::tempdir().expect("room");
        for name in ["a.c", "a.h"] {
            std::fs::write(directory.path().join(name), "").expect("room");
        }
        directory
    });
    // One more is before every fourth line; so numbers come to need more bytes, too.
    let now: Vec<u32> = (1..=400).map(|line| line + line / 4).collect();
    moves(data, directory.path(), &now);
    let same: Vec<u32> = (1..=400).collect();
    moves(data, directory.path(), &same);
}

fn moves(data: &[u8], directory: &Path, now: &[u32]) {
    let Some(moved) = untrusted::object(data, directory, "a.c", now) else {
        return;
    };
    let sections = |bytes| object::File::parse(bytes).map(|file| file.sections().count());
    assert_eq!(sections(data).ok(), sections(&moved[..]).ok());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn the_sound_objects_are_moved() {
        let directory = tempfile::tempdir().expect("room");
        for name in ["a.c", "a.h"] {
            std::fs::write(directory.path().join(name), "").expect("room");
        }
        let same: Vec<u32> = (1..=400).collect();
        let one_more: Vec<u32> = (2..=401).collect();
        let seeds = Target::MovedLines.seeds();
        assert!(seeds.len() > 2);
        for seed in seeds {
            let object = |now| untrusted::object(&seed, directory.path(), "a.c", now);
            assert!(object(&same).is_some_and(|moved| moved.len() == seed.len()));
            assert!(object(&one_more).is_some_and(|moved| moved != seed));
        }
    }
}
