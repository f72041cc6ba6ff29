//! What the options of the compiler drivers mean, and which of them take their argument as a separate word.
//!
//! The arity decides which words of a command line are inputs and which name
//! the output. An option that is missing here makes its argument look like an
//! input, and then an output is expected that never appears: the compiler's
//! own object stays, which is a slower build and not a wrong one.
//!
//! The tables were made from what the drivers themselves do: gcc 12 was asked
//! with `gcc OPTION a.c`, which says "no input files" if the option takes
//! `a.c`; clang 19 with the options of kind `Separate`, `JoinedOrSeparate`,
//! `JoinedAndSeparate` and `MultiArg` that its driver shows. A test asks the
//! installed compilers again.

//!
//! The meaning decides what has to be the same for a compile not to be done again. Most options of a compiler are about the code, so
//! all that begin as such are taken for these, but for those that read or write further files: they are named, and an option
//! whose value may be a file's name is one of them until it is named. What begins like nothing in the tables may do
//! anything. (Read in the manuals of gcc 11 to 14 and clang 14 to 20.)

use super::compiler::Family;
use super::inner_options;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Options that take the next word, in gcc and in clang.
const COMMON: &[&str] = &[
    "--assert",
    "--define-macro",
    "--force-link",
    "--for-linker",
    "--imacros",
    "--include",
    "--include-directory",
    "--include-directory-after",
    "--include-prefix",
    "--include-with-prefix",
    "--include-with-prefix-after",
    "--include-with-prefix-before",
    "--language",
    "--library-directory",
    "--output",
    "--param",
    "--prefix",
    "--print-file-name",
    "--print-prog-name",
    "--sysroot",
    "--undefine-macro",
    "-A",
    "-B",
    "-D",
    "-F",
    "-G",
    "-I",
    "-L",
    "-MF",
    "-MQ",
    "-MT",
    "-T",
    "-U",
    "-Xassembler",
    "-Xlinker",
    "-Xpreprocessor",
    "-b",
    "-dumpdir",
    "-e",
    "-idirafter",
    "-imacros",
    "-imultilib",
    "-include",
    "-iprefix",
    "-iquote",
    "-isysroot",
    "-isystem",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-l",
    "-o",
    "-rpath",
    "-specs",
    "-u",
    "-x",
    "-z",
];

/// Options that take the next word in gcc only.
const GCC: &[&str] = &[
    "--dump",
    "--dumpbase",
    "--dumpbase-ext",
    "--dumpdir",
    "--entry",
    "--for-assembler",
    "--specs",
    "-Hd",
    "-Hf",
    "-J",
    "-R",
    "-Tbss",
    "-Tdata",
    "-Ttext",
    "-V",
    "-Xf",
    "-aux-info",
    "-auxbase",
    "-auxbase-strip",
    "-dumpbase",
    "-dumpbase-ext",
    "-fintrinsic-modules-path",
    "-gnatO",
    "-h",
    "-imultiarch",
    "-wrapper",
];

