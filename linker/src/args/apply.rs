//! What each option does to [`Args`].

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::found::{Action, Found};
use super::options::{Id, Takes};
use super::zopt::{self, Elsewhere, Outcome};
use super::*;

/// `Args` in the making, and what only matters until all words are read.
#[derive(Default)]
pub(super) struct Parser {
    pub(super) args: Args,
    state: InputState,
    /// `-static`, which decides the output's kind as well as what `-l` finds; saved with the state.
    is_static: bool,
    saved: Vec<(InputState, bool)>,
    groups: u32,
    libs: u32,
    relocatable: bool,
    shared: bool,
    pie: bool,
    /// The last of `-z defs`, `-z undefs`, `--unresolved-symbols`: report references from objects?
    report_in_objects: Option<bool>,
    /// The last of `--[no-]allow-shlib-undefined`, `--unresolved-symbols`.
    report_in_shared: Option<bool>,
    warn_unresolved: bool,
}

/// A value with the option that it belongs to, so that complaints can name both.
struct OptionValue {
    option: String,
    value: OsString,
}

impl OptionValue {
    fn bytes(self) -> Vec<u8> {
        self.value.into_vec()
    }

    fn path(self) -> PathBuf {
        self.value.into()
    }

    fn bad(&self, expected: &'static str) -> ArgsError {
        ArgsError::BadValue {
            option: self.option.clone(),
            value: self.value.to_string_lossy().into_owned(),
            expected,
        }
    }

    /// Looks the value up in a list of what it can be.
    fn one_of<T: Clone>(&self, list: &[(&str, T)], expected: &'static str) -> Result<T, ArgsError> {
        let found = list
            .iter()
            .find(|(name, _)| name.as_bytes() == self.value.as_bytes());
        found
            .map(|(_, value)| value.clone())
            .ok_or_else(|| self.bad(expected))
    }

    fn number(&self) -> Result<u64, ArgsError> {
        number::parse(self.value.as_bytes()).ok_or_else(|| self.bad("a number"))
    }

    fn small_number(&self) -> Result<usize, ArgsError> {
        let number = self.number()?;
        u32::try_from(number)
            .map(|number| number as usize)
            .map_err(|_| self.bad("a smaller number"))
    }

    fn address(&self) -> Result<u64, ArgsError> {
        number::parse_hex(self.value.as_bytes()).ok_or_else(|| self.bad("a hexadecimal address"))
    }

    /// Splits `NAME=VALUE`.
    fn pair(&self, expected: &'static str) -> Result<(Vec<u8>, Vec<u8>), ArgsError> {
        let bytes = self.value.as_bytes();
        match memchr::memchr(b'=', bytes) {
            Some(at) if at > 0 => Ok((bytes[..at].to_vec(), bytes[at + 1..].to_vec())),
            _ => Err(self.bad(expected)),
        }
    }
}

/// Adds a value unless it is there.
fn add_once(list: &mut Vec<Vec<u8>>, value: Vec<u8>) {
    if !list.contains(&value) {
        list.push(value);
    }
}

/// Splits a list such as `-rpath a:b`.
fn split_list(bytes: &[u8], separators: &'static [u8]) -> impl Iterator<Item = Vec<u8>> {
    bytes
        .split(move |byte| separators.contains(byte))
        .filter(|part| !part.is_empty())
        .map(<[u8]>::to_vec)
}

impl Parser {
    fn input(&mut self, kind: InputKind) {
        Arc::make_mut(&mut self.args.inputs).push(InputArg {
            kind,
            state: self.state,
        });
    }

    pub(super) fn file(&mut self, path: PathBuf) {
        self.input(InputKind::File(path));
    }

