//! What macros may put together by `##`: a `__DATE__` that stands in no text as a whole.
//!
//! Nothing is expanded. The texts of a compile are read for two things: the words that could be part of such a name, outside of comments and
//! literals, and the rows of operands around `##` in definitions of macros. A parameter may stand for any of these words, and for what another macro makes
//! of them; so all that can be made is found by trying the rows on the parts of the names until nothing new comes. That is too much
//! rather than too little.

use std::collections::BTreeSet;

/// What must not be made, as it would not be seen; and what to say then.
const NOT_TO_BE_MADE: [(&[u8], &str); 6] = {
    const DATE: &str = "__DATE__ or __TIME__, perhaps put together by ##";
    const QUESTION: &str = "__has_include, perhaps put together by ##";
    [
        (b"__DATE__", DATE),
        (b"__TIME__", DATE),
        (b"__TIMESTAMP__", DATE),
        (b"__has_include", QUESTION),
        (b"__has_include_next", QUESTION),
        (b"__has_embed", QUESTION),
    ]
};

/// The longest of the names.
const LONGEST: usize = 18;

/// An operand of `##`: a word, or a parameter.
type Operand = Option<Vec<u8>>;

/// What was found in the texts of a compile.
#[derive(Debug, Default)]
pub struct Pastes {
    words: BTreeSet<Vec<u8>>,
    rows: BTreeSet<Vec<Operand>>,
}

/// A token, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t [u8]),
    /// `##`.
    Paste,
    Other(u8),
}

fn is_part_of_name(word: &[u8]) -> bool {
    // (Most words are told by their first letter.)
    word.len() <= LONGEST
        && NOT_TO_BE_MADE.iter().any(|(name, _)| {
            word.len() < name.len() && name.windows(word.len()).any(|part| part == word)
        })
}

impl Pastes {
    /// Reads a text.
    pub fn read(&mut self, text: &[u8]) {
        let mut lexer = Lexer { text, at: 0 };
        let mut line = Vec::new();
        while lexer.line(&mut line) {
            self.read_line(&line);
        }
    }

