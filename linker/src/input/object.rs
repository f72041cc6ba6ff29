//! The model of a linker input: definitions with sections and fixups.
//!
//! There are two sources, an ELF relocatable object and a compilation of the
//! repository; both are borrowed from their mappings. Only this folder knows which
//! one it is: the phases after reading use the methods of [`Object`] and [`Fixups`].
//! What a source does not have is nothing there: an ELF object has no members, pieces
//! or shapes, a compilation no relocation sections.
//!
//! Of a compilation much is known without opening its fragments, from its *outline*
//! (SPEC.md, section 19). For a member the outline may say all that its fixups ask for
//! ([`Object::plain`]); where it does not, as for ELF objects, the fixups are
//! read. To make outlines for ELF objects when they are opened would be to read all their relocations
//! twice in a full link; what an incremental link needs of them is kept beside the output instead.

use crate::elf::{self, Rela, c};
use crate::input::elf_object::{ElfObject, Malformed};
use crate::input::parts::{
    Fixup, FixupLoop, Group, OneFde, Piece, Place, PlainMember, RESERVED_SECTION, RepositoryId,
    SHN_X86_64_LCOMMON, Section, Signature, Symbol, Target, Unwind,
};
use crate::input::ticket_object::{StoredSection, TicketFixups, TicketObject};
use format_spec::fragment::FixupRecord;
use format_spec::ids::{NameId, PieceId};
use std::borrow::Cow;
use std::ops::Range;
use store::program::{ProgramError, Programs};

/// What a fixup refers to, within its input.
#[derive(Clone, Copy)]
pub enum Referent {
    /// The global symbol of this index in the input's table.
    Global(u32),
    /// A place in one of the input's sections.
    Place {
        /// The section's number.
        section: u32,
        /// Where in it.
        offset: u64,
        /// `STT_*` of the symbol: `STT_SECTION` if the section itself is meant, in which the addend chooses the place.
        kind: u8,
    },
    /// A mergeable piece of the input's repository.
    Piece(Piece),
    /// A number.
    Absolute {
        /// It.
        value: u64,
        /// `STT_*` of the symbol.
        kind: u8,
    },
    /// Nothing: the addend is all.
    Null,
    /// What is not there.
    Missing(Missing),
}

/// Why a fixup refers to nothing.
#[derive(Clone, Copy, Debug)]
pub enum Missing {
    /// There is no symbol of this index.
    Index(u32),
    /// The symbol of this index is not defined in the input.
    Definition(u32),
    /// There are no pieces, so there is none of this id.
    Piece(u32),
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Missing::Index(index) => write!(f, "symbol index {index} is not in the symbol table"),
            Missing::Definition(index) => write!(f, "local symbol {index} is not defined"),
            Missing::Piece(id) => write!(f, "piece {id} does not exist"),
        }
    }
}

/// The fixups of one section.
#[derive(Clone, Copy)]
pub struct Fixups<'a>(Form<'a>);

