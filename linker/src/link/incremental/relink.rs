//! The incremental link: the recipe.
//!
//! What has changed is found by time stamps; what has not is never opened. The changed objects are read
//! ([`read`](super::read)), their names settled against the state and their relocations traced ([`trace`](super::trace)), their
//! sections placed where they were ([`place`](super::place)), and their parts written ([`write`](super::write)), by the
//! functions that do it in a full link. If a definition that others mention gets another address, the fields with it are written
//! in those others ([`readdress`](super::readdress)); where that is not enough, they are linked again, too, and all is done once
//! more with them. Whatever cannot be done so is done by a full link; also what turns out
//! when the output is changed already, as a full link writes all of it.

use super::again::{Again, How};
use super::changes::{Changes, FileChange};
use super::check;
use super::command::Command;
use super::draw::draw;
use super::edited::{Edited, is_alone};
use super::held::Held;
use super::lists;
use super::place::{moved, place, values};
use super::read::read;
use super::readdress::{Readdressed, readdress};
use super::reason::Reason;
use super::said;
use super::spare::{self, Canvas};
use super::state::{DAMAGED, Facts, FileRecord, State, Table, file};
use super::trace::{Unsettled, settle, trace};
use super::world::World;
use super::write::{self, Linked, Written};
use super::{edited, manifest};
use crate::args::Incremental;
use crate::input::open::InputArena;
use crate::input::stamp::Moment;
use crate::link::Link;
use crate::messages::diag::{DiagOptions, Diagnostics};
use crate::messages::link_log;
use crate::messages::timing::Timing;
use crate::report::dependency_file;
use crate::resolve::room::wanted;
use typed_arena::Arena;

/// How an incremental link went.
pub(crate) enum Outcome {
    /// The output is up to date.
    Done,
    /// A full link is to be made.
    Full(Full),
}

/// What is known before a full link.
#[derive(Default)]
pub(crate) struct Full {
    /// Why it is one; nothing is said where none was asked for.
    pub why: Option<Reason>,
    /// The places of the state that it is to leave; `None` if it leaves none.
    pub held: Option<Held>,
}

/// Brings the output up to date, if that can be done by changing only what has changed.
pub(crate) fn relink(link: Link, timing: &mut Timing) -> Outcome {
    let nothing_kept = |why| Outcome::Full(Full { why, held: None });
    match wanted(link.args) {
        Ok(()) => {}
        Err(option) => return nothing_kept(option.map(Into::into)),
    }
    let held = match Held::take(link.args) {
        Ok(held) => held,
        Err(why) => return nothing_kept(Some(why)),
    };
    let done = match link.args.incremental {
        Incremental::Anew => Err("--incremental-full".into()),
        _ => attempt(link, &held, timing),
    };
    match done {
        Ok(()) => Outcome::Done,
        Err(why) => Outcome::Full(Full {
            why: Some(why),
            held: Some(held),
        }),
    }
}

/// Why a state cannot be changed any more.
const FULL: &str = "the state file is full";

fn attempt(link: Link, held: &Held, timing: &mut Timing) -> Result<(), Reason> {
    let mut state = State::open(held).ok_or("there is no state of an earlier link")?;
    let changed = manifest::changed(&state, held, link.args)?;
    timing.phase("look for changes");
    let facts = state.header().facts;
    if changed.is_nothing() && !link.args.verify_incremental {
        spare::renew(held, &link.args.output, &mut state)?;
        let inputs = Edited::default().inputs_by_path(&state, &changed.command);
        dependency_file::write_again(link.args, &inputs)?;
        said::repeat(&state, link.diag);
        finish(link, &facts, [0; 2], timing);
        return Ok(());
    }
    let mut edited = edited::look(&state, &changed, held, Moment::now())?;
    timing.phase("compare contents");
    said::refuse(&state, &changed.command, &edited)?;

    let mut files = edited.files.clone();
    files.extend(edited.new_files(&state));
    enough(state.table(Table::Files), &files)?;
    files.sort_unstable();
    let mut step = None;
    // They live until all is done: a program that ends then need not give back what is mapped.
    let arenas = Arena::new();
    while !files.is_empty() {
        let before = Before {
            arena: arenas.alloc(InputArena::default()),
            held,
            state: &state,
            command: &changed.command,
            edited: &edited,
        };
        match link_again(link, before, &files, How::Change(held), timing)? {
            Step::Done(done) => {
                step = Some(done);
                break;
            }
            Step::More(more) => files = more,
            Step::Missing(names) => {
                let output = spare::map_output(&state, held, &link.args.output)?;
                let found = draw(&state, &changed.command, &edited, &names, &output)?;
                let first = edited.new_files(&state).end;
                edited.draw(&state, &changed.command, found)?;
                files.extend(first..edited.new_files(&state).end);
            }
        }
    }

    let inputs = edited.inputs_by_path(&state, &changed.command);
    let readdressed = step.as_ref().map_or(0, |done| done.readdressed);
    // From here on the state counts again only when all is done.
    state.header_mut().clean = 0;
    edited.apply(&mut state).ok_or(FULL)?;
    match step {
        None => spare::renew(held, &link.args.output, &mut state)?,
        Some(done) => {
            let Done {
                changes, canvas, ..
            } = *done;
            let failed = |why| Reason::from(format!("cannot write the output: {why}"));
            let images = canvas.map(Canvas::publish).transpose().map_err(failed)?;
            timing.phase("commit output");
            changes.apply(&mut state, images).ok_or(FULL)?;
        }
    }
    if link.args.verify_incremental {
        compare(link, held, &state, timing);
    }
    state.header_mut().clean = 1;
    timing.phase("keep state");
    dependency_file::write_again(link.args, &inputs)?;
    said::repeat(&state, link.diag);
    finish(link, &facts, [files.len(), readdressed], timing);
    Ok(())
}

