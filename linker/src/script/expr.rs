//! Expressions of linker scripts: their form, and how they are read ("Expressions" in GNU ld's manual).
//!
//! A tree is never deeper than [`MAX_DEPTH`], so whoever walks it may recurse.

use super::lexer::{Lexer, Mode, Token};
use super::{Name, Pos, ScriptError};

/// How deep an expression may be nested; a sum of n terms has depth n.
pub const MAX_DEPTH: u32 = 512;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A number.
    Number(u64),
    /// A symbol's value.
    Symbol(Name),
    /// `.`
    Dot,
    /// A prefix operator.
    Unary(UnaryOp, Box<Expr>),
    /// An infix operator.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `condition ? then : otherwise`.
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `ABSOLUTE(e)`
    Absolute(Box<Expr>),
    /// `ALIGN(alignment)` of the location counter, `ALIGN(value, alignment)`; also `BLOCK` and `NEXT`.
    Align(Option<Box<Expr>>, Box<Expr>),
    /// `MAX(a, b)`
    Max(Box<Expr>, Box<Expr>),
    /// `MIN(a, b)`
    Min(Box<Expr>, Box<Expr>),
    /// `LOG2CEIL(e)`
    Log2Ceil(Box<Expr>),
    /// `ADDR(section)` and other functions of an output section.
    Section(SectionQuery, Name),
    /// `DEFINED(symbol)`
    Defined(Name),
    /// `ORIGIN(region)`
    Origin(Name),
    /// `LENGTH(region)`
    Length(Name),
    /// `CONSTANT(MAXPAGESIZE)`, `CONSTANT(COMMONPAGESIZE)`
    Constant(Constant),
    /// `SEGMENT_START("segment", default)`
    SegmentStart(Name, Box<Expr>),
    /// `SIZEOF_HEADERS`
    SizeofHeaders,
    /// `DATA_SEGMENT_ALIGN(maxpagesize, commonpagesize)`
    DataSegmentAlign(Box<Expr>, Box<Expr>),
    /// `DATA_SEGMENT_RELRO_END(offset, e)`
    DataSegmentRelroEnd(Box<Expr>, Box<Expr>),
    /// `DATA_SEGMENT_END(e)`
    DataSegmentEnd(Box<Expr>),
    /// `ASSERT(e, message)`: the value is that of `e`, which must not be zero.
    Assert(Box<Expr>, String),
}

/// Prefix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `~`
    Not,
    /// `!`
    LogicalNot,
}

/// Infix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "C's operators")]
pub enum BinaryOp {
    Mul,
    Div,
    Rem,
    Add,
    Sub,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
    And,
    Xor,
    Or,
    LogicalAnd,
    LogicalOr,
}

/// Functions of an output section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SectionQuery {
    /// `ADDR`
    Address,
    /// `LOADADDR`
    LoadAddress,
    /// `SIZEOF`
    Size,
    /// `ALIGNOF`
    Alignment,
}

/// Names for `CONSTANT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Constant {
    /// `MAXPAGESIZE`: `-z max-page-size`.
    MaxPageSize,
    /// `COMMONPAGESIZE`: `-z common-page-size`.
    CommonPageSize,
}

impl Expr {
    /// Whether the value depends on nothing but the expression itself.
    pub fn as_number(&self) -> Option<u64> {
        match self {
            Expr::Number(value) => Some(*value),
            _ => None,
        }
    }
}

