//! The default layout as a script: what `INSERT` inserts into, what `MEMORY` and `PHDRS` are about when no script has
//! `SECTIONS`, and what `--verbose` prints.
//!
//! It says in the script's language what [`crate::resolve::output_sections`] and [`crate::layout::program_headers`] do without one. Links without such
//! commands never see it.
//!
//! Builds print it, change it with `sed`, and give it back by `-T` (glibc does, to put sections of its own beside others). So it
//! has a line for each pattern, as GNU ld's scripts have.

use crate::args::{Args, OutputKind, SeparateCode};
use crate::input::library_search;
use std::fmt::Write as _;

/// Sections of one pattern each, up to the code.
const BEFORE_CODE: &[&str] = &[
    ".interp",
    ".note.gnu.property",
    ".note.gnu.build-id",
    ".note.package",
    ".note.ABI-tag",
    ".hash",
    ".gnu.hash",
    ".dynsym",
    ".dynstr",
    ".gnu.version",
    ".gnu.version_d",
    ".gnu.version_r",
];

/// Debugging information, as stabs and as DWARF has it: none of it is an orphan.
const NOT_LOADED: &[&str] = &[
    ".stab",
    ".stabstr",
    ".stab.excl",
    ".stab.exclstr",
    ".stab.index",
    ".stab.indexstr",
    ".gnu.build.attributes",
    ".debug_aranges",
    ".debug_pubnames",
    ".debug_info",
    ".debug_abbrev",
    ".debug_line",
    ".debug_frame",
    ".debug_str",
    ".debug_loc",
    ".debug_macinfo",
    ".debug_pubtypes",
    ".debug_ranges",
    ".debug_types",
    ".debug_addr",
    ".debug_line_str",
    ".debug_loclists",
    ".debug_macro",
    ".debug_names",
    ".debug_rnglists",
    ".debug_str_offsets",
    ".debug_sup",
    ".debug_gnu_pubnames",
    ".debug_gnu_pubtypes",
];

/// Lists of functions: first those with priorities, then the others; the old kind of list as well.
const LISTS: &[(&str, &str)] = &[(".init_array", ".ctors"), (".fini_array", ".dtors")];

/// What `--verbose` prints for an output of this kind: a whole script, which `-T` takes.
pub fn whole(args: &Args) -> String {
    let mut out = String::from("OUTPUT_FORMAT(\"elf64-x86-64\")\nOUTPUT_ARCH(i386:x86-64)\n");
    // A relocatable output starts nowhere unless that is asked for.
    if args.kind != OutputKind::Relocatable {
        out += "ENTRY(_start)\n";
    }
    for directory in library_search::DEFAULT_DIRECTORIES {
        // Writing to a string does not fail.
        let _ = writeln!(out, "SEARCH_DIR(\"={directory}\");");
    }
    out + &match args.kind {
        OutputKind::Relocatable => united(),
        _ => sections(args),
    }
}

/// The `SECTIONS` of a relocatable output: what has one name is united in the order in which the inputs have it, which is what
/// becomes of sections that no description takes.
fn united() -> String {
    "SECTIONS\n{\n  /* Sections of one name are united, in the order of the inputs. */\n}\n"
        .to_owned()
}

