//! `repo-cc`: runs a compiler as the build system asked, and leaves a ticket
//! where the object would be.
//!
//! ```text
//! cli ─▶ compiler ─▶ response ─▶ classify ─┬─▶ run::exec           everything else
//!        who runs    @files      what for  ├─▶ linker_dir, exec    links: with repo-ld
//!                                          └─▶ run::run, publish   compiles: tickets
//! ```
//!
//! The rule above all: what a build does without us it does with us. The
//! compiler writes all its files itself; the only thing that changes is that an
//! object, once complete, is replaced by a ticket, and that only after it has
//! been stored. Where anything is doubtful or fails, the object stays.

mod archiver;
mod classify;
pub mod cli;
mod compiler;
mod import;
mod install;
mod linker_dir;
mod log;
mod memo;
mod options;
mod own_dir;
mod publish;
mod response;
mod run;

use archiver::Tool;
use classify::{Action, Compile};
use compiler::{CHOSEN_VARIABLE, Compiler, Family, Name, NotFound, Ourselves, Program};
use format_spec::digest::Digest;
use log::Log;
use memo::Memo;
use publish::{Expected, Ordinary};
use run::{Captured, Ending};
use std::convert::Infallible;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the compiler is asked for, so that each definition has a section of
/// its own. It stands before the build's own options, so that a build that says
/// `-fno-function-sections` is heard.
const SECTION_OPTIONS: [&str; 2] = ["-ffunction-sections", "-fdata-sections"];

/// Programs that run the compiler that follows them, as we do.
const LAUNCHERS: [&str; 4] = ["ccache", "sccache", "distcc", "icecc"];

/// Set by ccache for all that it runs.
const INSIDE_CCACHE: &str = "CCACHE_DISABLE";

/// Asks for what `--fat` asks for.
const FAT_VARIABLE: &str = "REPO_CC_FAT";

/// The exit code of a command that cannot be run, as shells have it.
const CANNOT_RUN: u8 = 126;
/// The exit code of a command that is not there, as shells have it.
const NOT_THERE: u8 = 127;

/// What the user asked of `repo-cc` itself.
#[derive(Clone, Copy)]
struct Asked<'a> {
    /// The argument of `--repo`.
    repo: Option<&'a Path>,
    /// Its words, without those about logs.
    command: &'a [OsString],
    /// Whether objects are to stay, with a note.
    fat: bool,
    log: &'a Log,
}

/// A command that can be run.
struct Invocation {
    program: Program,
    /// Words between the program and the compiler's own arguments: with a
    /// launcher, the compiler.
    lead: Vec<OsString>,
    args: Vec<OsString>,
    /// What is known of the compiler, if there is one.
    compiler: Option<Compiler>,
    /// Whether the program has to do with archives.
    tool: Option<Tool>,
}

/// The program `repo-cc`, from its command line to its exit code.
pub fn main() -> ExitCode {
    let options = cli::read(env::args_os());
    if let Some(dir) = &options.install_links {
        return match install::install_links(dir, &options.command) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error),
        };
    }
    let log = Log {
        asked: options.log.is_some(),
        file: options
            .log
            .or_else(|| env::var_os("REPO_LOG").map(PathBuf::from))
            .filter(|path| !path.as_os_str().is_empty()),
        verbose: options.verbose,
        explain: options.explain,
    };
    if options.show_stats || options.zero_stats {
        let asked = Asked {
            repo: options.repo.as_deref(),
            command: &[],
            fat: false,
            log: &log,
        };
        return match memo::statistics(&asked, options.show_stats, options.zero_stats) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error),
        };
    }
    let ourselves = Ourselves::look();
    let mut command = options.command.clone();
    if let Some(repo) = &options.repo {
        command.splice(0..0, ["--repo".into(), repo.clone().into_os_string()]);
    }
    let invocation = match Invocation::find(options.command, &ourselves) {
        Ok(invocation) => invocation,
        Err((code, message)) => return fail(code, &message),
    };
    hand_on_environment(&invocation, &ourselves, options.repo.as_deref(), &log);
    let asked = Asked {
        repo: options.repo.as_deref(),
        command: &command,
        fat: options.fat
            || env::var_os(FAT_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0"),
        log: &log,
    };
    let Err((code, message)) = invocation.carry_out(&ourselves, &asked);
    fail(code, &message)
}

/// Says why, and gives the exit code.
fn fail(code: u8, message: &str) -> ExitCode {
    linker::tell!("repo-cc: error: {message}");
    ExitCode::from(code)
}

