//! What a compiler says of itself: of which files it consists, and where it looks for headers.
//!
//! It is asked once for each set of options that the answer may depend on, and the answer is kept in a file. An answer is right
//! while all files and directories that it was made of are as they were (size, both times, inode), which is looked up each time.

use super::driver::{self, Searched};
use super::inputs::{self, Inputs, State};
use super::parts::{Parts, state_of};
use super::places::is_absence;
use crate::cc::classify::{Language, Word};
use crate::cc::compiler::{Compiler, Family, Program};
use crate::cc::options::Meaning;
use format_spec::digest::Digest;
use memchr::memmem;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use store::guard::Temporary;

const VERSION: &str = "repo-cc answer 2";

/// What a compiler has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// A digest of the bytes of all files that the compiler consists of.
    pub identity: Digest,
    /// These files, and directories in which others of them would be; with their states.
    parts: Vec<(PathBuf, State)>,
    /// The directories that are searched: first those for `"…"` only, then those for `<…>` too.
    pub search: Vec<Vec<u8>>,
    /// How many of them are for `"…"` only.
    pub quoted: usize,
    /// Places at which there is nothing, and which would count if there were something: directories that would be searched,
    /// too, and parts of the compiler that would be found earlier.
    missing: Vec<PathBuf>,
    /// What was to be searched for headers and is a file: the compiler warns of it.
    pub files: Vec<Vec<u8>>,
    /// Device and inode of the directories that are searched: two names of one are searched once.
    ids: Vec<(u64, u64)>,
}

/// The question.
pub struct Question<'a> {
    pub program: &'a Program,
    pub compiler: &'a Compiler,
    pub language: Language,
    pub words: &'a [Word],
    /// What of the environment matters, with its values.
    pub environment: &'a [(&'static str, OsString)],
    /// The working directory.
    pub directory: &'a Path,
}