    /// Obeys one option, taking its value from the following words if need be.
    pub(super) fn option(
        &mut self,
        found: Found,
        words: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), ArgsError> {
        let Found {
            entry,
            spelled,
            joined,
        } = found;
        let value = match (entry.takes, joined) {
            (Takes::Nothing, Some(_)) => return Err(ArgsError::UnexpectedValue(spelled)),
            (Takes::Nothing, None) => None,
            (Takes::Optional(_), joined) => joined,
            (Takes::Value(_), Some(joined)) => Some(joined),
            (Takes::Value(_), None) => match words.next() {
                Some(word) => Some(word),
                None => return Err(ArgsError::MissingValue(spelled)),
            },
        };
        match entry.action {
            Action::Ignore => Ok(()),
            Action::Warn(why) => {
                self.args
                    .warnings
                    .push(format!("{spelled} has no effect: {why}"));
                Ok(())
            }
            Action::Refuse(reason) => {
                let option = match &value {
                    Some(value) => format!("{spelled} {}", value.to_string_lossy()),
                    None => spelled,
                };
                self.args.unsupported.push(Unsupported { option, reason });
                Ok(())
            }
            Action::Obey(id) => match (entry.takes, value) {
                (Takes::Value(_), Some(value)) => self.valued(
                    id,
                    OptionValue {
                        option: spelled,
                        value,
                    },
                ),
                (Takes::Optional(_), value) => self.optional(
                    id,
                    value.map(|value| OptionValue {
                        option: spelled,
                        value,
                    }),
                ),
                _ => self.flag(id),
            },
        }
    }

