//! Opening objects again that were inputs of an earlier link.

use super::found::Found;
use super::parse::Opening;
use super::{Input, InputArena, Opener, list_archives};
use crate::args::environment::Environment;
use crate::args::{Args, InputState};
use crate::elf::{Ehdr, Shdr, c};
use crate::input::file::{Body, File, Files};
use crate::input::library_search::Search;
use crate::input::scripts::Scripts;
use crate::messages::diag::Diagnostics;
use std::path::{Path, PathBuf};
use tickets::archive::Archive;

/// An object that was an input of an earlier link.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its path, or its archive's.
    pub path: PathBuf,
    /// Which member of the archive it is.
    pub member: Option<usize>,
    /// `--exclude-libs` covers it.
    pub exclude: bool,
    /// It is an input no more: an object without anything stands for it.
    pub is_gone: bool,
}

/// So many are opened in less time than others would need to begin.
const FEW: usize = 16;

/// Opens single objects: the linker itself comes first, and then they, in order.
pub fn open_alone<'a>(
    arena: &'a InputArena,
    args: &Args,
    known: &[Known],
    diag: &Diagnostics,
) -> Files<'a> {
    let search = Search::new(args, Environment::of_process());
    let mut opener = Opener::new(arena, args, search, Scripts::default(), diag);
    if known.len() > FEW {
        let there = known.iter().filter(|known| !known.is_gone);
        let mut paths: Vec<&Path> = there.map(|known| &*known.path).collect();
        paths.sort_unstable();
        paths.dedup();
        for (path, content) in paths.iter().zip(arena.map_all(&paths)) {
            if let Some(content) = content {
                opener.opened.insert(path.to_path_buf(), content);
            }
        }
    }
    for known in known {
        let first = opener.found.len();
        match known.member {
            _ if known.is_gone => opener.nothing(&known.path),
            None => opener.open(known.path.clone(), InputState::default()),
            Some(member) => opener.member(&known.path, member),
        }
        for input in &mut opener.found[first..] {
            if let Input::Found(found) = input {
                (found.exclude, found.lazy) = (known.exclude, false);
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
        data: b"",
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

impl Opener<'_, '_> {
    /// An object without sections.
    fn nothing(&mut self, path: &Path) {
        let header = Ehdr {
            e_ident: [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            e_type: c::ET_REL,
            e_machine: c::EM_X86_64,
            e_version: 1,
            e_ehsize: size_of::<Ehdr>() as u16,
            // The null section is what tells it from an object whose sections somebody has removed.
            e_shoff: size_of::<Ehdr>() as u64,
            e_shentsize: size_of::<Shdr>() as u16,
            e_shnum: 1,
            ..bytemuck::Zeroable::zeroed()
        };
        let mut bytes = bytemuck::bytes_of(&header).to_vec();
        bytes.resize(size_of::<Ehdr>() + size_of::<Shdr>(), 0);
        self.found.push(Input::Found(Found {
            path: self.arena.paths.alloc(path.to_owned()),
            member: None,
            data: self.arena.bytes(bytes),
            lazy: false,
            as_needed: false,
            exclude: false,
            by_path: true,
            mapped: None,
        }));
    }

    /// One member of an archive that holds its members.
    fn member(&mut self, path: &Path, number: usize) {
        let Some(content) = self.map(path) else {
            return;
        };
        let found = Archive::parse(content.bytes).ok().and_then(|archive| {
            let member = archive.members().nth(number)?.ok()?;
            Some((member.name, archive.inline_data(&member)?))
        });
        let Some((name, data)) = found else {
            let path = path.display();
            self.diag
                .error(format!("{path}: there is no member {number}"));
            return;
        };
        self.found.push(Input::Found(Found {
            path: self.arena.paths.alloc(path.to_owned()),
            member: Some(name),
            data,
            lazy: false,
            as_needed: false,
            exclude: false,
            by_path: false,
            mapped: content.mapped,
        }));
    }
}
