//! A compile is not done again where only bodies of functions are others of which it made no code, and another compile has found them in order. (Each time
//! what was not compiled is compared with what a compile makes.)

use repo_tests::binaries;
use repo_tests::memo::Memo;
use repo_tests::require;
use repo_tests::tools;

/// What all of the first header's functions may use.
const HEADER: &str = "#ifndef FIRST\n#define FIRST 1\n\
    struct Plain { int size() const { return count; } int other() const { return 2; } int count; };\n\
    struct Counted { int size() const { return 3; } };\n\
    inline int used(int x) { return x + 1; }\n\
    inline int unused(int x) { int y = x; return y * 2; }\n\
    #endif\n";

struct Pair {
    memo: Memo,
    options: &'static [&'static str],
}

/// Two sources that include `inc/first.h`: the one uses all of it, and is compiled first.
macro_rules! pair {
    ($source:expr) => {{
        let [clang] = require!("clang-19");
        if binaries::plugin().is_none() {
            return tools::skip("llvm-19-dev");
        };
        Pair {
            memo: Memo::new(clang, $source),
            options: &["-O1"],
        }
    }};
}

impl Pair {
    fn language(&self) -> &'static str {
        match self.memo.source {
            "a.c" => "c",
            _ => "cc",
        }
    }

    fn words<'w>(&self, source: &'w str, object: &'w str, more: &[&'w str]) -> Vec<&'w str> {
        let mut words = vec!["-Iinc"];
        words.extend(self.options.iter().chain(more));
        words.extend(["-c", source, "-o", object]);
        words
    }

    /// Compiles the one source.
    #[track_caller]
    fn compile_one(&self) -> bool {
        let words = self.words(self.memo.source, "a.o", &[]);
        self.memo.compile(&words)
    }

    /// Compiles the other source.
    #[track_caller]
    fn compile_other(&self, more: &[&str]) -> bool {
        let source = format!("b.{}", self.language());
        let words = self.words(&source, "b.o", more);
        self.memo.compile(&words)
    }

    /// Whether the other source need not be compiled when the header becomes `new`, which the one is compiled with first.
    #[track_caller]
    fn is_hit(&self, old: &str, other: &str, new: &str) -> bool {
        let it = &self.memo.scratch;
        let include = |text: &str| format!("#include \"first.h\"\n{text}");
        // The first declaration of a header may have begun before it.
        let whole = |text: &str| match text.starts_with("#ifndef") {
            true => text.to_owned(),
            false => format!("extern int before;\n{text}"),
        };
        it.write("inc/first.h", whole(old));
        it.write(self.memo.source, include("int one;\n"));
        it.write(format!("b.{}", self.language()), include(other));
        self.compile_one();
        self.compile_other(&[]);
        assert!(self.compile_other(&[]), "{old}");
        it.write("inc/first.h", whole(new));
        assert!(!self.compile_one(), "{new}");
        self.compile_other(&[])
    }

    #[track_caller]
    fn edited(&self, old: &str, other: &str, (from, to): (&str, &str)) -> bool {
        assert!(old.contains(from), "{old}");
        self.is_hit(old, other, &old.replacen(from, to, 1))
    }
}

#[test]
fn with_debug_information() {
    let mut pair = pair!("a.c");
    // More that has lines, below what is edited.
    let header = "#ifndef FIRST\n#define FIRST 1\nstruct plain { int count; struct plain *next; };\n\
        static inline int used(int x) { return x + 1; }\n\
        static inline int unused(int x) { int y = x; return y * 2; }\n\
        static inline int twice(struct plain *p) {\n  return p->count * 2;\n}\n\
        struct below { int a; struct plain *b; };\nenum last { FIRST_OF, SECOND };\n#endif\n";
    let user = "int f(const struct plain *plain) { return used(plain->count); }\n\
        int g(const struct below *below, enum last last) { return used(below->a) + last + f(below->b); }\n";
    for options in [
        &["-g", "-O1"][..],
        &["-g", "-O0"],
        &["-g", "-O2", "-gdwarf-4"],
    ] {
        pair.options = options;
        for (edit, expected) in [
            (("y * 2", "y * 3"), true),
            (("y * 2", "y + 2;\n\n  // more\n  return y"), true),
            (
                (
                    "{ int y = x; return y * 2; }",
                    "{\n  int y = x;\n\n  return y * 2;\n}",
                ),
                true,
            ),
            (
                ("{\n  return p->count * 2;\n}", "{ return p->count; }"),
                true,
            ),
            (
                (
                    "return p->count",
                    "if (!p)\n    return 1;\n  return p->count",
                ),
                true,
            ),
            // Something is behind it in the same line, and has another column now.
            (
                ("return y * 2; }", "return y * 20; } extern int last;"),
                false,
            ),
            (("x + 1", "x + 2"), false),
            (("unused(int x)", "unused(long x)"), false),
        ] {
            assert_eq!(
                pair.edited(header, user, edit),
                expected,
                "{edit:?} {options:?}"
            );
        }
    }
    // Of C++ it is not told which classes are described whole then.
    let pair = Pair {
        options: &["-g", "-O1"],
        ..pair!("a.cc")
    };
    assert!(!pair.edited(HEADER, USER, ("y * 2", "y * 3")));
}

