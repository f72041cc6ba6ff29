//! Compiles the walk over the IR against the headers of LLVM 19, if they are there.
//!
//! Without them the library is built all the same, with nothing in it: `repo-cc` then finds no entry point and takes the
//! ordinary road, and nothing else of the workspace needs LLVM.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const SOURCES: [&str; 3] = ["src/assembly.cpp", "src/passes.cpp", "src/walk.cpp"];

fn main() {
    println!("cargo:rustc-check-cfg=cfg(llvm19)");
    println!("cargo:rerun-if-env-changed=LLVM_CONFIG_19");
    for file in SOURCES.iter().chain(&["src/assembly.h", "src/walk.h"]) {
        println!("cargo:rerun-if-changed={file}");
    }
    match headers() {
        Ok(include) => {
            cc::Build::new()
                .cpp(true)
                .std("c++17")
                .include(include)
                .define("_GNU_SOURCE", None)
                .define("__STDC_CONSTANT_MACROS", None)
                .define("__STDC_FORMAT_MACROS", None)
                .define("__STDC_LIMIT_MACROS", None)
                .define("NDEBUG", None)
                .flag("-fno-exceptions")
                .flag("-fvisibility=hidden")
                .flag("-Wno-unused-parameter")
                .flag("-Wno-comment")
                .debug(false)
                .opt_level(2)
                .files(SOURCES)
                .compile("repo_plugin_walk");
            println!("cargo:rustc-cfg=llvm19");
        }
        Err(why) => {
            // A path that is not there has cargo look again each time, so that LLVM is found once it is installed.
            println!("cargo:rerun-if-changed=/usr/bin/llvm-config-19");
            println!(
                "cargo:warning=the clang plugin is built empty, so no definition is skipped (all else works): {why}; \
             install llvm-19-dev, or name its llvm-config in LLVM_CONFIG_19"
            );
        }
    }
}

/// The directory of LLVM 19's headers.
fn headers() -> Result<PathBuf, String> {
    let config = env::var("LLVM_CONFIG_19").unwrap_or_else(|_| "llvm-config-19".to_owned());
    let ask = |question: &str| {
        let output = Command::new(&config)
            .arg(question)
            .output()
            .map_err(|error| format!("{config}: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(format!("{config} {question} failed")),
        }
    };
    let version = ask("--version")?;
    if !version.starts_with("19.") {
        return Err(format!("{config} is of LLVM {version}"));
    }
    let include = PathBuf::from(ask("--includedir")?);
    match include.join("llvm/Passes/PassPlugin.h").is_file() {
        true => Ok(include),
        false => Err(format!("no LLVM headers in {}", include.display())),
    }
}
