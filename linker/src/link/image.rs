//! The recipe of an executable or shared object.
//!
//! Five stages, each a value that one function makes, that is not changed when it is made, and that the next ones borrow:
//!
//! | stage | says |
//! |---|---|
//! | [`Opened`](super::opened::Opened) | what the command line and scripts ask for, and which files there are |
//! | [`Resolved`](super::resolved::Resolved) | which of them are linked, their sections, what every name means |
//! | [`Traced`](super::traced::Traced) | what of them is in the output, and what it needs from the linker |
//! | [`Placed`](super::placed::Placed) | where everything is |
//! | [`OutputFile`] | the bytes |
//!
//! What a stage finds out about an earlier one's matters it says in its own value: the output sections, which every stage
//! adds to, are its own copy. Shared are marks, which parallel steps add up: facts of symbols, states of sections, and, as they have
//! no section that could have a state, that common blocks which nothing reaches are nobody's definition any more.

use super::incremental::{self, Finished, Full, Outcome};
use super::opened::{Opened, open};
use super::placed::{Placed, place};
use super::resolved::{Resolved, resolve};
use super::traced::{Traced, trace};
use super::written::{cannot_write, write};
use super::{Failed, Link, check, check_inputs};
use crate::input::file::Files;
use crate::input::object::Object;
use crate::input::open::InputArena;
use crate::input::record_image;
use crate::input::stamp::Moment;
use crate::layout::scripting;
use crate::messages::link_log;
use crate::messages::timing::Timing;
use crate::output::output_file::OutputFile;
use crate::report::dependency_file;
use crate::report::map;
use std::sync::atomic::Ordering::Relaxed;

/// Links into an executable or shared object.
///
/// # Errors
/// If there was an error; there is no output then.
pub(super) fn link(link: Link, timing: &mut Timing) -> Result<(), Failed> {
    let started = Moment::now();
    // What there is to say of the options every link says.
    let said = link.diag.warning_count();
    // Often only little has changed since the link before.
    let full = match incremental::relink(link, timing) {
        Outcome::Done => return Ok(()),
        Outcome::Full(full) => full,
    };

    // Everything borrows from the inputs' bytes, so they come first and go last.
    let arena = InputArena::default();

    // Before anything else: scripts among the inputs can change the options, and compiled intermediate code the inputs.
    let (opened, files) = open(link, &arena, timing)?;
    let link = Link {
        args: &opened.args,
        ..link
    };

    // Names decide which members of archives are linked, and only the sections of what is linked are numbered. When every
    // name has its definition it is known which symbols others may preempt, which tracing must know.
    let resolved = resolve(link, &opened, files, timing)?;

    // What nothing reaches is not linked, and needs no slots. Pieces are merged and code is folded only then, as what is
    // left out shall not decide where the rest goes.
    let (traced, offsets) = trace(link, &resolved, timing)?;

    // All sizes are known. Addresses come last, as a script may compute with any of these.
    let placed = place(link, &resolved, &traced, offsets, timing)?;
    let places = placed.places(&resolved, &traced);
    scripting::report_prohibited(&opened.scripts, &places, link.diag);
    check_inputs(&resolved.files, link.diag)?;
    timing.phase("compute addresses");

    // The map is written before the output is: it helps to find out why that fails.
    report_map(link, &opened, &resolved, &traced, &placed);

    // Everything has its place: write.
    let (output, kept) = write(
        link,
        &resolved,
        &traced,
        &placed,
        full.held.as_ref(),
        timing,
    )?;
    // Also a warning of the last steps can be an error (`--fatal-warnings`).
    check(link.diag)?;
    let (opened_files, searched) = match full.held {
        Some(_) => (arena.opened_files(), arena.searched()),
        None => (Vec::new(), Vec::new()),
    };
    let lasting = link.diag.lasting();
    let finished = Finished {
        args: link.args,
        opened: &opened,
        resolved: &resolved,
        traced: &traced,
        placed: &placed,
        started,
        kept: &kept,
        files: &opened_files,
        searched: &searched,
        output: None,
        said,
        lasting: &lasting,
    };
    publish(link, &arena, finished, output, full, timing)?;

    // The plugin takes away its files.
    drop(opened.compiled);
    link.host.finished();
    Ok(())
}

