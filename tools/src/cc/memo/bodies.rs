//! The functions that a source defines within it: where their bodies are, and what the source is without these.
//!
//! A body whose function a compile makes no code of may be another one, and the object stays what it is: that is most of what is
//! inline in a header. To tell what is a body, compilers must have understood all that comes before. Here only tokens are read, so only what
//! can be nothing else counts: at the level of the file, of a namespace or a class, a declaration of plain words, with parameters, and `{` behind it.
//! All else stays as it is: what is evaluated by compilers (`constexpr`), whose type follows from its body (`auto`), operators, constructors that
//! have no word before their names, what is in a conditional group, bodies with directives, attributes or names that reach out of them, and the
//! first declaration of a text and behind an inclusion, which may have begun elsewhere. Macros may make another thing of the words: whoever asks has to look
//! whether they are any.
//!
//! The other body has no words but those of the one before and of the function's declaration, and those of the language. So nothing new is referred to: what is
//! declared for some who include the text, and not for others, would be an error that only these see; and what it would instantiate, the one before did.
//!
//! The text is one without comments ([`super::comments`]), which does not have what compilers read in different ways. [`VERSION`] is another with each
//! change of what is found here: what was recorded of the bodies of one version says nothing of those of another.

use super::comments::Keeps;
use super::scan;
use super::shared;
use super::tokens::{Lexer, Token};
use format_spec::digest::Digest;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

/// Of what counts as a body: the version in conditions (SPEC.md, section 27).
pub const VERSION: u8 = 1;

/// A function that is defined in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// The function's own name.
    pub name: Vec<u8>,
    /// The name of the class in which it stands.
    pub class: Option<Vec<u8>>,
    /// The words of its declaration: places in [`Outline::words`].
    pub declared_by: Vec<u32>,
    /// BLAKE3 of what is between the braces, the first bytes of it.
    digest: [u8; 16],
    /// The words between the braces.
    pub words: Vec<u32>,
}

impl Body {
    /// Hash of the function's name and its class, which is the first bytes of their BLAKE3.
    pub fn key(&self) -> u16 {
        let class = self.class.as_deref().unwrap_or_default();
        short(shared::hash(&[class, &[0], &self.name].concat()))
    }
}

/// The first bytes of a hash.
pub fn short(hash: u64) -> u16 {
    (hash >> 48) as u16
}

/// A text, as far as the bodies in it are concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// Of the text without the bodies.
    skeleton: [u8; 32],
    /// In the order of the text.
    pub bodies: Vec<Body>,
    /// Hashes of all words outside of directives, in the order of their first use.
    pub words: Vec<u64>,
}

/// What no declaration of a function that counts may have among its words, as such or as what a macro makes.
pub const NOT_OF_DECLARATIONS: &[&[u8]] = &[
    b"_Alignas",
    b"_Generic",
    b"_Pragma",
    b"_Static_assert",
    b"__COUNTER__",
    b"__asm",
    b"__asm__",
    b"__auto_type",
    b"__pragma",
    b"__typeof",
    b"__typeof__",
    b"alignas",
    b"asm",
    b"auto",
    b"case",
    b"catch",
    b"class",
    b"concept",
    b"consteval",
    b"constexpr",
    b"constinit",
    b"decltype",
    b"default",
    b"delete",
    b"do",
    b"else",
    b"enum",
    b"explicit",
    b"export",
    b"extern",
    b"for",
    b"friend",
    b"goto",
    b"if",
    b"import",
    b"module",
    b"namespace",
    b"new",
    b"operator",
    b"requires",
    b"return",
    b"sizeof",
    b"static_assert",
    b"struct",
    b"switch",
    b"template",
    b"try",
    b"typedef",
    b"typeof",
    b"typeof_unqual",
    b"union",
    b"using",
    b"while",
];

/// What reaches out of a body: declarations of what is outside, and attributes, which these may have.
pub const NOT_OF_BODIES: &[&[u8]] = &[
    b"_Pragma",
    b"__COUNTER__",
    b"__attribute",
    b"__attribute__",
    b"__asm",
    b"__asm__",
    b"__declspec",
    b"__pragma",
    b"asm",
    b"extern",
    b"friend",
];

/// Words that mean the same wherever they stand: those that bodies are made of.
const OF_THE_LANGUAGE: &[&[u8]] = &[
    b"bool",
    b"break",
    b"case",
    b"catch",
    b"char",
    b"const",
    b"const_cast",
    b"continue",
    b"default",
    b"delete",
    b"do",
    b"double",
    b"dynamic_cast",
    b"else",
    b"enum",
    b"false",
    b"float",
    b"for",
    b"goto",
    b"if",
    b"int",
    b"long",
    b"new",
    b"nullptr",
    b"operator",
    b"reinterpret_cast",
    b"return",
    b"short",
    b"signed",
    b"sizeof",
    b"static",
    b"static_cast",
    b"struct",
    b"switch",
    b"this",
    b"throw",
    b"true",
    b"try",
    b"typename",
    b"union",
    b"unsigned",
    b"void",
    b"volatile",
    b"while",
];

