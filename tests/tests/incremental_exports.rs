//! Incremental links of shared objects: names that others find come, move and go.

use repo_tests::process::run;
use repo_tests::relink::{INCREMENTAL, Place};
use repo_tests::scratch::settle;
use repo_tests::tools;
use std::fmt::Write as _;

/// A program that looks for names in a library, and says what it finds.
const MAIN: &str = "#include <dlfcn.h>\n#include <stdio.h>\nint main(int, char **argv) { void *library = dlopen(argv[1], RTLD_NOW); if (!library) { puts(dlerror()); return 1; }
for (int i = 0; i < 60; i++) { char name[20]; snprintf(name, 20, \"f%d\", i); void *f = dlsym(library, name); snprintf(name, 20, \"v%d\", i); void *v = dlsym(library, name);
printf(\"%d\", i); if (f) printf(\" %d\", ((int (*)(int))f)(i)); if (v) printf(\" v %d\", *(int *)v); puts(\"\"); } return 0; }";

struct Library<'p> {
    place: &'p Place,
    options: &'p [&'p str],
}

impl Library<'_> {
    /// A unit with functions, each of which calls others, and variables.
    fn unit(&self, name: &str, functions: &[(usize, &[usize])], variables: &[usize]) {
        let mut text = String::new();
        for number in variables {
            let _ = writeln!(
                text,
                "extern \"C\" {{ int v{number} = {number} + 100; int *p{number} = &v{number}; }}"
            );
        }
        for (_, called) in functions {
            for called in *called {
                let _ = writeln!(text, "extern \"C\" int f{called}(int);");
            }
        }
        for (number, called) in functions {
            let calls = called.iter().map(|called| format!("x += f{called}(x); "));
            let calls: String = calls.collect();
            let hidden = match number % 10 {
                7 => "__attribute__((visibility(\"hidden\"))) ",
                8 => "__attribute__((visibility(\"protected\"))) ",
                9 => "__attribute__((weak)) ",
                _ => "",
            };
            let _ = writeln!(
                text,
                "extern \"C\" {hidden}int f{number}(int x) {{ {calls} return x + {number} * 7; }} static int (*volatile of{number})(int) = f{number};"
            );
        }
        self.place.compile(name, &text, &["-fPIC", "-O1"], false);
    }

    /// Links the library, and in full as well: the program finds the same in both.
    #[track_caller]
    fn link(&self) -> String {
        let words = [self.options, &["-shared", "a.o", "b.o"]].concat();
        let grown = [&[INCREMENTAL], &words[..]].concat();
        self.place.link("grown.so", &grown).ok();
        let last = self.place.last();
        self.place.link("made.so", &words).ok();
        let [grown, made] = ["./grown.so", "./made.so"].map(|library| {
            let program = self.place.scratch.join("main");
            run(self.place.scratch.command(program).arg(library)).ok()
        });
        assert_eq!(grown.text(), made.text(), "{last}");
        if tools::require(["readelf"]).is_some() {
            let read = run(self
                .place
                .scratch
                .command("readelf")
                .args(["-aW", "grown.so"]))
            .ok();
            assert_eq!(read.errors(), "");
            let names = |library: &str| {
                let mut command = self.place.scratch.command("nm");
                let text = run(command.args(["-D", "--format=posix", library]))
                    .ok()
                    .text();
                let names = text
                    .lines()
                    .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "));
                let mut names: Vec<String> = names.filter(|name| !name.starts_with(' ')).collect();
                names.sort();
                names
            };
            assert_eq!(names("grown.so"), names("made.so"), "{last}");
        }
        last
    }

    #[track_caller]
    fn again(&self) {
        let last = self.link();
        assert!(last.contains("incremental link: "), "{last}");
    }
}

