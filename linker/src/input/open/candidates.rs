//! Which members of archives a link may need, by the archives' own symbol indexes.
//!
//! Of a library such as `libc.a` a link needs one member in ten or less. To take part in resolution
//! ([`resolution`](crate::resolve::resolution)) a member is parsed and all of its names are interned, which for small programs is most of
//! the work. The index says which member defines which name (gABI, "Archive File"); so names alone are followed first: what
//! is linked in any case wants names, each makes the members that define it *candidates*, and these want names in turn.
//! Only candidates are parsed. They are more than what is linked: a name makes all of its definers candidates, where
//! resolution takes one. Resolution, which is exact, then sees the same files in the same order as if all had been opened,
//! without those that it would not have linked.
//!
//! Names are compared by 32 bits of their hashes: that may make a member a candidate in vain, and nothing worse.
//!
//! An index can be wrong: a member was replaced and `ranlib` not run. GNU ld goes by the index, and so do we; but a link that
//! fails is done again with all members ([`link`](crate::link::link)). For large inputs, where most members are needed, this
//! would cost more than it saves: there all members are opened at once.

use super::found::Found;
use super::parse::{Opening, Parsed};
use super::{Input, Library};
use crate::args::{Args, OutputKind};
use crate::input::elf_object::is_bitcode;
use crate::input::file::File;
use crate::input::object::{Object, Source};
use crate::input::parts::RepositoryId;
use format_spec::ids::NameId;
use rustc_hash::FxHashSet;
use tickets::archive::{Archive, ArchiveError, Symbols};

/// With more names in all indexes together, these are not used.
const MOST_NAMES: usize = 1 << 15;

/// With more bytes of inputs, as [`Input::work`] counts them, indexes are not used.
const MOST_WORK: u64 = 16 << 20;

/// How many names are in the indexes of all archives, if candidates are to be looked for.
pub(super) fn indexed_names(inputs: &[Input], work: u64, args: &Args) -> Option<usize> {
    // Objects that are only joined are few.
    if !args.may_trust_tables() || work > MOST_WORK || args.kind == OutputKind::Relocatable {
        return None;
    }
    let names = inputs.iter().map(|input| match input {
        Input::Archive(library) => index(library).map_or(0, |(_, symbols)| symbols.len()),
        Input::Found(_) => 0,
    });
    Some(names.sum()).filter(|names| (1..=MOST_NAMES).contains(names))
}

/// The index of an archive by which its members can be chosen.
fn index<'a>(library: &Library<'a>) -> Option<(Archive<'a>, Symbols<'a>)> {
    if library.state.whole_archive {
        return None;
    }
    let archive = Archive::parse(library.data).ok()?;
    let symbols = archive.symbols()?;
    // An archiver that does not know a compiler's intermediate code finds no symbols in it.
    let first = archive.members().next()?.ok()?;
    let is_code = |data: &[u8]| !is_bitcode(data);
    archive
        .inline_data(&first)
        .is_some_and(is_code)
        .then_some((archive, symbols))
}

