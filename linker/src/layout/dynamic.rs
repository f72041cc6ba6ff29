//! Dynamic linking information: `.dynsym` with its strings, versions and hash
//! tables, and the entries of `.dynamic`.

use crate::args::{Args, OutputKind};
use crate::base::ids::{FileId, SymbolId};
use crate::base::key::rank;
use crate::elf::c;
use crate::elf::hash_tables::{GnuHash, gnu_hash};
use crate::elf::string_table::StringTable;
use crate::elf::version_tables::{self, Definition, Need, NeedFile};
use crate::elf::x86_64::plt;
use crate::input::file::Files;
use crate::layout::got::Got;
use crate::layout::relr;
use crate::resolve::output_sections::{Outputs, Std};
use crate::resolve::room::Room;
use crate::resolve::symbol_facts::{Bound, Demand, Referred};
use crate::resolve::symbol_table::SymbolTable;
use crate::resolve::symbol_versions::{Versioning, output_name};
use rayon::prelude::*;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Address of the PLT that calls go to, its size, and that of an entry (psABI section 5.2, for `-z mark-plt`).
const DT_X86_64_PLT: u32 = 0x7000_0000;
const DT_X86_64_PLTSZ: u32 = 0x7000_0001;
const DT_X86_64_PLTENT: u32 = 0x7000_0003;
/// Flags of the GNU dynamic linker's own.
const DT_GNU_FLAGS_1: u32 = 0x6fff_fdf4;
/// In [`DT_GNU_FLAGS_1`]: loaded once for all namespaces.
const DF_GNU_1_UNIQUE: u64 = 1;

/// A symbol of `.dynsym`.
#[derive(Clone, Copy, Debug)]
pub struct DynamicSymbol<'a> {
    /// The symbol.
    pub id: SymbolId,
    /// Its name, without version.
    pub name: &'a [u8],
    /// Its entry in `.gnu.version`.
    pub version: u16,
}

/// What goes into the dynamic sections.
pub struct Dynamic<'a> {
    /// Entries of `.dynsym` after the null symbol: what is imported, then what is defined, in the order of the
    /// hash table.
    pub symbols: Vec<DynamicSymbol<'a>>,
    /// Entries behind those that are imported which are nobody's yet.
    pub spare_symbols: u32,
    /// The same behind those that are defined.
    pub spare_exports: u32,
    /// Index in `.dynsym` by symbol; 0 for none.
    index: Vec<u32>,
    /// `.dynstr`.
    pub strings: StringTable<'a>,
    /// Shape of `.gnu.hash`.
    pub gnu_hash: Option<GnuHash>,
    /// Hashes of the defined symbols, in order.
    pub hashes: Vec<u32>,
    /// Versions that the output defines, the base first.
    pub definitions: Vec<Definition<'a>>,
    /// Versions needed of shared objects.
    pub needs: Vec<NeedFile<'a>>,
    /// Some symbol has a version.
    pub versioned: bool,
    /// `DT_NEEDED`.
    pub needed: Vec<&'a [u8]>,
    /// `DT_DEPAUDIT`, to be joined with `:`.
    pub depaudit: Vec<Vec<u8>>,
}

/// What a program asks of glibc besides symbols.
#[derive(Clone, Copy, Debug)]
pub struct GlibcAbi {
    /// There will be a `.relr.dyn`.
    pub packed: bool,
    /// There are TLS descriptors. (Those of glibc before 2.42 may not keep all registers.)
    pub descriptors: bool,
    /// `--gnu2-tls-tag`: whether to ask for a glibc whose TLS descriptors keep all registers. If it is not said: if the
    /// glibc here says that it is one.
    pub tag_descriptors: Option<bool>,
    /// `-z mark-plt`.
    pub marked_plt: bool,
}

