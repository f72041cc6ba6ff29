//! `.note.gnu.property`: what a program needs of the processor and of the system
//! (gABI Linux extensions, "Program Property"; psABI section 4.1.2).
//!
//! Each object says what its code is made for; the linker says what holds for all
//! of it. How a property merges follows from the range that its number is in:
//!
//! | range | rule |
//! |---|---|
//! | `*_AND` (IBT and shadow stack) | the bits that all objects have; none if an object has no such property |
//! | `*_OR` (instruction sets needed) | the bits that any object has |
//! | `*_OR_AND` (instruction sets used) | the bits that any object has, if all objects have the property |
//!
//! An object without the note counts as one without properties.

use std::collections::BTreeMap;

/// Processor features that all code must support: see [`FEATURE_1_IBT`].
pub const GNU_PROPERTY_X86_FEATURE_1_AND: u32 = 0xc000_0002;
/// Instruction sets without which the program cannot run.
pub const GNU_PROPERTY_X86_ISA_1_NEEDED: u32 = 0xc000_8002;
/// Instruction sets that the program uses where the processor has them.
pub const GNU_PROPERTY_X86_ISA_1_USED: u32 = 0xc001_0002;
/// Minimum stack size.
pub const GNU_PROPERTY_STACK_SIZE: u32 = 1;
/// The program must not have copy relocations against protected symbols.
pub const GNU_PROPERTY_NO_COPY_ON_PROTECTED: u32 = 2;

/// The kernel is to seal the program's segments: their mappings and protections do not change any more.
pub const GNU_PROPERTY_MEMORY_SEAL: u32 = 3;

/// What the program needs of the dynamic linker.
pub const GNU_PROPERTY_1_NEEDED: u32 = 0xb000_8000;
/// In [`GNU_PROPERTY_1_NEEDED`]: function pointers are canonical and there are no copies of others' data.
pub const NEEDED_INDIRECT_EXTERN_ACCESS: u32 = 1;

/// In [`GNU_PROPERTY_X86_FEATURE_1_AND`]: indirect branches go to `endbr64` only.
pub const FEATURE_1_IBT: u32 = 1;
/// In [`GNU_PROPERTY_X86_FEATURE_1_AND`]: returns match calls.
pub const FEATURE_1_SHSTK: u32 = 2;

/// In [`GNU_PROPERTY_X86_FEATURE_1_AND`]: the upper 16 bits of addresses of data may hold anything.
pub const FEATURE_1_LAM_U48: u32 = 4;
/// In [`GNU_PROPERTY_X86_FEATURE_1_AND`]: the upper 7 bits but one of addresses of data may hold anything.
pub const FEATURE_1_LAM_U57: u32 = 8;

const NT_GNU_PROPERTY_TYPE_0: u32 = 5;
/// Alignment of notes and properties in ELF64, in bytes.
const ALIGN: usize = 8;

/// How properties of a number merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The largest value.
    Max,
    /// It is there if any object has it; it has no data.
    Flag,
    /// 32 bits: see the module's table.
    And,
    /// 32 bits: see the module's table.
    Or,
    /// 32 bits: see the module's table.
    OrAnd,
}

impl Rule {
    /// `None` for numbers without a meaning that is known here: dropped, as nothing
    /// can be said about the whole program.
    fn of(number: u32) -> Option<Rule> {
        Some(match number {
            GNU_PROPERTY_STACK_SIZE => Rule::Max,
            GNU_PROPERTY_NO_COPY_ON_PROTECTED | GNU_PROPERTY_MEMORY_SEAL => Rule::Flag,
            // All machines, then x86.
            0xb000_0000..=0xb000_7fff | 0xc000_0002..=0xc000_7fff => Rule::And,
            0xb000_8000..=0xb000_ffff | 0xc000_8000..=0xc000_ffff => Rule::Or,
            0xc001_0000..=0xc001_7fff => Rule::OrAnd,
            _ => return None,
        })
    }

    /// Size of the data in bytes.
    fn size(self) -> usize {
        match self {
            Rule::Max => 8,
            Rule::Flag => 0,
            Rule::And | Rule::Or | Rule::OrAnd => 4,
        }
    }
}

/// A damaged note. Offsets are from the section's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// A note or a property is longer than what is left.
    #[error("offset {offset:#x}: note extends past the end of the section")]
    Truncated {
        /// Where it starts.
        offset: usize,
    },
    /// A property's data have another size than its number demands.
    #[error("offset {offset:#x}: property {number:#x} has {size} bytes of data")]
    BadSize {
        /// Where the property starts.
        offset: usize,
        /// Its number.
        number: u32,
        /// Its size.
        size: usize,
    },
}

