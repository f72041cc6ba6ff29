//! Program headers and places in the file for sections that a script has given addresses.
//!
//! Without `PHDRS`, segments follow from the sections as with GNU ld: in the order of their load addresses, a new
//! `PT_LOAD` begins where the memory region or the distance between address and load address changes, where pages would be skipped, where
//! bytes follow what has none, and where code or writable data begins on another page. The headers are loaded if there is
//! room for them before the first section.

use crate::args::{Args, Magic, SeparateCode};
use crate::base::ids::OutputId;
use crate::elf::shf;
use crate::elf::{Ehdr, Phdr, c};
use crate::layout::segment_table::{
    Covered, Extent, Table, TlsSegment, align_up, cover, covering, own_header, page_size, phdr,
    segment_flags, size_of_headers, stack, thread_storage,
};
use crate::messages::diag::Diagnostics;
use crate::script::{EvalError, Expr, ProgramHeader, Script};

/// A section on its way into segments.
#[derive(Clone, Debug)]
pub(super) struct Section<'s> {
    pub output: OutputId,
    pub name: Vec<u8>,
    pub sh_type: u32,
    pub flags: u64,
    pub address: u64,
    pub load_address: u64,
    pub size: u64,
    pub align: u64,
    pub entsize: u64,
    pub bits: bool,
    /// It has none because the script says so.
    pub no_load: bool,
    /// The memory region that it runs in, by number.
    pub region: usize,
    /// `:phdr …`, its own or that of a section before it.
    pub phdrs: &'s [Vec<u8>],
    pub offset: u64,
}

impl Section<'_> {
    fn is_alloc(&self) -> bool {
        self.flags & shf::ALLOC != 0
    }
    fn is_tbss(&self) -> bool {
        self.flags & shf::TLS != 0 && !self.bits
    }
    /// Bytes of address space.
    fn extent(&self) -> u64 {
        if self.is_tbss() { 0 } else { self.size }
    }
    fn file_size(&self) -> u64 {
        if self.bits { self.size } else { 0 }
    }
}

impl Covered for &Section<'_> {
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

/// A range of addresses: of something that has a segment of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    pub address: u64,
    pub size: u64,
    pub align: u64,
    pub flags: u64,
}

/// What has segments of its own, where it is in the output.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Special {
    pub interpreter: Option<Range>,
    pub dynamic: Option<Range>,
    pub property: Option<Range>,
    pub frames: Option<Range>,
    /// `.sframe`.
    pub sframe: Option<Range>,
    /// What becomes read-only.
    pub relro: Option<Protected>,
    pub executable_stack: bool,
    /// The script has the headers stand before the first section (`SIZEOF_HEADERS`).
    pub headers_loaded: bool,
}

/// What becomes read-only after relocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protected {
    /// Its start.
    pub start: u64,
    /// Where the script says that it ends.
    pub end: u64,
    /// The end of what is protected: that of a page, if there is nothing else on it.
    pub protected_end: u64,
    /// What follows begins on another page, as it is. It is a segment of its own then: the file need not have a page's worth
    /// of bytes between the two.
    pub apart: bool,
}

/// A loaded segment: indices of its sections, and from which offset in the file on it begins with the headers, if it
/// does. One without sections has nothing but the headers, and these addresses.
struct Load {
    sections: Vec<usize>,
    address: u64,
    load_address: u64,
    headers: Option<u64>,
    flags: u32,
}

/// The shape of the file.
pub(super) struct Shape {
    pub phdrs: Vec<Phdr>,
    pub tls: Option<TlsSegment>,
    pub image_base: u64,
    /// Where the file goes on.
    pub end: u64,
}

/// Bytes of the headers, given what there is so far. With a segment of their own if there may be one: whether there is
/// room for it depends on what `SIZEOF_HEADERS` says.
pub(super) fn headers_size(
    args: &Args,
    sections: &[Section],
    special: &Special,
    script: Option<&[ProgramHeader]>,
) -> u64 {
    match script {
        Some(headers) => size_of_headers(headers.len()),
        None => {
            let order = load_order(sections);
            let begins_with_code = order
                .first()
                .is_some_and(|first| sections[*first].flags & shf::EXEC != 0);
            let own = args.magic == Magic::Normal
                && args.z.separate != SeparateCode::None
                && args.rosegment
                && begins_with_code;
            let loads = map(args, sections, special, &order, u64::MAX).len();
            size_of_headers(loads + usize::from(own) + count_special(args, sections, special))
        }
    }
}

