//! Incremental links: sequences of edits, drawn at random, of a program of several units. After each step the output is
//! what writing every file again would make of it (`--verify-incremental`), and behaves as the output of a full link.
//!
//! The draw is the same at every run. `$REPO_TESTS_STEPS` sets the number of edits (30), `$REPO_TESTS_SEED` where the draw begins.

use repo_tests::binaries::Binaries;
use repo_tests::process::run;
use repo_tests::scratch::{Scratch, settle};
use repo_tests::tools;
use std::fmt::Write as _;

/// Numbers as good as random (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

fn setting(name: &str, otherwise: usize) -> usize {
    let set = std::env::var(name).ok();
    set.map_or(otherwise, |text| text.parse().expect("a number"))
}

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
    /// It looks something up in a table of functions.
    has_table: bool,
    throws: bool,
}

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
    fn new(seed: usize, units: usize) -> Program {
        let mut program = Program {
            units: vec![Unit::default(); units],
            next_name: 0,
            draw: Draw(seed as u64),
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

    /// Changes a unit, which is returned, and says how.
    fn edit(&mut self) -> (usize, String) {
        let unit = self.draw.below(self.units.len());
        let count = self.units[unit].functions.len();
        let at = self.draw.below(count);
        let amount = 1 + self.draw.below(12);
        let kind = self.draw.below(11);
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
                "fewer calls"
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
        let mut text = String::from("#include <stdio.h>\n#include <string.h>\n");
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
    seed: usize,
}

fn edits(form: &Form) {
    if tools::require(["g++"]).is_none() {
        return;
    }
    let binaries = Binaries::get();
    let scratch = Scratch::new();
    let seed = setting("REPO_TESTS_SEED", 0) * 1000 + form.seed;
    let mut program = Program::new(seed, form.units);
    let links = scratch.join("bin");
    std::fs::create_dir_all(&links).unwrap();
    std::os::unix::fs::symlink(binaries.path("repo-ld"), links.join("ld")).unwrap();
    let through = format!("-B{}", links.display());
    let compile = |name: &str, text: &str| {
        let source = scratch.write(format!("{name}.cpp"), text);
        let mut command = scratch.command("g++");
        command.args(["-c", "-ffunction-sections", "-fdata-sections", "-w"]);
        run(command.args(form.compile).arg(source)).ok();
    };
    let objects: Vec<String> = (0..form.units)
        .map(|unit| format!("unit{unit}.o"))
        .collect();
    let link = |output: &str, options: &[&str]| {
        let mut command = scratch.command("g++");
        command.env("REPO_LOG", scratch.join("log")).arg(&through);
        command
            .args(form.link)
            .args(options)
            .args(["-o", output, "main.o"]);
        run(command.args(&objects)).ok();
    };
    compile("main", &program.main_source());
    for unit in 0..form.units {
        compile(&format!("unit{unit}"), &program.source(unit));
    }
    settle();
    let incremental = ["-Wl,--incremental,--verify-incremental"];
    link("grown", &incremental);
    let steps = setting("REPO_TESTS_STEPS", 30);
    for step in 0..steps {
        let (unit, what) = program.edit();
        compile(&format!("unit{unit}"), &program.source(unit));
        link("grown", &incremental);
        link("made", &[]);
        let [grown, made] = ["grown", "made"].map(|name| {
            let mut command = scratch.command(scratch.join(name));
            run(&mut command)
        });
        assert_eq!(
            (grown.stdout, grown.status),
            (made.stdout, made.status),
            "seed {seed}, step {step}: {what}"
        );
        if step % 10 == 9 && tools::require(["readelf"]).is_some() {
            let read = run(scratch.command("readelf").args(["-a", "grown"])).ok();
            assert_eq!(read.errors(), "", "seed {seed}, step {step}: {what}");
        }
    }
    let log = std::fs::read_to_string(scratch.join("log")).unwrap();
    let count = |what: &str| log.lines().filter(|line| line.contains(what)).count();
    // Most edits are small.
    let incremental = count("grown: incremental link");
    println!("{incremental} of {steps} steps were incremental");
    assert!(incremental * 2 > steps, "{incremental} of {steps}\n{log}");
}

#[test]
fn of_a_position_independent_program() {
    edits(&Form {
        compile: &["-O2"],
        link: &[],
        units: 6,
        seed: 1,
    });
}

#[test]
fn of_a_program_at_a_fixed_place_with_debugging_information() {
    edits(&Form {
        compile: &["-O1", "-g", "-fno-pie"],
        link: &["-no-pie"],
        units: 5,
        seed: 2,
    });
}

#[test]
fn of_a_program_that_is_collected() {
    edits(&Form {
        compile: &["-O0", "-g"],
        link: &["-Wl,--gc-sections"],
        units: 7,
        seed: 3,
    });
}

#[test]
fn of_a_static_program() {
    edits(&Form {
        compile: &["-Os"],
        link: &["-static"],
        units: 4,
        seed: 4,
    });
}
