//! What `repo-ld` says, and what it leaves behind, when a link cannot succeed.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use linking::{BOTH, Bench, Linker};
use repo_tests::binaries::Binaries;
use repo_tests::process::run;

fn fails(bench: &Bench, arguments: &str, words: &[&str]) {
    let run = bench
        .driver(Linker::Ours, "gcc", &format!("{arguments} -o program"))
        .failed();
    for word in words {
        assert!(
            run.errors().contains(word),
            "no {word:?} in\n{}",
            run.report()
        );
    }
    assert!(
        !bench.path("program").exists(),
        "{arguments}: an output was left behind"
    );
}

#[test]
fn undefined_and_duplicate_symbols() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.c",
        "int missing(int); int main(void) { return missing(1); }",
    );
    bench.scratch.write("b.c", "int main(void) { return 0; }");
    fails(
        &bench,
        "a.c",
        &[
            "repo-ld: error: undefined symbol: missing",
            ">>> referenced by",
            "undefined reference to",
        ],
    );
    fails(
        &bench,
        "a.c b.c",
        &["repo-ld: error: duplicate symbol: main"],
    );
    bench.scratch.write(
        "c.cc",
        "namespace n { int f(long); } int main() { return n::f(1); }",
    );
    let run = bench
        .driver(Linker::Ours, "g++", "c.cc -o program")
        .failed();
    assert!(
        run.errors().contains("undefined symbol: n::f(long)"),
        "{}",
        run.report()
    );
    // A reference from what is not linked is no error.
    let collected = "-O1 -ffunction-sections -Wl,--gc-sections b.c d.c -o program";
    bench.scratch.write(
        "d.c",
        "int missing(int); int unused(void) { return missing(1); }",
    );
    bench.driver(Linker::Ours, "gcc", collected).ok();
}

#[test]
fn relocations_that_cannot_be() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("far.s", ".globl far\nfar = 0x123456789abc\n");
    bench
        .scratch
        .write("data.s", ".text\n.globl main\nmain: .long far\n");
    fails(
        &bench,
        "-no-pie data.s far.s",
        &["R_X86_64_32", "out of range", "far", ".text+0x0"],
    );
    bench.scratch.write(
        "abs.s",
        ".data\nx: .long 0\n.text\n.globl main\nmain: mov $x, %eax\n ret\n",
    );
    fails(
        &bench,
        "-pie abs.s",
        &["R_X86_64_32", "recompile with -fPIE"],
    );
    bench
        .scratch
        .write("text.s", ".globl main\n.text\nmain: .quad main\n");
    fails(
        &bench,
        "-pie -Wl,-z,text text.s",
        &["R_X86_64_64", "read-only section"],
    );
}

#[test]
fn files_that_are_not_what_they_should_be() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("b.c", "int main(void) { return 0; }");
    bench.driver(Linker::Reference, "gcc", "-c b.c").ok();
    let whole = bench.read("b.o");
    for cut in [10, 64, 100, whole.len() / 2, whole.len() - 100] {
        bench.scratch.write("cut.o", &whole[..cut]);
        fails(&bench, "cut.o b.o", &["cut.o"]);
    }
    bench.scratch.write("text.o", "this is no object\n");
    fails(&bench, "b.o text.o", &["text.o"]);
    let mut foreign = whole.clone();
    foreign[18] = 0xb7; // AArch64
    bench.scratch.write("foreign.o", &foreign);
    fails(&bench, "b.o foreign.o", &["foreign.o", "incompatible"]);
    bench.scratch.write("lto.c", "int f(void) { return 1; }");
    bench
        .driver(
            Linker::Reference,
            "gcc",
            "-flto -fno-fat-lto-objects -c lto.c",
        )
        .ok();
    fails(
        &bench,
        "-fno-lto b.o lto.o",
        &["lto.o", "link-time optimisation"],
    );
    fails(
        &bench,
        "b.o -lno_such_library",
        &["cannot find -lno_such_library"],
    );
    fails(&bench, "b.o -Wl,--no-such-option", &["--no-such-option"]);
}

