//! Fragments: the values under the index of fragments (SPEC.md, section 18).
//!
//! ```text
//! head: header │ section records │ targets │ anonymous addresses │ (check)
//! body: for each section: (extension) │ fixups │ bytes
//! ```
//!
//! Most fragments are one function and its frame description, of some hundred bytes, and there are as many as
//! a program has functions: so what is said of a section once in a thousand stands in an
//! [extension](SectionExtension), and where the sections' parts are follows from one offset.
//!
//! *Packed fixups.* ELF's `RELA` relocations have their addends beside them, so the bytes of their places are zeros that
//! nobody reads. That is where a packed fixup has its target and its addend, in one [word](Packing); what is left
//! of it is a place and a type, 4 bytes instead of ELF's 24. Who copies a section puts the zeros back
//! ([`clear_places`]). Fixups that cannot be packed (numbers too large, places that are not
//! zeros, or none in the file) are [narrow](FixupRecord) or [wide](WideFixupRecord): all of a section have one form.

use crate::ids::{Address, NameId};
use bytemuck::{Pod, Zeroable};
use std::ops::Range;

/// What a section of a fragment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SectionKind {
    /// Executable code.
    Text = 0,
    /// Writable initialised data.
    Data = 1,
    /// Writable zero-initialised data (`SHT_NOBITS`).
    Bss = 2,
    /// Constant data.
    ReadOnly = 3,
    /// Initialised thread-local data.
    ThreadData = 4,
    /// Zero-initialised thread-local data.
    ThreadBss = 5,
    /// Frame descriptions: one or more FDEs, or one CIE, of `.eh_frame`.
    Unwind = 6,
    /// Language-specific exception tables (`.gcc_except_table`).
    ExceptionTable = 7,
    /// DWARF debug sections.
    Debug = 8,
    /// Arrays of pointers to constructors and destructors.
    InitArray = 9,
    /// Everything else, kept byte for byte.
    Other = 10,
}

impl SectionKind {
    /// Whether sections of a kind, given as its number, may be recorded compressed: not those that links take apart.
    #[inline]
    pub fn may_be_compressed(kind: u8) -> bool {
        const NEVER: [SectionKind; 3] = [
            SectionKind::Unwind,
            SectionKind::ExceptionTable,
            SectionKind::InitArray,
        ];
        !NEVER.iter().any(|never| *never as u8 == kind)
    }
}

/// Head of a fragment's value. After it come, in this order: the [`SectionRecord`]s, the [`TargetRecord`]s, at the
/// next multiple of 8 the [`Address`]es of anonymous fragments if there are any, with [`FragmentHeader::CHECKED`] the
/// head's check, and the sections' bodies.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct FragmentHeader {
    /// Low 24 bits: number of [`SectionRecord`]s; high 8: [`FragmentHeader::CHECKED`].
    pub sections_and_bits: u32,
    /// Number of addresses of anonymous fragments.
    pub anonymous_count: u32,
    /// Number of [`TargetRecord`]s.
    pub target_count: u32,
    /// The first `bindable_count` targets are bound through the compilation.
    pub bindable_count: u32,
}

impl FragmentHeader {
    /// Head and sections have checks of their own, beside the record's: the sections in their extensions, the head, which
    /// is the value up to its check, at its end. So it is with fragments whose sections have fixups and bytes of
    /// [`CHECKED_FROM`] bytes together or more, so that each section can be compared while it is copied.
    pub const CHECKED: u32 = 1 << 24;
    /// The greatest number of sections.
    pub const MAX_SECTIONS: u32 = (1 << 24) - 1;

    /// Number of [`SectionRecord`]s.
    #[inline]
    pub fn section_count(&self) -> u32 {
        self.sections_and_bits & Self::MAX_SECTIONS
    }

    /// Whether head and sections have checks of their own.
    #[inline]
    pub fn is_checked(&self) -> bool {
        self.sections_and_bits & Self::CHECKED != 0
    }

