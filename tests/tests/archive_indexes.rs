//! Members of archives are found by the archives' symbol indexes, where these are there and right: what is linked is the
//! same as without them.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use linking::{Bench, Linker};
use object::Object as _;
use repo_tests::process::run;
use std::process::Command;

/// Compiles `NAME.c` into `NAME.o`.
fn compile(bench: &Bench, name: &str, source: &str) {
    bench.scratch.write(format!("{name}.c"), source);
    let arguments = format!("-fcommon -fPIC -ffunction-sections -c {name}.c -o {name}.o");
    bench.driver(Linker::Reference, "gcc", &arguments).ok();
}

/// Makes an archive anew, with an index or without.
fn archive(bench: &Bench, name: &str, members: &str, index: bool) {
    let _ = std::fs::remove_file(bench.path(name));
    let operation = if index { "rcs" } else { "rcS" };
    run(Command::new("ar")
        .arg(operation)
        .arg(name)
        .args(members.split_whitespace())
        .current_dir(bench.scratch.path()))
    .ok();
}

/// Links with indexes and without: the maps, which show the members and why each is there, all symbols and all addresses, are
/// to be the same. Returns what the program says.
fn same_map(bench: &Bench, archives: &[(&str, &str)], arguments: &str) -> String {
    let maps = [true, false].map(|index| {
        for (name, members) in archives {
            archive(bench, name, members, index);
        }
        let arguments = format!("{arguments} -o program -Wl,-Map=map");
        bench.driver(Linker::Ours, "gcc", &arguments).ok();
        String::from_utf8(bench.read("map")).unwrap()
    });
    assert!(maps[0].contains("Archive member included"), "{}", maps[0]);
    assert_eq!(maps[0], maps[1], "{arguments}");
    bench.execute("program").text()
}

/// The members in the map that [`same_map`] has left.
fn members(bench: &Bench, archive: &str) -> Vec<String> {
    let map = String::from_utf8(bench.read("map")).unwrap();
    let lines = map.lines().filter_map(|line| {
        let member = line.strip_prefix(archive)?.strip_prefix('(')?;
        Some(member.split_once(')')?.0.to_owned())
    });
    lines.collect()
}

#[test]
fn the_same_members_as_without() {
    let Some(bench) = Bench::new() else { return };
    let main = r#"#include <stdio.h>
        int first(void), twice(void), common, hidden(void) __attribute__((visibility("hidden")));
        __attribute__((weak)) int feeble(void);
        int main(void) { printf("%d %d %d %d %d\n", first(), twice(), common, hidden(), feeble ? feeble() : -1); }"#;
    compile(&bench, "main", main);
    compile(
        &bench,
        "first",
        "int second(void); int first(void) { return second() + 1; }",
    );
    compile(
        &bench,
        "second",
        "int third(void); int second(void) { return third() + 1; }",
    );
    compile(&bench, "third", "int third(void) { return 40; }");
    compile(&bench, "twice_a", "int twice(void) { return 1; }");
    compile(&bench, "twice_b", "int twice(void) { return 2; }");
    compile(
        &bench,
        "tentative",
        "int common; int unused_tentative(void) { return 0; }",
    );
    compile(&bench, "valued", "int common = 7;");
    compile(&bench, "hidden", "int hidden(void) { return 9; }");
    compile(&bench, "feeble", "int feeble(void) { return 3; }");
    compile(
        &bench,
        "unused",
        "int undefined_anywhere(void); int unused(void) { return undefined_anywhere(); }",
    );
    let shared =
        "int hidden(void) { return -9; } int first(void); int of_shared(void) { return first(); }";
    compile(&bench, "shared", shared);
    let arguments = "-shared shared.o -o libshared.so";
    bench.driver(Linker::Reference, "gcc", arguments).ok();

    let a = "third.o unused.o feeble.o first.o tentative.o twice_b.o";
    let b = "twice_a.o second.o hidden.o valued.o";
    let archives = [("a.a", a), ("b.a", b)];
    let options = "-Wl,-rpath,. main.o";
    assert_eq!(
        same_map(&bench, &archives, &format!("{options} a.a b.a")),
        "42 2 7 9 -1\n"
    );
    assert_eq!(members(&bench, "a.a"), ["third.o", "first.o", "twice_b.o"]);
    assert_eq!(members(&bench, "b.a"), ["second.o", "hidden.o", "valued.o"]);
    assert_eq!(
        same_map(&bench, &archives, &format!("{options} b.a a.a")),
        "42 1 7 9 -1\n"
    );
    let before = format!("{options} -Wl,--no-as-needed libshared.so a.a b.a");
    assert_eq!(same_map(&bench, &archives, &before), "42 2 7 9 -1\n");
    // What options, scripts, and lists of lazy objects mention.
    for (option, said) in [
        ("-Wl,-u,feeble", "42 2 7 9 3\n"),
        ("-Wl,--undefined-glob=feebl*", "42 2 7 9 3\n"),
        ("-Wl,--require-defined=feeble", "42 2 7 9 3\n"),
        ("-Wl,--defsym=feeble=second", "42 2 7 9 41\n"),
        (
            "-Wl,--wrap=third -Wl,--defsym=__wrap_third=twice",
            "4 2 7 9 -1\n",
        ),
        ("-Wl,--start-lib twice_a.o -Wl,--end-lib", "42 1 7 9 -1\n"),
        ("extern.t", "42 2 7 9 3\n"),
    ] {
        bench.scratch.write("extern.t", "EXTERN(feeble)");
        assert_eq!(
            same_map(&bench, &archives, &format!("{options} {option} a.a b.a")),
            said,
            "{option}"
        );
    }
    let whole = format!("{options} -Wl,--whole-archive c.a -Wl,--no-whole-archive a.a b.a");
    let archives = [archives[0], archives[1], ("c.a", "feeble.o")];
    assert_eq!(same_map(&bench, &archives, &whole), "42 2 7 9 3\n");
}

