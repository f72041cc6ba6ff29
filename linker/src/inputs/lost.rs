//! Lost tickets: their repository is gone, or another one is in its place, or it does not have their compilation.
//!
//! `make` sees up-to-date files, so nothing but the link can mend that. A ticket that says how it was made, at the very path
//! where it was made, owned by the user and signed with the user's key, is made again by its command. All others are named
//! in one error; and those that a build can make again are set aside (`a.o.lost`), so that the next `make` does.

use super::{Found, describe};
use crate::diag::{Diagnostic, Diagnostics};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use tickets::Ticket;
use tickets::key::{self, Key};
use tickets::recipe::Recipe;

/// As many are named in an error.
const MOST_NAMED: usize = 8;

/// A lost ticket.
pub(super) struct Lost<'a> {
    /// Its place among the inputs that were opened with it.
    pub index: usize,
    pub found: Found<'a>,
    pub ticket: Ticket,
    /// What is wrong with its repository.
    pub why: String,
}

/// Makes tickets again by their commands, and returns the places of those that were. `repository` is the argument of
/// `--repo`.
pub(super) fn make_again(lost: &[Lost<'_>], repository: Option<&Path>) -> Vec<usize> {
    let Some(key) = user_key() else {
        return Vec::new();
    };
    // One command can make several.
    let mut commands: Vec<Recipe> = Vec::new();
    let mut by_command: HashMap<(PathBuf, Vec<OsString>), usize> = HashMap::new();
    let mut made: Vec<(usize, usize)> = Vec::new();
    for lost in lost {
        let Some(recipe) = lost.recipe(&key).filter(|recipe| lost.is_at(recipe)) else {
            continue;
        };
        let of = (recipe.directory.clone(), recipe.command.clone());
        let command = *by_command.entry(of).or_insert_with(|| {
            commands.push(recipe);
            commands.len() - 1
        });
        made.push((lost.index, command));
    }
    let (Some(first), false) = (lost.first(), made.is_empty()) else {
        return Vec::new();
    };
    crate::tell!(
        "repo-ld: {} lost ticket{} made again by the command that made it before (--no-remake: not); the first: {}: {}",
        made.len(),
        if made.len() == 1 { " is" } else { "s are" },
        describe(&first.found),
        first.why,
    );
    let succeeded = run_all(&commands, repository);
    made.retain(|(_, command)| succeeded[*command]);
    made.into_iter().map(|(index, _)| index).collect()
}

/// Reports lost tickets in one error, and sets aside what a build can make again.
pub(super) fn report(lost: &[Lost<'_>], diag: &Diagnostics) {
    let Some(first) = lost.first() else {
        return;
    };
    let key = user_key();
    let mut aside: Vec<PathBuf> = Vec::new();
    for lost in lost {
        let path = lost.found.path;
        if lost.found.member.is_none() {
            aside.extend(set_aside(path, &lost.ticket));
            continue;
        }
        // An archive is made of objects. If they are lost as well, it would only be made so again.
        let recipe = key.as_ref().and_then(|key| lost.recipe(key));
        if let Some(object) = recipe.and_then(|recipe| set_aside(&recipe.ticket, &lost.ticket)) {
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

impl Lost<'_> {
    /// How it was made, if the user's own `repo-cc` has said so.
    fn recipe(&self, key: &Key) -> Option<Recipe> {
        Recipe::decode_signed(&self.ticket.made, &self.ticket.repository, key)
    }

    /// Whether it is the very file that its recipe names, and the user's.
    fn is_at(&self, recipe: &Recipe) -> bool {
        self.found.member.is_none()
            && self.ticket.is_sealed
            && std::fs::canonicalize(self.found.path).is_ok_and(|path| path == recipe.ticket)
            && is_own(&recipe.ticket)
    }
}

fn user_key() -> Option<Key> {
    Key::read(&key::place()?).ok().flatten()
}

/// Whether a file is a regular one of the user's.
fn is_own(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.uid() == user)
}

/// Moves the file at `path` away if it is this ticket and the user's; returns where it was.
fn set_aside(path: &Path, ticket: &Ticket) -> Option<PathBuf> {
    let bytes = is_own(path).then(|| std::fs::read(path).ok()).flatten()?;
    let there = Ticket::parse(&bytes).ok().flatten()?;
    let is_same = (there.uuid, there.compilation) == (ticket.uuid, ticket.compilation);
    is_same.then(|| rename(path)).flatten()
}

fn rename(path: &Path) -> Option<PathBuf> {
    let mut name = path.file_name()?.to_owned();
    name.push(".lost");
    let is_done = is_own(path) && std::fs::rename(path, path.with_file_name(name)).is_ok();
    is_done.then(|| path.to_owned())
}

/// Runs the commands, as many at once as there are processors; returns which succeeded.
fn run_all(commands: &[Recipe], repository: Option<&Path>) -> Vec<bool> {
    let program = repo_cc();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut succeeded = Vec::new();
        while let Some(recipe) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
            let index = commands
                .iter()
                .position(|other| std::ptr::eq(other, recipe));
            if run(&program, recipe, repository) {
                succeeded.extend(index);
            }
        }
        succeeded
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
