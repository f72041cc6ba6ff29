//! The relocation types of x86-64 (psABI section 4.4.1): what each one
//! computes, how wide its field is, and which values fit.
//!
//! The linker handles a relocation in three steps. While scanning it looks at
//! the *class* ([`Howto::class`]) to learn what must be synthesised: a GOT slot,
//! a PLT entry, a dynamic relocation. While writing it computes the value that
//! the class's formula gives, and [`apply`]s it to the field. The formulas use
//! the psABI's letters:
//!
//! | letter | meaning |
//! |---|---|
//! | A | the addend |
//! | G | offset of the symbol's slot from the start of the GOT |
//! | GOT | address of the GOT (of `_GLOBAL_OFFSET_TABLE_`) |
//! | L | address of the symbol's PLT entry, or of the symbol if it has none |
//! | P | address of the place |
//! | S | address of the symbol |
//! | Z | size of the symbol |

use std::fmt;

/// Defines the `R_X86_64_*` constants, and the dense table of their properties.
macro_rules! relocations {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $class:ident, $field:ident;)*) => {
        $($(#[$doc])* pub const $name: u32 = $number;)*

        /// Indexed by type; the gaps are [`Howto::UNKNOWN`].
        static HOWTOS: [Howto; TABLE_SIZE] = {
            let mut table = [Howto::UNKNOWN; TABLE_SIZE];
            $(table[$number] = Howto { class: Class::$class, field: Field::$field };)*
            table
        };

        static NAMES: [&str; TABLE_SIZE] = {
            let mut table = [""; TABLE_SIZE];
            $(table[$number] = stringify!($name);)*
            table
        };
    };
}

const TABLE_SIZE: usize = 52;

relocations! {
    /// Does nothing.
    R_X86_64_NONE = 0, None, None;
    /// S + A.
    R_X86_64_64 = 1, Absolute, Word64;
    /// S + A − P.
    R_X86_64_PC32 = 2, PcRelative, Signed32;
    /// G + A.
    R_X86_64_GOT32 = 3, GotSlotOffset, Signed32;
    /// L + A − P.
    R_X86_64_PLT32 = 4, PltPcRelative, Signed32;
    /// Dynamic: copy the symbol's initial value here.
    R_X86_64_COPY = 5, Dynamic, None;
    /// Dynamic: S, in a GOT slot.
    R_X86_64_GLOB_DAT = 6, Dynamic, Word64;
    /// Dynamic: S, in a slot of `.got.plt`; may be bound lazily.
    R_X86_64_JUMP_SLOT = 7, Dynamic, Word64;
    /// Dynamic: load base + A.
    R_X86_64_RELATIVE = 8, Dynamic, Word64;
    /// G + GOT + A − P.
    R_X86_64_GOTPCREL = 9, GotSlotPcRelative, Signed32;
    /// S + A, zero-extended by the instruction that uses it.
    R_X86_64_32 = 10, Absolute, Unsigned32;
    /// S + A, sign-extended by the instruction that uses it.
    R_X86_64_32S = 11, Absolute, Signed32;
    /// S + A.
    R_X86_64_16 = 12, Absolute, Bits16;
    /// S + A − P.
    R_X86_64_PC16 = 13, PcRelative, Bits16;
    /// S + A.
    R_X86_64_8 = 14, Absolute, Bits8;
    /// S + A − P.
    R_X86_64_PC8 = 15, PcRelative, Signed8;
    /// Dynamic: number of the module that defines the symbol.
    R_X86_64_DTPMOD64 = 16, Dynamic, Word64;
    /// Offset in the TLS block of the module. Static and dynamic.
    R_X86_64_DTPOFF64 = 17, TlsModuleOffset, Word64;
    /// Offset from the thread pointer. Static and dynamic.
    R_X86_64_TPOFF64 = 18, TlsOffset, Word64;
    /// PC-relative address of the symbol's `tls_index` pair in the GOT.
    R_X86_64_TLSGD = 19, TlsGeneralDynamic, Signed32;
    /// PC-relative address of this module's `tls_index` pair in the GOT.
    R_X86_64_TLSLD = 20, TlsLocalDynamic, Signed32;
    /// Offset in the TLS block of the module.
    R_X86_64_DTPOFF32 = 21, TlsModuleOffset, Signed32;
    /// PC-relative address of the GOT slot that holds the symbol's offset from
    /// the thread pointer.
    R_X86_64_GOTTPOFF = 22, TlsInitialExec, Signed32;
    /// Offset from the thread pointer.
    R_X86_64_TPOFF32 = 23, TlsOffset, Signed32;
    /// S + A − P.
    R_X86_64_PC64 = 24, PcRelative, Word64;
    /// S + A − GOT.
    R_X86_64_GOTOFF64 = 25, GotRelative, Word64;
    /// GOT + A − P.
    R_X86_64_GOTPC32 = 26, GotPcRelative, Signed32;
    /// G + A.
    R_X86_64_GOT64 = 27, GotSlotOffset, Word64;
    /// G + GOT + A − P.
    R_X86_64_GOTPCREL64 = 28, GotSlotPcRelative, Word64;
    /// GOT + A − P.
    R_X86_64_GOTPC64 = 29, GotPcRelative, Word64;
    /// G + A. (It once asked for a PLT entry as well; the psABI deprecates it.)
    R_X86_64_GOTPLT64 = 30, GotSlotOffset, Word64;
    /// L + A − GOT.
    R_X86_64_PLTOFF64 = 31, PltGotRelative, Word64;
    /// Z + A.
    R_X86_64_SIZE32 = 32, Size, Unsigned32;
    /// Z + A.
    R_X86_64_SIZE64 = 33, Size, Word64;
    /// PC-relative address of the symbol's TLS descriptor in the GOT.
    R_X86_64_GOTPC32_TLSDESC = 34, TlsDescriptor, Signed32;
    /// Marks the call through a TLS descriptor; changes nothing by itself.
    R_X86_64_TLSDESC_CALL = 35, TlsDescriptorCall, None;
    /// Dynamic: fill in a TLS descriptor.
    R_X86_64_TLSDESC = 36, Dynamic, None;
    /// Dynamic: what the resolver at load base + A returns.
    R_X86_64_IRELATIVE = 37, Dynamic, Word64;
    /// Dynamic: load base + A, 64 bits also in ILP32.
    R_X86_64_RELATIVE64 = 38, Dynamic, Word64;
    /// S + A − P: `R_X86_64_PC32` at a `bnd`-prefixed branch (deprecated).
    R_X86_64_PC32_BND = 39, PcRelative, Signed32;
    /// L + A − P: `R_X86_64_PLT32` at a `bnd`-prefixed branch (deprecated).
    R_X86_64_PLT32_BND = 40, PltPcRelative, Signed32;
    /// G + GOT + A − P, in an instruction without REX prefix that may be relaxed.
    R_X86_64_GOTPCRELX = 41, GotSlotPcRelative, Signed32;
    /// G + GOT + A − P, in an instruction with REX prefix that may be relaxed.
    R_X86_64_REX_GOTPCRELX = 42, GotSlotPcRelative, Signed32;
    /// As `R_X86_64_REX_GOTPCRELX`; the instruction starts 4 bytes before (REX2).
    R_X86_64_CODE_4_GOTPCRELX = 43, GotSlotPcRelative, Signed32;
    /// As `R_X86_64_GOTTPOFF`; the instruction starts 4 bytes before (REX2).
    R_X86_64_CODE_4_GOTTPOFF = 44, TlsInitialExec, Signed32;
    /// As `R_X86_64_GOTPC32_TLSDESC`; the instruction starts 4 bytes before (REX2).
    R_X86_64_CODE_4_GOTPC32_TLSDESC = 45, TlsDescriptor, Signed32;
    /// As `R_X86_64_GOTPCRELX`; the instruction starts 5 bytes before.
    R_X86_64_CODE_5_GOTPCRELX = 46, GotSlotPcRelative, Signed32;
    /// As `R_X86_64_GOTTPOFF`; the instruction starts 5 bytes before.
    R_X86_64_CODE_5_GOTTPOFF = 47, TlsInitialExec, Signed32;
    /// As `R_X86_64_GOTPC32_TLSDESC`; the instruction starts 5 bytes before.
    R_X86_64_CODE_5_GOTPC32_TLSDESC = 48, TlsDescriptor, Signed32;
    /// As `R_X86_64_GOTPCRELX`; the instruction starts 6 bytes before (EVEX).
    R_X86_64_CODE_6_GOTPCRELX = 49, GotSlotPcRelative, Signed32;
    /// As `R_X86_64_GOTTPOFF`; the instruction starts 6 bytes before (EVEX).
    R_X86_64_CODE_6_GOTTPOFF = 50, TlsInitialExec, Signed32;
    /// As `R_X86_64_GOTPC32_TLSDESC`; the instruction starts 6 bytes before.
    R_X86_64_CODE_6_GOTPC32_TLSDESC = 51, TlsDescriptor, Signed32;
}

/// GNU extension of old C++ compilers (virtual table garbage collection); does
/// nothing.
pub const R_X86_64_GNU_VTINHERIT: u32 = 250;
/// As [`R_X86_64_GNU_VTINHERIT`].
pub const R_X86_64_GNU_VTENTRY: u32 = 251;

/// Which formula a relocation computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// Nothing to compute.
    None,
    /// S + A.
    Absolute,
    /// S + A − P.
    PcRelative,
    /// L + A − P.
    PltPcRelative,
    /// L + A − GOT.
    PltGotRelative,
    /// G + A: needs a GOT slot.
    GotSlotOffset,
    /// G + GOT + A − P: needs a GOT slot, unless the instruction is
    /// [relaxed](super::relax).
    GotSlotPcRelative,
    /// S + A − GOT: needs a GOT, no slot.
    GotRelative,
    /// GOT + A − P: needs a GOT, no slot; the symbol does not matter.
    GotPcRelative,
    /// Z + A.
    Size,
    /// Address of a `tls_index` pair for the symbol, PC-relative.
    TlsGeneralDynamic,
    /// Address of a `tls_index` pair for this module, PC-relative.
    TlsLocalDynamic,
    /// Offset in this module's TLS block. Where a [`Class::TlsLocalDynamic`]
    /// sequence was relaxed it is the offset from the thread pointer instead.
    TlsModuleOffset,
    /// Address of a GOT slot with the offset from the thread pointer, PC-relative.
    TlsInitialExec,
    /// Offset from the thread pointer.
    TlsOffset,
    /// Address of a TLS descriptor, PC-relative.
    TlsDescriptor,
    /// The call through a TLS descriptor.
    TlsDescriptorCall,
    /// Only dynamic linkers handle it: an error in a relocatable object.
    Dynamic,
    /// Not a type that the psABI defines.
    Unknown,
}

