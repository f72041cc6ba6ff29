//! A compilation of the repository as a linker input, borrowed from the store's
//! mapping.
//!
//! To the phases it looks as an ELF object does: sections are numbered from 1
//! through all members, symbols have the numbers that they have in the compilation.
//! A fixup is followed through its fragment's target and the member's bindings to
//! a symbol; no name is looked up. Mergeable pieces are referred to by their dense
//! id, so equal ones of all tickets are one from the beginning.

use crate::elf::{c, shf};
use crate::input::elf_object::Malformed;
use crate::input::parts::{
    Fixup, FixupLoop, Group, OneFde, Place, PlainMember, RepositoryId, Section, Signature, Symbol,
    Target, Unwind,
};
use crate::repository::join;
use format_spec::digest::Digest;
use format_spec::fragment::{
    FixupRecord, SectionKind, SectionRecord, TargetKind, TargetRecord, WideFixupRecord,
};
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::outline::{PlacedSection, ShapeRecord};
use format_spec::program::{MemberRecord, SymbolRecord};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::engine::Store;
use store::prefetch::prefetch;
use store::program::{
    Bindings, CompilationView, FixupsView, FragmentSection, PackedFixups, ProgramError, Programs,
    SectionView,
};

/// A compilation, opened.
///
/// What its sections are is read from the compilation's outline. A fragment is opened only where its bytes or fixups
/// are asked for, and then anew each time: to keep it open would cost more memory accesses than to open it.
pub struct TicketObject<'a> {
    /// Its repository.
    pub repository: RepositoryId,
    programs: Programs<'a>,
    compilation: CompilationView<'a>,
    /// By section group: it lost against the same group in another file, so its sections do not exist.
    lost: Box<[bool]>,
    /// The names of the sections, by shape. Empty until the compilation is known to be linked.
    shape_names: Box<[&'a [u8]]>,
    /// By member: its fragment's bytes are those that were written. They are compared when the first of its
    /// sections is opened, or by who copies it just after that ([`TicketObject::stored`]), when they are in the cache.
    checked: Box<[AtomicBool]>,
    /// By section, if somebody needed it.
    by_section: OnceLock<Box<[SectionState]>>,
    /// What was found to be wrong with the repository where there is no way to say so.
    damage: OnceLock<Box<ProgramError>>,
}

