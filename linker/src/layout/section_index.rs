//! Numbers of sections that are too large for their fields (gABI, "ELF Header", "Sections" and "Symbol Table").
//!
//! The file header counts sections in 16 bits, and so does a symbol, of which the numbers from `SHN_LORESERVE` on mean
//! something else. A file with more sections says in its null section header how many there are and which one has their
//! names, and a table beside the symbol table, `.symtab_shndx`, has the section of each symbol whose `st_shndx` is
//! `SHN_XINDEX` (`output/symtab_shndx.rs` writes it).
//!
//! `.dynsym` has no such table, as with lld: loaders only look whether a symbol has a section. (GNU ld neither makes nor
//! takes shared objects of that many sections.)

use crate::elf::{Sym, c};
use crate::resolve::output_sections::{Outputs, Std};

/// The section of a symbol of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionIndex(u32);

impl SectionIndex {
    /// Defined elsewhere.
    pub const UNDEFINED: SectionIndex = SectionIndex(0);
    /// In no section.
    pub const ABSOLUTE: SectionIndex = SectionIndex(u32::MAX);

    /// That of a section with this number in the section header table; 0 if it has none.
    #[inline]
    pub fn of_header(number: u32) -> SectionIndex {
        SectionIndex(number)
    }

    /// What the symbol's own field says.
    #[inline]
    pub fn st_shndx(self) -> u16 {
        match self {
            SectionIndex::ABSOLUTE => c::SHN_ABS,
            SectionIndex(number) => small(number).unwrap_or(c::SHN_XINDEX),
        }
    }

    /// What the table of extended indexes says: 0 if the symbol's own field says it all.
    #[inline]
    pub fn extended(self) -> u32 {
        match self.st_shndx() {
            c::SHN_XINDEX => self.0,
            _ => 0,
        }
    }
}

fn small(number: u32) -> Option<u16> {
    let number = u16::try_from(number).ok()?;
    (number < c::SHN_LORESERVE).then_some(number)
}

/// What the file header and the null section header say of the section header table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFields {
    /// Of the file header: number of section headers, or 0.
    pub e_shnum: u16,
    /// Of the file header: number of the section with the names, or `SHN_XINDEX`.
    pub e_shstrndx: u16,
    /// Of the null section header: number of section headers, if the file header cannot say it.
    pub sh_size: u64,
    /// Of the null section header: number of the section with the names, if the file header cannot say it.
    pub sh_link: u32,
}

impl TableFields {
    /// For a table of `count` headers with the null one, of which `names` has the names.
    pub fn new(count: usize, names: u32) -> TableFields {
        let e_shnum = u32::try_from(count).ok().and_then(small);
        let e_shstrndx = small(names);
        TableFields {
            e_shnum: e_shnum.unwrap_or(0),
            e_shstrndx: e_shstrndx.unwrap_or(c::SHN_XINDEX),
            sh_size: e_shnum.map_or(count as u64, |_| 0),
            sh_link: e_shstrndx.map_or(names, |_| 0),
        }
    }
}

/// Makes room for `.symtab_shndx` if that many sections, with those that follow `.symtab`, need it.
pub fn reserve(outputs: &mut Outputs, sections: usize) {
    // The null section, this one and the two with names.
    let count = sections + 4;
    let symbols = outputs.std(Std::Symtab).size / size_of::<Sym>() as u64;
    if count >= usize::from(c::SHN_LORESERVE) && symbols > 0 {
        let table = outputs.std_mut(Std::SymtabShndx);
        table.size = symbols * size_of::<u32>() as u64;
        table.align = size_of::<u32>() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_mean_something_else_are_said_elsewhere() {
        for number in [0, 1, 0xfeff] {
            let index = SectionIndex::of_header(number);
            assert_eq!((u32::from(index.st_shndx()), index.extended()), (number, 0));
        }
        for number in [0xff00, 0xfff1, 0xffff, 0x1_0000, 0x1_fff1] {
            let index = SectionIndex::of_header(number);
            assert_eq!((index.st_shndx(), index.extended()), (0xffff, number));
        }
        let absolute = SectionIndex::ABSOLUTE;
        assert_eq!((absolute.st_shndx(), absolute.extended()), (0xfff1, 0));
    }

    #[test]
    fn each_field_is_extended_by_itself() {
        let fields = |count, names| {
            let fields = TableFields::new(count, names);
            (
                fields.e_shnum,
                fields.e_shstrndx,
                fields.sh_size,
                fields.sh_link,
            )
        };
        assert_eq!(fields(0xfeff, 0xfefe), (0xfeff, 0xfefe, 0, 0));
        assert_eq!(fields(0xff00, 0xfeff), (0, 0xfeff, 0xff00, 0));
        assert_eq!(fields(0xff01, 0xff00), (0, 0xffff, 0xff01, 0xff00));
        assert_eq!(fields(70_000, 3), (0, 3, 70_000, 0));
    }
}
