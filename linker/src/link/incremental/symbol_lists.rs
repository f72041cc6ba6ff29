//! What lists and version scripts that options name said when a link began. Their texts are no inputs of which a part could change: where one is
//! another, so is the link.

use crate::args::Args;
use crate::args::environment::Environment;
use crate::input::library_search::Search;
use crate::input::unseekable;
use format_spec::digest::Digest;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Digest of these, and where they are found, as they are now.
pub(super) fn digest(args: &Args) -> Digest {
    let mut paths: Vec<PathBuf> = args.tables().cloned().collect();
    let mut lists = args.symbol_lists().peekable();
    if lists.peek().is_some() {
        let search = Search::new(args, Environment::of_process());
        paths.extend(lists.map(|path| search.script(path).unwrap_or_else(|| path.clone())));
    }
    let mut all = Vec::new();
    for path in paths {
        all.extend_from_slice(path.as_os_str().as_bytes());
        // The link says what is the matter with one that cannot be read.
        let text = unseekable::read(&path).unwrap_or_default();
        all.extend_from_slice(&Digest::of(&text).0);
    }
    Digest::of(&all)
}
