//! The `-z` keywords.

use super::{Report, SeparateCode, StartStopVisibility, TextRel, ZOptions, number};

/// `GNU_PROPERTY_X86_ISA_1_*` (x86-64 psABI, "Program Property").
const ISA_BASELINE: u32 = 1 << 0;
const ISA_V2: u32 = 1 << 1;
const ISA_V3: u32 = 1 << 2;
const ISA_V4: u32 = 1 << 3;

/// `GNU_PROPERTY_X86_FEATURE_1_LAM_*` (x86-64 psABI, "Program Property").
const LAM_U48: u32 = 1 << 2;
const LAM_U57: u32 = 1 << 3;

impl Default for ZOptions {
    fn default() -> Self {
        ZOptions {
            now: false,
            relro: true,
            text: TextRel::Warn,
            execstack: None,
            execstack_if_needed: false,
            gnu_stack: true,
            stack_size: None,
            max_page_size: None,
            common_page_size: None,
            separate: SeparateCode::Code,
            origin: false,
            nodelete: false,
            nodlopen: false,
            nodump: false,
            nodefaultlib: false,
            initfirst: false,
            interpose: false,
            global: false,
            globalaudit: false,
            loadfltr: false,
            unique: false,
            combreloc: true,
            copyreloc: true,
            ibt: false,
            ibtplt: false,
            shstk: false,
            force_ibt: false,
            lam: 0,
            cet_report: Report::None,
            lam_u48_report: Report::None,
            lam_u57_report: Report::None,
            rewrite_endbr: false,
            isa_needed: 0,
            start_stop_gc: false,
            start_stop_visibility: StartStopVisibility::Protected,
            dynamic_undefined_weak: None,
            extern_protected_data: false,
            indirect_extern_access: None,
            keep_text_section_prefix: false,
            section_header: true,
            rodynamic: false,
            dead_relocs: Vec::new(),
            unique_symbol: false,
            reloc_overflow_check: true,
            report_relative_reloc: false,
            isa_level_report: (false, false),
            mark_plt: false,
            memory_seal: false,
        }
    }
}

/// What came of a keyword.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is in [`ZOptions`].
    Set,
    /// It is kept elsewhere in `Args`.
    Elsewhere(Elsewhere),
    /// Known, and without effect here.
    Ignored,
    /// Known, changes the output, and is not implemented.
    Unsupported(&'static str),
    /// Nobody knows it.
    Unknown,
    /// Its value is bad: what was expected.
    BadValue(&'static str),
}

/// Keywords that are other options by another name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// `defs`.
    Defs,
    /// `undefs`.
    Undefs,
    /// `muldefs`.
    Muldefs,
    /// `common`/`nocommon`.
    SttCommon(bool),
    /// `pack-relative-relocs`.
    PackRelative(bool),
}

/// Obeys one keyword.
pub(super) fn apply(z: &mut ZOptions, keyword: &str) -> Outcome {
    let (name, value) = match keyword.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (keyword, None),
    };
    match value {
        Some(value) => apply_valued(z, name, value),
        None => apply_plain(z, name),
    }
}

fn apply_valued(z: &mut ZOptions, name: &str, value: &str) -> Outcome {
    let number = || number::parse(value.as_bytes());
    match name {
        "stack-size" => match number() {
            Some(size) => z.stack_size = Some(size),
            None => return Outcome::BadValue("a number of bytes"),
        },
        "max-page-size" | "common-page-size" => {
            match number().filter(|size| size.is_power_of_two() && *size <= 1 << 30) {
                Some(size) if name == "max-page-size" => z.max_page_size = Some(size),
                Some(size) => z.common_page_size = Some(size),
                None => return Outcome::BadValue("a power of two up to 1 GiB"),
            }
        }
        "cet-report" => match report(value) {
            Some(level) => z.cet_report = level,
            None => return Outcome::BadValue("none, warning or error"),
        },
        "lam-u48-report" | "lam-u57-report" | "lam-report" => {
            let Some(level) = report(value) else {
                return Outcome::BadValue("none, warning or error");
            };
            if name != "lam-u57-report" {
                z.lam_u48_report = level;
            }
            if name != "lam-u48-report" {
                z.lam_u57_report = level;
            }
        }
        "isa-level-report" => {
            z.isa_level_report = match value {
                "none" => (false, false),
                "all" => (true, true),
                "needed" => (true, false),
                "used" => (false, true),
                _ => return Outcome::BadValue("none, all, needed or used"),
            }
        }
        "start-stop-visibility" => {
            z.start_stop_visibility = match value {
                "default" => StartStopVisibility::Default,
                "protected" => StartStopVisibility::Protected,
                "hidden" => StartStopVisibility::Hidden,
                "internal" => StartStopVisibility::Internal,
                _ => return Outcome::BadValue("default, protected, hidden or internal"),
            }
        }
        "call-nop" => return Outcome::Ignored,
        "dead-reloc-in-nonalloc" => {
            let pair = value
                .rsplit_once('=')
                .and_then(|(pattern, value)| Some((pattern, number::parse(value.as_bytes())?)));
            match pair {
                Some((pattern, value)) => z.dead_relocs.push((pattern.into(), value)),
                None => return Outcome::BadValue("PATTERN=NUMBER"),
            }
        }
        _ => return Outcome::Unknown,
    }
    Outcome::Set
}