/// An instantiation that does something by itself, which only the other source can see.
#[test]
fn templates_that_do_something() {
    let pair = pair!("a.cc");
    let header = "#ifndef FIRST\n#define FIRST 1\ntemplate <class T> int touch(T);\n\
        inline int first() { return touch(5); }\n#endif\n";
    let other = |value: &str| {
        format!(
            "int side();\ntemplate <class T> struct Reg {{ static int v; }};\n\
             template <> struct Reg<int> {{ static int v; }};\ntemplate <class T> int Reg<T>::v{value};\n\
             template <class T> int touch(T) {{ return Reg<T>::v; }}\nint bb() {{ return 1; }}\n"
        )
    };
    assert!(!pair.edited(header, &other(" = side()"), ("touch(5)", "touch(6)")));
    // A number of another type.
    assert!(!pair.edited(header, "int bb();\n", ("touch(5)", "touch(5000000000)")));
    assert!(!pair.edited(header, "int bb();\n", ("touch(5)", "touch(5.5)")));
    assert!(!pair.edited(header, "int bb();\n", ("touch(5)", "touch(0)")));
    assert!(pair.edited(header, "int bb();\n", ("touch(5)", "touch(77)")));
}

/// Of a private member that is not used any more clang warns where it knows all functions of the class, as the source that defines them does.
#[test]
fn members_that_are_used_no_more() {
    let mut pair = pair!("a.cc");
    pair.options = &["-O1", "-Wall"];
    let header = "#ifndef FIRST\n#define FIRST 1\nclass A {\npublic:\n  int first(int x) { return x + a_; }\n\
        int last(int x) { return x - b_; }\n  int more(int y) { return y + b_; }\n  void far();\n\
        private:\n  int a_, b_;\n};\n#endif\n";
    let other = "void A::far() {}\n";
    assert!(!pair.edited(header, other, ("x + a_", "x")));
    assert!(pair.edited(header, other, ("x + a_", "x + a_ * 2")));
    assert!(pair.edited(header, other, ("x - b_", "x")));
}

/// What an attribute has called at the start is so in each source that instantiates it, be it that source's own macro that says so.
#[test]
fn templates_that_are_called_at_the_start() {
    let pair = pair!("a.cc");
    let header = "#ifndef FIRST\n#define FIRST 1\n#ifndef ATTR\n#define ATTR\n#endif\n\
        int say();\ntemplate <class T> ATTR void reg() { say(); }\n\
        inline int first() { return sizeof(reg<int>(), 1); }\n#endif\n";
    let edit = ("sizeof(reg<int>(), 1)", "(reg<int>(), 1)");
    let other = "int bb() { return 1; }\n";
    assert!(pair.edited(header, other, edit));
    let called = header.replace(
        "int say",
        "#undef ATTR\n#define ATTR __attribute__((constructor))\nint say",
    );
    assert!(!pair.edited(&called, other, edit));
    let stays = header.replace("ATTR void", "[[gnu::used]] void");
    assert!(!pair.edited(&stays, other, edit));
}

