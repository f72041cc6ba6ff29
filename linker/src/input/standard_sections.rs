//! The default layout as one table: which output sections there are, in which order they stand, what goes to each, and what
//! the linker itself makes of them.
//!
//! Everything that has to know is told by it. [`crate::resolve::output_sections`] makes the output sections and parts of links
//! without a script and finds the part of an input section's name; [`super::default_script`] says the same in the script's
//! language, as `--verbose` prints it; a script's layout learns which names the linker's own sections go by; and where
//! "orphans" stand, with a script or without, follows from [`Group`].
//!
//! The order and the patterns are those of GNU ld's built-in script. A row is an output section. What goes to it is a list of
//! *rules*, the patterns of one statement of the script; each has a *part* of the section, where its sections stand together.
//! Where segments begin is not said: that follows from the flags of the rows that stand side by side.

use crate::base::ids::{OutputId, PartId};
use crate::elf::c;
use crate::elf::shf;
use std::sync::LazyLock;

/// The names that a pattern takes.
#[derive(Clone, Copy, Debug)]
pub enum Pattern {
    /// This one.
    Is(&'static str),
    /// This one, and those that go on with a dot.
    Under(&'static str),
    /// Those that begin so.
    Starts(&'static str),
    /// Those that are or go on, with a dot, behind the first, and end with the second.
    Ends(&'static str, &'static str),
    /// Those of the first kind of constructor lists, but for what the compiler's own files have there.
    Old(&'static str),
}

impl Pattern {
    /// What all names have at their start.
    const fn stem(self) -> &'static str {
        match self {
            Pattern::Is(stem)
            | Pattern::Under(stem)
            | Pattern::Starts(stem)
            | Pattern::Ends(stem, _)
            | Pattern::Old(stem) => stem,
        }
    }

    fn takes(self, name: &[u8]) -> bool {
        let under = |stem: &str| {
            let rest = name.strip_prefix(stem.as_bytes());
            rest.is_some_and(|rest| rest.first().is_none_or(|next| *next == b'.'))
        };
        match self {
            Pattern::Is(stem) | Pattern::Old(stem) => name == stem.as_bytes(),
            Pattern::Under(stem) => under(stem),
            Pattern::Starts(stem) => name.starts_with(stem.as_bytes()),
            Pattern::Ends(stem, end) => {
                under(stem) && name.len() > stem.len() && name.ends_with(end.as_bytes())
            }
        }
    }
}

/// How the input sections of a part are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// As the files and the sections in them.
    Input,
    /// By name (`SORT`).
    Name,
    /// By the number at the end of the name (`SORT_BY_INIT_PRIORITY`).
    Priority,
    /// As the sections that they are about (`SHF_LINK_ORDER`).
    Linked,
}

/// What one statement of the script takes.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Where it goes.
    pub part: PartId,
    /// It stays whoever refers to it (`KEEP`).
    pub keep: bool,
    /// Options do not change the order (`SORT_NONE`): pieces of one function.
    pub verbatim: bool,
    /// Whose names.
    pub patterns: &'static [Pattern],
}

const fn rule(part: PartId, patterns: &'static [Pattern]) -> Rule {
    Rule {
        part,
        keep: false,
        verbatim: false,
        patterns,
    }
}

impl Rule {
    const fn keep(mut self) -> Rule {
        self.keep = true;
        self
    }
    const fn verbatim(mut self) -> Rule {
        self.verbatim = true;
        self
    }
}

/// What the linker makes.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// The names of input sections that a script's patterns know it by; the first that one of them takes counts.
    pub names: &'static [&'static str],
    /// Size of an entry, where it is a table.
    pub entsize: u64,
    /// A script may leave it out: nothing but the program's own wish is at stake.
    pub optional: bool,
    /// The kernel, the run-time linker or the start code of a static program reads it.
    pub read_at_start: bool,
    /// Inputs may bring their own, which go to the same section.
    pub shared: bool,
}

const fn made(names: &'static [&'static str], entsize: u64) -> Made {
    Made {
        names,
        entsize,
        optional: false,
        read_at_start: false,
        shared: false,
    }
}