    /// An option without a value.
    #[allow(clippy::too_many_lines)] // one arm an option
    fn flag(&mut self, id: Id) -> Result<(), ArgsError> {
        let args = &mut self.args;
        let state = &mut self.state;
        match id {
            Id::Shared => (self.shared, self.pie) = (true, false),
            Id::Pie => (self.pie, self.shared) = (true, false),
            // As with GNU ld, of these three the last one says what the output is.
            Id::NoPie => (self.pie, self.shared) = (false, false),
            Id::Static => (self.is_static, state.static_only) = (true, true),
            Id::Relocatable => self.relocatable = true,
            Id::ForceGroupAllocation => args.force_group_allocation = true,
            Id::EmitRelocs => args.emit_relocs = true,
            Id::StripAll => args.strip = StripMode::All,
            // The last one counts, as with GNU ld and lld.
            Id::StripDebug => args.strip = StripMode::Debug,
            Id::DiscardAll => args.discard_locals = super::DiscardLocals::All,
            Id::DiscardLocals => args.discard_locals = super::DiscardLocals::Temporaries,
            Id::DiscardNone => args.discard_locals = super::DiscardLocals::None,
            Id::NoinhibitExec => args.noinhibit_exec = true,
            Id::Nostdlib => args.nostdlib = true,
            Id::Bstatic => state.static_only = true,
            Id::Bdynamic => state.static_only = false,
            Id::AsNeeded => state.as_needed = true,
            Id::NoAsNeeded => state.as_needed = false,
            Id::WholeArchive => state.whole_archive = true,
            Id::NoWholeArchive => state.whole_archive = false,
            Id::CopyDtNeeded => state.copy_dt_needed = true,
            Id::NoCopyDtNeeded => state.copy_dt_needed = false,
            Id::StartGroup => {
                if state.group.is_some() {
                    return Err(ArgsError::Conflict(
                        "--start-group: groups may not be nested".into(),
                    ));
                }
                self.groups += 1;
                state.group = Some(self.groups);
            }
            Id::EndGroup => {
                if state.group.take().is_none() {
                    return Err(ArgsError::Conflict(
                        "--end-group without --start-group".into(),
                    ));
                }
            }
            Id::StartLib => {
                if state.lib.is_some() {
                    return Err(ArgsError::Conflict("--start-lib: may not be nested".into()));
                }
                self.libs += 1;
                state.lib = Some(self.libs);
            }
            Id::EndLib => {
                if state.lib.take().is_none() {
                    return Err(ArgsError::Conflict("--end-lib without --start-lib".into()));
                }
            }
            Id::PushState => self.saved.push((*state, self.is_static)),
            Id::PopState => match self.saved.pop() {
                // Groups and libs are brackets of their own, not state that is restored.
                Some((saved, is_static)) => {
                    *state = InputState {
                        group: state.group,
                        lib: state.lib,
                        ..saved
                    };
                    self.is_static = is_static;
                }
                None => {
                    return Err(ArgsError::Conflict(
                        "--pop-state without --push-state".into(),
                    ));
                }
            },
            Id::NoUndefined => self.report_in_objects = Some(true),
            Id::WarnUnresolved => self.warn_unresolved = true,
            Id::ErrorUnresolved => self.warn_unresolved = false,
            Id::AllowShlibUndefined => self.report_in_shared = Some(false),
            Id::NoAllowShlibUndefined => self.report_in_shared = Some(true),
            Id::AllowMultiple => args.allow_multiple_definition = true,
            Id::NoAllowMultiple => args.allow_multiple_definition = false,
            Id::WarnCommon => args.warn_common = true,
            Id::NoWarnCommon => args.warn_common = false,
            Id::WarnOnce => args.warn_once = true,
            Id::DefineCommon => args.define_common = true,
            Id::Symbolic => args.symbolic = super::Symbolic::All,
            Id::SymbolicFunctions => args.symbolic = super::Symbolic::Functions,
            Id::SymbolicNonWeak => args.symbolic = super::Symbolic::NonWeak,
            Id::SymbolicNonWeakFunctions => args.symbolic = super::Symbolic::NonWeakFunctions,
            Id::NoSymbolic => args.symbolic = super::Symbolic::None,
            Id::NoDynamicLinker => (args.no_dynamic_linker, args.dynamic_linker) = (true, None),
            Id::EnableNewDtags => args.new_dtags = true,
            Id::DisableNewDtags => args.new_dtags = false,
            Id::ExportDynamic => args.export_dynamic = true,
            Id::NoExportDynamic => args.export_dynamic = false,
            Id::DynamicListData => args.dynamic_list_data = true,
            Id::DynamicListCppNew => args.dynamic_list_cpp_new = true,
            Id::DynamicListCppTypeinfo => args.dynamic_list_cpp_typeinfo = true,
            Id::UndefinedVersion => args.no_undefined_version = false,
            Id::NoUndefinedVersion => args.no_undefined_version = true,
            Id::DefaultSymver => args.default_symver = true,
            Id::Bgroup => args.group = true,
            Id::GcSections => args.gc_sections = true,
            Id::NoGcSections => args.gc_sections = false,
            Id::PrintGcSections => args.print_gc_sections = true,
            Id::NoPrintGcSections => args.print_gc_sections = false,
            Id::GcKeepExported => args.gc_keep_exported = true,
            Id::NoIcf => args.icf = IcfMode::None,
            Id::IcfThunks => args.icf_thunks = true,
            Id::NoIcfThunks => args.icf_thunks = false,
            Id::PrintIcfSections => args.print_icf_sections = true,
            Id::NoPrintIcfSections => args.print_icf_sections = false,
            Id::IgnoreDataAddressEquality => args.ignore_data_address_equality = true,
            Id::Relax => args.relax = true,
            Id::NoRelax => args.relax = false,
            Id::LittleEndian => args.big_endian = Some(false),
            Id::BigEndian => args.big_endian = Some(true),
            Id::EhFrameHdr => args.eh_frame_hdr = true,
            Id::NoEhFrameHdr => args.eh_frame_hdr = false,
            Id::NoBuildId => args.build_id = super::BuildId::None,
            Id::AndroidRelrTags => args.android_relr_tags = true,
            Id::NoAndroidRelrTags => args.android_relr_tags = false,
            Id::GdbIndex => args.gdb_index = true,
            Id::NoGdbIndex => args.gdb_index = false,
            Id::Rosegment => args.rosegment = true,
            Id::NoRosegment => args.rosegment = false,
            // These layouts are for static programs: `-l` finds archives (GNU ld's manual, "-n", "-N").
            Id::Nmagic => (args.magic, state.static_only) = (Magic::Nmagic, true),
            Id::NoNmagic | Id::NoOmagic => args.magic = Magic::Normal,
            Id::Omagic => (args.magic, state.static_only) = (Magic::Omagic, true),
            Id::CheckSections => args.check_sections = true,
            Id::NoCheckSections => args.check_sections = false,
            Id::StripDiscarded => args.strip_discarded = true,
            Id::NoStripDiscarded => args.strip_discarded = false,
            Id::Help | Id::TargetHelp => (args.info.help, args.info.exit) = (true, true),
            Id::Version => (args.info.version, args.info.exit) = (true, true),
            Id::VersionAndGo => args.info.version = true,
            Id::Emulations => (args.info.version, args.info.emulations) = (true, true),
            Id::FatalWarnings => args.fatal_warnings = true,
            Id::NoFatalWarnings => args.fatal_warnings = false,
            Id::NoWarnings => args.no_warnings = true,
            Id::NoDemangle => args.demangle = false,
            Id::NoColor => args.color = super::Color::Never,
            Id::WarnExecstack => {
                (args.warn_execstack, args.warn_execstack_option) = (true, true);
            }
            Id::WarnExecstackObjects => {
                (args.warn_execstack, args.warn_execstack_option) = (true, false);
            }
            Id::NoWarnExecstack => {
                (args.warn_execstack, args.warn_execstack_option) = (false, false);
            }
            Id::ErrorExecstack => args.error_execstack = true,
            Id::NoErrorExecstack => args.error_execstack = false,
            Id::NoWarnSearchMismatch => args.warn_search_mismatch = false,
            Id::WarnTextrel => {
                args.warn_textrel = true;
                args.z.text = TextRel::Warn;
            }
            Id::WarnRwx => args.warn_rwx_segments = true,
            Id::NoWarnRwx => args.warn_rwx_segments = false,
            Id::ErrorRwx => args.error_rwx_segments = true,
            Id::NoErrorRwx => args.error_rwx_segments = false,
            Id::WarnSectionAlign => args.warn_section_align = true,
            Id::NoWarnMismatch => args.no_warn_mismatch = true,
            Id::PrintMap => args.print_map = true,
            Id::Cref => args.cref = true,
            Id::Remake => args.remake = true,
            Id::NoRemake => args.remake = false,
            Id::Trace => args.trace += 1,
            Id::DiscardSframe => args.discard_sframe = true,
            Id::Gnu2TlsTag => args.gnu2_tls_tag = Some(true),
            Id::NoGnu2TlsTag => args.gnu2_tls_tag = Some(false),
            Id::NoStats => args.stats = None,
            Id::PrintMemoryUsage => args.print_memory_usage = true,
            Id::PrintOutputFormat => (args.info.output_format, args.info.exit) = (true, true),
            Id::PrintSysroot => (args.info.sysroot, args.info.exit) = (true, true),
            Id::NoProgress => args.progress = super::ProgressMode::Never,
            Id::Incremental => args.incremental = super::Incremental::On,
            Id::IncrementalFull => args.incremental = super::Incremental::Anew,
            Id::NoIncremental => args.incremental = super::Incremental::Off,
            Id::VerifyIncremental => args.verify_incremental = true,
            Id::NoThreads => args.threads = Some(1),
            Id::Fork => args.fork = true,
            Id::NoFork => args.fork = false,
            _ => unreachable!("{id:?} takes a value"),
        }
        Ok(())
    }

