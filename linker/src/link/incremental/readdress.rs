//! Fields with the address of a definition that has moved, in files that are what they were.
//!
//! Who calls a function that has outgrown its place has nothing new in it but the distance. To link such a file again would be to read
//! all of its names and sections, for four bytes; of thousands of callers that would be most of the link. So only their relocations
//! are looked through, for those that name what has moved. The field of each must be just what the relocation's formula makes
//! of the old address (psABI, "Relocation Types"), so that nobody has changed the instruction, gone by way of a table, or added
//! a dynamic relocation; then the same formula makes the new one of the new address. A field with the distance of the definition's
//! word of `.got` stays. A file with any other is linked again.

use super::again::Again;
use super::capture::SectionKeys;
use super::patch::Patch;
use super::place::{Moved, PlainMove};
use super::read::known;
use super::reason::Reason;
use super::records::{ChunkRecord, FileRecord, OutputRecord, PartRecord, PlaceRecord};
use super::state::{State, Table, fact};
use crate::elf::x86_64::reloc;
use crate::elf::{c, shf};
use crate::input::file::{File, Files};
use crate::input::object::{Object, Referent};
use crate::input::open::{self, InputArena};
use crate::input::parts::{Fixup, Section};
use crate::layout::got;
use crate::link::names as link_names;
use crate::resolve::output_sections::{Outputs, Std};
use crate::resolve::resolution::LostGroups;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// Bytes of the output that are others now.
struct Field {
    /// File offset.
    at: u64,
    /// The bytes, of which `size` count.
    bytes: [u8; 8],
    size: usize,
}

/// What becomes of the files that refer to definitions that have moved.
#[derive(Default)]
pub(super) struct Readdressed {
    /// The fields of those that need not be linked again.
    fields: Vec<Field>,
    /// How many files they are in.
    pub files: usize,
    /// Those that must be.
    pub others: Vec<u32>,
}

impl Readdressed {
    /// Writes the fields. `None` if one is not in the output.
    pub fn write(&self, patch: &mut Patch) -> Option<()> {
        for Field { at, bytes, size } in &self.fields {
            let field = patch.bytes(*at, *size as u64)?;
            field.copy_from_slice(&bytes[..*size]);
        }
        Some(())
    }
}

/// Finds the fields of files that speak of what has [moved](Moved::plain), of which `records` tell, where they are now; `old` are the
/// output's bytes, `outputs` its sections.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn readdress(
    again: Again,
    arena: &InputArena,
    moved: &Moved,
    records: &[FileRecord],
    outputs: &Outputs,
    old: &[u8],
) -> Result<Readdressed, Reason> {
    let ids = &moved.readdressed[..];
    let (args, diag) = (again.link.args, again.diag);
    let mut files = open::open_alone(arena, args, &known(again, ids, records), diag);
    again.refuse()?;
    if files.0.len() != ids.len() + 1 {
        return Err("an object is none any more".into());
    }
    // Nobody has lost a group here: what did has no place in the output.
    let lost = LostGroups::known(vec![Vec::new(); files.0.len()]);
    let linked: Vec<bool> = files.iter().map(|(_, file)| is_ticket(file)).collect();
    link_names::complete(&mut files, &linked, &lost, diag);
    again.refuse()?;
    let looking = Looking {
        state: again.state,
        plain: moved.plain.iter().map(|it| (it.name, it)).collect(),
        got: outputs.std(Std::Got).address,
        old,
    };
    Ok(looking.all(&files, ids, records))
}

fn is_ticket(file: &File) -> bool {
    file.object().is_some_and(Object::is_ticket)
}

/// What is looked for, and where.
struct Looking<'l> {
    state: &'l State,
    plain: FxHashMap<&'l [u8], &'l PlainMove<'l>>,
    /// Address of `.got`.
    got: u64,
    old: &'l [u8],
}

