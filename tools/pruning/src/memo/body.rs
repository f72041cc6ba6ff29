//! The body of a definition's record (SPEC.md, section 26).
//!
//! In it is only what the fragments do not say: a fragment names what it refers to, so of most symbols that others define nothing is
//! recorded, nor of what is bound to them. There are as many of these records as fragments, and most of those are small.

use super::{Binding, Member, Memo, NONE, Symbol};
use format_spec::envelope::{put_number, take_number};
use format_spec::fragment::{TargetKind, TargetRecord};
use format_spec::ids::{Address, NameId};
use rustc_hash::FxHashMap;

/// A symbol of which no more is known: its `st_info`, `st_other` and bits.
fn symbol(name: NameId, member: u32, (info, other, bits): (u8, u8, u16)) -> Symbol<NameId> {
    Symbol {
        name,
        member,
        section: 0,
        info,
        other,
        bits,
        value: 0,
        size: 0,
    }
}

/// The numbers of a body that are not read yet.
struct Numbers<'b>(&'b [u8]);

impl Numbers<'_> {
    fn wide(&mut self) -> Option<u64> {
        take_number(&mut self.0)
    }

    fn next(&mut self) -> Option<u32> {
        u32::try_from(self.wide()?).ok()
    }

    /// One that may be [`NONE`].
    fn optional(&mut self) -> Option<u32> {
        match self.wide()? {
            0 => Some(NONE),
            number => u32::try_from(number - 1).ok(),
        }
    }

    /// Each has a byte at least, so that no count asks for much room.
    fn list<T>(
        &mut self,
        count: u32,
        mut one: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        (0..count).map(|_| one(self)).collect()
    }
}

/// A symbol that a fragment names and others define, if nothing else is recorded of it: global, of no type.
const OF_OTHERS: (u8, u8, u16) = (1 << 4, 0, 0);

/// What is recorded of a symbol that others define, beside its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Mention {
    /// Its number among those symbols.
    number: u32,
    /// It must be there as well.
    is_dependent: bool,
    /// `st_info`, `st_other` and bits, if they are not [`OF_OTHERS`].
    attributes: Option<(u8, u8, u16)>,
    /// Binary logarithm of its alignment, or 0.
    alignment: u32,
}

impl Mention {
    const DEPENDENT: u64 = 1;
    const ATTRIBUTES: u64 = 2;
    const ALIGNMENT: u64 = 4;
    const FLAG_BITS: u32 = 3;
}

/// What a body says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// Suffix and group of each member.
    members: Vec<(NameId, u32)>,
    /// The symbols that members define.
    pub(super) symbols: Vec<Symbol<NameId>>,
    /// What targets are bound to that are no global symbols.
    bindings: Vec<Binding>,
    groups: Vec<(NameId, u32)>,
    mentions: Vec<Mention>,
}

/// The symbols of a memo that is put together: those that members define, and behind them those that others do.
struct Named {
    number_of: FxHashMap<NameId, u32>,
    next: u32,
}

impl Named {
    fn new(symbols: &[Symbol<NameId>]) -> Named {
        let global = symbols.iter().zip(0..).filter(|(it, _)| it.info >> 4 != 0);
        Named {
            number_of: global
                .map(|(symbol, number)| (symbol.name, number))
                .collect(),
            next: symbols.len() as u32,
        }
    }

    /// The number of the symbol to which a global target of this name is bound, and whether it is a new one.
    fn number(&mut self, name: NameId) -> (u32, bool) {
        match self.number_of.get(&name) {
            Some(number) => (*number, false),
            None => {
                self.number_of.insert(name, self.next);
                self.next += 1;
                (self.next - 1, true)
            }
        }
    }
}

impl Written {
    /// What is to be written of a memo, whose fragments have these bindable targets. `None` if that does not say it all.
    pub(super) fn new(
        memo: &Memo<NameId, Address>,
        targets: &[&[TargetRecord]],
    ) -> Option<Written> {
        let own = memo.symbols.iter().filter(|it| it.member != NONE).count();
        let symbols = memo.symbols[..own].to_vec();
        let mut mentions: Vec<Mention> = (0..)
            .zip(&memo.symbols[own..])
            .map(|(number, symbol)| {
                let attributes = (symbol.info, symbol.other, symbol.bits);
                Mention {
                    number,
                    attributes: (attributes != OF_OTHERS).then_some(attributes),
                    ..Mention::default()
                }
            })
            .collect();
        let others = memo.symbols[own..].iter().map(|symbol| symbol.name);
        let of_name: FxHashMap<NameId, usize> = others.zip(0..).collect();
        for name in &memo.dependents {
            mentions[*of_name.get(name)?].is_dependent = true;
        }
        for (name, align) in &memo.alignments {
            mentions[*of_name.get(name)?].alignment = *align;
        }
        mentions.retain(|it| it.is_dependent || it.attributes.is_some() || it.alignment != 0);
        let mut bindings = Vec::new();
        let all = targets.iter().copied().flatten();
        for (target, binding) in all.zip(&memo.bindings) {
            if target.kind() != Some(TargetKind::Global) {
                bindings.push(*binding);
            }
        }
        let written = Written {
            members: memo
                .members
                .iter()
                .map(|it| (it.suffix, it.group))
                .collect(),
            symbols,
            bindings,
            groups: memo.groups.clone(),
            mentions,
        };
        // What cannot be said so is not what comes of it.
        let fragments: Vec<Address> = memo.members.iter().map(|it| it.fragment).collect();
        (written.complete(&fragments, targets).as_ref() == Some(memo)).then_some(written)
    }

