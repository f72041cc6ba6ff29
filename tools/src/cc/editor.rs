//! Tools that change objects, called through us: `objcopy` and `strip`.
//!
//! There are no contents in a ticket for them to change or to take out, and they have no way to say so. So what they are given of
//! tickets, and of archives of these, becomes objects first, in place; the rest of the build takes those as well. A fat object is one
//! already.

use super::invocation::{Asked, Invocation};
use super::response;
use crate::dump::materialize::{Maker, Place};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tickets::file::{TicketFile, look_at};

/// Makes objects of the tickets among the arguments.
///
/// # Errors
/// If that cannot be: an exit code, and words. What the tool would do to the ticket would be wrong, and nobody would know.
pub fn make_objects(invocation: &Invocation, asked: &Asked<'_>) -> Result<(), (u8, String)> {
    // What cannot be read the tool cannot read either.
    let args = response::expand(&invocation.args).unwrap_or_else(|_| invocation.args.clone());
    for path in args.iter().filter(|word| is_operand(word)).map(Path::new) {
        if !path.is_file() || !has_bare_tickets(path) {
            continue;
        }
        let made = Maker::new("repo-cc", asked.repo).make(path, Place::InPlace);
        made.map_err(|error| (1, store::describe(error.as_ref())))?;
        asked.log.note(format_args!(
            "{}: an object now, for {}",
            path.display(),
            invocation.shown()
        ));
    }
    Ok(())
}

fn is_operand(word: &OsString) -> bool {
    !word.as_bytes().starts_with(b"-")
}

/// Whether a file is a ticket, or an archive with some, of which there is no object.
fn has_bare_tickets(path: &Path) -> bool {
    match look_at(path) {
        TicketFile::Ticket(ticket) => !ticket.is_fat,
        TicketFile::Archive { tickets, .. } => tickets.iter().any(|ticket| !ticket.is_fat),
        _ => false,
    }
}
