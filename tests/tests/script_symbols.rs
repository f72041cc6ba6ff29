//! Symbols that linker scripts and `--defsym` define: when `PROVIDE` defines one, what it may be defined by, its value and
//! its type, beside GNU ld.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use goblin::elf::sym::{STT_FUNC, STT_NOTYPE, STT_OBJECT, STT_TLS};
use linking::{BOTH, Bench, Linker};
use std::collections::BTreeMap;

/// A bench with objects of these names and sources.
fn bench(sources: &[(&str, &str)]) -> Option<Bench> {
    let bench = Bench::new()?;
    for (name, text) in sources {
        bench.scratch.write(format!("{name}.s"), text);
        let arguments = format!("-c {name}.s -o {name}.o");
        bench.driver(Linker::Reference, "gcc", &arguments).ok();
    }
    Some(bench)
}

/// A symbol: type, value, whether it is in a section.
type Symbol = (u8, u64, bool);

/// The defined symbols of an image.
fn symbols(image: &[u8]) -> BTreeMap<String, Symbol> {
    let elf = Elf::parse(image).expect("an ELF file");
    let defined = elf
        .syms
        .iter()
        .filter(|symbol| symbol.st_shndx != 0 && symbol.st_name != 0);
    defined
        .map(|symbol| {
            let name = elf.strtab.get_at(symbol.st_name).unwrap();
            let in_section = symbol.st_shndx < 0xff00;
            (
                name.to_string(),
                (symbol.st_type(), symbol.st_value, in_section),
            )
        })
        .collect()
}

/// Names of the dynamic symbols that an image defines.
fn exports(image: &[u8]) -> Vec<String> {
    let elf = Elf::parse(image).expect("an ELF file");
    let defined = elf.dynsyms.iter().filter(|symbol| symbol.st_shndx != 0);
    defined
        .map(|symbol| elf.dynstrtab.get_at(symbol.st_name).unwrap().to_string())
        .collect()
}

/// Links by both linkers, and gives GNU ld's symbols and ours.
fn both(bench: &Bench, arguments: &str) -> [BTreeMap<String, Symbol>; 2] {
    BOTH.map(|linker| {
        let output = format!("output.{linker:?}");
        bench.ld(linker, &format!("{arguments} -o {output}")).ok();
        symbols(&bench.read(&output))
    })
}

/// Symbols that are defined by each other have no value. That is said, and found out in time: it must not be tried in
/// every order.
#[test]
fn symbols_in_a_circle_are_an_error() {
    let Some(bench) = bench(&[("a", ".globl _start; _start: mov first, %eax\n")]) else {
        return;
    };
    let mut script = String::from("PROVIDE(first = s0);\n");
    for i in 0..40 {
        script += &format!("PROVIDE(s{i} = s{} + s{});\n", (i + 1) % 40, (i + 2) % 40);
    }
    bench.scratch.write("s.t", script);
    let run = bench.ld(Linker::Ours, "-T s.t a.o -o output").failed();
    assert!(
        run.errors()
            .contains("s.t:1: undefined symbol 's0' referenced in expression"),
        "{}",
        run.report()
    );
}

/// A shared object that refers to a symbol will look for it in the program, so that `PROVIDE` defines and exports it; and
/// what a shared object itself defines, the script overrules.
#[test]
fn shared_objects_have_things_provided() {
    let Some(bench) = bench(&[
        ("a", ".globl _start; _start: .quad f1\n"),
        (
            "b",
            ".globl f1, f3; .type f1, @object; .type f3, @object; .data; f1: f3: .quad f2; .size f1, 8; .size f3, 8\n",
        ),
    ]) else {
        return;
    };
    bench
        .ld(Linker::Reference, "-shared b.o -soname b.so -o b.so")
        .ok();
    bench.scratch.write(
        "s.t",
        "SECTIONS { . = 0x10000 + SIZEOF_HEADERS; PROVIDE(f1 = 42); PROVIDE(f2 = 43); PROVIDE(f3 = 44); PROVIDE(f4 = 45); }\n",
    );
    for linker in BOTH {
        bench
            .ld(linker, "-T s.t a.o b.so -e 0x10000 -o output")
            .ok();
        let image = bench.read("output");
        let found = symbols(&image);
        for (name, value) in [("f1", 42), ("f2", 43), ("f3", 44)] {
            assert_eq!(
                found.get(name).map(|symbol| symbol.1),
                Some(value),
                "{name} by {linker:?}"
            );
            assert!(
                exports(&image).iter().any(|export| export == name),
                "{name} by {linker:?}"
            );
        }
        assert!(!found.contains_key("f4"), "{linker:?}");
    }
}

