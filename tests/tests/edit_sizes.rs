//! Edit, build, run, a hundred times a day: what each edit of a large file costs in bytes of the repository. A compilation is
//! recorded as a difference to its predecessor (SPEC.md, section 19), so that is some records of what was changed, whatever the
//! size of the file.

#[path = "../../store/tests/golden/programs/mod.rs"]
mod programs;
#[path = "../../store/tests/golden/reader.rs"]
mod reader;

use repo_tests::binaries::Binaries;
use repo_tests::build::{Family, Toolchain};
use repo_tests::process::run;
use repo_tests::programs::Language;
use repo_tests::scratch::Scratch;
use std::fmt::Write as _;
use std::fs;
use store::engine::{OpenOptions, Store};
use store::program::Repository;

/// Bytes that one edit may cost.
const BAR: u64 = 8 << 10;
const FUNCTIONS: usize = 400;

/// A file of many functions; `edit` may change the text of each, by number.
fn source(edit: impl Fn(usize, String) -> String) -> String {
    let mut text = String::from(
        "#include <stdio.h>\n#include <string.h>\nextern int ext(int, const char *);\n",
    );
    for number in 0..FUNCTIONS {
        let last = match number {
            0 => "n".to_owned(),
            _ => format!("f{}(n, s)", number - 1),
        };
        let function = format!(
            "int f{number}(int x, const char *s) {{ int n = {number}; for (int i = 0; i < x; i++) \
             n += ext(i * {}, s) + (int)strlen(s); if (n > {}) printf(\"n %d of {number}\\n\", n); return {last}; }}\n",
            number + 3,
            number * 7,
        );
        let _ = write!(text, "{}", edit(number, function));
    }
    text
}

/// The repository's bytes, and how many of its compilations are differences.
fn sizes(scratch: &Scratch) -> (u64, usize) {
    let repository = Repository::open_read_only(&scratch.repository()).expect("a repository");
    let programs = repository.programs().expect("a snapshot");
    let compilations = programs.records(format_spec::program::Index::Compilations);
    let views = compilations.map(|record| {
        let address = record.expect("a record").address;
        programs.compilation_at(address).expect("a compilation")
    });
    let differences = views.filter(|view| view.base().is_some()).count();
    (programs.snapshot().size(), differences)
}

/// What each of the edits costs, one after the other.
fn costs(options: &[&str]) -> Option<Vec<(&'static str, u64, usize)>> {
    let toolchain = Toolchain::plain(Family::Gcc)?.through_repository(Binaries::get());
    let scratch = Scratch::new();
    // Where leaves of the index become full follows from the UUID: let it be the same in each run.
    let options_of_store = OpenOptions {
        create: true,
        uuid: Some([7; 16]),
        ..OpenOptions::default()
    };
    drop(Store::open(scratch.repository(), &options_of_store).expect("room"));
    let compile = |text: String| {
        scratch.write("a.c", text);
        let mut command = toolchain.command(&scratch, Language::C);
        command
            .args(["-O2", "-c", "a.c", "-o", "a.o"])
            .args(options)
            // What is known of the command for another time is beside the point.
            .env("REPO_CC_DISABLE", "1");
        run(&mut command).ok();
        sizes(&scratch)
    };
    let (mut before, differences) = compile(source(|_, text| text));
    assert_eq!(differences, 0);
    let body = |number: usize, text: String| match number {
        100 => text.replace("n +=", "n += 2 *"),
        _ => text,
    };
    let string = move |number: usize, text: String| match number {
        200 => text.replace("int n =", "printf(\"another one\\n\"); int n ="),
        _ => body(number, text),
    };
    let added = move |number: usize, text: String| match number {
        50 => format!(
            "int added(int x) {{ return ext(x, \"added\"); }}\n{}",
            string(number, text)
        ),
        _ => string(number, text),
    };
    let removed = move |number: usize, text: String| match number {
        0 => text.replace("f0", "g0"),
        1 => text.replace("f0(n, s)", "n"),
        300 => String::new(),
        301 => text.replace("f300(n, s)", "n"),
        _ => added(number, text),
    };
    let edits = [
        ("a body", source(body)),
        ("a body with a new string", source(string)),
        ("a function added", source(added)),
        ("a function removed, and the first renamed", source(removed)),
    ];
    let mut costs = Vec::new();
    for (what, text) in edits {
        let (after, differences) = compile(text);
        costs.push((what, after - before, differences));
        before = after;
    }
    // What is linked is what was compiled. (This `ext` keeps the loops short.)
    scratch.write(
        "main.c",
        "#include <stdio.h>\nint ext(int a, const char *s) { (void)a, (void)s; return -3; }\nint f399(int, const char *);\n\
         int main(void) { printf(\"%d\\n\", f399(3, \"abc\")); return 0; }\n",
    );
    let plain = Toolchain::plain(Family::Gcc)?;
    let mut outputs = Vec::new();
    for (toolchain, name) in [(&toolchain, "ticket"), (&plain, "plain")] {
        let mut command = toolchain.command(&scratch, Language::C);
        command
            .args(["-O2", "-c", "a.c", "-o", &format!("{name}.o")])
            .args(options);
        // The ticket is the one of the last edit.
        if name == "plain" {
            run(&mut command).ok();
        } else {
            fs::copy(scratch.join("a.o"), scratch.join("ticket.o")).expect("a ticket");
        }
        let mut command = toolchain.command(&scratch, Language::C);
        command.args(["-O2", "main.c", &format!("{name}.o"), "-o", name]);
        if name == "ticket" {
            command.arg(format!("-B{}", linker_directory(&scratch).display()));
        }
        run(&mut command).ok();
        outputs.push(run(&mut scratch.command(scratch.join(name))).ok().stdout);
    }
    assert_eq!(outputs[0], outputs[1]);
    let mut verify = scratch.command(Binaries::get().path("repo-dump"));
    run(verify.arg("--verify")).ok();
    run(scratch
        .command(Binaries::get().path("repo-dump"))
        .arg("--stats"))
    .ok();
    // So does a reader that was made from SPEC.md.
    let summary =
        programs::Programs::new(fs::read(scratch.repository()).expect("it is there")).check();
    assert!(summary.compilations >= 5, "{summary:?}");
    // A compaction ends what depends on others, and the ticket links as before.
    run(&mut scratch.command(Binaries::get().path("repo-gc"))).ok();
    let mut verify = scratch.command(Binaries::get().path("repo-dump"));
    run(verify.arg("--verify")).ok();
    Some(costs)
}

