//! What the options of a compile leave of its sources that may be another one, and make the same object.
//!
//! Debug information has lines, and so has what sanitizers and OpenMP write; and of an option that is not known to have none nothing is assumed.

use super::lines::Lines;
use crate::cc::classify::{Language, Word};
use crate::cc::compiler::Family;
use crate::cc::options::Meaning;
use crate::cc::pruning::eligible;

/// What the options leave of a source that may be another one.
#[derive(Clone, Debug)]
pub enum Care {
    /// Nothing: its bytes matter.
    Bytes,
    /// Comments, if all the rest keeps its place.
    Places,
    /// Comments and blank lines, as far as the texts, which are to be read for that, do not ask for their lines.
    Order(Lines),
    /// The same, but debug information says lines, and is to be changed.
    Moved {
        /// The texts.
        lines: Lines,
        /// It may have digests of the sources, too.
        has_digests: bool,
    },
}

impl Care {
    /// The texts that may ask for their lines, if it matters whether they do.
    pub fn lines(&self) -> Option<&Lines> {
        match self {
            Care::Order(lines) | Care::Moved { lines, .. } => Some(lines),
            Care::Places | Care::Bytes => None,
        }
    }
}

/// Options for debug information in which lines can be moved.
const OF_MOVED_LINES: [&str; 15] = [
    "-g",
    "-g1",
    "-g2",
    "-ggdb",
    "-ggdb1",
    "-ggdb2",
    "-gdwarf",
    "-gdwarf-4",
    "-gdwarf-5",
    "-gline-tables-only",
    "-gmlt",
    "-gcolumn-info",
    "-gno-column-info",
    "-gstrict-dwarf",
    "-gno-strict-dwarf",
];

/// Beginnings of options that say nothing of lines for either compiler.
const OF_BOTH: &[&str] = &[
    "-fno-",
    "-ffile-prefix-map=",
    "-fmacro-prefix-map=",
    "-fdebug-prefix-map=",
];

/// What gcc's options for code begin with that say nothing of lines, besides those that are known for definitions.
const OF_GCC: &[&str] = &[
    "-fgcse",
    "-fipa-",
    "-floop-",
    "-fsched",
    "-fira-",
    "-ftree-",
    "-finline-",
    "-fpartial-inlining",
    "-fstack-protector",
    "-fmax-errors=",
    "-fsingle-precision-constant",
    "-freorder-",
    "-fcaller-saves",
    "-fcommon",
    "-fconserve-stack",
    "-fcrossjumping",
    "-fexpensive-optimizations",
    "-fmerge-constants",
    "-fpermissive",
    "-fvect-cost-model=",
    "-fdevirtualize",
    "-fipa-pta",
    "-fcode-hoisting",
    "-fsplit-",
    "-fnon-call-exceptions",
];

/// What the options of a compile, which said nothing, leave.
pub fn care(words: &[Word], family: Family, language: Language) -> Care {
    if !matches!(language, Language::C | Language::Cxx) {
        return Care::Bytes;
    }
    let (mut has_lines, mut may_move) = (false, true);
    for word in words {
        let Some(text) = word.option.to_str() else {
            return Care::Bytes;
        };
        if is_strict_about_comments(text, language) {
            return Care::Bytes;
        }
        // Directories have other names in debug information then.
        may_move &= !text.contains("-prefix-map");
        let is_harmless = match word.meaning {
            Meaning::Beyond(_) => false,
            Meaning::Macro
            | Meaning::Directory
            | Meaning::Header
            | Meaning::Output
            | Meaning::Dependencies
            | Meaning::Diagnostics
            | Meaning::Nothing => true,
            Meaning::Code if text == "-g0" => true,
            Meaning::Code if text.starts_with("-g") => {
                has_lines = true;
                let is_known = OF_MOVED_LINES.contains(&text);
                may_move &= is_known;
                is_known || family == Family::Gcc && !text.contains("split")
            }
            Meaning::Code => {
                let begins = |list: &[&str]| list.iter().any(|it| text.starts_with(it));
                let is_of_gcc =
                    || family == Family::Gcc && (begins(OF_GCC) || begins(&["-m", "--param"]));
                let is_path = text.starts_with("--sysroot") || text == "-x" || text == "-static";
                word.arguments.len() <= usize::from(text == "-x" || text.starts_with("--"))
                    && (is_path || eligible::is_of_code(text) || begins(OF_BOTH) || is_of_gcc())
            }
        };
        if !is_harmless {
            return Care::Bytes;
        }
    }
    let lines = || Lines::new(words, family, language);
    match has_lines {
        true if may_move => Care::Moved {
            lines: lines(),
            has_digests: family == Family::Clang,
        },
        // In clang's there is a digest of each source.
        true if family == Family::Clang => Care::Bytes,
        true => Care::Places,
        false => Care::Order(lines()),
    }
}

