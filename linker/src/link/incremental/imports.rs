//! Names of shared objects that nobody has needed before.
//!
//! A full link leaves room for some: a word of `.got`, a relocation that has it filled in with the address of a symbol without a
//! name, which nobody has, and that symbol; and a direct PLT entry that will jump through the word. They are bound when the program starts, unlike those of
//! lazy PLT entries. What needs more than that (a copy of a variable, thread-local storage, a version or a shared object of
//! which nobody has needed anything so far) is for a full link.

use super::patch::Patch;
use super::reason::Reason;
use super::state::{DAMAGED, Facts};
use super::strings::add_string;
use crate::elf::version_tables;
use crate::elf::x86_64::{plt, reloc};
use crate::elf::{Rela, Sym, c};
use crate::input::shared_object::Shared;
use crate::layout::got::{self, Got, Slots};
use crate::resolve::output_sections::{Outputs, Std};
use crate::resolve::symbol_table::flag;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _};
use object::{LittleEndian, elf};

/// A name that a shared object has.
#[derive(Clone, Debug)]
pub(super) struct Import {
    pub name: Vec<u8>,
    /// What is known of it: [`flag`]s.
    pub flags: u32,
    /// `STT_*`.
    kind: u8,
    /// Its entry in `.gnu.version`.
    version: u16,
}

impl Import {
    /// The name of the symbol `index` of a shared object, if the output, whose bytes are `output`, depends on that and on the
    /// symbol's version.
    ///
    /// # Errors
    /// If it does not.
    pub fn new(
        output: &[u8],
        shared: &Shared,
        soname: &[u8],
        index: u32,
    ) -> Result<Import, Reason> {
        let name = shared.name(index);
        let show = || String::from_utf8_lossy(name).into_owned();
        let symbol = shared.syms.get(index as usize).ok_or(DAMAGED)?;
        let needed = Needed::of(output).ok_or(DAMAGED)?;
        if !needed.names.contains(&soname) {
            return Err(format!("{} is the first that is needed of its library", show()).into());
        }
        let version = match shared.version(index) {
            None => Some(version_tables::GLOBAL),
            Some(version) => needed.version(soname, version),
        };
        let version = version
            .ok_or_else(|| format!("{} is the first that is needed of its version", show()))?;
        let (kind, bits) = match symbol.kind() {
            c::STT_FUNC | c::STT_GNU_IFUNC => (c::STT_FUNC, flag::FUNCTION),
            c::STT_TLS => (c::STT_TLS, flag::TLS),
            kind => (kind, 0),
        };
        let said = flag::REFERENCED | flag::REFERENCED_STRONGLY;
        Ok(Import {
            name: name.to_vec(),
            flags: flag::IMPORTED | flag::DEFINED_BY_SHARED | said | bits,
            kind,
            version,
        })
    }
}

/// What an output needs of shared objects.
struct Needed<'o> {
    /// Their names.
    names: Vec<&'o [u8]>,
    /// Shared object, version, and its index.
    versions: Vec<(&'o [u8], &'o [u8], u16)>,
}

impl<'o> Needed<'o> {
    fn of(output: &'o [u8]) -> Option<Needed<'o>> {
        let endian = LittleEndian;
        let header = FileHeader64::<LittleEndian>::parse(output).ok()?;
        let sections = header.sections(endian, output).ok()?;
        let mut needed = Needed {
            names: Vec::new(),
            versions: Vec::new(),
        };
        let (entries, strings) = sections.dynamic(endian, output).ok()??;
        let strings = sections.strings(endian, output, strings).ok()?;
        for entry in entries {
            if entry.tag32(endian) == Some(DT_NEEDED) {
                needed.names.push(entry.string(endian, strings).ok()?);
            }
        }
        let Some((mut files, strings)) = sections.gnu_verneed(endian, output).ok()? else {
            return Some(needed);
        };
        let strings = sections.strings(endian, output, strings).ok()?;
        while let Some((file, mut versions)) = files.next().ok()? {
            let name = file.file(endian, strings).ok()?;
            while let Some(version) = versions.next().ok()? {
                let text = version.name(endian, strings).ok()?;
                let index = version.vna_other.get(endian) & elf::VERSYM_VERSION;
                needed.versions.push((name, text, index));
            }
        }
        Some(needed)
    }

    fn version(&self, soname: &[u8], version: &[u8]) -> Option<u16> {
        let mut versions = self.versions.iter();
        let known = versions.find(|(file, name, _)| *file == soname && *name == version);
        known.map(|(_, _, index)| *index)
    }
}

/// What a symbol gets of what is spare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    /// All its slots.
    pub slots: Slots,
    /// Its number in `.dynsym`.
    pub dynamic: u32,
    /// The new word of `.got`, if there is one.
    word: Option<u32>,
    /// The new PLT entry, if there is one.
    entry: Option<u32>,
}

