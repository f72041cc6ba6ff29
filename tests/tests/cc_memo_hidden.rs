//! Compiles that depend on more than can be seen at once: the date in parts, files that assembly reads, directories that are renamed
//! meanwhile. What cannot be shown to be harmless is compiled each time.

use repo_tests::memo::Memo;
use repo_tests::process::run;
use repo_tests::scratch::settle;
use repo_tests::tools;
use std::fs;
use std::process::Stdio;

/// A compile of this text is never a hit, although nothing changes.
fn never(it: &Memo, text: &str, more: &[&str]) {
    it.scratch.write(it.source, text);
    for _ in 0..2 {
        let (run, log) = it.run(&it.words(more), it.scratch.path(), false);
        run.ok();
        assert!(
            log.contains("not recorded") || log.contains("ordinary"),
            "{text}: {log}"
        );
        assert!(!log.contains("hit: "), "{text}: {log}");
    }
}

#[test]
fn the_date_in_parts() {
    Memo::two(|it| {
        for text in [
            "const char *t = __DA\\\n\\\nTE__;\n",
            "const char *t = __DA\\ \nTE__;\n",
            "#define M(x) \\ \n  __##x##__\nconst char *t = M(DATE);\n",
        ] {
            never(it, text, &["-w"]);
        }
        never(
            it,
            "const char *t = __DA??/\nTE__;\n",
            &["-trigraphs", "-w"],
        );
    });
}

#[test]
fn a_date_that_only_the_preprocessor_sees() {
    const CAT: &str = "#define CAT(a, b) a##b\n#define CAT2(a, b) CAT(a, b)\n";
    Memo::each(|it| {
        let date = |text: &str| format!("{CAT}{text}\n");
        for text in [
            "const char *t = CAT(__DA, TE__);",
            "const char *t = CAT2(CAT(__, TIME), __);",
            "#define U __\n#define D DA\nconst char *t = CAT2(CAT2(CAT2(U, D), TE), U);",
            "#define S(x) #x\n#define T(x) S(x)\nconst char *t = T(CAT(__TIME, STAMP__));",
            "int t = sizeof(CAT(__DA, TE__)) > 3;",
            "#pragma message(CAT(__DA, TE__))",
            "_Pragma(\"message(CAT(__DA, TE__))\")",
            "#ifdef EXTRA\nconst char *t = CAT(__DA, TE__);\n#endif",
        ] {
            never(it, &date(text), &["-w", "-DEXTRA=1"]);
        }
        // Words that could be put together, and are not.
        for text in [
            "enum { TIME, DATE };\nint f(int); int __(int x) { return f(TIME); }",
            "int t = sizeof(CAT(lo, ng)); enum { E, __DA, TE__ }; int g(int); int h(void) { return g(__DA); }",
            "#ifdef EXTRA\nconst char *t = CAT(__DA, TE__);\n#endif",
            "#define F(x)\nF(CAT(__DA, TE__))\nint t;",
            "#include \"first.h\"\n#pragma GCC diagnostic push\nint t = CAT2(FIR, ST); enum { TIME };",
        ] {
            it.scratch.write(it.source, date(text));
            it.miss(&it.words(&["-w"]));
            it.miss(&it.words(&["-w", "-MD", "-MF", "dep"]));
            it.miss(&it.words(&["-w", "-g", "-MMD", "-O2", "-DX=1"]));
        }
        // A header that changes has the date at last.
        it.scratch.write(
            it.source,
            date("#include \"first.h\"\nenum { TIME, DATE }; CAT(in, t) t = FIRST, u = (TIME);"),
        );
        let words = it.words(&["-w"]);
        it.miss(&words);
        let other = "#define FIRST sizeof(CAT2(CAT(__, TI), ME__))\n";
        it.scratch.write("inc/first.h", other);
        it.never(&words);
        it.scratch.write("inc/first.h", "#define FIRST 1\n");
        it.hit(&words);
    });
}

