//! Numbers of sections that are too large for their fields (gABI, "ELF Header", "Sections" and "Symbol Table").
//!
//! The file header counts sections in 16 bits, and so does a symbol, of which the numbers from `SHN_LORESERVE` on mean
//! something else. A file with more sections says in its null section header how many there are and which one has their
//! names, and a table beside the symbol table, `.symtab_shndx`, has the section of each symbol whose `st_shndx` is
//! `SHN_XINDEX`. That table is written after everything else, by asking once more for the section of each symbol: only
//! programs of which each function has an output section of its own (`--unique`, scripts, the kernel's live patches)
//! come so far, and the others shall not pay for it.
//!
//! `.dynsym` has no such table, as with lld: loaders only look whether a symbol has a section. (GNU ld neither makes nor
//! takes shared objects of that many sections.)

use crate::base::ids::{FileId, OutputId};
use crate::elf::{Sym, c};
use crate::layout::address_map::{Places, SymbolValue};
use crate::layout::symtab::{self, Chooser, SymtabLayout};
use crate::resolve::output_sections::{Outputs, Std};
use rayon::prelude::*;

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

/// Writes `.symtab_shndx` into the image, in which it is zeros, if there is one. `named` are the sections that have
/// symbols of their own.
pub fn write(
    layout: &SymtabLayout,
    chooser: &Chooser,
    places: &Places,
    values: &[SymbolValue],
    named: &[OutputId],
    image: &mut [u8],
) {
    let table = places.outputs.std(Std::SymtabShndx);
    if table.size == 0 {
        return;
    }
    let start = table.offset as usize;
    let words: &mut [u32] =
        bytemuck::cast_slice_mut(&mut image[start..start + table.size as usize]);
    let (locals, mut globals) = words.split_at_mut(layout.local_count as usize);
    let (of_sections, mut locals) = locals[1..].split_at_mut(named.len());
    for (word, id) in of_sections.iter_mut().zip(named) {
        let header = places.outputs.sections[id.index()].header;
        *word = SectionIndex::of_header(header).extended();
    }
    let mut jobs = Vec::with_capacity(layout.shares.len());
    for (file, share) in (0..).zip(&layout.shares) {
        let (own_locals, own_globals);
        (own_locals, locals) = locals.split_at_mut(share.locals as usize);
        (own_globals, globals) = globals.split_at_mut(share.globals as usize);
        jobs.push((FileId(file), own_locals, own_globals));
    }
    jobs.into_par_iter().for_each(|(id, locals, globals)| {
        if id == FileId::LINKER {
            for (word, id) in locals.iter_mut().chain(globals).zip(&layout.others) {
                let (_, section) = symtab::external_symbol(places, values, *id);
                *word = section.extended();
            }
            return;
        }
        let file = chooser.files.get(id);
        let (mut locals, mut globals) = (locals.iter_mut(), globals.iter_mut());
        chooser.each(id, file, |index, symbol, _, is_global| {
            let word = match is_global {
                true => globals.next(),
                false => locals.next(),
            };
            if let Some(word) = word {
                *word = symtab::section_of(chooser, places, id, index, symbol).extended();
            }
        });
    });
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
