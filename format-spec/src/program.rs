//! Records of the program model: what the values under the indices look like.
//!
//! ```text
//! compilation ──members──▶ fragment ──sections──▶ bytes
//!      │                      ├──targets──▶ name │ section │ anonymous fragment │ piece
//!      │                      └──fixups───▶ (offset, type, target, addend)
//!      ├──symbols (as in ELF: locals, defined globals, undefined globals)
//!      └──bindings: for each member, which symbol each of its targets is
//! ```
//!
//! A fragment says *what* it refers to (by name or content), so that it is the
//! same for every translation unit; the compilation says *which symbol* that is
//! here. A reader that has a compilation therefore needs no hashing at all to
//! follow a fixup: fixup → target → binding → symbol.

use crate::digest::Digest;
use crate::file::SHORT_KEY;
use crate::file::{IndexSlot, VectorSlot};
use crate::ids::{Address, NameId};
use crate::xxh3::{seeded_xxh3, xxh3};
use bytemuck::{Pod, Zeroable};

/// What stands behind an internal symbol's name in the source, with a word of the writer's, where the symbol is promoted (section 26).
pub const PROMOTED: &[u8] = b".repo.";

/// The hash-trie indices of a repository, by slot number. Those from [`Index::Types`] on, but for
/// [`Index::Images`], have their records in envelopes ([`crate::envelope`], [`crate::kinds`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Index {
    /// [`name_key`] → [`NameHeader`] and the name's bytes. Numbered ([`ItemKind::Numbered`](crate::file::ItemKind::Numbered))
    /// by [`Vector::Names`].
    Names = 0,
    /// [`piece_key`] → [`PieceHeader`]. Numbered by [`Vector::Pieces`].
    Pieces = 1,
    /// Digest of a fragment → [`FragmentHeader`](crate::fragment::FragmentHeader).
    Fragments = 2,
    /// Digest of a compilation → [`CompilationHeader`].
    Compilations = 3,
    /// BLAKE3 of a ticket file's absolute path → [`TicketHeader`]. Replaceable.
    Tickets = 4,
    /// DWARF type signature → [`TypeBody`](crate::kinds::TypeBody).
    Types = 5,
    /// BLAKE3 of an output file's absolute path → [`ImageHeader`]. Replaceable.
    Images = 6,
    /// Digest of a definition, before code generation → what was generated for it. Replaceable.
    Definitions = 7,
    /// Digest of a compiler's invocation → what it read and made
    /// ([`Manifest`](crate::kinds::Manifest)). Replaceable.
    Manifests = 8,
    /// Digest of bytes that a compiler wrote → these bytes.
    Captured = 9,
    /// A compiler's file → [`CompilerBody`](crate::kinds::CompilerBody).
    Compilers = 10,
    /// Digest of a definition's line table → the line table.
    LineTables = 11,
    /// Digest of a compilation → its types and line tables. Replaceable.
    DebugInformation = 12,
    /// Key of an image → where everything in it is. Replaceable.
    Placements = 13,
    /// Key of an image → which places of it refer to what. Replaceable.
    Referrers = 14,
    /// Digest of a part of what the two before have → that part.
    ImageParts = 15,
    /// Key of a record → the day of its last use ([`LastUseBody`](crate::kinds::LastUseBody)). Replaceable.
    LastUses = 16,
    /// BLAKE3 of a directory's absolute path → that tickets are looked for below it
    /// ([`PrefixBody`](crate::kinds::PrefixBody)). Replaceable.
    Prefixes = 17,
}

impl Index {
    /// All of them, by slot number.
    pub const ALL: [Index; 18] = [
        Index::Names,
        Index::Pieces,
        Index::Fragments,
        Index::Compilations,
        Index::Tickets,
        Index::Types,
        Index::Images,
        Index::Definitions,
        Index::Manifests,
        Index::Captured,
        Index::Compilers,
        Index::LineTables,
        Index::DebugInformation,
        Index::Placements,
        Index::Referrers,
        Index::ImageParts,
        Index::LastUses,
        Index::Prefixes,
    ];

