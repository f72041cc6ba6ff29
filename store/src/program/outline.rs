//! Making the outline of a compilation ([`format_spec::outline`]) from its fragments.
//!
//! One pass over the members in order. A section's shape is found by hash; a frame description is looked at only if its
//! section is one record; and a member is plain until something in it says otherwise.

use super::build::{Compilation, Fixups, Fragment, Place, Section, Target};
use format_spec::ids::{NameId, PieceId};
use format_spec::outline::{
    MACHINE, PlacedSection, R_X86_64_64, R_X86_64_PC32, ShapeRecord, fixup_use, usage,
};
use format_spec::program::{
    FIXUP_CIE, FixupRecord, MemberRecord, SectionKind, SectionRecord, WideFixupRecord,
};
use std::collections::HashMap;
use std::ops::Range;

/// The outline of a compilation, in the ids of one repository.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outline {
    /// What sections have in common.
    pub(super) shapes: Vec<ShapeRecord>,
    /// By section of the compilation.
    pub(super) sections: Vec<PlacedSection>,
    /// By member: its first piece, and [`MemberRecord::PLAIN`] and its like.
    pub(super) members: Vec<(u32, u32)>,
    /// The pieces that members refer to, in the order of members and their targets.
    pub(super) pieces: Vec<PieceId>,
    /// By binding: [`usage`].
    pub(super) uses: Vec<u8>,
}

/// Makes the outline. `names` and `pieces` are the ids of those of the compilation.
pub(super) fn outline(
    compilation: &Compilation<'_>,
    names: &[NameId],
    pieces: &[PieceId],
) -> Outline {
    let mut outline = Outline {
        uses: vec![0; compilation.bindings.len()],
        ..Outline::default()
    };
    let mut shapes: HashMap<ShapeRecord, u32> = HashMap::new();
    for (index, fragment) in (0..).zip(&compilation.fragments) {
        let member = Member {
            compilation,
            fragment,
        };
        let first_piece = outline.pieces.len() as u32;
        for target in member.targets() {
            if let Target::Piece(piece) = target {
                outline.pieces.push(pieces[*piece as usize]);
            }
        }
        for section in member.sections() {
            let shape = ShapeRecord {
                name: names[section.name.0 as usize],
                sh_type: section.sh_type,
                sh_flags: section.sh_flags,
                entsize: section.entsize,
                kind: section.kind as u8,
                bits: section.bits & ShapeRecord::REPEATED
                    | if fragment.group != 0 {
                        ShapeRecord::GROUPED
                    } else {
                        0
                    },
                reserved: 0,
            };
            let next = outline.shapes.len() as u32;
            let shape = *shapes.entry(shape).or_insert_with(|| {
                outline.shapes.push(shape);
                next
            });
            let mut placed = PlacedSection {
                size: section.size as u32,
                member: index,
                shape,
                cie: 0,
                align_log2: section.align_log2,
                bits: 0,
                reserved: 0,
            };
            if u32::try_from(section.size).is_err() {
                (placed.size, placed.bits) = (0, PlacedSection::LARGE);
            }
            if member.fixups(section).next().is_some() {
                placed.bits |= PlacedSection::HAS_FIXUPS;
            }
            if let Some(fde) = member.one_fde(section) {
                placed.cie = fde.cie;
                placed.bits |= PlacedSection::ONE_FDE;
                if fde.exception_table.is_some() {
                    placed.bits |= PlacedSection::HAS_LSDA;
                }
            }
            outline.sections.push(placed);
        }
        let uses =
            &mut outline.uses[fragment.bindings.start as usize..fragment.bindings.end as usize];
        let bits = match member.uses(uses) {
            Some(bits) => MemberRecord::PLAIN | bits,
            None => {
                uses.fill(0);
                0
            }
        };
        outline.members.push((first_piece, bits));
    }
    outline
}

/// What a section that is one frame description says.
struct OneFde {
    /// Number, in the compilation, of the section with its CIE.
    cie: u32,
    /// Index, in the member, of its exception table.
    exception_table: Option<u32>,
}

/// A fragment as a member of its compilation.
struct Member<'c, 'a> {
    compilation: &'c Compilation<'a>,
    fragment: &'c Fragment,
}

