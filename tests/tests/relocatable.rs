//! `-r`: what goes into one relocatable object must come out of it. Reference is GNU ld:
//! the same symbols, groups and sections, and programs that do the same whoever links them
//! in the end.

use object::elf::{self, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _};
use repo_tests::binaries::Binaries;
use repo_tests::build::{Family, Toolchain};
use repo_tests::process::{Run, run};
use repo_tests::programs::{self, Language};
use repo_tests::scratch::Scratch;
use repo_tests::sources::our_file;
use repo_tests::{build, require};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A directory with compilers and linkers.
struct Bench {
    scratch: Scratch,
    ld: PathBuf,
    gcc: PathBuf,
}

/// Either linker.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Linker {
    Ours,
    Gnu,
}

const BOTH: [Linker; 2] = [Linker::Gnu, Linker::Ours];

impl Bench {
    fn new() -> Option<Bench> {
        let [ld, gcc] = repo_tests::tools::require(["ld", "gcc"])?;
        let scratch = Scratch::new();
        Some(Bench { scratch, ld, gcc })
    }

    /// Compiles C or assembly text.
    fn compile(&self, name: &str, text: &str, options: &[&str]) -> String {
        let source = self.scratch.write(name, text);
        let object = format!("{}.o", name.split('.').next().unwrap());
        let mut gcc = self.scratch.command(&self.gcc);
        gcc.args(["-O1", "-c", "-o", &object]).args(options);
        run(gcc.arg(source)).ok();
        object
    }

    fn link(&self, linker: Linker, arguments: &[&str]) -> Run {
        let program = match linker {
            Linker::Ours => Binaries::get().path("repo-ld"),
            Linker::Gnu => &self.ld,
        };
        run(self.scratch.command(program).args(arguments))
    }

    /// The object that `-r` makes of the arguments.
    fn unite(&self, linker: Linker, arguments: &[&str]) -> Vec<u8> {
        let output = match linker {
            Linker::Ours => "ours.o",
            Linker::Gnu => "gnu.o",
        };
        let all: Vec<&str> = [&["-r", "-o", output], arguments].concat();
        self.link(linker, &all).ok();
        fs::read(self.scratch.join(output)).expect("the linker made it")
    }

    /// The options that make a driver use each linker that there is, in the end.
    fn final_linkers(&self) -> Vec<String> {
        let mut options = Vec::new();
        let ours = Binaries::get().path("repo-ld").to_owned();
        let others = ["ld", "ld.lld", "mold"].map(repo_tests::tools::find);
        for (i, linker) in [Some(ours)].into_iter().chain(others).flatten().enumerate() {
            let directory = self.scratch.join(format!("linker{i}"));
            fs::create_dir_all(&directory).expect("a directory can be made");
            let link = directory.join("ld");
            if !link.exists() {
                symlink(linker, link).expect("a link can be made");
            }
            options.push(format!("-B{}", directory.display()));
        }
        options
    }
}

/// What there is to know of a global symbol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Global {
    kind: u8,
    binding: u8,
    visibility: u8,
    size: u64,
    /// Name of the section, or what stands for one.
    section: String,
}

fn parse(bytes: &[u8]) -> ElfFile64<'_, Endianness> {
    ElfFile64::parse(bytes).expect("the output is an ELF file")
}

fn globals(bytes: &[u8]) -> BTreeMap<String, Global> {
    let file = parse(bytes);
    let endian = file.endian();
    let mut found = BTreeMap::new();
    for symbol in file.symbols().filter(|symbol| symbol.is_global()) {
        let raw = symbol.elf_symbol();
        let section = match raw.st_shndx(endian) {
            elf::SHN_UNDEF => "undefined".to_owned(),
            elf::SHN_ABS => "absolute".to_owned(),
            elf::SHN_COMMON => "common".to_owned(),
            _ => {
                let section = symbol.section_index().expect("it is in a section");
                let section = file.section_by_index(section).expect("that exists");
                section.name().expect("and has a name").to_owned()
            }
        };
        let global = Global {
            kind: raw.st_type(),
            binding: raw.st_bind(),
            visibility: raw.st_visibility(),
            size: raw.st_size(endian),
            section,
        };
        let name = symbol.name().expect("it has a name").to_owned();
        let before = found.insert(name.clone(), global);
        assert_eq!(before, None, "{name} is there twice");
    }
    found
}

/// Names and flags of the sections, without the tables of the file.
fn sections(bytes: &[u8]) -> BTreeSet<(String, u32, u64, u64)> {
    let file = parse(bytes);
    let endian = file.endian();
    file.sections()
        .filter_map(|section| {
            let header = section.elf_section_header();
            let kind = header.sh_type(endian);
            let table = [elf::SHT_SYMTAB, elf::SHT_STRTAB, elf::SHT_GROUP];
            (!table.contains(&kind)).then(|| {
                let name = section.name().unwrap().to_owned();
                (name, kind, header.sh_flags(endian), section.size())
            })
        })
        .collect()
}

