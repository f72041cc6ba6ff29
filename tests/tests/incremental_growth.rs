//! Incremental links: what a program comes to have, or loses: constructors and destructors of its globals, and sections of
//! kinds of which it had none.

use repo_tests::process::run;
use repo_tests::relink::{INCREMENTAL, Place};
use repo_tests::scratch::settle;
use repo_tests::tools;

/// How a program is made.
struct Form {
    compile: &'static [&'static str],
    link: &'static [&'static str],
    tickets: bool,
}

const FORMS: [Form; 4] = [
    Form {
        compile: &["-g"],
        link: &[],
        tickets: false,
    },
    Form {
        compile: &["-O2", "-fno-pie"],
        link: &["-no-pie", "-Wl,--gc-sections"],
        tickets: false,
    },
    Form {
        compile: &["-O1"],
        link: &["-static"],
        tickets: false,
    },
    Form {
        compile: &["-O2"],
        link: &[],
        tickets: true,
    },
];

/// A program that is linked again and again.
struct Program<'p> {
    place: &'p Place,
    form: &'p Form,
}

impl Program<'_> {
    fn compile(&self, name: &str, text: &str) {
        let Form {
            compile, tickets, ..
        } = self.form;
        self.place.compile(name, text, compile, *tickets);
    }

    /// Links it, and in full as well: both do the same. Gives the line of the log.
    #[track_caller]
    fn link(&self, objects: &[&str]) -> String {
        let words = [self.form.link, objects].concat();
        self.place
            .link("a", &[&[INCREMENTAL], &words[..]].concat())
            .ok();
        let last = self.place.last();
        self.place.link("full", &words).ok();
        let [now, full] = ["a", "full"].map(|name| {
            let output = self.place.scratch.join(name);
            run(&mut self.place.scratch.command(output))
        });
        assert_eq!(now.text(), full.text());
        assert_eq!(now.status, full.status);
        if tools::require(["readelf"]).is_some() {
            let read = run(self.place.scratch.command("readelf").args(["-aW", "a"])).ok();
            assert_eq!(read.errors(), "");
        }
        last
    }

    #[track_caller]
    fn again(&self, objects: &[&str], files: &str) {
        let last = self.link(objects);
        let expected = format!("incremental link: {files}");
        assert!(last.contains(&expected), "{last}");
    }
}

fn forms(body: impl Fn(&Program)) {
    for form in &FORMS {
        let Some(place) = Place::new() else { return };
        body(&Program {
            place: &place,
            form,
        });
    }
}

/// A unit with functions that run before or after `main`, each of which says its name.
fn unit(name: &str, before: &[&str], after: &[&str]) -> String {
    let mut text = format!(
        "#include <stdio.h>\nint {name}(int x) {{ return x + {}; }}\n",
        name.len()
    );
    for (number, says) in before.iter().enumerate() {
        text += &format!(
            "struct Before_{name}{number} {{ Before_{name}{number}() {{ printf(\"{name} before: {says}\\n\"); }} }};
             static Before_{name}{number} before{number};\n"
        );
    }
    for (number, says) in after.iter().enumerate() {
        text += &format!(
            "__attribute__((destructor)) static void after{number}() {{ printf(\"{name} after: {says}\\n\"); fflush(stdout); }}\n"
        );
    }
    text
}

const MAIN: &str = "#include <stdio.h>\nint a(int), b(int), c(int); int main() { printf(\"%d\\n\", a(1) + b(2) + c(3)); }";

#[test]
fn constructors_come_and_go() {
    forms(|program| {
        let all = ["main.o", "a.o", "b.o", "c.o"];
        program.compile("main", MAIN);
        program.compile("a", &unit("a", &[], &[]));
        program.compile("b", &unit("b", &["first"], &["first"]));
        program.compile("c", &unit("c", &["second"], &["second", "third"]));
        settle();
        program.link(&all);
        let again = |changed: &str, before: &[&str], after: &[&str]| {
            program.compile(changed, &unit(changed, before, after));
            program.again(&all, "");
        };
        // Before all others, behind all others, in between; and no more.
        again("a", &["new"], &[]);
        again("a", &["new"], &["new", "newer"]);
        again("b", &[], &["first"]);
        again("c", &["second"], &[]);
        again("c", &["second"], &["again"]);
        again("b", &["here again"], &[]);
        again("a", &["other"], &["1", "2", "3", "4", "5"]);
        again("a", &[], &[]);
        again("c", &["second"], &["again"]);
        // Several at once.
        program.compile("a", &unit("a", &["all"], &["all"]));
        program.compile("b", &unit("b", &["all"], &["all"]));
        program.compile("c", &unit("c", &["all"], &["all", "and"]));
        program.again(&all, "");
        // A new unit in the middle has one, and goes.
        program.compile("d", &unit("d", &["new unit"], &["new unit"]));
        let more = ["main.o", "a.o", "d.o", "b.o", "c.o"];
        program.again(&more, "");
        program.compile("d", &unit("d", &[], &["new unit"]));
        program.again(&more, "");
        program.again(&all, "");
    });
}

