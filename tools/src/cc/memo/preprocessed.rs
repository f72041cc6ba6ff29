//! What is in a source when all macros are replaced, as the compiler's own preprocessor says: where `##` might put `__DATE__` together, a
//! macro may make assembly that reads files, or may be the name of what is included first, and nobody can say from the texts alone.
//!
//! The preprocessor is run again, with all that the compile was given, and with another word for the dates: where that word
//! comes out, or the preprocessor does not like it, there is one. In directives a date is an error, but for some pragmas, which the
//! preprocessor may leave as they are; so only those are let through that take none. Assembly stands there as the compiler gets it.

use super::assembly::{self, Assembly};
use super::conditions::{self, First};
use super::pasting;
use crate::cc::classify::Word;
use crate::cc::compiler::{Family, Program};
use crate::cc::options::Meaning;
use memchr::memmem;
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const NAMES: [&str; 3] = ["__DATE__", "__TIME__", "__TIMESTAMP__"];

/// Options of the preprocessor's output, and what is handed on past the driver.
const OTHERS: [&str; 4] = ["-d", "-P", "-Xclang", "-frewrite"];

/// Pragmas that take no text that is replaced, by their first words.
const PLAIN: [&str; 10] = [
    "GCC diagnostic",
    "GCC visibility",
    "GCC system_header",
    "GCC poison",
    "clang diagnostic",
    "once",
    "pop_macro",
    "push_macro",
    "redefine_extname",
    "weak",
];

/// The compile of which it is asked.
pub struct Question<'a> {
    pub program: &'a Program,
    pub family: Family,
    /// All arguments.
    pub args: &'a [OsString],
    /// The options among them.
    pub words: &'a [Word],
    /// How it is known what assembly reads.
    pub assembly: Assembly,
    /// A number that no other process has now.
    pub unique: u64,
}

/// What is known then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// There is no date.
    pub is_dateless: bool,
    /// No assembly reads a file.
    pub reads_nothing: bool,
    /// What the source includes first.
    pub first: First,
}

/// Whether the preprocessor can say more where this is the reason why a compile is not recorded.
pub fn may_help(reason: &str) -> bool {
    [
        pasting::DATE,
        pasting::ASSEMBLY,
        pasting::KEYWORD,
        assembly::BY_MACRO,
        assembly::READS,
        conditions::PERHAPS_PRECOMPILED,
    ]
    .contains(&reason)
}

