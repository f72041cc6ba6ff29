//! Symbols that the linker itself defines, if something refers to them and
//! nothing else defines them: those that GNU ld's built-in script `PROVIDE`s, the
//! bounds of sections whose names are C identifiers.

use crate::args::{Args, OutputKind, StartStopVisibility};
use crate::base::ids::{FileId, OutputId, SymbolId};
use crate::base::key::{Key, rank};
use crate::resolve::output_sections::{Outputs, Std};
use crate::resolve::symbol_facts::{Defined, Referred, SymbolFacts};
use crate::resolve::symbol_table::SymbolTable;

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
    /// What a script assigns to this slot ([`Assignments`](crate::layout::scripting::Assignments)).
    Assigned(u32),
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
    (DYNAMIC, Meaning::Start(Std::Dynamic.id())),
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

/// The bounds that GNU ld's built-in script defines even if nothing refers to them.
const ALWAYS: [&[u8]; 3] = [b"_edata", b"__bss_start", b"_end"];

/// What an executable exports although nothing refers to it: with `--export-dynamic` modules may ask for the program's
/// bounds at run time (dlsym), as with GNU ld.
pub fn exported(args: &Args) -> &'static [&'static [u8]] {
    if args.export_dynamic && args.kind.is_executable() {
        &ALWAYS
    } else {
        &[]
    }
}

/// What the symbol table of an output with a dynamic section names whether or not anything refers to it, as GNU ld and lld
/// have it: debuggers and tools that look at images of memory find the dynamic section by it.
pub fn always_named(args: &Args) -> Option<&'static [u8]> {
    match args.kind {
        OutputKind::StaticExec | OutputKind::Relocatable => None,
        OutputKind::DynamicExec | OutputKind::Pie | OutputKind::StaticPie | OutputKind::Shared => {
            Some(DYNAMIC)
        }
    }
}

/// Whether others see the symbol, as with GNU ld and lld: the bounds of a program are those that its libraries mean, too. A
/// shared object keeps its own to itself.
fn is_public(name: &[u8], meaning: &Meaning, args: &Args) -> bool {
    let is_bound = match meaning {
        Meaning::EndOfText | Meaning::EndOfData | Meaning::StartOfBss | Meaning::End => true,
        _ => name == b"__executable_start",
    };
    is_bound && args.kind.is_executable()
}

/// The start of the dynamic section.
const DYNAMIC: &[u8] = b"_DYNAMIC";

/// What shared objects have to do with a symbol.
const BY_SHARED: SymbolFacts = SymbolFacts::BY_SHARED.and(Referred::PLAINLY_BY_SHARED.facts());

/// The linker-defined symbols of a link, with what they stand for.
pub type LinkerSymbols = Vec<(SymbolId, Meaning)>;

/// Defines what is referred to and defined neither by an object nor, in `defined`, by a script.
pub fn define(
    symbols: &SymbolTable,
    outputs: &Outputs,
    args: &Args,
    dynamic: bool,
    mut defined: LinkerSymbols,
) -> LinkerSymbols {
    let mut provide = |id: SymbolId, meaning: Meaning, hidden: bool| {
        let key = symbols.key(id);
        let exported = dynamic && exported(args).contains(&symbols.name(id));
        let bits = symbols.facts(id);
        // Shared objects that know the bounds of a section by name take those of the program.
        let is_shared = dynamic && args.kind.is_executable() && !hidden && bits.has(BY_SHARED);
        let always = dynamic && meaning == Meaning::Start(Std::Dynamic.id());
        let wanted = exported || is_shared || always || bits.has(Referred::BY_OBJECT);
        if !wanted || key.in_object() || key.rank() == rank::LINKER {
            return;
        }
        symbols.set_key(
            id,
            Key::new(rank::LINKER, FileId::LINKER, defined.len() as u32),
        );
        symbols.take_back(id, Defined::TLS | Defined::FUNCTION);
        if matches!(meaning, Meaning::TlsBase { .. }) {
            symbols.add(id, Defined::TLS);
        }
        if exported || is_shared || always {
            symbols.add(id, Referred::BY_OBJECT);
        }
        if !exported && !is_shared && hidden {
            symbols.add(id, Referred::HIDDEN);
        }
        defined.push((id, meaning));
    };
    for (name, meaning) in FIXED {
        // A linker script says what it wants itself.
        let with_scripts: &[&[u8]] = &[
            b"__ehdr_start",
            DYNAMIC,
            b"_GLOBAL_OFFSET_TABLE_",
            b"__GNU_EH_FRAME_HDR",
        ];
        if outputs.rules.is_some() && !with_scripts.contains(name) {
            continue;
        }
        // Without a dynamic section there is nothing that the name could mean.
        if *name == DYNAMIC && !dynamic {
            continue;
        }
        if let Some(id) = symbols.find(name) {
            provide(id, meaning.clone(), !is_public(name, meaning, args));
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
    let visibility = match args.z.start_stop_visibility {
        StartStopVisibility::Default => Referred::NONE,
        StartStopVisibility::Protected => Referred::PROTECTED,
        StartStopVisibility::Hidden => Referred::HIDDEN,
        StartStopVisibility::Internal => Referred::INTERNAL,
    };
    for (i, section) in outputs.sections.iter().enumerate() {
        if !section.is_alloc() || !is_c_identifier(&section.name) {
            continue;
        }
        let output = OutputId(i as u32);
        for (prefix, meaning) in [
            (&b"__start_"[..], Meaning::Start(output)),
            (b"__stop_", Meaning::Stop(output)),
        ] {
            if let Some(id) = symbols.find(&[prefix, &section.name].concat()) {
                provide(id, meaning, false);
                symbols.add(id, visibility);
            }
        }
    }
    defined
}

/// The name of the end of a section that GNU ld's built-in script defines.
pub fn end_of(std: Std) -> Option<&'static [u8]> {
    let is_it = |(_, meaning): &&(&[u8], Meaning)| *meaning == Meaning::Stop(std.id());
    FIXED.iter().find(is_it).map(|(name, _)| *name)
}

/// Whether GNU ld's built-in script defines a symbol of the name.
pub fn is_provided(name: &[u8]) -> bool {
    FIXED.iter().any(|(fixed, _)| *fixed == name)
}

/// Whether `__start_NAME` is a name that C can say.
pub fn is_c_identifier(name: &[u8]) -> bool {
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    name.first().is_some_and(|b| !b.is_ascii_digit()) && name.iter().all(word)
}
