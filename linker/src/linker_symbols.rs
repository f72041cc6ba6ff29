//! Symbols that the linker itself defines, if something refers to them and
//! nothing else defines them: those that GNU ld's built-in script `PROVIDE`s, the
//! bounds of sections whose names are C identifiers, and `--defsym`.

use crate::args::Args;
use crate::diag::Diagnostics;
use crate::ids::{FileId, OutputId, SymbolId};
use crate::output::{Outputs, Std};
use crate::symbols::{Key, SymbolTable, flag, rank};

/// What a linker-defined symbol stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Address of the ELF header.
    ImageStart,
    /// End of the code.
    EndOfText,
    /// End of the initialised data.
    EndOfData,
    /// Start of `.bss`.
    StartOfBss,
    /// End of the program.
    End,
    /// Start of a section.
    Start(OutputId),
    /// End of a section.
    Stop(OutputId),
    /// Base of the global offset table.
    GotBase,
    /// What offsets in the module's thread-local storage are relative to: its image's start; in an executable, where
    /// accesses are rewritten to use the thread pointer, what that points to.
    TlsBase {
        /// The output is an executable.
        executable: bool,
    },
    /// First `R_X86_64_IRELATIVE` relocation, in a static program.
    IrelativeStart,
    /// End of the `R_X86_64_IRELATIVE` relocations, in a static program.
    IrelativeEnd,
    /// A number (`--defsym`).
    Number(u64),
    /// Another symbol, plus a number (`--defsym`).
    Symbol(SymbolId, u64),
}

/// Names and meanings that do not depend on the inputs.
const FIXED: &[(&[u8], Meaning)] = &[
    (b"__ehdr_start", Meaning::ImageStart),
    (b"__executable_start", Meaning::ImageStart),
    (b"etext", Meaning::EndOfText),
    (b"_etext", Meaning::EndOfText),
    (b"__etext", Meaning::EndOfText),
    (b"edata", Meaning::EndOfData),
    (b"_edata", Meaning::EndOfData),
    (b"__bss_start", Meaning::StartOfBss),
    (b"end", Meaning::End),
    (b"_end", Meaning::End),
    (b"_DYNAMIC", Meaning::Start(Std::Dynamic.id())),
    (b"_GLOBAL_OFFSET_TABLE_", Meaning::GotBase),
    (b"__GNU_EH_FRAME_HDR", Meaning::Start(Std::EhFrameHdr.id())),
    (b"__rela_iplt_start", Meaning::IrelativeStart),
    (b"__rela_iplt_end", Meaning::IrelativeEnd),
    (
        b"__preinit_array_start",
        Meaning::Start(Std::PreinitArray.id()),
    ),
    (
        b"__preinit_array_end",
        Meaning::Stop(Std::PreinitArray.id()),
    ),
    (b"__init_array_start", Meaning::Start(Std::InitArray.id())),
    (b"__init_array_end", Meaning::Stop(Std::InitArray.id())),
    (b"__fini_array_start", Meaning::Start(Std::FiniArray.id())),
    (b"__fini_array_end", Meaning::Stop(Std::FiniArray.id())),
];

/// The linker-defined symbols of a link, with what they stand for.
pub type LinkerSymbols = Vec<(SymbolId, Meaning)>;

/// Defines what is referred to and not defined by an object.
pub fn define(
    symbols: &SymbolTable,
    outputs: &Outputs,
    args: &Args,
    dynamic: bool,
    diag: &Diagnostics,
) -> LinkerSymbols {
    let mut defined = LinkerSymbols::new();
    let mut provide = |id: SymbolId, meaning: Meaning, hidden: bool| {
        let key = symbols.key(id);
        let wanted = symbols.flags(id) & flag::REFERENCED != 0;
        if !wanted || key.in_object() || key.rank() == rank::LINKER {
            return;
        }
        symbols.set_key(
            id,
            Key::new(rank::LINKER, FileId::LINKER, defined.len() as u32),
        );
        symbols.remove_flags(id, flag::TLS | flag::FUNCTION);
        if matches!(meaning, Meaning::TlsBase { .. }) {
            symbols.add_flags(id, flag::TLS);
        }
        if hidden {
            symbols.add_flags(id, flag::HIDDEN);
        }
        defined.push((id, meaning));
    };
    for (name, meaning) in FIXED {
        // Without a dynamic section there is nothing that the name could mean.
        if *name == b"_DYNAMIC" && !dynamic {
            continue;
        }
        if let Some(id) = symbols.find(name) {
            provide(id, meaning.clone(), true);
        }
    }
    if let Some(id) = symbols.find(b"_TLS_MODULE_BASE_") {
        provide(
            id,
            Meaning::TlsBase {
                executable: args.kind.is_executable(),
            },
            true,
        );
    }
    for (i, section) in outputs.sections.iter().enumerate() {
        if !section.is_alloc() || !is_c_identifier(&section.name) {
            continue;
        }
        let output = OutputId(i as u16);
        for (prefix, meaning) in [
            (&b"__start_"[..], Meaning::Start(output)),
            (b"__stop_", Meaning::Stop(output)),
        ] {
            if let Some(id) = symbols.find(&[prefix, &section.name].concat()) {
                provide(id, meaning, false);
                symbols.add_flags(id, flag::PROTECTED);
            }
        }
    }
    for defsym in &args.defsyms {
        let Some(id) = symbols.find(&defsym.name) else {
            continue;
        };
        let Some(meaning) = expression(symbols, &defsym.expr) else {
            diag.error(format!(
                "--defsym {}={}: the expression is not supported",
                String::from_utf8_lossy(&defsym.name),
                String::from_utf8_lossy(&defsym.expr)
            ));
            continue;
        };
        if let Meaning::Number(_) = meaning {
            symbols.add_flags(id, flag::ABSOLUTE);
        }
        symbols.remove_flags(id, flag::TLS | flag::FUNCTION);
        symbols.set_key(
            id,
            Key::new(rank::LINKER, FileId::LINKER, defined.len() as u32),
        );
        defined.push((id, meaning));
    }
    defined
}

/// A number, a symbol, or a symbol plus or minus a number.
fn expression(symbols: &SymbolTable, text: &[u8]) -> Option<Meaning> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if let Some(number) = number(text) {
        return Some(Meaning::Number(number));
    }
    let split = text.find(['+', '-']);
    let (name, rest) = text.split_at(split.unwrap_or(text.len()));
    let offset = match rest.split_at_checked(1) {
        Some(("+", digits)) => number(digits.trim())?,
        Some(("-", digits)) => number(digits.trim())?.wrapping_neg(),
        _ => 0,
    };
    let id = symbols.find(name.trim().as_bytes())?;
    Some(Meaning::Symbol(id, offset))
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether `__start_NAME` is a name that C can say.
pub fn is_c_identifier(name: &[u8]) -> bool {
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    name.first().is_some_and(|b| !b.is_ascii_digit()) && name.iter().all(word)
}