impl Question<'_> {
    /// The options that the answer may depend on.
    fn options(&self) -> Vec<&OsStr> {
        let matters = |word: &&Word| {
            let text = word.option.as_bytes();
            match word.meaning {
                Meaning::Directory => true,
                Meaning::Code => {
                    let is_only_code = [
                        &b"-f"[..],
                        b"-O",
                        b"-g",
                        b"-Wa,",
                        b"--param",
                        b"-x",
                        b"--language",
                    ];
                    !is_only_code
                        .iter()
                        .any(|beginning| text.starts_with(beginning))
                        || text.starts_with(b"-fno-integrated-as")
                        || text.starts_with(b"-fintegrated-as")
                }
                _ => false,
            }
        };
        let words = self.words.iter().filter(matters);
        words
            .flat_map(|word| std::iter::once(&word.option).chain(&word.arguments))
            .map(OsString::as_os_str)
            .collect()
    }

    fn language(&self) -> &'static str {
        match self.language {
            Language::Cxx => "c++",
            Language::Assembly => "assembler-with-cpp",
            Language::RawAssembly => "assembler",
            Language::C | Language::Other => "c",
        }
    }

    /// The name of the file with the answer.
    fn file_name(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        add(VERSION.as_bytes());
        add(self.program.path.as_os_str().as_bytes());
        add(self.program.argv0.as_bytes());
        add(self.language().as_bytes());
        add(self.directory.as_os_str().as_bytes());
        for word in self.options() {
            add(word.as_bytes());
        }
        for (name, value) in self.environment {
            add(name.as_bytes());
            add(value.as_bytes());
        }
        for name in ["PATH", "HOME", "LPATH"] {
            add(env::var_os(name).unwrap_or_default().as_bytes());
        }
        format!("compiler-{}", &hasher.finalize().to_hex()[..32])
    }

    /// The answer: the one that was given before, if it is still right, or a new one.
    ///
    /// # Errors
    /// In words, why there is none.
    pub fn answer(
        &self,
        directory: Option<&Path>,
        inputs: &Inputs,
    ) -> Result<Answer, &'static str> {
        let file = directory.map(|directory| directory.join(self.file_name()));
        if let Some(answer) = file.as_deref().and_then(Answer::read) {
            return Ok(answer);
        }
        let answer = self.ask(inputs)?;
        if let Some(file) = file {
            answer.write(&file);
        }
        Ok(answer)
    }

    /// A command of the compiler whose words are not translated.
    fn command(&self, options: &[&OsStr]) -> Command {
        let mut command = Command::new(&self.program.path);
        std::os::unix::process::CommandExt::arg0(&mut command, &self.program.argv0);
        command
            .args(options)
            .env("LC_ALL", "C")
            .env_remove("LANGUAGE")
            .stdin(Stdio::null());
        command
    }

    fn ask(&self, inputs: &Inputs) -> Result<Answer, &'static str> {
        const SILENT: &str = "the compiler does not say where it looks for headers";
        let options = self.options();
        let mut parts = Parts::new(inputs);
        // A script may do anything when it is asked; so it is not.
        parts.program(&self.program.path)?;
        let mut command = self.command(&options);
        command.args([
            "-E",
            "-v",
            "-x",
            self.language(),
            "/dev/null",
            "-o",
            "/dev/null",
        ]);
        let output = command.output().map_err(|_| SILENT)?;
        if !output.status.success() {
            return Err(SILENT);
        }
        let mut answer = Answer::empty();
        let said = answer.read_search(&output.stderr, self.language)?;
        for program in &said.programs {
            parts.program(program)?;
        }
        match self.compiler.family {
            Family::Clang => {
                if options.iter().any(|it| *it == "-fno-integrated-as") {
                    return Err("clang with another assembler than its own");
                }
                driver::add_of_clang(&self.program.path, &options, &mut parts)?;
            }
            Family::Gcc => self.ask_driver(&options, &said.programs, &mut parts)?,
        }
        for directory in said.directories {
            parts.state(&directory);
        }
        for directory in &said.not_searched {
            if directory.is_dir() {
                return Err("a directory of headers came just now");
            }
            parts.perhaps(directory)?;
        }
        for directory in &answer.search {
            answer.ids.push(id_of(directory).ok_or(SILENT)?);
        }
        (answer.identity, answer.parts, answer.missing) = parts.finish();
        Ok(answer)
    }

    /// Asks a driver of gcc for its programs, and where it looks for them.
    fn ask_driver(
        &self,
        options: &[&OsStr],
        programs: &[PathBuf],
        parts: &mut Parts<'_>,
    ) -> Result<(), &'static str> {
        const NONE: &str = "the compiler does not say what its assembler is";
        let print = |what: &str| {
            let mut command = self.command(options);
            let output = command.arg(what).output().map_err(|_| NONE)?;
            Ok::<_, &'static str>(output.stdout)
        };
        let searched = Searched::read(&print("-print-search-dirs")?)?;
        searched.add(programs, parts)?;
        let name = driver::printed(&print("-print-prog-name=as")?).ok_or(NONE)?;
        let assembler = searched.assembler(&name, parts)?;
        parts.program(&assembler)?;
        // It is asked what it reads, by an option that others do not have.
        let mut version = Command::new(&assembler);
        let version = version.arg("--version").stdin(Stdio::null()).output();
        match version
            .map_err(|_| NONE)?
            .stdout
            .starts_with(b"GNU assembler")
        {
            true => Ok(()),
            false => Err("an assembler that is not GNU's"),
        }
    }
}

/// What else is in what a compiler has said.
#[derive(Default)]
struct Said {
    programs: Vec<PathBuf>,
    directories: Vec<PathBuf>,
    /// What was to be searched for headers, and is no directory.
    not_searched: Vec<PathBuf>,
}

impl Answer {
    fn empty() -> Answer {
        Answer {
            identity: Digest([0; 32]),
            parts: Vec::new(),
            search: Vec::new(),
            quoted: 0,
            missing: Vec::new(),
            files: Vec::new(),
            ids: Vec::new(),
        }
    }

