//! Whether it matters on which line something stands: where it does not, a comment or a blank line more makes no other object.
//!
//! The options say it first: debug information has lines, and so has what sanitizers and OpenMP write; and of an option that is not known to have none
//! nothing is assumed. Then a text may ask for its lines, by `__LINE__` or what macros make of it. So the macros of a compile are
//! followed backwards, from `__LINE__` to all whose definitions lead there. A macro that puts names together by `##`
//! may make any of these whose name begins and ends as the definition says. Definitions and uses behind an `#ifndef` of what the command line defines for good
//! (`NDEBUG`, mostly, and so `assert`) do not count. A text whose own words, outside of definitions, are none of these has
//! no lines in the object.
//!
//! What a function is called with by default may ask for the line of the call (`__builtin_LINE`), of which the caller's text shows nothing: where that is anywhere,
//! all lines matter. And clang names a lambda and a type without a name by their places, for `__PRETTY_FUNCTION__`: where the plugin has seen all texts
//! of the object, and nobody may have evaluated such a name, it is known that none is there. Whether somebody may is followed through the macros as well.

use super::comments::Keeps;
use super::functions::NOT_OF_DECLARATIONS;
use super::rows::{Operand, rows};
use super::text::is_part;
use super::tokens::{self, Lexer, Token};
use crate::cc::classify::{Language, Word};
use crate::cc::compiler::Family;
use crate::cc::options::Meaning;
use crate::cc::pruning::eligible;
use memchr::memmem;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::hash::Hasher;
use std::os::unix::ffi::OsStrExt;

/// What the options leave of a source that may be another one.
#[derive(Clone, Debug)]
pub enum Care {
    /// Nothing: its bytes matter.
    Bytes,
    /// Comments, if all the rest keeps its place.
    Places,
    /// Comments and blank lines, as far as the texts, which are to be read for that, do not ask for their lines.
    Order(Lines),
    /// The same, but debug information says lines, and is to be changed.
    Moved {
        /// The texts.
        lines: Lines,
        /// It may have digests of the sources, too.
        has_digests: bool,
    },
}

impl Care {
    /// The texts that may ask for their lines, if it matters whether they do.
    pub fn lines(&self) -> Option<&Lines> {
        match self {
            Care::Order(lines) | Care::Moved { lines, .. } => Some(lines),
            Care::Places | Care::Bytes => None,
        }
    }
}

/// Options for debug information in which lines can be moved.
const OF_MOVED_LINES: [&str; 15] = [
    "-g",
    "-g1",
    "-g2",
    "-ggdb",
    "-ggdb1",
    "-ggdb2",
    "-gdwarf",
    "-gdwarf-4",
    "-gdwarf-5",
    "-gline-tables-only",
    "-gmlt",
    "-gcolumn-info",
    "-gno-column-info",
    "-gstrict-dwarf",
    "-gno-strict-dwarf",
];

/// Beginnings of options that say nothing of lines for either compiler.
const OF_BOTH: &[&str] = &[
    "-fno-",
    "-ffile-prefix-map=",
    "-fmacro-prefix-map=",
    "-fdebug-prefix-map=",
];

/// What gcc's options for code begin with that say nothing of lines, besides those that are known for definitions.
const OF_GCC: &[&str] = &[
    "-fgcse",
    "-fipa-",
    "-floop-",
    "-fsched",
    "-fira-",
    "-ftree-",
    "-finline-",
    "-fpartial-inlining",
    "-fstack-protector",
    "-fmax-errors=",
    "-fsingle-precision-constant",
    "-freorder-",
    "-fcaller-saves",
    "-fcommon",
    "-fconserve-stack",
    "-fcrossjumping",
    "-fexpensive-optimizations",
    "-fmerge-constants",
    "-fpermissive",
    "-fvect-cost-model=",
    "-fdevirtualize",
    "-fipa-pta",
    "-fcode-hoisting",
    "-fsplit-",
    "-fnon-call-exceptions",
];

