//! The links of the corpus: each program as each kind of output, each of many options by itself, and random combinations.

use super::inputs::Inputs;
use repo_tests::draw::Draw;

/// One link.
pub struct Case {
    /// Its name, which is a file name.
    pub name: String,
    /// Arguments of the linker.
    pub arguments: Vec<String>,
}

/// Kinds of output, with their options.
const KINDS: &[(&str, &str)] = &[
    ("pie", "-pie -dynamic-linker /lib64/ld-linux-x86-64.so.2"),
    (
        "exec",
        "-no-pie -dynamic-linker /lib64/ld-linux-x86-64.so.2",
    ),
    ("static", "-static"),
    ("static-pie", "-static -pie --no-dynamic-linker -z text"),
    ("shared", "-shared"),
    ("relocatable", "-r"),
];

/// Options each of which is tried by itself and among others.
const OPTIONS: &[&str] = &[
    "--gc-sections",
    "--gc-sections --print-gc-sections",
    "--gc-sections --gc-keep-exported",
    "--icf=all",
    "--icf=safe --print-icf-sections",
    "--icf=all --ignore-data-address-equality",
    "--icf=all --icf-thunks",
    "--emit-relocs",
    "--build-id=sha1",
    "--build-id=fast",
    "--build-id=md5",
    "--build-id=0x1234",
    "--build-id",
    "-z now",
    "-z norelro",
    "-z noseparate-code",
    "-z separate-loadable-segments",
    "-z text",
    "-z notext",
    "-z pack-relative-relocs",
    "-z nocombreloc",
    "-z max-page-size=65536",
    "-z max-page-size=2097152 -z common-page-size=65536",
    "-z nocopyreloc",
    "-z execstack",
    "-z nognustack",
    "-z stack-size=1048576",
    "-z ibt -z shstk",
    "-z ibtplt",
    "-z force-ibt",
    "-z mark-plt",
    "-z memory-seal",
    "-z nosectionheader",
    "-z rodynamic",
    "-z unique-symbol",
    "-z keep-text-section-prefix",
    "-z start-stop-gc --gc-sections",
    "-z start-stop-visibility=hidden",
    "-z nodynamic-undefined-weak",
    "-z dynamic-undefined-weak",
    "-z report-relative-reloc",
    "-z nodelete -z nodlopen -z initfirst -z origin",
    "-z x86-64-v3 -z isa-level-report=all",
    "-z dead-reloc-in-nonalloc=.debug_*=0xffffffff",
    "-z defs",
    "-z common",
    "-z lam-u48",
    "--hash-style=sysv",
    "--hash-style=gnu",
    "--hash-style=both",
    "-s",
    "-S",
    "-x",
    "-X",
    "--discard-none",
    "--no-eh-frame-hdr",
    "--eh-frame-hdr",
    "--export-dynamic",
    "--export-dynamic-symbol=lua_*",
    "--dynamic-list=in/scripts/dynamic.list",
    "--version-script=in/scripts/versions",
    "--version-script=in/scripts/versions --no-undefined-version",
    "--default-symver",
    "-Bsymbolic",
    "-Bsymbolic-functions",
    "-Bsymbolic-non-weak",
    "--no-relax",
    "--image-base=0x10000000",
    "-Ttext=0x2000000",
    "-Tdata=0x3000000",
    "-Tbss=0x4000000",
    "-Ttext-segment=0x800000",
    "-Trodata-segment=0x9000000",
    "--section-start=.data=0x5000000",
    "--defsym=odd_defined=0x77",
    "--defsym=odd_alias=main+4",
    "--defsym=early=later --defsym=later=main",
    "--wrap=malloc",
    "--wrap=luaL_newstate",
    "-u odd_nobody",
    "--require-defined=main",
    "--sort-section=name",
    "--sort-section=alignment",
    "--compress-debug-sections=zlib",
    "--compress-debug-sections=zstd",
    "--compress-debug-sections=zlib-gnu",
    "--gdb-index",
    "-Map=map",
    "-Map=map --cref",
    "--trace-symbol=main",
    "-t",
    "-t -t",
    "--warn-common",
    "--unique",
    "--unique=.text*",
    "-n",
    "-N",
    "--no-rosegment",
    "--no-dynamic-linker",
    "-e main",
    "-e 0x1234",
    "--init=main --fini=main",
    "--rpath=/one:/two",
    "--rpath=/one --disable-new-dtags",
    "--soname=libname.so",
    "--audit=a --depaudit=b",
    "-f auxiliary",
    "-F filter",
    "--as-needed",
    "--unresolved-symbols=ignore-all",
    "--warn-unresolved-symbols",
    "--noinhibit-exec",
    "--allow-multiple-definition",
    "--no-undefined",
    "--exclude-libs=ALL",
    "--symbol-ordering-file=in/scripts/order",
    "--section-ordering-file=in/scripts/plain.ld",
    "--orphan-handling=warn",
    "--orphan-handling=discard",
    "--oformat=binary",
    "--dependency-file=dependencies",
    "--print-memory-usage",
    "--package-metadata={\"a\":1}",
    "--spare-dynamic-tags=3",
    "--pack-dyn-relocs=relr --use-android-relr-tags",
    "--dynamic-list-data",
    "--dynamic-list-cpp-typeinfo",
    "-d",
    "-O2",
    "-O0",
    "--force-group-allocation",
    "--no-gnu2-tls-tag",
    "--no-check-sections",
    "--fatal-warnings",
    "--strip-debug --gc-sections --icf=all",
    "--threads=1",
    "-T in/scripts/own.ld",
    "-T in/scripts/gnu.ld",
    "-T in/scripts/plain.ld",
    "-T in/scripts/memory.ld",
    "-T in/scripts/phdrs.ld",
    "-T in/scripts/insert.ld",
    "-T in/scripts/plain.ld --orphan-handling=error",
    "-T in/scripts/plain.ld -Map=map",
    "-T in/scripts/own.ld --emit-relocs",
];