#[derive(Clone, Copy)]
enum Form<'a> {
    /// Of an ELF object.
    Elf(&'a [Rela]),
    /// Of a compilation.
    Ticket(TicketFixups<'a>),
}

impl<'a> Fixups<'a> {
    /// Those that a relocation section of an ELF object has.
    #[cfg(test)]
    pub fn of_elf(relas: &'a [Rela]) -> Fixups<'a> {
        Fixups(Form::Elf(relas))
    }

    /// Calls `f` with each, in order.
    #[inline(always)]
    pub fn for_each(self, mut f: impl FnMut(Fixup)) {
        match self.0 {
            Form::Elf(relas) => {
                for rela in relas {
                    f(Fixup::from(rela));
                }
            }
            Form::Ticket(fixups) => fixups.for_each(f),
        }
    }

    /// The same for loops of which every instruction counts. What the fixups of a compilation refer to is scattered: of each,
    /// `all` is told the target, `distance` fixups before. What ELF's relocations refer to is found in fewer steps; there
    /// the processor is ahead by itself, and fetching costs time.
    #[inline(always)]
    pub fn for_each_ahead(self, distance: usize, all: &mut impl FixupLoop) {
        match self.0 {
            Form::Elf(relas) => {
                for rela in relas {
                    all.each(Fixup::from(rela));
                }
            }
            Form::Ticket(fixups) => fixups.for_each_ahead(distance, all),
        }
    }

    /// The same for fixups that are mostly about pieces. Those of a compilation that are go to `piece`, with the piece's
    /// dense id, which says whether that was all; `rest` gets all others. Both get what the fixups are applied `to`.
    #[inline(always)]
    pub fn for_each_piece<T: ?Sized>(
        self,
        to: &mut T,
        distance: usize,
        later: impl FnMut(Target),
        piece: impl FnMut(&mut T, &FixupRecord, u32) -> bool,
        mut rest: impl FnMut(&mut T, Fixup),
    ) {
        match self.0 {
            Form::Elf(_) => self.for_each(|fixup| rest(to, fixup)),
            Form::Ticket(fixups) => fixups.for_each_piece(to, distance, later, piece, rest),
        }
    }

    /// Calls `f` with the first `count` targets, if they are worth fetching before [`Fixups::for_each_ahead`] begins.
    #[inline(always)]
    pub fn first_targets(self, count: usize, f: impl FnMut(Target)) {
        if let Form::Ticket(fixups) = self.0 {
            (0..count)
                .map_while(|index| fixups.target(index))
                .for_each(f);
        }
    }

    /// How many there are.
    pub fn len(self) -> usize {
        match self.0 {
            Form::Elf(relas) => relas.len(),
            Form::Ticket(fixups) => fixups.len(),
        }
    }

    /// The fixup of this index.
    pub fn get(self, index: usize) -> Option<Fixup> {
        match self.0 {
            Form::Elf(relas) => relas.get(index).map(Fixup::from),
            Form::Ticket(fixups) => fixups.get(index),
        }
    }

    /// The fixups from index `start` up to and without `end`.
    pub fn slice(self, start: usize, end: usize) -> Self {
        Fixups(match self.0 {
            Form::Elf(relas) => Form::Elf(relas.get(start..end).unwrap_or(&[])),
            Form::Ticket(fixups) => Form::Ticket(fixups.slice(start, end)),
        })
    }

    /// Puts zeros where bytes that were copied from `start` of the section on have parts of the fixups themselves.
    pub fn clear_places(self, start: u64, bytes: &mut [u8]) {
        if let Form::Ticket(fixups) = self.0 {
            fixups.clear_places(start, bytes);
        }
    }
}

/// A relocatable input.
pub struct Object<'a>(pub(super) Source<'a>);

/// Where an input comes from.
pub(super) enum Source<'a> {
    /// An ELF file or archive member.
    Elf(ElfObject<'a>),
    /// A compilation that a ticket names.
    Ticket(TicketObject<'a>),
}

impl<'a> From<ElfObject<'a>> for Object<'a> {
    fn from(elf: ElfObject<'a>) -> Self {
        Object(Source::Elf(elf))
    }
}

impl<'a> From<TicketObject<'a>> for Object<'a> {
    fn from(ticket: TicketObject<'a>) -> Self {
        Object(Source::Ticket(ticket))
    }
}

/// The repository of a compilation.
#[derive(Clone, Copy)]
pub struct Repository<'a> {
    /// Its number among those of the link.
    pub id: RepositoryId,
    /// What it holds.
    pub programs: Programs<'a>,
}

/// What of a section will be needed soon ([`Object::fetch`]). Each is found by the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Soon {
    /// What is known of the section.
    Section,
    /// The same of its member.
    Member,
    /// What its member refers to.
    References,
    /// Its bytes and fixups.
    Contents,
}

/// A section as its file stores it.
pub struct Stored<'f> {
    /// How many bytes it has.
    pub size: usize,
    /// As many bytes as it has, or none. Those of a compilation are not always the section's: see [`Object::copy`].
    pub bytes: &'f [u8],
    /// Its fixups.
    pub fixups: Fixups<'f>,
    section: Option<StoredSection<'f>>,
}

impl<'a> Object<'a> {
    /// Number of symbols, the null symbol included.
    #[inline]
    pub fn symbol_count(&self) -> u32 {
        match &self.0 {
            Source::Elf(elf) => elf.syms.len() as u32,
            Source::Ticket(ticket) => ticket.symbol_count(),
        }
    }

