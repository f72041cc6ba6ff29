//! Assembling snippets with the system's assembler, for tests. Where there is
//! none, the tests that need it say so and pass.

use object::{Object, ObjectSection, RelocationFlags};
use std::process::Command;

/// A section of an assembled snippet.
pub struct Assembled {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its relocations in order: offset, type, addend.
    pub relocs: Vec<(u64, u32, i64)>,
}

/// Assembles `source` (AT&T syntax) and takes a section of it. `None`, with a
/// remark on standard error, if there is no assembler, or if `may_fail` and it does
/// not know an instruction.
fn run(source: &str, section: &str, may_fail: bool) -> Option<Assembled> {
    let directory = tempfile::tempdir().unwrap();
    let (input, output) = (directory.path().join("a.s"), directory.path().join("a.o"));
    std::fs::write(&input, format!("{source}\n")).unwrap();
    let child = crate::base::children::start();
    let result = Command::new("as")
        .arg("--64")
        .arg("-o")
        .arg(&output)
        .arg(&input)
        .output();
    drop(child);
    let result = match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("not tested: no assembler (as)");
            return None;
        }
        result => result.unwrap(),
    };
    if !result.status.success() {
        let message = String::from_utf8_lossy(&result.stderr).into_owned();
        assert!(may_fail, "{message}");
        eprintln!("not tested: this assembler does not take {source:?}");
        return None;
    }
    let data = std::fs::read(&output).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let section = file.section_by_name(section).unwrap();
    let relocs = section
        .relocations()
        .map(|(offset, reloc)| match reloc.flags() {
            RelocationFlags::Elf { r_type } => (offset, r_type, reloc.addend()),
            flags => panic!("{flags:?}"),
        })
        .collect();
    Some(Assembled {
        bytes: section.data().unwrap().to_vec(),
        relocs,
    })
}

/// The text section of a snippet.
pub fn assemble(source: &str) -> Option<Assembled> {
    run(source, ".text", false)
}

/// The text section of a snippet that not every assembler knows.
pub fn assemble_if_known(source: &str) -> Option<Assembled> {
    run(source, ".text", true)
}

/// Some other section of a snippet.
pub fn assemble_section(source: &str, section: &str) -> Option<Assembled> {
    run(source, section, false)
}