impl<'a> Dynamic<'a> {
    /// Chooses the dynamic symbols and gives them their order.
    pub fn new(
        files: &Files<'a>,
        symbols: &SymbolTable<'a>,
        versioning: &'a Versioning,
        args: &'a Args,
        abi: GlibcAbi,
        room: Room,
        spare_symbols: u32,
    ) -> Option<Dynamic<'a>> {
        let mut chosen: Vec<SymbolId> = symbols
            .ids()
            .filter(|id| {
                let bits = symbols.facts(*id);
                bits.has(Bound::EXPORTED)
                    || bits.has(Bound::IMPORTED) && bits.has(Demand::OF_DYNAMIC_LINKER)
            })
            .collect();
        let used = used(files, symbols, args.gc_sections);
        // What the command line names is looked for at run time, too (`-u`).
        let named = args.undefined.iter().chain(&args.require_defined);
        for id in named.filter_map(|name| symbols.find(name)) {
            let key = symbols.key(id);
            if key.rank() == rank::SHARED && used[key.file().index()] && !chosen.contains(&id) {
                chosen.push(id);
            }
        }
        let mut dynamic = Dynamic {
            symbols: Vec::with_capacity(chosen.len()),
            spare_symbols,
            spare_exports: 0,
            index: Vec::new(),
            strings: StringTable::new(),
            gnu_hash: None,
            hashes: Vec::new(),
            definitions: versioning.definitions(output_name(args)),
            needs: Vec::new(),
            versioned: false,
            needed: needed(files, &used),
            depaudit: depaudit(args, files),
        };
        for soname in &dynamic.needed {
            dynamic.strings.add(soname)?;
        }
        dynamic.versioned = !dynamic.definitions.is_empty();
        for definition in &dynamic.definitions {
            dynamic.strings.add(definition.name)?;
            for parent in &definition.parents {
                dynamic.strings.add(parent)?;
            }
        }
        let (mut imported, mut defined) = (Vec::new(), Vec::new());
        for id in chosen {
            let bits = symbols.facts(id);
            let key = symbols.key(id);
            let full = symbols.name(id);
            let name = full.split(|b| *b == b'@').next().unwrap_or(full);
            // A canonical PLT entry is the function's address for everyone, who must find it here.
            let here = key.in_object()
                || key.rank() == rank::LINKER
                || bits.has(Demand::COPY | Demand::CANONICAL_PLT);
            let version = match key.rank() {
                // The dynamic linker looks for versions in what is needed, and gives up if it is not there: a weak
                // reference does not make a shared object needed, and then its version is nobody's.
                rank::SHARED if used[key.file().index()] => {
                    dynamic.need(files, key.file(), key.index())
                }
                _ if here => versioning.version(id),
                _ => version_tables::GLOBAL,
            };
            let symbol = DynamicSymbol { id, name, version };
            if here {
                defined.push(symbol)
            } else {
                imported.push(symbol)
            }
        }
        let hashes: Vec<u32> = defined
            .par_iter()
            .map(|symbol: &DynamicSymbol| gnu_hash(symbol.name))
            .collect();
        dynamic.spare_exports = room.of_exports(defined.len() as u32);
        let shape = GnuHash::new(defined.len())?.with_spare(dynamic.spare_exports);
        let order = shape.order(&hashes);
        dynamic.hashes = order.iter().map(|i| hashes[*i as usize]).collect();
        dynamic.gnu_hash = Some(shape);
        let spare = |i: usize| if i < imported.len() { 0 } else { spare_symbols };
        let places: Vec<u32> = (0..imported.len() + defined.len())
            .map(|i| i as u32 + 1 + spare(i))
            .collect();
        dynamic.symbols = imported;
        dynamic
            .symbols
            .extend(order.iter().map(|i| defined[*i as usize]));
        dynamic.index = vec![0; symbols.id_limit()];
        for (place, symbol) in places.into_iter().zip(&dynamic.symbols) {
            dynamic.index[symbol.id.index()] = place;
            dynamic.strings.add(symbol.name)?;
        }
        dynamic.need_glibc_abi(files, abi);
        for file in &dynamic.needs {
            dynamic.strings.add(file.soname)?;
            for version in &file.versions {
                dynamic.strings.add(version.name)?;
            }
        }
        if let Some(soname) = &args.soname {
            dynamic.strings.add(soname)?;
        }
        for name in args.auxiliary.iter().chain(&args.filter) {
            dynamic.strings.add(name)?;
        }
        Some(dynamic)
    }

    /// The index of the version that an imported symbol needs.
    fn need(&mut self, files: &Files<'a>, file: FileId, index: u32) -> u16 {
        let Some(shared) = files.get(file).shared() else {
            return version_tables::GLOBAL;
        };
        let Some(version) = shared.version(index) else {
            return version_tables::GLOBAL;
        };
        self.need_version(shared.soname, version)
    }

    /// A C library that is older than what the program asks of it would ignore that, and the program would crash. That
    /// it is too old it says if the program needs a version of it that such libraries do not have: glibc has versions
    /// without symbols for that, and insists on the one for `.relr.dyn`, which it knows since 2.36.
    fn need_glibc_abi(&mut self, files: &Files<'a>, abi: GlibcAbi) {
        let libc = files.iter().find_map(|(_, file)| {
            file.shared().filter(|shared| {
                shared.soname.starts_with(b"libc.so.")
                    && self.needed.contains(&shared.soname)
                    && shared.defines_version(|name| name.starts_with(b"GLIBC_2."))
            })
        });
        let Some(libc) = libc else { return };
        let defines = |version: &[u8]| libc.defines_version(|name| name == version);
        if abi.packed {
            self.need_version(libc.soname, b"GLIBC_ABI_DT_RELR");
        }
        let descriptors = b"GLIBC_ABI_GNU2_TLS";
        if abi.descriptors && abi.tag_descriptors.unwrap_or_else(|| defines(descriptors)) {
            self.need_version(libc.soname, descriptors);
        }
        if abi.marked_plt {
            // Since that version addends of `JUMP_SLOT` are ignored.
            let marked: [&[u8]; 2] = [b"GLIBC_ABI_DT_X86_64_PLT", b"GLIBC_2.36"];
            let known = usize::from(!defines(marked[0]));
            self.need_version(libc.soname, marked[known]);
        }
    }

    /// The index of a version of a shared object, which is needed from now on.
    fn need_version(&mut self, soname: &'a [u8], version: &'a [u8]) -> u16 {
        self.versioned = true;
        let next = 2
            + self.definitions.len().saturating_sub(1) as u16
            + self
                .needs
                .iter()
                .map(|need| need.versions.len())
                .sum::<usize>() as u16;
        let position = self
            .needs
            .iter()
            .position(|need| need.soname == soname)
            .unwrap_or_else(|| {
                self.needs.push(NeedFile {
                    soname,
                    versions: Vec::new(),
                });
                self.needs.len() - 1
            });
        let known = &mut self.needs[position].versions;
        if let Some(known) = known.iter().find(|known| known.name == version) {
            return known.index;
        }
        known.push(Need {
            name: version,
            index: next,
            flags: 0,
        });
        next
    }

    /// Index in `.dynsym` of a symbol, or 0.
    #[inline]
    pub fn index(&self, id: SymbolId) -> u32 {
        self.index.get(id.index()).copied().unwrap_or(0)
    }

    /// Index in `.dynsym` of the first symbol that is defined.
    pub fn first_defined(&self) -> u32 {
        1 + self.imported_count() as u32 + self.spare_symbols
    }

    fn imported_count(&self) -> usize {
        self.symbols.len() - self.hashes.len()
    }

    /// All entries of `.dynsym` after the null symbol, with those that are nobody's.
    pub fn all_symbols(&self) -> impl Iterator<Item = Option<&DynamicSymbol<'a>>> {
        let (imported, defined) = self.symbols.split_at(self.imported_count());
        let spare = (0..self.spare_symbols).map(|_| None);
        let imported = imported.iter().map(Some);
        let behind = (0..self.spare_exports).map(|_| None);
        let defined = defined.iter().map(Some);
        imported.chain(spare).chain(defined).chain(behind)
    }

    /// The entries of `.dynamic`. Values that are addresses are looked up in `outputs`; before layout they are wrong,
    /// but the number of entries is right.
    pub fn entries(
        &self,
        facts: &DynamicFacts,
        args: &Args,
        outputs: &Outputs,
        got: &Got,
    ) -> Vec<(u32, u64)> {
        let mut entries: Vec<(u32, u64)> = Vec::new();
        let address = |std: Std| outputs.std(std).address;
        let size = |std: Std| outputs.std(std).size;
        let text = |bytes: &[u8]| u64::from(self.strings.get(bytes).unwrap_or(0));
        for soname in &self.needed {
            entries.push((c::DT_NEEDED, text(soname)));
        }
        if let Some(soname) = &args.soname {
            entries.push((c::DT_SONAME, text(soname)));
        }
        for (names, tag) in [
            (&args.auxiliary, c::DT_AUXILIARY),
            (&args.filter, c::DT_FILTER),
        ] {
            entries.extend(names.iter().map(|name| (tag, text(name))));
        }
        let lists = [(facts.audit, c::DT_AUDIT), (facts.depaudit, c::DT_DEPAUDIT)];
        entries.extend(
            lists
                .into_iter()
                .filter_map(|(place, tag)| Some((tag, u64::from(place?)))),
        );
        if let Some(rpath) = facts.rpath {
            entries.push((
                if args.new_dtags {
                    c::DT_RUNPATH
                } else {
                    c::DT_RPATH
                },
                rpath.into(),
            ));
        }
        for (tag, value) in [(c::DT_INIT, facts.init), (c::DT_FINI, facts.fini)] {
            if let Some(value) = value {
                entries.push((tag, value));
            }
        }
        for (std, tag, size_tag) in [
            (
                Std::PreinitArray,
                c::DT_PREINIT_ARRAY,
                c::DT_PREINIT_ARRAYSZ,
            ),
            (Std::InitArray, c::DT_INIT_ARRAY, c::DT_INIT_ARRAYSZ),
            (Std::FiniArray, c::DT_FINI_ARRAY, c::DT_FINI_ARRAYSZ),
        ] {
            if facts.present(std) {
                entries.push((tag, address(std)));
                entries.push((size_tag, size(std)));
            }
        }
        if facts.present(Std::Hash) {
            entries.push((c::DT_HASH, address(Std::Hash)));
        }
        if facts.present(Std::GnuHash) {
            entries.push((c::DT_GNU_HASH, address(Std::GnuHash)));
        }
        entries.push((c::DT_STRTAB, address(Std::DynStr)));
        entries.push((c::DT_SYMTAB, address(Std::DynSym)));
        entries.push((c::DT_STRSZ, size(Std::DynStr)));
        entries.push((c::DT_SYMENT, 24));
        // The dynamic linker writes there.
        if args.kind.is_executable() && !args.z.rodynamic {
            entries.push((c::DT_DEBUG, 0));
        }
        if !got.lazy.is_empty() {
            entries.push((c::DT_PLTGOT, address(Std::GotPlt)));
            entries.push((c::DT_PLTRELSZ, size(Std::RelaPlt)));
            entries.push((c::DT_PLTREL, c::DT_RELA.into()));
            entries.push((c::DT_JMPREL, address(Std::RelaPlt)));
            if args.z.mark_plt {
                // The table that calls go to.
                let plt = match size(Std::PltSec) > 0 {
                    true => Std::PltSec,
                    false => Std::Plt,
                };
                entries.push((DT_X86_64_PLT, address(plt)));
                entries.push((DT_X86_64_PLTSZ, size(plt)));
                entries.push((DT_X86_64_PLTENT, plt::LAZY_SIZE as u64));
            }
        }
        if facts.present(Std::RelaDyn) {
            entries.push((c::DT_RELA, address(Std::RelaDyn)));
            entries.push((c::DT_RELASZ, size(Std::RelaDyn)));
            entries.push((c::DT_RELAENT, 24));
            if facts.relative_count > 0 && args.z.combreloc {
                entries.push((c::DT_RELACOUNT, facts.relative_count.into()));
            }
        }
        if facts.present(Std::RelrDyn) {
            let [start, bytes, word] = relr::tags(args.android_relr_tags);
            entries.push((start, address(Std::RelrDyn)));
            entries.push((bytes, size(Std::RelrDyn)));
            entries.push((word, 8));
        }
        if facts.text_relocations {
            entries.push((c::DT_TEXTREL, 0));
        }
        if args.is_symbolic() {
            entries.push((c::DT_SYMBOLIC, 0));
        }
        let (flags, flags_1) = dynamic_flags(facts, args);
        // DT_FLAGS is one of the newer tags; of the older ones only DT_BIND_NOW is not in the table already, and nothing
        // but DT_FLAGS can say that the object wants static thread-local storage.
        if flags != 0 && (args.new_dtags || facts.static_tls) {
            entries.push((c::DT_FLAGS, flags.into()));
        } else if flags & c::DF_BIND_NOW != 0 {
            entries.push((c::DT_BIND_NOW, 0));
        }
        if flags_1 != 0 {
            entries.push((c::DT_FLAGS_1, flags_1.into()));
        }
        if args.z.unique {
            entries.push((DT_GNU_FLAGS_1, DF_GNU_1_UNIQUE));
        }
        if self.versioned {
            entries.push((c::DT_VERSYM, address(Std::VerSym)));
            if !self.definitions.is_empty() {
                entries.push((c::DT_VERDEF, address(Std::VerDef)));
                entries.push((c::DT_VERDEFNUM, self.definitions.len() as u64));
            }
            if !self.needs.is_empty() {
                entries.push((c::DT_VERNEED, address(Std::VerNeed)));
                entries.push((c::DT_VERNEEDNUM, self.needs.len() as u64));
            }
        }
        for _ in 0..=args.spare_dynamic_tags + Room::of(args).of_libraries() {
            entries.push((c::DT_NULL, 0));
        }
        entries
    }
}

