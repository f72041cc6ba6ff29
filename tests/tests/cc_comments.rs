//! A compile is not done again where only comments and blank lines are others, unless that makes another object. (Each time what was not
//! compiled is compared with what a compile makes.)

use repo_tests::memo::{Memo, SOURCE};

/// `text` with a comment of its own line in front of it.
fn below_a_comment(text: &str) -> String {
    format!("// one more\n\n{text}")
}

#[test]
fn comments_and_blank_lines() {
    Memo::each(|it| {
        for more in [
            &["-O2"][..],
            &["-MD", "-fPIC"],
            &["-MMD", "-g0", "-DEXTRA=1"],
        ] {
            it.scratch.write(it.source, SOURCE);
            it.scratch.write("inc/third.h", "#define THIRD 3\n");
            let words = it.words(more);
            it.compile(&words);
            for text in [
                "#define THIRD 3 // three\n",
                "/* three */\n\n#define THIRD 3\n",
                "#define THIRD 3\n\n\n/*\n * three\n */\n// 3\n",
            ] {
                it.scratch.write("inc/third.h", text);
                it.hit(&words);
            }
            let source = SOURCE.replace("int g(", "\n/* g */\nint g(");
            it.scratch.write(it.source, &source);
            it.hit(&words);
            // More than that.
            it.scratch
                .write("inc/third.h", "// three\n#define THIRD 4\n");
            it.miss(&words);
            it.scratch.write("inc/third.h", "#define THIRD 4\n");
            it.hit(&words);
        }
    });
}

#[test]
fn fat_objects() {
    Memo::two(|it| {
        let mut it = Memo::new(it.compiler.clone(), it.source);
        it.environment.push(("REPO_CC_FAT".into(), "1".into()));
        let words = it.words(&["-O2"]);
        it.compile(&words);
        it.scratch.write(it.source, below_a_comment(SOURCE));
        // (The object that is left is compared with what the compiler makes.)
        it.hit(&words);
    });
}

/// More than one line of each kind of thing that debug information says lines of.
const DEBUGGED: &str = r#"#include "first.h"
#include "third.h"
struct point { int x; int y; };
static int twice(int x)
{
    int result = x;
    result *= 2;
    return result + THIRD;
}
int f(struct point p)
{
    struct point other = { p.y, p.x };
    for (int i = 0; i < p.x; i++) {
        int t = twice(i);
        other.x += t;
    }
    return once(other.x) + other.y;
}
int g(int x) { return twice(x) + f((struct point) { x, x }); }
"#;

/// A header with code.
const ONCE: &str = r#"static inline int once(int x)
{
    int y = x + 1;
    return y;
}
#define FIRST 1
"#;

#[test]
fn lines_in_debug_information_are_moved() {
    Memo::each(|it| {
        for options in [
            &["-g", "-O0"][..],
            &["-g", "-O2"],
            &["-ggdb", "-gdwarf-4", "-O1"],
            &["-g1", "-O2", "-MD"],
        ] {
            it.scratch.write(it.source, DEBUGGED);
            it.scratch.write("inc/first.h", ONCE);
            let words = it.words(options);
            it.compile(&words);
            // A comment that leaves lines where they are, one in front of all, and some within.
            let source = DEBUGGED.replace("return result", "/* sum */ return result");
            it.scratch.write(it.source, &source);
            it.compile(&words);
            it.scratch
                .write(it.source, DEBUGGED.replace("y; };", "y; }; // both"));
            it.hit(&words);
            it.scratch.write(it.source, below_a_comment(DEBUGGED));
            it.hit(&words);
            it.scratch.write(it.source, below_a_comment(DEBUGGED));
            it.hit(&words);
            it.scratch.write(
                "inc/first.h",
                ONCE.replace("    int y", "\n// y\n\n    int y"),
            );
            it.hit(&words);
            let source = DEBUGGED.replace("        int t", "\n\n/*\n * t\n */\n        int t");
            it.scratch.write(it.source, &source);
            it.scratch.write("inc/first.h", below_a_comment(ONCE));
            it.hit(&words);
            it.scratch.write(it.source, DEBUGGED);
            it.hit(&words);
            // More than that.
            it.scratch
                .write("inc/first.h", ONCE.replace("x + 1", "x + 2"));
            it.miss(&words);
        }
    });
}

