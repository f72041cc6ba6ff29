//! Definition digests, as the pass plugin computes them: what changes them, what does not, and whose.

use pruning::REQUEST_VARIABLE;
use pruning::protocol::{Report, Request};
use repo_tests::binaries;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Digests by name in the source.
type Digests = BTreeMap<String, String>;

struct Machine {
    scratch: Scratch,
    plugin: &'static Path,
    clang: PathBuf,
    opt: PathBuf,
}

/// What the tests need, or that they are skipped.
macro_rules! machine {
    () => {{
        let [clang, opt] = require!("clang-19", "opt-19");
        let Some(plugin) = binaries::plugin() else {
            return tools::skip("llvm-19-dev");
        };
        Machine {
            scratch: Scratch::new(),
            plugin,
            clang,
            opt,
        }
    }};
}

impl Machine {
    fn report(&self, program: &Path, arguments: &[&str], promote: bool) -> Report {
        let request = Request {
            environment: "a compiler".to_owned(),
            promote,
            unit: "unit".to_owned(),
            report: self.scratch.join("report.json"),
            ..Request::default()
        };
        let _ = fs::remove_file(&request.report);
        let file = self.scratch.write(
            "request.json",
            serde_json::to_vec(&request).expect("a request"),
        );
        let output = self
            .scratch
            .command(program)
            .args(arguments)
            .env(REQUEST_VARIABLE, file)
            .output()
            .expect("the program runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let report = fs::read(&request.report).expect("a report");
        serde_json::from_slice(&report).expect("a report")
    }

    fn of_report(report: &Report) -> Digests {
        let definitions = report.definitions.iter();
        definitions
            .map(|definition| {
                let name = definition.original.as_ref().unwrap_or(&definition.name);
                (name.clone(), definition.digest.clone())
            })
            .collect()
    }

    /// The digests of a source in C or C++.
    fn source(&self, name: &str, text: &str, options: &[&str], promote: bool) -> Digests {
        let source = self.scratch.write(name, text);
        let plugin = format!("-fpass-plugin={}", self.plugin.display());
        let mut arguments = vec!["-c", source.to_str().expect("text"), &plugin, "-o", "out.o"];
        arguments.extend(options);
        Machine::of_report(&self.report(&self.clang, &arguments, promote))
    }

    fn c(&self, text: &str, level: &str) -> Digests {
        self.source("a.c", text, &[level], true)
    }

    /// The digests of a module of LLVM's text.
    fn module(&self, text: &str) -> Digests {
        let source = self.scratch.write("a.ll", text);
        let plugin = format!("-load-pass-plugin={}", self.plugin.display());
        let arguments = [
            plugin.as_str(),
            "-passes=repo-digest",
            "-disable-output",
            source.to_str().expect("text"),
        ];
        Machine::of_report(&self.report(&self.opt, &arguments, false))
    }
}

/// The names whose digests differ.
fn changed(a: &Digests, b: &Digests) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    names
        .into_iter()
        .filter(|name| a.get(*name) != b.get(*name))
        .cloned()
        .collect()
}

#[test]
fn an_inlined_callee_makes_its_callers_new_and_not_the_other_way_round() {
    let machine = machine!();
    let source = |callee, caller| {
        format!(
            "static int callee(int x) {{ return x * {callee}; }}\n\
             int other(int x) {{ return callee(x) - 1; }}\n\
             int caller(int x) {{ return callee(x) + {caller}; }}\n\
             int above(int x) {{ return caller(x) ^ 1; }}\n\
             int alone(int x) {{ return x + 1; }}\n"
        )
    };
    let before = machine.c(&source(3, 1), "-O2");
    let callee = machine.c(&source(5, 1), "-O2");
    assert_eq!(
        changed(&before, &callee),
        ["above", "callee", "caller", "other"]
    );
    let caller = machine.c(&source(3, 2), "-O2");
    assert_eq!(changed(&before, &caller), ["above", "caller"]);
    // Without optimisation nobody looks into anybody.
    let before = machine.c(&source(3, 1), "-O0");
    let callee = machine.c(&source(5, 1), "-O0");
    assert_eq!(changed(&before, &callee), ["callee"]);
}

