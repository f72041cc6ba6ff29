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
use crate::object::{Fixup, Group, Place, Section, Symbol, Target, Unwind};
use crate::output::shf;
use format_spec::digest::Digest;
use format_spec::ids::{NameId, PieceId};
use format_spec::program::{
    FIXUP_CIE, SectionKind, SectionRecord, SymbolRecord, TargetKind, WideFixupRecord,
};
use store::engine::Store;
use store::program::{
    CompilationView, FixupsView, FragmentView, PieceView, ProgramError, Programs, section_kind,
    target_kind,
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
    /// By member.
    fragments: Vec<FragmentView<'a>>,
    /// Member of each section; section `n` of the compilation is `n + 1` here.
    member_of: Vec<u32>,
    /// Names of all symbols.
    names: Vec<&'a [u8]>,
    /// Names of the sections.
    section_names: Vec<&'a [u8]>,
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
        let compilation = programs.compilation(digest)?;
        let names: Result<Vec<&[u8]>, _> = compilation
            .symbols()
            .iter()
            .map(|symbol| programs.name(symbol.name))
            .collect();
        Ok(TicketObject {
            repository,
            programs,
            compilation,
            fragments: Vec::new(),
            member_of: Vec::new(),
            names: names?,
            section_names: Vec::new(),
        })
    }

    /// Opens the fragments. Only for compilations that are linked.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn load(&mut self) -> Result<(), ProgramError> {
        let count = self.compilation.header().section_count as usize;
        self.member_of = vec![u32::MAX; count];
        self.section_names = vec![b""; count];
        self.fragments.clear();
        for (index, member) in self.compilation.members().iter().enumerate() {
            let fragment = self.programs.fragment(member.fragment)?;
            let sections = self.compilation.sections_of(index);
            for (number, record) in sections.zip(fragment.sections()) {
                self.member_of[number as usize] = index as u32;
                self.section_names[number as usize] = self.programs.name(record.name)?;
            }
            self.fragments.push(fragment);
        }
        Ok(())
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
        self.names.len() as u32
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

    /// A symbol's name.
    #[inline]
    pub fn symbol_name(&self, index: u32) -> &'a [u8] {
        self.names.get(index as usize).copied().unwrap_or(b"")
    }

    /// The dense id of a symbol's name in the repository.
    pub fn symbol_name_id(&self, index: u32) -> Option<NameId> {
        self.compilation
            .symbols()
            .get(index as usize)
            .map(|record| record.name)
    }

    /// Number of sections, a null section counted.
    #[inline]
    pub fn section_count(&self) -> u32 {
        self.compilation.header().section_count + 1
    }

    fn record(&self, number: u32) -> Option<(u32, FragmentView<'a>, &'a SectionRecord)> {
        let index = number.checked_sub(1)?;
        let member = *self.member_of.get(index as usize)?;
        let fragment = *self.fragments.get(member as usize)?;
        let first = self
            .compilation
            .members()
            .get(member as usize)?
            .first_section;
        let record = fragment.sections().get((index - first) as usize)?;
        Some((member, fragment, record))
    }

    /// What is known of a section.
    pub fn section(&self, number: u32) -> Option<Section<'a>> {
        let (member, _, record) = self.record(number)?;
        let mut flags = u64::from(record.sh_flags);
        if self.compilation.members().get(member as usize)?.group != 0 {
            flags |= shf::GROUP;
        }
        let link = match record
            .link
            .checked_sub(1)
            .map(|target| self.target(member, target))
        {
            Some(Target::Section(number)) => number,
            Some(Target::Symbol(index)) => match self.symbol(index)?.place {
                Place::Section(number) => number,
                _ => 0,
            },
            _ => 0,
        };
        Some(Section {
            name: self.section_names.get(number as usize - 1)?,
            sh_type: record.sh_type,
            flags,
            size: record.size,
            align: 1u64.checked_shl(record.align_log2.into())?,
            entsize: record.entsize.into(),
            link,
        })
    }

    /// A section's bytes.
    #[inline]
    pub fn section_bytes(&self, number: u32) -> &'a [u8] {
        self.record(number)
            .map_or(&[], |(_, fragment, record)| fragment.bytes(record))
    }

    /// Whether a section has fixups.
    pub fn has_fixups(&self, number: u32) -> bool {
        self.record(number)
            .is_some_and(|(_, _, record)| record.fixup_count != 0)
    }

    /// The fixups of a section.
    #[inline]
    pub fn fixups(&self, number: u32) -> TicketFixups<'a> {
        let Some((member, fragment, record)) = self.record(number) else {
            return TicketFixups {
                fixups: FixupsView::Narrow(&[]),
                member: None,
            };
        };
        let first_section = self
            .compilation
            .members()
            .get(member as usize)
            .map_or(0, |member| member.first_section);
        TicketFixups {
            fixups: fragment.fixups(record),
            member: Some(Member {
                fragment,
                bindings: self.compilation.bindings_of(member as usize),
                first_section,
            }),
        }
    }

    fn target(&self, member: u32, target: u32) -> Target {
        let index = member as usize;
        match (
            self.fragments.get(index),
            self.compilation.members().get(index),
        ) {
            (Some(fragment), Some(record)) => Member {
                fragment: *fragment,
                bindings: self.compilation.bindings_of(index),
                first_section: record.first_section,
            }
            .target(target),
            _ => Target::Symbol(u32::MAX),
        }
    }

    /// The kind of a section with frames.
    pub fn unwind(&self, number: u32) -> Unwind {
        match self.record(number) {
            Some((_, _, record)) if record.bits & SectionRecord::CIE != 0 => Unwind::Cie,
            Some((_, _, record))
                if section_kind(record) == Some(SectionKind::Unwind)
                    && record.bits & SectionRecord::WHOLE_UNWIND == 0 =>
            {
                Unwind::Fdes
            }
            _ => Unwind::Whole,
        }
    }

    /// The section groups.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn groups(&self) -> Result<Vec<Group<'a>>, ProgramError> {
        let mut groups = Vec::new();
        for record in self.compilation.groups() {
            groups.push(Group {
                signature: self.programs.name(record.signature)?,
                symbol: None,
                comdat: record.flags & c::GRP_COMDAT != 0,
                members: Vec::new(),
            });
        }
        for (index, member) in self.compilation.members().iter().enumerate() {
            let group = member
                .group
                .checked_sub(1)
                .and_then(|group| groups.get_mut(group as usize));
            if let Some(group) = group {
                group
                    .members
                    .extend(self.compilation.sections_of(index).map(|number| number + 1));
            }
        }
        Ok(groups)
    }

    /// A mergeable piece.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn piece(&self, id: PieceId) -> Result<PieceView<'a>, ProgramError> {
        self.programs.piece(id)
    }

    /// The repository's programs.
    pub fn programs(&self) -> Programs<'a> {
        self.programs
    }
}