    /// Where the parts of the head are; `None` if that is beyond the largest value.
    #[inline]
    pub fn parts(&self) -> Option<HeadParts> {
        let array = |start: usize, count: u32, size: usize| {
            let end = start.checked_add((count as usize).checked_mul(size)?)?;
            Some(start..end)
        };
        let sections = array(
            size_of::<FragmentHeader>(),
            self.section_count(),
            size_of::<SectionRecord>(),
        )?;
        let targets = array(sections.end, self.target_count, size_of::<TargetRecord>())?;
        let start = match self.anonymous_count {
            0 => targets.end,
            _ => targets.end.checked_next_multiple_of(size_of::<Address>())?,
        };
        let anonymous = array(start, self.anonymous_count, size_of::<Address>())?;
        Some(HeadParts {
            check: self.is_checked().then_some(anonymous.end),
            bodies: match self.is_checked() {
                false => anonymous.end,
                true => anonymous.end.checked_add(size_of::<u32>())?,
            },
            sections,
            targets,
            anonymous,
        })
    }
}

/// Where the parts of a fragment's head are in its value, in bytes.
#[derive(Clone, Debug)]
pub struct HeadParts {
    /// The [`SectionRecord`]s.
    pub sections: Range<usize>,
    /// The [`TargetRecord`]s.
    pub targets: Range<usize>,
    /// The addresses of anonymous fragments.
    pub anonymous: Range<usize>,
    /// Where the head's check is, if it has one: [`head_check`] of all before it.
    pub check: Option<usize>,
    /// The end of the head.
    pub bodies: usize,
}

/// The words of a fixup in its [narrow](FixupRecord) form.
pub const FIXUP_WORDS: usize = 3;

/// Which of them are differences in planes: the offset, as fixups are in the order of their offsets.
pub const FIXUP_DIFFERENCES: u32 = 0b001;

/// Bytes of a section from which on a writer compresses it, if it wants to have it small; of code, that has few repetitions, twice as many.
pub const COMPRESSED_FROM: usize = 128;

/// Bytes of fixups and contents from which on a fragment has checks for each of its sections.
pub const CHECKED_FROM: u64 = 32 << 10;

/// One section of a fragment.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct SectionRecord {
    /// Size in memory, bytes (for `SHT_NOBITS` no bytes are stored); with [`SectionRecord::EXTENDED`], 0.
    pub size: u32,
    /// ELF section name; without its suffix if [`SectionRecord::SUFFIXED`].
    pub name: NameId,
    /// ELF `sh_type`.
    pub sh_type: u32,
    /// ELF `sh_flags`, without `SHF_GROUP`, `SHF_INFO_LINK` and `SHF_COMPRESSED`.
    pub sh_flags: u32,
    /// Number of fixups.
    pub fixup_count: u32,
    /// Offset of the section's body from the start of the value: a multiple of 4; of 8 with an extension and of wide fixups.
    pub body: u32,
    /// A [`SectionKind`].
    pub kind: u8,
    /// Alignment as a power of two.
    pub align_log2: u8,
    /// [`SectionRecord::SUFFIXED`] and its like.
    pub bits: u8,
    /// With [`SectionRecord::PACKED_FIXUPS`]: [`Packing::target_bits`]; else 0.
    pub target_bits: u8,
}

impl SectionRecord {
    /// The section's full name is `name` + "." + the member's suffix.
    pub const SUFFIXED: u8 = 1;
    /// The fixups are [`WideFixupRecord`]s.
    pub const WIDE_FIXUPS: u8 = 2;
    /// A section of kind [`SectionKind::Unwind`] that holds exactly one CIE. Without
    /// this bit and [`SectionRecord::WHOLE_UNWIND`], such a section holds only
    /// FDEs, whose CIE pointers are zero and have a [`FIXUP_CIE`].
    pub const CIE: u8 = 4;
    /// A section of kind [`SectionKind::Unwind`] that is a whole `.eh_frame` as the object
    /// had it: CIEs, FDEs with their CIE pointers in place, perhaps a terminator.
    pub const WHOLE_UNWIND: u8 = 8;
    /// The fixups are packed: [`PackedFixupRecord`]s, and words in the bytes.
    pub const PACKED_FIXUPS: u8 = 16;
    /// The body begins with a [`SectionExtension`].
    pub const EXTENDED: u8 = 32;
    /// What follows in the body is a [`CompressedHeader`] and what it says. Only sections of [some kinds](SectionKind::may_be_compressed) are.
    pub const COMPRESSED: u8 = 64;
}

