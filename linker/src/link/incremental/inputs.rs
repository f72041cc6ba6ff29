//! After a full link: which files it has read, and which objects are in them.
//!
//! Of each object the state has a key of its contents: build systems write many files again that are as they were, and
//! archives whole of which one member is new.

use super::known::known_names;
use super::look::{is_shared, map};
use super::reason::Reason;
use super::state::{
    Builder, FileRecord, InputRecord, MemberRecord, NONE, NameKey, SymbolRecord, Table,
    content_key, input,
};
use super::{command, interface};
use crate::args::{Args, InputKind};
use crate::input::file::File;
use crate::input::open::OpenedFile;
use crate::input::stamp::{Moment, Stamp};
use crate::link::resolved::Resolved;
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tickets::archive::{Archive, MemberBody};

/// What the link has opened.
pub(super) struct Inputs {
    opened: Vec<Opened>,
    /// By file: where it is.
    of_file: Vec<Where>,
}

/// An input file, once.
struct Opened {
    file: OpenedFile,
    /// What is in it.
    holds: Holds,
    /// Key of its contents; zeros if that is not worth while.
    content: [u64; 2],
    /// Of a shared object: what the program may use of it.
    symbols: Vec<SymbolRecord>,
}

enum Holds {
    /// A script, a shared object, or an object that is not linked.
    Other,
    /// A linked object, by its number.
    Object(u32),
    /// Members.
    Archive(Vec<MemberRecord>),
}

/// Where the bytes of an object are.
#[derive(Clone, Copy)]
struct Where {
    /// Number of the input; [`NONE`] if it is in none.
    input: u32,
    /// Which member of that it is, counted from 1; 0 if it is the whole.
    member: u32,
    /// It is linked more than once, or was made of something else.
    is_odd: bool,
}

/// Files of other kinds than objects and shared objects are compared by their contents up to this size, bytes.
const LARGE: usize = 16 << 20;

impl Inputs {
    /// Looks through what was opened.
    ///
    /// # Errors
    /// If something was no file that can be looked at again.
    pub fn new(resolved: &Resolved, files: &[OpenedFile]) -> Result<Inputs, Reason> {
        let mut opened: Vec<OpenedFile> = Vec::new();
        let mut known: FxHashMap<std::path::PathBuf, ()> = FxHashMap::default();
        for file in files {
            if file.stamp.is_none() {
                let path = file.path.display();
                return Err(format!("{path} is no file that can be looked at again").into());
            }
            if known.insert(file.path.clone(), ()).is_none() {
                opened.push(file.clone());
            }
        }
        let objects = Objects::new(resolved);
        let look = |(number, file): (usize, OpenedFile)| objects.look(number as u32, file);
        let looked: Vec<_> = opened.into_par_iter().enumerate().map(look).collect();
        let nowhere = Where {
            input: NONE,
            member: 0,
            is_odd: false,
        };
        let mut of_file = vec![nowhere; resolved.files.0.len()];
        let mut opened = Vec::with_capacity(looked.len());
        for (file, places) in looked {
            for (id, place) in places {
                let known = &mut of_file[id as usize];
                *known = Where {
                    is_odd: known.input != NONE,
                    ..place
                };
            }
            opened.push(file);
        }
        for ids in objects.by_start.values().filter(|ids| ids.len() > 1) {
            for id in ids {
                of_file[*id as usize].is_odd = true;
            }
        }
        Ok(Inputs { opened, of_file })
    }

    /// Refuses inputs that have changed since they were opened: what was read of them since then, names for instance, may be of
    /// either version. One that is gone is as it was for who has it mapped.
    ///
    /// # Errors
    /// Which one has changed.
    pub fn check_unchanged(&self) -> Result<(), Reason> {
        let has_changed = |opened: &&Opened| {
            let now = Stamp::at(&opened.file.path);
            let was = opened.file.stamp.as_ref();
            now.zip(was)
                .is_some_and(|(now, was)| !now.is_content_of(was))
        };
        match self.opened.par_iter().find_any(has_changed) {
            None => Ok(()),
            Some(opened) => {
                let path = opened.file.path.display();
                Err(format!("{path} has changed since it was linked").into())
            }
        }
    }

    /// Writes down where an object is. Whether it can be linked again by itself, as far as that is concerned.
    pub fn place(&self, id: u32, record: &mut FileRecord) -> bool {
        let place = self.of_file[id as usize];
        (record.input, record.member) = (place.input, place.member);
        place.input != NONE && !place.is_odd
    }

