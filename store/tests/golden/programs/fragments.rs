//! Pieces and fragments (SPEC.md, sections 17 and 18).

use super::*;

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
    pub(super) head: usize,
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

pub(super) const COMPRESSED: u8 = 64;

/// CRC-32 of IEEE 802.3.
pub(super) fn checked_range(bytes: &[u8]) -> u32 {
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
pub(super) fn section(
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
pub(super) fn section_check(parts: [&[u8]; 2]) -> u32 {
    let mut h = 0;
    for block in parts.into_iter().flat_map(|part| part.chunks(8192)) {
        let mixed: u64 = h ^ xxhash_rust::xxh3::xxh3_64(block);
        h = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (h >> 32) as u32
}

/// The number of bits of targets, if fixups can be packed.
pub(super) fn could_be_packed(fixups: &[Fixup], bytes: &[u8], bindable: u32) -> Option<u32> {
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

impl Programs {
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

    /// Section 18, "Compressed sections": a fragment's value as it is without them, and whether it has any.
    pub(super) fn plain_fragment(&self, address: u64) -> (Vec<u8>, bool) {
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
    pub(super) fn fragment_digest(&self, address: u64) -> Key {
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
}
