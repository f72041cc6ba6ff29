//! Reading an ELF relocatable object: headers, sections, symbols, relocations.
//!
//! Nothing here interprets; it only makes sure that every table lies within the
//! file, that every index points at something, and that an error names the
//! offset. The structures are gABI chapter 4's, taken unaligned from the file
//! (members of archives begin at even offsets only).

use super::SplitError;
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, Rela64, SectionHeader64, Sym64};
use object::pod::{self, Pod};

/// A section header with what it points to.
#[derive(Clone, Copy)]
pub struct Section<'a> {
    /// The header.
    pub header: &'a SectionHeader64<LE>,
    /// The name.
    pub name: &'a [u8],
    /// The bytes in the file; empty for `SHT_NOBITS`.
    pub data: &'a [u8],
}

impl Section<'_> {
    /// `sh_type`.
    pub fn sh_type(&self) -> u32 {
        self.header.sh_type.get(LE)
    }

    /// `sh_flags`.
    pub fn flags(&self) -> u64 {
        self.header.sh_flags.get(LE)
    }

    /// `sh_size`.
    pub fn size(&self) -> u64 {
        self.header.sh_size.get(LE)
    }

    /// `sh_link`.
    pub fn link(&self) -> u32 {
        self.header.sh_link.get(LE)
    }

    /// `sh_info`.
    pub fn info(&self) -> u32 {
        self.header.sh_info.get(LE)
    }

    /// `sh_offset`.
    pub fn offset(&self) -> u64 {
        self.header.sh_offset.get(LE)
    }

    /// The name for messages.
    pub fn display_name(&self) -> String {
        String::from_utf8_lossy(self.name).into_owned()
    }
}

/// A symbol with its section index made whole (`SHT_SYMTAB_SHNDX` applied).
#[derive(Clone, Copy)]
pub struct Symbol<'a> {
    /// The entry.
    pub entry: &'a Sym64<LE>,
    /// The name.
    pub name: &'a [u8],
    /// Where it is defined.
    pub place: SymbolPlace,
}

/// Where a symbol of an object is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolPlace {
    /// `SHN_UNDEF`.
    Undefined,
    /// `SHN_ABS`.
    Absolute,
    /// `SHN_COMMON`.
    Common,
    /// A section, by index.
    Section(u32),
}

impl Symbol<'_> {
    /// `STB_*`.
    pub fn bind(&self) -> u8 {
        self.entry.st_info >> 4
    }

    /// `STT_*`.
    pub fn kind(&self) -> u8 {
        self.entry.st_info & 0xf
    }

    /// `st_value`.
    pub fn value(&self) -> u64 {
        self.entry.st_value.get(LE)
    }

    /// Whether its binding is `STB_LOCAL`.
    pub fn is_local(&self) -> bool {
        self.bind() == elf::STB_LOCAL
    }

    /// The section that it is defined in, if it is in one.
    pub fn section(&self) -> Option<u32> {
        match self.place {
            SymbolPlace::Section(index) => Some(index),
            _ => None,
        }
    }
}

/// A relocatable object whose tables have been checked.
pub struct Object<'a> {
    /// The file header.
    pub header: &'a FileHeader64<LE>,
    /// The sections; index 0 is the null section.
    pub sections: Vec<Section<'a>>,
    /// The symbols; index 0 is the null symbol. Empty without a symbol table.
    pub symbols: Vec<Symbol<'a>>,
    /// Index of the first symbol that is not local.
    pub first_global: usize,
    /// Index of the symbol table's section, or 0.
    pub symbol_table: u32,
}

fn slice_at<T: Pod>(
    bytes: &[u8],
    offset: u64,
    count: u64,
    what: impl Fn() -> String,
) -> Result<&[T], SplitError> {
    let beyond = || SplitError::damaged(offset, format!("{} extends beyond the end", what()));
    let start = usize::try_from(offset).map_err(|_| beyond())?;
    let count = usize::try_from(count).map_err(|_| beyond())?;
    let tail = bytes.get(start..).ok_or_else(beyond)?;
    pod::slice_from_bytes(tail, count)
        .map(|(slice, _)| slice)
        .map_err(|()| beyond())
}

