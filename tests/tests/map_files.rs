//! Reports beside the output: `-Map`, `--cref`, `-y`, `-t`, `--dependency-file`, `--print-timing`, `--progress`. What GNU
//! ld says and `repo-ld` says is read by the same small readers, and compared.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{BOTH, Bench, Linker};
use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run};
use repo_tests::tools;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A program with an archive of which a part is needed, common blocks, and sections that nothing needs.
fn compile(bench: &Bench) {
    for (name, text) in [
        (
            "main",
            "#include <stdio.h>\nint used(void); int common_block[10]; char letter[3] = \"ab\";\n\
             int main(void) { return printf(\"%d %d %s\\n\", used(), common_block[1], letter) < 0; }",
        ),
        (
            "used",
            "int other(void); int used(void) { return other(); }",
        ),
        ("other", "int other(void) { return 4; }"),
        ("never", "int never(void) { return 5; }"),
        (
            "extra",
            "int dropped(void) { return 6; } int common_block[4]; int dropped_data = 3;",
        ),
    ] {
        bench.scratch.write(format!("{name}.c"), text);
        let line = format!("-fcommon -ffunction-sections -fdata-sections -c {name}.c -o {name}.o");
        bench.driver(Linker::Reference, "gcc", &line).ok();
    }
    let Some(ar) = tools::find("ar") else { return };
    run(bench
        .scratch
        .command(ar)
        .args(["rc", "libx.a", "used.o", "other.o", "never.o"]))
    .ok();
}

const INPUTS: &str = "main.o extra.o libx.a";

/// Links the program with `repo-ld` and this option for it.
#[track_caller]
fn link(bench: &Bench, option: &str) -> Run {
    let line = format!("{INPUTS} -o program -Wl,{option}");
    bench.driver(Linker::Ours, "gcc", &line).ok()
}