    /// An option that may have a value.
    fn optional(&mut self, id: Id, value: Option<OptionValue>) -> Result<(), ArgsError> {
        let args = &mut self.args;
        match (id, value) {
            (Id::BuildId, None) => args.build_id = super::BuildId::Fast,
            (Id::BuildId, Some(value)) => args.build_id = build_id(&value)?,
            (Id::Stats, file) => {
                args.stats = Some(file.map(|file| file.value.into()));
            }
            (Id::PackageMetadata, None) => args.package_metadata = None,
            (Id::PackageMetadata, Some(value)) => {
                let json = percent_decode(value.value.as_bytes()).ok_or_else(|| {
                    value.bad("%XX with two hex digits, or %[comma] and its like")
                })?;
                args.package_metadata = Some(json).filter(|json| !json.is_empty());
            }
            (Id::Unique, None) => args.unique_orphans = true,
            (Id::Unique, Some(value)) => args.unique.push(value.bytes()),
            // GNU ld's styles ("gnu-v3" …) are those of `--demangle` of binutils: one is enough for all names.
            (Id::Demangle, _) => args.demangle = true,
            (Id::Color, None) => args.color = super::Color::Always,
            (Id::Color, Some(value)) => {
                args.color = value.one_of(
                    &[
                        ("auto", super::Color::Auto),
                        ("always", super::Color::Always),
                        ("never", super::Color::Never),
                    ],
                    "auto, always or never",
                )?;
            }
            (Id::Verbose, _) => args.verbose = true,
            (Id::PrintTiming, None) => args.print_timing = Some(super::TimingForm::Table),
            (Id::PrintTiming, Some(value)) => {
                let forms = [
                    ("table", super::TimingForm::Table),
                    ("json", super::TimingForm::Json),
                ];
                args.print_timing = Some(value.one_of(&forms, "table or json")?);
            }
            (Id::Threads, None) => args.threads = None,
            (Id::Threads, Some(value)) => match value.small_number()? {
                0 => args.threads = None,
                threads => args.threads = Some(threads),
            },
            _ => unreachable!("{id:?} has no optional value"),
        }
        Ok(())
    }