#[test]
fn what_redeclares_with_attributes() {
    let pair = pair!("a.c");
    let header = "#ifndef FIRST\n#define FIRST 1\nint before;\n\
        inline void first(int a) { _Noreturn void g(int); void h(int); if (a) g(a); else h(a); }\n#endif\n";
    let other = "void g(int); void h(int);\nint bb(int x) { if (x > 2) g(x); if (x > 5) h(x); return 4; }\n";
    let edit = (
        "_Noreturn void g(int); void h",
        "void g(int); _Noreturn void h",
    );
    assert!(!pair.edited(header, other, edit));
    let header = "#ifndef FIRST\n#define FIRST 1\nint before;\nint g(int);\n\
        static inline int f(int x) { [[maybe_unused, gnu::visibility(\"hidden\")]] int g(int x); return x + g(x); }\n#endif\n";
    let other = "int bb(int x) { return g(1) + x; }\n";
    let edit = (", gnu::visibility(\"hidden\")", "");
    assert!(!pair.edited(header, other, edit));
}

/// What uses some of [`HEADER`].
const USER: &str = "int f(const Plain &plain) { return used(plain.size()); }\n";

#[test]
fn functions_that_are_not_used() {
    let pair = pair!("a.cc");
    for (edit, expected) in [
        (("y * 2", "y * 3"), true),
        (("y * 2", "y * 2;\n\n  // more\n  y + 7"), true),
        (
            (
                "return y * 2;",
                "if (y > 1) { while (x < 7) x = x + 1; }\n return y;",
            ),
            true,
        ),
        (("return 2;", "return 2 + 4;"), true),
        (("return 2;", "return size() + 2;"), false),
        // Another class's of this name is used.
        (("return 3;", "return 4;"), true),
        (("x + 1", "x + 2"), false),
        (("return count;", "return count + 1;"), false),
        // Not only in bodies.
        (("int count", "int more, count"), false),
        (("unused(int x)", "unused(long x)"), false),
        // A word that the body did not have.
        (("return y", "int z = y;\n return z"), false),
        (
            ("y * 2;", "y; }\ninline int more(int x) { return x;"),
            false,
        ),
        (("return y * 2;", "return y;\n#define y x\n"), false),
        (("return y * 2;", "extern int count; return count;"), false),
    ] {
        assert_eq!(pair.edited(HEADER, USER, edit), expected, "{edit:?}");
    }
}

#[test]
fn in_c() {
    let pair = pair!("a.c");
    let header = "struct S { int n; };\nstatic inline int used(int x) { return x + 1; }\n\
        static inline struct S *unused(struct S *s, int n) { s->n = n; return s; }\n\
        static int unused_too(int n) { return n; }\n";
    let user = "int f(int x) { return used(x); }\n";
    for (edit, expected) in [
        (("s->n = n;", "s->n = n + 1;"), true),
        (("s->n = n;", "s->n = used(n);"), false),
        (("return n;", "return n + 1;"), true),
        (("x + 1", "x + 2"), false),
    ] {
        assert_eq!(pair.edited(header, user, edit), expected, "{edit:?}");
    }
}

/// Nothing is known of them in advance: a first compile has to find that they are in order.
#[test]
fn somebody_must_have_compiled_them() {
    let pair = pair!("a.cc");
    pair.edited(HEADER, USER, ("x + 1", "x + 2"));
    let edited = HEADER.replace("y * 2", "y * 5");
    pair.memo.scratch.write("inc/first.h", &edited);
    assert!(!pair.compile_other(&[]));
    // Then it is the first that need not be compiled.
    assert!(pair.compile_one());
    // Other options may find other faults.
    pair.compile_other(&["-Wall"]);
    pair.memo
        .scratch
        .write("inc/first.h", HEADER.replace("y * 2", "y * 6"));
    assert!(!pair.compile_one());
    assert!(!pair.compile_other(&["-Wall"]));
    assert!(pair.compile_other(&[]));
    // What is said is said again.
    pair.memo.scratch.write(
        "inc/first.h",
        HEADER.replace("int y = x;", "int y = x; int count;"),
    );
    assert!(!pair.compile_other(&["-Wall"]));
    let words = pair.words(pair.memo.source, "a.o", &["-Wall"]);
    assert!(!pair.memo.compile(&words));
}

