//! Addresses, file offsets, program headers.
//!
//! As with GNU ld's `-z separate-code`: the headers and read-only data, code,
//! more read-only data, then data that becomes read-only after relocation, then the
//! other data, each with a `PT_LOAD` of its own. Code shares no page of the file
//! with anything else. Elsewhere two segments may share a page of the file: then
//! each maps it, at addresses a page apart.

use crate::args::{Args, Magic, OutputFormat, OutputKind, SeparateCode};
use crate::base::ids::OutputId;
use crate::elf::shf;
use crate::elf::{Ehdr, Phdr, Shdr, c};
use crate::messages::diag::Diagnostics;
use crate::resolve::output_sections::{Outputs, Std};

/// Where the thread-local storage's image is.
#[derive(Clone, Copy, Debug, Default)]
pub struct TlsSegment {
    /// Address of its first byte.
    pub start: u64,
    /// Address at which the thread pointer stands, relative to the image.
    pub thread_pointer: u64,
}

/// The shape of the file.
pub struct Segments {
    /// Program headers.
    pub phdrs: Vec<Phdr>,
    /// Output sections that are in the file, in order; their `header` is their index here plus one.
    pub sections: Vec<OutputId>,
    /// File offset of the section headers.
    pub shoff: u64,
    /// Size of the file.
    pub file_size: u64,
    /// Thread-local storage, if there is any.
    pub tls: Option<TlsSegment>,
    /// Address of the file's first byte.
    pub image_base: u64,
    /// The first section whose addresses go on behind the last one there is.
    pub wrapped: Option<OutputId>,
}

/// `p_flags` for a section's flags.
pub(crate) fn segment_flags(flags: u64) -> u32 {
    let mut bits = c::PF_R;
    if flags & shf::WRITE != 0 {
        bits |= c::PF_W;
    }
    if flags & shf::EXEC != 0 {
        bits |= c::PF_X;
    }
    bits
}

/// A program header that covers nothing yet.
pub(crate) fn phdr(p_type: u32, p_flags: u32, p_align: u64) -> Phdr {
    Phdr {
        p_type,
        p_flags,
        p_offset: 0,
        p_vaddr: 0,
        p_paddr: 0,
        p_filesz: 0,
        p_memsz: 0,
        p_align,
    }
}

/// Extends a segment by an output section.
pub(crate) fn cover(phdr: &mut Phdr, offset: u64, address: u64, file_size: u64, size: u64) {
    if { phdr.p_memsz } == 0 && { phdr.p_filesz } == 0 && { phdr.p_offset } == 0 && { phdr.p_vaddr }
        == 0
    {
        phdr.p_offset = offset;
        phdr.p_vaddr = address;
    }
    phdr.p_paddr = phdr.p_vaddr;
    phdr.p_memsz = address.wrapping_add(size).wrapping_sub(phdr.p_vaddr);
    if file_size > 0 {
        phdr.p_filesz = offset.wrapping_add(file_size).wrapping_sub(phdr.p_offset);
    }
}

/// One `PT_LOAD` as planned, before addresses.
struct Load {
    flags: u32,
    relro: bool,
    /// Address of the first section, where an option says it.
    start: Option<u64>,
    sections: Vec<OutputId>,
}

/// Where the image begins if nobody has said so: below the first segment for which an option has chosen an address, unless
/// that is beyond the pages that the headers and what follows them take at the usual place.
fn below_starts(outputs: &Outputs, loads: &[Load], usual: u64, headers: u64, page: u64) -> u64 {
    // What stands before the first segment with an address follows the headers, each segment on pages of its own and, in
    // the file, wherever the one before it ends.
    let before = loads.iter().take_while(|load| load.start.is_none());
    let extent = before.enumerate().fold(headers, |end, (number, load)| {
        let sections = || load.sections.iter().map(|id| &outputs.sections[id.index()]);
        let largest = sections().map(|section| section.align).max().unwrap_or(1);
        let start = match number {
            0 => end,
            _ => end
                .checked_next_multiple_of(page.max(largest))
                .unwrap_or(end)
                .saturating_add(page),
        };
        sections().fold(start, |end, section| {
            let start = end.checked_next_multiple_of(section.align.max(1));
            start.unwrap_or(end).saturating_add(section.size)
        })
    });
    let end = usual.saturating_add(extent);
    let end = end.checked_next_multiple_of(page).unwrap_or(end);
    match loads.iter().filter_map(|load| load.start).min() {
        // No page may be two segments'.
        Some(start) if start < end => (start & !(page - 1))
            .checked_sub(extent)
            .map_or(usual, |base| base & !(page - 1)),
        _ => usual,
    }
}

