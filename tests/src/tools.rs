//! The compilers and tools of the machine, and what a test does without one.
//!
//! A test names what it needs with [`require!`](crate::require!). Where a
//! program is missing the test does nothing and says so: on standard error (not
//! captured by the test harness), and in the file that `$REPO_TESTS_SKIPPED`
//! names, from which `cargo xtask test` makes the list at its end.

use std::env;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The variable that names the file to which skipped tests are appended.
pub const SKIPPED: &str = "REPO_TESTS_SKIPPED";

/// A tool that tests use: the names it goes by, best first, and the Debian
/// packages that have it, best first.
#[derive(Debug)]
pub struct Tool {
    /// What tests call it.
    pub name: &'static str,
    /// Names of the executable.
    pub executables: &'static [&'static str],
    /// Debian packages.
    pub packages: &'static [&'static str],
}

/// Every tool that some test uses.
pub const TOOLS: &[Tool] = &[
    tool("gcc", &["gcc"], &["gcc"]),
    tool("g++", &["g++"], &["g++"]),
    tool("clang", &["clang-19", "clang"], &["clang-19", "clang"]),
    tool(
        "clang++",
        &["clang++-19", "clang++"],
        &["clang-19", "clang"],
    ),
    tool("clang-19", &["clang-19"], &["clang-19"]),
    tool("opt-19", &["opt-19"], &["llvm-19"]),
    tool("llvm-ar", &["llvm-ar-19", "llvm-ar"], &["llvm-19", "llvm"]),
    tool("ld", &["ld.bfd", "ld"], &["binutils"]),
    tool("ar", &["ar"], &["binutils"]),
    tool("nm", &["nm"], &["binutils"]),
    tool("ranlib", &["ranlib"], &["binutils"]),
    tool("strip", &["strip"], &["binutils"]),
    tool("objcopy", &["objcopy"], &["binutils"]),
    tool("readelf", &["readelf"], &["binutils"]),
    tool("dwz", &["dwz"], &["dwz"]),
    tool("eu-elflint", &["eu-elflint"], &["elfutils"]),
    tool("addr2line", &["addr2line"], &["binutils"]),
    tool("ld.lld", &["ld.lld-19", "ld.lld"], &["lld-19", "lld"]),
    tool("gold", &["ld.gold", "gold"], &["binutils"]),
    tool("mold", &["mold"], &["mold"]),
    tool("make", &["make"], &["make"]),
    tool("cmake", &["cmake"], &["cmake"]),
    tool("ninja", &["ninja"], &["ninja-build"]),
    tool("autoconf", &["autoconf"], &["autoconf"]),
    tool("automake", &["automake"], &["automake"]),
    tool("libtoolize", &["libtoolize"], &["libtool"]),
    tool("ccache", &["ccache"], &["ccache"]),
    tool("cargo", &["cargo"], &["cargo"]),
    tool("rustc", &["rustc"], &["rustc"]),
    tool("file", &["file"], &["file"]),
    tool("strace", &["strace"], &["strace"]),
    tool("gdb", &["gdb"], &["gdb"]),
    tool("script", &["script"], &["bsdutils"]),
    tool("unshare", &["unshare"], &["util-linux"]),
    tool("mount", &["mount"], &["mount"]),
    tool("man", &["man"], &["man-db"]),
    tool("bash", &["bash"], &["bash"]),
    tool("fish", &["fish"], &["fish"]),
    tool("zsh", &["zsh"], &["zsh"]),
];

const fn tool(
    name: &'static str,
    executables: &'static [&'static str],
    packages: &'static [&'static str],
) -> Tool {
    Tool {
        name,
        executables,
        packages,
    }
}

/// The entry of [`TOOLS`] that is called `name`.
///
/// # Panics
/// If there is none: a mistake of the test's.
#[track_caller]
pub fn describe(name: &str) -> &'static Tool {
    TOOLS
        .iter()
        .find(|tool| tool.name == name)
        .unwrap_or_else(|| panic!("tests::tools::TOOLS has no {name}"))
}

/// Where the tool called `name` is on this machine.
#[track_caller]
pub fn find(name: &str) -> Option<PathBuf> {
    describe(name).executables.iter().find_map(on_path)
}

/// The first file on `PATH` that is called `executable` and can be executed.
pub fn on_path(executable: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|directory| directory.join(executable.as_ref()))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// The places of the tools called `names`; or `None` when one is missing, and
/// then this test is recorded as skipped. Use [`require!`](crate::require!).
#[track_caller]
pub fn require<const N: usize>(names: [&str; N]) -> Option<[PathBuf; N]> {
    let found = names.map(|name| (name, find(name)));
    let missing: Vec<_> = found
        .iter()
        .filter(|(_, place)| place.is_none())
        .map(|(name, _)| *name)
        .collect();
    if !missing.is_empty() {
        skip(&missing.join(", "));
        return None;
    }
    Some(found.map(|(_, place)| place.expect("nothing is missing")))
}

/// Records that the running test is skipped for want of `what`.
pub fn skip(what: &str) {
    let thread = std::thread::current();
    let binary = env::current_exe().ok();
    let binary = binary
        .as_deref()
        .and_then(Path::file_stem)
        .unwrap_or_default()
        .to_string_lossy();
    // The executable of an integration test is called NAME-HASH.
    let binary = binary.rsplit_once('-').map_or(&*binary, |(name, _)| name);
    let line = format!(
        "{binary}::{}: for want of {what}\n",
        thread.name().unwrap_or("?")
    );
    // Not eprint!, which the test harness would swallow.
    let _ = write!(std::io::stderr(), "skipped {line}");
    if let Some(file) = env::var_os(SKIPPED) {
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(file);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// `require!("gcc", "nm")`: the paths of these tools as an array; where one is
/// missing, the calling test is recorded as skipped and returns.
#[macro_export]
macro_rules! require {
    ($($name:expr),+ $(,)?) => {
        match $crate::tools::require([$($name),+]) {
            Some(tools) => tools,
            None => return,
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_shell_and_not_a_directory() {
        assert!(on_path("sh").is_some());
        assert!(on_path(".").is_none());
        assert!(on_path("no-such-program-anywhere").is_none());
    }
}
