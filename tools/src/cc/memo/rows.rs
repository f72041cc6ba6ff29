//! What stands around `##` in the definition of a macro.

use super::tokens::Token;

/// An operand of `##`: a word, or a parameter.
pub type Operand = Option<Vec<u8>>;

/// Words that are put together, in a row.
pub struct Row {
    /// What is between the `##`.
    pub operands: Vec<Operand>,
    /// It is the name of a type.
    pub is_type: bool,
}

/// The rows in the definition of a macro, from its name on.
pub fn rows(line: &[Token<'_>]) -> Vec<Row> {
    let mut found = Vec::new();
    let mut parameters: Vec<&[u8]> = vec![b"__VA_ARGS__", b"__VA_OPT__"];
    let mut start = 1;
    if line.get(1) == Some(&Token::Other(b'(')) {
        let end = line[1..]
            .iter()
            .position(|token| *token == Token::Other(b')'));
        start = end.map_or(line.len(), |end| 1 + end);
        parameters.extend(line[1..start].iter().filter_map(|token| match token {
            Token::Word(word) => Some(*word),
            _ => None,
        }));
    }
    let body = line.get(start..).unwrap_or_default();
    let mut at = 0;
    while at < body.len() {
        let first = at;
        let mut operands: Vec<Operand> = Vec::new();
        // What `__VA_OPT__` has between its parentheses.
        if body[at..].starts_with(&[Token::Other(b')'), Token::Paste]) {
            operands.push(None);
            at += 2;
        }
        while let Some(Token::Word(word)) = body.get(at) {
            operands.push((!parameters.contains(word)).then(|| word.to_vec()));
            if body.get(at + 1) != Some(&Token::Paste) {
                break;
            }
            at += 2;
        }
        at += 1;
        // What follows such a word is the name of a type.
        let before = first.checked_sub(1).map(|before| body[before]);
        let keywords = [&b"struct"[..], b"class", b"union", b"enum", b"typename"];
        let is_type = matches!(before, Some(Token::Word(word)) if keywords.contains(&word));
        if operands.len() > 1 {
            found.push(Row { operands, is_type });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_definitions_and_of_what_is_none() {
        let (open, close) = (Token::Other(b'('), Token::Other(b')'));
        let (f, x, y) = (Token::Word(b"f"), Token::Word(b"x"), Token::Word(b"y"));
        let of = |start: &[Token<'_>]| -> Vec<_> {
            let line = [start, &[x, Token::Paste, y]].concat();
            rows(&line).into_iter().map(|row| row.operands).collect()
        };
        let y = || Some(b"y".to_vec());
        assert_eq!(of(&[f]), [[Some(b"x".to_vec()), y()]]);
        assert_eq!(of(&[f, open, x, close]), [[None, y()]]);
        // `__VA_OPT__(x)##x`
        let optional = [
            f,
            open,
            x,
            close,
            Token::Word(b"__VA_OPT__"),
            open,
            x,
            close,
        ];
        let line = [&optional[..], &[Token::Paste, x]].concat();
        let operands: Vec<_> = rows(&line).into_iter().map(|row| row.operands).collect();
        assert_eq!(operands, [[None, None]]);
        // In a group that is skipped there may be anything.
        assert!(of(&[close, open]).is_empty());
        assert!(of(&[]).is_empty());
    }
}
