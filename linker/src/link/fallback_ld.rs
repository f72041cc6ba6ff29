//! The ordinary road for what this linker does not make: another linker of the system does it.
//!
//! Whoever has `repo-ld` in place of `ld` still builds the odd 32-bit object: the start code of an x86-64 kernel, a
//! `-m32` library, a firmware. These come with an emulation (`-m elf_i386`) that GNU ld and lld know. The first of them
//! that is found is run in place of this process, with the same arguments.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The names that they have; the last is most likely this program's own.
const NAMES: &[&str] = &["ld.bfd", "ld.lld", "x86_64-linux-gnu-ld.bfd", "ld"];

/// Where they are, if not on `PATH`.
const USUAL: &str = "/usr/local/bin:/usr/bin:/bin";

/// Set for the linker that is run: if that is this program once more (under another name, or a script that calls it),
/// it does not go on for ever.
const CALLED: &str = "REPO_LD_CALLED_FOR_ANOTHER";

/// Becomes another linker. Returns only if there is none, or it cannot be run, and says so.
pub fn become_it(arguments: impl Iterator<Item = OsString>) -> String {
    if env::var_os(CALLED).is_some() {
        return "the other linker that was found calls this one".to_owned();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let Some(program) = find(&path) else {
        return format!(
            "no other linker that might is on PATH or in {USUAL} ({})",
            NAMES.join(", ")
        );
    };
    let why = Command::new(&program)
        .args(arguments)
        .env(CALLED, "1")
        .exec();
    format!("{}: {why}", program.display())
}

/// The first that is not this program.
fn find(path: &OsStr) -> Option<PathBuf> {
    let own = fs::metadata("/proc/self/exe").ok();
    let is_other = |program: &Path| {
        let Ok(found) = fs::metadata(program) else {
            return false;
        };
        let is_own = own
            .as_ref()
            .is_some_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()));
        found.is_file() && found.permissions().mode() & 0o111 != 0 && !is_own
    };
    let directories = [path, OsStr::new(USUAL)];
    let directories = || directories.iter().flat_map(env::split_paths);
    NAMES.iter().find_map(|name| {
        directories()
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join(name))
            .find(|program| is_other(program))
    })
}
