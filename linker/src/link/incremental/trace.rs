//! The second step of an incremental link: what the names of the changed objects mean, what of these is in the output, and
//! what that needs. Nothing may be needed that is not there.

use super::again::Again;
use super::names::{self, Known, Names};
use super::pieces::{AddedPiece, settle_pieces};
use super::read::Read;
use super::reason::Reason;
use super::shared;
use super::state::{Facts, FileRecord, NONE, Table, fact};
use super::world::World;
use crate::base::ids::{FileId, SectionId, SymbolId};
use crate::graph::eh_frame_records::Frames;
use crate::graph::merge::Merged;
use crate::graph::relocation_action::Mode;
use crate::graph::repository_pieces::{PiecePlaces, UsedPieces};
use crate::graph::trace::groups::Groups;
use crate::graph::trace::{Needs, Tracer};
use crate::input::file::{File, Files};
use crate::input::parts::Target;
use crate::layout::got::{self, Got};
use crate::layout::placement::{MergeClasses, MergedPieces, merge_pieces};
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::{Sections, state as section_state};
use crate::resolve::output_sections::{Outputs, Part, Std};
use crate::resolve::resolution::{self, Definitions, Duplicate};
use crate::resolve::symbol_facts::SymbolFacts;
use crate::resolve::symbol_table::SymbolTable;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::sync::atomic::Ordering::Relaxed;

/// What the changed objects mean.
pub(super) struct Settled {
    /// Their names, with those elsewhere.
    pub names: Names,
    /// Where their own definitions are.
    pub definitions: Definitions,
    /// Their frame descriptions.
    pub frames: Frames,
}

/// Settles the names of the objects against the rest of the program, or says who else is to be asked.
///
/// # Errors
/// If that is not known to be harmless.
pub(super) fn settle(again: Again, read: &Read) -> Result<Result<Settled, Unsettled>, Reason> {
    let Read {
        files,
        symbols,
        sections,
        ..
    } = read;
    let diag = again.diag;
    let names = match Names::settle(again, files, symbols)? {
        names::Settled::Names(names) => *names,
        names::Settled::More(more) => return Ok(Err(Unsettled::Ask(more))),
        names::Settled::Missing(names) => return Ok(Err(Unsettled::Missing(names))),
    };
    let (definitions, duplicates) = resolution::publish(files, symbols, sections, diag);
    let all: &[FileRecord] = again.state.table(Table::Files);
    // Against those elsewhere it is settled who wins.
    let is_known = |it: &Duplicate| {
        let files = [symbols.key(it.symbol).file(), it.file].into_iter();
        let ids: Vec<u32> = files
            .filter_map(|file| again.ids.get(file.index().checked_sub(1)?).copied())
            .collect();
        again.link.args.allow_multiple_definition && names::is_ordered(all, &ids)
    };
    if !duplicates.iter().all(is_known) || !definitions.commons.is_empty() {
        return Err("a definition is there twice".into());
    }
    names.add_facts(again.world, symbols, again.ids, diag)?;
    let is_new = |known: &&Known| known.at.is_none() && known.import.is_none();
    let of_known = |known: &Known| {
        let key = symbols.key(known.symbol);
        let object = files.definer(key).and_then(File::object);
        let symbol = object.and_then(|object| object.symbol(key.index()));
        let new = shared::New {
            kind: symbol.map_or(0, |symbol| symbol.kind()),
            said: SymbolFacts::NONE,
        };
        (symbols.name(known.symbol), new)
    };
    let new = names.list.iter().filter(is_new);
    let mut new: FxHashMap<&[u8], shared::New> = new.map(of_known).collect();
    shared::speak_of(again.state, again.command, &mut new)?;
    for known in names.list.iter().filter(is_new) {
        let said = new
            .get(symbols.name(known.symbol))
            .map_or(SymbolFacts::NONE, |new| new.said);
        symbols.add_facts(known.symbol, said);
    }
    let frames = Frames::parse(files, sections, &read.facts.frames, diag);
    again.refuse()?;
    Ok(Ok(Settled {
        names,
        definitions,
        frames,
    }))
}

/// What must be known before it is known what the names mean.
pub(super) enum Unsettled {
    /// These other files must be linked again, too.
    Ask(Vec<u32>),
    /// Somebody must define these names.
    Missing(Vec<Vec<u8>>),
}

/// What of the objects is in the output.
pub(super) struct Traced<'r> {
    /// The output's kind.
    pub mode: Mode,
    /// What sections need.
    pub needs: Needs,
    /// The slots that symbols have.
    pub got: Got,
    /// The output sections, with those of pieces.
    pub outputs: Outputs<'r>,
    /// The merged pieces, in their places among all.
    pub merged: Merged<'r>,
    /// Which parts hold them.
    pub classes: MergeClasses,
    /// Where the repositories' pieces are.
    pub pieces: PiecePlaces,
    /// Pieces that are new.
    pub added: Vec<AddedPiece>,
    /// Files that define what is needed now, and was left out.
    pub left_out: Vec<u32>,
}

