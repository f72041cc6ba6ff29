//! Reading a relocatable ELF object: finding its tables and checking once that
//! they lie within the file, so that everything else can borrow them.

use crate::elf::crel::{self, CrelError};
use crate::elf::debug_compress::{Compressed, plain_name};
use crate::elf::{self, Chdr, Ehdr, Rela, Shdr, Sym, c};
use crate::repository::split::SHT_LLVM_ADDRSIG;
use std::borrow::Cow;
use store::prefetch::prefetch;

/// What is wrong with an input file.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// A structure reaches beyond the end of the file, or of its table.
    #[error("{what} at offset {offset:#x} is outside of the file (is it truncated?)")]
    Outside {
        /// The structure.
        what: &'static str,
        /// Its file offset.
        offset: u64,
    },
    /// A field that makes no sense.
    #[error("{what}: {value:#x} is not valid")]
    Value {
        /// The field.
        what: &'static str,
        /// What it holds.
        value: u64,
    },
    /// Well-formed, but for another machine or of another kind.
    #[error("{0}")]
    Incompatible(String),
    /// The repository that a ticket names.
    #[error(transparent)]
    Repository(#[from] store::program::ProgramError),
    /// The ticket itself.
    #[error(transparent)]
    Ticket(#[from] tickets::TicketError),
    /// A compilation that cannot be made into an object.
    #[error(transparent)]
    Join(#[from] crate::repository::join::JoinError),
    /// Compact relocations that cannot be decoded.
    #[error("section {section}: {why}")]
    Crel {
        /// Section number.
        section: usize,
        /// What is wrong.
        why: CrelError,
    },
    /// A section that cannot be expanded.
    #[error("compressed section {section}: {why}")]
    Compressed {
        /// Section number.
        section: usize,
        /// What the decompressor said.
        why: String,
    },
}

/// A relocatable object, borrowed from its mapping.
pub struct ElfObject<'a> {
    /// The whole file or archive member.
    pub data: &'a [u8],
    /// The section headers.
    pub shdrs: &'a [Shdr],
    /// Section names.
    pub shstrtab: &'a [u8],
    /// The symbol table; entry 0 is the null symbol.
    pub syms: &'a [Sym],
    /// Index of the first symbol that is not local.
    pub first_global: u32,
    /// Symbol names.
    pub strtab: &'a [u8],
    /// Section indices that do not fit in `st_shndx`, by symbol; else empty.
    xindex: &'a [[u8; 4]],
    /// Expanded contents of compressed sections, by section number.
    expanded: Vec<(u32, Vec<u8>)>,
    /// Some of them are called `.zdebug_*`: compressed as it was done before the gABI knew of it.
    zdebug: bool,
    /// Relocations that are not used as they lie in the file (`SHT_CREL`, and those of `.eh_frame` out of order), by
    /// the number of their section.
    rewritten: Vec<(u32, Vec<Rela>)>,
    /// It holds intermediate code of a compiler, perhaps beside machine code.
    pub intermediate: bool,
    /// The section groups, by number.
    pub groups: Vec<u32>,
    /// There are sections with `SHF_COMPRESSED`.
    has_compressed: bool,
}

/// How many sections ahead names are fetched: they are in another order than the sections, and far from them.
pub const NAMES_AHEAD: usize = 12;

/// LLVM's bitcode beside machine code (`-ffat-lto-objects`).
const SHT_LLVM_LTO: u32 = 0x6fff_4c0c;

/// Numbers in LEB128 (DWARF 5, 7.6).
fn indices(mut bytes: &[u8]) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let (&byte, rest) = bytes.split_first()?;
            bytes = rest;
            if shift > 28 {
                return None;
            }
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        numbers.push(u32::try_from(number).ok()?);
    }
    Some(numbers)
}

/// Whether the file is LLVM's bitcode, plain or in its wrapper ("LLVM Bitcode File Format").
pub fn is_bitcode(data: &[u8]) -> bool {
    data.starts_with(b"BC\xc0\xde") || data.starts_with(b"\xde\xc0\x17\x0b")
}