/// The loaded segments, and the size of the headers. If there is room for them, the headers are loaded: either with the
/// first segment, or, before code, by one of their own, which must have room for its own header. Where there is none on the
/// first section's page they have the pages before it, if the script has counted them, as with GNU ld.
fn map_all(
    args: &Args,
    sections: &[Section],
    special: &Special,
    order: &[usize],
) -> (Vec<Load>, u64) {
    let others = count_special(args, sections, special);
    let mut special = *special;
    let counted = std::mem::take(&mut special.headers_loaded);
    let without = map(args, sections, &special, order, u64::MAX).len() + others;
    let has_own = |loads: &[Load]| loads.first().is_some_and(|load| load.sections.is_empty());
    let with_own = size_of_headers(without + 1);
    let loads = map(args, sections, &special, order, with_own);
    if has_own(&loads) {
        return (loads, with_own);
    }
    let headers = size_of_headers(without);
    let mut loads = map(args, sections, &special, order, headers);
    if has_own(&loads) {
        loads.remove(0);
    } else if counted && loads.first().is_some_and(|load| load.headers.is_none()) {
        special.headers_loaded = true;
        loads = map(args, sections, &special, order, with_own);
        if has_own(&loads) {
            return (loads, with_own);
        }
    }
    (loads, headers)
}

fn count_special(args: &Args, sections: &[Section], special: &Special) -> usize {
    let tls = sections
        .iter()
        .any(|section| section.is_alloc() && section.flags & shf::TLS != 0);
    2 * usize::from(special.interpreter.is_some())
        + usize::from(special.dynamic.is_some())
        + usize::from(special.property.is_some())
        + usize::from(special.frames.is_some())
        + usize::from(special.sframe.is_some())
        + usize::from(special.relro.is_some())
        + usize::from(tls)
        + note_runs(sections).len()
        + usize::from(args.z.gnu_stack)
}

/// Indices of the loaded sections, by load address.
fn load_order(sections: &[Section]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sections.len())
        .filter(|i| sections[*i].is_alloc())
        .collect();
    order.sort_by_key(|i| {
        let section = &sections[*i];
        let last = !section.bits && !section.is_tbss();
        (section.load_address, section.address, last, *i)
    });
    order
}

