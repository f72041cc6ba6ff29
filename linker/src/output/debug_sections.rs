//! What is done to debug sections once the output is written: an index for gdb
//! (`--gdb-index`) and compression (`--compress-debug-sections`).
//!
//! Both need the finished bytes, and both change sizes. So the link goes on as if
//! nobody had asked: the sections are written to where they would stand. Then they are
//! read again, the index is made and the compressed forms are, in parallel, and the
//! end of the file is laid out once more. What is loaded into memory stands before all
//! that and does not move; of what stands behind it only headers know the place. A
//! link that asks for neither pays nothing.
//!
//! The new layout is made without a second copy of the image: what stays as it is moves
//! towards the start of the file, in order, over what was there; then what is new is
//! written between.

use crate::args::{Args, CompressDebug};
use crate::elf::debug_compress::{self, Format};
use crate::elf::gdb_index::{self, DebugSections};
use crate::elf::{self, Ehdr, Shdr, c};
use crate::input::elf_object::section_headers;
use crate::layout::section_index::TableFields;
use crate::messages::diag::Diagnostics;
use crate::output::output_file::OutputFile;
use rayon::prelude::*;
use std::io;

/// Name of the index.
const GDB_INDEX: &[u8] = b".gdb_index";
/// Alignment of the index, bytes: its tables are of 32-bit words, after pairs of 64-bit ones.
const GDB_INDEX_ALIGN: u64 = 4;
/// `sh_addralign` of a compressed section: that of its `Elf64_Chdr` (gABI, "Section Compression").
const CHDR_ALIGN: u64 = 8;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Make `.gdb_index`.
    pub index: bool,
    /// Compress `.debug_*`, in this form.
    pub compression: Option<Compression>,
}

/// How debug sections are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Format of the streams.
    pub format: Format,
    /// The format's own level.
    pub level: u32,
    /// Without `SHF_COMPRESSED`: the section is called `.zdebug_*` and begins with `ZLIB` and its size.
    pub by_name: bool,
}

impl Wanted {
    /// What the options ask for; `None` if nothing.
    pub fn from_args(args: &Args) -> Option<Wanted> {
        // With zlib's third level debugging information is smaller by an eighth than with the first, which takes five sixths
        // of its time, and hardly larger than with the default one, which takes nearly twice as long.
        let zlib = Compression {
            format: Format::Zlib,
            level: if args.optimize >= 2 { 6 } else { 3 },
            by_name: false,
        };
        let compression = match args.compress_debug {
            CompressDebug::None => None,
            CompressDebug::Zlib => Some(zlib),
            CompressDebug::ZlibGnu => Some(Compression {
                by_name: true,
                ..zlib
            }),
            CompressDebug::Zstd => Some(Compression {
                format: Format::Zstd,
                level: 3,
                by_name: false,
            }),
        };
        let wanted = Wanted {
            index: args.gdb_index,
            compression,
        };
        (wanted.index || compression.is_some()).then_some(wanted)
    }
}

/// A section of the end of the file.
struct Section {
    header: Shdr,
    /// Its bytes, if they are not those that stand at its old place.
    new: Option<Vec<u8>>,
    /// Where its bytes stood.
    old_offset: u64,
}

