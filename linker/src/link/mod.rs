//! The link, from beginning to end: [`image`] and [`relocatable`] are the recipes, and the stages stand
//! beside them, each in a file that has the stage's value and the one function that makes it.
//!
//! This folder knows all others; none but the program itself knows it.

pub mod fallback_ld;
pub(crate) mod lto;
pub(crate) mod relocatable;

mod dynamic_output;
mod image;
mod incremental;
pub(crate) mod names;
pub(crate) mod opened;
pub(crate) mod placed;
pub(crate) mod resolved;
pub(crate) mod traced;
pub(crate) mod written;

pub use incremental::choose;

use crate::args::{Args, Incremental, OutputKind};
use crate::input::file::Files;
use crate::input::host::Host;
use crate::input::object::Object;
use crate::messages::diag::Diagnostics;
use crate::messages::timing::Timing;
use crate::messages::unsupported;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Why there is no output; the reasons are in the [`Diagnostics`].
#[derive(Debug)]
pub struct Failed;

/// What is believed at first, and whether it may be wrong.
#[derive(Default)]
pub(crate) struct Doubts {
    /// Whether a load from a slot can be made an address is decided before anything has its place; a script or an option
    /// has put sections too far from each other for that.
    pub(crate) too_far: AtomicBool,
    /// Members of archives and symbols of shared objects were not looked at, as tables of these say that nothing needs them.
    pub(crate) unseen: AtomicBool,
    /// With what is kept free for later edits the output is too large for the disk, or for a limit of file sizes.
    pub(crate) no_room: AtomicBool,
}

/// What every stage is told.
#[derive(Clone, Copy)]
pub struct Link<'l> {
    /// Options.
    pub(crate) args: &'l Args,
    /// For messages.
    pub(crate) diag: &'l Diagnostics,
    /// The program that links.
    pub(crate) host: &'l dyn Host,
    /// What may have to be done again.
    pub(crate) doubts: &'l Doubts,
}

/// Links. Messages go to `diag`; if any of them is an error there is no output. Where what is believed at first proves wrong,
/// or a link fails that may be because of it, everything is done again without.
///
/// # Errors
/// If there was an error.
pub fn link(args: &Args, diag: &Diagnostics, host: &dyn Host) -> Result<(), Failed> {
    let doubts = Doubts::default();
    let mut args = Cow::Borrowed(args);
    loop {
        let result = attempt(Link {
            args: &args,
            diag,
            host,
            doubts: &doubts,
        });
        let too_far = args.relax && doubts.too_far.load(Relaxed);
        let unseen = args.trust_tables && result.is_err() && doubts.unseen.load(Relaxed);
        let no_room = args.incremental != Incremental::Off && doubts.no_room.load(Relaxed);
        if !too_far && !unseen && !no_room {
            return result;
        }
        diag.forget();
        let again = args.to_mut();
        again.relax &= !too_far;
        again.trust_tables &= !unseen;
        if no_room {
            again.incremental = Incremental::Off;
        }
        // The names of the inputs are shown already, and what was passed over.
        again.trace = 0;
        again.warn_search_mismatch = false;
    }
}

fn attempt(link: Link) -> Result<(), Failed> {
    let Link { args, diag, .. } = link;
    for warning in &args.warnings {
        diag.warn(warning);
    }
    let mut timing = Timing::new(args);
    unsupported::report(args, diag);
    check(diag)?;
    match args.kind {
        OutputKind::Relocatable => relocatable::link(link, &mut timing),
        _ => image::link(link, &mut timing),
    }
}

/// Fails if there was an error.
pub(crate) fn check(diag: &Diagnostics) -> Result<(), Failed> {
    if diag.has_errors() {
        Err(Failed)
    } else {
        Ok(())
    }
}

/// Fails if there was an error, which may have come from a damaged repository: then says that, too.
fn check_inputs(files: &Files, diag: &Diagnostics) -> Result<(), Failed> {
    if diag.has_errors() {
        report_damage(files, diag);
    }
    check(diag)
}

fn too_large(diag: &Diagnostics, what: &str) -> Failed {
    diag.error(format!("{what} would be larger than 4 GiB"));
    Failed
}

/// Reports what was found, by accessors that cannot, to be wrong with repositories.
fn report_damage(files: &Files, diag: &Diagnostics) {
    for (_, file) in files.iter() {
        if let Some(why) = file.object().and_then(Object::damage) {
            diag.error(format!("{file}: {why}"));
        }
    }
}
