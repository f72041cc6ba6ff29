//! After a full link: what the next link of the same output needs to know is written into the state file.

use super::held::Held;
use super::holds;
use super::inputs::Inputs;
use super::known::{known, linked};
use super::manifest;
use super::reason::Reason;
use super::state::{
    self, Builder, ChunkRecord, CieRecord, Facts, FileRecord, GroupRecord, NONE, NameKey,
    NameRecord, OutputRecord, PartRecord, PieceRecord, PlaceRecord, SearchRecord, Table, fact,
    file, key_of, part_room,
};
use super::{lists, said, spare, speakers};
use crate::args::Args;
use crate::base::ids::{FileId, PartId, SectionId, SymbolId};
use crate::base::key::rank;
use crate::elf::c;
use crate::input::file::Files;
use crate::input::object::Object;
use crate::input::open::{OpenedFile, Searched};
use crate::input::parts::{Place, Signature};
use crate::input::stamp::{Left, Moment};
use crate::layout::dynamic::Dynamic;
use crate::layout::got::{self, Owner, Slots};
use crate::link::opened::Opened;
use crate::link::placed::Placed;
use crate::link::resolved::Resolved;
use crate::link::traced::Traced;
use crate::link::written::Kept;
use crate::resolve::input_sections::{WARNING_PREFIX, state as section_state};
use crate::resolve::output_sections::{Order, Outputs, Part, Std, subpart};
use crate::resolve::room::{ABBREVIATIONS, Filler, Kind, Room};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;

/// What is written down of a link.
#[derive(Clone, Copy)]
pub(crate) struct Finished<'f, 'r> {
    /// Options.
    pub args: &'f Args,
    /// The stages.
    pub opened: &'f Opened<'f, 'r>,
    pub resolved: &'f Resolved<'r, 'r>,
    pub traced: &'f Traced<'r>,
    pub placed: &'f Placed<'r>,
    /// When it began.
    pub started: Moment,
    /// What the writer knew.
    pub kept: &'f Kept,
    /// The files that were opened.
    pub files: &'f [OpenedFile],
    /// The libraries that were searched for.
    pub searched: &'f [Searched],
    /// What the output was like when it got its name.
    pub output: Option<Left>,
    /// How many warnings there were before it began, of its options.
    pub said: usize,
    /// The warnings since then that hold for later links, too.
    pub lasting: &'f [String],
}

/// Writes the state of an output that stands under its name. Of inputs that have changed since the link began, or
/// just before, it is not known what was read.
///
/// # Errors
/// Why there is none; the next link will be a full one.
pub(super) fn capture(link: Finished, held: &Held) -> Result<(), Reason> {
    let mut builder = Builder::new(facts(&link));
    let inputs = Inputs::new(link.resolved, link.files)?;
    let mut text = Vec::new();
    inputs.write(link.args, link.started, &mut text, &mut builder);
    let outputs = outputs(link.placed, &mut text);
    let searches = searches(link.searched, &mut text);
    said::keep(link.lasting, &mut text, &mut builder);
    builder.table(Table::Text, &text);
    builder.table(Table::Searches, &searches);
    builder.table(Table::Outputs, &outputs);
    builder.table(Table::Parts, &parts(&link));
    let defined = names(&link, &mut builder);
    files(&link, &inputs, &defined, &mut builder);
    builder.table(Table::Pieces, &pieces(&link));
    builder.table(Table::Cies, &cies(&link));
    builder.table(Table::Warned, &warned(link.resolved));
    builder.table(Table::Digests, &link.kept.digests);
    // All that is said of inputs has been read now, while who waited for the output may have changed some.
    inputs.check_unchanged()?;
    let header = builder.header();
    header.options = manifest::options_digest(link.args, held);
    header.linker = manifest::own_stamp().ok_or("the linker's own program cannot be looked at")?;
    // Somebody else's may stand there by now, or nothing.
    let images = spare::of_full_link(held, &link.args.output, link.output.as_ref());
    let images = images.ok_or("the output was changed at once")?;
    (header.output, header.has_image) = (images.output, images.has_image.into());
    let path = held.state();
    let written = builder.write(path);
    written.map_err(|why| Reason::from(format!("cannot write {}: {why}", path.display())))
}