/// Gives a symbol the slots and entries that `flags` ask for: beside those that it has, and, if it is not in `.dynsym`, with a
/// place there.
///
/// # Errors
/// If there is nothing left.
pub(super) fn grant(
    facts: &mut Facts,
    had: Option<&Slots>,
    dynamic: u32,
    flags: u32,
) -> Result<Grant, Reason> {
    let none = Slots {
        flags,
        got: got::NONE,
        jump: got::NONE,
        tpoff: got::NONE,
        tls_pair: got::NONE,
        descriptor: got::NONE,
        lazy: got::NONE,
        direct: got::NONE,
    };
    let mut grant = Grant {
        slots: Slots {
            flags,
            ..had.copied().unwrap_or(none)
        },
        dynamic,
        word: None,
        entry: None,
    };
    let [left, word, entry, symbol] = &mut facts.spare_imports;
    *left = left
        .checked_sub(1)
        .ok_or("there is no room for more imported symbols")?;
    let take = |next: &mut u32| {
        *next += 1;
        *next - 1
    };
    let slots = &mut grant.slots;
    let has_entry = slots.lazy != got::NONE || slots.direct != got::NONE;
    let wants_entry = flags & flag::NEEDS_PLT != 0 && !has_entry;
    if slots.got == got::NONE && (wants_entry || flags & flag::NEEDS_GOT != 0) {
        slots.got = take(word);
        grant.word = Some(slots.got);
    }
    if wants_entry {
        slots.direct = take(entry);
        slots.jump = slots.got;
        grant.entry = Some(slots.direct);
    }
    if dynamic == 0 {
        grant.dynamic = take(symbol);
    }
    Ok(grant)
}

/// Writes what symbols were granted. Each import goes with the symbol that is new in `.dynsym`.
pub(super) fn write(
    patch: &mut Patch,
    outputs: &Outputs,
    ibt: bool,
    facts: &mut Facts,
    grants: &[(Grant, Option<&Import>)],
) -> Result<(), Reason> {
    for (grant, import) in grants {
        if let Some(import) = import {
            write_symbol(patch, outputs, facts, grant.dynamic, import)?;
        }
        let damaged = || Reason::from(DAMAGED);
        let slot = |word: u32| outputs.std(Std::Got).address + 8 * u64::from(word);
        if let Some(word) = grant.word {
            let rela = Rela::new(slot(word), reloc::R_X86_64_GLOB_DAT, grant.dynamic, 0);
            set_relocation(patch, outputs, rela)?;
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

/// Has a word filled in that nobody had: its relocation is there, and asks for the address of a symbol without a name.
fn set_relocation(patch: &mut Patch, outputs: &Outputs, rela: Rela) -> Result<(), Reason> {
    let table = outputs.std(Std::RelaDyn);
    let range = table.offset as usize..(table.offset + table.size) as usize;
    let records = patch
        .image
        .get(range)
        .and_then(|bytes| bytemuck::try_cast_slice::<u8, Rela>(bytes).ok())
        .ok_or(DAMAGED)?;
    let is_it = |known: &Rela| { known.r_offset } == { rela.r_offset };
    let at = records.iter().rposition(is_it).ok_or(DAMAGED)?;
    let place = patch.bytes(table.offset + 24 * at as u64, 24);
    place
        .ok_or(DAMAGED)?
        .copy_from_slice(bytemuck::bytes_of(&rela));
    Ok(())
}