/// More of what debug information has: entries that refer to later ones, types of which each has others, expressions with base types of their own.
const VARIED: &str = r#"
struct later;
struct list { struct list *next; struct later *first; unsigned bits : 3; };
struct later { struct list in; long long wide; double fraction; };
enum color { RED, GREEN = 300 };
static unsigned char narrow(unsigned long long from, enum color by)
{
    unsigned char low = (unsigned char)(from >> 3);
    short other = (short)(low + by);
    return (unsigned char)(other * 3);
}
unsigned char all(struct later *it, int count)
{
    unsigned char sum = 0;
    for (int i = 0; i < count; i++) {
        struct list *at = &it[i].in;
        signed char step = (signed char)narrow((unsigned long long)it[i].wide, GREEN);
        while (at) {
            sum = (unsigned char)(sum + step + at->bits);
            at = at->next;
        }
    }
    return sum;
}
"#;

#[test]
fn lines_that_take_another_number_of_bytes() {
    Memo::each(|it| {
        for (options, above) in [
            (&["-g", "-O2"][..], 240),
            (&["-g", "-O0"], 232),
            (&["-ggdb", "-gdwarf-4", "-O1"], 246),
            (&["-g", "-O2"], 65_520),
        ] {
            let text = |lines: usize| format!("{}{DEBUGGED}{VARIED}", "\n".repeat(lines));
            it.scratch.write(it.source, text(above));
            it.scratch.write("inc/first.h", ONCE);
            let words = it.words(options);
            it.compile(&words);
            for lines in [above + 1, above + 7, above + 300, above - 9, above + 16] {
                it.scratch.write(it.source, text(lines));
                // (Compared with what a compile makes.)
                let is_hit = it.compile(&words);
                let is_clang = it.compiler.to_string_lossy().contains("clang");
                assert!(is_hit || !is_clang, "{lines} {options:?}");
            }
        }
    });
}

/// What in an object follows from numbers of lines besides the lines themselves.
#[test]
fn what_follows_from_lines() {
    // A source, another file, what that is now, and whether clang's and gcc's lines can be moved.
    let cases = [
        // Equal numbers in two files: clang begins no statement.
        (
            "\n\nextern volatile int v;\nint f(int *q, int y) {\n  v = 1;\n  v = 2; sq(q, y); v = 3;\n  return v;\n}\n",
            "\n\n\n\nstatic inline int sq(int *p, int x) {\n  *p = x;\n  return x * x;\n}\n",
            "\n\n\n\n\nstatic inline int sq(int *p, int x) {\n  *p = x;\n  return x * x;\n}\n",
            Some(true),
        ),
        // Whether two numbers that are one are in the abbreviation depends on how large they are.
        (
            "\nint g(void) { return one + two; }\n",
            &*format!("{}static int one = 1, two = 2;\n", "\n".repeat(69)),
            &*format!("{}static int one = 1, two = 2;\n", "\n".repeat(59)),
            None,
        ),
        // Files within functions share discriminators, and merged places.
        (
            "\nextern int ext(void);\nint f(int *a, int n) {\n  if (n) {\n#include \"third.h\"\n  } else {\n\n\n a[2] = ext();\n }\n  return 1;\n}\n",
            "\n\n\n\n\n\n\n\n a[2] = ext();\n",
            "\n\n\n\n\n\n\n\n\n a[2] = ext();\n",
            Some(false),
        ),
        // Who says himself which line it is.
        (
            "\nint g(void) { return h(); }\n",
            "/**/ #line 30 \"a.c\"\nstatic int h(void) { return 1; }\n",
            "// more\n/**/ #line 30 \"a.c\"\nstatic int h(void) { return 1; }\n",
            Some(false),
        ),
    ];
    Memo::each(|it| {
        for options in [&["-g", "-O2"][..], &["-g", "-O0"]] {
            for (source, before, now, is_known) in &cases {
                let include = match source.contains("#include") {
                    true => "",
                    false => "#include \"third.h\"",
                };
                it.scratch.write(it.source, format!("{include}{source}"));
                it.scratch.write("inc/third.h", before);
                let words = it.words(options);
                it.compile(&words);
                it.scratch.write("inc/third.h", now);
                // (Compared with what a compile makes.)
                let is_hit = it.compile(&words);
                if let Some(is_known) = is_known {
                    assert_eq!(is_hit, *is_known, "{source}");
                }
            }
        }
    });
}

