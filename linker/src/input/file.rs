//! An input file as the phases see it.

use crate::base::ids::FileId;
use crate::base::key::{Key, rank};
use crate::elf::c;
use crate::elf::x86_64::reloc;
use crate::input::mapped_bytes::MappedBytes;
use crate::input::object::{Object, Source};
use crate::input::parts::{Fixup, Place};
use crate::input::shared_object::Shared;
use std::fmt;
use std::path::Path;

/// What a file is.
pub enum Body<'a> {
    /// The linker itself (always [`FileId::LINKER`]): names that it mentions or may define.
    Linker(Vec<&'a [u8]>),
    /// A relocatable object or a ticket's compilation.
    Object(Object<'a>),
    /// A shared object.
    Shared(Shared<'a>),
}

/// An input file, or a member of an archive.
pub struct File<'a> {
    /// Its path, as found; for a member, the archive's.
    pub path: &'a Path,
    /// The member's name.
    pub member: Option<&'a [u8]>,
    /// What it is.
    pub body: Body<'a>,
    /// Linked only if something needs it: members of archives and of `--start-lib` ranges.
    pub lazy: bool,
    /// `--as-needed` was in force.
    pub as_needed: bool,
    /// `--exclude-libs` covers it: its symbols are not exported.
    pub exclude: bool,
    /// Where its globals start in the table of all files' globals (see
    /// [`SymbolTable`](crate::resolve::symbol_table::SymbolTable)).
    pub slot_base: u32,
    /// Its own bytes: those of the file, or of the member of the archive.
    pub data: &'a [u8],
    /// The bytes of the whole file or archive, if they are in a mapping.
    pub mapped: Option<MappedBytes<'a>>,
}

impl<'a> File<'a> {
    /// The relocatable object, if it is one.
    #[inline]
    pub fn object(&self) -> Option<&Object<'a>> {
        match &self.body {
            Body::Object(object) => Some(object),
            _ => None,
        }
    }

    /// A part of the file will hardly be read again: its memory need not be kept.
    pub fn release(&self, part: &[u8]) {
        if let Some(mapped) = self.mapped {
            mapped.release(part);
        }
    }

    /// The same of a section's bytes and of its relocations, which section `relocations` has. What a repository holds may
    /// be needed again: others refer to it.
    pub fn release_section(&self, number: u32, relocations: u32) {
        if let Body::Object(Object(Source::Elf(elf))) = &self.body {
            self.release(elf.section_bytes(number));
            self.release(elf.section_bytes(relocations));
        }
    }

    /// The shared object, if it is one.
    #[inline]
    pub fn shared(&self) -> Option<&Shared<'a>> {
        match &self.body {
            Body::Shared(shared) => Some(shared),
            _ => None,
        }
    }

    /// Index of the first global symbol.
    #[inline]
    pub fn first_global(&self) -> u32 {
        match &self.body {
            Body::Linker(_) => 0,
            Body::Object(object) => object.first_global(),
            Body::Shared(shared) => shared.first_global,
        }
    }

    /// One past the last symbol.
    #[inline]
    pub fn symbol_count(&self) -> u32 {
        match &self.body {
            Body::Linker(names) => names.len() as u32,
            Body::Object(object) => object.symbol_count(),
            Body::Shared(shared) => shared.syms.len() as u32,
        }
    }

    /// Calls `f` with each symbol for which a definition in another file is looked for, and whether only one in an object
    /// will do.
    #[inline]
    pub fn for_wanted(&self, mut f: impl FnMut(u32, bool)) {
        match &self.body {
            Body::Linker(_) => {}
            Body::Shared(shared) => {
                for index in shared.strong_references() {
                    f(index, false);
                }
            }
            Body::Object(object) => {
                for index in self.first_global()..self.symbol_count() {
                    let Some(symbol) = object.symbol(index) else {
                        continue;
                    };
                    match symbol.place {
                        Place::Undefined if !symbol.is_weak() => {
                            let visibility = symbol.other & 3;
                            f(index, matches!(visibility, c::STV_HIDDEN | c::STV_INTERNAL));
                        }
                        Place::Common => f(index, false),
                        _ => {}
                    }
                }
            }
        }
    }

    /// A symbol's name, as it stands in the file.
    #[inline]
    pub fn symbol_name(&self, index: u32) -> &'a [u8] {
        match &self.body {
            Body::Linker(names) => names.get(index as usize).copied().unwrap_or(b""),
            Body::Object(object) => object.symbol_name(index),
            Body::Shared(shared) => shared.name(index),
        }
    }
}

/// `path` or `archive(member)`, for messages.
impl fmt::Display for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Body::Linker(_) = self.body {
            return f.write_str("<command line>");
        }
        write!(f, "{}", self.path.display())?;
        match self.member {
            Some(member) => write!(f, "({})", String::from_utf8_lossy(member)),
            None => Ok(()),
        }
    }
}

impl File<'_> {
    /// The beginning of a message about a fixup of section `number`: `file:(section+0x12): R_X86_64_PC32`.
    #[cold]
    pub fn at_fixup(&self, number: u32, fixup: &Fixup) -> String {
        let section = self.object().and_then(|object| object.section(number));
        let name = section.map_or(&b""[..], |section| section.name);
        format!(
            "{self}:({}+{:#x}): {}",
            String::from_utf8_lossy(name),
            fixup.offset,
            reloc::name(fixup.r_type)
        )
    }
}

/// The files of a link, by [`FileId`].
pub struct Files<'a>(pub Vec<File<'a>>);

impl<'a> Files<'a> {
    /// The file of an id.
    #[inline]
    pub fn get(&self, id: FileId) -> &File<'a> {
        &self.0[id.index()]
    }

    /// The object or shared object that a symbol's definition is in, if it is in one.
    #[inline]
    pub fn definer(&self, key: Key) -> Option<&File<'a>> {
        (key.rank() <= rank::SHARED).then(|| self.get(key.file()))
    }

    /// The relocatable object of an id. Ids that name none are a mistake of ours.
    #[inline]
    pub fn object(&self, id: FileId) -> &Object<'a> {
        match &self.0[id.index()].body {
            Body::Object(object) => object,
            _ => unreachable!("file {} is not an object", id.0),
        }
    }

    /// All ids.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = FileId> + ExactSizeIterator + use<> {
        (0..self.0.len() as u32).map(FileId)
    }

    /// All files with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &File<'a>)> {
        self.0
            .iter()
            .enumerate()
            .map(|(i, file)| (FileId(i as u32), file))
    }
}