/// What the options of a compile, which said nothing, leave.
pub fn care(words: &[Word], family: Family, language: Language) -> Care {
    if !matches!(language, Language::C | Language::Cxx) {
        return Care::Bytes;
    }
    let (mut has_lines, mut may_move) = (false, true);
    for word in words {
        let Some(text) = word.option.to_str() else {
            return Care::Bytes;
        };
        if is_strict_about_comments(text, language) {
            return Care::Bytes;
        }
        // Directories have other names in debug information then.
        may_move &= !text.contains("-prefix-map");
        let is_harmless = match word.meaning {
            Meaning::Beyond(_) => false,
            Meaning::Macro
            | Meaning::Directory
            | Meaning::Header
            | Meaning::Output
            | Meaning::Dependencies
            | Meaning::Diagnostics
            | Meaning::Nothing => true,
            Meaning::Code if text == "-g0" => true,
            Meaning::Code if text.starts_with("-g") => {
                has_lines = true;
                let is_known = OF_MOVED_LINES.contains(&text);
                may_move &= is_known;
                is_known || family == Family::Gcc && !text.contains("split")
            }
            Meaning::Code => {
                let begins = |list: &[&str]| list.iter().any(|it| text.starts_with(it));
                let is_of_gcc =
                    || family == Family::Gcc && (begins(OF_GCC) || begins(&["-m", "--param"]));
                let is_path = text.starts_with("--sysroot") || text == "-x" || text == "-static";
                word.arguments.len() <= usize::from(text == "-x" || text.starts_with("--"))
                    && (is_path || eligible::is_of_code(text) || begins(OF_BOTH) || is_of_gcc())
            }
        };
        if !is_harmless {
            return Care::Bytes;
        }
    }
    let lines = || Lines::new(words, family, language);
    match has_lines {
        true if may_move => Care::Moved {
            lines: lines(),
            has_digests: family == Family::Clang,
        },
        // In clang's there is a digest of each source.
        true if family == Family::Clang => Care::Bytes,
        true => Care::Places,
        false => Care::Order(lines()),
    }
}

/// Whether a compile may warn of code by where comments stand ([`super::comments::unindents`]).
pub fn heeds_indentation(words: &[Word], family: Family) -> bool {
    let asks = |word: &Word| {
        let text = word.option.to_string_lossy();
        text == "-Wall" || (text.contains("misleading-indentation") && !text.contains("-Wno-"))
    };
    family == Family::Gcc && words.iter().any(asks)
}

/// Whether with this option a compiler looks into comments, or takes none that begin with `//`.
fn is_strict_about_comments(text: &str, language: Language) -> bool {
    let old = [
        "c89",
        "c90",
        "gnu89",
        "gnu90",
        "iso9899:1990",
        "iso9899:199409",
    ];
    let is_old = |standard: &str| old.contains(&standard);
    let standard = text.strip_prefix('-').unwrap_or(text);
    let standard = standard.strip_prefix('-').unwrap_or(standard);
    let is_of_old_c = language == Language::C
        && (standard == "ansi" || standard.strip_prefix("std=").is_some_and(is_old));
    let looks = [
        "documentation",
        "-Weverything",
        "implicit-fallthrough=1",
        "whitespace",
        "compat",
        "comment-block",
        "parse-all-comments",
    ];
    is_of_old_c || looks.iter().any(|part| text.contains(part))
}

/// What asks for the line of a call, where a function has it as a default argument: three names, and what these may be put together of.
const OF_CALLS: [&[u8]; 5] = [
    b"__builtin_LINE",
    b"__builtin_COLUMN",
    b"__builtin_source_location",
    b"__builtin_",
    b"__builtin",
];

const LINE: &[u8] = b"__LINE__";

fn hash(word: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(word);
    hasher.finish()
}

