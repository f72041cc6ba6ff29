//! Tracing the program graph, and scanning relocations on the way.
//!
//! Every section that will be in the output is visited once. Its fixups are
//! looked at then, once, for two things: which sections they keep, and what they
//! need from the linker (GOT slots, PLT entries, copies, dynamic relocations).
//!
//! Without `--gc-sections` the sections of ELF objects are all kept; then the visit
//! is a parallel loop. With it, the visit starts at the roots and follows the
//! fixups. Sections of fragments from the repository are always followed: what
//! nothing reaches is not linked. Frame descriptions are visited with the code
//! that they describe, and debugging information is kept but not followed.

mod follow;
pub mod groups;
mod metadata;

use crate::args::TextRel;
use crate::base::ids::{FileId, SectionId, SymbolId};
use crate::base::key::{Key, rank};
use crate::elf::c;
use crate::elf::shf;
use crate::elf::x86_64::relax::NextReloc;
use crate::elf::x86_64::reloc::{self, Class, Field};
use crate::elf::x86_64::uses::fixup_use;
use crate::graph::eh_frame_records::{Cie, Frames, cie_fixups, fde_fixups};
use crate::graph::relocation_action::{self, Mode, Plan, is_distance, plan};
use crate::graph::repository_pieces::UsedPieces;
use crate::input::file::{File, Files};
use crate::input::object::{Fixups, Missing, Object, Referent, Repository};
use crate::input::parts::{Fixup, Piece, Place, PlainMember, Target, Unwind, describe_missing};
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::{SectionRef, Sections, state, why_discarded};
use crate::resolve::resolution::Definitions;
use crate::resolve::symbol_facts::{Bound, Defined, Demand, Referred, SymbolFacts};
use crate::resolve::symbol_table::SymbolTable;
use format_spec::outline::usage;
use groups::Groups;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// What a symbol must not be for a plain reference to it to need nothing.
const SPECIAL: SymbolFacts = SymbolFacts::NONE
    .and(Bound::IMPORTED.and(Bound::UNDEFINED_WEAK).facts())
    .and(
        Defined::IFUNC
            .and(Defined::ABSOLUTE)
            .and(Defined::TLS)
            .facts(),
    );

/// What is imported, and nothing else that is special.
const IMPORTED: SymbolFacts = Bound::IMPORTED.facts();

/// Numbers of dynamic relocations that the sections of a file need.
#[derive(Default)]
pub struct DynamicCounts {
    /// `R_X86_64_RELATIVE`.
    pub relative: AtomicU32,
    /// Those that name a symbol.
    pub symbolic: AtomicU32,
    /// `R_X86_64_IRELATIVE`.
    pub irelative: AtomicU32,
}

/// A reference to a symbol that nothing defines.
#[derive(Clone, Copy, Debug)]
pub struct UndefinedReference {
    /// The symbol.
    pub symbol: SymbolId,
    /// The section that refers to it.
    pub section: SectionId,
    /// Where in the section.
    pub offset: u64,
    /// The fixup's type.
    pub r_type: u32,
}

/// A local symbol that needs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalNeed {
    /// Its file.
    pub file: FileId,
    /// Its index there.
    pub index: u32,
    /// What it needs.
    pub needs: Demand,
}

/// What the scan found beside what it adds to the symbols' facts.
#[derive(Default)]
pub struct Needs {
    /// By file.
    pub dynamic: Vec<DynamicCounts>,
    /// Sorted, each symbol once.
    pub locals: Vec<LocalNeed>,
    /// In input order.
    pub undefined: Vec<UndefinedReference>,
    /// All places of relative relocations in sections, with the symbols they refer to, if they are to be reported.
    pub relative: Vec<(SectionId, u64, Option<SymbolId>)>,
    /// Places of relative relocations that go into `.relr.dyn`: section, and offset there. In no order.
    pub packed: Vec<(SectionId, u64)>,
    /// `_GLOBAL_OFFSET_TABLE_` is referred to.
    pub got_base: AtomicBool,
    /// A `tls_index` pair for the module itself.
    pub tls_module: AtomicBool,
    /// A shared object uses the initial exec model (`DF_STATIC_TLS`).
    pub static_tls: AtomicBool,
    /// Dynamic relocations in sections that are not writable (`DT_TEXTREL`).
    pub text_relocations: AtomicBool,
}

/// What one task finds.
#[derive(Default)]
struct Found {
    locals: Vec<LocalNeed>,
    undefined: Vec<UndefinedReference>,
    packed: Vec<(SectionId, u64)>,
    relative: Vec<(SectionId, u64, Option<SymbolId>)>,
    /// Sections that became alive and are not visited yet.
    queue: Vec<SectionId>,
}

impl Found {
    fn unite(parts: impl IntoIterator<Item = Found>) -> Found {
        let mut all = Found::default();
        for mut part in parts {
            all.locals.append(&mut part.locals);
            all.undefined.append(&mut part.undefined);
            all.packed.append(&mut part.packed);
            all.relative.append(&mut part.relative);
        }
        all
    }
}

