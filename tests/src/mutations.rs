//! Edits of other people's sources in C and C++, drawn at random: what tests of compiles in parts compile.
//!
//! A text is not parsed: functions are found by their shape, and an edit may make an error of a source. Whoever compiles it takes that edit back.

use crate::draw::Draw;
use std::fmt::Write as _;
use std::ops::Range;

/// A function's definition, or what looks like one.
#[derive(Clone, Debug)]
struct Function {
    /// Where its declaration begins.
    start: usize,
    name: Range<usize>,
    /// Between its braces.
    body: Range<usize>,
}

/// A source, as far as edits must know it.
struct Source<'t> {
    text: &'t str,
    /// By byte, whether it is neither of a comment, a literal nor a directive.
    is_code: Vec<bool>,
    /// Literals of text, without their quotes.
    strings: Vec<Range<usize>>,
    functions: Vec<Function>,
}

/// An edited text, and what was done.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The text.
    pub text: String,
    /// In words.
    pub what: String,
}

const ATTRIBUTES: &[&str] = &[
    "noinline",
    "always_inline",
    "cold",
    "hot",
    "pure",
    "noreturn",
    "visibility(\"hidden\")",
    "visibility(\"protected\")",
    "aligned(64)",
    "section(\".text.of_the_test\")",
    "used",
    "weak",
    "flatten",
    "optnone, noinline",
    "minsize",
    "target(\"avx2\")",
    "constructor",
    "no_stack_protector",
    "unused",
    "gnu_inline",
];

/// What stands before parentheses and braces, and is no function.
const CONTROL: &[&str] = &[
    "if",
    "for",
    "while",
    "switch",
    "catch",
    "return",
    "sizeof",
    "constexpr",
    "defined",
    "decltype",
    "alignas",
    "noexcept",
    "__attribute__",
];

/// Statements for a function's body, in which `@` stands for a number. What they mention is declared where it is used.
const STATEMENTS: &[(&str, &str)] = &[
    ("a store", "{ extern int repo_outside; repo_outside += @; }"),
    (
        "a volatile local",
        "{ volatile int repo_local = @; repo_local = repo_local + 1; }",
    ),
    (
        "a static of the function",
        "{ static int repo_static_@ = 3; extern int repo_outside; repo_outside += ++repo_static_@; }",
    ),
    (
        "a static that escapes",
        "{ static int repo_escapes_@ = 4; extern int *repo_where; repo_where = &repo_escapes_@; repo_escapes_@ += 1; }",
    ),
    (
        "a static that is only read",
        "{ static int repo_read_@ = @; extern int repo_outside; repo_outside += repo_read_@; }",
    ),
    (
        "a switch",
        "{ extern int repo_outside; switch (repo_outside) { case 0: repo_outside = 7; break; case 1: repo_outside = @; break; case 2: repo_outside = 5; break; case 3: repo_outside = 19; break; case 4: repo_outside = 2; break; case 5: repo_outside = 1; break; default: repo_outside = 4; } }",
    ),
    (
        "a jump table",
        "{ extern int repo_outside; extern void repo_call(int); switch (repo_outside) { case 0: repo_call(3); break; case 1: repo_outside = @; break; case 2: repo_call(repo_outside); repo_call(9); break; case 3: repo_outside *= 19; break; case 4: repo_call(@); break; case 5: repo_outside = 1; break; case 6: repo_outside /= 3; break; default: break; } }",
    ),
    (
        "a table of texts",
        "{ static const char *const repo_names[] = {\"one\", \"two@\", \"three\"}; extern const char *repo_text; extern int repo_outside; repo_text = repo_names[repo_outside % 3]; }",
    ),
    (
        "a table of texts that is written",
        "{ static const char *repo_texts_@[] = {\"one\", \"two@\", \"three\"}; extern const char *repo_text; extern int repo_outside; repo_texts_@[repo_outside & 1] = repo_text; repo_text = repo_texts_@[repo_outside % 3]; }",
    ),
    (
        "labels in a table",
        "{ static void *const repo_labels[] = {&&repo_a_@, &&repo_b_@}; extern int repo_outside; goto *repo_labels[repo_outside & 1]; repo_a_@: repo_outside = @; repo_b_@: ; }",
    ),
    (
        "real numbers",
        "{ extern double repo_real; repo_real = repo_real * 1.@ + 2.5; }",
    ),
    (
        "a vector of constants",
        "{ extern float repo_reals[4]; for (int repo_i = 0; repo_i < 4; repo_i++) repo_reals[repo_i] = repo_reals[repo_i] * 3.@f + (float)repo_i; }",
    ),
    (
        "a thread's own",
        "{ static __thread int repo_thread_@ = 2; extern int repo_outside; repo_outside += repo_thread_@++; }",
    ),
    (
        "printf that is puts",
        "{ __builtin_printf(\"text @\\n\"); }",
    ),
    (
        "a copy of constants",
        "{ extern char repo_bytes[32]; __builtin_memcpy(repo_bytes, \"0123456789abcdef@0123456789\", 20); }",
    ),
    ("inline assembly", "{ __asm__ volatile(\"nop # @\"); }"),
    (
        "an early return of nothing",
        "{ extern int repo_outside; if (repo_outside == @) __builtin_unreachable(); }",
    ),
    (
        "a trap",
        "{ extern int repo_outside; if (repo_outside == @) __builtin_trap(); }",
    ),
];