impl Made {
    const fn optional(mut self) -> Made {
        self.optional = true;
        self
    }
    const fn read_at_start(mut self) -> Made {
        self.read_at_start = true;
        self
    }
    const fn shared(mut self) -> Made {
        self.shared = true;
        self
    }
}

/// An output section of the default layout.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// Read-only after relocation.
    pub relro: bool,
    /// What goes there.
    pub rules: &'static [Rule],
    /// What the linker puts there.
    pub made: Option<Made>,
    /// Others ask for its bounds, so that with a script the section of this name counts, whatever is in it.
    pub by_name: bool,
}

const fn row(name: &'static str, sh_type: u32, flags: u64) -> Row {
    Row {
        name,
        sh_type,
        flags,
        relro: false,
        rules: &[],
        made: None,
        by_name: false,
    }
}

impl Row {
    const fn relro(mut self) -> Row {
        self.relro = true;
        self
    }
    const fn takes(mut self, rules: &'static [Rule]) -> Row {
        self.rules = rules;
        self
    }
    const fn made(mut self, made: Made) -> Row {
        self.made = Some(made);
        self
    }
    const fn by_name(mut self) -> Row {
        self.by_name = true;
        self
    }
}

macro_rules! standard {
    ($($id:ident = $row:expr;)*) => {
        /// The output sections of GNU ld's built-in script, in its order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u16)]
        #[allow(missing_docs)]
        pub enum Std { $($id),* }

        /// Number of the standard sections: others follow them.
        pub const STANDARD_COUNT: u32 = [$(Std::$id),*].len() as u32;

        static ROWS: [Row; STANDARD_COUNT as usize] = [$($row),*];

        impl Std {
            /// All of them, in order.
            pub const ALL: &[Std] = &[$(Std::$id),*];
        }
    };
}

const A: u64 = shf::ALLOC;
const AW: u64 = shf::ALLOC | shf::WRITE;
const AX: u64 = shf::ALLOC | shf::EXEC;
const AWT: u64 = shf::ALLOC | shf::WRITE | shf::TLS;
const AL: u64 = shf::ALLOC | shf::LARGE;
const AWL: u64 = shf::ALLOC | shf::WRITE | shf::LARGE;

use Pattern::{Ends, Is, Old, Starts, Under};
use Std as S;