/// Tells who wants to know: how many files were linked again, and how many others had addresses written.
fn finish(link: Link, facts: &Facts, files: [usize; 2], timing: &mut Timing) {
    link_log::relinked(
        link.args,
        facts.tickets as usize + facts.objects as usize,
        files,
        timing.total(),
    );
    timing.finish();
    link.host.finished();
}

/// Refuses to link most of the program again.
fn enough(files: &[FileRecord], changed: &[u32]) -> Result<(), Reason> {
    let linked = files
        .iter()
        .filter(|file| file.bits & file::LINKED != 0)
        .count();
    match changed.len() > 8 && changed.len() > linked / 2 {
        true => Err("most of the program has changed".into()),
        false => Ok(()),
    }
}

/// `--verify-incremental`: writes all files again that can be, and reports an error if the output is not the same.
pub(crate) fn verify(link: Link, held: &Held, timing: &mut Timing) {
    if let Some(state) = State::open(held) {
        compare(link, held, &state, timing);
    }
}

fn compare(link: Link, held: &Held, state: &State, timing: &mut Timing) {
    let files: &[FileRecord] = state.table(Table::Files);
    let all = 0..files.len() as u32;
    let alone: Vec<u32> = all.filter(|file| is_alone(files, *file)).collect();
    let edited = Edited::default();
    let failed = Command::new(state, link.args).and_then(|command| {
        let before = Before {
            arena: &InputArena::default(),
            held,
            state,
            command: &command,
            edited: &edited,
        };
        link_again(link, before, &alone, How::Compare, timing)
    });
    let failed = match failed {
        Ok(Step::Done(_)) => match check_images(link, held, state) {
            Ok(()) => return,
            Err(why) => why,
        },
        Ok(Step::More(_)) => "something would move".into(),
        Ok(Step::Missing(_)) => "a name is not known".into(),
        Err(why) => why,
    };
    let output = link.args.output.display();
    link.diag
        .error(format!("{output}: --verify-incremental: {failed}"));
}

/// The tables that everything shares, and the spare image.
fn check_images(link: Link, held: &Held, state: &State) -> Result<(), Reason> {
    let output = spare::map_output(state, held, &link.args.output)?;
    check::check(state, link.args, &output)?;
    match spare::is_as_output(state, held, &link.args.output) {
        true => Ok(()),
        false => Err("the spare image is another".into()),
    }
}

/// What became of an attempt.
enum Step {
    /// Others must be linked again, too: all of them.
    More(Vec<u32>),
    /// Somebody needs names that nobody has who is linked.
    Missing(Vec<Vec<u8>>),
    /// All is known, and written.
    Done(Box<Done>),
}

/// The changed output, and what the state is to be told when that is published.
struct Done {
    changes: Changes,
    canvas: Option<Canvas>,
    /// Files that are not linked again and have other addresses.
    readdressed: usize,
}

/// What there is before some files are linked again.
#[derive(Clone, Copy)]
struct Before<'b> {
    /// For what is read.
    arena: &'b InputArena,
    held: &'b Held,
    state: &'b State,
    command: &'b Command<'b>,
    edited: &'b Edited,
}

