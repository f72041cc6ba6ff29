//! The incremental link: the recipe.
//!
//! What has changed is found by time stamps; what has not is never opened. The changed objects are read, their names settled
//! against the state ([`names`](super::names)), their relocations traced and their sections placed where they were
//! ([`layout`](super::layout)), by the functions that do it in a full link. If a definition that others mention gets another
//! address, those others are linked again, too, and all is done once more with them. Only when nothing can go wrong any more
//! is the output taken and changed, and then the state. Whatever cannot be done so is done by a full link.

use super::names::{Known, Names};
use super::patch::{self, Patch};
use super::placing::{PlacedAgain, Placing};
use super::state::{
    ADDED, ChunkRecord, CieRecord, Facts, FileRecord, GroupRecord, InputRecord, NONE, NameRecord,
    NewGroup, NewMention, NewName, NewPiece, OutputRecord, PartRecord, PieceRecord, PlaceRecord,
    State, Table, fact, file, hash_piece, key_of,
};
use super::world::{AddedPiece, NameAt, World};
use super::{Reason, capture, manifest};
use crate::addresses::{Places, Starts, SymbolValue};
use crate::args::Incremental;
use crate::build_id::ChunkDigest;
use crate::diag::{DiagOptions, Diagnostics};
use crate::elf::{Rela, Sym};
use crate::file::Files;
use crate::frames::{FrameLayout, Frames};
use crate::got;
use crate::icf::Folds;
use crate::ids::{FileId, PartId, SectionId, SymbolId};
use crate::inputs::{self, InputArena};
use crate::layout::{MergedPieces, merge_pieces};
use crate::link::Link;
use crate::link::names::{self as link_names, Names as Mentioned};
use crate::linker_symbols::LinkerSymbols;
use crate::log;
use crate::made::Made;
use crate::mentions::entry_name;
use crate::object::{Object, Target};
use crate::output::{Outputs, Std};
use crate::output_file::OutputFile;
use crate::pieces::UsedPieces;
use crate::plan::Mode;
use crate::progress::Position;
use crate::relocate::Relocator;
use crate::resolve::{self, LostGroups};
use crate::retain::Retained;
use crate::room::{Filler, Room, wanted};
use crate::sections::{SectionFacts, Sections, Unloaded, state as section_state};
use crate::segments::{Segments, TlsSegment};
use crate::stamp::Stamp;
use crate::strtab::StringTable;
use crate::symbols::{SymbolTable, flag, rank};
use crate::symtab::{self, Chooser, SymtabLayout};
use crate::timing::Timing;
use crate::trace::groups::Groups;
use crate::trace::{Needs, Tracer};
use crate::write::{Regions, Writer};
use memmap2::Mmap;
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How an incremental link went.
pub(crate) enum Outcome {
    /// The output is up to date.
    Done,
    /// A full link is to be made, and why; nothing is said where none was asked for.
    Full(Option<Reason>),
}

/// Brings the output up to date, if that can be done by changing only what has changed.
pub(crate) fn relink(link: Link, timing: &mut Timing) -> Outcome {
    match wanted(link.args) {
        Ok(()) => {}
        Err(None) => return Outcome::Full(None),
        Err(Some(option)) => return Outcome::Full(Some(option.into())),
    }
    if link.args.incremental == Incremental::Anew {
        return Outcome::Full(Some("--incremental-full".into()));
    }
    match attempt(link, timing) {
        Ok(()) => Outcome::Done,
        Err(why) => Outcome::Full(Some(why)),
    }
}

fn attempt(link: Link, timing: &mut Timing) -> Result<(), Reason> {
    let path = manifest::state_path(link.args)?;
    let mut state = State::open(&path).ok_or("there is no state of an earlier link")?;
    let changed = manifest::changed(&state, link.args)?;
    timing.phase("look for changes");
    let facts = state.header().facts;
    if changed.is_empty() && !link.args.verify_incremental {
        finish(link, &facts, 0, timing);
        return Ok(());
    }
    let mut files = changed_files(&state, &changed)?;

    // From here on the state counts again only when all is done.
    state.header_mut().clean = 0;
    let stamps = stamps(&state, &files);
    while !files.is_empty() {
        match link_again(link, &state, &files, How::Change, timing)? {
            Step::Done(mut changes) => {
                changes.stamps = stamps;
                changes.apply(&mut state).ok_or("the state file is full")?;
                break;
            }
            Step::More(more) => files = more,
        }
    }
    if link.args.verify_incremental {
        compare(link, &state, timing);
    }
    let header = state.header_mut();
    header.output = Stamp::at(&link.args.output).ok_or("the output is gone")?;
    header.links += 1;
    header.clean = 1;
    timing.phase("keep state");
    finish(link, &facts, files.len(), timing);
    Ok(())
}

/// Tells who wants to know.
fn finish(link: Link, facts: &Facts, files: usize, timing: &mut Timing) {
    log::relinked(
        link.args,
        facts.tickets as usize + facts.objects as usize,
        files,
        timing.total(),
    );
    timing.finish();
    link.host.finished();
}

