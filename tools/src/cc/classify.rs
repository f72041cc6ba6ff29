//! What a compiler's command line asks for.
//!
//! Three things are told apart: compiling to objects (which become tickets),
//! linking (which gets `repo-ld` as its linker), and everything else (which is
//! run as it stands). The answer need not be perfect in one direction: where
//! an output is expected that the compiler does not write, or does not write
//! as an ELF object, nothing happens to it. So whatever is doubtful is
//! [`Action::PassThrough`], with a reason for the log.

use super::compiler::{Family, is_x86_64_elf};
use super::options::{Meaning, meaning, separate_arguments};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// What to do about a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run it as it stands. The reason is for the log.
    PassThrough(&'static str),
    /// A compile whose outputs are to become tickets.
    Compile(Box<Compile>),
    /// A link.
    Link {
        /// How many of the arguments stand before a `--` that ends the options.
        end_of_options: usize,
    },
    /// A question about which linker will be used.
    AsksForLinker,
}

/// A compile, as far as its command line tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compile {
    /// The objects that the compiler is expected to write.
    pub outputs: Vec<PathBuf>,
    /// Whether to ask for a section for each definition.
    pub split_sections: bool,
    /// Whether a `-o` names the output.
    pub names_output: bool,
    /// What is compiled.
    pub sources: Vec<Source>,
    /// The dependency file that is asked for.
    pub dependencies: Dependencies,
    /// All words but the inputs, in order, response files expanded.
    pub words: Vec<Word>,
    /// Inputs that only the linker would read.
    pub for_linker: bool,
}

/// What is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// As it was given.
    pub name: OsString,
    /// Its language.
    pub language: Language,
    /// Whether a `-x` says so, and not the file's name: drivers of C++ take C for C++ then.
    pub is_given: bool,
    /// Which of the arguments it is, response files expanded.
    pub position: usize,
}

/// The languages that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cxx,
    /// Assembly that is preprocessed.
    Assembly,
    /// Assembly that is not.
    RawAssembly,
    /// Any other.
    Other,
}

/// Whether and where the compiler is to write a dependency file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// `-MD` or `-MMD`.
    pub wanted: bool,
    /// `-MMD`: without headers of the system.
    pub without_system: bool,
    /// The last `-MF`, or what stands behind `-Wp,-MD,`.
    pub file: Option<OsString>,
    /// `-MT` or `-MQ`.
    pub names_target: bool,
}

/// An option with its argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The option.
    pub option: OsString,
    /// The words that are its arguments: mostly one, or none.
    pub arguments: Vec<OsString>,
    /// What it is about.
    pub meaning: Meaning,
    /// Which of the arguments the option is, response files expanded.
    pub position: usize,
}

/// What an input is, by its language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// A source that a compiler proper turns into assembly.
    Source,
    /// Assembly, with or without preprocessing.
    Assembly,
    /// A header, to be precompiled.
    Header,
    /// For devices besides the host.
    Offload,
    /// Anything else: objects, archives, linker scripts.
    ForLinker,
}

/// Classifies the arguments of a compiler of this family. `args` does not
/// hold the compiler's name, and response files are expanded already.
pub fn classify(family: Family, args: &[OsString]) -> Action {
    let mut line = Line::default();
    if let Some(reason) = line.read(family, args) {
        return Action::PassThrough(reason);
    }
    line.action(family, args.len())
}

/// A call that compiles, and perhaps links what it compiles.
#[derive(Debug)]
pub struct Whole {
    /// Whether it does not link.
    pub compile_only: bool,
    /// The argument of `-o`.
    pub output: Option<OsString>,
    /// What is compiled.
    pub sources: Vec<Source>,
    /// What only the linker reads: files, and options for it.
    pub for_linker: Vec<OsString>,
    /// All words but the inputs.
    pub words: Vec<Word>,
    /// Why it cannot be taken apart.
    pub reason: Option<&'static str>,
}

/// Nothing is known of such a compile, and what would be written is lost.
const OVER_INPUT: &str = "the output is one of the inputs";

