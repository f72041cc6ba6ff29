//! Relocations and code models that are rare: every model with every kind of output must behave as with the reference
//! linker, or be refused by both.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use linking::{BOTH, Bench, Linker};

const PROGRAM: &str = r#"
#include <stdio.h>
extern int ext_data; int ext_func(int); extern __thread int ext_tls;
static int local_data = 5; int global_data = 7;
static __attribute__((noinline)) int local_func(int a) { return a + local_data; }
__thread int tls = 3; static __thread int local_tls = 4;
int (*pointer)(int) = ext_func;
int *address(void) { return &global_data; }
int main(void) {
    printf("%d %d %d %d %d ", ext_data, ext_func(1), local_func(2), *address(), pointer(3));
    printf("%d\n", tls + local_tls * 10 + ext_tls * 100);
    return 0;
}
"#;

const LIBRARY: &str =
    "int ext_data = 11; int ext_func(int a) { return a * 2; } __thread int ext_tls = 6;";

#[test]
fn code_models_and_thread_local_models() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("program.c", PROGRAM);
    bench.scratch.write("library.c", LIBRARY);
    let compiled = "-shared -fPIC library.c -o liblibrary.so";
    bench.driver(Linker::Reference, "gcc", compiled).ok();
    for (compile, links) in [
        (
            "-mcmodel=large -fPIC",
            &["-pie", "-static", "-shared-library"][..],
        ),
        ("-mcmodel=large -fno-pic", &["-no-pie", "-static"]),
        (
            "-mcmodel=medium -fPIE -mtls-dialect=gnu2",
            &["-pie", "-static-pie"],
        ),
        (
            "-fPIC -mtls-dialect=gnu2",
            &["-pie", "-no-pie", "-static", "-shared-library"],
        ),
        (
            "-fPIC -ftls-model=initial-exec -fno-plt",
            &["-pie", "-shared-library"],
        ),
        ("-fPIC -mno-tls-direct-seg-refs", &["-static-pie"]),
    ] {
        let compile = format!("-O1 {compile} -c program.c library.c");
        bench.driver(Linker::Reference, "gcc", &compile).ok();
        for link in links {
            let arguments = match *link {
                "-shared-library" => "-pie program.o liblibrary.so".to_owned(),
                link => format!("{link} program.o library.o"),
            };
            bench.same_behaviour("gcc", &arguments);
            let said = bench.execute("program.Ours").text();
            assert_eq!(said, "11 2 7 7 6 643\n", "{compile}: {arguments}");
        }
    }
}

#[test]
fn a_local_dynamic_access_stays_in_its_module() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("library.c", LIBRARY);
    bench.scratch.write(
        "program.c",
        "extern __thread int ext_tls; int main(void) { return ext_tls; }",
    );
    let compiled = "-shared -fPIC library.c -o liblibrary.so";
    bench.driver(Linker::Reference, "gcc", compiled).ok();
    let arguments = "-O1 -fPIC -ftls-model=local-dynamic program.c liblibrary.so -o output";
    for linker in BOTH {
        let run = bench.driver(linker, "gcc", arguments).failed();
        let said = run.errors();
        assert!(said.contains("unresolvable"), "{linker:?}: {said}");
        assert!(said.contains("R_X86_64_DTPOFF32"), "{linker:?}: {said}");
    }
}

#[test]
fn sizes_of_symbols() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "size.s",
        ".globl main\nmain: mov sizes(%rip), %eax\n add sizes+8(%rip), %eax\n ret\n.data\n\
         sizes: .long table@SIZE + 1\n.long 0\n.quad table@SIZE\n\
         .globl table\n.type table, @object\n.size table, 20\ntable: .skip 20\n\
         .section .note.GNU-stack,\"\",@progbits\n",
    );
    bench.same_behaviour("gcc", "size.s");
    assert_eq!(bench.execute("program.Ours").status.code(), Some(41));
}

#[test]
fn sizes_of_what_is_not_there() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "size.s",
        ".globl main\nmain: mov size(%rip), %eax\n ret\n.data\n\
         .weak absent\nsize: .quad absent@SIZE + 7\n\
         .section .note.GNU-stack,\"\",@progbits\n",
    );
    bench.same_behaviour("gcc", "-static size.s");
    assert_eq!(bench.execute("program.Ours").status.code(), Some(7));
}

