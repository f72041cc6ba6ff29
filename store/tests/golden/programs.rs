//! A reader of program repositories that was written from parts 2 and 3 of SPEC.md. It uses nothing of this project.
//!
//! [`Programs::check`] holds a whole file to the specification: every record is taken apart byte by byte, every reference is
//! followed, every digest, check and outline computed again. What is wrong is a panic that says where.

#![allow(dead_code, reason = "each test uses a part of this")]

use super::reader::Reader;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

pub type Key = [u8; 32];

/// Takes a value apart from its front.
struct Cursor<'f> {
    bytes: &'f [u8],
    at: usize,
}

impl<'f> Cursor<'f> {
    fn new(bytes: &'f [u8]) -> Cursor<'f> {
        Cursor { bytes, at: 0 }
    }

    fn bytes(&mut self, count: usize) -> &'f [u8] {
        self.at += count;
        &self.bytes[self.at - count..self.at]
    }

    fn u8(&mut self) -> u8 {
        self.bytes(1)[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes(8).try_into().unwrap())
    }

    /// Seven bits a byte.
    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.u8();
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    }

    /// Section 24, "Runs".
    fn runs(&mut self, count: u64) -> Vec<u32> {
        let mut ids = Vec::new();
        while (ids.len() as u64) < count {
            let end = ids.last().map_or(0, |last| i64::from(*last) + 1);
            let number = self.number();
            let first = match number % 2 {
                0 => end + (number / 2) as i64,
                _ => end - (number / 2) as i64 - 1,
            };
            let length = self.number();
            assert!(length > 0);
            ids.extend((0..length).map(|place| first as u32 + place as u32));
        }
        assert_eq!(ids.len() as u64, count);
        ids
    }

    fn key(&mut self) -> Key {
        self.bytes(32).try_into().unwrap()
    }

    /// Goes on at a multiple of `align`, after zeros.
    fn align(&mut self, align: usize) {
        let padding = self.at.next_multiple_of(align) - self.at;
        self.zeros(padding);
    }

    fn zeros(&mut self, count: usize) {
        assert!(self.bytes(count).iter().all(|&byte| byte == 0), "not zero");
    }

    fn rest(&mut self) -> &'f [u8] {
        self.bytes(self.bytes.len() - self.at)
    }

    fn end(&self) {
        assert_eq!(self.at, self.bytes.len(), "something is left over");
    }
}

/// What is digested, section 23.
#[derive(Default)]
struct Digested(Vec<u8>);

impl Digested {
    fn numbers(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn long(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn string(&mut self, bytes: &[u8]) {
        self.numbers(&[bytes.len() as u32]);
        self.0.extend_from_slice(bytes);
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        self.string(piece.section_name);
        self.numbers(&[piece.flags, piece.entsize]);
        self.0.push(piece.alignment);
        self.string(piece.bytes);
    }

    fn digest(&self, name: &str) -> Key {
        let mut key = [0; 32];
        key[..name.len()].copy_from_slice(name.as_bytes());
        *blake3::keyed_hash(&key, &self.0).as_bytes()
    }
}

fn blake3_of(bytes: &[u8]) -> Key {
    *blake3::hash(bytes).as_bytes()
}

/// Sections 16 and 17.
fn short_key(bytes: &[u8], seed: u64) -> Key {
    let mut key = [0; 32];
    let number = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed);
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

fn check_of(bytes: &[u8]) -> u32 {
    xxhash_rust::xxh3::xxh3_64(bytes) as u32
}

/// Section 17.
pub struct Piece<'f> {
    pub section_name: &'f [u8],
    pub flags: u32,
    pub entsize: u32,
    pub alignment: u8,
    pub bytes: &'f [u8],
}

/// Section 18.
pub struct Fragment {
    pub sections: Vec<Section>,
    /// Kind and value.
    pub targets: Vec<(u32, u32)>,
    pub anonymous: Vec<u64>,
    pub bindable: u32,
    pub is_checked: bool,
    /// Where the bodies begin in the value.
    head: usize,
}

pub struct Section {
    pub name: u32,
    pub size: u64,
    pub kind: u8,
    pub type_: u32,
    pub flags: u32,
    pub entsize: u32,
    pub alignment: u8,
    pub bits: u8,
    pub target_bits: u8,
    pub link: u32,
    pub fixups: Vec<Fixup>,
    /// As the object had them.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixup {
    pub offset: u64,
    pub addend: i64,
    pub target: Option<u32>,
    pub type_: u32,
}

pub const SUFFIXED: u8 = 1;
pub const WIDE: u8 = 2;
pub const CIE: u8 = 4;
pub const WHOLE_UNWIND: u8 = 8;
pub const PACKED: u8 = 16;
pub const EXTENDED: u8 = 32;
const COMPRESSED: u8 = 64;

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

/// Section 22.
pub struct Image<'f> {
    pub options: Key,
    pub written: u64,
    pub output_size: u64,
    pub path: &'f [u8],
    /// Address of the compilation, and path.
    pub inputs: Vec<(u64, &'f [u8])>,
}

/// Section 24.
#[derive(Debug)]
pub struct Envelope<'f> {
    pub class: u8,
    pub body_version: u8,
    /// Strength and address.
    pub references: Vec<(u8, u64)>,
    pub names: Vec<u32>,
    pub pieces: Vec<u32>,
    pub body: Cow<'f, [u8]>,
}

