//! The files that a compiler consists of: its programs, the libraries that are their own, and what comes to be a part of them if it
//! comes to be.

use super::inputs::{self, Inputs, State};
use super::places::is_absence;
use format_spec::digest::Digest;
use object::Endianness;
use object::read::ReadCache;
use object::read::elf::{ElfFile64, ProgramHeader};
use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names of libraries that have no part in what a compiler makes of a source.
const PLAIN_LIBRARIES: &[&str] = &[
    "ld-linux",
    "libbsd.",
    "libc.",
    "libdl.",
    "libedit.",
    "libffi.",
    "libgcc_s.",
    "libicu",
    "liblzma.",
    "libm.",
    "libmd.",
    "libpthread.",
    "librt.",
    "libstdc++.",
    "libtinfo.",
    "libxml2.",
    "libz.",
    "libz3.",
    "libzstd.",
    "libncurses",
    "linux-vdso",
];

/// The files that a compiler consists of.
pub struct Parts<'a> {
    inputs: &'a Inputs,
    states: Vec<(PathBuf, State)>,
    missing: BTreeSet<PathBuf>,
    digests: BTreeSet<Digest>,
}

impl<'a> Parts<'a> {
    pub fn new(inputs: &'a Inputs) -> Parts<'a> {
        Parts {
            inputs,
            states: Vec::new(),
            missing: BTreeSet::new(),
            digests: BTreeSet::new(),
        }
    }

    /// A program, with the libraries that are its own.
    pub fn program(&mut self, path: &Path) -> Result<(), &'static str> {
        const UNREADABLE: &str = "a part of the compiler cannot be read";
        let mut start = [0; 4];
        let mut file = fs::File::open(path).map_err(|_| UNREADABLE)?;
        std::io::Read::read_exact(&mut file, &mut start).map_err(|_| UNREADABLE)?;
        if start != *b"\x7fELF" {
            return Err("the compiler is a script");
        }
        self.file(path).ok_or(UNREADABLE)?;
        let Some(loader) = loader_of(path).ok_or(UNREADABLE)? else {
            return Ok(());
        };
        // As ldd does it: the loader says what it would load, and runs nothing. Of other loaders that is not known.
        if !loader.ends_with(b"/ld-linux-x86-64.so.2") {
            return Err("the compiler is not for the usual C library");
        }
        let listed = Command::new(OsStr::from_bytes(&loader))
            .arg("--list")
            .arg(path)
            .stdin(Stdio::null())
            .output();
        let listed = listed.map_err(|_| UNREADABLE)?;
        for line in listed.stdout.split(|byte| *byte == b'\n') {
            let Ok(line) = std::str::from_utf8(line) else {
                continue;
            };
            let Some((name, rest)) = line.trim().split_once(" => ") else {
                continue;
            };
            let library = rest.rsplit_once(" (").map_or(rest, |(path, _)| path);
            if !PLAIN_LIBRARIES.iter().any(|plain| name.starts_with(plain)) {
                add_libraries(OsStr::new(name), self)?;
                self.file(Path::new(library)).ok_or(UNREADABLE)?;
            }
        }
        Ok(())
    }

    pub fn file(&mut self, path: &Path) -> Option<()> {
        let metadata = fs::metadata(path).ok()?;
        if path.as_os_str().as_bytes().contains(&b'\n') {
            return None;
        }
        self.digests.insert(self.inputs.file(path, &metadata)?);
        self.push(path, State::of(&metadata));
        Some(())
    }

    /// What is not there, or is there and does not count: neither may change.
    pub fn perhaps(&mut self, path: &Path) -> Result<(), &'static str> {
        const UNCLEAR: &str = "a place for parts of the compiler cannot be looked at";
        if path.as_os_str().as_bytes().contains(&b'\n') {
            return Err(UNCLEAR);
        }
        match fs::metadata(path) {
            Ok(metadata) => self.push(path, State::of(&metadata)),
            Err(error) if is_absence(&error) => {
                // A link that leads nowhere yet is looked at each time, and never the same.
                self.missing.insert(path.to_owned());
            }
            Err(_) => return Err(UNCLEAR),
        }
        Ok(())
    }

    /// What is not of the compiler, but may get something that is.
    pub fn state(&mut self, path: &Path) {
        if let Some(state) = state_of(path) {
            self.push(path, state);
        }
    }

    fn push(&mut self, path: &Path, state: State) {
        if !self.states.iter().any(|(known, _)| known == path) {
            self.states.push((path.to_owned(), state));
        }
    }

    pub fn finish(self) -> (Digest, Vec<(PathBuf, State)>, Vec<PathBuf>) {
        let all: Vec<u8> = self.digests.iter().flat_map(|digest| digest.0).collect();
        let missing = self.missing.into_iter().collect();
        (Digest::of(&all), self.states, missing)
    }
}

/// Adds the libraries of these names where the environment says that they are looked for first.
fn add_libraries(name: &OsStr, parts: &mut Parts<'_>) -> Result<(), &'static str> {
    let Some(list) = env::var_os("LD_LIBRARY_PATH") else {
        return Ok(());
    };
    for directory in list.as_bytes().split(|byte| matches!(byte, b':' | b';')) {
        parts.perhaps(&inputs::path(directory).join(name))?;
    }
    Ok(())
}

/// The state of a file, if it is there.
pub fn state_of(path: &Path) -> Option<State> {
    fs::metadata(path).ok().map(|metadata| State::of(&metadata))
}

/// The loader that a program names; `Some(None)` if it needs none.
fn loader_of(path: &Path) -> Option<Option<Vec<u8>>> {
    let cache = ReadCache::new(fs::File::open(path).ok()?);
    let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let endian = file.endian();
    for header in file.elf_program_headers() {
        if header.p_type(endian) == object::elf::PT_INTERP {
            let loader = header.data(endian, &cache).ok()?;
            return Some(Some(loader.strip_suffix(b"\0").unwrap_or(loader).to_vec()));
        }
    }
    Some(None)
}