/// A unit with functions of some priorities, each of which says its name.
fn prioritized(name: &str, before: &[(usize, &str)], after: &[(usize, &str)]) -> String {
    let mut text = format!(
        "#include <stdio.h>\nint {name}(int x) {{ return x + {}; }}\n",
        name.len()
    );
    let all = before.iter().map(|it| ("constructor", it));
    let all = all.chain(after.iter().map(|it| ("destructor", it)));
    for (number, (kind, (priority, says))) in all.enumerate() {
        let priority = match priority {
            0 => String::new(),
            priority => format!("({priority})"),
        };
        text += &format!(
            "__attribute__(({kind}{priority})) static void of{number}() {{ printf(\"{name} {kind} {priority}: {says}\\n\"); fflush(stdout); }}\n"
        );
    }
    text
}

#[test]
fn constructors_of_priorities_come_and_go() {
    forms(|program| {
        let all = ["main.o", "a.o", "b.o", "c.o"];
        program.compile("main", MAIN);
        program.compile("a", &prioritized("a", &[], &[]));
        program.compile("b", &prioritized("b", &[(0, "plain")], &[]));
        program.compile("c", &prioritized("c", &[], &[(200, "first")]));
        settle();
        program.link(&all);
        let link = |objects: &[&str]| {
            let last = program.link(objects);
            assert!(last.contains("incremental link: "), "{last}");
        };
        let again = |changed: &str, before: &[(usize, &str)], after: &[(usize, &str)]| {
            program.compile(changed, &prioritized(changed, before, after));
            link(&all);
        };
        for _ in 0..2 {
            again("a", &[(300, "new")], &[]);
            again("b", &[(0, "plain"), (200, "before a")], &[(200, "same")]);
            again(
                "c",
                &[(300, "as a"), (101, "first")],
                &[(200, "first"), (150, "later")],
            );
            again("a", &[(65535, "last"), (0, "plain")], &[(0, "plain")]);
            again("b", &[(400, "another")], &[(0, "plain"), (102, "other")]);
            again("c", &[], &[]);
            again("a", &[], &[(101, "one"), (102, "two"), (103, "three")]);
            again("c", &[], &[(200, "first")]);
        }
        // All at once.
        program.compile("a", &prioritized("a", &[(500, "x")], &[]));
        program.compile("b", &prioritized("b", &[(500, "y"), (0, "z")], &[]));
        program.compile(
            "c",
            &prioritized("c", &[(0, "u"), (499, "v")], &[(200, "w")]),
        );
        link(&all);
        // A new unit in the middle.
        program.compile("d", &prioritized("d", &[(500, "d")], &[(300, "d")]));
        link(&["main.o", "a.o", "d.o", "b.o", "c.o"]);
        link(&all);
    });
}

#[test]
fn the_first_thread_local_variable_has_room() {
    forms(|program| {
        let all = ["main.o", "f.o"];
        program.compile(
            "main",
            "#include <stdio.h>\nint f(int); int main(int argc, char **) { printf(\"%d\\n\", f(argc)); }",
        );
        let plain = "int f(int x) { return x; }";
        program.compile("f", plain);
        settle();
        program.link(&all);
        for text in [
            "static thread_local int zero; int f(int x) { zero += x; return zero; }",
            "thread_local int one = 1; int f(int x) { one += x; return one; }",
            plain,
            "static __thread long values[3] = {1, 2, 3}; static __thread char text[50]; int f(int x) { text[x] = values[x]; return text[1] + values[2]; }",
            "#include <pthread.h>\nalignas(64) static __thread int own = 7; static void *of(void *) { return (void *)(long)(own + (unsigned long)&own % 64); }
             int f(int x) { own += x; pthread_t thread; void *said; pthread_create(&thread, 0, of, 0); pthread_join(thread, &said); return own * 100 + (int)(long)said; }",
            "struct Own { int number; Own() : number(3) {} ~Own() {} }; static thread_local Own own; int f(int x) { return own.number + x; }",
        ] {
            program.compile("f", text);
            if program.form.link == ["-static"] {
                // What else it draws from archives may be for a full link.
                program.link(&all);
                continue;
            }
            program.again(&all, "");
        }
    });
}

