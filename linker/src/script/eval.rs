//! The value of an expression ("Expression Section" in GNU ld's manual).
//!
//! A value is a number or an address, and an address may be relative to an output section. The rules: an operation
//! on an address relative to a section and a number, or on two addresses relative to the same section, works on the
//! offsets; other mixtures are made absolute first; comparisons give numbers. Whether a plain number counts as an
//! absolute address depends on the place: outside output section descriptions it does, inside it does not (and absolute
//! symbols count as numbers).
//!
//! Arithmetic is that of 64 bits and wraps; `/` and `%` are signed, comparisons, `MAX`, `MIN` and `>>` unsigned, as GNU ld
//! does them.

use super::expr::{BinaryOp, Constant, Expr, SectionQuery, UnaryOp};

/// What an expression evaluates to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A number, or an absolute address: inside one place they are not told apart.
    Absolute(u64),
    /// An offset in an output section.
    Relative {
        /// The section, by the environment's numbering.
        section: u32,
        /// From its start.
        offset: u64,
    },
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A symbol that nothing defines.
    #[error("undefined symbol '{0}' referenced in expression")]
    UndefinedSymbol(String),
    /// An output section that there is not.
    #[error("undefined section '{0}' in expression")]
    UndefinedSection(String),
    /// A region that `MEMORY` does not have.
    #[error("undefined memory region '{0}' in expression")]
    UndefinedRegion(String),
    /// `.` outside of `SECTIONS`.
    #[error("the location counter '.' has no value here")]
    NoDot,
    /// Something that is only known after layout.
    #[error("{0} is not known yet at this point of the link")]
    NotYet(&'static str),
    /// `/` or `%` by zero.
    #[error("division by zero in expression")]
    DivisionByZero,
    /// `<<` or `>>` by 64 or more.
    #[error("shift by {0} bits in expression: values have 64")]
    ShiftTooLarge(u64),
    /// `ASSERT` failed: its message.
    #[error("{0}")]
    Assertion(String),
}

/// What expressions can refer to. Each answer may be "not known (yet)", which is an error with the name.
pub trait Environment {
    /// The location counter.
    fn dot(&self) -> Option<Value>;
    /// A symbol's value.
    fn symbol(&self, name: &[u8]) -> Result<Value, EvalError>;
    /// Whether a symbol is defined, for `DEFINED`.
    fn is_defined(&self, name: &[u8]) -> bool;
    /// `ADDR` and its like; for [`SectionQuery::Address`] usually [`Value::Relative`] with offset 0.
    fn section(&self, query: SectionQuery, name: &[u8]) -> Result<Value, EvalError>;
    /// The address of an output section that a [`Value::Relative`] names.
    fn section_address(&self, section: u32) -> Result<u64, EvalError>;
    /// The origin and length of a region.
    fn region(&self, name: &[u8]) -> Option<(u64, u64)>;
    /// Whether a plain number counts as an absolute address: outside output section descriptions, without `SANE_EXPR`.
    fn numbers_are_addresses(&self) -> bool;
    /// `CONSTANT(…)`.
    fn constant(&self, constant: Constant) -> u64;
    /// The address that `-Ttext` and its like gave a segment.
    fn segment_start(&self, _segment: &[u8]) -> Option<u64> {
        None
    }
    /// `SIZEOF_HEADERS`.
    fn sizeof_headers(&self) -> Result<u64, EvalError> {
        Err(EvalError::NotYet("SIZEOF_HEADERS"))
    }
    /// `DATA_SEGMENT_ALIGN`, given the location counter, which the default only rounds as the manual's second form does.
    fn data_segment_align(&self, dot: u64, max: u64, common: u64) -> u64 {
        data_segment_align(dot, max, common)
    }
    /// `DATA_SEGMENT_RELRO_END`: `value` with the padding that makes `value + offset` end a page.
    fn data_segment_relro_end(&self, _offset: u64, value: u64) -> u64 {
        value
    }
    /// `DATA_SEGMENT_END`: told where the data segment ends.
    fn data_segment_end(&self, _value: u64) {}
}

/// `ALIGN(max) + (. & (max - 1))`: the next page in memory at the same place in the file.
fn data_segment_align(dot: u64, max: u64, _common: u64) -> u64 {
    align(dot, max).wrapping_add(dot & max.wrapping_sub(1))
}

/// Rounds up to a multiple; 0 and 1 leave the value alone. GNU ld takes any multiple, not powers of two only.
pub fn align(value: u64, alignment: u64) -> u64 {
    if alignment <= 1 {
        return value;
    }
    match value % alignment {
        0 => value,
        rest => value.wrapping_add(alignment - rest),
    }
}

