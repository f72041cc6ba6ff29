//! Real programs, built by gcc and clang as they are and through the
//! repository: they must do the same, and do it right.

use repo_tests::binaries::Binaries;
use repo_tests::build::{
    Built, Family, Toolchain, build, compile_command, execute, link_command, object_path,
};
use repo_tests::process::{Run, run, run_with_input};
use repo_tests::programs::{self, Program};
use repo_tests::scratch::Scratch;
use repo_tests::sources::our_file;
use repo_tests::tools;
use std::path::PathBuf;

/// One of the two ways in which a program was built.
struct Way<'a> {
    scratch: &'a Scratch,
    toolchain: &'a Toolchain,
    options: &'a [&'a str],
    built: &'a Built,
}

impl Way<'_> {
    fn execute(&self, arguments: &[&str]) -> Run {
        execute(self.scratch, &self.built.executable, arguments)
    }

    fn execute_with_input(&self, arguments: &[&str], input: &[u8]) -> Run {
        run_with_input(
            self.scratch.command(&self.built.executable).args(arguments),
            input,
        )
    }
}

/// Builds `program` both ways and hands both to `workload`, which returns all
/// that is to be equal.
fn both_ways(
    family: Family,
    program: &Program,
    options: &[&str],
    workload: impl Fn(&Way) -> Vec<Vec<u8>>,
) {
    let Some(plain) = Toolchain::plain(family) else {
        return;
    };
    let ours = plain.through_repository(Binaries::get());
    let scratch = Scratch::new();
    let mut results = Vec::new();
    for (toolchain, name) in [(&plain, "plain"), (&ours, "ours")] {
        let built = build(&scratch, toolchain, program, options, &scratch.join(name));
        results.push(workload(&Way {
            scratch: &scratch,
            toolchain,
            options,
            built: &built,
        }));
    }
    assert_eq!(results[0].len(), results[1].len());
    for (plain, ours) in results[0].iter().zip(&results[1]) {
        if plain != ours {
            let [plain, ours] = [plain, ours].map(|bytes| String::from_utf8_lossy(bytes));
            panic!(
                "{} differs\n--- without us\n{plain}\n--- with us\n{ours}",
                program.name
            );
        }
    }
}

/// A run's output, code and messages, as parts of a result.
fn parts(run: Run) -> Vec<Vec<u8>> {
    let code = run
        .status
        .code()
        .map_or("signal".into(), |code| code.to_string());
    vec![run.stdout, run.stderr, code.into_bytes()]
}

fn lua(family: Family, options: &[&str]) {
    let program = programs::lua().expect("Lua's sources");
    let script = our_file("workload.lua");
    let script = script.to_str().expect("a path in UTF-8");
    both_ways(family, &program, options, |lua| {
        let mut all = parts(lua.execute(&[script, "one", "two"]).ok());
        // The same chunk from standard input, an error, and a script that dumps
        // all names that the interpreter has.
        // (It makes no name of its own: who adds to a table that is walked may walk some of it twice, or not at all.)
        let names = "local names = 0 for k, v in pairs(_G) do \
                     for l in pairs(type(v) == 'table' and v or {}) do names = names + 1 end end \
                     print(names, _VERSION)";
        all.extend(parts(lua.execute(&["-e", names]).ok()));
        let error = lua.execute(&["-e", "local x <const> = nil; error('told so')"]);
        assert!(
            error.errors().contains("told so\nstack traceback:"),
            "{}",
            error.report()
        );
        all.extend(parts(error.code(1)));
        let chunk = b"print(select('#', ...), #arg, arg[0] ~= nil)";
        all.extend(parts(lua.execute_with_input(&[], chunk).ok()));
        all
    });
}

#[test]
fn lua_by_gcc() {
    lua(Family::Gcc, &["-O2", "-g"]);
}

#[test]
fn lua_by_clang() {
    lua(Family::Clang, &["-O1"]);
}

#[test]
fn lua_by_gcc_statically() {
    lua(Family::Gcc, &["-O0", "-static"]);
}

#[test]
fn lua_by_clang_without_pie() {
    lua(Family::Clang, &["-O0", "-fno-pie", "-no-pie"]);
}

