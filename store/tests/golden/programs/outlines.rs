//! Whether a compilation's outline is that of its fragments.

use super::*;

const R_X86_64_64: u32 = 1;
const R_X86_64_PC32: u32 = 2;
const CIE_POINTER: u32 = 255;

/// A member, for its outline.
pub(super) struct Outlined<'c> {
    pub(super) compilation: &'c Compilation,
    pub(super) member: &'c Member,
    pub(super) fragment: &'c Fragment,
}

impl Outlined<'_> {
    /// The symbol that a target is bound to, if it is bindable.
    pub(super) fn binding(&self, target: u32) -> Option<u32> {
        (target < self.fragment.bindable)
            .then(|| self.compilation.bindings[(self.member.first_binding + target) as usize])
    }

    /// The section of the compilation that a target is, or in which the symbol is defined that it is bound to.
    pub(super) fn section_of(&self, target: Option<u32>) -> Option<u32> {
        let target = target?;
        let Some(symbol) = self.binding(target) else {
            let (kind, value) = self.fragment.targets[target as usize];
            return (kind == 4).then(|| self.member.first_section + value);
        };
        let symbol = &self.compilation.symbols[symbol as usize];
        let is_in_section =
            symbol.bits & 2 == 0 && symbol.section > 0 && symbol.section < 0xffff_ff00;
        is_in_section.then(|| symbol.section - 1)
    }

    /// Which section of the member that is, if it is one of it.
    pub(super) fn own(&self, section: Option<u32>) -> Option<usize> {
        let own = section?.checked_sub(self.member.first_section)? as usize;
        (own < self.fragment.sections.len()).then_some(own)
    }

    /// The section of the CIE, and whether there is an exception table, of what is one FDE.
    pub(super) fn frame(&self, section: &Section) -> Option<(u32, bool)> {
        let is_fdes = section.kind == 6 && section.bits & (CIE | WHOLE_UNWIND) == 0;
        if !is_fdes || section.bytes.len() < 16 {
            return None;
        }
        let length = u32::from_le_bytes(section.bytes[..4].try_into().unwrap());
        if u64::from(length) + 4 != section.size || section.bytes[12..16] == [0; 4] {
            return None;
        }
        let (pointer, code, table) = match section.fixups[..] {
            [pointer, code] => (pointer, code, None),
            [pointer, code, table] => (pointer, code, Some(table)),
            _ => return None,
        };
        let first = Some(self.member.first_section);
        if (pointer.type_, pointer.offset) != (CIE_POINTER, 4)
            || (code.type_, code.offset) != (R_X86_64_PC32, 8)
            || self.section_of(code.target) != first
        {
            return None;
        }
        if let Some(table) = table {
            let own = self.own(self.section_of(table.target))?;
            if table.type_ != R_X86_64_PC32 || self.fragment.sections[own].kind != 7 {
                return None;
            }
        }
        Some((self.section_of(pointer.target)?, table.is_some()))
    }

    /// The use of a fixup, if there is one for it.
    pub(super) fn use_of(&self, section: &Section, fixup: &Fixup) -> Option<u8> {
        let is_bound = fixup.target? < self.fragment.bindable;
        let before = |distance: u64| {
            let at = fixup.offset.checked_sub(distance)?;
            section.bytes.get(at as usize).copied()
        };
        let modrm_is_right = before(1).is_some_and(|modrm| modrm & !0x38 == 5);
        Some(match fixup.type_ {
            CIE_POINTER => 0,
            0 | 2 | 24 => 1,
            4 => 2,
            41 => {
                let is_indirect = before(2) == Some(0xff) && matches!(before(1), Some(0x15 | 0x25));
                let is_load = before(2) == Some(0x8b) && modrm_is_right;
                if fixup.addend != -4 || !is_bound || !(is_indirect || is_load) {
                    return None;
                }
                4
            }
            42 => {
                let has_rex = matches!(before(3), Some(0x40..=0x4f));
                let is_load = before(2) == Some(0x8b) && modrm_is_right;
                if fixup.addend != -4 || !is_bound || !has_rex || !is_load {
                    return None;
                }
                4
            }
            1 | 10 | 11 => 8,
            9 if is_bound => 16,
            _ => return None,
        })
    }

    /// The bits and uses of a plain member.
    pub(super) fn plain(&self) -> Option<(u32, Vec<u8>)> {
        let sections = &self.fragment.sections;
        if self.compilation.numbers.machine != 62 || sections.first()?.kind == 6 {
            return None;
        }
        // Whether a section is referred to by the first one or a frame description.
        let mut is_mentioned = vec![false; sections.len()];
        let mut uses = vec![0; self.fragment.bindable as usize];
        let (mut words, mut is_absolute) = (0, false);
        for (number, section) in sections.iter().enumerate() {
            if section.kind == 6 && section.bits & (CIE | WHOLE_UNWIND) != 0 {
                return None;
            }
            for fixup in &section.fixups {
                let usage = self.use_of(section, fixup)?;
                let target = fixup.target?;
                if target < self.fragment.bindable {
                    uses[target as usize] |= usage;
                }
                if number == 0 && fixup.type_ == R_X86_64_64 {
                    words += 1;
                } else if usage == 8 {
                    is_absolute = true;
                }
                let own = self.own(self.section_of(fixup.target));
                if section.kind == 6 && fixup.type_ != CIE_POINTER {
                    match own {
                        Some(own) if own == 0 || sections[own].kind == 7 => {
                            is_mentioned[own] = true
                        }
                        _ => return None,
                    }
                }
                let is_global = (self.binding(target))
                    .is_some_and(|symbol| symbol >= self.compilation.numbers.first_global);
                if number == 0
                    && !is_global
                    && let Some(own) = own
                {
                    is_mentioned[own] = true;
                }
            }
        }
        let others = sections.iter().zip(is_mentioned).skip(1);
        let mut others = others.filter(|(section, _)| section.kind != 6);
        if !others.all(|(_, is_mentioned)| is_mentioned) || words >= 1 << 24 {
            return None;
        }
        Some((1 | u32::from(is_absolute) << 1 | words << 8, uses))
    }
}

