//! The program model on the engine: names, pieces, fragments, compilations, tickets.
//!
//! [`Repository`] is where to begin: it adds compilations (made by a splitter as
//! [`build::Compilation`], given digests by [`Prepared`]) and gives [`Programs`], which
//! reads a snapshot through borrowed views. [`locate`] finds the file.
//!
//! Knows no object file format: constants of ELF appear only as numbers that are kept.

mod add;
mod adder;
mod addition;
pub mod budget;
pub mod build;
mod carried;
mod columns;
mod compilation_view;
mod copy;
mod copy_check;
mod cutter;
mod dependencies;
mod difference;
mod digester;
mod encode;
mod enveloped;
mod error;
mod fragment_view;
mod load;
mod local_place;
pub mod locate;
mod look;
pub mod manifest;
mod missing;
mod outline;
mod outputs;
mod prefixes;
mod prepare;
mod record_image;
mod recorded;
mod repository;
mod ticket_record;
mod view;
pub mod waiting;

pub use addition::{Added, Addition};
pub use carried::Carried;
pub use compilation_view::{Bindings, CompilationView};
pub use copy::Copier;
pub use copy_check::{Checked, Checker, Verified};
pub use digester::Digester;
pub use enveloped::{insert_enveloped, replace_enveloped};
pub use error::{ProgramError, Result};
pub use fragment_view::{
    FixupsView, FragmentSection, FragmentView, PackedFixups, SectionCheck, SectionView, kind_of,
    section_kind,
};
pub use outputs::{ImageView, TypeView};
pub use prefixes::{Prefix, forget_prefix, remember_prefix};
pub use prepare::Prepared;
pub use record_image::{NewImage, NewImageInput, SeenArchive, record_image};
pub use repository::Repository;
pub use ticket_record::TICKET_REFRESH_NANOSECONDS;
pub use view::{PieceView, Programs, TicketView};
