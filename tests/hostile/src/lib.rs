//! Hostile inputs: sound files are changed, and whatever reads them must end with an error or with a right answer,
//! never with a panic, never not at all, never with all of the memory.
//!
//! Most changes to an object's bytes make it unreadable in its first table. Those that lead far into the linker change
//! what a field says and leave the rest in order; so the mutations here know the formats ([`mutate`]). A [`Target`] is a
//! function that takes bytes and asserts what must hold, together with the mutation that suits these bytes and with sound
//! inputs to begin from.
//!
//! There are two users. `tests/fuzz` runs each target under libFuzzer for as long as one likes: it keeps what reaches new
//! code and changes that further. `tests/tests/hostile_inputs.rs` runs each a bounded number of times, with numbers
//! that look random and are the same every time.

pub mod mutate;
pub mod random;
pub mod reader;
pub mod targets;

pub use random::Random;
pub use targets::Target;