standard! {
    Interp = row(".interp", c::SHT_PROGBITS, A)
        .made(made(&[".interp"], 0).optional().read_at_start().shared());
    NoteProperty = row(".note.gnu.property", c::SHT_NOTE, A)
        .made(made(&[".note.gnu.property"], 0).optional());
    NoteBuildId = row(".note.gnu.build-id", c::SHT_NOTE, A)
        .made(made(&[".note.gnu.build-id"], 0).optional());
    NotePackage = row(".note.package", c::SHT_NOTE, A)
        .made(made(&[".note.package"], 0).optional());
    NoteAbiTag = row(".note.ABI-tag", c::SHT_NOTE, A)
        .takes(&[rule(S::NoteAbiTag.part(), &[Is(".note.ABI-tag")])]);
    Hash = row(".hash", c::SHT_HASH, A)
        .made(made(&[".hash"], 4).optional().read_at_start());
    GnuHash = row(".gnu.hash", c::SHT_GNU_HASH, A)
        .made(made(&[".gnu.hash"], 0).optional().read_at_start());
    DynSym = row(".dynsym", c::SHT_DYNSYM, A).made(made(&[".dynsym"], 24).read_at_start());
    DynStr = row(".dynstr", c::SHT_STRTAB, A).made(made(&[".dynstr"], 0).read_at_start());
    VerSym = row(".gnu.version", c::SHT_GNU_VERSYM, A)
        .made(made(&[".gnu.version"], 2).read_at_start());
    VerDef = row(".gnu.version_d", c::SHT_GNU_VERDEF, A)
        .made(made(&[".gnu.version_d"], 0).read_at_start());
    VerNeed = row(".gnu.version_r", c::SHT_GNU_VERNEED, A)
        .made(made(&[".gnu.version_r"], 0).read_at_start());
    // GNU ld has one input section for each section that relocations are about; scripts name some of them.
    RelaDyn = row(".rela.dyn", c::SHT_RELA, A)
        .made(made(&[".rela.dyn", ".rela.got", ".rela.data", ".rela.data.rel.ro", ".rela.text"], 24).read_at_start());
    RelrDyn = row(".relr.dyn", c::SHT_RELR, A).made(made(&[".relr.dyn"], 8).read_at_start());
    RelaPlt = row(".rela.plt", c::SHT_RELA, A).made(made(&[".rela.plt"], 24).read_at_start());
    Init = row(".init", c::SHT_PROGBITS, AX)
        .takes(&[rule(S::Init.part(), &[Is(".init")]).keep().verbatim()])
        .by_name();
    Plt = row(".plt", c::SHT_PROGBITS, AX).made(made(&[".plt"], 16));
    PltGot = row(".plt.got", c::SHT_PROGBITS, AX).made(made(&[".plt.got", ".iplt"], 8));
    PltSec = row(".plt.sec", c::SHT_PROGBITS, AX).made(made(&[".plt.sec"], 16));
    Text = row(".text", c::SHT_PROGBITS, AX)
        .takes(&[
            rule(subpart::TEXT_UNLIKELY, &[Under(".text.unlikely"), Ends(".text", "_unlikely")]),
            rule(subpart::TEXT_EXIT, &[Under(".text.exit")]),
            rule(subpart::TEXT_STARTUP, &[Under(".text.startup")]),
            rule(subpart::TEXT_HOT, &[Under(".text.hot")]),
            rule(subpart::TEXT_SORTED, &[Starts(".text.sorted.")]),
            rule(S::Text.part(), &[Under(".text"), Is(".stub"), Starts(".gnu.linkonce.t.")]),
        ])
        .by_name();
    Fini = row(".fini", c::SHT_PROGBITS, AX)
        .takes(&[rule(S::Fini.part(), &[Is(".fini")]).keep().verbatim()])
        .by_name();
    Rodata = row(".rodata", c::SHT_PROGBITS, A)
        .takes(&[rule(S::Rodata.part(), &[Under(".rodata"), Is(".rodata1"), Starts(".gnu.linkonce.r.")])])
        .by_name();
    EhFrameHdr = row(".eh_frame_hdr", c::SHT_PROGBITS, A)
        .made(made(&[".eh_frame_hdr"], 0).optional());
    EhFrame = row(".eh_frame", c::SHT_PROGBITS, A).made(made(&[".eh_frame"], 0).optional());
    Sframe = row(".sframe", c::SHT_GNU_SFRAME, A).made(made(&[".sframe"], 0).optional());
    ExceptTable = row(".gcc_except_table", c::SHT_PROGBITS, A)
        .takes(&[rule(S::ExceptTable.part(), &[Under(".gcc_except_table")])]);
    Tdata = row(".tdata", c::SHT_PROGBITS, AWT)
        .relro()
        .takes(&[rule(S::Tdata.part(), &[Under(".tdata"), Starts(".gnu.linkonce.td.")])])
        .by_name();
    Tbss = row(".tbss", c::SHT_NOBITS, AWT)
        .relro()
        .takes(&[rule(S::Tbss.part(), &[Under(".tbss"), Starts(".gnu.linkonce.tb.")])])
        .by_name();
    PreinitArray = row(".preinit_array", c::SHT_PREINIT_ARRAY, AW)
        .relro()
        .takes(&[rule(S::PreinitArray.part(), &[Under(".preinit_array")]).keep()])
        .by_name();
    // First the functions with priorities, then the others; the old kind of list as well.
    InitArray = row(".init_array", c::SHT_INIT_ARRAY, AW)
        .relro()
        .takes(&[
            rule(subpart::INIT_ARRAY_SORTED, &[Starts(".init_array."), Starts(".ctors.")]).keep(),
            rule(S::InitArray.part(), &[Is(".init_array"), Old(".ctors")]).keep(),
        ])
        .by_name();
    FiniArray = row(".fini_array", c::SHT_FINI_ARRAY, AW)
        .relro()
        .takes(&[
            rule(subpart::FINI_ARRAY_SORTED, &[Starts(".fini_array."), Starts(".dtors.")]).keep(),
            rule(S::FiniArray.part(), &[Is(".fini_array"), Old(".dtors")]).keep(),
        ])
        .by_name();
    Jcr = row(".jcr", c::SHT_PROGBITS, AW)
        .relro()
        .takes(&[rule(S::Jcr.part(), &[Is(".jcr")]).keep()]);
    DataRelRo = row(".data.rel.ro", c::SHT_PROGBITS, AW)
        .relro()
        .takes(&[rule(S::DataRelRo.part(), &[Under(".data.rel.ro"), Starts(".gnu.linkonce.d.rel.ro.")])])
        .by_name();
    Dynamic = row(".dynamic", c::SHT_DYNAMIC, AW)
        .relro()
        .made(made(&[".dynamic"], 16).read_at_start());
    Got = row(".got", c::SHT_PROGBITS, AW).relro().made(made(&[".got", ".igot"], 8));
    // Read-only after relocation where nothing is bound lazily.
    GotPlt = row(".got.plt", c::SHT_PROGBITS, AW).made(made(&[".got.plt", ".igot.plt"], 8));
    Data = row(".data", c::SHT_PROGBITS, AW)
        .takes(&[rule(S::Data.part(), &[Under(".data"), Is(".data1"), Starts(".gnu.linkonce.d.")])])
        .by_name();
    Bss = row(".bss", c::SHT_NOBITS, AW)
        .takes(&[rule(S::Bss.part(), &[Is(".dynbss"), Under(".bss"), Starts(".gnu.linkonce.b.")])])
        .by_name();
    // What may be far away stands behind all that must be near.
    Lbss = row(".lbss", c::SHT_NOBITS, AWL)
        .takes(&[rule(S::Lbss.part(), &[Under(".lbss"), Starts(".gnu.linkonce.lb.")])]);
    Lrodata = row(".lrodata", c::SHT_PROGBITS, AL)
        .takes(&[rule(S::Lrodata.part(), &[Under(".lrodata"), Starts(".gnu.linkonce.lr.")])]);
    Ldata = row(".ldata", c::SHT_PROGBITS, AWL)
        .takes(&[rule(S::Ldata.part(), &[Under(".ldata"), Starts(".gnu.linkonce.l.")])]);
    Symtab = row(".symtab", c::SHT_SYMTAB, 0);
    SymtabShndx = row(".symtab_shndx", c::SHT_SYMTAB_SHNDX, 0);
    Strtab = row(".strtab", c::SHT_STRTAB, 0);
    ShStrtab = row(".shstrtab", c::SHT_STRTAB, 0);
}

