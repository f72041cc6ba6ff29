//! Every kind of section that compilers write is known: objects of all language modes are split, stay right through
//! `repo-cc` and `repo-ld`, and what is stored whole is a small part, with a reason that is said.

use bumpalo::Bump;
use repo_tests::binaries::Binaries;
use repo_tests::build::parallel;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::run;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The most that may be stored whole, in hundredths of all bytes of the objects.
const BAR: u64 = 1;

/// Versions of compilers whose objects are looked at where they are installed, beside those that have no number.
const VERSIONS: std::ops::RangeInclusive<u32> = 11..=22;

const C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int counter;
_Thread_local int per_thread;
const char *names[] = {"zero", "one", "two"};
static const double table[] = {1.5, 2.5, 3.5};
int choose(int x) {
  switch (x) {
  case 1: return 5; case 2: return 9; case 3: return 11; case 4: return 100; case 5: return 7; case 6: return 999;
  }
  return 0;
}
__attribute__((noinline)) static double scaled(int i) { return table[i % 3] * 2.25; }
int main(int argc, char **argv) {
  char buffer[64];
  strcpy(buffer, names[argc % 3]);
  counter++;
  per_thread = argc;
  int *numbers = malloc(10 * sizeof *numbers);
  numbers[argc] = 2;
  printf("%s %d %g %d %d\n", buffer, choose(argc + 2), scaled(argc), numbers[argc], counter + per_thread);
  free(numbers);
  return argv[0] == 0;
}
"#;

const CXX: &str = r#"
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
template <class T> T add(T a, T b) { return a + b; }
thread_local int per_thread;
inline int counted(int x) { static int k; return k += x; }
struct Base { virtual ~Base() {} virtual int size() = 0; };
struct Derived : Base { std::string text; int size() override { return (int)text.size(); } };
static std::vector<std::string> made_before_main{"a", "bc"};
int choose(int x) {
  switch (x) {
  case 1: return 5; case 2: return 9; case 3: return 11; case 4: return 100; case 5: return 7; case 6: return 999;
  }
  return 0;
}
int main(int argc, char **) {
  std::map<std::string, int> map;
  map["key"] = 1;
  per_thread = argc;
  try {
    if (argc > 0) throw std::runtime_error("thrown");
  } catch (std::exception &error) {
    puts(error.what());
  }
  Derived derived;
  Base *base = &derived;
  printf("%d %d %d %d %zu %zu\n", add(1, 2), counted(2), choose(argc + 2), base->size(), map.size(),
         made_before_main.size() + per_thread);
}
"#;

/// What is compiled with, for C and for C++. A compiler that does not take it is passed over.
const FLAGS: &[&str] = &[
    "-O0",
    "-O2",
    "-O3 -fPIC",
    "-Os -fno-function-sections -fno-data-sections",
    "-g -O2",
    "-g3 -O1",
    "-g -gdwarf-4 -fdebug-types-section",
    "-g -gz",
    "-g -gpubnames",
    "-g -ggnu-pubnames",
    "-g -gsplit-dwarf",
    "-g -gembed-source",
    "-g -gcodeview",
    "-gctf",
    "-gbtf",
    "-pg",
    "-pg -mfentry -mrecord-mcount -no-pie",
    "--coverage",
    "-fprofile-generate",
    "-fprofile-instr-generate -fcoverage-mapping",
    "-fcs-profile-generate -O2",
    "-fsanitize=address,undefined -g",
    "-fsanitize=thread",
    "-fsanitize=leak",
    "-fsanitize=safe-stack",
    "-fsanitize=function",
    "-fsanitize=kcfi",
    "-fsanitize-coverage=trace-pc-guard,pc-table",
    "-fsanitize-coverage=inline-8bit-counters,pc-table",
    "-fexperimental-sanitize-metadata=all",
    "-fstack-size-section",
    "-fpatchable-function-entry=4,2",
    "-fbasic-block-address-map",
    "-fbasic-block-sections=labels",
    "-fbasic-block-sections=all",
    "-fxray-instrument -fxray-instruction-threshold=1",
    "-finstrument-functions",
    "-fsplit-stack",
    "-fstack-protector-all -fstack-clash-protection",
    "-fcf-protection=full",
    "-mindirect-branch=thunk",
    "-mretpoline",
    "-mcmodel=large -O2",
    "-mcmodel=medium -mlarge-data-threshold=16",
    "-fno-asynchronous-unwind-tables",
    "-fcommon",
    "-fno-plt",
    "-faddrsig",
    "-fno-addrsig",
    "-funique-internal-linkage-names",
    "-fpseudo-probe-for-profiling -O2",
    "-fopenmp",
    "-frecord-gcc-switches",
    "-grecord-command-line",
    "-Wa,--gsframe",
    "-Wa,-mx86-used-note=yes",
    "-freorder-blocks-and-partition -O2",
    "-Xclang -fembed-bitcode=all",
];

