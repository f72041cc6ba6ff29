//! Versions of symbols: `.symver` directives, version scripts, `--default-symver`, dynamic lists. What both linkers
//! export is compared with what the manual of GNU ld says, and with each other.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use linking::{BOTH, Bench, Linker, versioned_exports};

/// Links with both linkers and demands these exports of both.
fn exported(bench: &Bench, arguments: &str, expected: &[&str]) {
    for linker in BOTH {
        bench
            .driver(linker, "gcc", &format!("{arguments} -o output"))
            .ok();
        let found = versioned_exports(&bench.read("output"));
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(found, expected, "{linker:?}: {arguments}");
    }
}

const ALIASES: &str = r#"
int foo1(void) { return 1; } int foo2(void) { return 2; } int bar(void) { return 3; }
int e1(void) { return 4; } int e2(void) { return 5; }
__asm__(".symver foo1, foo@V1"); __asm__(".symver foo2, foo@@V2"); __asm__(".symver bar, bar@V1");
__asm__(".symver e1, empty@@"); __asm__(".symver e2, hidden@");
"#;

#[test]
fn directives_name_versions_of_the_script() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("aliases.c", ALIASES);
    bench
        .driver(Linker::Reference, "gcc", "-fPIC -c aliases.c")
        .ok();
    // `bar` itself is no name any more beside `bar@V1`, though the script mentions it.
    let script = "V1 { global: foo; bar; local: *; }; V2 { } V1;";
    bench.scratch.write("a.ver", script);
    let expected = ["bar@V1", "empty", "foo@@V2", "foo@V1", "hidden"];
    exported(
        &bench,
        "-shared aliases.o -Wl,--version-script=a.ver",
        &expected,
    );
    let script = "V1 { global: *; }; V2 { bar; } V1;";
    bench.scratch.write("b.ver", script);
    exported(
        &bench,
        "-shared aliases.o -Wl,--version-script=b.ver",
        &[
            "bar@V1", "e1@@V1", "e2@@V1", "empty", "foo1@@V1", "foo2@@V1", "foo@@V2", "foo@V1",
            "hidden",
        ],
    );
}

#[test]
fn a_version_s_own_rules_hold_for_those_who_name_it() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "named.s",
        ".globl one, _two, _three\none: ret\n_two: ret\n_three: ret\n\
         .symver _two,two@V1\n.symver _three,three@@V2\n",
    );
    bench.driver(Linker::Reference, "gcc", "-c named.s").ok();
    for (script, expected) in [
        ("V1 { local: t*; _*; }; V2 { };", &["one", "three@@V2"][..]),
        (
            "V1 { global: one; local: _*; }; V2 { local: three; };",
            &["one@@V1", "two@V1"],
        ),
        (
            "V1 { global: one; two; local: *; }; V2 { global: three; local: *; };",
            &["one@@V1", "three@@V2", "two@V1"],
        ),
    ] {
        bench.scratch.write("rules.ver", script);
        let arguments = "-shared -nostdlib named.o -Wl,--version-script=rules.ver";
        exported(&bench, arguments, expected);
    }
}

#[test]
fn an_executable_takes_the_place_of_a_version() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "library.c",
        "int _f(void) { return 1; } __asm__(\".symver _f, f@V1\");",
    );
    bench.scratch.write("library.ver", "V1 { global: f; _f; };");
    bench.scratch.write(
        "main.c",
        "int _f(void) { return 2; } __asm__(\".symver _f, f@V1\");
         int _g(void) { return 2; } __asm__(\".symver _g, g@V1\"); int main(void) { return 0; }",
    );
    bench.scratch.write("main.ver", "V1 { };");
    let library = "-shared -fPIC library.c -Wl,--version-script=library.ver -o library.so";
    bench.driver(Linker::Reference, "gcc", library).ok();
    for linker in BOTH {
        let arguments =
            "main.c -Wl,--no-as-needed library.so -Wl,--version-script=main.ver -o output";
        bench.driver(linker, "gcc", arguments).ok();
        let found = versioned_exports(&bench.read("output"));
        assert!(found.contains("f@V1"), "{linker:?}: {found:?}");
        assert!(!found.contains("g@V1"), "{linker:?}: {found:?}");
    }
}

