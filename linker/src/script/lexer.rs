//! Tokens of linker scripts.
//!
//! What is a word depends on where it stands (GNU ld's manual, "Symbols", "Input Section Wildcards"): in an expression
//! `a-b` is a subtraction, elsewhere it may be a section's name, a pattern or a path. So the parser says with each token
//! in which [`Mode`] it is to be read, and may look ahead in one mode and read in another: the lexer is a position.

use super::{Pos, ScriptError};
use crate::script::position::{ScriptText, UnclosedComment};

/// How words are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Commands, names of sections, symbols, regions.
    Name,
    /// Files in `INPUT` and the like: `=` and `:` belong to them.
    File,
    /// Patterns in output section descriptions: `:` belongs to them.
    Wild,
    /// Expressions: C's operators, numbers, symbols.
    Expr,
}

/// One token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A word that is not quoted.
    Word(&'a [u8]),
    /// What is between double quotes.
    Quoted(&'a [u8]),
    /// A number, with prefix and suffix, in [`Mode::Expr`].
    Number(&'a [u8]),
    /// An operator or a bracket.
    Punct(&'static str),
    /// The end of the file.
    End,
}

impl Token<'_> {
    /// The token for a message.
    pub(super) fn describe(&self) -> String {
        match self {
            Token::Word(text) | Token::Number(text) => format!("'{}'", shorten(text)),
            Token::Quoted(text) => format!("\"{}\"", shorten(text)),
            Token::Punct(text) => format!("'{text}'"),
            Token::End => "the end of the file".into(),
        }
    }
}

fn shorten(text: &[u8]) -> String {
    const MAX: usize = 60;
    let shown = String::from_utf8_lossy(&text[..text.len().min(MAX)]).into_owned();
    if text.len() > MAX {
        format!("{shown}…")
    } else {
        shown
    }
}

/// Assignment operators; longer ones first.
const ASSIGNMENTS: [&str; 10] = ["<<=", ">>=", "+=", "-=", "*=", "/=", "&=", "|=", "^=", "="];

/// Other operators and brackets; longer ones first.
const PUNCTUATION: [&str; 28] = [
    "<<", ">>", "==", "!=", "<=", ">=", "&&", "||", "(", ")", "{", "}", ";", ",", ":", "?", "+",
    "-", "*", "/", "%", "<", ">", "&", "|", "!", "~", "^",
];

/// A position in a script's text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexer<'a> {
    text: ScriptText<'a>,
    file: u32,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a [u8], file: u32) -> Lexer<'a> {
        Lexer {
            text: ScriptText::new(text),
            file,
        }
    }

    /// Where the next token begins.
    pub(super) fn pos(&mut self) -> Result<Pos, ScriptError> {
        self.skip_blank()?;
        Ok(self.here())
    }

    fn here(&self) -> Pos {
        Pos {
            file: self.file,
            line: self.text.line(),
        }
    }

    /// The text from here on.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.text.rest()
    }

    /// Goes over text that something else has read.
    pub(super) fn skip(&mut self, count: usize) {
        self.text.advance(count);
    }

    fn skip_blank(&mut self) -> Result<(), ScriptError> {
        self.text
            .skip_blank()
            .map_err(|UnclosedComment| ScriptError::new(self.here(), "unclosed comment"))
    }

    /// Reads a token.
    pub(super) fn next(&mut self, mode: Mode) -> Result<Token<'a>, ScriptError> {
        self.skip_blank()?;
        let rest = self.rest();
        let Some(&first) = rest.first() else {
            return Ok(Token::End);
        };
        if first == b'"' {
            let Some(length) = memchr::memchr(b'"', &rest[1..]) else {
                return Err(ScriptError::new(self.here(), "unterminated string"));
            };
            let quoted = self.text.advance(length + 2);
            return Ok(Token::Quoted(&quoted[1..=length]));
        }
        if mode == Mode::Expr
            && (first.is_ascii_digit()
                || (first == b'$' && rest.get(1).is_some_and(u8::is_ascii_hexdigit)))
        {
            let length = 1 + rest[1..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric())
                .count();
            return Ok(Token::Number(self.text.advance(length)));
        }
        let length = self.word_length(mode);
        if length != 0 {
            return Ok(Token::Word(self.text.advance(length)));
        }
        for operator in ASSIGNMENTS.iter().chain(&PUNCTUATION) {
            // `==` is one operator, `=` another.
            if rest.starts_with(operator.as_bytes())
                && !(*operator == "=" && rest.starts_with(b"=="))
            {
                self.text.advance(operator.len());
                return Ok(Token::Punct(operator));
            }
        }
        Err(ScriptError::new(
            self.here(),
            format!("unexpected character {}", describe_byte(first)),
        ))
    }

    /// How many bytes the word at this position has; 0 if there is none.
    fn word_length(&self, mode: Mode) -> usize {
        let rest = self.rest();
        if mode == Mode::Expr {
            // What follows an expression, and no division.
            const DISCARD: &[u8] = b"/DISCARD/";
            if rest.starts_with(DISCARD) {
                return DISCARD.len();
            }
            let starts = |byte: &u8| {
                byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.' | b'$' | b'\\' | 0x80..)
            };
            if !rest.first().is_some_and(starts) {
                return 0;
            }
            // `a/b` is one name for GNU ld; who means a division writes a space.
            return rest
                .iter()
                .take_while(|byte| {
                    starts(byte) || byte.is_ascii_digit() || matches!(byte, b'/' | b'~')
                })
                .count();
        }
        let mut length = 0;
        while let Some(byte) = rest.get(length) {
            let is_part = byte.is_ascii_alphanumeric()
                || matches!(
                    byte,
                    b'_' | b'.'
                        | b'/'
                        | b'$'
                        | b'\\'
                        | b'~'
                        | b'-'
                        | b'+'
                        | b'*'
                        | b'?'
                        | b'['
                        | b']'
                        | b'^'
                        | b'@'
                        | b'%'
                        | 0x80..
                )
                || match mode {
                    // `!` inverts the attributes of a memory region: `(rw!x)`.
                    Mode::Name => matches!(byte, b'!'),
                    Mode::Wild => matches!(byte, b':' | b'!'),
                    Mode::File => matches!(byte, b':' | b'=' | b'&' | b'<' | b'>' | b'!'),
                    Mode::Expr => false,
                };
            let ends = !is_part
                || (mode != Mode::File
                    && ASSIGNMENTS
                        .iter()
                        .any(|op| rest[length..].starts_with(op.as_bytes())));
            if ends {
                break;
            }
            length += 1;
        }
        length
    }

    /// Looks at a token without taking it.
    pub(super) fn peek(&self, mode: Mode) -> Result<Token<'a>, ScriptError> {
        let mut ahead = *self;
        ahead.next(mode)
    }
}

fn describe_byte(byte: u8) -> String {
    if byte.is_ascii_graphic() {
        format!("'{}'", char::from(byte))
    } else {
        format!("{byte:#04x}")
    }
}