fn sqlite(family: Family, options: &[&str]) {
    let program = programs::sqlite().expect("SQLite's sources");
    let sql = std::fs::read(our_file("workload.sql")).expect("a file of ours");
    both_ways(family, &program, options, |sqlite| {
        let database = sqlite.built.executable.with_extension("db");
        let database = database.to_str().expect("a path in UTF-8");
        let run = sqlite.execute_with_input(&[database], &sql).code(1);
        let text = run.text();
        // The three statements that must fail, and only they.
        assert_eq!(text.matches("error: ").count(), 3, "{text}");
        for right in [
            "\nok\n",
            "\nc|[1,",
            "CHECK constraint failed: people >= 0: INSERT INTO city VALUES (1000",
        ] {
            assert!(text.contains(right), "no {right:?} in\n{text}");
        }
        let mut all = parts(run);
        // The database file, byte for byte; and the file as the next process reads it.
        all.push(std::fs::read(database).expect("sqlite made the database"));
        let again = "SELECT sum(km), count(*) FROM trip; SELECT * FROM log ORDER BY rowid LIMIT 3;";
        all.extend(parts(sqlite.execute(&[database, again]).ok()));
        all
    });
}

#[test]
fn sqlite_by_gcc() {
    sqlite(Family::Gcc, &["-O1"]);
}

#[test]
fn sqlite_by_clang() {
    sqlite(Family::Clang, &["-O1"]);
}

/// Text that compresses well, repeats far apart, and is the same every time.
fn sample_text(lines: u32, mut seed: u32) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "fragment",
        "section",
        "fixup",
        "name",
        "ticket",
        "compilation",
        "image",
        "snapshot",
        "digest",
        "linker",
        "repository",
        "symbol",
    ];
    let mut text = Vec::new();
    for line in 0..lines {
        for _ in 0..8 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.extend_from_slice(WORDS[(seed >> 16) as usize % WORDS.len()].as_bytes());
            text.push(b' ');
        }
        text.extend_from_slice(format!("{line} {seed:x}\n").as_bytes());
    }
    text
}

fn zstd(family: Family, options: &[&str]) {
    let program = programs::zstd().expect("Zstandard's sources");
    both_ways(family, &program, options, |zstd| {
        let scratch = zstd.scratch;
        let input = scratch.write("input", sample_text(6_000, 1));
        let [input, packed, back] =
            [input, scratch.join("packed"), scratch.join("back")].map(|p| p.display().to_string());
        let text = std::fs::read(&input).expect("just written");
        let mut all = Vec::new();
        for (level, workers) in [("1", "0"), ("3", "2"), ("9", "0"), ("19", "0"), ("-5", "0")] {
            zstd.execute(&["compress", level, workers, &input, &packed])
                .ok();
            zstd.execute(&["decompress", &packed, &back]).ok();
            assert!(
                std::fs::read(&back).is_ok_and(|back| back == text),
                "level {level}"
            );
            all.push(std::fs::read(&packed).expect("just compressed"));
        }
        // A dictionary of many small samples, and one file with it.
        let mut arguments = vec![
            "train".to_owned(),
            scratch.join("dictionary").display().to_string(),
        ];
        for number in 0..200 {
            let sample = scratch.write(format!("samples/{number}"), sample_text(4, number));
            arguments.push(sample.display().to_string());
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        all.extend(parts(zstd.execute(&arguments).ok()));
        let (dictionary, sample) = (arguments[1], arguments[9]);
        all.push(std::fs::read(dictionary).expect("just trained"));
        zstd.execute(&["compress", "3", "0", sample, &packed, dictionary])
            .ok();
        zstd.execute(&["decompress", &packed, &back, dictionary])
            .ok();
        assert_eq!(std::fs::read(&back).ok(), std::fs::read(sample).ok());
        all.push(std::fs::read(&packed).expect("just compressed"));
        // Damage is found by the checksum.
        zstd.execute(&["compress", "3", "0", &input, &packed]).ok();
        let mut damaged = std::fs::read(&packed).expect("just compressed");
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        std::fs::write(&packed, damaged).expect("a file of ours");
        all.extend(parts(zstd.execute(&["decompress", &packed, &back]).code(1)));
        all
    });
}

#[test]
fn zstd_by_gcc() {
    zstd(Family::Gcc, &["-O1"]);
}

#[test]
fn zstd_by_clang() {
    zstd(Family::Clang, &["-O1"]);
}

/// A random 3-SAT formula in DIMACS form, and its clauses.
fn formula(variables: u32, clauses: u32, mut seed: u32) -> (String, Vec<[i64; 3]>) {
    let mut next = move |bound: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % bound
    };
    let mut text = format!("p cnf {variables} {clauses}\n");
    let mut list = Vec::new();
    for _ in 0..clauses {
        let clause = [0; 3].map(|_| {
            let variable = i64::from(next(variables)) + 1;
            if next(2) == 0 { variable } else { -variable }
        });
        text += &format!("{} {} {} 0\n", clause[0], clause[1], clause[2]);
        list.push(clause);
    }
    (text, list)
}

