//! Reading the log: items, records, trailers, and whole transactions.
//!
//! Nothing here trusts the file: every length is checked against the view
//! before it is used.

use super::error::Fault;
use super::map::View;
use super::record::{Record, parse_record};
use format_spec::digest::Digest;
use format_spec::file::{
    ITEM_ALIGN, IndexSlot, ItemHead, ItemKind, LEAF_ALIGN, LOG_OFFSET, MAX_ADDRESS, RECORD_CHECK,
};
use format_spec::ids::Address;
use format_spec::pack::{address_in, pack_of, parse_word};
use format_spec::trailer::{MIN_TRAILER_SIZE, Trailer, trailer_size};
use std::ops::Range;

/// The least multiple of `align` (a power of two) that is not below `offset`.
pub(super) fn align_up(offset: u64, align: u64) -> Option<u64> {
    Some(offset.checked_add(align - 1)? & !(align - 1))
}

/// The record at `address`, and its index.
#[inline]
pub(super) fn record_at(
    view: View<'_>,
    address: Address,
) -> Result<(IndexSlot, Record<'_>), Fault> {
    if !address.0.is_multiple_of(ITEM_ALIGN) || address.0 < LOG_OFFSET || address.0 > view.end() {
        return Err(Fault::new(address.0, "is not the address of a record"));
    }
    let bytes = view.bytes(address.0, view.end() - address.0)?;
    parse_record(bytes, address).or_else(|fault| packed_record(view, address, fault))
}

/// The record of a pack whose word is at `address`; `fault` if there is none.
#[cold]
fn packed_record(
    view: View<'_>,
    address: Address,
    fault: Fault,
) -> Result<(IndexSlot, Record<'_>), Fault> {
    let Some((pack, offset)) = pack_at(view, address)? else {
        return Err(fault);
    };
    let record = pack.unpacked()?.get(offset as usize..).unwrap_or_default();
    parse_record(record, address)
}

/// The pack with the word at `address`, and where that record begins in what the pack holds; `None` if there is no such word.
fn pack_at(view: View<'_>, address: Address) -> Result<Option<(Item<'_>, u32)>, Fault> {
    let word = view.bytes(address.0, size_of::<u64>() as u64)?;
    let Some((number, offset)) = parse_word(bytemuck::pod_read_unaligned(word)) else {
        return Ok(None);
    };
    let none = Fault::new(address.0, "is not a record");
    let pack = pack_of(address.0, number).filter(|pack| *pack >= LOG_OFFSET);
    let pack = Item::at(view, pack.ok_or(none)?)?;
    match pack.kind() == Some(ItemKind::Pack) && number < pack.head.slot() {
        true => Ok(Some((pack, offset))),
        false => Err(none),
    }
}

/// A pack, and how much of it there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackSize {
    /// Where it is.
    pub address: Address,
    /// Bytes that it takes in the log.
    pub stored: u64,
    /// Bytes of the records that it holds, as they would stand in the log.
    pub unpacked: u64,
}

/// The pack with the record at `address`; `None` if that stands by itself.
pub(super) fn pack_with(view: View<'_>, address: Address) -> Result<Option<PackSize>, Fault> {
    let Some((pack, _)) = pack_at(view, address)? else {
        return Ok(None);
    };
    let unpacked = pack.unpacked()?.len() as u64;
    Ok(Some(PackSize {
        address: Address(pack.offset),
        stored: pack.end - pack.offset,
        unpacked,
    }))
}

/// The record of `index` at `address`, if it is one with a whole key, and that is `key`. `None` says nothing of what else is there.
///
/// Most look-ups end here, and wait for memory: as the processor goes on with the next ones meanwhile only as far as so many instructions
/// reach, these are few.
#[inline]
pub(super) fn record_of<'s>(
    view: View<'s>,
    address: Address,
    index: IndexSlot,
    key: &Digest,
) -> Option<Record<'s>> {
    const KEY_END: usize = size_of::<ItemHead>() + size_of::<Digest>();
    if address.0 < LOG_OFFSET {
        return None;
    }
    let room = view.end().checked_sub(address.0)?;
    let bytes = view.bytes(address.0, room).ok()?;
    let (start, _) = bytes.split_first_chunk::<KEY_END>()?;
    let (head, own) = start.split_first_chunk::<8>()?;
    let head = ItemHead(u64::from_le_bytes(*head));
    if !head.has_whole_key_of(index) || *own != key.0 {
        return None;
    }
    let item = bytes.get(..size_of::<ItemHead>() + head.length() as usize)?;
    let end = item.len() - RECORD_CHECK as usize;
    Some(Record {
        address,
        key: own,
        value: item.get(KEY_END..end)?,
        item,
    })
}

/// One item of the log.
#[derive(Clone, Copy)]
pub(super) struct Item<'s> {
    pub offset: u64,
    pub head: ItemHead,
    /// What follows the head, without padding.
    pub body_offset: u64,
    /// Where the next item is.
    pub end: u64,
    view: View<'s>,
}

