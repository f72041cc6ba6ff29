//! Tools and build systems that know nothing of tickets, working on tickets:
//! binutils, make, CMake with make and ninja, autotools with libtool.

use repo_tests::binaries::Binaries;
use repo_tests::build::{Family, Toolchain, parallel};
use repo_tests::compare::{is_ticket, is_ticket_file};
use repo_tests::process::{Run, run};
use repo_tests::programs::Language;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

const MAIN: &str = "#include <stdio.h>\n\
    int square(int); extern int counter; static int local(int x) { return x + 1; }\n\
    __attribute__((weak)) int replaceable(void) { return 1; }\n\
    int main(void) { printf(\"%d %d %d\\n\", square(local(5)), counter, replaceable()); return 0; }\n";
const SQUARE: &str = "int counter = 3; int square(int x) { return x * x; }\n";
const UNUSED: &str = "int unused_one(void) { return 1; } int replaceable(void) { return 2; }\n";

/// A scratch directory with these sources, gcc, and gcc through the repository;
/// `None` without gcc.
fn small_program() -> Option<(Scratch, Toolchain, Toolchain)> {
    let plain = Toolchain::plain(Family::Gcc)?;
    let ours = plain.through_repository(Binaries::get());
    let scratch = Scratch::new();
    for (name, text) in [("main.c", MAIN), ("square.c", SQUARE), ("unused.c", UNUSED)] {
        scratch.write(name, text);
    }
    Some((scratch, plain, ours))
}

fn driver(scratch: &Scratch, toolchain: &Toolchain, arguments: &[&str]) -> Run {
    run(toolchain.command(scratch, Language::C).args(arguments))
}

fn tool(scratch: &Scratch, tool: impl AsRef<Path>, arguments: &[&str]) -> Run {
    run(scratch.command(tool).args(arguments))
}

/// The names that `nm` with `options` prints for `file`.
fn names(scratch: &Scratch, nm: &Path, options: &[&str], file: &str) -> BTreeSet<String> {
    let text = tool(scratch, nm, &[options, &["-P", file]].concat())
        .ok()
        .text();
    let first = |line: &str| line.split(' ').next().map(str::to_owned);
    text.lines()
        .filter(|line| !line.ends_with(':'))
        .filter_map(first)
        .collect()
}

#[test]
fn nm_and_file_see_an_object() {
    let [nm, file, readelf] = require!("nm", "file", "readelf");
    let Some((scratch, plain, ours)) = small_program() else {
        return;
    };
    driver(&scratch, &plain, &["-c", "main.c", "-o", "plain.o"]).ok();
    driver(&scratch, &ours, &["-c", "main.c", "-o", "ticket.o"]).ok();

    let kind = |name| tool(&scratch, &file, &["-b", name]).ok().text();
    assert!(
        kind("ticket.o").starts_with("ELF 64-bit LSB relocatable, x86-64"),
        "{}",
        kind("ticket.o")
    );
    let notes = tool(&scratch, &readelf, &["-n", "ticket.o"]).ok().text();
    assert!(notes.contains("REPO"), "no note of owner REPO\n{notes}");

    let defined = ["-g", "--defined-only"];
    let want = names(&scratch, &nm, &defined, "plain.o");
    // What stops `ld -r` begins with a dot, which is in no name of C's.
    let mut got = names(&scratch, &nm, &defined, "ticket.o");
    got.retain(|name| name.strip_prefix('.') != Some(tickets::EXPLANATION));
    assert_eq!(got, want);
    let [mut want, mut got] =
        ["plain.o", "ticket.o"].map(|name| names(&scratch, &nm, &["-u"], name));
    // A linker that does not know tickets is stopped by one more undefined name,
    // which says why.
    got.retain(|name| want.contains(name) || !name.contains("ticket"));
    // The code that refers to the GOT by this name is not in the ticket.
    want.remove("_GLOBAL_OFFSET_TABLE_");
    got.remove("_GLOBAL_OFFSET_TABLE_");
    assert_eq!(got, want);
    let weak = tool(&scratch, &nm, &["ticket.o"]).ok().text();
    assert!(
        weak.contains(" W replaceable"),
        "replaceable is not weak\n{weak}"
    );
}