#[test]
fn what_is_always_inlined_is_followed_without_optimisation_too() {
    let machine = machine!();
    let source = |number| {
        format!(
            "__attribute__((always_inline)) static inline int callee(int x) {{ return x * {number}; }}\n\
             int caller(int x) {{ return callee(x); }}\nint alone(int x) {{ return x; }}\n"
        )
    };
    let (before, after) = (machine.c(&source(3), "-O0"), machine.c(&source(5), "-O0"));
    assert_eq!(changed(&before, &after), ["callee", "caller"]);
}

#[test]
fn what_is_read_of_constants_is_followed_without_optimisation_too() {
    let machine = machine!();
    let source = |byte| {
        format!(
            "#include <string.h>\nstatic const unsigned char magic[4] = {{1, 2, 3, {byte}}};\n\
             int is(const char *p) {{ return memcmp(p, magic, 4) == 0; }}\nint alone(int x) {{ return x; }}\n"
        )
    };
    let (before, after) = (machine.c(&source(4), "-O0"), machine.c(&source(5), "-O0"));
    assert_eq!(changed(&before, &after), ["is", "magic"]);
}

#[test]
fn a_string_and_who_uses_it_change_together() {
    let machine = machine!();
    let source = |text| {
        format!(
            "#include <stdio.h>\nvoid says(void) {{ printf(\"{text}\\n\"); }}\n\
             void also(void) {{ printf(\"other\\n\"); }}\n"
        )
    };
    for level in ["-O0", "-O2"] {
        let before = machine.c(&source("hello"), level);
        let after = machine.c(&source("hallo"), level);
        assert_eq!(changed(&before, &after), [".str", "says"], "{level}");
        // `printf` becomes `puts` where the string ends so.
        let other = machine.c(&source("hello %d"), level);
        assert_eq!(changed(&before, &other), [".str", "says"], "{level}");
    }
}

#[test]
fn a_string_is_known_by_its_content_and_not_by_its_number() {
    let machine = machine!();
    let source = |first: &str| format!("{first}\nconst char *b(void) {{ return \"second\"; }}\n");
    for level in ["-O0", "-O2"] {
        let before = machine.c(&source(""), level);
        let after = machine.c(&source("const char *a(void) { return \"first\"; }"), level);
        assert_eq!(before["b"], after["b"], "{level}");
    }
}

#[test]
fn a_static_that_is_written_through_a_pointer() {
    let machine = machine!();
    let source = |writer| {
        format!(
            "static int counter = 1;\nvoid write(int *p) {{ *p = 7; }}\n\
             void writer(void) {{ {writer} }}\nint reader(void) {{ return counter; }}\n"
        )
    };
    let none = machine.c(&source(""), "-O2");
    let some = machine.c(&source("write(&counter);"), "-O2");
    // Without a writer it is a constant, and its reader knows it.
    assert_eq!(changed(&none, &some), ["counter", "reader", "writer"]);
    // What is written does not concern who reads, if internals have names.
    let other = machine.c(&source("write(&counter); counter++;"), "-O2");
    assert_eq!(changed(&some, &other), ["writer"]);
    // If they have none, everybody who uses it has a say.
    let plain = |writer| machine.source("a.c", &source(writer), &["-O2"], false);
    let (some, other) = (
        plain("write(&counter);"),
        plain("write(&counter); counter++;"),
    );
    assert_eq!(changed(&some, &other), ["counter", "reader", "writer"]);
}

#[test]
fn recursion_has_the_same_digests_wherever_the_walk_begins() {
    let machine = machine!();
    let functions = [
        "int even(int n) { return n ? odd(n - 1) : 1; }",
        "int odd(int n) { return n ? even(n - 1) : 0; }",
        "int fact(int n) { return n ? n * fact(n - 1) : leaf(n); }",
        "int leaf(int n) { return n + 1; }",
        "int a(int n) { return n ? b(n - 1) : even(n); }",
        "int b(int n) { return n ? c(n - 1) + a(n - 3) : fact(n); }",
        "int c(int n) { return n ? a(n - 2) : odd(n); }",
    ];
    let declarations = "int even(int), odd(int), fact(int), leaf(int), a(int), b(int), c(int);\n";
    let mut order = functions.to_vec();
    for level in ["-O0", "-O2"] {
        let expected = machine.c(&format!("{declarations}{}", order.join("\n")), level);
        assert_eq!(expected.len(), functions.len());
        for _ in 0..functions.len() {
            order.rotate_left(1);
            let text = format!("{declarations}{}", order.join("\n"));
            assert_eq!(machine.c(&text, level), expected);
            order.reverse();
            let text = format!("{declarations}{}", order.join("\n"));
            assert_eq!(machine.c(&text, level), expected);
            order.reverse();
        }
    }
}

