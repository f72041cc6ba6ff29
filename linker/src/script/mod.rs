//! GNU linker scripts: from text to a tree ([`Script`]), and the values of expressions.
//!
//! The whole language of GNU ld's manual ("Linker Scripts") is read, whether or not the linker does something with all
//! of it: `libc.so` is one `GROUP`, a kernel's script is hundreds of lines of `SECTIONS`. Nothing is opened here:
//! `INCLUDE` asks the caller's [`Loader`], `INPUT` is a list of names (see [`crate::input::library_search::Search::script_input`]).
//!
//! - `lexer`: words, numbers and operators; what is a word depends on where it stands.
//! - [`ast`]: the tree.
//! - [`expr`]: expressions and how they are read; [`eval`]: their values.
//! - `parser`: commands at the top level; `sections`: `SECTIONS`.
//!
//! Errors say `file:line: what was expected`.
//!
//! This room owns the language only: texts and their syntax trees, expressions and their values. What a script does to a link is
//! told where that happens (`input`, `resolve`, `layout`).

pub(crate) mod position;
pub mod version_script;

use std::fmt;

pub(crate) mod ast;
pub mod documented;
pub(crate) mod eval;
pub mod expr;
mod lexer;
mod parser;
mod sections;

#[cfg(test)]
mod tests;

pub use ast::*;
pub use eval::{Environment, EvalError, Value};
pub use expr::Expr;

use lexer::{Lexer, Mode, Token};

/// What is expected where a command begins, as errors say it.
pub const NO_COMMAND: &str = "a command or an assignment";

/// An error in a script, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The file's name, once known.
    pub file: String,
    /// The place.
    pub pos: Pos,
    /// What is wrong.
    pub problem: String,
}

impl ScriptError {
    fn new(pos: Pos, problem: impl Into<String>) -> ScriptError {
        ScriptError {
            file: String::new(),
            pos,
            problem: problem.into(),
        }
    }

    fn expected(pos: Pos, what: &str, found: &Token<'_>) -> ScriptError {
        ScriptError::new(pos, format!("expected {what}, found {}", found.describe()))
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.pos.line, self.problem)
    }
}

impl std::error::Error for ScriptError {}

/// Reads the files that `INCLUDE` names.
pub trait Loader {
    /// The file's path, for messages, and its text.
    ///
    /// # Errors
    /// Why it cannot be read, without the file's name.
    fn load(&mut self, name: &[u8]) -> Result<(String, Vec<u8>), String>;
}

/// A [`Loader`] for scripts that may not include others.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoIncludes;

impl Loader for NoIncludes {
    fn load(&mut self, _name: &[u8]) -> Result<(String, Vec<u8>), String> {
        Err("INCLUDE is not possible here".into())
    }
}

/// Parses a script. `file` is its name for messages.
///
/// # Errors
/// The first error in it.
pub fn parse(text: &[u8], file: &str, loader: &mut dyn Loader) -> Result<Script, ScriptError> {
    parser::parse(text, file, loader)
}

/// Parses a script behind what `script` has already.
///
/// # Errors
/// The first error in it; then `script` is of no use any more.
pub fn parse_onto(
    script: &mut Script,
    text: &[u8],
    file: &str,
    loader: &mut dyn Loader,
) -> Result<(), ScriptError> {
    parser::parse_onto(script, text, file, loader)
}

/// Parses an expression by itself, as in `--defsym NAME=EXPRESSION`. `origin` stands for the file in messages.
///
/// # Errors
/// If it is none, or if something follows it.
pub fn parse_expr(text: &[u8], origin: &str) -> Result<Expr, ScriptError> {
    let mut lexer = Lexer::new(text, 0);
    let parsed =
        expr::parse(&mut lexer).and_then(|expr| match (lexer.pos()?, lexer.next(Mode::Expr)?) {
            (_, Token::End) => Ok(expr),
            (pos, token) => Err(ScriptError::expected(
                pos,
                "the end of the expression",
                &token,
            )),
        });
    parsed.map_err(|error| ScriptError {
        file: origin.into(),
        ..error
    })
}