#[test]
fn archives_of_tickets() {
    let [ar, ranlib, nm] = require!("ar", "ranlib", "nm");
    let Some((scratch, plain, ours)) = small_program() else {
        return;
    };
    for source in ["main.c", "square.c", "unused.c"] {
        driver(&scratch, &ours, &["-c", source]).ok();
    }
    driver(&scratch, &plain, &["-c", "unused.c", "-o", "ordinary.o"]).ok();

    // ar makes the symbol index, or ranlib does.
    tool(&scratch, &ar, &["rcs", "libone.a", "square.o", "unused.o"]).ok();
    tool(&scratch, &ar, &["rcS", "libtwo.a", "square.o", "unused.o"]).ok();
    tool(&scratch, &ranlib, &["libtwo.a"]).ok();
    tool(
        &scratch,
        &ar,
        &["rcsT", "libthin.a", "square.o", "unused.o"],
    )
    .ok();
    tool(
        &scratch,
        &ar,
        &["rcs", "libmixed.a", "square.o", "ordinary.o"],
    )
    .ok();
    let index = tool(&scratch, &nm, &["-s", "libtwo.a"]).ok().text();
    assert!(index.contains("square in square.o"), "{index}");
    let unused = b"unused_one";
    for library in ["one", "two", "thin", "mixed"] {
        let library = format!("-l{library}");
        driver(
            &scratch,
            &ours,
            &["main.o", "-L.", &library, "-o", "program"],
        )
        .ok();
        // The weak definition in main.o satisfies it: unused.o is not taken.
        assert_eq!(
            tool(&scratch, scratch.join("program"), &[]).ok().text(),
            "36 3 1\n"
        );
        let bytes = fs::read(scratch.join("program")).expect("just linked");
        assert!(
            !bytes.windows(unused.len()).any(|window| window == unused),
            "{library}"
        );
    }
    // A member that is taken out is the ticket again.
    let before = fs::read(scratch.join("square.o")).expect("a ticket");
    fs::remove_file(scratch.join("square.o")).expect("a file of ours");
    tool(&scratch, &ar, &["x", "libone.a", "square.o"]).ok();
    assert_eq!(fs::read(scratch.join("square.o")).ok(), Some(before));
    driver(
        &scratch,
        &ours,
        &["main.o", "square.o", "unused.o", "-o", "program"],
    )
    .ok();
    assert_eq!(
        tool(&scratch, scratch.join("program"), &[]).ok().text(),
        "36 3 2\n"
    );
    // All of an archive, where the driver is asked for it.
    let whole = [
        "main.o",
        "-Wl,--whole-archive",
        "libone.a",
        "-Wl,--no-whole-archive",
    ];
    driver(&scratch, &ours, &[&whole[..], &["-o", "program"]].concat()).ok();
    assert_eq!(
        tool(&scratch, scratch.join("program"), &[]).ok().text(),
        "36 3 2\n"
    );
}

/// Tickets, objects, archives and shared objects, in any mixture.
#[test]
fn mixtures() {
    let Some((scratch, plain, ours)) = small_program() else {
        return;
    };
    for (toolchain, kind) in [(&plain, "object"), (&ours, "ticket")] {
        for source in ["main", "square"] {
            let object = format!("{source}.{kind}.o");
            driver(
                &scratch,
                toolchain,
                &["-fPIC", "-c", &format!("{source}.c"), "-o", &object],
            )
            .ok();
        }
        let (object, library) = (format!("square.{kind}.o"), format!("lib{kind}.so"));
        driver(&scratch, toolchain, &["-shared", &object, "-o", &library]).ok();
    }
    for main in ["main.object.o", "main.ticket.o"] {
        for square in [
            "square.object.o",
            "square.ticket.o",
            "libobject.so",
            "libticket.so",
        ] {
            let rpath = format!("-Wl,-rpath,{}", scratch.path().display());
            driver(&scratch, &ours, &[main, square, &rpath, "-o", "program"]).ok();
            let text = tool(&scratch, scratch.join("program"), &[]).ok().text();
            assert_eq!(text, "36 3 1\n", "{main} with {square}");
        }
    }
    // The shared library that repo-ld made, for the system's linker.
    let rpath = format!("-Wl,-rpath,{}", scratch.path().display());
    driver(
        &scratch,
        &plain,
        &["main.object.o", "libticket.so", &rpath, "-o", "program"],
    )
    .ok();
    assert_eq!(
        tool(&scratch, scratch.join("program"), &[]).ok().text(),
        "36 3 1\n"
    );
}

