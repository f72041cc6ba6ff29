//! What a link has to get right, feature by feature: the feature programs of
//! `programs/features`, by gcc and clang, as dynamic, position-independent and
//! static executables with a shared library, from tickets and from ordinary
//! objects. Each must do what it does when the system's linker links it.

use repo_tests::binaries::Binaries;
use repo_tests::build::{Family, Toolchain};
use repo_tests::process::run;
use repo_tests::programs::Language;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use repo_tests::sources::our_file;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// How the objects are made, and who links.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Road {
    /// Ordinary compiler, ordinary linker.
    Plain,
    /// `repo-cc` compiles to tickets and has them linked.
    Tickets,
    /// Ordinary objects, linked by `repo-ld` because the driver is told so.
    Objects,
}

/// The options that make a driver use `repo-ld`: a directory in which it is
/// called `ld` for gcc, its path for clang.
fn use_our_linker(scratch: &Scratch, family: Family) -> OsString {
    let linker = Binaries::get().path("repo-ld");
    if family == Family::Clang {
        return format!("--ld-path={}", linker.display()).into();
    }
    let directory = scratch.join("linker");
    if !directory.exists() {
        std::fs::create_dir(&directory).expect("a directory can be made");
        symlink(linker, directory.join("ld")).expect("a link can be made");
    }
    format!("-B{}", directory.display()).into()
}

/// One of the two feature programs.
struct Features {
    language: Language,
    main: &'static [&'static str],
    library: &'static str,
    code: i32,
}

const IN_C: Features = Features {
    language: Language::C,
    main: &["main.c", "other.c", "strong.c"],
    library: "library.c",
    code: 42,
};
const IN_CXX: Features = Features {
    language: Language::Cxx,
    main: &["main.cpp", "second.cpp"],
    library: "shared.cpp",
    code: 7,
};

/// The output of `features`, built on `road` with `options`.
fn output(
    scratch: &Scratch,
    family: Family,
    features: &Features,
    road: Road,
    options: &[&str],
) -> Option<String> {
    let plain = Toolchain::plain(family)?;
    let toolchain = match road {
        Road::Tickets => plain.through_repository(Binaries::get()),
        _ => plain,
    };
    let is_static = options.iter().any(|option| option.starts_with("-static"));
    let directory = scratch.join(format!("{road:?}"));
    std::fs::create_dir(&directory).expect("a directory can be made");
    let standard = match features.language {
        Language::C => "-std=gnu17",
        Language::Cxx => "-std=c++17",
    };
    let compile = |source: &str, more: &[&str]| -> PathBuf {
        let object = directory.join(Path::new(source).with_extension("o"));
        let mut command = toolchain.command(scratch, features.language);
        command
            .args([standard, "-O1", "-g", "-fcommon"])
            .args(options)
            .args(more);
        command
            .arg("-c")
            .arg(our_file("features").join(source))
            .arg("-o")
            .arg(&object);
        run(&mut command).ok();
        object
    };
    let link = |inputs: &[PathBuf], name: &str, more: &[&str]| -> PathBuf {
        let output = directory.join(name);
        let mut command = toolchain.command(scratch, features.language);
        if road == Road::Objects {
            command.arg(use_our_linker(scratch, family));
        }
        command
            .args(more)
            .args(inputs)
            .arg("-o")
            .arg(&output)
            .args(["-pthread", "-ldl"]);
        run(&mut command).ok();
        output
    };

    let mut inputs: Vec<_> = features
        .main
        .iter()
        .map(|source| compile(source, &[]))
        .collect();
    if is_static {
        inputs.push(compile(features.library, &["-DSTATIC_LIBRARY"]));
    } else {
        // The library's functions can be overridden: no inlining among them.
        let object = compile(features.library, &["-fPIC", "-fsemantic-interposition"]);
        inputs.push(link(
            &[object],
            "libshared.so",
            &["-shared", "-Wl,-soname,libshared.so"],
        ));
    }
    let path = format!("-Wl,-rpath,{}", directory.display());
    let more: Vec<&str> = options.iter().copied().chain([path.as_str()]).collect();
    let executable = link(&inputs, "program", &more);
    let mut command = scratch.command(&executable);
    let done = run(command.arg("argument").env("FEATURES", "on")).code(features.code);
    Some(done.text())
}

fn on_every_road(family: Family, features: &Features, options: &[&str]) {
    let scratch = Scratch::new();
    let Some(want) = output(&scratch, family, features, Road::Plain, options) else {
        return;
    };
    assert!(want.lines().count() > 20, "{want}");
    for road in [Road::Tickets, Road::Objects] {
        let got = output(&scratch, family, features, road, options);
        assert_eq!(got.as_ref(), Some(&want), "{road:?} {options:?}");
    }
}

macro_rules! feature_tests {
    ($($name:ident: $family:ident, $features:ident, $options:expr;)*) => {
        $(
            #[test]
            fn $name() {
                on_every_road(Family::$family, &$features, &$options);
            }
        )*
    };
}

