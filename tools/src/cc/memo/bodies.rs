//! The functions that a source defines within it: where their bodies are, and what the source is without these.
//!
//! A body whose function a compile makes no code of may be another one, and the object stays what it is: that is most of what is
//! inline in a header. To tell what is a body, compilers must have understood all that comes before. [`super::functions`] reads only tokens, so only what
//! can be nothing else counts: at the level of the file, of a namespace or a class, a declaration of plain words, with parameters, and `{` behind it.
//! All else stays as it is: what is evaluated by compilers (`constexpr`), whose type follows from its body (`auto`), operators, constructors that
//! have no word before their names, what is in a conditional group, bodies with directives, attributes or names that reach out of them, and the
//! first declaration of a text and behind an inclusion, which may have begun elsewhere. Macros may make another thing of the words: whoever asks has to look
//! whether they are any.
//!
//! The other body has no words but those of the one before and of the function's declaration, and those of the language. So nothing new is referred to: what is
//! declared for some who include the text, and not for others, would be an error that only these see.
//!
//! A number counts as a word if it has a type or value of its own kind (`0` may be a pointer), and each does where it may be an argument of a template or a size.
//! And nothing is said where a template may do something by being instantiated, as by a variable that is initialized when the program starts
//! ([`effects`](super::effects)): the other body might instantiate it where the one before did not.
//!
//! Where lines are moved in debug information, all lines have their numbers but those within bodies that are others ([`Outline::lines_now`]). In C only: compilers of C++ describe
//! a class whole, or only by name, by what is asked of it anywhere, and words do not tell that.
//!
//! The text is one without comments ([`super::comments`]), which does not have what compilers read in different ways. [`VERSION`] is another with each
//! change of what [`super::functions`] finds: what was recorded of the bodies of one version says nothing of those of another.

use super::comments::Keeps;
use super::effects::Effects;
use super::functions::{self, Item};
use super::shared;
use super::tokens::Token;
use format_spec::digest::Digest;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

/// Of what counts as a body: the version in conditions (SPEC.md, section 27).
pub const VERSION: u8 = 3;

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
    /// The lines of the braces, from 0.
    lines: (u32, u32),
    /// Nothing stands behind it in its last line.
    ends_line: bool,
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
    /// What may be called so in a class, and is not defined there: places in `words`.
    members: Vec<u32>,
    /// The words outside of bodies, alike.
    outside: Vec<u32>,
    /// How many lines it has.
    lines: u32,
    /// What it says of templates that do something by being instantiated.
    pub effects: Effects,
}

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

