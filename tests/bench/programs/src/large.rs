//! Large programs of which little is edited: all of clang's and LLVM's static libraries with some units of our own (240 MB, and
//! a quarter of it), and a program of Rust with debugging information (450 MB) that cargo links.

use crate::links::arguments_of_driver;
use crate::measure::run;
use crate::relinks::{Edit, Program};
use anyhow::{Context as _, Result, ensure};
use repo_tests::sources::files;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian has LLVM 19.
const LIBRARIES: &str = "/usr/lib/llvm-19/lib";

/// Units of our own, which all include the header that is edited.
const UNITS: usize = 50;

/// Of what is named so there are several, or they need what is not installed.
const LEFT_OUT: [&str; 16] = [
    "libclang.",
    "_rt",
    "Main.",
    "LLVMBOLT",
    "Interpreter",
    "Debuginfod",
    "TableGen",
    "Exegesis",
    "Orc",
    "MCA",
    "Daemon",
    "Fuzz",
    "libclangd",
    "IncludeFixer",
    "LineEditor",
    "Extensions",
];

/// How much of the libraries a program has.
#[derive(Clone, Copy, PartialEq)]
pub enum Share {
    /// Some of LLVM's: a quarter.
    Quarter,
    /// All of LLVM's and clang's.
    Full,
}

impl Share {
    /// Whether all of a library is linked.
    fn has(self, library: &str) -> bool {
        let is_chosen = match self {
            Share::Full => !["OptDriver", "clangQuery"]
                .iter()
                .any(|part| library.contains(part)),
            Share::Quarter => {
                let name = library.strip_prefix("libLLVM");
                let others = ["AMDGPU", "ARM", "AVR", "BPF", "DWP"];
                name.is_some_and(|name| {
                    (name.starts_with(|first| ('A'..='F').contains(&first))
                        || name.starts_with("X86"))
                        && !others.iter().any(|other| name.starts_with(other))
                })
            }
        };
        is_chosen && !LEFT_OUT.iter().any(|part| library.contains(part))
    }
}

/// What is edited of the units.
#[derive(Clone, Copy, Default)]
struct Numbers {
    body: usize,
    string: usize,
    inline: usize,
    member: usize,
}