/// The size of a page, as the options have it.
fn page_size(args: &Args) -> u64 {
    let size = args.z.max_page_size.unwrap_or(0x1000);
    size.max(1).next_power_of_two()
}

/// Where an option has the image begin, and where it can: the headers are at the start of the file, and a segment's place
/// in the file is congruent to its address (gABI, "Program Loading"), with `-n` and `-N`, too. Only what is no ELF file may
/// begin anywhere.
pub fn given_base(args: &Args) -> Option<(u64, u64)> {
    let given = args.image_base.or(args.text_segment)?;
    let possible = match args.output_format {
        OutputFormat::Binary => given,
        _ => given & !(page_size(args) - 1),
    };
    Some((given, possible))
}

/// Gives every output section its address and place in the file.
pub fn assign(
    outputs: &mut Outputs,
    args: &Args,
    dynamic: bool,
    executable_stack: bool,
) -> Segments {
    let order = outputs.in_order();
    let relro_allowed = args.z.relro && args.magic == Magic::Normal;
    let page = page_size(args);
    let given_base = given_base(args).map(|(_, base)| base);
    let image_base = match (given_base, args.kind) {
        (Some(base), _) => base,
        (None, OutputKind::StaticExec | OutputKind::DynamicExec) => 0x40_0000,
        (None, _) => 0,
    };

    // `-N`: one segment for everything.
    let united = (args.magic == Magic::Omagic).then_some(c::PF_R | c::PF_W | c::PF_X);
    // Which sections are in the file, and which segments load them.
    let mut loads = vec![Load {
        flags: united.unwrap_or(c::PF_R),
        relro: false,
        start: None,
        sections: Vec::new(),
    }];
    for id in order.iter().copied() {
        let section = &outputs.sections[id.index()];
        if !section.is_alloc() {
            continue;
        }
        // The image of thread-local storage is one range: what nobody writes to is not taken out of it.
        let thread_local = section.flags & shf::TLS;
        let writable = if thread_local != 0 { shf::WRITE } else { 0 };
        let mut flags = segment_flags(section.flags | writable);
        if !args.rosegment && flags == c::PF_R {
            flags = c::PF_R | c::PF_X;
        }
        let flags = united.unwrap_or(flags);
        let relro = relro_allowed && section.relro;
        if section.size == 0 || section.is_tbss() {
            // It takes no address space and makes no segment of its own.
            if let Some(load) = loads.last_mut() {
                load.sections.push(id);
            }
            continue;
        }
        // Bytes cannot follow what has none in the file.
        let after_nobits = !section.is_nobits()
            && loads.last().is_some_and(|load| {
                let takes_space = |id: &&OutputId| {
                    let section = &outputs.sections[id.index()];
                    section.size > 0 && !section.is_tbss()
                };
                load.sections
                    .iter()
                    .rev()
                    .find(takes_space)
                    .is_some_and(|id| outputs.sections[id.index()].is_nobits())
            });
        let same = |load: &Load| load.flags == flags && load.relro == relro && !after_nobits;
        let start = args
            .section_starts
            .iter()
            .rev()
            .find(|(name, _)| **name == *section.name);
        let start = start.map(|(_, address)| *address);
        // The read-only data behind the code.
        let behind_code = loads.last().is_some_and(|load| load.flags & c::PF_X != 0);
        let start = start.or(args
            .rodata_segment
            .filter(|_| behind_code && flags == c::PF_R));
        match loads.last_mut() {
            Some(load) if same(load) && start.is_none() => load.sections.push(id),
            // The headers' segment takes what comes first.
            Some(load)
                if load.sections.is_empty() && loads_only_headers(load) && !args.rosegment =>
            {
                load.flags = flags;
                load.sections.push(id);
            }
            _ => loads.push(Load {
                flags,
                relro,
                start,
                sections: vec![id],
            }),
        }
    }

    let sizes: Vec<u64> = outputs
        .sections
        .iter()
        .map(|section| section.size)
        .collect();
    let in_file: Vec<OutputId> = order
        .iter()
        .copied()
        .filter(|id| sizes[id.index()] > 0)
        .collect();
    let has = |std: Std| sizes[std.id().index()] > 0;
    let notes = note_runs(outputs, &in_file);
    let has_tls = in_file
        .iter()
        .any(|id| outputs.sections[id.index()].flags & shf::TLS != 0);
    let has_relro = loads.iter().any(|load| load.relro);
    let mut count = loads.len() + notes.len() + usize::from(args.z.gnu_stack);
    count += if has(Std::Interp) { 2 } else { 0 };
    count += usize::from(dynamic) + usize::from(has_tls) + usize::from(has_relro);
    count += usize::from(has(Std::EhFrameHdr)) + usize::from(has(Std::NoteProperty));
    count += usize::from(has(Std::Sframe));
    let headers = (size_of::<Ehdr>() + count * size_of::<Phdr>()) as u64;
    let image_base = match given_base {
        Some(base) => base,
        None => below_starts(outputs, &loads, image_base, headers, page),
    };

    // Addresses and offsets.
    // Addresses that options give may be any, so that what follows may be beyond the last one.
    let mut wrapped = None;
    let mut address = image_base.wrapping_add(headers);
    if address < image_base {
        wrapped = in_file.first().copied();
    }
    let mut offset = headers;
    let mut phdrs_load = Vec::new();
    for (number, load) in loads.iter().enumerate() {
        // What is aligned to more than a page stays so only if the whole image is loaded at such an address.
        let largest = load.sections.iter().map(|id| &outputs.sections[id.index()]);
        let largest = largest
            .filter(|section| section.size > 0)
            .map(|section| section.align);
        let largest = largest.max().unwrap_or(1);
        let page = largest.max(page);
        // `-n` and `-N` promise no more than what the sections need. The pages are apart all the same, in memory.
        let align = match args.magic {
            Magic::Normal => page,
            Magic::Nmagic | Magic::Omagic => largest,
        };
        let mut segment = phdr(c::PT_LOAD, load.flags, align);
        if number == 0 {
            cover(&mut segment, 0, image_base, headers, headers);
            segment.p_vaddr = image_base;
            segment.p_paddr = image_base;
        } else {
            let code = load.flags & c::PF_X != 0
                || phdrs_load
                    .last()
                    .is_some_and(|l: &Phdr| { l.p_flags } & c::PF_X != 0);
            let own_pages = match args.z.separate {
                _ if args.magic != Magic::Normal => false,
                SeparateCode::Code => code,
                SeparateCode::None => false,
                SeparateCode::All => true,
            };
            if own_pages {
                offset = offset.next_multiple_of(page);
            }
            address = match load.start {
                // The place in the file follows the address.
                Some(start) => {
                    offset += start.wrapping_sub(offset) % page;
                    start
                }
                None => {
                    let next = align_up(address, page).wrapping_add(offset % page);
                    if next < address && wrapped.is_none() {
                        wrapped = load.sections.first().copied();
                    }
                    next
                }
            };
        }
        // The image of thread-local storage begins at its largest alignment.
        let tls_align = load
            .sections
            .iter()
            .map(|id| &outputs.sections[id.index()])
            .filter(|section| section.flags & shf::TLS != 0)
            .map(|section| section.align)
            .max()
            .unwrap_or(1);
        let mut first_tls = true;
        let mut tbss_end = 0;
        for id in &load.sections {
            let section = &mut outputs.sections[id.index()];
            let mut align = section.align.max(1);
            if section.flags & shf::TLS != 0 && section.size > 0 && std::mem::take(&mut first_tls) {
                align = align.max(tls_align);
            }
            if section.is_tbss() {
                // Takes no addresses: what follows starts where it starts.
                let start = if tbss_end > address {
                    tbss_end
                } else {
                    address
                };
                section.address = align_up(start, align);
                section.offset = offset.wrapping_add(section.address.wrapping_sub(address));
                tbss_end = section.address.wrapping_add(section.size);
                continue;
            }
            let aligned = align_up(address, align);
            // What comes behind an image has an address as well.
            let end = aligned.checked_add(section.size);
            if aligned < address || end.is_none_or(|end| end > u64::MAX - page) {
                wrapped = wrapped.or(Some(*id));
            }
            offset += aligned.wrapping_sub(address);
            address = aligned;
            section.address = address;
            section.offset = offset;
            let file_size = section.file_size();
            if section.size > 0 {
                cover(&mut segment, offset, address, file_size, section.size);
            }
            address = address.wrapping_add(section.size);
            offset += file_size;
        }
        // The headers stand where the image begins, which may be less aligned than what is behind them. A segment that
        // says otherwise is not loaded at all.
        let distance = segment.p_vaddr.wrapping_sub(segment.p_offset);
        if !distance.is_multiple_of(segment.p_align) {
            segment.p_align = 1 << distance.trailing_zeros();
        }
        // A segment without bytes of its own (only `.tbss`) is not loaded.
        phdrs_load.push(segment);
    }

    // Addresses that options gave may be in any order, the segments must be in theirs.
    phdrs_load.sort_by_key(|load| load.p_vaddr);

    // What is not loaded comes behind.
    for id in &in_file {
        let section = &mut outputs.sections[id.index()];
        if !section.is_alloc() {
            offset = offset.next_multiple_of(section.align.max(1));
            section.offset = offset;
            section.address = 0;
            offset += section.file_size();
        }
    }
    let shoff = offset.next_multiple_of(8);
    let header_count = match args.z.section_header {
        true => in_file.len() as u64 + 1,
        false => 0,
    };
    let file_size = shoff + header_count * size_of::<Shdr>() as u64;
    for (i, id) in in_file.iter().enumerate() {
        outputs.sections[id.index()].header = i as u32 + 1;
    }

    let mut phdrs = Vec::with_capacity(count);
    let single = |std: Std, p_type: u32| {
        let section = outputs.std(std);
        let mut segment = phdr(p_type, segment_flags(section.flags), section.align);
        cover(
            &mut segment,
            section.offset,
            section.address,
            section.file_size(),
            section.size,
        );
        segment
    };
    if has(Std::Interp) {
        let mut own = phdr(c::PT_PHDR, c::PF_R, 8);
        let size = (count * size_of::<Phdr>()) as u64;
        let start = size_of::<Ehdr>() as u64;
        cover(&mut own, start, image_base.wrapping_add(start), size, size);
        phdrs.push(own);
        phdrs.push(single(Std::Interp, c::PT_INTERP));
    }
    phdrs.extend(&phdrs_load);
    if dynamic {
        phdrs.push(single(Std::Dynamic, c::PT_DYNAMIC));
    }
    for run in &notes {
        let mut segment = phdr(c::PT_NOTE, c::PF_R, outputs.sections[run[0].index()].align);
        for id in run {
            let section = &outputs.sections[id.index()];
            cover(
                &mut segment,
                section.offset,
                section.address,
                section.file_size(),
                section.size,
            );
        }
        phdrs.push(segment);
    }
    if has(Std::NoteProperty) {
        phdrs.push(single(Std::NoteProperty, c::PT_GNU_PROPERTY));
    }
    let mut tls = None;
    if has_tls {
        let mut segment = phdr(c::PT_TLS, c::PF_R, 1);
        for id in &in_file {
            let section = &outputs.sections[id.index()];
            if section.flags & shf::TLS != 0 {
                cover(
                    &mut segment,
                    section.offset,
                    section.address,
                    section.file_size(),
                    section.size,
                );
                segment.p_align = { segment.p_align }.max(section.align);
            }
        }
        tls = Some(TlsSegment {
            start: segment.p_vaddr,
            thread_pointer: align_up(
                { segment.p_vaddr }.wrapping_add(segment.p_memsz),
                segment.p_align,
            ),
        });
        phdrs.push(segment);
    }
    if has(Std::EhFrameHdr) {
        phdrs.push(single(Std::EhFrameHdr, c::PT_GNU_EH_FRAME));
    }
    if has(Std::Sframe) {
        phdrs.push(single(Std::Sframe, c::PT_GNU_SFRAME));
    }
    let stack_flags = c::PF_R | c::PF_W | if executable_stack { c::PF_X } else { 0 };
    let mut stack = phdr(c::PT_GNU_STACK, stack_flags, 0x10);
    stack.p_memsz = args.z.stack_size.unwrap_or(0);
    if args.z.gnu_stack {
        phdrs.push(stack);
    }
    if has_relro {
        let mut segment = phdr(c::PT_GNU_RELRO, c::PF_R, 1);
        for load in loads.iter().filter(|load| load.relro) {
            for id in &load.sections {
                let section = &outputs.sections[id.index()];
                if section.size > 0 && !section.is_tbss() {
                    cover(
                        &mut segment,
                        section.offset,
                        section.address,
                        section.file_size(),
                        section.size,
                    );
                }
            }
        }
        // The dynamic linker protects whole pages; nothing else is on the last one. It knows pages as small as the
        // machine has them, and nothing may be mapped beyond.
        let small = args.z.common_page_size.unwrap_or(0x1000).clamp(1, page);
        let end = { segment.p_vaddr }.wrapping_add(segment.p_memsz);
        let end = align_up(end, small.next_power_of_two());
        segment.p_memsz = end.wrapping_sub(segment.p_vaddr);
        contain(&mut phdrs, segment);
        phdrs.push(segment);
    }
    debug_assert_eq!(phdrs.len(), count);
    Segments {
        phdrs,
        sections: in_file,
        shoff,
        file_size,
        tls,
        image_base,
        wrapped,
    }
}