/// What is noted of a section.
#[derive(Default)]
struct SectionState {
    /// It has a check of its own and was compared with it.
    is_checked: AtomicBool,
    /// The bytes without words of packed fixups, if somebody wanted them.
    cleared: OnceLock<Box<[u8]>>,
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
            compilation: programs.compilation_unchecked(digest)?,
            lost: Box::default(),
            shape_names: Box::default(),
            checked: Box::default(),
            by_section: OnceLock::new(),
            damage: OnceLock::new(),
        })
    }

    /// Makes the sections known. Only for compilations that are linked. Those of the groups
    /// with the indices `lost` are passed over, as if they did not exist.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn load(&mut self, lost: &[u32]) -> Result<(), ProgramError> {
        if !self.compilation.is_sound() {
            return Err(self.damaged(match self.compilation.outline_is_whole() {
                false => "the outline does not have its checksum",
                true => "members, sections and symbols contradict each other",
            }));
        }
        let members = self.compilation.members().iter();
        self.checked = members.map(|_| AtomicBool::new(false)).collect();
        self.lost = vec![false; self.compilation.groups().len()].into();
        for group in lost {
            if let Some(lost) = self.lost.get_mut(*group as usize) {
                *lost = true;
            }
        }
        let names = self.compilation.shapes().iter();
        self.shape_names = names
            .map(|shape| self.programs.name(shape.name))
            .collect::<Result<_, _>>()?;
        Ok(())
    }

    fn damaged(&self, what: &'static str) -> ProgramError {
        ProgramError::Damaged {
            path: self.store().path().to_owned(),
            address: self.compilation.record().address,
            what,
        }
    }

    /// The damage of the repository that an accessor came upon which cannot report it.
    pub fn damage(&self) -> Option<&ProgramError> {
        self.damage.get().map(Box::as_ref)
    }

    /// The compilation as an ELF object again.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn join(&self) -> Result<Vec<u8>, Malformed> {
        let checked = self
            .programs
            .compilation(&self.compilation.record().key())?;
        Ok(join::join(&self.programs.load(&checked)?)?)
    }

    /// Digest of the compilation.
    pub fn digest(&self) -> Digest {
        self.compilation.record().key()
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
            SymbolRecord::SECTION_COMMON if index < self.first_global() => Place::Undefined,
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
            let _ = self.damage.set(Box::new(why));
            b""
        })
    }

    /// The dense id, in the repository, of a symbol's name.
    pub fn name_id(&self, index: u32) -> Option<NameId> {
        let record = self.compilation.symbols().get(index as usize);
        record.map(|record| record.name)
    }

    /// The records of the symbols that are not local.
    pub fn globals(&self) -> &'a [SymbolRecord] {
        let symbols = self.compilation.symbols();
        symbols
            .get(self.first_global() as usize..)
            .unwrap_or_default()
    }

    /// Number of sections, a null section counted.
    #[inline]
    pub fn section_count(&self) -> u32 {
        self.compilation.header().section_count + 1
    }

    /// A section as the outline has it; `None` if there is none, or its group is lost.
    #[inline(always)]
    fn placed(&self, number: u32) -> Option<(&'a PlacedSection, &'a MemberRecord)> {
        let section = self
            .compilation
            .sections()
            .get(number.checked_sub(1)? as usize)?;
        let member = self.compilation.members().get(section.member as usize)?;
        (!self.is_lost(member)).then_some((section, member))
    }

    /// Whether a member is in a group that lost.
    #[inline]
    fn is_lost(&self, member: &MemberRecord) -> bool {
        let group = member.group.wrapping_sub(1) as usize;
        self.lost.get(group).copied().unwrap_or(false)
    }

    /// Compares a member's fragment with its check, once.
    #[inline]
    fn check_fragment(&self, number: u32, member: &MemberRecord) -> Result<(), ProgramError> {
        let checked = self.checked.get(number as usize);
        if checked.is_none_or(|checked| !checked.load(Relaxed)) {
            self.programs.check_fragment(member.fragment)?;
            if let Some(checked) = checked {
                checked.store(true, Relaxed);
            }
        }
        Ok(())
    }

    /// Opens a section's fragment. If the repository is damaged, [`TicketObject::damage`] says why.
    #[inline]
    fn open_section(&self, number: u32) -> Option<(FragmentSection<'a>, Targets<'a>)> {
        self.check(number);
        let (open, targets) = self.open_unchecked(number)?;
        if let Some(check) = open.section.check
            && !self.is_section_checked(number)
        {
            self.checked_section(number, check.is_right());
        }
        Some((open, targets))
    }

    /// Whether a section that has a check of its own was compared with it.
    fn is_section_checked(&self, number: u32) -> bool {
        let states = self.by_section.get();
        states
            .and_then(|states| states.get(number as usize))
            .is_some_and(|state| state.is_checked.load(Relaxed))
    }

    /// Notes what came out when it was.
    fn checked_section(&self, number: u32, is_right: bool) {
        if !is_right && let Some((_, member)) = self.placed(number) {
            let why = self.programs.damaged_section(member.fragment);
            let _ = self.damage.set(Box::new(why));
        }
        if let Some(state) = self.state(number) {
            state.is_checked.store(true, Relaxed);
        }
    }

    /// What is noted of a section; `None` if there is no such section.
    fn state(&self, number: u32) -> Option<&SectionState> {
        let states = self.by_section.get_or_init(|| {
            let numbers = 0..=self.compilation.sections().len();
            numbers.map(|_| SectionState::default()).collect()
        });
        states.get(number as usize)
    }

    /// Compares the bytes of a section's fragment with its check, unless that has been done. If they differ,
    /// [`TicketObject::damage`] says so.
    #[inline]
    pub fn check(&self, number: u32) {
        if let Some((section, member)) = self.placed(number)
            && let Err(why) = self.check_fragment(section.member, member)
        {
            let _ = self.damage.set(Box::new(why));
        }
    }

    /// Opens a section's fragment without comparing its bytes.
    #[inline]
    fn open_unchecked(&self, number: u32) -> Option<(FragmentSection<'a>, Targets<'a>)> {
        self.open_by(number, |programs, fragment, index| {
            programs.fragment_section(fragment, index)
        })
    }

    /// The same, `open` being what opens it.
    #[inline(always)]
    fn open_by(
        &self,
        number: u32,
        open: impl FnOnce(&Programs<'a>, Address, u32) -> Result<FragmentSection<'a>, ProgramError>,
    ) -> Option<(FragmentSection<'a>, Targets<'a>)> {
        let (section, member) = self.placed(number)?;
        // Sections of a member that the outline gives to another are beyond that one's own.
        let index = (number - 1).wrapping_sub(member.first_section);
        let own = self.compilation.sections_of(section.member as usize);
        let bindings = self.compilation.bindings_of(section.member as usize);
        let opened = open(&self.programs, member.fragment, index).and_then(|open| {
            let shape = self.compilation.shapes().get(section.shape() as usize);
            let is_large = section.bits() & PlacedSection::LARGE != 0;
            let is_outlined = open.section_count as usize == own.len()
                && open.bindable_count as usize == bindings.len()
                && (is_large || open.section.size == section.size.into())
                && open.section.record.align_log2 == section.align_log2()
                && shape.is_some_and(|shape| {
                    open.section.record.sh_type == shape.sh_type
                        && open.section.record.sh_flags == shape.sh_flags
                });
            match is_outlined {
                true => Ok(open),
                false => Err(self.damaged("the outline is not that of the members")),
            }
        });
        match opened {
            Ok(open) => {
                let targets = Targets {
                    targets: open.targets,
                    bindings,
                    first_section: member.first_section,
                    section_count: open.section_count,
                };
                Some((open, targets))
            }
            Err(why) => {
                let _ = self.damage.set(Box::new(why));
                None
            }
        }
    }

    /// What is known of a section.
    pub fn section(&self, number: u32) -> Option<Section<'a>> {
        let (section, _) = self.placed(number)?;
        let shape = self.compilation.shapes().get(section.shape() as usize)?;
        let mut flags = u64::from(shape.sh_flags);
        if shape.bits & ShapeRecord::GROUPED != 0 {
            flags |= shf::GROUP;
        }
        Some(Section {
            name: self.shape_names.get(section.shape() as usize)?,
            sh_type: shape.sh_type,
            flags,
            size: self.size(number, section),
            align: 1u64.checked_shl(section.align_log2().into())?,
            entsize: shape.entsize.into(),
            link: match flags & shf::LINK_ORDER {
                0 => 0,
                _ => self.link(number).unwrap_or(0),
            },
        })
    }

    /// What the section's name ended in, after a dot, in the object that the compilation was made from, if that is not
    /// part of the section's name here.
    pub fn suffix(&self, number: u32) -> Option<&'a [u8]> {
        let (section, member) = self.placed(number)?;
        let shape = self.compilation.shapes().get(section.shape() as usize)?;
        if shape.bits & SectionRecord::SUFFIXED == 0 {
            return None;
        }
        match self.programs.name(member.suffix) {
            Ok(suffix) => Some(suffix),
            Err(why) => {
                let _ = self.damage.set(Box::new(why));
                None
            }
        }
    }

    /// Number of the shapes of sections.
    pub fn shape_count(&self) -> usize {
        self.compilation.shapes().len()
    }

    /// Index of a section's shape. Sections of one shape differ in nothing but size, alignment, and the section that
    /// they are about.
    #[inline]
    pub fn shape(&self, number: u32) -> Option<usize> {
        self.placed(number)
            .map(|(section, _)| section.shape() as usize)
    }

    /// The section that a section is about (`SHF_LINK_ORDER`).
    fn link(&self, number: u32) -> Option<u32> {
        let (open, targets) = self.open_section(number)?;
        match targets.get(open.section.link.checked_sub(1)?) {
            Target::Section(number) => Some(number),
            Target::Symbol(index) => match self.symbol(index)?.place {
                Place::Section(number) => Some(number),
                _ => None,
            },
            Target::Piece(_) => None,
        }
    }

    #[inline]
    fn size(&self, number: u32, section: &PlacedSection) -> u64 {
        match section.bits() & PlacedSection::LARGE {
            0 => section.size.into(),
            _ => self
                .open_section(number)
                .map_or(0, |(open, _)| open.section.size),
        }
    }

    /// Size of a section, and its alignment in bytes.
    #[inline]
    pub fn extent(&self, number: u32) -> Option<(u64, u64)> {
        let (section, _) = self.placed(number)?;
        let align = 1u64.checked_shl(section.align_log2().into())?;
        Some((self.size(number, section), align))
    }

    /// Says that a section's contents will be needed soon.
    #[inline]
    pub fn prefetch(&self, number: u32) {
        if let Some((_, member)) = self.placed(number) {
            self.programs.prefetch(member.fragment);
        }
    }

    /// Says that what is known of a section will be needed soon.
    #[inline]
    pub fn fetch_section(&self, number: u32) {
        let index = number.wrapping_sub(1) as usize;
        if let Some(section) = self.compilation.sections().get(index) {
            prefetch(section);
        }
    }

    /// The same of its member; when the section itself is there.
    #[inline]
    pub fn fetch_member(&self, number: u32) {
        let index = number.wrapping_sub(1) as usize;
        let section = self.compilation.sections().get(index);
        let member = section.and_then(|s| self.compilation.members().get(s.member as usize));
        if let Some(member) = member {
            prefetch(member);
        }
    }

    /// The same of what its member refers to; when the member is there.
    #[inline]
    pub fn fetch_references(&self, number: u32) {
        if let Some(member) = self.plain(number) {
            match member.bindings {
                Bindings::Short(symbols) => symbols.first().into_iter().for_each(prefetch),
                Bindings::Long(symbols) => symbols.first().into_iter().for_each(prefetch),
            }
            member.uses.first().into_iter().for_each(prefetch);
            member.pieces.first().into_iter().for_each(prefetch);
        }
    }

    /// A section's bytes.
    #[inline]
    pub fn section_bytes(&self, number: u32) -> &[u8] {
        self.contents(number).0
    }

    /// A section's bytes, but for the places of its fixups, where anything may be.
    #[inline]
    pub fn bytes_beside_fixups(&self, number: u32) -> &'a [u8] {
        self.open_section(number)
            .map_or(&[], |(open, _)| open.section.stored)
    }

    /// Whether a section has fixups.
    #[inline]
    pub fn has_fixups(&self, number: u32) -> bool {
        self.placed(number)
            .is_some_and(|(section, _)| section.bits() & PlacedSection::HAS_FIXUPS != 0)
    }

    /// The fixups of a section.
    #[inline]
    pub fn fixups(&self, number: u32) -> TicketFixups<'a> {
        match self.open_section(number) {
            None => TicketFixups::NONE,
            Some((open, targets)) => TicketFixups {
                fixups: open.section.fixups,
                targets,
            },
        }
    }

    /// A section's bytes and its fixups.
    pub fn contents(&self, number: u32) -> (&[u8], TicketFixups<'a>) {
        let Some((open, targets)) = self.open_section(number) else {
            return (&[], TicketFixups::NONE);
        };
        let fixups = TicketFixups {
            fixups: open.section.fixups,
            targets,
        };
        let is_packed = matches!(open.section.fixups, FixupsView::Packed(_));
        if !is_packed || fixups.is_empty() {
            return (open.section.stored, fixups);
        }
        match self.state(number) {
            None => (&[], TicketFixups::NONE),
            Some(state) => {
                let bytes = state.cleared.get_or_init(|| open.section.bytes().into());
                (bytes, fixups)
            }
        }
    }

    /// A section as it is stored, for who [copies](TicketObject::copy) it at once and calls [`TicketObject::check`] then:
    /// bytes that were just copied are in the cache, and to read them before would be to wait for the memory twice.
    #[inline]
    pub fn stored(&self, number: u32) -> StoredSection<'a> {
        let opened = self.open_by(number, |programs, fragment, index| {
            programs.fragment_section_as_stored(fragment, index)
        });
        match opened {
            None => StoredSection::NONE,
            Some((open, targets)) => StoredSection {
                section: Some(open.section),
                fixups: TicketFixups {
                    fixups: open.section.fixups,
                    targets,
                },
            },
        }
    }

    /// Copies a section's bytes to `out`, which has as many, and returns its fixups, which are in `unpacked` if they were packed.
    #[inline]
    pub fn copy<'u>(
        &self,
        number: u32,
        stored: &StoredSection<'u>,
        out: &mut [u8],
        unpacked: &'u mut Vec<FixupRecord>,
    ) -> TicketFixups<'u> {
        let Some(section) = &stored.section else {
            return TicketFixups::NONE;
        };
        let compares = section.check.is_some() && !self.is_section_checked(number);
        let (fixups, is_right) = section.copy(out, unpacked, compares);
        if compares || !is_right {
            self.checked_section(number, is_right);
        }
        TicketFixups {
            fixups,
            targets: stored.fixups.targets,
        }
    }

    /// The kind of a section with frames.
    pub fn unwind(&self, number: u32) -> Unwind {
        let shape = self
            .placed(number)
            .and_then(|(section, _)| self.compilation.shapes().get(section.shape() as usize));
        match shape {
            Some(shape) if shape.bits & SectionRecord::CIE != 0 => Unwind::Cie,
            Some(shape)
                if shape.kind == SectionKind::Unwind as u8
                    && shape.bits & SectionRecord::WHOLE_UNWIND == 0 =>
            {
                Unwind::Fdes
            }
            _ => Unwind::Whole,
        }
    }

    /// What is known, without opening it, of a section that is one FDE.
    pub fn one_fde(&self, number: u32) -> Option<OneFde> {
        let (section, member) = self.placed(number)?;
        let bits = section.bits();
        let is_one = bits & PlacedSection::ONE_FDE != 0 && member.first_section < number - 1;
        is_one.then_some(OneFde {
            describes: member.first_section + 1,
            cie: section.cie + 1,
            size: section.size,
            fixups: if bits & PlacedSection::HAS_LSDA != 0 {
                3
            } else {
                2
            },
        })
    }

    /// Index of the member that a section belongs to.
    #[inline]
    pub fn member_of(&self, number: u32) -> Option<u32> {
        self.placed(number).map(|(section, _)| section.member)
    }

    /// Number of members.
    pub fn member_count(&self) -> u32 {
        self.compilation.members().len() as u32
    }

    /// The numbers of a member's sections. `member` must be below [`TicketObject::member_count`].
    #[inline]
    pub fn sections_of(&self, member: u32) -> Range<u32> {
        let range = self.compilation.sections_of(member as usize);
        range.start.saturating_add(1)..range.end.saturating_add(1)
    }

    /// The pieces that a member refers to. `member` must be below [`TicketObject::member_count`].
    #[inline]
    pub fn pieces_of(&self, member: u32) -> &'a [PieceId] {
        self.compilation.pieces_of(member as usize)
    }

    /// What is known of all that a definition's fixups ask for, if the section is one for which
    /// the outline says it.
    #[inline]
    pub fn plain(&self, number: u32) -> Option<PlainMember<'a>> {
        let (section, member) = self.placed(number)?;
        let index = section.member as usize;
        let is_first = member.first_section + 1 == number;
        (is_first && member.bits & MemberRecord::PLAIN != 0).then(|| PlainMember {
            member: section.member,
            bindings: self.compilation.bindings_of(index),
            uses: self.compilation.uses_of(index),
            pieces: self.compilation.pieces_of(index),
            words: member.bits >> MemberRecord::WORDS_SHIFT,
            has_absolute: member.bits & MemberRecord::ABSOLUTE != 0,
            rest: number + 1..self.compilation.sections_of(index).end + 1,
        })
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

    /// The sections of the groups with the indices `groups`, in ascending order.
    pub fn sections_of_groups(&self, groups: &[u32]) -> Vec<u32> {
        let members = self.compilation.members().iter().enumerate();
        let is_meant = |member: &MemberRecord| {
            let group = member.group.checked_sub(1);
            group.is_some_and(|group| groups.binary_search(&group).is_ok())
        };
        members
            .filter(|(_, member)| is_meant(member))
            .flat_map(|(index, _)| self.compilation.sections_of(index))
            .map(|number| number + 1)
            .collect()
    }

    /// The repository's programs.
    pub fn programs(&self) -> Programs<'a> {
        self.programs
    }
}