/// Options that take the next word in clang only.
const CLANG: &[&str] = &[
    "--CLASSPATH",
    "--analyzer-output",
    "--bootclasspath",
    "--classpath",
    "--config",
    "--dyld-prefix",
    "--encoding",
    "--extdirs",
    "--mhwdiv",
    "--no-system-header-prefix",
    "--output-class-directory",
    "--resource",
    "--rtlib",
    "--serialize-diagnostics",
    "--std",
    "--stdlib",
    "--system-header-prefix",
    "-MJ",
    "-Xanalyzer",
    "-Xarch_device",
    "-Xarch_host",
    "-Xclang",
    "-Xcuda-fatbinary",
    "-Xcuda-ptxas",
    "-Xmicrosoft-visualc-tools-root",
    "-Xmicrosoft-visualc-tools-version",
    "-Xmicrosoft-windows-sdk-root",
    "-Xmicrosoft-windows-sdk-version",
    "-Xmicrosoft-windows-sys-root",
    "-Xoffload-linker",
    "-Xopenmp-target",
    "-alias_list",
    "-allowable_client",
    "-arch",
    "-arch_only",
    "-arcmt-migrate-report-output",
    "-bundle_loader",
    "-ccc-arcmt-migrate",
    "-ccc-gcc-name",
    "-ccc-install-dir",
    "-ccc-objcmt-migrate",
    "-client_name",
    "-compatibility_version",
    "-current_version",
    "-cxx-isystem",
    "-darwin-target-variant",
    "-darwin-target-variant-triple",
    "-dependency-dot",
    "-dependency-file",
    "-dsym-dir",
    "-dylib_file",
    "-dylinker_install_name",
    "-exported_symbols_list",
    "-fdebug-compilation-dir",
    "-fexperimental-openacc-macro-override",
    "-filelist",
    "-fmodule-implementation-of",
    "-fmodules-user-build-path",
    "-fnew-alignment",
    "-force_load",
    "-framework",
    "-ftrapv-handler",
    "-gen-cdb-fragment-path",
    "-hlsl-entry",
    "-iapinotes-modules",
    "-iframework",
    "-iframeworkwithsysroot",
    "-image_base",
    "-include-pch",
    "-init",
    "-install_name",
    "-isystem-after",
    "-ivfsoverlay",
    "-iwithsysroot",
    "-lazy_framework",
    "-lazy_library",
    "-meabi",
    "-mllvm",
    "-mmlir",
    "-module-dependency-dir",
    "-mthread-model",
    "-multiply_defined",
    "-multiply_defined_unused",
    "-object-file-name",
    "-pagezero_size",
    "-read_only_relocs",
    "-reexport_framework",
    "-reexport_library",
    "-resource-dir",
    "-sectobjectsymbols",
    "-seg1addr",
    "-seg_addr_table",
    "-seg_addr_table_filename",
    "-segs_read_only_addr",
    "-segs_read_write_addr",
    "-serialize-diagnostics",
    "-stdlib++-isystem",
    "-sub_library",
    "-sub_umbrella",
    "-target",
    "-umbrella",
    "-undefined",
    "-unexported_symbols_list",
    "-vfsoverlay",
    "-weak_framework",
    "-weak_library",
    "-weak_reference_mismatches",
    "-working-directory",
];

/// Options of clang that take more than one word.
const CLANG_SEVERAL: &[(&str, usize)] = &[
    ("-sectalign", 3),
    ("-sectcreate", 3),
    ("-sectobjectsymbols", 2),
    ("-sectorder", 3),
    ("-segaddr", 2),
    ("-segcreate", 3),
    ("-segprot", 3),
];

/// Options of clang that take the next word whatever is joined to them.
const CLANG_PREFIXES: &[&str] = &["-Xarch_", "-Xopenmp-target=", "-Xoffload-linker"];

/// How many words after `option` are its arguments.
pub fn separate_arguments(family: Family, option: &str) -> usize {
    if COMMON.contains(&option) {
        return 1;
    }
    match family {
        Family::Gcc => usize::from(GCC.contains(&option)),
        Family::Clang => {
            if let Some((_, count)) = CLANG_SEVERAL.iter().find(|(name, _)| *name == option) {
                *count
            } else {
                usize::from(
                    CLANG.contains(&option)
                        || CLANG_PREFIXES
                            .iter()
                            .any(|prefix| option.starts_with(prefix)),
                )
            }
        }
    }
}

/// What an option is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The code, or how it is compiled.
    Code,
    /// A macro.
    Macro,
    /// A directory in which headers are looked for.
    Directory,
    /// A file that is read before the source.
    Header,
    /// Where the object is written.
    Output,
    /// The dependency file: whether there is one, where, and what is in it.
    Dependencies,
    /// What is written to standard error.
    Diagnostics,
    /// The link, or nothing: the object is the same.
    Nothing,
    /// It reads or writes what nobody here knows of; the reason is for the log.
    Beyond(&'static str),
}

