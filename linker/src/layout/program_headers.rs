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
use crate::layout::segment_table::{
    Covered, Extent, Table, TlsSegment, align_up, cover, covering, own_header, page_size, phdr,
    segment_flags, size_of_headers, stack, thread_storage,
};
use crate::messages::diag::Diagnostics;
use crate::resolve::output_sections::{OutputSection, Outputs, Std};

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
    let loads = loads(outputs, args, &order);
    let in_file: Vec<OutputId> = order
        .into_iter()
        .filter(|id| outputs.sections[id.index()].size > 0)
        .collect();
    let notes = note_runs(outputs, &in_file);
    let special = Special::new(outputs, args, &loads, &in_file, dynamic);
    let count = loads.len() + notes.len() + special.count();
    let headers = size_of_headers(count);
    let image_base = match given_base(args) {
        Some((_, base)) => base,
        None => {
            let usual = match args.kind {
                OutputKind::StaticExec | OutputKind::DynamicExec => 0x40_0000,
                _ => 0,
            };
            below_starts(outputs, &loads, usual, headers, page_size(args))
        }
    };

    // Addresses and offsets. Addresses that options give may be any, so that what follows may be beyond the last one.
    let mut cursor = Cursor {
        args,
        address: image_base.wrapping_add(headers),
        offset: headers,
        wrapped: None,
    };
    if cursor.address < image_base {
        cursor.wrapped = in_file.first().copied();
    }
    let mut loaded = Vec::with_capacity(loads.len());
    for load in &loads {
        loaded.push(match loaded.last() {
            None => cursor.place_headers(outputs, load, image_base, headers),
            Some(before) => cursor.place_load(outputs, load, before),
        });
    }
    // Addresses that options gave may be in any order, the segments must be in theirs.
    loaded.sort_by_key(|load| load.p_vaddr);
    cursor.place_unloaded(outputs, &in_file);

    let shoff = cursor.offset.next_multiple_of(8);
    let header_count = match args.z.section_header {
        true => in_file.len() as u64 + 1,
        false => 0,
    };
    for (i, id) in in_file.iter().enumerate() {
        outputs.sections[id.index()].header = i as u32 + 1;
    }
    let single = |is_there: bool, std: Std, p_type: u32| {
        let section = outputs.std(std);
        let empty = || phdr(p_type, segment_flags(section.flags), section.align);
        is_there.then(|| covering(empty(), [section]))
    };
    let tls = special.tls.then(|| {
        let sections = in_file.iter().map(|id| &outputs.sections[id.index()]);
        thread_storage(sections.filter(|section| section.flags & shf::TLS != 0))
    });
    let table = Table {
        own: special
            .interpreter
            .then(|| own_header(image_base, headers - size_of::<Ehdr>() as u64)),
        interpreter: single(special.interpreter, Std::Interp, c::PT_INTERP),
        loaded,
        dynamic: single(dynamic, Std::Dynamic, c::PT_DYNAMIC),
        notes: notes
            .iter()
            .map(|run| {
                let sections = || run.iter().map(|id| &outputs.sections[id.index()]);
                let align = sections().map(|section| section.align).next();
                let empty = phdr(c::PT_NOTE, c::PF_R, align.unwrap_or(1));
                covering(empty, sections())
            })
            .collect(),
        property: single(special.property, Std::NoteProperty, c::PT_GNU_PROPERTY),
        tls: tls.map(|(segment, _)| segment),
        frames: single(special.frames, Std::EhFrameHdr, c::PT_GNU_EH_FRAME),
        sframe: single(special.sframe, Std::Sframe, c::PT_GNU_SFRAME),
        stack: special.stack.then(|| stack(args, executable_stack)),
        relro: special.relro.then(|| relro(outputs, args, &loads)),
    };
    let phdrs = table.into_phdrs();
    debug_assert_eq!(phdrs.len(), count);
    Segments {
        phdrs,
        sections: in_file,
        shoff,
        file_size: shoff + header_count * size_of::<Shdr>() as u64,
        tls: tls.map(|(_, tls)| tls),
        image_base,
        wrapped: cursor.wrapped,
    }
}

/// Which segments there are besides the loaded ones and those of notes: the size of the headers depends on it, and on that
/// where everything is.
struct Special {
    interpreter: bool,
    dynamic: bool,
    property: bool,
    tls: bool,
    frames: bool,
    sframe: bool,
    stack: bool,
    relro: bool,
}

impl Special {
    fn new(
        outputs: &Outputs,
        args: &Args,
        loads: &[Load],
        in_file: &[OutputId],
        dynamic: bool,
    ) -> Special {
        let has = |std: Std| outputs.std(std).size > 0;
        let is_tls = |id: &OutputId| outputs.sections[id.index()].flags & shf::TLS != 0;
        Special {
            interpreter: has(Std::Interp),
            dynamic,
            property: has(Std::NoteProperty),
            tls: in_file.iter().any(is_tls),
            frames: has(Std::EhFrameHdr),
            sframe: has(Std::Sframe),
            stack: args.z.gnu_stack,
            relro: loads.iter().any(|load| load.relro),
        }
    }