/// The objects that have changed, by their numbers in the state.
fn changed_files(state: &State, inputs: &[u32]) -> Result<Vec<u32>, Reason> {
    let records: &[InputRecord] = state.table(Table::Inputs);
    let files: &[FileRecord] = state.table(Table::Files);
    let mut changed = Vec::new();
    for input in inputs {
        let record = records.get(*input as usize).ok_or("the state is damaged")?;
        let is_alone = |file: &u32| {
            files
                .get(*file as usize)
                .is_some_and(|file| file.bits & file::ALONE != 0)
        };
        match Some(record.file).filter(is_alone) {
            Some(file) => changed.push(file),
            None => {
                let path = manifest::path_of(state, record);
                return Err(
                    format!("{} has changed, and is no single object", path.display()).into(),
                );
            }
        }
    }
    enough(files, &changed)?;
    Ok(changed)
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

/// What the files are like now, before they are read.
fn stamps(state: &State, files: &[u32]) -> Vec<(u32, Stamp)> {
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    let records: &[FileRecord] = state.table(Table::Files);
    let stamp = |file: &u32| {
        let number = records.get(*file as usize)?.input;
        let input = inputs.get(number as usize)?;
        let stamp = Stamp::at(manifest::path_of(state, input))?.settled();
        Some((number, stamp))
    };
    files.iter().filter_map(stamp).collect()
}

/// `--verify-incremental`: writes all files again that can be, and reports an error if the output is not the same.
pub(crate) fn verify(link: Link, timing: &mut Timing) {
    let path = manifest::state_path(link.args);
    if let Some(state) = path.ok().and_then(|path| State::open(&path)) {
        compare(link, &state, timing);
    }
}

fn compare(link: Link, state: &State, timing: &mut Timing) {
    let files: &[FileRecord] = state.table(Table::Files);
    let alone = (0..)
        .zip(files)
        .filter(|(_, file)| file.bits & file::ALONE != 0);
    let alone: Vec<u32> = alone.map(|(number, _)| number).collect();
    let failed = match link_again(link, state, &alone, How::Compare, timing) {
        Ok(Step::Done(_)) => return,
        Ok(Step::More(_)) => "something would move".into(),
        Err(why) => why,
    };
    let output = link.args.output.display();
    link.diag
        .error(format!("{output}: --verify-incremental: {failed}"));
}

/// What is done with what the files are now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// The output is changed.
    Change,
    /// The output must be so already.
    Compare,
}

/// What became of an attempt.
enum Step {
    /// Others must be linked again, too: all of them.
    More(Vec<u32>),
    /// The output is changed.
    Done(Box<Changes>),
}

/// What the state must be told.
#[derive(Default)]
struct Changes {
    stamps: Vec<(u32, Stamp)>,
    files: Vec<FileChange>,
    names: Vec<(NameAt, NameRecord)>,
    new_names: Vec<NameRecord>,
    mentions: Vec<(NameMention, u32)>,
    pieces: Vec<AddedPiece>,
    groups: Vec<GroupRecord>,
    /// By part that has new chunks: where the next one would go.
    next: Vec<(u32, u64)>,
    facts: Option<Facts>,
    digests: Vec<ChunkDigest>,
}

/// Of which name there is a new mention.
#[derive(Clone, Copy)]
enum NameMention {
    Known(NameAt),
    /// Index among the new names.
    New(usize),
}

struct FileChange {
    file: u32,
    record: FileRecord,
    chunks: Vec<ChunkRecord>,
    places: Vec<PlaceRecord>,
}

impl Changes {
    /// Writes it down. `None` if there is no space.
    fn apply(self, state: &mut State) -> Option<()> {
        for (input, stamp) in self.stamps {
            state
                .record_mut::<InputRecord>(Table::Inputs, input as usize)?
                .stamp = stamp;
        }
        for change in self.files {
            let chunks = [state.add(&change.chunks)?, change.chunks.len() as u64];
            let places = [state.add(&change.places)?, change.places.len() as u64];
            let record = state.record_mut::<FileRecord>(Table::Files, change.file as usize)?;
            *record = FileRecord {
                chunks,
                places,
                ..change.record
            };
        }
        for (part, next) in self.next {
            let part = state.record_mut::<PartRecord>(Table::Parts, part as usize)?;
            part.next = next;
        }
        if let Some(facts) = self.facts {
            state.header_mut().facts = facts;
        }
        for (at, record) in self.names {
            match at {
                NameAt::Table(index) => {
                    *state.record_mut::<NameRecord>(Table::Names, index as usize)? = record;
                }
                NameAt::Added(at) => state.set_new_name(at, record)?,
            }
        }
        let mut new_names = Vec::new();
        for record in self.new_names {
            let next = state.header().new_names;
            let at = state.add(&[NewName { record, next }])?;
            state.header_mut().new_names = at;
            new_names.push(at);
        }
        for (name, file) in self.mentions {
            let next = state.header().new_mentions;
            let name = match name {
                NameMention::Known(NameAt::Table(index)) => index.into(),
                NameMention::Known(NameAt::Added(at)) => at | ADDED,
                NameMention::New(index) => new_names.get(index)? | ADDED,
            };
            let mention = NewMention {
                name,
                next,
                file,
                padding: 0,
            };
            let at = state.add(&[mention])?;
            state.header_mut().new_mentions = at;
        }
        for piece in self.pieces {
            let record = PieceRecord {
                hash: hash_piece(&piece.bytes),
                part: piece.part,
                offset: u32::try_from(piece.offset).ok()?,
            };
            let next = state.header().new_pieces;
            let at = state.add(&[NewPiece { record, next }])?;
            state.header_mut().new_pieces = at;
            let part = state.record_mut::<PartRecord>(Table::Parts, piece.part as usize)?;
            part.next = part.next.max(piece.offset + piece.bytes.len() as u64);
        }
        for (index, digest) in self.digests.into_iter().enumerate() {
            *state.record_mut::<ChunkDigest>(Table::Digests, index)? = digest;
        }
        for record in self.groups {
            let next = state.header().new_groups;
            let at = state.add(&[NewGroup { record, next }])?;
            state.header_mut().new_groups = at;
        }
        Some(())
    }
}

