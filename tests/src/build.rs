//! Compiling and linking a [`Program`] by an ordinary compiler, or by the same
//! compiler through the repository.

use crate::binaries::Binaries;
use crate::process::{Run, run};
use crate::programs::{Language, Program};
use crate::scratch::Scratch;
use crate::tools;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whose compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `gcc` and `g++`.
    Gcc,
    /// `clang` and `clang++`.
    Clang,
}

impl Family {
    /// Names of its C and C++ drivers among [`tools::TOOLS`].
    pub fn drivers(self) -> [&'static str; 2] {
        match self {
            Family::Gcc => ["gcc", "g++"],
            Family::Clang => ["clang", "clang++"],
        }
    }
}

/// What stands before a compiler's arguments: `gcc`, or `repo-cc gcc`.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// For C.
    pub cc: Vec<OsString>,
    /// For C++.
    pub cxx: Vec<OsString>,
}

impl Toolchain {
    /// The compiler as it is; `None`, and the test recorded as skipped, if the
    /// machine has none.
    pub fn plain(family: Family) -> Option<Toolchain> {
        let [cc, cxx] = tools::require(family.drivers())?;
        Some(Toolchain {
            cc: vec![cc.into()],
            cxx: vec![cxx.into()],
        })
    }

    /// The same compiler through `repo-cc`.
    pub fn through_repository(&self, binaries: &Binaries) -> Toolchain {
        let wrap = |driver: &[OsString]| {
            let mut words = vec![binaries.path("repo-cc").into()];
            words.extend_from_slice(driver);
            words
        };
        Toolchain {
            cc: wrap(&self.cc),
            cxx: wrap(&self.cxx),
        }
    }

    /// The driver for `language`.
    pub fn driver(&self, language: Language) -> &[OsString] {
        match language {
            Language::C => &self.cc,
            Language::Cxx => &self.cxx,
        }
    }

    /// A command of that driver, run in `scratch` with its repository.
    pub fn command(&self, scratch: &Scratch, language: Language) -> Command {
        let words = self.driver(language);
        let mut command = scratch.command(Path::new(&words[0]));
        command.args(&words[1..]);
        command
    }
}

/// A program that was built.
#[derive(Debug)]
pub struct Built {
    /// The objects (or tickets), in the order of the sources.
    pub objects: Vec<PathBuf>,
    /// The executable.
    pub executable: PathBuf,
}

/// The command that compiles `source` of `program` into `object`.
pub fn compile_command(
    scratch: &Scratch,
    toolchain: &Toolchain,
    program: &Program,
    options: &[&str],
    source: &Path,
    object: &Path,
) -> Command {
    let mut command = toolchain.command(scratch, program.language);
    command
        .args(options)
        .args(&program.flags)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object);
    command
}

/// The command that links `objects` of `program` into `executable`.
pub fn link_command(
    scratch: &Scratch,
    toolchain: &Toolchain,
    program: &Program,
    options: &[&str],
    objects: &[PathBuf],
    executable: &Path,
) -> Command {
    let mut command = toolchain.command(scratch, program.language);
    command
        .args(options)
        .args(objects)
        .arg("-o")
        .arg(executable)
        .args(&program.libraries);
    command
}

/// Where the object of `source` goes in `directory`.
pub fn object_path(directory: &Path, source: &Path) -> PathBuf {
    let mut name = source.file_stem().unwrap_or_default().to_owned();
    name.push(".o");
    directory.join(name)
}

/// Compiles every source of `program` into `directory`, on all processors.
///
/// # Panics
/// If a compiler fails.
pub fn compile(
    scratch: &Scratch,
    toolchain: &Toolchain,
    program: &Program,
    options: &[&str],
    directory: &Path,
) -> Vec<PathBuf> {
    std::fs::create_dir_all(directory).expect("a directory can be made");
    let objects: Vec<_> = program
        .sources
        .iter()
        .map(|source| object_path(directory, source))
        .collect();
    let mut distinct = objects.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(
        distinct.len(),
        objects.len(),
        "two sources of {} share a name",
        program.name
    );
    parallel(program.sources.len(), |index| {
        let (source, object) = (&program.sources[index], &objects[index]);
        run(&mut compile_command(
            scratch, toolchain, program, options, source, object,
        ))
        .ok();
    });
    objects
}

/// Compiles and links `program` in `directory`, with `options` for both.
///
/// # Panics
/// If the compiler or the linker fails.
pub fn build(
    scratch: &Scratch,
    toolchain: &Toolchain,
    program: &Program,
    options: &[&str],
    directory: &Path,
) -> Built {
    let objects = compile(scratch, toolchain, program, options, directory);
    let executable = directory.join(program.name);
    run(&mut link_command(
        scratch,
        toolchain,
        program,
        options,
        &objects,
        &executable,
    ))
    .ok();
    Built {
        objects,
        executable,
    }
}

/// Calls `job` with every number below `count`, on as many threads as the
/// machine has processors. A panic of one is a panic of the whole.
pub fn parallel(count: usize, job: impl Fn(usize) + Sync) {
    let threads = std::thread::available_parallelism()
        .map_or(2, usize::from)
        .min(count);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    job(index);
                }
            });
        }
    });
}

/// Runs `executable` in `scratch` and returns what it did.
pub fn execute(scratch: &Scratch, executable: &Path, arguments: &[&str]) -> Run {
    run(scratch.command(executable).args(arguments))
}