/// All links.
pub fn all(inputs: &Inputs, random: usize) -> Vec<Case> {
    let programs = programs(inputs);
    let mut cases = Vec::new();
    for program in &programs {
        for kind in KINDS {
            let name = format!("{}.{}", program.name, kind.0);
            cases.push(program.link(inputs, name, kind, &[]));
        }
    }
    // Each option with a few programs: small ones, which are linked in milliseconds.
    for (number, option) in OPTIONS.iter().enumerate() {
        for (shift, kind) in KINDS.iter().enumerate() {
            let quick: Vec<&Subject> = programs.iter().filter(|program| program.quick).collect();
            let program = quick[(number + shift) % quick.len()];
            let name = format!("option-{number}.{}.{}", program.name, kind.0);
            cases.push(program.link(inputs, name, kind, &[option]));
        }
    }
    for number in 0..random {
        let mut draw = Draw(number as u64);
        let quick = draw.below(12) != 0;
        let among: Vec<&Subject> = programs.iter().filter(|p| p.quick == quick).collect();
        let program = among[draw.below(among.len())];
        let kind = &KINDS[draw.below(KINDS.len())];
        let count = 2 + draw.below(6);
        let options: Vec<&str> = (0..count)
            .map(|_| OPTIONS[draw.below(OPTIONS.len())])
            .collect();
        let name = format!("random-{number}.{}.{}", program.name, kind.0);
        cases.push(program.link(inputs, name, kind, &options));
    }
    if let Some(large) = &inputs.large {
        let program = Subject {
            name: "large".into(),
            objects: large.clone(),
            cxx: true,
            start: true,
            quick: false,
        };
        let ignore = "--unresolved-symbols=ignore-all";
        for options in [&[ignore][..], &[ignore, "--gc-sections", "--icf=all", "-s"]] {
            let name = format!("large.{}", options.len());
            cases.push(program.link(inputs, name, &KINDS[0], options));
        }
    }
    cases
}