/// What is at the addresses of thread-local storage without contents is not the file's that has it.
#[test]
fn thread_local_storage_is_at_nobodys_place() {
    forms(|program| {
        let all = ["main.o", "f.o"];
        program.compile(
            "main",
            "#include <stdio.h>\nstruct One { virtual int f() { return 1; } virtual ~One() {} }; struct Two : One { int f() override { return 2; } };
             static One *volatile one = new Two; int f(int); int main(int argc, char **) { printf(\"%d %d\\n\", dynamic_cast<Two *>(one)->f(), f(argc)); }",
        );
        let text = |value: usize| {
            format!(
                "static __thread char zeros[9000]; int f(int x) {{ zeros[x] = {value}; return zeros[1] + zeros[2]; }}"
            )
        };
        program.compile("f", &text(1));
        settle();
        program.link(&all);
        program.compile("f", &text(2));
        program.again(&all, "1 of");
    });
}

/// What a program without strings, constants, tables, and cold code comes to have.
const FIRST: [&str; 12] = [
    "static int zeros[100]; int f(int x) { zeros[x] = x; return zeros[1] + zeros[2] + x; }",
    "static const char *volatile text; int f(int x) { text = \"a string\"; return text[x]; }",
    "static volatile double d = 3; int f(int x) { return (int)(d * 1.2345 + x * 2.71); }",
    "typedef float V __attribute__((vector_size(16))); static volatile V v = {1, 2, 3, 4}; int f(int x) { V w = v * V{1.5, 2.5, 3.5, 4.25}; return (int)w[x & 3]; }",
    "__attribute__((cold, noinline)) int cold(int x) { return x * 7; } int f(int x) { return cold(x) + 1; }",
    "__attribute__((hot, noinline)) int hot(int x) { return x * 8; } int f(int x) { return hot(x) + 1; }",
    "__attribute__((section(\".text.startup\"), noinline)) int early(int x) { return x * 9; } int f(int x) { return early(x) + 1; }",
    "static int (*const table[])(int) = {[](int x) { return x + 1; }, [](int x) { return x + 2; }}; int f(int x) { return table[x & 1](x); }",
    "int data[] = {1, 2, 3, 4}; int f(int x) { return data[x & 3]; }",
    "alignas(64) int large[16] = {1}; alignas(64) static int zeros[16]; int f(int x) { zeros[x] = 1; return ((unsigned long)large % 64) + ((unsigned long)zeros % 64) * 2 + 3; }",
    "static const wchar_t *volatile text; int f(int x) { text = L\"a wide string\"; return (int)text[x]; }",
    "int f(int x) { return x; }",
];

#[test]
fn the_first_of_a_kind_has_room() {
    forms(|program| {
        let all = ["main.o", "f.o"];
        program.compile(
            "main",
            "int f(int); int main(int argc, char **) { return f(argc); }",
        );
        let last = FIRST[FIRST.len() - 1];
        for rounds in 0..2 {
            program.compile("f", last);
            settle();
            program.link(&all);
            for text in FIRST {
                program.compile("f", text);
                program.again(&all, "");
                if rounds == 0 {
                    program.compile("f", last);
                    program.again(&all, "");
                }
            }
        }
    });
}

/// A section that is empty has no header: its symbols are in the one before, which may be another file's alone.
#[test]
fn symbols_of_what_is_not_there_are_in_the_section_before() {
    forms(|program| {
        let all = ["main.o", "a.o", "b.o"];
        let text = |value: usize| {
            format!(
                "asm(\".pushsection .nothing,\\\"aw\\\",@progbits\\n.balign 16\\nnothing_here:\\n.popsection\");
                 int a(int x) {{ return x + {value}; }}"
            )
        };
        program.compile(
            "main",
            "int a(int), b(int); int main() { return a(1) + b(2); }",
        );
        program.compile("a", &text(1));
        program.compile(
            "b",
            "__attribute__((section(\"others\"), used)) int kept = 3; int b(int x) { return x + kept; }",
        );
        settle();
        program.link(&all);
        program.compile("a", &text(2));
        program.again(&all, "1 of");
    });
}

#[test]
fn sections_are_aligned_as_they_want() {
    forms(|program| {
        let all = ["main.o", "f.o"];
        program.compile(
            "main",
            "int f(); int main(int argc, char **) { return f(); }",
        );
        let text = |align: usize| {
            format!(
                "alignas({align}) int own[100] = {{1}}; alignas({align}) const int constant[9] = {{2}};
                 alignas({align}) static char zeros[9]; alignas({align}) static thread_local int mine[3] = {{2}};
                 __attribute__((aligned({align}), noinline)) void code() {{ asm(\"nop\"); }}
                 template <typename T> unsigned long at(T *pointer) {{ unsigned long address = (unsigned long)pointer; asm(\"\" : \"+r\"(address)); return address % {align}; }}
                 int f() {{ return at(own) || at(constant) || at(zeros) || at(mine) || at(code); }}"
            )
        };
        program.compile("f", "int f() { return 0; }");
        settle();
        program.link(&all);
        for align in [4, 16, 32, 64, 128, 256, 4096, 8] {
            program.compile("f", &text(align));
            program.link(&all);
        }
    });
}

#[test]
fn classes_with_virtual_functions_come_and_go() {
    forms(|program| {
        let all = ["main.o", "a.o", "b.o"];
        program.compile(
            "main",
            "#include <stdio.h>\nint a(int), b(int); struct Own { virtual int f() { return 1; } }; Own own; Own *volatile it = &own;
             int main() { try { if (it->f() == 2) throw 3; } catch (int) {} printf(\"%d %d\\n\", a(1), b(2)); }",
        );
        let with = |name: &str, classes: &[usize]| {
            let mut text = String::from("#include <typeinfo>\n#include <stdio.h>\n");
            let mut calls = String::new();
            for class in classes {
                text += &format!(
                    "struct {name}{class} {{ virtual int f(int x) {{ return x + {class}; }} virtual ~{name}{class}() {{}} }};
                     struct More{name}{class} : {name}{class} {{ int f(int x) override {{ return 2 * x; }} }};
                     static {name}{class} *volatile it{class} = new More{name}{class}; \n"
                );
                calls += &format!(
                    "x += it{class}->f(x); if (!dynamic_cast<More{name}{class} *>(it{class})) x += 1000; printf(\"%s\\n\", typeid(*it{class}).name());\n"
                );
            }
            format!("{text} int {name}(int x) {{ {calls} return x; }}")
        };
        program.compile("a", &with("a", &[1]));
        program.compile("b", &with("b", &[]));
        settle();
        program.link(&all);
        for (name, classes) in [
            ("a", &[1, 2][..]),
            ("b", &[1]),
            ("a", &[]),
            ("b", &[1, 2, 3, 4]),
            ("a", &[3, 1]),
            ("b", &[]),
            ("a", &[1]),
        ] {
            program.compile(name, &with(name, classes));
            program.again(&all, "");
        }
    });
}

#[test]
fn symbols_of_the_command_line() {
    forms(|program| {
        let words = [
            "main.o",
            "f.o",
            "-Wl,--defsym,number=0x21",
            "-Wl,--defsym,other=_Z1fv",
        ];
        program.compile(
            "main",
            "extern \"C\" char number; extern \"C\" int other(); int f(); int main() { return (int)(long)&number + other() + f(); }",
        );
        let text = |value: usize, length: usize| {
            let more = "x = x * 3 + x / 7; ".repeat(length);
            format!(
                "int f() {{ volatile int x = {value}; for (int i = 0; i < 0; i++) {{ {more} }} return x; }}"
            )
        };
        program.compile("f", &text(1, 0));
        settle();
        program.link(&words);
        program.compile("f", &text(2, 1));
        program.again(&words, "1 of");
        program.compile("f", &text(3, 0));
        program.again(&words, "1 of");
        // What is called so has moved.
        program.compile("f", &text(4, 100));
        program.link(&words);
        program.compile("f", &text(5, 100));
        program.again(&words, "1 of");
        // An object defines it; and nobody does what it is another name of.
        program.compile("f", &format!("int g() {{ return 1; }} {}", text(6, 0)));
        program.link(&words);
    });
}
