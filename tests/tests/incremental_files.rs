//! Incremental links: source files that come and go, and members of archives that are needed now.

use repo_tests::process::run;
use repo_tests::relink::{INCREMENTAL, Place};
use repo_tests::scratch::settle;
use repo_tests::tools;

/// Links and runs `a`; gives the line of the log.
#[track_caller]
fn link(place: &Place, words: &[&str], code: i32) -> String {
    place.link("a", &[&[INCREMENTAL], words].concat()).ok();
    run(&mut place.scratch.command(place.scratch.join("a"))).code(code);
    place.last()
}

#[track_caller]
fn again(place: &Place, words: &[&str], files: &str, code: i32) {
    let last = link(place, words, code);
    let expected = format!("incremental link: {files} ");
    assert!(last.contains(&expected), "{last}");
}

#[track_caller]
fn in_full(place: &Place, words: &[&str], reason: &str, code: i32) {
    let last = link(place, words, code);
    assert!(
        last.contains("full link") && last.contains(reason),
        "{last}"
    );
}

/// Frames, strings, debugging information, and what is called.
fn text(name: &str, value: i32, calls: &str) -> String {
    let prototype = match calls {
        "" => String::new(),
        calls => format!("int {calls}();"),
    };
    let call = match calls {
        "" => String::new(),
        calls => format!("+ {calls}()"),
    };
    format!(
        "{prototype} static int of_{name} = {value}; struct type_{name} {{ int field; }};
        static int inner_{name}(int x) {{ try {{ if (x > 200) throw x; return of_{name}; }} catch (int y) {{ return y; }} }}
        int {name}() {{ type_{name} it = {{inner_{name}(3)}}; return it.field {call}; }}"
    )
}