    /// How many program headers they have. Where there is an interpreter, the headers have one, too.
    fn count(&self) -> usize {
        let single = [
            self.interpreter,
            self.interpreter,
            self.dynamic,
            self.property,
            self.tls,
            self.frames,
            self.sframe,
            self.stack,
            self.relro,
        ];
        single.into_iter().filter(|is_there| *is_there).count()
    }
}

/// Which sections are loaded together. The first segment has the headers.
fn loads(outputs: &Outputs, args: &Args, order: &[OutputId]) -> Vec<Load> {
    let relro_allowed = args.z.relro && args.magic == Magic::Normal;
    // `-N`: one segment for everything.
    let united = (args.magic == Magic::Omagic).then_some(c::PF_R | c::PF_W | c::PF_X);
    let mut loads = vec![Load {
        flags: united.unwrap_or(c::PF_R),
        relro: false,
        start: None,
        sections: Vec::new(),
    }];
    let mut waiting = Vec::new();
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
        let is_like = |load: &Load| load.flags == flags && load.relro == relro;
        if section.size == 0 || section.is_tbss() {
            // It takes no address space and makes no segment of its own, but stands with what is like it.
            match loads.last_mut() {
                Some(load) if waiting.is_empty() && is_like(load) => load.sections.push(id),
                _ => waiting.push(id),
            }
            continue;
        }
        // Bytes cannot follow what has none in the file.
        let after_nobits = !section.is_nobits()
            && loads
                .last()
                .is_some_and(|load| ends_without_bytes(outputs, load));
        let same = |load: &Load| is_like(load) && !after_nobits;
        let given = args.section_starts.iter().rev();
        let start = given
            .clone()
            .find(|(name, _)| **name == *section.name)
            .map(|(_, address)| *address);
        // The read-only data behind the code.
        let behind_code = loads.last().is_some_and(|load| load.flags & c::PF_X != 0);
        let start = start.or(args
            .rodata_segment
            .filter(|_| behind_code && flags == c::PF_R));
        waiting.push(id);
        let sections = std::mem::take(&mut waiting);
        match loads.last_mut() {
            Some(load) if same(load) && start.is_none() => load.sections.extend(sections),
            // The headers' segment takes what comes first.
            Some(load) if load.sections.is_empty() && !args.rosegment => {
                load.flags = flags;
                load.sections.extend(sections);
            }
            _ => loads.push(Load {
                flags,
                relro,
                start,
                sections,
            }),
        }
    }
    if let Some(load) = loads.last_mut() {
        load.sections.extend(waiting);
    }
    loads
}

/// Whether the last section of a segment that takes space has no bytes in the file.
fn ends_without_bytes(outputs: &Outputs, load: &Load) -> bool {
    let sections = load.sections.iter().rev();
    let mut sections = sections.map(|id| &outputs.sections[id.index()]);
    sections
        .find(|section| section.size > 0 && !section.is_tbss())
        .is_some_and(OutputSection::is_nobits)
}

/// How far the image is laid out.
struct Cursor<'c> {
    args: &'c Args,
    /// The next address.
    address: u64,
    /// The next place in the file.
    offset: u64,
    /// The first section whose addresses go on behind the last one there is.
    wrapped: Option<OutputId>,
}

