//! The program model: what is added can be read back, by the views and by SPEC.md,
//! part 2; what is there already is not added again; damage is an error.

use format_spec::digest::Digest;
use format_spec::file::{IndexSlot, VectorSlot};
use format_spec::fragment::{FixupRecord, SectionKind, SectionRecord, WideFixupRecord};
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::Index;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use store::engine::Durability;
use store::program::build::{
    Compilation, Fixups, Fragment, FrameDescription, Group, Name, Piece, Place, Plain, Section,
    Symbol, Target,
};
use store::program::{
    Added, Addition, Copier, FixupsView, Prepared, ProgramError, Programs, Repository,
    SectionCheck, SectionView,
};

const NARROW: FixupRecord = FixupRecord {
    offset: 2,
    addend: -4,
    target_and_type: 2,
};

/// A compilation that has one of everything: two members that are one fragment, an
/// anonymous fragment, wide and narrow fixups, a piece with a symbol in it, wide
/// symbols, a group.
fn everything() -> Compilation<'static> {
    let section = |name, bytes: &'static [u8], fixups| Section {
        name: Name(name),
        kind: SectionKind::Text,
        sh_type: 1,
        sh_flags: 6,
        entsize: 0,
        align_log2: 4,
        bits: SectionRecord::SUFFIXED,
        link: 0,
        size: bytes.len() as u64,
        bytes: bytes.into(),
        fixups,
        frame: None,
    };
    let symbol = |name, place, value, info| Symbol {
        name: Name(name),
        place,
        value,
        size: 8,
        info,
        other: 0,
        bits: 0,
    };
    let wide = WideFixupRecord {
        offset: 0,
        addend: 1 << 40,
        target: 1,
        fixup_type: 1,
    };
    let plain = Some(Plain {
        is_absolute: false,
        words: 0,
    });
    Compilation {
        machine: 62,
        names: vec![
            b"",
            b".text",
            b"first",
            b"second",
            b".rodata",
            b"callee",
            b"\xff\x01",
        ],
        pieces: vec![Piece {
            section_name: Name(4),
            sh_flags: 0x32,
            entsize: 1,
            align_log2: 0,
            bytes: b"hello\0",
        }],
        fragments: vec![
            Fragment {
                sections: 0..1,
                targets: 0..3,
                bindings: 0..2,
                suffix: Name(2),
                group: 1,
                plain,
            },
            Fragment {
                sections: 1..2,
                targets: 3..6,
                bindings: 2..4,
                suffix: Name(3),
                group: 0,
                plain,
            },
            Fragment {
                sections: 2..3,
                targets: 6..8,
                bindings: 4..4,
                suffix: Name(0),
                group: 0,
                plain,
            },
        ],
        digest_order: vec![2, 0, 1],
        sections: vec![
            section(1, b"code code", Fixups::Narrow(0..1)),
            section(1, b"code code", Fixups::Narrow(1..2)),
            Section {
                bits: 0,
                kind: SectionKind::ReadOnly,
                sh_flags: 2,
                ..section(4, b"table ta", Fixups::Wide(0..1))
            },
        ],
        targets: vec![
            Target::Global(Name(5)),
            Target::OwnAnonymous(2),
            Target::Piece(0),
            Target::Global(Name(5)),
            Target::OwnAnonymous(2),
            Target::Piece(0),
            Target::Section(0),
            Target::Piece(0),
        ],
        bindings: vec![4, 2, 4, 2],
        uses: vec![0, 0, 2, 1],
        fixups: vec![NARROW, NARROW],
        wide_fixups: vec![wide],
        symbols: vec![
            symbol(0, Place::Undefined, 0, 0),
            symbol(6, Place::Piece(0), 2, 1),
            symbol(0, Place::Section(2), 0, 3),
            symbol(2, Place::Section(0), 0, 0x12),
            symbol(5, Place::Undefined, 0, 0x10),
            symbol(3, Place::Absolute, 1 << 40, 0x10),
            symbol(3, Place::Common, 16, 0x11),
        ],
        first_global: 3,
        groups: vec![Group {
            signature: Name(2),
            flags: 1,
        }],
        ..Compilation::default()
    }
}

fn add(repository: &Repository, prepared: &Prepared<'_>, ticket: Option<&Path>) -> (bool, u32) {
    let added = repository.add(&[Addition { prepared, ticket }]).unwrap();
    (added[0].is_new, added[0].new_fragments)
}

/// The file of a repository, to be damaged.
fn writable(path: &Path) -> File {
    let mut options = File::options();
    options.read(true).write(true).open(path).unwrap()
}

