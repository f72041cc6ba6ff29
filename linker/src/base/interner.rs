//! Equal byte strings, found once: what interning names and merging pieces have in common.
//!
//! A table finds the strings: open addressing, one word for each, whose upper half are 32 bits of the hash and whose
//! lower half, less one, is the string's *token*, which counts the different ones in the order in which they came. The
//! bytes stay where they are.
//!
//! With millions of strings nothing of this is in the processor's caches: not the table, nor what a token stands for, nor
//! the bytes. Waiting for one after another takes most of the time. So what is added comes in lists, and while one is added, what the next ones will
//! need is fetched, in three steps: the word of the table some strings ahead, by it the place of the bytes,
//! and then the bytes.

use std::hash::Hasher as _;
use store::prefetch::prefetch;

/// Different byte strings.
#[derive(Default)]
pub struct Distinct<'a> {
    table: Vec<u64>,
    /// By token.
    strings: Vec<&'a [u8]>,
}

/// There are as many strings as there are tokens.
#[derive(Debug)]
pub struct Full;

/// A string that is to be added.
pub trait Keyed<'a> {
    /// 32 bits of its hash.
    fn hash(&self) -> u32;
    /// Its bytes.
    fn bytes(&self) -> &'a [u8];
}

/// How many strings ahead the bytes are fetched; what leads to them, twice and three times as many.
const AHEAD: usize = 4;

/// Of so many bytes of a string it is worth while to fetch them early; behind them the processor sees what is wanted.
const FETCHED: usize = 256;

/// Bytes that are fetched at once.
const LINE: usize = 64;

/// A table begins with this many words.
const FIRST_TABLE: usize = 64;

impl<'a> Distinct<'a> {
    /// None yet, and room for so many.
    pub fn with_capacity(strings: usize) -> Self {
        Distinct {
            table: vec![0; (strings + strings / 2).next_power_of_two().max(FIRST_TABLE)],
            strings: Vec::with_capacity(strings),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// The string of a token, if there is one.
    #[inline]
    pub fn get(&self, token: u32) -> Option<&'a [u8]> {
        self.strings.get(token as usize).copied()
    }

    /// The token of a string that is there.
    pub fn find(&self, hash: u32, bytes: &[u8]) -> Option<u32> {
        let mask = self.table.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let word = self.table[at];
            if word == 0 {
                return None;
            }
            let token = (word as u32).wrapping_sub(1);
            if (word >> 32) as u32 == hash && self.get(token) == Some(bytes) {
                return Some(token);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds those of a list that are not there. `done` is told each one's token, and whether it is new.
    ///
    /// # Errors
    /// If there are too many; those before are added.
    #[inline]
    pub fn add_all<T: Keyed<'a>>(
        &mut self,
        list: &[T],
        mut done: impl FnMut(&T, u32, bool),
    ) -> Result<(), Full> {
        for (i, new) in list.iter().enumerate() {
            if let Some(later) = list.get(i + 3 * AHEAD)
                && let Some(word) = self.table.get(self.start(later.hash()))
            {
                prefetch(word);
            }
            if let Some(later) = list.get(i + 2 * AHEAD)
                && let Some(likely) = self.likely(later.hash())
            {
                prefetch(likely);
            }
            if let Some(later) = list.get(i + AHEAD)
                && let Some(likely) = self.likely(later.hash())
                && likely.len() == later.bytes().len()
            {
                for bytes in [later.bytes(), likely] {
                    bytes.iter().take(FETCHED).step_by(LINE).for_each(prefetch);
                }
            }
            let (token, is_new) = self.add(new.hash(), new.bytes())?;
            done(new, token, is_new);
        }
        Ok(())
    }

    /// The word of the table where the search for a hash begins.
    #[inline]
    fn start(&self, hash: u32) -> usize {
        hash as usize & self.table.len().wrapping_sub(1)
    }

    /// What a string of this hash is probably equal to.
    #[inline]
    fn likely(&self, hash: u32) -> Option<&&'a [u8]> {
        let word = *self.table.get(self.start(hash))?;
        let token = (word as u32).wrapping_sub(1);
        let likely = self.strings.get(token as usize);
        likely.filter(|_| (word >> 32) as u32 == hash)
    }

    #[inline]
    fn add(&mut self, hash: u32, bytes: &'a [u8]) -> Result<(u32, bool), Full> {
        // At most two thirds are in use, so that every search ends.
        if 3 * self.strings.len() >= 2 * self.table.len() {
            self.grow();
        }
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let word = self.table[at];
            if word == 0 {
                // One more than a token must fit into half a word.
                let token = u32::try_from(self.strings.len()).map_err(|_| Full)?;
                let half = token.checked_add(1).ok_or(Full)?;
                self.table[at] = u64::from(hash) << 32 | u64::from(half);
                self.strings.push(bytes);
                return Ok((token, true));
            }
            if (word >> 32) as u32 == hash {
                let token = (word as u32) - 1;
                if self.strings[token as usize] == bytes {
                    return Ok((token, false));
                }
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (2 * self.table.len()).max(FIRST_TABLE);
        let old = std::mem::replace(&mut self.table, vec![0; size]);
        for word in old.into_iter().filter(|word| *word != 0) {
            let mut at = (word >> 32) as usize & (size - 1);
            while self.table[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.table[at] = word;
        }
    }
}

/// A hash of a name.
#[inline]
pub fn hash_name(name: &[u8]) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(name);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::{Distinct, Keyed};

    struct Word(u32, &'static [u8]);

    impl Keyed<'static> for Word {
        fn hash(&self) -> u32 {
            self.0
        }
        fn bytes(&self) -> &'static [u8] {
            self.1
        }
    }

    #[test]
    fn equal_strings_have_one_token_whatever_their_hashes() {
        let mut distinct = Distinct::default();
        assert_eq!(distinct.find(1, b"a"), None);
        let words = [
            Word(1, b"a"),
            Word(1, b"b"),
            Word(1, b"a"),
            Word(2, b""),
            Word(65, b"c"),
            Word(2, b""),
        ];
        let mut seen = Vec::new();
        distinct
            .add_all(&words, |_, token, is_new| seen.push((token, is_new)))
            .unwrap();
        assert_eq!(
            seen,
            [
                (0, true),
                (1, true),
                (0, false),
                (2, true),
                (3, true),
                (2, false)
            ]
        );
        assert_eq!(distinct.find(1, b"b"), Some(1));
        assert_eq!(distinct.find(65, b"b"), None);
        assert_eq!(distinct.get(3), Some(&b"c"[..]));
        assert_eq!(distinct.get(4), None);
    }

    #[test]
    fn they_are_found_after_the_table_has_grown() {
        let texts: Vec<&'static [u8]> = (0..1000)
            .map(|i| &*i.to_string().into_bytes().leak())
            .collect();
        // Few different hashes, so that they stand close together.
        let words: Vec<Word> = (0..)
            .zip(&texts)
            .map(|(i, text)| Word(i % 90, text))
            .collect();
        for mut distinct in [Distinct::default(), Distinct::with_capacity(300)] {
            for _ in 0..2 {
                distinct
                    .add_all(&words, |word, token, _| {
                        assert_eq!(texts[token as usize], word.1)
                    })
                    .unwrap();
            }
            assert_eq!(distinct.len(), 1000);
            for (i, text) in texts.iter().enumerate() {
                assert_eq!(distinct.find(i as u32 % 90, text), Some(i as u32));
            }
        }
    }
}
