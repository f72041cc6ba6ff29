//! Which definition a name means where objects and shared objects have several, what of it others see at run time, and
//! what is said of definitions that are not linked. GNU ld does the same links and is held to the same.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::{Elf, sym};
use linking::{BOTH, Bench, Linker, versioned_exports};
use object::{Object as _, ObjectSymbol as _};

/// Compiles `NAME.c` into `NAME.o`.
fn compile(bench: &Bench, name: &str, options: &str, source: &str) {
    bench.scratch.write(format!("{name}.c"), source);
    let arguments = format!("{options} -c {name}.c -o {name}.o");
    bench.driver(Linker::Reference, "gcc", &arguments).ok();
}

/// Makes `libNAME.so` of a source.
fn shared(bench: &Bench, name: &str, options: &str, source: &str) {
    bench.scratch.write(format!("{name}.c"), source);
    let arguments = format!("-shared -fPIC {name}.c {options} -o lib{name}.so");
    bench.driver(Linker::Reference, "gcc", &arguments).ok();
}

/// Whether a dynamic symbol of the name is defined; `None` if there is none.
fn dynamic_symbol(image: &[u8], name: &str) -> Option<bool> {
    let file = object::File::parse(image).unwrap();
    file.dynamic_symbols()
        .find(|symbol| symbol.name() == Ok(name))
        .map(|symbol| !symbol.is_undefined())
}

#[test]
fn a_variable_with_a_value_wins_over_a_common_block() {
    let Some(bench) = Bench::new() else { return };
    shared(
        &bench,
        "values",
        "",
        r"int valued = 42, array[16] = { 7 }, zero; __attribute__((weak)) int feeble = 5;
        int get(void) { return valued; } int *where(void) { return &zero; }",
    );
    let source = r#"#include <stdio.h>
        int valued, array[4], zero;
        int get(void), *where(void);
        int main(void) { printf("%d %d %d %d\n", valued, array[0], get(), where() == &zero); return 0; }"#;
    for options in ["-fPIE -pie", "-fno-pie -no-pie"] {
        compile(&bench, "main", &format!("-fcommon {options}"), source);
        for order in [
            "main.o libvalues.so",
            "-Wl,--no-as-needed libvalues.so main.o",
        ] {
            bench.same_behaviour("gcc", &format!("{options} {order}"));
            assert_eq!(bench.execute("program.Ours").text(), "42 7 42 1\n");
        }
    }
    // What the program keeps for itself is its own.
    let source = source.replace(
        "int valued,",
        "__attribute__((visibility(\"hidden\"))) int valued; int",
    );
    compile(&bench, "main", "-fcommon", &source);
    bench.same_behaviour("gcc", "main.o libvalues.so");
    assert_eq!(bench.execute("program.Ours").text(), "0 7 42 1\n");
    // A weak variable does not.
    let source = "int feeble; int main(void) { return feeble; }";
    compile(&bench, "main", "-fcommon", source);
    bench.same_behaviour("gcc", "main.o libvalues.so");
    assert_eq!(bench.execute("program.Ours").status.code(), Some(0));
    // The block makes the shared object needed as a reference does, and is not to be larger than what is there.
    compile(
        &bench,
        "main",
        "-fcommon",
        "int valued[4]; int main(void) { return valued[0] - 42; }",
    );
    for linker in BOTH {
        let run = bench.driver(
            linker,
            "gcc",
            "main.o -Wl,--as-needed libvalues.so -o program",
        );
        assert!(
            run.ok()
                .errors()
                .contains("size of symbol `valued' changed from 16 in main.o to 4"),
            "{linker:?}"
        );
        assert_eq!(
            bench.execute("program").status.code(),
            Some(0),
            "{linker:?}"
        );
    }
}

