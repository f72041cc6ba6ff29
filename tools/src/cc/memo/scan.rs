//! What the text of a source says that a dependency file does not: what it includes and by which names, what it only asks for, and what makes a
//! compile depend on more than on its inputs.
//!
//! Nothing is preprocessed: a directive counts also where a condition leaves it out, and in a comment. So there is rather too much than
//! too little, and too much costs a compile that was not needed.

use super::questions;
use super::text::{Cursor, Form, Lookup, is_blank, is_in_definition, is_part, is_word, literal};
use memchr::memmem;

/// What was found in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The names that are looked for.
    pub lookups: Vec<Lookup>,
    /// Macros that are to be the name.
    pub by_macro: Vec<Vec<u8>>,
    /// Macros that are other names of `__has_include`.
    pub questions: Vec<Vec<u8>>,
    /// Why nothing can be known.
    pub beyond: Option<&'static str>,
    /// `__DATE__` or `__TIME__`.
    pub has_date: bool,
}

/// The definitions of a macro in a text: what stands behind `#define NAME`, for each of them. `None` for one that takes arguments.
pub fn definitions<'t>(text: &'t [u8], name: &[u8]) -> Vec<Option<&'t [u8]>> {
    let mut found = Vec::new();
    for at in memmem::find_iter(text, b"define") {
        let mut cursor = Cursor { text, at: at + 6 };
        cursor.skip_blanks();
        if cursor.identifier() != name {
            continue;
        }
        let is_function = text.get(cursor.at) == Some(&b'(');
        cursor.skip_blanks();
        let rest = &text[cursor.at..];
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        found.push((!is_function).then(|| rest[..end].trim_ascii()));
    }
    found
}

/// Looks through a text.
pub fn scan(text: &[u8]) -> Scan {
    let mut scan = Scan::default();
    if splices_words(text) {
        // Words that go on in the next line are rare: looked for in a text without such ends of lines.
        scan_text(&without_splices(text), &mut scan);
    } else {
        scan_text(text, &mut scan);
    }
    scan
}

fn scan_text(text: &[u8], scan: &mut Scan) {
    for at in memchr::memchr_iter(b'#', text) {
        if begins_line(&text[..at]) {
            scan.directive(text, at + 1);
        }
    }
    // The other ways to write it.
    for other in [&b"%:"[..], b"??="] {
        for at in memmem::find_iter(text, other) {
            scan.directive(text, at + other.len());
        }
    }
    for at in memmem::find_iter(text, b"__has_") {
        scan.question(text, at);
    }
    for at in memmem::find_iter(text, b"__DATE__").chain(memmem::find_iter(text, b"__TIME__")) {
        scan.has_date |= is_word(text, at..at + 8);
    }
    let has_word =
        |word: &[u8]| memmem::find_iter(text, word).any(|at| is_word(text, at..at + word.len()));
    if has_word(b"__TIMESTAMP__") {
        scan.beyond = Some("__TIMESTAMP__ in an input");
    }
    scan.directives_of_assemblers(text);
    for word in [&b"dependency"[..], b"pch_preprocess"] {
        // Also as an argument of a macro that makes a `_Pragma` of it.
        let is_of_gcc = |at: usize| text[..at].trim_ascii_end().ends_with(b"GCC");
        if memmem::find_iter(text, word).any(is_of_gcc) {
            scan.beyond = Some("#pragma GCC dependency in an input");
        }
    }
    // Or a part of one, with macros between.
    if memmem::find(text, b"_Pragma").is_some()
        && memmem::find_iter(text, b"dependency").any(|at| may_be_of_pragma(text, at))
    {
        scan.beyond = Some("perhaps #pragma GCC dependency in an input");
    }
    if has_word(b"include_alias") {
        scan.beyond = Some("#pragma include_alias in an input");
    }
}

/// Whether the word `dependency` is one by itself, and stands behind nothing that begins a comment in its line.
fn may_be_of_pragma(text: &[u8], at: usize) -> bool {
    let line = memchr::memrchr(b'\n', &text[..at]).map_or(0, |end| end + 1);
    let before = &text[line..at];
    let is_comment = before.trim_ascii_start().starts_with(b"*")
        || memmem::find(before, b"//").is_some()
        || memmem::find(before, b"/*").is_some();
    !is_comment && is_word(text, at..at + b"dependency".len())
}