impl Std {
    /// The output section's id.
    pub const fn id(self) -> OutputId {
        OutputId(self as u32)
    }
    /// The part that takes the input sections without a special place.
    pub const fn part(self) -> PartId {
        PartId(self as u32)
    }
    /// What the table says.
    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
    /// The section's place in the file: a key to sort by. Others may stand between two of these.
    pub const fn rank(self) -> u32 {
        self as u32 * RANKS
    }
    /// The section is the linker's: an input section that happens to have its name is a section of its own.
    pub fn is_made(self) -> bool {
        let tables = matches!(
            self,
            Std::Symtab | Std::SymtabShndx | Std::Strtab | Std::ShStrtab
        );
        tables || self.row().made.is_some_and(|made| !made.shared)
    }
    /// The names that a script's patterns know what the linker makes by. In a static program the only dynamic relocations
    /// are those that call resolvers, whose bounds scripts mark.
    pub fn made_names(self, dynamic: bool) -> &'static [&'static str] {
        match (self, dynamic) {
            (Std::RelaDyn, false) => &[".rela.iplt", ".rela.plt", ".rela.dyn"],
            _ => self.row().made.map_or(&[], |made| made.names),
        }
    }
}

/// Ranks from one standard section to the next.
const RANKS: u32 = 256;