/// Links some files again, given by their numbers in the state.
fn link_again(
    link: Link,
    before: Before,
    ids: &[u32],
    how: How<'_>,
    timing: &mut Timing,
) -> Result<Step, Reason> {
    let Before {
        arena,
        held,
        state,
        command,
        edited,
    } = before;
    let old = spare::map_output(state, held, &link.args.output)?;
    let again = Again {
        link,
        state,
        world: &World::new(state, matches!(how, How::Compare)),
        command,
        edited,
        ids,
        // Messages are the full link's to give.
        diag: &Diagnostics::new(DiagOptions::from_args(link.args)),
    };
    let mut records = records_of(state, edited, ids)?;
    let new = edited.added.len();
    // A full link may come yet, and there is one choice of how many threads there are.
    link.host.opened(old.len() as u64);

    // As in any link: read, settle what names mean, find out what is needed, and where it goes.
    let read = read(again, arena, &mut records)?;
    timing.phase("read objects again");
    if !read.losers.is_empty() {
        return with_more(before, ids, read.losers);
    }
    let mut settled = match settle(again, &read)? {
        Ok(settled) => settled,
        Err(Unsettled::Ask(more)) => return with_more(before, ids, more),
        Err(Unsettled::Missing(names)) => return Ok(Step::Missing(names)),
    };
    timing.phase("settle names");
    let mut facts = state.header().facts;
    let (traced, offsets) = trace(again, &read, &mut settled, &records, &mut facts, &old)?;
    if !traced.left_out.is_empty() {
        return with_more(before, ids, traced.left_out);
    }
    timing.phase("trace again");
    for (own, record) in read.files.ids().skip(1).zip(&mut records) {
        let is_pinned = lists::is_pinned(&read.files, &read.sections, &read.outputs, own);
        record.bits &= !file::PINNED;
        record.bits |= if is_pinned { file::PINNED } else { 0 };
    }
    count(&mut facts, &records[records.len() - new..], 1);
    for (id, record) in ids.iter().zip(&mut records) {
        if edited.removed.contains(id) {
            count(&mut facts, std::slice::from_ref(record), u32::MAX);
            record.bits = 0;
        }
    }
    let placed = place(
        again,
        &read,
        &settled,
        &traced,
        &mut records,
        &mut facts,
        offsets,
    )?;
    let places = placed.places(&read, &settled, &traced);
    let changed = &placed.again.lists;
    let values = values(&places, &settled.names, changed);

    // Whoever refers to what has moved is changed with it.
    let moved = moved(again, &places, &settled.names, &values, &placed.again)?;
    if !moved.referrers.is_empty() {
        return with_more(before, ids, moved.referrers);
    }
    timing.phase("place again");
    let mut readdressed = Readdressed::default();
    if matches!(how, How::Compare) {
        readdressed.others.extend_from_slice(&moved.readdressed);
    } else if !moved.readdressed.is_empty() {
        let records = records_of(state, edited, &moved.readdressed)?;
        readdressed = readdress(again, arena, &moved, &records, &placed.outputs, &old)?;
        timing.phase("find references");
    }
    if !readdressed.others.is_empty() {
        return with_more(before, ids, readdressed.others);
    }

    // Everything is known.
    let linked = Linked {
        read: &read,
        settled: &settled,
        traced: &traced,
        placed: &placed,
        values: &values,
        moved: &moved,
        readdressed: &readdressed,
    };
    let Written {
        free,
        facts,
        digests,
        stale,
        canvas,
    } = write::write(again, linked, &mut records, facts, old, how, timing)?;
    let mut changes = Changes {
        digests,
        stale,
        facts: Some(facts),
        free,
        ..Changes::default()
    };
    changes.note_grants(&settled.names);
    changes.note_names(again.world, &places, &settled.names, &values, edited, ids);
    changes.note_lists(again.world, changed);
    changes.pieces = traced.added;
    changes.groups = read.new_groups.clone();
    changes.next = placed
        .again
        .next
        .iter()
        .map(|(part, next)| (*part, *next))
        .collect();
    for ((id, record), of_file) in ids.iter().zip(&records).zip(&placed.again.files) {
        changes.files.push(FileChange {
            file: *id,
            record: *record,
            chunks: of_file.chunks.clone(),
            places: of_file.places.clone(),
        });
    }
    Ok(Step::Done(Box::new(Done {
        changes,
        canvas,
        readdressed: readdressed.files,
    })))
}

/// Counts files that have come, or, with the number that takes away, are gone.
fn count(facts: &mut Facts, records: &[FileRecord], by: u32) {
    for record in records {
        let count = match record.bits & file::TICKET {
            0 => &mut facts.objects,
            _ => &mut facts.tickets,
        };
        *count = count.wrapping_add(by);
    }
}

/// Says that other files must be linked again, too.
fn with_more(before: Before, ids: &[u32], mut more: Vec<u32>) -> Result<Step, Reason> {
    let all: &[FileRecord] = before.state.table(Table::Files);
    let new = before.edited.new_files(before.state);
    more.extend_from_slice(ids);
    more.sort_unstable();
    more.dedup();
    enough(all, &more)?;
    match (more.iter()).all(|file| is_alone(all, *file) || new.contains(file)) {
        true => Ok(Step::More(more)),
        false => Err("a file would be linked again that cannot be by itself".into()),
    }
}

/// What the state says of files, but for where they are now.
fn records_of(state: &State, edited: &Edited, ids: &[u32]) -> Result<Vec<FileRecord>, Reason> {
    let records: &[FileRecord] = state.table(Table::Files);
    let record = |id: &u32| {
        let known = records.get(*id as usize).copied();
        let record = known.or_else(|| edited.new_record(state, *id))?;
        let member = edited.member(*id).unwrap_or(record.member);
        Some(FileRecord { member, ..record })
    };
    let found: Option<Vec<FileRecord>> = ids.iter().map(record).collect();
    found.ok_or_else(|| DAMAGED.into())
}