#[test]
fn what_was_added_is_read_back_and_not_added_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program.repo");
    let repository = Repository::open_or_create(&path).unwrap();
    let prepared = Prepared::new(everything()).unwrap();
    assert_eq!(prepared.fragments[0], prepared.fragments[1]);
    assert_eq!(add(&repository, &prepared, None), (true, 2));
    let size = repository.store().size().unwrap();
    assert_eq!(add(&repository, &prepared, None), (false, 0));
    assert_eq!(repository.store().size().unwrap(), size);

    let programs = repository.programs().unwrap();
    let view = programs.compilation(&prepared.digest).unwrap();
    let read = Prepared::new(programs.load(&view).unwrap()).unwrap();
    assert_eq!(read.digest, prepared.digest);
    assert_eq!(read.compilation.symbols[5].value, 1 << 40);
    assert_eq!(read.compilation.wide_fixups[0].addend, 1 << 40);
    assert_eq!(programs.name(NameId(0)).unwrap(), b"");
    let odd = programs.find_name(b"\xff\x01").unwrap().unwrap();
    assert_eq!(programs.name(odd).unwrap(), b"\xff\x01");
    assert_eq!(programs.find_name(b"nobody").unwrap(), None);
    assert_eq!(programs.piece(PieceId(0)).unwrap().bytes, b"hello\0");
    assert!(programs.piece(PieceId(1)).is_err());
    assert!(matches!(
        programs.compilation(&Digest::of(b"")),
        Err(ProgramError::NoCompilation { .. })
    ));

    // Another repository, in which ids and addresses are others, has the same digests.
    let other = Repository::open_or_create(&directory.path().join("other.repo")).unwrap();
    let mut first = everything();
    first.names[5] = b"someone else";
    first.names.swap(2, 3);
    add(&other, &Prepared::new(first).unwrap(), None);
    let copied = Prepared::new(programs.load(&view).unwrap()).unwrap();
    assert_eq!(add(&other, &copied, None), (true, 1));
    let others = other.programs().unwrap();
    let again = others.compilation(&prepared.digest).unwrap();
    let again = Prepared::new(others.load(&again).unwrap()).unwrap();
    assert_eq!(again.digest, prepared.digest);
}

/// Reads as SPEC.md, part 2, says, and no code of the project's.
#[test]
fn the_bytes_are_those_of_the_specification() {
    let directory = tempfile::tempdir().unwrap();
    let repository = Repository::open_or_create(&directory.path().join("program.repo")).unwrap();
    let prepared = Prepared::new(everything()).unwrap();
    add(&repository, &prepared, None);
    let snapshot = repository.programs().unwrap().snapshot();
    let u32_at =
        |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at =
        |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let name = |id: u32| {
        let address = snapshot
            .vector_get(VectorSlot::of::<0>(), id)
            .unwrap()
            .unwrap();
        let record = snapshot.record_at(address).unwrap();
        assert_eq!(u32_at(record.value, 0), id);
        let seed = seed(repository.store().uuid());
        let key = xxhash_rust::xxh3::xxh3_64_with_seed(&record.value[4..], seed);
        assert_eq!(record.key().0[..8], key.to_be_bytes());
        record.value[4..].to_vec()
    };

    let compilation = snapshot
        .get(IndexSlot::of::<3>(), &prepared.digest)
        .unwrap()
        .unwrap()
        .value;
    assert_eq!(u32_at(compilation, 0), 3); // members
    assert_eq!(u32_at(compilation, 8), 7); // symbols
    assert_eq!(u32_at(compilation, 12), 3); // first global
    assert_eq!(u32_at(compilation, 24), 2); // wide words
    assert_eq!(u32_at(compilation, 40), 3); // shapes
    assert_eq!(u32_at(compilation, 44), 3); // pieces of members
    let member = &compilation[56 + 32..][..32];
    assert_eq!(u32_at(member, 8), 1); // its first section
    assert_eq!(u32_at(member, 12), 2); // its first binding
    assert_eq!(name(u32_at(member, 16)), b"second");
    assert_eq!(u32_at(member, 24), 1); // its first piece
    assert_eq!(u32_at(member, 28), 1); // plain
    let symbols = &compilation[56 + 3 * 32..];
    assert_eq!(name(u32_at(symbols, 20)), b"\xff\x01");
    assert_eq!(symbols[20 + 18], 2); // in a piece
    assert_eq!(symbols[5 * 20 + 18], 1); // wide
    let groups = (56 + 3 * 32 + 7 * 20_usize).next_multiple_of(8);
    assert_eq!(name(u32_at(compilation, groups)), b"first");
    let bindings = groups + 8;
    assert_eq!(
        compilation[bindings..bindings + 8],
        [4, 0, 2, 0, 4, 0, 2, 0]
    );
    let wide = (bindings + 4 * 2).next_multiple_of(8);
    assert_eq!(u64_at(compilation, wide), 1 << 40);
    let shapes = wide + 16;
    // `.text.SUFFIX`, in a group and not.
    assert_eq!(
        (compilation[shapes + 17], compilation[shapes + 20 + 17]),
        (0x81, 1)
    );
    let shape = &compilation[shapes + 2 * 20..][..20];
    assert_eq!(name(u32_at(shape, 0)), b".rodata");
    assert_eq!((u32_at(shape, 4), u32_at(shape, 8)), (1, 2)); // type, flags
    assert_eq!(shape[16..], [3, 0, 0, 0]); // kind, bits
    let sections = (shapes + 3 * 20).next_multiple_of(8);
    let section = &compilation[sections + 16..][..16];
    assert_eq!((u32_at(section, 0), u32_at(section, 4)), (9, 1)); // size, member
    assert_eq!(
        (u32_at(section, 8), u32_at(section, 12)),
        (0, 1 << 10 | 4 << 4 | 1)
    ); // shape, alignment, has fixups
    let pieces = (sections + 3 * 16).next_multiple_of(8);
    assert_eq!(u32_at(compilation, pieces + 8), 0);
    let uses = (pieces + 3 * 4).next_multiple_of(8);
    assert_eq!(compilation[uses..], [0, 0, 2, 1]);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&compilation[56..56 + 3 * 32]);
    crc.update(&compilation[shapes..shapes + 3 * 20]);
    crc.update(&compilation[sections..sections + 3 * 16]);
    crc.update(&compilation[pieces..pieces + 3 * 4]);
    crc.update(&compilation[uses..]);
    assert_eq!(u32_at(compilation, 48), crc.finalize());

    let address = format_spec::ids::Address(u64_at(member, 0));
    let record = snapshot.record_at(address).unwrap();
    let fragment = record.value;
    assert_eq!(u32_at(fragment, 0), 1); // sections
    assert_eq!(u32_at(fragment, 4), 1); // anonymous addresses
    assert_eq!(u32_at(fragment, 8), 3); // targets
    assert_eq!(u32_at(fragment, 12), 2); // of these, bindable
    let section = &fragment[16..44];
    assert_eq!(u32_at(section, 0), 9);
    assert_eq!(name(u32_at(section, 4)), b".text");
    assert_eq!(u32_at(section, 16), 1); // fixups
    let body = u32_at(section, 20) as usize;
    assert_eq!(section[24..], [0, 4, 1, 0]); // kind, alignment, bits, bits of targets
    let kinds = [44, 48, 52].map(|at| u32_at(fragment, at) & 7);
    assert_eq!(kinds, [0, 3, 5]);
    assert_eq!(name(u32_at(fragment, 44) >> 3), b"callee");
    assert_eq!(body, 64);
    assert_eq!(&fragment[body..body + 12], bytemuck::bytes_of(&NARROW));
    assert_eq!(&fragment[body + 12..], b"code code");
    let anonymous = snapshot.record_at(format_spec::ids::Address(u64_at(fragment, 56)));
    let anonymous = anonymous.unwrap();
    assert_eq!(anonymous.key(), prepared.fragments[2]);

    // The digest of the fragment, from section 23.
    let mut digested = bytemuck::bytes_of(&NARROW).to_vec();
    digested.extend_from_slice(b"code code");
    for count in [1u32, 3, 2] {
        digested.extend_from_slice(&count.to_le_bytes());
    }
    digested.push(0);
    digested.extend_from_slice(b"\x06\0\0\0callee");
    digested.push(3);
    digested.extend_from_slice(&anonymous.key().0);
    digested.push(5);
    let piece = snapshot.record_at(
        snapshot
            .vector_get(VectorSlot::of::<1>(), 0)
            .unwrap()
            .unwrap(),
    );
    let piece = piece.unwrap().value;
    let section_name = name(u32_at(piece, 0));
    digested.extend_from_slice(&(section_name.len() as u32).to_le_bytes());
    digested.extend_from_slice(&section_name);
    digested.extend_from_slice(&piece[4..8]);
    let entsize = u16::from_le_bytes(piece[12..14].try_into().unwrap());
    digested.extend_from_slice(&u32::from(entsize).to_le_bytes());
    digested.push(piece[14]);
    digested.extend_from_slice(&(piece.len() as u32 - 16).to_le_bytes());
    digested.extend_from_slice(&piece[16..]);
    digested.extend_from_slice(b"\x05\0\0\0.text");
    digested.extend_from_slice(&9u64.to_le_bytes());
    for word in [1u32, 6, 0] {
        digested.extend_from_slice(&word.to_le_bytes());
    }
    digested.extend_from_slice(&[0, 4, 1, 0]);
    digested.extend_from_slice(&0u32.to_le_bytes());
    digested.extend_from_slice(&1u32.to_le_bytes());
    digested.extend_from_slice(&21u64.to_le_bytes());
    let mut key = [0; 32];
    key[..15].copy_from_slice(b"repo.fragment.4");
    assert_eq!(
        record.key().0,
        *blake3::keyed_hash(&key, &digested).as_bytes()
    );
}