/// Stands in a compressed section in the place of fixups and bytes: the sizes of two LZ4 blocks, which follow. The first is of the planes of the
/// fixups in their [narrow](FixupRecord) form, the second of the section's bytes.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct CompressedHeader {
    /// Bytes of the first block; 0 if there are no fixups.
    pub fixups: u32,
    /// Bytes of the second.
    pub bytes: u32,
}

/// What is seldom said of a section, and its check, at the start of its body.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct SectionExtension {
    /// [`BodyCheck`] of the body behind this field: of what stands before the section's bytes, and of these.
    pub check: u32,
    /// For `SHF_LINK_ORDER`: 1 + the index of the target that `sh_link` names; else 0.
    pub link: u32,
    /// Size in memory, bytes.
    pub size: u64,
    /// ELF `sh_entsize`.
    pub entsize: u32,
    /// Zero.
    pub reserved: u32,
}

impl SectionExtension {
    /// Bytes at its start that its check is not about.
    pub const UNCHECKED: usize = size_of::<u32>();
}

/// The check of a fragment's head: the low 32 bits of XXH3 (64 bits, no seed).
#[inline]
pub fn head_check(bytes: &[u8]) -> u32 {
    crate::xxh3::xxh3(bytes) as u32
}

/// The check of a section's body, made from one block after another, so that who copies the section can have each block
/// compared when it is in the processor's first cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct BodyCheck(u64);

impl BodyCheck {
    /// Bytes of a block.
    pub const BLOCK: usize = 8 << 10;

    /// Adds a block: all of [`BodyCheck::BLOCK`] bytes, or the last of a part, which may be shorter.
    #[inline]
    pub fn block(&mut self, block: &[u8]) {
        self.0 = (self.0 ^ crate::xxh3::xxh3(block)).wrapping_mul(crate::GOLDEN);
    }

    /// Adds a part, cut into blocks from its start.
    pub fn part(mut self, part: &[u8]) -> BodyCheck {
        part.chunks(Self::BLOCK).for_each(|block| self.block(block));
        self
    }

