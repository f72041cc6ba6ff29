//! What can be known of an expression before there are addresses: whether its value will move with the image.
//!
//! Relocations against a symbol depend on it: a number stays as it is wherever a position-independent output is loaded,
//! an address does not. The rules are those by which values are computed ("The Section of an Expression" in GNU ld's
//! manual), without the values; where the kind depends on a value (`a ? b : c`), an address is assumed if one of the
//! possible results is one.

use crate::script::Expr;
use crate::script::expr::{BinaryOp, SectionQuery, UnaryOp};

/// Whether the value of an expression is an address. `symbol` tells the same of symbols.
pub fn is_address(expr: &Expr, symbol: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    match expr {
        Expr::Number(_)
        | Expr::Absolute(_)
        | Expr::Log2Ceil(_)
        | Expr::Defined(_)
        | Expr::Length(_)
        | Expr::Constant(_)
        | Expr::SizeofHeaders
        | Expr::Unary(UnaryOp::LogicalNot, _) => false,
        Expr::Symbol(name) => symbol(name),
        Expr::Dot | Expr::Align(None, _) | Expr::DataSegmentAlign(..) | Expr::Origin(_) => true,
        Expr::Unary(_, inner)
        | Expr::Align(Some(inner), _)
        | Expr::SegmentStart(_, inner)
        | Expr::DataSegmentEnd(inner)
        | Expr::Assert(inner, _)
        | Expr::DataSegmentRelroEnd(_, inner) => is_address(inner, symbol),
        Expr::Binary(op, left, right) => {
            let (left, right) = (is_address(left, symbol), is_address(right, symbol));
            match op {
                BinaryOp::Eq
                | BinaryOp::Ne
                | BinaryOp::Lt
                | BinaryOp::Gt
                | BinaryOp::Le
                | BinaryOp::Ge
                | BinaryOp::LogicalAnd
                | BinaryOp::LogicalOr => false,
                // The difference of two addresses is a number, and so is whatever else is done with two.
                _ => left != right,
            }
        }
        Expr::Conditional(_, then, otherwise) => {
            is_address(then, symbol) || is_address(otherwise, symbol)
        }
        Expr::Max(left, right) | Expr::Min(left, right) => {
            is_address(left, symbol) || is_address(right, symbol)
        }
        Expr::Section(query, _) => *query == SectionQuery::Address,
    }
}

/// Whether a number that is assigned in an output section's description is an offset in it: one that is written as
/// such, not one that comes from a function of addresses.
pub fn is_plain_number(expr: &Expr) -> bool {
    match expr {
        Expr::Absolute(_) | Expr::SegmentStart(..) | Expr::Origin(_) => false,
        Expr::Section(query, _) => {
            !matches!(query, SectionQuery::Address | SectionQuery::LoadAddress)
        }
        Expr::Conditional(_, then, otherwise) => {
            is_plain_number(then) && is_plain_number(otherwise)
        }
        Expr::Binary(_, left, right) | Expr::Max(left, right) | Expr::Min(left, right) => {
            is_plain_number(left) && is_plain_number(right)
        }
        Expr::Unary(_, inner) | Expr::Align(Some(inner), _) => is_plain_number(inner),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::parse_expr;

    #[test]
    fn numbers_and_addresses_are_told_apart() {
        for (text, expected) in [
            ("1 + 2", false),
            (". + 1", true),
            ("address", true),
            ("number", false),
            ("address - address", false),
            ("address - 4", true),
            ("(. + 0xfff) & ~0xfff", true),
            ("address < 4", false),
            ("ABSOLUTE(.)", false),
            ("ADDR(.text) + SIZEOF(.text)", true),
            ("SIZEOF(.text)", false),
            ("LOADADDR(.text)", false),
            ("DEFINED(x) ? address : 0", true),
            ("ALIGN(16)", true),
            ("ORIGIN(ram) + LENGTH(ram)", true),
        ] {
            let expr = parse_expr(text.as_bytes(), "x").unwrap();
            let found = is_address(&expr, &mut |name| name == b"address");
            assert_eq!(found, expected, "{text}");
        }
    }
}