#[test]
fn a_question_in_parts() {
    Memo::each(|it| {
        for text in [
            "#define C(a, b) a##b\n#if C(__has_, include)(\"asked.h\")\nint t;\n#endif\n",
            "#define C(a, b) a##b\n#define H C(__has_, include)\n#if H(\"asked.h\")\nint t;\n#endif\n",
            "#define C(a, b) a##b\n#define B(a, b) C(a, b)\n#if B(B, C)(__has_, include)(\"asked.h\")\n#endif\n\
             #define BC(a, b) a##b\n#if C(B, C)(__has_, include)(\"asked.h\")\nint t;\n#endif\n",
            "#define H __has_include(\"asked.h\")\n#if H\nint t;\n#endif\n",
        ] {
            // (Some of them are errors to some compilers.)
            it.scratch.write(it.source, text);
            for _ in 0..2 {
                let (_, log) = it.run(&it.words(&["-w"]), it.scratch.path(), false);
                assert!(
                    !log.contains(": recorded") && !log.contains("hit: "),
                    "{text}: {log}"
                );
            }
        }
        // Only outside of directives is anything put together.
        it.scratch.write(
            it.source,
            "#define C(a, b) a##b\n#define N(a) 1##a\n#if N(0) && __has_include(\"asked.h\")\nint t;\n#endif\n\
             int C(__has_, x), C(include, s), __has_; int f(int include) { return (include); }\n",
        );
        let words = it.words(&["-w"]);
        it.miss(&words);
        it.scratch.write("inc/asked.h", "");
        assert!(!it.compile(&words));
        it.hit(&words);
        fs::remove_file(it.scratch.join("inc/asked.h")).expect("removed");
        it.hit(&words);
    });
}

#[test]
fn a_question_by_another_name() {
    Memo::each(|it| {
        it.scratch.write(
            "inc/has.h",
            "/* HAS(x) is a question. */\n#ifndef HAS\n#  ifdef __has_include\n#    define HAS __has_include\n#  else\n\
             #    define HAS(x) 0\n#  endif\n#endif\n#define ASKS HAS\n",
        );
        for question in ["HAS(<asked.h>)", "defined(HAS) && ASKS(\"asked.h\")"] {
            it.scratch.write(
                it.source,
                format!("#include <has.h>\n#if {question}\nint t;\n#endif\nint u;\n"),
            );
            let words = it.words(&["-w", "-MD"]);
            it.miss(&words);
            it.scratch.write("early/asked.h", "");
            assert!(!it.compile(&words), "a hit of {question}");
            it.hit(&words);
            fs::remove_file(it.scratch.join("early/asked.h")).expect("removed");
            it.hit(&words);
        }
        // What cannot be followed.
        for text in [
            "#define A \"asked.h\"\n#if HAS(A)\nint t;\n#endif\n",
            "#define F(x) HAS(x)\n#if F(<asked.h>)\nint t;\n#endif\n",
            "#define H HAS(\"asked.h\")\n#if H\nint t;\n#endif\n",
            "#define C(a, b) a##b\n#if C(HA, S)(<asked.h>)\nint t;\n#endif\n",
        ] {
            never(it, &format!("#include <has.h>\n{text}"), &["-w"]);
        }
        it.scratch
            .write(it.source, "#include <has.h>\n#if H(<asked.h>)\n#endif\n");
        it.never(&it.words(&["-DH=HAS"]));
    });
}

/// Runs with assembly that reads `inc/data.s`, which then changes.
fn reads(it: &Memo, text: &str) {
    it.scratch.write("inc/data.s", ".byte 1\n");
    it.scratch.write(it.source, text);
    let words = it.words(&["-w"]);
    it.compile(&words);
    it.scratch.write("inc/data.s", ".byte 2\n");
    assert!(!it.compile(&words), "a hit of {text}");
}

