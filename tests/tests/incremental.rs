//! Incremental links: sequences of edits, drawn at random, of a program of several units. After each step the output is
//! what writing every file again would make of it (`--verify-incremental`), and behaves as the output of a full link.
//!
//! The draw is the same at every run. `$REPO_TESTS_STEPS` sets the number of edits of a sequence (30), `$REPO_TESTS_SEQUENCES` how many
//! sequences there are of each kind of program (1), `$REPO_TESTS_SEED` where the draw begins.

use repo_tests::draw::setting;
use repo_tests::edits::Program;
use repo_tests::process::run;
use repo_tests::relink::{INCREMENTAL, Place};
use repo_tests::scratch::settle;
use repo_tests::tools;
use std::collections::BTreeMap;

/// How a sequence is built.
struct Form {
    compile: &'static [&'static str],
    link: &'static [&'static str],
    /// Units.
    units: usize,
    seed: u64,
    /// The units are compiled to tickets.
    tickets: bool,
    /// They become a shared object, which the program loads.
    shared: bool,
}

/// What a sequence of edits came to.
#[derive(Default)]
struct Tally {
    /// Steps that were incremental.
    incremental: u64,
    /// Why the others were not, and how often.
    reasons: BTreeMap<String, u32>,
}

fn edits(form: &Form) {
    let steps = setting("REPO_TESTS_STEPS", 30);
    let sequences = setting("REPO_TESTS_SEQUENCES", 1);
    let first = setting("REPO_TESTS_SEED", 0);
    let mut tally = Tally::default();
    for sequence in 0..sequences {
        let seed = (first + sequence) * 1000 + form.seed;
        if sequence_of_edits(form, seed, steps, &mut tally).is_none() {
            return;
        }
    }
    let (incremental, all) = (tally.incremental, steps * sequences);
    let reasons = tally.reasons;
    println!("{incremental} of {all} steps were incremental; the others: {reasons:#?}");
    // Most edits are small.
    assert!(incremental > all / 2, "{incremental} of {all}");
}

/// Links a program, and after each of the edits, and adds to the tally. Nothing where there is no compiler.
fn sequence_of_edits(form: &Form, seed: u64, steps: u64, tally: &mut Tally) -> Option<()> {
    let place = Place::new()?;
    let scratch = &place.scratch;
    let mut program = Program::new(seed, form.units);
    let compile = |program: &Program, unit: usize| {
        let name = format!("unit{unit}");
        place.compile(&name, &program.source(unit), form.compile, form.tickets);
    };
    let link = |program: &Program, name: &str, options: &[&str]| {
        let units = 0..program.units.len();
        let objects: Vec<String> = units.map(|unit| format!("unit{unit}.o")).collect();
        let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
        if !form.shared {
            place
                .link(name, &[form.link, options, &["main.o"], &objects].concat())
                .ok();
            return;
        }
        let library = format!("{name}.so");
        let shared = [form.link, options, &["-shared"], &objects].concat();
        place.link(&library, &shared).ok();
        if !scratch.join(name).exists() {
            let library = format!("./{library}");
            place.link(name, &["main.o", &library]).ok();
        }
    };
    place.compile("main", &program.main_source(), form.compile, form.tickets);
    for unit in 0..form.units {
        compile(&program, unit);
    }
    settle();
    link(&program, "grown", &[INCREMENTAL]);
    for step in 0..steps {
        let units = program.units.len();
        let (changed, what) = program.edit(form.units);
        for unit in changed {
            compile(&program, unit);
        }
        if program.units.len() != units {
            // The program calls all units. (It is linked once only where they are a library.)
            place.compile("main", &program.main_source(), form.compile, form.tickets);
            let _ = std::fs::remove_file(scratch.join("made"));
            if form.shared {
                let _ = std::fs::remove_file(scratch.join("grown"));
            }
        }
        link(&program, "grown", &[INCREMENTAL]);
        let last = place.last();
        if let Some(reason) = last.split("full link (").nth(1) {
            let reason = reason.split("): ").next().unwrap_or(reason);
            *tally
                .reasons
                .entry(format!("{what}: {reason}"))
                .or_default() += 1;
        }
        link(&program, "made", &[]);
        let [grown, made] = ["grown", "made"].map(|name| {
            let mut command = scratch.command(scratch.join(name));
            run(&mut command)
        });
        assert!(made.status.success(), "{}", made.report());
        assert_eq!(
            (grown.stdout, grown.status),
            (made.stdout, made.status),
            "seed {seed}, step {step}: {what}"
        );
        if step % 10 == 9 && tools::require(["readelf"]).is_some() {
            let output = if form.shared { "grown.so" } else { "grown" };
            let read = run(scratch.command("readelf").args(["-a", output])).ok();
            assert_eq!(read.errors(), "", "seed {seed}, step {step}: {what}");
        }
    }
    let log = place.log();
    let incremental = log
        .lines()
        .filter(|line| line.contains("incremental link: "));
    tally.incremental += incremental.count() as u64;
    Some(())
}

