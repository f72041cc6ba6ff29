//! ELF-64 little-endian structures as they lie in a file (gABI, "Object Files").
//!
//! They are packed: a member of an archive is aligned to two bytes only, and
//! x86-64 reads unaligned integers at full speed. So a table in a mapped file is
//! borrowed as a slice of these, without copying. Numbers (`SHT_*`, `R_*`, …)
//! come from the `object` crate's list.
//!
//! This room owns bytes: tables, relocations, stubs of x86-64 and debugging sections, as files have them. It knows no files, no
//! symbols of a link, and no options.

pub(crate) mod build_id;
pub(crate) mod crel;
pub(crate) mod debug_compress;
pub(crate) mod eh_frame;
pub(crate) mod gdb_index;
pub(crate) mod hash_tables;
pub(crate) mod note_property;
pub(crate) mod string_table;
pub(crate) mod version_tables;
pub mod x86_64;

use bytemuck::{Pod, Zeroable};

pub use object::elf as c;

/// `SHF_*` as they stand in section headers.
pub mod shf {
    use super::c;
    /// Writable.
    pub const WRITE: u64 = c::SHF_WRITE as u64;
    /// Loaded.
    pub const ALLOC: u64 = c::SHF_ALLOC as u64;
    /// Executable.
    pub const EXEC: u64 = c::SHF_EXECINSTR as u64;
    /// Thread-local.
    pub const TLS: u64 = c::SHF_TLS as u64;
    /// Mergeable.
    pub const MERGE: u64 = c::SHF_MERGE as u64;
    /// NUL-terminated strings.
    pub const STRINGS: u64 = c::SHF_STRINGS as u64;
    /// Ordered as the sections to which `sh_link` points.
    pub const LINK_ORDER: u64 = c::SHF_LINK_ORDER as u64;
    /// Not to be linked by who does not know how (gABI, "Section Attribute Flags").
    pub const OS_NONCONFORMING: u64 = c::SHF_OS_NONCONFORMING as u64;
    /// Member of a group.
    pub const GROUP: u64 = c::SHF_GROUP as u64;
    /// Not linked into an executable or shared object.
    pub const EXCLUDE: u64 = c::SHF_EXCLUDE as u64;
    /// Kept by garbage collection.
    pub const RETAIN: u64 = c::SHF_GNU_RETAIN as u64;
    /// `sh_info` is a section index.
    pub const INFO_LINK: u64 = c::SHF_INFO_LINK as u64;
    /// Farther away than the medium code model's instructions reach (psABI, "Special Sections").
    pub const LARGE: u64 = 0x1000_0000;

    /// What an output section is if any input section in it is: how it is loaded.
    pub const LOADING: u64 = ALLOC | WRITE | EXEC | TLS;
    /// What an output section is, too, if any input section in it is, and what does not concern how it is loaded.
    pub const REMARKS: u64 = RETAIN | LINK_ORDER | LARGE;
}

/// The file header.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
pub struct Ehdr {
    /// Magic number, class, byte order, version, OS ABI.
    pub e_ident: [u8; 16],
    /// `ET_*`.
    pub e_type: u16,
    /// `EM_*`.
    pub e_machine: u16,
    /// `EV_CURRENT`.
    pub e_version: u32,
    /// Address of the entry point.
    pub e_entry: u64,
    /// File offset of the program headers.
    pub e_phoff: u64,
    /// File offset of the section headers.
    pub e_shoff: u64,
    /// Processor flags.
    pub e_flags: u32,
    /// Size of this header.
    pub e_ehsize: u16,
    /// Size of a program header.
    pub e_phentsize: u16,
    /// Number of program headers.
    pub e_phnum: u16,
    /// Size of a section header.
    pub e_shentsize: u16,
    /// Number of section headers, or 0 if it stands in section 0's `sh_size`.
    pub e_shnum: u16,
    /// Index of the section name table, or `SHN_XINDEX`.
    pub e_shstrndx: u16,
}