/// What tracing needs to know of the link.
pub struct Tracer<'l, 'a> {
    /// The inputs.
    pub files: &'l Files<'a>,
    /// Their symbols.
    pub symbols: &'l SymbolTable<'a>,
    /// Where these are defined.
    pub definitions: &'l Definitions,
    /// Their sections.
    pub sections: &'l Sections,
    /// Marks for the pieces of repositories.
    pub pieces: &'l UsedPieces<'a>,
    /// Their frame descriptions.
    pub frames: &'l Frames,
    /// The output's kind.
    pub mode: Mode,
    /// Sections of ELF objects are followed, too.
    pub gc: bool,
    /// With `gc`, the groups of the inputs.
    pub groups: Groups,
    /// What nothing refers to in a ticket is left out; not if a linker script may collect it by name.
    pub prune: bool,
    /// By part: some `__start_` or `__stop_` symbol is used to walk over all sections in it.
    pub bounded: &'l [bool],
    /// Sections that live with the section that they are about.
    pub link_order: &'l [(SectionId, SectionId)],
    /// What is done about dynamic relocations in read-only sections.
    pub text: TextRel,
    /// Relative relocations are reported (`-z report-relative-reloc`).
    pub report_relative: bool,
    /// Copy relocations are allowed.
    pub allow_copies: bool,
    /// Even of protected symbols, whose own object will not see them.
    pub allow_protected_copies: bool,
    /// By file, whether it is a library under `--as-needed` that nobody needs: what refers weakly to its names finds none at run time. Empty: none is.
    pub unneeded: &'l [bool],
    /// For messages.
    pub diag: &'l Diagnostics,
}

impl Tracer<'_, '_> {
    /// Visits everything that is kept, starting at `roots` and at the sections that are roots themselves.
    pub fn run(&self, roots: &[SymbolId]) -> Needs {
        let mut needs = Needs::default();
        needs
            .dynamic
            .resize_with(self.files.0.len(), DynamicCounts::default);
        self.discard_metadata();
        let mut found = match self.gc || !self.pieces.is_empty() {
            true => self.follow(roots, &needs),
            false => self.visit_all(&needs),
        };
        self.groups.settle(self.sections);
        self.settle_metadata();
        if self.gc {
            self.drop_commons();
        }
        self.mark_unloaded_pieces();
        found.locals.sort_unstable();
        let mut locals: Vec<LocalNeed> = Vec::new();
        for need in found.locals {
            match locals.last_mut() {
                Some(last) if (last.file, last.index) == (need.file, need.index) => {
                    last.needs |= need.needs
                }
                _ => locals.push(need),
            }
        }
        found
            .undefined
            .sort_by_key(|reference| (reference.section, reference.offset));
        needs.locals = locals;
        needs.undefined = found.undefined;
        needs.packed = found.packed;
        found.relative.sort_unstable();
        needs.relative = found.relative;
        needs
    }

    fn visit_all(&self, needs: &Needs) -> Found {
        let parts: Vec<Found> = self
            .files
            .0
            .par_iter()
            .enumerate()
            .map(|(i, _)| {
                let mut found = Found::default();
                for id in self.sections.of_file(FileId(i as u32)) {
                    let id = SectionId(id);
                    if self.sections.state(id) & (state::ALIVE | state::ALLOC | state::EH_FRAME)
                        == state::ALIVE | state::ALLOC
                    {
                        self.visit(id, needs, &mut found);
                    }
                }
                found
            })
            .collect();
        Found::unite(parts)
    }

    /// Marks the pieces that debugging information refers to, which is kept without being followed.
    fn mark_unloaded_pieces(&self) {
        if self.pieces.is_empty() {
            return;
        }
        self.files.0.par_iter().enumerate().for_each(|(i, file)| {
            let Some(object) = file.object() else {
                return;
            };
            let Some(Repository { id: repository, .. }) = object.repository() else {
                return;
            };
            let file = FileId(i as u32);
            for member in 0..object.member_count() {
                let with_fixups = || {
                    let ids = object.sections_of(member);
                    ids.filter_map(|number| self.sections.get(file, number))
                        .filter(|id| self.sections.relocations[id.index()] != 0)
                };
                let is_unloaded = |id: &SectionId| {
                    self.sections.state(*id) & (state::ALIVE | state::ALLOC) == state::ALIVE
                };
                if !with_fixups().any(|id| is_unloaded(&id)) {
                    continue;
                }
                // If all of a member is linked, so is all that it refers to, and nobody need look at the fixups.
                let mark = |id: u32| self.pieces.mark(Piece { repository, id }, file, member);
                if with_fixups().all(|id| self.sections.is_alive(id))
                    && object.pieces_of(member).iter().all(|piece| mark(piece.0))
                {
                    continue;
                }
                for id in with_fixups().filter(is_unloaded) {
                    let (_, number) = self.sections.origin(id);
                    let relocations = self.sections.relocations[id.index()];
                    object.fixups(number, relocations).for_each(|fixup| {
                        if let Target::Piece(piece) = fixup.target
                            && !mark(piece)
                        {
                            self.complain(id, &fixup, format_args!("piece {piece} does not exist"));
                        }
                    });
                }
            }
        });
    }

    /// Marks a section as alive, and queues it if it was not.
    #[inline]
    fn reach(&self, id: SectionId, queue: &mut Vec<SectionId>) {
        if id == SectionId::NONE {
            return;
        }
        let bits = self.sections.state(id);
        if bits & (state::ALIVE | state::ALLOC | state::DISCARDED | state::EH_FRAME) == state::ALLOC
            && self.sections.add_state(id, state::ALIVE) & state::ALIVE == 0
        {
            queue.push(id);
        }
    }