    /// The memo, of these fragments, which have these bindable targets. `None` if they do not fit together.
    pub(super) fn complete(
        &self,
        fragments: &[Address],
        targets: &[&[TargetRecord]],
    ) -> Option<Memo<NameId, Address>> {
        if fragments.len() != self.members.len() || targets.len() != self.members.len() {
            return None;
        }
        let mut memo = Memo {
            members: Vec::with_capacity(self.members.len()),
            symbols: self.symbols.clone(),
            bindings: Vec::new(),
            groups: self.groups.clone(),
            dependents: Vec::new(),
            alignments: Vec::new(),
        };
        let mut named = Named::new(&self.symbols);
        let mut explicit = self.bindings.iter();
        let (mut mentions, mut others) = (self.mentions.iter().peekable(), 0);
        for ((fragment, targets), (suffix, group)) in
            fragments.iter().zip(targets).zip(&self.members)
        {
            memo.members.push(Member {
                fragment: *fragment,
                suffix: *suffix,
                group: *group,
                bindings: targets.len() as u32,
            });
            for target in *targets {
                if target.kind() != Some(TargetKind::Global) {
                    memo.bindings.push(*explicit.next()?);
                    continue;
                }
                let name = NameId(target.value());
                let (number, is_new) = named.number(name);
                memo.bindings.push(Binding::Symbol(number));
                if !is_new {
                    continue;
                }
                let mention = mentions.next_if(|mention| mention.number == others);
                others += 1;
                let attributes = mention.and_then(|mention| mention.attributes);
                let (info, other, bits) = attributes.unwrap_or(OF_OTHERS);
                memo.symbols.push(symbol(name, NONE, (info, other, bits)));
                let Some(mention) = mention else { continue };
                if mention.is_dependent {
                    memo.dependents.push(name);
                }
                if mention.alignment != 0 {
                    memo.alignments.push((name, mention.alignment));
                }
            }
        }
        let is_all = explicit.next().is_none() && mentions.next().is_none();
        (is_all && memo.is_sound()).then_some(memo)
    }

    /// Reads a body.
    pub(super) fn parse(body: &[u8], names: &[NameId]) -> Option<Written> {
        let mut numbers = Numbers(body);
        let [members, symbols, bindings, groups, mentions] = {
            let mut counts = [0; 5];
            for count in &mut counts {
                *count = numbers.next()?;
            }
            counts
        };
        let name = |place: u32| names.get(place as usize).copied();
        let mut number = 0;
        let written = Written {
            members: numbers.list(members, |numbers| {
                // The empty name is the same in all repositories.
                let suffix = match numbers.optional()? {
                    NONE => NameId(0),
                    place => name(place)?,
                };
                Some((suffix, numbers.next()?))
            })?,
            symbols: numbers.list(symbols, |numbers| {
                let first = numbers.next()?;
                let (name, member) = (name(first >> 1)?, numbers.next()?);
                let info = u8::try_from(numbers.next()?).ok()?;
                let mut symbol = symbol(name, member, (info, 0, 0));
                symbol.size = numbers.wide()?;
                if first & 1 != 0 {
                    symbol.section = numbers.next()?;
                    symbol.other = u8::try_from(numbers.next()?).ok()?;
                    symbol.bits = u16::try_from(numbers.next()?).ok()?;
                    symbol.value = numbers.wide()?;
                }
                Some(symbol)
            })?,
            bindings: numbers.list(bindings, |numbers| {
                Some(match (numbers.next()?, numbers.optional()?) {
                    (symbol, NONE) => Binding::Symbol(symbol),
                    (member, section) => Binding::Section(member, section),
                })
            })?,
            groups: numbers.list(groups, |numbers| {
                Some((name(numbers.next()?)?, numbers.next()?))
            })?,
            mentions: numbers.list(mentions, |numbers| {
                let first = numbers.wide()?;
                let skipped = u32::try_from(first >> Mention::FLAG_BITS).ok()?;
                let mut mention = Mention {
                    number: u32::checked_add(number, skipped)?,
                    is_dependent: first & Mention::DEPENDENT != 0,
                    ..Mention::default()
                };
                number = mention.number.checked_add(1)?;
                if first & Mention::ATTRIBUTES != 0 {
                    let info = u8::try_from(numbers.next()?).ok()?;
                    let other = u8::try_from(numbers.next()?).ok()?;
                    let bits = u16::try_from(numbers.next()?).ok()?;
                    mention.attributes = Some((info, other, bits));
                }
                if first & Mention::ALIGNMENT != 0 {
                    mention.alignment = numbers.next()?;
                }
                Some(mention)
            })?,
        };
        numbers.0.is_empty().then_some(written)
    }

