//! Packs: writing records compressed together, and reading them (`format_spec::pack` has the form, SPEC.md, section 5).
//!
//! A reader that meets the address of a packed record unpacks the whole pack, once, and keeps what comes of that with the file's mapping
//! ([`Packs`]): there, records are as they are in the log, and are borrowed like those. Their checks follow from the pack's.
//!
//! A writer gathers records in an open pack ([`Packing`]), which is the last thing in the log as long as it is open: so the addresses of its records are
//! known before it is compressed. Numbered records and others come into different packs, as who looks up names should not have to unpack
//! definitions.

use super::error::Fault;
use super::record::parse_record;
use elsa::sync::FrozenMap;
use format_spec::file::{ITEM_ALIGN, ItemHead, ItemKind, RECORD_CHECK, record_check};
use format_spec::ids::Address;
use format_spec::pack::{self, MAX_RECORDS, MAX_UNPACKED};
use std::cell::RefCell;
use std::io;
use std::ops::Range;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::get_frame_content_size;

/// A record with a value of more bytes than this stands by itself: what it shares with others is little of it, and it would be unpacked for the sake of
/// small ones.
pub const LARGEST_PACKED: usize = 16 << 10;
/// A pack is closed when so much is in it: what a reader unpacks for one record takes some ten microseconds.
const FULL: usize = 128 << 10;
/// Of Zstandard. Higher ones take several times as long, under the lock, for a hundredth less.
const LEVEL: i32 = 1;
const HEAD: usize = size_of::<ItemHead>();
const WORD: usize = size_of::<u64>();
const CHECK: usize = RECORD_CHECK as usize;

/// What the packs of a file hold, as far as anybody has read them, by the packs' addresses.
#[derive(Default)]
pub(super) struct Packs(FrozenMap<u64, Box<[u64]>>);

impl Packs {
    /// What the pack at `address` holds, whose bytes in the file are `item`, from the head to the check. It is committed, so it never becomes another one.
    pub fn unpacked(&self, item: &[u8], address: u64) -> Result<&[u8], Fault> {
        if let Some(unpacked) = self.0.get(&address) {
            return Ok(bytemuck::cast_slice(unpacked));
        }
        let unpacked = unpack(item, address)?;
        // Another thread may have been faster.
        Ok(bytemuck::cast_slice(self.0.insert(address, unpacked)))
    }
}

/// Where the record `number` of the pack with these bytes begins in what the pack holds.
pub(super) fn offset_of(item: &[u8], number: u8) -> Option<usize> {
    let word = item.get(HEAD + usize::from(number) * WORD..)?;
    let (word, _) = word.split_first_chunk::<WORD>()?;
    let (own, offset) = pack::parse_word(u64::from_le_bytes(*word))?;
    (own == number).then_some(offset as usize)
}

/// What the pack with these bytes holds, with the checks of the records.
fn unpack(item: &[u8], address: u64) -> Result<Box<[u64]>, Fault> {
    let fault = |what| Fault::new(address, what);
    let cut = || fault("pack is cut off");
    let (bytes, check) = item.split_last_chunk::<CHECK>().ok_or_else(cut)?;
    if u32::from_le_bytes(*check) != record_check(bytes) {
        return Err(fault("pack's check is wrong"));
    }
    let (head, _) = bytes.split_first_chunk::<HEAD>().ok_or_else(cut)?;
    let count = ItemHead(u64::from_le_bytes(*head)).slot();
    let frame = bytes.get(HEAD + usize::from(count) * WORD..);
    let frame = frame.ok_or_else(cut)?;
    let size = get_frame_content_size(frame).ok().flatten();
    let size = size.filter(|size| *size <= MAX_UNPACKED && size.is_multiple_of(ITEM_ALIGN));
    let size = size.ok_or_else(|| fault("pack does not say a size that it can have"))?;
    let mut words = vec![0_u64; size as usize / WORD].into_boxed_slice();
    let unpacked: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    let found = decompress(frame, unpacked);
    if found.ok() != Some(unpacked.len()) {
        return Err(fault("pack cannot be unpacked"));
    }
    let mut end = 0;
    for number in 0..count {
        let start = offset_of(item, number).filter(|start| *start == end);
        let start = start.ok_or_else(|| fault("pack's words are wrong"))?;
        let record = unpacked.get(start..).unwrap_or_default();
        let (_, record) = parse_record(record, Address(pack::address_in(address, number)))?;
        end = start + record.size() as usize;
        let check = start + record.length() - CHECK..start + record.length();
        set_check(unpacked, start, check);
    }
    match end == unpacked.len() && count > 0 {
        true => Ok(words),
        false => Err(fault("pack holds something else than records")),
    }
}

/// Writes the check of the record at `start`, whose check's place is given.
fn set_check(bytes: &mut [u8], start: usize, place: Range<usize>) {
    let check = record_check(&bytes[start..place.start]);
    bytes[place].copy_from_slice(&check.to_le_bytes());
}