fn seed(uuid: [u8; 16]) -> u64 {
    let (words, _) = uuid.as_chunks::<8>();
    u64::from_le_bytes(words[0]) ^ u64::from_le_bytes(words[1])
}

/// A compilation of one fragment: a section of `size` zeros with a fixup in every eighth byte, and one with an entry size.
fn large(size: usize) -> Compilation<'static> {
    let mut compilation = everything();
    let fixups = (0..size as u32 / 8).map(|index| FixupRecord {
        offset: index * 8 + 1,
        addend: -(index as i32 % 100),
        target_and_type: (index % 3) << 8 | 2,
    });
    compilation.fixups = fixups.collect();
    compilation.wide_fixups.clear();
    let count = compilation.fixups.len() as u32;
    compilation.sections[0] = Section {
        size: size as u64,
        bytes: vec![0; size].into(),
        fixups: Fixups::Narrow(0..count),
        ..compilation.sections[0].clone()
    };
    for section in &mut compilation.sections[1..] {
        section.fixups = Fixups::Narrow(0..0);
    }
    compilation.sections[1].entsize = 3;
    compilation
}

/// Fixups are packed into the places of the bytes, and come out as they were; what a section of a large fragment is compared
/// with tells each damaged byte.
#[test]
fn packed_fixups_and_checked_sections_are_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let repository = Repository::open_or_create(&directory.path().join("program.repo")).unwrap();
    for (size, is_checked) in [(80, false), (64 << 10, true)] {
        let prepared = Prepared::new(large(size)).unwrap();
        assert!(add(&repository, &prepared, None).0);
        let programs = repository.programs().unwrap();
        let view = programs.compilation(&prepared.digest).unwrap();
        let address = view.members()[0].fragment;
        let fragment = programs.fragment(address).unwrap();
        programs.check_fragment(address).unwrap();
        assert!(fragment.body().is_some());
        let section = fragment.section(0).unwrap();
        assert!(matches!(section.fixups, FixupsView::Packed(_)));
        assert_eq!(section.check.is_some(), is_checked);
        assert!(section.stored.iter().any(|byte| *byte != 0));
        assert_eq!(*section.bytes(), vec![0; size]);
        let expected = prepared.compilation.fixups.iter();
        let expected: Vec<_> = expected
            .map(|fixup| WideFixupRecord::from(*fixup))
            .collect();
        let parts = |fixup: &WideFixupRecord| (fixup.offset, fixup.addend, fixup.target);
        let read: Vec<_> = section.fixups.iter().collect();
        assert!(read.iter().map(parts).eq(expected.iter().map(parts)));
        let entries = programs.fragment(view.members()[1].fragment).unwrap();
        assert_eq!(entries.section(0).unwrap().entsize, 3);

        let loaded = programs.load_checked(&view).unwrap();
        assert_eq!(*loaded.sections[0].bytes, vec![0; size]);
        assert_eq!(Prepared::new(loaded).unwrap().digest, prepared.digest);
        let (mut out, mut unpacked) = (vec![1; size], Vec::new());
        let (copied, is_right) = section.copy(&mut out, &mut unpacked, true);
        assert!(is_right && matches!(copied, FixupsView::Narrow(_)));
        assert!(
            copied
                .iter()
                .map(|fixup| parts(&fixup))
                .eq(expected.iter().map(parts))
        );
        assert_eq!(out, vec![0; size]);
        let Some(check) = section.check else { continue };
        assert!(check.is_right());
        for at in (0..size).step_by(4099) {
            let mut stored = section.stored.to_vec();
            stored[at] ^= 1;
            let check = SectionCheck {
                stored: &stored,
                ..check
            };
            assert!(!check.is_right());
            let section = SectionView {
                stored: &stored,
                check: Some(check),
                ..section
            };
            assert!(!section.copy(&mut out, &mut unpacked, true).1);
        }
    }
}

