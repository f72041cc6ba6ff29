//! Reading a shared object as an input: its dynamic symbols with their
//! versions, its name, and what it needs.
//!
//! Only what a run-time linker would see counts (gABI, "Dynamic Linking"; LSB,
//! "Symbol Versioning"): the dynamic symbol table, not `.symtab`.

use crate::elf::hash_tables::GnuHashTable;
use crate::elf::{self, Dyn, Ehdr, Phdr, Shdr, Sym, Verdaux, Verdef, Vernaux, Verneed, c};
use crate::input::elf_object::{Malformed, check_ident, section_headers};

/// A shared object, borrowed from its mapping.
pub struct Shared<'a> {
    /// `DT_SONAME`, or the name under which it was given.
    pub soname: &'a [u8],
    /// Whether the file has a `DT_SONAME`.
    pub has_soname: bool,
    /// `DT_NEEDED`.
    pub needed: Vec<&'a [u8]>,
    /// `DT_RPATH`.
    pub rpath: Option<&'a [u8]>,
    /// `DT_RUNPATH`.
    pub runpath: Option<&'a [u8]>,
    /// `DT_AUDIT`.
    pub audit: Option<&'a [u8]>,
    /// The dynamic symbol table.
    pub syms: &'a [Sym],
    /// Index of the first symbol that is not local.
    pub first_global: u32,
    /// `.dynstr`.
    pub strtab: &'a [u8],
    /// `.gnu.version`, by symbol; empty if nothing is versioned.
    versym: &'a [[u8; 2]],
    /// Names of versions, by index: defined ones, and ones that it needs of others.
    versions: Vec<&'a [u8]>,
    /// Number of versions that it defines: indices below this.
    defined_versions: usize,
    data: &'a [u8],
    shdrs: &'a [Shdr],
    /// Number of the section that holds the sections' names.
    names: usize,
    /// Addresses that are read-only after relocation.
    relro: std::ops::Range<u64>,
    /// The section `.gnu.hash`.
    gnu_hash: Option<GnuHashTable<'a>>,
    /// If not all of its symbols take part in the link, those that do, in order ([`lazy_shared_names`](crate::resolve::lazy_shared_names)).
    pub mentioned: Option<Vec<u32>>,
}

/// Bit of a `.gnu.version` entry: not the default version of the name.
const HIDDEN: u16 = 0x8000;

impl<'a> Shared<'a> {
    /// Names and bytes of its sections, as far as they can be read: nothing that a program needs is found by them.
    pub fn sections(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let bytes = |shdr: &Shdr| match shdr.sh_type {
            c::SHT_NOBITS => None,
            _ => elf::bytes(self.data, shdr.sh_offset, shdr.sh_size),
        };
        let names = self.shdrs.get(self.names).and_then(bytes);
        self.shdrs.iter().filter_map(move |shdr| {
            let name = elf::string(names?, shdr.sh_name)?;
            Some((name, bytes(shdr)?))
        })
    }

    /// Whether it defines a version of such a name.
    pub fn defines_version(&self, wanted: impl Fn(&[u8]) -> bool) -> bool {
        let defined = &self.versions[..self.defined_versions.min(self.versions.len())];
        defined.iter().any(|name| wanted(name))
    }

