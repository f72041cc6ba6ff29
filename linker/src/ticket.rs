//! Ticket files: what a build system sees in place of an object file.
//!
//! A ticket is an ELF relocatable object (DESIGN.md, section 6) with
//!
//! * a note section `.note.repo` (owner `REPO`, type 1) that names repository and
//!   compilation, which is all that `repo-ld` reads;
//! * a symbol table with the names that the compilation defines and needs, with their
//!   types, bindings, visibilities and sizes, each in an empty section of the kind
//!   that makes `nm` show the letter that it would show for the object;
//! * for linkers that know no tickets, an entry in `.init_array`, which no linker leaves
//!   out, that refers to a hidden undefined symbol whose name says what is wrong.
//!
//! The note's descriptor: version (u32, 1), size of the path (u32), the repository's UUID
//! (16 bytes), the compilation's digest (32 bytes), the repository's absolute path. All
//! little-endian.

use format_spec::digest::Digest;
use format_spec::ids::NameId;
use format_spec::program::{SectionKind, SymbolRecord};
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, Rela64, SectionHeader64, Sym64};
use object::pod;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use store::engine::{self, OpenOptions, Trust};
use store::guard;
use store::program::locate::Environment;
use store::program::{CompilationView, ProgramError, Programs, Repository, section_kind, waiting};

/// The undefined symbol that stops other linkers.
pub const EXPLANATION: &str = "this_is_a_program_repository_ticket__link_it_with_repo_ld";
/// The note's owner.
const OWNER: &[u8] = b"REPO";
/// The note's type.
const NOTE_TYPE: u32 = 1;
/// The note section's name.
pub(crate) const NOTE_SECTION: &[u8] = b".note.repo";
/// The version of the descriptor.
const VERSION: u32 = 1;
/// Bytes of a descriptor before the path.
const FIXED: usize = 4 + 4 + 16 + 32;

/// Why a ticket could not be read or used.
#[derive(Debug, thiserror::Error)]
pub enum TicketError {
    /// It has the marks of a ticket, but not its form.
    #[error("damaged ticket, at offset {offset:#x}: {what}")]
    Damaged {
        /// Offset in the file.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// It was made by another version of this program.
    #[error(
        "ticket of version {found}, but this program knows only version {VERSION}; build it again"
    )]
    Version {
        /// Its version.
        found: u32,
    },
    /// Its repository is gone.
    #[error(
        "its repository {} does not exist; build it again, or give the repository with --repo",
        path.display()
    )]
    NoRepository {
        /// The repository that it names.
        path: PathBuf,
    },
    /// Another repository than it names.
    #[error(
        "it belongs to repository {wanted}, but {} is repository {found}; build it again, or give the right repository with --repo",
        path.display()
    )]
    OtherRepository {
        /// The repository that is there.
        path: PathBuf,
        /// The UUID that the ticket names.
        wanted: String,
        /// The UUID of the repository.
        found: String,
    },
    /// The repository.
    #[error(transparent)]
    Repository(#[from] ProgramError),
}

/// What a ticket says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The repository's UUID.
    pub uuid: [u8; 16],
    /// The compilation.
    pub compilation: Digest,
    /// The repository's absolute path, as it was when the ticket was written.
    pub repository: PathBuf,
}