/// Whether a compile may warn of code by where comments stand ([`super::comments::unindents`]).
pub fn heeds_indentation(words: &[Word], family: Family) -> bool {
    let asks = |word: &Word| {
        let text = word.option.to_string_lossy();
        text == "-Wall" || (text.contains("misleading-indentation") && !text.contains("-Wno-"))
    };
    family == Family::Gcc && words.iter().any(asks)
}

/// Whether with this option a compiler looks into comments, or takes none that begin with `//`.
fn is_strict_about_comments(text: &str, language: Language) -> bool {
    let old = [
        "c89",
        "c90",
        "gnu89",
        "gnu90",
        "iso9899:1990",
        "iso9899:199409",
    ];
    let is_old = |standard: &str| old.contains(&standard);
    let standard = text.strip_prefix('-').unwrap_or(text);
    let standard = standard.strip_prefix('-').unwrap_or(standard);
    let is_of_old_c = language == Language::C
        && (standard == "ansi" || standard.strip_prefix("std=").is_some_and(is_old));
    let looks = [
        "documentation",
        "-Weverything",
        "implicit-fallthrough=1",
        "whitespace",
        "compat",
        "comment-block",
        "parse-all-comments",
    ];
    is_of_old_c || looks.iter().any(|part| text.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::classify::{Action, classify};
    use std::ffi::OsString;

    fn of(family: Family, line: &str) -> Vec<Word> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        match classify(family, &args) {
            Action::Compile(compile) => compile.words,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_say_what_may_be_another() {
        let care = |family, line: &str| care(&of(family, line), family, Language::C);
        for line in [
            "-O2 -Wall -Iinc -DX -MD -MF d -fPIC -g0 -c a.c -o a.o",
            "-O2 -pipe -fno-strict-aliasing -std=gnu11 -march=x86-64-v3 -isystem x -c a.c",
            "-Os -ffile-prefix-map=/a=. -fstack-protector-strong -D_FORTIFY_SOURCE=2 -c a.c",
        ] {
            for family in [Family::Gcc, Family::Clang] {
                assert!(matches!(care(family, line), Care::Order(_)), "{line}");
            }
        }
        for line in ["-g -c a.c", "-O2 -ggdb -gdwarf-4 -c a.c"] {
            for family in [Family::Gcc, Family::Clang] {
                let is_of_clang = family == Family::Clang;
                let Care::Moved { has_digests, .. } = care(family, line) else {
                    panic!("{line}");
                };
                assert_eq!(has_digests, is_of_clang);
            }
        }
        for line in ["-g -ffile-prefix-map=/a=. -c a.c", "-O2 -ggdb3 -c a.c"] {
            assert!(matches!(care(Family::Gcc, line), Care::Places), "{line}");
            assert!(matches!(care(Family::Clang, line), Care::Bytes), "{line}");
        }
        for line in [
            "-fsanitize=address -c a.c",
            "-fopenmp -c a.c",
            "-std=c89 -c a.c",
            "-ansi -c a.c",
            "-Wdocumentation -c a.c",
            "-Wimplicit-fallthrough=1 -c a.c",
            "-Wa,--gdwarf-5 -c a.c",
            "-pg -c a.c",
            "-finstrument-functions -c a.c",
            "-fparse-all-comments -c a.c",
        ] {
            for family in [Family::Gcc, Family::Clang] {
                assert!(matches!(care(family, line), Care::Bytes), "{line}");
            }
        }
    }
}