#[test]
fn a_circle_of_anonymous_fragments_is_refused() {
    let mut compilation = everything();
    compilation.targets[7] = Target::OwnAnonymous(2);
    assert!(matches!(
        Prepared::new(compilation),
        Err(ProgramError::Malformed(_))
    ));
}

/// What the splitter says for the outline must fit the members, sections and bindings.
#[test]
fn an_outline_that_cannot_be_recorded_is_refused() {
    let refused = |change: fn(&mut Compilation<'_>)| {
        let mut compilation = everything();
        change(&mut compilation);
        matches!(Prepared::new(compilation), Err(ProgramError::Malformed(_)))
    };
    assert!(!refused(|_| ()));
    assert!(refused(|compilation| compilation.uses.truncate(3)));
    // Uses of a member that is not plain.
    assert!(refused(|compilation| compilation.fragments[1].plain = None));
    assert!(!refused(|compilation| compilation.fragments[0].plain = None));
    assert!(refused(|compilation| {
        compilation.fragments[0].plain = Some(Plain {
            is_absolute: true,
            words: 1 << 24,
        });
    }));
    let frame = |cie| {
        Some(FrameDescription {
            cie,
            has_exception_table: false,
        })
    };
    // A frame description in code; one without a CIE.
    let mut compilation = everything();
    compilation.sections[0].frame = frame(1);
    assert!(Prepared::new(compilation).is_err());
    let mut compilation = everything();
    compilation.sections[0].kind = SectionKind::Unwind;
    compilation.sections[0].frame = frame(1);
    assert!(Prepared::new(compilation).is_ok());
    let mut compilation = everything();
    compilation.sections[0].kind = SectionKind::Unwind;
    compilation.sections[0].frame = frame(3);
    assert!(Prepared::new(compilation).is_err());
}

#[test]
fn tickets_are_remembered_and_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let repository = Repository::open_or_create(&directory.path().join("program.repo")).unwrap();
    let ticket = Path::new("/build/x.o");
    let first = Prepared::new(everything()).unwrap();
    add(&repository, &first, Some(ticket));
    let size = repository.store().size().unwrap();
    add(&repository, &first, Some(ticket));
    assert_eq!(repository.store().size().unwrap(), size);
    let mut changed = everything();
    changed.os_abi = 3;
    let second = Prepared::new(changed).unwrap();
    assert_eq!(add(&repository, &second, Some(ticket)), (true, 0));
    let programs = repository.programs().unwrap();
    let tickets: Vec<_> = programs
        .records(Index::Tickets)
        .map(|record| programs.ticket(&record.unwrap()).unwrap())
        .collect();
    assert_eq!(tickets.len(), 1);
    assert_eq!(tickets[0].path, b"/build/x.o");
    let named = programs
        .compilation_at(tickets[0].header.compilation)
        .unwrap();
    assert_eq!(named.record().key(), second.digest);
}

/// Threads that add overlapping compilations at once.
#[test]
fn many_writers_add_each_thing_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program.repo");
    let repository = Repository::open_or_create(&path).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4u8 {
            let repository = &repository;
            scope.spawn(move || {
                for round in 0..20u8 {
                    let mut compilation = everything();
                    // Each is made by two of the threads.
                    compilation.abi_version = round;
                    compilation.os_abi = writer / 2;
                    add(repository, &Prepared::new(compilation).unwrap(), None);
                }
            });
        }
    });
    let programs = repository.programs().unwrap();
    let count = |index| programs.records(index).count();
    assert_eq!(count(Index::Compilations), 40);
    assert_eq!(count(Index::Fragments), 2);
    assert_eq!(count(Index::Pieces), 1);
    assert_eq!(count(Index::Names) as u64, programs.name_count());
}