    /// The check.
    #[inline]
    pub fn value(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What a target of a fixup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TargetKind {
    /// A global or weak symbol, by name. Bound through the compilation.
    Global = 0,
    /// A local symbol of the translation unit, by its [`local_name`]. Bound through the compilation.
    Local = 1,
    /// Another section of the translation unit, named by the [`local_name`] of the first symbol
    /// defined in it (or, where no symbol is, by its section name: debug
    /// sections, and sections of an object that was not split). Bound through the
    /// compilation to a section symbol.
    OwnNamed = 2,
    /// An anonymous fragment of the translation unit, named by its content:
    /// `value` indexes the fragment's anonymous addresses. Bound through the
    /// compilation to a section symbol.
    OwnAnonymous = 3,
    /// A section of this fragment: `value` is its index.
    Section = 4,
    /// A mergeable piece: `value` is its [`PieceId`](crate::ids::PieceId).
    Piece = 5,
}

/// The name by which a fragment knows a local symbol: without the number that compilers put behind a dot to tell symbols of one name apart
/// (`__func__.7`, `f.constprop.0`), which changes with whatever comes before. The dot stays, so that no other name is meant.
pub fn local_name(name: &[u8]) -> &[u8] {
    let digits = (name.iter().rev())
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (start, number) = name.split_at(name.len() - digits);
    match start {
        [_, .., b'.'] if !number.is_empty() => start,
        _ => name,
    }
}

/// What fixups of a fragment refer to: a [`TargetKind`] in the low 3 bits, and by kind a [`NameId`], a
/// [`PieceId`](crate::ids::PieceId) or an index in the high 29. Bindable kinds come first, then
/// sections, then pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct TargetRecord(pub u32);

impl TargetRecord {
    /// The greatest value.
    pub const MAX_VALUE: u32 = (1 << 29) - 1;

    /// A target; `None` if `value` is above [`TargetRecord::MAX_VALUE`].
    #[inline]
    pub fn new(kind: TargetKind, value: u32) -> Option<TargetRecord> {
        (value <= Self::MAX_VALUE).then_some(TargetRecord((value << 3) | kind as u32))
    }

    /// Its kind, if it is one that is known.
    #[inline]
    pub fn kind(self) -> Option<TargetKind> {
        use TargetKind::*;
        [Global, Local, OwnNamed, OwnAnonymous, Section, Piece]
            .get((self.0 & 7) as usize)
            .copied()
    }

    /// Its piece, if it is one.
    #[inline(always)]
    pub fn piece(self) -> Option<u32> {
        (self.0 & 7 == TargetKind::Piece as u32).then_some(self.value())
    }

    /// Its name, piece or index.
    #[inline]
    pub fn value(self) -> u32 {
        self.0 >> 3
    }
}

/// What is left of a packed fixup beside its word: the low 24 bits are the offset of its place, the high 8 its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct PackedFixupRecord(pub u32);

impl PackedFixupRecord {
    /// Offset of the place within the section.
    #[inline]
    pub fn offset(self) -> u32 {
        self.0 & 0x00ff_ffff
    }
}

/// How the words of a section's packed fixups are divided.
///
/// A word is 4 bytes at the fixup's place. If its highest bit is 0, the low [`Packing::target_bits`] are the index of the
/// target, all ones for none, and the bits between are the addend, signed. If it is 1, the low 6 bits are the
/// target's distance from the first one that is not bindable, and the other 25 the addend, not
/// signed: debug sections have large distances into each other, and these are the first such targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Bits of a target's index: 1 to 24.
    pub target_bits: u32,
    /// Index of the fragment's first target that is not bindable.
    pub bindable_count: u32,
}

impl Packing {
    const FAR: u32 = 1 << 31;
    const FAR_TARGET_BITS: u32 = 6;

    /// How the fixups of a section with these bytes are packed; `None` if they cannot be. Whether all of
    /// them can is known only when they [are](Packing::pack).
    pub fn of(fixups: &[FixupRecord], bindable_count: u32) -> Option<Packing> {
        let greatest = fixups.iter().filter_map(|fixup| fixup.target()).max();
        let target_bits = 32 - greatest.map_or(1, |greatest| greatest + 1).leading_zeros();
        (target_bits <= 24).then_some(Packing {
            target_bits,
            bindable_count,
        })
    }

    /// Packs the fixups of a section: their records go to the end of `records`, their words into `bytes`. If they cannot be
    /// packed, it says so, and `records` and `bytes` are of no use.
    #[must_use]
    pub fn pack(&self, fixups: &[FixupRecord], records: &mut [u8], bytes: &mut [u8]) -> bool {
        let mut free = 0;
        let (records, _) = records.as_chunks_mut::<4>();
        for (fixup, record) in fixups.iter().zip(records) {
            let at = fixup.offset as usize;
            let place = at..at + size_of::<u32>();
            let Some(word) = self.word(fixup) else {
                return false;
            };
            let is_free = at >= free && fixup.offset < 1 << 24;
            let Some(place) = bytes.get_mut(place.clone()).filter(|_| is_free) else {
                return false;
            };
            if *place != [0; 4] {
                return false;
            }
            place.copy_from_slice(&word.to_le_bytes());
            *record = (fixup.offset | fixup.fixup_type() << 24).to_le_bytes();
            free = at + size_of::<u32>();
        }
        true
    }

