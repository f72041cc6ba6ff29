//! Several compiles in one call, and compiles with their link: `gcc -c a.c b.c`, `gcc a.c b.o -o program`.
//!
//! What such a call makes, no ticket can stand for, and nothing was known of it. So it is done in the steps that the driver
//! itself would take: each source is compiled by a call of its own, which may be known, and what these made is linked.
//! Objects of which only the link knows are in the directory for temporary files, as the driver's own; their tickets are of
//! the repository of the output's place.
//!
//! ```text
//! gcc -O2 a.c b.o -o program -lm  ─▶  repo-cc gcc -O2 -c a.c -o /tmp/ccXXXXXX.o
//!                                     repo-cc gcc -O2 /tmp/ccXXXXXX.o b.o -o program -lm
//! ```
//!
//! The steps have the driver's order, go on after a compile that failed as it does, and end as it ends. Where it is not plain
//! that they come to the same, the call is done as it stands: with an option that writes further files (they are named after
//! the output, or after the object), that is not known, or that is about one of the inputs only.

use super::classify::{self, Compile, Language, Source, Whole};
use super::compiler::Family;
use super::import::Importer;
use super::invocation::{Asked, Invocation};
use super::options::Meaning;
use super::publish::Expected;
use super::run::{self, Ending};
use super::{FAT_VARIABLE, INSIDE_CCACHE, linker_dir, memo, switches};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};
use tickets::file::{TicketFile, look_at};

/// The output of a link that names none.
const DEFAULT_OUTPUT: &str = "a.out";

/// Compiles without a link write their objects beside this one.
const ANY_OBJECT: &str = "a.o";

/// What clang has no use for where it does not link, and says so.
const ONLY_FOR_LINKS: [&str; 4] = ["-pie", "-no-pie", "-nopie", "-static-pie"];

/// Our own option for what only the link of the same call gets.
const TEMPORARY: &str = "--temporary";

/// Keeps clang from saying in a step what another step has use for.
const QUIET: &str = "-Qunused-arguments";

/// The steps of a call.
#[derive(Debug, PartialEq, Eq)]
pub struct Steps {
    /// What the call reads.
    inputs: Vec<OsString>,
    /// The arguments of each compile; if there is a link, without the output.
    compiles: Vec<Vec<OsString>>,
    /// That of what they made, if there is one.
    link: Option<Link>,
}

#[derive(Debug, PartialEq, Eq)]
struct Link {
    /// Its arguments, with the sources.
    args: Vec<OsString>,
    /// Which of these are sources.
    sources: Vec<usize>,
    /// What it makes.
    output: PathBuf,
}

/// The steps in which the call can be done; `is_of_cxx`: the driver is one of C++. In words why it is done as it stands, if it is one of several steps.
///
/// # Errors
/// `None` if it is a single step, or none of ours.
pub fn steps(
    family: Family,
    is_of_cxx: bool,
    args: &[OsString],
) -> Result<Steps, Option<&'static str>> {
    // What is in a file may be too much for a command line.
    if args.iter().any(|arg| arg.as_bytes().starts_with(b"@")) {
        return Err(None);
    }
    let whole = classify::whole(family, args).ok_or(None)?;
    let is_one_step = whole.compile_only && whole.sources.len() < 2;
    if is_one_step || whole.sources.is_empty() {
        return Err(None);
    }
    let is_c = |source: &Source| source.language == Language::C;
    if is_of_cxx && family == Family::Clang && whole.sources.iter().any(is_c) {
        // It warns of them all before it compiles the first.
        return Err(Some("C for clang++"));
    }
    why_not(&whole).map_or(Ok(()), |reason| Err(Some(reason)))?;
    let is_for_compiles = |word: &classify::Word| match word.meaning {
        _ if whole.compile_only => true,
        Meaning::Nothing | Meaning::Output => false,
        _ => family == Family::Gcc || !ONLY_FOR_LINKS.iter().any(|only| word.option == *only),
    };
    let words: Vec<OsString> = (whole.words.iter())
        .filter(|word| is_for_compiles(word))
        .flat_map(|word| std::iter::once(&word.option).chain(&word.arguments))
        .cloned()
        .collect();
    let names = whole.sources.iter().map(|source| &source.name);
    let others = (whole.for_linker.iter()).filter(|name| !name.as_bytes().starts_with(b"-"));
    let inputs = names.chain(others).cloned().collect();
    let is_clang = family == Family::Clang;
    let mut compiles = Vec::new();
    for source in &whole.sources {
        let mut compile = words.clone();
        if is_clang && !compiles.is_empty() {
            compile.insert(0, QUIET.into());
        }
        if !whole.compile_only {
            compile.push("-c".into());
        }
        compile.push(source.name.clone());
        compiles.push(compile);
    }
    if whole.compile_only {
        return Ok(Steps {
            inputs,
            compiles,
            link: None,
        });
    }
    let shift = usize::from(is_clang);
    let quiet = is_clang.then(|| QUIET.into());
    Ok(Steps {
        inputs,
        compiles,
        link: Some(Link {
            args: quiet.into_iter().chain(args.iter().cloned()).collect(),
            sources: (whole.sources.iter())
                .map(|source| source.position + shift)
                .collect(),
            output: whole.output.unwrap_or(DEFAULT_OUTPUT.into()).into(),
        }),
    })
}

