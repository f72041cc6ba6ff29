//! The default layout, and the script that says the same: what `--verbose` prints gives, by `-T`, the same bytes.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use linking::{Bench, Linker};

const C: &str = r#"
#include <pthread.h>
#include <stdio.h>
__thread int first = 5; static __thread _Alignas(64) char zeros[100];
extern char _end[], end[], _edata[], edata[], __bss_start[], _etext[], etext[], __executable_start[];
int common[10]; static int nothing[100]; const char *names[] = { "a", "b" };
static int one(void) { return 1; }
static int (*choose(void))(void) { return one; }
int chosen(void) __attribute__((ifunc("choose")));
int (*pointer)(void) = chosen;
__attribute__((constructor(101))) static void early(void) { puts("early"); }
__attribute__((constructor)) static void late(void) { puts("late"); }
__attribute__((destructor)) static void last(void) { puts("last"); }
__attribute__((section("mine"))) int in_mine = 4;
__attribute__((section("constants"))) const int in_constants = 4;
__attribute__((section("code"))) int in_code(void) { return 2; }
__attribute__((section("empty,\"aw\",@nobits#"))) int in_empty;
extern int __start_mine[], __stop_mine[];
static void *run(void *x) { zeros[0] = first; return x; }
int unused(void) { return nothing[3]; }
int main(int argc, char **argv) {
    pthread_t thread;
    pthread_create(&thread, 0, run, 0);
    pthread_join(thread, 0);
    printf("%d %d %d %d %ld %s\n", chosen(), pointer(), in_code(), in_constants, (long)(__stop_mine - __start_mine), names[argc & 1]);
    printf("%d\n", (end == _end) + (edata == _edata) + (etext == _etext) + (_edata <= __bss_start) + (__executable_start < _etext));
    return common[1] + in_empty;
}
"#;

const CXX: &str = r#"
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>
struct Base { virtual ~Base() {} virtual int f() = 0; };
struct Derived : Base { int f() override { throw std::runtime_error("thrown"); } };
static std::vector<std::string> list = { "a", "b" };
inline thread_local std::string local = "local";
int main() {
    Base *base = new Derived;
    try { base->f(); } catch (std::exception &e) { std::cout << e.what() << list.size() << local << "\n"; }
    delete base;
}
"#;

const LIBRARY: &str = r#"
#include <stdio.h>
int variable = 7; __thread int local = 3; static int zeros[20];
void function(void) { printf("%d %d\n", variable, zeros[1]); local++; }
const void *const table[] = { (void *)function, &variable };
__attribute__((constructor)) static void start(void) { zeros[1] = 1; }
"#;

const USER: &str = r#"
extern int variable; void function(void);
int main(void) { function(); return variable - 7; }
"#;

const BARE: &str = r#"
static int x = 3; static int y[10];
void _start(void) { y[x] = x; __asm__ volatile("mov $60,%eax; xor %edi,%edi; syscall"); }
"#;

const CODE: &str = r#"
void _start(void) { __asm__ volatile("mov $60,%eax; xor %edi,%edi; syscall"); }
"#;

const PLAIN: &str = r#"
int plain_data = 3; int plain_zeros[10];
void _start(void) { plain_zeros[1] = plain_data; __asm__ volatile("mov $60,%eax; xor %edi,%edi; syscall"); }
"#;

/// What is read-only after relocation ends with thread-local zeros that begin on a page of their own.
const TLS_PAGES: &str = r#"
__thread int one __attribute__((used)) = 1;
__thread char zeros[64] __attribute__((aligned(4096), used));
int counter = 3;
void _start(void) { counter++; for (;;); }
"#;

const ZERO_TLS: &str = r#"
__thread int thread_zeros[16] __attribute__((aligned(64)));
const char constant[37] = "constant";
int thread_data = 3; int thread_other[10];
void _start(void) { thread_other[1] = thread_data; __asm__ volatile("mov $60,%eax; xor %edi,%edi; syscall"); }
"#;

const DATA: &str = "int only_data = 3; const int only_constant = 5;";

const LARGE: &str = r#"
.section .lrodata,"al"; .p2align 3; .globl far; far: .quad 1
.section .ldata,"awl"; .p2align 4; .globl far_data; far_data: .quad far
.section .lbss,"awl",@nobits; .p2align 5; .skip 100
.section .bss,"aw",@nobits; .skip 3
"#;

