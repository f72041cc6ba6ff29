//! Output sections and their parts: which exist, in which order they stand, and
//! which input sections go where, when no linker script says otherwise.
//!
//! The order and the patterns are those of GNU ld's built-in script. An output
//! section is a list of *parts*; a part takes the input sections of one rule of
//! the script (`*(.text.hot .text.hot.*)`), or the merged pieces of one kind, or
//! something that the linker makes. The table of parts is data: a linker script
//! would give another one.

use crate::base::ids::{OutputId, PartId};
use crate::elf::c;
use crate::elf::shf;
use crate::resolve::section_rules::Rules;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

macro_rules! standard {
    ($($id:ident $name:literal $sh_type:ident $flags:expr, $relro:expr;)*) => {
        /// The output sections of GNU ld's built-in script, in its order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u16)]
        #[allow(missing_docs)]
        pub enum Std { $($id),* }

        const STANDARD: &[(&str, u32, u64, bool)] = &[$(($name, c::$sh_type, $flags, $relro)),*];

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

standard! {
    Interp ".interp" SHT_PROGBITS A, false;
    NoteProperty ".note.gnu.property" SHT_NOTE A, false;
    NoteBuildId ".note.gnu.build-id" SHT_NOTE A, false;
    NotePackage ".note.package" SHT_NOTE A, false;
    NoteAbiTag ".note.ABI-tag" SHT_NOTE A, false;
    Hash ".hash" SHT_HASH A, false;
    GnuHash ".gnu.hash" SHT_GNU_HASH A, false;
    DynSym ".dynsym" SHT_DYNSYM A, false;
    DynStr ".dynstr" SHT_STRTAB A, false;
    VerSym ".gnu.version" SHT_GNU_VERSYM A, false;
    VerDef ".gnu.version_d" SHT_GNU_VERDEF A, false;
    VerNeed ".gnu.version_r" SHT_GNU_VERNEED A, false;
    RelaDyn ".rela.dyn" SHT_RELA A, false;
    RelrDyn ".relr.dyn" SHT_RELR A, false;
    RelaPlt ".rela.plt" SHT_RELA A, false;
    Init ".init" SHT_PROGBITS AX, false;
    Plt ".plt" SHT_PROGBITS AX, false;
    PltGot ".plt.got" SHT_PROGBITS AX, false;
    PltSec ".plt.sec" SHT_PROGBITS AX, false;
    Text ".text" SHT_PROGBITS AX, false;
    Fini ".fini" SHT_PROGBITS AX, false;
    Rodata ".rodata" SHT_PROGBITS A, false;
    EhFrameHdr ".eh_frame_hdr" SHT_PROGBITS A, false;
    EhFrame ".eh_frame" SHT_PROGBITS A, false;
    Sframe ".sframe" SHT_GNU_SFRAME A, false;
    ExceptTable ".gcc_except_table" SHT_PROGBITS A, false;
    Tdata ".tdata" SHT_PROGBITS AWT, true;
    Tbss ".tbss" SHT_NOBITS AWT, true;
    PreinitArray ".preinit_array" SHT_PREINIT_ARRAY AW, true;
    InitArray ".init_array" SHT_INIT_ARRAY AW, true;
    FiniArray ".fini_array" SHT_FINI_ARRAY AW, true;
    Jcr ".jcr" SHT_PROGBITS AW, true;
    DataRelRo ".data.rel.ro" SHT_PROGBITS AW, true;
    Dynamic ".dynamic" SHT_DYNAMIC AW, true;
    Got ".got" SHT_PROGBITS AW, true;
    GotPlt ".got.plt" SHT_PROGBITS AW, false;
    Data ".data" SHT_PROGBITS AW, false;
    Bss ".bss" SHT_NOBITS AW, false;
    Lbss ".lbss" SHT_NOBITS AWL, false;
    Lrodata ".lrodata" SHT_PROGBITS AL, false;
    Ldata ".ldata" SHT_PROGBITS AWL, false;
    Symtab ".symtab" SHT_SYMTAB 0, false;
    SymtabShndx ".symtab_shndx" SHT_SYMTAB_SHNDX 0, false;
    Strtab ".strtab" SHT_STRTAB 0, false;
    ShStrtab ".shstrtab" SHT_STRTAB 0, false;
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
}

/// Number of the standard sections: others follow them.
pub const STANDARD_COUNT: u32 = STANDARD.len() as u32;

macro_rules! subparts {
    ($($name:ident $std:ident $order:expr;)*) => {
        /// Parts beside the main parts of the standard sections. Those with a
        /// negative order stand before the main part, in this order.
        pub mod subpart {
            use super::{PartId, STANDARD_COUNT};
            #[repr(u16)]
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Number { $($name),* }
            $(#[allow(missing_docs)] pub const $name: PartId = PartId(STANDARD_COUNT + Number::$name as u32);)*
        }
        const SUBPARTS: &[(Std, i32)] = &[$((Std::$std, $order)),*];
    };
}

subparts! {
    TEXT_UNLIKELY Text -5;
    TEXT_EXIT Text -4;
    TEXT_STARTUP Text -3;
    TEXT_HOT Text -2;
    TEXT_SORTED Text -1;
    INIT_ARRAY_SORTED InitArray -1;
    FINI_ARRAY_SORTED FiniArray -1;
    RELRO_COPIES DataRelRo -1;
    COPIES Bss -1;
    COMMON Bss 1;
    COMMON_TLS Tbss 1;
    COMMON_LARGE Lbss 1;
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

/// The kind of a mergeable part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MergeKind {
    /// NUL-terminated strings, not constants.
    pub strings: bool,
    /// Size of an element or character.
    pub entsize: u32,
}

impl MergeKind {
    /// The flags of a section that holds nothing but pieces of this kind.
    pub fn flags(self) -> u64 {
        match self.strings {
            true => shf::MERGE | shf::STRINGS,
            false => shf::MERGE,
        }
    }
}

/// A part of an output section.
#[derive(Clone, Debug)]
pub struct Part {
    /// The output section.
    pub output: OutputId,
    /// Its place among the section's parts.
    pub order: i32,
    /// The order of what is in it.
    pub sort: Order,
    /// Set if the part holds merged pieces.
    pub merge: Option<MergeKind>,
    /// The rule of the linker script whose sections these are; `None` without a script, and for what it does not name.
    pub rule: Option<u32>,
    /// Set if the part holds the common blocks that a linker script's rule takes: whether they are thread-local.
    pub commons: Option<bool>,
}

/// An output section. What follows the blank line is decided by layout.
#[derive(Clone, Debug)]
pub struct OutputSection<'a> {
    /// Its name.
    pub name: Cow<'a, [u8]>,
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// Size of an entry, for tables.
    pub entsize: u64,
    /// Read-only after relocation.
    pub relro: bool,
    /// Sort key of its place in the file.
    pub rank: u32,

    /// Address; 0 if not loaded.
    pub address: u64,
    /// What must be added to the address to have the load address; not 0 only if a linker script says so.
    pub load_offset: u64,
    /// File offset.
    pub offset: u64,
    /// Size in memory.
    pub size: u64,
    /// Bytes behind it that are nobody's, into which it may grow.
    pub room: u64,
    /// Alignment.
    pub align: u64,
    /// Index in the section header table; 0 if it is not in the output.
    pub header: u32,
    /// For relocations that `--emit-relocs` keeps: the section that they are about.
    pub relocates: Option<OutputId>,
    /// With `SHF_LINK_ORDER`: where the section is that the first one in it is about.
    pub linked: Option<OutputId>,
    /// A script wants none of its bytes in the file (`NOLOAD`).
    pub no_load: bool,
}

impl<'a> OutputSection<'a> {
    /// One with nothing in it yet.
    fn new(name: impl Into<Cow<'a, [u8]>>, sh_type: u32, flags: u64) -> OutputSection<'a> {
        OutputSection {
            name: name.into(),
            sh_type,
            flags,
            entsize: 0,
            relro: false,
            rank: 0,
            address: 0,
            load_offset: 0,
            offset: 0,
            size: 0,
            room: 0,
            align: 1,
            header: 0,
            relocates: None,
            linked: None,
            no_load: false,
        }
    }
}

impl OutputSection<'_> {
    /// Loaded into memory.
    pub fn is_alloc(&self) -> bool {
        self.flags & shf::ALLOC != 0
    }
    /// Takes no space in the file.
    pub fn is_nobits(&self) -> bool {
        self.sh_type == c::SHT_NOBITS
    }
    /// Thread-local without bytes: takes no address space either.
    pub fn is_tbss(&self) -> bool {
        self.is_nobits() && self.flags & shf::TLS != 0
    }
    /// Size in the file.
    pub fn file_size(&self) -> u64 {
        if self.is_nobits() { 0 } else { self.size }
    }
}

/// Where an input section goes, if not into a standard part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Custom<'a> {
    /// Name of the output section.
    pub name: &'a [u8],
    /// `SHT_*`.
    pub sh_type: u32,
    /// The `SHF_*` that count for the output.
    pub flags: u64,
    /// Set if it is mergeable.
    pub merge: Option<MergeKind>,
    /// How the sections of this kind are ordered.
    pub sort: Order,
    /// The section's number in its file, if it shall have an output section of its own (`--unique`).
    pub alone: Option<u32>,
    /// The rule of the linker script that takes it; then the name does not count.
    pub rule: Option<u32>,
}

/// Sort keys for sections that GNU ld's script does not name ("orphans"): after
/// the last standard section with the same flags.
fn orphan_rank(sh_type: u32, flags: u64, relro: bool) -> u32 {
    let after = |std: Std| (std as u32) * 16 + 8;
    if flags & shf::ALLOC == 0 {
        return (Std::Symtab as u32) * 16 - 4;
    }
    if flags & shf::TLS != 0 {
        return if sh_type == c::SHT_NOBITS {
            after(Std::Tbss)
        } else {
            after(Std::Tdata)
        };
    }
    // What may be far away stands behind all that must be near.
    if flags & shf::LARGE != 0 {
        return match flags & (shf::EXEC | shf::WRITE) {
            shf::WRITE if sh_type == c::SHT_NOBITS => after(Std::Lbss),
            0 => after(Std::Lrodata),
            _ => after(Std::Ldata),
        };
    }
    match (flags & shf::EXEC != 0, flags & shf::WRITE != 0) {
        (false, false) if sh_type == c::SHT_NOTE => after(Std::NoteAbiTag),
        (false, false) => after(Std::ExceptTable),
        (true, false) => after(Std::Fini),
        _ if relro => after(Std::DataRelRo),
        _ if sh_type == c::SHT_NOBITS => after(Std::Bss),
        _ => after(Std::Data),
    }
}

/// The output sections and parts of a link.
#[derive(Clone)]
pub struct Outputs<'a> {
    /// By [`OutputId`].
    pub sections: Vec<OutputSection<'a>>,
    /// By [`PartId`].
    pub parts: Vec<Part>,
    /// The patterns of a linker script. Then the standard sections are not in the output themselves: each is a view of
    /// what the script's sections hold of its kind.
    pub rules: Option<Arc<Rules>>,
    index: Index<'a>,
    /// See [`Outputs::by_address`].
    by_address: OnceLock<Vec<(u64, u32)>>,
}