/// Options that are the whole word, or the word before the argument.
const WORDS: &[(&str, Meaning)] = {
    use Meaning::*;
    const OTHER_FILES: Meaning = Beyond("an option that writes other files");
    const OTHER_TOOLS: Meaning = Beyond("an option that chooses the compiler's programs");
    const PRECOMPILED: Meaning = Beyond("a precompiled header");
    &[
        ("--ansi", Code),
        ("--compile", Nothing),
        ("--config", OTHER_TOOLS),
        ("--coverage", OTHER_FILES),
        ("--define-macro", Macro),
        ("--for-assembler", Beyond("an option for the assembler")),
        ("--imacros", Header),
        ("--include", Header),
        ("--include-directory", Directory),
        ("--include-directory-after", Directory),
        ("--language", Code),
        ("--no-standard-includes", Code),
        ("--no-warnings", Diagnostics),
        ("--optimize", Code),
        ("--output", Output),
        ("--param", Code),
        ("--pedantic", Diagnostics),
        ("--pedantic-errors", Diagnostics),
        ("--pipe", Nothing),
        ("--prefix", OTHER_TOOLS),
        ("--profile", Code),
        ("--save-temps", OTHER_FILES),
        ("--serialize-diagnostics", OTHER_FILES),
        ("--shared", Nothing),
        ("--specs", OTHER_TOOLS),
        ("--static", Nothing),
        ("--std", Code),
        ("--stdlib", Code),
        ("--sysroot", Code),
        ("--target", Code),
        ("--undefine-macro", Macro),
        ("--verbose", Beyond("-v")),
        ("--warn-", Diagnostics),
        ("-A", Macro),
        ("-B", OTHER_TOOLS),
        ("-D", Macro),
        ("-F", Beyond("frameworks")),
        ("-H", Beyond("-H")),
        ("-I", Directory),
        ("-I-", Beyond("-I-")),
        ("-L", Nothing),
        ("-MD", Dependencies),
        ("-MF", Dependencies),
        ("-MG", Beyond("-MG")),
        ("-MJ", OTHER_FILES),
        ("-MMD", Dependencies),
        ("-MP", Dependencies),
        ("-MQ", Dependencies),
        ("-MT", Dependencies),
        ("-MV", Dependencies),
        ("-Q", Beyond("-Q")),
        ("-Qunused-arguments", Diagnostics),
        ("-T", Nothing),
        ("-U", Macro),
        ("-Xassembler", Beyond("an option for the assembler")),
        ("-Xlinker", Nothing),
        ("-Xpreprocessor", Beyond("an option for the preprocessor")),
        ("-ansi", Code),
        ("-aux-info", OTHER_FILES),
        ("-c", Nothing),
        ("-cxx-isystem", Directory),
        ("-dumpbase", OTHER_FILES),
        ("-dumpbase-ext", OTHER_FILES),
        ("-dumpdir", OTHER_FILES),
        ("-e", Nothing),
        ("-fanalyzer", Code),
        ("-fauto-profile", OTHER_FILES),
        ("-fbranch-probabilities", OTHER_FILES),
        ("-fcallgraph-info", OTHER_FILES),
        ("-fcompare-debug", Beyond("an option that compiles twice")),
        (
            "-fcompare-debug-second",
            Beyond("an option that compiles twice"),
        ),
        ("-fcoverage-mapping", OTHER_FILES),
        ("-fcs-profile-generate", OTHER_FILES),
        ("-fdebug-compilation-dir", Code),
        ("-fdirectives-only", Beyond("-fdirectives-only")),
        (
            "-fmem-report",
            Beyond("an option that reports what it costs"),
        ),
        ("-fopt-info", Beyond("an option that reports what is done")),
        ("-fpch-preprocess", PRECOMPILED),
        ("-fpreprocessed", Beyond("-fpreprocessed")),
        ("-fprofile-arcs", OTHER_FILES),
        ("-fprofile-generate", OTHER_FILES),
        ("-fprofile-instr-generate", OTHER_FILES),
        ("-fprofile-instr-use", OTHER_FILES),
        ("-fprofile-use", OTHER_FILES),
        ("-fsave-optimization-record", OTHER_FILES),
        ("-fsplit-dwarf", OTHER_FILES),
        ("-fstack-usage", OTHER_FILES),
        ("-ftest-coverage", OTHER_FILES),
        (
            "-ftime-report",
            Beyond("an option that reports what it costs"),
        ),
        ("-ftime-trace", OTHER_FILES),
        ("-gsplit-dwarf", OTHER_FILES),
        ("-idirafter", Directory),
        ("-imacros", Header),
        ("-imultiarch", Code),
        ("-imultilib", Code),
        ("-include", Header),
        ("-include-pch", PRECOMPILED),
        ("-iprefix", Beyond("-iprefix")),
        ("-iquote", Directory),
        ("-isysroot", Directory),
        ("-isystem", Directory),
        ("-isystem-after", Directory),
        ("-ivfsoverlay", Beyond("an overlay of the file system")),
        ("-iwithprefix", Beyond("-iprefix")),
        ("-iwithprefixbefore", Beyond("-iprefix")),
        ("-l", Nothing),
        ("-m16", Code),
        ("-mllvm", Beyond("an option of LLVM that is not known here")),
        ("-mmlir", Beyond("an option of MLIR")),
        ("-no-canonical-prefixes", Code),
        ("-no-integrated-cpp", OTHER_TOOLS),
        ("-no-pie", Code),
        ("-no-pthread", Code),
        ("-nodefaultlibs", Nothing),
        ("-nolibc", Nothing),
        ("-nostartfiles", Nothing),
        ("-nostdinc", Code),
        ("-nostdinc++", Code),
        ("-nostdlib", Nothing),
        ("-nostdlib++", Nothing),
        ("-nostdlibinc", Code),
        ("-o", Output),
        ("-p", Code),
        ("-pass-exit-codes", Nothing),
        ("-pedantic", Diagnostics),
        ("-pedantic-errors", Diagnostics),
        ("-pg", Code),
        ("-pie", Code),
        ("-pipe", Nothing),
        ("-pthread", Code),
        ("-pthreads", Code),
        ("-r", Nothing),
        ("-rdynamic", Nothing),
        ("-remap", Beyond("-remap")),
        ("-resource-dir", Code),
        ("-rpath", Nothing),
        ("-s", Nothing),
        ("-save-temps", OTHER_FILES),
        ("-serialize-diagnostics", OTHER_FILES),
        ("-shared", Nothing),
        ("-shared-libgcc", Nothing),
        ("-specs", OTHER_TOOLS),
        ("-static", Code),
        ("-static-libgcc", Nothing),
        ("-static-libstdc++", Nothing),
        ("-static-pie", Code),
        ("-stdlib++-isystem", Directory),
        ("-target", Code),
        ("-time", Beyond("an option that reports what it costs")),
        ("-traditional-cpp", Beyond("-traditional-cpp")),
        ("-trigraphs", Code),
        ("-u", Nothing),
        ("-undef", Code),
        ("-v", Beyond("-v")),
        ("-w", Diagnostics),
        ("-wrapper", OTHER_TOOLS),
        ("-x", Code),
        ("-z", Nothing),
    ]
};