/// More than one transaction adds, and several compilations that share parts in one call.
#[test]
fn what_is_much_is_added_in_several_transactions() {
    let directory = tempfile::tempdir().unwrap();
    let repository = Repository::open_or_create(&directory.path().join("program.repo")).unwrap();
    let names: Vec<Vec<u8>> = (0..2500)
        .map(|n| format!("name {n}").into_bytes())
        .collect();
    let large = |os_abi| {
        let mut compilation = everything();
        compilation.os_abi = os_abi;
        for name in &names {
            compilation.symbols.push(Symbol {
                name: Name(compilation.names.len() as u32),
                ..compilation.symbols[4]
            });
            compilation.names.push(name);
        }
        Prepared::new(compilation).unwrap()
    };
    let [first, second] = [large(1), large(2)];
    let additions = [&first, &second, &first].map(|prepared| Addition {
        prepared,
        ticket: Some(Path::new("/build/large.o")),
    });
    let added = repository.add(&additions).unwrap();
    let numbers = added
        .iter()
        .map(|added| (added.is_new, added.new_names, added.new_fragments));
    // The seventh name of `everything` is the empty one, which is there already.
    let expected = [(true, 2506, 2), (true, 0, 0), (false, 0, 0)];
    assert_eq!(numbers.collect::<Vec<_>>(), expected);
    assert_eq!(added[1].shared_fragments, 3);
    assert_eq!(added[0].address, added[2].address);
    let programs = repository.programs().unwrap();
    assert!(programs.snapshot().revision() > 2);
    for (prepared, added) in [(&first, added[0]), (&second, added[1])] {
        assert!(read_all(&programs, &prepared.digest).unwrap());
        let view = programs.compilation(&prepared.digest).unwrap();
        assert_eq!(view.record().address, added.address);
    }
    let ticket = programs.records(Index::Tickets).next().unwrap().unwrap();
    let ticket = programs.ticket(&ticket).unwrap();
    assert_eq!(ticket.header.compilation, added[2].address);
}

/// Fragments of which each second half is the first half again, recorded compressed.
fn twins(pairs: u32) -> Prepared<'static> {
    let whole = large(800);
    let fragments = 0..2 * pairs;
    let content = |number: u32| {
        let mut bytes = vec![0; 800];
        bytes[..4].copy_from_slice(&(number % pairs).to_le_bytes());
        bytes
    };
    let mut prepared = Prepared::new(Compilation {
        fragments: (fragments.clone().map(|number| Fragment {
            sections: number..number + 1,
            targets: 0..0,
            bindings: 0..0,
            suffix: Name(0),
            group: 0,
            plain: None,
        }))
        .collect(),
        digest_order: fragments.clone().collect(),
        sections: (fragments.map(|number| Section {
            bytes: content(number).into(),
            kind: SectionKind::Debug,
            fixups: Fixups::Narrow(0..0),
            ..whole.sections[0].clone()
        }))
        .collect(),
        names: whole.names,
        symbols: whole.symbols[..1].to_vec(),
        first_global: 1,
        ..Compilation::default()
    })
    .unwrap();
    prepared.compress();
    prepared
}

/// Equal keys are stored once, though one transaction adds the first and another one of the same call the second: whoever is at it alone
/// knows what the earlier ones have added, and whoever is not looks.
#[test]
fn equal_keys_in_several_transactions_are_stored_once() {
    const PAIRS: u32 = 1000;
    let prepared = twins(PAIRS);
    for writers in [1, 4] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program.repo");
        let repository = Repository::open_or_create(&path).unwrap();
        let added: Vec<_> = std::thread::scope(|scope| {
            let add = || {
                let own = Repository::open(&path).unwrap();
                own.add(
                    &[Addition {
                        prepared: &prepared,
                        ticket: None,
                    }; 2],
                )
                .unwrap()
            };
            let writers: Vec<_> = (0..writers).map(|_| scope.spawn(add)).collect();
            writers
                .into_iter()
                .map(|writer| writer.join().unwrap())
                .collect()
        });
        let new = |added: &Added| {
            (
                u32::from(added.is_new),
                added.new_fragments,
                added.new_names,
            )
        };
        let sums = added.iter().flatten().map(new);
        let sums = sums.reduce(|a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
        let sums = sums.unwrap();
        // Of several writers one may add the fragments, and another one what they are of.
        match writers {
            1 => assert_eq!(sums, (1, PAIRS, 6)),
            _ => assert!(sums.0 == 1 && sums.1 <= PAIRS && sums.2 <= 6, "{sums:?}"),
        }
        let programs = repository.programs().unwrap();
        assert!(programs.snapshot().revision() > 3);
        for index in [Index::Names, Index::Fragments, Index::Compilations] {
            let keys = programs.records(index).map(|record| record.unwrap().key());
            let keys: Vec<_> = keys.collect();
            let different: HashSet<_> = keys.iter().collect();
            assert_eq!(different.len(), keys.len());
        }
        assert_eq!(programs.records(Index::Fragments).count() as u32, PAIRS);
        // So large a compilation is compressed, and its fragments are packed.
        let view = programs.compilation(&prepared.digest).unwrap();
        assert!(view.record().value.len() < view.size());
        assert!(is_packed(&programs, view.members()[0].fragment));
        assert!(read_all(&programs, &prepared.digest).unwrap());
    }
}

fn is_packed(programs: &Programs<'_>, address: Address) -> bool {
    programs.snapshot().pack_of(address).unwrap().is_some()
}