#[test]
fn damaged_objects_never_crash_it() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("b.cc", "#include <string>\nstd::string s(\"x\"); int f(int x) { if (x) throw 1; return s.size(); } int main() { return f(0); }");
    bench
        .driver(Linker::Reference, "g++", "-g -ffunction-sections -c b.cc")
        .ok();
    let whole = bench.read("b.o");
    let mut state = 12345u64;
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..8 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = (state >> 20) as u8;
        }
        bench.scratch.write("bad.o", &bytes);
        let mut command = bench.scratch.command(Binaries::get().path("repo-ld"));
        command.args(["bad.o", "-o", "bad", "-e", "main", "--gc-sections"]);
        command.arg(["--unresolved-symbols=ignore-all", "-shared"][(state >> 40) as usize % 2]);
        let run = run(&mut command);
        let text = run.errors();
        assert!(
            !text.contains("panicked") && run.status.code().is_some(),
            "{}",
            run.report()
        );
    }
}

#[test]
fn what_may_help_with_an_undefined_symbol() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "main.cc",
        "extern \"C\" int c_called(int); int cxx_called(int); int missing_thing(int);\n\
         struct Class { virtual void key(); virtual void other() { } };\n\
         int f(int x) {\n  return missing_thing(x)\n    + c_called(x) + cxx_called(x);\n}\n\
         int main() { Class object; return f(1); }\n",
    );
    bench.scratch.write(
        "c.c",
        "int cxx_called(int x) { return x; } static int hidden(int x) { return x; } int (*p)(int) = hidden;",
    );
    bench.scratch.write(
        "cxx.cc",
        "int c_called(int x) { return x; } int missing_thlng(int x) { return x; }",
    );
    bench
        .driver(Linker::Reference, "gcc", "-g -c main.cc cxx.cc c.c")
        .ok();
    let run = bench
        .driver(Linker::Ours, "g++", "main.o cxx.o c.o -o program")
        .failed();
    for words in [
        "undefined symbol: missing_thing(int)\n>>> referenced by main.cc:4\n",
        "(function f(int): .text+",
        "did you mean: missing_thlng(int)\n>>> defined in: cxx.o",
        "did you mean to declare c_called(int) as extern \"C\"?",
        "did you mean: extern \"C\" cxx_called\n>>> defined in: c.o",
        "undefined symbol: vtable for Class\n",
        "missing its key function",
    ] {
        assert!(
            run.errors().contains(words),
            "no {words:?} in\n{}",
            run.report()
        );
    }
    // A local symbol of the name helps nobody but the reader.
    bench.scratch.write(
        "local.c",
        "int hidden(int); int main(void) { return hidden(1); }",
    );
    fails(
        &bench,
        "local.c c.c",
        &[
            "undefined symbol: hidden",
            "a local symbol of this name is defined in:",
        ],
    );
}

#[test]
fn duplicates_say_where_they_are_defined() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "one.c",
        "int main(void)\n{ return 0; }\nint twice(void) { return 1; }\n",
    );
    bench
        .scratch
        .write("two.c", "\n\n\nint twice(void) { return 2; }\n");
    fails(
        &bench,
        "-g one.c two.c",
        &[
            "duplicate symbol: twice",
            "defined at one.c:3",
            "defined at two.c:4",
        ],
    );
}

/// What is not a regular file is read to its end: nothing at all is an empty script.
#[test]
fn inputs_that_are_pipes_and_devices() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("main.c", "int main(void) { return 7; }");
    bench.driver(Linker::Reference, "gcc", "-c main.c").ok();
    let made = run(bench.scratch.command("mkfifo").arg("pipe"));
    made.ok();
    for linker in BOTH {
        bench
            .driver(linker, "gcc", "/dev/null main.o -o output")
            .ok();
        assert_eq!(bench.execute("output").status.code(), Some(7), "{linker:?}");
    }
    // GNU ld cannot do that.
    let object = bench.read("main.o");
    let pipe = bench.path("pipe");
    let writer = std::thread::spawn(move || std::fs::write(pipe, object));
    bench.driver(Linker::Ours, "gcc", "pipe -o output").ok();
    writer.join().unwrap().unwrap();
    assert_eq!(bench.execute("output").status.code(), Some(7));
    let run = bench.ld(Linker::Ours, "main.o . -o output").failed();
    assert!(run.errors().contains("Is a directory"), "{}", run.report());
}

