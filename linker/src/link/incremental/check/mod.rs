//! `--verify-incremental`: whether what no file has of its own is what it must be.
//!
//! The files' parts of the output are written again and compared. What the linker makes beside them (headers, what the dynamic
//! linker is told, versions, PLT, GOT, symbol tables, the table of frames) an incremental link changes in place, where a full link makes
//! it whole, with another order and without room. So it is not compared but checked: against the state, and each table against
//! those that it speaks of. This reads the output as a dynamic linker and an unwinder do, and knows nothing of how it was
//! changed.

mod dynamic;
mod frames;
mod headers;
mod slots;
mod symbols;

use super::reason::Reason;
use super::state::{OutputRecord, State, Table};
use crate::args::Args;
use crate::elf::c;
use crate::resolve::output_sections::Std;

/// An output, and what the state says of it.
struct Output<'o> {
    bytes: &'o [u8],
    state: &'o State,
    sections: &'o [OutputRecord],
    args: &'o Args,
}

/// Checks the tables of an output.
///
/// # Errors
/// What is not as it must be.
pub(super) fn check(state: &State, args: &Args, bytes: &[u8]) -> Result<(), Reason> {
    let output = Output {
        bytes,
        state,
        sections: state.table(Table::Outputs),
        args,
    };
    headers::check(&output)?;
    dynamic::check(&output)?;
    slots::check(&output)?;
    symbols::check(&output)?;
    frames::check(&output)
}

impl<'o> Output<'o> {
    /// A section that is in the output.
    fn section(&self, std: Std) -> Option<&'o OutputRecord> {
        let mut sections = self.sections.iter();
        sections.find(|section| section.id == std.id().0 && section.size > 0)
    }

    /// A range of the file.
    fn range(&self, at: u64, size: u64) -> Option<&'o [u8]> {
        let start = usize::try_from(at).ok()?;
        self.bytes
            .get(start..start.checked_add(usize::try_from(size).ok()?)?)
    }

    /// The bytes of a section; none if it is not there.
    fn contents(&self, std: Std) -> Result<&'o [u8], Reason> {
        let Some(section) = self.section(std).filter(|it| it.sh_type != c::SHT_NOBITS) else {
            return Ok(&[]);
        };
        let bytes = self.range(section.offset, section.size);
        bytes.ok_or_else(|| format!("{} is not in the file", self.name(section)).into())
    }

    /// The records of a section.
    fn table<T: bytemuck::Pod>(&self, std: Std) -> Result<&'o [T], Reason> {
        let bytes = self.contents(std)?;
        let table = bytemuck::try_cast_slice(bytes);
        table.map_err(|_| Reason::from(format!("section {std:?} holds no whole records")))
    }

    /// Address and size of a section; zeros if it is not there.
    fn extent(&self, std: Std) -> (u64, u64) {
        let section = self.section(std);
        section.map_or((0, 0), |section| (section.address, section.size))
    }

    fn name(&self, section: &OutputRecord) -> String {
        String::from_utf8_lossy(self.state.text(section.name, section.name_len)).into_owned()
    }

    /// A string of `.dynstr`.
    fn dynamic_string(&self, at: u64) -> Result<&'o [u8], Reason> {
        string(self.contents(Std::DynStr)?, at)
            .ok_or_else(|| format!("there is no string at {at:#x} in .dynstr").into())
    }
}

/// A string of a table.
fn string(table: &[u8], at: u64) -> Option<&[u8]> {
    let rest = table.get(usize::try_from(at).ok()?..)?;
    let end = memchr::memchr(0, rest)?;
    Some(&rest[..end])
}

/// Fails if something is not so.
fn demand(is: bool, what: impl FnOnce() -> String) -> Result<(), Reason> {
    match is {
        true => Ok(()),
        false => Err(what().into()),
    }
}
