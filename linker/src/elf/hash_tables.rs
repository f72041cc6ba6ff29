//! The hash tables by which the dynamic linker finds symbols: `.gnu.hash`, and
//! `.hash` for those who ask for it (gABI, "Hash Table").
//!
//! `.gnu.hash` has no written specification; what is described here is what glibc's
//! `dl-lookup.c` reads. It is
//!
//! ```text
//! u32 bucket count │ u32 first hashed symbol │ u32 Bloom words │ u32 Bloom shift
//! u64 × Bloom words │ u32 × bucket count │ u32 × hashed symbols
//! ```
//!
//! The symbols themselves must be ordered: first those that nobody looks up
//! (undefined ones), then the others by bucket. A bucket holds the index of its
//! first symbol, or 0. The last array holds each symbol's hash with the lowest bit
//! replaced by "last of its bucket". The Bloom filter has two bits for every symbol
//! and saves most of the misses, which are most of the lookups: a symbol is asked
//! for in one object after another.

/// The hash function of `.gnu.hash`: Bernstein's, times 33.
pub fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381u32, |hash, byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
    })
}

/// The hash function of `.hash` (gABI, "Hash Table").
pub fn sysv_hash(name: &[u8]) -> u32 {
    name.iter().fold(0u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(*byte));
        let top = hash & 0xf000_0000;
        (hash ^ (top >> 24)) & !top
    })
}

/// The shape of a `.gnu.hash` section, which follows from the number of symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GnuHash {
    symbol_count: usize,
    bucket_count: u32,
    /// A power of two.
    bloom_words: u32,
    /// Symbols behind them that cannot be found yet.
    spare: usize,
}

/// Which bits of the hash make the second Bloom bit: the highest six.
const BLOOM_SHIFT: u32 = 26;
const GNU_HEADER_SIZE: usize = 16;

impl GnuHash {
    /// Chooses the shape for `symbol_count` symbols that can be looked up. `None` if
    /// there are more than 2^31 of them.
    pub fn new(symbol_count: usize) -> Option<GnuHash> {
        let count = u32::try_from(symbol_count)
            .ok()
            .filter(|count| *count <= 1 << 31)?;
        Some(GnuHash {
            symbol_count,
            // Four to a bucket: a bucket's hashes are next to each other, so that
            // walking over them is cheap. An odd count shares no factor with the
            // powers of two by which the Bloom words are chosen.
            bucket_count: (count / 4) | 1,
            // At least ten bits a symbol, of which two are set: one miss in thirty
            // gets through.
            bloom_words: (count / 6).next_power_of_two(),
            spare: 0,
        })
    }

    /// The same, with so many symbols behind them that cannot be found yet.
    pub fn with_spare(self, spare: u32) -> GnuHash {
        GnuHash {
            spare: spare as usize,
            ..self
        }
    }

    /// Size of the section in bytes.
    pub fn size(&self) -> usize {
        GNU_HEADER_SIZE
            + 8 * self.bloom_words as usize
            + 4 * (self.bucket_count as usize + self.symbol_count + self.spare)
    }

    /// The order in which the symbols with these hashes must stand in `.dynsym`:
    /// by bucket, and within a bucket as they were. The n-th element is the index of
    /// the symbol that becomes the n-th.
    ///
    /// # Panics
    /// If there are not as many hashes as [`GnuHash::new`] was told.
    pub fn order(&self, hashes: &[u32]) -> Vec<u32> {
        assert_eq!(hashes.len(), self.symbol_count);
        // A counting sort: `next[b]` is where the next symbol of bucket b goes.
        let mut next = vec![0u32; self.bucket_count as usize + 1];
        for hash in hashes {
            next[(hash % self.bucket_count) as usize + 1] += 1;
        }
        for bucket in 1..next.len() {
            next[bucket] += next[bucket - 1];
        }
        let mut order = vec![0u32; hashes.len()];
        for (symbol, hash) in (0u32..).zip(hashes) {
            let place = &mut next[(hash % self.bucket_count) as usize];
            order[*place as usize] = symbol;
            *place += 1;
        }
        order
    }

