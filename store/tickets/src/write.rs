//! Making tickets: a whole ELF relocatable object around the note.
//!
//! Beside the note (SPEC.md, section 20), which is all that this project reads, a ticket has
//!
//! * a symbol table with the names that the compilation defines and needs, with their types, bindings, visibilities and
//!   sizes, each in an empty section of the kind that makes `nm` show the letter that it would show for the object;
//! * for linkers that know no tickets, an entry in `.init_array`, which no linker leaves out, that refers to a hidden
//!   undefined symbol whose name says what is wrong.

use crate::ticket::TicketError;
use format_spec::digest::Digest;
use format_spec::fragment::SectionKind;
use format_spec::ids::NameId;
use format_spec::program::SymbolRecord;
use format_spec::ticket::{NOTE_SECTION, TicketNote};
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, Rela64, SectionHeader64, Sym64};
use object::pod;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use store::guard;
use store::program::{CompilationView, ProgramError, Programs, Repository, section_kind};

/// The undefined symbol that stops other linkers.
pub const EXPLANATION: &str = "this_is_a_program_repository_ticket__link_it_with_repo_ld";

/// A section of the ticket that exists only so that symbols can be in it.
struct Stand {
    name: &'static [u8],
    sh_type: u32,
    flags: u32,
    letter_of: fn(SectionKind, u32) -> bool,
}

/// The sections in which a ticket's symbols stand, by what decides `nm`'s letter.
const STANDS: &[Stand] = &[
    Stand {
        name: b".text",
        sh_type: elf::SHT_PROGBITS,
        flags: elf::SHF_ALLOC | elf::SHF_EXECINSTR,
        letter_of: |_, flags| flags & elf::SHF_EXECINSTR != 0,
    },
    Stand {
        name: b".tdata",
        sh_type: elf::SHT_PROGBITS,
        flags: elf::SHF_ALLOC | elf::SHF_WRITE | elf::SHF_TLS,
        letter_of: |kind, _| matches!(kind, SectionKind::ThreadData),
    },
    Stand {
        name: b".tbss",
        sh_type: elf::SHT_NOBITS,
        flags: elf::SHF_ALLOC | elf::SHF_WRITE | elf::SHF_TLS,
        letter_of: |kind, _| matches!(kind, SectionKind::ThreadBss),
    },
    Stand {
        name: b".bss",
        sh_type: elf::SHT_NOBITS,
        flags: elf::SHF_ALLOC | elf::SHF_WRITE,
        letter_of: |kind, _| matches!(kind, SectionKind::Bss),
    },
    Stand {
        name: b".data",
        sh_type: elf::SHT_PROGBITS,
        flags: elf::SHF_ALLOC | elf::SHF_WRITE,
        letter_of: |_, flags| flags & elf::SHF_WRITE != 0,
    },
    Stand {
        name: b".rodata",
        sh_type: elf::SHT_PROGBITS,
        flags: elf::SHF_ALLOC,
        letter_of: |_, flags| flags & elf::SHF_ALLOC != 0,
    },
    Stand {
        name: b".comment",
        sh_type: elf::SHT_PROGBITS,
        flags: 0,
        letter_of: |_, _| true,
    },
];

/// Index of the first of them: the null section and the note come before.
const FIRST_STAND: usize = 2;
const INIT_ARRAY_INDEX: usize = FIRST_STAND + STANDS.len();

/// Makes the bytes of a ticket that names the compilation `digest` of `repository`.
///
/// # Errors
/// If the compilation is not there, or the repository is damaged.
pub fn ticket_bytes(repository: &Repository, digest: &Digest) -> Result<Vec<u8>, TicketError> {
    let programs = repository.programs()?;
    let compilation = programs.compilation(digest)?;
    let mut writer = TicketWriter::new();
    writer.symbols(&programs, &compilation)?;
    Ok(writer.finish(repository, digest, &compilation))
}

/// Writes a ticket that names the compilation `digest` of `repository` to `path`: first
/// under another name beside it, then by renaming, so that nobody ever sees half of one.
///
/// # Errors
/// As [`ticket_bytes`]; and [`ProgramError::Io`] if the file cannot be written: then there is
/// none, or still the old one.
pub fn write_ticket(
    path: &Path,
    repository: &Repository,
    digest: &Digest,
) -> Result<(), TicketError> {
    let bytes = ticket_bytes(repository, digest)?;
    let io_error = |source| {
        TicketError::Repository(ProgramError::Io {
            path: path.to_owned(),
            action: "write the ticket",
            source,
        })
    };
    guard::replace(".repo-ld-", path, 0o666, &bytes).map_err(io_error)
}

struct TicketWriter {
    symbols: Vec<Sym64<LE>>,
    strings: Vec<u8>,
    first_global: u32,
}

impl TicketWriter {
    fn new() -> Self {
        let mut writer = TicketWriter {
            symbols: Vec::new(),
            strings: vec![0],
            first_global: 0,
        };
        writer.push(0, 0, 0, 0, 0, 0);
        writer
    }