fn bench() -> Option<Bench> {
    let bench = Bench::new()?;
    let sources = [
        ("c.c", C, "-O2"),
        ("cxx.cc", CXX, "-O2"),
        ("library.c", LIBRARY, "-O2"),
        ("user.c", USER, "-O2"),
        ("bare.c", BARE, "-O2"),
        ("code.c", CODE, "-O2"),
        ("plain.c", PLAIN, "-O2 -fno-pic"),
        ("zero_tls.c", ZERO_TLS, "-O2 -fno-pic"),
        ("tls_pages.c", TLS_PAGES, "-O2 -fno-pic"),
        ("data.c", DATA, "-O2"),
        ("large.s", LARGE, ""),
    ];
    for (name, text, options) in sources {
        bench.scratch.write(name, text);
        let (stem, kind) = name.split_once('.').unwrap();
        let driver = if kind == "cc" { "g++" } else { "gcc" };
        let line = format!("-c -fPIC {options} -ffunction-sections -g {name} -o {stem}.o");
        bench.driver(Linker::Reference, driver, &line).ok();
    }
    let line = "-shared -Wl,-soname,libuser.so library.o -o libuser.so";
    bench.driver(Linker::Ours, "gcc", line).ok();
    Some(bench)
}

/// Links without a script and with the one that says the same.
fn same_bytes(bench: &Bench, driver: &str, line: &str) {
    let link = |options: &str| {
        let line = format!("{line} {options}");
        bench.driver(Linker::Ours, driver, &line).ok()
    };
    link("-o first");
    let told = link("-Wl,--verbose -o first").text();
    let script = told.split(&"=".repeat(50)).nth(1).unwrap();
    bench.scratch.write("script.ld", script);
    link("-Wl,-T,script.ld -o second");
    assert!(
        bench.read("first") == bench.read("second"),
        "{driver} {line}: outputs differ"
    );
}

#[test]
fn kinds_of_output() {
    let Some(bench) = bench() else { return };
    for kind in ["-static", "-static-pie", "-no-pie", "-pie"] {
        same_bytes(&bench, "gcc", &format!("{kind} c.o"));
        same_bytes(&bench, "g++", &format!("{kind} cxx.o"));
        same_bytes(&bench, "gcc", &format!("{kind} c.o -Wl,--gc-sections"));
    }
    for kind in ["-no-pie", "-pie"] {
        same_bytes(&bench, "gcc", &format!("{kind} user.o libuser.so"));
        same_bytes(&bench, "gcc", &format!("{kind} c.o large.o"));
    }
    for options in ["", "-nostdlib", "-Wl,-z,now"] {
        same_bytes(&bench, "gcc", &format!("-shared library.o {options}"));
        same_bytes(&bench, "gcc", &format!("-shared data.o {options}"));
    }
}

#[test]
fn programs_without_a_library() {
    let Some(bench) = bench() else { return };
    for options in ["-static", "-static -Wl,--build-id=none", "-pie"] {
        for object in ["bare.o", "code.o"] {
            same_bytes(&bench, "gcc", &format!("-nostdlib {object} {options}"));
        }
    }
    // Nothing is read-only after relocation, so that the data goes on where it would without that.
    for options in ["", "-Wl,-z,norelro", "-Wl,-z,max-page-size=65536"] {
        for object in ["plain.o", "zero_tls.o", "tls_pages.o"] {
            let line = format!("-nostdlib -static {object} -Wl,--build-id=none {options}");
            same_bytes(&bench, "gcc", &line);
        }
    }
}

#[test]
fn options() {
    let Some(bench) = bench() else { return };
    for option in [
        "-z,norelro",
        "-z,noseparate-code",
        "-z,separate-loadable-segments",
        "-z,now",
        "-z,lazy",
        "-z,max-page-size=65536",
        "-z,common-page-size=65536",
        "-z,nognustack",
        "-z,pack-relative-relocs",
        "-z,stack-size=65536",
        "-z,rodynamic",
        "-z,nosectionheader",
        "-z,keep-text-section-prefix",
        "--hash-style=sysv",
        "--hash-style=both",
        "-s",
        "-S",
        "-x",
        "--export-dynamic",
        "--emit-relocs",
        "--no-rosegment",
        "--no-eh-frame-hdr",
        "--build-id=sha1",
        "--unique",
        "-Ttext-segment=0x10000000",
        "-Trodata-segment=0x20000000",
    ] {
        same_bytes(&bench, "gcc", &format!("c.o -Wl,{option}"));
        same_bytes(&bench, "g++", &format!("cxx.o -Wl,{option}"));
    }
    for option in [
        "-z,norelro",
        "-z,noseparate-code",
        "-z,separate-loadable-segments",
    ] {
        same_bytes(&bench, "gcc", &format!("-static c.o -Wl,{option}"));
        same_bytes(&bench, "gcc", &format!("-shared library.o -Wl,{option}"));
    }
}