impl Outline {
    /// Of a text without comments, in which so much keeps its place. `None` if it is too large.
    pub fn of(text: &[u8], keeps: Keeps) -> Option<Outline> {
        u32::try_from(text.len()).ok()?;
        let items = functions::items(text);
        let mut words = Words::default();
        for item in &items {
            if let Item::Token(Token::Word(word), _) = item {
                words.number(word, false);
            }
        }
        let mut skeleton = blake3::Hasher::new();
        let mut end = 0;
        let mut bodies = Vec::new();
        let mut members = Vec::new();
        let mut outside = Vec::new();
        let mut behind = 0;
        let mut lines = Lines::default();
        for function in functions::find(&items) {
            words.of_members(&items[behind..function.open], &mut members);
            outside.extend(words.of_items(&items[behind..function.open]));
            behind = function.close;
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
                words: words.of_body(inside, inner),
                lines: (lines.at(text, open), lines.at(text, close)),
                ends_line: ends_line(&text[close + 1..]),
            });
        }
        skeleton.update(&text[end..]);
        words.of_members(&items[behind..], &mut members);
        outside.extend(words.of_items(&items[behind..]));
        for numbers in [&mut members, &mut outside] {
            numbers.sort_unstable();
            numbers.dedup();
        }
        Some(Outline {
            skeleton: *skeleton.finalize().as_bytes(),
            bodies,
            words: words.all,
            members,
            outside,
            lines: lines.at(text, text.len()),
            effects: Effects::of(text, &items),
        })
    }

    /// How many lines the text has, but for one that does not end.
    pub fn lines(&self) -> usize {
        self.lines as usize
    }

    /// Which lines (before and now, from 0) of two texts are the same, where [`others_in`](Self::others_in) says that only bodies are others: those within these are left out. `None`
    /// if it cannot be told.
    pub fn lines_now(&self, new: &Outline) -> Option<Vec<(u32, u32)>> {
        let mut all = Vec::new();
        // What comes next, of either.
        let (mut before, mut now) = (0, 0);
        let mut take = |from: (u32, u32), to: (u32, u32)| {
            let count = to.0.checked_sub(from.0)?;
            (to.1.checked_sub(from.1)? == count).then_some(())?;
            all.extend((0..count).map(|line| (from.0 + line, from.1 + line)));
            Some(())
        };
        for (old, new) in self.bodies.iter().zip(&new.bodies) {
            if old.digest == new.digest {
                continue;
            }
            if !old.ends_line || !new.ends_line {
                return None;
            }
            // The line in which it begins, unless the body before ends there.
            let (begins, begins_now) = (old.lines.0 + 1, new.lines.0 + 1);
            if before < begins || now < begins_now {
                take((before, now), (begins, begins_now))?;
            }
            let is_in_one = |lines: (u32, u32)| lines.0 == lines.1;
            (before, now) = match is_in_one(old.lines) || is_in_one(new.lines) {
                true => (old.lines.1 + 1, new.lines.1 + 1),
                false => (old.lines.1, new.lines.1),
            };
        }
        take((before, now), (self.lines, new.lines))?;
        Some(all)
    }

    /// The bodies that are others in `new`, if that is all that is: and these have no new words, nor is anything used no more of which
    /// compilers may warn then, in a source that has it: a `static` of its own before the text, or, in one that has all functions of a class, a private member. `None` if more is another.
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
            if !words.all(|word| known.contains(&word)) || new.lacks_word(self, old, new_body) {
                return None;
            }
            others.push(new_body);
        }
        Some(others)
    }

    /// Whether a body does not use a word that it did (in `old_text`), so that something may not be used any more that only the source which includes this
    /// text has: what stands nowhere else in the text, or, in a class, what may be a member of it that no other body of the class has.
    fn lacks_word(&self, old_text: &Outline, old: &Body, new: &Body) -> bool {
        let of_new: FxHashSet<u64> = self.hashes(&new.words).collect();
        let mut lost: FxHashSet<u64> = (old_text.hashes(&old.words))
            .filter(|word| !of_new.contains(word))
            .collect();
        for word in OF_THE_LANGUAGE {
            lost.remove(&shared::hash(word));
        }
        if lost.is_empty() {
            return false;
        }
        let outside: FxHashSet<u64> = self.hashes(&self.outside).collect();
        let members: FxHashSet<u64> = self.hashes(&self.members).collect();
        let may_be_member = |word: &u64| new.class.is_some() && members.contains(word);
        lost.retain(|word| !outside.contains(word) || may_be_member(word));
        for body in &self.bodies {
            let is_of_class = body.class == new.class;
            for word in self.hashes(&body.words) {
                if is_of_class || !may_be_member(&word) {
                    lost.remove(&word);
                }
            }
        }
        !lost.is_empty()
    }

    /// The hashes of these words.
    pub fn hashes<'o>(&'o self, words: &'o [u32]) -> impl Iterator<Item = u64> + 'o {
        words
            .iter()
            .filter_map(|at| self.words.get(*at as usize).copied())
    }
}

/// Counts lines up to places that are asked for in ascending order.
#[derive(Default)]
struct Lines {
    counted: usize,
    lines: u32,
}

impl Lines {
    fn at(&mut self, text: &[u8], place: usize) -> u32 {
        let more = memchr::memchr_iter(b'\n', &text[self.counted..place]).count();
        self.lines += more as u32;
        self.counted = place;
        self.lines
    }
}

/// Whether a line ends here, but for blanks and what ends a declaration.
fn ends_line(rest: &[u8]) -> bool {
    let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
    line.iter()
        .all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b';'))
}

/// Whether a word is a number that is an `int`, and no null pointer.
fn is_plain_number(word: &[u8]) -> bool {
    let is_decimal = word[0] != b'0' && word.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(word).ok();
    is_decimal && number.is_some_and(|number| number.parse::<i32>().is_ok())
}

/// Words with numbers.
#[derive(Default)]
struct Words<'t> {
    numbers: FxHashMap<&'t [u8], u32>,
    all: Vec<u64>,
}