/// Divides the sections into segments. `headers` is the size of the headers.
fn map(
    args: &Args,
    sections: &[Section],
    special: &Special,
    order: &[usize],
    headers: u64,
) -> Vec<Load> {
    let page = page_size(args);
    let paged = args.magic == Magic::Normal;
    let separate = args.z.separate != SeparateCode::None;
    let down = |address: u64| address & !(page - 1);
    let mut loads: Vec<Load> = Vec::new();
    for i in order {
        let section = &sections[*i];
        let code = section.flags & shf::EXEC != 0;
        let writable = section.flags & shf::WRITE != 0;
        let flags = match args.magic {
            Magic::Omagic => c::PF_R | c::PF_W | c::PF_X,
            _ => segment_flags(section.flags),
        };
        let (flags, code) = match flags {
            c::PF_R if !args.rosegment => (c::PF_R | c::PF_X, true),
            flags => (flags, code),
        };
        let fits = loads.last().is_some_and(|load| {
            let Some(last) = load.sections.last().map(|last| &sections[*last]) else {
                return false;
            };
            let last_end = last.load_address.wrapping_add(last.extent());
            let distance = |s: &Section| s.load_address.wrapping_sub(s.address);
            let same_page = down(last_end.wrapping_sub(1)) == down(section.load_address);
            // The next page in memory, and the same place in the file: that is where another segment begins.
            let next = align_up(last_end, page).wrapping_add(last_end & (page - 1));
            let steps = align_up(next, section.align.max(1)) == section.load_address;
            // Thread-local zeros and what is empty take no addresses: where they are said to stand may be behind the region that
            // they are of.
            let mut before = load.sections.iter().rev().map(|before| &sections[*before]);
            let last_of_memory = before.find(|before| before.extent() > 0);
            let memory_end = last_of_memory.map_or(last_end, |last| {
                last.load_address.wrapping_add(last.extent())
            });
            let leaves_relro = special.relro.is_some_and(|relro| {
                let was_in_it = last_of_memory.is_some_and(|last| last.address < relro.end);
                relro.apart && was_in_it && section.address >= relro.end
            });
            match () {
                () if leaves_relro && section.extent() > 0 => {
                    down(memory_end.wrapping_sub(1)) == down(section.load_address)
                }
                () if distance(last) != distance(section) => false,
                // Regions are different memories, be they side by side.
                () if last.region != section.region => false,
                () if section.load_address < last_end || last_end < last.load_address => false,
                () if paged
                    && last_end
                        .checked_next_multiple_of(page)
                        .is_none_or(|end| end < down(section.load_address)) =>
                {
                    false
                }
                () if !last.bits && !last.is_tbss() && section.bits => same_page,
                () if !paged => true,
                () if steps && flags != load.flags && section.extent() > 0 => same_page,
                // What shares a page is mapped once only.
                () if separate && code != (load.flags & c::PF_X != 0) => same_page,
                () if writable && load.flags & c::PF_W == 0 => same_page,
                () => true,
            }
        });
        match loads.last_mut() {
            Some(load) if fits => {
                load.sections.push(*i);
                load.flags |= flags;
            }
            _ => {
                // The headers are loaded if there is room for them on the first segment's first page, or, if the script has
                // counted them, on the pages before.
                let on_page = section.address & (page - 1);
                let lowest = section.address.min(section.load_address);
                let fits = headers <= on_page;
                let before = special.headers_loaded && headers <= lowest;
                let with_headers = loads.is_empty()
                    && paged
                    && (fits && headers <= section.load_address || before);
                let room = match fits {
                    true => on_page,
                    false => section.address - down(section.address - headers.min(lowest)),
                };
                // They are no code.
                let own = with_headers && (separate && code && args.rosegment || !fits);
                if own {
                    loads.push(Load {
                        sections: Vec::new(),
                        address: section.address - room,
                        load_address: section.load_address.wrapping_sub(room),
                        headers: Some(0),
                        flags: c::PF_R,
                    });
                }
                loads.push(Load {
                    sections: vec![*i],
                    address: section.address,
                    load_address: section.load_address,
                    headers: (with_headers && !own).then_some(0),
                    flags,
                });
            }
        }
    }
    loads
}

/// Runs of note sections of one alignment: a `PT_NOTE` each.
fn note_runs(sections: &[Section]) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut open = false;
    for (i, section) in sections.iter().enumerate() {
        if section.sh_type != c::SHT_NOTE || !section.is_alloc() || section.size == 0 {
            open &= section.size == 0;
            continue;
        }
        let goes_on = |run: &Vec<usize>| {
            run.last().is_some_and(|last| {
                let last = &sections[*last];
                last.align == section.align
                    && last
                        .address
                        .wrapping_add(last.size)
                        .next_multiple_of(section.align.max(1))
                        == section.address
            })
        };
        match runs.last_mut() {
            Some(run) if open && goes_on(run) => run.push(i),
            _ => runs.push(vec![i]),
        }
        open = true;
    }
    runs
}

/// Gives loaded sections their places in the file, and makes the program headers.
pub(super) fn assign(
    args: &Args,
    sections: &mut [Section],
    special: &Special,
    script: Option<(&[ProgramHeader], &Script)>,
    eval: &dyn Fn(&Expr) -> Result<u64, EvalError>,
    diag: &Diagnostics,
) -> Shape {
    match script {
        None => by_sections(args, sections, special),
        Some((headers, script)) => by_script(args, sections, headers, script, eval, diag),
    }
}