/// A linker that does not know tickets must not make a program of them, and its
/// message must say what is wrong.
#[test]
fn other_linkers_refuse_tickets() {
    let Some((scratch, plain, ours)) = small_program() else {
        return;
    };
    for source in ["main.c", "square.c"] {
        driver(&scratch, &ours, &["-c", source]).ok();
    }
    for linker in ["ld", "ld.lld", "mold"] {
        let Some([path]) = tools::require([linker]) else {
            continue;
        };
        // gcc looks for the linker by a name without a version.
        let directory = scratch.join(format!("{linker}-directory"));
        fs::create_dir(&directory).expect("a directory can be made");
        std::os::unix::fs::symlink(path, directory.join("ld")).expect("a link can be made");
        let prefix = format!("-B{}", directory.display());
        let failed = driver(
            &scratch,
            &plain,
            &[&prefix, "main.o", "square.o", "-o", "program"],
        );
        assert!(!failed.status.success(), "{}", failed.report());
        let text = failed.errors();
        assert!(
            text.contains("ticket") && text.contains("repo_ld"),
            "{linker} says\n{text}"
        );
        assert!(!scratch.join("program").exists(), "{linker} left an output");
    }
}

const MAKEFILE: &str = "\
# What a C project's makefile has: implicit rules, dependency files, a static
# and a shared library, several programs.
CFLAGS = -O1 -Wall -fPIC -MMD -MP
LDLIBS = -lm
OBJECTS = $(patsubst %.c,%.o,$(wildcard part_*.c))
all: program shared_program
program: main.o libparts.a
\t$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@
shared_program: main.o libparts.so
\t$(CC) $(LDFLAGS) $^ $(LDLIBS) -Wl,-rpath,'$$ORIGIN' -o $@
libparts.a: $(OBJECTS)
\t$(AR) rcs $@ $^
libparts.so: $(OBJECTS)
\t$(CC) $(LDFLAGS) -shared $^ -o $@
clean:
\trm -f *.o *.d *.a *.so program shared_program
-include *.d
";

/// Writes a project of `parts` units under `directory`, and returns what its
/// programs print.
fn write_make_project(scratch: &Scratch, directory: &str, parts: i32) -> String {
    let mut main =
        "#include <stdio.h>\n#include \"parts.h\"\nint main(void) {\n  long sum = 0;\n".to_owned();
    let mut header =
        "#define BASE 7\nstatic inline int shared_inline(int x) { return x ^ BASE; }\n".to_owned();
    let mut sum = 0_i64;
    for part in 0..parts {
        header += &format!("int part_{part}(int);\n");
        main += &format!("  sum += part_{part}({part});\n");
        let text = format!(
            "#include \"parts.h\"\n#include <math.h>\n\
             static int helper(int x) {{ return shared_inline(x) * {part}; }}\n\
             int part_{part}(int x) {{ return helper(x) + (int)floor(x + 0.5); }}\n"
        );
        scratch.write(format!("{directory}/part_{part}.c"), text);
        sum += i64::from((part ^ 7) * part + part);
    }
    main += "  printf(\"sum %ld\\n\", sum);\n  return 0;\n}\n";
    scratch.write(format!("{directory}/main.c"), main);
    scratch.write(format!("{directory}/parts.h"), header);
    scratch.write(format!("{directory}/Makefile"), MAKEFILE);
    format!("sum {sum}\n")
}

fn make(scratch: &Scratch, make: &Path, directory: &str, arguments: &[&str]) -> Run {
    let mut command = scratch.command(make);
    command.current_dir(scratch.join(directory)).args(arguments);
    run(&mut command)
}

/// `CC="repo-cc gcc"` for make's command line.
fn cc_setting(toolchain: &Toolchain) -> String {
    let words: Vec<_> = toolchain
        .cc
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    format!("CC={}", words.join(" "))
}

