//! Directories in which programs are linked again and again.

use crate::binaries::Binaries;
use crate::process::{Run, run};
use crate::scratch::Scratch;
use crate::tools;

/// Options of a link that is to be incremental, and checks itself.
pub const INCREMENTAL: &str = "-Wl,--incremental,--verify-incremental";

/// A directory in which compilers find this linker.
pub struct Place {
    /// The directory.
    pub scratch: Scratch,
    through: String,
}

impl Place {
    /// Nothing where there is no compiler.
    pub fn new() -> Option<Place> {
        tools::require(["g++"])?;
        let scratch = Scratch::new();
        let links = scratch.join("bin");
        std::fs::create_dir_all(&links).unwrap();
        let linker = Binaries::get().path("repo-ld");
        std::os::unix::fs::symlink(linker, links.join("ld")).unwrap();
        let through = format!("-B{}", links.display());
        Some(Place { scratch, through })
    }

    /// Compiles C++ text to `name.o`, a ticket if `tickets`.
    pub fn compile(&self, name: &str, text: &str, options: &[&str], tickets: bool) {
        let source = self.scratch.write(format!("{name}.cpp"), text);
        let mut command = match tickets {
            false => self.scratch.command("g++"),
            true => {
                let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
                command.arg("g++");
                command
            }
        };
        command.args(["-c", "-ffunction-sections", "-fdata-sections", "-w"]);
        run(command.args(options).arg(source)).ok();
    }

    /// Links to `output` by way of the compiler; the log is written.
    pub fn link(&self, output: &str, words: &[&str]) -> Run {
        let mut command = self.scratch.command("g++");
        command.env("REPO_LOG", self.scratch.join("log"));
        command.arg(&self.through).args(["-o", output]);
        run(command.args(words))
    }

    /// The option by which compilers find the linker.
    pub fn through(&self) -> [&str; 1] {
        [&self.through]
    }

    /// What the log says.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.join("log")).unwrap()
    }

    /// What the log says of the last link.
    pub fn last(&self) -> String {
        self.log().lines().last().unwrap_or_default().to_owned()
    }
}
