//! Compiling through `repo-cc`: what the compiler prints and writes is its own,
//! and where the object would be is a ticket.

use repo_tests::build::Family;
use repo_tests::compare::{Comparison, is_ticket, is_ticket_file};
use repo_tests::programs::Language;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

const A: &str = r#"#include <stdio.h>
#include "a.h"
static int twice(int x) { return 2 * x; }
int shown = 3;
int show(const char *what) { printf("%s %d\n", what, twice(shown)); return A; }
"#;
const B: &str = "int b(int x) { return x + 1; }\nint c(int x) { return x + 2; }\n";

/// A directory with a few C sources, for each compiler family that there is.
fn c_sources(test: impl Fn(Comparison)) {
    for family in [Family::Gcc, Family::Clang] {
        if let Some(comparison) = Comparison::new(family, Language::C) {
            test(
                comparison
                    .source("a.c", A)
                    .source("a.h", "#define A 7\n")
                    .source("sub/b.c", B),
            );
        }
    }
}

#[test]
fn an_object_becomes_a_ticket() {
    c_sources(|it| {
        it.compile(&["-c", "a.c"], &["a.o"]);
        it.compile(&["-O2", "-g", "-c", "a.c", "-o", "out.o"], &["out.o"]);
        it.compile(&["-c", "a.c", "-oout"], &["out"]);
        it.compile(&["-c", "sub/b.c"], &["b.o"]);
        it.compile(&["-c", "sub/b.c", "-o", "sub/x.lo"], &["sub/x.lo"]);
    });
}

#[test]
fn several_sources_in_one_command() {
    c_sources(|it| {
        it.compile(&["-c", "a.c", "sub/b.c", "-O1"], &["a.o", "b.o"]);
    });
}

#[test]
fn dependency_files_are_the_compilers() {
    c_sources(|it| {
        let done = it.compile(&["-MD", "-c", "a.c"], &["a.o"]);
        assert!(done.files.contains_key("a.d"));
        it.compile(&["-MMD", "-MP", "-c", "a.c", "-o", "x.o"], &["x.o"]);
        let named = ["-MD", "-MF", "dep", "-MT", "tgt", "-MQ", "$x", "-c", "a.c"];
        it.compile(&named, &["a.o"]);
        it.compile(&["-Wp,-MD,dep", "-c", "a.c", "-o", "x.o"], &["x.o"]);
        it.compile(&["-Wp,-MMD,dep", "-c", "a.c"], &["a.o"]);
    });
}

#[test]
fn diagnostics_are_the_compilers() {
    for family in [Family::Gcc, Family::Clang] {
        let Some(it) = Comparison::new(family, Language::C) else {
            continue;
        };
        let it = it.source(
            "w.c",
            "int f(void) { int x; return 0; }\nint g() { h(); }\n",
        );
        let done = it.compile(&["-Wall", "-std=gnu89", "-c", "w.c"], &["w.o"]);
        assert!(!done.run.stderr.is_empty());
        it.compile(
            &[
                "-Wall",
                "-std=gnu89",
                "-fdiagnostics-color=always",
                "-c",
                "w.c",
            ],
            &["w.o"],
        );
        it.pass(&["-Wall", "-Werror", "-std=gnu89", "-c", "w.c"])
            .run
            .failed();
    }
}

#[test]
fn a_failed_compile_leaves_no_ticket() {
    c_sources(|it| {
        let it = it.source("bad.c", "int f( { return 1; }\n");
        let done = it.pass(&["-c", "bad.c", "-MD"]);
        assert!(!done.run.status.success());
        assert!(!done.files.contains_key("bad.o"));
        it.pass(&["-c", "missing.c"]).run.failed();
        it.pass(&["-c", "a.c", "-o", "no/such/dir/a.o"])
            .run
            .failed();
        // One of two: each is a compile of its own, and what is finished stays.
        let done = it.through(&["-c", "a.c", "bad.c"]);
        assert!(!done.run.status.success());
        assert!(!done.files.contains_key("bad.o"));
        assert!(is_ticket(&done.files["a.o"].bytes));
        // An earlier ticket stays if, and only if, an earlier object would.
        let broken = ["-Dtwice=)", "-c", "a.c"];
        it.plain(&["-c", "a.c"]).run.ok();
        let plain = it.then_plain(&broken);
        it.through(&["-c", "a.c"]).run.ok();
        let through = it.then(&broken);
        assert!(!through.run.status.success());
        assert_eq!(
            plain.files.contains_key("a.o"),
            through.files.contains_key("a.o")
        );
    });
}