fn report_map(link: Link, opened: &Opened, resolved: &Resolved, traced: &Traced, placed: &Placed) {
    map::image::Map {
        inputs: map::Inputs {
            args: link.args,
            files: &resolved.files,
            symbols: &resolved.symbols,
            definitions: &resolved.definitions,
            sections: &resolved.sections,
            paths: &opened.paths,
            linked: &resolved.linked,
            required: &resolved.required,
            commons: &traced.commons.linked,
            diag: link.diag,
        },
        places: &placed.places(resolved, traced),
        frames: &traced.frame_layout,
        made: &placed.sizes,
    }
    .report();
}

/// Puts the output under its name, and tells those who want to know.
fn publish(
    link: Link,
    arena: &InputArena,
    mut finished: Finished,
    mut output: OutputFile,
    full: Full,
    timing: &mut Timing,
) -> Result<(), Failed> {
    let args = link.args;
    let Finished {
        opened, resolved, ..
    } = finished;
    let (files, linked) = (&resolved.files, &resolved.linked);
    let size = output.bytes().len() as u64;
    // Where this fails there is no output either.
    dependency_file::write(args, arena, &opened.scripts).map_err(|why| {
        link.diag.error(why);
        Failed
    })?;
    let (committed, images) = rayon::join(
        || output.commit(),
        || record_image::Images::collect(files, linked),
    );
    committed.map_err(|why| {
        dependency_file::remove(args);
        cannot_write(link, why)
    })?;
    let metadata = full.held.as_ref().map(|_| std::fs::metadata(&args.output));
    finished.output = metadata.and_then(Result::ok).map(Into::into);
    timing.phase("commit output");

    // The output is there; what is left is for the compactor and for whoever wants to know. From here on nothing fails.
    let unrecorded = images.record(args, size).err();
    if let Some(why) = &unrecorded {
        record_image::tell_unrecorded(args, why);
    }
    timing.phase("record image");
    let Full { mut why, held } = full;
    if link.doubts.no_room.load(Relaxed) {
        why = Some("there is no room for later edits on the disk".into());
    }
    let mut held = held;
    if held.is_some()
        && let Some(refused) = incremental::refuses(link, &finished)
    {
        let reason = why.unwrap_or_default();
        why = Some(format!("{reason}; the next one will be full, too: {refused}").into());
        held = None;
    }
    // Nobody need wait for the state, unless something may be said of it.
    if let Some(held) = held.take_if(|_| args.verify_incremental || !args.fork) {
        let kept = incremental::keep(&held, finished);
        timing.phase("keep state");
        match kept {
            Ok(()) if args.verify_incremental => incremental::verify(link, &held, timing),
            Ok(()) => {}
            Err(failed) => {
                why = Some(format!("{}; no state: {failed}", why.unwrap_or_default()).into());
            }
        }
    }
    let (tickets, objects) = count_objects(files, linked);
    link_log::linked(
        args,
        &link_log::Line {
            tickets,
            objects,
            output_size: size,
            time: timing.total(),
            full: why.as_deref(),
            remark: unrecorded.as_ref().map(|why| why as &dyn std::fmt::Display),
        },
    );
    timing.finish();
    if let Some(file) = &args.stats {
        let written = timing.write_stats(file.as_deref(), files.0.len() - 1, size);
        if let (Err(why), Some(file)) = (written, file) {
            // Not among the warnings that `--fatal-warnings` makes errors: the output is there.
            crate::tell!(
                "repo-ld: warning: --stats: cannot write {}: {why}",
                file.display()
            );
        }
    }
    if let Some(held) = held {
        link.host.apart(held.descriptor(), &mut || {
            if let Err(why) = incremental::keep(&held, finished) {
                link_log::not_kept(args, &why);
            }
        });
    }
    Ok(())
}

/// Numbers of tickets and of ELF objects that are linked.
fn count_objects(files: &Files, linked: &[bool]) -> (usize, usize) {
    let linked = files.iter().zip(linked).filter(|(_, linked)| **linked);
    linked.fold((0, 0), |(tickets, objects), ((_, file), _)| {
        match file.object().map(Object::is_ticket) {
            Some(true) => (tickets + 1, objects),
            Some(false) => (tickets, objects + 1),
            None => (tickets, objects),
        }
    })
}
