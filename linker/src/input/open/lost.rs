//! Lost tickets: their repository is gone, or another one is in its place, or it does not have their compilation.
//!
//! `make` sees up-to-date files, so nothing but the link can mend that. A ticket that says how it was made, at the very path
//! where it was made, owned by the user and signed with the user's key, is made again by its command. So is the object that a
//! member of an archive of the same build was made of, and takes the member's place: libtool and cargo keep archives of whose
//! objects `make` knows nothing. All others are named
//! in one error; and those that a build can make again are set aside (`a.o.lost`), so that the next `make` does.
//!
//! A command that a file has kept runs only where nobody else could have had a hand in what it does: the signature says that
//! the user has run it there before; the directory in which it runs, that of the ticket, and those above them must be such
//! that others cannot put anything into them, or others in their place; and a command that would make other objects, too, runs
//! only if these are lost or gone, for they may be newer.
//!
//! `make -j` starts many links at once, and several may find the same tickets lost. Who makes some again has the directories
//! of these locked; the others wait, and find them made.

use super::found::{Found, describe};
use crate::messages::diag::{Diagnostic, Diagnostics};
use rustix::fs::FlockOperation;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use store::engine::open_to_others;
use tickets::Ticket;
use tickets::file::{TicketFile, look_at};
use tickets::key::{self, Key};
use tickets::recipe::Recipe;

/// As many are named in an error.
const MOST_NAMED: usize = 8;

/// So long another link is waited for that makes tickets in the same directory again.
const PATIENCE: Duration = Duration::from_secs(600);

/// The names under which a file is set aside: the first that nothing else has.
const ASIDE: [&str; 4] = [".lost", ".lost.2", ".lost.3", ".lost.4"];

/// A lost ticket.
pub(super) struct Lost<'a> {
    /// Its place among the inputs that were opened with it.
    pub index: usize,
    pub found: Found<'a>,
    pub ticket: Ticket,
    /// What is wrong with its repository.
    pub why: String,
    /// Why it is not made again by its command, if that is worth a word.
    pub not_again: Option<String>,
}

/// What was made again. As long as it lives nobody else makes anything again there.
#[derive(Default)]
pub(super) struct Again {
    /// The places of those that were, and the files that they are in now.
    pub files: HashMap<usize, PathBuf>,
    _locks: Vec<File>,
}

