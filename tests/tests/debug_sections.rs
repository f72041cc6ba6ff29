//! `--compress-debug-sections` and `--gdb-index`: what independent readers find in
//! the sections, and that gdb works with them.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use linking::{Bench, Linker, check_image};
use object::{Object as _, ObjectSection as _};
use repo_tests::process::run;
use repo_tests::tools;
use std::collections::BTreeMap;

const PROGRAM: &str = r#"#include <map>
    #include <string>
    #include <cstdio>
    struct shape { int sides; virtual ~shape() {} virtual double area() const { return sides; } };
    static std::map<std::string, shape> shapes;
    int measure(int n) { shapes["a"].sides = n; return (int) shapes["a"].area(); }
    int helper(int);
    int main() { printf("%d\n", measure(3) + helper(4)); }"#;
const HELPER: &str = r#"struct point { int x, y; };
    static int square(struct point p) { return p.x * p.y; }
    int helper(int n) { struct point p = { n, n }; return square(p); }"#;

/// Compiles the two files with `options`.
fn compile(bench: &Bench, options: &str) {
    bench.scratch.write("a.cc", PROGRAM);
    bench.scratch.write("b.cc", HELPER);
    for source in ["a", "b"] {
        let line = format!("-g {options} -c {source}.cc -o {source}.o");
        bench.driver(Linker::Reference, "g++", &line).ok();
    }
}

/// The debug sections of an image as they are when expanded, by name.
fn expanded(image: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let file = object::File::parse(image).unwrap();
    let debug = file.sections().filter(|section| {
        let name = section.name().unwrap();
        name.starts_with(".debug_") || name.starts_with(".zdebug_")
    });
    debug
        .map(|section| {
            let name = section.name().unwrap().replace(".zdebug", ".debug");
            let data = section.uncompressed_data().expect("it can be expanded");
            (name, data.into_owned())
        })
        .collect()
}

/// Objects may be compressed too, also in the form that only the sections' names tell (`.zdebug_*`), alone or beside plain
/// ones.
#[test]
fn compressed_objects_are_linked_as_plain_ones() {
    let Some(bench) = Bench::new() else { return };
    let link = |options: &str| {
        bench
            .driver(Linker::Ours, "g++", &format!("a.o b.o {options}"))
            .ok();
        expanded(&bench.read("program"))
    };
    compile(&bench, "-O1");
    let plain = link("-o program");
    assert!(plain.contains_key(".debug_str"));
    for how in ["zlib", "zlib-gnu"] {
        compile(&bench, &format!("-O1 -Wa,--compress-debug-sections={how}"));
        let object = bench.read("a.o");
        let file = object::File::parse(&object[..]).expect("an object");
        let old = file
            .sections()
            .any(|section| section.name().is_ok_and(|name| name.starts_with(".zdebug")));
        assert_eq!(old, how == "zlib-gnu");
        assert!(link("-o program") == plain, "{how}");
        // Through one object of both.
        bench
            .driver(Linker::Ours, "g++", "-r -nostdlib a.o b.o -o both.o")
            .ok();
        bench.driver(Linker::Ours, "g++", "both.o -o program").ok();
        let both = expanded(&bench.read("program"));
        assert_eq!(
            both[".debug_info"].len(),
            plain[".debug_info"].len(),
            "{how}"
        );
        assert_eq!(both[".debug_str"].len(), plain[".debug_str"].len(), "{how}");
    }
}