#[test]
fn versions_and_entry_points() {
    let Some(bench) = Bench::new() else { return };
    let versioned = r#"__asm__(".symver new, f@@V2"); __asm__(".symver old, f@V1");
        int new(void) { return 2; } int old(void) { return 1; }"#;
    compile(&bench, "versioned", versioned);
    let main = r#"#include <stdio.h>
        __asm__(".symver former, f@V1"); int former(void), f(void);
        int main(void) { printf("%d %d\n", former(), f()); }"#;
    compile(&bench, "main", main);
    bench.scratch.write(
        "start.s",
        ".globl _start\n_start: call main\n mov %eax, %edi\n mov $60, %eax\n syscall\n",
    );
    bench.driver(Linker::Reference, "gcc", "-c start.s").ok();
    compile(&bench, "only", "int main(void) { return 5; }");
    let archives = [("v.a", "start.o versioned.o")];
    assert_eq!(same_map(&bench, &archives, "main.o v.a"), "1 2\n");
    assert_eq!(members(&bench, "v.a"), ["versioned.o"]);
    let archives = [("s.a", "versioned.o only.o start.o")];
    same_map(&bench, &archives, "-nostdlib -static s.a");
    assert_eq!(members(&bench, "s.a"), ["only.o", "start.o"]);
    assert_eq!(bench.execute("program").status.code(), Some(5));
}

#[test]
fn indexes_that_are_wrong() {
    let Some(bench) = Bench::new() else { return };
    compile(
        &bench,
        "main",
        "int value(void); int main(void) { return value(); }",
    );
    compile(&bench, "value", "int value(void) { return 6; }");
    archive(&bench, "lib.a", "value.o", true);
    let good = bench.read("lib.a");
    let name = good
        .windows(6)
        .position(|bytes| bytes == b"value\0")
        .unwrap();
    // The count and the offsets are words before the names.
    let offset = name - 4;
    for (at, byte) in [
        (name, b'V'),
        (name + 5, b'x'),
        (offset, 0x7f),
        (offset + 3, good[offset + 3] + 1),
        (offset - 1, 9),
    ] {
        let mut bad = good.clone();
        bad[at] = byte;
        bench.scratch.write("lib.a", bad);
        let run = bench
            .driver(Linker::Ours, "gcc", "main.o lib.a -o program")
            .ok();
        assert_eq!(run.errors(), "", "byte {at}");
        assert_eq!(bench.execute("program").status.code(), Some(6));
    }
    // What only an option asks for is found, too.
    let mut bad = good.clone();
    bad[name] = b'V';
    bench.scratch.write("lib.a", bad);
    compile(&bench, "empty", "int main(void) { return 0; }");
    let arguments = "empty.o -Wl,-u,value lib.a -o program";
    bench.driver(Linker::Ours, "gcc", arguments).ok();
    let program = bench.read("program");
    let program = object::File::parse(&*program).unwrap();
    assert!(program.symbol_by_name("value").is_some());
    // What a pipe has said is there when the link is done again.
    bench
        .scratch
        .write("version", "V1 { global: main; local: *; };");
    let arguments = "cat version | gcc -Bours -shared main.o lib.a -Wl,-z,defs -o program -Wl,--version-script=/dev/stdin";
    run(bench.scratch.command("sh").args(["-c", arguments])).ok();
    let library = bench.read("program");
    let library = goblin::elf::Elf::parse(&library).unwrap();
    let names: Vec<_> = linking::exports(&library)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert!(
        names.iter().any(|name| name.starts_with("main")),
        "{names:?}"
    );
    assert!(
        !names.iter().any(|name| name.starts_with("value")),
        "{names:?}"
    );
    // Without a definition anywhere that is said, once, with all members in view: one's name is nearly the same.
    compile(
        &bench,
        "main",
        "int valeu(void); int main(void) { return valeu(); }",
    );
    bench.scratch.write("lib.a", good);
    let run = bench
        .driver(Linker::Ours, "gcc", "main.o lib.a -o program -Wl,-t")
        .failed();
    assert_eq!(run.text().matches("main.o").count(), 1, "{}", run.report());
    assert_eq!(
        run.errors().matches("undefined symbol: valeu").count(),
        1,
        "{}",
        run.report()
    );
}

#[test]
fn members_that_nothing_needs_are_not_looked_at() {
    let Some(bench) = Bench::new() else { return };
    compile(
        &bench,
        "main",
        "int value(void); int main(void) { return value(); }",
    );
    compile(&bench, "value", "int value(void) { return 6; }");
    bench
        .scratch
        .write("broken.o", &bench.read("value.o")[..100]);
    archive(&bench, "lib.a", "value.o broken.o", true);
    let arguments = "main.o lib.a -o program";
    bench.driver(Linker::Ours, "gcc", arguments).ok();
    assert_eq!(bench.execute("program").status.code(), Some(6));
    archive(&bench, "lib.a", "value.o broken.o", false);
    let run = bench.driver(Linker::Ours, "gcc", arguments).failed();
    assert!(run.errors().contains("lib.a(broken.o)"), "{}", run.report());
}
