//! Linker scripts at work: what the commands of [`crate::script`] do to a link.
//!
//! A script says up to three things, and each is obeyed at another time of the link:
//!
//! - Which files there are, what the output is called, where it begins (`INPUT`, `OUTPUT`, `ENTRY`, …): when inputs are
//!   opened. `load` collects the commands of all scripts: `--defsym`, `-T`, and scripts among the inputs.
//! - Which symbols there are (`symbol = expression;`): their names take part in resolution, their values are computed
//!   after layout. [`assignments`] does both.
//! - Where everything goes (`SECTIONS`, `MEMORY`, `PHDRS`): only then is the default layout not used.

mod arrangement;
mod assignments;
mod classify;
mod content;
mod environment;
mod evaluate;
mod kinds;
mod lay_out;
mod orphans;
mod plan;
mod prohibited;
mod regions;
mod segments;

pub use arrangement::{Arrangement, Described, Step};
pub use assignments::{Assignments, define_assigned, page_size};
pub use content::Subject;
pub use lay_out::{Facts, Filled, LaidOut, print_no_memory_usage, write_patches};
pub use plan::Plan;
pub use prohibited::report as report_prohibited;