#[test]
fn compressed_sections_hold_what_plain_ones_do() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench, "-O1");
    let link = |linker, how: &str| {
        let line = format!("a.o b.o -o program -Wl,--compress-debug-sections={how}");
        bench.driver(linker, "g++", &line).ok();
        assert_eq!(bench.execute("program").text(), "19\n");
        bench.read("program")
    };
    let plain = link(Linker::Ours, "none");
    let expected = expanded(&plain);
    assert!(expected.contains_key(".debug_info"));
    for how in ["zlib", "zlib-gabi", "zlib-gnu", "zstd"] {
        let ours = link(Linker::Ours, how);
        check_image(&ours);
        assert!(ours.len() < plain.len(), "{how}");
        assert!(expanded(&ours) == expected, "{how}");
        if how == "zstd" {
            continue; // not every GNU ld has it
        }
        // Names, flags, alignments and formats are those of the reference.
        let theirs = link(Linker::Reference, how);
        let [their_size, our_size] = [&theirs, &ours].map(|image| {
            let file = object::File::parse(&image[..]).unwrap();
            let debug = file.sections().filter(|section| {
                let name = section.name().unwrap();
                name.starts_with(".debug_") || name.starts_with(".zdebug_")
            });
            debug.map(|section| section.size()).sum::<u64>()
        });
        // Sections that hold the same take hardly more than with the reference, which takes its time.
        assert!(
            our_size * 100 < their_size * 115,
            "{how}: {our_size} {their_size}"
        );
        let [theirs, ours] = [&theirs, &ours].map(|image| {
            let file = object::File::parse(&image[..]).unwrap();
            let big = file.sections().filter(|section| {
                let name = section.name().unwrap();
                name.contains("debug_info")
                    || name.contains("debug_str")
                    || name.contains("debug_line")
            });
            let facts = |section: object::Section| {
                let object::SectionFlags::Elf { sh_flags } = section.flags() else {
                    panic!("it is ELF")
                };
                let format = section.compressed_file_range().unwrap().format;
                (
                    section.name().unwrap().to_owned(),
                    sh_flags,
                    section.align(),
                    format,
                )
            };
            big.map(facts).collect::<Vec<_>>()
        });
        assert_eq!(theirs, ours, "{how}");
    }
}

#[test]
fn what_stands_behind_the_debug_sections_is_moved_whole() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench, "-O0");
    for options in ["", "-static", "-Wl,--build-id=sha1 -Wl,--gdb-index"] {
        let symbols = ["none", "zlib", "zstd"].map(|how| {
            let line = format!("a.o b.o -o program {options} -Wl,--compress-debug-sections={how}");
            bench.driver(Linker::Ours, "g++", &line).ok();
            let image = bench.read("program");
            check_image(&image);
            let file = object::File::parse(&image[..]).unwrap();
            use object::ObjectSymbol as _;
            let symbols = file.symbols().map(|symbol| {
                (
                    symbol.name().unwrap().to_owned(),
                    symbol.address(),
                    symbol.size(),
                )
            });
            symbols.collect::<Vec<_>>()
        });
        assert!(symbols[0].len() > 10);
        assert!(
            symbols[0] == symbols[1] && symbols[0] == symbols[2],
            "{options}"
        );
    }
}

#[test]
fn tickets_are_compressed_and_indexed_as_objects_are() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench, "-ggnu-pubnames");
    let repo_cc = repo_tests::binaries::Binaries::get().path("repo-cc");
    let cc = |arguments: &str| {
        let mut command = bench.scratch.command(repo_cc);
        run(command.arg("g++").args(arguments.split_whitespace())).ok();
    };
    for source in ["a", "b"] {
        cc(&format!("-g -ggnu-pubnames -c {source}.cc -o {source}.t.o"));
    }
    let images = ["none", "zstd"].map(|how| {
        cc(&format!(
            "a.t.o b.t.o -o program -Wl,--gdb-index,--compress-debug-sections={how}"
        ));
        assert_eq!(bench.execute("program").text(), "19\n");
        bench.read("program")
    });
    assert!(images[1].len() < images[0].len());
    assert!(expanded(&images[0]) == expanded(&images[1]));
    let file = object::File::parse(&images[1][..]).unwrap();
    assert!(file.section_by_name(".gdb_index").is_some());
}

#[test]
fn relocatable_objects_are_compressed() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench, "-O1");
    let sections = ["none", "zlib", "zstd"].map(|how| {
        let line = format!("-r -nostdlib a.o b.o -o both.o -Wl,--compress-debug-sections={how}");
        bench.driver(Linker::Ours, "g++", &line).ok();
        // Whoever links it, the same program comes of it.
        for linker in linking::BOTH {
            bench.driver(linker, "g++", "both.o -o program").ok();
            assert_eq!(bench.execute("program").text(), "19\n", "{how}");
        }
        let image = bench.read("both.o");
        (image.len(), expanded(&image))
    });
    assert!(sections[0].1.contains_key(".debug_info"));
    assert!(sections[1].1 == sections[0].1 && sections[2].1 == sections[0].1);
    assert!(sections[1].0 < sections[0].0 && sections[2].0 < sections[0].0);
}

