//! `repo-cc`: runs a compiler as the build system asked, and leaves a ticket
//! where the object would be.
//!
//! ```text
//! cli ─▶ compiler ─▶ response ─▶ classify ─┬─▶ run::exec           everything else
//!        who runs    @files      what for  ├─▶ linker_dir, exec    links: with repo-ld
//!                                          ├─▶ compile             compiles: tickets
//!                                          ├─▶ several             many compiles, or with a link: one after another
//!                                          └─▶ rustc               libraries of Rust: as they were made before
//! ```
//!
//! The rule above all: what a build does without us it does with us. The
//! compiler writes all its files itself; the only thing that changes is that an
//! object, once complete, is replaced by a ticket, and that only after it has
//! been stored. Where anything is doubtful or fails, the object stays.

mod archiver;
mod cargo;
mod classify;
pub mod cli;
mod cmake;
mod compile;
mod compiler;
mod debug_lines;
mod editor;
mod import;
mod inner_options;
mod install;
mod invocation;
mod lease;
mod linker_dir;
mod linker_question;
mod log;
mod memo;
mod options;
mod outgrown;
mod own_dir;
mod pruning;
mod publish;
mod response;
mod run;
mod rustc;
mod several;
mod switches;
mod tool;
pub mod untrusted;

use classify::Action;
use compiler::{CHOSEN_VARIABLE, Compiler, Family, Ourselves};
use invocation::{Asked, Invocation};
use log::Log;
use pruning::Wish;
use publish::Expected;
use run::Ending;
use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tool::Tool;

/// Set by ccache for all that it runs.
const INSIDE_CCACHE: &str = "CCACHE_DISABLE";

/// Asks for what `--fat` asks for.
const FAT_VARIABLE: &str = "REPO_CC_FAT";

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
            is_temporary: false,
            pruning: Wish::default(),
            log: &log,
        };
        let wishes = memo::Wishes {
            show: options.show_stats,
            zero: options.zero_stats,
            json: options.json,
        };
        return match memo::statistics(&asked, wishes) {
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
    let asked = Asked {
        repo: options.repo.as_deref(),
        command: &command,
        fat: options.fat || wants_fat(&ourselves, &command),
        is_temporary: options.temporary,
        pruning: Wish::read(options.verify, options.explain),
        log: &log,
    };
    // The steps begin as this process did, so nothing is handed on to them.
    if let Err((code, message)) =
        several::carry_out(&invocation, invocation.is_inner(&ourselves), &asked)
    {
        return fail(code, &message);
    }
    hand_on_environment(&invocation, &ourselves, options.repo.as_deref(), &log);
    let Err((code, message)) = invocation.carry_out(&ourselves, &asked);
    fail(code, &message)
}

/// Whether objects are to be fat without an option: the variable says so, or it does not, and another linker will get them.
fn wants_fat(ourselves: &Ourselves, command: &[OsString]) -> bool {
    match env::var_os(FAT_VARIABLE) {
        Some(_) => switches::is_set(FAT_VARIABLE),
        None => cargo::links_by_another(ourselves) || cmake::links_by_another(ourselves, command),
    }
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
    /// Runs it, with a ticket or `repo-ld` where that can be. Does not return
    /// unless the program cannot be run.
    fn carry_out(
        self,
        ourselves: &Ourselves,
        asked: &Asked<'_>,
    ) -> Result<Infallible, (u8, String)> {
        let log = asked.log;
        if let Some(Tool::Editor) = self.tool.filter(|_| !self.is_inner(ourselves)) {
            editor::make_objects(&self, asked)?;
            return self.exec(&self.args);
        }
        if let Some(tool) = self.tool.filter(|_| !self.is_inner(ourselves)) {
            let archives = tool.changes(&self.args);
            if !archives.is_empty() {
                return self.archive(tool, &archives, asked);
            }
        }
        if compiler::is_rustc(self.program.path.as_os_str()) && !self.is_inner(ourselves) {
            return rustc::compile(&self, asked);
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
            Action::AsksForLinker => {
                if log.wanted() {
                    log.note(format_args!("{}: is told of repo-ld", self.shown()));
                }
                linker_question::answer(&self, log)
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
                compile::compile(&self, &expected, &compile, asked)
            }
        }
    }

    /// What to do about the arguments.
    fn action(&self, ourselves: &Ourselves) -> Action {
        let Some(compiler) = &self.compiler else {
            return Action::PassThrough("not a compiler known to repo-cc");
        };
        if self.is_inner(ourselves) {
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
        // clang has --ld-path since version 12. The last one counts, so it
        // stands behind the build's own.
        if compiler.family == Family::Clang && compiler.version.is_none_or(|v| v >= 12) {
            let mut args = self.args.clone();
            let mut option = OsString::from("--ld-path=");
            option.push(&repo_ld);
            args.insert(end_of_options.min(args.len()), option);
            return args;
        }
        self.with_directory_of_linker(&repo_ld, log)
    }

    /// The arguments, with a directory where the driver finds `repo-ld` first.
    fn with_directory_of_linker(&self, repo_ld: &Path, log: &Log) -> Vec<OsString> {
        match linker_dir::directory(repo_ld) {
            // The first -B is searched first.
            Ok(dir) => {
                let mut first = OsString::from("-B");
                first.push(dir);
                std::iter::once(first)
                    .chain(self.args.iter().cloned())
                    .collect()
            }
            Err(error) => {
                log.warn(format_args!(
                    "cannot make a directory for the linker: {error}; \
                     the compiler's own linker is used, which cannot read tickets"
                ));
                self.args.clone()
            }
        }
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
}