#[test]
fn what_is_no_difference_changes_nothing() {
    let machine = machine!();
    let base = "struct pair { int a, b; };\nstatic const int table[3] = {1, 2, 3};\n\
        int f(struct pair *p, int n) { int sum = 0; for (int i = 0; i < n; i++) sum += p[i].a * table[i % 3]; return sum; }\n\
        int g(int n) { struct pair p = {n, n}; return f(&p, 1); }\n";
    let others = [
        // A local variable's name.
        base.replace("sum", "total"),
        // A parameter's.
        base.replace("int n)", "int count)")
            .replace("i < n", "i < count")
            .replace("{n, n}", "{count, count}"),
        // Comments and lines.
        format!(
            "/* a\n comment */\n\n{}",
            base.replace(";\n", ";\n// more\n\n")
        ),
        // A member's name. (The structure's is in what the front end says of aliases.)
        base.replace(".a", ".first").replace("int a,", "int first,"),
        // What nobody uses.
        format!("typedef long unused;\nextern int nobody(void);\nenum {{ ONE }};\n{base}"),
    ];
    for level in ["-O0", "-O1", "-O2", "-Os"] {
        let expected = machine.c(base, level);
        for (at, other) in others.iter().enumerate() {
            assert_eq!(
                changed(&expected, &machine.c(other, level)),
                Vec::<String>::new(),
                "{level}, {at}"
            );
        }
        // Another order.
        let lines: Vec<&str> = base.lines().collect();
        let turned = [
            lines[0],
            "int f(struct pair *, int);",
            lines[3],
            lines[1],
            lines[2],
        ];
        let turned = machine.c(&turned.join("\n"), level);
        assert_eq!(changed(&expected, &turned), Vec::<String>::new(), "{level}");
    }
}

#[test]
fn constructors_virtual_functions_and_exceptions_are_followed() {
    let machine = machine!();
    let source = |number| {
        format!(
            "struct Base {{ virtual ~Base() {{ }} virtual int v() {{ return {number}; }} }};\n\
             struct Derived : Base {{ int v() override {{ try {{ throw 1; }} catch (int i) {{ return i; }} return 2; }} }};\n\
             int use(Base *b) {{ return b->v(); }}\n\
             int make() {{ Derived d; Base b; return use(&d) + use(&b); }}\n\
             int alone() {{ return 1; }}\n"
        )
    };
    let options = ["-O2", "-std=c++17"];
    let before = machine.source("a.cc", &source(1), &options, true);
    let after = machine.source("a.cc", &source(2), &options, true);
    let changed = changed(&before, &after);
    let has = |name: &str| changed.iter().any(|changed| changed == name);
    assert!(
        has("_ZN4Base1vEv") && has("_ZTV4Base") && has("_Z4makev"),
        "{changed:?}"
    );
    assert!(!has("_Z5alonev") && !has("_Z3useP4Base"), "{changed:?}");
}

const MODULE: &str = r#"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"
%struct.S = type { i32, i64 }
$group = comdat any
@table = constant [3 x i32] [i32 1, i32 2, i32 3], align 4
@variable = global i32 5, align 4
@.str = private unnamed_addr constant [4 x i8] c"abc\00", align 1
@thread = thread_local(initialexec) global i32 0
@external = external global i32, align 4
declare i32 @callee(i32)
declare void @llvm.memcpy.p0.p0.i64(ptr noalias nocapture writeonly, ptr noalias nocapture readonly, i64, i1 immarg)
declare i32 @personality(...)
define i32 @inner(i32 %x) { ret i32 %x }
define i32 @f(i32 %x, ptr %p, float %y) #0 {
entry:
  %slot = alloca %struct.S, align 8
  %sum = add nsw i32 %x, 7
  %half = udiv exact i32 %sum, 2
  %joined = or disjoint i32 %half, 1
  %wide = zext nneg i32 %joined to i64
  %fast = fadd nnan float %y, 1.0
  %less = icmp slt i32 %sum, %x
  %field = getelementptr inbounds %struct.S, ptr %slot, i32 0, i32 1
  store i64 %wide, ptr %field, align 8
  %loaded = load i32, ptr %p, align 4, !range !0
  %strange = load volatile i32, ptr @variable, align 4
  %atomic = load atomic i32, ptr %p syncscope("singlethread") acquire, align 4
  %old = atomicrmw add ptr %p, i32 1 monotonic, align 4
  %pair = cmpxchg weak ptr %p, i32 %x, i32 %sum acq_rel monotonic, align 4
  fence seq_cst
  %called = tail call i32 @callee(i32 noundef %loaded) #1
  %fromtable = load i32, ptr getelementptr inbounds ([3 x i32], ptr @table, i64 0, i64 1), align 4
  %assembled = call i32 asm sideeffect "mov $1, $0", "=r,r,~{flags}"(i32 %called)
  %vector = insertelement <4 x i32> poison, i32 %assembled, i32 0
  %shuffled = shufflevector <4 x i32> %vector, <4 x i32> poison, <4 x i32> <i32 0, i32 0, i32 1, i32 2>
  %one = extractelement <4 x i32> %shuffled, i32 2
  %first = extractvalue { i32, i1 } %pair, 0
  call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr @.str, i64 4, i1 false)
  br i1 %less, label %loop, label %done
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, %one
  br i1 %more, label %loop, label %done, !llvm.loop !1, !prof !4