    /// Marks what a symbol is defined in as alive, and queues it if it is a section that was not.
    #[inline]
    fn reach_symbol(&self, symbol: SymbolId, queue: &mut Vec<SectionId>) {
        match self.definitions.section(symbol) {
            // What has no section can be a common block, which is collected as sections are.
            SectionId::NONE if self.gc => self.symbols.add(symbol, Demand::REACHED),
            section => self.reach(section, queue),
        }
    }

    /// Makes common blocks that nothing refers to, of what is linked, into what nobody defines.
    fn drop_commons(&self) {
        for common in &self.definitions.commons {
            if !self.symbols.facts(common.symbol).has(Demand::REACHED) {
                self.symbols.set_key(common.symbol, Key::NONE);
            }
        }
    }

    /// Scans a section that is alive, and the frame descriptions that belong to it.
    fn visit(&self, id: SectionId, needs: &Needs, found: &mut Found) {
        let section = self.sections.at(self.files, id);
        let (file, number, object) = (section.file, section.number, section.object);
        let bits = self.sections.state(id);
        if let Some(member) = object.plain(number)
            && self.visit_plain(section, &member, needs, found)
        {
            return;
        }
        if section.relocations != 0 {
            self.scan(section, section.fixups(), needs, found);
        }
        if let Some(next) = self.groups.next(file, number) {
            self.reach(self.sections.id(file, next), &mut found.queue);
        }
        if bits & state::HAS_FDE != 0 {
            let frames = self.frames.of(file);
            for fde in frames.of_section(number) {
                self.use_cie(file, object, &frames.cies[fde.cie as usize], needs, found);
                let fixups = fde_fixups(object, file, self.sections, fde);
                let rest = fixups.slice(1, fixups.len());
                let frames = self.sections.id(file, fde.section);
                self.scan(self.sections.at(self.files, frames), rest, needs, found);
            }
        }
    }

    /// Scans a CIE when it is used for the first time.
    fn use_cie(&self, file: FileId, object: &Object, cie: &Cie, needs: &Needs, found: &mut Found) {
        if !cie.used.load(Relaxed) && !cie.used.swap(true, Relaxed) {
            let section = self.sections.id(file, cie.section);
            let fixups = cie_fixups(object, file, self.sections, cie);
            self.scan(self.sections.at(self.files, section), fixups, needs, found);
        }
    }

    /// What a symbol that is used so ([`usage`]) must have, as [`Demand`], if the use is an ordinary one: of what is defined in the
    /// output and nothing special, or of what a shared object has if only calls and slots ask for it. `None` if only the fixup
    /// itself can tell. `bits` say what is known of the symbol.
    ///
    /// Dynamic relocations for words that hold addresses are not counted here, but by [`Tracer::visit_plain`] and [`Tracer::scan`].
    #[inline(always)]
    fn ordinary(&self, uses: u8, bits: SymbolFacts) -> Option<Demand> {
        if uses & usage::ADDRESS_FROM_SLOT != 0 && !self.mode.relax {
            return None;
        }
        let (from_slot, from_call) = match bits.among(SPECIAL | Bound::UNDEFINED) {
            SymbolFacts::NONE => (usage::SLOT, 0),
            IMPORTED if uses & (usage::DISTANCE | usage::ABSOLUTE) == 0 => {
                (usage::SLOT | usage::ADDRESS_FROM_SLOT, usage::CALL)
            }
            _ => return None,
        };
        let mut needed = Demand::NONE;
        if uses & from_slot != 0 {
            needed |= Demand::GOT;
        }
        if uses & from_call != 0 {
            needed |= Demand::PLT;
        }
        Some(needed)
    }

    /// Whether an outline would have led to the same demands as the fixup itself did.
    fn is_as_outlined(
        &self,
        bytes: &[u8],
        fixup: &Fixup,
        bits: SymbolFacts,
        needed: Demand,
    ) -> bool {
        let uses = fixup_use(bytes, fixup.offset, fixup.r_type, fixup.addend);
        let uses = uses.filter(|uses| *uses != 0 && uses & usage::ABSOLUTE == 0);
        let ordinary = uses.and_then(|uses| self.ordinary(uses, bits));
        ordinary.is_none_or(|ordinary| ordinary == needed)
    }

