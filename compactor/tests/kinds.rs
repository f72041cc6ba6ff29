//! Records of kinds that repo-gc need not know: what keeps them, that nothing that they refer to is lost or mixed up, and what
//! becomes of damage.

mod common;

use common::{
    Directory, FOREVER, add, compact, dry_run, has, unit, unit_with_string, unit_with_table, wishes,
};
use compactor::observer::{Observer, Silent};
use compactor::roots::Wishes;
use format_spec::digest::Digest;
use format_spec::envelope::{Class, Envelope, Reference, Strength, put_number};
use format_spec::file::{Features, IndexSlot, VectorSlot};
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::{
    ImageHeader, ImageInputRecord, Index, NameHeader, PieceHeader, name_key,
};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use store::engine::{Durability, Reader, Transaction};
use store::program::manifest::{NewResult, record_result};
use store::program::{ProgramError, Programs, Repository, insert_enveloped, replace_enveloped};

/// An index that nobody knows.
const UNKNOWN: IndexSlot = IndexSlot::of::<20>();
/// A vector that nobody knows.
const VECTOR: VectorSlot = VectorSlot::of::<5>();

fn key(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

/// A record in an envelope, to be added.
#[derive(Clone, Debug)]
struct Sample {
    index: IndexSlot,
    key: Digest,
    class: u8,
    references: Vec<(Address, Strength)>,
    names: Vec<NameId>,
    pieces: Vec<PieceId>,
    body: Vec<u8>,
}

impl Sample {
    fn new(index: IndexSlot, name: &str, class: Class) -> Sample {
        Sample {
            index,
            key: key(name),
            class: class as u8,
            references: Vec::new(),
            names: Vec::new(),
            pieces: Vec::new(),
            body: name.as_bytes().to_vec(),
        }
    }

    fn to(mut self, strength: Strength, address: Address) -> Sample {
        self.references.push((address, strength));
        self
    }

    fn add(&self, transaction: &mut Transaction<'_>) -> Address {
        let references: Vec<_> = (self.references.iter())
            .map(|(address, strength)| Reference::new(*address, *strength))
            .collect();
        let envelope = Envelope {
            class: self.class,
            body_version: 0,
            references: &references,
            names: &self.names,
            pieces: &self.pieces,
            body: &self.body,
        };
        replace_enveloped(transaction, self.index, &self.key, &envelope).expect("added")
    }
}

/// Adds records in one transaction.
fn change<T>(repository: &Repository, change: impl FnOnce(&mut Transaction<'_>) -> T) -> T {
    let mut transaction = repository.store().begin(Durability::Lazy).expect("begun");
    let result = change(&mut transaction);
    transaction.commit().expect("committed");
    result
}

fn address_of(reader: &impl Reader, index: IndexSlot, key: &Digest) -> Address {
    let record = reader.get(index, key).expect("sound");
    record.expect("it is there").address
}

/// What a reference leads to, whatever the addresses are.
type Target = Option<(IndexSlot, Digest)>;

/// A record as it is in every file that has it.
#[derive(Debug, PartialEq, Eq)]
struct Meaning {
    class: u8,
    body_version: u8,
    references: Vec<(Strength, Target)>,
    names: Vec<Vec<u8>>,
    pieces: Vec<Vec<u8>>,
    body: Vec<u8>,
}

fn target(programs: &Programs<'_>, address: Option<Address>) -> Target {
    let record = programs
        .snapshot()
        .record_at(address?)
        .expect("it leads to a record");
    assert!(record.is_whole());
    let index = record.index().expect("of an index");
    // The keys of names and pieces are those of one repository; behind their heads are their bytes.
    let head = match Index::at(index) {
        Some(Index::Names) => size_of::<NameHeader>(),
        Some(Index::Pieces) => size_of::<PieceHeader>(),
        _ => return Some((index, record.key())),
    };
    Some((index, Digest::of(&record.value[head..])))
}

fn meaning(programs: &Programs<'_>, index: IndexSlot, key: &Digest) -> Option<Meaning> {
    let record = programs.snapshot().get(index, key).expect("sound")?;
    let envelope = programs.envelope(&record).expect("an envelope");
    let references = envelope.references.iter().map(|reference| {
        let strength = reference.strength().expect("known");
        (strength, target(programs, reference.address()))
    });
    let names = envelope.names.iter();
    let pieces = envelope.pieces.iter();
    Some(Meaning {
        class: envelope.class,
        body_version: envelope.body_version,
        references: references.collect(),
        names: names
            .map(|name| programs.name(*name).expect("a name").to_vec())
            .collect(),
        pieces: pieces
            .map(|piece| programs.piece(*piece).expect("a piece").bytes.to_vec())
            .collect(),
        body: envelope.body.to_vec(),
    })
}

/// Everything in indices of envelopes.
fn everything(programs: &Programs<'_>) -> BTreeMap<(IndexSlot, Digest), Meaning> {
    let mut found = BTreeMap::new();
    for index in IndexSlot::all().filter(|index| format_spec::program::has_envelopes(*index)) {
        for record in programs.snapshot().iter(index) {
            let record = record.expect("sound");
            let meaning = meaning(programs, index, &record.key()).expect("it is there");
            found.insert((index, record.key()), meaning);
        }
    }
    found
}

fn elements(programs: &Programs<'_>, vector: VectorSlot) -> Vec<Target> {
    let snapshot = programs.snapshot();
    let elements = 0..snapshot.vector_len(vector) as u32;
    let elements = elements.map(|element| {
        let address = snapshot.vector_get(vector, element).expect("sound");
        target(programs, address.filter(|address| *address != Address(0)))
    });
    elements.collect()
}

/// Records an image, made of a compilation.
fn add_image(transaction: &mut Transaction<'_>, path: &str, compilation: Address) -> Address {
    let header = ImageHeader {
        options: Digest::of(b"options"),
        written: 0,
        output_size: 6,
        path_size: path.len() as u32,
        input_count: 1,
        reserved: [0; 2],
    };
    let mut value = bytemuck::bytes_of(&header).to_vec();
    value.extend_from_slice(path.as_bytes());
    value.resize(value.len().next_multiple_of(8), 0);
    value.extend_from_slice(bytemuck::bytes_of(&ImageInputRecord {
        compilation,
        path: NameId(0),
        reserved: 0,
    }));
    let replaced = transaction.replace(Index::Images.slot(), &Digest::of(path.as_bytes()), &value);
    replaced.expect("replaced")
}

#[test]
fn manifests_that_nobody_uses_go() {
    let place = Directory::new();
    let repository = place.repository();
    let made = unit(b"made", b"\x90\xc3");
    add(&repository, &made, None);
    let new = NewResult {
        key: &key("cc -c a.c"),
        parts: &[b"cc".to_vec()],
        conditions: &[],
        compilation: Some(&made.digest),
        diagnostics: b"a warning",
        is_coloured: false,
        dependencies: None,
        files: None,
    };
    record_result(repository.store(), &new).expect("recorded");
    drop(repository);
    let found = || {
        let repository = place.repository();
        let programs = repository.programs().expect("sound");
        let manifest = programs.manifest(&key("cc -c a.c")).expect("sound");
        let captured = programs.snapshot().count(Index::Captured.slot());
        (manifest.is_some(), has(&repository, &made), captured)
    };
    let path = place.path("program.repo");
    let compact_now = |unused| {
        let wishes = Wishes {
            unused,
            ..wishes(0)
        };
        compact(&path, &wishes, &Silent).expect("compacted")
    };
    // For as long as somebody may ask for it, it stays, with what it is of.
    compact_now(u64::MAX);
    assert_eq!(found(), (true, true, 1));
    // What is young is kept, however that may be.
    let young = Wishes {
        unused: 0,
        ..wishes(FOREVER)
    };
    compact(&path, &young, &Silent).expect("compacted");
    assert_eq!(found(), (true, true, 1));
    let dry = Wishes {
        unused: 1000,
        ..wishes(0)
    };
    assert_eq!(
        dry_run(&path, &dry).expect("looked at").gone.compilations,
        1
    );
    compact_now(1000);
    assert_eq!(found(), (false, false, 0));
}

/// One of every kind, as far as that can be, and some of kinds that nobody knows: all of it live with the compilation "live".
#[test]
#[allow(clippy::too_many_lines)] // one record of each kind
fn every_kind_survives_with_what_it_refers_to() {
    let place = Directory::new();
    let repository = place.repository();
    // What goes comes first, so that all addresses and ids change.
    add(
        &repository,
        &unit_with_string(b"dead", b"\x90\x90", b"dead string\0"),
        None,
    );
    let other = unit_with_string(b"only needed", b"\x90\xc3", b"needed string\0");
    add(&repository, &other, None);
    let in_part = unit_with_table(b"in part", b"\x90\x90\xc3", b"a table");
    add(&repository, &in_part, None);
    let live = unit_with_string(b"live", b"\xc3", b"live string\0");
    add(&repository, &live, Some(&place.path("live.o")));
    let output = place.path("a.out");
    std::fs::write(&output, "output").expect("written");
    let output = output.to_str().expect("text");

    let (pieces, needed_name, live_name) = {
        let programs = repository.programs().expect("a snapshot");
        let name = |name: &[u8]| programs.find_name(name).expect("sound").expect("interned");
        (
            programs.piece_count() as u32,
            name(b"only needed"),
            name(b"live"),
        )
    };
    change(&repository, |transaction| {
        let compilation = address_of(transaction, Index::Compilations.slot(), &live.digest);
        let needed = address_of(transaction, Index::Compilations.slot(), &other.digest);
        let fragment = address_of(transaction, Index::Fragments.slot(), &live.fragments[0]);
        let function = address_of(transaction, Index::Fragments.slot(), &in_part.fragments[0]);
        let table = address_of(transaction, Index::Fragments.slot(), &in_part.fragments[1]);
        let uuid = transaction.base().store().uuid();
        let programs = Programs::new(transaction.base());
        let piece = (0..programs.piece_count() as u32)
            .map(|id| programs.piece(PieceId(id)).expect("a piece"))
            .find(|piece| piece.bytes == other.compilation.pieces[0].bytes);
        let piece = piece.expect("it was added").record.address;
        let name = address_of(transaction, Index::Names.slot(), &name_key(&uuid, b"dead"));
        let image = add_image(transaction, output, compilation);
        use Strength::{Owner, Strong, Weak};
        let mut add = |sample: Sample| sample.add(transaction);

        let int = add(Sample::new(Index::Types.slot(), "int", Class::Needed));
        let mut pointer = Sample::new(Index::Types.slot(), "int *", Class::Needed).to(Strong, int);
        pointer.names = vec![needed_name];
        let pointer = add(pointer);
        let lines = add(Sample::new(
            Index::LineTables.slot(),
            "lines",
            Class::Needed,
        ));
        let mut debug = Sample::new(Index::DebugInformation.slot(), "", Class::AttachedToAll)
            .to(Owner, compilation)
            .to(Strong, pointer)
            .to(Strong, lines);
        debug.key = live.digest;
        add(debug);
        let callee = add(
            Sample::new(Index::Definitions.slot(), "callee", Class::AttachedToAll)
                .to(Owner, fragment),
        );
        add(
            Sample::new(Index::Definitions.slot(), "caller", Class::AttachedToAll)
                .to(Owner, fragment)
                .to(Owner, callee),
        );
        let captured = add(Sample::new(
            Index::Captured.slot(),
            "warning: …",
            Class::Needed,
        ));
        let compiler = add(Sample::new(Index::Compilers.slot(), "cc", Class::Needed));
        let mut manifest = Sample::new(
            Index::Manifests.slot(),
            "cc -c live.c",
            Class::AttachedToAny,
        )
        .to(Strong, compiler)
        .to(Owner, compilation)
        .to(Strong, captured);
        manifest.names = vec![live_name, needed_name, live_name];
        let manifest = add(manifest);
        add(
            Sample::new(Index::LastUses.slot(), "cc -c live.c", Class::AttachedToAll)
                .to(Owner, manifest),
        );
        let part = add(Sample::new(Index::ImageParts.slot(), "part", Class::Needed));
        for (index, name) in [
            (Index::Placements, "placements"),
            (Index::Referrers, "referrers"),
        ] {
            let mut of_image = Sample::new(index.slot(), name, Class::AttachedToAll)
                .to(Owner, image)
                .to(Strong, part);
            of_image.key = Digest::of(output.as_bytes());
            add(of_image);
        }

        // Of kinds that nobody knows.
        let mut root = Sample::new(UNKNOWN, "root", Class::Root)
            .to(Strong, needed)
            .to(Strong, piece)
            .to(Strong, function)
            .to(Weak, fragment)
            .to(Strong, name);
        // Twice, and in another order than in the file.
        root.pieces = (0..pieces).rev().chain(0..pieces).map(PieceId).collect();
        let root = add(root);
        add(Sample::new(UNKNOWN, "of the table", Class::AttachedToAll).to(Owner, table));
        let mut of_a_later_class = Sample::new(UNKNOWN, "later", Class::Root).to(Weak, compilation);
        of_a_later_class.class = 77;
        of_a_later_class.body = (0..=255).collect();
        let later = add(of_a_later_class);
        add(Sample::new(IndexSlot::of::<23>(), "cached", Class::Cached).to(Strong, later));
        for element in [later, needed, root, Address(0), later] {
            transaction.push(VECTOR, element).expect("pushed");
        }
    });
    let (before, vector_before) = {
        let programs = repository.programs().expect("a snapshot");
        (everything(&programs), elements(&programs, VECTOR))
    };
    assert_eq!(before.len(), 17);

    let path = place.path("program.repo");
    let told = dry_run(&path, &wishes(0)).expect("looked at");
    let told: Vec<_> = told
        .others
        .iter()
        .map(|others| (others.index, others.kept, others.gone))
        .collect();
    let report = place.compact(0);
    assert_eq!(report.warnings, [""; 0]);
    assert_eq!((report.kept.compilations, report.gone.compilations), (2, 2));
    let kept: Vec<_> = report
        .others
        .iter()
        .map(|others| (others.index, others.kept, others.gone))
        .collect();
    assert_eq!(kept, told);
    assert_eq!(kept.iter().map(|(_, kept, _)| kept).sum::<u64>(), 17);
    assert!(kept.iter().all(|(_, _, gone)| *gone == 0));

    let new = place.repository();
    new.store().verify().expect("sound");
    let programs = new.programs().expect("a snapshot");
    assert_eq!(everything(&programs), before);
    assert_eq!(elements(&programs, VECTOR), vector_before);
    assert!(has(&new, &live) && has(&new, &other) && !has(&new, &in_part));
    assert_eq!(
        programs.snapshot().features().compatible,
        Features::ENVELOPES
    );
    // They are elsewhere, or this test proves nothing.
    let moved = |index: IndexSlot, key: &Digest| {
        let old = repository.programs().expect("a snapshot");
        address_of(&old.snapshot(), index, key) != address_of(&programs.snapshot(), index, key)
    };
    assert!(moved(UNKNOWN, &key("root")) && moved(Index::Fragments.slot(), &live.fragments[0]));
    // Once more, from the new file, nothing changes.
    drop(new);
    place.compact(0);
    let programs = place.repository();
    assert_eq!(
        everything(&programs.programs().expect("a snapshot")),
        before
    );
}

/// The keys in an index.
fn keys(programs: &Programs<'_>, index: IndexSlot) -> BTreeSet<Digest> {
    let records = programs.snapshot().iter(index);
    records.map(|record| record.expect("sound").key()).collect()
}

#[test]
fn what_nothing_keeps_goes_and_is_told_to_those_that_can_be_without() {
    let place = Directory::new();
    let repository = place.repository();
    let (live, dead) = (unit(b"live", b"\xc3"), unit(b"dead", b"\x90"));
    add(&repository, &dead, None);
    add(&repository, &live, Some(&place.path("live.o")));
    let by = |name: &str| (UNKNOWN, key(name));
    change(&repository, |transaction| {
        use Strength::{Owner, Strong, Weak};
        let alive = address_of(transaction, Index::Compilations.slot(), &live.digest);
        let gone = address_of(transaction, Index::Compilations.slot(), &dead.digest);
        let new = |name: &str, class| Sample::new(UNKNOWN, name, class);
        let mut add = |sample: Sample| sample.add(transaction);
        let one = add(new("of one that lives", Class::AttachedToAll).to(Owner, alive));
        let other = add(new("of one that does not", Class::AttachedToAll).to(Owner, gone));
        add(new("of both", Class::AttachedToAll)
            .to(Owner, one)
            .to(Owner, other));
        add(new("of any", Class::AttachedToAny)
            .to(Owner, gone)
            .to(Owner, other)
            .to(Owner, one));
        let needed = add(new("needed", Class::Needed));
        let indirectly = add(new("needed by that", Class::Needed).to(Strong, needed));
        add(new("needed by nothing", Class::Needed).to(Strong, alive));
        add(new("root", Class::Root)
            .to(Weak, gone)
            .to(Strong, indirectly)
            .to(Weak, other)
            .to(Weak, alive));
    });
    let told = dry_run(&place.path("program.repo"), &wishes(0)).expect("looked at");
    assert_eq!((told.others[0].kept, told.others[0].gone), (5, 3));
    place.compact(0);
    let repository = place.repository();
    let programs = repository.programs().expect("a snapshot");
    let names = [
        "of one that lives",
        "of any",
        "needed",
        "needed by that",
        "root",
    ];
    assert_eq!(keys(&programs, UNKNOWN), names.map(key).into());
    let references = |name: &str| {
        meaning(&programs, UNKNOWN, &key(name))
            .expect("there")
            .references
    };
    let compilation = Some((Index::Compilations.slot(), live.digest));
    assert_eq!(
        references("of any"),
        [
            (Strength::Owner, None),
            (Strength::Owner, None),
            (Strength::Owner, Some(by("of one that lives"))),
        ]
    );
    assert_eq!(
        references("root"),
        [
            (Strength::Weak, None),
            (Strength::Strong, Some(by("needed by that"))),
            (Strength::Weak, None),
            (Strength::Weak, compilation),
        ]
    );
    // What is not there any more keeps nothing, the next time.
    drop(repository);
    std::fs::remove_file(place.path("live.o")).expect("removed");
    place.compact(0);
    let repository = place.repository();
    let programs = repository.programs().expect("a snapshot");
    let names = ["needed", "needed by that", "root"];
    assert_eq!(keys(&programs, UNKNOWN), names.map(key).into());
}

#[test]
fn what_is_young_stays_with_its_owners() {
    let place = Directory::new();
    let repository = place.repository();
    let dead = unit(b"dead", b"\x90");
    add(&repository, &dead, None);
    change(&repository, |transaction| {
        let gone = address_of(transaction, Index::Compilations.slot(), &dead.digest);
        let owned = Sample::new(UNKNOWN, "attached", Class::AttachedToAny);
        let owned = owned.to(Strength::Owner, gone).add(transaction);
        Sample::new(UNKNOWN, "needed", Class::Needed)
            .to(Strength::Weak, owned)
            .add(transaction);
    });
    let before = everything(&repository.programs().expect("a snapshot"));
    place.compact(FOREVER);
    let repository = place.repository();
    assert_eq!(
        everything(&repository.programs().expect("a snapshot")),
        before
    );
    drop(repository);
    place.compact(0);
    let repository = place.repository();
    assert!(everything(&repository.programs().expect("a snapshot")).is_empty());
}

/// Does something to the repository when everything that is live has been copied, before what was added since is.
struct Meanwhile<F: FnOnce() + Send>(Mutex<Option<F>>);

impl<F: FnOnce() + Send> Observer for Meanwhile<F> {
    fn begin(&self, what: &'static str, _: u64) {
        if what == "verifying" {
            let work = self.0.lock().expect("no panic").take();
            work.expect("it is verified once")();
        }
    }
    fn step(&self) {}
}

#[test]
fn what_writers_revive_or_add_meanwhile_is_caught_up_with() {
    use Strength::{Owner, Strong};
    let place = Directory::new();
    let repository = place.repository();
    let (revived, dead) = (
        unit_with_string(b"f", b"\xc3", b"text\0"),
        unit(b"dead", b"\x90"),
    );
    let output = place.path("a.out");
    std::fs::write(&output, "output").expect("written");
    let output = output.to_str().expect("text");
    add(&repository, &dead, None);
    add(&repository, &revived, None);
    change(&repository, |transaction| {
        let compilation = address_of(transaction, Index::Compilations.slot(), &revived.digest);
        let fragment = address_of(transaction, Index::Fragments.slot(), &revived.fragments[0]);
        let gone = address_of(transaction, Index::Compilations.slot(), &dead.digest);
        let image = add_image(transaction, output, Address(0));
        let mut add = |sample: Sample| sample.add(transaction);
        let lines = add(Sample::new(UNKNOWN, "lines", Class::Needed));
        add(
            Sample::new(UNKNOWN, "of the revived compilation", Class::AttachedToAll)
                .to(Owner, compilation)
                .to(Strong, lines),
        );
        add(Sample::new(UNKNOWN, "of its fragment", Class::AttachedToAny).to(Owner, fragment));
        add(Sample::new(UNKNOWN, "of the dead one", Class::AttachedToAll).to(Owner, gone));
        add(Sample::new(UNKNOWN, "needed later", Class::Needed));
        add(Sample::new(UNKNOWN, "replaced later", Class::Root));
        add(Sample::new(UNKNOWN, "of the old image", Class::AttachedToAll).to(Owner, image));
    });
    let changed = change(&repository, |transaction| {
        transaction.push(
            VECTOR,
            address_of(transaction, UNKNOWN, &key("replaced later")),
        )
    });
    changed.expect("pushed");
    let observer = Meanwhile(Mutex::new(Some(|| {
        let repository = place.repository();
        // Known to the old file, so only the ticket is added.
        add(&repository, &revived, Some(&place.path("f.o")));
        change(&repository, |transaction| {
            let needed = address_of(transaction, UNKNOWN, &key("needed later"));
            let mut replaced =
                Sample::new(UNKNOWN, "replaced later", Class::Root).to(Strong, needed);
            replaced.body = b"new".to_vec();
            replaced.add(transaction);
            let old = address_of(
                transaction,
                Index::Images.slot(),
                &Digest::of(output.as_bytes()),
            );
            let stale = Sample::new(
                UNKNOWN,
                "of an image that is replaced",
                Class::AttachedToAll,
            );
            stale.to(Owner, old).add(transaction);
            let compilation = address_of(transaction, Index::Compilations.slot(), &revived.digest);
            let image = add_image(transaction, output, compilation);
            let new = Sample::new(UNKNOWN, "of the new image", Class::AttachedToAll);
            new.to(Owner, image).add(transaction);
            transaction.push(VECTOR, needed).expect("pushed");
        });
    })));
    compact(&place.path("program.repo"), &wishes(0), &observer).expect("compacted");
    let repository = place.repository();
    repository.store().verify().expect("sound");
    let programs = repository.programs().expect("a snapshot");
    assert!(has(&repository, &revived) && !has(&repository, &dead));
    // That of the old image was copied before that was replaced; the next compaction drops it.
    let names = [
        "lines",
        "of the revived compilation",
        "of its fragment",
        "needed later",
        "replaced later",
        "of the old image",
        "of the new image",
    ];
    assert_eq!(keys(&programs, UNKNOWN), names.map(key).into());
    let replaced = meaning(&programs, UNKNOWN, &key("replaced later")).expect("there");
    assert_eq!(replaced.body, b"new");
    assert_eq!(
        elements(&programs, VECTOR),
        // The first as it was when it was pushed.
        ["replaced later", "needed later"].map(|name| Some((UNKNOWN, key(name))))
    );
    place.compact(0);
    let repository = place.repository();
    let programs = repository.programs().expect("a snapshot");
    assert!(!keys(&programs, UNKNOWN).contains(&key("of the old image")));
    assert!(keys(&programs, UNKNOWN).contains(&key("of the new image")));
}

/// Changes a byte of a record in place, so that its check is not right any more.
fn damage(repository: &Repository, index: IndexSlot, key: &Digest) -> Address {
    let address = address_of(
        &repository.programs().expect("a snapshot").snapshot(),
        index,
        key,
    );
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(repository.path())
        .expect("opened");
    // The first byte of the value, which is the envelope's version: that is not to be taken for a newer one.
    file.write_all_at(&[9], address.0 + 40).expect("written");
    address
}

#[test]
fn what_is_damaged_goes_with_what_needs_it_and_the_rest_stays() {
    let place = Directory::new();
    let repository = place.repository();
    let live = unit(b"live", b"\xc3");
    add(&repository, &live, Some(&place.path("live.o")));
    change(&repository, |transaction| {
        use Strength::{Owner, Strong, Weak};
        let alive = address_of(transaction, Index::Compilations.slot(), &live.digest);
        let mut add = |sample: Sample| sample.add(transaction);
        let damaged = add(Sample::new(UNKNOWN, "damaged", Class::Needed));
        let needs = add(Sample::new(UNKNOWN, "needs it", Class::Root).to(Strong, damaged));
        add(Sample::new(UNKNOWN, "needs that", Class::Root).to(Strong, needs));
        add(Sample::new(UNKNOWN, "of that", Class::AttachedToAll).to(Owner, needs));
        add(Sample::new(UNKNOWN, "of any", Class::AttachedToAny)
            .to(Owner, needs)
            .to(Owner, alive));
        let sound = add(Sample::new(UNKNOWN, "knows of it", Class::Root).to(Weak, damaged));
        for element in [damaged, sound] {
            transaction.push(VECTOR, element).expect("pushed");
        }
    });
    let address = damage(&repository, UNKNOWN, &key("damaged"));
    drop(repository);
    let report = place.compact(0);
    let path = place.path("program.repo").display().to_string();
    let is_told = |what: &str| {
        report
            .warnings
            .iter()
            .any(|line| *line == format!("{path}: {what}; dropped"))
    };
    let at = address.0;
    assert!(
        is_told(&format!(
            "a record of index 20 at offset {at:#x} is damaged"
        )),
        "{:?}",
        report.warnings
    );
    assert!(
        is_told(&format!(
            "element 0 of vector 5 at offset {at:#x} is damaged or gone"
        )),
        "{:?}",
        report.warnings
    );
    assert!(
        (report.warnings.iter()).any(|line| line.contains(&format!(
            "needs what is damaged or gone at offset {at:#x}; dropped"
        ))),
        "{:?}",
        report.warnings
    );
    assert_eq!((report.others[0].kept, report.others[0].gone), (2, 4));
    let repository = place.repository();
    let programs = repository.programs().expect("a snapshot");
    assert_eq!(
        keys(&programs, UNKNOWN),
        ["of any", "knows of it"].map(key).into()
    );
    assert_eq!(
        elements(&programs, VECTOR),
        [None, Some((UNKNOWN, key("knows of it")))]
    );
    let knows = meaning(&programs, UNKNOWN, &key("knows of it")).expect("there");
    assert_eq!(knows.references, [(Strength::Weak, None)]);
}

/// What is not as the specification says, though no disk has damaged it, is dropped alike; what a newer program has
/// written is left to it.
#[test]
fn no_envelopes_and_newer_ones() {
    let place = Directory::new();
    let path = place.path("program.repo");
    let repository = place.repository();
    let write = |name: &str, value: &[u8]| {
        change(&repository, |transaction| {
            transaction
                .insert(UNKNOWN, &key(name), value)
                .expect("inserted");
        });
    };
    write("no envelope", b"value");
    // One reference, and then nothing.
    write("cut off", &[2, 1, 0, 0, 1, 0, 0, 0]);
    // A root that needs an image, which another one may take the place of.
    let image = change(&repository, |transaction| {
        add_image(transaction, "/nowhere", Address(0))
    });
    let mut value = vec![2_u8, 1, 0, 0, 1, 0, 0, 0];
    put_number(&mut value, image.0 / 2);
    write("needs an image", &value);
    change(&repository, |transaction| {
        Sample::new(UNKNOWN, "sound", Class::Root).add(transaction);
    });
    let error =
        compact(&path, &wishes(0), &Silent).expect_err("`value` begins with another version");
    let text = error.to_string();
    assert!(
        text.contains("envelope of version 118") && text.contains("program.repo"),
        "{text}"
    );
    assert_eq!(
        keys(&repository.programs().expect("a snapshot"), UNKNOWN).len(),
        4
    );

    change(&repository, |transaction| {
        let value = [2_u8, 1, 0, 2];
        transaction
            .replace(UNKNOWN, &key("no envelope"), &value)
            .expect("replaced");
    });
    let report = place.compact(0);
    assert_eq!(report.warnings.len(), 3, "{:?}", report.warnings);
    let repository = place.repository();
    let programs = repository.programs().expect("a snapshot");
    assert_eq!(keys(&programs, UNKNOWN), [key("sound")].into());
}

#[test]
fn what_cannot_be_kept_is_not_written() {
    let place = Directory::new();
    let repository = place.repository();
    add(&repository, &unit(b"live", b"\xc3"), None);
    let mut transaction = repository.store().begin(Durability::Lazy).expect("begun");
    let image = add_image(&mut transaction, "/out", Address(0));
    let old = Sample::new(UNKNOWN, "replaced", Class::Root).add(&mut transaction);
    let mut new = Sample::new(UNKNOWN, "replaced", Class::Root);
    new.body.push(1);
    new.add(&mut transaction);
    let sound = Envelope {
        class: Class::Root as u8,
        body_version: 0,
        references: &[],
        names: &[],
        pieces: &[],
        body: b"",
    };
    let mut refused = |index: IndexSlot, envelope: &Envelope<'_>, why: &str| {
        for add in [insert_enveloped, replace_enveloped] {
            match add(&mut transaction, index, &key("x"), envelope) {
                Err(ProgramError::Malformed(found)) => assert!(found.contains(why), "{found}"),
                Err(ProgramError::Engine(error)) => {
                    assert!(error.to_string().contains(why), "{error}");
                }
                other => panic!("{other:?}"),
            }
        }
    };
    refused(Index::Fragments.slot(), &sound, "no envelopes");
    let to = |address, strength| [Reference::new(address, strength)];
    for (references, why) in [
        (to(image, Strength::Strong), "may take the place"),
        (to(old, Strength::Strong), "has taken the place"),
        (to(old, Strength::Owner), "has taken the place"),
        (to(Address(4096), Strength::Strong), "is not a record"),
        (to(Address(1 << 39), Strength::Weak), "beyond the end"),
    ] {
        let envelope = Envelope {
            references: &references,
            ..sound
        };
        refused(UNKNOWN, &envelope, why);
    }
    let far = [NameId(1000)];
    refused(
        UNKNOWN,
        &Envelope {
            names: &far,
            ..sound
        },
        "no name or piece",
    );
    let far = [PieceId(0)];
    refused(
        UNKNOWN,
        &Envelope {
            pieces: &far,
            ..sound
        },
        "no name or piece",
    );
    let unowned = Envelope {
        class: Class::AttachedToAll as u8,
        ..sound
    };
    refused(UNKNOWN, &unowned, "attached to nothing");
    let image = [
        Reference::new(image, Strength::Owner),
        Reference::new(old, Strength::Weak),
    ];
    let sound = Envelope {
        references: &image,
        ..sound
    };
    insert_enveloped(&mut transaction, UNKNOWN, &key("x"), &sound).expect("added");
}

/// Features that a newer program has set: those that need not be understood go with the file; where writing would do harm, nothing
/// is changed.
#[test]
fn features_of_the_old_file_are_those_of_the_new_one() {
    let place = Directory::new();
    let repository = place.repository();
    add(
        &repository,
        &unit(b"live", b"\xc3"),
        Some(&place.path("live.o")),
    );
    let require = |compatible: u64, read_compatible: u64| {
        let repository = place.repository();
        change(&repository, |transaction| {
            transaction.require(Features {
                compatible,
                read_compatible,
                incompatible: 0,
            });
            Sample::new(
                UNKNOWN,
                &format!("{compatible} {read_compatible}"),
                Class::Root,
            )
            .add(transaction);
        });
    };
    require(1 << 60, 0);
    place.compact(0);
    let features =
        |repository: &Repository| repository.programs().expect("read").snapshot().features();
    assert_eq!(
        features(&place.repository()).compatible,
        Features::ENVELOPES | 1 << 60
    );
    require(0, 1 << 3);
    let path = place.path("program.repo");
    let before = std::fs::read(&path).expect("read");
    let error = compact(&path, &wishes(0), &Silent).expect_err("it cannot be written");
    assert!(error.to_string().contains("newer one"), "{error}");
    assert_eq!(std::fs::read(&path).expect("read"), before);
}

/// Numbers that are the same every time (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ bits >> 31) % end as u64) as usize
    }
}

