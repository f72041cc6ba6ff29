//! Incremental links: what a program comes to need of shared objects: thread-local variables, versions and libraries that it
//! did not need before, variables of which it has a copy.

use repo_tests::process::run;
use repo_tests::relink::{INCREMENTAL, Place};
use repo_tests::scratch::settle;
use repo_tests::tools;

/// How a program is made.
struct Form {
    compile: &'static [&'static str],
    link: &'static [&'static str],
}

const FORMS: [Form; 4] = [
    Form {
        compile: &["-g"],
        link: &[],
    },
    Form {
        compile: &["-O2", "-fno-pie"],
        link: &["-no-pie", "-Wl,-z,lazy"],
    },
    Form {
        compile: &["-O1"],
        link: &["-Wl,-z,now,--gc-sections"],
    },
    Form {
        compile: &["-O1", "-fcf-protection=none"],
        link: &["-Wl,--hash-style=both"],
    },
];

/// A program that is linked again and again, with libraries beside it.
struct Program<'p> {
    place: &'p Place,
    form: &'p Form,
    libraries: &'p [&'p str],
}

impl Program<'_> {
    fn compile(&self, name: &str, text: &str) {
        self.place.compile(name, text, self.form.compile, false);
    }

    fn output(&self, name: &str, command: &str, arguments: &[&str]) -> String {
        let mut command = self.place.scratch.command(command);
        run(command.args(arguments).arg(name)).ok().text()
    }

    /// What the dynamic linker is told of an output: the libraries, in order, and the versions that it must have.
    fn needed(&self, name: &str) -> (Vec<String>, Vec<String>) {
        let dynamic = self.output(name, "readelf", &["-dW"]);
        let libraries = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
        let libraries = libraries.map(|line| line.split('[').nth(1).unwrap().to_owned());
        let versions = self.output(name, "readelf", &["-VW"]);
        let versions = versions.lines().filter(|line| line.contains("Flags:"));
        let name_of = |line: &str| {
            let name = line.split("Name: ").nth(1).unwrap();
            name.split_whitespace().next().unwrap().to_owned()
        };
        let mut versions: Vec<String> = versions.map(name_of).collect();
        versions.sort();
        (libraries.collect(), versions)
    }

    /// Links it, and in full as well: both do the same. Gives the line of the log.
    #[track_caller]
    fn link(&self, objects: &[&str]) -> String {
        let words = [self.form.link, objects, self.libraries].concat();
        let grown = [&[INCREMENTAL], &words[..]].concat();
        self.place.link("a", &grown).ok();
        let last = self.place.last();
        self.place.link("full", &words).ok();
        let [now, full] = ["a", "full"].map(|name| {
            let mut command = self.place.scratch.command(self.place.scratch.join(name));
            command.env("LD_LIBRARY_PATH", self.place.scratch.path());
            run(&mut command)
        });
        assert_eq!(now.text(), full.text(), "{last}");
        assert_eq!(now.status, full.status, "{}", now.report());
        if tools::require(["readelf"]).is_some() {
            let read = run(self.place.scratch.command("readelf").args(["-aW", "a"])).ok();
            assert_eq!(read.errors(), "");
        }
        last
    }

    /// The same, incrementally; what was needed before may still be.
    #[track_caller]
    fn again(&self, objects: &[&str]) {
        let last = self.link(objects);
        assert!(last.contains("incremental link: "), "{last}");
        if tools::require(["readelf"]).is_none() {
            return;
        }
        let [now, full] = ["a", "full"].map(|name| self.needed(name));
        let mut libraries = now.0.iter();
        for library in &full.0 {
            assert!(
                libraries.any(|known| known == library),
                "{library}: {:?} is not in the order of {:?}",
                now.0,
                full.0
            );
        }
        for version in &full.1 {
            assert!(now.1.contains(version), "{version}: {:?}", now.1);
        }
    }
}

fn forms(libraries: &[&str], body: impl Fn(&Program)) {
    for form in &FORMS {
        let Some(place) = Place::new() else { return };
        body(&Program {
            place: &place,
            form,
            libraries,
        });
    }
}

