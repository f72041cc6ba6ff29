//! Properties of splitting and joining, over generated objects.
//!
//! The objects are written by the `object` crate, whose notion of an object is its own.
//! What must be kept is stated without reference to fragments: every place that is
//! relocated, with what it refers to *by content* (see [`Meaning`]), is the same in the
//! object and in what joining makes of its compilation.

use super::*;
use crate::repository::join::join;
use object::elf;
use object::read::elf::ElfFile64;
use object::write::{self, Object as Writer, Relocation, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, LittleEndian, Object as _, ObjectSection as _,
    ObjectSymbol as _, RelocationFlags, RelocationTarget, SectionFlags, SectionKind, SymbolFlags,
    SymbolKind, SymbolScope,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use store::program::Prepared;

/// A section of a generated object.
#[derive(Clone, Debug)]
struct Part {
    kind: PartKind,
    /// Whether a symbol names it; global, or local.
    symbol: Option<bool>,
    relocations: Vec<Link>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartKind {
    Text,
    Data,
    ReadOnly,
    ExceptionTable,
    Custom,
    Debug,
    Strings,
    Constants,
}

/// A relocation of a generated object.
#[derive(Clone, Debug)]
struct Link {
    slot: usize,
    to: usize,
    by_section: bool,
    addend: i64,
}

fn part() -> impl Strategy<Value = Part> {
    use PartKind::*;
    let kind = prop_oneof![
        4 => Just(Text),
        2 => Just(Data),
        3 => Just(ReadOnly),
        1 => Just(ExceptionTable),
        1 => Just(Custom),
        1 => Just(Debug),
        2 => Just(Strings),
        1 => Just(Constants),
    ];
    let link = (0..8usize, 0..24usize, any::<bool>(), 0..40i64).prop_map(
        |(slot, to, by_section, addend)| Link {
            slot,
            to,
            by_section,
            addend,
        },
    );
    (
        kind,
        proptest::option::weighted(0.6, any::<bool>()),
        proptest::collection::vec(link, 0..5),
    )
        .prop_map(|(kind, symbol, relocations)| Part {
            kind,
            symbol,
            relocations,
        })
}

const STRINGS: &[u8] = b"alpha\0beta\0\0gamma ray\0alpha\0delta\0epsilon and on\0";

fn flags(kind: PartKind) -> (u64, u64) {
    let (flags, entsize) = match kind {
        PartKind::Text => (elf::SHF_ALLOC | elf::SHF_EXECINSTR, 0),
        PartKind::Data | PartKind::Custom => (elf::SHF_ALLOC | elf::SHF_WRITE, 0),
        PartKind::ReadOnly | PartKind::ExceptionTable => (elf::SHF_ALLOC, 0),
        PartKind::Debug => (0, 0),
        PartKind::Strings => (elf::SHF_ALLOC | elf::SHF_MERGE | elf::SHF_STRINGS, 1),
        PartKind::Constants => (elf::SHF_ALLOC | elf::SHF_MERGE, 8),
    };
    (u64::from(flags), entsize)
}

/// Writes the object that `parts` describe.
fn build(parts: &[Part]) -> Vec<u8> {
    let order: Vec<usize> = (0..parts.len()).collect();
    build_in_order(parts, &order)
}

/// The same with the sections in another order.
fn build_in_order(parts: &[Part], order: &[usize]) -> Vec<u8> {
    let mut writer = Writer::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let mut symbols: Vec<Option<SymbolId>> = vec![None; parts.len()];
    let mut sections = vec![None; parts.len()];
    let undefined = writer.add_symbol(symbol_of("somewhere_else", SymbolSection::Undefined, true));
    for &index in order {
        let part = &parts[index];
        let (name, kind) = match part.kind {
            PartKind::Text => (format!(".text.f{index}"), SectionKind::Text),
            PartKind::Data => (format!(".data.d{index}"), SectionKind::Data),
            PartKind::ReadOnly => (format!(".rodata.r{index}"), SectionKind::ReadOnlyData),
            PartKind::ExceptionTable => (
                format!(".gcc_except_table.f{index}"),
                SectionKind::ReadOnlyData,
            ),
            PartKind::Custom => ("custom".into(), SectionKind::Data),
            PartKind::Debug => (format!(".debug_x{index}"), SectionKind::Debug),
            PartKind::Strings => (".rodata.str1.1".into(), SectionKind::ReadOnlyString),
            PartKind::Constants => (".rodata.cst8".into(), SectionKind::ReadOnlyData),
        };
        let section = writer.add_section(Vec::new(), name.into_bytes(), kind);
        let (sh_flags, _) = flags(part.kind);
        writer.section_mut(section).flags = SectionFlags::Elf { sh_flags };
        let bytes = match part.kind {
            PartKind::Strings => STRINGS.to_vec(),
            PartKind::Constants => (0..64u8).map(|byte| byte % 24).collect(),
            // Every section its own bytes, so that places can be told apart.
            _ => (0..64u8).map(|byte| byte ^ (index as u8)).collect(),
        };
        writer.append_section_data(section, &bytes, 8);
        let named = part.symbol.filter(|global| {
            // A global symbol keeps a mergeable section whole; that has its own test.
            !(*global && matches!(part.kind, PartKind::Strings | PartKind::Constants))
        });
        symbols[index] = named.map(|global| {
            let place = SymbolSection::Section(section);
            writer.add_symbol(symbol_of(&format!("symbol{index}"), place, global))
        });
        sections[index] = Some(section);
    }
    for &index in order {
        let part = &parts[index];
        if matches!(part.kind, PartKind::Strings | PartKind::Constants) {
            continue;
        }
        for link in &part.relocations {
            let to = link.to % (parts.len() + 1);
            let symbol = match sections.get(to).copied().flatten() {
                None => undefined,
                Some(section) => match symbols[to] {
                    Some(symbol) if !link.by_section => symbol,
                    _ => writer.section_symbol(section),
                },
            };
            writer
                .add_relocation(
                    sections[index].expect("order has every index"),
                    Relocation {
                        offset: link.slot as u64 * 8,
                        symbol,
                        addend: link.addend,
                        flags: RelocationFlags::Elf {
                            r_type: elf::R_X86_64_64,
                        },
                    },
                )
                .expect("a relocation of a known type");
        }
    }
    let mut bytes = writer.write().expect("a well-formed object");
    set_entry_sizes(&mut bytes, parts, order);
    bytes
}

fn symbol_of(name: &str, section: SymbolSection, global: bool) -> Symbol {
    Symbol {
        name: name.as_bytes().to_vec(),
        value: 0,
        size: 8,
        kind: SymbolKind::Data,
        scope: if global {
            SymbolScope::Linkage
        } else {
            SymbolScope::Compilation
        },
        weak: false,
        section,
        flags: SymbolFlags::None,
    }
}

/// The writer has no way to say `sh_entsize` of a constants' section.
fn set_entry_sizes(bytes: &mut [u8], parts: &[Part], order: &[usize]) {
    let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let headers: Vec<usize> = {
        let file = ElfFile64::<LittleEndian>::parse(&*bytes).unwrap();
        file.sections()
            .filter(|section| {
                let (merge, _) = flags(PartKind::Constants);
                matches!(section.flags(), SectionFlags::Elf { sh_flags } if sh_flags & merge == merge)
            })
            .map(|section| section.index().0)
            .collect()
    };
    let mut kinds = order
        .iter()
        .map(|index| parts[*index].kind)
        .filter(|kind| matches!(kind, PartKind::Strings | PartKind::Constants));
    for index in headers {
        let entsize = flags(kinds.next().unwrap()).1;
        let at = table + index * 64 + 56;
        bytes[at..at + 8].copy_from_slice(&entsize.to_le_bytes());
    }
}

/// What a relocated place refers to, without section and symbol numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meaning {
    /// A global symbol and an addend.
    Global(String, i64),
    /// A place in a section that has this name and these bytes.
    Place(String, Vec<u8>, i64),
    /// An element of a mergeable section, and an offset relative to it.
    Piece(Vec<u8>, i64),
}

/// Each relocated place (section name, its bytes, offset, type) and what it refers to.
fn meanings(bytes: &[u8]) -> BTreeSet<(String, Vec<u8>, u64, u32, Meaning)> {
    let file = ElfFile64::<LittleEndian>::parse(bytes).expect("a readable object");
    let name_of = |section: &object::read::elf::ElfSection64<'_, '_, LittleEndian>| {
        section.name().expect("a readable name").to_owned()
    };
    let mut meanings = BTreeSet::new();
    for section in file.sections() {
        for (offset, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                panic!("every relocation has a symbol");
            };
            let symbol = file.symbol_by_index(symbol).unwrap();
            let name = symbol.name().unwrap().to_owned();
            let addend = relocation.addend();
            let meaning = match symbol.section_index() {
                _ if symbol.is_global() => Meaning::Global(name, addend),
                None => panic!("a local symbol is defined"),
                Some(index) => {
                    let target = file.section_by_index(index).unwrap();
                    let data = target.data().unwrap();
                    let SectionFlags::Elf { sh_flags } = target.flags() else {
                        panic!("ELF flags");
                    };
                    let by_section = symbol.kind() == SymbolKind::Section;
                    let (at, rest) = if by_section {
                        (addend, 0)
                    } else {
                        (symbol.address() as i64, addend)
                    };
                    // Only what is inside may be cut; the generated objects have
                    // no other references to such sections in place.
                    if sh_flags & u64::from(elf::SHF_MERGE) != 0 {
                        piece(data, at as usize, rest, sh_flags)
                    } else {
                        Meaning::Place(name_of(&target), data.to_vec(), at + rest)
                    }
                }
            };
            let object::RelocationFlags::Elf { r_type } = relocation.flags() else {
                panic!("an ELF relocation");
            };
            let data = section.data().unwrap().to_vec();
            meanings.insert((name_of(&section), data, offset, r_type, meaning));
        }
    }
    meanings
}

