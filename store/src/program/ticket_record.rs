//! The record of a ticket file: that there is one at this path, and which compilation it names.

use super::view::{self, Programs};
use super::{ProgramError, Result};
use crate::engine::{Error, Reader, Record, Snapshot, Store};
use format_spec::digest::Digest;
use format_spec::ids::Address;
use format_spec::program::{Index, TicketHeader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A record of a ticket that is older than this is written again when the ticket is,
/// even if it says the same: so a compactor that sees no ticket file and an old record
/// knows that nobody is about to write the file. Its grace period must be longer.
pub const TICKET_REFRESH_NANOSECONDS: u64 = 600_000_000_000;

/// A ticket whose record is to be made.
pub(super) struct Ticket<'t> {
    pub(super) path: &'t Path,
    pub(super) key: Digest,
}

/// What is on record of a ticket.
pub(super) enum OnRecord {
    /// Nothing, or something else, or it is so old that it is to be made again.
    Otherwise,
    /// What it should be.
    Right,
    /// The disk has damaged it.
    Damaged,
}

impl<'t> Ticket<'t> {
    pub(super) fn new(path: &'t Path) -> Ticket<'t> {
        Ticket {
            path,
            key: Digest::of(path.as_os_str().as_bytes()),
        }
    }

    /// Whether its record is there, fresh, and names this compilation.
    pub(super) fn is_on_record(
        &self,
        programs: &Programs<'_>,
        store: &Store,
        compilation: Address,
    ) -> Result<bool> {
        let found = self.on_record(&programs.snapshot(), store, compilation)?;
        Ok(matches!(found, OnRecord::Right))
    }

    /// What a new compilation may be recorded as a difference to: what the ticket has named until now, or its base.
    pub(super) fn base(&self, programs: &Programs<'_>) -> Option<Address> {
        // Whatever is wrong with that: it is no matter for who does without.
        let found = whole(&programs.snapshot(), Index::Tickets, &self.key).ok()??;
        let predecessor = programs.ticket(&found).ok()?.header.compilation;
        let (base, _) = programs.base_for_successor(predecessor)?;
        Some(base)
    }

    /// What is on record, where it should name this compilation.
    pub(super) fn on_record(
        &self,
        reader: &impl Reader,
        store: &Store,
        compilation: Address,
    ) -> Result<OnRecord> {
        let record = match reader.get(Index::Tickets.slot(), &self.key) {
            Ok(None) => return Ok(OnRecord::Otherwise),
            Ok(Some(record)) if record.is_whole() => record,
            Ok(Some(_)) | Err(Error::Damaged { .. }) => return Ok(OnRecord::Damaged),
            Err(error) => return Err(error.into()),
        };
        let Some(header) = record.value.get(..size_of::<TicketHeader>()) else {
            return Err(ProgramError::Damaged {
                path: store.path().to_owned(),
                address: record.address,
                what: "not a ticket's record",
            });
        };
        let header = bytemuck::pod_read_unaligned(header);
        Ok(match is_fresh(header, compilation, store.now()) {
            true => OnRecord::Right,
            false => OnRecord::Otherwise,
        })
    }
}

fn is_fresh(header: TicketHeader, compilation: Address, now: u64) -> bool {
    header.compilation == compilation
        && header.written.saturating_add(TICKET_REFRESH_NANOSECONDS) > now
}

/// The whole record of `key`, if there is one.
pub(super) fn whole<'s>(
    snapshot: &Snapshot<'s>,
    index: Index,
    key: &Digest,
) -> Result<Option<Record<'s>>> {
    view::whole_or_none(snapshot.get(index.slot(), key))
}
