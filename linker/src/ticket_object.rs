//! A compilation of the repository as a linker input, borrowed from the store's
//! mapping.
//!
//! To the phases it looks as an ELF object does: sections are numbered from 1
//! through all members, symbols have the numbers that they have in the compilation.
//! A fixup is followed through its fragment's target and the member's bindings to
//! a symbol; no name is looked up. Mergeable pieces are referred to by their dense
//! id, so equal ones of all tickets are one from the beginning.

use crate::elf::c;
use crate::elf_object::Malformed;
use crate::join;
use crate::object::{Fixup, Group, Place, Section, Signature, Symbol, Target, Unwind};
use crate::output::shf;
use format_spec::digest::Digest;
use format_spec::ids::NameId;
use format_spec::program::{
    FIXUP_CIE, FixupRecord, MemberRecord, SectionKind, SectionRecord, SymbolRecord, TargetKind,
    TargetRecord, WideFixupRecord,
};
use std::sync::OnceLock;
use store::engine::Store;
use store::program::{
    CompilationView, FixupsView, FragmentView, ProgramError, Programs, section_kind, target_kind,
};

/// The number of a repository among those that the link reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepositoryId(pub u32);

/// A compilation, opened.
pub struct TicketObject<'a> {
    /// Its repository.
    pub repository: RepositoryId,
    programs: Programs<'a>,
    compilation: CompilationView<'a>,
    /// The members that are linked.
    members: Vec<Member<'a>>,
    /// By section; section `n` of the compilation is `n + 1` here.
    sections: Vec<TicketSection<'a>>,
    /// Names of sections, each once.
    section_names: Vec<(NameId, &'a [u8])>,
    /// What was found to be wrong with the repository where there is no way to say so.
    damage: OnceLock<ProgramError>,
}

/// A section, and where to find out the rest.
#[derive(Clone, Copy)]
struct TicketSection<'a> {
    /// `None` if its member is not linked.
    record: Option<&'a SectionRecord>,
    /// Index of the member among those that are linked.
    member: u32,
    /// Index of its name among the names of sections.
    name: u32,
}