fn piece(data: &[u8], at: usize, rest: i64, sh_flags: u64) -> Meaning {
    let (start, end) = if sh_flags & u64::from(elf::SHF_STRINGS) != 0 {
        let start = data[..at].iter().rposition(|byte| *byte == 0);
        let end = data[at..].iter().position(|byte| *byte == 0).unwrap();
        (start.map_or(0, |zero| zero + 1), at + end + 1)
    } else {
        (at / 8 * 8, at / 8 * 8 + 8)
    };
    Meaning::Piece(data[start..end].to_vec(), (at - start) as i64 + rest)
}

fn split_and_prepare<'a>(bytes: &'a [u8], arena: &'a Bump) -> Prepared<'a> {
    let split = split(bytes, arena).unwrap();
    assert_eq!(split.whole, None);
    Prepared::new(split.compilation).unwrap()
}

proptest! {
    /// Joining keeps the meaning of every relocation, and splitting what was joined
    /// gives the same compilation.
    #[test]
    fn joining_keeps_every_reference(parts in proptest::collection::vec(part(), 1..16)) {
        let object = build(&parts);
        let arena = Bump::new();
        let first = split_and_prepare(&object, &arena);
        let joined = join(&first.compilation).unwrap();
        prop_assert_eq!(meanings(&joined), meanings(&object));
        let second_arena = Bump::new();
        let second = split_and_prepare(&joined, &second_arena);
        prop_assert_eq!(second.digest, first.digest);
    }

    /// The order in which an object has its definitions does not matter to the fragments.
    #[test]
    fn fragments_do_not_depend_on_order(
        parts in proptest::collection::vec(part(), 2..10),
        seed in any::<u64>(),
    ) {
        let mut parts: Vec<Part> = parts;
        for (index, part) in parts.iter_mut().enumerate() {
            // What has no name belongs to others, or to all: it is in the order of the object.
            part.symbol.get_or_insert(index % 2 == 0);
            if part.kind == PartKind::Debug {
                part.kind = PartKind::Custom;
            }
        }
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|index| (*index as u64 + 1).wrapping_mul(seed | 1));
        let digests = |order: &[usize]| -> BTreeSet<_> {
            let object = build_in_order(&parts, order);
            let arena = Bump::new();
            split_and_prepare(&object, &arena).fragments.into_iter().collect()
        };
        let in_order: Vec<usize> = (0..parts.len()).collect();
        prop_assert_eq!(digests(&order), digests(&in_order));
    }

    /// Whatever is done to an object's bytes, the answer is a compilation that can be
    /// digested and joined, or an error.
    #[test]
    fn damaged_objects_are_errors(
        parts in proptest::collection::vec(part(), 1..8),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut object = build(&parts);
        for (place, value) in changes {
            let place = place.index(object.len());
            object[place] = value;
        }
        if let Some(cut) = cut {
            object.truncate(cut.index(object.len()));
        }
        let arena = Bump::new();
        if let Ok(split) = split(&object, &arena) {
            let prepared = Prepared::new(split.compilation).unwrap();
            let joined = join(&prepared.compilation).unwrap();
            let second_arena = Bump::new();
            prop_assert!(super::split(&joined, &second_arena).is_ok());
        }
    }
}

