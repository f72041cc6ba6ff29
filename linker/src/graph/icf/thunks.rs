//! `--icf-thunks`: functions that are the same as another, but whose address matters.
//!
//! They keep an address of their own: at the function's place is only a jump to the one that
//! stands for it, what LLVM's MergeFunctions calls a thunk. Nothing is said about how
//! it is entered that the function did not say: if that begins with `endbr64` (SDM, "CET
//! Instructions"), so does the jump, and the section's alignment stays.
//!
//! That is sound if only the function's start is ever referred to: [`Interiors`] finds the
//! others, such as those with jump tables, or with cold parts in another section. And the
//! jump must be shorter than the function.
//!
//! At the jump the stack is as the caller left it. That is what the CIE says of a function's
//! start (DWARF 5, 6.4), so the function's FDE stays, without instructions, without exception
//! table, and covers the jump alone. Code whose FDE begins with another state is no function
//! but the cold part of one, and stays.

use super::Folder;
use super::significance::place_of;
use crate::base::ids::{FileId, SectionId};
use crate::elf::c;
use crate::elf::eh_frame;
use crate::elf::shf;
use crate::elf::x86_64::reloc::{
    R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX, R_X86_64_NONE, R_X86_64_PC32, R_X86_64_PLT32,
    R_X86_64_REX_GOTPCRELX, R_X86_64_SIZE32, R_X86_64_SIZE64,
};
use crate::graph::eh_frame_records::{FileFrames, fde_fields, fde_fixups};
use crate::input::file::File;
use crate::input::object::Object;
use crate::input::parts::{Fixup, Place, Target};
use crate::resolve::input_sections::state;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// `jmp` with a distance of 32 bits.
const JMP: u8 = 0xe9;
const JMP_SIZE: usize = 5;

/// Size in bytes of the jump that is left of a function with these bytes.
pub fn size(function: &[u8]) -> u64 {
    let entry = if function.starts_with(&ENDBR64) {
        ENDBR64.len()
    } else {
        0
    };
    (entry + JMP_SIZE) as u64
}

/// Writes the jump that stands at `address` into `out`, which has the [`size`] of one. `None` if `target` is too far
/// away.
pub fn write(out: &mut [u8], address: u64, target: u64) -> Option<()> {
    let end = address.wrapping_add(out.len() as u64);
    let distance = i32::try_from(target.wrapping_sub(end) as i64).ok()?;
    let (entry, jump) = out.split_at_mut(out.len().checked_sub(JMP_SIZE)?);
    entry.copy_from_slice(ENDBR64.get(..entry.len())?);
    let (opcode, field) = jump.split_at_mut(1);
    opcode[0] = JMP;
    field.copy_from_slice(&distance.to_le_bytes());
    Some(())
}

/// Makes of a function's FDE, in `out`, that of the jump. `fields` are the FDE's places in its section, where it begins at
/// `start`.
pub fn restrict_frame(out: &mut [u8], fields: &eh_frame::Fde, start: u64, jump_size: u64) {
    let width = usize::from(fields.pointer_size);
    let at = |offset: u64| usize::try_from(offset.wrapping_sub(start)).unwrap_or(usize::MAX);
    let range = at(fields.pc_begin).saturating_add(width);
    if let Some(field) = out.get_mut(range..range.saturating_add(width)) {
        // The widths are 2, 4 and 8.
        field.copy_from_slice(&jump_size.to_le_bytes()[..width]);
    }
    // No exception table, and from there on `DW_CFA_nop`: both are zeros.
    let rest = at(fields.lsda.unwrap_or(fields.instructions));
    if let Some(rest) = out.get_mut(rest..) {
        rest.fill(0);
    }
}

/// Sections into which, beyond their start, something refers.
pub struct Interiors(Vec<AtomicBool>);

impl Interiors {
    /// Finds them.
    pub fn find(link: &Folder) -> Interiors {
        let mut marks = Vec::new();
        marks.resize_with(link.sections.count(), AtomicBool::default);
        let interiors = Interiors(marks);
        let ids = (0..link.files.0.len() as u32).into_par_iter().map(FileId);
        ids.filter(|file| link.sections.is_linked(*file))
            .for_each(|file| {
                let input = link.files.get(file);
                if let Some(object) = input.object() {
                    interiors.symbols(link, file, object);
                    interiors.fixups(link, input, file, object);
                }
            });
        interiors
    }

    /// Whether a function can be replaced by a jump, and is larger than it.
    pub fn allow_jump(&self, link: &Folder, id: SectionId) -> bool {
        let input = link.sections.at(link.files, id);
        let Some(section) = input.header() else {
            return false;
        };
        let takes = |size: u64| size.checked_next_multiple_of(section.align.max(1));
        let jump = size(input.bytes());
        !self.0[id.index()].load(Relaxed)
            && section.flags & shf::EXEC != 0
            && takes(jump) < takes(section.size)
            && has_plain_frame(link, input.file, input.object, input.number)
    }

    /// Names of places within functions.
    fn symbols(&self, link: &Folder, file: FileId, object: &Object) {
        for index in 1..object.symbol_count() {
            if let Some(symbol) = object.symbol(index)
                && let Place::Section(number) = symbol.place
                && symbol.value != 0
                && symbol.kind() != c::STT_SECTION
            {
                self.mark(link.sections.get(file, number).unwrap_or(SectionId::NONE));
            }
        }
    }

