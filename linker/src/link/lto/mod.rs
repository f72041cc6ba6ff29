//! Link-time optimisation by the compiler's own linker plugin (`-plugin FILE`):
//! gcc's `liblto_plugin.so` or LLVM's `LLVMgold.so`.
//!
//! The plugin interface is a table of tagged values that the linker hands to
//! the plugin's `onload`, and functions that each side registers with the
//! other. In order: each input that might hold intermediate code is offered
//! ([`Plugin::claim`]); the plugin tells the symbols of those that it takes;
//! when all symbols are resolved, the linker calls [`Plugin::finish`] with a
//! resolution for each symbol, and the plugin compiles and names object files,
//! which are linked as if they had been given in its place.

mod answers;
mod api;
mod compile;
mod plugin;
mod stand_in;

pub use compile::{Compiled, compile};
pub use plugin::Resolution;