/// Statements of C++.
const STATEMENTS_OF_CXX: &[(&str, &str)] = &[
    (
        "an exception",
        "{ extern int repo_outside; if (repo_outside == @) throw @; }",
    ),
    (
        "a catch",
        "{ extern int repo_outside; extern void repo_call(int); try { repo_call(@); } catch (int repo_caught) { repo_outside = repo_caught; } }",
    ),
    (
        "a destructor",
        "{ struct Repo { ~Repo() { extern int repo_outside; repo_outside = @; } } repo_object; extern void repo_call(int); repo_call(1); }",
    ),
    (
        "a guarded static",
        "{ extern int repo_outside; static int repo_guarded = repo_outside + @; repo_outside = repo_guarded; }",
    ),
    (
        "a lambda",
        "{ extern int repo_outside; auto repo_lambda = [](int x) { return x * @ + 1; }; repo_outside = repo_lambda(repo_outside); }",
    ),
    (
        "a virtual function",
        "{ struct Repo { virtual int f(int x) { return x + @; } virtual ~Repo() {} }; extern void *repo_object; Repo repo_it; repo_object = &repo_it; }",
    ),
    (
        "a thread's own that is constructed",
        "{ extern int repo_outside; thread_local int repo_constructed = repo_outside * @; repo_outside = repo_constructed; }",
    ),
];

