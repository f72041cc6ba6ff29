//! Which definitions of a translation unit a repository has already.
//!
//! * [`assembly`]: whether assembly may read files.
//! * [`graph`]: what the walk over the IR has found, and the definitions' digests.
//! * [`decide`]: what is compiled, what goes at once, and what is kept for inlining.
//! * [`changes`]: why a digest is another one than it was.
//! * [`kept`]: what the repository keeps of all that.
//! * [`memo`]: what the repository keeps of a definition that was compiled.
//! * [`protocol`]: what `repo-cc` asks of the plugin, and what it is told.
//!
//! Used by the plugin, inside clang, and by `repo-cc`. Knows neither LLVM nor ELF.

pub mod assembly;
pub mod changes;
pub mod decide;
pub mod graph;
pub mod kept;
pub mod memo;
pub mod protocol;
mod session;

pub use decide::Action;
pub use session::{REQUEST_VARIABLE, Session};

/// A digest of bytes.
pub fn digest_of(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}
