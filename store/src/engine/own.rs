//! What a transaction has added itself, which is in no index yet.

use super::error::Fault;
use super::record::Record;
use format_spec::digest::Digest;
use format_spec::file::INDEX_SLOTS;
use format_spec::ids::Address;
use hashbrown::HashTable;

/// A transaction's own records in one index: the newest of each key, and of numbered ones all.
#[derive(Default)]
pub(super) struct OwnRecords {
    /// With a hash of each key.
    addresses: HashTable<(u64, Address)>,
}

/// See [`OwnRecords::clear`].
const SPARE_RECORDS: usize = 4096;

impl OwnRecords {
    /// Empties it, and gives back what a large transaction needed.
    pub fn clear(&mut self) {
        match self.addresses.capacity() {
            // To empty a table costs in proportion to its size.
            ..=SPARE_RECORDS => self.addresses.clear(),
            _ => *self = OwnRecords::default(),
        }
    }

    pub fn find<'t>(
        &self,
        key: &Digest,
        record: impl Fn(Address) -> Result<Record<'t>, Fault>,
        is_it: impl Fn(&Record<'t>) -> bool,
    ) -> Result<Option<Record<'t>>, Fault> {
        let hash = hash_of(key);
        let mut found = Ok(None);
        self.addresses.find(hash, |&(other, address)| {
            other == hash
                && match record(address) {
                    Ok(record) if !record.has_key(key) || !is_it(&record) => false,
                    other => {
                        found = other.map(Some);
                        true
                    }
                }
        });
        found
    }

    /// Adds a record, of whose key there is none, or that is numbered.
    pub fn add(&mut self, key: &Digest, address: Address) {
        let own_hash = hash_of(key);
        let hash = |entry: &(u64, Address)| entry.0;
        (self.addresses).insert_unique(own_hash, (own_hash, address), hash);
    }

    /// Adds a record that takes the place of an older one, if that is among these.
    pub fn replace<'t>(
        &mut self,
        key: &Digest,
        address: Address,
        record: impl Fn(Address) -> Result<Record<'t>, Fault>,
    ) -> Result<(), Fault> {
        let own_hash = hash_of(key);
        match self.find(key, record, |_| true)? {
            Some(older) => {
                let older = (own_hash, older.address);
                if let Some(entry) = (self.addresses).find_mut(own_hash, |entry| *entry == older) {
                    entry.1 = address;
                }
            }
            None => self.add(key, address),
        }
        Ok(())
    }
}

/// What the transactions of one writer have added that follow each other, as long as nobody else's comes between: so that the next one
/// still knows what was [absent](super::Known::NotInBase) before the first.
#[derive(Default)]
pub struct Earlier {
    /// The last one's revision.
    pub(super) revision: u64,
    pub(super) own: [OwnRecords; INDEX_SLOTS],
}

/// Of all bits of a key: many may have the first ones in common.
fn hash_of(key: &Digest) -> u64 {
    (0..4).fold(0, |hash, word| {
        hash ^ key.window(64 * word).rotate_left(16 * word)
    })
}