/// A directory in which `ld` is repo-ld.
fn linker_directory(scratch: &Scratch) -> std::path::PathBuf {
    let directory = scratch.join("bin");
    fs::create_dir_all(&directory).expect("room");
    let link = directory.join("ld");
    let _ = std::os::unix::fs::symlink(Binaries::get().path("repo-ld"), link);
    directory
}

#[test]
fn an_edit_costs_what_it_changed() {
    let Some(costs) = costs(&[]) else { return };
    println!("{costs:?}");
    for (number, (what, bytes, differences)) in (1..).zip(costs) {
        assert!(bytes <= BAR, "{what}: {bytes} bytes");
        assert_eq!(differences, number, "{what}");
    }
}

#[test]
fn with_debug_information_compilations_are_differences_too() {
    let Some(costs) = costs(&["-g"]) else { return };
    println!("{costs:?}");
    for (number, (what, _, differences)) in (1..).zip(costs) {
        assert_eq!(differences, number, "{what}");
    }
}

/// How many definitions there are.
fn definitions(scratch: &Scratch) -> usize {
    let repository = Repository::open_read_only(&scratch.repository()).expect("a repository");
    let programs = repository.programs().expect("a snapshot");
    programs
        .records(format_spec::program::Index::Fragments)
        .count()
}

/// A function that says its name (which gcc keeps as `__func__.0`, `__func__.1`, …), counts in a variable of its own, and calls one that
/// gcc makes anew for it.
fn speaker(name: &str) -> String {
    format!(
        "static __attribute__((noinline)) int of_{name}(int a, int b) {{ return ext(b ? a : -a, \"{name}\"); }}\n\
         int {name}(int n) {{ static int calls = 7; calls += n; return ext(calls, __func__) + of_{name}(n, 0); }}\n"
    )
}

#[test]
fn numbers_that_compilers_give_to_locals_count_for_nothing() {
    for family in [Family::Gcc, Family::Clang] {
        let Some(toolchain) = Toolchain::plain(family) else {
            continue;
        };
        let scratch = Scratch::new();
        let text = |names: &[&str]| {
            let speakers: String = names.iter().map(|name| speaker(name)).collect();
            format!("int ext(int, const char *);\n{speakers}")
        };
        let few: Vec<String> = (0..12).map(|number| format!("speaker{number}")).collect();
        let mut names: Vec<&str> = few.iter().map(String::as_str).collect();
        let through = toolchain.through_repository(Binaries::get());
        let compile = |names: &[&str]| {
            scratch.write("a.c", text(names));
            let mut command = through.command(&scratch, Language::C);
            run(command.args(["-O2", "-c", "a.c", "-o", "a.o"])).ok();
            definitions(&scratch)
        };
        let before = compile(&names);
        names.insert(6, "middle");
        let after = compile(&names);
        // The functions and variables of the one that was added, and their frame descriptions.
        assert!(after - before <= 6, "{before}, then {after}");
        // Each still says its own name, and counts in its own variable.
        let calls: String = (names.iter())
            .map(|name| format!("printf(\"%d %d\\n\", {name}(1), {name}(10));"))
            .collect();
        let declared: String = names.iter().map(|it| format!("int {it}(int);")).collect();
        scratch.write(
            "main.c",
            format!(
                "#include <stdio.h>\n{declared}\nint ext(int n, const char *s) {{ printf(\"%s %d\\n\", s, n); return n; }}\n\
                 int main(void) {{ {calls} return 0; }}\n"
            ),
        );
        let mut plain = toolchain.command(&scratch, Language::C);
        run(plain.args(["-O2", "main.c", "a.c", "-o", "plain"])).ok();
        let mut ours = through.command(&scratch, Language::C);
        ours.arg(format!("-B{}", linker_directory(&scratch).display()));
        run(ours.args(["-O2", "main.c", "a.o", "-o", "ours"])).ok();
        let [plain, ours] =
            ["plain", "ours"].map(|name| run(&mut scratch.command(scratch.join(name))).ok().text());
        assert_eq!(plain, ours);
        let mut shown = scratch.command(Binaries::get().path("repo-dump"));
        let shown = run(shown.args(["fragments", "calls"])).ok().text();
        assert!(shown.contains("speaker"), "{shown}");
    }
}
