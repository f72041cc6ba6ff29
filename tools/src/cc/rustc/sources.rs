//! What a source in Rust may read that rustc does not list: native libraries, and what its assembly reads.
//!
//! Texts are not parsed. What could be meant so counts: that costs a compile, and never a wrong library.

use memchr::memmem;

/// Names of macros that assemble.
const ASSEMBLING: [&[u8]; 4] = [b"asm", b"global_asm", b"naked_asm", b"llvm_asm"];

/// What a macro of another library has in it if it is for assembly that reads a file.
const READING: [&[u8]; 4] = [b"incbin", b"INCBIN", b".include", b".INCLUDE"];

fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a source may have assembly: it names one of the macros that make some, other than in a literal. They may be called by another
/// name, their argument may be what other macros make, and a directive may be in capitals, in escapes or in parts.
pub fn has_assembly(text: &[u8]) -> bool {
    memmem::find_iter(text, b"asm").any(|at| {
        let end = at + 3;
        let start = text[..at].iter().rposition(|byte| !is_part(*byte));
        let start = start.map_or(0, |at| at + 1);
        let before = start.checked_sub(1).map(|at| text[at]);
        let is_whole = text.get(end).is_none_or(|byte| !is_part(*byte));
        // `feature = "asm"`
        let is_literal = before == Some(b'"') && text.get(end) == Some(&b'"');
        is_whole && !is_literal && ASSEMBLING.contains(&&text[start..end])
    })
}

/// Whether a library may have macros for others that make assembly which reads files.
pub fn has_reading_macro(library: &[u8]) -> bool {
    READING
        .iter()
        .any(|word| memmem::find(library, word).is_some())
}

/// Whether a source may say that a native library, which rustc does not list, is to be part of what is made: a `link(…)` whose
/// kind is not written out as one of those that stay outside.
pub fn has_static_library(text: &[u8]) -> bool {
    memmem::find_iter(text, b"link").any(|at| {
        let behind = &text[at + 4..];
        let Some(inside) = behind.trim_ascii_start().strip_prefix(b"(") else {
            return is_comment(behind.trim_ascii_start()) && is_attribute(&text[..at]);
        };
        may_be_static(inside, is_attribute(&text[..at]))
    })
}

/// Whether a macro may make a `link(…)` of an identifier that it is given (`#[$a(kind = "static")]`), in the sources of a library together.
#[derive(Default)]
pub struct Attributes {
    /// There is a macro that names attributes by what it is given.
    are_named_by_macros: bool,
    /// Something is called `link`, without parentheses behind.
    is_link_given: bool,
}

impl Attributes {
    /// Reads one more source.
    pub fn read(&mut self, text: &[u8]) {
        self.are_named_by_macros = self.are_named_by_macros || names_attributes(text);
        self.is_link_given = self.is_link_given || gives_link(text);
    }

    /// Whether it may be so.
    pub fn may_be_static(&self) -> bool {
        self.are_named_by_macros && self.is_link_given
    }
}

/// Whether an attribute begins with a macro's variable and has arguments, or with what a macro repeats: `[$a(…)]`, `cfg_attr(x, $a(…))`, `[$($t)*]`.
fn names_attributes(text: &[u8]) -> bool {
    memchr::memchr_iter(b'$', text).any(|at| {
        let name = &text[at + 1..];
        let length = name.iter().take_while(|byte| is_part(**byte)).count();
        let behind = name[length..].trim_ascii_start();
        behind.starts_with(b"(") && begins_attribute(&text[..at])
    })
}

/// Whether what stands before a word is the begin of an attribute: `#[`, `#![unsafe(`, `#[cfg_attr(unix,`.
fn begins_attribute(before: &[u8]) -> bool {
    let Some(start) = memchr::memrchr(b'[', before) else {
        return false;
    };
    let hash = before[..start].trim_ascii_end();
    let hash = hash.strip_suffix(b"!").unwrap_or(hash).trim_ascii_end();
    let inside = before[start + 1..].trim_ascii_start();
    let is_known = inside.is_empty()
        || [&b"cfg_attr"[..], b"unsafe"]
            .iter()
            .any(|it| inside.starts_with(it));
    hash.ends_with(b"#") && is_known
}

/// Whether a source has the word `link` as macros may be given it, other than in a line that is a comment.
fn gives_link(text: &[u8]) -> bool {
    memmem::find_iter(text, b"link").any(|at| {
        let line = text[..at].iter().rposition(|byte| *byte == b'\n');
        let line = text[line.map_or(0, |end| end + 1)..at].trim_ascii_start();
        let is_start = !text[..at].last().copied().is_some_and(is_part);
        let is_end = !text.get(at + 4).copied().is_some_and(is_part);
        is_start && is_end && !line.starts_with(b"//")
    })
}

fn is_comment(text: &[u8]) -> bool {
    text.starts_with(b"//") || text.starts_with(b"/*")
}