/// Attributes that say nothing of what is outside of the body that they stand in.
const INNER_ATTRIBUTES: &[&[u8]] = &[b"fallthrough", b"likely", b"maybe_unused", b"unlikely"];

/// So many tokens has no declaration that counts.
const LONGEST: usize = 4096;

/// Words with something in parentheses behind them that belong to a declaration and are no parameters.
const ATTRIBUTES: &[&[u8]] = &[b"__attribute__", b"__attribute", b"__declspec"];

impl Outline {
    /// Of a text without comments, in which so much keeps its place. `None` if it is too large.
    pub fn of(text: &[u8], keeps: Keeps) -> Option<Outline> {
        u32::try_from(text.len()).ok()?;
        let is_in = |what: &[u8]| memchr::memmem::find(text, what).is_some();
        // Braces by other signs, and words that go on in the next line.
        let is_odd =
            [&b"<%"[..], b"%>", b"??"].into_iter().any(is_in) || scan::is_joined(text) != Ok(true);
        let items = match is_odd {
            true => Vec::new(),
            false => items(text),
        };
        let mut finder = Finder {
            items: &items,
            scopes: Vec::new(),
            declaration: Vec::new(),
            // Who includes this text may have begun a declaration.
            is_unclear: true,
            parentheses: 0,
            groups: Vec::new(),
            guard: has_guard(&items),
            found: Vec::new(),
        };
        // What comes behind something that is not understood has no bodies.
        let _ = finder.run();
        let mut words = Words::default();
        for item in &items {
            if let Item::Token(Token::Word(word), _) = item {
                words.number(word);
            }
        }
        let mut skeleton = blake3::Hasher::new();
        let mut end = 0;
        let mut bodies = Vec::new();
        for function in finder.found {
            let place = |at: usize| items[at].place();
            let (open, close) = (place(function.open) + 1, place(function.close));
            let inside = &text[open..close];
            // (The size, so that nothing in a body can stand for the end of another.)
            skeleton.update(&((open - end) as u64).to_le_bytes());
            skeleton.update(&text[end..open]);
            if keeps == Keeps::Places {
                let lines = memchr::memchr_iter(b'\n', inside).count();
                let last = memchr::memrchr(b'\n', inside).map_or(0, |end| end + 1);
                for number in [lines, inside.len() - last] {
                    skeleton.update(&(number as u64).to_le_bytes());
                }
            }
            end = close;
            let digest = Digest::of(inside).0;
            let inner = &items[function.open + 1..function.close];
            bodies.push(Body {
                name: function.name.to_vec(),
                class: function.class.map(<[u8]>::to_vec),
                declared_by: words.numbers(function.declaration.iter().copied()),
                digest: *digest.first_chunk().expect("32 bytes"),
                words: words.numbers(inner.iter().filter_map(Item::token)),
            });
        }
        skeleton.update(&text[end..]);
        Some(Outline {
            skeleton: *skeleton.finalize().as_bytes(),
            bodies,
            words: words.all,
        })
    }

    /// The bodies that are others in `new`, if that is all that is: and these have no new words. `None` if more is another.
    pub fn others_in<'n>(&self, new: &'n Outline) -> Option<Vec<&'n Body>> {
        if self.skeleton != new.skeleton || self.bodies.len() != new.bodies.len() {
            return None;
        }
        let mut others = Vec::new();
        for (old, new_body) in self.bodies.iter().zip(&new.bodies) {
            if (&old.name, &old.class) != (&new_body.name, &new_body.class) {
                return None;
            }
            if old.digest == new_body.digest {
                continue;
            }
            let known: FxHashSet<u64> = (self.hashes(&old.words))
                .chain(self.hashes(&old.declared_by))
                .chain(OF_THE_LANGUAGE.iter().map(|word| shared::hash(word)))
                .collect();
            let mut words = new.hashes(&new_body.words);
            if !words.all(|word| known.contains(&word)) {
                return None;
            }
            others.push(new_body);
        }
        Some(others)
    }

    /// The hashes of these words.
    pub fn hashes<'o>(&'o self, words: &'o [u32]) -> impl Iterator<Item = u64> + 'o {
        words
            .iter()
            .filter_map(|at| self.words.get(*at as usize).copied())
    }
}