impl Value {
    /// The value as an address or number.
    ///
    /// # Errors
    /// If the section's address is not known.
    pub fn resolve(self, environment: &dyn Environment) -> Result<u64, EvalError> {
        match self {
            Value::Absolute(value) => Ok(value),
            Value::Relative { section, offset } => {
                Ok(environment.section_address(section)?.wrapping_add(offset))
            }
        }
    }

    /// Replaces the number or offset.
    fn map(self, apply: impl FnOnce(u64) -> u64) -> Value {
        match self {
            Value::Absolute(value) => Value::Absolute(apply(value)),
            Value::Relative { section, offset } => Value::Relative {
                section,
                offset: apply(offset),
            },
        }
    }
}

impl Expr {
    /// Evaluates the expression.
    ///
    /// # Errors
    /// See [`EvalError`]; the caller knows the place.
    pub fn eval(&self, env: &dyn Environment) -> Result<Value, EvalError> {
        let number = |value| Ok(Value::Absolute(value));
        match self {
            Expr::Number(value) => number(*value),
            Expr::Symbol(name) => env.symbol(name),
            Expr::Dot => env.dot().ok_or(EvalError::NoDot),
            Expr::Unary(op, operand) => {
                let operand = operand.eval(env)?;
                Ok(match op {
                    UnaryOp::Neg => operand.map(u64::wrapping_neg),
                    UnaryOp::Not => operand.map(|value| !value),
                    UnaryOp::LogicalNot => Value::Absolute(u64::from(operand.resolve(env)? == 0)),
                })
            }
            // `&&`, `||` and `?:` evaluate no more than they need: "the linker evaluates expressions lazily".
            Expr::Binary(BinaryOp::LogicalAnd, left, right) => number(u64::from(
                left.resolve(env)? != 0 && right.resolve(env)? != 0,
            )),
            Expr::Binary(BinaryOp::LogicalOr, left, right) => number(u64::from(
                left.resolve(env)? != 0 || right.resolve(env)? != 0,
            )),
            Expr::Binary(op, left, right) => binary(*op, left.eval(env)?, right.eval(env)?, env),
            Expr::Conditional(condition, then, otherwise) => {
                if condition.resolve(env)? != 0 {
                    then.eval(env)
                } else {
                    otherwise.eval(env)
                }
            }
            Expr::Absolute(inner) => number(inner.resolve(env)?),
            Expr::Align(None, alignment) => {
                // "ALIGN(ALIGN) is equivalent to ALIGN(ABSOLUTE(.), ALIGN)": the address is aligned, not the offset. The
                // result stays in the section, so that it can be assigned to the location counter.
                let alignment = alignment.resolve(env)?;
                let dot = env.dot().ok_or(EvalError::NoDot)?;
                let address = dot.resolve(env)?;
                let step = align(address, alignment).wrapping_sub(address);
                Ok(dot.map(|value| value.wrapping_add(step)))
            }
            Expr::Align(Some(value), alignment) => {
                let value = value.eval(env)?;
                let alignment = alignment.resolve(env)?;
                if !env.numbers_are_addresses() {
                    return Ok(value.map(|value| align(value, alignment)));
                }
                // The address is aligned, wherever its section begins.
                let address = value.resolve(env)?;
                let step = align(address, alignment).wrapping_sub(address);
                Ok(value.map(|value| value.wrapping_add(step)))
            }
            Expr::Max(left, right) => choose(left.eval(env)?, right.eval(env)?, u64::max, env),
            Expr::Min(left, right) => choose(left.eval(env)?, right.eval(env)?, u64::min, env),
            Expr::Log2Ceil(inner) => {
                let value = inner.resolve(env)?;
                number(if value <= 1 {
                    0
                } else {
                    u64::from(64 - (value - 1).leading_zeros())
                })
            }
            Expr::Section(query, name) => env.section(*query, name),
            Expr::Defined(name) => number(u64::from(env.is_defined(name))),
            Expr::Origin(name) => number(region(env, name)?.0),
            Expr::Length(name) => number(region(env, name)?.1),
            Expr::Constant(constant) => number(env.constant(*constant)),
            Expr::SegmentStart(segment, default) => match env.segment_start(segment) {
                Some(address) => number(address),
                None => default.eval(env),
            },
            Expr::SizeofHeaders => number(env.sizeof_headers()?),
            Expr::DataSegmentAlign(max, common) => {
                let (max, common) = (max.resolve(env)?, common.resolve(env)?);
                let dot = env.dot().ok_or(EvalError::NoDot)?.resolve(env)?;
                number(env.data_segment_align(dot, max, common))
            }
            Expr::DataSegmentRelroEnd(offset, inner) => {
                let (offset, value) = (offset.resolve(env)?, inner.resolve(env)?);
                number(env.data_segment_relro_end(offset, value))
            }
            Expr::DataSegmentEnd(inner) => {
                let value = inner.eval(env)?;
                env.data_segment_end(value.resolve(env)?);
                Ok(value)
            }
            Expr::Assert(condition, message) => {
                let value = condition.eval(env)?;
                if value.resolve(env)? == 0 {
                    Err(EvalError::Assertion(message.clone()))
                } else {
                    Ok(value)
                }
            }
        }
    }

