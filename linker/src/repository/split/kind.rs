//! What a section is for.

use super::elf::Section;
use format_spec::fragment::SectionKind;
use object::elf;

/// What a section is for, whose name begins with `base`.
pub fn kind(section: &Section<'_>, base: &[u8]) -> SectionKind {
    let flags = section.flags();
    let has = |flag: u32| flags & u64::from(flag) != 0;
    let nobits = section.sh_type() == elf::SHT_NOBITS;
    match section.sh_type() {
        elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY | elf::SHT_PREINIT_ARRAY => {
            return SectionKind::InitArray;
        }
        elf::SHT_NOTE => return SectionKind::Other,
        _ => {}
    }
    if !has(elf::SHF_ALLOC) {
        return if section.name.starts_with(b".debug_") {
            SectionKind::Debug
        } else {
            SectionKind::Other
        };
    }
    match base {
        b".eh_frame" if !nobits => SectionKind::Unwind,
        b".gcc_except_table" => SectionKind::ExceptionTable,
        b".ctors" | b".dtors" => SectionKind::InitArray,
        _ if section.name.starts_with(b".ctors.") || section.name.starts_with(b".dtors.") => {
            SectionKind::InitArray
        }
        _ if has(elf::SHF_TLS) && nobits => SectionKind::ThreadBss,
        _ if has(elf::SHF_TLS) => SectionKind::ThreadData,
        _ if has(elf::SHF_EXECINSTR) => SectionKind::Text,
        _ if nobits => SectionKind::Bss,
        _ if has(elf::SHF_WRITE) => SectionKind::Data,
        _ => SectionKind::ReadOnly,
    }
}
