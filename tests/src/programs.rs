//! The real programs of the tests, the demo and the benchmarks.

use crate::sources::{crate_directory, files, our_file};
use anyhow::Result;
use std::path::PathBuf;

/// What a program's sources are written in, which chooses the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C, perhaps with some assembly.
    C,
    /// C++.
    Cxx,
}

/// A program as a list of sources that are compiled alike.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name of the executable.
    pub name: &'static str,
    /// What it is written in.
    pub language: Language,
    /// Its translation units. Their file names differ.
    pub sources: Vec<PathBuf>,
    /// Language level, include directories, definitions.
    pub flags: Vec<String>,
    /// What the link needs after the objects.
    pub libraries: Vec<&'static str>,
}

/// Lua 5.4's interpreter: the library, and `lua_host.c` in place of `lua.c`
/// (the crate has the library only). 33 translation units.
///
/// # Errors
/// If the sources cannot be had.
pub fn lua() -> Result<Program> {
    let root = crate_directory("lua-src")?.join("lua-5.4.9");
    let mut sources = files(&root, ".c")?;
    sources.push(our_file("lua_host.c"));
    Ok(Program {
        name: "lua",
        language: Language::C,
        sources,
        flags: vec!["-std=gnu99".into(), "-DLUA_USE_LINUX".into(), include(root)],
        libraries: vec!["-Wl,-E", "-lm", "-ldl"],
    })
}

/// SQLite: the amalgamation and `sqlite_shell.c`, a small shell.
///
/// # Errors
/// If the sources cannot be had.
pub fn sqlite() -> Result<Program> {
    let root = crate_directory("libsqlite3-sys")?.join("sqlite3");
    let mut flags: Vec<String> = ["FTS5", "RTREE", "MATH_FUNCTIONS", "DBSTAT_VTAB"]
        .map(|feature| format!("-DSQLITE_ENABLE_{feature}"))
        .into();
    flags.push("-DSQLITE_THREADSAFE=1".into());
    flags.push(include(root.clone()));
    Ok(Program {
        name: "sqlite",
        language: Language::C,
        sources: vec![root.join("sqlite3.c"), our_file("sqlite_shell.c")],
        flags,
        libraries: vec!["-lm", "-ldl", "-lpthread"],
    })
}

/// Zstandard's library with its assembly, and `zstd_tool.c`, which does what
/// the command line does: compress, decompress, train a dictionary.
///
/// # Errors
/// If the sources cannot be had.
pub fn zstd() -> Result<Program> {
    let root = crate_directory("zstd-sys")?.join("zstd/lib");
    let mut sources = Vec::new();
    for part in ["common", "compress", "decompress", "dictBuilder"] {
        sources.extend(files(&root.join(part), ".c")?);
    }
    sources.extend(files(&root.join("decompress"), ".S")?);
    sources.push(our_file("zstd_tool.c"));
    Ok(Program {
        name: "zstd",
        language: Language::C,
        sources,
        flags: vec![
            "-DZSTD_MULTITHREAD".into(),
            "-DXXH_NAMESPACE=ZSTD_".into(),
            include(root),
        ],
        libraries: vec!["-lpthread"],
    })
}

/// The library of CaDiCaL, a SAT solver in C++17: 80 translation units, to which
/// a program adds its own.
fn cadical_library() -> Result<Program> {
    let root = crate_directory("cadical")?.join("cadical/src");
    let mut sources = files(&root, ".cpp")?;
    let is_program =
        |path: &PathBuf| path.ends_with("cadical.cpp") || path.ends_with("mobical.cpp");
    sources.retain(|path| !is_program(path));
    // "NBUILD" and "VERSION" stand for the header that its configure script makes.
    let flags = [
        "-std=c++17",
        "-w",
        "-DNBUILD",
        "-DNDEBUG",
        "-DVERSION=\"1.9.5\"",
    ];
    let mut flags: Vec<String> = flags.map(String::from).into();
    flags.push(include(root));
    let language = Language::Cxx;
    Ok(Program {
        name: "cadical",
        language,
        sources,
        flags,
        libraries: vec!["-pthread"],
    })
}

/// CaDiCaL's command line: 81 translation units.
///
/// # Errors
/// If the sources cannot be had.
pub fn cadical() -> Result<Program> {
    let mut program = cadical_library()?;
    program
        .sources
        .push(crate_directory("cadical")?.join("cadical/src/cadical.cpp"));
    Ok(program)
}

/// `sat_callbacks.cpp` on CaDiCaL's library: exceptions that pass through the
/// solver's frames, threads, run-time type information, streams.
///
/// # Errors
/// If the sources cannot be had.
pub fn sat_callbacks() -> Result<Program> {
    let mut program = cadical_library()?;
    program.name = "sat_callbacks";
    program.sources.push(our_file("sat_callbacks.cpp"));
    Ok(program)
}

fn include(directory: PathBuf) -> String {
    format!("-I{}", directory.display())
}