/// A map as a script reads it.
#[derive(Debug, Default)]
struct Map {
    /// Archive member, and the file and symbol for which it is there.
    members: Vec<(String, String)>,
    /// Sections that are not in the output, with their files.
    discarded: BTreeSet<(String, String)>,
    /// Address and size of output sections.
    outputs: BTreeMap<String, (u64, u64)>,
    /// Address, size, section and file of input sections.
    inputs: Vec<(u64, u64, String, String)>,
    /// Addresses of symbols.
    symbols: BTreeMap<String, u64>,
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Reads the parts that both linkers write.
fn parse(text: &str) -> Map {
    let mut map = Map::default();
    // A long name stands on a line of its own.
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let continues = lines.last().is_some_and(|last: &String| {
            let name = last.trim();
            name.len() > 14 && !name.contains(' ') && line.starts_with("                0x")
                || name.ends_with(')')
                    && !name.contains(' ')
                    && line.starts_with("                    ")
        });
        match lines.last_mut() {
            Some(last) if continues => *last += line,
            _ => lines.push(line.to_owned()),
        }
    }
    let mut part = "";
    for line in &lines {
        for title in [
            "Archive member included",
            "As-needed library included",
            "Discarded input sections",
            "Memory Configuration",
            "Linker script and memory map",
            "Cross Reference Table",
        ] {
            if line.starts_with(title) {
                part = title;
            }
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match (part, &words[..]) {
            ("Archive member included", [member, file, symbol]) if member.ends_with(')') => {
                map.members
                    .push(((*member).into(), format!("{file} {symbol}")));
            }
            ("Discarded input sections", [section, address, _, file])
                if number(address).is_some() =>
            {
                map.discarded.insert(((*section).into(), (*file).into()));
            }
            ("Linker script and memory map", [name, address, size, file @ ..]) => {
                let (Some(address), Some(size)) = (number(address), number(size)) else {
                    continue;
                };
                match file {
                    [] if !line.starts_with(' ') => {
                        let _ = map.outputs.insert((*name).into(), (address, size));
                    }
                    [file] => map
                        .inputs
                        .push((address, size, (*name).into(), (*file).into())),
                    _ => {}
                }
            }
            ("Linker script and memory map", [address, name]) => {
                if let Some(address) = number(address) {
                    map.symbols.insert((*name).into(), address);
                }
            }
            _ => {}
        }
    }
    map
}

#[test]
fn the_map_says_what_the_output_holds() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench);
    let maps = BOTH.map(|linker| {
        let line =
            format!("{INPUTS} -no-pie -Wl,--gc-sections,-Map={linker:?}.map -o program.{linker:?}");
        bench.driver(linker, "gcc", &line).ok();
        parse(&String::from_utf8(bench.read(&format!("{linker:?}.map"))).unwrap())
    });
    let image = bench.read("program.Ours");
    let elf = Elf::parse(&image).unwrap();
    let [theirs, ours] = maps;
    assert_eq!(ours.members, theirs.members);
    assert_eq!(
        ours.members,
        [
            ("libx.a(used.o)", "main.o (used)"),
            ("libx.a(other.o)", "libx.a(used.o) (other)")
        ]
        .map(|(member, why)| (member.to_owned(), why.to_owned()))
    );
    // Which sections of our files are not there is said by both.
    let dropped = |map: &Map| {
        let of_ours = map
            .discarded
            .iter()
            .filter(|(section, file)| file == "extra.o" && section.contains("dropped"));
        of_ours.cloned().collect::<Vec<_>>()
    };
    assert_eq!(dropped(&ours), dropped(&theirs));
    assert_eq!(dropped(&ours).len(), 2);
    // Every section of the output has its address and size.
    for section in elf.section_headers.iter().skip(1) {
        let name = elf.shdr_strtab.get_at(section.sh_name).unwrap();
        assert_eq!(
            ours.outputs.get(name),
            Some(&(section.sh_addr, section.sh_size)),
            "{name}"
        );
    }
    // Input sections fill the output sections, and do not overlap.
    let mut loaded: Vec<_> = ours
        .inputs
        .iter()
        .filter(|(address, size, ..)| *address > 0 && *size > 0)
        .collect();
    loaded.sort();
    for pair in loaded.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?}");
    }
    for (name, file) in [
        (".text.main", "main.o"),
        (".text.used", "libx.a(used.o)"),
        (".data.letter", "main.o"),
        ("COMMON", "main.o"),
    ] {
        let size = |map: &Map| {
            let found = map
                .inputs
                .iter()
                .find(|(_, size, n, f)| n == name && f == file && *size > 0);
            found.unwrap_or_else(|| panic!("no {name} of {file}")).1
        };
        assert_eq!(size(&ours), size(&theirs), "{name}");
    }
    // Symbols are where the symbol table says that they are.
    for symbol in elf
        .syms
        .iter()
        .filter(|symbol| symbol.st_bind() == 1 && symbol.st_shndx != 0)
    {
        let name = elf.strtab.get_at(symbol.st_name).unwrap();
        if let Some(address) = ours.symbols.get(name) {
            assert_eq!(*address, symbol.st_value, "{name}");
        }
    }
    for name in ["main", "used", "other", "letter", "common_block", "_start"] {
        assert!(ours.symbols.contains_key(name), "{name}");
    }
}

#[test]
fn where_the_map_goes() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench);
    std::fs::create_dir(bench.path("maps")).unwrap();
    for (option, file) in [
        ("-Map=a.map", Some("a.map")),
        ("-Map,b.map", Some("b.map")),
        ("-Map=maps", Some("maps/program.map")),
        ("-Map=%", Some("program.map")),
        ("-Map=%.txt", Some("program.txt")),
        ("-M", None),
        ("--print-map", None),
        ("-Map=-", None),
    ] {
        let run = link(&bench, option);
        let text = match file {
            None => run.text(),
            Some(file) => {
                assert_eq!(run.text(), "", "{option}");
                String::from_utf8(bench.read(file)).unwrap()
            }
        };
        assert!(parse(&text).symbols.contains_key("main"), "{option}");
    }
    let run = bench.driver(
        Linker::Ours,
        "gcc",
        &format!("{INPUTS} -o program -Wl,-Map=no/such/directory"),
    );
    assert!(
        run.failed()
            .errors()
            .contains("error: cannot write the map to no/such/directory")
    );
}

