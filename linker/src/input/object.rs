//! The model of a linker input: definitions with sections and fixups.
//!
//! There are two sources, an ELF relocatable object and a compilation of the
//! repository; both are borrowed from their mappings. Every phase after reading
//! uses the methods of [`Object`] and does not ask which source it is.

use crate::elf::{self, Rela, c};
use crate::input::elf_object::{ElfObject, Malformed};
use crate::input::parts::{
    Fixup, Group, Place, RESERVED_SECTION, SHN_X86_64_LCOMMON, Section, Signature, Symbol, Target,
    Unwind,
};
use crate::input::ticket_object::{StoredSection, TicketFixups, TicketObject};
use format_spec::fragment::FixupRecord;
use std::borrow::Cow;

/// What a fixup refers to, within its input.
#[derive(Clone, Copy)]
pub enum Referent<'o, 'a> {
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
    /// The mergeable piece of this id in a ticket's repository.
    Piece(&'o TicketObject<'a>, u32),
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
pub enum Fixups<'a> {
    /// Of an ELF object.
    Elf(&'a [Rela]),
    /// Of a compilation.
    Ticket(TicketFixups<'a>),
}

impl Fixups<'_> {
    /// Calls `f` with each, in order.
    #[inline(always)]
    pub fn for_each(self, mut f: impl FnMut(Fixup)) {
        match self {
            Fixups::Elf(relas) => {
                for rela in relas {
                    f(Fixup::from(rela));
                }
            }
            Fixups::Ticket(fixups) => fixups.for_each(f),
        }
    }

    /// How many there are.
    pub fn len(self) -> usize {
        match self {
            Fixups::Elf(relas) => relas.len(),
            Fixups::Ticket(fixups) => fixups.len(),
        }
    }

    /// The fixup of this index.
    pub fn get(self, index: usize) -> Option<Fixup> {
        match self {
            Fixups::Elf(relas) => relas.get(index).map(Fixup::from),
            Fixups::Ticket(fixups) => fixups.get(index),
        }
    }

    /// The fixups from index `start` up to and without `end`.
    pub fn slice(self, start: usize, end: usize) -> Self {
        match self {
            Fixups::Elf(relas) => Fixups::Elf(relas.get(start..end).unwrap_or(&[])),
            Fixups::Ticket(fixups) => Fixups::Ticket(fixups.slice(start, end)),
        }
    }
}

/// A relocatable input.
pub enum Object<'a> {
    /// An ELF file or archive member.
    Elf(ElfObject<'a>),
    /// A compilation that a ticket names.
    Ticket(TicketObject<'a>),
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
        match self {
            Object::Elf(elf) => elf.syms.len() as u32,
            Object::Ticket(ticket) => ticket.symbol_count(),
        }
    }

    /// Index of the first symbol that is not local.
    #[inline]
    pub fn first_global(&self) -> u32 {
        match self {
            Object::Elf(elf) => elf.first_global,
            Object::Ticket(ticket) => ticket.first_global(),
        }
    }

    /// The symbol of an index.
    #[inline]
    pub fn symbol(&self, index: u32) -> Option<Symbol> {
        match self {
            Object::Ticket(ticket) => ticket.symbol(index),
            Object::Elf(elf) => {
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
        match self {
            Object::Ticket(ticket) => ticket.symbol_name(index),
            Object::Elf(elf) => elf
                .syms
                .get(index as usize)
                .and_then(|sym| elf::string(elf.strtab, sym.st_name))
                .unwrap_or(b""),
        }
    }

    /// Number of sections; section 0 is the null section.
    #[inline]
    pub fn section_count(&self) -> u32 {
        match self {
            Object::Elf(elf) => elf.shdrs.len() as u32,
            Object::Ticket(ticket) => ticket.section_count(),
        }
    }

    /// What is known of a section.
    #[inline]
    pub fn section(&self, number: u32) -> Option<Section<'a>> {
        match self {
            Object::Ticket(ticket) => ticket.section(number),
            Object::Elf(elf) => {
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
        if let Object::Elf(elf) = self {
            elf.prefetch_name(number);
        }
    }

    /// Size of a section in memory, and its alignment, which is a power of two, both in bytes.
    #[inline]
    pub fn extent(&self, number: u32) -> Option<(u64, u64)> {
        match self {
            Object::Ticket(ticket) => ticket.extent(number),
            Object::Elf(elf) => Some(elf.extent(number, elf.shdrs.get(number as usize)?)),
        }
    }

    /// A section's bytes; empty for `SHT_NOBITS`.
    #[inline]
    pub fn section_bytes(&self, number: u32) -> &[u8] {
        match self {
            Object::Elf(elf) => elf.section_bytes(number),
            Object::Ticket(ticket) => ticket.section_bytes(number),
        }
    }

    /// A section's bytes, but for the places of its fixups, where anything may be.
    #[inline]
    pub fn bytes_beside_fixups(&self, number: u32) -> &[u8] {
        match self {
            Object::Elf(elf) => elf.section_bytes(number),
            Object::Ticket(ticket) => ticket.bytes_beside_fixups(number),
        }
    }

    /// The name that a section has in an object file, which for those of a compilation is longer than
    /// [`Section::name`]: `.text.f`.
    pub fn full_name(&self, number: u32, section: &Section<'a>) -> Cow<'a, [u8]> {
        let suffix = match self {
            Object::Elf(_) => None,
            Object::Ticket(ticket) => ticket.suffix(number),
        };
        match suffix {
            None => Cow::Borrowed(section.name),
            Some(suffix) => Cow::Owned([section.name, b".", suffix].concat()),
        }
    }

    /// The fixups of a section. `relocations` is what [`Object::relocation_section`] found for it.
    #[inline]
    pub fn fixups(&self, number: u32, relocations: u32) -> Fixups<'_> {
        match self {
            Object::Ticket(ticket) => Fixups::Ticket(ticket.fixups(number)),
            Object::Elf(elf) if relocations != 0 => Fixups::Elf(elf.relocations(relocations)),
            Object::Elf(_) => Fixups::Elf(&[]),
        }
    }

    /// What a fixup refers to: of a global symbol, which it is. What that means is decided by all inputs together.
    #[inline(always)]
    pub fn referent(&self, target: Target) -> Referent<'_, 'a> {
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
    pub fn own_referent(&self, target: Target) -> Referent<'_, 'a> {
        let index = match target {
            Target::Section(section) => {
                return Referent::Place {
                    section,
                    offset: 0,
                    kind: c::STT_SECTION,
                };
            }
            Target::Piece(id) => {
                return match self {
                    Object::Ticket(ticket) => Referent::Piece(ticket, id),
                    Object::Elf(_) => Referent::Missing(Missing::Piece(id)),
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
        match self {
            Object::Elf(elf) => (elf.section_bytes(number), self.fixups(number, relocations)),
            Object::Ticket(ticket) => {
                let (bytes, fixups) = ticket.contents(number);
                (bytes, Fixups::Ticket(fixups))
            }
        }
    }

    /// Compares a section's bytes with their check, where they have one, unless that has been done.
    #[inline]
    pub fn check(&self, number: u32) {
        if let Object::Ticket(ticket) = self {
            ticket.check(number);
        }
    }

    /// A section as it is stored, for who [copies](Object::copy) it at once and calls [`Object::check`] then.
    #[inline]
    pub fn stored(&self, number: u32, relocations: u32) -> Stored<'_> {
        match self {
            Object::Elf(elf) => Stored {
                size: elf.section_bytes(number).len(),
                bytes: elf.section_bytes(number),
                fixups: self.fixups(number, relocations),
                section: None,
            },
            Object::Ticket(ticket) => {
                let section = ticket.stored(number);
                Stored {
                    size: section.size(),
                    bytes: section.bytes(),
                    fixups: Fixups::Ticket(section.fixups),
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
        match (self, &stored.section) {
            (Object::Ticket(ticket), Some(section)) => {
                Fixups::Ticket(ticket.copy(number, section, out, unpacked))
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
        match self {
            Object::Ticket(_) => Ok(None),
            Object::Elf(elf) => {
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

    /// Whether a section's fixups are its own, not in a relocation section.
    #[inline]
    pub fn has_own_fixups(&self, number: u32) -> bool {
        match self {
            Object::Elf(_) => false,
            Object::Ticket(ticket) => ticket.has_fixups(number),
        }
    }

    /// What an `.eh_frame` section holds.
    pub fn unwind(&self, number: u32) -> Unwind {
        match self {
            Object::Elf(_) => Unwind::Whole,
            Object::Ticket(ticket) => ticket.unwind(number),
        }
    }

    /// Whether what nothing refers to is left out in any case.
    pub fn is_pruned(&self) -> bool {
        matches!(self, Object::Ticket(_))
    }

    /// The section groups.
    pub fn groups(&self) -> Result<Vec<Group<'a>>, Malformed> {
        let elf = match self {
            Object::Ticket(ticket) => return Ok(ticket.groups().collect()),
            Object::Elf(elf) => elf,
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

    /// The sections of groups that are given by their indices, in ascending order.
    pub fn sections_of_groups(&self, groups: &[u32]) -> Vec<u32> {
        match self {
            Object::Ticket(ticket) => ticket.sections_of_groups(groups),
            Object::Elf(elf) => groups
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
