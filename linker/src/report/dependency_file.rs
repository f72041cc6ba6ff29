//! `--dependency-file`: what the output was made from, as a rule for make.
//!
//! ```text
//! program: \
//!   main.o \
//!   libx.a
//!
//! main.o:
//!
//! libx.a:
//! ```
//!
//! The rules without commands are for files that are gone at the next build: make does
//! not ask for them then.

use crate::args::Args;
use crate::input::open::InputArena;
use crate::input::scripts::Scripts;
use rustc_hash::FxHashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Writes the file, if it is wanted.
///
/// # Errors
/// Says what went wrong in the file system.
pub fn write(args: &Args, arena: &InputArena, scripts: &Scripts) -> Result<(), String> {
    if args.dependency_file.is_none() {
        return Ok(());
    }
    // Among the places in which commands stand there are options, too.
    let scripts = scripts.script.files.iter().map(Path::new);
    let scripts: Vec<&Path> = scripts.filter(|path| path.is_file()).collect();
    write_rules(args, &arena.opened(), &scripts)
}

/// The same after a link that has opened only some of its inputs, which are all in `inputs`, and for which there is no script
/// beside them.
///
/// # Errors
/// Says what went wrong in the file system.
pub fn write_again(args: &Args, inputs: &[PathBuf]) -> Result<(), String> {
    write_rules(args, inputs, &[])
}

fn write_rules(args: &Args, opened: &[PathBuf], scripts: &[&Path]) -> Result<(), String> {
    let Some(path) = &args.dependency_file else {
        return Ok(());
    };
    let all = opened
        .iter()
        .chain(args.symbol_lists())
        .chain(args.tables())
        .map(PathBuf::as_path)
        .chain(scripts.iter().copied());
    let mut known: FxHashSet<Vec<u8>> = FxHashSet::default();
    let names = all.map(quoted);
    let names: Vec<Vec<u8>> = names.filter(|name| known.insert(name.clone())).collect();
    std::fs::write(path, rules(&quoted(&args.output), &names)).map_err(|why| {
        // Half of one would tell make that the output does not depend on the rest.
        remove(args);
        format!("cannot write the dependency file {}: {why}", path.display())
    })
}

/// Removes the file, as there is no output that it tells about.
pub fn remove(args: &Args) {
    if let Some(path) = &args.dependency_file
        && std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
    {
        let _ = std::fs::remove_file(path);
    }
}

fn rules(target: &[u8], names: &[Vec<u8>]) -> Vec<u8> {
    let mut out = [target, b":"].concat();
    for name in names {
        out.extend_from_slice(b" \\\n  ");
        out.extend_from_slice(name);
    }
    out.push(b'\n');
    for name in names {
        out.push(b'\n');
        out.extend_from_slice(name);
        out.extend_from_slice(b":\n");
    }
    out
}

/// A name as make reads it. It has no way to write a line break in one.
fn quoted(path: &Path) -> Vec<u8> {
    let mut out = Vec::new();
    let mut backslashes = 0;
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'#' => {
                // Backslashes before what is quoted are quoted as well.
                out.extend(std::iter::repeat_n(b'\\', backslashes + 1));
            }
            b'$' => out.push(b'$'),
            _ => {}
        }
        backslashes = if *byte == b'\\' { backslashes + 1 } else { 0 };
        out.push(*byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_for_make() {
        let shown = |name: &str| String::from_utf8(quoted(Path::new(name))).unwrap();
        assert_eq!(shown("/a/b-c.o"), "/a/b-c.o");
        assert_eq!(shown("a b#c$d"), "a\\ b\\#c$$d");
        assert_eq!(shown("a\\ b"), "a\\\\\\ b");
        assert_eq!(shown("a\\b"), "a\\b");
    }

    #[test]
    fn every_input_has_a_rule_of_its_own() {
        let names = [b"a.o".to_vec(), b"l.a".to_vec()];
        assert_eq!(
            String::from_utf8(rules(b"out", &names)).unwrap(),
            "out: \\\n  a.o \\\n  l.a\n\na.o:\n\nl.a:\n"
        );
        assert_eq!(rules(b"out", &[]), b"out:\n");
    }
}