fn section_names(bytes: &[u8]) -> Vec<String> {
    let file = parse(bytes);
    let names = file.sections().map(|s| s.name().unwrap().to_owned());
    names.collect()
}

/// Each group by its signature, with its members by name.
fn groups(bytes: &[u8]) -> BTreeMap<String, BTreeSet<String>> {
    let header = FileHeader64::<Endianness>::parse(bytes).expect("an ELF header");
    let endian = header.endian().expect("of a known byte order");
    let table = header.sections(endian, bytes).expect("with sections");
    let symbols = table
        .symbols(endian, bytes, elf::SHT_SYMTAB)
        .expect("and symbols");
    let mut found = BTreeMap::new();
    for (_, section) in table.enumerate() {
        let Some((_, members)) = section.group(endian, bytes).expect("a group is readable") else {
            continue;
        };
        let signature = section.sh_info(endian) as usize;
        let symbol = symbols
            .symbol(object::SymbolIndex(signature))
            .expect("a group has a signature");
        let name = symbols.symbol_name(endian, symbol).expect("with a name");
        let members = members.iter().map(|index| {
            let index = object::SectionIndex(index.get(endian) as usize);
            let member = table.section(index).expect("members exist");
            assert_ne!(
                member.sh_flags(endian) & u64::from(elf::SHF_GROUP),
                0,
                "a member knows that it is one"
            );
            let name = table.section_name(endian, member).expect("and have names");
            String::from_utf8_lossy(name).into_owned()
        });
        let name = String::from_utf8_lossy(name).into_owned();
        let before = found.insert(name.clone(), members.collect());
        assert!(before.is_none(), "two groups of {name}");
    }
    found
}

fn contents(bytes: &[u8], name: &str) -> Vec<u8> {
    let file = parse(bytes);
    let section = file.section_by_name(name);
    let section = section.unwrap_or_else(|| panic!("no {name} in {:?}", section_names(bytes)));
    section.data().expect("its bytes are there").to_vec()
}

fn has(haystack: &[u8], needle: &str) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle.as_bytes())
}

/// Whole archives of the system's libraries: thousands of symbols of all kinds.
#[test]
fn libraries_have_the_symbols_and_groups_that_ld_gives_them() {
    let Some(bench) = Bench::new() else { return };
    for library in ["libc.a", "libstdc++.a", "libgcc_eh.a"] {
        let option = format!("-print-file-name={library}");
        let path = run(bench.scratch.command(&bench.gcc).arg(option)).ok();
        let path = path.text().trim().to_owned();
        if !Path::new(&path).is_absolute() {
            repo_tests::tools::skip(library);
            continue;
        }
        let [gnu, ours] = BOTH.map(|linker| bench.unite(linker, &["--whole-archive", &path]));
        let (want, got) = (globals(&gnu), globals(&ours));
        assert!(want.len() > 30, "{library}: {} symbols", want.len());
        for (name, symbol) in &want {
            assert_eq!(got.get(name), Some(symbol), "{library}: {name}");
        }
        assert_eq!(got.len(), want.len(), "{library}");
        assert_eq!(groups(&ours), groups(&gnu), "{library}");
        let names = |bytes| section_names(bytes).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(names(&ours), names(&gnu), "{library}");
    }
}

/// libstdc++ as one object does what it does as an archive: exceptions, threads, streams.
#[test]
fn a_cxx_library_as_one_object_works() {
    let [cxx] = require!("g++");
    let Some(bench) = Bench::new() else { return };
    let option = "-print-file-name=libstdc++.a";
    let path = run(bench.scratch.command(&cxx).arg(option)).ok();
    let path = path.text().trim().to_owned();
    bench.scratch.write(
        "main.cpp",
        "#include <iostream>\n#include <stdexcept>\n#include <thread>\n#include <sstream>\n\
         static int depth(int n) { if (n == 0) throw std::runtime_error(\"deep\"); return depth(n - 1) + 1; }\n\
         int main() {\n\
           std::ostringstream text;\n\
           std::thread other([&] { try { depth(9); } catch (std::exception &e) { text << e.what() << 7.5; } });\n\
           other.join();\n\
           std::cout << text.str() << std::endl;\n\
           return 3;\n\
         }\n",
    );
    let mut compile = bench.scratch.command(&cxx);
    run(compile.args(["-O1", "-c", "main.cpp"])).ok();
    bench.unite(Linker::Ours, &["--whole-archive", &path]);
    for linker in bench.final_linkers() {
        let mut link = bench.scratch.command(&cxx);
        link.args(["-static", "-nodefaultlibs", &linker, "main.o", "ours.o"]);
        link.args(["-lm", "-Wl,--start-group", "-lc", "-lgcc", "-lgcc_eh"]);
        run(link.args(["-Wl,--end-group", "-o", "program"])).ok();
        let done = run(&mut bench.scratch.command(bench.scratch.join("program"))).code(3);
        assert_eq!(done.text(), "deep7.5\n", "{linker}");
    }
}