/// Definitions beside a function, and what its body then says of them.
const DEFINITIONS: &[(&str, &str, &str)] = &[
    (
        "a small static function",
        "static int repo_small_@(int x) { return x * @ + 1; }",
        "{ extern int repo_outside; repo_outside = repo_small_@(repo_outside); }",
    ),
    (
        "a static function that is not inlined",
        "static __attribute__((noinline)) int repo_slow_@(int x) { extern int repo_outside; for (int i = 0; i < x; i++) repo_outside += i * @; return repo_outside; }",
        "{ extern int repo_outside; repo_outside = repo_slow_@(repo_outside); }",
    ),
    (
        "a static function whose address is taken",
        "static int repo_taken_@(int x) { return x - @; }",
        "{ extern int (*repo_function)(int); repo_function = repo_taken_@; }",
    ),
    (
        "a static variable",
        "static int repo_variable_@ = 7;",
        "{ extern int repo_outside; repo_variable_@ += repo_outside; repo_outside = repo_variable_@; }",
    ),
    (
        "a static table",
        "static const int repo_table_@[4] = {1, 2, @, 4};",
        "{ extern int repo_outside; repo_outside = repo_table_@[repo_outside & 3]; }",
    ),
    (
        "a static that holds an address",
        "static int repo_target_@; static int *repo_pointer_@ = &repo_target_@;",
        "{ extern int repo_outside; *repo_pointer_@ = repo_outside; repo_outside += repo_target_@; }",
    ),
    (
        "two that call each other",
        "static int repo_odd_@(int); static int repo_even_@(int n) { extern int repo_outside; repo_outside++; return n ? repo_odd_@(n - 1) : 1; } static int repo_odd_@(int n) { return n ? repo_even_@(n - 1) : 0; }",
        "{ extern int repo_outside; repo_outside = repo_even_@(repo_outside); }",
    ),
    (
        "a constructor",
        "__attribute__((constructor)) static void repo_constructor_@(void) { extern int repo_outside; repo_outside = @; }",
        "",
    ),
    (
        "a marked variable",
        "__attribute__((used)) static int repo_marked_@ = @;",
        "",
    ),
    (
        "a weak function",
        "__attribute__((weak)) int repo_weak_@(int x) { return x + 2; }",
        "{ extern int repo_outside; repo_outside = repo_weak_@(repo_outside); }",
    ),
    (
        "a global that is a constant",
        "extern const int repo_constant_@; const int repo_constant_@ = @;",
        "{ extern int repo_outside; repo_outside = repo_constant_@; }",
    ),
    (
        "an inline function",
        "static inline __attribute__((always_inline)) int repo_always_@(int x) { static int repo_calls_@; return x + ++repo_calls_@; }",
        "{ extern int repo_outside; repo_outside = repo_always_@(repo_outside); }",
    ),
    (
        "a variable in a section",
        "__attribute__((section(\"of_the_test\"))) static int repo_placed_@ = 3;",
        "{ extern int repo_outside; repo_outside = repo_placed_@++; }",
    ),
    (
        "an alias",
        "int repo_aliased_@(int x) { return x + @; } extern int repo_alias_@(int) __attribute__((alias(\"repo_aliased_@\")));",
        "{ extern int repo_outside; repo_outside = repo_alias_@(repo_outside); }",
    ),
];

const TYPES: &[(&str, &str)] = &[
    ("int", "long"),
    ("int", "unsigned"),
    ("int", "short"),
    ("unsigned", "signed"),
    ("char", "signed char"),
    ("size_t", "int"),
    ("double", "float"),
    ("bool", "int"),
    ("long", "int"),
    ("u8", "signed char"),
    ("u32", "int"),
];