    /// Writes the section. `hashes` are in the order of [`GnuHash::order`];
    /// `first_symbol` is the index in `.dynsym` of the first of them.
    ///
    /// # Panics
    /// If `out` is not [`GnuHash::size`] long, or the number of hashes is wrong.
    pub fn write(&self, out: &mut [u8], first_symbol: u32, hashes: &[u32]) {
        assert_eq!(out.len(), self.size());
        assert_eq!(hashes.len(), self.symbol_count);
        let (header, rest) = out.split_at_mut(GNU_HEADER_SIZE);
        let (bloom, rest) = rest.split_at_mut(8 * self.bloom_words as usize);
        let (buckets, chains) = rest.split_at_mut(4 * self.bucket_count as usize);
        let (chains, spare) = chains.split_at_mut(4 * self.symbol_count);
        // Each is a chain's end.
        for place in spare.chunks_exact_mut(4) {
            place.copy_from_slice(&1u32.to_le_bytes());
        }

        let fields = [
            self.bucket_count,
            first_symbol,
            self.bloom_words,
            BLOOM_SHIFT,
        ];
        for (place, value) in header.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&value.to_le_bytes());
        }

        let mut filter = vec![0u64; self.bloom_words as usize];
        for hash in hashes {
            let word = &mut filter[((hash / 64) & (self.bloom_words - 1)) as usize];
            *word |= 1 << (hash % 64);
            *word |= 1 << ((hash >> BLOOM_SHIFT) % 64);
        }
        for (place, word) in bloom.chunks_exact_mut(8).zip(filter) {
            place.copy_from_slice(&word.to_le_bytes());
        }

        buckets.fill(0);
        let mut previous = None;
        for (i, (place, hash)) in chains.chunks_exact_mut(4).zip(hashes).enumerate() {
            let bucket = hash % self.bucket_count;
            if previous != Some(bucket) {
                let index = first_symbol + i as u32;
                let at = 4 * bucket as usize;
                buckets[at..at + 4].copy_from_slice(&index.to_le_bytes());
                previous = Some(bucket);
            }
            let is_last = hashes
                .get(i + 1)
                .is_none_or(|next| next % self.bucket_count != bucket);
            let value = hash & !1 | u32::from(is_last);
            place.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// Linkers make chains of a few symbols.
const LONGEST_CHAIN: usize = 256;

/// A `.gnu.hash` section that is read.
#[derive(Clone, Copy)]
pub struct GnuHashTable<'a> {
    /// The first symbol that can be found.
    pub first_symbol: u32,
    bloom_shift: u32,
    bloom: &'a [[u8; 8]],
    buckets: &'a [[u8; 4]],
    chains: &'a [[u8; 4]],
}

impl<'a> GnuHashTable<'a> {
    /// Takes a section apart. `None` if it is not whole, or if to find something in it could take long.
    pub fn parse(section: &'a [u8]) -> Option<GnuHashTable<'a>> {
        let (header, rest) = section.split_first_chunk::<GNU_HEADER_SIZE>()?;
        let field = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (buckets, first_symbol, words, bloom_shift) = (field(0), field(4), field(8), field(12));
        let (bloom, rest) = rest.split_at_checked((words as usize).checked_mul(8)?)?;
        let (buckets, chains) = rest.split_at_checked((buckets as usize).checked_mul(4)?)?;
        let table = GnuHashTable {
            first_symbol,
            bloom_shift,
            bloom: bloom.as_chunks().0,
            buckets: buckets.as_chunks().0,
            chains: chains.as_chunks().0,
        };
        let good = words.is_power_of_two() && !table.buckets.is_empty() && bloom_shift < 32;
        let longest = table
            .chains
            .split(|value| value[0] & 1 != 0)
            .map(<[_]>::len)
            .max();
        (good && longest.is_none_or(|longest| longest < LONGEST_CHAIN)).then_some(table)
    }

    /// The symbols whose names may have this hash: all that have it, and some that have nearly the same.
    pub fn find(&self, hash: u32) -> impl Iterator<Item = u32> + use<'a> {
        let word = self.bloom[(hash / 64) as usize & (self.bloom.len() - 1)];
        let word = u64::from_le_bytes(word);
        let both = word >> (hash % 64) & word >> ((hash >> self.bloom_shift) % 64) & 1;
        let bucket = match both {
            0 => 0,
            _ => u32::from_le_bytes(self.buckets[hash as usize % self.buckets.len()]),
        };
        // An empty bucket has 0, which is before the first symbol.
        let start = bucket.checked_sub(self.first_symbol).filter(|_| bucket > 0);
        let chain = start.and_then(|start| self.chains.get(start as usize..));
        let mut last = false;
        let chain = chain.unwrap_or_default().iter().zip(0u32..);
        chain
            .take_while(move |(value, _)| !std::mem::replace(&mut last, value[0] & 1 != 0))
            .filter(move |(value, _)| u32::from_le_bytes(**value) | 1 == hash | 1)
            .map(move |(_, n)| bucket.wrapping_add(n))
    }
}

