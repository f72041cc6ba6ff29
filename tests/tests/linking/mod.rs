//! Linking small programs with `repo-ld` and with the system's linker, running both,
//! and comparing what an independent reader sees in them.

use goblin::elf::{Elf, dynamic, program_header, sym};
use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run};
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A directory with sources, in which things are linked twice.
pub struct Bench {
    pub scratch: Scratch,
}

/// Which linker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linker {
    Ours,
    Reference,
}

pub const BOTH: [Linker; 2] = [Linker::Reference, Linker::Ours];

impl Bench {
    /// `None` (and recorded as skipped) without gcc.
    pub fn new() -> Option<Bench> {
        tools::require(["gcc", "g++"])?;
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.join("ours")).unwrap();
        std::os::unix::fs::symlink(Binaries::get().path("repo-ld"), scratch.join("ours/ld"))
            .unwrap();
        Some(Bench { scratch })
    }

    /// Runs a compiler driver; with [`Linker::Ours`] it links with `repo-ld`.
    pub fn driver(&self, linker: Linker, driver: &str, arguments: &str) -> Run {
        let mut command = self.scratch.command(driver);
        if linker == Linker::Ours {
            command.arg(format!("-B{}", self.scratch.join("ours").display()));
        }
        command.args(arguments.split_whitespace());
        run(&mut command)
    }

    /// Assembles a source, which is kept beside the object: `NAME.s` and `NAME.o`.
    pub fn assemble(&self, name: &str, text: impl AsRef<[u8]>) {
        self.scratch.write(format!("{name}.s"), text);
        let line = format!("-c {name}.s -o {name}.o");
        self.driver(Linker::Reference, "gcc", &line).ok();
    }

    /// Runs a linker itself.
    pub fn ld(&self, linker: Linker, arguments: &str) -> Run {
        let program = match linker {
            Linker::Ours => Binaries::get().path("repo-ld").to_path_buf(),
            Linker::Reference => "ld".into(),
        };
        let mut command = self.scratch.command(program);
        run(command.args(arguments.split_whitespace()))
    }

    /// Runs a program that was made here.
    pub fn execute(&self, program: &str) -> Run {
        run(self
            .scratch
            .command(self.scratch.join(program))
            .env("LD_LIBRARY_PATH", self.scratch.path()))
    }

    /// Links with both linkers to `NAME.Reference` and `NAME.Ours`, runs both, and compares output and exit code.
    pub fn same_behaviour(&self, driver: &str, arguments: &str) -> [Vec<u8>; 2] {
        let images = BOTH.map(|linker| {
            let name = format!("program.{linker:?}");
            self.driver(linker, driver, &format!("{arguments} -o {name}"))
                .ok();
            std::fs::read(self.scratch.join(&name)).unwrap()
        });
        let [theirs, ours] = BOTH.map(|linker| self.execute(&format!("program.{linker:?}")));
        assert_eq!(theirs.text(), ours.text(), "{arguments}\n{}", ours.report());
        assert_eq!(theirs.status, ours.status, "{arguments}\n{}", ours.report());
        images
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.scratch.join(name)).unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }
}

/// Names of defined dynamic symbols with their types, without what only one of the linkers happens to export.
pub fn exports(elf: &Elf) -> BTreeSet<(String, u8)> {
    let chatter = ["_init", "_fini", "_end", "_edata", "__bss_start"];
    elf.dynsyms
        .iter()
        .filter(|symbol| symbol.st_shndx != 0 && symbol.st_bind() != sym::STB_LOCAL)
        .map(|symbol| {
            (
                elf.dynstrtab
                    .get_at(symbol.st_name)
                    .unwrap_or("")
                    .to_owned(),
                symbol.st_type(),
            )
        })
        .filter(|(name, _)| !chatter.contains(&&name[..]))
        .collect()
}

/// `DT_NEEDED`.
pub fn needed(elf: &Elf) -> Vec<String> {
    elf.libraries
        .iter()
        .map(|name| (*name).to_owned())
        .collect()
}

