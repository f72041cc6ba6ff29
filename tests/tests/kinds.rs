//! Records of kinds that the programs need not know, beside those of a real build: they are listed, counted, verified, and
//! kept by `repo-gc`; what is wrong with one is found and is never a crash.

use format_spec::canonical;
use format_spec::digest::Digest;
use format_spec::envelope::{Class, Envelope, Reference, Strength, put_number};
use format_spec::file::{IndexSlot, VectorSlot};
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::kinds::{BODY_VERSION, CompilerBody, LastUseBody, ManifestHeader, ManifestResult};
use format_spec::program::{Index, index_in_words};
use repo_hostile::mutate::repository::{items, make_right};
use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use store::engine::{Durability, Transaction};
use store::program::{Repository, replace_enveloped};

const UNKNOWN: IndexSlot = IndexSlot::of::<20>();
const VECTOR: VectorSlot = VectorSlot::of::<5>();

fn dump(scratch: &Scratch, arguments: &[&str]) -> Run {
    let mut command = scratch.command(Binaries::get().path("repo-dump"));
    run(command.args(arguments))
}

fn json(scratch: &Scratch, arguments: &[&str]) -> Value {
    let text = dump(scratch, &[arguments, &["--json"]].concat())
        .ok()
        .text();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn gc(scratch: &Scratch, arguments: &[&str]) -> Run {
    let mut command = scratch.command(Binaries::get().path("repo-gc"));
    run(command.args(arguments))
}

/// A repository with the ticket of a unit, and a record of each kind whose body is settled, and of some others.
fn built(gcc: &Path) -> Scratch {
    let scratch = Scratch::new();
    scratch.write(
        "a.c",
        "const char *f(void) { return \"a string\"; } int g(void) { return 42; }\n",
    );
    let mut command = scratch.command(Binaries::get().path("repo-cc"));
    // (It would add a manifest.)
    command.env("REPO_CC_DISABLE", "1");
    run(command.arg(gcc).args(["-O1", "-c", "a.c"])).ok();
    let repository = Repository::open(&scratch.repository()).expect("just made");
    let compilation = {
        let programs = repository.programs().expect("sound");
        let found = programs.records(Index::Compilations).next();
        let record = found.expect("one").expect("sound");
        (record.address, record.key())
    };
    let mut transaction = repository.store().begin(Durability::Lazy).expect("begun");
    write_kinds(&mut transaction, compilation);
    transaction.commit().expect("committed");
    scratch
}

fn write_kinds(transaction: &mut Transaction<'_>, (compilation, digest): (Address, Digest)) {
    let mut add = |index: IndexSlot,
                   key: Digest,
                   class: Class,
                   references: &[(Address, Strength)],
                   names: &[u32],
                   (body_version, body): (u8, &[u8])| {
        let references: Vec<_> = (references.iter())
            .map(|(address, strength)| Reference::new(*address, *strength))
            .collect();
        let names: Vec<_> = names.iter().map(|name| NameId(*name)).collect();
        let envelope = Envelope {
            class: class as u8,
            body_version,
            references: &references,
            names: &names,
            pieces: &[PieceId(0)],
            body,
        };
        replace_enveloped(transaction, index, &key, &envelope).expect("added")
    };
    use Strength::{Owner, Strong, Weak};
    let text = b"a.c:1:1: warning: there is one";
    let captured = add(
        Index::Captured.slot(),
        canonical::captured(text),
        Class::Needed,
        &[],
        &[],
        (BODY_VERSION, text),
    );
    // The name with id 0 is empty in every repository.
    let compiler = CompilerBody {
        size: 1,
        modified: 2,
        identity: Digest([3; 32]),
    };
    add(
        Index::Compilers.slot(),
        canonical::compiler(b"", 1, 2),
        Class::Needed,
        &[],
        &[0],
        (BODY_VERSION, bytemuck::bytes_of(&compiler)),
    );
    let mut manifest = Vec::new();
    manifest.extend_from_slice(bytemuck::bytes_of(&ManifestHeader {
        part_count: 2,
        condition_count: 0,
        result_count: 1,
        day: 0,
    }));
    manifest.extend_from_slice(bytemuck::bytes_of(&ManifestResult {
        compilation: 1,
        diagnostics: 2,
        dependencies: 0,
        files: 0,
        bits: 0,
        reserved: 0,
    }));
    let manifest = add(
        Index::Manifests.slot(),
        Digest::of(b"cc -c a.c"),
        Class::Cached,
        &[(compilation, Strong), (captured, Strong)],
        &[0, 1],
        (BODY_VERSION, &manifest),
    );
    let used = LastUseBody {
        // Of a clock that goes wrong, and for ever.
        day: u32::MAX,
        reserved: 0,
    };
    add(
        Index::LastUses.slot(),
        Digest::of(b"cc -c a.c"),
        Class::AttachedToAll,
        &[(manifest, Owner)],
        &[],
        (BODY_VERSION, bytemuck::bytes_of(&used)),
    );
    let int = add(
        Index::Types.slot(),
        Digest::of(b"int"),
        Class::Needed,
        &[],
        &[1],
        (BODY_VERSION, &[0x24, 0, 0, 0, 0, 0, 0, 0, b'i']),
    );
    add(
        Index::DebugInformation.slot(),
        digest,
        Class::AttachedToAll,
        &[(compilation, Owner), (int, Strong)],
        &[],
        (0, b"whatever"),
    );
    let root = add(
        UNKNOWN,
        Digest::of(b"root"),
        Class::Root,
        &[(captured, Strong), (manifest, Weak)],
        &[1, 1],
        (200, &[7; 300]),
    );
    add(
        UNKNOWN,
        Digest::of(b"dead"),
        Class::Needed,
        &[(root, Weak)],
        &[],
        (0, b""),
    );
    transaction.push(VECTOR, root).expect("pushed");
}

fn row<'v>(table: &'v Value, kind: &str, slot: u64) -> &'v Value {
    let rows = table.as_array().expect("rows");
    let found = rows
        .iter()
        .find(|row| row["kind"] == kind && row["slot"] == slot);
    found.unwrap_or_else(|| panic!("no {kind} {slot} in {table:#}"))
}

