//! x86-64, as the System V psABI (version 1.0) has it: relocations, the code
//! that may be relaxed, and the procedure linkage table. Pure functions on
//! bytes: nothing here knows symbols or sections.

pub mod plt;
pub mod relax;
pub mod reloc;
pub mod uses;

#[cfg(test)]
pub(crate) mod test_asm;
