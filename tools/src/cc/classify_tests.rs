//! Command lines and what they ask for.

use super::*;

fn args(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

/// An action without what was understood besides.
fn bare(action: Action) -> Action {
    match action {
        Action::Compile(compile) => Action::Compile(Box::new(Compile {
            outputs: compile.outputs,
            split_sections: compile.split_sections,
            ..Compile::default()
        })),
        action => action,
    }
}

fn gcc(line: &str) -> Action {
    bare(classify(Family::Gcc, &args(line)))
}

fn clang(line: &str) -> Action {
    bare(classify(Family::Clang, &args(line)))
}

fn compile(outputs: &[&str]) -> Action {
    Action::Compile(Box::new(Compile {
        outputs: outputs.iter().map(PathBuf::from).collect(),
        split_sections: true,
        ..Compile::default()
    }))
}

/// What is understood of a compile.
fn understood(line: &str) -> Compile {
    match classify(Family::Gcc, &args(line)) {
        Action::Compile(compile) => *compile,
        action => panic!("{line}: {action:?}"),
    }
}

#[test]
fn what_is_understood_is_kept() {
    let it =
        understood("-Wp,-MMD,x.d -I inc -DA=1 -O2 -c -x c++ a.c -x none b.S -o a.o -MT t libm.a");
    let names: Vec<_> = it
        .sources
        .iter()
        .map(|source| (source.name.to_str().expect("UTF-8"), source.language))
        .collect();
    assert_eq!(names, [("a.c", Language::Cxx), ("b.S", Language::Assembly)]);
    assert!(it.names_output && it.for_linker);
    let expected = Dependencies {
        wanted: true,
        without_system: true,
        file: Some("x.d".into()),
        names_target: true,
    };
    assert_eq!(it.dependencies, expected);
    let of_words: Vec<_> = it
        .words
        .iter()
        .map(|word| {
            (
                word.option.to_str().expect("UTF-8"),
                word.arguments.len(),
                word.meaning,
            )
        })
        .collect();
    assert_eq!(
        of_words,
        [
            ("-Wp,-MMD,x.d", 0, Meaning::Dependencies),
            ("-I", 1, Meaning::Directory),
            ("-DA=1", 0, Meaning::Macro),
            ("-O2", 0, Meaning::Code),
            ("-c", 0, Meaning::Nothing),
            ("-x", 1, Meaning::Code),
            ("-x", 1, Meaning::Code),
            ("-o", 1, Meaning::Output),
            ("-MT", 1, Meaning::Dependencies),
        ]
    );
    let it = understood("-MD -MFdep -c a.cc");
    assert_eq!(it.dependencies.file, Some("dep".into()));
    assert!(it.dependencies.wanted && !it.dependencies.without_system && !it.names_output);
}

fn link(line: &str) -> Action {
    Action::Link {
        end_of_options: args(line).len(),
    }
}

#[test]
fn compiles() {
    for (line, outputs) in [
        ("-c a.c", &["a.o"][..]),
        ("a.c -c", &["a.o"]),
        ("--compile a.c", &["a.o"]),
        ("-c a.c -o b.o", &["b.o"]),
        ("-c a.c -ob.o", &["b.o"]),
        ("-c a.c --output b.o", &["b.o"]),
        ("-c a.c --output=b.o", &["b.o"]),
        ("-o x.o -c a.c -o y.o", &["y.o"]),
        ("-c dir/a.c ../b.cpp", &["a.o", "b.o"]),
        ("-c a.tar.c", &["a.tar.o"]),
        ("-c a.c b.o libc.a d.s -lm", &["a.o", "d.o"]),
        ("-c -x c foo", &["foo.o"]),
        ("-c -xc foo -x none bar b.cc", &["foo.o", "b.o"]),
        ("-c --language c foo", &["foo.o"]),
        ("-x c++ - -c -o z.o", &["z.o"]),
        ("-x c -c -", &["-.o"]),
        ("-MD -MF a.d -MT a.o -MP -c a.c -o a.o", &["a.o"]),
        ("-MMD -MQ a.c -c a.c", &["a.o"]),
        ("-Wp,-MD,x.d -c a.c", &["a.o"]),
        ("-Wa,-o,zzz -c a.c", &["a.o"]),
        ("-c -include b.c a.c", &["a.o"]),
        ("-c -D b.c -U c.c -I d.c a.c", &["a.o"]),
        (
            "-c -isystem b.c -iquote c.c -idirafter d.c -imacros e.c a.c",
            &["a.o"],
        ),
        ("-c -Xassembler b.c -Xpreprocessor c.c a.c", &["a.o"]),
        ("-c -L b.c -B c.c -T d.c -u e.c -z f.c a.c", &["a.o"]),
        ("-v -pipe -save-temps -g -gsplit-dwarf -c a.c", &["a.o"]),
        ("-flto -fno-lto -c a.c", &["a.o"]),
        ("-m32 -m64 -c a.c", &["a.o"]),
        ("-c a.c h.h", &["a.o"]),
        ("-c a.c -o /dev/null", &["/dev/null"]),
    ] {
        assert_eq!(gcc(line), compile(outputs), "gcc {line}");
        assert_eq!(clang(line), compile(outputs), "clang {line}");
    }
}

#[test]
fn options_of_one_family() {
    for line in [
        "-c -aux-info b.c a.c",
        "-c -dumpbase b.c -dumpdir c.c -dumpbase-ext d.c a.c",
        "-c -wrapper b.c a.c",
        "-c --param b.c a.c",
    ] {
        assert_eq!(gcc(line), compile(&["a.o"]), "gcc {line}");
    }
    for line in [
        "-c -Xclang b.c -mllvm c.c a.c",
        "-c -target x86_64-linux-gnu a.c",
        "--target=x86_64-pc-linux-musl -c a.c",
        "-c -MJ b.c -serialize-diagnostics c.c a.c",
        "-c -Xarch_host b.c -Xanalyzer c.c -include-pch d.c a.c",
        "-c -sectcreate b.c c.c d.c a.c",
        "-c -object-file-name=z.o a.c",
        "-c -- a.c",
        "--driver-mode=g++ -c a.c",
    ] {
        assert_eq!(clang(line), compile(&["a.o"]), "clang {line}");
    }
}

#[test]
fn assembly_alone_gets_no_options_from_us_with_clang() {
    let bare = |outputs: &[&str]| {
        Action::Compile(Box::new(Compile {
            outputs: outputs.iter().map(PathBuf::from).collect(),
            ..Compile::default()
        }))
    };
    assert_eq!(clang("-c a.s"), bare(&["a.o"]));
    assert_eq!(clang("-c a.S b.s -DX"), bare(&["a.o", "b.o"]));
    assert_eq!(clang("-x assembler-with-cpp -c a.c"), bare(&["a.o"]));
    assert_eq!(clang("-c a.S b.c"), compile(&["a.o", "b.o"]));
    assert_eq!(gcc("-c a.s"), compile(&["a.o"]));
}

#[test]
fn links() {
    for line in [
        "a.o",
        "a.o b.o -o prog",
        "a.c -o prog",
        "-shared -o libx.so a.o",
        "-r -o all.o a.o b.o",
        "-static a.o -lm",
        "-lfoo",
        "-l foo",
        "-Wl,--version",
        "-Xlinker --version",
        "-v a.o",
        "a.c b.s c.o -O2 -g",
        "noextension",
        "foo.h a.c",
        "-o a.o b.o -c.o",
    ] {
        assert_eq!(gcc(line), link(line), "gcc {line}");
        assert_eq!(clang(line), link(line), "clang {line}");
    }
    assert_eq!(
        clang("-o prog -- -weird.o"),
        Action::Link { end_of_options: 2 }
    );
}

#[test]
fn questions_about_the_linker() {
    for line in [
        "-print-prog-name=ld",
        "--print-prog-name=ld.gold",
        "--print-prog-name ld",
    ] {
        assert_eq!(gcc(line), Action::AsksForLinker, "gcc {line}");
        assert_eq!(clang(line), Action::AsksForLinker, "clang {line}");
    }
}

#[test]
fn everything_else_passes() {
    for line in [
        "",
        "-v",
        "-c",
        "-o x",
        "--version",
        "--help",
        "--help=warnings",
        "-dumpmachine",
        "-dumpversion",
        "-print-search-dirs",
        "-print-file-name=libc.so",
        "-print-prog-name=as",
        "--print-prog-name=as",
        "-E a.c",
        "-E -c a.c",
        "-c -E a.c -o a.o",
        "-S a.c",
        "-c -S a.c",
        "-M a.c",
        "-MM -c a.c",
        "-M -MF a.d a.c",
        "-fsyntax-only a.c",
        "-fsyntax-only -c a.c",
        "-### -c a.c",
        "-### a.o",
        "-c a.c -o -",
        "-c -o - -x c -",
        "-x c++-header a.hpp",
        "-x c-header -c a.h -o a.h.gch",
        "a.h",
        "-c a.h -o a.h.pch",
        "-c a.o",
        "-c a",
        "-flto -c a.c",
        "-flto=auto -c a.c",
        "-m32 -c a.c",
        "-m32 a.o",
        "-foffload=nvptx-none -c a.c",
        "-c conftest.c",
        "-O2 -o probe.o -c ./conftest.cpp",
        "-o CMakeFiles/cmTC_91fe6.dir/CheckIncludeFile.c.o -c /b/CMakeFiles/CMakeScratch/TryCompile-0D4iFQ/CheckIncludeFile.c",
        "-c /b/meson-private/tmpx1_y2/testfile.c -o /b/meson-private/tmpx1_y2/output.obj",
    ] {
        assert!(
            matches!(gcc(line), Action::PassThrough(_)),
            "gcc {line}: {:?}",
            gcc(line)
        );
        assert!(
            matches!(clang(line), Action::PassThrough(_)),
            "clang {line}: {:?}",
            clang(line)
        );
    }
    for line in [
        "-cc1 -emit-obj a.c",
        "-cc1as a.s",
        "-emit-llvm -c a.c",
        "-c -emit-ast a.c",
        "--precompile a.cppm",
        "--analyze a.c",
        "-flto=thin -c a.c",
        "--target=aarch64-linux-gnu -c a.c",
        "-target aarch64-linux-gnu a.o",
        "-target x86_64-apple-darwin -c a.c",
        "-working-directory /tmp -c a.c",
        "-working-directory=/tmp -c a.c",
        "-fopenmp-targets=nvptx64 -c a.c",
        "-x cuda -c a.cu",
        "-c a.cu",
        "--driver-mode=cl -c a.c",
    ] {
        assert!(
            matches!(clang(line), Action::PassThrough(_)),
            "clang {line}: {:?}",
            clang(line)
        );
    }
}

#[test]
fn bytes_that_are_not_utf8() {
    let odd = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let line = [odd(b"-c"), odd(b"-DX=\xff"), odd(b"dir\xff/\xfe.c")];
    assert_eq!(
        bare(classify(Family::Gcc, &line)),
        Action::Compile(Box::new(Compile {
            outputs: vec![PathBuf::from(odd(b"\xfe.o"))],
            split_sections: true,
            ..Compile::default()
        }))
    );
    let line = [odd(b"-c"), odd(b"a.c"), odd(b"-o\xff.o")];
    assert_eq!(
        bare(classify(Family::Gcc, &line)),
        Action::Compile(Box::new(Compile {
            outputs: vec![PathBuf::from(odd(b"\xff.o"))],
            split_sections: true,
            ..Compile::default()
        }))
    );
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    fn word() -> impl Strategy<Value = String> {
        prop_oneof![
            prop::sample::select(vec![
                "-c", "-o", "-x", "c", "-E", "-S", "a.c", "b.o", "-MF", "-I", "-", "--", "-Wl,x",
                "-flto", "-m32", "-l", "none", "-target", "x.h"
            ])
            .prop_map(str::to_owned),
            "-{0,2}[a-z.,=/-]{0,12}",
        ]
    }

    proptest! {
        /// Any words at all are classified, and never as a compile without
        /// -c, without an output, or with -E or -S as a word of its own that
        /// no option took.
        #[test]
        fn any_words(words in prop::collection::vec(word(), 0..12)) {
            let line: Vec<OsString> = words.iter().map(OsString::from).collect();
            for family in [Family::Gcc, Family::Clang] {
                match classify(family, &line) {
                    Action::Compile(compile) => {
                        prop_assert!(!compile.outputs.is_empty());
                        prop_assert!(words.iter().any(|w| w == "-c" || w == "--compile"));
                    }
                    Action::Link { end_of_options } => prop_assert!(end_of_options <= line.len()),
                    Action::AsksForLinker => {}
                    Action::PassThrough(_) => {}
                }
            }
        }
    }
}
