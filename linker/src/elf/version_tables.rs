//! Symbol versions in the output: the contents of `.gnu.version_r` (what we
//! need of which shared object) and `.gnu.version_d` (what we define), after
//! the Linux Standard Base Core Specification, "Symbol Versioning". The third
//! table, `.gnu.version`, is an array of the indices that are handed out here,
//! one for each dynamic symbol.

use bytemuck::{Pod, Zeroable};

/// Index of a symbol that is not visible outside (`VER_NDX_LOCAL`).
pub const LOCAL: u16 = 0;
/// Index of an unversioned symbol (`VER_NDX_GLOBAL`), and of the base definition.
pub const GLOBAL: u16 = 1;
/// Bit of an index in `.gnu.version`: not the default version of its name (`foo@V`, not `foo@@V`).
pub const HIDDEN: u16 = 0x8000;

const VERSION_CURRENT: u16 = 1;
const FLAG_BASE: u16 = 1;

/// The hash by which the dynamic linker compares versions: the SysV hash of a
/// symbol's name (gABI, "Hash Table").
pub fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0u32, |h, &byte| {
        let h = (h << 4).wrapping_add(u32::from(byte));
        let high = h & 0xf000_0000;
        (h ^ (high >> 24)) & !high
    })
}

/// A version that a shared object must provide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need<'a> {
    /// Name of the version.
    pub name: &'a [u8],
    /// The index that `.gnu.version` has for it.
    pub index: u16,
    /// `VER_FLG_WEAK` or 0.
    pub flags: u16,
}

/// The versions that one shared object must provide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedFile<'a> {
    /// Its `DT_SONAME`, as in our `DT_NEEDED`.
    pub soname: &'a [u8],
    /// At least one.
    pub versions: Vec<Need<'a>>,
}

