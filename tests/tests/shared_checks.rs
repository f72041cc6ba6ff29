//! What is said of shared objects among the inputs: symbols that they refer to and nobody defines, libraries of other
//! machines, which of them the output needs.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use linking::{BOTH, Bench, Linker, needed};

/// `libfoo.so`, which defines `foo`; `libbar.so`, which uses it and does not say from where; `libsaid.so`, which does;
/// `libfound.so`, which also says where that is.
fn libraries() -> Option<Bench> {
    let bench = Bench::new()?;
    let write = |name: &str, text: &str| bench.scratch.write(name, text);
    write("foo.c", "void foo(void) { }");
    write("bar.c", "void foo(void); void bar(void) { foo(); }");
    write(
        "main.c",
        "void bar(void); int main(void) { bar(); return 0; }",
    );
    for arguments in [
        "-shared -fPIC foo.c -o libfoo.so",
        "-shared -fPIC bar.c -o libbar.so",
        "-shared -fPIC bar.c -L. -lfoo -o libsaid.so",
        "-shared -fPIC bar.c -L. -lfoo -Wl,-rpath,$ORIGIN -o libfound.so",
    ] {
        bench.driver(Linker::Reference, "gcc", arguments).ok();
    }
    Some(bench)
}

#[test]
fn references_of_shared_objects_must_be_defined() {
    let Some(bench) = libraries() else { return };
    for (arguments, good) in [
        ("main.c -Wl,--no-as-needed libfoo.so libbar.so", true),
        ("main.c libbar.so", false),
        ("main.c libfound.so", true),
        ("main.c libsaid.so -Wl,-rpath-link,.", true),
        ("main.c libsaid.so -Wl,-rpath,.", true),
        ("main.c libbar.so -Wl,--allow-shlib-undefined", true),
        (
            "main.c libbar.so -Wl,--unresolved-symbols=ignore-in-shared-libs",
            true,
        ),
        (
            "main.c libbar.so -Wl,--unresolved-symbols=ignore-in-object-files",
            false,
        ),
        ("main.c libbar.so -Wl,--unresolved-symbols=ignore-all", true),
        ("main.c libbar.so -Wl,--warn-unresolved-symbols", true),
        (
            "main.c libbar.so -Wl,--warn-unresolved-symbols -Wl,--error-unresolved-symbols",
            false,
        ),
        ("main.c libbar.so -Wl,--defsym=foo=0", true),
        ("main.c libbar.so foo.c", true),
        ("-shared -fPIC main.c libbar.so", true),
        ("-shared -fPIC main.c libbar.so -Wl,-z,defs", true),
        (
            "-shared -fPIC main.c libbar.so -Wl,--no-allow-shlib-undefined",
            false,
        ),
    ] {
        for linker in BOTH {
            let run = bench.driver(linker, "gcc", &format!("{arguments} -o output"));
            assert_eq!(run.status.success(), good, "{linker:?}: {}", run.report());
            if !good {
                assert!(
                    run.errors().contains("undefined reference to `foo'"),
                    "{linker:?}: {}",
                    run.report()
                );
            }
        }
    }
    // What is needed only in name is not part of the program.
    bench
        .scratch
        .write("alone.c", "int main(void) { return 0; }");
    let arguments = "alone.c -Wl,--as-needed libbar.so -o output";
    bench.driver(Linker::Ours, "gcc", arguments).ok();
}

#[test]
fn hidden_symbols_are_not_there_for_shared_objects() {
    let Some(bench) = libraries() else { return };
    bench.scratch.write(
        "hidden.c",
        "__attribute__((visibility(\"hidden\"))) void foo(void) { }",
    );
    for linker in BOTH {
        let run = bench
            .driver(linker, "gcc", "main.c hidden.c libbar.so -o output")
            .failed();
        assert!(
            run.errors().contains("hidden symbol `foo' in"),
            "{linker:?}: {}",
            run.report()
        );
    }
    // A shared object that has it makes it good.
    bench.same_behaviour(
        "gcc",
        "main.c hidden.c -Wl,--no-as-needed libbar.so libfoo.so",
    );
}