/// The feature programs, compiled by either compiler, united, linked by each linker.
fn features(family: Family, language: Language, sources: &[&str], code: i32) {
    let Some(toolchain) = Toolchain::plain(family) else {
        return;
    };
    let Some(bench) = Bench::new() else { return };
    let scratch = &bench.scratch;
    let mut objects = Vec::new();
    for source in sources {
        let object = Path::new(source).with_extension("o").display().to_string();
        let mut compile = toolchain.command(scratch, language);
        compile.args(["-O1", "-g", "-fcommon", "-fpie", "-DSTATIC_LIBRARY"]);
        let standard = match language {
            Language::C => "-std=gnu17",
            Language::Cxx => "-std=c++17",
        };
        compile.args([standard, "-c", "-o", &object]);
        run(compile.arg(our_file("features").join(source))).ok();
        objects.push(object);
    }
    let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
    let [gnu, ours] = BOTH.map(|linker| bench.unite(linker, &objects));
    assert_eq!(globals(&ours), globals(&gnu));
    assert_eq!(groups(&ours), groups(&gnu));
    // Uniting what is united changes nothing that can be seen.
    fs::rename(scratch.join("ours.o"), scratch.join("once.o")).expect("it is there");
    let twice = bench.unite(Linker::Ours, &["once.o"]);
    assert_eq!(globals(&twice), globals(&ours));
    assert_eq!(groups(&twice), groups(&ours));
    assert_eq!(sections(&twice), sections(&ours));

    let outcome = |linker: &str, inputs: &[&str]| {
        let gcc = Toolchain::plain(Family::Gcc).expect("there is one");
        let mut link = gcc.command(scratch, language);
        link.args([linker, "-pie"]).args(inputs);
        run(link.args(["-o", "program", "-pthread", "-ldl"])).ok();
        let mut program = scratch.command(scratch.join("program"));
        let done = run(program.arg("argument").env("FEATURES", "on")).code(code);
        done.text()
    };
    let linkers = bench.final_linkers();
    let want = outcome(&linkers[1], &objects);
    for linker in &linkers {
        for united in ["once.o", "ours.o"] {
            assert_eq!(outcome(linker, &[united]), want, "{united} by {linker}");
        }
    }
}

const C: [&str; 4] = ["main.c", "other.c", "strong.c", "library.c"];
const CXX: [&str; 3] = ["main.cpp", "second.cpp", "shared.cpp"];

#[test]
fn features_of_c_by_gcc() {
    features(Family::Gcc, Language::C, &C, 42);
}

#[test]
fn features_of_c_by_clang() {
    features(Family::Clang, Language::C, &C, 42);
}

#[test]
fn features_of_cxx_by_gcc() {
    features(Family::Gcc, Language::Cxx, &CXX, 7);
}

#[test]
fn features_of_cxx_by_clang() {
    features(Family::Clang, Language::Cxx, &CXX, 7);
}