    /// Finds and checks the dynamic tables of the shared object in `data`.
    pub fn parse(data: &'a [u8], given_name: &'a [u8]) -> Result<Self, Malformed> {
        let outside = |what, offset| Malformed::Outside { what, offset };
        let ehdr: &Ehdr = elf::record(data, 0).ok_or(outside("ELF header", 0))?;
        check_ident(ehdr)?;
        let (shdrs, names) = section_headers(data, ehdr)?;
        let mut shared = Shared {
            soname: given_name,
            has_soname: false,
            needed: Vec::new(),
            rpath: None,
            runpath: None,
            audit: None,
            syms: &[],
            first_global: 0,
            strtab: &[],
            versym: &[],
            versions: Vec::new(),
            defined_versions: 0,
            data,
            shdrs,
            names,
            relro: 0..0,
            gnu_hash: None,
            mentioned: None,
        };
        let phdrs: &[Phdr] = elf::table(data, ehdr.e_phoff, { ehdr.e_phnum }.into())
            .ok_or(outside("program headers", ehdr.e_phoff))?;
        for phdr in phdrs
            .iter()
            .filter(|phdr| { phdr.p_type } == c::PT_GNU_RELRO)
        {
            shared.relro = phdr.p_vaddr..{ phdr.p_vaddr }.saturating_add(phdr.p_memsz);
        }
        let linked = |shdr: &Shdr| {
            shdrs
                .get(shdr.sh_link as usize)
                .and_then(|strtab| elf::bytes(data, strtab.sh_offset, strtab.sh_size))
                .ok_or(outside("string table", shdr.sh_offset))
        };
        let mut dynamic: &[Dyn] = &[];
        let mut dynamic_strings: &[u8] = &[];
        for shdr in shdrs {
            let (offset, size) = (shdr.sh_offset, shdr.sh_size);
            match shdr.sh_type {
                c::SHT_DYNSYM => {
                    shared.syms = elf::table(data, offset, size / size_of::<Sym>() as u64)
                        .ok_or(outside("dynamic symbol table", offset))?;
                    shared.first_global = shdr.sh_info.min(shared.syms.len() as u32);
                    shared.strtab = linked(shdr)?;
                }
                c::SHT_DYNAMIC => {
                    dynamic = elf::table(data, offset, size / size_of::<Dyn>() as u64)
                        .ok_or(outside("dynamic section", offset))?;
                    dynamic_strings = linked(shdr)?;
                }
                c::SHT_GNU_VERSYM => {
                    shared.versym = elf::table(data, offset, size / 2)
                        .ok_or(outside("version table", offset))?;
                }
                c::SHT_GNU_HASH => {
                    let section = elf::bytes(data, offset, size);
                    shared.gnu_hash = section.and_then(GnuHashTable::parse);
                }
                _ => {}
            }
        }
        for entry in dynamic {
            let string = || elf::string(dynamic_strings, entry.d_val as u32);
            match entry.d_tag as u32 {
                c::DT_NULL => break,
                c::DT_NEEDED => shared.needed.extend(string()),
                c::DT_RPATH => shared.rpath = string(),
                c::DT_RUNPATH => shared.runpath = string(),
                c::DT_AUDIT => shared.audit = string(),
                c::DT_SONAME => {
                    if let Some(name) = string() {
                        shared.soname = name;
                        shared.has_soname = true;
                    }
                }
                _ => {}
            }
        }
        for shdr in shdrs {
            let damaged = outside("version definitions", shdr.sh_offset);
            match shdr.sh_type {
                c::SHT_GNU_VERDEF => {
                    shared
                        .read_verdef(data, shdr, linked(shdr)?)
                        .ok_or(damaged)?;
                    shared.defined_versions = shared.versions.len();
                }
                c::SHT_GNU_VERNEED => shared
                    .read_verneed(data, shdr, linked(shdr)?)
                    .ok_or(damaged)?,
                _ => {}
            }
        }
        Ok(shared)
    }

    fn set_version(&mut self, index: u16, name: &'a [u8]) {
        let index = usize::from(index & !HIDDEN);
        if self.versions.len() <= index {
            self.versions.resize(index + 1, b"");
        }
        self.versions[index] = name;
    }

    fn read_verdef(&mut self, data: &'a [u8], shdr: &Shdr, strings: &'a [u8]) -> Option<()> {
        let mut at = shdr.sh_offset;
        for _ in 0..shdr.sh_info {
            let def: &Verdef = elf::record(data, at)?;
            let aux: &Verdaux = elf::record(data, at.checked_add({ def.vd_aux }.into())?)?;
            // The base definition is the file's own name, not a version of symbols.
            if { def.vd_flags } & c::VER_FLG_BASE == 0 {
                self.set_version(def.vd_ndx, elf::string(strings, aux.vda_name)?);
            }
            if { def.vd_next } == 0 {
                break;
            }
            at = at.checked_add({ def.vd_next }.into())?;
        }
        Some(())
    }

    fn read_verneed(&mut self, data: &'a [u8], shdr: &Shdr, strings: &'a [u8]) -> Option<()> {
        let mut at = shdr.sh_offset;
        // Records do not lie over each other, so that there cannot be more than this.
        let mut left = data.len() / size_of::<Vernaux>();
        for _ in 0..shdr.sh_info {
            let need: &Verneed = elf::record(data, at)?;
            let mut aux_at = at.checked_add({ need.vn_aux }.into())?;
            for _ in 0..need.vn_cnt {
                left = left.checked_sub(1)?;
                let aux: &Vernaux = elf::record(data, aux_at)?;
                self.set_version(aux.vna_other, elf::string(strings, aux.vna_name)?);
                if { aux.vna_next } == 0 {
                    break;
                }
                aux_at = aux_at.checked_add({ aux.vna_next }.into())?;
            }
            if { need.vn_next } == 0 {
                break;
            }
            at = at.checked_add({ need.vn_next }.into())?;
        }
        Some(())
    }

