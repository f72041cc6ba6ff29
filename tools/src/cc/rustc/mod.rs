//! rustc, called through us by cargo (`RUSTC_WRAPPER=repo-cc`): a library that was made of the same before is written, and rustc not run.
//!
//! ```text
//! crate_args ─▶ key ─▶ hit ─┬─▶ .rlib, .rmeta, .d and what rustc said, from the repository
//!   a library?              └─▶ rustc ─▶ record: its inputs and variables, by its own list (--emit=dep-info)
//! ```
//!
//! The key has the compiler, the command line without the directories of the build, the digests of the libraries that are given, and what
//! cargo says of the package in the environment. What is made has no path of the build's directory in it, so builds in other directories
//! share what comes from a registry. Programs and all else that is linked, build scripts, tests and incremental compiles are for rustc.

mod crate_args;
pub(super) mod sources;

use super::compiler::is_rustc;
use super::import::Importer;
use super::invocation::{Asked, Invocation};
use super::memo::checker::Checker;
use super::memo::counts::{self, Counts};
use super::memo::inputs::{self, Inputs};
use super::memo::{bundle, depfile, explain, key, shared};
use super::run::{self, Captured, Ending, HeldSignals};
use super::{memo, publish, switches};
use crate_args::Library;
use format_spec::digest::Digest;
use format_spec::kinds::Condition;
use memchr::memmem;
use std::convert::Infallible;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use store::program::manifest::{NewResult, record_result, record_use};

const VERSION: &[u8] = b"repo-cc rustc 1";

/// Stands in what is kept of texts for the directory that outputs are written into.
const MARK: u8 = 1;

/// Larger outputs are not kept.
const MOST_BYTES: u64 = 256 << 20;

/// Variables that a procedural macro may look at, or rustc itself.
fn is_heeded(name: &[u8]) -> bool {
    let beginnings = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CFG_"];
    let names = [
        "CARGO_CRATE_NAME",
        "OUT_DIR",
        "RUSTC_BOOTSTRAP",
        "SOURCE_DATE_EPOCH",
    ];
    names.iter().any(|it| name == it.as_bytes())
        || beginnings.iter().any(|it| name.starts_with(it.as_bytes()))
}

/// Runs rustc, or does what it would.
///
/// # Errors
/// If it cannot be run: an exit code, and words.
pub fn compile(invocation: &Invocation, asked: &Asked<'_>) -> Result<Infallible, (u8, String)> {
    if !switches::is_on() {
        return invocation.exec(&invocation.args);
    }
    let mut importer = Importer::new(asked);
    let known = match Known::begin(invocation, asked) {
        Ok(known) => known,
        Err(reason) => {
            let shown = invocation.shown();
            (asked.log).decide(format_args!("{shown}: ordinary: {reason}"));
            if reason != crate_args::QUESTION {
                memo::count_ordinary(&mut importer, Path::new("x"), reason);
            }
            return invocation.exec(&invocation.args);
        }
    };
    if known.hit(&mut importer).is_some() {
        run::end_like(Ending::Exit(0));
    }
    let Ok(mut captured) = Captured::new() else {
        return invocation.exec(&invocation.args);
    };
    let program = &invocation.program;
    let ending = run::run(
        &program.path,
        &program.argv0,
        &invocation.args,
        Some(&mut captured),
    );
    let ending = ending.map_err(|error| invocation.cannot_run(error))?;
    if ending == Ending::Exit(0) && !switches::is_read_only() {
        known.record(&mut importer, captured);
    }
    run::end_like(ending)
}

/// A library of which it may be known what is made.
struct Known<'a> {
    asked: &'a Asked<'a>,
    library: Library,
    /// The digests of the libraries that are given.
    externs: Vec<Digest>,
    parts: Vec<Vec<u8>>,
    key: Digest,
    own: PathBuf,
    inputs: Inputs,
    start: u64,
    /// Where the list of the inputs is written, absolute.
    target: PathBuf,
}

/// What is written.
struct Found {
    files: Vec<(Vec<u8>, Vec<u8>)>,
    diagnostics: Vec<u8>,
}