impl Scan {
    /// Looks for `.incbin` and `.include`, as assemblers know them: in any case of letters; and for what may become that, as a
    /// literal that goes on in the next one, or a macro of the assembler.
    fn directives_of_assemblers(&mut self, text: &[u8]) {
        for at in memchr::memchr2_iter(b'i', b'I', text) {
            let Some(before) = at.checked_sub(1).map(|before| text[before]) else {
                continue;
            };
            let rest = &text[at..text.len().min(at + 7)];
            if !rest
                .get(1)
                .is_some_and(|byte| byte.eq_ignore_ascii_case(&b'n'))
            {
                continue;
            }
            let letters = rest
                .iter()
                .take_while(|byte| byte.is_ascii_alphabetic())
                .count();
            let word = rest[..letters].to_ascii_lowercase();
            let behind = text.get(at + letters).copied();
            if word.starts_with(b"incbin") && !is_part(before) {
                self.beyond = Some(".incbin in an input");
            }
            if before != b'.' {
                continue;
            }
            let further = at.checked_sub(2).map(|further| text[further]);
            let is_member = further.is_some_and(|byte| {
                is_part(byte) || matches!(byte, b'/' | b')' | b']' | b'.' | b'>')
            });
            if is_member {
                continue;
            }
            if word == b"include" && matches!(behind, Some(b' ' | b'\t' | b'\\' | b'"')) {
                self.beyond = Some(".include in an input");
            }
            let is_start = b"include".starts_with(&word[..]) || b"incbin".starts_with(&word[..]);
            if is_start && word != b"include" && matches!(behind, Some(b'"' | b'\\')) {
                self.beyond = Some("perhaps .incbin or .include in an input");
            }
        }
        // `.\\x` in the body of a macro of the assembler.
        if memmem::find(text, b".macro").is_some() || memmem::find(text, b".irp").is_some() {
            let is_made = memmem::find_iter(text, b".\\").any(|at| {
                text.get(at + 2)
                    .is_some_and(|byte| is_part(*byte) || *byte == b'\\')
            });
            if is_made {
                self.beyond = Some("a directive of the assembler by a macro in an input");
            }
        }
    }

    /// Reads a directive, behind its `#`.
    fn directive(&mut self, text: &[u8], at: usize) {
        let mut cursor = Cursor { text, at };
        cursor.skip_blanks();
        let (is_next, is_embed) = match cursor.identifier() {
            b"include" | b"import" => (false, false),
            b"include_next" => (true, false),
            b"embed" => (false, true),
            b"pragma" => {
                cursor.skip_blanks();
                if cursor.identifier() == b"GCC" {
                    cursor.skip_blanks();
                    if matches!(cursor.identifier(), b"dependency" | b"pch_preprocess") {
                        self.beyond = Some("#pragma GCC dependency in an input");
                    }
                }
                return;
            }
            _ => return,
        };
        cursor.skip_blanks();
        let rest = &text[cursor.at..];
        match literal(rest) {
            Some(_) if is_embed => self.beyond = Some("#embed in an input"),
            Some((form, name)) => self.look_up(form, name, is_next, false),
            None => {
                let name = cursor.identifier();
                if is_embed && !name.is_empty() {
                    self.beyond = Some("#embed in an input");
                } else if !name.is_empty() && is_next {
                    self.beyond = Some("#include_next of a macro in an input");
                } else if !name.is_empty() {
                    self.by_macro.push(name.to_vec());
                }
            }
        }
    }

    /// Reads a question whether there is something to be included.
    fn question(&mut self, text: &[u8], at: usize) {
        // `#define __has_include(x) 0`, for compilers that have none.
        if text[..at].trim_ascii_end().ends_with(b"define") {
            return;
        }
        let mut cursor = Cursor { text, at };
        let is_next = match cursor.identifier() {
            b"__has_include" | b"__has_include__" => false,
            b"__has_include_next" | b"__has_include_next__" => true,
            b"__has_embed" => {
                cursor.skip_blanks();
                if text.get(cursor.at) == Some(&b'(') {
                    self.beyond = Some("__has_embed in an input");
                }
                return;
            }
            _ => return,
        };
        cursor.skip_blanks();
        let is_call = text.get(cursor.at) == Some(&b'(');
        cursor.at += usize::from(is_call);
        cursor.skip_blanks();
        match literal(&text[cursor.at..]) {
            // It is asked where the macro is used.
            Some((Form::Quoted, _)) if is_in_definition(&text[..at]) => {
                self.beyond = Some(questions::IN_DEFINITION);
            }
            Some((form, name)) => self.look_up(form, name, is_next, true),
            // `defined(__has_include)`, `#ifdef __has_include`.
            None if !is_call && !is_in_definition(&text[..at]) => {}
            None if !is_call => match questions::other_name(&text[..at], &text[cursor.at..]) {
                Some(name) if !is_next => self.questions.push(name.to_vec()),
                _ => self.beyond = Some(questions::BY_ANOTHER_NAME),
            },
            None => self.beyond = Some("__has_include of a macro in an input"),
        }
    }

