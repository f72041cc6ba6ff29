//! Incremental links: sequences of edits, drawn at random, of a program of several units. After each step the output is
//! what writing every file again would make of it (`--verify-incremental`), and behaves as the output of a full link.
//!
//! The draw is the same at every run. `$REPO_TESTS_STEPS` sets the number of edits (30), `$REPO_TESTS_SEED` where the draw begins.

use repo_tests::draw::{Draw, setting};
use repo_tests::process::run;
use repo_tests::relink::{INCREMENTAL, Place};
use repo_tests::scratch::settle;
use repo_tests::tools;
use std::fmt::Write as _;

/// A function of a unit.
#[derive(Clone)]
struct Function {
    name: String,
    is_static: bool,
    is_inline: bool,
    constant: usize,
    /// Statements that make it longer.
    length: usize,
    /// Functions that it calls, by unit and number.
    calls: Vec<(usize, usize)>,
    string: Option<usize>,
    /// What it calls of the C library, by number.
    library: Option<usize>,
    /// It looks something up in a table of functions.
    has_table: bool,
    throws: bool,
}

/// What compilers do not know the results of.
const LIBRARY: [&str; 8] = [
    "x += atoi(digits)",
    "x += (int)strtoul(digits, 0, 8)",
    "x += (int)strtoll(digits, 0, 16)",
    "x += strcoll(digits, \"7\") < 0",
    "x += getenv(\"NOT_IN_THE_ENVIRONMENT\") == 0",
    "x += (int)strspn(digits, \"0123\")",
    "x += strpbrk(digits, \"3\") != 0",
    "x += (int)strtod(digits, 0)",
];

/// A source file.
#[derive(Clone, Default)]
struct Unit {
    functions: Vec<Function>,
    data: Vec<usize>,
    zeros: usize,
}

struct Program {
    units: Vec<Unit>,
    next_name: usize,
    draw: Draw,
}

impl Program {
    fn new(seed: u64, units: usize) -> Program {
        let mut program = Program {
            units: vec![Unit::default(); units],
            next_name: 0,
            draw: Draw(seed),
        };
        for unit in 0..units {
            program.units[unit].data = vec![1, 2, 3];
            for _ in 0..4 {
                program.add_function(unit);
            }
        }
        program
    }

    fn add_function(&mut self, unit: usize) {
        let draw = &mut self.draw;
        let kind = draw.below(6);
        let mut function = Function {
            name: format!("f{}", self.next_name),
            is_static: kind == 0,
            is_inline: kind == 1,
            constant: draw.below(1000),
            length: draw.below(6),
            calls: Vec::new(),
            string: (draw.below(3) == 0).then(|| draw.below(50)),
            library: None,
            has_table: draw.below(5) == 0,
            throws: draw.below(4) == 0,
        };
        self.next_name += 1;
        for _ in 0..draw.below(3) {
            let other = draw.below(self.units.len());
            let visible = |function: &Function| !function.is_static && !function.is_inline;
            let functions = &self.units[other].functions;
            let callable: Vec<usize> = (0..functions.len())
                .filter(|n| other == unit || visible(&functions[*n]))
                .collect();
            if !callable.is_empty() {
                function
                    .calls
                    .push((other, callable[draw.below(callable.len())]));
            }
        }
        self.units[unit].functions.push(function);
    }

    /// Changes some units, which are returned, and says how. Of at least `least` units, those are left.
    fn edit(&mut self, least: usize) -> (Vec<usize>, String) {
        match self.draw.below(24) {
            0 if self.units.len() < least + 3 => {
                let unit = self.units.len();
                self.units.push(Unit {
                    data: vec![unit, 2, 3],
                    ..Unit::default()
                });
                (0..3).for_each(|_| self.add_function(unit));
                (vec![unit], format!("unit {unit} is new"))
            }
            1 if self.units.len() > least => {
                self.units.pop();
                let gone = self.units.len();
                let mut changed = Vec::new();
                for (number, unit) in self.units.iter_mut().enumerate() {
                    for function in &mut unit.functions {
                        let before = function.calls.len();
                        function.calls.retain(|(other, _)| *other != gone);
                        if function.calls.len() < before && !changed.contains(&number) {
                            changed.push(number);
                        }
                    }
                }
                (changed, format!("unit {gone} is gone"))
            }
            _ => {
                let (unit, what) = self.edit_unit();
                (vec![unit], what)
            }
        }
    }

