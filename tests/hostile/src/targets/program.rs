//! Program repositories whose records contradict each other, while every checksum is right: tickets are linked from them, and
//! all compilations are read back. What is wrong is an error, never a panic and never another size than the disk's.

use super::corpus;
use super::link::{START, directory, link_here};
use bumpalo::Bump;
use format_spec::canonical;
use format_spec::digest::Digest;
use format_spec::envelope::{Class, Envelope, Reference, Strength};
use format_spec::file::IndexSlot;
use format_spec::ids::NameId;
use format_spec::kinds::{BODY_VERSION, CompilerBody};
use format_spec::program::{Index, has_envelopes};
use linker::repository::import::prepare;
use linker::repository::join::join;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use store::engine::Durability;
use store::program::{Addition, Prepared, Programs, Repository, insert_enveloped};
use tickets::write_ticket;

/// Kinds of links: each reads other parts of the records.
const WAYS: [&[&str]; 9] = [
    &["-static", "--unresolved-symbols=ignore-all"],
    &[
        "-pie",
        "--gc-sections",
        "--eh-frame-hdr",
        "--unresolved-symbols=ignore-all",
    ],
    &["-shared", "--eh-frame-hdr", "-Map=/dev/null", "--cref"],
    &["-r"],
    &["-pie", "--unresolved-symbols=ignore-all", "--icf=all"],
    &["-static", "--emit-relocs", "--noinhibit-exec"],
    &["-shared", "-zpack-relative-relocs", "--gdb-index"],
    &["-pie", "--noinhibit-exec", "--eh-frame-hdr", "--build-id"],
    &[
        "-static",
        "--noinhibit-exec",
        "--print-gc-sections",
        "--gc-sections",
    ],
];

/// The objects of which each link takes some: those that define no name twice.
const OBJECTS: [&[&str]; 5] = [
    &["throws"],
    &["comdat"],
    &["tls"],
    &["debug"],
    &["features"],
];

/// A sound repository, and the tickets of its objects. The tickets name the path.
struct Sound {
    directory: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl Sound {
    fn repository(directory: &Path) -> PathBuf {
        directory.join("program.repo")
    }

    fn ticket(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let directory = directory();
    let path = Sound::repository(directory.path());
    let repository = Repository::open_or_create(&path).expect("room in memory");
    let objects = corpus("object").into_iter();
    for (number, (name, bytes)) in objects
        .chain([("start".into(), START.to_vec())])
        .enumerate()
    {
        let object = directory.path().join(&name);
        let arena = Bump::new();
        // Some are kept as they are on the ordinary road, too.
        let Ok((mut prepared, _)) = prepare(&object, &bytes, &arena) else {
            continue;
        };
        // What is recorded plain has more fields to change.
        if number % 3 == 0 {
            prepared.compress();
        }
        let ticket = Some(&*object);
        let addition = Addition {
            prepared: &prepared,
            ticket,
        };
        repository.add(&[addition]).expect("room in memory");
        write_ticket(&object, &repository, &prepared.digest).expect("room in memory");
    }
    in_envelopes(&repository);
    drop(repository);
    let bytes = std::fs::read(&path).expect("just made");
    Sound { directory, bytes }
});

/// Adds records in envelopes: types that refer to each other, and what is attached to compilations.
fn in_envelopes(repository: &Repository) {
    let programs = repository.programs().expect("just made");
    let compilations: Vec<_> = (programs.records(Index::Compilations).flatten())
        .map(|record| record.address)
        .collect();
    let mut transaction = repository.store().begin(Durability::Lazy).expect("begun");
    let identity = Digest([3; 32]);
    let compiler = CompilerBody {
        size: 1,
        modified: 2,
        identity,
    };
    let in_envelope = Envelope {
        class: Class::Needed as u8,
        body_version: BODY_VERSION,
        references: &[],
        names: &[NameId(0)],
        pieces: &[],
        body: bytemuck::bytes_of(&compiler),
    };
    // The name with id 0 is empty in every repository.
    let key = canonical::compiler(b"", compiler.size, compiler.modified);
    let slot = Index::Compilers.slot();
    insert_enveloped(&mut transaction, slot, &key, &in_envelope).expect("added");
    let text = b"a.c:1:1: warning: there is one";
    let in_envelope = Envelope {
        names: &[],
        body: text,
        ..in_envelope
    };
    let key = canonical::captured(text);
    let captured = insert_enveloped(&mut transaction, Index::Captured.slot(), &key, &in_envelope);
    let captured = captured.expect("added");
    let mut older = None;
    for (number, compilation) in (0..).zip(compilations) {
        let key = Digest::of(&[number]);
        let references: Vec<_> = older
            .map(|older| Reference::new(older, Strength::Strong))
            .into_iter()
            .collect();
        let of_type = Envelope {
            class: Class::Needed as u8,
            body_version: BODY_VERSION,
            references: &references,
            names: &[NameId(u32::from(number))],
            pieces: &[],
            body: &[0x24, 0, 0, 0, 0, 0, 0, 0, number],
        };
        let added = insert_enveloped(&mut transaction, Index::Types.slot(), &key, &of_type);
        older = Some(added.expect("added"));
        let references = [
            Reference::new(compilation, Strength::Strong),
            Reference::new(captured, Strength::Strong),
        ];
        // One result, with diagnostics; a name is a part of the key.
        let mut body = [0; 16 + 24];
        (body[0], body[8], body[16], body[20]) = (1, 1, 1, 2);
        let manifest = Envelope {
            class: Class::Cached as u8,
            references: &references,
            body: &body,
            ..of_type
        };
        let slot = Index::Manifests.slot();
        insert_enveloped(&mut transaction, slot, &key, &manifest).expect("added");
    }
    transaction.commit().expect("room in memory");
}

/// A sound repository, whose tickets [`run`] links.
pub fn seed() -> &'static [u8] {
    &SOUND.bytes
}