    fn push(&mut self, name: u32, info: u8, other: u8, section: u16, value: u64, size: u64) {
        self.symbols.push(Sym64 {
            st_name: object::U32::new(LE, name),
            st_info: info,
            st_other: other,
            st_shndx: object::U16::new(LE, section),
            st_value: object::U64::new(LE, value),
            st_size: object::U64::new(LE, size),
        });
    }

    fn string(&mut self, bytes: &[u8]) -> u32 {
        let at = self.strings.len() as u32;
        self.strings.extend_from_slice(bytes);
        self.strings.push(0);
        at
    }

    fn symbols(
        &mut self,
        programs: &Programs<'_>,
        compilation: &CompilationView<'_>,
    ) -> Result<(), TicketError> {
        let stand_of = stands(programs, compilation)?;
        let first_global = compilation.header().first_global as usize;
        for (index, symbol) in compilation.symbols().iter().enumerate().skip(1) {
            if index == first_global {
                self.first_global = self.symbols.len() as u32;
            }
            let is_local = index < first_global;
            if is_local && (symbol.name == NameId(0) || symbol.info & 0xf == elf::STT_SECTION) {
                continue;
            }
            let (value, size) = compilation.value_and_size(symbol);
            let section = if symbol.bits & SymbolRecord::PIECE != 0 {
                rodata_stand()
            } else {
                match symbol.section {
                    SymbolRecord::SECTION_UNDEFINED => elf::SHN_UNDEF,
                    SymbolRecord::SECTION_ABSOLUTE => elf::SHN_ABS,
                    SymbolRecord::SECTION_COMMON => elf::SHN_COMMON,
                    section => stand_of
                        .get(section as usize - 1)
                        .copied()
                        .unwrap_or(elf::SHN_UNDEF),
                }
            };
            // An offset would lie beyond the end of the empty section.
            let value = match section {
                elf::SHN_UNDEF | elf::SHN_ABS | elf::SHN_COMMON => value,
                _ => 0,
            };
            let name = self.string(programs.name(symbol.name)?);
            self.push(name, symbol.info, symbol.other, section, value, size);
        }
        if compilation.symbols().len() <= first_global {
            self.first_global = self.symbols.len() as u32;
        }
        let name = self.string(EXPLANATION.as_bytes());
        self.push(
            name,
            elf::STB_GLOBAL << 4,
            elf::STV_HIDDEN,
            elf::SHN_UNDEF,
            0,
            0,
        );
        Ok(())
    }

    fn finish(
        self,
        repository: &Repository,
        digest: &Digest,
        compilation: &CompilationView<'_>,
    ) -> Vec<u8> {
        let explanation = self.symbols.len() as u32 - 1;
        let symbol_table = INIT_ARRAY_INDEX as u32 + 2;
        let relocation = Rela64::<LE> {
            r_offset: object::U64::new(LE, 0),
            r_info: Rela64::r_info(LE, false, explanation, elf::R_X86_64_64),
            r_addend: object::I64::new(LE, 0),
        };
        let mut out = SectionWriter::default();
        out.section(&[], elf::SHT_NULL, 0, &[], 0);
        let path = std::path::absolute(repository.path()).unwrap_or(repository.path().to_owned());
        let note = TicketNote {
            uuid: repository.uuid(),
            compilation: *digest,
            repository: path.as_os_str().as_bytes(),
        };
        out.section(NOTE_SECTION, elf::SHT_NOTE, 0, &note.encode(), 4);
        for stand in STANDS {
            out.section(stand.name, stand.sh_type, stand.flags, &[], 1);
        }
        let alloc = elf::SHF_ALLOC | elf::SHF_WRITE;
        out.section(b".init_array", elf::SHT_INIT_ARRAY, alloc, &[0; 8], 8);
        let table = pod::bytes_of(&relocation);
        out.section(
            b".rela.init_array",
            elf::SHT_RELA,
            elf::SHF_INFO_LINK,
            table,
            8,
        );
        out.link(symbol_table, INIT_ARRAY_INDEX as u32, 24);
        let entries = pod::bytes_of_slice(&self.symbols);
        out.section(b".symtab", elf::SHT_SYMTAB, 0, entries, 8);
        out.link(symbol_table + 1, self.first_global, 24);
        out.section(b".strtab", elf::SHT_STRTAB, 0, &self.strings, 1);
        // Without it, linkers would think that the stack must be executable.
        out.section(b".note.GNU-stack", elf::SHT_PROGBITS, 0, &[], 1);
        out.finish(compilation)
    }
}

fn rodata_stand() -> u16 {
    let place = STANDS.iter().position(|stand| stand.name == b".rodata");
    (FIRST_STAND + place.unwrap_or_default()) as u16
}

