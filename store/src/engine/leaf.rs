//! Leaves of indices: finding a key, and adding words. `format_spec::leaf` says what a
//! word's bits are and where it may stand.

use super::error::Fault;
use super::log::{record_at, record_of};
use super::map::{self, Line, View};
use super::record::Record;
use super::sync::Word;
use format_spec::digest::Digest;
use format_spec::file::{IndexSlot, LEAF_ALIGN};
use format_spec::ids::Address;
use format_spec::leaf::{self, KeyBits, LINE_WORDS, MAX_LOG2, MIN_LOG2, Shape};
use format_spec::trie::Child;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// The words of a leaf in the file, of an index or a vector.
#[inline]
pub(super) fn words<'s>(view: View<'s>, leaf: Child) -> Result<&'s [Word], Fault> {
    let is_leaf = (MIN_LOG2..=MAX_LOG2).contains(&leaf.log2());
    if !is_leaf || !leaf.address().is_multiple_of(LEAF_ALIGN) {
        return Err(Fault::of_index(leaf.address(), "is not a leaf"));
    }
    view.words(leaf.address(), 1 << leaf.log2())
}

/// The words, as they are now.
pub(super) fn copy_of(words: &[Word]) -> Vec<u64> {
    (words.iter())
        .map(|word| word.load(Ordering::Relaxed))
        .collect()
}

/// The shape of an index's leaf.
#[inline]
pub(super) fn shape(leaf: Child) -> Result<Shape, Fault> {
    Shape::new(leaf.prefix(), leaf.log2())
        .ok_or(Fault::of_index(leaf.address(), "leaf's size is wrong"))
}

