//! The command line of `repo-ld`: GNU ld's, as gcc, clang and rustc write it.
//!
//! [`Args::parse`] turns words into one plain structure; it opens nothing but `@file`s. Which options exist, their
//! spelling and their help are in one table ([`options`]); the words are read as `getopt_long_only` reads them for GNU ld
//! (`parse`); what each option does to [`Args`] is in `apply`. Three lists keep us honest about what is not
//! done: options that are accepted because they change nothing here ([`options::IGNORED`], each with its reason),
//! options that we do not have ([`Args::unsupported`]: the driver must refuse), and [`Args::warnings`].
//!
//! This room owns what the user asks for. It knows no inputs, and reads no files but those of `@FILE`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

pub mod answers;
mod apply;
mod defaults;
pub mod environment;
mod found;
pub mod help;
mod number;
pub mod options;
mod parse;
mod response;
mod types;
mod zopt;

#[cfg(test)]
mod tests;

pub use types::*;

/// A command line that cannot be obeyed.
#[derive(Debug, thiserror::Error)]
pub enum ArgsError {
    /// No such option.
    #[error("unknown option '{option}'{}", hint(.near))]
    Unknown {
        /// As written.
        option: String,
        /// The most similar option that exists.
        near: Option<String>,
    },
    /// The option's value is missing.
    #[error("option '{0}' needs an argument")]
    MissingValue(String),
    /// A value was given to an option that takes none.
    #[error("option '{0}' takes no argument")]
    UnexpectedValue(String),
    /// A value that the option does not know.
    #[error("option '{option}': invalid value '{value}': expected {expected}")]
    BadValue {
        /// As written, without the value.
        option: String,
        /// The value.
        value: String,
        /// What would have been accepted.
        expected: &'static str,
    },
    /// `-m` with another machine.
    #[error("emulation '{0}' is not supported: this linker makes x86-64 ELF only (elf_x86_64)")]
    Emulation(String),
    /// Options that cannot be together, or out of order.
    #[error("{0}")]
    Conflict(String),
    /// An `@file` that names itself through others.
    #[error("response file '{0}' is nested too deeply (does it include itself?)")]
    ResponseDepth(String),
    /// An `@file` that exists and cannot be read.
    #[error("cannot read response file '{path}': {source}")]
    Response {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

fn hint(near: &Option<String>) -> String {
    near.as_ref()
        .map_or_else(String::new, |near| format!("; did you mean '{near}'?"))
}

/// Everything that the command line said. See the options' help ([`help`]) for meanings not repeated here.
#[derive(Clone, Debug)]
pub struct Args {
    // -- what is made
    /// `-o`; `a.out` if not given.
    pub output: PathBuf,
    /// Executable, shared object, …
    pub kind: OutputKind,
    /// `--oformat`.
    pub output_format: OutputFormat,
    /// `-q`: relocations are kept in the output.
    pub emit_relocs: bool,
    /// `--noinhibit-exec`: the output is kept although there were errors.
    pub noinhibit_exec: bool,

    // -- what is read
    /// Files and libraries in command-line order.
    pub inputs: Arc<Vec<InputArg>>,
    /// `-L`, in order, as written (a leading `=` or `$SYSROOT` is not yet replaced).
    pub library_paths: Vec<PathBuf>,
    /// `--sysroot`.
    pub sysroot: Option<PathBuf>,
    /// `-nostdlib`: no default search directories, `SEARCH_DIR` of scripts neither.
    pub nostdlib: bool,
    /// `-rpath-link`, split at `:`, in order.
    pub rpath_link: Vec<PathBuf>,
    /// `-T`: linker scripts, in order.
    pub scripts: Vec<PathBuf>,
    /// `--section-ordering-file`.
    pub section_ordering: Vec<PathBuf>,
    /// `-dT`: a script used when no `-T` is given.
    pub default_script: Option<PathBuf>,
    /// `-plugin` with its `-plugin-opt`s.
    pub plugins: Vec<Plugin>,
    /// `-plugin-opt`, `-mllvm` and their like before any `-plugin` (clang passes them so to lld).
    pub plugin_options: Vec<OsString>,

    /// `-EB` (`true`) or `-EL`: which of a script's formats is meant.
    pub big_endian: Option<bool>,

    // -- symbols
    /// `-e`; `None`: `ENTRY` of a script, then `_start`.
    pub entry: Option<Entry>,
    /// Whether the entry is from the command line: only then is a shared object without it worth a word.
    pub entry_is_asked: bool,
    /// `-u`: undefined symbols to begin with.
    pub undefined: Vec<Vec<u8>>,
    /// `--undefined-glob`.
    pub undefined_glob: Vec<Vec<u8>>,
    /// `--require-defined`: as `-u`, and an error if nothing defines it.
    pub require_defined: Vec<Vec<u8>>,
    /// `--defsym`, in order.
    pub defsyms: Vec<Defsym>,
    /// `--wrap`, in order, without repeats.
    pub wrap: Vec<Vec<u8>>,
    /// `-init`; `_init` if not given.
    pub init: Vec<u8>,
    /// `-fini`; `_fini` if not given.
    pub fini: Vec<u8>,
    /// References in relocatable inputs that nothing defines. For a shared output the default is `Ignore`,
    /// until `-z defs`, `--no-undefined` or `--unresolved-symbols` say otherwise.
    pub unresolved: UnresolvedPolicy,
    /// References in shared inputs that nothing defines (`--[no-]allow-shlib-undefined`); by default an error for
    /// executables, ignored for shared outputs.
    pub unresolved_in_shared: UnresolvedPolicy,
    /// `--ignore-unresolved-symbol`.
    pub ignore_unresolved: Vec<Vec<u8>>,
    /// `--warn-once`: one warning for an undefined symbol, not one for each reference.
    pub warn_once: bool,
    /// `--allow-multiple-definition`, `-z muldefs`: the first definition wins.
    pub allow_multiple_definition: bool,
    /// `--warn-common`.
    pub warn_common: bool,
    /// `-d`: common symbols get an address although the output is relocatable.
    pub define_common: bool,
    /// `-z nocommon`/`common`: the type given to commons in a relocatable output is `STT_OBJECT` unless set.
    pub stt_common: bool,
    /// `--remap-inputs`, `--remap-inputs-file`: inputs that stand for others.
    pub remaps: Vec<Remap>,
    /// `--retain-symbols-file`: only these names stay in `.symtab`.
    pub retain_symbols_file: Option<PathBuf>,
    /// `-s`, `-S`.
    pub strip: StripMode,
    /// `-x`, `-X`.
    pub discard_locals: DiscardLocals,
    /// `-Bsymbolic` and its like.
    pub symbolic: Symbolic,

    // -- dynamic linking
    /// `-dynamic-linker`; `None`: the psABI's `/lib64/ld-linux-x86-64.so.2`.
    pub dynamic_linker: Option<PathBuf>,
    /// `--no-dynamic-linker`: no `.interp`.
    pub no_dynamic_linker: bool,
    /// `-soname`.
    pub soname: Option<Vec<u8>>,
    /// `-rpath`, in order, without repeats; joined with `:` in the output.
    pub rpath: Vec<Vec<u8>>,
    /// `LD_RUN_PATH`, split at `:`: see [`Args::recorded_rpath`]. Parsing leaves it empty.
    pub run_path: Vec<Vec<u8>>,
    /// `--enable-new-dtags` (the default): `DT_RUNPATH` rather than `DT_RPATH`.
    pub new_dtags: bool,
    /// `--export-dynamic`.
    pub export_dynamic: bool,
    /// `--export-dynamic-symbol`: globs.
    pub export_dynamic_symbols: Vec<Vec<u8>>,
    /// `--export-dynamic-symbol-list`: files with the syntax of a dynamic list.
    pub export_dynamic_symbol_lists: Vec<PathBuf>,
    /// `--dynamic-list`: files.
    pub dynamic_lists: Vec<PathBuf>,
    /// `--dynamic-list-data`.
    pub dynamic_list_data: bool,
    /// `--dynamic-list-cpp-new`.
    pub dynamic_list_cpp_new: bool,
    /// `--dynamic-list-cpp-typeinfo`.
    pub dynamic_list_cpp_typeinfo: bool,
    /// `--version-script`: files, in order.
    pub version_scripts: Vec<PathBuf>,
    /// `--no-undefined-version`: an error if a version script names a symbol that is not defined.
    pub no_undefined_version: bool,
    /// `--default-symver`: symbols without a version get the soname's.
    pub default_symver: bool,
    /// `--exclude-libs`: archive names (`ALL` for all) whose symbols are not exported.
    pub exclude_libs: Vec<Vec<u8>>,
    /// `--hash-style`.
    pub hash_style: HashStyle,
    /// `--audit`: `DT_AUDIT`, joined with `:`.
    pub audit: Vec<Vec<u8>>,
    /// `--depaudit`: `DT_DEPAUDIT`.
    pub depaudit: Vec<Vec<u8>>,
    /// `-f`: `DT_AUXILIARY`, one each.
    pub auxiliary: Vec<Vec<u8>>,
    /// `-F`: `DT_FILTER`, one each.
    pub filter: Vec<Vec<u8>>,
    /// `-z pack-relative-relocs`, `--pack-dyn-relocs=relr`.
    pub pack_dyn_relocs: PackDynRelocs,
    /// `--use-android-relr-tags`.
    pub android_relr_tags: bool,
    /// `--spare-dynamic-tags`: empty entries left in `.dynamic`.
    pub spare_dynamic_tags: u32,
    /// `-Bgroup`: `DF_1_GROUP`.
    pub group: bool,

    // -- sections and layout
    /// `--gc-sections`.
    pub gc_sections: bool,
    /// `--print-gc-sections`.
    pub print_gc_sections: bool,
    /// `--gc-keep-exported`.
    pub gc_keep_exported: bool,
    /// `--icf`.
    pub icf: IcfMode,
    /// `--icf-thunks`: of functions whose address matters, a jump stays.
    pub icf_thunks: bool,
    /// `--print-icf-sections`.
    pub print_icf_sections: bool,
    /// `--ignore-data-address-equality`: read-only data is folded as well.
    pub ignore_data_address_equality: bool,
    /// `--relax` (the default): instruction sequences are relaxed where the psABI allows it.
    pub relax: bool,
    /// Archives' symbol indexes and shared objects' hash tables are believed: no option, but what the linker does not do
    /// again where that has failed.
    pub trust_tables: bool,
    /// `--eh-frame-hdr`.
    pub eh_frame_hdr: bool,
    /// `--build-id`.
    pub build_id: BuildId,
    /// `--compress-debug-sections`.
    pub compress_debug: CompressDebug,
    /// `--gdb-index`.
    pub gdb_index: bool,
    /// `--package-metadata`: the JSON for `.note.package`, percent-decoding done.
    pub package_metadata: Option<Vec<u8>>,
    /// `--image-base`.
    pub image_base: Option<u64>,
    /// `-Ttext-segment`.
    pub text_segment: Option<u64>,
    /// `-Trodata-segment`.
    pub rodata_segment: Option<u64>,
    /// `--section-start`, `-Ttext`, `-Tdata`, `-Tbss`: (section, address), later ones override.
    pub section_starts: Vec<(Vec<u8>, u64)>,
    /// `--rosegment` is the default; `--no-rosegment` puts read-only data and code together.
    pub rosegment: bool,
    /// `-n`, `-N`.
    pub magic: Magic,
    /// `--orphan-handling`.
    pub orphan_handling: OrphanHandling,
    /// `--sort-section`.
    pub sort_section: SortSection,
    /// `--unique`: input sections whose names match are not merged with others of the name.
    pub unique: Vec<Vec<u8>>,
    /// `--unique` alone: nor are those of equal names that GNU ld's built-in script does not name.
    pub unique_orphans: bool,
    /// `--force-group-allocation`: section groups are dissolved in a relocatable output.
    pub force_group_allocation: bool,
    /// `--check-sections`: overlapping section addresses are an error (the default).
    pub check_sections: bool,
    /// `--strip-discarded`: symbols in discarded sections are dropped (the default).
    pub strip_discarded: bool,
    /// `-O`: effort on string merging and hash tables; 0 to 2, default 1.
    pub optimize: u32,

    // -- -z keywords
    /// The `-z` keywords.
    pub z: ZOptions,

    // -- reports
    /// `--fatal-warnings`.
    pub fatal_warnings: bool,
    /// `-w`: no warnings.
    pub no_warnings: bool,
    /// `--demangle` (the default).
    pub demangle: bool,
    /// `--color-diagnostics`.
    pub color: Color,
    /// `--error-limit`: errors of one kind that are shown; 0 for all.
    pub error_limit: usize,
    /// `--warn-execstack-objects` (the default): inputs that ask for an executable stack.
    pub warn_execstack: bool,
    /// `--warn-execstack`: `-z execstack`, too.
    pub warn_execstack_option: bool,
    /// `--error-execstack`.
    pub error_execstack: bool,
    /// `--no-warn-search-mismatch` is false: say which libraries `-l` passes over.
    pub warn_search_mismatch: bool,
    /// `--warn-textrel`.
    pub warn_textrel: bool,
    /// `--warn-rwx-segments` (the default).
    pub warn_rwx_segments: bool,
    /// `--error-rwx-segments`.
    pub error_rwx_segments: bool,
    /// `--warn-section-align`.
    pub warn_section_align: bool,
    /// `--no-warn-mismatch`: mismatched inputs are linked without a word.
    pub no_warn_mismatch: bool,
    /// `-M`: the map on standard output.
    pub print_map: bool,
    /// `-Map`: a file, or a directory in which `OUTPUT.map` is made; `-` for standard output.
    pub map_file: Option<PathBuf>,
    /// `--cref`.
    pub cref: bool,
    /// `-t`: number of times given. 1: files; 2: archive members as well.
    pub trace: u32,
    /// `-y`.
    pub trace_symbols: Vec<Vec<u8>>,
    /// `--dependency-file`.
    pub dependency_file: Option<PathBuf>,
    /// `--verbose`.
    pub verbose: bool,
    /// `--stats`, and the file to write them to.
    pub stats: Option<Option<PathBuf>>,
    /// `--discard-sframe`.
    pub discard_sframe: bool,
    /// `--gnu2-tls-tag`, `--no-gnu2-tls-tag`.
    pub gnu2_tls_tag: Option<bool>,
    /// `--print-memory-usage`.
    pub print_memory_usage: bool,
    /// `--version` and its like.
    pub info: InfoRequests,

    // -- our own
    /// `--repo`.
    pub repo: Option<PathBuf>,
    /// Whether lost tickets are made again (`--remake`).
    pub remake: bool,
    /// `--log`.
    pub log: Option<PathBuf>,
    /// `--print-timing`.
    pub print_timing: Option<TimingForm>,
    /// `--progress`.
    pub progress: ProgressMode,
    /// `--incremental`, `--incremental-full`, `--no-incremental`.
    pub incremental: Incremental,
    /// `--verify-incremental`.
    pub verify_incremental: bool,
    /// `--threads`: `None` for as many as there are processors.
    pub threads: Option<usize>,
    /// `--fork` (the default), `--no-fork`: whether the caller need not wait for the memory to be taken apart.
    pub fork: bool,

    // -- what was not obeyed
    /// Options that change the output and are not implemented. The driver refuses to link if there are any.
    pub unsupported: Vec<Unsupported>,
    /// Things to tell the user, without `repo-ld: warning: `.
    pub warnings: Vec<String>,
}

/// The `-z` keywords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZOptions {
    /// `now`: `DF_BIND_NOW`, `DF_1_NOW`.
    pub now: bool,
    /// `relro` (the default).
    pub relro: bool,
    /// `text`, `notext`.
    pub text: TextRel,
    /// `execstack` (true), `noexecstack` (false); `None`: by the inputs' `.note.GNU-stack`.
    pub execstack: Option<bool>,
    /// `execstack-if-needed`: an input that wants an executable stack gets it without an error.
    pub execstack_if_needed: bool,
    /// `nognustack` is false: there is no `PT_GNU_STACK`.
    pub gnu_stack: bool,
    /// `stack-size`: `p_memsz` of `PT_GNU_STACK`.
    pub stack_size: Option<u64>,
    /// `max-page-size`.
    pub max_page_size: Option<u64>,
    /// `common-page-size`.
    pub common_page_size: Option<u64>,
    /// `separate-code`.
    pub separate: SeparateCode,
    /// `origin`: `DF_ORIGIN`, `DF_1_ORIGIN`.
    pub origin: bool,
    /// `nodelete`: `DF_1_NODELETE`.
    pub nodelete: bool,
    /// `nodlopen`: `DF_1_NOOPEN`.
    pub nodlopen: bool,
    /// `nodump`: `DF_1_NODUMP`.
    pub nodump: bool,
    /// `nodefaultlib`: `DF_1_NODEFLIB`.
    pub nodefaultlib: bool,
    /// `initfirst`: `DF_1_INITFIRST`.
    pub initfirst: bool,
    /// `interpose`: `DF_1_INTERPOSE`.
    pub interpose: bool,
    /// `global`: `DF_1_GLOBAL`.
    pub global: bool,
    /// `globalaudit`: `DF_1_GLOBAUDIT`.
    pub globalaudit: bool,
    /// `loadfltr`: `DF_1_LOADFLTR`.
    pub loadfltr: bool,
    /// `unique`: `DF_GNU_1_UNIQUE`.
    pub unique: bool,
    /// `combreloc` (the default): dynamic relocations are sorted.
    pub combreloc: bool,
    /// `nocopyreloc`.
    pub copyreloc: bool,
    /// `ibt`: `GNU_PROPERTY_X86_FEATURE_1_IBT` is set whatever the inputs say.
    pub ibt: bool,
    /// `ibtplt`: PLT entries begin with `endbr64`.
    pub ibtplt: bool,
    /// `shstk`: as `ibt`, for `GNU_PROPERTY_X86_FEATURE_1_SHSTK`.
    pub shstk: bool,
    /// `force-ibt`: as `ibt`, with a warning for each input that does not have it.
    pub force_ibt: bool,
    /// `lam-u48`, `lam-u57`: bits for `GNU_PROPERTY_X86_FEATURE_1_AND`.
    pub lam: u32,
    /// `cet-report`.
    pub cet_report: Report,
    /// `lam-u48-report`.
    pub lam_u48_report: Report,
    /// `lam-u57-report`.
    pub lam_u57_report: Report,
    /// `force-ibt`/`force-bti`-like rewriting of unneeded landing pads (`rewrite-endbr`).
    pub rewrite_endbr: bool,
    /// `x86-64-v2` and its like: bits for `GNU_PROPERTY_X86_ISA_1_NEEDED`.
    pub isa_needed: u32,
    /// `isa-level-report`: whether to tell the instruction sets that each input needs, and those that it uses.
    pub isa_level_report: (bool, bool),
    /// `mark-plt`: the dynamic linker is told where the PLT is.
    pub mark_plt: bool,
    /// `memory-seal`.
    pub memory_seal: bool,
    /// `start-stop-gc`: `__start_`/`__stop_` references do not keep sections.
    pub start_stop_gc: bool,
    /// `start-stop-visibility`.
    pub start_stop_visibility: StartStopVisibility,
    /// `dynamic-undefined-weak`: undefined weak symbols of an executable are left to the dynamic linker (true) or
    /// resolved to zero (false); `None`: GNU ld's choice for the output's kind.
    pub dynamic_undefined_weak: Option<bool>,
    /// `extern-protected-data`: copy relocations against protected data are allowed.
    pub extern_protected_data: bool,
    /// `indirect-extern-access`.
    pub indirect_extern_access: Option<bool>,
    /// `keep-text-section-prefix`: `.text.hot` and its like stay sections of their own.
    pub keep_text_section_prefix: bool,
    /// `nosectionheader`.
    pub section_header: bool,
    /// `rodynamic`: `.dynamic` is read-only.
    pub rodynamic: bool,
    /// `dead-reloc-in-nonalloc`: what references to sections that are not in the output become in sections that are not
    /// loaded, by pattern of the section's name.
    pub dead_relocs: Vec<(Vec<u8>, u64)>,
    /// `unique-symbol`: local symbols of one name get a suffix each.
    pub unique_symbol: bool,
    /// `noreloc-overflow`.
    pub reloc_overflow_check: bool,
    /// `report-relative-reloc`.
    pub report_relative_reloc: bool,
}

impl Args {
    /// The entry symbol's name, by default `_start`.
    pub fn entry_name(&self) -> &[u8] {
        self.entry
            .as_ref()
            .map_or(&b"_start"[..], |entry| entry.symbol())
    }