    /// Changes a unit, which is returned, and says how.
    fn edit_unit(&mut self) -> (usize, String) {
        let unit = self.draw.below(self.units.len());
        let count = self.units[unit].functions.len();
        let at = self.draw.below(count);
        let amount = 1 + self.draw.below(12);
        let kind = self.draw.below(12);
        let function = &mut self.units[unit].functions[at];
        let what = match kind {
            0 | 1 => {
                function.constant += amount;
                "another constant"
            }
            2 => {
                function.length += amount;
                "a longer body"
            }
            3 => {
                function.length = 0;
                "a shorter body"
            }
            4 => {
                function.length += 40 * amount;
                "a much longer body"
            }
            5 => {
                function.string = Some(self.next_name + 100);
                self.next_name += 1;
                "a new string"
            }
            6 => {
                self.add_function(unit);
                // Somebody calls it.
                let new = (unit, self.units[unit].functions.len() - 1);
                self.units[unit].functions[at].calls.push(new);
                "a new function"
            }
            7 => {
                self.units[unit].data[0] += amount;
                "other data"
            }
            8 => {
                self.units[unit].data.extend(0..amount);
                self.units[unit].zeros += 3 * amount;
                "more data"
            }
            9 => {
                function.calls.clear();
                function.library = None;
                "fewer calls"
            }
            10 => {
                function.library = Some(amount % LIBRARY.len());
                "a call of the C library"
            }
            _ => {
                function.has_table = !function.has_table;
                function.throws = !function.throws;
                "a table of functions, exceptions"
            }
        };
        (
            unit,
            format!(
                "{} of unit {unit}: {what}",
                self.units[unit].functions[at].name
            ),
        )
    }

    fn source(&self, number: usize) -> String {
        let unit = &self.units[number];
        let mut text = String::from(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nstatic char *volatile digits = (char *)\"1234\";\n",
        );
        for (other, number_there) in unit.functions.iter().flat_map(|function| &function.calls) {
            if *other != number {
                let name = &self.units[*other].functions[*number_there].name;
                let _ = writeln!(text, "int {name}(int depth, int x);");
            }
        }
        for function in &unit.functions {
            let storage = Self::storage(function);
            let _ = writeln!(text, "{storage}int {}(int depth, int x);", function.name);
        }
        let values: Vec<String> = unit.data.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            text,
            "static int data[] = {{{}}};\nstatic int zeros[{}];\nint shared{number} = {};",
            values.join(", "),
            unit.zeros + 1,
            unit.data[0]
        );
        for function in &unit.functions {
            let _ = writeln!(
                text,
                "{}int {}(int depth, int x) {{\n  static int calls;\n  zeros[0] += ++calls;",
                Self::storage(function),
                function.name
            );
            let _ = writeln!(
                text,
                "  if (depth <= 0) return x + {} + data[x & 1];",
                function.constant
            );
            for step in 0..function.length {
                let _ = writeln!(
                    text,
                    "  x = (x ^ {step}) * 31 + data[(x & 1) + {}];",
                    step % 2
                );
            }
            if let Some(string) = function.string {
                let _ = writeln!(
                    text,
                    "  x += (int)strlen(\"string {string} {}\");",
                    "s".repeat(string % 7)
                );
            }
            if let Some(number) = function.library {
                let _ = writeln!(text, "  {};", LIBRARY[number]);
            }
            if function.has_table {
                let _ = writeln!(
                    text,
                    "  static int (*const table[])(int, int) = {{{0}, {0}}};\n  x += table[x & 1](depth - 1, x);",
                    function.name
                );
            }
            if function.throws {
                let _ = writeln!(
                    text,
                    "  try {{ if (x & 1) throw x; x++; }} catch (int caught) {{ x = caught + 5; }}"
                );
            }
            for (other, number_there) in &function.calls {
                let name = &self.units[*other].functions[*number_there].name;
                let _ = writeln!(text, "  x = x * 3 + {name}(depth - 1, x);");
            }
            text.push_str("  return x;\n}\n");
        }
        let _ = writeln!(text, "int all{number}(int x) {{");
        for function in &unit.functions {
            let _ = writeln!(text, "  x = x * 7 + {}(4, x & 255);", function.name);
        }
        let _ = writeln!(text, "  return x + shared{number};\n}}");
        text
    }

    fn storage(function: &Function) -> &'static str {
        match (function.is_static, function.is_inline) {
            (true, _) => "static ",
            // A group of its own, and a weak definition.
            (_, true) => "inline __attribute__((noinline)) ",
            _ => "",
        }
    }

    fn main_source(&self) -> String {
        let mut text = String::from("#include <stdio.h>\n");
        let mut calls = String::new();
        for unit in 0..self.units.len() {
            let _ = writeln!(text, "int all{unit}(int);");
            let _ = writeln!(calls, "  printf(\"%d\\n\", all{unit}(argc + {unit}));");
        }
        let _ = writeln!(
            text,
            "int main(int argc, char **) {{\n{calls}  return 0;\n}}"
        );
        text
    }
}