/// Reads a command line as [`classify`] does; `None` if it makes neither objects of sources nor a link.
pub fn whole(family: Family, args: &[OsString]) -> Option<Whole> {
    let mut line = Line::default();
    if line.read(family, args).is_some() || line.no_object.is_some() || line.assembly {
        return None;
    }
    let has = |wanted: Input| line.inputs.iter().any(|(input, _)| *input == wanted);
    let is_of_a_kind = |(language, is_given, _): &(Language, bool, usize)| {
        *language != Language::Other && !is_given
    };
    let names_outputs = line.dependencies.file.is_some() || line.dependencies.names_target;
    let is_probe = |(_, name): &(Input, OsString)| is_question(name);
    let reason = match () {
        () if line.other_machine => Some("not for x86-64"),
        () if line.asks_for_linker || line.end_of_options.is_some() => Some("-- or a question"),
        () if line.lto => Some("link-time optimization"),
        () if has(Input::Header) || has(Input::Offload) => Some("not only sources"),
        () if line.inputs.iter().any(is_probe)
            || line.output.as_deref().is_some_and(is_question) =>
        {
            Some("a question of a configure script")
        }
        () if line.inputs.iter().any(|(_, name)| name == "-") => Some("standard input"),
        () if line.writes_over_input() => Some(OVER_INPUT),
        () if !line.languages.iter().all(is_of_a_kind) => Some("neither C, C++ nor assembly"),
        () if line.compile_only && names_outputs => Some("a dependency file of several steps"),
        () if line.compile_only && line.output.is_some() => Some("an output of several steps"),
        () => None,
    };
    let (sources, for_linker) = sources(line.inputs, line.languages);
    Some(Whole {
        compile_only: line.compile_only,
        output: line.output,
        sources,
        for_linker,
        words: line.words,
        reason,
    })
}

/// The sources among the inputs, and the others.
fn sources(
    inputs: Vec<(Input, OsString)>,
    languages: Vec<(Language, bool, usize)>,
) -> (Vec<Source>, Vec<OsString>) {
    let makes_object =
        |(input, _): &(Input, OsString)| matches!(input, Input::Source | Input::Assembly);
    let (sources, others): (Vec<_>, Vec<_>) = inputs.into_iter().partition(makes_object);
    let sources = sources.into_iter().zip(languages);
    let sources = sources.map(|((_, name), (language, is_given, position))| Source {
        name,
        language,
        is_given,
        position,
    });
    let others = others.into_iter().map(|(_, name)| name);
    (sources.collect(), others.collect())
}

/// Whether a file is a question of a configure script, of CMake (the object is in `cmTC_*.dir`), or of meson: its object is read in ways
/// that no ticket allows (for strings that tell the order of bytes), thrown away, and never asked for again, as its directory has a new
/// name each time.
fn is_question(name: &OsStr) -> bool {
    let path = std::path::Path::new(name);
    let mut is_in_mesons = false;
    let is_in_questions = |directory: &OsStr| {
        let bytes = directory.as_bytes();
        let is_one_of_meson = is_in_mesons && bytes.starts_with(b"tmp");
        is_in_mesons = bytes == b"meson-private";
        is_one_of_meson || (bytes.starts_with(b"cmTC_") && bytes.ends_with(b".dir"))
    };
    path.file_stem() == Some(OsStr::new("conftest")) || path.iter().any(is_in_questions)
}

/// What has been read of a command line.
#[derive(Default)]
struct Line {
    /// `-E`, `-M`, `-fsyntax-only`, …: the compiler writes no object.
    no_object: Option<&'static str>,
    /// `-S`.
    assembly: bool,
    /// `-c`.
    compile_only: bool,
    /// The last of `-flto` and `-fno-lto`.
    lto: bool,
    /// The last of `-m32`, `-mx32` and `-m64`.
    other_machine: bool,
    /// `-print-prog-name=ld`.
    asks_for_linker: bool,
    /// The last `-o`.
    output: Option<OsString>,
    /// Inputs in order. What stands in the options for the linker counts as an
    /// input for it, as it does for the drivers.
    inputs: Vec<(Input, OsString)>,
    /// The languages of the inputs that are sources, whether a `-x` gave them, and where these stand.
    languages: Vec<(Language, bool, usize)>,
    /// What is known of the dependency file.
    dependencies: Dependencies,
    /// All words but the inputs.
    words: Vec<Word>,
    /// Position of a `--`.
    end_of_options: Option<usize>,
}