#[test]
fn what_is_not_known_is_listed_counted_verified_and_kept() {
    let [gcc] = require!("gcc");
    let scratch = built(&gcc);
    let verified = dump(&scratch, &["--verify"]).ok().text();
    assert!(verified.contains("everything is in order"), "{verified}");
    assert!(
        dump(&scratch, &["header"])
            .ok()
            .text()
            .contains("envelopes")
    );

    let indices = json(&scratch, &["indices"]);
    let (unknown, vector) = (row(&indices, "index", 20), row(&indices, "vector", 5));
    for unknown in [unknown, vector] {
        assert_eq!(unknown["name"], "unknown kind");
        assert!(unknown["bytes"].as_u64() > Some(0), "{unknown}");
    }
    assert_eq!(
        (&unknown["records"], &vector["records"]),
        (&2.into(), &1.into())
    );
    assert_eq!(row(&indices, "index", 8)["name"], "manifests");
    let shown = dump(&scratch, &["indices"]).ok().text();
    assert!(
        shown.contains("unknown kind") && !shown.contains("placements"),
        "{shown}"
    );

    let stats = json(&scratch, &["--stats"]);
    assert!(
        stats["bytes"]["index 20, of an unknown kind"].as_u64() > Some(20),
        "{stats:#}"
    );

    let records = json(&scratch, &["records", "20"]);
    let records = records.as_array().expect("rows");
    let root = records
        .iter()
        .find(|record| record["bytes"] == 300)
        .expect("it is there");
    assert_eq!(
        (&root["class"], &root["body_version"]),
        (&"always".into(), &200.into())
    );
    assert_eq!((&root["names"], &root["pieces"]), (&2.into(), &1.into()));
    let leads_to = |number: usize| {
        (
            &root["references"][number]["strength"],
            &root["references"][number]["index"],
        )
    };
    assert_eq!(leads_to(0), (&"strong".into(), &9.into()));
    assert_eq!(leads_to(1), (&"weak".into(), &8.into()));
    let text = dump(&scratch, &["records", "manifests"]).ok().text();
    assert!(text.contains("while used"), "{text}");
    for (which, error) in [
        ("fragments", "`fragments`"),
        ("24", "no such index"),
        ("nonsense", "no such index"),
    ] {
        let run = dump(&scratch, &["records", which]).code(2);
        assert!(run.errors().contains(error), "{}", run.report());
    }

    let told = gc(&scratch, &["--dry-run", "--grace", "0s"]).ok().text();
    assert!(
        told.contains("would keep 1 of 2 records in index 20: of an unknown kind"),
        "{told}"
    );
    let kept = gc(&scratch, &["--grace", "0s"]).ok();
    assert!(
        kept.text()
            .contains("kept 1 of 1 records in index 8: manifests"),
        "{}",
        kept.report()
    );
    assert_eq!(kept.errors(), "");
    dump(&scratch, &["--verify"]).ok();
    assert_eq!(
        json(&scratch, &["records", "20"]).as_array().map(Vec::len),
        Some(1)
    );
    // Without the ticket, its manifest stays with all that it needs, for a compile that it makes unnecessary.
    fs::remove_file(scratch.join("a.o")).expect("removed");
    gc(&scratch, &["--grace", "0s"]).ok();
    let indices = json(&scratch, &["indices"]);
    assert_eq!(
        row(&indices, "index", 9)["records"],
        1,
        "the unknown root needs it"
    );
    let left: Vec<_> = (indices.as_array().expect("rows").iter())
        .filter(|row| row["kind"] == "index" && row["slot"].as_u64() >= Some(7))
        .map(|row| row["slot"].as_u64())
        .collect();
    assert_eq!(left, [8, 9, 12, 16, 20].map(Some));
    dump(&scratch, &["--verify"]).ok();
}