const MAIN: &str = "#include <stdio.h>\nint f(int); int main(int argc, char **) { printf(\"%d\\n\", f(argc)); return 0; }";

const PLAIN: &str = "int f(int x) { return x; }";

/// Makes a library of C++ text.
fn library(place: &Place, name: &str, text: &str, options: &[&str]) {
    place.compile(name, text, &["-fPIC", "-O1"], false);
    let [output, object] = [format!("lib{name}.so"), format!("{name}.o")];
    let mut command = place.scratch.command("g++");
    command.args([
        "-shared",
        "-o",
        &output,
        &object,
        &format!("-Wl,-soname,{output}"),
    ]);
    run(command.args(options)).ok();
}

#[test]
fn thread_local_variables_of_libraries() {
    forms(&["-L.", "-lthreads"], |program| {
        let all = ["main.o", "f.o"];
        let text = "thread_local int one = 11; thread_local int two = 22; __thread long three = 33; int other() { return 5; }";
        library(program.place, "threads", text, &[]);
        program.compile(
            "main",
            "#include <stdio.h>\nint other(); int f(int); int main(int argc, char **) { printf(\"%d\\n\", f(argc) + other()); return 0; }",
        );
        program.compile("f", PLAIN);
        settle();
        program.link(&all);
        for text in [
            "extern __thread int one; int f(int x) { one += x; return one; }",
            "extern __thread int one, two; int f(int x) { one += x; two += one; return two; }",
            "extern __thread int one; extern __thread long three; int f(int x) { return three + one; }",
            PLAIN,
            "extern __thread int two; int f(int x) { return two + x; }",
        ] {
            program.compile("f", text);
            program.again(&all);
        }
        // As a library would say it, though it is in a program.
        let form = [program.form.compile, &["-fPIC"]].concat();
        let text = "extern __thread int one, two; int g(int x) { return two * x; } int f(int x) { return one + g(x); }";
        program.place.compile("f", text, &form, false);
        program.again(&all);
    });
}

#[test]
fn thread_local_variables_that_a_library_imports() {
    let Some(place) = Place::new() else { return };
    library(
        &place,
        "threads",
        "__thread int one = 11; __thread int two = 22; extern \"C\" int other() { return 5; }",
        &[],
    );
    place.compile(
        "main",
        "#include <stdio.h>\nextern \"C\" int f(int); int main(int argc, char **) { printf(\"%d\\n\", f(argc)); return 0; }",
        &[],
        false,
    );
    // It needs versions of the C library in any case.
    let b = "#include <stdlib.h>\nint of_b(char *text) { return atoi(text); }";
    place.compile("b", b, &["-fPIC"], false);
    for dialect in ["-mtls-dialect=gnu", "-mtls-dialect=gnu2"] {
        let compile = |text: &str| place.compile("f", text, &["-fPIC", "-O1", dialect], false);
        compile("extern \"C\" int other(); extern \"C\" int f(int x) { return other() + x; }");
        settle();
        let link = |expected: &str| {
            let words = ["-shared", "f.o", "b.o", "-L.", "-lthreads"];
            place
                .link("libgrown.so", &[&[INCREMENTAL], &words[..]].concat())
                .ok();
            let last = place.last();
            place
                .link(
                    "main",
                    &["main.o", "-L.", "-lgrown", "-lthreads", "-Wl,-rpath,."],
                )
                .ok();
            let mut program = place.scratch.command(place.scratch.join("main"));
            program.env("LD_LIBRARY_PATH", place.scratch.path());
            let said = run(&mut program).ok().text();
            assert_eq!(said.trim(), expected, "{last}");
            last
        };
        link("6");
        for (text, expected) in [
            (
                "extern __thread int one; extern \"C\" int f(int x) { return one + x; }",
                "12",
            ),
            (
                "extern __thread int one, two; extern \"C\" int f(int x) { return one + two + x; }",
                "34",
            ),
            (
                "extern __thread int two; extern \"C\" int other(); extern \"C\" int f(int x) { return two + other() + x; }",
                "28",
            ),
        ] {
            compile(text);
            let last = link(expected);
            // What asks for a newer C library may be for a full link.
            assert!(last.contains("incremental link: "), "{dialect}: {last}");
        }
        std::fs::remove_file(place.scratch.join("libgrown.so")).unwrap();
        std::fs::remove_dir_all(place.scratch.join("program.repo.links")).unwrap();
    }
}

