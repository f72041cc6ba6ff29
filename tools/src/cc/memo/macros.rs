//! Macros, as far as their definitions tell what they may become: which lead to a name that is looked for, and what they make of what they stand in.
//!
//! Macros are followed backwards, from the name to all whose definitions have it, or one that leads to it. One that puts names together by `##` may make any
//! of these whose name begins and ends as the definition says, if the name may be made of what there is to put together: words of definitions, and of the texts that
//! use them. What a macro is by the compiler itself is a few words more. All definitions of a name count, whatever is defined where it is used.

use super::nameless::makes_nameless;
use super::rows::{Operand, rows};
use super::tokens::{self, Token};
use memchr::memmem;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use serde::{Deserialize, Serialize};
use std::cell::{LazyCell, OnceCell};
use std::hash::Hasher;
use std::rc::Rc;

/// A hash of a word.
pub fn hash(word: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(word);
    hasher.finish()
}

/// A definition of a macro, of which there may be several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Macro {
    /// Its name.
    pub name: Vec<u8>,
    /// Hashes of the words of its definition.
    words: Vec<u64>,
    /// First and last operand of what is put together.
    rows: Vec<[Operand; 2]>,
    /// Whether there is a lambda or a type without a name in it.
    pub has_nameless: bool,
    /// It asks for the name of a function with all its types.
    pub says_names: bool,
    /// It is one only with a parenthesis behind its name.
    is_called: bool,
    /// What its braces and the like make of what stands around it.
    pub shape: Shape,
    /// It may give a function another name than the one that it is declared by.
    pub renames: bool,
    /// What would have to be undefined for it to be one.
    pub unless: Option<u64>,
}

/// What a macro's definition may do to what stands around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// Nothing: it is a row of words, or a call.
    Plain,
    /// It may be something else than a part of a declaration.
    Structure,
    /// Braces or parentheses begin or end in it.
    Open,
}