/// How a sequence is built.
struct Form {
    compile: &'static [&'static str],
    link: &'static [&'static str],
    /// Units.
    units: usize,
    seed: u64,
    /// The units are compiled to tickets.
    tickets: bool,
    /// They become a shared object, which the program loads.
    shared: bool,
}

fn edits(form: &Form) {
    let Some(place) = Place::new() else { return };
    let scratch = &place.scratch;
    let seed = setting("REPO_TESTS_SEED", 0) * 1000 + form.seed;
    let mut program = Program::new(seed, form.units);
    let compile = |program: &Program, unit: usize| {
        let name = format!("unit{unit}");
        place.compile(&name, &program.source(unit), form.compile, form.tickets);
    };
    let link = |program: &Program, name: &str, options: &[&str]| {
        let units = 0..program.units.len();
        let objects: Vec<String> = units.map(|unit| format!("unit{unit}.o")).collect();
        let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
        if !form.shared {
            place
                .link(name, &[form.link, options, &["main.o"], &objects].concat())
                .ok();
            return;
        }
        let library = format!("{name}.so");
        let shared = [form.link, options, &["-shared"], &objects].concat();
        place.link(&library, &shared).ok();
        if !scratch.join(name).exists() {
            let library = format!("./{library}");
            place.link(name, &["main.o", &library]).ok();
        }
    };
    place.compile("main", &program.main_source(), form.compile, form.tickets);
    for unit in 0..form.units {
        compile(&program, unit);
    }
    settle();
    link(&program, "grown", &[INCREMENTAL]);
    let steps = setting("REPO_TESTS_STEPS", 30);
    for step in 0..steps {
        let units = program.units.len();
        let (changed, what) = program.edit(form.units);
        for unit in changed {
            compile(&program, unit);
        }
        if program.units.len() != units {
            // The program calls all units. (It is linked once only where they are a library.)
            place.compile("main", &program.main_source(), form.compile, form.tickets);
            let _ = std::fs::remove_file(scratch.join("made"));
            if form.shared {
                let _ = std::fs::remove_file(scratch.join("grown"));
            }
        }
        link(&program, "grown", &[INCREMENTAL]);
        link(&program, "made", &[]);
        let [grown, made] = ["grown", "made"].map(|name| {
            let mut command = scratch.command(scratch.join(name));
            run(&mut command)
        });
        assert!(made.status.success(), "{}", made.report());
        assert_eq!(
            (grown.stdout, grown.status),
            (made.stdout, made.status),
            "seed {seed}, step {step}: {what}"
        );
        if step % 10 == 9 && tools::require(["readelf"]).is_some() {
            let output = if form.shared { "grown.so" } else { "grown" };
            let read = run(scratch.command("readelf").args(["-a", output])).ok();
            assert_eq!(read.errors(), "", "seed {seed}, step {step}: {what}");
        }
    }
    let log = place.log();
    let count = |what: &str| log.lines().filter(|line| line.contains(what)).count() as u64;
    // Most edits are small; but whatever a shared object comes to export is for a full link.
    let incremental = count("incremental link: ");
    println!("{incremental} of {steps} steps were incremental");
    let least = if form.shared { steps / 4 } else { steps / 2 };
    assert!(incremental > least, "{incremental} of {steps}\n{log}");
}