/// Nothing stands before them but headers, which they must not take the place of.
#[test]
fn an_output_of_debug_sections_alone() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "only.s",
        ".section .debug_types, \"\", @progbits\n.zero 5000\n",
    );
    let compile = "-c only.s -o only.o";
    bench.driver(Linker::Reference, "gcc", compile).ok();
    let images = ["none", "zlib", "zlib-gnu"].map(|how| {
        let line =
            format!("-nostdlib -static only.o -o program -Wl,--build-id=none,--compress-debug-sections={how}");
        bench.driver(Linker::Ours, "gcc", &line).ok();
        // `check_image` wants something to be loaded.
        let image = bench.read("program");
        let elf = goblin::elf::Elf::parse(&image).expect("a sound file");
        let end = elf.header.e_phoff + 56 * u64::from(elf.header.e_phnum);
        for section in elf.section_headers.iter().skip(1) {
            assert!(section.sh_offset >= end, "{how}: {section:?}");
        }
        image
    });
    assert_eq!(expanded(&images[0])[".debug_types"].len(), 5000);
    assert!(expanded(&images[1]) == expanded(&images[0]));
    assert!(images[1].len() < images[0].len() && images[2].len() < images[0].len());
}

/// What gdb says to commands.
fn gdb(bench: &Bench, program: &str, commands: &[&str]) -> Option<String> {
    let [gdb] = tools::require(["gdb"])?;
    let mut command = bench.scratch.command(gdb);
    command.env("DEBUGINFOD_URLS", "").args(["-nx", "-batch"]);
    for line in commands {
        command.args(["-ex", line]);
    }
    let run = run(command.arg(bench.scratch.join(program))).ok();
    Some(run.text() + &run.errors())
}

#[test]
fn gdb_uses_the_index() {
    let Some(bench) = Bench::new() else { return };
    for options in [
        "-gdwarf-3 -ggnu-pubnames",
        "-gdwarf-4 -ggnu-pubnames",
        "-gdwarf-4 -ggnu-pubnames -fdebug-types-section",
        "-gdwarf-5 -ggnu-pubnames",
        "-gdwarf-5 -ggnu-pubnames -gsplit-dwarf",
    ] {
        compile(&bench, options);
        for more in ["", ",--compress-debug-sections=zlib"] {
            let line = format!("a.o b.o -o program -Wl,--gdb-index{more}");
            let run = bench.driver(Linker::Ours, "g++", &line).ok();
            assert_eq!(run.errors(), "", "{options}");
            let commands = [
                "maint info sections .gdb_index",
                "break measure",
                "break square",
                "info line helper",
                "ptype struct point",
                "run",
                "backtrace",
                "kill",
            ];
            let Some(said) = gdb(&bench, "program", &commands) else {
                return;
            };
            // Where processes may not be traced, the index can be looked at all the same.
            let traced = !said.contains("ptrace: Operation not permitted");
            for expected in [
                ".gdb_index",
                "Breakpoint 1 at",
                "Breakpoint 2 at",
                "a.cc, line 6.",
                "b.cc, line 2.",
                "Line 3 of \"b.cc\"",
                "int x;",
            ]
            .into_iter()
            .chain(traced.then_some("Breakpoint 1, measure (n=3)"))
            {
                assert!(
                    said.contains(expected),
                    "{options}{more}: no {expected:?} in\n{said}"
                );
            }
            assert!(!said.contains("warning"), "{options}{more}:\n{said}");
        }
    }
}

#[test]
fn without_tables_of_names_the_user_is_told() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench, "");
    let run = bench
        .driver(Linker::Ours, "g++", "a.o b.o -o program -Wl,--gdb-index")
        .ok();
    assert!(run.errors().contains("-ggnu-pubnames"), "{}", run.report());
    // And without debugging information there is nothing to be indexed, or said.
    let run = bench
        .driver(
            Linker::Ours,
            "g++",
            "-g0 -x c++ a.cc b.cc -o program -Wl,--gdb-index",
        )
        .ok();
    assert_eq!(run.errors(), "");
    let image = bench.read("program");
    let file = object::File::parse(&image[..]).unwrap();
    assert!(file.section_by_name(".gdb_index").is_none());
}