    /// Reads what `-v` has written.
    fn read_search(&mut self, text: &[u8], language: Language) -> Result<Said, &'static str> {
        const STRANGE: &str = "the compiler says what is not understood here";
        let mut said = Said::default();
        // Before the lists, in that of "…", in that of <…>, behind them.
        let mut state = 0;
        for line in text.split(|byte| *byte == b'\n') {
            let in_quotes = |prefix: &str| {
                let rest = line.strip_prefix(prefix.as_bytes())?;
                rest.strip_suffix(b"\"")
            };
            if line == b"#include \"...\" search starts here:" {
                state = 1;
            } else if line == b"#include <...> search starts here:" {
                state = 2;
            } else if line == b"End of search list." {
                state = 3;
            } else if state == 1 || state == 2 {
                let directory = line.strip_prefix(b" ").ok_or(STRANGE)?;
                if directory.ends_with(b" (framework directory)")
                    || directory.ends_with(b" (headermap)")
                {
                    return Err("frameworks");
                }
                if directory.contains(&0) || self.search.len() == 250 {
                    return Err(STRANGE);
                }
                self.quoted += usize::from(state == 1);
                self.search.push(directory.to_vec());
            } else if let Some(directory) = in_quotes("ignoring nonexistent directory \"") {
                said.not_searched.push(inputs::path(directory).to_owned());
            } else if let Some((start, file)) = line
                .strip_suffix(b": not a directory")
                .and_then(|rest| Some(rest.split_at(memmem::find(rest, b": warning: ")? + 11)))
                && start.starts_with(b"cc1")
            {
                said.not_searched.push(inputs::path(file).to_owned());
                self.files.push(file.to_vec());
            } else if let Some(directory) = in_quotes("ignoring duplicate directory \"") {
                // Elsewhere tomorrow, if a link is another one.
                let path = inputs::path(directory);
                let plain = std::path::absolute(path).map_err(|_| STRANGE)?;
                if fs::canonicalize(path).ok() != Some(without_dots(&plain)) {
                    return Err("a directory of headers that is named twice, once by a link");
                }
            } else if line.starts_with(b"Configuration file:") {
                return Err("clang reads a configuration file");
            } else if line.starts_with(b"Reading specs from") {
                return Err("gcc reads specs");
            } else if let Some(installation) = line.strip_prefix(b"Selected GCC installation: ") {
                // clang takes the newest gcc that there is.
                let above = inputs::path(installation).parent();
                said.directories.extend(above.map(Path::to_owned));
                said.directories
                    .extend(above.and_then(Path::parent).map(Path::to_owned));
            } else if let Some(command) = line.strip_prefix(b" ")
                && state == 0
            {
                // The compiler proper.
                let program = match command.strip_prefix(b"\"") {
                    Some(quoted) => quoted.split(|byte| *byte == b'"').next(),
                    None => command.split(|byte| *byte == b' ').next(),
                };
                let program = program.map(inputs::path).filter(|path| path.is_absolute());
                if let Some(program) = program
                    && program.is_file()
                    && !said.programs.iter().any(|known| known == program)
                {
                    said.programs.push(program.to_owned());
                    // Where specs and configuration files would be.
                    said.directories
                        .extend(program.parent().map(Path::to_owned));
                }
            }
        }
        if said.programs.is_empty() && language != Language::RawAssembly {
            return Err(STRANGE);
        }
        if state != 3 && language != Language::RawAssembly {
            return Err(STRANGE);
        }
        Ok(said)
    }

    /// Reads an answer; `None` if there is none in the file, or it is not right any more.
    fn read(file: &Path) -> Option<Answer> {
        let text = fs::read(file).ok()?;
        let mut lines = text.split(|byte| *byte == b'\n');
        if lines.next()? != VERSION.as_bytes() {
            return None;
        }
        let mut answer = Answer::empty();
        for line in lines {
            let (kind, rest) = line.split_at_checked(2)?;
            match kind {
                b"i " => {
                    let hex = std::str::from_utf8(rest).ok()?;
                    answer.identity = Digest(*blake3::Hash::from_hex(hex).ok()?.as_bytes());
                }
                b"p " => {
                    let (state, path) = rest.split_at_checked(81)?;
                    let path = inputs::path(path).to_owned();
                    let found = state_of(&path)?;
                    if state != hex_of(&found).as_bytes() {
                        return None;
                    }
                    answer.parts.push((path, found));
                }
                b"q " | b"a " => {
                    let (id, directory) = rest.split_at_checked(34)?;
                    let found = id_of(directory)?;
                    if id != hex_of_id(found).as_bytes() {
                        return None;
                    }
                    answer.ids.push(found);
                    answer.search.push(directory.to_vec());
                    answer.quoted += usize::from(kind == b"q ");
                }
                b"f " => answer.files.push(rest.to_vec()),
                b"m " => {
                    let place = inputs::path(rest);
                    // What is there by now counts.
                    if !fs::symlink_metadata(place).is_err_and(|error| is_absence(&error)) {
                        return None;
                    }
                    answer.missing.push(place.to_owned());
                }
                b"e " => {
                    return Some(answer);
                }
                _ => return None,
            }
        }
        None
    }

    fn write(&self, file: &Path) {
        let mut text = format!(
            "{VERSION}\ni {}\n",
            blake3::Hash::from(self.identity.0).to_hex()
        )
        .into_bytes();
        let mut line = |kind: &[u8; 2], parts: &[&[u8]]| {
            text.extend_from_slice(kind);
            parts.iter().for_each(|part| text.extend_from_slice(part));
            text.push(b'\n');
        };
        for (path, state) in &self.parts {
            line(
                b"p ",
                &[hex_of(state).as_bytes(), path.as_os_str().as_bytes()],
            );
        }
        for (number, (directory, id)) in self.search.iter().zip(&self.ids).enumerate() {
            line(
                if number < self.quoted { b"q " } else { b"a " },
                &[hex_of_id(*id).as_bytes(), directory],
            );
        }
        for file in &self.files {
            line(b"f ", &[file]);
        }
        for place in &self.missing {
            line(b"m ", &[place.as_os_str().as_bytes()]);
        }
        line(b"e ", &[]);
        // Without it the compiler is asked again.
        let write = || -> std::io::Result<()> {
            let (temporary, mut to) = Temporary::create(".repo-cc-", file, 0o600)?;
            to.write_all(&text)?;
            temporary.rename(file)
        };
        let _ = write();
        if let Some(directory) = file.parent() {
            sweep(directory, MOST_ANSWERS);
        }
    }
}

