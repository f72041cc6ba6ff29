//! What a fixup asks for, given what its symbol turned out to be.
//!
//! The scan needs to know it, to reserve slots and dynamic relocations, and the
//! writer needs to know it, to compute the value. Both call [`plan`], so they
//! cannot disagree. It looks at the fixup, the symbol's [`SymbolFacts`] and the
//! instruction's bytes only, nothing that the scan itself finds out.

use crate::elf::x86_64::relax::{
    self, GotLoad, NextReloc, TlsDescCall, TlsDescLea, TlsGd, TlsIe, TlsLd,
};
use crate::elf::x86_64::reloc::{self, Class, Field, Howto, howto};
use crate::input::object::Object;
use crate::resolve::input_sections::state;
use crate::resolve::output_sections::runs_backwards;
use crate::resolve::symbol_facts::{Bound, Defined, SymbolFacts};

/// An image that is smaller than this can be reached from everywhere in it by a signed 32-bit distance, gaps included.
pub const NEAR: u64 = 0x7800_0000;

/// What decides about relocations for the whole output.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// The output can be loaded at any address.
    pub pic: bool,
    /// The output is a shared object.
    pub shared: bool,
    /// Instructions may be relaxed.
    pub relax: bool,
    /// Relative relocations go into `.relr.dyn`, where [`is_packed`] allows it.
    pub pack: bool,
}

/// Whether a type means the distance to the symbol in 32 bits, if there is no PLT entry.
#[inline(always)]
pub fn is_distance(r_type: u32) -> bool {
    r_type == reloc::R_X86_64_PC32 || r_type == reloc::R_X86_64_PLT32
}

/// Whether relative relocations of an input section may be in `.relr.dyn`. The scan counts by this rule and the writer
/// writes by it, before and after addresses are known: so places are even by the section's alignment or not at all.
pub fn packs(object: &Object, number: u32, bits: u8) -> bool {
    bits & state::WRITE != 0
        && bits & state::EH_FRAME == 0
        && object
            .section(number)
            .is_some_and(|section| section.align.is_multiple_of(2) && !runs_backwards(section.name))
}

/// Whether the table takes a place at this offset in a section that [`packs`]. (Others need `R_X86_64_RELATIVE`.)
#[inline]
pub const fn is_packed(offset: u64) -> bool {
    offset.is_multiple_of(2)
}

/// What is done for a fixup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing.
    None,
    /// S + A in this field.
    Absolute(Field),
    /// S + A − P.
    PcRelative(Field),
    /// L + A − P.
    Plt(Field),
    /// L + A − GOT.
    PltGot(Field),
    /// S + A − GOT.
    GotRelative(Field),
    /// GOT + A − P.
    GotPc(Field),
    /// G + A.
    GotOffset(Field),
    /// G + GOT + A − P.
    GotSlot(Field),
    /// The instruction takes the address itself, relative to the place.
    GotToPc(GotLoad),
    /// The instruction takes the address itself, as an immediate operand.
    GotToImmediate(GotLoad),
    /// Z + A.
    Size(Field),
    /// General dynamic access, as it is.
    TlsPair(Field),
    /// General dynamic to local exec; the next fixup belongs to it.
    TlsPairToExec(TlsGd),
    /// General dynamic to initial exec; the next fixup belongs to it.
    TlsPairToInitial(TlsGd),
    /// Local dynamic access, as it is.
    TlsModule(Field),
    /// Local dynamic to local exec; the next fixup belongs to it.
    TlsModuleToExec(TlsLd),
    /// Offset in the module's TLS block.
    ModuleOffset(Field),
    /// Initial exec, as it is.
    TlsSlot(Field),
    /// Initial exec to local exec.
    TlsSlotToExec(TlsIe),
    /// Offset from the thread pointer.
    TlsOffset(Field),
    /// TLS descriptor, as it is.
    TlsDescriptor(Field),
    /// TLS descriptor to local exec.
    DescriptorToExec(TlsDescLea),
    /// TLS descriptor to initial exec.
    DescriptorToInitial(TlsDescLea),
    /// Call through a descriptor that is no more.
    DescriptorCallToNop(TlsDescCall),
    /// Not possible: the psABI has no such relocation, or a sequence that must be rewritten is not what
    /// the psABI says it is.
    Impossible(&'static str),
}

impl Plan {
    /// Whether the fixup after this one is used up.
    pub fn takes_next(self) -> bool {
        matches!(
            self,
            Plan::TlsPairToExec(_) | Plan::TlsPairToInitial(_) | Plan::TlsModuleToExec(_)
        )
    }
}

