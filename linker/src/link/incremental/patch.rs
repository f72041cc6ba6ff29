//! Changing an output that is there: its bytes, and the tables that everything shares.

use super::reason::Reason;
use crate::elf::Sym;
use crate::elf::build_id::{self, ChunkDigest, DigestLength, Style};
use crate::elf::eh_frame::TableEntry;
use std::ops::Range;

/// The bytes of an output that is being changed, and which of them are.
pub(super) struct Patch<'o> {
    pub image: &'o mut [u8],
    /// By chunk of the build id's digests: whether it has changed.
    touched: Vec<bool>,
    /// What has changed.
    ranges: Vec<Range<u64>>,
}

impl<'o> Patch<'o> {
    pub fn new(image: &'o mut [u8]) -> Patch<'o> {
        let chunks = image.len().div_ceil(build_id::CHUNK_SIZE);
        Patch {
            image,
            touched: vec![false; chunks],
            ranges: Vec::new(),
        }
    }

    /// Says that a range of the file is changed.
    pub fn touch(&mut self, offset: u64, size: u64) {
        if size == 0 {
            return;
        }
        self.ranges.push(offset..offset.saturating_add(size));
        let chunk = |at: u64| (at / build_id::CHUNK_SIZE as u64) as usize;
        let last = chunk(offset + size - 1).min(self.touched.len().saturating_sub(1));
        for touched in &mut self.touched[chunk(offset).min(last)..=last] {
            *touched = true;
        }
    }

    /// What has changed: ranges of the file, each behind the one before, and no longer than it.
    pub fn changed(&self) -> Vec<super::records::Range> {
        let mut ranges = self.ranges.clone();
        ranges.sort_unstable_by_key(|range| range.start);
        let size = self.image.len() as u64;
        let mut changed: Vec<super::records::Range> = Vec::new();
        for Range { start, end } in ranges {
            let end = end.min(size);
            match changed.last_mut() {
                Some([at, size]) if start <= *at + *size => *size = (*size).max(end - *at),
                _ if start < end => changed.push([start, end - start]),
                _ => {}
            }
        }
        changed
    }

    /// A range of the file, to be changed.
    pub fn bytes(&mut self, offset: u64, size: u64) -> Option<&mut [u8]> {
        self.touch(offset, size);
        let start = usize::try_from(offset).ok()?;
        self.image
            .get_mut(start..start.checked_add(usize::try_from(size).ok()?)?)
    }

    /// Bytes of the file as they are.
    pub fn at<const N: usize>(&self, offset: u64) -> Option<&[u8; N]> {
        let start = usize::try_from(offset).ok()?;
        self.image.get(start..)?.first_chunk()
    }

    /// Digests what has changed, and writes the build id, whose place is `at`. `digests` are those of the output as it was.
    pub fn write_build_id(&mut self, digests: &mut [ChunkDigest], at: [u64; 2]) -> Option<()> {
        let [offset, len] = at;
        if len == 0 || !self.touched.contains(&true) {
            return Some(());
        }
        self.bytes(offset, len)?.fill(0);
        let size = self.image.len() as u64;
        let chunks = self.image.chunks(build_id::CHUNK_SIZE);
        for ((chunk, digest), _) in chunks
            .zip(&mut *digests)
            .zip(&self.touched)
            .filter(|(_, touched)| **touched)
        {
            *digest = build_id::chunk_digest(chunk);
        }
        let length = match len {
            16 => DigestLength::Bytes16,
            20 => DigestLength::Bytes20,
            _ => DigestLength::Bytes32,
        };
        let id = Style::Digest(length).of_chunks(digests, size).ok()?;
        self.bytes(offset, len)?.copy_from_slice(&id);
        Some(())
    }
}

/// The table of frames after its header: count of rows, and the rows.
const TABLE: usize = 8;

/// Bytes of one.
const ROW: usize = 8;

/// Where something is in a table, and its bytes.
pub(super) type Extent = (usize, usize);

/// Puts `new` in place of the rows of the table of frames that are about records in `of`, addresses in `.eh_frame`. `table`
/// is `.eh_frame_hdr`, which is at `address`. Only what becomes another is written: gives the ranges of the table where
/// that may be.
///
/// # Errors
/// If there is no room, or it is no sorted table.
pub(super) fn replace_rows(
    table: &mut [u8],
    address: u64,
    of: &[Range<u64>],
    mut new: Vec<TableEntry>,
) -> Result<Vec<Extent>, Reason> {
    let damaged = || Reason::from("the table of frames cannot be changed");
    if !table.starts_with(&[1, 0x1b, 0x03, 0x3b]) {
        return Err(damaged());
    }
    let (head, body) = table.split_at_mut_checked(TABLE + 4).ok_or_else(damaged)?;
    let count = head.get(TABLE..).and_then(|count| count.first_chunk::<4>());
    let count = u32::from_le_bytes(*count.ok_or_else(damaged)?) as usize;
    let (rows, _) = body.as_chunks_mut::<ROW>();
    let room = rows.len();
    let old = rows.get(..count).ok_or_else(damaged)?;
    let decode = |row: &[u8; ROW]| {
        let [pc, fde] = [
            [row[0], row[1], row[2], row[3]],
            [row[4], row[5], row[6], row[7]],
        ];
        let absolute = |field| address.wrapping_add(i64::from(i32::from_le_bytes(field)) as u64);
        TableEntry {
            pc: absolute(pc),
            fde: absolute(fde),
        }
    };
    new.sort_unstable();
    new.dedup_by_key(|entry| entry.pc);
    let gone = rows_of(old, address, of, decode);
    if gone
        .iter()
        .map(|index| decode(&old[*index]))
        .eq(new.iter().copied())
    {
        return Ok(Vec::new());
    }

    // All that changes is between these, but for what moves by whole rows.
    let before = |pc: u64| old.partition_point(|row| decode(row).pc < pc);
    let behind = |pc: u64| old.partition_point(|row| decode(row).pc <= pc);
    let starts = [
        gone.first().copied(),
        new.first().map(|entry| before(entry.pc)),
    ];
    let ends = [
        gone.last().map(|index| index + 1),
        new.last().map(|entry| behind(entry.pc)),
    ];
    let start = starts.into_iter().flatten().min().unwrap_or(0);
    let end = ends.into_iter().flatten().max().unwrap_or(0);
    let mut merged: Vec<TableEntry> = Vec::with_capacity(end - start + new.len());
    let mut coming = new.into_iter().peekable();
    let mut going = gone.into_iter().peekable();
    for (index, row) in (start..end).zip(&old[start..]) {
        if going.next_if_eq(&index).is_some() {
            continue;
        }
        let entry = decode(row);
        while let Some(next) = coming.next_if(|next| *next < entry) {
            merged.push(next);
        }
        merged.push(entry);
    }
    merged.extend(coming);
    merged.dedup_by_key(|entry| entry.pc);
    let now = count - (end - start) + merged.len();
    if now > room {
        return Err("there is no room for more frames".into());
    }
    rows.copy_within(end..count, start + merged.len());
    let relative = |address_of: u64| i32::try_from(address_of.wrapping_sub(address) as i64);
    for (row, entry) in rows[start..].iter_mut().zip(&merged) {
        let (Ok(pc), Ok(fde)) = (relative(entry.pc), relative(entry.fde)) else {
            return Err(damaged());
        };
        row[..4].copy_from_slice(&pc.to_le_bytes());
        row[4..].copy_from_slice(&fde.to_le_bytes());
    }
    let first = TABLE + 4 + ROW * start;
    if now == count {
        return Ok(vec![(first, ROW * merged.len())]);
    }
    if now < count {
        rows[now..count].fill([0; ROW]);
    }
    let said = u32::try_from(now).map_err(|_| damaged())?;
    head[TABLE..].copy_from_slice(&said.to_le_bytes());
    let last = TABLE + 4 + ROW * now.max(count);
    Ok(vec![(TABLE, 4), (first, last - first)])
}

/// Rows that are looked at together.
const TOGETHER: usize = 128;

/// The numbers of the rows that are about records in `of`, places in one section, none of which lies in another. All rows of a program are
/// looked through for those of a file or two, so this is done for many at once, in a loop that compilers make vector instructions of.
fn rows_of(
    rows: &[[u8; ROW]],
    address: u64,
    of: &[Range<u64>],
    decode: impl Fn(&[u8; ROW]) -> TableEntry,
) -> Vec<usize> {
    let filled = of.iter().filter(|range| !range.is_empty());
    let mut of: Vec<Range<u64>> = filled.cloned().collect();
    of.sort_unstable_by_key(|range| range.start);
    let (Some(first), Some(last)) = (of.first(), of.last()) else {
        return Vec::new();
    };
    let is_in = |row: &[u8; ROW]| {
        let fde = decode(row).fde;
        let before = of.partition_point(|range| range.start <= fde);
        let last = before.checked_sub(1).map(|index| &of[index]);
        last.is_some_and(|range| range.contains(&fde))
    };
    // As rows have them, where differences of less than 32 bits are what they are in 64.
    let start = first.start.wrapping_sub(address) as u32;
    let len = u32::try_from(last.end - first.start).unwrap_or(u32::MAX);
    let is_near = |row: &[u8; ROW]| {
        let fde = u32::from_le_bytes([row[4], row[5], row[6], row[7]]);
        fde.wrapping_sub(start) <= len
    };
    let mut found = Vec::new();
    for (number, together) in rows.chunks(TOGETHER).enumerate() {
        let is_any_near = together
            .iter()
            .fold(false, |is_any, row| is_any | is_near(row));
        if is_any_near {
            let here = (number * TOGETHER..).zip(together);
            found.extend(here.filter(|(_, row)| is_in(row)).map(|(index, _)| index));
        }
    }
    found
}

/// Brings a dynamic symbol up to date. `false` if more of it has changed than where and how large it is.
pub(super) fn update_dynamic_symbol(entry: &mut Sym, now: &Sym) -> bool {
    let same = entry.st_info == now.st_info && entry.st_other == now.st_other && { entry.st_shndx }
        == { now.st_shndx };
    entry.st_value = now.st_value;
    entry.st_size = now.st_size;
    same
}

#[cfg(test)]
mod tests {
    use super::replace_rows;
    use crate::elf::eh_frame::{TableEntry, hdr_size, write_hdr};
    use proptest::prelude::*;