fn by_sections(args: &Args, sections: &mut [Section], special: &Special) -> Shape {
    let order = load_order(sections);
    let (loads, headers) = map_all(args, sections, special, &order);
    let mut end = headers;
    let mut image_base = 0;
    let mut loaded = Vec::new();
    for load in &loads {
        let segment = place_load(args, sections, load, &mut end);
        if load.headers.is_some() {
            image_base = segment.p_vaddr;
        }
        loaded.push(segment);
    }
    let headers_loaded = loads.first().is_some_and(|load| load.headers.is_some());
    let offset_of = |address: u64| {
        let load = loaded.iter().find(|load| {
            let start = { load.p_vaddr };
            start <= address && address - start <= { load.p_memsz }
        });
        load.map_or(0, |load| { load.p_offset } + (address - { load.p_vaddr }))
    };
    let single = |range: Option<Range>, p_type: u32| {
        range.map(|range| {
            let mut segment = phdr(p_type, segment_flags(range.flags), range.align.max(1));
            let (at, offset) = (range.address, offset_of(range.address));
            cover(&mut segment, offset, at, range.size, range.size);
            segment
        })
    };
    let tls = thread_segment(sections);
    let table = Table {
        // The table says where it is only if it is loaded; there is room for that, be it used or not.
        own: (headers_loaded && special.interpreter.is_some())
            .then(|| own_header(image_base, headers - size_of::<Ehdr>() as u64)),
        interpreter: single(special.interpreter, c::PT_INTERP),
        dynamic: single(special.dynamic, c::PT_DYNAMIC),
        notes: note_runs(sections)
            .iter()
            .map(|run| {
                let empty = phdr(c::PT_NOTE, c::PF_R, sections[run[0]].align);
                covering(empty, run.iter().map(|i| &sections[*i]))
            })
            .collect(),
        property: single(special.property, c::PT_GNU_PROPERTY),
        tls: tls.map(|(segment, _)| segment),
        frames: single(special.frames, c::PT_GNU_EH_FRAME),
        sframe: single(special.sframe, c::PT_GNU_SFRAME),
        stack: (args.z.gnu_stack).then(|| stack(args, special.executable_stack)),
        relro: special
            .relro
            .map(|relro| read_only(sections, &order, relro)),
        loaded,
    };
    Shape {
        phdrs: table.into_phdrs(),
        tls: tls.map(|(_, tls)| tls),
        image_base,
        end,
    }
}

/// The segment of what becomes read-only.
fn read_only(sections: &[Section], order: &[usize], relro: Protected) -> Phdr {
    let sections = order.iter().map(|i| &sections[*i]);
    let inside = sections.filter(|section| {
        section.address >= relro.start && section.address < relro.end && section.extent() > 0
    });
    let mut segment = covering(phdr(c::PT_GNU_RELRO, c::PF_R, 1), inside);
    if { segment.p_memsz } > 0 {
        segment.p_memsz = relro.protected_end - { segment.p_vaddr };
        segment.p_filesz = { segment.p_filesz }.min(segment.p_memsz);
    }
    segment
}

/// The segment of thread-local storage.
fn thread_segment(sections: &[Section]) -> Option<(Phdr, TlsSegment)> {
    let is_tls = |section: &&Section| section.is_alloc() && section.flags & shf::TLS != 0;
    let mut members = sections.iter().filter(is_tls).peekable();
    members.peek()?;
    Some(thread_storage(members))
}

