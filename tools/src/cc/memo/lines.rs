//! Whether it matters on which line something stands: where it does not, a comment or a blank line more makes no other object.
//!
//! (What the options leave is in [`care`](super::care).) A text may ask for its lines, by `__LINE__` or what macros make of it. So the macros of a compile are
//! followed backwards to all that lead there ([`macros`](super::macros)). Definitions and uses behind an `#ifndef` of what the command line defines for good
//! (`NDEBUG`, mostly, and so `assert`) do not count, nor does a macro with parameters where none can be. A text whose own words, outside of definitions, are none of these has
//! no lines in the object.
//!
//! What a function is called with by default may ask for the line of the call (`__builtin_LINE`), of which the caller's text shows nothing: where that is anywhere,
//! all lines matter. And clang names a lambda and a type without a name by their places, for `__PRETTY_FUNCTION__`: where the plugin has seen all texts
//! of the object, and nobody may have evaluated such a name, it is known that none is there. Whether somebody may is followed through the macros as well.

use super::comments::Keeps;
use super::functions::NOT_OF_DECLARATIONS;
use super::macros::{
    Leading, Macro, Macros, Shape, TextWords, hash, renames, words, words_are_of_names,
};
use super::nameless::{has_nameless, tags};
use super::tokens::{Lexer, Token};
use crate::cc::classify::{Language, Word};
use crate::cc::compiler::Family;
use crate::cc::options::Meaning;
use memchr::memmem;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

/// What asks for the line of a call, where a function has it as a default argument.
const OF_CALLS: [&[u8]; 3] = [
    b"__builtin_LINE",
    b"__builtin_COLUMN",
    b"__builtin_source_location",
];

/// What these begin with, if they are put together.
const BEGINNINGS_OF_CALLS: [&[u8]; 2] = [b"__builtin_", b"__builtin"];

const LINE: &[u8] = b"__LINE__";

/// What a text says of lines, under what the command line defines ([`Lines::context`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextLines {
    macros: Vec<Macro>,
    undefined: BTreeSet<u64>,
    of_calls: bool,
    /// It may spell a name in more than one way.
    has_escapes: bool,
    /// Words outside of definitions, in their order.
    words: Vec<Used>,
    has_nameless: bool,
    /// What types may be called.
    tags: BTreeSet<u64>,
    /// It may give a function another name than the one that it is declared by.
    renames: bool,
    /// It asks for the names of functions with all their types, itself and not by a macro.
    says_names: bool,
}

/// A word outside of definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Used {
    word: u64,
    /// What would have to be undefined for it to count.
    unless: Option<u64>,
    /// Never is there a parenthesis behind it, whatever macros make of what stands there.
    is_uncalled: bool,
}

/// Macros that may make something else of what they stand in, by their names.
#[derive(Debug, Default)]
pub struct Reaching<'l> {
    /// Those of any kind, as [hashes](hash).
    pub all: FxHashSet<u64>,
    /// Those that may make of a declaration another one than its words say.
    pub of_declarations: FxHashSet<&'l [u8]>,
    /// Those that may reach out of the body that they stand in.
    pub of_bodies: FxHashSet<&'l [u8]>,
}

/// Who asks for the names of functions with all their types.
#[derive(Debug)]
pub enum OfNames<'l> {
    /// A text, or a macro that one uses which counts.
    Somebody,
    /// Who uses one of these macros outside of its definition; none of the texts that count does.
    Users(FxHashSet<&'l [u8]>),
}

/// A conditional in which a text is read.
#[derive(Clone, Debug)]
struct Group {
    /// By what definition this part of it is left out.
    left_out_by: Option<u64>,
    /// By what definition the parts behind it will be.
    others_by: Option<u64>,
}

/// The texts of a compile, as far as they ask for lines.
#[derive(Clone, Debug)]
pub struct Lines {
    given: Given,
    texts: Vec<TextLines>,
}

/// The texts of a compile with the macros of all, which can be followed from one to the next.
pub struct Followed<'l> {
    lines: &'l Lines,
    /// What a text undefines that would else be defined for good.
    undefined: FxHashSet<u64>,
    /// All macros.
    all: Macros<'l>,
    /// Those that count; `None` if all do.
    counting: Option<Macros<'l>>,
}

