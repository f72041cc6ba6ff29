//! A compilation in memory, before it is in a repository.
//!
//! This is what a splitter makes of one object file and what
//! [`Repository::add`](super::Repository::add) takes. It is the records of
//! `format_spec::program` with three differences: names are byte strings that the
//! compilation numbers for itself ([`Name`]), anonymous fragments and pieces are
//! indices here instead of addresses and dense ids, and everything of one kind
//! stands in one array (struct of arrays, ranges instead of pointers), so that
//! making one costs a handful of allocations however many definitions it has.

use format_spec::fragment::{FixupRecord, SectionKind, TargetKind, WideFixupRecord};
use format_spec::program::SymbolRecord;
use std::borrow::Cow;
use std::ops::Range;

/// Index into [`Compilation::names`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Name(pub u32);

/// What one translation unit defined.
#[derive(Clone, Debug, Default)]
pub struct Compilation<'a> {
    /// ELF `e_machine`.
    pub machine: u16,
    /// ELF `EI_OSABI`.
    pub os_abi: u8,
    /// ELF `EI_ABIVERSION`.
    pub abi_version: u8,
    /// ELF `e_flags`.
    pub e_flags: u32,
    /// As in [`CompilationHeader`](format_spec::program::CompilationHeader).
    pub bits: u32,
    /// The names that occur; name 0 is the empty one.
    pub names: Vec<&'a [u8]>,
    /// The pieces that occur, each once.
    pub pieces: Vec<Piece<'a>>,
    /// The members, in the order of their first section.
    pub fragments: Vec<Fragment>,
    /// All fragments, such that a fragment stands after the anonymous ones that it refers to.
    pub digest_order: Vec<u32>,
    /// The sections of all fragments, one after another.
    pub sections: Vec<Section<'a>>,
    /// The targets of all fragments, one after another.
    pub targets: Vec<Target>,
    /// The bindings of all fragments, one after another: indices into `symbols`.
    pub bindings: Vec<u32>,
    /// How fixups use what each binding stands for, by binding: bits of [`usage`](format_spec::outline::usage); 0 in
    /// fragments that are not plain.
    pub uses: Vec<u8>,
    /// The narrow fixups of all sections.
    pub fixups: Vec<FixupRecord>,
    /// The wide fixups of all sections.
    pub wide_fixups: Vec<WideFixupRecord>,
    /// The symbol table; symbol 0 is the null symbol.
    pub symbols: Vec<Symbol>,
    /// Index of the first symbol that is not local.
    pub first_global: u32,
    /// The section groups.
    pub groups: Vec<Group>,
}

/// A mergeable string or constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece<'a> {
    /// As in [`PieceHeader`](format_spec::program::PieceHeader).
    pub section_name: Name,
    /// ELF `sh_flags`.
    pub sh_flags: u32,
    /// Bytes of an element.
    pub entsize: u32,
    /// Alignment as a power of two.
    pub align_log2: u8,
    /// The bytes, with a string's terminator.
    pub bytes: &'a [u8],
}

/// A fragment as a member of the compilation.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// Its sections within [`Compilation::sections`].
    pub sections: Range<u32>,
    /// Its targets within [`Compilation::targets`], bindable ones first.
    pub targets: Range<u32>,
    /// Its bindings within [`Compilation::bindings`], one for each bindable target.
    pub bindings: Range<u32>,
    /// What the names of its suffixed sections end in.
    pub suffix: Name,
    /// 1 + index of its group, or 0.
    pub group: u32,
    /// If it is a plain member: what the outline says of it.
    pub plain: Option<Plain>,
}

/// What is said of a member all of whose fixups [`usage`](format_spec::outline::usage) has a word for. SPEC.md, section 19,
/// says when one is plain; only who knows the object's relocations and instructions can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// Some fixups are absolute addresses, beside those that `words` counts.
    pub is_absolute: bool,
    /// Number of fixups of the first section that are 64-bit addresses; below 2^24.
    pub words: u32,
}

/// What is said of a section that is one frame description of the fragment's first section (SPEC.md, section 19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameDescription {
    /// Number, within [`Compilation::sections`], of the section with its CIE.
    pub cie: u32,
    /// Whether it points to an exception table of the same fragment.
    pub has_exception_table: bool,
}

/// Where the fixups of a section are.
#[derive(Clone, Debug)]
pub enum Fixups {
    /// In [`Compilation::fixups`].
    Narrow(Range<u32>),
    /// In [`Compilation::wide_fixups`].
    Wide(Range<u32>),
}

