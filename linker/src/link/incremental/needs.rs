//! What an output needs of shared objects, and what it comes to need: their names, in `.dynamic`, and versions of theirs, in
//! `.gnu.version_r`.
//!
//! A full link leaves room in both: entries at the end of `.dynamic`, where the dynamic linker stops reading, and bytes
//! behind the last version. Libraries are looked through in the order of their names, so that a new one goes to its place
//! among them and all that is behind it moves. Versions are linked lists: a new one stands behind all others, and the last of
//! its library leads to it.

use super::patch::Patch;
use super::reason::Reason;
use super::state::{DAMAGED, Facts};
use super::strings::add_string;
use crate::elf::c;
use crate::elf::version_tables::{self, VersionTable};
use crate::resolve::output_sections::{Outputs, Std};
use object::LittleEndian;
use object::elf::{DT_NEEDED, FileHeader64, VERSYM_VERSION};
use object::read::elf::{Dyn as _, FileHeader as _};

/// What an output needs of shared objects.
#[derive(Default)]
pub(super) struct Needed {
    /// Their names.
    names: Vec<Vec<u8>>,
    /// Shared object, version, and its index.
    versions: Vec<NewVersion>,
}

/// What it comes to need.
#[derive(Clone, Debug, Default)]
pub(super) struct NewNeeds {
    pub libraries: Vec<NewLibrary>,
    pub versions: Vec<NewVersion>,
}

/// A shared object.
#[derive(Clone, Debug)]
pub(super) struct NewLibrary {
    pub name: Vec<u8>,
    /// The names of those before it among the inputs.
    pub before: Vec<Vec<u8>>,
}

/// A version of a shared object.
#[derive(Clone, Debug)]
pub(super) struct NewVersion {
    pub library: Vec<u8>,
    pub name: Vec<u8>,
    /// Its number in `.gnu.version`.
    pub index: u16,
}

impl NewNeeds {
    fn is_nothing(&self) -> bool {
        self.libraries.is_empty() && self.versions.is_empty()
    }

    /// As well as what another one has.
    pub fn extend(&mut self, more: NewNeeds) {
        self.libraries.extend(more.libraries);
        self.versions.extend(more.versions);
    }
}

impl Needed {
    /// Reads it from an output, which comes to need some more. `None` if it cannot be read.
    pub fn of(output: &[u8], new: &NewNeeds) -> Option<Needed> {
        let mut needed = Needed::read(output)?;
        let names = new.libraries.iter().map(|library| library.name.clone());
        needed.names.extend(names);
        needed.versions.extend_from_slice(&new.versions);
        Some(needed)
    }

    fn read(output: &[u8]) -> Option<Needed> {
        let endian = LittleEndian;
        let header = FileHeader64::<LittleEndian>::parse(output).ok()?;
        let sections = header.sections(endian, output).ok()?;
        let mut needed = Needed::default();
        let (entries, strings) = sections.dynamic(endian, output).ok()??;
        let strings = sections.strings(endian, output, strings).ok()?;
        for entry in entries {
            if entry.tag32(endian) == Some(DT_NEEDED) {
                needed
                    .names
                    .push(entry.string(endian, strings).ok()?.to_vec());
            }
        }
        let Some((mut files, strings)) = sections.gnu_verneed(endian, output).ok()? else {
            return Some(needed);
        };
        let strings = sections.strings(endian, output, strings).ok()?;
        while let Some((file, mut versions)) = files.next().ok()? {
            let library = file.file(endian, strings).ok()?;
            while let Some(version) = versions.next().ok()? {
                needed.versions.push(NewVersion {
                    library: library.to_vec(),
                    name: version.name(endian, strings).ok()?.to_vec(),
                    index: version.vna_other.get(endian) & VERSYM_VERSION,
                });
            }
        }
        Some(needed)
    }

    /// The names of the shared objects.
    pub fn libraries(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(Vec::as_slice)
    }

    /// Whether a shared object of a name is needed.
    pub fn has(&self, library: &[u8]) -> bool {
        self.names.iter().any(|name| name == library)
    }

    /// The number of a version of a shared object. `new` gets one that was not needed before.
    ///
    /// # Errors
    /// If versions cannot be added.
    pub fn version(
        &mut self,
        library: &[u8],
        name: &[u8],
        new: &mut NewNeeds,
    ) -> Result<u16, Reason> {
        let mut versions = self.versions.iter();
        let known = versions.find(|version| version.library == library && version.name == name);
        if let Some(known) = known {
            return Ok(known.index);
        }
        // Those that the output defines have numbers, too; where it does, its own are before the ones that it needs.
        let last = self.versions.iter().map(|version| version.index).max();
        let index = last
            .and_then(|last| last.checked_add(1))
            .filter(|index| *index < version_tables::HIDDEN)
            .ok_or("the first version is needed")?;
        let version = NewVersion {
            library: library.to_vec(),
            name: name.to_vec(),
            index,
        };
        self.versions.push(version.clone());
        new.versions.push(version);
        Ok(index)
    }