    const HDR: u64 = 0x1000;
    const FRAMES: u64 = 0x8000;

    fn entries(rows: &[(u64, u64)]) -> Vec<TableEntry> {
        let entry = |(pc, fde): &(u64, u64)| TableEntry {
            pc: 0x10_0000 + pc,
            fde: FRAMES + fde,
        };
        rows.iter().map(entry).collect()
    }

    proptest! {
        #[test]
        fn a_table_with_replaced_rows_is_as_one_that_is_made_anew(
            rows in prop::collection::btree_map(0u64..4000, 0u64..1000, 0..400),
            new in prop::collection::btree_map(2000u64..8000, 300u64..600, 0..20),
        ) {
            // What stays is not at the place of what comes.
            let stays = |(pc, fde): &(u64, u64)| (300..600).contains(fde) || !new.contains_key(pc);
            let rows: Vec<(u64, u64)> = rows.into_iter().filter(stays).collect();
            let new: Vec<(u64, u64)> = new.into_iter().collect();
            let size = hdr_size(500);
            let mut table = vec![0; size];
            write_hdr(&mut table, HDR, FRAMES, &mut entries(&rows));
            let before = table.clone();
            let of = FRAMES + 300..FRAMES + 600;
            let changed = replace_rows(&mut table, HDR, std::slice::from_ref(&of), entries(&new)).unwrap();
            for (at, (before, now)) in before.iter().zip(&table).enumerate() {
                prop_assert!(before == now || changed.iter().any(|(start, size)| (*start..start + size).contains(&at)));
            }
            let mut all = entries(&rows);
            all.retain(|entry| !(FRAMES + 300..FRAMES + 600).contains(&entry.fde));
            all.extend(entries(&new));
            let mut expected = vec![0; size];
            write_hdr(&mut expected, HDR, FRAMES, &mut all);
            prop_assert!(table == expected);
        }
    }

    #[test]
    fn a_table_that_says_so_already_is_not_written() {
        let mut table = vec![0; hdr_size(4)];
        let all = [(1, 1), (5, 2), (9, 3)];
        write_hdr(&mut table, HDR, FRAMES, &mut entries(&all));
        let (before, of) = (table.clone(), FRAMES + 1..FRAMES + 3);
        let replace = |table: &mut [u8], new: &[(u64, u64)]| {
            replace_rows(table, HDR, std::slice::from_ref(&of), entries(new)).unwrap()
        };
        assert_eq!(replace(&mut table, &all[..2]), []);
        assert_eq!(table, before);
        // One row is another: those of other records are not written.
        assert_eq!(replace(&mut table, &[(1, 1), (6, 2)]), [(12, 16)]);
    }

    #[test]
    fn a_table_without_room_is_left_for_a_full_link() {
        let mut table = vec![0; hdr_size(1)];
        write_hdr(&mut table, HDR, FRAMES, &mut entries(&[(1, 1)]));
        assert!(replace_rows(&mut table, HDR, &[], entries(&[(2, 2)])).is_err());
        assert!(replace_rows(&mut [0; 64], HDR, &[], Vec::new()).is_err());
    }
}
