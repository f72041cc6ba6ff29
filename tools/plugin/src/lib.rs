//! The pass plugin that `repo-cc` gives to clang 19 (`-fpass-plugin=`): says what of a translation unit the repository has
//! already, so that nothing is generated for it.
//!
//! ```text
//! clang ─▶ passes.cpp ─▶ walk.cpp: what each definition is, and refers to
//!             │               │
//!             │               ▼
//!             │          here ─▶ pruning: digests, look-ups in the repository, what is to become of each
//!             ▼
//!          drops what is known; the report tells repo-cc
//! ```
//!
//! The walk and the passes are C++, because LLVM's C interface lacks most of what they need. Without LLVM's headers there is nothing
//! in this library (see `build.rs`).

#[cfg(llvm19)]
mod session;