/// What the command line says.
#[derive(Clone, Debug)]
struct Given {
    /// What it defines, and nothing undefines there.
    defined: BTreeSet<u64>,
    /// Lambdas and types without names are named by their places.
    names_places: bool,
}

/// A text that is read.
#[derive(Debug)]
pub struct Reading<'l> {
    given: &'l Given,
    found: TextLines,
    words: FxHashSet<Used>,
    groups: Vec<Group>,
    /// Whether its conditionals are understood.
    is_plain: bool,
    /// Whether its words count.
    counts: bool,
    /// The last token of the line before.
    last: Vec<u8>,
}

/// A text that was read.
#[derive(Clone, Copy, Debug)]
pub struct TextNumber(usize);

impl TextNumber {
    /// Its place in [`Followed::keep`].
    pub fn index(self) -> usize {
        self.0
    }
}

impl Lines {
    /// Of a compile with these options.
    pub fn new(words: &[Word], family: Family, language: Language) -> Lines {
        let mut defined = BTreeSet::new();
        for word in words.iter().filter(|word| word.meaning == Meaning::Macro) {
            let option = word.option.as_bytes();
            let text = match word.arguments.first() {
                Some(argument) => argument.as_bytes(),
                None => option.get(2..).unwrap_or_default(),
            };
            let end = text.iter().position(|byte| matches!(byte, b'=' | b'('));
            let name = hash(&text[..end.unwrap_or(text.len())]);
            if option.starts_with(b"-D") || option.starts_with(b"--define-macro") {
                defined.insert(name);
            } else {
                defined.remove(&name);
            }
        }
        Lines {
            given: Given {
                defined,
                names_places: family == Family::Clang && language == Language::Cxx,
            },
            texts: Vec::new(),
        }
    }

    /// All that decides, beside a text itself, what is found in it.
    pub fn context(&self) -> Vec<u64> {
        let names_places = u64::from(self.given.names_places);
        let defined = self.given.defined.iter().copied();
        std::iter::once(names_places).chain(defined).collect()
    }

    /// Begins to read a text. `counts`: it may be one whose lines do not matter.
    pub fn begin(&self, text: &[u8], counts: bool) -> Reading<'_> {
        // Where compilers may see other literals than are seen here, directives may be none.
        let is_in = |what: &[u8]| memmem::find(text, what).is_some();
        Reading {
            given: &self.given,
            found: TextLines::default(),
            words: FxHashSet::default(),
            groups: Vec::new(),
            is_plain: ![&b"R\""[..], b"??"].into_iter().any(is_in),
            counts,
            last: Vec::new(),
        }
    }

    /// Reads a text in which no word goes on in the next line.
    pub fn read(&self, joined: &[u8], counts: bool) -> TextLines {
        let mut reading = self.begin(joined, counts);
        let mut lexer = Lexer::new(joined);
        let mut line = Vec::new();
        while lexer.line(&mut line) {
            reading.read(&line);
        }
        reading.end()
    }

    /// Adds what was found in a text.
    pub fn add(&mut self, found: TextLines) -> TextNumber {
        self.texts.push(found);
        TextNumber(self.texts.len() - 1)
    }

    /// Brings the macros of all texts that have been added together.
    pub fn follow(&self) -> Followed<'_> {
        let texts = &self.texts;
        let gather = move || {
            let words = texts.iter().flat_map(|text| &text.words);
            words.map(|used| used.word).collect()
        };
        let words: TextWords<'_> = Rc::new(LazyCell::new(Box::new(gather)));
        let undefined = texts.iter().flat_map(|text| text.undefined.iter().copied());
        let undefined = undefined.collect();
        let all: Vec<&Macro> = texts.iter().flat_map(|text| &text.macros).collect();
        let counting = all.iter().copied();
        let counting: Vec<&Macro> = counting
            .filter(|it| counts(it.unless, &undefined))
            .collect();
        let counting =
            (counting.len() < all.len()).then(|| Macros::new(counting, Rc::clone(&words)));
        Followed {
            lines: self,
            undefined,
            all: Macros::new(all, words),
            counting,
        }
    }
}

