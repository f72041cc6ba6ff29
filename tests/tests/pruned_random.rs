//! Programs in C++ that are drawn at random, part by part ([`repo_tests::random_cxx`]), and edited: what is compiled in parts is what is
//! compiled whole, and the program, which is linked incrementally, prints what one of plain objects prints.
//!
//! The draw is the same at every run. `$REPO_TESTS_SEED` sets where it begins, `$REPO_TESTS_SOURCES_OF` how many programs there are (2), `$REPO_TESTS_EDITS` how
//! many edits each gets (3).

use repo_tests::binaries::Binaries;
use repo_tests::draw::{Draw, setting};
use repo_tests::machine;
use repo_tests::process::run;
use repo_tests::random_cxx::{MAIN, Program};

const LEVELS: [&str; 6] = ["-O2", "-Os", "-O1", "-O3", "-O0", "-O2"];

const OPTIONS: [&str; 9] = [
    "-w",
    "-fPIC",
    "-fno-inline",
    "-fvisibility=hidden",
    "-std=c++20",
    "-fvisibility-inlines-hidden",
    "-mavx2",
    "-fno-plt",
    "-fno-threadsafe-statics",
];

#[test]
fn what_is_compiled_in_parts_runs_as_what_is_compiled_whole() {
    let machine = machine!();
    let scratch = &machine.scratch;
    let mut draw = Draw(setting("REPO_TESTS_SEED", 7));
    let plain = |arguments: &[&str]| {
        let mut command = scratch.command(&machine.clang);
        run(command.args(arguments)).ok();
    };
    scratch.write("main.cc", MAIN);
    plain(&["-O1", "-c", "main.cc", "-o", "main.o"]);
    let (mut known, mut compiles) = (0, 0);
    for number in 0..setting("REPO_TESTS_SOURCES_OF", 2) {
        let count = 8 + draw.below(30);
        let mut program = Program::new(count, &mut draw);
        // Overflows are as good as all else here.
        let options = [LEVELS[draw.below(6)], draw.of(&OPTIONS), "-w", "-fwrapv"];
        for edit in 0..=setting("REPO_TESTS_EDITS", 3) {
            let text = program.text();
            let said = machine.verified("a.cc", &text, &options);
            let before = said.split("verified: ").next().unwrap_or_default();
            known += before.matches(": known").count();
            compiles += 1;
            plain(&[&options[..], &["-c", "a.cc", "-o", "plain.o"]].concat());
            plain(&["plain.o", "main.o", "-o", "whole", "-lstdc++"]);
            let mut link = scratch.command(Binaries::get().path("repo-cc"));
            link.arg(&machine.clang)
                .args(["a.cc.o", "main.o", "-o", "parts"]);
            run(link.args(["-lstdc++", "-Wl,--incremental"])).ok();
            let [parts, whole] = ["parts", "whole"].map(|name| {
                let ran = scratch.command(scratch.join(name)).output();
                let ran = ran.expect("it runs");
                (ran.status.code(), ran.stdout)
            });
            assert_eq!(whole.0, Some(0), "program {number}, edit {edit}");
            assert!(parts == whole, "program {number}, edit {edit}, {options:?}");
            program.edit(&mut draw);
        }
    }
    // It is no test if nothing is left out.
    assert!(known > compiles, "{known} of {compiles} compiles");
}