    fn look_up(&mut self, form: Form, name: &[u8], is_next: bool, only_asks: bool) {
        let form = if is_next { Form::Next } else { form };
        self.lookups.push(Lookup {
            form,
            name: name.to_vec(),
            only_asks,
        });
    }
}

/// Whether a directive can begin behind this text: at the start of a line, or behind a comment.
fn begins_line(before: &[u8]) -> bool {
    let blanks = [b' ', b'\t', 0x0b, 0x0c];
    let end = before
        .iter()
        .rposition(|byte| !blanks.contains(byte))
        .map_or(0, |last| last + 1);
    let before = &before[..end];
    // (A byte order mark may stand before the first line.)
    before.is_empty()
        || before.ends_with(b"\n")
        || before.ends_with(b"\r")
        || before.ends_with(b"*/")
        || before == b"\xef\xbb\xbf"
}

/// Where the backslash is by which the line that ends at `end` goes on in the next one: compilers take it for one also with blanks
/// behind it.
fn splice(text: &[u8], end: usize) -> Option<usize> {
    let last = text[..end].iter().rposition(|byte| !is_blank(*byte))?;
    (text[last] == b'\\').then_some(last)
}

/// Whether lines go on in a way that what is read here would not be seen as one: without blanks around, or with blanks behind the
/// backslash.
fn splices_words(text: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', text).any(|end| {
        let Some(backslash) = splice(text, end) else {
            return false;
        };
        let is_tight =
            |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'\n' && !is_blank(*byte));
        let before = backslash.checked_sub(1).map(|before| &text[before]);
        let has_blanks = !matches!(text[backslash + 1..end], [] | [b'\r']);
        has_blanks || (is_tight(before) && is_tight(text.get(end + 1)))
    })
}

fn without_splices(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for end in memchr::memchr_iter(b'\n', text) {
        if let Some(backslash) = splice(text, end) {
            out.extend_from_slice(&text[from..backslash.max(from)]);
            from = end + 1;
        }
    }
    out.extend_from_slice(&text[from..]);
    out
}

/// Whether no word goes on in the next line.
///
/// # Errors
/// As [`joined`].
pub fn is_joined(text: &[u8]) -> Result<bool, &'static str> {
    match memmem::find(text, b"??/") {
        Some(_) => Err(TRIGRAPH),
        None => Ok(!splices_words(text)),
    }
}

const TRIGRAPH: &str = "a trigraph in an input";

