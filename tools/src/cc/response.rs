//! Response files: `@FILE` on a compiler's command line.
//!
//! The compiler gets the command line as it was written; only the
//! classification looks into the files. The rules are those of GCC's manual
//! ("Overall Options", `@file`), which clang follows on ELF targets: words are
//! separated by white space, single and double quotes keep it, a backslash
//! makes the next character ordinary everywhere, files may name further files,
//! and `@FILE` for a file that cannot be read stands for itself.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A file may name a file that names it again: the drivers give up after this
/// many files, and so do we.
const MAX_FILES: usize = 2000;

/// A response file that cannot be looked into without disturbing the compiler.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable(pub OsString);

/// `args` with each readable `@FILE` replaced by the words in it.
///
/// Fails if a file is not a regular one (reading a pipe would take its words
/// away from the compiler) or if the files nest without end.
pub fn expand(args: &[OsString]) -> Result<Vec<OsString>, Unreadable> {
    let mut out = Vec::with_capacity(args.len());
    // A stack of words still to be looked at, the next one last.
    let mut todo: Vec<OsString> = args.iter().rev().cloned().collect();
    let mut files = 0;
    while let Some(word) = todo.pop() {
        let bytes = word.as_bytes();
        if bytes.first() != Some(&b'@') || bytes.len() == 1 {
            out.push(word);
            continue;
        }
        let path = Path::new(OsStr::from_bytes(&bytes[1..]));
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Err(Unreadable(word)),
            Err(_) => {
                out.push(word);
                continue;
            }
        }
        files += 1;
        if files > MAX_FILES {
            return Err(Unreadable(word));
        }
        match fs::read(path) {
            Ok(text) => todo.extend(split(&text).into_iter().rev()),
            Err(_) => out.push(word),
        }
    }
    Ok(out)
}

/// The words of a response file's text.
fn split(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote: Option<u8> = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                // A backslash at the very end stands for nothing.
                if let Some(next) = bytes.next() {
                    word.get_or_insert_default().push(next);
                }
            }
            _ if quote == Some(byte) => quote = None,
            b'\'' | b'"' if quote.is_none() => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c if quote.is_none() => {
                words.extend(word.take().map(OsString::from_vec));
            }
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(OsString::from_vec));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn words_and_quotes() {
        let words = |text: &str| -> Vec<String> {
            split(text.as_bytes())
                .into_iter()
                .map(|word| word.into_string().expect("UTF-8"))
                .collect()
        };
        assert_eq!(words(""), [""; 0]);
        assert_eq!(words(" \n\t "), [""; 0]);
        assert_eq!(words("-c a.c\n-o  a.o"), ["-c", "a.c", "-o", "a.o"]);
        assert_eq!(words(r#"-DX="a b" 'c d'e"#), ["-DX=a b", "c de"]);
        assert_eq!(
            words(r#"-DX=\"a\ b\" 'it\'s'"#),
            [r#"-DX="a"#.to_owned() + r#" b""#, "it's".into()]
        );
        assert_eq!(words(r#"'' "" a"#), ["", "", "a"]);
        assert_eq!(words(r#""a'b" 'c"d'"#), ["a'b", "c\"d"]);
        assert_eq!(words("a\\"), ["a"]);
        assert_eq!(words("a\\\nb"), ["a\nb"]);
    }

    #[test]
    fn files_nest_and_missing_files_stand_for_themselves() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let inner = dir.path().join("inner");
        let outer = dir.path().join("outer");
        fs::write(&inner, "b c").expect("inner");
        let mut file = fs::File::create(&outer).expect("outer");
        write!(file, "a @{} d", inner.display()).expect("outer");
        let mut at = OsString::from("@");
        at.push(&outer);
        let args = [
            OsString::from("x"),
            at,
            "@/no/such/file".into(),
            "@".into(),
            "y".into(),
        ];
        let expanded = expand(&args).expect("readable");
        assert_eq!(
            expanded,
            ["x", "a", "b", "c", "d", "@/no/such/file", "@", "y"]
        );
    }

    #[test]
    fn endless_nesting_and_pipes_are_refused() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let own = dir.path().join("loop");
        fs::write(&own, format!("@{}", own.display())).expect("file");
        let mut at = OsString::from("@");
        at.push(&own);
        assert!(expand(&[at]).is_err());
        assert!(expand(&["@/dev/null".into()]).is_err());
    }
}