impl Macro {
    /// By its definition, from the name on. `unless`: what would have to be undefined for it to be one. `names_places`: lambdas and types without names matter.
    pub fn new(from_name: &[Token<'_>], unless: Option<u64>, names_places: bool) -> Option<Macro> {
        let (Token::Word(name), body) = from_name.split_first()? else {
            return None;
        };
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
        Some(Macro {
            name: name.to_vec(),
            words: words(body).map(hash).collect(),
            rows,
            has_nameless: names_places && makes_nameless(body),
            says_names: words_are_of_names(body),
            is_called: is_called(from_name),
            shape: shape(body),
            renames: renames(body),
            unless,
        })
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

/// Whether a declaration may say how its function is called in assembly: by `asm` that is no statement, or a pragma.
pub fn renames(line: &[Token<'_>]) -> bool {
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

/// The identifiers among tokens.
pub fn words<'l, 't>(tokens: &'l [Token<'t>]) -> impl Iterator<Item = &'t [u8]> + use<'l, 't> {
    tokens::words(tokens).filter(|word| !word[0].is_ascii_digit())
}

/// Whether one of these stands for the name of a function with all its types, or for what that may be put together of.
pub fn words_are_of_names(tokens: &[Token<'_>]) -> bool {
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

/// Macros that lead to what is looked for, as hashes of their names.
#[derive(Debug, Default)]
pub struct Leading {
    /// All of them, and the names themselves.
    pub all: FxHashSet<u64>,
    /// Those that are none without a parenthesis.
    pub called: FxHashSet<u64>,
}

/// Words of the texts in which it counts what is used, as hashes: they are gathered when somebody asks for them.
pub type TextWords<'m> = Rc<LazyCell<FxHashSet<u64>, Box<dyn FnOnce() -> FxHashSet<u64> + 'm>>>;

/// The macros of some texts, to be followed.
pub struct Macros<'m> {
    list: Vec<&'m Macro>,
    /// Hashes of their names.
    names: Vec<u64>,
    /// By words, the places in `uses` where the macros begin in whose definitions they are.
    users: FxHashMap<u64, u32>,
    /// The numbers of macros, and where those with the same word go on.
    uses: Vec<(u32, u32)>,
    words: TextWords<'m>,
}

/// No further macro has the word.
const NO_MORE: u32 = u32::MAX;

impl<'m> Macros<'m> {
    /// `words`: of the texts in which it counts what is used.
    pub fn new(list: Vec<&'m Macro>, words: TextWords<'m>) -> Macros<'m> {
        let mut uses = Vec::with_capacity(list.iter().map(|it| it.words.len()).sum());
        let mut users: FxHashMap<u64, u32> = FxHashMap::default();
        for (it, number) in list.iter().zip(0..) {
            for word in &it.words {
                let next = users.insert(*word, uses.len() as u32);
                uses.push((number, next.unwrap_or(NO_MORE)));
            }
        }
        Macros {
            names: list.iter().map(|it| hash(&it.name)).collect(),
            list,
            users,
            uses,
            words,
        }
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &'m Macro> {
        self.list.iter().copied()
    }

    /// All of them, each with the hash of its name.
    fn named(&self) -> impl Iterator<Item = (u64, &'m Macro)> {
        self.names.iter().copied().zip(self.all())
    }

    /// The hashes of their names.
    pub fn names(&self) -> FxHashSet<u64> {
        self.names.iter().copied().collect()
    }

    /// The names of those that `found` has.
    pub fn names_in(&self, found: &FxHashSet<u64>) -> FxHashSet<&'m [u8]> {
        let found = self.named().filter(|(name, _)| found.contains(name));
        found.map(|(_, it)| &it.name[..]).collect()
    }

    /// Those in whose definitions a word is.
    pub fn users(&self, word: u64) -> impl Iterator<Item = &'m Macro> {
        self.numbers_of_users(word)
            .map(|number| self.list[number as usize])
    }

    fn numbers_of_users(&self, word: u64) -> impl Iterator<Item = u32> {
        let mut at = self.users.get(&word).copied().unwrap_or(NO_MORE);
        std::iter::from_fn(move || {
            let (number, next) = *self.uses.get(at as usize)?;
            at = next;
            Some(number)
        })
    }

    /// Whether a text in which it counts what is used has this word.
    pub fn is_of_texts(&self, word: u64) -> bool {
        self.words.contains(&word)
    }

    /// Those that lead to one of `names`, or to a macro that is such by itself, in the texts whose words are known.
    pub fn leading(&self, names: &[&'m [u8]], is_such: impl Fn(&Macro) -> bool) -> Leading {
        self.follow(names, is_such, |name| self.may_be_made(name))
    }

    /// The same in any text: there may be anything to put together.
    pub fn leading_anywhere(&self, is_such: impl Fn(&Macro) -> bool) -> Leading {
        self.follow(&[], is_such, |_| true)
    }

    fn follow(
        &self,
        names: &[&'m [u8]],
        is_such: impl Fn(&Macro) -> bool,
        may_be_made: impl Fn(&[u8]) -> bool,
    ) -> Leading {
        let seeds: FxHashSet<u64> = names.iter().map(|name| hash(name)).collect();
        let mut found = seeds.clone();
        let mut todo: Vec<u64> = seeds.iter().copied().collect();
        // Those that were found, of which it was not looked yet which macros may put them together.
        let mut fresh: Vec<&[u8]> = names.to_vec();
        let mut parts: Vec<(u64, &Macro)> = Vec::new();
        for (name, it) in self.named() {
            if is_such(it) && found.insert(name) {
                todo.push(name);
                fresh.push(&it.name);
            }
            if !it.rows.is_empty() {
                parts.push((name, it));
            }
        }
        loop {
            while let Some(name) = todo.pop() {
                for user in self.numbers_of_users(name) {
                    let name = self.names[user as usize];
                    if found.insert(name) {
                        todo.push(name);
                        fresh.push(&self.list[user as usize].name);
                    }
                }
            }
            // What may be put together is one of them, too.
            parts.retain(|(name, _)| !found.contains(name));
            let mut names: Vec<(&[u8], OnceCell<bool>)> = std::mem::take(&mut fresh)
                .into_iter()
                .map(|name| (name, OnceCell::new()))
                .collect();
            names.sort_unstable_by_key(|(name, _)| *name);
            for (name, it) in &parts {
                let may_be = |[first, last]: &[Operand; 2]| {
                    beginning_with(&names, first.as_deref().unwrap_or_default())
                        .iter()
                        .any(|(name, is_made)| {
                            (last.as_ref()).is_none_or(|last| name.ends_with(last))
                                && *is_made.get_or_init(|| may_be_made(name))
                        })
                };
                if it.rows.iter().any(may_be) && found.insert(*name) {
                    todo.push(*name);
                    fresh.push(&it.name);
                }
            }
            if todo.is_empty() {
                break;
            }
        }
        // (Few of all macros are found.)
        let of_found = self.named().filter(|(name, _)| found.contains(name));
        let mut called = FxHashSet::default();
        let mut without = seeds;
        for (name, it) in of_found {
            match it.is_called {
                true => called.insert(name),
                false => without.insert(name),
            };
        }
        called.retain(|name| !without.contains(name));
        Leading { all: found, called }
    }

    /// Whether a name may be put together of the words that there are, and of numbers. (Who has the whole name uses it without that, or leads to it.)
    fn may_be_made(&self, name: &[u8]) -> bool {
        let is_word = |word: u64| self.users.contains_key(&word) || self.is_of_texts(word);
        let is_piece = |piece: &[u8]| {
            piece.len() < name.len()
                && (piece[0].is_ascii_digit()
                    || is_word(hash(piece))
                    || OF_COMPILERS.contains(&piece))
        };
        // Of how many pieces what is before each place may be, at least.
        let mut least = vec![usize::MAX; name.len() + 1];
        least[0] = 0;
        for start in 0..name.len() {
            if least[start] >= MOST_PIECES {
                continue;
            }
            for end in start + 1..=name.len() {
                if least[start] + 1 < least[end] && is_piece(&name[start..end]) {
                    least[end] = least[start] + 1;
                }
            }
        }
        least[name.len()] <= MOST_PIECES
    }
}

/// Of sorted names, those that begin so.
fn beginning_with<'n, 'm, T>(names: &'n [(&'m [u8], T)], start: &[u8]) -> &'n [(&'m [u8], T)] {
    let from = names.partition_point(|(name, _)| *name < start);
    let count = names[from..].partition_point(|(name, _)| name.starts_with(start));
    &names[from..from + count]
}

/// Nobody puts a name together of more. (Of any number of letters each name could be.)
const MOST_PIECES: usize = 4;

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
