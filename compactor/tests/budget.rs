//! Repositories of a size that the user has named, and what `--explain` says.

mod common;

use common::{Directory, add, compact, dry_run, has, unit, wishes};
use compactor::explain::Explanation;
use compactor::observer::Silent;
use compactor::roots::Wishes;
use format_spec::digest::Digest;
use store::program::Repository;
use store::program::manifest::{NewResult, record_result};

/// Bytes that nothing makes smaller.
fn code(seed: u32) -> Vec<u8> {
    let blocks =
        (0..1000_u32).map(|block| Digest::of(&[seed, block].map(u32::to_le_bytes).concat()));
    blocks.flat_map(|block| block.0).collect()
}

/// Puts on record that a compile has made this.
fn record(repository: &Repository, name: &str, compilation: &Digest) -> Digest {
    let key = Digest::of(name.as_bytes());
    let new = NewResult {
        key: &key,
        parts: &[name.into()],
        conditions: &[],
        compilation: Some(compilation),
        diagnostics: b"",
        is_coloured: false,
        dependencies: None,
        files: None,
    };
    record_result(repository.store(), &new).expect("recorded");
    key
}

#[test]
fn what_was_used_longest_ago_goes_first_and_no_ticket() {
    const UNITS: u32 = 12;
    let place = Directory::new();
    let repository = place.repository();
    let path = place.path("program.repo");
    let codes: Vec<Vec<u8>> = (0..=UNITS).map(code).collect();
    let names: Vec<String> = (0..=UNITS).map(|number| format!("f{number}")).collect();
    let units: Vec<_> = names
        .iter()
        .zip(&codes)
        .map(|(name, code)| unit(name.as_bytes(), code))
        .collect();
    let (ticketed, cached) = units.split_last().expect("there are some");
    add(&repository, ticketed, Some(&place.path("t.o")));
    for (unit, name) in cached.iter().zip(&names) {
        add(&repository, unit, None);
        record(&repository, name, &unit.digest);
    }
    drop(repository);
    let whole = dry_run(&path, &wishes(0)).expect("looked at").bytes_after;
    let limited = |max_size| Wishes {
        max_size: Some(max_size),
        ..wishes(0)
    };
    let there = || {
        let repository = place.repository();
        assert!(has(&repository, ticketed));
        cached
            .iter()
            .map(|unit| has(&repository, unit))
            .collect::<Vec<_>>()
    };
    // There is room for all.
    compact(&path, &limited(2 * whole), &Silent).expect("compacted");
    assert_eq!(there(), vec![true; UNITS as usize]);
    let half = limited(whole / 2);
    let told = dry_run(&path, &half).expect("looked at");
    assert!(
        told.bytes_after <= whole / 2,
        "{} of {whole}",
        told.bytes_after
    );
    let report = compact(&path, &half, &Silent).expect("compacted");
    assert_eq!(report.warnings, [""; 0]);
    assert!(
        report.bytes_after <= whole / 2,
        "{} of {whole}",
        report.bytes_after
    );
    let left = there();
    let first = left
        .iter()
        .position(|is_there| *is_there)
        .expect("some are left");
    assert!(first > 2 && first < 9, "{left:?}");
    assert!(left[first..].iter().all(|is_there| *is_there), "{left:?}");
    // Not even then what a ticket names.
    let report = compact(&path, &limited(1), &Silent).expect("compacted");
    assert!(
        report.warnings[0].contains("more than --max-size"),
        "{:?}",
        report.warnings
    );
    assert_eq!(there(), vec![false; UNITS as usize]);
}

#[test]
fn what_keeps_a_record_is_told_as_a_path() {
    let place = Directory::new();
    let repository = place.repository();
    let named = unit(b"named", b"\xc3");
    let cached = unit(b"cached", b"\x90\xc3");
    let dead = unit(b"dead", b"\x90\x90\xc3");
    let ticket = place.path("named.o");
    add(&repository, &named, Some(&ticket));
    add(&repository, &cached, None);
    add(&repository, &dead, None);
    let manifest = record(&repository, "cc -c cached.c", &cached.digest);
    let programs = repository.programs().expect("sound");
    let explain = |digits: &str| Explanation::new(&programs, digits, &wishes(0));
    let told = |digest: &Digest| {
        let explanation = explain(&digest.to_string()[..20]).expect("there is one");
        let steps = explanation.path.into_iter();
        steps.map(|step| (step.what, step.why)).collect::<Vec<_>>()
    };
    let fragment_of = |unit: &Digest| {
        let view = programs.compilation(unit).expect("it is there");
        let fragment = view.members()[0].fragment;
        programs
            .snapshot()
            .record_at(fragment)
            .expect("it is there")
            .key()
    };
    let path = told(&fragment_of(&named.digest));
    let [(compilation, Some(why)), (fragment, None)] = &path[..] else {
        panic!("{path:?}");
    };
    assert_eq!(compilation, &format!("compilation {}", named.digest));
    assert!(why.contains(&ticket.display().to_string()), "{why}");
    assert!(
        fragment.starts_with("fragment ") && fragment.ends_with(" (named)"),
        "{fragment}"
    );

    let path = told(&cached.digest);
    let [(first, Some(why)), (_, None)] = &path[..] else {
        panic!("{path:?}");
    };
    assert!(first.starts_with(&manifest.to_string()), "{first}");
    assert!(why.contains("asked for by a compile"), "{why}");
    assert_eq!(told(&dead.digest), []);
    assert_eq!(told(&fragment_of(&dead.digest)), []);
    for digits in ["abc", "xyzxyz", "", &"0".repeat(64)] {
        assert!(explain(digits).is_err(), "{digits}");
    }
}