/// A text in which no word goes on in the next line.
///
/// # Errors
/// If it has a trigraph for a backslash, which may end a line or begin an escape, or not.
pub fn joined(text: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    Ok(match is_joined(&text)? {
        true => text,
        false => without_splices(&text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookups(text: &str) -> Vec<(Form, String, bool)> {
        let lookups = scan(text.as_bytes()).lookups.into_iter();
        lookups
            .map(|it| {
                (
                    it.form,
                    String::from_utf8(it.name).expect("UTF-8"),
                    it.only_asks,
                )
            })
            .collect()
    }

    #[test]
    fn directives_are_found_however_they_are_written() {
        use Form::*;
        for (text, form) in [
            ("#include <a.h>\n", Angled),
            ("#include \"a.h\"", Quoted),
            ("  #  include\t<a.h> // why", Angled),
            ("/* x */ # /* y */ include /* z */ \"a.h\"\n", Quoted),
            ("#if 0\n#include <a.h>\n#endif", Angled),
            ("%: include <a.h>", Angled),
            ("??=include <a.h>", Angled),
            ("#include \\\n <a.h>", Angled),
            ("#inc\\\nlude <a.h>", Angled),
            ("#include_next <a.h>", Next),
            ("#import \"a.h\"", Quoted),
            ("\u{feff}#include \"a.h\"", Quoted),
        ] {
            assert_eq!(lookups(text), [(form, "a.h".to_owned(), false)], "{text}");
        }
        for text in [
            "x #include <a.h>",
            "#included <a.h>",
            "# define include <a.h>",
            "#include <\n>",
        ] {
            assert_eq!(lookups(text), [], "{text}");
        }
    }

    #[test]
    fn questions_are_found() {
        let asked = |form| vec![(form, "a.h".to_owned(), true)];
        assert_eq!(lookups("#if __has_include(<a.h>)"), asked(Form::Angled));
        assert_eq!(
            lookups("#if defined X && __has_include ( \"a.h\" )"),
            asked(Form::Quoted)
        );
        assert_eq!(lookups("#if __has_include_next(<a.h>)"), asked(Form::Next));
        assert_eq!(
            scan(b"#ifdef __has_include\n#if defined(__has_include)"),
            Scan::default()
        );
        assert!(scan(b"#define X(y) __has_include(y)").beyond.is_some());
        // (libstdc++ names types so.)
        assert!(scan(b"#define X(y) struct __has_##y").beyond.is_none());
        assert!(scan(b"#define X(x) __has_include\n").beyond.is_some());
        assert_eq!(scan(b"#define X __has_include\n").questions, [b"X"]);
        assert!(scan(b"#define X __has_include(\"a.h\")\n").beyond.is_some());
        assert!(scan(b"#define __has_include(x) 0\n").beyond.is_none());
        assert!(scan(b"#if __has_embed(\"x\")").beyond.is_some());
        assert!(scan(b"#ifdef __has_embed").beyond.is_none());
    }

    #[test]
    fn what_makes_a_compile_depend_on_more() {
        for text in ["__DATE__", "x = __TIME__;", "f(__DATE__)", "__DA\\\nTE__"] {
            assert!(scan(text.as_bytes()).has_date, "{text}");
        }
        for text in ["__DATE__X", "MY__TIME__", "__TIME_T", "__DATE"] {
            assert!(!scan(text.as_bytes()).has_date, "{text}");
        }
        for text in [
            "__TIMESTAMP__",
            "asm(\".incbin \\\"x\\\"\");",
            "asm(\".include \\\"x\\\"\");",
            "\t.include \"x\"",
            "#embed \"x\"",
            "#pragma GCC dependency \"x\"",
            "#define D dependency \"x\"\n#define S(x) _Pragma(#x)\n",
            "# pragma include_alias(<a.h>, <b.h>)",
            "_Pragma(\"include_alias(<a.h>, <b.h>)\")",
        ] {
            assert!(scan(text.as_bytes()).beyond.is_some(), "{text}");
        }
        for text in [
            "int dependency;",
            "_Pragma(\"once\") // a dependency\n/* dependency */\n * dependency\nint of_dependency;",
        ] {
            assert_eq!(scan(text.as_bytes()).beyond, None, "{text}");
        }
        assert!(
            scan(b"s.include = 1; x.included y.include (z)")
                .beyond
                .is_none()
        );
    }

    #[test]
    fn directives_of_assemblers_are_found() {
        for text in [
            "asm(\".INCBIN \\\"x\\\"\");",
            "asm(\".inc\" \"bin \\\"x\\\"\");",
            "asm(\".Include \\\"x\\\"\");",
            "#define D(x) asm(\".\" #x)\nD(incbin)",
            ".macro m x\n.\\x \"f\"\n.endm",
        ] {
            assert!(scan(text.as_bytes()).beyond.is_some(), "{text}");
        }
        for text in [
            "it->x.included = a.in; b.include = 3; // see inc.",
            "x.in\"y\"; it->a.in[0]; // ../include \n .index \"x\"",
            ".macro m x\n mov \\x, %rax\n.endm",
        ] {
            assert_eq!(scan(text.as_bytes()).beyond, None, "{text}");
        }
    }

    #[test]
    fn words_are_joined() {
        let is = |text: &str, expected: &str| {
            let joined = joined(text.as_bytes().to_vec()).expect("no trigraph");
            assert_eq!(String::from_utf8_lossy(&joined), expected, "{text:?}");
        };
        is("__DA\\\nTE__", "__DATE__");
        is("__DA\\\n\\\nTE__", "__DATE__");
        is("__DA\\ \t\nTE__", "__DATE__");
        is("a \\ \n b", "a  b");
        is("%\\\r\n: x", "%: x");
        is("\\\n\\\n", "\\\n\\\n");
        is("f(a, \\\n  b)", "f(a, \\\n  b)");
        assert!(joined(b"__DA??/\nTE__".to_vec()).is_err());
    }

    #[test]
    fn macros_that_name_files() {
        let text =
            b"#define A <x/a.h>\n# define B \"b.h\"  \n#define A(x) <y>\n#include A\n#include B(x)";
        assert_eq!(scan(text).by_macro, [b"A".to_vec(), b"B".to_vec()]);
        assert_eq!(definitions(text, b"A"), [Some(&b"<x/a.h>"[..]), None]);
        assert_eq!(definitions(text, b"B"), [Some(&b"\"b.h\""[..])]);
        assert_eq!(literal(b"<x/a.h>"), Some((Form::Angled, &b"x/a.h"[..])));
        assert_eq!(literal(b"x"), None);
    }
}
