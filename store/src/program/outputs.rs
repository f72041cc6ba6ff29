//! Reading the records of linked images and of DWARF types.

use super::view::{Cutter, Programs};
use super::{ProgramError, Result};
use crate::engine::Record;
use format_spec::ids::Address;
use format_spec::program::{ImageHeader, ImageInputRecord, PlacementRecord, TypeHeader};

/// A linked output.
#[derive(Clone, Copy, Debug)]
pub struct ImageView<'s> {
    /// Its record.
    pub record: Record<'s>,
    /// The head of its value.
    pub header: &'s ImageHeader,
    /// The output's absolute path.
    pub path: &'s [u8],
    /// What was linked, in command-line order.
    pub inputs: &'s [ImageInputRecord],
    /// Where everything went, in ascending order of addresses.
    pub placements: &'s [PlacementRecord],
}

/// A DWARF type.
#[derive(Clone, Copy, Debug)]
pub struct TypeView<'s> {
    /// Its record.
    pub record: Record<'s>,
    /// The head of its value.
    pub header: &'s TypeHeader,
    /// The types that it refers to.
    pub references: &'s [Address],
    /// Its canonical form.
    pub bytes: &'s [u8],
}

impl<'s> Programs<'s> {
    /// An image's record taken apart.
    ///
    /// # Errors
    /// If it is none.
    pub fn image(&self, record: &Record<'s>) -> Result<ImageView<'s>> {
        let parse = || {
            let mut cutter = Cutter::new(record.value);
            let header: &ImageHeader = cutter.one()?;
            Some(ImageView {
                record: *record,
                header,
                path: cutter.slice(header.path_size as usize)?,
                inputs: cutter.slice(header.input_count as usize)?,
                placements: cutter.slice(header.placement_count as usize)?,
            })
        };
        parse().ok_or_else(|| self.damaged_record(record, "not an image"))
    }

    /// A type's record taken apart.
    ///
    /// # Errors
    /// If it is none.
    pub fn type_entry(&self, record: &Record<'s>) -> Result<TypeView<'s>> {
        let parse = || {
            let mut cutter = Cutter::new(record.value);
            let header: &TypeHeader = cutter.one()?;
            let references: &[Address] = cutter.slice(header.reference_count as usize)?;
            let bytes = cutter.rest();
            let is_good = bytes.len() == header.size as usize
                && references
                    .iter()
                    .all(|reference| *reference < record.address);
            is_good.then_some(TypeView {
                record: *record,
                header,
                references,
                bytes,
            })
        };
        parse().ok_or_else(|| self.damaged_record(record, "not a type"))
    }

    fn damaged_record(&self, record: &Record<'_>, what: &'static str) -> ProgramError {
        ProgramError::Damaged {
            path: self.snapshot().store().path().to_owned(),
            address: record.address,
            what,
        }
    }
}
