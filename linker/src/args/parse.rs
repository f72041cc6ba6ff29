//! From words to [`Args`].
//!
//! GNU ld reads its words with `getopt_long_only`, and so do we, with its documented exceptions:
//! - `--name`, `--name=value`, `--name value`, the same with one dash; an unambiguous beginning of a name is the name;
//! - a name that begins with `o` needs two dashes (`-omagic` is `-o magic`);
//! - `-xVALUE` and `-x VALUE` for options of one letter, and flags of one letter in a bunch (`-sx`);
//! - `--` ends the options.
//!
//! With one dash, an exact long name comes first (`-static`), then an option of one letter with its value joined
//! (`-lfoo`, `-Tscript`), then a beginning of a long name, then a bunch.

use rustc_hash::{FxBuildHasher, FxHashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::LazyLock;

use super::apply::Parser;
use super::found::{Action, Found, Known};
use super::options::{HINTS, IGNORED, SPECS, Takes, UNSUPPORTED};
use super::*;
use crate::base::edit_distance::edit_distance;

/// All names, of one letter and longer.
static NAMES: LazyLock<FxHashMap<&'static str, Known>> = LazyLock::new(|| {
    let specs = || SPECS.iter().flat_map(|(_, specs)| specs.iter());
    let count = specs().map(|spec| spec.names.len()).sum::<usize>()
        + IGNORED
            .iter()
            .map(|ignored| ignored.names.len())
            .sum::<usize>();
    let mut names = FxHashMap::with_capacity_and_hasher(count, FxBuildHasher);
    let mut add = |list: &[&'static str], action, takes| {
        for name in list {
            let old = names.insert(*name, Known { action, takes });
            debug_assert!(old.is_none(), "option {name} is in the tables twice");
        }
    };
    for spec in specs() {
        add(spec.names, Action::Obey(spec.id), spec.takes);
    }
    for ignored in IGNORED {
        add(ignored.names, Action::Ignore, ignored.takes);
    }
    for hint in HINTS {
        add(hint.names, Action::Warn(hint.why), hint.takes);
    }
    for missing in UNSUPPORTED {
        add(missing.names, Action::Refuse(missing.reason), missing.takes);
    }
    names
});

impl Args {
    /// Reads the words of a command line; the program's own name is not among them.
    ///
    /// # Errors
    /// See [`ArgsError`]. Options that are known and not implemented are no errors here, but [`Args::unsupported`].
    pub fn parse(argv: impl Iterator<Item = OsString>) -> Result<Args, ArgsError> {
        let words = response::expand(argv)?;
        let mut parser = Parser::default();
        let mut words = words.into_iter();
        let mut only_files = false;
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            if only_files || bytes == b"-" || !bytes.starts_with(b"-") {
                parser.file(PathBuf::from(word));
            } else if bytes == b"--" {
                only_files = true;
            } else {
                for found in find(&word)? {
                    parser.option(found, &mut words)?;
                }
            }
        }
        parser.finish()
    }
}

/// Finds the option (or the bunch of options) that a word names.
fn find(word: &OsStr) -> Result<Vec<Found>, ArgsError> {
    let bytes = word.as_bytes();
    let two_dashes = bytes.starts_with(b"--");
    let body = &bytes[if two_dashes { 2 } else { 1 }..];
    let (name, joined) = match memchr::memchr(b'=', body) {
        Some(at) => (
            &body[..at],
            Some(OsString::from_vec(body[at + 1..].to_vec())),
        ),
        None => (body, None),
    };
    let unknown = || ArgsError::Unknown {
        option: word.to_string_lossy().into_owned(),
        near: nearest(name),
    };
    let dashes = if two_dashes { "--" } else { "-" };
    let found = |name: &str, entry: Known, joined| {
        let dashes = if name.len() == 1 { "-" } else { dashes };
        vec![Found {
            entry,
            spelled: format!("{dashes}{name}"),
            joined,
        }]
    };

    let long = std::str::from_utf8(name)
        .ok()
        .filter(|name| name.len() > 1 && (two_dashes || !name.starts_with('o')));
    if let Some(name) = long
        && let Some(entry) = NAMES.get(name)
    {
        return Ok(found(name, *entry, joined));
    }
    if !two_dashes && let Some((letter, entry)) = one_letter(body[0]) {
        match body.get(1..) {
            None | Some([]) => return Ok(found(letter, entry, None)),
            Some(rest) if matches!(entry.takes, Takes::Value(_)) => {
                return Ok(found(
                    letter,
                    entry,
                    Some(OsString::from_vec(rest.to_vec())),
                ));
            }
            Some(_) => {}
        }
    }
    if let Some(name) = long
        && let Some(full) = abbreviated(name).map_err(ArgsError::Conflict)?
        && let Some(entry) = NAMES.get(full)
    {
        return Ok(found(full, *entry, joined));
    }
    if !two_dashes && joined.is_none() {
        let bunch: Option<Vec<Found>> = body
            .iter()
            .map(|&byte| {
                let (letter, entry) = one_letter(byte)?;
                (entry.takes == Takes::Nothing).then(|| Found {
                    entry,
                    spelled: format!("-{letter}"),
                    joined: None,
                })
            })
            .collect();
        return bunch.ok_or_else(unknown);
    }
    Err(unknown())
}

/// The option of one letter.
fn one_letter(byte: u8) -> Option<(&'static str, Known)> {
    let letter = [byte];
    let letter = std::str::from_utf8(&letter).ok()?;
    NAMES
        .get_key_value(letter)
        .map(|(name, entry)| (*name, *entry))
}

/// The long name that `beginning` abbreviates, if it is only one ("unique abbreviations of the names of
/// multiple-letter options are accepted").
fn abbreviated(beginning: &str) -> Result<Option<&'static str>, String> {
    let mut names: Vec<&str> = NAMES
        .keys()
        .copied()
        .filter(|name| name.starts_with(beginning))
        .collect();
    match names.len() {
        0 => Ok(None),
        1 => Ok(names.pop()),
        _ => {
            names.sort_unstable();
            names.truncate(5);
            Err(format!(
                "option '--{beginning}' is ambiguous: {}",
                names.join(", ")
            ))
        }
    }
}

/// The long name most like `name`, if any is like it at all.
fn nearest(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name)
        .ok()
        .filter(|name| (3..64).contains(&name.len()))?;
    NAMES
        .keys()
        // The distance is at least the difference of the lengths.
        .filter(|known| known.len() > 2 && known.len().abs_diff(name.len()) <= name.len() / 3)
        .map(|known| (edit_distance(name.as_bytes(), known.as_bytes()), *known))
        .filter(|(distance, _)| *distance <= name.len() / 3)
        .min()
        .map(|(_, known)| format!("--{known}"))
}
