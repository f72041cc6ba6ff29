//! What the programs make of real objects is what SPEC.md says: the reader that was written from it (`store/tests/golden`), and
//! shares no code with them, takes every record apart, and computes every digest, check and outline again.

#[path = "../../store/tests/golden/programs/mod.rs"]
mod programs;
#[path = "../../store/tests/golden/reader.rs"]
mod reader;

use programs::{Programs, Summary};
use repo_hostile::targets::Target;
use repo_tests::binaries::Binaries;
use repo_tests::process::run;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::path::Path;

/// Objects of several compilers and languages that are kept in the source tree: exceptions, COMDAT groups, threads'
/// data, debug information; and records in envelopes.
#[test]
fn of_kept_objects() {
    let [bytes] = Target::Program.seeds().try_into().expect("one");
    let summary = Programs::new(bytes).check();
    assert!(
        summary.compilations >= 8 && summary.envelopes >= 16,
        "{summary:?}"
    );
    assert!(
        summary.packed > 20 && summary.plain > 20 && summary.one_fde > 4,
        "{summary:?}"
    );
}

fn check(scratch: &Scratch) -> Summary {
    let bytes = std::fs::read(scratch.repository()).expect("read");
    Programs::new(bytes).check()
}

fn features(compiler: &Path, extension: &str, options: &[&str]) {
    let scratch = Scratch::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/features");
    let mut count = 0;
    for entry in std::fs::read_dir(sources).expect("listed") {
        let path = entry.expect("listed").path();
        if path.extension().is_none_or(|found| found != extension) {
            continue;
        }
        let output = format!("{}.o", path.file_stem().expect("a name").display());
        let mut command = scratch.command(Binaries::get().path("repo-cc"));
        command.arg(compiler).args(options).arg("-c").arg(&path);
        run(command.args(["-o", &output])).ok();
        count += 1;
    }
    assert!(count > 1);
    let summary = check(&scratch);
    assert_eq!(summary.tickets, count);
    assert!(
        summary.plain > 0 && summary.one_fde > 0 && summary.pieces > 0,
        "{summary:?}"
    );
    if options.contains(&"-g") {
        assert!(summary.compressed > 0, "{summary:?}");
    }
    // And what the compactor makes of that.
    let mut command = scratch.command(Binaries::get().path("repo-gc"));
    run(command.args(["--grace", "0s"])).ok();
    let after = check(&scratch);
    assert_eq!(
        (
            (after.fragments, after.compressed),
            after.members,
            after.plain,
            after.one_fde
        ),
        (
            (summary.fragments, summary.compressed),
            summary.members,
            summary.plain,
            summary.one_fde
        )
    );
}

#[test]
fn of_c_by_gcc() {
    let [gcc] = require!("gcc");
    features(&gcc, "c", &["-O2", "-g"]);
}

#[test]
fn of_cxx_by_clang() {
    let [clang] = require!("clang++");
    features(&clang, "cpp", &["-O1", "-g", "-fexceptions"]);
}

/// Section 20, written from its text alone.
mod section_20 {
    use xxhash_rust::xxh3::xxh3_64;