/// Refuses what is found in inputs and cannot be linked again in part.
pub(super) fn check(link: &Finished) -> Result<(), Reason> {
    let facts = &link.resolved.facts;
    let against = [
        (link.opened.compiled.is_some(), "link-time optimisation"),
        (link.resolved.plan.is_some(), "a linker script"),
        (
            link.placed.assigned.len() != link.args.defsyms.len(),
            "symbols of a linker script",
        ),
        (!facts.link_order.is_empty(), "sections with SHF_LINK_ORDER"),
        (link.traced.sframe.is_some(), ".sframe"),
        (link.placed.kept.is_some(), "relocations that are kept"),
        (
            link.placed.outputs.std(Std::SymtabShndx).size > 0,
            "more sections than a symbol can name",
        ),
        (
            link.placed.notes.build_id == Some(crate::elf::build_id::Style::Uuid),
            "--build-id=uuid",
        ),
    ];
    match against.into_iter().find(|(is, _)| *is) {
        Some((_, what)) => Err(what.into()),
        None => Ok(()),
    }
}

fn facts(link: &Finished) -> Facts {
    let Finished {
        args,
        resolved,
        traced,
        placed,
        kept,
        ..
    } = *link;
    let segments = &placed.laid_out.segments;
    let tls = segments.tls.unwrap_or_default();
    let prune = resolved.outputs.rules.is_none()
        && crate::resolve::roots::has_start(args, &resolved.symbols);
    let bits = [
        (traced.mode.pic, fact::PIC),
        (traced.mode.shared, fact::SHARED),
        (traced.mode.relax, fact::RELAX),
        (placed.notes.ibt, fact::IBT),
        (prune, fact::PRUNE),
        (exports(args), fact::EXPORTS),
        (placed.symtab.is_some(), fact::SYMTAB),
        (!traced.commons.linked.is_empty(), fact::COMMONS),
    ];
    let (mut tickets, mut objects) = (0, 0);
    for ((_, file), _) in linked(resolved) {
        match file.object().map(Object::is_ticket) {
            Some(true) => tickets += 1,
            Some(false) => objects += 1,
            None => {}
        }
    }
    Facts {
        tls_start: tls.start,
        tls_align: {
            let mut all = segments.phdrs.iter();
            let found = all.find(|phdr| { phdr.p_type } == c::PT_TLS);
            found.map_or(1, |phdr| phdr.p_align)
        },
        thread_pointer: tls.thread_pointer,
        image_base: segments.image_base,
        static_irelative: placed.static_irelative,
        build_id: kept.build_id,
        bits: bits.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum(),
        section_headers: segments.shoff,
        symbols: placed
            .symtab
            .as_ref()
            .map_or(0, |symtab| symtab.count.into()),
        strings: placed.symtab.as_ref().map_or(0, |symtab| symtab.names),
        got_words: traced.got.words,
        got_module: traced.got.module,
        spare_relocations: {
            let [used, room] = [
                traced.got.counts.relative - traced.got.spare.relocations,
                traced.got.spare.relocations,
            ];
            let table = placed.outputs.std(Std::RelaDyn).offset;
            [table + 24 * u64::from(used), room.into()]
        },
        spare_place: match traced.got.spare.relocations {
            0 => 0,
            _ => placed.places(resolved, traced).slot(traced.got.spare.word),
        },
        abbreviations: {
            let placement = &placed.laid_out.placement;
            let at = crate::output::image_writer::abbreviations(
                &placed.outputs,
                placement,
                Room::of(args),
            );
            at.map_or(u64::MAX, u64::from)
        },
        spare_strings: {
            let spare = |it: &Dynamic| it.spare_symbols + it.spare_exports;
            let symbols = traced.dynamic.as_ref().map_or(0, spare);
            let room = Room::of(args).of_import_names(symbols);
            [placed.outputs.std(Std::DynStr).size - room, room]
        },
        spare_copies: {
            let copies = [subpart::COPIES, subpart::RELRO_COPIES];
            let room = |(part, (used, _)): (PartId, (u64, u64))| {
                let extent = placed.laid_out.placement.parts.get(part.index());
                let section =
                    &placed.outputs.sections[placed.outputs.parts[part.index()].output.index()];
                extent.map_or([0; 2], |extent| {
                    let start = section.address + extent.offset;
                    [start + used, start + extent.size]
                })
            };
            let [write, read] = [0, 1].map(|n| room((copies[n], traced.got.copy_sizes[n])));
            [write, read]
        },
        spare_imports: match &traced.dynamic {
            Some(dynamic) => [
                traced.got.spare.imports,
                traced.got.spare.import_words,
                traced.got.direct.len() as u32,
                dynamic.first_defined() - dynamic.spare_symbols,
            ],
            None => [0; 4],
        },
        spare_exports: traced.dynamic.as_ref().map_or([0; 2], |dynamic| {
            let defined = dynamic.hashes.len() as u32;
            match link.opened.amended {
                // What others may find follows from more than the options.
                true => [0; 2],
                false => [dynamic.first_defined() + defined, dynamic.spare_exports],
            }
        }),
        spare_frames: [traced.frame_layout.end, traced.frame_layout.spare],
        spare_locals: placed.symtab.as_ref().map_or([0; 2], |symtab| {
            let first = symtab.local_count - symtab.spare_locals;
            let table = placed.outputs.std(Std::Symtab).offset;
            [table + 24 * u64::from(first), symtab.spare_locals.into()]
        }),
        tickets,
        objects,
    }
}

