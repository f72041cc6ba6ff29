//! Which command lines definitions can be pruned for, and what of them goes into the definitions' digests.
//!
//! An option is known to do nothing to code (the front end has seen it, or it is about diagnostics or dependencies), or to do what the
//! environment's digest holds; with any other one the whole translation unit is compiled.

use super::super::compiler::Family;
use super::super::options::separate_arguments;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What matters of a command line.
#[derive(Debug, Default)]
pub struct Relevant {
    /// The options that change code, in their order.
    pub options: Vec<String>,
    /// The one source.
    pub source: OsString,
}

/// Options that take a word and leave code alone, once the front end has read it.
const WITHOUT_EFFECT_SEPARATE: &[&str] = &[
    "-o",
    "-I",
    "-D",
    "-U",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-include",
    "-imacros",
    "-MF",
    "-MT",
    "-MQ",
    "-isysroot",
    "--sysroot",
];
/// Such whose argument is joined to them, or that have none.
const WITHOUT_EFFECT_JOINED: &[&str] = &[
    "-I",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-isysroot",
    "--sysroot=",
    "-D",
    "-U",
    "-W",
    "-w",
    "-M",
    "-fdiagnostics",
    "-fno-diagnostics",
    "-fcolor-diagnostics",
    "-fno-color-diagnostics",
    "-fansi-escape-codes",
    "-pedantic",
    "-Qunused-arguments",
    "-pipe",
    "-fmessage-length=",
    "-ferror-limit=",
    "-ftemplate-depth=",
    "-fcaret-diagnostics",
    "-fno-caret-diagnostics",
    "-fshow-column",
    "-fbracket-depth=",
    "-fconstexpr",
    "-ffile-prefix-map=",
    "-fmacro-prefix-map=",
    "-fdebug-prefix-map=",
    "-fmacro-backtrace-limit=",
    "-ftemplate-backtrace-limit=",
    "-fspell-checking",
    "-fno-spell-checking",
    "-fno-show-column",
    "-fno-show-source-location",
    "-fno-elide-type",
];
/// Options that change code, whole.
const WITH_EFFECT: &[&str] = &[
    "-c",
    "-O",
    "-O0",
    "-O1",
    "-O2",
    "-O3",
    "-Os",
    "-Oz",
    "-fPIC",
    "-fpic",
    "-fPIE",
    "-fpie",
    "-fno-PIC",
    "-fno-pic",
    "-fno-PIE",
    "-fno-pie",
    "-m64",
    "-pthread",
    "-g0",
    "-nostdinc",
    "-nostdinc++",
    "-ansi",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-common",
    "-fexceptions",
    "-fno-exceptions",
    "-frtti",
    "-fno-rtti",
    "-fstrict-aliasing",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-wrapv",
    "-fomit-frame-pointer",
    "-fno-omit-frame-pointer",
    "-fno-plt",
    "-ffast-math",
    "-fno-math-errno",
    "-fno-builtin",
    "-fno-semantic-interposition",
    "-fsemantic-interposition",
    "-funroll-loops",
    "-fno-unroll-loops",
    "-fno-vectorize",
    "-fvectorize",
    "-fno-slp-vectorize",
    "-fslp-vectorize",
    "-fno-inline",
    "-finline-functions",
    "-fno-inline-functions",
    "-fsigned-char",
    "-funsigned-char",
    "-fshort-enums",
    "-fno-threadsafe-statics",
    "-ffreestanding",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fstack-protector",
    "-fstack-protector-strong",
    "-fstack-protector-all",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fasynchronous-unwind-tables",
    "-funwind-tables",
    "-fno-unwind-tables",
    "-fvisibility-inlines-hidden",
    "-fno-delete-null-pointer-checks",
    "-fno-strict-overflow",
    "-fstrict-overflow",
    "-fno-operator-names",
    "-fms-extensions",
    "-Og",
    "-Ofast",
    "-fstack-clash-protection",
    "-fno-stack-clash-protection",
    "-fident",
    "-fno-ident",
    "-fmerge-all-constants",
    "-fno-merge-all-constants",
    "-fuse-cxa-atexit",
    "-fno-use-cxa-atexit",
    "-fchar8_t",
    "-fno-char8_t",
    "-fcoroutines",
    "-fsized-deallocation",
    "-fno-sized-deallocation",
    "-faligned-allocation",
    "-fno-aligned-allocation",
    "-felide-constructors",
    "-fno-elide-constructors",
    "-fstrict-enums",
    "-fno-strict-enums",
    "-fassociative-math",
    "-fno-associative-math",
    "-freciprocal-math",
    "-fno-reciprocal-math",
    "-fno-honor-nans",
    "-fno-honor-infinities",
    "-ffinite-math-only",
    "-fno-finite-math-only",
    "-frounding-math",
    "-fno-rounding-math",
    "-fno-fast-math",
    "-funsafe-math-optimizations",
    "-fno-unsafe-math-optimizations",
    "-fmath-errno",
    "-fbuiltin",
    "-finline",
    "-fjump-tables",
    "-fno-jump-tables",
    "-mred-zone",
    "-ftree-vectorize",
    "-fno-tree-vectorize",
    "-fthreadsafe-statics",
    "-fassume-sane-operator-new",
    "-fno-assume-sane-operator-new",
    "-fno-access-control",
    "-fshort-wchar",
    "-fno-short-wchar",
    "-fgnu89-inline",
    "-fgnu-keywords",
    "-fno-gnu-keywords",
    "-fdelete-null-pointer-checks",
    "-fasm",
    "-fno-asm",
    "-fhosted",
    "-ftrapv",
    "-fno-trapv",
    "-foptimize-sibling-calls",
    "-fno-optimize-sibling-calls",
    "-fno-lto",
    "-fplt",
    "-fvisibility-inlines-hidden-static-local-var",
    "-fno-visibility-inlines-hidden-static-local-var",
    "-fno-strict-return",
    "-fno-short-enums",
    "-fms-compatibility",
    "-fno-ms-compatibility",
    "-fno-ms-extensions",
    "-flax-vector-conversions",
    "-fno-lax-vector-conversions",
    "-fno-zero-initialized-in-bss",
    "-momit-leaf-frame-pointer",
    "-mstackrealign",
    "-frelaxed-template-template-args",
    "-fno-stack-check",
    "-fno-strict-float-cast-overflow",
    "-fsigned-zeros",
    "-ftrapping-math",
];
/// Such whose argument is joined to them.
const WITH_EFFECT_JOINED: &[&str] = &[
    "-std=",
    "-march=",
    "-mtune=",
    "-mcpu=",
    "-msse",
    "-mno-sse",
    "-mavx",
    "-mno-avx",
    "-mfma",
    "-mbmi",
    "-mpopcnt",
    "-mpclmul",
    "-maes",
    "-mcmodel=",
    "-fvisibility=",
    "-ftls-model=",
    "-fcf-protection",
    "-ffp-contract=",
    "-stdlib=",
    "-ftrivial-auto-var-init=",
    "-falign-functions=",
    "-falign-loops=",
    "-mno-",
    "-mf16c",
    "-mlzcnt",
    "-mmovbe",
    "-mrdrnd",
    "-mrdseed",
    "-madx",
    "-msha",
    "-mcx16",
    "-mxsave",
    "-mfsgsbase",
    "-mprfchw",
    "-mgfni",
    "-mvaes",
    "-mvpclmulqdq",
    "-mclflushopt",
    "-mclwb",
    "-mcrc32",
    "-mmmx",
    "-mfpmath=",
    "-mprefer-vector-width=",
    "-mtls-dialect=",
    "-fms-compatibility-version=",
    "-fexcess-precision=",
    "-fdenormal-fp-math=",
    "-fzero-call-used-regs=",
];