macro_rules! subparts {
    ($($name:ident $std:ident $order:literal $sort:ident $script:literal;)*) => {
        /// Parts beside the main parts of the standard sections. Those with a
        /// negative order stand before the main part, in this order.
        pub mod subpart {
            use super::{PartId, STANDARD_COUNT};
            #[repr(u16)]
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Number { $($name),* }
            $(#[allow(missing_docs)] pub const $name: PartId = PartId(STANDARD_COUNT + Number::$name as u32);)*
        }
        /// The [`subpart`]s, by number.
        pub static SUBPARTS: &[Subpart] = &[$(Subpart {
            std: Std::$std,
            order: $order,
            sort: Order::$sort,
            script: $script,
        }),*];
    };
}

/// A part beside the main part of a standard section.
#[derive(Clone, Copy, Debug)]
pub struct Subpart {
    /// The section.
    pub std: Std,
    /// Its place among the section's parts; that of the main part is 0.
    pub order: i32,
    /// The order of what is in it.
    pub sort: Order,
    /// What a script says for it, if that is no rule of the section's: the name of what is no input section.
    pub script: &'static str,
}

subparts! {
    TEXT_UNLIKELY Text -5 Input "";
    TEXT_EXIT Text -4 Input "";
    TEXT_STARTUP Text -3 Input "";
    TEXT_HOT Text -2 Input "";
    TEXT_SORTED Text -1 Name "";
    INIT_ARRAY_SORTED InitArray -1 Priority "";
    FINI_ARRAY_SORTED FiniArray -1 Priority "";
    RELRO_COPIES DataRelRo -1 Input "";
    COPIES Bss -1 Input ".dynbss";
    COMMON Bss 1 Input "COMMON";
    COMMON_TLS Tbss 1 Input ".tcommon";
    COMMON_LARGE Lbss 1 Input "LARGE_COMMON";
}

/// What the linker puts into parts beside the main ones, with the names that a script's patterns know it by: copies of shared
/// objects' variables, and the common blocks that no rule of a script takes.
pub const BESIDE: [(PartId, &[&str]); 5] = [
    (subpart::RELRO_COPIES, &[".data.rel.ro"]),
    (subpart::COPIES, &[".dynbss"]),
    (subpart::COMMON, &[]),
    (subpart::COMMON_TLS, &[]),
    (subpart::COMMON_LARGE, &["LARGE_COMMON"]),
];

/// The standard section of a part.
pub fn std_of(part: PartId) -> Option<Std> {
    match part.index().checked_sub(STANDARD_COUNT as usize) {
        None => Std::ALL.get(part.index()).copied(),
        Some(number) => SUBPARTS.get(number).map(|part| part.std),
    }
}

/// The order of what is in a part.
pub fn order_of(part: PartId) -> Order {
    let number = part.index().checked_sub(STANDARD_COUNT as usize);
    let sub = number.and_then(|number| SUBPARTS.get(number));
    sub.map_or(Order::Input, |sub| sub.sort)
}

/// Whether what goes to a standard part may be written to at run time, whatever the input section's own flags say.
pub fn is_writable(part: PartId) -> bool {
    std_of(part).is_some_and(|std| std.row().flags & shf::WRITE != 0)
}

// -- sections of other names

/// An output section that has a place in the order though no part is made for it: inputs bring it, under this name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// The standard section that it stands behind.
    pub after: Std,
}

/// Loaded sections that become read-only with those that they stand behind. (The old lists of constructors are there for
/// scripts only: see [`Pattern::Old`].)
pub const NAMED: &[Named] = &[
    named(".ctors", Std::FiniArray),
    named(".dtors", Std::FiniArray),
    named(".bss.rel.ro", Std::DataRelRo),
    named(".openbsd.randomdata", Std::DataRelRo),
    named(".toc", Std::DataRelRo),
];

const fn named(name: &'static str, after: Std) -> Named {
    Named { name, after }
}

/// Output sections of code that compilers have marked, where `-z keep-text-section-prefix` keeps it apart: before `.text`.
pub const TEXT_PREFIXES: [&str; 6] = [
    ".text.hot",
    ".text.unknown",
    ".text.unlikely",
    ".text.startup",
    ".text.exit",
    ".text.split",
];

