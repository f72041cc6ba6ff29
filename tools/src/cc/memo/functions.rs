//! Where functions are defined in a text, by its tokens alone: only what can be nothing else counts ([`super::bodies`] says why).
//!
//! The text is gone through once. A declaration is what stands between two ends of declarations (`;`, the braces of a namespace, a class or a
//! function); at an opening brace it is looked at: if it can only be a function, the block behind it is its body; a namespace or a class is gone into; and
//! of all else the block is gone over. Conditional groups must leave as many braces open in each part. Where anything is not understood, what follows
//! has no functions that count.

use super::scan;
use super::tokens::{Lexer, Token};

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
    b"_Noreturn",
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

/// Attributes that say nothing of what is outside of the body that they stand in.
const INNER_ATTRIBUTES: &[&[u8]] = &[b"fallthrough", b"likely", b"maybe_unused", b"unlikely"];

/// So many tokens has no declaration that counts.
const LONGEST: usize = 4096;

/// Words with something in parentheses behind them that belong to a declaration and are no parameters.
const ATTRIBUTES: &[&[u8]] = &[b"__attribute__", b"__attribute", b"__declspec"];

/// What a text consists of.
pub enum Item<'t> {
    /// A token, and where it begins.
    Token(Token<'t>, usize),
    /// A directive.
    Directive(Vec<Token<'t>>),
}

impl<'t> Item<'t> {
    /// The token, if it is one.
    pub fn token(&self) -> Option<Token<'t>> {
        match self {
            Item::Token(token, _) => Some(*token),
            Item::Directive(_) => None,
        }
    }

    /// Where a token begins in the text.
    pub fn place(&self) -> usize {
        match self {
            Item::Token(_, place) => *place,
            Item::Directive(_) => 0,
        }
    }
}

/// The tokens and directives of a text without comments; none if there are braces by other signs, or words that go on in the next line.
pub fn items(text: &[u8]) -> Vec<Item<'_>> {
    let is_in = |what: &[u8]| memchr::memmem::find(text, what).is_some();
    let has_other_signs = [&b"<%"[..], b"%>", b"??"].into_iter().any(is_in);
    if has_other_signs || scan::is_joined(text) != Ok(true) {
        return Vec::new();
    }
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
pub struct Function<'t> {
    /// Its own name.
    pub name: &'t [u8],
    /// The name of the class around, if there is one that is known.
    pub class: Option<&'t [u8]>,
    /// What stands before its body.
    pub declaration: Vec<Token<'t>>,
    /// The opening brace, among the items.
    pub open: usize,
    /// The closing one.
    pub close: usize,
}

/// The functions that are defined in a text of these items.
pub fn find<'t>(items: &[Item<'t>]) -> Vec<Function<'t>> {
    let mut finder = Finder {
        items,
        scopes: Vec::new(),
        declaration: Vec::new(),
        // Who includes this text may have begun a declaration.
        is_unclear: true,
        parentheses: 0,
        groups: Vec::new(),
        guard: has_guard(items),
        found: Vec::new(),
    };
    // What comes behind something that is not understood has none.
    let _ = finder.run();
    finder.found
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
                    let is_only =
                        [3, 4].map(|after| self.token(at + after)) == [Some(Token::Other(b']')); 2];
                    reaches_out |= !is_inner(self.token(at + 2)) || !is_only;
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
pub(super) fn behind_angles(tokens: &[Token<'_>], open: usize) -> Option<usize> {
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
    use super::super::comments::{Keeps, without};
    use super::*;

    /// The functions whose bodies are found, with their classes.
    fn found(text: &str) -> Vec<String> {
        // Nothing is known of the first declaration.
        let text = match text.starts_with('#') {
            true => text.to_owned(),
            false => format!("int first;\n{text}"),
        };
        let rest = without(text.as_bytes(), Keeps::Order).expect("told");
        let shown = |function: Function<'_>| {
            let name = String::from_utf8_lossy(function.name).into_owned();
            match function.class {
                Some(class) => format!("{}::{name}", String::from_utf8_lossy(class)),
                None => name,
            }
        };
        find(&items(&rest)).into_iter().map(shown).collect()
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
                "int f() { [[maybe_unused, gnu::visibility(\"hidden\")]] int g(); }\nint h() { [[maybe_unused]] int x; }\n",
                &["h"],
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
}