#[test]
fn make_with_many_jobs() {
    let [make_program] = require!("make");
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let ours = plain.through_repository(Binaries::get());
    let scratch = Scratch::new();
    let want = write_make_project(&scratch, "project", 40);
    let cc = cc_setting(&ours);
    make(&scratch, &make_program, "project", &["-j16", &cc]).ok();
    for program in ["program", "shared_program"] {
        let path = scratch.join("project").join(program);
        assert_eq!(tool(&scratch, path, &[]).ok().text(), want);
    }
    // Nothing to do: the times of tickets are right.
    let again = make(&scratch, &make_program, "project", &["-j16", &cc]).ok();
    assert!(
        again.text().contains("Nothing to be done for 'all'"),
        "{}",
        again.report()
    );
    // One source: one compile. The header: all of them, through the .d files.
    let part = fs::read_to_string(scratch.join("project/part_5.c")).expect("a file of ours");
    scratch.write("project/part_5.c", part.replace("+ 0.5", "+ 1.5"));
    let one = make(&scratch, &make_program, "project", &["-j16", &cc])
        .ok()
        .text();
    assert_eq!(one.matches(" -c ").count(), 1, "{one}");
    let header = fs::read_to_string(scratch.join("project/parts.h")).expect("a file of ours");
    scratch.write("project/parts.h", header.replace("BASE 7", "BASE 0"));
    let all = make(&scratch, &make_program, "project", &["-j16", &cc])
        .ok()
        .text();
    assert_eq!(all.matches(" -c ").count(), 41, "{all}");
    let sum: i64 = (0..40).map(|part| part * part + part).sum::<i64>() + 1;
    for program in ["program", "shared_program"] {
        let path = scratch.join("project").join(program);
        assert_eq!(
            tool(&scratch, path, &[]).ok().text(),
            format!("sum {sum}\n")
        );
    }
    verify(&scratch);
}

/// Several builds at once, of the same and of other sources, in one repository
/// that none of them finds there.
#[test]
fn many_processes_in_one_repository() {
    let [make_program] = require!("make");
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let ours = plain.through_repository(Binaries::get());
    let scratch = Scratch::new();
    let projects = ["a", "b", "c", "d"];
    let wants: Vec<_> = projects
        .iter()
        .enumerate()
        .map(|(index, name)| write_make_project(&scratch, name, 6 + 6 * (index as i32 % 2)))
        .collect();
    let cc = cc_setting(&ours);
    std::thread::scope(|scope| {
        for project in projects {
            let (scratch, make_program, cc) = (&scratch, &make_program, &cc);
            scope.spawn(move || make(scratch, make_program, project, &["-j8", cc]).ok());
        }
    });
    for (project, want) in projects.iter().zip(&wants) {
        let program = scratch.join(project).join("program");
        assert_eq!(&tool(&scratch, program, &[]).ok().text(), want);
    }
    verify(&scratch);
}

fn verify(scratch: &Scratch) {
    tool(scratch, Binaries::get().path("repo-dump"), &["--verify"]).ok();
}

/// The same compile by many processes at once, into the same object.
#[test]
fn the_same_object_by_many_processes() {
    let Some((scratch, _, ours)) = small_program() else {
        return;
    };
    let threads = 12;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| driver(&scratch, &ours, &["-c", "main.c", "-o", "main.o"]).ok());
        }
    });
    parallel(4, |index| {
        let library = format!("square{}.o", index % 2);
        driver(&scratch, &ours, &["-c", "square.c", "-o", &library]).ok();
    });
    driver(&scratch, &ours, &["main.o", "square1.o", "-o", "program"]).ok();
    assert_eq!(
        tool(&scratch, scratch.join("program"), &[]).ok().text(),
        "36 3 1\n"
    );
    verify(&scratch);
}

/// Whether the kernel tells that somebody has a file open for writing.
fn is_known_to_be_written(path: &Path) -> bool {
    let file = fs::File::open(path).unwrap();
    // SAFETY: a system call without pointers, about a descriptor that is open.
    let lease = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
    lease != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}

/// Another process writes into the same object, as GNU as does that has found an empty file: what is there is not whole perhaps, so it stays.
#[test]
fn an_object_that_is_written_by_another_process() {
    let Some((scratch, _, ours)) = small_program() else {
        return;
    };
    let object = scratch.join("main.o");
    let compile = || driver(&scratch, &ours, &["-c", "main.c", "-o", "main.o"]).ok();
    let another = fs::File::create(&object).unwrap();
    if !is_known_to_be_written(&object) {
        return tools::skip("a file system with leases");
    }
    compile();
    // (An assembler that unlinks what is there writes another file.)
    if another.metadata().unwrap().len() > 0 {
        assert!(!is_ticket_file(&object));
    }
    drop(another);
    compile();
    assert!(is_ticket_file(&object));
}