impl<'l> Followed<'l> {
    /// The macros that count.
    fn counting(&self) -> &Macros<'l> {
        self.counting.as_ref().unwrap_or(&self.all)
    }

    /// The macros of all texts, whatever is defined; `None` if some function may have another name than the one that it is declared by.
    pub fn reaching(&self) -> Option<Reaching<'l>> {
        if self.renames() {
            return None;
        }
        let macros = &self.all;
        let of_declarations = macros.leading(NOT_OF_DECLARATIONS, |it| it.shape != Shape::Plain);
        let of_bodies = macros.leading(REACHING_OUT, |it| it.shape == Shape::Open);
        Some(Reaching {
            all: macros.names(),
            of_declarations: macros.names_in(&of_declarations.all),
            of_bodies: macros.names_in(&of_bodies.all),
        })
    }

    /// Whether some function may have another name than the one that it is declared by, as a text that counts says, or by a macro that it
    /// uses, or puts together: then the macro's name begins with a word of such a text.
    fn renames(&self) -> bool {
        let macros = &self.all;
        let said = self.lines.texts.iter().any(|text| text.renames);
        let mut found: FxHashSet<&[u8]> = FxHashSet::default();
        let mut todo: Vec<&Macro> = macros.all().filter(|it| it.renames).collect();
        while let Some(it) = todo.pop() {
            if found.insert(&it.name) {
                todo.extend(macros.users(hash(&it.name)));
            }
        }
        // (`_` is a word of many sources.)
        let ends = |name: &[u8]| 3.min(name.len())..=name.len();
        let begins = |name: &[u8]| ends(name).any(|end| macros.is_of_texts(hash(&name[..end])));
        said || found.into_iter().any(begins)
    }

    /// What each text must keep, of all that have been added. `tells_places`: a name that says where something stands may be in the object.
    pub fn keep(&self, tells_places: bool) -> Vec<Keeps> {
        let (texts, undefined, macros) = (&self.lines.texts, &self.undefined, self.counting());
        let of_calls = macros.leading(&OF_CALLS, |_| false);
        let is_of_calls = (texts.iter())
            .any(|text| text.of_calls || text.has_escapes || text.uses(&of_calls, undefined));
        let of_lines = macros.leading(&[LINE], |_| false);
        let names_places = self.lines.given.names_places && tells_places;
        let (of_nameless, all): (Leading, FxHashSet<u64>) = match names_places {
            true => (macros.leading(&[], |it| it.has_nameless), macros.names()),
            false => Default::default(),
        };
        let has_nameless =
            |text: &TextLines| text.has_nameless || text.tags.iter().any(|tag| all.contains(tag));
        let matters = |text: &TextLines| {
            is_of_calls
                || (names_places && has_nameless(text))
                || text.uses(&of_lines, undefined)
                || text.uses(&of_nameless, undefined)
        };
        let keeps = |text| match matters(text) {
            true => Keeps::Places,
            false => Keeps::Order,
        };
        texts.iter().map(keeps).collect()
    }

    /// Who may ask for the names of functions with all their types, of all texts that have been added.
    pub fn of_names(&self) -> OfNames<'l> {
        let macros = self.counting();
        let of_texts = macros.leading(&[], |it| it.says_names);
        let says = |text: &TextLines| text.says_names || text.uses(&of_texts, &self.undefined);
        if self.lines.texts.iter().any(says) {
            return OfNames::Somebody;
        }
        let of_others = macros.leading_anywhere(|it| it.says_names);
        OfNames::Users(macros.names_in(&of_others.all))
    }
}

/// Whether what counts unless something is defined does.
fn counts(unless: Option<u64>, undefined: &FxHashSet<u64>) -> bool {
    unless.is_none_or(|it| undefined.contains(&it))
}

impl TextLines {
    /// Forgets that it asks for names of functions: it does so for assertions only, which print them when they fail and make nothing else of them.
    pub fn asserts_by_names(&mut self) {
        self.says_names = false;
        for it in &mut self.macros {
            it.says_names = false;
        }
    }

