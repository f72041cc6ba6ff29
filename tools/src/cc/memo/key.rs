//! The key of a compile: all that decides what a compiler makes of its inputs, and what it says.

use super::ask::Answer;
use super::base::{Base, tells_directory};
use crate::cc::classify::Compile;
use crate::cc::invocation::Invocation;
use crate::cc::options::Meaning;
use crate::cc::run;
use format_spec::digest::Digest;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const VERSION: &[u8] = b"repo-cc 2";

/// What of the environment may change what a compiler makes or says.
const HEEDED: &[&str] = &[
    "CLANG_NO_DEFAULT_CONFIG",
    "CLICOLOR_FORCE",
    "COMPILER_PATH",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "C_INCLUDE_PATH",
    "GCC_COLORS",
    "GCC_EXEC_PREFIX",
    "GCC_EXTRA_DIAGNOSTIC_OUTPUT",
    "GCC_ROOT",
    "GCC_URLS",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LIBRARY_PATH",
    "NO_COLOR",
    "OBJC_INCLUDE_PATH",
    "POSIXLY_CORRECT",
    "SDKROOT",
    "SOURCE_DATE_EPOCH",
    "TERM_URLS",
];

/// What of it may, if the compiler writes to a terminal.
const HEEDED_AT_TERMINALS: &[&str] = &[
    "COLORTERM",
    "COLUMNS",
    "TERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "VTE_VERSION",
];

/// What makes a compiler write more files, or run otherwise.
const DISTURBING: &[&str] = &[
    "CCC_ADD_ARGS",
    "CCC_OVERRIDE_OPTIONS",
    "CC_LOG_DIAGNOSTICS",
    "CC_PRINT_HEADERS",
    "CC_PRINT_INTERNAL_STAT",
    "CC_PRINT_OPTIONS",
    "CC_PRINT_PROC_STAT",
    "DEPENDENCIES_OUTPUT",
    "GCC_COMPARE_DEBUG",
    "LD_AUDIT",
    "SUNPRO_DEPENDENCIES",
];

/// Options that put the command line into the object.
const TELLING: &[&str] = &[
    "-frecord-command-line",
    "-frecord-gcc-switches",
    "-grecord-command-line",
    "-grecord-gcc-switches",
];

/// The variables that a compiler heeds, with their values.
pub fn environment() -> Vec<(&'static str, OsString)> {
    let of_terminals: &[_] = match run::terminal() {
        Some(_) => HEEDED_AT_TERMINALS,
        None => &[],
    };
    let names = HEEDED.iter().chain(of_terminals);
    names
        .filter_map(|name| Some((*name, env::var_os(name)?)))
        .collect()
}

/// Why nothing can be known of a compile, as its options and the environment tell.
pub fn why_not(compile: &Compile) -> Option<&'static str> {
    for word in &compile.words {
        if let Meaning::Beyond(reason) = word.meaning {
            return Some(reason);
        }
        // (clang's bitcode has it, too.)
        if TELLING.iter().any(|option| word.option == *option)
            || word.option.as_bytes().starts_with(b"-fembed-bitcode")
        {
            return Some("an option that puts the command line into the object");
        }
        if word.option.as_bytes().starts_with(b"-finput-charset") {
            return Some("an option that says how sources are written");
        }
    }
    if compile.for_linker {
        return Some("an input for the linker, which compilers look for");
    }
    let is_disturbed = DISTURBING.iter().any(|name| env::var_os(name).is_some());
    is_disturbed.then_some("a variable that makes compilers write more")
}

/// What a key is made of.
pub struct Question<'a> {
    pub invocation: &'a Invocation,
    pub compile: &'a Compile,
    pub args: &'a [OsString],
    pub answer: &'a Answer,
    pub environment: &'a [(&'static str, OsString)],
    /// The working directory.
    pub directory: &'a Path,
    pub base: Option<&'a Base>,
    /// Whether definitions that the repository has are left out, which makes objects of another kind.
    pub is_pruned: bool,
}