impl Programs {
    /// The outline made again from the members, compared with the one that is there.
    pub(super) fn check_outline(&self, compilation: &Compilation, summary: &mut Summary) {
        let fragments: Vec<_> = (compilation.members.iter())
            .map(|member| self.fragment(member.fragment))
            .collect();
        let mut shapes = Vec::new();
        let mut shape_of = HashMap::new();
        let (mut sections, mut pieces, mut bindings) = (0, 0, 0);
        for (number, (member, fragment)) in compilation.members.iter().zip(&fragments).enumerate() {
            let outlined = Outlined {
                compilation,
                member,
                fragment,
            };
            assert_eq!(
                (
                    member.first_section,
                    member.first_binding,
                    member.first_piece
                ),
                (sections, bindings, pieces)
            );
            for section in &fragment.sections {
                let grouped = if member.group > 0 { 128 } else { 0 };
                let shape = Shape {
                    name: section.name,
                    type_: section.type_,
                    flags: section.flags,
                    entsize: section.entsize,
                    kind: section.kind,
                    bits: section.bits & (SUFFIXED | CIE | WHOLE_UNWIND) | grouped,
                };
                let key = (
                    shape.name,
                    shape.type_,
                    shape.flags,
                    shape.entsize,
                    shape.kind,
                    shape.bits,
                );
                let index = *shape_of.entry(key).or_insert_with(|| {
                    shapes.push(shape);
                    shapes.len() as u32 - 1
                });
                let frame = outlined.frame(section);
                summary.one_fde += u64::from(frame.is_some());
                let size = u32::try_from(section.size);
                let bits = u32::from(!section.fixups.is_empty())
                    | u32::from(size.is_err()) << 1
                    | u32::from(frame.is_some()) << 2
                    | u32::from(frame.is_some_and(|(_, has_table)| has_table)) << 3;
                let expected = Placed {
                    size: size.unwrap_or(0),
                    member: number as u32,
                    cie: frame.map_or(0, |(cie, _)| cie),
                    shape: index,
                    alignment: section.alignment.into(),
                    bits,
                };
                assert_eq!(
                    compilation.sections[sections as usize], expected,
                    "member {number}"
                );
                sections += 1;
            }
            for (kind, value) in &fragment.targets {
                if *kind == 5 {
                    assert_eq!(compilation.pieces[pieces as usize], *value);
                    pieces += 1;
                }
            }
            let plain = outlined.plain();
            let (bits, expected) = match &plain {
                Some((bits, uses)) => (*bits, uses.clone()),
                None => (0, vec![0; fragment.bindable as usize]),
            };
            summary.plain += u64::from(plain.is_some());
            assert_eq!(member.bits, bits, "member {number}");
            let end = bindings + fragment.bindable;
            assert_eq!(
                compilation.uses[bindings as usize..end as usize],
                expected,
                "member {number}"
            );
            self.check_bindings(&outlined);
            bindings = end;
        }
        assert_eq!(compilation.shapes, shapes);
        assert_eq!(compilation.sections.len(), sections as usize);
        assert_eq!(compilation.pieces.len(), pieces as usize);
        assert_eq!(compilation.bindings.len(), bindings as usize);
    }

    /// What targets are bound to: symbols of their name, or section symbols.
    pub(super) fn check_bindings(&self, outlined: &Outlined<'_>) {
        let compilation = outlined.compilation;
        for number in 0..outlined.fragment.bindable {
            let symbol = outlined.binding(number).expect("bindable");
            let is_local = symbol < compilation.numbers.first_global;
            let symbol = &compilation.symbols[symbol as usize];
            let (kind, value) = outlined.fragment.targets[number as usize];
            match kind {
                0 | 1 => {
                    assert_eq!(is_local, kind == 1);
                    assert_eq!(self.name(symbol.name), self.name(value));
                }
                _ => {
                    assert!(is_local && symbol.info == 3 && symbol.value == 0);
                    if kind == 3 {
                        let section = &compilation.sections[symbol.section as usize - 1];
                        let member = &compilation.members[section.member as usize];
                        let anonymous = outlined.fragment.anonymous[value as usize];
                        assert_eq!(member.fragment, anonymous);
                    }
                }
            }
        }
    }
}
