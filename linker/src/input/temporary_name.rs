//! Names of files that compilers make for one command and take away at its end.
//!
//! gcc links what it has compiled from `/tmp/ccAb12Cd.o`, and tells each link the name of a file for the linker's plugin; clang calls
//! its objects `/tmp/name-1a2b3c.o`. Another name each time says nothing of the program: what is remembered of a link has
//! [`lasting`] names, so that it stays as it is if nothing else is new.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// As many letters as are made up for a name.
const LETTERS: usize = 6;

/// A path, or an option with one, in which the letters that are made up for a file in the directory `temporary` are `X`.
pub fn lasting<'w>(word: &'w [u8], temporary: &Path) -> Cow<'w, [u8]> {
    let directory = temporary.as_os_str().as_bytes();
    let at = memchr::memmem::find(word, directory).map(|at| at + directory.len());
    let Some((b'/', name)) = at.and_then(|at| word[at..].split_first()) else {
        return Cow::Borrowed(word);
    };
    match made_up(name) {
        None => Cow::Borrowed(word),
        Some(place) => {
            let mut lasting = word.to_vec();
            let start = word.len() - name.len() + place;
            lasting[start..start + LETTERS].fill(b'X');
            Cow::Owned(lasting)
        }
    }
}

/// Where in a file's name the letters begin that a compiler has made up.
fn made_up(name: &[u8]) -> Option<usize> {
    let end = name.iter().position(|byte| *byte == b'.')?;
    let is_file = !name.contains(&b'/');
    let start = end.checked_sub(LETTERS).filter(|_| is_file)?;
    let (before, letters) = name[..end].split_at(start);
    let of_gcc = before == b"cc" && letters.iter().all(u8::is_ascii_alphanumeric);
    let of_clang = before.len() > 1
        && before.ends_with(b"-")
        && letters
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (of_gcc || of_clang).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_compilers_make_up_is_left_out() {
        let lasting = |word| {
            let lasting = lasting(word, Path::new("/var/t"));
            String::from_utf8(lasting.into_owned()).unwrap()
        };
        for (word, expected) in [
            ("/var/t/ccAb12Cd.o", "/var/t/ccXXXXXX.o"),
            (
                "-plugin-opt=-fresolution=/var/t/cc000000.res",
                "-plugin-opt=-fresolution=/var/t/ccXXXXXX.res",
            ),
            ("/var/t/ccAb12Cd.ltrans0.o", "/var/t/ccXXXXXX.ltrans0.o"),
            ("/var/t/main-12ab9f.o", "/var/t/main-XXXXXX.o"),
        ] {
            assert_eq!(lasting(word.as_bytes()), expected);
        }
        for word in [
            "/var/t/d/ccAb12Cd.o",
            "/var/tccAb12Cd.o",
            "/home/ccAb12Cd.o",
            "/var/t/ccAb12C.o",
            "/var/t/ccAb-2Cd.o",
            "/var/t/main-12ab9g.o",
            "/var/t/-12ab9f.o",
            "/var/t/accAb12Cd.o",
            "/var/t",
            "",
        ] {
            assert_eq!(lasting(word.as_bytes()), word);
        }
    }
}
