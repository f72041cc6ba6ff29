//! On which lines of a source something stands: so that it can be told, of another text that is the same but for comments and blank lines, which
//! line has become which.

use super::comments::{self, INNER_LINE, Keeps};
use super::text::is_blank;
use super::tokens::{Lexer, Token};
use format_spec::digest::Digest;
use memchr::{memchr, memmem};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The lines of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The digest of the text without comments ([`Keeps::Order`]).
    order: [u8; 32],
    /// The names of files that it includes where a function may be begun; an empty one is that of any file.
    inner_includes: Vec<Vec<u8>>,
    /// How far each line on which something stands is behind the one before; the first, behind line 0.
    steps: Vec<u32>,
}

impl Standing {
    /// The lines of a text; `None` if they cannot be told, or the text may say itself which lines they are.
    pub fn of(text: &[u8]) -> Option<Standing> {
        let rest = comments::without(text, Keeps::Order)?;
        if says_lines_in(text, Some(&rest)) {
            return None;
        }
        let placed = comments::without(text, Keeps::Places)?;
        // Where a comment of several lines stands in a line, what is before and behind it are not told apart.
        if memchr(INNER_LINE, &placed).is_some() {
            return None;
        }
        let is_something = |line: &[u8]| !line.iter().all(|byte| is_blank(*byte));
        let (mut steps, mut last) = (Vec::new(), 0);
        for (line, number) in placed.split(|byte| *byte == b'\n').zip(1_u32..) {
            if is_something(line) {
                steps.push(number - last);
                last = number;
            }
        }
        Some(Standing {
            inner_includes: inner_includes(&rest).into_iter().collect(),
            order: Digest::of(&rest).0,
            steps,
        })
    }

    /// The digest of the text without comments ([`Keeps::Order`]).
    pub fn order(&self) -> Digest {
        Digest(self.order)
    }

    /// Whether the text is the same as another one but for comments and blank lines.
    pub fn is_as(&self, other: &Standing) -> bool {
        self.order == other.order && self.steps.len() == other.steps.len()
    }

    /// The names, without directories, of the files that it includes where a function may be begun; an empty one is that of any file.
    pub fn inner_includes(&self) -> &[Vec<u8>] {
        &self.inner_includes
    }

    /// The numbers of its lines, ascending.
    pub fn numbers(&self) -> Vec<u32> {
        let steps = self.steps.iter();
        let numbers = steps.scan(0_u32, |line, step| {
            *line = line.wrapping_add(*step);
            Some(*line)
        });
        numbers.collect()
    }
}

/// Whether a line of a text may say which line it is, and of which file (`#line`): what the compiler then says of lines is not where they
/// stand. The same in assembly that the text has.
pub fn says_lines(text: &[u8]) -> bool {
    says_lines_in(text, comments::without(text, Keeps::Order).as_deref())
}

/// The same of a text of which `rest` is what is left without comments, if that is told.
fn says_lines_in(text: &[u8], rest: Option<&[u8]>) -> bool {
    let is_in = |what: &[u8]| memmem::find(text, what).is_some();
    let directives: [&[u8]; 3] = [b".loc", b".line", b".file"];
    if is_in(b"asm") && directives.into_iter().any(is_in) {
        return true;
    }
    match rest {
        Some(rest) => rest.split(|byte| *byte == b'\n').any(is_line_directive),
        // It is not told what its comments are: whatever may be one.
        None => {
            let signs = [&b"#"[..], b"%:", b"??="];
            signs.into_iter().any(|sign| {
                memmem::find_iter(text, sign).any(|at| {
                    let rest = &text[at..];
                    let line = &rest[..memchr(b'\n', rest).unwrap_or(rest.len())];
                    let goes_on = line.trim_ascii_end().ends_with(b"\\");
                    is_line_directive(line)
                        || memmem::find(line, b"line").is_some()
                        || (goes_on && !is_definition(line))
                })
            })
        }
    }
}

/// What stands behind the sign of a directive.
fn directive(line: &[u8]) -> Option<&[u8]> {
    let line = without_blanks(line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line));
    let signs: [&[u8]; 3] = [b"#", b"%:", b"??="];
    let rest = signs.iter().find_map(|sign| line.strip_prefix(*sign))?;
    Some(without_blanks(rest))
}

fn is_line_directive(line: &[u8]) -> bool {
    directive(line).is_some_and(|rest| {
        rest.first().is_some_and(u8::is_ascii_digit)
            || rest.starts_with(b"line")
            || rest.starts_with(b"\\")
    })
}

fn is_definition(line: &[u8]) -> bool {
    directive(line).is_some_and(|rest| rest.starts_with(b"define"))
}

fn without_blanks(line: &[u8]) -> &[u8] {
    let blanks = line.iter().take_while(|byte| is_blank(**byte)).count();
    &line[blanks..]
}

