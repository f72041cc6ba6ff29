//! The directory of this user's own in which is what can be made again: links to the linker, and what is known of compilers and of inputs.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where it can be: in the user's cache; where there is none (in build sandboxes without a home), in the directory for
/// temporary files, which is shared with other users.
pub fn bases() -> Vec<PathBuf> {
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    cache
        .map(|cache| cache.join("program-repository"))
        .into_iter()
        .chain([env::temp_dir().join(format!("program-repository-{}", user()))])
        .collect()
}

/// Whether only this user can put files into a directory.
pub fn private(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_ok_and(|metadata| {
        let others_write = metadata.permissions().mode() & 0o022 != 0;
        metadata.is_dir() && metadata.uid() == user() && !others_write
    })
}

/// This process's user.
pub fn user() -> u32 {
    // SAFETY: geteuid concerns no memory and cannot fail.
    unsafe { libc::geteuid() }
}