/// What section 25 says, in the simplest way: sets that grow until nothing is added.
struct Model {
    /// What each thing refers to, by its number. Compilations refer strongly to their fragments.
    references: Vec<Vec<(Strength, usize)>>,
    /// The class of records in envelopes.
    classes: Vec<Option<u8>>,
    live: BTreeSet<usize>,
    needed: BTreeSet<usize>,
}

impl Model {
    fn grow(&mut self) {
        loop {
            let before = (self.live.len(), self.needed.len());
            for thing in 0..self.references.len() {
                let class = self.classes[thing];
                let of = |strength: Strength| {
                    let all = self.references[thing].iter();
                    let of_it = all.filter(move |(found, _)| *found == strength);
                    of_it.map(|(_, target)| *target).collect::<Vec<_>>()
                };
                let owners = of(Strength::Owner);
                let is_live = match class {
                    Some(1 | 4..) => true,
                    Some(2) => owners.iter().all(|owner| self.live.contains(owner)),
                    Some(3) => owners.iter().any(|owner| self.live.contains(owner)),
                    _ => false,
                };
                if is_live {
                    self.live.insert(thing);
                }
                if self.live.contains(&thing) {
                    // Fragments are kept with their compilation, and nothing more.
                    let strong = of(Strength::Strong);
                    self.live.extend(&strong);
                    if class.is_some() {
                        self.needed.extend(&strong);
                    }
                    if matches!(class, Some(5..)) {
                        for strength in [Strength::Owner, Strength::Weak] {
                            let others = of(strength);
                            self.needed.extend(&others);
                        }
                    }
                }
                if self.needed.contains(&thing) && matches!(class, Some(2 | 3)) {
                    self.needed.extend(&owners);
                }
                self.live.extend(&self.needed);
            }
            if before == (self.live.len(), self.needed.len()) {
                return;
            }
        }
    }
}

