//! Edit, build, run: what an edit adds to the repository is what it changed.

use format_spec::digest::Digest;
use format_spec::program::Index;
use repo_tests::binaries::Binaries;
use repo_tests::build::{Family, Toolchain, compile, compile_command, link_command, object_path};
use repo_tests::process::run;
use repo_tests::programs::{self, Language, Program};
use repo_tests::scratch::Scratch;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use store::program::Repository;

/// The fragments of a repository: digest, and the names that compilations
/// define in it.
type Fragments = BTreeMap<Digest, BTreeSet<String>>;

fn fragments(repository: &Path) -> Fragments {
    let repository = Repository::open_read_only(repository).expect("a repository");
    let programs = repository.programs().expect("a snapshot");
    let mut fragments = Fragments::new();
    for record in programs.records(Index::Fragments) {
        fragments
            .entry(record.expect("a fragment").key())
            .or_default();
    }
    for record in programs.records(Index::Compilations) {
        let record = record.expect("a compilation");
        let compilation = programs.compilation(&record.key()).expect("it is there");
        for (index, member) in compilation.members().iter().enumerate() {
            let fragment = programs.fragment(member.fragment).expect("a fragment");
            let names = fragments
                .get_mut(&fragment.record().key())
                .expect("it is in the index");
            let sections = compilation.sections_of(index);
            for symbol in compilation.symbols() {
                let inside = symbol
                    .section
                    .checked_sub(1)
                    .is_some_and(|s| sections.contains(&s));
                let name = programs.name(symbol.name).expect("a name");
                if inside && !name.is_empty() {
                    names.insert(String::from_utf8_lossy(name).into_owned());
                }
            }
        }
    }
    fragments
}

/// The names of the fragments of `after` that `before` does not have, one set a
/// fragment.
fn new(before: &Fragments, after: &Fragments) -> Vec<BTreeSet<String>> {
    assert!(
        before.keys().all(|digest| after.contains_key(digest)),
        "a fragment was lost"
    );
    let is_new = |entry: &(&Digest, &BTreeSet<String>)| !before.contains_key(entry.0);
    after
        .iter()
        .filter(is_new)
        .map(|(_, names)| names.clone())
        .collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Lua with sources that may be edited.
struct Lua {
    scratch: Scratch,
    toolchain: Toolchain,
    program: Program,
    options: &'static [&'static str],
    objects: Vec<PathBuf>,
}

impl Lua {
    fn build(family: Family, options: &'static [&'static str]) -> Option<Lua> {
        let toolchain = Toolchain::plain(family)?.through_repository(Binaries::get());
        let mut program = programs::lua().expect("Lua's sources");
        let scratch = Scratch::new();
        let directories: BTreeSet<_> = program
            .sources
            .iter()
            .map(|source| source.parent().expect("a directory"))
            .collect();
        for directory in directories {
            for entry in directory.read_dir().expect("a directory of sources") {
                let path = entry.expect("an entry").path();
                if path
                    .extension()
                    .is_some_and(|extension| extension == "c" || extension == "h")
                {
                    let text = fs::read(&path).expect("a source");
                    scratch.write(path.file_name().expect("a file"), text);
                }
            }
        }
        for source in &mut program.sources {
            *source = scratch.join(source.file_name().expect("a file"));
        }
        program.flags.retain(|flag| !flag.starts_with("-I"));
        let objects = compile(&scratch, &toolchain, &program, options, scratch.path());
        Some(Lua {
            scratch,
            toolchain,
            program,
            options,
            objects,
        })
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.scratch.join(file)).expect("a source");
        assert_eq!(text.matches(from).count(), 1, "{from:?} in {file}");
        self.scratch.write(file, text.replace(from, to));
    }

    /// Compiles `file` again, and returns what that added.
    fn rebuild(&self, file: &str) -> Vec<BTreeSet<String>> {
        let before = fragments(&self.scratch.repository());
        let source = self.scratch.join(file);
        let object = object_path(self.scratch.path(), &source);
        let (scratch, program) = (&self.scratch, &self.program);
        let mut command = compile_command(
            scratch,
            &self.toolchain,
            program,
            self.options,
            &source,
            &object,
        );
        run(&mut command).ok();
        new(&before, &fragments(&self.scratch.repository()))
    }

    fn run(&self, code: &str) -> String {
        let executable = self.scratch.join("lua");
        let (scratch, program) = (&self.scratch, &self.program);
        let mut link = link_command(
            scratch,
            &self.toolchain,
            program,
            self.options,
            &self.objects,
            &executable,
        );
        run(&mut link).ok();
        run(self.scratch.command(&executable).args(["-e", code]))
            .ok()
            .text()
    }
}