impl Line {
    /// Reads the arguments. Gives a reason at once where nothing else matters.
    fn read(&mut self, family: Family, args: &[OsString]) -> Option<&'static str> {
        // The language that the last -x gave to what follows.
        let mut language: Option<Input> = None;
        let mut name_of_language: Option<OsString> = None;
        let mut index = 0;
        while let Some(arg) = args.get(index) {
            let position = index;
            index += 1;
            let bytes = arg.as_bytes();
            if self.end_of_options.is_some() || bytes == b"-" || bytes.first() != Some(&b'-') {
                let input = language.unwrap_or_else(|| input_by_suffix(arg));
                self.inputs.push((input, arg.clone()));
                if matches!(input, Input::Source | Input::Assembly) {
                    self.languages.push(match &name_of_language {
                        Some(name) if language.is_some() => {
                            (Language::by_name(name), true, position)
                        }
                        _ => (Language::by_suffix(arg), false, position),
                    });
                }
                continue;
            }
            let text = option_name(bytes);
            let arguments: Vec<OsString> = match text.len() < bytes.len() {
                true => Vec::new(),
                false => {
                    let count = separate_arguments(family, text);
                    args.iter().skip(index).take(count).cloned().collect()
                }
            };
            let argument = arguments.first().map(|word| word.as_bytes());
            self.read_dependencies(bytes, argument);
            match (text, argument) {
                ("-x" | "--language", Some(name)) => {
                    name_of_language = Some(OsString::from_vec(name.to_vec()));
                }
                _ => {
                    let joined = ["--language=", "-x"]
                        .into_iter()
                        .find_map(|option| bytes.strip_prefix(option.as_bytes()));
                    if let Some(name) = joined {
                        name_of_language = Some(OsString::from_vec(name.to_vec()));
                    }
                }
            }
            if bytes != b"--" {
                self.words.push(Word {
                    meaning: meaning(bytes, argument),
                    option: arg.clone(),
                    arguments,
                    position,
                });
            }
            if text.len() < bytes.len() {
                // More follows, so its argument is joined to it.
                if let Some(reason) = self.read_joined(text, bytes, &mut language) {
                    return Some(reason);
                }
                continue;
            }
            let value = args.get(index).map(OsString::as_os_str);
            index += separate_arguments(family, text);
            match text {
                "--" if family == Family::Clang => self.end_of_options = Some(position),
                "-###" => return Some("only shows what would be run"),
                "-cc1" | "-cc1as" | "-cc1gen-reproducer" if position == 0 => {
                    return Some("not a driver's command line");
                }
                "-E" | "--preprocess" | "-M" | "-MM" | "--dependencies" | "--user-dependencies" => {
                    self.no_object = Some("preprocesses only");
                }
                "-fsyntax-only"
                | "--analyze"
                | "--precompile"
                | "-emit-ast"
                | "-verify-pch"
                | "-module-file-info"
                | "-rewrite-objc"
                | "-extract-api"
                | "-emit-interface-stubs"
                | "-fdriver-only" => self.no_object = Some("makes no object"),
                "-emit-llvm" => self.no_object = Some("makes LLVM bitcode"),
                "-S" | "--assemble" => self.assembly = true,
                "-c" | "--compile" => self.compile_only = true,
                "-flto" => self.lto = true,
                "-fno-lto" => self.lto = false,
                "-m32" | "-mx32" | "-m16" => self.other_machine = true,
                "-m64" => self.other_machine = false,
                "-target" => self.set_target(value),
                "-o" | "--output" => self.output = value.map(OsStr::to_owned),
                "-x" | "--language" => language = value.and_then(input_by_language),
                "-l" | "-Xlinker" | "--for-linker" => {
                    self.inputs.push((Input::ForLinker, arg.clone()));
                }
                "--print-prog-name" => self.asks_for_linker = value.is_some_and(is_linker),
                "-working-directory" => return Some("works in another directory"),
                "--help" | "--target-help" | "--version" | "-dumpmachine" | "-dumpversion"
                | "-dumpfullversion" | "-dumpspecs" => return Some("asks about the compiler"),
                _ => {
                    if let Some(reason) = self.read_joined(text, bytes, &mut language) {
                        return Some(reason);
                    }
                }
            }
        }
        None
    }

    /// Reads what an option says about the dependency file.
    fn read_dependencies(&mut self, option: &[u8], argument: Option<&[u8]>) {
        let known = &mut self.dependencies;
        let file = |bytes: &[u8]| Some(OsString::from_vec(bytes.to_vec()));
        match option {
            b"-MD" | b"--write-dependencies" => known.wanted = true,
            b"-MMD" | b"--write-user-dependencies" => {
                known.wanted = true;
                known.without_system = true;
            }
            b"-MF" => known.file = argument.and_then(file),
            [b'-', b'M', b'F', rest @ ..] => known.file = file(rest),
            [b'-', b'M', b'T' | b'Q', ..] => known.names_target = true,
            _ => {
                for (prefix, without_system) in [("-Wp,-MD,", false), ("-Wp,-MMD,", true)] {
                    if let Some(rest) = option.strip_prefix(prefix.as_bytes()) {
                        known.wanted = true;
                        known.without_system |= without_system;
                        known.file = file(rest);
                    }
                }
            }
        }
    }

    /// Reads an option whose argument, if any, is joined to it. `text` is its
    /// name as far as `option_name` tells, `bytes` the whole of it.
    fn read_joined(
        &mut self,
        text: &str,
        bytes: &[u8],
        language: &mut Option<Input>,
    ) -> Option<&'static str> {
        let joined = |prefix: &str| {
            bytes
                .strip_prefix(prefix.as_bytes())
                .map(|rest| OsString::from_vec(rest.to_vec()))
        };
        if text.starts_with("--help=") || text.starts_with("--autocomplete=") {
            return Some("asks about the compiler");
        }
        if let Some(rest) = joined("-print-prog-name=").or_else(|| joined("--print-prog-name=")) {
            self.asks_for_linker = is_linker(&rest);
            if !self.asks_for_linker {
                return Some("asks about the compiler");
            }
        } else if text.starts_with("-print-") || text.starts_with("--print-") {
            return Some("asks about the compiler");
        } else if text.starts_with("--driver-mode=") {
            if !matches!(text, "--driver-mode=gcc" | "--driver-mode=g++") {
                return Some("not a driver of C or C++ on ELF");
            }
        } else if text.starts_with("-working-directory=") {
            return Some("works in another directory");
        } else if text.starts_with("-fopenmp-targets=")
            || text.starts_with("--offload-arch=")
            || text.starts_with("--offload=")
            || text.starts_with("--cuda-")
            || text.starts_with("-foffload=")
        {
            return Some("makes code for devices");
        } else if text.starts_with("-flto=") {
            self.lto = true;
        } else if let Some(target) = joined("--target=") {
            self.set_target(Some(&target));
        } else if let Some(output) = joined("--output=") {
            self.output = Some(output);
        } else if let Some(name) = joined("--language=") {
            *language = input_by_language(&name);
        } else if let Some(name) = joined("-x") {
            *language = input_by_language(&name);
        } else if let Some(output) = joined("-o") {
            // Other options of clang begin with these letters.
            if !text.starts_with("-objcmt-") && !text.starts_with("-object") {
                self.output = Some(output);
            }
        } else if text.starts_with("-l") || text.starts_with("-Wl,") {
            self.inputs
                .push((Input::ForLinker, OsString::from_vec(bytes.to_vec())));
        }
        None
    }

    /// Notes a target triple.
    fn set_target(&mut self, triple: Option<&OsStr>) {
        self.other_machine = !triple.is_some_and(|triple| {
            let triple = triple.to_string_lossy();
            (triple.starts_with("x86_64") || triple.starts_with("amd64")) && is_x86_64_elf(&triple)
        });
    }

    /// Whether the output is one of the inputs, which gcc refuses.
    fn writes_over_input(&self) -> bool {
        let identity = |path: &OsStr| {
            let found = fs::metadata(path).ok()?;
            Some((found.dev(), found.ino()))
        };
        let Some(output) = self.output.as_deref() else {
            return false;
        };
        let written = identity(output);
        self.inputs
            .iter()
            .any(|(_, name)| name == output || (written.is_some() && identity(name) == written))
    }

    /// Decides, in the drivers' order of precedence: preprocessing before
    /// assembly before objects, wherever the options stand.
    fn action(self, family: Family, count: usize) -> Action {
        let pass = Action::PassThrough;
        let link = Action::Link {
            end_of_options: self.end_of_options.unwrap_or(count),
        };
        if self.asks_for_linker {
            return Action::AsksForLinker;
        }
        if let Some(reason) = self.no_object {
            return pass(reason);
        }
        if self.assembly {
            return pass("makes assembly");
        }
        if self.inputs.is_empty() {
            return pass("has no input");
        }
        if self.other_machine {
            return pass("not for x86-64");
        }
        let has = |wanted: Input| self.inputs.iter().any(|(input, _)| *input == wanted);
        if has(Input::Offload) {
            return pass("makes code for devices");
        }
        // An object of intermediate code stays one. Linking is `repo-ld`'s: the driver tells it the plugin.
        if self.lto && self.compile_only {
            return pass("link-time optimization");
        }
        if !self.compile_only {
            return if self.inputs.iter().all(|(input, _)| *input == Input::Header) {
                pass("makes a precompiled header")
            } else {
                link
            };
        }
        let makes_object = |input: &Input| matches!(input, Input::Source | Input::Assembly);
        let is_probe = |(_, name): &(Input, OsString)| is_question(name);
        if self.inputs.iter().any(is_probe) || self.output.as_deref().is_some_and(is_question) {
            return pass("a question of a configure script");
        }
        if self.writes_over_input() {
            return pass(OVER_INPUT);
        }
        let outputs: Vec<PathBuf> = match &self.output {
            _ if !self.inputs.iter().any(|(input, _)| makes_object(input)) => {
                return pass("no source among the inputs");
            }
            Some(output) if output == "-" => return pass("writes to standard output"),
            Some(output) => vec![PathBuf::from(output)],
            None => self
                .inputs
                .iter()
                .filter(|(input, _)| makes_object(input))
                .map(|(_, name)| default_object(name))
                .collect(),
        };
        let embeds_bitcode = |word: &Word| word.option.as_bytes().starts_with(b"-fembed-bitcode");
        let split_sections =
            (family == Family::Gcc || has(Input::Source)) && !self.words.iter().any(embeds_bitcode);
        let names_output = self.output.is_some();
        let for_linker = has(Input::ForLinker);
        let (sources, _) = sources(self.inputs, self.languages);
        Action::Compile(Box::new(Compile {
            outputs,
            // clang warns of options that it has no use for, and refuses these together with bitcode.
            split_sections,
            names_output,
            sources,
            dependencies: self.dependencies,
            words: self.words,
            for_linker,
        }))
    }
}