#[test]
fn loads_of_what_is_far_away_stay_loads() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("far.c", "char far[4000L * 1000 * 1000]; char near[1000];");
    bench.scratch.write(
        "main.c",
        "extern char far[], near[]; int main(void) { return far[0] + near[0]; }",
    );
    let arguments = "-fPIC far.c main.c -o output";
    bench.driver(Linker::Ours, "gcc", arguments).ok();
    bench.execute("output").ok();
}

/// How far away something is turns out only when a script or an option has placed it.
#[test]
fn loads_of_what_is_placed_far_away_stay_loads() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "main.c",
        "extern int far; static int near = 3; int *volatile pointer;
         void _start(void) {
             pointer = &near;
             int code = far + *pointer;
             __asm__ volatile(\"syscall\" : : \"a\"(60), \"D\"(code));
         }",
    );
    bench
        .scratch
        .write("far.s", ".section .far,\"aw\"\n.globl far\nfar: .long 4\n");
    bench.scratch.write(
        "far.ld",
        "ENTRY(_start) SECTIONS {
            . = 0x400000; .text : { *(.text*) } .eh_frame : { *(.eh_frame) } . = ALIGN(0x1000);
            .data : { *(.data*) *(.bss*) *(.got*) } . = 0x300000000; .far : { *(.far) } }",
    );
    let compiled = "-O1 -fPIC -fno-stack-protector -c main.c far.s";
    bench.driver(Linker::Reference, "gcc", compiled).ok();
    for options in ["-T far.ld", "--section-start=.far=0x300000000"] {
        let arguments = format!("-static main.o far.o {options} -o output");
        bench.ld(Linker::Ours, &arguments).ok();
        assert_eq!(bench.execute("output").status.code(), Some(7), "{options}");
    }
    // Nearby, loads become addresses again.
    bench
        .ld(Linker::Ours, "-static main.o far.o -o output")
        .ok();
    let image = bench.read("output");
    let elf = goblin::elf::Elf::parse(&image).unwrap();
    let mut names = elf
        .section_headers
        .iter()
        .map(|s| elf.shdr_strtab.get_at(s.sh_name));
    assert!(!names.any(|name| name == Some(".got")));
}

#[test]
fn text_relocations() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "text.s",
        ".globl get\nget: movabs $value, %rax\n ret\n.section .note.GNU-stack,\"\",@progbits\n",
    );
    bench.scratch.write(
        "main.c",
        "int value = 42; int *get(void); int main(void) { return *get(); }",
    );
    for linker in BOTH {
        let run = bench
            .driver(linker, "gcc", "-pie text.s main.c -o output")
            .ok();
        assert!(
            run.errors().contains("creating DT_TEXTREL in a PIE"),
            "{linker:?}: {}",
            run.report()
        );
        assert_eq!(
            bench.execute("output").status.code(),
            Some(42),
            "{linker:?}"
        );
        let image = bench.read("output");
        let elf = goblin::elf::Elf::parse(&image).unwrap();
        assert!(linking::tag(&elf, goblin::elf::dynamic::DT_TEXTREL).is_some());
        let quiet = "-pie text.s main.c -Wl,-z,notext -o output";
        let run = bench.driver(linker, "gcc", quiet).ok();
        assert!(!run.errors().contains("DT_TEXTREL"), "{}", run.report());
        let strict = "-pie text.s main.c -Wl,-z,text -o output";
        bench.driver(linker, "gcc", strict).failed();
    }
}

#[test]
fn values_that_do_not_fit() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("far.s", ".globl far\nfar = 0x1234\n");
    bench.scratch.write(
        "byte.s",
        ".globl main\nmain: movzbl byte(%rip), %eax\n ret\n.data\nbyte: .byte far\n",
    );
    let arguments = "-no-pie byte.s far.s -o output";
    for linker in BOTH {
        let run = bench.driver(linker, "gcc", arguments).failed();
        let truncated = "relocation truncated to fit: R_X86_64_8 against";
        assert!(run.errors().contains(truncated), "{}", run.report());
    }
    // GNU ld 2.40 obeys it for some relocations only.
    let arguments = format!("{arguments} -Wl,-z,noreloc-overflow");
    bench.driver(Linker::Ours, "gcc", &arguments).ok();
    assert_eq!(bench.execute("output").status.code(), Some(0x34));
}