    fn fixups(&self, link: &Folder, input: &File, file: FileId, object: &Object) {
        for id in link.sections.of_file(file).map(SectionId) {
            let relocations = link.sections.relocations[id.index()];
            let bits = link.sections.state(id);
            if relocations == 0 || bits & (state::ALIVE | state::EH_FRAME) != state::ALIVE {
                continue;
            }
            let (_, number) = link.sections.origin(id);
            // What debugging information says of folded code is left out.
            let Some(section) = object
                .section(number)
                .filter(|section| !section.name.starts_with(b".debug_"))
            else {
                continue;
            };
            let is_code = section.flags & shf::EXEC != 0;
            object.fixups(number, relocations).for_each(|fixup| {
                if fixup.r_type == R_X86_64_NONE {
                    return;
                }
                let (target, value) = place_of(link, input, file, object, fixup.target);
                if is_beyond_start(value, &fixup, is_code) {
                    self.mark(target);
                }
            });
        }
    }

    fn mark(&self, id: SectionId) {
        if let Some(mark) = self.0.get(id.index()) {
            mark.store(true, Relaxed);
        }
    }
}

/// Whether a fixup against a symbol of this value may be about more than the first byte of the symbol's section.
fn is_beyond_start(value: u64, fixup: &Fixup, is_code: bool) -> bool {
    let from_end = match fixup.r_type {
        // The symbol's size would be another.
        R_X86_64_SIZE32 | R_X86_64_SIZE64 => return true,
        // Instructions count from their end, which is mostly that of the field. In data, a
        // jump table's entries count from the table, which looks as if they were beyond the start: they are.
        R_X86_64_PC32
        | R_X86_64_PLT32
        | R_X86_64_GOTPCREL
        | R_X86_64_GOTPCRELX
        | R_X86_64_REX_GOTPCRELX
            if is_code =>
        {
            4
        }
        _ => 0,
    };
    value
        .wrapping_add(fixup.addend as u64)
        .wrapping_add(from_end)
        != 0
}

/// Whether code has no FDE, or one that describes it from its start and can be made one of the jump.
fn has_plain_frame(link: &Folder, file: FileId, object: &Object, number: u32) -> bool {
    let frames: &FileFrames = link.frames.of(file);
    let [fde] = frames.of_section(number) else {
        return frames.of_section(number).is_empty();
    };
    let start = fde_fixups(object, file, link.sections, fde)
        .get(0)
        .map(|fixup| match fixup.target {
            Target::Symbol(index) => object
                .symbol(index)
                .map_or(u64::MAX, |symbol| symbol.value)
                .wrapping_add(fixup.addend as u64),
            Target::Section(_) | Target::Piece(_) => fixup.addend as u64,
        });
    let bytes = object.section_bytes(fde.section);
    let instructions = |fields: &eh_frame::Fde| {
        let end = fde.offset as usize + fde.size as usize;
        bytes.get(usize::try_from(fields.instructions).ok()?..end)
    };
    start == Some(0)
        && fde_fields(object, frames, fde).is_some_and(|(cie, fields)| {
            !cie.is_signal_frame && instructions(&fields).is_some_and(begins_as_called)
        })
}

/// Whether the call frame instructions of an FDE say nothing of its first byte of code that the CIE does not say: they are
/// none, or the first one advances (DWARF 5, 6.4.2).
fn begins_as_called(instructions: &[u8]) -> bool {
    const NOP: u8 = 0;
    const ADVANCE_LOC: u8 = 0x40;
    let first = instructions.iter().find(|byte| **byte != NOP);
    first.is_none_or(|byte| byte & 0xc0 == ADVANCE_LOC || (0x02..=0x04).contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixup(r_type: u32, addend: i64) -> Fixup {
        Fixup {
            offset: 0,
            addend,
            r_type,
            target: Target::Symbol(1),
        }
    }

    #[test]
    fn jumps() {
        let mut out = [0; JMP_SIZE];
        assert_eq!(size(b"\x55\x48\x89\xe5"), 5);
        assert_eq!(write(&mut out, 0x1000, 0x1010), Some(()));
        assert_eq!(out, *b"\xe9\x0b\0\0\0");
        assert_eq!(write(&mut out, 0x1000, 0xff0), Some(()));
        assert_eq!(out, *b"\xe9\xeb\xff\xff\xff");
        assert_eq!(write(&mut out, 0, 1 << 32), None);
        let mut out = [0; 9];
        assert_eq!(size(b"\xf3\x0f\x1e\xfa\x55"), 9);
        assert_eq!(write(&mut out, 0x1000, 0x1009), Some(()));
        assert_eq!(out, *b"\xf3\x0f\x1e\xfa\xe9\0\0\0\0");
    }

    #[test]
    fn cold_parts_do_not_begin_as_functions() {
        assert!(begins_as_called(b""));
        assert!(begins_as_called(b"\0\0"));
        // Advance by 1; define another offset of the frame's address.
        assert!(begins_as_called(b"\x41\x0e\x10"));
        assert!(!begins_as_called(b"\x0e\x10\0"));
    }

    #[test]
    fn what_is_beyond_the_start() {
        assert!(!is_beyond_start(0, &fixup(R_X86_64_PLT32, -4), true));
        assert!(!is_beyond_start(0x20, &fixup(R_X86_64_PC32, -0x24), true));
        assert!(is_beyond_start(0, &fixup(R_X86_64_PC32, 0x1c), true));
        // An immediate operand follows the field.
        assert!(is_beyond_start(0, &fixup(R_X86_64_PC32, -5), true));
        assert!(is_beyond_start(0, &fixup(R_X86_64_PC32, 0x18), false));
        assert!(!is_beyond_start(0, &fixup(R_X86_64_PC32, 0), false));
        assert!(is_beyond_start(8, &fixup(R_X86_64_PC32, 0), false));
        assert!(is_beyond_start(0, &fixup(R_X86_64_SIZE64, 0), false));
    }
}