#[test]
fn a_variable_does_not_replace_a_function_of_a_library() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("v.ver", "V { global: *; };");
    shared(
        &bench,
        "clock",
        "-Wl,--version-script=v.ver",
        "int now(void) { return 5; } int tick = 1;",
    );
    shared(&bench, "plain", "", "int now(void) { return 6; }");
    shared(
        &bench,
        "caller",
        "-Wl,--no-as-needed libclock.so",
        "int now(void); int call(void) { return now(); }",
    );
    // Made without the library: it means whatever has the name.
    shared(
        &bench,
        "reader",
        "-nostdlib",
        "extern int now; int read_it(void) { return now; }",
    );
    compile(
        &bench,
        "main",
        "",
        r"int now = 7, tick = 8; int call(void); int main(void) { return call() * 10 + now; }",
    );
    compile(
        &bench,
        "reading",
        "",
        r"int now = 7; int read_it(void); int main(void) { return read_it(); }",
    );
    compile(
        &bench,
        "calling",
        "",
        "int now(void) { return 4; } int main(void) { return 0; }",
    );
    for linker in BOTH {
        for (inputs, exported, status) in [
            ("main.o libcaller.so libclock.so", &["tick"][..], 57),
            ("reading.o libreader.so libclock.so", &["now"], 7),
            ("calling.o libclock.so", &["now"], 0),
            // Names without versions are one and the same.
            ("reading.o libreader.so libplain.so", &["now"], 7),
        ] {
            let arguments = format!("-Wl,--no-as-needed {inputs} -o program");
            bench.driver(linker, "gcc", &arguments).ok();
            let found = versioned_exports(&bench.read("program"));
            let found: Vec<&str> = ["now", "tick"]
                .into_iter()
                .filter(|name| found.contains(*name))
                .collect();
            assert_eq!(found, exported, "{inputs} by {linker:?}");
            let run = bench.execute("program");
            assert_eq!(run.status.code(), Some(status), "{inputs} by {linker:?}");
        }
    }
}

#[test]
fn what_the_command_line_asks_for_is_looked_up_at_run_time() {
    let Some(bench) = Bench::new() else { return };
    shared(&bench, "asked", "", "int asked(void) { return 1; }");
    compile(&bench, "main", "", "int main(void) { return 0; }");
    for linker in BOTH {
        for (options, expected) in [
            ("-Wl,--no-as-needed libasked.so", None),
            ("-Wl,-u,asked -Wl,--no-as-needed libasked.so", Some(false)),
            (
                "-Wl,--require-defined=asked -Wl,--no-as-needed libasked.so",
                Some(false),
            ),
            // That alone does not make it needed.
            ("-Wl,-u,asked -Wl,--as-needed libasked.so", None),
        ] {
            bench
                .driver(linker, "gcc", &format!("main.o {options} -o program"))
                .ok();
            let found = dynamic_symbol(&bench.read("program"), "asked");
            assert_eq!(found, expected, "{options} by {linker:?}");
            assert_eq!(bench.execute("program").status.code(), Some(0));
        }
        let run = bench.driver(
            linker,
            "gcc",
            "main.o -Wl,--require-defined=asked -Wl,--as-needed libasked.so -o program",
        );
        assert!(
            run.failed()
                .errors()
                .contains("required symbol `asked' not defined"),
            "{linker:?}"
        );
    }
}

/// A library that only weak references would need is not needed; code that is linked to its place finds nothing then, and does not crash.
#[test]
fn weak_references_to_a_library_that_is_not_needed() {
    let Some(bench) = Bench::new() else { return };
    let library = "int f(void) { return 3; } int d[4] = {7}; int g(void) { return 1; }";
    shared(&bench, "weak", "", library);
    let source = r#"#include <stdio.h>
        extern __attribute__((weak)) int f(void), d[];
        int (*p)(void) = f, *q = d;
        int main(void) { printf("%d %d %d %d\n", f ? f() : 0, p == f, d ? d[0] : 0, q == d); return 0; }"#;
    for options in ["-fno-pie -no-pie", "-fPIE -pie"] {
        compile(&bench, "main", options, source);
        compile(
            &bench,
            "other",
            options,
            "int g(void); int h(void) { return g(); }",
        );
        let library = "-Wl,--as-needed libweak.so -Wl,-rpath,.";
        bench.same_behaviour("gcc", &format!("{options} main.o {library}"));
        assert_eq!(bench.execute("program.Ours").text(), "0 1 0 1\n");
        bench.same_behaviour("gcc", &format!("{options} main.o other.o {library}"));
        assert_eq!(bench.execute("program.Ours").text(), "3 1 7 1\n");
    }
}