/// Decides. `bytes` are those of the section up to the fixup's instruction at least; `next` gives the fixup
/// that follows.
#[inline(always)]
pub fn plan(
    mode: Mode,
    bytes: &[u8],
    offset: u64,
    r_type: u32,
    addend: i64,
    symbol: SymbolFacts,
    next: impl FnOnce() -> Option<NextReloc>,
) -> Plan {
    let Howto { class, field } = howto(r_type);
    match class {
        Class::PcRelative => Plan::PcRelative(field),
        Class::PltPcRelative => Plan::Plt(field),
        Class::Absolute => Plan::Absolute(field),
        Class::GotSlotPcRelative => got_slot(mode, bytes, offset, r_type, addend, symbol, field),
        Class::None => Plan::None,
        _ => {
            let place = (bytes, offset, r_type, addend);
            rare(mode, place, symbol, (class, field), next())
        }
    }
}

#[inline]
fn got_slot(
    mode: Mode,
    bytes: &[u8],
    offset: u64,
    r_type: u32,
    addend: i64,
    symbol: SymbolFacts,
    field: Field,
) -> Plan {
    let keeps_slot = Plan::GotSlot(field);
    if !mode.relax || symbol.has(Bound::IMPORTED | Defined::IFUNC) {
        return keeps_slot;
    }
    let Some(load) = relax::got_load(bytes, offset, r_type, addend) else {
        return keeps_slot;
    };
    let fixed = symbol.has(Defined::ABSOLUTE | Bound::UNDEFINED_WEAK);
    // The distance to a number is known only if the place does not move; and zero is near enough to be loaded as such.
    if fixed {
        return match symbol.has(Bound::UNDEFINED_WEAK) && load.can_be_immediate() {
            true => Plan::GotToImmediate(load),
            false => keeps_slot,
        };
    }
    if load.can_be_pc_relative() {
        Plan::GotToPc(load)
    } else if !mode.pic && load.can_be_immediate() {
        Plan::GotToImmediate(load)
    } else {
        keeps_slot
    }
}

/// The fixups that few sections have: `place` is the section's bytes, the offset in them, the type and the addend.
#[cold]
fn rare(
    mode: Mode,
    place: (&[u8], u64, u32, i64),
    symbol: SymbolFacts,
    (class, field): (Class, Field),
    next: Option<NextReloc>,
) -> Plan {
    let (bytes, offset, r_type, addend) = place;
    let imported = symbol.has(Bound::IMPORTED);
    // An executable has no use for the general models, and a static one no `__tls_get_addr`: `--no-relax` does not
    // concern them.
    let may_relax = !mode.shared;
    match class {
        Class::PltGotRelative => Plan::PltGot(field),
        Class::GotRelative => Plan::GotRelative(field),
        Class::GotPcRelative => Plan::GotPc(field),
        Class::GotSlotOffset => Plan::GotOffset(field),
        Class::Size => Plan::Size(field),
        Class::TlsGeneralDynamic => match relax::tls_gd(bytes, offset, addend, next) {
            Some(sequence) if may_relax && imported => Plan::TlsPairToInitial(sequence),
            Some(sequence) if may_relax => Plan::TlsPairToExec(sequence),
            _ => Plan::TlsPair(field),
        },
        Class::TlsLocalDynamic => match relax::tls_ld(bytes, offset, addend, next) {
            Some(sequence) if may_relax => Plan::TlsModuleToExec(sequence),
            // The offsets in the block are made into offsets from the thread pointer for the whole output.
            None if may_relax => {
                Plan::Impossible("the local dynamic TLS sequence is not one that the psABI defines")
            }
            _ => Plan::TlsModule(field),
        },
        Class::TlsModuleOffset => Plan::ModuleOffset(field),
        Class::TlsInitialExec => match relax::tls_ie(bytes, offset, r_type, addend) {
            Some(access) if may_relax && !imported => Plan::TlsSlotToExec(access),
            _ => Plan::TlsSlot(field),
        },
        Class::TlsOffset => Plan::TlsOffset(field),
        Class::TlsDescriptor => match relax::tlsdesc_lea(bytes, offset, r_type, addend) {
            Some(access) if may_relax && imported => Plan::DescriptorToInitial(access),
            Some(access) if may_relax => Plan::DescriptorToExec(access),
            None if may_relax => {
                Plan::Impossible("the TLS descriptor sequence is not one that the psABI defines")
            }
            _ => Plan::TlsDescriptor(field),
        },
        Class::TlsDescriptorCall => match relax::tlsdesc_call(bytes, offset) {
            Some(call) if may_relax => Plan::DescriptorCallToNop(call),
            None if may_relax => Plan::Impossible(
                "the call through a TLS descriptor is not one that the psABI defines",
            ),
            _ => Plan::None,
        },
        Class::Dynamic => Plan::Impossible("this relocation is for dynamic linkers only"),
        _ => Plan::Impossible("unknown relocation type"),
    }
}