const C_MODES: &[&str] = &["-std=c89", "-std=gnu99", "-std=c11", "-std=c17", "-std=c2x"];
const CXX_MODES: &[&str] = &[
    "-std=c++11",
    "-std=gnu++14",
    "-std=c++17",
    "-std=c++20",
    "-std=gnu++20 -g -O2",
    "-std=c++2b",
    "-std=c++20 -fmodules-ts",
];

/// Compilers of this name and of this name with a version, each once.
fn compilers(name: &str) -> Vec<PathBuf> {
    let names = VERSIONS.map(|version| format!("{name}-{version}"));
    let mut files = Vec::new();
    for name in [name.to_owned()].into_iter().chain(names) {
        if let Some(path) = tools::on_path(&name) {
            let file = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
            // Drivers for C and C++ may be one file.
            if !files.iter().any(|(other, _)| *other == file) {
                files.push((file, path));
            }
        }
    }
    files.into_iter().map(|(_, path)| path).collect()
}

/// Bytes of objects, and of those that are stored whole with why.
#[derive(Default)]
struct Account {
    all: u64,
    whole: u64,
    reasons: Vec<String>,
}

impl Account {
    /// Splits an object as `repo-cc` does.
    #[track_caller]
    fn add(&mut self, what: &str, object: &[u8]) {
        let arena = Bump::new();
        let size = object.len() as u64;
        let reason = match linker::repository::split::split(object, &arena) {
            Ok(split) => split.whole,
            Err(error) => Some(error.to_string()),
        };
        self.all += size;
        if let Some(reason) = reason {
            self.whole += size;
            self.reasons.push(format!("{what}: {size} bytes: {reason}"));
        }
    }

    #[track_caller]
    fn within_the_bar(&self) {
        eprintln!("{} of {} bytes are stored whole", self.whole, self.all);
        assert!(
            self.whole * 100 <= self.all * BAR,
            "{} of {} bytes are stored whole:\n{}",
            self.whole,
            self.all,
            self.reasons.join("\n")
        );
    }
}

/// Compiles a source with these flags plainly and through `repo-cc`; the object of the former, and what is wrong with the
/// latter. `None` if the compiler does not take the flags, or not here (a sanitizer without its library).
fn compile(
    scratch: &Scratch,
    compiler: &Path,
    source: &str,
    flags: &str,
) -> Option<(Vec<u8>, String)> {
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let suffix = Path::new(source).extension()?.to_str()?;
    // Each in a directory of its own: split DWARF, coverage and profiles are files beside the object.
    let built = |directory: &str, launcher: Option<&Path>| {
        fs::create_dir_all(scratch.join(directory)).expect("a directory");
        let name = format!("{directory}/a.{suffix}");
        fs::copy(scratch.join(source), scratch.join(&name)).expect("a copy");
        let start = || {
            let mut command = scratch.command(launcher.unwrap_or(compiler));
            if launcher.is_some() {
                command.arg(compiler);
            }
            command.current_dir(scratch.join(directory));
            command
        };
        let sections = ["-ffunction-sections", "-fdata-sections"];
        let compiled = run(start().args(sections).args(&flags).args([
            "-c",
            &format!("a.{suffix}"),
            "-o",
            "a.o",
        ]));
        if !compiled.status.success() {
            return Err(compiled.report());
        }
        let linked = run(start().args(&flags).args(["a.o", "-o", "a.out"]));
        if !linked.status.success() {
            return Err(linked.report());
        }
        let mut program = scratch.command("./a.out");
        let ran = run(program.current_dir(scratch.join(directory)));
        Ok((ran.status, ran.text(), ran.report()))
    };
    let plain = built("plain", None);
    let object = fs::read(scratch.join("plain/a.o")).ok()?;
    if !object.starts_with(b"\x7fELF") {
        return None;
    }
    let Ok(plain) = plain else {
        return Some((object, String::new()));
    };
    let through = built("through", Some(Binaries::get().path("repo-cc")));
    let wrong = match through {
        Err(report) => report,
        Ok(through) if (plain.0, &plain.1) != (through.0, &through.1) => through.2,
        Ok(_) => String::new(),
    };
    Some((object, wrong))
}

