//! Builds of whole programs by `make -j2`, and what is built again after an edit: by clang alone, by clang behind ccache, and by clang behind
//! `repo-cc`, which leaves out what the repository has.
//!
//! What counts for the compiler is processor time: of all that `make` has started, the compiler's front end among it. Objects and programs
//! are measured apart, as a linker has nothing to do with how they were compiled; those who wait for a build wait for both.
//!
//! Each contestant builds the same copy of the sources into a directory of its own, one after the other, so an edit is one for all. `make` knows
//! by dependency files which sources an edit concerns.

use crate::measure::{build_plugin, run};
use anyhow::{Context as _, Result, ensure};
use repo_tests::binaries::Binaries;
use repo_tests::edited_trees::copy_tree;
use repo_tests::programs;
use repo_tests::sources::{locate, project_root};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is done before `make` runs again: what for, the file, what is there, and what stands there then.
type Edit = (&'static str, &'static str, &'static str, &'static str);

/// A program, whose sources are in a directory that may be written to.
struct Tree {
    name: &'static str,
    directory: PathBuf,
    sources: Vec<String>,
    options: Vec<String>,
    /// What it is linked with; `None` if it is not.
    libraries: Option<&'static str>,
    edits: &'static [Edit],
}

const EDITS_OF_CADICAL: &[Edit] = &[
    (
        "a comment in a header that all include",
        "internal.hpp",
        "struct Internal {",
        "/* edited */\nstruct Internal {",
    ),
    (
        "a function (`Internal::vivify`)",
        "vivify.cpp",
        "void Internal::vivify () {",
        "void Internal::vivify () {\n  stats.vivifications += level > 1000000;",
    ),
    (
        "an inline function of a header (`Internal::externalize`)",
        "internal.hpp",
        "  int externalize (int lit) {",
        "  int externalize (int lit) {\n    if (lit == 77777777) return 3;",
    ),
];

const EDITS_OF_ROCKSDB: &[Edit] = &[
    (
        "a comment in a header that all include",
        "include/rocksdb/status.h",
        "class Status {",
        "/* edited */\nclass Status {",
    ),
    (
        "a comment in another one (`slice.h`)",
        "include/rocksdb/slice.h",
        "class Slice {",
        "/* edited */\nclass Slice {",
    ),
    (
        "an inline function of a header (`GetLengthPrefixedSlice`)",
        "util/coding.h",
        "inline bool GetLengthPrefixedSlice(Slice* input, Slice* result) {",
        "inline bool GetLengthPrefixedSlice(Slice* input, Slice* result) {\n  if (input->size() == 77777777) return false;",
    ),
    (
        "a function (`DBImpl::GetImpl`)",
        "db/db_impl/db_impl.cc",
        "  assert(get_impl_options.value != nullptr ||",
        "  if (key.size() == 77777777) return Status::Corruption();\n  assert(get_impl_options.value != nullptr ||",
    ),
];

/// What one of the contestants took: wall and processor time, milliseconds; of the link, wall time.
#[derive(Clone, Copy, Debug, Default)]
struct Took {
    compiles: [f64; 2],
    link: Option<f64>,
}

/// What is asked for.
pub struct Wish<'a> {
    /// How many of RocksDB's sources; all if it is not said.
    pub files: Option<usize>,
    /// Parts of the descriptions of the edits that are made; all are if there is none. Clang alone builds at first only, if there are some.
    pub edits: &'a [String],
    /// Options that all is compiled with besides.
    pub options: &'a [String],
}

impl Wish<'_> {
    fn has(&self, what: &str) -> bool {
        let is_first = what == "first build";
        self.edits.is_empty() || is_first || self.edits.iter().any(|part| what.contains(part))
    }
}

/// What was built after an edit, by clang alone, ccache and `repo-cc`.
pub struct Step {
    program: &'static str,
    what: &'static str,
    took: [Took; 3],
    /// The sizes of the objects; of the tickets; of the repository.
    bytes: [u64; 3],
}

fn cadical(directory: &Path) -> Result<Tree> {
    let program = programs::cadical()?;
    let source = program.sources.first().and_then(|path| path.parent());
    let directory = directory.join("cadical");
    copy_tree(source.context("no sources")?, &directory)?;
    let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.to_owned());
    let mut options = program.flags;
    options.retain(|option| !option.starts_with("-I"));
    Ok(Tree {
        name: "cadical",
        directory,
        sources: program.sources.iter().filter_map(name).collect(),
        options,
        libraries: Some("-lstdc++ -lm -pthread"),
        edits: EDITS_OF_CADICAL,
    })
}