impl Looking<'_> {
    fn all(&self, files: &Files, ids: &[u32], records: &[FileRecord]) -> Readdressed {
        let of_file = |((file, id), record): ((&File, &u32), &FileRecord)| {
            let fields = file.object().and_then(|object| self.file(object, record));
            fields.ok_or(*id)
        };
        let found: Vec<Result<Vec<Field>, u32>> = files.0[1..]
            .par_iter()
            .zip(ids)
            .zip(records)
            .map(of_file)
            .collect();
        let mut readdressed = Readdressed::default();
        for found in found {
            match found {
                Ok(fields) => {
                    readdressed.fields.extend(fields);
                    readdressed.files += 1;
                }
                Err(id) => readdressed.others.push(id),
            }
        }
        readdressed
    }

    /// The fields of one file. `None` if it must be linked again.
    fn file(&self, object: &Object, record: &FileRecord) -> Option<Vec<Field>> {
        let mut mentioned: Vec<(u32, &PlainMove)> = Vec::new();
        for index in object.first_global()..object.symbol_count() {
            let name = object.symbol_name(index);
            if name.contains(&b'@') {
                // What a version means is not asked here.
                return None;
            }
            mentioned.extend(self.plain.get(name).map(|plain| (index, *plain)));
        }
        if mentioned.is_empty() {
            // It calls it by another name.
            return None;
        }
        let (mut fields, mut places) = (Vec::new(), None);
        for number in 0..object.section_count() {
            let Some((section, relocations)) = object.fixups_in(number).ok()? else {
                continue;
            };
            let mut named = Vec::new();
            object.fixups(section, relocations).for_each(|fixup| {
                if let Referent::Global(index) = object.referent(fixup.target)
                    && let Ok(found) = mentioned.binary_search_by_key(&index, |(index, _)| *index)
                {
                    named.push((fixup, mentioned[found].1));
                }
            });
            if !named.is_empty() {
                let places =
                    places.get_or_insert_with(|| FilePlaces::new(self.state, object, record));
                self.section(object, places, section, &named, &mut fields)?;
            }
        }
        Some(fields)
    }

    /// Adds the fields of one section, whose fixups `named` name what has moved.
    fn section(
        &self,
        object: &Object,
        places: &FilePlaces,
        number: u32,
        named: &[(Fixup, &PlainMove)],
        fields: &mut Vec<Field>,
    ) -> Option<()> {
        let place = match places.of(object, number) {
            Where::There(place) => place,
            Where::Nowhere => return has_no_place(&object.section(number)?).then_some(()),
            Where::Unknown => return None,
        };
        let parts: &[PartRecord] = self.state.table(Table::Parts);
        let sections: &[OutputRecord] = self.state.table(Table::Outputs);
        let chunk = places.chunks.get(place.chunk as usize)?;
        let part = parts.get(chunk.part as usize)?;
        let output = sections.get(part.output as usize)?;
        let is_loaded = output.flags & shf::ALLOC != 0;
        let is_pic = self.state.header().facts.bits & fact::PIC != 0;
        for (fixup, plain) in named {
            let offset = place.offset.checked_add(fixup.offset)?;
            let at = output.offset.checked_add(offset)?;
            let formula = Formula::of(fixup.r_type, is_loaded && is_pic)?;
            let end = fixup.offset.checked_add(formula.size() as u64)?;
            if end > place.size {
                return None;
            }
            let address = output.address.wrapping_add(offset);
            let value = |target: u64| formula.value(target, fixup.addend, address);
            let start = usize::try_from(at).ok()?;
            let there = self.old.get(start..start.checked_add(formula.size())?)?;
            let is = |target: u64| {
                value(target).is_some_and(|value| there == &value.to_le_bytes()[..there.len()])
            };
            if is(plain.old) {
                fields.push(Field {
                    at,
                    bytes: value(plain.new)?.to_le_bytes(),
                    size: formula.size(),
                });
            } else if !(formula == Formula::Distance && is(self.slot(plain)?)) {
                return None;
            }
        }
        Some(())
    }

    /// Address of the definition's word of `.got`. `None` if it has none.
    fn slot(&self, plain: &PlainMove) -> Option<u64> {
        (plain.got != got::NONE).then(|| self.got.wrapping_add(8 * u64::from(plain.got)))
    }
}

/// Where a file's sections are.
struct FilePlaces<'s> {
    chunks: &'s [ChunkRecord],
    places: FxHashMap<u64, &'s PlaceRecord>,
    /// How many sections have a name, by the key of the first that does.
    count: FxHashMap<u64, u32>,
}

/// Where a section is.
enum Where<'s> {
    There(&'s PlaceRecord),
    Nowhere,
    /// Others of its name may be meant.
    Unknown,
}

