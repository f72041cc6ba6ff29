//! Errors and warnings: collected from any thread, shown in an order that does not depend on threads.
//!
//! Phases report into one [`Diagnostics`]; the driver calls [`Diagnostics::flush`] where it must know whether to go on.
//! What was reported in between is sorted by the place that each message names ([`Order`]) and by its text, identical
//! messages are shown once, and of many only the first in that order ([`DiagOptions::limit`]), so that the same
//! link always says the same. Undefined symbols are gathered by symbol: one message each, with a few references.
//!
//! The forms are `repo-ld: error: …` and `repo-ld: warning: …`, with explaining lines that begin with `>>>`.
//! GNU ld's phrases ("undefined reference to", "multiple definition of") are kept in one explaining line of each message,
//! because build scripts look for them.

mod demangle;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{Display, Write as _};
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::args::{Args, Color};
use crate::base::edit_distance::edit_distance;
pub use demangle::demangle;

/// References to one undefined symbol that are shown.
pub const SHOWN_REFERENCES: usize = 3;

/// How grave a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The output is good, and something is odd.
    Warning,
    /// There is no output.
    Error,
}

/// The place by which messages are sorted: an input's index, then an offset in it. Messages without a place come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Order {
    /// The input's index on the command line, or any other number that is the same at every run; counted from 1.
    pub input: u32,
    /// A position in it.
    pub offset: u64,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// The text: lower case, names the file and the place or symbol, no final full stop.
    pub message: String,
    /// Explaining lines, shown after `>>> `.
    pub notes: Vec<String>,
    /// Where in the order of messages it belongs.
    pub order: Order,
    /// An error in spite of which the output can be used, if one insists (`--noinhibit-exec`).
    pub pardonable: bool,
    /// It is about files that it names, and holds as long as these are as they are, whatever becomes of others.
    pub lasting: bool,
}

impl Diagnostic {
    /// An error.
    pub fn error(message: impl Display) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.to_string(),
            notes: Vec::new(),
            order: Order::default(),
            pardonable: false,
            lasting: false,
        }
    }

    /// A warning.
    pub fn warning(message: impl Display) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(message)
        }
    }

    /// Adds an explaining line.
    pub fn note(mut self, note: impl Display) -> Diagnostic {
        self.notes.push(note.to_string());
        self
    }

    /// Says that the output can be used in spite of it.
    pub fn pardonable(mut self) -> Diagnostic {
        self.pardonable = true;
        self
    }

    /// Says that it holds as long as the files are as they are that it names.
    pub fn lasting(mut self) -> Diagnostic {
        self.lasting = true;
        self
    }

    /// Says where it belongs.
    pub fn at(mut self, input: u32, offset: u64) -> Diagnostic {
        self.order = Order { input, offset };
        self
    }
}

/// A place in the inputs that mentions or defines a symbol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// For sorting.
    pub order: Order,
    /// The file, `archive(member)` for a member.
    pub file: String,
    /// The source line (`src/main.c:12`), if debug information has it.
    pub source: Option<String>,
    /// The function that it is in, as in the file (shown demangled).
    pub function: Option<Vec<u8>>,
    /// The section and the offset in it, if known.
    pub section: Option<(String, u64)>,
}

impl Place {
    /// A place of which only the file is known.
    pub fn file(file: impl Into<String>) -> Place {
        Place {
            file: file.into(),
            ..Place::default()
        }
    }

    /// The lines of a note that something is referred to from here.
    fn referred_to(&self, names: &Names, saying: &str) -> String {
        let described = self.describe(names);
        match &self.source {
            Some(source) => {
                format!("referenced by {source}\n>>>               {described}{saying}")
            }
            None => format!("referenced by {described}{saying}"),
        }
    }

    /// `main.o:(function main: .text.main+0x12)`.
    fn describe(&self, names: &Names) -> String {
        let mut out = self.file.clone();
        let section = self
            .section
            .as_ref()
            .map(|(name, offset)| format!("{name}+{offset:#x}"));
        let _ = match (&self.function, section) {
            (Some(function), Some(section)) => {
                write!(out, ":(function {}: {section})", names.show(function))
            }
            (Some(function), None) => write!(out, ":(function {})", names.show(function)),
            (None, Some(section)) => write!(out, ":({section})"),
            (None, None) => Ok(()),
        };
        out
    }
}