/// The properties of an object, or of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    values: BTreeMap<u32, u64>,
}

impl Properties {
    /// Parses a `.note.gnu.property` section. Notes of other owners or types are
    /// skipped, and so are properties of unknown numbers.
    ///
    /// # Errors
    /// If the section is damaged.
    pub fn parse(section: &[u8]) -> Result<Properties, PropertyError> {
        let mut properties = Properties::default();
        let mut offset = 0;
        while offset < section.len() {
            let truncated = PropertyError::Truncated { offset };
            let word = |at: usize| read_u32(section, offset.checked_add(at)?);
            let header = (word(0), word(4), word(8));
            let (Some(name_size), Some(desc_size), Some(note_type)) = header else {
                return Err(truncated);
            };
            let name = offset + 12;
            // The name is padded to 4 bytes, the descriptor to 8.
            let ends = || {
                let desc = name
                    .checked_add(name_size as usize)?
                    .checked_next_multiple_of(4)?;
                Some((desc, desc.checked_add(desc_size as usize)?))
            };
            let (desc, end) = ends()
                .filter(|(_, end)| *end <= section.len())
                .ok_or(truncated)?;
            let owner = &section[name..name + name_size as usize];
            if owner == b"GNU\0" && note_type == NT_GNU_PROPERTY_TYPE_0 {
                properties.parse_descriptor(&section[..end], desc)?;
            }
            offset = end.checked_next_multiple_of(ALIGN).ok_or(truncated)?;
        }
        Ok(properties)
    }

    /// Parses the properties from `offset` to the end of `note`.
    fn parse_descriptor(&mut self, note: &[u8], mut offset: usize) -> Result<(), PropertyError> {
        while offset < note.len() {
            let truncated = PropertyError::Truncated { offset };
            let header = (read_u32(note, offset), read_u32(note, offset + 4));
            let (Some(number), Some(size)) = header else {
                return Err(truncated);
            };
            let size = size as usize;
            let data = offset + 8;
            let end = data
                .checked_add(size)
                .filter(|end| *end <= note.len())
                .ok_or(truncated)?;
            if let Some(rule) = Rule::of(number) {
                if size != rule.size() {
                    return Err(PropertyError::BadSize {
                        offset,
                        number,
                        size,
                    });
                }
                let mut value = [0; 8];
                value[..size].copy_from_slice(&note[data..end]);
                self.add(rule, number, u64::from_le_bytes(value));
            }
            offset = end.checked_next_multiple_of(ALIGN).ok_or(truncated)?;
        }
        Ok(())
    }

    /// Adds a property of the same object: what two notes say holds both.
    fn add(&mut self, rule: Rule, number: u32, value: u64) {
        let old = self.values.entry(number).or_insert(value);
        *old = match rule {
            Rule::Max => value.max(*old),
            _ => value | *old,
        };
    }

    /// The value of a property, if it is there.
    pub fn get(&self, number: u32) -> Option<u64> {
        self.values.get(&number).copied()
    }

    /// Whether all bits of `mask` are in [`GNU_PROPERTY_X86_FEATURE_1_AND`].
    pub fn has_feature_1(&self, mask: u32) -> bool {
        let features = self.get(GNU_PROPERTY_X86_FEATURE_1_AND).unwrap_or(0);
        features & u64::from(mask) == u64::from(mask)
    }

    /// The bits of [`GNU_PROPERTY_X86_FEATURE_1_AND`].
    pub fn feature_1(&self) -> u32 {
        self.get(GNU_PROPERTY_X86_FEATURE_1_AND).unwrap_or(0) as u32
    }

    /// Whether there are no properties; the output then has no such section.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The section's bytes: one note, properties in ascending order. Its alignment
    /// is 8.
    pub fn to_section(&self) -> Vec<u8> {
        if self.is_empty() {
            return vec![];
        }
        let mut section = vec![0; 16];
        for (number, value) in &self.values {
            let size = Rule::of(*number).map_or(0, Rule::size);
            section.extend(number.to_le_bytes());
            section.extend((size as u32).to_le_bytes());
            section.extend(&value.to_le_bytes()[..size]);
            section.resize(section.len().next_multiple_of(ALIGN), 0);
        }
        let desc_size = section.len() as u32 - 16;
        section[..4].copy_from_slice(&4u32.to_le_bytes());
        section[4..8].copy_from_slice(&desc_size.to_le_bytes());
        section[8..12].copy_from_slice(&NT_GNU_PROPERTY_TYPE_0.to_le_bytes());
        section[12..16].copy_from_slice(b"GNU\0");
        section
    }
}

