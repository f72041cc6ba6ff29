//! The table of program headers, for default layouts and for scripts: which segments there can be, in which order they
//! stand, and how each covers its sections.

use crate::args::Args;
use crate::elf::{Ehdr, Phdr, c, shf};

/// Where the thread-local storage's image is.
#[derive(Clone, Copy, Debug, Default)]
pub struct TlsSegment {
    /// Address of its first byte.
    pub start: u64,
    /// Address at which the thread pointer stands, relative to the image.
    pub thread_pointer: u64,
}

/// The size of a page, as the options have it.
pub(crate) fn page_size(args: &Args) -> u64 {
    let size = args.z.max_page_size.unwrap_or(0x1000);
    size.max(1).next_power_of_two()
}

/// The next multiple of a power of two, beginning again at 0 behind the last one.
pub(crate) fn align_up(value: u64, align: u64) -> u64 {
    value.wrapping_add(align - 1) & !(align - 1)
}

/// Size of the ELF header and so many program headers.
pub(crate) fn size_of_headers(count: usize) -> u64 {
    (size_of::<Ehdr>() + count * size_of::<Phdr>()) as u64
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

/// Where a section is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Place in the file.
    pub(crate) offset: u64,
    /// Address.
    pub(crate) address: u64,
    /// Bytes in the file.
    pub(crate) file_size: u64,
    /// Bytes in memory.
    pub(crate) size: u64,
    /// Alignment.
    pub(crate) align: u64,
}

/// What segments cover: sections, however a layout describes them.
pub(crate) trait Covered {
    /// Where it is.
    fn position(&self) -> Extent;
}

/// A segment extended by sections.
pub(crate) fn covering<S: Covered>(
    mut segment: Phdr,
    sections: impl IntoIterator<Item = S>,
) -> Phdr {
    for section in sections {
        let at = section.position();
        cover(&mut segment, at.offset, at.address, at.file_size, at.size);
    }
    segment
}

/// The segment of the program headers themselves.
pub(crate) fn own_header(image_base: u64, size: u64) -> Phdr {
    let start = size_of::<Ehdr>() as u64;
    let mut own = phdr(c::PT_PHDR, c::PF_R, 8);
    cover(&mut own, start, image_base.wrapping_add(start), size, size);
    own
}

/// The segment that says what the stack is like.
pub(crate) fn stack(args: &Args, executable: bool) -> Phdr {
    let flags = c::PF_R | c::PF_W | if executable { c::PF_X } else { 0 };
    let mut stack = phdr(c::PT_GNU_STACK, flags, 0x10);
    stack.p_memsz = args.z.stack_size.unwrap_or(0);
    stack
}

/// The segment of thread-local sections.
pub(crate) fn thread_storage<S: Covered>(
    sections: impl IntoIterator<Item = S>,
) -> (Phdr, TlsSegment) {
    let mut segment = phdr(c::PT_TLS, c::PF_R, 1);
    for section in sections {
        let align = section.position().align;
        segment = covering(segment, [section]);
        segment.p_align = { segment.p_align }.max(align);
    }
    let end = { segment.p_vaddr }.wrapping_add(segment.p_memsz);
    let tls = TlsSegment {
        start: segment.p_vaddr,
        thread_pointer: align_up(end, segment.p_align),
    };
    (segment, tls)
}

/// All program headers of an image.
pub(crate) struct Table {
    /// `PT_PHDR`.
    pub(crate) own: Option<Phdr>,
    /// `PT_INTERP`.
    pub(crate) interpreter: Option<Phdr>,
    /// `PT_LOAD`s, by address.
    pub(crate) loaded: Vec<Phdr>,
    /// `PT_DYNAMIC`.
    pub(crate) dynamic: Option<Phdr>,
    /// `PT_NOTE`s.
    pub(crate) notes: Vec<Phdr>,
    /// `PT_GNU_PROPERTY`.
    pub(crate) property: Option<Phdr>,
    /// `PT_TLS`.
    pub(crate) tls: Option<Phdr>,
    /// `PT_GNU_EH_FRAME`.
    pub(crate) frames: Option<Phdr>,
    /// `PT_GNU_SFRAME`.
    pub(crate) sframe: Option<Phdr>,
    /// `PT_GNU_STACK`.
    pub(crate) stack: Option<Phdr>,
    /// `PT_GNU_RELRO`.
    pub(crate) relro: Option<Phdr>,
}

impl Table {
    /// The headers in their order.
    pub(crate) fn into_phdrs(self) -> Vec<Phdr> {
        let mut phdrs: Vec<Phdr> = self.own.into_iter().chain(self.interpreter).collect();
        phdrs.extend(self.loaded);
        phdrs.extend(self.dynamic);
        phdrs.extend(self.notes);
        phdrs.extend(self.property);
        phdrs.extend(self.tls);
        phdrs.extend(self.frames);
        phdrs.extend(self.sframe);
        phdrs.extend(self.stack);
        if let Some(relro) = self.relro {
            if { relro.p_memsz } > 0 {
                contain(&mut phdrs, relro);
            }
            phdrs.push(relro);
        }
        phdrs
    }
}

/// Makes the segment that is loaded and holds the end of what becomes read-only as long as that, whose last page is of no
/// use to anybody else: what is protected is to be something that is mapped.
fn contain(phdrs: &mut [Phdr], relro: Phdr) {
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