/// For each section of the compilation the index of the ticket's section in which
/// its symbols stand.
fn stands(
    programs: &Programs<'_>,
    compilation: &CompilationView<'_>,
) -> Result<Vec<u16>, TicketError> {
    let mut stands = Vec::with_capacity(compilation.header().section_count as usize);
    for member in compilation.members() {
        for section in programs.fragment(member.fragment)?.sections() {
            let kind = section_kind(section.record).unwrap_or(SectionKind::Other);
            let place = STANDS
                .iter()
                .position(|stand| (stand.letter_of)(kind, section.record.sh_flags))
                .unwrap_or_default();
            stands.push((FIRST_STAND + place) as u16);
        }
    }
    Ok(stands)
}

/// Lays out sections one after another.
#[derive(Default)]
struct SectionWriter {
    contents: Vec<u8>,
    headers: Vec<SectionHeader64<LE>>,
    names: Vec<u8>,
}

impl SectionWriter {
    fn section(&mut self, name: &[u8], sh_type: u32, flags: u32, bytes: &[u8], align: usize) {
        let header_size = size_of::<FileHeader64<LE>>();
        let offset = (header_size + self.contents.len()).next_multiple_of(align.max(1));
        self.contents.resize(offset - header_size, 0);
        self.contents.extend_from_slice(bytes);
        if self.names.is_empty() {
            self.names.push(0);
        }
        let sh_name = match name {
            [] => 0,
            _ => {
                let at = self.names.len() as u32;
                self.names.extend_from_slice(name);
                self.names.push(0);
                at
            }
        };
        let offset = if sh_type == elf::SHT_NULL { 0 } else { offset };
        self.headers.push(SectionHeader64 {
            sh_name: object::U32::new(LE, sh_name),
            sh_type: object::U32::new(LE, sh_type),
            sh_flags: object::U64::new(LE, u64::from(flags)),
            sh_addr: object::U64::new(LE, 0),
            sh_offset: object::U64::new(LE, offset as u64),
            sh_size: object::U64::new(LE, bytes.len() as u64),
            sh_link: object::U32::new(LE, 0),
            sh_info: object::U32::new(LE, 0),
            sh_addralign: object::U64::new(LE, align as u64),
            sh_entsize: object::U64::new(LE, 0),
        });
    }

    /// Completes the header of the section just written.
    fn link(&mut self, link: u32, info: u32, entsize: u64) {
        if let Some(header) = self.headers.last_mut() {
            header.sh_link = object::U32::new(LE, link);
            header.sh_info = object::U32::new(LE, info);
            header.sh_entsize = object::U64::new(LE, entsize);
        }
    }

    /// The section headers and their names come first, with the note after them: whoever reads only
    /// those (`repo-ld`) reads one page.
    fn finish(mut self, compilation: &CompilationView<'_>) -> Vec<u8> {
        let name = b".shstrtab";
        let mut names = self.names.clone();
        names.extend_from_slice(name);
        names.push(0);
        self.section(name, elf::SHT_STRTAB, 0, &[], 1);
        let header_size = size_of::<FileHeader64<LE>>();
        let names_offset = header_size + size_of::<SectionHeader64<LE>>() * self.headers.len();
        // No section wants more alignment than 8.
        let start = (names_offset + names.len()).next_multiple_of(8);
        for header in &mut self.headers {
            if header.sh_type.get(LE) != elf::SHT_NULL {
                let offset = header.sh_offset.get(LE) + (start - header_size) as u64;
                header.sh_offset.set(LE, offset);
            }
        }
        if let Some(header) = self.headers.last_mut() {
            header.sh_offset.set(LE, names_offset as u64);
            header.sh_size.set(LE, names.len() as u64);
        }
        let facts = compilation.header();
        let header = FileHeader64::<LE> {
            e_ident: elf::Ident {
                magic: elf::ELFMAG,
                class: elf::ELFCLASS64,
                data: elf::ELFDATA2LSB,
                version: elf::EV_CURRENT,
                os_abi: facts.os_abi,
                abi_version: facts.abi_version,
                padding: [0; 7],
            },
            e_type: object::U16::new(LE, elf::ET_REL),
            e_machine: object::U16::new(LE, facts.machine),
            e_version: object::U32::new(LE, u32::from(elf::EV_CURRENT)),
            e_entry: object::U64::new(LE, 0),
            e_phoff: object::U64::new(LE, 0),
            e_shoff: object::U64::new(LE, header_size as u64),
            e_flags: object::U32::new(LE, facts.e_flags),
            e_ehsize: object::U16::new(LE, header_size as u16),
            e_phentsize: object::U16::new(LE, 0),
            e_phnum: object::U16::new(LE, 0),
            e_shentsize: object::U16::new(LE, size_of::<SectionHeader64<LE>>() as u16),
            e_shnum: object::U16::new(LE, self.headers.len() as u16),
            e_shstrndx: object::U16::new(LE, self.headers.len() as u16 - 1),
        };
        let mut file = pod::bytes_of(&header).to_vec();
        file.extend_from_slice(pod::bytes_of_slice(&self.headers));
        file.extend_from_slice(&names);
        file.resize(start, 0);
        file.extend_from_slice(&self.contents);
        file
    }
}