/// Why a call is not done in steps.
fn why_not(whole: &Whole) -> Option<&'static str> {
    if let Some(reason) = whole.reason {
        return Some(reason);
    }
    let probe = Compile {
        words: whole.words.clone(),
        ..Compile::default()
    };
    if let Some(reason) = memo::key::why_not(&probe) {
        return Some(reason);
    }
    for word in &whole.words {
        match (word.option.as_bytes(), word.meaning) {
            (b"-pass-exit-codes", _) => return Some("-pass-exit-codes"),
            (b"-r", _) => return Some("a link with -r"),
            // It is named after the output, or after all outputs.
            (b"-MD" | b"-MMD" | b"-MP", _) if whole.compile_only => {}
            (_, Meaning::Dependencies) => return Some("a dependency file of several steps"),
            (b"-x" | b"--language", _) => return Some("-x"),
            (option, _) if option.starts_with(b"-x") || option.starts_with(b"--language=") => {
                return Some("-x");
            }
            _ => {}
        }
    }
    let is_lost = whole.compile_only && !whole.for_linker.is_empty();
    is_lost.then_some("an input for the linker, which compilers look for")
}

/// Does a call in steps, if that can be; returns if it cannot.
///
/// # Errors
/// If a step cannot be run.
pub fn carry_out(
    invocation: &Invocation,
    are_inner: bool,
    asked: &Asked<'_>,
) -> Result<(), (u8, String)> {
    let is_ours = invocation.lead.is_empty() && invocation.tool.is_none() && !are_inner;
    let Some(compiler) = (invocation.compiler.as_ref()).filter(|it| is_ours && it.our_target)
    else {
        return Ok(());
    };
    let is_other = |name: &str| env::var_os(name).is_some();
    if !switches::is_on() || is_other(INSIDE_CCACHE) {
        return Ok(());
    }
    let steps = match steps(
        compiler.family,
        invocation.is_driver_of_cxx(),
        &invocation.args,
    ) {
        Ok(steps) => steps,
        Err(reason) => {
            if let Some(reason) = reason {
                let shown = invocation.shown();
                let line = format_args!("{shown}: compiled each time: {reason}");
                asked.log.explain(line);
            }
            return Ok(());
        }
    };
    // What is missing, the driver says before it does anything.
    if !steps.inputs.iter().all(|name| Path::new(name).is_file()) {
        return Ok(());
    }
    let Some(means) = Means::find(&steps, compiler.family, asked) else {
        return Ok(());
    };
    if asked.log.wanted() {
        let count = steps.compiles.len() + usize::from(steps.link.is_some());
        let shown = invocation.shown();
        (asked.log).note(format_args!("{shown}: in {count} steps"));
    }
    let ending = means
        .run(&steps, &invocation.program.argv0, asked)
        .map_err(|error| invocation.cannot_run(error))?;
    // What follows does not come back.
    drop(means);
    run::end_like(ending)
}

/// What the steps are done with.
struct Means {
    /// This program.
    own: PathBuf,
    /// Where the objects are that only the link knows.
    objects: Vec<TempPath>,
    /// The repository of what is compiled, if a step would not look for that one, or say again which it does not use.
    repository: Option<PathBuf>,
}