/// Whether names may be seen from outside that no shared object speaks of.
fn exports(args: &Args) -> bool {
    args.kind == crate::args::OutputKind::Shared
        || args.export_dynamic
        || !args.export_dynamic_symbols.is_empty()
        || !args.dynamic_lists.is_empty()
        || !args.export_dynamic_symbol_lists.is_empty()
}

fn outputs(placed: &Placed, text: &mut Vec<u8>) -> Vec<OutputRecord> {
    let record = |(id, section): (usize, &crate::resolve::output_sections::OutputSection)| {
        let name = text.len() as u64;
        text.extend_from_slice(&section.name);
        OutputRecord {
            name,
            name_len: section.name.len() as u32,
            sh_type: section.sh_type,
            flags: section.flags,
            address: section.address,
            offset: section.offset,
            size: section.size,
            header: section.header,
            id: id as u32,
        }
    };
    placed
        .outputs
        .sections
        .iter()
        .enumerate()
        .map(record)
        .collect()
}

/// What tells a part from the others of its output section.
pub(super) fn describe_part(part: &Part) -> PartRecord {
    PartRecord {
        output: part.output.0,
        order: part.order,
        merge: part.merge.map_or(0, |merge| 1 + u32::from(merge.strings)),
        entsize: part.merge.map_or(0, |merge| merge.entsize),
        offset: 0,
        size: 0,
        next: 0,
        sort: match part.sort {
            Order::Input => 0,
            Order::Name => 1,
            Order::Priority => 2,
            Order::Linked => 3,
        },
        room: 0,
    }
}

fn parts(link: &Finished) -> Vec<PartRecord> {
    let room = Room::of(link.args);
    let outputs: &Outputs = &link.placed.outputs;
    // Where the last file's room ends, by part.
    let mut ends: FxHashMap<PartId, u64> = FxHashMap::default();
    for chunk in &link.placed.laid_out.placement.chunks {
        let kind = room.kind(outputs, chunk.part);
        let behind = match kind {
            Kind::None | Kind::List => continue,
            Kind::Gaps => room.of_chunk(kind, chunk.size),
            // The abbreviations of units that say nothing stand there.
            Kind::Filled(Filler::Abbreviations) => ABBREVIATIONS.len() as u64,
            Kind::Filled(_) => 0,
        };
        let end = chunk.offset + chunk.size + behind;
        let last = ends.entry(chunk.part).or_insert(end);
        *last = end.max(*last);
    }
    let record = |(number, part): (usize, &Part)| {
        let extent = link.placed.laid_out.placement.parts.get(number);
        let extent = extent.copied().unwrap_or_default();
        let class = link.traced.merge_classes.get(number).copied().flatten();
        PartRecord {
            offset: extent.offset,
            size: extent.size,
            next: match (room.kind(outputs, PartId(number as u32)), class) {
                (Kind::List, _) => {
                    let section = &outputs.sections[part.output.index()];
                    section.size + section.room
                }
                (_, Some(class)) => link.traced.merged.size(class),
                (_, None) if part.merge.is_some() => 0,
                (kind, None) => {
                    let end = ends.get(&PartId(number as u32));
                    // Where nobody has anything is the room for the first that has, if there is some.
                    let first = match kind == Kind::Gaps && extent.size > 0 {
                        true => extent.offset,
                        false => u64::MAX,
                    };
                    end.copied().unwrap_or(first)
                }
            },
            room: match room.kind(outputs, PartId(number as u32)) {
                Kind::None => part_room::NONE,
                Kind::Gaps => part_room::GAPS,
                Kind::Filled(_) => part_room::FILLED,
                Kind::List => part_room::LIST,
            },
            ..describe_part(part)
        }
    };
    outputs.parts.iter().enumerate().map(record).collect()
}