#[test]
fn references_to_what_was_left_out_can_be_forgiven() {
    let Some(bench) = Bench::new() else { return };
    let group = "one,comdat";
    bench.scratch.write(
        "first.s",
        format!(
            ".globl _start\n_start: ret\n.section .data.one,\"awG\",@progbits,{group}\n.quad 1\n"
        ),
    );
    bench.scratch.write(
        "second.s",
        format!(
            ".section .data.two,\"awG\",@progbits,{group}\nlocal: .quad 2\n.data\n.quad local\n"
        ),
    );
    bench
        .driver(Linker::Reference, "gcc", "-c first.s second.s")
        .ok();
    for linker in BOTH {
        let run = bench.ld(linker, "first.o second.o -o output").failed();
        assert!(
            run.errors().contains("discarded section"),
            "{}",
            run.report()
        );
        bench
            .ld(linker, "--noinhibit-exec first.o second.o -o output")
            .ok();
    }
}

#[test]
fn frame_descriptions_are_not_changed_at_run_time() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "frame.s",
        ".globl foo\n.type foo, @function\nfoo: .cfi_startproc simple\n.cfi_personality 0x0, bar\n\
         ret\n.cfi_endproc\n.globl bar\nbar: ret\n.section .note.GNU-stack,\"\",@progbits\n",
    );
    bench.driver(Linker::Reference, "gcc", "-c frame.s").ok();
    let run = bench.ld(Linker::Ours, "-shared -z notext frame.o -o output");
    let run = run.failed();
    assert!(
        run.errors().contains("frame.o: .eh_frame has"),
        "{}",
        run.report()
    );
    bench.ld(Linker::Ours, "-no-pie frame.o -o output").ok();
}

/// What tickets stand for is named by the same source lines, functions and sections as what objects hold.
#[test]
fn tickets_are_described_like_objects() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.c",
        "int fo(void);\nint dup(void) { return 1; }\nint other(void) { return 3; }\nint main(void) {\n  return fo();\n}\n",
    );
    bench
        .scratch
        .write("b.c", "\n\nint dup(void) { return 2; }\n");
    let said = |launcher: Option<&str>, inputs: &str| {
        for source in ["a", "b"] {
            let program = launcher.map(|program| Binaries::get().path(program));
            let mut command = match program {
                Some(program) => bench.scratch.command(program),
                None => bench.scratch.command("gcc"),
            };
            if launcher.is_some() {
                command.arg("gcc");
            }
            command.args(["-g", "-O0", "-ffunction-sections", "-c"]);
            run(command.args([&format!("{source}.c"), "-o", &format!("{source}.o")])).ok();
        }
        let arguments = format!("{inputs} -o program");
        bench
            .driver(Linker::Ours, "gcc", &arguments)
            .failed()
            .errors()
    };
    for (inputs, lines) in [("a.o b.o", &["a.c:2", "b.c:3"][..]), ("a.o", &["a.c:5"])] {
        let of_objects = said(None, inputs);
        assert_eq!(said(Some("repo-cc"), inputs), of_objects);
        for line in lines {
            assert!(of_objects.contains(line), "{of_objects}");
        }
    }
}

