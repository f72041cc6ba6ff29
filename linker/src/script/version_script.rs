//! Version scripts and dynamic lists ("VERSION Command", "--dynamic-list" in GNU ld's manual).
//!
//! A version script is a list of nodes `NAME { global: patterns; local: patterns; } PARENT;`, a dynamic list is
//! `{ patterns; };`. Patterns are names, shell patterns, or quoted (then literal), for symbols as they are in the file or,
//! within `extern "C++"`, demangled. [`Matcher`] answers for each symbol which node it belongs to, and whether it stays
//! global:
//!
//! 1. a literal name decides, that of the first node that has it, global before local;
//! 2. then a pattern other than `*` under `global`, the last one that matches;
//! 3. then one under `local`, the last one;
//! 4. then `*` under `global`, and then `*` under `local`, of the last node.
//!
//! Literal names are in a hash map, patterns are compiled; a name is demangled once, and only if there is something to
//! compare it with.

use std::fmt;

use rustc_hash::FxHashMap;

use crate::base::glob::{Glob, has_wildcard};
use crate::messages::diag::demangle;
use crate::script::position::{ScriptText, UnclosedComment};

/// A version script, or the `VERSION` command of a linker script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionScript {
    /// The nodes in order.
    pub nodes: Vec<VersionNode>,
}

/// A node: a version, or the anonymous one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionNode {
    /// The version's name; `None` for the anonymous node, which only says what is visible.
    pub name: Option<Vec<u8>>,
    /// Under `global:`, or before any label.
    pub globals: Vec<VersionPattern>,
    /// Under `local:`.
    pub locals: Vec<VersionPattern>,
    /// The versions that this one follows (`verdaux` entries after the first).
    pub parents: Vec<Vec<u8>>,
    /// Where it begins.
    pub line: u32,
}

/// The language of a pattern's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Language {
    /// Names as they are in the symbol table.
    #[default]
    C,
    /// `extern "C++"`: demangled names.
    Cxx,
}

/// A pattern for symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionPattern {
    /// As written, without quotes.
    pub text: Vec<u8>,
    /// Quoted: nothing in it is special.
    pub quoted: bool,
    /// The language of names.
    pub language: Language,
    /// Where.
    pub line: u32,
}

/// An error in a version script or dynamic list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionError {
    /// The line, counted from 1.
    pub line: u32,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.problem)
    }
}

impl std::error::Error for VersionError {}

/// Parses the text of a `--version-script` file.
///
/// # Errors
/// The first error: syntax, two nodes of one name, an anonymous node beside others, a parent that is not defined
/// before.
pub fn parse(text: &[u8]) -> Result<VersionScript, VersionError> {
    let mut parser = Parser::new(text);
    let script = parser.script()?;
    parser.end()?;
    Ok(script)
}

/// Parses the nodes at the beginning of a text, up to an unmatched `}` or the end: what is in the braces of `VERSION`.
/// Also gives the length of what was read.
///
/// # Errors
/// As [`parse`].
pub fn parse_prefix(text: &[u8]) -> Result<(VersionScript, usize), VersionError> {
    let mut parser = Parser::new(text);
    let script = parser.script()?;
    Ok((script, parser.text.at()))
}

/// Parses the text of a `--dynamic-list` or `--export-dynamic-symbol-list` file: `{ patterns; };`, once or more.
///
/// # Errors
/// The first error of syntax.
pub fn parse_dynamic_list(text: &[u8]) -> Result<Vec<VersionPattern>, VersionError> {
    let mut parser = Parser::new(text);
    let mut patterns = Vec::new();
    while parser.peek()? != Token::End {
        parser.expect(Token::Punct(b'{'), "'{'")?;
        parser.patterns(None, &mut patterns)?;
        parser.expect(Token::Punct(b'}'), "'}'")?;
        parser.expect(Token::Punct(b';'), "';'")?;
    }
    Ok(patterns)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a [u8]),
    Quoted(&'a [u8]),
    Punct(u8),
    End,
}

impl Token<'_> {
    fn describe(self) -> String {
        match self {
            Token::Word(text) => {
                format!("'{}'", String::from_utf8_lossy(&text[..text.len().min(60)]))
            }
            Token::Quoted(text) => format!(
                "\"{}\"",
                String::from_utf8_lossy(&text[..text.len().min(60)])
            ),
            Token::Punct(byte) => format!("'{}'", char::from(byte)),
            Token::End => "the end of the file".into(),
        }
    }
}