impl<'s> Item<'s> {
    /// The item at `offset`, of whatever kind.
    pub fn at(view: View<'s>, offset: u64) -> Result<Item<'s>, Fault> {
        let bytes = view.bytes(offset, 8)?;
        let head = ItemHead(bytemuck::pod_read_unaligned(bytes));
        if !head.is_marked() {
            return Err(Fault::new(offset, "is not an item of the log"));
        }
        let align = if head.is_in_place() {
            LEAF_ALIGN
        } else {
            ITEM_ALIGN
        };
        // Lengths are below 2^40 and offsets below the file's length.
        let body_offset = align_up(offset + 8, align).unwrap_or(u64::MAX);
        let end = body_offset
            .checked_add(head.length())
            .and_then(|end| align_up(end, ITEM_ALIGN))
            .filter(|&end| end <= view.end())
            .ok_or(Fault::new(offset, "item reaches beyond the end"))?;
        Ok(Item {
            offset,
            head,
            body_offset,
            end,
            view,
        })
    }

    /// What it is; `None` for kinds that are not known.
    pub fn kind(&self) -> Option<ItemKind> {
        self.head.kind()
    }

    /// The records that the item is, or holds, in their order.
    pub fn records(self) -> impl Iterator<Item = Result<Record<'s>, Fault>> + use<'s> {
        let (count, pack) = match self.kind() {
            Some(ItemKind::Record | ItemKind::Replacement | ItemKind::Numbered) => (1, None),
            Some(ItemKind::Pack) => (self.head.slot(), Some(self.offset)),
            _ => (0, None),
        };
        (0..count).map(move |number| {
            let address = pack.map_or(self.offset, |pack| address_in(pack, number));
            record_at(self.view, Address(address)).map(|(_, record)| record)
        })
    }

    /// What the item holds, which is a pack.
    fn unpacked(&self) -> Result<&'s [u8], Fault> {
        let length = size_of::<ItemHead>() as u64 + self.head.length();
        let item = self.view.bytes(self.offset, length)?;
        self.view.packs().unpacked(item, self.offset)
    }

    /// The addresses that the item pushes, if it is a push.
    pub fn pushed(&self) -> Result<&'s [Address], Fault> {
        if self.kind() != Some(ItemKind::Push) {
            return Ok(&[]);
        }
        let body = self.view.bytes(self.body_offset, self.head.length())?;
        let addresses: &[Address] = bytemuck::try_cast_slice(body)
            .map_err(|_| Fault::new(self.offset, "push is not a number of addresses"))?;
        let is_sound =
            |address: &Address| address.0.is_multiple_of(ITEM_ALIGN) && address.0 < MAX_ADDRESS;
        match addresses.iter().all(is_sound) {
            true => Ok(addresses),
            false => Err(Fault::new(self.offset, "push is of what is no address")),
        }
    }
}

/// The items from `start` until `end`.
pub(super) fn items(
    view: View<'_>,
    start: u64,
    end: u64,
) -> impl Iterator<Item = Result<Item<'_>, Fault>> {
    let view = view.up_to(end);
    let mut next = Some(start);
    std::iter::from_fn(move || {
        let offset = next.filter(|&offset| offset < view.end())?;
        let item = Item::at(view, offset);
        next = item.as_ref().ok().map(|item| item.end);
        Some(item)
    })
}

/// The parts of the log from `start` until `end` that never change: all but the bodies of leaves.
pub(super) fn fixed_parts(view: View<'_>, start: u64, end: u64) -> Result<Vec<Range<u64>>, Fault> {
    let mut parts = Vec::new();
    let mut from = start;
    for item in items(view, start, end) {
        let item = item?;
        if item.head.is_in_place() {
            parts.push(from..item.body_offset);
            from = item.end;
        }
    }
    parts.push(from..end);
    Ok(parts)
}