/// More answers are not kept.
const MOST_ANSWERS: usize = 1000;

/// Beginnings of names: of answers, of dependency files that a killed process has left, and of what was said of definitions.
const SWEPT: [&[u8]; 4] = [
    b"compiler-",
    b"inputs-of-",
    b"assembled-of-",
    crate::cc::pruning::explain::NAME.as_bytes(),
];

/// Removes the older half of what is in a directory of ours, if that is more than `most`. What was needed is made again.
fn sweep(directory: &Path, most: usize) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let is_swept = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        SWEPT.iter().any(|start| name.as_bytes().starts_with(start))
    };
    let found: Vec<_> = entries.flatten().filter(is_swept).collect();
    if found.len() <= most {
        return;
    }
    let modified = |entry: &fs::DirEntry| entry.metadata()?.modified();
    let mut by_age: Vec<_> = (found.iter())
        .filter_map(|entry| Some((modified(entry).ok()?, entry.path())))
        .collect();
    by_age.sort();
    for (_, path) in by_age.iter().take(by_age.len() / 2) {
        let _ = fs::remove_file(path);
    }
}

/// 81 characters: the state, and a blank.
fn hex_of(state: &State) -> String {
    let mut text: String = state
        .words()
        .iter()
        .map(|word| format!("{word:016x}"))
        .collect();
    text.push(' ');
    text
}

/// Device and inode of a directory.
fn id_of(directory: &[u8]) -> Option<(u64, u64)> {
    let found = fs::metadata(inputs::path(directory)).ok()?;
    found.is_dir().then(|| (found.dev(), found.ino()))
}

/// 34 characters: device and inode, and a blank behind each.
fn hex_of_id((device, inode): (u64, u64)) -> String {
    format!("{device:016x} {inode:016x} ")
}

/// A path without `.` and `..`, as far as that can be told from its words.
fn without_dots(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                out.pop();
            }
            std::path::Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn old_answers_are_swept() {
        let dir = tempfile::tempdir().expect("a directory");
        for number in 0..10_u64 {
            let path = dir.path().join(format!("compiler-{number}"));
            let file = fs::File::create(path).expect("made");
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + number);
            file.set_modified(time).expect("set");
        }
        fs::write(dir.path().join("inputs-1"), "").expect("made");
        sweep(dir.path(), 10);
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 11);
        sweep(dir.path(), 9);
        let left = |name: &str| dir.path().join(name).exists();
        assert!(left("inputs-1") && left("compiler-5") && left("compiler-9"));
        assert!(!left("compiler-0") && !left("compiler-4"));
    }
}