/// Values that no writer of this project writes: each is found, with its offset, and dropped by `repo-gc`.
#[test]
fn wrong_records_are_found() {
    let [gcc] = require!("gcc");
    let envelope = |class: u8, version: u8, references: &[u64], names: &[u32], body: &[u8]| {
        let mut value = vec![2, class, version, 0];
        for count in [references.len(), names.len(), 0, body.len()] {
            put_number(&mut value, count as u64);
        }
        for reference in references {
            put_number(&mut value, (reference % (1 << 56)) / 2 + (reference >> 56));
        }
        if let [name] = names {
            put_number(&mut value, 2 * u64::from(*name));
            put_number(&mut value, 1);
        }
        value.extend_from_slice(body);
        value
    };
    const ROOT: u8 = Class::Root as u8;
    let mut bits = envelope(ROOT, 0, &[], &[], b"");
    bits[3] = 2;
    let mut compressed = envelope(ROOT, 0, &[], &[], b"no block");
    compressed[3] = 1;
    let mut run = envelope(ROOT, 0, &[], &[0], b"");
    *run.last_mut().expect("a length") = 2;
    let only_weak = envelope(ROOT, 0, &[2 << 56 | 4096], &[], b"");
    let cases = [
        ("cut off", UNKNOWN, vec![2, 1, 0, 0, 4, 0, 0, 0]),
        ("the envelope's head is wrong", UNKNOWN, bits),
        ("the envelope's body is not", UNKNOWN, compressed),
        ("the envelope's lists are not", UNKNOWN, run),
        ("in no envelope", UNKNOWN, vec![0; 40]),
        ("in no envelope", Index::Types.slot(), vec![0; 40]),
        (
            "no earlier record",
            UNKNOWN,
            envelope(ROOT, 0, &[1 << 39], &[], b""),
        ),
        (
            "of no known strength",
            UNKNOWN,
            envelope(ROOT, 0, &[3 << 56 | 4720], &[], b""),
        ),
        // The first trailer.
        (
            "is not a record",
            UNKNOWN,
            envelope(ROOT, 0, &[4096], &[], b""),
        ),
        ("is not a record", UNKNOWN, only_weak.clone()),
        (
            "a strong reference leads nowhere",
            UNKNOWN,
            envelope(ROOT, 0, &[0], &[], b""),
        ),
        (
            "attached to nothing",
            UNKNOWN,
            envelope(2, 0, &[1 << 56], &[], b""),
        ),
        (
            "no name of this id",
            UNKNOWN,
            envelope(ROOT, 0, &[], &[1 << 30], b""),
        ),
        (
            "what its index asks for",
            Index::Captured.slot(),
            envelope(ROOT, 1, &[], &[], b"other bytes"),
        ),
        (
            "what its index asks for",
            Index::Compilers.slot(),
            envelope(ROOT, 1, &[], &[0], &[0; 48]),
        ),
        (
            "what its index asks for",
            Index::Compilers.slot(),
            envelope(ROOT, 1, &[], &[], &[0; 48]),
        ),
        (
            "what its index asks for",
            Index::Manifests.slot(),
            envelope(ROOT, 1, &[], &[], &[0; 15]),
        ),
        (
            "what its index asks for",
            Index::LastUses.slot(),
            envelope(ROOT, 0, &[], &[], &[0; 8]),
        ),
        (
            "what its index asks for",
            Index::Types.slot(),
            envelope(ROOT, 1, &[], &[], &[0; 7]),
        ),
    ];
    let scratch = built(&gcc);
    let sound = fs::read(scratch.repository()).expect("read");
    for (why, index, value) in cases {
        put(&scratch, &sound);
        let repository = Repository::open(&scratch.repository()).expect("sound");
        let mut transaction = repository.store().begin(Durability::Lazy).expect("begun");
        let key = Digest::of(b"wrong");
        let address = transaction.insert(index, &key, &value).expect("inserted");
        transaction.commit().expect("committed");
        drop(repository);
        let run = dump(&scratch, &["--verify"]).code(1);
        assert!(run.text().contains(why), "{why}: {}", run.report());
        let collected = gc(&scratch, &["--grace", "0s"]).ok();
        let told = format!("{} at offset {:#x} ", index_in_words(index), address.0);
        // A weak reference to what is no record is lost, and nothing else.
        let is_told = collected.errors().contains(&told);
        assert_eq!(
            is_told,
            value != only_weak,
            "{told}: {}",
            collected.report()
        );
        dump(&scratch, &["--verify"]).ok();
        assert_eq!(
            json(&scratch, &["records", "manifests"])
                .as_array()
                .map(Vec::len),
            Some(1)
        );
    }
}