impl Expr {
    /// Calls `f` with the name of each symbol that the value depends on.
    pub fn for_symbols<'e>(&'e self, f: &mut dyn FnMut(&'e Name)) {
        match self {
            Expr::Symbol(name) => f(name),
            Expr::Unary(_, inner)
            | Expr::Absolute(inner)
            | Expr::Log2Ceil(inner)
            | Expr::DataSegmentEnd(inner)
            | Expr::SegmentStart(_, inner)
            | Expr::Assert(inner, _) => inner.for_symbols(f),
            Expr::Binary(_, left, right)
            | Expr::Max(left, right)
            | Expr::Min(left, right)
            | Expr::DataSegmentAlign(left, right)
            | Expr::DataSegmentRelroEnd(left, right) => {
                left.for_symbols(f);
                right.for_symbols(f);
            }
            Expr::Conditional(condition, then, otherwise) => {
                condition.for_symbols(f);
                then.for_symbols(f);
                otherwise.for_symbols(f);
            }
            Expr::Align(value, alignment) => {
                if let Some(value) = value {
                    value.for_symbols(f);
                }
                alignment.for_symbols(f);
            }
            Expr::Number(_)
            | Expr::Dot
            | Expr::Section(..)
            | Expr::Defined(_)
            | Expr::Origin(_)
            | Expr::Length(_)
            | Expr::Constant(_)
            | Expr::SizeofHeaders => {}
        }
    }
}

impl BinaryOp {
    /// The operator, and how tightly it binds. The manual's table has C's levels, with `==` and `<` on one.
    fn of(punct: &str) -> Option<(BinaryOp, u8)> {
        Some(match punct {
            "*" => (BinaryOp::Mul, 10),
            "/" => (BinaryOp::Div, 10),
            "%" => (BinaryOp::Rem, 10),
            "+" => (BinaryOp::Add, 9),
            "-" => (BinaryOp::Sub, 9),
            "<<" => (BinaryOp::Shl, 8),
            ">>" => (BinaryOp::Shr, 8),
            "==" => (BinaryOp::Eq, 7),
            "!=" => (BinaryOp::Ne, 7),
            "<" => (BinaryOp::Lt, 7),
            ">" => (BinaryOp::Gt, 7),
            "<=" => (BinaryOp::Le, 7),
            ">=" => (BinaryOp::Ge, 7),
            "&" => (BinaryOp::And, 6),
            "^" => (BinaryOp::Xor, 5),
            "|" => (BinaryOp::Or, 4),
            "&&" => (BinaryOp::LogicalAnd, 3),
            "||" => (BinaryOp::LogicalOr, 2),
            _ => return None,
        })
    }
}

/// An expression with the depth of its tree.
struct Deep {
    expr: Expr,
    depth: u32,
}

/// Reads an expression; stops before what cannot continue it.
pub(super) fn parse(lexer: &mut Lexer<'_>) -> Result<Expr, ScriptError> {
    Ok(conditional(lexer, 0)?.expr)
}

/// Whether an operator comes next, so that what was read is not yet all of an expression.
pub(super) fn continues(lexer: &Lexer<'_>) -> Result<bool, ScriptError> {
    Ok(match lexer.peek(Mode::Expr)? {
        Token::Punct(punct) => punct == "?" || BinaryOp::of(punct).is_some(),
        _ => false,
    })
}

/// Makes a node over operands, if it is not too deep.
fn node(pos: Pos, depths: &[u32], expr: Expr) -> Result<Deep, ScriptError> {
    let depth = depths.iter().copied().max().unwrap_or(0) + 1;
    if depth > MAX_DEPTH {
        return Err(ScriptError::new(pos, "expression is nested too deeply"));
    }
    Ok(Deep { expr, depth })
}

fn conditional(lexer: &mut Lexer<'_>, level: u32) -> Result<Deep, ScriptError> {
    let pos = lexer.pos()?;
    // Every recursion of the reader passes here.
    if level > MAX_DEPTH {
        return Err(ScriptError::new(pos, "expression is nested too deeply"));
    }
    let condition = infix(lexer, 0, level)?;
    if lexer.peek(Mode::Expr)? != Token::Punct("?") {
        return Ok(condition);
    }
    lexer.next(Mode::Expr)?;
    let then = conditional(lexer, level + 1)?;
    expect(lexer, ":")?;
    let otherwise = conditional(lexer, level + 1)?;
    let depths = [condition.depth, then.depth, otherwise.depth];
    node(
        pos,
        &depths,
        Expr::Conditional(
            condition.expr.into(),
            then.expr.into(),
            otherwise.expr.into(),
        ),
    )
}

