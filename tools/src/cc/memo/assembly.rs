//! Whether assembly in a source may read other files, where the assembler does not say so itself: clang's, which is a part of the compiler.
//! (gcc's is asked for a list.)
//!
//! Assembly in C is known where it is written out, in literals. Where a macro makes it, or what is written out goes together with
//! what is put in its place, there is doubt.

use super::tokens::{Lexer, Token};
use memchr::memmem;
use pruning::assembly::{MAKING, READING, has_directive, may_read};
use std::borrow::Cow;

/// How it is known what assembly reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assembly {
    /// The assembler has said it.
    Listed,
    /// It reads nothing, as the preprocessor or the plugin has shown.
    Plain,
    /// As it is written in C.
    Written,
    /// As it is written in a source that is nothing else.
    Alone,
}

impl Assembly {
    /// Why a text may read other files in a way that is not known; `None` if it cannot.
    pub fn doubt(self, text: &[u8]) -> Option<&'static str> {
        let mut asm = match self.begin(text) {
            Ok(asm) => asm?,
            Err(reason) => return Some(reason),
        };
        let mut lexer = Lexer::new(text);
        let mut line = Vec::new();
        while asm.found.is_none() && lexer.line(&mut line) {
            asm.read(&line);
        }
        asm.end()
    }

    /// The same for who has the lines of the text read, too; `None` if nothing depends on these.
    ///
    /// # Errors
    /// Why it may, if that is known without its lines.
    pub fn begin<'t>(self, text: &'t [u8]) -> Result<Option<AsmLines<'t>>, &'static str> {
        match self {
            Assembly::Listed | Assembly::Plain => Ok(None),
            Assembly::Written => {
                let has_keyword = memmem::find(text, b"asm").is_some();
                Ok(has_keyword.then(AsmLines::default))
            }
            Assembly::Alone => doubt_in_assembly(text).map_or(Ok(None), Err),
        }
    }
}

/// Who expands macros can say more.
pub const BY_MACRO: &str = "assembly that a macro makes, which may read other files";
/// As it is written; perhaps where nobody reads it.
pub const READS: &str = "assembly that may read other files";

const KEYWORDS: [&[u8]; 3] = [b"asm", b"__asm", b"__asm__"];

const QUALIFIERS: [&[u8]; 8] = [
    b"volatile",
    b"__volatile",
    b"__volatile__",
    b"goto",
    b"inline",
    b"__inline",
    b"__inline__",
    b"const",
];

/// A source of C or C++ whose lines are read, one after the other, for assembly that may read other files.
#[derive(Default)]
pub struct AsmLines<'t> {
    /// What is outside of directives, from a keyword on to the end of its parentheses, may go on for lines.
    open: Vec<Token<'t>>,
    found: Option<&'static str>,
}

impl<'t> AsmLines<'t> {
    /// Reads the next line.
    pub fn read(&mut self, line: &[Token<'t>]) {
        if self.found.is_none() {
            self.found = self.doubt(line);
        }
    }

    /// Why some may read other files; `None` if none can.
    pub fn end(self) -> Option<&'static str> {
        self.found
            .or_else(|| (!self.open.is_empty()).then_some(BY_MACRO))
    }