/// Puts these bytes in the repository's place, as if they had always been there.
fn put(scratch: &Scratch, bytes: &[u8]) {
    const INODE: u64 = 568;
    let path = scratch.repository();
    fs::write(&path, bytes).expect("written");
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("opened");
    let inode = file.metadata().expect("examined").ino();
    file.write_all_at(&inode.to_le_bytes(), INODE)
        .expect("written");
}

/// Nobody was killed, nothing panicked.
#[track_caller]
fn is_civil(seed: usize, run: &Run) {
    let is_civil = matches!(run.status.code(), Some(0..=2)) && !run.errors().contains("panicked");
    assert!(is_civil, "{seed}: {}", run.report());
}

/// Bytes of envelopes are changed. With the checks left as they are, `--verify` finds it. With checks that are made right, it is
/// survived; and what a compaction makes of it is sound.
#[test]
fn damaged_envelopes_are_found_and_survived() {
    let [gcc] = require!("gcc");
    let count = std::env::var("REPO_ENVELOPES").map_or(60, |text| text.parse().expect("a number"));
    let scratch = built(&gcc);
    let sound = fs::read(scratch.repository()).expect("read");
    let values: Vec<_> = items(&sound)
        .filter(|item| {
            let index = item.head.index().map(|slot| slot.number());
            index.is_some_and(|slot| slot == 5 || slot > 6)
        })
        .filter_map(|item| item.value())
        .collect();
    assert_eq!(values.len(), 8);
    let mut compacted = 0;
    for seed in 0..count {
        let random = |number: usize, end: usize| {
            let digest = Digest::of(format!("{seed} {number}").as_bytes());
            digest.window(0) as usize % end
        };
        let value = &values[random(0, values.len())];
        let mut bytes = sound.clone();
        // The head and the references more than the rest.
        let reach = if random(1, 3) > 0 {
            value.len().min(40)
        } else {
            value.len()
        };
        let at = value.start + random(2, reach);
        bytes[at] ^= 1 << random(3, 8);
        put(&scratch, &bytes);
        let found = dump(&scratch, &["--verify"]).code(1);
        assert!(
            found.text().contains("damaged at offset"),
            "{seed}: {}",
            found.report()
        );

        make_right(&mut bytes);
        for number in 0..random(4, 3) {
            bytes[value.start + random(5 + number, reach)] = random(10 + number, 256) as u8;
            make_right(&mut bytes);
        }
        put(&scratch, &bytes);
        is_civil(seed, &dump(&scratch, &["--verify"]));
        is_civil(seed, &dump(&scratch, &["--stats"]));
        for index in ["5", "8", "16", "20"] {
            is_civil(seed, &dump(&scratch, &["records", index]));
        }
        let collected = gc(&scratch, &["--grace", "0s"]);
        is_civil(seed, &collected);
        if collected.status.success() {
            compacted += 1;
            dump(&scratch, &["--verify"]).ok();
        }
    }
    assert!(compacted * 2 > count, "{compacted} of {count}");
}
