//! Which file of a line table is which of those whose lines have moved.
//!
//! The table has names, below directories that may be relative to where the compiler ran. So a name is one of the files if it leads to it. (A
//! compile that gives directories other names in debug information is not asked about.)

use super::object_file::DebugSections;
use super::{Change, Move, Reason};
use gimli::{AttributeValue, DebugLine, DebugLineOffset, EndianSlice, Format, LittleEndian};
use memchr::memmem;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const NO_TABLE: Reason = "a line table that cannot be read";
/// Bytes of a line table's length.
pub(super) const LENGTH: usize = 4;

/// How the rows of a line table are said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoding {
    pub line_base: i64,
    pub line_range: u64,
    pub opcode_base: u8,
}

/// The files of an object's line table.
pub(super) struct Files<'m> {
    /// By their numbers: what has become of them, if they have moved.
    moves: Vec<Option<&'m Move>>,
    pub encoding: Encoding,
    /// The operands of each standard instruction.
    pub operands: Vec<u8>,
    /// Whether rows are statements as long as nothing is said.
    pub is_statement: bool,
    /// Where the rows begin in the section.
    pub rows_at: usize,
    /// What of the table before the rows is another one now.
    pub changes: Vec<Change>,
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Device and inode of the file at a path.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

type Text<'s> = EndianSlice<'s, LittleEndian>;

/// A string in the table.
fn string<'s>(
    value: &AttributeValue<Text<'s>>,
    sections: &'s DebugSections,
) -> Result<&'s [u8], Reason> {
    let (strings, at) = match value {
        AttributeValue::String(text) => return Ok(text.slice()),
        AttributeValue::DebugLineStrRef(at) => (&sections.line_strings, at.0),
        AttributeValue::DebugStrRef(at) => (&sections.strings, at.0),
        _ => return Err(NO_TABLE),
    };
    let text = strings.get(at..).ok_or(NO_TABLE)?;
    let end = memchr::memchr(0, text).ok_or(NO_TABLE)?;
    Ok(&text[..end])
}

impl<'m> Files<'m> {
    /// Those of the one table in these sections.
    pub fn of(
        sections: &DebugSections,
        directory: &Path,
        moves: &'m [Move],
    ) -> Result<Files<'m>, Reason> {
        let bytes = &sections.lines.bytes;
        let program = DebugLine::new(bytes, LittleEndian)
            .program(DebugLineOffset(0), 8, None, None)
            .map_err(|_| NO_TABLE)?;
        let header = program.header();
        let is_plain = header.format() == Format::Dwarf32
            && header.unit_length() + LENGTH == bytes.len()
            && header.minimum_instruction_length() == 1
            && header.maximum_operations_per_instruction() == 1
            && header.line_range() != 0
            && !header.file_has_source();
        if !is_plain {
            return Err("a line table of an unknown kind");
        }
        let of_moves: Vec<_> = moves
            .iter()
            .map(|it| (it, identity(&directory.join(path(&it.path)))))
            .collect();
        if of_moves.iter().any(|(_, identity)| identity.is_none()) {
            return Err("a source is gone");
        }
        // (One file may have been included under several names.)
        let mut known: HashMap<_, &Move> = HashMap::new();
        for (it, identity) in &of_moves {
            let other = known.entry(*identity).or_insert(it);
            if other.before != it.before || other.now != it.now {
                return Err("two sources are one file now");
            }
        }
        // Version 5 counts from 0, and its first directory is where the compiler ran.
        let is_new = header.version() >= 5;
        let mut found: Vec<Option<&Move>> = Vec::new();
        found.resize(usize::from(!is_new), None);
        let mut changes = Vec::new();
        let rows_at = bytes.len() - header.raw_program_buf().len();
        let mut md5_from = 0;
        for file in header.file_names() {
            let name = string(&file.path_name(), sections)?;
            let mut whole: PathBuf = directory.to_owned();
            if is_new || file.directory_index() != 0 {
                if is_new && let Some(first) = header.directory(0) {
                    whole.push(path(string(&first, sections)?));
                }
                let of_file = file.directory(header).ok_or(NO_TABLE)?;
                whole.push(path(string(&of_file, sections)?));
            }
            whole.push(path(name));
            let identity = identity(&whole);
            let is_it = |(_, other): &&(&'m Move, _)| identity.is_some() && *other == identity;
            let of_file = of_moves.iter().find(is_it).map(|(it, _)| *it);
            // (`<built-in>`, and the like.)
            if identity.is_none() && !name.starts_with(b"<") {
                return Err("a file of which it is not known which it is");
            }
            if header.file_has_md5() {
                // They stand in the order of the files, of which several may have one.
                let at = memmem::find(&bytes[md5_from..rows_at], file.md5()).ok_or(NO_TABLE)?;
                let at = md5_from + at;
                md5_from = at + file.md5().len();
                changes.extend(of_file.map(|it| Change {
                    at,
                    bytes: it.md5.to_vec(),
                }));
            }
            found.push(of_file);
        }
        Ok(Files {
            moves: found,
            encoding: Encoding {
                line_base: i64::from(header.line_base()),
                line_range: u64::from(header.line_range()),
                opcode_base: header.opcode_base(),
            },
            operands: header.standard_opcode_lengths().slice().to_vec(),
            rows_at,
            is_statement: header.default_is_stmt(),
            changes,
        })
    }

    /// The number that a line of this file has now.
    pub fn line(&self, file: u64, line: u64) -> Result<u64, Reason> {
        let at = usize::try_from(file).ok();
        match at.and_then(|at| self.moves.get(at)) {
            Some(Some(it)) => it.line(line),
            Some(None) => Ok(line),
            None => Err("a line of a file that there is not"),
        }
    }

    /// Files whose lines stay, but for those of these moves, by their numbers.
    #[cfg(test)]
    pub fn for_tests(moves: Vec<Option<&'m Move>>) -> Files<'m> {
        Files {
            moves,
            encoding: Encoding {
                line_base: -5,
                line_range: 14,
                opcode_base: 13,
            },
            operands: vec![0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1],
            rows_at: 0,
            is_statement: true,
            changes: Vec::new(),
        }
    }
}
