//! Contents that follow from options and notes alone: the program interpreter,
//! `.note.gnu.property`, `.note.package`, and the kind of the build id.

use crate::args::{Args, BuildId, OutputKind, Report};
use crate::elf::build_id;
use crate::elf::note_property::{
    FEATURE_1_IBT as IBT, FEATURE_1_LAM_U48 as LAM_U48, FEATURE_1_LAM_U57 as LAM_U57,
    FEATURE_1_SHSTK as SHSTK, Forced, GNU_PROPERTY_X86_ISA_1_NEEDED as ISA_1_NEEDED,
    GNU_PROPERTY_X86_ISA_1_USED as ISA_1_USED, Merger, NEEDED_INDIRECT_EXTERN_ACCESS, Properties,
};
use crate::input::file::{File, Files};
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::SectionFacts;

/// The merged `.note.gnu.property`, and whether PLT entries must begin with `endbr64`.
pub fn properties(
    args: &Args,
    files: &Files,
    facts: &SectionFacts,
    diag: &Diagnostics,
) -> (Vec<u8>, bool) {
    let mut merger = Merger::default();
    for (file, sections) in &facts.properties {
        let object = files.object(*file);
        let mut own = Properties::default();
        for number in sections {
            match Properties::parse(object.section_bytes(*number)) {
                Ok(parsed) => own = parsed,
                Err(why) => diag.error(format!("{}: .note.gnu.property: {why}", files.get(*file))),
            }
        }
        report_missing(args, files.get(*file), &own, diag);
        merger.add(&own);
        missing_features(args, files.get(*file), own.feature_1(), diag);
        report_instruction_sets(args, files.get(*file), &own);
    }
    let z = &args.z;
    let forced = Forced {
        feature_1: if z.ibt { IBT } else { 0 } | if z.shstk { SHSTK } else { 0 } | z.lam,
        isa_1_needed: z.isa_needed,
        needed_1: match z.indirect_extern_access {
            Some(true) => NEEDED_INDIRECT_EXTERN_ACCESS,
            _ => 0,
        },
        memory_seal: z.memory_seal,
        stack_size: z.stack_size.unwrap_or(0),
    };
    let merged = merger.finish(forced);
    let ibt = args.z.ibtplt || merged.has_feature_1(IBT);
    (merged.to_section(), ibt)
}

/// `-z isa-level-report`: tells the instruction sets that an object needs, and those that it uses.
fn report_instruction_sets(args: &Args, file: &File, own: &Properties) {
    let levels = ["x86-64-baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4"];
    let (needed, used) = args.z.isa_level_report;
    for (wanted, number, what) in [(needed, ISA_1_NEEDED, "needed"), (used, ISA_1_USED, "used")] {
        let bits = own.get(number).unwrap_or(0) as u32;
        if !wanted || bits == 0 {
            continue;
        }
        let sets = (0..32).filter(|n| bits & 1 << n != 0).map(|n| {
            let unknown = || format!("<unknown: {:#x}>", 1u32 << n);
            levels
                .get(n)
                .map_or_else(unknown, |name| (*name).to_owned())
        });
        let names = sets.collect::<Vec<_>>().join(", ");
        crate::tell!("repo-ld: {file}: x86 ISA {what}: {names}");
    }
}

/// `-z force-ibt`, `-z lam-report`: says which objects do not have what the output shall have.
fn report_missing(args: &Args, file: &File, own: &Properties, diag: &Diagnostics) {
    let z = &args.z;
    let force_ibt = if z.force_ibt {
        Report::Warning
    } else {
        Report::None
    };
    for (option, level, feature, name) in [
        ("-z force-ibt", force_ibt, IBT, "IBT"),
        ("-z lam-u48-report", z.lam_u48_report, LAM_U48, "LAM_U48"),
        ("-z lam-u57-report", z.lam_u57_report, LAM_U57, "LAM_U57"),
    ] {
        if level == Report::None || own.has_feature_1(feature) {
            continue;
        }
        let text = format!(
            "{file}: {option}: file does not have GNU_PROPERTY_X86_FEATURE_1_{name} property"
        );
        match level {
            Report::Error => diag.error(text),
            _ => diag.warn(text),
        }
    }
}

/// `.interp`: the path of the run-time linker with its NUL; empty if the output has none.
pub fn interpreter(args: &Args, dynamic: bool) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let wanted = dynamic && matches!(args.kind, OutputKind::DynamicExec | OutputKind::Pie);
    if args.no_dynamic_linker
        || (!wanted && args.dynamic_linker.is_none())
        || args.kind.is_static()
        || !dynamic
    {
        return Vec::new();
    }
    if args.kind == OutputKind::Shared {
        return Vec::new();
    }
    let path = args
        .dynamic_linker
        .as_ref()
        .map_or(&b"/lib64/ld-linux-x86-64.so.2"[..], |path| {
            path.as_os_str().as_bytes()
        });
    [path, b"\0"].concat()
}

/// `.note.package` (systemd's "Package Metadata for Executable Files").
pub fn package_note(args: &Args) -> Vec<u8> {
    let Some(json) = &args.package_metadata else {
        return Vec::new();
    };
    let mut note = Vec::new();
    note.extend(4u32.to_le_bytes());
    note.extend((json.len() as u32 + 1).to_le_bytes());
    note.extend(0xcafe_1a7eu32.to_le_bytes());
    note.extend(b"FDO\0");
    note.extend(json);
    note.push(0);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

/// The kind of build id that was asked for.
pub fn build_id_style(args: &Args) -> Option<build_id::Style> {
    use build_id::{DigestLength, Style};
    match &args.build_id {
        BuildId::None => None,
        BuildId::Fast | BuildId::Sha1 => Some(Style::Digest(DigestLength::Bytes20)),
        BuildId::Md5 => Some(Style::Digest(DigestLength::Bytes16)),
        BuildId::Sha256 => Some(Style::Digest(DigestLength::Bytes32)),
        BuildId::Uuid => Some(Style::Uuid),
        BuildId::Hex(bytes) => Some(Style::Given(bytes.clone())),
    }
}

/// `-z cet-report`: an object does not say that its code supports indirect branch tracking or shadow stacks.
/// `features` are the bits of its `GNU_PROPERTY_X86_FEATURE_1_AND`.
fn missing_features(args: &Args, file: &dyn std::fmt::Display, features: u32, diag: &Diagnostics) {
    use crate::elf::note_property::{FEATURE_1_IBT, FEATURE_1_SHSTK};
    // What an option says of all code need not be said by each file.
    let features = features
        | if args.z.ibt { FEATURE_1_IBT } else { 0 }
        | if args.z.shstk { FEATURE_1_SHSTK } else { 0 };
    let missing = match (features & FEATURE_1_IBT, features & FEATURE_1_SHSTK) {
        (0, 0) => "missing IBT and SHSTK properties",
        (0, _) => "missing IBT property",
        (_, 0) => "missing SHSTK property",
        _ => return,
    };
    // It is the final link's to say.
    if args.kind == OutputKind::Relocatable {
        return;
    }
    match args.z.cet_report {
        Report::None => {}
        Report::Warning => diag.warn(format!("{file}: {missing}")),
        Report::Error => diag.error(format!("{file}: {missing}")),
    }
}