    fn read_line(&mut self, line: &[Token<'_>]) {
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
        for (at, token) in line.iter().enumerate() {
            let Token::Word(word) = token else {
                continue;
            };
            if !is_part_of_name(word) {
                continue;
            }
            let before = at.checked_sub(1).map(|before| line[before]);
            let behind = line.get(at + 1).copied();
            // So short that it is everywhere: only as an argument.
            let is_plain = word.len() < 3 || word.iter().all(|byte| *byte == b'_');
            let is_argument = matches!(before, Some(Token::Other(b'(' | b',')))
                && matches!(behind, Some(Token::Other(b')' | b',')));
            let is_pasted = before == Some(Token::Paste) || behind == Some(Token::Paste);
            if is_pasted || (is_plain && !is_argument) {
                continue;
            }
            if !self.words.contains(*word) {
                self.words.insert(word.to_vec());
            }
        }
    }

    /// Reads the definition of a macro, from its name on.
    fn read_definition(&mut self, line: &[Token<'_>]) {
        let mut parameters: Vec<&[u8]> = vec![b"__VA_ARGS__"];
        let mut start = 1;
        if line.get(1) == Some(&Token::Other(b'(')) {
            let end = line.iter().position(|token| *token == Token::Other(b')'));
            start = end.unwrap_or(line.len());
            parameters.extend(line[..start].iter().filter_map(|token| match token {
                Token::Word(word) => Some(*word),
                _ => None,
            }));
        }
        let body = line.get(start..).unwrap_or_default();
        let mut at = 0;
        while at < body.len() {
            let first = at;
            let mut row: Vec<Operand> = Vec::new();
            while let Some(Token::Word(word)) = body.get(at) {
                row.push((!parameters.contains(word)).then(|| word.to_vec()));
                if body.get(at + 1) != Some(&Token::Paste) {
                    break;
                }
                at += 2;
            }
            at += 1;
            // What follows such a word is the name of a type.
            let before = first.checked_sub(1).map(|before| body[before]);
            let keywords = [&b"struct"[..], b"class", b"union", b"enum", b"typename"];
            let is_type = matches!(before, Some(Token::Word(word)) if keywords.contains(&word));
            let can_fit =
                |operand: &Operand| operand.as_ref().is_none_or(|word| is_part_of_name(word));
            if row.len() > 1 && !is_type && row.iter().all(can_fit) {
                self.rows.insert(row);
            }
        }
    }

    /// Why something that must not be made may be; `None` if it cannot.
    pub fn reason(&self) -> Option<&'static str> {
        let found = NOT_TO_BE_MADE.iter().find(|(name, _)| self.can_make(name));
        found.map(|(_, reason)| *reason)
    }

    fn can_make(&self, name: &[u8]) -> bool {
        // By start and end: whether this part of the name can be made.
        let size = name.len();
        let mut made = vec![[false; LONGEST + 1]; size + 1];
        for start in 0..size {
            for end in start + 1..=size {
                // (What stands there as a whole is seen elsewhere.)
                let is_whole = end - start == size;
                made[start][end] = !is_whole && self.words.contains(&name[start..end]);
            }
        }
        loop {
            let mut is_new = false;
            for row in &self.rows {
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
}

/// Reads tokens: without comments, and without what is in literals.
struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Lexer<'t> {
    fn starts_with(&self, what: &[u8]) -> bool {
        self.text[self.at..].starts_with(what)
    }

    /// Over a backslash at the end of a line.
    fn splice(&mut self) -> bool {
        let size = match &self.text[self.at..] {
            [b'\\', b'\n', ..] => 2,
            [b'\\', b'\r', b'\n', ..] => 3,
            _ => return false,
        };
        self.at += size;
        true
    }

    /// Reads a line, with those that it goes on in; `false` at the end.
    fn line(&mut self, line: &mut Vec<Token<'t>>) -> bool {
        line.clear();
        while let Some(&byte) = self.text.get(self.at) {
            if self.splice() {
                continue;
            }
            match byte {
                b'\n' => {
                    self.at += 1;
                    if !line.is_empty() {
                        return true;
                    }
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.at += 1,
                b'/' if self.starts_with(b"//") => self.skip_to_end_of_line(),
                b'/' if self.starts_with(b"/*") => {
                    let rest = &self.text[self.at + 2..];
                    let end = memchr::memmem::find(rest, b"*/");
                    self.at += end.map_or(rest.len() + 2, |end| end + 4);
                }
                b'"' => self.skip_literal(b'"'),
                b'\'' => self.skip_literal(b'\''),
                _ if super::scan::is_part(byte) => line.extend(self.word()),
                _ => line.push(self.punctuator(byte)),
            }
        }
        !line.is_empty()
    }

    fn word(&mut self) -> Option<Token<'t>> {
        let start = self.at;
        let is_number = self.text[start].is_ascii_digit();
        while let Some(&byte) = self.text.get(self.at) {
            let is_separator = is_number
                && byte == b'\''
                && self
                    .text
                    .get(self.at + 1)
                    .is_some_and(|next| super::scan::is_part(*next));
            if !super::scan::is_part(byte) && !is_separator {
                break;
            }
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        if self.text.get(self.at) == Some(&b'"') && word.ends_with(b"R") && word.len() <= 3 {
            self.skip_raw_literal();
            return None;
        }
        Some(Token::Word(word))
    }

    fn punctuator(&mut self, byte: u8) -> Token<'t> {
        for (text, token) in [
            (&b"##"[..], Token::Paste),
            (b"%:%:", Token::Paste),
            (b"??=??=", Token::Paste),
            (b"%:", Token::Other(b'#')),
            (b"??=", Token::Other(b'#')),
        ] {
            if self.starts_with(text) {
                self.at += text.len();
                return token;
            }
        }
        self.at += 1;
        Token::Other(byte)
    }

    fn skip_to_end_of_line(&mut self) {
        while self.text.get(self.at).is_some_and(|byte| *byte != b'\n') {
            if !self.splice() {
                self.at += 1;
            }
        }
    }

    /// To the quote that ends it, or the end of the line: not everything that looks like one is a literal.
    fn skip_literal(&mut self, quote: u8) {
        self.at += 1;
        while let Some(&byte) = self.text.get(self.at) {
            if byte == b'\n' {
                return;
            }
            if self.splice() {
                continue;
            }
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == quote {
                return;
            }
        }
    }

    fn skip_raw_literal(&mut self) {
        let rest = &self.text[self.at + 1..];
        let Some(open) = rest.iter().take(17).position(|byte| *byte == b'(') else {
            return self.skip_literal(b'"');
        };
        let close = [b")", &rest[..open], b"\""].concat();
        let end = memchr::memmem::find(&rest[open..], &close);
        self.at += match end {
            Some(end) => 1 + open + end + close.len(),
            None => 1,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> Option<&'static str> {
        let mut pastes = Pastes::default();
        pastes.read(text.as_bytes());
        pastes.reason()
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
            "#define HAS(x) __has_##x\n#if HAS(include)(<a.h>)\n#endif",
            "char *s = R\"x(\n\" ' /* )x\";\n#define D __DA ## TE__\n",
            "int i = 1'000; char c = '\"';\n#define D __DA ## TE__\n",
        ] {
            assert!(reason(text).is_some(), "{text}");
        }
        for text in [
            "#define CAT(a, b) a##b\n// TIME and DATE, __TI ME__\n_(\"text\"); f(_, x); char *s = \"TIME__\";",
            "#define X(f, x) __ ## f ## _alias\nint TIME, DATE; /* __TIME*_T */ int __; f(__);",
            "#if __has_include(<a.h>) && defined __has_include_next\n#endif\n#define C(a, b) a##b\n",
            "#define _GLIBCXX_HAS_NESTED_TYPE(x) struct __has_##x\nint include;",
            "#define __CONCAT(x, y) x ## y\n# include <a.h>\nint DATE;",
            "char *s = \"\\\n __DA ## TE__\";\n",
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
