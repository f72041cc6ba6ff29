//! Which program is the compiler, and what kind of compiler it is.
//!
//! Everything is decided from names, because asking the compiler itself would
//! cost as much as a small compile.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The programs that outer instances of us have chosen already, as in `PATH`.
/// An instance that finds it set is run by a wrapper that an outer instance
/// runs: it must not choose the same program again, and it leaves the object
/// to the outer one.
pub const CHOSEN_VARIABLE: &str = "REPO_CC_CHOSEN";

/// The name of this program, which looks like a compiler's with a prefix.
pub const OWN_NAME: &str = "repo-cc";

/// The names of links to this program that stand for `repo-cc` and a compiler in one word, for tools that take all of
/// `CC` for the name of one program. Each is that of the compiler behind [`OWN_PREFIX`].
pub const ONE_WORD_NAMES: [&str; 4] = ["repo-gcc", "repo-g++", "repo-clang", "repo-clang++"];

const OWN_PREFIX: &str = "repo-";

/// The compiler that a one-word name stands for: `gcc` for `repo-gcc`, and `gcc-12` for `repo-gcc-12` where somebody made
/// such a link. `None` for any other name.
pub fn behind_one_word(program: &OsStr) -> Option<&str> {
    let name = Path::new(program).file_name()?.to_str()?;
    let compiler = name.strip_prefix(OWN_PREFIX).filter(|_| name != OWN_NAME)?;
    Name::parse(OsStr::new(compiler)).map(|_| compiler)
}

/// Whose options a compiler understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// GCC's drivers, and those that nothing else is known of.
    Gcc,
    /// clang's.
    Clang,
}

/// What a compiler's name tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Whose options it understands; `None` for `cc` and `c++`, which can be
    /// anybody's.
    pub family: Option<Family>,
    /// `x86_64-linux-gnu` of `x86_64-linux-gnu-gcc-12`.
    pub prefix: Option<String>,
    /// 12 of `gcc-12` and of `gcc-12.2`.
    pub version: Option<u32>,
}

impl Name {
    /// Reads the name of a compiler driver: `gcc`, `g++`, `cc`, `c++`, `clang`,
    /// `clang++`, `c89` and `c99`, with a prefix and a version if it has them.
    /// `None` for any other program (`gcc-ar`, `clang-format`, `make`).
    pub fn parse(program: &OsStr) -> Option<Name> {
        let name = Path::new(program).file_name()?.to_str()?;
        // `repo-gcc` is this program, too, and no compiler with a prefix.
        if name.starts_with(OWN_PREFIX) {
            return None;
        }
        let (stem, version) = match name.rsplit_once('-') {
            Some((stem, version))
                if version.starts_with(|c: char| c.is_ascii_digit())
                    && version.chars().all(|c| c.is_ascii_digit() || c == '.') =>
            {
                let major = version.split('.').next().unwrap_or(version);
                (stem, Some(major.parse().ok()?))
            }
            _ => (name, None),
        };
        let (prefix, driver) = match stem.rsplit_once('-') {
            Some((prefix, driver)) => (Some(prefix), driver),
            None => (None, stem),
        };
        let family = match driver {
            "gcc" | "g++" => Some(Family::Gcc),
            "clang" | "clang++" => Some(Family::Clang),
            "cc" | "c++" | "c89" | "c99" => None,
            _ => return None,
        };
        Some(Name {
            family,
            prefix: prefix.map(str::to_owned),
            version,
        })
    }

    /// Whether the compiler may generate code for a machine that `repo-ld`
    /// links for. A prefix that names no machine (`musl-gcc`) says nothing
    /// against it.
    pub fn may_target_x86_64_elf(&self) -> bool {
        self.prefix.as_deref().is_none_or(is_x86_64_elf)
    }
}

/// Whether a target triple (or a prefix that might be one) is x86-64 with ELF
/// objects, as far as its words tell.
pub fn is_x86_64_elf(triple: &str) -> bool {
    const OTHER_MACHINES: &[&str] = &[
        "aarch64",
        "alpha",
        "amdgcn",
        "arm",
        "avr",
        "bpf",
        "hppa",
        "i386",
        "i486",
        "i586",
        "i686",
        "ia64",
        "loongarch",
        "m68k",
        "microblaze",
        "mips",
        "msp430",
        "nvptx",
        "or1k",
        "powerpc",
        "ppc",
        "riscv",
        "s390",
        "sh4",
        "sparc",
        "spirv",
        "thumb",
        "wasm",
        "xtensa",
    ];
    const OTHER_FORMATS: &[&str] = &[
        "apple", "cygwin", "darwin", "macos", "mingw", "msvc", "uefi", "windows", "gnux32",
    ];
    !OTHER_MACHINES
        .iter()
        .any(|machine| triple.starts_with(machine))
        && !OTHER_FORMATS.iter().any(|format| triple.contains(format))
}