/// What [`Outputs::custom`] finds sections and parts by: inputs may have tens of thousands of names.
#[derive(Clone, Default)]
struct Index<'a> {
    /// The sections of a name, in order.
    named: FxHashMap<Cow<'a, [u8]>, Vec<u32>>,
    /// The parts of a section, in order.
    parts_of: FxHashMap<OutputId, Vec<u32>>,
    /// How many sections and parts are in it. Those that came later are added when something is looked up.
    covers: (usize, usize),
}

impl<'a> Index<'a> {
    fn update(&mut self, sections: &[OutputSection<'a>], parts: &[Part]) {
        for (number, section) in sections.iter().enumerate().skip(self.covers.0) {
            let same = self.named.entry(section.name.clone()).or_default();
            same.push(number as u32);
        }
        for (number, part) in parts.iter().enumerate().skip(self.covers.1) {
            let together = self.parts_of.entry(part.output).or_default();
            together.push(number as u32);
        }
        self.covers = (sections.len(), parts.len());
    }
}

impl<'a> Default for Outputs<'a> {
    fn default() -> Self {
        let sections = STANDARD
            .iter()
            .enumerate()
            .map(|(i, (name, sh_type, flags, relro))| OutputSection {
                relro: *relro,
                rank: i as u32 * 16,
                ..OutputSection::new(name.as_bytes(), *sh_type, *flags)
            });
        let main = (0..STANDARD_COUNT).map(|i| Part {
            output: OutputId(i),
            order: 0,
            sort: Order::Input,
            merge: None,
            rule: None,
            commons: None,
        });
        let subs = SUBPARTS.iter().map(|(std, order)| Part {
            output: std.id(),
            order: *order,
            sort: Order::Input,
            merge: None,
            rule: None,
            commons: None,
        });
        let mut outputs = Outputs {
            sections: sections.collect(),
            parts: main.chain(subs).collect(),
            rules: None,
            index: Index::default(),
            by_address: OnceLock::new(),
        };
        outputs.parts[subpart::TEXT_SORTED.index()].sort = Order::Name;
        for part in [subpart::INIT_ARRAY_SORTED, subpart::FINI_ARRAY_SORTED] {
            outputs.parts[part.index()].sort = Order::Priority;
        }
        outputs
    }
}

impl<'a> Outputs<'a> {
    /// The output section of a standard kind.
    pub fn std(&self, std: Std) -> &OutputSection<'a> {
        &self.sections[std.id().index()]
    }