/// How messages are shown and counted.
#[derive(Clone, Debug)]
pub struct DiagOptions {
    /// Warnings become errors.
    pub fatal_warnings: bool,
    /// Warnings are not shown. Overrides `fatal_warnings`, as GNU ld's manual says of `-w`.
    pub no_warnings: bool,
    /// Errors in spite of which the output can be used become warnings (`--noinhibit-exec`).
    pub noinhibit_exec: bool,
    /// Names are shown demangled.
    pub demangle: bool,
    /// With escape sequences.
    pub color: bool,
    /// How many messages of each severity a flush shows; 0 for all.
    pub limit: usize,
}

impl DiagOptions {
    /// As the command line says, for messages on standard error.
    pub fn from_args(args: &Args) -> DiagOptions {
        let color = match args.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                io::stderr().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        };
        DiagOptions {
            fatal_warnings: args.fatal_warnings,
            no_warnings: args.no_warnings,
            noinhibit_exec: args.noinhibit_exec,
            demangle: args.demangle,
            color,
            limit: args.error_limit,
        }
    }
}

impl Default for DiagOptions {
    fn default() -> Self {
        DiagOptions {
            fatal_warnings: false,
            no_warnings: false,
            noinhibit_exec: false,
            demangle: true,
            color: false,
            limit: 20,
        }
    }
}

/// Shows names demangled or not.
struct Names {
    demangle: bool,
}

impl Names {
    fn show(&self, name: &[u8]) -> String {
        if self.demangle {
            demangle(name).into_owned()
        } else {
            String::from_utf8_lossy(name).into_owned()
        }
    }
}

/// A message ready to be shown; the fields' order is that of showing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    order: Order,
    text: String,
}

/// The messages of one severity: the first `limit` in order, and how many there are beyond.
#[derive(Debug, Default)]
struct Bounded {
    entries: BTreeSet<Entry>,
    dropped: usize,
}

impl Bounded {
    fn add(&mut self, entry: Entry, limit: usize) {
        if self.entries.insert(entry) && limit != 0 && self.entries.len() > limit {
            self.entries.pop_last();
            self.dropped += 1;
        }
    }
}

/// References to one undefined symbol.
#[derive(Debug)]
struct Undefined {
    severity: Severity,
    /// The first few in order.
    references: BTreeSet<Place>,
    count: usize,
    hint: Option<String>,
}

#[derive(Debug, Default)]
struct Collected {
    errors: Bounded,
    warnings: Bounded,
    undefined: HashMap<Vec<u8>, Undefined>,
    lasting: Vec<(Order, String)>,
}

/// The collector. Shared by reference between threads.
#[derive(Debug)]
pub struct Diagnostics {
    options: DiagOptions,
    collected: Mutex<Collected>,
    errors: AtomicUsize,
    warnings: AtomicUsize,
}

impl Diagnostics {
    /// An empty collector.
    pub fn new(options: DiagOptions) -> Diagnostics {
        Diagnostics {
            options,
            collected: Mutex::default(),
            errors: AtomicUsize::new(0),
            warnings: AtomicUsize::new(0),
        }
    }

    /// Reports an error without place or notes.
    pub fn error(&self, message: impl Display) {
        self.report(Diagnostic::error(message));
    }

    /// Reports an error without place or notes, in spite of which the output can be used.
    pub fn pardonable(&self, message: impl Display) {
        self.report(Diagnostic::error(message).pardonable());
    }

    /// Reports a warning without place or notes.
    pub fn warn(&self, message: impl Display) {
        self.report(Diagnostic::warning(message));
    }

    /// Reports a warning that [lasts](Diagnostic::lasting) about what is at a place.
    pub fn warn_at(&self, message: impl Display, place: &Place) {
        let warning = Diagnostic::warning(message).note(place.referred_to(&self.names(), ""));
        let order = place.order;
        self.report(warning.lasting().at(order.input, order.offset));
    }

    /// Reports a message.
    pub fn report(&self, diagnostic: Diagnostic) {
        let Some(severity) = self.count(diagnostic.severity, diagnostic.pardonable) else {
            return;
        };
        let mut text = diagnostic.message;
        for note in diagnostic.notes {
            text.push_str("\n>>> ");
            text.push_str(&note);
        }
        if diagnostic.lasting && severity == Severity::Warning {
            let lasting = (diagnostic.order, text.clone());
            self.collected.lock().lasting.push(lasting);
        }
        self.add(
            severity,
            Entry {
                order: diagnostic.order,
                text,
            },
        );
    }

