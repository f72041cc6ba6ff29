//! The outline of a compilation: what the splitter says of frame descriptions, plain members and uses is what a linker
//! goes by without opening a fragment, so a repository in which it is wrong must be found out.

use bumpalo::Bump;
use linker::repository::import::prepare;
use linker::repository::split::outline_is_right;
use repo_tests::binaries::Binaries;
use repo_tests::process::run;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::path::Path;
use std::process::Command;
use store::program::build::Compilation;
use store::program::{Addition, Prepared, Repository};

const SOURCE: &str = r#"
#include <stdexcept>
extern int callee(int);
extern int table[];
int *const words[] = {table, table + 1, table + 2};
int caller(int n) {
    try { return callee(n) + *words[n]; } catch (const std::exception &) { return 0; }
}
"#;

/// An object with code that calls, takes addresses, and has frames with and without exception tables.
fn object(scratch: &Scratch, compiler: &Path) -> Vec<u8> {
    let source = scratch.write("a.cpp", SOURCE);
    let object = scratch.join("a.o");
    run(Command::new(compiler)
        .args([
            "-O2",
            // The landing pads stay with their function, which has one frame description then.
            "-fno-reorder-blocks-and-partition",
            "-fPIC",
            "-ffunction-sections",
            "-fdata-sections",
            "-c",
        ])
        .arg(&source)
        .arg("-o")
        .arg(&object))
    .ok();
    std::fs::read(&object).expect("the object was just made")
}

#[test]
fn the_splitter_says_what_the_object_has() {
    let scratch = Scratch::new();
    let [compiler] = require!("g++");
    let bytes = object(&scratch, &compiler);
    let arena = Bump::new();
    let (prepared, whole) = prepare(Path::new("a.o"), &bytes, &arena).expect("it can be split");
    assert_eq!(whole, None);
    let compilation = &prepared.compilation;
    assert!(outline_is_right(compilation));
    let frames = || {
        compilation
            .sections
            .iter()
            .filter_map(|section| section.frame)
    };
    assert!(frames().any(|frame| frame.has_exception_table));
    let plain = || {
        compilation
            .fragments
            .iter()
            .filter_map(|fragment| fragment.plain)
    };
    assert!(plain().any(|plain| plain.words == 3 && !plain.is_absolute));
    assert!(compilation.uses.iter().any(|bits| *bits != 0));
}

/// Each of what is said, changed: the checksum is right, so only who knows instructions and frames can tell.
#[test]
fn verify_finds_an_outline_that_is_not_that_of_the_members() {
    type Change = fn(&mut Compilation<'_>) -> bool;
    let changes: [(&str, Change); 3] = [
        (
            "the exception table of a frame description",
            |compilation| {
                let mut frames = compilation.sections.iter_mut();
                let frame = frames.find_map(|section| section.frame.as_mut());
                frame.is_some_and(|frame| {
                    frame.has_exception_table ^= true;
                    true
                })
            },
        ),
        ("the number of words", |compilation| {
            let mut members = compilation.fragments.iter_mut();
            let plain = members.find_map(|fragment| fragment.plain.as_mut());
            plain.is_some_and(|plain| {
                plain.words += 1;
                true
            })
        }),
        ("the use of a binding", |compilation| {
            let mut uses = compilation.uses.iter_mut();
            let bits = uses.find(|bits| **bits != 0);
            bits.is_some_and(|bits| {
                *bits ^= 3;
                true
            })
        }),
    ];
    let scratch = Scratch::new();
    let [compiler] = require!("g++");
    let bytes = object(&scratch, &compiler);
    for (number, (what, change)) in changes.into_iter().enumerate() {
        let arena = Bump::new();
        let (prepared, _) = prepare(Path::new("a.o"), &bytes, &arena).expect("it can be split");
        let mut compilation = prepared.compilation;
        assert!(change(&mut compilation), "the object has no {what}");
        assert!(!outline_is_right(&compilation), "{what}");
        let path = scratch.join(format!("{number}.repo"));
        let repository = Repository::open_or_create(&path).expect("a new repository");
        let prepared = Prepared::new(compilation).expect("it can be recorded");
        let addition = Addition {
            prepared: &prepared,
            ticket: None,
        };
        repository.add(&[addition]).expect("it can be added");
        let verified = run(Command::new(Binaries::get().path("repo-dump"))
            .arg("--repo")
            .arg(&path)
            .arg("--verify"))
        .code(1);
        assert!(
            verified
                .report()
                .contains("the outline is not that of the members"),
            "{what}: {}",
            verified.report()
        );
    }
}
