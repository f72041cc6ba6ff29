//! What tests of compaction share: a directory with a repository, and translation units.

#![allow(dead_code, reason = "no test uses all of it")]

use compactor::observer::{Observer, Silent};
use compactor::priority::Rank;
use compactor::report::Report;
use compactor::roots::{HOLDS, Wishes};
use format_spec::fragment::{SectionKind, SectionRecord};
use std::path::{Path, PathBuf};
use store::program::build::{
    Compilation, Fixups, Fragment, Name, Piece, Place, Section, Symbol, Target,
};
use store::program::{Addition, Prepared, ProgramError, Repository};
use tickets::write_ticket;

/// A translation unit that defines one function.
pub fn unit<'a>(name: &'a [u8], code: &'a [u8]) -> Prepared<'a> {
    Prepared::new(compilation(name, code)).expect("the unit is well-formed")
}

/// A translation unit that defines one function, which refers to a string.
pub fn unit_with_string<'a>(name: &'a [u8], code: &'a [u8], string: &'a [u8]) -> Prepared<'a> {
    let mut compilation = compilation(name, code);
    compilation.names.push(b".rodata");
    compilation.pieces = vec![Piece {
        section_name: Name(3),
        sh_flags: 0x32,
        entsize: 1,
        align_log2: 0,
        bytes: string,
    }];
    compilation.targets = vec![Target::Piece(0)];
    compilation.fragments[0].targets = 0..1;
    Prepared::new(compilation).expect("the unit is well-formed")
}

/// A translation unit that defines one function, which refers to a table that has no name.
pub fn unit_with_table<'a>(name: &'a [u8], code: &'a [u8], table: &'a [u8]) -> Prepared<'a> {
    let mut compilation = compilation(name, code);
    compilation.names.push(b".rodata");
    compilation.sections.push(Section {
        name: Name(3),
        kind: SectionKind::ReadOnly,
        sh_flags: 2,
        bits: 0,
        size: table.len() as u64,
        bytes: table.into(),
        ..compilation.sections[0].clone()
    });
    compilation.fragments.push(Fragment {
        sections: 1..2,
        targets: 1..1,
        bindings: 1..1,
        suffix: Name(0),
        ..compilation.fragments[0].clone()
    });
    compilation.targets = vec![Target::OwnAnonymous(1)];
    compilation.fragments[0].targets = 0..1;
    compilation.fragments[0].bindings = 0..1;
    (compilation.bindings, compilation.uses) = (vec![1], vec![0]);
    compilation.digest_order = vec![1, 0];
    let of_table = Symbol {
        place: Place::Section(1),
        info: 3,
        ..compilation.symbols[0]
    };
    compilation.symbols.insert(1, of_table);
    compilation.first_global = 2;
    Prepared::new(compilation).expect("the unit is well-formed")
}

fn compilation<'a>(name: &'a [u8], code: &'a [u8]) -> Compilation<'a> {
    let global = Symbol {
        name: Name(1),
        place: Place::Section(0),
        value: 0,
        size: code.len() as u64,
        info: 0x12,
        other: 0,
        bits: 0,
    };
    let null = Symbol {
        name: Name(0),
        place: Place::Undefined,
        size: 0,
        info: 0,
        ..global
    };
    Compilation {
        machine: 62,
        names: vec![b"", name, b".text"],
        fragments: vec![Fragment {
            sections: 0..1,
            targets: 0..0,
            bindings: 0..0,
            suffix: Name(1),
            group: 0,
            plain: None,
        }],
        digest_order: vec![0],
        sections: vec![Section {
            name: Name(2),
            kind: SectionKind::Text,
            sh_type: 1,
            sh_flags: 6,
            entsize: 0,
            align_log2: 4,
            bits: SectionRecord::SUFFIXED,
            link: 0,
            size: code.len() as u64,
            bytes: code.into(),
            fixups: Fixups::Narrow(0..0),
            frame: None,
        }],
        symbols: vec![null, global],
        first_global: 1,
        ..Compilation::default()
    }
}

/// Adds a unit; if `ticket` is given, with its record and its file.
pub fn add(repository: &Repository, prepared: &Prepared<'_>, ticket: Option<&Path>) {
    let additions = [Addition { prepared, ticket }];
    repository.add(&additions).expect("added");
    if let Some(path) = ticket {
        write_ticket(path, repository, &prepared.digest).expect("the ticket is written");
    }
}

/// A directory with a repository.
pub struct Directory {
    pub directory: tempfile::TempDir,
}

impl Directory {
    pub fn new() -> Directory {
        Directory {
            directory: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        let directory = self.directory.path().canonicalize().expect("it is there");
        directory.join(name)
    }

    pub fn repository(&self) -> Repository {
        Repository::open_or_create(&self.path("program.repo")).expect("a repository")
    }

    pub fn compact(&self, grace: u64) -> Report {
        compact(&self.path("program.repo"), &wishes(grace), &Silent).expect("compacted")
    }
}

/// Opens the repository at `path` and compacts it.
pub fn compact(path: &Path, wishes: &Wishes, observer: &dyn Observer) -> anyhow::Result<Report> {
    compactor::compact::compact(&Repository::open(path)?, wishes, observer)
}

pub fn dry_run(path: &Path, wishes: &Wishes) -> anyhow::Result<Report> {
    compactor::compact::dry_run(&Repository::open_read_only(path)?, wishes)
}

pub fn wishes(grace: u64) -> Wishes {
    Wishes {
        // After everything that this test does, whatever the clock says.
        now: u64::MAX / 2,
        grace,
        unused: u64::MAX,
        max_size: None,
        holds: HOLDS,
        // What these tests copy is several transactions.
        part: 5,
        threads: 2,
        rank: Rank::Behind,
        roots: Vec::new(),
    }
}

/// A grace period that never ends.
pub const FOREVER: u64 = u64::MAX;

pub fn has(repository: &Repository, prepared: &Prepared<'_>) -> bool {
    let programs = repository.programs().expect("the repository is sound");
    match programs.compilation(&prepared.digest) {
        Ok(view) => {
            let loaded = programs.load(&view).expect("the repository is sound");
            let again = Prepared::new(loaded).expect("the repository is sound");
            assert_eq!(again.digest, prepared.digest);
            true
        }
        Err(ProgramError::NoCompilation { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}