/// The newest record of `key` below the view's end that `is_it`, if this is the leaf for it.
///
/// Costs a cache line of the leaf if there is none, and the record's head and
/// key if there is one; other records only if the bits of the tag are equal that
/// do not follow from the line. Within a line, words stand in its first places,
/// because whoever looks for a free one enters it at the first; so the last place
/// tells whether there is more.
#[inline]
pub(super) fn find<'s>(
    view: View<'s>,
    (index, has_replaced): (IndexSlot, bool),
    leaf: Child,
    key: &Digest,
    is_it: impl Fn(&Record<'s>) -> bool,
) -> Result<Option<Record<'s>>, Fault> {
    let shape = shape(leaf)?;
    let (lines, _) = words(view, leaf)?.as_chunks::<{ LINE_WORDS as usize }>();
    let (mut place, tag) = home_and_tag(shape, key);
    let mut newest: Option<Record<'s>> = None;
    for _ in 0..shape.reach() {
        let Some(line) = lines.get(place as usize) else {
            break;
        };
        let mut tagged = map::look_for(tag, line);
        while tagged.matches != 0 {
            let word = &line[tagged.matches.trailing_zeros() as usize];
            tagged.matches &= tagged.matches - 1;
            let found = candidate(view, index, key, word)?;
            let Some(found) = found.filter(&is_it) else {
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

/// The home line of `key` and its tag, which the first bits tell in all but the highest of tries.
#[inline]
fn home_and_tag(shape: Shape, key: &Digest) -> (u64, u64) {
    let first = KeyBits::first(key.window(0));
    let found = shape.home_and_tag(&first);
    found.unwrap_or_else(|| (shape.home(key), shape.tag(key)))
}

/// The home line of `key` in the leaf, and its tag there.
#[inline]
pub(super) fn home<'s>(view: View<'s>, leaf: Child, key: &Digest) -> Option<(&'s Line, u64)> {
    let shape = shape(leaf).ok()?;
    let (lines, _) = words(view, leaf).ok()?.as_chunks();
    let (home, tag) = home_and_tag(shape, key);
    Some((lines.get(home as usize)?, tag))
}

/// Where the first word of the line with this tag leads.
#[inline]
pub(super) fn first_tagged(line: &Line, tag: u64) -> Option<Address> {
    let tagged = map::look_for(tag, line);
    let word = line.get(tagged.matches.trailing_zeros() as usize)?;
    Some(leaf::address(word.load(Ordering::Relaxed)))
}

/// Checks what says that `key` is not there, for a writer, who would else add a second
/// record of it: that the words on its way are sound, and that records with its tag are
/// whole, so that they are not its own with a damaged key.
pub(super) fn check_absence(view: View<'_>, leaf: Child, key: &Digest) -> Result<(), Fault> {
    let shape = shape(leaf)?;
    let words = words(view, leaf)?;
    let first = shape.home(key) * LINE_WORDS;
    for step in 0..shape.reach() * LINE_WORDS {
        let place = (first + step) & (shape.words() - 1);
        let word = words[place as usize].load(Ordering::Relaxed);
        if !leaf::is_sound(word) {
            return Err(unsound(leaf, place));
        }
        if word == 0 {
            break;
        }
        if leaf::tag(word) == shape.tag(key) && is_visible(view, word) {
            let address = leaf::address(word);
            let (_, record) = record_at(view, address)?;
            if !record.is_whole() {
                return Err(Fault::new(address.0, "record's check is wrong"));
            }
        }
    }
    Ok(())
}

/// Where records are that could be `key`'s by their words.
pub(super) fn candidates(view: View<'_>, leaf: Child, key: &Digest) -> Result<Vec<Address>, Fault> {
    let shape = shape(leaf)?;
    let words = words(view, leaf)?;
    let first = shape.home(key) * LINE_WORDS;
    let places = (0..shape.reach() * LINE_WORDS).map(|step| (first + step) & (shape.words() - 1));
    Ok(places
        .map(|place| words[place as usize].load(Ordering::Relaxed))
        .take_while(|&word| word != 0)
        .filter(|&word| leaf::tag(word) == shape.tag(key) && is_visible(view, word))
        .map(leaf::address)
        .collect())
}

#[cold]
fn unsound(leaf: Child, place: u64) -> Fault {
    Fault::of_index(leaf.address() + place * 8, "word of an index is damaged")
}

/// Whether a word leads to a record that the view has. (To free words and those
/// of later transactions it takes no notice.)
#[inline]
fn is_visible(view: View<'_>, word: u64) -> bool {
    (1..view.end()).contains(&leaf::address(word).0)
}

/// The record that a word with the right tag leads to, if it is `key`'s.
#[inline]
fn candidate<'s>(
    view: View<'s>,
    index: IndexSlot,
    key: &Digest,
    word: &Word,
) -> Result<Option<Record<'s>>, Fault> {
    let mut value = word.load(Ordering::Relaxed);
    if let Some(record) = record_of(view, leaf::address(value), index, key) {
        return Ok(Some(record));
    }
    loop {
        if !is_visible(view, value) {
            return Ok(None);
        }
        let fault = match record_at(view, leaf::address(value)) {
            Ok((slot, record)) if slot == index => {
                return Ok(record.has_key(key).then_some(record));
            }
            Ok(_) => Fault::new(leaf::address(value).0, "record is of another index"),
            Err(fault) => fault,
        };
        // Not a record: damage, or a word that a writer is just writing (which
        // then cannot be one that this view should see).
        let again = word.load(Ordering::Acquire);
        if again == value && !leaf::is_sound(value) {
            return Err(Fault::of_index(fault.offset, "word of an index is damaged"));
        }
        if again == value {
            return Err(fault);
        }
        value = again;
    }
}

/// The record of `index` that a word leads to.
pub(super) fn led_to(view: View<'_>, index: IndexSlot, word: u64) -> Result<Record<'_>, Fault> {
    let address = leaf::address(word);
    if !leaf::is_sound(word) {
        return Err(Fault::of_index(address.0, "word of an index is damaged"));
    }
    match record_at(view, address)? {
        (slot, record) if slot == index => Ok(record),
        _ => Err(Fault::new(address.0, "record is of another index")),
    }
}

/// A record to be entered in a leaf, and what is known of its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub address: Address,
    pub bits: KeyBits,
}

/// Reads the key of a record: for an [`Entry`] of which too little is known.
pub(super) trait Keys {
    /// What goes wrong.
    type Error;
    /// The key of the record at `address`.
    fn key(&self, address: Address) -> Result<Digest, Self::Error>;
    /// The error of this damage.
    fn error(&self, fault: Fault) -> Self::Error;
}