    /// Visits a definition by its outline, with all that is its own, if what
    /// it refers to turned out to be ordinary: `false` if not, and then its fixups must be scanned.
    fn visit_plain(
        &self,
        section: SectionRef,
        member: &PlainMember,
        needs: &Needs,
        found: &mut Found,
    ) -> bool {
        let (id, file, number, object) = (section.id, section.file, section.number, section.object);
        let bits = self.sections.state(id);
        // Exception tables are needed by frame descriptions; a linker script may have thrown these away.
        if !member.rest.is_empty()
            && bits & state::HAS_FDE == 0
            && member
                .rest
                .clone()
                .any(|number| object.unwind(number) == Unwind::Fdes)
        {
            return false;
        }
        if self.mode.pic && (member.has_absolute || member.words != 0) {
            let is_packed = self.mode.pack && relocation_action::packs(object, number, bits);
            let is_counted = bits & state::WRITE != 0 && !is_packed && !self.report_relative;
            if member.has_absolute || !is_counted {
                return false;
            }
        }
        let input = self.files.get(file);
        let (first_global, slot_base) = (object.first_global(), input.slot_base);
        let symbol_count = object.symbol_count();
        for (n, uses) in member.bindings.iter().zip(member.uses) {
            // A CIE is seen to below.
            if *uses == 0 {
                continue;
            }
            if n < first_global {
                let Some(needed) = self.ordinary(*uses, SymbolFacts::NONE) else {
                    return false;
                };
                let place = object
                    .symbol(n)
                    .filter(|symbol| !matches!(symbol.kind(), c::STT_TLS | c::STT_GNU_IFUNC));
                let Some(Place::Section(number)) = place.map(|symbol| symbol.place) else {
                    return false;
                };
                match self.sections.get(file, number) {
                    Some(section) if self.sections.state(section) & state::DISCARDED == 0 => {
                        self.reach(section, &mut found.queue);
                    }
                    _ => return false,
                }
                if !needed.is_empty() {
                    found.locals.push(LocalNeed {
                        file,
                        index: n,
                        needs: needed,
                    });
                }
                continue;
            }
            let symbol = self.symbols.at(slot_base, first_global, n);
            if symbol == SymbolId::NONE || n >= symbol_count {
                return false;
            }
            let Some(needed) = self.ordinary(*uses, self.symbols.facts(symbol)) else {
                return false;
            };
            if !needed.is_empty() {
                self.symbols.add(symbol, needed);
            }
            self.reach_symbol(symbol, &mut found.queue);
        }
        if let Some(Repository { id: repository, .. }) = object.repository() {
            let mark = |id: u32| {
                self.pieces
                    .mark(Piece { repository, id }, file, member.member)
            };
            if !member.pieces.iter().all(|piece| mark(piece.0)) {
                return false;
            }
        }
        if bits & state::HAS_FDE != 0 {
            let frames = self.frames.of(file);
            for fde in frames.of_section(number) {
                self.use_cie(file, object, &frames.cies[fde.cie as usize], needs, found);
            }
        }
        // The fixups of these have been seen to with the rest.
        for number in member.rest.clone() {
            let Some(section) = self.sections.get(file, number) else {
                return false;
            };
            let bits = self.sections.state(section);
            if bits & (state::ALLOC | state::DISCARDED | state::EH_FRAME) == state::ALLOC {
                self.sections.add_state(section, state::ALIVE);
            }
        }
        if self.mode.pic && member.words != 0 {
            let counts = &needs.dynamic[file.index()];
            counts.relative.fetch_add(member.words, Relaxed);
        }
        true
    }

    /// Scans fixups that are all in one section.
    fn scan(&self, section: SectionRef, fixups: Fixups, needs: &Needs, found: &mut Found) {
        let SectionRef {
            id,
            file,
            number,
            object,
            ..
        } = section;
        let input = self.files.get(file);
        let (first_global, slot_base) = (object.first_global(), input.slot_base);
        let symbol_count = object.symbol_count();
        // What a fixup asks for is seen by the instruction before its place.
        let bytes = object.bytes_beside_fixups(number);
        if bytes.is_empty() {
            self.refuse_outside(id, fixups);
        }
        let (mut relative, mut symbolic, mut irelative) = (0, 0, 0);
        let packs =
            self.mode.pack && relocation_action::packs(object, number, self.sections.state(id));
        let mut skip = false;
        let mut index = 0;
        fixups.for_each(|fixup| {
            index += 1;
            if std::mem::take(&mut skip) {
                return;
            }
            // The most frequent sort: nothing is needed but the section.
            if let Target::Symbol(n) = fixup.target
                && is_distance(fixup.r_type)
                && (first_global..symbol_count).contains(&n)
            {
                let symbol = self.symbols.at(slot_base, first_global, n);
                if symbol != SymbolId::NONE
                    && self.ordinary(usage::DISTANCE, self.symbols.facts(symbol))
                        == Some(Demand::NONE)
                {
                    self.reach_symbol(symbol, &mut found.queue);
                    return;
                }
            }
            let Some((symbol, bits, reached)) = self.target_of(section, slot_base, &fixup) else {
                return;
            };
            match symbol {
                Some(symbol) => self.reach_symbol(symbol, &mut found.queue),
                None => self.reach(reached, &mut found.queue),
            }
            if bits.has(Bound::UNDEFINED)
                && let Some(symbol) = symbol
            {
                found.undefined.push(UndefinedReference {
                    symbol,
                    section: id,
                    offset: fixup.offset,
                    r_type: fixup.r_type,
                });
                // Where that is no error the dynamic linker may look for it.
                if !bits.has(Bound::IMPORTED) {
                    return;
                }
            }
            let next = || {
                fixups.get(index).map(|next| NextReloc {
                    offset: next.offset,
                    r_type: next.r_type,
                })
            };
            let plan = plan(
                self.mode,
                bytes,
                fixup.offset,
                fixup.r_type,
                fixup.addend,
                bits,
                next,
            );
            skip = plan.takes_next();
            // Most fixups need nothing.
            let simple = !bits.has(SPECIAL);
            match plan {
                Plan::PcRelative(_) | Plan::Plt(_) | Plan::None | Plan::GotToPc(_) if simple => {}
                Plan::Absolute(Field::Word64) if simple => {
                    if self.mode.pic {
                        if packs && relocation_action::is_packed(fixup.offset) {
                            found.packed.push((id, fixup.offset));
                        } else {
                            relative += 1;
                        }
                        if self.report_relative {
                            found.relative.push((id, fixup.offset, symbol));
                        }
                        self.check_writable(id, &fixup, symbol, needs);
                    }
                }
                _ => {
                    let want = self.want(id, &fixup, symbol, bits, plan, needs);
                    debug_assert!(self.is_as_outlined(bytes, &fixup, bits, want.needs));
                    if self.report_relative && want.relative != 0 {
                        found.relative.push((id, fixup.offset, symbol));
                    }
                    if want.relative != 0 && packs && relocation_action::is_packed(fixup.offset) {
                        found.packed.push((id, fixup.offset));
                    } else {
                        relative += want.relative;
                    }
                    symbolic += want.symbolic;
                    irelative += want.irelative;
                    if !want.needs.is_empty() {
                        match (symbol, fixup.target) {
                            (Some(symbol), _) => self.symbols.add(symbol, want.needs),
                            (None, Target::Symbol(index)) => found.locals.push(LocalNeed {
                                file,
                                index,
                                needs: want.needs,
                            }),
                            (None, Target::Section(_) | Target::Piece(_)) => {
                                self.complain(
                                    id,
                                    &fixup,
                                    format_args!("this relocation needs a symbol"),
                                );
                            }
                        }
                    }
                }
            }
        });
        if relative + symbolic + irelative != 0 && self.sections.state(id) & state::EH_FRAME != 0 {
            // They are united and moved: there is no place that the dynamic linker could be told.
            self.diag.error(format_args!(
                "{input}: .eh_frame has addresses that only the dynamic linker would know (an absolute \
                 personality or function pointer); recompile with -fPIC"
            ));
            return;
        }
        let counts = &needs.dynamic[file.index()];
        if relative != 0 {
            counts.relative.fetch_add(relative, Relaxed);
        }
        if symbolic != 0 {
            counts.symbolic.fetch_add(symbolic, Relaxed);
        }
        if irelative != 0 {
            counts.irelative.fetch_add(irelative, Relaxed);
        }
    }