#[test]
fn what_compilers_evaluate_or_make_of_them() {
    let pair = pair!("a.cc");
    for (header, other, edit) in [
        // Evaluated.
        (
            "constexpr int n() { return 3; }\n",
            "char a[n()];\n",
            ("return 3", "return 4"),
        ),
        (
            "#define EVALUATED constexpr\nEVALUATED int n() { return 3; }\n",
            "char a[n()];\n",
            ("return 3", "return 4"),
        ),
        (
            "#define EVALUATED(x) x##expr\nEVALUATED(const) int n() { return 3; }\n",
            "char a[n()];\n",
            ("return 3", "return 4"),
        ),
        // Its type is another.
        (
            "inline auto n() { return 3; }\n",
            "decltype(n()) x;\n",
            ("return 3", "return 3.0"),
        ),
        // Names that are others.
        (
            "#define n m\ninline int n() { return 3; }\n",
            "int x() { return n(); }\n",
            ("return 3", "return 4"),
        ),
        (
            "#define Name Other\nstruct Name { int n() { return 3; } };\n",
            "int x(Name name) { return name.n(); }\n",
            ("return 3", "return 4"),
        ),
        (
            "struct Name { int n(); };\nusing Same = Name;\ninline int Same::n() { return 3; }\n",
            "int x(Name name) { return name.n(); }\n",
            ("return 3", "return 4"),
        ),
        (
            "int n() __asm__(\"m\");\ninline int n() { return 3; }\n",
            "int x() { return n(); }\n",
            ("return 3", "return 4"),
        ),
        (
            "int n() noexcept __asm__(\"m\");\ninline int n() noexcept { return 3; }\n",
            "int x() { return n(); }\n",
            ("return 3", "return 4"),
        ),
        (
            "#define CALLED(name, with, other) name with __asm__(#other)\nint CALLED(n, (), m);\n\
             inline int n() { return 3; }\n",
            "int x() { return n(); }\n",
            ("return 3", "return 4"),
        ),
        (
            "#define CALLED(x) __asm__(x)\nint n() CALLED(\"m\");\ninline int n() { return 3; }\n",
            "int x() { return n(); }\n",
            ("return 3", "return 4"),
        ),
        (
            "extern \"C\" {\ninline int n() { return 3; }\n}\n",
            "int x() { return n(); }\n",
            ("return 3", "return 4"),
        ),
        // A table of functions.
        (
            "struct Base { virtual int n() { return 3; } };\n",
            "Base base;\n",
            ("return 3", "return 4"),
        ),
        // Static members of a template are there because somebody asks for them.
        (
            "int next();\ntemplate <class T> struct Member { static int number; };\n\
             template <class T> int Member<T>::number = next();\n\
             inline int n() { return Member<int>::number; }\n",
            "",
            ("return Member<int>::number", "return next()"),
        ),
        // Those who instantiate one find out what comes of that.
        (
            "int next();\ntemplate <class T> struct Second { static int number; };\n\
             template <class T> int Second<T>::number = next();\n\
             inline int n() { return sizeof(Second<int>::number); }\n",
            "",
            ("sizeof(Second<int>::number)", "Second<int>::number"),
        ),
        // Out of the body.
        (
            "#define END }\n#define BEGIN {\nint count;\ninline int m(int more) BEGIN return more; END\nint between;\n\
             inline int n() { return 3; END int more() BEGIN { return 4; } }\n",
            "int x() { return more(); }\n",
            ("return 4", "return 5"),
        ),
        (
            "#define NUMBER __COUNTER__\nint first = NUMBER;\ninline int n() { return NUMBER + 3; }\n",
            "int x = __COUNTER__;\n",
            ("return NUMBER + 3", "return 3"),
        ),
        (
            "int first = __COUNTER__;\ninline int n(int x = __COUNTER__) { return 3; }\n",
            "int x = __COUNTER__;\n",
            ("return 3", "return __COUNTER__"),
        ),
        (
            "#define HIDDEN __attribute__((visibility(\"hidden\")))\nint g(int x);\n\
             HIDDEN inline int n(int x) { return g(x); }\n",
            "int f(int x) { return g(x); }\n",
            ("return g(x)", "HIDDEN int g(int x); return g(x)"),
        ),
        (
            "int g(int x);\ninline int n(int x) { return g(x); }\n",
            "int f(int x) { return g(x); }\n",
            ("return g(x)", "extern int g(int x); return g(x)"),
        ),
        // The name of the class.
        (
            "struct [[using gnu: packed]] A { int n() const { return 3; } };\n",
            "int x(const A &a) { return a.n(); }\n",
            ("return 3", "return 4"),
        ),
        (
            "struct A { int x;\n#ifdef SPLIT\n}; struct B {\n#endif\n int n() const { return 3; } };\n",
            "int x(const A &a) { return a.n(); }\n",
            ("return 3", "return 4"),
        ),
        (
            "#define NEXT }; struct B {\nstruct A { int x; NEXT int y; int n() const { return 3; } };\n",
            "int x(const B &b) { return b.n(); }\n",
            ("return 3", "return 4"),
        ),
        (
            "struct A { int x; %>;\ninline int n() { return 3; }\n",
            "int x() { return n(); }\n",
            ("return 3", "return 4"),
        ),
        (
            "constex\\\npr int n() { return 3; }\n",
            "char x[n()];\n",
            ("return 3", "return 4"),
        ),
        // A type, not a function.
        (
            "#define ALIGNED(x) __attribute__((aligned(x)))\nstruct ALIGNED(8) Type { int x; };\n",
            "int size = sizeof(Type);\n",
            ("int x;", "int x; int sizes[8];"),
        ),
        // Never read as code.
        (
            "#define TEXT(x) #x\nconst char *text = TEXT(int x;) TEXT(int n() { return 3; });\n",
            "const char *copy = text;\n",
            ("return 3", "return 4"),
        ),
    ] {
        assert!(!pair.edited(header, other, edit), "{header}");
    }
}

