//! The tokens of a source, as far as it matters here: in lines, with those that they go on in.

use super::text::is_part;

/// A token, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'t> {
    /// An identifier or a number.
    Word(&'t [u8]),
    /// `##`.
    Paste,
    /// What is between the quotes of a literal, escapes as they are written; and whether escapes are any.
    Literal(&'t [u8], bool),
    /// A character of punctuation.
    Other(u8),
}

/// Reads tokens, without comments.
#[derive(Debug)]
pub struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Lexer<'t> {
    /// Of a text, from its start.
    pub fn new(text: &'t [u8]) -> Lexer<'t> {
        Lexer { text, at: 0 }
    }

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
    pub fn line(&mut self, line: &mut Vec<Token<'t>>) -> bool {
        line.clear();
        while let Some(is_ended) = self.step(line) {
            if is_ended {
                return true;
            }
        }
        !line.is_empty()
    }

    /// The same, and where in the text each token begins.
    pub fn line_with_places(&mut self, line: &mut Vec<Token<'t>>, places: &mut Vec<usize>) -> bool {
        line.clear();
        places.clear();
        loop {
            let start = self.at;
            let Some(is_ended) = self.step(line) else {
                return !line.is_empty();
            };
            places.resize(line.len(), start);
            if is_ended {
                return true;
            }
        }
    }

    /// Reads a token, or what stands between tokens. Whether the line has ended; `None` at the end of the text.
    fn step(&mut self, line: &mut Vec<Token<'t>>) -> Option<bool> {
        match *self.text.get(self.at)? {
            b'\n' => {
                self.at += 1;
                return Some(!line.is_empty());
            }
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.at += 1,
            b'\\' if self.splice() => {}
            b'/' if self.starts_with(b"//") => self.skip_to_end_of_line(),
            b'/' if self.starts_with(b"/*") => self.skip_comment(),
            b'"' => line.push(self.literal()),
            b'\'' => self.skip_literal(b'\''),
            byte if is_part(byte) => line.push(self.word()),
            byte => line.push(self.punctuator(byte)),
        }
        Some(false)
    }

    fn word(&mut self) -> Token<'t> {
        let start = self.at;
        let is_number = self.text[start].is_ascii_digit();
        loop {
            let rest = &self.text[self.at..];
            let end = rest.iter().position(|byte| !is_part(*byte));
            let end = end.unwrap_or(rest.len());
            self.at += end;
            let is_separator = is_number
                && rest.get(end) == Some(&b'\'')
                && rest.get(end + 1).is_some_and(|next| is_part(*next));
            if !is_separator {
                break;
            }
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        if self.text.get(self.at) == Some(&b'"') && word.ends_with(b"R") && word.len() <= 3 {
            return self.raw_literal();
        }
        Token::Word(word)
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

    /// Over a comment between `/*` and `*/`, or all that follows if it does not end.
    fn skip_comment(&mut self) {
        let start = self.at + 2;
        let rest = &self.text[start..];
        let mut ends = memchr::memchr_iter(b'/', rest).filter(|at| rest[..*at].ends_with(b"*"));
        self.at = ends.next().map_or(self.text.len(), |at| start + at + 1);
    }

    /// To the end of a comment that begins with `//`, with the lines in which it goes on.
    fn skip_to_end_of_line(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = memchr::memchr(b'\n', rest) else {
                self.at = self.text.len();
                return;
            };
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            if !line.ends_with(b"\\") {
                self.at += end;
                return;
            }
            self.at += end + 1;
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

    fn literal(&mut self) -> Token<'t> {
        let start = self.at + 1;
        self.skip_literal(b'"');
        let text = &self.text[start..self.at.clamp(start, self.text.len())];
        Token::Literal(text.strip_suffix(b"\"").unwrap_or(text), true)
    }

    fn raw_literal(&mut self) -> Token<'t> {
        let rest = &self.text[self.at + 1..];
        let Some(open) = rest.iter().take(17).position(|byte| *byte == b'(') else {
            return self.literal();
        };
        let close = [b")", &rest[..open], b"\""].concat();
        let inside = &rest[open + 1..];
        let Some(end) = memchr::memmem::find(inside, &close) else {
            self.at += 1;
            return Token::Literal(b"", false);
        };
        self.at += 1 + open + 1 + end + close.len();
        Token::Literal(&inside[..end], false)
    }
}

/// Whether a file may say that it is to be read once only, as far as a glance tells.
pub fn mentions_once(text: &[u8]) -> bool {
    let has = |word: &[u8]| memchr::memmem::find(text, word).is_some();
    has(b"once") || has(b"import")
}

/// The words among tokens.
pub fn words<'l, 't>(tokens: &'l [Token<'t>]) -> impl Iterator<Item = &'t [u8]> + use<'l, 't> {
    tokens.iter().filter_map(|token| match token {
        Token::Word(word) => Some(*word),
        _ => None,
    })
}

/// Whether a file may say in this line that it is to be read once only: by a word of its own, or in a text that becomes one.
pub fn may_be_once(line: &[Token<'_>]) -> bool {
    line.iter().any(|token| match token {
        Token::Word(word) => matches!(*word, b"once" | b"import"),
        Token::Literal(text, _) => memchr::memmem::find(text, b"once").is_some(),
        _ => false,
    })
}

/// Whether the first file that a source includes is one that it names, whatever is defined.
pub fn includes_plainly(text: &[u8]) -> bool {
    let mut lexer = Lexer::new(text);
    let mut line = Vec::new();
    while lexer.line(&mut line) {
        let [Token::Other(b'#'), Token::Word(name), rest @ ..] = &line[..] else {
            continue;
        };
        if matches!(*name, b"include" | b"import") {
            return matches!(rest.first(), Some(Token::Literal(..) | Token::Other(b'<')));
        }
        if name.starts_with(b"if") || *name == b"include_next" {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_included_first() {
        for text in [
            "#include <a.h>\n#include B",
            "// x\n#define X 1\n # include /* y */ \"a.h\"\n",
        ] {
            assert!(includes_plainly(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "/*\n#include <a.h>\n*/\n#include B\n#include <a.h>",
            "#ifdef X\n#include <a.h>\n#endif\n#include B",
            "#define B <a.h>\n%:include B\n#include <a.h>\n",
        ] {
            assert!(!includes_plainly(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn literals_are_read() {
        let read = |text: &'static str| {
            let mut line = Vec::new();
            Lexer::new(text.as_bytes()).line(&mut line);
            line
        };
        assert_eq!(read("\"a\\\"b\""), [Token::Literal(b"a\\\"b", true)]);
        assert_eq!(read("R\"x(a\")x\""), [Token::Literal(b"a\"", false)]);
        assert_eq!(read("\"a"), [Token::Literal(b"a", true)]);
        assert_eq!(read("f'x'"), [Token::Word(b"f")]);
    }
}