#[test]
fn references_by_version_find_definitions_of_objects() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("aliases.c", ALIASES);
    bench.scratch.write(
        "main.c",
        r#"#include <stdio.h>
        __asm__(".symver old, foo@V1"); __asm__(".symver new, foo@V2");
        int old(void), new(void);
        int main(void) { printf("%d %d\n", old(), new()); return 0; }"#,
    );
    bench.same_behaviour("gcc", "main.c aliases.c");
    assert_eq!(bench.execute("program.Ours").text(), "1 2\n");
}

#[test]
fn executables_define_versions_without_a_script() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("aliases.c", ALIASES);
    bench
        .scratch
        .write("main.c", "int main(void) { return 0; }");
    for linker in BOTH {
        bench
            .driver(linker, "gcc", "main.c aliases.c -rdynamic -o output")
            .ok();
        let found = versioned_exports(&bench.read("output"));
        for name in ["foo@V1", "foo@@V2", "bar@V1", "foo1"] {
            assert!(found.contains(name), "{linker:?}: no {name} in {found:?}");
        }
        assert!(!found.contains("bar"), "{linker:?}");
    }
    // Nobody can see the versions here.
    bench
        .driver(Linker::Ours, "gcc", "main.c aliases.c -o output")
        .ok();
    let found = versioned_exports(&bench.read("output"));
    assert!(found.iter().all(|name| !name.contains('@')), "{found:?}");
}

#[test]
fn shared_objects_need_a_node_for_each_version() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("aliases.c", ALIASES);
    for linker in BOTH {
        let run = bench
            .driver(linker, "gcc", "-shared -fPIC aliases.c -o output")
            .failed();
        let said = run.errors();
        assert!(
            said.contains("version node not found for symbol"),
            "{linker:?}: {said}"
        );
        assert!(said.contains('@'), "{linker:?}: {said}");
    }
}

#[test]
fn one_symbol_with_many_versions() {
    let Some(bench) = Bench::new() else { return };
    let script = "V1 { local: *; }; V2 { }; V3 { };";
    bench.scratch.write("two.ver", script);
    bench.scratch.write(
        "two.c",
        r#"void f(void) { } __asm__(".symver f, f@V1"); __asm__(".symver f, f@@V2");"#,
    );
    // GNU ld 2.40 takes `f` and `f@@V2` for two definitions; lld does not.
    let shared = "-shared -fPIC -Wl,--version-script=two.ver -o output";
    bench
        .driver(Linker::Ours, "gcc", &format!("two.c {shared}"))
        .ok();
    let found = versioned_exports(&bench.read("output"));
    assert!(
        found.contains("f@V1") && found.contains("f@@V2"),
        "{found:?}"
    );
    // `f@@V` is found as `f@V`, too.
    bench.scratch.write(
        "both.c",
        r#"void f1(void) { } void f2(void) { }
        __asm__(".symver f1, f@V1"); __asm__(".symver f2, f@@V1");"#,
    );
    let run = bench
        .driver(Linker::Ours, "gcc", &format!("both.c {shared}"))
        .failed();
    assert!(
        run.errors().contains("duplicate symbol: f"),
        "{}",
        run.report()
    );
}

#[test]
fn the_soname_as_version() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "three.c",
        "int foo(void) { return 1; } int bar(void) { return 2; } int baz(void) { return 3; }",
    );
    let shared = "-shared -fPIC three.c -Wl,--default-symver";
    let all = ["bar@@output", "baz@@output", "foo@@output"];
    exported(&bench, shared, &all);
    bench
        .scratch
        .write("anonymous.ver", "{ global: foo; local: *; };");
    exported(
        &bench,
        &format!("{shared} -Wl,-soname,libthree.so.1 -Wl,--version-script=anonymous.ver"),
        &["foo@@libthree.so.1"],
    );
    bench
        .scratch
        .write("named.ver", "V1 { global: foo; local: baz; };");
    exported(
        &bench,
        &format!("{shared} -Wl,--version-script=named.ver"),
        &["bar@@output", "foo@@V1"],
    );
}

