//! A directory of a test's own, with a repository in it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Waits until what is written from now on has another time than what was written before: `repo-cc` records nothing of what is as
/// young as the compile.
pub fn settle() {
    use rustix::time::{ClockId, clock_gettime};
    // Twice: file systems may be ahead of this clock by one step.
    for _ in 0..2 {
        let before = clock_gettime(ClockId::RealtimeCoarse);
        while clock_gettime(ClockId::RealtimeCoarse) == before {
            std::thread::yield_now();
        }
    }
}

/// A temporary directory. Removed at the end, unless the test fails or
/// `$REPO_TESTS_KEEP` is set: then its name is printed.
#[derive(Debug)]
pub struct Scratch {
    directory: Option<tempfile::TempDir>,
}

impl Scratch {
    /// Makes an empty one.
    ///
    /// # Panics
    /// If the system's temporary directory cannot be written.
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Scratch {
        let directory = tempfile::Builder::new().prefix("repo-test-").tempdir();
        Scratch {
            directory: Some(directory.expect("a temporary directory can be made")),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.directory
            .as_ref()
            .expect("present until dropped")
            .path()
    }

    /// The path of `name` in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// The repository that commands of this test use.
    pub fn repository(&self) -> PathBuf {
        self.join("program.repo")
    }

    /// Writes `text` to the file `name` in it, making directories, and returns
    /// its path.
    ///
    /// # Panics
    /// If it cannot be written.
    #[track_caller]
    pub fn write(&self, name: impl AsRef<Path>, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        let parent = path.parent().expect("a file is in a directory");
        std::fs::create_dir_all(parent).expect("a directory can be made");
        std::fs::write(&path, text).expect("a file can be written");
        path
    }

    /// A command that runs here with this repository, and with no other setting
    /// of the project's or of the compilers' from the environment.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(self.path());
        for name in [
            "REPO_LOG",
            "REPO_CC_FAT",
            "OUT_DIR",
            "REPO_CC_BASEDIR",
            "REPO_CC_DISABLE",
            "REPO_CC_READONLY",
            "REPO_LOCK_WAIT",
            "REPO_MAX_SIZE",
            "REPO_CC_PRUNE",
            "REPO_CC_VERIFY",
            "SUDO_UID",
            "CCACHE_DISABLE",
            "LD_RUN_PATH",
            "CC",
            "CXX",
            "CFLAGS",
            "CXXFLAGS",
            "LDFLAGS",
            "MAKEFLAGS",
        ] {
            command.env_remove(name);
        }
        command
            .env("REPO_FILE", self.repository())
            // Incremental links have tests of their own.
            .env("REPO_LD_INCREMENTAL", "0")
            .env("LC_ALL", "C.UTF-8");
        command
            .env("XDG_CACHE_HOME", self.join("cache"))
            .env("XDG_CONFIG_HOME", self.join("config"))
            .env("XDG_STATE_HOME", self.join("state"));
        command
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let keep = std::thread::panicking() || std::env::var_os("REPO_TESTS_KEEP").is_some();
        if let Some(directory) = self.directory.take().filter(|_| keep) {
            eprintln!("kept: {}", directory.keep().display());
        }
    }
}
