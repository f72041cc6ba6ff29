//! Tables: finding, adding and growing. `format_spec::table` says what a
//! word's bits are and where it may stand.

use super::error::Fault;
use super::log::{Record, record_at};
use super::map::{self, View};
use super::sync::Word;
use format_spec::digest::Digest;
use format_spec::file::{IndexRoot, TableRef};
use format_spec::ids::Address;
use format_spec::table::{self, LINE_WORDS, MAX_LOG2, MIN_LOG2, Shape};
use std::sync::atomic::Ordering;

/// The words of a table in the file.
pub(super) fn words<'s>(view: View<'s>, table: TableRef) -> Result<&'s [Word], Fault> {
    let count = 1u64
        .checked_shl(table.log2())
        .filter(|&count| count <= 1 << MAX_LOG2)
        .ok_or(Fault::new(table.address(), "table's size is wrong"))?;
    view.words(table.address(), count)
}

/// The shape of an index's table.
#[inline]
pub(super) fn shape(table: TableRef) -> Result<Shape, Fault> {
    Shape::new(table.log2()).ok_or(Fault::new(table.address(), "table's size is wrong"))
}

/// The newest record of `key` below the view's end.
///
/// Costs a cache line of the table if there is none, and the record's head and
/// key if there is one; other records only if 24 bits of tag are equal. Within a
/// line, words stand in its first places, because whoever looks for a free one
/// enters it at the first; so the last place tells whether there is more.
#[inline]
pub(super) fn find<'s>(
    view: View<'s>,
    index: u8,
    root: &IndexRoot,
    key: &Digest,
) -> Result<Option<Record<'s>>, Fault> {
    if root.table.is_none() {
        return Ok(None);
    }
    let shape = shape(root.table)?;
    let words = view.words(root.table.address(), shape.words())?;
    let (lines, _) = words.as_chunks::<{ LINE_WORDS as usize }>();
    let hash = table::hash(key);
    let tag = shape.tag(hash);
    let has_replaced = root.used != root.count;
    let mut newest: Option<Record<'s>> = None;
    let mut place = shape.home(hash);
    for _ in 0..shape.reach() {
        let Some(line) = lines.get(place as usize) else {
            break;
        };
        let mut tagged = map::look_for(tag, line);
        while tagged.matches != 0 {
            let word = &line[tagged.matches.trailing_zeros() as usize];
            tagged.matches &= tagged.matches - 1;
            let Some(found) = candidate(view, index, key, word)? else {
                continue;
            };
            if !has_replaced {
                return Ok(Some(found));
            }
            if newest.is_none_or(|newest| newest.address < found.address) {
                newest = Some(found);
            }
        }
        if !tagged.is_full {
            break;
        }
        place = (place + 1) & (shape.lines() - 1);
    }
    Ok(newest)
}

/// Whether a word leads to a record that the view has. (To free words and those
/// of later transactions it takes no notice.)
#[inline]
fn is_visible(view: View<'_>, word: u64) -> bool {
    (1..view.end()).contains(&table::address(word).0)
}

/// The record that a word with the right tag leads to, if it is `key`'s.
#[inline]
fn candidate<'s>(
    view: View<'s>,
    index: u8,
    key: &Digest,
    word: &Word,
) -> Result<Option<Record<'s>>, Fault> {
    let mut value = word.load(Ordering::Relaxed);
    loop {
        if !is_visible(view, value) {
            return Ok(None);
        }
        let fault = match record_at(view, table::address(value)) {
            Ok((slot, record)) if slot == index => {
                return Ok((record.key == key).then_some(record));
            }
            Ok(_) => Fault::new(table::address(value).0, "record is of another index"),
            Err(fault) => fault,
        };
        // Not a record: damage, or a word that a writer is just writing (which
        // then cannot be one that this view should see).
        let again = word.load(Ordering::Acquire);
        if again == value {
            return Err(fault);
        }
        value = again;
    }
}

/// A word to be written: its place in the table, counted in words.
pub(super) type Placed = (u64, u64);

/// The place for a word whose home follows from `hash`: the first, from its
/// home on, that `is_free`. `None` if all within reach are taken.
pub(super) fn free_place(
    shape: Shape,
    hash: u64,
    mut is_free: impl FnMut(u64) -> bool,
) -> Option<u64> {
    let first = shape.home(hash) * LINE_WORDS;
    (0..shape.reach() * LINE_WORDS)
        .map(|step| (first + step) & (shape.words() - 1))
        .find(|&place| is_free(place))
}