    /// Whether it uses one of these outside of definitions, if it is a text that counts.
    fn uses(&self, macros: &Leading, undefined: &FxHashSet<u64>) -> bool {
        !macros.all.is_empty()
            && self.words.iter().any(|used| {
                macros.all.contains(&used.word)
                    && !(used.is_uncalled && macros.called.contains(&used.word))
                    && counts(used.unless, undefined)
            })
    }
}

impl Reading<'_> {
    /// What was found, when all lines have been read.
    pub fn end(mut self) -> TextLines {
        self.found.words = self.words.into_iter().collect();
        self.found.words.sort_unstable();
        self.found
    }

    /// A line of the text.
    pub fn read(&mut self, line: &[Token<'_>]) {
        let unless = self.groups.iter().find_map(|group| group.left_out_by);
        self.found.has_escapes |= self.counts && line.contains(&Token::Other(b'\\'));
        match line {
            [
                Token::Other(b'#'),
                Token::Word(b"define"),
                Token::Word(_),
                ..,
            ] => self.define(&line[2..], unless),
            [
                Token::Other(b'#'),
                Token::Word(b"undef"),
                Token::Word(name),
                ..,
            ] => {
                self.found.undefined.insert(hash(name));
            }
            [Token::Other(b'#'), Token::Word(name), rest @ ..] => {
                self.conditional(name, rest);
                // (What is asked behind a part that is left out is asked all the same.)
                self.use_words(rest, unless.filter(|_| !name.starts_with(b"el")), false);
                self.found.renames |= self.counts && renames(rest);
            }
            _ => {
                self.use_words(line, unless, true);
                if self.counts && self.given.names_places {
                    self.found.has_nameless |= has_nameless(&self.last, line);
                    self.found.tags.extend(tags(line).map(hash));
                    self.last = match line.last() {
                        Some(Token::Word(word)) => word.to_vec(),
                        Some(Token::Other(byte)) => vec![*byte],
                        _ => Vec::new(),
                    };
                }
            }
        }
    }

    fn is_defined(&self, name: &[u8]) -> Option<u64> {
        let name = hash(name);
        (self.is_plain && self.given.defined.contains(&name)).then_some(name)
    }

    fn conditional(&mut self, directive: &[u8], rest: &[Token<'_>]) {
        // Whether it asks that something is defined, or that it is not.
        let question = match (directive, rest) {
            (b"ifdef", [Token::Word(name), ..]) => Some((*name, true)),
            (b"ifndef", [Token::Word(name), ..]) => Some((*name, false)),
            (b"if", [Token::Word(b"defined"), asked @ ..]) => asks_for(asked).map(|it| (it, true)),
            (b"if", [Token::Other(b'!'), Token::Word(b"defined"), asked @ ..]) => {
                asks_for(asked).map(|it| (it, false))
            }
            _ => None,
        };
        match directive {
            b"if" | b"ifdef" | b"ifndef" => {
                let known = question.and_then(|(name, is)| Some((self.is_defined(name)?, is)));
                self.groups.push(Group {
                    left_out_by: known.and_then(|(name, is)| (!is).then_some(name)),
                    others_by: known.and_then(|(name, is)| is.then_some(name)),
                });
            }
            b"else" | b"elif" | b"elifdef" | b"elifndef" => match self.groups.last_mut() {
                Some(group) => group.left_out_by = group.others_by,
                None => self.is_plain = false,
            },
            b"endif" => {
                // (Without one, there is none that would be left out.)
                let had_group = self.groups.pop().is_some();
                self.is_plain &= had_group;
            }
            _ => {}
        }
    }

    fn define(&mut self, from_name: &[Token<'_>], unless: Option<u64>) {
        self.found.of_calls |= words_are_of_calls(&from_name[1..]);
        let found = Macro::new(from_name, unless, self.given.names_places);
        self.found.macros.extend(found);
    }

    /// `is_code`: it is no directive.
    fn use_words(&mut self, line: &[Token<'_>], unless: Option<u64>, is_code: bool) {
        self.found.of_calls |= words_are_of_calls(line);
        self.found.says_names |= words_are_of_names(line);
        if !self.counts {
            return;
        }
        self.found.renames |= renames(line);
        for (at, token) in line.iter().enumerate() {
            if let Token::Word(word) = token
                && !word[0].is_ascii_digit()
            {
                self.words.insert(Used {
                    word: hash(word),
                    unless,
                    is_uncalled: is_code && is_uncalled(line.get(at + 1)),
                });
            }
        }
    }
}

/// Whether what stands behind a word keeps parentheses from it. (Behind a word there may be one when that is gone, and the end of a line or of
/// what a macro is given is not the end.)
fn is_uncalled(next: Option<&Token<'_>>) -> bool {
    match next {
        Some(Token::Other(byte)) => !matches!(byte, b'(' | b')' | b',' | b'#' | b'\\'),
        Some(Token::Literal(..)) => true,
        Some(Token::Word(_) | Token::Paste) | None => false,
    }
}

/// Words that reach out of the body of a function where a macro makes them: those of [`NOT_OF_BODIES`](super::functions::NOT_OF_BODIES) without statements in assembly, which do not.
const REACHING_OUT: &[&[u8]] = &[
    b"_Noreturn",
    b"_Pragma",
    b"__COUNTER__",
    b"__attribute",
    b"__attribute__",
    b"__declspec",
    b"__pragma",
    b"extern",
    b"friend",
];

/// `X`, `(X)`, and nothing more.
fn asks_for<'t>(asked: &[Token<'t>]) -> Option<&'t [u8]> {
    match asked {
        [Token::Word(name)] => Some(name),
        [Token::Other(b'('), Token::Word(name), Token::Other(b')')] => Some(name),
        _ => None,
    }
}