    /// The body, and the names of its record; `None` for what has no encoding: values of 63 bits and more.
    pub(super) fn encode(&self) -> Option<(Vec<u8>, Vec<NameId>)> {
        let mut body = Vec::new();
        let mut put = |number: u64| put_number(&mut body, number);
        let (mut names, mut places) = (Vec::new(), FxHashMap::default());
        let mut place = |name: NameId| {
            *places.entry(name).or_insert_with(|| {
                names.push(name);
                names.len() as u64 - 1
            })
        };
        let counts = [
            self.members.len(),
            self.symbols.len(),
            self.bindings.len(),
            self.groups.len(),
            self.mentions.len(),
        ];
        counts.into_iter().for_each(|count| put(count as u64));
        for (suffix, group) in &self.members {
            put(match *suffix {
                NameId(0) => 0,
                suffix => 1 + place(suffix),
            });
            put((*group).into());
        }
        for symbol in &self.symbols {
            if symbol.value >> 62 != 0 || symbol.size >> 62 != 0 {
                return None;
            }
            let rest = [
                symbol.section.into(),
                symbol.other.into(),
                symbol.bits.into(),
                symbol.value,
            ];
            let has_rest = rest != [0; 4];
            put(2 * place(symbol.name) + u64::from(has_rest));
            put(symbol.member.into());
            put(symbol.info.into());
            put(symbol.size);
            if has_rest {
                rest.into_iter().for_each(&mut put);
            }
        }
        for binding in &self.bindings {
            let (first, second) = match *binding {
                Binding::Symbol(symbol) => (symbol, 0),
                Binding::Section(member, section) => (member, u64::from(section) + 1),
            };
            put(first.into());
            put(second);
        }
        for (signature, flags) in &self.groups {
            put(place(*signature));
            put((*flags).into());
        }
        let mut next = 0;
        for mention in &self.mentions {
            let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
            let flags = flag(mention.is_dependent, Mention::DEPENDENT)
                | flag(mention.attributes.is_some(), Mention::ATTRIBUTES)
                | flag(mention.alignment != 0, Mention::ALIGNMENT);
            put(u64::from(mention.number - next) << Mention::FLAG_BITS | flags);
            next = mention.number + 1;
            if let Some((info, other, bits)) = mention.attributes {
                [info.into(), other.into(), u64::from(bits)]
                    .into_iter()
                    .for_each(&mut put);
            }
            if mention.alignment != 0 {
                put(mention.alignment.into());
            }
        }
        Some((body, names))
    }
}

