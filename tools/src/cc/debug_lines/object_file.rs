//! The object file: its debug sections, and how they are changed.
//!
//! A section of the same size is changed where it is. One of another size is put at the end of the file, and its header says so: all
//! else keeps its place.

use super::{Change, Kept, Reason};
use memchr::memmem;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, Rela as _, SectionHeader as _, SectionTable, Sym as _};
use object::{LittleEndian, SectionIndex};

type Header = FileHeader64<LittleEndian>;

const ENDIAN: LittleEndian = LittleEndian;
const NO_OBJECT: Reason = "the object cannot be read";
const OF_OTHERS: Reason = "debug information of a kind in which lines are not moved";

/// Size of a relocation with an addend, and of a section's header; and where in that the offset and the size of the section are.
const RELA: usize = 24;
const SECTION_HEADER: usize = 64;
const OFFSET_IN_HEADER: usize = 24;
const SIZE_IN_HEADER: usize = 32;

/// Sections that may be beside those that are changed: none says a line.
const WITHOUT_LINES: [&[u8]; 14] = [
    b"addr",
    b"aranges",
    b"frame",
    b"gnu_pubnames",
    b"gnu_pubtypes",
    b"line_str",
    b"loc",
    b"loclists",
    b"pubnames",
    b"pubtypes",
    b"ranges",
    b"rnglists",
    b"str",
    b"str_offsets",
];

/// A section.
pub(super) struct Section {
    pub index: SectionIndex,
    /// Its bytes, with the relocations applied that lead into debug sections.
    pub bytes: Vec<u8>,
    /// The same without.
    pub plain: Vec<u8>,
}

/// Those that say lines, and what they refer to.
pub(super) struct DebugSections {
    pub info: Section,
    pub abbreviations: Section,
    pub lines: Section,
    pub line_strings: Vec<u8>,
    pub strings: Vec<u8>,
    /// Whether another section says where entries are, by their names.
    pub has_index_of_entries: bool,
}

/// An object file that is changed.
pub(super) struct ObjectFile<'o> {
    bytes: Vec<u8>,
    original: &'o [u8],
    sections: SectionTable<'o, Header>,
    /// Where the sections' headers are.
    headers: usize,
}