/// Parses `inputs` but for members of archives that nothing can want, and tells whether there are such. `names` are wanted in
/// any case. The files are in the order of the inputs, after `linker`. `indexed` is what [`indexed_names`] has counted.
pub(super) fn parse<'a>(
    inputs: Vec<Input<'a>>,
    indexed: usize,
    linker: File<'a>,
    names: &[&[u8]],
    opening: &mut Opening<'a, '_>,
) -> (Vec<File<'a>>, bool) {
    let mut indexes = Indexes::with_room_for(indexed);
    let mut places = vec![Place { input: 0, at: 0 }];
    let mut batch = Vec::new();
    for (input, number) in inputs.into_iter().zip(1..) {
        let listed = match input {
            Input::Found(found) => vec![found],
            Input::Archive(library) => match indexes.add(number, library) {
                Ok(()) => continue,
                Err(library) => library.members(opening.diag),
            },
        };
        places.extend((0..listed.len() as u64).map(|at| Place { input: number, at }));
        batch.extend(listed);
    }
    // Files are large. Memory that is only reserved costs nothing, so that they stay where they are made.
    let mut parsed = Vec::with_capacity(places.len() + indexes.members.len());
    parsed.push(Some(Parsed::File(linker)));
    let mut left_out = true;
    let mut wanted = Wanted::default();
    for name in names {
        indexes.want(name, &mut wanted.members);
    }
    while !batch.is_empty() || !wanted.members.is_empty() {
        let before = parsed.len();
        opening.parse_onto(&mut parsed, std::mem::take(&mut batch));
        let files = || parsed[before..].iter().flatten().filter_map(Parsed::file);
        if files().any(is_intermediate) {
            // What its compiler will want is not known yet.
            wanted.members = indexes.all();
            left_out = false;
        } else {
            files().for_each(|file| wanted.by_file(file, &indexes));
        }
        for member in std::mem::take(&mut wanted.members) {
            match indexes.take(member) {
                Ok(Some((place, found))) => {
                    places.push(place);
                    batch.push(found);
                }
                Ok(None) => {}
                Err(why) => opening.diag.error(why),
            }
        }
    }
    let mut order: Vec<usize> = (0..parsed.len()).collect();
    order.sort_unstable_by_key(|n| places[*n]);
    // Each cycle of the permutation is followed once.
    for start in 0..order.len() {
        let mut at = start;
        while order[at] != start {
            let from = std::mem::replace(&mut order[at], at);
            parsed.swap(at, from);
            at = from;
        }
        order[at] = at;
    }
    let files = parsed.into_iter().filter_map(Parsed::into_file);
    (files.collect(), left_out)
}

fn is_intermediate(file: &File) -> bool {
    let code = file.object().and_then(Object::intermediate_code);
    code.is_some()
}

/// Where a file is among all: the number of the input, and where in the archive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    input: u32,
    at: u64,
}

/// The indexes of all archives.
struct Indexes<'a> {
    libraries: Vec<Indexed<'a>>,
    members: Vec<Member>,
    /// Names, one for each member that defines it. A name that all members of an archive define, as tickets do, is there as often:
    /// so names whose hashes have equal lower bits are chained, and to add one never takes longer.
    names: Vec<Name>,
    /// By the lower bits of a hash: the number of the last such name, plus one; 0 if there is none.
    chains: Vec<u32>,
    /// The headers of the members that are candidates already.
    taken: FxHashSet<(u32, u64)>,
}

struct Indexed<'a> {
    input: u32,
    library: Library<'a>,
    archive: Archive<'a>,
}

/// A name as an index has it.
struct Name {
    hash: u32,
    /// The number of a member that defines it.
    member: u32,
    /// The next one of its chain, as in [`Indexes::chains`].
    next: u32,
}

/// A member as an index has it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Member {
    library: u32,
    /// Of its header.
    offset: u64,
}

impl<'a> Indexes<'a> {
    fn with_room_for(names: usize) -> Self {
        Indexes {
            libraries: Vec::new(),
            members: Vec::new(),
            names: Vec::with_capacity(names),
            chains: vec![0; names.max(1).next_power_of_two()],
            taken: FxHashSet::default(),
        }
    }

