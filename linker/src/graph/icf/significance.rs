//! Whose address matters: somebody may compare it with another's.
//!
//! clang says it in each object (`.llvm_addrsig`, LLVM's extensions to ELF): a list of the
//! symbols whose address the object's code may look at. Of an object that says nothing, a symbol's
//! address counts where a fixup takes it, which is every fixup but that of a call or jump, and
//! but those in C++ virtual tables, whose entries are only called: a pointer to a virtual
//! member function is an offset in the table (Itanium C++ ABI, "Member Function Pointers").
//! What other modules can see they may compare.

use super::Folder;
use crate::base::ids::{FileId, SectionId, SymbolId};
use crate::elf::shf;
use crate::elf::x86_64::reloc::{
    R_X86_64_GOTPCRELX, R_X86_64_NONE, R_X86_64_PLT32, R_X86_64_REX_GOTPCRELX,
};
use crate::input::file::File;
use crate::input::object::{Object, Referent};
use crate::input::parts::{Fixup, Target};
use crate::resolve::input_sections::state;
use crate::resolve::symbol_facts::Bound;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Sections whose address matters.
pub struct Significance(Vec<AtomicBool>);

impl Significance {
    /// Finds them.
    pub fn find(link: &Folder) -> Significance {
        let mut marks = Vec::new();
        marks.resize_with(link.sections.count(), AtomicBool::default);
        let significance = Significance(marks);
        let ids = (0..link.files.0.len() as u32).into_par_iter().map(FileId);
        ids.filter(|file| link.sections.is_linked(*file))
            .for_each(|file| {
                let input = link.files.get(file);
                let Some(object) = input.object() else {
                    return;
                };
                match object.address_significant() {
                    Some(symbols) => symbols.into_iter().for_each(|index| {
                        let target = Target::Symbol(index);
                        significance.mark(place_of(link, input, file, object, target).0);
                    }),
                    None => significance.scan(link, input, file, object),
                }
            });
        link.symbols.ids().for_each(|id| {
            if link.symbols.facts(id).has(Bound::EXPORTED) {
                significance.mark(link.definitions.section(id));
            }
        });
        significance
    }

    /// Whether the section's address matters.
    pub fn is_significant(&self, id: SectionId) -> bool {
        self.0[id.index()].load(Relaxed)
    }

    fn mark(&self, id: SectionId) {
        if let Some(mark) = self.0.get(id.index()) {
            mark.store(true, Relaxed);
        }
    }

    /// Marks what the file's fixups take the address of.
    fn scan(&self, link: &Folder, input: &File, file: FileId, object: &Object) {
        for id in link.sections.of_file(file).map(SectionId) {
            let wanted = state::ALIVE | state::ALLOC;
            let relocations = link.sections.relocations[id.index()];
            if relocations == 0 || link.sections.state(id) & (wanted | state::EH_FRAME) != wanted {
                continue;
            }
            let (_, number) = link.sections.origin(id);
            let Some(section) = object.section(number) else {
                continue;
            };
            if is_virtual_table(section.name) {
                continue;
            }
            let code = (section.flags & shf::EXEC != 0).then(|| object.section_bytes(number));
            object.fixups(number, relocations).for_each(|fixup| {
                if !is_transfer(code, &fixup) {
                    self.mark(place_of(link, input, file, object, fixup.target).0);
                }
            });
        }
    }
}

/// The section that a fixup's target, or the definition that it stands for, is in, and its value there.
pub fn place_of(
    link: &Folder,
    input: &File,
    file: FileId,
    object: &Object,
    target: Target,
) -> (SectionId, u64) {
    match object.referent(target) {
        Referent::Global(index) => match link.symbols.of(input, index) {
            SymbolId::NONE => (SectionId::NONE, 0),
            symbol => (
                link.definitions.section(symbol),
                link.definitions.value(symbol),
            ),
        },
        Referent::Place {
            section, offset, ..
        } => (
            link.sections.get(file, section).unwrap_or(SectionId::NONE),
            offset,
        ),
        _ => (SectionId::NONE, 0),
    }
}

/// A call or jump: where it goes is all that matters. `code` are the bytes around the fixup, if it is in code.
pub fn is_transfer(code: Option<&[u8]>, fixup: &Fixup) -> bool {
    match (fixup.r_type, code) {
        (R_X86_64_NONE, _) | (R_X86_64_PLT32, Some(_)) => true,
        // `call *f@GOTPCREL(%rip)` and `jmp *f@GOTPCREL(%rip)`.
        (R_X86_64_GOTPCRELX | R_X86_64_REX_GOTPCRELX, Some(code)) => usize::try_from(fixup.offset)
            .ok()
            .and_then(|offset| code.get(offset.checked_sub(2)?..offset))
            .is_some_and(|bytes| matches!(bytes, [0xff, 0x15 | 0x25])),
        _ => false,
    }
}

/// Virtual tables, those for construction, and tables of these (Itanium C++ ABI, "Mangling": `_ZTV`, `_ZTC`, `_ZTT`).
fn is_virtual_table(section: &[u8]) -> bool {
    let prefixes = [&b".data.rel.ro."[..], b".data.rel.ro.local.", b".rodata."];
    prefixes.iter().any(|prefix| {
        let name = section.strip_prefix(*prefix).unwrap_or(b"");
        [&b"_ZTV"[..], b"_ZTC", b"_ZTT"]
            .iter()
            .any(|table| name.starts_with(table))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixup(r_type: u32, offset: u64) -> Fixup {
        Fixup {
            offset,
            addend: -4,
            r_type,
            target: Target::Symbol(1),
        }
    }

    #[test]
    fn calls_and_jumps_do_not_take_addresses() {
        assert!(is_transfer(
            Some(b"\xe8\0\0\0\0"),
            &fixup(R_X86_64_PLT32, 1)
        ));
        // A distance in data, as in relative virtual tables.
        assert!(!is_transfer(None, &fixup(R_X86_64_PLT32, 0)));
        let call = b"\xff\x15\0\0\0\0";
        let load = b"\x48\x8b\x05\0\0\0\0";
        assert!(is_transfer(Some(call), &fixup(R_X86_64_GOTPCRELX, 2)));
        assert!(!is_transfer(Some(load), &fixup(R_X86_64_REX_GOTPCRELX, 3)));
        assert!(!is_transfer(Some(call), &fixup(R_X86_64_GOTPCRELX, 0)));
    }

    #[test]
    fn names_of_virtual_tables() {
        assert!(is_virtual_table(b".data.rel.ro._ZTV1A"));
        assert!(is_virtual_table(b".data.rel.ro.local._ZTV1A"));
        assert!(!is_virtual_table(b".data.rel.ro.handlers"));
        assert!(!is_virtual_table(b".text._ZTV"));
    }
}
