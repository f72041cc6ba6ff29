//! `eu-elflint --gnu-ld`, which knows the gABI's rules for linked files and what GNU ld makes of them, finds nothing to say
//! of outputs: programs of every kind in C and C++, and shared objects, by the default layout and by the same layout as a script.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use linking::{Bench, Linker};
use repo_tests::process::run;
use repo_tests::require;
use std::path::Path;

const C: &str = r#"
    #include <stdio.h>
    static int value = 3;
    int *pointer = &value;
    __thread int local = 5;
    __thread int zero;
    static int quick(void) { return 7; }
    static int (*choose(void))(void) { return quick; }
    int chosen(void) __attribute__((ifunc("choose")));
    extern int maybe(void) __attribute__((weak));
    int main(void) {
        printf("%d %d %d %d %d\n", *pointer, local, zero, chosen(), maybe ? 1 : 0);
        return 0;
    }"#;

const CXX: &str = r#"
    #include <stdexcept>
    #include <stdio.h>
    template <class T> struct Holder {
        static T held;
        static int &counter() { static int count = 3; return count; }
    };
    template <class T> T Holder<T>::held = T();
    int main() {
        try { throw std::runtime_error("thrown"); }
        catch (const std::exception &e) { printf("%s %d\n", e.what(), Holder<int>::held + Holder<long>::counter()); }
    }"#;

const LIBRARY: &str = r#"
    int given(int);
    static int hidden; int *shown = &hidden;
    __thread int own;
    int taken(int x) { return given(x) + hidden + own; }"#;

/// What the checker finds. It does not know the notes of probes (`stapsdt`), which libstdc++ has: of them it is silent.
fn complaints(lint: &Path, bench: &Bench, name: &str) -> Vec<String> {
    let mut command = bench.scratch.command(lint);
    let said = run(command.args(["--gnu-ld", name]));
    let text = said.text();
    let lines = text.lines().filter(|line| !line.contains("stapsdt"));
    lines
        .filter(|line| *line != "No errors" && !line.trim().is_empty())
        .map(str::to_owned)
        .collect()
}

/// A bench with the sources, compiled for any place.
fn bench() -> Option<Bench> {
    let bench = Bench::new()?;
    bench.scratch.write("c.c", C);
    bench.scratch.write("cxx.cc", CXX);
    bench.scratch.write("library.c", LIBRARY);
    for (driver, source, object) in [
        ("gcc", "c.c", "c.o"),
        ("g++", "cxx.cc", "cxx.o"),
        ("gcc", "library.c", "library.o"),
    ] {
        let line = format!("-g -O1 -fPIC -c {source} -o {object}");
        bench.driver(Linker::Reference, driver, &line).ok();
    }
    Some(bench)
}

const PROGRAMS: [&str; 4] = ["-pie", "-no-pie", "-static", "-static-pie"];

#[test]
fn programs_and_shared_objects() {
    let [lint] = require!("eu-elflint");
    let Some(bench) = bench() else { return };
    let mut lines = Vec::new();
    for kind in PROGRAMS {
        for (driver, object) in [("gcc", "c.o"), ("g++", "cxx.o")] {
            lines.push((driver, format!("{kind} {object}")));
        }
        // Relocations of a static program are about a symbol table, which is gone then: GNU ld's are about none, too.
        if kind != "-static" {
            lines.push(("gcc", format!("{kind} c.o -s")));
        }
        lines.push(("gcc", format!("{kind} c.o -Wl,-z,now -Wl,--gc-sections")));
        lines.push(("gcc", format!("{kind} c.o -Wl,-z,noseparate-code")));
        lines.push(("gcc", format!("{kind} c.o -Wl,-z,norelro")));
    }
    for options in ["", "-s", "-Wl,-z,now"] {
        lines.push(("gcc", format!("-shared library.o {options}")));
    }
    for (driver, line) in lines {
        let made = bench.driver(Linker::Ours, driver, &format!("{line} -o made"));
        made.ok();
        let found = complaints(&lint, &bench, "made");
        assert!(found.is_empty(), "{line}: {found:#?}");
        if !line.contains("-shared") {
            bench.execute("made").ok();
        }
    }
}

#[test]
fn the_same_layout_as_a_script() {
    let [lint] = require!("eu-elflint");
    let Some(bench) = bench() else { return };
    let kinds = PROGRAMS.map(|kind| format!("{kind} c.o"));
    for line in kinds.into_iter().chain(["-shared library.o".to_owned()]) {
        let told = bench.driver(
            Linker::Ours,
            "gcc",
            &format!("{line} -Wl,--verbose -o made"),
        );
        let told = told.ok().text();
        let script = told.split(&"=".repeat(50)).nth(1).unwrap();
        bench.scratch.write("script.ld", script);
        let made = format!("{line} -Wl,-T,script.ld -o made");
        bench.driver(Linker::Ours, "gcc", &made).ok();
        let mut found = complaints(&lint, &bench, "made");
        // A label of an empty section is behind the last one, in a gap that no section has.
        found.retain(|line| !line.contains("(__TMC_LIST__): st_value out of bounds"));
        assert!(found.is_empty(), "{line}: {found:#?}");
    }
}