/// What is linked.
struct Subject {
    name: String,
    objects: Vec<String>,
    cxx: bool,
    /// Whether start files and libraries belong to it.
    start: bool,
    /// Linked in milliseconds.
    quick: bool,
}

fn programs(inputs: &Inputs) -> Vec<Subject> {
    let mut programs = Vec::new();
    for (name, objects, cxx) in &inputs.programs {
        programs.push(Subject {
            name: (*name).to_owned(),
            objects: objects.clone(),
            cxx: *cxx,
            start: true,
            quick: !cxx,
        });
    }
    let odd = |extra: &[&str]| {
        let is_odd = |name: &&String| name.contains("/odd.");
        let mut objects: Vec<String> = inputs.small.iter().filter(is_odd).cloned().collect();
        objects.extend(extra.iter().map(|word| (*word).to_owned()));
        objects
    };
    for (name, extra, start) in [
        ("odd", &["in/small/odd_library.s.o"][..], false),
        (
            "odd-archive",
            &["in/small/libodd.a", "--defsym=main=odd_start"],
            true,
        ),
        (
            "odd-shared",
            &["in/small/libodd.so", "--defsym=_start=odd_start"],
            false,
        ),
        ("odd-undefined", &[], false),
    ] {
        programs.push(Subject {
            name: name.to_owned(),
            objects: odd(extra),
            cxx: false,
            start,
            quick: true,
        });
    }
    for (name, source) in [("c", "main.c"), ("cpp", "main.cpp")] {
        let wanted = |object: &&String| match name {
            "c" => object.contains(".c.o"),
            _ => object.contains(".cpp.o"),
        };
        let objects: Vec<String> = inputs.small.iter().filter(wanted).cloned().collect();
        debug_assert!(objects.iter().any(|object| object.contains(source)));
        programs.push(Subject {
            name: format!("features-{name}"),
            objects,
            cxx: name == "cpp",
            start: true,
            quick: true,
        });
    }
    if let Some(rust) = &inputs.rust {
        programs.push(Subject {
            name: "rust".into(),
            objects: vec!["-u".into(), "main".into(), rust.clone()],
            cxx: false,
            start: true,
            quick: false,
        });
    }
    programs
}

impl Subject {
    fn link(&self, inputs: &Inputs, name: String, kind: &(&str, &str), options: &[&str]) -> Case {
        let mut words: Vec<String> = vec!["-o".into(), "out".into(), "--no-fork".into()];
        let split = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        words.extend(split(kind.1));
        words.push("--eh-frame-hdr".into());
        for option in options {
            words.extend(split(option));
        }
        let system = |name: &str| (inputs.system)(name);
        let (is_static, shared) = (kind.0.starts_with("static"), kind.0 == "shared");
        let full = self.start && kind.0 != "relocatable";
        let begin = match kind.0 {
            "static" => "crtbeginT.o",
            "exec" => "crtbegin.o",
            _ => "crtbeginS.o",
        };
        if full {
            let first = match kind.0 {
                "pie" => Some("Scrt1.o"),
                "static-pie" => Some("rcrt1.o"),
                "shared" => None,
                _ => Some("crt1.o"),
            };
            words.extend(first.map(system));
            words.extend([system("crti.o"), system(begin)]);
        }
        words.extend(self.objects.iter().cloned());
        if full {
            let extension = if is_static { "a" } else { "so" };
            words.push("--start-group".into());
            if self.cxx {
                words.push(system(&format!("libstdc++.{extension}")));
            }
            if is_static {
                words.extend(["libm.a", "libgcc.a", "libgcc_eh.a", "libc.a"].map(system));
            } else {
                words.extend(["libm.so.6", "libgcc_s.so.1", "libc.so"].map(system));
                words.push(system("libgcc.a"));
            }
            words.push("--end-group".into());
            let end = if is_static && kind.0 == "static" {
                "crtend.o"
            } else if shared || kind.0.ends_with("pie") {
                "crtendS.o"
            } else {
                "crtend.o"
            };
            words.extend([system(end), system("crtn.o")]);
        }
        Case {
            name,
            arguments: words,
        }
    }
}
