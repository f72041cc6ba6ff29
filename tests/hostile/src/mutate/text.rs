//! Changes to texts by their words: linker scripts, version scripts, dynamic lists, command lines, sources.

use crate::Random;
use std::ops::Range;

/// Words of linker scripts.
#[rustfmt::skip]
pub const SCRIPT: &[&str] = &[
    "SECTIONS", "MEMORY", "PHDRS", "{", "}", "(", ")", ":", ";", ",", "=", "+=", "?", "+", "-", "*", "/", "%", "<<", ">>", "<", ">",
    "&", "|", "!", "~", "&&", "||", "==", "!=", ".", "*(.text)", "*(.text .text.*)", "*(.data)", "*(COMMON)", "*(.rodata*)",
    "*(.bss)", ".text :", ".data :", ".bss :", ".x :", "/DISCARD/ :", "KEEP", "SORT", "SORT_BY_NAME", "SORT_BY_ALIGNMENT",
    "SORT_BY_INIT_PRIORITY", "SORT_NONE", "EXCLUDE_FILE", "PROVIDE", "PROVIDE_HIDDEN", "HIDDEN", "ASSERT", "ALIGN", "ALIGNOF",
    "SIZEOF", "ADDR", "LOADADDR", "MAX", "MIN", "LOG2CEIL", "NEXT", "ABSOLUTE", "DEFINED", "ORIGIN", "LENGTH", "CONSTANT",
    "MAXPAGESIZE", "COMMONPAGESIZE", "SEGMENT_START", "SIZEOF_HEADERS", "DATA_SEGMENT_ALIGN", "DATA_SEGMENT_END",
    "DATA_SEGMENT_RELRO_END", "BYTE", "SHORT", "LONG", "QUAD", "SQUAD", "FILL", "ASCIZ", "AT", "SUBALIGN", "ALIGN_WITH_INPUT",
    "ONLY_IF_RO", "ONLY_IF_RW", "NOLOAD", "READONLY", "TYPE", "OVERLAY", "NOCROSSREFS", "INSERT AFTER", "INSERT BEFORE", "INCLUDE",
    "INPUT", "GROUP", "AS_NEEDED", "EXTERN", "ENTRY", "VERSION", "PT_LOAD", "PT_PHDR", "PT_DYNAMIC", "PT_NOTE", "PT_TLS",
    "FILEHDR", "FLAGS", ":text", ":NONE", "> ram", "AT> ram", "ram", "CREATE_OBJECT_SYMBOLS", "CONSTRUCTORS", "REGION_ALIAS",
    "INPUT_SECTION_FLAGS", "FORCE_COMMON_ALLOCATION", "LD_FEATURE", "TARGET", "OUTPUT_FORMAT", "STARTUP", "fuzzed", "_start", "x",
    "0", "1", "0x1000", "4K", "1M", "0xffffffffffffffff", "0x7fffffffffffffff", "63", "64", "3", "\"text\"", "/*", "*/",
];

/// Words of version scripts and dynamic lists.
#[rustfmt::skip]
pub const VERSION_SCRIPT: &[&str] = &[
    "{", "}", ";", ":", "global:", "local:", "*", "?", "[a-z]", "[^", "]", "\\", "extern", "\"C\"", "\"C++\"", "\"Java\"", "V1", "V2",
    "fuzzed", "f*", "*d", "_start", "ns::*", "ns::f(int)", "\"f(int, double)\"", "#", "/*", "*/", "@", "@@",
];

/// Words of command lines; each stands on a line of its own.
#[rustfmt::skip]
pub const ARGUMENTS: &[&str] = &[
    "-o\nx", "-shared", "-pie", "-static", "-r", "-z\n", "-z\nnow", "-z\nmax-page-size=", "--defsym=a=", "--section-start=.x=",
    "-Ttext=", "--image-base=", "--build-id=", "--build-id=0x", "--hash-style=", "--icf=", "-l", "-L", "-e", "-u", "--wrap=",
    "-plugin", "-plugin-opt=", "--push-state", "--pop-state", "--start-group", "--end-group", "--start-lib", "--end-lib",
    "--threads=", "--error-limit=", "-O", "-m\nelf_x86_64", "--compress-debug-sections=", "--unresolved-symbols=",
    "--orphan-handling=", "--sort-section=", "--oformat=", "-b\nbinary", "--exclude-libs=", "--spare-dynamic-tags=",
    "--print-timing=", "--package-metadata=", "--color-diagnostics=", "=", ",", "-", "--", "0x", "18446744073709551616", "\u{fc}",
];