#[test]
fn of_a_position_independent_program() {
    edits(&Form {
        compile: &["-O2"],
        link: &[],
        units: 6,
        seed: 1,
        tickets: false,
        shared: false,
    });
}

#[test]
fn of_a_program_at_a_fixed_place_with_debugging_information() {
    edits(&Form {
        compile: &["-O1", "-g", "-fno-pie"],
        link: &["-no-pie"],
        units: 5,
        seed: 2,
        tickets: false,
        shared: false,
    });
}

#[test]
fn of_a_program_that_is_collected() {
    edits(&Form {
        compile: &["-O0", "-g"],
        link: &["-Wl,--gc-sections"],
        units: 7,
        seed: 3,
        tickets: false,
        shared: false,
    });
}

#[test]
fn of_a_static_program() {
    edits(&Form {
        compile: &["-Os"],
        link: &["-static"],
        units: 4,
        seed: 4,
        tickets: false,
        shared: false,
    });
}

#[test]
fn of_tickets() {
    edits(&Form {
        compile: &["-O2", "-g"],
        link: &[],
        units: 5,
        seed: 5,
        tickets: true,
        shared: false,
    });
}

#[test]
fn of_a_shared_object() {
    edits(&Form {
        compile: &["-O1", "-fPIC"],
        link: &[],
        units: 5,
        seed: 6,
        tickets: false,
        shared: true,
    });
}

#[test]
fn of_a_program_with_split_debugging_information() {
    edits(&Form {
        compile: &["-O1", "-gsplit-dwarf", "-fcf-protection=full"],
        link: &["-Wl,-z,ibt,-z,now,--build-id=sha1"],
        units: 4,
        seed: 7,
        tickets: false,
        shared: false,
    });
}

#[test]
fn of_a_program_that_may_define_names_twice() {
    edits(&Form {
        compile: &["-O2", "-fno-plt"],
        link: &["-static-pie", "-Wl,-z,muldefs"],
        units: 4,
        seed: 8,
        tickets: false,
        shared: false,
    });
}

/// Two units, linked, and linked again without a change.
fn two() -> Option<Place> {
    let place = Place::new()?;
    place.compile("main", "int f(); int main() { return f(); }", &[], false);
    place.compile("f", "int f() { return 3; }", &[], false);
    settle();
    place.link("a", &[INCREMENTAL, "main.o", "f.o"]).ok();
    assert!(
        place.last().contains("there is no state"),
        "{}",
        place.last()
    );
    place.link("a", &[INCREMENTAL, "main.o", "f.o"]).ok();
    assert!(
        place.last().contains("incremental link: 0 of"),
        "{}",
        place.last()
    );
    Some(place)
}

/// The program is `expected` after a link that was full, for a reason.
fn is_full(place: &Place, words: &[&str], reason: &str, expected: i32) {
    place.link("a", words).ok();
    let last = place.last();
    assert!(
        last.contains("full link") && last.contains(reason),
        "{last}"
    );
    run(&mut place.scratch.command(place.scratch.join("a"))).code(expected);
}

#[test]
fn what_is_another_link_is_full() {
    let Some(place) = two() else { return };
    let plain = [INCREMENTAL, "main.o", "f.o"];
    is_full(
        &place,
        &["-Wl,--incremental-full", "main.o", "f.o"],
        "--incremental-full",
        3,
    );
    is_full(
        &place,
        &[INCREMENTAL, "-s", "main.o", "f.o"],
        "the options",
        3,
    );
    is_full(&place, &plain, "the options", 3);
    is_full(
        &place,
        &[INCREMENTAL, "-Wl,--icf=all", "main.o", "f.o"],
        "--icf",
        3,
    );
    // Somebody else has changed or taken the output.
    let output = place.scratch.join("a");
    let mut bytes = std::fs::read(&output).unwrap();
    bytes.push(0);
    std::fs::write(&output, bytes).unwrap();
    is_full(&place, &plain, "the output was changed", 3);
    // One that is gone is kept beside the state.
    std::fs::remove_file(&output).unwrap();
    place.link("a", &plain).ok();
    assert!(
        place.last().contains("incremental link: 0 of"),
        "{}",
        place.last()
    );
    run(&mut place.scratch.command(&output)).code(3);
    // An object that is none any more, and one that is missing: the messages are those of any link.
    place.scratch.write("f.o", "text");
    place.link("a", &plain).failed();
    std::fs::remove_file(place.scratch.join("f.o")).unwrap();
    let failed = place.link("a", &plain).failed();
    assert!(failed.errors().contains("f.o"), "{}", failed.errors());
    place.compile("f", "int f() { return 5; }", &[], false);
    place.link("a", &plain).ok();
    run(&mut place.scratch.command(place.scratch.join("a"))).code(5);
}