    /// The tables of inputs, of members, and of arguments. Of inputs that have changed since the link began, or just before, it is
    /// not known what was read.
    pub fn write(&self, args: &Args, started: Moment, text: &mut Vec<u8>, builder: &mut Builder) {
        let arguments = arguments(args);
        let mut objects: FxHashMap<u32, u32> = FxHashMap::default();
        let mut members: Vec<MemberRecord> = Vec::new();
        let mut records: Vec<InputRecord> = Vec::with_capacity(self.opened.len());
        for opened in &self.opened {
            let path = opened.file.path.as_os_str().as_bytes();
            let at = text.len() as u64;
            text.extend_from_slice(path);
            let (kind, file, own) = match &opened.holds {
                Holds::Other => (input::OTHER, NONE, &[][..]),
                Holds::Object(file) => (input::OBJECT, *file, &[][..]),
                Holds::Archive(members) => (input::ARCHIVE, NONE, &members[..]),
            };
            let argument = match kind {
                input::OBJECT => arguments.get(&*opened.file.path).copied().flatten(),
                _ => None,
            };
            if let Some(argument) = argument {
                objects.insert(argument, records.len() as u32);
            }
            records.push(InputRecord {
                path: at,
                path_len: path.len() as u32,
                file,
                stamp: opened.file.stamp.unwrap_or_default().settled(started),
                members: [members.len() as u64, own.len() as u64],
                content: opened.content,
                argument: argument.unwrap_or(NONE),
                kind,
            });
            members.extend_from_slice(own);
        }
        builder.table(Table::Members, &members);
        let start = builder.start_of(Table::Members);
        let all = self.opened.iter().flat_map(|opened| &opened.symbols);
        let symbols: Vec<SymbolRecord> = all.copied().collect();
        builder.table(Table::Symbols, &symbols);
        let symbols_start = builder.start_of(Table::Symbols);
        let mut before = 0;
        for (record, opened) in records.iter_mut().zip(&self.opened) {
            record.members[0] = start + record.members[0] * size_of::<MemberRecord>() as u64;
            if !opened.symbols.is_empty() {
                let at = symbols_start + before * size_of::<SymbolRecord>() as u64;
                record.members = [at, opened.symbols.len() as u64];
                before += opened.symbols.len() as u64;
            }
        }
        builder.table(Table::Inputs, &records);
        builder.table(Table::Arguments, &command::records(args, &objects));
    }
}

/// The argument that names a file by its path, by path; nothing of those that are named twice.
fn arguments(args: &Args) -> FxHashMap<&Path, Option<u32>> {
    let mut arguments = FxHashMap::default();
    for (index, input) in (0..).zip(&*args.inputs) {
        if let InputKind::File(path) = &input.kind {
            let one = |known: &mut Option<u32>| *known = None;
            arguments
                .entry(&**path)
                .and_modify(one)
                .or_insert(Some(index));
        }
    }
    arguments
}

/// Objects, by where their bytes begin.
struct Objects<'r, 'a> {
    resolved: &'r Resolved<'r, 'a>,
    by_start: FxHashMap<usize, Vec<u32>>,
    /// By where an archive begins: one of its members.
    archives: FxHashMap<usize, u32>,
    /// The names that the state will know.
    names: FxHashSet<NameKey>,
    /// Some say a version as well, so that it is not known by a name whether it is used.
    has_versions: bool,
}

impl<'r, 'a> Objects<'r, 'a> {
    fn new(resolved: &'r Resolved<'r, 'a>) -> Objects<'r, 'a> {
        let mut objects = Objects {
            resolved,
            by_start: FxHashMap::default(),
            archives: FxHashMap::default(),
            names: match resolved
                .files
                .iter()
                .any(|(_, file)| file.shared().is_some())
            {
                true => known_names(resolved).collect(),
                false => FxHashSet::default(),
            },
            has_versions: resolved.symbols.has_versions(),
        };
        for (id, file) in resolved.files.iter() {
            if file.object().is_none() || file.data.is_empty() {
                continue;
            }
            if let Some(mapped) = file.mapped
                && file.member.is_some()
            {
                let start = mapped.whole().as_ptr() as usize;
                objects.archives.entry(start).or_insert(id.0);
            }
            let start = file.data.as_ptr() as usize;
            objects.by_start.entry(start).or_default().push(id.0);
        }
        objects
    }