/// Links some files again, given by their numbers in the state.
fn link_again(
    link: Link,
    state: &State,
    ids: &[u32],
    how: How,
    timing: &mut Timing,
) -> Result<Step, Reason> {
    let damaged = || Reason::from("the state is damaged");
    let args = link.args;
    let old = std::fs::File::open(&args.output).map_err(|why| Reason::from(why.to_string()))?;
    // SAFETY: the output is looked at before it is changed, and who changes it meanwhile has taken it away first.
    let old = unsafe { Mmap::map(&old) }.map_err(|why| Reason::from(why.to_string()))?;
    let world = World::new(state, &old);
    let mut records = records_of(state, ids)?;
    let arena = InputArena::default();
    // Messages are the full link's to give.
    let diag = Diagnostics::new(DiagOptions::from_args(args));
    let refused = |diag: &Diagnostics| match diag.has_errors() || diag.warning_count() > 0 {
        true => Err(Reason::from(format!(
            "a changed object has {}",
            first_message(diag)
        ))),
        false => Ok(()),
    };

    // Read them, as their sections and names are numbered in any link.
    // A full link may come yet, and there is one choice of how many threads there are.
    link.host.opened(old.len() as u64);
    let mut files = inputs::open_alone(&arena, args, &paths(state, &records), &diag);
    refused(&diag)?;
    check_kinds(&files, &records)?;
    let linked = vec![true; files.0.len()];
    let symbols = link_names::intern(args, &mut files, Mentioned::All, &diag)
        .map_err(|_| "a changed object is not like the others")?;
    if symbols.has_versions() {
        return Err("a changed object has versions of symbols".into());
    }
    let (lost, new_groups) = lose_groups(&world, &files, &symbols, ids)?;
    link_names::complete(&mut files, &linked, &lost, &diag);
    let files = files;
    let mut outputs = Outputs::default();
    if args.z.rodynamic {
        outputs.make_dynamic_read_only();
    }
    let (mut sections, facts) = Sections::build(
        &files,
        &linked,
        Unloaded::from_args(args),
        None,
        &mut outputs,
        &diag,
    );
    if args.z.keep_text_section_prefix {
        sections.keep_text_prefixes(&files, &mut outputs);
    }
    let sections = sections;
    refused(&diag)?;
    check_facts(&files, &facts, &records)?;

    // Their own definitions, and what the state says of all others.
    resolve::discard_groups(&files, &lost, &sections, &diag);
    resolve::define(&files, &symbols, &sections);
    let names = Names::settle(&world, &files, &symbols, ids, &diag)?;
    let (definitions, duplicates) = resolve::publish(&files, &symbols, &sections, &diag);
    if !duplicates.is_empty() || !definitions.commons.is_empty() {
        return Err("a definition is there twice".into());
    }
    names.add_flags(&symbols, &diag)?;
    let frames = Frames::parse(&files, &sections, &facts.frames, &diag);
    refused(&diag)?;

    // What of them is in the output, and what that needs.
    let bits = state.header().facts.bits;
    let mode = Mode {
        pic: bits & fact::PIC != 0,
        shared: bits & fact::SHARED != 0,
        relax: bits & fact::RELAX != 0,
        pack: false,
    };
    let used = UsedPieces::new(&files);
    let bounded = bounded(&world, &outputs);
    let needs = Tracer {
        pieces: &used,
        files: &files,
        symbols: &symbols,
        definitions: &definitions,
        sections: &sections,
        frames: &frames,
        mode,
        gc: args.gc_sections,
        groups: match args.gc_sections {
            true => Groups::find(&files, &sections),
            false => Groups::default(),
        },
        prune: bits & fact::PRUNE != 0,
        link_order: &facts.link_order,
        bounded: &bounded,
        text: args.z.text,
        allow_copies: args.z.copyreloc,
        allow_protected_copies: args.z.extern_protected_data,
        report_relative: false,
        diag: &diag,
    }
    .run(&roots(&names));
    refused(&diag)?;
    check_needs(&needs, &records, state)?;
    names.check_needs(&symbols, &diag)?;
    check_references(&files, &sections, &symbols, &names, &diag)?;
    let got = names.got(state, &symbols);

    // Where it goes: pieces to their like, sections to where they were.
    let parts: &[PartRecord] = state.table(Table::Parts);
    let mut missing = None;
    let MergedPieces {
        merged,
        classes,
        repository: pieces,
        input_of,
    } = merge_pieces(
        &files,
        &sections,
        &mut outputs,
        &used,
        &mut |merged, classes, outputs| {
            missing = settle_pieces(&world, merged, classes, outputs).err();
        },
    )
    .map_err(|_| "pieces cannot be merged")?;
    if let Some(why) = missing {
        return Err(why);
    }
    let part_of = take_addresses(state, &mut outputs)?;
    let placing = Placing {
        state,
        files: &files,
        sections: &sections,
        outputs: &outputs,
        part_of: &part_of,
    };
    let mut placed = placing.run(&records, input_of)?;
    let folds = Folds::new(sections.count());
    let starts = Starts::new(&sections, &placed.placement, &outputs);
    let header = state.header();
    let segments = Segments {
        phdrs: Vec::new(),
        sections: Vec::new(),
        shoff: 0,
        file_size: 0,
        tls: Some(TlsSegment {
            start: header.facts.tls_start,
            thread_pointer: header.facts.thread_pointer,
        }),
        image_base: header.facts.image_base,
        wrapped: None,
    };
    let mut frame_layout = frames.layout(&files, &symbols, &sections, Room::NONE);
    check_frames(&frames, &frame_layout, &records)?;
    for (offset, record) in frame_layout.file_offsets.iter_mut().skip(1).zip(&records) {
        *offset = record.frames[0];
    }
    let linker_symbols = LinkerSymbols::new();
    let frame_offsets = frame_layout.file_offsets.clone();
    let places = Places {
        files: &files,
        symbols: &symbols,
        definitions: &definitions,
        sections: &sections,
        folds: &folds,
        placement: &placed.placement,
        starts: &starts,
        outputs: &outputs,
        merged: &merged,
        pieces: &pieces,
        got: &got,
        linker_symbols: &linker_symbols,
        assigned: &[],
        segments: &segments,
        frame_offsets: &frame_offsets,
        ibt: bits & fact::IBT != 0,
        static_irelative: header.facts.static_irelative,
    };
    let values = values(&places, &names);

    // Whoever refers to what has moved is linked again with it.
    if let Some(more) = referrers(link, &world, &places, &names, &values, ids)? {
        let all: &[FileRecord] = state.table(Table::Files);
        enough(all, &more)?;
        let is_alone = |file: &u32| {
            all.get(*file as usize)
                .is_some_and(|file| file.bits & file::ALONE != 0)
        };
        return match more.iter().all(is_alone) {
            true => Ok(Step::More(more)),
            false => Err("a member of an archive refers to what has moved".into()),
        };
    }

    // Everything is known. A writer as that of a full link writes it.
    let retained = Retained::read(args, &diag);
    let chooser = Chooser {
        files: &files,
        symbols: &symbols,
        definitions: &definitions,
        sections: &sections,
        folds: &folds,
        args,
        retained: retained.as_ref(),
    };
    let symtab = match bits & fact::SYMTAB {
        0 => None,
        _ => chooser.layout(Room::NONE),
    };
    let mut facts_now = header.facts;
    let symbols_moved = match &symtab {
        Some(symtab) => settle_symbols(state, symtab, &mut records, &mut facts_now)?,
        None => Vec::new(),
    };
    let dynamic: FxHashMap<SymbolId, u32> = {
        let index = |known: &Known| Some((known.symbol, known.record?.dynamic));
        names.list.iter().filter_map(index).collect()
    };
    let too_far = AtomicBool::new(false);
    let made = Made {
        places: &places,
        values: &values,
        mode,
        args,
        dynamic: None,
        dynamic_entries: Vec::new(),
        interpreter: b"",
        properties: b"",
        package: b"",
        build_id_len: None,
        section_names: StringTable::new(),
        sframe: None,
        relr_table: &[],
        symtab: symtab.as_ref(),
        entry: 0,
        sizes: vec![0; outputs.sections.len()],
        joined_strings: b"",
        diag: &diag,
    };
    let position = Position::default();
    let dynamic_index = |id: SymbolId| dynamic.get(&id).copied().unwrap_or(0);
    let mut writer = Writer {
        places: &places,
        relocator: Relocator {
            places: &places,
            values: &values,
            mode,
            dynamic_index: &dynamic_index,
            check_overflow: args.z.reloc_overflow_check,
            too_far: &too_far,
            diag: &diag,
        },
        frames: &frames,
        frame_layout: &frame_layout,
        merge_classes: &classes,
        needs: &needs,
        made: &made,
        symtab: symtab.as_ref(),
        chooser,
        zeroed: false,
        position: &position,
    };
    let cies = find_cies(state, &old, &outputs, &writer, &frame_layout)?;
    let mut with_cies = FrameLayout {
        cies: Vec::new(),
        ..frame_layout.clone()
    };
    for offset in with_cies.cie_offsets.iter_mut().flatten() {
        if *offset != u32::MAX {
            *offset = *cies.get(offset).ok_or_else(damaged)?;
        }
    }
    writer.frame_layout = &with_cies;
    timing.phase("link again");

    // Take the output, and change it.
    let size = old.len() as u64;
    let mut copy = Vec::new();
    let mut output = match how {
        How::Change => {
            let output = OutputFile::reopen(&args.output, size);
            let name = args.output.display();
            Some(output.map_err(|why| Reason::from(format!("cannot change {name}: {why}")))?)
        }
        How::Compare => {
            copy = old.to_vec();
            None
        }
    };
    timing.phase("open output");
    let mut patch = Patch::new(match &mut output {
        Some(output) => output.bytes(),
        None => &mut copy,
    });
    write(&writer, &mut patch, &placed, &records, &outputs)?;
    for (part, offset, size) in placed.rests.values().chain(&placed.left) {
        let output = &outputs.sections[outputs.parts[part.index()].output.index()];
        let room = patch
            .bytes(output.offset + offset, *size)
            .ok_or_else(damaged)?;
        Filler::of(&output.name).unwrap_or(Filler::Zeros).fill(room);
    }
    for piece in &world.take_new_pieces() {
        let part = parts.get(piece.part as usize).ok_or_else(damaged)?;
        let section: &[OutputRecord] = state.table(Table::Outputs);
        let section = section.get(part.output as usize).ok_or_else(damaged)?;
        let at = section.offset + part.offset + piece.offset;
        let bytes = patch
            .bytes(at, piece.bytes.len() as u64)
            .ok_or_else(damaged)?;
        bytes.copy_from_slice(&piece.bytes);
        placed.pieces.push(piece.clone());
    }
    if bits & fact::SYMTAB != 0 {
        finish_symbols(&mut patch, &outputs, &facts_now, &symbols_moved).ok_or_else(damaged)?;
    }
    update_dynamic(&mut patch, &outputs, &places, &values, &names)?;
    refused(&diag)?;
    if too_far.load(Relaxed) {
        return Err("a section is too far away".into());
    }
    let mut digests: Vec<ChunkDigest> = state.table(Table::Digests).to_vec();
    // The id of a comparison would only say that something is not the same.
    if how == How::Change {
        patch
            .write_build_id(&mut digests, header.facts.build_id)
            .ok_or_else(damaged)?;
    }
    timing.phase("write");
    let Some(output) = output else {
        return match copy.iter().zip(&old[..]).position(|(now, was)| now != was) {
            None => Ok(Step::Done(Box::default())),
            Some(at) => Err(format!("the output is another at {at:#x}").into()),
        };
    };
    output
        .commit()
        .map_err(|why| Reason::from(format!("cannot write {}: {why}", args.output.display())))?;
    timing.phase("commit output");
    let mut changes = Changes {
        pieces: std::mem::take(&mut placed.pieces),
        digests,
        groups: new_groups,
        ..Changes::default()
    };
    changes.note_names(&world, &places, &names, &values, &files, ids);
    changes.next = placed.next.into_iter().collect();
    changes.facts = Some(facts_now);
    for ((id, record), of_file) in ids.iter().zip(&records).zip(placed.files) {
        changes.files.push(FileChange {
            file: *id,
            record: *record,
            chunks: of_file.chunks,
            places: of_file.places,
        });
    }
    Ok(Step::Done(Box::new(changes)))
}