const CMAKE_LISTS: &str = r#"
cmake_minimum_required(VERSION 3.16)
project(Features LANGUAGES C CXX VERSION 1.2.3)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckFunctionExists)
include(CheckSymbolExists)
include(CheckTypeSize)
include(CheckCSourceRuns)
include(CheckCXXSourceCompiles)
include(TestBigEndian)
find_package(Threads REQUIRED)
check_function_exists(strdup HAVE_STRDUP)
check_function_exists(no_such_function HAVE_NO_SUCH_FUNCTION)
check_symbol_exists(strtol "stdlib.h" HAVE_STRTOL)
check_type_size("long double" SIZEOF_LONG_DOUBLE)
check_c_source_runs("int main(void) { return 0; }" RUNS)
check_cxx_source_compiles("int main() { return no_such_name; }" COMPILES_NONSENSE)
test_big_endian(BIG)
configure_file(config.h.in config.h)
include_directories(${CMAKE_CURRENT_BINARY_DIR})
add_library(objects OBJECT one.c)
add_library(archive STATIC two.cpp $<TARGET_OBJECTS:objects>)
add_library(shared SHARED three.cpp)
add_executable(program main.cpp)
target_link_libraries(program archive shared Threads::Threads)
enable_testing()
add_test(NAME runs COMMAND program)
install(TARGETS program RUNTIME DESTINATION bin)
install(TARGETS shared archive LIBRARY DESTINATION lib ARCHIVE DESTINATION lib)
"#;

const CMAKE_MAIN: &str = r#"
#include "config.h"
#include <iostream>
#include <stdexcept>
#include <thread>
extern "C" int one(int);
int two(int);
int three(int);
int main() {
  int result = 0;
  std::thread([&] { result = one(1) + two(2); }).join();
  try { three(0); } catch (const std::invalid_argument &error) { std::cout << error.what() << ' '; }
  std::cout << result << ' ' << three(3) << ' ' << SIZEOF_LONG_DOUBLE << ' '
    << HAVE_STRDUP << HAVE_NO_SUCH_FUNCTION << HAVE_STRTOL << RUNS << COMPILES_NONSENSE << BIG << std::endl;
}
"#;

fn write_cmake_project(scratch: &Scratch) {
    scratch.write("project/CMakeLists.txt", CMAKE_LISTS);
    scratch.write("project/main.cpp", CMAKE_MAIN);
    scratch.write("project/one.c", "int one(int x) { return x + 10; }\n");
    scratch.write("project/two.cpp", "int two(int x) { return x * 100; }\n");
    scratch.write(
        "project/three.cpp",
        "#include <stdexcept>\nint three(int x) { if (!x) throw std::invalid_argument(\"zero\"); return x; }\n",
    );
    scratch.write(
        "project/config.h.in",
        "#define SIZEOF_LONG_DOUBLE @SIZEOF_LONG_DOUBLE@\n\
         #cmakedefine01 HAVE_STRDUP\n#cmakedefine01 HAVE_NO_SUCH_FUNCTION\n\
         #cmakedefine01 HAVE_STRTOL\n#cmakedefine01 RUNS\n\
         #cmakedefine01 COMPILES_NONSENSE\n#cmakedefine01 BIG\n",
    );
}