    /// The global symbol that a fixup refers to, if it is one, its flags, and its section; complains if there is none.
    fn target_of(
        &self,
        section: SectionRef,
        slot_base: u32,
        fixup: &Fixup,
    ) -> Option<(Option<SymbolId>, SymbolFacts, SectionId)> {
        let SectionRef { file, object, .. } = section;
        let first_global = object.first_global();
        let (bits, reached) = match object.referent(fixup.target) {
            Referent::Global(n) => {
                let symbol = self.symbols.at(slot_base, first_global, n);
                if symbol == SymbolId::NONE {
                    self.complain(section.id, fixup, format_args!("{}", Missing::Index(n)));
                    return None;
                }
                let (bits, reached) =
                    (self.symbols.facts(symbol), self.definitions.section(symbol));
                return Some((Some(symbol), bits, reached));
            }
            Referent::Place {
                section: number,
                kind,
                ..
            } => {
                let reached = self.local_section(section.id, file, fixup, number)?;
                (Defined::of_kind(kind).facts(), reached)
            }
            Referent::Piece(piece) => {
                let member = object.member_of(section.number);
                if !member.is_some_and(|member| self.pieces.mark(piece, file, member)) {
                    self.complain(
                        section.id,
                        fixup,
                        format_args!("{}", Missing::Piece(piece.id)),
                    );
                    return None;
                }
                (SymbolFacts::NONE, SectionId::NONE)
            }
            Referent::Absolute { kind, .. } => (
                (Defined::of_kind(kind) | Defined::ABSOLUTE).facts(),
                SectionId::NONE,
            ),
            // The address is the addend.
            Referent::Null => (Defined::ABSOLUTE.facts(), SectionId::NONE),
            Referent::Missing(why) => {
                self.complain(section.id, fixup, format_args!("{why}"));
                return None;
            }
        };
        Some((None, bits, reached))
    }

    /// The section of this number in a file; complains if it is not there, or not in the output.
    fn local_section(
        &self,
        id: SectionId,
        file: FileId,
        fixup: &Fixup,
        number: u32,
    ) -> Option<SectionId> {
        let Some(section) = self.sections.get(file, number) else {
            let missing = describe_missing(number);
            self.complain(id, fixup, format_args!("the symbol is in {missing}"));
            return None;
        };
        if self.sections.state(section) & state::DISCARDED != 0 {
            let (_, own) = self.sections.origin(id);
            let object = self.files.object(file);
            let name = object.section(own).map_or(&b""[..], |section| section.name);
            // Tables of a function that was discarded with it.
            if !name.starts_with(b".gcc_except_table")
                && self.sections.state(id) & state::EH_FRAME == 0
                && let Some(section) = object.section(number)
            {
                self.complain_pardonably(
                    id,
                    fixup,
                    format_args!(
                        "relocation refers to what is defined in discarded section {}: {}",
                        String::from_utf8_lossy(section.name),
                        why_discarded(&section)
                    ),
                );
            }
            return None;
        }
        Some(section)
    }