fn decompress(frame: &[u8], into: &mut [u8]) -> io::Result<usize> {
    thread_local! {
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    DECOMPRESSOR.with_borrow_mut(|decompressor| {
        let decompressor = match decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::new()?),
        };
        decompressor.decompress_to_buffer(frame, into)
    })
}

/// Records that are not in the log yet.
#[derive(Default)]
struct Records {
    /// Where their pack is, or will be.
    address: u64,
    /// As the pack will hold them, but with their checks.
    bytes: Vec<u8>,
    /// Where each begins.
    starts: Vec<u32>,
}

impl Records {
    fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }

    /// The bytes from the start of the record at `address` on, if it is one of these.
    fn find(&self, address: u64) -> Option<&[u8]> {
        let number = (address.checked_sub(self.address)? / ITEM_ALIGN).checked_sub(1)?;
        let start = self.starts.get(number as usize)?;
        self.bytes.get(*start as usize..)
    }
}

/// The packs of one transaction.
#[derive(Default)]
pub(super) struct Packing {
    is_on: bool,
    /// It is open if there is a record in it.
    open: Records,
    holds_numbered: bool,
    /// In ascending order of their addresses. Others must not see them before they are committed, so they are not among [`Packs`].
    closed: Vec<Records>,
    compressor: Option<Compressor<'static>>,
}

/// What has become of a record.
pub(super) enum Packed {
    /// It is the record of this number in the open pack.
    In(u8),
    /// It is too large, and nowhere: its key and value.
    TooLarge(Vec<u8>),
}

impl Packing {
    /// Has small records packed from here on.
    pub fn begin(&mut self) {
        self.is_on = true;
    }

    /// Whether records are packed.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether the open pack must be closed before a record of this kind is added.
    pub fn must_close_for(&self, kind: ItemKind) -> bool {
        let is_full = self.open.starts.len() >= MAX_RECORDS || self.open.bytes.len() >= FULL;
        !self.open.starts.is_empty()
            && (is_full || self.holds_numbered != (kind == ItemKind::Numbered))
    }

    /// Adds a record to the pack that is, or will be, at `address`: its key, and what `make` appends.
    ///
    /// # Errors
    /// `make`'s; then nothing is added.
    pub fn add<E>(
        &mut self,
        (kind, slot, key): (ItemKind, u8, &[u8]),
        address: u64,
        make: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Packed, E> {
        let Records {
            bytes,
            starts,
            address: own,
        } = &mut self.open;
        let start = bytes.len();
        bytes.extend_from_slice(&[0; HEAD]);
        bytes.extend_from_slice(key);
        if let Err(error) = make(bytes) {
            bytes.truncate(start);
            return Err(error);
        }
        let length = bytes.len() - start - HEAD;
        let head = ItemHead::new(kind, slot, (length + CHECK) as u64);
        let head = head.filter(|_| length - key.len() <= LARGEST_PACKED);
        let Some(head) = head else {
            let record = bytes.split_off(start + HEAD);
            bytes.truncate(start);
            return Ok(Packed::TooLarge(record));
        };
        bytes[start..start + HEAD].copy_from_slice(&head.0.to_le_bytes());
        bytes.extend_from_slice(&[0; CHECK]);
        let end = bytes.len();
        set_check(bytes, start, end - CHECK..end);
        bytes.resize(end.next_multiple_of(ITEM_ALIGN as usize), 0);
        *own = address;
        self.holds_numbered = kind == ItemKind::Numbered;
        // There are fewer than `MAX_RECORDS`, and they are small.
        let number = starts.len() as u8;
        starts.push(start as u32);
        Ok(Packed::In(number))
    }

    /// How many bytes the open pack can have at most, with one more record in it. (What cannot be compressed takes a few more than it has.)
    pub fn size_with_another(&self) -> usize {
        let words = WORD * (self.open.starts.len() + 1);
        HEAD + words + self.open.bytes.len() + LARGEST_PACKED + 2048
    }

    /// Closes the open pack, if there is one: appends it to the log, and returns its address.
    pub fn close(&mut self, log: &mut Vec<u8>) -> io::Result<Option<u64>> {
        if self.open.starts.is_empty() {
            return Ok(None);
        }
        let mut records = std::mem::take(&mut self.open);
        let checks = take_checks(&mut records);
        let frame = self.compress(&records.bytes)?;
        let length = WORD * records.starts.len() + frame.len() + CHECK;
        let count = records.starts.len() as u8;
        let start = log.len();
        let head = ItemHead::new(ItemKind::Pack, count, length as u64);
        let head = head.ok_or(io::ErrorKind::FileTooLarge)?;
        log.extend_from_slice(&head.0.to_le_bytes());
        // There may be 255: the numbers come second, so that no more are asked for.
        for (offset, number) in records.starts.iter().zip(0..) {
            log.extend_from_slice(&pack::word(number, *offset).to_le_bytes());
        }
        log.extend_from_slice(&frame);
        let check = record_check(&log[start..]);
        log.extend_from_slice(&check.to_le_bytes());
        for (place, check) in checks {
            records.bytes[place..place + CHECK].copy_from_slice(&check);
        }
        let address = records.address;
        self.closed.push(records);
        Ok(Some(address))
    }

    fn compress(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            none => none.insert(Compressor::new(LEVEL)?),
        };
        compressor.compress(bytes)
    }