/// Configures, builds, tests, installs and runs the CMake project.
fn cmake_project(generator: &str, settings: &[String]) {
    let [cmake, _] = require!(
        "cmake",
        if generator == "Ninja" {
            "ninja"
        } else {
            "make"
        }
    );
    let scratch = Scratch::new();
    write_cmake_project(&scratch);
    let configure = ["-G", generator, "-S", "project", "-B", "build"];
    run(scratch.command(&cmake).args(configure).args(settings)).ok();
    run(scratch
        .command(&cmake)
        .args(["--build", "build", "--parallel", "4"]))
    .ok();
    let ctest = cmake.with_file_name("ctest");
    run(scratch.command(ctest).current_dir(scratch.join("build"))).ok();
    let check = |program: &str| {
        let mut command = scratch.command(scratch.join(program));
        command.env("LD_LIBRARY_PATH", scratch.join("installed/lib"));
        assert_eq!(run(&mut command).ok().text(), "zero 211 3 16 101100\n");
    };
    check("build/program");
    let install = ["--install", "build", "--strip", "--prefix", "installed"];
    run(scratch.command(&cmake).args(install)).ok();
    check("installed/bin/program");
    // A second build does nothing.
    let again = run(scratch
        .command(&cmake)
        .args(["--build", "build", "--verbose"]))
    .ok()
    .text();
    assert!(!again.contains(" -c "), "{again}");
    // Some object is a ticket, or all this shows nothing.
    let object = scratch.join("build/CMakeFiles/objects.dir/one.c.o");
    let bytes = fs::read(object).expect("cmake made this object");
    assert!(
        bytes.windows(5).any(|window| window == b"REPO\0"),
        "not a ticket"
    );
}

fn quoted(path: &(impl AsRef<OsStr> + ?Sized)) -> String {
    path.as_ref().to_string_lossy().into_owned()
}

/// `repo-cc` as the launcher, gcc as the compiler, `repo-ld` found through `-B`.
#[test]
fn cmake_with_a_launcher_and_gcc() {
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let binaries = Binaries::get();
    let linker = Scratch::new();
    std::os::unix::fs::symlink(binaries.path("repo-ld"), linker.join("ld")).expect("a link");
    let prefix = format!("-B{}", linker.path().display());
    let mut settings = vec![
        format!("-DCMAKE_C_COMPILER={}", quoted(&plain.cc[0])),
        format!("-DCMAKE_CXX_COMPILER={}", quoted(&plain.cxx[0])),
    ];
    for language in ["C", "CXX"] {
        settings.push(format!(
            "-DCMAKE_{language}_COMPILER_LAUNCHER={}",
            quoted(binaries.path("repo-cc"))
        ));
    }
    for kind in ["EXE", "SHARED", "MODULE"] {
        settings.push(format!("-DCMAKE_{kind}_LINKER_FLAGS={prefix}"));
    }
    cmake_project("Unix Makefiles", &settings);
}

/// `repo-cc` as the launcher, clang as the compiler, ninja, `--ld-path`.
#[test]
fn cmake_with_a_launcher_clang_and_ninja() {
    let Some(plain) = Toolchain::plain(Family::Clang) else {
        return;
    };
    let binaries = Binaries::get();
    let mut settings = vec![
        format!("-DCMAKE_C_COMPILER={}", quoted(&plain.cc[0])),
        format!("-DCMAKE_CXX_COMPILER={}", quoted(&plain.cxx[0])),
        "-DCMAKE_BUILD_TYPE=Release".into(),
    ];
    for language in ["C", "CXX"] {
        settings.push(format!(
            "-DCMAKE_{language}_COMPILER_LAUNCHER={}",
            quoted(binaries.path("repo-cc"))
        ));
    }
    for kind in ["EXE", "SHARED", "MODULE"] {
        let linker = quoted(binaries.path("repo-ld"));
        settings.push(format!("-DCMAKE_{kind}_LINKER_FLAGS=--ld-path={linker}"));
    }
    cmake_project("Ninja", &settings);
}

const CONFIGURE_AC: &str = r#"
AC_INIT([greeting], [1.0])
AC_CONFIG_AUX_DIR([aux])
AC_CONFIG_MACRO_DIRS([m4])
AM_INIT_AUTOMAKE([foreign subdir-objects])
AC_PROG_CC
AM_PROG_AR
LT_INIT
AC_CHECK_SIZEOF([long])
AC_CHECK_FUNCS([strdup no_such_function])
AC_SEARCH_LIBS([sqrt], [m])
AC_C_BIGENDIAN
# How CPython's configure finds out the order of the words of a double: by the letters that its bytes are.
AC_COMPILE_IFELSE([AC_LANG_SOURCE([double d@<:@@:>@ = { 90904234967036810337470478905505011476211692735615632014797120844053488865816695273723469097858056257517020191247487429516932130503560650002327564517570778480236724525140520121371739201496540132640109977779420565776568942592.0, 0.0 };])],
  [grep noonsees conftest.$ac_objext >/dev/null || grep seesnoon conftest.$ac_objext >/dev/null || AC_MSG_ERROR([words in no known order])])