#[test]
fn lines_behind_them() {
    let pair = pair!("a.cc");
    let header = "inline int unused(int x) { return x; }\ninline int used() { return __LINE__; }\n";
    let other = "int f() { return used(); }\n";
    assert!(pair.edited(header, other, ("return x", "return 7")));
    assert!(!pair.edited(header, other, ("return x", "x = 7;\n return x")));
    // They are of this header only.
    assert!(pair.edited(
        HEADER,
        "int f(int x) { return used(x) + __LINE__; }\n",
        ("y * 2", "y\n * 3")
    ));
}

/// One source may ask for lines where another does not.
#[test]
fn lines_that_one_source_asks_for() {
    let pair = pair!("a.cc");
    let it = &pair.memo.scratch;
    let header = "extern int before;\ninline int unused(int x) { return x; }\ninline int used() { return WHERE; }\n";
    it.write("inc/first.h", header);
    it.write("a.cc", "#define WHERE 0\n#include \"first.h\"\n");
    it.write(
        "b.cc",
        "#define WHERE __LINE__\n#include \"first.h\"\nint f() { return used(); }\n",
    );
    pair.compile_one();
    pair.compile_other(&[]);
    it.write(
        "inc/first.h",
        header.replace("return x", "x = 7;\n return x"),
    );
    assert!(!pair.compile_one());
    assert!(!pair.compile_other(&[]));
}

/// What stands before the text in another file belongs to its first declaration.
#[test]
fn declarations_that_begin_elsewhere() {
    let pair = pair!("a.cc");
    let it = &pair.memo.scratch;
    it.write("inc/evaluated.h", "constexpr\n");
    for (header, before) in [
        (
            "#ifndef X\n#define X\nint n() { return 3; }\n#endif\n",
            "#include \"evaluated.h\"\n",
        ),
        (
            "extern int before;\n#include \"evaluated.h\"\nint n() { return 3; }\n",
            "",
        ),
    ] {
        let user = format!("{before}#include \"second.h\"\nextern char a[n()];\n");
        it.write("inc/second.h", header);
        it.write("a.cc", &user);
        it.write("b.cc", format!("{user}char a[n()];\n"));
        pair.compile_one();
        pair.compile_other(&[]);
        it.write("inc/second.h", header.replace("return 3", "return 4"));
        assert!(!pair.compile_one());
        assert!(!pair.compile_other(&[]), "{header}");
    }
}

/// Clang calls a lambda by its place. Where such a name has not come into the object, places do not matter.
#[test]
fn names_that_say_where() {
    let pair = pair!("a.cc");
    let it = &pair.memo;
    let lambda = "constexpr auto lambda = [](int x) { return x; };\n";
    for (source, is_told) in [
        ("int f() { return lambda(1); }\n", false),
        (
            "template <class T> const char *name(T) { return __PRETTY_FUNCTION__; }\n\
             const char *f() { return name(lambda); }\n",
            true,
        ),
        (
            "template <class T> constexpr unsigned sum(T) {\n  unsigned n = 0;\n\
             for (const char *p = __PRETTY_FUNCTION__; *p; p++) n = n * 31 + *p;\n  return n;\n}\n\
             int f() { constexpr unsigned n = sum(lambda); return n; }\n",
            true,
        ),
    ] {
        let source = format!("{lambda}{source}");
        it.scratch.write(it.source, &source);
        pair.compile_one();
        it.scratch
            .write(it.source, format!("// one more\n\n{source}"));
        assert_eq!(pair.compile_one(), !is_told, "{source}");
    }
}