    /// Whether names may be looked for in archives' symbol indexes and shared objects' hash tables only. Not by who wants all
    /// names of a kind, lists files or what is in them as it goes, or is shown what undefined names may mean and goes on:
    /// then nothing must be done again.
    pub fn may_trust_tables(&self) -> bool {
        self.trust_tables
            && self.undefined_glob.is_empty()
            && self.trace_symbols.is_empty()
            && self.trace == 0
            && self.unresolved != UnresolvedPolicy::Warn
            && !self.noinhibit_exec
    }

    /// Takes what counts of the environment where options do not say otherwise.
    pub fn take_environment(&mut self, environment: &environment::Environment) {
        self.run_path = match &environment.run_path {
            Some(paths) => paths
                .as_bytes()
                .split(|byte| *byte == b':')
                .map(<[u8]>::to_vec)
                .collect(),
            None => Vec::new(),
        };
    }

    /// What `DT_RUNPATH` or `DT_RPATH` says, to be joined with `:`; empty for none of them. "If the -rpath option is not
    /// used when linking an ELF executable, the contents of the environment variable LD_RUN_PATH will be used" (GNU ld's
    /// manual, which so treats shared objects, too).
    pub fn recorded_rpath(&self) -> &[Vec<u8>] {
        match self.rpath.is_empty() {
            true => &self.run_path,
            false => &self.rpath,
        }
    }

