//! Compiles in which definitions are left out that the repository has: each is compared with a whole one, definition by
//! definition, and the programs run.

use repo_tests::binaries::Binaries;
use repo_tests::machine;
use repo_tests::process::run;
use repo_tests::pruned::{Machine, state};
use repo_tests::require;

const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
static int counter;
static const int table[5] = {1, 2, 3, 4, 5};
static const char *names[] = {"one", "two", "three"};
static int helper(int x) { return x * 3 + table[x % 5]; }
static int once(int x) { counter += x; return helper(x) - counter; }
static void set(int *p, int v) { *p = v; }
int first(int x) { return helper(x) + once(x); }
int second(int x) { set(&counter, x); return counter + helper(x + 1); }
const char *name(int x) { return names[x % 3]; }
int choose(int x) { switch (x) { case 0: return 7; case 1: return 9; case 2: return 1; case 3: return 4; case 4: return 40; case 5: return 3; default: return x; } }
double scale(double x) { return x * 1.25 + 3.5; }
int even(int n); int odd(int n);
int even(int n) { return n ? odd(n - 1) : 1; }
int odd(int n) { return n ? even(n - 1) : 0; }
int calls(void) { static int calls; return ++calls; }
void say(int x) { printf("%d %s %d %.2f\n", first(x), name(x), choose(x), scale(x)); }
int main(void) { for (int i = 0; i < 9; i++) { say(i); calls(); } printf("%d %d %d\n", second(4), even(10), calls()); puts("done"); return 0; }
"#;

const EDITS: &[(&str, &str)] = &[
    ("x * 3 + table", "x * 5 + table"),
    (
        "static int counter;",
        "/* a comment */\nstatic int counter = 3;",
    ),
    ("\"two\"", "\"zwei\""),
    ("{1, 2, 3, 4, 5}", "{1, 2, 3, 4, 6}"),
    ("case 3: return 4", "case 3: return 5"),
    ("x * 1.25", "x * 1.5"),
    ("puts(\"done\")", "printf(\"ended\\n\")"),
    (
        "int choose(int x)",
        "__attribute__((noinline)) int choose(int x)",
    ),
    (
        "static void set",
        "static __attribute__((noinline)) void set",
    ),
    (
        "return ++calls",
        "static int more; more += 2; return ++calls + more",
    ),
    ("even(n - 1) : 0", "even(n - 1) : counter"),
    (
        "static int once(int x) { counter += x;",
        "static int once(int x) { counter -= x;",
    ),
    ("counter += x", "counter++"),
    ("counter -= x", "counter++"),
    (
        "int first(int x)",
        "static int fresh(int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }\nint many[40]; int filled(void) { for (int i = 0; i < 40; i++) many[i] = i; return fresh(many, 40); }\nint first(int x)",
    ),
];

#[test]
fn edits_of_a_program_give_what_whole_compiles_give() {
    for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
        let machine = machine!();
        let mut text = PROGRAM.to_owned();
        let said = machine.verified("a.c", &text, &[level]);
        assert!(state(&said, "first").starts_with("new"));
        let mut known = 0;
        for (from, to) in EDITS {
            text = text.replacen(from, to, 1);
            let said = machine.verified("a.c", &text, &[level]);
            let first_report = said.split("verified").next().unwrap_or_default();
            known += first_report.matches(": known").count();
            let ours = machine.run(&["a.c.o"]);
            let plain = machine.scratch.join("plain");
            let made = machine
                .scratch
                .command(&machine.clang)
                .args([level, "a.c", "-o"])
                .arg(&plain)
                .status();
            assert!(made.expect("clang runs").success());
            let theirs = machine.scratch.command(plain).output().expect("it runs");
            assert_eq!(
                String::from_utf8_lossy(&ours.stdout),
                String::from_utf8_lossy(&theirs.stdout),
                "{level}: {from}"
            );
            assert_eq!(ours.status.code(), theirs.status.code());
        }
        assert!(known > 4 * EDITS.len(), "{level}: only {known} were known");
    }
}

const CLASSES: &str = r#"
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>
#include <map>
struct Base { virtual ~Base() {} virtual int value(int x) { return x + 1; } };
struct Derived : Base { int value(int x) override { if (x == 3) throw std::runtime_error("three"); return x * 2; } };
struct Strong { Strong(); ~Strong(); int x; };
Strong::Strong() : x(5) {}
Strong::~Strong() { std::printf("bye %d\n", x); }
static int number() { return 7; }
int constructed = number();
static std::string text = "text";
static Strong strong;
template <typename T> T twice(T x) { static T calls; calls = calls + 1; return x + x + calls; }
inline int shared() { static int n = number(); return ++n; }
namespace { struct Hidden { int f() { return 3; } }; int hidden(Hidden h) { return h.f(); } }
int guarded(Base &b, int x) { try { return b.value(x); } catch (const std::exception &e) { std::puts(e.what()); return -1; } }
thread_local int per_thread = number();
int main() {
  Derived d; Base b; std::map<std::string, int> m;
  for (int i = 0; i < 5; i++) { m[std::to_string(i)] = guarded(i & 1 ? static_cast<Base &>(d) : b, i) + twice(i) + shared(); }
  std::vector<int> v; for (auto &e : m) v.push_back(e.second);
  for (int x : v) std::printf("%d\n", x);
  std::printf("%d %s %d %d %d\n", constructed, text.c_str(), strong.x, hidden(Hidden()), ++per_thread);
  auto f = [&](int x) { return x + constructed; };
  std::printf("%d %.1f\n", f(3), twice(1.5));
}
"#;

