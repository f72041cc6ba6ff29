//! Whether a lambda or a type without a name may be in a text: clang calls these by their places.
//!
//! Only tokens are looked at. A bracket is no index where it follows what is no operand; where it follows what may be a macro or a cast, by
//! what stands behind its end. A type has no name where none follows `struct` and the like, or only what may be a macro for an attribute.

use super::text::is_part;
use super::tokens::Token;

/// Words behind which a bracket begins a lambda, and is no index.
const BEFORE_LAMBDAS: [&[u8]; 18] = [
    b"and",
    b"and_eq",
    b"bitand",
    b"bitor",
    b"case",
    b"co_await",
    b"co_return",
    b"co_yield",
    b"compl",
    b"do",
    b"else",
    b"not",
    b"not_eq",
    b"or",
    b"or_eq",
    b"return",
    b"throw",
    b"xor",
];

/// Words that may stand between what a lambda captures and its body.
const OF_LAMBDAS: [&[u8]; 7] = [
    b"consteval",
    b"constexpr",
    b"mutable",
    b"noexcept",
    b"requires",
    b"static",
    b"__attribute__",
];

const OF_TYPES: [&[u8]; 4] = [b"struct", b"class", b"union", b"enum"];

/// Whether a lambda or a type without a name may be in a line. `last` is the token before it.
pub fn has_nameless(last: &[u8], line: &[Token<'_>]) -> bool {
    let mut before = match last {
        [] => None,
        [byte] if !is_part(*byte) => Some(Token::Other(*byte)),
        word => Some(Token::Word(word)),
    };
    let is = |at: usize, sign: u8| line.get(at) == Some(&Token::Other(sign));
    let mut at = 0;
    while let Some(token) = line.get(at) {
        let is_of_type = matches!(before, Some(Token::Word(word)) if OF_TYPES.contains(&word));
        let is_operand = match before {
            Some(Token::Word(word)) => !BEFORE_LAMBDAS.contains(&word),
            Some(Token::Other(byte)) => matches!(byte, b']' | b')'),
            _ => false,
        };
        match token {
            Token::Other(b'{' | b':' | b'[') if is_of_type => return true,
            // An attribute, or a macro for one.
            Token::Word(_) if is_of_type && is(at + 1, b'(') => return true,
            // Another spelling of a bracket or a brace.
            Token::Other(b'<') if is(at + 1, b':') || is(at + 1, b'%') => return true,
            // An attribute.
            Token::Other(b'[') if !is_operand && is(at + 1, b'[') => at += 1,
            Token::Other(b'[') if !is_operand => return true,
            Token::Other(b'[')
                if before != Some(Token::Word(b"operator")) && may_be_lambda(&line[at..]) =>
            {
                return true;
            }
            _ => {}
        }
        before = Some(*token);
        at += 1;
    }
    false
}

/// Whether a bracket behind what may be an operand, a macro or a cast may begin a lambda, by what stands behind the bracket's end.
fn may_be_lambda(from_bracket: &[Token<'_>]) -> bool {
    let mut depth = 0;
    let end = from_bracket.iter().position(|token| {
        depth += match token {
            Token::Other(b'[') => 1,
            Token::Other(b']') => -1,
            _ => 0,
        };
        depth == 0
    });
    match end.and_then(|end| from_bracket.get(end + 1)) {
        None => true,
        Some(Token::Other(byte)) => matches!(byte, b'(' | b'{' | b'<'),
        Some(Token::Word(word)) => OF_LAMBDAS.contains(word),
        Some(_) => false,
    }
}

/// The words by which a line may call types: a macro for an attribute, or for nothing, makes these types without names.
pub fn tags<'l, 't>(line: &'l [Token<'t>]) -> impl Iterator<Item = &'t [u8]> + use<'l, 't> {
    line.iter().enumerate().filter_map(|(at, token)| {
        let Token::Word(word) = token else {
            return None;
        };
        let before = at.checked_sub(1).map(|before| line[before]);
        let is_of_type = matches!(before, Some(Token::Word(word)) if OF_TYPES.contains(&word));
        let ends = matches!(
            line.get(at + 1),
            None | Some(Token::Other(b'{' | b':' | b'<'))
        );
        (is_of_type && ends).then_some(*word)
    })
}

/// Whether a lambda or a type without a name may be in a definition, or begin with its last word.
pub fn makes_nameless(body: &[Token<'_>]) -> bool {
    let ends_as_type = matches!(body.last(), Some(Token::Word(word)) if OF_TYPES.contains(word));
    ends_as_type || tags(body).next().is_some() || has_nameless(b"", body)
}