/// A section header.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
pub struct Shdr {
    /// Offset of the name in the section name table.
    pub sh_name: u32,
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`.
    pub sh_flags: u64,
    /// Address in memory.
    pub sh_addr: u64,
    /// File offset.
    pub sh_offset: u64,
    /// Size in bytes.
    pub sh_size: u64,
    /// By type: a section index.
    pub sh_link: u32,
    /// By type: a section index, or a count.
    pub sh_info: u32,
    /// Alignment; 0 and 1 mean none.
    pub sh_addralign: u64,
    /// Size of an entry of a table.
    pub sh_entsize: u64,
}

/// Where the ELF header says for which system's extensions the file asks.
pub const EI_OSABI: u64 = 7;

/// A program header.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
pub struct Phdr {
    /// `PT_*`.
    pub p_type: u32,
    /// `PF_*`.
    pub p_flags: u32,
    /// File offset.
    pub p_offset: u64,
    /// Address in memory.
    pub p_vaddr: u64,
    /// Physical address: the same.
    pub p_paddr: u64,
    /// Bytes in the file.
    pub p_filesz: u64,
    /// Bytes in memory.
    pub p_memsz: u64,
    /// Alignment.
    pub p_align: u64,
}

/// A symbol.
#[derive(Clone, Copy, Debug, Pod, Zeroable, PartialEq, Eq)]
#[repr(C, packed)]
pub struct Sym {
    /// Offset of the name in the string table.
    pub st_name: u32,
    /// Binding and type.
    pub st_info: u8,
    /// Visibility.
    pub st_other: u8,
    /// Section index, or `SHN_*`.
    pub st_shndx: u16,
    /// Offset in the section, address, or alignment of a common symbol.
    pub st_value: u64,
    /// Size in bytes.
    pub st_size: u64,
}

impl Sym {
    /// `STB_*`.
    #[inline]
    pub fn binding(&self) -> u8 {
        self.st_info >> 4
    }
    /// `STT_*`.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.st_info & 15
    }
    /// `STV_*`.
    #[inline]
    pub fn visibility(&self) -> u8 {
        self.st_other & 3
    }
}

/// A relocation with addend.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
pub struct Rela {
    /// Offset of the place in its section; in an output, its address.
    pub r_offset: u64,
    /// Symbol index (high half) and type (low half).
    pub r_info: u64,
    /// Constant addend.
    pub r_addend: i64,
}

impl Rela {
    /// Index of the symbol.
    #[inline]
    pub fn symbol(&self) -> u32 {
        (self.r_info >> 32) as u32
    }
    /// `R_X86_64_*`.
    #[inline]
    pub fn r_type(&self) -> u32 {
        self.r_info as u32
    }
    /// Makes one.
    pub fn new(offset: u64, r_type: u32, symbol: u32, addend: i64) -> Rela {
        Rela {
            r_offset: offset,
            r_info: (u64::from(symbol) << 32) | u64::from(r_type),
            r_addend: addend,
        }
    }
}

/// An entry of the dynamic section.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
pub struct Dyn {
    /// `DT_*`.
    pub d_tag: u64,
    /// Number or address.
    pub d_val: u64,
}

/// Version definition (`.gnu.version_d`, LSB "Symbol Versioning").
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
pub struct Verdef {
    /// 1.
    pub vd_version: u16,
    /// `VER_FLG_*`.
    pub vd_flags: u16,
    /// The version's index.
    pub vd_ndx: u16,
    /// Number of names that follow.
    pub vd_cnt: u16,
    /// Hash of the name (gABI).
    pub vd_hash: u32,
    /// Offset to the first [`Verdaux`].
    pub vd_aux: u32,
    /// Offset to the next definition, or 0.
    pub vd_next: u32,
}

/// A name of a version definition.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
pub struct Verdaux {
    /// Offset of the name in `.dynstr`.
    pub vda_name: u32,
    /// Offset to the next, or 0.
    pub vda_next: u32,
}

/// Versions needed of one shared object (`.gnu.version_r`).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
pub struct Verneed {
    /// 1.
    pub vn_version: u16,
    /// Number of versions.
    pub vn_cnt: u16,
    /// Offset of the object's name in `.dynstr`.
    pub vn_file: u32,
    /// Offset to the first [`Vernaux`].
    pub vn_aux: u32,
    /// Offset to the next, or 0.
    pub vn_next: u32,
}

/// One version needed.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
pub struct Vernaux {
    /// Hash of the name (gABI).
    pub vna_hash: u32,
    /// `VER_FLG_WEAK` or 0.
    pub vna_flags: u16,
    /// The version's index in this file.
    pub vna_other: u16,
    /// Offset of the name in `.dynstr`.
    pub vna_name: u32,
    /// Offset to the next, or 0.
    pub vna_next: u32,
}

/// Head of a compressed section.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
pub struct Chdr {
    /// `ELFCOMPRESS_*`.
    pub ch_type: u32,
    /// Zero.
    pub ch_reserved: u32,
    /// Size when expanded.
    pub ch_size: u64,
    /// Alignment when expanded.
    pub ch_addralign: u64,
}

/// Borrows `count` records of `T` that start `offset` bytes into `data`.
pub fn table<T: Pod>(data: &[u8], offset: u64, count: u64) -> Option<&[T]> {
    let size = count.checked_mul(size_of::<T>() as u64)?;
    bytemuck::try_cast_slice(bytes(data, offset, size)?).ok()
}

/// Borrows one record of `T` that starts `offset` bytes into `data`.
pub fn record<T: Pod>(data: &[u8], offset: u64) -> Option<&T> {
    table(data, offset, 1)?.first()
}

/// Borrows `size` bytes that start `offset` bytes into `data`.
pub fn bytes(data: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    data.get(start..end)
}

/// The string that starts at `offset` of a string table, without its NUL.
#[inline]
pub fn string(table: &[u8], offset: u32) -> Option<&[u8]> {
    let rest = table.get(offset as usize..)?;
    let end = memchr::memchr(0, rest)?;
    Some(&rest[..end])
}

/// The names of sections that hold debugging information.
pub fn is_debug(name: &[u8]) -> bool {
    name.starts_with(b".debug_")
        || name.starts_with(b".zdebug_")
        || name == b".gdb_index"
        || name.starts_with(b".stab")
}