/// Words of C, C++, Rust and lists of dependencies, and what is not to be mistaken for some.
#[rustfmt::skip]
pub const SOURCE: &[&str] = &[
    "\n#include \"a.h\"\n", "\n#include <a.h>\n", "\n#include NAME\n", "\n#if 1\n", "\n#ifdef A\n", "\n#elif B\n", "\n#else\n", "\n#endif\n",
    "\n#define A(x, ...) x##__LINE__ #x __VA_ARGS__\n", "\n#define B {\n", "\n#define C }\n", "\n#undef A\n", "\n#line 7 \"x.h\"\n",
    "\n# 7\n", "\n#pragma once\n", "\n#pragma now\n", "\n%:include <b.h>\n", "\n_Pragma(\"once\")\n", "/*", "*/", "//", "\\\n", "\\", "\n", "\r\n",
    "\"", "'", "R\"x(", ")x\"", "u8R\"(", "??/", "??'", "<%", "%>", "<:", ":>", "%:%:", "{", "}", "(", ")", "[", "]", "<", ">", "<<", ">>", ";", ",",
    ":", "::", "=", "==", "->", "...", "#", "##", "~", "&", "&&", "*", "template <class T>", "template <>", "typename T::x", "class X : Y {", "struct S",
    "union U", "enum class E : int {", "namespace n {", "inline", "static", "constexpr", "consteval", "extern \"C\"", "extern \"C\" {", "operator()",
    "operator\"\" _x", "auto f() -> int {", "int f(int x) {", "int f(void);", "S::S() : x(1), y{2} {", "S::~S() noexcept {", "try {", "catch (...) {",
    "return x;", "[=](int x) mutable {", "[[nodiscard]]", "__attribute__((constructor))", "_Noreturn", "noexcept(", "requires", "concept", "using",
    "typedef", "static_assert(", "decltype(auto)", "alignas(8)", "asm(\".incbin \\\"x\\\"\");", "__asm__ volatile(", "__COUNTER__", "__LINE__",
    "__FILE__", "__DATE__", "__has_include(<a.h>)", "__has_embed", "__func__", "__PRETTY_FUNCTION__", "sizeof", "0", "1'000", "5000000000", "5.5e3f",
    "0x1p-3", "u8'x'", "L\"x\"", "\u{fc}", "\t", "\x0c", "a.o: b.c \\\n c.h", "a\\ b.h", "$$", "asm!(", "global_asm!(", "r#\"", "\"#", "'a ", "#![",
    "#[link(name = \"x\", kind = \"static\")]", "concat!(",
];

/// Changes a text: words go, come, are doubled, change places, numbers become others.
pub fn mutate(text: &mut Vec<u8>, words: &[&str], random: &mut Random, limit: usize) {
    for _ in 0..1 + random.below(4) {
        change(text, words, random);
    }
    text.truncate(limit);
}

fn change(text: &mut Vec<u8>, words: &[&str], random: &mut Random) {
    let tokens = tokens(text);
    if tokens.is_empty() || random.one_in(12) {
        text.extend_from_slice(random.pick(words).as_bytes());
        return text.push(b' ');
    }
    let one = random.below(tokens.len());
    let other = (one + 1 + random.below(8)).min(tokens.len());
    let range = tokens[one].start..tokens[other - 1].end;
    let place = random.pick(&tokens).start;
    match random.below(9) {
        0 => drop(text.drain(tokens[one].clone())),
        1 if random.one_in(4) => drop(text.drain(range)),
        1 | 2 => {
            let word = format!(" {} ", random.pick(words));
            drop(text.splice(tokens[one].clone(), word.bytes()));
        }
        3 | 4 => {
            let word = format!(" {} ", random.pick(words));
            drop(text.splice(place..place, word.bytes()));
        }
        5 => {
            let copy = text[range].to_vec();
            drop(text.splice(place..place, copy));
        }
        6 => {
            let numbers: Vec<&Range<usize>> = tokens
                .iter()
                .filter(|token| text[token.start].is_ascii_digit())
                .collect();
            if numbers.is_empty() {
                return;
            }
            let number = random.pick(&numbers).clone();
            let value = random.value(16);
            let value = if random.one_in(2) {
                format!("{value:#x}")
            } else {
                value.to_string()
            };
            drop(text.splice(number, value.into_bytes()));
        }
        7 => {
            let copy = text[tokens[random.below(tokens.len())].clone()].to_vec();
            drop(text.splice(tokens[one].clone(), copy));
        }
        _ => super::blindly(text, random),
    }
}

/// Runs of letters and digits, and all else byte by byte.
fn tokens(text: &[u8]) -> Vec<Range<usize>> {
    let is_word = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$') || byte >= 0x80
    };
    let mut tokens: Vec<Range<usize>> = Vec::new();
    let mut in_word = false;
    for (at, byte) in text.iter().enumerate() {
        match (byte, is_word(*byte)) {
            (byte, _) if byte.is_ascii_whitespace() => in_word = false,
            (_, true) if in_word => {
                if let Some(last) = tokens.last_mut() {
                    last.end = at + 1;
                }
            }
            (_, word) => {
                tokens.push(at..at + 1);
                in_word = word;
            }
        }
    }
    tokens
}