impl Cursor<'_> {
    /// Places the first segment, which begins with the headers.
    fn place_headers(
        &mut self,
        outputs: &mut Outputs,
        load: &Load,
        image_base: u64,
        headers: u64,
    ) -> Phdr {
        let (_, align) = self.alignments(outputs, load);
        let mut segment = phdr(c::PT_LOAD, load.flags, align);
        cover(&mut segment, 0, image_base, headers, headers);
        segment.p_vaddr = image_base;
        segment.p_paddr = image_base;
        self.place_sections(outputs, load, segment)
    }

    /// Places a segment behind the one `before`.
    fn place_load(&mut self, outputs: &mut Outputs, load: &Load, before: &Phdr) -> Phdr {
        let (page, align) = self.alignments(outputs, load);
        let segment = phdr(c::PT_LOAD, load.flags, align);
        let code = (load.flags | before.p_flags) & c::PF_X != 0;
        let own_pages = match self.args.z.separate {
            _ if self.args.magic != Magic::Normal => false,
            SeparateCode::Code => code,
            SeparateCode::None => false,
            SeparateCode::All => true,
        };
        if own_pages {
            self.offset = self.offset.next_multiple_of(page);
            self.address = align_up(self.address, page);
        }
        self.address = match load.start {
            // The place in the file follows the address.
            Some(start) => {
                self.offset += start.wrapping_sub(self.offset) % page;
                start
            }
            None => {
                // At the same place in the page, and so in the file, but for what had no bytes there.
                let small = page_size(self.args);
                let within = match (self.address ^ self.offset).is_multiple_of(small) {
                    true => self.offset % page,
                    false => self.address % small,
                };
                let next = align_up(self.address, page).wrapping_add(within);
                self.offset += next.wrapping_sub(self.offset) % page;
                if next < self.address && self.wrapped.is_none() {
                    self.wrapped = load.sections.first().copied();
                }
                next
            }
        };
        self.place_sections(outputs, load, segment)
    }

    /// The alignment of a segment's place, and the one that its header promises.
    fn alignments(&self, outputs: &Outputs, load: &Load) -> (u64, u64) {
        // What is aligned to more than a page stays so only if the whole image is loaded at such an address.
        let sections = load.sections.iter().map(|id| &outputs.sections[id.index()]);
        let filled = sections.filter(|section| section.size > 0);
        let largest = filled.map(|section| section.align).max().unwrap_or(1);
        let page = largest.max(page_size(self.args));
        // `-n` and `-N` promise no more than what the sections need. The pages are apart all the same, in memory.
        match self.args.magic {
            Magic::Normal => (page, page),
            Magic::Nmagic | Magic::Omagic => (page, largest),
        }
    }

    /// Places the sections of a segment, which it is extended by.
    fn place_sections(&mut self, outputs: &mut Outputs, load: &Load, mut segment: Phdr) -> Phdr {
        // The image of thread-local storage begins at its largest alignment.
        let sections = load.sections.iter().map(|id| &outputs.sections[id.index()]);
        let tls_align = sections
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
                // Takes no addresses: what follows starts where the first one starts.
                let is_first = tbss_end <= self.address;
                let start = if is_first { self.address } else { tbss_end };
                let address = align_up(start, align);
                section.address = address;
                section.offset = (self.offset).wrapping_add(address.wrapping_sub(self.address));
                tbss_end = address.wrapping_add(section.size);
                if is_first {
                    (self.address, self.offset) = (address, section.offset);
                }
                continue;
            }
            let aligned = align_up(self.address, align);
            // What is not there does not move what is.
            if section.size == 0 && section.room == 0 {
                section.address = aligned;
                section.offset = self.offset.wrapping_add(aligned.wrapping_sub(self.address));
                continue;
            }
            // What comes behind an image has an address as well.
            let end = aligned.checked_add(section.size + section.room);
            let last = u64::MAX - segment.p_align.max(page_size(self.args));
            if aligned < self.address || end.is_none_or(|end| end > last) {
                self.wrapped = self.wrapped.or(Some(*id));
            }
            self.offset += aligned.wrapping_sub(self.address);
            self.address = aligned;
            section.address = aligned;
            section.offset = self.offset;
            // Room stands in the file, too, and is loaded.
            let size = section.size + section.room;
            let file_size = match section.is_nobits() {
                true => 0,
                false => size,
            };
            if size > 0 {
                cover(&mut segment, self.offset, aligned, file_size, size);
            }
            self.address = aligned.wrapping_add(size);
            self.offset += file_size;
        }
        // The headers stand where the image begins, which may be less aligned than what is behind them. A segment that
        // says otherwise is not loaded at all.
        let distance = segment.p_vaddr.wrapping_sub(segment.p_offset);
        if !distance.is_multiple_of(segment.p_align) {
            segment.p_align = 1 << distance.trailing_zeros();
        }
        // A segment without bytes of its own (only `.tbss`) is not loaded.
        segment
    }

    /// Places what is not loaded behind the rest.
    fn place_unloaded(&mut self, outputs: &mut Outputs, in_file: &[OutputId]) {
        for id in in_file {
            let section = &mut outputs.sections[id.index()];
            if !section.is_alloc() {
                self.offset = self.offset.next_multiple_of(section.align.max(1));
                section.offset = self.offset;
                section.address = 0;
                self.offset += section.file_size();
            }
        }
    }
}

/// The segment of what becomes read-only after relocation.
fn relro(outputs: &Outputs, args: &Args, loads: &[Load]) -> Phdr {
    let loads = loads.iter().filter(|load| load.relro);
    let sections = loads.flat_map(|load| load.sections.iter());
    let sections = sections.map(|id| &outputs.sections[id.index()]);
    let sections = sections.filter(|section| section.size > 0 && !section.is_tbss());
    let mut segment = covering(phdr(c::PT_GNU_RELRO, c::PF_R, 1), sections);
    // The dynamic linker protects whole pages; nothing else is on the last one. It knows pages as small as the machine has
    // them, and nothing may be mapped beyond.
    let page = page_size(args);
    let small = args.z.common_page_size.unwrap_or(0x1000).clamp(1, page);
    let end = { segment.p_vaddr }.wrapping_add(segment.p_memsz);
    let end = align_up(end, small.next_power_of_two());
    segment.p_memsz = end.wrapping_sub(segment.p_vaddr);
    segment
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

impl Covered for &OutputSection<'_> {
    fn position(&self) -> Extent {
        Extent {
            offset: self.offset,
            address: self.address,
            file_size: self.file_size(),
            size: self.size,
            align: self.align,
        }
    }
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