done:
  %got = phi i32 [ %first, %entry ], [ %next, %loop ]
  %again = call fastcc i32 @inner(i32 %got) [ "tag"(i32 1) ]
  switch i32 %again, label %last [ i32 3, label %end
                                   i32 4, label %last ]
last:
  br label %end
end:
  ret i32 %again
}
attributes #0 = { nounwind uwtable "target-cpu"="x86-64" }
attributes #1 = { nounwind }
!0 = !{i32 0, i32 100}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.count", i32 4}
!4 = !{!"branch_weights", i32 10, i32 20}
!llvm.module.flags = !{!5}
!5 = !{i32 8, !"PIC Level", i32 2}
"#;

/// One property of `f`, or of what surrounds it, is another one.
const EDITS: &[(&str, &str)] = &[
    ("add nsw i32 %x, 7", "add i32 %x, 7"),
    ("add nsw i32 %x, 7", "add nuw i32 %x, 7"),
    ("add nsw i32 %x, 7", "sub nsw i32 %x, 7"),
    ("add nsw i32 %x, 7", "add nsw i32 %x, 8"),
    ("add nsw i32 %x, 7", "add nsw i32 7, %x"),
    ("udiv exact", "udiv"),
    ("or disjoint", "or"),
    ("zext nneg", "zext"),
    ("zext nneg i32", "sext i32"),
    ("fadd nnan", "fadd ninf"),
    ("fadd nnan", "fadd fast"),
    ("float %y, 1.0", "float %y, 2.0"),
    ("icmp slt", "icmp sle"),
    ("icmp ult", "icmp slt"),
    (
        "getelementptr inbounds %struct.S, ptr",
        "getelementptr %struct.S, ptr",
    ),
    ("ptr %slot, i32 0, i32 1", "ptr %slot, i32 0, i32 0"),
    ("type { i32, i64 }", "type { i64, i64 }"),
    ("type { i32, i64 }", "type <{ i32, i64 }>"),
    ("alloca %struct.S, align 8", "alloca %struct.S, align 16"),
    (
        "store i64 %wide, ptr %field, align 8",
        "store i64 %wide, ptr %field, align 4",
    ),
    ("store i64 %wide", "store volatile i64 %wide"),
    (
        "load i32, ptr %p, align 4, !range",
        "load i32, ptr %p, align 2, !range",
    ),
    ("load volatile i32", "load i32"),
    ("align 4, !range !0", "align 4"),
    ("!{i32 0, i32 100}", "!{i32 0, i32 101}"),
    (
        "load atomic i32, ptr %p syncscope(\"singlethread\") acquire",
        "load atomic i32, ptr %p acquire",
    ),
    (
        "syncscope(\"singlethread\") acquire",
        "syncscope(\"singlethread\") seq_cst",
    ),
    ("atomicrmw add", "atomicrmw sub"),
    ("i32 1 monotonic", "i32 1 seq_cst"),
    ("atomicrmw add", "atomicrmw volatile add"),
    ("cmpxchg weak", "cmpxchg"),
    ("acq_rel monotonic", "acq_rel acquire"),
    ("acq_rel monotonic", "acquire monotonic"),
    ("fence seq_cst", "fence acquire"),
    ("fence seq_cst", "fence syncscope(\"singlethread\") seq_cst"),
    ("tail call i32 @callee", "call i32 @callee"),
    ("tail call i32 @callee", "notail call i32 @callee"),
    (
        "call i32 @callee(i32 noundef %loaded) #1",
        "call i32 @callee(i32 %loaded) #1",
    ),
    (
        "call i32 @callee(i32 noundef %loaded) #1",
        "call i32 @callee(i32 noundef %loaded)",
    ),
    ("call i32 @callee(", "call fastcc i32 @callee("),
    (
        "declare i32 @callee(i32)",
        "declare hidden i32 @callee(i32)",
    ),
    (
        "declare i32 @callee(i32)",
        "declare extern_weak i32 @callee(i32)",
    ),
    (
        "declare i32 @callee(i32)",
        "declare i32 @callee(i32) nounwind",
    ),
    ("@callee", "@other"),
    ("mov $1, $0", "movl $1, $0"),
    ("=r,r,~{flags}", "=r,m,~{flags}"),
    ("asm sideeffect", "asm"),
    ("asm sideeffect", "asm sideeffect inteldialect"),
    ("asm sideeffect", "asm sideeffect alignstack"),
    (
        "<i32 0, i32 0, i32 1, i32 2>",
        "<i32 0, i32 1, i32 1, i32 2>",
    ),
    ("%shuffled, i32 2", "%shuffled, i32 1"),
    ("c\"abc\\00\"", "c\"abd\\00\""),
    ("ptr @.str, i64 4, i1 false", "ptr @.str, i64 4, i1 true"),
    (
        "label %loop, label %done\nloop",
        "label %done, label %loop\nloop",
    ),
    (
        "[ 0, %entry ], [ %next, %loop ]",
        "[ 1, %entry ], [ %next, %loop ]",
    ),
    (
        "[ %first, %entry ], [ %next, %loop ]",
        "[ %next, %loop ], [ %first, %entry ]",
    ),
    (", !llvm.loop !1", ""),
    (
        "!\"llvm.loop.unroll.count\", i32 4",
        "!\"llvm.loop.unroll.count\", i32 8",
    ),
    ("i32 10, i32 20", "i32 10, i32 30"),
    ("fastcc i32 @inner", "i32 @inner"),
    ("[ \"tag\"(i32 1) ]", "[ \"tag\"(i32 2) ]"),
    ("[ \"tag\"(i32 1) ]", "[ \"gat\"(i32 1) ]"),
    ("[ \"tag\"(i32 1) ]", ""),
    ("i32 3, label %end", "i32 5, label %end"),
    ("i32 3, label %end", "i32 3, label %last"),
    ("ret i32 %x }", "ret i32 1 }"),
    ("i32 1, i32 2, i32 3]", "i32 1, i32 4, i32 3]"),
    ("@table = constant", "@table = global"),
    ("i64 0, i64 1), align 4", "i64 0, i64 2), align 4"),
    (
        "@variable = global i32 5, align 4",
        "@variable = global i32 5, align 8",
    ),
    ("@variable = global", "@variable = thread_local global"),
    ("@variable = global", "@variable = dso_local global"),
    ("@variable = global", "@variable = weak global"),
    ("nounwind uwtable", "nounwind"),
    ("nounwind uwtable", "nounwind uwtable noinline"),
    ("\"target-cpu\"=\"x86-64\"", "\"target-cpu\"=\"haswell\""),
    ("define i32 @f(", "define hidden i32 @f("),
    ("define i32 @f(", "define weak_odr i32 @f("),
    ("define i32 @f(", "define dso_local i32 @f("),
    ("define i32 @f(", "define fastcc i32 @f("),
    ("define i32 @f(", "define signext i32 @f("),
    (
        "i32 %x, ptr %p, float %y)",
        "i32 signext %x, ptr %p, float %y)",
    ),
    (
        "i32 %x, ptr %p, float %y)",
        "i32 %x, ptr byval(i64) %p, float %y)",
    ),
    (", float %y) #0 {", ", float %y) unnamed_addr #0 {"),
    (", float %y) #0 {", ", float %y) #0 section \"x\" {"),
    (", float %y) #0 {", ", float %y) #0 align 32 {"),
    (", float %y) #0 {", ", float %y) #0 comdat($group) {"),
    (", float %y) #0 {", ", float %y) #0 gc \"shadow-stack\" {"),
    (", float %y) #0 {", ", float %y) #0 prefix i32 1 {"),
    (", float %y) #0 {", ", float %y) #0 prologue i8 1 {"),
    (
        ", float %y) #0 {",
        ", float %y) #0 personality ptr @personality {",
    ),
    (
        "last:\n  br label %end\nend:\n  ret i32 %again",
        "end:\n  ret i32 %again\nlast:\n  br label %end",
    ),
    ("\"PIC Level\", i32 2", "\"PIC Level\", i32 1"),
    ("n8:16:32:64-S128", "n8:16:32-S128"),
    ("x86_64-pc-linux-gnu", "x86_64-pc-linux-musl"),
];

