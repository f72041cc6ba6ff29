//! A large link: a compiler on clang's and LLVM's static libraries, with all
//! targets, which is clang in all but its command line.

use crate::subjects::{Origin, Sources, Subject};
use anyhow::{Context as _, Result, ensure};
use repo_tests::programs::Language;
use repo_tests::sources::files;
use std::path::Path;
use std::process::Command;

/// Debian's prefix of LLVM 19.
const PREFIX: &str = "/usr/lib/llvm-19";

/// The program, if Debian's libclang-19-dev and llvm-19-dev are installed.
///
/// # Errors
/// If they are not.
pub fn subject() -> Result<Subject> {
    let libraries = Path::new(PREFIX).join("lib");
    ensure!(
        libraries.join("libclangFrontend.a").exists(),
        "needs Debian's packages libclang-19-dev and llvm-19-dev"
    );
    let output = Command::new(format!("{PREFIX}/bin/llvm-config"))
        .args(["--link-static", "--system-libs"])
        .output()
        .context("cannot run llvm-config")?;
    let system = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut all = vec!["-Wl,--start-group".to_owned()];
    for archive in files(&libraries, ".a")? {
        let name = archive.file_name().unwrap_or_default().to_string_lossy();
        let is_library = ["libclang", "libLLVM"].iter().any(|l| name.starts_with(l));
        // The C interface and the run-time libraries are other programs' business.
        if is_library && !name.starts_with("libclang.") && !name.starts_with("libclang_rt") {
            all.push(archive.display().to_string());
        }
    }
    all.push("-Wl,--end-group".into());
    all.extend(system.split_whitespace().map(str::to_owned));
    Ok(Subject {
        name: "clang, static".into(),
        origin: Origin::Sources(Sources {
            language: Language::Cxx,
            sources: vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/clang.cpp")],
            flags: ["-O2", "-std=c++17", "-fno-rtti", "-w"]
                .map(str::to_owned)
                .into_iter()
                .chain([format!("-I{PREFIX}/include")])
                .collect(),
            link: Vec::new(),
            libraries: all,
        }),
    })
}