#[test]
fn languages_by_option_and_by_suffix() {
    c_sources(|it| {
        let it = it
            .source("plain", B)
            .source(
                "x.cpp",
                "struct S { virtual ~S(); int i = 1; }; S::~S() {}\n",
            )
            .source("s.s", ".globl s\n.text\ns: ret\n")
            .source("t.S", "#define T t\n.globl T\n.data\nT: .long 1\n");
        it.compile(&["-x", "c", "-c", "plain"], &["plain.o"]);
        it.compile(
            &["-xc++", "-c", "plain", "-x", "none", "a.c"],
            &["plain.o", "a.o"],
        );
        it.compile(&["-c", "x.cpp", "a.c"], &["x.o", "a.o"]);
        it.compile(&["-c", "a.c", "s.s", "t.S"], &["a.o", "s.o", "t.o"]);
        // Alone, clang must not be told what it would warn of.
        let done = it.through(&["-c", "s.s", "t.S"]);
        assert_eq!(done.run.errors(), "");
        assert!(is_ticket(&done.files["s.o"].bytes) && is_ticket(&done.files["t.o"].bytes));
    });
}

#[test]
fn source_from_standard_input() {
    for family in [Family::Gcc, Family::Clang] {
        if let Some(it) = Comparison::new(family, Language::C) {
            let it = it.input(B);
            it.compile(&["-x", "c", "-c", "-o", "x.o", "-"], &["x.o"]);
            it.compile(&["-x", "c", "-c", "-"], &["-.o"]);
        }
    }
}

#[test]
fn response_files() {
    c_sources(|it| {
        let it = it
            .source("one.rsp", "-c\n-DX='a b' \"a.c\"\n@two.rsp")
            .source("two.rsp", "-o r\\ x.o");
        it.compile(&["@one.rsp"], &["r x.o"]);
        it.compile(&["-c", "a.c", "@two.rsp", "-O2"], &["r x.o"]);
        it.compile(&["-c", "a.c", "@missing.rsp"], &[]).run.failed();
    });
}

#[test]
fn temporary_and_side_files() {
    c_sources(|it| {
        it.compile(&["-save-temps", "-c", "a.c"], &["a.o"]);
        it.compile(
            &["-save-temps=obj", "-c", "a.c", "-o", "sub/x.o"],
            &["sub/x.o"],
        );
        let done = it.compile(&["-g", "-gsplit-dwarf", "-c", "a.c"], &["a.o"]);
        assert!(done.files.contains_key("a.dwo"), "{:?}", done.files.keys());
        it.compile(
            &["-g", "-gsplit-dwarf", "-c", "a.c", "-o", "sub/y.o"],
            &["sub/y.o"],
        );
        it.compile(&["-pipe", "-c", "a.c"], &["a.o"]);
        let done = it.compile(
            &["-ftest-coverage", "-frandom-seed=1", "-c", "a.c"],
            &["a.o"],
        );
        assert!(done.files.contains_key("a.gcno"));
    });
    if let Some(it) = Comparison::new(Family::Gcc, Language::C) {
        let it = it.source("a.c", B);
        it.compile(
            &["-fstack-usage", "-fcallgraph-info", "-c", "a.c"],
            &["a.o"],
        );
        it.compile(
            &["-dumpdir", "zz-", "-g", "-gsplit-dwarf", "-c", "a.c"],
            &["a.o"],
        );
        it.compile(&["-aux-info", "protos", "-c", "a.c"], &["a.o"]);
    }
    if let Some(it) = Comparison::new(Family::Clang, Language::C) {
        let it = it.source("a.c", B);
        it.compile(&["-MJ", "db.json", "-c", "a.c"], &["a.o"]);
        it.compile(&["-serialize-diagnostics", "d.dia", "-c", "a.c"], &["a.o"]);
        it.compile(
            &[
                "-Xclang",
                "-disable-O0-optnone",
                "-mllvm",
                "-verify-loop-info",
                "-c",
                "a.c",
            ],
            &["a.o"],
        );
    }
}

#[test]
fn a_build_without_sections_is_heard() {
    c_sources(|it| {
        let options = ["-fno-function-sections", "-fno-data-sections"];
        let arguments = [options[0], options[1], "-c", "a.c"];
        it.compile(&arguments, &["a.o"]);
    });
}