fn check(source: &str, text: &str, names: [&str; 2], modes: &[&str]) {
    let compilers: Vec<PathBuf> = names.iter().flat_map(|name| compilers(name)).collect();
    let jobs: Vec<(&PathBuf, &str)> = (compilers.iter())
        .flat_map(|compiler| {
            FLAGS
                .iter()
                .chain(modes)
                .map(move |flags| (compiler, *flags))
        })
        .collect();
    let results = Mutex::new((Account::default(), Vec::new()));
    parallel(jobs.len(), |number| {
        let (compiler, flags) = jobs[number];
        let what = format!("{} {flags}", compiler.display());
        let scratch = Scratch::new();
        scratch.write(source, text);
        let Some((object, wrong)) = compile(&scratch, compiler, source, flags) else {
            return;
        };
        let mut results = results.lock().expect("no thread panics with it");
        results.0.add(&what, &object);
        if !wrong.is_empty() {
            results.1.push(format!("{what}: {wrong}"));
        }
    });
    let (account, wrong) = results.into_inner().expect("no thread panics with it");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    account.within_the_bar();
}

#[test]
fn objects_of_c_are_split_and_stay_right() {
    let [_gcc] = require!("gcc");
    let clang = tools::find("clang").map_or("clang".into(), |path| path.display().to_string());
    let clang = Path::new(&clang).file_name().and_then(|name| name.to_str());
    check("a.c", C, ["gcc", clang.unwrap_or("clang")], C_MODES);
}

#[test]
fn objects_of_cxx_are_split_and_stay_right() {
    let [_gxx] = require!("g++");
    let clang = tools::find("clang++").map_or("clang++".into(), |path| path.display().to_string());
    let clang = Path::new(&clang).file_name().and_then(|name| name.to_str());
    check("a.cc", CXX, ["g++", clang.unwrap_or("clang++")], CXX_MODES);
}

#[test]
fn objects_of_rustc_are_split() {
    let Some(rustc) = tools::on_path("rustc") else {
        return;
    };
    let scratch = Scratch::new();
    scratch.write(
        "a.rs",
        "use std::collections::BTreeMap;\n\
         pub fn words(text: &str) -> BTreeMap<String, usize> {\n\
         let mut map = BTreeMap::new();\n\
         for word in text.split(' ') { *map.entry(word.to_owned()).or_insert(0) += 1; }\n\
         map }\n",
    );
    let mut account = Account::default();
    for flags in [
        "-Copt-level=0",
        "-Copt-level=3",
        "-g",
        "-g -Csplit-debuginfo=unpacked",
        "-Cpanic=abort -Copt-level=s",
        "-Cinstrument-coverage",
        "-Cprofile-generate=.",
        "-Crelocation-model=static",
        "-Ccode-model=large",
    ] {
        let mut command = scratch.command(&rustc);
        command.args([
            "--crate-type=lib",
            "--emit=obj",
            "-Ccodegen-units=1",
            "a.rs",
            "-o",
            "a.o",
        ]);
        run(command.args(flags.split_whitespace())).ok();
        account.add(
            &format!("rustc {flags}"),
            &fs::read(scratch.join("a.o")).expect("made"),
        );
    }
    account.within_the_bar();
}