/// Sets what the compiler and `repo-ld` behind it must know.
fn hand_on_environment(
    invocation: &Invocation,
    ourselves: &Ourselves,
    repo: Option<&Path>,
    log: &Log,
) {
    let chosen = ourselves.chosen_with(&invocation.program.path);
    // SAFETY: this process has one thread; nobody reads the environment meanwhile.
    unsafe {
        if let Some(chosen) = chosen {
            env::set_var(CHOSEN_VARIABLE, chosen);
        }
        if let Some(repo) = repo {
            env::set_var("REPO_FILE", repo);
        }
        if let Some(file) = log.file.as_deref().filter(|_| log.asked) {
            env::set_var("REPO_LOG", file);
        }
    }
}

impl Invocation {
    /// Finds the program to run, and what kind of compiler it is.
    fn find(command: Vec<OsString>, ourselves: &Ourselves) -> Result<Invocation, (u8, String)> {
        let mut words = command.into_iter();
        let name = words.next().unwrap_or_default();
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

    /// Runs it, with a ticket or `repo-ld` where that can be. Does not return
    /// unless the program cannot be run.
    fn carry_out(
        self,
        ourselves: &Ourselves,
        asked: &Asked<'_>,
    ) -> Result<Infallible, (u8, String)> {
        let log = asked.log;
        if let Some(tool) = self.tool.filter(|_| !ourselves.are_inner()) {
            let archives = tool.changes(&self.args);
            if !archives.is_empty() {
                return self.archive(tool, &archives, asked);
            }
        }
        match self.action(ourselves) {
            Action::PassThrough(reason) => {
                if log.wanted() {
                    log.note(format_args!("{}: passed on: {reason}", self.shown()));
                }
                self.exec(&self.args)
            }
            Action::Link { end_of_options } => {
                if log.wanted() {
                    log.note(format_args!("{}: links with repo-ld", self.shown()));
                }
                let args = self.with_linker(end_of_options, log);
                self.exec(&args)
            }
            Action::Compile(compile) => {
                let expected: Vec<Expected> = compile
                    .outputs
                    .iter()
                    .cloned()
                    .filter_map(Expected::new)
                    .collect();
                if expected.is_empty() {
                    log.note(format_args!(
                        "{}: passed on: the output is not a regular file",
                        self.shown()
                    ));
                    return self.exec(&self.args);
                }
                self.compile(&expected, &compile, asked)
            }
        }
    }

    /// What to do about the arguments.
    fn action(&self, ourselves: &Ourselves) -> Action {
        let Some(compiler) = &self.compiler else {
            return Action::PassThrough("not a compiler known to repo-cc");
        };
        if ourselves.are_inner() {
            return Action::PassThrough("an outer repo-cc does the work");
        }
        if !compiler.our_target {
            return Action::PassThrough("not for x86-64");
        }
        if compiler.family == Family::Clang && env::var_os("CCC_OVERRIDE_OPTIONS").is_some() {
            return Action::PassThrough("CCC_OVERRIDE_OPTIONS changes the options");
        }
        let action = self.action_by_arguments(compiler);
        // What ccache keeps outlives what a ticket names, and no rebuild makes it again.
        match action {
            Action::Compile(_) if env::var_os(INSIDE_CCACHE).is_some() => Action::PassThrough(
                "inside ccache, which would keep the ticket; let repo-cc run ccache",
            ),
            action => action,
        }
    }

    /// What the arguments ask for.
    fn action_by_arguments(&self, compiler: &Compiler) -> Action {
        match response::expand(&self.args) {
            Ok(args) if args == self.args => classify::classify(compiler.family, &args),
            // Where a -- stands among the words of a file, nothing can be put.
            Ok(args) => match classify::classify(compiler.family, &args) {
                Action::Link { .. } => Action::Link { end_of_options: 0 },
                action => action,
            },
            Err(_) => Action::PassThrough("a response file that is not a regular file"),
        }
    }

    /// Becomes the program.
    fn exec(&self, args: &[OsString]) -> Result<Infallible, (u8, String)> {
        let args: Vec<OsString> = self.lead.iter().chain(args).cloned().collect();
        Err(self.cannot_run(run::exec(&self.program.path, &self.program.argv0, &args)))
    }

    /// Why the program cannot be run.
    fn cannot_run(&self, error: std::io::Error) -> (u8, String) {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => NOT_THERE,
            _ => CANNOT_RUN,
        };
        let text = error.to_string();
        // The words are enough; the number in parentheses is Rust's addition.
        let text = text.split(" (os error").next().unwrap_or_default();
        (code, format!("{}: {text}", self.program.path.display()))
    }