/// Every single byte of a small object, changed in several ways.
#[test]
fn every_byte_flipped() {
    let link = |slot, to, by_section, addend| Link {
        slot,
        to,
        by_section,
        addend,
    };
    let part = |kind, symbol, relocations: &[Link]| Part {
        kind,
        symbol,
        relocations: relocations.to_vec(),
    };
    let parts = [
        part(
            PartKind::Text,
            Some(true),
            &[
                link(0, 1, true, 8),
                link(1, 2, true, 7),
                link(2, 9, false, -4),
            ],
        ),
        part(PartKind::ReadOnly, None, &[link(0, 0, true, 16)]),
        part(PartKind::Strings, Some(false), &[]),
        part(PartKind::Debug, None, &[link(3, 0, true, 0)]),
    ];
    let object = build(&parts);
    for place in 0..object.len() {
        for change in [1, 0x80, 0xff] {
            let mut damaged = object.clone();
            damaged[place] ^= change;
            let arena = Bump::new();
            if let Ok(split) = split(&damaged, &arena) {
                let prepared = Prepared::new(split.compilation).unwrap();
                join(&prepared.compilation).unwrap();
            }
        }
        let arena = Bump::new();
        assert!(split(&object[..place], &arena).is_err());
    }
}

/// What is no object for us says so, and what kind of thing it is.
#[test]
fn what_is_not_splittable_says_why() {
    let arena = Bump::new();
    let reason = |bytes: &[u8]| match split(bytes, &arena) {
        Err(SplitError::NotSplittable { reason }) => reason,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was split"),
    };
    assert!(reason(b"BC\xc0\xde....").contains("bitcode"));
    assert!(reason(b"int main;").contains("ELF"));
    let mut arm = Writer::new(BinaryFormat::Elf, Architecture::Aarch64, Endianness::Little);
    arm.add_section(Vec::new(), b".text".to_vec(), SectionKind::Text);
    assert!(reason(&arm.write().unwrap()).contains("machine"));
    let mut lto = Writer::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    lto.add_section(Vec::new(), b".gnu.lto_main".to_vec(), SectionKind::Other);
    assert!(reason(&lto.write().unwrap()).contains("link-time optimisation"));
}