fn words_are_of_calls(tokens: &[Token<'_>]) -> bool {
    let mut words = words(tokens).filter(|word| word.starts_with(b"__builtin"));
    words.any(|word| OF_CALLS.contains(&word) || BEGINNINGS_OF_CALLS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::classify::{Action, classify};
    use std::ffi::OsString;

    fn of(family: Family, line: &str) -> Vec<Word> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        match classify(family, &args) {
            Action::Compile(compile) => compile.words,
            other => panic!("{other:?}"),
        }
    }

    /// Whether the lines of the last of these texts matter.
    fn matters(family: Family, options: &str, texts: &[&str]) -> bool {
        let words = of(family, &format!("{options} -c a.cc"));
        let mut lines = Lines::new(&words, family, Language::Cxx);
        let mut last = None;
        for text in texts {
            let found = lines.read(text.as_bytes(), true);
            last = Some(lines.add(found));
        }
        lines.follow().keep(true)[last.expect("a text").index()] == Keeps::Places
    }

    #[test]
    fn whoever_asks_for_lines() {
        const ASSERT: &str = "#undef assert\n#ifdef NDEBUG\n# define assert(x) ((void)0)\n#else\n\
            # define assert(x) ((x) ? 0 : fail(#x, __LINE__))\n#endif\n";
        let user = "void f(int x) { assert(x); }\n";
        assert!(matters(Family::Gcc, "-O2", &[ASSERT, user]));
        assert!(!matters(Family::Gcc, "-DNDEBUG", &[ASSERT, user]));
        assert!(matters(Family::Gcc, "-DNDEBUG -UNDEBUG", &[ASSERT, user]));
        assert!(matters(
            Family::Gcc,
            "-DNDEBUG",
            &["#undef NDEBUG\n", ASSERT, user]
        ));
        assert!(!matters(
            Family::Gcc,
            "-O2",
            &[ASSERT, "int x;\n#define F(x) assert(x)\n"]
        ));
        for text in [
            "int x = __LINE__;",
            "#define A B\n#define B __LINE__\nint x = A;",
            "#define CAT(a, b) a##b\nint x = CAT(__LI, NE__);",
            "#define CAT(a, b) a##b\n#define F CAT(__LI, NE__)\nint x = F;",
            "#define CAT(a, b) a##b\n#define L1a __LINE__\nint x = CAT(L, 1a);",
            "#define CAT(a, b) a##b\n#define FAIL __LINE__\nint x = CAT(FAI, L), y = CAT(FAIL,);",
            "#define CAT(a, b) a##b\n#define FAIL __LINE__\nint x = CAT(CAT(FA, I), L);",
            "#define C(c) c##L\n#define FAIL __LINE__\n#define M C(FAI)\nint x = M;",
            "#define L(x) __LINE__ + x\n#define F(x) x\nint x = F(L)(1);",
            "#define L(x) __LINE__ + x\nint x = L\n(1);",
            "#define L(x) __LINE__ + x\n#define A(x, y) x y\nint x = A(L, (1));",
            "#define L(x) __LINE__ + x\n#define P (1)\n#define F(x) G(x)\n#define G(x) x\nint x = F(L P);",
            "#define L (x) + __LINE__\nint y = L;",
            "#define L(x) __LINE__ + x\n#undef L\n#define L __LINE__\nint y = L;",
            "#define F(x, ...) __VA_OPT__(__LI)##x\nint x = F(NE__, 1);",
            "#define CAT(a, b) a##b\nint f(int l = CAT(__builtin_LI, NE)());",
            "#define P __builtin_LI##NE\nint f(int l = P());",
            "int x = \\u00e9L;",
            "#define LOG_INFO __LINE__\n#define LOG(level) LOG_##level\nint x = LOG(INFO);",
            "#if __LINE__ > 5\n#endif",
            "#ifdef NDEBUG\n#elif __LINE__\n#endif",
            "int f(int line = __builtin_LINE());",
            "#ifdef X\n#else\nint x = __LINE__;\n#endif",
        ] {
            assert!(matters(Family::Gcc, "-DNDEBUG", &[text]), "{text}");
        }
        for text in [
            "// __LINE__",
            "char *s = \"__LINE__\";",
            "#define L __LINE__\n#define C(x) x##ULL\nlong x = C(5);",
            "#ifndef NDEBUG\nint x = __LINE__;\n#endif",
            "#if !defined(NDEBUG)\nint x = __LINE__;\n#else\nint y;\n#endif",
            "#if defined NDEBUG\n#if X\n#endif\n#else\nint x = __LINE__;\n#endif",
            "void f(int line);",
            // What nothing is there to put together of.
            "#define CAT(a, b) a##b\n#define FAIL __LINE__\nint CAT(x, y);",
            "#define C(c) c##L\n#define FAIL __LINE__\n#define M C(5)\nlong x = M;",
            // What is no macro without a parenthesis.
            "#define COVER(x) f(x, __LINE__)\nenum { COVER = 1 }; int x = y.COVER; char *z = COVER \"\";",
        ] {
            assert!(!matters(Family::Gcc, "-DNDEBUG", &[text]), "{text}");
        }
        // A default argument says nothing where it is used.
        let texts = ["int f(int line = __builtin_LINE());", "int x = f();"];
        assert!(matters(Family::Gcc, "-O2", &texts));
    }

    /// Who asks for names of functions: `None` for somebody, or the macros, by which somebody might.
    fn of_names(options: &str, texts: &[(&str, bool)]) -> Option<Vec<String>> {
        let words = of(Family::Clang, &format!("{options} -c a.cc"));
        let mut lines = Lines::new(&words, Family::Clang, Language::Cxx);
        for (text, counts) in texts {
            let found = lines.read(text.as_bytes(), *counts);
            lines.add(found);
        }
        match lines.follow().of_names() {
            OfNames::Somebody => None,
            OfNames::Users(names) => {
                let names = names
                    .into_iter()
                    .map(|name| name.escape_ascii().to_string());
                let mut names: Vec<String> = names.collect();
                names.sort();
                Some(names)
            }
        }
    }

    #[test]
    fn whoever_asks_for_names_of_functions() {
        const LOG: &str = "#define WHERE __PRETTY_FUNCTION__\n#define LOG(x) log(x, WHERE)\n";
        let nobody = Some(Vec::new());
        let by_log = Some(vec!["LOG".to_owned(), "WHERE".to_owned()]);
        assert_eq!(
            of_names("-O2", &[("int x;\n#define A B\nint y = A;", true)]),
            nobody
        );
        for counts in [false, true] {
            let text = "auto n = sizeof(__PRETTY_FUNCTION__);";
            assert_eq!(of_names("-O2", &[(text, counts)]), None);
        }
        // Who has a macro for it does not ask, until it is used.
        assert_eq!(
            of_names("-O2", &[(LOG, true), ("void f() { g(); }", true)]),
            by_log
        );
        assert_eq!(
            of_names("-O2", &[(LOG, true), ("void f() { LOG(1); }", true)]),
            None
        );
        // (Of a text that does not count it is not known here.)
        assert_eq!(
            of_names("-O2", &[(LOG, true), ("void f() { LOG(1); }", false)]),
            by_log
        );
        let another = "#define MINE(x) LOG(x)\n";
        let by_three = Some(["LOG", "MINE", "WHERE"].map(str::to_owned).to_vec());
        assert_eq!(of_names("-O2", &[(LOG, true), (another, false)]), by_three);
        let debug = "#ifndef NDEBUG\n#define W __PRETTY_FUNCTION__\n#endif\nint x = sizeof(W);";
        assert_eq!(of_names("-DNDEBUG", &[(debug, true)]), nobody);
        assert_eq!(of_names("-O2", &[(debug, true)]), None);
        assert_eq!(
            of_names("-DNDEBUG", &[(debug, true), ("#undef NDEBUG\n", true)]),
            None
        );
        for text in [
            "#define CAT(a, b) a##b\nauto n = sizeof(CAT(__, PRETTY_FUNCTION__));",
            "#define CAT(a, b) a##b\nauto n = sizeof(CAT(__PRETTY, _FUNCTION__));",
            "#define W() __PRETTY_##FUNCTION__\nauto n = sizeof(W());",
            "#define SIGNATURE_OF_MINE __PRETTY_FUNCTION__\n#define MINE(x) x##_OF_MINE\nauto n = MINE(SIGNATURE);",
        ] {
            assert_eq!(of_names("-O2", &[(text, true)]), None, "{text}");
        }
    }

    #[test]
    fn assertions_ask_for_no_names() {
        const ASSERT: &str = "#define FUNCTION __extension__ __PRETTY_FUNCTION__\n\
            #define assert(x) ((x) ? 0 : fail(#x, FUNCTION))\n";
        let words = of(Family::Clang, "-c a.cc");
        let mut lines = Lines::new(&words, Family::Clang, Language::Cxx);
        let mut found = lines.read(ASSERT.as_bytes(), false);
        found.asserts_by_names();
        lines.add(found);
        let user = lines.read("void f(int x) { assert(x); }\n".as_bytes(), true);
        lines.add(user);
        assert!(matches!(lines.follow().of_names(), OfNames::Users(names) if names.is_empty()));
    }

    #[test]
    fn clang_names_places() {
        for text in [
            "auto f = [](int x) { return x; };",
            "std::sort(a, b, [&](int x, int y) { return x < y; });",
            "struct { int x; } s;",
            "typedef struct\n{ int x; } S;",
            "enum : int { A };",
            "#define L [] {}\nauto f = L;",
            "return [this] { f(); };",
            "#define PACKED __attribute__((packed))\nstruct PACKED { int x; } v;",
            "#define PACKED\nstruct PACKED\n{ int x; } v;",
            "struct ALIGN(8) { int x; } v;",
            "struct __attribute((packed)) { int x; } v;",
            "#define STRUCT struct\nSTRUCT { int x; } v;",
            "#define ATTR\nenum ATTR : int { A };",
            "auto f = <:](int x) <% return x; %>;",
            "bool b = B() and [](int x) { return x; };",
            "#define RETURN return\nRETURN [](int x) { return x; };",
            "auto x = (U)[] { return 1; };",
            "auto x = (U)[y, &z] mutable { return 1; };",
            "[[likely]] [] { f(); }();",
        ] {
            assert!(matters(Family::Clang, "-O2", &[text]), "{text}");
            assert!(!matters(Family::Gcc, "-O2", &[text]), "{text}");
        }
        for text in [
            "struct S { int a[5]; }; S s; int f() { return s.a[0] + g()[1]; }",
            "[[nodiscard]] int f(); template <class T> class C; enum class E : int { A };",
            "delete[] p; int operator[](int); a[1][2] = 3;",
            "int a[] = {1}, *b = p[0]->q[f()[1]]; void g(int a[], int b[3]);",
            "#define PACKED __attribute__((packed))\nstruct PACKED Named { int x; };\nstruct Other final { int y; };",
        ] {
            assert!(!matters(Family::Clang, "-O2", &[text]), "{text}");
        }
    }
}
