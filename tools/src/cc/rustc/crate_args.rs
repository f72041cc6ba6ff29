//! What a command line of rustc asks for, as far as what it makes can be known: a library, of inputs that rustc names itself.
//!
//! What is not understood is a reason to do nothing: rustc runs as it was asked. These are the command lines of cargo, and those of other
//! tools that are like them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A library that is to be compiled.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// Its root.
    pub source: OsString,
    /// Where what is made of it is written, as it was given.
    pub directory: OsString,
    /// Names of the files that are written there.
    pub outputs: Vec<OsString>,
    /// The one that names the inputs.
    pub dependency_file: OsString,
    /// Libraries that it uses, with the names by which it knows them.
    pub externs: Vec<(OsString, PathBuf)>,
    /// Where libraries are that those use.
    pub dependencies: Vec<PathBuf>,
    /// All else that decides what is made.
    pub words: Vec<OsString>,
}

/// Nothing is compiled.
pub const QUESTION: &str = "asks about rustc";

const UNKNOWN: &str = "an option of rustc that is not known here";

/// Options with a value, joined by `=` or in the next word, that are of the key as they are.
const WITH_VALUE: &[&str] = &[
    "--cap-lints",
    "--cfg",
    "--check-cfg",
    "--color",
    "--deny",
    "--diagnostic-width",
    "--edition",
    "--error-format",
    "--forbid",
    "--force-warn",
    "--json",
    "--remap-path-prefix",
    "--allow",
    "--warn",
];

/// What `-C` may say without other files being read or written, or other programs run.
const CODEGEN: &[&str] = &[
    "code-model",
    "codegen-units",
    "collapse-macro-debuginfo",
    "control-flow-guard",
    "debug-assertions",
    "debuginfo",
    "default-linker-libraries",
    "embed-bitcode",
    "extra-filename",
    "force-frame-pointers",
    "force-unwind-tables",
    "inline-threshold",
    "instrument-coverage",
    "link-dead-code",
    "linker-plugin-lto",
    "lto",
    "metadata",
    "no-prepopulate-passes",
    "no-redzone",
    "no-vectorize-loops",
    "no-vectorize-slp",
    "opt-level",
    "overflow-checks",
    "panic",
    "passes",
    "prefer-dynamic",
    "relocation-model",
    "relro-level",
    "rpath",
    "soft-float",
    "split-debuginfo",
    "strip",
    "symbol-mangling-version",
    "target-cpu",
    "target-feature",
    "tune-cpu",
];

/// What `-C` says of the link, which libraries do not have.
const OF_LINKS: &[&str] = &["link-arg", "link-args", "linker", "linker-flavor"];