    /// An option with a value.
    #[allow(clippy::too_many_lines)] // one arm an option
    fn valued(&mut self, id: Id, value: OptionValue) -> Result<(), ArgsError> {
        let args = &mut self.args;
        match id {
            Id::Output => args.output = value.path(),
            Id::RemapInputs => args.remaps.push(super::Remap::One(value.bytes())),
            Id::RemapInputsFile => args.remaps.push(super::Remap::File(value.path())),
            Id::RetainSymbolsFile => args.retain_symbols_file = Some(value.path()),
            Id::OFormat => {
                args.output_format = value.one_of(
                    &[
                        ("elf64-x86-64", OutputFormat::Elf),
                        ("elf64-little", OutputFormat::Elf),
                        ("default", OutputFormat::Elf),
                        ("binary", OutputFormat::Binary),
                    ],
                    "elf64-x86-64 or binary",
                )?;
            }
            Id::Library => {
                let name = value.bytes();
                match name.strip_prefix(b":") {
                    Some(file) => {
                        self.input(InputKind::LibraryFile(OsString::from_vec(file.to_vec())))
                    }
                    None => self.input(InputKind::Library(OsString::from_vec(name))),
                }
            }
            Id::LibraryPath => args.library_paths.push(value.path()),
            Id::Sysroot => {
                args.sysroot = Some(value.path()).filter(|path| !path.as_os_str().is_empty())
            }
            Id::Format => {
                self.state.format = value.one_of(
                    &[
                        ("default", InputFormat::Detect),
                        ("elf64-x86-64", InputFormat::Detect),
                        ("elf", InputFormat::Detect),
                        ("binary", InputFormat::Binary),
                    ],
                    "default, elf64-x86-64 or binary",
                )?;
            }
            Id::JustSymbols => {
                // "If -R is followed by a directory name rather than a file name, it is treated as -rpath."
                // GNU ld takes what does not exist for one, too.
                let path = value.path();
                if path.is_dir() || !path.exists() {
                    add_once(&mut args.rpath, path.into_os_string().into_vec());
                } else {
                    self.input(InputKind::JustSymbols(path));
                }
            }
            Id::Script => args.scripts.push(value.path()),
            Id::SectionOrderingFile => args.section_ordering.push(value.path()),
            Id::DefaultScript => args.default_script = Some(value.path()),
            Id::Emulation => {
                if value.value != "elf_x86_64" {
                    return Err(ArgsError::Emulation(
                        value.value.to_string_lossy().into_owned(),
                    ));
                }
            }
            Id::Plugin => args.plugins.push(super::Plugin {
                path: value.path(),
                options: Vec::new(),
            }),
            Id::PluginOpt => match args.plugins.last_mut() {
                Some(plugin) => plugin.options.push(value.value),
                None => args.plugin_options.push(value.value),
            },
            Id::Mllvm => args.plugin_options.push(value.value),
            Id::Entry => {
                args.entry = Some(super::Entry::Symbol(value.bytes()));
                args.entry_is_asked = true;
            }
            Id::Undefined => args.undefined.push(value.bytes()),
            Id::UndefinedGlob => args.undefined_glob.push(value.bytes()),
            Id::RequireDefined => args.require_defined.push(value.bytes()),
            Id::Defsym => {
                let (name, expr) = value.pair("SYMBOL=EXPRESSION")?;
                args.defsyms.push(super::Defsym { name, expr });
            }
            Id::Wrap => add_once(&mut args.wrap, value.bytes()),
            Id::Init => args.init = value.bytes(),
            Id::Fini => args.fini = value.bytes(),
            Id::UnresolvedSymbols => {
                let (objects, shared) = value.one_of(
                    &[
                        ("ignore-all", (false, false)),
                        ("report-all", (true, true)),
                        ("ignore-in-object-files", (false, true)),
                        ("ignore-in-shared-libs", (true, false)),
                    ],
                    "ignore-all, report-all, ignore-in-object-files or ignore-in-shared-libs",
                )?;
                (self.report_in_objects, self.report_in_shared) = (Some(objects), Some(shared));
            }
            Id::IgnoreUnresolved => args.ignore_unresolved.push(value.bytes()),
            Id::DynamicLinker => {
                (args.dynamic_linker, args.no_dynamic_linker) = (Some(value.path()), false)
            }
            Id::Soname => args.soname = Some(value.bytes()).filter(|name| !name.is_empty()),
            // Empty parts are kept: CMake writes `DIR:` to reserve room, and looks for it in the
            // output when it installs.
            Id::Rpath => {
                for path in value.value.as_bytes().split(|byte| *byte == b':') {
                    add_once(&mut args.rpath, path.to_vec());
                }
            }
            Id::RpathLink => {
                let paths = split_list(value.value.as_bytes(), b":");
                args.rpath_link
                    .extend(paths.map(|path| PathBuf::from(OsString::from_vec(path))));
            }
            Id::ExportDynamicSymbol => args.export_dynamic_symbols.push(value.bytes()),
            Id::ExportDynamicSymbolList => args.export_dynamic_symbol_lists.push(value.path()),
            Id::DynamicList => args.dynamic_lists.push(value.path()),
            Id::VersionScript => args.version_scripts.push(value.path()),
            Id::ExcludeLibs => args
                .exclude_libs
                .extend(split_list(value.value.as_bytes(), b",:")),
            Id::HashStyle => {
                args.hash_style = value.one_of(
                    &[
                        (
                            "sysv",
                            super::HashStyle {
                                sysv: true,
                                gnu: false,
                            },
                        ),
                        (
                            "gnu",
                            super::HashStyle {
                                sysv: false,
                                gnu: true,
                            },
                        ),
                        (
                            "both",
                            super::HashStyle {
                                sysv: true,
                                gnu: true,
                            },
                        ),
                    ],
                    "sysv, gnu or both",
                )?;
            }
            Id::Audit => split_list(value.value.as_bytes(), b":")
                .for_each(|lib| add_once(&mut args.audit, lib)),
            Id::DepAudit => split_list(value.value.as_bytes(), b":")
                .for_each(|lib| add_once(&mut args.depaudit, lib)),
            Id::Auxiliary => args.auxiliary.push(value.bytes()),
            Id::Filter => args.filter.push(value.bytes()),
            Id::PackDynRelocs => {
                args.pack_dyn_relocs = value.one_of(
                    &[
                        ("none", super::PackDynRelocs::None),
                        ("relr", super::PackDynRelocs::Relr),
                    ],
                    "none or relr",
                )?;
            }
            Id::SpareDynamicTags => args.spare_dynamic_tags = value.small_number()? as u32,
            Id::Icf => {
                args.icf = value.one_of(
                    &[
                        ("none", IcfMode::None),
                        ("safe", IcfMode::Safe),
                        ("all", IcfMode::All),
                    ],
                    "none, safe or all",
                )?;
            }
            Id::CompressDebug => {
                args.compress_debug = value.one_of(
                    &[
                        ("none", super::CompressDebug::None),
                        ("zlib", super::CompressDebug::Zlib),
                        ("zlib-gabi", super::CompressDebug::Zlib),
                        ("zlib-gnu", super::CompressDebug::ZlibGnu),
                        ("zstd", super::CompressDebug::Zstd),
                    ],
                    "none, zlib, zlib-gnu or zstd",
                )?;
            }
            Id::ImageBase => args.image_base = Some(value.number()?),
            Id::Ttext => args
                .section_starts
                .push((b".text".to_vec(), value.address()?)),
            Id::Tdata => args
                .section_starts
                .push((b".data".to_vec(), value.address()?)),
            Id::Tbss => args
                .section_starts
                .push((b".bss".to_vec(), value.address()?)),
            Id::TtextSegment => args.text_segment = Some(value.address()?),
            Id::TrodataSegment => args.rodata_segment = Some(value.address()?),
            Id::SectionStart => {
                const EXPECTED: &str = "SECTION=ADDRESS with a hexadecimal address";
                let (name, address) = value.pair(EXPECTED)?;
                let address = number::parse_hex(&address).ok_or_else(|| value.bad(EXPECTED))?;
                args.section_starts.push((name, address));
            }
            Id::OrphanHandling => {
                args.orphan_handling = value.one_of(
                    &[
                        ("place", super::OrphanHandling::Place),
                        ("warn", super::OrphanHandling::Warn),
                        ("error", super::OrphanHandling::Error),
                        ("discard", super::OrphanHandling::Discard),
                    ],
                    "place, warn, error or discard",
                )?;
            }
            Id::SortSection => {
                args.sort_section = value.one_of(
                    &[
                        ("none", super::SortSection::None),
                        ("name", super::SortSection::Name),
                        ("alignment", super::SortSection::Alignment),
                    ],
                    "name or alignment",
                )?;
            }
            Id::Z => self.keyword(value)?,
            Id::ErrorLimit => args.error_limit = value.small_number()?,
            Id::Map => args.map_file = Some(value.path()),
            Id::TraceSymbol => add_once(&mut args.trace_symbols, value.bytes()),
            Id::DependencyFile => args.dependency_file = Some(value.path()),
            Id::Repo => args.repo = Some(value.path()),
            Id::Progress => {
                args.progress = value.one_of(
                    &[
                        ("auto", super::ProgressMode::Auto),
                        ("always", super::ProgressMode::Always),
                        ("never", super::ProgressMode::Never),
                    ],
                    "auto, always or never",
                )?;
            }
            Id::Log => args.log = Some(value.path()),
            Id::Optimize => {
                // gcc hands its own `-O` levels through; letters (`-Os`) mean nothing to a linker.
                args.optimize =
                    number::parse(value.value.as_bytes()).map_or(1, |level| level.min(2)) as u32;
            }
            _ => unreachable!("{id:?} takes no value"),
        }
        Ok(())
    }