    /// The bytes from the start of the record at `address` on, if it is one of this transaction's.
    pub fn find(&self, address: u64) -> Option<&[u8]> {
        if let Some(found) = self.open.find(address) {
            return Some(found);
        }
        let after = self.closed.partition_point(|pack| pack.address <= address);
        self.closed.get(after.checked_sub(1)?)?.find(address)
    }

    /// Forgets what was packed: it is committed, or will never be.
    pub fn forget(&mut self) {
        // The next pack gets the memory of one of these.
        self.open.clear();
        if let Some(mut last) = self.closed.pop() {
            last.clear();
            self.open = last;
        }
        self.closed.clear();
    }

    /// As at the beginning, but for what packing needs memory for.
    pub fn clear(&mut self) {
        self.forget();
        self.is_on = false;
    }
}

/// Takes the checks out of the records: where each was, and what.
fn take_checks(records: &mut Records) -> Vec<(usize, [u8; CHECK])> {
    let Records { bytes, starts, .. } = records;
    let mut checks = Vec::with_capacity(starts.len());
    for &start in starts.iter() {
        let start = start as usize;
        let head = bytes.get(start..).and_then(|rest| rest.first_chunk());
        let head = head.map(|head| ItemHead(u64::from_le_bytes(*head)));
        let place = start + HEAD + head.map_or(0, |head| head.length() as usize) - CHECK;
        let check = &mut bytes[place..place + CHECK];
        checks.push((place, [check[0], check[1], check[2], check[3]]));
        check.fill(0);
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use format_spec::digest::Digest;

    const AT: u64 = 4096;

    fn value(number: u8) -> Vec<u8> {
        vec![number; usize::from(number % 50) * 7]
    }

    /// A pack of records, as the log has it.
    fn packed(count: u8) -> (Packing, Vec<u8>) {
        let (mut packing, mut log) = (Packing::default(), Vec::new());
        packing.begin();
        for number in 0..count {
            assert!(!packing.must_close_for(ItemKind::Record));
            let key = Digest::of(&[number]).0;
            let kind = (ItemKind::Record, 3, &key[..]);
            let added = packing.add(kind, AT, |out| -> io::Result<()> {
                out.extend_from_slice(&value(number));
                Ok(())
            });
            assert!(matches!(added, Ok(Packed::In(own)) if own == number));
        }
        assert_eq!(packing.must_close_for(ItemKind::Numbered), count > 0);
        assert_eq!(packing.close(&mut log).unwrap(), (count > 0).then_some(AT));
        (packing, log)
    }

    #[test]
    fn records_are_read_back_before_and_after() {
        const COUNT: u8 = MAX_RECORDS as u8;
        let (packing, log) = packed(COUNT);
        let packs = Packs::default();
        let unpacked = packs.unpacked(&log, AT).unwrap();
        for number in 0..COUNT {
            let address = pack::address_in(AT, number);
            let own = packing.find(address).unwrap();
            let start = offset_of(&log, number).unwrap();
            for bytes in [own, &unpacked[start..]] {
                let (index, record) = parse_record(bytes, Address(address)).unwrap();
                assert!(record.is_whole() && index.number() == 3);
                assert_eq!(record.value, value(number));
                assert_eq!(record.key(), Digest::of(&[number]));
            }
        }
        assert_eq!(packing.find(pack::address_in(AT, COUNT)), None);
        assert_eq!(packing.find(AT), None);
        assert!(packed(0).1.is_empty());
    }

    #[test]
    fn what_is_too_large_is_given_back() {
        let mut packing = Packing::default();
        packing.begin();
        let key = [7; 32];
        let large = vec![9; LARGEST_PACKED + 1];
        let added = packing.add((ItemKind::Record, 3, &key), AT, |out| -> io::Result<()> {
            out.extend_from_slice(&large);
            Ok(())
        });
        let Ok(Packed::TooLarge(record)) = added else {
            panic!("it is packed");
        };
        assert_eq!(record, [&key[..], &large].concat());
        assert_eq!(packing.close(&mut Vec::new()).unwrap(), None);
    }

    /// Whoever can compute a check can write what he likes: it is an error, or records.
    #[test]
    fn forged_packs_are_errors() {
        let (_, good) = packed(20);
        let mut refused = 0;
        for place in 0..good.len() - CHECK {
            for change in [1, 0x10, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[place] ^= change;
                assert!(unpack(&bad, AT).is_err(), "its check is wrong");
                let end = bad.len() - CHECK;
                set_check(&mut bad, 0, end..end + CHECK);
                refused += u32::from(unpack(&bad, AT).is_err());
            }
        }
        assert!(refused > 20 * 4);
        for length in 0..good.len() {
            assert!(unpack(&good[..length], AT).is_err());
        }
    }
}