/// Reads a command line of rustc, without the program.
///
/// # Errors
/// In words, why rustc is just to be run.
pub fn read(args: &[OsString]) -> Result<Library, &'static str> {
    let mut library = Library::default();
    let mut name = None;
    let mut extra = Vec::new();
    let (mut emits, mut directory) = (Vec::new(), None);
    let mut makes_library = false;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let bytes = arg.as_bytes();
        if bytes == b"-" {
            // So cargo asks.
            return Err(QUESTION);
        }
        if bytes.first() == Some(&b'@') {
            return Err("a command line in a file");
        }
        if bytes.first() != Some(&b'-') {
            if !library.source.is_empty() {
                return Err("more than one source");
            }
            library.source.clone_from(arg);
            continue;
        }
        let split = |text: &[u8]| -> (OsString, Option<OsString>) {
            match text.iter().position(|byte| *byte == b'=') {
                Some(at) => (to_os(&text[..at]), Some(to_os(&text[at + 1..]))),
                None => (to_os(text), None),
            }
        };
        // Short options have their values joined, or in the next word.
        let (option, joined) = match bytes {
            [b'-', b'-', ..] => split(bytes),
            [b'-', letter, value @ ..] => {
                let value = (!value.is_empty()).then(|| to_os(value));
                (to_os(&[b'-', *letter]), value)
            }
            _ => return Err(UNKNOWN),
        };
        let option = option.to_str().ok_or(UNKNOWN)?.to_owned();
        if matches!(option.as_str(), "-O" | "-g") && joined.is_none() {
            library.words.push(arg.clone());
            continue;
        }
        match option.as_str() {
            "--test" => return Err("a test, which is linked"),
            "--version" | "-V" | "-v" | "--help" | "-h" | "--print" | "--explain" => {
                return Err(QUESTION);
            }
            "-o" => return Err("an output by name"),
            "-Z" => return Err("an unstable option"),
            _ => {}
        }
        let value = match joined {
            Some(value) => value,
            None => rest.next().ok_or(UNKNOWN)?.clone(),
        };
        let mut keep = |option: &str, value: &OsStr| {
            library.words.push(option.into());
            library.words.push(value.to_owned());
        };
        match option.as_str() {
            "--crate-name" => {
                keep(&option, &value);
                name = Some(value);
            }
            "--crate-type" => {
                if value != "lib" && value != "rlib" {
                    return Err("a program, or a shared library: it is linked");
                }
                makes_library = true;
                keep(&option, &value);
            }
            "--emit" => {
                let kinds = value.as_bytes().split(|byte| *byte == b',');
                emits.extend(kinds.map(to_os));
            }
            "--out-dir" if !value.as_bytes().starts_with(b"/") => {
                return Err("a directory for the output whose name is not a whole path");
            }
            "--out-dir" => directory = Some(without_slash(&value)),
            "-L" => {
                let kind = value.as_bytes().split(|byte| *byte == b'=').next();
                match kind {
                    // What is found there is named by what the libraries say that are given.
                    Some(b"dependency") => {
                        let path = &value.as_bytes()[b"dependency=".len()..];
                        library.dependencies.push(to_os(path).into());
                    }
                    Some(b"native" | b"framework") => keep(&option, &value),
                    _ => return Err("a directory in which libraries are searched for"),
                }
            }
            "-l" => {
                let kind = value.as_bytes().split(|byte| *byte == b'=').next();
                if kind.is_some_and(|kind| kind.starts_with(b"static")) {
                    return Err("a native library becomes part of it");
                }
                keep(&option, &value);
            }
            "--extern" => match value.as_bytes().iter().position(|byte| *byte == b'=') {
                Some(at) => {
                    let (name, path) = value.as_bytes().split_at(at);
                    library
                        .externs
                        .push((to_os(name), to_os(&path[1..]).into()));
                }
                // In the compiler's own directory.
                None if value == "proc_macro" => keep(&option, &value),
                None => return Err("a library that is searched for"),
            },
            "-C" | "--codegen" => {
                let (what, setting) = split(value.as_bytes());
                let what = what.to_str().ok_or(UNKNOWN)?.to_owned();
                match what.as_str() {
                    "incremental" => return Err("incremental compilation"),
                    "extra-filename" => extra = setting.unwrap_or_default().as_bytes().to_vec(),
                    _ if OF_LINKS.contains(&what.as_str()) => continue,
                    _ if CODEGEN.contains(&what.as_str()) => {}
                    _ => return Err(UNKNOWN),
                }
                if what == "split-debuginfo" && value != "split-debuginfo=off" {
                    return Err("debug information in files of its own");
                }
                keep("-C", &value);
            }
            "--target" => {
                if value
                    .as_bytes()
                    .iter()
                    .any(|byte| matches!(byte, b'/' | b'.'))
                {
                    return Err("a target that a file describes");
                }
                keep(&option, &value);
            }
            "-A" | "-W" | "-D" | "-F" => keep(&option, &value),
            _ if WITH_VALUE.contains(&option.as_str()) => keep(&option, &value),
            _ => return Err(UNKNOWN),
        }
    }
    if library.source.is_empty() {
        return Err("no source");
    }
    if !makes_library {
        return Err("a program: it is linked");
    }
    let name = name.ok_or("a crate without a name")?;
    library.directory = directory.ok_or("no directory for what is made")?;
    emits.sort();
    emits.dedup();
    library.name_outputs(&name, &extra, &emits)?;
    library.words.extend(emits);
    Ok(library)
}