    /// The output section of a standard kind.
    pub fn std_mut(&mut self, std: Std) -> &mut OutputSection<'a> {
        &mut self.sections[std.id().index()]
    }

    /// `-z rodynamic`: `.dynamic` is read-only from the start, before the code.
    pub fn make_dynamic_read_only(&mut self) {
        let dynamic = self.std_mut(Std::Dynamic);
        dynamic.flags &= !shf::WRITE;
        dynamic.relro = false;
        dynamic.rank = Std::RelaPlt as u32 * 16 + 1;
    }

    /// The output section of a name.
    pub fn find(&self, name: &[u8]) -> Option<OutputId> {
        self.sections
            .iter()
            .position(|section| *section.name == *name)
            .map(|i| OutputId(i as u32))
    }

    /// The part for input sections of a custom kind, made if need be.
    pub fn custom(&mut self, custom: &Custom<'a>) -> Option<PartId> {
        let kept = custom.flags & (shf::LOADING | shf::REMARKS);
        // Sections of one name go together if they are loaded alike.
        let ruled = match (custom.rule, &self.rules) {
            (Some(rule), Some(rules)) => Some(rules.rules.get(rule as usize)?.output.index()),
            _ => None,
        };
        let scripted = self.rules.is_some();
        self.index.update(&self.sections, &self.parts);
        let named = match custom.alone {
            None => self.index.named.get(custom.name),
            Some(_) => None,
        };
        let found = ruled.or_else(|| {
            let fits = |number: &u32| match scripted {
                true => *number >= STANDARD_COUNT,
                false => {
                    let flags = self.sections[*number as usize].flags;
                    !is_made(*number) && (flags ^ kept) & (shf::ALLOC | shf::TLS) == 0
                }
            };
            named?
                .iter()
                .copied()
                .find(fits)
                .map(|number| number as usize)
        });
        let output = match found {
            Some(i) => {
                let section = &mut self.sections[i];
                section.flags |= kept;
                // Bytes among what has none: then all of it is in the file.
                if i >= STANDARD_COUNT as usize
                    && section.is_nobits()
                    && custom.sh_type != c::SHT_NOBITS
                {
                    section.sh_type = custom.sh_type;
                    section.rank = orphan_rank(section.sh_type, section.flags, section.relro);
                }
                OutputId(i as u32)
            }
            None => {
                // The image of thread-local storage is one range, whatever its sections are called.
                let relro = kept & shf::TLS != 0 || is_relro_name(custom.name);
                let rank = orphan_rank(custom.sh_type, kept, relro);
                let id = OutputId(next_number(self.sections.len())?);
                self.sections.push(OutputSection {
                    relro,
                    rank,
                    ..OutputSection::new(custom.name, custom.sh_type, kept)
                });
                id
            }
        };
        let same = |part: &Part| {
            part.merge == custom.merge
                && part.sort == custom.sort
                && part.rule == custom.rule
                && (part.order == own_place(custom))
        };
        let together = self.index.parts_of.get(&output);
        let mut together = together.into_iter().flatten().copied();
        if let Some(known) = together.find(|number| same(&self.parts[*number as usize])) {
            return Some(PartId(known));
        }
        let id = PartId(next_number(self.parts.len())?);
        self.parts.push(Part {
            output,
            order: own_place(custom),
            sort: custom.sort,
            merge: custom.merge,
            rule: custom.rule,
            commons: None,
        });
        Some(id)
    }

    /// A part for the common blocks that a linker script's rule takes; `None` if there are too many parts.
    pub fn add_commons(&mut self, output: OutputId, rule: u32, tls: bool) -> Option<PartId> {
        let id = PartId(next_number(self.parts.len())?);
        self.parts.push(Part {
            output,
            // They come behind what has a section.
            order: 1,
            sort: Order::Input,
            merge: None,
            rule: Some(rule),
            commons: Some(tls),
        });
        Some(id)
    }

    /// The outputs of a link whose linker script has these sections, and these patterns: the sections' numbers follow
    /// the standard ones.
    pub fn scripted(names: impl Iterator<Item = Vec<u8>>, rules: Rules) -> Outputs<'a> {
        let mut outputs = Outputs {
            rules: Some(Arc::new(rules)),
            ..Outputs::default()
        };
        for name in names {
            outputs.add(Cow::Owned(name));
        }
        outputs
    }

    /// Adds a section of which nothing but its name is known.
    pub fn add(&mut self, name: Cow<'a, [u8]>) -> OutputId {
        self.sections
            .push(OutputSection::new(name, c::SHT_PROGBITS, 0));
        OutputId((self.sections.len() - 1) as u32)
    }

    /// Whether an output section holds lists of functions that are run in order, so that the old kind of list must be
    /// reversed to be among them.
    #[inline]
    pub fn is_function_list(&self, id: OutputId) -> bool {
        id == Std::InitArray.id()
            || id == Std::FiniArray.id()
            || self.rules.is_some()
                && matches!(
                    &*self.sections[id.index()].name,
                    b".init_array" | b".fini_array"
                )
    }

    /// Addresses and header numbers of the sections that have addresses, in the order of the addresses. To be asked for
    /// when all have theirs.
    pub fn by_address(&self) -> &[(u64, u32)] {
        self.by_address.get_or_init(|| {
            let standing = self
                .sections
                .iter()
                .filter(|section| section.header != 0 && section.is_alloc() && !section.is_tbss());
            let mut list: Vec<(u64, u32)> = standing
                .map(|section| (section.address, section.header))
                .collect();
            list.sort_by_key(|(address, _)| *address);
            list
        })
    }

    /// Ids of the output sections in the order of the file.
    pub fn in_order(&self) -> Vec<OutputId> {
        let mut ids: Vec<OutputId> = (0..self.sections.len() as u32).map(OutputId).collect();
        ids.sort_by_key(|id| self.sections[id.index()].rank);
        ids
    }
}