#[test]
fn files_that_assembly_reads() {
    Memo::two(|it| {
        for text in [
            "__asm__(\".in\" \"cbin \\\"inc/data.s\\\"\");\n",
            "__asm__(\"\\x2eincbin \\\"inc/data.s\\\"\");\n",
            "__asm__(\".\\151ncbin \\\"inc/data.s\\\"\");\n",
            "__asm__(\".in\\\n\\\ncbin \\\"inc/data.s\\\"\");\n",
            "#define D(a, b, f) __asm__(#a #b \" \\\"\" f \"\\\"\");\nD(.inc, bin, \"inc/data.s\")\n",
            "#define A \"clude \"\n__asm__(\".in\" A \"\\\"inc/data.s\\\"\");\n",
            "__asm__(\".macro m a b\\n.\\\\a\\\\b \\\"inc/data.s\\\"\\n.endm\\nm inc bin\");\n",
            "__asm__(\".irp x, include\\n.\\\\x \\\"inc/data.s\\\"\\n.endr\");\n",
            "#define K(a, b) a##b\nK(__as, m__)(\".inc\" \"bin \\\"inc/data.s\\\"\");\n",
            "#define K(a, b) a##b\nK(__as, m__)(\".i\" \"ncbin \\\"inc/data.s\\\"\");\n",
            "#include <stdio.h>\n#define K(a, b) a##b\nK(__as, m)(\"\\x2einclude \\\"inc/data.s\\\"\");\n",
        ] {
            reads(it, text);
        }
        // What reads nothing is known.
        it.scratch.write(
            it.source,
            "#include <stdio.h>\n#include \"first.h\"\nint f(int x) { __asm__ volatile (\"nop\\n\\tmov %0, %0\" : \"+r\" (x)); \
             return x + FIRST; }\n__asm__(\".section .x\\n.long 1, 2 - .\\n.previous\");\n",
        );
        it.miss(&it.words(&[]));
        it.miss(&it.words(&["-g", "-MD"]));
    });
    for name in ["gcc", "clang"] {
        let Some([compiler]) = tools::require([name]) else {
            continue;
        };
        let it = Memo::new(compiler, "a.S");
        for text in [
            ".macro m a b\n.\\a\\b \"inc/data.s\"\n.endm\nm inc bin\n",
            "#define C(a, b) a##b\n.C(inc,bin) \"inc/data.s\"\n",
            "#define I include\n.I \"inc/data.s\"\n",
        ] {
            reads(&it, text);
        }
    }
    // gcc's says that it reads nothing.
    Memo::of(&[("gcc", "a.c")], |it| {
        for text in [
            "#define N(x) __asm__(\".globl \" #x);\nN(f)\n",
            "__asm__(\".macro m a\\nnop\\n.endm\\nm 1\");\n",
            "#line 7 \"other.y\"\nint f(void) { return 1; }\n",
        ] {
            it.scratch.write(it.source, text);
            it.miss(&it.words(&["-g"]));
            it.miss(&it.words(&["-pipe"]));
        }
        reads(it, "__asm__(\".in\" \"cbin \\\"inc/data.s\\\"\");\n");
        it.never(&it.words(&["-pipe", "-w"]));
    });
}

/// What macros make of assembly is known where the preprocessor shows it.
#[test]
fn assembly_that_macros_make() {
    Memo::two(|it| {
        for text in [
            "#define N(x) __asm__(\".globl \" #x);\nN(f)\nint f(void) { return 1; }\n",
            "#define CAT(a, b) a##b\nint a, s, m; const char *t = \"incidents\\a\"; int CAT(a, s);\n",
            "#define A \"no\" \"p\"\n#ifdef NEVER\n__asm__(\"nop\" A);\n#endif\nint f(void) { __asm__(A); return 1; }\n",
        ] {
            it.scratch.write(it.source, text);
            it.miss(&it.words(&["-w"]));
            it.miss(&it.words(&["-w", "-MD", "-O2"]));
        }
        for text in [
            "#define N(x) __asm__(\".\" #x \" \\\"inc/data.s\\\"\");\nN(incbin)\n",
            "#define A \"inc/data.s\"\n#define B(x) x\nB(__asm__(\".incbin \\\"\" A \"\\\"\");)\n",
        ] {
            reads(it, text);
        }
    });
}

/// With `-MMD` compilers do not name the system's headers in the dependency file.
#[test]
fn headers_of_the_system_that_the_build_does_not_ask_for() {
    Memo::each(|it| {
        it.scratch
            .write("system/a b.h", "#include <below.h>\n#define A BELOW\n");
        it.scratch.write("system/below.h", "#define BELOW 1\n");
        // Beside the source: the dependency file and the graph have other names of it.
        it.scratch.write("beside.h", "#pragma once\nint beside;\n");
        let text = "#include <stdio.h>\n#include <a b.h>\n#include \"first.h\"\n#include \"beside.h\"\n\
                    #ifdef NEVER\n#include <unread.h>\n#endif\nint f(void) { return A; }\n";
        it.scratch.write(it.source, text);
        // In what is not read.
        let unread = "#define NOP(x) __asm__(\"nop\" #x)\n#define D __DATE__\nchar *d = D;\n";
        it.scratch.write("system/unread.h", unread);
        it.scratch.write("earlier/other.h", "");
        let options = ["-isystem", "earlier", "-isystem", "system", "-MMD"];
        let words = it.words(&options);
        if it.compiler.to_string_lossy().contains("clang") {
            it.miss(&words);
        } else {
            // All that may be included counts, as gcc says nothing.
            it.never(&words);
            it.scratch.write("system/unread.h", "int unread;\n");
            it.miss(&words);
        }
        it.scratch.write("system/below.h", "#define BELOW 2\n");
        it.miss(&words);
        it.scratch.write("earlier/below.h", "#define BELOW 3\n");
        it.miss(&words);
        fs::remove_file(it.scratch.join("earlier/below.h")).expect("removed");
        it.hit(&words);
        it.scratch
            .write("system/stdio.h", "int printf(const char *, ...);\n");
        it.miss(&words);
    });
}