impl Means {
    /// `None` if there is something missing, so that the driver should say what it has to say.
    fn find(steps: &Steps, family: Family, asked: &Asked<'_>) -> Option<Means> {
        let own = env::current_exe().ok()?;
        let output = steps
            .link
            .as_ref()
            .map_or(Path::new(ANY_OBJECT), |link| &link.output);
        let place = Expected::new(output.to_owned())?.absolute()?;
        let mut importer = Importer::new(asked);
        // If none can be used, the call as it stands says so, once.
        let repository = importer.repository_path(&place).ok()?;
        if steps.link.is_none() {
            let is_given = importer.has_told().then_some(repository);
            return Some(Means {
                own,
                objects: Vec::new(),
                repository: is_given.or(asked.repo.map(Path::to_owned)),
            });
        }
        // No other linker reads tickets.
        let repo_ld = linker_dir::find_repo_ld()?;
        if family == Family::Gcc {
            linker_dir::directory(&repo_ld).ok()?;
        }
        let object = || {
            let mut builder = tempfile::Builder::new();
            let object = builder.prefix("cc").suffix(".o").tempfile();
            // Closed: what somebody has open for writing stays an object.
            object.map(NamedTempFile::into_temp_path).ok()
        };
        Some(Means {
            own,
            objects: steps
                .compiles
                .iter()
                .map(|_| object())
                .collect::<Option<_>>()?,
            repository: Some(repository),
        })
    }

    fn run(&self, steps: &Steps, compiler: &OsStr, asked: &Asked<'_>) -> io::Result<Ending> {
        let repository = self.repository.as_deref();
        let run = |args: Vec<OsString>, repository, is_for_build| {
            self.step(
                repository,
                is_for_build,
                [vec![compiler.to_owned()], args].concat(),
                asked,
            )
        };
        if steps.link.is_some() && env::var_os(FAT_VARIABLE).is_some() {
            // SAFETY: this process has one thread; nobody reads the environment meanwhile. Nobody gets these objects.
            unsafe { env::remove_var(FAT_VARIABLE) };
        }
        // The first exit code that tells of a failure is the driver's.
        let mut worst = Ending::Exit(0);
        for (number, compile) in steps.compiles.iter().enumerate() {
            let mut args = compile.clone();
            if let Some(object) = self.objects.get(number) {
                args.extend(["-o".into(), object.as_os_str().to_owned()]);
            }
            match run(args, repository, steps.link.is_none())? {
                Ending::Exit(0) => {}
                ending @ Ending::Signal(_) => return Ok(ending),
                ending if worst == Ending::Exit(0) => worst = ending,
                _ => {}
            }
        }
        match &steps.link {
            Some(link) if worst == Ending::Exit(0) => {
                let mut args = link.args.clone();
                for (at, object) in link.sources.iter().zip(&self.objects) {
                    args[*at] = object.as_os_str().to_owned();
                }
                if !self.may_be_incremental(steps, link, asked) {
                    args.push("-Wl,--no-incremental".into());
                }
                run(args, asked.repo, false)
            }
            _ => Ok(worst),
        }
    }

    /// Whether the link would be incremental, were the sources no tickets for it: a program of one call need not become
    /// larger by the room for edits.
    fn may_be_incremental(&self, steps: &Steps, link: &Link, asked: &Asked<'_>) -> bool {
        let says =
            |word: &OsString| memchr::memmem::find(word.as_bytes(), b"incremental").is_some();
        let has_tickets = |name: &OsString| match look_at(Path::new(name)) {
            TicketFile::Ticket(_) => true,
            TicketFile::Archive { tickets, .. } => !tickets.is_empty(),
            _ => false,
        };
        asked.repo.is_some()
            || env::var_os("REPO_FILE").is_some_and(|file| !file.is_empty())
            || link.args.iter().any(says)
            || steps.inputs.iter().any(has_tickets)
    }