/// The number of the next of `count` sections or parts. They are fewer than 2^24: that is what a place of a merged piece
/// has room for.
fn next_number(count: usize) -> Option<u32> {
    u32::try_from(count).ok().filter(|n| *n < 0xff_ffff)
}

/// The place of a part that is made for sections of a custom kind, among those of its output section. What is ordered as
/// the sections that it is about comes behind what is not, as with GNU ld.
fn own_place(custom: &Custom) -> i32 {
    match (custom.merge, custom.sort) {
        (Some(_), _) => 1,
        (None, Order::Linked) => 2,
        (None, _) => 0,
    }
}

/// Standard sections whose contents are the linker's: an input section that happens to have the name of one is a section
/// of its own. (`.interp` is not among them: a shared object that can be run may bring its own.)
fn is_made(number: u32) -> bool {
    use Std::*;
    const MADE: &[Std] = &[
        NoteProperty,
        NoteBuildId,
        NotePackage,
        Hash,
        GnuHash,
        DynSym,
        DynStr,
        VerSym,
        VerDef,
        VerNeed,
        RelaDyn,
        RelrDyn,
        RelaPlt,
        Plt,
        PltGot,
        PltSec,
        EhFrameHdr,
        EhFrame,
        Sframe,
        Dynamic,
        Got,
        GotPlt,
        Symtab,
        SymtabShndx,
        Strtab,
        ShStrtab,
    ];
    MADE.iter().any(|std| *std as u32 == number)
}