    /// Its slot in the file.
    pub const fn slot(self) -> IndexSlot {
        IndexSlot(self as u8)
    }

    /// The index in this slot; `None` if this crate knows none there.
    pub fn at(slot: IndexSlot) -> Option<Index> {
        Index::ALL.get(usize::from(slot.number())).copied()
    }

    /// Whether a record may take the place of another one of its key. No strong reference leads to such a record.
    pub const fn is_replaceable(self) -> bool {
        matches!(
            self,
            Index::Tickets
                | Index::Images
                | Index::Definitions
                | Index::Manifests
                | Index::DebugInformation
                | Index::Placements
                | Index::Referrers
                | Index::LastUses
                | Index::Prefixes
        )
    }

    /// What its records are called, in the plural.
    pub const fn name(self) -> &'static str {
        match self {
            Index::Names => "names",
            Index::Pieces => "pieces",
            Index::Fragments => "fragments",
            Index::Compilations => "compilations",
            Index::Tickets => "tickets",
            Index::Types => "types",
            Index::Images => "images",
            Index::Definitions => "definitions",
            Index::Manifests => "manifests",
            Index::Captured => "captured",
            Index::Compilers => "compilers",
            Index::LineTables => "line tables",
            Index::DebugInformation => "debug information",
            Index::Placements => "placements",
            Index::Referrers => "referrers",
            Index::ImageParts => "image parts",
            Index::LastUses => "last uses",
            Index::Prefixes => "prefixes",
        }
    }
}

/// An index, for people: its number, and its name if it has one.
pub fn index_in_words(slot: IndexSlot) -> String {
    match Index::at(slot) {
        Some(index) => format!("index {slot} ({})", index.name()),
        None => format!("index {slot}"),
    }
}

/// Whether the records of an index are in envelopes: so are all of a kind that is not known.
pub fn has_envelopes(slot: IndexSlot) -> bool {
    slot == Index::Types.slot() || slot > Index::Images.slot()
}

/// Whether the elements of a vector are kept, in their places, by who does not know what they are.
pub fn has_kept_elements(slot: VectorSlot) -> bool {
    Vector::at(slot).is_none()
}

/// The dense vectors of a repository, by slot number. An element is an
/// [`Address`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Vector {
    /// [`NameId`] → address of the name's record.
    Names = 0,
    /// [`PieceId`](crate::ids::PieceId) → address of the piece's record.
    Pieces = 1,
}

impl Vector {
    /// All of them, by slot number.
    pub const ALL: [Vector; 2] = [Vector::Names, Vector::Pieces];

    /// Its slot in the file.
    pub const fn slot(self) -> VectorSlot {
        VectorSlot(self as u8)
    }

    /// The vector in this slot; `None` if this crate knows none there.
    pub fn at(slot: VectorSlot) -> Option<Vector> {
        Vector::ALL.get(usize::from(slot.number())).copied()
    }

    /// What its elements are called, in the plural.
    pub const fn name(self) -> &'static str {
        match self {
            Vector::Names => "names",
            Vector::Pieces => "pieces",
        }
    }
}

/// Head of an interned name's value; the name's bytes follow, without a
/// terminator. Names are byte strings: nothing says that they are UTF-8.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct NameHeader {
    /// The name's dense id.
    pub id: NameId,
}

