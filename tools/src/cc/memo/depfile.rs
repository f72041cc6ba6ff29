//! Reading the dependency files that compilers write: the prerequisites of the first rule.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The prerequisites of the first rule, in order: the source, and what it includes. `None` if it is no such file.
///
/// As GCC (`mkdeps.cc`, `munge`) and clang (`DependencyFile.cpp`, `PrintFilename`) write it: a space is `\ ` (with the backslashes before
/// it doubled), `#` is `\#`, `$` is `$$`, and a backslash before the line's end goes on.
pub fn prerequisites(bytes: &[u8]) -> Option<Vec<OsString>> {
    let mut at = end_of_target(bytes)?;
    let mut words = Vec::new();
    let mut word: Vec<u8> = Vec::new();
    let mut finish = |word: &mut Vec<u8>| {
        if !word.is_empty() {
            words.push(OsString::from_vec(std::mem::take(word)));
        }
    };
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        at += 1;
        match byte {
            b'\n' => break,
            b' ' | b'\t' | b'\r' => finish(&mut word),
            b'$' if rest.get(1) == Some(&b'$') => {
                word.push(b'$');
                at += 1;
            }
            b'\\' => {
                let count = rest.iter().take_while(|byte| **byte == b'\\').count();
                match rest.get(count) {
                    Some(b'\n') if count == 1 => {
                        finish(&mut word);
                        at += 1;
                    }
                    // An odd number before a blank: half of them stand for themselves, and the last for the blank.
                    Some(&blank @ (b' ' | b'\t' | b'#')) if count % 2 == 1 => {
                        word.extend(std::iter::repeat_n(b'\\', count / 2));
                        word.push(blank);
                        at += count;
                    }
                    _ => {
                        word.extend(std::iter::repeat_n(b'\\', count));
                        at += count - 1;
                    }
                }
            }
            _ => word.push(byte),
        }
    }
    finish(&mut word);
    Some(words)
}

/// The same of a file that rustc has written, which escapes blanks, and nothing else.
pub fn prerequisites_of_rustc(bytes: &[u8]) -> Option<Vec<OsString>> {
    let line = &bytes[end_of_target(bytes)?..];
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = Vec::new();
    let mut word: Vec<u8> = Vec::new();
    for &byte in line {
        match byte {
            b' ' if word.last() == Some(&b'\\') => {
                word.pop();
                word.push(b' ');
            }
            b' ' => words.push(std::mem::take(&mut word)),
            _ => word.push(byte),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    Some(words.into_iter().map(OsString::from_vec).collect())
}

/// Where the colon behind the targets ends.
fn end_of_target(bytes: &[u8]) -> Option<usize> {
    for (at, &byte) in bytes.iter().enumerate() {
        let is_end = match bytes.get(at + 1) {
            None | Some(b' ' | b'\t' | b'\n' | b'\r') => true,
            Some(b'\\') => bytes.get(at + 2) == Some(&b'\n'),
            _ => false,
        };
        if byte == b':' && is_end && (at == 0 || bytes[at - 1] != b'\\') {
            return Some(at + 1);
        }
        // A rule without a colon is none.
        if byte == b'\n' && (at == 0 || bytes[at - 1] != b'\\') {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Vec<String>> {
        prerequisites(text.as_bytes()).map(|words| {
            let words = words.into_iter();
            words
                .map(|word| word.into_string().expect("UTF-8"))
                .collect()
        })
    }

    #[test]
    fn rules_are_read() {
        let is = |text: &str, expected: &[&str]| {
            assert_eq!(read(text).expect(text), expected, "{text}");
        };
        is("a.o: a.c\n", &["a.c"]);
        is(
            "a.o: a.c a.h \\\n /usr/include/stdio.h\n\na.h:\n",
            &["a.c", "a.h", "/usr/include/stdio.h"],
        );
        is(
            "a:b.o x\\ y.o: \\\n  d\\ e.c f\\#.h $$g.h h\\i.h",
            &["d e.c", "f#.h", "$g.h", "h\\i.h"],
        );
        is("t:\\\n a.c", &["a.c"]);
        is("a.o: x\\\\\\ y.h z", &["x\\ y.h", "z"]);
        is("a.o:", &[]);
        assert_eq!(read("nothing\n"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn rustc_escapes_blanks_only() {
        let list = b"/t/x\\ y.d: src/lib.rs a$$b c\\#d e\\ f g\\\\ h\n\nsrc/lib.rs:\n";
        let read = prerequisites_of_rustc(list).expect("a rule");
        assert_eq!(read, ["src/lib.rs", "a$$b", "c\\#d", "e f", "g\\ h"]);
        assert_eq!(prerequisites_of_rustc(b"x.d:\n"), Some(Vec::new()));
        assert_eq!(prerequisites_of_rustc(b""), None);
    }
}