/// For a common block a member of an archive is linked that has the variable with a value, but not if that is weak.
#[test]
fn members_with_weak_variables_are_not_linked_for_common_blocks() {
    let Some(bench) = Bench::new() else { return };
    let main = "int printf(const char *, ...); int d[1]; int main(void) { printf(\"%d\\n\", d[0]); return 0; }";
    compile(&bench, "main", "-fcommon", main);
    for (weak, expected) in [("__attribute__((weak)) ", "0\n"), ("", "6\n")] {
        compile(&bench, "member", "", &format!("{weak}int d[1] = {{6}};"));
        bench.driver(Linker::Reference, "rm", "-f libm6.a");
        bench.driver(Linker::Reference, "ar", "rc libm6.a member.o");
        bench.same_behaviour("gcc", "main.o libm6.a");
        assert_eq!(bench.execute("program.Ours").text(), expected);
    }
}

#[test]
fn nothing_refers_to_sections_that_are_not_for_linked_files() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "excluded.s",
        r#" .section .apart,"e",@progbits
            .globl apart
            apart: .quad 42
            .section .alloc,"ae",@progbits
            .globl alloc
            alloc: .quad 42
            inner: .quad 43
            .section .note.GNU-stack,"",@progbits"#,
    );
    let assemble = |name: &str| {
        bench
            .driver(
                Linker::Reference,
                "gcc",
                &format!("-c {name}.s -o {name}.o"),
            )
            .ok();
    };
    assemble("excluded");
    let excluded = std::fs::read_to_string(bench.path("excluded.s")).unwrap();
    for (n, (source, name)) in [
        ("movabs $apart, %rax".to_owned(), "apart"),
        ("mov alloc(%rip), %rax".to_owned(), "alloc"),
        (format!("mov inner(%rip), %rax\n{excluded}"), ".alloc"),
    ]
    .into_iter()
    .enumerate()
    {
        let program = format!("program{n}");
        bench.scratch.write(
            "main.s",
            format!(".globl main\nmain: {source}\n.section .note.GNU-stack,\"\",@progbits\n"),
        );
        assemble("main");
        let inputs = if source.contains("section") {
            "main.o"
        } else {
            "main.o excluded.o"
        };
        for linker in BOTH {
            let run = bench
                .driver(linker, "gcc", &format!("-no-pie {inputs} -o {program}"))
                .failed();
            assert!(run.errors().contains(name), "{linker:?}: {}", run.errors());
            assert!(!bench.path(&program).exists());
            if linker == Linker::Ours {
                assert!(run.errors().contains("SHF_EXCLUDE"), "{}", run.errors());
            }
        }
    }
    // Without references they are of no interest.
    bench.scratch.write(
        "main.s",
        ".globl main\nmain: xor %eax, %eax\nret\n.section .note.GNU-stack,\"\",@progbits\n",
    );
    assemble("main");
    for image in bench.same_behaviour("gcc", "main.o excluded.o") {
        let elf = Elf::parse(&image).unwrap();
        let defined = elf
            .syms
            .iter()
            .filter(|symbol| symbol.st_bind() == sym::STB_GLOBAL);
        let mut names = defined.filter_map(|symbol| elf.strtab.get_at(symbol.st_name));
        assert!(!names.any(|name| name == "apart" || name == "alloc"));
    }
}