/// Asks the preprocessor. What it does not say may be.
pub fn ask(question: &Question<'_>) -> Answer {
    let is_other = |word: &Word| {
        let option = word.option.as_bytes();
        OTHERS.iter().any(|it| option.starts_with(it.as_bytes()))
    };
    if question.words.iter().any(is_other) {
        return Answer::default();
    }
    // What says where something is written.
    let writes = |word: &&Word| matches!(word.meaning, Meaning::Output | Meaning::Dependencies);
    let without: HashSet<usize> = (question.words.iter())
        .filter(writes)
        .flat_map(|word| word.position..=word.position + word.arguments.len())
        .collect();
    let marker = format!("repo_date_{:x}_{:x}", std::process::id(), question.unique);
    let mut command = Command::new(&question.program.path);
    command.arg0(&question.program.argv0);
    let args = question.args.iter().enumerate();
    command.args(args.filter(|(at, _)| !without.contains(at)).map(|it| it.1));
    command.args(NAMES.map(|name| format!("-D{name}={marker}")));
    command.args(["-w", "-E", "-o", "-"]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let Some(output) = command.output().ok().filter(|it| it.status.success()) else {
        return Answer::default();
    };
    let text = &output.stdout[..];
    if text.is_empty() {
        return Answer::default();
    }
    Answer {
        is_dateless: memmem::find(text, marker.as_bytes()).is_none()
            && are_plain(text, question.family),
        reads_nothing: question.assembly.doubt(text).is_none(),
        first: first_included(text),
    }
}

/// Reads what a preprocessor has written, whatever it is ([`any_text`](super::any_text)).
pub fn read(text: &[u8], family: Family) {
    let _ = (are_plain(text, family), first_included(text));
}

/// What the source includes first, of what gcc has preprocessed. (It takes no precompiled header when it only preprocesses, so that the
/// header itself is read then.)
fn first_included(text: &[u8]) -> First {
    const IMPLICIT: &[u8] = b"/stdc-predef.h";
    let mut includer = &b""[..];
    let mut at = 0;
    while let Some(line) = text
        .get(at..)
        .and_then(|rest| rest.split(|byte| *byte == b'\n').next())
    {
        if let Some((file, flags)) = line_marker(line) {
            let is_entered = flags.split(|byte| *byte == b' ').any(|flag| flag == b"1");
            let is_implicit = includer == b"<command-line>" && file.ends_with(IMPLICIT);
            if is_entered && !is_implicit {
                // Lines of a literal may look like these, and names with escapes are others than they seem.
                let is_literal = memmem::find(&text[..at], b"R\"").is_some();
                return match is_literal || file.contains(&b'\\') {
                    true => First::Unknown,
                    false => First::File(file.to_vec()),
                };
            }
            includer = file;
        }
        at += line.len() + 1;
    }
    First::Nothing
}

/// The file and the flags of a line of the preprocessor that says where the next one is from.
fn line_marker(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(b"# ")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = rest[digits..].strip_prefix(b" \"")?;
    let end = memchr::memrchr(b'"', rest)?;
    (digits > 0).then(|| (&rest[..end], &rest[end + 1..]))
}

/// Whether no pragma in what was preprocessed can have a date, or change what the preprocessor does in the compile and not here.
fn are_plain(text: &[u8], family: Family) -> bool {
    // Left as it was written.
    if memmem::find(text, b"_Pragma").is_some() || memmem::find(text, b"__pragma").is_some() {
        return false;
    }
    memmem::find_iter(text, b"#pragma").all(|at| {
        let rest = &text[at + 7..];
        let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
        let line = line.trim_ascii_start();
        // gcc has replaced all that it does replace.
        let is_gcc = family == Family::Gcc;
        let is_packing = line.starts_with(b"pack") || line.starts_with(b"STDC");
        let is_plain = |it: &str| {
            let rest = line.strip_prefix(it.as_bytes());
            rest.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
        };
        (is_gcc && is_packing) || PLAIN.iter().any(|it| is_plain(it))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_included_first() {
        const HEAD: &str = "# 0 \"a.c\"\n# 0 \"<command-line>\"\n# 1 \"/usr/include/stdc-predef.h\" 1 3 4\n\
                            # 0 \"<command-line>\" 2\n# 1 \"a.c\"\n";
        let first = |text: &str| first_included([HEAD, text].concat().as_bytes());
        let file = |name: &str| First::File(name.into());
        assert_eq!(first("int x;\n"), First::Nothing);
        assert_eq!(first("# 9 \"b.y\"\nint x;"), First::Nothing);
        assert_eq!(
            first("\n# 1 \"inc/n.h\" 1\nint x;\n# 2 \"a.c\" 2\n"),
            file("inc/n.h")
        );
        assert_eq!(
            first("# 1 \"/n.h\" 1 3 4\n# 1 \"/o.h\" 1 3 4\n"),
            file("/n.h")
        );
        assert_eq!(first("# 1 \"/stdc-predef.h\" 1"), file("/stdc-predef.h"));
        assert_eq!(first("# 1 \"a\\303\\244.h\" 1\n"), First::Unknown);
        assert_eq!(first("R\"(\n# 1 \"n.h\" 1\n)\""), First::Unknown);
    }

    #[test]
    fn pragmas() {
        let plain = |text: &str, family| are_plain(text.as_bytes(), family);
        for text in [
            "",
            "#pragma once\nint x;\n#pragma GCC diagnostic push\n",
            "#pragma GCC visibility push(default)\n # 1 \"x\"\n",
            "#pragma weak x\n#pragma push_macro(\"x\")",
        ] {
            assert!(plain(text, Family::Gcc) && plain(text, Family::Clang));
        }
        for text in [
            "#pragma GCC target(\"avx\")\n",
            "#pragma GCC pop_options\n",
            "#pragma\n",
            "#pragma onceover\n",
            "#pragma clang attribute push(__attribute__((annotate(X))))",
            "__pragma(message(X))",
            "int x;\n#pragma comment(user, X)\n",
        ] {
            assert!(!plain(text, Family::Gcc) && !plain(text, Family::Clang));
        }
        assert!(plain("#pragma pack(4)\n", Family::Gcc));
    }
}