#[derive(Clone, Copy)]
struct Parser<'a> {
    text: ScriptText<'a>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a [u8]) -> Parser<'a> {
        Parser {
            text: ScriptText::new(text),
        }
    }

    fn error<T>(&self, problem: impl Into<String>) -> Result<T, VersionError> {
        Err(VersionError {
            line: self.text.line(),
            problem: problem.into(),
        })
    }

    fn skip_blank(&mut self) -> Result<(), VersionError> {
        self.text
            .skip_blank()
            .or_else(|UnclosedComment| self.error("unclosed comment"))
    }

    fn next(&mut self) -> Result<Token<'a>, VersionError> {
        self.skip_blank()?;
        let rest = self.text.rest();
        match rest.first() {
            None => Ok(Token::End),
            Some(b'"') => match memchr::memchr(b'"', &rest[1..]) {
                Some(length) => Ok(Token::Quoted(&self.text.advance(length + 2)[1..=length])),
                None => self.error("unterminated string"),
            },
            Some(byte @ (b'{' | b'}' | b';')) => {
                self.text.advance(1);
                Ok(Token::Punct(*byte))
            }
            Some(_) => {
                // A single colon ends a label, two are part of a C++ name.
                let mut length = 0;
                while let Some(byte) = rest.get(length) {
                    match byte {
                        b'{' | b'}' | b';' | b'"' | b'#' => break,
                        byte if byte.is_ascii_whitespace() || *byte == b'\x0b' => break,
                        b':' if rest.get(length + 1) == Some(&b':') => length += 2,
                        b':' => break,
                        _ => length += 1,
                    }
                }
                if length == 0 {
                    self.text.advance(1);
                    return Ok(Token::Punct(b':'));
                }
                Ok(Token::Word(self.text.advance(length)))
            }
        }
    }

    fn peek(&self) -> Result<Token<'a>, VersionError> {
        let mut ahead = *self;
        ahead.next()
    }

    fn expect(&mut self, wanted: Token<'_>, what: &str) -> Result<(), VersionError> {
        self.skip_blank()?;
        let mut ahead = *self;
        let found = ahead.next()?;
        if found != wanted {
            return self.error(format!("expected {what}, found {}", found.describe()));
        }
        *self = ahead;
        Ok(())
    }

    fn end(&self) -> Result<(), VersionError> {
        match self.peek()? {
            Token::End => Ok(()),
            token => self.error(format!(
                "expected a version node, found {}",
                token.describe()
            )),
        }
    }

    /// Nodes, up to what cannot begin one.
    fn script(&mut self) -> Result<VersionScript, VersionError> {
        let mut script = VersionScript::default();
        loop {
            self.skip_blank()?;
            let line = self.text.line();
            let name = match self.peek()? {
                Token::Word(name) | Token::Quoted(name) => {
                    self.next()?;
                    Some(name.to_vec())
                }
                Token::Punct(b'{') => None,
                _ => return Ok(script),
            };
            if let Some(name) = &name
                && script
                    .nodes
                    .iter()
                    .any(|node| node.name.as_ref() == Some(name))
            {
                return self.error(format!(
                    "version '{}' is defined twice",
                    String::from_utf8_lossy(name)
                ));
            }
            let mut node = VersionNode {
                name,
                line,
                ..VersionNode::default()
            };
            self.node(&mut node)?;
            if let Some(unknown) = node.parents.iter().find(|parent| {
                !script
                    .nodes
                    .iter()
                    .any(|node| node.name.as_ref() == Some(parent))
            }) {
                return self.error(format!(
                    "version '{}' is not defined before this",
                    String::from_utf8_lossy(unknown)
                ));
            }
            script.nodes.push(node);
            if script.nodes.len() > 1 && script.nodes.iter().any(|node| node.name.is_none()) {
                return self.error("an anonymous version node must be the only one");
            }
        }
    }

    /// `{ … } parents ;`, after the name.
    fn node(&mut self, node: &mut VersionNode) -> Result<(), VersionError> {
        self.expect(Token::Punct(b'{'), "'{'")?;
        let mut local = false;
        loop {
            let list = if local {
                &mut node.locals
            } else {
                &mut node.globals
            };
            self.patterns(None, list)?;
            let mut ahead = *self;
            let label = ahead.next()?;
            match (label, ahead.next()) {
                (Token::Word(b"global"), Ok(Token::Punct(b':'))) => local = false,
                (Token::Word(b"local"), Ok(Token::Punct(b':'))) => local = true,
                _ => break,
            }
            *self = ahead;
        }
        self.expect(Token::Punct(b'}'), "'}'")?;
        loop {
            match self.peek()? {
                Token::Word(parent) | Token::Quoted(parent) => {
                    self.next()?;
                    node.parents.push(parent.to_vec());
                }
                _ => return self.expect(Token::Punct(b';'), "';' after the version node"),
            }
        }
    }

    /// Patterns with their semicolons, up to `}` or a label. `block` is the language of the `extern` block that they are in.
    fn patterns(
        &mut self,
        block: Option<Language>,
        out: &mut Vec<VersionPattern>,
    ) -> Result<(), VersionError> {
        loop {
            self.skip_blank()?;
            let line = self.text.line();
            let mut ahead = *self;
            let (text, quoted) = match ahead.next()? {
                // `global:` and `local:` are labels, but `global;` is a symbol.
                Token::Word(b"global" | b"local") if ahead.peek()? == Token::Punct(b':') => {
                    return Ok(());
                }
                Token::Word(b"extern") if matches!(ahead.peek()?, Token::Quoted(_)) => {
                    if block.is_some() {
                        return self.error("extern blocks may not be nested");
                    }
                    *self = ahead;
                    self.foreign_patterns(out)?;
                    continue;
                }
                Token::Word(text) => (text, false),
                Token::Quoted(text) => (text, true),
                // An empty statement.
                Token::Punct(b';') => {
                    *self = ahead;
                    continue;
                }
                _ => return Ok(()),
            };
            *self = ahead;
            let language = block.unwrap_or_default();
            out.push(VersionPattern {
                text: text.to_vec(),
                quoted,
                language,
                line,
            });
            // The last one in a block of a language needs no semicolon.
            if block.is_none() || self.peek()? != Token::Punct(b'}') {
                self.expect(Token::Punct(b';'), "';'")?;
            }
        }
    }

    /// `"C++" { patterns };`, after `extern`.
    fn foreign_patterns(&mut self, out: &mut Vec<VersionPattern>) -> Result<(), VersionError> {
        let language = match self.next()? {
            Token::Quoted(b"C") => Language::C,
            Token::Quoted(b"C++") => Language::Cxx,
            token => {
                return self.error(format!(
                    "unknown language {}: expected \"C\" or \"C++\"",
                    token.describe()
                ));
            }
        };
        self.expect(Token::Punct(b'{'), "'{'")?;
        self.patterns(Some(language), out)?;
        self.expect(Token::Punct(b'}'), "'}'")?;
        self.expect(Token::Punct(b';'), "';' after the extern block")
    }
}