    fn word(&self, fixup: &FixupRecord) -> Option<u32> {
        let none = (1 << self.target_bits) - 1;
        let target = fixup.target();
        let addend_bits = 31 - self.target_bits;
        let half = 1i64 << (addend_bits - 1);
        let addend = i64::from(fixup.addend);
        if (-half..half).contains(&addend) {
            let addend = (fixup.addend as u32) << self.target_bits;
            return Some((addend | target.unwrap_or(none)) & !Self::FAR);
        }
        let far = target?.checked_sub(self.bindable_count)?;
        let addend = u32::try_from(fixup.addend).ok()?;
        let fits = far < 1 << Self::FAR_TARGET_BITS && addend < 1 << 25;
        fits.then_some(Self::FAR | addend << Self::FAR_TARGET_BITS | far)
    }

    /// The fixup whose record and word these are.
    #[inline(always)]
    pub fn unpack(&self, record: PackedFixupRecord, word: u32) -> FixupRecord {
        let (target, addend) = match word & Self::FAR {
            0 => {
                let none = (1u32 << self.target_bits) - 1;
                let target = word & none;
                let addend = (word << 1) as i32 >> (self.target_bits + 1);
                match target == none {
                    true => (FixupRecord::NO_TARGET, addend),
                    false => (target, addend),
                }
            }
            _ => {
                let far = word & ((1 << Self::FAR_TARGET_BITS) - 1);
                let target = self.bindable_count.wrapping_add(far) & FixupRecord::NO_TARGET;
                (
                    target,
                    ((word & !Self::FAR) >> Self::FAR_TARGET_BITS) as i32,
                )
            }
        };
        FixupRecord {
            offset: record.offset(),
            addend,
            target_and_type: target << 8 | record.0 >> 24,
        }
    }
}

/// Puts zeros where a section's bytes have the words of these fixups. Places beyond the end are passed over.
#[inline]
pub fn clear_places(fixups: &[PackedFixupRecord], bytes: &mut [u8]) {
    for fixup in fixups {
        let at = fixup.offset() as usize;
        if let Some(place) = bytes.get_mut(at..at + size_of::<u32>()) {
            place.copy_from_slice(&[0; 4]);
        }
    }
}

/// A relocation of a fragment's section in 12 bytes. A section's fixups are in
/// ascending order of their offsets.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct FixupRecord {
    /// Offset of the place within the section.
    pub offset: u32,
    /// Constant addend.
    pub addend: i32,
    /// Low 8 bits: `R_X86_64_*` or [`FIXUP_CIE`]; high 24: index of the target.
    pub target_and_type: u32,
}

impl FixupRecord {
    /// The target index of a fixup that has no symbol (ELF symbol index 0). It is
    /// also one more than the greatest index that this form can hold.
    pub const NO_TARGET: u32 = 0x00ff_ffff;

    /// The fixup type.
    pub fn fixup_type(self) -> u32 {
        self.target_and_type & 0xff
    }

    /// Index of the target among the fragment's targets; `None` without a symbol.
    pub fn target(self) -> Option<u32> {
        let target = self.target_and_type >> 8;
        (target != Self::NO_TARGET).then_some(target)
    }
}

/// A relocation whose numbers do not fit [`FixupRecord`].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct WideFixupRecord {
    /// Offset of the place within the section.
    pub offset: u64,
    /// Constant addend.
    pub addend: i64,
    /// Index of the target, or [`WideFixupRecord::NO_TARGET`].
    pub target: u32,
    /// `R_X86_64_*` or [`FIXUP_CIE`].
    pub fixup_type: u32,
}

impl WideFixupRecord {
    /// The target index of a fixup that has no symbol (ELF symbol index 0).
    pub const NO_TARGET: u32 = u32::MAX;
}

impl From<FixupRecord> for WideFixupRecord {
    fn from(fixup: FixupRecord) -> WideFixupRecord {
        WideFixupRecord {
            offset: u64::from(fixup.offset),
            addend: i64::from(fixup.addend),
            target: fixup.target().unwrap_or(WideFixupRecord::NO_TARGET),
            fixup_type: fixup.fixup_type(),
        }
    }
}

