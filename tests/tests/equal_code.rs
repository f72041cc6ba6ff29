//! Equal code, and equal data, under other names: one fragment, in one object and in several, whichever compiler has made it.
//!
//! What refers to something by another name is not equal, and is not asked for: a table of virtual functions, code that calls a
//! static function of another name, and, with `-fPIC` by clang, code that calls itself by a name that others may take.

use repo_tests::binaries::{self, Binaries};
use repo_tests::process::run;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Each is there with `a` and with `b` at the place of `@`.
const SOURCE: &str = r#"
int leaf_@(int x) { return x * 3 + 1; }
int call_@(int x) { return out(x) + 2; }
int text_@(int x) { return printf("hello %d\n", x); }
int choose_@(int x) { switch (x) { case 0: return 7; case 1: return 9; case 2: errs = 7; return 3; case 3: return 4; case 4: return 40; case 5: return 3; default: return x; } }
double real_@(double x) { return x * 1.25 + 3.5; }
int data_@ = 5;
const int table_@[4] = {1, 2, 3, 4};
int zero_@[9];
int (*pointer_@)(int) = out;
int cold_@(int x) { if (x > 5) { out(x); die(); } return out(x + 1); }
const char *words_@[] = {"one", "two"};
"#;
const DECLARATIONS: &str = "
extern int out(int); extern int printf(const char *, ...); extern int errs;
extern void die(void) __attribute__((noreturn, cold));
";
/// Clang fills the last frame description of an object up to eight bytes, so that of two equal functions that of the last is
/// another. This one is not compared.
const LAST: &str = "int last(int x) { return out(x) * 13; }\n";
/// The same of C++, in section groups.
const CLASSES: &str = r#"
inline int inline_@(int x) { return out(x) * 5; }
int (*holds@)(int) = inline_@;
template <int N> int made_@(int x) { return out(x) + N; }
template int made_@<1>(int);
struct Class_@ { int value(int x); };
int Class_@::value(int x) { return out(x) * 11; }
"#;

fn twice(text: &str) -> String {
    text.replace('@', "a") + &text.replace('@', "b")
}

/// The fragments of what a ticket defines, by name.
fn fragments(scratch: &Scratch, ticket: &str) -> BTreeMap<String, String> {
    let mut dump = scratch.command(Binaries::get().path("repo-dump"));
    let shown = run(dump.args(["--json", ticket])).ok();
    let shown: Value = serde_json::from_str(&shown.text()).expect("JSON");
    let members = shown["compilation"]["members"].as_array().expect("members");
    let named = members.iter().filter_map(|member| {
        let name = member["name"].as_str()?.to_owned();
        Some((name, member["fragment"].as_str()?.to_owned()))
    });
    named.collect()
}

fn compile(scratch: &Scratch, compiler: &Path, options: &[&str], source: &str, prune: bool) {
    let mut command = scratch.command(Binaries::get().path("repo-cc"));
    command
        .arg(compiler)
        .args(options)
        .args(["-w", "-c", source, "-o"]);
    command.arg(format!("{source}.o"));
    if prune {
        command.env("REPO_CC_PRUNE", "1");
    }
    run(&mut command).ok();
}

/// All whose names differ by a letter are one fragment.
#[track_caller]
fn same(
    of_a: &BTreeMap<String, String>,
    of_b: &BTreeMap<String, String>,
    at_least: usize,
    what: &str,
) {
    let mut pairs = 0;
    for (name, fragment) in of_a {
        for (from, to) in [("_a", "_b"), ("ass_aE", "ass_bE"), ("_ai", "_bi")] {
            let other = name.replace(from, to);
            if other == *name {
                continue;
            }
            if let Some(of_other) = of_b.get(&other) {
                assert_eq!(fragment, of_other, "{what}: {name} and {other}");
                pairs += 1;
            }
            break;
        }
    }
    assert!(pairs >= at_least, "{what}: only {pairs} are there twice");
}

fn check(compiler: &Path, options: &[&str], prune: bool) {
    let scratch = Scratch::new();
    let what = format!("{} {options:?}", compiler.display());
    scratch.write("both.c", DECLARATIONS.to_owned() + &twice(SOURCE) + LAST);
    scratch.write(
        "both.cc",
        format!("extern \"C\" {{ {DECLARATIONS} }}\n") + &twice(CLASSES),
    );
    for letter in ["a", "b"] {
        let text = SOURCE.replace('@', letter);
        scratch.write(
            format!("{letter}.c"),
            DECLARATIONS.to_owned() + &text + LAST,
        );
    }
    for source in ["both.c", "both.cc", "a.c", "b.c"] {
        compile(&scratch, compiler, options, source, prune);
    }
    let both = fragments(&scratch, "both.c.o");
    same(&both, &both, 11, &what);
    let classes = fragments(&scratch, "both.cc.o");
    same(&classes, &classes, 3, &what);
    // And in other objects.
    same(
        &fragments(&scratch, "a.c.o"),
        &fragments(&scratch, "b.c.o"),
        11,
        &what,
    );
    for (name, fragment) in fragments(&scratch, "a.c.o") {
        if name == "last" {
            continue;
        }
        assert_eq!(both.get(&name), Some(&fragment), "{what}: {name}");
    }
}

#[test]
fn equal_code_of_gcc_is_one_fragment() {
    let [gcc] = require!("gcc");
    // By default gcc itself makes the second of two equal functions a jump to the first, or another name of it.
    for options in [&["-O0"][..], &["-O1", "-fPIC"], &["-Os", "-fno-ipa-icf"]] {
        check(&gcc, options, false);
    }
}

#[test]
fn equal_code_of_clang_is_one_fragment() {
    let [clang] = require!("clang-19");
    for options in [&["-O0", "-fPIC"][..], &["-O2"], &["-O3", "-fno-pic"]] {
        check(&clang, options, false);
        if binaries::plugin().is_some() {
            check(&clang, options, true);
        }
    }
}
