//! Templates that do something by being instantiated, whoever asks for that: a variable that is initialized when the program starts, be it a template itself, a
//! member of one, or (`inline static`) within one; and what an attribute has called at the start or at the end, or stay though nobody uses it.
//!
//! Where a source has such, a body of a function matters though no code is made of it: another body may instantiate what the one before did not. Only tokens are looked at, and
//! what can be told from a function or a type only by knowing what its words are counts as such a variable. A macro that makes all of one but its template's head is not seen.

use super::functions::{Item, behind_angles};
use super::tokens::Token;
use serde::{Deserialize, Serialize};

/// What a text says of such templates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effects {
    /// It may define one.
    defines: bool,
    /// It may define a macro for an attribute that makes one of any template, which may be another text's.
    gives: bool,
    /// It may have templates.
    has_templates: bool,
}

impl Effects {
    /// Of a text, of these items.
    pub fn of(text: &[u8], items: &[Item<'_>]) -> Effects {
        let has_templates = memchr::memmem::find(text, b"template").is_some();
        Effects {
            defines: has_templates && may_be_in(text, items),
            gives: may_be_given_by(text, items),
            has_templates,
        }
    }
}

/// Whether some template may do something by being instantiated. `macros`: those of the command line.
pub fn may_be(texts: impl Iterator<Item = Effects> + Clone, macros: &[Vec<u8>]) -> bool {
    let are_given =
        || texts.clone().any(|text| text.gives) || macros.iter().any(|text| names_attributes(text));
    texts.clone().any(|text| text.defines)
        || (texts.clone().any(|text| text.has_templates) && are_given())
}

/// Whether a text with templates, of these items, may define one that does something.
fn may_be_in(text: &[u8], items: &[Item<'_>]) -> bool {
    if items.is_empty() {
        return true;
    }
    if names_attributes(text) {
        let tokens: Vec<Token<'_>> = items.iter().filter_map(Item::token).collect();
        if has_effects_by_attributes(&tokens) {
            return true;
        }
    }
    let mut declaration: Vec<Token<'_>> = Vec::new();
    for item in items {
        let token = match item {
            Item::Token(token, _) => *token,
            Item::Directive(line) if defines_parts(line) => return true,
            Item::Directive(_) => continue,
        };
        match token {
            Token::Other(b';' | b'{' | b'}') => {
                if is_variable_with_effects(&declaration, token == Token::Other(b'{')) {
                    return true;
                }
                declaration.clear();
            }
            // What a class says of who may use what follows ends nothing that matters here.
            _ => declaration.push(token),
        }
    }
    false
}

/// Whether a text, of these items, may define a macro for an attribute of such templates.
fn may_be_given_by(text: &[u8], items: &[Item<'_>]) -> bool {
    names_attributes(text)
        && (items.is_empty()
            || items.iter().any(|item| match item {
                Item::Directive(line) => has_effects_by_attributes(line),
                Item::Token(..) => false,
            }))
}

/// Attributes for what is called at the start or at the end, or stays though nobody uses it.
const WITH_EFFECTS: &[&[u8]] = &[
    b"__attribute_used__",
    b"__constructor__",
    b"__destructor__",
    b"__init_priority__",
    b"__retain__",
    b"__used__",
    b"constructor",
    b"destructor",
    b"init_priority",
    b"retain",
    b"used",
];

/// Whether a text may name such an attribute, as far as a glance tells.
fn names_attributes(text: &[u8]) -> bool {
    let parts = [&b"structor"[..], b"init_priority", b"retain", b"used"];
    (parts.into_iter()).any(|part| memchr::memmem::find(text, part).is_some())
}

/// Whether one of these attributes is among the tokens.
fn has_effects_by_attributes(tokens: &[Token<'_>]) -> bool {
    let is = |at: usize, sign: u8| tokens.get(at) == Some(&Token::Other(sign));
    tokens.iter().enumerate().any(|(at, token)| {
        let (open, close) = match token {
            Token::Word(b"__attribute_used__") => return true,
            Token::Word(b"__attribute__" | b"__attribute") => (b'(', b')'),
            Token::Other(b'[') if is(at + 1, b'[') => (b'[', b']'),
            _ => return false,
        };
        let mut depth = 0_usize;
        let inside = tokens[at..].iter().skip(usize::from(open == b'('));
        let mut inside = inside.take_while(|token| {
            match token {
                Token::Other(byte) if *byte == open => depth += 1,
                Token::Other(byte) if *byte == close => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth > 0
        });
        inside.any(|token| matches!(token, Token::Word(word) if WITH_EFFECTS.contains(word)))
    })
}

/// Words of declarations that define no such variable.
const WITHOUT_EFFECTS: &[&[u8]] = &[
    b"concept",
    b"constexpr",
    b"constinit",
    b"friend",
    b"operator",
    b"typedef",
    b"using",
];

/// Types of which a constant needs no code.
const PLAIN_TYPES: &[&[u8]] = &[
    b"bool",
    b"char",
    b"double",
    b"float",
    b"int",
    b"int32_t",
    b"int64_t",
    b"long",
    b"short",
    b"size_t",
    b"uint32_t",
    b"uint64_t",
    b"uint8_t",
    b"unsigned",
];

/// Whether a declaration, up to its end or to a brace, may be that of such a variable.
fn is_variable_with_effects(declaration: &[Token<'_>], is_brace: bool) -> bool {
    // Without parameters it is none, but has one instantiated.
    let template = declaration
        .windows(2)
        .position(|window| window == [Token::Word(b"template"), Token::Other(b'<')]);
    let is_of_template = template.is_some();
    if !is_of_template && !is_inline_static(declaration) {
        return false;
    }
    let start = template.and_then(|at| behind_angles(declaration, at + 1));
    let rest = outside_parentheses(&declaration[start.unwrap_or(0)..]);
    let is = |at: usize, sign: u8| rest.get(at) == Some(&Token::Other(sign));
    let assigned = (0..rest.len()).find(|at| {
        let is_comparison = |other: usize| is(other, b'=') || is(other, b'!');
        is(*at, b'=') && !is(at + 1, b'=') && !is_comparison(at.wrapping_sub(1))
    });
    let declared = &rest[..assigned.unwrap_or(rest.len())];
    let has_some_of = |words: &[&[u8]]| {
        (declared.iter()).any(|token| matches!(token, Token::Word(word) if words.contains(word)))
    };
    if has_some_of(WITHOUT_EFFECTS) {
        return false;
    }
    let open = (0..declared.len()).find(|at| is(*at, b'('));
    match (assigned, open) {
        // A function that is deleted, defaulted or pure.
        (Some(assigned), Some(_)) => !matches!(
            rest.get(assigned + 1),
            Some(Token::Word(b"default" | b"delete" | b"0"))
        ),
        (Some(_), None) => true,
        (None, Some(open)) => !is_brace && is_of_template && is_member(&declared[..open]),
        (None, None) if is_member(declared) => !is_plain_constant(declared),
        (None, None) if has_some_of(&[b"class", b"struct", b"union", b"enum"]) => false,
        // Its value stands in the class.
        (None, None) => !is_plain_constant(declared),
    }
}

/// Words with something in parentheses behind them that are no functions.
const NO_FUNCTIONS: &[&[u8]] = &[
    b"__attribute",
    b"__attribute__",
    b"__declspec",
    b"__typeof__",
    b"alignas",
    b"decltype",
    b"explicit",
    b"noexcept",
    b"typeof",
];

/// The tokens without what stands in parentheses, and without parentheses behind words that are no functions.
fn outside_parentheses<'t>(tokens: &[Token<'t>]) -> Vec<Token<'t>> {
    let mut outside = Vec::new();
    let mut depth = 0_usize;
    let mut is_silent = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Other(b'(') => {
                if depth == 0 {
                    let before = at.checked_sub(1).map(|before| tokens[before]);
                    is_silent =
                        matches!(before, Some(Token::Word(word)) if NO_FUNCTIONS.contains(&word));
                    if !is_silent {
                        outside.push(*token);
                    }
                }
                depth += 1;
            }
            Token::Other(b')') => {
                depth = depth.saturating_sub(1);
                if depth == 0 && !is_silent {
                    outside.push(*token);
                }
            }
            _ if depth == 0 => outside.push(*token),
            _ => {}
        }
    }
    outside
}

/// Whether a declaration is that of a constant of a type that needs no code.
fn is_plain_constant(declared: &[Token<'_>]) -> bool {
    let angle = declared.iter().position(|it| *it == Token::Other(b'<'));
    let specifiers = &declared[..angle.unwrap_or(declared.len())];
    let is_plain =
        |token: &Token<'_>| matches!(token, Token::Word(word) if PLAIN_TYPES.contains(word));
    let is_const = |token: &Token<'_>| *token == Token::Word(b"const");
    specifiers.windows(2).any(|pair| {
        (is_const(&pair[0]) && is_plain(&pair[1])) || (is_plain(&pair[0]) && is_const(&pair[1]))
    })
}

fn is_inline_static(tokens: &[Token<'_>]) -> bool {
    let has = |word: &[u8]| tokens.contains(&Token::Word(word));
    has(b"inline") && has(b"static")
}

/// Whether a macro may make such a variable, or a good part of it.
fn defines_parts(line: &[Token<'_>]) -> bool {
    let has = |word: &[u8]| line.contains(&Token::Word(word));
    has(b"define") && (has(b"template") || is_inline_static(line))
}

/// Whether what is declared under this name is a member of a template.
fn is_member(name: &[Token<'_>]) -> bool {
    let colon = Token::Other(b':');
    name.windows(3)
        .any(|window| window == [Token::Other(b'>'), colon, colon])
}

#[cfg(test)]
mod tests {
    use super::super::functions::items;
    use super::*;

    /// Tells texts that are such from others.
    #[track_caller]
    fn told(is_such: impl Fn(Effects) -> bool, such: &[&str], others: &[&str]) {
        for (texts, expected) in [(such, true), (others, false)] {
            for text in texts {
                let effects = Effects::of(text.as_bytes(), &items(text.as_bytes()));
                assert_eq!(is_such(effects), expected, "{text}");
            }
        }
    }

    #[test]
    fn templates_that_do_something() {
        let doing = [
            "template <class T> int Reg<T>::v = side();",
            "template<class T> std::map<T, int> Reg<T>::v;",
            "template <class T> Reg<T> Reg<T>::v{1};",
            "template <class T> Reg<T> Reg<T>::v(1);",
            "template <class T> int v = side();",
            "template <class T> struct S { inline static int v = side(); };",
            "template <class T> struct S { static inline Reg v; };",
            "#define REG(T) template <> int Reg<T>::v = side();\ntemplate <class T> struct Reg;",
            "namespace a { template <class T, class U = int> int Reg<T>::v = side(); }",
            "template <class T> alignas(8) int S<T>::v = side();",
            "template <class T> alignas(8) Reg S<T>::v{side()};",
            "template <class T> int (*S<T>::v)() = pick();",
            "template <class T> __attribute__((visibility(\"default\"))) int S<T>::v = side();",
            "template <class T> decltype(side()) S<T>::v = side();",
            "template <class T> decltype(made()) S<T>::v;",
            "template <class T> const Wrap<int> S<T>::v;",
            "template <class T> struct Reg S<T>::v;",
            "template <class T> int S<T>::v = Z().operator()();",
            "template <class T> __attribute__((constructor)) void reg() { say(); }",
            "template <class T> __attribute__((noinline, used)) void reg() { say(); }",
            "template <class T> struct S { [[gnu::used]] void f() {} };",
        ];
        let others = [
            "int v = side();",
            "template <class T> struct S { int a = 1; static const int b = 2; static inline int f() { return 1; } };",
            "template <class T> T f(T a = T());",
            "template <class T> bool operator==(const S<T> &a, const S<T> &b) { return true; }",
            "template <class T> S<T>::S(int x) : a(x), b{x} { int v = x; }",
            "template <class T> void S<T>::f() { v = 1; }",
            "template <class T> using V = S<T>;",
            "template <class T> constexpr bool v = true;",
            "template <class T> const int S<T>::k;",
            "template <class T> int const S<T>::k;",
            "template <class T> S<T>::S() = default;",
            "template <class T> void f(T) = delete;",
            "template <class T> S<T> &S<T>::operator=(const S<T> &other) { return *this; }",
            "template <class T> void f(T a = T(), int b = 5) noexcept(sizeof(T) == 4) { }",
            "template <class T> auto f(T a) -> decltype(a) { return a; }",
            "template class S<int>;\nextern template class S<long>;\ntemplate int f<int>(int);",
            "template <class T, int N = 3> enable_if_t<N == 3, T> f(T) { return 1; }",
            "template <class T> __attribute__((noinline)) void reg(int used) { say(used); }",
            "template <class T> [[nodiscard]] int a(int retain) { return b[used[1]]; }",
        ];
        told(|effects| effects.defines, &doing, &others);
    }

    #[test]
    fn macros_for_templates_that_do_something() {
        let giving = [
            "#define ATTR __attribute__((constructor))\nint x;",
            "#define ATTR(x) [[gnu::used]] x\nint x;",
        ];
        let others = [
            "__attribute__((constructor)) void f() {}\n#define ATTR __attribute__((noinline))\n",
            "#define ATTR(used) __attribute__((noinline)) used\nint x;",
        ];
        told(|effects| effects.gives, &giving, &others);
    }
}