/// What tells a section from the others of its file in the next link, too: its name, and which one of that name it is.
pub(super) struct SectionKeys(FxHashMap<u64, u32>);

impl SectionKeys {
    pub(super) fn new() -> SectionKeys {
        SectionKeys(FxHashMap::default())
    }

    /// The key of the file's next section.
    pub(super) fn next(&mut self, object: &Object, number: u32) -> u64 {
        let Some(section) = object.section(number) else {
            return u64::from(number);
        };
        let name = object.full_name(number, &section);
        let hash = xxhash_rust::xxh3::xxh3_64(&name);
        let before = self.0.entry(hash).or_insert(0);
        *before += 1;
        hash.wrapping_add(u64::from(*before).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

fn files(link: &Finished, inputs: &Inputs, defined: &[u32], builder: &mut Builder) {
    let Finished {
        resolved,
        traced,
        placed,
        kept,
        ..
    } = *link;
    let files: &Files = &resolved.files;
    let placement = &placed.laid_out.placement;
    let outputs = &placed.outputs;
    let room = Room::of(link.args);
    let mut by_file: Vec<Vec<u32>> = vec![Vec::new(); files.0.len()];
    for (number, chunk) in (0..).zip(&placement.chunks) {
        by_file[chunk.file.index()].push(number);
    }
    // Where a chunk's room ends: at the next of its part, or at the part's end.
    let end_of = |number: usize| {
        let chunk = &placement.chunks[number];
        match room.kind(outputs, chunk.part) {
            kind @ Kind::Gaps => chunk.offset + chunk.size + room.of_chunk(kind, chunk.size),
            _ => chunk.offset + chunk.size,
        }
    };
    let executable_stack: Vec<FileId> = resolved.facts.executable_stack.clone();
    let facts = &resolved.facts;
    // Sections that only a full link places.
    let special = facts.warnings.iter().chain(&facts.sframes);
    let special = special.chain(facts.link_order.iter().map(|(section, _)| section));
    let mut special: FxHashSet<FileId> = special
        .map(|section| resolved.sections.origin(*section).0)
        .collect();
    // Of a file's own symbols it is not kept which slots they have.
    special.extend(
        traced
            .got
            .entries
            .iter()
            .filter_map(|entry| match entry.owner {
                Owner::Local(file, _) => Some(file),
                Owner::Global(_) => None,
            }),
    );
    let mut notes: HashMap<FileId, &Vec<u32>> = HashMap::new();
    for (id, sections) in &resolved.facts.properties {
        notes.insert(*id, sections);
    }
    let places: Vec<(Vec<PlaceRecord>, bool)> = (0..files.0.len())
        .into_par_iter()
        .map(|index| {
            let id = FileId(index as u32);
            match resolved.linked[index] && files.get(id).object().is_some() {
                true => (
                    places_of(link, id, &by_file[index]),
                    lists::is_pinned(files, &resolved.sections, outputs, id),
                ),
                false => (Vec::new(), false),
            }
        })
        .collect();
    let mut chunks: Vec<ChunkRecord> = Vec::with_capacity(placement.chunks.len());
    let mut all_places: Vec<PlaceRecord> =
        Vec::with_capacity(places.iter().map(|(places, _)| places.len()).sum());
    let mut records: Vec<FileRecord> = Vec::with_capacity(files.0.len());
    let frames = outputs.std(Std::EhFrame).offset;
    let strings = outputs.std(Std::Strtab).offset;
    for ((id, input), (places, is_pinned)) in files.iter().zip(&places) {
        let own = &by_file[id.index()];
        let regions = &kept.regions[id.index()];
        let is_linked = resolved.linked[id.index()] && input.object().is_some();
        let mut record = FileRecord::default();
        let is_alone = inputs.place(id.0, &mut record);
        let bits = [
            (is_linked, file::LINKED),
            (input.object().is_some_and(Object::is_ticket), file::TICKET),
            (
                is_linked && is_alone && !special.contains(&id) && !is_of_all_files(resolved, id),
                file::ALONE,
            ),
            (executable_stack.contains(&id), file::EXECUTABLE_STACK),
            (input.exclude, file::EXCLUDED),
            (*is_pinned, file::PINNED),
        ];
        let note = notes.get(&id).copied();
        records.push(FileRecord {
            bits: bits.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum(),
            chunks: [chunks.len() as u64, own.len() as u64],
            places: [all_places.len() as u64, places.len() as u64],
            locals: regions.locals.1,
            globals: regions.globals.1,
            relative: regions.relative.1,
            symbolic: regions.symbolic,
            irelative: regions.irelative.1,
            frames: [regions.frames.0.wrapping_sub(frames), regions.frames.1],
            locals_at: regions.locals.0,
            globals_at: regions.globals.0,
            names: [regions.names.0.wrapping_sub(strings), regions.names.1],
            relative_at: regions.relative.0,
            irelative_at: regions.irelative.0,
            notes: note.map_or([0; 2], |note| notes_digest(input.object(), note)),
            defined: [
                defined[id.index()],
                defined[id.index() + 1] - defined[id.index()],
            ],
            ..record
        });
        chunks.extend(own.iter().map(|number| {
            let chunk = &placement.chunks[*number as usize];
            ChunkRecord {
                part: chunk.part.0,
                only: chunk.only,
                offset: chunk.offset,
                capacity: end_of(*number as usize) - chunk.offset,
                priority: match lists::is_sorted(chunk.part) {
                    true => lists::priority(input.object(), chunk.only),
                    false => 0,
                },
            }
        }));
        all_places.extend_from_slice(places);
    }
    builder.table(Table::Places, &all_places);
    builder.table(Table::Chunks, &chunks);
    let start = builder.start_of(Table::Places);
    let chunks_start = builder.start_of(Table::Chunks);
    for record in &mut records {
        record.places[0] = start + record.places[0] * size_of::<PlaceRecord>() as u64;
        record.chunks[0] = chunks_start + record.chunks[0] * size_of::<ChunkRecord>() as u64;
    }
    builder.table(Table::Files, &records);
}

/// Whether a symbol of a file is something by the other files as well: a common one, of which these say how large it is, and where; or one that
/// marks the beginning or the end of all frame descriptions (crtbegin.o, crtend.o).
fn is_of_all_files(resolved: &Resolved, id: FileId) -> bool {
    let object = resolved.files.object(id);
    let mut symbols = (1..object.symbol_count()).filter_map(|index| object.symbol(index));
    resolved.frames.of(id).terminator
        || symbols.any(|symbol| match symbol.place {
            Place::Common => true,
            Place::Section(number) if symbol.kind() != c::STT_SECTION => {
                let section = resolved.sections.get(id, number);
                section.is_some_and(|section| {
                    resolved.sections.state(section) & section_state::EH_FRAME != 0
                })
            }
            _ => false,
        })
}

/// Digest of a file's `.note.gnu.property`.
pub(super) fn notes_digest(object: Option<&Object>, sections: &[u32]) -> [u64; 2] {
    let mut bytes = Vec::new();
    for number in sections {
        bytes.extend(object.map_or(&b""[..], |object| object.section_bytes(*number)));
    }
    match bytes.is_empty() {
        true => [0; 2],
        false => key_of(&bytes),
    }
}

fn places_of(link: &Finished, id: FileId, chunks: &[u32]) -> Vec<PlaceRecord> {
    let (resolved, placed) = (link.resolved, link.placed);
    let sections = &resolved.sections;
    let placement = &placed.laid_out.placement;
    let object = resolved.files.object(id);
    let mut keys = SectionKeys::new();
    let mut places = Vec::new();
    let mut chunk_of: FxHashMap<(PartId, u32), u32> = FxHashMap::default();
    for (index, number) in (0..).zip(chunks) {
        let chunk = &placement.chunks[*number as usize];
        chunk_of.insert((chunk.part, chunk.only), index);
    }
    for (number, section) in (0..).zip(sections.of_file(id)) {
        let section = SectionId(section);
        let part = sections.part[section.index()];
        if part == PartId::NONE || !sections.is_alive(section) {
            continue;
        }
        let whole = chunk_of.get(&(part, 0));
        let Some(chunk) = whole.or_else(|| chunk_of.get(&(part, number))) else {
            continue;
        };
        let size = object.extent(number).map_or(0, |(size, _)| size);
        let key = keys.next(object, number);
        let offset = placement.offset(section);
        places.push(PlaceRecord::new(key, *chunk, offset, size));
    }
    places
}

/// The names, who mentions them, and who has the groups. Gives, by file, where the names that it defines begin.
fn names(link: &Finished, builder: &mut Builder) -> Vec<u32> {
    let Finished {
        resolved,
        traced,
        placed,
        ..
    } = *link;
    let symbols = &resolved.symbols;
    let places = placed.places(resolved, traced);
    let mut keys: Vec<(NameKey, SymbolId)> = known(resolved)
        .map(|id| (key_of(symbols.name(id)), id))
        .collect();
    keys.par_sort_unstable();
    let slots: Vec<Slots> = traced.got.entries.iter().map(|entry| entry.slots).collect();
    let mut slots_of: FxHashMap<SymbolId, u32> = FxHashMap::default();
    for (number, entry) in (0..).zip(&traced.got.entries) {
        if let Owner::Global(id) = entry.owner {
            slots_of.insert(id, number);
        }
    }
    let records: Vec<NameRecord> = keys
        .par_iter()
        .map(|(key, id)| {
            let value = placed.values[id.index()];
            let definition = symbols.key(*id);
            let section = resolved.definitions.section(*id);
            let is_placed = match definition.rank() {
                rank::STRONG | rank::WEAK if section != SectionId::NONE => {
                    places.in_section(section, 0).is_some()
                }
                _ => true,
            };
            NameRecord {
                key: *key,
                address: value.address,
                facts: value.facts,
                slots: slots_of.get(id).copied().unwrap_or(got::NONE),
                definer: match definition.in_object() {
                    true => definition.file().0,
                    false => NONE,
                },
                dynamic: traced
                    .dynamic
                    .as_ref()
                    .map_or(0, |dynamic| dynamic.index(*id)),
                rank: definition.rank() as u16,
                is_placed: is_placed.into(),
                hidden_by: NONE,
            }
        })
        .collect();
    let mut records = records;
    speakers::note_hidden(resolved, &keys, &mut records);
    builder.table(Table::Slots, &slots);
    builder.table(Table::Names, &records);
    builder.table(
        Table::Hidden,
        &speakers::hidden(exports(link.args), &records),
    );
    speakers::mentions(resolved, &keys, builder);
    let holds = holds::of_full_link(resolved, link.args.gc_sections, &keys);
    builder.table(Table::Holds, &holds);
    builder.table(Table::Groups, &groups(resolved));
    let mut starts = vec![0u32; resolved.files.0.len() + 1];
    let defined = || {
        let of_file = |record: &NameRecord| (record.definer != NONE).then_some(record.definer);
        (0u32..)
            .zip(&records)
            .filter_map(move |(name, record)| Some((name, of_file(record)?)))
    };
    defined().for_each(|(_, file)| starts[file as usize + 1] += 1);
    for file in 1..starts.len() {
        starts[file] += starts[file - 1];
    }
    let mut next = starts.clone();
    let mut list = vec![0u32; starts.last().map_or(0, |count| *count as usize)];
    for (name, file) in defined() {
        list[next[file as usize] as usize] = name;
        next[file as usize] += 1;
    }
    builder.table(Table::Defined, &list);
    starts
}

/// The text of a group's signature.
pub(super) fn signature<'a>(
    resolved_files: &Files<'a>,
    symbols: &crate::resolve::symbol_table::SymbolTable<'a>,
    id: FileId,
    signature: Signature<'a>,
) -> Option<&'a [u8]> {
    let file = resolved_files.get(id);
    match (signature, file.object()) {
        (Signature::Symbol(index), _) => Some(symbols.name(symbols.of(file, index))),
        (Signature::Text(text), _) => Some(text),
        (Signature::Name(name), Some(object)) => object.repository()?.programs.name(name).ok(),
        (Signature::Name(_), _) => None,
    }
}

/// Who has the groups that are linked.
fn groups(resolved: &Resolved) -> Vec<GroupRecord> {
    let linked: Vec<_> = linked(resolved).collect();
    let of_file = |((id, file), _): &((FileId, &crate::input::file::File), &bool)| {
        let lost = resolved.lost_groups.of(*id);
        let groups = file.object().and_then(|object| object.groups().ok());
        let own = groups.into_iter().flatten();
        let own = own.filter(|group| group.comdat && lost.binary_search(&group.index).is_err());
        let record = |group: crate::input::parts::Group| {
            let text = signature(&resolved.files, &resolved.symbols, *id, group.signature)?;
            Some(GroupRecord {
                key: key_of(text),
                owner: id.0,
                padding: 0,
            })
        };
        own.filter_map(record).collect::<Vec<_>>()
    };
    let mut records: Vec<GroupRecord> = linked.par_iter().flat_map_iter(of_file).collect();
    records.par_sort_unstable_by_key(|record| (record.key, record.owner));
    records.dedup_by_key(|record| record.key);
    records
}

fn pieces(link: &Finished) -> Vec<PieceRecord> {
    let traced = link.traced;
    let mut records = Vec::new();
    for (part, class) in (0..).zip(&traced.merge_classes) {
        let Some(class) = class else { continue };
        traced
            .merged
            .for_each_piece(*class, &mut |offset, bytes, _| {
                if let Ok(offset) = u32::try_from(offset) {
                    records.push(PieceRecord {
                        hash: state::hash_piece(bytes),
                        part,
                        offset,
                    });
                }
            });
    }
    records.par_sort_unstable_by_key(|record| (record.hash, record.part, record.offset));
    records
}

/// Names that sections warn of (`.gnu.warning.NAME`).
fn warned(resolved: &Resolved) -> Vec<NameKey> {
    let key = |id: &SectionId| {
        let name = resolved.sections.at(&resolved.files, *id).full_name();
        let name = name.strip_prefix(WARNING_PREFIX)?.strip_prefix(b".")?;
        Some(key_of(name))
    };
    let mut keys: Vec<NameKey> = resolved.facts.warnings.iter().filter_map(key).collect();
    let shared = resolved.files.iter().filter_map(|(_, file)| file.shared());
    let of_shared = shared
        .flat_map(|shared| shared.sections())
        .filter_map(|(name, _)| {
            let name = name.strip_prefix(WARNING_PREFIX)?.strip_prefix(b".")?;
            Some(key_of(name))
        });
    keys.extend(of_shared);
    keys.sort_unstable();
    keys
}

fn cies(link: &Finished) -> Vec<CieRecord> {
    let frames = &link.resolved.frames;
    let record = |cie: &crate::graph::eh_frame_records::OutputCie| CieRecord {
        offset: cie.offset,
        size: frames.of(cie.file).cies[cie.index as usize].size,
    };
    link.traced.frame_layout.cies.iter().map(record).collect()
}

fn searches(searched: &[Searched], text: &mut Vec<u8>) -> Vec<SearchRecord> {
    let record = |searched: &Searched| {
        let name = text.len() as u64;
        text.extend_from_slice(searched.name.as_bytes());
        SearchRecord {
            name,
            name_len: searched.name.len() as u32,
            how: searched.how,
        }
    };
    searched.iter().map(record).collect()
}