impl<N, F> Memo<N, F> {
    /// Whether all numbers lead to something of it.
    fn is_sound(&self) -> bool {
        let members = self.members.len() as u32;
        let bindings: u64 = self.members.iter().map(|m| u64::from(m.bindings)).sum();
        members > 0
            && bindings == self.bindings.len() as u64
            && self
                .members
                .iter()
                .all(|m| m.group as usize <= self.groups.len())
            && self
                .symbols
                .iter()
                .all(|s| s.member == NONE || s.member < members)
            && self.bindings.iter().all(|binding| match binding {
                Binding::Symbol(symbol) => (*symbol as usize) < self.symbols.len(),
                Binding::Section(member, _) => *member < members,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAGMENTS: [Address; 2] = [Address(0x1000), Address(0x1400)];

    fn target(kind: TargetKind, value: u32) -> TargetRecord {
        TargetRecord::new(kind, value).unwrap()
    }

    /// Of the first member: others' symbols 20 to 22, itself, and the second member's section. Of the second: 20 again, 23, and a
    /// local symbol.
    fn targets() -> [Vec<TargetRecord>; 2] {
        let global = |name| target(TargetKind::Global, name);
        [
            vec![
                global(20),
                global(21),
                global(10),
                target(TargetKind::OwnAnonymous, 0),
                global(22),
            ],
            vec![global(20), target(TargetKind::Local, 11), global(23)],
        ]
    }

    fn sample() -> Memo<NameId, Address> {
        let member = |number: usize, suffix, group, bindings| Member {
            fragment: FRAGMENTS[number],
            suffix: NameId(suffix),
            group,
            bindings,
        };
        Memo {
            members: vec![member(0, 10, 1, 5), member(1, 0, 0, 3)],
            symbols: vec![
                Symbol {
                    size: 77,
                    ..symbol(NameId(10), 0, (0x22, 0, 0))
                },
                Symbol {
                    section: 1,
                    value: 1 << 40,
                    ..symbol(NameId(11), 1, (2, 2, 4))
                },
                symbol(NameId(20), NONE, OF_OTHERS),
                symbol(NameId(21), NONE, (0x20, 0, 4)),
                symbol(NameId(22), NONE, OF_OTHERS),
                symbol(NameId(23), NONE, OF_OTHERS),
            ],
            bindings: vec![
                Binding::Symbol(2),
                Binding::Symbol(3),
                Binding::Symbol(0),
                Binding::Section(1, 0),
                Binding::Symbol(4),
                Binding::Symbol(2),
                Binding::Symbol(1),
                Binding::Symbol(5),
            ],
            groups: vec![(NameId(10), 1)],
            dependents: vec![NameId(20), NameId(21)],
            alignments: vec![(NameId(21), 4), (NameId(23), 3)],
        }
    }

    fn written(memo: &Memo<NameId, Address>) -> Option<(Vec<u8>, Vec<NameId>)> {
        let targets = targets();
        Written::new(memo, &[&targets[0], &targets[1]])?.encode()
    }

    fn read(body: &[u8], names: &[NameId]) -> Option<Memo<NameId, Address>> {
        let targets = targets();
        Written::parse(body, names)?.complete(&FRAGMENTS, &[&targets[0], &targets[1]])
    }

    #[test]
    fn what_is_written_is_read() {
        let (body, names) = written(&sample()).unwrap();
        assert_eq!(names, [NameId(10), NameId(11)]);
        assert_eq!(read(&body, &names), Some(sample()));
    }

    /// SPEC.md, section 26, byte for byte.
    #[test]
    fn bytes_are_as_specified() {
        let (body, _) = written(&sample()).unwrap();
        let mut expected = vec![2, 2, 2, 1, 3];
        // Suffix and group of the members; symbols, the second with all that there is to say.
        expected.extend_from_slice(&[1, 1, 0, 0]);
        expected.extend_from_slice(&[0, 0, 0x22, 77]);
        expected.extend_from_slice(&[3, 1, 2, 0, 1, 2, 4, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20]);
        // A section of the second member, its own symbol; the group.
        expected.extend_from_slice(&[1, 1, 1, 0, 0, 1]);
        // 20 is a dependent; 21 as well, weak, and aligned; 23 is aligned.
        expected.extend_from_slice(&[1, 7, 0x20, 0, 4, 4, 1 << 3 | 4, 3]);
        assert_eq!(body, expected);
    }

    #[test]
    fn what_the_fragments_do_not_say_has_no_encoding() {
        // Bound to a symbol of another name.
        let mut memo = sample();
        memo.bindings[0] = Binding::Symbol(4);
        assert_eq!(written(&memo), None);
        // A symbol that nothing is bound to, and a dependent that is none.
        let mut memo = sample();
        memo.symbols.push(symbol(NameId(24), NONE, OF_OTHERS));
        assert_eq!(written(&memo), None);
        let mut memo = sample();
        memo.dependents.push(NameId(30));
        assert_eq!(written(&memo), None);
        let mut memo = sample();
        memo.symbols[1].value = 1 << 62;
        assert_eq!(written(&memo), None);
    }

    #[test]
    fn every_cut_and_every_number_that_leads_nowhere_is_refused() {
        let (body, names) = written(&sample()).unwrap();
        for end in 0..body.len() {
            assert_eq!(read(&body[..end], &names), None, "cut at {end}");
        }
        assert_eq!(read(&[&body[..], &[0]].concat(), &names), None);
        assert_eq!(read(&body, &names[..1]), None);
        let written = Written::parse(&body, &names).unwrap();
        let is_refused = |change: fn(&mut Written)| {
            let mut changed = written.clone();
            change(&mut changed);
            let (body, names) = changed.encode().unwrap();
            assert_eq!(read(&body, &names), None, "{changed:?}");
        };
        is_refused(|it| it.bindings[0] = Binding::Symbol(6));
        is_refused(|it| it.bindings[0] = Binding::Section(2, 0));
        is_refused(|it| it.bindings.truncate(1));
        is_refused(|it| it.bindings.push(Binding::Symbol(0)));
        is_refused(|it| it.members[1].1 = 2);
        is_refused(|it| it.members.truncate(1));
        is_refused(|it| it.symbols[0].member = 2);
        is_refused(|it| it.mentions[2].number = 4);
    }
}