    /// A shared object is needed from now on; those of the names `before` are before it among the inputs.
    pub fn add_library(&mut self, name: &[u8], before: &[Vec<u8>], new: &mut NewNeeds) {
        self.names.push(name.to_vec());
        new.libraries.push(NewLibrary {
            name: name.to_vec(),
            before: before.to_vec(),
        });
    }
}

/// Writes what an output comes to need.
///
/// # Errors
/// If there is no room.
pub(super) fn write(
    patch: &mut Patch,
    outputs: &Outputs,
    facts: &mut Facts,
    new: &NewNeeds,
) -> Result<(), Reason> {
    if new.is_nothing() {
        return Ok(());
    }
    let mut dynamic = DynamicTable::read(patch, outputs).ok_or(DAMAGED)?;
    for library in &new.libraries {
        dynamic.insert(patch, outputs, facts, library)?;
    }
    if !new.versions.is_empty() {
        let section = outputs.std(Std::VerNeed);
        let bytes = patch.bytes(section.offset, section.size).ok_or(DAMAGED)?;
        let mut table = VersionTable::read(bytes).ok_or(DAMAGED)?;
        for version in &new.versions {
            let library = dynamic.name_of(patch, outputs, &version.library);
            let library = library.ok_or(DAMAGED)?;
            let name = add_string(patch, outputs, facts, &version.name)?;
            let bytes = patch.bytes(section.offset, section.size).ok_or(DAMAGED)?;
            let hash = version_tables::hash(&version.name);
            let added = table.add(bytes, library, (name, hash), version.index);
            added.ok_or("there is no room for more versions of libraries")?;
        }
        let count = table.files();
        dynamic.set(c::DT_VERNEEDNUM, count.into());
        let header = u64::from(section.header);
        if header != 0 {
            let at = facts.section_headers + 64 * header + 44;
            let info = patch.bytes(at, 4).ok_or(DAMAGED)?;
            info.copy_from_slice(&count.to_le_bytes());
        }
    }
    dynamic.write(patch, outputs).ok_or_else(|| DAMAGED.into())
}

/// The entries of `.dynamic`, tags and values.
struct DynamicTable(Vec<[u64; 2]>);

impl DynamicTable {
    fn read(patch: &Patch, outputs: &Outputs) -> Option<DynamicTable> {
        let section = outputs.std(Std::Dynamic);
        let start = usize::try_from(section.offset).ok()?;
        let end = start.checked_add(usize::try_from(section.size).ok()?)?;
        let (entries, _) = patch.image.get(start..end)?.as_chunks::<16>();
        let word = |bytes: &[u8]| {
            bytes
                .first_chunk()
                .map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let entries = entries.iter().map(|entry| [word(entry), word(&entry[8..])]);
        Some(DynamicTable(entries.collect()))
    }

    fn text<'p>(patch: &'p Patch, outputs: &Outputs, at: u64) -> Option<&'p [u8]> {
        let strings = outputs.std(Std::DynStr);
        let start = usize::try_from(strings.offset.checked_add(at)?).ok()?;
        patch.image.get(start..)?.split(|byte| *byte == 0).next()
    }

    /// Where in `.dynstr` the name of a needed library stands, by which versions are told as well.
    fn name_of(&self, patch: &Patch, outputs: &Outputs, name: &[u8]) -> Option<u32> {
        let mut needed = self.0.iter().filter(|[tag, _]| *tag == c::DT_NEEDED.into());
        let found = needed.find(|[_, at]| Self::text(patch, outputs, *at) == Some(name));
        u32::try_from(found?[1]).ok()
    }

    fn insert(
        &mut self,
        patch: &mut Patch,
        outputs: &Outputs,
        facts: &mut Facts,
        library: &NewLibrary,
    ) -> Result<(), Reason> {
        // One stays at the end.
        let is_null =
            |entry: Option<&[u64; 2]>| entry.is_some_and(|[tag, _]| *tag == c::DT_NULL.into());
        let count = self.0.len();
        if !is_null(self.0.last()) || !is_null(count.checked_sub(2).and_then(|at| self.0.get(at))) {
            return Err("there is no room for more needed libraries".into());
        }
        let is_before = |[tag, at]: &[u64; 2]| {
            let name = Self::text(patch, outputs, *at);
            *tag == c::DT_NEEDED.into()
                && library
                    .before
                    .iter()
                    .any(|before| Some(&before[..]) == name)
        };
        let last = self.0.iter().rposition(is_before);
        let name = add_string(patch, outputs, facts, &library.name)?;
        self.0.pop();
        let place = last.map_or(0, |last| last + 1);
        self.0.insert(place, [c::DT_NEEDED.into(), name.into()]);
        Ok(())
    }

    fn set(&mut self, tag: u32, value: u64) {
        for entry in self.0.iter_mut().filter(|entry| entry[0] == tag.into()) {
            entry[1] = value;
        }
    }

    fn write(&self, patch: &mut Patch, outputs: &Outputs) -> Option<()> {
        let section = outputs.std(Std::Dynamic);
        let bytes = patch.bytes(section.offset, section.size)?;
        for (place, entry) in bytes.chunks_exact_mut(16).zip(&self.0) {
            place.copy_from_slice(bytemuck::cast_slice(entry));
        }
        Some(())
    }
}
