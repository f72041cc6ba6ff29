//! Names that nobody has needed before: who among the inputs has them.
//!
//! As in a full link the first input counts that offers a definition, in the order in which they were opened: an archive of
//! which a member has it, or a shared object. The indices of archives are read for it, which is little beside what is in them.

use super::again::Again;
use super::command::Command;
use super::drawn::{Drawn, Found};
use super::edited::Edited;
use super::imports::Import;
use super::look::{is_shared, map};
use super::needs::{Needed, NewLibrary, NewNeeds};
use super::reason::Reason;
use super::state::{InputRecord, MemberRecord, NONE, State, Table, content_key, input};
use crate::args::InputKind;
use crate::input::shared_object::Shared;
use crate::resolve::linker_symbols;
use rustc_hash::FxHashSet;
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
    let mut needed = Needed::of(output, &edited.needs);
    // The names of the shared objects before this input.
    let mut before: Vec<Vec<u8>> = Vec::new();
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
                input::ARCHIVE => members(state, edited, (number, record)),
                _ => &[],
            },
        };
        if Archive::is_archive(bytes) {
            source.archive(bytes, &mut missing, &mut found.members)?;
        } else if is_shared(bytes) {
            let needed = needed.as_mut().ok_or("it has no dynamic symbols")?;
            source.shared(bytes, &mut missing, needed, &mut before, &mut found)?;
        }
    }
    if let Some(needed) = &needed {
        check_libraries(state, command, needed, &found.needs)?;
    }
    match missing.first() {
        Some(name) => Err(format!("{} is not known", String::from_utf8_lossy(name)).into()),
        None => {
            found.members.retain(|drawn| !edited.has_drawn(*drawn));
            found
                .imports
                .retain(|import| !edited.has_import(&import.name));
            match found.members.is_empty() && found.imports.is_empty() {
                // It was of no use: a member does not define what its index says, or a library has now what an object had.
                true => Err("what was found for a name does not define it".into()),
                false => Ok(found),
            }
        }
    }
}

/// The members of an archive as they are now.
fn members<'s>(
    state: &'s State,
    edited: &'s Edited,
    (number, record): (u32, &InputRecord),
) -> &'s [MemberRecord] {
    let [at, count] = record.members;
    let known = || state.records(at, count);
    edited.members(number).unwrap_or_else(known)
}

/// Checks that no member comes to be linked as `names` are wanted, which nobody wanted before, though members define them that are linked: the first that
/// has such a name must be one of these.
///
/// # Errors
/// If it is another.
pub(super) fn check_first(
    state: &State,
    command: &Command,
    edited: &Edited,
    mut names: Vec<&[u8]>,
) -> Result<(), Reason> {
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    for (number, record) in (0..).zip(inputs) {
        if names.is_empty() {
            break;
        }
        if !matches!(record.kind, input::OTHER | input::ARCHIVE) {
            continue;
        }
        let path = command.path_of(state, record);
        let unreadable = || Reason::from(format!("{} cannot be read", path.display()));
        let bytes = map(path)?;
        let Some(bytes) = bytes.as_ref().filter(|bytes| Archive::is_archive(bytes)) else {
            continue;
        };
        let archive = Archive::parse(bytes).map_err(|_| unreadable())?;
        let mut linked: FxHashSet<u64> = FxHashSet::default();
        if record.kind == input::ARCHIVE {
            let members = members(state, edited, (number, record));
            for (member, record) in archive.members().zip(members) {
                let member = member.map_err(|_| unreadable())?;
                if record.file != NONE {
                    linked.insert(member.header_offset);
                }
            }
        }
        for symbol in archive.symbols().into_iter().flatten() {
            let (name, offset) = symbol.map_err(|_| unreadable())?;
            let Some(at) = names.iter().position(|wanted| *wanted == name) else {
                continue;
            };
            if !linked.contains(&offset) {
                let (name, path) = (String::from_utf8_lossy(name), path.display());
                return Err(format!("{name} is wanted now, and {path} has it first").into());
            }
            names.swap_remove(at);
        }
    }
    Ok(())
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
        needed: &mut Needed,
        before: &mut Vec<Vec<u8>>,
        found: &mut Found,
    ) -> Result<(), Reason> {
        let shared = parse(self.command, self.path, bytes)?;
        for index in shared.globals() {
            if !shared.is_defined(index) || !shared.is_default(index) {
                continue;
            }
            let name = shared.name(index);
            let Some(at) = missing.iter().position(|missing| *missing == name) else {
                continue;
            };
            missing.swap_remove(at);
            if !needed.has(shared.soname) {
                if shared.soname.starts_with(b"libc.so.") {
                    return Err("the C library is needed now".into());
                }
                needed.add_library(shared.soname, before, &mut found.needs);
            }
            let import = Import::new(needed, &mut found.needs, (&shared, self.number), index)?;
            found.imports.push(import);
        }
        before.push(shared.soname.to_vec());
        Ok(())
    }
}

