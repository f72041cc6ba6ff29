//! Building one package in one way, and running its tests.
//!
//! The linker is put in gcc's way by `-B`, and `ld` itself stands first on the `PATH` for whoever calls it directly. The
//! reference is built in exactly the same way: there `ld` is a link to the system's.

use crate::packages::outcomes::{self, Outcome, Outcomes};
use crate::packages::outputs::{self, Outputs};
use crate::packages::source;
use crate::packages::table::{Language, Package};
use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};

/// The exit code of timeout(1) for a command that took longer.
const TIMED_OUT: i32 = 124;

/// The outcome that stands for the exit code of the test script itself.
pub const SCRIPT: &str = "(the test script)";

/// The flags that C and C++ packages are built with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flags {
    /// The package's own.
    #[default]
    Package,
    /// Debian's, with all hardening.
    Distribution,
    /// The same with link-time optimisation.
    DistributionLto,
}

impl Flags {
    /// What is added to a build's directory.
    fn suffix(self) -> &'static str {
        match self {
            Flags::Package => "",
            Flags::Distribution => "-distribution",
            Flags::DistributionLto => "-distribution-lto",
        }
    }

    /// What is added to a package's name in tables.
    pub fn remark(self) -> &'static str {
        match self {
            Flags::Package => "",
            Flags::Distribution => ", distribution's flags",
            Flags::DistributionLto => ", distribution's flags and -flto",
        }
    }
}

/// What holds for all packages of a run; see [`super::Arguments`].
#[derive(Default)]
pub struct Options {
    /// Where everything is.
    pub root: PathBuf,
    /// The directory of `repo-ld` and `repo-cc`.
    pub programs: PathBuf,
    /// The flags of C and C++.
    pub flags: Flags,
    /// Whole test suites.
    pub thorough: bool,
    /// Nothing of an earlier run is taken.
    pub fresh: bool,
    /// Jobs of make and of test suites.
    pub jobs: usize,
    /// Before the compiler.
    pub launcher: Option<String>,
    /// The longest that a step may take, as timeout(1) reads it; nothing is no limit.
    pub limit: String,
    /// Builds go when their results are known.
    pub remove: bool,
}

/// Who links, and from what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The system's ld: the reference.
    System,
    /// `repo-ld`, from ELF objects.
    Objects,
    /// `repo-ld`, from what `repo-cc` made.
    Tickets,
}

impl Way {
    /// Its name in tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Way::System => "ld",
            Way::Objects => "repo-ld",
            Way::Tickets => "tickets",
        }
    }

    /// Its directory. All are of the same length, because that of a path can change what a test does: SQLite's tests of
    /// full memory count allocations.
    fn directory(self) -> &'static str {
        match self {
            Way::System => "with-ld",
            _ => self.name(),
        }
    }
}

/// A build and its tests.
pub struct Built {
    /// What became of each test.
    pub outcomes: Outcomes,
    /// The executables and shared objects that the build made.
    pub outputs: Outputs,
    /// Seconds for configuring and building, and for the tests.
    pub seconds: [f64; 2],
}

/// Builds `package` and runs its tests, or returns what an earlier run found if nothing changed since. `identity` is that
/// of its source.
///
/// # Errors
/// If the source cannot be had, or a step fails: with the end of its log.
pub fn build(package: &Package, way: Way, options: &Options, identity: &str) -> Result<Built> {
    let home = options.root.join(package.name);
    let flags = options.flags.suffix();
    let directory = home.join(format!("{}{flags}", way.directory()));
    let work = Work {
        package,
        way,
        options,
        tree: directory.join("build"),
        log: directory.join("links.log"),
        directory,
    };
    let stamp = work.stamp(identity)?;
    let kept = work.directory.join("result.json");
    if !options.fresh
        && let Some(built) = read(&kept, &stamp)
    {
        return Ok(built);
    }
    let original = home.join("source");
    source::get(&package.source, identity, &options.root, &original)?;
    if work.directory.exists() {
        fs::remove_dir_all(&work.directory)?;
    }
    fs::create_dir_all(&work.directory)?;
    source::copy(&original, &work.tree)?;
    work.make_links()?;

    let begin = SystemTime::now();
    let start = Instant::now();
    work.step("build", package.build)?;
    let build_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let script = if options.thorough {
        package.thorough.unwrap_or(package.test)
    } else {
        package.test
    };
    // A test suite that fails is no error: its outcomes tell. Its end is one of them, or it might stop half way unseen.
    let (good, text) = work.run("test", script)?;
    // Names of tests may hold the build's place, which is no difference.
    let text = text.replace(&*work.tree.to_string_lossy(), "BUILD");
    let end = if good { Outcome::Pass } else { Outcome::Fail };
    let mut outcomes = Outcomes::from([(SCRIPT.to_owned(), end)]);
    for format in package.outcomes {
        outcomes::read(*format, &text, &work.tree, &mut outcomes)?;
    }
    let built = Built {
        outcomes,
        outputs: outputs::find(&work.tree, begin, &work.log)?,
        seconds: [build_seconds, start.elapsed().as_secs_f64()],
    };
    fs::write(&kept, serde_json::to_string(&built.to_json(&stamp))?)?;
    if options.remove {
        fs::remove_dir_all(&work.tree)?;
        let _ = fs::remove_file(work.repository());
    }
    Ok(built)
}

