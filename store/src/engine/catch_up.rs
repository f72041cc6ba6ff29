//! What a writer that was killed left undone.

use super::error::{Fault, Result};
use super::replay::Additions;
use super::snapshot::Snapshot;
use super::store::Store;
use super::update;
use format_spec::file::FileState;
use std::mem::offset_of;

impl Store {
    /// The newest transaction, after doing what a writer that was killed
    /// between its commit and its last word left undone.
    pub(super) fn catch_up(&self) -> Result<Snapshot<'_>> {
        let head = self.state_offset(offset_of!(FileState, head))?;
        let visible = self.state_offset(offset_of!(FileState, visible))?;
        let base = self.snapshot_of(head)?;
        if head != visible {
            let before = self.snapshot_of(visible)?;
            if base.trailer().previous != visible {
                return Err(self.error(Fault::new(head, "head does not follow what is visible")));
            }
            let additions =
                Additions::read(base.view(), base.trailer()).map_err(|fault| self.error(fault))?;
            update::finish(self, &before, &base, &additions)?;
            self.write_state(offset_of!(FileState, visible), &[head])?;
        }
        Ok(base)
    }
}
