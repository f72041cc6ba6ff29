//! Compaction in one process: what is kept, what goes, who may go on meanwhile.

mod common;

use common::{Directory, FOREVER, add, compact, dry_run, has, unit, wishes};
use compactor::observer::{Observer, Silent};
use compactor::roots::Wishes;
use format_spec::digest::Digest;
use format_spec::program::{ImageHeader, ImageInputRecord, Index, TicketHeader};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use store::engine::{self, Durability, Reader};
use store::program::{Addition, ProgramError};

#[test]
fn what_a_ticket_names_stays_and_the_rest_goes() {
    let place = Directory::new();
    let repository = place.repository();
    let (a, b, c) = (
        unit(b"a", b"\xc3"),
        unit(b"b", b"\x90\xc3"),
        unit(b"c", b"\xf4"),
    );
    add(&repository, &a, Some(&place.path("a.o")));
    add(&repository, &b, Some(&place.path("b.o")));
    add(&repository, &c, None);
    std::fs::remove_file(place.path("b.o")).expect("removed");

    let before = std::fs::read(place.path("program.repo")).expect("read");
    let told = dry_run(&place.path("program.repo"), &wishes(0)).expect("looked at");
    assert_eq!((told.kept.compilations, told.gone.compilations), (1, 2));
    assert_eq!(told.tickets.len(), 1);
    assert!(told.tickets[0].what.ends_with("b.o"));
    assert_eq!(
        std::fs::read(place.path("program.repo")).expect("read"),
        before,
        "a dry run changes nothing"
    );
    // Young, everything stays.
    let report = place.compact(FOREVER);
    assert_eq!((report.kept.compilations, report.gone.compilations), (3, 0));
    assert_eq!(report.kept.tickets, 2);

    let report = place.compact(0);
    assert_eq!((report.kept.compilations, report.gone.compilations), (1, 2));
    assert!(report.bytes_after < report.bytes_before);
    let new = place.repository();
    assert_eq!(new.uuid(), repository.uuid());
    assert!(has(&new, &a) && !has(&new, &b) && !has(&new, &c));
    new.store().verify().expect("the new file is sound");
    let left: Vec<_> = std::fs::read_dir(place.directory.path())
        .expect("listed")
        .map(|entry| entry.expect("listed").file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_moved_ticket_is_found_and_stays_found() {
    let place = Directory::new();
    let repository = place.repository();
    let a = unit(b"a", b"\xc3");
    std::fs::create_dir_all(place.path("build/deep")).expect("made");
    add(&repository, &a, Some(&place.path("build/deep/a.o")));
    std::fs::rename(place.path("build/deep/a.o"), place.path("build/z.o")).expect("moved");
    std::fs::remove_dir(place.path("build/deep")).expect("removed");
    for _ in 0..2 {
        let report = place.compact(0);
        assert_eq!((report.kept.compilations, report.kept.tickets), (1, 1));
        assert!(has(&place.repository(), &a));
    }
    // Where nobody would look for it, it must be named; once is enough.
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(elsewhere.path().join("lib")).expect("made");
    let far = elsewhere.path().join("lib/a.o");
    std::fs::rename(place.path("build/z.o"), &far).expect("moved");
    let mut wishes = wishes(0);
    wishes.roots = vec![elsewhere.path().to_owned()];
    let path = place.path("program.repo");
    let report = compact(&path, &wishes, &Silent).expect("compacted");
    assert_eq!(report.kept.compilations, 1);
    assert_eq!(place.compact(0).kept.compilations, 1);
    std::fs::remove_file(far).expect("removed");
    assert_eq!(place.compact(0).kept.compilations, 0);
}

#[test]
fn a_ticket_of_another_repository_keeps_nothing() {
    let (place, other) = (Directory::new(), Directory::new());
    let a = unit(b"a", b"\xc3");
    add(&place.repository(), &a, Some(&place.path("a.o")));
    add(&other.repository(), &a, Some(&other.path("a.o")));
    std::fs::rename(other.path("a.o"), place.path("a.o")).expect("moved");
    let report = place.compact(0);
    assert_eq!((report.kept.compilations, report.gone.tickets), (0, 1));
}

#[test]
fn readers_go_on_and_writers_notice() {
    let place = Directory::new();
    let repository = place.repository();
    let (a, b) = (unit(b"a", b"\xc3"), unit(b"b", b"\x90\xc3"));
    add(&repository, &a, Some(&place.path("a.o")));
    add(&repository, &b, None);
    let reader = repository.programs().expect("a snapshot");
    place.compact(0);
    // The old file, as it was.
    let view = reader.compilation(&b.digest).expect("still there");
    assert_eq!(
        *reader.load(&view).expect("readable").sections[0].bytes,
        *b"\x90\xc3"
    );
    let error = repository.store().begin(Durability::Lazy).map(drop);
    assert!(
        matches!(error, Err(engine::Error::Replaced { .. })),
        "{error:?}"
    );
    assert!(!has(&place.repository(), &b));
}

#[test]
fn nothing_that_writers_add_meanwhile_is_lost() {
    const UNITS: u32 = 150;
    let place = Directory::new();
    add(&place.repository(), &unit(b"first", b"\xc3"), None);
    let done = AtomicBool::new(false);
    let name = |number: u32| format!("f{number}");
    let code = |number: u32| number.to_le_bytes();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut repository = place.repository();
            for number in 0..UNITS {
                let (name, code) = (name(number), code(number));
                let prepared = unit(name.as_bytes(), &code);
                loop {
                    let additions = [Addition {
                        prepared: &prepared,
                        ticket: None,
                    }];
                    match repository.add(&additions) {
                        Ok(_) => break,
                        Err(ProgramError::Engine(engine::Error::Replaced { .. })) => {
                            repository = place.repository();
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            place.compact(FOREVER);
        }
    });
    let repository = place.repository();
    repository
        .store()
        .verify()
        .expect("the repository is sound");
    for number in 0..UNITS {
        let (name, code) = (name(number), code(number));
        assert!(has(&repository, &unit(name.as_bytes(), &code)), "{name}");
    }
    let programs = repository.programs().expect("a snapshot");
    let count = programs.snapshot().count(Index::Compilations.slot());
    assert_eq!(count, u64::from(UNITS) + 1);
}

#[test]
fn damage_is_never_copied() {
    let place = Directory::new();
    let path = place.path("program.repo");
    let code = b"some code that is easily found";
    add(
        &place.repository(),
        &unit(b"a", code),
        Some(&place.path("a.o")),
    );
    let sound = unit(b"b", b"sound");
    add(&place.repository(), &sound, Some(&place.path("b.o")));
    let mut bytes = std::fs::read(&path).expect("read");
    let at = (bytes.windows(code.len()).position(|window| window == code)).expect("it is there");
    bytes[at] ^= 1;
    // In place: another file would be taken for a copy, and recovered.
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, &bytes))
        .expect("written");
    let report = compact(&path, &wishes(0), &Silent).expect("the rest is copied");
    let told: Vec<_> = report.tickets.iter().map(|ticket| &*ticket.what).collect();
    assert_eq!(told, [place.path("a.o").to_str().expect("text")]);
    assert!(
        (report.warnings.iter())
            .any(|line| line.contains("a.o: build it again")
                && line.contains("damaged at offset 0x")),
        "{:?}",
        report.warnings
    );
    let repository = place.repository();
    assert!(has(&repository, &sound) && !has(&repository, &unit(b"a", code)));
    repository.store().verify().expect("sound");
    let names = std::fs::read_dir(place.directory.path()).expect("read");
    assert_eq!(names.count(), 3, "the repository and the tickets");
}

#[test]
fn images_are_carried_over() {
    let place = Directory::new();
    let repository = place.repository();
    let (dead, a) = (unit(b"dead", b"\x90"), unit(b"a", b"\xc3"));
    add(&repository, &dead, None);
    add(&repository, &a, None);
    let output = place.path("a.out");
    std::fs::write(&output, "output").expect("written");
    let path = output.as_os_str().to_str().expect("text").as_bytes();
    let name = {
        let programs = repository.programs().expect("a snapshot");
        programs.find_name(b"a").expect("sound").expect("interned")
    };
    {
        let mut transaction = repository.store().begin(Durability::Lazy).expect("begun");
        let record = transaction.get(Index::Compilations.slot(), &a.digest);
        let compilation = record.expect("sound").expect("added").address;
        let header = ImageHeader {
            options: Digest::of(b"options"),
            written: 0,
            output_size: 6,
            path_size: path.len() as u32,
            input_count: 1,
            reserved: [0; 2],
        };
        let mut value = bytemuck::bytes_of(&header).to_vec();
        value.extend_from_slice(path);
        value.resize(value.len().next_multiple_of(8), 0);
        value.extend_from_slice(bytemuck::bytes_of(&ImageInputRecord {
            compilation,
            path: name,
            reserved: 0,
        }));
        let key = Digest::of(path);
        transaction
            .insert(Index::Images.slot(), &key, &value)
            .expect("inserted");
        transaction.commit().expect("committed");
    }
    let report = place.compact(0);
    assert_eq!((report.kept.images, report.kept.compilations), (1, 1));
    let new = place.repository();
    let programs = new.programs().expect("a snapshot");
    let get = |index: Index, key: &Digest| {
        let record = programs.snapshot().get(index.slot(), key);
        record.expect("sound").expect("carried over")
    };
    let image = programs
        .image(&get(Index::Images, &Digest::of(path)))
        .expect("an image");
    assert_eq!(image.path, path);
    assert_eq!(programs.name(image.inputs[0].path).expect("a name"), b"a");
    let input = programs
        .compilation_at(image.inputs[0].compilation)
        .expect("an input");
    assert_eq!(input.record().key(), a.digest);
    drop(new);
    // Without its output, the image goes, and with it what it was made of.
    std::fs::remove_file(output).expect("removed");
    let report = place.compact(0);
    assert_eq!((report.gone.images, report.kept.compilations), (1, 0));
}

#[test]
fn hard_links_and_symbolic_links() {
    let place = Directory::new();
    add(
        &place.repository(),
        &unit(b"a", b"\xc3"),
        Some(&place.path("a.o")),
    );
    let path = place.path("program.repo");
    let link = place.path("link.repo");
    std::os::unix::fs::symlink(&path, &link).expect("linked");
    compact(&link, &wishes(0), &Silent).expect("compacted");
    assert!(link.is_symlink() && path.is_file() && !path.is_symlink());
    std::fs::hard_link(&path, place.path("other.repo")).expect("linked");
    let error = compact(&path, &wishes(0), &Silent).expect_err("refused");
    assert!(error.to_string().contains("hard links"), "{error}");
}

#[test]
fn one_compactor_at_a_time() {
    let place = Directory::new();
    let a = unit(b"a", b"\xc3");
    add(&place.repository(), &a, None);
    let directory = std::fs::File::open(place.directory.path()).expect("opened");
    rustix::fs::flock(&directory, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    let path = place.path("program.repo");
    let error = compact(&path, &wishes(0), &Silent).expect_err("locked");
    assert!(error.to_string().contains("another repo-gc"), "{error}");
    assert!(has(&place.repository(), &a));
    drop(directory);
    // What a killed one left is taken away.
    let left = place.path("program.repo.gc-0123456789abcdef.tmp");
    std::fs::write(&left, "half of a repository").expect("written");
    place.compact(FOREVER);
    assert!(has(&place.repository(), &a));
    assert!(!left.exists());
}

#[test]
fn a_build_renews_an_old_record_before_it_writes_the_ticket() {
    let place = Directory::new();
    let repository = place.repository();
    let a = unit(b"a", b"\xc3");
    let ticket = place.path("a.o");
    add(&repository, &a, Some(&ticket));
    let key = Digest::of(ticket.as_os_str().as_encoded_bytes());
    let record = || {
        let programs = repository.programs().expect("a snapshot");
        let record = programs.snapshot().get(Index::Tickets.slot(), &key);
        let record = record.expect("sound").expect("on record");
        let view = programs.ticket(&record).expect("a ticket's record");
        (*view.header, programs.snapshot().revision())
    };
    let (fresh, revision) = record();
    add(&repository, &a, Some(&ticket));
    assert_eq!(record().1, revision, "what is fresh is not written again");
    // As if it had been written long ago, and `make clean` had been run.
    let old = TicketHeader {
        written: 1,
        ..fresh
    };
    let mut value = bytemuck::bytes_of(&old).to_vec();
    value.extend_from_slice(ticket.as_os_str().as_encoded_bytes());
    let mut transaction = repository.store().begin(Durability::Lazy).expect("begun");
    let slot = Index::Tickets.slot();
    transaction.replace(slot, &key, &value).expect("replaced");
    transaction.commit().expect("committed");
    std::fs::remove_file(&ticket).expect("removed");
    // The build has told the repository, but not written the file yet.
    let additions = [Addition {
        prepared: &a,
        ticket: Some(&ticket),
    }];
    repository.add(&additions).expect("added");
    let (renewed, _) = record();
    assert!(renewed.written >= fresh.written);
    let mut wishes = wishes(3_600_000_000_000);
    wishes.now = renewed.written + 1_000_000_000;
    compact(&place.path("program.repo"), &wishes, &Silent).expect("compacted");
    assert!(has(&place.repository(), &a));
}

/// Puts a ticket back, of which nobody tells the repository, when all is copied.
struct PutBack<'a> {
    ticket: &'a Path,
    from: &'a Path,
}

impl Observer for PutBack<'_> {
    fn begin(&self, what: &'static str, _: u64) {
        if what == "catching up" {
            std::fs::copy(self.from, self.ticket).expect("copied");
        }
    }

    fn step(&self) {}
}