/// The same in C and C++, with debugging information and without, as files and as members of archives; with several references
/// from functions that are local, inline, or in sections of other names.
#[test]
fn tickets_are_described_like_objects_in_all_languages() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "c/main.c",
        "int absent(int);\nextern int nowhere;\nstatic int helper(int x)\n{\n  return absent(x)\n    + nowhere;\n}\n\
         int twice(void) { return 1; }\nint __attribute__((section(\".text.odd\"))) odd(void)\n{ return absent(2); }\n\
         int part(void);\nint (*pointer)(int) = absent;\nint main(void) { return helper(3) + odd() + part(); }\n",
    );
    bench.scratch.write(
        "c/part.c",
        "int absent(int);\n\nint twice(void) { return 2; }\nint part(void)\n{\n  return absent(1);\n}\n",
    );
    bench.scratch.write(
        "cc/main.cc",
        "#include \"head.h\"\nnamespace n { int absent(long); extern int nowhere; struct S { virtual int v(); int k; }; }\n\
         namespace { int helper(int x) { return n::absent(x)\n  + n::nowhere; } }\n\
         int twice(int) { return 1; }\nint part();\n\
         int main() { n::S s; return helper(1) + s.v() + part() + inlined(2); }\n",
    );
    bench.scratch.write(
        "cc/part.cc",
        "#include \"head.h\"\nint twice(int) { return 2; }\nint part() {\n  return inlined(3); }\n",
    );
    bench.scratch.write(
        "cc/head.h",
        "int never(int);\ninline int inlined(int x) {\n  return never(x);\n}\n",
    );
    for (directory, extension) in [("c", "c"), ("cc", "cc")] {
        for debug in ["-g", "-g -gdwarf-4", "-g0"] {
            for optimise in ["-O0", "-O2"] {
                for archive in [false, true] {
                    let said = |tickets: bool| {
                        for source in ["main", "part"] {
                            let compiler = if extension == "c" { "gcc" } else { "g++" };
                            let mut command = match tickets {
                                true => bench.scratch.command(Binaries::get().path("repo-cc")),
                                false => bench.scratch.command(compiler),
                            };
                            if tickets {
                                command.arg(compiler);
                            }
                            command.args(debug.split(' ')).arg(optimise);
                            command.args(["-ffunction-sections", "-fdata-sections", "-c"]);
                            command.arg(format!("{directory}/{source}.{extension}"));
                            run(command.args(["-o", &format!("{source}.o")])).ok();
                        }
                        let part = match archive {
                            true => {
                                let _ = std::fs::remove_file(bench.path("libpart.a"));
                                run(bench.scratch.command("ar").args([
                                    "rcs",
                                    "libpart.a",
                                    "part.o",
                                ]))
                                .ok();
                                "-Wl,--whole-archive libpart.a -Wl,--no-whole-archive"
                            }
                            false => "part.o",
                        };
                        // Of objects all is linked; the same is asked of tickets.
                        let says = |arguments: &str| {
                            bench
                                .driver(Linker::Ours, "g++", arguments)
                                .failed()
                                .errors()
                        };
                        [
                            says(&format!("main.o {part} -o program")),
                            says(&format!(
                                "main.o {part} -Wl,-z,muldefs -Wl,--gc-sections -o program"
                            )),
                        ]
                    };
                    let of_objects = said(false);
                    let what = format!("{directory} {debug} {optimise} {archive}");
                    let of_tickets = said(true);
                    assert_eq!(of_tickets, of_objects, "{what}");
                    let [duplicate, undefined] = of_objects;
                    let has_lines = debug != "-g0";
                    assert!(duplicate.contains("duplicate symbol: twice"), "{duplicate}");
                    assert_eq!(
                        duplicate.contains("part.c:3") || duplicate.contains("part.cc:2"),
                        has_lines,
                        "{what}: {duplicate}"
                    );
                    assert_eq!(
                        undefined.contains("main.c:5") || undefined.contains("main.cc:3"),
                        has_lines,
                        "{what}: {undefined}"
                    );
                }
            }
        }
    }
}