/// Precedence climbing: reads operators that bind tighter than `least`.
fn infix(lexer: &mut Lexer<'_>, least: u8, level: u32) -> Result<Deep, ScriptError> {
    let mut left = prefix(lexer, level)?;
    loop {
        let pos = lexer.pos()?;
        let Token::Punct(punct) = lexer.peek(Mode::Expr)? else {
            return Ok(left);
        };
        let Some((op, binding)) = BinaryOp::of(punct).filter(|(_, binding)| *binding > least)
        else {
            return Ok(left);
        };
        lexer.next(Mode::Expr)?;
        let right = infix(lexer, binding, level)?;
        let depths = [left.depth, right.depth];
        left = node(
            pos,
            &depths,
            Expr::Binary(op, left.expr.into(), right.expr.into()),
        )?;
    }
}

fn prefix(lexer: &mut Lexer<'_>, level: u32) -> Result<Deep, ScriptError> {
    // A chain of operators, applied from the inside out.
    let mut operators = Vec::new();
    let pos = lexer.pos()?;
    loop {
        match lexer.peek(Mode::Expr)? {
            Token::Punct("-") => operators.push(Some(UnaryOp::Neg)),
            Token::Punct("~") => operators.push(Some(UnaryOp::Not)),
            Token::Punct("!") => operators.push(Some(UnaryOp::LogicalNot)),
            Token::Punct("+") => operators.push(None),
            _ => break,
        }
        lexer.next(Mode::Expr)?;
    }
    let mut operand = primary(lexer, level)?;
    for operator in operators.into_iter().rev().flatten() {
        operand = node(
            pos,
            &[operand.depth],
            Expr::Unary(operator, operand.expr.into()),
        )?;
    }
    Ok(operand)
}

fn primary(lexer: &mut Lexer<'_>, level: u32) -> Result<Deep, ScriptError> {
    let pos = lexer.pos()?;
    match lexer.next(Mode::Expr)? {
        Token::Punct("(") => {
            let inner = conditional(lexer, level + 1)?;
            expect(lexer, ")")?;
            Ok(inner)
        }
        Token::Number(text) => {
            let value = number(text).map_err(|problem| ScriptError::new(pos, problem))?;
            node(pos, &[], Expr::Number(value))
        }
        Token::Quoted(name) => node(pos, &[], Expr::Symbol(name.to_vec())),
        Token::Word(b".") => node(pos, &[], Expr::Dot),
        Token::Word(b"SIZEOF_HEADERS" | b"sizeof_headers") => node(pos, &[], Expr::SizeofHeaders),
        Token::Word(word) => {
            if lexer.peek(Mode::Expr)? == Token::Punct("(") {
                function(lexer, pos, word, level)
            } else {
                node(pos, &[], Expr::Symbol(word.to_vec()))
            }
        }
        token => Err(ScriptError::expected(pos, "an expression", &token)),
    }
}