/// What is known of a compiler.
#[derive(Clone, Copy, Debug)]
pub struct Compiler {
    /// Whose options it understands.
    pub family: Family,
    /// Its major version, if a name tells.
    pub version: Option<u32>,
    /// Whether the objects may be for x86-64 ELF.
    pub our_target: bool,
}

/// Why there is no compiler to run.
#[derive(Debug)]
pub enum NotFound {
    /// No such program.
    Missing,
    /// The only program of this name is us, or one that led back to us.
    OnlyOurselves,
}

/// Whether a program is rustc, by its name.
pub fn is_rustc(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new("rustc"))
}

/// Who we are, to tell ourselves from the compiler on `PATH`.
pub struct Ourselves {
    identity: Option<(u64, u64)>,
    chosen: Vec<PathBuf>,
}

impl Ourselves {
    /// Looks at `/proc/self/exe` and [`CHOSEN_VARIABLE`].
    pub fn look() -> Ourselves {
        Ourselves {
            identity: fs::metadata("/proc/self/exe")
                .ok()
                .map(|m| (m.dev(), m.ino())),
            chosen: env::var_os(CHOSEN_VARIABLE)
                .map(|value| env::split_paths(&value).collect())
                .unwrap_or_default(),
        }
    }

    /// Whether an outer instance runs the wrapper that runs us for `program`. (One that runs rustc does not do the work of the compilers that
    /// rustc links with.)
    pub fn are_inner(&self, program: &Path) -> bool {
        let is_rustc = |path: &Path| is_rustc(path.as_os_str());
        let chosen = &self.chosen;
        chosen
            .iter()
            .any(|chosen| is_rustc(chosen) == is_rustc(program))
    }

    /// The value of [`CHOSEN_VARIABLE`] for what we run.
    pub fn chosen_with(&self, compiler: &Path) -> Option<OsString> {
        env::join_paths(self.chosen.iter().map(PathBuf::as_path).chain([compiler])).ok()
    }

    /// Whether `candidate` is this program, or another copy of it.
    fn is_us(&self, candidate: &Path, metadata: &fs::Metadata) -> bool {
        Some((metadata.dev(), metadata.ino())) == self.identity
            || fs::canonicalize(candidate)
                .is_ok_and(|path| path.file_name() == Some(OsStr::new(OWN_NAME)))
    }

    /// Whether `candidate` is this program (or another copy of it), or has
    /// been chosen by an outer instance already.
    fn is_ours(&self, candidate: &Path, metadata: &fs::Metadata) -> bool {
        self.is_us(candidate, metadata) || self.chosen.iter().any(|chosen| chosen == candidate)
    }

    /// The name of a compiler alone where its path is that of one of our links (a build system found it on `PATH`, and has us as a
    /// launcher, too): it is looked for as the link would.
    pub fn without_link(&self, program: OsString) -> OsString {
        let path = Path::new(&program);
        let is_path = program.as_bytes().contains(&b'/');
        let is_link = || executable(path).is_some_and(|metadata| self.is_us(path, &metadata));
        match path.file_name() {
            Some(name) if is_path && Name::parse(name).is_some() && is_link() => name.to_owned(),
            _ => program,
        }
    }

    /// The file that running `program` means: a path as it is, a name as the
    /// first on `PATH` that is not ours. The second value tells whether ours
    /// were passed over.
    pub fn find(&self, program: &OsStr) -> Result<(PathBuf, bool), NotFound> {
        if program.as_bytes().contains(&b'/') {
            let path = PathBuf::from(program);
            return match executable(&path) {
                Some(metadata) if self.is_ours(&path, &metadata) => Err(NotFound::OnlyOurselves),
                // What cannot be run fails when it is run, with its own error.
                _ => Ok((path, false)),
            };
        }
        let mut passed_over = false;
        for dir in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
            let path = if dir.as_os_str().is_empty() {
                Path::new(".").join(program)
            } else {
                dir.join(program)
            };
            if let Some(metadata) = executable(&path) {
                if !self.is_ours(&path, &metadata) {
                    return Ok((path, passed_over));
                }
                passed_over = true;
            }
        }
        Err(if passed_over {
            NotFound::OnlyOurselves
        } else {
            NotFound::Missing
        })
    }

    /// Whether a program of this name is `repo-cc` or one of its links, or these are found before it.
    pub fn is_found_by(&self, program: &OsStr) -> bool {
        match self.find(program) {
            Ok((_, passed_over)) => passed_over,
            Err(NotFound::OnlyOurselves) => true,
            Err(NotFound::Missing) => false,
        }
    }
}