/// What was said first.
fn first_message(diag: &Diagnostics) -> String {
    let mut text = Vec::new();
    let _ = diag.flush(&mut text);
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or("an error").to_owned()
}

fn records_of(state: &State, ids: &[u32]) -> Result<Vec<FileRecord>, Reason> {
    let records: &[FileRecord] = state.table(Table::Files);
    let record = |id: &u32| records.get(*id as usize).copied();
    let found: Option<Vec<FileRecord>> = ids.iter().map(record).collect();
    found.ok_or_else(|| "the state is damaged".into())
}

fn paths(state: &State, records: &[FileRecord]) -> Vec<(PathBuf, bool)> {
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    let path = |record: &FileRecord| {
        let input = inputs.get(record.input as usize);
        let path = input.map(|input| manifest::path_of(state, input).to_owned());
        (path.unwrap_or_default(), record.bits & file::EXCLUDED != 0)
    };
    records.iter().map(path).collect()
}

/// Each must be an object, as it was.
fn check_kinds(files: &Files, records: &[FileRecord]) -> Result<(), Reason> {
    if files.0.len() != records.len() + 1 {
        return Err("a changed object is none any more".into());
    }
    for (_, file) in files.iter().skip(1) {
        match file.object() {
            Some(Object::Elf(elf)) if elf.intermediate => {
                return Err(format!("{file} holds intermediate code").into());
            }
            Some(_) => {}
            None => return Err(format!("{file} is no object any more").into()),
        }
    }
    Ok(())
}