/// Reads the arguments of a function and makes its node.
fn function(lexer: &mut Lexer<'_>, pos: Pos, name: &[u8], level: u32) -> Result<Deep, ScriptError> {
    let one = |lexer: &mut Lexer<'_>| -> Result<Deep, ScriptError> {
        expect(lexer, "(")?;
        let argument = conditional(lexer, level + 1)?;
        expect(lexer, ")")?;
        Ok(argument)
    };
    let two = |lexer: &mut Lexer<'_>| -> Result<(Deep, Deep), ScriptError> {
        expect(lexer, "(")?;
        let first = conditional(lexer, level + 1)?;
        expect(lexer, ",")?;
        let second = conditional(lexer, level + 1)?;
        expect(lexer, ")")?;
        Ok((first, second))
    };
    let named = |lexer: &mut Lexer<'_>| -> Result<Name, ScriptError> {
        expect(lexer, "(")?;
        let name = argument_name(lexer)?;
        expect(lexer, ")")?;
        Ok(name)
    };
    let unary = |argument: Deep, make: fn(Box<Expr>) -> Expr| {
        node(pos, &[argument.depth], make(argument.expr.into()))
    };
    let binary = |(first, second): (Deep, Deep), make: fn(Box<Expr>, Box<Expr>) -> Expr| {
        node(
            pos,
            &[first.depth, second.depth],
            make(first.expr.into(), second.expr.into()),
        )
    };
    match name {
        b"ABSOLUTE" => unary(one(lexer)?, Expr::Absolute),
        b"LOG2CEIL" => unary(one(lexer)?, Expr::Log2Ceil),
        b"DATA_SEGMENT_END" => unary(one(lexer)?, Expr::DataSegmentEnd),
        // "BLOCK(EXP) is a synonym for ALIGN"; NEXT is, unless memory is discontinuous.
        b"BLOCK" | b"NEXT" => unary(one(lexer)?, |alignment| Expr::Align(None, alignment)),
        b"ALIGN" => {
            expect(lexer, "(")?;
            let first = conditional(lexer, level + 1)?;
            if lexer.peek(Mode::Expr)? == Token::Punct(",") {
                lexer.next(Mode::Expr)?;
                let second = conditional(lexer, level + 1)?;
                expect(lexer, ")")?;
                let depths = [first.depth, second.depth];
                return node(
                    pos,
                    &depths,
                    Expr::Align(Some(first.expr.into()), second.expr.into()),
                );
            }
            expect(lexer, ")")?;
            unary(first, |alignment| Expr::Align(None, alignment))
        }
        b"MAX" => binary(two(lexer)?, Expr::Max),
        b"MIN" => binary(two(lexer)?, Expr::Min),
        b"DATA_SEGMENT_ALIGN" => binary(two(lexer)?, Expr::DataSegmentAlign),
        b"DATA_SEGMENT_RELRO_END" => binary(two(lexer)?, Expr::DataSegmentRelroEnd),
        b"ADDR" => node(
            pos,
            &[],
            Expr::Section(SectionQuery::Address, named(lexer)?),
        ),
        b"LOADADDR" => node(
            pos,
            &[],
            Expr::Section(SectionQuery::LoadAddress, named(lexer)?),
        ),
        b"SIZEOF" => node(pos, &[], Expr::Section(SectionQuery::Size, named(lexer)?)),
        b"ALIGNOF" => node(
            pos,
            &[],
            Expr::Section(SectionQuery::Alignment, named(lexer)?),
        ),
        b"DEFINED" => node(pos, &[], Expr::Defined(named(lexer)?)),
        b"ORIGIN" | b"org" | b"o" => node(pos, &[], Expr::Origin(named(lexer)?)),
        b"LENGTH" | b"len" | b"l" => node(pos, &[], Expr::Length(named(lexer)?)),
        b"CONSTANT" => {
            let name = named(lexer)?;
            let constant = match name.as_slice() {
                b"MAXPAGESIZE" => Constant::MaxPageSize,
                b"COMMONPAGESIZE" => Constant::CommonPageSize,
                _ => {
                    let name = String::from_utf8_lossy(&name).into_owned();
                    return Err(ScriptError::new(
                        pos,
                        format!(
                            "unknown constant '{name}': expected MAXPAGESIZE or COMMONPAGESIZE"
                        ),
                    ));
                }
            };
            node(pos, &[], Expr::Constant(constant))
        }
        b"SEGMENT_START" => {
            expect(lexer, "(")?;
            let segment = argument_name(lexer)?;
            expect(lexer, ",")?;
            let default = conditional(lexer, level + 1)?;
            expect(lexer, ")")?;
            node(
                pos,
                &[default.depth],
                Expr::SegmentStart(segment, default.expr.into()),
            )
        }
        b"ASSERT" => {
            expect(lexer, "(")?;
            let condition = conditional(lexer, level + 1)?;
            expect(lexer, ",")?;
            let message = message(lexer)?;
            expect(lexer, ")")?;
            node(
                pos,
                &[condition.depth],
                Expr::Assert(condition.expr.into(), message),
            )
        }
        _ => {
            let name = String::from_utf8_lossy(name).into_owned();
            Err(ScriptError::new(
                pos,
                format!("unknown function '{name}' in expression"),
            ))
        }
    }
}

