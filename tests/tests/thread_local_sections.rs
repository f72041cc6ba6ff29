//! Thread-local storage in sections whose names nobody knows: its image is one range whatever they are called.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::{Elf, program_header};
use linking::{Bench, Linker, check_image};

const PROGRAM: &str = r#"
    #include <pthread.h>
    #include <stdio.h>
    _Thread_local int plain = 1;
    _Thread_local int zero;
    _Thread_local int named __attribute__((section("my_thread_data"))) = 1000;
    _Thread_local int other __attribute__((section(".tother"))) = 77;
    #ifdef MORE
    // Sections for variables that are zero have no bytes if the assembler is told so.
    __asm__(".section my_thread_zeros,\"awT\",@nobits\n.globl blank\n.balign 16\nblank: .zero 24\n"
            ".type blank, @object\n.size blank, 24\n"
            // Nobody writes there.
            ".section my_constants,\"aT\",@progbits\n.globl fixed\n.balign 4\nfixed: .long 4242\n"
            ".type fixed, @object\n.size fixed, 4\n.text");
    extern _Thread_local int blank[6];
    extern _Thread_local const int fixed;
    #else
    _Thread_local int blank[6];
    _Thread_local const int fixed = 4242;
    #endif
    static void *show(void *unused) {
        int sum = 0;
        for (int i = 0; i < 6; i++) sum += blank[i];
        printf("%d %d %d %d %d %d\n", plain, zero, named, other, sum, fixed);
        plain = zero = named = other = blank[5] = -1;
        return unused;
    }
    int main(void) {
        pthread_t thread;
        show(0);
        if (pthread_create(&thread, 0, show, 0) || pthread_join(thread, 0)) return 1;
        return 0;
    }"#;

const KINDS: [&str; 4] = [
    "-pie -fPIE",
    "-no-pie -fno-pie",
    "-static",
    "-pie -fPIC -Wl,-z,norelro",
];

/// Checks what the program that `repo-ld` made says, and where its thread-local image is.
fn check(bench: &Bench, program: &str, options: &str) {
    assert_eq!(
        bench.execute(program).ok().text(),
        "1 0 1000 77 0 4242\n1 0 1000 77 0 4242\n",
        "{options}"
    );
    let image = bench.read(program);
    check_image(&image);
    let elf = Elf::parse(&image).unwrap();
    let tls = elf
        .program_headers
        .iter()
        .find(|p| p.p_type == program_header::PT_TLS)
        .expect("there is a TLS segment");
    // The range holds the variables (the C library's as well) and what alignment asks for, no page more.
    assert!(tls.p_memsz < 0x200, "{options}: {tls:?}");
    assert!(tls.p_filesz <= tls.p_memsz);
}

#[test]
fn sections_with_names_of_their_own_are_part_of_the_image() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("a.c", PROGRAM);
    for options in KINDS {
        bench.same_behaviour("gcc", &format!("-O1 a.c {options} -pthread"));
        check(&bench, "program.Ours", options);
    }
}

/// GNU ld breaks such programs: it puts zeros without bytes before variables that have some.
#[test]
fn so_are_those_that_have_no_bytes_and_those_that_are_only_read() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("a.c", PROGRAM);
    for options in KINDS {
        let arguments = format!("-DMORE -O1 a.c {options} -pthread -o more");
        bench.driver(Linker::Ours, "gcc", &arguments).ok();
        check(&bench, "more", options);
    }
}