/// Of the groups of the files those lose that are linked of another file. One that nobody had is the first file's. With them
/// come those that are new.
fn lose_groups(
    world: &World,
    files: &Files,
    symbols: &SymbolTable,
    ids: &[u32],
) -> Result<(LostGroups, Vec<GroupRecord>), Reason> {
    let mut lost = vec![Vec::new()];
    let mut new: FxHashMap<&[u8], u32> = FxHashMap::default();
    for (own, id) in files.ids().skip(1).zip(ids) {
        let mut of_file = Vec::new();
        let groups = files.object(own).groups();
        let groups = groups.map_err(|why| Reason::from(why.to_string()))?;
        for group in groups.into_iter().filter(|group| group.comdat) {
            let text = capture::signature(files, symbols, own, group.signature)
                .ok_or("a group has no signature")?;
            let owner = world
                .owner(text)
                .unwrap_or_else(|| *new.entry(text).or_insert(*id));
            if owner != *id {
                of_file.push(group.index);
            }
        }
        lost.push(of_file);
    }
    let record = |(text, owner): (&[u8], u32)| GroupRecord {
        key: key_of(text),
        owner,
        padding: 0,
    };
    let new = new.into_iter().map(record).collect();
    Ok((LostGroups::known(lost), new))
}

/// What is said beside the sections must be as it was.
fn check_facts(files: &Files, facts: &SectionFacts, records: &[FileRecord]) -> Result<(), Reason> {
    if !facts.warnings.is_empty() || !facts.link_order.is_empty() || !facts.sframes.is_empty() {
        return Err("a changed object has sections that only a full link places".into());
    }
    for (own, record) in files.ids().skip(1).zip(records) {
        let executable = facts.executable_stack.contains(&own);
        let notes = facts.properties.iter().find(|(id, _)| *id == own);
        let notes = notes.map_or([0; 2], |(_, notes)| {
            capture::notes_digest(Some(files.object(own)), notes)
        });
        if executable != (record.bits & file::EXECUTABLE_STACK != 0) || notes != record.notes {
            return Err(format!("{} has other properties", files.get(own)).into());
        }
    }
    Ok(())
}

/// The definitions that were in the output stay there: somebody may refer to them.
fn roots(names: &Names) -> Vec<SymbolId> {
    let is_root = |known: &&Known| {
        known.own.is_some() && known.record.is_some_and(|record| record.is_placed != 0)
    };
    names
        .list
        .iter()
        .filter(is_root)
        .map(|known| known.symbol)
        .collect()
}

/// By part: whether somebody walks over all sections in it.
fn bounded(world: &World, outputs: &Outputs) -> Vec<bool> {
    let walked = [Std::PreinitArray, Std::InitArray, Std::FiniArray];
    let is_bounded = |part: &crate::output::Part| {
        let name = &outputs.sections[part.output.index()].name;
        walked.iter().any(|std| std.id() == part.output)
            || [&b"__start_"[..], b"__stop_"]
                .iter()
                .any(|prefix| world.name(&[prefix, &name[..]].concat()).is_some())
    };
    outputs.parts.iter().map(is_bounded).collect()
}

/// Sections need as many dynamic relocations as before, and nothing that was not there.
fn check_needs(needs: &Needs, records: &[FileRecord], state: &State) -> Result<(), Reason> {
    let facts = &state.header().facts;
    let is_missing = !needs.undefined.is_empty()
        || !needs.locals.is_empty()
        || !needs.packed.is_empty()
        || needs.text_relocations.load(Relaxed)
        || needs.tls_module.load(Relaxed) && facts.got_module == got::NONE
        || needs.static_tls.load(Relaxed) && facts.bits & fact::SHARED != 0
        || needs.got_base.load(Relaxed);
    if is_missing {
        return Err("a changed object needs what only a full link makes".into());
    }
    for (counts, record) in needs.dynamic.iter().skip(1).zip(records) {
        let now = [
            counts.relative.load(Relaxed),
            counts.symbolic.load(Relaxed),
            counts.irelative.load(Relaxed),
        ];
        if now != [record.relative, record.symbolic, record.irelative] {
            return Err("a changed object has another number of dynamic relocations".into());
        }
    }
    Ok(())
}

