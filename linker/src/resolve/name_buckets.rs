//! Names while they are collected, in buckets by their hash, so that several threads intern them.
//!
//! A name's id is its token in its bucket and the bucket's number.

use crate::base::ids::SymbolId;
use crate::base::interner::{Distinct, Keyed, hash_name};

/// A name on its way into its bucket.
pub(super) struct Mention<'a> {
    pub(super) name: &'a [u8],
    pub(super) hash: u32,
    pub(super) slot: u32,
}

impl<'a> Keyed<'a> for Mention<'a> {
    #[inline]
    fn hash(&self) -> u32 {
        self.hash
    }

    #[inline]
    fn bytes(&self) -> &'a [u8] {
        self.name
    }
}

/// The names as long as more come.
pub struct Names<'n, 'a> {
    pub(super) buckets: &'n mut [Distinct<'a>],
    pub(super) bucket_bits: u32,
}

impl<'a> Names<'_, 'a> {
    /// The names with their ids, but for the first so many of each bucket; these numbers are brought up to date.
    pub fn since(&self, seen: &mut Vec<u32>) -> Vec<(SymbolId, &'a [u8])> {
        seen.resize(self.buckets.len(), 0);
        let mut new = Vec::new();
        for (number, (bucket, seen)) in (0u32..).zip(self.buckets.iter().zip(seen)) {
            let tokens = std::mem::replace(seen, bucket.len() as u32)..bucket.len() as u32;
            let ids = tokens.map(|token| (SymbolId(token << self.bucket_bits | number), token));
            new.extend(ids.filter_map(|(id, token)| Some((id, bucket.get(token)?))));
        }
        new
    }

    /// The id of a name, which is added if it is not there.
    pub fn add(&mut self, name: &'a [u8]) -> SymbolId {
        let hash = hash_name(name);
        let number = bucket_of(hash, self.bucket_bits);
        let mention = Mention {
            name,
            hash: hash as u32,
            slot: 0,
        };
        let mut id = SymbolId::NONE;
        let added = self.buckets[number].add_all(&[mention], |_, token, _| {
            id = SymbolId(token << self.bucket_bits | number as u32);
        });
        added.expect("there are fewer names than slots, which 32 bits count");
        id
    }
}

/// The bucket of the names of a hash.
#[inline]
pub(super) fn bucket_of(hash: u64, bucket_bits: u32) -> usize {
    match bucket_bits {
        0 => 0,
        bits => (hash >> (64 - bits)) as usize,
    }
}
