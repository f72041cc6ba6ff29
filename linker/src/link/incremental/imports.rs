//! Names of shared objects that nobody has needed before.
//!
//! A full link leaves room for some: a word of `.got`, a relocation that has it filled in with the address of a symbol without a
//! name, which nobody has, and that symbol; and a direct PLT entry that will jump through the word. They are bound when the program starts, unlike those of
//! lazy PLT entries. What thread-local variables need takes one or two of the words, and the relocation of one does for a
//! [copy](super::copies) of a variable.

use super::copies::Variable;

use super::interface;
use super::needs::{Needed, NewNeeds};
use super::patch::Patch;
use super::reason::Reason;
use super::records::library_number;
use super::state::{DAMAGED, Facts, SymbolRecord};
use super::strings::add_string;
use crate::elf::version_tables;
use crate::elf::x86_64::{plt, reloc};
use crate::elf::{Rela, Sym, c};
use crate::input::shared_object::Shared;
use crate::layout::got::{self, Got, Slots};
use crate::resolve::output_sections::{Outputs, Std};
use crate::resolve::symbol_facts::{Bound, Defined, Demand, Referred, SymbolFacts};

/// A name that a shared object has.
#[derive(Clone, Debug)]
pub(super) struct Import {
    pub name: Vec<u8>,
    /// What is known of it.
    pub facts: SymbolFacts,
    /// `STT_*`.
    kind: u8,
    /// Its entry in `.gnu.version`.
    version: u16,
    /// What a copy of it would be, if it is a variable.
    pub variable: Option<Variable>,
    /// The shared object, by its number among the inputs, and what the state is to know of it.
    pub input: u32,
    pub symbol: SymbolRecord,
    /// The shared object, as [`holds`](super::holds) tell them apart.
    pub library: u32,
}

impl Import {
    /// The name of the symbol `index` of a shared object that the output needs. `new` gets the symbol's version, if that was
    /// not needed before.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn new(
        needed: &mut Needed,
        new: &mut NewNeeds,
        (shared, input): (&Shared, u32),
        index: u32,
    ) -> Result<Import, Reason> {
        let symbol = shared.syms.get(index as usize).ok_or(DAMAGED)?;
        let version = match shared.version(index) {
            None => version_tables::GLOBAL,
            Some(version) => needed.version(shared.soname, version, new)?,
        };
        let (kind, bits) = match symbol.kind() {
            c::STT_FUNC | c::STT_GNU_IFUNC => (c::STT_FUNC, Defined::FUNCTION),
            c::STT_TLS => (c::STT_TLS, Defined::TLS),
            kind => (kind, Defined::NONE),
        };
        let said = Referred::BY_OBJECT | Referred::STRONGLY;
        Ok(Import {
            name: shared.name(index).to_vec(),
            facts: Bound::IMPORTED | (Defined::BY_SHARED | bits) | said,
            kind,
            version,
            variable: Variable::new(shared, index),
            input,
            symbol: interface::record(shared, shared.name(index)),
            library: library_number(shared.soname),
        })
    }
}

/// What a symbol gets of what is spare.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    /// All its slots.
    pub slots: Slots,
    /// Its number in `.dynsym`.
    pub dynamic: u32,
    /// The words of `.got` that were spare, and the types of the relocations that have them filled in.
    words: Vec<(u32, u32)>,
    /// The new PLT entry, if there is one.
    entry: Option<u32>,
    /// A copied variable's address, to which the library's bytes go. Its relocation is a word's that nobody needs.
    copied: Option<(u32, u64)>,
}

impl Grant {
    /// Nothing yet: beside the slots that a symbol has it has a place in `.dynsym`, or none.
    pub fn new(had: Option<&Slots>, dynamic: u32, facts: SymbolFacts) -> Grant {
        let none = Slots {
            facts,
            got: got::NONE,
            jump: got::NONE,
            tpoff: got::NONE,
            tls_pair: got::NONE,
            descriptor: got::NONE,
            lazy: got::NONE,
            direct: got::NONE,
        };
        Grant {
            slots: Slots {
                facts,
                ..had.copied().unwrap_or(none)
            },
            dynamic,
            words: Vec::new(),
            entry: None,
            copied: None,
        }
    }

    /// Takes the slots and entries that are needed, and that there are none of yet.
    ///
    /// # Errors
    /// If there is nothing left.
    pub fn take_slots(&mut self, facts: &mut Facts) -> Result<(), Reason> {
        let slots = &mut self.slots;
        let wants = |need: Demand| slots.facts.has(need);
        let has_entry = slots.lazy != got::NONE || slots.direct != got::NONE;
        let wants_entry = wants(Demand::PLT) && !has_entry;
        let wanted = [
            (
                slots.got == got::NONE && (wants_entry || wants(Demand::GOT)),
                &[reloc::R_X86_64_GLOB_DAT][..],
            ),
            (
                slots.tpoff == got::NONE && wants(Demand::TPOFF),
                &[reloc::R_X86_64_TPOFF64],
            ),
            (
                slots.tls_pair == got::NONE && wants(Demand::TLSGD),
                &[reloc::R_X86_64_DTPMOD64, reloc::R_X86_64_DTPOFF64],
            ),
            (
                slots.descriptor == got::NONE && wants(Demand::TLSDESC),
                // The relocation is about both words.
                &[reloc::R_X86_64_TLSDESC, reloc::R_X86_64_NONE],
            ),
        ];
        let places = [
            &mut slots.got,
            &mut slots.tpoff,
            &mut slots.tls_pair,
            &mut slots.descriptor,
        ];
        for ((is_wanted, types), place) in wanted.into_iter().zip(places) {
            if is_wanted {
                *place = take_words(facts, types.len() as u32)?;
                self.words.extend((*place..).zip(types.iter().copied()));
            }
        }
        if wants_entry {
            if self.words.is_empty() {
                // There are as many entries as words.
                take_words(facts, 1)?;
            }
            slots.direct = facts.spare_imports[2];
            facts.spare_imports[2] += 1;
            slots.jump = slots.got;
            self.entry = Some(slots.direct);
        }
        Ok(())
    }