/// Makes the index, compresses, and lays the end of the file out again. An image that this does not understand, as
/// a script may ask for one, is left as it is, with a warning.
///
/// # Errors
/// Of the file system.
pub fn finish(output: &mut OutputFile, wanted: Wanted, diag: &Diagnostics) -> io::Result<()> {
    let image = output.bytes();
    let Some((ehdr, headers, own)) = headers(image) else {
        diag.warn(
            "the output has no section headers: its debug sections are not compressed or indexed",
        );
        return Ok(());
    };
    // Of a relocatable object nothing is loaded, and all sections may move.
    let (loaded_end, tail) = match { ehdr.e_type } == c::ET_REL {
        true => (0, tail(&headers, 0).1),
        false => tail(&headers, c::SHF_ALLOC.into()),
    };
    let loaded_end = loaded_end.max(end_of_headers(&ehdr));
    if tail
        .iter()
        .any(|number| { headers[*number].sh_offset } < loaded_end)
    {
        diag.warn(
            "sections that are not loaded stand among others that are: debug sections are not compressed or indexed",
        );
        return Ok(());
    }
    let names_header = headers.get(own).copied();
    let names = names_header
        .and_then(|header| contents(image, &header))
        .unwrap_or(&[]);
    let name = |header: &Shdr| elf::string(names, header.sh_name).unwrap_or(b"");

    let index = if wanted.index {
        make_index(image, &headers, &name, diag)
    } else {
        None
    };
    let mut new_names = names.to_vec();
    let mut sections: Vec<(usize, Section)> = match wanted.compression {
        None => tail
            .iter()
            .map(|number| (*number, stay(headers[*number])))
            .collect(),
        Some(how) => tail
            .par_iter()
            .map(|number| {
                let header = headers[*number];
                let bytes =
                    contents(image, &header).filter(|_| name(&header).starts_with(b".debug_"));
                let compressed = bytes.and_then(|bytes| compress(&header, bytes, how));
                (*number, compressed.unwrap_or_else(|| stay(header)))
            })
            .collect(),
    };
    if wanted.compression.is_some_and(|how| how.by_name) {
        for (_, section) in sections
            .iter_mut()
            .filter(|(_, section)| section.new.is_some())
        {
            let old = name(&section.header);
            section.header.sh_name = new_names.len() as u32;
            new_names.extend([b".z", &old[1..], b"\0"].concat());
        }
    }
    if let Some(bytes) = index {
        let header = Shdr {
            sh_name: new_names.len() as u32,
            sh_type: c::SHT_PROGBITS,
            sh_flags: 0,
            sh_addr: 0,
            sh_offset: 0,
            sh_size: bytes.len() as u64,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: GDB_INDEX_ALIGN,
            sh_entsize: 0,
        };
        new_names.extend(GDB_INDEX);
        new_names.push(0);
        sections.push((
            headers.len(),
            Section {
                header,
                new: Some(bytes),
                old_offset: u64::MAX,
            },
        ));
    }
    if new_names.len() != names.len()
        && let Some((_, section)) = sections.iter_mut().find(|(number, _)| *number == own)
    {
        section.header.sh_size = new_names.len() as u64;
        section.new = Some(new_names);
    }
    lay_out(output, ehdr, headers, sections, own as u32, loaded_end)
}

/// The file header, the section headers, and the number of the section with their names.
fn headers(image: &[u8]) -> Option<(Ehdr, Vec<Shdr>, usize)> {
    let ehdr: Ehdr = *elf::record(image, 0)?;
    let (table, names) = section_headers(image, &ehdr).ok()?;
    (!table.is_empty()).then(|| (ehdr, table.to_vec(), names))
}

/// Where the file header and the program headers end, which need not be in anything that is loaded.
fn end_of_headers(ehdr: &Ehdr) -> u64 {
    let (count, size) = (u64::from(ehdr.e_phnum), u64::from(ehdr.e_phentsize));
    (size_of::<Ehdr>() as u64).max({ ehdr.e_phoff } + count * size)
}

/// Where the loaded part of the file ends, and the numbers of the sections that have bytes and are not loaded, in the
/// order of the file. `loaded` is the flag of those that are.
fn tail(headers: &[Shdr], loaded: u64) -> (u64, Vec<usize>) {
    let has_bytes = |header: &Shdr| {
        let sh_type = header.sh_type;
        sh_type != c::SHT_NOBITS && sh_type != c::SHT_NULL
    };
    let is_loaded = |header: &Shdr| { header.sh_flags } & loaded != 0;
    let (mut loaded_end, mut tail) = (0, Vec::new());
    for (number, header) in headers.iter().enumerate() {
        if !is_loaded(header) && has_bytes(header) {
            tail.push(number);
        } else if is_loaded(header) && has_bytes(header) {
            loaded_end = loaded_end.max({ header.sh_offset }.saturating_add(header.sh_size));
        } else if is_loaded(header) {
            loaded_end = loaded_end.max(header.sh_offset);
        }
    }
    tail.sort_by_key(|number| headers[*number].sh_offset);
    (loaded_end, tail)
}

fn contents<'i>(image: &'i [u8], header: &Shdr) -> Option<&'i [u8]> {
    elf::bytes(image, header.sh_offset, header.sh_size)
}

fn stay(header: Shdr) -> Section {
    Section {
        header,
        new: None,
        old_offset: header.sh_offset,
    }
}

/// The section compressed; `None` if that does not make it smaller.
fn compress(header: &Shdr, bytes: &[u8], how: Compression) -> Option<Section> {
    if { header.sh_flags } & u64::from(c::SHF_COMPRESSED) != 0 {
        return None;
    }
    let align = { header.sh_addralign }.max(1);
    let mut new = debug_compress::compress(bytes, how.format, how.level, align)?;
    let mut header = *header;
    if how.by_name {
        new = debug_compress::to_zdebug(new)?;
        header.sh_addralign = 1;
    } else {
        header.sh_flags |= u64::from(c::SHF_COMPRESSED);
        header.sh_addralign = CHDR_ALIGN;
    }
    header.sh_size = new.len() as u64;
    // Less than what alignment may cost is no gain.
    (new.len() + CHDR_ALIGN as usize <= bytes.len()).then_some(Section {
        header,
        new: Some(new),
        old_offset: header.sh_offset,
    })
}

