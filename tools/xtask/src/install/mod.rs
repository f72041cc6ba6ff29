//! `cargo xtask install`: what users have of the project, below a prefix.
//!
//! ```text
//! bin/repo-cc, repo-ld, repo-dump, repo-gc      without debug sections
//! bin/ld.repo                                   for clang -fuse-ld=repo
//! libexec/program-repository/ld, ld.lld, …      for gcc -B, and rustc by gcc
//! libexec/program-repository/compilers/gcc, …   repo-cc by compilers' names, to be put in front of PATH
//! share/man/man1, share/…                       manual pages, completions, the table of linker options
//! share/program-repository/installed            the record of all these, by which they are removed again
//! ```
//!
//! All links are relative, so what is made below `--dest-dir` can be packed up and unpacked elsewhere. Files take their place
//! by a rename: programs that run meanwhile go on undisturbed. A second installation removes what only the first one had.

mod record;
mod tree;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use record::Record;
use repo_tests::binaries::{Binaries, INSTALLED};
use repo_tests::sources::project_root;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tree::Tree;

/// The directory for `-B`.
const LINKERS: &str = "libexec/program-repository";
/// `repo-cc` and a compiler in one word, for tools that take all of `CC` for the name of one program.
const ONE_WORD_COMPILERS: [&str; 4] = ["repo-gcc", "repo-g++", "repo-clang", "repo-clang++"];
/// The directory for `PATH`.
const COMPILERS: &str = "libexec/program-repository/compilers";

/// The program that writes the manual pages and completions. It is not installed, so who hands on the others may lack it.
const MANUAL: &str = "repo-manual";

/// By what names compilers may ask for their linker in the directory for `-B`: those that `repo-cc` provides for, too. gcc
/// takes `ld` or, with `-fuse-ld=`, one of the others (rustc says `-fuse-ld=lld`); `real-ld` is the first that gcc's
/// collect2 looks for.
const LINKER_NAMES: [&str; 6] = ["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold", "real-ld"];

/// What `cargo xtask install` is asked to do.
#[derive(Args)]
pub struct Arguments {
    /// Install below this directory [default: ~/.local; for root /usr/local]
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Put all of it below DIR, as if that were the root directory: for who makes packages
    #[arg(long, value_name = "DIR")]
    dest_dir: Option<PathBuf>,
    /// Names of compilers to make links for, with commas between [default: all on PATH]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    compilers: Vec<String>,
    /// Install the programs in DIR, rather than building them (the manual only if repo-manual is there, too)
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Remove what was installed below the prefix
    #[arg(long, conflicts_with_all = ["compilers", "programs"])]
    uninstall: bool,
}

/// Installs, or removes.
///
/// # Errors
/// If the programs cannot be built, something cannot be written, or there is nothing to remove.
pub fn install(arguments: &Arguments) -> Result<ExitCode> {
    let prefix = arguments.prefix.clone().map_or_else(usual_prefix, Ok)?;
    let prefix = std::path::absolute(&prefix)
        .with_context(|| format!("cannot find out where {} is", prefix.display()))?;
    // Below the other directory, whatever the root directory is called.
    let place = match (&arguments.dest_dir, prefix.strip_prefix("/")) {
        (Some(root), Ok(below)) => std::path::absolute(root)?.join(below),
        _ => prefix.clone(),
    };
    if arguments.uninstall {
        let Some(record) = Record::read(&place)? else {
            bail!("nothing was installed below {}", place.display());
        };
        return uninstall(&place, record);
    }
    let programs = match &arguments.programs {
        Some(directory) => std::path::absolute(directory)?,
        None => {
            println!("building repo-cc, repo-ld, repo-dump, repo-gc …");
            Binaries::release(&[MANUAL])?.directory().to_owned()
        }
    };
    let has_documents = programs.join(MANUAL).is_file();
    put(&place, &programs, &arguments.compilers).map_err(|error| match is_denied(&error) {
        true => anyhow!("{error:#}\n{}", hint_for_root(&programs, arguments)),
        false => error,
    })?;
    if !has_documents {
        eprintln!(
            "xtask: no manual pages and no completions: {} has no {MANUAL} (cargo build --release -p manual makes it)",
            programs.display()
        );
    }
    tell(&prefix, &place, has_documents);
    Ok(ExitCode::SUCCESS)
}

/// Where users put programs: of their own, or of the machine.
fn usual_prefix() -> Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok("/usr/local".into());
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    match home {
        Some(home) => Ok(Path::new(&home).join(".local")),
        None => bail!("there is no $HOME; say where to install with --prefix"),
    }
}

fn uninstall(place: &Path, mut record: Record) -> Result<ExitCode> {
    // repo-cc can make links there at any time.
    let links = tree::links_to(&place.join("bin/repo-cc"), &place.join(COMPILERS))?;
    for name in links {
        record.note(&Path::new(COMPILERS).join(name));
    }
    tree::uninstall(place, &record)?;
    println!("removed what was installed below {}", place.display());
    Ok(ExitCode::SUCCESS)
}

