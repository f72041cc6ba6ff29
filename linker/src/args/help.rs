//! `--version`, `-V`, `--help` and other questions.

use std::fmt::Write;

use super::Args;
use super::options::{IGNORED, SPECS, Takes};

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
/// program was called by.
pub fn information(args: &Args, program: &str) -> String {
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
        out.push_str(&crate::scripting::tell(args));
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
            let left = spelling(spec.names, spec.takes);
            if left.chars().count() > 30 {
                let _ = writeln!(out, "  {left}\n{:34}{}", "", spec.help);
            } else {
                let _ = writeln!(out, "  {left:<31} {}", spec.help);
            }
        }
    }
    out.push_str(KEYWORDS);
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
         {program}: supported targets: elf64-x86-64 binary\n\
         {program}: supported emulations: elf_x86_64"
    );
    out
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

const KEYWORDS: &str = "
Keywords of -z:
  now, lazy                       bind all symbols at start, or when first called (default)
  relro, norelro                  make what is constant after relocation read-only (default), or not
  defs, undefs                    unresolved symbols are errors, or not
  text, notext                    relocations in read-only segments are errors (default), or allowed
  execstack, noexecstack          whether the stack is executable (default: by the inputs)
  stack-size=N                    the size of the main thread's stack
  max-page-size=N, common-page-size=N
                                  page sizes to lay out for (default 4096)
  separate-code, noseparate-code, separate-loadable-segments
                                  which segments share no page (default separate-code)
  muldefs                         the first of several definitions wins
  pack-relative-relocs, nopack-relative-relocs
                                  pack relative relocations (DT_RELR), or not (default)
  origin, nodelete, nodlopen, nodump, nodefaultlib, initfirst, interpose, global, globalaudit, loadfltr, unique
                                  flags of the output for the dynamic linker
  ibt, shstk, ibtplt, cet-report=none|warning|error, x86-64-baseline, x86-64-v2, x86-64-v3, x86-64-v4
                                  properties of the output (GNU_PROPERTY_X86_*)
  start-stop-gc, nostart-stop-gc, start-stop-visibility=default|protected|hidden|internal
                                  how __start_SECTION and __stop_SECTION behave
  dynamic-undefined-weak, nodynamic-undefined-weak
                                  leave undefined weak symbols to the dynamic linker, or not
  copyreloc, nocopyreloc          allow copy relocations (default), or not
  combreloc, nocombreloc          sort dynamic relocations (default), or not
  isa-level-report=none|all|needed|used, mark-plt, memory-seal, keep-text-section-prefix,
  nosectionheader, rodynamic, unique-symbol, common, nocommon
";