/// Head of a compilation's value. After it come, in this order and each
/// aligned to 8: `member_count` × [`MemberRecord`], `symbol_count` ×
/// [`SymbolRecord`], `group_count` × [`GroupRecord`], `binding_count` × `u32`
/// symbol indices, `wide_count` × `u64`; and the [outline](crate::outline): `shape_count` ×
/// [`ShapeRecord`](crate::outline::ShapeRecord), `section_count` ×
/// [`PlacedSection`](crate::outline::PlacedSection), `piece_count` ×
/// [`PieceId`](crate::ids::PieceId), `binding_count` × `u8`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct CompilationHeader {
    /// Number of members.
    pub member_count: u32,
    /// Number of sections of all members together.
    pub section_count: u32,
    /// Number of symbols; symbol 0 is the null symbol, as in ELF.
    pub symbol_count: u32,
    /// Index of the first symbol that is not local.
    pub first_global: u32,
    /// Number of section groups.
    pub group_count: u32,
    /// Number of bindings of all members together.
    pub binding_count: u32,
    /// Number of 64-bit values for wide symbols.
    pub wide_count: u32,
    /// ELF `e_flags`.
    pub e_flags: u32,
    /// ELF `e_machine`.
    pub machine: u16,
    /// ELF `EI_OSABI`.
    pub os_abi: u8,
    /// ELF `EI_ABIVERSION`.
    pub abi_version: u8,
    /// [`CompilationHeader::ADDRSIG`].
    pub bits: u32,
    /// Number of shapes of sections.
    pub shape_count: u32,
    /// Number of pieces that all members together refer to.
    pub piece_count: u32,
    /// CRC-32 of the bytes of members, shapes, sections, pieces and uses, in this order: a linker trusts the
    /// outline without a look at the fragments.
    pub outline_crc: u32,
    /// Zero.
    pub reserved: u32,
}

impl CompilationHeader {
    /// The object said which symbols' addresses are significant; those without
    /// [`SymbolRecord::ADDRESS_SIGNIFICANT`] may share an address with others.
    pub const ADDRSIG: u32 = 1;

    /// Whether bindings are `u16`: that is so if all symbols have such an index.
    #[inline]
    pub fn has_short_bindings(&self) -> bool {
        self.symbol_count <= 1 << 16
    }
}

/// Head of the value of a compilation that is recorded as a difference to another one: SPEC.md, section 19, "Differences". Runs and patches
/// follow.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct DifferenceHeader {
    /// [`DifferenceHeader::MARKER`], where a whole compilation has its number of members.
    pub marker: u32,
    /// Zero.
    pub reserved: u32,
    /// Address of the base's record: a compilation that is recorded whole.
    pub base: Address,
    /// XXH3 of the value that the difference is of.
    pub check: u64,
    /// How that value begins.
    pub compilation: CompilationHeader,
}

impl DifferenceHeader {
    /// No compilation has so many members.
    pub const MARKER: u32 = u32::MAX;

    /// The check of the value that a difference is of.
    pub fn check_of(value: &[u8]) -> u64 {
        xxh3(value)
    }
}

/// Head of the value of a compilation that is recorded compressed: SPEC.md, section 19, "Compressed". One LZ4 block follows.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct CompressedCompilation {
    /// [`CompressedCompilation::MARKER`], where a whole compilation has its number of members.
    pub marker: u32,
    /// Zero.
    pub reserved: u32,
    /// How the value begins.
    pub compilation: CompilationHeader,
}

impl CompressedCompilation {
    /// No compilation has so many members. (`u32::MAX - 2` was the marker of another form, which is not read any more.)
    pub const MARKER: u32 = u32::MAX - 1;
}

/// One fragment as part of a compilation. Members stand in the order of their
/// first section in the object; sections are numbered through all members.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct MemberRecord {
    /// Address of the fragment's record.
    pub fragment: Address,
    /// Number of the member's first section within the compilation.
    pub first_section: u32,
    /// Index of the member's first binding; it has `bindable_count` of them.
    pub first_binding: u32,
    /// What the names of suffixed sections end in.
    pub suffix: NameId,
    /// 1 + index of the section group, or 0.
    pub group: u32,
    /// Number, among the pieces that the compilation lists, of the first one that the member refers to.
    pub first_piece: u32,
    /// [`MemberRecord::PLAIN`] and its like; without it, 0.
    pub bits: u32,
}

impl MemberRecord {
    /// The outline says all that its fixups ask of a linker: see [`crate::outline`].
    pub const PLAIN: u32 = 1;
    /// Some of its fixups are absolute addresses, which a linker must look at if the output can be
    /// loaded anywhere. Not counted are those that [`MemberRecord::WORDS_SHIFT`] is about.
    pub const ABSOLUTE: u32 = 2;
    /// The bits from this one on are the number of fixups of the first section that are
    /// `R_X86_64_64`.
    pub const WORDS_SHIFT: u32 = 8;
}

