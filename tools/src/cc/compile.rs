//! A compile: whether it is needed, how it is done, and the tickets of what it made.
//!
//! ```text
//! memo::hit ─┬─▶ known: the ticket is written, the compiler not run
//!            └─▶ pruned ─┬─▶ what is new is compiled, the rest taken from the repository ─┬─▶ memo::record
//!                        └─▶ whole: the compiler as the build asked ──────▶ tickets ─────┘
//! ```
//!
//! Each step may find that it cannot say, and then the next one does the work.

use super::classify::Compile;
use super::compiler::Family;
use super::import::{Importer, Made};
use super::invocation::{Asked, Invocation};
use super::memo::{self, Memo};
use super::publish::{Expected, Ordinary};
use super::run::{self, Captured, Ending};
use super::{pruning, response};
use std::convert::Infallible;
use std::ffi::OsString;

/// What the compiler is asked for, so that each definition has a section of
/// its own. It stands before the build's own options, so that a build that says
/// `-fno-function-sections` is heard.
const SECTION_OPTIONS: [&str; 2] = ["-ffunction-sections", "-fdata-sections"];

/// Why a command cannot be run: an exit code, and words.
type CannotRun = (u8, String);

/// Runs the compiler, makes tickets of its objects, and ends as it ended; or does not run it, where it is known what it would make.
///
/// # Errors
/// If the compiler cannot be run.
pub fn compile(
    invocation: &Invocation,
    expected: &[Expected],
    compile: &Compile,
    asked: &Asked<'_>,
) -> Result<Infallible, CannotRun> {
    let mut importer = Importer::new(asked);
    // A fat object is the compiler's own, whole.
    let is_pruned = pruning::is_on() && compile.split_sections && !asked.fat;
    let mut memo = memo::is_on().then(|| Memo::begin(invocation, compile, asked, is_pruned));
    let is_watched = is_pruned && pruning::is_watched();
    if let Some(Ok(memo)) = memo.as_ref().filter(|_| !is_watched)
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
    let own_words = match &memo {
        Some(Ok(memo)) => memo.words(),
        _ => &invocation.args,
    };
    let args: Vec<OsString> = (invocation.lead.iter().cloned())
        .chain(ours.iter().map(OsString::from))
        .chain(besides)
        .chain(own_words.iter().cloned())
        .collect();
    let this = Compiling {
        invocation,
        expected,
        args: &args,
        asked,
    };
    let before = match is_pruned {
        true => this.only_what_is_new(captured.as_mut())?,
        false => Before::Nothing,
    };
    let (ending, made) = match before {
        Before::Done(ending, made) => {
            memo::count(&mut importer, expected[0].path(), memo::counts::IN_PART);
            (ending, Some(made))
        }
        Before::Nothing => (this.run(captured.as_mut())?, None),
        // What the compiler has to say it has said.
        Before::InVain(ending) => {
            match (ending, pruning::without_errors(|| this.run(None))?) {
                // It was for us that it failed, and what it said is not what it would have said.
                (Ending::Exit(0), again @ Ending::Exit(0)) => (again, None),
                (_, again @ Ending::Exit(0)) => {
                    captured = None;
                    (again, None)
                }
                (ending, _) => (ending, None),
            }
        }
    };
    if ending == Ending::Exit(0) {
        let made = made.or_else(|| make_tickets(expected, asked, &mut importer));
        match (&memo, made) {
            (Some(Ok(memo)), Some(made)) => {
                memo.record(&mut importer, &made, captured);
            }
            (Some(Err(reason)), _) => {
                let shown = invocation.shown();
                (asked.log).explain(format_args!("{shown}: ordinary: {reason}"));
                memo::count_ordinary(&mut importer, expected[0].path(), reason);
            }
            _ => {}
        }
    } else if asked.log.wanted() {
        let shown = invocation.shown();
        asked.log.note(format_args!("{shown}: failed: {ending}"));
    }
    // What follows does not come back.
    drop(memo);
    run::end_like(ending)
}

/// What came of a compile in which something was left out.
enum Before {
    /// There was none.
    Nothing,
    /// It is as any other; the compilation has its ticket.
    Done(Ending, Made),
    /// The compiler has ended so, and must run again.
    InVain(Ending),
}