#[test]
fn tickets_are_in_the_map_with_the_sections_of_their_fragments() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench);
    let repo_cc = Binaries::get().path("repo-cc");
    for name in ["main", "used", "other"] {
        let mut command = bench.scratch.command(repo_cc);
        run(command.args([
            "gcc",
            "-fcommon",
            "-c",
            &format!("{name}.c"),
            "-o",
            &format!("{name}.t.o"),
        ]))
        .ok();
    }
    let line = "main.t.o used.t.o other.t.o -o program -Wl,-Map=t.map,--cref";
    bench.driver(Linker::Ours, "gcc", line).ok();
    let text = String::from_utf8(bench.read("t.map")).unwrap();
    let map = parse(&text);
    let of_main = map
        .inputs
        .iter()
        .filter(|(_, size, _, file)| file == "main.t.o" && *size > 0);
    let names: BTreeSet<&str> = of_main.map(|(_, _, name, _)| &**name).collect();
    assert!(
        names.iter().any(|name| name.starts_with(".text")),
        "{names:?}"
    );
    assert!(names.contains("COMMON"), "{names:?}");
    let image = bench.read("program");
    let elf = Elf::parse(&image).unwrap();
    let address = elf
        .syms
        .iter()
        .find(|symbol| elf.strtab.get_at(symbol.st_name) == Some("main"))
        .unwrap()
        .st_value;
    assert_eq!(map.symbols.get("main"), Some(&address));
    assert_eq!(cross_references(&text)["used"], ["used.t.o", "main.t.o"]);
}

/// The cross reference table: files by symbol.
fn cross_references(text: &str) -> BTreeMap<String, Vec<String>> {
    let (_, table) = text
        .split_once("Cross Reference Table")
        .expect("there is a table");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut symbol = String::new();
    for line in table.lines().skip(3) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            [name, file] if !line.starts_with(' ') => {
                symbol = (*name).to_owned();
                found
                    .entry(symbol.clone())
                    .or_default()
                    .push((*file).to_owned());
            }
            [name] if !line.starts_with(' ') => symbol = (*name).to_owned(),
            [file] => found
                .entry(symbol.clone())
                .or_default()
                .push((*file).to_owned()),
            _ => {}
        }
    }
    found
}

#[test]
fn cross_references_name_the_definition_first() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench);
    let [theirs, ours] = BOTH.map(|linker| {
        let line = format!("{INPUTS} -o program -Wl,--cref,-Map={linker:?}.map");
        bench.driver(linker, "gcc", &line).ok();
        cross_references(&String::from_utf8(bench.read(&format!("{linker:?}.map"))).unwrap())
    });
    for symbol in ["main", "used", "other", "letter", "dropped"] {
        assert_eq!(ours.get(symbol), theirs.get(symbol), "{symbol}");
    }
    let files: BTreeSet<&String> = ours["common_block"].iter().collect();
    assert_eq!(files, theirs["common_block"].iter().collect());
    assert!(
        ours["printf"][0].contains("libc.so") && ours["printf"][1] == "main.o",
        "{:?}",
        ours["printf"]
    );
    // Without a map it goes to standard output.
    let run = link(&bench, "--cref");
    assert_eq!(cross_references(&run.text())["used"], ours["used"]);
    assert!(!run.text().contains("Memory Configuration"));
}

#[test]
fn symbols_and_files_are_traced() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench);
    let [theirs, ours] = BOTH.map(|linker| {
        let line = format!("{INPUTS} -o program -Wl,-y,used,--trace-symbol=letter,-y,printf");
        let run = bench.driver(linker, "gcc", &line).ok();
        let lines = run.errors() + &run.text();
        let said: BTreeSet<String> = lines
            .lines()
            .filter_map(|line| Some(line.split_once(": ")?.1.to_owned()))
            .collect();
        said
    });
    assert_eq!(ours, theirs);
    assert!(
        ours.contains("libx.a(used.o): definition of used"),
        "{ours:?}"
    );
    let run = link(&bench, "-t");
    for file in ["main.o", "extra.o", "libx.a"] {
        assert!(run.text().lines().any(|line| line == file), "{file}");
    }
}