/// What is in the output may only refer to what is, too.
fn check_references(
    files: &Files,
    sections: &Sections,
    symbols: &SymbolTable,
    names: &Names,
    diag: &Diagnostics,
) -> Result<(), Reason> {
    use crate::arch::x86_64::reloc::{R_X86_64_SIZE32, R_X86_64_SIZE64};
    for (own, file) in files.iter().skip(1) {
        let object = files.object(own);
        for (number, section) in (0..).zip(sections.of_file(own)) {
            let id = SectionId(section);
            let relocations = sections.relocations[id.index()];
            let is_read =
                sections.is_alive(id) || sections.state(id) & section_state::EH_FRAME != 0;
            if relocations == 0 || !is_read {
                continue;
            }
            let mut why = None;
            object.fixups(number, relocations).for_each(|fixup| {
                if matches!(fixup.r_type, R_X86_64_SIZE32 | R_X86_64_SIZE64) {
                    why = Some("the size of a symbol is asked for".to_owned());
                }
                let Target::Symbol(index) = fixup.target else {
                    return;
                };
                if index < object.first_global() {
                    return;
                }
                let symbol = symbols.of(file, index);
                let Some(known) = names.of(symbol) else {
                    return;
                };
                let is_there =
                    known.own.is_some() || known.record.is_some_and(|record| record.is_placed != 0);
                if !is_there {
                    let name = diag.show_name(symbols.name(symbol));
                    why = Some(format!("{name} was left out"));
                }
            });
            if let Some(why) = why {
                return Err(why.into());
            }
        }
    }
    Ok(())
}

/// Gives merged pieces the places that equal pieces have, or new ones.
fn settle_pieces(
    world: &World,
    merged: &crate::merge::Merged,
    classes: &crate::layout::MergeClasses,
    outputs: &Outputs,
) -> Result<(), Reason> {
    let parts: &[PartRecord] = world.state.table(Table::Parts);
    let sections: &[OutputRecord] = world.state.table(Table::Outputs);
    for (number, class) in classes.iter().enumerate() {
        let Some(class) = class else { continue };
        let part = find_part(world.state, outputs, PartId(number as u32))?;
        let record = parts.get(part as usize).ok_or("the state is damaged")?;
        let section = sections
            .get(record.output as usize)
            .ok_or("the state is damaged")?;
        let start = section.offset + record.offset;
        let mut moved: FxHashMap<u64, u64> = FxHashMap::default();
        let mut is_full = false;
        merged.for_each_piece(*class, &mut |offset, bytes, align| {
            let known = world.piece(part, start, bytes, align);
            let place =
                known.or_else(|| world.add_piece(part, record.next, record.size, bytes, align));
            match place {
                Some(place) => _ = moved.insert(offset, place),
                None => is_full = true,
            }
        });
        if is_full {
            return Err("there is no room for more strings or constants".into());
        }
        merged.move_pieces(*class, &|offset| {
            moved.get(&offset).copied().unwrap_or(offset)
        });
    }
    Ok(())
}

/// The number that a part of this link has in the state.
fn find_part(state: &State, outputs: &Outputs, part: PartId) -> Result<u32, Reason> {
    let parts: &[PartRecord] = state.table(Table::Parts);
    let sections: &[OutputRecord] = state.table(Table::Outputs);
    let own = &outputs.parts[part.index()];
    let output = &outputs.sections[own.output.index()];
    let wanted = capture::describe_part(own);
    let is_it = |record: &PartRecord| {
        let section = sections.get(record.output as usize);
        let is_standard = own.output.0 < crate::output::STANDARD_COUNT;
        let same_output = section.is_some_and(|section| match is_standard {
            true => section.id == own.output.0,
            false => state.text(section.name, section.name_len) == &*output.name,
        });
        same_output
            && (record.order, record.merge, record.entsize, record.sort)
                == (wanted.order, wanted.merge, wanted.entsize, wanted.sort)
    };
    let mut found = (0..).zip(parts).filter(|(_, record)| is_it(record));
    match (found.next(), found.next()) {
        (Some((number, _)), None) => Ok(number),
        (Some((number, _)), Some(_))
            if number == part.0 && number < crate::output::STANDARD_COUNT =>
        {
            Ok(number)
        }
        _ => {
            let name = String::from_utf8_lossy(&output.name);
            Err(format!("the output has no one section {name} of this kind").into())
        }
    }
}

/// Gives the output sections the addresses that they have. Gives, by part, its number in the state.
fn take_addresses(state: &State, outputs: &mut Outputs) -> Result<Vec<u32>, Reason> {
    let sections: &[OutputRecord] = state.table(Table::Outputs);
    let parts: &[PartRecord] = state.table(Table::Parts);
    let mut numbers = vec![NONE; outputs.parts.len()];
    for (index, number) in numbers.iter_mut().enumerate() {
        let part = PartId(index as u32);
        // Parts that nothing of the files is in need not be there.
        let Ok(found) = find_part(state, outputs, part) else {
            continue;
        };
        *number = found;
        let record = parts
            .get(found as usize)
            .and_then(|part| sections.get(part.output as usize))
            .ok_or("the state is damaged")?;
        let output = outputs.parts[index].output;
        let section = &mut outputs.sections[output.index()];
        (section.sh_type, section.flags) = (record.sh_type, record.flags);
        (section.address, section.offset) = (record.address, record.offset);
        (section.size, section.header) = (record.size, record.header);
    }
    Ok(numbers)
}

/// Makes room in the symbol table for what the files have in it now. Gives the places that a file has left, each with where
/// a symbol of that file is that may stand there instead.
fn settle_symbols(
    state: &State,
    symtab: &SymtabLayout,
    records: &mut [FileRecord],
    facts: &mut Facts,
) -> Result<Vec<LeftSymbols>, Reason> {
    let outputs: &[OutputRecord] = state.table(Table::Outputs);
    let find = |std: Std| {
        let found = outputs.iter().find(|output| output.id == std.id().0);
        found.ok_or_else(|| Reason::from("the state is damaged"))
    };
    let (table, strings) = (find(Std::Symtab)?, find(Std::Strtab)?);
    let mut left = Vec::new();
    for (share, record) in symtab.shares.iter().skip(1).zip(records) {
        if share.locals > record.locals {
            return Err("a changed object has more local symbols than there is room for".into());
        }
        if share.globals == 0 && record.globals > 0 {
            return Err("a changed object has no global symbols any more".into());
        }
        if share.globals > record.globals {
            let now = table.offset + 24 * facts.symbols;
            if record.globals > 0 {
                left.push(LeftSymbols {
                    at: record.globals_at,
                    count: record.globals,
                    now,
                });
            }
            (record.globals_at, record.globals) = (now, share.globals);
            facts.symbols += u64::from(share.globals);
        }
        if share.names > record.names[1] {
            record.names = [facts.strings, share.names];
            facts.strings += share.names;
        }
    }
    match 24 * facts.symbols > table.size || facts.strings > strings.size {
        true => Err("there is no room for more symbols".into()),
        false => Ok(left),
    }
}

