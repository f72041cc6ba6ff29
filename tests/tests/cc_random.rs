//! Command lines drawn at random: whatever they ask for, the compiler does the
//! same through `repo-cc` as without, and nothing but objects becomes a ticket.
//!
//! The draw is the same at every run. `$REPO_TESTS_LINES` sets how many are
//! drawn for each compiler (40), `$REPO_TESTS_SEED` where the draw begins.

use repo_tests::build::Family;
use repo_tests::compare::{Comparison, Outcome, SECTION_OPTIONS, is_ticket};
use repo_tests::draw::{Draw, setting};
use repo_tests::programs::Language;

/// What a command line is to make; never a link, which has tests of its own.
const MODES: &[&str] = &[
    "-c",
    "-c",
    "-c",
    "-c",
    "-c",
    "-S",
    "-E",
    "-M",
    "-MM",
    "-fsyntax-only",
    "-c -S",
    "-c -E",
    "--compile",
];

/// Options; those of several words together.
const OPTIONS: &[&str] = &[
    "-o x.o",
    "-ox.o",
    "-o sub/x.o",
    "--output y.o",
    "--output=y",
    "-o -",
    "-o /dev/null",
    "-MD",
    "-MMD",
    "-MF d",
    "-MT t.o",
    "-MQ $t",
    "-MP",
    "-Wp,-MD,dep.d",
    "-g",
    "-O2",
    "-save-temps",
    "-save-temps=obj",
    "-pipe",
    "-x c",
    "-xc++",
    "-x none",
    "-x assembler",
    "-x c-header",
    "-Wall",
    "-flto",
    "-fno-lto",
    "-m64",
    "-w",
    "@words",
    "@none",
    "-include h.h",
    "-D b.c",
    "-Ub.c",
    "-I b.c",
    "-isystem sub",
    "-L sub",
    "-l m",
    "-lm",
    "-Wl,-x",
    "-Xlinker -x",
    "-Xassembler --warn",
    "-Wa,--warn",
    "-gsplit-dwarf",
    "-fno-function-sections",
    "-fno-data-sections",
    "-ffunction-sections",
    "-fPIC",
    "-std=gnu99",
    "-u sym",
    "-z now",
    "-T script",
    "--param ggc-min-expand=50",
    "-ftest-coverage",
    "-dumpdir z.",
    "-fverbose-asm",
    "-no-such-option",
    "-nostdinc",
    "-undef",
    "-P",
    "-C",
    "-H",
    "-dM",
];

/// Inputs.
const INPUTS: &[&str] = &[
    "a.c",
    "a.c",
    "a.c",
    "b.c",
    "sub/c.cc",
    "s.s",
    "t.S",
    "h.h",
    "old.o",
    "libold.a",
    "plain",
    "missing.c",
    "bad.c",
    "-",
];

fn line(draw: &mut Draw) -> Vec<&'static str> {
    let mut groups = vec![draw.of(MODES)];
    for _ in 0..draw.below(5) {
        groups.push(draw.of(OPTIONS));
    }
    for _ in 0..1 + draw.below(3) / 2 {
        groups.push(draw.of(INPUTS));
    }
    // Shuffled, because order matters to some.
    for index in (1..groups.len()).rev() {
        groups.swap(index, draw.below(index + 1));
    }
    // Two compiles of the same file must differ in nothing.
    let fixed = ["-frandom-seed=1"];
    fixed
        .into_iter()
        .chain(groups.iter().flat_map(|group| group.split(' ')))
        .collect()
}

/// Text with the compilers' temporary names made equal.
fn without_temporaries(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split("/tmp/");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += "/tmp/";
        let is_temporary = |end: usize| {
            part.is_char_boundary(end) && part[..end].chars().all(|c| c.is_ascii_alphanumeric())
        };
        if part.starts_with("cc") && part.len() >= 8 && is_temporary(8) {
            out += "ccXXXXXX";
            out += &part[8..];
        } else {
            out += part;
        }
    }
    out
}

fn is_object(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF") && bytes.get(16) == Some(&1)
}

