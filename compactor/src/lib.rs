//! The compactor of program repositories.
//!
//! A repository only ever grows. What no ticket names any more is left out by copying
//! the rest into a new file, which then takes the old one's name:
//!
//! 1. [`roots`] finds out what is live: ticket files that are still there (on record,
//!    beside those, in archives, or below a directory that the user names or has named once), images
//!    whose output is still there, and whatever is younger than the grace period.
//!    What records of other kinds are live with these, [`trace`] finds out; it need not know the kinds.
//!    [`budget`] lets some of what is only remembered go, where the user has named a size; [`explain`] says what keeps a record.
//! 2. [`compact`](compact::compact) copies that: names first, then compilation by compilation in the
//!    order of the images' inputs, or else of the tickets' paths: so what one link reads stands together. Every digest
//!    is computed again on the way. It commits each time when much has gathered, so that little is remembered of each record (`copying`), and
//!    another thread verifies what is committed meanwhile.
//! 3. [`catch_up`] copies what writers committed meanwhile; the last of it, and the
//!    renaming, under the old file's write lock, which is held for some milliseconds at once, and for longer only where that is
//!    not enough: while it is copied, [`brake`] slows down writers who would else add more.
//!
//! [`damage`]: what is damaged is left out, and what must be built again is told. [`new_file`] is how that is done where others can write the directory.
//!
//! [`idle`] does that while the machine has nothing else to do, and [`timer`] has that done each day. [`priority`] keeps what takes long behind
//! what others do meanwhile, but for what they wait for.
//!
//! Whoever has the old file open goes on reading it. Writers that were waiting for its
//! lock find it replaced ([`store::engine::Error::Replaced`]) and open the new one.
//! Until the renaming, which is atomic, the old file is untouched: killed at any time,
//! the compactor leaves one good repository.

mod brake;
pub mod budget;
mod catch_up;
pub mod cli;
pub mod compact;
mod copying;
pub mod damage;
pub mod explain;
pub mod idle;
mod in_order;
mod json;
pub mod listing;
pub mod measure;
pub mod new_file;
pub mod observer;
pub mod priority;
pub mod report;
pub mod roots;
pub mod timer;
pub mod trace;
