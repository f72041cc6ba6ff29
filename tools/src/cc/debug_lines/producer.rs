//! Which compiler has made an object, as its debug information says: what follows from the numbers of lines is known of some only.

use super::Reason;
use memchr::memmem;
use std::ops::RangeInclusive;

/// A compiler whose rules are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Producer {
    Gcc,
    Clang,
}

/// How a string that names a compiler begins; whether a word goes on there, which is the language's (`C++17`); and the versions.
const NAMES: [(&[u8], bool, Producer, RangeInclusive<u32>); 2] = [
    (b"GNU C", true, Producer::Gcc, 11..=14),
    (b"clang version ", false, Producer::Clang, 14..=19),
];

const OTHER: Reason = "debug information of another compiler";

impl Producer {
    /// The one compiler that is named in these strings.
    pub fn of(strings: &[u8]) -> Result<Producer, Reason> {
        let mut found = None;
        for (name, has_word, producer, versions) in &NAMES {
            for at in memmem::find_iter(strings, name) {
                let text = &strings[at + name.len()..];
                let text = &text[..memchr::memchr(0, text).unwrap_or(text.len())];
                let start = match has_word {
                    true => memchr::memchr(b' ', text).map_or(text.len(), |blank| blank + 1),
                    false => 0,
                };
                let digits = text[start..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit());
                let digits = std::str::from_utf8(&text[start..start + digits.count()]);
                let version = digits.ok().and_then(|digits| digits.parse().ok());
                if !version.is_some_and(|version| versions.contains(&version))
                    || found.is_some_and(|other| other != *producer)
                {
                    return Err(OTHER);
                }
                found = Some(*producer);
            }
        }
        found.ok_or(OTHER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        for (text, expected) in [
            (
                &b"int\0GNU C17 12.2.0 -mtune=generic\0x\0"[..],
                Some(Producer::Gcc),
            ),
            (b"GNU C++17 14.1.0 -g\0", Some(Producer::Gcc)),
            (b"GNU C++14 9.4.0\0", None),
            (b"Debian clang version 19.1.7 (3)\0", Some(Producer::Clang)),
            (b"clang version 20.1.0\0", None),
            (b"rustc version 1.90\0", None),
            (b"", None),
        ] {
            assert_eq!(Producer::of(text).ok(), expected);
        }
    }
}