/// What the entries of `.dynamic` depend on beside the dynamic symbols.
#[derive(Clone, Debug, Default)]
pub struct DynamicFacts {
    /// Address of the `-init` function.
    pub init: Option<u64>,
    /// Address of the `-fini` function.
    pub fini: Option<u64>,
    /// Place in `.dynstr` of the run path.
    pub rpath: Option<u32>,
    /// Place in `.dynstr` of the list of auditors.
    pub audit: Option<u32>,
    /// Place in `.dynstr` of the list of auditors of what the output needs.
    pub depaudit: Option<u32>,
    /// Number of `R_X86_64_RELATIVE` relocations at the start of `.rela.dyn`.
    pub relative_count: u32,
    /// There are relocations in read-only segments.
    pub text_relocations: bool,
    /// The initial exec model is used in a shared object.
    pub static_tls: bool,
    /// Standard sections that are in the output.
    pub sections: Vec<Std>,
}

impl DynamicFacts {
    fn present(&self, std: Std) -> bool {
        self.sections.contains(&std)
    }
}

fn dynamic_flags(facts: &DynamicFacts, args: &Args) -> (u32, u32) {
    let z = &args.z;
    let (mut flags, mut flags_1) = (0, 0);
    for (on, flag, flag_1) in [
        (z.now, c::DF_BIND_NOW, c::DF_1_NOW),
        (z.origin, c::DF_ORIGIN, c::DF_1_ORIGIN),
        (args.is_symbolic(), c::DF_SYMBOLIC, 0),
        (facts.text_relocations, c::DF_TEXTREL, 0),
        (facts.static_tls, c::DF_STATIC_TLS, 0),
        (z.nodelete, 0, c::DF_1_NODELETE),
        (z.nodlopen, 0, c::DF_1_NOOPEN),
        (z.nodump, 0, c::DF_1_NODUMP),
        (z.nodefaultlib, 0, c::DF_1_NODEFLIB),
        (z.initfirst, 0, c::DF_1_INITFIRST),
        (z.interpose, 0, c::DF_1_INTERPOSE),
        (z.global, 0, c::DF_1_GLOBAL),
        (z.globalaudit, 0, c::DF_1_GLOBAUDIT),
        (z.loadfltr, 0, c::DF_1_LOADFLTR),
        (args.group, 0, c::DF_1_GROUP),
        (
            matches!(args.kind, OutputKind::Pie | OutputKind::StaticPie),
            0,
            c::DF_1_PIE,
        ),
    ] {
        if on {
            flags |= flag;
            flags_1 |= flag_1;
        }
    }
    (flags, flags_1)
}