feature_tests! {
    c_by_gcc_pie: Gcc, IN_C, ["-fpie", "-pie"];
    c_by_gcc_without_pie: Gcc, IN_C, ["-fno-pie", "-no-pie"];
    c_by_gcc_without_plt: Gcc, IN_C, ["-fpie", "-pie", "-fno-plt", "-Wl,-z,now"];
    c_by_gcc_static: Gcc, IN_C, ["-static"];
    c_by_clang_pie: Clang, IN_C, ["-fpie", "-pie"];
    c_by_clang_without_pie: Clang, IN_C, ["-fno-pie", "-no-pie"];
    c_by_clang_static: Clang, IN_C, ["-static", "-fno-pie", "-no-pie"];
    cxx_by_gcc_pie: Gcc, IN_CXX, ["-fpie", "-pie"];
    cxx_by_gcc_without_pie: Gcc, IN_CXX, ["-fno-pie", "-no-pie"];
    cxx_by_gcc_static: Gcc, IN_CXX, ["-static"];
    cxx_by_clang_pie: Clang, IN_CXX, ["-fpie", "-pie"];
    cxx_by_clang_without_pie: Clang, IN_CXX, ["-fno-pie", "-no-pie"];
    cxx_by_clang_static: Clang, IN_CXX, ["-static", "-fno-pie", "-no-pie"];
}

/// Without an entry symbol a program starts with its first code, as with GNU ld: nobody can tell what that reaches, so
/// all of a ticket is linked, and what is missing is told.
#[test]
fn without_an_entry_symbol_all_of_a_ticket_is_linked() {
    let [nm] = require!("nm");
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let toolchain = plain.through_repository(Binaries::get());
    let scratch = Scratch::new();
    scratch.write(
        "boot.c",
        "int second(int x) { return x + 1; }\nint table[] = {1, 2};\n\
         int first(int x) { return second(x) + table[x]; }\n",
    );
    scratch.write(
        "lost.c",
        "int gone(void); int lost(void) { return gone(); }\n",
    );
    for source in ["boot.c", "lost.c"] {
        run(toolchain
            .command(&scratch, Language::C)
            .args(["-O1", "-c", source]))
        .ok();
    }
    let link = |arguments: &[&str]| {
        let mut command = scratch.command(Binaries::get().path("repo-ld"));
        run(command.args(["-o", "out"]).args(arguments))
    };
    let linked = link(&["boot.o"]).ok();
    assert!(linked.errors().contains("cannot find entry symbol _start"));
    let names = run(scratch.command(nm).arg("out")).ok().text();
    for name in [" T first", " T second", " D table"] {
        assert!(names.contains(name), "{name} in\n{names}");
    }
    let undefined = link(&["lost.o"]).code(1).errors();
    assert!(undefined.contains("undefined symbol: gone"), "{undefined}");
    // With one, what it reaches is enough.
    link(&["-e", "first", "boot.o", "lost.o"]).ok();
}

/// The output has what the graph reaches from the entry points, and nothing
/// else of what came as tickets.
#[test]
fn unreached_definitions_are_left_out() {
    let [nm] = require!("nm");
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let toolchain = plain.through_repository(Binaries::get());
    let scratch = Scratch::new();
    scratch.write(
        "main.c",
        "#include <stdio.h>\n\
         int reached(int); int reached_by_data; int (*pointer)(int) = reached;\n\
         static int only_from_dead(void) { puts(\"dead string\"); return 1; }\n\
         int dead(void) { return only_from_dead(); }\n\
         const char *dead_data[] = {\"dead table\"};\n\
         int main(void) { puts(\"live string\"); return pointer(-1); }\n",
    );
    scratch.write(
        "other.c",
        "int reached_deeper(int x) { return x + 1; }\n\
         int reached(int x) { return reached_deeper(x); }\n\
         int dead_too(int x) { return reached_deeper(x); }\n\
         volatile int ran;\n\
         __attribute__((used, constructor)) static void constructor(void) { ran = 1; }\n",
    );
    for source in ["main.c", "other.c"] {
        run(toolchain.command(&scratch, Language::C).args([
            "-O1",
            "-fno-inline",
            "-fno-ipa-icf",
            "-c",
            source,
        ]))
        .ok();
    }
    let mut link = toolchain.command(&scratch, Language::C);
    run(link.args(["main.o", "other.o", "-o", "program"])).ok();
    let program = scratch.join("program");
    // Without optimisation, gcc's strings would all be in one section.
    let bytes = std::fs::read(&program).expect("program");
    let holds = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(holds(b"live string\0"));
    assert!(!holds(b"dead table\0"), "dead table");
    assert!(!holds(b"dead string\0"), "dead string");
    assert_eq!(
        run(&mut scratch.command(&program)).ok().text(),
        "live string\n"
    );
    let names = run(scratch.command(nm).arg(&program)).ok().text();
    let has = |name: &str| {
        names
            .lines()
            .any(|line| line.ends_with(&format!(" {name}")))
    };
    for name in [
        "main",
        "reached",
        "reached_deeper",
        "pointer",
        "constructor",
    ] {
        assert!(has(name), "no {name} in\n{names}");
    }
    for name in ["dead", "only_from_dead", "dead_too", "dead_data"] {
        assert!(!has(name), "{name} in\n{names}");
    }
}