/// Makes tickets again by their commands. `repository` is the argument of `--repo`.
pub(super) fn make_again(lost: &mut [Lost<'_>], repository: Option<&Path>) -> Again {
    let key = match user_key() {
        Ok(Some(key)) => key,
        Ok(None) => return Again::default(),
        Err(why) => {
            for lost in lost.iter_mut().filter(|lost| !lost.ticket.made.is_empty()) {
                lost.not_again = Some(why.clone());
            }
            return Again::default();
        }
    };
    // By number: the file that is made again.
    let mut targets: HashMap<usize, PathBuf> = HashMap::new();
    // One command can make several.
    let mut commands: Vec<(Recipe, Vec<usize>)> = Vec::new();
    let mut by_command: HashMap<(PathBuf, Vec<OsString>), usize> = HashMap::new();
    let mut judged = HashMap::new();
    for (number, lost) in lost.iter_mut().enumerate() {
        let recipe = match lost.recipe_to_follow(&key, &mut judged) {
            Ok(recipe) => recipe,
            Err(why) => {
                lost.not_again = why;
                continue;
            }
        };
        targets.insert(number, recipe.ticket.clone());
        let of = (recipe.directory.clone(), recipe.command.clone());
        let command = *by_command.entry(of).or_insert_with(|| {
            commands.push((recipe, Vec::new()));
            commands.len() - 1
        });
        commands[command].1.push(number);
    }
    commands.retain(|(recipe, made)| {
        let is_lost = |path: &Path| {
            let mut files = made.iter().filter_map(|number| targets.get(number));
            files.any(|lost| lost == path)
        };
        let mut others = other_outputs(recipe).into_iter();
        let spared = others.rfind(|path| !is_lost(path) && path.exists());
        if let Some(spared) = &spared {
            for number in made {
                lost[*number].not_again = Some(format!(
                    "the command that made it would make {}, too, which is there",
                    spared.display()
                ));
            }
        }
        spared.is_none()
    });
    if commands.is_empty() {
        return Again::default();
    }
    let directories: BTreeSet<PathBuf> = commands
        .iter()
        .flat_map(|(_, made)| made)
        .filter_map(|number| Some(targets.get(number)?.parent()?.to_owned()))
        .collect();
    // In one order for all, so that nobody waits for who waits for him.
    let locks: Vec<File> = directories
        .iter()
        .filter_map(|directory| lock(directory, FlockOperation::NonBlockingLockExclusive))
        .collect();
    // Another link may have been faster; or a build, which has not put it into the archive yet.
    let is_done = |(_, made): &(Recipe, Vec<usize>)| {
        made.iter().all(|number| {
            let now = targets.get(number).map(std::fs::read);
            let Some(Ok(now)) = now else {
                return false;
            };
            !now.is_empty() && !lost[*number].is_same(&now)
        })
    };
    let (done, to_run): (Vec<_>, Vec<_>) = commands.into_iter().partition(is_done);
    let count: usize = to_run.iter().map(|(_, made)| made.len()).sum();
    if let Some(first) = to_run.iter().flat_map(|(_, made)| made).min() {
        let first = &lost[*first];
        crate::tell!(
            "repo-ld: {} again by the command that made it before (--no-remake: not); the first: {}: {}",
            match count {
                1 => "1 lost ticket is made".to_owned(),
                count => format!("{count} lost tickets are made"),
            },
            describe(&first.found),
            // What is to be done is being done.
            first
                .why
                .split("; build it again")
                .next()
                .unwrap_or_default(),
        );
    }
    let succeeded = run_all(&to_run, repository);
    let ran = to_run.iter().zip(&succeeded);
    let mut others: Vec<usize> = ran
        .filter(|(_, succeeded)| **succeeded)
        .flat_map(|((_, made), _)| made.iter().copied())
        .filter(|number| {
            let target = targets.get(number);
            target.is_some_and(|path| is_another(path, &lost[*number].ticket))
        })
        .collect();
    others.sort_unstable();
    tell_of_others(&others, lost);
    let made = to_run.iter().zip(succeeded);
    let made = made.filter_map(|(command, succeeded)| succeeded.then_some(command));
    let numbers = done.iter().chain(made).flat_map(|(_, made)| made);
    let files = numbers.filter_map(|number| Some((lost[*number].index, targets.remove(number)?)));
    Again {
        files: files.collect(),
        _locks: locks,
    }
}

/// Whether the ticket that was made again stands for something else than the lost one did.
fn is_another(path: &Path, lost: &Ticket) -> bool {
    match look_at(path) {
        TicketFile::Ticket(now) => now.compilation != lost.compilation,
        _ => true,
    }
}

/// A command does not say all that a compiler reads: sources may have been edited since, and variables be others (`CPATH`). So
/// the program may be another than these tickets were for, which is not to be found out by running it.
fn tell_of_others(others: &[usize], lost: &[Lost<'_>]) {
    if others.is_empty() {
        return;
    }
    let mut names: Vec<String> = others
        .iter()
        .take(MOST_NAMED)
        .map(|number| describe(&lost[*number].found))
        .collect();
    if others.len() > MOST_NAMED {
        names.push("…".to_owned());
    }
    crate::tell!(
        "repo-ld: warning: made again, and not what the lost tickets stood for, as sources, the compiler or the environment are not \
         the same any more: {}",
        names.join(", ")
    );
}

/// If another link is making tickets in the directory of a file again just now, waits until it has done, and returns true: what is
/// not whole may be so then.
pub(super) fn was_being_made(path: &Path) -> bool {
    let Some(directory) = std::fs::canonicalize(path)
        .ok()
        .and_then(|path| Some(path.parent()?.to_owned()))
    else {
        return false;
    };
    let Ok(opened) = File::open(&directory) else {
        return false;
    };
    match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => {
            lock(&directory, FlockOperation::NonBlockingLockShared).is_some()
        }
        _ => false,
    }
}

/// Locks a directory against others who make something again in it. `None` if that cannot be, or takes too long: it is only
/// a matter of good manners.
fn lock(directory: &Path, how: FlockOperation) -> Option<File> {
    let opened = File::open(directory).ok()?;
    let start = Instant::now();
    let mut told = false;
    loop {
        match rustix::fs::flock(&opened, how) {
            Ok(()) => return Some(opened),
            Err(rustix::io::Errno::WOULDBLOCK) if start.elapsed() < PATIENCE => {}
            Err(_) => return None,
        }
        if !told && start.elapsed() > Duration::from_secs(2) {
            told = true;
            crate::tell!(
                "repo-ld: waiting for another link that makes lost tickets in {} again",
                directory.display()
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reports lost tickets in one error, and sets aside what a build can make again.
pub(super) fn report(lost: &[Lost<'_>], diag: &Diagnostics) {
    let Some(first) = lost.first() else {
        return;
    };
    let key = user_key().ok().flatten();
    let mut aside: Vec<PathBuf> = Vec::new();
    let mut elsewhere: Option<String> = None;
    for lost in lost {
        let path = lost.found.path;
        if lost.found.member.is_none() {
            aside.extend(set_aside(path, &lost.ticket));
            continue;
        }
        // An archive is made of objects. If they are lost as well, it would only be made so again.
        let Some(recipe) = key.as_ref().and_then(|key| lost.recipe(key)) else {
            continue;
        };
        if !is_of_build(path, &recipe) {
            // What was installed no build here makes again.
            elsewhere.get_or_insert_with(|| {
                format!(
                    "{} was made in {}, by: {}; build it there from clean, and install it again",
                    describe(&lost.found),
                    recipe.directory.display(),
                    recipe.shown()
                )
            });
            continue;
        }
        if let Some(object) = set_aside(&recipe.ticket, &lost.ticket) {
            aside.push(object);
            aside.extend(path.exists().then(|| rename(path)).flatten());
        }
    }
    let mut diagnostic = match lost {
        [_] => Diagnostic::error(format!("{}: {}", describe(&first.found), first.why)),
        _ => {
            let mut names = String::new();
            for lost in lost.iter().take(MOST_NAMED) {
                let _ = write!(names, "{}, ", describe(&lost.found));
            }
            match lost.len().saturating_sub(MOST_NAMED) {
                0 => names.truncate(names.len() - 2),
                more => names = format!("{names}and {more} more"),
            }
            Diagnostic::error(format!(
                "{} tickets are lost: {names}; the first: {}",
                lost.len(),
                first.why
            ))
        }
    };
    if let Some((lost, why)) = lost
        .iter()
        .find_map(|lost| Some((lost, lost.not_again.as_ref()?)))
    {
        diagnostic = diagnostic.note(format!(
            "{}: the command that made it is not run: {why}",
            describe(&lost.found)
        ));
    }
    if let Some(elsewhere) = elsewhere {
        diagnostic = diagnostic.note(elsewhere);
    }
    if !aside.is_empty() {
        let shown: Vec<_> = aside
            .iter()
            .take(MOST_NAMED)
            .map(|path| path.display().to_string())
            .collect();
        let more = match aside.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        diagnostic = diagnostic.note(format!(
            "set aside, so that the next build makes them: {}{more}; start the build again",
            shown.join(", ")
        ));
    }
    diag.report(diagnostic);
}

/// What [`open_to_others`] has said of directories.
type Judged = HashMap<PathBuf, Option<String>>;

impl Lost<'_> {
    /// How it was made, if the user's own `repo-cc` has said so.
    fn recipe(&self, key: &Key) -> Option<Recipe> {
        Recipe::decode_signed(&self.ticket.made, &self.ticket.repository, key)
    }

    /// Whether a file is this ticket, or still as lost as it.
    fn is_same(&self, bytes: &[u8]) -> bool {
        match Ticket::parse(bytes) {
            Ok(Some(there)) => {
                (there.uuid, there.compilation) == (self.ticket.uuid, self.ticket.compilation)
            }
            _ => false,
        }
    }

    /// How it was made, if that may be done again; or why not, if that is worth a word.
    fn recipe_to_follow(&self, key: &Key, judged: &mut Judged) -> Result<Recipe, Option<String>> {
        if self.ticket.made.is_empty() {
            return Err(None);
        }
        let Some(recipe) = self.recipe(key) else {
            return Err(Some("it was made with another key than yours".to_owned()));
        };
        if !self.ticket.is_sealed {
            return Err(Some("another tool has changed it".to_owned()));
        }
        let made_as = || format!("it was made as {}", recipe.ticket.display());
        match self.found.member {
            None => match std::fs::canonicalize(self.found.path) {
                Ok(path) if path == recipe.ticket => {}
                _ => return Err(Some(made_as())),
            },
            Some(_) => {
                if !is_of_build(self.found.path, &recipe) {
                    return Err(None);
                }
                // The member is a copy: it is the file that may be made again, if it is still the one that was copied, or has
                // been made again since by the same command.
                let there = is_own(&recipe.ticket)
                    && std::fs::canonicalize(&recipe.ticket)
                        .is_ok_and(|path| path == recipe.ticket);
                let bytes = there.then(|| std::fs::read(&recipe.ticket).ok()).flatten();
                let Some(bytes) = bytes else {
                    return Err(Some(format!("{}, which is not there", made_as())));
                };
                let ticket = Ticket::parse(&bytes).ok().flatten();
                let is_successor = ticket.is_some_and(|ticket| {
                    let made = Recipe::decode_signed(&ticket.made, &ticket.repository, key);
                    ticket.is_sealed && made.is_some_and(|made| made == recipe)
                });
                if !is_successor {
                    return Err(Some(format!("{}, which is another file now", made_as())));
                }
            }
        }
        if !is_own(&recipe.ticket) {
            return Err(Some("it belongs to another user".to_owned()));
        }
        if !recipe.directory.is_dir() {
            return Err(Some(format!(
                "the directory {}, in which it was made, is gone",
                recipe.directory.display()
            )));
        }
        let directories = [Some(&*recipe.directory), recipe.ticket.parent()];
        for directory in directories.into_iter().flatten() {
            let why = judged.entry(directory.to_owned()).or_insert_with(|| {
                let real = std::fs::canonicalize(directory);
                match real.and_then(|real| open_to_others(&real)) {
                    Ok(None) => None,
                    Ok(Some((open, why))) => Some(format!("{}: {why}", open.display())),
                    Err(error) => Some(format!("{}: {error}", directory.display())),
                }
            });
            if let Some(why) = why {
                return Err(Some(why.clone()));
            }
        }
        Ok(recipe)
    }
}

/// The user's key; `None` if there is none.
fn user_key() -> Result<Option<Key>, String> {
    match key::place() {
        Some(place) => Key::read(&place).map_err(|error| format!("{}: {error}", place.display())),
        None => Ok(None),
    }
}

/// Whether a file is a regular one of the user's.
fn is_own(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.uid() == user)
}

/// The objects, beside the ticket, that a command makes which names no output: one for each source.
fn other_outputs(recipe: &Recipe) -> Vec<PathBuf> {
    const SOURCES: [&str; 14] = [
        "c", "cc", "cp", "cxx", "cpp", "c++", "C", "i", "ii", "s", "S", "sx", "m", "mm",
    ];
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let words: Vec<String> = recipe.command.iter().map(text).collect();
    let names_output = words
        .iter()
        .any(|word| word.starts_with("-o") || word.starts_with("--output"));
    if names_output {
        return Vec::new();
    }
    let sources = words.iter().map(Path::new).filter(|word| {
        let extension = word.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| SOURCES.contains(&extension))
    });
    let directory = std::fs::canonicalize(&recipe.directory);
    let directory = directory.unwrap_or_else(|_| recipe.directory.clone());
    sources
        .filter_map(|source| {
            let name = Path::new(source.file_stem()?).with_extension("o");
            // `with_extension` takes away what is behind another dot in the name.
            let name = match source.file_stem()?.to_string_lossy() {
                stem if stem.contains('.') => format!("{stem}.o").into(),
                _ => name,
            };
            Some(directory.join(name))
        })
        .filter(|path| *path != recipe.ticket)
        .collect()
}

/// Whether an archive is where a build may have put what it makes: the archive below the directory of the command that made a
/// member, or the other way round; or both in what cargo makes.
fn is_of_build(archive: &Path, recipe: &Recipe) -> bool {
    // It may have been set aside already.
    let name = archive.file_name().unwrap_or_default();
    let above = archive.parent().filter(|above| *above != Path::new(""));
    let Ok(above) = std::fs::canonicalize(above.unwrap_or(Path::new("."))) else {
        return false;
    };
    let archive = above.join(name);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    archive.starts_with(&recipe.directory)
        || archive.parent().is_some_and(|above| {
            let is_project = above.parent().is_some() && Some(above) != home.as_deref();
            is_project && recipe.directory.starts_with(above)
        })
        || archive.ancestors().any(|above| {
            recipe.ticket.starts_with(above) && above.join(".rustc_info.json").is_file()
        })
}

/// Moves the file at `path` away if it is this ticket and the user's; returns where it was.
fn set_aside(path: &Path, ticket: &Ticket) -> Option<PathBuf> {
    let bytes = is_own(path).then(|| std::fs::read(path).ok()).flatten()?;
    let there = Ticket::parse(&bytes).ok().flatten()?;
    let is_same = (there.uuid, there.compilation) == (ticket.uuid, ticket.compilation);
    is_same.then(|| rename(path)).flatten()
}

/// Renames a file of the user's; over one that was set aside before, and over nothing else.
fn rename(path: &Path) -> Option<PathBuf> {
    let names = ASIDE.iter().filter_map(|suffix| {
        let mut name = path.file_name()?.to_owned();
        name.push(suffix);
        Some(path.with_file_name(name))
    });
    let is_free = |name: &PathBuf| match look_at(name) {
        TicketFile::Gone => name.symlink_metadata().is_err(),
        TicketFile::Ticket(_) => is_own(name),
        TicketFile::Archive { tickets, .. } => !tickets.is_empty() && is_own(name),
        _ => false,
    };
    let aside = names.into_iter().find(is_free)?;
    let is_done = is_own(path) && std::fs::rename(path, aside).is_ok();
    if is_done {
        forget_in_libtool(path);
    }
    is_done.then(|| path.to_owned())
}

/// What libtool makes is in `.libs`, and what `make` knows of it a text file above: that goes, too, or the build would take it for
/// the other.
fn forget_in_libtool(path: &Path) {
    let kind = match path.extension().and_then(|extension| extension.to_str()) {
        Some("o") => "lo",
        Some("a") => "la",
        _ => return,
    };
    // libtool is called in the directory above.
    let directory = path.parent().unwrap_or(Path::new(""));
    let directory = match directory.file_name() {
        Some(_) => directory.to_owned(),
        None => std::env::current_dir().unwrap_or_default(),
    };
    let above = match directory.file_name() {
        Some(name) if name == ".libs" || name == "_libs" => directory.with_file_name(""),
        // The object without `-fPIC` is beside the text file.
        _ if kind == "lo" => directory,
        _ => return,
    };
    let Some(known) = path
        .file_stem()
        .map(|stem| above.join(stem).with_extension(kind))
    else {
        return;
    };
    // `with_extension` would take away what is behind a dot in the stem: then it is another file, or none.
    let begins = |text: String| text.starts_with("# ") && text.contains(" libtool ");
    if is_own(&known) && std::fs::read_to_string(&known).is_ok_and(begins) {
        let _ = std::fs::remove_file(&known);
    }
}

/// Runs the commands, as many at once as there are processors; returns which succeeded.
fn run_all(commands: &[(Recipe, Vec<usize>)], repository: Option<&Path>) -> Vec<bool> {
    let program = repo_cc();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut succeeded = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((recipe, _)) = commands.get(index) else {
                return succeeded;
            };
            if run(&program, recipe, repository) {
                succeeded.push(index);
            }
        }
    };
    let mut all = vec![false; commands.len()];
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.min(commands.len()))
            .map(|_| scope.spawn(work))
            .collect();
        for index in threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_default())
        {
            all[index] = true;
        }
    });
    all
}