/// Lua as one object.
#[test]
fn a_real_program_as_one_object() {
    let Some(toolchain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let Some(bench) = Bench::new() else { return };
    let program = programs::lua().expect("its sources are fetched with the dependencies");
    let directory = bench.scratch.join("objects");
    fs::create_dir(&directory).expect("a directory can be made");
    let objects: Vec<PathBuf> = program
        .sources
        .iter()
        .map(|source| build::object_path(&directory, source))
        .collect();
    build::parallel(program.sources.len(), |i| {
        let (source, object) = (&program.sources[i], &objects[i]);
        let options = ["-O1", "-ffunction-sections"];
        let mut compile = build::compile_command(
            &bench.scratch,
            &toolchain,
            &program,
            &options,
            source,
            object,
        );
        run(&mut compile).ok();
    });
    let names: Vec<&str> = objects.iter().map(|o| o.to_str().unwrap()).collect();
    let [gnu, ours] = BOTH.map(|linker| bench.unite(linker, &names));
    assert_eq!(globals(&ours), globals(&gnu));
    let script = "t = {} for i = 1, 1000 do t[i] = i * i end print(#t, t[1000], pcall(error, 'x'), string.format('%g', 2^0.5))";
    let outcome = |linker: &str, objects: &[PathBuf]| {
        let executable = bench.scratch.join("lua");
        let mut link = build::link_command(
            &bench.scratch,
            &toolchain,
            &program,
            &[linker],
            objects,
            &executable,
        );
        run(&mut link).ok();
        bench.scratch.write("script.lua", script);
        build::execute(&bench.scratch, &executable, &["script.lua"]).text()
    };
    let linkers = bench.final_linkers();
    let want = outcome(&linkers[1], &objects);
    assert!(!want.is_empty());
    for linker in &linkers {
        let united = [bench.scratch.join("ours.o")];
        assert_eq!(outcome(linker, &united), want, "{linker}");
    }
}

/// Tickets become part of an ordinary object, which needs no repository.
#[test]
fn tickets_become_an_ordinary_object() {
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let Some(bench) = Bench::new() else { return };
    let scratch = &bench.scratch;
    let through = plain.through_repository(Binaries::get());
    scratch.write(
        "a.cpp",
        "#include <cstdio>\n\
         __attribute__((noinline)) inline int shared_inline(int x) { static int count; return x + ++count; }\n\
         int other(int);\n\
         int main() { try { other(shared_inline(1)); } catch (int x) { std::printf(\"caught %d\\n\", x); } }\n",
    );
    scratch.write(
        "b.cpp",
        "__attribute__((noinline)) inline int shared_inline(int x) { static int count; return x + ++count; }\n\
         int other(int x) { throw shared_inline(x); }\n",
    );
    scratch.write(
        "c.c",
        "int never_named = 1; const char *text = \"literal\";\n",
    );
    for (language, source) in [
        (Language::Cxx, "a.cpp"),
        (Language::Cxx, "b.cpp"),
        (Language::C, "c.c"),
    ] {
        let mut compile = through.command(scratch, language);
        run(compile.args(["-O1", "-g", "-c", source])).ok();
        let object = source.split('.').next().unwrap().to_owned() + ".o";
        assert!(repo_tests::compare::is_ticket_file(scratch.join(object)));
    }
    let ours = bench.unite(Linker::Ours, &["a.o", "b.o", "c.o"]);
    assert!(!repo_tests::compare::is_ticket(&ours));
    let symbols = globals(&ours);
    for name in ["main", "never_named", "text", "_Z13shared_inlinei"] {
        assert_ne!(symbols[name].section, "undefined", "{name}");
    }
    assert!(groups(&ours).contains_key("_Z13shared_inlinei"));
    fs::remove_file(scratch.repository()).expect("it is there");
    for linker in bench.final_linkers() {
        let mut link = plain.command(scratch, Language::Cxx);
        run(link.args([&linker, "ours.o", "-o", "program"])).ok();
        let done = run(&mut scratch.command(scratch.join("program"))).ok();
        assert_eq!(done.text(), "caught 4\n", "{linker}");
    }
}

/// Sections of one name are united, but not what ends in another way.
#[test]
fn sections_are_united_by_name() {
    let Some(bench) = Bench::new() else { return };
    let text = |mark: &str| {
        format!(
            ".section .text.f,\"ax\"\n.byte 1\n.section named,\"a\"\n.ascii \"{mark}\"\n\
             .section .init_array.00200,\"aw\",@init_array\n.quad 2\n\
             .section .init_array.00100,\"aw\",@init_array\n.quad 1\n\
             .section .ctors.65000,\"aw\"\n.quad 3\n.section .bss.z,\"aw\",@nobits\n.zero 6\n\
             .section .tdata.t,\"awT\"\n.long 5\n"
        )
    };
    let a = bench.compile("a.s", &text("A"), &[]);
    let b = bench.compile("b.s", &text("B"), &[]);
    let [gnu, ours] = BOTH.map(|linker| bench.unite(linker, &[&a, &b]));
    assert_eq!(sections(&ours), sections(&gnu));
    assert_eq!(contents(&ours, "named"), b"AB");
    assert_eq!(contents(&ours, ".init_array.00100").len(), 16);

    let apart = bench.unite(Linker::Ours, &["--unique=na*", &a, &b]);
    let names = section_names(&apart);
    let count = |name: &str| names.iter().filter(|n| *n == name).count();
    assert_eq!((count("named"), count(".text.f")), (2, 1), "{names:?}");
    let [gnu, ours] = BOTH.map(|linker| section_names(&bench.unite(linker, &["--unique", &a, &b])));
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(ours), sorted(gnu));
}

/// What differs in its flags stays apart, or loses what it cannot keep.
#[test]
fn sections_that_do_not_fit_together() {
    let Some(bench) = Bench::new() else { return };
    let a = bench.compile(
        "a.s",
        ".section s,\"a\"\n.byte 1\n\
         .section m,\"aM\",@progbits,4\n.long 1\n\
         .section cut,\"aMS\",@progbits,1\n.ascii \"no end\"\n\
         .section pad,\"aM\",@progbits,12\n.balign 8\n.zero 12\n\
         .section good,\"aMS\",@progbits,1\n.string \"one\"\n",
        &[],
    );
    let b = bench.compile(
        "b.s",
        ".section s,\"aw\"\n.byte 2\n\
         .section m,\"aM\",@progbits,8\n.quad 2\n\
         .section cut,\"aMS\",@progbits,1\n.string \"x\"\n\
         .section pad,\"aM\",@progbits,12\n.balign 8\n.zero 12\n\
         .section good,\"aMS\",@progbits,1\n.string \"one\"\n",
        &[],
    );
    let ours = bench.unite(Linker::Ours, &[&a, &b]);
    let found = sections(&ours);
    let flags = |name: &str| -> Vec<(u64, u64)> {
        let of_name = found.iter().filter(|(n, ..)| n == name);
        of_name.map(|(_, _, flags, size)| (*flags, *size)).collect()
    };
    let (alloc, write) = (u64::from(elf::SHF_ALLOC), u64::from(elf::SHF_WRITE));
    let strings = u64::from(elf::SHF_MERGE | elf::SHF_STRINGS);
    assert_eq!(flags("s"), [(alloc, 1), (alloc | write, 1)]);
    // Elements of two sizes, a string without its end, an element cut by padding: not mergeable together.
    assert_eq!(flags("m"), [(alloc, 12)]);
    assert_eq!(flags("cut"), [(alloc, 8)]);
    assert_eq!(flags("pad"), [(alloc, 28)]);
    assert_eq!(flags("good"), [(alloc | strings, 8)]);
    assert_eq!(contents(&ours, "good"), b"one\0one\0");
}