/// Places in the symbol table that a file has left for others.
struct LeftSymbols {
    /// File offset.
    at: u64,
    count: u32,
    /// Where the file's symbols are now.
    now: u64,
}

/// Brings the sizes of the symbol table up to date, and fills what files have left in it.
fn finish_symbols(
    patch: &mut Patch,
    outputs: &Outputs,
    facts: &Facts,
    left: &[LeftSymbols],
) -> Option<()> {
    for LeftSymbols { at, count, now } in left {
        let symbol: [u8; 24] = (*patch.bytes(*now, 24)?).try_into().ok()?;
        for slot in patch
            .bytes(*at, 24 * u64::from(*count))?
            .chunks_exact_mut(24)
        {
            slot.copy_from_slice(&symbol);
        }
    }
    let sizes = [
        (Std::Symtab, 24 * facts.symbols),
        (Std::Strtab, facts.strings),
    ];
    for (std, size) in sizes {
        let header = u64::from(outputs.std(std).header);
        if header != 0 {
            let at = facts.section_headers + 64 * header + 32;
            patch.bytes(at, 8)?.copy_from_slice(&size.to_le_bytes());
        }
    }
    Some(())
}

/// The frame descriptions must fit in.
fn check_frames(
    frames: &Frames,
    layout: &FrameLayout,
    records: &[FileRecord],
) -> Result<(), Reason> {
    let offsets = &layout.file_offsets;
    for (index, record) in records.iter().enumerate() {
        let file = index + 1;
        let end = offsets.get(file + 1).copied().unwrap_or(layout.end);
        let size = end.saturating_sub(offsets[file]);
        if size > record.frames[1] || (size == 0) != (record.frames[1] == 0) {
            return Err("the frame descriptions have outgrown their room".into());
        }
        if frames.of(FileId(file as u32)).terminator {
            return Err("a changed object ends all frame descriptions".into());
        }
    }
    Ok(())
}

/// All symbols as references see them.
fn values(places: &Places, names: &Names) -> Vec<SymbolValue> {
    let mut values = places.symbol_values();
    for known in &names.list {
        let value = &mut values[known.symbol.index()];
        match (known.own, known.record) {
            (None, Some(record)) => {
                *value = SymbolValue {
                    address: record.address,
                    flags: record.flags,
                    got: record.got,
                };
            }
            (Some(_), Some(record)) if record.flags & flag::CANONICAL_PLT != 0 => {
                value.address = record.address;
            }
            _ => {}
        }
    }
    values
}

/// All files that must be linked again because what they refer to has moved, if there are more of them than these.
fn referrers(
    link: Link,
    world: &World,
    places: &Places,
    names: &Names,
    values: &[SymbolValue],
    ids: &[u32],
) -> Result<Option<Vec<u32>>, Reason> {
    let mut more: Vec<u32> = Vec::new();
    let args = link.args;
    let special = [entry_name(args), &args.init[..], &args.fini[..]];
    for known in names.list.iter().filter(|known| known.own.is_some()) {
        let (Some(record), Some(at)) = (known.record, known.at) else {
            continue;
        };
        let now = values[known.symbol.index()].address;
        if now == record.address {
            continue;
        }
        let name = places.symbols.name(known.symbol);
        if record.slots != got::NONE || special.contains(&name) || record.flags & flag::IFUNC != 0 {
            let name = link.diag.show_name(name);
            return Err(format!("{name} has moved, and has slots or entries of tables").into());
        }
        more.extend(world.mentioning(at));
    }
    more.retain(|file| !ids.contains(file));
    if more.is_empty() {
        return Ok(None);
    }
    more.extend_from_slice(ids);
    more.sort_unstable();
    more.dedup();
    Ok(Some(more))
}

/// Finds the common information entries of the files among those of the output: their offsets there, by their offsets here.
fn find_cies(
    state: &State,
    old: &[u8],
    outputs: &Outputs,
    writer: &Writer,
    layout: &FrameLayout,
) -> Result<FxHashMap<u32, u32>, Reason> {
    let known: &[CieRecord] = state.table(Table::Cies);
    let section = outputs.std(Std::EhFrame);
    let mut found = FxHashMap::default();
    for cie in &layout.cies {
        let is_it = |record: &&CieRecord| {
            let start = (section.offset + u64::from(record.offset)) as usize;
            let there = old.get(start..start.saturating_add(record.size as usize));
            there.is_some_and(|there| there == writer.cie_bytes(cie, record.offset))
        };
        let there = known.iter().find(is_it);
        let there = there.ok_or("a changed object has frame descriptions of a new kind")?;
        found.insert(cie.offset, there.offset);
    }
    Ok(found)
}