/// Runs one command through `repo-cc`, as a build would: without what compilers set for their linkers.
fn run(program: &Path, recipe: &Recipe, repository: Option<&Path>) -> bool {
    let mut command = Command::new(program);
    command
        .args(&recipe.command)
        .current_dir(&recipe.directory)
        .stdin(Stdio::null());
    for name in [
        "REPO_CC_CHOSEN",
        "COLLECT_GCC",
        "COLLECT_GCC_OPTIONS",
        "COLLECT_LTO_WRAPPER",
        "COMPILER_PATH",
    ] {
        command.env_remove(name);
    }
    if let Some(repository) = repository.and_then(|path| std::path::absolute(path).ok()) {
        command.env("REPO_FILE", repository);
    }
    match command.status() {
        Ok(status) if status.success() => true,
        Ok(_) => {
            let directory = recipe.directory.display();
            crate::tell!(
                "repo-ld: in {directory}: failed: repo-cc {}",
                recipe.shown()
            );
            false
        }
        Err(error) => {
            crate::tell!("repo-ld: {}: {error}", program.display());
            false
        }
    }
}

/// The `repo-cc` beside this program, else that on `PATH`.
fn repo_cc() -> PathBuf {
    std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name("repo-cc"))
        .filter(|path| path.is_file())
        .unwrap_or_else(|| "repo-cc".into())
}