impl<'a> Known<'a> {
    fn begin(invocation: &'a Invocation, asked: &'a Asked<'a>) -> Result<Known<'a>, &'static str> {
        let start = inputs::now();
        let library = crate_args::read(&invocation.args)?;
        let own = shared::directory().map_err(|_| "no directory for what is known of inputs")?;
        let inputs = Inputs::open(Some(&own));
        let directory = env::current_dir().map_err(|_| "no working directory")?;
        let target = fs::canonicalize(&library.directory)
            .map_err(|_| "no directory for what is made")?
            .join(&library.dependency_file);
        let mut parts = vec![
            VERSION.to_vec(),
            identity(&invocation.program.path, &inputs)?.0.to_vec(),
            directory.into_os_string().into_vec(),
            library.source.as_bytes().to_vec(),
            key::terminal_in_words(),
        ];
        let is_native = |word: &OsString| word.as_bytes().ends_with(b"=native");
        if library.words.iter().any(is_native) {
            parts.push(key::processor());
        }
        let mut variables: Vec<_> = env::vars_os()
            .filter(|(name, _)| is_heeded(name.as_bytes()))
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
            .collect();
        variables.sort();
        parts.extend(variables);
        let mut externs = Vec::with_capacity(library.externs.len());
        for (name, path) in &library.externs {
            let found = fs::metadata(path).map_err(|_| "a library is not there")?;
            let digest = inputs
                .file(path, &found)
                .ok_or("a library cannot be read")?;
            externs.push(digest);
            let file = path.file_name().unwrap_or_default();
            let text = [
                b"extern ",
                name.as_bytes(),
                b"=",
                file.as_bytes(),
                b" ",
                &digest.0,
            ];
            parts.push(text.concat());
        }
        parts.push(b"--".to_vec());
        parts.extend(library.words.iter().map(|word| word.as_bytes().to_vec()));
        if runs_macros(&library) {
            return Err("procedural macros may read what nobody tells");
        }
        let key = key::digest(&parts);
        Ok(Known {
            asked,
            library,
            externs,
            parts,
            key,
            own,
            inputs,
            start,
            target,
        })
    }

    fn say(&self, line: std::fmt::Arguments<'_>) {
        let output = Path::new(&self.library.dependency_file).with_extension("");
        (self.asked.log).explain(format_args!("{}: {line}", output.display()));
    }

    fn hit(&self, importer: &mut Importer<'_>) -> Option<()> {
        let Some(repository) = importer.existing(&self.target) else {
            self.say(format_args!("miss: there is no repository"));
            return None;
        };
        let counts = Counts::open(Some(&self.own), repository.uuid());
        let found = match self.look_up(repository) {
            Ok(found) => found,
            Err((name, why)) => {
                counts.add(name, 1);
                self.say(format_args!("miss: {why}"));
                return None;
            }
        };
        {
            let programs = repository.programs().ok()?;
            let manifest = programs.manifest(&self.key).ok()??;
            record_use(&programs, &manifest, None).ok()?;
        }
        let _held = HeldSignals::ending();
        for (name, bytes) in &found.files {
            let path = self.target.with_file_name(OsStr::from_bytes(name));
            let is_text = name.ends_with(b".d");
            let bytes = if is_text {
                self.unmarked(bytes)
            } else {
                bytes.clone()
            };
            publish::put(&path, &bytes).ok()?;
        }
        let _ = io::stderr().write_all(&self.unmarked(&found.diagnostics));
        counts.add(counts::HITS, 1);
        let output = Path::new(&self.library.dependency_file).with_extension("");
        let output = output.display();
        (self.asked.log).decide(format_args!("{output}: hit: the compiler is not run"));
        Some(())
    }