/// Gives the sections of a segment their places in the file, from `end` on.
fn place_load(args: &Args, sections: &mut [Section], load: &Load, end: &mut u64) -> Phdr {
    let largest = load.sections.iter().map(|i| sections[*i].align).max();
    let largest = largest.unwrap_or(1).max(1);
    let page = match args.magic {
        Magic::Normal => page_size(args).max(largest),
        _ => largest,
    };
    let mut segment = phdr(c::PT_LOAD, load.flags, page);
    let Some(first) = load.sections.first().map(|i| sections[*i].clone()) else {
        if load.headers.is_some() {
            (segment.p_vaddr, segment.p_paddr) = (load.address, load.load_address);
            (segment.p_filesz, segment.p_memsz) = (*end, *end);
        }
        return segment;
    };
    let start = *end + first.address.wrapping_sub(*end) % page;
    if let Some(headers) = load.headers {
        let before = start - headers;
        segment.p_offset = headers;
        segment.p_vaddr = first.address.wrapping_sub(before);
        segment.p_paddr = first.load_address.wrapping_sub(before);
    } else {
        segment.p_offset = start;
        segment.p_vaddr = first.address;
        segment.p_paddr = first.load_address;
    }
    let mut file_end = start;
    let mut memory_end = first.address;
    // What has no bytes stands in the file where the sections before it end, with as many bytes between as it is aligned by.
    let mut next = start;
    for i in &load.sections {
        let section = &mut sections[*i];
        section.offset = start.wrapping_add(section.address.wrapping_sub(first.address));
        if section.bits {
            file_end = file_end.max(section.offset.saturating_add(section.size));
            next = file_end;
        } else {
            let gap = section.address.wrapping_sub(memory_end);
            let gap = if gap < section.align { gap } else { 0 };
            section.offset = next.saturating_add(gap);
            if section.extent() > 0 {
                next = section.offset;
            }
        }
        memory_end = memory_end.max(section.address.saturating_add(section.extent()));
    }
    segment.p_filesz = match file_end > start || load.headers.is_some() {
        true => file_end - { segment.p_offset },
        false => 0,
    };
    segment.p_memsz = memory_end
        .wrapping_sub(segment.p_vaddr)
        .max(segment.p_filesz);
    *end = file_end.max(next);
    segment
}

fn by_script(
    args: &Args,
    sections: &mut [Section],
    headers: &[ProgramHeader],
    script: &Script,
    eval: &dyn Fn(&Expr) -> Result<u64, EvalError>,
    diag: &Diagnostics,
) -> Shape {
    let number = |expr: &Expr, header: &ProgramHeader| {
        eval(expr).unwrap_or_else(|why| {
            diag.error(format!("{}: {why}", script.place(header.pos)));
            0
        })
    };
    let loaded = || sections.iter().filter(|section| section.is_alloc());
    if loaded().any(|section| section.phdrs.is_empty()) {
        diag.error("no sections assigned to phdrs");
    }
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); headers.len()];
    for (i, section) in sections.iter().enumerate() {
        if !section.is_alloc() {
            continue;
        }
        for name in section.phdrs.iter().filter(|name| *name != b"NONE") {
            match headers.iter().position(|header| header.name == *name) {
                Some(header) => members[header].push(i),
                None => diag.error(format!(
                    "section `{}' assigned to non-existent phdr `{}'",
                    String::from_utf8_lossy(&section.name),
                    String::from_utf8_lossy(name)
                )),
            }
        }
    }
    let size = size_of_headers(headers.len());
    let mut end = size;
    let mut image_base = 0;
    let mut placed = vec![false; sections.len()];
    let mut phdrs = Vec::new();
    // Loaded segments give their sections places; others only cover sections that have them.
    for (header, members) in headers.iter().zip(&members) {
        let kind = number(&header.kind, header) as u32;
        let flags = |members: &[usize]| match &header.flags {
            Some(flags) => number(flags, header) as u32,
            None => {
                // The file's headers are there to be read.
                let headers = headers_from(header).map_or(0, |_| c::PF_R);
                let all = members.iter().map(|i| segment_flags(sections[*i].flags));
                all.fold(headers, |bits, own| bits | own)
            }
        };
        let mut segment = phdr(kind, flags(members), 1);
        if kind == c::PT_LOAD {
            let start = headers_from(header);
            if start.is_some() && placed.contains(&true) {
                // They are at the start of the file, where another segment is already.
                diag.error(format!(
                    "{}: PHDRS and FILEHDR are not supported when prior PT_LOAD headers lack them",
                    script.place(header.pos)
                ));
            }
            let load = Load {
                sections: members.clone(),
                address: 0,
                load_address: 0,
                headers: start,
                flags: segment.p_flags,
            };
            check_order(sections, header, script, members, diag);
            segment = place_load(args, sections, &load, &mut end);
            members.iter().for_each(|i| placed[*i] = true);
            if let Some(start) = start {
                match members.first() {
                    None => {
                        segment.p_offset = start;
                        (segment.p_filesz, segment.p_memsz) = (size - start, size - start);
                    }
                    Some(first) if sections[*first].address < segment.p_vaddr => {
                        diag.error(format!(
                            "{}: not enough room for program headers before section {}",
                            script.place(header.pos),
                            String::from_utf8_lossy(&sections[*first].name)
                        ))
                    }
                    Some(_) => {}
                }
                image_base = { segment.p_vaddr }.wrapping_sub(start);
            }
            if let Some(at) = &header.at {
                segment.p_paddr = number(at, header);
            }
        }
        phdrs.push(segment);
    }
    for (i, section) in sections.iter_mut().enumerate() {
        if section.is_alloc() && !placed[i] {
            end = end.next_multiple_of(section.align.max(1));
            section.offset = end;
            end += section.file_size();
        }
    }
    let covered = phdrs.iter().any(|load| {
        let (kind, start, length) = (load.p_type, load.p_offset, load.p_filesz);
        kind == c::PT_LOAD && start <= size_of::<Ehdr>() as u64 && start + length >= size
    });
    for ((header, members), segment) in headers.iter().zip(&members).zip(&mut phdrs) {
        if { segment.p_type } == c::PT_LOAD {
            continue;
        }
        let start = match { segment.p_type } {
            c::PT_PHDR => Some(size_of::<Ehdr>() as u64),
            _ => headers_from(header),
        };
        if let Some(start) = start {
            let at = image_base.wrapping_add(start);
            cover(segment, start, at, size - start, size - start);
            segment.p_align = 8;
            if let Some(why) = misplaced(header, members, *segment, covered) {
                diag.error(format!("{}: {why}", script.place(header.pos)));
                continue;
            }
        }
        for i in members {
            *segment = covering(*segment, [&sections[*i]]);
            segment.p_align = { segment.p_align }.max(sections[*i].align);
        }
        if { segment.p_type } == c::PT_GNU_STACK {
            segment.p_align = 0x10;
            segment.p_memsz = args.z.stack_size.unwrap_or(0);
        }
        if let Some(at) = &header.at {
            segment.p_paddr = number(at, header);
        }
    }
    Shape {
        phdrs,
        tls: thread_segment(sections).map(|(_, tls)| tls),
        image_base,
        end,
    }
}