    /// Reports a reference to a symbol that nothing defines. All references to one symbol become one message.
    pub fn undefined(&self, severity: Severity, symbol: &[u8], reference: Place) {
        let Some(severity) = self.count(severity, true) else {
            return;
        };
        let mut collected = self.collected.lock();
        if !collected.undefined.contains_key(symbol) {
            let new = Undefined {
                severity,
                references: BTreeSet::new(),
                count: 0,
                hint: None,
            };
            collected.undefined.insert(symbol.to_vec(), new);
        }
        if let Some(undefined) = collected.undefined.get_mut(symbol) {
            undefined.severity = undefined.severity.max(severity);
            undefined.count += 1;
            undefined.references.insert(reference);
            if undefined.references.len() > SHOWN_REFERENCES {
                undefined.references.pop_last();
            }
        }
    }

    /// The symbols reported by [`Diagnostics::undefined`] since the last flush, sorted: for finding hints.
    pub fn undefined_symbols(&self) -> Vec<Vec<u8>> {
        let mut symbols: Vec<Vec<u8>> = self.collected.lock().undefined.keys().cloned().collect();
        symbols.sort_unstable();
        symbols
    }

    /// Explains an undefined symbol: a similar name, a definition that nobody can see. The first explanation stays.
    pub fn hint(&self, symbol: &[u8], hint: impl Into<String>) {
        if let Some(undefined) = self.collected.lock().undefined.get_mut(symbol) {
            undefined.hint.get_or_insert_with(|| hint.into());
        }
    }

    /// Reports two definitions of one symbol.
    pub fn duplicate(&self, symbol: &[u8], first: &Place, second: &Place) {
        let names = self.names();
        let shown = names.show(symbol);
        let line = |place: &Place| match &place.source {
            Some(source) => format!("defined at {source} ({})", place.describe(&names)),
            None => format!("defined in {}", place.describe(&names)),
        };
        self.report(
            Diagnostic::error(format_args!("duplicate symbol: {shown}"))
                .note(line(first))
                .note(format_args!(
                    "{}: multiple definition of `{shown}'",
                    line(second)
                ))
                .at(second.order.input, second.order.offset)
                .pardonable(),
        );
    }

    /// The name as messages show it.
    pub fn show_name(&self, name: &[u8]) -> String {
        self.names().show(name)
    }

    /// Whether any error was reported, shown already or not.
    pub fn has_errors(&self) -> bool {
        self.errors.load(Ordering::Relaxed) != 0
    }

    /// How many errors were reported; an undefined symbol counts once for each reference.
    pub fn error_count(&self) -> usize {
        self.errors.load(Ordering::Relaxed)
    }

    /// The warnings that [last](Diagnostic::lasting), as many as were reported since the last flush.
    pub fn lasting(&self) -> Vec<String> {
        let mut lasting = self.collected.lock().lasting.clone();
        lasting.sort_unstable();
        lasting.into_iter().map(|(_, text)| text).collect()
    }

    /// How many warnings were reported.
    pub fn warning_count(&self) -> usize {
        self.warnings.load(Ordering::Relaxed)
    }

    /// What the program's exit status shall be.
    pub fn exit_code(&self) -> u8 {
        u8::from(self.has_errors())
    }

    /// Forgets everything reported since the last flush, for a link that is tried again.
    pub fn forget(&self) {
        *self.collected.lock() = Collected::default();
        self.errors.store(0, Ordering::Relaxed);
        self.warnings.store(0, Ordering::Relaxed);
    }

    /// Shows everything reported since the last flush.
    ///
    /// # Errors
    /// If `out` cannot be written; the messages are gone then.
    pub fn flush(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let Collected {
            mut errors,
            mut warnings,
            undefined,
            lasting: _,
        } = std::mem::take(&mut *self.collected.lock());
        // By symbol, so that nothing depends on the hash map's order.
        for (symbol, undefined) in undefined.into_iter().collect::<BTreeMap<_, _>>() {
            let entry = self.undefined_entry(&symbol, &undefined);
            match undefined.severity {
                Severity::Error => errors.add(entry, self.options.limit),
                Severity::Warning => warnings.add(entry, self.options.limit),
            }
        }
        let mut text = String::new();
        for (severity, list) in [(Severity::Warning, &warnings), (Severity::Error, &errors)] {
            for entry in &list.entries {
                self.render(severity, &entry.text, &mut text);
            }
            if list.dropped != 0 {
                let kind = if severity == Severity::Error {
                    "errors"
                } else {
                    "warnings"
                };
                let more = format!(
                    "{} more {kind} are not shown (--error-limit=0 shows all)",
                    list.dropped
                );
                self.render(severity, &more, &mut text);
            }
        }
        out.write_all(text.as_bytes())
    }