fn read_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// What the command line says about properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forced {
    /// Bits of [`GNU_PROPERTY_X86_FEATURE_1_AND`] that the output has in any case:
    /// `-z ibt`, `-z shstk`.
    pub feature_1: u32,
    /// Bits of [`GNU_PROPERTY_X86_ISA_1_NEEDED`] that are added: `-z x86-64-v3` and
    /// its like.
    pub isa_1_needed: u32,
    /// Bits of [`GNU_PROPERTY_1_NEEDED`] that are added: `-z indirect-extern-access`.
    pub needed_1: u32,
    /// [`GNU_PROPERTY_MEMORY_SEAL`]: `-z memory-seal`. What objects say of it does not matter.
    pub memory_seal: bool,
    /// The least [`GNU_PROPERTY_STACK_SIZE`], if the output has properties: `-z stack-size`.
    pub stack_size: u64,
}

/// Merges the properties of all objects of a link.
#[derive(Clone, Debug, Default)]
pub struct Merger {
    merged: Option<Properties>,
    /// An object has properties.
    seen: bool,
}

impl Merger {
    /// Adds an object; one without the note has default properties. Shared objects
    /// are not added. The order does not matter.
    pub fn add(&mut self, object: &Properties) {
        self.seen |= !object.is_empty();
        let Some(merged) = &mut self.merged else {
            self.merged = Some(object.clone());
            return;
        };
        let numbers: Vec<u32> = merged
            .values
            .keys()
            .chain(object.values.keys())
            .copied()
            .collect();
        for number in numbers {
            let Some(rule) = Rule::of(number) else {
                continue;
            };
            let value = match (rule, merged.get(number), object.get(number)) {
                (Rule::And, Some(a), Some(b)) => Some(a & b),
                (Rule::OrAnd, Some(a), Some(b)) => Some(a | b),
                (Rule::And | Rule::OrAnd, ..) => None,
                (Rule::Max, a, b) => a.max(b),
                (Rule::Or | Rule::Flag, a, b) => Some(a.unwrap_or(0) | b.unwrap_or(0)),
            };
            match value {
                Some(value) => merged.values.insert(number, value),
                None => merged.values.remove(&number),
            };
        }
    }