/// The `SECTIONS` of an output of this kind.
pub fn sections(args: &Args) -> String {
    let base = match args.kind {
        OutputKind::StaticExec | OutputKind::DynamicExec => "0x400000",
        _ => "0",
    };
    let page = "CONSTANT (MAXPAGESIZE)";
    let separate = match args.z.separate {
        SeparateCode::None => String::new(),
        SeparateCode::Code | SeparateCode::All => format!("  . = ALIGN({page});\n"),
    };
    // The next page in memory, at the same place in the file.
    let next_page = format!("ALIGN({page}) + (. & ({page} - 1))");
    let mut out = format!(
        "SECTIONS\n{{\n  \
           PROVIDE (__executable_start = SEGMENT_START(\"text-segment\", {base})); \
           . = SEGMENT_START(\"text-segment\", {base}) + SIZEOF_HEADERS;\n"
    );
    for name in BEFORE_CODE {
        let _ = writeln!(out, "  {name} : {{ *({name}) }}");
    }
    section(&mut out, ".rela.dyn", &["*(.rela.dyn)", "*(.rela.got)"]);
    out += "  .relr.dyn : { *(.relr.dyn) }\n";
    section(
        &mut out,
        ".rela.plt",
        &[
            "*(.rela.plt)",
            "PROVIDE_HIDDEN (__rela_iplt_start = .);",
            "*(.rela.iplt)",
            "PROVIDE_HIDDEN (__rela_iplt_end = .);",
        ],
    );
    out += &separate;
    out += "  .init : { KEEP (*(SORT_NONE(.init))) }\n  .plt : { *(.plt) *(.iplt) }\n  .plt.got : { *(.plt.got) }\n  \
            .plt.sec : { *(.plt.sec) }\n";
    section(
        &mut out,
        ".text",
        &[
            "*(.text.unlikely .text.*_unlikely .text.unlikely.*)",
            "*(.text.exit .text.exit.*)",
            "*(.text.startup .text.startup.*)",
            "*(.text.hot .text.hot.*)",
            "*(SORT(.text.sorted.*))",
            "*(.text .stub .text.* .gnu.linkonce.t.*)",
        ],
    );
    out += "  .fini : { KEEP (*(SORT_NONE(.fini))) }\n  \
            PROVIDE (__etext = .);\n  PROVIDE (_etext = .);\n  PROVIDE (etext = .);\n";
    out += &separate;
    let _ = writeln!(
        out,
        "  . = SEGMENT_START(\"rodata-segment\", {next_page});\n  \
           .rodata : {{ *(.rodata .rodata.* .rodata1 .gnu.linkonce.r.*) }}\n  \
           .eh_frame_hdr : {{ *(.eh_frame_hdr) }}\n  \
           .eh_frame : {{ KEEP (*(.eh_frame)) }}\n  \
           .sframe : {{ *(.sframe) }}\n  \
           .gcc_except_table : ONLY_IF_RO {{ *(.gcc_except_table .gcc_except_table.*) }}\n  \
           . = DATA_SEGMENT_ALIGN ({page}, CONSTANT (COMMONPAGESIZE));\n  \
           .gcc_except_table : ONLY_IF_RW {{ *(.gcc_except_table .gcc_except_table.*) }}\n  \
           .tdata : {{ *(.tdata .tdata.* .gnu.linkonce.td.*) }}\n  \
           .tbss : {{ *(.tbss .tbss.* .gnu.linkonce.tb.*) *(.tcommon) }}"
    );
    section(
        &mut out,
        ".preinit_array",
        &[
            "PROVIDE_HIDDEN (__preinit_array_start = .);",
            "KEEP (*(.preinit_array))",
            "PROVIDE_HIDDEN (__preinit_array_end = .);",
        ],
    );
    for (list, old) in LISTS {
        let name = &list[1..];
        section(
            &mut out,
            list,
            &[
                &format!("PROVIDE_HIDDEN (__{name}_start = .);"),
                &format!(
                    "KEEP (*(SORT_BY_INIT_PRIORITY({list}.*) SORT_BY_INIT_PRIORITY({old}.*)))"
                ),
                &format!("KEEP (*({list} EXCLUDE_FILE (*crtbegin*.o *crtend*.o) {old}))"),
                &format!("PROVIDE_HIDDEN (__{name}_end = .);"),
            ],
        );
    }
    out += "  .ctors : { KEEP (*(.ctors)) }\n  .dtors : { KEEP (*(.dtors)) }\n  .jcr : { KEEP (*(.jcr)) }\n";
    section(
        &mut out,
        ".data.rel.ro",
        &[
            "*(.data.rel.ro.local* .gnu.linkonce.d.rel.ro.local.*)",
            "*(.data.rel.ro .data.rel.ro.* .gnu.linkonce.d.rel.ro.*)",
        ],
    );
    out += "  .dynamic : { *(.dynamic) }\n";
    out += match args.z.now {
        true => {
            "  .got : { *(.got.plt) *(.igot.plt) *(.got) *(.igot) }\n  \
               . = DATA_SEGMENT_RELRO_END (0, .);\n"
        }
        false => {
            "  .got : { *(.got) *(.igot) }\n  \
               . = DATA_SEGMENT_RELRO_END (SIZEOF (.got.plt) >= 24 ? 24 : 0, .);\n  \
               .got.plt : { *(.got.plt) *(.igot.plt) }\n"
        }
    };
    out += "  .data : { *(.data .data.* .data1 .gnu.linkonce.d.*) }\n  \
            PROVIDE (_edata = .); PROVIDE (edata = .);\n  \
            . = .;\n  \
            PROVIDE (__bss_start = .);\n";
    section(
        &mut out,
        ".bss",
        &[
            "*(.dynbss)",
            "*(.bss .bss.* .gnu.linkonce.b.*)",
            "*(COMMON)",
        ],
    );
    section(
        &mut out,
        ".lbss",
        &["*(.lbss .lbss.* .gnu.linkonce.lb.*)", "*(LARGE_COMMON)"],
    );
    out += "  . = ALIGN(8);\n";
    for (name, suffix) in [(".lrodata", "lr"), (".ldata", "l")] {
        let _ = writeln!(
            out,
            "  {name} {next_page} : {{ *({name} {name}.* .gnu.linkonce.{suffix}.*) }}"
        );
    }
    out += "  . = ALIGN(8);\n  PROVIDE (_end = .); PROVIDE (end = .);\n  . = DATA_SEGMENT_END (.);\n  \
            .comment 0 : { *(.comment) }\n";
    for name in NOT_LOADED {
        let _ = writeln!(out, "  {name} 0 : {{ *({name}) }}");
    }
    out + "}\n"
}

/// Adds an output section with a line for each statement.
fn section(out: &mut String, name: &str, statements: &[&str]) {
    let _ = write!(out, "  {name} :\n  {{\n");
    for statement in statements {
        let _ = writeln!(out, "    {statement}");
    }
    *out += "  }\n";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{NoIncludes, parse};

    #[test]
    fn it_is_a_script() {
        for line in [
            "a.o",
            "-pie a.o",
            "-shared -z now a.o",
            "-static -z noseparate-code a.o",
            "-r a.o",
        ] {
            let words = line.split_whitespace().map(std::ffi::OsString::from);
            let args = Args::parse(words).unwrap();
            let script = parse(whole(&args).as_bytes(), "default", &mut NoIncludes);
            assert!(script.is_ok(), "{line}: {script:?}");
        }
    }
}
