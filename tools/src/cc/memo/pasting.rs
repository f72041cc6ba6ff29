//! What macros may put together by `##`: a `__DATE__` that stands in no text as a whole.
//!
//! Nothing is expanded. The texts of a compile are read for two things: the words that could be part of such a name, outside of comments and
//! literals, and the rows of operands around `##` in definitions of macros. A parameter may stand for any of these words, and for what another macro makes
//! of them; so all that can be made is found by trying the rows on the parts of the names until nothing new comes. That is too much
//! rather than too little.

use super::assembly::{self, Assembly};
use super::reach;
use super::rows::{Operand, rows};
use super::tokens::{Lexer, Token};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// In which sources something must not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    All,
    /// In assembly that only we look through.
    Alone,
    /// In C whose assembly only we look through.
    Written,
}

/// `__DATE__` and its like: the preprocessor can be asked whether they are there.
pub const DATE: &str = "__DATE__ or __TIME__, perhaps put together by ##";
/// The same for what assembly is made of.
pub const ASSEMBLY: &str = "assembly, perhaps put together by ##";
/// It matters if there is something for it to read.
pub const KEYWORD: &str = "a keyword for assembly, perhaps put together by ##";
/// Only in directives this is more than an error.
const QUESTION: &str = "__has_include, perhaps put together by ##";

/// What must not be made, as it would not be seen; and what to say then.
const NOT_TO_BE_MADE: [(&[u8], &str, Where); 11] = {
    use Where::*;
    [
        (b"__has_include", QUESTION, All),
        (b"__has_include_next", QUESTION, All),
        (b"__has_embed", QUESTION, All),
        (b"incbin", ASSEMBLY, Alone),
        (b"include", ASSEMBLY, Alone),
        (b"asm", KEYWORD, Written),
        (b"__asm", KEYWORD, Written),
        (b"__asm__", KEYWORD, Written),
        (b"__DATE__", DATE, All),
        (b"__TIME__", DATE, All),
        (b"__TIMESTAMP__", DATE, All),
    ]
};

/// Something that must not be made.
#[derive(Clone, Debug)]
struct Secret {
    name: Vec<u8>,
    reason: &'static str,
    place: Where,
}

/// What may be put together of a text, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    words: BTreeSet<Vec<u8>>,
    /// Those that are so short that they are everywhere, and never an argument.
    plain: BTreeSet<Vec<u8>>,
    /// Those of directives, and of what macros stand for: nothing else is in a directive.
    of_directives: BTreeSet<Vec<u8>>,
    rows: BTreeSet<Vec<Operand>>,
}

/// What was found in the texts of a compile.
#[derive(Debug)]
pub struct Pastes {
    secrets: Vec<Secret>,
    found: Parts,
    /// How many parentheses are open at the start of a line.
    depth: usize,
    /// All parts of the secrets' names: each word of each text is looked for.
    parts: FxHashSet<Vec<u8>>,
    /// By their first bytes: the last bytes that such parts have, a bit for each of 64 (several bytes share one). Most words are
    /// none by these two.
    ends: [u64; 256],
}

impl Default for Pastes {
    fn default() -> Pastes {
        Pastes::new(&BTreeSet::new())
    }
}

impl Pastes {
    /// Of no text yet. `questions`: other names of `__has_include`.
    pub fn new(questions: &BTreeSet<Vec<u8>>) -> Pastes {
        let known = NOT_TO_BE_MADE.map(|(name, reason, place)| Secret {
            name: name.to_vec(),
            reason,
            place,
        });
        let questions = questions.iter().map(|name| Secret {
            name: name.clone(),
            reason: QUESTION,
            place: Where::All,
        });
        let secrets: Vec<Secret> = questions.chain(known).collect();
        let mut parts = FxHashSet::default();
        for Secret { name, .. } in &secrets {
            for size in 1..name.len() {
                parts.extend(name.windows(size).map(<[u8]>::to_vec));
            }
        }
        let mut ends = [0; 256];
        for part in &parts {
            if let ([first, ..], [.., last]) = (&part[..], &part[..]) {
                ends[usize::from(*first)] |= 1 << (last % 64);
            }
        }
        Pastes {
            secrets,
            parts,
            ends,
            found: Parts::default(),
            depth: 0,
        }
    }