/// Frames may be of the psABI's own type, and stay of it if all are.
#[test]
fn the_type_of_frames_is_kept() {
    let Some(bench) = Bench::new() else { return };
    let text = |sh_type: &str| {
        format!(
            ".globl f\nf: nop\n.section .eh_frame,\"a\",{sh_type}\n.balign 8\n\
             .long 12, 0\n.byte 1, 0, 1, 0x78, 16, 0, 0, 0\n.long 20, 20\n.quad f, 1\n"
        )
    };
    let plain = bench.compile("plain.s", &text("@progbits"), &[]);
    let unwind = bench.compile("unwind.s", &text("@unwind").replace("f:", "g: f2:"), &[]);
    for (objects, sh_type) in [
        (&[&unwind[..]][..], elf::SHT_X86_64_UNWIND),
        (&[&plain[..]], elf::SHT_PROGBITS),
        (&[&plain, &unwind], elf::SHT_PROGBITS),
    ] {
        let ours = bench.unite(Linker::Ours, &[&["-z", "muldefs"], objects].concat());
        let file = parse(&ours);
        let frames = file.section_by_name(".eh_frame").unwrap();
        let header = frames.elf_section_header();
        assert_eq!(header.sh_type(file.endian()), sh_type);
        assert!(frames.size() >= 40);
    }
}

/// Sections that are ordered by others stay with them.
#[test]
fn link_order_is_carried() {
    let Some(bench) = Bench::new() else { return };
    let text = |f: &str| {
        format!(
            ".section .text.{f},\"ax\"\n{f}: nop\n.section order,\"ao\",@progbits,.text.{f}\n.quad {f}\n\
             .section .text.common,\"ax\"\n{f}2: nop\n.section order,\"ao\",@progbits,.text.common,unique,2\n.quad {f}2\n"
        )
    };
    let a = bench.compile("a.s", &text("f"), &[]);
    let b = bench.compile("b.s", &text("g"), &[]);
    let ours = bench.unite(Linker::Ours, &[&a, &b]);
    let file = parse(&ours);
    let endian = file.endian();
    let mut about = BTreeMap::new();
    for section in file.sections().filter(|s| s.name() == Ok("order")) {
        let header = section.elf_section_header();
        assert_ne!(header.sh_flags(endian) & u64::from(elf::SHF_LINK_ORDER), 0);
        let target = object::SectionIndex(header.sh_link(endian) as usize);
        let target = file.section_by_index(target).unwrap();
        about.insert(target.name().unwrap().to_owned(), section.size());
    }
    let want = [(".text.common", 16), (".text.f", 8), (".text.g", 8)];
    let want = want.map(|(name, size)| (name.to_owned(), size));
    assert_eq!(about, BTreeMap::from(want));
}

const INLINE: &str = "\
inline int f(int x) { static int n = 7; try { if (x > 3) throw x; } catch (int y) { return y + n++; } return 0; }\n";

/// Groups: one of two is kept, as a group; or none is one any more. Nothing is left of the other.
#[test]
fn groups_are_kept_once_or_dissolved() {
    let [cxx, readelf] = require!("g++", "readelf");
    let Some(bench) = Bench::new() else { return };
    let scratch = &bench.scratch;
    scratch.write(
        "a.cpp",
        format!("{INLINE}int a(int x) {{ return f(x); }}\n"),
    );
    scratch.write(
        "b.cpp",
        format!("{INLINE}int a(int); int main(int c, char **) {{ return f(c + 4) + a(c + 9); }}\n"),
    );
    for source in ["a.cpp", "b.cpp"] {
        run(scratch.command(&cxx).args(["-g", "-O1", "-c", source])).ok();
    }
    let [gnu, ours] = BOTH.map(|linker| bench.unite(linker, &["a.o", "b.o"]));
    assert_eq!(groups(&ours), groups(&gnu));
    let frames = |file: &str| {
        let mut dump = scratch.command(&readelf);
        let text = run(dump.args(["-W", "--debug-dump=frames", file])).ok();
        assert_eq!(text.errors(), "");
        text.text().matches(" FDE ").count()
    };
    assert_eq!((frames("gnu.o"), frames("ours.o")), (3, 3));
    // Debugging information about the copy that is gone says so.
    let mut dump = scratch.command(&readelf);
    let dump = run(dump.args(["-W", "--debug-dump=info", "ours.o"])).ok();
    assert_eq!(dump.errors(), "");

    let dissolved = bench.unite(Linker::Ours, &["--force-group-allocation", "a.o", "b.o"]);
    assert_eq!(groups(&dissolved), BTreeMap::new());
    let in_group = u64::from(elf::SHF_GROUP);
    assert!(
        sections(&dissolved)
            .iter()
            .all(|(_, _, flags, _)| flags & in_group == 0)
    );
    for united in ["gnu.o", "ours.o"] {
        for linker in bench.final_linkers() {
            run(scratch
                .command(&cxx)
                .args([&linker, united, "-o", "program"]))
            .ok();
            run(&mut scratch.command(scratch.join("program"))).code(5 + 7 + 10 + 8);
        }
    }
}