    /// Adds an archive's index; gives the archive back if it has none that can be used.
    fn add(&mut self, input: u32, library: Library<'a>) -> Result<(), Library<'a>> {
        let Some((archive, symbols)) = index(&library) else {
            return Err(library);
        };
        let number = self.libraries.len() as u32;
        let before = self.members.len();
        for symbol in symbols {
            let Ok((name, offset)) = symbol else {
                // The members that were added belong to no library.
                self.members[before..].fill(Member {
                    library: u32::MAX,
                    offset: 0,
                });
                return Err(library);
            };
            let member = Member {
                library: number,
                offset,
            };
            if self.members.len() == before || self.members.last() != Some(&member) {
                self.members.push(member);
            }
            self.insert(hash(name), self.members.len() as u32 - 1);
        }
        self.libraries.push(Indexed {
            input,
            library,
            archive,
        });
        Ok(())
    }

    fn insert(&mut self, hash: u32, member: u32) {
        let chain = hash as usize & (self.chains.len() - 1);
        let next = self.chains[chain];
        self.names.push(Name { hash, member, next });
        self.chains[chain] = self.names.len() as u32;
    }

    /// Adds to `found` the members that define a name.
    fn want(&self, name: &[u8], found: &mut Vec<Member>) {
        let hash = hash(name);
        let mut next = self.chains[hash as usize & (self.chains.len() - 1)];
        while let Some(name) = self.names.get((next as usize).wrapping_sub(1)) {
            if name.hash == hash {
                found.push(self.members[name.member as usize]);
            }
            next = name.next;
        }
    }

    /// A member that was not taken before, and its place.
    fn take(&mut self, member: Member) -> Result<Option<(Place, Found<'a>)>, String> {
        let Some(indexed) = self.libraries.get(member.library as usize) else {
            return Ok(None);
        };
        if !self.taken.insert((member.library, member.offset)) {
            return Ok(None);
        }
        let broken = |why: ArchiveError| format!("{}: {why}", indexed.library.path.display());
        let found = indexed.archive.member_at(member.offset).map_err(broken)?;
        let place = Place {
            input: indexed.input,
            at: member.offset,
        };
        Ok(indexed
            .archive
            .inline_data(&found)
            .and_then(|data| indexed.library.listed(found.name, data))
            .map(|found| (place, found)))
    }

    /// All members of all archives, those that no index mentions, too.
    fn all(&self) -> Vec<Member> {
        let libraries = self.libraries.iter().zip(0..);
        let members = libraries.flat_map(|(indexed, library)| {
            let members = indexed.archive.members().map_while(Result::ok);
            members.map(move |member| Member {
                library,
                offset: member.header_offset,
            })
        });
        members.collect()
    }
}

/// What of a name is compared: `f` of `f@V` and `f@@V`.
fn hash(name: &[u8]) -> u32 {
    let end = memchr::memchr(b'@', name).unwrap_or(name.len());
    crate::base::interner::hash_name(&name[..end]) as u32
}

/// What the files so far want.
#[derive(Default)]
struct Wanted {
    members: Vec<Member>,
    /// Names of repositories that were looked up.
    seen: FxHashSet<(RepositoryId, NameId)>,
}

impl Wanted {
    fn by_file(&mut self, file: &File, indexes: &Indexes) {
        file.for_wanted(|index, _| {
            if let Some(Object(Source::Ticket(ticket))) = file.object()
                && let Some(name) = ticket.name_id(index)
                && !self.seen.insert((ticket.repository, name))
            {
                return;
            }
            indexes.want(file.symbol_name(index), &mut self.members);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_makes_all_that_define_it_candidates() {
        let member = |offset| Member { library: 0, offset };
        // Fewer chains than names, so that different names are in one chain.
        let mut indexes = Indexes::with_room_for(4);
        let names: Vec<String> = (0..50).map(|n| format!("own_{n}")).collect();
        for (name, number) in names.iter().zip(0..) {
            indexes.members.push(member(u64::from(number)));
            indexes.insert(hash(b"all"), number);
            indexes.insert(hash(name.as_bytes()), number);
        }
        let wanted = |name: &str| {
            let mut found = Vec::new();
            indexes.want(name.as_bytes(), &mut found);
            found.sort_unstable_by_key(|member| member.offset);
            found.iter().map(|m| m.offset).collect::<Vec<_>>()
        };
        assert_eq!(wanted("all"), (0..50).collect::<Vec<_>>());
        assert_eq!(wanted("all@@V1"), wanted("all"));
        for (name, number) in names.iter().zip(0..) {
            assert_eq!(wanted(name), [number]);
        }
        assert_eq!(wanted("none"), [0; 0]);
    }
}