#[test]
fn make_reads_the_dependency_file() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench);
    std::fs::copy(bench.path("extra.o"), bench.path("with space.o")).unwrap();
    bench.scratch.write("versions.map", "V1 { global: *; };");
    bench.scratch.write("inputs.ld", "INPUT(libx.a)\n");
    let rule = |linker: Linker| {
        let mut command = bench.scratch.command("gcc");
        if linker == Linker::Ours {
            command.arg(format!("-B{}", bench.path("ours").display()));
        }
        let words = "main.o inputs.ld -o program -Wl,--dependency-file=deps.mk -Wl,--version-script=versions.map";
        run(command.args(words.split_whitespace()).arg("with space.o")).ok();
        let text = String::from_utf8(bench.read("deps.mk")).unwrap();
        let joined = text.replace("\\\n", "");
        let (head, phony) = joined.split_once('\n').unwrap();
        let (target, names) = head.split_once(':').unwrap();
        assert_eq!(target, "program");
        let names: Vec<String> = names
            .replace("\\ ", "\u{1}")
            .split_whitespace()
            .map(|n| n.replace('\u{1}', " "))
            .collect();
        (names, phony.to_owned())
    };
    let (ours, phony) = rule(Linker::Ours);
    for name in [
        "main.o",
        "with space.o",
        "libx.a",
        "inputs.ld",
        "versions.map",
    ] {
        assert_eq!(
            ours.iter().filter(|n| *n == name).count(),
            1,
            "{name} in {ours:?}"
        );
    }
    assert!(
        ours.iter().any(|name| name.ends_with("libc.so.6")),
        "{ours:?}"
    );
    assert!(
        phony.contains("\nmain.o:\n") && phony.contains("\nwith\\ space.o:\n"),
        "{phony}"
    );
    assert!(!ours.iter().any(|name| name == "program"));
    // What the reference lists for the objects, we list as well.
    let (theirs, _) = rule(Linker::Reference);
    for name in theirs
        .iter()
        .filter(|name| name.ends_with(".a") || name.contains("crt"))
    {
        let name = name.trim_start_matches("./");
        assert!(ours.iter().any(|own| own == name), "{name} in {ours:?}");
    }
    // And make takes it: nothing is to be done for a file that does not exist any more but rebuilding.
    if let Some(make) = tools::find("make") {
        bench
            .scratch
            .write("Makefile", "program:\n\t@echo rebuilt\ninclude deps.mk\n");
        rule(Linker::Ours);
        let made = run(bench.scratch.command(&make).arg("program")).ok();
        assert!(made.text().contains("up to date"), "{}", made.report());
        std::fs::remove_file(bench.path("with space.o")).unwrap();
        let made = run(bench.scratch.command(&make).arg("program")).ok();
        assert_eq!(made.text(), "rebuilt\n", "{}", made.report());
    }
}

/// glibc finds out by such a map which members of `libc.a` the dynamic linker needs.
#[test]
fn maps_of_relocatable_outputs() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench);
    for options in ["", "-d", "--gc-sections -e main"] {
        let [theirs, ours] = BOTH.map(|linker| {
            let line = format!("-r {options} {INPUTS} -o joined.o -Map joined.map --cref");
            bench.ld(linker, &line).ok();
            let text = String::from_utf8(bench.read("joined.map")).expect("text");
            assert_eq!(
                text.contains("Common symbol"),
                options == "-d",
                "{options}: {text}"
            );
            let mut table = cross_references(&text);
            // Whose common block is the definition is a matter of taste.
            table.remove("common_block").expect("a common block");
            (parse(&text), table)
        });
        assert_eq!(theirs.0.members, ours.0.members, "{options}");
        assert_eq!(theirs.0.symbols, ours.0.symbols, "{options}");
        assert_eq!(theirs.1, ours.1, "{options}");
        let [theirs, ours] = [theirs.0, ours.0].map(|map| {
            // The last of the frames' lists has the end of all of them in GNU ld's maps, too.
            let inputs = map.inputs.into_iter();
            let inputs = inputs.filter(|(_, size, name, _)| *size > 0 && name != ".eh_frame");
            let outputs = map.outputs.into_iter();
            let outputs = outputs.filter(|(_, (_, size))| *size > 0);
            (
                inputs.collect::<BTreeSet<_>>(),
                outputs.collect::<BTreeMap<_, _>>(),
            )
        });
        assert_eq!(theirs, ours, "{options}");
    }
}