/// Words with numbers.
#[derive(Default)]
struct Words<'t> {
    numbers: FxHashMap<&'t [u8], u32>,
    all: Vec<u64>,
}

impl<'t> Words<'t> {
    fn number(&mut self, word: &'t [u8]) -> Option<u32> {
        // A number; but with a name behind it, it may be more.
        if word[0].is_ascii_digit() && !word.contains(&b'_') {
            return None;
        }
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(word).or_insert(next);
        if number == next {
            self.all.push(shared::hash(word));
        }
        Some(number)
    }

    fn numbers(&mut self, tokens: impl Iterator<Item = Token<'t>>) -> Vec<u32> {
        let mut numbers: Vec<u32> = tokens
            .filter_map(|token| match token {
                Token::Word(word) => self.number(word),
                _ => None,
            })
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

/// What a text consists of.
enum Item<'t> {
    /// A token, and where it begins.
    Token(Token<'t>, usize),
    /// A directive.
    Directive(Vec<Token<'t>>),
}

impl<'t> Item<'t> {
    fn token(&self) -> Option<Token<'t>> {
        match self {
            Item::Token(token, _) => Some(*token),
            Item::Directive(_) => None,
        }
    }

    fn place(&self) -> usize {
        match self {
            Item::Token(_, place) => *place,
            Item::Directive(_) => 0,
        }
    }
}

fn items(text: &[u8]) -> Vec<Item<'_>> {
    let mut lexer = Lexer::new(text);
    let (mut line, mut places) = (Vec::new(), Vec::new());
    let mut items = Vec::new();
    while lexer.line_with_places(&mut line, &mut places) {
        if line.first() == Some(&Token::Other(b'#')) {
            items.push(Item::Directive(line.clone()));
        } else {
            let tokens = line.iter().zip(&places);
            items.extend(tokens.map(|(token, place)| Item::Token(*token, *place)));
        }
    }
    items
}

/// Whether a text is all in the group that sees to it that it is read once.
fn has_guard(items: &[Item<'_>]) -> bool {
    let directive = |item: Option<&Item<'_>>, name: &[u8]| match item {
        Some(Item::Directive(line)) => match line.as_slice() {
            [_, Token::Word(word), Token::Word(what), ..] if *word == name => Some(what.to_vec()),
            _ => None,
        },
        _ => None,
    };
    let is_pragma = |item: &&Item<'_>| matches!(item, Item::Directive(line) if line.get(1) == Some(&Token::Word(b"pragma")));
    let mut first = items.iter().skip_while(is_pragma);
    let asked = directive(first.next(), b"ifndef");
    asked.is_some() && asked == directive(first.next(), b"define")
}

/// A function whose body was found.
struct Function<'t> {
    name: &'t [u8],
    class: Option<&'t [u8]>,
    declaration: Vec<Token<'t>>,
    /// The braces, among the items.
    open: usize,
    close: usize,
}

/// Goes through a text.
struct Finder<'i, 't> {
    items: &'i [Item<'t>],
    /// The classes around, with their names. Namespaces do not count: within these all is as outside.
    scopes: Vec<Option<&'t [u8]>>,
    /// What was read of a declaration.
    declaration: Vec<Token<'t>>,
    /// It is not known where the declaration has begun.
    is_unclear: bool,
    /// How many are open.
    parentheses: usize,
    /// Conditional groups: how many classes were around where each began.
    groups: Vec<usize>,
    /// Whether the first group is one around all.
    guard: bool,
    found: Vec<Function<'t>>,
}

/// What is not understood.
struct Lost;

/// A block in braces that was gone over.
struct Block {
    /// The closing one.
    close: usize,
    /// Whether there is a directive in it, or a word that reaches out of it.
    reaches_out: bool,
}

/// What opens with a brace, besides functions.
enum Opened<'t> {
    Namespace,
    Class(Option<&'t [u8]>),
    /// A function of some kind; the declaration ends with it.
    FunctionLike,
    /// More of the declaration may follow.
    Other,
}

