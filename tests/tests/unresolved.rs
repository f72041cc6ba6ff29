//! What nothing defines: when that is an error whatever the options say, when it is left to the dynamic linker, and what
//! references become then; and definitions that cannot be meant.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::{Elf, dynamic, reloc, sym};
use linking::{BOTH, Bench, Linker, tag};

fn assemble(bench: &Bench, name: &str, text: &str) {
    let source = format!("{name}.s");
    let text = format!("{text}\n.section .note.GNU-stack,\"\",@progbits\n");
    bench.scratch.write(&source, text);
    let arguments = format!("-c {source} -o {name}.o");
    bench.driver(Linker::Reference, "gcc", &arguments).ok();
}

/// Types and names of the dynamic relocations.
fn dynamic_relocations(image: &[u8]) -> Vec<(u32, String)> {
    let elf = Elf::parse(image).expect("an independent reader understands it");
    let tables = elf.dynrelas.iter().chain(elf.pltrelocs.iter());
    let mut found: Vec<_> = tables
        .map(|relocation| {
            let symbol = elf.dynsyms.get(relocation.r_sym).unwrap();
            let name = elf.dynstrtab.get_at(symbol.st_name).unwrap_or("");
            (relocation.r_type, name.to_owned())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn what_must_be_defined_here_is_missed_by_everybody() {
    let Some(bench) = Bench::new() else { return };
    for visibility in ["hidden", "protected", "internal"] {
        assemble(
            &bench,
            "local",
            &format!(".{visibility} absent\n.data\n.quad absent"),
        );
        for options in [
            "-shared",
            "-shared -z undefs",
            "-shared -z defs --warn-unresolved-symbols",
            "-pie --unresolved-symbols=ignore-all",
        ] {
            for linker in BOTH {
                let arguments = format!("{options} local.o -o output");
                let run = bench.ld(linker, &arguments).failed();
                let said = run.errors();
                assert!(
                    said.contains("undefined reference to `absent'"),
                    "{linker:?}: {arguments}: {said}"
                );
            }
        }
    }
}

#[test]
fn what_is_no_error_is_left_to_the_dynamic_linker() {
    let Some(bench) = Bench::new() else { return };
    assemble(
        &bench,
        "open",
        ".globl _start\n_start: call absent@PLT\n.data\n.quad absent_data",
    );
    // By the older hash table the reader knows how many symbols there are.
    let shared = "-shared -z defs --warn-unresolved-symbols --hash-style=sysv";
    let [theirs, ours] = BOTH.map(|linker| {
        let arguments = format!("{shared} open.o -o output");
        bench.ld(linker, &arguments).ok();
        dynamic_relocations(&bench.read("output"))
    });
    assert_eq!(theirs, ours);
    let expected = [
        (reloc::R_X86_64_64, "absent_data".to_owned()),
        (reloc::R_X86_64_JUMP_SLOT, "absent".to_owned()),
    ];
    assert_eq!(ours, expected);
    // A program does without.
    for linker in BOTH {
        let arguments = "-pie --unresolved-symbols=ignore-all open.o -o output";
        bench.ld(linker, arguments).ok();
        let image = bench.read("output");
        let elf = Elf::parse(&image).unwrap();
        assert!(
            !elf.dynstrtab.to_vec().unwrap().contains(&"absent"),
            "{linker:?}"
        );
    }
}

#[test]
fn an_executable_without_shared_objects_is_not_dynamic() {
    let Some(bench) = Bench::new() else { return };
    assemble(
        &bench,
        "start",
        ".globl _start\n.weak absent\n_start: ret\n.data\n.quad absent",
    );
    for linker in BOTH {
        bench.ld(linker, "--export-dynamic start.o -o output").ok();
        let image = bench.read("output");
        assert!(Elf::parse(&image).unwrap().dynamic.is_none(), "{linker:?}");
    }
}

#[test]
fn words_that_name_what_may_be_missing() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "main.c",
        "extern int foo(void) __attribute__((weak)); int (*pointer)(void) = foo;
         int main(void) { return pointer ? pointer() : foo ? 1 : 0; }",
    );
    for options in ["-no-pie", "-no-pie -fPIC", "-pie"] {
        let images = bench.same_behaviour("gcc", &format!("main.c {options}"));
        let [theirs, ours] = images.map(|image| dynamic_relocations(&image));
        let named = |list: &[(u32, String)]| {
            let mut kinds: Vec<u32> = list
                .iter()
                .filter(|(_, name)| name == "foo")
                .map(|(kind, _)| *kind)
                .collect();
            kinds.dedup();
            kinds
        };
        assert_eq!(named(&theirs), named(&ours), "{options}");
    }
    // How far zero is from a place that moves nobody knows.
    assemble(
        &bench,
        "distance",
        ".globl _start\n.weak absent\n_start: lea absent(%rip), %rax",
    );
    for linker in BOTH {
        let run = bench.ld(linker, "-pie distance.o -o output").failed();
        assert!(run.errors().contains("R_X86_64_PC32"), "{}", run.report());
        bench.ld(linker, "-no-pie distance.o -o output").ok();
    }
    // In 32 bits a shared object has no room for what the dynamic linker would say.
    assemble(&bench, "narrow", ".weak absent\n.data\n.long absent");
    for linker in BOTH {
        let run = bench
            .ld(linker, "-shared -z notext narrow.o -o output")
            .failed();
        assert!(run.errors().contains("R_X86_64_32"), "{}", run.report());
    }
}

#[test]
fn thread_local_symbols_that_may_be_missing() {
    let Some(bench) = Bench::new() else { return };
    assemble(
        &bench,
        "weak",
        ".weak absent\n.globl get\nget: lea absent@dtpoff+48(%rax), %rcx\n ret",
    );
    assemble(
        &bench,
        "open",
        ".globl get\nget: mov absent@gottpoff(%rip), %rax\n ret",
    );
    for linker in BOTH {
        bench.ld(linker, "-shared weak.o -o output").ok();
        let image = bench.read("output");
        let code = [0x48, 0x8d, 0x88, 48, 0, 0, 0];
        assert!(image.windows(7).any(|bytes| bytes == code), "{linker:?}");
        bench.ld(linker, "-shared open.o -o output").ok();
        let image = bench.read("output");
        let elf = Elf::parse(&image).unwrap();
        let is_absent = |symbol: &sym::Sym| elf.dynstrtab.get_at(symbol.st_name) == Some("absent");
        let absent = elf.dynsyms.iter().find(is_absent).unwrap();
        assert_eq!(absent.st_type(), sym::STT_TLS, "{linker:?}");
    }
}

#[test]
fn a_number_does_not_move_with_the_output() {
    let Some(bench) = Bench::new() else { return };
    assemble(&bench, "call", ".globl _start\n_start: call answer@PLT");
    assemble(
        &bench,
        "number",
        ".globl answer\n.type answer, @function\nanswer = 42",
    );
    for linker in BOTH {
        let run = bench.ld(linker, "-pie call.o number.o -o output").failed();
        assert!(run.errors().contains("absolute"), "{}", run.report());
        bench.ld(linker, "-no-pie call.o number.o -o output").ok();
    }
}

#[test]
fn a_protected_function_has_one_address() {
    let Some(bench) = Bench::new() else { return };
    assemble(
        &bench,
        "library",
        ".globl foo\n.protected foo\n.type foo, @function\nfoo: ret",
    );
    bench
        .ld(Linker::Reference, "-shared library.o -o library.so")
        .ok();
    assemble(
        &bench,
        "address",
        ".globl _start\n_start: mov $foo, %eax\n call foo@PLT",
    );
    assemble(
        &bench,
        "call",
        ".globl _start\n_start: call foo@PLT\n.data\n.quad foo",
    );
    for linker in BOTH {
        let run = bench.ld(linker, "address.o library.so -o output").failed();
        let said = run.errors();
        assert!(
            said.contains("non-canonical reference to canonical protected function"),
            "{said}"
        );
        bench.ld(linker, "call.o library.so -o output").ok();
    }
}

#[test]
fn the_global_offset_table_is_the_linker_s() {
    let Some(bench) = Bench::new() else { return };
    assemble(
        &bench,
        "table",
        ".data\n.globl _GLOBAL_OFFSET_TABLE_\n_GLOBAL_OFFSET_TABLE_: .quad 0\n\
         .text\n.globl get\nget: mov absent@GOTPCREL(%rip), %rax",
    );
    for linker in BOTH {
        let run = bench.ld(linker, "-shared table.o -o output").failed();
        let wanted = "multiple definition of `_GLOBAL_OFFSET_TABLE_'";
        assert!(run.errors().contains(wanted), "{}", run.report());
    }
}

#[test]
fn lists_of_what_can_be_preempted_overrule_symbolic() {
    let Some(bench) = Bench::new() else { return };
    assemble(
        &bench,
        "both",
        ".globl foo, bar\nfoo: call bar@PLT\nbar: call foo@PLT",
    );
    bench.scratch.write("list", "{ foo; };");
    for (options, symbolic) in [
        ("", true),
        ("--export-dynamic-symbol=foo", false),
        ("--dynamic-list=list", false),
    ] {
        for linker in BOTH {
            let arguments = format!("-shared -Bsymbolic {options} both.o -o output");
            bench.ld(linker, &arguments).ok();
            let image = bench.read("output");
            let elf = Elf::parse(&image).unwrap();
            let found = tag(&elf, dynamic::DT_SYMBOLIC).is_some();
            assert_eq!(found, symbolic, "{linker:?}: {options}");
            let called = (reloc::R_X86_64_JUMP_SLOT, "foo".to_owned());
            let is_open = dynamic_relocations(&image).contains(&called);
            assert_eq!(is_open, !symbolic, "{linker:?}: {options}");
        }
    }
}

#[test]
fn a_version_must_be_somebody_s() {
    let Some(bench) = Bench::new() else { return };
    assemble(
        &bench,
        "refer",
        ".globl bar\nbar: call _foo@PLT\n.symver _foo, foo@V1",
    );
    for linker in BOTH {
        let run = bench.ld(linker, "-shared refer.o -o output").failed();
        assert!(run.errors().contains("foo@V1"), "{}", run.report());
    }
}