    /// `-z KEYWORD`.
    fn keyword(&mut self, value: OptionValue) -> Result<(), ArgsError> {
        let args = &mut self.args;
        let keyword = value.value.to_string_lossy().into_owned();
        match zopt::apply(&mut args.z, &keyword) {
            Outcome::Set | Outcome::Ignored => {}
            Outcome::Elsewhere(Elsewhere::Defs) => self.report_in_objects = Some(true),
            Outcome::Elsewhere(Elsewhere::Undefs) => self.report_in_objects = Some(false),
            Outcome::Elsewhere(Elsewhere::Muldefs) => args.allow_multiple_definition = true,
            Outcome::Elsewhere(Elsewhere::SttCommon(yes)) => args.stt_common = yes,
            Outcome::Elsewhere(Elsewhere::PackRelative(yes)) => {
                args.pack_dyn_relocs = if yes {
                    super::PackDynRelocs::Relr
                } else {
                    super::PackDynRelocs::None
                };
            }
            Outcome::Unsupported(reason) => {
                args.unsupported.push(Unsupported {
                    option: format!("-z {keyword}"),
                    reason,
                });
            }
            Outcome::Unknown => args
                .warnings
                .push(format!("unknown keyword '-z {keyword}' is ignored")),
            Outcome::BadValue(expected) => return Err(value.bad(expected)),
        }
        Ok(())
    }

