//! Relative relocations in a compact form: `.relr.dyn` (gABI, "Relative
//! Relocation Table").
//!
//! The table is a sequence of 64-bit words. An even word is the address of a place
//! to relocate. An odd one is a bitmap: its bits 1 to 63 stand for the 63 words
//! that follow what the words before it have described. Pointers in a program stand
//! close together, so a place costs little more than a bit; as `Elf64_Rela` it
//! costs 24 bytes.

use crate::base::ids::{OutputId, SectionId};
use crate::graph::relocation_action::Mode;
use crate::graph::trace::Needs;
use crate::layout::got::{Got, NONE, SlotRelocation, slot_relocation};
use crate::layout::placement::Placement;
use crate::layout::program_headers::Segments;
use crate::resolve::input_sections::Sections;
use crate::resolve::output_sections::{Outputs, Std};
use rayon::prelude::*;

/// `sh_type` of the table with `--use-android-relr-tags`, from before the gABI had it.
pub const SHT_ANDROID_RELR: u32 = 0x6fff_ff00;

/// Tags of the table's address, size, and size of a word in the dynamic section: `DT_RELR`, `DT_RELRSZ`, `DT_RELRENT`,
/// or `DT_ANDROID_RELR` and its like.
pub const fn tags(android: bool) -> [u32; 3] {
    match android {
        false => [36, 35, 37],
        true => [0x6fff_e000, 0x6fff_e001, 0x6fff_e003],
    }
}

/// The places to relocate, while addresses are not known.
pub struct Sites {
    /// Offsets in each output section that has any, in order.
    by_output: Vec<(OutputId, Vec<u64>)>,
}

impl Sites {
    /// Collects the places of input sections and of the GOT.
    pub fn new(
        needs: &Needs,
        got: &Got,
        mode: Mode,
        sections: &Sections,
        placement: &Placement,
        outputs: &Outputs,
    ) -> Sites {
        if !mode.pack {
            return Sites {
                by_output: Vec::new(),
            };
        }
        let mut by_output: Vec<Vec<u64>> = vec![Vec::new(); outputs.sections.len()];
        for (section, offset) in &needs.packed {
            let part = sections.part[section.index()];
            if let Some(part) = outputs.parts.get(part.index()) {
                let place = placement.offset(*section).wrapping_add(*offset);
                by_output[part.output.index()].push(place);
            }
        }
        by_output[Std::Got.id().index()].extend(slots(got, mode));
        let numbered = (0..).map(OutputId).zip(by_output);
        let mut by_output: Vec<(OutputId, Vec<u64>)> = numbered
            .filter(|(_, offsets)| !offsets.is_empty())
            .collect();
        // So that what is sorted by address each time is nearly in order.
        by_output
            .par_iter_mut()
            .for_each(|(_, offsets)| offsets.sort_unstable());
        Sites { by_output }
    }

    /// Lays out until the table has the size that its places give it, and gives the table.
    ///
    /// # Errors
    /// The address of a place that the table cannot have, because its output section was given an odd address.
    pub fn settle(
        self,
        outputs: &mut Outputs,
        assign: impl Fn(&mut Outputs) -> Segments,
    ) -> Result<(Segments, Vec<u64>), u64> {
        loop {
            let segments = assign(outputs);
            if self.by_output.is_empty() {
                return Ok((segments, Vec::new()));
            }
            let addresses = self.addresses(outputs);
            let size = &mut outputs.std_mut(Std::RelrDyn).size;
            if let Some(table) = fit(addresses, size)? {
                return Ok((segments, table));
            }
        }
    }

    /// The addresses of all places. (Sections that an option puts over each other, or past the end of the address space,
    /// are reported when all have their places.)
    fn addresses(&self, outputs: &Outputs) -> Vec<u64> {
        self.by_output
            .iter()
            .flat_map(|(id, offsets)| {
                let start = outputs.sections[id.index()].address;
                offsets
                    .iter()
                    .map(move |offset| start.wrapping_add(*offset))
            })
            .collect()
    }
}

/// The places of input sections and of the GOT by a linker script's layout, where each input section and the GOT have
/// addresses of their own.
pub fn scripted(
    needs: &Needs,
    got: &Got,
    mode: Mode,
    section: impl Fn(SectionId) -> Option<u64>,
    got_start: u64,
) -> Vec<u64> {
    let inputs = needs
        .packed
        .iter()
        .filter_map(|(id, offset)| Some(section(*id)?.wrapping_add(*offset)));
    let slots = slots(got, mode).map(|offset| got_start.wrapping_add(offset));
    inputs.chain(slots).collect()
}

/// Offsets in the GOT of the slots that have relative relocations.
fn slots(got: &Got, mode: Mode) -> impl Iterator<Item = u64> {
    got.entries
        .iter()
        .filter(move |entry| {
            entry.got != NONE && slot_relocation(mode, entry.facts) == SlotRelocation::Relative
        })
        .map(|entry| 8 * u64::from(entry.got))
}