    /// What a section without bytes refers to is linked, but nothing can be written to it.
    fn refuse_outside(&self, id: SectionId, fixups: Fixups) {
        fixups.for_each(|fixup| {
            if reloc::howto(fixup.r_type).class != Class::None {
                let what = "the relocation is outside of its section, which has no bytes";
                self.complain(id, &fixup, format_args!("{what}"));
            }
        });
    }

    /// Reports an error at a place in a section.
    fn complain(&self, id: SectionId, fixup: &Fixup, what: std::fmt::Arguments) {
        self.diag.error(self.complaint(id, fixup, what));
    }

    /// Reports what `--noinhibit-exec` forgives: the place is left as it is in the input.
    fn complain_pardonably(&self, id: SectionId, fixup: &Fixup, what: std::fmt::Arguments) {
        self.diag.pardonable(self.complaint(id, fixup, what));
    }

    fn complaint(&self, id: SectionId, fixup: &Fixup, what: std::fmt::Arguments) -> String {
        let (file, number) = self.sections.origin(id);
        let place = self.files.get(file).at_fixup(number, fixup);
        format!("{place}: {what}")
    }

    fn target_name(&self, id: SectionId, symbol: Option<SymbolId>, fixup: &Fixup) -> String {
        let (file, _) = self.sections.origin(id);
        let name = match (symbol, fixup.target) {
            (Some(symbol), _) => self.symbols.name(symbol),
            (None, Target::Symbol(index)) => self.files.object(file).symbol_name(index),
            (None, Target::Section(_) | Target::Piece(_)) => b"",
        };
        if name.is_empty() {
            "local symbol".into()
        } else {
            format!("symbol '{}'", self.diag.show_name(name))
        }
    }

    /// A dynamic relocation is needed at the place: is that allowed?
    #[inline]
    fn check_writable(
        &self,
        id: SectionId,
        fixup: &Fixup,
        symbol: Option<SymbolId>,
        needs: &Needs,
    ) {
        if self.sections.state(id) & state::WRITE == 0 {
            self.not_writable(id, fixup, symbol, needs);
        }
    }

    #[cold]
    fn not_writable(&self, id: SectionId, fixup: &Fixup, symbol: Option<SymbolId>, needs: &Needs) {
        needs.text_relocations.store(true, Relaxed);
        match self.text {
            TextRel::Allow => {}
            TextRel::Warn => {
                let section = self.sections.at(self.files, id);
                let name = section.header().map_or(&b""[..], |section| section.name);
                self.diag.warn(format!(
                    "{}: relocation against {} in read-only section `{}'",
                    self.files.get(section.file),
                    self.target_name(id, symbol, fixup),
                    String::from_utf8_lossy(name)
                ));
            }
            TextRel::Error => self.complain(
                id,
                fixup,
                format_args!(
                    "relocation against {} in a read-only section; recompile with -fPIC (or link with -z notext)",
                    self.target_name(id, symbol, fixup)
                ),
            ),
        }
    }

