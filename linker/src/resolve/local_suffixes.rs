//! `-z unique-symbol`: a number behind the name of each local symbol, so that those of one name can be told apart.
//!
//! GNU ld's manual says that duplicated names get one. As there, all get one, the first too (`f.0`, `f.1`, … `f.a`): else
//! the second `f` might become what another symbol is called already.

use crate::elf::c;
use rustc_hash::FxHashMap;

/// Counts the local symbols of each name, in the order of the output's symbol table.
#[derive(Default)]
pub struct Numbering<'a> {
    next: FxHashMap<&'a [u8], u32>,
}

impl<'a> Numbering<'a> {
    /// What is appended to a local symbol's name: nothing to those that are named after files and sections.
    pub fn suffix(&mut self, kind: u8, name: &'a [u8]) -> Box<[u8]> {
        if matches!(kind, c::STT_FILE | c::STT_SECTION) {
            return Box::default();
        }
        let next = self.next.entry(name).or_default();
        let number = *next;
        *next += 1;
        format!(".{number:x}").into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_one_by_one() {
        let mut numbering = Numbering::default();
        assert_eq!(*numbering.suffix(c::STT_FUNC, b"f"), *b".0");
        assert_eq!(*numbering.suffix(c::STT_OBJECT, b"v"), *b".0");
        assert_eq!(*numbering.suffix(c::STT_FILE, b"f"), *b"");
        for expected in ["1", "2", "3", "4", "5", "6", "7", "8", "9", "a"] {
            let found = numbering.suffix(c::STT_FUNC, b"f");
            assert_eq!(*found, *format!(".{expected}").as_bytes());
        }
    }
}
