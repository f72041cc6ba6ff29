//! What may be put together by `##` in directives: only there some names have a meaning.
//!
//! From the words of the directives macros are followed to the words of their bodies. What a macro puts together may be another macro: any
//! whose name starts and ends as the row of operands does.

use super::rows::{Operand, rows};
use super::tokens::{Lexer, Token, words};
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};

/// A macro, by all of its definitions.
#[derive(Default)]
struct Macro<'t> {
    words: BTreeSet<&'t [u8]>,
    /// Rows, and whether they name types.
    rows: BTreeSet<(Vec<Operand>, bool)>,
}

/// What is in directives, macros replaced.
#[derive(Debug, Default)]
pub struct Directives {
    /// The words.
    pub words: BTreeSet<Vec<u8>>,
    /// The rows of operands that are put together.
    pub rows: BTreeSet<Vec<Operand>>,
}

/// What there may be in the directives of these texts.
pub fn in_directives<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Directives {
    let mut macros: BTreeMap<&[u8], Macro<'_>> = BTreeMap::new();
    let mut used: FxHashSet<&[u8]> = FxHashSet::default();
    let mut line = Vec::new();
    for text in texts {
        let mut lexer = Lexer::new(text);
        while lexer.line(&mut line) {
            match line.as_slice() {
                [
                    Token::Other(b'#'),
                    Token::Word(b"define"),
                    Token::Word(name),
                    body @ ..,
                ] => {
                    let it = macros.entry(name).or_default();
                    it.words.extend(words(body));
                    if body.contains(&Token::Paste) {
                        let rows = rows(&line[2..]).into_iter();
                        it.rows.extend(rows.map(|row| (row.operands, row.is_type)));
                    }
                }
                [Token::Other(b'#'), Token::Word(b"undef"), ..] => {}
                // What is included by its name is not replaced.
                [
                    Token::Other(b'#'),
                    Token::Word(b"include" | b"include_next" | b"import"),
                    Token::Literal(..) | Token::Other(b'<'),
                    ..,
                ] => {}
                [Token::Other(b'#'), Token::Word(_), rest @ ..] => used.extend(words(rest)),
                // (A directive may stand behind what is read as another token; so all that has a sign of one counts.)
                all if all.contains(&Token::Other(b'#')) => used.extend(words(all)),
                _ => {}
            }
        }
    }
    let mut reached: BTreeSet<&[u8]> = BTreeSet::new();
    let mut found: BTreeSet<&(Vec<Operand>, bool)> = BTreeSet::new();
    loop {
        // By name, and then by what names may be put together of what is there.
        let mut new: Vec<&[u8]> = (used.iter().copied())
            .filter(|word| macros.contains_key(word) && !reached.contains(word))
            .collect();
        if new.is_empty() {
            // Many macros put the same together, with other parameters.
            let shapes: BTreeSet<Vec<&Operand>> = found.iter().map(|(row, _)| shape(row)).collect();
            new = (macros.keys().copied())
                .filter(|name| !reached.contains(name) && Name::new(name, &used).is_made(&shapes))
                .collect();
        }
        if new.is_empty() {
            break;
        }
        for name in new {
            reached.insert(name);
            if let Some(it) = macros.get(name) {
                used.extend(&it.words);
                found.extend(&it.rows);
            }
        }
    }
    let made = found.into_iter().filter(|(_, is_type)| !is_type);
    Directives {
        words: used.into_iter().map(<[u8]>::to_vec).collect(),
        rows: made.map(|(row, _)| row.clone()).collect(),
    }
}

/// A row without the parameters that follow another one: both are nothing, or some words, as one is.
fn shape(row: &[Operand]) -> Vec<&Operand> {
    let mut shape: Vec<&Operand> = row.iter().collect();
    shape.dedup_by(|one, before| one.is_none() && before.is_none());
    shape
}

/// A name of which it is asked whether rows of operands may become it.
struct Name<'n> {
    name: &'n [u8],
    /// The words that there are.
    used: &'n FxHashSet<&'n [u8]>,
    /// By where they start: the places at which words of the name end, once they were asked for.
    ends: [Option<u128>; MOST],
}

/// Longer names than this may be anything.
const MOST: usize = 127;