    /// Index of the first symbol that is not local.
    #[inline]
    pub fn first_global(&self) -> u32 {
        match &self.0 {
            Source::Elf(elf) => elf.first_global,
            Source::Ticket(ticket) => ticket.first_global(),
        }
    }

    /// The symbol of an index.
    #[inline]
    pub fn symbol(&self, index: u32) -> Option<Symbol> {
        match &self.0 {
            Source::Ticket(ticket) => ticket.symbol(index),
            Source::Elf(elf) => {
                let sym = elf.syms.get(index as usize)?;
                let place = match { sym.st_shndx } {
                    c::SHN_UNDEF => Place::Undefined,
                    c::SHN_ABS => Place::Absolute,
                    // A local symbol has no common block: who refers to it is told that it is not defined.
                    c::SHN_COMMON | SHN_X86_64_LCOMMON if index < elf.first_global => {
                        Place::Undefined
                    }
                    c::SHN_COMMON | SHN_X86_64_LCOMMON => Place::Common,
                    c::SHN_XINDEX => Place::Section(elf.extended_index(index)),
                    n if n >= c::SHN_LORESERVE => Place::Section(RESERVED_SECTION | u32::from(n)),
                    n => Place::Section(n.into()),
                };
                Some(Symbol {
                    place,
                    value: sym.st_value,
                    size: sym.st_size,
                    info: sym.st_info,
                    other: sym.st_other,
                })
            }
        }
    }