impl Class {
    /// Whether the symbol must be thread-local (and for every other class that
    /// looks at the symbol's address it must not be).
    pub const fn is_tls(self) -> bool {
        matches!(
            self,
            Class::TlsGeneralDynamic
                | Class::TlsLocalDynamic
                | Class::TlsModuleOffset
                | Class::TlsInitialExec
                | Class::TlsOffset
                | Class::TlsDescriptor
                | Class::TlsDescriptorCall
        )
    }
}

/// The place's field: its width, and which values it can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Field {
    /// No bytes are changed.
    None,
    /// 1 byte, signed.
    Signed8,
    /// 4 bytes, signed.
    Signed32,
    /// 4 bytes, unsigned.
    Unsigned32,
    /// 1 byte of a number of 9 bits whose sign nobody knows: nothing says how it will be extended. So GNU ld has it.
    Bits8,
    /// 2 bytes of a number of 17 bits; code of 16 bits counts distances round the 64 KiB.
    Bits16,
    /// 8 bytes: every value fits.
    Word64,
}

impl Field {
    /// Width in bytes.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Field::None => 0,
            Field::Signed8 | Field::Bits8 => 1,
            Field::Bits16 => 2,
            Field::Signed32 | Field::Unsigned32 => 4,
            Field::Word64 => 8,
        }
    }

    /// The smallest and the largest value that fit.
    pub const fn range(self) -> (i128, i128) {
        match self {
            Field::None => (0, 0),
            Field::Signed8 => (i8::MIN as i128, i8::MAX as i128),
            Field::Bits8 => (-0x100, u8::MAX as i128),
            Field::Bits16 => (-0x1_0000, u16::MAX as i128),
            Field::Signed32 => (i32::MIN as i128, i32::MAX as i128),
            Field::Unsigned32 => (0, u32::MAX as i128),
            Field::Word64 => (i64::MIN as i128, u64::MAX as i128),
        }
    }
}

