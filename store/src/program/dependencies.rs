//! Dependency files, recorded as lists of paths (SPEC.md, section 28).
//!
//! What a compiler writes for make is, but for the target, a list of files that a manifest has among its conditions already, broken into
//! lines by a rule. There is one for each object, ten times as long as a ticket. So it is recorded as the names of those conditions
//! and which rule it was. A file that comes out otherwise is recorded as it is.

use format_spec::ids::NameId;
use format_spec::kinds::Condition;
use std::collections::HashMap;

/// Version of the body of captured bytes that are recorded so.
pub(super) const LIST_VERSION: u8 = 2;

/// Lines are broken as clang does, else as gcc does.
const CLANG: u8 = 1;
/// All files but the first are targets, too (`-MP`).
const PHONY: u8 = 2;

/// A line ends before the file that would reach beyond this column.
const COLUMNS: usize = 72;

/// The path of the file that a condition is about, if it is about a file that was read.
pub(super) fn path_of(condition: &[u8]) -> Option<&[u8]> {
    match Condition::parse(condition)? {
        Condition::File(_, path) | Condition::Text { path, .. } => Some(path),
        _ => None,
    }
}

/// The files that a dependency file seems to list, in their order.
pub(super) fn listed(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (_, rule, _) = split(text).unwrap_or_default();
    let words = rule.split(|byte| byte.is_ascii_whitespace());
    words.filter(|word| !word.is_empty() && *word != b"\\")
}

/// The text up to the first rule's colon, that behind it up to the rule's end, and what follows.
fn split(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (head, list) = text.split_at(memchr::memmem::find(text, b": ")? + 1);
    let mut end = memchr::memchr(b'\n', list)?;
    while list[..end].ends_with(b"\\") {
        end += 1 + memchr::memchr(b'\n', &list[end + 1..])?;
    }
    Some((head, &list[..end], &list[end + 1..]))
}

/// The names and the body that stand for a dependency file, if they can. `names` has the conditions by the paths of their files.
pub(super) fn pack(text: &[u8], names: &HashMap<&[u8], NameId>) -> Option<(Vec<NameId>, Vec<u8>)> {
    let (head, _, rest) = split(text)?;
    let ids: Vec<NameId> = listed(text)
        .map(|path| names.get(path).copied())
        .collect::<Option<_>>()?;
    let phony = if rest.is_empty() { 0 } else { PHONY };
    [0, CLANG].into_iter().find_map(|breaks| {
        let body = [&[breaks | phony], head].concat();
        let again = unpack(&body, listed(text))?;
        (again == text).then(|| (ids.clone(), body))
    })
}

/// The dependency file that a body, and the paths of these files, stand for; `None` if it is no such body.
pub(super) fn unpack<'p>(body: &[u8], paths: impl Iterator<Item = &'p [u8]>) -> Option<Vec<u8>> {
    let (&bits, head) = body.split_first()?;
    if bits & !(CLANG | PHONY) != 0 {
        return None;
    }
    let mut text = head.to_vec();
    let mut column = head.len() - memchr::memrchr(b'\n', head).map_or(0, |end| end + 1);
    let paths: Vec<&[u8]> = paths.collect();
    for path in &paths {
        if column + path.len() > COLUMNS {
            text.extend_from_slice(b" \\\n");
            column = 0;
            if bits & CLANG != 0 {
                text.push(b' ');
                // With the space before the path.
                column = 2;
            }
        }
        text.push(b' ');
        text.extend_from_slice(path);
        column += 1 + path.len();
    }
    text.push(b'\n');
    if bits & PHONY != 0 {
        for path in paths.iter().skip(1) {
            text.extend_from_slice(path);
            text.extend_from_slice(b":\n");
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_back(text: &str) -> bool {
        let all: Vec<&[u8]> = text
            .as_bytes()
            .split(|byte| b" \n\\:".contains(byte))
            .collect();
        let names = (0..).map(NameId);
        let names: HashMap<&[u8], NameId> = all.iter().copied().zip(names).collect();
        let Some((ids, body)) = pack(text.as_bytes(), &names) else {
            return false;
        };
        let path_of = |id: &NameId| *names.iter().find(|(_, known)| *known == id).unwrap().0;
        let again = unpack(&body, ids.iter().map(path_of)).unwrap();
        assert_eq!(String::from_utf8(again).unwrap(), text);
        true
    }

    #[test]
    fn what_compilers_write_is_a_list() {
        assert!(comes_back("a.o: a.c\n"));
        assert!(comes_back("dir/a.o: a.c b.h\nb.h:\n"));
        let gcc = "conftest/src/of/some/depth.o: conftest/src/of/some/depth.c \\\n /usr/include/stdc-predef.h \
                   /usr/include/stdio.h \\\n /usr/include/x86_64-linux-gnu/bits/libc-header-start.h\n\
                   /usr/include/stdc-predef.h:\n/usr/include/stdio.h:\n\
                   /usr/include/x86_64-linux-gnu/bits/libc-header-start.h:\n";
        assert!(comes_back(gcc));
        let clang = "conftest/src/of/some/depth.o: conftest/src/of/some/depth.c \\\n  /usr/include/stdio.h \
                     /usr/include/x86_64-linux-gnu/bits/lib.h \\\n  /usr/include/x86_64-linux-gnu/bits/libc-header-start.h\n";
        assert!(comes_back(clang));
    }

    #[test]
    fn what_they_do_not_is_none() {
        for text in [
            "",
            "a.o",
            "a.o:",
            "a.o: a.c",
            "a.o: a.c b.h\n\n",
            "a.o: a.c\\ b.h\n",
            "a.o:  a.c\n",
            "a.o: a.c \\\n",
            ": \n:\n",
            "a.o: \\\n:\n",
        ] {
            assert!(!comes_back(text), "{text:?}");
        }
    }

    #[test]
    fn other_bodies_are_none() {
        assert_eq!(unpack(b"", [].into_iter()), None);
        assert_eq!(unpack(b"\x04a:", [].into_iter()), None);
    }
}