/// One build: its places and settings.
struct Work<'w> {
    package: &'w Package,
    way: Way,
    options: &'w Options,
    directory: PathBuf,
    tree: PathBuf,
    log: PathBuf,
}

impl Work<'_> {
    /// Changes when the result may: the source, the recipe, the options, the linker, the compiler driver.
    fn stamp(&self, identity: &str) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        let package = self.package;
        identity.hash(&mut hasher);
        (package.build, package.test, package.thorough).hash(&mut hasher);
        (self.options.thorough, self.way.name()).hash(&mut hasher);
        let programs: &[&str] = match self.way {
            Way::System => &[],
            Way::Objects => &["repo-ld"],
            Way::Tickets => &["repo-ld", "repo-cc"],
        };
        for name in programs {
            let path = self.options.programs.join(name);
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            bytes.hash(&mut hasher);
        }
        Ok(format!("{:016x}", hasher.finish()))
    }

    /// The directory for `-B` and `PATH`.
    fn links(&self) -> PathBuf {
        self.directory.join("bin")
    }

    /// The repository that tickets of this build name.
    fn repository(&self) -> PathBuf {
        self.directory.join("program.repo")
    }

    fn make_links(&self) -> Result<()> {
        fs::create_dir_all(self.links())?;
        let linker = match self.way {
            Way::System => {
                repo_tests::tools::find("ld").context("the machine has no ld to compare with")?
            }
            Way::Objects | Way::Tickets => self.options.programs.join("repo-ld"),
        };
        symlink(&linker, self.links().join("ld"))?;
        Ok(())
    }

    fn step(&self, name: &str, script: &str) -> Result<()> {
        let (good, text) = self.run(name, script)?;
        if !good {
            let lines: Vec<_> = text.lines().collect();
            let tail = &lines[lines.len().saturating_sub(30)..];
            bail!("the {name} step failed:\n{}", tail.join("\n"));
        }
        Ok(())
    }

    /// Runs a step of the recipe; whether its exit code was 0, and what it printed.
    fn run(&self, name: &str, script: &str) -> Result<(bool, String)> {
        eprintln!(
            "xtask: {} with {}: {name} …",
            self.package.name,
            self.way.name()
        );
        let path = self.directory.join(format!("{name}.log"));
        let log = fs::File::create(&path)?;
        let limit = match &*self.options.limit {
            // Which is none.
            "" => "0",
            limit => limit,
        };
        // Suites interrupt their programs by signals that a shell in the background would ignore.
        let mut command = Command::new("env");
        command
            .args(["--default-signal=INT,QUIT", "timeout", "--kill-after=10"])
            .args([limit, "sh", "-e", "-c", script])
            .current_dir(&self.tree)
            .stdin(Stdio::null())
            .process_group(0);
        command.stdout(log.try_clone()?).stderr(log);
        self.set_environment(&mut command)?;
        let mut child = command.spawn().context("cannot run env")?;
        let status = child.wait()?;
        // What the step left running ends with it.
        if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        if status.code() == Some(TIMED_OUT) {
            bail!(
                "the {name} step took longer than {limit}: {}",
                path.display()
            );
        }
        let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        Ok((status.success(), text))
    }

    fn set_environment(&self, command: &mut Command) -> Result<()> {
        let links = self.links();
        let launcher = match (self.way, &self.options.launcher) {
            (Way::Tickets, _) => format!("{} ", self.options.programs.join("repo-cc").display()),
            (_, Some(launcher)) => format!("{launcher} "),
            _ => String::new(),
        };
        let compiler = |name: &str| format!("{launcher}{name} -B{}/", links.display());
        let mut path = links.clone().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command
            .env("CC", compiler("gcc"))
            .env("CXX", compiler("g++"))
            .env("PATH", path)
            .env("JOBS", self.options.jobs.to_string())
            .env("REPO_LOG", &self.log)
            .env("REPO_FILE", self.repository())
            .env("LC_ALL", "C.UTF-8")
            // ccache: the directory with the linker is no reason to compile again, nor is this build's place.
            .env("CCACHE_IGNOREOPTIONS", "-B*")
            .env("CCACHE_NOHASHDIR", "1")
            .env("CCACHE_BASEDIR", &self.tree);
        // What cargo set for xtask must not reach other cargos, nor make's jobserver other makes.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if (name.starts_with("CARGO") && name != "CARGO_HOME")
                || (name.starts_with("RUST") && !name.starts_with("RUSTUP"))
                || ["MAKEFLAGS", "MFLAGS", "CFLAGS", "LDFLAGS"].contains(&&*name)
            {
                command.env_remove(&*name);
            }
        }
        if self.package.language == Language::Rust {
            let flags = format!(
                "-Clinker=gcc -Clinker-features=-lld -Clink-arg=-B{}/",
                links.display()
            );
            // A package's rust-toolchain.toml must not choose another compiler, and have rustup install or update one.
            if let Some(toolchain) = active_toolchain() {
                command.env("RUSTUP_TOOLCHAIN", toolchain);
            }
            command
                .env("RUSTFLAGS", &flags)
                .env("RUSTDOCFLAGS", &flags)
                .env("CARGO_BUILD_JOBS", self.options.jobs.to_string());
        }
        if self.options.flags != Flags::Package {
            let lto = self.options.flags == Flags::DistributionLto;
            for name in ["CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"] {
                command.env(name, distribution_flags(name, lto)?);
            }
        }
        Ok(())
    }
}