/// Options by how they begin; the first that fits counts. Where the value must be of no file, `true`.
const BEGINNINGS: &[(&str, Meaning, bool)] = {
    use Meaning::*;
    const OTHER_FILES: Meaning = Beyond("an option that writes other files");
    const OTHER_INPUTS: Meaning = Beyond("an option that reads other files");
    const OTHER_TOOLS: Meaning = Beyond("an option that chooses the compiler's programs");
    &[
        ("-fplugin", Beyond("a plugin"), false),
        ("-fpass-plugin", Beyond("a plugin"), false),
        ("-fmodule", Beyond("modules"), false),
        ("-fcxx-modules", Beyond("modules"), false),
        ("-fprebuilt-", Beyond("modules"), false),
        ("-fimplicit-module", Beyond("modules"), false),
        ("-fbuiltin-module-map", Beyond("modules"), false),
        ("-fdeps-", Beyond("modules"), false),
        ("-fpch-", Beyond("a precompiled header"), false),
        ("-fdump-", OTHER_FILES, false),
        ("-fprofile-", OTHER_INPUTS, false),
        ("-fcs-profile-", OTHER_INPUTS, false),
        ("-fauto-profile=", OTHER_INPUTS, false),
        ("-fcoverage-prefix-map=", Code, false),
        ("-fcallgraph-info=", OTHER_FILES, false),
        ("-fsave-optimization-record=", OTHER_FILES, false),
        ("-foptimization-record-", OTHER_FILES, false),
        (
            "-fopt-info",
            Beyond("an option that reports what is done"),
            false,
        ),
        ("-fdiagnostics-format=sarif-file", OTHER_FILES, false),
        ("-fdiagnostics-format=json-file", OTHER_FILES, false),
        ("-fdiagnostics-add-output=", OTHER_FILES, false),
        ("-fdiagnostics-set-output=", OTHER_FILES, false),
        ("-fdiagnostics-", Diagnostics, true),
        ("-fno-diagnostics-", Diagnostics, false),
        ("-fcolor-diagnostics", Diagnostics, false),
        ("-fno-color-diagnostics", Diagnostics, false),
        ("-fansi-escape-codes", Diagnostics, false),
        ("-fmessage-length=", Diagnostics, true),
        ("-ftime-", OTHER_FILES, false),
        ("-fproc-stat-report", OTHER_FILES, false),
        (
            "-fms-compatibility",
            Beyond("headers are looked for as Microsoft's compilers do"),
            false,
        ),
        (
            "-fms-extensions",
            Beyond("headers are looked for as Microsoft's compilers do"),
            false,
        ),
        ("-gen-cdb-fragment-path", OTHER_FILES, false),
        ("-gen-reproducer", OTHER_FILES, false),
        ("-ftemplate-backtrace-limit=", Diagnostics, true),
        ("-fdebug-prefix-map=", Code, false),
        ("-ffile-prefix-map=", Code, false),
        ("-fmacro-prefix-map=", Code, false),
        ("-fdebug-compilation-dir=", Code, false),
        ("-ffile-compilation-dir=", Code, false),
        ("-fcoverage-compilation-dir=", Code, false),
        ("-frandom-seed=", Code, false),
        ("-fcrash-diagnostics", Nothing, false),
        ("-fno-crash-diagnostics", Nothing, false),
        ("-fuse-ld=", Nothing, false),
        ("-fno-profile-", Code, true),
        ("-f", Code, true),
        ("-gsplit-dwarf", OTHER_FILES, false),
        ("-g", Code, true),
        ("-O", Code, true),
        ("-m", Code, true),
        ("-W", Diagnostics, true),
        ("-std=", Code, true),
        ("--std=", Code, true),
        ("-stdlib=", Code, true),
        ("--stdlib=", Code, true),
        ("-rtlib=", Nothing, false),
        ("--rtlib=", Nothing, false),
        ("-unwindlib=", Nothing, false),
        ("--unwindlib=", Nothing, false),
        ("--sysroot=", Code, false),
        ("--target=", Code, true),
        ("--gcc-toolchain=", Code, false),
        ("--gcc-install-dir=", Code, false),
        ("--gcc-triple=", Code, true),
        ("-resource-dir=", Code, false),
        ("--param=", Code, true),
        ("--config=", OTHER_TOOLS, false),
        ("--config-", OTHER_TOOLS, false),
        ("--no-default-config", Code, false),
        ("--output=", Output, false),
        ("--language=", Code, false),
        ("--start-no-unused-arguments", Diagnostics, false),
        ("--end-no-unused-arguments", Diagnostics, false),
        ("-print-multi-", Beyond("asks about the compiler"), false),
        ("-save-temps=", OTHER_FILES, false),
        ("-specs=", OTHER_TOOLS, false),
        ("--specs=", OTHER_TOOLS, false),
        ("-isysroot", Directory, false),
        ("-isystem", Directory, false),
        ("-iquote", Directory, false),
        ("-idirafter", Directory, false),
        ("-include-pch", Beyond("a precompiled header"), false),
        ("-include", Header, false),
        ("-imacros", Header, false),
        ("-I", Directory, false),
        ("-D", Macro, false),
        ("-U", Macro, false),
        ("-A", Macro, false),
        ("-L", Nothing, false),
        ("-l", Nothing, false),
        ("-B", OTHER_TOOLS, false),
        ("-x", Code, false),
        ("-o", Output, false),
        ("-T", Nothing, false),
        ("-u", Nothing, false),
        ("-z", Nothing, false),
    ]
};