const OPERATORS: &[(&str, &str)] = &[
    (" < ", " <= "),
    (" > ", " >= "),
    (" == ", " != "),
    (" + ", " - "),
    (" && ", " || "),
    (" & ", " | "),
    ("++", "--"),
    (" += ", " -= "),
    (" << ", " >> "),
];

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// An edit of a text, of the kind that `draw` says; `None` if that kind has no place in it. `serial` tells what is new from what others made.
pub fn edit(text: &str, is_cxx: bool, serial: usize, draw: &mut Draw) -> Option<Edited> {
    let source = Source::read(text);
    let number = (100 + serial).to_string();
    let at = draw.below(source.functions.len().max(1));
    let function = source.functions.get(at)?.clone();
    let name = &text[function.name.clone()];
    let within = format!("in {name}");
    let (text, what) = match draw.below(20) {
        0 => (
            source.with(function.start..function.start, &format!("/* {number} */\n")),
            "a comment".to_owned(),
        ),
        1..=3 => {
            let all = [STATEMENTS, if is_cxx { STATEMENTS_OF_CXX } else { &[] }].concat();
            let (what, statement) = all[draw.below(all.len())];
            let statement = statement.replace('@', &number);
            (
                source.with(function.body.start..function.body.start, &statement),
                format!("{what} {within}"),
            )
        }
        4..=6 => {
            let (what, definition, statement) = DEFINITIONS[draw.below(DEFINITIONS.len())];
            let mut text = source.with(
                function.body.start..function.body.start,
                &statement.replace('@', &number),
            );
            // Another one may use it, too.
            text.insert_str(function.start, &(definition.replace('@', &number) + "\n"));
            (text, format!("{what} for {name}"))
        }
        7 => {
            // What an edit has added is used by one more.
            let added: Vec<&(&str, &str, &str)> = (DEFINITIONS.iter())
                .filter(|(_, _, statement)| !statement.is_empty())
                .collect();
            let (what, _, statement) = added[draw.below(added.len())];
            let known = 100 + draw.below(serial.max(1));
            let statement = statement.replace('@', &known.to_string());
            (
                source.with(function.body.start..function.body.start, &statement),
                format!("{what} is used {within}"),
            )
        }
        8 => source.statement(&function, draw)?,
        9 | 10 => {
            let numbers = source.numbers(&function.body);
            let place = numbers.get(draw.below(numbers.len().max(1)))?.clone();
            let old: u64 = text[place.clone()].parse().ok()?;
            (
                source.with(place, &(old + 1 + draw.below(3) as u64).to_string()),
                format!("a number {within}"),
            )
        }
        11 => {
            let numbers = source.numbers(&(0..text.len()));
            let place = numbers.get(draw.below(numbers.len().max(1)))?.clone();
            let old: u64 = text[place.clone()].parse().ok()?;
            (
                source.with(place, &(old + 1).to_string()),
                "a number somewhere".to_owned(),
            )
        }
        12 => {
            let place = source
                .strings
                .get(draw.below(source.strings.len().max(1)))?
                .clone();
            (
                source.with(place.end..place.end, &number),
                "a text".to_owned(),
            )
        }
        13 | 14 => {
            let attribute = draw.of(ATTRIBUTES);
            (
                source.with(
                    function.start..function.start,
                    &format!("__attribute__(({attribute})) "),
                ),
                format!("{attribute} for {name}"),
            )
        }
        15 => {
            let (from, to) = TYPES[draw.below(TYPES.len())];
            (
                source.word(function.start..function.body.end, from, to, draw)?,
                format!("{to} for {from} {within}"),
            )
        }
        16 => {
            let (from, to) = OPERATORS[draw.below(OPERATORS.len())];
            let places = source.places(&function.body, from);
            let place = *places.get(draw.below(places.len().max(1)))?;
            (
                source.with(place..place + from.len(), to),
                format!("{to} for {from} {within}"),
            )
        }
        17 => match text[function.start..function.name.start].starts_with("static ") {
            true => (
                source.with(function.start..function.start + 7, ""),
                format!("{name} is not static"),
            ),
            false => (
                source.with(
                    function.start..function.start,
                    ["static ", "inline ", "static inline "][draw.below(3)],
                ),
                format!("{name} is static, or inline"),
            ),
        },
        18 => {
            let other = source.functions.get(at + 1)?;
            if other.start < function.body.end {
                return None;
            }
            let (first, second) = (
                function.start..function.body.end + 1,
                other.start..other.body.end + 1,
            );
            let mut out = text[..first.start].to_owned();
            for part in [second.clone(), first.end..second.start, first] {
                out += &text[part];
            }
            out += &text[second.end..];
            (out, format!("{name} behind the next"))
        }
        _ => {
            let places = source.places(&function.body, "int ");
            let place = *places.get(draw.below(places.len().max(1)))? + 4;
            let end = text[place..].bytes().position(|byte| !is_word(byte))?;
            let old = &text[place..place + end];
            if old.is_empty() {
                return None;
            }
            let mut out = text.to_owned();
            for place in source.words(&function.body, old).into_iter().rev() {
                out.insert_str(place + old.len(), &number);
            }
            (out, format!("{old} has another name {within}"))
        }
    };
    Some(Edited { text, what })
}