/// A section as it is stored.
#[derive(Clone, Copy)]
pub struct StoredSection<'a> {
    /// Nothing, if it could not be opened.
    section: Option<SectionView<'a>>,
    /// Its fixups; none if it is recorded compressed.
    pub fixups: TicketFixups<'a>,
}

impl<'a> StoredSection<'a> {
    const NONE: StoredSection<'static> = StoredSection {
        section: None,
        fixups: TicketFixups::NONE,
    };

    /// How many bytes the section has.
    #[inline]
    pub fn size(&self) -> usize {
        self.section.map_or(0, |section| section.stored_size())
    }

    /// As many bytes as the section has, with the words of packed fixups; none if it is recorded compressed.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.section.map_or(&[], |section| section.stored)
    }
}

/// What the targets of a member's fixups mean.
#[derive(Clone, Copy)]
struct Targets<'a> {
    targets: &'a [TargetRecord],
    /// Symbols of the bindable targets, which come first.
    bindings: Bindings<'a>,
    first_section: u32,
    /// Number of the member's sections.
    section_count: u32,
}

impl Targets<'_> {
    #[inline(always)]
    fn get(&self, index: u32) -> Target {
        match self.bindings.get(index as usize) {
            Some(symbol) => Target::Symbol(symbol),
            None => self.local(index),
        }
    }

    /// The dense id of a target that is a piece. `index` may be [`FixupRecord::NO_TARGET`].
    #[inline(always)]
    fn piece(&self, index: u32) -> Option<u32> {
        let piece = self.targets.get(index as usize)?.piece()?;
        let is_bound = (index as usize) < self.bindings.len();
        (!is_bound && index != FixupRecord::NO_TARGET).then_some(piece)
    }

    #[inline]
    fn local(&self, index: u32) -> Target {
        if index == WideFixupRecord::NO_TARGET {
            return Target::Symbol(0);
        }
        match self.targets.get(index as usize) {
            Some(target)
                if target.kind() == Some(TargetKind::Section)
                    && target.value() < self.section_count =>
            {
                let first = self.first_section.wrapping_add(1);
                Target::Section(first.wrapping_add(target.value()))
            }
            Some(target) if target.kind() == Some(TargetKind::Piece) => {
                Target::Piece(target.value())
            }
            // No symbol has this number, so whoever follows it reports an error.
            _ => Target::Symbol(u32::MAX),
        }
    }

    #[inline(always)]
    fn narrow(&self, fixup: FixupRecord) -> Fixup {
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
            bindings: Bindings::NONE,
            first_section: 0,
            section_count: 0,
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
            FixupsView::Packed(fixups) => {
                (0..fixups.count()).for_each(|index| f(self.targets.narrow(fixups.at(index))));
            }
            FixupsView::Narrow(fixups) => {
                (0..fixups.count()).for_each(|index| f(self.targets.narrow(fixups.at(index))));
            }
            FixupsView::Wide(fixups) => {
                (0..fixups.len()).for_each(|index| self.get(index).into_iter().for_each(&mut f));
            }
        }
    }

    /// Gives each to `all`, in order, and its target, `distance` before, if the fixups are of a usual sort.
    #[inline(always)]
    pub fn for_each_ahead(&self, distance: usize, all: &mut impl FixupLoop) {
        match self.fixups {
            FixupsView::Packed(fixups) => self.each_ahead(fixups, distance, all),
            FixupsView::Narrow(fixups) => self.each_ahead(fixups, distance, all),
            FixupsView::Wide(_) => self.for_each(|fixup| all.each(fixup)),
        }
    }

    #[inline(always)]
    fn each_ahead(&self, fixups: impl NarrowFixups, distance: usize, all: &mut impl FixupLoop) {
        for index in 0..fixups.count() {
            if index + distance < fixups.count() {
                all.ahead(self.targets.narrow(fixups.at(index + distance)).target);
            }
            all.each(self.targets.narrow(fixups.at(index)));
        }
    }

    /// The same for fixups that are mostly about pieces: `piece` gets those, with the piece's dense id, and says whether that
    /// was all, and `rest` all others; both get what the fixups are applied `to`. Of each, `distance` before, `later` is
    /// told the target.
    #[inline(always)]
    pub fn for_each_piece<T: ?Sized>(
        &self,
        to: &mut T,
        distance: usize,
        later: impl FnMut(Target),
        piece: impl FnMut(&mut T, &FixupRecord, u32) -> bool,
        mut rest: impl FnMut(&mut T, Fixup),
    ) {
        match self.fixups {
            FixupsView::Packed(fixups) => self.each_piece(fixups, to, distance, later, piece, rest),
            FixupsView::Narrow(fixups) => self.each_piece(fixups, to, distance, later, piece, rest),
            FixupsView::Wide(_) => self.for_each(|fixup| rest(to, fixup)),
        }
    }

    #[inline(always)]
    fn each_piece<T: ?Sized>(
        &self,
        fixups: impl NarrowFixups,
        to: &mut T,
        distance: usize,
        mut later: impl FnMut(Target),
        mut piece: impl FnMut(&mut T, &FixupRecord, u32) -> bool,
        mut rest: impl FnMut(&mut T, Fixup),
    ) {
        for index in 0..fixups.count() {
            if index + distance < fixups.count() {
                let target = fixups.at(index + distance).target_and_type >> 8;
                match self.targets.bindings.get(target as usize) {
                    Some(symbol) => later(Target::Symbol(symbol)),
                    None => self
                        .targets
                        .piece(target)
                        .into_iter()
                        .for_each(|id| later(Target::Piece(id))),
                }
            }
            let fixup = fixups.at(index);
            let id = self.targets.piece(fixup.target_and_type >> 8);
            if !id.is_some_and(|id| piece(to, &fixup, id)) {
                rest(to, self.targets.narrow(fixup));
            }
        }
    }

    /// The target of the fixup of an index.
    #[inline(always)]
    pub fn target(&self, index: usize) -> Option<Target> {
        let target = match self.fixups {
            FixupsView::Packed(fixups) => {
                let record = fixups.records.get(index)?;
                fixups.unpack(*record).target()
            }
            FixupsView::Narrow(fixups) => fixups.get(index)?.target(),
            FixupsView::Wide(fixups) => Some(fixups.get(index)?.target),
        };
        Some(
            self.targets
                .get(target.unwrap_or(WideFixupRecord::NO_TARGET)),
        )
    }

    /// The fixup of an index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Fixup> {
        Some(match self.fixups {
            FixupsView::Packed(fixups) => {
                let record = fixups.records.get(index)?;
                self.targets.narrow(fixups.unpack(*record))
            }
            FixupsView::Narrow(fixups) => self.targets.narrow(*fixups.get(index)?),
            FixupsView::Wide(fixups) => self.targets.wide(fixups.get(index)?),
        })
    }

    /// The fixups from `start` up to and without `end`.
    pub fn slice(&self, start: usize, end: usize) -> Self {
        TicketFixups {
            fixups: self.fixups.slice(start, end),
            targets: self.targets,
        }
    }

    /// Puts zeros where bytes that were copied from `start` of the section on have words of packed fixups.
    pub fn clear_places(&self, start: u64, bytes: &mut [u8]) {
        if let FixupsView::Packed(fixups) = self.fixups {
            for record in fixups.records {
                let at = u64::from(record.offset()).checked_sub(start);
                let at = at.and_then(|at| usize::try_from(at).ok());
                let place = at.and_then(|at| bytes.get_mut(at..)?.first_chunk_mut());
                if let Some(place) = place {
                    *place = [0; 4];
                }
            }
        }
    }
}

/// Fixups whose numbers fit [`FixupRecord`]s, in either form, for loops of which every instruction counts.
trait NarrowFixups: Copy {
    /// How many there are.
    fn count(self) -> usize;

    /// One of them; `index` is below their number.
    fn at(self, index: usize) -> FixupRecord;
}

impl NarrowFixups for &[FixupRecord] {
    #[inline(always)]
    fn count(self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn at(self, index: usize) -> FixupRecord {
        self[index]
    }
}

impl NarrowFixups for PackedFixups<'_> {
    #[inline(always)]
    fn count(self) -> usize {
        self.records.len()
    }

    #[inline(always)]
    fn at(self, index: usize) -> FixupRecord {
        self.unpack(self.records[index])
    }
}