/// Writes the files' parts of the output, and their rows of the table of frames.
fn write(
    writer: &Writer,
    patch: &mut Patch,
    placed: &PlacedAgain,
    records: &[FileRecord],
    outputs: &Outputs,
) -> Result<(), Reason> {
    let damaged = || Reason::from("the state is damaged");
    let frames = outputs.std(Std::EhFrame);
    let strings = outputs.std(Std::Strtab);
    let relocations = outputs.std(Std::RelaDyn);
    let (mut rows, mut ranges) = (Vec::new(), Vec::new());
    for (index, record) in records.iter().enumerate() {
        let regions = Regions {
            frames: (
                frames.offset.wrapping_add(record.frames[0]),
                record.frames[1],
            ),
            locals: (record.locals_at, record.locals),
            globals: (record.globals_at, record.globals),
            names: (
                strings.offset.wrapping_add(record.names[0]),
                record.names[1],
            ),
            relative: (record.relative_at, record.relative),
            symbolic: record.symbolic,
            irelative: (record.irelative_at, record.irelative),
        };
        let chunks = placed.files[index].range.clone();
        patch.touch(regions.frames.0, regions.frames.1);
        patch.touch(regions.locals.0, 24 * u64::from(regions.locals.1));
        patch.touch(regions.globals.0, 24 * u64::from(regions.globals.1));
        patch.touch(regions.names.0, regions.names.1);
        patch.touch(regions.relative.0, 24 * u64::from(regions.relative.1));
        patch.touch(regions.irelative.0, 24 * u64::from(regions.irelative.1));
        for number in chunks.clone() {
            let chunk = &placed.placement.chunks[number as usize];
            let section = &outputs.sections[outputs.parts[chunk.part.index()].output.index()];
            if !section.is_nobits() {
                patch.touch(section.offset + chunk.offset, chunk.size);
            }
        }
        let mut symbolic = vec![Rela::new(0, 0, 0, 0); record.symbolic as usize];
        let file = FileId(index as u32 + 1);
        let table = writer
            .write_again(file, &regions, chunks, &mut symbolic, patch.image)
            .ok_or_else(damaged)?;
        rows.extend(table);
        let start = frames.address.wrapping_add(record.frames[0]);
        ranges.push(start..start.wrapping_add(record.frames[1]));
        if !symbolic.is_empty() {
            let range =
                relocations.offset as usize..(relocations.offset + relocations.size) as usize;
            let table: &[Rela] = patch
                .image
                .get(range)
                .and_then(|bytes| bytemuck::try_cast_slice(bytes).ok())
                .ok_or_else(damaged)?;
            if !patch::has_all(table, &symbolic) {
                return Err("a changed object has other dynamic relocations".into());
            }
        }
    }
    let header = outputs.std(Std::EhFrameHdr);
    if header.size > 0 && writer.made.args.eh_frame_hdr {
        let address = header.address;
        let table = patch
            .bytes(header.offset, header.size)
            .ok_or_else(damaged)?;
        patch::replace_rows(table, address, &ranges, rows)?;
    }
    Ok(())
}

/// Brings the dynamic symbols up to date that the files define.
fn update_dynamic(
    patch: &mut Patch,
    outputs: &Outputs,
    places: &Places,
    values: &[SymbolValue],
    names: &Names,
) -> Result<(), Reason> {
    let table = outputs.std(Std::DynSym);
    for known in names.list.iter().filter(|known| known.own.is_some()) {
        let Some(index) = known
            .record
            .map(|record| record.dynamic)
            .filter(|index| *index != 0)
        else {
            continue;
        };
        let now = symtab::defined_symbol(places, values, known.symbol);
        let entry = patch.bytes(table.offset + 24 * u64::from(index), 24);
        let entry: Option<&mut Sym> =
            entry.and_then(|entry| bytemuck::try_from_bytes_mut(entry).ok());
        let (Some(now), Some(entry)) = (now, entry) else {
            return Err("the state is damaged".into());
        };
        if !patch::update_dynamic_symbol(entry, &now) {
            return Err("a dynamic symbol is of another kind".into());
        }
    }
    Ok(())
}

impl Changes {
    /// What the names mean now, and who mentions them newly.
    fn note_names(
        &mut self,
        world: &World,
        places: &Places,
        names: &Names,
        values: &[SymbolValue],
        files: &Files,
        ids: &[u32],
    ) {
        let mut new_at: FxHashMap<SymbolId, usize> = FxHashMap::default();
        for known in &names.list {
            let value = values[known.symbol.index()];
            match (known.at, known.record) {
                (Some(at), Some(old)) => {
                    let mut record = old;
                    if known.own.is_some() {
                        record.address = value.address;
                    }
                    record.flags |= value.flags & (flag::REFERENCED | flag::REFERENCED_STRONGLY);
                    if known.own.is_some() {
                        record.is_placed = is_placed(places, known.symbol).into();
                    }
                    if record != old {
                        self.names.push((at, record));
                    }
                }
                _ => {
                    let Some(own) = known.own else { continue };
                    new_at.insert(known.symbol, self.new_names.len());
                    self.new_names.push(NameRecord {
                        key: key_of(places.symbols.name(known.symbol)),
                        address: value.address,
                        flags: value.flags,
                        got: got::NONE,
                        slots: got::NONE,
                        definer: ids[own.index() - 1],
                        dynamic: 0,
                        rank: places.symbols.key(known.symbol).rank() as u16,
                        is_placed: is_placed(places, known.symbol).into(),
                    });
                }
            }
        }
        for at in &names.gone {
            if let NameAt::Table(index) = at
                && let Some(record) = world.name_at(*index)
            {
                let record = NameRecord {
                    definer: NONE,
                    rank: rank::NONE as u16,
                    is_placed: 0,
                    ..*record
                };
                self.names.push((*at, record));
            }
        }
        for ((_, file), id) in files.iter().skip(1).zip(ids) {
            for index in file.first_global()..file.symbol_count() {
                let symbol = places.symbols.of(file, index);
                let Some(known) = names.of(symbol) else {
                    continue;
                };
                match known.at {
                    Some(at) if !world.mentioning(at).contains(id) => {
                        self.mentions.push((NameMention::Known(at), *id));
                    }
                    Some(_) => {}
                    None => {
                        if let Some(new) = new_at.get(&symbol) {
                            self.mentions.push((NameMention::New(*new), *id));
                        }
                    }
                }
            }
        }
    }
}

fn is_placed(places: &Places, symbol: SymbolId) -> bool {
    match places.definitions.section(symbol) {
        SectionId::NONE => true,
        section => places.in_section(section, 0).is_some(),
    }
}
