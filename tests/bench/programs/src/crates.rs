//! Rust programs with all debugging information, as `cargo build` makes them.
//!
//! cargo builds a crate of the registry with a linker that keeps, of the link of
//! the program itself, the arguments and the objects (rustc throws those away), and then links.
//! Builds are kept in `target/crates` and not repeated: the larger one takes
//! some minutes.

use crate::subjects::{Origin, Subject};
use anyhow::{Context as _, Result, ensure};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate of the registry with a program.
pub struct Crate {
    /// Its name there.
    name: &'static str,
    version: &'static str,
    /// The program.
    program: &'static str,
}

/// Both of them, the smaller first.
pub fn subjects() -> [Subject; 2] {
    [("ripgrep", "15.2.0", "rg"), ("jj-cli", "0.45.1", "jj")].map(|(name, version, program)| {
        Subject {
            name: format!("{name} -g"),
            origin: Origin::Crate(Crate {
                name,
                version,
                program,
            }),
        }
    })
}

/// Stands for rustc's linker: of the program's link, copies the objects and writes down the arguments, a zero after each.
const LINKER: &str = r#"#!/bin/bash
output=
previous=
for word in "$@"; do
    [ "$previous" = -o ] && output=${word##*/}
    previous=$word
done
if [[ $output == "$KEEP_PROGRAM"-* ]]; then
    mkdir -p "$KEEP_IN/objects"
    : > "$KEEP_IN/arguments.new"
    for word in "$@"; do
        if [[ $word == *.o ]]; then
            cp "$word" "$KEEP_IN/objects/" || exit 1
            word=$KEEP_IN/objects/${word##*/}
        fi
        printf '%s\0' "$word" >> "$KEEP_IN/arguments.new"
    done
    mv "$KEEP_IN/arguments.new" "$KEEP_IN/arguments"
fi
exec cc "$@"
"#;

impl Crate {
    /// Builds it, unless that was done before. Returns where its objects are, and the arguments
    /// that rustc gives to `cc`, but for those that choose a linker.
    ///
    /// # Errors
    /// If it cannot be built.
    pub fn build(&self) -> Result<(PathBuf, Vec<OsString>)> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("target/crates")
            .join(format!("{}-{}", self.name, self.version));
        let arguments = directory.join("arguments");
        if !arguments.exists() {
            self.run_cargo(&directory)?;
        }
        let bytes = fs::read(&arguments).context("rustc did not link the program")?;
        let mut words: Vec<OsString> = bytes
            .split(|&byte| byte == 0)
            .map(|word| OsString::from_vec(word.to_vec()))
            .collect();
        words.pop();
        words.retain(|word| {
            let word = word.as_encoded_bytes();
            !word.starts_with(b"-fuse-ld") && !word.starts_with(b"-B")
        });
        Ok((directory.join("objects"), words))
    }

    fn run_cargo(&self, directory: &Path) -> Result<()> {
        eprintln!("building {} {} …", self.name, self.version);
        fs::create_dir_all(directory)?;
        let linker = directory.join("linker");
        fs::write(&linker, LINKER)?;
        fs::set_permissions(&linker, fs::Permissions::from_mode(0o755))?;
        let done = Command::new("cargo")
            .args(["install", "--debug", "--locked", "--force", "--quiet"])
            .args([self.name, "--version", self.version])
            .args(["--bin", self.program])
            .arg("--root")
            .arg(directory.join("installed"))
            .arg("--target-dir")
            .arg(directory.join("target"))
            .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", &linker)
            .env("KEEP_PROGRAM", self.program)
            .env("KEEP_IN", directory)
            .env_remove("RUSTFLAGS")
            .output()
            .context("cannot run cargo")?;
        ensure!(
            done.status.success(),
            "cargo fails: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        Ok(())
    }
}
