//! A command that can be run, and what the user asked of `repo-cc` beside it: what all that follows reads.

use super::compiler::{Compiler, Name, NotFound, Ourselves, Program};
use super::log::Log;
use super::pruning::Wish;
use super::run;
use super::tool::Tool;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Programs that run the compiler that follows them, as we do.
const LAUNCHERS: [&str; 4] = ["ccache", "sccache", "distcc", "icecc"];

/// The exit code of a command that cannot be run, as shells have it.
const CANNOT_RUN: u8 = 126;
/// The exit code of a command that is not there, as shells have it.
const NOT_THERE: u8 = 127;

/// What the user asked of `repo-cc` itself.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The argument of `--repo`.
    pub repo: Option<&'a Path>,
    /// Its words, without those about logs.
    pub command: &'a [OsString],
    /// Whether objects are to stay, with a note.
    pub fat: bool,
    /// Whether the object is of a link in the same call, and of nobody else.
    pub is_temporary: bool,
    /// Whether definitions may be left out, and what is said of that.
    pub pruning: Wish,
    /// Where decisions are reported.
    pub log: &'a Log,
}

/// A command that can be run.
pub struct Invocation {
    /// What is run.
    pub program: Program,
    /// Words between the program and the compiler's own arguments: with a
    /// launcher, the compiler.
    pub lead: Vec<OsString>,
    /// The compiler's own arguments, as they were given.
    pub args: Vec<OsString>,
    /// What is known of the compiler, if there is one.
    pub compiler: Option<Compiler>,
    /// Whether the program has to do with archives.
    pub tool: Option<Tool>,
}

impl Invocation {
    /// Finds the program to run, and what kind of compiler it is.
    pub fn find(command: Vec<OsString>, ourselves: &Ourselves) -> Result<Invocation, (u8, String)> {
        let mut words = command.into_iter();
        let name = words.next().unwrap_or_default();
        let name = ourselves.without_link(name);
        let mut args: Vec<OsString> = words.collect();
        let not_found = |name: &OsStr, error| {
            let name = name.to_string_lossy();
            match error {
                NotFound::Missing => (NOT_THERE, format!("{name}: no such program on PATH")),
                NotFound::OnlyOurselves => (
                    NOT_THERE,
                    format!("{name}: leads to repo-cc again, and there is no other on PATH"),
                ),
            }
        };
        let program = Program::find(&name, ourselves).map_err(|error| not_found(&name, error))?;
        let mut compiler = program.compiler;
        let mut lead = Vec::new();
        let is_launcher = Path::new(&name)
            .file_name()
            .and_then(OsStr::to_str)
            .is_some_and(|name| LAUNCHERS.contains(&name));
        if compiler.is_none()
            && is_launcher
            && args.first().is_some_and(|a| Name::parse(a).is_some())
        {
            let behind = args.remove(0);
            compiler = Program::find(&behind, ourselves)
                .map_err(|error| not_found(&behind, error))?
                .compiler;
            lead.push(behind);
        }
        Ok(Invocation {
            program,
            lead,
            args,
            compiler,
            tool: Tool::parse(&name),
        })
    }

    /// Whether an outer instance does the work.
    pub fn is_inner(&self, ourselves: &Ourselves) -> bool {
        ourselves.are_inner(&self.program.path)
    }

    /// Whether a launcher runs the compiler: it is told of the compiler, or has its name (`/usr/lib/ccache/gcc`).
    pub fn has_launcher(&self) -> bool {
        let program = fs::canonicalize(&self.program.path);
        let is_one = |path: &Path| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| LAUNCHERS.contains(&name))
        };
        !self.lead.is_empty() || program.is_ok_and(|program| is_one(&program))
    }

    /// Whether the program is a driver of C++, which takes C for it.
    pub fn is_driver_of_cxx(&self) -> bool {
        let name = Path::new(&self.program.argv0).file_name();
        name.is_some_and(|name| name.as_bytes().windows(2).any(|two| two == b"++"))
    }

    /// Becomes the program.
    pub fn exec(&self, args: &[OsString]) -> Result<Infallible, (u8, String)> {
        let args: Vec<OsString> = self.lead.iter().chain(args).cloned().collect();
        Err(self.cannot_run(run::exec(&self.program.path, &self.program.argv0, &args)))
    }

    /// Why the program cannot be run.
    pub fn cannot_run(&self, error: std::io::Error) -> (u8, String) {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => NOT_THERE,
            _ => CANNOT_RUN,
        };
        let text = error.to_string();
        // The words are enough; the number in parentheses is Rust's addition.
        let text = text.split(" (os error").next().unwrap_or_default();
        (code, format!("{}: {text}", self.program.path.display()))
    }

    /// The command for the log: the compiler's name is enough to find it.
    pub fn shown(&self) -> String {
        let words: Vec<_> = [&self.program.argv0]
            .into_iter()
            .chain(&self.lead)
            .chain(&self.args)
            .map(|word| word.to_string_lossy())
            .collect();
        words.join(" ")
    }
}
