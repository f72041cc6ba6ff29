//! Moving lines in an object's debug information, in place of compiling again.
//!
//! Where comments and blank lines of a source come and go, a compiler makes the same object but for the numbers of lines: in the rows of the
//! line table, and in the attributes that say where something was declared or called. Which line of a source is now which is known from the
//! lines that are left without comments ([`Move`]). So the numbers are translated, and the object is what the compiler would make, byte for byte:
//!
//! ```text
//! object ─▶ object_file ─▶ producer ─▶ files ─▶ rows      (.debug_line)  ─┬─▶ the object, moved
//!           sections       whose      which    entries   (.debug_info)  ─┘
//!                          rules      is which    └─▶ unit_writer, where a line takes another number of bytes
//! ```
//!
//! Compilers differ in what else follows from the numbers of lines, and so do their versions: [`Producer`] has those of which that is known.
//!
//! What is not understood, or gcc would say in another form (a line that needs one byte more), is an error in words: then the
//! compiler is run. So is what says lines elsewhere: macros (`-g3`), type units, split debug information, and names
//! such as `(lambda at a.h:7:1)`.

mod entries;
mod files;
mod object_file;
mod producer;
mod rows;
mod said;
mod unit_writer;

use entries::Moved;
use files::Files;
use memchr::memmem;
use object_file::ObjectFile;
use producer::Producer;
use std::path::Path;

/// Why an object is compiled again.
pub type Reason = &'static str;

/// A source whose lines are others now.
#[derive(Clone, Debug)]
pub struct Move {
    /// Its path, as the compiler was told.
    pub path: Vec<u8>,
    /// Its lines on which something stands, ascending, when the object was made.
    pub before: Vec<u32>,
    /// The same lines now.
    pub now: Vec<u32>,
    /// MD5 of its bytes now.
    pub md5: [u8; 16],
}

impl Move {
    /// The number that a line has now. Line 0 is none.
    fn line(&self, before: u64) -> Result<u64, Reason> {
        if before == 0 {
            return Ok(0);
        }
        let before = u32::try_from(before).map_err(|_| "a line that is none")?;
        let at = self.before.binary_search(&before);
        let now = at.ok().and_then(|at| self.now.get(at));
        let now = now.ok_or("debug information names a line on which nothing stands")?;
        Ok(u64::from(*now))
    }

    /// What names of things say of this file that are called after their places.
    fn as_in_names(&self) -> Vec<u8> {
        let name = self.path.rsplit(|byte| *byte == b'/').next();
        [name.unwrap_or_default(), b":"].concat()
    }
}

/// The object that the compiler would make after these moves, of the one that it has made before them in `directory`.
///
/// # Errors
/// In words, if that cannot be told.
pub fn moved(object: &[u8], directory: &Path, moves: &[Move]) -> Result<Vec<u8>, Reason> {
    if moves.iter().any(|it| is_in_names(object, it)) {
        return Err("names in the object say where something stands");
    }
    let mut file = ObjectFile::parse(object)?;
    let Some(sections) = file.debug_sections()? else {
        return Ok(object.to_vec());
    };
    let producer = Producer::of(&sections.strings)?;
    let files = Files::of(&sections, directory, moves)?;
    let rows = rows::moved(&sections, &files, producer)?;
    let entries = entries::moved(&sections, &files, producer)?;
    let (of_entries, of_abbreviations) = (sections.info.index, sections.abbreviations.index);
    match entries {
        Moved::InPlace {
            info,
            abbreviations,
        } => {
            file.change_in_place(of_entries, &info)?;
            file.change_in_place(of_abbreviations, &abbreviations)?;
        }
        Moved::Anew(written) => {
            file.replace(of_entries, written.info)?;
            file.replace(of_abbreviations, written.abbreviations)?;
            file.move_relocations(of_entries, &written.kept)?;
        }
    }
    file.replace(sections.lines.index, rows.bytes)?;
    file.move_relocations(sections.lines.index, &rows.kept)?;
    Ok(file.finish())
}

/// Whether a name may say where in this file something stands.
fn is_in_names(object: &[u8], it: &Move) -> bool {
    let name = it.as_in_names();
    let mut found = memmem::find_iter(object, &name);
    found.any(|at| object.get(at + name.len()).is_some_and(u8::is_ascii_digit))
}

/// Bytes to write over others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    /// Where in the section.
    at: usize,
    bytes: Vec<u8>,
}

/// A piece of a section that has another place now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    before: usize,
    now: usize,
    size: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_move(before: &[u32], now: &[u32]) -> Move {
        Move {
            path: b"inc/a.h".to_vec(),
            before: before.to_vec(),
            now: now.to_vec(),
            md5: [0; 16],
        }
    }

    #[test]
    fn lines_are_told_or_not() {
        let it = a_move(&[1, 2, 7], &[1, 3, 5]);
        assert_eq!(it.line(0), Ok(0));
        assert_eq!(it.line(2), Ok(3));
        assert_eq!(it.line(7), Ok(5));
        assert!(it.line(3).is_err() && it.line(u64::MAX).is_err());
    }

    #[test]
    fn names_that_say_places_are_found() {
        let it = a_move(&[], &[]);
        assert!(is_in_names(b"(lambda at inc/a.h:12:3)", &it));
        assert!(!is_in_names(b"a.h a.h: b.h:1 a.h", &it));
    }

    #[test]
    fn what_is_no_object_is_told() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 300]] {
            assert!(moved(bytes, Path::new("/"), &[]).is_err());
        }
    }
}
