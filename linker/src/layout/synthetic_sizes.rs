//! How large each thing becomes that the linker makes.
//!
//! Sizes are known before addresses are, and placement needs them; contents come when
//! everything has its place ([`synthetic_sections`](crate::output::synthetic_sections), [`image_writer`](crate::output::image_writer)).

use crate::args::Args;
use crate::base::ids::{PartId, SectionId};
use crate::elf::build_id;
use crate::elf::c;
use crate::elf::hash_tables;
use crate::elf::shf;
use crate::elf::string_table::StringTable;
use crate::elf::version_tables;
use crate::graph::eh_frame_records::FrameLayout;
use crate::graph::merge::Merged;
use crate::graph::sframe::Sframe;
use crate::graph::trace::Needs;
use crate::input::file::Files;
use crate::layout::commons::Commons;
use crate::layout::dynamic::Dynamic;
use crate::layout::got::Got;
use crate::layout::placement::{self, MergeClasses};
use crate::layout::relr;
use crate::layout::section_index;
use crate::layout::symtab::SymtabLayout;
use crate::resolve::input_sections::Sections;
use crate::resolve::output_sections::{MergeKind, OutputSection, Outputs, Std, subpart};
use crate::resolve::room::Room;
use crate::resolve::symbol_facts::Referred;
use crate::resolve::symbol_table::SymbolTable;
use std::sync::atomic::Ordering::Relaxed;

/// What there will be.
pub struct Wanted<'l, 'a> {
    /// Options.
    pub args: &'l Args,
    /// Global symbols.
    pub symbols: &'l SymbolTable<'a>,
    /// What the scan found.
    pub needs: &'l Needs,
    /// Slots and PLT entries.
    pub got: &'l Got,
    /// The dynamic symbols, if the output has any.
    pub dynamic: Option<&'l Dynamic<'a>>,
    /// The symbol table, if it is not stripped.
    pub symtab: Option<&'l SymtabLayout>,
    /// Frame descriptions.
    pub frames: &'l FrameLayout,
    /// `.sframe`, if there is one.
    pub sframe: Option<&'l Sframe>,
    /// Merged pieces.
    pub merged: &'l Merged<'l>,
    /// Which parts they are in.
    pub merge_classes: &'l MergeClasses,
    /// Parts for merged pieces of kinds of which there are none, with their room.
    pub first_pieces: &'l [(PartId, (u64, u64))],
    /// Common blocks.
    pub commons: &'l Commons,
    /// Bytes of the interpreter's path.
    pub interpreter: usize,
    /// Bytes of `.note.gnu.property`.
    pub properties: usize,
    /// Bytes of `.note.package`.
    pub package: usize,
    /// Bytes of the build id, if there is one.
    pub build_id: Option<usize>,
    /// PLT entries begin with `endbr64`.
    pub ibt: bool,
}

