//! Relocatable objects: split into fragments, digested, joined again. What was joined must split into the same
//! compilation.
#![no_main]

use std::path::Path;

use bumpalo::Bump;
use libfuzzer_sys::fuzz_target;
use linker::elf_object::ElfObject;
use linker::import::prepare;
use linker::join::join;

fuzz_target!(|data: &[u8]| {
    if let Ok(mut object) = ElfObject::parse(data) {
        let _ = object.expand();
    }
    let arena = Bump::new();
    let Ok((prepared, _)) = prepare(Path::new("fuzzed.o"), data, &arena) else {
        return;
    };
    let Ok(joined) = join(&prepared.compilation) else {
        return;
    };
    let (again, _) = prepare(Path::new("joined.o"), &joined, &arena)
        .expect("a joined object can be split");
    assert_eq!(again.digest, prepared.digest, "split again it is the same compilation");
});