    fn doubt(&mut self, line: &[Token<'t>]) -> Option<&'static str> {
        let is_directive = line.first() == Some(&Token::Other(b'#'));
        if let (true, Some(Token::Word(word))) = (is_directive, line.get(1))
            && word[0].is_ascii_digit()
        {
            // Where this line comes from, as preprocessors say.
            return None;
        }
        if is_directive {
            if !self.open.is_empty() {
                return Some(BY_MACRO);
            }
            return match line.get(1) {
                Some(Token::Word(b"define")) => doubt_in_definition(&line[2..]),
                _ => None,
            };
        }
        if self.open.is_empty() && !line.iter().any(is_keyword) {
            return None;
        }
        self.open.extend_from_slice(line);
        match statements(&self.open) {
            Found::Whole => self.open.clear(),
            Found::Open(from) => {
                self.open.drain(..from);
            }
            Found::Doubt(reason) => return Some(reason),
        }
        None
    }
}

fn is_keyword(token: &Token<'_>) -> bool {
    matches!(token, Token::Word(word) if KEYWORDS.contains(word))
}

/// What is in a definition of a macro, from its name on.
fn doubt_in_definition(line: &[Token<'_>]) -> Option<&'static str> {
    let Some((Token::Word(name), body)) = line.split_first() else {
        return None;
    };
    // `#define asm __asm__`: what is written so is looked at where it is used.
    let is_other_name = KEYWORDS.contains(name)
        && body.iter().all(|token| {
            matches!(token, Token::Word(word) if KEYWORDS.contains(word) || QUALIFIERS.contains(word))
        });
    if is_other_name || !body.iter().any(is_keyword) {
        return None;
    }
    // As C libraries name functions: a name is all that can be there.
    const LABEL: [Token<'_>; 2] = [Token::Word(b"__ASMNAME"), Token::Other(b'(')];
    let mut plain = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some((token, behind)) = rest.split_first() {
        let label = behind
            .strip_prefix(&[Token::Other(b'(')])
            .and_then(|it| it.strip_prefix(&LABEL));
        if is_keyword(token)
            && name.starts_with(b"__")
            && let Some(label) = label
        {
            let end = label.iter().position(|it| *it == Token::Other(b')'));
            let Some((inside, behind)) = end.map(|end| (&label[..end], &label[end..])) else {
                return Some(BY_MACRO);
            };
            let is_plain = |token: &Token<'_>| match token {
                Token::Word(_) | Token::Other(b'#') => true,
                Token::Literal(text, _) => !text.contains(&b'.') && !text.contains(&b'\\'),
                _ => false,
            };
            if !inside.iter().all(is_plain) {
                return Some(BY_MACRO);
            }
            rest = behind;
            continue;
        }
        plain.push(*token);
        rest = behind;
    }
    match statements(&plain) {
        Found::Whole => None,
        Found::Open(_) => Some(BY_MACRO),
        Found::Doubt(reason) => Some(reason),
    }
}

enum Found {
    /// All that begins ends.
    Whole,
    /// From this token on it goes on.
    Open(usize),
    Doubt(&'static str),
}

/// Looks at the statements, declarations and names in assembly among these tokens.
fn statements(tokens: &[Token<'_>]) -> Found {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let start = at;
        at += 1;
        if !is_keyword(token) {
            continue;
        }
        while matches!(tokens.get(at), Some(Token::Word(word)) if QUALIFIERS.contains(word)) {
            at += 1;
        }
        match tokens.get(at) {
            None => return Found::Open(start),
            Some(Token::Other(b'(')) => {}
            Some(_) => return Found::Doubt(BY_MACRO),
        }
        at += 1;
        let mut assembly = Vec::new();
        loop {
            match tokens.get(at) {
                None => return Found::Open(start),
                Some(Token::Literal(text, true)) => match unescaped(text) {
                    Some(text) => assembly.extend(text),
                    None => return Found::Doubt(READS),
                },
                Some(Token::Literal(text, false)) => assembly.extend_from_slice(text),
                Some(Token::Other(b':' | b')')) => break,
                Some(_) => return Found::Doubt(BY_MACRO),
            }
            at += 1;
        }
        if may_read(&assembly) {
            return Found::Doubt(READS);
        }
    }
    Found::Whole
}

/// A literal that goes on in the next line, in one: lines are put together before there are escapes.
fn without_splices(text: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Cow::Borrowed(text);
    for splice in [&b"\\\n"[..], b"\\\r\n"] {
        let mut parts = memmem::find_iter(&out, splice).peekable();
        if parts.peek().is_none() {
            continue;
        }
        let mut joined = Vec::with_capacity(out.len());
        let mut start = 0;
        for at in parts {
            joined.extend_from_slice(&out[start..at]);
            start = at + splice.len();
        }
        joined.extend_from_slice(&out[start..]);
        out = Cow::Owned(joined);
    }
    out
}

/// What an escaped literal stands for; `None` where that is not known here.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let text = without_splices(text);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (&escape, behind) = rest.split_first()?;
        rest = behind;
        let number = |digits: &[u8], base: u32| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, base).ok()
        };
        out.push(match escape {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'"' | b'\'' | b'\\' | b'?' => escape,
            b'x' => {
                let end = rest.iter().position(|byte| !byte.is_ascii_hexdigit());
                let (digits, behind) = rest.split_at(end.unwrap_or(rest.len()));
                rest = behind;
                number(digits, 16)?
            }
            b'0'..=b'7' => {
                let more = rest.iter().take(2);
                let count = more.take_while(|byte| matches!(byte, b'0'..=b'7')).count();
                let digits = [&[escape], &rest[..count]].concat();
                rest = &rest[count..];
                number(&digits, 8)?
            }
            _ => return None,
        });
    }
    Some(out)
}

/// Whether literals of a text in C or C++ may be assembly that reads other files, should a keyword for it be made where none is seen.
pub fn has_reading_literals(text: &[u8]) -> bool {
    let mut lexer = Lexer::new(text);
    let mut line = Vec::new();
    let mut run: Vec<u8> = Vec::new();
    while lexer.line(&mut line) {
        for token in &line {
            match token {
                Token::Literal(text, true) => match unescaped(text) {
                    Some(text) => run.extend(text),
                    None if memmem::find(&text.to_ascii_lowercase(), b"inc").is_some() => {
                        return true;
                    }
                    None => {}
                },
                Token::Literal(text, false) => run.extend_from_slice(text),
                Token::Word(word) if memmem::find(word, b"incbin").is_some() => return true,
                _ if run.is_empty() => {}
                _ => {
                    if has_directive(&run) {
                        return true;
                    }
                    run.clear();
                }
            }
        }
    }
    has_directive(&run)
}

/// Why a source that is assembly may read other files, beside `#include`; `None` if it cannot. What is put together by macros of the
/// preprocessor is seen elsewhere.
fn doubt_in_assembly(text: &[u8]) -> Option<&'static str> {
    let small = text.to_ascii_lowercase();
    if MAKING
        .iter()
        .any(|word| memmem::find(&small, word).is_some())
    {
        return Some("macros of the assembler");
    }
    let mut lexer = Lexer::new(&small);
    let mut line = Vec::new();
    while lexer.line(&mut line) {
        let words = match line.as_slice() {
            [
                Token::Other(b'#'),
                Token::Word(b"include" | b"import" | b"include_next"),
                rest @ ..,
            ] => rest,
            all => all,
        };
        let reads = words.iter().any(|token| {
            matches!(token, Token::Word(word) if READING.iter().any(|it| memmem::find(word, it).is_some()))
        });
        if reads {
            return Some(READS);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembly_in_c() {
        for text in [
            "asm(\".in\" \"cbin \\\"x\\\"\");",
            "asm(\"\\x2eincbin \\\"x\\\"\");",
            "asm(\".\\151ncbin \\\"x\\\"\");",
            "__asm__ volatile (\"nop\\n\"\n \".inc\"\n \"lude \\\"x\\\"\");",
            "asm(R\"(.incbin \"x\")\");",
            "#define A \"x\"\nint f(void) { asm(A); }",
            "#define ASM __asm__\n",
            "#define D(x) asm(\".\" #x)\n",
            "asm(\".macro m x y\\n.\\\\x\\\\y \\\"f\\\"\\n.endm\");",
            "asm(\".in%c0 \\\"x\\\"\" :: \"i\"(f));",
            "asm(\".in{cbin|} \\\"x\\\"\");",
            "asm(\".in\\\ncbin \\\"x\\\"\");",
            "asm(\"\\\\\nx2eincbin \\\"x\\\"\");",
            "asm(u8\"nop\");",
            "asm {",
            "asm(\"nop\"\n#if 1\n\"nop\"\n#endif\n);",
            "int x asm(\".in\");",
            "asm(\n# 7 \"a.h\"\n\".inc\"\n# 8 \"a.c\"\n\"bin 'x'\");",
            "asm(\"\\u002e\");",
        ] {
            assert!(Assembly::Written.doubt(text.as_bytes()).is_some(), "{text}");
        }
        for text in [
            "int f(void) { __asm__ __volatile__ (\"rdtsc\" : \"=a\" (x), \"=d\" (y)); }",
            "asm(\"mov %0, %1\\n\\t.pushsection .init.text\\n.long 1b - .\\n.popsection\"\n : : \"r\"(x));",
            "#define asm __asm__\n#define __asm__ __asm__ volatile\n#ifdef asm\n#endif\n",
            "#define __REDIRECT(name, proto, alias) name proto __asm__ (__ASMNAME (#alias))\n",
            "#define __R(n) extern __typeof (n) n __asm (__ASMNAME (\"__\" #n \"ieee128\"));\n",
            "#define rdtsc(x) __asm__ (\"rdtsc\" : \"=A\" (x))\n",
            "// asm\nchar *s = \"asm\"; int wasm;\n",
            "asm goto (\"jmp %l0\" : : : : out);",
            "asm(\"nop\\\n;nop\");",
            "asm(\n# 7 \"incbin.h\" 3\n\"nop\"\n# 8 \"a.c\"\n);",
            "int x asm(\"y\"); asm(\"jmp .\");",
        ] {
            assert_eq!(Assembly::Written.doubt(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn literals_that_would_read_if_they_were_assembly() {
        for text in [
            "K(as, m)(\"\\x2eincbin \\\"x\\\"\");",
            "K(as, m)(\".i\" \"ncbin \\\"x\\\"\");",
            "K(as, m)(\".\"\n  \"include \\\"x\\\"\");",
            "K(as, m)(\".\\151nclude \\\"x\\\"\");",
            "K(as, m)(\".macro m x y\\n.\\\\x\\\\y\");",
            "K(as, m)(S(.incbin \"x\"));",
            "K(as, m)(\"\\u002eincbin\");",
        ] {
            assert!(has_reading_literals(text.as_bytes()), "{text}");
        }
        for text in [
            "printf(\"#include <x.h>\\n\");",
            "char *s = \"a.c\", *t = \"the end.\", *u = \"%s.%d\";",
            "// .incbin\nint include;",
        ] {
            assert!(!has_reading_literals(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn assembly_alone() {
        for text in [
            ".macro m x\n\\x \"f\"\n.endm\n",
            "#define I include\n.I \"x\"\n",
            ".altmacro\n",
            "\t.INCBIN \"x\"\n",
        ] {
            assert!(doubt_in_assembly(text.as_bytes()).is_some(), "{text}");
        }
        let plain = "#include \"a.h\"\n.text\nf: mov $FIRST, %eax\n ret\n# include <b.h>\n";
        assert_eq!(doubt_in_assembly(plain.as_bytes()), None);
    }
}