/// More sections than 16 bits can number.
#[test]
fn more_sections_than_fit_into_a_symbol() {
    let Some(bench) = Bench::new() else { return };
    let mut text = String::new();
    for i in 0..66_000 {
        text += &format!(".section .data.{i},\"aw\"\nd{i}: .long {i}\n");
    }
    text += ".globl pointer, last\n.section .data.pointer,\"aw\"\npointer: .quad d65999\n.set last, d65998\n";
    let many = bench.compile("many.s", &text, &[]);
    let main = bench.compile(
        "main.c",
        "#include <stdio.h>\nextern int *pointer, last;\nint main(void) { printf(\"%d %d\\n\", *pointer, last); }\n",
        &["-fpie"],
    );
    let ours = bench.unite(Linker::Ours, &[&many, &main]);
    let file = parse(&ours);
    assert!(file.sections().count() > 66_000);
    let symbol = file.symbol_by_name("last").expect("it is there");
    let section = file
        .section_by_index(symbol.section_index().unwrap())
        .unwrap();
    assert_eq!(section.name(), Ok(".data.65998"));
    for linker in bench.final_linkers() {
        let mut link = bench.scratch.command(&bench.gcc);
        run(link.args(["-pie", &linker, "ours.o", "-o", "program"])).ok();
        let done = run(&mut bench.scratch.command(bench.scratch.join("program"))).ok();
        assert_eq!(done.text(), "65999 65998\n", "{linker}");
    }
}

/// Options about symbols, each as GNU ld has it.
#[test]
fn options_about_symbols() {
    let Some(bench) = Bench::new() else { return };
    let a = bench.compile(
        "a.c",
        "static int hidden_here; int *where = &hidden_here; int common_block; int initialised = 3;\n\
         extern int wrapped(void), weakly(void) __attribute__((weak)), missing(void);\n\
         __attribute__((visibility(\"hidden\"))) extern int narrowed(void);\n\
         static __attribute__((noinline)) int local(int x) { return x * wrapped(); }\n\
         int global(int x) { return local(x) + (weakly ? weakly() : 0) + missing() + narrowed() + local(2); }\n",
        &["-fcommon", "-g"],
    );
    let b = bench.compile(
        "b.c",
        "long common_block; __attribute__((weak)) int weak_one(void) { return 1; } int narrowed(void) { return 2; }\n\
         __attribute__((symver(\"versioned@V1\"))) int versioned_1(void) { return 1; }\n\
         __attribute__((symver(\"versioned@@V2\"))) int versioned_2(void) { return 2; }\n",
        &["-fcommon"],
    );
    bench.scratch.write("names", "global\nweak_one\n");
    bench
        .scratch
        .write("versions", "V1 { global: *; local: w*; };");
    let cases: &[&[&str]] = &[
        &[],
        &["-d"],
        &["-x"],
        &["-X"],
        &["-S"],
        &["-s"],
        &["-u", "absent"],
        &["-e", "global"],
        &["-Ur"],
        &["--wrap=wrapped"],
        &["--defsym=number=0x10"],
        &["--retain-symbols-file=names"],
        &["--version-script=versions"],
        &["-z", "defs"],
    ];
    for case in cases {
        let arguments: Vec<&str> = [case, &[a.as_str(), b.as_str()][..]].concat();
        let [gnu, ours] = BOTH.map(|linker| bench.unite(linker, &arguments));
        // GNU ld's manual says that undefined symbols stay; this one, which no relocation needs, does not always.
        let [want, got] = [&gnu, &ours].map(|bytes| {
            let mut globals = globals(bytes);
            globals.remove("_GLOBAL_OFFSET_TABLE_");
            globals
        });
        assert_eq!(got, want, "{case:?}");
        let locals = |bytes: &[u8]| -> BTreeSet<String> {
            let file = parse(bytes);
            let named = file
                .symbols()
                .filter(|s| s.is_local() && s.kind() != object::SymbolKind::Section);
            named.map(|s| s.name().unwrap().to_owned()).collect()
        };
        assert_eq!(locals(&ours), locals(&gnu), "{case:?}");
        let entry = |bytes: &[u8]| parse(bytes).entry();
        assert_eq!(entry(&ours), entry(&gnu), "{case:?}");
        let names = |bytes| section_names(bytes).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(names(&ours), names(&gnu), "{case:?}");
    }
    // Relative to a symbol, where GNU ld forgets the section.
    let ours = bench.unite(Linker::Ours, &["--defsym=third=initialised+2", &a, &b]);
    let file = parse(&ours);
    let [base, third] = ["initialised", "third"].map(|name| {
        let symbol = file.symbol_by_name(name).expect("it is there");
        (symbol.section_index(), symbol.address())
    });
    assert_eq!(third, (base.0, base.1 + 2));
}