/// Makes the segment that is loaded and holds the end of what becomes read-only as long as that, whose last page is of no
/// use to anybody else: what is protected is to be something that is mapped.
pub(crate) fn contain(phdrs: &mut [Phdr], relro: Phdr) {
    let end = |phdr: &Phdr| { phdr.p_vaddr }.wrapping_add(phdr.p_memsz);
    let holds = |load: &&mut Phdr| {
        let (kind, start, size) = (load.p_type, load.p_vaddr, load.p_memsz);
        kind == c::PT_LOAD && start < end(&relro) && size > 0
    };
    let last = phdrs.iter_mut().filter(holds);
    if let Some(load) = last.max_by_key(|load| load.p_vaddr) {
        let wanted = end(&relro).wrapping_sub(load.p_vaddr);
        load.p_memsz = { load.p_memsz }.max(wanted);
    }
}

/// The next multiple of a power of two, beginning again at 0 behind the last one.
fn align_up(value: u64, align: u64) -> u64 {
    value.wrapping_add(align - 1) & !(align - 1)
}

/// Reports two segments that would be loaded at the same addresses: the options that give sections their addresses
/// contradict each other.
pub fn report_overlap(phdrs: &[Phdr], diag: &Diagnostics) {
    let loads: Vec<Phdr> = phdrs
        .iter()
        .copied()
        .filter(|phdr| { phdr.p_type } == c::PT_LOAD && { phdr.p_memsz } > 0)
        .collect();
    let end = |phdr: &Phdr| { phdr.p_vaddr }.checked_add(phdr.p_memsz);
    let overlap = loads
        .windows(2)
        .find(|pair| end(&pair[0]).is_none_or(|end| end > { pair[1].p_vaddr }));
    if let Some([first, second]) = overlap {
        diag.pardonable(format!(
            "segments overlap: {:#x}, {:#x} bytes, and {:#x}, {:#x} bytes",
            { first.p_vaddr },
            { first.p_memsz },
            { second.p_vaddr },
            { second.p_memsz }
        ));
    }
}

fn loads_only_headers(load: &Load) -> bool {
    load.sections.is_empty()
}

/// Runs of note sections with the same alignment: one `PT_NOTE` each.
fn note_runs(outputs: &Outputs, in_file: &[OutputId]) -> Vec<Vec<OutputId>> {
    let mut runs: Vec<Vec<OutputId>> = Vec::new();
    let mut previous: Option<OutputId> = None;
    for id in in_file {
        let section = &outputs.sections[id.index()];
        if section.sh_type != c::SHT_NOTE || !section.is_alloc() {
            previous = None;
            continue;
        }
        let same = previous.is_some_and(|last| {
            let last = &outputs.sections[last.index()];
            last.align == section.align && (last.flags ^ section.flags) & shf::LOADING == 0
        });
        match runs.last_mut() {
            Some(run) if same => run.push(*id),
            _ => runs.push(vec![*id]),
        }
        previous = Some(*id);
    }
    runs
}
