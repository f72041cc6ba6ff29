//! Build systems with `repo-cc` in front of their compiler, and nothing else
//! changed: make, CMake, libtool and autoconf.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::run;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::fs;
use std::path::Path;

const HELLO: &str = r#"#include <stdio.h>
#include "part.h"
int main(void) { printf("%d\n", part(20)); return 0; }
"#;
const PART: &str = "#include \"part.h\"\nint part(int x) { return 2 * x + 2; }\n";

fn project(scratch: &Scratch) {
    scratch.write("hello.c", HELLO);
    scratch.write("part.c", PART);
    scratch.write("part.h", "int part(int);\n");
}

/// `repo-cc COMPILER`, as build systems take it in `CC`.
fn cc(compiler: &Path) -> String {
    format!(
        "{} {}",
        Binaries::get().path("repo-cc").display(),
        compiler.display()
    )
}

#[track_caller]
fn says(scratch: &Scratch, program: &str, text: &str) {
    let done = run(&mut scratch.command(scratch.join(program))).ok();
    assert_eq!(done.text(), text);
}

#[test]
fn make_with_dependency_files() {
    let [make, gcc] = require!("make", "gcc");
    let scratch = Scratch::new();
    project(&scratch);
    scratch.write(
        "Makefile",
        "CFLAGS = -MMD -O2\nhello: hello.o part.o\n\t$(CC) -o $@ $^\n-include *.d\n",
    );
    let build = || {
        let mut command = scratch.command(&make);
        command.arg("-j4").arg(format!("CC={}", cc(&gcc)));
        run(&mut command).ok().text()
    };
    build();
    assert!(is_ticket_file(scratch.join("hello.o")));
    says(&scratch, "hello", "42\n");
    assert!(build().contains("up to date"));
    // A header changes: both are compiled again. A source: only that one.
    scratch.write("part.h", "int part(int);\n#define CHANGED 1\n");
    let again = build();
    assert!(
        again.contains("hello.c") && again.contains("part.c"),
        "{again}"
    );
    scratch.write("part.c", PART.replace("2 * x", "3 * x"));
    let again = build();
    assert!(
        !again.contains("hello.c") && again.contains("part.c"),
        "{again}"
    );
    says(&scratch, "hello", "62\n");
}

#[test]
fn many_compilers_at_once_in_one_repository() {
    let [make, gcc] = require!("make", "gcc");
    let scratch = Scratch::new();
    let mut objects = String::new();
    let mut sum = String::from("#include <stdio.h>\n");
    let mut terms = String::from("0");
    for number in 0..60 {
        scratch.write(
            format!("f{number}.c"),
            format!("static int k = {number};\nint f{number}(void) {{ return k; }}\nint *g{number}(void) {{ return &k; }}\n"),
        );
        objects += &format!(" f{number}.o");
        sum += &format!("int f{number}(void);\n");
        terms += &format!(" + f{number}()");
    }
    scratch.write(
        "main.c",
        format!("{sum}int main(void) {{ printf(\"%d\\n\", {terms}); }}\n"),
    );
    scratch.write(
        "Makefile",
        format!("prog: main.o{objects}\n\t$(CC) -o $@ $^\n"),
    );
    run(scratch
        .command(make)
        .arg("-j16")
        .arg(format!("CC={}", cc(&gcc))))
    .ok();
    for number in 0..60 {
        assert!(is_ticket_file(scratch.join(format!("f{number}.o"))));
    }
    says(&scratch, "prog", "1770\n");
}

#[test]
fn cmake_with_a_launcher_and_with_a_compiler_of_two_words() {
    let [cmake, _make, gcc] = require!("cmake", "make", "gcc");
    let scratch = Scratch::new();
    project(&scratch);
    scratch.write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.5)\nproject(hello C)\n\
         include(CheckFunctionExists)\ncheck_function_exists(printf HAVE_PRINTF)\n\
         if(NOT HAVE_PRINTF)\n  message(FATAL_ERROR \"no printf\")\nendif()\n\
         include(TestBigEndian)\ntest_big_endian(BIG)\n\
         if(BIG)\n  message(FATAL_ERROR \"big endian\")\nendif()\n\
         add_library(part STATIC part.c)\nadd_library(shared SHARED part.c)\n\
         add_executable(hello hello.c)\ntarget_link_libraries(hello part)\n\
         add_executable(hello2 hello.c)\ntarget_link_libraries(hello2 shared)\n",
    );
    // The first is for compiles only; links are launched by the second.
    let launcher = |what: &str| {
        let repo_cc = Binaries::get().path("repo-cc").display();
        format!("-DCMAKE_C_{what}_LAUNCHER={repo_cc}")
    };
    let launchers = [launcher("COMPILER"), launcher("LINKER")];
    let compiler = format!("-DCMAKE_C_COMPILER={}", gcc.display());
    for (directory, arguments, variable) in [
        (
            "launched",
            vec![&*launchers[0], &*launchers[1], &*compiler],
            None,
        ),
        ("two-words", vec![], Some(cc(&gcc))),
    ] {
        let mut command = scratch.command(&cmake);
        command.args(["-S", ".", "-B", directory, "-G", "Unix Makefiles"]);
        command.args(arguments);
        if let Some(cc) = variable {
            command.env("CC", cc);
        }
        run(&mut command).ok();
        run(scratch.command(&cmake).args(["--build", directory, "-j4"])).ok();
        assert!(is_ticket_file(
            scratch
                .join(directory)
                .join("CMakeFiles/hello.dir/hello.c.o")
        ));
        for program in ["hello", "hello2"] {
            says(&scratch, &format!("{directory}/{program}"), "42\n");
        }
    }
    // As CMake is told of ccache: links are by the compiler's own linker, which gets objects.
    let mut command = scratch.command(&cmake);
    command.args(["-S", ".", "-B", "compiles", "-G", "Unix Makefiles"]);
    run(command.args([&*launchers[0], &*compiler])).ok();
    run(scratch.command(&cmake).args(["--build", "compiles", "-j4"])).ok();
    let object = scratch.join("compiles/CMakeFiles/hello.dir/hello.c.o");
    let mut dump = scratch.command(Binaries::get().path("repo-dump"));
    let shown = run(dump.arg(&object)).ok().stdout;
    assert!(String::from_utf8_lossy(&shown).contains("fat"));
    for program in ["hello", "hello2"] {
        says(&scratch, &format!("compiles/{program}"), "42\n");
    }
}