/// The toolchain that builds this project, if rustup is what chooses it.
fn active_toolchain() -> Option<String> {
    if let Ok(toolchain) = std::env::var("RUSTUP_TOOLCHAIN") {
        return Some(toolchain);
    }
    let output = Command::new("rustup")
        .args(["show", "active-toolchain"])
        .current_dir(repo_tests::sources::project_root())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

/// What Debian's packages are built with when they ask for all hardening.
fn distribution_flags(name: &str, lto: bool) -> Result<String> {
    let lto = if lto { "optimize=+lto" } else { "" };
    let output = Command::new("dpkg-buildflags")
        .args(["--get", name])
        // It puts the directory in which it runs into the flags.
        .current_dir(repo_tests::sources::project_root())
        .env("DEB_BUILD_MAINT_OPTIONS", format!("hardening=+all {lto}"))
        .output()
        .context("cannot run dpkg-buildflags (Debian package dpkg-dev)")?;
    let mut flags = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if name == "LDFLAGS" {
        flags.push_str(" -Wl,--as-needed");
    }
    Ok(flags)
}

impl Built {
    fn to_json(&self, stamp: &str) -> Value {
        json!({
            "stamp": stamp,
            "outcomes": self.outcomes,
            "linked": self.outputs.linked,
            "unexplained": self.outputs.unexplained,
            "seconds": self.seconds,
        })
    }
}

/// The result of an earlier run, if it has this stamp.
fn read(path: &Path, stamp: &str) -> Option<Built> {
    let value: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    if value["stamp"] != stamp {
        return None;
    }
    let field = |name: &str| value[name].clone();
    Some(Built {
        outcomes: serde_json::from_value(field("outcomes")).ok()?,
        outputs: Outputs {
            linked: serde_json::from_value(field("linked")).ok()?,
            unexplained: serde_json::from_value(field("unexplained")).ok()?,
        },
        seconds: serde_json::from_value(field("seconds")).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::table::PACKAGES;
    use std::time::Duration;

    /// What a step of a Rust package does in a tree of `files`.
    fn step(files: &[(&str, &str)], script: &str) -> (bool, String) {
        limited_step(files, script, "").unwrap()
    }

    fn limited_step(files: &[(&str, &str)], script: &str, limit: &str) -> Result<(bool, String)> {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            root: directory.path().to_owned(),
            programs: directory.path().to_owned(),
            jobs: 1,
            limit: limit.to_owned(),
            ..Options::default()
        };
        let package = PACKAGES
            .iter()
            .find(|package| package.language == Language::Rust)
            .unwrap();
        let work = Work {
            package,
            way: Way::System,
            options: &options,
            tree: directory.path().join("build"),
            log: directory.path().join("links.log"),
            directory: directory.path().to_owned(),
        };
        fs::create_dir(&work.tree).unwrap();
        for (name, text) in files {
            fs::write(work.tree.join(name), text).unwrap();
        }
        work.run("step", script)
    }

    #[test]
    fn a_step_ends_at_the_limit() {
        let error = limited_step(&[], "echo begun; sleep 1000", "0.1s").unwrap_err();
        assert!(
            error.to_string().contains("took longer than 0.1s"),
            "{error}"
        );
    }

    #[test]
    fn a_package_does_not_choose_the_toolchain() {
        if active_toolchain().is_none() {
            return repo_tests::tools::skip("rustup");
        }
        let file = "[toolchain]\npath = \"/nonexistent\"\n";
        let (good, text) = step(&[("rust-toolchain.toml", file)], "cargo --version");
        assert!(good, "{text}");
    }

    #[test]
    fn what_a_step_leaves_running_ends_with_it() {
        let (good, text) = step(&[], "sleep 1000 & echo $!");
        assert!(good);
        let status = PathBuf::from(format!("/proc/{}/stat", text.trim()));
        let runs = || {
            // The state stands after the name: gone, or a zombie that its new parent has not asked about yet.
            let text = fs::read_to_string(&status).unwrap_or_default();
            text.rsplit_once(") ")
                .is_some_and(|(_, rest)| !rest.starts_with('Z'))
        };
        let start = Instant::now();
        while runs() {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::yield_now();
        }
    }
}