#[test]
fn two_files_of_one_digest() {
    Memo::each(|it| {
        let text = "static inline int NAME(int x) {\n  return x + 1;\n}\n#undef NAME\n";
        it.scratch.write("p/t.h", text);
        it.scratch.write("q/t.h", text);
        it.scratch.write(
            it.source,
            "#define NAME a\n#include \"p/t.h\"\n#define NAME b\n#include \"q/t.h\"\nint f(int x) { return a(x) + b(x); }\n",
        );
        let words = it.words(&["-g", "-O0"]);
        it.compile(&words);
        it.scratch.write("p/t.h", below_a_comment(text));
        it.hit(&words);
        it.scratch.write("q/t.h", format!("// another\n{text}"));
        it.hit(&words);
    });
}

#[test]
fn indentation_that_misleads() {
    Memo::each(|it| {
        let source =
            "void a(void), b(void);\nvoid f(int x) {\n  if (x)\n    a();\n// c\n    b();\n}\n";
        for options in [&["-Wall"][..], &["-Wmisleading-indentation", "-g"]] {
            it.scratch.write(it.source, source);
            let words = it.words(options);
            it.compile(&words);
            // What gcc says then is compared.
            it.scratch.write(it.source, source.replace("// c\n", ""));
            it.compile(&words);
        }
    });
}

#[test]
fn fat_objects_with_debug_information() {
    Memo::two(|it| {
        let mut it = Memo::new(it.compiler.clone(), it.source);
        it.environment.push(("REPO_CC_FAT".into(), "1".into()));
        let words = it.words(&["-O1", "-g"]);
        it.scratch.write(it.source, DEBUGGED);
        it.scratch.write("inc/first.h", ONCE);
        it.compile(&words);
        it.scratch.write(it.source, below_a_comment(DEBUGGED));
        it.hit(&words);
        it.hit(&words);
    });
}

#[test]
fn who_asks_for_lines() {
    Memo::each(|it| {
        it.scratch.write(
            "inc/log.h",
            "#define LOG_INFO(x) log_it(x, __LINE__)\n#define LOG(level, x) LOG_##level(x)\nvoid log_it(const char *, int);\n",
        );
        for (header, is_asked) in [
            ("#include <log.h>\nint x;\n", false),
            (
                "#include <log.h>\nstatic void l(void) { LOG(INFO, \"x\"); }\nvoid m(void) { l(); }\n",
                true,
            ),
            (
                "static int line = __LINE__;\nint *n(void) { return &line; }\n",
                true,
            ),
        ] {
            it.scratch
                .write("inc/third.h", format!("#define THIRD 3\n{header}"));
            let words = it.words(&["-O2"]);
            it.compile(&words);
            it.scratch.write(
                "inc/third.h",
                format!("// three\n#define THIRD 3\n{header}"),
            );
            assert_eq!(it.compile(&words), !is_asked, "{header}");
            // In its place it does not matter.
            it.scratch
                .write("inc/third.h", format!("// 3\n#define THIRD 3\n{header}"));
            it.hit(&words);
            // Nor in another file.
            it.scratch.write("inc/first.h", "// one\n#define FIRST 1\n");
            it.hit(&words);
            it.scratch.write("inc/first.h", "#define FIRST 1\n");
        }
    });
}

#[test]
fn assertions() {
    Memo::each(|it| {
        let text = "#include <assert.h>\n#define THIRD 3\nstatic void t(int x) { assert(x); }\nvoid u(int x) { t(x); }\n";
        for (more, is_asked) in [(&["-O2"][..], true), (&["-O2", "-DNDEBUG"], false)] {
            it.scratch.write("inc/third.h", text);
            let words = it.words(more);
            it.compile(&words);
            it.scratch.write("inc/third.h", below_a_comment(text));
            assert_eq!(it.compile(&words), !is_asked, "{more:?}");
        }
    });
}

#[test]
fn callers_that_are_asked_for_their_lines() {
    Memo::each(|it| {
        if it.source == "a.c" {
            return;
        }
        it.scratch.write(
            "inc/third.h",
            "#define THIRD 3\ninline int here(int line = __builtin_LINE()) { return line; }\n",
        );
        let source = format!("{SOURCE}\nint where() {{ return here(); }}\n");
        it.scratch.write(it.source, &source);
        let words = it.words(&["-O2"]);
        it.compile(&words);
        it.scratch.write(it.source, below_a_comment(&source));
        it.miss(&words);
    });
}