#[test]
fn each_property_of_the_ir_is_in_the_digest() {
    let machine = machine!();
    assert!(EDITS.len() >= 40);
    let expected = machine.module(MODULE);
    let mut seen = BTreeMap::from([(expected["f"].clone(), "nothing")]);
    for (from, to) in EDITS {
        assert!(MODULE.contains(from), "{from}");
        let edited = machine.module(&MODULE.replace(from, to));
        assert_ne!(edited["f"], expected["f"], "{from} -> {to}");
        if let Some(other) = seen.insert(edited["f"].clone(), to) {
            panic!("{from} -> {to} is as {other}");
        }
    }
    // What is no property of the code.
    for (from, to) in [
        ("%sum", "%total"),
        ("%struct.S", "%struct.T"),
        ("loop:", "loop: ; a comment"),
        ("%loop", "%circle"),
        ("@thread = ", "@unrelated = global i32 1\n@thread = "),
        ("%x, 7", "%x, 7, !srcloc !0"),
    ] {
        let text = MODULE.replace(from, to).replace("loop: ", "circle: ");
        let text = match from {
            "%loop" => text.replace("\nloop:", "\ncircle:"),
            _ => text.replace("circle: ;", "loop: ;"),
        };
        assert_eq!(machine.module(&text)["f"], expected["f"], "{from} -> {to}");
    }
}