/// A fixup type of our own: the CIE pointer of an FDE. Its target is the
/// section of the CIE's fragment; the place is the 4-byte CIE pointer field.
pub const FIXUP_CIE: u32 = 0xff;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn numbers_of_local_names() {
        for (name, short) in [
            ("__func__.12", "__func__."),
            ("f.constprop.0", "f.constprop."),
            ("a.1.2", "a.1."),
            ("f.cold", "f.cold"),
            ("a12", "a12"),
            ("a.", "a."),
            (".7", ".7"),
            ("7", "7"),
            ("", ""),
        ] {
            assert_eq!(local_name(name.as_bytes()), short.as_bytes());
        }
    }

    #[test]
    fn records_have_the_sizes_and_offsets_of_the_specification() {
        assert_eq!(size_of::<FragmentHeader>(), 16);
        assert_eq!(offset_of!(FragmentHeader, bindable_count), 12);
        assert_eq!(size_of::<SectionRecord>(), 28);
        assert_eq!(offset_of!(SectionRecord, name), 4);
        assert_eq!(offset_of!(SectionRecord, fixup_count), 16);
        assert_eq!(offset_of!(SectionRecord, body), 20);
        assert_eq!(offset_of!(SectionRecord, kind), 24);
        assert_eq!(offset_of!(SectionRecord, bits), 26);
        assert_eq!(offset_of!(SectionRecord, target_bits), 27);
        assert_eq!(size_of::<SectionExtension>(), 24);
        assert_eq!(offset_of!(SectionExtension, link), 4);
        assert_eq!(offset_of!(SectionExtension, size), 8);
        assert_eq!(offset_of!(SectionExtension, entsize), 16);
        assert_eq!(size_of::<TargetRecord>(), 4);
        assert_eq!(size_of::<FixupRecord>(), 12);
        assert_eq!(offset_of!(FixupRecord, target_and_type), 8);
        assert_eq!(size_of::<WideFixupRecord>(), 24);
        assert_eq!(offset_of!(WideFixupRecord, target), 16);
    }

    fn fixup(offset: u32, fixup_type: u32, target: Option<u32>, addend: i32) -> FixupRecord {
        FixupRecord {
            offset,
            addend,
            target_and_type: target.unwrap_or(FixupRecord::NO_TARGET) << 8 | fixup_type,
        }
    }

    fn parts(fixup: &FixupRecord) -> (u32, i32, u32) {
        (fixup.offset, fixup.addend, fixup.target_and_type)
    }

    /// Packs them, with the first 3 targets bindable; if that can be done, holds what comes of it to what was packed.
    fn packs(fixups: &[FixupRecord], size: usize) -> bool {
        let packing = Packing::of(fixups, 3).unwrap();
        let mut records = vec![0; fixups.len() * 4];
        let mut bytes = vec![0; size];
        if !packing.pack(fixups, &mut records, &mut bytes) {
            return false;
        }
        let records: Vec<PackedFixupRecord> = bytemuck::pod_collect_to_vec(&records);
        for (record, fixup) in records.iter().zip(fixups) {
            let at = record.offset() as usize;
            let word = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            assert_eq!(parts(&packing.unpack(*record, word)), parts(fixup));
        }
        clear_places(&records, &mut bytes);
        assert_eq!(bytes, vec![0; size]);
        true
    }

    #[test]
    fn packed_fixups_are_those_that_were_packed() {
        assert!(packs(&[], 0));
        for addend in [0, -4, 1, (1 << 26) - 1, -(1 << 26)] {
            for target in [None, Some(0), Some(1), Some(3), Some(15)] {
                // Five bits hold 15 and none, and leave 26 to the addend.
                let fixups = [fixup(0, 2, Some(15), 0), fixup(4, 255, target, addend)];
                assert_eq!(packs(&fixups, 8), addend.unsigned_abs() < 1 << 25);
            }
        }
        for target in [None, Some(0), Some(2), Some(3), Some(15)] {
            let fixups = [fixup(0, 2, Some(1 << 20), 0), fixup(4, 1, target, 1 << 20)];
            assert_eq!(packs(&fixups, 8), target > Some(2));
        }
        // The greatest target that is far, the least that is not.
        let large = (1 << 25) - 1;
        assert!(packs(&[fixup(0, 1, Some(66), large)], 4));
        assert!(!packs(&[fixup(0, 1, Some(67), large)], 4));
        assert!(!packs(&[fixup(0, 1, Some(3), 1 << 28)], 4));
        assert!(!packs(&[fixup(0, 1, Some(3), -(1 << 29))], 4));
        // As many targets as there can be.
        assert!(packs(&[fixup(0, 1, Some((1 << 23) - 2), -4)], 4));
        assert!(packs(&[fixup(0, 1, Some((1 << 24) - 2), 63)], 4));
        assert!(!packs(&[fixup(0, 1, Some((1 << 24) - 2), 64)], 4));
    }

    #[test]
    fn fixups_whose_places_are_not_free_are_not_packed() {
        let one = fixup(2, 1, Some(0), 0);
        assert!(packs(&[one], 6));
        assert!(!packs(&[one], 5));
        assert!(!packs(&[one, fixup(5, 1, Some(0), 0)], 20));
        assert!(packs(&[one, fixup(6, 1, Some(0), 0)], 20));
        assert!(!packs(&[one, one], 20));
        let packing = Packing::of(&[one], 0).unwrap();
        assert!(!packing.pack(&[one], &mut [0; 4], &mut [0, 0, 0, 0, 0, 1]));
        assert!(packs(&[fixup((1 << 24) - 4, 1, Some(0), 0)], 1 << 24));
        assert!(!packs(&[fixup(1 << 24, 1, Some(0), 0)], 1 << 25));
    }

    #[test]
    fn the_check_of_a_body_is_about_each_byte_and_the_order_of_blocks() {
        let bytes: Vec<u8> = (0..3 * BodyCheck::BLOCK + 5)
            .map(|at| (at / BodyCheck::BLOCK + at % 251) as u8)
            .collect();
        let check = |bytes: &[u8]| {
            BodyCheck::default()
                .part(&bytes[..7])
                .part(&bytes[7..])
                .value()
        };
        let right = check(&bytes);
        assert_ne!(right, check(&bytes[..bytes.len() - 1]));
        for at in (0..bytes.len()).step_by(1021) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_ne!(check(&damaged), right, "{at}");
        }
        let mut swapped = bytes.clone();
        let (first, second) = swapped[7..].split_at_mut(BodyCheck::BLOCK);
        first.swap_with_slice(&mut second[..BodyCheck::BLOCK]);
        assert_ne!(check(&swapped), right);
        // By blocks, as who copies does.
        let mut blocks = BodyCheck::default().part(&bytes[..7]);
        bytes[7..]
            .chunks(BodyCheck::BLOCK)
            .for_each(|block| blocks.block(block));
        assert_eq!(blocks.value(), right);
    }

    #[test]
    fn damaged_words_are_fixups_all_the_same() {
        let mut word = 1u32;
        for _ in 0..1000 {
            word = word.wrapping_mul(0x9e37_79b9).rotate_left(7);
            let packing = Packing {
                target_bits: word % 24 + 1,
                bindable_count: word,
            };
            let record = PackedFixupRecord(word.rotate_left(13));
            let fixup = packing.unpack(record, word);
            assert_eq!(fixup.fixup_type(), record.0 >> 24);
        }
    }

    #[test]
    fn narrow_fixups_have_their_parts() {
        let fixup = fixup(0, 2, Some(0x12_3456), -4);
        assert_eq!(fixup.fixup_type(), 2);
        assert_eq!(fixup.target(), Some(0x12_3456));
        assert_eq!(super::tests::fixup(0, 1, None, 0).target(), None);
    }

    #[test]
    fn targets_have_their_parts() {
        let target = TargetRecord::new(TargetKind::Piece, TargetRecord::MAX_VALUE).unwrap();
        assert_eq!(target.kind(), Some(TargetKind::Piece));
        assert_eq!(target.value(), TargetRecord::MAX_VALUE);
        assert!(TargetRecord::new(TargetKind::Global, 1 << 29).is_none());
        assert_eq!(TargetRecord(6).kind(), None);
    }
}
