//! Sources that are compiled through `repo-cc` by clang 19, whose plugin leaves out the definitions that the repository has.

use crate::binaries::{self, Binaries};
use crate::scratch::Scratch;
use crate::tools;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A directory with a repository of its own, and what compiles there.
pub struct Machine {
    /// The directory.
    pub scratch: Scratch,
    /// The compiler.
    pub clang: PathBuf,
    /// Its plugin.
    pub plugin: &'static Path,
}

/// A [`Machine`](crate::pruned::Machine); where there can be none the test ends.
#[macro_export]
macro_rules! machine {
    () => {
        match $crate::pruned::Machine::new() {
            Some(machine) => machine,
            None => return,
        }
    };
}

impl Machine {
    /// Nothing where there is no clang 19, or the plugin was built without LLVM's headers.
    pub fn new() -> Option<Machine> {
        let [clang] = tools::require(["clang-19"])?;
        let Some(plugin) = binaries::plugin() else {
            tools::skip("llvm-19-dev");
            return None;
        };
        Some(Machine {
            scratch: Scratch::new(),
            clang,
            plugin,
        })
    }

    /// Compiles `text` through `repo-cc`; what it says.
    pub fn compile(&self, name: &str, text: &str, options: &[&str], verify: bool) -> String {
        self.scratch.write(name, text);
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        command.arg("--verbose").arg(&self.clang).args(options);
        command
            .args(["-c", name, "-o", &format!("{name}.o")])
            .env("REPO_CC_PRUNE", "explain");
        if verify {
            command.env("REPO_CC_VERIFY", "1");
        }
        let output = command.output().expect("repo-cc runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    }

    /// Compiles, and has it compared with a whole compile.
    #[track_caller]
    pub fn verified(&self, name: &str, text: &str, options: &[&str]) -> String {
        let said = self.compile(name, text, options, true);
        assert!(said.contains("verified: "), "{said}");
        assert!(!said.contains("DIFFERENT"), "{said}");
        said
    }

    /// Links the objects, and runs the program.
    pub fn run(&self, objects: &[&str]) -> Output {
        let program = self.scratch.join("program");
        let linked = self
            .scratch
            .command(Binaries::get().path("repo-cc"))
            .arg(&self.clang)
            .args(objects)
            .args(["-lstdc++", "-lm", "-o"])
            .arg(&program)
            .output()
            .expect("the linker runs");
        assert!(
            linked.status.success(),
            "{}",
            String::from_utf8_lossy(&linked.stderr)
        );
        self.scratch.command(program).output().expect("it runs")
    }
}

/// What became of a definition.
pub fn state<'s>(said: &'s str, name: &str) -> &'s str {
    let begin = format!("repo-cc: {name}: ");
    let line = said.lines().find_map(|line| line.strip_prefix(&begin));
    line.unwrap_or_else(|| panic!("nothing is said of {name}:\n{said}"))
}
