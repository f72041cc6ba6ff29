//! `.symtab_shndx`: the sections of symbols whose number does not fit `st_shndx` (gABI, "Symbol Table").
//!
//! It is written after everything else, by asking once more for the section of each symbol: only programs of which each
//! function has an output section of its own (`--unique`, scripts, the kernel's live patches) come so far, and the
//! others shall not pay for it.

use crate::base::ids::{FileId, OutputId};
use crate::layout::address_map::{Places, SymbolValue};
use crate::layout::section_index::SectionIndex;
use crate::layout::symtab::{self, Chooser, SymtabLayout};
use crate::resolve::output_sections::Std;
use rayon::prelude::*;

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