/// Puts everything below `place`, from the programs in the directory `programs`, and removes what an installation before
/// had besides. What was put there before an error is on record with the rest.
fn put(place: &Path, programs: &Path, compilers: &[String]) -> Result<()> {
    let before = Record::read(place)?.unwrap_or_default();
    let mut tree = Tree::new(place, &before);
    let put = put_all(&mut tree, programs, compilers);
    if put.is_err() {
        tree.keep(&before);
        let _ = tree.write_record();
        return put;
    }
    tree.write_record()?;
    tree.remove_others(&before)
}

fn put_all(tree: &mut Tree, programs: &Path, compilers: &[String]) -> Result<()> {
    let documents = match programs.join(MANUAL) {
        program if program.is_file() => Some(documents(&program)?),
        _ => None,
    };
    for program in INSTALLED {
        let to = Path::new("bin").join(program);
        tree.file(&programs.join(program), &to, 0o755)?;
    }
    // Built where LLVM's headers are: cargo build --release -p repo-plugin.
    let plugin = programs.join("librepo_plugin.so");
    if plugin.is_file() {
        let to = "lib/program-repository/librepo_plugin.so";
        tree.file(&plugin, to, 0o644)?;
    }
    tree.link("bin/ld.repo", "repo-ld")?;
    for name in ONE_WORD_COMPILERS {
        tree.link(Path::new("bin").join(name), "repo-cc")?;
    }
    for name in LINKER_NAMES {
        tree.link(Path::new(LINKERS).join(name), "../../bin/repo-ld")?;
    }
    if let Some(documents) = &documents {
        for path in files_below(documents.path())? {
            let below = path.strip_prefix(documents.path())?;
            tree.file(&path, below, 0o644)?;
        }
    }
    let licence = project_root().join("LICENSE");
    tree.file(&licence, "share/doc/program-repository/LICENSE", 0o644)?;
    compiler_links(tree, compilers)
}

/// The manual pages and completions, in a temporary directory as they are below the prefix.
fn documents(program: &Path) -> Result<tempfile::TempDir> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let status = Command::new(program)
        .arg(directory.path())
        .status()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !status.success() {
        bail!("{} failed: {status}", program.display());
    }
    Ok(directory)
}

fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory)
            .with_context(|| format!("cannot read {}", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => directories.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Makes links with compilers' names: those that `repo-cc` makes, which knows what compilers there are.
fn compiler_links(tree: &mut Tree, names: &[String]) -> Result<()> {
    tree.directory(Path::new(COMPILERS))?;
    let program = tree.path("bin/repo-cc");
    let compilers = tree.path(COMPILERS);
    // Beside the directory itself, whose links are replaced one by one: a build may be using them.
    let made = tempfile::tempdir_in(tree.path(LINKERS)).context("cannot make a directory")?;
    // Names in the old links are not those of compilers that are there.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path).filter(|directory| *directory != compilers);
    let output = Command::new(&program)
        .arg("--install-links")
        .arg(made.path())
        .args(names)
        .env("PATH", std::env::join_paths(others)?)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let why = String::from_utf8_lossy(&output.stderr);
    match (output.status.success(), names) {
        (true, _) => {}
        // Without a compiler on this machine, all the rest is good.
        (false, []) => eprintln!("xtask: no links with compilers' names: {}", why.trim_end()),
        (false, _) => bail!("{}", why.trim_end()),
    }
    for program in ["repo-cc", "repo-ld"] {
        let target = format!("../../../bin/{program}");
        for name in tree::links_to(&tree.path(Path::new("bin").join(program)), made.path())? {
            tree.link(Path::new(COMPILERS).join(name), &target)?;
        }
    }
    Ok(())
}

fn is_denied(error: &anyhow::Error) -> bool {
    let io = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<io::Error>());
    io.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// What to do about a directory of root's: programs need not be built as root.
fn hint_for_root(programs: &Path, arguments: &Arguments) -> String {
    let own = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    let mut line = format!(
        "to do it as root: sudo {} install --programs {}",
        own.display(),
        programs.display()
    );
    for (option, value) in [
        ("--prefix", &arguments.prefix),
        ("--dest-dir", &arguments.dest_dir),
    ] {
        if let Some(value) = value {
            line.push_str(&format!(" {option} {}", value.display()));
        }
    }
    line
}

/// Says what is where, and how it is used.
fn tell(prefix: &Path, place: &Path, has_documents: bool) {
    let prefix = prefix.display();
    println!("installed below {}:", place.display());
    println!("  {prefix}/bin: {}", INSTALLED.join(", "));
    if has_documents {
        println!("  manual pages (man repo-ld), completions for bash, zsh and fish");
    }
    println!("to build with it:");
    println!("  make CC=\"repo-cc gcc\" CXX=\"repo-cc g++\"");
    println!("  make CC=repo-gcc CXX=repo-g++            # where CC must be one word");
    println!("  PATH={prefix}/{COMPILERS}:$PATH make");
    println!("or to link with it alone:");
    println!("  clang -fuse-ld=repo …");
    println!("  gcc -B {prefix}/{LINKERS} …");
    println!("  RUSTFLAGS=-Clink-arg=-B{prefix}/{LINKERS} cargo build");
    let bin = place.join("bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|directory| directory == bin) {
        println!("{prefix}/bin is not on your PATH: PATH={prefix}/bin:$PATH");
    }
}