impl VersionPattern {
    /// The only name that it matches, if it has no wildcard.
    fn literal(&self) -> Option<Vec<u8>> {
        if self.quoted || !has_wildcard(&self.text) {
            return Some(self.text.clone());
        }
        Glob::new(&self.text).as_exact().map(<[u8]>::to_vec)
    }
}

/// What a version script says of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// The index of the node in [`VersionScript::nodes`]; the first node of the second script of several has the index
    /// that follows the first script's last.
    pub node: u32,
    /// Under `local:`: the symbol is not exported.
    pub is_local: bool,
}

/// A name that a script mentions literally.
#[derive(Clone, Copy, Debug)]
struct Exact {
    verdict: Verdict,
    /// Smaller decides: by node, globals before locals.
    rank: u32,
}

/// Finds the verdict for symbols.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    exact: FxHashMap<Vec<u8>, Exact>,
    exact_cxx: FxHashMap<Vec<u8>, Exact>,
    /// Patterns other than `*`, in order.
    globals: Vec<(Glob, Language, u32)>,
    locals: Vec<(Glob, Language, u32)>,
    /// The last node with `*`.
    star_global: Option<u32>,
    star_local: Option<u32>,
    has_cxx: bool,
}

impl Matcher {
    /// Prepares for the nodes of a script, or of several in order.
    pub fn new<'a>(nodes: impl IntoIterator<Item = &'a VersionNode>) -> Matcher {
        let mut matcher = Matcher::default();
        for (node, index) in nodes.into_iter().zip(0u32..) {
            for pattern in &node.globals {
                matcher.add(
                    pattern,
                    Verdict {
                        node: index,
                        is_local: false,
                    },
                );
            }
            for pattern in &node.locals {
                matcher.add(
                    pattern,
                    Verdict {
                        node: index,
                        is_local: true,
                    },
                );
            }
        }
        matcher
    }

    /// Prepares for the patterns of dynamic lists; all verdicts are of node 0.
    pub fn of_list<'a>(patterns: impl IntoIterator<Item = &'a VersionPattern>) -> Matcher {
        let mut matcher = Matcher::default();
        patterns.into_iter().for_each(|pattern| {
            matcher.add(
                pattern,
                Verdict {
                    node: 0,
                    is_local: false,
                },
            )
        });
        matcher
    }

    /// Adds a plain shell pattern for names as they are, as `--export-dynamic-symbol` has; of node 0.
    pub fn add_glob(&mut self, glob: &[u8]) {
        let pattern = VersionPattern {
            text: glob.to_vec(),
            quoted: false,
            language: Language::C,
            line: 0,
        };
        self.add(
            &pattern,
            Verdict {
                node: 0,
                is_local: false,
            },
        );
    }

    fn add(&mut self, pattern: &VersionPattern, verdict: Verdict) {
        self.has_cxx |= pattern.language == Language::Cxx;
        if let Some(name) = pattern.literal() {
            let names = match pattern.language {
                Language::C => &mut self.exact,
                Language::Cxx => &mut self.exact_cxx,
            };
            let rank = verdict
                .node
                .saturating_mul(2)
                .saturating_add(u32::from(verdict.is_local));
            names.entry(name).or_insert(Exact { verdict, rank });
            return;
        }
        let glob = Glob::new(&pattern.text);
        if glob.is_all() {
            let star = if verdict.is_local {
                &mut self.star_local
            } else {
                &mut self.star_global
            };
            *star = Some(verdict.node);
            return;
        }
        let globs = if verdict.is_local {
            &mut self.locals
        } else {
            &mut self.globals
        };
        globs.push((glob, pattern.language, verdict.node));
    }

    /// Whether nothing was given, so that no symbol matches.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty()
            && self.exact_cxx.is_empty()
            && self.globals.is_empty()
            && self.locals.is_empty()
            && self.star_global.is_none()
            && self.star_local.is_none()
    }

    /// The verdict for a symbol, by its name without version; `None` if the script does not mention it.
    pub fn find(&self, name: &[u8]) -> Option<Verdict> {
        // A name that cannot be demangled stands for itself in `extern "C++"`.
        let demangled = if self.has_cxx {
            demangle(name)
        } else {
            std::borrow::Cow::Borrowed("")
        };
        let demangled = demangled.as_bytes();
        let exact = [
            self.exact.get(name),
            self.exact_cxx.get(demangled).filter(|_| self.has_cxx),
        ];
        if let Some(exact) = exact.into_iter().flatten().min_by_key(|exact| exact.rank) {
            return Some(exact.verdict);
        }
        let last = |globs: &[(Glob, Language, u32)], is_local| {
            let matching = globs
                .iter()
                .rev()
                .find(|(glob, language, _)| match language {
                    Language::C => glob.matches(name),
                    Language::Cxx => glob.matches(demangled),
                });
            matching.map(|(_, _, node)| Verdict {
                node: *node,
                is_local,
            })
        };
        last(&self.globals, false)
            .or_else(|| last(&self.locals, true))
            .or_else(|| {
                self.star_global.map(|node| Verdict {
                    node,
                    is_local: false,
                })
            })
            .or_else(|| {
                self.star_local.map(|node| Verdict {
                    node,
                    is_local: true,
                })
            })
    }

    /// Whether a symbol is mentioned as global: the question that a dynamic list answers.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.find(name).is_some_and(|verdict| !verdict.is_local)
    }
}

impl VersionScript {
    /// The names that scripts mention literally under `global:`, in the language of the symbol table, with their lines:
    /// for `--no-undefined-version`.
    pub fn literal_globals(&self) -> impl Iterator<Item = (Vec<u8>, u32)> {
        let patterns = self.nodes.iter().flat_map(|node| &node.globals);
        patterns
            .filter(|pattern| pattern.language == Language::C)
            .filter_map(|pattern| Some((pattern.literal()?, pattern.line)))
    }
}

#[cfg(test)]
mod tests;