/// CaDiCaL's answer must be equal with its proof byte for byte, and right: the
/// model satisfies the formula.
fn cadical(family: Family, options: &[&str]) {
    let program = programs::cadical().expect("CaDiCaL's sources");
    assert!(program.sources.len() >= 50);
    both_ways(family, &program, options, |cadical| {
        let scratch = cadical.scratch;
        let mut all = Vec::new();
        let mut codes = [0, 0];
        for (index, clauses) in [700, 830, 845, 860, 930].into_iter().enumerate() {
            let (text, list) = formula(200, clauses, index as u32);
            let input = scratch.write("formula.cnf", text).display().to_string();
            let proof = scratch.join("proof").display().to_string();
            let run = cadical.execute(&["-q", &input, &proof]);
            match run.status.code() {
                Some(10) => {
                    codes[0] += 1;
                    let text = run.text();
                    let values = text.lines().filter_map(|line| line.strip_prefix("v "));
                    let model: Vec<i64> = values
                        .flat_map(str::split_whitespace)
                        .flat_map(str::parse)
                        .collect();
                    let holds = |clause: &[i64; 3]| clause.iter().any(|l| model.contains(l));
                    assert!(list.iter().all(holds), "not a model of {input}\n{text}");
                }
                Some(20) => codes[1] += 1,
                _ => panic!("{}", run.report()),
            }
            all.extend(parts(run));
            all.push(std::fs::read(&proof).expect("the solver wrote a proof"));
        }
        assert!(codes[0] > 0 && codes[1] > 0, "one answer only: {codes:?}");
        all.extend(parts(
            cadical.execute_with_input(&["-q"], b"p cnf 1 2\n1 0\n"),
        ));
        all.extend(parts(cadical.execute(&["--version"]).ok()));
        let callbacks = callbacks_on_the_library(cadical);
        all.extend(parts(execute(scratch, &callbacks, &[]).ok()));
        all
    });
}

/// Makes an archive of the solver's objects with `ar`, and links a second
/// program with it, whose exceptions pass through the solver's frames.
fn callbacks_on_the_library(cadical: &Way) -> PathBuf {
    let [ar] = tools::require(["ar"]).expect("compilers need binutils");
    let directory = cadical
        .built
        .executable
        .parent()
        .expect("it is in a directory");
    let program = programs::sat_callbacks().expect("CaDiCaL's sources");
    let archive = directory.join("libcadical.a");
    let mut pack = cadical.scratch.command(ar);
    pack.arg("rcs").arg(&archive);
    pack.args(
        cadical
            .built
            .objects
            .iter()
            .filter(|object| !object.ends_with("cadical.o")),
    );
    run(&mut pack).ok();

    let (
        Way {
            scratch,
            toolchain,
            options,
            ..
        },
        main,
    ) = (cadical, our_file("sat_callbacks.cpp"));
    let object = object_path(directory, &main);
    run(&mut compile_command(
        scratch, toolchain, &program, options, &main, &object,
    ))
    .ok();
    let executable = directory.join(program.name);
    let inputs = [object, archive];
    run(&mut link_command(
        scratch,
        toolchain,
        &program,
        options,
        &inputs,
        &executable,
    ))
    .ok();
    executable
}

#[test]
fn cadical_by_gcc() {
    cadical(Family::Gcc, &["-O1"]);
}

#[test]
fn cadical_by_clang() {
    cadical(Family::Clang, &["-O1"]);
}
