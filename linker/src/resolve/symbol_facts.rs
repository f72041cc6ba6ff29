//! What is known of a symbol, in four parts that come one after the other:
//!
//! 1. [`Defined`]: what its definition is, and
//! 2. [`Referred`]: what the files say that mention it. Both are found when definitions are chosen
//!    ([`resolution`](crate::resolve::resolution)).
//! 3. [`Bound`]: whether it is this output's own, somebody else's, or nobody's. That follows from the first two and the options
//!    ([`binding`](crate::resolve::binding)).
//! 4. [`Demand`]: what must be made for it: slots, entries, a copy. That is found by tracing ([`trace`](crate::graph::trace)), and
//!    depends on who refers to it and is linked.
//!
//! Each part is a type, so that it is seen which one is meant, and an incremental link can take from the last link what was defined
//! and bound, and find anew which entries the changed files need. Some is known earlier: who is made local by a version script before
//! all others are bound, and with the binding that an IFUNC which others see needs a PLT entry; and some later: other names of a
//! variable that is copied are imported, too. Scripts refer to symbols and define them. The four stand in one word, [`SymbolFacts`]: for each fixup
//! several are asked for, and one load is what that may cost.

use bytemuck::{Pod, Zeroable};
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// All that is known of a symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct SymbolFacts(u32);

/// One of the four parts.
pub trait Part: Into<SymbolFacts> + Copy {
    /// The bits of this part in [`SymbolFacts`].
    const ALL: SymbolFacts;
}

impl SymbolFacts {
    /// Nothing.
    pub const NONE: SymbolFacts = SymbolFacts(0);

    /// What a shared object refers to or defines: it may be seen from outside.
    pub const BY_SHARED: SymbolFacts = SymbolFacts::NONE
        .and(Referred::BY_SHARED.facts())
        .and(Defined::BY_SHARED.facts());

    /// These and others.
    pub const fn and(self, others: SymbolFacts) -> SymbolFacts {
        SymbolFacts(self.0 | others.0)
    }

    /// Those of them that are among some.
    #[inline(always)]
    pub fn among(self, some: impl Into<SymbolFacts>) -> SymbolFacts {
        SymbolFacts(self.0 & some.into().0)
    }

    /// Those of them that are not among some.
    #[inline(always)]
    pub fn without(self, some: impl Into<SymbolFacts>) -> SymbolFacts {
        SymbolFacts(self.0 & !some.into().0)
    }

    /// Whether one of some is among them.
    #[inline(always)]
    pub fn has(self, some: impl Into<SymbolFacts>) -> bool {
        self.0 & some.into().0 != 0
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// As they stand in the symbol table.
    pub(super) fn to_bits(self) -> u32 {
        self.0
    }

    /// Of what stands in the symbol table.
    pub(super) fn of_bits(bits: u32) -> SymbolFacts {
        SymbolFacts(bits)
    }
}

/// As they stand in the symbol table: a number for messages about what cannot be.
impl fmt::Display for SymbolFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl<P: Into<SymbolFacts>> BitOr<P> for SymbolFacts {
    type Output = SymbolFacts;

