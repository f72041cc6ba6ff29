//! What may be put together by `##` in directives: only there some names have a meaning.
//!
//! From the words of the directives macros are followed to the words of their bodies. What a macro puts together may be another macro: any
//! whose name starts and ends as the row of operands does.

use super::rows::{Operand, rows};
use super::tokens::{Lexer, Token, words};
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
    let mut used: BTreeSet<&[u8]> = BTreeSet::new();
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
            let is_made = |name: &[u8]| found.iter().any(|row| may_be(&row.0, name, &used));
            new = (macros.keys().copied())
                .filter(|name| !reached.contains(name) && is_made(name))
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

/// Whether a row of operands may become this name: a parameter is nothing, or some of these words one behind the other.
fn may_be(row: &[Operand], name: &[u8], used: &BTreeSet<&[u8]>) -> bool {
    let part =
        |operand: Option<&Operand>| -> Vec<u8> { operand.cloned().flatten().unwrap_or_default() };
    if !name.starts_with(&part(row.first())) || !name.ends_with(&part(row.last())) {
        return false;
    }
    let size = name.len();
    let mut ends = vec![false; size + 1];
    ends[0] = true;
    for operand in row {
        let mut next = vec![false; size + 1];
        match operand {
            Some(word) => (0..=size)
                .filter(|from| ends[*from] && name[*from..].starts_with(word))
                .for_each(|from| next[from + word.len()] = true),
            None => {
                next = ends;
                for from in 0..size {
                    if next[from] {
                        (from + 1..=size)
                            .filter(|end| used.contains(&name[from..*end]))
                            .for_each(|end| next[end] = true);
                    }
                }
            }
        }
        ends = next;
    }
    ends[size]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(text: &str) -> usize {
        in_directives(std::iter::once(text.as_bytes())).rows.len()
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
