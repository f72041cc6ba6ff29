//! `--install-links`: links with compilers' names, to be put in front of `PATH`.

use super::compiler::Name;
use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Makes a link in `dir` for every compiler on `PATH`. Prints what it made.
pub fn install_links(dir: &Path) -> Result<(), String> {
    let at = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let own = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    fs::create_dir_all(dir).map_err(|error| at(dir, error))?;
    let dir = fs::canonicalize(dir).map_err(|error| at(dir, error))?;
    let names = compilers_on_path(&dir);
    if names.is_empty() {
        return Err("no compiler on PATH to make a link for".into());
    }
    let mut made = Vec::new();
    for name in &names {
        let link = dir.join(name);
        match fs::symlink_metadata(&link) {
            Ok(metadata) if metadata.is_symlink() => {
                fs::remove_file(&link).map_err(|error| at(&link, error))?;
            }
            Ok(_) => {
                return Err(format!(
                    "{}: is there already and is not a link; choose another directory",
                    link.display()
                ));
            }
            Err(_) => {}
        }
        symlink(&own, &link).map_err(|error| at(&link, error))?;
        made.push(name.to_string_lossy());
    }
    println!("links to {} in {}:", own.display(), dir.display());
    println!("  {}", made.join(" "));
    println!("to use them: PATH={}:\"$PATH\"", dir.display());
    Ok(())
}

/// The names of the compilers on `PATH`, without those in `dir` itself.
fn compilers_on_path(dir: &Path) -> BTreeSet<OsString> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .filter(|other| fs::canonicalize(other).is_ok_and(|other| other != dir))
        .filter_map(|other| fs::read_dir(other).ok())
        .flat_map(|entries| entries.flatten())
        .map(|entry| entry.file_name())
        .filter(|name| Name::parse(name).is_some())
        .collect()
}