/// A compilation that is recorded compressed, with a debug section of `size` bytes that is, too.
fn compressed(size: usize) -> Prepared<'static> {
    let mut compilation = large(size);
    compilation.sections[0].kind = SectionKind::Debug;
    let mut prepared = Prepared::new(compilation).unwrap();
    prepared.compress();
    prepared
}

#[test]
fn compressed_sections_and_compilations_are_read_back() {
    for (size, is_checked) in [(800, false), (64 << 10, true)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program.repo");
        let repository = Repository::open_or_create(&path).unwrap();
        let prepared = compressed(size);
        assert!(add(&repository, &prepared, None).0);
        let programs = repository.programs().unwrap();
        let view = programs.compilation(&prepared.digest).unwrap();
        assert!(view.base().is_none());
        let address = view.members()[0].fragment;
        programs.check_fragment(address).unwrap();
        let stored = programs.fragment_section_as_stored(address, 0).unwrap();
        let stored = stored.section;
        assert!(stored.compressed.is_some() && stored.stored_size() == size);
        assert_eq!(stored.check.is_some(), is_checked);
        let (mut out, mut unpacked) = (vec![1; size], Vec::new());
        let (copied, is_right) = stored.copy(&mut out, &mut unpacked, true);
        assert!(is_right && out == vec![0; size]);
        let parts = |fixup: WideFixupRecord| (fixup.offset, fixup.addend, fixup.target);
        let expected = prepared.compilation.fixups.iter();
        let expected: Vec<_> = expected.map(|fixup| parts((*fixup).into())).collect();
        assert!(copied.iter().map(parts).eq(expected.iter().copied()));

        // As it is without.
        let fragment = programs.fragment(address).unwrap();
        assert!(fragment.record().value.len() < fragment.size());
        assert!(fragment.body().is_some());
        let section = programs.fragment_section(address, 0).unwrap().section;
        assert!(matches!(section.fixups, FixupsView::Packed(_)));
        assert!(section.fixups.iter().map(parts).eq(expected));
        let of_plain = Repository::open_or_create(&directory.path().join("plain.repo")).unwrap();
        let mut plain = large(size);
        plain.sections[0].kind = SectionKind::Debug;
        let plain = Prepared::new(plain).unwrap();
        assert_eq!(plain.digest, prepared.digest);
        add(&of_plain, &plain, None);
        let others = of_plain.programs().unwrap();
        let other = others.compilation(&plain.digest).unwrap();
        let other = others.fragment(other.members()[0].fragment).unwrap();
        assert_eq!(other.body(), fragment.body());
        assert!(read_all(&programs, &prepared.digest).unwrap());
        assert!(!add(&repository, &plain, None).0);
        assert!(!add(&of_plain, &prepared, None).0);
    }
}

/// A compilation that is to be recorded compressed, of a section of this kind.
fn of_kind(kind: SectionKind) -> Prepared<'static> {
    let mut compilation = large(800);
    compilation.sections[0].kind = kind;
    let mut prepared = Prepared::new(compilation).unwrap();
    prepared.compress();
    prepared
}

/// Makes a repository a large one: by a section that is not compressed.
fn fill(repository: &Repository) {
    let mut compilation = large(800);
    compilation.sections[0].size = 33 << 20;
    compilation.sections[0].bytes = vec![7; 33 << 20].into();
    compilation.sections[0].fixups = Fixups::Narrow(0..0);
    compilation.fixups.clear();
    let prepared = Prepared::new(compilation).unwrap();
    add(repository, &prepared, None);
    assert!(repository.store().size().unwrap() > 32 << 20);
}

/// What links read is recorded as it is read where there is much of it; what was recorded before is not touched.
#[test]
fn in_a_large_repository_debug_sections_alone_are_compressed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program.repo");
    let repository = Repository::open_or_create(&path).unwrap();
    let compressed = |prepared: &Prepared<'_>| {
        let programs = repository.programs().unwrap();
        let view = programs.compilation(&prepared.digest).unwrap();
        let fragment = programs.fragment_section_as_stored(view.members()[0].fragment, 0);
        let of_section = fragment.unwrap().section.compressed.is_some();
        (of_section, is_packed(&programs, view.record().address))
    };
    let early = of_kind(SectionKind::ReadOnly);
    add(&repository, &early, None);
    assert_eq!(compressed(&early), (false, true));
    fill(&repository);
    for (kind, is_compressed) in [(SectionKind::Debug, true), (SectionKind::Data, false)] {
        let late = of_kind(kind);
        assert!(add(&repository, &late, None).0);
        assert_eq!(compressed(&late), (is_compressed, false));
        assert!(read_all(&repository.programs().unwrap(), &late.digest).unwrap());
    }
    assert!(!add(&repository, &early, None).0);
    assert_eq!(compressed(&early), (false, true));
}

/// One fragment of a debug section and one that links read.
fn two_sections() -> Prepared<'static> {
    let whole = large(800);
    let section = |kind| Section {
        kind,
        fixups: Fixups::Narrow(0..0),
        ..whole.sections[0].clone()
    };
    let compilation = Compilation {
        fragments: vec![Fragment {
            sections: 0..2,
            targets: 0..0,
            bindings: 0..0,
            suffix: Name(0),
            group: 0,
            plain: None,
        }],
        digest_order: vec![0],
        sections: [SectionKind::Debug, SectionKind::ReadOnly]
            .map(section)
            .to_vec(),
        names: whole.names.clone(),
        symbols: whole.symbols[..1].to_vec(),
        first_global: 1,
        ..Compilation::default()
    };
    Prepared::new(compilation).unwrap()
}

