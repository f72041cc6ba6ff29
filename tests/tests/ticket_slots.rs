//! Definitions of tickets that take addresses from slots of the global offset table by `R_X86_64_GOTPCREL`, which says
//! nothing of the instruction: the same slots, and the same relocations of them, as from objects.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{Bench, Linker, check_image};
use repo_tests::binaries::Binaries;
use repo_tests::process::run;

/// Slots of what is defined here, elsewhere, nowhere, by a resolver, in thread data; of what is local and what is global;
/// by instructions that could do without one and by others. What is ordinary is in functions of its own, whose fixups the
/// link does not look at but for what their compilation says of them.
const SOURCE: &str = r#"#include <stdio.h>
#include <string.h>
    int variable = 3; static int hidden = 4; extern int absent __attribute__((weak));
    _Thread_local int local = 5;
    static int chosen(void) { return 6; }
    static void *resolve(void) { return chosen; }
    int choose(void) __attribute__((ifunc("resolve")));
    __attribute__((noinline)) int callee(int n) { return n + 1; }
    static __attribute__((noinline, used)) int quiet(int n) { return n + 2; }
    static __attribute__((noinline)) int by_local_slot(void) {
        int (*f)(int); int *p;
        __asm__("mov quiet@GOTPCREL(%%rip), %0" : "=r"(f));
        __asm__("mov hidden@GOTPCREL(%%rip), %0" : "=r"(p) : "m"(hidden));
        return f(10) + *p;
    }
    static __attribute__((noinline)) int compares(const void *p) {
        char equal;
        __asm__("cmp variable@GOTPCREL(%%rip), %1; sete %0" : "=r"(equal) : "r"(p) : "cc");
        return equal;
    }
    int only_here = 7;
    static __attribute__((noinline)) int by_global_slot(void) { return only_here; }
    static __attribute__((noinline)) int by_shared_slot(const char *text) { return strcspn(text, "u"); }
    int main(int argc, char **argv) {
        size_t (*length)(const char *) = strlen;
        int sum = callee(argc) + variable + by_local_slot() + compares(&variable) + local + choose() + (&absent != 0)
            + by_global_slot() + by_shared_slot(argv[0]);
        printf("%d %d %d\n", sum, (int)length("four"), puts == puts);
        return !(stdout && argv);
    }"#;

/// All dynamic relocations with what they name, by place in the table, but for the places; and the size of `.got`.
fn slots(image: &[u8]) -> (Vec<(u32, String)>, Option<u64>) {
    let elf = Elf::parse(image).unwrap();
    let all = elf.dynrelas.iter().chain(elf.pltrelocs.iter());
    let mut relocations: Vec<_> = all
        .map(|relocation| {
            let symbol = elf.dynsyms.get(relocation.r_sym).unwrap();
            let name = elf.dynstrtab.get_at(symbol.st_name).unwrap_or("");
            (relocation.r_type, name.to_owned())
        })
        .collect();
    relocations.sort();
    let is_got = |header: &&goblin::elf::SectionHeader| {
        elf.shdr_strtab.get_at(header.sh_name) == Some(".got")
    };
    let got = elf.section_headers.iter().find(is_got);
    (relocations, got.map(|header| header.sh_size))
}

#[test]
fn slots_from_tickets_are_those_from_objects() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("source.c", SOURCE);
    let options = "-O1 -fPIC -fno-plt -Wa,-mrelax-relocations=no -c source.c";
    let object = format!("{options} -o object.o");
    bench.driver(Linker::Reference, "gcc", &object).ok();
    let relocations = {
        let bytes = bench.read("object.o");
        let elf = Elf::parse(&bytes).unwrap();
        let all = elf.shdr_relocs.iter().flat_map(|(_, list)| list.iter());
        all.filter(|relocation| relocation.r_type == 9).count()
    };
    assert!(relocations > 6, "{relocations}");
    let mut command = bench.scratch.command(Binaries::get().path("repo-cc"));
    command.args("gcc".split(' ').chain(options.split(' ')));
    run(command.args(["-o", "ticket.o"])).ok();
    assert!(repo_tests::compare::is_ticket_file(bench.path("ticket.o")));

    for kind in [
        "-pie",
        "-no-pie",
        "-pie -Wl,--no-relax",
        "-pie -Wl,--gc-sections",
        "-pie -Wl,-z,pack-relative-relocs",
    ] {
        let [object, ticket] = ["object", "ticket"].map(|input| {
            bench
                .driver(Linker::Ours, "gcc", &format!("{kind} {input}.o -o {input}"))
                .ok();
            let image = bench.read(input);
            check_image(&image);
            (bench.execute(input).ok().stdout, slots(&image))
        });
        assert_eq!(object, ticket, "{kind}");
    }
    let [object, ticket] = ["object", "ticket"].map(|input| {
        bench
            .driver(
                Linker::Ours,
                "gcc",
                &format!("-shared {input}.o -o {input}.so"),
            )
            .ok();
        slots(&bench.read(&format!("{input}.so")))
    });
    assert_eq!(object, ticket);
}

/// A program of three tickets from a repository that knows nothing else and from one that knows much more, where what the link
/// has to do with the repository's names and pieces is done in other ways: the same bytes.
#[test]
fn what_else_a_repository_knows_does_not_matter() {
    let Some(bench) = Bench::new() else { return };
    let mut crowd = String::new();
    for n in 0..4000 {
        crowd += &format!("const char *stranger_{n}(void) {{ return \"stranger {n}\"; }}\n");
    }
    bench.scratch.write("crowd.c", crowd);
    let other = r#"int wrapped(void); const char *said(void) { return "stranger 7"; }
        int other(void) { return wrapped(); } "#;
    bench.scratch.write("other.c", other);
    let main = r#"#include <stdio.h>
        int other(void), wrapped(void), __real_wrapped(void); const char *said(void);
        int __wrap_wrapped(void) { return 40 + __real_wrapped(); }
        int main(void) { printf("%s %d %d\n", said(), other(), wrapped()); puts("only here"); }"#;
    bench
        .scratch
        .write("third.c", "int wrapped(void) { return 1; }");
    bench.scratch.write("main.c", main);
    let images = ["alone", "crowded"].map(|place| {
        let compile = |name: &str| {
            let mut command = bench.scratch.command(Binaries::get().path("repo-cc"));
            let arguments = format!("--repo {place}.repo gcc -O1 -c {name}.c -o {name}.o");
            run(command.args(arguments.split(' '))).ok();
            assert!(repo_tests::compare::is_ticket_file(
                bench.path(&format!("{name}.o"))
            ));
        };
        if place == "crowded" {
            compile("crowd");
        }
        ["other", "main", "third"].into_iter().for_each(compile);
        let arguments = "main.o other.o third.o -Wl,--wrap=wrapped -o program";
        bench.driver(Linker::Ours, "gcc", arguments).ok();
        assert_eq!(
            bench.execute("program").text(),
            "stranger 7 41 41\nonly here\n"
        );
        bench.read("program")
    });
    assert!(images[0] == images[1]);
}
