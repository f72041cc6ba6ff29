//! Incremental links: an output that was edited many times in a row is as good as a new one. Exceptions unwind through it, and
//! debuggers and other tools read it as they read one that a full link has made.
//!
//! `$REPO_TESTS_STEPS` sets the number of edits (25), `$REPO_TESTS_UNITS` that of source files (8). How often the link was full
//! and why, and how large the output has become, is printed (`--nocapture`).

use repo_tests::draw::setting;
use repo_tests::edits::Program;
use repo_tests::process::run;
use repo_tests::relink::Place;
use repo_tests::scratch::settle;
use repo_tests::tools;
use std::collections::BTreeMap;

const COMPILE: [&str; 2] = ["-O1", "-g"];

/// Links that check themselves after each edit would take as long as full ones.
const INCREMENTAL: &str = "-Wl,--incremental";

struct Worn {
    place: Place,
    program: Program,
}

impl Worn {
    fn compile(&self, unit: usize) {
        let text = self.program.source(unit);
        self.place
            .compile(&format!("unit{unit}"), &text, &COMPILE, false);
    }

    fn link(&self, output: &str, options: &[&str]) {
        let units = 0..self.program.units.len();
        let objects: Vec<String> = units.map(|unit| format!("unit{unit}.o")).collect();
        let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
        let words = [options, &["main.o", "thrown.o"], &objects].concat();
        self.place.link(output, &words).ok();
    }

    /// What a tool says of an output.
    fn says(&self, tool: &str, words: &[&str], output: &str) -> String {
        let run = run(self.place.scratch.command(tool).args(words).arg(output)).ok();
        assert_eq!(run.errors(), "", "{tool} {words:?} {output}");
        String::from_utf8_lossy(&run.stdout).into_owned()
    }
}

/// A function that is found in the debugger, and an exception that passes through many frames.
fn thrown(value: usize) -> String {
    format!(
        "#include <cstdio>\n\
         struct Guard {{ int *count; ~Guard() {{ ++*count; }} }};\n\
         int depth_of(int depth, int *count) {{\n  Guard guard{{count}};\n  if (depth == 0) throw {value};\n  return depth_of(depth - 1, count) + 1;\n}}\n\
         int thrown() {{\n  int count = 0;\n  try {{ depth_of(20, &count); }} catch (int x) {{ std::printf(\"%d %d\\n\", x, count); }}\n  return count;\n}}\n"
    )
}

#[test]
fn many_edits_leave_a_program_that_all_tools_read() {
    let Some(place) = Place::new() else { return };
    let (steps, units) = (
        setting("REPO_TESTS_STEPS", 25),
        setting("REPO_TESTS_UNITS", 8) as usize,
    );
    let mut worn = Worn {
        program: Program::new(setting("REPO_TESTS_SEED", 0) + 77, units),
        place,
    };
    let main = |program: &Program| {
        let text = program.main_source();
        text.replacen("  return 0;", "  return thrown() != 21;", 1)
            .replacen("int main", "int thrown();\nint main", 1)
    };
    let compile_main = |worn: &Worn| {
        worn.place
            .compile("main", &main(&worn.program), &COMPILE, false);
    };
    compile_main(&worn);
    worn.place.compile("thrown", &thrown(0), &COMPILE, false);
    (0..units).for_each(|unit| worn.compile(unit));
    settle();
    worn.link("a", &[INCREMENTAL]);
    let size = |worn: &Worn, output: &str| {
        std::fs::metadata(worn.place.scratch.join(output))
            .unwrap()
            .len()
    };
    let first = size(&worn, "a");
    for step in 0..steps {
        let before = worn.program.units.len();
        let (changed, _) = worn.program.edit(units);
        changed.into_iter().for_each(|unit| worn.compile(unit));
        if worn.program.units.len() != before {
            compile_main(&worn);
        }
        if step % 7 == 0 {
            worn.place
                .compile("thrown", &thrown(step as usize), &COMPILE, false);
        }
        worn.link("a", &[INCREMENTAL]);
    }

    // What became of it.
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let log = worn.place.log();
    for line in log.lines().skip(1) {
        if let Some((_, rest)) = line.split_once("full link (") {
            let reason = rest.split(')').next().unwrap_or(rest).to_owned();
            *reasons.entry(reason).or_default() += 1;
        }
    }
    worn.link("new", &["-Wl,--no-incremental"]);
    println!(
        "{steps} edits of {units} units: {} full links {reasons:?}; {first} bytes at first, {} now, {} linked anew",
        reasons.values().sum::<usize>(),
        size(&worn, "a"),
        size(&worn, "new"),
    );

    // It checks itself, and does what a new one does.
    worn.link("a", &["-Wl,--incremental,--verify-incremental"]);
    let outputs = ["a", "new"].map(|output| {
        let ran = run(&mut worn.place.scratch.command(worn.place.scratch.join(output))).ok();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    });
    assert_eq!(outputs[0], outputs[1]);

    if tools::require(["readelf", "nm", "strip"]).is_some() {
        worn.says("readelf", &["-aW"], "a");
        worn.says("readelf", &["--debug-dump=frames"], "a");
        worn.says("readelf", &["--debug-dump=decodedline"], "a");
        // The same functions, once each.
        let functions = |output: &str| {
            let names = worn.says("nm", &["-C", "--defined-only"], output);
            let is_function =
                |line: &&str| line.contains(" T ") || line.contains(" t ") || line.contains(" W ");
            let mut names: Vec<String> = names
                .lines()
                .filter(is_function)
                .filter_map(|line| Some(line.split_once(' ')?.1.to_owned()))
                .collect();
            names.sort();
            names
        };
        assert_eq!(functions("a"), functions("new"));
        worn.says("strip", &["-o", "stripped"], "a");
        let ran = run(&mut worn
            .place
            .scratch
            .command(worn.place.scratch.join("stripped")))
        .ok();
        assert_eq!(String::from_utf8_lossy(&ran.stdout), outputs[1]);
    }
    if tools::require(["addr2line"]).is_some() {
        for name in ["depth_of(int, int*)", "thrown()", "all0(int)"] {
            let place = |output: &str| {
                let names = worn.says("nm", &["-C"], output);
                let line = names
                    .lines()
                    .find(|line| line.ends_with(&format!(" T {name}")));
                let address = line
                    .and_then(|line| line.split(' ').next())
                    .unwrap()
                    .to_owned();
                worn.says("addr2line", &["-f", "-C", &address, "-e"], output)
            };
            assert_eq!(place("a"), place("new"));
        }
    }
    if tools::require(["gdb"]).is_some() {
        let words = [
            "-nx",
            "-batch",
            "-ex",
            "break depth_of if depth == 18",
            "-ex",
            "run",
            "-ex",
            "bt",
            "-ex",
            "info locals",
            "-ex",
            "ptype guard",
        ];
        let [worn_says, new_says] = ["a", "new"].map(|output| {
            let said = run(worn.place.scratch.command("gdb").args(words).arg(output)).ok();
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            // What comes before names the output and addresses.
            let frames = said.lines().skip_while(|line| !line.starts_with("#0"));
            frames.collect::<Vec<_>>().join("\n")
        });
        assert!(worn_says.contains("thrown.cpp"), "{worn_says}");
        let without_addresses = |text: &str| {
            let words = text
                .split_whitespace()
                .filter(|word| !word.starts_with("0x") && !word.contains("=0x"));
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(without_addresses(&worn_says), without_addresses(&new_says));
    }
}