    /// Evaluates to an address or number.
    ///
    /// # Errors
    /// As [`Expr::eval`].
    pub fn resolve(&self, env: &dyn Environment) -> Result<u64, EvalError> {
        self.eval(env)?.resolve(env)
    }
}

fn region(env: &dyn Environment, name: &[u8]) -> Result<(u64, u64), EvalError> {
    env.region(name)
        .ok_or_else(|| EvalError::UndefinedRegion(String::from_utf8_lossy(name).into_owned()))
}

/// `MAX` and `MIN`: of addresses, but offsets in one section are compared as they are.
fn choose(
    left: Value,
    right: Value,
    pick: fn(u64, u64) -> u64,
    env: &dyn Environment,
) -> Result<Value, EvalError> {
    match (left, right) {
        (
            Value::Relative { section, offset: a },
            Value::Relative {
                section: other,
                offset: b,
            },
        ) if section == other => Ok(Value::Relative {
            section,
            offset: pick(a, b),
        }),
        (left, right) => Ok(Value::Absolute(pick(
            left.resolve(env)?,
            right.resolve(env)?,
        ))),
    }
}

fn binary(
    op: BinaryOp,
    left: Value,
    right: Value,
    env: &dyn Environment,
) -> Result<Value, EvalError> {
    let is_comparison = matches!(
        op,
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Ge
    );
    // On the offset: always where that and the address come to the same thing (so that the symbol of
    // `x = .data_start + 4` moves with its section), otherwise only if the number is not taken for an address.
    let on_offset =
        |moves_along: bool| !is_comparison && (moves_along || !env.numbers_are_addresses());
    match (left, right) {
        // Two in one section: the result is a number (a size, a comparison).
        (
            Value::Relative { section, offset: a },
            Value::Relative {
                section: other,
                offset: b,
            },
        ) if section == other => Ok(Value::Absolute(arithmetic(op, a, b)?)),
        (Value::Relative { section, offset }, Value::Absolute(number))
            if on_offset(matches!(op, BinaryOp::Add | BinaryOp::Sub)) =>
        {
            Ok(Value::Relative {
                section,
                offset: arithmetic(op, offset, number)?,
            })
        }
        (Value::Absolute(number), Value::Relative { section, offset })
            if on_offset(op == BinaryOp::Add) =>
        {
            Ok(Value::Relative {
                section,
                offset: arithmetic(op, number, offset)?,
            })
        }
        (left, right) => Ok(Value::Absolute(arithmetic(
            op,
            left.resolve(env)?,
            right.resolve(env)?,
        )?)),
    }
}

fn arithmetic(op: BinaryOp, a: u64, b: u64) -> Result<u64, EvalError> {
    let shift = |shift: fn(u64, u32) -> Option<u64>| {
        u32::try_from(b)
            .ok()
            .and_then(|b| shift(a, b))
            .ok_or(EvalError::ShiftTooLarge(b))
    };
    Ok(match op {
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div | BinaryOp::Rem if b == 0 => return Err(EvalError::DivisionByZero),
        BinaryOp::Div => (a as i64).wrapping_div(b as i64) as u64,
        BinaryOp::Rem => (a as i64).wrapping_rem(b as i64) as u64,
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Shl => shift(u64::checked_shl)?,
        BinaryOp::Shr => shift(u64::checked_shr)?,
        BinaryOp::Eq => u64::from(a == b),
        BinaryOp::Ne => u64::from(a != b),
        BinaryOp::Lt => u64::from(a < b),
        BinaryOp::Gt => u64::from(a > b),
        BinaryOp::Le => u64::from(a <= b),
        BinaryOp::Ge => u64::from(a >= b),
        BinaryOp::And => a & b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Or => a | b,
        BinaryOp::LogicalAnd => u64::from(a != 0 && b != 0),
        BinaryOp::LogicalOr => u64::from(a != 0 || b != 0),
    })
}
