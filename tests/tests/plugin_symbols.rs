//! Compiles in which definitions are left out that the repository has, where the optimizer does not see all: another file may define a name otherwise, and
//! statements of assembly say what they like.

use repo_tests::machine;
use repo_tests::pruned::state;

/// What another file may define otherwise is not folded, also where it is kept for those that may inline what is known.
#[test]
fn weak_definitions_stay_weak() {
    const HEADER: &str = "
        typedef int F(int);
        int one(int x);
        __attribute__((weak)) extern const int limit;
        __attribute__((weak)) const int limit = 1;
        __attribute__((weak)) extern const int list[3];
        __attribute__((weak)) const int list[3] = {1, 2, 3};
        __attribute__((weak)) extern F *const call;
        __attribute__((weak)) F *const call = one;
        __attribute__((weak)) int other(int x) { return x + 1; }
        int is_same(void);
        ";
    const OWN: &str = "
        typedef int F(int);
        int two(int x) { return x * 100; }
        extern const int limit, list[3];
        extern F *const call;
        const int limit = 20, list[3] = {30, 40, 50};
        F *const call = two;
        int one(int x) { return x; }
        int other(int x) __attribute__((alias(\"one\")));
        extern int printf(const char *, ...);
        int a(void), b(void), is_same(void);
        int main(void) { printf(\"%d %d %d\\n\", a(), b(), is_same()); return 0; }";
    for options in [
        &["-O0"][..],
        &["-O1"],
        &["-O2"],
        &["-Os"],
        &["-O2", "-fPIC"],
        &["-O2", "-fno-pic"],
    ] {
        let machine = machine!();
        let sum = "{ return limit + list[1] + call(2) + other(1); }";
        machine.verified("a.c", &format!("{HEADER}int a(void) {sum}"), options);
        let compared = "int is_same(void) { F *f = other; return f == one; }";
        let text = format!("{HEADER}int b(void) {sum}\n{compared}");
        machine.verified("b.c", &text, options);
        let said = machine.verified("b.c", &text.replace("+ other(1)", "+ other(2)"), options);
        if options[0] != "-O0" {
            assert!(state(&said, "limit").starts_with("known"), "{said}");
        }
        machine.compile("own.c", OWN, options, false);
        let link = if options.contains(&"-fno-pic") {
            "-no-pie"
        } else {
            "-pie"
        };
        let said = machine.run(&[link, "a.c.o", "b.c.o", "own.c.o"]);
        assert_eq!(
            String::from_utf8_lossy(&said.stdout),
            "261 262 1\n",
            "{options:?}"
        );
    }
}

/// Of a source with assembly that puts something elsewhere, or names what is in no other file, nothing is left out: who inlines it does so as well.
#[test]
fn assembly_that_does_more_than_its_function() {
    let machine = machine!();
    let beside = "nothing is left out: assembly";
    for (statement, is_beside) in [
        ("nop", false),
        ("", false),
        ("1: nop; jmp 1b", false),
        (".Lhere%=: dec %%eax\\n\\tjnz .Lhere%=", false),
        ("lock; addl $1, 4(%%rsp) # .globl comment", false),
        (".byte 0x0f, 0x31", false),
        ("{mov %%eax, %%edx|mov edx, eax}", false),
        (".cfi_remember_state; nop; .cfi_restore_state", false),
        ("call other", false),
        (
            "1: nop\\n.pushsection probes,\\\"a\\\"\\n.quad 1b\\n.popsection",
            true,
        ),
        (".pushsection probes; .quad 1; .popsection", true),
        ("1:.pushsection probes; .quad 1; .popsection", true),
        ("/* it */ .pushsection probes; .quad 1; .popsection", true),
        (".set value, 5", true),
        ("value = 5", true),
        (".comm block,8", true),
        ("here: nop", true),
        (".Lhere: nop", true),
        ("addl $1, counter(%%rip)", true),
        ("call helper", true),
        ("call named", true),
        (
            "mov $'#', %%eax; .pushsection probes; .quad 1; .popsection",
            true,
        ),
        ("nop\\r.pushsection probes\\r.quad 1\\r.popsection\\r", true),
        ("here%=: nop", true),
        ("{nop|.globl here}", true),
    ] {
        let text = format!(
            "static int counter;\nint other(void);\nstatic int under(int) __asm__(\"named\");\nstatic __attribute__((noinline)) int under(int x) {{ return x * 7; }}\nint u(int x) {{ return under(x); }}\nstatic __attribute__((noinline)) int helper(int x) {{ return x * 3; }}\n\
             int f(int x) {{ __asm__ volatile(\"{statement}\" ::: \"memory\"); return helper(x); }}\n\
             int g(int x) {{ return x + counter++ + helper(x); }}\nint h(int x) {{ return x; }}\n"
        );
        let said = machine.compile("a.c", &text, &["-O2"], false);
        assert_eq!(said.contains(beside), is_beside, "{statement}: {said}");
        let said = machine.verified("a.c", &text.replace("return x;", "return x + 7;"), &["-O2"]);
        assert_eq!(said.contains(beside), is_beside, "{statement}: {said}");
    }
}

#[test]
fn tables_that_assembly_makes_are_whole_after_an_edit() {
    const PROBES: &str = "
        #define PROBE(n) __asm__ volatile(\"1: nop\\n.pushsection probes,\\\"a\\\"\\n.quad \" #n \"\\n.popsection\")
        static inline void both(void) { PROBE(3); }
        int f(int x) { PROBE(1); both(); return x; }
        int g(int x) { PROBE(2); both(); return x; }";
    const MAIN: &str = "
        extern int printf(const char *, ...);
        extern long __start_probes[], __stop_probes[];
        int f(int), g(int);
        int main(void) { f(1); g(1); long sum = 0; for (long *p = __start_probes; p < __stop_probes; p++) sum += *p;
          printf(\"%ld\\n\", sum); return 0; }";
    for level in ["-O0", "-O2"] {
        let machine = machine!();
        machine.compile("main.c", MAIN, &[level], false);
        for to in ["return x;", "return x + 1;", "return x + 2;"] {
            let text = PROBES.replacen("return x;", to, 1);
            machine.verified("a.c", &text, &[level]);
            let said = machine.run(&["main.c.o", "a.c.o"]);
            let sum = if level == "-O0" { "6\n" } else { "9\n" };
            assert_eq!(String::from_utf8_lossy(&said.stdout), sum, "{level} {to}");
        }
    }
}