    /// What is needed for a fixup that is not simple.
    fn want(
        &self,
        id: SectionId,
        fixup: &Fixup,
        symbol: Option<SymbolId>,
        bits: SymbolFacts,
        plan: Plan,
        needs: &Needs,
    ) -> Want {
        let mut want = Want::default();
        let imported = bits.has(Bound::IMPORTED);
        match plan {
            Plan::None
            | Plan::GotToPc(_)
            | Plan::GotToImmediate(_)
            | Plan::TlsPairToExec(_)
            | Plan::TlsModuleToExec(_)
            | Plan::TlsSlotToExec(_)
            | Plan::DescriptorToExec(_)
            | Plan::DescriptorCallToNop(_) => {}
            // Somebody else's variable may have grown since.
            Plan::Size(_) => {
                if imported
                    && !bits.has(Bound::UNDEFINED_WEAK)
                    && self.sections.state(id) & state::ALLOC != 0
                {
                    want.symbolic = 1;
                    want.needs |= Demand::DYNSYM;
                    self.check_writable(id, fixup, symbol, needs);
                }
            }
            // The module that a local dynamic access is in is this one.
            Plan::ModuleOffset(_) => {
                let elsewhere = symbol.is_some_and(|symbol| !self.is_here(symbol));
                if imported
                    && elsewhere
                    && !bits.has(Bound::UNDEFINED_WEAK)
                    && self.sections.state(id) & state::ALLOC != 0
                {
                    self.complain(
                        id,
                        fixup,
                        format_args!(
                            "unresolvable relocation against {}, which is not in this module",
                            self.target_name(id, symbol, fixup)
                        ),
                    );
                }
            }
            // What may be missing is nothing to a program that stays where it is linked.
            Plan::Absolute(_) if bits.has(Bound::UNDEFINED_WEAK) && !self.mode.pic => {}
            Plan::Absolute(Field::Word64) => {
                self.want_word(id, fixup, symbol, bits, needs, &mut want)
            }
            Plan::Absolute(_) => {
                let known =
                    bits.has(Defined::ABSOLUTE) || bits.has(Bound::UNDEFINED_WEAK) && !imported;
                if self.mode.pic && !known {
                    self.needs_pic(id, fixup, symbol);
                } else if imported {
                    want.needs |= self.direct(id, fixup, symbol, bits);
                } else if bits.has(Defined::IFUNC) {
                    want.needs |= Demand::PLT | Demand::CANONICAL_PLT;
                }
            }
            Plan::PcRelative(_) | Plan::GotRelative(_) => {
                if matches!(plan, Plan::GotRelative(_)) {
                    needs.got_base.store(true, Relaxed);
                }
                // Nothing takes the place of a hidden weak symbol, and how far address zero is only the loader knows.
                let nowhere =
                    bits.has(Bound::UNDEFINED_WEAK) && self.sections.state(id) & state::WRITE == 0;
                if self.mode.shared && (imported || nowhere) {
                    self.needs_pic(id, fixup, symbol);
                } else if imported {
                    want.needs |= self.direct(id, fixup, symbol, bits);
                } else if bits.has(Defined::IFUNC) {
                    want.needs |= match self.mode.pic {
                        true => Demand::PLT,
                        false => Demand::PLT | Demand::CANONICAL_PLT,
                    };
                } else {
                    self.check_distance(id, fixup, symbol, bits);
                }
            }
            Plan::Plt(_) | Plan::PltGot(_) => {
                if matches!(plan, Plan::PltGot(_)) {
                    needs.got_base.store(true, Relaxed);
                }
                if imported || bits.has(Defined::IFUNC) {
                    want.needs |= Demand::PLT;
                } else {
                    self.check_distance(id, fixup, symbol, bits);
                }
            }
            Plan::GotPc(_) => needs.got_base.store(true, Relaxed),
            Plan::GotOffset(_) | Plan::GotSlot(_) => {
                needs.got_base.store(
                    matches!(plan, Plan::GotOffset(_)) || needs.got_base.load(Relaxed),
                    Relaxed,
                );
                want.needs |= Demand::GOT;
            }
            Plan::TlsPair(_) => want.needs |= Demand::TLSGD,
            Plan::TlsModule(_) => needs.tls_module.store(true, Relaxed),
            Plan::TlsPairToInitial(_) | Plan::TlsSlot(_) | Plan::DescriptorToInitial(_) => {
                want.needs |= Demand::TPOFF;
                if self.mode.shared {
                    needs.static_tls.store(true, Relaxed);
                }
            }
            Plan::TlsOffset(_) => {
                if self.mode.shared {
                    self.needs_pic(id, fixup, symbol);
                } else if imported && !bits.has(Bound::UNDEFINED_WEAK) {
                    self.complain(
                        id,
                        fixup,
                        format_args!(
                            "thread-local {} is defined in a shared object",
                            self.target_name(id, symbol, fixup)
                        ),
                    );
                }
            }
            Plan::TlsDescriptor(_) => want.needs |= Demand::TLSDESC,
            Plan::Impossible(why) => self.complain(id, fixup, format_args!("{why}")),
        }
        self.check_kind(id, fixup, symbol, bits, plan);
        want
    }

    /// What is needed for a word that holds an address: a dynamic relocation where only the loader knows it.
    fn want_word(
        &self,
        id: SectionId,
        fixup: &Fixup,
        symbol: Option<SymbolId>,
        bits: SymbolFacts,
        needs: &Needs,
        want: &mut Want,
    ) {
        if bits.has(Bound::IMPORTED) {
            let writable = self.sections.state(id) & state::WRITE != 0;
            // Without copies, a word in a section that is only read can still be filled in before that.
            let patched = !self.allow_copies
                && self.text != TextRel::Error
                && !symbol.is_some_and(|id| self.is_function(self.symbols.key(id), bits));
            if self.mode.pic || writable || patched {
                want.symbolic = 1;
                want.needs |= Demand::DYNSYM;
                self.check_writable(id, fixup, symbol, needs);
            } else {
                want.needs |= self.direct(id, fixup, symbol, bits);
            }
        } else if bits.has(Defined::IFUNC) {
            if !self.mode.pic {
                want.needs |= Demand::PLT | Demand::CANONICAL_PLT;
            } else if bits.has(Demand::CANONICAL_PLT) {
                want.relative = 1;
                self.check_writable(id, fixup, symbol, needs);
            } else {
                want.irelative = 1;
                self.check_writable(id, fixup, symbol, needs);
            }
        } else if self.mode.pic && !bits.has(Defined::ABSOLUTE | Bound::UNDEFINED_WEAK) {
            want.relative = 1;
            self.check_writable(id, fixup, symbol, needs);
        }
    }

    /// Reports a thread-local relocation against what is not thread-local, and the other way round.
    fn check_kind(
        &self,
        id: SectionId,
        fixup: &Fixup,
        symbol: Option<SymbolId>,
        bits: SymbolFacts,
        plan: Plan,
    ) {
        let tls = reloc::howto(fixup.r_type).class.is_tls();
        let wrong = match tls {
            true => {
                !bits.has(Defined::TLS | Bound::IMPORTED | Bound::UNDEFINED_WEAK)
                    && !self.is_tls_section_symbol(id, fixup)
            }
            false => {
                bits.has(Defined::TLS)
                    && !matches!(plan, Plan::Size(_) | Plan::None | Plan::Impossible(_))
            }
        };
        if wrong {
            let kind = if tls {
                "not thread-local"
            } else {
                "thread-local"
            };
            self.complain(
                id,
                fixup,
                format_args!("{} is {kind}", self.target_name(id, symbol, fixup)),
            );
        }
    }