/// From which offset in the file on a segment begins with the file's headers, if the script says so.
fn headers_from(header: &ProgramHeader) -> Option<u64> {
    match (header.filehdr, header.phdrs) {
        (true, _) => Some(0),
        (false, true) => Some(size_of::<Ehdr>() as u64),
        (false, false) => None,
    }
}

/// Why a segment that is not a loaded one cannot hold the file's headers, in GNU ld's words. `covered`: some loaded one does.
fn misplaced(
    header: &ProgramHeader,
    members: &[usize],
    segment: Phdr,
    covered: bool,
) -> Option<String> {
    // Whoever looks at the table in memory must find it there.
    let kind = segment.p_type;
    if kind == c::PT_PHDR && !covered {
        return Some("PHDR segment not covered by LOAD segment".into());
    }
    // Between them and the sections would be whatever the file has there.
    (!members.is_empty()).then(|| {
        let name = String::from_utf8_lossy(&header.name);
        format!("non-load segment `{name}' includes file header and/or program header")
    })
}

/// Says if the sections of a segment do not stand in the order of their addresses: places in the file follow these.
fn check_order(
    sections: &[Section],
    header: &ProgramHeader,
    script: &Script,
    members: &[usize],
    diag: &Diagnostics,
) {
    let Some(first) = members.first().map(|first| &sections[*first]) else {
        return;
    };
    let before = members
        .iter()
        .map(|member| &sections[*member])
        .find(|section| section.address < first.address);
    if let Some(section) = before {
        diag.error(format!(
            "{}: section {} at {:#x} cannot be in the segment `{}' behind {} at {:#x}",
            script.place(header.pos),
            String::from_utf8_lossy(&section.name),
            section.address,
            String::from_utf8_lossy(&header.name),
            String::from_utf8_lossy(&first.name),
            first.address
        ));
    }
}