fn report(value: &str) -> Option<Report> {
    match value {
        "none" => Some(Report::None),
        "warning" => Some(Report::Warning),
        "error" => Some(Report::Error),
        _ => None,
    }
}

fn apply_plain(z: &mut ZOptions, name: &str) -> Outcome {
    match name {
        "now" => z.now = true,
        "lazy" => z.now = false,
        "relro" => z.relro = true,
        "norelro" => z.relro = false,
        "text" => z.text = TextRel::Error,
        "notext" | "textoff" => z.text = TextRel::Allow,
        "execstack" => z.execstack = Some(true),
        "noexecstack" => z.execstack = Some(false),
        "execstack-if-needed" => z.execstack_if_needed = true,
        "separate-code" => z.separate = SeparateCode::Code,
        "noseparate-code" => z.separate = SeparateCode::None,
        "separate-loadable-segments" => z.separate = SeparateCode::All,
        "origin" => z.origin = true,
        "nodelete" => z.nodelete = true,
        "nodlopen" => z.nodlopen = true,
        "nodump" => z.nodump = true,
        "nodefaultlib" => z.nodefaultlib = true,
        "initfirst" => z.initfirst = true,
        "interpose" => z.interpose = true,
        "global" => z.global = true,
        "globalaudit" => z.globalaudit = true,
        "loadfltr" => z.loadfltr = true,
        "unique" => z.unique = true,
        "nounique" => z.unique = false,
        "combreloc" => z.combreloc = true,
        "nocombreloc" => z.combreloc = false,
        "copyreloc" => z.copyreloc = true,
        "nocopyreloc" => z.copyreloc = false,
        "ibt" => (z.ibt, z.ibtplt) = (true, true),
        "force-ibt" => (z.ibt, z.ibtplt, z.force_ibt) = (true, true, true),
        "ibtplt" => z.ibtplt = true,
        "shstk" => z.shstk = true,
        "rewrite-endbr" => z.rewrite_endbr = true,
        "norewrite-endbr" => z.rewrite_endbr = false,
        "x86-64-baseline" => z.isa_needed |= ISA_BASELINE,
        "x86-64-v2" => z.isa_needed |= ISA_V2,
        "x86-64-v3" => z.isa_needed |= ISA_V3,
        "x86-64-v4" => z.isa_needed |= ISA_V4,
        "start-stop-gc" => z.start_stop_gc = true,
        "nostart-stop-gc" => z.start_stop_gc = false,
        "dynamic-undefined-weak" => z.dynamic_undefined_weak = Some(true),
        "nodynamic-undefined-weak" => z.dynamic_undefined_weak = Some(false),
        "extern-protected-data" => z.extern_protected_data = true,
        "noextern-protected-data" => z.extern_protected_data = false,
        "indirect-extern-access" => z.indirect_extern_access = Some(true),
        "noindirect-extern-access" => z.indirect_extern_access = Some(false),
        "keep-text-section-prefix" => z.keep_text_section_prefix = true,
        "nokeep-text-section-prefix" => z.keep_text_section_prefix = false,
        "sectionheader" => z.section_header = true,
        "nosectionheader" => z.section_header = false,
        "mark-plt" => z.mark_plt = true,
        "nomark-plt" => z.mark_plt = false,
        "memory-seal" => z.memory_seal = true,
        "nomemory-seal" => z.memory_seal = false,
        "rodynamic" => z.rodynamic = true,
        "unique-symbol" => z.unique_symbol = true,
        "nounique-symbol" => z.unique_symbol = false,
        "noreloc-overflow" => z.reloc_overflow_check = false,
        "report-relative-reloc" => z.report_relative_reloc = true,
        "defs" => return Outcome::Elsewhere(Elsewhere::Defs),
        "undefs" => return Outcome::Elsewhere(Elsewhere::Undefs),
        "muldefs" => return Outcome::Elsewhere(Elsewhere::Muldefs),
        "common" => return Outcome::Elsewhere(Elsewhere::SttCommon(true)),
        "nocommon" => return Outcome::Elsewhere(Elsewhere::SttCommon(false)),
        "pack-relative-relocs" => return Outcome::Elsewhere(Elsewhere::PackRelative(true)),
        "nopack-relative-relocs" => return Outcome::Elsewhere(Elsewhere::PackRelative(false)),
        // Addresses that may be masked to 48 bits may be masked to 57 as well.
        "lam-u48" => z.lam |= LAM_U48 | LAM_U57,
        "lam-u57" => z.lam |= LAM_U57,
        "gnustack" => z.gnu_stack = true,
        "nognustack" => z.gnu_stack = false,
        "hazardplt" | "retpolineplt" => {
            return Outcome::Unsupported("another form of PLT entries");
        }
        // Known, without effect: hints of other linkers, and what is always so here.
        "ifunc-noplt" => return Outcome::Ignored,
        _ => return Outcome::Unknown,
    }
    Outcome::Set
}