impl<'t> Finder<'_, 't> {
    fn run(&mut self) -> Result<(), Lost> {
        let mut at = 0;
        while let Some(item) = self.items.get(at) {
            let token = match item {
                Item::Directive(line) => {
                    if line.contains(&Token::Other(b'\\')) {
                        return Err(Lost);
                    }
                    let depth = self.scopes.len();
                    follow_group(&mut self.groups, line, depth)?;
                    let is_end = line.get(1) == Some(&Token::Word(b"endif"));
                    let is_else =
                        matches!(line.get(1), Some(Token::Word(word)) if word.starts_with(b"el"));
                    self.guard &= !(is_end && self.groups.is_empty());
                    self.guard &= !(is_else && self.groups.len() == 1);
                    if self.parentheses > 0 && is_conditional(line) {
                        return Err(Lost);
                    }
                    // What was read may be followed by something else; and what is included may begin a declaration.
                    self.is_unclear |= !self.declaration.is_empty() || is_inclusion(line);
                    if is_inclusion(line) {
                        // It may end a class, and begin another.
                        self.scopes.fill(None);
                    }
                    at += 1;
                    continue;
                }
                Item::Token(token, _) => *token,
            };
            match token {
                Token::Other(b'(' | b'[') => {
                    self.parentheses += 1;
                    self.declaration.push(token);
                }
                Token::Other(b')' | b']') => {
                    self.parentheses = self.parentheses.checked_sub(1).ok_or(Lost)?;
                    self.declaration.push(token);
                }
                Token::Other(b'{') => at = self.open(at)?,
                // A directive may stand behind what is read as another token.
                Token::Paste | Token::Other(b'#' | b'\\') => return Err(Lost),
                Token::Other(b'}') if self.parentheses > 0 => return Err(Lost),
                Token::Other(b'}') => {
                    self.begin();
                    // Names of variables may follow a class.
                    self.is_unclear = self.scopes.pop().is_some();
                    // It ends where its group is not left out.
                    if self.groups.iter().any(|depth| *depth > self.scopes.len()) {
                        return Err(Lost);
                    }
                }
                Token::Other(b';') if self.parentheses == 0 => self.begin(),
                Token::Other(b':') if self.parentheses == 0 && self.is_access() => self.begin(),
                _ => self.declaration.push(token),
            }
            if self.declaration.len() > LONGEST {
                return Err(Lost);
            }
            at += 1;
        }
        Ok(())
    }

    /// A declaration begins behind what was read last.
    fn begin(&mut self) {
        self.declaration.clear();
        self.is_unclear = false;
    }

    /// Whether what was read is `public` and its like.
    fn is_access(&self) -> bool {
        let access = [&b"public"[..], b"protected", b"private"];
        matches!(self.declaration[..], [Token::Word(word)] if access.contains(&word))
    }

    /// At an opening brace. Where the item is up to which all was read.
    fn open(&mut self, at: usize) -> Result<usize, Lost> {
        if self.parentheses == 0 && !self.is_unclear {
            let class = self.scopes.last().copied();
            if let Some((name, class)) = function(&self.declaration, class) {
                let block = self.block(at)?;
                let is_conditional = self.groups.len() > usize::from(self.guard);
                let calls_itself = self.calls_itself(name, at, block.close);
                if !block.reaches_out && !is_conditional && !calls_itself {
                    self.found.push(Function {
                        name,
                        class,
                        declaration: std::mem::take(&mut self.declaration),
                        open: at,
                        close: block.close,
                    });
                }
                self.begin();
                return Ok(block.close);
            }
        }
        let opened = match self.parentheses {
            0 => opened(&self.declaration),
            _ => Opened::Other,
        };
        match opened {
            Opened::Namespace if !self.scopes.is_empty() => Err(Lost),
            Opened::Namespace => {
                self.begin();
                Ok(at)
            }
            Opened::Class(name) => {
                self.scopes.push(name);
                self.begin();
                Ok(at)
            }
            Opened::FunctionLike => {
                let block = self.block(at)?;
                self.begin();
                Ok(block.close)
            }
            Opened::Other => {
                let block = self.block(at)?;
                self.is_unclear |= self.parentheses == 0;
                self.declaration.push(Token::Other(b'}'));
                Ok(block.close)
            }
        }
    }

    /// Goes over what is between braces, of which the first is at `open`.
    fn block(&self, open: usize) -> Result<Block, Lost> {
        let mut depth = 0_usize;
        let mut groups = Vec::new();
        let mut reaches_out = false;
        for (at, item) in self.items.iter().enumerate().skip(open) {
            let token = match item {
                Item::Directive(line) if line.contains(&Token::Other(b'\\')) => return Err(Lost),
                Item::Directive(line) => {
                    reaches_out = true;
                    follow_group(&mut groups, line, depth)?;
                    continue;
                }
                Item::Token(token, _) => token,
            };
            match token {
                Token::Other(b'{') => depth += 1,
                Token::Other(b'}') => {
                    depth -= 1;
                    if groups.iter().any(|start| *start > depth) {
                        return Err(Lost);
                    }
                    if depth == 0 {
                        let close = at;
                        return Ok(Block { close, reaches_out });
                    }
                }
                Token::Word(word) => reaches_out |= NOT_OF_BODIES.contains(word),
                // An attribute.
                Token::Other(b'[') if self.token(at + 1) == Some(Token::Other(b'[')) => {
                    let is_inner = |token| matches!(token, Some(Token::Word(word)) if INNER_ATTRIBUTES.contains(&word));
                    reaches_out |= !is_inner(self.token(at + 2));
                }
                Token::Paste | Token::Other(b'#' | b'\\') => return Err(Lost),
                _ => {}
            }
        }
        Err(Lost)
    }

    fn token(&self, at: usize) -> Option<Token<'t>> {
        self.items.get(at).and_then(Item::token)
    }

    /// Whether a function calls what the compiler takes for itself: then it is not compiled in C, if others have it.
    fn calls_itself(&self, name: &[u8], open: usize, close: usize) -> bool {
        let builtin = [b"__builtin_", name].concat();
        let mut tokens = self.items[open..close].iter().filter_map(Item::token);
        tokens.any(|token| token == Token::Word(&builtin))
    }
}