#[test]
fn of_a_position_independent_program() {
    edits(&Form {
        compile: &["-O2"],
        link: &[],
        units: 6,
        seed: 1,
        tickets: false,
        shared: false,
    });
}

#[test]
fn of_a_program_at_a_fixed_place_with_debugging_information() {
    edits(&Form {
        compile: &["-O1", "-g", "-fno-pie"],
        link: &["-no-pie"],
        units: 5,
        seed: 2,
        tickets: false,
        shared: false,
    });
}

#[test]
fn of_a_program_that_is_collected() {
    edits(&Form {
        compile: &["-O0", "-g"],
        link: &["-Wl,--gc-sections"],
        units: 7,
        seed: 3,
        tickets: false,
        shared: false,
    });
}

#[test]
fn of_a_static_program() {
    edits(&Form {
        compile: &["-Os"],
        link: &["-static"],
        units: 4,
        seed: 4,
        tickets: false,
        shared: false,
    });
}

#[test]
fn of_tickets() {
    edits(&Form {
        compile: &["-O2", "-g"],
        link: &[],
        units: 5,
        seed: 5,
        tickets: true,
        shared: false,
    });
}

#[test]
fn of_a_shared_object() {
    edits(&Form {
        compile: &["-O1", "-fPIC"],
        link: &[],
        units: 5,
        seed: 6,
        tickets: false,
        shared: true,
    });
}

/// Two units, linked, and linked again without a change.
fn two() -> Option<Place> {
    let place = Place::new()?;
    place.compile("main", "int f(); int main() { return f(); }", &[], false);
    place.compile("f", "int f() { return 3; }", &[], false);
    settle();
    place.link("a", &[INCREMENTAL, "main.o", "f.o"]).ok();
    assert!(
        place.last().contains("there is no state"),
        "{}",
        place.last()
    );
    place.link("a", &[INCREMENTAL, "main.o", "f.o"]).ok();
    assert!(
        place.last().contains("incremental link: 0 of"),
        "{}",
        place.last()
    );
    Some(place)
}

/// The program is `expected` after a link that was full, for a reason.
fn is_full(place: &Place, words: &[&str], reason: &str, expected: i32) {
    place.link("a", words).ok();
    let last = place.last();
    assert!(
        last.contains("full link") && last.contains(reason),
        "{last}"
    );
    run(&mut place.scratch.command(place.scratch.join("a"))).code(expected);
}

#[test]
fn what_is_another_link_is_full() {
    let Some(place) = two() else { return };
    let plain = [INCREMENTAL, "main.o", "f.o"];
    is_full(
        &place,
        &["-Wl,--incremental-full", "main.o", "f.o"],
        "--incremental-full",
        3,
    );
    is_full(
        &place,
        &[INCREMENTAL, "-s", "main.o", "f.o"],
        "the options",
        3,
    );
    is_full(&place, &plain, "the options", 3);
    is_full(
        &place,
        &[INCREMENTAL, "-Wl,--icf=all", "main.o", "f.o"],
        "--icf",
        3,
    );
    // Somebody else has changed or taken the output.
    let output = place.scratch.join("a");
    let mut bytes = std::fs::read(&output).unwrap();
    bytes.push(0);
    std::fs::write(&output, bytes).unwrap();
    is_full(&place, &plain, "the output was changed", 3);
    // One that is gone is kept beside the state.
    std::fs::remove_file(&output).unwrap();
    place.link("a", &plain).ok();
    assert!(
        place.last().contains("incremental link: 0 of"),
        "{}",
        place.last()
    );
    run(&mut place.scratch.command(&output)).code(3);
    // An object that is none any more, and one that is missing: the messages are those of any link.
    place.scratch.write("f.o", "text");
    place.link("a", &plain).failed();
    std::fs::remove_file(place.scratch.join("f.o")).unwrap();
    let failed = place.link("a", &plain).failed();
    assert!(failed.errors().contains("f.o"), "{}", failed.errors());
    place.compile("f", "int f() { return 5; }", &[], false);
    place.link("a", &plain).ok();
    run(&mut place.scratch.command(place.scratch.join("a"))).code(5);
}