impl<'a> ElfObject<'a> {
    /// Finds and checks the tables of the object in `data`.
    pub fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        let outside = |what, offset| Malformed::Outside { what, offset };
        let ehdr: &Ehdr = elf::record(data, 0).ok_or(outside("ELF header", 0))?;
        check_ident(ehdr)?;
        let e_type = ehdr.e_type;
        if e_type != c::ET_REL {
            return Err(Malformed::Incompatible(format!(
                "ELF file of type {e_type} is neither relocatable nor shared"
            )));
        }
        // What such a file defines, nothing says; taken for an empty object, it would be left out in silence.
        if ehdr.e_shoff == 0 {
            return Err(Malformed::Incompatible(
                "relocatable object without section headers (removed by strip or objcopy --strip-sections?)".to_owned(),
            ));
        }
        let (shdrs, shstrndx) = section_headers(data, ehdr)?;
        let contents = |shdr: &Shdr, what| {
            elf::bytes(data, shdr.sh_offset, shdr.sh_size).ok_or(outside(what, shdr.sh_offset))
        };
        let shstrtab = match shdrs.get(shstrndx) {
            Some(shdr) if shstrndx != 0 => contents(shdr, "section name table")?,
            _ => &[],
        };
        let mut object = ElfObject {
            shdrs,
            shstrtab,
            ..ElfObject::empty(data)
        };
        for (number, shdr) in (0u32..).zip(shdrs) {
            object.has_compressed |= { shdr.sh_flags } & u64::from(c::SHF_COMPRESSED) != 0;
            match shdr.sh_type {
                c::SHT_GROUP => object.groups.push(number),
                SHT_LLVM_LTO => object.intermediate = true,
                // Sections of gcc's intermediate code are left out of outputs, as few others are.
                c::SHT_PROGBITS if { shdr.sh_flags } & u64::from(c::SHF_EXCLUDE) != 0 => {
                    contents(shdr, "section")?;
                    object.intermediate |= elf::string(shstrtab, shdr.sh_name)
                        .is_some_and(|name| name.starts_with(b".gnu.lto_"));
                }
                c::SHT_SYMTAB => {
                    let count = { shdr.sh_size } / size_of::<Sym>() as u64;
                    object.syms = elf::table(data, shdr.sh_offset, count)
                        .ok_or(outside("symbol table", shdr.sh_offset))?;
                    object.first_global = shdr.sh_info;
                    // The null symbol is local.
                    let no_local = object.first_global == 0 && !object.syms.is_empty();
                    if no_local || object.first_global as usize > object.syms.len() {
                        return Err(Malformed::Value {
                            what: "first global symbol",
                            value: object.first_global.into(),
                        });
                    }
                    let strtab = shdrs.get(shdr.sh_link as usize).ok_or(Malformed::Value {
                        what: "string table of the symbol table",
                        value: { shdr.sh_link }.into(),
                    })?;
                    object.strtab = contents(strtab, "string table")?;
                }
                c::SHT_SYMTAB_SHNDX => {
                    object.xindex = elf::table(data, shdr.sh_offset, { shdr.sh_size } / 4)
                        .ok_or(outside("extended section index table", shdr.sh_offset))?;
                }
                // Their contents are borrowed later without a further check.
                c::SHT_NOBITS | c::SHT_NULL => {}
                _ => {
                    contents(shdr, "section")?;
                }
            }
        }
        Ok(object)
    }

    /// One of which nothing has been read.
    fn empty(data: &'a [u8]) -> ElfObject<'a> {
        ElfObject {
            data,
            shdrs: &[],
            shstrtab: &[],
            syms: &[],
            first_global: 0,
            strtab: &[],
            xindex: &[],
            expanded: Vec::new(),
            zdebug: false,
            rewritten: Vec::new(),
            intermediate: false,
            groups: Vec::new(),
            has_compressed: false,
        }
    }

    /// Stands for a file of intermediate code only, which is no ELF object, until its plugin has told its symbols.
    pub fn of_bitcode(data: &'a [u8]) -> Self {
        ElfObject {
            intermediate: true,
            ..ElfObject::empty(data)
        }
    }

    /// Expands compressed sections, and brings relocations into the form and order that the linker wants. Only for
    /// files that are linked.
    pub fn expand(&mut self) -> Result<(), Malformed> {
        if self.has_compressed {
            self.expand_sections()?;
        }
        self.expand_zdebug()?;
        self.rewrite_relocations()
    }

    /// Has the processor fetch what will be read of a section's name to see what kind it is.
    #[inline]
    pub fn prefetch_name(&self, number: u32) {
        let name = |shdr: &Shdr| self.shstrtab.get(shdr.sh_name as usize);
        if let Some(first) = self.shdrs.get(number as usize).and_then(name) {
            prefetch(first);
        }
    }

    fn rewrite_relocations(&mut self) -> Result<(), Malformed> {
        let mut rewritten = Vec::new();
        for (number, shdr) in self.shdrs.iter().enumerate() {
            let (is_plain, is_compact) = (shdr.sh_type == c::SHT_RELA, shdr.sh_type == c::SHT_CREL);
            if !is_plain && !is_compact {
                continue;
            }
            if let Some(later) = self.shdrs.get(number + NAMES_AHEAD) {
                self.prefetch_name(later.sh_info);
            }
            let mut relocations = Cow::Borrowed(self.relocations(number as u32));
            if is_compact {
                relocations =
                    Cow::Owned(crel::decode(self.raw(shdr)).map_err(|why| Malformed::Crel {
                        section: number,
                        why,
                    })?);
            }
            // Frame descriptions are taken apart, and each takes the relocations that follow the last one's.
            let of_frames = self.shdrs.get(shdr.sh_info as usize).is_some_and(|target| {
                // Without a look for the end of each name, which is long in C++ and Rust.
                let name = self.shstrtab.get(target.sh_name as usize..);
                name.is_some_and(|name| name.starts_with(b".eh_frame\0"))
            });
            if of_frames && !relocations.is_sorted_by_key(|rela| rela.r_offset) {
                relocations.to_mut().sort_by_key(|rela| rela.r_offset);
            }
            if let Cow::Owned(relocations) = relocations {
                rewritten.push((number as u32, relocations));
            }
        }
        self.rewritten = rewritten;
        Ok(())
    }

    fn expand_sections(&mut self) -> Result<(), Malformed> {
        for (number, shdr) in self.shdrs.iter().enumerate() {
            if { shdr.sh_flags } & u64::from(c::SHF_COMPRESSED) == 0 || { shdr.sh_type }
                == c::SHT_NOBITS
            {
                continue;
            }
            let failed = |why: String| Malformed::Compressed {
                section: number,
                why,
            };
            let bytes = Compressed::parse(self.raw(shdr))
                .and_then(|compressed| compressed.decompress())
                .map_err(|why| failed(why.to_string()))?;
            self.expanded.push((number as u32, bytes));
        }
        Ok(())
    }

    /// Expands sections that begin with `ZLIB`, their size and a stream of zlib, and say so by their name alone: by gas
    /// until 2.26, and with `-gz=zlib-gnu` until today.
    fn expand_zdebug(&mut self) -> Result<(), Malformed> {
        let shdrs = (0u32..).zip(self.shdrs).filter(|(_, shdr)| {
            let loaded = { shdr.sh_flags } & u64::from(c::SHF_ALLOC | c::SHF_COMPRESSED) != 0;
            let name = self.shstrtab.get(shdr.sh_name as usize..).unwrap_or(&[]);
            !loaded && { shdr.sh_type } == c::SHT_PROGBITS && name.starts_with(b".zdebug_")
        });
        for (number, shdr) in shdrs.collect::<Vec<_>>() {
            let failed = |why: String| Malformed::Compressed {
                section: number as usize,
                why,
            };
            let known = elf::string(self.shstrtab, shdr.sh_name).and_then(plain_name);
            known.ok_or_else(|| failed("this .zdebug section is not known".into()))?;
            let bytes = Compressed::parse_zdebug(self.raw(shdr), 1)
                .and_then(|compressed| compressed.decompress())
                .map_err(|why| failed(why.to_string()))?;
            self.expanded.push((number, bytes));
            self.zdebug = true;
        }
        if self.zdebug {
            self.expanded.sort_unstable_by_key(|(number, _)| *number);
        }
        Ok(())
    }

    /// The name of a section: that of what it holds, if it is compressed.
    #[inline]
    pub fn section_name(&self, shdr: &Shdr) -> &'a [u8] {
        let name = elf::string(self.shstrtab, shdr.sh_name).unwrap_or(b"");
        match self.zdebug {
            true => plain_name(name).unwrap_or(name),
            false => name,
        }
    }

    /// Size of a section, when it is expanded, and its alignment, both in bytes.
    #[inline]
    pub fn extent(&self, number: u32, shdr: &Shdr) -> (u64, u64) {
        if self.zdebug
            && let Some(bytes) = of_number(&self.expanded, number)
        {
            return (bytes.len() as u64, { shdr.sh_addralign }.max(1));
        }
        let (size, align) = if { shdr.sh_flags } & u64::from(c::SHF_COMPRESSED) != 0 {
            let head: Option<&Chdr> = elf::record(self.data, shdr.sh_offset);
            head.map_or((0, 1), |head| (head.ch_size, head.ch_addralign))
        } else {
            (shdr.sh_size, shdr.sh_addralign)
        };
        (size, align.max(1))
    }

    fn raw(&self, shdr: &Shdr) -> &'a [u8] {
        elf::bytes(self.data, shdr.sh_offset, shdr.sh_size).unwrap_or(&[])
    }

    /// The bytes of a section (empty for `SHT_NOBITS`).
    #[inline]
    pub fn section_bytes(&self, number: u32) -> &[u8] {
        let Some(shdr) = self.shdrs.get(number as usize) else {
            return &[];
        };
        if { shdr.sh_type } == c::SHT_NOBITS {
            return &[];
        }
        if { shdr.sh_flags } & u64::from(c::SHF_COMPRESSED) != 0 {
            return of_number(&self.expanded, number).unwrap_or(&[]);
        }
        if self.zdebug
            && let Some(bytes) = of_number(&self.expanded, number)
        {
            return bytes;
        }
        self.raw(shdr)
    }

    /// The relocations in the `SHT_RELA` or `SHT_CREL` section of this number.
    #[inline]
    pub fn relocations(&self, number: u32) -> &[Rela] {
        if let Some(rewritten) = of_number(&self.rewritten, number) {
            return rewritten;
        }
        let Some(shdr) = self
            .shdrs
            .get(number as usize)
            .filter(|shdr| shdr.sh_type == c::SHT_RELA)
        else {
            return &[];
        };
        elf::table(
            self.data,
            shdr.sh_offset,
            { shdr.sh_size } / size_of::<Rela>() as u64,
        )
        .unwrap_or(&[])
    }

    /// The symbols that `.llvm_addrsig` lists (LLVM's extensions to ELF). `None` if there is none, or if it is not to be
    /// believed: its link to the symbol table is gone when a program has rewritten the table without it.
    pub fn address_significant(&self) -> Option<Vec<u32>> {
        let mut list = None;
        for (number, shdr) in (0..).zip(self.shdrs) {
            if { shdr.sh_type } != SHT_LLVM_ADDRSIG {
                continue;
            }
            if shdr.sh_link == 0 {
                return None;
            }
            list = Some(indices(self.section_bytes(number))?);
        }
        list
    }

    /// The section index of a symbol whose `st_shndx` is `SHN_XINDEX`.
    pub fn extended_index(&self, symbol: u32) -> u32 {
        self.xindex
            .get(symbol as usize)
            .map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }
}