fn is_inclusion(line: &[Token<'_>]) -> bool {
    matches!(
        line,
        [_, Token::Word(b"include" | b"include_next" | b"import"), ..]
    )
}

fn is_conditional(line: &[Token<'_>]) -> bool {
    matches!(line, [_, Token::Word(name), ..] if name.starts_with(b"if") || name.starts_with(b"el") || *name == b"endif")
}

/// Takes note of a conditional: each part of a group must leave as many braces open as there were.
fn follow_group(groups: &mut Vec<usize>, line: &[Token<'_>], depth: usize) -> Result<(), Lost> {
    let [_, Token::Word(name), ..] = line else {
        return Ok(());
    };
    let is_same = match *name {
        b"if" | b"ifdef" | b"ifndef" => {
            groups.push(depth);
            true
        }
        b"else" | b"elif" | b"elifdef" | b"elifndef" => groups.last() == Some(&depth),
        b"endif" => groups.pop() == Some(depth),
        _ => true,
    };
    is_same.then_some(()).ok_or(Lost)
}

/// Where the parentheses end of which the first is at `open`, behind them.
fn behind(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Other(b'(' | b'[') => depth += 1,
            Token::Other(b')' | b']') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Words that a template's parameters may begin with.
const OF_PARAMETERS: &[&[u8]] = &[b"auto", b"class", b"struct", b"enum", b"union", b"template"];

/// Where a list in `<` and `>` ends, behind it.
fn behind_angles(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = open;
    while let Some(token) = tokens.get(at) {
        match token {
            Token::Other(b'<') => depth += 1,
            Token::Other(b'>') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            Token::Other(b'(' | b'[') => {
                at = behind(tokens, at)?;
                continue;
            }
            Token::Word(word)
                if NOT_OF_DECLARATIONS.contains(word) && !OF_PARAMETERS.contains(word) =>
            {
                return None;
            }
            Token::Word(_) | Token::Other(b':' | b',' | b'*' | b'&' | b'.' | b'=') => {}
            _ => return None,
        }
        at += 1;
    }
    None
}

/// Behind `template <…>` at the start, if it is there.
fn behind_template(tokens: &[Token<'_>]) -> Option<usize> {
    match tokens {
        [Token::Word(b"template"), Token::Other(b'<'), ..] => behind_angles(tokens, 1),
        _ => Some(0),
    }
}

/// The name of the function that is declared by these tokens, and that of the class in which it stands; `None` if it is none that counts. `class`: the
/// class around, if there is one.
fn function<'t>(
    tokens: &[Token<'t>],
    class: Option<Option<&'t [u8]>>,
) -> Option<(&'t [u8], Option<&'t [u8]>)> {
    let mut at = behind_template(tokens)?;
    let mut words = 0;
    let name = loop {
        match *tokens.get(at)? {
            Token::Word(word) if ATTRIBUTES.contains(&word) => at = behind(tokens, at + 1)?,
            Token::Other(b'[') if tokens.get(at + 1) == Some(&Token::Other(b'[')) => {
                let end = behind(tokens, at)?;
                let is_odd = |token: &Token<'_>| matches!(token, Token::Word(word) if NOT_OF_DECLARATIONS.contains(word));
                if tokens[at..end].iter().any(is_odd) {
                    return None;
                }
                at = end;
            }
            // `struct S *f()`; without the `*` it could be a type that is defined.
            Token::Word(b"struct" | b"union" | b"enum") => match tokens.get(at + 1..at + 3)? {
                [Token::Word(_), Token::Other(b'*')] => {
                    at += 3;
                    words += 1;
                }
                _ => return None,
            },
            Token::Word(word)
                if NOT_OF_DECLARATIONS.contains(&word) || word[0].is_ascii_digit() =>
            {
                return None;
            }
            Token::Word(word) if tokens.get(at + 1) == Some(&Token::Other(b'(')) => break word,
            Token::Word(_) => {
                words += 1;
                at += 1;
            }
            Token::Other(b'<') if words > 0 => at = behind_angles(tokens, at)?,
            Token::Other(b':') if tokens.get(at + 1) == Some(&Token::Other(b':')) => at += 2,
            Token::Other(b'*' | b'&') => at += 1,
            _ => return None,
        }
    };
    if words == 0 || ABBREVIATED.contains(&name) {
        return None;
    }
    let end = behind(tokens, at + 1)?;
    let is_odd = |token: &Token<'_>| match token {
        Token::Word(word) => {
            NOT_OF_DECLARATIONS.contains(word)
                && !matches!(*word, b"struct" | b"union" | b"enum" | b"class")
        }
        Token::Other(byte) => matches!(byte, b'}' | b'{' | b';' | b'#'),
        _ => false,
    };
    if tokens[at + 1..end].iter().any(is_odd) {
        return None;
    }
    at = end;
    while let Some(token) = tokens.get(at) {
        match token {
            Token::Word(b"const" | b"volatile" | b"noexcept" | b"override" | b"final")
            | Token::Other(b'&') => at += 1,
            Token::Word(word) if ATTRIBUTES.contains(word) => at = behind(tokens, at + 1)?,
            _ => return None,
        }
    }
    // (What stands before `::` may be another name of the class; within one it stands before friends only.)
    Some((name, class.flatten()))
}

/// Templates of the standard library whose names are not written in what clang calls their members.
const ABBREVIATED: &[&[u8]] = &[
    b"allocator",
    b"basic_string",
    b"basic_istream",
    b"basic_ostream",
    b"basic_iostream",
];

/// Whether there is a `=` that is neither in parentheses nor in the name of an operator.
fn is_initialized(tokens: &[Token<'_>]) -> bool {
    let mut depth = 0_usize;
    for token in tokens {
        match token {
            Token::Other(b'(' | b'[') => depth += 1,
            Token::Other(b')' | b']') => depth = depth.saturating_sub(1),
            Token::Word(b"operator") if depth == 0 => return false,
            Token::Other(b'=') if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// What opens with a brace behind these tokens, which are no function that counts.
fn opened<'t>(tokens: &[Token<'t>]) -> Opened<'t> {
    let is_word = |token: &&Token<'_>| matches!(token, Token::Word(_));
    match tokens {
        [Token::Word(b"extern"), Token::Literal(..)] => return Opened::Namespace,
        [Token::Word(b"namespace"), rest @ ..]
        | [Token::Word(b"inline"), Token::Word(b"namespace"), rest @ ..] => {
            let is_plain = |token: &Token<'_>| matches!(token, Token::Word(_) | Token::Other(b':'));
            return match rest.iter().all(is_plain) {
                true => Opened::Namespace,
                false => Opened::Other,
            };
        }
        _ => {}
    }
    let Some(mut at) = behind_template(tokens) else {
        return Opened::Other;
    };
    while matches!(
        tokens.get(at),
        Some(Token::Word(b"typedef" | b"static" | b"const"))
    ) {
        at += 1;
    }
    let has_parentheses = tokens[at..].contains(&Token::Other(b'('));
    let has_assignment = is_initialized(&tokens[at..]);
    match tokens.get(at) {
        Some(Token::Word(b"class" | b"struct" | b"union"))
            if !has_parentheses && !has_assignment =>
        {
            let head = &tokens[at + 1..];
            let end = head.iter().position(|token| {
                matches!(
                    token,
                    Token::Other(b'<' | b':')
                        | Token::Word(b"final" | b"__final" | b"sealed" | b"abstract")
                )
            });
            // (A qualified name, which is not told from a base class.)
            let mut names = head[..end.unwrap_or(head.len())].iter().filter(is_word);
            let name = match names.next_back() {
                Some(Token::Word(word)) if !ABBREVIATED.contains(word) => Some(*word),
                _ => None,
            };
            let is_qualified = head.windows(2).any(|pair| pair == [Token::Other(b':'); 2]);
            let has_attribute = head.contains(&Token::Other(b'['));
            Opened::Class(name.filter(|_| !is_qualified && !has_attribute))
        }
        Some(Token::Word(b"class" | b"struct" | b"union" | b"enum")) => Opened::Other,
        Some(_) if has_parentheses && !has_assignment => {
            // A member that is initialized with braces, before the body.
            let is_list = tokens
                .windows(2)
                .any(|pair| pair == [Token::Other(b')'), Token::Other(b':')]);
            match tokens.last() {
                Some(Token::Word(word))
                    if is_list && ![&b"const"[..], b"noexcept", b"override"].contains(word) =>
                {
                    Opened::Other
                }
                Some(Token::Other(b'>')) if is_list => Opened::Other,
                _ => Opened::FunctionLike,
            }
        }
        _ => Opened::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::comments::without;
    use super::*;
    use proptest::prelude::*;

    fn outline(text: &str, keeps: Keeps) -> Outline {
        // Nothing is known of the first declaration.
        let text = match text.starts_with('#') {
            true => text.to_owned(),
            false => format!("int first;\n{text}"),
        };
        let rest = without(text.as_bytes(), keeps).expect("told");
        Outline::of(&rest, keeps).expect("small")
    }

    /// The functions whose bodies are found, with their classes.
    fn found(text: &str) -> Vec<String> {
        let outline = outline(text, Keeps::Order);
        let shown = |body: &Body| {
            let name = String::from_utf8_lossy(&body.name).into_owned();
            match &body.class {
                Some(class) => format!("{}::{name}", String::from_utf8_lossy(class)),
                None => name,
            }
        };
        outline.bodies.iter().map(shown).collect()
    }

    #[test]
    fn functions_are_found() {
        for (text, expected) in [
            ("inline int f(int x) { return x; }\n", &["f"][..]),
            (
                "static inline struct S *f(struct S *x) { return x; }\n",
                &["f"],
            ),
            (
                "namespace a::b { int f() { return 1; } }\nint g() { return 2; }\n",
                &["f", "g"],
            ),
            (
                "extern \"C\" {\nint f(void) { return 1; }\n}\nint g() {}\n",
                &["f", "g"],
            ),
            (
                "class A : public B<int> {\n public:\n  int f() const { return x_; }\n  A() : x_(1), y_{2} {}\n  int g() && noexcept { return 0; }\n int x_;\n};\nint h() {}\n",
                &["A::f", "A::g", "h"],
            ),
            (
                "template <class T, int N = (3 > 2)> struct A final { T f() { return T(); } };\n",
                &["A::f"],
            ),
            ("template <typename T> T f(T x) { return x; }\n", &["f"]),
            (
                "typedef struct { int x; int f() { return x; } } S;\nint g() {}\n",
                &["f", "g"],
            ),
            (
                "inline std::vector<std::pair<int, int>> f(const std::string& x = \"{\") { return {}; }\n",
                &["f"],
            ),
            (
                "[[nodiscard]] __attribute__((noinline)) int f() { if (x) { y(); } else { z(); } return '{'; }\n",
                &["f"],
            ),
            ("inline int A::f() const { return 1; }\n", &["f"]),
            (
                "#ifndef X\n#define X\nint first;\nint f() {}\n#ifdef Y\nint g() {}\n#endif\nint h() {}\n#endif\n",
                &["f", "h"],
            ),
            (
                "#pragma once\nint first;\nint f() {}\n#if X\nint g() {}\n#endif\n",
                &["f"],
            ),
            ("enum E { A, B };\nint a[] = {1, 2};\nint f() {}\n", &["f"]),
            (
                "struct A { struct B { int f() {} } b; int g() {} };\n",
                &["B::f", "A::g"],
            ),
            ("A::A(int x) : x_(x), y_{x} { z(); }\nint f() {}\n", &["f"]),
            (
                "struct A { explicit A(int) {} virtual ~A() {} bool operator==(A) { return 1; } int f() {} };\n",
                &["A::f"],
            ),
            (
                "namespace std { template <> class allocator<X> { int f() {} }; }\n",
                &["f"],
            ),
            (
                "struct [[using gnu: packed]] A { int f() { [[maybe_unused]] int x = 1; } };\n",
                &["f"],
            ),
            (
                "struct A __final { int f() {} int x;\n#include \"more.inc\"\nint y; int g() {} };\n",
                &["A::f", "g"],
            ),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn what_may_be_something_else_is_not() {
        for text in [
            "constexpr int f() { return 1; }\n",
            "inline auto f() { return 1; }\n",
            "auto f() -> int { return 1; }\n",
            "static constexpr int f() { return 1; }\n",
            "template <> int f<int>() { return 1; }\n",
            "friend int f(A) { return 1; }\n",
            "int f(auto x) { return 1; }\n",
            "f(int x) { return x; }\n",
            "struct A ALIGNED(8) { int x; };\n",
            "struct A B(8) { int x; };\n",
            "char *s = QUOTE(int f(int x) { return x; });\n",
            "QUOTE(; int f(int x) { return x; })\n",
            "int x{1};\nint y = {2};\n",
            "auto f = [](int x) { return x; };\n",
            "int f() requires C<int> { return 1; }\n",
            "int f() {\n#if X\nreturn 1;\n#endif\n}\n",
            "int f() { friend int g(); }\n",
            "int f() { extern int x; return x; }\n",
            "int f() { int x __attribute__((cleanup(g))) = 1; }\n",
            "#if X\nint f() {\n#else\nint f(int x) {\n#endif\nreturn 1; }\nint g() {}\n",
            "int f() try { return 1; } catch (int x) { return 2; }\n",
            "typedef int T; T f(\n#if X\nint x\n#endif\n) { return 1; }\n",
            "int operator+(A a, A b) { return 1; }\n",
            "else if (x) { y(); }\n",
            "#pragma once\nint f() { return 1; }\n",
            "int x;\n#include \"evaluated.h\"\nint f() { return 1; }\n",
            "int f() { return __builtin_f(); }\n",
            "int f() { [[gnu::visibility(\"hidden\")]] int g(); return g(); }\n",
            "[[msvc::constexpr]] int f() { return 1; }\n",
            "constex\\\npr int f() { return 1; }\n",
            "int g(); \\ \nint f() { return 1; }\n",
            "#define D constexpr \\ \nint f() { return 1; }\n",
            "struct A <% int x; %>;\nint f() { return 1; }\n",
            "struct A { int x;\n#ifdef SPLIT\n}; struct B {\n#endif\nint f() { return 1; } };\n",
            "namespace std { template <> class allocator<X> { inline allocator() { f(); } }; }\n",
            "#ifndef X\n#define X\n#else\nint x;\nint f() { return 1; }\n#endif\n",
            "/*\n*/ #if 0\nint f() { return 1; }\n",
            "int f() {",
            "int f() }\nint g() {",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    /// The names of bodies that are others, if that is all.
    fn others(old: &str, new: &str, keeps: Keeps) -> Option<Vec<String>> {
        let (old, new) = (outline(old, keeps), outline(new, keeps));
        let others = old.others_in(&new)?;
        Some(
            others
                .iter()
                .map(|body| String::from_utf8_lossy(&body.name).into_owned())
                .collect(),
        )
    }

    #[test]
    fn only_bodies_may_be_others() {
        let old =
            "int x;\nint f(int a) { return a; }\nint g(int b) {\n  return b + x;\n}\nint y;\n";
        let edited = |from: &str, to: &str| {
            assert!(old.contains(from));
            others(old, &old.replacen(from, to, 1), Keeps::Order)
        };
        let names =
            |list: &[&str]| Some(list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(edited("int x", "int x"), names(&[]));
        assert_eq!(edited("return a;", "return a * 77;"), names(&["f"]));
        assert_eq!(
            edited("return b + x;", "if (b > 1) return x;\n\n  return b;"),
            names(&["g"])
        );
        assert_eq!(
            edited("return a", "while (a) { if (a > 1) break; }\n return a"),
            names(&["f"])
        );
        // A word that the body did not have.
        assert_eq!(edited("return a;", "return z;"), None);
        assert_eq!(edited("return a;", "return x;"), None);
        assert_eq!(edited("return a;", "return 1_a;"), None);
        assert_eq!(edited("int x", "int z"), None);
        assert_eq!(edited("f(int a)", "f(int a, int b)"), None);
        assert_eq!(edited("int f", "static int f"), None);
        assert_eq!(edited("return a;", "return a; } int f() {"), None);
        assert_eq!(edited("return a;", "\n#define x y\nreturn a;"), None);
        assert_eq!(edited("int g", "inline int g"), None);
        // Where lines matter, there must be as many.
        let places = |to: &str| others(old, &old.replacen("return a;", to, 1), Keeps::Places);
        assert_eq!(places("return 7;"), names(&["f"]));
        assert_eq!(places("return a + 7;"), None);
        assert_eq!(places("return\n a;"), None);
        let last = old.replacen("return b + x;", "return b;", 1);
        assert_eq!(others(old, &last, Keeps::Places), names(&["g"]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Outline::of(&text, Keeps::Order);
        }

        #[test]
        fn any_tokens_are_read(pieces in prop::collection::vec(prop::sample::select(vec![
            "int ", "f", "(", ")", "{", "}", "<", ">", "::", ";", "class ", "struct ", "template ", "[", "]", "=", ":", "\n#if X\n",
            "\n#else\n", "\n#endif\n", "const ", "namespace ", "A", "\"x\"", "'{'", "~", "extern ",
        ]), 0..60)) {
            let text = pieces.concat();
            for keeps in [Keeps::Order, Keeps::Places] {
                if let Some(rest) = without(text.as_bytes(), keeps)
                    && let Some(outline) = Outline::of(&rest, keeps)
                {
                    prop_assert_eq!(outline.others_in(&outline).map(|it| it.len()), Some(0));
                }
            }
        }
    }
}
