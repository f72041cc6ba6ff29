//! The linker: tickets, ELF objects, archives and shared objects in, ELF executables, shared objects and relocatable objects out.

pub mod args;
pub mod base;
pub mod elf;
pub mod graph;
pub mod input;
pub mod layout;
pub mod link;
pub mod messages;
pub mod output;
pub mod report;
pub mod repository;
pub mod resolve;
pub mod script;