    /// The arguments of a link, with `repo-ld` as the linker.
    fn with_linker(&self, end_of_options: usize, log: &Log) -> Vec<OsString> {
        let Some(compiler) = &self.compiler else {
            return self.args.clone();
        };
        let Some(repo_ld) = linker_dir::find_repo_ld() else {
            log.warn(
                "repo-ld is neither beside repo-cc nor on PATH; \
                 the compiler's own linker is used, which cannot read tickets",
            );
            return self.args.clone();
        };
        let joined = |option: &str, path: &Path| {
            let mut word = OsString::from(option);
            word.push(path);
            word
        };
        // clang has --ld-path since version 12. The last one counts, so it
        // stands behind the build's own.
        if compiler.family == Family::Clang && compiler.version.is_none_or(|v| v >= 12) {
            let mut args = self.args.clone();
            args.insert(
                end_of_options.min(args.len()),
                joined("--ld-path=", &repo_ld),
            );
            return args;
        }
        match linker_dir::directory(&repo_ld) {
            // The first -B is searched first.
            Ok(dir) => [joined("-B", &dir)]
                .into_iter()
                .chain(self.args.iter().cloned())
                .collect(),
            Err(error) => {
                log.warn(format_args!(
                    "cannot make a directory for the linker: {error}; \
                     the compiler's own linker is used, which cannot read tickets"
                ));
                self.args.clone()
            }
        }
    }

    /// Runs the compiler, makes tickets of its objects, and ends as it ended; or does not run it, where it is known what it would make.
    fn compile(
        &self,
        expected: &[Expected],
        compile: &Compile,
        asked: &Asked<'_>,
    ) -> Result<Infallible, (u8, String)> {
        let mut importer = import::Importer::new(asked);
        let mut memo = match memo::is_on() {
            true => Some(Memo::begin(self, compile, asked)),
            false => None,
        };
        if let Some(Ok(memo)) = &memo
            && memo.hit(&mut importer).is_some()
        {
            run::end_like(Ending::Exit(0));
        }
        let mut captured = None;
        let mut besides = Vec::new();
        if let Some(Ok(memo)) = &mut memo {
            captured = Captured::new().ok();
            if captured.is_some() {
                besides = memo.before_compile();
            }
        }
        let ours: &[&str] = match compile.split_sections {
            true => &SECTION_OPTIONS,
            false => &[],
        };
        let args: Vec<OsString> = self
            .lead
            .iter()
            .cloned()
            .chain(ours.iter().map(OsString::from))
            .chain(besides)
            .chain(self.args.iter().cloned())
            .collect();
        let ending = run::run(
            &self.program.path,
            &self.program.argv0,
            &args,
            captured.as_mut(),
        )
        .map_err(|error| self.cannot_run(error))?;
        if ending == Ending::Exit(0) {
            let made = make_tickets(expected, asked, &mut importer);
            match (&memo, made) {
                (Some(Ok(memo)), Some(compilation)) => {
                    memo.record(&mut importer, &compilation, captured);
                }
                (Some(Err(reason)), _) => {
                    asked
                        .log
                        .explain(format_args!("{}: ordinary: {reason}", self.shown()));
                    memo::count_ordinary(&mut importer, expected[0].path(), reason);
                }
                _ => {}
            }
        } else if asked.log.wanted() {
            asked
                .log
                .note(format_args!("{}: failed: {ending}", self.shown()));
        }
        // What follows does not come back.
        drop(memo);
        run::end_like(ending)
    }

    /// Runs the archiver, looks after what it made, and ends as it ended.
    fn archive(
        &self,
        tool: Tool,
        archives: &[PathBuf],
        asked: &Asked<'_>,
    ) -> Result<Infallible, (u8, String)> {
        let ending = run::run(&self.program.path, &self.program.argv0, &self.args, None)
            .map_err(|error| self.cannot_run(error))?;
        if ending == Ending::Exit(0) {
            for archive in archives {
                archiver::look_after(tool, archive, asked);
            }
        }
        run::end_like(ending)
    }

    /// The command for the log: the compiler's name is enough to find it.
    fn shown(&self) -> String {
        let words: Vec<_> = [&self.program.argv0]
            .into_iter()
            .chain(&self.lead)
            .chain(&self.args)
            .map(|word| word.to_string_lossy())
            .collect();
        words.join(" ")
    }
}

/// Replaces the objects of a successful compile by tickets, as far as that can
/// be. The user is told of the first difficulty that concerns the repository,
/// and of no further ones, which will be the same.
/// Gives the digest of the last compilation that has a ticket.
fn make_tickets(
    expected: &[Expected],
    asked: &Asked<'_>,
    importer: &mut import::Importer<'_>,
) -> Option<Digest> {
    let log = asked.log;
    let what = if asked.fat { "fat object" } else { "ticket" };
    let mut told = false;
    let mut made = None;
    for output in expected {
        let path = output.path().display();
        match output.publish(importer) {
            Ok(imported) => {
                log.note(format_args!("{path}: {what}: {}", imported.summary));
                made = Some(imported.digest());
            }
            Err(Ordinary::Quiet(reason)) => log.note(format_args!("{path}: object: {reason}")),
            Err(Ordinary::Told(reason)) if told => {
                log.note(format_args!("{path}: object: {reason}"));
            }
            Err(Ordinary::Told(reason)) => {
                told = true;
                log.warn(format_args!("{reason}; {path} stays an ordinary object"));
            }
        }
    }
    made
}