/// Adds the words for `entries` (hash, address) to a table in memory.
/// `false` if one does not fit.
#[must_use]
pub(super) fn add_all(table: &mut [u64], shape: Shape, entries: &[(u64, Address)]) -> bool {
    entries.iter().all(|&(hash, address)| {
        let place = free_place(shape, hash, |place| table[place as usize] == 0);
        if let Some(place) = place {
            table[place as usize] = shape.word(hash, address);
        }
        place.is_some()
    })
}

/// Whether a table of `shape` should take no more than `used` words: beyond
/// three quarters, words begin to stand far from home.
pub(super) fn is_full(shape: Shape, used: u64) -> bool {
    used > shape.words() / 4 * 3
}

/// The size that a new table for `count` keys should have: at most five
/// eighths full.
pub(super) fn log2_for(count: u64) -> u32 {
    (MIN_LOG2..MAX_LOG2)
        .find(|&log2| count <= (1 << log2) / 8 * 5)
        .unwrap_or(MAX_LOG2)
}

/// A larger (or cleaned) table with the words of `old`, in the order in which
/// they stand there. If `has_replaced`, of several words of one key only the
/// newest is kept. `None` if it turns out too small.
pub(super) fn rebuild(
    view: View<'_>,
    old: &[u64],
    old_table: TableRef,
    new: Shape,
    has_replaced: bool,
) -> Result<Option<Vec<u64>>, Fault> {
    let mut table = vec![0; new.words() as usize];
    if old.is_empty() {
        return Ok(Some(table));
    }
    let old_shape = shape(old_table)?;
    for (place, &word) in (0u64..).zip(old) {
        if word == 0 {
            continue;
        }
        let fault = |what| Fault::new(old_table.address() + place * 8, what);
        let address = table::address(word);
        let hash = if old_shape.suffices_for(new) {
            old_shape
                .known_hash(word, place / LINE_WORDS)
                .ok_or(fault("word is too far from its home line"))?
        } else {
            table::hash(record_at(view, address)?.1.key)
        };
        let word = new.word(hash, address);
        let mut same_key = Ok(false);
        let place = free_place(new, hash, |place| {
            let other = table[place as usize];
            if has_replaced && other != 0 && table::tag(other) == table::tag(word) {
                same_key = have_same_key(view, address, table::address(other));
            }
            other == 0 || same_key != Ok(false)
        });
        let has_same_key = same_key?;
        let Some(place) = place else {
            return Ok(None);
        };
        let slot = &mut table[place as usize];
        if !has_same_key || table::address(*slot) < address {
            *slot = word;
        }
    }
    Ok(Some(table))
}

fn have_same_key(view: View<'_>, a: Address, b: Address) -> Result<bool, Fault> {
    Ok(record_at(view, a)?.1.key == record_at(view, b)?.1.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(log2_for(0), 6);
        assert_eq!(log2_for(40), 6);
        assert_eq!(log2_for(41), 7);
        assert_eq!(log2_for(1_000_000), 21);
        let shape = Shape::new(6).unwrap();
        assert!(!is_full(shape, 48));
        assert!(is_full(shape, 49));
    }

    #[test]
    fn words_wrap_around_from_the_last_line() {
        let shape = Shape::new(7).unwrap();
        let mut table = vec![0; 128];
        let entries: Vec<_> = (0..20).map(|i| (u64::MAX, Address(4096 + 8 * i))).collect();
        assert!(add_all(&mut table, shape, &entries));
        assert!(table[120..].iter().all(|&word| word != 0));
        assert!(table[..12].iter().all(|&word| word != 0));
        assert!(table[12..120].iter().all(|&word| word == 0));
    }

    #[test]
    fn reach_is_bounded() {
        let shape = Shape::new(10).unwrap();
        let mut table = vec![0; 1024];
        let entries: Vec<_> = (0..129).map(|i| (0, Address(4096 + 8 * i))).collect();
        assert!(add_all(&mut table, shape, &entries[..128]));
        assert!(!add_all(&mut table, shape, &entries[128..]));
    }
}