    fn linked(&self, data: &[u8]) -> Option<u32> {
        let ids = self.by_start.get(&(data.as_ptr() as usize))?;
        let linked = &self.resolved.linked;
        ids.iter().copied().find(|id| linked[*id as usize])
    }

    fn file(&self, id: u32) -> &File<'a> {
        &self.resolved.files.0[id as usize]
    }

    /// What is in an input, and where the objects in it are.
    fn look(&self, number: u32, file: OpenedFile) -> (Opened, Vec<(u32, Where)>) {
        let place = |member| Where {
            input: number,
            member,
            is_odd: false,
        };
        let start = file.start();
        let object = self.by_start.get(&start).and_then(|ids| ids.first());
        if let Some(first) = object {
            let data = self.file(*first).data;
            let linked = self.linked(data);
            let opened = Opened {
                holds: linked.map_or(Holds::Other, Holds::Object),
                content: content_key(data),
                symbols: Vec::new(),
                file,
            };
            let places = linked.map(|id| (id, place(0)));
            return (opened, places.into_iter().collect());
        }
        let archive = self
            .archives
            .get(&start)
            .and_then(|id| self.file(*id).mapped);
        if let Some(whole) = archive {
            let mut places = Vec::new();
            let linked = |_: u64, data: &[u8], member: u32| {
                let id = self.linked(data)?;
                places.push((id, place(member)));
                Some(id)
            };
            if let Some((content, members)) = list_members(whole.whole(), linked) {
                let holds = Holds::Archive(members);
                return (
                    Opened {
                        file,
                        holds,
                        content,
                        symbols: Vec::new(),
                    },
                    places,
                );
            }
            return (Opened::other(file, [0; 2]), Vec::new());
        }
        // A script, a shared object, an archive of which nothing is linked, or a thin one.
        let (content, symbols) = match map(&file.path) {
            Ok(Some(bytes)) if is_shared(&bytes) || bytes.len() <= LARGE => {
                let is_known = |key: &NameKey| self.names.contains(key);
                let symbols = match self.has_versions {
                    true => Vec::new(),
                    false => interface::records(&bytes, is_known),
                };
                (interface::key(&bytes), symbols)
            }
            Ok(None) => (interface::key(&[]), Vec::new()),
            _ => ([0; 2], Vec::new()),
        };
        let opened = Opened::other(file, content);
        (Opened { symbols, ..opened }, Vec::new())
    }
}

impl Opened {
    fn other(file: OpenedFile, content: [u64; 2]) -> Opened {
        Opened {
            file,
            holds: Holds::Other,
            content,
            symbols: Vec::new(),
        }
    }
}

/// The members of an archive that holds them, and a key of the names that its index lists; `None` if it has no index that could
/// be compared. `linked` gives the number of a linked object, by the hash of its name, its bytes, and its place, counted from 1.
pub(super) fn list_members(
    data: &[u8],
    mut linked: impl FnMut(u64, &[u8], u32) -> Option<u32>,
) -> Option<([u64; 2], Vec<MemberRecord>)> {
    let archive = Archive::parse(data).ok()?;
    let names = content_key(archive.symbols()?.names()?);
    let mut members = Vec::new();
    for member in archive.members() {
        let member = member.ok()?;
        if !matches!(member.body, MemberBody::Inline(_)) {
            return None;
        }
        let bytes = archive.inline_data(&member)?;
        let number = members.len() as u32 + 1;
        let name = xxhash_rust::xxh3::xxh3_64(member.name);
        let file = linked(name, bytes, number);
        members.push(MemberRecord {
            content: file.map_or([0; 2], |_| content_key(bytes)),
            name,
            file: file.unwrap_or(NONE),
            padding: 0,
        });
    }
    Some((names, members))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_has_changed_meanwhile_is_noticed_and_what_is_gone_is_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.o");
        let opened = || {
            fs::write(&path, "before").unwrap();
            Inputs {
                opened: vec![Opened::other(OpenedFile::at(&path), [0; 2])],
                of_file: Vec::new(),
            }
        };
        let inputs = opened();
        assert!(inputs.check_unchanged().is_ok());
        fs::hard_link(&path, directory.path().join("another name")).unwrap();
        assert!(inputs.check_unchanged().is_ok());
        fs::remove_file(&path).unwrap();
        assert!(inputs.check_unchanged().is_ok());

        let inputs = opened();
        fs::write(&path, "afterwards").unwrap();
        let why = inputs.check_unchanged().unwrap_err();
        assert!(
            why.ends_with("a.o has changed since it was linked"),
            "{why}"
        );
    }
}