/// Damages the first fragment and the compilation in turn, and has them mended by `mender`.
fn damage_and_mend(path: &Path, mender: &Prepared<'_>) {
    let places = {
        let repository = Repository::open(path).unwrap();
        let programs = repository.programs().unwrap();
        let view = programs.compilation(&mender.digest).unwrap();
        let places = [view.members()[0].fragment, view.record().address];
        places.map(|address| address.0 + 40 + 70)
    };
    let file = writable(path);
    for place in places {
        let (mut good, mut mended) = ([0], [0]);
        file.read_exact_at(&mut good, place).unwrap();
        file.write_all_at(&[good[0] ^ 4], place).unwrap();
        let repository = Repository::open(path).unwrap();
        let read = || read_all(&repository.programs().unwrap(), &mender.digest);
        assert!(!read().unwrap_or(false));
        add(&repository, mender, None);
        assert!(read().unwrap());
        file.read_exact_at(&mut mended, place).unwrap();
        assert_eq!(mended, good);
    }
}

/// What was recorded with its debug sections compressed is mended by whoever has it plain.
#[test]
fn damaged_records_of_a_large_repository_are_mended() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program.repo");
    let mut late = two_sections();
    late.compress();
    {
        let repository = Repository::open_or_create(&path).unwrap();
        fill(&repository);
        add(&repository, &late, None);
    }
    damage_and_mend(&path, &two_sections());
}

/// A compaction of a small repository packs, and no other one does. Large compilations stay compressed if they were.
#[test]
fn copies_of_compilations_are_compressed_if_they_were() {
    for is_large in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let open = |name| Repository::open_or_create(&directory.path().join(name)).unwrap();
        let (source, destination) = (open("source.repo"), open("destination.repo"));
        let (early, late) = (twins(1000), of_kind(SectionKind::Data));
        add(&source, &early, None);
        if is_large {
            fill(&source);
        }
        add(&source, &late, None);
        let programs = source.programs().unwrap();
        let mut copier = Copier::new(&destination, Durability::Lazy).unwrap();
        copier.pack_as(&programs);
        for prepared in [&early, &late] {
            let view = programs.compilation(&prepared.digest).unwrap();
            copier
                .compilation(&programs, view.record().address)
                .unwrap();
        }
        copier.commit().unwrap();
        let copies = destination.programs().unwrap();
        for (prepared, is_compressed) in [(&early, true), (&late, false)] {
            let view = copies.compilation(&prepared.digest).unwrap();
            assert_eq!(view.record().value.len() < view.size(), is_compressed);
            assert_eq!(is_packed(&copies, view.members()[0].fragment), !is_large);
            assert!(read_all(&copies, &prepared.digest).unwrap());
        }
        destination.store().verify().unwrap();
    }
}

/// Whoever has the right bytes mends a record, in whichever form it is.
#[test]
fn damaged_compressed_records_are_mended() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program.repo");
    let recorded = compressed(800);
    let mut plain = large(800);
    plain.sections[0].kind = SectionKind::Debug;
    let plain = Prepared::new(plain).unwrap();
    for (first, second) in [(&recorded, &plain), (&plain, &recorded)] {
        let _ = std::fs::remove_file(&path);
        let repository = Repository::open_or_create(&path).unwrap();
        fill(&repository);
        add(&repository, first, None);
        let programs = repository.programs().unwrap();
        let view = programs.compilation(&first.digest).unwrap();
        let places = [view.members()[0].fragment, view.record().address];
        let places = places.map(|address| address.0 + 40 + 70);
        drop(repository);
        let good = std::fs::read(&path).unwrap();
        let file = writable(&path);
        for place in places {
            let bad = good[place as usize] ^ 4;
            file.write_all_at(&[bad], place).unwrap();
            let repository = Repository::open(&path).unwrap();
            let read = |digest| read_all(&repository.programs().unwrap(), digest);
            assert!(!read(&first.digest).unwrap_or(false));
            add(&repository, second, None);
            assert!(read(&first.digest).unwrap());
            assert_eq!(
                std::fs::read(&path).unwrap()[place as usize],
                good[place as usize]
            );
        }
    }
}

fn read_all(programs: &Programs<'_>, digest: &Digest) -> Result<bool, ProgramError> {
    let view = programs.compilation(digest)?;
    let prepared = Prepared::new(programs.load_checked(&view)?)?;
    Ok(prepared.digest == *digest)
}

/// A byte of a record's value, changed: an error, or what is read back does not have
/// its digest.
#[test]
fn damaged_values_are_noticed() {
    changed_bytes(&Prepared::new(everything()).unwrap());
    changed_bytes(&compressed(200));
}

/// Changes each byte of what is recorded.
fn changed_bytes(prepared: &Prepared<'_>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program.repo");
    let ranges: Vec<std::ops::Range<usize>> = {
        let repository = Repository::open_or_create(&path).unwrap();
        add(&repository, prepared, None);
        let programs = repository.programs().unwrap();
        [
            Index::Names,
            Index::Pieces,
            Index::Fragments,
            Index::Compilations,
        ]
        .into_iter()
        .flat_map(|index| programs.records(index))
        .map(|record| {
            let record = record.unwrap();
            // Head (8 bytes) and key (32) come before the value.
            let start = record.address.0 as usize + 40;
            start..start + record.value.len()
        })
        .collect()
    };
    let good = std::fs::read(&path).unwrap();
    let file = writable(&path);
    let mut unnoticed = Vec::new();
    for place in ranges.into_iter().flatten() {
        for change in [1, 0x80] {
            file.write_all_at(&[good[place] ^ change], place as u64)
                .unwrap();
            // Opening may notice already.
            if let Ok(repository) = Repository::open(&path) {
                let programs = repository.programs().unwrap();
                if read_all(&programs, &prepared.digest).unwrap_or(false) {
                    unnoticed.push(place);
                }
            }
        }
        file.write_all_at(&good[place..=place], place as u64)
            .unwrap();
    }
    // Only paddings say nothing.
    let distinct: std::collections::BTreeSet<_> = unnoticed.into_iter().collect();
    assert!(distinct.len() <= 4 * 4, "{distinct:?}");
}

