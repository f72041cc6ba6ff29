//! Room for edits: how much larger things are made than they are, in an output that will be linked incrementally.
//!
//! What grows within its room keeps its place, and nobody that refers to it need be touched. There is room behind each
//! section of code and data, behind all that a file has in a part of the output, behind its frame descriptions, and behind
//! merged pieces and the table of frames. There is none where whoever walks over a section must find one thing behind the
//! other: in lists of functions, notes, and sections whose bounds have names.

use super::wanted;
use crate::args::Args;
use crate::ids::PartId;
use crate::output::{Order, Outputs, Part, Std};

/// Whether, and so how much, room is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room(bool);

impl Room {
    /// No room: the output is as small as can be.
    pub const NONE: Room = Room(false);

    /// As the options say.
    pub fn of(args: &Args) -> Room {
        Room(wanted(args).is_ok())
    }

    /// Whether sections of a part may have gaps between them.
    pub fn is_in(self, outputs: &Outputs, part: PartId) -> bool {
        self.0 && may_have_gaps(&outputs.parts[part.index()])
    }

    /// Bytes behind a section.
    pub fn of_section(self, size: u64) -> u64 {
        match self.0 && size > 0 {
            true => size / 8 + 8,
            false => 0,
        }
    }

    /// Bytes behind all that a file has in a part.
    pub fn of_chunk(self, size: u64) -> u64 {
        match self.0 && size > 0 {
            true => size / 16 + 64,
            false => 0,
        }
    }

    /// Bytes behind a file's frame descriptions: a multiple of what they are aligned to.
    pub fn of_frames(self, size: u64) -> u64 {
        match self.0 && size > 0 {
            true => (size / 8 + 32).next_multiple_of(8),
            false => 0,
        }
    }

    /// Rows of the table of frames that are not used yet.
    pub fn of_rows(self, rows: usize) -> usize {
        match self.0 {
            true => rows / 16 + 64,
            false => 0,
        }
    }

    /// Bytes behind the merged pieces of a part.
    pub fn of_pieces(self, size: u64) -> u64 {
        match self.0 && size > 0 {
            true => (size / 16).clamp(1024, 4 << 20),
            false => 0,
        }
    }
}

fn may_have_gaps(part: &Part) -> bool {
    const WITH_GAPS: [Std; 8] = [
        Std::Text,
        Std::Rodata,
        Std::ExceptTable,
        Std::DataRelRo,
        Std::Data,
        Std::Bss,
        Std::Tdata,
        Std::Tbss,
    ];
    part.sort == Order::Input
        && part.merge.is_none()
        && WITH_GAPS.iter().any(|std| std.id() == part.output)
}