    #[inline(always)]
    fn bitor(self, others: P) -> SymbolFacts {
        self.and(others.into())
    }
}

impl<P: Into<SymbolFacts>> BitOrAssign<P> for SymbolFacts {
    #[inline(always)]
    fn bitor_assign(&mut self, others: P) {
        *self = *self | others;
    }
}

macro_rules! part {
    (
        $(#[$about:meta])*
        $part:ident { $($(#[$meaning:meta])* $name:ident = $bit:literal,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $part(u32);

        impl $part {
            $($(#[$meaning])* pub const $name: $part = $part(1 << $bit);)*

            /// These and others.
            pub const fn and(self, others: $part) -> $part {
                $part(self.0 | others.0)
            }

            /// As a part of all that is known.
            pub const fn facts(self) -> SymbolFacts {
                SymbolFacts(self.0)
            }
        }

        impl Part for $part {
            const ALL: SymbolFacts = SymbolFacts(0 $(| 1 << $bit)*);
        }

        impl From<$part> for SymbolFacts {
            #[inline(always)]
            fn from(part: $part) -> SymbolFacts {
                part.facts()
            }
        }

        impl From<SymbolFacts> for $part {
            /// This part of all that is known.
            #[inline(always)]
            fn from(facts: SymbolFacts) -> $part {
                $part(facts.0 & $part::ALL.0)
            }
        }

        impl BitOr for $part {
            type Output = $part;

            #[inline(always)]
            fn bitor(self, others: $part) -> $part {
                self.and(others)
            }
        }

        impl BitOrAssign for $part {
            #[inline(always)]
            fn bitor_assign(&mut self, others: $part) {
                *self = *self | others;
            }
        }
    };
}

part! {
    /// What a symbol's definition is.
    Defined {
        /// The winning definition is thread-local.
        TLS = 7,
        /// The winning definition is `STT_GNU_IFUNC` in an object.
        IFUNC = 8,
        /// The winning definition is a function.
        FUNCTION = 9,
        /// Its value is a number that does not move with the image.
        ABSOLUTE = 10,
        /// A shared object defines it (perhaps not the one that is used), and nothing of another kind
        /// ([`Defined::UNLIKE_SHARED`]).
        BY_SHARED = 6,
        /// What an object defines here as a variable a shared object defines, in a version, as a function, or the other
        /// way round: whoever means that version must not get this.
        UNLIKE_SHARED = 27,
    }
}

part! {
    /// What the files say of a symbol that mention it.
    Referred {
        /// Some reference or definition in an object says `STV_PROTECTED`.
        PROTECTED = 0,
        /// … `STV_HIDDEN`.
        HIDDEN = 1,
        /// … `STV_INTERNAL`.
        INTERNAL = 2,
        /// A linked object refers to it.
        BY_OBJECT = 3,
        /// A linked object refers to it, not weakly.
        STRONGLY = 4,
        /// A shared object refers to it.
        BY_SHARED = 5,
        /// A shared object refers to it, and to no version of it.
        PLAINLY_BY_SHARED = 26,
    }
}

part! {
    /// Whose a symbol is.
    Bound {
        /// Not defined here, or may be preempted: the run-time linker decides.
        IMPORTED = 11,
        /// In the dynamic symbol table as a definition.
        EXPORTED = 12,
        /// Made local by a version script or `--exclude-libs`.
        FORCED_LOCAL = 13,
        /// Undefined and weak, with value zero.
        UNDEFINED_WEAK = 22,
        /// Not defined, which is said if a section that is kept refers to it.
        UNDEFINED = 24,
    }
}

part! {
    /// What must be made for a symbol.
    Demand {
        /// A slot in `.got`.
        GOT = 14,
        /// A PLT entry.
        PLT = 15,
        /// Its PLT entry is its address, for everyone.
        CANONICAL_PLT = 16,
        /// A copy relocation.
        COPY = 17,
        /// A slot with its offset from the thread pointer.
        TPOFF = 18,
        /// A `tls_index` pair.
        TLSGD = 19,
        /// A TLS descriptor.
        TLSDESC = 20,
        /// Some relocation kept for the dynamic linker names it.
        DYNSYM = 23,
        /// With `--gc-sections`, a symbol that is in no section itself: something that is linked refers to it.
        REACHED = 28,
    }
}

macro_rules! may_be_none {
    ($($part:ident)*) => {$(
        impl $part {
            /// Nothing.
            pub const NONE: $part = $part(0);

            /// Whether there are none.
            #[inline(always)]
            pub fn is_empty(self) -> bool {
                self.0 == 0
            }
        }
    )*};
}

may_be_none!(Defined Referred Demand);

macro_rules! mixed {
    ($($one:ident: $($other:ident)*;)*) => {$($(
        impl BitOr<$other> for $one {
            type Output = SymbolFacts;

            #[inline(always)]
            fn bitor(self, others: $other) -> SymbolFacts {
                self.facts().and(others.facts())
            }
        }
    )*)*};
}

mixed! {
    Defined: Referred Bound Demand;
    Referred: Defined Bound Demand;
    Bound: Defined Referred Demand;
    Demand: Defined Referred Bound;
}

impl Referred {
    /// Some linked object says one of these: the symbol is not others' to define.
    pub const NOT_DEFAULT: Referred = Referred::NOT_EXPORTED.and(Referred::PROTECTED);
    /// Some linked object says one of these: the symbol is not for others to see.
    pub const NOT_EXPORTED: Referred = Referred::HIDDEN.and(Referred::INTERNAL);
}

impl Demand {
    /// Anything that takes a slot or entry.
    pub const ENTRY: Demand = Demand::GOT
        .and(Demand::PLT)
        .and(Demand::CANONICAL_PLT)
        .and(Demand::COPY)
        .and(Demand::TPOFF)
        .and(Demand::TLSGD)
        .and(Demand::TLSDESC);
    /// Anything for which the dynamic linker must find the symbol, if it is not bound here.
    pub const OF_DYNAMIC_LINKER: Demand = Demand::ENTRY.and(Demand::DYNSYM);
}

impl Defined {
    /// What of the type of a symbol relocations need to know beside its address.
    #[inline(always)]
    pub fn of_kind(kind: u8) -> Defined {
        match kind {
            crate::elf::c::STT_TLS => Defined::TLS,
            crate::elf::c::STT_GNU_IFUNC => Defined::IFUNC,
            _ => Defined::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_has_what_another_has() {
        let parts = [Defined::ALL, Referred::ALL, Bound::ALL, Demand::ALL];
        let bits: u32 = parts.iter().map(|part| part.0.count_ones()).sum();
        let all = parts.into_iter().fold(SymbolFacts::NONE, SymbolFacts::and);
        assert_eq!(bits, all.0.count_ones());
        for (number, part) in parts.into_iter().enumerate() {
            let of_it = [
                Defined::from(part).facts(),
                Referred::from(part).facts(),
                Bound::from(part).facts(),
                Demand::from(part).facts(),
            ];
            for (other, facts) in of_it.into_iter().enumerate() {
                assert_eq!(facts.is_empty(), other != number);
            }
        }
    }
}
