//! CMake that was told of a launcher for compiles alone, as it is told of ccache: its links reach no `repo-ld`.
//!
//! `CMAKE_C_COMPILER_LAUNCHER=repo-cc` leaves links to the compiler and to the linker that this finds, which refuses tickets. Whether it is so is
//! said in `CMakeCache.txt`, at the top of the directory in which CMake builds; there objects are fat, and every linker takes
//! them.

use super::compiler::Ourselves;
use super::linker_dir;
use memchr::memmem;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const CACHE: &str = "CMakeCache.txt";
/// In the path of each output of CMake's rules.
const OUTPUTS: &[u8] = b"CMakeFiles/";

/// Whether `command` is a compile by CMake whose object another linker will get.
pub fn links_by_another(ourselves: &Ourselves, command: &[OsString]) -> bool {
    let is_output = |word: &OsString| memmem::find(word.as_bytes(), OUTPUTS).is_some();
    if !command.iter().any(is_output) {
        return false;
    }
    // Compiles run there, or in a directory below it.
    let Ok(here) = fs::canonicalize(".") else {
        return false;
    };
    let read = |directory: &Path| fs::read(directory.join(CACHE)).ok();
    let Some(cache) = here.ancestors().find_map(read) else {
        return false;
    };
    let is_ours = |program: &[u8]| ourselves.is_found_by(OsStr::from_bytes(program));
    launches_compiles_alone(&cache, is_ours) && !is_ours(b"ld")
}

/// Whether a cache says that we are the launcher of compiles, and nothing by which links would reach us. `is_ours` is asked of programs.
fn launches_compiles_alone(cache: &[u8], is_ours: impl Fn(&[u8]) -> bool) -> bool {
    let mut launches = false;
    for line in cache.split(|byte| *byte == b'\n') {
        // `KEY:TYPE=VALUE`
        let Some(end) = memchr::memchr(b'=', line).filter(|_| line.starts_with(b"CMAKE_")) else {
            continue;
        };
        let (key, value) = (&line[..end], &line[end + 1..]);
        let key = &key[..memchr::memchr(b':', key).unwrap_or(key.len())];
        let reaches_us = match () {
            () if key.ends_with(b"_COMPILER_LAUNCHER") => {
                launches |= value.split(|byte| *byte == b';').any(&is_ours);
                false
            }
            () if key.ends_with(b"_LINKER_LAUNCHER") => !value.is_empty(),
            () if key.ends_with(b"_COMPILER") => is_ours(value),
            () if memmem::find(key, b"_LINKER_FLAGS").is_some() => value
                .split(|byte| *byte == b' ')
                .any(linker_dir::is_asked_for),
            () => false,
        };
        if reaches_us {
            return false;
        }
    }
    launches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_caches_say() {
        let says = |lines: &[&str]| {
            let is_ours = |program: &[u8]| program.starts_with(b"/b/") || program == b"repo-cc";
            let compiler = "CMAKE_C_COMPILER:FILEPATH=/usr/bin/gcc";
            let cache = [&["# a comment", "//another one=", compiler], lines].concat();
            launches_compiles_alone(cache.join("\n").as_bytes(), is_ours)
        };
        let launcher = "CMAKE_C_COMPILER_LAUNCHER:UNINITIALIZED=/b/repo-cc";
        assert!(says(&[launcher]));
        assert!(says(&[
            "CMAKE_CXX_COMPILER_LAUNCHER:STRING=env;A=b;repo-cc"
        ]));
        assert!(!says(&[]));
        assert!(!says(&["CMAKE_C_COMPILER_LAUNCHER:STRING=ccache"]));
        for linker in [
            "CMAKE_C_LINKER_LAUNCHER:STRING=repo-cc",
            "CMAKE_EXE_LINKER_FLAGS:STRING=-O1 -fuse-ld=repo",
            "CMAKE_SHARED_LINKER_FLAGS:STRING=--ld-path=/b/repo-ld",
            "CMAKE_EXE_LINKER_FLAGS_RELEASE:STRING=-B/p/libexec/program-repository",
            "CMAKE_CXX_COMPILER:FILEPATH=/b/repo-g++",
        ] {
            assert!(!says(&[launcher, linker]), "{linker}");
        }
        for nothing in [
            "CMAKE_C_LINKER_LAUNCHER:STRING=",
            "CMAKE_EXE_LINKER_FLAGS:STRING=-Wl,-Bsymbolic -B/nowhere",
            "CMAKE_SHARED_LINKER_FLAGS:STRING=-fuse-ld=mold",
            "CMAKE_CXX_COMPILER:FILEPATH=/usr/bin/g++",
        ] {
            assert!(says(&[launcher, nothing]), "{nothing}");
        }
    }
}