/// One section of a fragment; as [`SectionRecord`](format_spec::fragment::SectionRecord), which see.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    /// Section name, without suffix if `bits` says so.
    pub name: Name,
    /// What it is for.
    pub kind: SectionKind,
    /// ELF `sh_type`.
    pub sh_type: u32,
    /// ELF `sh_flags`, reduced as [`SectionRecord::sh_flags`](format_spec::fragment::SectionRecord::sh_flags) says.
    pub sh_flags: u32,
    /// ELF `sh_entsize`.
    pub entsize: u32,
    /// Alignment as a power of two.
    pub align_log2: u8,
    /// [`SectionRecord::SUFFIXED`](format_spec::fragment::SectionRecord::SUFFIXED), `CIE`, `WHOLE_UNWIND`. (What form the
    /// fixups have, and whether there is an extension, is found out when it is recorded.)
    pub bits: u8,
    /// 1 + index of the fragment's target that `sh_link` names, or 0.
    pub link: u32,
    /// Size in memory.
    pub size: u64,
    /// The bytes; empty for `SHT_NOBITS`.
    pub bytes: Cow<'a, [u8]>,
    /// The relocations, in ascending order of their offsets.
    pub fixups: Fixups,
    /// If it is one frame description: which.
    pub frame: Option<FrameDescription>,
}

/// What fixups refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// [`TargetKind::Global`].
    Global(Name),
    /// [`TargetKind::Local`].
    Local(Name),
    /// [`TargetKind::OwnNamed`].
    OwnNamed(Name),
    /// [`TargetKind::OwnAnonymous`]: index into [`Compilation::fragments`].
    OwnAnonymous(u32),
    /// [`TargetKind::Section`]: index among the fragment's own sections.
    Section(u32),
    /// [`TargetKind::Piece`]: index into [`Compilation::pieces`].
    Piece(u32),
}

impl Target {
    /// The kind as it is recorded.
    pub fn kind(self) -> TargetKind {
        match self {
            Target::Global(_) => TargetKind::Global,
            Target::Local(_) => TargetKind::Local,
            Target::OwnNamed(_) => TargetKind::OwnNamed,
            Target::OwnAnonymous(_) => TargetKind::OwnAnonymous,
            Target::Section(_) => TargetKind::Section,
            Target::Piece(_) => TargetKind::Piece,
        }
    }

    /// Whether the compilation binds it to a symbol.
    pub fn is_bindable(self) -> bool {
        !matches!(self, Target::Section(_) | Target::Piece(_))
    }
}

/// Where a symbol is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere here.
    Undefined,
    /// It is a number.
    Absolute,
    /// A common symbol: its value is its alignment.
    Common,
    /// In a section, by its number within [`Compilation::sections`].
    Section(u32),
    /// In a piece (only local symbols), by index into [`Compilation::pieces`].
    Piece(u32),
}

/// A symbol, as in ELF.
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    /// Its name.
    pub name: Name,
    /// Where it is defined.
    pub place: Place,
    /// Offset in the section or piece; number; alignment.
    pub value: u64,
    /// Size in bytes.
    pub size: u64,
    /// ELF `st_info`.
    pub info: u8,
    /// ELF `st_other`.
    pub other: u8,
    /// [`SymbolRecord::ADDRESS_SIGNIFICANT`] or 0; the other bits follow from `place`
    /// and the numbers.
    pub bits: u16,
}

impl Symbol {
    /// The `section` field of the record, for all but symbols in pieces.
    pub fn section_field(&self) -> u32 {
        match self.place {
            Place::Undefined => SymbolRecord::SECTION_UNDEFINED,
            Place::Absolute => SymbolRecord::SECTION_ABSOLUTE,
            Place::Common => SymbolRecord::SECTION_COMMON,
            Place::Section(number) => number + 1,
            Place::Piece(_) => 0,
        }
    }
}

/// A section group.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Name of the signature symbol.
    pub signature: Name,
    /// `GRP_COMDAT` or 0.
    pub flags: u32,
}

impl<'a> Compilation<'a> {
    /// The bytes of a name.
    ///
    /// # Panics
    /// If `name` is not one of this compilation's.
    pub fn name(&self, name: Name) -> &'a [u8] {
        self.names[name.0 as usize]
    }

    /// The bytes of a section's fixups.
    pub fn fixup_bytes(&self, section: &Section<'_>) -> &[u8] {
        match &section.fixups {
            Fixups::Narrow(range) => {
                bytemuck::cast_slice(&self.fixups[range.start as usize..range.end as usize])
            }
            Fixups::Wide(range) => {
                bytemuck::cast_slice(&self.wide_fixups[range.start as usize..range.end as usize])
            }
        }
    }
}