#[test]
fn a_name_that_nobody_defines_is_reported_and_mended() {
    let Some(place) = two() else { return };
    let words = [INCREMENTAL, "main.o", "f.o"];
    place.compile("f", "int g(); int f() { return g(); }", &[], false);
    let failed = place.link("a", &words).failed();
    assert!(failed.errors().contains("undefined"), "{}", failed.errors());
    for value in [7, 8] {
        let text = format!("int f() {{ return {value}; }}");
        place.compile("f", &text, &[], false);
        place.link("a", &words).ok();
        assert!(
            place.last().contains("incremental link: 1 of"),
            "{}",
            place.last()
        );
        run(&mut place.scratch.command(place.scratch.join("a"))).code(value);
    }
}

#[test]
fn a_library_that_comes_earlier_is_found() {
    let Some(place) = Place::new() else { return };
    let archive = |directory: &str, value: i32| {
        std::fs::create_dir_all(place.scratch.join(directory)).unwrap();
        let text = format!("int f() {{ return {value}; }}");
        place.compile("f", &text, &[], false);
        let archive = format!("{directory}/libf.a");
        run(place.scratch.command("ar").args(["rc", &archive, "f.o"])).ok();
    };
    place.compile("main", "int f(); int main() { return f(); }", &[], false);
    archive("two", 2);
    settle();
    let words = [INCREMENTAL, "main.o", "-Lone", "-Ltwo", "-lf"];
    is_full(&place, &words, "", 2);
    place.link("a", &words).ok();
    assert!(
        place.last().contains("incremental link: 0 of"),
        "{}",
        place.last()
    );
    archive("one", 1);
    is_full(&place, &words, "-lf is found elsewhere", 1);
    archive("one", 4);
    place.link("a", &words).ok();
    assert!(
        place.last().contains("incremental link: 1 of"),
        "{}",
        place.last()
    );
    run(&mut place.scratch.command(place.scratch.join("a"))).code(4);
}

#[test]
fn a_damaged_state_is_none() {
    let Some(place) = two() else { return };
    let words = [INCREMENTAL, "main.o", "f.o"];
    let folder = place.scratch.join("program.repo.links");
    let states = || {
        let entries = folder.read_dir().unwrap();
        // Beside them are the lock, and other names of outputs.
        entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_none() && !path.ends_with("lock"))
            .collect::<Vec<_>>()
    };
    assert_eq!(states().len(), 1);
    for bytes in [&b""[..], b"text", &[0xff; 5000]] {
        std::fs::write(&states()[0], bytes).unwrap();
        place.compile("f", "int f() { return 4; }", &[], false);
        is_full(&place, &words, "there is no state", 4);
    }
    // Others may not have written to it.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&states()[0], open).unwrap();
    is_full(&place, &words, "there is no state", 4);
}

#[test]
fn a_running_program_is_left_alone() {
    let Some(place) = Place::new() else { return };
    let text = |value: i32| {
        format!("#include <unistd.h>\nint main() {{ char c; read(0, &c, 1); return {value}; }}")
    };
    place.compile("main", &text(1), &[], false);
    settle();
    let words = [INCREMENTAL, "main.o"];
    place.link("a", &words).ok();
    let mut first = place.scratch.command(place.scratch.join("a"));
    let mut first = first.stdin(std::process::Stdio::piped()).spawn().unwrap();
    place.compile("main", &text(2), &[], false);
    place.link("a", &words).ok();
    assert!(
        place.last().contains("incremental link: 1 of"),
        "{}",
        place.last()
    );
    drop(first.stdin.take());
    assert_eq!(first.wait().unwrap().code(), Some(1));
    run(&mut place.scratch.command(place.scratch.join("a"))).code(2);
}