#[test]
fn versions_that_nobody_needed_before() {
    forms(&["-L.", "-lversions"], |program| {
        let all = ["main.o", "f.o"];
        program.place.scratch.write(
            "script",
            "ONE { global: f1*; v*; }; TWO { global: f2*; } ONE; THREE { global: f3*; local: *; } TWO;",
        );
        let text = "extern \"C\" { int f1() { return 1; } int f2() { return 2; } int f21() { return 21; } int f3() { return 3; } int f31() { return 31; } }";
        library(
            program.place,
            "versions",
            text,
            &["-Wl,--version-script=script"],
        );
        program.compile("main", MAIN);
        program.compile(
            "f",
            "extern \"C\" int f1(); int f(int x) { return f1() + x; }",
        );
        settle();
        program.link(&all);
        for text in [
            "extern \"C\" int f1(), f2(); int f(int x) { return f1() + f2() + x; }",
            "extern \"C\" int f1(); int f(int x) { return f1() - x; }",
            "extern \"C\" int f21(), f3(), f31(); int f(int x) { return f21() + f3() * f31() + x; }",
            // Of the C library: one of each version, beside those that are there.
            "#include <math.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <sys/random.h>\n#include <string.h>\nextern \"C\" int f1(); int f(int x) { char b[9]; explicit_bzero(b, 9); return (getrandom(b, 4, 0) == 4) + (reallocarray(0, 3, 4) != 0) + f1(); }",
        ] {
            program.compile("f", text);
            program.again(&all);
        }
    });
}

#[test]
fn libraries_that_nobody_needed_before() {
    let libraries = [
        "-L.",
        "-Wl,--as-needed",
        "-lone",
        "-ltwo",
        "-lthree",
        "-Wl,-rpath,.",
    ];
    forms(&libraries, |program| {
        let all = ["main.o", "f.o"];
        for name in ["one", "two", "three"] {
            let text = format!(
                "extern \"C\" {{ int {name}() {{ return sizeof(\"{name}\"); }} int common() {{ return '{name}'; }} }}"
            );
            library(program.place, name, &text, &[]);
        }
        program.compile("main", MAIN);
        program.compile("f", PLAIN);
        settle();
        program.link(&all);
        for text in [
            "extern \"C\" int two(); int f(int x) { return two() + x; }",
            // Before the other, whose functions of the same name it hides.
            "extern \"C\" int one(), two(), common(); int f(int x) { return one() + two() + common() + x; }",
            "extern \"C\" int one(), two(), three(); int f(int x) { return one() * two() + three() + x; }",
            "#include <math.h>\nextern \"C\" int one(), two(), three(); int f(int x) { volatile double d = x; return (int)(100 * cos(d)) + (int)exp2(d) + one() + two() - three(); }",
        ] {
            program.compile("f", text);
            program.again(&all);
        }
    });
}