/// GNU ld's phrases are there for who looks for them, once in each message; a file is named once, too.
#[test]
fn names_are_said_once() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.c",
        "int absent(void); int f(void) { return absent(); } int g(void) { return absent(); }\n\
         int main(void) { return f() + g() + absent(); }\n",
    );
    bench.scratch.write("b.c", "int f(void) { return 1; }\n");
    let driver = |arguments: &str| {
        let line = format!("{arguments} -o program");
        bench.driver(Linker::Ours, "gcc", &line).failed().errors()
    };
    bench
        .driver(Linker::Reference, "gcc", "-O0 -c a.c b.c")
        .ok();
    let said = driver("a.o");
    assert_eq!(
        said.matches("undefined reference to `absent'").count(),
        1,
        "{said}"
    );
    assert_eq!(said.matches("absent").count(), 2, "{said}");
    assert_eq!(said.matches(">>> referenced by").count(), 3, "{said}");
    let said = driver("a.o b.o -Wl,--unresolved-symbols=ignore-all");
    assert_eq!(
        said.matches("multiple definition of `f'").count(),
        1,
        "{said}"
    );
    for file in ["a.o", "b.o"] {
        assert_eq!(said.matches(file).count(), 1, "{said}");
    }
}

/// Who calls a function does not mean a variable, and who reads a variable no function; a thread's own variables are of neither
/// kind, and what other files cannot see nobody means.
#[test]
fn only_names_of_the_same_kind_are_proposed() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "have.c",
        "int counter_value(void) { return 1; }\nint setting_of_it = 3;\n__thread int per_thread_state;\n\
         static int hidden_helper(void) { return 1; } int (*pointer)(void) = hidden_helper;\nint common_block;\n",
    );
    let cases = [
        // A function is called, or its address taken.
        (
            "int counter_valve(void); int main(void) { return counter_valve(); }",
            Some("counter_value"),
        ),
        (
            "int counter_valve(void); int (*p)(void) = counter_valve; int main(void) { return p(); }",
            Some("counter_value"),
        ),
        (
            "int setting_0f_it(void); int main(void) { return setting_0f_it(); }",
            None,
        ),
        (
            "int per_thread_stat(void); int main(void) { return per_thread_stat(); }",
            None,
        ),
        // A variable is read, written or compared.
        (
            "extern int setting_0f_it; int main(void) { return setting_0f_it; }",
            Some("setting_of_it"),
        ),
        (
            "extern int setting_0f_it; int main(void) { setting_0f_it = 2; return 0; }",
            Some("setting_of_it"),
        ),
        (
            "extern int counter_valve; int main(void) { return counter_valve; }",
            None,
        ),
        (
            "extern int counter_valve; int main(void) { return counter_valve == 5; }",
            None,
        ),
        (
            "extern int comman_block; int main(void) { return comman_block; }",
            Some("common_block"),
        ),
        (
            "extern int per_thread_stat; int main(void) { return per_thread_stat; }",
            None,
        ),
        // A thread's own.
        (
            "extern __thread int per_thread_stat; int main(void) { return per_thread_stat; }",
            Some("per_thread_state"),
        ),
        (
            "extern __thread int setting_0f_it; int main(void) { return setting_0f_it; }",
            None,
        ),
        // What others cannot see.
        (
            "int hidden_he1per(void); int main(void) { return hidden_he1per(); }",
            None,
        ),
    ];
    for (text, proposed) in cases {
        bench.scratch.write("want.c", text);
        for options in ["-O0 -fno-pie", "-O2 -fPIE", "-O1 -fPIC"] {
            for tickets in [false, true] {
                for source in ["have", "want"] {
                    let mut command = match tickets {
                        true => bench.scratch.command(Binaries::get().path("repo-cc")),
                        false => bench.scratch.command("gcc"),
                    };
                    if tickets {
                        command.arg("gcc");
                    }
                    command.args(options.split(' ')).args(["-fcommon", "-c"]);
                    command.arg(format!("{source}.c"));
                    run(command.args(["-o", &format!("{source}.o")])).ok();
                }
                let pie = if options.contains("no-pie") {
                    "-no-pie"
                } else {
                    "-pie"
                };
                let line = format!("{pie} want.o have.o -o program");
                let said = bench.driver(Linker::Ours, "gcc", &line).failed().errors();
                let found = said
                    .lines()
                    .find_map(|line| line.strip_prefix(">>> did you mean: "));
                // A position-independent load by way of the table does not say what it loads the address of.
                let unsure = options == "-O1 -fPIC" && text.contains("extern int counter_valve");
                assert!(
                    found == proposed || unsure && found == Some("counter_value"),
                    "{text} {options}: {said}"
                );
            }
        }
    }
    // C++ names say it themselves, however they are referred to.
    bench.scratch.write(
        "have.cc",
        "namespace n { int value_of(int) { return 1; } int value_0f = 3; }\n",
    );
    for (text, proposed) in [
        (
            "namespace n { extern int valve_of; } int *p = &n::valve_of; int main() { }",
            "n::value_0f",
        ),
        (
            "namespace n { int valve_0f(int); } int (*p)(int) = n::valve_0f; int main() { }",
            "n::value_of(int)",
        ),
    ] {
        bench.scratch.write("want.cc", text);
        bench
            .driver(Linker::Reference, "g++", "-c have.cc want.cc")
            .ok();
        let said = bench
            .driver(Linker::Ours, "g++", "want.o have.o -o program")
            .failed();
        assert!(
            said.errors()
                .contains(&format!("did you mean: {proposed}\n")),
            "{}",
            said.report()
        );
    }
}