#[test]
fn labels_in_data_of_shared_objects_are_not_functions() {
    let Some(bench) = Bench::new() else { return };
    // The bounds of `sec` are symbols without type and size.
    shared(
        &bench,
        "bounds",
        "",
        r#"__attribute__((section("sec"), used)) int x = 1; extern int __start_sec[], __stop_sec[];
        int *start(void) { return __start_sec; } int *stop(void) { return __stop_sec; }"#,
    );
    bench.scratch.write(
        "labels.s",
        r#".globl label, routine
            .text
            routine: mov $3, %eax; ret
            .data
            label: .long 5
            .section .note.GNU-stack,"",@progbits"#,
    );
    bench
        .driver(Linker::Reference, "gcc", "-shared labels.s -o liblabels.so")
        .ok();
    let source = |declared: &str, result: &str| {
        bench.scratch.write(
            "main.c",
            format!("extern int __start_sec[], __stop_sec[], label[]; int *start(void), *stop(void), routine(void); {declared} int main(void) {{ return {result}; }}"),
        );
    };
    let all = "main.c libbounds.so liblabels.so -Wl,-rpath,.";
    let both = "(__start_sec == start()) + (__stop_sec == stop())";
    source("", both);
    bench.same_behaviour("gcc", &format!("-fPIC -pie {all}"));
    assert_eq!(bench.execute("program.Ours").status.code(), Some(2));
    for linker in BOTH {
        let arguments = format!("-fno-pie -no-pie {all} -o program");
        let said = bench
            .driver(linker, "gcc", &arguments)
            .failed()
            .errors()
            .to_owned();
        assert!(said.contains("__start_sec"), "{linker:?}: {said}");
    }
    // Each module has bounds of its own sections.
    source(
        r#"__attribute__((section("sec"), used)) int y[3];"#,
        "(__stop_sec - __start_sec) * 10 + (__start_sec == start())",
    );
    for options in ["-fPIC -pie", "-fno-pie -no-pie"] {
        bench.same_behaviour("gcc", &format!("{options} {all}"));
        assert_eq!(bench.execute("program.Ours").status.code(), Some(30));
    }
    // GNU ld warns, and makes a copy of no bytes.
    source("", "*label");
    let arguments = format!("-fno-pie -no-pie {all} -o program");
    let said = bench
        .driver(Linker::Ours, "gcc", &arguments)
        .failed()
        .errors()
        .to_owned();
    assert!(
        said.contains("type and size of symbol 'label' are not defined"),
        "{said}"
    );
    // In code it is a function.
    source(
        "int (*volatile pointer)(void) = routine;",
        "pointer() + routine()",
    );
    bench.same_behaviour("gcc", &format!("-fno-pie -no-pie {all}"));
    assert_eq!(bench.execute("program.Ours").status.code(), Some(6));
}

/// What a shared object's own code believes of its variable must hold of the program's common block in place of it.
#[test]
fn a_common_block_in_place_of_a_variable_is_aligned_as_that_was() {
    let Some(bench) = Bench::new() else { return };
    let source = "int block[8] __attribute__((aligned(64))); long fill(void) {
         for (int i = 0; i < 8; i++) block[i] = -1; return (long)block & 63; }";
    shared(&bench, "library", "-O2", source);
    bench.scratch.write(
        "main.c",
        "int block[1]; char other[3]; long fill(void);
         int main(void) { return fill() || block[0] != -1 || other[2]; }",
    );
    let arguments = "-fcommon -O1 main.c liblibrary.so";
    bench.same_behaviour("gcc", arguments);
    assert_eq!(bench.execute("program.Ours").status.code(), Some(0));
}

/// A program's section has bounds for everybody.
#[test]
fn shared_objects_see_the_bounds_of_the_programs_section() {
    let Some(bench) = Bench::new() else { return };
    let own = "static int one __attribute__((used, section(\"numbers\"))) = 5;
         extern int __start_numbers[]; int own(void) { return *__start_numbers; }";
    shared(&bench, "own", "", own);
    let theirs = "extern int __start_numbers[], __stop_numbers[];
         int theirs(void) { return *__start_numbers + 10 * (int)(__stop_numbers - __start_numbers); }";
    shared(&bench, "theirs", "", theirs);
    bench.scratch.write(
        "main.c",
        "static int six __attribute__((used, section(\"numbers\"))) = 6; int own(void), theirs(void);
         int main(void) { return own() * 20 + theirs(); }",
    );
    let arguments = "main.c -Wl,--no-as-needed libown.so libtheirs.so";
    for image in bench.same_behaviour("gcc", arguments) {
        assert_eq!(dynamic_symbol(&image, "__start_numbers"), Some(true));
    }
    assert_eq!(bench.execute("program.Ours").status.code(), Some(116));
}