    /// Defined in the output.
    fn is_here(&self, symbol: SymbolId) -> bool {
        let key = self.symbols.key(symbol);
        key.in_object() || key.rank() == rank::LINKER
    }

    /// A section symbol has no type of its own.
    fn is_tls_section_symbol(&self, id: SectionId, fixup: &Fixup) -> bool {
        let (file, _) = self.sections.origin(id);
        let object = self.files.object(file);
        let number = match object.own_referent(fixup.target) {
            Referent::Place { section, .. } => section,
            Referent::Piece(..) => return false,
            // Local dynamic accesses may name anything.
            _ => {
                return fixup.r_type == reloc::R_X86_64_TLSLD
                    || fixup.r_type == reloc::R_X86_64_TLSDESC_CALL;
            }
        };
        object
            .section(number)
            .is_some_and(|section| section.flags & shf::TLS != 0)
            || matches!(fixup.r_type, reloc::R_X86_64_TLSLD)
    }

    /// Reports a reference by distance to what does not move with an output that does. What a script or `--defsym` makes
    /// a number may be meant as a place from the output's beginning.
    fn check_distance(
        &self,
        id: SectionId,
        fixup: &Fixup,
        symbol: Option<SymbolId>,
        bits: SymbolFacts,
    ) {
        let scripted = symbol.is_some_and(|id| {
            let key = self.symbols.key(id);
            key.rank() == rank::LINKER || key == Key::MADE_BEFORE
        });
        if bits.has(Defined::ABSOLUTE)
            && self.mode.pic
            && !scripted
            && fixup.target != Target::Symbol(0)
        {
            self.complain(
                id,
                fixup,
                format_args!(
                    "the distance to absolute {} is not known; recompile with -fPIC",
                    self.target_name(id, symbol, fixup)
                ),
            );
        }
    }

    /// A symbol of a shared object is used as if it were in the executable: data is copied there, a function
    /// gets its PLT entry as address.
    fn direct(
        &self,
        id: SectionId,
        fixup: &Fixup,
        symbol: Option<SymbolId>,
        bits: SymbolFacts,
    ) -> Demand {
        let Some(symbol) = symbol else {
            return Demand::NONE;
        };
        let key = self.symbols.key(symbol);
        if key.rank() != rank::SHARED {
            // Undefined and weak, or ignored: the address is zero, and how far that is from here only the loader knows.
            if self.mode.pic {
                self.needs_pic(id, fixup, Some(symbol));
            }
            return Demand::NONE;
        }
        let is_unneeded = self.unneeded.get(key.file().index());
        if is_unneeded.is_some_and(|is_unneeded| *is_unneeded) && !bits.has(Referred::STRONGLY) {
            return Demand::NONE;
        }
        let shared = self.files.get(key.file());
        let object = shared.shared();
        let is_protected = object.is_some_and(|object| object.is_protected(key.index()));
        if self.is_function(key, bits) {
            // The object itself goes on to take the function's own address, and the two would not be equal.
            if is_protected {
                self.complain(
                    id,
                    fixup,
                    format_args!(
                        "non-canonical reference to canonical protected function: {} in {shared}; recompile with -fPIC",
                        self.target_name(id, Some(symbol), fixup)
                    ),
                );
            }
            return Demand::PLT | Demand::CANONICAL_PLT;
        }
        if bits.has(Defined::TLS) {
            return Demand::NONE;
        }
        if is_protected && !self.allow_protected_copies {
            self.complain(
                id,
                fixup,
                format_args!(
                    "copy relocation against non-copyable protected {} in {shared}; recompile with -fPIC",
                    self.target_name(id, Some(symbol), fixup)
                ),
            );
        }
        if !self.allow_copies {
            self.complain(
                id,
                fixup,
                format_args!(
                    "{} would need a copy relocation; recompile with -fPIC",
                    self.target_name(id, Some(symbol), fixup)
                ),
            );
        }
        if object.is_some_and(|object| object.has_no_extent(key.index())) {
            self.complain(
                id,
                fixup,
                format_args!(
                    "type and size of {} are not defined in {shared}, so that it cannot be copied; recompile with -fPIC",
                    self.target_name(id, Some(symbol), fixup)
                ),
            );
        }
        Demand::COPY
    }

    /// What has neither type nor size, as labels of assembly, is taken for a function if it lies in code.
    fn is_function(&self, key: Key, bits: SymbolFacts) -> bool {
        if bits.has(Defined::FUNCTION) {
            return true;
        }
        let shared = self.files.definer(key).and_then(File::shared);
        shared.is_some_and(|shared| {
            shared.has_no_extent(key.index()) && !shared.is_in_data(key.index())
        })
    }

    #[cold]
    fn needs_pic(&self, id: SectionId, fixup: &Fixup, symbol: Option<SymbolId>) {
        let (what, how) = match self.mode.shared {
            true => ("a shared object", "-fPIC"),
            false => (
                "a PIE object",
                "-fPIE (for use in shared objects as well, recompile with -fPIC)",
            ),
        };
        self.complain(
            id,
            fixup,
            format_args!(
                "relocation against {} can not be used when making {what}; recompile with {how}",
                self.target_name(id, symbol, fixup)
            ),
        );
    }
}

#[derive(Default)]
struct Want {
    needs: Demand,
    relative: u32,
    symbolic: u32,
    irelative: u32,
}