/// An unknown relocation type keeps the object in one piece, and joining gives it
/// back with that relocation.
#[test]
fn an_unknown_relocation_keeps_the_object_whole() {
    let mut writer = Writer::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    for name in ["one", "two"] {
        let section = writer.add_section(
            Vec::new(),
            format!(".text.{name}").into_bytes(),
            SectionKind::Text,
        );
        writer.append_section_data(section, &[0; 16], 16);
        let symbol = writer.add_symbol(symbol_of(name, SymbolSection::Section(section), true));
        let flags = RelocationFlags::Elf { r_type: 200 };
        let relocation = write::Relocation {
            offset: 4,
            symbol,
            addend: 3,
            flags,
        };
        writer.add_relocation(section, relocation).unwrap();
    }
    let object = writer.write().unwrap();
    let arena = Bump::new();
    let split = split(&object, &arena).unwrap();
    assert!(split.whole.unwrap().contains("200"));
    assert_eq!(split.compilation.fragments.len(), 1);
    let joined = join(&split.compilation).unwrap();
    assert_eq!(meanings(&joined), meanings(&object));
}

/// Anonymous sections go to the fragment that alone refers to them; several share
/// one by its content; a circle is one fragment.
#[test]
fn owners_of_anonymous_sections() {
    let part = |kind, named: bool, to: &[usize]| Part {
        kind,
        symbol: named.then_some(true),
        relocations: to
            .iter()
            .enumerate()
            .map(|(slot, to)| Link {
                slot,
                to: *to,
                by_section: true,
                addend: 8,
            })
            .collect(),
    };
    use PartKind::*;
    let parts = [
        part(Text, true, &[1, 3]),      // 0: has 1 for itself, and with it 2
        part(ReadOnly, false, &[0, 2]), // 1: a jump table, which refers back
        part(ReadOnly, false, &[]),     // 2
        part(ReadOnly, false, &[]),     // 3: shared by 0 and 4
        part(Text, true, &[3, 5]),      // 4: has the circle of 5 and 6
        part(Data, false, &[6]),        // 5
        part(Data, false, &[5]),        // 6
        part(Custom, false, &[]),       // 7: only 8 refers to it, but its place may matter
        part(Text, true, &[7]),         // 8
        part(Debug, false, &[2]),       // 9: does not count
    ];
    let object = build(&parts);
    let arena = Bump::new();
    let prepared = split_and_prepare(&object, &arena);
    let compilation = &prepared.compilation;
    let sections: Vec<Vec<String>> = compilation
        .fragments
        .iter()
        .map(|fragment| {
            fragment
                .sections
                .clone()
                .map(|section| {
                    let section = &compilation.sections[section as usize];
                    let mut name = compilation.name(section.name).to_vec();
                    if section.bits & format_spec::fragment::SectionRecord::SUFFIXED != 0 {
                        name.push(b'.');
                        name.extend_from_slice(compilation.name(fragment.suffix));
                    }
                    String::from_utf8(name).unwrap()
                })
                .collect()
        })
        .collect();
    assert_eq!(
        sections,
        [
            &[".text.f0", ".rodata.r1", ".rodata.r2"][..],
            &[".rodata.r3"],
            &[".text.f4", ".data.d5", ".data.d6"],
            &["custom"],
            &[".text.f8"],
            &[".debug_x9"],
        ]
    );
}