/// The bytes of `.gdb_index`; `None` if there is no debugging information, or, with a warning, if it is damaged.
fn make_index<'i>(
    image: &'i [u8],
    headers: &[Shdr],
    name: &dyn Fn(&Shdr) -> &'i [u8],
    diag: &Diagnostics,
) -> Option<Vec<u8>> {
    let find = |wanted: &[u8]| {
        let found = headers.iter().find(|header| name(header) == wanted);
        found
            .and_then(|header| contents(image, header))
            .unwrap_or(&[])
    };
    let sections = DebugSections {
        info: find(b".debug_info"),
        types: find(b".debug_types"),
        abbrev: find(b".debug_abbrev"),
        addr: find(b".debug_addr"),
        ranges: find(b".debug_ranges"),
        rnglists: find(b".debug_rnglists"),
        str: find(b".debug_str"),
        str_offsets: find(b".debug_str_offsets"),
        line: find(b".debug_line"),
        line_str: find(b".debug_line_str"),
        gnu_pubnames: find(b".debug_gnu_pubnames"),
        gnu_pubtypes: find(b".debug_gnu_pubtypes"),
    };
    if sections.info.is_empty() && sections.types.is_empty() {
        return None;
    }
    match gdb_index::build(&sections) {
        Ok(index) => {
            if index.units_without_names > 0 {
                diag.warn(format_args!(
                    "--gdb-index: {} compilation units have no table of names, and gdb will not find their symbols \
                     by name; compile with -ggnu-pubnames",
                    index.units_without_names
                ));
            }
            Some(index.bytes)
        }
        Err(why) => {
            diag.warn(format_args!("--gdb-index: no index is made: {why}"));
            None
        }
    }
}

/// Gives the sections of the end of the file their new places, and brings their bytes there.
fn lay_out(
    output: &mut OutputFile,
    mut ehdr: Ehdr,
    mut headers: Vec<Shdr>,
    mut sections: Vec<(usize, Section)>,
    names: u32,
    loaded_end: u64,
) -> io::Result<()> {
    let mut end = loaded_end;
    for (number, section) in &mut sections {
        let header = &mut section.header;
        header.sh_offset = end.next_multiple_of({ header.sh_addralign }.max(1));
        end = { header.sh_offset } + { header.sh_size };
        // What would move towards the end might be in the way of others.
        if section.new.is_none() && { header.sh_offset } > section.old_offset {
            let old = elf::bytes(output.bytes(), section.old_offset, header.sh_size);
            section.new = old.map(<[u8]>::to_vec);
        }
        match headers.get_mut(*number) {
            Some(slot) => *slot = section.header,
            None => headers.push(section.header),
        }
    }
    let shoff = end.next_multiple_of(8);
    ehdr.e_shoff = shoff;
    let fields = TableFields::new(headers.len(), names);
    (ehdr.e_shnum, ehdr.e_shstrndx) = (fields.e_shnum, fields.e_shstrndx);
    (headers[0].sh_size, headers[0].sh_link) = (fields.sh_size, fields.sh_link);
    let size = shoff + size_of_val(&headers[..]) as u64;

    let old_size = output.bytes().len() as u64;
    if size > old_size {
        output.resize(size)?;
    }
    let image = output.bytes();
    for (
        _,
        Section {
            header, old_offset, ..
        },
    ) in sections.iter().filter(|(_, section)| section.new.is_none())
    {
        let old = *old_offset as usize..(*old_offset + { header.sh_size }) as usize;
        image.copy_within(old, header.sh_offset as usize);
    }
    let mut at = loaded_end;
    for (_, Section { header, new, .. }) in &sections {
        let (start, end) = (
            header.sh_offset as usize,
            (header.sh_offset + header.sh_size) as usize,
        );
        image[at as usize..start].fill(0);
        if let Some(new) = new {
            image[start..end].copy_from_slice(new);
        }
        at = end as u64;
    }
    image[at as usize..shoff as usize].fill(0);
    image[shoff as usize..size as usize].copy_from_slice(bytemuck::cast_slice(&headers));
    image[..size_of::<Ehdr>()].copy_from_slice(bytemuck::bytes_of(&ehdr));
    if size < old_size {
        output.resize(size)?;
    }
    Ok(())
}
