//! Making tickets: a whole ELF relocatable object around the note.
//!
//! Beside the note (SPEC.md, section 20), which is all that this project reads, a ticket has
//!
//! * a symbol table with the names that the compilation defines and needs, with their types, bindings, visibilities and
//!   sizes, each in a section of the kind that makes `nm` show the letter that it would show for the object;
//! * for linkers that know no tickets, a byte in `.init`, which no linker leaves out, that refers to a hidden
//!   undefined symbol whose name says what is wrong;
//! * for `ld -r`, which leaves undefined symbols to the final link, two definitions of that name with a dot before it.
//!   (The dot keeps it out of the lists of symbols that libtool makes of `nm`'s output.)
//!
//! A fat object has none of this: it is the object itself, and behind it the note.
//!
//! There are as many tickets as objects, so they are small: sections are there only if they have symbols, and all names
//! are in one string table, in which those of one ending share it.

use crate::ticket::TicketError;
use format_spec::digest::Digest;
use format_spec::fragment::SectionKind;
use format_spec::ids::NameId;
use format_spec::program::SymbolRecord;
use format_spec::ticket::{TicketNote, put_seal};
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, Rela64, SectionHeader64, Sym64};
use object::pod;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use store::guard;
use store::program::{CompilationView, ProgramError, Programs, Repository, kind_of};

/// The undefined symbol that stops other linkers.
pub const EXPLANATION: &str = "ticket__link_with_repo_ld";

/// The symbol that is defined twice, so that `ld -r` stops: [`EXPLANATION`] behind a dot.
pub const DOTTED_EXPLANATION: &str = ".ticket__link_with_repo_ld";

/// The string table's beginning: the empty name, the explanation with its dot, and the names of the sections that every
/// ticket has.
const FIRST_STRINGS: &[u8] =
    b"\0.ticket__link_with_repo_ld\0.note.repo\0.rela.init\0.symtab\0.strtab\0";

/// A section of the ticket that exists only so that symbols can be in it.
struct Stand {
    name: &'static [u8],
    sh_type: u32,
    flags: u32,
    letter_of: fn(SectionKind, u32) -> bool,
}

/// The sections in which a ticket's symbols stand, by what decides `nm`'s letter. Their names are the usual ones, so that who
/// renames or removes such a section of an object changes something in a ticket, too.
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

/// Of the stands, `.rodata`.
const CONSTANTS: usize = 5;

// The sections' indices, and the first of the stands that are there only if they are used.
const INIT: u16 = 1;
const RELA_INIT: u16 = 2;
const NOTE: u16 = 3;
const SYMTAB: u16 = 4;
const STRTAB: u16 = 5;
const FIRST_STAND: u16 = 6;

/// Makes the bytes of a ticket that names the compilation `digest` of `repository`. `made` says how its object was made
/// ([`TicketNote::made`]).
///
/// # Errors
/// If the compilation is not there, or the repository is damaged.
pub fn ticket_bytes(
    repository: &Repository,
    digest: &Digest,
    made: &[u8],
) -> Result<Vec<u8>, TicketError> {
    let programs = repository.programs()?;
    let compilation = programs.compilation(digest)?;
    let mut writer = TicketWriter::new();
    writer.symbols(&programs, &compilation)?;
    let path = named_path(repository);
    let note = TicketNote {
        uuid: repository.uuid(),
        compilation: *digest,
        seal: 0,
        repository: path.as_os_str().as_bytes(),
        made,
    };
    Ok(writer.finish(&note, &compilation))
}

/// Makes of an object one that is a ticket, too, for the compilation `digest` of `repository`, which was made of it. How it
/// was made it does not say: nothing has to be made again, as it is all there.
pub fn make_fat(object: &mut Vec<u8>, repository: &Repository, digest: &Digest) {
    let path = named_path(repository);
    let note = TicketNote {
        uuid: repository.uuid(),
        compilation: *digest,
        seal: 0,
        repository: path.as_os_str().as_bytes(),
        made: &[],
    };
    note.make_fat(object);
}

/// The path by which a ticket names `repository`.
pub fn named_path(repository: &Repository) -> PathBuf {
    std::path::absolute(repository.path()).unwrap_or(repository.path().to_owned())
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
    let bytes = ticket_bytes(repository, digest, &[])?;
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
    /// Which stands have symbols, and where their names are among the strings.
    stands: Vec<(usize, u32)>,
}

