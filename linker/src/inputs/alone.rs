//! Opening objects again that were inputs of an earlier link.

use super::Input;
use super::{InputArena, Opener, Opening, list_archives};
use crate::args::{Args, InputState};
use crate::diag::Diagnostics;
use crate::file::{Body, File, Files};
use crate::scripting::Scripts;
use crate::search::{Environment, Search};
use std::path::{Path, PathBuf};

/// Opens single objects, each of which was an input of an earlier link by its path: the linker itself comes first, and then
/// they, in order. `exclude` says which of them `--exclude-libs` covers.
pub fn open_alone<'a>(
    arena: &'a InputArena,
    args: &Args,
    paths: &[(PathBuf, bool)],
    diag: &Diagnostics,
) -> Files<'a> {
    let search = Search::new(args, Environment::of_process());
    let mut opener = Opener::new(arena, args, search, Scripts::default(), diag);
    for (path, exclude) in paths {
        let first = opener.found.len();
        opener.open(path.clone(), InputState::default());
        for input in &mut opener.found[first..] {
            if let Input::Found(found) = input {
                found.exclude = *exclude;
            }
        }
    }
    let linker = File {
        path: Path::new(""),
        member: None,
        body: Body::Linker(Vec::new()),
        lazy: false,
        as_needed: false,
        exclude: false,
        slot_base: 0,
        mapped: None,
    };
    let found = list_archives(opener.found, diag);
    let mut opening = Opening::new(arena, args, diag);
    let files = opening.parse_all(Some(linker), found);
    if !opening.lost.is_empty() {
        diag.error("a ticket is lost");
    }
    Files(files)
}
