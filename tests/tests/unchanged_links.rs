//! A link that is done again, and finds everything as it was, writes nothing into the repository: though compilers have other names for
//! their temporary files each time, on the command line and among the inputs.

use repo_tests::binaries::Binaries;
use repo_tests::build::{Family, Toolchain};
use repo_tests::process::run;
use repo_tests::programs::Language;
use repo_tests::scratch::Scratch;
use store::program::Repository;

fn again(family: Family) {
    let Some(toolchain) = Toolchain::plain(family) else {
        return;
    };
    let toolchain = toolchain.through_repository(Binaries::get());
    let scratch = Scratch::new();
    scratch.write(
        "a.c",
        "extern int other(int); int main(void) { return other(0); }\n",
    );
    scratch.write("b.c", "int other(int n) { return n * 3; }\n");
    let call = |words: &[&str]| {
        run(toolchain.command(&scratch, Language::C).args(words)).ok();
        let repository = Repository::open_read_only(&scratch.repository()).expect("a repository");
        repository
            .programs()
            .expect("a snapshot")
            .snapshot()
            .revision()
    };
    call(&["-c", "b.c"]);
    // The first source is compiled to a temporary object.
    let link = ["-O1", "a.c", "b.o", "-o", "a"];
    let first = call(&link);
    assert_eq!(call(&link), first);
    assert!(call(&["-O1", "-Wl,--gc-sections", "a.c", "b.o", "-o", "a"]) > first);
}

#[test]
fn by_gcc() {
    again(Family::Gcc);
}

#[test]
fn by_clang() {
    again(Family::Clang);
}