    /// Takes a place in `.dynsym` for what is imported.
    ///
    /// # Errors
    /// If there is none left.
    pub fn take_symbol(&mut self, facts: &mut Facts) -> Result<(), Reason> {
        if self.words.is_empty() {
            take_words(facts, 1)?;
        }
        self.dynamic = facts.spare_imports[3];
        facts.spare_imports[3] += 1;
        Ok(())
    }

    /// Takes a relocation that copies a variable.
    ///
    /// # Errors
    /// If there is none left.
    pub fn take_copy(&mut self, facts: &mut Facts, address: u64) -> Result<(), Reason> {
        self.copied = Some((take_words(facts, 1)?, address));
        Ok(())
    }
}

/// Takes words of `.got`: for each there may be an entry and a symbol as well.
fn take_words(facts: &mut Facts, count: u32) -> Result<u32, Reason> {
    let [left, word, ..] = &mut facts.spare_imports;
    *left = left
        .checked_sub(count)
        .ok_or("there is no room for more imported symbols")?;
    *word += count;
    Ok(*word - count)
}

/// Writes what symbols were granted. Each import goes with the symbol that is new in `.dynsym`.
pub(super) fn write(
    patch: &mut Patch,
    outputs: &Outputs,
    ibt: bool,
    facts: &mut Facts,
    grants: &[(&Grant, u32, Option<&Import>)],
) -> Result<(), Reason> {
    for (grant, dynamic, import) in grants {
        if let Some(import) = import {
            write_symbol(patch, outputs, facts, *dynamic, import)?;
        }
        let damaged = || Reason::from(DAMAGED);
        let slot = |word: u32| outputs.std(Std::Got).address + 8 * u64::from(word);
        for (word, r_type) in &grant.words {
            let rela = match *r_type {
                reloc::R_X86_64_NONE => Rela::new(0, reloc::R_X86_64_NONE, 0, 0),
                _ => Rela::new(slot(*word), *r_type, *dynamic, 0),
            };
            set_relocation(patch, outputs, slot(*word), rela)?;
        }
        if let Some((word, address)) = grant.copied {
            let rela = Rela::new(address, reloc::R_X86_64_COPY, *dynamic, 0);
            set_relocation(patch, outputs, slot(word), rela)?;
        }
        if let Some(entry) = grant.entry {
            let size = Got::direct_size(ibt);
            let section = outputs.std(Std::PltGot);
            let at = u64::from(entry) * size;
            let address = section.address + at;
            let out = patch.bytes(section.offset + at, size).ok_or_else(damaged)?;
            let slot = slot(grant.slots.jump);
            let written = match ibt {
                true => {
                    plt::write_direct_ibt(out.first_chunk_mut().ok_or_else(damaged)?, address, slot)
                }
                false => {
                    plt::write_direct(out.first_chunk_mut().ok_or_else(damaged)?, address, slot)
                }
            };
            written.map_err(|why| Reason::from(format!("a PLT entry: {why}")))?;
        }
    }
    Ok(())
}

fn write_symbol(
    patch: &mut Patch,
    outputs: &Outputs,
    facts: &mut Facts,
    index: u32,
    import: &Import,
) -> Result<(), Reason> {
    let symbol = Sym {
        st_name: add_string(patch, outputs, facts, &import.name)?,
        st_info: (c::STB_GLOBAL << 4) | import.kind,
        ..bytemuck::Zeroable::zeroed()
    };
    let table = outputs.std(Std::DynSym);
    let entry = patch.bytes(table.offset + 24 * u64::from(index), 24);
    entry
        .ok_or(DAMAGED)?
        .copy_from_slice(bytemuck::bytes_of(&symbol));
    let versions = outputs.std(Std::VerSym);
    if versions.size > 0 {
        let entry = patch.bytes(versions.offset + 2 * u64::from(index), 2);
        entry
            .ok_or(DAMAGED)?
            .copy_from_slice(&import.version.to_le_bytes());
    }
    Ok(())
}

/// Has a word filled in that nobody had, at an address: its relocation is there, and asks for the address of a symbol without a
/// name.
fn set_relocation(
    patch: &mut Patch,
    outputs: &Outputs,
    word: u64,
    rela: Rela,
) -> Result<(), Reason> {
    let table = outputs.std(Std::RelaDyn);
    let range = table.offset as usize..(table.offset + table.size) as usize;
    let records = patch
        .image
        .get(range)
        .and_then(|bytes| bytemuck::try_cast_slice::<u8, Rela>(bytes).ok())
        .ok_or(DAMAGED)?;
    let is_it = |known: &Rela| { known.r_offset } == word;
    let at = records.iter().rposition(is_it).ok_or(DAMAGED)?;
    let place = patch.bytes(table.offset + 24 * at as u64, 24);
    place
        .ok_or(DAMAGED)?
        .copy_from_slice(bytemuck::bytes_of(&rela));
    Ok(())
}