/// Puts the bytes in the place of the repository, links and reads.
pub fn run(bytes: &[u8]) {
    // One at a time: the tickets name one path.
    static PLACE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _place = PLACE.lock().unwrap_or_else(|poison| poison.into_inner());
    let path = Sound::repository(SOUND.directory.path());
    std::fs::write(&path, bytes).expect("room in memory");
    let choice = crc32fast::hash(bytes) as usize;
    let way = WAYS[choice % WAYS.len()];
    let objects = OBJECTS[choice / WAYS.len() % OBJECTS.len()];
    let tickets = ["start"].iter().chain(objects);
    link_here(way, tickets.map(|name| SOUND.ticket(name)));
    if choice.is_multiple_of(4)
        && let Ok(repository) = Repository::open_read_only(&path)
        && let Ok(programs) = repository.programs()
    {
        look_at(&programs);
    }
}

/// Reads every record as who verifies does.
fn look_at(programs: &Programs) {
    for record in programs.records(Index::Compilations).flatten() {
        let Ok(view) = programs.compilation(&record.key()) else {
            continue;
        };
        let Ok(loaded) = programs.load(&view) else {
            continue;
        };
        let _ = black_box(join(&loaded));
        let _ = black_box(Prepared::new(loaded));
    }
    for record in programs.records(Index::Fragments).flatten() {
        let _ = black_box(programs.fragment(record.address));
    }
    for record in programs.records(Index::Tickets).flatten() {
        let _ = black_box(programs.ticket(&record));
    }
    for index in IndexSlot::all().filter(|index| has_envelopes(*index)) {
        for record in programs.snapshot().iter(index).flatten() {
            let _ = black_box(programs.check_enveloped(&record));
        }
    }
    for id in 0..programs.piece_count().min(10_000) as u32 {
        let _ = black_box(programs.piece(format_spec::ids::PieceId(id)));
    }
    for id in 0..programs.name_count().min(10_000) as u32 {
        let _ = black_box(programs.name(format_spec::ids::NameId(id)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else changes would be made to what is refused anyway.
    #[test]
    fn sound_envelopes_are_as_specified() {
        let directory = directory();
        let path = Sound::repository(directory.path());
        std::fs::write(&path, seed()).expect("room in memory");
        let repository = Repository::open(&path).expect("sound");
        let programs = repository.programs().expect("sound");
        let mut count = 0;
        for index in [Index::Types, Index::Manifests] {
            for record in programs.records(index) {
                let record = record.expect("sound");
                programs.check_enveloped(&record).expect("sound");
                count += 1;
            }
        }
        assert!(count >= 8, "{count}");
    }

    /// Else changes would be made to what no link gets far with.
    #[test]
    fn sound_tickets_link_in_every_way() {
        std::fs::write(Sound::repository(SOUND.directory.path()), seed()).expect("room in memory");
        for (number, way) in WAYS.iter().enumerate() {
            let linked = OBJECTS.iter().filter(|objects| {
                let tickets = ["start"].iter().chain(**objects);
                link_here(way, tickets.map(|name| SOUND.ticket(name)))
            });
            let linked = linked.count();
            assert!(linked >= 2, "way {number}: {linked} of {}", OBJECTS.len());
        }
    }
}