/// A compile that is done.
struct Compiling<'a> {
    invocation: &'a Invocation,
    expected: &'a [Expected],
    /// The compiler's arguments, with ours.
    args: &'a [OsString],
    asked: &'a Asked<'a>,
}

impl Compiling<'_> {
    fn run_with(
        &self,
        args: &[OsString],
        captured: Option<&mut Captured>,
    ) -> Result<Ending, CannotRun> {
        let program = &self.invocation.program;
        run::run(&program.path, &program.argv0, args, captured)
            .map_err(|error| self.invocation.cannot_run(error))
    }

    fn run(&self, captured: Option<&mut Captured>) -> Result<Ending, CannotRun> {
        self.run_with(self.args, captured)
    }

    /// How to leave out what the repository has, or why nothing is.
    fn pruning(&self) -> Result<(pruning::Pruning, &Expected), String> {
        let invocation = self.invocation;
        let family = (invocation.compiler.as_ref()).map(|compiler| compiler.family);
        let ([output], Some(Family::Clang), true) =
            (self.expected, family, invocation.lead.is_empty())
        else {
            return Err("not one object by clang itself".to_owned());
        };
        let args = response::expand(&invocation.args).map_err(|_| "a response file".to_owned())?;
        let pruning = pruning::Pruning::new(&invocation.program.path, &args, output.path())?;
        Ok((pruning, output))
    }

    /// Compiles what is new of a translation unit, if that can be.
    fn only_what_is_new(&self, captured: Option<&mut Captured>) -> Result<Before, CannotRun> {
        let log = self.asked.log;
        let (pruning, output) = match self.pruning() {
            Ok(found) => found,
            Err(why) => {
                let shown = self.invocation.shown();
                log.note(format_args!("{shown}: nothing is left out: {why}"));
                return Ok(Before::Nothing);
            }
        };
        let mut importer = Importer::new(self.asked);
        importer.pruning = Some(&pruning);
        let target = output.absolute();
        let repository = target.and_then(|target| importer.repository_path(&target).ok());
        let Some(repository) = repository else {
            return Ok(Before::Nothing);
        };
        let run = |prune, captured: Option<&mut Captured>| -> Result<Option<Ending>, CannotRun> {
            let Ok(option) = pruning.begin(&repository, prune) else {
                return Ok(None);
            };
            let args: Vec<OsString> = [option]
                .into_iter()
                .chain(self.args.iter().cloned())
                .collect();
            let ending = self.run_with(&args, captured);
            pruning.end();
            ending.map(Some)
        };
        let Some(ending) = run(true, captured)? else {
            return Ok(Before::Nothing);
        };
        if ending != Ending::Exit(0) {
            return Ok(Before::InVain(ending));
        }
        let path = output.path().display();
        let mut made = match output.publish(&mut importer) {
            Ok((made, summary)) => {
                log.note(format_args!("{path}: ticket: {summary}"));
                made
            }
            Err(Ordinary::Quiet(why) | Ordinary::Told(why)) => {
                log.note(format_args!("{path}: compiled again, whole: {why}"));
                return Ok(Before::InVain(ending));
            }
        };
        if pruning.verifies() {
            if pruning::without_errors(|| run(false, None))? != Some(Ending::Exit(0)) {
                return Ok(Before::InVain(ending));
            }
            let read = std::fs::read(output.path());
            linker::tell!("repo-cc: {path}: {}", pruning.compare(output.path(), read));
            // The whole object, as a ticket.
            match output.publish(&mut importer) {
                Ok((whole, _)) => made = whole,
                Err(_) => return Ok(Before::InVain(ending)),
            }
        }
        Ok(Before::Done(ending, made))
    }
}

/// Replaces the objects of a successful compile by tickets, as far as that can
/// be. The user is told of the first difficulty that concerns the repository,
/// and of no further ones, which will be the same.
/// Gives the last compilation that has a ticket.
fn make_tickets(
    expected: &[Expected],
    asked: &Asked<'_>,
    importer: &mut Importer<'_>,
) -> Option<Made> {
    let log = asked.log;
    let what = if asked.fat { "fat object" } else { "ticket" };
    let mut told = false;
    let mut made = None;
    for output in expected {
        let path = output.path().display();
        match output.publish(importer) {
            Ok((of_this, summary)) => {
                log.note(format_args!("{path}: {what}: {summary}"));
                made = Some(of_this);
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
