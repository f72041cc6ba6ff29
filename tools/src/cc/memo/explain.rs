//! What is said of conditions that do not hold.

use format_spec::kinds::{Condition, TextKeeps};
use format_spec::program::Index;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use store::program::Programs;

/// What tells a command from the one that is most like it of those that were run before; `None` if none is like it.
pub fn nearest(programs: &Programs<'_>, parts: &[Vec<u8>]) -> Option<String> {
    let mut best: Option<(usize, Vec<Vec<u8>>)> = None;
    for record in programs.records(Index::Manifests) {
        let Ok(manifest) = record.and_then(|record| programs.manifest_of(&record)) else {
            continue;
        };
        let ids = manifest.manifest().parts.iter();
        let names: Result<Vec<&[u8]>, _> = ids.map(|id| programs.name(*id)).collect();
        let Ok(names) = names else {
            continue;
        };
        // Of the same source, which is one of the words.
        let same = parts
            .iter()
            .filter(|part| names.contains(&&part[..]))
            .count();
        if best.as_ref().is_none_or(|(most, _)| same > *most) {
            best = Some((same, names.into_iter().map(<[u8]>::to_vec).collect()));
        }
    }
    let (same, names) = best?;
    if same * 2 < parts.len() {
        return None;
    }
    let shown = |words: &[Vec<u8>], other: &[Vec<u8>]| {
        let words = words.iter().filter(|word| !other.contains(word));
        let is_text = |word: &&Vec<u8>| word.iter().all(|byte| !byte.is_ascii_control());
        let texts = words
            .filter(is_text)
            .map(|word| String::from_utf8_lossy(word));
        texts.collect::<Vec<_>>().join(" ")
    };
    let (new, old) = (shown(parts, &names), shown(&names, parts));
    Some(match (&new[..], &old[..]) {
        ("", "") => "; a like one: by another compiler, or in another order".to_owned(),
        (new, "") => format!("; a like one was, without: {new}"),
        ("", old) => format!("; a like one was, with: {old}"),
        (new, old) => format!("; a like one was, with {old} instead of {new}"),
    })
}

/// A condition that does not hold, for the user.
pub fn broken(condition: &Condition<'_>) -> String {
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).display().to_string();
    match condition {
        Condition::File(_, path) => format!("{}: is another one, or gone", text(path)),
        Condition::Text { path, keeps, .. } => {
            let more = match keeps {
                TextKeeps::Places => "more than comments that leave lines where they are",
                TextKeeps::Order | TextKeeps::PlacesOrMoved | TextKeeps::BytesOrMoved => {
                    "more than comments"
                }
            };
            format!("{}: is another one, in {more}, or gone", text(path))
        }
        Condition::Listing(_, path) => format!("{}: has other entries", text(path)),
        Condition::Absent(path) | Condition::NotListed(path) | Condition::Nothing(path) => {
            format!("{}: was not there before", text(path))
        }
        Condition::NotPrecompiled(path) => {
            format!("{}: may be precompiled now", text(path))
        }
        Condition::Present(path) => format!("{}: is not there any more", text(path)),
        Condition::NotFound { name, .. } => {
            let name = text(name);
            format!("{name}: may be found in another directory than before")
        }
        Condition::Variable(text_of) => format!("variable {}: was another one", text(text_of)),
        Condition::Bodies { .. } => "bodies of functions".to_owned(),
        Condition::Search(directories) => format!("directories: {}", text(directories)),
    }
}
