//! Sets and maps of addresses that take few bytes for each.
//!
//! Who goes through a whole repository, as a compaction does, has something to remember of each of its millions of records. A hash table of
//! addresses takes 9 to 34 bytes for that. Here the file is cut into *parts* of 64 KiB, of which each that has an address has a sorted list of the lower
//! 16 bits: 2 bytes of each address, and some 50 of each part, which has dozens. In a map, these 16 bits share a word with what they are mapped to, an
//! address of 48 bits at most. What is looked up after each other stands side by side in the file, so it does here.
//!
//! Any word is an address here: what damaged files say is as good as another.

use format_spec::ids::Address;
use hashbrown::HashTable;

/// Bits of an address that its part is not told by.
const LOW_BITS: u32 = 16;

/// Bits of an address that a map can have as a value.
const VALUE_BITS: u32 = 64 - LOW_BITS;

/// A list grows by so many: most of what it takes is in use, however many there are.
const GROWTH: usize = 8;

/// What of an address its part does not tell, and perhaps more.
trait Entry: Copy {
    fn low(self) -> u16;
}

impl Entry for u16 {
    fn low(self) -> u16 {
        self
    }
}

impl Entry for u64 {
    fn low(self) -> u16 {
        (self >> VALUE_BITS) as u16
    }
}

#[derive(Clone, Debug)]
struct Part<E> {
    number: u64,
    /// In ascending order of their low bits, each once.
    entries: Vec<E>,
}

#[derive(Clone, Debug)]
struct Parts<E> {
    table: HashTable<Part<E>>,
    count: usize,
}

impl<E> Default for Parts<E> {
    fn default() -> Parts<E> {
        Parts {
            table: HashTable::new(),
            count: 0,
        }
    }
}

fn cut(Address(address): Address) -> (u64, u16) {
    (address >> LOW_BITS, address as u16)
}

fn join(number: u64, low: u16) -> Address {
    Address(number << LOW_BITS | u64::from(low))
}

fn hash(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl<E: Entry> Parts<E> {
    fn get(&self, address: Address) -> Option<E> {
        let (number, low) = cut(address);
        let part = (self.table).find(hash(number), |part| part.number == number)?;
        let place = part.entries.binary_search_by_key(&low, |entry| entry.low());
        Some(part.entries[place.ok()?])
    }

    /// Where the entry of an address is, or a new one, as which `new` is then.
    fn entry(&mut self, address: Address, new: E) -> (&mut E, bool) {
        let (number, low) = cut(address);
        let part = self
            .table
            .entry(
                hash(number),
                |part| part.number == number,
                |part| hash(part.number),
            )
            .or_insert_with(|| Part {
                number,
                entries: Vec::new(),
            })
            .into_mut();
        let entries = &mut part.entries;
        // They mostly come in ascending order.
        let found = match entries.last() {
            Some(last) if last.low() >= low => {
                entries.binary_search_by_key(&low, |entry| entry.low())
            }
            _ => Err(entries.len()),
        };
        match found {
            Ok(place) => (&mut entries[place], false),
            Err(place) => {
                if entries.len() == entries.capacity() {
                    entries.reserve_exact(GROWTH);
                }
                entries.insert(place, new);
                self.count += 1;
                (&mut entries[place], true)
            }
        }
    }

    /// All of them in ascending order.
    fn iter(&self) -> impl Iterator<Item = (Address, E)> {
        let mut parts: Vec<&Part<E>> = self.table.iter().collect();
        parts.sort_unstable_by_key(|part| part.number);
        parts.into_iter().flat_map(|part| {
            let number = part.number;
            let entries = part.entries.iter();
            entries.map(move |entry| (join(number, entry.low()), *entry))
        })
    }
}

/// A set of addresses.
#[derive(Clone, Debug, Default)]
pub struct AddressSet(Parts<u16>);

impl AddressSet {
    /// Adds an address. Returns whether it was not there.
    pub fn insert(&mut self, address: Address) -> bool {
        let (_, low) = cut(address);
        self.0.entry(address, low).1
    }

    /// Whether it has this address.
    pub fn contains(&self, address: Address) -> bool {
        self.0.get(address).is_some()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.count == 0
    }

    /// All of them, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Address> {
        self.0.iter().map(|(address, _)| address)
    }
}

impl Extend<Address> for AddressSet {
    fn extend<I: IntoIterator<Item = Address>>(&mut self, addresses: I) {
        for address in addresses {
            self.insert(address);
        }
    }
}

/// A map from addresses to addresses of records.
#[derive(Clone, Debug, Default)]
pub struct AddressMap(Parts<u64>);

impl AddressMap {
    /// Maps `from` to `to`, which is an address that a record can have, whatever it was mapped to before.
    pub fn insert(&mut self, from: Address, to: Address) {
        debug_assert!(to.0 >> VALUE_BITS == 0);
        let (_, low) = cut(from);
        let new = u64::from(low) << VALUE_BITS | to.0 & ((1 << VALUE_BITS) - 1);
        *self.0.entry(from, new).0 = new;
    }

    /// What an address is mapped to.
    pub fn get(&self, from: Address) -> Option<Address> {
        let entry = self.0.get(from)?;
        Some(Address(entry & ((1 << VALUE_BITS) - 1)))
    }

    /// How many addresses are mapped to something.
    pub fn len(&self) -> usize {
        self.0.count
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.0.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Addresses of a few parts, and of none that a file can have.
    fn address() -> impl Strategy<Value = Address> {
        prop_oneof![
            4 => (0_u64..300_000).prop_map(Address),
            1 => any::<u64>().prop_map(Address),
            1 => (0_u64..5).prop_map(|low| Address(u64::MAX - low)),
        ]
    }

    proptest! {
        #[test]
        fn a_set_is_a_set(addresses in prop::collection::vec(address(), 0..400)) {
            let (mut set, mut model) = (AddressSet::default(), BTreeSet::new());
            for address in addresses {
                prop_assert_eq!(set.contains(address), model.contains(&address));
                prop_assert_eq!(set.insert(address), model.insert(address));
            }
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(set.is_empty(), model.is_empty());
            prop_assert!(set.iter().eq(model.into_iter()));
        }

        #[test]
        fn a_map_is_a_map(steps in prop::collection::vec((address(), 0_u64..1 << 40), 0..400)) {
            let (mut map, mut model) = (AddressMap::default(), BTreeMap::new());
            for (address, to) in steps {
                prop_assert_eq!(map.get(address), model.get(&address).copied());
                map.insert(address, Address(to));
                model.insert(address, Address(to));
            }
            prop_assert_eq!(map.len(), model.len());
            for (address, to) in model {
                prop_assert_eq!(map.get(address), Some(to));
            }
        }
    }

    #[test]
    fn an_address_takes_few_bytes() {
        let mut set = AddressSet::default();
        let mut map = AddressMap::default();
        let count = 100_000;
        for number in 0..count {
            let address = Address(4096 + number * 1000);
            set.insert(address);
            map.insert(address, address);
        }
        // With what the allocator keeps of each list.
        let of_lists = |size: usize, lists: &mut dyn Iterator<Item = usize>| -> usize {
            lists.map(|capacity| capacity * size + 16).sum()
        };
        let mut sizes = set.0.table.iter().map(|part| part.entries.capacity());
        let set = of_lists(2, &mut sizes) + set.0.table.allocation_size();
        let mut sizes = map.0.table.iter().map(|part| part.entries.capacity());
        let map = of_lists(8, &mut sizes) + map.0.table.allocation_size();
        assert!(set < 5 * count as usize, "{set}");
        assert!(map < 11 * count as usize, "{map}");
    }
}