#[test]
fn a_source_file_comes_and_goes() {
    let Some(place) = Place::new() else { return };
    for (tickets, options, link_options) in [
        (false, &["-g"][..], &[][..]),
        (true, &["-O1"], &["-Wl,--gc-sections"]),
        (false, &["-fno-pie"], &["-no-pie"]),
    ] {
        let compile = |name: &str, text: &str| place.compile(name, text, options, tickets);
        let words = |objects: &[&'static str]| [link_options, objects].concat();
        compile("main", "int f(); int main() { return f(); }");
        compile("f", &text("f", 1, ""));
        settle();
        in_full(&place, &words(&["main.o", "f.o"]), "", 1);
        for _ in 0..2 {
            // In the middle, where it is needed.
            compile("f", &text("f", 1, "g"));
            compile("g", &text("g", 20, ""));
            let three = words(&["main.o", "g.o", "f.o"]);
            again(&place, &three, "2 of", 21);
            again(&place, &three, "0 of", 21);
            compile("g", &text("g", 30, ""));
            again(&place, &three, "1 of", 31);
            // Two more, one of which nobody needs.
            compile("g", &text("g", 30, "h"));
            compile("h", &text("h", 4, ""));
            compile("i", &text("i", 100, ""));
            let five = words(&["main.o", "g.o", "i.o", "f.o", "h.o"]);
            // Where sections are collected, this brings others back.
            let last = link(&place, &five, 35);
            assert!(last.contains("incremental link: "), "{last}");
            compile("f", &text("f", 1, "i"));
            let last = link(&place, &five, 101);
            assert!(last.contains("incremental link: "), "{last}");
            // They go; one of them too early.
            compile("f", &text("f", 1, "g"));
            compile("g", &text("g", 40, ""));
            let without_f = [&[INCREMENTAL], &words(&["main.o", "g.o"])[..]].concat();
            let failed = place.link("a", &without_f).failed();
            assert!(failed.errors().contains("f()"), "{}", failed.errors());
            again(&place, &three, "4 of", 41);
            compile("f", &text("f", 1, ""));
            again(&place, &words(&["main.o", "f.o"]), "2 of", 1);
            again(&place, &words(&["main.o", "f.o"]), "0 of 7", 1);
            if tools::require(["readelf"]).is_some() {
                let read = run(place.scratch.command("readelf").args(["-a", "a"])).ok();
                assert_eq!(read.errors(), "");
            }
        }
        std::fs::remove_file(place.scratch.join("a")).unwrap();
        std::fs::remove_dir_all(place.scratch.join("program.repo.links")).unwrap();
    }
}

#[test]
fn the_order_of_weak_definitions_is_that_of_the_command_line() {
    let Some(place) = Place::new() else { return };
    let compile = |name: &str, text: &str| place.compile(name, text, &[], false);
    let weak = |value: i32| format!("__attribute__((weak)) int f() {{ return {value}; }}");
    compile("main", "int f(); int main() { return f(); }");
    compile("a1", &weak(1));
    compile("a2", &weak(2));
    compile("a3", "int f() { return 3; }");
    settle();
    link(&place, &["main.o", "a2.o"], 2);
    // Whoever is first, and the strong one in any place.
    link(&place, &["main.o", "a1.o", "a2.o"], 1);
    link(&place, &["main.o", "a2.o", "a1.o"], 2);
    again(&place, &["main.o", "a2.o", "a1.o", "a3.o"], "2 of", 3);
    compile("a1", &weak(7));
    again(&place, &["main.o", "a2.o", "a1.o", "a3.o"], "1 of", 3);
    link(&place, &["main.o", "a2.o", "a1.o"], 2);
    link(&place, &["main.o", "a1.o"], 7);
    // One that is before an archive makes its member unnecessary.
    run(place.scratch.command("ar").args(["rc", "liba.a", "a3.o"])).ok();
    compile("none", "int none;");
    link(&place, &["main.o", "none.o", "-L.", "-la"], 3);
    link(&place, &["main.o", "none.o", "a1.o", "-L.", "-la"], 7);
    link(&place, &["main.o", "none.o", "-L.", "-la"], 3);
    compile("none", &weak(8));
    link(&place, &["main.o", "none.o", "-L.", "-la"], 8);
}

#[test]
fn a_member_of_an_archive_is_needed_now() {
    let Some(place) = Place::new() else { return };
    for tickets in [false, true] {
        let compile = |name: &str, text: &str| place.compile(name, text, &["-g"], tickets);
        let archive = |members: &[&str]| {
            let _ = std::fs::remove_file(place.scratch.join("libm1.a"));
            run(place
                .scratch
                .command("ar")
                .args(["rc", "libm1.a"])
                .args(members))
            .ok();
        };
        compile("main", "int f(); int main() { return f(); }");
        compile("f", &text("f", 1, ""));
        compile("g", &text("g", 20, ""));
        compile("h", &text("h", 4, "g"));
        compile("i", &text("i", 50, "none"));
        compile("other", &text("other", 0, ""));
        archive(&["f.o", "h.o", "i.o"]);
        run(place
            .scratch
            .command("ar")
            .args(["rc", "libm2.a", "g.o", "other.o"]))
        .ok();
        settle();
        let words = ["main.o", "-L.", "-lm1", "-lm2"];
        in_full(&place, &words, "", 1);
        // One that needs another one, of an archive of which nothing was linked.
        compile("main", "int f(); int h(); int main() { return f() + h(); }");
        again(&place, &words, "3 of", 25);
        again(&place, &words, "0 of", 25);
        // It changes in its archive, and is needed no more.
        compile("h", &text("h", 5, "g"));
        archive(&["f.o", "h.o", "i.o"]);
        again(&place, &words, "1 of", 26);
        compile("main", "int f(); int main() { return f(); }");
        again(&place, &words, "1 of", 1);
        // A new one, in an archive that was written again.
        compile("main", "int f(); int j(); int main() { return f() + j(); }");
        compile("j", &text("j", 60, ""));
        archive(&["f.o", "j.o", "h.o", "i.o"]);
        again(&place, &words, "2 of", 61);
        // What it needs is nowhere.
        compile("main", "int i(); int main() { return i(); }");
        let failed = place
            .link("a", &[&[INCREMENTAL], &words[..]].concat())
            .failed();
        assert!(failed.errors().contains("none()"), "{}", failed.errors());
        compile("main", "int h(); int main() { return h(); }");
        again(&place, &words, "1 of", 25);
        std::fs::remove_dir_all(place.scratch.join("program.repo.links")).unwrap();
        std::fs::remove_file(place.scratch.join("a")).unwrap();
    }
}

#[test]
fn a_name_of_a_shared_object_is_needed_now() {
    let Some(place) = Place::new() else { return };
    let main = |value: i32, uses: &str| {
        format!(
            "extern \"C\" {{ int atoi(const char *); int abs(int); long labs(long); char *getenv(const char *);
            int own(int); int other(int); }} char *volatile text = (char *)\"20\";
            int main() {{ if (!getenv(\"PATH\")) return 1; int x = {value}; {uses} return x; }}"
        )
    };
    run(place.scratch.command("g++").args(["-shared", "-fPIC", "-o", "libown.so"]).arg(
        place.scratch.write("own.cpp", "extern \"C\" int own(int x) { return x + 1; } extern \"C\" int other(int x) { return x + 2; }"),
    ))
    .ok();
    for (options, link_options) in [
        (&["-fno-builtin", "-fPIE"][..], &[][..]),
        (&["-fno-builtin", "-fno-pie"], &["-no-pie"]),
        (
            &["-fno-builtin", "-fPIE", "-fcf-protection"],
            &["-Wl,-z,ibt,-z,now"],
        ),
        (
            &["-fno-builtin", "-fPIE", "-fno-plt"],
            &["-Wl,--hash-style=both"],
        ),
    ] {
        let compile = |text: &str| place.compile("main", text, options, false);
        let words = [link_options, &["main.o", "./libown.so", "-Wl,-rpath,."]].concat();
        // Strings, a table of frames, and a name of the library.
        compile(&main(2, "x = own(x);"));
        settle();
        in_full(&place, &words, "", 3);
        for round in 0..2 {
            // Called, and called twice.
            compile(&main(2, "x = own(x) + atoi(text);"));
            again(&place, &words, "1 of", 23);
            compile(&main(3, "x = own(x) + atoi(text) + atoi(text);"));
            again(&place, &words, "1 of", 44);
            // One that is called already has its address taken.
            compile(&main(
                3,
                "int (*volatile f)(const char *) = atoi; x = own(-1) + f(text) + atoi(text);",
            ));
            let last = link(&place, &words, 40);
            assert!(
                options.contains(&"-fno-pie") || last.contains("incremental link: 1 of"),
                "{last}"
            );
            // Of the own library.
            compile(&main(4, "x = other(x);"));
            again(&place, &words, "1 of", 6);
            // Many more at once; and nobody knows one of them.
            compile(&main(
                5,
                "x = abs(-x) + (int)labs(-20L) + atoi(text) + own(-1);",
            ));
            again(&place, &words, "1 of", 45);
            compile(&format!("int nobody(); {}", main(5, "x = nobody();")));
            let failed = place
                .link("a", &[&[INCREMENTAL], &words[..]].concat())
                .failed();
            assert!(failed.errors().contains("nobody()"), "{}", failed.errors());
            compile(&main(2, "x = own(x);"));
            again(&place, &words, "1 of", 3);
            if round == 0 && options.contains(&"-fno-pie") {
                link(&place, &words, 3);
            }
        }
        if tools::require(["readelf"]).is_some() {
            let read = run(place.scratch.command("readelf").args(["-aW", "a"])).ok();
            assert_eq!(read.errors(), "");
            let text = String::from_utf8_lossy(&read.stdout).into_owned();
            assert!(text.contains("labs@GLIBC"), "{text}");
        }
        // An object may define it after all.
        compile(&main(5, "x = abs(-x) + own(-1);"));
        again(&place, &words, "1 of", 5);
        compile(&format!(
            "{} int abs(int x) {{ return 9; }}",
            main(5, "x = abs(-x);")
        ));
        link(&place, &words, 9);
        std::fs::remove_file(place.scratch.join("a")).unwrap();
        std::fs::remove_dir_all(place.scratch.join("program.repo.links")).unwrap();
    }
}

#[test]
fn a_library_comes_to_import() {
    let Some(place) = Place::new() else { return };
    let compile =
        |name: &str, text: &str| place.compile(name, text, &["-fPIC", "-fno-builtin"], false);
    let library = |uses: &str| {
        compile(
            "lib",
            &format!(
                "extern \"C\" int atoi(const char *), abs(int); extern \"C\" void *malloc(unsigned long); void *p() {{ return malloc(3); }} int f(int x) {{ {uses} }}"
            ),
        );
        place
            .link("lib.so", &[INCREMENTAL, "-shared", "lib.o"])
            .ok();
        place.last()
    };
    compile("main", "int f(int); int main() { return f(7); }");
    settle();
    library("return x;");
    place.link("a", &["main.o", "./lib.so"]).ok();
    let runs = |code: i32| run(&mut place.scratch.command(place.scratch.join("a"))).code(code);
    runs(7);
    for _ in 0..2 {
        let last = library("return abs(-x) + 1;");
        assert!(last.contains("incremental link: 1 of"), "{last}");
        runs(8);
        library("return x + 2;");
        runs(9);
    }
}

#[test]
fn compilers_name_objects_otherwise_each_time() {
    let Some(place) = Place::new() else { return };
    let write = |name: &str, text: &str| _ = place.scratch.write(name, text);
    write("x1.cpp", "int f(); int main() { return f(); }");
    write("x2.cpp", "int f() { return 2; }");
    settle();
    in_full(&place, &["x1.cpp", "x2.cpp"], "", 2);
    for value in [3, 4] {
        // One is new, in the middle; the objects of all have names of this link alone.
        write(
            "x2.cpp",
            &format!("int g(); int f() {{ return g() + {value}; }}"),
        );
        write("x3.cpp", "int g() { return 10; }");
        // Which one is new cannot be told from them.
        let last = link(&place, &["x1.cpp", "x3.cpp", "x2.cpp"], 10 + value);
        assert!(last.contains("incremental link: "), "{last}");
        again(&place, &["x1.cpp", "x3.cpp", "x2.cpp"], "0 of", 10 + value);
        write("x2.cpp", "int f() { return 2; }");
        let last = link(&place, &["x1.cpp", "x2.cpp"], 2);
        assert!(last.contains("incremental link: "), "{last}");
    }
}

#[test]
fn a_shared_object_is_built_again() {
    let Some(place) = Place::new() else { return };
    let library = |text: &str, options: &[&str]| {
        let source = place.scratch.write("own.cpp", text);
        let mut command = place.scratch.command("g++");
        command.args(["-shared", "-fPIC", "-w", "-o", "libown.so"]);
        run(command.args(options).arg(source)).ok();
    };
    let text = |body: &str, more: &str| {
        format!(
            "#include <string.h>
            int variable = 3; extern int other __attribute__((alias(\"variable\")));
            int of_own(int x) {{ {body} }} {more}"
        )
    };
    let words = ["main.o", "./libown.so", "-Wl,-rpath,.", "-no-pie"];
    place.compile(
        "main",
        "int of_own(int); extern int variable; int main() { return of_own(2) + variable; }",
        &["-fno-pie"],
        false,
    );
    library(&text("return x;", ""), &[]);
    settle();
    in_full(&place, &words, "", 5);
    // Other code, also more of it, other values of variables, and what is nobody's but the library's.
    library(&text("return x + 1;", ""), &[]);
    again(&place, &words, "0 of", 6);
    again(&place, &words, "0 of", 6);
    let grown = "char s[100]; memset(s, x, 100); for (int i = 0; i < 50; i++) s[i] += s[i + x]; return x + s[0] / 2;";
    library(
        &text(grown, "static int mine[100]; int *volatile p = mine;"),
        &[],
    );
    again(&place, &words, "0 of", 7);
    library(
        &text(grown, "static int mine[999]; int *volatile p = mine + 7;"),
        &[],
    );
    again(&place, &words, "0 of", 7);
    library(
        &text(grown, "static int mine[999]; int *volatile p = mine + 7;"),
        &["-g"],
    );
    again(&place, &words, "0 of", 7);
    // What the program has no name for comes and goes.
    for (text, options, code) in [
        (text("return x;", "int f() { return 1; }"), &[][..], 5),
        (text("return x;", "int g() { return 1; }"), &[], 5),
        (text("return x;", "int g;"), &[], 5),
        (text("return x;", "int g[2];"), &[], 5),
        (
            text("return x;", "__attribute__((aligned(64))) int g[2];"),
            &[],
            5,
        ),
        (text("return x;", "extern const int g[2] = {1, 2};"), &[], 5),
        (text("return x;", "__attribute__((weak)) int g;"), &[], 5),
        (text("return x;", "__thread int g;"), &[], 5),
        (
            text(
                "return x;",
                "extern \"C\" int puts(const char *); void g() { puts(\"\"); }",
            ),
            &[],
            5,
        ),
        (text("return x;", "void g() {}"), &[], 5),
        (
            text(
                "return x;",
                "__attribute__((visibility(\"protected\"))) void g() {}",
            ),
            &[],
            5,
        ),
    ] {
        library(&text, options);
        again(&place, &words, "0 of", code);
        again(&place, &words, "0 of", code);
    }
    // What a link looks at.
    let alias = "extern int g __attribute__((alias(\"variable\")));";
    let words = [&words[..], &["-Wl,--allow-shlib-undefined"]].concat();
    library(&text("return x;", ""), &[]);
    in_full(&place, &words, "", 5);
    for (more, options, reason) in [
        (alias, &[][..], "variable of ./libown.so has changed"),
        ("", &["-Wl,-soname,libown.so"], "libown.so has changed"),
        ("", &["-Wl,-rpath,/nowhere"], "libown.so has changed"),
        (
            "extern \"C\" int of_nobody(); int (*volatile g)() = 0; int g2() { return g ? of_nobody() : 0; }",
            &["-Wl,-z,lazy"],
            "of_nobody is needed by a library",
        ),
    ] {
        library(&text("return x;", more), options);
        in_full(&place, &words, reason, 5);
        library(&text("return x;", ""), &[]);
        place.link("a", &[&[INCREMENTAL], &words[..]].concat()).ok();
    }
    // A version by default, and one that is not.
    place.scratch.write("map", "V1 { *; };");
    library(
        &text("return x;", "void g() {}"),
        &["-Wl,--version-script=map"],
    );
    in_full(&place, &words, " of ./libown.so has changed", 5);
    place.scratch.write("map", "V2 { *; };");
    library(
        &text("return x;", "void g() {}"),
        &["-Wl,--version-script=map"],
    );
    in_full(&place, &words, " of ./libown.so has changed", 5);
}

#[test]
fn the_dependency_file_is_that_of_a_full_link() {
    let Some(place) = Place::new() else { return };
    let compile = |name: &str, text: &str| place.compile(name, text, &[], false);
    compile("main", "int f(); int main() { return f(); }");
    compile("f", &text("f", 1, ""));
    compile("g", &text("g", 20, ""));
    run(place.scratch.command("ar").args(["rc", "liba.a", "g.o"])).ok();
    place.scratch.write("map", "{ global: main; local: *; };");
    let sorted = |name: &str| {
        let text = std::fs::read_to_string(place.scratch.join(name)).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    // Build systems take the file away when they have read it.
    let check = |objects: &[&str], expected: &str, code: i32| {
        let _ = std::fs::remove_file(place.scratch.join("deps"));
        let more = [
            "-L.",
            "-la",
            "-Wl,--dependency-file=deps,--version-script=map",
        ];
        let words = [objects, &more].concat();
        let last = link(&place, &words, code);
        assert!(last.contains(expected), "{last}");
        let more = [
            "-L.",
            "-la",
            "-Wl,--dependency-file=expected,--version-script=map",
        ];
        let words = [&["-Wl,--no-incremental"], objects, &more].concat();
        place.link("a.full", &words).ok();
        let mut full = sorted("expected");
        for line in &mut full {
            *line = line.replace("a.full: ", "a: ");
        }
        assert_eq!(sorted("deps"), full);
    };
    settle();
    check(&["main.o", "f.o"], "full link", 1);
    check(&["main.o", "f.o"], "incremental link: 0 of", 1);
    compile("f", &text("f", 2, ""));
    check(&["main.o", "f.o"], "incremental link: 1 of", 2);
    // A member is drawn in, a file comes and goes.
    compile("f", &text("f", 3, "g"));
    check(&["main.o", "f.o"], "incremental link: 2 of", 23);
    compile("h", &text("h", 4, ""));
    check(&["main.o", "h.o", "f.o"], "incremental link: 1 of", 23);
    check(&["main.o", "h.o", "f.o"], "incremental link: 0 of", 23);
    // (Another file is asked whether the C library is needed still, of which this one wants nothing any more.)
    check(&["main.o", "f.o"], "incremental link: 2 of", 23);
    // Where it cannot be written there is no link.
    let words = ["main.o", "f.o", "-L.", "-la", "-Wl,--version-script=map"];
    let unwritable = "-Wl,--dependency-file=no/such/file";
    for _ in 0..2 {
        let words = [&[INCREMENTAL, unwritable], &words[..]].concat();
        let failed = place.link("a", &words).failed();
        let errors = failed.errors();
        assert!(
            errors.contains("cannot write the dependency file"),
            "{errors}"
        );
    }
}