/// Pieces are known by content, and what cannot be cut is kept whole.
#[test]
fn mergeable_sections() {
    let to = |to, by_section, addend| Link {
        slot: 0,
        to,
        by_section,
        addend,
    };
    let text = |link| Part {
        kind: PartKind::Text,
        symbol: Some(true),
        relocations: vec![link],
    };
    let strings = |symbol| Part {
        kind: PartKind::Strings,
        symbol,
        relocations: Vec::new(),
    };
    let pieces = |parts: &[Part]| -> Vec<Vec<u8>> {
        let object = build(parts);
        let arena = Bump::new();
        let prepared = split_and_prepare(&object, &arena);
        let pieces = prepared.compilation.pieces.iter();
        pieces.map(|piece| piece.bytes.to_vec()).collect()
    };
    // By section symbol, the addend selects; equal strings are one piece.
    let both = [text(to(2, true, 0)), text(to(2, true, 25)), strings(None)];
    assert_eq!(pieces(&both), [b"alpha\0"]);
    let inside = [text(to(1, true, 8)), strings(None)];
    assert_eq!(pieces(&inside), [b"beta\0"]);
    // By a symbol, its value does, whatever the addend.
    let symbol = [text(to(1, false, 30)), strings(Some(false))];
    assert_eq!(pieces(&symbol), [b"alpha\0"]);
    // Beyond the end, or without references: whole.
    let beyond = [text(to(1, true, STRINGS.len() as i64)), strings(None)];
    assert!(pieces(&beyond).is_empty());
    let nobody = [text(to(9, true, 0)), strings(None)];
    assert!(pieces(&nobody).is_empty());
}
