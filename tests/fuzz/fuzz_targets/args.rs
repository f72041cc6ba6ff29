//! Command lines: one word a line. `@` is left out, so that no file of this machine is opened.
#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use libfuzzer_sys::fuzz_target;
use linker::args::{Args, help};

fuzz_target!(|data: &[u8]| {
    let words = data
        .split(|byte| *byte == b'\n')
        .filter(|word| !word.starts_with(b"@"));
    if let Ok(args) = Args::parse(words.map(|word| OsString::from_vec(word.to_vec()))) {
        help::information(&args, "ld");
        for defsym in &args.defsyms {
            let _ = linker::script::parse_expr(&defsym.expr, "--defsym");
        }
    }
});