/// Clang says where a lambda stands when it names the function that is made for it.
#[test]
fn places_in_names() {
    Memo::each(|it| {
        if it.source == "a.c" {
            return;
        }
        let source = "template <class T> const char *name(T) { return __PRETTY_FUNCTION__; }\nauto lambda = [](int x) { return x; };\nconst char *f() { return name(lambda); }\n";
        it.scratch.write(it.source, source);
        let words = it.words(&["-O2"]);
        it.compile(&words);
        it.scratch.write(it.source, below_a_comment(source));
        // (Equal tickets or a compile are asserted there.)
        let is_gcc = !it.compiler.to_string_lossy().contains("clang");
        assert_eq!(it.compile(&words), is_gcc);
    });
}

#[test]
fn what_compilers_say_of_comments() {
    Memo::each(|it| {
        // What is said has lines.
        let words = it.words(&["-O2", "-Wall"]);
        it.compile(&words);
        it.scratch.write(it.source, below_a_comment(SOURCE));
        it.miss(&words);
        // Of a comment that is missing.
        let source = "int f(int x) { switch (x) { case 1: x++; /* fall through */\ncase 2: x++; } return x; }\n";
        it.scratch.write(it.source, source);
        let words = it.words(&["-O2", "-Wextra", "-Wimplicit-fallthrough"]);
        it.compile(&words);
        it.scratch
            .write(it.source, source.replace("fall through", "go on"));
        assert!(!it.compile(&words));
        // Of one that seems to begin twice.
        it.scratch.write(it.source, "/* x */ int x;\n");
        let words = it.words(&["-O2", "-Wcomment"]);
        it.compile(&words);
        it.scratch.write(it.source, "/* /* */ int x;\n");
        assert!(!it.compile(&words));
    });
}

#[test]
fn options_about_comments_and_lines() {
    Memo::each(|it| {
        let is_c = it.source == "a.c";
        for more in [
            &["-fsanitize=undefined"][..],
            &["-Wimplicit-fallthrough=1"],
            &["-fopenmp"],
            if is_c {
                &["-std=c89"]
            } else {
                &["-fsanitize=address"]
            },
        ] {
            it.scratch.write(it.source, "int x;\n");
            let words = it.words(more);
            if !run_accepts(it, &words) {
                continue;
            }
            it.compile(&words);
            it.scratch.write(it.source, "// x\nint x;\n");
            // (C89 knows no such comments.)
            if more != ["-std=c89"] {
                assert!(!it.compile(&words), "{more:?}");
            }
            it.scratch.write(it.source, "/* x */\nint x;\n");
            assert!(!it.compile(&words), "{more:?}");
        }
    });
}

/// Whether the compiler knows these options.
fn run_accepts(it: &Memo, words: &[&str]) -> bool {
    let (run, _) = it.run(words, it.scratch.path(), true);
    run.status.success()
        && run
            .errors()
            .lines()
            .all(|line| line.starts_with("repo-cc: "))
}

/// gcc takes two files of equal bytes for one, where they say `#pragma once`.
#[test]
fn files_that_become_one() {
    Memo::each(|it| {
        let once = "#pragma once\nstatic int counter = __COUNTER__;\n";
        it.scratch.write("inc/a/x.h", once);
        it.scratch.write("inc/b/x.h", format!("// b\n{once}"));
        it.scratch.write(
            it.source,
            "#define counter one\n#include \"a/x.h\"\n#undef counter\n#define counter two\n#include \"b/x.h\"\nint *f() { return &two; }\nint *g() { return &one; }\n",
        );
        let words = it.words(&["-O2"]);
        it.compile(&words);
        it.scratch.write("inc/b/x.h", format!("// bb\n{once}"));
        assert!(!it.compile(&words));
    });
}

#[test]
fn what_it_was_is_said() {
    Memo::two(|it| {
        let words = it.words(&["-O2"]);
        it.compile(&words);
        it.scratch
            .write("inc/third.h", "#define THIRD 3 // three\nint third;\n");
        let (run, log) = it.run(&words, it.scratch.path(), false);
        run.ok();
        let line = "third.h: is another one, in more than comments, or gone";
        assert!(log.contains(line), "{log}");
    });
}