    /// Decides what depends on several options.
    pub(super) fn finish(mut self) -> Result<Args, ArgsError> {
        // What is open at the end ends there: groups as with GNU ld, libs as with lld.
        let args = &mut self.args;
        if !args.z.section_header {
            // Nothing could find a symbol table.
            args.strip = StripMode::All;
        }
        if self.relocatable && (self.shared || self.pie) {
            let other = if self.shared { "-shared" } else { "-pie" };
            return Err(ArgsError::Conflict(format!(
                "-r and {other} cannot be used together"
            )));
        }
        args.kind = if self.relocatable {
            OutputKind::Relocatable
        } else if self.shared {
            OutputKind::Shared
        } else if self.pie {
            if self.is_static {
                OutputKind::StaticPie
            } else {
                OutputKind::Pie
            }
        } else if self.is_static {
            OutputKind::StaticExec
        } else {
            OutputKind::DynamicExec
        };
        // Nothing dynamic can be part of a relocatable object: `-l` finds archives.
        if self.relocatable {
            for input in Arc::make_mut(&mut args.inputs) {
                input.state.static_only = true;
            }
        }
        let reported = if self.warn_unresolved {
            UnresolvedPolicy::Warn
        } else {
            UnresolvedPolicy::Error
        };
        let executable = args.kind.is_executable();
        let policy = |report: Option<bool>| {
            if report.unwrap_or(executable) {
                reported
            } else {
                UnresolvedPolicy::Ignore
            }
        };
        if args.z.indirect_extern_access == Some(true) {
            args.z.copyreloc = false;
            args.z.extern_protected_data = false;
        }
        // With one of them alone the other goes with it.
        if let (Some(common), Some(most)) = (args.z.common_page_size, args.z.max_page_size)
            && common > most
        {
            return Err(ArgsError::Conflict(format!(
                "common page size ({common:#x}) > maximum page size ({most:#x})"
            )));
        }
        args.unresolved = policy(self.report_in_objects);
        args.unresolved_in_shared = policy(self.report_in_shared);
        for (set, option) in [
            (!args.auxiliary.is_empty(), "-f"),
            (!args.filter.is_empty(), "-F"),
        ] {
            if set && args.kind != OutputKind::Shared {
                return Err(ArgsError::Conflict(format!(
                    "{option} may not be used without -shared"
                )));
            }
        }
        // What runs before the program has relocated itself can load no address from a slot.
        args.relax |= args.kind == OutputKind::StaticPie;
        Ok(self.args)
    }
}