    /// What holds for the whole program. Properties that say nothing are left out.
    pub fn finish(self, forced: Forced) -> Properties {
        let mut merged = self.merged.unwrap_or_default();
        merged.add(
            Rule::And,
            GNU_PROPERTY_X86_FEATURE_1_AND,
            u64::from(forced.feature_1),
        );
        merged.add(
            Rule::Or,
            GNU_PROPERTY_X86_ISA_1_NEEDED,
            u64::from(forced.isa_1_needed),
        );
        merged.add(Rule::Or, GNU_PROPERTY_1_NEEDED, u64::from(forced.needed_1));
        match forced.memory_seal {
            true => merged.add(Rule::Flag, GNU_PROPERTY_MEMORY_SEAL, 0),
            false => drop(merged.values.remove(&GNU_PROPERTY_MEMORY_SEAL)),
        }
        merged
            .values
            .retain(|number, value| match Rule::of(*number) {
                Some(Rule::And | Rule::Or | Rule::Max) => *value != 0,
                rule => rule.is_some(),
            });
        if forced.stack_size > 0 && (self.seen || !merged.is_empty()) {
            merged.add(Rule::Max, GNU_PROPERTY_STACK_SIZE, forced.stack_size);
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::x86_64::test_asm;
    use proptest::prelude::*;

    const STACK: u32 = GNU_PROPERTY_STACK_SIZE;
    const FEATURE: u32 = GNU_PROPERTY_X86_FEATURE_1_AND;
    const NEEDED: u32 = GNU_PROPERTY_X86_ISA_1_NEEDED;
    const USED: u32 = GNU_PROPERTY_X86_ISA_1_USED;
    const NO_COPY: u32 = GNU_PROPERTY_NO_COPY_ON_PROTECTED;

    fn properties(values: &[(u32, u64)]) -> Properties {
        Properties {
            values: values.iter().copied().collect(),
        }
    }

    fn merge(objects: &[&[(u32, u64)]]) -> Properties {
        let mut merger = Merger::default();
        for object in objects {
            merger.add(&properties(object));
        }
        merger.finish(Forced::default())
    }

    #[test]
    fn merging() {
        let both = u64::from(FEATURE_1_IBT | FEATURE_1_SHSTK);
        assert_eq!(
            merge(&[&[(FEATURE, both)], &[(FEATURE, 2)]]),
            properties(&[(FEATURE, 2)])
        );
        assert_eq!(merge(&[&[(FEATURE, 1)], &[(FEATURE, 2)]]), properties(&[]));
        assert_eq!(merge(&[&[(FEATURE, 3)], &[]]), properties(&[]));
        assert_eq!(merge(&[&[], &[(FEATURE, 3)]]), properties(&[]));
        assert_eq!(
            merge(&[&[(NEEDED, 1)], &[], &[(NEEDED, 4)]]),
            properties(&[(NEEDED, 5)])
        );
        assert_eq!(
            merge(&[&[(USED, 1)], &[(USED, 4)]]),
            properties(&[(USED, 5)])
        );
        assert_eq!(merge(&[&[(USED, 1)], &[(USED, 4)], &[]]), properties(&[]));
        assert_eq!(
            merge(&[&[(STACK, 10)], &[], &[(STACK, 30)]]),
            properties(&[(STACK, 30)])
        );
        assert_eq!(merge(&[&[], &[(NO_COPY, 0)]]), properties(&[(NO_COPY, 0)]));
        assert_eq!(merge(&[]), properties(&[]));
    }

    #[test]
    fn forced_bits() {
        let forced = Forced {
            feature_1: FEATURE_1_IBT,
            isa_1_needed: 4,
            needed_1: 0,
            memory_seal: false,
            stack_size: 0,
        };
        let mut merger = Merger::default();
        merger.add(&properties(&[]));
        let merged = merger.finish(forced);
        assert_eq!(merged, properties(&[(FEATURE, 1), (NEEDED, 4)]));
        assert!(merged.has_feature_1(FEATURE_1_IBT));
        assert!(!merged.has_feature_1(FEATURE_1_IBT | FEATURE_1_SHSTK));
    }

    /// A note as compilers write it, in assembly.
    #[test]
    fn assembled_note() {
        let source = "
            .section .note.gnu.property,\"a\"
            .align 8
            .long 4, 32, 5
            .asciz \"GNU\"
            .long 0xc0000002, 4, 3, 0
            .long 0xc0008002, 4, 1, 0";
        let Some(object) = test_asm::assemble_section(source, ".note.gnu.property") else {
            return;
        };
        let parsed = Properties::parse(&object.bytes).unwrap();
        assert_eq!(parsed, properties(&[(FEATURE, 3), (NEEDED, 1)]));
        assert_eq!(parsed.to_section(), object.bytes);
    }

    #[test]
    fn damaged_notes() {
        let good = properties(&[(FEATURE, 3)]).to_section();
        assert_eq!(good.len(), 32);
        for len in 1..28 {
            assert!(Properties::parse(&good[..len]).is_err(), "{len}");
        }
        // The padding at the end may be missing.
        assert!(Properties::parse(&good[..12]).is_err());
        let mut bad = good.clone();
        bad[20] = 3;
        assert_eq!(
            Properties::parse(&bad),
            Err(PropertyError::BadSize {
                offset: 16,
                number: FEATURE,
                size: 3
            })
        );
        let mut bad = good.clone();
        bad[20] = 200;
        assert_eq!(
            Properties::parse(&bad),
            Err(PropertyError::Truncated { offset: 16 })
        );
        let mut bad = good.clone();
        bad[4..8].fill(0xff);
        assert_eq!(
            Properties::parse(&bad),
            Err(PropertyError::Truncated { offset: 0 })
        );
        // Another owner, another type, an unknown number.
        for (at, byte) in [(12, b'X'), (8, 1), (19, 0xe0)] {
            let mut other = good.clone();
            other[at] = byte;
            assert_eq!(Properties::parse(&other), Ok(Properties::default()));
        }
    }

    fn number() -> impl Strategy<Value = u32> {
        prop_oneof![
            Just(FEATURE),
            Just(NEEDED),
            Just(USED),
            Just(0xb000_0001u32)
        ]
    }

    fn object() -> impl Strategy<Value = Properties> {
        proptest::collection::btree_map(number(), 0u64..16, 0..4)
            .prop_map(|values| Properties { values })
    }

    proptest! {
        #[test]
        fn round_trip(object in object()) {
            prop_assert_eq!(Properties::parse(&object.to_section()), Ok(object));
        }

        #[test]
        fn order_does_not_matter(objects in proptest::collection::vec(object(), 0..5)) {
            let merge = |objects: &mut dyn Iterator<Item = &Properties>| {
                let mut merger = Merger::default();
                objects.for_each(|object| merger.add(object));
                merger.finish(Forced::default())
            };
            prop_assert_eq!(merge(&mut objects.iter()), merge(&mut objects.iter().rev()));
        }

        #[test]
        fn arbitrary_bytes(mut head in proptest::collection::vec(any::<u8>(), 0..64), note in object(), cut in 0usize..64) {
            let _ = Properties::parse(&head);
            let mut section = note.to_section();
            section.truncate(cut);
            section.append(&mut head);
            let _ = Properties::parse(&section);
        }
    }
}
