//! The first stage: what the command line names is mapped and parsed, scripts are read, and intermediate code is compiled.
//!
//! All links begin with it, `-r` too. [`Opened`] is what stays as it is; the [`Files`] go on to the next stage, which finds
//! out what of them is linked and reads that.

use super::{Failed, Link, check};
use crate::args::{Args, OutputKind};
use crate::input::file::Files;
use crate::input::open::{self, InputArena};
use crate::input::scripts::Scripts;
use crate::link::lto::{self, Compiled};
use crate::messages::timing::Timing;
use crate::resolve::roots::mentioned;
use crate::resolve::symbol_versions::{self, Versioning};
use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// What was asked for, now that all of it is read.
pub struct Opened<'l, 'a> {
    /// The options, with what scripts add to them.
    pub args: Cow<'l, Args>,
    /// The scripts of the command line and of the inputs.
    pub scripts: Scripts,
    /// Scripts among the inputs say what options or version scripts could.
    pub amended: bool,
    /// Their version scripts; no symbol has a version yet.
    pub versioning: Versioning,
    /// What was made of intermediate code, if there was any.
    pub compiled: Option<Compiled>,
    /// The paths of the objects, archives and shared objects, in order.
    pub paths: Vec<&'a Path>,
    /// Members of archives were left out, because the archives' indexes say that nothing can need them.
    pub by_index: bool,
}

/// Opens all inputs.
///
/// # Errors
/// If there was an error: in them, in scripts, or in the compiler's plugin.
pub fn open<'l, 'a>(
    link: Link<'l>,
    arena: &'a InputArena,
    timing: &mut Timing,
) -> Result<(Opened<'l, 'a>, Files<'a>), Failed> {
    let Link { args, diag, .. } = link;
    // Nothing of a relocatable object has its place for good: it knows no default layout, and no versions.
    let is_image = args.kind != OutputKind::Relocatable;
    let inputs = open::open(arena, args, mentioned(args, arena), link.host, diag);
    if is_image {
        link.doubts.unseen.store(inputs.by_index, Relaxed);
    }
    let (mut files, mut scripts) = (inputs.files, inputs.scripts);
    scripts.check(args, diag);
    scripts.unite_regions(diag);
    if is_image {
        scripts.complete(args, diag);
        scripts.order(args, diag);
    }
    let args = scripts.amend(args).map_or(Cow::Borrowed(args), Cow::Owned);
    let amended = matches!(args, Cow::Owned(_)) || !inputs.version_scripts.is_empty();
    let versioning = match is_image {
        true => symbol_versions::read(&args, inputs.version_scripts, diag),
        false => Versioning::default(),
    };
    // (A shared object that is made again may be found for itself, by `-l` or by way of another one.)
    let is_shared = |path: &Path| {
        let mut files = files.0.iter();
        files.any(|file| file.shared().is_some() && file.path == path)
    };
    if let Some(input) = arena.overwritten_by(&args.output)
        && !is_shared(&input)
    {
        let input = input.display();
        diag.error(format!("input file '{input}' is the same as output file"));
    }
    check(diag)?;
    timing.phase("open inputs");

    // Let the compiler's plugin make machine code of intermediate code: before names are interned, as the files that it
    // makes stand in place of those that it has taken. It takes them away when it goes.
    let compiled = lto::compile(
        arena,
        &mut files,
        inputs.intermediate,
        &scripts,
        &versioning,
        &args,
        diag,
    )?;
    timing.phase("optimise");
    let opened = Opened {
        args,
        scripts,
        amended,
        versioning,
        compiled,
        paths: inputs.paths,
        by_index: inputs.by_index,
    };
    Ok((opened, files))
}
