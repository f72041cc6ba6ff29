//! What relocatable inputs consist of, whether they are ELF files or compilations of a repository: sections, symbols,
//! fixups, groups.

use crate::elf::{Rela, c};
use format_spec::fragment::FIXUP_CIE;
use format_spec::ids::{NameId, PieceId};
use std::ops::Range;
use store::program::Bindings;

/// Where a symbol is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Somewhere else.
    Undefined,
    /// Nowhere: its value is a number.
    Absolute,
    /// A common block; the value is its alignment.
    Common,
    /// In the section of this number.
    Section(u32),
}

/// A common block of the medium code model that is too large for others' reach (psABI, "Special Section Indexes"). Here
/// it goes where all do, and the largest go last.
pub(super) const SHN_X86_64_LCOMMON: u16 = 0xff02;

/// Section numbers from here on stand for reserved indices (gABI, "Special Section Indexes") that are none of
/// [`Place`]'s others: no file has so many sections, so that whoever looks for one of them says that it does not exist.
pub(super) const RESERVED_SECTION: u32 = 0xffff_0000;

/// A section of this number, for a message that says that it does not exist.
pub fn describe_missing(number: u32) -> String {
    match number.checked_sub(RESERVED_SECTION) {
        None => format!("section {number}, which does not exist"),
        Some(index) => {
            format!("a section of the reserved index {index:#x}, which is not supported")
        }
    }
}

/// A symbol of one input, without its name.
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    /// Where it is defined.
    pub place: Place,
    /// Offset in the section, or as [`Place`] says.
    pub value: u64,
    /// Size in bytes.
    pub size: u64,
    /// Binding and type, as in ELF's `st_info`.
    pub info: u8,
    /// Visibility, as in ELF's `st_other`.
    pub other: u8,
}

impl Symbol {
    /// `STB_*`.
    #[inline]
    pub fn binding(&self) -> u8 {
        self.info >> 4
    }
    /// `STT_*`.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.info & 15
    }
    /// `STB_WEAK`.
    #[inline]
    pub fn is_weak(&self) -> bool {
        self.binding() == c::STB_WEAK
    }
}

/// What is known of a section without looking at its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// Name, without a suffix that a member of a compilation may add.
    pub name: &'a [u8],
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// Size in memory, bytes (when expanded, if compressed).
    pub size: u64,
    /// Alignment in bytes, a power of two.
    pub align: u64,
    /// Size of an element.
    pub entsize: u64,
    /// For `SHF_LINK_ORDER`: the section it describes.
    pub link: u32,
}

/// The number of a repository among those that the link reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepositoryId(pub u32);

/// A mergeable piece of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The repository.
    pub repository: RepositoryId,
    /// The piece's dense id there.
    pub id: u32,
}

/// What a fixup refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The symbol of this index in the same input.
    Symbol(u32),
    /// The start of the section of this number in the same input.
    Section(u32),
    /// The mergeable piece of this id in the input's repository.
    Piece(u32),
}

/// What is done with the fixups of a section, in order. Each form of fixups has its own loop, of which every instruction
/// counts: these are methods because, unlike closures, they can be asked to be inlined into all of them.
pub trait FixupLoop {
    /// Called some fixups before [`FixupLoop::each`] with what that one refers to, if it is worth being fetched.
    fn ahead(&mut self, target: Target);
    /// Called with each.
    fn each(&mut self, fixup: Fixup);
}

/// Whether a fixup is the CIE pointer of an FDE.
pub fn is_cie_pointer(fixup: &Fixup) -> bool {
    fixup.r_type == FIXUP_CIE
}

/// A section that is one FDE about the first section of its fragment.
pub struct OneFde {
    /// The section that it is about.
    pub describes: u32,
    /// The section with its CIE.
    pub cie: u32,
    /// Its size in bytes, which is the section's.
    pub size: u32,
    /// Number of its fixups: the CIE pointer, the code's address, perhaps the exception table's.
    pub fixups: u32,
}

/// All that the fixups of a definition, and of what is its own, ask for.
pub struct PlainMember<'a> {
    /// Its index.
    pub member: u32,
    /// The symbols that they refer to.
    pub bindings: Bindings<'a>,
    /// How each of them is used: [`usage`](format_spec::outline::usage).
    pub uses: &'a [u8],
    /// The pieces that they refer to.
    pub pieces: &'a [PieceId],
    /// How many fixups of the definition are addresses in words of 64 bits.
    pub words: u32,
    /// Some other fixups are absolute addresses.
    pub has_absolute: bool,
    /// The sections that come after the definition.
    pub rest: Range<u32>,
}

/// What a section with frame descriptions holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwind {
    /// CIEs and FDEs, as `.eh_frame` of an ELF object.
    Whole,
    /// One CIE.
    Cie,
    /// FDEs, whose CIE pointers have fixups.
    Fdes,
}

/// A relocation of either source.
#[derive(Clone, Copy, Debug)]
pub struct Fixup {
    /// Offset of the place in its section.
    pub offset: u64,
    /// Constant addend.
    pub addend: i64,
    /// `R_X86_64_*`.
    pub r_type: u32,
    /// What is referred to.
    pub target: Target,
}

impl From<&Rela> for Fixup {
    #[inline(always)]
    fn from(rela: &Rela) -> Fixup {
        Fixup {
            offset: rela.r_offset,
            addend: rela.r_addend,
            r_type: rela.r_type(),
            target: Target::Symbol(rela.symbol()),
        }
    }
}

/// A section group (gABI, "Section Groups").
pub struct Group<'a> {
    /// What [`Object::sections_of_groups`] knows it by.
    pub index: u32,
    /// Its signature.
    pub signature: Signature<'a>,
    /// Only one group of the name is linked.
    pub comdat: bool,
}

/// The name of a group, in the cheapest form that the input has.
#[derive(Clone, Copy)]
pub enum Signature<'a> {
    /// That of a global symbol of the same input.
    Symbol(u32),
    /// A name of the input's repository.
    Name(NameId),
    /// Any.
    Text(&'a [u8]),
}