const CLASS_EDITS: &[(&str, &str)] = &[
    ("return x + 1", "return x + 2"),
    ("return 7", "return 8"),
    ("x(5)", "x(6)"),
    ("\"three\"", "\"drei\""),
    ("return h.f()", "return h.f() + 1"),
    ("x + x + calls", "x + x - calls"),
    (
        "int constructed = number()",
        "int constructed = number() * 3",
    ),
    ("return ++n", "return n += 2"),
    ("std::puts(e.what())", "std::printf(\"%s!\\n\", e.what())"),
];

#[test]
fn edits_of_classes_give_what_whole_compiles_give() {
    for (level, pic) in [("-O0", "-fPIC"), ("-O2", "-fPIE"), ("-Os", "-fno-pic")] {
        let machine = machine!();
        let link = if pic == "-fno-pic" { "-no-pie" } else { "-pie" };
        let mut text = CLASSES.to_owned();
        let options = [level, pic, "-std=c++17"];
        machine.verified("a.cc", &text, &options);
        for (from, to) in CLASS_EDITS {
            text = text.replacen(from, to, 1);
            machine.verified("a.cc", &text, &options);
            let ours = machine.run(&[link, "a.cc.o"]);
            let plain = machine.scratch.join("plain");
            let made = machine
                .scratch
                .command(&machine.clang)
                .args([level, pic, link, "-std=c++17", "a.cc", "-lstdc++", "-o"])
                .arg(&plain)
                .status();
            assert!(made.expect("clang runs").success());
            let theirs = machine.scratch.command(plain).output().expect("it runs");
            assert_eq!(
                String::from_utf8_lossy(&ours.stdout),
                String::from_utf8_lossy(&theirs.stdout),
                "{level}: {from}"
            );
        }
    }
}

/// A program in which two functions call one that is too large to be looked into.
fn with_large(linkage: &str, number: u32) -> String {
    let mut text =
        format!("#include <stdio.h>\nvolatile int sink = 3;\n{linkage} int large(int x) {{\n");
    for at in 0..60 {
        text += &format!("  if (x & {}) sink += x * {at} + sink;\n", at + 1);
    }
    text += &format!(
        "  return x + {number};\n}}\n\
         int user(int x) {{ return large(x) + 1; }}\n\
         int other(int x) {{ return user(x) * 2 + large(x + 1); }}\n\
         int main(void) {{ printf(\"%d %d\\n\", user(4), other(5)); return 0; }}\n"
    );
    text
}

#[test]
fn an_edit_of_a_large_function_is_new_alone() {
    for (file, linkage) in [("a.c", "static"), ("a.c", ""), ("a.cc", "inline")] {
        for level in ["-O1", "-O2", "-O3", "-Os"] {
            let machine = machine!();
            machine.compile(file, &with_large(linkage, 1), &[level], false);
            let said = machine.verified(file, &with_large(linkage, 2), &[level]);
            let names = match linkage {
                "inline" => ["_Z5largei", "_Z4useri", "_Z5otheri"],
                _ => ["large", "user", "other"],
            };
            for (name, expected) in names.iter().zip(["new", "known [", "known ["]) {
                let state = state(&said, name);
                assert!(
                    state.starts_with(expected),
                    "{linkage} {level} {name}: {state}"
                );
            }
            let ours = machine.run(&[&format!("{file}.o")]);
            let plain = machine.scratch.join("plain");
            let mut compile = machine.scratch.command(&machine.clang);
            let made = compile.args([level, file, "-o"]).arg(&plain).status();
            assert!(made.expect("clang runs").success());
            let theirs = machine.scratch.command(plain).output().expect("it runs");
            assert!(
                ours.status.success() && ours.stdout == theirs.stdout,
                "{linkage} {level}"
            );
        }
    }
}

/// An internal function that is not inlined itself, but whose caller is: several definitions come to call it.
#[test]
fn an_internal_function_is_there_once() {
    const TEXT: &str = "
        volatile int sink;
        static int slow(int x) { for (int i = 0; i < x; i++) { sink += i; if (sink > 90) return slow(x - 1); } return sink; }
        static int fast(int x) { return x < 3 ? x : slow(x); }
        int a(int x) { return fast(x) + 1; }
        int b(int x) { return fast(x) + 2; }
        int c(int x) { return fast(x) + 3; }";
    let machine = machine!();
    machine.compile("a.c", TEXT, &["-O2"], false);
    machine.verified("a.c", &TEXT.replace("+ 1", "+ 7"), &["-O2"]);
    // All from the repository.
    machine.verified("a.c", &format!("\n{TEXT}"), &["-O2"]);
}

#[test]
fn what_became_of_each_definition_is_said() {
    let machine = machine!();
    let said = machine.compile("a.c", PROGRAM, &["-O2"], false);
    assert!(state(&said, "first").starts_with("new"), "{said}");
    let said = machine.compile("a.c", PROGRAM, &["-O2"], false);
    assert!(state(&said, "first").starts_with("known ["), "{said}");
    assert!(state(&said, "main").starts_with("known ["), "{said}");
    let edited = PROGRAM.replace("for (int i = 0; i < 9", "for (int i = 0; i < 8");
    let said = machine.compile("a.c", &edited, &["-O2"], false);
    assert!(state(&said, "main").starts_with("new"), "{said}");
    assert!(
        state(&said, "say").starts_with("known, kept for inlining"),
        "{said}"
    );
    assert!(state(&said, "odd").starts_with("known"), "{said}");
    let marked = format!(
        "{PROGRAM}\n__attribute__((used)) static int mark = 3;\nextern int other(int) __attribute__((alias(\"even\")));\n"
    );
    let said = machine.compile("a.c", &marked, &["-O2"], false);
    assert!(state(&said, "mark").contains("marked as used"), "{said}");
    // What it depends on is another name more.
    assert!(state(&said, "even").starts_with("new"), "{said}");
    let said = machine.compile("a.c", &marked, &["-O2"], false);
    assert!(state(&said, "even").starts_with("known ["), "{said}");
    assert!(state(&said, "other").starts_with("known ["), "{said}");
    assert!(
        state(&said, "mark").starts_with("compiled each time"),
        "{said}"
    );
}

