//! What a link takes from a shared object.
//!
//! A library is built again whenever somebody works on it, and the programs that use it are linked again for that, though
//! nothing of the library's code is in them. What a link does take is its name, what it needs, which symbols of which
//! versions it has or refers to, and of variables, which a program may have to copy, also their size, their alignment, who
//! else stands at the same address, and whether they can be written to. As long as these are what they were, in the order in
//! which they were, the library counts as the same, wherever in it everything stands by now.

use super::look::is_shared;
use super::state::content_key;
use crate::elf::c;
use crate::input::shared_object::Shared;
use rustc_hash::FxHashMap;

/// What tells inputs apart that are no objects and no archives of objects: of a shared object its interface, of anything else
/// (scripts, above all) all of its bytes.
pub(super) fn key(bytes: &[u8]) -> [u64; 2] {
    let interface = match is_shared(bytes) {
        true => Shared::parse(bytes, b"").ok(),
        false => None,
    };
    match interface {
        Some(shared) => content_key(&describe(&shared)),
        None => content_key(bytes),
    }
}

/// All that a link takes, as bytes which are those of no other interface.
fn describe(shared: &Shared) -> Vec<u8> {
    let mut text = Description(Vec::new());
    // A shared object without a name has that of its path, which the state knows.
    text.flag(shared.has_soname);
    text.string(shared.soname);
    text.number(shared.needed.len() as u64);
    for name in &shared.needed {
        text.string(name);
    }
    for path in [shared.rpath, shared.runpath, shared.audit] {
        text.flag(path.is_some());
        text.string(path.unwrap_or_default());
    }
    let versions: Vec<&[u8]> = shared.defined_versions().collect();
    text.number(versions.len() as u64);
    for name in versions {
        text.string(name);
    }
    let is_warning = |(name, _): &(&[u8], &[u8])| name.starts_with(b".gnu.warning");
    for (name, warning) in shared.sections().filter(is_warning) {
        text.string(name);
        text.string(warning);
    }
    // By address: the first variable that stands there.
    let mut first_at: FxHashMap<u64, u32> = FxHashMap::default();
    for index in shared.globals() {
        let Some(symbol) = shared.syms.get(index as usize) else {
            continue;
        };
        text.string(shared.name(index));
        text.number(u64::from(symbol.st_info) << 8 | u64::from(symbol.st_other));
        text.string(shared.version(index).unwrap_or_default());
        text.flag(shared.is_default(index));
        text.flag(shared.is_defined(index));
        let section = symbol.st_shndx;
        text.number(match section {
            c::SHN_UNDEF | c::SHN_ABS | c::SHN_COMMON => section.into(),
            _ => u64::MAX,
        });
        if matches!(symbol.kind(), c::STT_FUNC | c::STT_GNU_IFUNC) || section == c::SHN_UNDEF {
            text.flag(shared.is_in_data(index));
            continue;
        }
        let first = *first_at.entry(symbol.st_value).or_insert(index);
        text.number(first.into());
        text.number(symbol.st_size);
        text.number(shared.alignment(index));
        text.flag(shared.has_value(index));
        text.flag(shared.is_in_data(index));
        text.flag(shared.is_read_only(index));
        // An absolute symbol's value is what it is.
        text.number(match section {
            c::SHN_ABS => symbol.st_value,
            _ => 0,
        });
    }
    text.0
}

/// Numbers and strings in a row, each with its length.
struct Description(Vec<u8>);

impl Description {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn flag(&mut self, flag: bool) {
        self.0.push(flag.into());
    }

    fn string(&mut self, string: &[u8]) {
        self.number(string.len() as u64);
        self.0.extend_from_slice(string);
    }
}
