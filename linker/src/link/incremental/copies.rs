//! Variables of shared objects of which a program comes to have a copy: what code that is not made for shared objects refers to
//! directly.
//!
//! A full link leaves room for some, where those are that can be written to, and where those are that are only read when the
//! program has been started. The copy must be everybody's: it has all names that the variable has in its library, and others find
//! it by them ([`exports`](super::exports)).

use super::export::{Export, Exported};
use super::needs::{Needed, NewNeeds};
use super::reason::Reason;
use super::state::{DAMAGED, Facts, NameRecord};
use super::world::World;
use crate::base::ids::SymbolId;
use crate::elf::hash_tables::gnu_hash;
use crate::elf::{Sym, c, version_tables};
use crate::input::shared_object::Shared;
use crate::layout::placement;
use crate::resolve::output_sections::Std;
use crate::resolve::symbol_facts::Demand;

/// A variable of a shared object.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    /// Its library.
    library: Vec<u8>,
    size: u64,
    align: u64,
    read_only: bool,
    /// The library goes on to use its own.
    is_protected: bool,
    /// All its names, the one that is needed first.
    names: Vec<OneName>,
}

/// One name of a variable.
#[derive(Clone, Debug)]
struct OneName {
    name: Vec<u8>,
    st_info: u8,
    size: u64,
    version: Option<Vec<u8>>,
}

/// Where a copy is.
pub(super) struct CopyPlace {
    pub address: u64,
    /// A relocation is to be made: it is not there yet.
    pub is_new: bool,
}

impl Variable {
    /// The symbol `index` of a shared object, if that is one that can be copied.
    pub fn new(shared: &Shared, index: u32) -> Option<Variable> {
        let symbol = shared.syms.get(index as usize)?;
        if !matches!(symbol.kind(), c::STT_OBJECT | c::STT_COMMON) || symbol.st_size == 0 {
            return None;
        }
        let place = |symbol: &Sym| (symbol.st_shndx, symbol.st_value);
        let name = |index: u32| {
            let symbol = shared.syms.get(index as usize)?;
            // `environ` of libc is as weak in the copy.
            let binding = match symbol.binding() {
                c::STB_WEAK => c::STB_WEAK,
                _ => c::STB_GLOBAL,
            };
            Some(OneName {
                name: shared.name(index).to_vec(),
                st_info: binding << 4 | symbol.kind(),
                size: symbol.st_size,
                version: shared.version(index).map(<[u8]>::to_vec),
            })
        };
        let is_other = |other: &u32| {
            *other != index
                && shared.is_defined(*other)
                && shared.is_default(*other)
                && shared
                    .syms
                    .get(*other as usize)
                    .is_some_and(|other| place(other) == place(symbol))
        };
        let others = shared.globals().filter(is_other);
        Some(Variable {
            library: shared.soname.to_vec(),
            size: symbol.st_size,
            align: shared.alignment(index),
            read_only: shared.is_read_only(index),
            is_protected: shared.is_protected(index),
            names: std::iter::once(index)
                .chain(others)
                .filter_map(name)
                .collect(),
        })
    }

    /// Whether it is called so.
    pub fn is_called(&self, name: &[u8]) -> bool {
        self.names.iter().any(|known| known.name == name)
    }

    /// Finds a place for its copy, and how others find it: by these names, of which the hashes are told.
    ///
    /// # Errors
    /// If it cannot be copied, or there is no room.
    pub fn copy(
        &self,
        world: &World,
        facts: &mut Facts,
        symbol: SymbolId,
        needed: &mut Needed,
        new: &mut NewNeeds,
    ) -> Result<(CopyPlace, Vec<(Export, u32)>), Reason> {
        let show = || String::from_utf8_lossy(&self.names[0].name).into_owned();
        if self.is_protected {
            return Err(format!("{} is protected, and would be copied", show()).into());
        }
        let mut there: Option<NameRecord> = None;
        for other in &self.names[1..] {
            let Some((_, record)) = world.name(&other.name) else {
                continue;
            };
            if !record.facts.has(Demand::COPY) {
                // It would be the copy from now on.
                let other = String::from_utf8_lossy(&other.name);
                return Err(format!("{} would be copied, and so {other}", show()).into());
            }
            there = Some(record);
        }
        if let Some(there) = there {
            // Others find it by all names already.
            let place = CopyPlace {
                address: there.address,
                is_new: false,
            };
            return Ok((place, Vec::new()));
        }
        let [at, end] = &mut facts.spare_copies[usize::from(self.read_only)];
        let (address, behind) = placement::append(*at, self.size, self.align);
        if self.align > 64 || behind > *end {
            return Err("there is no room for more copies of variables".into());
        }
        *at = behind;
        let std = match self.read_only {
            true => Std::DataRelRo,
            false => Std::Bss,
        };
        let mut exports = Vec::with_capacity(self.names.len());
        for (number, name) in self.names.iter().enumerate() {
            let version = match &name.version {
                None => version_tables::GLOBAL,
                Some(version) => needed.version(&self.library, version, new)?,
            };
            let export = Export {
                what: Exported::Copy {
                    symbol: (number == 0).then_some(symbol),
                    name: name.name.clone(),
                    sym: Sym {
                        st_info: name.st_info,
                        st_value: address,
                        st_size: name.size,
                        ..bytemuck::Zeroable::zeroed()
                    },
                    std,
                },
                version,
                index: 0,
            };
            exports.push((export, gnu_hash(&name.name)));
        }
        let place = CopyPlace {
            address,
            is_new: true,
        };
        Ok((place, exports))
    }
}

/// The number in `.dynsym` of a name of a variable that is copied already.
pub(super) fn number_of(
    output_symbols: &[Sym],
    strings: &[u8],
    name: &[u8],
) -> Result<u32, Reason> {
    let is_it = |symbol: &Sym| {
        let text = strings.get(symbol.st_name as usize..);
        symbol.st_shndx != c::SHN_UNDEF
            && text.is_some_and(|text| text.split(|byte| *byte == 0).next() == Some(name))
    };
    let found = output_symbols.iter().position(is_it).ok_or(DAMAGED)?;
    u32::try_from(found).map_err(|_| DAMAGED.into())
}
