//! Headers: of the file, of segments, of sections.

use super::{Output, demand, string};
use crate::args::OutputKind;
use crate::elf::{Ehdr, Phdr, Shdr, c, shf};
use crate::link::incremental::reason::Reason;
use crate::link::incremental::state::OutputRecord;
use crate::resolve::output_sections::Std;

pub(super) fn check(output: &Output) -> Result<(), Reason> {
    let header = output.range(0, size_of::<Ehdr>() as u64);
    let header: &Ehdr = bytemuck::from_bytes(header.ok_or("there is no header")?);
    let is_pic = output.args.kind.is_pic();
    let kind = if is_pic { c::ET_DYN } else { c::ET_EXEC };
    demand({ header.e_type } == kind, || "e_type is another".into())?;
    sections(output, header)?;
    segments(output, header)
}

fn sections(output: &Output, header: &Ehdr) -> Result<(), Reason> {
    let facts = &output.state.header().facts;
    if { header.e_shoff } == 0 {
        return Ok(());
    }
    demand({ header.e_shoff } == facts.section_headers, || {
        "e_shoff is another".into()
    })?;
    let count = u64::from(header.e_shnum);
    let table = output.range(header.e_shoff, count * size_of::<Shdr>() as u64);
    let table = table.and_then(|bytes| bytemuck::try_cast_slice::<u8, Shdr>(bytes).ok());
    let table = table.ok_or("the section headers are not in the file")?;
    let names = table.get(usize::from(header.e_shstrndx));
    let names = names.and_then(|names| output.range(names.sh_offset, names.sh_size));
    let names = names.ok_or("the sections' names are not in the file")?;
    let mut seen = 1;
    for section in output.sections.iter().filter(|section| section.header != 0) {
        let name = output.name(section);
        let shdr = table.get(section.header as usize);
        let shdr = shdr.ok_or_else(|| format!("{name} has no header"))?;
        seen += 1;
        let is = |std: Std| section.id == std.id().0;
        let size = match () {
            // What is behind the last symbol is room for more.
            () if is(Std::Symtab) => 24 * facts.symbols,
            () if is(Std::Strtab) => facts.strings,
            () => section.size,
        };
        let text = output.state.text(section.name, section.name_len);
        let is_same = string(names, shdr.sh_name.into()) == Some(text)
            && { shdr.sh_type } == section.sh_type
            && { shdr.sh_addr } == section.address
            && { shdr.sh_offset } == section.offset
            && { shdr.sh_size } == size
            && (shdr.sh_flags ^ section.flags) & shf::LOADING == 0;
        demand(is_same, || format!("the header of {name} is another"))?;
        let align = shdr.sh_addralign;
        demand(align == 0 || section.address.is_multiple_of(align), || {
            format!("{name} is not aligned")
        })?;
    }
    demand(seen == count, || {
        "there are sections of which nothing is known".into()
    })
}

fn segments(output: &Output, header: &Ehdr) -> Result<(), Reason> {
    let size = u64::from(header.e_phnum) * size_of::<Phdr>() as u64;
    let table = output.range(header.e_phoff, size);
    let table = table.and_then(|bytes| bytemuck::try_cast_slice::<u8, Phdr>(bytes).ok());
    let table = table.ok_or("the program headers are not in the file")?;
    let loads: Vec<&Phdr> = (table.iter())
        .filter(|phdr| { phdr.p_type } == c::PT_LOAD)
        .collect();
    for pair in loads.windows(2) {
        let is_behind = pair[0].p_vaddr.wrapping_add(pair[0].p_memsz) <= pair[1].p_vaddr;
        demand(is_behind, || "segments overlap, or are out of order".into())?;
    }
    for load in &loads {
        let is_in = output.range(load.p_offset, load.p_filesz).is_some();
        demand(is_in && load.p_filesz <= load.p_memsz, || {
            "a segment is not in the file".into()
        })?;
        let page = load.p_align.max(1);
        let is_mapped = load.p_vaddr % page == load.p_offset % page;
        demand(is_mapped, || "a segment cannot be mapped".into())?;
    }
    let loaded = output.sections.iter().filter(|section| {
        let is_tbss = section.flags & shf::TLS != 0 && section.sh_type == c::SHT_NOBITS;
        section.size > 0 && section.flags & shf::ALLOC != 0 && !is_tbss
    });
    for section in loaded {
        let name = output.name(section);
        let load = loads.iter().find(|load| holds(load, section));
        let load = load.ok_or_else(|| format!("{name} is in no segment"))?;
        let wants = [(shf::WRITE, c::PF_W), (shf::EXEC, c::PF_X)];
        for (flag, permission) in wants {
            demand(
                section.flags & flag == 0 || load.p_flags & permission != 0,
                || format!("the segment of {name} does not allow what it must"),
            )?;
        }
    }
    let own = [
        (c::PT_INTERP, Std::Interp),
        (c::PT_DYNAMIC, Std::Dynamic),
        (c::PT_GNU_EH_FRAME, Std::EhFrameHdr),
    ];
    for (kind, std) in own {
        let found = table.iter().find(|phdr| { phdr.p_type } == kind);
        let extent = found.map_or((0, 0), |phdr| (phdr.p_vaddr, phdr.p_memsz));
        // A static program that moves by itself has some without a header.
        let is_optional = found.is_none() && output.args.kind != OutputKind::Shared;
        demand(extent == output.extent(std) || is_optional, || {
            format!("a program header of type {kind:#x} is another")
        })?;
    }
    thread_local(output, table)
}

/// Whether a segment holds a section, in memory and in the file.
fn holds(load: &Phdr, section: &OutputRecord) -> bool {
    let Some(at) = section.address.checked_sub(load.p_vaddr) else {
        return false;
    };
    let end = at.saturating_add(section.size);
    end <= load.p_memsz
        && match section.sh_type {
            c::SHT_NOBITS => true,
            _ => end <= load.p_filesz && load.p_offset.wrapping_add(at) == section.offset,
        }
}

fn thread_local(output: &Output, table: &[Phdr]) -> Result<(), Reason> {
    let facts = &output.state.header().facts;
    let found = table.iter().find(|phdr| { phdr.p_type } == c::PT_TLS);
    for std in [Std::Tdata, Std::Tbss] {
        let (address, size) = output.extent(std);
        if size == 0 {
            continue;
        }
        let phdr = found.ok_or("there is no segment for thread-local storage")?;
        let start = phdr.p_vaddr;
        let is_in = address >= start && address + size <= start.wrapping_add(phdr.p_memsz);
        demand(is_in && start == facts.tls_start, || {
            "thread-local storage is not in its segment".into()
        })?;
        demand({ phdr.p_align } == facts.tls_align, || {
            "thread-local storage is aligned in another way".into()
        })?;
    }
    Ok(())
}
