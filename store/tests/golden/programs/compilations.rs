//! Compilations (section 19): as they are, compressed, or as a difference to another one.

use super::fragments::checked_range;
use super::*;

/// Section 19.
pub struct Compilation {
    pub numbers: Numbers,
    pub members: Vec<Member>,
    pub symbols: Vec<Symbol>,
    /// Signature and flags.
    pub groups: Vec<(u32, u32)>,
    pub bindings: Vec<u32>,
    pub shapes: Vec<Shape>,
    pub sections: Vec<Placed>,
    pub pieces: Vec<u32>,
    pub uses: Vec<u8>,
}

pub struct Numbers {
    pub first_global: u32,
    pub flags: u32,
    pub machine: u16,
    pub os_abi: u8,
    pub abi_version: u8,
    pub bits: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub fragment: u64,
    pub first_section: u32,
    pub first_binding: u32,
    pub suffix: u32,
    pub group: u32,
    pub first_piece: u32,
    pub bits: u32,
}

pub struct Symbol {
    pub name: u32,
    pub section: u32,
    pub value: u64,
    pub size: u64,
    pub info: u8,
    pub other: u8,
    pub bits: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub name: u32,
    pub type_: u32,
    pub flags: u32,
    pub entsize: u32,
    pub kind: u8,
    pub bits: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub size: u32,
    pub member: u32,
    pub cie: u32,
    pub shape: u32,
    pub alignment: u32,
    pub bits: u32,
}

impl Programs {
    pub fn compilation(&self, address: u64) -> Compilation {
        let whole = self.whole_value(address);
        let mut cursor = Cursor::new(&whole);
        let [
            members,
            sections,
            symbols,
            first_global,
            groups,
            bindings,
            wide,
            flags,
        ] = [(); 8].map(|()| cursor.u32());
        let machine = cursor.u16();
        let (os_abi, abi_version) = (cursor.u8(), cursor.u8());
        let [bits, shapes, pieces, crc] = [(); 4].map(|()| cursor.u32());
        cursor.zeros(4);
        let mut checked = Vec::new();
        let members_at = cursor.at;
        let members: Vec<_> = (0..members)
            .map(|_| Member {
                fragment: cursor.u64(),
                first_section: cursor.u32(),
                first_binding: cursor.u32(),
                suffix: cursor.u32(),
                group: cursor.u32(),
                first_piece: cursor.u32(),
                bits: cursor.u32(),
            })
            .collect();
        checked.extend_from_slice(&cursor.bytes[members_at..cursor.at]);
        cursor.align(8);
        let recorded: Vec<_> = (0..symbols)
            .map(|_| {
                let [name, section, value, size] = [(); 4].map(|()| cursor.u32());
                (
                    name,
                    section,
                    value,
                    size,
                    cursor.u8(),
                    cursor.u8(),
                    cursor.u16(),
                )
            })
            .collect();
        cursor.align(8);
        let groups: Vec<_> = (0..groups).map(|_| (cursor.u32(), cursor.u32())).collect();
        cursor.align(8);
        let binding = |cursor: &mut Cursor<'_>| match symbols > 65536 {
            true => cursor.u32(),
            false => cursor.u16().into(),
        };
        let bindings: Vec<_> = (0..bindings).map(|_| binding(&mut cursor)).collect();
        cursor.align(8);
        let wide: Vec<_> = (0..wide).map(|_| cursor.u64()).collect();
        cursor.align(8);
        let shapes_at = cursor.at;
        let shapes: Vec<_> = (0..shapes)
            .map(|_| {
                let shape = Shape {
                    name: cursor.u32(),
                    type_: cursor.u32(),
                    flags: cursor.u32(),
                    entsize: cursor.u32(),
                    kind: cursor.u8(),
                    bits: cursor.u8(),
                };
                cursor.zeros(2);
                shape
            })
            .collect();
        checked.extend_from_slice(&cursor.bytes[shapes_at..cursor.at]);
        cursor.align(8);
        let sections_at = cursor.at;
        let sections: Vec<_> = (0..sections)
            .map(|_| {
                let [size, member, cie, word] = [(); 4].map(|()| cursor.u32());
                Placed {
                    size,
                    member,
                    cie,
                    shape: word >> 10,
                    alignment: word >> 4 & 63,
                    bits: word & 15,
                }
            })
            .collect();
        checked.extend_from_slice(&cursor.bytes[sections_at..cursor.at]);
        cursor.align(8);
        let pieces_at = cursor.at;
        let pieces: Vec<_> = (0..pieces).map(|_| cursor.u32()).collect();
        checked.extend_from_slice(&cursor.bytes[pieces_at..cursor.at]);
        cursor.align(8);
        let uses = cursor.bytes(bindings.len()).to_vec();
        checked.extend_from_slice(&uses);
        cursor.end();
        let range = (checked_range(&checked), crc);
        assert_eq!(range.0, range.1, "{address:#x}: the outline's CRC");