#[test]
fn files_are_looked_at_again_after_a_long_time() {
    let place = Directory::new();
    let repository = place.repository();
    let (kept, lost) = (unit(b"kept", b"\xc3"), unit(b"lost", b"\x90\xc3"));
    let (ticket, from) = (
        place.path("lost.o"),
        place.directory.path().join("other/lost.o"),
    );
    add(&repository, &kept, Some(&place.path("kept.o")));
    add(&repository, &lost, Some(&ticket));
    drop(repository);
    std::fs::create_dir(from.parent().expect("a directory")).expect("made");
    std::fs::rename(&ticket, &from).expect("moved");
    let put_back = PutBack {
        ticket: &ticket,
        from: &from,
    };
    let wishes = Wishes {
        holds: std::time::Duration::ZERO,
        ..wishes(0)
    };
    compact(&place.path("program.repo"), &wishes, &put_back).expect("compacted");
    let repository = place.repository();
    assert!(has(&repository, &kept) && has(&repository, &lost));
    repository.store().verify().expect("good");
}

/// A build that goes on meanwhile writes tickets of what is younger than what is looked at.
#[test]
fn tickets_of_what_was_added_since_are_no_surprise() {
    let place = Directory::new();
    let repository = place.repository();
    let ticket = place.path("a.o");
    let [old, new] = [b"old", b"new"].map(|name| unit(name, b"\xc3"));
    add(&repository, &old, Some(&ticket));
    let programs = repository.programs().expect("a snapshot");
    add(&repository, &new, Some(&ticket));
    let survey = compactor::roots::survey(&programs, &wishes(0)).expect("looked at");
    assert_eq!(survey.warnings, Vec::<String>::new());
    drop(repository);
    place.compact(0);
    assert!(has(&place.repository(), &new));
}