#[test]
fn constants_and_variables_have_all_their_properties_in_their_digests() {
    let machine = machine!();
    let expected = machine.module(MODULE);
    for (name, from, to) in [
        ("table", "@table = constant", "@table = hidden constant"),
        ("table", "i32 3], align 4", "i32 3], align 16"),
        ("table", "i32 3], align 4", "i32 3], section \"x\", align 4"),
        (
            "table",
            "i32 3], align 4",
            "i32 3], comdat($group), align 4",
        ),
        (
            "table",
            "[3 x i32] [i32 1, i32 2, i32 3]",
            "[3 x float] [float 1.0, float 2.0, float 3.0]",
        ),
        ("variable", "global i32 5", "global i32 6"),
        (
            "variable",
            "@variable = global",
            "@variable = externally_initialized global",
        ),
        (
            "variable",
            "@variable = global",
            "@variable = unnamed_addr global",
        ),
        (
            "thread",
            "thread_local(initialexec)",
            "thread_local(localexec)",
        ),
        (
            ".str",
            "unnamed_addr constant [4 x i8] c\"abc\\00\", align 1",
            "unnamed_addr constant [4 x i8] c\"abc\\00\", align 2",
        ),
    ] {
        assert!(MODULE.contains(from), "{from}");
        let edited = machine.module(&MODULE.replace(from, to));
        assert_ne!(edited[name], expected[name], "{from} -> {to}");
    }
}

#[test]
fn internals_of_two_units_are_two() {
    let machine = machine!();
    let text = "static int g; int *f(void) { return &g; }";
    let mut digests = Vec::new();
    for unit in ["one", "two"] {
        let source = machine.scratch.write("a.c", text);
        let request = Request {
            promote: true,
            unit: unit.to_owned(),
            report: machine.scratch.join("report.json"),
            ..Request::default()
        };
        let file = machine.scratch.write(
            "request.json",
            serde_json::to_vec(&request).expect("a request"),
        );
        let status = machine
            .scratch
            .command(&machine.clang)
            .args(["-O2", "-c", "-o", "a.o"])
            .arg(format!("-fpass-plugin={}", machine.plugin.display()))
            .arg(&source)
            .env(REQUEST_VARIABLE, file)
            .status()
            .expect("clang runs");
        assert!(status.success());
        let report = fs::read(&request.report).expect("a report");
        digests.push(Machine::of_report(
            &serde_json::from_slice(&report).expect("a report"),
        ));
    }
    assert_eq!(changed(&digests[0], &digests[1]), ["f", "g"]);
}