/// A UUID as it is usually written.
pub fn format_uuid(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

impl Ticket {
    /// Reads a ticket; `None` if the file is none.
    ///
    /// Looks only at section headers and the note, so it is quick on objects that
    /// are no tickets. It finds the note also when tools have rewritten the file
    /// (`strip`, `objcopy`).
    ///
    /// # Errors
    /// If the note is there, but damaged or of another version.
    pub fn parse(bytes: &[u8]) -> Result<Option<Ticket>, TicketError> {
        let Some((offset, note)) = find_note(bytes) else {
            return Ok(None);
        };
        let damaged = |what| TicketError::Damaged { offset, what };
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(note.get(at..at + 4)?.try_into().ok()?))
        };
        let (Some(5), Some(size), Some(NOTE_TYPE)) = (word(0), word(4), word(8)) else {
            return Err(damaged("the note is not of owner REPO and type 1"));
        };
        let size = size as usize;
        let descriptor = note
            .get(20..)
            .and_then(|rest| rest.get(..size))
            .filter(|descriptor| descriptor.len() >= 4)
            .ok_or_else(|| damaged("the note is cut off"))?;
        if note.len() > 20 + size.next_multiple_of(4) {
            // `ld -r` puts sections of a name together. Its output is no ticket, and to
            // take the first one for all would lose the others.
            return Err(damaged(
                "there are several tickets: another linker joined them (ld -r)",
            ));
        }
        let found =
            u32::from_le_bytes([descriptor[0], descriptor[1], descriptor[2], descriptor[3]]);
        if found != VERSION {
            return Err(TicketError::Version { found });
        }
        let (fixed, path) = descriptor
            .split_first_chunk::<FIXED>()
            .ok_or_else(|| damaged("the note is cut off"))?;
        let path_size = u32::from_le_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        if path_size as usize != path.len() {
            return Err(damaged("the size of the repository's path is wrong"));
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&fixed[8..24]);
        let mut digest = [0; 32];
        digest.copy_from_slice(&fixed[24..]);
        Ok(Some(Ticket {
            uuid,
            compilation: Digest(digest),
            repository: PathBuf::from(OsStr::from_bytes(path)),
        }))
    }

    /// Opens the ticket's repository: `option` (the argument of `--repo`) if it is
    /// given, else the one that it names, if that may be trusted: a ticket is no word of
    /// the user's ([`Environment::trust_in`]).
    ///
    /// # Errors
    /// If it is not there, may not be trusted, or is another one.
    pub fn open_repository(&self, option: Option<&Path>) -> Result<Repository, TicketError> {
        let path = option.unwrap_or(&self.repository);
        let mut options = OpenOptions {
            trust: match option {
                Some(_) => Trust::Named,
                None => Environment::current().trust_in(path),
            },
            patience: Some(waiting::patience(|line| crate::tell!("repo-ld: {line}"))),
            ..OpenOptions::default()
        };
        let mut opened = Repository::open_with(path, &options);
        // One that may only be read is good enough for a link.
        if let Err(ProgramError::Engine(engine::Error::Io { source, .. })) = &opened
            && matches!(
                source.kind(),
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
            )
        {
            options.read_only = true;
            opened = Repository::open_with(path, &options);
        }
        match opened {
            Ok(repository) => {
                self.check_repository(&repository)?;
                Ok(repository)
            }
            Err(ProgramError::Engine(engine::Error::Io { source, .. }))
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                Err(TicketError::NoRepository {
                    path: path.to_owned(),
                })
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Checks that `repository` is the one that the ticket names.
    ///
    /// # Errors
    /// [`TicketError::OtherRepository`].
    pub fn check_repository(&self, repository: &Repository) -> Result<(), TicketError> {
        if repository.uuid() == self.uuid {
            return Ok(());
        }
        Err(TicketError::OtherRepository {
            path: repository.path().to_owned(),
            wanted: format_uuid(&self.uuid),
            found: format_uuid(&repository.uuid()),
        })
    }
}

/// Whether a file has a ticket's note, damaged or not.
pub fn is_ticket(bytes: &[u8]) -> bool {
    find_note(bytes).is_some()
}

/// The note section of a ticket, and its offset in the file.
fn find_note(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (header, _) = pod::from_bytes::<FileHeader64<LE>>(bytes).ok()?;
    if header.e_ident.magic != elf::ELFMAG
        || header.e_ident.class != elf::ELFCLASS64
        || header.e_ident.data != elf::ELFDATA2LSB
        || header.e_type.get(LE) != elf::ET_REL
    {
        return None;
    }
    let table = bytes.get(usize::try_from(header.e_shoff.get(LE)).ok()?..)?;
    // A ticket has few sections, so the extended numbering does not occur.
    let count = usize::from(header.e_shnum.get(LE));
    let (sections, _) = pod::slice_from_bytes::<SectionHeader64<LE>>(table, count).ok()?;
    let contents = |section: &SectionHeader64<LE>| {
        let start = usize::try_from(section.sh_offset.get(LE)).ok()?;
        let size = usize::try_from(section.sh_size.get(LE)).ok()?;
        bytes.get(start..start.checked_add(size)?)
    };
    let names = contents(sections.get(usize::from(header.e_shstrndx.get(LE)))?)?;
    sections
        .iter()
        .filter(|section| section.sh_type.get(LE) == elf::SHT_NOTE)
        .find(|section| {
            names
                .get(section.sh_name.get(LE) as usize..)
                .and_then(|rest| rest.strip_prefix(NOTE_SECTION))
                .is_some_and(|rest| rest.first() == Some(&0))
        })
        .and_then(|section| Some((section.sh_offset.get(LE), contents(section)?)))
}

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
        out.section(NOTE_SECTION, elf::SHT_NOTE, 0, &note(repository, digest), 4);
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
            let kind = section_kind(section).unwrap_or(SectionKind::Other);
            let place = STANDS
                .iter()
                .position(|stand| (stand.letter_of)(kind, section.sh_flags))
                .unwrap_or_default();
            stands.push((FIRST_STAND + place) as u16);
        }
    }
    Ok(stands)
}

fn note(repository: &Repository, digest: &Digest) -> Vec<u8> {
    let path = std::path::absolute(repository.path()).unwrap_or(repository.path().to_owned());
    let path = path.as_os_str().as_bytes();
    let mut note = Vec::with_capacity(20 + FIXED + path.len());
    for word in [
        OWNER.len() as u32 + 1,
        (FIXED + path.len()) as u32,
        NOTE_TYPE,
    ] {
        note.extend_from_slice(&word.to_le_bytes());
    }
    note.extend_from_slice(OWNER);
    note.resize(20, 0);
    note.extend_from_slice(&VERSION.to_le_bytes());
    note.extend_from_slice(&(path.len() as u32).to_le_bytes());
    note.extend_from_slice(&repository.uuid());
    note.extend_from_slice(&digest.0);
    note.extend_from_slice(path);
    note.resize(note.len().next_multiple_of(4), 0);
    note
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