/// A symbol of a compilation, as in ELF's symbol table (gABI, "Symbol Table").
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct SymbolRecord {
    /// Its name.
    pub name: NameId,
    /// 1 + number of the defining section, or one of the `SECTION_` constants;
    /// with [`SymbolRecord::PIECE`], the [`PieceId`](crate::ids::PieceId).
    pub section: u32,
    /// Offset in the section; absolute value; alignment of a common symbol. If
    /// [`SymbolRecord::WIDE`]: index of two wide words, value and size.
    pub value: u32,
    /// Size in bytes.
    pub size: u32,
    /// ELF `st_info`: binding and type.
    pub info: u8,
    /// ELF `st_other`: visibility.
    pub other: u8,
    /// [`SymbolRecord::WIDE`] and its like.
    pub bits: u16,
}

impl SymbolRecord {
    /// Value and size are 64-bit words of the compilation's wide table.
    pub const WIDE: u16 = 1;
    /// A local symbol defined in a mergeable piece; `value` is its offset there.
    /// No binding is ever to such a symbol (fixups go to the piece itself), so it
    /// matters only to who writes a symbol table.
    pub const PIECE: u16 = 2;
    /// The symbol's address is compared or escapes (it is in the object's
    /// `SHT_LLVM_ADDRSIG`); says something only with [`CompilationHeader::ADDRSIG`].
    pub const ADDRESS_SIGNIFICANT: u16 = 4;
    /// An undefined symbol.
    pub const SECTION_UNDEFINED: u32 = 0;
    /// An absolute symbol.
    pub const SECTION_ABSOLUTE: u32 = 0xffff_fff1;
    /// A common symbol.
    pub const SECTION_COMMON: u32 = 0xffff_fff2;
}

/// A section group (gABI, "Section Groups").
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct GroupRecord {
    /// Name of the signature symbol.
    pub signature: NameId,
    /// `GRP_COMDAT` or 0.
    pub flags: u32,
}

/// Head of a piece's value; its bytes follow, to the value's end.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct PieceHeader {
    /// Name of the sections that pieces of this class come from, without suffixes.
    pub section_name: NameId,
    /// ELF `sh_flags`: `SHF_MERGE`, perhaps `SHF_STRINGS`, `SHF_ALLOC`, ….
    pub sh_flags: u32,
    /// The piece's dense id.
    pub id: crate::ids::PieceId,
    /// Size of an element (of a character, for strings), in bytes.
    pub entsize: u16,
    /// Alignment as a power of two.
    pub align_log2: u8,
    /// Zero.
    pub reserved: u8,
}

/// The key of a name in the repository of this UUID. It is no digest: names of equal keys are told apart by their bytes. The
/// UUID keeps whoever chooses names, but does not know the repository, from choosing many of one key.
#[inline]
pub fn name_key(uuid: &[u8; 16], name: &[u8]) -> Digest {
    short_key(seeded_xxh3(name, seed(uuid)))
}

/// Likewise of a piece; `header.id` does not matter.
#[inline]
pub fn piece_key(uuid: &[u8; 16], header: &PieceHeader, bytes: &[u8]) -> Digest {
    let header = PieceHeader {
        id: crate::ids::PieceId(0),
        ..*header
    };
    let class = seeded_xxh3(bytemuck::bytes_of(&header), seed(uuid));
    short_key(seeded_xxh3(bytes, class))
}

fn seed(uuid: &[u8; 16]) -> u64 {
    let (first, second) = uuid.split_at(8);
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u64::from(byte))
    };
    word(first) ^ word(second)
}

/// The key whose first eight bytes are a number, the most significant byte first.
fn short_key(number: u64) -> Digest {
    let mut key = Digest([0; 32]);
    key.0[..SHORT_KEY].copy_from_slice(&number.to_be_bytes());
    key
}

/// Head of a ticket file's record; the absolute path follows.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct TicketHeader {
    /// The compilation that the ticket named when it was written.
    pub compilation: Address,
    /// When, in nanoseconds since 1970.
    pub written: u64,
}

