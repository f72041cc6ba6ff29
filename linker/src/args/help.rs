//! `--version`, `-V`, `--help` and other questions.

use std::fmt::Write;

use super::Args;
use super::options::{IGNORED, SPECS, Takes, Z_KEYWORDS};

/// The release of GNU ld whose options and scripts there are.
const AS_GNU_LD: &str = "2.40";

/// The line that `--version`, `-v` and `-V` begin with. It has the form of GNU ld's, as build systems take it apart and
/// must find what they would use of GNU ld:
///
/// - Linux's and glibc's want `GNU ld` at its beginning and a release at its end, and take no other linkers but lld;
/// - libtool looks for `GNU` in it, and takes a word that begins with `0.` or `1.` for a release that cannot do version
///   scripts: so there is no space before ours;
/// - autoconf and CMake look for "GNU ld" or "compatible with GNU ld", meson for `GNU`.
pub fn version() -> String {
    format!(
        "GNU ld (repo-ld/{}, compatible with GNU ld) {AS_GNU_LD}\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// What `-V` adds.
fn emulations() -> &'static str {
    "  Supported emulations:\n   elf_x86_64\n"
}

/// What the command line asks to be told ([`super::InfoRequests`]), for standard output. `program` is the name that the
/// program was called by, `layout` makes the text of the scripts that `--verbose` shows.
pub fn information(args: &Args, program: &str, layout: impl FnOnce() -> String) -> String {
    let mut out = String::new();
    if args.info.version || args.verbose {
        out.push_str(&version());
    }
    if args.info.emulations || args.verbose {
        out.push_str(emulations());
    }
    if args.info.help {
        out.push_str(&help(program));
    }
    if args.verbose {
        out.push_str(&layout());
    }
    if args.info.output_format {
        out.push_str("elf64-x86-64\n");
    }
    if args.info.sysroot
        && let Some(sysroot) = &args.sysroot
    {
        let _ = writeln!(out, "{}", sysroot.display());
    }
    out
}

/// The text of `--help`. `program` is the name that the program was called by.
pub fn help(program: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Usage: {program} [options] file...\n\n\
         Links objects, archives, shared objects, linker scripts and tickets of a program repository into an\n\
         executable, a shared object or a relocatable object. It takes the place of ld: compilers find it by\n\
         \"gcc -B DIR\" or \"clang --ld-path=FILE\". Long options are written with one dash or two, and with \"=\" or\n\
         a separate word for their value.\n\n\
         Examples:\n  \
           {program} -o prog crt1.o crti.o main.o -lc crtn.o      what a compiler driver writes\n  \
           {program} --print-timing -o prog …                     where the time goes\n  \
           {program} -y malloc -o prog …                          who mentions malloc, who defines it\n  \
           {program} --gc-sections --print-gc-sections -o prog …  what nothing reaches"
    );
    for (title, specs) in SPECS {
        let _ = writeln!(out, "\n{title}:");
        for spec in *specs {
            entry(&mut out, &spelling(spec.names, spec.takes), spec.help);
        }
    }
    out.push_str("\nKeywords of -z:\n");
    for keywords in Z_KEYWORDS {
        entry(&mut out, &keywords.spelled.join(", "), keywords.help);
    }
    let ignored: Vec<String> = IGNORED
        .iter()
        .flat_map(|option| option.names)
        .map(|name| dashed(name))
        .collect();
    let _ = writeln!(out, "\nAccepted, without effect:");
    wrap(&mut out, &ignored);
    // libtool greps for ": supported targets:.* elf".
    let _ = writeln!(
        out,
        "\n  @FILE                           read options from FILE\n\n\
         The manual: man repo-ld\n\n\
         {program}: supported targets: elf64-x86-64 binary\n\
         {program}: supported emulations: elf_x86_64"
    );
    out
}

/// Writes what is explained, and beside it or below it how.
fn entry(out: &mut String, left: &str, right: &str) {
    if left.chars().count() > 30 {
        let _ = writeln!(out, "  {left}\n{:34}{right}", "");
    } else {
        let _ = writeln!(out, "  {left:<31} {right}");
    }
}

fn dashed(name: &str) -> String {
    if name.len() == 1 {
        format!("-{name}")
    } else {
        format!("--{name}")
    }
}

fn spelling(names: &[&str], takes: Takes) -> String {
    let mut words: Vec<String> = names.iter().map(|name| dashed(name)).collect();
    if let Some(last) = words.last_mut() {
        match takes {
            Takes::Nothing => {}
            Takes::Value(what) => {
                last.push(' ');
                last.push_str(what);
            }
            Takes::Optional(what) => {
                let _ = write!(last, "[={what}]");
            }
        }
    }
    words.join(", ")
}

/// Writes words in lines of at most 100 characters.
fn wrap(out: &mut String, words: &[String]) {
    let mut line = String::from(" ");
    for word in words {
        if line.len() + word.len() > 99 {
            out.push_str(&line);
            out.push('\n');
            line = String::from(" ");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}