impl TicketWriter {
    fn new() -> Self {
        let mut writer = TicketWriter {
            symbols: Vec::new(),
            strings: FIRST_STRINGS.to_vec(),
            first_global: 0,
            stands: Vec::new(),
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

    /// The index of the section that is the stand `number`.
    fn section_of(&mut self, number: usize) -> u16 {
        let known = self.stands.iter().position(|(known, _)| *known == number);
        let place = known.unwrap_or_else(|| {
            let name = self.string(STANDS[number].name);
            self.stands.push((number, name));
            self.stands.len() - 1
        });
        FIRST_STAND + place as u16
    }

    fn symbols(
        &mut self,
        programs: &Programs<'_>,
        compilation: &CompilationView<'_>,
    ) -> Result<(), TicketError> {
        let stand_of = stands(compilation);
        let first_global = compilation.header().first_global as usize;
        for (index, symbol) in compilation.symbols().iter().enumerate().skip(1) {
            if index == first_global {
                self.first_global = self.symbols.len() as u32;
            }
            let is_local = index < first_global;
            // What `nm` does not show.
            let kind = symbol.info & 0xf;
            let is_hidden =
                symbol.name == NameId(0) || [elf::STT_SECTION, elf::STT_FILE].contains(&kind);
            if is_local && is_hidden {
                continue;
            }
            let (value, size) = compilation.value_and_size(symbol);
            let section = if symbol.bits & SymbolRecord::PIECE != 0 {
                self.section_of(CONSTANTS)
            } else {
                match symbol.section {
                    SymbolRecord::SECTION_UNDEFINED => elf::SHN_UNDEF,
                    SymbolRecord::SECTION_ABSOLUTE => elf::SHN_ABS,
                    SymbolRecord::SECTION_COMMON => elf::SHN_COMMON,
                    section => match stand_of.get(section as usize - 1) {
                        Some(stand) => self.section_of(*stand),
                        None => elf::SHN_UNDEF,
                    },
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
        let global = elf::STB_GLOBAL << 4;
        for section in [INIT, elf::SHN_ABS] {
            self.push(1, global, elf::STV_HIDDEN, section, 0, 0);
        }
        self.push(2, global, elf::STV_HIDDEN, elf::SHN_UNDEF, 0, 0);
        Ok(())
    }

    /// Lays out the file.
    fn finish(self, note: &TicketNote<'_>, compilation: &CompilationView<'_>) -> Vec<u8> {
        let explanation = self.symbols.len() as u32 - 1;
        let relocation = Rela64::<LE> {
            r_offset: object::U64::new(LE, 0),
            r_info: Rela64::r_info(LE, false, explanation, elf::R_X86_64_8),
            r_addend: object::I64::new(LE, 0),
        };
        let count = FIRST_STAND + self.stands.len() as u16;
        let mut file = FileWriter::new(count);
        let name = |name: &[u8]| {
            let position = memchr::memmem::find(FIRST_STRINGS, name);
            position.expect("a name that every ticket has") as u32
        };
        // In an order in which nothing has to be padded.
        let link = elf::SHF_INFO_LINK;
        file.section(
            RELA_INIT,
            name(b".rela.init\0"),
            elf::SHT_RELA,
            link,
            pod::bytes_of(&relocation),
            8,
        );
        file.link(RELA_INIT, SYMTAB, u32::from(INIT), 24);
        let entries = pod::bytes_of_slice(&self.symbols);
        file.section(SYMTAB, name(b".symtab\0"), elf::SHT_SYMTAB, 0, entries, 8);
        file.link(SYMTAB, STRTAB, self.first_global, 24);
        let (of_note, note) = (name(b".note.repo\0"), note.encode());
        let note_at = file.section(NOTE, of_note, elf::SHT_NOTE, 0, &note, 4);
        let code = elf::SHF_ALLOC | elf::SHF_EXECINSTR;
        let of_init = name(b".init\0");
        file.section(INIT, of_init, elf::SHT_PROGBITS, code, &[0], 1);
        file.section(
            STRTAB,
            name(b".strtab\0"),
            elf::SHT_STRTAB,
            0,
            &self.strings,
            1,
        );
        for (index, (stand, name)) in (FIRST_STAND..).zip(&self.stands) {
            let stand = &STANDS[*stand];
            file.section(index, *name, stand.sh_type, stand.flags, &[], 1);
        }
        let mut bytes = file.finish(compilation);
        put_seal(&mut bytes, note_at);
        bytes
    }
}

/// For each section of the compilation the number of the stand of its symbols.
fn stands(compilation: &CompilationView<'_>) -> Vec<usize> {
    // By what the compilation says of them: the fragments themselves may have to be decompressed.
    let shapes = compilation.shapes().iter().map(|shape| {
        let kind = kind_of(shape.kind).unwrap_or(SectionKind::Other);
        let mut all = STANDS.iter();
        let place = all.position(|stand| (stand.letter_of)(kind, shape.sh_flags));
        place.unwrap_or_default()
    });
    let shapes: Vec<usize> = shapes.collect();
    let sections = compilation.sections().iter();
    let of_shape = |shape: u32| shapes.get(shape as usize).copied().unwrap_or_default();
    sections.map(|section| of_shape(section.shape())).collect()
}

const HEADER_SIZE: usize = size_of::<FileHeader64<LE>>();
const SECTION_HEADER_SIZE: usize = size_of::<SectionHeader64<LE>>();

/// The section header that every table of them begins with (gABI, "Sections").
pub fn null_section_header() -> SectionHeader64<LE> {
    SectionHeader64 {
        sh_name: object::U32::new(LE, 0),
        sh_type: object::U32::new(LE, elf::SHT_NULL),
        sh_flags: object::U64::new(LE, 0),
        sh_addr: object::U64::new(LE, 0),
        sh_offset: object::U64::new(LE, 0),
        sh_size: object::U64::new(LE, 0),
        sh_link: object::U32::new(LE, 0),
        sh_info: object::U32::new(LE, 0),
        sh_addralign: object::U64::new(LE, 0),
        sh_entsize: object::U64::new(LE, 0),
    }
}

/// An ELF file: its header, the section headers, then the sections one after another.
struct FileWriter {
    bytes: Vec<u8>,
    headers: Vec<SectionHeader64<LE>>,
}

impl FileWriter {
    /// A file with room for `count` section headers.
    fn new(count: u16) -> Self {
        let count = usize::from(count);
        FileWriter {
            bytes: vec![0; HEADER_SIZE + count * SECTION_HEADER_SIZE],
            headers: vec![null_section_header(); count],
        }
    }

    /// Appends the section `index`, and returns its offset.
    fn section(
        &mut self,
        index: u16,
        name: u32,
        sh_type: u32,
        flags: u32,
        bytes: &[u8],
        align: usize,
    ) -> usize {
        let offset = self.bytes.len().next_multiple_of(align);
        self.bytes.resize(offset, 0);
        self.bytes.extend_from_slice(bytes);
        let header = &mut self.headers[usize::from(index)];
        header.sh_name.set(LE, name);
        header.sh_type.set(LE, sh_type);
        header.sh_flags.set(LE, u64::from(flags));
        header.sh_offset.set(LE, offset as u64);
        header.sh_size.set(LE, bytes.len() as u64);
        header.sh_addralign.set(LE, align as u64);
        offset
    }

    /// Completes the header of the section `index`.
    fn link(&mut self, index: u16, link: u16, info: u32, entsize: u64) {
        let header = &mut self.headers[usize::from(index)];
        header.sh_link.set(LE, u32::from(link));
        header.sh_info.set(LE, info);
        header.sh_entsize.set(LE, entsize);
    }

    fn finish(mut self, compilation: &CompilationView<'_>) -> Vec<u8> {
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
            e_shoff: object::U64::new(LE, HEADER_SIZE as u64),
            e_flags: object::U32::new(LE, facts.e_flags),
            e_ehsize: object::U16::new(LE, HEADER_SIZE as u16),
            e_phentsize: object::U16::new(LE, 0),
            e_phnum: object::U16::new(LE, 0),
            e_shentsize: object::U16::new(LE, SECTION_HEADER_SIZE as u16),
            e_shnum: object::U16::new(LE, self.headers.len() as u16),
            e_shstrndx: object::U16::new(LE, STRTAB),
        };
        self.bytes[..HEADER_SIZE].copy_from_slice(pod::bytes_of(&header));
        let headers = pod::bytes_of_slice(&self.headers);
        self.bytes[HEADER_SIZE..][..headers.len()].copy_from_slice(headers);
        self.bytes
    }
}