/// What a section has, in a list by their numbers.
#[inline]
fn of_number<T>(list: &[(u32, Vec<T>)], number: u32) -> Option<&[T]> {
    let found = list.binary_search_by_key(&number, |(number, _)| *number);
    found.ok().map(|found| &*list[found].1)
}

/// What a file is for, in words: its machine by the name that its makers give it, and what else is not as with us.
pub fn machine_name(ehdr: &Ehdr) -> String {
    let ident = ehdr.e_ident;
    // The header's fields are in the file's byte order, which may not be ours.
    let is_big = ident[5] == c::ELFDATA2MSB;
    let machine = match is_big {
        true => { ehdr.e_machine }.swap_bytes(),
        false => ehdr.e_machine,
    };
    let is_64 = ident[4] == c::ELFCLASS64;
    let by_width = |narrow: &'static str, wide: &'static str| if is_64 { wide } else { narrow };
    let name = match machine {
        2 | 18 => "SPARC",
        43 => "SPARC V9",
        3 | 6 => "i386 (32-bit x86; -m32)",
        4 => "Motorola 68000",
        8 | 10 => by_width("MIPS", "MIPS64"),
        15 => "PA-RISC",
        20 => "PowerPC",
        21 => "PowerPC64",
        22 => by_width("S/390", "s390x"),
        40 => "ARM",
        42 => "SuperH",
        50 => "Itanium",
        62 => by_width("x32 (x86-64 with 32-bit pointers; -mx32)", "x86-64"),
        83 => "AVR",
        93 | 195 => "ARC",
        94 => "Xtensa",
        105 => "MSP430",
        164 => "Hexagon",
        183 => by_width("AArch64 with 32-bit pointers (ILP32)", "AArch64"),
        190 => "CUDA",
        224 => "AMD GPU",
        243 => by_width("RISC-V (32 bit)", "RISC-V (64 bit)"),
        247 => "BPF",
        258 => by_width("LoongArch32", "LoongArch64"),
        _ => "",
    };
    let order = if is_big { ", big endian" } else { "" };
    match name {
        "" => format!("machine {machine} (e_machine){order}"),
        name => format!("{name}{order}"),
    }
}