/// What a relocation type computes, and into what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Howto {
    /// The formula.
    pub class: Class,
    /// The field.
    pub field: Field,
}

impl Howto {
    /// What [`howto`] gives for a type that the psABI does not define.
    pub const UNKNOWN: Howto = Howto {
        class: Class::Unknown,
        field: Field::None,
    };
}

/// Looks up a relocation type. Unknown types have [`Class::Unknown`].
#[inline(always)]
pub fn howto(r_type: u32) -> Howto {
    match HOWTOS.get(r_type as usize) {
        Some(howto) => *howto,
        None => howto_outside_table(r_type),
    }
}

#[cold]
fn howto_outside_table(r_type: u32) -> Howto {
    match r_type {
        R_X86_64_GNU_VTINHERIT | R_X86_64_GNU_VTENTRY => Howto {
            class: Class::None,
            field: Field::None,
        },
        _ => Howto::UNKNOWN,
    }
}

/// A relocation type's name, for messages: `R_X86_64_PC32`, or `unknown
/// relocation type 77`.
pub fn name(r_type: u32) -> RelocName {
    RelocName(r_type)
}

/// Displays a relocation type; made by [`name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelocName(u32);

impl fmt::Display for RelocName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            R_X86_64_GNU_VTINHERIT => f.pad("R_X86_64_GNU_VTINHERIT"),
            R_X86_64_GNU_VTENTRY => f.pad("R_X86_64_GNU_VTENTRY"),
            n => match NAMES.get(n as usize) {
                Some(name) if !name.is_empty() => f.pad(name),
                _ => write!(f, "unknown relocation type {n}"),
            },
        }
    }
}