impl<'t> Source<'t> {
    fn read(text: &'t str) -> Source<'t> {
        let mut source = Source {
            text,
            is_code: Vec::new(),
            strings: Vec::new(),
            functions: Vec::new(),
        };
        source.lex();
        source.find_functions();
        source
    }

    fn lex(&mut self) {
        let bytes = self.text.as_bytes();
        self.is_code = vec![true; bytes.len()];
        let mut at = 0;
        let mut is_line_new = true;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let size = if rest.starts_with(b"//") {
                rest.iter()
                    .position(|byte| *byte == b'\n')
                    .unwrap_or(rest.len())
            } else if rest.starts_with(b"/*") {
                memchr_end(rest, b"*/")
            } else if rest[0] == b'#' && is_line_new {
                let mut end = 0;
                loop {
                    let line = rest[end..].iter().position(|byte| *byte == b'\n');
                    let Some(line) = line else { break rest.len() };
                    end += line + 1;
                    if !rest[..end - 1].ends_with(b"\\") {
                        break end;
                    }
                }
            } else if rest[0] == b'"'
                || rest[0] == b'\'' && !(at > 0 && bytes[at - 1].is_ascii_digit())
            {
                let mut end = 1;
                while end < rest.len() && rest[end] != rest[0] && rest[end] != b'\n' {
                    end += if rest[end] == b'\\' { 2 } else { 1 };
                }
                let end = end.min(rest.len() - 1);
                if rest[0] == b'"' {
                    self.strings.push(at + 1..at + end);
                }
                end + 1
            } else {
                is_line_new = rest[0] == b'\n' || is_line_new && rest[0].is_ascii_whitespace();
                at += 1;
                continue;
            };
            let size = size.max(1).min(rest.len());
            self.is_code[at..at + size].fill(false);
            is_line_new = rest[size - 1] == b'\n';
            at += size;
        }
    }

    fn find_functions(&mut self) {
        let bytes = self.text.as_bytes();
        let code: Vec<usize> = (0..bytes.len())
            .filter(|at| self.is_code[*at] && !bytes[*at].is_ascii_whitespace())
            .collect();
        let mut opened = Vec::new();
        let mut braces = Vec::new();
        // By the place of a closing parenthesis, that of the opening one.
        let mut partner = vec![0; code.len()];
        for (number, at) in code.iter().enumerate() {
            match bytes[*at] {
                b'(' => opened.push(number),
                b')' => partner[number] = opened.pop().unwrap_or_default(),
                b'{' => braces.push(number),
                b'}' => {
                    let Some(open) = braces.pop() else { continue };
                    if let Some(function) = self.function(&code, &partner, open, *at) {
                        self.functions.push(function);
                    }
                }
                _ => {}
            }
        }
        self.functions.sort_by_key(|function| function.start);
    }

    fn function(
        &self,
        code: &[usize],
        partner: &[usize],
        open: usize,
        end: usize,
    ) -> Option<Function> {
        let bytes = self.text.as_bytes();
        let close = open.checked_sub(1).filter(|at| bytes[code[*at]] == b')')?;
        let paren = partner[close];
        let last = code[paren.checked_sub(1)?];
        let start = self.text.as_bytes()[..=last]
            .iter()
            .rposition(|byte| !is_word(*byte))
            .map_or(0, |at| at + 1);
        let name = &self.text[start..=last];
        if name.is_empty() || CONTROL.contains(&name) || name.as_bytes()[0].is_ascii_digit() {
            return None;
        }
        // Back to what ended before it.
        let mut begin = start;
        for at in (0..start).rev() {
            let is_end = self.is_code[at] && matches!(bytes[at], b';' | b'{' | b'}' | b'(' | b',')
                || !self.is_code[at] && bytes[at] == b'\n';
            if is_end {
                break;
            }
            if self.is_code[at] && !bytes[at].is_ascii_whitespace() {
                begin = at;
            }
        }
        Some(Function {
            start: begin,
            name: start..last + 1,
            body: code[open] + 1..end,
        })
    }

    /// The text with something else at this place.
    fn with(&self, place: Range<usize>, new: &str) -> String {
        let mut out = String::with_capacity(self.text.len() + new.len());
        let _ = write!(
            out,
            "{}{new}{}",
            &self.text[..place.start],
            &self.text[place.end..]
        );
        out
    }

    /// Where in code a text stands.
    fn places(&self, within: &Range<usize>, text: &str) -> Vec<usize> {
        let found = self.text[within.clone()].match_indices(text);
        found
            .map(|(at, _)| within.start + at)
            .filter(|at| self.is_code[*at])
            .collect()
    }

    fn words(&self, within: &Range<usize>, word: &str) -> Vec<usize> {
        let bytes = self.text.as_bytes();
        let mut places = self.places(within, word);
        places.retain(|at| {
            !is_word(bytes[at - 1])
                && bytes
                    .get(at + word.len())
                    .is_none_or(|byte| !is_word(*byte))
        });
        places
    }

