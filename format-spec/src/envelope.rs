//! The envelope: what a program can know of a record whose kind it does not know (SPEC.md, section 24).
//!
//! All kinds of records that come to the program model are written in one: the value begins with what the record
//! refers to and how long it lives, in a form that is the same for all of them; the body, which only those look into who know the
//! kind, refers to others by their places in these lists. So a compactor can find out what is live, copy it, and
//! translate addresses and ids, without knowing what any of it means.
//!
//! Most of what is in these lists is like what is beside it, so a value has them *packed*, as numbers and runs. Programs use the plain form
//! of the value:
//!
//! ```text
//! EnvelopeHeader │ references (8 bytes each) │ names (4 each) │ pieces (4 each) │ zeros to a multiple of 8 │ body
//! ```

use crate::file::{LOG_OFFSET, MAX_ADDRESS};
use crate::ids::{Address, NameId, PieceId};
use bytemuck::{Pod, Zeroable};

/// Head of the plain form of a value in an envelope.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct EnvelopeHeader {
    /// [`EnvelopeHeader::VERSION`].
    pub version: u8,
    /// A [`Class`], or one that is not known.
    pub class: u8,
    /// Version of the body; what the numbers mean is up to the kind.
    pub body_version: u8,
    /// Zero.
    pub reserved: u8,
    /// Number of [`Reference`]s.
    pub reference_count: u32,
    /// Number of names.
    pub name_count: u32,
    /// Number of pieces.
    pub piece_count: u32,
}

impl EnvelopeHeader {
    /// The version of the envelope that this crate writes and reads.
    pub const VERSION: u8 = 2;
}

/// For how long a record is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// As long as something that is kept refers to it strongly.
    Needed = 0,
    /// Always.
    Root = 1,
    /// As long as all its owners are kept, or it is needed.
    AttachedToAll = 2,
    /// As long as one of its owners is kept, or it is needed.
    AttachedToAny = 3,
    /// As long as it is used: until a compactor finds that its last use is too long ago. One that does not look keeps it.
    Cached = 4,
}

impl Class {
    /// The class of this number; `None` if it is not known: then everything is kept, and all references are strong.
    pub const fn of(number: u8) -> Option<Class> {
        Some(match number {
            0 => Class::Needed,
            1 => Class::Root,
            2 => Class::AttachedToAll,
            3 => Class::AttachedToAny,
            4 => Class::Cached,
            _ => return None,
        })
    }

    /// Whether it lives as long as its owners, of which it must have one.
    pub const fn is_attached(self) -> bool {
        matches!(self, Class::AttachedToAll | Class::AttachedToAny)
    }
}

/// What a reference does for the record that it leads to, and what is done if that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Strength {
    /// The referring record keeps it, and is of no use without it.
    Strong = 0,
    /// It keeps the referring record ([`Class::AttachedToAll`], [`Class::AttachedToAny`]).
    Owner = 1,
    /// Neither: the reference is lost with what it leads to.
    Weak = 2,
}

/// A reference from one record to another: bits 0–39 the address, or 0 if what was there is gone; 56–63 a [`Strength`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct Reference(pub u64);

impl Reference {
    pub(crate) const STRENGTH_SHIFT: u32 = 56;

    /// The reference to the record at `address`; to nothing, if that is zero.
    pub const fn new(address: Address, strength: Strength) -> Reference {
        Reference(address.0 & (MAX_ADDRESS - 1) | (strength as u64) << Self::STRENGTH_SHIFT)
    }

    /// Where the record is; `None` if it is gone.
    pub const fn address(self) -> Option<Address> {
        match self.0 & (MAX_ADDRESS - 1) {
            0 => None,
            address => Some(Address(address)),
        }
    }

    /// What it does; `None` if the word is no reference.
    pub const fn strength(self) -> Option<Strength> {
        Some(match self.0 >> Self::STRENGTH_SHIFT {
            0 => Strength::Strong,
            1 => Strength::Owner,
            2 => Strength::Weak,
            _ => return None,
        })
    }
}