impl<'s> FilePlaces<'s> {
    fn new(state: &'s State, object: &Object, record: &FileRecord) -> FilePlaces<'s> {
        let places: &[PlaceRecord] = state.records(record.places[0], record.places[1]);
        let mut count = FxHashMap::default();
        for number in 0..object.section_count() {
            *count.entry(key(object, number)).or_default() += 1;
        }
        FilePlaces {
            chunks: state.records(record.chunks[0], record.chunks[1]),
            places: places.iter().map(|place| (place.section, place)).collect(),
            count,
        }
    }

    fn of(&self, object: &Object, number: u32) -> Where<'s> {
        let key = key(object, number);
        match (self.count.get(&key), self.places.get(&key)) {
            (Some(1), Some(place)) => Where::There(place),
            (Some(1), None) => Where::Nowhere,
            _ => Where::Unknown,
        }
    }
}

/// The key of a section that is the only one of its name.
fn key(object: &Object, number: u32) -> u64 {
    SectionKeys::new().next(object, number)
}

/// Whether a section of which the state knows no place is not in the output: it lost against another file's, or nobody refers
/// to it. Of others the linker has made something else.
fn has_no_place(section: &Section) -> bool {
    let is_made = [&b".eh_frame"[..], b".sframe", b".gnu.warning", b".debug"];
    section.sh_type == c::SHT_PROGBITS
        && section.flags & shf::MERGE == 0
        && !is_made.iter().any(|made| section.name.starts_with(made))
}

/// What a field is, of symbol (S), addend (A), and place (P).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Formula {
    /// S + A - P, in 32 bits.
    Distance,
    /// S + A, in 32 bits that are extended without a sign.
    Word32,
    /// S + A, in 32 bits that are extended with their sign.
    Signed32,
    /// S + A, in 64 bits.
    Word64,
}

impl Formula {
    /// That of a relocation whose field holds nothing else, as long as it is not relaxed to an instruction with its field elsewhere.
    /// `is_relative`: an address has a dynamic relocation.
    fn of(r_type: u32, is_relative: bool) -> Option<Formula> {
        match r_type {
            reloc::R_X86_64_PC32
            | reloc::R_X86_64_PLT32
            | reloc::R_X86_64_GOTPCREL
            | reloc::R_X86_64_GOTPCRELX
            | reloc::R_X86_64_REX_GOTPCRELX => Some(Formula::Distance),
            reloc::R_X86_64_32 if !is_relative => Some(Formula::Word32),
            reloc::R_X86_64_32S if !is_relative => Some(Formula::Signed32),
            reloc::R_X86_64_64 if !is_relative => Some(Formula::Word64),
            _ => None,
        }
    }

    fn size(self) -> usize {
        match self {
            Formula::Word64 => 8,
            _ => 4,
        }
    }

    /// The field's value; of those of 32 bits, in the lower ones. `None` if it does not fit.
    fn value(self, symbol: u64, addend: i64, place: u64) -> Option<u64> {
        let sum = symbol.wrapping_add_signed(addend);
        let signed = |value: u64| i32::try_from(value as i64).is_ok().then_some(value);
        match self {
            Formula::Distance => signed(sum.wrapping_sub(place)),
            Formula::Word32 => u32::try_from(sum).is_ok().then_some(sum),
            Formula::Signed32 => signed(sum),
            Formula::Word64 => Some(sum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_do_not_fit_are_none() {
        let place = 0x40_1000;
        let distance = |symbol| Formula::Distance.value(symbol, -4, place);
        assert_eq!(distance(place + 4), Some(0));
        assert_eq!(distance(place), Some(-4i64 as u64));
        assert_eq!(distance(place + 4 + i32::MAX as u64), Some(i32::MAX as u64));
        assert_eq!(distance(place + 5 + i32::MAX as u64), None);
        assert_eq!(
            Formula::Word32.value(u32::MAX.into(), 0, 0),
            Some(u32::MAX.into())
        );
        assert_eq!(Formula::Word32.value(u32::MAX.into(), 1, 0), None);
        assert_eq!(Formula::Signed32.value(1 << 31, 0, 0), None);
        assert_eq!(Formula::Signed32.value(0, -8, 0), Some(-8i64 as u64));
        assert_eq!(Formula::Word64.value(u64::MAX, 1, 0), Some(0));
    }

    #[test]
    fn what_has_a_dynamic_relocation_has_no_formula() {
        for r_type in [reloc::R_X86_64_64, reloc::R_X86_64_32, reloc::R_X86_64_32S] {
            assert!(Formula::of(r_type, false).is_some());
            assert!(Formula::of(r_type, true).is_none());
        }
        for r_type in [reloc::R_X86_64_SIZE32, reloc::R_X86_64_TPOFF32] {
            assert!(Formula::of(r_type, false).is_none());
        }
    }
}
