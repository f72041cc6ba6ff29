//! Reading the records of linked images, and of DWARF types.

use super::cutter::Cutter;
use super::view::Programs;
use super::{ProgramError, Result};
use crate::engine::Record;
use format_spec::envelope::Reference;
use format_spec::ids::NameId;
use format_spec::kinds::TypeBody;
use format_spec::program::{ImageHeader, ImageInputRecord};

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
}

/// A DWARF type.
#[derive(Clone, Copy, Debug)]
pub struct TypeView<'s> {
    /// Its record.
    pub record: Record<'s>,
    /// The head of its body.
    pub header: &'s TypeBody,
    /// Its name, qualified; the empty name for anonymous types.
    pub name: NameId,
    /// The types that it refers to.
    pub references: &'s [Reference],
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
            })
        };
        parse().ok_or_else(|| self.damaged_record(record, "not an image"))
    }

    /// A type's record taken apart.
    ///
    /// # Errors
    /// If it is none.
    pub fn type_entry(&self, record: &Record<'s>) -> Result<TypeView<'s>> {
        let envelope = self.envelope(record)?;
        let view = || {
            let (header, bytes) = TypeBody::parse(&envelope)?;
            Some(TypeView {
                record: *record,
                header,
                name: *envelope.names.first()?,
                references: envelope.references,
                bytes,
            })
        };
        view().ok_or_else(|| self.damaged_record(record, "not a type"))
    }

    fn damaged_record(&self, record: &Record<'_>, what: &'static str) -> ProgramError {
        ProgramError::Damaged {
            path: self.snapshot().store().path().to_owned(),
            address: record.address,
            what,
        }
    }
}
