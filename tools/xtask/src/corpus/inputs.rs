//! Inputs of the corpus: real programs compiled in several ways, Rust's standard library, small sources with what real
//! programs have seldom, linker scripts. Made once for a directory; later calls find them there.

use anyhow::{Context as _, Result};
use repo_tests::binaries::Binaries;
use repo_tests::build::{object_path, parallel};
use repo_tests::process::run;
use repo_tests::programs::{self, Language, Program};
use repo_tests::sources::our_file;
use repo_tests::tools;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// One way to compile a program.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    program: fn() -> Result<Program>,
    options: &'static str,
    tickets: bool,
}

const WAYS: &[Way] = &[
    way(
        "lua-g",
        programs::lua,
        "-O1 -g -fPIC -ffunction-sections -fdata-sections",
        false,
    ),
    way("lua-exec", programs::lua, "-O0 -fno-pic -fcommon", false),
    way(
        "lua-small",
        programs::lua,
        "-Os -fPIE -gz -g1 -fcf-protection=full",
        false,
    ),
    way(
        "lua-tickets",
        programs::lua,
        "-O1 -fPIC -ffunction-sections",
        true,
    ),
    way(
        "zstd",
        programs::zstd,
        "-O1 -fPIC -g -ftls-model=global-dynamic",
        false,
    ),
    way(
        "cadical",
        programs::cadical,
        "-O1 -fPIC -ffunction-sections -fdata-sections",
        false,
    ),
    way("cadical-tickets", programs::cadical, "-O0 -g1 -fPIC", true),
];

const fn way(
    name: &'static str,
    program: fn() -> Result<Program>,
    options: &'static str,
    tickets: bool,
) -> Way {
    Way {
        name,
        program,
        options,
        tickets,
    }
}