#[test]
fn autoconf_and_libtool() {
    let [_autoconf, _automake, _libtoolize, make, gcc] =
        require!("autoconf", "automake", "libtoolize", "make", "gcc");
    let scratch = Scratch::new();
    project(&scratch);
    scratch.write(
        "configure.ac",
        "AC_INIT([hello],[1])\nAC_CONFIG_AUX_DIR([aux])\nAM_INIT_AUTOMAKE([foreign])\n\
         AM_PROG_AR\nLT_INIT\nAC_PROG_CC\nAC_C_BIGENDIAN\nAC_CHECK_SIZEOF([long])\n\
         AC_CHECK_FUNCS([printf no_such_function])\nAC_CHECK_LIB([m],[cos])\n\
         AC_CHECK_HEADERS([stdio.h no_such_header.h])\n\
         AC_CONFIG_HEADERS([config.h])\nAC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
    );
    scratch.write(
        "Makefile.am",
        "lib_LTLIBRARIES = libpart.la\nlibpart_la_SOURCES = part.c part.h\n\
         bin_PROGRAMS = hello\nhello_SOURCES = hello.c\nhello_LDADD = libpart.la\n",
    );
    let mut command = scratch.command("autoreconf");
    run(command.args(["--install", "--force"])).ok();
    let configure = |directory: &str, cc: &str| {
        fs::create_dir(scratch.join(directory)).expect("a directory can be made");
        let mut command = scratch.command("/bin/sh");
        command
            .current_dir(scratch.join(directory))
            .arg("../configure")
            .arg(format!("CC={cc}"));
        run(&mut command).ok();
        // What it found out, without the lines that name the directory.
        let read =
            |name: &str| fs::read_to_string(scratch.join(directory).join(name)).expect("a file");
        read("config.h")
    };
    let plain = configure("plain", &gcc.to_string_lossy());
    let through = configure("through", &cc(&gcc));
    assert_eq!(plain, through);
    let mut command = scratch.command(&make);
    command.current_dir(scratch.join("through")).arg("-j4");
    let prefix = scratch.join("installed");
    run(&mut command).ok();
    for object in ["hello.o", "part.o", ".libs/part.o"] {
        assert!(
            is_ticket_file(scratch.join("through").join(object)),
            "{object}"
        );
    }
    let mut command = scratch.command(&make);
    command
        .current_dir(scratch.join("through"))
        .arg("install")
        .arg(format!("DESTDIR={}", prefix.display()));
    run(&mut command).ok();
    says(&scratch, "through/hello", "42\n");
    // The static library holds tickets, the shared one is a shared object.
    let libraries = prefix.join("usr/local/lib");
    assert!(libraries.join("libpart.a").exists());
    let shared = fs::read(libraries.join("libpart.so")).expect("a shared library");
    assert!(shared.starts_with(b"\x7fELF"));
}

/// What ccache keeps outlives the compilations that tickets name, so inside it compiles leave objects. Around it is another
/// matter: what ccache keeps then is what the compiler has written.
#[test]
fn ccache_keeps_no_tickets() {
    let [gcc, ccache] = require!("gcc", "ccache");
    let scratch = Scratch::new();
    scratch.write("a.c", "int main(void) { return 0; }");
    let repo_cc = Binaries::get().path("repo-cc");
    let links = scratch.join("links");
    run(scratch.command(repo_cc).arg("--install-links").arg(&links)).ok();
    let path = std::env::join_paths(
        std::iter::once(links.clone())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    )
    .unwrap();
    let in_ccache = |prefix: &str, compiler: &Path| {
        let mut command = scratch.command(&ccache);
        command.env("CCACHE_DIR", scratch.join("kept"));
        command.env("PATH", &path).env("CCACHE_PREFIX", prefix);
        run(command.arg(compiler).args(["-c", "a.c", "-o", "a.o"])).ok();
    };
    for (prefix, compiler) in [
        ("", links.join("gcc")),
        (repo_cc.to_str().unwrap(), gcc.clone()),
    ] {
        for _ in 0..2 {
            in_ccache(prefix, &compiler);
            assert!(
                !is_ticket_file(scratch.join("a.o")),
                "{prefix} {compiler:?}"
            );
        }
    }
    let around = |_| {
        let mut command = scratch.command(repo_cc);
        command.env("CCACHE_DIR", scratch.join("kept"));
        run(command
            .arg(&ccache)
            .arg(&gcc)
            .args(["-c", "a.c", "-o", "a.o"]))
        .ok();
        assert!(is_ticket_file(scratch.join("a.o")));
        run(scratch.command(repo_cc).arg(&gcc).args(["a.o", "-o", "a"])).ok();
        let _ = std::fs::remove_file(scratch.repository());
    };
    (0..2).for_each(around);
}