/// Whether a dynamic tag is there.
pub fn tag(elf: &Elf, tag: u64) -> Option<u64> {
    elf.dynamic
        .as_ref()?
        .dyns
        .iter()
        .find(|entry| entry.d_tag == tag)
        .map(|entry| entry.d_val)
}

/// What must hold of every image that is run: the rules of the gABI for program headers that a kernel or dynamic linker
/// does not check.
pub fn check_image(image: &[u8]) {
    let elf = Elf::parse(image).expect("an independent reader understands it");
    let loads: Vec<_> = elf
        .program_headers
        .iter()
        .filter(|p| p.p_type == program_header::PT_LOAD)
        .collect();
    for pair in loads.windows(2) {
        assert!(
            pair[0].p_vaddr + pair[0].p_memsz <= pair[1].p_vaddr,
            "segments overlap or are out of order"
        );
    }
    for load in &loads {
        assert_eq!(
            load.p_vaddr % load.p_align,
            load.p_offset % load.p_align,
            "segment is not congruent"
        );
        let both = program_header::PF_W | program_header::PF_X;
        assert_ne!(
            load.p_flags & both,
            both,
            "a segment is writable and executable"
        );
        assert!(load.p_offset + load.p_filesz <= image.len() as u64);
    }
    for section in elf
        .section_headers
        .iter()
        .filter(|s| s.sh_flags & 2 != 0 && s.sh_size > 0)
    {
        if section.sh_type == 8 && section.sh_flags & 0x400 != 0 {
            continue; // .tbss takes no addresses
        }
        assert_eq!(
            section.sh_addr % section.sh_addralign.max(1),
            0,
            "section is not aligned"
        );
        let inside = |load: &&program_header::ProgramHeader| {
            load.p_vaddr <= section.sh_addr
                && section.sh_addr + section.sh_size <= load.p_vaddr + load.p_memsz
        };
        assert!(
            loads.iter().any(inside),
            "section {:?} is not loaded",
            elf.shdr_strtab.get_at(section.sh_name)
        );
    }
    if let Some(flags) = tag(&elf, dynamic::DT_FLAGS) {
        assert_eq!(flags & dynamic::DF_TEXTREL, 0, "there are text relocations");
    }
}

/// Defined dynamic symbols with their versions, as `readelf` shows them: `f`, `f@V`, `f@@V`. The symbols that stand for
/// versions themselves, which GNU ld makes, and the bounds of the image do not count.
pub fn versioned_exports(image: &[u8]) -> BTreeSet<String> {
    let elf = Elf::parse(image).expect("an independent reader understands it");
    let mut versions = std::collections::HashMap::new();
    for definition in elf.verdef.iter().flatten() {
        let name = definition.iter().next().map(|aux| aux.vda_name);
        let name = name.and_then(|name| elf.dynstrtab.get_at(name));
        versions.insert(definition.vd_ndx, name.unwrap_or("").to_owned());
    }
    let names: BTreeSet<&str> = versions.values().map(String::as_str).collect();
    let chatter = ["_init", "_fini", "_end", "_edata", "__bss_start"];
    let mut exports = BTreeSet::new();
    for (index, symbol) in elf.dynsyms.iter().enumerate() {
        let name = elf.dynstrtab.get_at(symbol.st_name).unwrap_or("");
        if symbol.st_shndx == 0 || names.contains(name) || chatter.contains(&name) {
            continue;
        }
        let entry = elf.versym.as_ref().and_then(|versym| versym.get_at(index));
        let version = entry
            .as_ref()
            .filter(|entry| entry.version() > 1)
            .and_then(|entry| versions.get(&entry.version()));
        exports.insert(
            match (version, entry.is_some_and(|entry| entry.is_hidden())) {
                (Some(version), true) => format!("{name}@{version}"),
                (Some(version), false) => format!("{name}@@{version}"),
                (None, _) => name.to_owned(),
            },
        );
    }
    exports
}