    /// The version scripts and lists of symbols, which are looked for as scripts are.
    pub fn symbol_lists(&self) -> impl Iterator<Item = &PathBuf> {
        let all = [
            &self.version_scripts,
            &self.dynamic_lists,
            &self.export_dynamic_symbol_lists,
        ];
        all.into_iter().flatten()
    }

    /// The other files that options name and that say something of symbols or inputs (`--retain-symbols-file`, `--remap-inputs-file`).
    pub fn tables(&self) -> impl Iterator<Item = &PathBuf> {
        let remaps = self.remaps.iter().filter_map(|remap| match remap {
            Remap::File(path) => Some(path),
            Remap::One(_) => None,
        });
        self.retain_symbols_file.iter().chain(remaps)
    }

    /// Whether a dynamic list says what can be preempted.
    pub fn has_dynamic_list(&self) -> bool {
        !self.dynamic_lists.is_empty()
            || self.dynamic_list_data
            || self.dynamic_list_cpp_new
            || self.dynamic_list_cpp_typeinfo
    }

    /// Whether the dynamic linker shall look for all of a shared object's symbols in the object itself first
    /// (`DT_SYMBOLIC`); it must not if some of them can be preempted.
    pub fn is_symbolic(&self) -> bool {
        self.symbolic == Symbolic::All
            && self.kind == OutputKind::Shared
            && !self.has_dynamic_list()
            && self.export_dynamic_symbols.is_empty()
            && self.export_dynamic_symbol_lists.is_empty()
    }
}