/// By file: whether it is a shared object that the program needs, because it is linked in any case or because some strong
/// reference of an object, or of such a shared object, resolves to it. `traced`: references from sections that are not in the output do not count.
pub fn used(files: &Files, symbols: &SymbolTable, traced: bool) -> Vec<bool> {
    let used: Vec<AtomicBool> = files
        .0
        .iter()
        .map(|file| AtomicBool::new(file.shared().is_some() && !file.as_needed))
        .collect();
    symbols.ids().for_each(|id| {
        let key = symbols.key(id);
        let bits = symbols.facts(id);
        if key.rank() == rank::SHARED
            && bits.has(Referred::STRONGLY)
            && (!traced || bits.has(Demand::OF_DYNAMIC_LINKER))
        {
            used[key.file().index()].store(true, Relaxed);
        }
    });
    let mut used: Vec<bool> = used.into_iter().map(AtomicBool::into_inner).collect();
    use_for_shared(files, symbols, &mut used);
    used
}

/// Adds the shared objects under `--as-needed` that others need, which are in use and do not ask for them themselves
/// (`DT_NEEDED`): without them the program would not start.
fn use_for_shared(files: &Files, symbols: &SymbolTable, used: &mut [bool]) {
    let mut queue: Vec<FileId> = (0..used.len() as u32)
        .map(FileId)
        .filter(|file| used[file.index()])
        .collect();
    let mut asked_for: HashSet<&[u8]> = HashSet::new();
    for file in &queue {
        asked_for.extend(
            files
                .get(*file)
                .shared()
                .iter()
                .flat_map(|shared| &shared.needed),
        );
    }
    while let Some(id) = queue.pop() {
        let file = files.get(id);
        let Some(shared) = file.shared() else {
            continue;
        };
        asked_for.extend(&shared.needed);
        for index in shared.strong_references() {
            let key = symbols.key(symbols.of(file, index));
            if key.rank() != rank::SHARED || used[key.file().index()] {
                continue;
            }
            let definer = files.get(key.file()).shared();
            if definer.is_some_and(|definer| !asked_for.contains(definer.soname)) {
                used[key.file().index()] = true;
                queue.push(key.file());
            }
        }
    }
}

/// The shared objects that the output needs, in order.
fn needed<'a>(files: &Files<'a>, used: &[bool]) -> Vec<&'a [u8]> {
    let shared = files.iter().zip(used).filter(|(_, used)| **used);
    shared
        .filter_map(|((_, file), _)| Some(file.shared()?.soname))
        .collect()
}

/// The auditors of what the output needs: `--depaudit`, and those that shared inputs ask for (GNU ld's manual,
/// "--audit": a dependency's `DT_AUDIT` becomes part of the output's `DT_DEPAUDIT`).
fn depaudit(args: &Args, files: &Files) -> Vec<Vec<u8>> {
    let mut all = args.depaudit.clone();
    for audit in files.iter().filter_map(|(_, file)| file.shared()?.audit) {
        for name in audit
            .split(|byte| *byte == b':')
            .filter(|name| !name.is_empty())
        {
            if !all.iter().any(|known| known == name) {
                all.push(name.to_vec());
            }
        }
    }
    all
}