/// The program of LLVM's libraries.
///
/// # Errors
/// If they are not installed, or something cannot be compiled.
pub fn program(directory: &Path, runs: usize, share: Share) -> Result<Program> {
    fs::create_dir_all(directory)?;
    let all = files(Path::new(LIBRARIES), ".a").unwrap_or_default();
    let name_of = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let of_llvm = |path: &PathBuf| {
        let name = name_of(path);
        ["libclang", "libLLVM"].iter().any(|l| name.starts_with(l))
            && !name.starts_with("libclang.")
    };
    let all: Vec<PathBuf> = all.into_iter().filter(of_llvm).collect();
    ensure!(
        all.iter().any(|path| name_of(path) == "libclangSema.a"),
        "needs Debian's packages libclang-19-dev and llvm-19-dev"
    );

    let units = Units { directory };
    let object = |unit: usize| directory.join(format!("unit{unit}.o"));
    for unit in 0..UNITS {
        units.compile(unit, Numbers::default(), &object(unit))?;
    }
    // An archive of many members, of which one is ours.
    let support = directory.join("libLLVMSupport.a");
    let archive = |number: usize, archive: &Path| -> Result<()> {
        let member = directory.join("member.o");
        let numbers = Numbers {
            member: number,
            ..Numbers::default()
        };
        units.compile(UNITS, numbers, &member)?;
        fs::copy(Path::new(LIBRARIES).join("libLLVMSupport.a"), archive)?;
        run(Command::new("ar").arg("qs").arg(archive).arg(member))?;
        Ok(())
    };
    archive(0, &support)?;

    let mut words: Vec<OsString> = (0..UNITS).map(|unit| object(unit).into()).collect();
    let here = |path: &PathBuf| match name_of(path) == "libLLVMSupport.a" {
        true => support.clone().into_os_string(),
        false => path.clone().into_os_string(),
    };
    words.push("-Wl,--whole-archive".into());
    words.extend(
        all.iter()
            .filter(|path| share.has(&name_of(path)))
            .map(here),
    );
    words.extend(["-Wl,--no-whole-archive", "-Wl,--start-group"].map(Into::into));
    words.extend(all.iter().map(here));
    words.push("-Wl,--end-group".into());
    words.extend(["-lrt", "-ldl", "-lm", "-lz3", "-lz", "-lzstd", "-lxml2"].map(Into::into));

    let mut edits = vec![Edit {
        what: "nothing",
        versions: vec![Vec::new(); runs + 1],
    }];
    let kinds: [(&'static str, fn(usize) -> Numbers, std::ops::Range<usize>); 3] = [
        (
            "the body of one function",
            |body| Numbers {
                body,
                ..Numbers::default()
            },
            7..8,
        ),
        (
            "a string",
            |string| Numbers {
                string,
                ..Numbers::default()
            },
            8..9,
        ),
        (
            "an inline function of 50 units",
            |inline| Numbers {
                inline,
                ..Numbers::default()
            },
            0..UNITS,
        ),
    ];
    for (kind, (what, numbers, edited)) in kinds.into_iter().enumerate() {
        let mut versions = Vec::new();
        for number in 1..=runs + 1 {
            let mut files = Vec::new();
            for unit in edited.clone() {
                let from = directory.join(format!("unit{unit}.{kind}.{number}.o"));
                units.compile(unit, numbers(number), &from)?;
                files.push((from, object(unit)));
            }
            versions.push(files);
        }
        edits.push(Edit { what, versions });
    }
    let mut versions = Vec::new();
    for number in 1..=runs + 1 {
        let from = directory.join(format!("{number}.a"));
        archive(number, &from)?;
        versions.push(vec![(from, support.clone())]);
    }
    edits.push(Edit {
        what: "a member of an archive of 5 MB",
        versions,
    });
    Ok(Program {
        name: match share {
            Share::Quarter => "some of LLVM, static".into(),
            Share::Full => "all of clang and LLVM, static".into(),
        },
        words: arguments_of_driver(&"g++".into(), &words, directory)?,
        directory: directory.to_owned(),
        edits,
    })
}

/// The units of our own.
struct Units<'u> {
    directory: &'u Path,
}

impl Units<'_> {
    /// Compiles one; the one behind the last is the archive's.
    fn compile(&self, unit: usize, numbers: Numbers, object: &Path) -> Result<()> {
        let source = object.with_extension("cpp");
        fs::write(&source, text(unit, numbers))?;
        let mut compiler = Command::new("g++");
        compiler
            .args(["-O1", "-ffunction-sections", "-c"])
            .arg(&source);
        let done = run(compiler.arg("-o").arg(object));
        done.map(drop)
            .with_context(|| self.directory.display().to_string())
    }
}

fn text(unit: usize, numbers: Numbers) -> String {
    let Numbers {
        body,
        string,
        inline,
        member,
    } = numbers;
    if unit == UNITS {
        return format!("int member(int x) {{ return x * {} + 1; }}\n", member + 3);
    }
    let next = (unit + 1) % UNITS;
    let mut text = format!(
        "extern int f{next}(int);\nextern \"C\" int puts(const char *);\n\
         __attribute__((noinline)) inline int inlined(int x) {{ return x * {} + 1; }}\n\
         int f{unit}(int x) {{\n  if (x == 77) puts(\"unit {unit}, string {string}\");\n  \
         x += inlined(x) + {body};\n  return x & 1 ? x : f{next}(x >> 1);\n}}\n",
        inline + 3
    );
    if unit == 0 {
        // Debian's libraries ask for Polly, which is in a package of its own.
        text.push_str(
            "void getPollyPluginInfo() {}\nextern int member(int);\n\
             int main() { return (f0(1) + member(2)) & 1; }\n",
        );
    }
    text
}