#[test]
fn hidden_weak_symbols_that_nothing_defines_have_no_address_in_a_shared_object() {
    let Some(bench) = Bench::new() else { return };
    for (text, good) in [
        ("lea foo(%rip), %rax", false),
        ("movabs $foo@GOTOFF, %rax", false),
        ("call foo", true),
        ("mov foo@GOTPCREL(%rip), %rax", true),
        (".data\n.quad foo", true),
    ] {
        bench
            .scratch
            .write("weak.s", format!(".weak foo\n.hidden foo\n{text}\n"));
        bench.driver(Linker::Reference, "gcc", "-c weak.s").ok();
        for linker in BOTH {
            let run = bench.ld(linker, "-shared weak.o -o weak.so");
            assert_eq!(
                run.status.success(),
                good,
                "{linker:?} {text}: {}",
                run.report()
            );
            if !good {
                assert!(
                    run.errors()
                        .contains("can not be used when making a shared object")
                );
            }
            // A program has no other place that it could be loaded at.
            bench.ld(linker, "weak.o -o weak").ok();
        }
    }
}

#[test]
fn hidden_references_take_the_member_behind_a_shared_object() {
    let Some(bench) = libraries() else { return };
    bench.scratch.write(
        "hidden.c",
        "__attribute__((visibility(\"hidden\"))) void foo(void); int main(void) { foo(); return 0; }",
    );
    bench.driver(Linker::Reference, "gcc", "-c foo.c").ok();
    repo_tests::process::run(
        bench
            .scratch
            .command("ar")
            .args(["rcs", "libmember.a", "foo.o"]),
    )
    .ok();
    bench.same_behaviour("gcc", "hidden.c libfoo.so libmember.a");
}

#[test]
fn libraries_of_other_machines_are_passed_over() {
    let Some(bench) = libraries() else { return };
    let mut foreign = bench.read("libfoo.so");
    foreign[18] = 0xb7; // AArch64
    for directory in ["other", "this"] {
        std::fs::create_dir(bench.path(directory)).unwrap();
    }
    bench.scratch.write("other/libfoo.so", &foreign);
    bench
        .scratch
        .write("this/libfoo.so", bench.read("libfoo.so"));
    let skipping = "skipping incompatible other/libfoo.so when searching for -lfoo";
    for linker in BOTH {
        let arguments = "main.c libbar.so -Lother -Lthis -lfoo -o output";
        let run = bench.driver(linker, "gcc", arguments).ok();
        assert!(run.errors().contains(skipping), "{}", run.report());
        let arguments = format!("{arguments} -Wl,--no-warn-search-mismatch");
        let run = bench.driver(linker, "gcc", &arguments).ok();
        assert!(!run.errors().contains(skipping), "{}", run.report());
        let arguments = "main.c libbar.so -Lother -lfoo -o output";
        let run = bench.driver(linker, "gcc", arguments).failed();
        assert!(run.errors().contains(skipping), "{}", run.report());
        assert!(
            run.errors().contains("cannot find -lfoo"),
            "{}",
            run.report()
        );
        // Named, it is an error.
        let arguments = "main.c libbar.so other/libfoo.so -o output";
        let run = bench.driver(linker, "gcc", arguments).failed();
        assert!(
            run.errors().contains("file in wrong format"),
            "{}",
            run.report()
        );
    }
}