/// What is not loaded, in its order: remarks, and debugging information as stabs and as DWARF has it.
pub const UNLOADED: &[&str] = &[
    ".comment",
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

/// Whether a section of this name becomes read-only after relocation although its flags do not say so.
pub fn is_relro_name(name: &[u8]) -> bool {
    let lists = [Std::InitArray, Std::FiniArray];
    NAMED.iter().any(|named| named.name.as_bytes() == name)
        || lists.iter().any(|std| std.row().name.as_bytes() == name)
}

/// The place of a section that is no standard one: where the table has its name, else with the other orphans of its group.
pub fn rank(name: &[u8], sh_type: u32, flags: u64, relro: bool) -> u32 {
    /// Orphans follow what has a place of its own behind the same section.
    const ORPHANS: u32 = 128;
    if flags & shf::ALLOC == 0 {
        let known = UNLOADED
            .iter()
            .position(|known| known.as_bytes() == name)
            .unwrap_or(UNLOADED.len());
        return Std::Symtab.rank() - RANKS + ORPHANS + 1 + known as u32;
    }
    let is_it = |known: &str| known.as_bytes() == name;
    if let (Some(known), true) = (
        TEXT_PREFIXES.iter().position(|prefix| is_it(prefix)),
        flags & shf::EXEC != 0,
    ) {
        return Std::PltSec.rank() + 1 + known as u32;
    }
    let known = NAMED.iter().position(|named| is_it(named.name));
    match known {
        Some(known) if relro => NAMED[known].after.rank() + 1 + known as u32,
        _ if relro && flags & shf::TLS == 0 => Std::DataRelRo.rank() + ORPHANS,
        _ => Group::of(sh_type, flags, sh_type != c::SHT_NOBITS)
            .leader()
            .map_or(0, |leader| leader.rank() + ORPHANS),
    }
}

/// Kinds of orphans: sections that nothing in the table, or in a script, names. "The linker attempts to place orphan sections
/// after the last section of the same attribute" (GNU ld's manual, "Orphan Sections"); as with GNU ld, each kind has a section
/// that it would rather follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Code.
    Text,
    /// Read-only data.
    Rodata,
    /// Notes.
    Note,
    /// Tables of relocations.
    Relocations,
    /// Thread-local data.
    ThreadData,
    /// Thread-local data without bytes: behind all that has some.
    ThreadBss,
    /// Data.
    Data,
    /// Data without bytes.
    Bss,
    /// Data without bytes that may be far away.
    LargeBss,
    /// Read-only data that may be far away.
    LargeRodata,
    /// Data that may be far away.
    LargeData,
    /// What is not loaded.
    NotLoaded,
}

impl Group {
    /// The group of a section of this type and with these flags. `bits`: it has bytes.
    pub fn of(sh_type: u32, flags: u64, bits: bool) -> Group {
        match () {
            () if flags & shf::ALLOC == 0 => Group::NotLoaded,
            () if sh_type == c::SHT_NOTE => Group::Note,
            () if flags & shf::TLS != 0 && bits => Group::ThreadData,
            () if flags & shf::TLS != 0 => Group::ThreadBss,
            () if flags & shf::LARGE != 0 => match flags & (shf::EXEC | shf::WRITE) {
                shf::WRITE if !bits => Group::LargeBss,
                0 => Group::LargeRodata,
                _ => Group::LargeData,
            },
            () if !bits => Group::Bss,
            () if flags & shf::WRITE != 0 => Group::Data,
            () if flags & shf::EXEC != 0 => Group::Text,
            () if sh_type == c::SHT_RELA => Group::Relocations,
            () => Group::Rodata,
        }
    }

    /// The section that orphans of the group stand behind.
    pub fn leader(self) -> Option<Std> {
        Some(match self {
            Group::Text => Std::Text,
            Group::Rodata => Std::Rodata,
            Group::Note => Std::Interp,
            Group::Relocations => Std::RelaDyn,
            Group::ThreadData => Std::Tdata,
            Group::ThreadBss => Std::Tbss,
            Group::Data => Std::Data,
            Group::Bss => Std::Bss,
            Group::LargeBss => Std::Lbss,
            Group::LargeRodata => Std::Lrodata,
            Group::LargeData => Std::Ldata,
            Group::NotLoaded => return None,
        })
    }
}

// -- which part takes a name

/// A pattern as it is looked for: the first bytes of a name are compared at once.
struct Entry {
    head: u64,
    mask: u64,
    pattern: Pattern,
    part: PartId,
}