/// Archives are searched; shared objects are not.
#[test]
fn archives_and_shared_objects() {
    let [ar] = require!("ar");
    let Some(bench) = Bench::new() else { return };
    let main = bench.compile(
        "main.c",
        "int wanted(void); int start(void) { return wanted(); }\n",
        &[],
    );
    bench.compile(
        "wanted.c",
        "int deeper(void); int wanted(void) { return deeper(); }\n",
        &["-fPIC"],
    );
    bench.compile("deeper.c", "int deeper(void) { return 1; }\n", &["-fPIC"]);
    bench.compile(
        "unwanted.c",
        "int unwanted(void) { return 1; }\n",
        &["-fPIC"],
    );
    let mut archive = bench.scratch.command(ar);
    run(archive.args(["rcs", "libw.a", "wanted.o", "deeper.o", "unwanted.o"])).ok();
    let mut shared = bench.scratch.command(&bench.gcc);
    run(shared.args(["-shared", "-o", "libw.so", "wanted.o", "deeper.o"])).ok();
    // The shared object stands beside the archive and is not taken.
    let [gnu, ours] = BOTH.map(|linker| globals(&bench.unite(linker, &[&main, "-L.", "-lw"])));
    assert_eq!(ours, gnu);
    assert!(ours.contains_key("deeper") && !ours.contains_key("unwanted"));
    for linker in BOTH {
        let failed = bench
            .link(linker, &["-r", &main, "libw.so", "-o", "x.o"])
            .code(1);
        assert!(
            failed
                .errors()
                .contains("attempted static link of dynamic object"),
            "{}",
            failed.errors()
        );
        assert!(!bench.scratch.join("x.o").exists());
    }
}

/// `f` and `f@@V` stand for one place in an object, and are two names of it until the final link.
#[test]
fn versions_are_names_like_others() {
    let Some(bench) = Bench::new() else { return };
    let versions = "int f(void) { return 1; } int old(void) { return 2; } int refer(void);\n\
                    __asm__(\".symver f, f@@V2\"); __asm__(\".symver old, f@V1\");\n";
    let versions = bench.compile("versions.c", versions, &["-fPIC"]);
    let refer = "int f(void); int refer(void) { return f(); }\n";
    let refer = bench.compile("refer.c", refer, &["-fPIC"]);
    let [gnu, ours] = BOTH.map(|linker| globals(&bench.unite(linker, &[&versions, &refer])));
    assert_eq!(ours, gnu);
    assert!(
        ours.contains_key("f@@V2") && ours.contains_key("f@V1"),
        "{ours:?}"
    );
    bench
        .scratch
        .write("both.ver", "V1 { }; V2 { global: f; } V1;");
    let shared = [
        "-shared",
        "--version-script=both.ver",
        "ours.o",
        "-o",
        "both.so",
    ];
    bench.link(Linker::Ours, &shared).ok();
}

/// With `--gc-sections` there is what the named symbols reach.
#[test]
fn what_is_not_reached_can_be_left_out() {
    let Some(bench) = Bench::new() else { return };
    let text = "int data = 5; int dead_data = 6; extern int listed(int);\n\
                __attribute__((noinline)) int live(int x) { return x + data; }\n\
                int dead(int x) { return x + dead_data; }\n\
                int start(int x) { return live(x); }\n\
                __attribute__((constructor)) static void runs(void) { data++; }\n\
                __attribute__((retain, used)) static int retained = 4;\n";
    let a = bench.compile(
        "a.c",
        text,
        &["-ffunction-sections", "-fdata-sections", "-g"],
    );
    let options = ["--gc-sections", "-e", "start"];
    let [gnu, ours] = BOTH.map(|linker| bench.unite(linker, &[&options[..], &[&a]].concat()));
    let names = |bytes| globals(bytes).into_keys().collect::<BTreeSet<_>>();
    assert_eq!(names(&ours), names(&gnu));
    let sections = section_names(&ours);
    for name in [
        ".text.live",
        ".data.data",
        ".init_array",
        ".text.runs",
        ".data.retained",
        ".debug_info",
    ] {
        assert!(
            sections.iter().any(|n| n == name),
            "no {name} in {sections:?}"
        );
    }
    for name in [".text.dead", ".data.dead_data"] {
        assert!(
            !sections.iter().any(|n| n == name),
            "{name} in {sections:?}"
        );
    }
    let failed = bench
        .link(Linker::Ours, &["-r", "--gc-sections", &a, "-o", "x.o"])
        .code(1);
    assert!(failed.errors().contains("-e or -u"), "{}", failed.errors());
}