impl<'o> ObjectFile<'o> {
    /// Reads an object.
    pub fn parse(original: &'o [u8]) -> Result<ObjectFile<'o>, Reason> {
        let header = Header::parse(original).map_err(|_| NO_OBJECT)?;
        let is_known = header.e_type(ENDIAN) == elf::ET_REL
            && header.e_machine(ENDIAN) == elf::EM_X86_64
            && header.is_little_endian();
        if !is_known {
            return Err(NO_OBJECT);
        }
        let sections = header.sections(ENDIAN, original).map_err(|_| NO_OBJECT)?;
        Ok(ObjectFile {
            bytes: original.to_vec(),
            original,
            sections,
            headers: usize::try_from(header.e_shoff(ENDIAN)).map_err(|_| NO_OBJECT)?,
        })
    }

    /// The debug sections; `None` if there are none.
    pub fn debug_sections(&self) -> Result<Option<DebugSections>, Reason> {
        let (mut info, mut abbreviations, mut lines) = (None, None, None);
        let (mut line_strings, mut strings) = (Vec::new(), Vec::new());
        let mut has_index_of_entries = false;
        for (index, section) in self.sections.enumerate() {
            let name = self.sections.section_name(ENDIAN, section);
            let name = name.map_err(|_| NO_OBJECT)?;
            let of_others: [&[u8]; 6] = [
                b".zdebug",
                b".gnu.lto_",
                b".gnu.debuglto_",
                b".llvm.lto",
                b".BTF",
                b".ctf",
            ];
            if of_others.iter().any(|other| name.starts_with(other)) {
                return Err(OF_OTHERS);
            }
            let Some(kind) = name.strip_prefix(b".debug_") else {
                continue;
            };
            if section.sh_flags(ENDIAN) & u64::from(elf::SHF_COMPRESSED) != 0 {
                return Err(OF_OTHERS);
            }
            has_index_of_entries |= memmem::find(kind, b"pub").is_some();
            let data = || section.data(ENDIAN, self.original).map_err(|_| NO_OBJECT);
            let is_second = match kind {
                b"info" => info.replace(self.relocated(index)?).is_some(),
                b"abbrev" => abbreviations.replace(self.relocated(index)?).is_some(),
                b"line" => lines.replace(self.relocated(index)?).is_some(),
                b"line_str" => {
                    let is_second = !line_strings.is_empty();
                    line_strings = data()?.to_vec();
                    is_second
                }
                b"str" => {
                    let is_second = !strings.is_empty();
                    strings = data()?.to_vec();
                    is_second
                }
                other => !WITHOUT_LINES.contains(&other),
            };
            if is_second {
                return Err(OF_OTHERS);
            }
        }
        match (info, abbreviations, lines) {
            (None, None, None) => Ok(None),
            (Some(info), Some(abbreviations), Some(lines)) => Ok(Some(DebugSections {
                info,
                abbreviations,
                lines,
                line_strings,
                strings,
                has_index_of_entries,
            })),
            _ => Err(OF_OTHERS),
        }
    }

    /// A section, also with the addends at the places that refer to debug sections: those have no address before they are linked.
    fn relocated(&self, index: SectionIndex) -> Result<Section, Reason> {
        let section = self.sections.section(index).map_err(|_| NO_OBJECT)?;
        let plain = section
            .data(ENDIAN, self.original)
            .map_err(|_| NO_OBJECT)?
            .to_vec();
        let mut bytes = plain.clone();
        for (_, other) in self.sections.enumerate() {
            let is_of_it = other.sh_info(ENDIAN) as usize == index.0;
            match other.sh_type(ENDIAN) {
                elf::SHT_REL if is_of_it => return Err(OF_OTHERS),
                elf::SHT_RELA if is_of_it => {}
                _ => continue,
            }
            let relocations = other.rela(ENDIAN, self.original).map_err(|_| NO_OBJECT)?;
            let Some((relocations, symbols)) = relocations else {
                continue;
            };
            let symbols = (self.sections)
                .symbol_table_by_index(ENDIAN, self.original, symbols)
                .map_err(|_| NO_OBJECT)?;
            for relocation in relocations {
                let size = match relocation.r_type(ENDIAN, false) {
                    elf::R_X86_64_32 => 4,
                    elf::R_X86_64_64 => 8,
                    // Of variables of threads: these refer to no debug section.
                    elf::R_X86_64_DTPOFF32 | elf::R_X86_64_DTPOFF64 => continue,
                    _ => return Err(OF_OTHERS),
                };
                let Some(symbol) = relocation.symbol(ENDIAN, false) else {
                    continue;
                };
                let symbol = symbols.symbol(symbol).map_err(|_| NO_OBJECT)?;
                let target = usize::from(symbol.st_shndx(ENDIAN));
                let target = self.sections.section(SectionIndex(target));
                let is_debug = target.is_ok_and(|target| {
                    let name = self.sections.section_name(ENDIAN, target);
                    name.is_ok_and(|name| name.starts_with(b".debug_"))
                });
                if !is_debug {
                    continue;
                }
                let value = symbol
                    .st_value(ENDIAN)
                    .wrapping_add_signed(relocation.r_addend(ENDIAN));
                let at = usize::try_from(relocation.r_offset(ENDIAN)).map_err(|_| NO_OBJECT)?;
                let place = at.checked_add(size).and_then(|end| bytes.get_mut(at..end));
                let place = place.ok_or(NO_OBJECT)?;
                place.copy_from_slice(&value.to_le_bytes()[..size]);
            }
        }
        Ok(Section {
            index,
            bytes,
            plain,
        })
    }

    /// Where a section is in the file.
    fn range(&self, index: SectionIndex) -> Result<(usize, usize), Reason> {
        let section = self.sections.section(index).map_err(|_| NO_OBJECT)?;
        let (start, size) = section.file_range(ENDIAN).ok_or(NO_OBJECT)?;
        let number = |number: u64| usize::try_from(number).map_err(|_| NO_OBJECT);
        Ok((number(start)?, number(size)?))
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Reason> {
        let end = at.checked_add(bytes.len());
        let place = end.and_then(|end| self.bytes.get_mut(at..end));
        place.ok_or(NO_OBJECT)?.copy_from_slice(bytes);
        Ok(())
    }

    /// Writes over bytes of a section.
    pub fn change_in_place(
        &mut self,
        index: SectionIndex,
        changes: &[Change],
    ) -> Result<(), Reason> {
        let (start, size) = self.range(index)?;
        for change in changes {
            if change.at + change.bytes.len() > size {
                return Err(NO_OBJECT);
            }
            self.write(start + change.at, &change.bytes)?;
        }
        Ok(())
    }

    /// Gives a section these bytes.
    pub fn replace(&mut self, index: SectionIndex, bytes: Vec<u8>) -> Result<(), Reason> {
        let (start, size) = self.range(index)?;
        if bytes.len() == size {
            return self.write(start, &bytes);
        }
        let header = self.headers + index.0 * SECTION_HEADER;
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let start = self.bytes.len() as u64;
        self.write(header + OFFSET_IN_HEADER, &start.to_le_bytes())?;
        let size = bytes.len() as u64;
        self.write(header + SIZE_IN_HEADER, &size.to_le_bytes())?;
        self.bytes.extend(bytes);
        Ok(())
    }

    /// Says of a section's relocations where their places are now.
    pub fn move_relocations(&mut self, index: SectionIndex, kept: &[Kept]) -> Result<(), Reason> {
        let of_it: Vec<SectionIndex> = (self.sections.enumerate())
            .filter(|(_, section)| {
                section.sh_type(ENDIAN) == elf::SHT_RELA
                    && section.sh_info(ENDIAN) as usize == index.0
            })
            .map(|(of, _)| of)
            .collect();
        for of in of_it {
            let (start, size) = self.range(of)?;
            for at in (start..start + size).step_by(RELA) {
                let place = at.checked_add(8).and_then(|end| self.bytes.get(at..end));
                let place: Option<[u8; 8]> = place.and_then(|place| place.try_into().ok());
                let before = u64::from_le_bytes(place.ok_or(NO_OBJECT)?);
                let before = usize::try_from(before).map_err(|_| NO_OBJECT)?;
                let piece = kept.partition_point(|piece| piece.before <= before);
                let piece = piece.checked_sub(1).and_then(|piece| kept.get(piece));
                let piece = piece.filter(|piece| before < piece.before + piece.size);
                let piece = piece.ok_or("a relocation of what was written anew")?;
                let now = (before - piece.before + piece.now) as u64;
                self.write(at, &now.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// The object as it is now.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