/// The names of the files, without directories, that a text without comments includes where a function may be begun: compilers compare numbers of lines
/// within one, whatever the files. An empty name is that of any file.
fn inner_includes(text: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    let mut lexer = Lexer::new(text);
    let mut line = Vec::new();
    // For each brace that is open, whether there may be a function around it.
    let mut braces: Vec<bool> = Vec::new();
    // The first words since the last end of a declaration.
    let mut words: Vec<&[u8]> = Vec::new();
    // The braces where conditionals begin: each of their parts begins there.
    let mut conditionals: Vec<Vec<bool>> = Vec::new();
    while lexer.line(&mut line) {
        if let [Token::Other(b'#'), rest @ ..] = &line[..] {
            match rest.first() {
                Some(Token::Word(b"if" | b"ifdef" | b"ifndef")) => {
                    conditionals.push(braces.clone());
                }
                Some(Token::Word(b"else" | b"elif" | b"elifdef" | b"elifndef")) => {
                    if let Some(start) = conditionals.last() {
                        braces.clone_from(start);
                    }
                }
                Some(Token::Word(b"endif")) => {
                    conditionals.pop();
                }
                Some(Token::Word(word))
                    if word.starts_with(b"include") && braces.contains(&true) =>
                {
                    found.insert(included(rest).unwrap_or_default());
                }
                _ => {}
            }
            continue;
        }
        for token in &line {
            match token {
                Token::Word(word) => words.push(word),
                Token::Literal(text, _) => words.push(text),
                Token::Other(b'{') => {
                    let is_type = |word: &&[u8]| {
                        [
                            &b"namespace"[..],
                            b"enum",
                            b"class",
                            b"struct",
                            b"union",
                            b"C",
                            b"C++",
                        ]
                        .contains(word)
                    };
                    braces.push(!words.iter().any(is_type));
                    words.clear();
                }
                Token::Other(b'}') => {
                    // Where more is closed than was begun, this text stands in another one's.
                    if braces.pop().is_none() {
                        found.insert(Vec::new());
                    }
                    words.clear();
                }
                Token::Other(b';') => words.clear(),
                // What has parameters is a function.
                Token::Other(b'(' | b')') => words.retain(|word| *word == b"namespace"),
                _ => {}
            }
        }
    }
    if !braces.is_empty() {
        found.insert(Vec::new());
    }
    found
}

/// The same of a text of which it cannot be told where functions are: of all that it includes.
pub fn all_includes(text: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    let mut lexer = Lexer::new(text);
    let mut line = Vec::new();
    while lexer.line(&mut line) {
        if let [Token::Other(b'#'), rest @ ..] = &line[..]
            && let [Token::Word(word), ..] = rest
            && word.starts_with(b"include")
        {
            found.insert(included(rest).unwrap_or_default());
        }
    }
    found
}

/// The name, without directories, of what a directive includes.
fn included(tokens: &[Token<'_>]) -> Option<Vec<u8>> {
    let name: Vec<u8> = match &tokens[1..] {
        [Token::Literal(text, _), ..] => text.to_vec(),
        [Token::Other(b'<'), rest @ ..] => {
            let inside = rest
                .iter()
                .take_while(|token| **token != Token::Other(b'>'));
            let mut name = Vec::new();
            for token in inside {
                match token {
                    Token::Word(word) => name.extend_from_slice(word),
                    Token::Other(byte) => name.push(*byte),
                    _ => return None,
                }
            }
            name
        }
        _ => return None,
    };
    name.rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Option<Vec<u32>> {
        Standing::of(text.as_bytes()).map(|it| it.numbers())
    }

    #[test]
    fn lines_on_which_something_stands() {
        assert_eq!(numbers("int a;\n\n// x\nint b;\n"), Some(vec![1, 4]));
        assert_eq!(numbers("/* a\n b */\nint b; // c"), Some(vec![3]));
        assert_eq!(
            numbers("\n#define A \\\n  // x\nint b;\n"),
            Some(vec![2, 4])
        );
        assert_eq!(numbers(""), Some(vec![]));
        for strange in ["int a; /* x\n */ int b;\n", "auto s = R\"(x)\";\n"] {
            assert_eq!(numbers(strange), None, "{strange}");
        }
    }

    #[test]
    fn texts_that_are_the_same() {
        let of = |text: &str| Standing::of(text.as_bytes()).expect("told");
        let it = of("int a;\nint b;\n");
        assert!(it.is_as(&of("// x\n\nint a; // y\n/*\n*/\nint b;\n")));
        assert!(!it.is_as(&of("int a;\nint c;\n")));
        assert!(!it.is_as(&of("int a; int b;\n")));
        assert!(!it.is_as(&of("int a;\n int b;\n")));
    }

    #[test]
    fn who_says_lines() {
        for text in [
            "#line 3\n",
            "a\n # 7 \"x.h\"\n",
            "%:line 3",
            "#/**/line 4\n",
            "#\\\nline 4\n",
            "/**/ #line 3\n",
            "\u{feff}#line 2 \"a.c\"\n",
            "# li\\\nne 7\n",
            "void f(void) { asm(\".loc 1 3\"); }",
        ] {
            assert!(says_lines(text.as_bytes()), "{text}");
            assert_eq!(numbers(text), None);
        }
        assert!(!says_lines(b"#define line 3\nint line;\n#\n"));
    }

    #[test]
    fn files_within_functions() {
        let names = |text: &str| {
            let found = Standing::of(text.as_bytes()).expect("told").inner_includes;
            let found = found
                .iter()
                .map(|name| String::from_utf8_lossy(name).into_owned());
            found.collect::<Vec<_>>()
        };
        let none: Vec<String> = Vec::new();
        for text in [
            "#include <a.h>\nint f() { return 1; }\n#include \"b.h\"\n",
            "namespace a {\n#include \"x.h\"\n}\n",
            "extern \"C\" {\n#include \"x.h\"\n}\n",
            "#if A\nint f() {\n#else\nint f(int x) {\n#endif\n}\n#include <a.h>\n",
            "enum class a : int {\n#include \"x.def\"\n};\n",
        ] {
            assert_eq!(names(text), none, "{text}");
        }
        assert_eq!(names("int f() {\n#include \"d/x.inc\"\n}\n"), ["x.inc"]);
        assert_eq!(
            names("void f(struct s *p) {\n#include <d/x.inc>\n}\n"),
            ["x.inc"]
        );
        assert_eq!(names("int f() {\n#include NAME\n}\n"), [""]);
        assert_eq!(names("int f() {\n"), [""]);
        assert_eq!(names("return 1; }\n"), [""]);
    }
}