fn is_relro_name(name: &[u8]) -> bool {
    matches!(
        name,
        b".bss.rel.ro" | b".openbsd.randomdata" | b".toc" | b".init_array" | b".fini_array"
    )
}

/// Whether what goes to a standard part may be written to at run time, whatever the input section's own flags say.
pub fn is_writable(part: PartId) -> bool {
    let std = match part.index().checked_sub(STANDARD.len()) {
        None => Some(part.index()),
        Some(n) => SUBPARTS.get(n).map(|(std, _)| *std as usize),
    };
    std.and_then(|std| STANDARD.get(std))
        .is_some_and(|(_, _, flags, _)| flags & shf::WRITE != 0)
}

/// The name begins with `prefix` and ends there or goes on with a dot.
#[inline]
fn is_or_under(name: &[u8], prefix: &[u8]) -> bool {
    name.starts_with(prefix) && (name.len() == prefix.len() || name[prefix.len()] == b'.')
}

/// The part of GNU ld's built-in script that takes a loaded input section of
/// this name, if one does.
pub fn standard_part(name: &[u8]) -> Option<PartId> {
    // The second letter after the dot decides most, and cheaply.
    let letter = *name.get(1)?;
    if name[0] != b'.' {
        return None;
    }
    let under = |prefix: &[u8]| is_or_under(name, prefix);
    match letter {
        b't' if under(b".text") => Some(text_part(name)),
        b't' if under(b".tdata") => Some(Std::Tdata.part()),
        b't' if under(b".tbss") => Some(Std::Tbss.part()),
        b'r' if under(b".rodata") || name == b".rodata1" => Some(Std::Rodata.part()),
        b'd' if under(b".data.rel.ro") => Some(Std::DataRelRo.part()),
        b'd' if under(b".data") || name == b".data1" => Some(Std::Data.part()),
        b'd' if name == b".dynbss" => Some(Std::Bss.part()),
        b'd' if under(b".dtors") => Some(if name.len() == 6 {
            Std::FiniArray.part()
        } else {
            subpart::FINI_ARRAY_SORTED
        }),
        b'c' if under(b".ctors") => Some(if name.len() == 6 {
            Std::InitArray.part()
        } else {
            subpart::INIT_ARRAY_SORTED
        }),
        b'b' if under(b".bss") => Some(Std::Bss.part()),
        b'i' if name == b".init_array" => Some(Std::InitArray.part()),
        b'i' if under(b".init_array") => Some(subpart::INIT_ARRAY_SORTED),
        b'i' if name == b".init" => Some(Std::Init.part()),
        b'f' if name == b".fini_array" => Some(Std::FiniArray.part()),
        b'f' if under(b".fini_array") => Some(subpart::FINI_ARRAY_SORTED),
        b'f' if name == b".fini" => Some(Std::Fini.part()),
        b'p' if under(b".preinit_array") => Some(Std::PreinitArray.part()),
        b'g' if under(b".gcc_except_table") => Some(Std::ExceptTable.part()),
        b'g' if name.starts_with(b".gnu.linkonce.") => linkonce_part(&name[14..]),
        b'n' if name == b".note.ABI-tag" => Some(Std::NoteAbiTag.part()),
        b'j' if name == b".jcr" => Some(Std::Jcr.part()),
        b'l' if under(b".lrodata") => Some(Std::Lrodata.part()),
        b'l' if under(b".ldata") => Some(Std::Ldata.part()),
        b'l' if under(b".lbss") => Some(Std::Lbss.part()),
        b's' if name == b".stub" => Some(Std::Text.part()),
        _ => None,
    }
}

