//! Names of shared objects are found by their hash tables, where these are there and right: what is linked is the same as
//! without them. (A shared object with the hash table of the gABI only, `--hash-style=sysv`, is read whole.)

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{Bench, Linker, exports};

/// Makes `libNAME.so` of a source, with one of the hash tables.
fn shared(bench: &Bench, name: &str, style: &str, source: &str) {
    bench.scratch.write(format!("{name}.c"), source);
    let arguments =
        format!("-shared -fPIC {name}.c -Wl,--hash-style={style} -Wl,-z,undefs -o lib{name}.so");
    bench.driver(Linker::Reference, "gcc", &arguments).ok();
}

/// What the program says that is linked by GNU ld, and by us with either hash table; our two are the same.
fn says(bench: &Bench, libraries: &[(&str, &str)], arguments: &str) -> String {
    let mut images = Vec::new();
    let mut said = String::new();
    for style in ["sysv", "gnu"] {
        for (name, source) in libraries {
            shared(bench, name, style, source);
        }
        bench.same_behaviour("gcc", &format!("{arguments} -Wl,-rpath,."));
        said = bench.execute("program.Ours").text();
        images.push(bench.read("program.Ours"));
    }
    let [one, other] = [0, 1].map(|n| Elf::parse(&images[n]).unwrap());
    assert_eq!(exports(&one), exports(&other), "{arguments}");
    assert_eq!(one.dynsyms.len(), other.dynsyms.len(), "{arguments}");
    assert_eq!(one.dynrelas.len(), other.dynrelas.len(), "{arguments}");
    said
}

#[test]
fn variables_with_several_names() {
    let Some(bench) = Bench::new() else { return };
    // The copy has all names, those that only others know as well: `third` is what another library says of it.
    let values = r#"int value = 1; extern int other __attribute__((weak, alias("value")));
        extern int third __attribute__((weak, alias("value")));
        int unused = 9; int by_other(void) { return other; }"#;
    let user = "extern int third; int by_third(void) { return third; } int other_value(void) { return 0; }";
    let main = r#"#include <stdio.h>
        extern int value; int by_other(void), by_third(void);
        int main(void) { value = 5; printf("%d %d %d\n", value, by_other(), by_third()); }"#;
    bench.scratch.write("main.c", main);
    for options in ["-fno-pie -no-pie", "-fPIE -pie"] {
        let arguments = format!("{options} main.c -L. -lvalues -luser");
        let libraries = [("values", values), ("user", user)];
        assert_eq!(says(&bench, &libraries, &arguments), "5 5 5\n");
    }
    let names = exports(&Elf::parse(&bench.read("program.Ours")).unwrap())
        .into_iter()
        .map(|(name, _)| name)
        .collect::<Vec<_>>();
    assert!(!names.iter().any(|name| name == "unused"), "{names:?}");
}

#[test]
fn definitions_that_take_the_place_of_others() {
    let Some(bench) = Bench::new() else { return };
    let hooks = r#"#include <stdio.h>
        int hook(void) { return 1; } int block[4]; int nobody(void); void *malloc(unsigned long);
        int call(void) { return hook() + block[0]; }"#;
    let main = r#"#include <stdio.h>
        int hook(void) { return 20; } int block[4]; int call(void); int nobody(void) { return 0; }
        int main(void) { block[0] = 3; printf("%d\n", call()); }"#;
    bench.scratch.write("main.c", main);
    let arguments = "-fcommon main.c -L. -lhooks";
    assert_eq!(says(&bench, &[("hooks", hooks)], arguments), "23\n");
}