/// Size in bytes of a `.hash` section for a symbol table of `symbol_count` entries,
/// the null symbol among them.
pub fn sysv_size(symbol_count: usize) -> usize {
    4 * (2 + sysv_bucket_count(symbol_count) + symbol_count)
}

/// One bucket a symbol: chains are lists through memory, so they should be short.
fn sysv_bucket_count(symbol_count: usize) -> usize {
    symbol_count.max(1)
}

/// Writes a `.hash` section. `hashes` are those of all entries of `.dynsym` but the
/// null symbol, in order.
///
/// # Panics
/// If `out` is not `sysv_size(hashes.len() + 1)` long, or there are 2^32 symbols.
pub fn write_sysv(out: &mut [u8], hashes: &[u32]) {
    let symbol_count = hashes.len() + 1;
    assert_eq!(out.len(), sysv_size(symbol_count));
    let chain_count = u32::try_from(symbol_count).expect("fewer than 2^32 symbols");
    let bucket_count = u32::try_from(sysv_bucket_count(symbol_count)).unwrap_or(chain_count);

    let mut buckets = vec![0u32; bucket_count as usize];
    let mut chains = vec![0u32; symbol_count];
    // From the back, so that a chain has its symbols in ascending order.
    for (symbol, hash) in (1..chain_count).zip(hashes).rev() {
        let bucket = &mut buckets[(hash % bucket_count) as usize];
        chains[symbol as usize] = std::mem::replace(bucket, symbol);
    }
    let words = [bucket_count, chain_count]
        .into_iter()
        .chain(buckets)
        .chain(chains);
    for (place, word) in out.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_found(names in prop::collection::btree_set("[a-c]{1,6}", 1..200), first in 1u32..9) {
            let hashes: Vec<u32> = names.iter().map(|name| gnu_hash(name.as_bytes())).collect();
            let shape = GnuHash::new(hashes.len()).unwrap();
            let sorted: Vec<u32> = shape.order(&hashes).iter().map(|n| hashes[*n as usize]).collect();
            let mut section = vec![0; shape.size()];
            shape.write(&mut section, first, &sorted);
            let table = GnuHashTable::parse(&section).unwrap();
            prop_assert_eq!(table.first_symbol, first);
            for (index, hash) in (first..).zip(&sorted) {
                prop_assert!(table.find(*hash).any(|found| found == index));
            }
            for hash in [0, 1, gnu_hash(b"d"), u32::MAX] {
                let alike = |found: u32| sorted[(found - first) as usize] | 1 == hash | 1;
                prop_assert!(table.find(hash).all(alike));
            }
            // What is cut off gives fewer symbols, or no table.
            for end in [0, 15, 16, section.len() / 2, section.len() - 1] {
                if let Some(table) = GnuHashTable::parse(&section[..end]) {
                    sorted.iter().for_each(|hash| table.find(*hash).for_each(drop));
                }
            }
        }
    }

    /// Values that other programs print: `readelf --dyn-syms -D`, and the gABI's
    /// function worked by hand.
    #[test]
    fn hash_functions() {
        assert_eq!(gnu_hash(b""), 5381);
        assert_eq!(gnu_hash(b"a"), 5381 * 33 + 97);
        assert_eq!(gnu_hash(b"printf"), 0x156b_2bb8);
        assert_eq!(sysv_hash(b""), 0);
        assert_eq!(sysv_hash(b"a"), 0x61);
        assert_eq!(sysv_hash(b"ab"), 0x672);
        assert_eq!(sysv_hash(b"printf"), 0x077905a6);
        // Bytes are unsigned.
        assert_eq!(gnu_hash(&[0xff]), 5381 * 33 + 255);
    }

    fn word(table: &[u8], index: usize) -> u32 {
        u32::from_le_bytes(table[4 * index..4 * index + 4].try_into().unwrap())
    }

    /// A lookup as a dynamic linker does it.
    fn find_gnu(table: &[u8], names: &[String], name: &[u8]) -> Option<usize> {
        let hash = gnu_hash(name);
        let [buckets, first, words, shift] = [0, 1, 2, 3].map(|i| word(table, i));
        assert!(words.is_power_of_two());
        let at = 16 + 8 * ((hash / 64) & (words - 1)) as usize;
        let bloom = u64::from_le_bytes(table[at..at + 8].try_into().unwrap());
        if bloom >> (hash % 64) & 1 == 0 || bloom >> ((hash >> shift) % 64) & 1 == 0 {
            return None;
        }
        let table = &table[16 + 8 * words as usize..];
        let mut symbol = word(table, (hash % buckets) as usize);
        if symbol == 0 {
            return None;
        }
        loop {
            let entry = word(table, (buckets + symbol - first) as usize);
            if entry | 1 == hash | 1 && names[symbol as usize].as_bytes() == name {
                return Some(symbol as usize);
            }
            if entry & 1 == 1 {
                return None;
            }
            symbol += 1;
        }
    }

    fn find_sysv(table: &[u8], names: &[String], name: &[u8]) -> Option<usize> {
        let (buckets, chains) = (word(table, 0) as usize, word(table, 1) as usize);
        assert_eq!(table.len(), 4 * (2 + buckets + chains));
        let mut symbol = word(table, 2 + sysv_hash(name) as usize % buckets) as usize;
        while symbol != 0 {
            if names[symbol].as_bytes() == name {
                return Some(symbol);
            }
            symbol = word(table, 2 + buckets + symbol) as usize;
        }
        None
    }

    /// A table of the names after `undefined` others; and the names in its order.
    fn build(names: &[String], undefined: usize) -> (Vec<u8>, Vec<String>) {
        let hashes: Vec<_> = names.iter().map(|name| gnu_hash(name.as_bytes())).collect();
        let shape = GnuHash::new(names.len()).unwrap();
        let order = shape.order(&hashes);
        let mut table = vec![0xaa; shape.size()];
        let sorted: Vec<_> = order.iter().map(|i| hashes[*i as usize]).collect();
        shape.write(&mut table, undefined as u32, &sorted);
        let undefined = (0..undefined).map(|i| format!("undefined {i}"));
        let defined = order.iter().map(|i| names[*i as usize].clone());
        (table, undefined.chain(defined).collect())
    }

    #[test]
    fn empty_tables() {
        let (table, names) = build(&[], 1);
        assert_eq!(find_gnu(&table, &names, b"x"), None);
        let mut table = vec![0xaa; sysv_size(1)];
        write_sysv(&mut table, &[]);
        assert_eq!(find_sysv(&table, &["".into()], b"x"), None);
    }

    #[test]
    fn bloom_filter_stops_most_misses() {
        for count in [10, 100, 1000, 5000] {
            let names: Vec<_> = (0..count).map(|i| format!("symbol_{i}")).collect();
            let hashes: Vec<_> = names.iter().map(|name| gnu_hash(name.as_bytes())).collect();
            let shape = GnuHash::new(count).unwrap();
            let (table, _) = build(&names, 1);
            let bits: u32 = table[16..16 + 8 * shape.bloom_words as usize]
                .iter()
                .map(|b| b.count_ones())
                .sum();
            let full = f64::from(bits) / f64::from(64 * shape.bloom_words);
            assert!(full < 0.2, "{count}: {full}");
            assert!(
                shape.bloom_words as usize * 64 <= 32 * count.max(4),
                "{count}: too large"
            );
            assert!(
                hashes
                    .iter()
                    .all(|h| (h / 64) & (shape.bloom_words - 1) < shape.bloom_words)
            );
        }
    }

    proptest! {
        /// What is in the table is found, and nothing else.
        #[test]
        fn lookups(
            names in proptest::collection::hash_set("[a-d_]{1,6}", 0..80),
            others in proptest::collection::vec("[a-d_]{1,6}", 0..40),
            undefined in 1usize..4,
        ) {
            let names: Vec<_> = names.into_iter().collect();
            let (table, sorted) = build(&names, undefined);
            for name in names.iter().chain(&others) {
                let wanted = sorted.iter().position(|other| other == name);
                prop_assert_eq!(find_gnu(&table, &sorted, name.as_bytes()), wanted);
            }
            let hashes: Vec<_> = sorted[1..].iter().map(|n| sysv_hash(n.as_bytes())).collect();
            let mut table = vec![0xaa; sysv_size(sorted.len())];
            write_sysv(&mut table, &hashes);
            for name in names.iter().chain(&others) {
                let wanted = sorted.iter().position(|other| other == name);
                prop_assert_eq!(find_sysv(&table, &sorted, name.as_bytes()), wanted);
            }
        }

        /// The order is a permutation, sorted by bucket, and stable.
        #[test]
        fn orders(hashes in proptest::collection::vec(any::<u32>(), 0..60)) {
            let shape = GnuHash::new(hashes.len()).unwrap();
            let order = shape.order(&hashes);
            let mut wanted: Vec<u32> = (0..hashes.len() as u32).collect();
            wanted.sort_by_key(|i| hashes[*i as usize] % shape.bucket_count);
            prop_assert_eq!(order, wanted);
        }
    }
}
