//! Where other people's sources are: crates of `tests/sources/Cargo.toml`,
//! downloaded by cargo and read where cargo unpacked them. They are inputs and
//! are never written to.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The root of the project's source tree.
pub fn project_root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        // Where cargo runs this from: the program may have been built for another clone, in the same target directory.
        let run_from = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let built_from = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let mut starts = run_from.into_iter().chain([built_from]);
        let root = starts.find_map(|start| {
            let mut above = start.ancestors();
            above
                .find(|it| it.join("tools/xtask").is_dir())
                .map(Path::to_owned)
        });
        root.expect("the project's directory is there")
    })
}

/// Files of ours that belong to these programs: `tests/programs/NAME`.
pub fn our_file(name: &str) -> PathBuf {
    project_root().join("tests/programs").join(name)
}

/// The directory of the unpacked crate `name`, which `tests/sources/Cargo.toml`
/// must name. The first call downloads what is missing.
///
/// # Errors
/// If cargo cannot get the crates (no network), or none is called so.
pub fn crate_directory(name: &str) -> Result<PathBuf> {
    static CRATES: OnceLock<Result<HashMap<String, PathBuf>, String>> = OnceLock::new();
    let manifest = project_root().join("tests/sources/Cargo.toml");
    let crates = CRATES.get_or_init(|| locate(&manifest).map_err(|error| format!("{error:#}")));
    match crates {
        Ok(crates) => crates
            .get(name)
            .cloned()
            .with_context(|| format!("tests/sources/Cargo.toml has no dependency {name}")),
        Err(error) => bail!("{error}"),
    }
}

/// The directories of the unpacked crates that a manifest names, whether or not what needs them is asked for.
///
/// # Errors
/// If cargo cannot get the crates (no network).
pub fn locate(manifest: &Path) -> Result<HashMap<String, PathBuf>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--all-features",
            "--manifest-path",
        ])
        .arg(manifest)
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!(
            "cargo cannot get the crates of {}:\n{}",
            manifest.display(),
            why.trim_end()
        );
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata without packages")?;
    let mut crates = HashMap::new();
    for package in packages {
        let name = package["name"]
            .as_str()
            .context("a package without a name")?;
        let file = package["manifest_path"]
            .as_str()
            .context("a package without a path")?;
        let directory = Path::new(file)
            .parent()
            .context("a manifest without a directory")?;
        crates.insert(name.to_owned(), directory.to_owned());
    }
    Ok(crates)
}

/// The files in `directory` whose names end in `suffix`, sorted.
///
/// # Errors
/// If the directory cannot be read, or has no such file.
pub fn files(directory: &Path, suffix: &str) -> Result<Vec<PathBuf>> {
    let entries = directory
        .read_dir()
        .with_context(|| format!("cannot read {}", directory.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(suffix) {
            found.push(path);
        }
    }
    if found.is_empty() {
        bail!("no *{suffix} in {}", directory.display());
    }
    found.sort();
    Ok(found)
}