/// A definition of a macro, of which there may be several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Macro {
    name: Vec<u8>,
    words: Vec<u64>,
    /// First and last operand of what is put together.
    rows: Vec<[Operand; 2]>,
    /// Whether there is a lambda or a type without a name in it.
    has_nameless: bool,
    /// It asks for the name of a function with all its types.
    says_names: bool,
    /// It is one only with a parenthesis behind its name.
    is_called: bool,
    /// What its braces and the like make of what stands around it.
    shape: Shape,
    /// It may give a function another name than the one that it is declared by.
    renames: bool,
    /// What would have to be undefined for it to be one.
    unless: Option<u64>,
}

/// What a macro's definition may do to what stands around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Shape {
    /// Nothing: it is a row of words, or a call.
    Plain,
    /// It may be something else than a part of a declaration.
    Structure,
    /// Braces or parentheses begin or end in it.
    Open,
}

/// What a text says of lines, under what the command line defines ([`Lines::context`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextLines {
    macros: Vec<Macro>,
    undefined: BTreeSet<u64>,
    of_calls: bool,
    /// It may spell a name in more than one way.
    has_escapes: bool,
    /// Words outside of definitions.
    words: BTreeSet<Used>,
    has_nameless: bool,
    /// What types may be called.
    tags: BTreeSet<u64>,
    /// It may give a function another name than the one that it is declared by.
    renames: bool,
    /// It asks for the names of functions with all their types, itself and not by a macro.
    says_names: bool,
}

/// A word outside of definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Used {
    word: u64,
    /// What would have to be undefined for it to count.
    unless: Option<u64>,
    /// Never is there a parenthesis behind it, whatever macros make of what stands there.
    is_uncalled: bool,
}

/// Macros that lead to what is looked for, as hashes of their names.
#[derive(Debug, Default)]
struct Leading {
    all: FxHashSet<u64>,
    /// Those that are none without a parenthesis.
    called: FxHashSet<u64>,
}