#[test]
fn variables_of_which_a_program_has_a_copy() {
    forms(&["-L.", "-lvariables"], |program| {
        let all = ["main.o", "f.o"];
        let text = "int number = 5; long large[40] = {1, 2, 3}; extern const int constant; const int constant = 7; alignas(64) char aligned[3] = {1, 2, 3};
            extern \"C\" { int variable = 9; extern int alias __attribute__((alias(\"variable\"))); extern int weak_alias __attribute__((weak, alias(\"variable\"))); }
            int change() { number++; large[1]++; variable++; aligned[1]++; return number + (int)large[1] + variable + constant + aligned[1]; }";
        library(program.place, "variables", text, &[]);
        program.compile(
            "main",
            "#include <stdio.h>\nint change(); int f(int); int main(int argc, char **) { int now = change(); printf(\"%d %d\\n\", f(argc), now); return 0; }",
        );
        program.compile("f", PLAIN);
        settle();
        program.link(&all);
        for text in [
            "extern int number; int f(int x) { return number + x; }",
            "#include <stdio.h>\nextern int number; int f(int x) { fputs(\"said\\n\", stdout); return number + x; }",
            "extern long large[40]; extern char aligned[3]; int f(int x) { return large[1] + aligned[1] + (unsigned long)aligned % 64; }",
            "extern const int constant; int change(); int f(int x) { return constant + change(); }",
            PLAIN,
            // With all names that it has in its library.
            "extern \"C\" int alias; int change(); int f(int x) { int was = alias; change(); return alias * 100 + was; }",
            "#include <unistd.h>\n#include <stdio.h>\nextern \"C\" int alias; int f(int x) { return (environ != 0) + alias; }",
            "#include <iostream>\nint f(int x) { std::cout << \"out\" << std::endl; std::cerr << \"error\"; return 3; }",
        ] {
            program.compile("f", text);
            match program.form.link.contains(&"-no-pie") && text.contains("iostream") {
                // The address of a function of the library is needed.
                true => _ = program.link(&all),
                false => program.again(&all),
            }
        }
    });
}

#[test]
fn a_library_that_is_built_again() {
    forms(&["-L.", "-lbuilt", "-luser", "-Wl,-rpath,."], |program| {
        let all = ["main.o", "f.o"];
        let place = program.place;
        let built = |text: &str| {
            library(place, "built", &format!("extern \"C\" {{ {text} }}"), &[]);
        };
        let first = "int one() { return 1; } int two() { return 2; } int variable = 3; int unused() { return one(); } int of_user() { return 5; }";
        built(first);
        library(
            place,
            "user",
            "extern \"C\" int of_user(); extern \"C\" int user() { return of_user(); }",
            &[],
        );
        program.compile("main", MAIN);
        let text = "extern \"C\" int one(), variable, user(); int f(int x) { return one() + variable + user() + x; }";
        program.compile("f", text);
        settle();
        program.link(&all);
        for text in [
            // Other code, more and fewer names, a call of the C library.
            "int one() { return 11; } int two() { return 2; } int variable = 3; int unused() { return one(); } int of_user() { return 5; }",
            "int before() { return 9; } int one() { return before(); } int variable = 33; int of_user() { return 5; } int late() { return 1; }",
            "int atoi(const char *); int one() { return atoi(\"77\"); } int of_user() { return 5; } char other[99] = {1}; int variable = 3;",
            first,
        ] {
            built(text);
            program.again(&all);
        }
        // The program comes to use what is new, and that stays.
        built(
            "int one() { return 1; } int late() { return 4; } int variable = 3; int of_user() { return 5; }",
        );
        program.compile("f", "extern \"C\" int one(), late(), variable, user(); int f(int x) { return one() + late() + variable + user() + x; }");
        program.again(&all);
        built(
            "int one() { return 2; } int late() { return 44; } int variable = 3; int of_user() { return 5; } int later() { return 1; }",
        );
        program.again(&all);
        // What the program uses is another, or what another library needs is gone.
        for text in [
            "int one() { return 2; } int late() { return 44; } long variable = 3; int of_user() { return 5; }",
            "int one() { return 3; } int late() { return 44; } long variable = 3; int other = 1; extern int alias __attribute__((alias(\"other\"))); int of_user() { return 5; }",
            "int one() { return 4; } extern int late; int late = 5; long variable = 3; int of_user() { return 5; }",
        ] {
            program.compile("f", "extern \"C\" int one(); extern \"C\" long variable; int f(int x) { return one() + (int)variable + x; }");
            built(text);
            program.link(&all);
        }
        built("int one() { return 4; } int late() { return 5; } long variable = 3;");
        let last = program.link(&all);
        assert!(last.contains("of_user is needed by a library"), "{last}");
    });
}