/// What was read, in numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub names: u64,
    pub pieces: u64,
    pub fragments: u64,
    pub compressed: u64,
    pub packed: u64,
    pub narrow: u64,
    pub wide: u64,
    pub compilations: u64,
    pub members: u64,
    pub plain: u64,
    pub one_fde: u64,
    pub tickets: u64,
    pub images: u64,
    pub envelopes: u64,
}

/// The newest revision of a program repository.
pub struct Programs {
    file: Reader,
    trailer: u64,
    /// The newest records, by index and key.
    records: BTreeMap<(u8, Key), u64>,
    names: Vec<u64>,
    pieces: Vec<u64>,
}

impl Programs {
    pub fn new(bytes: Vec<u8>) -> Programs {
        let file = Reader(bytes);
        let trailer = file.state_word(512);
        let mut records = BTreeMap::new();
        let mut numbered = vec![Vec::new(); 8];
        let mut at = 4096;
        while at <= trailer {
            let (kind, slot, _, _, next) = file.item(at);
            if let Some((index, key, _)) = file.record(at) {
                records.insert((index, key), at);
            }
            if kind == 7 {
                numbered[usize::from(slot >> 5)].push(at);
            }
            at = next;
        }
        let (names, pieces) = (file.vector(trailer, 0), file.vector(trailer, 1));
        // Names and pieces are numbered in the order of the log.
        assert_eq!([&names, &pieces], [&numbered[0], &numbered[1]]);
        Programs {
            trailer,
            records,
            names,
            pieces,
            file,
        }
    }

    /// The address of a record.
    pub fn find(&self, index: u8, key: &Key) -> Option<u64> {
        self.records.get(&(index, *key)).copied()
    }

    /// The keys of an index with the addresses of their records.
    pub fn index(&self, index: u8) -> impl Iterator<Item = (Key, u64)> {
        let all = self.records.range((index, [0; 32])..=(index, [0xff; 32]));
        all.map(|((_, key), address)| (*key, *address))
    }

    pub fn vector(&self, vector: u64) -> Vec<u64> {
        self.file.vector(self.trailer, vector)
    }

    /// Index, key and value of the record at an address.
    pub fn record(&self, address: u64) -> (u8, Key, &[u8]) {
        self.file.record(address).expect("a record")
    }

    fn value(&self, address: u64, index: u8) -> &[u8] {
        let (found, _, value) = self.record(address);
        assert_eq!(found, index, "{address:#x}");
        value
    }

    /// Section 16.
    pub fn name(&self, id: u32) -> &[u8] {
        let mut cursor = Cursor::new(self.value(self.names[id as usize], 0));
        assert_eq!(cursor.u32(), id);
        cursor.rest()
    }

