//! `repo-manual DIRECTORY`: writes the manual pages and shell completions below `DIRECTORY`, as they are below the prefix
//! of an installation (`share/man/man1/repo-ld.1`, …). For `cargo xtask install`, and for who makes packages.

use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::Path;

fn main() -> Result<()> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let [directory] = &words[..] else {
        bail!("usage: repo-manual DIRECTORY");
    };
    for document in manual::documents() {
        let path = Path::new(directory).join(&document.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
        }
        fs::write(&path, &document.text)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