    fn look_up(
        &self,
        repository: &store::program::Repository,
    ) -> Result<Found, (&'static str, String)> {
        let damaged = |error: &dyn std::fmt::Display| (counts::NEW, error.to_string());
        let programs = repository.programs().map_err(|error| damaged(&error))?;
        let manifest = programs
            .manifest(&self.key)
            .map_err(|error| damaged(&error))?;
        let Some(manifest) = manifest else {
            return Err((
                counts::NEW,
                "this library was not compiled here before".to_owned(),
            ));
        };
        let mut reason = "nothing is recorded".to_owned();
        'results: for (number, result) in manifest.manifest().results.iter().enumerate() {
            let mut checker = Checker::new(&self.inputs, b"");
            for (_, name) in manifest.manifest().conditions_of(number) {
                let text = programs.name(name).map_err(|error| damaged(&error))?;
                match Condition::parse(text) {
                    Some(condition) if checker.holds(&condition) => {}
                    Some(condition) => {
                        reason = explain::broken(&condition);
                        continue 'results;
                    }
                    None => continue 'results,
                }
            }
            let captured = |place| programs.captured(&manifest, place).ok().flatten();
            let files = captured(result.files).and_then(bundle::unpack);
            let Some(files) = files else {
                continue;
            };
            let is_there =
                |output: &OsString| files.iter().any(|(name, _)| name == output.as_bytes());
            if files.len() == self.library.outputs.len()
                && self.library.outputs.iter().all(is_there)
            {
                return Ok(Found {
                    files,
                    diagnostics: captured(result.diagnostics).unwrap_or_default().to_vec(),
                });
            }
        }
        Err((counts::CHANGED, reason))
    }

    fn record(&self, importer: &mut Importer<'_>, captured: Captured) {
        let Ok(repository) = importer.repository(&self.target) else {
            return;
        };
        let counts = Counts::open(Some(&self.own), repository.uuid());
        let recorded = self.made(captured).and_then(|made| {
            let new = NewResult {
                key: &self.key,
                parts: &self.parts,
                conditions: &made.conditions,
                compilation: None,
                diagnostics: &made.diagnostics,
                is_coloured: run::terminal().is_some(),
                dependencies: None,
                files: Some(&made.files),
            };
            record_result(repository.store(), &new).map_err(|error| error.to_string())
        });
        match recorded {
            Ok(()) => {
                counts.add(counts::RECORDED, 1);
                self.say(format_args!("recorded"));
            }
            Err(reason) => {
                counts.add(&format!("{}{reason}", counts::UNRECORDED), 1);
                self.say(format_args!("not recorded: {reason}"));
            }
        }
    }

    /// What is to be recorded of what rustc has just made.
    fn made(&self, captured: Captured) -> Result<Made, String> {
        let diagnostics = captured.into_bytes().ok_or("too many diagnostics")?;
        let mut files = Vec::new();
        let mut size = 0;
        for output in &self.library.outputs {
            let path = self.target.with_file_name(output);
            let found = fs::metadata(&path).map_err(|_| "an output was not written")?;
            if !found.is_file() || inputs::changed(&found) < self.start {
                return Err("an output was not written".into());
            }
            size += found.len();
            if size > MOST_BYTES {
                return Err("what was made is too large".into());
            }
            let bytes = fs::read(&path).map_err(|_| "an output cannot be read")?;
            let bytes = match output.as_bytes().ends_with(b".d") {
                true => self.marked(&bytes)?,
                false if self.has_directory(&bytes) => {
                    return Err("the directory of the build is in what was made".into());
                }
                false => bytes,
            };
            files.push((output.as_bytes(), bytes));
        }
        let list = fs::read(&self.target).map_err(|_| "the list of inputs cannot be read")?;
        let conditions = self.conditions(&list)?;
        let files = files.iter().map(|(name, bytes)| (*name, &bytes[..]));
        Ok(Made {
            conditions,
            diagnostics: self.marked(&diagnostics)?,
            files: bundle::pack(files).map_err(|error| error.to_string())?,
        })
    }

    /// What must be so for the same to be made again.
    fn conditions(&self, list: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        const CHANGED: &str = "an input was changed just now";
        let mut conditions = Vec::new();
        for ((_, path), digest) in self.library.externs.iter().zip(&self.externs) {
            // One that was replaced meanwhile is not the one of the key. (cargo gives them other names, which is a change of another kind.)
            let found = fs::metadata(path).map_err(|_| "a library is not there")?;
            if self.inputs.file(path, &found) != Some(*digest) {
                return Err("a library was changed just now".into());
            }
            let library = fs::read(path).map_err(|_| "a library cannot be read")?;
            if sources::has_reading_macro(&library) {
                return Err(
                    "a library that may have macros for assembly, which may read files".into(),
                );
            }
        }
        let mut attributes = sources::Attributes::default();
        let named = depfile::prerequisites_of_rustc(list).ok_or("the list of inputs is none")?;
        for path in named.iter().chain([&self.library.source]) {
            let found = fs::metadata(path).map_err(|_| "an input cannot be read")?;
            if inputs::changed(&found) >= self.start {
                return Err(CHANGED.into());
            }
            let place = Path::new(path);
            let (digest, text) = self.inputs.read(place, &found).ok_or(CHANGED)?;
            if sources::has_static_library(&text) {
                return Err("a native library may become part of it".into());
            }
            attributes.read(&text);
            if sources::has_assembly(&text) {
                return Err("assembly, which may read other files".into());
            }
            conditions.push(Condition::File(digest, path.as_bytes()).encode());
            // The other place in which this module would be looked for.
            let other = match place.file_name().map(OsStr::as_bytes) {
                Some(b"mod.rs") => place.parent().map(|parent| parent.with_extension("rs")),
                Some(name) if name.ends_with(b".rs") && *path != self.library.source => {
                    Some(place.with_extension("").join("mod.rs"))
                }
                _ => None,
            };
            if let Some(other) = other.filter(|other| !other.exists()) {
                let absent = Condition::Absent(other.as_os_str().as_bytes());
                conditions.push(absent.encode());
            }
        }
        if attributes.may_be_static() {
            return Err("a macro may make a native library part of it".into());
        }
        for variable in variables(list) {
            conditions.push(Condition::Variable(&variable).encode());
        }
        Ok(conditions)
    }

    fn has_directory(&self, bytes: &[u8]) -> bool {
        memmem::find(bytes, self.library.directory.as_bytes()).is_some()
    }

    /// A text with a mark in place of the directory's path.
    fn marked(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        if text.contains(&MARK) {
            return Err("a text with unusual characters".into());
        }
        let directory = self.library.directory.as_bytes();
        if is_part_of_others(text, directory) {
            return Err("the directory of the build is a part of other paths".into());
        }
        Ok(replaced(text, directory, &[MARK]))
    }

    fn unmarked(&self, text: &[u8]) -> Vec<u8> {
        replaced(text, &[MARK], self.library.directory.as_bytes())
    }
}

