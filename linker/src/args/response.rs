//! `@file`: a word that begins with `@` is replaced by the words in the file (GNU ld's manual, "@FILE").
//!
//! "Options in FILE are separated by whitespace. A whitespace character may be included in an option by surrounding
//! the entire option in either single or double quotes. Any character (including a backslash) may be included by
//! prefixing the character to be included with a backslash. The FILE may itself contain additional @FILE options;
//! any such options will be processed recursively." A file that does not exist is taken literally, as a word.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::ArgsError;

/// Nesting deeper than this is taken for a cycle, and so are more files than this: files that include each other
/// several times need not be deep to be many.
const MAX_DEPTH: usize = 64;
const MAX_FILES: usize = 10_000;

/// Replaces all `@file` words.
pub(super) fn expand(words: impl Iterator<Item = OsString>) -> Result<Vec<OsString>, ArgsError> {
    let mut expansion = Expansion {
        files: 0,
        out: Vec::new(),
    };
    for word in words {
        expansion.word(word, 0)?;
    }
    Ok(expansion.out)
}

struct Expansion {
    files: usize,
    out: Vec<OsString>,
}

impl Expansion {
    fn word(&mut self, word: OsString, depth: usize) -> Result<(), ArgsError> {
        let name = match word.as_bytes() {
            [b'@', name @ ..] if !name.is_empty() => OsStr::from_bytes(name),
            _ => {
                self.out.push(word);
                return Ok(());
            }
        };
        let shown = || name.to_string_lossy().into_owned();
        let text = match std::fs::read(name) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.out.push(word);
                return Ok(());
            }
            Err(source) => {
                return Err(ArgsError::Response {
                    path: shown(),
                    source,
                });
            }
        };
        self.files += 1;
        if depth == MAX_DEPTH || self.files > MAX_FILES {
            return Err(ArgsError::ResponseDepth(shown()));
        }
        split(&text)
            .into_iter()
            .try_for_each(|word| self.word(word, depth + 1))
    }
}

/// Splits a response file's text into words, by GNU's quoting.
pub(super) fn split(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote: Option<u8> = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' {
            // A backslash at the very end stands for nothing.
            if let Some(next) = bytes.next() {
                word.get_or_insert_default().push(next);
            }
        } else if quote == Some(byte) {
            quote = None;
        } else if quote.is_some() {
            word.get_or_insert_default().push(byte);
        } else if byte == b'\'' || byte == b'"' {
            quote = Some(byte);
            // An empty quoted string is a word.
            word.get_or_insert_default();
        } else if byte.is_ascii_whitespace() || byte == b'\x0b' {
            words.extend(word.take().map(OsString::from_vec));
        } else {
            word.get_or_insert_default().push(byte);
        }
    }
    words.extend(word.map(OsString::from_vec));
    words
}