/// Size and alignment of what the linker makes, by part.
pub fn reserve(wanted: &Wanted, parts: usize) -> Vec<(u64, u64)> {
    let Wanted {
        args,
        symbols,
        needs,
        got,
        ..
    } = *wanted;
    let mut sizes = vec![(0u64, 1u64); parts];
    let mut set = |part: PartId, size: u64, align: u64| sizes[part.index()] = (size, align);
    let mut std = |std: Std, size: u64, align: u64| set(std.part(), size, align);
    std(Std::Interp, wanted.interpreter as u64, 1);
    std(Std::NoteProperty, wanted.properties as u64, 8);
    std(Std::NotePackage, wanted.package as u64, 4);
    if let Some(len) = wanted.build_id {
        std(
            Std::NoteBuildId,
            (build_id::NOTE_HEADER_SIZE + len.next_multiple_of(4)) as u64,
            4,
        );
    }
    let frames_present = wanted.frames.size > 0;
    std(Std::EhFrame, wanted.frames.size, 8);
    if args.eh_frame_hdr && frames_present {
        let fdes = wanted
            .frames
            .fde_counts
            .last()
            .map_or(0, |count| *count as usize);
        let rows = fdes + Room::of(args).of_rows(fdes);
        std(
            Std::EhFrameHdr,
            crate::elf::eh_frame::hdr_size(rows) as u64,
            4,
        );
    }
    std(Std::Sframe, wanted.sframe.map_or(0, Sframe::size), 8);
    let lazy = got.lazy.len() as u64;
    std(Std::Got, 8 * u64::from(got.words), 8);
    if lazy > 0 {
        std(Std::Plt, 16 * (lazy + 1), 16);
        let irelative = match got.resolves_behind_lazy() {
            true => u64::from(relocation_counts(got, needs)[2]),
            false => 0,
        };
        std(Std::RelaPlt, 24 * (lazy + irelative), 8);
        if wanted.ibt {
            std(Std::PltSec, 16 * lazy, 16);
        }
    }
    if lazy > 0 || needs.got_base.load(Relaxed) || got_is_mentioned(symbols) {
        std(Std::GotPlt, 8 * (3 + lazy), 8);
    }
    std(
        Std::PltGot,
        Got::direct_size(wanted.ibt) * got.direct_entries(),
        16,
    );
    let counts = relocation_counts(got, needs);
    let counts = match got.resolves_behind_lazy() {
        true => &counts[..2],
        false => &counts,
    };
    std(Std::RelaDyn, 24 * u64::from(counts.iter().sum::<u32>()), 8);
    if got.counts.packed > 0 || !needs.packed.is_empty() {
        // One address at least. How many words it takes follows from where everything stands.
        std(Std::RelrDyn, 8, 8);
    }
    if let Some(dynamic) = wanted.dynamic {
        let spare = dynamic.spare_symbols + dynamic.spare_exports;
        let count = dynamic.symbols.len() + spare as usize;
        std(Std::DynSym, 24 * (count as u64 + 1), 8);
        std(Std::DynStr, dynamic_strings_size(dynamic, args), 1);
        if let (true, Some(shape)) = (args.hash_style.gnu, &dynamic.gnu_hash) {
            std(Std::GnuHash, shape.size() as u64, 8);
        }
        if args.hash_style.sysv {
            std(Std::Hash, hash_tables::sysv_size(count + 1) as u64, 8);
        }
        if dynamic.versioned {
            std(Std::VerSym, 2 * (count as u64 + 1), 2);
            std(
                Std::VerDef,
                version_tables::definitions_size(&dynamic.definitions),
                8,
            );
            let needs = match version_tables::needs_size(&dynamic.needs) {
                0 => 0,
                size => size + Room::of(args).of_versions(),
            };
            std(Std::VerNeed, needs, 8);
        }
    }
    if let Some(symtab) = wanted.symtab {
        let room = Room::of(args);
        let count = u64::from(symtab.count) + room.of_symbols(symtab.count);
        std(Std::Symtab, 24 * count, 8);
        std(Std::Strtab, symtab.names + room.of_names(symtab.names), 1);
    }
    let may_copy = wanted.dynamic.is_some() && args.kind.is_executable() && args.z.copyreloc;
    let copies = [(subpart::COPIES, false), (subpart::RELRO_COPIES, true)];
    for ((part, read_only), (size, align)) in copies.into_iter().zip(got.copy_sizes) {
        let (room, room_align) = match may_copy {
            true => Room::of(args).of_copies(read_only),
            false => (0, 1),
        };
        sizes[part.index()] = (size + room, align.max(room_align));
    }
    for (part, extent) in wanted.commons.extents.iter().chain(wanted.first_pieces) {
        sizes[part.index()] = *extent;
    }
    for (i, class) in wanted.merge_classes.iter().enumerate() {
        if let Some(class) = class {
            let size = wanted.merged.size(*class);
            let room = Room::of(args).of_pieces(size);
            sizes[i] = (size + room, wanted.merged.align(*class));
        }
    }
    sizes
}

/// Whether an object refers to `_GLOBAL_OFFSET_TABLE_`.
fn got_is_mentioned(symbols: &SymbolTable) -> bool {
    symbols
        .find(b"_GLOBAL_OFFSET_TABLE_")
        .is_some_and(|id| symbols.facts(id).has(Referred::BY_OBJECT))
}

/// Numbers of relative, symbolic and irelative relocations in `.rela.dyn`; the last may be in `.rela.plt`
/// ([`Got::resolves_behind_lazy`]).
pub fn relocation_counts(got: &Got, needs: &Needs) -> [u32; 3] {
    let mut counts = [
        got.counts.relative,
        got.counts.symbolic,
        got.counts.irelative,
    ];
    for file in &needs.dynamic {
        counts[0] += file.relative.load(Relaxed);
        counts[1] += file.symbolic.load(Relaxed);
        counts[2] += file.irelative.load(Relaxed);
    }
    counts
}