/// The value of `--build-id`.
fn build_id(value: &OptionValue) -> Result<super::BuildId, ArgsError> {
    const EXPECTED: &str =
        "fast, sha1, md5, sha256, uuid, none or 0x and an even number of hex digits";
    if let Some(digits) = value
        .value
        .as_bytes()
        .strip_prefix(b"0x")
        .or(value.value.as_bytes().strip_prefix(b"0X"))
    {
        // GNU ld's manual: "0xHEXSTRING"; dashes and colons between the digits are allowed as its parser does.
        let digits: Vec<u8> = digits
            .iter()
            .copied()
            .filter(|byte| !matches!(byte, b'-' | b':'))
            .collect();
        let bytes: Option<Vec<u8>> = digits
            .chunks(2)
            .map(|pair| hex_byte(pair.first()?, pair.get(1)?))
            .collect();
        return match bytes {
            Some(bytes) if !bytes.is_empty() => Ok(super::BuildId::Hex(bytes)),
            _ => Err(value.bad(EXPECTED)),
        };
    }
    value.one_of(
        &[
            ("fast", super::BuildId::Fast),
            ("tree", super::BuildId::Fast),
            ("sha1", super::BuildId::Sha1),
            ("md5", super::BuildId::Md5),
            ("sha256", super::BuildId::Sha256),
            ("uuid", super::BuildId::Uuid),
            ("none", super::BuildId::None),
        ],
        EXPECTED,
    )
}

fn hex_byte(high: &u8, low: &u8) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// Decodes `%XX`, and names as `%[comma]` for what a compiler driver or a shell would take apart (GNU ld's manual,
/// `--package-metadata`).
fn percent_decode(bytes: &[u8]) -> Option<Vec<u8>> {
    const NAMED: [(&[u8], u8); 5] = [
        (b"[comma]", b','),
        (b"[lbrace]", b'{'),
        (b"[quot]", b'"'),
        (b"[rbrace]", b'}'),
        (b"[space]", b' '),
    ];
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            out.push(byte);
        } else if let Some((byte, tail)) = NAMED
            .iter()
            .find_map(|(name, byte)| Some((*byte, tail.strip_prefix(*name)?)))
        {
            out.push(byte);
            rest = tail;
        } else {
            let (high, low, tail) = match tail {
                [high, low, tail @ ..] => (high, low, tail),
                _ => return None,
            };
            out.push(hex_byte(high, low)?);
            rest = tail;
        }
    }
    Some(out)
}
