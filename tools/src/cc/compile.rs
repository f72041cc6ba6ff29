//! A compile: whether it is needed, how it is done, and the tickets of what it made.
//!
//! ```text
//! memo::hit ─┬─▶ known: the ticket is written, the compiler not run
//!            └─▶ pruned ─┬─▶ what is new is compiled, the rest taken from the repository ─┬─▶ memo::record
//!                        └─▶ whole: the compiler as the build asked ──────▶ tickets ─────┘
//!                            (in C with debug information, it is asked what code is made of)
//! ```
//!
//! Each step may find that it cannot say, and then the next one does the work.

use super::classify::Compile;
use super::compiler::Family;
use super::import::{Importer, Made, Ordinary};
use super::invocation::{Asked, Invocation};
use super::memo::emitted::Emitted;
use super::memo::{self, Memo};
use super::pruning::Asking;
use super::publish::Expected;
use super::run::{self, Captured, Ending};
use super::{pruning, publish, response, switches};
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;

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
    let family = (invocation.compiler.as_ref()).map(|compiler| compiler.family);
    let is_clang = family == Some(Family::Clang) && !invocation.has_launcher();
    let whole = match (asked.fat, compile.split_sections) {
        (true, _) => Some("a fat object is the compiler's own"),
        (_, false) => Some("the object has no section for each definition"),
        _ if !is_clang || expected.len() != 1 => Some("not one object by clang itself"),
        _ => None,
    };
    let is_pruned = asked.pruning.is_on && whole.is_none();
    let mut memo = switches::is_on().then(|| Memo::begin(invocation, compile, asked, is_pruned));
    let is_watched = is_pruned && asked.pruning.is_watched;
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
    if is_pruned && captured.is_none() {
        captured = Captured::new().ok();
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
    if let (true, Some(why)) = (asked.pruning.is_on, whole) {
        this.nothing_is_left_out(why);
    }
    let before = match is_pruned {
        true => this.only_what_is_new(captured.as_mut())?,
        false => Before::Nothing,
    };
    let before = match (before, &memo) {
        (Before::Nothing, Some(Ok(memo))) if is_pruned && memo.asks_names() => {
            this.with_names(captured.as_mut())?
        }
        (before, _) => before,
    };
    let mut emitted = None;
    let (ending, made) = match before {
        Before::Done(ending, made, of_it) => {
            memo::count(&mut importer, expected[0].path(), memo::counts::IN_PART);
            emitted = of_it;
            (ending, Some(made))
        }
        Before::Ended(ending) => (ending, None),
        Before::Named(ending, of_it) => {
            emitted = of_it;
            (ending, None)
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
        match (&memo, made) {
            (Some(Ok(memo)), Some(made)) => {
                memo.record(&mut importer, &made, captured, emitted.as_ref());
            }
            (Some(Ok(memo)), None) => {
                let observed = (captured, emitted.as_ref());
                make_known_ticket(memo, (expected, asked), &mut importer, observed);
            }
            (Some(Err(reason)), made) => {
                let made = made.or_else(|| make_tickets(expected, asked, &mut importer));
                if made.is_some() {
                    let shown = invocation.shown();
                    (asked.log).explain(format_args!("{shown}: ordinary: {reason}"));
                    memo::count_ordinary(&mut importer, expected[0].path(), reason);
                }
            }
            (None, Some(_)) => {}
            (None, None) => drop(make_tickets(expected, asked, &mut importer)),
        }
    } else if asked.log.wanted() {
        let shown = invocation.shown();
        asked.log.note(format_args!("{shown}: failed: {ending}"));
    }
    // What follows does not come back.
    drop(memo);
    run::end_like(ending)
}

/// What clang says if the plugin cannot be used, and if one of them has died: neither is an error of the source.
const OF_PLUGIN: [&[u8]; 2] = [b"unable to load plugin", b"PLEASE submit a bug report"];

/// What came of a compile in which something was left out, or something more was asked for.
enum Before {
    /// There was none.
    Nothing,
    /// It is as any other; the compilation has its ticket. And what code was made of, where that tells what mattered.
    Done(Ending, Made, Option<Emitted>),
    /// It is as any other, and so is its object. And what code was made of, where that tells what mattered.
    Named(Ending, Option<Emitted>),
    /// The compiler has ended so, and must run again.
    InVain(Ending),
    /// The object is the compiler's own, and stays.
    Ended(Ending),
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
    /// What has been compiled without us, whole, is what the build gets. `is_equal`: nothing is wrong with it but its ticket.
    fn as_it_was(&self, output: &Expected, is_equal: bool) -> Before {
        let mut importer = Importer::new(self.asked);
        let ending = match is_equal || !self.asked.pruning.fails {
            true => Ending::Exit(0),
            false => Ending::Exit(1),
        };
        match output.publish(&mut importer) {
            Ok((made, _)) => Before::Done(ending, made, None),
            Err(_) => Before::Ended(ending),
        }
    }

    /// Says so to who asks. In most builds it is so for each compile, and nothing that anybody waits for.
    fn nothing_is_left_out(&self, why: &str) {
        let wish = self.asked.pruning;
        if !wish.explain && !wish.verify {
            return;
        }
        let shown = self.invocation.shown();
        let line = format_args!("{shown}: nothing is left out: {why}");
        self.asked.log.decide(line);
        self.nothing_to_verify(why);
    }

    /// Says so to who asks for a proof and has not heard why there is none.
    fn nothing_to_verify(&self, why: &str) {
        if self.asked.pruning.fails && !self.asked.log.explain {
            linker::tell!("repo-cc: nothing to verify: {why}");
        }
    }

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

    /// Runs it with an option by which the plugin is asked something.
    fn run_asking(
        &self,
        asking: &Asking,
        option: OsString,
        captured: Option<&mut Captured>,
    ) -> Result<Ending, CannotRun> {
        let args: Vec<OsString> = [option]
            .into_iter()
            .chain(self.args.iter().cloned())
            .collect();
        let ending = self.run_with(&args, captured);
        asking.end();
        ending
    }

    /// How to leave out what the repository has, or why nothing is.
    fn pruning(&self) -> Result<(pruning::Pruning, &Expected), String> {
        let invocation = self.invocation;
        let output = &self.expected[0];
        let args = response::expand(&invocation.args).map_err(|_| "a response file".to_owned())?;
        let wish = self.asked.pruning;
        let pruning = pruning::Pruning::new(&invocation.program.path, &args, output.path(), wish)?;
        Ok((pruning, output))
    }

    /// Compiles it whole, and asks what code is made of.
    fn with_names(&self, mut captured: Option<&mut Captured>) -> Result<Before, CannotRun> {
        let Ok(asking) = Asking::new(&self.invocation.program.path) else {
            return Ok(Before::Nothing);
        };
        let Ok(option) = asking.begin_names() else {
            return Ok(Before::Nothing);
        };
        let ending = self.run_asking(&asking, option, captured.as_deref_mut())?;
        Ok(match ending {
            Ending::Exit(0) => Before::Named(ending, asking.names()),
            _ if is_of_source(ending, &asking, captured) => Before::Ended(ending),
            _ => Before::InVain(ending),
        })
    }

    /// Compiles what is new of a translation unit, if that can be.
    fn only_what_is_new(&self, mut captured: Option<&mut Captured>) -> Result<Before, CannotRun> {
        let log = self.asked.log;
        let (pruning, output) = match self.pruning() {
            Ok(found) => found,
            Err(why) => {
                self.nothing_is_left_out(&why);
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
            let ending = self.run_asking(pruning.asking(), option, captured);
            ending.map(Some)
        };
        let Some(ending) = run(true, captured.as_deref_mut())? else {
            return Ok(Before::Nothing);
        };
        if ending != Ending::Exit(0) {
            return Ok(match is_of_source(ending, pruning.asking(), captured) {
                true => Before::Ended(ending),
                false => Before::InVain(ending),
            });
        }
        let path = output.path().display();
        let made = match output.publish(&mut importer) {
            Ok((made, summary)) => {
                log.note(format_args!("{path}: ticket: {summary}"));
                made
            }
            Err(Ordinary::Quiet(why) | Ordinary::Told(why)) => {
                log.decide(format_args!("{path}: compiled again, whole: {why}"));
                self.nothing_to_verify(&why);
                return Ok(Before::InVain(ending));
            }
        };
        if self.asked.pruning.verify {
            let is_whole = |ending: Option<Ending>| ending == Some(Ending::Exit(0));
            let ticket = fs::read(output.path());
            let mut objects = Vec::new();
            for has_plugin in [true, false] {
                let ending = pruning::without_errors(|| match has_plugin {
                    true => run(false, None),
                    false => self.run(None).map(Some),
                })?;
                let Some(object) = fs::read(output.path()).ok().filter(|_| is_whole(ending)) else {
                    return Ok(Before::InVain(ending.unwrap_or(Ending::Exit(1))));
                };
                objects.push(object);
            }
            let (is_equal, said) = pruning.compare(output.path(), &objects[0], &objects[1]);
            linker::tell!("repo-cc: {path}: {said}");
            let target = fs::canonicalize(output.path());
            let put = ticket.and_then(|ticket| publish::put(&target?, &ticket));
            if !is_equal || put.is_err() {
                return Ok(self.as_it_was(output, is_equal));
            }
        }
        Ok(Before::Done(ending, made, pruning.emitted()))
    }
}

/// Whether a compile that was asked for something has failed by its source. The plugin is loaded when that is understood: what fails before fails without
/// it, too.
fn is_of_source(ending: Ending, asking: &Asking, captured: Option<&mut Captured>) -> bool {
    let said = captured.and_then(|captured| captured.so_far());
    let has = |said: &[u8], what: &[u8]| memchr::memmem::find(said, what).is_some();
    let is_of_plugin = |said: &[u8]| OF_PLUGIN.iter().any(|what| has(said, what));
    ending == Ending::Exit(1)
        && !asking.has_report()
        && said.is_some_and(|said| !said.is_empty() && !is_of_plugin(said))
}

/// Replaces the object of a compile that can be known by a ticket, and records with it what is known then.
fn make_known_ticket(
    memo: &Memo<'_>,
    (expected, asked): (&[Expected], &Asked<'_>),
    importer: &mut Importer<'_>,
    (captured, emitted): (Option<Captured>, Option<&Emitted>),
) {
    let mut outcome = None;
    match memo.observe(captured, emitted) {
        Some(Ok(observed)) => importer.observed = Some(observed),
        Some(Err(reason)) => outcome = Some(Err(reason)),
        None => {}
    }
    let made = make_tickets(expected, asked, importer);
    importer.observed = None;
    if let (Some(_), Some(outcome)) = (made, importer.recorded.take().or(outcome)) {
        memo.tell(importer, outcome);
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
