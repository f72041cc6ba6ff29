//! One flipped bit on the disk: never another program. A link says what is damaged or makes the right
//! program; a compile says so as well, and leaves an object; `repo-dump --verify --repair` makes it good, or
//! says what to build again.

use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

const SOURCES: [(&str, &str); 2] = [
    (
        "main",
        "#include <stdio.h>\n\
         extern int table[]; int twice(int); const char *word(int);\n\
         static int sum(const int *numbers, int count) {\n\
           int total = 0; for (int i = 0; i < count; i++) total += twice(numbers[i]); return total; }\n\
         int main(void) { printf(\"%s %d %s\\n\", word(0), sum(table, 4), word(1)); return 0; }\n",
    ),
    (
        "more",
        "int table[4] = { 1, 20, 300, 4000 };\n\
         int twice(int n) { return n * 2; }\n\
         static const char *const words[] = { \"first word\", \"second word\" };\n\
         const char *word(int n) { return words[n]; }\n",
    ),
];
const SAYS: &str = "first word 8642 second word\n";

struct Place {
    scratch: Scratch,
    gcc: std::path::PathBuf,
}

impl Place {
    fn new(gcc: &Path) -> Place {
        let scratch = Scratch::new();
        for (name, source) in SOURCES {
            scratch.write(format!("{name}.c"), source);
        }
        let gcc = gcc.to_owned();
        Place { scratch, gcc }
    }

    fn program(&self, name: &str) -> Command {
        self.scratch.command(Binaries::get().path(name))
    }

    fn compile(&self) -> Vec<Run> {
        let compile = |(name, _): (&str, &str)| {
            let mut command = self.program("repo-cc");
            command
                .arg(&self.gcc)
                .args(["-O1", "-c", &format!("{name}.c")]);
            run(&mut command)
        };
        SOURCES.into_iter().map(compile).collect()
    }

    fn link(&self) -> Run {
        let mut command = self.program("repo-cc");
        command.arg(&self.gcc);
        run(command.args(["-o", "program", "main.o", "more.o"]))
    }

    fn said(&self) -> String {
        run(&mut self.scratch.command(self.scratch.join("program")))
            .ok()
            .text()
    }

    fn dump(&self, arguments: &[&str]) -> Run {
        run(self.program("repo-dump").args(arguments))
    }

    fn flip(&self, place: u64, whole: &[u8]) {
        let path = self.scratch.repository();
        fs::write(&path, whole).expect("written");
        let bit = (place ^ place >> 3) % 8;
        let file = fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .expect("opened");
        // A repair may have made another file of it: this is no copy, but the file with a flipped bit.
        const INODE: u64 = 568;
        let inode = file.metadata().expect("examined").ino();
        file.write_all_at(&inode.to_le_bytes(), INODE)
            .expect("written");
        let flipped = [whole[place as usize] ^ 1 << bit];
        file.write_all_at(&flipped, place).expect("written");
    }
}

/// Nobody was killed, nothing panicked.
#[track_caller]
fn is_civil(place: u64, run: &Run) {
    assert!(
        matches!(run.status.code(), Some(0..=2)),
        "{place:#x}: {}",
        run.report()
    );
    assert!(
        !run.errors().contains("panicked"),
        "{place:#x}: {}",
        run.report()
    );
}

/// Places of the file to flip a bit of, more of them where `REPO_FLIPS` says so.
fn places(length: usize) -> impl Iterator<Item = u64> {
    let count = std::env::var("REPO_FLIPS").map_or(24, |text| text.parse().expect("a number"));
    // Spread over the log, where everything is but two sectors.
    let step = (length - 4096) / count + 1;
    (4096 + step / 2..length)
        .step_by(step)
        .map(|place| place as u64)
}

#[test]
fn a_flipped_bit_is_never_another_program() {
    let [gcc] = require!("gcc");
    let place = Place::new(&gcc);
    for compiled in place.compile() {
        compiled.ok();
    }
    place.link().ok();
    assert_eq!(place.said(), SAYS);
    let (good, tickets) = (fs::read(place.scratch.join("program")), tickets(&place));
    let (good, whole) = (
        good.expect("read"),
        fs::read(place.scratch.repository()).expect("read"),
    );
    let (mut noticed, mut repaired) = (0, 0);
    for at in places(whole.len()) {
        place.flip(at, &whole);
        let linked = place.link();
        is_civil(at, &linked);
        if linked.status.success() {
            let made = fs::read(place.scratch.join("program")).expect("read");
            assert!(made == good, "{at:#x}: another program");
        } else {
            assert!(
                linked.errors().contains(".repo"),
                "{at:#x}: {}",
                linked.report()
            );
            noticed += 1;
        }

        // To build again is enough, unless the compiles are known: then the message says what is.
        for compiled in place.compile() {
            is_civil(at, &compiled);
            assert!(compiled.status.success(), "{at:#x}: {}", compiled.report());
        }
        let mut linked = place.link();
        if !linked.status.success() {
            let advice = "repo-dump --verify --repair";
            assert!(
                linked.errors().contains(advice),
                "{at:#x}: {}",
                linked.report()
            );
            place.dump(&["--verify", "--repair"]).ok();
            for compiled in place.compile() {
                compiled.ok();
            }
            linked = place.link();
        }
        assert!(linked.status.success(), "{at:#x}: {}", linked.report());
        assert_eq!(place.said(), SAYS, "{at:#x}");

        // Or to repair, and to build what that names.
        place.flip(at, &whole);
        for (name, bytes) in &tickets {
            fs::write(place.scratch.join(name), bytes).expect("written");
        }
        let repair = place.dump(&["--verify", "--repair"]);
        is_civil(at, &repair);
        if repair.status.success() {
            place.dump(&["--verify"]).ok();
            let linked = place.link();
            let told = repair.text().contains("build it again");
            assert!(
                linked.status.success() || told,
                "{at:#x}: {}",
                linked.report()
            );
            repaired += 1;
        }
        for (name, bytes) in &tickets {
            fs::write(place.scratch.join(name), bytes).expect("written");
        }
    }
    // Most of the file is records, so most of the flips hit one that this program needs.
    assert!(noticed > 0 && repaired > 0, "{noticed} {repaired}");
}

fn tickets(place: &Place) -> Vec<(String, Vec<u8>)> {
    let read = |(name, _): (&str, &str)| {
        let name = format!("{name}.o");
        let bytes = fs::read(place.scratch.join(&name)).expect("read");
        (name, bytes)
    };
    SOURCES.into_iter().map(read).collect()
}
