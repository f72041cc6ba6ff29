//! How a compilation is recorded: whole, as a [difference](super::difference) to another one, or compressed.
//!
//! What is not recorded whole is made when it is opened, once, and kept with the store: views borrow from that as they do from the
//! file. Compressed, a compilation is one LZ4 block of the [planes](super::columns) of its lists, and of the uses.

use super::columns::{ALL_DIFFERENCES, compress, decompress, is_possible, put_planes, take_planes};
use super::cutter::Cutter;
use super::view::{COMPILATION, Programs};
use super::{ProgramError, Result, difference};
use crate::engine::{Error, Record};
use format_spec::ids::Address;
use format_spec::program::{CompilationHeader, CompressedCompilation, Index};

const MISFIT: &str = "the form in which it is recorded does not fit its base or itself";

/// A list of a compilation: how many elements it has, of how many words each, and which of these are differences in planes.
struct List {
    count: usize,
    width: usize,
    differences: u32,
}

const LISTS: usize = 8;
/// Of the lists, the one whose elements may be shorter than a word.
const BINDINGS: usize = 3;

/// The lists of the value that begins with `header`, in their order; behind them are the uses, a byte each.
fn lists(header: &CompilationHeader) -> [List; LISTS] {
    let list = |count: u32, width, differences| List {
        count: count as usize,
        width,
        differences,
    };
    [
        list(header.member_count, 8, ALL_DIFFERENCES),
        list(header.symbol_count, 5, ALL_DIFFERENCES),
        list(header.group_count, 2, ALL_DIFFERENCES),
        list(header.binding_count, 1, 0),
        list(header.wide_count, 2, 0),
        list(header.shape_count, 5, ALL_DIFFERENCES),
        list(header.section_count, 4, ALL_DIFFERENCES),
        list(header.piece_count, 1, ALL_DIFFERENCES),
    ]
}

/// Bytes of all planes and the uses.
fn planes_size(header: &CompilationHeader) -> Option<usize> {
    lists(header)
        .iter()
        .try_fold(header.binding_count as usize, |size, list| {
            size.checked_add(list.count.checked_mul(4 * list.width)?)
        })
}

/// A compilation's value as it is recorded compressed; `None` if it is none, or does not become smaller.
pub(super) fn compressed(value: &[u8]) -> Option<Vec<u8>> {
    // Aligned as in the file.
    let mut copy = vec![0u64; value.len().div_ceil(8)];
    bytemuck::cast_slice_mut::<u64, u8>(&mut copy)[..value.len()].copy_from_slice(value);
    let mut cutter = Cutter::new(&bytemuck::cast_slice::<u64, u8>(&copy)[..value.len()]);
    let header: CompilationHeader = *cutter.one()?;
    let mut planes = Vec::with_capacity(planes_size(&header)?);
    for (number, list) in lists(&header).iter().enumerate() {
        if number == BINDINGS && header.has_short_bindings() {
            let short: &[u16] = cutter.slice(list.count)?;
            let words: Vec<u32> = short.iter().map(|symbol| u32::from(*symbol)).collect();
            put_planes(&words, list.width, list.differences, &mut planes);
        } else {
            let words: &[u32] = cutter.slice(list.count * list.width)?;
            put_planes(words, list.width, list.differences, &mut planes);
        }
    }
    planes.extend_from_slice(cutter.slice(header.binding_count as usize)?);
    let head = CompressedCompilation {
        marker: CompressedCompilation::MARKER,
        reserved: 0,
        compilation: header,
    };
    let mut out = bytemuck::bytes_of(&head).to_vec();
    compress(&planes, &mut out);
    (out.len() < value.len()).then_some(out)
}

/// The head of a compilation that is recorded compressed; `None` if it is recorded otherwise.
fn compressed_header(recorded: &[u8]) -> Option<CompressedCompilation> {
    let head = recorded.get(..size_of::<CompressedCompilation>())?;
    let head: CompressedCompilation = bytemuck::pod_read_unaligned(head);
    (head.marker == CompressedCompilation::MARKER).then_some(head)
}

/// The value of which `recorded` is the compressed form: in words, of which the last may have zeros behind it, and its size.
fn decompressed(recorded: &[u8]) -> Option<(Vec<u64>, usize)> {
    let head = compressed_header(recorded)?;
    let header = &head.compilation;
    let block = &recorded[size_of::<CompressedCompilation>()..];
    let size = difference::value_size(header)?;
    let in_planes = planes_size(header)?;
    if head.reserved != 0 || !is_possible(block.len(), in_planes) {
        return None;
    }
    let mut planes = vec![0; in_planes];
    decompress(block, &mut planes)?;
    let mut rest = &planes[..];
    let mut words = vec![0u64; size.div_ceil(8)];
    let value: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    let mut at = size_of::<CompilationHeader>();
    value[..at].copy_from_slice(bytemuck::bytes_of(header));
    for (number, list) in lists(header).iter().enumerate() {
        let start = at.next_multiple_of(8);
        if number == BINDINGS && header.has_short_bindings() {
            at = start + 2 * list.count;
            let mut wide = vec![0; list.count];
            take_planes(&mut rest, list.width, list.differences, &mut wide)?;
            let places = value[start..at].chunks_exact_mut(2);
            for (place, symbol) in places.zip(wide) {
                place.copy_from_slice(&u16::try_from(symbol).ok()?.to_le_bytes());
            }
        } else {
            at = start + 4 * list.width * list.count;
            let place = bytemuck::try_cast_slice_mut(&mut value[start..at]).ok()?;
            take_planes(&mut rest, list.width, list.differences, place)?;
        }
    }
    let start = at.next_multiple_of(8);
    // The planes and the uses are as long as the header says.
    value.get_mut(start..size)?.copy_from_slice(rest);
    Some((words, size))
}

