//! Words, blanks and names of files in the text of a source.

use memchr::memmem;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How a name is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Form {
    /// `"name"`: first where the file is that includes it.
    Quoted,
    /// `<name>`.
    Angled,
    /// `#include_next`, either way: behind the directory in which the file itself was found.
    Next,
}

/// A name that is looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lookup {
    /// How.
    pub form: Form,
    /// What.
    pub name: Vec<u8>,
    /// `__has_include`: whether it is there is all that is asked.
    pub only_asks: bool,
}

/// The name that `"name"` or `<name>` is, at the start of a text.
pub fn literal(text: &[u8]) -> Option<(Form, &[u8])> {
    let (form, close) = match text.first()? {
        b'"' => (Form::Quoted, b'"'),
        b'<' => (Form::Angled, b'>'),
        _ => return None,
    };
    let end = memchr::memchr2(close, b'\n', &text[1..])? + 1;
    (text[end] == close && end > 1).then(|| (form, &text[1..end]))
}

/// Whether a macro is being defined where this text ends.
pub fn is_in_definition(before: &[u8]) -> bool {
    let mut lines = before.rsplit(|byte| *byte == b'\n');
    let mut line = lines.next().unwrap_or_default();
    // Lines that go on.
    for above in lines {
        let above = above.strip_suffix(b"\r").unwrap_or(above);
        if !above.ends_with(b"\\") {
            break;
        }
        line = above;
    }
    memmem::find_iter(line, b"define").any(|at| is_word(line, at..at + 6))
}

/// A place in a text.
pub struct Cursor<'t> {
    /// The text.
    pub text: &'t [u8],
    /// The place.
    pub at: usize,
}

impl<'t> Cursor<'t> {
    /// Over blanks, comments, and ends of lines behind a backslash.
    pub fn skip_blanks(&mut self) {
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            self.at += match rest {
                [b' ' | b'\t' | 0x0b | 0x0c | b'\r', ..] => 1,
                [b'\\', b'\n', ..] => 2,
                [b'\\', b'\r', b'\n', ..] => 3,
                [b'/', b'*', ..] => match memmem::find(&rest[2..], b"*/") {
                    Some(end) => end + 4,
                    None => return,
                },
                _ => return,
            };
        }
    }

    /// Reads an identifier, which may be empty.
    pub fn identifier(&mut self) -> &'t [u8] {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = rest
            .iter()
            .position(|byte| !is_part(*byte))
            .unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }
}

/// Whether a byte is a blank, and ends no line.
pub fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

/// Of each byte, whether it can be part of an identifier: texts are read byte by byte.
const IS_PART: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let letter = byte as u8;
        table[byte] =
            letter.is_ascii_alphanumeric() || letter == b'_' || letter == b'$' || letter >= 0x80;
        byte += 1;
    }
    table
};

/// Whether a byte can be part of an identifier.
pub fn is_part(byte: u8) -> bool {
    IS_PART[usize::from(byte)]
}

/// Whether an identifier begins and ends with this range.
pub fn is_word(text: &[u8], range: Range<usize>) -> bool {
    let before = range.start.checked_sub(1).map(|before| text[before]);
    let behind = text.get(range.end).copied();
    !before.is_some_and(is_part) && !behind.is_some_and(is_part)
}