impl<'n> Name<'n> {
    fn new(name: &'n [u8], used: &'n FxHashSet<&'n [u8]>) -> Name<'n> {
        Name {
            name,
            used,
            ends: [None; MOST],
        }
    }

    fn is_made(&mut self, shapes: &BTreeSet<Vec<&Operand>>) -> bool {
        self.name.len() > MOST || shapes.iter().any(|shape| self.is_made_by(shape))
    }

    /// Whether this row may become the name: a parameter is nothing, or some of the words one behind the other.
    fn is_made_by(&mut self, shape: &[&Operand]) -> bool {
        let name = self.name;
        let fits = |operand: Option<&&Operand>, is_part: fn(&[u8], &[u8]) -> bool| match operand {
            Some(Some(word)) => is_part(name, word),
            _ => true,
        };
        if !fits(shape.first(), |name, word| name.starts_with(word))
            || !fits(shape.last(), |name, word| name.ends_with(word))
        {
            return false;
        }
        // Bit *i*: what stands so far may be the first *i* letters.
        let mut places = 1u128;
        for operand in shape {
            let mut next = 0;
            let mut from = 0;
            while let Some(rest) = places.checked_shr(from).filter(|rest| *rest != 0) {
                from += rest.trailing_zeros();
                let at = from as usize;
                match operand {
                    Some(word) if name[at..].starts_with(word) => next |= 1 << (at + word.len()),
                    Some(_) => {}
                    None => {
                        next |= 1 << at;
                        // One more word may follow there.
                        places |= self.ends_of_words(at);
                    }
                }
                from += 1;
            }
            places = next;
            if places == 0 {
                return false;
            }
        }
        places >> name.len() & 1 != 0
    }

    /// The places at which words end that begin at this one.
    fn ends_of_words(&mut self, from: usize) -> u128 {
        let (name, used) = (self.name, self.used);
        let Some(ends) = self.ends.get_mut(from) else {
            return 0;
        };
        *ends.get_or_insert_with(|| {
            (from + 1..=name.len())
                .filter(|end| used.contains(&name[from..*end]))
                .fold(0, |ends, end| ends | 1 << end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows_of(text: &str) -> usize {
        in_directives(std::iter::once(text.as_bytes())).rows.len()
    }

    /// As it is said, letter by letter.
    fn may_be(row: &[Operand], name: &[u8], used: &FxHashSet<&[u8]>) -> bool {
        let Some((first, rest)) = row.split_first() else {
            return name.is_empty();
        };
        match first {
            Some(word) => {
                let behind = name.strip_prefix(&word[..]);
                behind.is_some_and(|behind| may_be(rest, behind, used))
            }
            None => {
                let mut ends = 1..=name.len();
                may_be(rest, name, used)
                    || ends
                        .any(|end| used.contains(&name[..end]) && may_be(row, &name[end..], used))
            }
        }
    }

    proptest! {
        #[test]
        fn rows_become_names(
            row in prop::collection::vec(prop::option::of("[ab]{1,3}"), 1..5),
            name in "[ab]{0,9}",
            used in prop::collection::vec("[ab]{1,4}", 0..5),
        ) {
            let row: Vec<Operand> = row.into_iter().map(|word| word.map(String::into_bytes)).collect();
            let used: FxHashSet<&[u8]> = used.iter().map(|word| word.as_bytes()).collect();
            let made = Name::new(name.as_bytes(), &used).is_made(&BTreeSet::from([shape(&row)]));
            prop_assert_eq!(made, may_be(&row, name.as_bytes(), &used));
        }
    }

    #[test]
    fn long_names() {
        let used: FxHashSet<&[u8]> = FxHashSet::from_iter([&b"a"[..]]);
        let row: Vec<Operand> = vec![Some(b"a".to_vec()), None];
        for (size, last, expected) in [(127, 'a', true), (127, 'b', false), (128, 'b', true)] {
            let name = format!("{}{last}", "a".repeat(size - 1));
            let made = Name::new(name.as_bytes(), &used).is_made(&BTreeSet::from([shape(&row)]));
            assert_eq!(made, expected, "{size} {last}");
        }
    }

    #[test]
    fn what_is_reached() {
        for text in [
            "#define C(a, b) a##b\n#if C(x, y)\n",
            "#define C(a, b) a##b\n#define D C\n#define E(x) D(x)\n#if 0\n#elif E(1)\n",
            "#define C(a, b) a##b\n#include C(x, y)\n",
            "#define C(a, b) a##b\n#pragma pack(C(x, y))\n",
        ] {
            assert_eq!(rows_of(text), 1, "{text}");
        }
        // A macro whose name is put together.
        let macros =
            "#define C(a, b) a##b\n#define N(a) X##a\n#define M(a) N(a)\n#define XYZ X##Z\n";
        assert_eq!(rows_of(&format!("{macros}#if M(YZ)\n")), 2);
        assert_eq!(rows_of(&format!("{macros}#if M(Y)\n#elif M(Z)\n")), 2);
        assert_eq!(rows_of(&format!("{macros}#if M(A)\nint YZ;\n")), 1);
        for text in [
            "#define C(a, b) a##b\nint C(x, y);\n#if X\n",
            "#define C(a, b) a##b\n#include <C>\n#define D C(x, y)\n",
        ] {
            assert_eq!(rows_of(text), 0, "{text}");
        }
    }
}