/// Whether something must be made of what is recorded before it can be read.
pub(super) fn is_made(recorded: &[u8]) -> bool {
    difference::header(recorded).is_some() || compressed_header(recorded).is_some()
}

/// A compilation's value for who looks at it once: it is not kept with the store.
pub(super) enum Fresh<'s> {
    /// As it is recorded.
    Recorded(&'s [u8]),
    /// Made of what is recorded: words, of which the last may have zeros behind it, and the size.
    Made(Vec<u64>, usize),
}

impl Fresh<'_> {
    /// The value.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Fresh::Recorded(value) => value,
            Fresh::Made(words, size) => {
                let bytes: &[u8] = bytemuck::cast_slice(words);
                &bytes[..bytes.len().min(*size)]
            }
        }
    }
}

impl<'s> Programs<'s> {
    /// The value of a compilation, whose record is whole, however it is recorded. Nothing is kept.
    pub(super) fn fresh_compilation(&self, record: &Record<'s>) -> Result<Fresh<'s>> {
        let made = match difference::header(record.value) {
            None if compressed_header(record.value).is_none() => {
                return Ok(Fresh::Recorded(record.value));
            }
            None => decompressed(record.value),
            Some(header) => {
                let base = self.base_record(record, header.base)?;
                // It is no difference, so this goes no deeper.
                let value = self.fresh_compilation(&base);
                let value = value.map_err(|why| self.of_base(record, why))?;
                difference::apply(value.bytes(), record.value)
            }
        };
        let (words, size) = made.ok_or_else(|| self.damaged(record.address, MISFIT))?;
        Ok(Fresh::Made(words, size))
    }

    /// Whether a compilation, whose record is whole, is recorded compressed, or as a difference to one that is.
    pub(super) fn is_compressed(&self, record: &Record<'s>) -> Result<bool> {
        let base = match difference::header(record.value) {
            None => return Ok(compressed_header(record.value).is_some()),
            Some(header) => self.base_record(record, header.base)?,
        };
        Ok(compressed_header(base.value).is_some())
    }

    /// The value of a compilation, whose record is whole, however it is recorded.
    pub(super) fn compilation_value(&self, record: &Record<'s>) -> Result<&'s [u8]> {
        match difference::header(record.value) {
            None => self.own_value(record),
            Some(header) => self.made(record, |programs| {
                let base = programs.base(record, header.base)?;
                Ok(difference::apply(base, record.value))
            }),
        }
    }

    /// The value of a compilation that is not recorded as a difference.
    fn own_value(&self, record: &Record<'s>) -> Result<&'s [u8]> {
        match compressed_header(record.value) {
            None => Ok(record.value),
            Some(_) => self.made(record, |_| Ok(decompressed(record.value))),
        }
    }

    /// What `make` makes of a record: words of a value, and its size. It is made once, and kept with the store.
    pub(super) fn made(
        &self,
        record: &Record<'s>,
        make: impl FnOnce(&Self) -> Result<Option<(Vec<u64>, usize)>>,
    ) -> Result<&'s [u8]> {
        let store = self.snapshot().store();
        let words = match store.kept(record.address) {
            Some(made) => made,
            None => {
                let (mut made, size) =
                    make(self)?.ok_or_else(|| self.damaged(record.address, MISFIT))?;
                // The last word is the size.
                made.push(size as u64);
                store.keep(record.address, made)
            }
        };
        let (size, words) = words.split_last().unwrap_or((&0, &[]));
        let value: &[u8] = bytemuck::cast_slice(words);
        Ok(&value[..value.len().min(*size as usize)])
    }

    /// The value of the base of the difference that `record` is.
    fn base(&self, record: &Record<'s>, base: Address) -> Result<&'s [u8]> {
        self.own_value(&self.base_record(record, base)?)
            .map_err(|why| self.of_base(record, why))
    }

    /// The record of the base of the difference that `record` is.
    fn base_record(&self, record: &Record<'s>, base: Address) -> Result<Record<'s>> {
        if base >= record.address {
            let what = "a compilation is recorded as a difference to what is not before it";
            return Err(self.damaged(record.address, what));
        }
        let base = self.base_compilation(base);
        base.map_err(|why| self.of_base(record, why))
    }

    /// What is wrong with the base of `record`, so that it is wrong with that.
    fn of_base(&self, record: &Record<'s>, why: ProgramError) -> ProgramError {
        match why {
            ProgramError::Damaged { .. } | ProgramError::Engine(Error::Damaged { .. }) => {
                let what = "a compilation is recorded as a difference to one that is damaged: build it again, or let \
                            repo-dump --verify --repair drop it";
                self.damaged(record.address, what)
            }
            other => other,
        }
    }

    /// The record of a compilation that is not recorded as a difference.
    fn base_compilation(&self, address: Address) -> Result<Record<'s>> {
        let record = self.whole(self.snapshot().record_at(address)?, COMPILATION)?;
        let is_one = record.index() == Some(Index::Compilations.slot())
            && difference::header(record.value).is_none();
        match is_one {
            true => Ok(record),
            false => Err(self.damaged(
                address,
                "not a compilation that others can be differences to",
            )),
        }
    }

    /// To what a writer may record a compilation as a difference, if its predecessor is at `address`: that one, or its base, and
    /// its value. `None` if there is nothing that can be relied on.
    pub(super) fn base_for_successor(&self, address: Address) -> Option<(Address, &'s [u8])> {
        let record = self.snapshot().record_at(address).ok()?;
        let base = difference::header(record.value).map_or(address, |header| header.base);
        let record = self.base_compilation(base).ok()?;
        Some((record.address, self.own_value(&record).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use proptest::prelude::*;

    /// A value whose lists have `counts` elements, of `words` and zeros; bindings are short as far as `symbol_count` lets them.
    fn value(counts: [u32; LISTS], symbol_count: u32, words: &[u32]) -> Vec<u8> {
        let header = CompilationHeader {
            member_count: counts[0],
            symbol_count,
            group_count: counts[2],
            binding_count: counts[3],
            wide_count: counts[4],
            shape_count: counts[5],
            section_count: counts[6],
            piece_count: counts[7],
            ..CompilationHeader::zeroed()
        };
        let size = difference::value_size(&header).expect("counts are small");
        let mut value = bytemuck::bytes_of(&header).to_vec();
        let mut words = words.iter().copied().cycle();
        for (number, list) in lists(&header).iter().enumerate() {
            value.resize(value.len().next_multiple_of(8), 0);
            let mut next = || words.next().unwrap_or(0);
            if number == BINDINGS && header.has_short_bindings() {
                let short = (0..list.count).map(|_| next() as u16);
                value.extend(short.flat_map(u16::to_le_bytes));
            } else {
                let wide = (0..list.count * list.width).map(|_| next());
                value.extend(wide.flat_map(u32::to_le_bytes));
            }
        }
        value.resize(value.len().next_multiple_of(8), 0);
        value.extend((0..header.binding_count).map(|n| n as u8));
        assert_eq!(value.len(), size);
        value
    }

    fn plain(recorded: &[u8]) -> Option<Vec<u8>> {
        let (words, size) = decompressed(recorded)?;
        Some(bytemuck::cast_slice::<u64, u8>(&words)[..size].to_vec())
    }

    fn any_value() -> impl Strategy<Value = Vec<u8>> {
        let counts = proptest::array::uniform8(0u32..20);
        let symbols = prop_oneof![9 => 0u32..20, 1 => Just((1 << 16) + 1)];
        // Small numbers, as most are: else nothing would become smaller.
        let words = proptest::collection::vec(0u32..700, 0..50);
        (counts, symbols, words).prop_map(|(counts, symbols, words)| value(counts, symbols, &words))
    }

    proptest! {
        #[test]
        fn values_come_back(value in any_value(), cut: prop::sample::Index) {
            let Some(recorded) = compressed(&value) else {
                return Ok(());
            };
            prop_assert!(recorded.len() < value.len() && is_made(&recorded));
            prop_assert_eq!(plain(&recorded), Some(value));
            prop_assert_eq!(plain(&recorded[..cut.index(recorded.len())]), None);
            prop_assert_eq!(plain(&[&recorded[..], &[0]].concat()), None);
        }

        #[test]
        fn damage_is_no_panic(value in any_value(), at: prop::sample::Index, bit in 0u32..8) {
            if let Some(mut recorded) = compressed(&value) {
                let at = at.index(recorded.len());
                recorded[at] ^= 1u8 << bit;
                let _ = plain(&recorded);
            }
        }
    }

    #[test]
    fn other_forms_are_not_taken_for_it() {
        let mut recorded =
            compressed(&value([9; LISTS], 9, &[1, 2, 3])).expect("it becomes smaller");
        assert!(compressed_header(&recorded).is_some());
        let reserved = std::mem::offset_of!(CompressedCompilation, reserved);
        recorded[reserved] = 1;
        assert_eq!(plain(&recorded), None);
        recorded[reserved] = 0;
        recorded[..4].copy_from_slice(&(CompressedCompilation::MARKER + 1).to_le_bytes());
        assert_eq!(plain(&recorded), None);
        assert!(compressed_header(&recorded).is_none());
    }
}
