//! What is linked.

use crate::clang;
use crate::crates::{self, Crate};
use anyhow::{Context as _, Result, ensure};
use repo_tests::build::{object_path, parallel};
use repo_tests::programs::{self, Language};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// A program to link.
pub struct Subject {
    /// What the table calls it.
    pub name: String,
    /// Where what is linked comes from.
    pub origin: Origin,
}

/// Where what is linked comes from.
pub enum Origin {
    /// Sources, which are compiled and linked by gcc.
    Sources(Sources),
    /// A crate of the registry, which cargo builds; its link is what rustc asks for.
    Crate(Crate),
}

/// Sources of C or C++.
pub struct Sources {
    /// Language of the driver.
    pub language: Language,
    /// Its sources.
    pub sources: Vec<PathBuf>,
    /// Options of the compiles.
    pub flags: Vec<String>,
    /// Options of the link, before the objects.
    pub link: Vec<&'static str>,
    /// Libraries, after the objects.
    pub libraries: Vec<String>,
}

/// All of them, from small to large; with `big`, the large ones too, as far as they can be had.
pub fn all(big: bool) -> Vec<Subject> {
    let mut list = Vec::new();
    for (language, text) in [(Language::C, "hello C"), (Language::Cxx, "hello C++")] {
        for (kind, link) in [("", vec![]), (", static", vec!["-static"])] {
            list.push(Subject {
                name: format!("{text}{kind}"),
                origin: Origin::Sources(Sources {
                    language,
                    sources: vec![hello(language)],
                    flags: vec!["-O2".into()],
                    link,
                    libraries: Vec::new(),
                }),
            });
        }
    }
    let real = [
        ("lua", programs::lua(), "-O2"),
        ("sqlite", programs::sqlite(), "-O2"),
        ("zstd", programs::zstd(), "-O2"),
        ("cadical", programs::cadical(), "-O2"),
        ("cadical -O0 -g", programs::cadical(), "-g"),
    ];
    for (name, program, option) in real {
        match program {
            Ok(program) => list.push(Subject {
                name: name.into(),
                origin: Origin::Sources(Sources {
                    language: program.language,
                    sources: program.sources,
                    flags: program.flags.into_iter().chain([option.into()]).collect(),
                    link: Vec::new(),
                    libraries: program
                        .libraries
                        .iter()
                        .map(|&library| library.into())
                        .collect(),
                }),
            }),
            Err(error) => eprintln!("{name}: {error:#}"),
        }
    }
    if big {
        list.extend(crates::subjects());
        match clang::subject() {
            Ok(subject) => list.push(subject),
            Err(error) => eprintln!("clang: {error:#}"),
        }
    }
    list
}

fn hello(language: Language) -> PathBuf {
    let name = if language == Language::C {
        "hello.c"
    } else {
        "hello.cpp"
    };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name)
}

impl Subject {
    /// A file name for it.
    pub fn directory_name(&self) -> String {
        self.name.replace([' ', ','], "_")
    }
}

impl Sources {
    /// Compiles the sources with `driver` into `directory`.
    ///
    /// # Errors
    /// If a compile fails.
    pub fn compile(
        &self,
        driver: &[OsString],
        environment: &[(&str, PathBuf)],
        directory: &Path,
    ) -> Result<Vec<PathBuf>> {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let objects: Vec<_> = self
            .sources
            .iter()
            .map(|source| object_path(directory, source))
            .collect();
        let failed = Mutex::new(String::new());
        parallel(objects.len(), |index| {
            let mut command = Command::new(&driver[0]);
            command
                .args(&driver[1..])
                .args(&self.flags)
                .envs(environment.iter().cloned());
            // As repo-cc asks for, so that all linkers get the same objects.
            command.args(["-ffunction-sections", "-fdata-sections"]);
            command
                .arg("-c")
                .arg(&self.sources[index])
                .arg("-o")
                .arg(&objects[index]);
            let why = match command.output() {
                Ok(output) if output.status.success() => return,
                Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
                Err(error) => error.to_string(),
            };
            *failed.lock().unwrap_or_else(|poison| poison.into_inner()) = why;
        });
        let why = failed
            .into_inner()
            .unwrap_or_else(|poison| poison.into_inner());
        ensure!(why.is_empty(), "cannot compile: {why}");
        Ok(objects)
    }
}
