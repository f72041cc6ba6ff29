//! `--unique`: input sections that are not united with others of their name.

use crate::args::Args;
use crate::base::glob::Glob;
use crate::elf::is_debug;
use crate::resolve::output_sections::standard_part;

/// Which sections `--unique` means.
pub struct Unique {
    /// `--unique` alone: all that GNU ld's built-in scripts do not name.
    orphans: bool,
    /// The output is relocatable. The script for that names no `.text.f`, only `.text`.
    exact: bool,
    patterns: Vec<Glob>,
}

/// What the script for `-r` names.
const NAMED: &[&[u8]] = &[
    b".init",
    b".text",
    b".fini",
    b".rodata",
    b".rodata1",
    b".eh_frame",
    b".gcc_except_table",
    b".tdata",
    b".tbss",
    b".ctors",
    b".dtors",
    b".jcr",
    b".data",
    b".data1",
    b".bss",
    b".lbss",
    b".lrodata",
    b".ldata",
    b".comment",
];

impl Unique {
    /// What the command line says; `None` if it says nothing.
    pub fn new(args: &Args) -> Option<Unique> {
        if !args.unique_orphans && args.unique.is_empty() {
            return None;
        }
        Some(Unique {
            orphans: args.unique_orphans,
            exact: args.kind == crate::args::OutputKind::Relocatable,
            patterns: args.unique.iter().map(|text| Glob::new(text)).collect(),
        })
    }

    /// Whether sections of this name each have an output section of their own.
    pub fn covers(&self, name: &[u8]) -> bool {
        self.patterns.iter().any(|glob| glob.matches(name))
            || (self.orphans && self.is_orphan(name))
    }

    fn is_orphan(&self, name: &[u8]) -> bool {
        let named = NAMED.contains(&name) || (!self.exact && standard_part(name).is_some());
        !named && !is_debug(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn covers(line: &str, name: &str) -> bool {
        let args = Args::parse(line.split_whitespace().map(OsString::from)).unwrap();
        Unique::new(&args).is_some_and(|unique| unique.covers(name.as_bytes()))
    }

    #[test]
    fn what_is_an_orphan_depends_on_the_script() {
        assert!(!covers("a.o", "mine"));
        assert!(covers("--unique a.o", "mine") && !covers("--unique a.o", ".text.f"));
        assert!(covers("-r --unique a.o", ".text.f") && !covers("-r --unique a.o", ".text"));
        assert!(covers("--unique=.te* a.o", ".text") && !covers("--unique=.te* a.o", "mine"));
        assert!(!covers("-r --unique a.o", ".debug_info"));
    }
}