    pub struct Note<'a> {
        pub uuid: &'a [u8],
        pub compilation: &'a [u8],
        pub seal: u32,
        pub path: &'a [u8],
        pub made: &'a [u8],
    }

    pub fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    /// Takes a note apart that has these bytes and no more.
    pub fn note(bytes: &[u8], kind: u32) -> Note<'_> {
        assert_eq!([word(bytes, 0), word(bytes, 8)], [5, kind]);
        assert_eq!(&bytes[12..20], b"REPO\0\0\0\0");
        assert_eq!(word(bytes, 20), 2);
        let (path, made) = (word(bytes, 24) as usize, word(bytes, 80) as usize);
        assert_eq!(word(bytes, 4) as usize, 64 + path + made);
        assert_eq!(bytes.len(), (84 + path + made).next_multiple_of(4));
        assert!(bytes[84 + path + made..].iter().all(|byte| *byte == 0));
        Note {
            uuid: &bytes[28..44],
            compilation: &bytes[44..76],
            seal: word(bytes, 76),
            path: &bytes[84..84 + path],
            made: &bytes[84 + path..84 + path + made],
        }
    }

    /// The seal of a file whose note is at `note`.
    pub fn seal(file: &[u8], note: usize) -> u32 {
        let mut h = 0u64;
        for part in [&file[..note + 76], &file[note + 80..]] {
            for block in part.chunks(8192) {
                h = (h ^ xxh3_64(block)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
        (h >> 32) as u32
    }

    /// The dictionary in the specification's text.
    pub fn dictionary() -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../format-spec/SPEC.md");
        let text = std::fs::read_to_string(path).unwrap();
        let section = text
            .split("\n## ")
            .find(|part| part.starts_with("20. "))
            .unwrap();
        let lines = section.lines().filter_map(|line| line.strip_prefix("    "));
        lines.collect::<String>().replace("\\0", "\0").into_bytes()
    }

    /// The strings of the plain form, if it is signed with this key.
    pub fn plain(note: &Note<'_>, key: &[u8; 32]) -> Vec<String> {
        let dictionary = [&dictionary()[..], note.path].concat();
        let mut reader = zstd::bulk::Decompressor::with_dictionary(&dictionary).unwrap();
        reader.include_magicbytes(false).unwrap();
        let plain = reader.decompress(&note.made[16..], 16384).unwrap();
        assert_eq!(
            blake3::keyed_hash(key, &plain).as_bytes()[..16],
            note.made[..16]
        );
        let text = String::from_utf8(plain).unwrap();
        let strings = text.strip_suffix('\0').unwrap().split('\0');
        strings.map(str::to_owned).collect()
    }
}

#[test]
fn of_ticket_files_and_fat_objects() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    // Larger than a block of the seal's.
    let functions = (0..300).map(|n| format!("int function_{n}(int x) {{ return x + {n}; }}\n"));
    scratch.write("a.c", functions.collect::<String>());
    let compile = |fat: &str, output: &str| {
        let mut command = scratch.command(Binaries::get().path("repo-cc"));
        command.env("REPO_CC_FAT", fat).arg(&gcc);
        run(command.args(["-O1", "-c", "a.c", "-o", output])).ok();
        std::fs::read(scratch.join(output)).expect("read")
    };
    let (ticket, fat) = (compile("", "a.o"), compile("1", "fat.o"));
    let elf = goblin::elf::Elf::parse(&ticket).expect("an object");
    let mut sections = elf.section_headers.iter();
    let section = sections
        .find(|section| elf.shdr_strtab.get_at(section.sh_name) == Some(".note.repo"))
        .expect("the note");
    assert_eq!(section.sh_type, goblin::elf::section_header::SHT_NOTE);
    let at = section.sh_offset as usize;
    let note = section_20::note(&ticket[at..at + section.sh_size as usize], 1);
    assert!(ticket.len() > 8192);
    assert_eq!(note.seal, section_20::seal(&ticket, at));
    let repository = std::fs::read(scratch.repository()).expect("read");
    assert_eq!(note.uuid, &repository[16..32]);
    assert_eq!(
        note.path,
        scratch.repository().as_os_str().as_encoded_bytes()
    );
    let key = std::fs::read(scratch.join("config/program-repository/key")).expect("a key");
    let made = section_20::plain(&note, &key.try_into().expect("32 bytes"));
    let here = std::fs::canonicalize(scratch.path()).expect("a directory");
    let shown = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let command = ["-O1", "-c", "a.c", "-o", "a.o"].map(str::to_owned);
    let expected = [shown(&here.join("a.o")), shown(&here), shown(&gcc)];
    assert_eq!(made, [&expected[..], &command].concat());

    let (rest, end) = fat.split_at(fat.len() - 16);
    assert_eq!(&end[8..], b"RepoNote");
    let size = section_20::word(end, 0) as usize;
    let padding = section_20::word(end, 4) as usize;
    let at = rest.len() - size;
    let of_fat = section_20::note(&rest[at..], 2);
    assert_eq!(of_fat.seal, section_20::seal(&fat, at));
    assert_eq!(of_fat.made, b"");
    let same =
        |note: &section_20::Note<'_>| [note.uuid, note.compilation, note.path].map(<[u8]>::to_vec);
    assert_eq!(same(&note), same(&of_fat));
    let mut command = scratch.command(&gcc);
    command.args(["-ffunction-sections", "-fdata-sections"]);
    run(command.args(["-O1", "-c", "a.c", "-o", "plain.o"])).ok();
    let plain = std::fs::read(scratch.join("plain.o")).expect("read");
    assert!(rest[..at - padding] == plain && rest[at - padding..at].iter().all(|byte| *byte == 0));
}