    /// Shows everything on standard error.
    pub fn flush_to_stderr(&self) {
        // Nobody is left to tell if standard error is closed.
        let _ = self.flush(&mut io::stderr().lock());
    }

    fn names(&self) -> Names {
        Names {
            demangle: self.options.demangle,
        }
    }

    /// Counts a message, and says how grave it is with the options; `None` if it is not shown at all.
    fn count(&self, severity: Severity, pardonable: bool) -> Option<Severity> {
        let severity = match severity {
            Severity::Warning if self.options.no_warnings => return None,
            Severity::Warning if self.options.fatal_warnings => Severity::Error,
            Severity::Error if self.options.noinhibit_exec && pardonable => Severity::Warning,
            severity => severity,
        };
        let counter = if severity == Severity::Error {
            &self.errors
        } else {
            &self.warnings
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Some(severity)
    }

    fn add(&self, severity: Severity, entry: Entry) {
        let mut collected = self.collected.lock();
        let list = match severity {
            Severity::Error => &mut collected.errors,
            Severity::Warning => &mut collected.warnings,
        };
        list.add(entry, self.options.limit);
    }

    fn undefined_entry(&self, symbol: &[u8], undefined: &Undefined) -> Entry {
        let names = self.names();
        let shown = names.show(symbol);
        let mut text = format!("undefined symbol: {shown}");
        let mut saying = format!(": undefined reference to `{shown}'");
        for place in &undefined.references {
            let _ = write!(text, "\n>>> {}", place.referred_to(&names, &saying));
            // Once is enough for who looks for the phrase.
            saying.clear();
        }
        let more = undefined.count - undefined.references.len().min(undefined.count);
        if more != 0 {
            let times = if more == 1 { "time" } else { "times" };
            let _ = write!(text, "\n>>> referenced {more} more {times}");
        }
        if let Some(hint) = &undefined.hint {
            let _ = write!(text, "\n>>> {hint}");
        }
        let order = undefined
            .references
            .first()
            .map_or(Order::default(), |place| place.order);
        Entry { order, text }
    }

    fn render(&self, severity: Severity, text: &str, out: &mut String) {
        let (kind, paint) = match severity {
            Severity::Error => ("error", "\x1b[1;31m"),
            Severity::Warning => ("warning", "\x1b[1;35m"),
        };
        // Names come from files: no control character of theirs reaches the terminal.
        let text: String = text
            .chars()
            .map(|c| {
                if c.is_control() && c != '\n' {
                    char::REPLACEMENT_CHARACTER
                } else {
                    c
                }
            })
            .collect();
        let _ = if self.options.color {
            writeln!(out, "\x1b[1mrepo-ld: {paint}{kind}:\x1b[0m {text}")
        } else {
            writeln!(out, "repo-ld: {kind}: {text}")
        };
    }
}

/// The name most like `name` among `candidates`, for a hint: at most one in five characters differs. Names that differ
/// only in leading underscores or letter case count as very like.
pub fn near_name<'a>(name: &[u8], candidates: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let allowed = name.len() / 5;
    let mut best: Option<(usize, &[u8])> = None;
    for candidate in candidates {
        if candidate == name || candidate.is_empty() {
            continue;
        }
        let distance = if strip_underscores(candidate).eq_ignore_ascii_case(strip_underscores(name))
        {
            0
        } else if candidate.len().abs_diff(name.len()) > allowed {
            continue;
        } else {
            edit_distance(name, candidate)
        };
        if distance <= allowed.max(1)
            && distance * 2 < name.len()
            && best.is_none_or(|old| (distance, candidate) < old)
        {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

fn strip_underscores(name: &[u8]) -> &[u8] {
    let start = name
        .iter()
        .position(|byte| *byte != b'_')
        .unwrap_or(name.len());
    &name[start..]
}

#[cfg(test)]
mod tests;