fn rocksdb(directory: &Path, files: Option<usize>) -> Result<Tree> {
    let manifest = project_root().join("tests/bench/store/Cargo.toml");
    let crates = locate(&manifest)?;
    let own = crates.get("librocksdb-sys").context("no RocksDB")?;
    let list = fs::read_to_string(own.join("rocksdb_lib_sources.txt"))?;
    let directory = directory.join("rocksdb");
    copy_tree(&own.join("rocksdb"), &directory)?;
    let is_ours = |path: &&str| path.ends_with(".cc") && directory.join(path).is_file();
    let all: Vec<&str> = list.lines().filter(is_ours).collect();
    let count = files.unwrap_or(all.len()).clamp(1, all.len());
    let is_chosen = |at: &usize| {
        at * count / all.len() != (at + 1) * count / all.len() || all[*at].ends_with("/db_impl.cc")
    };
    let chosen = (0..all.len())
        .filter(is_chosen)
        .map(|at| all[at].to_owned());
    let mut sources: Vec<String> = chosen.collect();
    if count == all.len() {
        // What it was built from; and a program.
        let version = fs::read_to_string(own.join("build_version.cc"))?;
        fs::write(directory.join("util/build_version.cc"), version)?;
        sources.push("util/build_version.cc".to_owned());
        sources.push("examples/simple_example.cc".to_owned());
    }
    let options = [
        "-std=c++17",
        "-Iinclude",
        "-I.",
        "-DNDEBUG=1",
        "-DROCKSDB_PLATFORM_POSIX",
        "-DROCKSDB_LIB_IO_POSIX",
        "-DOS_LINUX",
        "-DROCKSDB_SUPPORT_THREAD_LOCAL",
    ];
    Ok(Tree {
        name: "rocksdb",
        libraries: (count == all.len()).then_some("-lstdc++ -lm -pthread -ldl"),
        directory,
        sources,
        options: options.map(str::to_owned).into(),
        edits: EDITS_OF_ROCKSDB,
    })
}

impl Tree {
    fn write_makefile(&self, more: &[String]) -> Result<()> {
        let words = |words: Vec<String>| words.join(" \\\n  ");
        let object = |source: &String| format!("$(BUILD)/{source}.o");
        let text = format!(
            "OBJECTS = {}\n\
             FLAGS = -O2 -w {}\n\
             objects: $(OBJECTS)\n\
             $(BUILD)/%.o: %\n\
             \t@mkdir -p $(@D)\n\
             \t$(CXX) $(FLAGS) -MMD -c $< -o $@\n\
             program: $(OBJECTS)\n\
             \t$(CXX) $(LDFLAGS) -o $(BUILD)/program $(OBJECTS) {}\n\
             -include $(OBJECTS:.o=.d)\n",
            words(self.sources.iter().map(object).collect()),
            words(
                (self.options.iter())
                    .chain(more)
                    .map(|it| it.replace('"', "\\\""))
                    .collect()
            ),
            self.libraries.unwrap_or_default(),
        );
        Ok(fs::write(self.directory.join("Makefile.bench"), text)?)
    }

    /// Sum of the sizes of what was compiled into this directory.
    fn size(&self, build: &str) -> Result<u64> {
        let mut sum = 0;
        for source in &self.sources {
            let object = self.directory.join(build).join(format!("{source}.o"));
            sum += fs::metadata(object)?.len();
        }
        Ok(sum)
    }
}

/// Measures the programs that are `chosen`, and says each row when it is done; `directory` is for scratch files.
///
/// # Errors
/// If there is no clang 19, no ccache, no make, or the plugin was built without LLVM's headers.
pub fn measure(
    binaries: &Binaries,
    directory: &Path,
    wish: &Wish<'_>,
    chosen: impl Fn(&str) -> bool,
) -> Result<Vec<Step>> {
    build_plugin()?;
    let mut steps = Vec::new();
    if chosen("cadical") {
        measure_tree(
            (&cadical(directory)?, wish),
            binaries,
            directory,
            &mut steps,
        )?;
    }
    if chosen("rocksdb") {
        let tree = rocksdb(directory, wish.files)?;
        measure_tree((&tree, wish), binaries, directory, &mut steps)?;
    }
    Ok(steps)
}