    /// A symbol's name (empty if it has none).
    #[inline]
    pub fn symbol_name(&self, index: u32) -> &'a [u8] {
        match &self.0 {
            Source::Ticket(ticket) => ticket.symbol_name(index),
            Source::Elf(elf) => elf
                .syms
                .get(index as usize)
                .and_then(|sym| elf::string(elf.strtab, sym.st_name))
                .unwrap_or(b""),
        }
    }

    /// Number of sections; section 0 is the null section.
    #[inline]
    pub fn section_count(&self) -> u32 {
        match &self.0 {
            Source::Elf(elf) => elf.shdrs.len() as u32,
            Source::Ticket(ticket) => ticket.section_count(),
        }
    }

    /// What is known of a section.
    #[inline]
    pub fn section(&self, number: u32) -> Option<Section<'a>> {
        match &self.0 {
            Source::Ticket(ticket) => ticket.section(number),
            Source::Elf(elf) => {
                let shdr = elf.shdrs.get(number as usize)?;
                let (size, align) = elf.extent(number, shdr);
                Some(Section {
                    name: elf.section_name(shdr),
                    sh_type: shdr.sh_type,
                    flags: { shdr.sh_flags } & !u64::from(c::SHF_COMPRESSED),
                    size,
                    align,
                    entsize: shdr.sh_entsize,
                    link: shdr.sh_link,
                })
            }
        }
    }

    /// Has the processor fetch what will be read of a section's name to see what kind it is.
    #[inline]
    pub fn prefetch_name(&self, number: u32) {
        if let Source::Elf(elf) = &self.0 {
            elf.prefetch_name(number);
        }
    }

    /// Size of a section in memory, and its alignment, which is a power of two, both in bytes.
    #[inline]
    pub fn extent(&self, number: u32) -> Option<(u64, u64)> {
        match &self.0 {
            Source::Ticket(ticket) => ticket.extent(number),
            Source::Elf(elf) => Some(elf.extent(number, elf.shdrs.get(number as usize)?)),
        }
    }

    /// A section's bytes; empty for `SHT_NOBITS`.
    #[inline]
    pub fn section_bytes(&self, number: u32) -> &[u8] {
        match &self.0 {
            Source::Elf(elf) => elf.section_bytes(number),
            Source::Ticket(ticket) => ticket.section_bytes(number),
        }
    }

    /// A section's bytes, but for the places of its fixups, where anything may be.
    #[inline]
    pub fn bytes_beside_fixups(&self, number: u32) -> &[u8] {
        match &self.0 {
            Source::Elf(elf) => elf.section_bytes(number),
            Source::Ticket(ticket) => ticket.bytes_beside_fixups(number),
        }
    }

    /// The name that a section has in an object file, which for those of a compilation is longer than
    /// [`Section::name`]: `.text.f`.
    pub fn full_name(&self, number: u32, section: &Section<'a>) -> Cow<'a, [u8]> {
        let suffix = match &self.0 {
            Source::Elf(_) => None,
            Source::Ticket(ticket) => ticket.suffix(number),
        };
        match suffix {
            None => Cow::Borrowed(section.name),
            Some(suffix) => Cow::Owned([section.name, b".", suffix].concat()),
        }
    }

    /// The fixups of a section. `relocations` is what [`Object::relocation_section`] found for it.
    #[inline]
    pub fn fixups(&self, number: u32, relocations: u32) -> Fixups<'_> {
        match &self.0 {
            Source::Ticket(ticket) => Fixups(Form::Ticket(ticket.fixups(number))),
            Source::Elf(elf) if relocations != 0 => Fixups(Form::Elf(elf.relocations(relocations))),
            Source::Elf(_) => Fixups(Form::Elf(&[])),
        }
    }

    /// What a fixup refers to: of a global symbol, which it is. What that means is decided by all inputs together.
    #[inline(always)]
    pub fn referent(&self, target: Target) -> Referent {
        match target {
            Target::Symbol(index) if index >= self.first_global() => {
                match index < self.symbol_count() {
                    true => Referent::Global(index),
                    false => Referent::Missing(Missing::Index(index)),
                }
            }
            target => self.own_referent(target),
        }
    }

    /// As [`Object::referent`], but of a global symbol what this input has, whatever other definition may win.
    #[inline(always)]
    pub fn own_referent(&self, target: Target) -> Referent {
        let index = match target {
            Target::Section(section) => {
                return Referent::Place {
                    section,
                    offset: 0,
                    kind: c::STT_SECTION,
                };
            }
            Target::Piece(id) => {
                return match &self.0 {
                    Source::Ticket(ticket) => Referent::Piece(Piece {
                        repository: ticket.repository,
                        id,
                    }),
                    Source::Elf(_) => Referent::Missing(Missing::Piece(id)),
                };
            }
            Target::Symbol(0) => return Referent::Null,
            Target::Symbol(index) => index,
        };
        let Some(symbol) = self.symbol(index) else {
            return Referent::Missing(Missing::Index(index));
        };
        match symbol.place {
            Place::Section(section) => Referent::Place {
                section,
                offset: symbol.value,
                kind: symbol.kind(),
            },
            Place::Absolute => Referent::Absolute {
                value: symbol.value,
                kind: symbol.kind(),
            },
            Place::Undefined | Place::Common => Referent::Missing(Missing::Definition(index)),
        }
    }

    /// The section that a fixup's target is in, and its offset there: as this input has it, whatever other definition may
    /// win. `None` if it is in no section of this input.
    #[inline]
    pub fn place_of(&self, target: Target) -> Option<(u32, u64)> {
        match self.own_referent(target) {
            Referent::Place {
                section, offset, ..
            } => Some((section, offset)),
            _ => None,
        }
    }

    /// A section's bytes and its fixups, as [`Object::section_bytes`] and [`Object::fixups`] give them.
    #[inline]
    pub fn contents(&self, number: u32, relocations: u32) -> (&[u8], Fixups<'_>) {
        match &self.0 {
            Source::Elf(elf) => (elf.section_bytes(number), self.fixups(number, relocations)),
            Source::Ticket(ticket) => {
                let (bytes, fixups) = ticket.contents(number);
                (bytes, Fixups(Form::Ticket(fixups)))
            }
        }
    }

    /// Compares a section's bytes with their check, where they have one, unless that has been done.
    #[inline]
    pub fn check(&self, number: u32) {
        if let Source::Ticket(ticket) = &self.0 {
            ticket.check(number);
        }
    }

    /// A section as it is stored, for who [copies](Object::copy) it at once and calls [`Object::check`] then.
    #[inline]
    pub fn stored(&self, number: u32, relocations: u32) -> Stored<'_> {
        match &self.0 {
            Source::Elf(elf) => Stored {
                size: elf.section_bytes(number).len(),
                bytes: elf.section_bytes(number),
                fixups: self.fixups(number, relocations),
                section: None,
            },
            Source::Ticket(ticket) => {
                let section = ticket.stored(number);
                Stored {
                    size: section.size(),
                    bytes: section.bytes(),
                    fixups: Fixups(Form::Ticket(section.fixups)),
                    section: Some(section),
                }
            }
        }
    }

    /// Copies the bytes of the section with this number, of which this is what is stored, to `out`, which has as many.
    /// Returns the fixups, for which `unpacked` may be needed.
    #[inline]
    pub fn copy<'u>(
        &self,
        number: u32,
        stored: &Stored<'u>,
        out: &mut [u8],
        unpacked: &'u mut Vec<FixupRecord>,
    ) -> Fixups<'u> {
        match (&self.0, &stored.section) {
            (Source::Ticket(ticket), Some(section)) => {
                Fixups(Form::Ticket(ticket.copy(number, section, out, unpacked)))
            }
            _ => {
                out.copy_from_slice(stored.bytes);
                stored.fixups
            }
        }
    }

    /// If `number` is a relocation section: the section whose fixups it holds.
    #[inline]
    pub fn relocation_section(&self, number: u32) -> Result<Option<u32>, Malformed> {
        match &self.0 {
            Source::Ticket(_) => Ok(None),
            Source::Elf(elf) => {
                let Some(shdr) = elf.shdrs.get(number as usize) else {
                    return Ok(None);
                };
                match shdr.sh_type {
                    c::SHT_RELA | c::SHT_CREL if (shdr.sh_info as usize) < elf.shdrs.len() => {
                        Ok(Some(shdr.sh_info))
                    }
                    c::SHT_RELA | c::SHT_CREL => Err(Malformed::Value {
                        what: "target of a relocation section",
                        value: { shdr.sh_info }.into(),
                    }),
                    // clang's lists of call counts come so. They are hints, and not linked.
                    c::SHT_REL if is_excluded(elf.shdrs, shdr.sh_info) => Ok(None),
                    c::SHT_REL => Err(Malformed::Incompatible(format!(
                        "section {number} has relocations without addends (SHT_REL), which x86-64 does not use"
                    ))),
                    _ => Ok(None),
                }
            }
        }
    }

    /// If fixups stand in section `number`: the section that they are about, and what [`Object::fixups`] needs beside it.
    ///
    /// # Errors
    /// If `number` is a relocation section that cannot be linked.
    pub fn fixups_in(&self, number: u32) -> Result<Option<(u32, u32)>, Malformed> {
        match &self.0 {
            Source::Ticket(_) => Ok(Some((number, 0))),
            Source::Elf(_) => {
                let section = self.relocation_section(number)?;
                Ok(section.map(|section| (section, number)))
            }
        }
    }

    /// Whether a section's fixups are its own, not in a relocation section.
    #[inline]
    pub fn has_own_fixups(&self, number: u32) -> bool {
        match &self.0 {
            Source::Elf(_) => false,
            Source::Ticket(ticket) => ticket.has_fixups(number),
        }
    }

    /// What an `.eh_frame` section holds.
    pub fn unwind(&self, number: u32) -> Unwind {
        match &self.0 {
            Source::Elf(_) => Unwind::Whole,
            Source::Ticket(ticket) => ticket.unwind(number),
        }
    }

    /// Whether what nothing refers to is left out in any case.
    pub fn is_pruned(&self) -> bool {
        matches!(self.0, Source::Ticket(_))
    }

    /// Whether what the fixups ask for is taken from an outline where it says it, so that who applies them may find what
    /// nobody has seen before: the outline of a damaged repository may lie.
    pub fn is_outlined(&self) -> bool {
        matches!(self.0, Source::Ticket(_))
    }

    /// Whether a ticket stands for it, for who tells or counts that.
    pub fn is_ticket(&self) -> bool {
        matches!(self.0, Source::Ticket(_))
    }

    /// Makes known what only inputs that are linked need: expands compressed sections, opens fragments. The sections of the
    /// groups with the indices `lost` are passed over, as if they did not exist.
    ///
    /// # Errors
    /// If the object or the repository is damaged.
    pub fn complete(&mut self, lost: &[u32]) -> Result<(), Malformed> {
        match &mut self.0 {
            Source::Elf(elf) => elf.expand(),
            Source::Ticket(ticket) => Ok(ticket.load(lost)?),
        }
    }

    /// As [`Object::complete`] without lost groups, for who does not look at the bytes of sections.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn complete_sections(&mut self) -> Result<(), Malformed> {
        match &mut self.0 {
            Source::Elf(_) => Ok(()),
            Source::Ticket(ticket) => Ok(ticket.load(&[])?),
        }
    }

    /// The damage of the repository that an accessor came upon which cannot report it.
    pub fn damage(&self) -> Option<&ProgramError> {
        match &self.0 {
            Source::Elf(_) => None,
            Source::Ticket(ticket) => ticket.damage(),
        }
    }

    /// A ticket's compilation as an ELF object again; `None` if it is one.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn materialize(&self) -> Option<Result<Vec<u8>, Malformed>> {
        match &self.0 {
            Source::Elf(_) => None,
            Source::Ticket(ticket) => Some(ticket.join()),
        }
    }

    /// The file, if it holds a compiler's intermediate code, for link-time optimisation.
    pub fn intermediate_code(&self) -> Option<&'a [u8]> {
        match &self.0 {
            Source::Elf(elf) if elf.intermediate => Some(elf.data),
            _ => None,
        }
    }

    /// `EI_OSABI` of its file: 0 if it has none.
    pub fn os_abi(&self) -> u8 {
        match &self.0 {
            Source::Elf(elf) => elf.data.get(elf::EI_OSABI as usize).copied().unwrap_or(0),
            Source::Ticket(_) => 0,
        }
    }

    /// The symbols whose addresses are looked at, as the object says by itself (`.llvm_addrsig`). `None` if it does not.
    pub fn address_significant(&self) -> Option<Vec<u32>> {
        match &self.0 {
            Source::Elf(elf) => elf.address_significant(),
            Source::Ticket(_) => None,
        }
    }

    /// The repository that has the names and pieces which this input refers to by their dense ids.
    #[inline]
    pub fn repository(&self) -> Option<Repository<'a>> {
        match &self.0 {
            Source::Elf(_) => None,
            Source::Ticket(ticket) => Some(Repository {
                id: ticket.repository,
                programs: ticket.programs(),
            }),
        }
    }

    /// The dense ids, in its repository, of the names of the symbols that are not local.
    #[inline]
    pub fn global_names(&self) -> impl Iterator<Item = NameId> {
        let records = match &self.0 {
            Source::Elf(_) => &[],
            Source::Ticket(ticket) => ticket.globals(),
        };
        records.iter().map(|record| record.name)
    }

    /// Number of members: definitions with what is their own.
    #[inline]
    pub fn member_count(&self) -> u32 {
        match &self.0 {
            Source::Elf(_) => 0,
            Source::Ticket(ticket) => ticket.member_count(),
        }
    }

    /// Index of the member that a section belongs to.
    #[inline]
    pub fn member_of(&self, number: u32) -> Option<u32> {
        match &self.0 {
            Source::Elf(_) => None,
            Source::Ticket(ticket) => ticket.member_of(number),
        }
    }

    /// The numbers of a member's sections. `member` must be below [`Object::member_count`].
    #[inline]
    pub fn sections_of(&self, member: u32) -> Range<u32> {
        match &self.0 {
            Source::Elf(_) => 0..0,
            Source::Ticket(ticket) => ticket.sections_of(member),
        }
    }

    /// The pieces that a member refers to. `member` must be below [`Object::member_count`].
    #[inline]
    pub fn pieces_of(&self, member: u32) -> &'a [PieceId] {
        match &self.0 {
            Source::Elf(_) => &[],
            Source::Ticket(ticket) => ticket.pieces_of(member),
        }
    }

    /// All that a definition's fixups ask for, and those of what is its own, if this is known without reading them.
    #[inline]
    pub fn plain(&self, number: u32) -> Option<PlainMember<'a>> {
        match &self.0 {
            Source::Elf(_) => None,
            Source::Ticket(ticket) => ticket.plain(number),
        }
    }

    /// What is known, without opening it, of a section that is one FDE.
    pub fn one_fde(&self, number: u32) -> Option<OneFde> {
        match &self.0 {
            Source::Elf(_) => None,
            Source::Ticket(ticket) => ticket.one_fde(number),
        }
    }

    /// Number of the shapes of sections.
    pub fn shape_count(&self) -> usize {
        match &self.0 {
            Source::Elf(_) => 0,
            Source::Ticket(ticket) => ticket.shape_count(),
        }
    }

    /// Index of a section's shape, if it has one. Sections of one shape differ in nothing but size, alignment, and the section
    /// that they are about.
    #[inline]
    pub fn shape(&self, number: u32) -> Option<usize> {
        match &self.0 {
            Source::Elf(_) => None,
            Source::Ticket(ticket) => ticket.shape(number),
        }
    }

    /// Whether what belongs to it is scattered, over a repository, so that it is worth being fetched before it is needed.
    #[inline(always)]
    pub fn is_scattered(&self) -> bool {
        matches!(self.0, Source::Ticket(_))
    }

    /// Has the processor fetch something of a section, if that [is scattered](Object::is_scattered).
    #[inline(always)]
    pub fn fetch(&self, number: u32, what: Soon) {
        if let Source::Ticket(ticket) = &self.0 {
            match what {
                Soon::Section => ticket.fetch_section(number),
                Soon::Member => ticket.fetch_member(number),
                Soon::References => ticket.fetch_references(number),
                Soon::Contents => ticket.prefetch(number),
            }
        }
    }

    /// The section groups that are linked as a whole if one of their sections is; those of a compilation are pruned as all that
    /// it has.
    pub fn whole_groups(&self) -> &[u32] {
        match &self.0 {
            Source::Elf(elf) => &elf.groups,
            Source::Ticket(_) => &[],
        }
    }

    /// The section groups.
    pub fn groups(&self) -> Result<Vec<Group<'a>>, Malformed> {
        let elf = match &self.0 {
            Source::Ticket(ticket) => return Ok(ticket.groups().collect()),
            Source::Elf(elf) => elf,
        };
        let mut groups = Vec::with_capacity(elf.groups.len());
        for number in elf.groups.iter().copied() {
            let symbol = elf.shdrs[number as usize].sh_info;
            let flags = words(elf.section_bytes(number)).next().unwrap_or(0);
            let bad = Malformed::Value {
                what: "signature symbol of a section group",
                value: symbol.into(),
            };
            let Some(sym) = elf.syms.get(symbol as usize) else {
                return Err(bad);
            };
            // Compilers without a symbol to spare use a section symbol: then the section's name counts.
            let signature = if sym.kind() == c::STT_SECTION {
                elf.shdrs
                    .get(usize::from(sym.st_shndx))
                    .and_then(|shdr| elf::string(elf.shstrtab, shdr.sh_name))
            } else {
                elf::string(elf.strtab, sym.st_name)
            };
            let Some(signature) = signature else {
                return Err(bad);
            };
            // Others may ask for anything to be done with the group.
            if flags & !c::GRP_COMDAT != 0 {
                return Err(Malformed::Value {
                    what: "flags of a section group",
                    value: flags.into(),
                });
            }
            groups.push(Group {
                index: number,
                signature: match symbol >= elf.first_global {
                    true => Signature::Symbol(symbol),
                    false => Signature::Text(signature),
                },
                comdat: flags & c::GRP_COMDAT != 0,
            });
        }
        Ok(groups)
    }

    /// The index of the symbol that is the signature of a group of an ELF object, which may be a section's; 0 if there is none.
    pub fn group_symbol(&self, index: u32) -> u32 {
        match &self.0 {
            Source::Elf(elf) => elf.shdrs.get(index as usize).map_or(0, |shdr| shdr.sh_info),
            Source::Ticket(_) => 0,
        }
    }

    /// The sections of groups that are given by their indices, in ascending order.
    pub fn sections_of_groups(&self, groups: &[u32]) -> Vec<u32> {
        match &self.0 {
            Source::Ticket(ticket) => ticket.sections_of_groups(groups),
            Source::Elf(elf) => groups
                .iter()
                .flat_map(|group| words(elf.section_bytes(*group)).skip(1))
                .collect(),
        }
    }
}

/// Whether a section is for the linker only, not for an executable or shared object.
fn is_excluded(shdrs: &[elf::Shdr], number: u32) -> bool {
    let section = shdrs.get(number as usize);
    section.is_some_and(|shdr| { shdr.sh_flags } & u64::from(c::SHF_EXCLUDE) != 0)
}

/// The words of a section.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes
        .chunks_exact(4)
        .map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
}