impl Keys for View<'_> {
    type Error = Fault;
    fn key(&self, address: Address) -> Result<Digest, Fault> {
        record_at(*self, address).map(|(_, record)| record.key())
    }
    fn error(&self, fault: Fault) -> Fault {
        fault
    }
}

impl Entry {
    /// Bits `from` to `from + count - 1` of the key.
    pub fn bits<K: Keys>(&mut self, keys: &K, from: u32, count: u32) -> Result<u64, K::Error> {
        if let Some(bits) = self.bits.get(from, count) {
            return Ok(bits);
        }
        self.bits = KeyBits::of(&keys.key(self.address)?, from);
        Ok(self.bits.get(from, count).unwrap_or(0))
    }

    /// The home line in a leaf of this shape, and the tag.
    pub fn home_and_tag<K: Keys>(
        &mut self,
        keys: &K,
        shape: Shape,
    ) -> Result<(u64, u64), K::Error> {
        if let Some(found) = shape.home_and_tag(&self.bits) {
            return Ok(found);
        }
        let key = keys.key(self.address)?;
        self.bits = KeyBits::of(&key, shape.first_bit());
        Ok((shape.home(&key), shape.tag(&key)))
    }
}

/// The place for a word whose home line is `home`: the first, from there on, that `is_free`.
/// `None` if all within reach are taken.
pub(super) fn free_place(
    shape: Shape,
    home: u64,
    mut is_free: impl FnMut(u64) -> bool,
) -> Option<u64> {
    let first = home * LINE_WORDS;
    (0..shape.reach() * LINE_WORDS)
        .map(|step| (first + step) & (shape.words() - 1))
        .find(|&place| is_free(place))
}

/// Adds the words for `entries`, in this order, to a leaf in memory. `false` if one does not fit.
pub(super) fn add_all<K: Keys>(
    keys: &K,
    words: &mut [u64],
    shape: Shape,
    entries: &mut [Entry],
) -> Result<bool, K::Error> {
    for entry in entries {
        let (home, tag) = entry.home_and_tag(keys, shape)?;
        let Some(place) = free_place(shape, home, |place| words[place as usize] == 0) else {
            return Ok(false);
        };
        words[place as usize] = leaf::word(tag, entry.address);
    }
    Ok(true)
}

/// What a leaf holds of records below `end`, in the order of their places, for entering it in
/// others. Where the index `has_replaced`, of several words of one key only the one
/// with the largest address, in the place of the first.
pub(super) fn entries<K: Keys>(
    keys: &K,
    leaf: Child,
    words: &[u64],
    end: u64,
    has_replaced: bool,
) -> Result<Vec<Entry>, K::Error> {
    let shape = shape(leaf).map_err(|fault| keys.error(fault))?;
    let mut entries = Vec::with_capacity(words.len());
    for (place, &word) in (0u64..).zip(words) {
        let address = leaf::address(word);
        if word == 0 || address.0 >= end {
            continue;
        }
        if !leaf::is_sound(word) {
            return Err(keys.error(unsound(leaf, place)));
        }
        let bits = shape.known_bits(leaf::tag(word), place / LINE_WORDS);
        let bits = bits.map_err(|_| {
            let what = "word is too far from its home line";
            keys.error(Fault::of_index(leaf.address() + place * 8, what))
        })?;
        // Without any, the record is read when they are needed.
        let bits = bits.unwrap_or(KeyBits::NONE);
        entries.push(Entry { address, bits });
    }
    if has_replaced {
        entries = newest_of_each_key(keys, shape, entries)?;
    }
    Ok(entries)
}

fn newest_of_each_key<K: Keys>(
    keys: &K,
    shape: Shape,
    entries: Vec<Entry>,
) -> Result<Vec<Entry>, K::Error> {
    let mut kept: Vec<Entry> = Vec::with_capacity(entries.len());
    // By home and tag: nearly always those of one key only.
    let mut alike: HashMap<(u64, u64), Vec<usize>> = HashMap::with_capacity(entries.len());
    'entries: for mut entry in entries {
        let same = alike.entry(entry.home_and_tag(keys, shape)?).or_default();
        for &other in same.iter() {
            let other = &mut kept[other];
            if keys.key(other.address)? == keys.key(entry.address)? {
                if other.address < entry.address {
                    *other = entry;
                }
                continue 'entries;
            }
        }
        same.push(kept.len());
        kept.push(entry);
    }
    Ok(kept)
}