#[test]
fn a_name_that_nobody_defines_is_reported_and_mended() {
    let Some(place) = two() else { return };
    let words = [INCREMENTAL, "main.o", "f.o"];
    place.compile("f", "int g(); int f() { return g(); }", &[], false);
    let failed = place.link("a", &words).failed();
    assert!(failed.errors().contains("undefined"), "{}", failed.errors());
    for value in [7, 8] {
        let text = format!("int f() {{ return {value}; }}");
        place.compile("f", &text, &[], false);
        place.link("a", &words).ok();
        assert!(
            place.last().contains("incremental link: 1 of"),
            "{}",
            place.last()
        );
        run(&mut place.scratch.command(place.scratch.join("a"))).code(value);
    }
}

#[test]
fn a_library_that_comes_earlier_is_found() {
    let Some(place) = Place::new() else { return };
    let archive = |directory: &str, value: i32| {
        std::fs::create_dir_all(place.scratch.join(directory)).unwrap();
        let text = format!("int f() {{ return {value}; }}");
        place.compile("f", &text, &[], false);
        let archive = format!("{directory}/libf.a");
        run(place.scratch.command("ar").args(["rc", &archive, "f.o"])).ok();
    };
    place.compile("main", "int f(); int main() { return f(); }", &[], false);
    archive("two", 2);
    settle();
    let words = [INCREMENTAL, "main.o", "-Lone", "-Ltwo", "-lf"];
    is_full(&place, &words, "", 2);
    place.link("a", &words).ok();
    assert!(
        place.last().contains("incremental link: 0 of"),
        "{}",
        place.last()
    );
    archive("one", 1);
    is_full(&place, &words, "-lf is found elsewhere", 1);
    archive("one", 4);
    place.link("a", &words).ok();
    assert!(
        place.last().contains("incremental link: 1 of"),
        "{}",
        place.last()
    );
    run(&mut place.scratch.command(place.scratch.join("a"))).code(4);
}

#[test]
fn a_damaged_state_is_none() {
    let Some(place) = two() else { return };
    let words = [INCREMENTAL, "main.o", "f.o"];
    let folder = place.scratch.join("program.repo.links");
    let states = || {
        let entries = folder.read_dir().unwrap();
        // Beside them are the lock, and other names of outputs.
        entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_none() && !path.ends_with("lock"))
            .collect::<Vec<_>>()
    };
    assert_eq!(states().len(), 1);
    for bytes in [&b""[..], b"text", &[0xff; 5000]] {
        std::fs::write(&states()[0], bytes).unwrap();
        place.compile("f", "int f() { return 4; }", &[], false);
        is_full(&place, &words, "there is no state", 4);
    }
    // Others may not have written to it.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&states()[0], open).unwrap();
    is_full(&place, &words, "there is no state", 4);
}

#[test]
fn a_running_program_is_left_alone() {
    let Some(place) = Place::new() else { return };
    let text = |value: i32| {
        format!("#include <unistd.h>\nint main() {{ char c; read(0, &c, 1); return {value}; }}")
    };
    place.compile("main", &text(1), &[], false);
    settle();
    let words = [INCREMENTAL, "main.o"];
    place.link("a", &words).ok();
    let mut first = place.scratch.command(place.scratch.join("a"));
    let mut first = first.stdin(std::process::Stdio::piped()).spawn().unwrap();
    place.compile("main", &text(2), &[], false);
    place.link("a", &words).ok();
    assert!(
        place.last().contains("incremental link: 1 of"),
        "{}",
        place.last()
    );
    drop(first.stdin.take());
    assert_eq!(first.wait().unwrap().code(), Some(1));
    run(&mut place.scratch.command(place.scratch.join("a"))).code(2);
}