    fn is_part_of_name(&self, word: &[u8]) -> bool {
        let ([first, ..], [.., last]) = (word, word) else {
            return false;
        };
        self.ends[usize::from(*first)] >> (last % 64) & 1 != 0 && self.parts.contains(word)
    }

    /// What is found in a text; `each` is given its lines, too, as reading them takes most of the time.
    pub fn parts<'t>(&mut self, text: &'t [u8], each: impl FnMut(&[Token<'t>])) -> Parts {
        let others = std::mem::take(&mut self.found);
        self.read(text, each);
        std::mem::replace(&mut self.found, others)
    }

    /// Adds what was found in a text by others of no [questions](Pastes::new), or of the same.
    pub fn add(&mut self, parts: Parts) {
        self.found.words.extend(parts.words);
        self.found.plain.extend(parts.plain);
        self.found.of_directives.extend(parts.of_directives);
        self.found.rows.extend(parts.rows);
    }

    /// Reads a text, as [`Pastes::parts`] does.
    pub fn read<'t>(&mut self, text: &'t [u8], mut each: impl FnMut(&[Token<'t>])) {
        self.depth = 0;
        let mut lexer = Lexer::new(text);
        let mut line = Vec::new();
        while lexer.line(&mut line) {
            each(&line);
            self.read_line(&line, text);
            for token in &line {
                match token {
                    // A literal may be that of a `_Pragma`, in which macros are replaced.
                    Token::Literal(inside, _) if inside.contains(&b'(') => {
                        self.read_literal(inside)
                    }
                    _ => {}
                }
            }
        }
    }

    /// Whether a word that has a parenthesis behind it cannot be put together with another one: not with what follows, and no secret has it at its end.
    fn is_called(&self, word: &[u8], behind: Option<Token<'_>>) -> bool {
        let is_end = |it: &Secret| it.name.len() > word.len() && it.name.ends_with(word);
        behind == Some(Token::Other(b'(')) && !self.secrets.iter().any(is_end)
    }

    fn read_literal(&mut self, inside: &[u8]) {
        let is_plain = |byte: &u8| !matches!(byte, b'\\' | b'"' | b'\'');
        let text: Vec<u8> = inside.iter().copied().filter(is_plain).collect();
        // Its parentheses are its own.
        let depth = std::mem::take(&mut self.depth);
        let mut lexer = Lexer::new(&text);
        let mut line = Vec::new();
        while lexer.line(&mut line) {
            self.read_line(&line, &text);
        }
        self.depth = depth;
    }

    fn read_line(&mut self, line: &[Token<'_>], text: &[u8]) {
        let directive = match line {
            [Token::Other(b'#'), Token::Word(name), ..] => *name,
            _ => b"",
        };
        if matches!(directive, b"include" | b"include_next" | b"import") {
            return;
        }
        if directive == b"define" && line.contains(&Token::Paste) {
            self.read_definition(&line[2..]);
        }
        let parameters = match directive {
            b"define" => parameters(&line[2..], text),
            _ => &[],
        };
        let is_parenthesis = |token: &Token<'_>| matches!(token, Token::Other(b'(' | b')'));
        let may_be_arguments = self.depth > 0 || line.iter().any(is_parenthesis);
        // (A directive may stand behind what is read as another token.)
        let has_directive = line.contains(&Token::Other(b'#'));
        for (at, token) in line.iter().enumerate() {
            let Token::Word(word) = token else {
                if directive.is_empty() {
                    match token {
                        Token::Other(b'(') => self.depth += 1,
                        Token::Other(b')') => self.depth = self.depth.saturating_sub(1),
                        _ => {}
                    }
                }
                continue;
            };
            // (A parameter is what stands for it, and never itself.)
            if !self.is_part_of_name(word) || parameters.contains(token) {
                continue;
            }
            let before = at.checked_sub(1).map(|before| line[before]);
            let behind = line.get(at + 1).copied();
            if before == Some(Token::Paste) || behind == Some(Token::Paste) {
                continue;
            }
            if has_directive
                && !is_only_asked_for(line, at)
                && !self.is_called(word, behind)
                && !self.found.of_directives.contains(*word)
            {
                self.found.of_directives.insert(word.to_vec());
            }
            // So short that it is everywhere: only as an argument, or as what stands at an end of one, or what a macro stands for.
            let is_plain = word.len() < 3 || word.iter().all(|byte| *byte == b'_');
            let is_at_end = matches!(before, None | Some(Token::Other(b'(' | b',')))
                || matches!(behind, None | Some(Token::Other(b')' | b',')));
            if is_plain && directive.is_empty() && !(may_be_arguments && is_at_end) {
                continue;
            }
            let is_argument = matches!(before, Some(Token::Other(b'(' | b',')))
                && matches!(behind, Some(Token::Other(b')' | b',')));
            let words = match is_plain && !is_argument {
                true => &mut self.found.plain,
                false => &mut self.found.words,
            };
            if !words.contains(*word) {
                words.insert(word.to_vec());
            }
        }
    }

    /// Reads the definition of a macro, from its name on.
    fn read_definition(&mut self, line: &[Token<'_>]) {
        for row in rows(line) {
            let can_fit = |operand: &Operand| {
                (operand.as_ref()).is_none_or(|word| self.is_part_of_name(word))
            };
            if row.operands.iter().all(can_fit) && !row.is_type {
                self.found.rows.insert(row.operands);
            }
        }
    }

    /// Why something that must not be made may be; `None` if it cannot. `texts` are all that was read. `is_dateless`: no date is made,
    /// as is known.
    pub fn reason<'t>(
        &self,
        assembly: Assembly,
        is_dateless: bool,
        texts: impl Iterator<Item = &'t [u8]> + Clone,
    ) -> Option<&'static str> {
        let matters = |place: Where| match place {
            Where::All => true,
            Where::Alone => assembly == Assembly::Alone,
            Where::Written => assembly == Assembly::Written,
        };
        let literals = texts.clone();
        let mut has_reading = None;
        let Parts {
            words,
            plain,
            of_directives,
            rows,
        } = &self.found;
        let all = words.union(plain).cloned().collect();
        let mut texts = Some(texts);
        let mut in_directives = None;
        let can_be = |it: &&Secret| {
            if !matters(it.place) || (is_dateless && it.reason == DATE) {
                return false;
            }
            // A macro may stand for a plain word. What is only for assembly has nobody to be asked afterwards.
            let words = match it.reason {
                ASSEMBLY => words,
                _ => &all,
            };
            if !can_make(&it.name, words, rows) {
                return false;
            }
            if it.reason == KEYWORD {
                let look = || literals.clone().any(assembly::has_reading_literals);
                return *has_reading.get_or_insert_with(look);
            }
            if it.reason != QUESTION {
                return true;
            }
            // Elsewhere it is an error.
            if !can_make(&it.name, of_directives, rows) {
                return false;
            }
            if let Some(texts) = texts.take() {
                in_directives = Some(reach::in_directives(texts));
            }
            (in_directives.as_ref())
                .is_none_or(|it_is| can_make(&it.name, &it_is.words, &it_is.rows))
        };
        self.secrets.iter().find(can_be).map(|it| it.reason)
    }
}

/// The parameters, with commas, of a macro whose definition has these tokens from its name on, and is in this text; none where it may have none.
fn parameters<'l, 't>(line: &'l [Token<'t>], text: &[u8]) -> &'l [Token<'t>] {
    let [Token::Word(name), Token::Other(b'('), rest @ ..] = line else {
        return &[];
    };
    // With a blank before it, the parenthesis is what the macro stands for.
    let end = (name.as_ptr() as usize).checked_sub(text.as_ptr() as usize);
    let next = end.and_then(|start| text.get(start + name.len()));
    let close = rest.iter().position(|token| *token == Token::Other(b')'));
    match (next, close) {
        (Some(b'('), Some(close)) => &rest[..close],
        _ => &[],
    }
}