impl std::fmt::Debug for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = self.0 & (MAX_ADDRESS - 1);
        match self.strength() {
            Some(strength) => write!(f, "{strength:?}({address:#x})"),
            None => write!(f, "Reference({:#x})", self.0),
        }
    }
}

/// Why a value is no envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// It is one of another version.
    #[error("its envelope is of version {0}, but this program knows only version {version}", version = EnvelopeHeader::VERSION)]
    Version(u8),
    /// It contradicts section 24.
    #[error("{0}")]
    Malformed(&'static str),
}

/// A value taken apart, or to be put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// A [`Class`], or one that is not known.
    pub class: u8,
    /// Version of the body.
    pub body_version: u8,
    /// The records that it refers to.
    pub references: &'a [Reference],
    /// The names that it refers to.
    pub names: &'a [NameId],
    /// The pieces that it refers to.
    pub pieces: &'a [PieceId],
    /// The rest, which has neither addresses nor ids in it, but places in these lists.
    pub body: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Takes apart the plain form of the value of the record at `address`. It must be at a multiple of 8 in memory, too.
    ///
    /// # Errors
    /// If it is no envelope, or one of another version.
    pub fn parse(value: &'a [u8], address: Address) -> Result<Envelope<'a>, EnvelopeError> {
        const CUT_OFF: EnvelopeError = EnvelopeError::Malformed("the envelope is cut off");
        // First of all: another version may have another head.
        match value.first() {
            None | Some(&EnvelopeHeader::VERSION) => {}
            Some(0) => return Err(EnvelopeError::Malformed("it is in no envelope")),
            Some(&version) => return Err(EnvelopeError::Version(version)),
        }
        let (head, _) = value
            .split_first_chunk::<{ size_of::<EnvelopeHeader>() }>()
            .ok_or(CUT_OFF)?;
        let header: EnvelopeHeader = bytemuck::pod_read_unaligned(head);
        if header.reserved != 0 {
            return Err(EnvelopeError::Malformed("the envelope's head is wrong"));
        }
        // None of these sums can overflow: the counts have 32 bits.
        let references = size_of::<EnvelopeHeader>();
        let names = references + size_of::<Reference>() * header.reference_count as usize;
        let pieces = names + size_of::<NameId>() * header.name_count as usize;
        let end = pieces + size_of::<PieceId>() * header.piece_count as usize;
        let body = end.next_multiple_of(8);
        let (Some(padding), Some(rest)) = (value.get(end..body), value.get(body..)) else {
            return Err(CUT_OFF);
        };
        if padding.iter().any(|&byte| byte != 0) {
            return Err(EnvelopeError::Malformed(
                "there is something in the envelope's padding",
            ));
        }
        const UNALIGNED: EnvelopeError = EnvelopeError::Malformed("the envelope is not aligned");
        let envelope = Envelope {
            class: header.class,
            body_version: header.body_version,
            references: bytemuck::try_cast_slice(&value[references..names]).or(Err(UNALIGNED))?,
            names: bytemuck::try_cast_slice(&value[names..pieces]).or(Err(UNALIGNED))?,
            pieces: bytemuck::try_cast_slice(&value[pieces..end]).or(Err(UNALIGNED))?,
            body: rest,
        };
        envelope.check(address)?;
        Ok(envelope)
    }

    /// The class, if it is known.
    pub fn class(&self) -> Option<Class> {
        Class::of(self.class)
    }

    /// The value, for a record that will be at `address` or above. `compress` may give an LZ4 block of the body.
    ///
    /// # Errors
    /// If a reference is none, does not lead below `address`, there is too much in a list, or the record could never be kept.
    pub fn pack(
        &self,
        address: Address,
        compress: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<Vec<u8>, EnvelopeError> {
        self.check(address)?;
        if self.names.len().max(self.pieces.len()) > MOST_IDS {
            return Err(EnvelopeError::Malformed("it refers to too much"));
        }
        let block = compress(self.body).filter(|block| block.len() < self.body.len());
        let bits = if block.is_some() { COMPRESSED } else { 0 };
        let mut value = vec![EnvelopeHeader::VERSION, self.class, self.body_version, bits];
        let counts = [
            self.references.len(),
            self.names.len(),
            self.pieces.len(),
            self.body.len(),
        ];
        for count in counts {
            put_number(&mut value, count as u64);
        }
        for reference in self.references {
            // At most three of 56 to 63 are in use, and addresses are multiples of 8: 40 bits.
            let address = reference.address().map_or(0, |address| address.0);
            let strength = reference.0 >> Reference::STRENGTH_SHIFT;
            put_number(&mut value, address / 8 * 4 + strength);
        }
        put_runs(&mut value, self.names.iter().map(|name| name.0));
        put_runs(&mut value, self.pieces.iter().map(|piece| piece.0));
        value.extend_from_slice(block.as_deref().unwrap_or(self.body));
        Ok(value)
    }

    /// The plain form, for a record that will be at `address` or above.
    #[cfg(test)]
    fn plain(&self, address: Address) -> Result<Vec<u8>, EnvelopeError> {
        self.check(address)?;
        let count = |length: usize| {
            u32::try_from(length).or(Err(EnvelopeError::Malformed("it refers to too much")))
        };
        let header = EnvelopeHeader {
            version: EnvelopeHeader::VERSION,
            class: self.class,
            body_version: self.body_version,
            reserved: 0,
            reference_count: count(self.references.len())?,
            name_count: count(self.names.len())?,
            piece_count: count(self.pieces.len())?,
        };
        let lists =
            size_of_val(self.references) + size_of_val(self.names) + size_of_val(self.pieces);
        let mut value = Vec::with_capacity(size_of_val(&header) + lists + 8 + self.body.len());
        value.extend_from_slice(bytemuck::bytes_of(&header));
        value.extend_from_slice(bytemuck::cast_slice(self.references));
        value.extend_from_slice(bytemuck::cast_slice(self.names));
        value.extend_from_slice(bytemuck::cast_slice(self.pieces));
        value.resize(value.len().next_multiple_of(8), 0);
        value.extend_from_slice(self.body);
        Ok(value)
    }

    fn check(&self, own: Address) -> Result<(), EnvelopeError> {
        let mut has_owner = false;
        for reference in self.references {
            let Some(strength) = reference.strength() else {
                return Err(EnvelopeError::Malformed(
                    "a reference is of no known strength",
                ));
            };
            match reference.address() {
                Some(address)
                    if Reference::new(address, strength) != *reference
                        || address.0 < LOG_OFFSET
                        || !address.0.is_multiple_of(8)
                        || address >= own =>
                {
                    return Err(EnvelopeError::Malformed(
                        "a reference leads to no earlier record",
                    ));
                }
                None if Reference::new(Address(0), strength) != *reference => {
                    return Err(EnvelopeError::Malformed(
                        "a reference leads to no earlier record",
                    ));
                }
                None if strength == Strength::Strong => {
                    return Err(EnvelopeError::Malformed("a strong reference leads nowhere"));
                }
                Some(_) => has_owner |= strength == Strength::Owner,
                None => {}
            }
        }
        match self.class().is_some_and(Class::is_attached) && !has_owner {
            true => Err(EnvelopeError::Malformed("it is attached to nothing")),
            false => Ok(()),
        }
    }
}

/// The bit of a packed value whose body is an LZ4 block.
const COMPRESSED: u8 = 1;
/// There are at most so many names, and pieces: a few bytes can stand for that many.
pub const MOST_IDS: usize = 1 << 20;

/// The plain form of a value, and its size in bytes. `decompress` gives the bytes, so many, that an LZ4 block is of.
///
/// # Errors
/// If it is no envelope, or one of another version. What it says is not looked at: [`Envelope::parse`] does.
pub fn unpack(
    value: &[u8],
    decompress: impl FnOnce(&[u8], usize) -> Option<Vec<u8>>,
) -> Result<(Vec<u64>, usize), EnvelopeError> {
    const CUT_OFF: EnvelopeError = EnvelopeError::Malformed("the envelope is cut off");
    // First of all: another version may have another head.
    match value.first() {
        None | Some(&EnvelopeHeader::VERSION) => {}
        Some(0) => return Err(EnvelopeError::Malformed("it is in no envelope")),
        Some(&version) => return Err(EnvelopeError::Version(version)),
    }
    let Some((&[version, class, body_version, bits], mut rest)) = value.split_first_chunk() else {
        return Err(CUT_OFF);
    };
    let stream = &mut rest;
    let mut counts = [0; 4];
    for count in &mut counts {
        *count = take_number(stream).ok_or(CUT_OFF)? as usize;
    }
    let [references, names, pieces, body_size] = counts;
    // A reference has a byte at least.
    if bits & !COMPRESSED != 0 || names.max(pieces) > MOST_IDS || references > value.len() {
        return Err(EnvelopeError::Malformed("the envelope's head is wrong"));
    }
    let header = EnvelopeHeader {
        version,
        class,
        body_version,
        reserved: 0,
        reference_count: references as u32,
        name_count: names as u32,
        piece_count: pieces as u32,
    };
    let mut plain = bytemuck::bytes_of(&header).to_vec();
    for _ in 0..references {
        let number = take_number(stream).ok_or(CUT_OFF)?;
        let address = number / 4 * 8;
        if address >= MAX_ADDRESS {
            return Err(EnvelopeError::Malformed(
                "a reference leads to no earlier record",
            ));
        }
        let word = address | (number % 4) << Reference::STRENGTH_SHIFT;
        plain.extend_from_slice(&word.to_le_bytes());
    }
    for count in [names, pieces] {
        take_runs(stream, count, &mut plain).ok_or(EnvelopeError::Malformed(
            "the envelope's lists are not what it says",
        ))?;
    }
    plain.resize(plain.len().next_multiple_of(8), 0);
    let expanded = match bits & COMPRESSED {
        0 => None,
        _ => Some(decompress(rest, body_size).ok_or(EnvelopeError::Malformed(
            "the envelope's body is not what it says",
        ))?),
    };
    let body = expanded.as_deref().unwrap_or(rest);
    if body.len() != body_size {
        return Err(CUT_OFF);
    }
    plain.extend_from_slice(body);
    let size = plain.len();
    let mut words = vec![0_u64; size.div_ceil(8)];
    bytemuck::cast_slice_mut(&mut words)[..size].copy_from_slice(&plain);
    Ok((words, size))
}

/// Appends a number: seven bits a byte, the lowest first, the highest bit set in all bytes but the last.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number from the front.
pub fn take_number(stream: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = stream.split_first()?;
        *stream = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Appends ids: of each run of those that follow each other, how far its first is from the end of the one before (twice
/// that, or for one that lies before twice that less one), and its length.
fn put_runs(out: &mut Vec<u8>, ids: impl Iterator<Item = u32>) {
    let ids: Vec<u32> = ids.collect();
    let mut end = 0_i64;
    for run in ids.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
        let distance = i64::from(run[0]) - end;
        put_number(out, (distance << 1 ^ distance >> 63) as u64);
        put_number(out, run.len() as u64);
        end = i64::from(run[0]) + run.len() as i64;
    }
}

/// Takes runs of `count` ids together, and appends these to `out`, four bytes each.
fn take_runs(stream: &mut &[u8], count: usize, out: &mut Vec<u8>) -> Option<()> {
    let (mut left, mut end) = (count as u64, 0_i64);
    while left > 0 {
        let number = take_number(stream)?;
        let distance = (number >> 1) as i64 ^ -((number & 1) as i64);
        let first = end.checked_add(distance)?;
        let length = take_number(stream)?;
        if length == 0 || length > left {
            return None;
        }
        end = first.checked_add(length as i64)?;
        if first < 0 || end > 1 << 32 {
            return None;
        }
        for id in first..end {
            out.extend_from_slice(&(id as u32).to_le_bytes());
        }
        left -= length;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    const OWN: Address = Address(0x8000);

    /// As in a file: at a multiple of 8.
    fn aligned(value: &[u8]) -> Vec<u64> {
        let mut words = vec![0_u64; value.len().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..value.len()].copy_from_slice(value);
        words
    }

    fn with<T>(value: &[u8], look: impl FnOnce(Result<Envelope<'_>, EnvelopeError>) -> T) -> T {
        let words = aligned(value);
        look(Envelope::parse(
            &bytemuck::cast_slice(&words)[..value.len()],
            OWN,
        ))
    }

    const REFERENCES: [Reference; 3] = [
        Reference::new(Address(0x1000), Strength::Owner),
        Reference::new(Address(0x2008), Strength::Strong),
        Reference::new(Address(0), Strength::Weak),
    ];

    const SAMPLE: Envelope<'static> = Envelope {
        class: Class::AttachedToAny as u8,
        body_version: 7,
        references: &REFERENCES,
        names: &[NameId(5)],
        pieces: &[PieceId(6), PieceId(9)],
        body: b"body",
    };

    /// SPEC.md, section 24, byte for byte.
    #[test]
    fn bytes_are_as_specified() {
        assert_eq!(size_of::<EnvelopeHeader>(), 16);
        assert_eq!(offset_of!(EnvelopeHeader, class), 1);
        assert_eq!(offset_of!(EnvelopeHeader, body_version), 2);
        assert_eq!(offset_of!(EnvelopeHeader, reference_count), 4);
        assert_eq!(offset_of!(EnvelopeHeader, name_count), 8);
        assert_eq!(offset_of!(EnvelopeHeader, piece_count), 12);
        let mut expected = vec![2, 3, 7, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0];
        expected.extend_from_slice(&[0, 0x10, 0, 0, 0, 0, 0, 1]);
        expected.extend_from_slice(&[8, 0x20, 0, 0, 0, 0, 0, 0]);
        expected.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 2]);
        expected.extend_from_slice(&[5, 0, 0, 0, 6, 0, 0, 0, 9, 0, 0, 0]);
        expected.extend_from_slice(&[0; 4]);
        expected.extend_from_slice(b"body");
        assert_eq!(SAMPLE.plain(OWN), Ok(expected.clone()));
        with(&expected, |parsed| assert_eq!(parsed, Ok(SAMPLE)));
    }

    #[test]
    fn what_refers_to_nothing_and_has_no_body_is_a_head() {
        let empty = Envelope {
            class: Class::Root as u8,
            body_version: 0,
            references: &[],
            names: &[],
            pieces: &[],
            body: &[],
        };
        let value = empty.plain(OWN).unwrap();
        assert_eq!(value.len(), 16);
        with(&value, |parsed| assert_eq!(parsed, Ok(empty)));
    }

    #[test]
    fn every_cut_before_the_body_is_an_error() {
        let value = SAMPLE.plain(OWN).unwrap();
        for end in 0..value.len() - SAMPLE.body.len() {
            with(&value[..end], |parsed| {
                assert!(parsed.is_err(), "cut at {end}")
            });
        }
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let mut value = SAMPLE.plain(OWN).unwrap();
        value[0] = 3;
        with(&value, |parsed| {
            assert_eq!(parsed, Err(EnvelopeError::Version(3)))
        });
        with(&[200], |parsed| {
            assert_eq!(parsed, Err(EnvelopeError::Version(200)))
        });
        value[0] = 0;
        with(&value, |parsed| {
            assert!(matches!(parsed, Err(EnvelopeError::Malformed(_))))
        });
    }

    #[test]
    fn classes_that_are_not_known_are_kept_as_they_are() {
        let later = Envelope {
            class: 200,
            references: &REFERENCES[2..],
            ..SAMPLE
        };
        let value = later.plain(OWN).unwrap();
        with(&value, |parsed| {
            assert_eq!(parsed, Ok(later));
            assert_eq!(later.class(), None);
        });
    }

    #[test]
    fn references_that_cannot_be_are_refused() {
        let refused = |class: Class, word: u64| {
            let references = [Reference(word)];
            let envelope = Envelope {
                class: class as u8,
                references: &references,
                ..SAMPLE
            };
            envelope.plain(OWN).unwrap_err();
            // The same when it is read.
            let mut value = Envelope {
                references: &REFERENCES[1..2],
                class: 1,
                ..SAMPLE
            }
            .plain(OWN)
            .unwrap();
            value[1] = class as u8;
            value[16..24].copy_from_slice(&word.to_le_bytes());
            with(&value, |parsed| {
                assert!(
                    matches!(parsed, Err(EnvelopeError::Malformed(_))),
                    "{word:#x}"
                )
            });
        };
        // To itself or later; into the file's head; not where a record can be; with bits that have no meaning.
        for address in [OWN.0, OWN.0 + 8, 8, LOG_OFFSET + 4] {
            refused(Class::Root, address);
        }
        for bit in 40..64 {
            if !matches!(bit, 56 | 57) {
                refused(Class::Root, 0x1000 | 1 << bit);
            }
        }
        refused(Class::Root, 1 << 45 | 2 << 56);
        // A strong reference to nothing; attached to nothing.
        refused(Class::Root, 0);
        refused(Class::AttachedToAll, 0x1000);
        refused(Class::AttachedToAny, 1 << 56);
    }

    /// Whatever the bytes are: an envelope that is written again as it was, or an error.
    #[test]
    fn every_changed_byte_is_read_as_it_stands_or_refused() {
        let value = SAMPLE.plain(OWN).unwrap();
        for at in 0..value.len() {
            for byte in 0..=u8::MAX {
                let mut changed = value.clone();
                changed[at] = byte;
                with(&changed, |parsed| {
                    if let Ok(envelope) = parsed {
                        assert_eq!(
                            envelope.plain(OWN),
                            Ok(changed.clone()),
                            "byte {at} is {byte}"
                        );
                    }
                });
            }
        }
    }

    fn unpacked(value: &[u8]) -> Result<Vec<u8>, EnvelopeError> {
        // In place of LZ4, zeros.
        let zeros = |_: &[u8], size: usize| (size < 100).then(|| vec![0; size]);
        let (words, size) = unpack(value, zeros)?;
        Ok(bytemuck::cast_slice(&words)[..size].to_vec())
    }

    /// SPEC.md, section 24, byte for byte.
    #[test]
    fn packed_bytes_are_as_specified() {
        let envelope = Envelope {
            names: &[NameId(5), NameId(6), NameId(300), NameId(2)],
            ..SAMPLE
        };
        let mut expected = vec![2, 3, 7, 0, 3, 4, 2, 4];
        // 0x1000 / 8 × 4 + 1, 0x2008 / 8 × 4, and 2.
        expected.extend_from_slice(&[0x81, 0x10, 0x84, 0x20, 2]);
        // 5 from 0, 2 of them; 293 from 7; 299 before 301. Then 6, and 2 from 7.
        expected.extend_from_slice(&[10, 2, 0xca, 0x04, 1, 0xd5, 0x04, 1, 12, 1, 4, 1]);
        expected.extend_from_slice(b"body");
        assert_eq!(envelope.pack(OWN, |_| None), Ok(expected.clone()));
        assert_eq!(unpacked(&expected).ok(), envelope.plain(OWN).ok());
        let zeros = Envelope {
            body: &[0; 50],
            ..envelope
        };
        let value = zeros.pack(OWN, |_| Some(vec![9])).unwrap();
        assert_eq!((value[3], value.last()), (1, Some(&9)));
        assert_eq!(unpacked(&value).ok(), zeros.plain(OWN).ok());
    }

    #[test]
    fn every_cut_and_changed_byte_of_a_packed_value_is_no_panic() {
        let value = SAMPLE.pack(OWN, |_| None).unwrap();
        for at in 0..value.len() {
            unpacked(&value[..at]).unwrap_err();
            for byte in 0..=u8::MAX {
                let mut changed = value.clone();
                changed[at] = byte;
                let _ = unpacked(&changed).map(|plain| with(&plain, |parsed| parsed.is_ok()));
            }
        }
        let mut long = value[..4].to_vec();
        for number in [0, 1 << 40, 0, 0] {
            put_number(&mut long, number);
        }
        unpacked(&long).unwrap_err();
    }
}