/// How full a new leaf may be, in eighths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fill {
    /// Five: it has room for what is added next.
    #[default]
    Roomy,
    /// Seven: nearly all that there will be is known.
    Dense,
}

/// The size of a new leaf for `count` words. `None` if no leaf is large enough.
pub(super) fn log2_for(count: usize, fill: Fill) -> Option<u32> {
    let eighths = match fill {
        Fill::Roomy => 5,
        Fill::Dense => 7,
    };
    (MIN_LOG2..=MAX_LOG2).find(|&log2| count <= (1 << log2) / 8 * eighths)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that are the record's address.
    struct Addresses;

    impl Keys for Addresses {
        type Error = Fault;
        fn key(&self, address: Address) -> Result<Digest, Fault> {
            let mut key = Digest([0; 32]);
            key.0[24..].copy_from_slice(&address.0.to_be_bytes());
            Ok(key)
        }
        fn error(&self, fault: Fault) -> Fault {
            fault
        }
    }

    fn alike(first: u64, count: u64) -> Vec<Entry> {
        (0..count)
            .map(|i| Entry {
                address: Address(4096 + 8 * i),
                bits: KeyBits::first(first),
            })
            .collect()
    }

    #[test]
    fn sizes() {
        let roomy = |count| log2_for(count, Fill::Roomy);
        assert_eq!(roomy(0), Some(6));
        assert_eq!(roomy(40), Some(6));
        assert_eq!(roomy(41), Some(7));
        assert_eq!(roomy(5120), Some(13));
        assert_eq!(roomy(5121), None);
        let dense = |count| log2_for(count, Fill::Dense);
        assert_eq!(dense(56), Some(6));
        assert_eq!(dense(57), Some(7));
        assert_eq!(dense(7168), Some(13));
        assert_eq!(dense(7169), None);
    }

    #[test]
    fn words_wrap_around_from_the_last_line() {
        let shape = Shape::new(0, 7).unwrap();
        let mut words = vec![0; 128];
        assert!(add_all(&Addresses, &mut words, shape, &mut alike(u64::MAX, 20)).unwrap());
        assert!(words[120..].iter().all(|&word| word != 0));
        assert!(words[..12].iter().all(|&word| word != 0));
        assert!(words[12..120].iter().all(|&word| word == 0));
    }

    #[test]
    fn reach_is_bounded() {
        let shape = Shape::new(0, 10).unwrap();
        let mut words = vec![0; 1024];
        assert!(add_all(&Addresses, &mut words, shape, &mut alike(0, 64)).unwrap());
        assert!(!add_all(&Addresses, &mut words, shape, &mut alike(0, 1)).unwrap());
    }

    #[test]
    fn entries_of_a_leaf_are_what_was_entered() {
        // With a prefix as long as this, a small leaf's words do not tell their home.
        for (prefix, log2) in [(0, 6), (9, 6), (9, 13), (240, 13)] {
            let leaf = Child::leaf(Address(1 << 20), log2, prefix);
            let shape = shape(leaf).unwrap();
            let mut words = vec![0; shape.words() as usize];
            let mut entered: Vec<Entry> = (0..30)
                .map(|i| Entry {
                    address: Address(8192 + 64 * i),
                    bits: KeyBits::NONE,
                })
                .collect();
            assert!(add_all(&Addresses, &mut words, shape, &mut entered).unwrap());
            let mut found = entries(&Addresses, leaf, &words, u64::MAX, true).unwrap();
            assert_eq!(found.len(), 30);
            let mut again = vec![0; words.len()];
            assert!(add_all(&Addresses, &mut again, shape, &mut found).unwrap());
            assert_eq!(words, again);
            assert_eq!(
                entries(&Addresses, leaf, &words, 8192 + 64, false)
                    .unwrap()
                    .len(),
                1
            );
            let place = words.iter().position(|&word| word != 0).unwrap();
            words[place] ^= 1;
            assert!(entries(&Addresses, leaf, &words, u64::MAX, false).is_err());
        }
    }
}