/// Size of `.dynstr`, with the joined lists at its end.
fn dynamic_strings_size(dynamic: &Dynamic, args: &Args) -> u64 {
    let lists = args
        .recorded_rpath()
        .iter()
        .chain(&args.audit)
        .chain(&dynamic.depaudit);
    let joined: usize = lists.map(|path| path.len() + 1).sum();
    let spare = Room::of(args).of_import_names(dynamic.spare_symbols + dynamic.spare_exports);
    (dynamic.strings.bytes().len() + joined) as u64 + spare
}

/// Types of sections follow from what came to be in them.
pub fn settle_types(
    files: &Files,
    sections: &Sections,
    outputs: &mut Outputs,
    placement: &placement::Placement,
    args: &Args,
) {
    for std in [Std::Bss, Std::Tbss, Std::Lbss] {
        if outputs.std(std).size > 0
            && placement::has_bits(files, sections, outputs, placement, std.id())
        {
            outputs.std_mut(std).sh_type = c::SHT_PROGBITS;
        }
    }
    settle_pieces(outputs, placement);
    if args.android_relr_tags {
        outputs.std_mut(Std::RelrDyn).sh_type = relr::SHT_ANDROID_RELR;
    }
    if args.z.now {
        // Nothing is bound lazily: the whole table is read-only after relocation.
        outputs.std_mut(Std::GotPlt).relro = true;
    }
}

/// Sections that hold what is about others say which section holds these.
pub fn settle_links(
    sections: &Sections,
    outputs: &mut Outputs,
    link_order: &[(SectionId, SectionId)],
) {
    let output_of = |outputs: &Outputs, id: SectionId| {
        let part = outputs.parts.get(sections.part[id.index()].index());
        part.filter(|_| sections.is_alive(id))
            .map(|part| part.output)
    };
    for (section, about) in link_order {
        let (own, about) = (output_of(outputs, *section), output_of(outputs, *about));
        if let (Some(own), Some(about)) = (own, about) {
            let output = &mut outputs.sections[own.index()];
            output.linked = output.linked.or(Some(about));
        }
    }
    for section in &mut outputs.sections {
        if section.linked.is_none() {
            section.flags &= !shf::LINK_ORDER;
        }
    }
}

/// A section says that it holds mergeable pieces if it holds nothing but pieces of one kind.
fn settle_pieces(outputs: &mut Outputs, placement: &placement::Placement) {
    let mut kinds: Vec<Option<Option<MergeKind>>> = vec![None; outputs.sections.len()];
    let parts = outputs.parts.iter().zip(&placement.parts);
    for (part, _) in parts.filter(|(_, extent)| extent.size > 0) {
        let kind = &mut kinds[part.output.index()];
        *kind = match *kind {
            Some(other) if other != part.merge => Some(None),
            _ => Some(part.merge),
        };
    }
    for (section, kind) in outputs.sections.iter_mut().zip(kinds) {
        if let Some(Some(kind)) = kind {
            section.flags |= kind.flags();
            section.entsize = kind.entsize.into();
        }
    }
}

/// Decides which sections are in the output and sizes `.shstrtab`.
pub fn name_sections(outputs: &mut Outputs, args: &Args) -> Vec<Vec<u8>> {
    if !args.z.section_header {
        return Vec::new();
    }
    let count = outputs.sections.iter().filter(|section| section.size > 0);
    section_index::reserve(outputs, count.count());
    outputs.std_mut(Std::ShStrtab).size = 1;
    let names = section_names(outputs.sections.iter().filter(|section| section.size > 0));
    outputs.std_mut(Std::ShStrtab).size =
        1 + names.iter().map(|name| name.len() as u64 + 1).sum::<u64>();
    names
}

/// The names of sections, sorted, each once.
pub fn section_names<'o, 'a: 'o>(
    sections: impl Iterator<Item = &'o OutputSection<'a>>,
) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = sections.map(|section| section.name.to_vec()).collect();
    names.sort();
    names.dedup();
    names
}

/// The section name table for these names.
pub fn section_names_table(names: &[Vec<u8>]) -> Option<StringTable<'_>> {
    let mut table = StringTable::new();
    for name in names {
        table.add(name)?;
    }
    Some(table)
}
