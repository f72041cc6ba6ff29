//! What tickets say of themselves, and archives that are written anew.

use ::tickets::archive::{Archive, ArchiveError, MemberBody, THIN_MAGIC};
use ::tickets::archive_writer::{Outside, thin_again, with_members};
use ::tickets::key::Key;
use ::tickets::recipe::Recipe;
use format_spec::digest::Digest;
use format_spec::ticket::{TicketNote, put_seal, seal};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::OnceLock;

const REPOSITORY: &str = "/home/u/program.repo";

/// Two keys, each of a file of its own.
fn keys() -> &'static [Key; 2] {
    static KEYS: OnceLock<[Key; 2]> = OnceLock::new();
    KEYS.get_or_init(|| {
        let directory = tempfile::tempdir().expect("room");
        let key = |name: &str| Key::read_or_make(&directory.path().join(name)).expect("room");
        [key("own"), key("another")]
    })
}

/// Words, each with a newline behind it: what is recorded of them is read back, by whoever has the key.
pub fn recipe(data: &[u8]) {
    let mut words = data
        .split(|byte| *byte == b'\n')
        .map(|word| OsString::from_vec(word.to_vec()));
    let (Some(ticket), Some(directory)) = (words.next(), words.next()) else {
        return;
    };
    let recipe = Recipe {
        ticket: ticket.into(),
        directory: directory.into(),
        command: words.collect(),
    };
    let [key, another] = keys();
    let repository = Path::new(REPOSITORY);
    let made = recipe.encode(repository, key);
    let is_repeatable = Recipe::is_repeatable(&recipe.command);
    let is_sound = recipe.ticket.is_absolute()
        && recipe.directory.is_absolute()
        && !recipe.command.is_empty()
        && [recipe.ticket.as_os_str(), recipe.directory.as_os_str()]
            .iter()
            .all(|path| !path.as_bytes().contains(&0));
    let read = Recipe::decode(&made, repository);
    if is_sound && is_repeatable && !made.is_empty() {
        assert_eq!(read.as_ref(), Some(&recipe));
        let signed = Recipe::decode_signed(&made, repository, key);
        assert_eq!(signed.as_ref(), Some(&recipe));
    }
    assert!(Recipe::decode_signed(&made, repository, another).is_none());
    if let Some(read) = read {
        read.shown();
    }
}

/// A note in any bytes: what it says is read back when it is written, and nobody has signed it with a key that no seed is signed with.
pub fn note(data: &[u8]) {
    let [key, another] = keys();
    let read = |note: &TicketNote<'_>| {
        let repository = Path::new(OsStr::from_bytes(note.repository));
        let read = Recipe::decode(note.made, repository);
        if let Some(signed) = Recipe::decode_signed(note.made, repository, key) {
            assert_eq!(read, Some(signed));
        }
        assert!(Recipe::decode_signed(note.made, repository, another).is_none());
    };
    if let Ok(note) = TicketNote::parse(data) {
        let again = note.encode();
        assert_eq!(TicketNote::parse(&again), Ok(note));
        read(&note);
    }
    if let Some(fat) = TicketNote::of_fat(data) {
        assert!(fat.object.len() <= fat.start && fat.start < data.len());
        let mut again = fat.object.to_vec();
        fat.note.make_fat(&mut again);
        let made = TicketNote::of_fat(&again).expect("it was made so");
        assert_eq!(made.object, fat.object);
        assert_eq!(seal(&again, made.start), Some(made.note.seal));
        read(&fat.note);
    }
    for start in [0, data.len() / 2, data.len(), usize::MAX] {
        if let Some(right) = seal(data, start) {
            let mut sealed = data.to_vec();
            put_seal(&mut sealed, start);
            assert_eq!(seal(&sealed, start), Some(right));
        }
    }
    ::tickets::is_fat(data);
    ::tickets::is_ticket(data);
}

/// Sound notes: a ticket's, and that of a fat object.
pub fn seeds() -> Vec<Vec<u8>> {
    let [key, _] = keys();
    let recipe = Recipe {
        ticket: "/home/u/a.o".into(),
        directory: "/home/u".into(),
        command: ["gcc", "-O2", "-c", "a.c", "-o", "a.o"]
            .map(OsString::from)
            .to_vec(),
    };
    let made = recipe.encode(Path::new(REPOSITORY), key);
    let note = TicketNote {
        uuid: [1; 16],
        compilation: Digest([2; 32]),
        seal: 3,
        repository: REPOSITORY.as_bytes(),
        made: &made,
    };
    let mut fat = b"an object".to_vec();
    note.make_fat(&mut fat);
    vec![note.encode(), fat]
}

/// An archive in which members that are chosen by their bytes are replaced: it has the same members in the same order, with these bytes.
pub fn archive_writer(data: &[u8]) {
    if data.starts_with(THIN_MAGIC) {
        thin_archive(data);
    }
    let is_replaced = |body: &[u8]| body.first().is_some_and(|byte| byte % 2 == 1);
    let new_bytes = |body: &[u8]| [b"another ", &body[..body.len() / 2]].concat();
    let written = with_members::<ArchiveError>(data, |_, body| {
        Ok(is_replaced(body).then(|| new_bytes(body)))
    });
    let Ok(Some(written)) = written else { return };
    let members = |data: &[u8]| {
        let archive = Archive::parse(data).expect("it was read, or written");
        let members = archive.members().map(|member| {
            let member = member.expect("it was read, or written");
            let body = archive.inline_data(&member).map(<[u8]>::to_vec);
            (member.name.to_vec(), body)
        });
        members
            .filter_map(|(name, body)| Some((name, body?)))
            .collect::<Vec<_>>()
    };
    let mut expected = members(data);
    for (_, body) in &mut expected {
        if is_replaced(body) {
            *body = new_bytes(body);
        }
    }
    assert_eq!(members(&written), expected);
    let archive = Archive::parse(&written).expect("it was written");
    for symbol in archive.symbols().into_iter().flatten() {
        let (_, offset) = symbol.expect("it was written");
        archive.member_at(offset).expect("a member of the index");
    }
}

/// A thin archive whose members have all become this: it has the same members with this size, and those of other archives at this place.
fn thin_archive(data: &[u8]) {
    const NOW: &[u8] = b"another member";
    const PLACE: u64 = 70;
    let written = thin_again::<ArchiveError>(data, |_| {
        Ok(Outside {
            bytes: NOW.to_vec().into(),
            place: Some(PLACE),
        })
    });
    let Ok(written) = written else { return };
    let members = |data: &[u8]| {
        let archive = Archive::parse(data).expect("it was read, or written");
        let members = archive.members();
        let members = members.map(|member| member.expect("it was read, or written"));
        members
            .map(|member| (member.name.to_vec(), member.body))
            .collect::<Vec<_>>()
    };
    let (before, after) = (members(data), members(&written));
    assert_eq!(before.len(), after.len());
    for ((old, was), (new, is)) in before.iter().zip(&after) {
        assert_eq!(old, new);
        match (was, is) {
            (MemberBody::Nested { .. }, MemberBody::Nested { header_offset }) => {
                assert_eq!(*header_offset, PLACE);
            }
            (MemberBody::External { .. }, MemberBody::External { size }) => {
                assert_eq!(*size, NOW.len() as u64);
            }
            other => panic!("{other:?}"),
        }
    }
    let archive = Archive::parse(&written).expect("it was written");
    for symbol in archive.symbols().into_iter().flatten() {
        let (_, offset) = symbol.expect("it was written");
        archive.member_at(offset).expect("a member of the index");
    }
}