    /// The symbols that are not local and take part in the link.
    pub fn globals(&self) -> impl Iterator<Item = u32> + '_ {
        let all = match self.mentioned {
            None => self.first_global..self.syms.len() as u32,
            Some(_) => 0..0,
        };
        all.chain(self.mentioned.iter().flatten().copied())
    }

    /// The hash table by which all of its definitions can be found, if there is one.
    pub fn hash_table(&self) -> Option<GnuHashTable<'a>> {
        let table = self.gnu_hash?;
        let before = self.first_global..table.first_symbol.min(self.syms.len() as u32);
        let found = |index| !self.is_defined(index);
        before.into_iter().all(found).then_some(table)
    }

    /// A symbol's name.
    #[inline]
    pub fn name(&self, index: u32) -> &'a [u8] {
        self.syms
            .get(index as usize)
            .and_then(|sym| elf::string(self.strtab, sym.st_name))
            .unwrap_or(b"")
    }

    /// Whether the symbol is defined here for others to use.
    #[inline]
    pub fn is_defined(&self, index: u32) -> bool {
        let Some(sym) = self.syms.get(index as usize) else {
            return false;
        };
        let section = sym.st_shndx;
        section != c::SHN_UNDEF && self.raw_version(index) & !HIDDEN != c::VER_NDX_LOCAL
    }

    /// Symbols that it needs of others, but for weak ones.
    pub fn strong_references(&self) -> impl Iterator<Item = u32> + '_ {
        let globals = (0..).zip(self.syms).skip(self.first_global as usize);
        globals
            .filter(|(_, sym)| { sym.st_shndx } == c::SHN_UNDEF && sym.binding() != c::STB_WEAK)
            .map(|(index, _)| index)
    }

    /// Whether a symbol's address must be the same for everyone, and is the shared object's own (`STV_PROTECTED`).
    pub fn is_protected(&self, index: u32) -> bool {
        let sym = self.syms.get(index as usize);
        sym.is_some_and(|sym| sym.st_other & 3 == c::STV_PROTECTED)
    }

    /// Whether the symbol is a variable that is not weak and has bytes in the file: one that `.bss` holds could as well
    /// be a common block.
    pub fn has_value(&self, index: u32) -> bool {
        let Some(sym) = self.syms.get(index as usize) else {
            return false;
        };
        let is_function = matches!(sym.kind(), c::STT_FUNC | c::STT_GNU_IFUNC);
        let section = self.shdrs.get(usize::from(sym.st_shndx));
        !is_function
            && sym.binding() != c::STB_WEAK
            && { sym.st_shndx } != c::SHN_UNDEF
            && section.is_some_and(|shdr| {
                shdr.sh_type != c::SHT_NOBITS && shdr.sh_flags & u64::from(c::SHF_ALLOC) != 0
            })
    }

    /// Whether a symbol has neither type nor size.
    pub fn has_no_extent(&self, index: u32) -> bool {
        let sym = self.syms.get(index as usize);
        sym.is_some_and(|sym| sym.kind() == c::STT_NOTYPE && { sym.st_size } == 0)
    }

    /// Whether a symbol is in a section that holds no code.
    pub fn is_in_data(&self, index: u32) -> bool {
        let sym = self.syms.get(index as usize);
        sym.and_then(|sym| self.shdrs.get(usize::from(sym.st_shndx)))
            .is_some_and(|shdr| {
                let flags = shdr.sh_flags;
                flags & u64::from(c::SHF_ALLOC) != 0 && flags & u64::from(c::SHF_EXECINSTR) == 0
            })
    }

    /// Whether the definition is the one that an unversioned reference gets.
    #[inline]
    pub fn is_default(&self, index: u32) -> bool {
        self.raw_version(index) & HIDDEN == 0
    }

    fn raw_version(&self, index: u32) -> u16 {
        self.versym
            .get(index as usize)
            .map_or(c::VER_NDX_GLOBAL, |bytes| u16::from_le_bytes(*bytes))
    }

    /// The name of a symbol's version, if it has one.
    pub fn version(&self, index: u32) -> Option<&'a [u8]> {
        let version = usize::from(self.raw_version(index) & !HIDDEN);
        self.versions
            .get(version)
            .copied()
            .filter(|name| version >= 2 && !name.is_empty())
    }

    /// The versions that it defines.
    pub fn defined_versions(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.versions[..self.defined_versions]
            .iter()
            .copied()
            .filter(|name| !name.is_empty())
    }

    /// Alignment of a symbol's storage, for a copy of it: what its section's
    /// alignment and its address allow.
    pub fn alignment(&self, index: u32) -> u64 {
        let Some(sym) = self.syms.get(index as usize) else {
            return 1;
        };
        let section = self.shdrs.get(usize::from(sym.st_shndx));
        let section_align = section
            .map_or(16, |shdr| shdr.sh_addralign)
            .clamp(1, 1 << 16);
        // Of what is no power of two, the part that is one.
        let section_align = 1 << section_align.trailing_zeros();
        let value_align = if { sym.st_value } == 0 {
            section_align
        } else {
            1 << { sym.st_value }.trailing_zeros().min(16)
        };
        section_align.min(value_align)
    }

    /// Whether a symbol's storage cannot be written in the shared object itself.
    pub fn is_read_only(&self, index: u32) -> bool {
        let section = self
            .syms
            .get(index as usize)
            .and_then(|sym| self.shdrs.get(usize::from(sym.st_shndx)));
        let relro = self
            .syms
            .get(index as usize)
            .is_some_and(|sym| self.relro.contains(&{ sym.st_value }));
        relro || section.is_some_and(|shdr| shdr.sh_flags & u64::from(c::SHF_WRITE) == 0)
    }
}
