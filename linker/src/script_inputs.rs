//! The part of the linker script language that stands in `libc.so` and its like:
//! `GROUP`, `INPUT` and `AS_NEEDED` (GNU ld's manual, "File Commands").

/// A file that a script names.
pub struct ScriptInput<'a> {
    /// As written; may begin with `-l`.
    pub name: &'a [u8],
    /// Within `AS_NEEDED`.
    pub as_needed: bool,
}

/// Reads the inputs that a script names.
pub fn read(text: &[u8]) -> Result<Vec<ScriptInput<'_>>, String> {
    let tokens = tokens(text)?;
    let mut inputs = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let command = tokens[at];
        at += 1;
        match command {
            b"OUTPUT_FORMAT" | b"OUTPUT_ARCH" | b"SEARCH_DIR" => {
                at += tokens[at..]
                    .iter()
                    .position(|token| *token == b")")
                    .ok_or("parenthesis is not closed")?
                    + 1;
            }
            b"GROUP" | b"INPUT" => at = list(&tokens, at, &mut inputs)?,
            b";" => {}
            other => {
                return Err(format!(
                    "'{}' is not understood in a linker script used as input",
                    String::from_utf8_lossy(other)
                ));
            }
        }
    }
    Ok(inputs)
}

fn list<'a>(
    tokens: &[&'a [u8]],
    mut at: usize,
    inputs: &mut Vec<ScriptInput<'a>>,
) -> Result<usize, String> {
    let mut depth = 0;
    let mut as_needed_from = None;
    loop {
        let token = *tokens.get(at).ok_or("parenthesis is not closed")?;
        at += 1;
        match token {
            b"(" => depth += 1,
            b")" => {
                if as_needed_from == Some(depth) {
                    as_needed_from = None;
                }
                depth -= 1;
                if depth <= 0 {
                    return Ok(at);
                }
            }
            b"AS_NEEDED" => as_needed_from = Some(depth + 1),
            b"," => {}
            name => inputs.push(ScriptInput {
                name,
                as_needed: as_needed_from.is_some(),
            }),
        }
    }
}

fn tokens(text: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b if b.is_ascii_whitespace() => at += 1,
            b'/' if text[at..].starts_with(b"/*") => {
                at += memchr::memmem::find(&text[at..], b"*/").ok_or("comment is not closed")? + 2;
            }
            b'#' => {
                at += text[at..]
                    .iter()
                    .position(|b| *b == b'\n')
                    .unwrap_or(text.len() - at)
            }
            b'(' | b')' | b',' | b';' => {
                tokens.push(&text[at..at + 1]);
                at += 1;
            }
            b'"' => {
                let len = text[at + 1..]
                    .iter()
                    .position(|b| *b == b'"')
                    .ok_or("string is not closed")?;
                tokens.push(&text[at + 1..at + 1 + len]);
                at += len + 2;
            }
            _ => {
                let end = |b: &u8| b.is_ascii_whitespace() || b"(),;\"".contains(b);
                let len = text[at..].iter().position(end).unwrap_or(text.len() - at);
                tokens.push(&text[at..at + len]);
                at += len;
            }
        }
    }
    Ok(tokens)
}