/// What the command line or the script asks for by name is provided, too.
#[test]
fn what_is_looked_for_is_provided() {
    let Some(bench) = bench(&[("a", ".globl code; code: ret\n")]) else {
        return;
    };
    bench.scratch.write(
        "s.t",
        "ENTRY(go) EXTERN(wanted)\nSECTIONS { . = 0x10000; .text : { *(.text) } }\n\
         PROVIDE(go = code); PROVIDE(wanted = 3); PROVIDE(asked = 4); PROVIDE(unasked = 5);\n",
    );
    let [theirs, ours] = both(&bench, "-T s.t a.o -u asked");
    assert_eq!(theirs, ours);
    assert_eq!(ours["go"].1, 0x10000);
    assert_eq!((ours["wanted"].1, ours["asked"].1), (3, 4));
    assert!(!ours.contains_key("unasked"));
}

/// A variable of a shared object has an address here if it is copied here.
#[test]
fn copied_variables_in_expressions() {
    let Some(bench) = bench(&[
        ("a", ".globl _start; _start: .quad bar\n"),
        ("c", ".globl _start; _start: ret\n"),
        (
            "b",
            ".globl bar; .type bar, @object; .data; .quad 1; bar: .quad 2; .size bar, 8\n",
        ),
    ]) else {
        return;
    };
    bench.ld(Linker::Reference, "-shared b.o -o b.so").ok();
    let layout = "SECTIONS { . = 0x10000 + SIZEOF_HEADERS; foo = bar; more = bar + 4; }\n";
    // As a layout, and among the inputs beside the default layout.
    for (script, option) in [(layout, "-T"), ("foo = bar; more = bar + 4;\n", "")] {
        bench.scratch.write("s.t", script);
        for found in both(&bench, &format!("a.o b.so {option} s.t")) {
            assert_eq!(found["foo"], found["bar"], "{script}");
            assert_eq!(found["more"].1, found["bar"].1 + 4, "{script}");
        }
        for linker in BOTH {
            // Nobody needs a copy, so there is no address either.
            let arguments = format!("c.o b.so {option} s.t -o output");
            let run = bench.ld(linker, &arguments).failed();
            assert!(run.errors().contains("bar"), "{}", run.report());
        }
    }
}

/// What the linker defines is defined if no more than a provided symbol's expression asks for it.
#[test]
fn the_linker_s_own_symbols_in_expressions() {
    let Some(bench) = bench(&[(
        "a",
        ".globl _start; _start: lea mine(%rip), %rax; .data; .byte 1, 2, 3\n",
    )]) else {
        return;
    };
    bench.scratch.write(
        "s.t",
        "PROVIDE_HIDDEN(mine = ALIGN(_end, CONSTANT(MAXPAGESIZE)) + 5);\n",
    );
    for kind in ["", "-pie", "-shared"] {
        let [_, ours] = both(&bench, &format!("a.o s.t {kind}"));
        assert_eq!(ours["mine"].1 % 0x1000, 5, "{kind}");
    }
    bench
        .scratch
        .write("s.t", "PROVIDE_HIDDEN(mine = __ehdr_start + 5);\n");
    bench.ld(Linker::Ours, "a.o s.t -o output").ok();
    assert_eq!(symbols(&bench.read("output"))["mine"].1, 0x400005);
    bench.scratch.write(
        "s.t",
        "SECTIONS { . = 0x10000 + SIZEOF_HEADERS; .text : { *(.text) } .dynamic : { *(.dynamic) } mine = _DYNAMIC; here = ADDR(.dynamic); }\n",
    );
    for found in both(&bench, "-T s.t a.o -pie") {
        assert_eq!(found["mine"].1, found["here"].1);
    }
}

