//! A C++ program that is edited at random, again and again: what tests of incremental links link.

use crate::draw::Draw;
use std::fmt::Write as _;

/// A function of a unit.
#[derive(Clone)]
pub struct Function {
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
    /// It counts its calls in a variable of each thread.
    has_own: bool,
}

/// What compilers do not know the results of.
const LIBRARY: [&str; 18] = [
    "x += atoi(digits)",
    "x += (int)strtoul(digits, 0, 8)",
    "x += (int)strtoll(digits, 0, 16)",
    "x += strcoll(digits, \"7\") < 0",
    "x += getenv(\"NOT_IN_THE_ENVIRONMENT\") == 0",
    "x += (int)strspn(digits, \"0123\")",
    "x += strpbrk(digits, \"3\") != 0",
    "x += (int)strtod(digits, 0)",
    // Of another library, which nothing else may need.
    "x += (int)(8 * cos(digits[0]))",
    "x += (int)(8 * sin(digits[1]))",
    "x += (int)(8 * tgamma(digits[0] - '0'))",
    "x += (int)fmod(digits[0], 7)",
    // Variables: one of each thread, and some that programs may have copies of.
    "errno = x & 15; x += errno",
    "x += stdin != 0",
    "x += environ != 0",
    "optind = x & 7; x += optind",
    // Others of newer versions.
    "x += reallocarray(0, ~0ul, 8) == 0",
    "x += gnu_get_libc_version()[0] == '2'",
];

/// How units begin. C++'s own forms of `math.h` and `stdlib.h` take five times as long to compile as all the rest of a unit,
/// so what is needed of them is declared here.
const HEAD: &str = r#"#include <errno.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
extern "C" {
[[noreturn]] void abort() noexcept;
int atoi(const char *) noexcept;
char *getenv(const char *) noexcept;
void *reallocarray(void *, size_t, size_t) noexcept;
double strtod(const char *, char **) noexcept;
long long strtoll(const char *, char **, int) noexcept;
unsigned long strtoul(const char *, char **, int) noexcept;
double cos(double) noexcept;
double fmod(double, double) noexcept;
double sin(double) noexcept;
double tgamma(double) noexcept;
}
static char *volatile digits = (char *)"1234";
"#;

/// A source file.
#[derive(Clone, Default)]
pub struct Unit {
    functions: Vec<Function>,
    data: Vec<usize>,
    zeros: usize,
    /// Functions that run before `main`, and after it.
    before: Vec<usize>,
    after: Vec<usize>,
    /// Those of priorities: before or after `main`, the priority, and the name.
    ordered: Vec<(bool, usize, usize)>,
    /// Variables of each thread: what they begin with.
    own: Vec<usize>,
    /// Classes with virtual functions.
    classes: Vec<usize>,
    /// What its data is aligned to, as a power of two.
    align: usize,
}

/// A program.
pub struct Program {
    /// Its source files.
    pub units: Vec<Unit>,
    next_name: usize,
    draw: Draw,
}

impl Program {
    /// A program of so many units.
    pub fn new(seed: u64, units: usize) -> Program {
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
            has_own: draw.below(12) == 0,
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
    pub fn edit(&mut self, least: usize) -> (Vec<usize>, String) {
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

    /// Changes what a unit has beside functions, if the kind of edit is one of those, or takes a function away.
    fn edit_whole(
        &mut self,
        unit: usize,
        kind: usize,
        amount: usize,
        name: usize,
    ) -> Option<&'static str> {
        let list = match kind {
            12 => &mut self.units[unit].before,
            13 => &mut self.units[unit].after,
            14 => &mut self.units[unit].classes,
            15 => {
                self.units[unit].align = amount % 8;
                return Some("other alignment");
            }
            16 | 17 => return self.remove_function(unit, amount),
            18 => {
                let ordered = &mut self.units[unit].ordered;
                match amount {
                    0..8 => ordered.push((amount.is_multiple_of(2), 101 + 7 * (name % 5), name)),
                    8..10 if !ordered.is_empty() => {
                        ordered.remove(name % ordered.len());
                    }
                    _ => ordered.clear(),
                }
                return Some("other functions of priorities");
            }
            19 => {
                let own = &mut self.units[unit].own;
                match amount {
                    0..9 => own.push((amount % 3) * name),
                    _ => own.clear(),
                }
                return Some("other variables of threads");
            }
            _ => return None,
        };
        match amount {
            0..6 => list.push(name),
            6..9 if !list.is_empty() => {
                list.remove(amount % list.len());
            }
            _ => list.clear(),
        }
        Some(match kind {
            12 => "other constructors",
            13 => "other destructors",
            _ => "other classes",
        })
    }

    /// Takes a function away that nobody calls, if there is one.
    fn remove_function(&mut self, unit: usize, amount: usize) -> Option<&'static str> {
        let count = self.units[unit].functions.len();
        let called = |units: &[Unit], at: usize| {
            let mut functions = units.iter().flat_map(|unit| &unit.functions);
            functions.any(|function| function.calls.contains(&(unit, at)))
        };
        let at = (0..count).map(|n| (n + amount) % count);
        let at = at
            .clone()
            .find(|at| count > 2 && !called(&self.units, *at))?;
        self.units[unit].functions.remove(at);
        let all = self.units.iter_mut().flat_map(|unit| &mut unit.functions);
        for (other, number) in all.flat_map(|function| &mut function.calls) {
            if *other == unit && *number > at {
                *number -= 1;
            }
        }
        Some("a function less")
    }

