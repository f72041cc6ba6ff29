//! Names that nobody has needed before: who among the inputs has them.
//!
//! As in a full link the first input counts that offers a definition, in the order in which they were opened: an archive of
//! which a member has it, or a shared object. The indices of archives are read for it, which is little beside what is in them.

use super::command::Command;
use super::drawn::{Drawn, Found};
use super::edited::Edited;
use super::imports::Import;
use super::look::{is_shared, map};
use super::reason::Reason;
use super::state::{InputRecord, MemberRecord, NONE, State, Table, content_key, input};
use crate::args::InputKind;
use crate::input::shared_object::Shared;
use crate::resolve::linker_symbols;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tickets::archive::Archive;

/// Finds who has the names, each of which nobody defines that is linked; `output` are the output's bytes.
///
/// # Errors
/// If one is to be had only by a full link, or nowhere.
pub(super) fn draw(
    state: &State,
    command: &Command,
    edited: &Edited,
    names: &[Vec<u8>],
    output: &[u8],
) -> Result<Found, Reason> {
    let is_lazy =
        command.args.inputs.iter().any(|input| {
            input.state.lib.is_some() || matches!(input.kind, InputKind::JustSymbols(_))
        });
    if is_lazy {
        return Err("a name is needed that was not, and objects may be linked for it".into());
    }
    let mut missing: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let is_own = |name: &&&[u8]| {
        let bounds = [&b"__start_"[..], b"__stop_"];
        linker_symbols::is_provided(name) || bounds.iter().any(|bound| name.starts_with(bound))
    };
    if let Some(name) = missing.iter().find(is_own) {
        return Err(format!("{} is needed now", String::from_utf8_lossy(name)).into());
    }
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    let mut found = Found::default();
    for (number, record) in (0..).zip(inputs) {
        if missing.is_empty() {
            break;
        }
        if !matches!(record.kind, input::OTHER | input::ARCHIVE) {
            continue;
        }
        let path = command.path_of(state, record);
        let bytes = map(path)?;
        let Some(bytes) = &bytes else { continue };
        let source = Source {
            command,
            path,
            number,
            members: match record.kind {
                input::ARCHIVE => edited.members(number).unwrap_or_else(|| {
                    let [at, count] = record.members;
                    state.records(at, count)
                }),
                _ => &[],
            },
        };
        if Archive::is_archive(bytes) {
            source.archive(bytes, &mut missing, &mut found.members)?;
        } else if is_shared(bytes) {
            source.shared(bytes, &mut missing, output, &mut found.imports)?;
        }
    }
    match missing.first() {
        Some(name) => Err(format!("{} is not known", String::from_utf8_lossy(name)).into()),
        None => {
            found.members.retain(|drawn| !edited.has_drawn(*drawn));
            match found.members.is_empty() && found.imports.is_empty() {
                // It was of no use.
                true => Err("a member of an archive does not define what its index says".into()),
                false => Ok(found),
            }
        }
    }
}

/// An input that may have a name.
struct Source<'s> {
    command: &'s Command<'s>,
    path: &'s Path,
    number: u32,
    /// Its members, if any of them is linked.
    members: &'s [MemberRecord],
}

impl Source<'_> {
    /// Takes the names that a member of an archive has.
    fn archive(
        &self,
        bytes: &[u8],
        missing: &mut Vec<&[u8]>,
        drawn: &mut Vec<Drawn>,
    ) -> Result<(), Reason> {
        let path = self.path.display();
        let unreadable = || Reason::from(format!("{path} cannot be read"));
        let archive = Archive::parse(bytes).map_err(|_| unreadable())?;
        let Some(symbols) = archive.symbols() else {
            return Err(format!("{path} has no index, and may have what is needed").into());
        };
        let mut found: Vec<u64> = Vec::new();
        for symbol in symbols {
            let (name, offset) = symbol.map_err(|_| unreadable())?;
            if let Some(at) = missing.iter().position(|missing| *missing == name) {
                missing.swap_remove(at);
                found.push(offset);
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        let file_name = self
            .path
            .file_name()
            .map_or(&b""[..], |name| name.as_bytes());
        let excluded = &self.command.args.exclude_libs;
        let exclude = excluded
            .iter()
            .any(|name| name == b"ALL" || name == file_name);
        for (member, index) in archive.members().zip(0u32..) {
            let member = member.map_err(|_| unreadable())?;
            if !found.contains(&member.header_offset) {
                continue;
            }
            let Some(data) = archive.inline_data(&member) else {
                return Err(format!("a member of {path}, which is thin, is needed").into());
            };
            if self
                .members
                .get(index as usize)
                .is_some_and(|member| member.file != NONE)
            {
                return Err(format!("{path} has an index that is wrong").into());
            }
            let new = Drawn {
                input: self.number,
                member: index + 1,
                exclude,
                content: content_key(data),
            };
            if !drawn.contains(&new) {
                drawn.push(new);
            }
        }
        Ok(())
    }

    /// Takes the names that a shared object has.
    fn shared(
        &self,
        bytes: &[u8],
        missing: &mut Vec<&[u8]>,
        output: &[u8],
        imports: &mut Vec<Import>,
    ) -> Result<(), Reason> {
        let path = self.path.display();
        let failed = |why| Reason::from(format!("cannot read {path}: {why}"));
        // One that has no name for itself is called as on the command line, or as it was found.
        let mut arguments = self.command.args.inputs.iter();
        let by_path = arguments
            .any(|input| matches!(&input.kind, InputKind::File(path) if path == self.path));
        let given = match by_path {
            true => self.path.as_os_str(),
            false => self.path.file_name().unwrap_or_default(),
        };
        let shared = Shared::parse(bytes, given.as_bytes()).map_err(failed)?;
        for index in shared.globals() {
            if !shared.is_defined(index) || !shared.is_default(index) {
                continue;
            }
            let name = shared.name(index);
            let Some(at) = missing.iter().position(|missing| *missing == name) else {
                continue;
            };
            missing.swap_remove(at);
            imports.push(Import::new(output, &shared, shared.soname, index)?);
        }
        Ok(())
    }
}