/// The key, and the parts of which it is the digest.
pub fn make(question: &Question<'_>) -> (Digest, Vec<Vec<u8>>) {
    let Question {
        invocation,
        compile,
        answer,
        ..
    } = question;
    let is_native = |word: &OsString| word.as_bytes().ends_with(b"=native");
    let terminal = run::terminal();
    let logical = logical_directory();
    let place = match &logical[..] {
        [] => question.directory,
        logical => Path::new(OsStr::from_bytes(logical)),
    };
    let base = (question.base).filter(|_| !tells_directory(&compile.words, place));
    let marked = |path: &[u8]| match base {
        Some(base) => base.marked(path),
        None => path.to_vec(),
    };
    let mut parts: Vec<Vec<u8>> = vec![
        VERSION.to_vec(),
        answer.identity.0.to_vec(),
        invocation.program.path.as_os_str().as_bytes().to_vec(),
        invocation.program.argv0.as_bytes().to_vec(),
        marked(question.directory.as_os_str().as_bytes()),
        marked(&logical),
        answer.search.join(&0),
        answer.files.join(&0),
        vec![
            u8::from(terminal.is_some()),
            u8::from(compile.split_sections),
            u8::from(question.is_pruned),
            answer.quoted as u8,
        ],
        terminal.map_or_else(Vec::new, |size| size.ws_col.to_le_bytes().to_vec()),
        match question.args.iter().any(is_native) {
            true => processor(),
            false => Vec::new(),
        },
    ];
    for (name, value) in question.environment {
        parts.push([name.as_bytes(), b"=", value.as_bytes()].concat());
    }
    parts.push(b"--".to_vec());
    let left_out = without_effect(compile);
    for (at, word) in question.args.iter().enumerate() {
        if !left_out.contains(&at) {
            parts.push(match base {
                Some(base) => base.marked_argument(word),
                None => word.as_bytes().to_vec(),
            });
        }
    }
    (digest(&parts), parts)
}

/// What is the same for all sources of a program: the digest of the parts of a key that say neither what is compiled nor where what is
/// made goes. `more`: what else decides what is found in a text.
pub fn kind(question: &Question<'_>, more: &[u64]) -> Digest {
    let compile = question.compile;
    let of_outputs = |meaning| matches!(meaning, Meaning::Output | Meaning::Dependencies);
    let words = (compile.words.iter()).filter(|word| of_outputs(word.meaning));
    let mut left_out: Vec<usize> = words
        .flat_map(|word| word.position..=word.position + word.arguments.len())
        .collect();
    left_out.extend(compile.sources.iter().map(|source| source.position));
    let (_, mut parts) = make(&Question {
        args: &[],
        ..*question
    });
    for (at, word) in question.args.iter().enumerate() {
        if word.as_bytes().ends_with(b"=native") {
            parts.push(processor());
        }
        if !left_out.contains(&at) {
            parts.push(word.as_bytes().to_vec());
        }
    }
    parts.push(bytemuck::cast_slice(more).to_vec());
    digest(&parts)
}

/// The key of these parts.
pub fn digest(parts: &[Vec<u8>]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    Digest(*hasher.finalize().as_bytes())
}

/// What a compiler may heed of the terminal that it writes to; empty if it writes to none.
pub fn terminal_in_words() -> Vec<u8> {
    let Some(size) = run::terminal() else {
        return Vec::new();
    };
    let mut text = format!("{} columns", size.ws_col).into_bytes();
    for name in HEEDED_AT_TERMINALS {
        let value = env::var_os(name).unwrap_or_default();
        text.extend_from_slice(&[b" ", name.as_bytes(), b"=", value.as_bytes()].concat());
    }
    text
}

/// Which of the arguments only say where something is written: the object, if the dependency file does not name it, and the
/// dependency file.
fn without_effect(compile: &Compile) -> Vec<usize> {
    let is_output_named = compile.dependencies.wanted && !compile.dependencies.names_target;
    let words = compile.words.iter().filter(|word| match word.meaning {
        Meaning::Output => !is_output_named,
        Meaning::Dependencies => word.option.as_bytes().starts_with(b"-MF"),
        _ => false,
    });
    words
        .flat_map(|word| word.position..=word.position + word.arguments.len())
        .collect()
}

/// The name of the working directory that compilers take from the environment, if it is one.
pub fn logical_directory() -> Vec<u8> {
    let id = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    match env::var_os("PWD") {
        Some(name)
            if name.as_bytes().starts_with(b"/") && id(Path::new(&name)) == id(Path::new(".")) =>
        {
            name.into_vec()
        }
        _ => Vec::new(),
    }
}

/// What `=native` depends on.
pub fn processor() -> Vec<u8> {
    const NAMES: [&[u8]; 6] = [
        b"vendor_id",
        b"cpu family",
        b"model",
        b"stepping",
        b"cache size",
        b"flags",
    ];
    let text = fs::read("/proc/cpuinfo").unwrap_or_default();
    let first = text
        .split(|byte| *byte == b'\n')
        .take_while(|line| !line.is_empty());
    let lines = first.filter(|line| NAMES.iter().any(|name| line.starts_with(name)));
    lines.collect::<Vec<_>>().join(&b'\n')
}