/// The table for these places, if it fits into `size` bytes: then it fills them. Else `size` is made what it takes, and
/// everything is to be laid out again. It only becomes longer, and at most a word for each place: so this ends.
///
/// # Errors
/// The address of a place that the table cannot have.
pub fn fit(mut addresses: Vec<u64>, size: &mut u64) -> Result<Option<Vec<u64>>, u64> {
    // Of two relocations of one place the last counts, and that is what stands there.
    addresses.par_sort_unstable();
    addresses.dedup();
    if let Some(odd) = addresses.iter().find(|address| !address.is_multiple_of(2)) {
        return Err(*odd);
    }
    let mut table = encode(&addresses);
    let reserved = (*size / 8) as usize;
    if table.len() > reserved {
        *size = 8 * table.len() as u64;
        return Ok(None);
    }
    table.resize(reserved, PADDING);
    Ok(Some(table))
}

/// What to say of a place that the table cannot have.
pub fn odd(address: u64) -> String {
    format!(
        "the relocation at {address:#x} cannot be packed: a section was given an odd address (use '-z nopack-relative-relocs')"
    )
}

/// A word that may be added at the end of a table, and relocates nothing: an empty
/// bitmap. (A table's size must be known before the addresses are, and both depend
/// on each other; a table that has become shorter is filled up with these.)
pub const PADDING: u64 = 1;

/// Number of places that one bitmap stands for.
const BITMAP_PLACES: u64 = 63;

/// Encodes the places to relocate, which must be in ascending order without
/// duplicates and even.
///
/// # Panics
/// In debug builds, if they are not.
pub fn encode(addresses: &[u64]) -> Vec<u64> {
    debug_assert!(addresses.is_sorted_by(|a, b| a < b));
    debug_assert!(addresses.iter().all(|address| address.is_multiple_of(2)));
    let mut table = vec![];
    let mut rest = addresses.iter().copied().peekable();
    while let Some(address) = rest.next() {
        table.push(address);
        let mut base = address.wrapping_add(8);
        loop {
            let mut bitmap = 0u64;
            while let Some(next) = rest.peek() {
                // Wraps below for places less than a word apart: out of range.
                let distance = next.wrapping_sub(base);
                if distance % 8 != 0 || distance / 8 >= BITMAP_PLACES {
                    break;
                }
                bitmap |= 2 << (distance / 8);
                rest.next();
            }
            if bitmap == 0 {
                break;
            }
            table.push(bitmap | 1);
            base = base.wrapping_add(8 * BITMAP_PLACES);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `--section-start` can put them so; that is reported later.
    #[test]
    fn places_of_sections_that_overlap() {
        let mut outputs = Outputs::default();
        outputs.std_mut(Std::Data).address = 0x1000;
        outputs.std_mut(Std::Got).address = 0x1008;
        let sites = Sites {
            by_output: vec![
                (Std::Data.id(), vec![0, 8, 32]),
                (Std::Got.id(), vec![0, 8]),
            ],
        };
        let addresses = sites.addresses(&outputs);
        let mut size = 8;
        assert_eq!(fit(addresses.clone(), &mut size), Ok(None));
        assert_eq!(size, 16);
        size = 24;
        let table = fit(addresses, &mut size).unwrap().unwrap();
        assert_eq!(table.len(), 3);
        assert_eq!(decode(&table), [0x1000, 0x1008, 0x1010, 0x1020]);
        assert_eq!(fit(vec![0x1000, 0x2001], &mut size), Err(0x2001));
    }

    /// As the gABI says a table is to be read.
    fn decode(table: &[u64]) -> Vec<u64> {
        let (mut places, mut base) = (vec![], 0u64);
        for word in table {
            if word & 1 == 0 {
                places.push(*word);
                base = word.wrapping_add(8);
            } else {
                for bit in 1..64u64 {
                    if word >> bit & 1 == 1 {
                        places.push(base.wrapping_add(8 * (bit - 1)));
                    }
                }
                base = base.wrapping_add(8 * 63);
            }
        }
        places
    }

    #[test]
    fn by_hand() {
        assert_eq!(encode(&[]), [0u64; 0]);
        assert_eq!(encode(&[0x1000]), [0x1000]);
        assert_eq!(encode(&[0x1000, 0x1008, 0x1018]), [0x1000, 0b1011]);
        // The last place of the first bitmap, and the first of the second.
        assert_eq!(encode(&[0, 63 * 8, 64 * 8]), [0, 1 << 63 | 1, 0b11]);
        // An empty bitmap is never worth more than an address.
        assert_eq!(encode(&[0, 64 * 8]), [0, 64 * 8]);
        assert_eq!(encode(&[0, 4, 8]), [0, 4, 8]);
    }

    proptest! {
        #[test]
        fn round_trip(gaps in proptest::collection::vec(
            prop_oneof![8 => Just(8u64), 2 => Just(16u64), 1 => Just(4u64), 1 => Just(2), 1 => (0u64..2000).prop_map(|n| 2 * n + 2)],
            0..300,
        ), start in (0u64..1000).prop_map(|n| 2 * n), padding in 0usize..3) {
            let addresses: Vec<u64> = gaps.iter().scan(start, |at, gap| { *at += gap; Some(*at) }).collect();
            let mut table = encode(&addresses);
            prop_assert!(table.len() <= addresses.len());
            table.extend(std::iter::repeat_n(PADDING, padding));
            prop_assert_eq!(decode(&table), addresses);
        }
    }
}