impl Language {
    /// The language of this name, as after `-x`.
    fn by_name(name: &OsStr) -> Language {
        match name.as_bytes() {
            b"c" => Language::C,
            b"c++" => Language::Cxx,
            b"assembler-with-cpp" => Language::Assembly,
            b"assembler" => Language::RawAssembly,
            _ => Language::Other,
        }
    }

    /// The language of a file of this name. (What a driver of C++ takes for C++, whose files end in `.c`, is for who
    /// knows the driver's name.)
    fn by_suffix(name: &OsStr) -> Language {
        let bytes = name.as_bytes();
        match bytes
            .rsplit(|&byte| byte == b'.')
            .next()
            .unwrap_or_default()
        {
            b"c" => Language::C,
            b"cc" | b"cp" | b"cxx" | b"cpp" | b"CPP" | b"c++" | b"C" => Language::Cxx,
            b"S" | b"sx" => Language::Assembly,
            b"s" => Language::RawAssembly,
            _ => Language::Other,
        }
    }
}

/// The part of an option in which its name is: up to a comma, after which may
/// stand anything, and up to bytes that are not UTF-8, which no name has.
fn option_name(bytes: &[u8]) -> &str {
    let end = bytes
        .iter()
        .position(|&byte| byte == b',')
        .map_or(bytes.len(), |comma| comma + 1);
    let name = &bytes[..end];
    match std::str::from_utf8(name) {
        Ok(name) => name,
        Err(error) => std::str::from_utf8(&name[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// Whether a program's name, as asked for with `-print-prog-name`, is one of
/// the linker's.
fn is_linker(name: &OsStr) -> bool {
    matches!(
        name.as_bytes(),
        b"ld" | b"ld.bfd" | b"ld.gold" | b"ld.lld" | b"ld.mold"
    )
}

/// The object that a source makes if no `-o` says where: in the current
/// directory, with the source's name (GCC's manual, "Overall Options", `-c`).
fn default_object(source: &OsStr) -> PathBuf {
    let bytes = source.as_bytes();
    let name = bytes.rsplit(|&byte| byte == b'/').next().unwrap_or(bytes);
    let stem = match name.iter().rposition(|&byte| byte == b'.') {
        Some(dot) => &name[..dot],
        None => name,
    };
    let mut object = stem.to_vec();
    object.extend_from_slice(b".o");
    PathBuf::from(OsString::from_vec(object))
}

/// Whether a compiler driver takes a file of this name for a source or an object.
pub fn has_suffix_of_input(name: &OsStr) -> bool {
    let is_for_linker = || {
        let suffix = name.as_bytes().rsplit(|byte| *byte == b'.').next();
        name.as_bytes().contains(&b'.') && matches!(suffix, Some(b"o" | b"lo" | b"a" | b"so"))
    };
    input_by_suffix(name) != Input::ForLinker || is_for_linker()
}

/// The kind of an input from the end of its name (GCC's manual, "Options
/// Controlling the Kind of Output", and what clang has besides).
fn input_by_suffix(name: &OsStr) -> Input {
    let bytes = name.as_bytes();
    let Some(dot) = bytes.iter().rposition(|&byte| byte == b'.') else {
        return Input::ForLinker;
    };
    match &bytes[dot + 1..] {
        b"c" | b"i" | b"ii" | b"m" | b"mi" | b"mm" | b"M" | b"mii" => Input::Source,
        b"cc" | b"cp" | b"cxx" | b"cpp" | b"CPP" | b"c++" | b"C" => Input::Source,
        b"CC" | b"CXX" | b"C++" | b"iim" => Input::Source,
        b"cppm" | b"ccm" | b"cxxm" | b"c++m" | b"pcm" | b"ll" | b"bc" => Input::Source,
        b"f" | b"for" | b"ftn" | b"F" | b"FOR" | b"fpp" | b"FPP" | b"FTN" | b"f90" | b"f95"
        | b"f03" | b"f08" | b"F90" | b"F95" | b"F03" | b"F08" => Input::Source,
        b"go" | b"d" | b"dd" | b"ads" | b"adb" | b"mod" => Input::Source,
        b"s" | b"S" | b"sx" => Input::Assembly,
        b"h" | b"hh" | b"H" | b"hp" | b"hxx" | b"hpp" | b"HPP" | b"h++" | b"tcc" | b"hlsl" => {
            Input::Header
        }
        b"cu" | b"cui" | b"hip" | b"hipi" | b"cl" | b"clcpp" => Input::Offload,
        _ => Input::ForLinker,
    }
}

/// The kind of input that a language names; `None` for `none`, which gives the
/// decision back to the suffix.
fn input_by_language(language: &OsStr) -> Option<Input> {
    let language = language.to_str().unwrap_or_default();
    match language {
        "none" => None,
        "assembler" | "assembler-with-cpp" => Some(Input::Assembly),
        _ if language.ends_with("-header")
            || language.ends_with("-header-unit")
            || language.ends_with("-user-header")
            || language.ends_with("-system-header")
            || language.ends_with("-header-cpp-output") =>
        {
            Some(Input::Header)
        }
        _ if language.starts_with("cuda")
            || language.starts_with("hip")
            || language.starts_with("cl")
            || language == "hlsl" =>
        {
            Some(Input::Offload)
        }
        _ => Some(Input::Source),
    }
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