/// What compilers write only when they have what a test cannot give them, in assembly: the profile that says which function
/// calls which (its relocations have no addends), and lists for tools.
#[test]
fn sections_for_linkers_and_tools_keep_nothing_whole() {
    let [clang] = require!("clang");
    let scratch = Scratch::new();
    scratch.write(
        "a.s",
        ".section .text.main,\"ax\"\n.globl main\n.type main, @function\nmain: sub $8, %rsp\ncall half\nadd $8, %rsp\n\
         xor %eax, %eax\nret\n\
         .section .text.half,\"ax\"\n.globl half\n.type half, @function\nhalf: ret\n\
         .cg_profile main, half, 10\n\
         .section .deplibs,\"MS\",@llvm_dependent_libraries,1\n.asciz \"m\"\n\
         .section .llvm.offloading,\"e\",@llvm_offloading\n.byte 1\n\
         .section .linker-options,\"e\",@llvm_linker_options\n\
         .section .llvm_sympart,\"\",@llvm_sympart\n.asciz \"part\"\n.quad half\n\
         .section .llvm_bb_addr_map,\"o\",@llvm_bb_addr_map,.text.half\n.quad half\n\
         .section .note.GNU-stack,\"\",@progbits\n",
    );
    run(scratch.command(&clang).args(["-c", "a.s", "-o", "plain.o"])).ok();
    let object = fs::read(scratch.join("plain.o")).expect("made");
    let arena = Bump::new();
    let split = linker::repository::split::split(&object, &arena).expect("splittable");
    assert_eq!(split.whole, None);
    let repo_cc = Binaries::get().path("repo-cc");
    run(scratch.command(repo_cc).arg(&clang).args(["-c", "a.s"])).ok();
    assert!(is_ticket_file(scratch.join("a.o")));
    run(scratch
        .command(repo_cc)
        .arg(&clang)
        .args(["a.o", "-o", "a"]))
    .ok();
    run(&mut scratch.command("./a")).ok();
}

#[test]
fn modules_of_cxx20_stay_right() {
    let [clangxx] = require!("clang++");
    let scratch = Scratch::new();
    scratch.write(
        "m.cppm",
        "module;\n#include <cstdio>\nexport module m;\nexport template <class T> T twice(T x) { return x + x; }\n\
         static int calls;\nexport int say(int x) { return std::printf(\"%d %d\\n\", x, ++calls); }\n\
         export inline int inlined() { return 7; }\n",
    );
    scratch.write(
        "a.cc",
        "import m;\nint main() { return say(twice(4) + inlined()) < 0; }\n",
    );
    let repo_cc = Binaries::get().path("repo-cc");
    let step = |words: &str| {
        let mut command = scratch.command(repo_cc);
        command
            .arg(&clangxx)
            .arg("-std=c++20")
            .args(words.split_whitespace());
        run(&mut command).ok()
    };
    step("--precompile m.cppm -o m.pcm");
    step("-c m.pcm -o m.o");
    step("-fmodule-file=m=m.pcm -c a.cc -o a.o");
    assert!(is_ticket_file(scratch.join("m.o")) && is_ticket_file(scratch.join("a.o")));
    step("a.o m.o -o a");
    assert_eq!(run(&mut scratch.command("./a")).ok().text(), "15 1\n");
}

#[test]
fn precompiled_headers_and_unity_builds_stay_right() {
    for (driver, header) in [("g++", "h.h.gch"), ("clang++", "h.h.pch")] {
        let Some([compiler]) = tools::require([driver]) else {
            continue;
        };
        let scratch = Scratch::new();
        scratch.write(
            "h.h",
            "#include <cstdio>\n#include <string>\ninline std::string h() { return \"h\"; }\n",
        );
        scratch.write(
            "one.cc",
            "static int local() { return 1; }\nint one() { return local(); }\n",
        );
        scratch.write(
            "two.cc",
            "int one();\nint main() { return std::printf(\"%s%d\\n\", h().c_str(), one()) < 0; }\n",
        );
        scratch.write("unity.cc", "#include \"one.cc\"\n#include \"two.cc\"\n");
        let repo_cc = Binaries::get().path("repo-cc");
        let step = |words: &str| {
            let mut command = scratch.command(repo_cc);
            run(command.arg(&compiler).args(words.split_whitespace())).ok()
        };
        step(&format!("-x c++-header h.h -o {header}"));
        let include = if driver == "g++" {
            "-include h.h"
        } else {
            "-include-pch h.h.pch"
        };
        step(&format!("{include} -c unity.cc -o unity.o"));
        assert!(is_ticket_file(scratch.join("unity.o")), "{driver}");
        step("unity.o -o unity");
        assert_eq!(run(&mut scratch.command("./unity")).ok().text(), "h1\n");
    }
}
