//! What of a compilation belongs to one definition: what the repository is to keep under the definition's digest.
//!
//! The fragment with the definition's symbol, and what is bound to it that nobody else can name. If among that is anything that is not
//! clearly the definition's own, it is not kept: the definition is compiled again each time.

use super::graft::{is_shared_pointer, range};
use format_spec::digest::Digest;
use format_spec::fragment::SectionKind;
use pruning::graph::Flags;
use pruning::memo::{Binding, Member, NONE, New, Symbol};
use pruning::protocol::{Defined, Report, State};
use rustc_hash::{FxHashMap, FxHashSet};
use store::program::build::{Compilation, Place, Target};

const SHF_WRITE: u32 = 1;
const STT_SECTION: u8 = 3;
const STB_GLOBAL: u8 = 1 << 4;

/// What is to be stored, and what is not.
#[derive(Default)]
pub struct Bundles {
    /// By the definitions' digests.
    pub kept: Vec<([u8; 32], New)>,
    /// Names, and why not.
    pub refused: Vec<(String, String)>,
}

struct Bundler<'c, 'a> {
    from: &'c Compilation<'a>,
    digests: &'c [Digest],
    report: &'c Report,
    defined: FxHashMap<&'c [u8], &'c Defined>,
    member_of_section: Vec<u32>,
    symbols_of: Vec<Vec<u32>>,
    members_of_group: Vec<Vec<u32>>,
}

/// What is to be stored of the definitions that were compiled, and why nothing of the others is.
/// `from` has the names by which the report knows them; `digests` are those of its fragments.
pub fn bundles(from: &Compilation<'_>, digests: &[Digest], report: &Report) -> Bundles {
    let mut bundler = Bundler {
        from,
        digests,
        report,
        defined: (report.definitions.iter())
            .map(|defined| (defined.name.as_bytes(), defined))
            .collect(),
        member_of_section: vec![0; from.sections.len()],
        symbols_of: vec![Vec::new(); from.fragments.len()],
        members_of_group: vec![Vec::new(); from.groups.len()],
    };
    for (member, fragment) in from.fragments.iter().enumerate() {
        bundler.member_of_section[range(&fragment.sections)].fill(member as u32);
        if let Some(group) = (fragment.group as usize).checked_sub(1) {
            bundler.members_of_group[group].push(member as u32);
        }
    }
    for (index, symbol) in from.symbols.iter().enumerate() {
        if let Place::Section(section) = symbol.place
            && symbol.info & 15 != STT_SECTION
        {
            let member = bundler.member_of_section[section as usize];
            bundler.symbols_of[member as usize].push(index as u32);
        }
    }
    let mut kept = Vec::new();
    let mut refused = Vec::new();
    for index in from.first_global..from.symbols.len() as u32 {
        let name = from.name(from.symbols[index as usize].name);
        let Some(defined) = bundler.defined.get(name) else {
            continue;
        };
        let flags = Flags(defined.flags);
        let is_never = flags.has(Flags::NEVER) || flags.has(Flags::LOCAL);
        // An alias is kept with its function.
        if defined.state != State::New || is_never || defined.alias_of.is_some() {
            continue;
        }
        let Some(digest) = Digest::from_hex(&defined.digest) else {
            continue;
        };
        match bundler.bundle(index) {
            Ok(memo) => kept.push((digest.0, memo)),
            Err(why) => refused.push((defined.name.clone(), why.to_owned())),
        }
    }
    Bundles { kept, refused }
}