const UPPER: &str = "p[i] = toupper(uchar(s[i]));";
const UPPER_EDITED: &str = "p[i] = i % 2 ? s[i] : toupper(uchar(s[i]));";

fn edit_one_function(family: Family, options: &'static [&'static str]) {
    let Some(lua) = Lua::build(family, options) else {
        return;
    };
    assert_eq!(lua.run("print(string.upper('hello'))"), "HELLO\n");

    // The same again adds nothing, and a comment adds nothing.
    assert_eq!(lua.rebuild("lstrlib.c"), []);
    lua.edit(
        "lstrlib.c",
        "static int str_upper",
        "/* A comment,\n   on lines. */\nstatic int str_upper",
    );
    assert_eq!(lua.rebuild("lstrlib.c"), []);

    lua.edit("lstrlib.c", UPPER, UPPER_EDITED);
    assert_eq!(lua.rebuild("lstrlib.c"), [names(&["str_upper"])]);
    assert_eq!(lua.run("print(string.upper('hello'))"), "HeLlO\n");

    // Back: it is all there already.
    lua.edit("lstrlib.c", UPPER_EDITED, UPPER);
    assert_eq!(lua.rebuild("lstrlib.c"), []);
    assert_eq!(lua.run("print(string.upper('hello'))"), "HELLO\n");

    // A constant that the compiler keeps outside of the function.
    lua.edit(
        "lmathlib.c",
        "(l_mathop(180.0) / PI)",
        "(l_mathop(90.0) / PI)",
    );
    assert_eq!(lua.rebuild("lmathlib.c"), [names(&["math_deg"])]);
    assert_eq!(
        lua.run("print(math.floor(math.deg(math.pi) + 0.5))"),
        "90\n"
    );
}

#[test]
fn one_function_by_gcc() {
    edit_one_function(Family::Gcc, &["-O2"]);
}

#[test]
fn one_function_by_clang() {
    edit_one_function(Family::Clang, &["-O2"]);
}

/// An inline function in a header: the units that use it share one fragment
/// before, and share the new one after.
#[test]
fn an_inline_function_in_a_header() {
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let toolchain = plain.through_repository(Binaries::get());
    let scratch = Scratch::new();
    let header = |step: i32| {
        scratch.write(
            "shared.hpp",
            format!(
                "struct Counter {{ int value = 0; void step() {{ value += {step}; }} virtual ~Counter() {{}} }};\n\
                 template <class T> T twice(T x) {{ return x + x; }}\n"
            ),
        );
    };
    let units = ["one", "two", "three"];
    // Functions with the same code would be one fragment whatever their names.
    for (number, unit) in units.iter().enumerate() {
        scratch.write(
            format!("{unit}.cpp"),
            format!("#include \"shared.hpp\"\nint {unit}(int x) {{ Counter c; c.step(); return twice(c.value + x) + {number}; }}\n"),
        );
    }
    scratch.write(
        "main.cpp",
        "#include <cstdio>\nint one(int); int two(int); int three(int);\n\
         int main() { std::printf(\"%d\\n\", one(1) + two(2) + three(3)); }\n",
    );
    let compile = |unit: &str| {
        let mut command = toolchain.command(&scratch, Language::Cxx);
        run(command.args(["-O0", "-c", &format!("{unit}.cpp")])).ok();
        fragments(&scratch.repository())
    };
    let result = || {
        let mut link = toolchain.command(&scratch, Language::Cxx);
        run(link.args(["one.o", "two.o", "three.o", "main.o", "-o", "program"])).ok();
        run(&mut scratch.command(scratch.join("program")))
            .ok()
            .text()
    };
    header(1);
    compile("main");
    let first = compile("one");
    // The second and third unit add their own function and nothing else.
    let second = compile("two");
    assert_eq!(new(&first, &second), [names(&["_Z3twoi"])]);
    assert_eq!(new(&second, &compile("three")), [names(&["_Z5threei"])]);
    assert_eq!(result(), "21\n");

    header(10);
    let before = fragments(&scratch.repository());
    let after = compile("one");
    assert_eq!(new(&before, &after), [names(&["_ZN7Counter4stepEv"])]);
    for unit in ["two", "three"] {
        assert_eq!(new(&after, &compile(unit)), Vec::<BTreeSet<String>>::new());
    }
    assert_eq!(result(), "75\n");
}
