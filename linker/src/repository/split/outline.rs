//! What a linker wants to know of fragments before it copies them ([`format_spec::outline`]), as far as only who knows
//! relocations, instructions and frame descriptions can tell: which sections are one frame description each, which members are
//! plain, and how these use what they refer to.
//!
//! One pass over the members in order. A frame description is looked at only if its section is one record; and a member is plain
//! until something in it says otherwise. SPEC.md, section 19, has the rules.

use crate::elf::x86_64::uses::fixup_use;
use format_spec::fragment::{FIXUP_CIE, FixupRecord, SectionKind, SectionRecord, WideFixupRecord};
use format_spec::outline::usage;
use format_spec::program::MemberRecord;
use object::elf::{EM_X86_64, R_X86_64_64, R_X86_64_PC32};
use std::ops::Range;
use store::program::build::{
    Compilation, Fixups, Fragment, FrameDescription, Place, Plain, Section, Target,
};

/// What was found out of a compilation.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// By section.
    frames: Vec<Option<FrameDescription>>,
    /// By member.
    plain: Vec<Option<Plain>>,
    /// By binding.
    uses: Vec<u8>,
}

/// Completes a compilation that has all but this.
pub fn outline(compilation: &mut Compilation<'_>) {
    let found = find(compilation);
    for (section, frame) in compilation.sections.iter_mut().zip(found.frames) {
        section.frame = frame;
    }
    for (fragment, plain) in compilation.fragments.iter_mut().zip(found.plain) {
        fragment.plain = plain;
    }
    compilation.uses = found.uses;
}

/// Whether a compilation that was read from a repository has what [`outline`] would give it.
pub fn outline_is_right(compilation: &Compilation<'_>) -> bool {
    let sections = compilation.sections.iter();
    let fragments = compilation.fragments.iter();
    find(compilation)
        == Found {
            frames: sections.map(|section| section.frame).collect(),
            plain: fragments.map(|fragment| fragment.plain).collect(),
            uses: compilation.uses.clone(),
        }
}

fn find(compilation: &Compilation<'_>) -> Found {
    let mut found = Found {
        frames: Vec::with_capacity(compilation.sections.len()),
        plain: Vec::with_capacity(compilation.fragments.len()),
        uses: vec![0; compilation.bindings.len()],
    };
    let mut reached = Vec::new();
    for fragment in &compilation.fragments {
        let member = Member {
            compilation,
            fragment,
        };
        for section in member.sections() {
            found.frames.push(member.frame(section));
        }
        let uses = &mut found.uses[as_usize(&fragment.bindings)];
        let plain = member.uses(uses, &mut reached);
        if plain.is_none() {
            uses.fill(0);
        }
        found.plain.push(plain);
    }
    found
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
    /// [`PlacedSection::ONE_FDE`](format_spec::outline::PlacedSection::ONE_FDE) promises.
    fn frame(&self, section: &Section<'_>) -> Option<FrameDescription> {
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
        let has_exception_table = match table {
            None => false,
            Some(fixup) if fixup.fixup_type == R_X86_64_PC32 => {
                let number = self.section_of(fixup.target)?;
                let index = number.checked_sub(self.fragment.sections.start)?;
                let is_table = |section: &Section| section.kind == SectionKind::ExceptionTable;
                self.sections()
                    .get(index as usize)
                    .filter(|section| is_table(section))?;
                true
            }
            Some(_) => return None,
        };
        Some(FrameDescription {
            cie: self.section_of(pointer.target)?,
            has_exception_table,
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

    /// If the member is plain: how its bindings are used, in `uses`, and what else is said of it. `reached` only keeps its memory.
    fn uses(&self, uses: &mut [u8], reached: &mut Vec<bool>) -> Option<Plain> {
        let sections = self.sections();
        if self.compilation.machine != EM_X86_64 || sections.first()?.kind == SectionKind::Unwind {
            return None;
        }
        reached.clear();
        reached.resize(sections.len(), false);
        reached[0] = true;
        let mut is_absolute = false;
        let mut words: u32 = 0;
        for (index, section) in sections.iter().enumerate() {
            let is_unwind = section.kind == SectionKind::Unwind;
            if is_unwind && section.bits & (SectionRecord::CIE | SectionRecord::WHOLE_UNWIND) != 0 {
                return None;
            }
            for fixup in self.fixups(section) {
                let used = fixup_use(&section.bytes, fixup.offset, fixup.fixup_type, fixup.addend)?;
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
                    is_absolute = true;
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
        (is_countable && sections.iter().zip(&*reached).all(is_reached))
            .then_some(Plain { is_absolute, words })
    }
}

fn as_usize(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
