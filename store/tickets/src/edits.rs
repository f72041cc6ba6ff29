//! Tickets that other tools have changed: `objcopy`, `strip`, and whoever else takes them for objects.
//!
//! A ticket's seal (SPEC.md, section 20) says whether anybody has written its file anew. What was asked for then, the file
//! no longer says; but the repository gives the ticket as it was. If the new one has the same sections, and the same
//! symbols for other files to refer to, then nothing was asked for that would make another program: `strip -g` removes what a
//! ticket does not have, and a plain `objcopy` only moves things. All else (another name, another binding, a section more)
//! is a change to the object that this program would not heed, so such a ticket is refused.

use crate::ticket::{Ticket, TicketError};
use crate::write::{EXPLANATION, ticket_bytes};
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, SectionHeader64, Sym64};
use object::read::elf::{FileHeader as _, SectionTable, Sym as _};
use std::collections::BTreeMap;
use store::program::Repository;

/// Checks that the ticket in `file`, whose seal is broken, still stands for the object that it was made of.
///
/// # Errors
/// [`TicketError::Edited`] if it does not; the repository's errors.
pub fn check(file: &[u8], ticket: &Ticket, repository: &Repository) -> Result<(), TicketError> {
    let made = ticket_bytes(repository, &ticket.compilation, &[])?;
    let facts = |bytes| Facts::of(bytes).map_err(|what| TicketError::Edited { what });
    match facts(file)?.difference(&facts(&made)?) {
        Some(what) => Err(TicketError::Edited { what }),
        None => Ok(()),
    }
}

/// What of an object matters to a link.
struct Facts {
    /// By name.
    sections: BTreeMap<Vec<u8>, Section>,
    /// By name: what each symbol of other than local binding is, sorted.
    symbols: BTreeMap<Vec<u8>, Vec<Global>>,
}

/// A section: what stands for those of the object is empty, and what fills or aligns it was meant for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Section {
    sh_type: u32,
    flags: u64,
    size: u64,
    alignment: u64,
}

impl Section {
    fn of(section: &SectionHeader64<LE>) -> Section {
        // A note names its repository's path and its command, which are nothing to a link; and tables may be aligned anew.
        let is_note = section.sh_type.get(LE) == elf::SHT_NOTE;
        let flags = section.sh_flags.get(LE);
        let is_loaded = flags & u64::from(elf::SHF_ALLOC) != 0;
        Section {
            sh_type: section.sh_type.get(LE),
            flags,
            size: if is_note { 0 } else { section.sh_size.get(LE) },
            alignment: if is_loaded {
                section.sh_addralign.get(LE)
            } else {
                0
            },
        }
    }
}

/// A symbol that other files can see.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Global {
    place: Place,
    info: u8,
    other: u8,
    value: u64,
    size: u64,
}

/// Where a symbol is defined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Undefined,
    Absolute,
    Common,
    Section(Vec<u8>),
}

/// Sections that tools make as they write an object.
fn is_table(section: &SectionHeader64<LE>) -> bool {
    matches!(
        section.sh_type.get(LE),
        elf::SHT_NULL | elf::SHT_SYMTAB | elf::SHT_STRTAB | elf::SHT_SYMTAB_SHNDX
    )
}

impl Facts {
    fn of(bytes: &[u8]) -> Result<Facts, String> {
        let damaged = |error: object::read::Error| format!("its sections cannot be read: {error}");
        let header = FileHeader64::<LE>::parse(bytes).map_err(damaged)?;
        let table = header.sections(LE, bytes).map_err(damaged)?;
        let mut sections = BTreeMap::new();
        for section in table.iter().filter(|section| !is_table(section)) {
            let name = table.section_name(LE, section).map_err(damaged)?.to_vec();
            if let Some(twice) = sections.insert(name, Section::of(section)) {
                return Err(format!(
                    "it has two sections of one name, of type {}",
                    twice.sh_type
                ));
            }
        }
        let symbols = table.symbols(LE, bytes, elf::SHT_SYMTAB).map_err(damaged)?;
        let mut globals: BTreeMap<Vec<u8>, Vec<Global>> = BTreeMap::new();
        for symbol in symbols
            .iter()
            .filter(|symbol| symbol.st_bind() != elf::STB_LOCAL)
        {
            let name = symbol.name(LE, symbols.strings()).map_err(damaged)?;
            // No object has those that stop other linkers.
            if name.strip_prefix(b".").unwrap_or(name) == EXPLANATION.as_bytes() {
                continue;
            }
            let global = Global::of(symbol, &table).map_err(damaged)?;
            globals.entry(name.to_vec()).or_default().push(global);
        }
        for of_a_name in globals.values_mut() {
            of_a_name.sort_unstable();
        }
        Ok(Facts {
            sections,
            symbols: globals,
        })
    }

    /// What of `self` is not as in `made`, from which it was made.
    fn difference(&self, made: &Facts) -> Option<String> {
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        for (name, facts) in &made.sections {
            match self.sections.get(name) {
                None => return Some(format!("section {} is missing", shown(name))),
                Some(now) if now != facts => {
                    let what = match now {
                        _ if (now.sh_type, now.flags) != (facts.sh_type, facts.flags) => {
                            "has another type or other flags"
                        }
                        _ if now.size != facts.size => "has other contents",
                        _ => "has another alignment",
                    };
                    return Some(format!("section {} {what}", shown(name)));
                }
                Some(_) => {}
            }
        }
        let mut names = self.sections.keys();
        if let Some(name) = names.find(|name| !made.sections.contains_key(*name)) {
            return Some(format!("section {} was added", shown(name)));
        }
        for (name, was) in &made.symbols {
            match self.symbols.get(name) {
                // What nothing refers to, `strip` removes.
                None if was.iter().all(|symbol| symbol.place == Place::Undefined) => {}
                None => return Some(format!("symbol {} is not there any more", shown(name))),
                Some(now) if now != was => {
                    return Some(format!("symbol {} was changed", shown(name)));
                }
                Some(_) => {}
            }
        }
        let mut names = self.symbols.keys();
        let added = names.find(|name| !made.symbols.contains_key(*name))?;
        Some(format!("symbol {} was added", shown(added)))
    }
}

impl Global {
    fn of(
        symbol: &Sym64<LE>,
        table: &SectionTable<'_, FileHeader64<LE>>,
    ) -> Result<Global, object::read::Error> {
        let place = match symbol.st_shndx.get(LE) {
            elf::SHN_UNDEF => Place::Undefined,
            elf::SHN_ABS => Place::Absolute,
            elf::SHN_COMMON => Place::Common,
            index => {
                let section = table.section(object::SectionIndex(usize::from(index)))?;
                Place::Section(table.section_name(LE, section)?.to_vec())
            }
        };
        Ok(Global {
            place,
            info: symbol.st_info,
            other: symbol.st_other,
            value: symbol.st_value.get(LE),
            size: symbol.st_size.get(LE),
        })
    }
}