#[test]
fn timing_for_people_and_programs() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench);
    let link = |option: &str| link(&bench, option).errors();
    let json: Value = serde_json::from_str(&link("--print-timing=json")).expect("it is JSON");
    let phases = json["phases"].as_array().unwrap();
    let sum: f64 = phases
        .iter()
        .map(|phase| phase["ms"].as_f64().unwrap())
        .sum();
    assert!(sum <= json["total_ms"].as_f64().unwrap() + 0.1);
    let table = link("--print-timing");
    for phase in phases {
        let name = phase["name"].as_str().unwrap();
        assert!(
            table
                .lines()
                .any(|line| line.ends_with(name) && line.contains(" ms ")),
            "{name} in\n{table}"
        );
    }
    // What is small is linked by one thread, however many there may be.
    assert!(table.trim_end().ends_with("total, 1 thread"), "{table}");
    assert_eq!(json["threads"], 1);
}

/// Runs the linker where standard error is a terminal.
fn on_a_terminal(bench: &Bench, option: &str) -> Option<String> {
    let [script] = tools::require(["script"])?;
    let link = format!(
        "gcc -B{} {INPUTS} -o program -Wl,{option}",
        bench.path("ours").display()
    );
    let mut command = bench.scratch.command(script);
    command
        .env("TERM", "xterm")
        .args(["-qec", &link, "/dev/null"]);
    Some(run(&mut command).ok().text())
}

#[test]
fn progress_is_shown_where_it_is_wanted() {
    let Some(bench) = Bench::new() else { return };
    compile(&bench);
    let link = |option: &str| link(&bench, option).errors();
    // Not to a pipe, whatever time it takes.
    assert_eq!(link("--progress=auto"), "");
    assert_eq!(link("--no-progress"), "");
    // A line for each phase, if one insists. Every phase that the linker times leads to the next.
    let lines = link("--progress=always");
    let shown: Vec<&str> = lines
        .lines()
        .filter_map(|line| line.strip_prefix("repo-ld: "))
        .collect();
    let json: Value = serde_json::from_str(&link("--print-timing=json")).unwrap();
    let phases: Vec<&str> = json["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["name"].as_str().unwrap())
        .collect();
    let written = phases.iter().position(|name| *name == "write").unwrap();
    assert_eq!(shown.len(), written + 2, "{shown:?} for {phases:?}");
    assert_eq!(
        (shown[0], shown[written + 1]),
        ("opening inputs", "finishing the output")
    );
    // On a terminal there is a picture, which is taken away at the end.
    let Some(picture) = on_a_terminal(&bench, "--progress=always") else {
        return;
    };
    assert!(
        picture.contains("repo-ld: ") && picture.contains('\u{1b}'),
        "{picture:?}"
    );
    assert_eq!(on_a_terminal(&bench, "--no-progress").unwrap(), "");
}

/// `--stats`: on standard error, or as GNU ld 2.46 has it in a file.
#[test]
fn figures_at_the_end() {
    let Some(bench) = Bench::new() else { return };
    bench.assemble("a", ".globl _start\n_start: ret\n");
    let line = "repo-ld: size of the output: ";
    let link = |options: &str| bench.ld(Linker::Ours, &format!("a.o {options} -o a")).ok();
    let read = |name: &str| String::from_utf8(bench.read(name)).expect("text");
    assert_eq!(link("--stats").errors().matches(line).count(), 1);
    assert_eq!(link("--stats --no-stats").errors(), "");
    assert_eq!(link("--stats=-").text().matches(line).count(), 1);
    bench.scratch.write("figures", "old\n");
    assert_eq!(link("--stats=figures").errors(), "");
    assert!(!read("figures").contains("old"));
    assert_eq!(link("--stats=+figures").errors(), "");
    assert_eq!(read("figures").matches(line).count(), 2);
    link("--stats=+other");
    assert_eq!(read("other").matches(line).count(), 1);
    let said = link("--stats=no/such").errors();
    assert!(
        said.contains("warning: --stats: cannot write no/such: "),
        "{said}"
    );
}