/// Traces the objects; `old` is the output. With what was found goes, by section, the index of the merge input.
///
/// # Errors
/// If something is needed that is not there.
pub(super) fn trace<'r>(
    again: Again,
    read: &'r Read<'r>,
    settled: &mut Settled,
    records: &[FileRecord],
    after: &mut Facts,
    old: &[u8],
) -> Result<(Traced<'r>, Vec<u64>), Reason> {
    let Read {
        files,
        symbols,
        sections,
        facts,
        ..
    } = read;
    let args = again.link.args;
    settled.names.export(again, files, symbols, after, old)?;
    let bits = again.state.header().facts.bits;
    let mode = Mode {
        pic: bits & fact::PIC != 0,
        shared: bits & fact::SHARED != 0,
        relax: bits & fact::RELAX != 0,
        pack: false,
    };
    let used = UsedPieces::new(files);
    let tracer = Tracer {
        unneeded: &[],
        pieces: &used,
        files,
        symbols,
        definitions: &settled.definitions,
        sections,
        frames: &settled.frames,
        mode,
        gc: args.gc_sections,
        groups: match args.gc_sections {
            true => Groups::find(files, sections),
            false => Groups::default(),
        },
        prune: bits & fact::PRUNE != 0,
        link_order: &facts.link_order,
        bounded: &bounded(again.world, &read.outputs),
        text: args.z.text,
        allow_copies: args.z.copyreloc,
        allow_protected_copies: args.z.extern_protected_data,
        report_relative: false,
        diag: again.diag,
    };
    let needs = tracer.run(&roots(&settled.names));
    again.refuse()?;
    check_needs(&needs, records, again)?;
    settled.names.grant(again, symbols, after, old)?;
    let left_out = check_references(files, sections, symbols, &settled.names, again)?;

    // Pieces go to their like before anybody asks where they are.
    let mut outputs = read.outputs.clone();
    let mut added = Ok(Vec::new());
    let pieces = merge_pieces(
        files,
        sections,
        &mut outputs,
        &used,
        &mut |merged, classes, outputs| {
            added = settle_pieces(again.world, old, merged, classes, outputs);
        },
    );
    let MergedPieces {
        merged,
        classes,
        repository: pieces,
        input_of,
    } = pieces.map_err(|_| "pieces cannot be merged")?;
    let traced = Traced {
        mode,
        needs,
        got: settled.names.got(again.state, symbols),
        outputs,
        merged,
        classes,
        pieces,
        added: added?,
        left_out,
    };
    Ok((traced, input_of))
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
    let is_bounded = |part: &Part| {
        let name = &outputs.sections[part.output.index()].name;
        walked.iter().any(|std| std.id() == part.output)
            || [&b"__start_"[..], b"__stop_"]
                .iter()
                .any(|prefix| world.name(&[prefix, &name[..]].concat()).is_some())
    };
    outputs.parts.iter().map(is_bounded).collect()
}

/// Sections need as many calls of resolvers as before, and nothing that was not there.
fn check_needs(needs: &Needs, records: &[FileRecord], again: Again) -> Result<(), Reason> {
    let facts = &again.state.header().facts;
    let is_missing = !needs.undefined.is_empty()
        || !needs.locals.is_empty()
        || !needs.packed.is_empty()
        || needs.text_relocations.load(Relaxed)
        || needs.tls_module.load(Relaxed) && facts.got_module == got::NONE
        || needs.static_tls.load(Relaxed) && facts.bits & fact::SHARED != 0
        || needs.got_base.load(Relaxed);
    // The output has what was needed before.
    if is_missing && !again.world.is_as_before {
        return Err("a changed object needs what only a full link makes".into());
    }
    for (counts, record) in needs.dynamic.iter().skip(1).zip(records) {
        if counts.irelative.load(Relaxed) != record.irelative {
            return Err("a changed object has another number of dynamic relocations".into());
        }
    }
    Ok(())
}

/// What is in the output may only refer to what is, too. Gives the other files that define what was left out so far.
fn check_references(
    files: &Files,
    sections: &Sections,
    symbols: &SymbolTable,
    names: &Names,
    again: Again,
) -> Result<Vec<u32>, Reason> {
    let (ids, diag) = (again.ids, again.diag);
    let all: Vec<_> = files.iter().skip(1).collect();
    let of_file = |(own, file): &(FileId, &File)| {
        let checked = References {
            files,
            sections,
            symbols,
            names,
            diag,
        };
        checked.of_file(*own, file)
    };
    let checked: Vec<Result<Vec<u32>, Reason>> = all.par_iter().map(of_file).collect();
    let mut left_out = Vec::new();
    for of_file in checked {
        left_out.extend(of_file?);
    }
    left_out.retain(|file| ids.binary_search(file).is_err());
    Ok(left_out)
}

/// What the files refer to.
struct References<'f, 'a> {
    files: &'f Files<'a>,
    sections: &'f Sections,
    symbols: &'f SymbolTable<'a>,
    names: &'f Names,
    diag: &'f Diagnostics,
}

impl References<'_, '_> {
    /// The other files that define what a file refers to, and was left out.
    fn of_file(&self, own: FileId, file: &File) -> Result<Vec<u32>, Reason> {
        use crate::elf::x86_64::reloc::{R_X86_64_SIZE32, R_X86_64_SIZE64};
        let sections = self.sections;
        let object = self.files.object(own);
        let mut left_out = Vec::new();
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
                let symbol = self.symbols.of(file, index);
                let Some(known) = self.names.of(symbol) else {
                    return;
                };
                match known.record {
                    _ if known.own.is_some() => {}
                    Some(record) if record.is_placed != 0 => {}
                    Some(record) if record.definer != NONE => left_out.push(record.definer),
                    _ => {
                        let name = self.diag.show_name(self.symbols.name(symbol));
                        why = Some(format!("{name} was left out"));
                    }
                }
            });
            if let Some(why) = why {
                return Err(why.into());
            }
        }
        Ok(left_out)
    }
}
