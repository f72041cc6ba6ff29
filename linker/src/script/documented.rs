//! The commands and functions that GNU ld's manual documents for linker scripts, each with what is done about it, for the
//! table in the documentation. A test reads each of them, as the samples show it.

/// What is documented, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub struct Documented {
    /// Its name.
    pub name: &'static str,
    /// A script with it.
    pub sample: &'static str,
    /// Whether it does what the manual says.
    pub obeyed: bool,
    /// What there is to say.
    pub remark: &'static str,
}

macro_rules! documented {
    ($($name:literal $sample:literal $obeyed:literal $remark:literal;)*) => {
        /// Everything that the manual documents, in its order.
        pub const DOCUMENTED: &[Documented] = &[
            $(Documented { name: $name, sample: $sample, obeyed: $obeyed, remark: $remark },)*
        ];
    };
}

documented! {
    "ENTRY" "ENTRY(main)" true "the command line comes first";
    "INCLUDE" "" true "up to ten deep, at the top level, in SECTIONS, in output sections and in MEMORY";
    "INPUT" "INPUT(a.o -lm)" true "";
    "GROUP" "GROUP(libc.a AS_NEEDED(libm.so))" true "";
    "AS_NEEDED" "INPUT(AS_NEEDED(libm.so))" true "";
    "OUTPUT" "OUTPUT(program)" true "the command line comes first";
    "SEARCH_DIR" "SEARCH_DIR(/usr/lib)" true "";
    "STARTUP" "STARTUP(crt0.o)" true "";
    "OUTPUT_FORMAT" "OUTPUT_FORMAT(a, b, c)" true "elf64-x86-64 or binary; others are errors; -EB and -EL choose among three";
    "TARGET" "TARGET(binary)" true "as OUTPUT_FORMAT, for inputs that follow";
    "REGION_ALIAS" "REGION_ALIAS(\"RAM\", ram)" true "";
    "ASSERT" "ASSERT(1, \"never\")" true "";
    "EXTERN" "EXTERN(f)" true "";
    "FORCE_COMMON_ALLOCATION" "FORCE_COMMON_ALLOCATION" true "";
    "INHIBIT_COMMON_ALLOCATION" "INHIBIT_COMMON_ALLOCATION" false "read, and without effect: common blocks of a linked file always have addresses";
    "FORCE_GROUP_ALLOCATION" "FORCE_GROUP_ALLOCATION" true "";
    "INSERT" "SECTIONS { .a : { *(.a) } } INSERT AFTER .text;" true "";
    "NOCROSSREFS" "NOCROSSREFS(.a .b)" true "";
    "NOCROSSREFS_TO" "NOCROSSREFS_TO(.a .b)" true "";
    "OUTPUT_ARCH" "OUTPUT_ARCH(i386:x86-64)" true "others are errors";
    "LD_FEATURE" "LD_FEATURE(\"SANE_EXPR\")" true "";
    "VERSION" "VERSION { V1 { global: f; local: *; }; }" true "";
    "assignments" "a = 1; a += 2; a <<= 1; a ^= 3;" true "all operators";
    "HIDDEN" "HIDDEN(a = 1);" true "";
    "PROVIDE" "PROVIDE(a = 1);" true "";
    "PROVIDE_HIDDEN" "PROVIDE_HIDDEN(a = 1);" true "";
    "SECTIONS" "SECTIONS { . = 0x1000; .text : { *(.text) } }" true "with -r, what says where something is in memory (addresses that are not numbers, AT, SUBALIGN, regions, segments, fills) is an error: such a file has no addresses, and who links it would not know of them";
    "input section patterns" "SECTIONS { .a : { a.o(.text) lib.a:b.o(.a .b) *(EXCLUDE_FILE(*x.o) .c) } }" true "";
    "SORT and its like" "SECTIONS { .a : { *(SORT_BY_NAME(.a.*)) *(SORT_BY_ALIGNMENT(.b)) *(SORT_BY_INIT_PRIORITY(.c.*)) *(SORT_NONE(.d)) } }" true "nested ones, too";
    "REVERSE" "SECTIONS { .a : { *(REVERSE(.a.*)) } }" true "";
    "INPUT_SECTION_FLAGS" "SECTIONS { .a : { INPUT_SECTION_FLAGS(SHF_MERGE & !SHF_WRITE) *(.a) } }" true "";
    "COMMON" "SECTIONS { .bss : { *(.bss) *(COMMON) } }" true "LARGE_COMMON as well";
    "KEEP" "SECTIONS { .a : { KEEP(*(.a)) } }" true "";
    "BYTE and its like" "SECTIONS { .a : { BYTE(1) SHORT(2) LONG(3) QUAD(4) SQUAD(5) ASCIZ \"text\" } }" true "LINKER_VERSION puts in nothing, as without --enable-linker-version";
    "FILL" "SECTIONS { .a : { FILL(0x9090) *(.a) } =0x90 }" true "patterns of any length";
    "CONSTRUCTORS" "SECTIONS { .a : { CONSTRUCTORS } }" true "ELF has none";
    "/DISCARD/" "SECTIONS { /DISCARD/ : { *(.a) } }" true "";
    "output section types" "SECTIONS { .a (NOLOAD) : { *(.a) } .b (TYPE=SHT_NOTE) : { *(.b) } .c (READONLY) : { *(.c) } }" true "";
    "AT, ALIGN, SUBALIGN" "SECTIONS { .a 0x1000 : AT(0x2000) ALIGN(16) SUBALIGN(4) { *(.a) } }" true "";
    "ALIGN_WITH_INPUT" "SECTIONS { .a : AT(0) ALIGN_WITH_INPUT { *(.a) } }" true "";
    "ONLY_IF_RO, ONLY_IF_RW" "SECTIONS { .a : ONLY_IF_RO { *(.a) } .a : ONLY_IF_RW { *(.a) } }" true "";
    "regions and segments of sections" "SECTIONS { .a : { *(.a) } >ram AT>rom :text :NONE =0 }" true "";
    "OVERLAY" "SECTIONS { OVERLAY 0x1000 : NOCROSSREFS AT (0x4000) { .a { *(.a) } .b { *(.b) } } }" true "";
    "MEMORY" "MEMORY { ram (rwx!i) : ORIGIN = 0x1000, LENGTH = 64K }" true "of two regions of one name the last counts, with a warning";
    "PHDRS" "PHDRS { text PT_LOAD FILEHDR PHDRS AT(0) FLAGS(5); }" true "headers are loaded before all sections or not at all";
    "ABSOLUTE" "a = ABSOLUTE(1);" true "";
    "ADDR, LOADADDR" "a = ADDR(.text) + LOADADDR(.text);" true "";
    "ALIGN" "a = ALIGN(8) + ALIGN(5, 8);" true "BLOCK as well";
    "ALIGNOF, SIZEOF" "a = ALIGNOF(.text) + SIZEOF(.text);" true "";
    "CONSTANT" "a = CONSTANT(MAXPAGESIZE) + CONSTANT(COMMONPAGESIZE);" true "";
    "DATA_SEGMENT_ALIGN and its like" "a = DATA_SEGMENT_ALIGN(1, 2); b = DATA_SEGMENT_RELRO_END(0, 1); c = DATA_SEGMENT_END(1);" true "";
    "DEFINED" "a = DEFINED(f) ? f : 0;" true "";
    "LENGTH, ORIGIN" "a = LENGTH(ram) + ORIGIN(ram);" true "";
    "LOG2CEIL" "a = LOG2CEIL(5);" true "";
    "MAX, MIN" "a = MAX(1, MIN(2, 3));" true "";
    "NEXT" "a = NEXT(8);" true "";
    "SEGMENT_START" "a = SEGMENT_START(\"text-segment\", 0x1000);" true "";
    "SIZEOF_HEADERS" "a = SIZEOF_HEADERS;" true "";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{NoIncludes, parse};

    #[test]
    fn each_is_read() {
        for documented in DOCUMENTED {
            let read = parse(documented.sample.as_bytes(), "sample", &mut NoIncludes);
            assert!(read.is_ok(), "{}: {read:?}", documented.name);
        }
    }
}
