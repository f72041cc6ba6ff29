//! Recovery after the death of the operating system, and verification: both
//! compute from the log what the tables must be, and then write or compare.

use super::Store;
use super::create::first_trailer;
use super::error::{Error, Fault, Result};
use super::log::{self, next_transaction, trailer_at};
use super::map::View;
use super::replay::Tables;
use format_spec::file::{FileHeader, FileState, LOG_OFFSET, STATE_OFFSET};
use std::mem::offset_of;

impl Store {
    /// Checks everything up to the newest transaction: every transaction's
    /// checksum, the chain, and every word of every table against the log.
    /// Writers can go on meanwhile.
    pub fn verify(&self) -> Result<()> {
        if let Some(_lock) = self.try_lock()?
            && !self.is_read_only()
        {
            self.catch_up()?;
        }
        let newest = self.snapshot()?;
        let view = newest.view();
        let replay = || -> Result<Tables, Fault> {
            self.check_reserved(view)?;
            let mut tables = self.replay_all(view)?;
            while tables.trailer().offset < newest.trailer().offset {
                let next = next_transaction(view, tables.trailer())?;
                let jump = log::jump_after(view, tables.trailer())?;
                if next.jump != jump {
                    return Err(Fault::new(next.offset, "trailer's links are wrong"));
                }
                tables.apply(view, next)?;
            }
            tables.compare(view, false)?;
            Ok(tables)
        };
        let tables = replay().map_err(|fault| self.error(fault))?;

        // If nobody has written meanwhile, nor was killed while writing, there
        // must be no word that is not accounted for.
        let Some(_lock) = self.try_lock()? else {
            return Ok(());
        };
        let head = self.state_offset(offset_of!(FileState, head))?;
        if head == newest.trailer().offset {
            let compared = tables.compare(view, true);
            compared.map_err(|fault| self.error(fault))?;
        }
        let (checkpoint, durable) = self.durable_state()?;
        for offset in [head, checkpoint, durable] {
            self.trailer(offset)?;
        }
        Ok(())
    }

    fn replay_all(&self, view: View<'_>) -> Result<Tables, Fault> {
        let first = trailer_at(view, LOG_OFFSET)?;
        if *first != first_trailer(first.time, first.nonce) {
            return Err(Fault::new(LOG_OFFSET, "first trailer is wrong"));
        }
        Ok(Tables::empty(first))
    }

    fn check_reserved(&self, view: View<'_>) -> Result<(), Fault> {
        let state_end = STATE_OFFSET + size_of::<FileState>() as u64;
        for (start, end) in [
            (size_of::<FileHeader>() as u64, STATE_OFFSET),
            (state_end, LOG_OFFSET),
        ] {
            if view
                .bytes(start, end - start)?
                .iter()
                .any(|&byte| byte != 0)
            {
                return Err(Fault::new(start, "reserved bytes are not zero"));
            }
        }
        Ok(())
    }

    /// Finds the newest transaction that is whole, makes the tables agree with
    /// it, and publishes it. SPEC.md, "Recovery".
    pub(super) fn recover(&self) -> Result<()> {
        let length = self.refresh_length()?;
        let view = self.view(length.min(self.reserve()))?;
        let checkpoint = self.state_offset(offset_of!(FileState, checkpoint));
        let visible = self.state_offset(offset_of!(FileState, visible));
        let replay = || -> Result<Tables, Fault> {
            let start = checkpoint.ok().map(|offset| trailer_at(view, offset));
            let mut tables = match start {
                Some(Ok(start)) => Tables::load(view, start)?,
                // The state itself is damaged: everything is in the log.
                _ => self.replay_all(view)?,
            };
            while let Ok(next) = next_transaction(view, tables.trailer()) {
                if self.is_read_only() && visible.as_ref().is_ok_and(|&last| next.offset > last) {
                    break;
                }
                tables.apply(view, next)?;
            }
            Ok(tables)
        };
        let tables = replay().map_err(|fault| self.error(fault))?;
        let newest = tables.trailer().offset;
        if self.is_read_only() {
            let lost = Fault::new(newest, "what follows is not whole");
            let same = (visible? == newest).then_some(()).ok_or(lost);
            return same
                .and_then(|()| tables.compare(view, false))
                .map_err(|fault| Error::NeedsRecovery {
                    path: self.path().to_owned(),
                    offset: fault.offset,
                    what: fault.what,
                });
        }
        for (table, words) in tables.all() {
            self.write_table(words, table.address())?;
        }
        self.sync_file()?;
        // In this order: who finds the session right looks no further.
        self.write_state(offset_of!(FileState, head), &[newest; 4])?;
        self.write_session()?;
        self.sync_file()
    }
}