#[test]
fn functions_and_variables_come_and_go() {
    let Some(place) = Place::new() else { return };
    place.compile("main", MAIN, &[], false);
    place.link("main", &["main.o"]).ok();
    place.scratch.write(
        "script",
        "ONE { global: f1*; v*; local: f2*; }; TWO { global: f*; } ONE;",
    );
    for options in [
        &[][..],
        &["-Wl,--version-script=script"],
        &["-Wl,-Bsymbolic-functions", "-Wl,--gc-sections"],
        &["-Wl,-z,now"],
        &["-Wl,--hash-style=both"],
        &["-Wl,--hash-style=sysv"],
    ] {
        let library = Library {
            place: &place,
            options,
        };
        library.unit("a", &[(0, &[]), (1, &[0])], &[0]);
        library.unit("b", &[(10, &[1])], &[10]);
        settle();
        library.link();
        for _ in 0..2 {
            // One more, called or not; a variable; and all gone.
            library.unit("a", &[(0, &[]), (1, &[0]), (2, &[])], &[0]);
            library.again();
            library.unit(
                "a",
                &[(0, &[]), (1, &[0]), (2, &[1]), (3, &[2])],
                &[0, 1, 2],
            );
            library.again();
            library.unit("b", &[(10, &[1, 3])], &[10]);
            library.again();
            library.unit(
                "b",
                &[(10, &[1]), (17, &[]), (18, &[10]), (19, &[18, 17])],
                &[10],
            );
            library.again();
            library.unit("a", &[(0, &[]), (1, &[0])], &[]);
            library.again();
            library.unit(
                "b",
                &[(10, &[1]), (19, &[]), (20, &[]), (21, &[20]), (22, &[])],
                &[10, 11, 12, 13],
            );
            library.again();
            // One moves to the other unit.
            library.unit("b", &[(10, &[1]), (20, &[])], &[]);
            library.unit("a", &[(0, &[]), (1, &[0]), (21, &[20]), (22, &[21])], &[13]);
            library.again();
            library.unit("a", &[(0, &[]), (1, &[0])], &[0]);
            library.unit("b", &[(10, &[1])], &[10]);
            library.again();
        }
        // More at once than there are buckets.
        let many: Vec<(usize, &[usize])> = (30..50).map(|number| (number, &[0usize][..])).collect();
        library.unit("b", &[&[(10, &[1][..])], &many[..]].concat(), &[10]);
        library.again();
        library.unit("b", &[(10, &[1])], &[10]);
        library.again();
        std::fs::remove_file(place.scratch.join("grown.so")).unwrap();
        std::fs::remove_dir_all(place.scratch.join("program.repo.links")).unwrap();
    }
}

#[test]
fn thread_local_variables_of_a_library() {
    let Some(place) = Place::new() else { return };
    let main = "#include <dlfcn.h>\n#include <stdio.h>\nint main(int, char **argv) { void *library = dlopen(argv[1], RTLD_NOW); if (!library) { puts(dlerror()); return 1; }
        printf(\"%d\\n\", ((int (*)(int))dlsym(library, \"f\"))(1)); return 0; }";
    place.compile("main", main, &[], false);
    place.link("main", &["main.o"]).ok();
    let library = Library {
        place: &place,
        options: &[],
    };
    let compile = |text: &str| {
        let text = format!("extern \"C\" int f(int x);\n{text}");
        place.compile("a", &text, &["-fPIC", "-O1"], false);
    };
    // It needs versions of the C library in any case.
    let b = "#include <stdlib.h>\nint of_b(char *text) { return atoi(text); }";
    place.compile("b", b, &["-fPIC"], false);
    let plain = "int f(int x) { return x; }";
    compile(plain);
    settle();
    library.link();
    for text in [
        "static thread_local int own = 5; int f(int x) { own += x; return own; }",
        "static thread_local int own, other; int f(int x) { own += x; other += own; return other; }",
        "thread_local int all = 4; int f(int x) { all += x; return all; }",
    ] {
        compile(text);
        library.again();
    }
    // What others may have found is for a full link, and then for others of its kind.
    compile(plain);
    library.link();
    compile("static thread_local int own = 5; int f(int x) { own += x; return own; }");
    library.again();
}