/// Why a value was not written. The place is left as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The value does not fit the field.
    #[error("relocation out of range: {} is not in [{}, {}]", display_value(*.field, *.value), .field.range().0, .field.range().1)]
    Overflow {
        /// The value; unsigned for [`Field::Unsigned32`], else signed.
        value: u64,
        /// The field.
        field: Field,
    },
    /// The field does not lie within the section's bytes.
    #[error("relocation is outside of its section")]
    OutsideSection,
    /// The instruction has no such form.
    #[error("instruction cannot be relaxed in this way")]
    NotRelaxable,
}

/// The value as the field's rule sees it.
fn display_value(field: Field, value: u64) -> i128 {
    match field {
        Field::Unsigned32 => value as i128,
        _ => value as i64 as i128,
    }
}

/// Writes `value` (arithmetic modulo 2^64) into the field at the start of
/// `place`, little-endian, if it fits.
///
/// This is the innermost step of writing the output. It is inlined so that a
/// caller who knows the field statically pays for nothing else.
#[inline(always)]
pub fn apply(place: &mut [u8], field: Field, value: u64) -> Result<(), ApplyError> {
    macro_rules! store {
        ($fits:expr, $int:ty) => {{
            const N: usize = size_of::<$int>();
            let Some(bytes) = place.first_chunk_mut::<N>() else {
                return Err(ApplyError::OutsideSection);
            };
            if !$fits {
                return Err(ApplyError::Overflow { value, field });
            }
            *bytes = (value as $int).to_le_bytes();
        }};
    }
    let signed = value as i64;
    match field {
        // In order of how often they occur.
        Field::Signed32 => store!(signed == signed as i32 as i64, u32),
        Field::Word64 => store!(true, u64),
        Field::Unsigned32 => store!(value == value as u32 as u64, u32),
        Field::Signed8 => store!(signed == signed as i8 as i64, u8),
        Field::Bits16 => store!((-0x1_0000..=0xffff).contains(&signed), u16),
        Field::Bits8 => store!((-0x100..=0xff).contains(&signed), u8),
        Field::None => {}
    }
    Ok(())
}

