//! Relocatable objects: split into fragments, digested, joined again. What was joined is an object
//! that can be split. (Not always into the same compilation: an empty section of the kind that assemblers write
//! always is left out once nothing else stands in its place.)
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
    let again = prepare(Path::new("joined.o"), &joined, &arena);
    assert!(again.is_ok(), "{:?}", again.err());
});