/// A shared object as a full link reads it.
fn parse<'b>(command: &Command<'b>, path: &'b Path, bytes: &'b [u8]) -> Result<Shared<'b>, Reason> {
    let failed = |why| Reason::from(format!("cannot read {}: {why}", path.display()));
    // One that has no name for itself is called as on the command line, or as it was found.
    let mut arguments = command.args.inputs.iter();
    let by_path =
        arguments.any(|input| matches!(&input.kind, InputKind::File(file) if **file == *path));
    let given = match by_path {
        true => path.as_os_str(),
        false => path.file_name().unwrap_or_default(),
    };
    Shared::parse(bytes, given.as_bytes()).map_err(failed)
}

/// Libraries that are needed now may need others of the inputs, and not say so.
fn check_libraries(
    state: &State,
    command: &Command,
    needed: &Needed,
    new: &NewNeeds,
) -> Result<(), Reason> {
    if new.libraries.is_empty() {
        return Ok(());
    }
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    let (mut asked_for, mut references): (FxHashSet<Vec<u8>>, FxHashSet<Vec<u8>>) =
        Default::default();
    let mut others: Vec<&Path> = Vec::new();
    for record in inputs.iter().filter(|record| record.kind == input::OTHER) {
        let path = command.path_of(state, record);
        let Some(bytes) = map(path)?.filter(|bytes| is_shared(bytes)) else {
            continue;
        };
        let shared = parse(command, path, &bytes)?;
        if !needed.has(shared.soname) {
            others.push(path);
            continue;
        }
        asked_for.extend(shared.needed.iter().map(|name| name.to_vec()));
        let is_new = |library: &NewLibrary| library.name == shared.soname;
        if new.libraries.iter().any(is_new) {
            let all = shared.strong_references();
            references.extend(all.map(|index| shared.name(index).to_vec()));
        }
    }
    for path in others {
        let Some(bytes) = map(path)? else { continue };
        let shared = parse(command, path, &bytes)?;
        let mut defined = shared.globals().filter(|index| shared.is_defined(*index));
        if !asked_for.contains(shared.soname)
            && defined.any(|index| references.contains(shared.name(index)))
        {
            let path = path.display();
            return Err(format!("a library that is needed now may need {path}").into());
        }
    }
    Ok(())
}

/// Refuses the first TLS descriptor if a C library among the inputs wants to be told that there are some.
pub(super) fn check_descriptors(again: Again) -> Result<(), Reason> {
    let Again { state, command, .. } = again;
    if command.args.gnu2_tls_tag == Some(false) {
        return Ok(());
    }
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    let mut asks = command.args.gnu2_tls_tag == Some(true);
    for record in inputs.iter().filter(|record| record.kind == input::OTHER) {
        let path = command.path_of(state, record);
        if let Some(bytes) = map(path)?.filter(|bytes| is_shared(bytes)) {
            let shared = parse(command, path, &bytes)?;
            asks |= shared.soname.starts_with(b"libc.so.")
                && shared.defines_version(|name| name == b"GLIBC_ABI_GNU2_TLS");
        }
    }
    match asks {
        true => Err("the first TLS descriptor is needed".into()),
        false => Ok(()),
    }
}