/// What an option is about. `option` is the word; `argument` what follows it, as far as that is its argument. An option that nobody here
/// knows may do anything: `Beyond`.
pub fn meaning(option: &[u8], argument: Option<&[u8]>) -> Meaning {
    const UNKNOWN: Meaning = Meaning::Beyond("an option that is not known here");
    let Ok(text) = std::str::from_utf8(option) else {
        return match option {
            [b'-', b'D' | b'U', ..] => Meaning::Macro,
            [b'-', b'I', ..] => Meaning::Directory,
            [b'-', b'o', ..] => Meaning::Output,
            _ => UNKNOWN,
        };
    };
    if let Some(value) = text.strip_prefix("-Wp,") {
        // `-Wp,-MD,FILE`, as Linux has it.
        let is_dependencies = value.starts_with("-MD,") || value.starts_with("-MMD,");
        return match is_dependencies && value.split(',').count() == 2 {
            true => Meaning::Dependencies,
            false => Meaning::Beyond("an option for the preprocessor"),
        };
    }
    if let Some(value) = text.strip_prefix("-Wa,") {
        return match value.split(',').all(inner_options::is_of_the_assembler) {
            true => Meaning::Code,
            false => Meaning::Beyond("an option for the assembler"),
        };
    }
    if text.starts_with("-Wl,") {
        return Meaning::Nothing;
    }
    // An option for the compiler proper is the same as for the driver, where it has the same name.
    if text == "-Xclang" {
        let inner = argument.unwrap_or_default();
        return match meaning(inner, None) {
            code @ (Meaning::Code | Meaning::Diagnostics)
                if inner_options::is_of_clang_proper(inner) =>
            {
                code
            }
            _ => Meaning::Beyond("-Xclang"),
        };
    }
    if text == "-mllvm" {
        return match argument {
            Some(argument) if inner_options::is_of_llvm(argument) && !names_a_file(argument) => {
                Meaning::Code
            }
            _ => Meaning::Beyond("an option of LLVM that is not known here"),
        };
    }
    if let Ok(at) = WORDS.binary_search_by_key(&text, |(word, _)| *word) {
        return WORDS[at].1;
    }
    for (beginning, meaning, must_be_of_no_file) in BEGINNINGS {
        let Some(rest) = text.strip_prefix(beginning) else {
            continue;
        };
        if *must_be_of_no_file
            && let Some((_, value)) = rest
                .split_once('=')
                .or(beginning.ends_with('=').then_some(("", rest)))
            && names_a_file(value.as_bytes())
        {
            return Meaning::Beyond("an option that reads other files");
        }
        return *meaning;
    }
    UNKNOWN
}