/// A compilation of many symbols, of which one has another size for each number.
fn with_symbols(number: u64) -> Compilation<'static> {
    let mut compilation = everything();
    let last = *compilation.symbols.last().unwrap();
    compilation
        .symbols
        .resize(compilation.symbols.len() + 400, last);
    compilation.symbols[200].size = number;
    compilation
}

#[test]
fn differences_to_what_is_no_base_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program.repo");
    let repository = Repository::open_or_create(&path).unwrap();
    let ticket = Path::new("/somewhere/a.o");
    let [first, second, third] =
        [1, 2, 3].map(|number| Prepared::new(with_symbols(number)).unwrap());
    for prepared in [&first, &second, &third] {
        add(&repository, prepared, Some(ticket));
    }
    let programs = repository.programs().unwrap();
    let base = programs.compilation(&first.digest).unwrap();
    let difference = programs.compilation(&second.digest).unwrap();
    assert_eq!(base.base(), None);
    for prepared in [&second, &third] {
        let view = programs.compilation(&prepared.digest).unwrap();
        // Never a difference to a difference.
        assert_eq!(view.base(), Some(base.record().address));
        assert!(view.record().value.len() < base.record().value.len() / 8);
        let read = Prepared::new(programs.load(&view).unwrap()).unwrap();
        assert_eq!(read.digest, prepared.digest);
    }
    // Another one's, a difference, what is no compilation, what comes later, and itself.
    let name = programs
        .snapshot()
        .vector_get(VectorSlot::new(0).unwrap(), 1)
        .unwrap()
        .unwrap();
    let end = programs.snapshot().size();
    let mut wrong = vec![difference.record().address.0, name.0, 0, 4, end - 8];
    wrong.extend([end, end + 8, end + 800, 1 << 39, u64::MAX]);
    let mut transaction = repository.store().begin(Durability::Lazy).unwrap();
    for (number, base) in (0..).zip(&wrong) {
        let mut value = difference.record().value.to_vec();
        value[8..16].copy_from_slice(&base.to_le_bytes());
        transaction
            .insert(Index::Compilations.slot(), &Digest::of(&[number]), &value)
            .unwrap();
    }
    for (number, length) in [
        (100, 4),
        (101, 8),
        (102, 24),
        (103, 79),
        (104, 80),
        (105, 90),
    ] {
        let value = &difference.record().value[..length];
        transaction
            .insert(Index::Compilations.slot(), &Digest::of(&[number]), value)
            .unwrap();
    }
    transaction.commit().unwrap();
    let programs = repository.programs().unwrap();
    for number in (0..wrong.len() as u8).chain(100..106) {
        let digest = Digest::of(&[number]);
        let opened = [
            programs.compilation(&digest),
            programs.compilation_unchecked(&digest),
        ];
        assert!(opened.iter().all(Result::is_err), "{number}");
    }
}

#[test]
fn a_damaged_difference_is_mended_and_a_damaged_base_is_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program.repo");
    let repository = Repository::open_or_create(&path).unwrap();
    let ticket = Path::new("/somewhere/a.o");
    let [first, second, third] =
        [1, 2, 3].map(|number| Prepared::new(with_symbols(number)).unwrap());
    add(&repository, &first, Some(ticket));
    add(&repository, &second, Some(ticket));
    drop(repository);
    let file = writable(&path);
    let damage = |digest: &Digest, at: u64| {
        let repository = Repository::open(&path).unwrap();
        let programs = repository.programs().unwrap();
        let address = programs.compilation(digest).unwrap().record().address.0 + 40 + at;
        let mut byte = [0];
        file.read_exact_at(&mut byte, address).unwrap();
        file.write_all_at(&[!byte[0]], address).unwrap();
    };
    // In the runs, and in the address of the base, which the ticket still leads to.
    for at in [82, 20] {
        damage(&second.digest, at);
        let repository = Repository::open(&path).unwrap();
        let error = repository.programs().unwrap().compilation(&second.digest);
        assert!(error.is_err());
        assert!(!add(&repository, &second, Some(ticket)).0);
        let programs = repository.programs().unwrap();
        assert!(
            programs
                .compilation(&second.digest)
                .unwrap()
                .base()
                .is_some()
        );
    }
    damage(&first.digest, 60);
    let repository = Repository::open(&path).unwrap();
    let programs = repository.programs().unwrap();
    let error = programs
        .compilation(&second.digest)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("difference to one that is damaged"),
        "{error}"
    );
    // What comes next is recorded whole, and who has the base again mends both.
    assert!(add(&repository, &third, Some(ticket)).0);
    let programs = repository.programs().unwrap();
    assert_eq!(programs.compilation(&third.digest).unwrap().base(), None);
    assert!(!add(&repository, &first, None).0);
    programs.compilation(&second.digest).unwrap();
}
