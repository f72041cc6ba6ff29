//! `__has_include` by another name, as in `#define HAS __has_include`: the preprocessor answers wherever that name is used like it.
//!
//! Only a macro whose whole text is the question has such a name. Outside of `#if` and `#elif` either name is an error if it is replaced.

use super::text::{Cursor, Form, Lookup, is_in_definition, literal};
use super::tokens::{Lexer, Token};
use memchr::memmem;

/// What is said where it cannot be followed.
pub const BY_ANOTHER_NAME: &str = "__has_include by another name in an input";
/// Where a definition asks for what may be beside the file that uses it.
pub const IN_DEFINITION: &str = "__has_include in a definition in an input";

/// The name that is defined to be what stands between these texts, and nothing more.
pub fn other_name<'t>(before: &'t [u8], behind: &[u8]) -> Option<&'t [u8]> {
    let end = memchr::memchr(b'\n', behind).unwrap_or(behind.len());
    if !behind[..end].trim_ascii().is_empty() {
        return None;
    }
    let start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
    let line = before[start..].trim_ascii().strip_prefix(b"#")?;
    let line = line.trim_ascii().strip_prefix(b"define")?;
    let name = line.trim_ascii();
    let is_name = !name.is_empty() && name.len() < line.len();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    (is_name && name.iter().all(is_part)).then_some(name)
}

/// What is asked by another name.
#[derive(Debug, Default)]
pub struct Asked {
    /// What is looked for.
    pub lookups: Vec<Lookup>,
    /// Names that are defined to be this one.
    pub names: Vec<Vec<u8>>,
}

/// What is asked by this name in a text.
///
/// # Errors
/// If that cannot be followed.
pub fn by_name(text: &[u8], name: &[u8]) -> Result<Asked, &'static str> {
    let mut found = Asked::default();
    if memmem::find(text, name).is_none() {
        return Ok(found);
    }
    let mut lexer = Lexer::new(text);
    let mut line = Vec::new();
    while lexer.line(&mut line) {
        let is_definition = line.contains(&Token::Word(b"define"));
        for (at, token) in line.iter().enumerate() {
            let Token::Word(word) = token else {
                continue;
            };
            let is_defined = line.get(at.wrapping_sub(1)) == Some(&Token::Word(b"define"));
            if *word != name || is_defined {
                continue;
            }
            let place = word.as_ptr() as usize - text.as_ptr() as usize;
            let mut cursor = Cursor {
                text,
                at: place + name.len(),
            };
            cursor.skip_blanks();
            if text.get(cursor.at) != Some(&b'(') {
                match line.as_slice() {
                    [_, Token::Word(b"define"), Token::Word(other), _] => {
                        found.names.push(other.to_vec());
                    }
                    _ if is_definition => return Err(BY_ANOTHER_NAME),
                    // `defined`, `#ifdef`, or an error.
                    _ => {}
                }
                continue;
            }
            cursor.at += 1;
            cursor.skip_blanks();
            match literal(&text[cursor.at..]) {
                Some((Form::Quoted, _)) if is_in_definition(&text[..place]) => {
                    return Err(IN_DEFINITION);
                }
                Some((form, name)) => found.lookups.push(Lookup {
                    form,
                    name: name.to_vec(),
                    only_asks: true,
                }),
                None => return Err(BY_ANOTHER_NAME),
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names() {
        let name =
            |before: &'static str, behind: &str| other_name(before.as_bytes(), behind.as_bytes());
        assert_eq!(name("x\n # define HAS  ", "\n#endif"), Some(&b"HAS"[..]));
        assert_eq!(name("#define HAS ", ""), Some(&b"HAS"[..]));
        for (before, behind) in [
            ("#define HAS(x) ", "\n"),
            ("#define HAS ", " (<a.h>)\n"),
            ("#define HAS 1 +", "\n"),
            ("#define HAS \\\n", "\n"),
            ("#define HAS /**/ ", "\n"),
            ("#ifdef ", "\n"),
        ] {
            assert_eq!(name(before, behind), None, "{before}");
        }
    }

    #[test]
    fn what_is_asked_by_another_name() {
        let asked = |text: &str| by_name(text.as_bytes(), b"HAS");
        let found = asked(
            "/* HAS(x) */\n#define HAS(x) 0\n#define H HAS\n#if HAS(<a.h>) || HAS ( \"b.h\" )\n",
        );
        let found = found.expect("followed");
        let names: Vec<_> = found.lookups.iter().map(|it| &it.name[..]).collect();
        assert_eq!(names, [b"a.h", b"b.h"]);
        assert_eq!(found.names, [b"H"]);
        for text in [
            "#if HAS(X)\n",
            "#define F(x) HAS(x)\n",
            "#define F(x) HAS\n",
            "#define F x HAS\n",
            "#define F HAS(\"a.h\")\n",
        ] {
            assert!(asked(text).is_err(), "{text}");
        }
    }
}