#[test]
fn what_is_no_input_is_called_what_it_is() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("words.txt", "just some words\n");
    bench.scratch.write("a.c", "int main(void) { return 0; }\n");
    bench.scratch.write("script.ld", "INPUT(a.o");
    bench.scratch.write(
        "calls.c",
        "int value(void); int main(void) { return value(); }\n",
    );
    let mut header = [0u8; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header[16] = 1;
    for (class, order, machine, name) in [
        (2, 1, [183, 0], "AArch64"),
        (2, 1, [243, 0], "RISC-V (64 bit)"),
        (1, 1, [3, 0], "i386"),
        (2, 2, [0, 22], "s390x, big endian"),
        (2, 1, [0x34, 0x12], "machine 4660"),
    ] {
        header[4] = class;
        header[5] = order;
        header[18..20].copy_from_slice(&machine);
        bench.scratch.write("other.o", header);
        fails(
            &bench,
            "a.c other.o",
            &["other.o: file in wrong format: it is for ", name],
        );
        let _ = std::fs::remove_file(bench.path("libother.a"));
        run(bench
            .scratch
            .command("ar")
            .args(["rcS", "libother.a", "other.o"]))
        .ok();
        fails(
            &bench,
            "calls.c libother.a",
            &[
                "libother.a: file in wrong format: its first object is for ",
                name,
            ],
        );
        fails(
            &bench,
            "a.c -L. -lother",
            &[
                "skipping incompatible ./libother.a when searching for -lother: it is for ",
                name,
            ],
        );
    }
    fails(
        &bench,
        "a.c ./words.txt",
        &[
            "words.txt: a text file that is no linker script",
            "words.txt:1:",
        ],
    );
    let run = bench
        .driver(Linker::Ours, "gcc", "a.c ./script.ld -o program")
        .failed();
    assert!(
        !run.errors().contains("no linker script"),
        "{}",
        run.report()
    );
}

#[test]
fn an_input_that_is_the_output_is_kept() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("a.c", "int main(void) { return 0; }");
    bench.driver(Linker::Ours, "gcc", "-c a.c -o a.o").ok();
    run(bench.scratch.command("ln").args(["-s", "a.o", "link.o"])).ok();
    let before = bench.read("a.o");
    for arguments in [
        "a.o -o a.o",
        "a.o -o ./a.o",
        "link.o -o a.o",
        "a.o -o link.o",
        "-shared a.o -o a.o",
        "-r a.o -o a.o",
    ] {
        let run = bench.ld(Linker::Ours, arguments).failed();
        assert!(
            run.errors().contains("is the same as output file"),
            "{}",
            run.report()
        );
        assert!(bench.read("a.o") == before, "{arguments}");
    }
    // A shared object that is made again is found for itself.
    bench.ld(Linker::Ours, "-shared a.o -o libx.so").ok();
    bench
        .ld(Linker::Ours, "-shared a.o -L. -lx -o libx.so")
        .ok();
    // What is no file has nothing to lose.
    bench
        .ld(Linker::Ours, "-T /dev/null -r a.o -o /dev/null")
        .ok();
}