#[test]
fn only_what_is_reached_is_needed() {
    let Some(bench) = libraries() else { return };
    bench.scratch.write(
        "dead.c",
        "void foo(void); void dead(void) { foo(); } int main(void) { return 0; }",
    );
    let arguments = "-ffunction-sections dead.c -Wl,--as-needed libfoo.so -o output";
    let libraries = |options: &str| {
        let arguments = format!("{arguments} {options}");
        bench.driver(Linker::Ours, "gcc", &arguments).ok();
        let image = bench.read("output");
        needed(&goblin::elf::Elf::parse(&image).unwrap())
    };
    assert!(libraries("").iter().any(|name| name == "libfoo.so"));
    assert!(
        !libraries("-Wl,--gc-sections")
            .iter()
            .any(|name| name == "libfoo.so")
    );
}

#[test]
fn auditors_of_dependencies() {
    let Some(bench) = libraries() else { return };
    let arguments = "-shared -fPIC bar.c -Wl,--audit=one.so -Wl,--audit=two.so -o libaudited.so";
    bench.driver(Linker::Reference, "gcc", arguments).ok();
    for linker in BOTH {
        let arguments = "main.c libaudited.so libfoo.so -Wl,--depaudit=mine.so -o output";
        bench.driver(linker, "gcc", arguments).ok();
        let image = bench.read("output");
        let elf = goblin::elf::Elf::parse(&image).unwrap();
        let at = linking::tag(&elf, 0x6fff_fefb).expect("DT_DEPAUDIT");
        let list = elf.dynstrtab.get_at(at as usize).unwrap();
        assert_eq!(list, "mine.so:one.so:two.so", "{linker:?}");
    }
}

#[test]
fn protected_data_is_not_copied() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "library.c",
        "__attribute__((visibility(\"protected\"))) int foo = 3;",
    );
    bench
        .scratch
        .write("main.c", "extern int foo; int main(void) { return foo; }");
    let arguments = "-shared -fPIC library.c -o library.so";
    bench.driver(Linker::Reference, "gcc", arguments).ok();
    for linker in BOTH {
        let direct = "-fno-pic -no-pie -mno-direct-extern-access";
        let arguments = "-fno-pic -no-pie main.c library.so -o output";
        let run = bench.driver(linker, "gcc", arguments).failed();
        let said = run.errors();
        assert!(said.contains("non-copyable protected symbol"), "{said}");
        // Through the GOT it is no copy.
        let arguments = format!("{direct} main.c library.so -o output");
        bench.driver(linker, "gcc", &arguments).ok();
    }
}

/// The dynamic linker ends a program that asks for a version of an object which is not among those that it needs.
#[test]
fn a_weak_reference_to_what_is_not_needed_has_no_version() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "weak.c",
        r#"
        int puts(const char *) __attribute__((weak));
        __attribute__((force_align_arg_pointer)) void _start(void) {
            if (puts) puts("it is there");
            __asm__ volatile("mov $60, %eax; mov $7, %edi; syscall");
        }
        "#,
    );
    // The reference must go through the global offset table, so that it may stay open.
    let arguments = "-nostdlib -fPIE -pie weak.c -Wl,--as-needed -lc";
    for image in bench.same_behaviour("gcc", arguments) {
        let elf = goblin::elf::Elf::parse(&image).unwrap();
        assert!(needed(&elf).is_empty());
        assert!(elf.verneed.is_none());
    }
    assert_eq!(bench.execute("program.Ours").status.code(), Some(7));
    // Where something else needs it, the version is there.
    let strong = "-fPIE -pie strong.c weak_user.c -Wl,--as-needed";
    bench.scratch.write(
        "strong.c",
        "int printf(const char *, ...); int user(void); int main(void) { printf(\"%d\\n\", user()); return 0; }",
    );
    bench.scratch.write(
        "weak_user.c",
        "int puts(const char *) __attribute__((weak)); int user(void) { return puts && puts(\"it is there\") > 0; }",
    );
    for image in bench.same_behaviour("gcc", strong) {
        let elf = goblin::elf::Elf::parse(&image).unwrap();
        assert_eq!(needed(&elf), ["libc.so.6"]);
        assert!(elf.verneed.is_some());
    }
}