impl<'a> TicketObject<'a> {
    /// Opens a compilation by its digest.
    ///
    /// # Errors
    /// If the repository does not have it, or is damaged.
    pub fn open(
        repository: RepositoryId,
        programs: Programs<'a>,
        digest: &Digest,
    ) -> Result<TicketObject<'a>, ProgramError> {
        Ok(TicketObject {
            repository,
            programs,
            compilation: programs.compilation(digest)?,
            members: Vec::new(),
            sections: Vec::new(),
            section_names: Vec::new(),
            damage: OnceLock::new(),
        })
    }

    /// Opens the fragments. Only for compilations that are linked. The members of the groups
    /// with the indices `lost`, in ascending order, are passed over: they belong to sections
    /// that do not exist.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn load(&mut self, lost: &[u32]) -> Result<(), ProgramError> {
        let compilation = self.compilation;
        let none = TicketSection {
            record: None,
            member: u32::MAX,
            name: 0,
        };
        self.members.clear();
        self.section_names.clear();
        self.sections = vec![none; compilation.header().section_count as usize];
        for (index, member) in compilation.members().iter().enumerate() {
            if is_lost(member, lost) {
                continue;
            }
            let fragment = self.programs.fragment(member.fragment)?;
            for (number, record) in compilation.sections_of(index).zip(fragment.sections()) {
                let name = self
                    .section_names
                    .iter()
                    .rposition(|(known, _)| *known == record.name);
                let name = match name {
                    Some(name) => name,
                    None => {
                        let name = self.programs.name(record.name)?;
                        self.section_names.push((record.name, name));
                        self.section_names.len() - 1
                    }
                };
                self.sections[number as usize] = TicketSection {
                    record: Some(record),
                    member: self.members.len() as u32,
                    name: name as u32,
                };
            }
            self.members.push(Member {
                fragment,
                bindings: compilation.bindings_of(index),
                first_section: member.first_section,
                grouped: member.group != 0,
            });
        }
        Ok(())
    }

    /// The damage of the repository that an accessor came upon which cannot report it.
    pub fn damage(&self) -> Option<&ProgramError> {
        self.damage.get()
    }

    /// The compilation as an ELF object again.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn join(&self) -> Result<Vec<u8>, Malformed> {
        Ok(join::join(&self.programs.load(&self.compilation)?)?)
    }

    /// Digest of the compilation.
    pub fn digest(&self) -> Digest {
        *self.compilation.record().key
    }

    /// The repository's store.
    pub fn store(&self) -> &'a Store {
        self.programs.snapshot().store()
    }

    /// Number of symbols.
    #[inline]
    pub fn symbol_count(&self) -> u32 {
        self.compilation.symbols().len() as u32
    }

    /// Index of the first symbol that is not local.
    #[inline]
    pub fn first_global(&self) -> u32 {
        self.compilation.header().first_global
    }

    /// The symbol of an index.
    #[inline]
    pub fn symbol(&self, index: u32) -> Option<Symbol> {
        let record = self.compilation.symbols().get(index as usize)?;
        let (value, size) = self.compilation.value_and_size(record);
        let place = match record.section {
            // Fixups go to the piece itself.
            _ if record.bits & SymbolRecord::PIECE != 0 => Place::Undefined,
            SymbolRecord::SECTION_UNDEFINED => Place::Undefined,
            SymbolRecord::SECTION_ABSOLUTE => Place::Absolute,
            SymbolRecord::SECTION_COMMON => Place::Common,
            n => Place::Section(n),
        };
        Some(Symbol {
            place,
            value,
            size,
            info: record.info,
            other: record.other,
        })
    }

    /// A symbol's name. If the repository is damaged, it is empty and
    /// [`TicketObject::damage`] says why.
    pub fn symbol_name(&self, index: u32) -> &'a [u8] {
        let Some(record) = self.compilation.symbols().get(index as usize) else {
            return b"";
        };
        self.programs.name(record.name).unwrap_or_else(|why| {
            let _ = self.damage.set(why);
            b""
        })
    }

    /// The dense ids, in the repository, of the names of the symbols that are not local.
    pub fn global_names(&self) -> impl Iterator<Item = NameId> {
        self.compilation
            .symbols()
            .get(self.first_global() as usize..)
            .unwrap_or_default()
            .iter()
            .map(|record| record.name)
    }

    /// Number of sections, a null section counted.
    #[inline]
    pub fn section_count(&self) -> u32 {
        self.compilation.header().section_count + 1
    }

    #[inline(always)]
    fn record(&self, number: u32) -> Option<(&Member<'a>, &'a SectionRecord)> {
        let section = self.sections.get(number.checked_sub(1)? as usize)?;
        Some((self.members.get(section.member as usize)?, section.record?))
    }

    /// What is known of a section.
    pub fn section(&self, number: u32) -> Option<Section<'a>> {
        let section = self.sections.get(number.checked_sub(1)? as usize)?;
        let (member, record) = (self.members.get(section.member as usize)?, section.record?);
        let mut flags = u64::from(record.sh_flags);
        if member.grouped {
            flags |= shf::GROUP;
        }
        let link = match record
            .link
            .checked_sub(1)
            .map(|target| member.targets().get(target))
        {
            Some(Target::Section(number)) => number,
            Some(Target::Symbol(index)) => match self.symbol(index)?.place {
                Place::Section(number) => number,
                _ => 0,
            },
            _ => 0,
        };
        Some(Section {
            name: self.section_names.get(section.name as usize)?.1,
            sh_type: record.sh_type,
            flags,
            size: record.size,
            align: 1u64.checked_shl(record.align_log2.into())?,
            entsize: record.entsize.into(),
            link,
        })
    }

    /// Size of a section, and its alignment in bytes.
    #[inline]
    pub fn extent(&self, number: u32) -> Option<(u64, u64)> {
        let (_, record) = self.record(number)?;
        Some((record.size, 1u64.checked_shl(record.align_log2.into())?))
    }

    /// A section's bytes.
    #[inline]
    pub fn section_bytes(&self, number: u32) -> &'a [u8] {
        self.record(number)
            .map_or(&[], |(member, record)| member.fragment.bytes(record))
    }

    /// Whether a section has fixups.
    pub fn has_fixups(&self, number: u32) -> bool {
        self.record(number)
            .is_some_and(|(_, record)| record.fixup_count != 0)
    }

    /// The fixups of a section.
    #[inline]
    pub fn fixups(&self, number: u32) -> TicketFixups<'a> {
        let Some((member, record)) = self.record(number) else {
            return TicketFixups::NONE;
        };
        TicketFixups {
            fixups: member.fragment.fixups(record),
            targets: member.targets(),
        }
    }

    /// The kind of a section with frames.
    pub fn unwind(&self, number: u32) -> Unwind {
        match self.record(number) {
            Some((_, record)) if record.bits & SectionRecord::CIE != 0 => Unwind::Cie,
            Some((_, record))
                if section_kind(record) == Some(SectionKind::Unwind)
                    && record.bits & SectionRecord::WHOLE_UNWIND == 0 =>
            {
                Unwind::Fdes
            }
            _ => Unwind::Whole,
        }
    }

    /// The section groups.
    pub fn groups(&self) -> impl Iterator<Item = Group<'a>> {
        (0..)
            .zip(self.compilation.groups())
            .map(|(index, record)| Group {
                index,
                signature: Signature::Name(record.signature),
                comdat: record.flags & c::GRP_COMDAT != 0,
            })
    }

    /// The sections of the groups with the indices `lost`, in ascending order.
    pub fn sections_of_groups(&self, lost: &[u32]) -> Vec<u32> {
        let members = self.compilation.members().iter().enumerate();
        members
            .filter(|(_, member)| is_lost(member, lost))
            .flat_map(|(index, _)| self.compilation.sections_of(index))
            .map(|number| number + 1)
            .collect()
    }

    /// The bytes of an interned name of the repository.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn name(&self, id: NameId) -> Result<&'a [u8], ProgramError> {
        self.programs.name(id)
    }

    /// The repository's programs.
    pub fn programs(&self) -> Programs<'a> {
        self.programs
    }
}

