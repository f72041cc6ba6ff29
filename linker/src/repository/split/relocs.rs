//! What splitting must know of x86-64 relocation types (psABI, table 4.9): how
//! many bytes the place has, and whether the value is a sum in which an offset
//! within the target may move from the symbol into the addend.

use object::elf::*;

/// Bytes at the place; `None` for types that do not occur in relocatable
/// objects or are not known.
pub fn width(r_type: u32) -> Option<u64> {
    Some(match r_type {
        R_X86_64_NONE | R_X86_64_TLSDESC_CALL | VTINHERIT | VTENTRY => 0,
        R_X86_64_8 | R_X86_64_PC8 => 1,
        R_X86_64_16 | R_X86_64_PC16 => 2,
        R_X86_64_PC32
        | R_X86_64_GOT32
        | R_X86_64_PLT32
        | R_X86_64_GOTPCREL
        | R_X86_64_32
        | R_X86_64_32S
        | R_X86_64_TLSGD
        | R_X86_64_TLSLD
        | R_X86_64_DTPOFF32
        | R_X86_64_GOTTPOFF
        | R_X86_64_TPOFF32
        | R_X86_64_GOTPC32
        | R_X86_64_SIZE32
        | R_X86_64_GOTPC32_TLSDESC
        | R_X86_64_GOTPCRELX
        | R_X86_64_REX_GOTPCRELX
        | CODE_4_GOTPCRELX..=CODE_6_GOTPC32_TLSDESC => 4,
        R_X86_64_64 | R_X86_64_DTPMOD64 | R_X86_64_DTPOFF64 | R_X86_64_TPOFF64 | R_X86_64_PC64
        | R_X86_64_GOTOFF64 | R_X86_64_GOT64 | R_X86_64_GOTPCREL64 | R_X86_64_GOTPC64
        | R_X86_64_GOTPLT64 | R_X86_64_PLTOFF64 | R_X86_64_SIZE64 => 8,
        _ => return None,
    })
}

/// The APX forms of the GOT and TLS types, not yet named by the `object` crate:
/// 43 to 51 are `CODE_4_`, `CODE_5_` and `CODE_6_` of `GOTPCRELX`, `GOTTPOFF` and
/// `GOTPC32_TLSDESC`.
const CODE_4_GOTPCRELX: u32 = 43;
const CODE_6_GOTPC32_TLSDESC: u32 = 51;
/// GNU's vtable garbage collection: notes to the linker, no place.
const VTINHERIT: u32 = 250;
const VTENTRY: u32 = 251;

/// Whether the value depends on symbol and addend only through `S + A`, so
/// that a reference to a piece of a section may be written with any base.
/// What names an entry of the GOT or PLT for the symbol is not such a type.
pub fn is_linear(r_type: u32) -> bool {
    matches!(
        r_type,
        R_X86_64_64
            | R_X86_64_PC64
            | R_X86_64_32
            | R_X86_64_32S
            | R_X86_64_PC32
            | R_X86_64_16
            | R_X86_64_PC16
            | R_X86_64_8
            | R_X86_64_PC8
            | R_X86_64_GOTOFF64
    )
}
