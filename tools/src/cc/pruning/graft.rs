//! A whole compilation, of what the compiler has generated and of what the repository had.

use format_spec::digest::Digest;
use format_spec::program::Index;
use pruning::memo::{Binding, Found, NONE};
use rustc_hash::FxHashMap;
use std::ops::Range;
use store::program::ProgramError;
use store::program::Programs;
use store::program::build::{
    Compilation, Fixups, Fragment, Group, Name, Piece, Place, Section, Symbol, Target,
};

/// The section that says that an object is not whole (`passes.cpp`).
const PARTIAL: &[u8] = b".repo.partial";
/// The symbol that makes linkers refuse it.
const PARTIAL_SYMBOL: &[u8] = b"this_object_is_not_whole__repo_cc_was_interrupted";

const STT_SECTION: u8 = 3;
const STB_WEAK: u8 = 2;

/// Why no whole compilation could be made.
#[derive(Debug, thiserror::Error)]
pub enum GraftError {
    /// What was found does not fit together.
    #[error("{0}")]
    Misfit(String),
    /// The repository.
    #[error(transparent)]
    Repository(#[from] ProgramError),
}

fn misfit(what: impl Into<String>) -> GraftError {
    GraftError::Misfit(what.into())
}

/// A symbol of the compilation to be.
#[derive(Clone, Copy)]
enum Reference {
    Local(u32),
    Section(u32),
    Global(u32),
    Nothing,
}

/// What tells an internal function from others of its translation unit: its fragment, its symbols (name, section, value), and what
/// it is bound to (a global name, or a local one with its fragment and section, or a section).
#[derive(PartialEq, Eq, Hash)]
struct Internal<'a> {
    fragment: u64,
    symbols: Vec<(&'a [u8], u32, u64)>,
    bindings: Vec<(&'a [u8], u64, u32)>,
}

impl<'a> Internal<'a> {
    /// If all symbols of a memo's member are local, and there are some.
    fn of_memo(memo: &Found<'a>, member: u32, bindings: &[Binding]) -> Option<Internal<'a>> {
        let own = || memo.symbols.iter().filter(|symbol| symbol.member == member);
        if own().next().is_none() || own().any(|symbol| is_global(symbol.info)) {
            return None;
        }
        let fragment = |member: u32| match member {
            NONE => 0,
            member => memo.members[member as usize].fragment.0,
        };
        let bindings = bindings.iter().map(|binding| match *binding {
            Binding::Symbol(symbol) => {
                let symbol = &memo.symbols[symbol as usize];
                match is_global(symbol.info) {
                    true => (symbol.name, 0, 0),
                    false => (symbol.name, fragment(symbol.member), symbol.section),
                }
            }
            Binding::Section(member, section) => (&[][..], fragment(member), section),
        });
        Some(Internal {
            fragment: fragment(member),
            symbols: own().map(|s| (s.name, s.section, s.value)).collect(),
            bindings: bindings.collect(),
        })
    }

    /// The same of what was compiled; `address_of` says where the repository has a member.
    fn of_compiled(
        from: &Compilation<'a>,
        fragment: &Fragment,
        own: &[u32],
        member_of: &[u32],
        address: u64,
        address_of: impl Fn(u32) -> Option<u64>,
    ) -> Option<Internal<'a>> {
        let place = |symbol: &Symbol| match symbol.place {
            Place::Section(section) => {
                let member = member_of[section as usize];
                let first = from.fragments[member as usize].sections.start;
                Some((address_of(member)?, section - first))
            }
            _ => Some((0, 0)),
        };
        let bound = from.bindings[range(&fragment.bindings)].iter();
        let bindings = bound.map(|bound| {
            let symbol = &from.symbols[*bound as usize];
            let name = from.name(symbol.name);
            if is_global(symbol.info) {
                return Some((name, 0, 0));
            }
            let (address, section) = place(symbol)?;
            let is_section = symbol.info & 15 == STT_SECTION;
            Some((if is_section { &[][..] } else { name }, address, section))
        });
        let symbols = own.iter().map(|symbol| {
            let symbol = &from.symbols[*symbol as usize];
            let (_, section) = place(symbol)?;
            (!is_global(symbol.info)).then(|| (from.name(symbol.name), section, symbol.value))
        });
        Some(Internal {
            fragment: address,
            symbols: symbols.collect::<Option<_>>()?,
            bindings: bindings.collect::<Option<_>>()?,
        })
    }
}

fn is_global(info: u8) -> bool {
    info >> 4 != 0
}

/// A compilation that grows.
pub struct Graft<'a> {
    out: Compilation<'a>,
    names: FxHashMap<&'a [u8], Name>,
    pieces: FxHashMap<Piece<'a>, u32>,
    locals: Vec<Symbol>,
    section_symbols: FxHashMap<u32, u32>,
    sections_with_symbols: Vec<(u32, Symbol)>,
    globals: Vec<Symbol>,
    global_of: FxHashMap<&'a [u8], u32>,
    bindings: Vec<Reference>,
    /// By address: members without symbols, bound to what is global only.
    shared: FxHashMap<u64, u32>,
    /// Internal functions that several definitions have come to use (what they inlined called them): the member, and its symbols.
    internals: FxHashMap<Internal<'a>, (u32, Vec<Reference>)>,
    /// Variables, and how they must be aligned.
    alignments: Vec<(&'a [u8], u32)>,
    /// How many definitions came from the repository.
    pub grafted: u32,
}

impl<'a> Graft<'a> {
    /// Begins with what the compiler has generated, whose fragments have these digests.
    ///
    /// # Errors
    /// If it does not fit together, or the repository is damaged.
    pub fn new(
        partial: &Compilation<'a>,
        digests: &[Digest],
        programs: &Programs<'a>,
    ) -> Result<Graft<'a>, GraftError> {
        let mut graft = Graft {
            out: Compilation {
                machine: partial.machine,
                os_abi: partial.os_abi,
                abi_version: partial.abi_version,
                e_flags: partial.e_flags,
                bits: partial.bits,
                names: vec![&[]],
                ..Compilation::default()
            },
            names: FxHashMap::from_iter([(&[][..], Name(0))]),
            pieces: FxHashMap::default(),
            locals: Vec::new(),
            section_symbols: FxHashMap::default(),
            sections_with_symbols: Vec::new(),
            globals: Vec::new(),
            global_of: FxHashMap::default(),
            bindings: Vec::new(),
            shared: FxHashMap::default(),
            internals: FxHashMap::default(),
            alignments: Vec::new(),
            grafted: 0,
        };
        let symbols = graft.partial(partial)?;
        graft.compiled_parts(partial, digests, programs, &symbols)?;
        Ok(graft)
    }

    fn name(&mut self, name: &'a [u8]) -> Name {
        let names = &mut self.out.names;
        *self.names.entry(name).or_insert_with(|| {
            names.push(name);
            Name(names.len() as u32 - 1)
        })
    }

    fn piece(&mut self, from: &Compilation<'a>, number: u32) -> u32 {
        let old = from.pieces[number as usize];
        let piece = Piece {
            section_name: self.name(from.name(old.section_name)),
            ..old
        };
        let pieces = &mut self.out.pieces;
        *self.pieces.entry(piece).or_insert_with(|| {
            pieces.push(piece);
            pieces.len() as u32 - 1
        })
    }

    /// Copies a member's sections, fixups and targets; returns its number. `anonymous` says where members went.
    fn member(
        &mut self,
        from: &Compilation<'a>,
        fragment: &Fragment,
        suffix: &'a [u8],
        group: u32,
        anonymous: impl Fn(u32) -> Option<u32>,
    ) -> Result<u32, GraftError> {
        let first_section = self.out.sections.len() as u32;
        for section in &from.sections[range(&fragment.sections)] {
            let fixups = copy_fixups(from, &section.fixups, &mut self.out);
            let name = self.name(from.name(section.name));
            self.out.sections.push(Section {
                name,
                fixups,
                frame: None,
                ..section.clone()
            });
        }
        let first_target = self.out.targets.len() as u32;
        for target in &from.targets[range(&fragment.targets)] {
            let target = match *target {
                Target::Global(name) => Target::Global(self.name(from.name(name))),
                Target::Local(name) => Target::Local(self.name(from.name(name))),
                Target::OwnNamed(name) => Target::OwnNamed(self.name(from.name(name))),
                Target::OwnAnonymous(member) => Target::OwnAnonymous(
                    anonymous(member).ok_or_else(|| misfit("an anonymous part is missing"))?,
                ),
                Target::Section(section) => Target::Section(section),
                Target::Piece(piece) => Target::Piece(self.piece(from, piece)),
            };
            self.out.targets.push(target);
        }
        let suffix = self.name(suffix);
        self.out.fragments.push(Fragment {
            sections: first_section..self.out.sections.len() as u32,
            targets: first_target..self.out.targets.len() as u32,
            bindings: 0..0,
            suffix,
            group,
            plain: None,
        });
        Ok(self.out.fragments.len() as u32 - 1)
    }

    fn set_bindings(&mut self, member: u32, bindings: impl IntoIterator<Item = Reference>) {
        let start = self.bindings.len() as u32;
        self.bindings.extend(bindings);
        let end = self.bindings.len() as u32;
        self.out.fragments[member as usize].bindings = start..end;
    }

    fn section_symbol(&mut self, section: u32, bits: u16) -> Reference {
        let all = &mut self.sections_with_symbols;
        let number = *self.section_symbols.entry(section).or_insert_with(|| {
            let symbol = Symbol {
                name: Name(0),
                place: Place::Section(section),
                value: 0,
                size: 0,
                info: STT_SECTION,
                other: 0,
                bits: 0,
            };
            all.push((section, symbol));
            all.len() as u32 - 1
        });
        all[number as usize].1.bits |= bits;
        Reference::Section(number)
    }

    fn global(&mut self, name: &'a [u8], mut symbol: Symbol) -> Result<Reference, GraftError> {
        symbol.name = self.name(name);
        let Some(number) = self.global_of.get(name).copied() else {
            self.globals.push(symbol);
            let number = self.globals.len() as u32 - 1;
            self.global_of.insert(name, number);
            return Ok(Reference::Global(number));
        };
        let there = &mut self.globals[number as usize];
        let bits = there.bits | symbol.bits;
        match (there.place, symbol.place) {
            (_, Place::Undefined) if there.place != Place::Undefined => {}
            (Place::Undefined, Place::Undefined) => {
                // As strong, as typed and as hidden as any of them.
                let (a, b) = (there.info >> 4, symbol.info >> 4);
                let strength = if a == STB_WEAK { b } else { a };
                let kind = (there.info & 15).max(symbol.info & 15);
                there.info = strength << 4 | kind;
                there.other |= symbol.other;
            }
            (Place::Undefined, _) => *there = symbol,
            _ => {
                let name = String::from_utf8_lossy(name);
                return Err(misfit(format!("{name} is there twice")));
            }
        }
        self.globals[number as usize].bits = bits;
        Ok(Reference::Global(number))
    }

    /// Notes the internal functions and shared parts that were compiled, so that what comes from the repository does not bring them
    /// once more.
    fn compiled_parts(
        &mut self,
        from: &Compilation<'a>,
        digests: &[Digest],
        programs: &Programs<'a>,
        symbols: &[Reference],
    ) -> Result<(), GraftError> {
        let mut addresses = Vec::with_capacity(digests.len());
        for digest in digests {
            let record = programs.snapshot().get(Index::Fragments.slot(), digest);
            let record = record.map_err(ProgramError::from)?;
            addresses.push(record.map(|record| record.address.0));
        }
        let mut member_of = vec![0; from.sections.len()];
        for (member, fragment) in from.fragments.iter().enumerate() {
            member_of[range(&fragment.sections)].fill(member as u32);
        }
        let mut symbols_of: Vec<Vec<u32>> = vec![Vec::new(); from.fragments.len()];
        for (index, symbol) in from.symbols.iter().enumerate().skip(1) {
            if let Place::Section(section) = symbol.place
                && symbol.info & 15 != STT_SECTION
            {
                symbols_of[member_of[section as usize] as usize].push(index as u32);
            }
        }
        // Left out is at most what says that the object is not whole.
        let mut number = 0;
        for (member, fragment) in from.fragments.iter().enumerate() {
            if is_left_out(from, fragment) {
                continue;
            }
            number += 1;
            let own = &symbols_of[member];
            let Some(address) = addresses[member] else {
                continue;
            };
            if own.is_empty() {
                let mut bound = from.bindings[range(&fragment.bindings)].iter();
                let is_shared = fragment.group == 0
                    && bound.all(|bound| is_global(from.symbols[*bound as usize].info));
                if is_shared {
                    self.shared.insert(address, number - 1);
                }
                continue;
            }
            let address_of = |member: u32| addresses[member as usize];
            let internal =
                Internal::of_compiled(from, fragment, own, &member_of, address, address_of);
            if let Some(internal) = internal {
                let references = own.iter().map(|symbol| symbols[*symbol as usize]);
                self.internals
                    .insert(internal, (number - 1, references.collect()));
            }
        }
        Ok(())
    }

    /// Copies what was compiled; what has become of its symbols.
    fn partial(&mut self, from: &Compilation<'a>) -> Result<Vec<Reference>, GraftError> {
        for group in &from.groups {
            let signature = self.name(from.name(group.signature));
            self.out.groups.push(Group {
                signature,
                flags: group.flags,
            });
        }
        // Anonymous parts may stand behind those that refer to them.
        let mut next = 0;
        let number_of: Vec<Option<u32>> = from
            .fragments
            .iter()
            .map(|fragment| {
                if is_left_out(from, fragment) {
                    return None;
                }
                next += 1;
                Some(next - 1)
            })
            .collect();
        let mut section_of = vec![None; from.sections.len()];
        for fragment in &from.fragments {
            if is_left_out(from, fragment) {
                continue;
            }
            let suffix = from.name(fragment.suffix);
            let number = self.member(from, fragment, suffix, fragment.group, |member| {
                number_of.get(member as usize).copied().flatten()
            })?;
            let new = self.out.fragments[number as usize].sections.clone();
            for (old, new) in fragment.sections.clone().zip(new) {
                section_of[old as usize] = Some(new);
            }
        }
        let mut symbols = vec![Reference::Nothing];
        for (index, symbol) in from.symbols.iter().enumerate().skip(1) {
            let name = from.name(symbol.name);
            let place = match symbol.place {
                Place::Section(section) => match section_of[section as usize] {
                    Some(section) => Place::Section(section),
                    None => {
                        symbols.push(Reference::Nothing);
                        continue;
                    }
                },
                Place::Piece(piece) => Place::Piece(self.piece(from, piece)),
                other => other,
            };
            if name == PARTIAL_SYMBOL {
                symbols.push(Reference::Nothing);
                continue;
            }
            let new = Symbol {
                name: Name(0),
                place,
                ..*symbol
            };
            let is_local = (index as u32) < from.first_global;
            symbols.push(match place {
                Place::Section(section) if is_local && symbol.info & 15 == STT_SECTION => {
                    self.section_symbol(section, symbol.bits)
                }
                _ if is_local => {
                    let name = self.name(name);
                    self.locals.push(Symbol { name, ..new });
                    Reference::Local(self.locals.len() as u32 - 1)
                }
                _ => self.global(name, new)?,
            });
        }
        for (index, fragment) in from.fragments.iter().enumerate() {
            let Some(member) = number_of[index] else {
                continue;
            };
            let bindings = from.bindings[range(&fragment.bindings)].iter();
            let bindings: Vec<_> = bindings.map(|symbol| symbols[*symbol as usize]).collect();
            self.set_bindings(member, bindings);
        }
        let order = from.digest_order.iter();
        self.out.digest_order = order
            .filter_map(|member| number_of[*member as usize])
            .collect();
        Ok(symbols)
    }

    /// The names that are needed, and not there.
    pub fn undefined(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        let undefined = self.globals.iter().filter(|s| s.place == Place::Undefined);
        undefined.map(|symbol| self.out.names[symbol.name.0 as usize])
    }

    /// Adds a definition that the repository has.
    pub fn add(&mut self, programs: &Programs<'a>, memo: &Found<'a>) -> Result<(), GraftError> {
        let addresses: Vec<_> = memo.members.iter().map(|member| member.fragment).collect();
        let (parts, order) = programs.load_fragments(&addresses)?;
        let place_of = |address| order.binary_search(&address).ok();
        // In ascending order of addresses, what is referred to by content comes first.
        let mut by_address: Vec<usize> = (0..memo.members.len()).collect();
        by_address.sort_by_key(|member| addresses[*member]);
        let mut first_binding = vec![0; memo.members.len()];
        let mut next = 0;
        for (first, member) in first_binding.iter_mut().zip(&memo.members) {
            *first = next;
            next += member.bindings as usize;
        }
        let bindings_of = |member: usize| {
            let first = first_binding[member];
            &memo.bindings[first..first + memo.members[member].bindings as usize]
        };
        let mut group_of: Vec<u32> = vec![0; memo.groups.len()];
        let mut number_of: Vec<Option<u32>> = vec![None; memo.members.len()];
        let mut of_part: FxHashMap<u32, u32> = FxHashMap::default();
        let mut is_made = vec![false; memo.members.len()];
        let mut internal_of: Vec<Option<Internal<'a>>> = Vec::with_capacity(memo.members.len());
        for at in 0..memo.members.len() {
            internal_of.push(match at {
                0 => None,
                at => Internal::of_memo(memo, at as u32, bindings_of(at)),
            });
        }
        for &at in &by_address {
            let member = &memo.members[at];
            let part = place_of(addresses[at]).ok_or_else(|| misfit("a fragment is missing"))?;
            let is_shared = at > 0
                && member.group == 0
                && !memo.symbols.iter().any(|s| s.member == at as u32)
                && bindings_of(at).iter().all(|binding| match binding {
                    // (A global name is the same for all: that of a routine for exceptions, too, which each object has for itself.)
                    Binding::Symbol(symbol) => is_global(memo.symbols[*symbol as usize].info),
                    Binding::Section(..) => false,
                });
            let known = match (is_shared, &internal_of[at]) {
                (true, _) => self.shared.get(&addresses[at].0).copied(),
                (false, Some(internal)) => self.internals.get(internal).map(|known| known.0),
                (false, None) => self.member_of_pointer(memo, at as u32),
            };
            let number = match known {
                Some(number) => number,
                None => {
                    let mut group = 0;
                    if let Some(own) = (member.group as usize).checked_sub(1) {
                        if group_of[own] == 0 {
                            let (signature, flags) = memo.groups[own];
                            let signature = self.name(signature);
                            self.out.groups.push(Group { signature, flags });
                            group_of[own] = self.out.groups.len() as u32;
                        }
                        group = group_of[own];
                    }
                    let fragment = &parts.fragments[part];
                    if fragment.bindings.len() != member.bindings as usize {
                        return Err(misfit("a fragment has another number of bindings"));
                    }
                    let number =
                        self.member(&parts, fragment, member.suffix, group, |anonymous| {
                            of_part.get(&anonymous).copied()
                        })?;
                    self.out.digest_order.push(number);
                    is_made[at] = true;
                    if is_shared {
                        self.shared.insert(addresses[at].0, number);
                    }
                    number
                }
            };
            of_part.insert(part as u32, number);
            number_of[at] = Some(number);
        }
        let section_at = |graft: &Self, member: u32, section: u32| -> Result<u32, GraftError> {
            let number = number_of[member as usize].unwrap_or_default() as usize;
            let sections = &graft.out.fragments[number].sections;
            match section < sections.len() as u32 {
                true => Ok(sections.start + section),
                false => Err(misfit("a section is missing")),
            }
        };
        let mut symbols = Vec::with_capacity(memo.symbols.len());
        // How many of each member's symbols were met.
        let mut met = vec![0; memo.members.len()];
        for symbol in &memo.symbols {
            // Of what was there already, the symbol was too.
            let is_made = symbol.member == NONE || is_made[symbol.member as usize];
            if let (false, Some(number)) = (is_made, self.global_of.get(symbol.name)) {
                symbols.push(Reference::Global(*number));
                continue;
            }
            if let Some(internal) = internal_of
                .get(symbol.member as usize)
                .and_then(Option::as_ref)
                && !is_made
                && let Some((_, known)) = self.internals.get(internal)
            {
                let met = &mut met[symbol.member as usize];
                symbols.push(known[*met]);
                *met += 1;
                continue;
            }
            let place = match symbol.member {
                NONE => Place::Undefined,
                member => Place::Section(section_at(self, member, symbol.section)?),
            };
            let mut new = Symbol {
                name: Name(0),
                place,
                value: symbol.value,
                size: symbol.size,
                info: symbol.info,
                other: symbol.other,
                bits: symbol.bits,
            };
            symbols.push(if !is_global(symbol.info) {
                new.name = self.name(symbol.name);
                self.locals.push(new);
                Reference::Local(self.locals.len() as u32 - 1)
            } else {
                self.global(symbol.name, new)?
            });
        }
        for at in (0..memo.members.len()).filter(|at| is_made[*at]) {
            let mut bindings = Vec::with_capacity(bindings_of(at).len());
            for binding in bindings_of(at) {
                bindings.push(match *binding {
                    Binding::Symbol(symbol) => symbols[symbol as usize],
                    Binding::Section(member, section) => {
                        let section = section_at(self, member, section)?;
                        self.section_symbol(section, 0)
                    }
                });
            }
            self.set_bindings(number_of[at].unwrap_or_default(), bindings);
        }
        for (at, internal) in internal_of.into_iter().enumerate() {
            if let (true, Some(internal)) = (is_made[at], internal) {
                let own = memo.symbols.iter().zip(&symbols);
                let own = own.filter(|(symbol, _)| symbol.member == at as u32);
                let known = (
                    number_of[at].unwrap_or_default(),
                    own.map(|(_, s)| *s).collect(),
                );
                self.internals.insert(internal, known);
            }
        }
        self.alignments.extend(&memo.alignments);
        self.grafted += 1;
        Ok(())
    }

    /// If a member of a memo is nothing but a pointer that each object has for itself: where that is already.
    fn member_of_pointer(&self, memo: &Found<'a>, member: u32) -> Option<u32> {
        let mut symbols = memo.symbols.iter().filter(|symbol| symbol.member == member);
        let symbol = symbols.next()?;
        if !is_shared_pointer(symbol.name) || symbols.next().is_some() {
            return None;
        }
        let number = *self.global_of.get(symbol.name)?;
        let Place::Section(section) = self.globals[number as usize].place else {
            return None;
        };
        let fragments = &self.out.fragments;
        Some(fragments.partition_point(|fragment| fragment.sections.end <= section) as u32)
    }

    /// The whole.
    ///
    /// # Errors
    /// If a variable is less aligned than code relies on.
    pub fn finish(mut self) -> Result<Compilation<'a>, GraftError> {
        for (name, align) in &self.alignments {
            let Some(number) = self.global_of.get(name) else {
                continue;
            };
            if let Place::Section(section) = self.globals[*number as usize].place
                && u32::from(self.out.sections[section as usize].align_log2) < *align
            {
                let name = String::from_utf8_lossy(name);
                return Err(misfit(format!(
                    "{name} is aligned less than its users expect"
                )));
            }
        }
        let mut symbols = vec![Symbol {
            name: Name(0),
            place: Place::Undefined,
            value: 0,
            size: 0,
            info: 0,
            other: 0,
            bits: 0,
        }];
        symbols.append(&mut self.locals);
        let first_section_symbol = symbols.len() as u32;
        // In the order of their sections, as a splitter has them.
        let mut order: Vec<usize> = (0..self.sections_with_symbols.len()).collect();
        order.sort_by_key(|at| self.sections_with_symbols[*at].0);
        let mut place = vec![0; order.len()];
        for (at, number) in order.iter().enumerate() {
            place[*number] = at as u32;
            symbols.push(self.sections_with_symbols[*number].1);
        }
        let first_global = symbols.len() as u32;
        symbols.append(&mut self.globals);
        self.out.bindings = Vec::with_capacity(self.bindings.len());
        for reference in &self.bindings {
            self.out.bindings.push(match *reference {
                Reference::Local(number) => 1 + number,
                Reference::Section(number) => first_section_symbol + place[number as usize],
                Reference::Global(number) => first_global + number,
                Reference::Nothing => return Err(misfit("something is bound to nothing")),
            });
        }
        // Bindings follow each other in the order of members.
        let mut bindings = Vec::with_capacity(self.out.bindings.len());
        for fragment in &mut self.out.fragments {
            let start = bindings.len() as u32;
            bindings.extend_from_slice(&self.out.bindings[range(&fragment.bindings)]);
            fragment.bindings = start..bindings.len() as u32;
        }
        self.out.bindings = bindings;
        self.out.symbols = symbols;
        self.out.first_global = first_global;
        linker::repository::split::outline(&mut self.out);
        Ok(self.out)
    }
}

/// Whether this is what says that an object is not whole.
fn is_left_out(from: &Compilation<'_>, fragment: &Fragment) -> bool {
    let mut sections = from.sections[range(&fragment.sections)].iter();
    sections.any(|section| from.name(section.name) == PARTIAL)
}

/// Where the language's routine for exceptions is: made for each object that needs it.
pub(super) fn is_shared_pointer(name: &[u8]) -> bool {
    name.starts_with(b"DW.ref.")
}

/// Copies a section's fixups behind those that are there.
pub(super) fn copy_fixups(
    from: &Compilation<'_>,
    fixups: &Fixups,
    out: &mut Compilation<'_>,
) -> Fixups {
    match fixups {
        Fixups::Narrow(all) => {
            let start = out.fixups.len() as u32;
            out.fixups.extend_from_slice(&from.fixups[range(all)]);
            Fixups::Narrow(start..out.fixups.len() as u32)
        }
        Fixups::Wide(all) => {
            let start = out.wide_fixups.len() as u32;
            out.wide_fixups
                .extend_from_slice(&from.wide_fixups[range(all)]);
            Fixups::Wide(start..out.wide_fixups.len() as u32)
        }
    }
}

pub(super) fn range(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