impl Library {
    /// Names what is made: `emits` are the kinds, `extra` is `-C extra-filename`.
    fn name_outputs(
        &mut self,
        name: &OsStr,
        extra: &[u8],
        emits: &[OsString],
    ) -> Result<(), &'static str> {
        // `\` and `"` are written otherwise in JSON.
        let is_plain = |byte: &u8| (0x20..0x7f).contains(byte) && !matches!(byte, b'\\' | b'"');
        let is_file_name = |text: &[u8]| !text.contains(&b'/') && text.iter().all(is_plain);
        if !self.directory.as_bytes().iter().all(is_plain)
            || self.directory.is_empty()
            || self.directory.as_bytes().ends_with(b"/")
            || !is_file_name(name.as_bytes())
            || !is_file_name(extra)
        {
            return Err("a directory or a name with unusual characters");
        }
        for emit in emits {
            let (start, end) = match emit.as_bytes() {
                b"link" => (&b"lib"[..], &b".rlib"[..]),
                b"metadata" => (&b"lib"[..], &b".rmeta"[..]),
                b"dep-info" => (&b""[..], &b".d"[..]),
                _ => return Err("an output of another kind than of libraries"),
            };
            let file = to_os(&[start, name.as_bytes(), extra, end].concat());
            if end == b".d" {
                self.dependency_file.clone_from(&file);
            }
            self.outputs.push(file);
        }
        if self.dependency_file.is_empty() || self.outputs.len() < 2 {
            return Err("no list of the inputs is asked for");
        }
        Ok(())
    }
}

/// A directory without a slash at its end: rustc puts one between it and a name, unless there is one.
fn without_slash(directory: &OsStr) -> OsString {
    let path = directory.as_bytes();
    to_os(path.strip_suffix(b"/").unwrap_or(path))
}

fn to_os(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    const CARGO: &str = "--crate-name a_b --edition=2021 src/lib.rs --error-format=json --json=artifacts \
                         --crate-type lib --emit=dep-info,metadata,link -C opt-level=3 -C embed-bitcode=no --cfg x \
                         -C metadata=123 -C extra-filename=-456 --out-dir /t/deps -L dependency=/t/deps \
                         --extern c=/t/deps/libc-1.rmeta --cap-lints allow";

    #[test]
    fn libraries_are_understood() {
        let library = read(&words(CARGO)).expect("a library");
        assert_eq!(library.source, "src/lib.rs");
        assert_eq!(library.directory, "/t/deps");
        assert_eq!(
            library.outputs,
            ["a_b-456.d", "liba_b-456.rlib", "liba_b-456.rmeta"]
        );
        assert_eq!(library.dependency_file, "a_b-456.d");
        assert_eq!(
            library.externs,
            [("c".into(), "/t/deps/libc-1.rmeta".into())]
        );
        assert!(
            library
                .words
                .iter()
                .all(|word| !word.as_bytes().starts_with(b"/t"))
        );
        // The same, written otherwise; and in another directory.
        let other = CARGO
            .replace("--edition=2021", "--edition 2021")
            .replace("-C opt", "-Copt")
            .replace("/t/deps", "/u");
        let other = read(&words(&other)).expect("a library");
        assert_eq!(other.words, library.words);
        let other = read(&words(&CARGO.replace("/t/deps -L", "/t/deps/ -L"))).expect("a library");
        assert_eq!(other, library);
        let other = read(&words(&CARGO.replace("opt-level=3", "opt-level=2"))).expect("a library");
        assert_ne!(other.words, library.words);
    }

    #[test]
    fn all_else_is_for_rustc() {
        for (from, to) in [
            ("src/lib.rs", "-"),
            ("src/lib.rs", "@file"),
            ("src/lib.rs", "src/lib.rs src/more.rs"),
            ("--crate-type lib", "--crate-type bin"),
            ("--crate-type lib", "--crate-type proc-macro"),
            ("--crate-type lib", "--crate-type lib --crate-type cdylib"),
            ("--crate-type lib ", ""),
            ("--emit=dep-info,metadata,link", "--emit=link"),
            ("--emit=dep-info,metadata,link", "--emit=dep-info,asm"),
            ("--emit=dep-info,metadata,link", "--emit=dep-info=x,link"),
            ("-C opt-level=3", "-C incremental=/x"),
            ("-C opt-level=3", "-C profile-use=/x"),
            ("-C opt-level=3", "-Zmir-opt-level=3"),
            ("-C opt-level=3", "--something=new"),
            ("-C opt-level=3", "-l static=x"),
            ("-C opt-level=3", "--target x/y.json"),
            ("-C opt-level=3", "--test"),
            ("--out-dir /t/deps", "-o x"),
            ("--out-dir /t/deps", "--out-dir /t/deps//"),
            ("--out-dir /t/deps", "--out-dir /"),
            ("--extern c=/t/deps/libc-1.rmeta", "--extern c"),
            ("extra-filename=-456", "extra-filename=/../x"),
        ] {
            let line = CARGO.replace(from, to);
            assert!(read(&words(&line)).is_err(), "{line}");
        }
        assert!(read(&words("-vV")).is_err());
    }
}