/// The bytes at `offset` in a string table up to the next NUL.
fn string_at(table: &[u8], offset: u32) -> Option<&[u8]> {
    let tail = table.get(offset as usize..)?;
    memchr::memchr(0, tail).map(|end| &tail[..end])
}

impl<'a> Object<'a> {
    /// Checks and reads the tables of an object.
    ///
    /// # Errors
    /// [`SplitError::Damaged`] if a table is not within the file or an index
    /// points nowhere; [`SplitError::NotSplittable`] for what is no ELF64
    /// little-endian x86-64 relocatable object.
    pub fn parse(bytes: &'a [u8]) -> Result<Object<'a>, SplitError> {
        if bytes.starts_with(b"BC\xc0\xde") || bytes.starts_with(b"\xde\xc0\x17\x0b") {
            return Err(SplitError::not_splittable("it is LLVM bitcode"));
        }
        if !bytes.starts_with(&elf::ELFMAG) {
            return Err(SplitError::not_splittable("it is not an ELF file"));
        }
        let header = &slice_at::<FileHeader64<LE>>(bytes, 0, 1, || "the ELF header".into())?[0];
        if header.e_ident.class != elf::ELFCLASS64 || header.e_ident.data != elf::ELFDATA2LSB {
            return Err(SplitError::not_splittable(
                "it is not a 64-bit little-endian ELF file",
            ));
        }
        if header.e_machine.get(LE) != elf::EM_X86_64 {
            return Err(SplitError::not_splittable(format!(
                "its machine is {} (only x86-64, {}, is understood)",
                header.e_machine.get(LE),
                elf::EM_X86_64
            )));
        }
        if header.e_type.get(LE) != elf::ET_REL {
            return Err(SplitError::not_splittable(
                "it is not a relocatable object file",
            ));
        }
        let sections = Self::parse_sections(bytes, header)?;
        let mut object = Object {
            header,
            sections,
            symbols: Vec::new(),
            first_global: 0,
            symbol_table: 0,
        };
        object.parse_symbols()?;
        Ok(object)
    }

    fn parse_sections(
        bytes: &'a [u8],
        header: &'a FileHeader64<LE>,
    ) -> Result<Vec<Section<'a>>, SplitError> {
        let table = header.e_shoff.get(LE);
        if table == 0 {
            return Err(SplitError::not_splittable("it has no sections"));
        }
        if usize::from(header.e_shentsize.get(LE)) != size_of::<SectionHeader64<LE>>() {
            return Err(SplitError::damaged(
                58,
                "the size of a section header is not 64",
            ));
        }
        // gABI: with 0xff00 or more sections, the null section has the numbers.
        let null = &slice_at::<SectionHeader64<LE>>(bytes, table, 1, || {
            "the section header table".into()
        })?[0];
        let count = match header.e_shnum.get(LE) {
            0 => null.sh_size.get(LE),
            count => u64::from(count),
        };
        let names = match header.e_shstrndx.get(LE) {
            elf::SHN_XINDEX => null.sh_link.get(LE),
            index => u32::from(index),
        };
        if count > u64::from(u32::MAX) {
            return Err(SplitError::damaged(
                table,
                "the number of sections is absurd",
            ));
        }
        let headers: &[SectionHeader64<LE>] =
            slice_at(bytes, table, count, || "the section header table".into())?;
        let names: &[u8] = match headers.get(names as usize) {
            Some(section) if section.sh_type.get(LE) == elf::SHT_STRTAB => slice_at(
                bytes,
                section.sh_offset.get(LE),
                section.sh_size.get(LE),
                || "the section name table".into(),
            )?,
            _ => {
                return Err(SplitError::damaged(
                    62,
                    "the section name table's index is not a string table's",
                ));
            }
        };
        let mut sections = Vec::with_capacity(headers.len());
        for (index, header) in headers.iter().enumerate() {
            let place = table + (index * size_of::<SectionHeader64<LE>>()) as u64;
            let name = string_at(names, header.sh_name.get(LE)).ok_or_else(|| {
                SplitError::damaged(
                    place,
                    format!("the name of section {index} is not in its table"),
                )
            })?;
            let data = match header.sh_type.get(LE) {
                elf::SHT_NOBITS | elf::SHT_NULL => &[],
                _ => slice_at(
                    bytes,
                    header.sh_offset.get(LE),
                    header.sh_size.get(LE),
                    || format!("section {index}, {},", String::from_utf8_lossy(name)),
                )?,
            };
            sections.push(Section { header, name, data });
        }
        Ok(sections)
    }

