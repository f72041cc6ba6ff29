//! The default layout as a script: what `INSERT` inserts into, and what `MEMORY` and `PHDRS` are about when no script
//! has `SECTIONS`.
//!
//! It says in the script's language what [`crate::output`] and [`crate::segments`] do without one. Links without such
//! commands never see it.

use crate::args::{Args, OutputKind, SeparateCode};

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

/// Lists of functions: first those with priorities, then the others; the old kind of list as well.
const LISTS: &[(&str, &str)] = &[(".init_array", ".ctors"), (".fini_array", ".dtors")];

/// The script for an output of this kind.
pub fn text(args: &Args) -> String {
    let base = match args.kind {
        OutputKind::StaticExec | OutputKind::DynamicExec => "0x400000",
        _ => "0",
    };
    let page = "CONSTANT(MAXPAGESIZE)";
    let separate = match args.z.separate {
        SeparateCode::None => String::new(),
        SeparateCode::Code | SeparateCode::All => format!(". = ALIGN({page});\n"),
    };
    // The next page in memory, at the same place in the file.
    let next_page = format!("ALIGN({page}) + (. & ({page} - 1))");
    let mut out = format!(
        "SECTIONS {{\n\
         PROVIDE(__executable_start = SEGMENT_START(\"text-segment\", {base}));\n\
         . = SEGMENT_START(\"text-segment\", {base}) + SIZEOF_HEADERS;\n"
    );
    for name in BEFORE_CODE {
        out += &format!("{name} : {{ *({name}) }}\n");
    }
    out += ".rela.dyn : { *(.rela.dyn .rela.got) }\n.relr.dyn : { *(.relr.dyn) }\n\
            .rela.plt : { *(.rela.plt) PROVIDE_HIDDEN(__rela_iplt_start = .); *(.rela.iplt) \
            PROVIDE_HIDDEN(__rela_iplt_end = .); }\n";
    out += &separate;
    out += ".init : { KEEP(*(SORT_NONE(.init))) }\n\
            .plt : { *(.plt .iplt) }\n.plt.got : { *(.plt.got) }\n.plt.sec : { *(.plt.sec) }\n\
            .text : {\n\
            *(.text.unlikely .text.*_unlikely .text.unlikely.*)\n\
            *(.text.exit .text.exit.*)\n*(.text.startup .text.startup.*)\n*(.text.hot .text.hot.*)\n\
            *(SORT(.text.sorted.*))\n*(.text .stub .text.* .gnu.linkonce.t.*)\n}\n\
            .fini : { KEEP(*(SORT_NONE(.fini))) }\n\
            PROVIDE(__etext = .); PROVIDE(_etext = .); PROVIDE(etext = .);\n";
    out += &separate;
    out += &format!(". = SEGMENT_START(\"rodata-segment\", {next_page});\n");
    out += ".rodata : { *(.rodata .rodata.* .rodata1 .gnu.linkonce.r.*) }\n\
            .eh_frame_hdr : { *(.eh_frame_hdr) }\n\
            .eh_frame : { KEEP(*(.eh_frame)) }\n\
            .gcc_except_table : ONLY_IF_RO { *(.gcc_except_table .gcc_except_table.*) }\n";
    out += &format!(". = DATA_SEGMENT_ALIGN({page}, CONSTANT(COMMONPAGESIZE));\n");
    out += ".gcc_except_table : ONLY_IF_RW { *(.gcc_except_table .gcc_except_table.*) }\n\
            .tdata : { *(.tdata .tdata.* .gnu.linkonce.td.*) }\n\
            .tbss : { *(.tbss .tbss.* .gnu.linkonce.tb.*) *(.tcommon) }\n\
            .preinit_array : { PROVIDE_HIDDEN(__preinit_array_start = .); KEEP(*(.preinit_array)) \
            PROVIDE_HIDDEN(__preinit_array_end = .); }\n";
    for (list, old) in LISTS {
        let name = &list[1..];
        out += &format!(
            "{list} : {{ PROVIDE_HIDDEN(__{name}_start = .);\n\
             KEEP(*(SORT_BY_INIT_PRIORITY({list}.*) SORT_BY_INIT_PRIORITY({old}.*)))\n\
             KEEP(*({list} EXCLUDE_FILE(*crtbegin*.o *crtend*.o) {old}))\n\
             PROVIDE_HIDDEN(__{name}_end = .); }}\n"
        );
    }
    out += ".ctors : { KEEP(*(.ctors)) }\n.dtors : { KEEP(*(.dtors)) }\n.jcr : { KEEP(*(.jcr)) }\n\
            .data.rel.ro : { *(.data.rel.ro.local* .gnu.linkonce.d.rel.ro.local.*) \
            *(.data.rel.ro .data.rel.ro.* .gnu.linkonce.d.rel.ro.*) }\n\
            .dynamic : { *(.dynamic) }\n";
    out += match args.z.now {
        true => {
            ".got : { *(.got.plt .igot.plt) *(.got .igot) }\n. = DATA_SEGMENT_RELRO_END(0, .);\n"
        }
        false => {
            ".got : { *(.got .igot) }\n\
             . = DATA_SEGMENT_RELRO_END(SIZEOF(.got.plt) >= 24 ? 24 : 0, .);\n\
             .got.plt : { *(.got.plt .igot.plt) }\n"
        }
    };
    out += ".data : { *(.data .data.* .data1 .gnu.linkonce.d.*) }\n\
            PROVIDE(_edata = .); PROVIDE(edata = .);\n\
            . = .;\n\
            PROVIDE(__bss_start = .);\n\
            .bss : { *(.dynbss) *(.bss .bss.* .gnu.linkonce.b.*) *(COMMON) }\n\
            .lbss : { *(.lbss .lbss.* .gnu.linkonce.lb.*) *(LARGE_COMMON) }\n\
            . = ALIGN(8);\n";
    for (name, suffix) in [(".lrodata", "lr"), (".ldata", "l")] {
        out += &format!("{name} {next_page} : {{ *({name} {name}.* .gnu.linkonce.{suffix}.*) }}\n");
    }
    out += ". = ALIGN(8);\nPROVIDE(_end = .); PROVIDE(end = .);\n. = DATA_SEGMENT_END(.);\n\
            .comment 0 : { *(.comment) }\n}\n";
    out
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
        ] {
            let words = line.split_whitespace().map(std::ffi::OsString::from);
            let args = Args::parse(words).unwrap();
            let script = parse(text(&args).as_bytes(), "default", &mut NoIncludes);
            assert!(script.is_ok(), "{line}: {script:?}");
        }
    }
}