impl<'t> Words<'t> {
    /// `is_exact`: so are numbers.
    fn number(&mut self, word: &'t [u8], is_exact: bool) -> Option<u32> {
        if !is_exact && is_plain_number(word) {
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
        self.in_order(tokens.map(|token| (token, false)))
    }

    /// The words of a body, and its numbers where they may decide a type.
    fn of_body(&mut self, inside: &[u8], items: &[Item<'t>]) -> Vec<u32> {
        // (Who compares leaves a blank before it, or does without this.)
        let opens_arguments = |at: usize| {
            let is_behind_word = at.checked_sub(1).is_some_and(|before| {
                let byte = inside[before];
                byte.is_ascii_alphanumeric() || byte == b'_'
            });
            is_behind_word && !matches!(inside.get(at + 1), Some(b'<' | b'='))
        };
        let decides = memchr::memchr(b'[', inside).is_some()
            || memchr::memchr_iter(b'<', inside).any(opens_arguments);
        let is_point = |at: Option<usize>| {
            let item = at.and_then(|at| items.get(at));
            item.and_then(Item::token) == Some(Token::Other(b'.'))
        };
        let tokens = items.iter().enumerate().filter_map(|(at, item)| {
            // (Of a number with a fraction, each part is a word.)
            let is_exact = decides || is_point(at.checked_sub(1)) || is_point(Some(at + 1));
            Some((item.token()?, is_exact))
        });
        self.in_order(tokens)
    }

    fn of_items(&mut self, items: &[Item<'t>]) -> Vec<u32> {
        self.in_order((items.iter().filter_map(Item::token)).map(|token| (token, false)))
    }

    /// Adds the words behind which a declaration of a member may end.
    fn of_members(&mut self, items: &[Item<'t>], members: &mut Vec<u32>) {
        for pair in items.windows(2) {
            if let [
                Item::Token(Token::Word(word), _),
                Item::Token(Token::Other(byte), _),
            ] = pair
                && matches!(byte, b';' | b'=' | b'{' | b'[' | b',' | b':')
            {
                members.extend(self.number(word, false));
            }
        }
    }

    fn in_order(&mut self, tokens: impl Iterator<Item = (Token<'t>, bool)>) -> Vec<u32> {
        let mut numbers: Vec<u32> = tokens
            .filter_map(|(token, is_exact)| match token {
                Token::Word(word) => self.number(word, is_exact),
                _ => None,
            })
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
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

    #[test]
    fn what_the_text_does_not_have_stays_in_use() {
        let old = "int shared(int);\nint f(int a) { return helper(a); }\nint g(int a) { return shared(a) + other(a); }\n\
            int h(int a) { return other(a); }\n";
        let is_alone = |from: &str, to: &str| {
            assert!(old.contains(from));
            others(old, &old.replacen(from, to, 1), Keeps::Order).is_some()
        };
        assert!(!is_alone("return helper(a)", "return a"));
        assert!(is_alone("return helper(a)", "return helper(a + 1)"));
        assert!(is_alone("return shared(a) + other(a)", "return other(a)"));
        assert!(is_alone("return shared(a) + other(a)", "return shared(a)"));
    }

    #[test]
    fn members_of_classes_stay_in_use() {
        let old = "class A { int f() { return a_ + b; } int g() { return b_; }\nint a_, b_; int c[2];\n\
            int h(int c) { return c + b_; } };\nclass B { int g() { return a_; } };\nint b;\n";
        let is_alone = |from: &str, to: &str| {
            assert!(old.contains(from));
            others(old, &old.replacen(from, to, 1), Keeps::Order).is_some()
        };
        assert!(!is_alone("return a_ + b;", "return b;"));
        assert!(!is_alone("return a_ + b;", "return a_;"));
        assert!(is_alone("return a_ + b;", "return a_ - b;"));
        assert!(is_alone("return b_;", "return 5;"));
        assert!(is_alone("return c + b_;", "return c;"));
        assert!(!is_alone(
            "int h(int c) { return c + b_; }",
            "int h(int c) { return b_; }"
        ));
    }

    /// Which lines are the same, if only bodies are others.
    fn lines(old: &str, new: &str) -> Option<Vec<(u32, u32)>> {
        let (old, new) = (outline(old, Keeps::Order), outline(new, Keeps::Order));
        old.others_in(&new).expect("only bodies");
        old.lines_now(&new)
    }

    #[test]
    fn lines_that_are_the_same() {
        // (A line stands before all.)
        let old = "int f(int a) {\n return a;\n}\nint g(int b) { return b; }\nint y;\n";
        let edited = |from: &str, to: &str| lines(old, &old.replacen(from, to, 1));
        let same = |pairs: &[(u32, u32)]| Some(pairs.to_vec());
        assert_eq!(
            edited("return a;", "return 2 * a;"),
            same(&[(0, 0), (1, 1), (3, 3), (4, 4), (5, 5)])
        );
        assert_eq!(
            edited(" return a;", " if (a)\n  return a;\n return 3;"),
            same(&[(0, 0), (1, 1), (3, 5), (4, 6), (5, 7)])
        );
        assert_eq!(
            edited("{ return b; }", "{\n return b;\n}"),
            same(&[(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 7)])
        );
        assert_eq!(
            edited("{\n return a;\n}", "{ return a; }"),
            same(&[(0, 0), (1, 1), (4, 2), (5, 3)])
        );
        // What stands behind it has another column, or line.
        let more = old.replacen("b; }", "b; } int z;", 1);
        assert_eq!(lines(&more, &more.replacen("b;", "b + 1;", 1)), None);
        let whole = lines(&more, &more).expect("nothing is another");
        assert_eq!(whole.len(), outline(&more, Keeps::Order).lines());
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