/// Whether what stands before a word can be the begin of an attribute, and not of a call: `#[`, `cfg_attr(unix,`, `unsafe(`.
fn is_attribute(before: &[u8]) -> bool {
    let before = before.trim_ascii_end();
    matches!(before.last(), Some(b'[' | b',' | b'(' | b'/'))
}

/// What is between the parentheses of a `link`, and behind.
fn may_be_static(inside: &[u8], is_attribute: bool) -> bool {
    const OUTSIDE: [&[u8]; 3] = [b"\"dylib\"", b"\"framework\"", b"\"raw-dylib\""];
    let Some(end) = end_of(inside) else {
        return is_attribute;
    };
    let inside = &inside[..end];
    // What a macro puts in, or what a comment stands in, is not looked into.
    let is_unclear = inside.contains(&b'$')
        || memmem::find(inside, b"/*").is_some()
        || memmem::find(inside, b"//").is_some();
    if is_unclear && is_attribute {
        return true;
    }
    memmem::find_iter(inside, b"kind").any(|at| {
        let value = inside[at + 4..].trim_ascii_start();
        match value.strip_prefix(b"=") {
            Some(value) => {
                let value = value.trim_ascii_start();
                !OUTSIDE.iter().any(|kind| value.starts_with(kind))
            }
            None => false,
        }
    })
}

/// Where the parenthesis is closed that was opened before.
fn end_of(text: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 0 => return Some(at),
            b')' => depth -= 1,
            b'"' => {
                at += 1;
                while text.get(at).is_some_and(|byte| *byte != b'"') {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_libraries_are_seen() {
        for text in [
            "#[link(name = \"x\", kind = \"static\")]",
            "#[link(kind=\"static\", name = \"x\")]",
            "#[link(kind = r\"static\")]",
            "#[link(name = $n, kind = $k)]",
            "#[link(name = \"a)b\", kind = \"static\")]",
            "#[link(name = \"a\\\")b\", kind = \"static\")]",
            "#[link(name = \"x\", $($rest)*)]",
            "#[link(name = \"x\", kind/**/= \"static\")]",
            "#[link /* x */ (name = \"x\", kind = \"static\")]",
            "#[cfg_attr(unix, link(name = \"x\", kind = \"static\"))]",
            "#[link(name = \"x\", cfg(any(unix, a)), kind = \"static\")]",
            "#[unsafe(link(name = \"x\", kind = \"static\"))]",
            "#[link(",
        ] {
            assert!(has_static_library(text.as_bytes()), "{text}");
        }
        for text in [
            "#[link(name = \"x\", kind = \"dylib\")] fn link(x: u8) {}",
            "let kind = 1; let x = \"static\"; // \"dylib\"",
            "fs::hard_link(a, b)?; x.link($a, /* b */ c); link (kind)",
            "// a link\nlet link = 1;",
            "link(",
        ] {
            assert!(!has_static_library(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn links_that_macros_name_are_seen() {
        let may_be = |texts: &[&str]| {
            let mut attributes = Attributes::default();
            texts
                .iter()
                .for_each(|text| attributes.read(text.as_bytes()));
            attributes.may_be_static()
        };
        for texts in [
            &["m { ($a:ident) => { #[$a(kind = \"static\")] extern {} } } m!(link);"][..],
            &[
                "m { ($($t:tt)*) => { #[ $($t)* ] extern {} } }",
                "m!(link, x)",
            ],
            &["#[cfg_attr(unix, $a (x))]", "m! {\n link\n}"],
            &["# ! [ unsafe($a(x))]", "link"],
        ] {
            assert!(may_be(texts), "{texts:?}");
        }
        for texts in [
            &["#[$a(x)] m!(links, unlink, link_x);"][..],
            &["/// A\n  // link\n #[$a(x)]"],
            &[
                "m!(link); #[$meta] $(#[$meta])* f($a(x)) [$($a),*] ($($a:tt)*) #[doc = $a] #[a] $a()",
            ],
            &["m!(link)"],
        ] {
            assert!(!may_be(texts), "{texts:?}");
        }
    }

    #[test]
    fn assembly_is_seen() {
        for text in [
            "unsafe { asm!(\"nop\") }",
            "core::arch::global_asm!(concat!(\".inc\", \"bin\"))",
            "use std::arch::asm as a;",
            "use std::arch::{self, asm};",
            "m!(asm)",
            "naked_asm !(\"x\")",
            "r#asm!()",
            "asm",
        ] {
            assert!(has_assembly(text.as_bytes()), "{text}");
        }
        for text in [
            "#[cfg(feature = \"asm\")] mod wasm; use asm_x; let asms = 1; plasma",
            "",
            "as m",
        ] {
            assert!(!has_assembly(text.as_bytes()), "{text}");
        }
    }
}