/// Head of a linked image's value. After it come, in this order and each
/// aligned to 8: the output's absolute path (`path_size` bytes), `input_count` ×
/// [`ImageInputRecord`].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct ImageHeader {
    /// Digest of the options that shape the output.
    pub options: crate::digest::Digest,
    /// When it was linked, in nanoseconds since 1970.
    pub written: u64,
    /// Size of the output file, bytes.
    pub output_size: u64,
    /// Number of bytes of the path.
    pub path_size: u32,
    /// Number of inputs.
    pub input_count: u32,
    /// Zero.
    pub reserved: [u32; 2],
}

/// One input of a link, in command-line order.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct ImageInputRecord {
    /// The compilation's record; zero for an input that is none (a shared
    /// object, a script).
    pub compilation: Address,
    /// Path of the file, `archive(member)` for a member of an archive.
    pub path: NameId,
    /// Zero.
    pub reserved: u32,
}

/// SPEC.md, part 2, gives these sizes and offsets.
#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn records_are_as_specified() {
        assert_eq!(size_of::<NameHeader>(), 4);

        assert_eq!(size_of::<PieceHeader>(), 16);
        assert_eq!(offset_of!(PieceHeader, align_log2), 14);
        assert_eq!(offset_of!(PieceHeader, id), 8);

        assert_eq!(size_of::<CompilationHeader>(), 56);
        assert_eq!(size_of::<DifferenceHeader>(), 80);
        assert_eq!(size_of::<CompressedCompilation>(), 64);
        assert_eq!(offset_of!(CompressedCompilation, compilation), 8);
        assert_eq!(offset_of!(DifferenceHeader, base), 8);
        assert_eq!(offset_of!(DifferenceHeader, check), 16);
        assert_eq!(offset_of!(DifferenceHeader, compilation), 24);
        assert_eq!(offset_of!(CompilationHeader, wide_count), 24);
        assert_eq!(offset_of!(CompilationHeader, machine), 32);
        assert_eq!(offset_of!(CompilationHeader, bits), 36);
        assert_eq!(offset_of!(CompilationHeader, piece_count), 44);
        assert_eq!(offset_of!(CompilationHeader, outline_crc), 48);
        assert_eq!(size_of::<MemberRecord>(), 32);
        assert_eq!(offset_of!(MemberRecord, suffix), 16);
        assert_eq!(offset_of!(MemberRecord, bits), 28);
        assert_eq!(size_of::<SymbolRecord>(), 20);
        assert_eq!(offset_of!(SymbolRecord, info), 16);
        assert_eq!(offset_of!(SymbolRecord, bits), 18);
        assert_eq!(size_of::<GroupRecord>(), 8);

        assert_eq!(size_of::<TicketHeader>(), 16);
        assert_eq!(size_of::<ImageHeader>(), 64);
        assert_eq!(size_of::<ImageInputRecord>(), 16);
    }

    #[test]
    fn kinds_and_slots_have_their_numbers() {
        assert_eq!(Index::Images.slot(), IndexSlot::of::<6>());
        assert_eq!(Vector::Pieces.slot(), VectorSlot::of::<1>());
        for (number, index) in (0..).zip(Index::ALL) {
            assert_eq!(index.slot().number(), number);
            assert_eq!(Index::at(index.slot()), Some(index));
        }
        assert_eq!(Index::Prefixes.slot(), IndexSlot::of::<17>());
        assert_eq!(Index::at(IndexSlot::of::<18>()), None);
        let in_envelopes: Vec<u8> = (IndexSlot::all().filter(|slot| has_envelopes(*slot)))
            .map(IndexSlot::number)
            .collect();
        assert_eq!(in_envelopes[..2], [5, 7]);
        assert_eq!(in_envelopes.len(), 18);
        assert!(!has_kept_elements(Vector::Pieces.slot()));
        assert!(has_kept_elements(VectorSlot::of::<2>()));
        assert_eq!(IndexSlot::new(24), None);
        assert_eq!(VectorSlot::new(8), None);
    }
}