/// The metadata of an executable regular file.
fn executable(path: &Path) -> Option<fs::Metadata> {
    let metadata = fs::metadata(path).ok()?;
    (metadata.is_file() && metadata.permissions().mode() & 0o111 != 0).then_some(metadata)
}

/// A program that can be run.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// How it is to see its own name (`argv[0]`): as the user wrote it, or its
    /// path where a search by that name would find us.
    pub argv0: OsString,
    /// What is known of it if it is a compiler.
    pub compiler: Option<Compiler>,
}

impl Program {
    /// The program that running `name` means. It is a compiler if its name or
    /// that of the file behind its links is one's.
    pub fn find(name: &OsStr, ourselves: &Ourselves) -> Result<Program, NotFound> {
        let (path, passed_over) = ourselves.find(name)?;
        let given = Name::parse(name);
        let resolved = fs::canonicalize(&path)
            .ok()
            .and_then(|file| Name::parse(file.as_os_str()));
        let compiler = given.as_ref().or(resolved.as_ref()).map(|name| Compiler {
            family: name
                .family
                .or(resolved.as_ref().and_then(|name| name.family))
                .unwrap_or(Family::Gcc),
            version: name
                .version
                .or(resolved.as_ref().and_then(|name| name.version)),
            our_target: name.may_target_x86_64_elf()
                && resolved.as_ref().is_none_or(Name::may_target_x86_64_elf),
        });
        // A driver finds its own files by its name on PATH: where that would
        // lead to us it must see its path instead.
        let argv0 = if passed_over {
            path.clone().into_os_string()
        } else {
            name.to_owned()
        };
        Ok(Program {
            path,
            argv0,
            compiler,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let name = |text: &str| Name::parse(OsStr::new(text));
        for (text, family, prefix, version) in [
            ("gcc", Some(Family::Gcc), None, None),
            ("/usr/bin/g++", Some(Family::Gcc), None, None),
            ("cc", None, None, None),
            ("c++", None, None, None),
            ("c99", None, None, None),
            ("clang++-19", Some(Family::Clang), None, Some(19)),
            ("gcc-4.9", Some(Family::Gcc), None, Some(4)),
            ("musl-gcc", Some(Family::Gcc), Some("musl"), None),
            (
                "x86_64-linux-gnu-gcc-12",
                Some(Family::Gcc),
                Some("x86_64-linux-gnu"),
                Some(12),
            ),
            (
                "../aarch64-linux-android21-clang",
                Some(Family::Clang),
                Some("aarch64-linux-android21"),
                None,
            ),
        ] {
            assert_eq!(
                name(text),
                Some(Name {
                    family,
                    prefix: prefix.map(str::to_owned),
                    version
                }),
                "{text}"
            );
        }
        for text in [
            "gcc-ar",
            "gcc-ar-12",
            "clang-format",
            "clang-cpp-19",
            "clang-cl",
            "repo-cc",
            "repo-gcc",
            "repo-clang++-19",
            "make",
            "ccache",
            "cc1",
            "",
            "/",
            "gcc-99999999999999",
        ] {
            assert_eq!(name(text), None, "{text}");
        }
    }

    #[test]
    fn one_word_names() {
        let behind = |text: &'static str| behind_one_word(OsStr::new(text));
        for name in ONE_WORD_NAMES {
            assert_eq!(behind(name), name.strip_prefix("repo-"));
        }
        assert_eq!(behind("/links/repo-gcc-12"), Some("gcc-12"));
        for name in ["repo-cc", "repo-ld", "repo-", "gcc", "repo-repo-gcc"] {
            assert_eq!(behind(name), None, "{name}");
        }
    }

    #[test]
    fn targets() {
        for triple in [
            "x86_64-linux-gnu",
            "x86_64-pc-linux-musl",
            "musl",
            "afl",
            "x86_64-unknown-freebsd",
        ] {
            assert!(is_x86_64_elf(triple), "{triple}");
        }
        for triple in [
            "aarch64-linux-gnu",
            "arm-none-eabi",
            "i686-linux-gnu",
            "x86_64-w64-mingw32",
            "x86_64-apple-darwin",
            "x86_64-linux-gnux32",
            "wasm32-wasi",
            "riscv64-unknown-elf",
        ] {
            assert!(!is_x86_64_elf(triple), "{triple}");
        }
    }
}