/// What links are made of. Paths are as links see them: `in/…`, or absolute for the system's.
pub struct Inputs {
    /// Objects of each program, by the name of the way in which it was compiled.
    pub programs: Vec<(&'static str, Vec<String>, bool)>,
    /// Small sources: all of them make one program.
    pub small: Vec<String>,
    /// A static library with a Rust program's `main` in it, and the standard library.
    pub rust: Option<String>,
    /// Objects and libraries of a compiler.
    pub large: Option<Vec<String>>,
    /// Start files and libraries by the name that `gcc -print-file-name` knows.
    pub system: fn(&str) -> String,
}

/// Makes what is missing below `directory`.
///
/// # Errors
/// If compilers are missing or fail.
pub fn make(directory: &Path, linker: &Path) -> Result<Inputs> {
    let inputs = directory.join("inputs");
    fs::create_dir_all(&inputs)?;
    let gcc = tools::find("gcc").context("no gcc")?;
    let gxx = tools::find("g++").context("no g++")?;
    let mut programs = Vec::new();
    for way in WAYS {
        let program = (way.program)()?;
        let place = inputs.join(way.name);
        compile(&program, way, [&gcc, &gxx], &inputs, &place)?;
        let objects = program.sources.iter().map(|source| {
            let object = object_path(Path::new(way.name), source);
            format!("in/{}", object.display())
        });
        let cxx = program.language == Language::Cxx;
        programs.push((way.name, objects.collect(), cxx));
    }
    let small = small(&inputs, &gcc, &gxx)?;
    scripts(&inputs, linker)?;
    let rust = rust(&inputs)?;
    let large = large(&inputs, &gcc)?;
    Ok(Inputs {
        programs,
        small,
        rust,
        large,
        system,
    })
}

fn compile(
    program: &Program,
    way: &Way,
    compilers: [&Path; 2],
    inputs: &Path,
    place: &Path,
) -> Result<()> {
    fs::create_dir_all(place)?;
    let driver = match program.language {
        Language::C => compilers[0],
        Language::Cxx => compilers[1],
    };
    let missing: Vec<&PathBuf> = program
        .sources
        .iter()
        .filter(|source| !object_path(place, source).exists())
        .collect();
    parallel(missing.len(), |index| {
        let mut command = match way.tickets {
            true => {
                let mut command = Command::new(Binaries::get().path("repo-cc"));
                command.arg(driver);
                command
            }
            false => Command::new(driver),
        };
        command
            .env("REPO_FILE", inputs.join("program.repo"))
            .args(way.options.split_whitespace())
            .args(&program.flags)
            .arg("-c")
            .arg(missing[index])
            .arg("-o")
            .arg(object_path(place, missing[index]));
        run(&mut command).ok();
    });
    Ok(())
}

/// The file of gcc's that is called `name`.
fn system(name: &str) -> String {
    static KNOWN: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known.entry(name.to_owned());
    found.or_insert_with(|| look_up(name)).clone()
}

fn look_up(name: &str) -> String {
    let gcc = tools::find("gcc").unwrap_or_else(|| "gcc".into());
    let run = run(Command::new(gcc).arg(format!("-print-file-name={name}")));
    run.text().trim_end().to_owned()
}

const SMALL: &[(&str, &str)] = &[
    ("odd.s", include_str!("odd.s")),
    ("odd_library.s", include_str!("odd_library.s")),
];

/// The sources of the tests' feature program, and [`SMALL`].
fn small(inputs: &Path, gcc: &Path, gxx: &Path) -> Result<Vec<String>> {
    let place = inputs.join("small");
    fs::create_dir_all(&place)?;
    for (name, text) in SMALL {
        fs::write(place.join(name), text)?;
    }
    let mut objects = Vec::new();
    let features = our_file("features");
    let sources = ["main.c", "other.c", "strong.c", "second.cpp", "main.cpp"];
    let sources = sources.map(|name| features.join(name));
    let library = ["library.c", "shared.cpp"].map(|name| features.join(name));
    let ours = SMALL.iter().map(|(name, _)| place.join(name));
    for source in sources.into_iter().chain(library).chain(ours) {
        let driver = match source.extension().is_some_and(|e| e == "cpp") {
            true => gxx,
            false => gcc,
        };
        let object = object_path(&place, &source);
        let name = source.file_name().unwrap_or_default().to_string_lossy();
        let object = object.with_file_name(format!("{name}.o"));
        if !object.exists() {
            let mut command = Command::new(driver);
            let options = ["-O1", "-g", "-fPIC", "-ffunction-sections", "-c"];
            command.args(options).arg(&source).arg("-o").arg(&object);
            run(&mut command).ok();
        }
        objects.push(format!("in/small/{name}.o"));
    }
    let shared = place.join("libodd.so");
    if !shared.exists() {
        let mut command = Command::new(gcc);
        command
            .args(["-shared", "-Wl,-soname,libodd.so", "-o"])
            .arg(&shared)
            .arg(place.join("odd_library.s.o"));
        run(&mut command).ok();
    }
    let archive = place.join("libodd.a");
    if !archive.exists() {
        let ar = tools::find("ar").context("no ar")?;
        let mut command = Command::new(ar);
        command
            .arg("rcs")
            .arg(&archive)
            .arg(place.join("odd_library.s.o"));
        run(&mut command).ok();
    }
    Ok(objects)
}

/// Linker scripts: the default ones of GNU ld and of the linker that is recorded, and some by hand.
fn scripts(inputs: &Path, linker: &Path) -> Result<()> {
    let place = inputs.join("scripts");
    fs::create_dir_all(&place)?;
    let own = place.join("own.ld");
    if !own.exists() {
        for (file, program) in [
            (own, Some(linker.into())),
            (place.join("gnu.ld"), tools::find("ld")),
        ] {
            let Some(program) = program else { continue };
            let text = run(Command::new::<PathBuf>(program).arg("--verbose")).text();
            let mut parts = text.split("==================================================");
            fs::write(file, parts.nth(1).unwrap_or_default())?;
        }
    }
    for (name, text) in [
        ("plain.ld", include_str!("scripts/plain.ld")),
        ("memory.ld", include_str!("scripts/memory.ld")),
        ("phdrs.ld", include_str!("scripts/phdrs.ld")),
        ("insert.ld", include_str!("scripts/insert.ld")),
        ("versions", include_str!("scripts/versions")),
        ("order", "_start\nmain\nluaV_execute\n"),
        (
            "dynamic.list",
            "{ lua_*; \"main\"; extern \"C++\" { CaDiCaL::* }; };\n",
        ),
    ] {
        fs::write(place.join(name), text)?;
    }
    Ok(())
}

/// A static library of Rust, which has `main`.
fn rust(inputs: &Path) -> Result<Option<String>> {
    let archive = inputs.join("librust.a");
    if !archive.exists() {
        let Some(rustc) = tools::on_path("rustc") else {
            return Ok(None);
        };
        let source = inputs.join("rust.rs");
        fs::write(&source, include_str!("program.rs"))?;
        let mut command = Command::new(rustc);
        command
            .args([
                "--crate-type=staticlib",
                "--edition=2021",
                "-Copt-level=1",
                "-g",
                "-o",
            ])
            .arg(&archive)
            .arg(&source);
        run(&mut command).ok();
    }
    Ok(Some("in/librust.a".to_owned()))
}

/// clang from its static libraries, where Debian's packages of them are installed.
fn large(inputs: &Path, gcc: &Path) -> Result<Option<Vec<String>>> {
    let libraries = Path::new("/usr/lib/llvm-19/lib");
    if !libraries.join("libclangFrontendTool.a").exists() {
        return Ok(None);
    }
    let object = inputs.join("large.o");
    if !object.exists() {
        let source = inputs.join("large.s");
        // The one function that draws in nearly everything.
        let text = ".globl main\nmain: jmp _ZN5clang25ExecuteCompilerInvocationEPNS_16CompilerInstanceE@PLT\n\
                    .globl _Z18getPollyPluginInfov\n_Z18getPollyPluginInfov: ret\n\
                    .section .note.GNU-stack,\"\",@progbits\n";
        fs::write(&source, text)?;
        let mut command = Command::new(gcc);
        run(command.arg("-c").arg(&source).arg("-o").arg(&object)).ok();
    }
    let mut all = vec!["in/large.o".to_owned(), "--start-group".to_owned()];
    let mut archives = Vec::new();
    for entry in libraries.read_dir()? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let wanted = name.starts_with("libclang") || name.starts_with("libLLVM");
        // The C interface and the run-time libraries are other programs' business.
        let other = name.starts_with("libclang.") || name.starts_with("libclang_rt");
        if wanted && !other && name.ends_with(".a") {
            archives.push(path.display().to_string());
        }
    }
    archives.sort();
    all.extend(archives);
    all.push("--end-group".to_owned());
    Ok(Some(all))
}