#[test]
fn repeating_a_compile_gives_the_same_ticket() {
    c_sources(|it| {
        let first = it.through(&["-O2", "-g", "-c", "a.c"]);
        let second = it.then(&["-O2", "-g", "-c", "a.c"]);
        second.run.ok();
        assert_eq!(first.files["a.o"].bytes, second.files["a.o"].bytes);
    });
}

#[test]
fn an_output_through_a_link_replaces_what_the_compiler_wrote() {
    c_sources(|it| {
        let object = |through: bool| {
            it.reset();
            let real = it.directory().join("sub/real.o");
            fs::write(&real, "old").expect("a file can be written");
            fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).expect("mode");
            symlink("sub/real.o", it.directory().join("link.o")).expect("a link can be made");
            let words = ["-c", "a.c", "-o", "link.o"];
            if through {
                it.then(&words)
            } else {
                it.then_plain(&words)
            }
        };
        let plain = object(false);
        let through = object(true);
        let linked = |name: &str| plain.files[name].link;
        // gcc writes through the link, clang replaces it: the ticket is where
        // the compiler's object is.
        assert_eq!(through.files["link.o"].link, linked("link.o"));
        let written = if linked("link.o") {
            "sub/real.o"
        } else {
            "link.o"
        };
        assert!(is_ticket(&through.files[written].bytes));
        assert_eq!(through.files[written].mode, plain.files[written].mode);
    });
}

#[test]
fn other_names_of_the_output_keep_their_file() {
    c_sources(|it| {
        it.reset();
        let (first, second) = (it.directory().join("a.o"), it.directory().join("kept.o"));
        it.then(&["-c", "a.c"]).run.ok();
        fs::hard_link(&first, &second).expect("a second name");
        let before = fs::read(&second).expect("a file");
        let inode = fs::metadata(&second).expect("a file").ino();
        it.then(&["-O2", "-c", "a.c"]).run.ok();
        assert_eq!(fs::metadata(&second).expect("a file").ino(), inode);
        assert_eq!(fs::read(&second).expect("a file"), before);
        assert!(is_ticket_file(&first));
    });
}

#[test]
fn the_umask_decides_the_mode() {
    c_sources(|it| {
        for mask in ["022", "077", "002"] {
            it.reset();
            let done = it.in_shell(&format!("umask {mask}; \"$@\""), &["-c", "a.c"]);
            done.run.ok();
            let mode = 0o666 & !u32::from_str_radix(mask, 8).expect("an octal number");
            assert_eq!(done.files["a.o"].mode & 0o777, mode);
            assert!(is_ticket(&done.files["a.o"].bytes));
        }
    });
}

#[test]
fn cxx_with_templates_exceptions_and_threads() {
    const SOURCE: &str = "#include <map>\n#include <stdexcept>\n#include <string>\n\
        thread_local int calls;\n\
        template <class T> T checked(const std::map<T, T> &m, T k) {\n\
            ++calls;\n\
            auto at = m.find(k);\n\
            if (at == m.end()) throw std::out_of_range(std::to_string(k));\n\
            return at->second;\n}\n\
        int main() {\n\
            std::map<int, int> m{{1, 2}};\n\
            try { checked(m, 3); } catch (const std::exception &e) {\n\
                return std::string(e.what()) != \"3\" || checked(m, 1) != 2 || calls != 2;\n\
            }\n\
            return 9;\n}\n";
    for family in [Family::Gcc, Family::Clang] {
        let Some(it) = Comparison::new(family, Language::Cxx) else {
            continue;
        };
        let it = it.source("x.cpp", SOURCE);
        for options in [&["-O0", "-g"][..], &["-O2"], &["-O2", "-fPIC", "-g"]] {
            let arguments: Vec<&str> = options.iter().chain(&["-c", "x.cpp"]).copied().collect();
            it.compile(&arguments, &["x.o"]);
            // The ticket links, and the program does what it should.
            it.then(&["x.o", "-o", "x"]).run.ok();
            let mut program = it.scratch.command(it.directory().join("x"));
            repo_tests::process::run(&mut program).ok();
        }
        // Compiling and linking in one command.
        it.reset();
        it.then(&["x.cpp", "-o", "x"]).run.ok();
        let mut program = it.scratch.command(it.directory().join("x"));
        repo_tests::process::run(&mut program).ok();
    }
}