#[test]
fn a_precompiled_header_behind_a_macro() {
    Memo::of(&[("gcc", "a.c"), ("g++", "a.cc")], |it| {
        let text = "#define S(x) <x>\n#define N(x) S(x.h)\n#include N(second)\nint s = SECOND;\n";
        it.scratch.write(it.source, text);
        let words = it.words(&[]);
        // What is included first is known from the preprocessor.
        it.miss(&words);
        // One that was made of another header: gcc takes it without saying so.
        let old = fs::read(it.scratch.join("inc/second.h")).expect("there");
        it.scratch.write("inc/second.h", "#define SECOND 33\n");
        let header = match it.source {
            "a.c" => "c-header",
            _ => "c++-header",
        };
        let mut command = it.scratch.command(&it.compiler);
        command.args(["-x", header, "inc/second.h", "-o", "inc/second.h.gch"]);
        run(&mut command).ok();
        it.scratch.write("inc/second.h", old);
        it.never(&words);
        // In a directory that is searched earlier, where there is no header.
        let (there, earlier) = ("inc/second.h.gch", "early/second.h.gch");
        fs::rename(it.scratch.join(there), it.scratch.join(earlier)).expect("moved");
        it.never(&words);
        fs::remove_file(it.scratch.join(earlier)).expect("removed");
        it.hit(&words);
        // It is not taken where there is something before it.
        it.scratch
            .write(it.source, format!("#include \"first.h\"\n{text}"));
        it.miss(&words);
    });
}

#[test]
fn a_first_header_that_depends() {
    Memo::of(&[("gcc", "a.c"), ("g++", "a.cc")], |it| {
        // As in sqlite: of two headers before the one that is always there none is read.
        let text = "#if X\n#include <first.h>\n#endif\n#ifdef OWN\n#define S_(x) #x\n#define S(x) S_(x)\n\
                    # include S(OWN)\n#endif\n#include \"second.h\"\nint s = SECOND;\n";
        it.scratch.write(it.source, text);
        let words = it.words(&[]);
        it.miss(&words);
        let own = it.words(&["-DOWN=third.h"]);
        it.miss(&own);
        it.scratch.write("inc/third.h.gch", "");
        it.never(&own);
        it.hit(&words);
        it.scratch.write("inc/second.h.gch", "");
        it.never(&words);
        for name in ["inc/third.h.gch", "inc/second.h.gch"] {
            fs::remove_file(it.scratch.join(name)).expect("removed");
        }
        it.hit(&own);
        // In the working directory, of which gcc says `./` in one place and not in the other.
        it.scratch.write("here.h", "int here;\n");
        it.scratch.write(
            it.source,
            "#define S(x) <x>\n#if 1\n#include S(here.h)\n#endif\nint *s = &here;\n",
        );
        let here = it.words(&["-I."]);
        it.miss(&here);
        it.scratch.write("here.h.gch", "");
        it.never(&here);
        // None at all.
        it.scratch.write(
            it.source,
            text.replace("#include \"second.h\"\nint s = SECOND;\n", "int s;\n"),
        );
        it.miss(&words);
        // A text that looks like what the preprocessor says.
        if it.source == "a.cc" {
            let raw = "const char *t = R\"(\n# 1 \"inc/first.h\" 1\n)\";\n";
            it.scratch.write(it.source, format!("{raw}{text}"));
            it.never(&words);
        }
    });
}

#[test]
fn options_behind_the_driver() {
    Memo::of(&[("clang", "a.c")], |it| {
        it.miss(&it.words(&["-mllvm", "-inline-threshold=100"]));
        it.miss(&it.words(&["-O2", "-Xclang", "-fmerge-functions"]));
        let words = it.words(&["-mllvm", "-stats", "-mllvm", "-info-output-file=out"]);
        let out = it.scratch.join("out");
        for _ in 0..2 {
            let (run, log) = it.run(&words, it.scratch.path(), false);
            run.ok();
            assert!(!log.contains("hit: "), "{log}");
            assert!(out.exists());
            fs::remove_file(&out).expect("removed");
        }
        it.never(&it.words(&["-mllvm", "-print-changed=quiet"]));
    });
}