/// Whether a section is of the old kind of constructor lists, which are run from their end.
pub fn runs_backwards(name: &[u8]) -> bool {
    is_or_under(name, b".ctors") || is_or_under(name, b".dtors")
}

fn text_part(name: &[u8]) -> PartId {
    let rest = &name[5..];
    if rest.is_empty() {
        Std::Text.part()
    } else if is_or_under(rest, b".unlikely") || rest.ends_with(b"_unlikely") {
        subpart::TEXT_UNLIKELY
    } else if is_or_under(rest, b".exit") {
        subpart::TEXT_EXIT
    } else if is_or_under(rest, b".startup") {
        subpart::TEXT_STARTUP
    } else if is_or_under(rest, b".hot") {
        subpart::TEXT_HOT
    } else if rest.starts_with(b".sorted.") {
        subpart::TEXT_SORTED
    } else {
        Std::Text.part()
    }
}

fn linkonce_part(rest: &[u8]) -> Option<PartId> {
    let std = match () {
        () if rest.starts_with(b"t.") => Std::Text,
        () if rest.starts_with(b"r.") => Std::Rodata,
        () if rest.starts_with(b"d.rel.ro.") => Std::DataRelRo,
        () if rest.starts_with(b"d.") => Std::Data,
        () if rest.starts_with(b"b.") => Std::Bss,
        () if rest.starts_with(b"td.") => Std::Tdata,
        () if rest.starts_with(b"tb.") => Std::Tbss,
        () if rest.starts_with(b"lr.") => Std::Lrodata,
        () if rest.starts_with(b"l.") => Std::Ldata,
        () if rest.starts_with(b"lb.") => Std::Lbss,
        () => return None,
    };
    Some(std.part())
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
            (".text.startup", subpart::TEXT_STARTUP),
            (".text.hotel", Std::Text.part()),
            (".data.rel.ro.local._ZTV1A", Std::DataRelRo.part()),
            (".data.x", Std::Data.part()),
            (".init_array.101", subpart::INIT_ARRAY_SORTED),
            (".init_array", Std::InitArray.part()),
            (".init", Std::Init.part()),
            (".gnu.linkonce.d.rel.ro.x", Std::DataRelRo.part()),
        ] {
            assert_eq!(standard_part(name.as_bytes()), Some(part), "{name}");
        }
        for name in [
            "",
            ".",
            "text",
            ".textual",
            ".initx",
            "my_section",
            ".gnu.linkonce.zz",
        ] {
            assert_eq!(standard_part(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn orphans_stand_behind_sections_with_their_flags() {
        let mut outputs = Outputs::default();
        let custom = |name, flags| Custom {
            name,
            sh_type: c::SHT_PROGBITS,
            flags,
            merge: None,
            sort: Order::Input,
            alone: None,
            rule: None,
        };
        outputs.custom(&custom(b"code", AX)).unwrap();
        outputs.custom(&custom(b"constants", A)).unwrap();
        outputs.custom(&custom(b"notes", 0)).unwrap();
        let order = outputs.in_order();
        let at = |name: &[u8]| {
            order
                .iter()
                .position(|id| *outputs.sections[id.index()].name == *name)
                .unwrap()
        };
        assert!(at(b".fini") < at(b"code") && at(b"code") < at(b".rodata"));
        assert!(at(b".gcc_except_table") < at(b"constants") && at(b"constants") < at(b".tdata"));
        assert!(at(b".ldata") < at(b"notes") && at(b"notes") < at(b".symtab"));
    }

    #[test]
    fn names_of_what_the_linker_makes_are_not_shared_with_inputs() {
        let mut outputs = Outputs::default();
        for (name, flags, std) in [
            (&b".symtab"[..], 0, Std::Symtab),
            (b".got", AW, Std::Got),
            (b".dynsym", A, Std::DynSym),
        ] {
            let custom = Custom {
                name,
                sh_type: c::SHT_PROGBITS,
                flags,
                merge: None,
                sort: Order::Input,
                alone: None,
                rule: None,
            };
            let part = outputs.custom(&custom).unwrap();
            assert_ne!(outputs.parts[part.index()].output, std.id());
            assert_eq!(outputs.custom(&custom), Some(part), "and it is found again");
        }
    }
}