/// Whether of a word of a directive it is only asked whether it is a macro, or said that it is one: it is not replaced there.
fn is_only_asked_for(line: &[Token<'_>], at: usize) -> bool {
    const DEFINED: Token<'_> = Token::Word(b"defined");
    match (&line[..at], at) {
        (
            [
                Token::Other(b'#'),
                Token::Word(b"define" | b"undef" | b"ifdef" | b"ifndef"),
            ],
            2,
        ) => true,
        ([.., before], _) if *before == DEFINED => true,
        ([.., before, Token::Other(b'(')], _) => *before == DEFINED,
        _ => false,
    }
}

/// Whether a name can be made of these words by these rows.
fn can_make(name: &[u8], words: &BTreeSet<Vec<u8>>, rows: &BTreeSet<Vec<Operand>>) -> bool {
    // By start and end: whether this part of the name can be made.
    let size = name.len();
    let mut made = vec![vec![false; size + 1]; size + 1];
    for start in 0..size {
        for end in start + 1..=size {
            // (What stands there as a whole is seen elsewhere.)
            let is_whole = end - start == size;
            made[start][end] = !is_whole && words.contains(&name[start..end]);
        }
    }
    loop {
        let mut is_new = false;
        for row in rows {
            for start in 0..size {
                // Where the operands so far may end.
                let mut ends = vec![false; size + 1];
                ends[start] = true;
                for operand in row {
                    let mut next = vec![false; size + 1];
                    for from in (start..=size).filter(|from| ends[*from]) {
                        match operand {
                            Some(word) if name[from..].starts_with(word) => {
                                next[from + word.len()] = true;
                            }
                            Some(_) => {}
                            None => {
                                next[from] = true;
                                (from + 1..=size)
                                    .filter(|end| made[from][*end])
                                    .for_each(|end| next[end] = true);
                            }
                        }
                    }
                    ends = next;
                }
                for end in (start + 1..=size).filter(|end| ends[*end]) {
                    is_new |= !made[start][end];
                    made[start][end] = true;
                }
            }
        }
        if made[0][size] {
            return true;
        }
        if !is_new {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> Option<&'static str> {
        let mut pastes = Pastes::default();
        pastes.read(text.as_bytes(), |_| {});
        pastes.reason(Assembly::Written, false, std::iter::once(text.as_bytes()))
    }

    #[test]
    fn what_can_be_put_together() {
        for text in [
            "#define CAT(a, b) a##b\nchar *d = CAT(__DA, TE__);",
            "#define CAT(a, b) a##b\nchar *d = CAT(CAT(__, DATE), __);",
            "#define M(x) __##x##__\nchar *d = M(DATE);",
            "#define M(x) \\\n __ ## x %:%: /* y */ __\nchar *d = M(TIME);",
            "%:define M(x) __##x\n#define N(x) x##__\nchar *d = M(N(TIME));",
            "#define CAT(a, b) a##b\nchar *d = CAT(_, _TIMESTAMP__);",
            "#define D __TI ## ME__\nchar *d = D;",
            "#define CAT(a, b) a##b\n#define C(a, b) CAT(a, b)\n#define U __\nchar *d = C(C(U, DATE), U);",
            "#define HAS(x) __has_##x\n#if HAS(include)(<a.h>)\n#endif",
            "#define A(x, y) B##x(y)\n#define BC(x) __has_##x\n#if A(C, include)(<a.h>)\n#endif",
            "#define H G(__has_, include)\n#define G(x, y) x##y\n#define I H\n#if X\n#elif I(<a.h>)\n#endif",
            "#define C(x, y) x##y\n#define H(x) C(x, _next)\n#if defined(__has_include) && H(__has_include)(<a.h>)\n#endif",
            "#define C(x, y) x##y\n#define T include\n#if C(__has_, T)(<a.h>)\n#endif",
            "#define C(x, y) x##y\n#if C(__has_, include(<a.h>))\n#endif",
            "#define CAT(a, b) a##b\n_Pragma(\"message(\\\"x\\\" CAT(__DA, TE__))\")",
            "char *s = R\"x(\n\" ' /* )x\";\n#define D __DA ## TE__\n",
            "#define F(x, ...) x ## __VA_OPT__(ME__)\nchar *d = F(__TI, 1);",
            "int i = 1'000; char c = '\"';\n#define D __DA ## TE__\n",
            "#define C(x, y) x##y\nC(as, m)(\"\\x2eincbin \\\"x\\\"\");",
            "#define C(x, y) x##y\n#define T DA\n#define E TE\nchar *d = C(C(C(__, T), E\n,\n__\n),\n);",
            "#define C(x, y) x##y\nchar *d = C(\"a\" __, DA) C(TE, __);",
            "#define C(x, y) x##y\nchar *d = M(C(\"(%s)))))\",\n__),\nDA\n, TE, __);",
            "#define C(x, y) x##y\n#define D (DA)\n#define U (__)\n#define E (DA, TE, __)\nchar *d = M(U, D, E);",
            "#define C(x, y) x##y\nint a, s, m; C(__as, m__)(\".i\" \"nclude \\\"x\\\"\");",
            "#define M(x) __a##x##_\n#define N(x, y) M(x)\nM(sm_)(\".macro m\\n.endm\");",
        ] {
            assert!(reason(text).is_some(), "{text}");
        }
        for text in [
            "#define CAT(a, b) a##b\n// TIME and DATE, __TI ME__\n_(\"text\"); f(_, x); char *s = \"TIME__\";",
            "#define X(f, x) __ ## f ## _alias\nint TIME, DATE; /* __TIME*_T */ int __; f(__);",
            "#if __has_include(<a.h>) && defined __has_include_next\n#endif\n#define C(a, b) a##b\n",
            "#define __(x) __ ## x\nenum { TIME, DATE_, TIME__x };",
            "#define _GLIBCXX_HAS_NESTED_TYPE(x) struct __has_##x\nint include;",
            "#define __CONCAT(x, y) x ## y\n# include <a.h>\nint DATE;",
            "char *s = \"\\\n __DA ## TE__\";\n",
            "#define C(x, y) x##y\nint a, b = C(__has_, include);\n#if A(b)\n#endif\n",
            "#define C(x, y) x##y\n#if defined(__has_include) && __has_include(<a.h>)\n#endif\n#define N(l) l->_ next C\n#if N(3)\n#endif",
            "#define C(x, y) x##y\n#ifdef __has_include\n#define __has_include\n#endif\n#define N _ next C\n#if N\n#endif",
            "#define C(x, y) x##y\n#define A(x, y) B_##x##y\nint a, b = C(__has_, include);\n#if A(a, b)\n#endif\n",
            "#define C(x, y) x##y\nC(as, m)(\"nop\"); char *s = \"#include <x>\";",
            "#define C(x, y) x##y\n# error \"Never include <a.h> directly;\\\n include <b.h> instead.\"\nint a, s, m;",
            "#define C(x, y) __##x##y\nint x __asm (\"y\");",
            "#define C(x, y) x##y\n#define N(D, A, T, E) int D = A (T, E)\nint __, f(__);",
            "#define C(x, y) x##y\ntemplate <class D, class A, class T, class E> struct X { D __; A a; T t; E e; };\nX<D, A, T, E> x;",
            "#define C(x, y) x##y\n#define asm __asm__\nint f(int a, int s, int m) { asm (\"nop\"); g(a, s, m); }",
        ] {
            assert_eq!(reason(text), None, "{text}");
        }
    }

    #[test]
    fn any_bytes_are_read() {
        for text in [
            "\"",
            "'\\",
            "R\"",
            "R\"(",
            "/*",
            "//\\",
            "#define",
            "#define f(",
            "a##",
            "%:%:",
        ] {
            reason(text);
        }
    }
}