/// Checks class, byte order, version and machine.
pub fn check_ident(ehdr: &Ehdr) -> Result<(), Malformed> {
    let ident = ehdr.e_ident;
    if ident[..4] != c::ELFMAG {
        return Err(Malformed::Incompatible("not an ELF file".into()));
    }
    if ident[4] != c::ELFCLASS64 || ident[5] != c::ELFDATA2LSB || { ehdr.e_machine } != c::EM_X86_64
    {
        return Err(Malformed::Incompatible(format!(
            "file in wrong format: it is for {}, incompatible with elf64-x86-64",
            machine_name(ehdr)
        )));
    }
    if ident[6] != c::EV_CURRENT {
        return Err(Malformed::Value {
            what: "ELF version",
            value: ident[6].into(),
        });
    }
    Ok(())
}

/// The section headers, and the number of the section name table.
pub fn section_headers<'a>(data: &'a [u8], ehdr: &Ehdr) -> Result<(&'a [Shdr], usize), Malformed> {
    let shoff = ehdr.e_shoff;
    if shoff == 0 {
        return Ok((&[], 0));
    }
    if usize::from(ehdr.e_shentsize) != size_of::<Shdr>() {
        return Err(Malformed::Value {
            what: "size of a section header",
            value: { ehdr.e_shentsize }.into(),
        });
    }
    let outside = Malformed::Outside {
        what: "section header table",
        offset: shoff,
    };
    let Some(first) = elf::record::<Shdr>(data, shoff) else {
        return Err(outside);
    };
    let count = match ehdr.e_shnum {
        0 => first.sh_size,
        n => n.into(),
    };
    let strndx = match ehdr.e_shstrndx {
        c::SHN_XINDEX => first.sh_link as usize,
        n => n.into(),
    };
    let Some(shdrs) = elf::table(data, shoff, count) else {
        return Err(outside);
    };
    // Without their names, sections would be taken for others.
    if strndx != 0 && strndx >= shdrs.len() {
        return Err(Malformed::Value {
            what: "number of the section name table",
            value: strndx as u64,
        });
    }
    Ok((shdrs, strndx))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_symbols() {
        assert_eq!(indices(b"\x01\x80\x01\x7f"), Some(vec![1, 128, 127]));
        assert_eq!(indices(b"\x01\x80"), None);
        assert_eq!(indices(b"\xff\xff\xff\xff\xff\x01"), None);
    }
}