#[test]
fn lists_of_dynamic_symbols() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "main.c",
        "int data = 1; void code(void) { } int main(void) { return 0; }",
    );
    exported(
        &bench,
        "main.c -Wl,--dynamic-list-data",
        &["_IO_stdin_used", "data"],
    );
    bench.scratch.write("list", "{ co*; };");
    for option in [
        "--dynamic-list=list",
        "--export-dynamic-symbol-list=list",
        "--export-dynamic-symbol=c?de",
    ] {
        exported(&bench, &format!("main.c -Wl,{option}"), &["code"]);
    }
    // In a shared object bound to itself, what is named can still be preempted.
    bench.scratch.write(
        "library.c",
        "int data = 1; int other = 2; int *f(void) { return &data; } int *g(void) { return &other; }",
    );
    bench.scratch.write("one", "{ data; };");
    for (options, preempted) in [
        ("-Wl,-Bsymbolic", [false, false]),
        (
            "-Wl,-Bsymbolic -Wl,--export-dynamic-symbol=data",
            [true, false],
        ),
        ("-Wl,--dynamic-list=one", [true, false]),
        ("-Wl,--dynamic-list-data", [true, true]),
        ("-Wl,--dynamic-list-cpp-new", [false, false]),
        ("", [true, true]),
    ] {
        for linker in BOTH {
            let arguments = format!("-shared -fPIC -O1 library.c {options} -o output");
            bench.driver(linker, "gcc", &arguments).ok();
            let image = bench.read("output");
            let elf = goblin::elf::Elf::parse(&image).unwrap();
            let named = |name: &str| {
                elf.dynrelas.iter().any(|rela| {
                    let symbol = elf.dynsyms.get(rela.r_sym);
                    symbol.is_some_and(|symbol| elf.dynstrtab.get_at(symbol.st_name) == Some(name))
                })
            };
            let found = ["data", "other"].map(named);
            assert_eq!(found, preempted, "{linker:?}: {options}");
        }
    }
}

/// Modules may ask an executable that exports its symbols for its bounds, and find the copy of a variable under the
/// weak name that it has in its shared object.
#[test]
fn executables_export_their_bounds_and_copies() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "main.c",
        r#"#define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdio.h>
        extern char **environ;
        static int initialised = 1, zero;
        int main(void) {
            char *edata = dlsym(RTLD_DEFAULT, "_edata"), *bss = dlsym(RTLD_DEFAULT, "__bss_start");
            char *end = dlsym(RTLD_DEFAULT, "_end");
            printf("%d %d %d %d %d\n", (char *) &initialised < edata, edata <= bss, bss <= (char *) &zero,
                (char *) &zero < end, dlsym(RTLD_DEFAULT, "environ") == &environ);
            return initialised + zero != 1;
        }"#,
    );
    for kind in ["-no-pie", "-pie"] {
        for linker in BOTH {
            let arguments = format!("{kind} -rdynamic main.c -o output");
            bench.driver(linker, "gcc", &arguments).ok();
            let output = bench.execute("output").ok();
            assert_eq!(output.text(), "1 1 1 1 1\n", "{linker:?} {kind}");
            let image = bench.read("output");
            let elf = goblin::elf::Elf::parse(&image).unwrap();
            let binding = |name: &str| {
                let named = |symbol: &goblin::elf::Sym| {
                    !symbol.is_import() && elf.dynstrtab.get_at(symbol.st_name) == Some(name)
                };
                let symbol = elf.dynsyms.iter().find(named);
                symbol.map(|symbol| goblin::elf::sym::bind_to_str(symbol.st_bind()))
            };
            let found = [
                "_edata",
                "__bss_start",
                "_end",
                "edata",
                "environ",
                "__environ",
            ]
            .map(binding);
            let global = Some("GLOBAL");
            let expected = [global, global, global, None, Some("WEAK"), global];
            assert_eq!(found, expected, "{linker:?} {kind}");
        }
    }
    // What nobody can look up stays out.
    for linker in BOTH {
        bench.driver(linker, "gcc", "main.c -o output").ok();
        let exports = versioned_exports(&bench.read("output"));
        assert!(
            !exports.iter().any(|name| name == "_end"),
            "{linker:?}: {exports:?}"
        );
    }
}