/// What is not handled is compiled each time, and that is said with the reason.
#[test]
fn what_is_never_left_out_is_said_with_its_reason() {
    const ODD: &str = "
        static int plain(int x) { return x + 1; }
        static int fast(int x) { return x + 2; }
        static void *choose(void) { return (void *)plain; }
        int chosen(int) __attribute__((ifunc(\"choose\")));
        int original(int x) { return x * 3 + fast(x); }
        extern int other(int) __attribute__((alias(\"original\")));
        int data = 3;
        extern int other_data __attribute__((alias(\"data\")));
        __thread int of_thread = 4;
        int common_one;
        int use(void) { return chosen(1) + other(2) + of_thread++ + common_one; }
        int alone(void) { return 7; }";
    for level in ["-O0", "-O2"] {
        let machine = machine!();
        machine.verified("a.c", ODD, &[level]);
        let said = machine.verified("a.c", &ODD.replace("return 7", "return 8"), &[level]);
        for (name, why) in [
            ("chosen", "an ifunc"),
            ("choose", "resolves an ifunc"),
            ("other_data", "an alias"),
            ("data", "has an alias"),
            ("of_thread", "thread-local"),
        ] {
            let state = state(&said, name);
            let is_said = state.starts_with("compiled each time (") && state.contains(why);
            assert!(is_said, "{level} {name}: {state}");
        }
        assert!(state(&said, "alone").starts_with("new"), "{said}");
    }
}

/// Two in one section are one piece of it, whichever of them was there before.
#[test]
fn who_shares_a_section_is_compiled_with_the_others() {
    const TEXT: &str = "
        __attribute__((section(\"sec\"))) int first(int x) { return x + 1; }
        static int second(int x) { return x + 2; }
        int user(int x) { return second(x) + first(x); }";
    for level in ["-O0", "-O2"] {
        let machine = machine!();
        machine.verified("a.c", TEXT, &[level]);
        let both = TEXT.replace(
            "static",
            "__attribute__((section(\"sec\"), noinline)) static",
        );
        let said = machine.verified("a.c", &both, &[level]);
        let state = state(&said, "first");
        assert!(state.contains("shares its section"), "{level}: {state}");
        machine.verified("a.c", TEXT, &[level]);
    }
}

/// Without optimisation, too, there are calls that are inlined.
#[test]
fn calls_that_are_inlined_whatever_the_callee_says_depend_on_it() {
    const FLAT: &str = "
        int callee(int x) { return x * 3; }
        static int hidden(int x) { return x * 5; }
        int user(int x) { return hidden(x); }
        __attribute__((flatten)) int caller(int x) { return callee(x) + hidden(x) + 1; }";
    const STATEMENT: &str = "
        int callee(int x) { return x * 3; }
        static int hidden(int x) { return x * 5; }
        int user(int x) { return hidden(x); }
        int caller(int x) { [[clang::always_inline]] return callee(x) + hidden(x) + 1; }";
    for (file, text, caller) in [("a.c", FLAT, "caller"), ("a.cc", STATEMENT, "_Z6calleri")] {
        for level in ["-O0", "-O1"] {
            let machine = machine!();
            machine.verified(file, text, &[level]);
            for (from, to) in [("x * 3", "x * 7"), ("x * 5", "x * 9"), ("+ 1", "+ 2")] {
                let said = machine.verified(file, &text.replace(from, to), &[level]);
                let state = state(&said, caller);
                assert!(state.starts_with("new"), "{level} {to}: {state}");
            }
        }
    }
}

/// A table of labels leads into the function's code: neither is without the other.
#[test]
fn labels_in_a_table_stay_with_their_function() {
    const TEXT: &str = "
        extern int printf(const char *, ...);
        int run(const int *code) {
          static void *const labels[] = {&&add, &&twice, &&end};
          int x = 0;
          goto *labels[*code];
        add: x += *++code; goto *labels[*++code];
        twice: x *= 2; goto *labels[*++code];
        end: return x;
        }
        int other(int x) { return x + 1; }
        static const int program[] = {0, 5, 1, 0, 7, 1, 2};
        int main(void) { printf(\"%d %d\\n\", run(program), other(2)); return 0; }";
    for level in ["-O0", "-O1", "-O2", "-Os"] {
        for pic in ["-fPIC", "-fno-pic"] {
            let machine = machine!();
            machine.verified("a.c", TEXT, &[level, pic]);
            for to in ["x + 2", "x + 3"] {
                let text = TEXT.replace("x + 1", to);
                let said = machine.verified("a.c", &text, &[level, pic]);
                for name in ["run", "run.labels"] {
                    assert!(
                        state(&said, name).starts_with("compiled each time"),
                        "{level} {pic}: {said}"
                    );
                }
            }
            let link = if pic == "-fno-pic" { "-no-pie" } else { "-pie" };
            let said = machine.run(&[link, "a.c.o"]);
            assert_eq!(String::from_utf8_lossy(&said.stdout), "34 5\n", "{level}");
        }
    }
}

const ALIASES: &str = r#"
#include <cstdio>
struct Base { Base(int x); virtual ~Base(); int x; };
struct Made : Base { Made(int y); ~Made() override; int y; };
Base::Base(int x) : x(x * 3) {}
Base::~Base() { std::printf("base %d\n", x); }
Made::Made(int y) : Base(y + 1), y(y) {}
Made::~Made() { std::printf("made %d\n", y); }
extern "C" int plain(int x) { return x - 2; }
extern "C" int weakly(int) __attribute__((weak, alias("plain")));
int use(int n) { Made one(n); Base two(n + 2); return one.x + two.x + weakly(n); }
int unused(int n) { return n; }
int main() { std::printf("%d\n", use(4)); return 0; }
"#;

/// Constructors of whole objects are other names of those of bases.
#[test]
fn aliases_of_functions_go_with_them() {
    for (level, pic) in [
        ("-O0", "-fPIC"),
        ("-O1", "-fno-pic"),
        ("-O2", "-fPIE"),
        ("-Os", "-fPIC"),
    ] {
        let machine = machine!();
        let options = [level, pic, "-std=c++17"];
        machine.verified("a.cc", ALIASES, &options);
        let mut text = ALIASES.to_owned();
        for (from, to, known) in [
            ("return n; }", "return n + 1; }", true),
            ("two(n + 2)", "two(n + 5)", true),
            ("y(y) {}", "y(y + 1) {}", false),
            ("return x - 2", "return x - 1", true),
            ("weak, alias", "alias", true),
        ] {
            text = text.replacen(from, to, 1);
            let said = machine.verified("a.cc", &text, &options);
            for name in ["_ZN4MadeC1Ei", "_ZN4MadeC2Ei"] {
                let state = state(&said, name);
                assert_eq!(
                    state.starts_with("known"),
                    known,
                    "{level} {pic} {to}: {name}: {state}"
                );
            }
            let link = if pic == "-fno-pic" { "-no-pie" } else { "-pie" };
            let ours = machine.run(&[link, "a.cc.o"]);
            let plain = machine.scratch.join("plain");
            let mut compile = machine.scratch.command(&machine.clang);
            compile.args([level, pic, link, "-std=c++17", "a.cc", "-lstdc++", "-o"]);
            assert!(compile.arg(&plain).status().expect("clang runs").success());
            let theirs = machine.scratch.command(plain).output().expect("it runs");
            assert_eq!(
                String::from_utf8_lossy(&ours.stdout),
                String::from_utf8_lossy(&theirs.stdout),
                "{level} {pic}: {to}"
            );
        }
        // One name more, and one less.
        let more =
            format!("{text}\nextern \"C\" int more(int) __attribute__((alias(\"plain\")));\n");
        let said = machine.verified("a.cc", &more, &options);
        assert!(state(&said, "plain").starts_with("new"), "{said}");
        let said = machine.verified("a.cc", &format!("{more}int last = 2;\n"), &options);
        assert!(state(&said, "more").starts_with("known"), "{said}");
        let said = machine.verified("a.cc", &text, &options);
        assert!(state(&said, "plain").starts_with("known"), "{said}");
    }
}

/// A whole compile writes inline things that nobody refers to any more once all is optimised: the vtable of a base whose constructor was inlined.
/// Without them nothing is missing.
#[test]
fn what_nobody_refers_to_need_not_be_there() {
    const TEXT: &str = "
        #include <memory>
        struct S { int x; };
        void noop(S *);
        int use(std::shared_ptr<S> p) { return p->x; }
        int make(S *s) { std::shared_ptr<S> p(s, noop); return use(p); }
        int other(int x) { return x + 1; }";
    const LOCAL: &str = "
        extern int outside;
        int make(int n) {
          struct Local { virtual ~Local() {} virtual int f(int x) { return x + outside; } };
          Local local;
          outside += local.f(n);
          return outside;
        }
        int other(int x) { return x + 1; }";
    for level in ["-O1", "-O2"] {
        let machine = machine!();
        let options = [level, "-std=c++20"];
        machine.verified("a.cc", TEXT, &options);
        machine.verified("a.cc", &TEXT.replace("x + 1", "x + 2"), &options);
        // The same of a class that only a function knows.
        machine.verified("b.cc", LOCAL, &options);
        machine.verified("b.cc", &LOCAL.replace("x + 1", "x + 2"), &options);
    }
}

/// A text is not known by the name of a constant that happens to be its equal.
#[test]
fn equal_constants_stay_apart() {
    const TEXT: &str = "
        #include <stdio.h>
        const char magic[] = \"unique\";
        static const char hidden[] = \"hidden\";
        const char *first(int i) { return hidden + i; }
        const char *second(int i) { return &hidden[6 - i]; }
        const char *text(void) { return \"unique\"; }
        const char *other(void) { return \"hidden\"; }
        int main(void) { puts(text()); puts(other()); puts(magic); puts(first(0)); return 0; }";
    for level in ["-O0", "-O1", "-O2", "-Os"] {
        let machine = machine!();
        machine.verified("a.c", TEXT, &[level]);
        let said = machine.verified("a.c", &TEXT.replace("[] = \"u", "[] = \"U"), &[level]);
        assert!(state(&said, "text").starts_with("known"), "{said}");
        let said = machine.run(&["a.c.o"]);
        assert_eq!(
            String::from_utf8_lossy(&said.stdout),
            "unique\nhidden\nUnique\nhidden\n"
        );
        // Once more, without the compile in which all of it was seen together.
        let without = TEXT.replace(
            "const char *other(void) { return \"hidden\"; }",
            "const char *other(void);",
        );
        let without = without.replace("[] = \"h", "[] = \"H");
        machine.verified("a.c", &without, &[level]);
        machine.verified("a.c", &TEXT.replace("[] = \"h", "[] = \"H"), &[level]);
        let said = machine.run(&["a.c.o"]);
        assert_eq!(
            String::from_utf8_lossy(&said.stdout),
            "unique\nhidden\nunique\nHidden\n"
        );
    }
}

/// An internal that could not be promoted is what its users make of it: a constant, until somebody writes it.
#[test]
fn who_writes_an_internal_has_a_say_in_who_reads_it() {
    for attribute in [
        "__thread",
        "__attribute__((section(\"of_x\")))",
        "__attribute__((used))",
        "",
    ] {
        let text = format!(
            "static {attribute} int x = 3;\n\
             int r(void) {{ return x * 2; }}\nint s(void) {{ return x + 5; }}\nvoid w(int i) {{ }}\n"
        );
        for level in ["-O0", "-O1", "-O2"] {
            let machine = machine!();
            machine.verified("a.c", &text, &[level]);
            let written = text.replace("w(int i) { }", "w(int i) { x = i; }");
            machine.verified("a.c", &written, &[level]);
            machine.verified("a.c", &text, &[level]);
        }
    }
}

/// The optimizer writes a variable's first value in another form (`&array[4]` as 16 bytes from `array`): it is known as before. What it truly
/// changes is compiled, and is there for those from the repository who use it, though nothing that is compiled does.
#[test]
fn a_variable_that_is_kept_for_inlining_stays_as_it_was() {
    const C: &str = "
        static int array[8];
        static int *place = &array[4];
        int user(int x) { *place = x; return x; }
        void move(int x) { place = &array[x & 7]; }
        int edited(int x) { int bit = x & 1; if (bit > 1) *place = 5; return x * 2; }
        int here(void) { return array[3]; }";
    const MAIN: &str = "
        int user(int x); void move(int x); int edited(int x); int here(void);
        int main(void) { move(3); user(4); return edited(3) + here() != 10; }";
    const CXX: &str = "
        int number() { return 4; }
        static int wide[64];
        static int first = number();
        int *use() { wide[3] = first; return wide; }
        inline int edited(int x) { int s = 0; for (int i = 0; i < 64; i++) s += wide[i] + x; return s * 2; }
        int main() { use(); return edited(1) + first != 140; }";
    for level in ["-O2", "-Os"] {
        let machine = machine!();
        machine.compile("main.c", MAIN, &[level], false);
        for (name, text) in [("a.c", C), ("b.cc", CXX)] {
            machine.verified(name, text, &[level]);
            for text in [&text.replace(" * 2", " * 3"), text] {
                let said = machine.verified(name, text, &[level]);
                assert!(!said.contains("compiled again"), "{said}");
            }
        }
        let ending = machine.run(&["a.c.o", "main.c.o"]).status;
        assert_eq!(ending.code(), Some(0), "{level}");
        let ending = machine.run(&["b.cc.o"]).status;
        assert_eq!(ending.code(), Some(0), "{level}");
    }
}

/// What is inlined whatever it is goes into its callers before anything else is done: then what it calls has more callers, which counts
/// where that is internal.
#[test]
fn what_is_called_by_something_that_is_always_inlined_has_more_callers() {
    const FLATTEN: &str = "
        static int g(int x);
        int f(int x) { return x > 6 ? g(x / 2) : 17; }
        static int g(int x) { return x % 2 ? f(x - 1) + 6 : f(x / 3); }
        int edited(int x) { return x; }";
    const ALWAYS: &str = "
        int sink(int);
        static int large(int x) { for (int i = 0; i < 9; i++) { x += sink(x ^ i) * sink(i); x -= sink(x & 5); x ^= sink(x | 2); x *= sink(x + 9); x += sink(x / 7); } return x; }
        static inline __attribute__((always_inline)) int h(int x) { return large(x) + 1; }
        int user(int x) { return h(x) * 2; }
        int edited(int x) { return x; }";
    for level in ["-O1", "-O2", "-Os"] {
        let machine = machine!();
        for (text, to) in [
            (
                FLATTEN,
                "__attribute__((flatten)) int edited(int x) { return f(x) + 1; }",
            ),
            (ALWAYS, "int edited(int x) { return h(x + 3); }"),
        ] {
            let edited = text.replace("int edited(int x) { return x; }", to);
            assert_ne!(text, edited);
            for text in [text, &edited, text] {
                machine.verified("a.c", text, &[level]);
            }
        }
    }
}

/// What a shared object's code refers to by its place must be compiled with it.
#[test]
fn code_without_semantic_interposition_is_compiled_whole() {
    const TEXT: &str = "
        int sink(int);
        int known(int x) { for (int i = 0; i < x; i++) x += sink(i) * sink(x); return x; }
        int user(int x) { return known(x + 1) + known(x); }
        void *edited(int x) { sink(1); return x ? (void *)known : (void *)user; }";
    let machine = machine!();
    for options in [&["-fno-semantic-interposition"][..], &[]] {
        let options = [&["-O2", "-fPIC"], options].concat();
        for text in [TEXT, &TEXT.replace("sink(1)", "sink(2)")] {
            machine.compile("a.c", text, &options, false);
            let mut link = machine.scratch.command(Binaries::get().path("repo-cc"));
            link.arg(&machine.clang)
                .args(["-shared", "a.c.o", "-o", "a.so"]);
            run(&mut link).ok();
        }
    }
}

/// An internal function that has no name of its own is a part of who uses it, and is not taken from the repository as it was.
#[test]
fn an_internal_in_a_section_is_as_it_is_now() {
    const TEXT: &str = "
        __attribute__((section(\"sec\"), noinline)) static int in(int x) { return x + 1; }
        int u(int x) { return in(x); }
        int v(int x) { return in(3); }";
    for level in ["-O0", "-O1", "-O2"] {
        let machine = machine!();
        machine.verified("a.c", TEXT, &[level]);
        machine.verified("a.c", &TEXT.replace("x + 1", "x + 2"), &[level]);
        machine.verified("a.c", TEXT, &[level]);
    }
}

/// `printf` becomes `puts`, and that is looked into: if it is defined beside it, or its declaration is another one.
#[test]
fn what_the_optimizer_calls_by_itself_may_be_there() {
    const TEXT: &str = "extern int printf(const char *, ...);\nextern volatile int sink;\n\
        int f(void) { printf(\"text\\n\"); return 1; }\n";
    const PUTS: &str = "int puts(const char *s) { sink = 4; return *s; }\n";
    const OTHER: &str = "extern void *puts;\nvoid *g(void) { return puts; }\n";
    const INLINE: &str = "extern inline __attribute__((gnu_inline)) int puts(const char *s) { sink = 4; return *s; }\n\
        int g(const char *s) { return puts(s); }\n";
    for level in ["-O0", "-O1", "-O2"] {
        for more in [PUTS, OTHER, INLINE] {
            let machine = machine!();
            let text = format!("{TEXT}{more}");
            machine.verified("a.c", TEXT, &["-w", level]);
            machine.verified("a.c", &text, &["-w", level]);
            machine.verified("a.c", &text.replace("sink = 4", "sink = 5"), &["-w", level]);
            machine.verified("a.c", TEXT, &["-w", level]);
        }
    }
}

/// The option says what the variable does, for compiles that may be pruned.
#[test]
fn the_options_explain_and_verify() {
    let machine = machine!();
    let run = |options: &[&str], arguments: &[&str]| {
        machine.scratch.write("a.c", PROGRAM);
        let mut command = machine.scratch.command(Binaries::get().path("repo-cc"));
        command.args(options).arg(&machine.clang).args(arguments);
        let output = command.args(["-c", "a.c", "-o", "a.c.o"]).output();
        let output = output.expect("repo-cc runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let said = run(&["--verify"], &["-O2"]);
    assert!(
        said.contains("verified: ") && said.contains(" 0 of them known"),
        "{said}"
    );
    let said = run(&["--verify"], &["-O2"]);
    assert!(
        said.contains("verified: ") && !said.contains(" 0 of them known"),
        "{said}"
    );
    assert!(machine.run(&["a.c.o"]).status.success());
    let said = run(&["--verify", "--explain"], &["-O2"]);
    assert!(state(&said, "first").starts_with("known ["), "{said}");
    let said = run(&["--verify"], &["-O2", "-g"]);
    assert!(
        said.contains("nothing to verify: debug information (-g)"),
        "{said}"
    );
    let said = run(&["--verify", "--explain"], &["-O2", "-g"]);
    assert!(
        said.contains("nothing is left out: debug information (-g)"),
        "{said}"
    );
    let said = run(&["--verify", "--explain", "--fat"], &["-O2"]);
    assert!(said.contains("nothing is left out: a fat object"), "{said}");
}

/// Why a definition is new since the last compile that was explained.
#[test]
fn why_a_definition_is_new_is_said() {
    const TEXT: &str = "
        static int leaf(int x) { return x * 3; }
        int middle(int x) { return leaf(x) + 1; }
        int top(int x) { return middle(x) - 5; }
        int alone(int x) { return x; }";
    let machine = machine!();
    machine.compile("a.c", TEXT, &["-O2"], false);
    let said = machine.compile("a.c", &TEXT.replace("x * 3", "x * 7"), &["-O2"], false);
    for (name, why) in [
        (
            "middle",
            "it depends on leaf: its code or content is another",
        ),
        (
            "top",
            "it depends on middle: it depends on leaf: its code or content is another",
        ),
    ] {
        let state = state(&said, name);
        assert!(
            state.starts_with("new") && state.ends_with(why),
            "{name}: {state}"
        );
    }
    assert!(state(&said, "alone").starts_with("known ["), "{said}");
    // With --verbose, what each depends on.
    let behind = |name: &str| {
        let mut lines = said
            .lines()
            .skip_while(|line| !line.starts_with(&format!("repo-cc: {name}: ")));
        lines.nth(1).unwrap_or_default()
    };
    assert_eq!(behind("top"), "repo-cc:   depends on middle");
    assert_eq!(behind("leaf"), "repo-cc:   depends on its users middle");
    let hot = TEXT.replace("int middle", "__attribute__((cold)) int middle");
    let said = machine.compile("a.c", &hot, &["-O2"], false);
    assert!(
        state(&said, "middle").contains("what is said of it as a whole"),
        "{said}"
    );
}

#[test]
fn what_is_not_understood_is_compiled_whole() {
    let machine = machine!();
    for options in [
        &["-g"][..],
        &["-fsanitize=undefined"],
        &["-fprofile-instr-generate"],
        &["-mllvm", "-inline-threshold=10"],
        &["-fnobuiltin-is-no-option-but-this-is", "-Qunused-arguments"][1..],
        &["-fcommon"],
        &["-Xclang", "-disable-O0-optnone"],
    ] {
        let said = machine.compile("a.c", PROGRAM, options, false);
        let is_whole = said.contains("nothing is left out");
        assert_eq!(
            is_whole,
            options != ["-Qunused-arguments"],
            "{options:?}: {said}"
        );
    }
    let assembly = "__asm__(\".globl x\\nx: ret\");\nint f(void) { return 1; }\n";
    for _ in 0..2 {
        let said = machine.compile("b.c", assembly, &["-O2"], false);
        assert!(
            said.contains("nothing is left out: file-level assembly"),
            "{said}"
        );
    }
}

#[test]
fn an_error_of_the_source_is_said_once() {
    let machine = machine!();
    machine
        .scratch
        .write("a.c", "int f(void) { return nothing; }\n");
    let output = machine
        .scratch
        .command(Binaries::get().path("repo-cc"))
        .arg(&machine.clang)
        .args(["-c", "a.c"])
        .env("REPO_CC_PRUNE", "1")
        .output()
        .expect("repo-cc runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        said.matches("error: use of undeclared").count(),
        1,
        "{said}"
    );
}

/// A ticket says the same whichever of its definitions the repository had: so does what is linked of it.
#[test]
fn what_is_known_changes_no_ticket() {
    const CLASSES: &str = "
        #include <stdexcept>
        #include <string>
        #include <vector>
        static std::vector<std::string> names{\"one\", \"two\"};
        static int calls = 0;
        __attribute__((noinline)) static int count(int n) { calls += n; return calls; }
        struct Base { virtual ~Base() {} virtual int value() const { return count(1); } };
        struct Other : Base { double factor = 1.5; int value() const override { return int(count(2) * factor); } };
        inline int shared(int n) { if (n > 100) throw std::runtime_error(\"large\"); return n; }
        int both(const Base &base) { try { return shared(base.value()); } catch (const std::exception &) { return -1; } }
        int made() { Other other; return both(other) + int(names.size()); }
        int choose(int n) { switch (n) { case 0: return 4; case 1: return made(); case 2: return 9; case 3: return 17; case 4: return 2; default: return n; } }
    ";
    let machine = machine!();
    for (name, text) in [("a.c", PROGRAM), ("a.cc", CLASSES)] {
        for level in ["-O0", "-O1", "-O2", "-Os"] {
            // Half of it is new, and all of it is known.
            let edits = [
                format!("{text}\nint more(int x) {{ return x * 77; }}\n"),
                text.to_owned(),
            ];
            machine.compile(name, text, &[level], false);
            let ticket =
                || std::fs::read(machine.scratch.join(format!("{name}.o"))).expect("a ticket");
            let first = ticket();
            for edited in &edits {
                machine.verified(name, edited, &[level]);
            }
            assert!(ticket() == first, "{name} {level}: other tickets");
        }
    }
}

/// Assemblers fill up the last frame description of an object, and which one that is depends on what was left out.
#[test]
fn what_fills_up_the_last_frame_changes_no_ticket() {
    const SHARED: &str = "
        __attribute__((noinline)) inline int leaf(int x) { return x * 77 + 1; }
        __attribute__((noinline)) inline int other(int x) { return x * 78 + 1; }
    ";
    let compilation = |machine: &Machine| {
        let ticket = std::fs::read(machine.scratch.join("two.cc.o")).expect("a ticket");
        let ticket = tickets::Ticket::parse(&ticket).expect("sound");
        ticket.expect("a ticket").compilation
    };
    let (alone, behind) = (machine!(), machine!());
    let one = format!("{SHARED}int one(int x) {{ return leaf(x) + other(x); }}\n");
    let two = format!("{SHARED}int two(int x) {{ return leaf(x) * 3 + x; }}\n");
    alone.verified("two.cc", &two, &["-O2"]);
    behind.verified("one.cc", &one, &["-O2"]);
    let said = behind.verified("two.cc", &two, &["-O2"]);
    assert!(state(&said, "_Z4leafi").starts_with("known"), "{said}");
    assert_eq!(compilation(&alone), compilation(&behind));
}

/// Static functions have other names only while they are compiled: tickets and programs are the same wherever they were built.
#[test]
fn a_program_has_the_names_of_its_source() {
    const TEXT: &str = "
        int printf(const char *, ...);
        static int table[4] = {1, 2, 3, 4};
        __attribute__((noinline)) static int helper(int x) { table[x & 3] += x; return table[0]; }
        int first(int x) { return helper(x) + 1; }
        int second(int x) { return helper(x) + helper(x + 1); }
        int main(int argc, char **argv) { printf(\"%d\\n\", first(argc) + second(argc)); return 0; }
    ";
    let machine = machine!();
    let has = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    let build = |directory: &str| {
        let directory = machine.scratch.join(directory);
        std::fs::create_dir_all(&directory).expect("a directory can be made");
        std::fs::write(directory.join("a.c"), TEXT).expect("written");
        for (args, is_compile) in [
            (["-c", "a.c", "-o", "a.o"], true),
            (["a.o", "-lm", "-o", "a"], false),
        ] {
            let mut command = machine.scratch.command(Binaries::get().path("repo-cc"));
            command
                .arg(&machine.clang)
                .args(["-O2"])
                .args(args)
                .current_dir(&directory);
            run(command.env("REPO_CC_PRUNE", "1")).ok();
            if is_compile {
                let ticket = std::fs::read(directory.join("a.o")).expect("a ticket");
                let mut names = machine.scratch.command(Binaries::get().path("repo-dump"));
                names.arg("names").arg("--repo");
                let names = run(names.arg(machine.scratch.repository())).ok().text();
                assert!(names.contains("helper.repo."), "nothing was promoted");
                // Nobody is told of such a name.
                assert!(!has(&ticket, b".repo."));
            }
        }
        std::fs::read(directory.join("a")).expect("a program")
    };
    let program = build("here");
    assert!(!has(&program, b".repo."));
    assert!(has(&program, b"\0helper\0"));
    assert!(program == build("there/below"), "they differ");
}

/// One command may write several objects, one after the other, that get other names: what is internal to each stays its own.
#[test]
fn internals_of_two_objects_of_one_command_stay_apart() {
    let machine = machine!();
    let text = |name: &str, step: u32| {
        format!(
            "static int count = {step}; __attribute__((noinline)) static int next(void) {{ return count += {step}; }}\n\
             int {name}(void) {{ return next(); }} int {name}_again(void) {{ return next() + count; }}\n"
        )
    };
    for (name, step) in [("one", 1), ("two", 20), ("three", 1)] {
        machine.compile("a.c", &text(name, step), &["-O2"], true);
        std::fs::rename(
            machine.scratch.join("a.c.o"),
            machine.scratch.join(format!("{name}.o")),
        )
        .expect("renamed");
    }
    let main = "
        int printf(const char *, ...);
        int one(void), one_again(void), two(void), two_again(void), three(void), three_again(void);
        int main(void) { printf(\"%d %d %d %d \", one(), one_again(), two(), two_again()); printf(\"%d %d\\n\", three(), three_again()); }
    ";
    machine.compile("main.c", main, &["-O2"], true);
    let output = machine.run(&["one.o", "two.o", "three.o", "main.c.o"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // In a call of printf the order of evaluation is the compiler's: clang's is from left to right.
    assert_eq!(said, "2 6 40 120 2 6\n");
}

/// What is static in a header is compiled once for all that include it.
#[test]
fn what_is_static_in_a_header_is_known_to_others() {
    let machine = machine!();
    machine.scratch.write(
        "a.h",
        "static int seen; static const int steps[4] = {3, 5, 7, 9};\n\
         __attribute__((noinline)) static int step(int x) { seen++; return steps[x & 3] + x; }\n\
         __attribute__((noinline)) static int walk(int x) { return step(x) * step(x + 1) + seen; }\n",
    );
    let text = |name: &str| {
        format!("#include \"a.h\"\nint {name}(int x) {{ return walk(x) + step(x); }}\n")
    };
    let said = machine.verified("a.c", &text("first"), &["-O2"]);
    assert!(state(&said, "step").starts_with("new"), "{said}");
    let said = machine.verified("b.c", &text("second"), &["-O2"]);
    for name in ["step", "walk", "seen", "steps"] {
        assert!(state(&said, name).starts_with("known"), "{name}: {said}");
    }
    let main = "
        int printf(const char *, ...);
        int first(int), second(int);
        int main(void) { printf(\"%d\", first(1)); printf(\" %d\\n\", second(1)); }
    ";
    machine.compile("main.c", main, &["-O2"], true);
    let output = machine.run(&["a.c.o", "b.c.o", "main.c.o"]);
    // 6 * 9 + 2 + 6, each with its own variable.
    assert_eq!(String::from_utf8_lossy(&output.stdout), "62 62\n");
}

#[test]
fn a_unit_without_definitions() {
    let machine = machine!();
    let said = machine.compile("a.c", "extern int x;\n", &["-O2"], false);
    assert!(said.contains("0 definitions new"), "{said}");
    assert!(!said.contains("bug report"), "{said}");
}

/// A plugin that dies is no error of the source.
#[test]
fn a_plugin_that_dies_fails_no_compile() {
    let machine = machine!();
    let [gcc] = require!("gcc");
    let own = machine.scratch.join("bin");
    std::fs::create_dir_all(&own).expect("a directory");
    let text = "void abort(void); void llvmGetPassPluginInfo(void) { abort(); }\n";
    let source = machine.scratch.write("plugin.c", text);
    let mut build = machine.scratch.command(gcc);
    build
        .args(["-shared", "-fPIC", "-o"])
        .arg(own.join("librepo_plugin.so"));
    run(build.arg(source)).ok();
    std::fs::copy(Binaries::get().path("repo-cc"), own.join("repo-cc")).expect("a copy");
    machine
        .scratch
        .write("a.c", "int main(void) { return 0; }\n");
    let mut command = machine.scratch.command(own.join("repo-cc"));
    command.arg(&machine.clang).args(["-c", "a.c", "-o", "a.o"]);
    run(&mut command).ok();
    assert!(machine.run(&["a.o"]).status.success());
}

/// Who waits for an error does not wait for two compiles.
#[test]
fn an_error_of_the_source_is_found_by_one_compile() {
    let machine = machine!();
    machine
        .scratch
        .write("a.c", "int f(void) { return undeclared; }\n");
    let commands = machine.scratch.join("commands");
    let mut command = machine.scratch.command(Binaries::get().path("repo-cc"));
    command
        .arg(&machine.clang)
        .args(["-c", "a.c"])
        .env("REPO_CC_DISABLE", "1")
        .env("REPO_CC_PRUNE", "1")
        // Clang's driver says there what it runs.
        .env("CC_PRINT_OPTIONS", "1")
        .env("CC_PRINT_OPTIONS_FILE", &commands);
    run(&mut command).failed();
    let commands = std::fs::read_to_string(commands).expect("a list");
    let compiles = commands.matches("-fpass-plugin").count();
    assert_eq!(compiles, 1, "{commands}");
    assert_eq!(commands.matches("Logging").count(), 1, "{commands}");
}

#[test]
fn an_object_that_is_not_whole_cannot_be_linked() {
    let machine = machine!();
    machine.compile("a.c", PROGRAM, &["-O2"], false);
    // As if repo-cc had been killed after the compiler: what it wrote is kept by a second name.
    let wrapper = machine.scratch.write(
        "clang-19",
        format!(
            "#!/bin/sh\n{} \"$@\" && cp a.c.o raw.o\n",
            machine.clang.display()
        ),
    );
    // The plugin is given to clang itself only, so the request is made here.
    let request = pruning::protocol::Request {
        repository: Some(machine.scratch.repository()),
        prune: true,
        promote: true,
        report: machine.scratch.join("report"),
        ..Default::default()
    };
    let file = machine
        .scratch
        .write("request", serde_json::to_vec(&request).expect("a request"));
    let mut compile = machine.scratch.command("/bin/sh");
    compile
        .arg(wrapper)
        .arg(format!("-fpass-plugin={}", machine.plugin.display()))
        .args(["-O2", "-c", "a.c", "-o", "a.c.o"])
        .env(pruning::REQUEST_VARIABLE, file);
    assert!(compile.status().expect("clang runs").success());
    // Of this environment nothing is known: all is there but what nobody needs.
    let report = std::fs::read(machine.scratch.join("report")).expect("a report");
    let report: pruning::protocol::Report = serde_json::from_slice(&report).expect("a report");
    let linked = machine
        .scratch
        .command(&machine.clang)
        .args(["raw.o", "-o", "raw"])
        .output()
        .expect("clang runs");
    let said = String::from_utf8_lossy(&linked.stderr);
    assert_eq!(
        report.pruned,
        said.contains("this_object_is_not_whole"),
        "{said}"
    );
}