/// What is recorded.
struct Made {
    conditions: Vec<Vec<u8>>,
    diagnostics: Vec<u8>,
    files: Vec<u8>,
}

/// Whether a directory's path is a part of a longer name somewhere in a text: `/t/a` in `/t/ab`, or in `/u/t/a`.
fn is_part_of_others(text: &[u8], directory: &[u8]) -> bool {
    let goes_on =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.+~@%#".contains(byte) || *byte >= 0x80;
    memmem::find_iter(text, directory).any(|at| {
        let before = at.checked_sub(1).map(|at| text[at]);
        let behind = text.get(at + directory.len());
        behind.is_some_and(goes_on) || before.as_ref().is_some_and(goes_on)
    })
}

fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for at in memmem::find_iter(text, old) {
        out.extend_from_slice(&text[from..at]);
        out.extend_from_slice(new);
        from = at + old.len();
    }
    out.extend_from_slice(&text[from..]);
    out
}

/// Whether procedural macros can run: some are given, or are where libraries look for their own.
fn runs_macros(library: &Library) -> bool {
    let is_shared = |path: &Path| path.extension() == Some(OsStr::new("so"));
    let has_shared = |directory: &PathBuf| match fs::read_dir(directory) {
        Ok(entries) => entries.flatten().any(|entry| is_shared(&entry.path())),
        Err(_) => false,
    };
    library.externs.iter().any(|(_, path)| is_shared(path))
        || library.dependencies.iter().any(has_shared)
}

/// The variables that a list of inputs names, as conditions have them: `NAME=VALUE`, or `NAME` for one that was not set.
fn variables(list: &[u8]) -> Vec<Vec<u8>> {
    let lines = list.split(|byte| *byte == b'\n');
    let texts = lines.filter_map(|line| line.strip_prefix(b"# env-dep:"));
    let plain = |text: &[u8]| {
        let mut out = Vec::with_capacity(text.len());
        let mut bytes = text.iter().copied();
        while let Some(byte) = bytes.next() {
            out.push(match byte {
                b'\\' => match bytes.next() {
                    Some(b'n') => b'\n',
                    Some(b'r') => b'\r',
                    Some(other) => other,
                    None => b'\\',
                },
                byte => byte,
            });
        }
        out
    };
    texts.map(plain).collect()
}