/// Code of 16 bits counts its distances round the 64 KiB; what fills 16 bits may be meant with or without a sign.
#[test]
fn sixteen_bits() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "real.s",
        ".code16\n.globl _start\n_start: jmp near\n.skip 0x9000\nnear: ret\n\
         .globl high, low, over\nhigh = 0xfff0\nlow = -0xfff0\nover = 0x10000\n",
    );
    let place = |value: &str| format!(".text\n.word {value}\n.byte 0\n");
    bench.driver(Linker::Reference, "gcc", "-c real.s").ok();
    for (value, fits) in [("high", true), ("low", true), ("over", false)] {
        bench.scratch.write("value.s", place(value));
        bench.driver(Linker::Reference, "gcc", "-c value.s").ok();
        let [theirs, ours] = BOTH.map(|linker| {
            let arguments = "-Ttext=0x1000 --oformat=binary real.o value.o -o output";
            let run = bench.ld(linker, arguments);
            if fits {
                run.ok();
                return bench.read("output");
            }
            let run = run.failed();
            assert!(
                run.errors().contains("relocation truncated to fit"),
                "{}",
                run.report()
            );
            Vec::new()
        });
        assert_eq!(theirs, ours, "{value}");
    }
}

#[test]
fn sizes_of_what_others_define_are_found_at_run_time() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "size.s",
        ".globl size\n.data\nsize: .quad table@SIZE\n.section .note.GNU-stack,\"\",@progbits\n",
    );
    bench.scratch.write("small.c", "char table[20];");
    bench.scratch.write("large.c", "char table[30];");
    bench.scratch.write(
        "main.c",
        "extern long size; int main(void) { return size; }",
    );
    for (library, sources) in [("libtable.so", "small.c"), ("libother.so", "large.c")] {
        let arguments = format!("-shared -fPIC {sources} -Wl,-soname,libtable.so -o {library}");
        bench.driver(Linker::Reference, "gcc", &arguments).ok();
    }
    for options in ["-no-pie", "-pie"] {
        bench.same_behaviour("gcc", &format!("{options} main.c size.s libtable.so"));
        assert_eq!(
            bench.execute("program.Ours").status.code(),
            Some(20),
            "{options}"
        );
    }
    std::fs::copy(bench.path("libother.so"), bench.path("libtable.so")).unwrap();
    assert_eq!(bench.execute("program.Ours").status.code(), Some(30));
}

/// A resolver of the program cannot be called while its libraries are bound, before the program is relocated.
#[test]
fn indirect_functions_of_the_program_for_its_libraries() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "library.c",
        "int chosen(void); int (*pointer)(void) = chosen; int call(void) { return chosen() + pointer(); }",
    );
    let library = "-shared -fPIC library.c -o liblibrary.so";
    bench.driver(Linker::Reference, "gcc", library).ok();
    bench.scratch.write(
        "main.c",
        "int call(void); extern int (*pointer)(void); static int impl(void) { return 21; }
         static int (*resolve(void))(void) { return impl; }
         int chosen(void) __attribute__((ifunc(\"resolve\"))); int (*volatile word)(void) = chosen;
         int main(void) { return call() + (pointer == chosen && word == chosen ? 0 : 100); }",
    );
    for options in [
        "-no-pie -fPIE",
        "-no-pie -fno-pie",
        "-no-pie -fPIE -Wl,-z,now",
        "-no-pie -fno-pie -Wl,-z,now",
    ] {
        bench.same_behaviour("gcc", &format!("{options} -O1 main.c liblibrary.so"));
        assert_eq!(
            bench.execute("program.Ours").status.code(),
            Some(42),
            "{options}"
        );
    }
    // What GNU ld 2.40 makes of this does not start.
    let arguments = "-pie -fPIE -O1 main.c liblibrary.so -o output";
    bench.driver(Linker::Ours, "gcc", arguments).ok();
    assert_eq!(bench.execute("output").status.code(), Some(42));
}

#[test]
fn large_common_blocks() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "large.c",
        "long large[300 * 1000 * 1000]; void set(void) { large[299999999] = 40; } long get(void) { return large[299999999]; }",
    );
    bench.scratch.write(
        "main.c",
        "int small[10]; char zone[3]; void set(void); long get(void);
         int main(void) { small[9] = 2; set(); return small[9] + get() + zone[1]; }",
    );
    let compiled = "-O1 -fcommon -fno-pic -mcmodel=medium -c large.c";
    bench.driver(Linker::Reference, "gcc", compiled).ok();
    let compiled = "-O1 -fcommon -fno-pic -c main.c";
    bench.driver(Linker::Reference, "gcc", compiled).ok();
    for inputs in ["large.o main.o", "main.o large.o"] {
        bench.same_behaviour("gcc", &format!("-no-pie {inputs}"));
        assert_eq!(
            bench.execute("program.Ours").status.code(),
            Some(42),
            "{inputs}"
        );
    }
}