/// Macros that may make something else of what they stand in, by their names.
#[derive(Debug, Default)]
pub struct Reaching<'l> {
    /// Those of any kind.
    pub all: FxHashSet<&'l [u8]>,
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
    /// Its place in [`Lines::keep`].
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

    /// The macros of all texts, whatever is defined; `None` if some function may have another name than the one that it is declared by.
    pub fn reaching(&self) -> Option<Reaching<'_>> {
        let macros: Vec<&Macro> = self.texts.iter().flat_map(|text| &text.macros).collect();
        let named = |found: &Leading| {
            let names = macros.iter().map(|it| &it.name[..]);
            names
                .filter(|name| found.all.contains(&hash(name)))
                .collect()
        };
        let users = users(&macros);
        let pieces = self.pieces(&macros);
        if self.renames(&macros, &users) {
            return None;
        }
        let of_declarations = leading(&macros, &users, Some(&pieces), NOT_OF_DECLARATIONS, |it| {
            it.shape != Shape::Plain
        });
        let of_bodies = leading(&macros, &users, Some(&pieces), REACHING_OUT, |it| {
            it.shape == Shape::Open
        });
        Some(Reaching {
            all: macros.iter().map(|it| &it.name[..]).collect(),
            of_declarations: named(&of_declarations),
            of_bodies: named(&of_bodies),
        })
    }

    /// Whether some function may have another name than the one that it is declared by, as a text that counts says, or by a macro that it
    /// uses, or puts together: then the macro's name begins with a word of such a text.
    fn renames(&self, macros: &[&Macro], users: &Users) -> bool {
        let said = self.texts.iter().any(|text| text.renames);
        let mut found: FxHashSet<&[u8]> = FxHashSet::default();
        let mut todo: Vec<&Macro> = macros.iter().copied().filter(|it| it.renames).collect();
        while let Some(it) = todo.pop() {
            if found.insert(&it.name) {
                let at = users.get(&hash(&it.name)).into_iter().flatten();
                todo.extend(at.map(|at| macros[*at]));
            }
        }
        let words: FxHashSet<u64> = (self.texts.iter())
            .flat_map(|text| text.words.iter().map(|used| used.word))
            .collect();
        // (`_` is a word of many sources.)
        let ends = |name: &[u8]| 3.min(name.len())..=name.len();
        let begins = |name: &[u8]| ends(name).any(|end| words.contains(&hash(&name[..end])));
        said || found.into_iter().any(begins)
    }

    /// What each text must keep, of all that have been added. `tells_places`: a name that says where something stands may be in the object.
    pub fn keep(&self, tells_places: bool) -> Vec<Keeps> {
        let undefined = self.undefined();
        let macros = self.macros(&undefined);
        let users = users(&macros);
        let pieces = self.pieces(&macros);
        let of_calls = leading(&macros, &users, Some(&pieces), &OF_CALLS[..3], |_| false);
        let is_of_calls = (self.texts.iter())
            .any(|text| text.of_calls || text.has_escapes || text.uses(&of_calls, &undefined));
        let of_lines = leading(&macros, &users, Some(&pieces), &[LINE], |_| false);
        let names_places = self.given.names_places && tells_places;
        let of_nameless = match names_places {
            true => leading(&macros, &users, Some(&pieces), &[], |it| it.has_nameless),
            false => Leading::default(),
        };
        let all: FxHashSet<u64> = match names_places {
            true => macros.iter().map(|it| hash(&it.name)).collect(),
            false => FxHashSet::default(),
        };
        let has_nameless =
            |text: &TextLines| text.has_nameless || text.tags.iter().any(|tag| all.contains(tag));
        let matters = |text: &TextLines| {
            is_of_calls
                || (names_places && has_nameless(text))
                || text.uses(&of_lines, &undefined)
                || text.uses(&of_nameless, &undefined)
        };
        let keeps = |text| match matters(text) {
            true => Keeps::Places,
            false => Keeps::Order,
        };
        self.texts.iter().map(keeps).collect()
    }

    /// Who may ask for the names of functions with all their types, of all texts that have been added.
    pub fn of_names(&self) -> OfNames<'_> {
        let undefined = self.undefined();
        let macros = self.macros(&undefined);
        let users = users(&macros);
        let leading = |pieces| leading(&macros, &users, pieces, &[], |it| it.says_names);
        let pieces = self.pieces(&macros);
        let of_texts = leading(Some(&pieces));
        let says = |text: &TextLines| text.says_names || text.uses(&of_texts, &undefined);
        if self.texts.iter().any(says) {
            return OfNames::Somebody;
        }
        let of_others = leading(None).all;
        let names = macros.iter().map(|it| &it.name[..]);
        OfNames::Users(
            names
                .filter(|name| of_others.contains(&hash(name)))
                .collect(),
        )
    }

    /// What a text undefines that would else be defined for good.
    fn undefined(&self) -> FxHashSet<u64> {
        let texts = self.texts.iter();
        texts
            .flat_map(|text| text.undefined.iter().copied())
            .collect()
    }

    /// What macros may be put together of, where a text that counts uses one: words of such texts, and of definitions.
    fn pieces(&self, macros: &[&Macro]) -> FxHashSet<u64> {
        let of_texts = self.texts.iter().flat_map(|text| &text.words);
        let of_macros = macros.iter().flat_map(|it| &it.words);
        (of_texts.map(|used| used.word))
            .chain(of_macros.copied())
            .chain(OF_COMPILERS.iter().map(|word| hash(word)))
            .collect()
    }

    /// The macros of all texts that may be defined.
    fn macros(&self, undefined: &FxHashSet<u64>) -> Vec<&Macro> {
        let macros = self.texts.iter().flat_map(|text| &text.macros);
        macros.filter(|it| counts(it.unless, undefined)).collect()
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
        self.words.iter().any(|used| {
            macros.all.contains(&used.word)
                && !(used.is_uncalled && macros.called.contains(&used.word))
                && counts(used.unless, undefined)
        })
    }
}