/// The trailer at `offset`, with its own checksum and bounds checked.
pub(super) fn trailer_at(view: View<'_>, offset: u64) -> Result<Trailer<'_>, Fault> {
    let fault = |what| Fault::new(offset, what);
    let trailer = unchecked_trailer(view, offset)?;
    if trailer.offset != offset {
        return Err(fault("is not a trailer"));
    }
    if !trailer.is_whole() {
        return Err(fault("trailer's checksum is wrong"));
    }
    // From here on these are as some writer of this format left them, or made
    // by someone who can compute a CRC.
    let first = trailer.revision == 0;
    let in_order = if first {
        trailer.start == LOG_OFFSET && trailer.previous == 0 && trailer.jump == 0
    } else {
        let previous_end = trailer.previous.checked_add(MIN_TRAILER_SIZE);
        trailer.start <= offset
            && trailer.previous >= LOG_OFFSET
            && previous_end.is_some_and(|end| end <= trailer.start)
            && trailer.jump >= LOG_OFFSET
            && trailer.jump <= trailer.previous
    };
    if !in_order || offset >= MAX_ADDRESS {
        return Err(fault("trailer's links are wrong"));
    }
    // What else roots say is checked when it is followed.
    for root in trailer.roots() {
        let is_sound = root.as_root().is_some_and(|child| {
            !child.is_none() && (LOG_OFFSET..offset).contains(&child.address())
        });
        if !is_sound {
            return Err(fault("trailer's roots are wrong"));
        }
    }
    Ok(trailer)
}

/// The trailer at `offset`, of which only the form is checked: its checksum was found right before.
pub(super) fn unchecked_trailer(view: View<'_>, offset: u64) -> Result<Trailer<'_>, Fault> {
    let size = trailer_size_at(view, offset)?;
    let trailer = Trailer::of(view.bytes(offset, size)?);
    trailer.ok_or(Fault::new(offset, "is not a trailer"))
}

/// How long the trailer at `offset` is.
pub(super) fn trailer_size_at(view: View<'_>, offset: u64) -> Result<u64, Fault> {
    let fault = |what| Fault::new(offset, what);
    if !offset.is_multiple_of(ITEM_ALIGN) || offset < LOG_OFFSET {
        return Err(fault("is not the address of a trailer"));
    }
    let head = view.bytes(offset, size_of::<ItemHead>() as u64)?;
    let size = trailer_size(ItemHead(bytemuck::pod_read_unaligned(head)));
    size.ok_or(fault("is not a trailer"))
}

/// See [`next_transaction`].
const HASHED_AT_ONCE: u64 = 32 << 10;

/// Reads the transaction that follows `previous` and checks it as a whole: the
/// chain and the CRC. An error says why there is no (further) transaction.
pub(super) fn next_transaction<'s>(
    view: View<'s>,
    previous: &Trailer<'_>,
) -> Result<Trailer<'s>, Fault> {
    let start = previous.end();
    let mut crc = crc32fast::Hasher::new();
    let mut hashed = start;
    for item in items(view, start, view.end()) {
        let item = item?;
        // Now and then, while what was gone through is still in the nearest cache.
        if item.offset - hashed >= HASHED_AT_ONCE {
            crc.update(view.bytes(hashed, item.offset - hashed)?);
            hashed = item.offset;
        }
        if item.kind() == Some(ItemKind::Trailer) {
            crc.update(view.bytes(hashed, item.offset - hashed)?);
            let trailer = trailer_at(view, item.offset)?;
            let follows = trailer.start == start
                && trailer.previous == previous.offset
                && trailer.previous_nonce == previous.nonce
                && Some(trailer.revision) == previous.revision.checked_add(1);
            if !follows {
                return Err(Fault::new(
                    item.offset,
                    "trailer does not follow its predecessor",
                ));
            }
            if trailer.payload_crc() != crc.finalize() {
                return Err(Fault::new(start, "transaction's checksum is wrong"));
            }
            return Ok(trailer);
        }
        if item.head.is_in_place() {
            crc.update(view.bytes(hashed, item.body_offset - hashed)?);
            hashed = item.end;
        }
    }
    Err(Fault::new(start, "transaction has no trailer"))
}

/// The jump pointer of the trailer that follows `previous` (Myers, "An
/// applicative random-access stack": each jump is as long as the two before it
/// together, if those are of equal length, else one step).
pub(super) fn jump_after(view: View<'_>, previous: &Trailer<'_>) -> Result<u64, Fault> {
    let first = jump_of(view, previous)?;
    let second = jump_of(view, &first)?;
    let first_length = previous.revision.wrapping_sub(first.revision);
    let second_length = first.revision.wrapping_sub(second.revision);
    Ok(if first_length == second_length {
        second.offset
    } else {
        previous.offset
    })
}

/// Where a trailer's jump pointer leads; the first one's leads to itself.
fn jump_of<'s>(view: View<'s>, trailer: &Trailer<'s>) -> Result<Trailer<'s>, Fault> {
    if trailer.revision == 0 {
        return Ok(*trailer);
    }
    trailer_at(view, trailer.jump)
}

/// The trailer of `revision`, which is not newer than `newest`.
pub(super) fn find_revision<'s>(
    view: View<'s>,
    newest: &Trailer<'s>,
    revision: u64,
) -> Result<Option<Trailer<'s>>, Fault> {
    let mut trailer = *newest;
    while trailer.revision > revision {
        let far = trailer_at(view, trailer.jump)?;
        let next = if far.revision >= revision {
            far
        } else {
            trailer_at(view, trailer.previous)?
        };
        if next.revision >= trailer.revision {
            return Err(Fault::new(trailer.offset, "trailer's links are wrong"));
        }
        trailer = next;
    }
    Ok((trailer.revision == revision).then_some(trailer))
}
