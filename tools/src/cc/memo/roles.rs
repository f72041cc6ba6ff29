//! In which roles the body of a function uses words, as far as its signs tell: whether two bodies may ask different things of a class.
//!
//! Where a member of a class, a copy, its size or the like is asked for, C++ compilers must have the class whole, and describe it so in debug information; where it is only
//! pointed to, they need not. What a body asks shows in what stands right before and behind its words: `p->x` is something else than `p == x`, and `T v` than
//! `(T *)v`. So two bodies count as alike if they use the same words with the same signs around them. In which order, how often, and by which operators things are
//! counted with or compared is all one; and so are numbers without a type of their own, and the words that only say what is done when.
//!
//! It errs to one side: `a < b` may begin the arguments of a template, so it is no comparison. A multiplication is told from what points where no declaration can
//! stand.

use super::functions::Item;
use super::shared;
use super::tokens::Token;
use std::collections::BTreeSet;

/// Words that only say what is done when.
const OF_FLOW: [&[u8]; 12] = [
    b"break",
    b"case",
    b"continue",
    b"default",
    b"do",
    b"else",
    b"for",
    b"goto",
    b"if",
    b"return",
    b"switch",
    b"while",
];

/// No role but that of a value.
const VALUE: u8 = b' ';

/// A word or literal, and the signs around it.
struct Word<'t> {
    text: &'t [u8],
    before: Vec<u8>,
    behind: Vec<u8>,
}

impl Word<'_> {
    fn is_of_flow(&self) -> bool {
        OF_FLOW.contains(&self.text)
    }

    /// Whether it is a number that has no type of its own.
    fn is_plain_number(&self) -> bool {
        // (Of one with a fraction, each part is a word.)
        let has_fraction = self.before.ends_with(b".") || self.behind.starts_with(b".");
        !has_fraction && self.text.iter().all(u8::is_ascii_digit)
    }

    /// Whether no declaration can begin with it, by what stands before.
    fn is_operand(&self, previous: Option<&Word<'_>>) -> bool {
        match self.before[..] {
            [] => previous.is_some_and(|word| word.text == b"return"),
            [.., b'-', b'>'] => false,
            [.., sign] => b"=+-/%!?|^>".contains(&sign),
        }
    }
}

/// Hash of the roles. `inside`: the text, which begins at `start` and has these items.
pub fn of(inside: &[u8], items: &[Item<'_>], start: usize) -> u64 {
    let words = words(inside, items, start);
    let mut all = BTreeSet::new();
    let mut is_multiplied = false;
    for (number, word) in words.iter().enumerate() {
        let previous = number.checked_sub(1).map(|at| &words[at]);
        let was_multiplied = is_multiplied || previous.is_some_and(Word::is_plain_number);
        let next_is_number = words.get(number + 1).is_some_and(Word::is_plain_number);
        is_multiplied = word.behind == b"*"
            && (word.is_operand(previous)
                || next_is_number
                || was_multiplied && word.before == b"*");
        if word.is_of_flow() || word.is_plain_number() {
            continue;
        }
        let begins = word.before.is_empty() && previous.is_none_or(Word::is_of_flow);
        let before = match begins || was_multiplied && word.before == b"*" {
            true => VALUE,
            false => role_before(&word.before),
        };
        let behind = match is_multiplied {
            true => VALUE,
            false => role_behind(&word.behind),
        };
        all.insert(shared::hash(&[&[before, behind], word.text].concat()));
    }
    let bytes: Vec<u8> = all.into_iter().flat_map(u64::to_le_bytes).collect();
    shared::hash(&bytes)
}

fn words<'t>(inside: &'t [u8], items: &[Item<'_>], start: usize) -> Vec<Word<'t>> {
    let range = |item: &Item<'_>| {
        let size = match item {
            Item::Token(Token::Word(word), _) => word.len(),
            // (With its quotes.)
            Item::Token(Token::Literal(text, _), _) => text.len() + 2,
            _ => return None,
        };
        let begin = item.place().checked_sub(start)?;
        Some(begin..(begin + size).min(inside.len()))
    };
    let ranges: Vec<_> = items.iter().filter_map(range).collect();
    let signs = |begin: usize, end: usize| -> Vec<u8> {
        let bytes = inside.get(begin..end).unwrap_or_default().iter().copied();
        bytes.filter(|byte| !byte.is_ascii_whitespace()).collect()
    };
    let words = ranges.iter().enumerate().map(|(number, range)| {
        let end = number.checked_sub(1).map_or(0, |at| ranges[at].end);
        let next = ranges.get(number + 1);
        Word {
            text: inside.get(range.clone()).unwrap_or_default(),
            before: signs(end, range.start),
            behind: signs(range.end, next.map_or(inside.len(), |next| next.start)),
        }
    });
    words.collect()
}

/// What the signs before a word make of it.
fn role_before(signs: &[u8]) -> u8 {
    match signs {
        [.., b'-', b'>'] | [.., b'.'] => b'.',
        [.., b':', b':'] => b':',
        [.., b'&', b'&'] => VALUE,
        [.., sign @ (b'*' | b'&' | b'~' | b'<' | b'[' | b')')] => *sign,
        // It stands behind another word.
        [] => b'w',
        _ => VALUE,
    }
}

/// What the signs behind a word make of it.
fn role_behind(signs: &[u8]) -> u8 {
    match signs {
        [b'-', b'>', ..] | [b'.', ..] => b'.',
        [b':', b':', ..] => b':',
        [b'&', b'&', ..] | [b'<', b'=' | b'<', ..] => VALUE,
        [sign @ (b'*' | b'&' | b'<' | b'(' | b'[' | b'{'), ..] => *sign,
        // Another word stands behind it.
        [] => b'w',
        _ => VALUE,
    }
}

#[cfg(test)]
mod tests {
    use super::super::functions;
    use super::*;

    fn roles(body: &str) -> u64 {
        of(body.as_bytes(), &functions::items(body.as_bytes()), 0)
    }

    #[test]
    fn words_in_other_roles() {
        let is_told = |before: &str, now: &str| roles(before) == roles(now);
        for (before, now) in [
            ("return a;", "return a + 7;"),
            ("return a >= b;", "if (a > b) { return b; }\n return a;"),
            ("return p->x * a;", "return p->x * a * 2;"),
            ("return b * a;", "if (b * 3 > 7) return 1; return b * a;"),
            ("p->x = a; return b;", "if (b) { p->x = a; }\n return 0;"),
        ] {
            assert!(is_told(before, now), "{before} {now}");
        }
        for (before, now) in [
            ("return p != 0 && a;", "return p->a;"),
            ("return p->x;", "return (*p).x;"),
            ("return p->a;", "return p->a + a;"),
            ("return a + b;", "return a(b);"),
            ("s *q = p; return a;", "s q = *p; return a;"),
            ("return a;", "return a + 1.0;"),
            ("return a;", "return a + sizeof(*p);"),
        ] {
            assert!(!is_told(before, now), "{before} {now}");
        }
    }
}