/// A macro that names functions says nothing until somebody uses it.
#[test]
fn macros_that_name_functions() {
    let mut pair = pair!("a.cc");
    let log = "#define WHERE __PRETTY_FUNCTION__\n#define LOG(x) log(x, WHERE)\n";
    let sized = "constexpr auto lambda = [](int x) { return x; };\n\
        template <class T> constexpr unsigned size(T) { return sizeof(WHERE); }\n\
        unsigned f() { return size(lambda); }\n";
    let called =
        "constexpr auto lambda = [](int x) { return x; };\nint f() { return lambda(1); }\n";
    let of_stdio = |name: &str| {
        format!("#include <stdio.h>\n#undef {name}\n#define {name} __PRETTY_FUNCTION__\n")
    };
    let (printf, size) = (&of_stdio("printf")[..], &of_stdio("BUFSIZ")[..]);
    let enumerator = "#define KEPT(x) log(x, WHERE)\nenum { KEPT = 5 };\n";
    let enumerator = &format!("{log}{enumerator}")[..];
    let by_option: &[&str] = &["-O1", "-DWHERE=__PRETTY_FUNCTION__"];
    for (options, header, source, is_told) in [
        (pair.options, log, called, false),
        (pair.options, log, sized, true),
        (by_option, "", called, false),
        (by_option, "", sized, true),
        (pair.options, enumerator, called, false),
        // (The system's header declares the first, and might use it. The second it defines only.)
        (pair.options, printf, called, true),
        (pair.options, size, called, false),
    ] {
        pair.options = options;
        let it = &pair.memo;
        it.scratch.write("inc/log.h", header);
        let source = format!("#include \"log.h\"\n{source}");
        it.scratch.write(it.source, &source);
        pair.compile_one();
        // (The line has a digit more then.)
        let lines = "\n".repeat(10);
        it.scratch.write(it.source, format!("{lines}{source}"));
        assert_eq!(pair.compile_one(), !is_told, "{header}{source}");
    }
}

/// What assembly is made of is known where the plugin has seen it: the preprocessor need not be asked. What reads files is not known.
#[test]
fn assembly_that_the_plugin_sees() {
    let pair = pair!("a.c");
    let it = &pair.memo;
    let run = |text: &str| {
        it.scratch.write(it.source, text);
        repo_tests::scratch::settle();
        let words = pair.words(it.source, "a.o", &["-w"]);
        let mut command = it.command(&words, it.scratch.path());
        let said = repo_tests::process::run(&mut command)
            .ok()
            .errors()
            .to_owned();
        let is_asked = said.contains("the preprocessor is asked");
        (said, is_asked)
    };
    let never = "#ifdef NEVER\n#define PUSH \".set push\\n\"\nvoid n(void) { __asm__(PUSH \"nop\"); }\n#endif\n";
    let nop =
        "int f(int x) { __asm__ volatile(\"lock; incl %0; jmp .\" : \"+m\"(x)); return x; }\n";
    let (said, is_asked) = run(&[never, nop].concat());
    assert!(!is_asked && said.contains("a.o: recorded"), "{said}");
    // In functions, by all the ways that there are; in small and large letters.
    for assembly in [
        "\".incbin \\\"inc/data.s\\\"\"",
        "\".INC\" \"BIN \\\"inc/data.s\\\"\"",
        "\".macro m a b\\n.\\\\a\\\\b \\\"inc/data.s\\\"\\n.endm\\nm inc bin\\n.purgem m\"",
    ] {
        let function =
            format!("{never}int f(int x) {{ if (x) __asm__ volatile({assembly}); return x; }}\n");
        it.scratch.write("inc/data.s", ".byte 1\n");
        it.scratch.write(it.source, function);
        let words = pair.words(it.source, "a.o", &["-w"]);
        it.compile(&words);
        it.scratch.write("inc/data.s", ".byte 2\n");
        assert!(!it.compile(&words), "a hit of {assembly}");
    }
}
