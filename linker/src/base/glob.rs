//! Shell patterns over bytes, as `fnmatch(3)` without flags matches them: `*`, `?`, `[a-z]`, `[!a-z]`, `[[:alpha:]]`,
//! `\` before a character that stands for itself. `*` and `?` match `/` too. That is what GNU ld uses for version
//! scripts, dynamic lists and section patterns.
//!
//! A pattern is compiled once. Common shapes (`*`, `prefix*`, `*suffix`, no wildcard) compare bytes; the others are run
//! with one point to come back to, the last `*`: time is at most pattern × name, never exponential.

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    All,
    Exact(Box<[u8]>),
    Prefix(Box<[u8]>),
    Suffix(Box<[u8]>),
    General(Box<[Token]>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    Any,
    Star,
    Set(Box<ByteSet>),
}

/// A set of bytes, as bits.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & 1 << (byte & 63) != 0
    }

    fn invert(&mut self) {
        self.0.iter_mut().for_each(|word| *word = !*word);
    }
}

/// Whether a text has any character that is special in a pattern. A backslash counts: it makes the pattern differ
/// from the text that it matches.
pub fn has_wildcard(text: &[u8]) -> bool {
    text.iter()
        .any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

impl Glob {
    /// Compiles a pattern. Every text is one: a `[` without `]` stands for itself.
    pub fn new(pattern: &[u8]) -> Glob {
        let mut tokens = Vec::new();
        let mut rest = pattern;
        while let Some((&byte, tail)) = rest.split_first() {
            rest = tail;
            let token = match byte {
                // Several stars are one.
                b'*' if tokens.last() == Some(&Token::Star) => continue,
                b'*' => Token::Star,
                b'?' => Token::Any,
                b'\\' => match rest.split_first() {
                    Some((&escaped, tail)) => {
                        rest = tail;
                        Token::Byte(escaped)
                    }
                    None => Token::Byte(b'\\'),
                },
                b'[' => match parse_set(rest) {
                    Some((set, tail)) => {
                        rest = tail;
                        Token::Set(Box::new(set))
                    }
                    None => Token::Byte(b'['),
                },
                byte => Token::Byte(byte),
            };
            tokens.push(token);
        }
        Glob {
            shape: Shape::of(tokens),
        }
    }

    /// Whether the pattern matches all of `name`.
    pub fn matches(&self, name: &[u8]) -> bool {
        match &self.shape {
            Shape::All => true,
            Shape::Exact(text) => **text == *name,
            Shape::Prefix(text) => name.starts_with(text),
            Shape::Suffix(text) => name.ends_with(text),
            Shape::General(tokens) => matches_tokens(tokens, name),
        }
    }

    /// The only name that the pattern matches, if it has no wildcard.
    pub fn as_exact(&self) -> Option<&[u8]> {
        match &self.shape {
            Shape::Exact(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is `*`, and matches everything.
    pub fn is_all(&self) -> bool {
        self.shape == Shape::All
    }
}

impl Shape {
    fn of(tokens: Vec<Token>) -> Shape {
        let bytes = |tokens: &[Token]| -> Option<Box<[u8]>> {
            tokens
                .iter()
                .map(|token| {
                    if let Token::Byte(byte) = token {
                        Some(*byte)
                    } else {
                        None
                    }
                })
                .collect()
        };
        let shape = match tokens.as_slice() {
            [Token::Star] => Some(Shape::All),
            [Token::Star, rest @ ..] => bytes(rest).map(Shape::Suffix),
            [rest @ .., Token::Star] => bytes(rest).map(Shape::Prefix),
            all => bytes(all).map(Shape::Exact),
        };
        shape.unwrap_or_else(|| Shape::General(tokens.into_boxed_slice()))
    }
}

fn matches_tokens(tokens: &[Token], name: &[u8]) -> bool {
    let (mut token, mut at) = (0, 0);
    // After the last star: where its rest begins, and how far the star has eaten.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match (tokens.get(token), name.get(at)) {
            (None, None) => return true,
            (Some(Token::Star), _) => {
                // Nothing is left to match after a final star.
                if token + 1 == tokens.len() {
                    return true;
                }
                retry = Some((token + 1, at));
                token += 1;
                continue;
            }
            (Some(Token::Byte(expected)), Some(byte)) => expected == byte,
            (Some(Token::Any), Some(_)) => true,
            (Some(Token::Set(set)), Some(byte)) => set.contains(*byte),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if step {
            (token, at) = (token + 1, at + 1);
            continue;
        }
        match &mut retry {
            Some((after_star, eaten)) if *eaten < name.len() => {
                *eaten += 1;
                (token, at) = (*after_star, *eaten);
            }
            _ => return false,
        }
    }
}

/// Parses what follows `[`; `None` if no `]` ends it.
fn parse_set(text: &[u8]) -> Option<(ByteSet, &[u8])> {
    let mut set = ByteSet::default();
    let (negated, mut rest) = match text {
        [b'!' | b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut first = true;
    loop {
        let (&byte, tail) = rest.split_first()?;
        rest = tail;
        // A `]` that comes first is a member.
        if byte == b']' && !first {
            break;
        }
        first = false;
        if byte == b'['
            && rest.first() == Some(&b':')
            && let Some(end) = rest
                .windows(2)
                .position(|pair| pair == b":]")
                .filter(|end| *end > 0)
        {
            let name = &rest[1..end];
            (0..=u8::MAX)
                .filter(|byte| in_class(name, *byte))
                .for_each(|byte| set.insert(byte));
            rest = &rest[end + 2..];
            continue;
        }
        let low = match byte {
            b'\\' => {
                let (&escaped, tail) = rest.split_first()?;
                rest = tail;
                escaped
            }
            byte => byte,
        };
        match rest {
            [b'-', high, tail @ ..] if *high != b']' => {
                let (high, tail) = match (*high, tail) {
                    (b'\\', [escaped, tail @ ..]) => (*escaped, tail),
                    (high, tail) => (high, tail),
                };
                rest = tail;
                (low..=high).for_each(|byte| set.insert(byte));
            }
            _ => set.insert(low),
        }
    }
    if negated {
        set.invert();
    }
    Some((set, rest))
}

/// POSIX's character classes, in the C locale.
fn in_class(name: &[u8], byte: u8) -> bool {
    match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => byte.is_ascii_whitespace() || byte == b'\x0b',
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Glob::new(pattern.as_bytes()).matches(name.as_bytes())
    }

    #[test]
    fn wildcards() {
        for (pattern, yes, no) in [
            ("foo", &["foo"][..], &["fo", "fooo", ""][..]),
            ("", &[""], &["x"]),
            ("*", &["", "x", "a/b"], &[]),
            ("foo*", &["foo", "foobar"], &["fo", "xfoo"]),
            ("*foo", &["foo", "xfoo"], &["foox"]),
            ("f?o", &["foo", "f/o"], &["fo", "fooo"]),
            ("*a*b*", &["ab", "xaxbx", "aab"], &["ba", "a"]),
            ("a*b?c", &["abxc", "abbbxc"], &["abc", "abxcd"]),
            ("**x**", &["x", "axb"], &["y", ""]),
            ("[abc]", &["a", "c"], &["d", "", "ab"]),
            ("[a-cx]z", &["bz", "xz"], &["dz", "-z"]),
            ("[!a-c]", &["d", "-"], &["a", ""]),
            ("[^a-c]", &["d"], &["b"]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[!]a]", &["b"], &["]", "a"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[[:digit:]_]", &["7", "_"], &["x", ":"]),
            ("[x", &["[x"], &["x"]),
            ("a\\*b", &["a*b"], &["axb", "a\\*b"]),
            ("[\\]]", &["]"], &["\\"]),
            ("a\\", &["a\\"], &["a"]),
        ] {
            for name in yes {
                assert!(matches(pattern, name), "{pattern} must match {name}");
            }
            for name in no {
                assert!(!matches(pattern, name), "{pattern} must not match {name}");
            }
        }
    }

    #[test]
    fn shapes() {
        assert!(Glob::new(b"**").is_all());
        assert_eq!(Glob::new(b"a\\*").as_exact(), Some(&b"a*"[..]));
        assert_eq!(Glob::new(b"a*").as_exact(), None);
        assert!(has_wildcard(b"a[") && has_wildcard(b"a\\b") && !has_wildcard(b"a.b::c()"));
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches(&pattern, &"a".repeat(20_000)));
    }

    /// The definition, as a recursion.
    fn reference(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => {
                (0..=name.len()).any(|eaten| reference(rest, &name[eaten..]))
            }
            (Some((b'?', rest)), Some((_, tail))) => reference(rest, tail),
            (Some((expected, rest)), Some((byte, tail))) => {
                expected == byte && reference(rest, tail)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab*?]{0,8}", name in "[ab]{0,10}") {
            prop_assert_eq!(matches(&pattern, &name), reference(pattern.as_bytes(), name.as_bytes()));
        }

        #[test]
        fn any_bytes_make_a_pattern(pattern in proptest::collection::vec(any::<u8>(), 0..40), name in proptest::collection::vec(any::<u8>(), 0..40)) {
            Glob::new(&pattern).matches(&name);
        }
    }
}
