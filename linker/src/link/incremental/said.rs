//! Warnings of a full link which every later link gives as well.
//!
//! Who mentions `tmpnam`, or asks for an executable stack, is warned of each time. Such warnings name the files that they are about,
//! and hold as long as these are as they are: the state keeps their texts. If a file is edited that one of them names, the link
//! is a full one, and finds out what there is to say now. So it is if another file mentions what is warned of, or asks for such
//! a stack: a warning may name only the first that does.

use super::command::Command;
use super::edited::Edited;
use super::reason::Reason;
use super::state::{Builder, DAMAGED, FileRecord, InputRecord, State, Table};
use crate::messages::diag::{Diagnostic, Diagnostics};
use memchr::memmem;
use std::os::unix::ffi::OsStrExt;

/// Keeps texts.
pub(super) fn keep(texts: &[String], text: &mut Vec<u8>, builder: &mut Builder) {
    let range = |said: &String| {
        let at = text.len() as u64;
        text.extend_from_slice(said.as_bytes());
        [at, said.len() as u64]
    };
    let ranges: Vec<[u64; 2]> = texts.iter().map(range).collect();
    builder.table(Table::Said, &ranges);
}

/// The texts.
fn texts(state: &State) -> impl Iterator<Item = &[u8]> {
    let ranges: &[[u64; 2]] = state.table(Table::Said);
    let text = |[at, len]: &[u64; 2]| state.text(*at, u32::try_from(*len).unwrap_or(0));
    ranges.iter().map(text)
}

/// Refuses edits of files that something is said of.
///
/// # Errors
/// If a file is one.
pub(super) fn refuse(state: &State, command: &Command, edited: &Edited) -> Result<(), Reason> {
    let files: &[FileRecord] = state.table(Table::Files);
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    if texts(state).next().is_none() {
        return Ok(());
    }
    for file in &edited.files {
        let record = files.get(*file as usize).ok_or(DAMAGED)?;
        let input = inputs.get(record.input as usize).ok_or(DAMAGED)?;
        // Objects that compilers make for the link alone have other names each time.
        let names = [
            state.text(input.path, input.path_len),
            command.path_of(state, input).as_os_str().as_bytes(),
        ];
        let names = names.map(|name| String::from_utf8_lossy(name).into_owned());
        for said in texts(state) {
            if let Some(name) = names
                .iter()
                .find(|name| memmem::find(said, name.as_bytes()).is_some())
            {
                return Err(format!("{name} has changed, which is warned of").into());
            }
        }
    }
    Ok(())
}

/// Says it again.
pub(super) fn repeat(state: &State, diag: &Diagnostics) {
    for (text, order) in texts(state).zip(0u32..) {
        let text = String::from_utf8_lossy(text);
        diag.report(Diagnostic::warning(text).at(order, 0));
    }
}