impl<'c, 'a> Member<'c, 'a> {
    fn sections(&self) -> &'c [Section<'a>] {
        &self.compilation.sections[as_usize(&self.fragment.sections)]
    }

    fn targets(&self) -> &'c [Target] {
        &self.compilation.targets[as_usize(&self.fragment.targets)]
    }

    /// The fixups of a section, in the wide form.
    fn fixups(&self, section: &Section<'_>) -> impl Iterator<Item = WideFixupRecord> + use<'c> {
        let (narrow, wide): (&'c [FixupRecord], &'c [WideFixupRecord]) = match &section.fixups {
            Fixups::Narrow(range) => (&self.compilation.fixups[as_usize(range)], &[]),
            Fixups::Wide(range) => (&[], &self.compilation.wide_fixups[as_usize(range)]),
        };
        narrow
            .iter()
            .map(|fixup| WideFixupRecord::from(*fixup))
            .chain(wide.iter().copied())
    }

    /// The section of the compilation that a target is, or in which the symbol is defined to which it is bound.
    fn section_of(&self, target: u32) -> Option<u32> {
        let bindings = &self.compilation.bindings[as_usize(&self.fragment.bindings)];
        if let Some(symbol) = bindings.get(target as usize) {
            return match self.compilation.symbols.get(*symbol as usize)?.place {
                Place::Section(number) => Some(number),
                _ => None,
            };
        }
        match self.targets().get(target as usize)? {
            Target::Section(index) => Some(self.fragment.sections.start + index),
            _ => None,
        }
    }

    /// What a section says if it is one FDE about the member's first section, in the form that
    /// [`PlacedSection::ONE_FDE`] promises.
    fn one_fde(&self, section: &Section<'_>) -> Option<OneFde> {
        let is_fdes = section.kind == SectionKind::Unwind
            && section.bits & (SectionRecord::CIE | SectionRecord::WHOLE_UNWIND) == 0;
        let (length, _) = section.bytes.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        // The code's extent follows its address; it is not zero.
        let extent = section.bytes.get(12..16)?;
        if !is_fdes || length.checked_add(4)? != section.bytes.len() || extent == [0; 4] {
            return None;
        }
        let mut fixups = self.fixups(section);
        let pointer = fixups.next()?;
        let code = fixups.next()?;
        let table = fixups.next();
        if fixups.next().is_some()
            || (pointer.fixup_type, pointer.offset) != (FIXUP_CIE, 4)
            || (code.fixup_type, code.offset) != (R_X86_64_PC32, 8)
            || self.section_of(code.target) != Some(self.fragment.sections.start)
        {
            return None;
        }
        let exception_table = match table {
            None => None,
            Some(fixup) if fixup.fixup_type == R_X86_64_PC32 => {
                let number = self.section_of(fixup.target)?;
                let index = number.checked_sub(self.fragment.sections.start)?;
                let is_table = |section: &Section| section.kind == SectionKind::ExceptionTable;
                self.sections()
                    .get(index as usize)
                    .filter(|section| is_table(section))?;
                Some(index)
            }
            Some(_) => return None,
        };
        Some(OneFde {
            cie: self.section_of(pointer.target)?,
            exception_table,
        })
    }

    /// Index, in the member, of the section that a target certainly is: the fragment's own, or bound to a symbol that
    /// no other file can define.
    fn own_section(&self, target: u32) -> Option<usize> {
        let bindings = &self.compilation.bindings[as_usize(&self.fragment.bindings)];
        let symbol = bindings.get(target as usize);
        if symbol.is_some_and(|symbol| *symbol >= self.compilation.first_global) {
            return None;
        }
        let range = &self.fragment.sections;
        let number = self.section_of(target)?;
        range
            .contains(&number)
            .then(|| (number - range.start) as usize)
    }

    /// If the member is plain: how its bindings are used, in `uses`, and the other bits of [`MemberRecord::bits`].
    fn uses(&self, uses: &mut [u8]) -> Option<u32> {
        let sections = self.sections();
        if self.compilation.machine != MACHINE || sections.first()?.kind == SectionKind::Unwind {
            return None;
        }
        let mut reached = vec![false; sections.len()];
        reached[0] = true;
        let mut bits = 0;
        let mut words: u32 = 0;
        for (index, section) in sections.iter().enumerate() {
            let is_unwind = section.kind == SectionKind::Unwind;
            if is_unwind && section.bits & (SectionRecord::CIE | SectionRecord::WHOLE_UNWIND) != 0 {
                return None;
            }
            for fixup in self.fixups(section) {
                let used = fixup_use(section.bytes, fixup.offset, fixup.fixup_type, fixup.addend)?;
                if is_unwind && used != 0 {
                    let described =
                        self.section_of(fixup.target) == Some(self.fragment.sections.start);
                    let table = self
                        .own_section(fixup.target)
                        .filter(|own| sections[*own].kind == SectionKind::ExceptionTable);
                    match table {
                        Some(own) => reached[own] = true,
                        None if described => {}
                        None => return None,
                    }
                } else if index == 0
                    && let Some(own) = self.own_section(fixup.target)
                {
                    reached[own] = true;
                }
                if index == 0 && fixup.fixup_type == R_X86_64_64 {
                    words += 1;
                } else if used == usage::ABSOLUTE {
                    bits |= MemberRecord::ABSOLUTE;
                }
                match uses.get_mut(fixup.target as usize) {
                    Some(binding) => *binding |= used,
                    None => {
                        self.targets().get(fixup.target as usize)?;
                        // What is no symbol has no slot.
                        if used & (usage::ADDRESS_FROM_SLOT | usage::SLOT) != 0 {
                            return None;
                        }
                    }
                }
            }
        }
        let is_reached = |(section, reached): (&Section<'_>, &bool)| {
            *reached || section.kind == SectionKind::Unwind
        };
        let is_countable = words < 1 << (u32::BITS - MemberRecord::WORDS_SHIFT);
        (is_countable && sections.iter().zip(&reached).all(is_reached))
            .then_some(bits | words << MemberRecord::WORDS_SHIFT)
    }
}

fn as_usize(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