impl Reading<'_> {
    /// What was found, when all lines have been read.
    pub fn end(self) -> TextLines {
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
                Token::Word(name),
                ..,
            ] => {
                self.define(name, &line[2..], unless);
            }
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

    fn define(&mut self, name: &[u8], from_name: &[Token<'_>], unless: Option<u64>) {
        let body = &from_name[1..];
        let words: Vec<u64> = words(body).map(hash).collect();
        self.found.of_calls |= words_are_of_calls(body);
        let rows = match body.contains(&Token::Paste) {
            true => rows(from_name)
                .into_iter()
                .map(|row| {
                    let ends = [row.operands.first(), row.operands.last()];
                    ends.map(|operand| operand.cloned().flatten())
                })
                .collect(),
            false => Vec::new(),
        };
        self.found.macros.push(Macro {
            name: name.to_vec(),
            words,
            rows,
            has_nameless: self.given.names_places && makes_nameless(body),
            says_names: words_are_of_names(body),
            is_called: is_called(from_name),
            shape: shape(body),
            renames: renames(body),
            unless,
        });
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
                self.found.words.insert(Used {
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

/// Whether a definition is one with parameters: between its name and the first of them there is a parenthesis, and nothing else. (That there
/// are such is not seen if a blank stands before the first, or if there is none.)
fn is_called(from_name: &[Token<'_>]) -> bool {
    match from_name {
        [
            Token::Word(name),
            Token::Other(b'('),
            Token::Word(parameter),
            ..,
        ] => parameter.as_ptr() == name.as_ptr().wrapping_add(name.len() + 1),
        _ => false,
    }
}

/// Words in what compilers define by themselves, of which something might be put together. (Numbers always may.)
const OF_COMPILERS: &[&[u8]] = &[
    b"_Nonnull",
    b"_Nullable",
    b"_Null_unspecified",
    b"__ORDER_LITTLE_ENDIAN__",
    b"__attribute__",
    b"address_space",
    b"char",
    b"double",
    b"float",
    b"int",
    b"long",
    b"objc_gc",
    b"short",
    b"signed",
    b"unsigned",
    b"F",
    b"L",
    b"LL",
    b"U",
    b"UL",
    b"ULL",
    b"f",
    b"l",
    b"u",
];

/// Nobody puts a name together of more. (Of any number of letters each name could be.)
const MOST_PIECES: usize = 4;

/// Whether a name may be put together of these words, and of numbers. (Who has the whole name uses it without that, or leads to it.)
fn may_be_made_of(name: &[u8], pieces: &FxHashSet<u64>) -> bool {
    // Of how many the rest from here on is, at least.
    let mut least = vec![usize::MAX; name.len() + 1];
    least[name.len()] = 0;
    for start in (0..name.len()).rev() {
        let is_piece = |piece: &[u8]| {
            piece.len() < name.len() && (piece[0].is_ascii_digit() || pieces.contains(&hash(piece)))
        };
        least[start] = (start + 1..=name.len())
            .filter(|end| least[*end] < MOST_PIECES && is_piece(&name[start..*end]))
            .map(|end| least[end] + 1)
            .min()
            .unwrap_or(usize::MAX);
    }
    least[0] <= MOST_PIECES
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

/// Whether a declaration may say how its function is called in assembly: by `asm` that is no statement, or a pragma.
fn renames(line: &[Token<'_>]) -> bool {
    const EXTNAME: &[u8] = b"redefine_extname";
    line.iter().enumerate().any(|(at, token)| match token {
        Token::Word(b"asm" | b"__asm" | b"__asm__") => {
            let before = at.checked_sub(1).map(|before| line[before]);
            let is_statement = matches!(
                before,
                Some(Token::Other(b';' | b'{' | b'}' | b':') | Token::Word(b"else" | b"do"))
            );
            line.get(at + 1) == Some(&Token::Other(b'(')) && !is_statement
        }
        Token::Literal(text, _) => memmem::find(text, EXTNAME).is_some(),
        Token::Word(word) => *word == EXTNAME,
        _ => false,
    })
}

fn shape(body: &[Token<'_>]) -> Shape {
    let mut open: Vec<u8> = Vec::new();
    let mut shape = Shape::Plain;
    for token in body {
        match token {
            Token::Other(byte @ (b'(' | b'[' | b'{')) => open.push(*byte),
            Token::Other(byte @ (b')' | b']' | b'}')) => {
                let opening = open.pop();
                let is_closed = matches!(
                    (opening, byte),
                    (Some(b'('), b')') | (Some(b'['), b']') | (Some(b'{'), b'}')
                );
                if !is_closed {
                    return Shape::Open;
                }
            }
            _ => {}
        }
        let is_plain = matches!(
            token,
            Token::Word(_)
                | Token::Literal(..)
                | Token::Other(b'(' | b')' | b',' | b':' | b'*' | b'&')
        );
        if !is_plain {
            shape = Shape::Structure;
        }
    }
    match open.is_empty() {
        true => shape,
        false => Shape::Open,
    }
}

/// By words, the macros in whose definitions they are.
type Users = FxHashMap<u64, Vec<usize>>;

fn users(macros: &[&Macro]) -> Users {
    let mut users = Users::default();
    for (at, it) in macros.iter().enumerate() {
        for word in &it.words {
            users.entry(*word).or_default().push(at);
        }
    }
    users
}

/// The macros that lead to one of `names`, or to a macro that is such by itself. `pieces`: what names may be put together of, where
/// that is known.
fn leading(
    macros: &[&Macro],
    users: &Users,
    pieces: Option<&FxHashSet<u64>>,
    names: &[&[u8]],
    is_such: impl Fn(&Macro) -> bool,
) -> Leading {
    let mut found: FxHashSet<u64> = names.iter().map(|name| hash(name)).collect();
    let seeds = found.clone();
    let mut todo: Vec<u64> = found.iter().copied().collect();
    // Those that were found, of which it was not looked yet which macros may put them together.
    let mut fresh: Vec<&[u8]> = names.to_vec();
    let mut parts: Vec<&Macro> = macros
        .iter()
        .copied()
        .filter(|it| !it.rows.is_empty())
        .collect();
    for it in macros.iter().filter(|it| is_such(it)) {
        if found.insert(hash(&it.name)) {
            todo.push(hash(&it.name));
            fresh.push(&it.name);
        }
    }
    loop {
        while let Some(name) = todo.pop() {
            for at in users.get(&name).into_iter().flatten() {
                let name = &macros[*at].name;
                if found.insert(hash(name)) {
                    todo.push(hash(name));
                    fresh.push(name);
                }
            }
        }
        // What may be put together is one of them, too.
        parts.retain(|it| !found.contains(&hash(&it.name)));
        let mut names = std::mem::take(&mut fresh);
        names.retain(|name| pieces.is_none_or(|pieces| may_be_made_of(name, pieces)));
        for it in &parts {
            let may_be = |[first, last]: &[Operand; 2]| {
                names.iter().any(|name| {
                    (first.as_ref()).is_none_or(|first| name.starts_with(first))
                        && (last.as_ref()).is_none_or(|last| name.ends_with(last))
                })
            };
            if it.rows.iter().any(may_be) && found.insert(hash(&it.name)) {
                todo.push(hash(&it.name));
                fresh.push(&it.name);
            }
        }
        if todo.is_empty() {
            let mut called: FxHashSet<u64> = (macros.iter().filter(|it| it.is_called))
                .map(|it| hash(&it.name))
                .collect();
            for it in macros.iter().filter(|it| !it.is_called) {
                called.remove(&hash(&it.name));
            }
            called.retain(|name| found.contains(name) && !seeds.contains(name));
            return Leading { all: found, called };
        }
    }
}

/// `X`, `(X)`, and nothing more.
fn asks_for<'t>(asked: &[Token<'t>]) -> Option<&'t [u8]> {
    match asked {
        [Token::Word(name)] => Some(name),
        [Token::Other(b'('), Token::Word(name), Token::Other(b')')] => Some(name),
        _ => None,
    }
}

/// The identifiers among tokens.
fn words<'l, 't>(tokens: &'l [Token<'t>]) -> impl Iterator<Item = &'t [u8]> + use<'l, 't> {
    tokens::words(tokens).filter(|word| !word[0].is_ascii_digit())
}

fn words_are_of_calls(tokens: &[Token<'_>]) -> bool {
    words(tokens).any(|word| word.starts_with(b"__builtin") && OF_CALLS.contains(&word))
}

/// Whether one of these stands for the name of a function with all its types, or for what that may be put together of.
fn words_are_of_names(tokens: &[Token<'_>]) -> bool {
    let is_of_names = |word: &[u8]| {
        word.starts_with(b"__PRETTY")
            || [&b"PRETTY_FUNC"[..], b"FUNCSIG"]
                .into_iter()
                .any(|part| memmem::find(word, part).is_some())
    };
    // (Most words are small ones.)
    words(tokens)
        .filter(|word| word.contains(&b'F') || word.contains(&b'Y'))
        .any(is_of_names)
}

/// Words behind which a bracket begins a lambda, and is no index.
const BEFORE_LAMBDAS: [&[u8]; 18] = [
    b"and",
    b"and_eq",
    b"bitand",
    b"bitor",
    b"case",
    b"co_await",
    b"co_return",
    b"co_yield",
    b"compl",
    b"do",
    b"else",
    b"not",
    b"not_eq",
    b"or",
    b"or_eq",
    b"return",
    b"throw",
    b"xor",
];

/// Words that may stand between what a lambda captures and its body.
const OF_LAMBDAS: [&[u8]; 7] = [
    b"consteval",
    b"constexpr",
    b"mutable",
    b"noexcept",
    b"requires",
    b"static",
    b"__attribute__",
];

const OF_TYPES: [&[u8]; 4] = [b"struct", b"class", b"union", b"enum"];

/// Whether a lambda or a type without a name may be in a line. `last` is the token before it.
fn has_nameless(last: &[u8], line: &[Token<'_>]) -> bool {
    let mut before = match last {
        [] => None,
        [byte] if !is_part(*byte) => Some(Token::Other(*byte)),
        word => Some(Token::Word(word)),
    };
    let is = |at: usize, sign: u8| line.get(at) == Some(&Token::Other(sign));
    let mut at = 0;
    while let Some(token) = line.get(at) {
        let is_of_type = matches!(before, Some(Token::Word(word)) if OF_TYPES.contains(&word));
        let is_operand = match before {
            Some(Token::Word(word)) => !BEFORE_LAMBDAS.contains(&word),
            Some(Token::Other(byte)) => matches!(byte, b']' | b')'),
            _ => false,
        };
        match token {
            Token::Other(b'{' | b':' | b'[') if is_of_type => return true,
            // An attribute, or a macro for one.
            Token::Word(_) if is_of_type && is(at + 1, b'(') => return true,
            // Another spelling of a bracket or a brace.
            Token::Other(b'<') if is(at + 1, b':') || is(at + 1, b'%') => return true,
            // An attribute.
            Token::Other(b'[') if !is_operand && is(at + 1, b'[') => at += 1,
            Token::Other(b'[') if !is_operand => return true,
            Token::Other(b'[')
                if before != Some(Token::Word(b"operator")) && may_be_lambda(&line[at..]) =>
            {
                return true;
            }
            _ => {}
        }
        before = Some(*token);
        at += 1;
    }
    false
}

/// Whether a bracket behind what may be an operand, a macro or a cast may begin a lambda, by what stands behind the bracket's end.
fn may_be_lambda(from_bracket: &[Token<'_>]) -> bool {
    let mut depth = 0;
    let end = from_bracket.iter().position(|token| {
        depth += match token {
            Token::Other(b'[') => 1,
            Token::Other(b']') => -1,
            _ => 0,
        };
        depth == 0
    });
    match end.and_then(|end| from_bracket.get(end + 1)) {
        None => true,
        Some(Token::Other(byte)) => matches!(byte, b'(' | b'{' | b'<'),
        Some(Token::Word(word)) => OF_LAMBDAS.contains(word),
        Some(_) => false,
    }
}

/// The words by which a line may call types: a macro for an attribute, or for nothing, makes these types without names.
fn tags<'l, 't>(line: &'l [Token<'t>]) -> impl Iterator<Item = &'t [u8]> + use<'l, 't> {
    line.iter().enumerate().filter_map(|(at, token)| {
        let Token::Word(word) = token else {
            return None;
        };
        let before = at.checked_sub(1).map(|before| line[before]);
        let is_of_type = matches!(before, Some(Token::Word(word)) if OF_TYPES.contains(&word));
        let ends = matches!(
            line.get(at + 1),
            None | Some(Token::Other(b'{' | b':' | b'<'))
        );
        (is_of_type && ends).then_some(*word)
    })
}

/// Whether a lambda or a type without a name may be in a definition, or begin with its last word.
fn makes_nameless(body: &[Token<'_>]) -> bool {
    let ends_as_type = matches!(body.last(), Some(Token::Word(word)) if OF_TYPES.contains(word));
    ends_as_type || tags(body).next().is_some() || has_nameless(b"", body)
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

    #[test]
    fn options_say_what_may_be_another() {
        let care = |family, line: &str| care(&of(family, line), family, Language::C);
        for line in [
            "-O2 -Wall -Iinc -DX -MD -MF d -fPIC -g0 -c a.c -o a.o",
            "-O2 -pipe -fno-strict-aliasing -std=gnu11 -march=x86-64-v3 -isystem x -c a.c",
            "-Os -ffile-prefix-map=/a=. -fstack-protector-strong -D_FORTIFY_SOURCE=2 -c a.c",
        ] {
            for family in [Family::Gcc, Family::Clang] {
                assert!(matches!(care(family, line), Care::Order(_)), "{line}");
            }
        }
        for line in ["-g -c a.c", "-O2 -ggdb -gdwarf-4 -c a.c"] {
            for family in [Family::Gcc, Family::Clang] {
                let is_of_clang = family == Family::Clang;
                let Care::Moved { has_digests, .. } = care(family, line) else {
                    panic!("{line}");
                };
                assert_eq!(has_digests, is_of_clang);
            }
        }
        for line in ["-g -ffile-prefix-map=/a=. -c a.c", "-O2 -ggdb3 -c a.c"] {
            assert!(matches!(care(Family::Gcc, line), Care::Places), "{line}");
            assert!(matches!(care(Family::Clang, line), Care::Bytes), "{line}");
        }
        for line in [
            "-fsanitize=address -c a.c",
            "-fopenmp -c a.c",
            "-std=c89 -c a.c",
            "-ansi -c a.c",
            "-Wdocumentation -c a.c",
            "-Wimplicit-fallthrough=1 -c a.c",
            "-Wa,--gdwarf-5 -c a.c",
            "-pg -c a.c",
            "-finstrument-functions -c a.c",
            "-fparse-all-comments -c a.c",
        ] {
            for family in [Family::Gcc, Family::Clang] {
                assert!(matches!(care(family, line), Care::Bytes), "{line}");
            }
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
        lines.keep(true)[last.expect("a text").index()] == Keeps::Places
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
        match lines.of_names() {
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
        assert!(matches!(lines.of_names(), OfNames::Users(names) if names.is_empty()));
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
