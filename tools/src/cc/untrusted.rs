//! What is read here that others have written, for tests that give it any bytes: sources, lists of what they include, objects.

use super::debug_lines::{Move, moved};
pub use super::memo::any_text::{read as sources, read_dependencies as dependencies};
use super::rustc::sources as rust_sources;
use std::path::Path;

/// Reads a source of Rust, or a library's bytes.
pub fn rust(bytes: &[u8]) {
    let _ = (
        rust_sources::has_assembly(bytes),
        rust_sources::has_reading_macro(bytes),
        rust_sources::has_static_library(bytes),
    );
}

/// Moves the lines of a source, which is in `directory`, in the debug information of an object: each line *n* of them becomes `now[n - 1]`. Returns the
/// object after that, if it is understood.
pub fn object(object: &[u8], directory: &Path, source: &str, now: &[u32]) -> Option<Vec<u8>> {
    let moves = [Move {
        path: source.into(),
        before: (1..).take(now.len()).collect(),
        now: now.to_vec(),
        md5: [0x5a; 16],
    }];
    moved(object, directory, &moves).ok()
}