/// The patterns by the letter behind the dot, those of one letter in the table's order.
struct Patterns([Vec<Entry>; 32]);

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let mut by_letter: [Vec<Entry>; 32] = Default::default();
    let rules = ROWS.iter().flat_map(|row| row.rules);
    for rule in rules {
        for pattern in rule.patterns {
            let stem = pattern.stem().as_bytes();
            let known = stem.len().min(8);
            let mask = match known {
                8 => u64::MAX,
                _ => (1 << (8 * known)) - 1,
            };
            by_letter[letter(stem[1])].push(Entry {
                head: head(stem),
                mask,
                pattern: *pattern,
                part: rule.part,
            });
        }
    }
    Patterns(by_letter)
});

fn letter(byte: u8) -> usize {
    usize::from(byte & 31)
}

/// The first eight bytes.
fn head(name: &[u8]) -> u64 {
    match name.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..name.len()].copy_from_slice(name);
            u64::from_le_bytes(bytes)
        }
    }
}

/// The part of GNU ld's built-in script that takes a loaded input section of
/// this name, if one does.
pub fn standard_part(name: &[u8]) -> Option<PartId> {
    let [b'.', second, ..] = name else {
        return None;
    };
    let start = head(name);
    PATTERNS.0[letter(*second)]
        .iter()
        .find(|entry| start & entry.mask == entry.head && entry.pattern.takes(name))
        .map(|entry| entry.part)
}

/// Whether a section is of the old kind of constructor lists, which are run from their end.
pub fn runs_backwards(name: &[u8]) -> bool {
    [".ctors", ".dtors"]
        .into_iter()
        .any(|old| Under(old).takes(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_where_the_default_script_sends_them() {
        for (name, part) in [
            (".text", Std::Text.part()),
            (".text.main", Std::Text.part()),
            (".text.unlikely.f", subpart::TEXT_UNLIKELY),
            (".text.f_unlikely", subpart::TEXT_UNLIKELY),
            (".text.startup", subpart::TEXT_STARTUP),
            (".text.hotel", Std::Text.part()),
            (".text.sorted.1", subpart::TEXT_SORTED),
            (".data.rel.ro.local._ZTV1A", Std::DataRelRo.part()),
            (".data.x", Std::Data.part()),
            (".data.relx", Std::Data.part()),
            (".init_array.101", subpart::INIT_ARRAY_SORTED),
            (".ctors.5", subpart::INIT_ARRAY_SORTED),
            (".dtors", Std::FiniArray.part()),
            (".init_array", Std::InitArray.part()),
            (".init", Std::Init.part()),
            (".bss", Std::Bss.part()),
            (".gnu.linkonce.d.rel.ro.x", Std::DataRelRo.part()),
            (".gnu.linkonce.td.x", Std::Tdata.part()),
        ] {
            assert_eq!(standard_part(name.as_bytes()), Some(part), "{name}");
        }
        for name in [
            "",
            ".",
            "text",
            ".textual",
            ".initx",
            ".init_arrays",
            "my_section",
            ".gnu.linkonce.zz",
        ] {
            assert_eq!(standard_part(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn rules_are_in_the_order_of_their_parts() {
        let order = |part: PartId| match part.index().checked_sub(STANDARD_COUNT as usize) {
            None => 0,
            Some(number) => SUBPARTS[number].order,
        };
        for std in Std::ALL {
            let parts = std.row().rules.iter().map(|rule| rule.part);
            assert!(
                parts.clone().all(|part| std_of(part) == Some(*std)),
                "{std:?}"
            );
            assert!(parts.map(order).is_sorted(), "{std:?}");
        }
    }

    #[test]
    fn orphans_have_room_between_two_sections() {
        let last = rank(b"unknown", c::SHT_PROGBITS, 0, false);
        assert!(Std::Ldata.rank() < last && last < Std::Symtab.rank());
        for name in UNLOADED {
            let rank = rank(name.as_bytes(), c::SHT_PROGBITS, 0, false);
            assert!(Std::Ldata.rank() + 128 < rank && rank < last, "{name}");
        }
    }
}
