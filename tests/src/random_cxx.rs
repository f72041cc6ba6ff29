//! Programs in C++, drawn at random, of which one part at a time is drawn anew.
//!
//! A program is a list of *parts* of many kinds: functions, templates, classes, variables, tables, each with what makes it hard to
//! compile apart from the others (internals with one caller, tables of addresses, what is constructed at start, what is inlined whatever it is).
//! Each uses some of the parts before it. Every program compiles and ends: calls count how deep and how many they are. What a part has is drawn
//! from its own seed, so an edit changes this part alone.

use crate::draw::Draw;

/// What a part of a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Function,
    Inline,
    Static,
    Template,
    Instantiated,
    Specialized,
    Class,
    Members,
    Virtual,
    BitFields,
    Operators,
    Lambda,
    Variable,
    Internal,
    Table,
    InlineVariable,
    ThreadLocal,
    Exceptions,
    Array,
    Constructed,
    Alias,
    Weak,
    Switch,
    Strings,
    Pointers,
    Recursive,
    Nameless,
    Local,
    Constexpr,
    Containers,
}

const KINDS: [Kind; 30] = [
    Kind::Function,
    Kind::Inline,
    Kind::Static,
    Kind::Template,
    Kind::Instantiated,
    Kind::Specialized,
    Kind::Class,
    Kind::Members,
    Kind::Virtual,
    Kind::BitFields,
    Kind::Operators,
    Kind::Lambda,
    Kind::Variable,
    Kind::Internal,
    Kind::Table,
    Kind::InlineVariable,
    Kind::ThreadLocal,
    Kind::Exceptions,
    Kind::Array,
    Kind::Constructed,
    Kind::Alias,
    Kind::Weak,
    Kind::Switch,
    Kind::Strings,
    Kind::Pointers,
    Kind::Recursive,
    Kind::Nameless,
    Kind::Local,
    Kind::Constexpr,
    Kind::Containers,
];

const ATTRIBUTES: [&str; 9] = [
    "",
    "",
    "",
    "",
    "__attribute__((noinline)) ",
    "__attribute__((cold)) ",
    "__attribute__((hot)) ",
    "[[gnu::flatten]] ",
    "__attribute__((visibility(\"hidden\"))) ",
];

const HEAD: &str = r#"
#include <cstring>
#include <cstdio>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>
extern int depth, budget, trace;
struct call { call() { depth++; budget--; } ~call() { depth--; } operator bool() const { return depth > 12 || budget < 0; } };
struct noise { int x; noise(int x) : x(x) {} ~noise() { trace ^= x; } };
static const int numbers[4] = {1, 2, 3, 4};
int plain(int x);
"#;

/// What calls a program: a source of its own.
pub const MAIN: &str = r#"
#include <cstdio>
int depth, budget = 1000, trace;
int plain(int x) { return x - 1; }
int run(int x);
int main() { for (int i = 0; i < 12; i++) std::printf("%d %d\n", run(i * 7), trace); }
"#;

#[derive(Clone, Debug)]
struct Part {
    kind: Kind,
    /// A number that is in its names.
    number: usize,
    seed: u64,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    parts: Vec<Part>,
    next_number: usize,
}

impl Program {
    /// Draws one of so many parts.
    pub fn new(count: usize, draw: &mut Draw) -> Program {
        let mut program = Program {
            parts: Vec::new(),
            next_number: 0,
        };
        for _ in 0..count {
            program.grow(draw);
        }
        program
    }

    fn grow(&mut self, draw: &mut Draw) {
        self.parts.push(Part {
            kind: KINDS[draw.below(KINDS.len())],
            number: self.next_number,
            seed: draw.below(1 << 30) as u64,
        });
        self.next_number += 1;
    }

    /// Draws one part anew, or makes another thing of it, adds one, or takes one away.
    pub fn edit(&mut self, draw: &mut Draw) {
        let at = draw.below(self.parts.len());
        match draw.below(20) {
            0..15 => self.parts[at].seed = draw.below(1 << 30) as u64,
            15..17 => {
                self.parts[at].kind = KINDS[draw.below(KINDS.len())];
                self.parts[at].seed = draw.below(1 << 30) as u64;
            }
            17..19 => self.grow(draw),
            _ if self.parts.len() > 4 => drop(self.parts.remove(at)),
            _ => {}
        }
    }