impl Bundler<'_, '_> {
    fn bundle(&self, symbol: u32) -> Result<New, &'static str> {
        let from = self.from;
        let Place::Section(section) = from.symbols[symbol as usize].place else {
            return Err("it is in no section");
        };
        let main = self.member_of_section[section as usize];
        let mut members = vec![main];
        let mut place = FxHashMap::from_iter([(main, 0_u32)]);
        let mut at = 0;
        while let Some(&member) = members.get(at) {
            at += 1;
            self.check(member, main, symbol)?;
            for (target, bound) in self.bound(member) {
                let to = &from.symbols[bound as usize];
                let is_own = match target {
                    Target::Global(name) => is_shared_pointer(from.name(name)),
                    _ => true,
                };
                match to.place {
                    Place::Section(section) if is_own => {
                        let next = self.member_of_section[section as usize];
                        place.entry(next).or_insert_with(|| {
                            members.push(next);
                            members.len() as u32 - 1
                        });
                    }
                    _ if is_own && !matches!(target, Target::Global(_)) => {
                        return Err("it is bound to what is in no section");
                    }
                    _ => {}
                }
            }
        }
        let group = from.fragments[main as usize].group;
        if let Some(group) = (group as usize).checked_sub(1)
            && !self.members_of_group[group]
                .iter()
                .all(|m| place.contains_key(m))
        {
            return Err("its section group has others");
        }
        self.memo(symbol, &members, &place)
    }

    /// The bindable targets of a member, and what they are bound to.
    fn bound(&self, member: u32) -> impl Iterator<Item = (Target, u32)> + '_ {
        let fragment = &self.from.fragments[member as usize];
        let targets = self.from.targets[range(&fragment.targets)].iter().copied();
        let bindings = &self.from.bindings[range(&fragment.bindings)];
        targets.zip(bindings.iter().copied())
    }

    /// Whether this is the name of an alias of the function `symbol`.
    fn is_alias(&self, name: &[u8], symbol: u32) -> bool {
        let function = self.defined.get(name).and_then(|alias| alias.alias_of);
        let function = function.and_then(|at| self.report.definitions.get(at as usize));
        let own = self.from.name(self.from.symbols[symbol as usize].name);
        function.is_some_and(|function| function.name.as_bytes() == own)
    }

    /// Whether a member can be part of the definition `symbol`.
    fn check(&self, member: u32, main: u32, symbol: u32) -> Result<(), &'static str> {
        let from = self.from;
        let fragment = &from.fragments[member as usize];
        let is_main = member == main;
        let mut is_pointer = false;
        for &index in &self.symbols_of[member as usize] {
            let other = &from.symbols[index as usize];
            let name = from.name(other.name);
            if index == symbol {
                continue;
            }
            if index >= from.first_global {
                if is_main && self.is_alias(name, symbol) {
                    continue;
                }
                if is_main || !is_shared_pointer(name) {
                    return Err(
                        "it shares a section with another definition, or needs one by its place",
                    );
                }
                is_pointer = true;
                continue;
            }
            if name.starts_with(b".L") {
                continue;
            }
            let Place::Section(section) = other.place else {
                continue;
            };
            let is_text = from.sections[section as usize].kind == SectionKind::Text;
            let known = self.defined.get(name);
            let is_internal = known.is_some_and(|defined| {
                let flags = Flags(defined.flags);
                flags.has(Flags::LOCAL) && !flags.has(Flags::NEVER)
            });
            if is_main || !is_text || !is_internal {
                return Err("it has, or needs, a local symbol that may be others', too");
            }
        }
        for section in &from.sections[range(&fragment.sections)] {
            let name = from.name(section.name);
            if !is_main
                && section.sh_flags & SHF_WRITE != 0
                && !is_pointer
                && !name.starts_with(b".data.rel.ro")
            {
                return Err("it needs data that may be others', too");
            }
            if matches!(section.kind, SectionKind::InitArray | SectionKind::Debug) {
                return Err("it is part of a list");
            }
        }
        let own_group = from.fragments[main as usize].group;
        if fragment.group != 0 && fragment.group != own_group && !is_pointer {
            return Err("it needs what is in another section group");
        }
        Ok(())
    }

    fn memo(
        &self,
        symbol: u32,
        members: &[u32],
        place: &FxHashMap<u32, u32>,
    ) -> Result<New, &'static str> {
        let from = self.from;
        let mut memo = New {
            members: Vec::with_capacity(members.len()),
            symbols: Vec::new(),
            bindings: Vec::new(),
            groups: Vec::new(),
            dependents: Vec::new(),
            alignments: Vec::new(),
        };
        let mut symbol_at: FxHashMap<u32, u32> = FxHashMap::default();
        let mut groups: FxHashMap<u32, u32> = FxHashMap::default();
        let mut outside: FxHashSet<u32> = FxHashSet::default();
        let own = members.iter().flat_map(|m| &self.symbols_of[*m as usize]);
        for &index in std::iter::once(&symbol).chain(own) {
            self.symbol(index, place, &mut memo, &mut symbol_at);
        }
        for &member in members {
            let fragment = &from.fragments[member as usize];
            let group = match fragment.group {
                0 => 0,
                group => *groups.entry(group).or_insert_with(|| {
                    let of = &from.groups[group as usize - 1];
                    memo.groups
                        .push((from.name(of.signature).to_vec(), of.flags));
                    memo.groups.len() as u32
                }),
            };
            memo.members.push(Member {
                fragment: self.digests[member as usize],
                suffix: from.name(fragment.suffix).to_vec(),
                group,
                bindings: fragment.bindings.len() as u32,
            });
            for (_, bound) in self.bound(member) {
                let to = &from.symbols[bound as usize];
                if to.info & 15 == STT_SECTION && bound < from.first_global {
                    let Place::Section(section) = to.place else {
                        return Err("a section symbol is in no section");
                    };
                    let of = self.member_of_section[section as usize];
                    let Some(of_place) = place.get(&of) else {
                        return Err("it needs a section of others");
                    };
                    let first = from.fragments[of as usize].sections.start;
                    memo.bindings
                        .push(Binding::Section(*of_place, section - first));
                    continue;
                }
                let number = self.symbol(bound, place, &mut memo, &mut symbol_at);
                memo.bindings.push(Binding::Symbol(number));
                let is_outside = memo.symbols[number as usize].member == NONE;
                if is_outside && to.place != Place::Undefined && outside.insert(bound) {
                    self.outside(bound, &mut memo);
                }
            }
        }
        Ok(memo)
    }

    /// Notes what another definition of this compilation is, or must be, for the code to be right.
    fn outside(&self, bound: u32, memo: &mut New) {
        let from = self.from;
        let to = &from.symbols[bound as usize];
        let name = from.name(to.name);
        let flags = self.defined.get(name).map(|defined| Flags(defined.flags));
        if flags.is_some_and(|flags| flags.has(Flags::DISCARDABLE)) {
            memo.dependents.push(name.to_vec());
        }
        if let Place::Section(section) = to.place {
            let section = &from.sections[section as usize];
            if section.kind != SectionKind::Text && section.align_log2 > 0 {
                memo.alignments
                    .push((name.to_vec(), section.align_log2.into()));
            }
        }
    }

    /// The number of a symbol in the memo.
    fn symbol(
        &self,
        index: u32,
        place: &FxHashMap<u32, u32>,
        memo: &mut New,
        symbol_at: &mut FxHashMap<u32, u32>,
    ) -> u32 {
        let from = self.from;
        *symbol_at.entry(index).or_insert_with(|| {
            let symbol = &from.symbols[index as usize];
            let mut new = Symbol {
                name: from.name(symbol.name).to_vec(),
                member: NONE,
                section: 0,
                info: symbol.info,
                other: symbol.other,
                bits: symbol.bits,
                value: 0,
                size: 0,
            };
            let inside = match symbol.place {
                Place::Section(section) => {
                    let member = self.member_of_section[section as usize];
                    place.get(&member).map(|place| (member, *place, section))
                }
                _ => None,
            };
            if let Some((member, place, section)) = inside {
                new.member = place;
                new.section = section - from.fragments[member as usize].sections.start;
                (new.value, new.size) = (symbol.value, symbol.size);
            } else if symbol.place != Place::Undefined {
                // Whoever defines it says what it is.
                (new.info, new.other) = (STB_GLOBAL, 0);
            }
            memo.symbols.push(new);
            memo.symbols.len() as u32 - 1
        })
    }
}
