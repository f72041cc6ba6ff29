//! Splitting: an ELF relocatable object becomes a compilation of fragments.
//!
//! The steps, one file each:
//!
//! 1. [`elf`] checks the object's tables; [`input`] gathers what belongs to each
//!    section (decompressed bytes, sorted relocations, group) and refuses what is
//!    not for splitting.
//! 2. [`merge`] cuts mergeable sections into pieces; [`frames`] takes `.eh_frame`
//!    apart into CIEs and FDEs.
//! 3. [`plan`] decides which section belongs to which fragment.
//! 4. [`emit`] writes fragments, targets, fixups, symbols and bindings.
//! 5. [`outline`] adds what a linker wants to know of them without opening them.
//!
//! Three outcomes: a compilation of many fragments; where something is not
//! understood (a relocation type, an `.eh_frame` that does not parse, a link
//! between sections that no rule explains) a compilation of one large fragment
//! (and one for each section group, since a linker may drop those), with every
//! byte and relocation as it was; or an error, for damaged files and for what is no
//! ordinary x86-64 object at all.

mod elf;
mod emit;
mod frames;
mod graph;
mod input;
mod kind;
mod merge;
mod names;
mod outline;
mod plan;
mod relocs;
#[cfg(test)]
mod tests;

pub(crate) use input::SHT_LLVM_ADDRSIG;
pub(crate) use names::piece_section_name;
pub use outline::{outline, outline_is_right};

use bumpalo::Bump;
use store::program::build::Compilation;

/// Why an object was not split.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// The file contradicts itself.
    #[error("damaged object file, at offset {offset:#x}: {message}")]
    Damaged {
        /// Offset in the object file.
        offset: u64,
        /// What is wrong there.
        message: String,
    },
    /// The file is in order as far as one can tell, but it is not for us: leave
    /// it as it is.
    #[error("not splittable: {reason}")]
    NotSplittable {
        /// Why.
        reason: String,
    },
}

impl SplitError {
    fn damaged(offset: u64, message: impl Into<String>) -> SplitError {
        SplitError::Damaged {
            offset,
            message: message.into(),
        }
    }

    fn not_splittable(reason: impl Into<String>) -> SplitError {
        SplitError::NotSplittable {
            reason: reason.into(),
        }
    }
}

/// A compilation and how it came about.
pub struct Split<'a> {
    /// The compilation.
    pub compilation: Compilation<'a>,
    /// If the object became one large fragment: why.
    pub whole: Option<String>,
}

/// Splits the object file `bytes`. What cannot be borrowed from it (decompressed
/// sections, FDEs) is allocated in `arena`.
///
/// The result depends on nothing but the bytes.
///
/// # Errors
/// See [`SplitError`].
pub fn split<'a>(bytes: &'a [u8], arena: &'a Bump) -> Result<Split<'a>, SplitError> {
    let input = input::Input::load(bytes, arena)?;
    let (plan, whole) = match plan::Plan::split(&input)? {
        Ok(plan) => (plan, None),
        Err(reason) => (plan::Plan::whole(&input)?, Some(reason)),
    };
    let mut compilation = emit::emit(&input, plan, arena)?;
    outline::outline(&mut compilation);
    Ok(Split { compilation, whole })
}