    /// Its source.
    pub fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (at, part) in self.parts.iter().enumerate() {
            let mut writer = Writer {
                before: &self.parts[..at],
                draw: Draw(part.seed),
                number: part.number,
            };
            text += &writer.part(part.kind);
            text.push('\n');
        }
        text += "int run(int x) { int s = 0;\n";
        for (at, part) in self.parts.iter().enumerate() {
            let mut writer = Writer {
                before: &self.parts[at..=at],
                draw: Draw(part.number as u64),
                number: 0,
            };
            let call = writer.use_of_one("x");
            let number = part.number;
            text += &format!(
                "  budget = 3000; depth = 0; s = s * 31 + (int)({call}); std::printf(\"{number} %d\\n\", s);\n"
            );
        }
        text + "  return s; }\n"
    }
}

/// Writes one part.
struct Writer<'p> {
    /// What it may use.
    before: &'p [Part],
    draw: Draw,
    number: usize,
}

impl Writer<'_> {
    fn below(&mut self, bound: usize) -> usize {
        self.draw.below(bound)
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        self.draw.of(words)
    }

    /// An expression that uses one of the parts before it.
    fn use_of_one(&mut self, x: &str) -> String {
        if self.before.is_empty() {
            return self.below(50).to_string();
        }
        let part = &self.before[self.draw.below(self.before.len())];
        let n = part.number;
        let argument = match self.below(3) {
            0 => format!("{x} + {}", self.below(9)),
            _ => x.to_owned(),
        };
        let a = &argument;
        match part.kind {
            Kind::Template => {
                let of = self.of(&["int", "long", "unsigned char", "double"]);
                format!("t{n}<{of}>({a})")
            }
            Kind::Instantiated => format!("x{n}<{}>({a})", self.of(&["int", "short"])),
            Kind::Specialized => format!("S{n}<{}>::get({a})", self.of(&["int", "char"])),
            Kind::Class | Kind::Members | Kind::Virtual | Kind::BitFields | Kind::Operators => {
                match self.below(2) {
                    0 => format!("C{n}({a}).go({x})"),
                    _ => format!("go{n}({a})"),
                }
            }
            Kind::Variable | Kind::Internal | Kind::InlineVariable | Kind::ThreadLocal => {
                match self.below(3) {
                    0 => format!("v{n}"),
                    1 => format!("(v{n} = v{n} * 3 + {a})"),
                    _ => format!("*address{n}()"),
                }
            }
            Kind::Table => match self.below(2) {
                0 => format!("v{n}[(unsigned)({a}) % 5]"),
                _ => format!("*address{n}()"),
            },
            Kind::Nameless => format!("q{n}({a})"),
            _ => format!("f{n}({a})"),
        }
    }

    /// An expression of `int`.
    fn expression(&mut self, x: &str) -> String {
        let count = 1 + self.below(4);
        let mut terms = Vec::new();
        for _ in 0..count {
            let term = match self.below(9) {
                0..5 => self.use_of_one(x),
                5..7 => format!("{x} * {}", self.below(9)),
                _ => {
                    let (bit, number) = (1 << self.below(5), self.below(99));
                    format!("({x} & {bit} ? {number} : {})", self.use_of_one(x))
                }
            };
            terms.push(format!("(int)({term})"));
        }
        terms.join(self.of(&[" + ", " ^ "]))
    }

    /// What is between a function's braces; it has `x`.
    fn body(&mut self) -> String {
        let e = self.expression("x");
        let (n, m) = (self.below(9), 1 + self.below(8));
        let body = match self.below(4) {
            0 => format!("return {e};"),
            1 => format!(
                "int s = 0; for (int i = 0; i < {m}; i++) s += (x >> i) * {n}; return s + ({e});"
            ),
            2 => format!("if (x > {n}) return {e}; return {};", self.expression("x")),
            _ => format!("static int kept; kept += x; return kept + ({e});"),
        };
        format!("call c; if (c) return {}; {body}", self.below(20))
    }

    fn attribute(&mut self) -> &'static str {
        self.of(&ATTRIBUTES)
    }

    fn part(&mut self, kind: Kind) -> String {
        match kind {
            Kind::Function
            | Kind::Inline
            | Kind::Static
            | Kind::Weak
            | Kind::Template
            | Kind::Instantiated
            | Kind::Lambda
            | Kind::Exceptions
            | Kind::Alias
            | Kind::Switch
            | Kind::Strings
            | Kind::Pointers
            | Kind::Recursive
            | Kind::Local
            | Kind::Constexpr
            | Kind::Containers => self.function(kind),
            Kind::Specialized
            | Kind::Class
            | Kind::Members
            | Kind::Virtual
            | Kind::BitFields
            | Kind::Operators
            | Kind::Nameless => self.class(kind),
            Kind::Variable
            | Kind::Internal
            | Kind::Table
            | Kind::InlineVariable
            | Kind::ThreadLocal
            | Kind::Array
            | Kind::Constructed => self.data(kind),
        }
    }

    fn function(&mut self, kind: Kind) -> String {
        let n = self.number;
        let attribute = self.attribute();
        let body = self.body();
        let k = self.below(9);
        match kind {
            Kind::Inline => format!("{attribute}inline int f{n}(int x) {{ {body} }}"),
            Kind::Static => {
                let attribute = attribute.replace("visibility(\"hidden\")", "noinline");
                format!("static {attribute}int f{n}(int x) {{ {body} }}")
            }
            Kind::Weak => format!("__attribute__((weak)) int f{n}(int x) {{ {body} }}"),
            Kind::Template => {
                format!("template <class T> {attribute}T t{n}(T y) {{ int x = (int)y; {body} }}")
            }
            Kind::Instantiated => {
                let other = match self.below(3) {
                    0 => format!(
                        "extern template short x{n}<short>(short); template short x{n}<short>(short);"
                    ),
                    _ => String::new(),
                };
                format!(
                    "template <class T> T x{n}(T y) {{ int x = (int)y; {body} }}\ntemplate int x{n}<int>(int); {other}"
                )
            }
            Kind::Lambda => {
                let end = match self.below(3) {
                    0 => format!("return g(x) + g({k});"),
                    1 => {
                        format!("int (*p)(int) = [](int y) {{ return y * {k}; }}; return p(g(x));")
                    }
                    _ => format!(
                        "return std::accumulate(numbers, numbers + 4, 0, [&](int a, int b) {{ return a + g(b) * {k}; }});"
                    ),
                };
                let captures = self.of(&["&", "="]);
                format!(
                    "{attribute}int f{n}(int x) {{ call d; if (d) return 1; auto g = [{captures}](int x) {{ {body} }}; {end} }}"
                )
            }
            Kind::Exceptions => {
                let thrown = self.of(&["x", "std::string(\"no\")", "std::runtime_error(\"bad\")"]);
                let caught = self.of(&["int e", "std::string &e", "std::exception &e"]);
                let (one, other) = (self.expression("x"), self.expression("x"));
                format!(
                    "{attribute}int f{n}(int x) {{ call d; if (d) return 2; try {{ if (x % {} == 0) throw {thrown}; noise n(x); trace += ({one}); }} catch ({caught}) {{ return {other}; }} catch (...) {{ trace++; }} return 5; }}",
                    k + 2
                )
            }
            Kind::Alias => {
                let weak = self.of(&["", "weak, "]);
                format!(
                    "extern \"C\" int of{n}(int x) {{ return x * {k}; }}\nint f{n}(int x) __attribute__(({weak}alias(\"of{n}\")));"
                )
            }
            Kind::Switch => {
                let cases = 3 + self.below(12);
                let cases: String = (0..cases)
                    .map(|case| format!("case {case}: return {}; ", self.below(200)))
                    .collect();
                format!("int f{n}(int x) {{ switch (x & 15) {{ {cases} default: return x; }} }}")
            }
            Kind::Strings => {
                let words = [
                    "\"one\"",
                    "\"two\"",
                    "\"three\"",
                    "\"four\"",
                    "\"f\\xc3\\xbcnf\"",
                ];
                let words: Vec<&str> = (0..4).map(|_| self.of(&words)).collect();
                format!(
                    "int f{n}(int x) {{ static const char *names[] = {{{}}}; const char *s = names[(unsigned)x % 4]; return (int)std::strlen(s) + s[0] * {k} + (std::strcmp(s, \"one\") > 0); }}",
                    words.join(", ")
                )
            }
            Kind::Pointers => {
                let is_plain = |part: &&Part| {
                    matches!(
                        part.kind,
                        Kind::Function
                            | Kind::Static
                            | Kind::Inline
                            | Kind::Switch
                            | Kind::Weak
                            | Kind::Recursive
                    )
                };
                let functions: Vec<String> = (self.before.iter().filter(is_plain))
                    .map(|part| format!("f{}", part.number))
                    .chain(["plain".to_owned()])
                    .collect();
                let table: Vec<&str> = (0..3)
                    .map(|_| &*functions[self.draw.below(functions.len())])
                    .collect();
                format!(
                    "static int (*const table{n}[])(int) = {{{}}};\nint f{n}(int x) {{ call c; if (c) return 3; return table{n}[(unsigned)x % 3](x + {k}); }}",
                    table.join(", ")
                )
            }
            Kind::Recursive => {
                let linkage = self.of(&["", "static "]);
                let (a, b) = (3 + self.below(6), self.below(99));
                format!(
                    "{linkage}int g{n}(int x);\nint f{n}(int x) {{ return x > {a} ? g{n}(x / 2) : {b}; }}\nint g{n}(int x) {{ return x % 2 ? f{n}(x - 1) + {k} : f{n}(x / 3); }}"
                )
            }
            Kind::Local => {
                let first = match self.below(3) {
                    0 => "x".to_owned(),
                    1 => k.to_string(),
                    _ => self.expression("x"),
                };
                format!(
                    "{attribute}int f{n}(int x) {{ call d; if (d) return 4; struct L {{ int a; int get(int x) {{ {body} }} }}; static L l{{{first}}}; return l.get(x) + l.a++; }}"
                )
            }
            Kind::Constexpr => format!(
                "constexpr int k{n}(int x) {{ return x < 2 ? {k} : k{n}(x - 1) + x; }}\nint f{n}(int x) {{ return k{n}({}) + k{n}(x & 7); }}",
                self.below(30)
            ),
            Kind::Containers => format!(
                "int f{n}(int x) {{ std::vector<int> v((unsigned)x % 9 + 1, {k}); v.push_back(x); int s = 0; for (int i : v) s += i; std::map<int, int> m; m[x] = s; return s + (int)m.size(); }}"
            ),
            _ => format!("{attribute}int f{n}(int x) {{ {body} }}"),
        }
    }

    fn class(&mut self, kind: Kind) -> String {
        let n = self.number;
        let (body, other) = (self.body(), self.body());
        let (k, m) = (self.below(9), self.below(9));
        match kind {
            Kind::Specialized => format!(
                "template <class T> struct S{n} {{ static int count; static int get(int x) {{ count++; {body} }} }};\ntemplate <class T> int S{n}<T>::count = {k};\ntemplate <> inline int S{n}<char>::get(int x) {{ {other} }}"
            ),
            Kind::Members => format!(
                "class C{n} {{ int a; static int total; public: explicit C{n}(int x); int go(int x); static int all() {{ return total; }} }};\nint C{n}::total = {k};\nC{n}::C{n}(int x) : a(x) {{ total++; }}\nint C{n}::go(int x) {{ x ^= a; {body} }}\nint go{n}(int x) {{ return C{n}(x).go(x) + C{n}::all(); }}"
            ),
            Kind::Virtual => {
                let more = self.of(&["", "virtual int more() { return 5; }"]);
                let end = match self.below(3) {
                    0 => String::new(),
                    1 => format!("s += (int)sizeof(C{n});"),
                    _ => format!("s += typeid(*p) == typeid(B{n});"),
                };
                format!(
                    "struct B{n} {{ virtual int get(int x) const {{ return x + {k}; }} virtual ~B{n}() {{}} {more} }};\nstruct C{n} : B{n} {{ int b; C{n}(int x) : b(x) {{}} int get(int x) const override {{ {body} }} int go(int x) {{ return get(x) + b; }} }};\nint go{n}(int x) {{ C{n} c(x); B{n} *p = x % 3 ? &c : new B{n}; int s = p->get(x); {end} if (p != &c) delete p; return s; }}"
                )
            }
            Kind::BitFields => format!(
                "struct C{n} {{ unsigned a : {}; unsigned b : {}; C{n}(int x) : a(x), b(x + 1) {{}} int go(int x) {{ return a * {} + b + x; }} }};\ninline int go{n}(int x) {{ return C{n}(x).go(x); }}",
                k + 1,
                m + 1,
                self.below(9)
            ),
            Kind::Operators => format!(
                "struct C{n} {{ int a; C{n}(int x) : a(x) {{}} friend C{n} operator+(C{n} l, C{n} r) {{ return C{n}(l.a + r.a * {k}); }} int operator()(int x) const {{ return x * a; }} int go(int x) {{ return (*this + C{n}(x))({m}); }} }};\nint go{n}(int x) {{ return C{n}(x).go(x); }}"
            ),
            Kind::Nameless => {
                let attribute = self.of(&["", "inline ", "__attribute__((noinline)) "]);
                format!(
                    "namespace {{ struct A{n} {{ int v; int get(int x) const {{ {body} }} }}; A{n} a{n}{{{k}}}; {attribute}int q{n}(int x) {{ return a{n}.get(x) + (a{n}.v += {m}); }} }}"
                )
            }
            _ => {
                let destructor = self.of(&["", "virtual "]);
                let attribute = self.attribute();
                format!(
                    "struct C{n} {{ int a; C{n}(int x) : a(x + {k}) {{}} {destructor}~C{n}() {{ trace += {m}; }} int go(int x) {{ x += a; {body} }} }};\n{attribute}int go{n}(int x) {{ C{n} c(x); return c.go({k}); }}"
                )
            }
        }
    }

    fn data(&mut self, kind: Kind) -> String {
        let n = self.number;
        let k = self.below(99);
        // What is computed at start, or is not.
        let first = match self.below(3) {
            0 => "0".to_owned(),
            1 => k.to_string(),
            _ => self.expression("3"),
        };
        match kind {
            Kind::Internal => {
                let linkage = self.of(&["", "static ", "inline "]);
                format!(
                    "static int v{n} = {first};\n{linkage}int *address{n}() {{ return &v{n}; }}"
                )
            }
            Kind::InlineVariable => {
                format!("inline int v{n} = {first};\ninline int *address{n}() {{ return &v{n}; }}")
            }
            Kind::ThreadLocal => {
                let linkage = self.of(&["", "static "]);
                format!(
                    "{linkage}thread_local int v{n} = {first};\nint *address{n}() {{ return &v{n}; }}"
                )
            }
            Kind::Table => {
                let linkage = self.of(&[
                    "static const",
                    "const",
                    "extern const",
                    "constexpr",
                    "inline const",
                ]);
                let values: Vec<String> = (0..5).map(|_| self.below(99).to_string()).collect();
                format!(
                    "{linkage} int v{n}[5] = {{{}}};\nconst int *address{n}() {{ return &v{n}[{}]; }}",
                    values.join(", "),
                    k % 5
                )
            }
            Kind::Array => {
                let linkage = self.of(&["", "static "]);
                let size = 8 + self.below(9);
                format!(
                    "{linkage}int a{n}[{size}] = {{{k}}};\nint f{n}(int x) {{ int *p = &a{n}[(unsigned)x % 8]; *p += {k}; return *p; }}"
                )
            }
            Kind::Constructed => format!(
                "static struct I{n} {{ int a; I{n}() : a({}) {{ trace += {k}; }} }} i{n};\nint f{n}(int x) {{ return i{n}.a + x; }}",
                self.expression("4")
            ),
            _ => {
                let attribute = self.of(&[
                    "",
                    "__attribute__((aligned(32))) ",
                    "__attribute__((section(\".mine\"))) ",
                    "__attribute__((weak)) ",
                ]);
                format!("{attribute}int v{n} = {k};\nint *address{n}() {{ return &v{n}; }}")
            }
        }
    }
}
