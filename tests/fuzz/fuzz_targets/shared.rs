//! Shared objects: everything that the linker asks of one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linker::shared::Shared;

fuzz_target!(|data: &[u8]| {
    let Ok(shared) = Shared::parse(data, b"libfuzzed.so") else {
        return;
    };
    for index in 0..shared.syms.len() as u32 {
        shared.name(index);
        if shared.is_defined(index) {
            shared.is_default(index);
            shared.version(index);
            shared.alignment(index);
            shared.is_read_only(index);
        }
    }
    shared.defined_versions().count();
});