fn measure_tree(
    (tree, wish): (&Tree, &Wish<'_>),
    binaries: &Binaries,
    directory: &Path,
    steps: &mut Vec<Step>,
) -> Result<()> {
    tree.write_makefile(wish.options)?;
    let ours = binaries.path("repo-cc").display();
    let contestants = [
        ("clang", "clang-19".to_owned(), "-fuse-ld=lld"),
        ("ccache", "ccache clang-19".to_owned(), "-fuse-ld=mold"),
        ("repo", format!("{ours} clang-19"), ""),
    ];
    let repository = directory.join(format!("{}.repo", tree.name));
    let first: &[Edit] = &[("first build", "", "", ""), ("nothing", "", "", "")];
    let edits = first.iter().chain(tree.edits);
    for (what, file, from, to) in edits.filter(|edit| wish.has(edit.0)) {
        if !file.is_empty() {
            let path = tree.directory.join(file);
            let text = fs::read_to_string(&path)?;
            ensure!(text.contains(from), "{what}: {file} is another one");
            fs::write(path, text.replacen(from, to, 1))?;
        }
        let mut took = [Took::default(); 3];
        for ((build, compiler, linker), took) in contestants.iter().zip(&mut took) {
            if *build == "clang" && *what != "first build" && !wish.edits.is_empty() {
                continue;
            }
            if *what == "nothing" {
                for source in &tree.sources {
                    fs::remove_file(tree.directory.join(build).join(format!("{source}.o")))?;
                }
            }
            let make = |target: &str| {
                let mut make = Command::new("make");
                make.current_dir(&tree.directory)
                    .args(["-s", "-j2", "-f", "Makefile.bench", target])
                    .arg(format!("BUILD={build}"))
                    .arg(format!("CXX={compiler}"))
                    .arg(format!("LDFLAGS={linker}"))
                    .env("CCACHE_DIR", directory.join("ccache"))
                    .env("REPO_FILE", &repository)
                    .env("XDG_CACHE_HOME", directory.join("cache"))
                    .env("XDG_STATE_HOME", directory.join("state"));
                make
            };
            let [wall, processor, _] = run(&mut make("objects"))?;
            took.compiles = [wall, processor];
            if tree.libraries.is_some() {
                took.link = Some(run(&mut make("program"))?[0]);
            }
        }
        let step = Step {
            program: tree.name,
            what,
            took,
            bytes: [
                tree.size("clang")?,
                tree.size("repo")?,
                fs::metadata(&repository)?.len(),
            ],
        };
        eprintln!("{}", step.to_json());
        steps.push(step);
    }
    Ok(())
}

impl Step {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        let took = |took: &Took| json!({"wall": took.compiles[0], "processor": took.compiles[1], "link": took.link});
        let [clang, ccache, ours] = &self.took;
        let [objects, tickets, repository] = self.bytes;
        json!({
            "program": self.program, "edit": self.what, "clang": took(clang), "ccache": took(ccache), "ours": took(ours),
            "object_bytes": objects, "ticket_bytes": tickets, "repository_bytes": repository
        })
    }
}

/// A table of them.
pub fn print(all: &[Step]) {
    println!(
        "| edited, -O2, make -j2 | clang, lld: processor; wall + link, s | ccache, mold | repo-cc, repo-ld | processor, of clang | of ccache | tickets and repository, of objects |"
    );
    println!("|---|---|---|---|---|---|---|");
    for step in all {
        let seconds = |time: f64| format!("{:.2}", time / 1e3);
        let ratio = |ours: &Took, other: &Took| match other.compiles[1] {
            0.0 => "–".to_owned(),
            other => format!("{:.2}", ours.compiles[1] / other),
        };
        let cell = |took: &Took| {
            if took.compiles == [0.0; 2] {
                return "–".to_owned();
            }
            let link = took
                .link
                .map_or(String::new(), |link| format!(" + {}", seconds(link)));
            format!(
                "{}; {}{link}",
                seconds(took.compiles[1]),
                seconds(took.compiles[0])
            )
        };
        let [clang, ccache, ours] = &step.took;
        let [objects, tickets, repository] = step.bytes;
        println!(
            "| {}: {} | {} | {} | {} | {} | {} | {:.2} |",
            step.program,
            step.what,
            cell(clang),
            cell(ccache),
            cell(ours),
            ratio(ours, clang),
            ratio(ours, ccache),
            (tickets + repository) as f64 / objects as f64,
        );
    }
}