    pub fn piece(&self, id: u32) -> Piece<'_> {
        let mut cursor = Cursor::new(self.value(self.pieces[id as usize], 1));
        let section_name = self.name(cursor.u32());
        let flags = cursor.u32();
        assert_eq!(cursor.u32(), id);
        let (entsize, alignment) = (cursor.u16().into(), cursor.u8());
        cursor.zeros(1);
        assert!(alignment < 64);
        Piece {
            section_name,
            flags,
            entsize,
            alignment,
            bytes: cursor.rest(),
        }
    }

    /// The seed of the keys of names and pieces, sections 16 and 17.
    fn seed(&self) -> u64 {
        self.file.u64(16) ^ self.file.u64(24)
    }

    /// Section 18, "Compressed sections": a fragment's value as it is without them, and whether it has any.
    fn plain_fragment(&self, address: u64) -> (Vec<u8>, bool) {
        let value = self.value(address, 2);
        let mut cursor = Cursor::new(value);
        let first = cursor.u32();
        let (section_count, is_checked) = ((first & 0xff_ffff) as usize, first >> 24 == 1);
        let [anonymous_count, target_count, bindable] = [(); 3].map(|()| cursor.u32());
        let record_at = |number: usize| 16 + 28 * number;
        let bits_of = |number: usize| value[record_at(number) + 26];
        if !(0..section_count).any(|number| bits_of(number) & COMPRESSED != 0) {
            return (value.to_vec(), false);
        }
        cursor.bytes(28 * section_count + 4 * target_count as usize);
        if anonymous_count > 0 {
            cursor.align(8);
        }
        cursor.bytes(8 * anonymous_count as usize);
        let mut plain = value[..cursor.at].to_vec();
        if is_checked {
            let check = check_of(&value[..cursor.at]);
            assert_eq!(cursor.u32(), check, "{address:#x}: the head's check");
            plain.extend_from_slice(&[0; 4]);
        }
        for number in 0..section_count {
            let mut record = Cursor::new(&value[record_at(number)..]);
            let [small_size, _, type_, _, fixup_count, body] = [(); 6].map(|()| record.u32());
            let [kind, _, bits, target_bits] = [(); 4].map(|()| record.u8());
            let (is_wide, is_extended) = (bits & WIDE != 0, bits & EXTENDED != 0);
            let align = if is_extended || is_wide { 8 } else { 4 };
            cursor.align(align);
            assert_eq!(cursor.at, body as usize);
            plain.resize(plain.len().next_multiple_of(align), 0);
            let new_body = plain.len() as u32;
            let mut size = small_size as usize;
            let mut check = None;
            if is_extended {
                let extension = cursor.bytes(24);
                size = Cursor::new(&extension[8..]).u64() as usize;
                check = Some(Cursor::new(extension).u32());
                plain.extend_from_slice(extension);
            }
            let from = cursor.at;
            let contents = plain.len();
            let packed = bits & PACKED != 0;
            if bits & COMPRESSED == 0 {
                let each = [12, 4, 24][usize::from(packed) + 2 * usize::from(is_wide)];
                let stored = if type_ == 8 { 0 } else { size };
                plain.extend_from_slice(cursor.bytes(each * fixup_count as usize + stored));
            } else {
                assert!(![6, 7, 9].contains(&kind) && !is_wide && type_ != 8);
                let [of_fixups, of_bytes] = [(); 2].map(|()| cursor.u32() as usize);
                let count = fixup_count as usize;
                let block = cursor.bytes(of_fixups);
                let between = cursor.at;
                let bytes = cursor.bytes(of_bytes);
                if let Some(check) = check {
                    // All but the check itself.
                    let parts = [&value[from - 20..between], bytes];
                    assert_eq!(section_check(parts), check, "a compressed section's check");
                }
                assert_eq!(count == 0, of_fixups == 0);
                let planes = if count > 0 {
                    lz4(block, 12 * count)
                } else {
                    Vec::new()
                };
                let fixups = take_planes(&mut Cursor::new(&planes), count, 3, 0b001);
                let mut bytes = lz4(bytes, size);
                for fixup in fixups.chunks_exact(3) {
                    if packed {
                        let record = fixup[0] | fixup[2] << 24;
                        plain.extend_from_slice(&record.to_le_bytes());
                        let (n, target) = (u32::from(target_bits), fixup[2] >> 8);
                        let limit = 1i64 << (30 - n);
                        let word = match (-limit..limit).contains(&i64::from(fixup[1] as i32)) {
                            true => {
                                let target = if target == 0xff_ffff {
                                    (1 << n) - 1
                                } else {
                                    target
                                };
                                (fixup[1] << n | target) & !(1 << 31)
                            }
                            false => 1 << 31 | fixup[1] << 6 | (target - bindable),
                        };
                        let at = fixup[0] as usize;
                        assert_eq!(bytes[at..at + 4], [0; 4]);
                        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
                    } else {
                        fixup
                            .iter()
                            .for_each(|word| plain.extend_from_slice(&word.to_le_bytes()));
                    }
                }
                let split = plain.len();
                plain.extend_from_slice(&bytes);
                if is_extended {
                    let check = section_check([&plain[contents - 20..split], &plain[split..]]);
                    plain[contents - 24..contents - 20].copy_from_slice(&check.to_le_bytes());
                }
            }
            let at = record_at(number);
            plain[at + 20..at + 24].copy_from_slice(&new_body.to_le_bytes());
            plain[at + 26] = bits & !COMPRESSED;
        }
        cursor.end();
        if is_checked {
            let at = record_at(section_count) + 4 * target_count as usize;
            let at = match anonymous_count {
                0 => at,
                count => at.next_multiple_of(8) + 8 * count as usize,
            };
            let check = check_of(&plain[..at]);
            plain[at..at + 4].copy_from_slice(&check.to_le_bytes());
        }
        (plain, true)
    }

    pub fn fragment(&self, address: u64) -> Fragment {
        let (value, _) = self.plain_fragment(address);
        let value = &value[..];
        let mut cursor = Cursor::new(value);
        let first = cursor.u32();
        let (section_count, bits) = (first & 0xff_ffff, first >> 24);
        assert!(bits <= 1, "{address:#x}");
        let is_checked = bits == 1;
        let [anonymous_count, target_count, bindable] = [(); 3].map(|()| cursor.u32());
        let sections_at = cursor.at;
        cursor.bytes(28 * section_count as usize);
        let targets: Vec<_> = (0..target_count)
            .map(|_| cursor.u32())
            .map(|word| (word & 7, word >> 3))
            .collect();
        if anonymous_count > 0 {
            cursor.align(8);
        }
        let anonymous: Vec<_> = (0..anonymous_count).map(|_| cursor.u64()).collect();
        if is_checked {
            let check = check_of(&value[..cursor.at]);
            assert_eq!(cursor.u32(), check, "{address:#x}: the head's check");
        }
        let head = cursor.at;
        let mut records = Cursor::new(&value[sections_at..]);
        let sections = (0..section_count)
            .map(|_| section(&mut records, &mut cursor, is_checked, bindable))
            .collect::<Vec<_>>();
        cursor.end();
        let content = |section: &Section| {
            let each = if section.bits & WIDE != 0 { 24 } else { 12 };
            section.fixups.len() * each + section.bytes.len()
        };
        let contents: usize = sections.iter().map(content).sum();
        assert_eq!(is_checked, contents >= 32768, "{address:#x}");
        // Bindable targets come first; anonymous ones have their addresses, which are lower.
        for (number, (kind, value)) in targets.iter().enumerate() {
            assert!(*kind <= 5);
            assert_eq!((number as u32) < bindable, *kind <= 3, "{address:#x}");
            match kind {
                0..=2 => drop(self.name(*value)),
                3 => assert!(anonymous[*value as usize] < address),
                4 => assert!(*value < section_count),
                _ => drop(self.piece(*value)),
            }
        }
        for section in &sections {
            assert!((section.link as usize) <= targets.len());
            for fixup in &section.fixups {
                assert!(fixup.target.is_none_or(|target| target < target_count));
            }
        }
        Fragment {
            sections,
            targets,
            anonymous,
            bindable,
            is_checked,
            head,
        }
    }

    /// Section 23.
    fn fragment_digest(&self, address: u64) -> Key {
        let fragment = self.fragment(address);
        let (plain, _) = self.plain_fragment(address);
        let bodies = &plain[fragment.head..];
        let mut digested = Digested(bodies.to_vec());
        digested.numbers(&[
            fragment.sections.len() as u32,
            fragment.targets.len() as u32,
            fragment.bindable,
        ]);
        for &(kind, value) in &fragment.targets {
            digested.0.push(kind as u8);
            match kind {
                0..=2 => digested.string(self.name(value)),
                3 => {
                    let other = self.record(fragment.anonymous[value as usize]);
                    digested.0.extend_from_slice(&other.1);
                }
                4 => digested.numbers(&[value]),
                _ => {
                    digested.piece(&self.piece(value));
                }
            }
        }
        for section in &fragment.sections {
            digested.string(self.name(section.name));
            digested.long(section.size);
            digested.numbers(&[section.type_, section.flags, section.entsize]);
            let bytes = [
                section.kind,
                section.alignment,
                section.bits,
                section.target_bits,
            ];
            digested.0.extend_from_slice(&bytes);
            digested.numbers(&[section.link, section.fixups.len() as u32]);
        }
        digested.long(bodies.len() as u64);
        digested.digest("repo.fragment.4")
    }

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

    fn check_symbols(&self, compilation: &Compilation) {
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
    fn base_value(&self, address: u64) -> Vec<u8> {
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
    fn whole_value(&self, address: u64) -> Vec<u8> {
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

    fn compilation_digest(&self, compilation: &Compilation) -> Key {
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

    /// The outline made again from the members, compared with the one that is there.
    fn check_outline(&self, compilation: &Compilation, summary: &mut Summary) {
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
    fn check_bindings(&self, outlined: &Outlined<'_>) {
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

    /// Section 20: address of the compilation, when it was written, and path.
    pub fn ticket(&self, address: u64) -> (u64, u64, &[u8]) {
        let mut cursor = Cursor::new(self.value(address, 4));
        (cursor.u64(), cursor.u64(), cursor.rest())
    }

    pub fn image(&self, address: u64) -> Image<'_> {
        let mut cursor = Cursor::new(self.value(address, 6));
        let (options, written, output_size) = (cursor.key(), cursor.u64(), cursor.u64());
        let (path_size, inputs) = (cursor.u32(), cursor.u32());
        cursor.zeros(8);
        let path = cursor.bytes(path_size as usize);
        cursor.align(8);
        let inputs = (0..inputs)
            .map(|_| {
                let input = (cursor.u64(), self.name(cursor.u32()));
                cursor.zeros(4);
                input
            })
            .collect();
        cursor.end();
        Image {
            options,
            written,
            output_size,
            path,
            inputs,
        }
    }

    pub fn envelope(&self, address: u64) -> Envelope<'_> {
        let (index, _, value) = self.record(address);
        assert!(index == 5 || (7..24).contains(&index));
        let mut cursor = Cursor::new(value);
        assert_eq!(cursor.u8(), 2, "{address:#x}");
        let (class, body_version, bits) = (cursor.u8(), cursor.u8(), cursor.u8());
        assert!(bits <= 1);
        let [references, names, pieces, size] = [(); 4].map(|()| cursor.number());
        let references: Vec<_> = (0..references)
            .map(|_| {
                let number = cursor.number();
                let (strength, target) = ((number % 4) as u8, number / 4 * 8);
                assert!(strength <= 2 && target < address);
                assert!(
                    target > 0 || strength > 0,
                    "{address:#x}: a strong reference to nothing"
                );
                if target > 0 {
                    self.record(target);
                }
                (strength, target)
            })
            .collect();
        let [names, pieces] = [names, pieces].map(|count| cursor.runs(count));
        let body = match bits {
            0 => Cow::from(cursor.rest()),
            _ => Cow::from(lz4(cursor.rest(), size as usize)),
        };
        assert_eq!(body.len() as u64, size);
        if matches!(class, 2 | 3) {
            assert!(
                references
                    .iter()
                    .any(|(strength, target)| *strength == 1 && *target > 0)
            );
        }
        for name in &names {
            self.name(*name);
        }
        for piece in &pieces {
            self.piece(*piece);
        }
        Envelope {
            class,
            body_version,
            references,
            names,
            pieces,
            body,
        }
    }

    /// Section 28, "Lists of files".
    fn dependencies(&self, envelope: &Envelope<'_>) -> Vec<u8> {
        let (bits, mut text) = (envelope.body[0], envelope.body[1..].to_vec());
        assert!(bits < 4);
        let paths = envelope.names.iter().map(|name| {
            let condition = self.name(*name);
            assert_eq!(condition[0], b'F');
            &condition[33..]
        });
        let paths: Vec<_> = paths.collect();
        let mut column = text.rsplit(|byte| *byte == b'\n').next().unwrap().len();
        for path in &paths {
            if column + path.len() > 72 {
                let (end, start) = [(&b" \\\n"[..], 0), (b" \\\n ", 2)][usize::from(bits & 1)];
                text.extend_from_slice(end);
                column = start;
            }
            text.push(b' ');
            text.extend_from_slice(path);
            column += 1 + path.len();
        }
        text.push(b'\n');
        for path in paths.iter().skip(1).filter(|_| bits & 2 != 0) {
            text.extend_from_slice(path);
            text.extend_from_slice(b":\n");
        }
        text
    }

    /// Sections 21 and 26 to 33.
    fn check_kind(&self, index: u8, key: &Key, envelope: &Envelope<'_>) {
        let owners = envelope
            .references
            .iter()
            .filter(|(strength, _)| *strength == 1);
        if matches!(index, 12 | 13 | 14 | 16) {
            let mut owners = owners.filter(|(_, target)| *target > 0);
            assert!(owners.any(|(_, target)| self.record(*target).1 == *key));
        }
        // Strong references lead to what is never replaced, and to the newest of its key.
        for (strength, target) in &envelope.references {
            if *strength == 0 {
                let (of, key, _) = self.record(*target);
                assert!(!matches!(of, 4 | 6 | 7 | 8 | 12 | 13 | 14 | 16));
                assert_eq!(self.find(of, &key), Some(*target));
            }
        }
        if index == 9 && envelope.body_version == 2 {
            let digest = Digested(self.dependencies(envelope)).digest("repo.captured.1");
            assert_eq!(digest, *key);
        }
        if envelope.body_version != 1 {
            return;
        }
        let mut cursor = Cursor::new(&envelope.body);
        match index {
            5 => {
                cursor.u16();
                cursor.zeros(6);
                assert_eq!(envelope.names.len(), 1);
                assert!(
                    envelope
                        .references
                        .iter()
                        .all(|(strength, _)| *strength == 0)
                );
            }
            8 => self.check_manifest(envelope, cursor),
            9 => assert_eq!(
                Digested(envelope.body.to_vec()).digest("repo.captured.1"),
                *key
            ),
            10 => {
                let mut digested = Digested::default();
                assert_eq!(envelope.names.len(), 1);
                digested.string(self.name(envelope.names[0]));
                digested.long(cursor.u64());
                digested.long(cursor.u64());
                cursor.bytes(32);
                cursor.end();
                assert_eq!(digested.digest("repo.compiler.1"), *key);
            }
            16 => {
                cursor.u32();
                cursor.zeros(4);
                cursor.end();
                assert_eq!(envelope.references.len(), 1);
            }
            _ => {}
        }
    }

    fn check_manifest(&self, envelope: &Envelope<'_>, mut cursor: Cursor<'_>) {
        let [parts, conditions, results, _day] = [(); 4].map(|()| cursor.u32() as usize);
        assert_eq!(parts + conditions, envelope.names.len());
        let leads_to = |place: u32, index: u8| {
            let (found, target) = envelope.references[place as usize];
            assert_eq!(found, 0);
            assert_eq!(self.record(target).0, index);
        };
        for _ in 0..results {
            let [compilation, diagnostics, dependencies, files, bits] =
                [(); 5].map(|()| cursor.u32());
            cursor.zeros(4);
            assert!(compilation > 0 || files > 0);
            if compilation > 0 {
                leads_to(compilation - 1, 3);
            }
            for captured in [diagnostics, dependencies, files] {
                if captured > 0 {
                    leads_to(captured - 1, 9);
                }
            }
            assert!(bits <= 1);
        }
        for _ in 0..results {
            let words: Vec<u64> = (0..conditions.div_ceil(64)).map(|_| cursor.u64()).collect();
            let has = |number: usize| words[number / 64] >> (number % 64) & 1 != 0;
            assert!((conditions..words.len() * 64).all(|number| !has(number)));
            let names = envelope.names[parts..].iter().enumerate();
            let kinds = names.filter(|(number, _)| has(*number)).map(|(_, name)| {
                let condition = self.name(*name);
                match condition[0] {
                    b'F' | b'L' => assert!(condition.len() > 33),
                    b'A' | b'G' | b'S' | b'P' | b'V' => assert!(condition.len() > 1),
                    b'D' => assert_eq!(condition.last(), Some(&0)),
                    b'N' => assert!(condition.len() > 3),
                    kind => panic!("a condition of kind {kind}"),
                }
                condition[0]
            });
            assert!(kinds.filter(|kind| *kind == b'D').count() <= 1);
        }
        cursor.end();
    }

    /// Holds all of it to the specification.
    pub fn check(&self) -> Summary {
        let mut summary = Summary {
            names: self.names.len() as u64,
            pieces: self.pieces.len() as u64,
            ..Summary::default()
        };
        assert!(self.names.is_empty() || self.name(0).is_empty());
        let mut envelopes = 0;
        for (&(index, key), &address) in &self.records {
            // By the index as well, which leads to the same.
            let found = self.file.look_up(self.trailer, index.into(), &key);
            assert_eq!(found, Some(self.record(address).2), "{address:#x}");
            match index {
                0 => {
                    let id = u32::from_le_bytes(self.value(address, 0)[..4].try_into().unwrap());
                    assert_eq!(self.names[id as usize], address);
                    assert_eq!(short_key(self.name(id), self.seed()), key);
                }
                1 => {
                    let mut head = self.value(address, 1)[..16].to_vec();
                    let id = u32::from_le_bytes(head[8..12].try_into().unwrap());
                    assert_eq!(self.pieces[id as usize], address);
                    head[8..12].fill(0);
                    let class = xxhash_rust::xxh3::xxh3_64_with_seed(&head, self.seed());
                    assert_eq!(short_key(self.piece(id).bytes, class), key);
                }
                2 => {
                    assert_eq!(self.fragment_digest(address), key, "{address:#x}");
                    summary.fragments += 1;
                    summary.compressed += u64::from(self.plain_fragment(address).1);
                    for section in &self.fragment(address).sections {
                        match section.bits & (PACKED | WIDE) {
                            PACKED => summary.packed += 1,
                            WIDE => summary.wide += 1,
                            _ => summary.narrow += u64::from(!section.fixups.is_empty()),
                        }
                    }
                }
                3 => {
                    let compilation = self.compilation(address);
                    assert_eq!(self.compilation_digest(&compilation), key, "{address:#x}");
                    self.check_outline(&compilation, &mut summary);
                    summary.compilations += 1;
                    summary.members += compilation.members.len() as u64;
                }
                4 => {
                    let (compilation, _, path) = self.ticket(address);
                    assert_eq!(blake3_of(path), key);
                    assert!(compilation < address);
                    self.compilation(compilation);
                    summary.tickets += 1;
                }
                6 => {
                    let image = self.image(address);
                    assert_eq!(blake3_of(image.path), key);
                    for (compilation, _) in image.inputs {
                        if compilation > 0 {
                            self.compilation(compilation);
                        }
                    }
                    summary.images += 1;
                }
                _ => {
                    let envelope = self.envelope(address);
                    self.check_kind(index, &key, &envelope);
                    envelopes += 1;
                }
            }
        }
        summary.envelopes = envelopes;
        for vector in 2..8 {
            for element in self.vector(vector) {
                if element > 0 {
                    self.record(element);
                }
            }
        }
        // Section 24: the feature is set where there are some.
        let features = self.file.u64(self.trailer + 72) | self.file.u64(40);
        assert!(envelopes == 0 || features & 1 == 1);
        summary
    }
}

/// CRC-32 of IEEE 802.3.
fn checked_range(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0xEDB8_8320
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

/// Takes a section's record and its body.
fn section(
    records: &mut Cursor<'_>,
    bodies: &mut Cursor<'_>,
    is_checked: bool,
    bindable: u32,
) -> Section {
    let [small_size, name, type_, flags, fixup_count, body] = [(); 6].map(|()| records.u32());
    let [kind, alignment, bits, target_bits] = [(); 4].map(|()| records.u8());
    assert!(kind <= 10 && alignment < 64 && bits < 64);
    let (is_wide, is_packed) = (bits & WIDE != 0, bits & PACKED != 0);
    let is_extended = bits & EXTENDED != 0;
    bodies.align(if is_extended || is_wide { 8 } else { 4 });
    assert_eq!(bodies.at, body as usize);
    let (mut link, mut size, mut entsize, mut check) = (0, u64::from(small_size), 0, None);
    if is_extended {
        assert_eq!(small_size, 0);
        check = Some((bodies.u32(), bodies.at));
        (link, size, entsize) = (bodies.u32(), bodies.u64(), bodies.u32());
        bodies.zeros(4);
    }
    let must_be = link != 0 || entsize != 0 || u32::try_from(size).is_err() || is_checked;
    assert_eq!(is_extended, must_be);
    let no_target = |target: u32, none: u32| (target != none).then_some(target);
    let mut packed = Vec::new();
    let mut fixups: Vec<Fixup> = Vec::new();
    for _ in 0..fixup_count {
        if is_packed {
            packed.push(bodies.u32());
        } else if is_wide {
            fixups.push(Fixup {
                offset: bodies.u64(),
                addend: bodies.u64() as i64,
                target: no_target(bodies.u32(), u32::MAX),
                type_: bodies.u32(),
            });
        } else {
            let (offset, addend, word) = (bodies.u32(), bodies.u32() as i32, bodies.u32());
            fixups.push(Fixup {
                offset: offset.into(),
                addend: addend.into(),
                target: no_target(word >> 8, 0xff_ffff),
                type_: word & 0xff,
            });
        }
    }
    let between = bodies.at;
    // SHT_NOBITS.
    let stored = if type_ == 8 { 0 } else { size as usize };
    let mut bytes = bodies.bytes(stored).to_vec();
    if let Some((check, from)) = check {
        let parts = [&bodies.bytes[from..between], &bytes];
        assert_eq!(section_check(parts), check, "a section's check");
    }
    for record in packed {
        let offset = record & 0xff_ffff;
        let place = &mut bytes[offset as usize..offset as usize + 4];
        let word = u32::from_le_bytes((&*place).try_into().unwrap());
        place.fill(0);
        let n = u32::from(target_bits);
        let (target, addend) = match word >> 31 {
            0 => {
                let mask = (1 << n) - 1;
                // Signed, of 31 - n bits.
                let addend = (word << 1) as i32 >> (1 + n);
                (no_target(word & mask, mask), addend)
            }
            _ => {
                let target = bindable + (word & 63);
                let addend = (word & 0x7fff_ffff) >> 6;
                // What fits the first form has it.
                assert!(addend >= 1 << (30 - n), "it would fit");
                (Some(target), addend as i32)
            }
        };
        fixups.push(Fixup {
            offset: offset.into(),
            addend: addend.into(),
            target,
            type_: record >> 24,
        });
    }
    assert!(fixups.is_sorted_by_key(|fixup| fixup.offset));
    let could_be = could_be_packed(&fixups, &bytes, bindable);
    assert_eq!(is_packed, could_be.is_some() && !fixups.is_empty());
    assert_eq!(
        u32::from(target_bits),
        could_be.filter(|_| is_packed).unwrap_or(0)
    );
    let is_narrow = |fixup: &Fixup| {
        u32::try_from(fixup.offset).is_ok()
            && i32::try_from(fixup.addend).is_ok()
            && fixup.target.is_none_or(|target| target < 0xff_ffff)
            && fixup.type_ < 256
    };
    assert_eq!(is_wide, !fixups.iter().all(is_narrow));
    Section {
        name,
        size,
        kind,
        type_,
        flags,
        entsize,
        alignment,
        bits,
        target_bits,
        link,
        fixups,
        bytes,
    }
}

/// The check of a section's body.
fn section_check(parts: [&[u8]; 2]) -> u32 {
    let mut h = 0;
    for block in parts.into_iter().flat_map(|part| part.chunks(8192)) {
        let mixed: u64 = h ^ xxhash_rust::xxh3::xxh3_64(block);
        h = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (h >> 32) as u32
}

/// The bytes that an LZ4 block is of (lz4_Block_format.md).
fn lz4(block: &[u8], size: usize) -> Vec<u8> {
    let mut cursor = Cursor::new(block);
    let mut out = Vec::new();
    let length = |cursor: &mut Cursor<'_>, nibble: u8| {
        let mut length = usize::from(nibble);
        let mut more = if nibble == 15 { 255 } else { 0 };
        while more == 255 {
            more = cursor.u8();
            length += usize::from(more);
        }
        length
    };
    loop {
        let token = cursor.u8();
        let literals = length(&mut cursor, token >> 4);
        out.extend_from_slice(cursor.bytes(literals));
        if cursor.at == block.len() {
            assert_eq!(out.len(), size);
            return out;
        }
        let distance = usize::from(cursor.u16());
        assert!((1..=out.len()).contains(&distance));
        for _ in 0..length(&mut cursor, token & 15) + 4 {
            out.push(out[out.len() - distance]);
        }
    }
}

/// Section 18, "Planes": the words of a list.
fn take_planes(planes: &mut Cursor<'_>, count: usize, width: usize, differences: u32) -> Vec<u32> {
    let mut words = vec![0u32; count * width];
    for column in 0..width {
        let bytes = planes.bytes(4 * count);
        let mut before = 0u32;
        for element in 0..count {
            let word = [0, 1, 2, 3].map(|plane| bytes[plane * count + element]);
            let mut word = u32::from_le_bytes(word);
            if differences >> column & 1 == 1 {
                word = word.wrapping_add(before);
            }
            before = word;
            words[element * width + column] = word;
        }
    }
    words
}

/// The number of bits of targets, if fixups can be packed.
fn could_be_packed(fixups: &[Fixup], bytes: &[u8], bindable: u32) -> Option<u32> {
    let greatest = fixups.iter().filter_map(|fixup| fixup.target).max();
    let n = match greatest {
        Some(greatest) => 32 - (greatest + 1).leading_zeros(),
        None => 1,
    };
    if n > 24 {
        return None;
    }
    let mut free = 0;
    for fixup in fixups {
        let end = fixup.offset + 4;
        let is_free = fixup.offset >= free
            && fixup.offset < 1 << 24
            && bytes.get(fixup.offset as usize..end as usize)? == [0; 4];
        let limit = 1 << (30 - n);
        let fits = (-limit..limit).contains(&fixup.addend);
        let far = fixup.target.and_then(|target| target.checked_sub(bindable));
        let fits_far = far.is_some_and(|far| far < 64) && (0..1 << 25).contains(&fixup.addend);
        if !is_free || !(fits || fits_far) || fixup.type_ > 255 {
            return None;
        }
        free = end;
    }
    Some(n)
}

/// A member, for its outline.
struct Outlined<'c> {
    compilation: &'c Compilation,
    member: &'c Member,
    fragment: &'c Fragment,
}

const R_X86_64_64: u32 = 1;
const R_X86_64_PC32: u32 = 2;
const CIE_POINTER: u32 = 255;

impl Outlined<'_> {
    /// The symbol that a target is bound to, if it is bindable.
    fn binding(&self, target: u32) -> Option<u32> {
        (target < self.fragment.bindable)
            .then(|| self.compilation.bindings[(self.member.first_binding + target) as usize])
    }

    /// The section of the compilation that a target is, or in which the symbol is defined that it is bound to.
    fn section_of(&self, target: Option<u32>) -> Option<u32> {
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
    fn own(&self, section: Option<u32>) -> Option<usize> {
        let own = section?.checked_sub(self.member.first_section)? as usize;
        (own < self.fragment.sections.len()).then_some(own)
    }

    /// The section of the CIE, and whether there is an exception table, of what is one FDE.
    fn frame(&self, section: &Section) -> Option<(u32, bool)> {
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
    fn use_of(&self, section: &Section, fixup: &Fixup) -> Option<u8> {
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
    fn plain(&self) -> Option<(u32, Vec<u8>)> {
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