#[test]
fn a_working_directory_that_is_renamed_meanwhile() {
    Memo::two(|it| {
        let (one, two) = (it.scratch.join("one"), it.scratch.join("two"));
        let functions: String = (0..1500)
            .map(|number| format!("int f{number}(int x) {{ return x * {number} + x / 3; }}\n"))
            .collect();
        it.scratch.write(format!("one/{}", it.source), functions);
        settle();
        let log = it.scratch.join("log");
        let words = ["-g", "-O1", "-c", it.source, "-o", "a.o"];
        let mut command = it.command(&words, &one);
        let mut child = command.stderr(Stdio::null()).spawn().expect("run");
        let mut count = 0;
        while child.try_wait().expect("waited for").is_none() {
            fs::rename(&one, &two).expect("renamed");
            fs::rename(&two, &one).expect("renamed back");
            count += 1;
        }
        let said = fs::read_to_string(&log).unwrap_or_default();
        assert!(count > 1, "{said}");
        assert!(
            !said.contains("recorded") || said.contains("not recorded"),
            "{said}"
        );
        // And then it is a compile as any other.
        assert!(!it.compile_in(&words, &one));
        assert!(it.compile_in(&words, &one));
    });
}

/// Compilers take some headers for one that are to be read once, and do not say that there is a second. (gcc those of equal bytes and times, clang those of
/// one inode.) It may become another. (All that is compiled is compared with what the compiler makes alone.)
#[test]
fn headers_that_are_taken_for_one() {
    const ONCE: &str = "#ifdef N\n#undef N\n#define N 2\n#else\n#define N 1\n#endif\n";
    Memo::each(|it| {
        let write = |name: &str, text: &str| {
            let _ = fs::remove_file(it.scratch.join(name));
            it.scratch.write(name, text);
            let file = fs::File::open(it.scratch.join(name)).unwrap();
            let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
            file.set_modified(long_ago).unwrap();
        };
        let both = |directive: &str| {
            let text = format!("{directive} \"one.h\"\n{directive} \"far/two.h\"\nint n = N;\n");
            it.scratch.write(it.source, text);
        };
        let once = format!("#pragma once\n{ONCE}");
        let another = |text: &str| format!("{text}#undef N\n#define N 8\n");
        let words = it.words(&["-w"]);
        // Equal files.
        for (directive, text) in [("#include", &once[..]), ("#import", ONCE)] {
            both(directive);
            write("inc/one.h", text);
            write("inc/far/two.h", text);
            it.compile(&words);
            assert!(!it.compile(&words), "{directive}");
            write("inc/far/two.h", &another(text));
            it.compile(&words);
        }
        // One file under two names.
        both("#include");
        for is_hard in [false, true] {
            let (one, two) = (
                it.scratch.join("inc/one.h"),
                it.scratch.join("inc/far/two.h"),
            );
            write("inc/one.h", &once);
            for now in [once.clone(), another(&once)] {
                fs::remove_file(&two).unwrap();
                match is_hard {
                    true => fs::hard_link(&one, &two).unwrap(),
                    false => std::os::unix::fs::symlink("../one.h", &two).unwrap(),
                }
                it.compile(&words);
                assert!(!it.compile(&words), "{is_hard}");
                fs::remove_file(&two).unwrap();
                it.scratch.write("inc/far/two.h", now);
                it.compile(&words);
            }
        }
        // Where directories are links, it is known; and other ways of writing the same path.
        write("inc/one.h", &once);
        std::os::unix::fs::symlink(".", it.scratch.join("inc/link")).unwrap();
        let text =
            "#include \"one.h\"\n#include \"link/one.h\"\n#include \"far/../one.h\"\nint n = N;\n";
        it.scratch.write(it.source, text);
        it.miss(&words);
        fs::remove_file(it.scratch.join("inc/link")).unwrap();
        it.scratch.write("inc/link/one.h", another(&once));
        it.miss(&words);
        // With something else in it, or where it may be read twice.
        write("inc/one.h", &once);
        write("inc/far/two.h", &another(&once));
        both("#include");
        it.compile(&words);
        it.hit(&words);
        write("inc/one.h", ONCE);
        write("inc/far/two.h", ONCE);
        it.compile(&words);
        it.hit(&words);
    });
}