/// Whether these are the bytes of a precompiled header. It holds addresses or
/// times, so two are hardly ever equal.
fn is_precompiled(bytes: &[u8]) -> bool {
    bytes.starts_with(b"gpch") || bytes.starts_with(b"CPCH")
}

/// Asserts that what was done through `repo-cc` is what the compiler does as
/// it is, or what it does when asked for sections.
fn assert_like(plain: &Outcome, sections: &Outcome, through: &Outcome) {
    let report = || format!("{}\n{}", plain.run.report(), through.run.report());
    assert_eq!(plain.run.status, through.run.status, "{}", report());
    let same_text =
        |one: &[u8], other: &[u8]| without_temporaries(one) == without_temporaries(other);
    assert!(
        same_text(&plain.run.stderr, &through.run.stderr),
        "{}",
        report()
    );
    // Standard output may be assembly, in which sections show, or a precompiled header.
    assert!(
        same_text(&plain.run.stdout, &through.run.stdout)
            || same_text(&sections.run.stdout, &through.run.stdout)
            || (is_precompiled(&plain.run.stdout) && is_precompiled(&through.run.stdout)),
        "{}",
        report()
    );
    let names = |outcome: &Outcome| outcome.files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(plain), names(through), "{}", report());
    for (name, file) in &through.files {
        let alone = &plain.files[name];
        assert_eq!(alone.mode, file.mode, "mode of {name}\n{}", report());
        if is_ticket(&file.bytes) {
            assert!(is_object(&alone.bytes), "{name} is a ticket\n{}", report());
        } else if is_precompiled(&file.bytes) {
            assert!(is_precompiled(&alone.bytes), "{name}\n{}", report());
        } else {
            let with_sections = sections.files.get(name).map(|file| &file.bytes);
            assert!(
                alone.bytes == file.bytes || with_sections == Some(&file.bytes),
                "{name} differs\n{}",
                report()
            );
        }
    }
}

fn random_lines(family: Family) {
    let Some(it) = Comparison::new(family, Language::C) else {
        return;
    };
    let it = it
        .source("a.c", "#include \"h.h\"\nint a(int x) { return x + H; }\nstatic int s;\nint *p(void) { return &s; }\n")
        .source("b.c", "int b = 3;\nconst char *text(void) { return \"text\"; }\n")
        .source("sub/c.cc", "struct S { virtual ~S(); };\nS::~S() {}\n")
        .source("s.s", ".text\n.globl asm_s\nasm_s: ret\n")
        .source("t.S", "#define NAME asm_t\n.data\n.globl NAME\nNAME: .long 1\n")
        .source("h.h", "#ifndef H\n#define H 5\n#endif\n")
        .source("plain", "int plain;\n")
        .source("bad.c", "int bad( { }\n")
        .source("words", "-DWORD='a b' -O1\n")
        .source("script", "")
        .input("int from_input(void) { return 1; }\n");
    // Inputs that are for the linker only.
    it.reset();
    it.then_plain(&["-c", "b.c", "-o", "old.o"]).run.ok();
    let old = std::fs::read(it.directory().join("old.o")).expect("an object");
    let it = it.source("old.o", &old).source("libold.a", "!<arch>\n");
    let mut draw = Draw(setting("REPO_TESTS_SEED", 1));
    let mut tickets = 0;
    for _ in 0..setting("REPO_TESTS_LINES", 40) {
        let words = line(&mut draw);
        let with_sections: Vec<&str> = SECTION_OPTIONS.iter().chain(&words).copied().collect();
        let plain = it.plain(&words);
        let sections = it.plain(&with_sections);
        let through = it.through(&words);
        assert_like(&plain, &sections, &through);
        tickets += through
            .files
            .values()
            .filter(|file| is_ticket(&file.bytes))
            .count();
    }
    assert!(tickets > 0, "no line made a ticket");
}

#[test]
fn with_gcc() {
    random_lines(Family::Gcc);
}

#[test]
fn with_clang() {
    random_lines(Family::Clang);
}