/// A name as an argument of a function: of a section, symbol or region.
fn argument_name(lexer: &mut Lexer<'_>) -> Result<Name, ScriptError> {
    let pos = lexer.pos()?;
    match lexer.next(Mode::Name)? {
        Token::Word(name) | Token::Quoted(name) => Ok(name.to_vec()),
        token => Err(ScriptError::expected(pos, "a name", &token)),
    }
}

/// The message of `ASSERT`.
pub(super) fn message(lexer: &mut Lexer<'_>) -> Result<String, ScriptError> {
    let pos = lexer.pos()?;
    match lexer.next(Mode::Name)? {
        Token::Quoted(text) | Token::Word(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        token => Err(ScriptError::expected(pos, "a message in quotes", &token)),
    }
}

/// Takes a bracket or an operator.
pub(super) fn expect(lexer: &mut Lexer<'_>, wanted: &'static str) -> Result<(), ScriptError> {
    let pos = lexer.pos()?;
    match lexer.next(Mode::Expr)? {
        Token::Punct(punct) if punct == wanted => Ok(()),
        token => Err(ScriptError::expected(pos, &format!("'{wanted}'"), &token)),
    }
}

/// Reads a number ("Constants" in the manual): `0x`, `$` and `0` prefixes; suffixes `h`, `o`, `b`, `d` for the base, or
/// `K`, `M` for a factor.
pub(super) fn number(text: &[u8]) -> Result<u64, String> {
    let shown = || String::from_utf8_lossy(text).into_owned();
    let parse = |digits: &[u8], radix: u32, factor: u64| {
        let digits = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| !digits.is_empty() && !digits.starts_with('+'));
        let value = digits.ok_or(()).and_then(|digits| {
            // An overflow and a bad digit are different complaints.
            if digits.chars().all(|digit| digit.is_digit(radix)) {
                Ok(digits)
            } else {
                Err(())
            }
        });
        let digits = value.map_err(|()| format!("malformed number '{}'", shown()))?;
        let value = u64::from_str_radix(digits, radix)
            .ok()
            .and_then(|value| value.checked_mul(factor));
        value.ok_or_else(|| format!("number '{}' does not fit into 64 bits", shown()))
    };
    let scaled = |digits: &[u8], radix: u32| match digits.split_last() {
        Some((b'K' | b'k', digits)) => parse(digits, radix, 1 << 10),
        Some((b'M' | b'm', digits)) => parse(digits, radix, 1 << 20),
        _ => parse(digits, radix, 1),
    };
    match text {
        [b'0', b'x' | b'X', digits @ ..] | [b'$', digits @ ..] => scaled(digits, 16),
        [digits @ .., b'h' | b'H' | b'x' | b'X'] => parse(digits, 16, 1),
        [digits @ .., b'o' | b'O'] => parse(digits, 8, 1),
        [digits @ .., b'b' | b'B'] => parse(digits, 2, 1),
        [digits @ .., b'd' | b'D'] => parse(digits, 10, 1),
        [b'0', digits @ ..] if digits.first().is_some_and(u8::is_ascii_digit) => scaled(digits, 8),
        digits => scaled(digits, 10),
    }
}
