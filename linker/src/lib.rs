//! The linker: tickets, ELF objects, archives and shared objects in, ELF executables, shared objects and relocatable objects out.
//!
//! The way of a section from its input to the output, and the rooms that it comes through. `link` has the recipes
//! ([`link/image.rs`](link) for executables and shared objects), and is the only room that knows all others:
//!
//! ```text
//!    a.o, lib.a(b.o), ticket            command line, scripts           rooms that all use
//!           │                                  │
//!    input  │ what files are, what is in them  ◄──── args, script       base      ids, tables of names, patterns
//!           │                                                           elf       the format, x86-64's relocations and stubs
//!  resolve  │ which definition a name means; which output               messages  diagnostics, log, times, progress
//!           │ section each input section goes to
//!           │                                                           repository
//!    graph  │ what is reached, what is equal, what each                     objects ◄─► the store's records
//!           │ fixup asks for
//!           │
//!   layout  │ sizes, order, segments, addresses
//!           │
//!   output  │ copied and relocated bytes, the linker's own tables ───►  the file
//!           │
//!   report  └ what is said of all that: undefined names, maps, …
//! ```
//!
//! Arrows between rooms go down in this order: `base`, `elf`, `args`, `messages`, `script`, `repository`, `input`, `resolve`,
//! `graph`, `layout`, `output`, `report`, `link`; modules of one room do not need each other in a circle. `cargo xtask
//! layers` holds that, and draws it (`--dot`).

pub mod args;
mod base;
pub mod elf;
mod graph;
pub mod input;
mod layout;
pub mod link;
pub mod messages;
mod output;
mod report;
pub mod repository;
mod resolve;
pub mod script;