    /// Changes a unit, which is returned, and says how.
    fn edit_unit(&mut self) -> (usize, String) {
        let unit = self.draw.below(self.units.len());
        let count = self.units[unit].functions.len();
        let at = self.draw.below(count);
        let amount = 1 + self.draw.below(12);
        let kind = self.draw.below(21);
        let name = self.next_name;
        if let Some(what) = self.edit_whole(unit, kind, amount, name) {
            self.next_name += 1;
            return (unit, format!("unit {unit}: {what}"));
        }
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
            10 | 20 => {
                function.library = Some((amount + self.next_name) % LIBRARY.len());
                self.next_name += 1;
                "a call of a library"
            }
            _ => {
                function.has_table = !function.has_table;
                function.throws = !function.throws;
                function.has_own = amount.is_multiple_of(3);
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

    /// The text of a unit.
    pub fn source(&self, number: usize) -> String {
        let unit = &self.units[number];
        let mut text = String::from(HEAD);
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
            "alignas({}) static int data[] = {{{}}};\nstatic int zeros[{}];\nint shared{number} = {};",
            4 << unit.align,
            values.join(", "),
            unit.zeros + 1,
            unit.data[0]
        );
        for (index, value) in unit.own.iter().enumerate() {
            let _ = writeln!(text, "static __thread int own{index} = {value};");
        }
        for class in &unit.classes {
            let _ = writeln!(
                text,
                "struct C{number}_{class} {{ virtual int value(int x) {{ return x + {class}; }} virtual ~C{number}_{class}() {{}} }};
static C{number}_{class} object{class}; static C{number}_{class} *volatile pointer{class} = &object{class};"
            );
        }
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
            if function.has_own {
                text.push_str("  static thread_local int own;\n  x += ++own;\n");
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
        for class in &unit.classes {
            let _ = writeln!(text, "  x = pointer{class}->value(x);");
        }
        for index in 0..unit.own.len() {
            let _ = writeln!(text, "  x += own{index}++;");
        }
        let _ = writeln!(
            text,
            "  if ((unsigned long)data % {} != 0) abort();\n  return x + shared{number};\n}}",
            4 << unit.align
        );
        for before in &unit.before {
            let _ = writeln!(
                text,
                "__attribute__((constructor)) static void before{before}() {{ printf(\"before %d\\n\", {before}); }}"
            );
        }
        for after in &unit.after {
            let _ = writeln!(
                text,
                "__attribute__((destructor)) static void after{after}() {{ printf(\"after %d\\n\", {after}); fflush(stdout); }}"
            );
        }
        for (is_before, priority, name) in &unit.ordered {
            let kind = if *is_before {
                "constructor"
            } else {
                "destructor"
            };
            let _ = writeln!(
                text,
                "__attribute__(({kind}({priority}))) static void ordered{name}() {{ printf(\"{kind} {priority} {name}\\n\"); fflush(stdout); }}"
            );
        }
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

    /// The text of the file that calls all units.
    pub fn main_source(&self) -> String {
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