        let symbols: Vec<_> = (recorded.into_iter())
            .map(|(name, section, value, size, info, other, bits)| {
                let (value, size) = match bits & 1 != 0 {
                    true => {
                        assert_eq!(size, 0);
                        (wide[value as usize], wide[value as usize + 1])
                    }
                    false => (value.into(), size.into()),
                };
                Symbol {
                    name,
                    section,
                    value,
                    size,
                    info,
                    other,
                    bits,
                }
            })
            .collect();
        let compilation = Compilation {
            numbers: Numbers {
                first_global,
                flags,
                machine,
                os_abi,
                abi_version,
                bits,
            },
            members,
            symbols,
            groups,
            bindings,
            shapes,
            sections,
            pieces,
            uses,
        };
        self.check_symbols(&compilation);
        compilation
    }

    pub(super) fn check_symbols(&self, compilation: &Compilation) {
        let first_global = compilation.numbers.first_global as usize;
        assert!((1..=compilation.symbols.len()).contains(&first_global));
        let null = &compilation.symbols[0];
        assert_eq!(
            (null.name, null.section, null.value, null.size, null.info),
            (0, 0, 0, 0, 0)
        );
        let is_section_symbol = |symbol: &Symbol| symbol.info == 3 && symbol.value == 0;
        let mut bound = vec![false; compilation.symbols.len()];
        for &symbol in &compilation.bindings {
            bound[symbol as usize] = true;
        }
        let mut have_been = false;
        for (number, symbol) in compilation.symbols.iter().enumerate() {
            self.name(symbol.name);
            assert_eq!(
                number < first_global,
                symbol.info >> 4 == 0,
                "local symbols come first"
            );
            let is_in_piece = symbol.bits & 2 != 0;
            if is_in_piece {
                self.piece(symbol.section);
                assert!(number < first_global && !bound[number]);
            } else if symbol.section < 0xffff_ff00 {
                assert!(symbol.section as usize <= compilation.sections.len());
            } else {
                assert!(matches!(symbol.section, 0xffff_fff1 | 0xffff_fff2));
            }
            if number > 0 && number < first_global && is_section_symbol(symbol) {
                have_been = true;
                assert!(
                    bound[number],
                    "only those are there to which something is bound"
                );
            } else {
                assert!(
                    !have_been || number >= first_global,
                    "section symbols come after local ones"
                );
            }
        }
        for member in &compilation.members {
            self.name(member.suffix);
            assert!(member.group as usize <= compilation.groups.len());
        }
        for (signature, _) in &compilation.groups {
            self.name(*signature);
        }
    }

    /// Section 19, "Compressed": the value of a compilation that is not recorded as a difference.
    pub(super) fn base_value(&self, address: u64) -> Vec<u8> {
        let value = self.value(address, 3);
        let mut cursor = Cursor::new(value);
        let marker = cursor.u32();
        assert_ne!(marker, u32::MAX, "the base is a difference");
        if marker != u32::MAX - 1 {
            return value.to_vec();
        }
        cursor.zeros(4);
        let mut whole = cursor.bytes(56).to_vec();
        let mut head = Cursor::new(&whole);
        let [members, sections, symbols, _, groups, bindings, wide, _] =
            [(); 8].map(|()| head.u32() as usize);
        head.bytes(8);
        let [shapes, pieces] = [(); 2].map(|()| head.u32() as usize);
        let all = u32::MAX;
        let lists = [
            (members, 8, all),
            (symbols, 5, all),
            (groups, 2, all),
            (bindings, 1, 0),
            (wide, 2, 0),
            (shapes, 5, all),
            (sections, 4, all),
            (pieces, 1, all),
        ];
        let size = bindings
            + lists
                .iter()
                .map(|(count, width, _)| 4 * count * width)
                .sum::<usize>();
        let planes = lz4(cursor.rest(), size);
        let mut planes = Cursor::new(&planes);
        for (number, (count, width, differences)) in lists.into_iter().enumerate() {
            whole.resize(whole.len().next_multiple_of(8), 0);
            for word in take_planes(&mut planes, count, width, differences) {
                match number == 3 && symbols <= 65536 {
                    true => whole.extend_from_slice(&u16::try_from(word).unwrap().to_le_bytes()),
                    false => whole.extend_from_slice(&word.to_le_bytes()),
                }
            }
        }
        whole.resize(whole.len().next_multiple_of(8), 0);
        whole.extend_from_slice(planes.rest());
        whole
    }

    /// Section 19, "Differences": the value of a compilation however it is recorded.
    pub(super) fn whole_value(&self, address: u64) -> Vec<u8> {
        let value = self.value(address, 3);
        let mut cursor = Cursor::new(value);
        if cursor.u32() != u32::MAX {
            return self.base_value(address);
        }
        cursor.zeros(4);
        let (base_at, check) = (cursor.u64(), cursor.u64());
        assert!(base_at < address);
        let base = self.base_value(base_at);
        let base = &base[..];
        let head = cursor.bytes(56);
        // Element sizes in the order of the value, and for each the list whose runs it has.
        let lists = |head: &[u8]| {
            let count =
                |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap()) as usize;
            let binding = if count(8) > 65536 { 4 } else { 2 };
            [
                (count(0), 32, 0),
                (count(8), 20, 1),
                (count(16), 8, 2),
                (count(20), binding, 3),
                (count(24), 8, 4),
                (count(40), 20, 5),
                (count(4), 16, 6),
                (count(44), 4, 7),
                (count(20), 1, 3),
            ]
        };
        let number = |cursor: &mut Cursor<'_>| {
            let mut number = 0;
            for shift in (0..).step_by(7) {
                let byte = cursor.u8();
                number |= usize::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            number
        };
        let (mut sources, mut now) = (Vec::new(), Vec::new());
        for ((count, ..), (of_base, ..)) in lists(head).into_iter().zip(lists(base)).take(8) {
            let mut source = Vec::new();
            while source.len() < count {
                let (start, length) = (number(&mut cursor), number(&mut cursor));
                assert!(length > 0);
                source.extend((0..length).map(|index| (start > 0).then(|| start - 1 + index)));
            }
            assert_eq!(source.len(), count);
            let mut places: Vec<u32> = Vec::new();
            for index in 0..of_base {
                let place = source.iter().rposition(|source| *source == Some(index));
                let next = places.last().map_or(0, |last| last + 1);
                places.push(place.map_or(next, |place| place as u32));
            }
            places.push(count as u32);
            sources.push(source);
            now.push(places);
        }
        let translate =
            |list: usize, index: u32| now[list].get(index as usize).copied().unwrap_or(index);
        let one_more = |list: usize, number: u32| match number {
            0 => 0,
            number if number as usize >= now[list].len() => number,
            number => translate(list, number - 1) + 1,
        };
        let mut value = head.to_vec();
        let mut base_start = 56;
        for ((_, size, list), (of_base, base_size, _)) in lists(head).into_iter().zip(lists(base)) {
            value.resize(value.len().next_multiple_of(8), 0);
            base_start = usize::next_multiple_of(base_start, 8);
            let is_uses = size == 1;
            for source in &sources[list] {
                let Some(source) = source else {
                    value.resize(value.len() + size, 0);
                    continue;
                };
                let from = base_start + source * base_size;
                let mut element = base[from..from + base_size].to_vec();
                let word = |element: &[u8], at: usize| {
                    u32::from_le_bytes(element[at..at + 4].try_into().unwrap())
                };
                let mut set = |at: usize, word: u32| {
                    element[at..at + 4].copy_from_slice(&word.to_le_bytes());
                };
                let old = base[from..from + base_size].to_vec();
                match list {
                    0 => {
                        set(8, translate(6, word(&old, 8)));
                        set(12, translate(3, word(&old, 12)));
                        set(20, one_more(2, word(&old, 20)));
                        set(24, translate(7, word(&old, 24)));
                    }
                    1 if old[18] & 2 == 0 => set(4, one_more(6, word(&old, 4))),
                    3 if !is_uses => {
                        let mut wide = [0; 4];
                        wide[..base_size].copy_from_slice(&old);
                        let symbol = translate(1, u32::from_le_bytes(wide));
                        element = symbol.to_le_bytes()[..size].to_vec();
                    }
                    6 => {
                        let shape = word(&old, 12);
                        set(4, translate(0, word(&old, 4)));
                        if shape & 4 != 0 {
                            set(8, translate(6, word(&old, 8)));
                        }
                        set(12, translate(5, shape >> 10) << 10 | shape & 1023);
                    }
                    _ => {}
                }
                value.extend(element);
            }
            base_start += of_base * base_size;
        }
        let mut at = 56;
        while cursor.at < cursor.bytes.len() {
            at += number(&mut cursor);
            let count = number(&mut cursor);
            value[at..at + count].copy_from_slice(cursor.bytes(count));
            at += count;
        }
        assert_eq!(xxhash_rust::xxh3::xxh3_64(&value), check, "{address:#x}");
        value
    }

    pub(super) fn compilation_digest(&self, compilation: &Compilation) -> Key {
        let numbers = &compilation.numbers;
        let mut digested = Digested::default();
        digested.numbers(&[
            compilation.members.len() as u32,
            compilation.symbols.len() as u32,
            numbers.first_global,
            compilation.groups.len() as u32,
            compilation.bindings.len() as u32,
            numbers.flags,
            numbers.machine.into(),
            numbers.os_abi.into(),
            numbers.abi_version.into(),
            numbers.bits,
        ]);
        for member in &compilation.members {
            digested
                .0
                .extend_from_slice(&self.record(member.fragment).1);
            digested.string(self.name(member.suffix));
            digested.numbers(&[member.group]);
        }
        for symbol in &compilation.symbols {
            digested.string(self.name(symbol.name));
            let bits = (symbol.bits & !1) as u8;
            digested
                .0
                .extend_from_slice(&[symbol.info, symbol.other, bits]);
            match bits & 2 != 0 {
                true => {
                    digested.piece(&self.piece(symbol.section));
                }
                false => digested.numbers(&[symbol.section]),
            }
            digested.long(symbol.value);
            digested.long(symbol.size);
        }
        for (signature, flags) in &compilation.groups {
            digested.string(self.name(*signature));
            digested.numbers(&[*flags]);
        }
        digested.numbers(&compilation.bindings);
        digested.digest("repo.compilation.3")
    }
}