    fn word(&self, within: Range<usize>, from: &str, to: &str, draw: &mut Draw) -> Option<String> {
        let within = within.start.max(1)..within.end;
        let places = self.words(&within, from);
        let place = *places.get(draw.below(places.len().max(1)))?;
        Some(self.with(place..place + from.len(), to))
    }

    /// Whole decimal numbers.
    fn numbers(&self, within: &Range<usize>) -> Vec<Range<usize>> {
        let bytes = self.text.as_bytes();
        let mut found = Vec::new();
        let mut at = within.start.max(1);
        while at < within.end {
            let is_first = self.is_code[at] && bytes[at].is_ascii_digit();
            if !is_first || is_word(bytes[at - 1]) || bytes[at - 1] == b'.' {
                at += 1;
                continue;
            }
            let size = bytes[at..]
                .iter()
                .take_while(|byte| is_word(**byte))
                .count();
            let place = at..at + size;
            at += size;
            let is_plain = bytes[place.clone()].iter().all(u8::is_ascii_digit) && size < 10;
            let is_octal = size > 1 && bytes[place.start] == b'0';
            if is_plain && !is_octal && bytes.get(place.end) != Some(&b'.') {
                found.push(place);
            }
        }
        found
    }

    /// Without a statement of a function, or with it twice.
    fn statement(&self, function: &Function, draw: &mut Draw) -> Option<(String, String)> {
        let ends: Vec<usize> = self.places(&function.body, ";");
        let end = *ends.get(draw.below(ends.len().max(1)))?;
        let bytes = self.text.as_bytes();
        let before = (function.body.start..end)
            .rev()
            .find(|at| self.is_code[*at] && matches!(bytes[*at], b';' | b'{' | b'}' | b')' | b':'));
        let place = before.map_or(function.body.start, |at| at + 1)..end + 1;
        let new = self.text[place.clone()].repeat(2 * draw.below(2));
        let how = if new.is_empty() {
            "goes"
        } else {
            "is there twice"
        };
        let name = &self.text[function.name.clone()];
        Some((
            self.with(place, &new),
            format!("a statement of {name} {how}"),
        ))
    }
}

/// The size up to and with `end`.
fn memchr_end(bytes: &[u8], end: &[u8]) -> usize {
    let found = bytes
        .windows(end.len())
        .skip(2)
        .position(|window| window == end);
    found.map_or(bytes.len(), |at| at + 2 + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "#include <a.h>\n#define F(x) \\\n { x }\n/* int no(void) { } */\nstatic int\nf(int a)\n{\n  if (a) { return 1; }\n  return a + 22; // g() {\n}\nchar *s = \"g() { }\";\nint g(void) { int b = 3; return b; }\n";

    #[test]
    fn functions_are_found_by_their_shape() {
        let source = Source::read(TEXT);
        let names: Vec<_> = (source.functions.iter())
            .map(|f| &TEXT[f.name.clone()])
            .collect();
        assert_eq!(names, ["f", "g"]);
        assert!(TEXT[source.functions[0].start..].starts_with("static int\nf("));
        assert!(TEXT[source.functions[1].start..].starts_with("int g("));
        assert_eq!(source.strings.len(), 1);
        assert_eq!(source.numbers(&source.functions[0].body).len(), 2);
    }

    #[test]
    fn edits_are_decided_by_the_seed_and_any_text_can_be_edited() {
        let (mut a, mut b) = (Draw(7), Draw(7));
        let mut made = 0;
        for serial in 0..300 {
            let edited = edit(TEXT, true, serial, &mut a);
            let again = edit(TEXT, true, serial, &mut b);
            assert_eq!(
                edited.as_ref().map(|e| &e.text),
                again.as_ref().map(|e| &e.text)
            );
            made += usize::from(edited.is_some_and(|edited| edited.text != TEXT));
        }
        assert!(made > 150, "{made}");
        for text in [
            "",
            "{",
            "}",
            "f() {",
            "\"",
            "'",
            "/*",
            "#\\",
            ") {",
            "x(){}",
            "é() { \"é\" }",
        ] {
            for serial in 0..60 {
                edit(text, false, serial, &mut a);
            }
        }
    }
}