    /// Runs `repo-cc` for a step.
    fn step(
        &self,
        repository: Option<&Path>,
        is_for_build: bool,
        command: Vec<OsString>,
        asked: &Asked<'_>,
    ) -> io::Result<Ending> {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(repository) = repository {
            words.extend(["--repo".into(), repository.as_os_str().to_owned()]);
        }
        let log = asked.log;
        if let Some(file) = log.file.as_deref().filter(|_| log.asked) {
            words.extend(["--log".into(), file.as_os_str().to_owned()]);
        }
        for (option, is_asked) in [
            ("--verbose", log.verbose),
            ("--explain", log.explain),
            ("--fat", asked.fat && is_for_build),
            (TEMPORARY, !is_for_build),
            ("--verify", asked.pruning.fails),
        ] {
            if is_asked {
                words.push(option.into());
            }
        }
        words.extend(command);
        run::run(&self.own, OsStr::new("repo-cc"), &words, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    /// The steps, as lines.
    fn shown(family: Family, line: &str) -> Result<Vec<String>, Option<&'static str>> {
        let steps = steps(family, line.contains("cc"), &args(line))?;
        let joined = |words: &[OsString]| words.join(OsStr::new(" ")).into_string().unwrap();
        let link = steps.link.map(|link| {
            let mut words = link.args;
            for at in link.sources {
                words[at] = "OBJECT".into();
            }
            joined(&words)
        });
        let compiles = steps.compiles.iter().map(|words| joined(words));
        Ok(compiles.chain(link).collect())
    }

    #[test]
    fn sources_are_compiled_one_by_one() {
        let lines = |family, line| shown(family, line).unwrap();
        assert_eq!(
            lines(Family::Gcc, "-O2 -c -Wall a.c -I inc b.S"),
            ["-O2 -c -Wall -I inc a.c", "-O2 -c -Wall -I inc b.S"]
        );
        assert_eq!(
            lines(Family::Clang, "-MD -c a.cpp b.cc"),
            ["-MD -c a.cpp", "-Qunused-arguments -MD -c b.cc"]
        );
        assert_eq!(
            lines(
                Family::Gcc,
                "-g -pie a.c b.o -o p c.cc -DX=1 -L. -lm -Wl,-z,now -pthread"
            ),
            [
                "-g -pie -DX=1 -pthread -c a.c",
                "-g -pie -DX=1 -pthread -c c.cc",
                "-g -pie OBJECT b.o -o p OBJECT -DX=1 -L. -lm -Wl,-z,now -pthread",
            ]
        );
        assert_eq!(
            lines(Family::Clang, "-fPIC -shared a.c -o liba.so -static-pie -s"),
            [
                "-fPIC -c a.c",
                "-Qunused-arguments -fPIC -shared OBJECT -o liba.so -static-pie -s",
            ]
        );
    }

    #[test]
    fn what_is_doubtful_is_done_as_it_stands() {
        for line in [
            "-c a.c",
            "-c a.c b.o",
            "a.o -o p",
            "-E a.c",
            "-S a.c b.c",
            "@a.c",
            "--version",
            "",
        ] {
            assert_eq!(shown(Family::Gcc, line), Err(None), "{line}");
        }
        let of_clang = shown(Family::Clang, "-c a.cc b.c");
        assert!(matches!(of_clang, Err(Some(_))), "{of_clang:?}");
        for line in [
            "a.c -o p -MD",
            "a.c -o p -MMD -MF d",
            "-c a.c b.c -MD -MF d",
            "-c a.c b.c -o x.o",
            "-c a.c b.c d.o",
            "a.c -x c b -o p",
            "-xc a.c -o p",
            "a.c -flto -o p",
            "a.c -save-temps -o p",
            "a.c -gsplit-dwarf -o p",
            "a.c --coverage -o p",
            "a.c -specs=x -o p",
            "a.c -frecord-gcc-switches -o p",
            "a.c -v -o p",
            "a.c -r -o p.o",
            "a.c x.h -o p",
            "a.c b.f90 -o p",
            "conftest.c -o conftest",
            "/b/meson-private/tmpx1_y2/testfile.c -o /b/meson-private/tmpx1_y2/output.exe",
            "- a.c -o p",
            "a.c --not-known-here -o p",
        ] {
            let reason = shown(Family::Gcc, line);
            assert!(matches!(reason, Err(Some(_))), "{line}: {reason:?}");
        }
    }
}
