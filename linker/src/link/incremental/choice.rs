//! Whether a link of which the options say nothing is incremental: if there is a repository. That is what `--repo` and
//! `$REPO_FILE` name, or inputs are tickets of; and `$REPO_LD_INCREMENTAL` decides before any of these.

use crate::args::{Args, Incremental, InputKind};
use std::env;
use std::path::Path;
use tickets::file::{TicketFile, look_at};

/// So many objects are looked at. Who makes tickets makes them of most sources.
const LOOKS: usize = 3;

/// Decides it, where the options do not.
pub fn choose(args: &mut Args) {
    if args.incremental != Incremental::Auto {
        return;
    }
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let is_on = match variable("REPO_LD_INCREMENTAL") {
        Some(value) => value != "0",
        None => args.repo.is_some() || variable("REPO_FILE").is_some() || has_tickets(args),
    };
    args.incremental = match is_on {
        true => Incremental::On,
        false => Incremental::Off,
    };
}

/// Whether one of the first objects is a ticket.
fn has_tickets(args: &Args) -> bool {
    let objects = args.inputs.iter().filter_map(|input| match &input.kind {
        InputKind::File(path) => Some(&**path).filter(|path| is_a_users(path)),
        _ => None,
    });
    objects
        .take(LOOKS)
        .any(|path| matches!(look_at(path), TicketFile::Ticket(_)))
}

/// Whether a file is an object, and none of those that compilers add to every link.
fn is_a_users(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b".o") && !name.starts_with(b"crt") && !name.ends_with(b"crt1.o")
}