/// Whether an option is known to be about code, and about nothing but the definitions.
pub fn is_of_code(option: &str) -> bool {
    WITH_EFFECT.contains(&option) || WITH_EFFECT_JOINED.iter().any(|it| option.starts_with(it))
}

/// What matters of a command line, or why nothing of what it compiles can be pruned.
pub fn relevant(args: &[OsString]) -> Result<Relevant, String> {
    let mut relevant = Relevant::default();
    let mut language = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let bytes = arg.as_bytes();
        let Some(text) = arg.to_str() else {
            return Err("an argument that is no text".to_owned());
        };
        if bytes.first() != Some(&b'-') || bytes == b"-" {
            if !relevant.source.is_empty() {
                return Err("more than one input".to_owned());
            }
            relevant.source = arg.clone();
            continue;
        }
        if text == "-x" {
            language = args.next();
            relevant.options.push(format!(
                "-x{}",
                language.map_or("".into(), |l| l.to_string_lossy())
            ));
            continue;
        }
        if WITHOUT_EFFECT_SEPARATE.contains(&text) {
            args.next();
            continue;
        }
        let begins = |list: &[&str]| list.iter().any(|begin| text.starts_with(begin));
        if is_of_code(text) {
            relevant.options.push(text.to_owned());
            continue;
        }
        let is_for_tool = ["-Wa,", "-Wl,", "-Wp,"]
            .iter()
            .any(|tool| text.starts_with(tool));
        let takes_word = separate_arguments(Family::Clang, text) > 0;
        if text.starts_with("-g") {
            return Err(format!(
                "debug information ({text}), whose line tables are of the whole translation unit"
            ));
        }
        if is_for_tool || takes_word || !begins(WITHOUT_EFFECT_JOINED) && !text.starts_with("-o") {
            return Err(format!("the option {text}"));
        }
        if text.starts_with("-o") && (text.starts_with("-objcmt") || text.starts_with("-object")) {
            return Err(format!("the option {text}"));
        }
    }
    let suffix = Path::new(&relevant.source).extension();
    let is_c = match language.map(OsString::as_os_str) {
        Some(language) => language == "c" || language == "c++",
        None => [&b"c"[..], b"cc", b"cpp", b"cxx", b"C", b"c++"]
            .contains(&suffix.map_or(&b""[..], OsStr::as_bytes)),
    };
    match is_c {
        true => Ok(relevant),
        false => Err("not a source in C or C++".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Vec<String>, String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        relevant(&words).map(|relevant| relevant.options)
    }

    #[test]
    fn what_changes_code_is_kept_and_what_nobody_knows_is_refused() {
        assert_eq!(
            of(
                "-O2 -I inc -Iother -isystem/inc -idirafterinc -DX=1 -D Y -Wall -c a.c -o a.o -MD -MF a.d -std=c11 -fPIC"
            ),
            Ok(vec![
                "-O2".into(),
                "-c".into(),
                "-std=c11".into(),
                "-fPIC".into()
            ])
        );
        for line in [
            "-O2 -ffile-prefix-map=/build=. -fstack-clash-protection -mno-avx512f -c a.c",
            "-fno-lto -fcf-protection -D_FORTIFY_SOURCE=2 -Werror=format-security -c a.cc",
        ] {
            assert!(of(line).is_ok(), "{line}");
        }
        let debug = of("-O2 -ggdb3 -c a.c").expect_err("not yet");
        assert!(debug.contains("debug information (-ggdb3)"), "{debug}");
        for line in [
            "-g -c a.c",
            "-g1 -c a.c",
            "-flto -c a.c",
            "-fsanitize=address -c a.c",
            "-fprofile-generate -c a.c",
            "--coverage -c a.c",
            "-mllvm -x -c a.c",
            "-Xclang -x -c a.c",
            "-fopenmp -c a.c",
            "-c a.s",
            "-c a.c b.c",
            "-Wa,-x -c a.c",
            "-S a.c",
            "-save-temps -c a.c",
            "-fnobody-knows -c a.c",
            "-x assembler -c a.c",
            "-pg -c a.c",
            "-fcommon -c a.c",
            "-fmodules -c a.c",
            "-c a.ll",
        ] {
            assert!(of(line).is_err(), "{line}");
        }
    }
}