/// Random records that refer to each other, to compilations and to fragments, in several transactions: what is kept is what
/// the model keeps, and every reference leads where it led.
#[test]
fn random_graphs_are_kept_as_the_model_says() {
    for seed in 0..60 {
        random_graph(&mut Random(seed), seed);
    }
}

fn random_graph(random: &mut Random, seed: u64) {
    let place = Directory::new();
    let repository = place.repository();
    let mut things: Vec<(IndexSlot, Digest)> = Vec::new();
    let mut model = Model {
        references: Vec::new(),
        classes: Vec::new(),
        live: BTreeSet::new(),
        needed: BTreeSet::new(),
    };
    for number in 0..6_u8 {
        let (name, code) = (format!("f{number}"), [0x90, number]);
        let unit = unit_with_string(name.as_bytes(), &code, b"string\0");
        let ticket = place.path(&format!("{name}.o"));
        let is_live = random.below(3) == 0;
        add(&repository, &unit, is_live.then_some(&*ticket));
        model.references.push(Vec::new());
        things.push((Index::Fragments.slot(), unit.fragments[0]));
        if is_live {
            model.live.insert(things.len());
        }
        model
            .references
            .push(vec![(Strength::Strong, things.len() - 1)]);
        things.push((Index::Compilations.slot(), unit.digest));
        model.classes.extend([None, None]);
    }
    let count = 10 + random.below(60);
    for number in 0..count {
        let class = [0, 0, 1, 2, 2, 3, 3, 4, 5, 99][random.below(10)];
        // Roots make the rest live, so there are to be few.
        let class = if matches!(class, 1 | 4..) && random.below(3) > 0 {
            0
        } else {
            class
        };
        let index = IndexSlot::new([7, 9, 15, 18, 23][random.below(5)]).expect("a slot");
        let mut references = Vec::new();
        for _ in 0..random.below(5) {
            let strength = [Strength::Strong, Strength::Owner, Strength::Weak][random.below(3)];
            let target = random.below(things.len());
            // Definitions are replaceable.
            let is_allowed = things[target].0.number() != 7 || strength != Strength::Strong;
            if is_allowed {
                references.push((strength, target));
            }
        }
        if matches!(class, 2 | 3) {
            references.push((Strength::Owner, random.below(things.len())));
        }
        let key = key(&format!("{seed} {number}"));
        change(&repository, |transaction| {
            let to = |(strength, target): &(Strength, usize)| {
                let (index, key) = &things[*target];
                (address_of(transaction, *index, key), *strength)
            };
            let sample = Sample {
                index,
                key,
                class,
                references: references.iter().map(to).collect(),
                names: vec![NameId(random.below(8) as u32)],
                pieces: vec![PieceId(0); random.below(2)],
                body: vec![number as u8; random.below(40)],
            };
            sample.add(transaction);
        });
        things.push((index, key));
        model.references.push(references);
        model.classes.push(Some(class));
    }
    model.grow();

    let before = everything(&repository.programs().expect("a snapshot"));
    drop(repository);
    let report = place.compact(0);
    assert_eq!(report.warnings, [""; 0]);
    let repository = place.repository();
    repository.store().verify().expect("sound");
    let programs = repository.programs().expect("a snapshot");
    for (number, (index, key)) in things.iter().enumerate() {
        let is_kept = programs
            .snapshot()
            .get(*index, key)
            .expect("sound")
            .is_some();
        assert_eq!(
            is_kept,
            model.live.contains(&number),
            "seed {seed}: {number}"
        );
    }
    let after = everything(&programs);
    for (name, found) in &after {
        let old = &before[name];
        assert_eq!(
            (&found.names, &found.pieces, &found.body),
            (&old.names, &old.pieces, &old.body)
        );
        assert_eq!(
            (found.class, found.references.len()),
            (old.class, old.references.len())
        );
        for (new, (strength, target)) in found.references.iter().zip(&old.references) {
            let target = target.as_ref().expect("nothing was gone");
            let number = things
                .iter()
                .position(|thing| thing == target)
                .expect("known");
            let expected = model.live.contains(&number).then_some(*target);
            assert_eq!(*new, (*strength, expected), "seed {seed}");
        }
    }
}