/// A version that the output defines. The first is the base: the name of the file itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition<'a> {
    /// Name of the version.
    pub name: &'a [u8],
    /// The index that `.gnu.version` has for it.
    pub index: u16,
    /// Names of the versions that it inherits from.
    pub parents: Vec<&'a [u8]>,
    /// The base definition.
    pub base: bool,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Verneed {
    vn_version: u16,
    vn_cnt: u16,
    vn_file: u32,
    vn_aux: u32,
    vn_next: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Vernaux {
    vna_hash: u32,
    vna_flags: u16,
    vna_other: u16,
    vna_name: u32,
    vna_next: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Verdef {
    vd_version: u16,
    vd_flags: u16,
    vd_ndx: u16,
    vd_cnt: u16,
    vd_hash: u32,
    vd_aux: u32,
    vd_next: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Verdaux {
    vda_name: u32,
    vda_next: u32,
}

/// Size of `.gnu.version_r`, bytes.
pub fn needs_size(files: &[NeedFile<'_>]) -> u64 {
    let versions: usize = files.iter().map(|file| file.versions.len()).sum();
    (files.len() * size_of::<Verneed>() + versions * size_of::<Vernaux>()) as u64
}

/// The contents of `.gnu.version_r`. `dynstr` gives the offset of a name in `.dynstr`.
pub fn write_needs(files: &[NeedFile<'_>], dynstr: impl Fn(&[u8]) -> u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(needs_size(files) as usize);
    for (i, file) in files.iter().enumerate() {
        let count = file.versions.len();
        let whole = size_of::<Verneed>() + count * size_of::<Vernaux>();
        out.extend_from_slice(bytemuck::bytes_of(&Verneed {
            vn_version: VERSION_CURRENT,
            vn_cnt: count as u16,
            vn_file: dynstr(file.soname),
            vn_aux: size_of::<Verneed>() as u32,
            vn_next: if i + 1 == files.len() {
                0
            } else {
                whole as u32
            },
        }));
        for (j, version) in file.versions.iter().enumerate() {
            out.extend_from_slice(bytemuck::bytes_of(&Vernaux {
                vna_hash: hash(version.name),
                vna_flags: version.flags,
                vna_other: version.index,
                vna_name: dynstr(version.name),
                vna_next: if j + 1 == count {
                    0
                } else {
                    size_of::<Vernaux>() as u32
                },
            }));
        }
    }
    out
}

/// A `.gnu.version_r` that versions are added to: they go behind those that are there.
pub struct VersionTable {
    /// Place, name (offset in `.dynstr`) and place of the last version of each shared object.
    files: Vec<(usize, u32, usize)>,
    /// Where the last record ends.
    end: usize,
}

impl VersionTable {
    /// Looks through a table. `None` if its records are not in it, or not one behind the other.
    pub fn read(bytes: &[u8]) -> Option<VersionTable> {
        let mut table = VersionTable {
            files: Vec::new(),
            end: 0,
        };
        let mut at = 0usize;
        loop {
            let file: Verneed = record(bytes, at)?;
            if file.vn_version != VERSION_CURRENT {
                return None;
            }
            let mut version = at.checked_add(file.vn_aux as usize)?;
            let mut last: Vernaux = record(bytes, version)?;
            table.end = table.end.max(at + size_of::<Verneed>());
            while last.vna_next != 0 {
                table.end = table.end.max(version + size_of::<Vernaux>());
                version = version.checked_add(last.vna_next as usize)?;
                last = record(bytes, version)?;
            }
            table.end = table.end.max(version + size_of::<Vernaux>());
            table.files.push((at, file.vn_file, version));
            match file.vn_next {
                0 => return Some(table),
                next => at = at.checked_add(next as usize)?,
            }
        }
    }

    /// Number of the shared objects.
    pub fn files(&self) -> u32 {
        self.files.len() as u32
    }

    /// Adds a version, of which name (offset in `.dynstr`), hash and index are told, of the shared object whose name is at
    /// `file`. `bytes` are those that were read. `None` if there is no room.
    pub fn add(
        &mut self,
        bytes: &mut [u8],
        file: u32,
        (name, hash): (u32, u32),
        index: u16,
    ) -> Option<()> {
        let known = self.files.iter().position(|(_, known, _)| *known == file);
        let header = match known {
            Some(_) => 0,
            None => size_of::<Verneed>(),
        };
        let at = self.end + header;
        let end = at.checked_add(size_of::<Vernaux>())?;
        bytes.get(..end)?;
        put(
            bytes,
            at,
            &Vernaux {
                vna_hash: hash,
                vna_flags: 0,
                vna_other: index,
                vna_name: name,
                vna_next: 0,
            },
        )?;
        match known {
            Some(known) => {
                let (place, _, last) = &mut self.files[known];
                let mut version: Vernaux = record(bytes, *last)?;
                version.vna_next = u32::try_from(at - *last).ok()?;
                put(bytes, *last, &version)?;
                let mut whole: Verneed = record(bytes, *place)?;
                whole.vn_cnt = whole.vn_cnt.checked_add(1)?;
                put(bytes, *place, &whole)?;
                *last = at;
            }
            None => {
                let place = self.end;
                put(
                    bytes,
                    place,
                    &Verneed {
                        vn_version: VERSION_CURRENT,
                        vn_cnt: 1,
                        vn_file: file,
                        vn_aux: size_of::<Verneed>() as u32,
                        vn_next: 0,
                    },
                )?;
                let (before, ..) = *self.files.last()?;
                let mut whole: Verneed = record(bytes, before)?;
                whole.vn_next = u32::try_from(place - before).ok()?;
                put(bytes, before, &whole)?;
                self.files.push((place, file, at));
            }
        }
        self.end = end;
        Some(())
    }
}

fn record<T: bytemuck::AnyBitPattern>(bytes: &[u8], at: usize) -> Option<T> {
    let bytes = bytes.get(at..at.checked_add(size_of::<T>())?)?;
    Some(bytemuck::pod_read_unaligned(bytes))
}

fn put<T: bytemuck::NoUninit>(bytes: &mut [u8], at: usize, record: &T) -> Option<()> {
    let place = bytes.get_mut(at..at.checked_add(size_of::<T>())?)?;
    place.copy_from_slice(bytemuck::bytes_of(record));
    Some(())
}

/// Size of `.gnu.version_d`, bytes.
pub fn definitions_size(definitions: &[Definition<'_>]) -> u64 {
    let names: usize = definitions.iter().map(|d| 1 + d.parents.len()).sum();
    (definitions.len() * size_of::<Verdef>() + names * size_of::<Verdaux>()) as u64
}

/// The contents of `.gnu.version_d`. `dynstr` gives the offset of a name in `.dynstr`.
pub fn write_definitions(definitions: &[Definition<'_>], dynstr: impl Fn(&[u8]) -> u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(definitions_size(definitions) as usize);
    for (i, definition) in definitions.iter().enumerate() {
        let names = 1 + definition.parents.len();
        let whole = size_of::<Verdef>() + names * size_of::<Verdaux>();
        out.extend_from_slice(bytemuck::bytes_of(&Verdef {
            vd_version: VERSION_CURRENT,
            vd_flags: if definition.base { FLAG_BASE } else { 0 },
            vd_ndx: definition.index,
            vd_cnt: names as u16,
            vd_hash: hash(definition.name),
            vd_aux: size_of::<Verdef>() as u32,
            vd_next: if i + 1 == definitions.len() {
                0
            } else {
                whole as u32
            },
        }));
        for (j, name) in std::iter::once(&definition.name)
            .chain(&definition.parents)
            .enumerate()
        {
            out.extend_from_slice(bytemuck::bytes_of(&Verdaux {
                vda_name: dynstr(name),
                vda_next: if j + 1 == names {
                    0
                } else {
                    size_of::<Verdaux>() as u32
                },
            }));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_specification() {
        // As `readelf -V` shows them for glibc's versions.
        assert_eq!(hash(b"GLIBC_2.2.5"), 0x0969_1a75);
        assert_eq!(hash(b"GLIBC_2.34"), 0x0696_91b4);
        assert_eq!(hash(b""), 0);
    }

    #[test]
    fn needs_are_chained() {
        let need = |name, index| Need {
            name,
            index,
            flags: 0,
        };
        let files = [
            NeedFile {
                soname: b"libc.so.6",
                versions: vec![need(b"GLIBC_2.2.5", 2), need(b"GLIBC_2.34", 3)],
            },
            NeedFile {
                soname: b"libm.so.6",
                versions: vec![need(b"GLIBC_2.29", 4)],
            },
        ];
        let bytes = write_needs(&files, |name| name.len() as u32);
        assert_eq!(bytes.len() as u64, needs_size(&files));
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((word(4), word(8), word(12)), (9, 16, 48));
        assert_eq!((word(16), word(24), word(28)), (0x0969_1a75, 11, 16));
        assert_eq!((bytes[22], word(44)), (2, 0));
        assert_eq!((bytes[50], word(60)), (1, 0));
    }

    #[test]
    fn versions_are_added_behind_those_that_are_there() {
        let need = |name, index| Need {
            name,
            index,
            flags: 0,
        };
        let files = vec![
            NeedFile {
                soname: &b"libc.so.6"[..],
                versions: vec![need(&b"GLIBC_2.2.5"[..], 2)],
            },
            NeedFile {
                soname: b"libm.so",
                versions: vec![need(b"GLIBC_2.29", 3)],
            },
        ];
        let dynstr = |name: &[u8]| name.len() as u32;
        let mut bytes = write_needs(&files, dynstr);
        bytes.resize(bytes.len() + 16 + 2 * 16, 0);
        let mut table = VersionTable::read(&bytes).unwrap();
        table.add(&mut bytes, 9, (1, 2), 4).unwrap();
        table.add(&mut bytes, 11, (5, 6), 5).unwrap();
        assert!(table.add(&mut bytes, 9, (1, 2), 6).is_none());
        assert_eq!(table.files(), 3);
        let mut found = Vec::new();
        let (mut at, mut more) = (0, true);
        while more {
            let file: Verneed = record(&bytes, at).unwrap();
            let mut version = at + file.vn_aux as usize;
            for left in (0..file.vn_cnt).rev() {
                let is: Vernaux = record(&bytes, version).unwrap();
                found.push((file.vn_file, is.vna_other));
                assert_eq!(is.vna_next == 0, left == 0);
                version += is.vna_next as usize;
            }
            at += file.vn_next as usize;
            more = file.vn_next != 0;
        }
        assert_eq!(found, [(9, 2), (9, 4), (7, 3), (11, 5)]);
        assert!(VersionTable::read(&[0; 20]).is_none());
    }

    #[test]
    fn definitions_name_their_parents() {
        let definitions = [
            Definition {
                name: b"libx.so",
                index: 1,
                parents: vec![],
                base: true,
            },
            Definition {
                name: b"V1",
                index: 2,
                parents: vec![],
                base: false,
            },
            Definition {
                name: b"V2",
                index: 3,
                parents: vec![b"V1"],
                base: false,
            },
        ];
        let bytes = write_definitions(&definitions, |name| name.len() as u32);
        assert_eq!(bytes.len() as u64, definitions_size(&definitions));
        let half = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
        assert_eq!((half(2), half(4), half(6)), (1, 1, 1));
        assert_eq!((half(56 + 2), half(56 + 4), half(56 + 6)), (0, 3, 2));
        // The parent follows the version's own name, and ends the chain.
        assert_eq!(
            (half(56 + 20), half(56 + 24), half(56 + 28), half(56 + 32)),
            (2, 8, 2, 0)
        );
    }
}
