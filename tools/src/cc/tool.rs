//! Which programs work on archives (`ar`, `ranlib` and their like), and which change objects (`objcopy`, `strip`), by their names; and
//! which archives a call of one changes.

use super::compiler::is_x86_64_elf;
use super::response;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a name says of a program that has to do with archives or objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `ar`.
    Archiver,
    /// `ranlib`.
    Indexer,
    /// `gcc-nm`, which belongs to them.
    Lister,
    /// `objcopy` and `strip`, which want objects with all that is in them.
    Editor,
}

impl Tool {
    /// Reads the name: `ar` and `ranlib`, plain or of gcc, LLVM or a triple for x86-64, and `gcc-nm`; `objcopy` and `strip`, which gcc
    /// has no names for; all with a version or without.
    pub fn parse(program: &OsStr) -> Option<Tool> {
        let name = Path::new(program).file_name()?.to_str()?;
        let is_version = |word: &str| word.bytes().all(|c| c.is_ascii_digit() || c == b'.');
        let stem = match name.rsplit_once('-') {
            Some((stem, version)) if is_version(version) => stem,
            _ => name,
        };
        let (prefix, tool) = match stem.rsplit_once('-') {
            Some((prefix, tool)) => (Some(prefix), tool),
            None => (None, stem),
        };
        let (triple, of) = match prefix.map(|prefix| (prefix, prefix.rsplit_once('-'))) {
            None => (None, None),
            Some((_, Some((triple, of @ ("gcc" | "llvm"))))) => (Some(triple), Some(of)),
            Some((of @ ("gcc" | "llvm"), _)) => (None, Some(of)),
            Some((triple, _)) => (Some(triple), None),
        };
        if triple.is_some_and(|triple| !triple.starts_with("x86_64") || !is_x86_64_elf(triple)) {
            return None;
        }
        match (tool, of) {
            ("ar", _) => Some(Tool::Archiver),
            ("ranlib", _) => Some(Tool::Indexer),
            ("nm", Some("gcc")) => Some(Tool::Lister),
            ("objcopy" | "strip", None | Some("llvm")) => Some(Tool::Editor),
            _ => None,
        }
    }

    /// The archives that a call with these arguments changes, as far as that can be told.
    pub fn changes(self, args: &[OsString]) -> Vec<PathBuf> {
        let Ok(args) = response::expand(args) else {
            return Vec::new();
        };
        match self {
            Tool::Archiver => changed_by_ar(&args).into_iter().collect(),
            Tool::Indexer => args
                .iter()
                .filter(|word| !word.as_bytes().starts_with(b"-"))
                .map(PathBuf::from)
                .collect(),
            Tool::Lister | Tool::Editor => Vec::new(),
        }
    }
}

/// The archive of a call of `ar` that changes it: `ar [--option]... [-]operations [relative-to] [count] archive [file]...`.
fn changed_by_ar(args: &[OsString]) -> Option<PathBuf> {
    let mut operations: Vec<u8> = Vec::new();
    let mut words = args.iter();
    let first = loop {
        let word = words.next()?;
        match word.as_bytes() {
            b"--plugin" | b"--target" | b"--output" | b"--record-libdeps" => {
                words.next();
            }
            [b'-', b'-', ..] => {}
            [b'-', b'X', ..] => {}
            [b'-', letters @ ..] => operations.extend_from_slice(letters),
            letters if operations.is_empty() => operations.extend_from_slice(letters),
            _ => break word,
        }
    };
    let has = |letters: &[u8]| operations.iter().any(|letter| letters.contains(letter));
    if has(b"Mptx") || !has(b"rqmds") {
        return None;
    }
    // Before the archive there may stand the member beside which others are put, and a count.
    let before = usize::from(has(b"abi")) + usize::from(has(b"N"));
    let archive = [first].into_iter().chain(words).nth(before)?;
    Some(archive.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let tool = |name: &str| Tool::parse(OsStr::new(name));
        for name in [
            "ar",
            "/usr/bin/ar",
            "gcc-ar",
            "gcc-ar-12",
            "llvm-ar-19",
            "x86_64-linux-gnu-ar",
        ] {
            assert_eq!(tool(name), Some(Tool::Archiver), "{name}");
        }
        for name in ["ranlib", "gcc-ranlib", "x86_64-linux-gnu-gcc-ranlib-12"] {
            assert_eq!(tool(name), Some(Tool::Indexer), "{name}");
        }
        assert_eq!(tool("gcc-nm-12"), Some(Tool::Lister));
        for name in [
            "objcopy",
            "/usr/bin/strip",
            "llvm-strip-19",
            "x86_64-linux-gnu-objcopy",
        ] {
            assert_eq!(tool(name), Some(Tool::Editor), "{name}");
        }
        for name in [
            "tar",
            "nm",
            "gcc",
            "repo-ar",
            "aarch64-linux-gnu-ar",
            "arm-gcc-ar",
            "gcc-strip",
            "aarch64-linux-gnu-strip",
            "",
            "far-2",
        ] {
            assert_eq!(tool(name), None, "{name}");
        }
    }

    #[test]
    fn archives_that_are_changed() {
        let changes = |tool: Tool, line: &str| {
            let words: Vec<_> = line.split_whitespace().map(OsString::from).collect();
            let paths = tool.changes(&words).into_iter();
            paths
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        for line in [
            "rcs x.a a.o b.o",
            "-rcs x.a a.o",
            "qc x.a a.o",
            "s x.a",
            "-r -c x.a a.o",
            "--plugin p.so crs x.a a.o",
            "--plugin=p.so -X64 rcsD x.a",
            "ra before.o x.a a.o",
            "dN 2 x.a a.o",
        ] {
            assert_eq!(changes(Tool::Archiver, line), "x.a", "{line}");
        }
        for line in ["t x.a", "x x.a", "-p x.a a.o", "-M", "--version", "rcs", ""] {
            assert_eq!(changes(Tool::Archiver, line), "", "{line}");
        }
        assert_eq!(changes(Tool::Indexer, "-D x.a"), "x.a");
        assert_eq!(changes(Tool::Lister, "x.a"), "");
    }
}