/// Whether the value of an option, or a part of it, may be the name of a file, be it there or not.
fn names_a_file(value: &[u8]) -> bool {
    let mut parts = value.split(|byte| matches!(byte, b'=' | b',' | b':'));
    parts.any(|part| {
        let has_suffix =
            part.contains(&b'.') && !part.iter().all(|b| b.is_ascii_digit() || *b == b'.');
        let is_there = || {
            Path::new(OsStr::from_bytes(part))
                .symlink_metadata()
                .is_ok()
        };
        !part.is_empty() && (part.contains(&b'/') || has_suffix || is_there())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn words_are_in_order() {
        assert!(WORDS.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn meanings() {
        use Meaning::*;
        let of = |option: &str| meaning(option.as_bytes(), None);
        for (option, expected) in [
            ("-O2", Code),
            ("-fno-inline", Code),
            ("-funroll-loops", Code),
            ("-march=x86-64-v3", Code),
            ("-std=c++20", Code),
            (
                "-fms-extensions",
                Beyond("headers are looked for as Microsoft's compilers do"),
            ),
            (
                "-fbasic-block-sections=list=bb.txt",
                Beyond("an option that reads other files"),
            ),
            ("-mstack-alignment=16", Code),
            ("-g", Code),
            ("-ggdb3", Code),
            ("-ffile-prefix-map=/a=/b", Code),
            ("-fsanitize=address,undefined", Code),
            ("-DA=\"x/y\"", Macro),
            ("-I../include", Directory),
            ("-isystem/usr/x", Directory),
            ("-Wall", Diagnostics),
            ("-Werror=format", Diagnostics),
            ("-fdiagnostics-color=always", Diagnostics),
            ("-Wp,-MD,x/.a.o.d", Dependencies),
            ("-MMD", Dependencies),
            ("-Wa,--noexecstack", Code),
            ("-Wl,-O1", Nothing),
            ("-pipe", Nothing),
            ("-ox.o", Output),
        ] {
            assert_eq!(of(option), expected, "{option}");
        }
        for option in [
            "-fplugin=x.so",
            "-fsanitize-ignorelist=list/x",
            "-fprofile-use",
            "-fprofile-use=x",
            "-fmodules",
            "-fmodule-file=x",
            "-fdump-tree-all",
            "-save-temps=obj",
            "-gsplit-dwarf",
            "--coverage",
            "-ftime-trace=x",
            "-specs=x",
            "-Bdir",
            "-dD",
            "-v",
            "-Wa,-a=x",
            "-Wa,--noexecstack,-MD,x",
            "-Wp,-D,x",
            "-fnew-list=src",
            "-include-pch",
            "--something-new",
            "-Qn",
        ] {
            assert!(
                matches!(of(option), Beyond(_)),
                "{option}: {:?}",
                of(option)
            );
        }
        let xclang = |inner: &str| meaning(b"-Xclang", Some(inner.as_bytes()));
        assert_eq!(xclang("-fmerge-functions"), Code);
        assert!(matches!(xclang("-fno-something-new"), Beyond(_)));
        assert!(matches!(xclang("-load"), Beyond(_)));
        assert!(matches!(xclang("x.so"), Beyond(_)));
        assert!(matches!(meaning(b"-mllvm", Some(b"-list=a/b")), Beyond(_)));
        assert_eq!(meaning(b"-mllvm", Some(b"-inline-threshold=5")), Code);
        for option in [
            &b"-info-output-file=x"[..],
            b"-stats",
            b"-inline-threshold=./x",
        ] {
            assert!(matches!(meaning(b"-mllvm", Some(option)), Beyond(_)));
        }
    }

    #[test]
    fn counts() {
        for (family, option, count) in [
            (Family::Gcc, "-o", 1),
            (Family::Gcc, "-ox", 0),
            (Family::Gcc, "-Xclang", 0),
            (Family::Gcc, "-wrapper", 1),
            (Family::Clang, "-wrapper", 0),
            (Family::Clang, "-Xclang", 1),
            (Family::Clang, "-Xarch_x86_64", 1),
            (Family::Clang, "-sectcreate", 3),
            (Family::Clang, "-MD", 0),
            (Family::Gcc, "-MD", 0),
            (Family::Gcc, "-O2", 0),
        ] {
            assert_eq!(
                separate_arguments(family, option),
                count,
                "{family:?} {option}"
            );
        }
    }

    /// The major version that a compiler tells.
    fn version(compiler: &str) -> Option<u32> {
        let output = Command::new(compiler).arg("-dumpversion").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().split('.').next()?.parse().ok()
    }

    /// Whether `compiler` takes the word after `option` as its argument, as
    /// seen from what it says about a command line without any input; `None`
    /// if it rejects the option or cannot be run.
    fn takes_next(compiler: &str, option: &str, dir: &std::path::Path) -> Option<bool> {
        let output = Command::new(compiler)
            .args([option, "word.c", "-c", "-###"])
            .env("LC_ALL", "C")
            .current_dir(dir)
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stderr);
        if text.contains("unrecognized command-line option") || text.contains("unknown argument") {
            return None;
        }
        // With -### a driver that has no input runs nothing.
        Some(!text.lines().any(|line| {
            (line.starts_with(' ') && line.contains("word.c") && line.contains("cc1"))
                && (line.contains("-quiet word.c")
                    || line.contains(" word.c -quiet")
                    || line.contains("\"word.c\""))
        }))
    }

    #[test]
    fn tables_agree_with_the_installed_compilers() {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::write(dir.path().join("word.c"), "int f;\n").expect("source");
        let mut asked = 0;
        for (compiler, family) in [
            ("gcc", Family::Gcc),
            ("clang", Family::Clang),
            ("clang-19", Family::Clang),
        ] {
            if Command::new(compiler).arg("--version").output().is_err() {
                continue;
            }
            // Options that many command lines have; asking about all costs seconds.
            for option in [
                "-I",
                "-D",
                "-U",
                "-include",
                "-imacros",
                "-isystem",
                "-iquote",
                "-idirafter",
                "-MF",
                "-MT",
                "-MQ",
                "-L",
                "-B",
                "-u",
                "-z",
                "-aux-info",
                "-dumpdir",
                "-Xassembler",
                "-Xpreprocessor",
                "-MD",
                "-MMD",
                "-MP",
                "-g",
                "-O",
                "-w",
                "-v",
                "-pipe",
                "-Xclang",
                "-mllvm",
                "-serialize-diagnostics",
            ] {
                // An option of clang since version 17; older ones take it for a joined `-d`.
                let is_older = family == Family::Clang && version(compiler).is_none_or(|v| v < 17);
                if option == "-dumpdir" && is_older {
                    continue;
                }
                if let Some(takes) = takes_next(compiler, option, dir.path()) {
                    asked += 1;
                    assert_eq!(
                        separate_arguments(family, option) > 0,
                        takes,
                        "{compiler} {option}"
                    );
                }
            }
        }
        if asked == 0 {
            eprintln!("not run: no gcc and no clang on PATH");
        }
    }
}
