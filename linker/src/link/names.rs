//! Names and extraction: what links of images, relocatable objects, and the resolution for a compiler's plugin have in common.

use super::{Failed, check};
use crate::args::Args;
use crate::base::ids::{FileId, SymbolId};
use crate::input::file::{Body, Files};
use crate::input::scripts::Scripts;
use crate::layout::scripting::{self};
use crate::messages::diag::Diagnostics;
use crate::resolve::resolution::{self, LostGroups};
use crate::resolve::roots::{required, wrap};
use crate::resolve::symbol_table::SymbolTable;
use crate::resolve::symbol_versions::unite_default_versions;
use rayon::prelude::*;

/// Which names of the inputs have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// All.
    All,
    /// All but those of shared objects that no object mentions.
    Mentioned,
    /// All, each as it is written: `-r` leaves versions to the link that comes after it.
    Written,
}

/// Gives every distinct name a number. No names come after this.
///
/// # Errors
/// If there was an error.
pub(crate) fn intern<'a>(
    args: &Args,
    files: &mut Files<'a>,
    names: Names,
    diag: &Diagnostics,
) -> Result<SymbolTable<'a>, Failed> {
    let symbols = match names {
        Names::All => SymbolTable::intern(files, diag),
        Names::Mentioned => SymbolTable::intern_mentioned(files, diag),
        Names::Written => SymbolTable::intern_written(files, diag),
    };
    check(diag)?;
    wrap(args, files, &symbols);
    if names != Names::Written {
        unite_default_versions(files, &symbols);
    }
    Ok(symbols)
}

/// Which files are linked.
pub(crate) struct Extracted {
    /// Symbols that options and scripts need, whoever refers to them.
    pub required: Vec<SymbolId>,
    /// By file.
    pub linked: Vec<bool>,
}

/// Finds out which archive members are needed. The definitions that this leaves in the symbol table are preliminary: groups
/// are not resolved yet.
pub(crate) fn extract(
    args: &Args,
    files: &Files,
    symbols: &SymbolTable,
    scripts: &Scripts,
) -> Extracted {
    scripting::define_assigned(scripts, symbols);
    let required = required(args, scripts, symbols);
    let linked = resolution::extract(files, symbols, &required);
    Extracted { required, linked }
}

/// Reads what only files that are linked need: expands compressed sections, opens fragments.
pub(crate) fn complete(files: &mut Files, linked: &[bool], lost: &LostGroups, diag: &Diagnostics) {
    files
        .0
        .par_iter_mut()
        .zip(linked)
        .enumerate()
        .filter(|(_, (_, linked))| **linked)
        .for_each(|(i, (file, _))| {
            let result = match &mut file.body {
                Body::Object(object) => object.complete(lost.of(FileId(i as u32))),
                _ => Ok(()),
            };
            if let Err(why) = result {
                diag.error(format!("{file}: {why}"));
            }
        });
}