/// Whether a member is in one of the groups with the indices `lost`, in ascending order.
fn is_lost(member: &MemberRecord, lost: &[u32]) -> bool {
    match member.group.checked_sub(1) {
        Some(group) => lost.binary_search(&group).is_ok(),
        None => false,
    }
}

/// A fragment as a member of its compilation.
struct Member<'a> {
    fragment: FragmentView<'a>,
    /// Symbols of the fragment's bindable targets.
    bindings: &'a [u32],
    /// Number of its first section in the compilation.
    first_section: u32,
    /// It is in a section group.
    grouped: bool,
}

/// What the targets of a member's fixups mean.
#[derive(Clone, Copy)]
struct Targets<'a> {
    targets: &'a [TargetRecord],
    /// Symbols of the bindable targets, which come first.
    bindings: &'a [u32],
    first_section: u32,
}

impl<'a> Member<'a> {
    #[inline]
    fn targets(&self) -> Targets<'a> {
        let bindable = self.fragment.bindable_count() as usize;
        Targets {
            targets: self.fragment.targets(),
            bindings: self.bindings.get(..bindable).unwrap_or(self.bindings),
            first_section: self.first_section,
        }
    }
}

impl Targets<'_> {
    #[inline(always)]
    fn get(&self, index: u32) -> Target {
        match self.bindings.get(index as usize) {
            Some(symbol) => Target::Symbol(*symbol),
            None => self.local(index),
        }
    }

    #[inline]
    fn local(&self, index: u32) -> Target {
        if index == WideFixupRecord::NO_TARGET {
            return Target::Symbol(0);
        }
        match self.targets.get(index as usize) {
            Some(target) if target_kind(target) == Some(TargetKind::Section) => {
                Target::Section(self.first_section + target.value + 1)
            }
            Some(target) if target_kind(target) == Some(TargetKind::Piece) => {
                Target::Piece(target.value)
            }
            // No symbol has this number, so whoever follows it reports an error.
            _ => Target::Symbol(u32::MAX),
        }
    }

    #[inline(always)]
    fn narrow(&self, fixup: &FixupRecord) -> Fixup {
        Fixup {
            offset: fixup.offset.into(),
            addend: fixup.addend.into(),
            r_type: fixup.fixup_type(),
            target: self.get(fixup.target().unwrap_or(WideFixupRecord::NO_TARGET)),
        }
    }

    #[inline(always)]
    fn wide(&self, fixup: &WideFixupRecord) -> Fixup {
        Fixup {
            offset: fixup.offset,
            addend: fixup.addend,
            r_type: fixup.fixup_type,
            target: self.get(fixup.target),
        }
    }
}

/// The fixups of a section of a compilation.
#[derive(Clone, Copy)]
pub struct TicketFixups<'a> {
    fixups: FixupsView<'a>,
    targets: Targets<'a>,
}

impl TicketFixups<'_> {
    const NONE: TicketFixups<'static> = TicketFixups {
        fixups: FixupsView::Narrow(&[]),
        targets: Targets {
            targets: &[],
            bindings: &[],
            first_section: 0,
        },
    };

    /// Number of fixups.
    pub fn len(&self) -> usize {
        self.fixups.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fixups.is_empty()
    }

    /// Calls `f` with each, in order.
    #[inline(always)]
    pub fn for_each(&self, mut f: impl FnMut(Fixup)) {
        match self.fixups {
            FixupsView::Narrow(fixups) => {
                for fixup in fixups {
                    f(self.targets.narrow(fixup));
                }
            }
            FixupsView::Wide(fixups) => {
                for index in 0..fixups.len() {
                    self.get(index).into_iter().for_each(&mut f);
                }
            }
        }
    }

    /// The fixup of an index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Fixup> {
        Some(match self.fixups {
            FixupsView::Narrow(fixups) => self.targets.narrow(fixups.get(index)?),
            FixupsView::Wide(fixups) => self.targets.wide(fixups.get(index)?),
        })
    }

    /// The fixups from `start` up to and without `end`.
    pub fn slice(&self, start: usize, end: usize) -> Self {
        let fixups = match self.fixups {
            FixupsView::Narrow(fixups) => FixupsView::Narrow(fixups.get(start..end).unwrap_or(&[])),
            FixupsView::Wide(fixups) => FixupsView::Wide(fixups.get(start..end).unwrap_or(&[])),
        };
        TicketFixups {
            fixups,
            targets: self.targets,
        }
    }
}

/// Whether a fixup is the CIE pointer of an FDE.
pub fn is_cie_pointer(fixup: &Fixup) -> bool {
    fixup.r_type == FIXUP_CIE
}