const TYPED: &str = r#"
.globl _start, obj, tv
.type _start, @function
_start: ret
.data
.byte 1
.type obj, @object
.size obj, 8
obj: .quad 1
.comm com, 8, 8
.section .tdata, "awT", @progbits
.type tv, @object
tv: .quad 1
.size tv, 8
"#;

/// A symbol that is another name of one is of the same kind. GNU ld says so of all that is computed from one as well.
#[test]
fn another_name_has_the_same_type() {
    let Some(bench) = bench(&[("a", TYPED)]) else {
        return;
    };
    bench.scratch.write(
        "s.t",
        "SECTIONS { . = 0x10000; .text : { *(.text) } .data : { *(.data) } .tdata : { *(.tdata) } .bss : { *(COMMON) }\n\
         f1 = _start; f2 = 1 ? _start : 0; n1 = 0 ? _start : 1; o1 = obj; o2 = com; o3 = o4; o4 = o1; o5 = (obj);\n\
         o6 = DEFINED(obj) ? obj : _start; f3 = DEFINED(nothing) ? obj : _start; t1 = tv; n2 = 5; n3 = .; }\n",
    );
    for found in both(&bench, "-T s.t a.o --defsym=d1=obj --defsym=d2=_start") {
        for (name, (kind, _, _)) in &found {
            let expected = match name.as_str() {
                name if name.starts_with('n') => STT_NOTYPE,
                name if name.starts_with('f') || name == "d2" => STT_FUNC,
                name if name.starts_with('o') || name == "d1" => STT_OBJECT,
                "t1" => STT_TLS,
                _ => continue,
            };
            assert_eq!(*kind, expected, "{name}");
        }
        assert_eq!(
            (found["o3"], found["o2"]),
            (found["obj"], found["com"]),
            "values"
        );
    }
}

/// Outside of output sections it is the address that `ALIGN` aligns, not the offset in the section.
#[test]
fn addresses_are_aligned() {
    let Some(bench) = bench(&[("a", TYPED)]) else {
        return;
    };
    bench.scratch.write(
        "s.t",
        "SECTIONS { . = 0x10001; .data : { *(.data) in = ALIGN(obj, 8); dot = ALIGN(8); }\n\
         out = ALIGN(obj, 8); other = ALIGN(ADDR(.data), 16); number = ALIGN(3, 8); .text : { *(.text) } /DISCARD/ : { *(.tdata) } }\n",
    );
    let [theirs, ours] = both(&bench, "-T s.t a.o");
    for name in ["in", "dot", "out", "other", "number"] {
        assert_eq!(theirs[name].1, ours[name].1, "{name}");
    }
}

/// What a script provides may be mentioned by the script itself: in data, in addresses, in regions.
#[test]
fn the_script_mentions_what_it_provides() {
    let Some(bench) = bench(&[("start", ".globl _start\n_start: ret\n.data\n.word 1\n")]) else {
        return;
    };
    bench.scratch.write(
        "provided.ld",
        "MEMORY { real (rwx) : ORIGIN = origin, LENGTH = 64K }
         REGION_ALIAS(\"first\", real) REGION_ALIAS(\"second\", first)
         PROVIDE(origin = 0x10000); PROVIDE(place = 0x12000);
         SECTIONS { .text : { *(.text) LONG(later) } > second
             .data place : { *(.data) PROVIDE(later = .); PROVIDE(never = .); } }",
    );
    let [theirs, ours] = both(&bench, "-T provided.ld start.o");
    for name in ["origin", "place", "later", "never", "_start"] {
        assert_eq!(theirs.get(name), ours.get(name), "{name}");
    }
    assert!(ours.contains_key("later") && !ours.contains_key("never"));
}