    fn parse_symbols(&mut self) -> Result<(), SplitError> {
        let mut tables = (0..self.sections.len())
            .filter(|&index| self.sections[index].sh_type() == elf::SHT_SYMTAB);
        let Some(table_index) = tables.next() else {
            return Ok(());
        };
        let table = self.sections[table_index];
        if tables.next().is_some() {
            return Err(SplitError::damaged(
                table.offset(),
                "there are two symbol tables",
            ));
        }
        let entries: &[Sym64<LE>] = pod::slice_from_all_bytes(table.data).map_err(|()| {
            SplitError::damaged(
                table.offset(),
                "the symbol table's size is not a multiple of 24",
            )
        })?;
        let strings = match self.sections.get(table.link() as usize) {
            Some(section) if section.sh_type() == elf::SHT_STRTAB => section.data,
            _ => {
                return Err(SplitError::damaged(
                    table.offset(),
                    "the symbol table is linked to no string table",
                ));
            }
        };
        let extended: &[object::U32<LE>] = self
            .sections
            .iter()
            .find(|section| {
                section.sh_type() == elf::SHT_SYMTAB_SHNDX && section.link() as usize == table_index
            })
            .map_or(Ok(&[][..]), |section| {
                pod::slice_from_all_bytes(section.data).map_err(|()| {
                    SplitError::damaged(
                        section.offset(),
                        "the size of the symbols' section indices is not a multiple of 4",
                    )
                })
            })?;
        let first_global = table.info() as usize;
        if first_global > entries.len() {
            return Err(SplitError::damaged(
                table.offset(),
                "the first global symbol is beyond the symbol table",
            ));
        }
        let section_count = self.sections.len();
        let mut symbols = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            let damaged = |message: &str| {
                SplitError::damaged(
                    table.offset() + (index * size_of::<Sym64<LE>>()) as u64,
                    format!("symbol {index}: {message}"),
                )
            };
            let name = string_at(strings, entry.st_name.get(LE))
                .ok_or_else(|| damaged("the name is not in the string table"))?;
            let place = match entry.st_shndx.get(LE) {
                elf::SHN_UNDEF => SymbolPlace::Undefined,
                elf::SHN_ABS => SymbolPlace::Absolute,
                elf::SHN_COMMON => SymbolPlace::Common,
                elf::SHN_XINDEX => SymbolPlace::Section(
                    extended
                        .get(index)
                        .ok_or_else(|| damaged("its section index is missing"))?
                        .get(LE),
                ),
                reserved if reserved >= elf::SHN_LORESERVE => {
                    return Err(SplitError::not_splittable(format!(
                        "symbol {} is in the reserved section {reserved:#x}",
                        String::from_utf8_lossy(name)
                    )));
                }
                section => SymbolPlace::Section(u32::from(section)),
            };
            if let SymbolPlace::Section(section) = place
                && (section == 0 || section as usize >= section_count)
            {
                return Err(damaged("its section does not exist"));
            }
            let symbol = Symbol { entry, name, place };
            if symbol.is_local() != (index < first_global) {
                return Err(damaged("local symbols must stand before all others"));
            }
            symbols.push(symbol);
        }
        self.symbols = symbols;
        self.first_global = first_global;
        self.symbol_table = table_index as u32;
        Ok(())
    }

    /// The relocations in a section of type `SHT_RELA`.
    ///
    /// # Errors
    /// If the table's size is not a multiple of an entry's, or it belongs to another
    /// symbol table.
    pub fn relocations(&self, section: u32) -> Result<&'a [Rela64<LE>], SplitError> {
        let section = &self.sections[section as usize];
        if section.link() != self.symbol_table {
            return Err(SplitError::damaged(
                section.offset(),
                format!("{} is linked to no symbol table", section.display_name()),
            ));
        }
        pod::slice_from_all_bytes(section.data).map_err(|()| {
            SplitError::damaged(
                section.offset(),
                format!(
                    "the size of {} is not a multiple of 24",
                    section.display_name()
                ),
            )
        })
    }
}