#[test]
fn bounds_of_sections() {
    let Some(bench) = Bench::new() else { return };
    let library = r#"__attribute__((section("own"), used)) static int theirs = 1;
        extern int __start_own[] __attribute__((visibility("protected"))), __stop_own[];
        int *start(void) { return __start_own; } int *stop(void) { return __stop_own; }"#;
    let main = r#"#include <dlfcn.h>
        #include <stdio.h>
        __attribute__((section("own"), used)) static int ours = 6;
        int *start(void);
        int main(void) { int *p = dlsym(RTLD_DEFAULT, "__start_own"); printf("%d %d\n", p && *p == 6, *start()); }"#;
    bench.scratch.write("main.c", main);
    assert_eq!(
        says(&bench, &[("own", library)], "main.c -L. -lown"),
        "1 1\n"
    );
}

#[test]
fn what_scripts_ask_for() {
    let Some(bench) = Bench::new() else { return };
    let library = "int given = 7, known = 1; int get(void) { return given; }";
    let main = r#"#include <stdio.h>
        int get(void), mine = 42; extern char result[] __attribute__((weak));
        int main(void) { printf("%d %d\n", get(), (int)(long)result); }"#;
    bench.scratch.write("main.c", main);
    bench.scratch.write(
        "extra.ld",
        "PROVIDE(given = mine); result = DEFINED(known) ? 111 : 222;",
    );
    let arguments = "-no-pie main.c extra.ld -L. -lasked";
    assert_eq!(says(&bench, &[("asked", library)], arguments), "42 111\n");
}

#[test]
fn versions_of_names() {
    let Some(bench) = Bench::new() else { return };
    let source = r#"__asm__(".symver old, f@V1"); __asm__(".symver new, f@@V2");
        int old(void) { return 1; } int new(void) { return 2; }
        int old_value = 7; extern int new_value[2] __attribute__((alias("old_value")));
        __asm__(".symver old_value, v@V1"); __asm__(".symver new_value, v@@V2");"#;
    bench.scratch.write("versioned.c", source);
    bench.scratch.write("versions", "V1 {}; V2 { f; v; } V1;");
    let main = r#"#include <stdio.h>
        __asm__(".symver former, f@V1"); int former(void), f(void);
        __asm__(".symver former_value, v@V1"); extern int former_value;
        int main(void) { printf("%d %d %d\n", former(), f(), former_value); }"#;
    bench.scratch.write("main.c", main);
    let exported = ["gnu", "sysv"].map(|style| {
        let arguments = format!(
            "-shared -fPIC versioned.c -Wl,--hash-style={style} -Wl,--version-script=versions -o libv.so"
        );
        bench.driver(Linker::Reference, "gcc", &arguments).ok();
        bench.same_behaviour("gcc", "main.c -no-pie -fno-pie -L. -lv -Wl,-rpath,.");
        assert_eq!(bench.execute("program.Ours").text(), "1 2 7\n");
        exports(&Elf::parse(&bench.read("program.Ours")).unwrap())
    });
    // A copy has the other versions of its name as well.
    assert_eq!(exported[0], exported[1]);
}

#[test]
fn tables_that_are_wrong() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("main.c", "int f(void); int main(void) { return f(); }");
    shared(&bench, "f", "gnu", "int f(void) { return 4; }");
    let good = bench.read("libf.so");
    let (at, size) = {
        let elf = Elf::parse(&good).unwrap();
        let section = elf
            .section_headers
            .iter()
            .find(|section| section.sh_type == goblin::elf::section_header::SHT_GNU_HASH)
            .unwrap();
        (section.sh_offset as usize, section.sh_size as usize)
    };
    // Buckets, the first symbol, words of the filter; the filter; all.
    for (from, to, byte) in [
        (0, 4, 0xff),
        (0, 1, 0),
        (4, 5, 0x7f),
        (8, 12, 0xff),
        (16, 24, 0),
        (16, size, 0xff),
        (0, size, 0),
    ] {
        let mut bad = good.clone();
        bad[at + from..at + to].fill(byte);
        bench.scratch.write("libf.so", bad);
        let run = bench
            .driver(Linker::Ours, "gcc", "main.c -L. -lf -o program")
            .ok();
        assert_eq!(run.errors(), "", "{from}..{to} {byte}");
    }
}