/// A digest of what rustc consists of: its own files, and the names of its libraries, which have digests in them.
fn identity(program: &Path, inputs: &Inputs) -> Result<Digest, &'static str> {
    const STRANGE: &str = "rustc is not in a directory as rustc's are";
    let beside = |program: &Path| -> Option<PathBuf> {
        let program = fs::canonicalize(program).ok()?;
        let root = program.parent()?.parent()?.to_owned();
        (is_rustc(program.as_os_str()) && root.join("lib/rustlib").is_dir()).then_some(root)
    };
    let mut digests = Vec::new();
    let mut add = |path: &Path| -> Option<()> {
        let found = fs::metadata(path).ok()?;
        let digest = inputs.file(path, &found)?;
        digests.extend_from_slice(&digest.0);
        Some(())
    };
    // What only finds the right one (rustup's) says which that is.
    let root = match beside(program) {
        Some(root) => root,
        None => {
            // What a script adds to a command line, and by what it decides that, is known to nobody.
            if is_script(program).ok_or(STRANGE)? {
                return Err("a script that calls rustc");
            }
            add(program).ok_or(STRANGE)?;
            let asked = Command::new(program)
                .args(["--print", "sysroot"])
                .stdin(Stdio::null())
                .output();
            let said = asked.map_err(|_| STRANGE)?.stdout;
            let root = PathBuf::from(OsStr::from_bytes(said.trim_ascii_end()));
            beside(&root.join("bin/rustc")).ok_or(STRANGE)?
        }
    };
    add(&root.join("bin/rustc")).ok_or(STRANGE)?;
    let entries = fs::read_dir(root.join("lib")).map_err(|_| STRANGE)?;
    let mut libraries: Vec<PathBuf> = (entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.is_file())
        .collect();
    libraries.sort();
    for library in libraries {
        add(&library).ok_or(STRANGE)?;
    }
    let targets = fs::read_dir(root.join("lib/rustlib")).map_err(|_| STRANGE)?;
    let mut targets: Vec<PathBuf> = targets
        .flatten()
        .map(|entry| entry.path().join("lib"))
        .collect();
    targets.sort();
    for target in targets {
        if let Ok(found) = fs::metadata(&target) {
            let listing = inputs.listing(&target, &found).ok_or(STRANGE)?;
            digests.extend_from_slice(&listing.0);
        }
    }
    Ok(Digest::of(&digests))
}

/// Whether a program is none of the machine's own.
fn is_script(program: &Path) -> Option<bool> {
    let mut start = [0; 4];
    fs::File::open(program).ok()?.read_exact(&mut start).ok()?;
    Some(start != *b"\x7fELF")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_variables() {
        let list = b"/t/a.d: src/lib.rs\n\nsrc/lib.rs:\n\n# env-dep:A=x=y\n# env-dep:B\n# env-dep:C=a\\nb\\\\\n";
        assert_eq!(variables(list), [&b"A=x=y"[..], b"B", b"C=a\nb\\"]);
    }

    #[test]
    fn directories_that_are_parts_of_other_paths_are_seen() {
        for text in ["/t/ab/x.rs", "/u/t/a", "\"/t/a-1\"", "x /t/a.d: y"] {
            assert!(is_part_of_others(text.as_bytes(), b"/t/a"), "{text}");
        }
        for text in ["/t/a/x.rs", "/t/a: /t/a\n", "\"/t/a\"", "/t/b"] {
            assert!(!is_part_of_others(text.as_bytes(), b"/t/a"), "{text}");
        }
    }

    #[test]
    fn directories_are_replaced() {
        assert_eq!(
            replaced(b"/t/a /t/b/t", b"/t", b"\x01"),
            b"\x01/a \x01/b\x01"
        );
        assert_eq!(replaced(b"", b"/t", b""), b"");
    }
}