/// Stores as much of a value as the field takes.
pub fn truncate(place: &mut [u8], field: Field, value: u64) {
    let width = match field {
        Field::Word64 => 8,
        Field::Signed32 | Field::Unsigned32 => 4,
        Field::Bits16 => 2,
        Field::Signed8 | Field::Bits8 => 1,
        Field::None => 0,
    };
    if let Some(bytes) = place.get_mut(..width) {
        bytes.copy_from_slice(&value.to_le_bytes()[..width]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIELDS: [Field; 7] = [
        Field::None,
        Field::Signed8,
        Field::Signed32,
        Field::Unsigned32,
        Field::Bits8,
        Field::Bits16,
        Field::Word64,
    ];

    /// The numbers against an independent list of them.
    #[test]
    fn numbers_and_names() {
        use object::elf;
        for (ours, theirs, text) in [
            (R_X86_64_NONE, elf::R_X86_64_NONE, "R_X86_64_NONE"),
            (R_X86_64_64, elf::R_X86_64_64, "R_X86_64_64"),
            (R_X86_64_PC32, elf::R_X86_64_PC32, "R_X86_64_PC32"),
            (R_X86_64_GOT32, elf::R_X86_64_GOT32, "R_X86_64_GOT32"),
            (R_X86_64_PLT32, elf::R_X86_64_PLT32, "R_X86_64_PLT32"),
            (R_X86_64_COPY, elf::R_X86_64_COPY, "R_X86_64_COPY"),
            (
                R_X86_64_GLOB_DAT,
                elf::R_X86_64_GLOB_DAT,
                "R_X86_64_GLOB_DAT",
            ),
            (
                R_X86_64_JUMP_SLOT,
                elf::R_X86_64_JUMP_SLOT,
                "R_X86_64_JUMP_SLOT",
            ),
            (
                R_X86_64_RELATIVE,
                elf::R_X86_64_RELATIVE,
                "R_X86_64_RELATIVE",
            ),
            (
                R_X86_64_GOTPCREL,
                elf::R_X86_64_GOTPCREL,
                "R_X86_64_GOTPCREL",
            ),
            (R_X86_64_32, elf::R_X86_64_32, "R_X86_64_32"),
            (R_X86_64_32S, elf::R_X86_64_32S, "R_X86_64_32S"),
            (R_X86_64_16, elf::R_X86_64_16, "R_X86_64_16"),
            (R_X86_64_PC16, elf::R_X86_64_PC16, "R_X86_64_PC16"),
            (R_X86_64_8, elf::R_X86_64_8, "R_X86_64_8"),
            (R_X86_64_PC8, elf::R_X86_64_PC8, "R_X86_64_PC8"),
            (
                R_X86_64_DTPMOD64,
                elf::R_X86_64_DTPMOD64,
                "R_X86_64_DTPMOD64",
            ),
            (
                R_X86_64_DTPOFF64,
                elf::R_X86_64_DTPOFF64,
                "R_X86_64_DTPOFF64",
            ),
            (R_X86_64_TPOFF64, elf::R_X86_64_TPOFF64, "R_X86_64_TPOFF64"),
            (R_X86_64_TLSGD, elf::R_X86_64_TLSGD, "R_X86_64_TLSGD"),
            (R_X86_64_TLSLD, elf::R_X86_64_TLSLD, "R_X86_64_TLSLD"),
            (
                R_X86_64_DTPOFF32,
                elf::R_X86_64_DTPOFF32,
                "R_X86_64_DTPOFF32",
            ),
            (
                R_X86_64_GOTTPOFF,
                elf::R_X86_64_GOTTPOFF,
                "R_X86_64_GOTTPOFF",
            ),
            (R_X86_64_TPOFF32, elf::R_X86_64_TPOFF32, "R_X86_64_TPOFF32"),
            (R_X86_64_PC64, elf::R_X86_64_PC64, "R_X86_64_PC64"),
            (
                R_X86_64_GOTOFF64,
                elf::R_X86_64_GOTOFF64,
                "R_X86_64_GOTOFF64",
            ),
            (R_X86_64_GOTPC32, elf::R_X86_64_GOTPC32, "R_X86_64_GOTPC32"),
            (R_X86_64_GOT64, elf::R_X86_64_GOT64, "R_X86_64_GOT64"),
            (
                R_X86_64_GOTPCREL64,
                elf::R_X86_64_GOTPCREL64,
                "R_X86_64_GOTPCREL64",
            ),
            (R_X86_64_GOTPC64, elf::R_X86_64_GOTPC64, "R_X86_64_GOTPC64"),
            (
                R_X86_64_GOTPLT64,
                elf::R_X86_64_GOTPLT64,
                "R_X86_64_GOTPLT64",
            ),
            (
                R_X86_64_PLTOFF64,
                elf::R_X86_64_PLTOFF64,
                "R_X86_64_PLTOFF64",
            ),
            (R_X86_64_SIZE32, elf::R_X86_64_SIZE32, "R_X86_64_SIZE32"),
            (R_X86_64_SIZE64, elf::R_X86_64_SIZE64, "R_X86_64_SIZE64"),
            (
                R_X86_64_GOTPC32_TLSDESC,
                elf::R_X86_64_GOTPC32_TLSDESC,
                "R_X86_64_GOTPC32_TLSDESC",
            ),
            (
                R_X86_64_TLSDESC_CALL,
                elf::R_X86_64_TLSDESC_CALL,
                "R_X86_64_TLSDESC_CALL",
            ),
            (R_X86_64_TLSDESC, elf::R_X86_64_TLSDESC, "R_X86_64_TLSDESC"),
            (
                R_X86_64_IRELATIVE,
                elf::R_X86_64_IRELATIVE,
                "R_X86_64_IRELATIVE",
            ),
            (
                R_X86_64_RELATIVE64,
                elf::R_X86_64_RELATIVE64,
                "R_X86_64_RELATIVE64",
            ),
            (
                R_X86_64_GOTPCRELX,
                elf::R_X86_64_GOTPCRELX,
                "R_X86_64_GOTPCRELX",
            ),
            (
                R_X86_64_REX_GOTPCRELX,
                elf::R_X86_64_REX_GOTPCRELX,
                "R_X86_64_REX_GOTPCRELX",
            ),
        ] {
            assert_eq!(ours, theirs);
            assert_eq!(name(ours).to_string(), text);
            assert_ne!(howto(ours).class, Class::Unknown, "{text}");
        }
        assert_eq!(name(R_X86_64_CODE_6_GOTPC32_TLSDESC).to_string().len(), 31);
        assert_eq!(name(52).to_string(), "unknown relocation type 52");
        assert_eq!(
            name(u32::MAX).to_string(),
            "unknown relocation type 4294967295"
        );
        assert_eq!(howto(52), Howto::UNKNOWN);
        assert_eq!(howto(u32::MAX), Howto::UNKNOWN);
        assert_eq!(howto(R_X86_64_GNU_VTENTRY).class, Class::None);
    }

    #[test]
    fn overflow_names_value_and_range() {
        let mut place = [0xaa; 4];
        let error = apply(&mut place, Field::Signed32, 1 << 31).unwrap_err();
        assert_eq!(
            error.to_string(),
            "relocation out of range: 2147483648 is not in [-2147483648, 2147483647]"
        );
        let error = apply(&mut place, Field::Unsigned32, -1i64 as u64).unwrap_err();
        assert_eq!(
            error.to_string(),
            "relocation out of range: 18446744073709551615 is not in [0, 4294967295]"
        );
        assert_eq!(place, [0xaa; 4]);
        assert_eq!(
            apply(&mut place[..3], Field::Signed32, 1),
            Err(ApplyError::OutsideSection)
        );
        assert_eq!(place, [0xaa; 4]);
    }

    #[test]
    fn neighbours_are_left_alone() {
        let mut place = [0xaa; 9];
        apply(&mut place, Field::Signed32, -2i64 as u64).unwrap();
        assert_eq!(
            place,
            [0xfe, 0xff, 0xff, 0xff, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa]
        );
        apply(&mut place, Field::Word64, 0x0102_0304_0506_0708).unwrap();
        assert_eq!(place, [8, 7, 6, 5, 4, 3, 2, 1, 0xaa]);
    }

    fn field() -> impl Strategy<Value = Field> {
        (0..FIELDS.len()).prop_map(|i| FIELDS[i])
    }

    fn near_limits() -> impl Strategy<Value = u64> {
        (0u32..64, -2i64..=2, any::<bool>()).prop_map(|(shift, delta, negate)| {
            let value = (1u64 << shift).wrapping_add(delta as u64);
            if negate { value.wrapping_neg() } else { value }
        })
    }

    proptest! {
        /// `apply` accepts exactly the documented range, and reading the field
        /// back under its rule gives the value.
        #[test]
        fn range_is_exact(field in field(), value in prop_oneof![near_limits(), any::<u64>()]) {
            let mut place = [0u8; 8];
            let seen = display_value(field, value);
            let (low, high) = field.range();
            let fits = field == Field::None || (low..=high).contains(&seen);
            prop_assert_eq!(apply(&mut place, field, value).is_ok(), fits);
            if fits && field != Field::None {
                let stored = u64::from_le_bytes(place);
                let mask = if field.size() == 8 { u64::MAX } else { (1 << (8 * field.size())) - 1 };
                prop_assert_eq!(stored, value & mask);
            }
        }
    }
}