AC_CONFIG_HEADERS([config.h])
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
"#;

const MAKEFILE_AM: &str = r#"
ACLOCAL_AMFLAGS = -I m4
lib_LTLIBRARIES = libgreeting.la
noinst_LTLIBRARIES = libinner.la
libinner_la_SOURCES = inner.c
libgreeting_la_SOURCES = greeting.c
libgreeting_la_LIBADD = libinner.la
libgreeting_la_LDFLAGS = -version-info 3:1:2
bin_PROGRAMS = greet greet-static
greet_SOURCES = greet.c
greet_LDADD = libgreeting.la
greet_static_SOURCES = greet.c
greet_static_LDADD = libgreeting.la
greet_static_LDFLAGS = -static
check_PROGRAMS = test-greeting
test_greeting_SOURCES = greet.c
test_greeting_LDADD = libgreeting.la
TESTS = test-greeting
united.o: inner.lo greeting.lo
	$(LIBTOOL) --tag=CC --mode=link $(CC) -o $@ inner.lo greeting.lo
"#;

/// configure, libtool (shared, static and convenience libraries), make check,
/// make install.
#[test]
fn autotools_and_libtool() {
    let [make_program, _, automake, _] = require!("make", "autoconf", "automake", "libtoolize");
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let ours = plain.through_repository(Binaries::get());
    let scratch = Scratch::new();
    scratch.write("project/configure.ac", CONFIGURE_AC);
    scratch.write("project/Makefile.am", MAKEFILE_AM);
    scratch.write(
        "project/greet.c",
        "#include <config.h>\n#include <stdio.h>\nconst char *greeting(int);\n\
         int main(void) {\n#ifndef HAVE_NO_SUCH_FUNCTION\n  puts(greeting(SIZEOF_LONG));\n#endif\n  return 0; }\n",
    );
    scratch.write(
        "project/greeting.c",
        "#include <math.h>\n#include <stdio.h>\nconst char *inner(void); double root(double);\n\
         double root(double x) { return sqrt(x); }\n\
         const char *greeting(int n) { static char text[99];\n\
         sprintf(text, \"%s %d %g\", inner(), n, root(n * 2)); return text; }\n",
    );
    scratch.write(
        "project/inner.c",
        "const char *inner(void) { return \"hello from inside\"; }\n",
    );
    fs::create_dir_all(scratch.join("project/m4")).expect("a directory can be made");
    let project = scratch.join("project");
    let autoreconf = automake.with_file_name("autoreconf");
    run(scratch
        .command(autoreconf)
        .arg("--install")
        .current_dir(&project))
    .ok();
    let mut configure = scratch.command(project.join("configure"));
    configure
        .arg(cc_setting(&ours))
        .arg(format!("--prefix={}", scratch.join("out").display()));
    run(configure.current_dir(&project)).ok();
    make(&scratch, &make_program, "project", &["-j4"]).ok();
    make(&scratch, &make_program, "project", &["-j4", "check"]).ok();
    make(&scratch, &make_program, "project", &["install"]).ok();
    for program in ["out/bin/greet", "out/bin/greet-static"] {
        let text = tool(&scratch, scratch.join(program), &[]).ok().text();
        assert_eq!(text, "hello from inside 8 4\n", "{program}");
    }
    for library in ["out/lib/libgreeting.so.1.2.1", "out/lib/libgreeting.a"] {
        assert!(scratch.join(library).is_file(), "no {library}");
    }
    // libtool unites objects with the linker that the compiler names.
    make(&scratch, &make_program, "project", &["united.o"]).ok();
    let united = fs::read(project.join("united.o")).expect("libtool made it");
    assert!(!is_ticket(&united));
    let mut link = plain.command(&scratch, Language::C);
    link.args([
        "-DSIZEOF_LONG=8",
        "-Iproject",
        "project/greet.c",
        "project/united.o",
        "-lm",
    ]);
    run(link.args(["-o", "from-united"])).ok();
    let text = tool(&scratch, scratch.join("from-united"), &[]).ok().text();
    assert_eq!(text, "hello from inside 8 4\n");

    let objects = fs::read(project.join(".libs/greeting.o")).expect("libtool made this object");
    assert!(
        objects.windows(5).any(|window| window == b"REPO\0"),
        "not a ticket"
    );
}
