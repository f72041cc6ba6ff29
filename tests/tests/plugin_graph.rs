//! What the repository keeps of how definitions depend on each other, as `repo-dump` shows it: `graph`, and `why` two of one name are not
//! the same.

use repo_tests::binaries::{self, Binaries};
use repo_tests::process::run;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use serde_json::Value;
use std::path::PathBuf;

struct Machine {
    scratch: Scratch,
    clang: PathBuf,
}

macro_rules! machine {
    () => {{
        let [clang] = require!("clang-19");
        if binaries::plugin().is_none() {
            return tools::skip("llvm-19-dev");
        }
        Machine {
            scratch: Scratch::new(),
            clang,
        }
    }};
}

impl Machine {
    fn compile(&self, name: &str, text: &str, level: &str) {
        self.compile_with("explain", name, text, level);
    }

    fn compile_with(&self, wish: &str, name: &str, text: &str, level: &str) {
        self.scratch.write(name, text);
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        command.arg(&self.clang).args([level, "-c", name, "-o"]);
        command.arg(format!("{name}.o")).env("REPO_CC_PRUNE", wish);
        run(&mut command).ok();
    }

    fn dump(&self, arguments: &[&str]) -> String {
        let mut command = self.scratch.command(Binaries::get().path("repo-dump"));
        run(command.args(arguments)).ok().text()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.dump(&[&["--json"], arguments].concat());
        serde_json::from_str(&text).expect("JSON")
    }

    /// The digests of a name.
    fn digests(&self, name: &str) -> Vec<String> {
        let shown = self.json(&["graph", name]);
        let rows = shown[0]["definitions"].as_array().expect("rows");
        let digests = rows
            .iter()
            .map(|row| row["digest"].as_str().expect("a digest"));
        digests.map(str::to_owned).collect()
    }

    /// Why the digest of `name` that is not among the `old` ones differs from the first of these.
    #[track_caller]
    fn why(&self, name: &str, old: &[String]) -> String {
        let new = self.digests(name);
        let new: Vec<_> = new.iter().filter(|digest| !old.contains(digest)).collect();
        assert_eq!(new.len(), 1, "{name}");
        self.dump(&["why", &old[0], new[0]])
    }

    /// Bytes of the bodies of graphs.
    fn graphs(&self) -> Vec<u64> {
        let records = self.json(&["records", "definitions"]);
        let records = records.as_array().expect("records");
        let graphs = records.iter().filter(|record| record["body_version"] == 2);
        graphs
            .map(|record| record["bytes"].as_u64().expect("bytes"))
            .collect()
    }
}

const TEXT: &str = r#"
extern int puts(const char *);
static int leaf(int x) { return x * 3; }
int middle(int x) { return leaf(x) + 1; }
int top(int x) { return middle(x) - 5; }
int alone(int x) { return x; }
int says(void) { return puts("a text"); }
int even(int n), odd(int n);
int even(int n) { return n ? odd(n - 1) : 1; }
int odd(int n) { return n ? even(n - 1) : 0; }
"#;

/// What stands in the lines behind a definition of the graph of a ticket.
fn behind(shown: &str, name: &str) -> Vec<String> {
    let lines = shown
        .lines()
        .skip_while(|line| line.starts_with(' ') || !line.ends_with(&format!(" {name}")));
    let lines = lines.skip(1).take_while(|line| line.starts_with("    "));
    let words = |line: &str| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.retain(|word| word.len() != 12);
        words.join(" ")
    };
    lines.map(words).collect()
}

#[test]
fn the_graph_of_a_compilation_is_shown() {
    let machine = machine!();
    machine.compile("a.c", TEXT, "-O2");
    let check = |shown: &str| {
        assert_eq!(behind(shown, "top"), ["depends on middle"], "{shown}");
        assert_eq!(behind(shown, "middle"), ["depends on leaf"], "{shown}");
        assert_eq!(
            behind(shown, "leaf"),
            ["depends on its user middle"],
            "{shown}"
        );
        assert_eq!(behind(shown, "says"), ["depends on a constant"], "{shown}");
        assert_eq!(behind(shown, "even"), ["depends on odd"], "{shown}");
        assert!(behind(shown, "alone").is_empty(), "{shown}");
    };
    check(&machine.dump(&["graph", "a.c.o"]));
    // Most of it is known by now, and is shown all the same.
    let edited = TEXT.replace("return x; }", "return x + 4; }");
    machine.compile("a.c", &edited, "-O2");
    let shown = machine.dump(&["graph", "a.c.o"]);
    check(&shown);
    assert!(
        shown.lines().any(|line| line.ends_with(" alone")),
        "{shown}"
    );
    // A compaction takes it along.
    let mut gc = machine.scratch.command(Binaries::get().path("repo-gc"));
    run(gc.args(["--grace", "0", "--unused", "0"])).ok();
    check(&machine.dump(&["graph", "a.c.o"]));
    machine.dump(&["--verify"]);
    // One definition, by its name.
    let shown = machine.dump(&["graph", "top"]);
    assert_eq!(behind(&shown, "top"), ["depends on middle"], "{shown}");
    assert!(!shown.contains(" says"), "{shown}");
}