/// Notes are united: an executable stack for one is one for all, protections only if all have them.
#[test]
fn notes_are_united() {
    let [readelf] = require!("readelf");
    let Some(bench) = Bench::new() else { return };
    let protected = bench.compile("a.c", "int a;\n", &["-fcf-protection=full"]);
    let also = bench.compile("b.c", "int b;\n", &["-fcf-protection=branch"]);
    let none = bench.compile("c.c", "int c;\n", &["-fcf-protection=none"]);
    let stack = bench.compile("d.s", ".section .note.GNU-stack,\"x\",@progbits\n", &[]);
    let notes = |linker, inputs: &[&str]| {
        let bytes = bench.unite(linker, inputs);
        let name = if linker == Linker::Ours {
            "ours.o"
        } else {
            "gnu.o"
        };
        let mut dump = bench.scratch.command(&readelf);
        let text = run(dump.args(["-nW", name])).ok().text();
        let feature = text.lines().find(|line| line.contains("x86 feature:"));
        let flags = sections(&bytes)
            .into_iter()
            .find(|(name, ..)| name == ".note.GNU-stack");
        (
            feature.and_then(|line| line.split("Properties: ").last().map(str::to_owned)),
            flags,
        )
    };
    for inputs in [
        &[&protected, &also][..],
        &[&protected, &none],
        &[&protected, &stack],
    ] {
        let inputs: Vec<&str> = inputs.iter().map(|input| input.as_str()).collect();
        let [gnu, ours] = BOTH.map(|linker| notes(linker, &inputs));
        assert_eq!(ours, gnu, "{inputs:?}");
    }
    let (feature, _) = notes(Linker::Ours, &[&protected, &also]);
    assert_eq!(feature.as_deref(), Some("x86 feature: IBT"));
    // A build id of its own, if asked for.
    let united = bench.unite(Linker::Ours, &["--build-id=0xabcdef01", &protected]);
    assert!(contents(&united, ".note.gnu.build-id").ends_with(&[0xab, 0xcd, 0xef, 1]));
}

/// Compressed debugging information comes out expanded and complete.
#[test]
fn debug_information_is_expanded() {
    let [readelf] = require!("readelf");
    let Some(bench) = Bench::new() else { return };
    let long =
        "static int f(int x) { return x; } /* a name long enough to compress */\n".to_owned();
    let a = bench.compile(
        "a.c",
        &(long + "int first_function_with_a_long_name(int x) { return f(x); }\n"),
        &["-g3", "-gz"],
    );
    let b = bench.compile(
        "b.c",
        "int second_function(int x) { return x + 2; }\n",
        &["-g3"],
    );
    let ours = bench.unite(Linker::Ours, &[&a, &b]);
    let compressed = u64::from(elf::SHF_COMPRESSED);
    assert!(
        sections(&ours)
            .iter()
            .all(|(_, _, flags, _)| flags & compressed == 0)
    );
    let mut dump = bench.scratch.command(&readelf);
    let dump = run(dump.args(["-W", "--debug-dump=info,decodedline", "ours.o"])).ok();
    assert_eq!(dump.errors(), "");
    for name in [
        "first_function_with_a_long_name",
        "second_function",
        "a.c",
        "b.c",
    ] {
        assert!(has(&dump.stdout, name), "{name}");
    }
}

/// What cannot be right is refused with the place.
#[test]
fn mistakes_are_named() {
    let Some(bench) = Bench::new() else { return };
    let group = |name: &str, text: &str| {
        let head =
            ".section .text.f,\"axG\",@progbits,sig,comdat\nlocal: nop\n.weak sig\nsig: nop\n";
        bench.compile(name, &format!("{head}{text}"), &[])
    };
    let a = group("a.s", "");
    let b = group("b.s", ".data\n.quad local\n");
    let failed = bench
        .link(Linker::Ours, &["-r", &a, &b, "-o", "x.o"])
        .code(1);
    let errors = failed.errors();
    for part in ["b.o", ".data+0x0", ".text.f", "discarded"] {
        assert!(errors.contains(part), "no {part} in {errors}");
    }
    let twice = bench.compile("c.c", "int twice = 1;\n", &[]);
    bench.compile("d.c", "int twice = 2;\n", &[]);
    let failed = bench
        .link(Linker::Ours, &["-r", &twice, "d.o", "-o", "x.o"])
        .code(1);
    assert!(
        failed.errors().contains("duplicate symbol: twice"),
        "{}",
        failed.errors()
    );
    bench.scratch.write(
        "layout.t",
        "SECTIONS { .text SIZEOF_HEADERS : { *(.text*) } }\n",
    );
    let arguments = ["-r", "-T", "layout.t", &twice, "-o", "x.o"];
    let failed = bench.link(Linker::Ours, &arguments).code(1);
    assert!(
        failed.errors().contains("layout.t:1: an address"),
        "{}",
        failed.errors()
    );
    for other in ["-shared", "-pie"] {
        let failed = bench
            .link(Linker::Ours, &["-r", other, &twice, "-o", "x.o"])
            .code(1);
        assert!(failed.errors().contains("cannot be used together"));
    }
    assert!(!bench.scratch.join("x.o").exists());
}