/// What fixups of one member are followed through.
#[derive(Clone, Copy)]
struct Member<'a> {
    fragment: FragmentView<'a>,
    bindings: &'a [u32],
    first_section: u32,
}

impl Member<'_> {
    #[inline(always)]
    fn target(&self, index: u32) -> Target {
        if index == WideFixupRecord::NO_TARGET {
            return Target::Symbol(0);
        }
        // Bindable targets come first, and bindings are in their order.
        if index < self.fragment.bindable_count()
            && let Some(symbol) = self.bindings.get(index as usize)
        {
            return Target::Symbol(*symbol);
        }
        match self.fragment.targets().get(index as usize) {
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
}

/// The fixups of a section of a compilation.
#[derive(Clone, Copy)]
pub struct TicketFixups<'a> {
    fixups: FixupsView<'a>,
    member: Option<Member<'a>>,
}

impl TicketFixups<'_> {
    /// Number of fixups.
    pub fn len(&self) -> usize {
        self.fixups.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fixups.is_empty()
    }

    /// The fixup of an index.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<Fixup> {
        let member = self.member.as_ref()?;
        let (offset, addend, target, r_type) = match self.fixups {
            FixupsView::Narrow(fixups) => {
                let fixup = fixups.get(index)?;
                let target = fixup.target().unwrap_or(WideFixupRecord::NO_TARGET);
                (
                    fixup.offset.into(),
                    fixup.addend.into(),
                    target,
                    fixup.fixup_type(),
                )
            }
            FixupsView::Wide(fixups) => {
                let fixup = fixups.get(index)?;
                (fixup.offset, fixup.addend, fixup.target, fixup.fixup_type)
            }
        };
        Some(Fixup {
            offset,
            addend,
            r_type,
            target: member.target(target),
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
            member: self.member,
        }
    }
}

/// Whether a fixup is the CIE pointer of an FDE.
pub fn is_cie_pointer(fixup: &Fixup) -> bool {
    fixup.r_type == FIXUP_CIE
}