#[test]
fn why_two_digests_of_a_name_differ_is_said() {
    for (from, to, whys) in [
        (
            "x * 3",
            "x * 7",
            &[
                (
                    "middle",
                    "it depends on leaf: its code or content is another",
                ),
                (
                    "top",
                    "it depends on middle: it depends on leaf: its code or content is another",
                ),
            ][..],
        ),
        (
            "int alone(",
            "__attribute__((cold)) int alone(",
            &[(
                "alone",
                "what is said of it as a whole is another (its attributes or calling convention)",
            )],
        ),
        (
            "int alone(int x)",
            "__attribute__((section(\"elsewhere\"))) int alone(int x)",
            &[(
                "alone",
                "what is said of it as a whole is another (its section or alignment)",
            )],
        ),
        (
            "int alone(int x)",
            "__attribute__((visibility(\"protected\"))) int alone(int x)",
            &[(
                "alone",
                "what is said of it as a whole is another (its linkage, visibility or section group)",
            )],
        ),
        (
            "a text",
            "b text",
            &[(
                "says",
                "it depends on a constant: it is another, or was not there",
            )],
        ),
        (
            "odd(n - 1) : 1",
            "odd(n - 1) : 2",
            &[
                ("even", "its code or content is another"),
                ("odd", "it depends on even: its code or content is another"),
            ],
        ),
    ] {
        let machine = machine!();
        machine.compile("a.c", TEXT, "-O2");
        let old: Vec<_> = whys.iter().map(|(name, _)| machine.digests(name)).collect();
        machine.compile("a.c", &TEXT.replacen(from, to, 1), "-O2");
        for ((name, why), old) in whys.iter().zip(old) {
            let said = machine.why(name, &old);
            assert!(
                said.trim_end().ends_with(&format!(": {why}")),
                "{to}: {said}"
            );
        }
    }
    let machine = machine!();
    machine.compile("a.c", TEXT, "-O2");
    let top = machine.digests("top");
    let said = machine.dump(&["why", "top", &top[0]]);
    assert!(said.contains("they are the same"), "{said}");
    // Other options, other digests; what refers to a static function has another code then, as the function's hidden name is of
    // the command.
    let alone = machine.digests("alone");
    machine.compile("a.c", TEXT, "-O1");
    let said = machine.why("alone", &alone);
    assert!(
        said.contains("the compiler, its options or the target"),
        "{said}"
    );
}

/// A few dozen bytes a definition, and an edit adds what it has made new.
#[test]
fn what_is_kept_is_small() {
    let machine = machine!();
    let mut text = String::from("extern int out(int);\n");
    for at in 0..200 {
        text += &format!("static int helper{at}(int x) {{ return out(x) + {at}; }}\n");
        text += &format!("int function{at}(int x) {{ return helper{at}(x) * out({at}); }}\n");
    }
    machine.compile("a.c", &text, "-O2");
    let first = machine.graphs();
    assert_eq!(first.len(), 1);
    assert!(first[0] < 400 * 56, "{first:?}");
    machine.compile("a.c", &text.replace("out(70)", "out(71)"), "-O2");
    let mut graphs = machine.graphs();
    graphs.sort_unstable();
    assert_eq!(graphs.len(), 2);
    assert!(graphs[0] < 200, "{graphs:?}");
    // The same once more adds nothing.
    machine.compile("a.c", &format!("\n{text}"), "-O2");
    assert_eq!(machine.graphs().len(), 2);
}

/// Of compiles that nobody asks about nothing is kept; of one that is explained all is, also of what was known before.
#[test]
fn graphs_are_of_compiles_that_are_explained() {
    let machine = machine!();
    machine.compile_with("1", "a.c", TEXT, "-O2");
    assert!(machine.graphs().is_empty());
    let edited = TEXT.replace("return x; }", "return x + 4; }");
    machine.compile("a.c", &edited, "-O2");
    assert_eq!(machine.graphs().len(), 1);
    let shown = machine.dump(&["graph", "a.c.o"]);
    assert_eq!(behind(&shown, "top"), ["depends on middle"], "{shown}");
    assert!(!shown.contains("nothing is kept"), "{shown}");
}

#[test]
fn of_what_there_is_nothing_that_is_said() {
    let machine = machine!();
    machine.compile("a.c", TEXT, "-O2");
    for arguments in [["graph", "no_such_name"], ["why", "top"]] {
        let mut command = machine.scratch.command(Binaries::get().path("repo-dump"));
        let output = command.args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}
