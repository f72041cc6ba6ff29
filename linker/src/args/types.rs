//! The vocabulary of [`Args`](super::Args): what an option can be set to.

use std::ffi::OsString;
use std::path::PathBuf;

/// Whether a link changes only what was edited since the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Incremental {
    /// As where the link is done has it: on for whoever has a repository.
    #[default]
    Auto,
    /// All is linked, and nothing is kept for the next link.
    Off,
    /// If it can.
    On,
    /// Not this time, but the next.
    Anew,
}

/// The kind of file that the link makes.
///
/// Decided once all options are read, from `-r`, `-shared`, `-pie` and `-static`, in whatever order they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum OutputKind {
    /// `-static`: `ET_EXEC`, shared objects are not searched for.
    StaticExec,
    /// The default: `ET_EXEC`. As in GNU ld it gets `.interp` and `.dynamic` only if a shared object is linked
    /// or dynamic symbols are asked for; a link of relocatable files alone is a static program.
    #[default]
    DynamicExec,
    /// `-pie`: `ET_DYN`, with a program interpreter unless `--no-dynamic-linker` is given.
    Pie,
    /// `-static -pie`: `ET_DYN` that relocates itself, without interpreter.
    StaticPie,
    /// `-shared`.
    Shared,
    /// `-r`: a relocatable object.
    Relocatable,
}

impl OutputKind {
    /// The output may be loaded at any address (`ET_DYN`).
    pub fn is_pic(self) -> bool {
        matches!(
            self,
            OutputKind::Pie | OutputKind::StaticPie | OutputKind::Shared
        )
    }

    /// The output is a program, not a shared or relocatable object.
    pub fn is_executable(self) -> bool {
        matches!(
            self,
            OutputKind::StaticExec
                | OutputKind::DynamicExec
                | OutputKind::Pie
                | OutputKind::StaticPie
        )
    }

    /// The output takes no shared objects.
    pub fn is_static(self) -> bool {
        matches!(self, OutputKind::StaticExec | OutputKind::StaticPie)
    }
}

/// What is left out of the output's symbol table and debug sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum StripMode {
    /// Everything stays.
    #[default]
    None,
    /// `-S`: debug sections are dropped.
    Debug,
    /// `-s`: debug sections and the whole `.symtab` are dropped.
    All,
}

/// Which local symbols are left out of `.symtab`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum DiscardLocals {
    /// No option given: temporary (`.L`) locals of mergeable sections are dropped, others stay.
    #[default]
    SecMerge,
    /// `--discard-none`: all stay.
    None,
    /// `-X`: names that begin with `.L` are dropped.
    Temporaries,
    /// `-x`: all locals are dropped.
    All,
}

/// Which symbol hash tables a dynamic output gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HashStyle {
    /// `.hash` (gABI).
    pub sysv: bool,
    /// `.gnu.hash`.
    pub gnu: bool,
}

/// What the `.note.gnu.build-id` note holds.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum BuildId {
    /// No note.
    #[default]
    None,
    /// `--build-id` alone, or `=fast`/`=tree`: 20 bytes of a tree hash over the output, reproducible.
    Fast,
    /// `=sha1`: 20 bytes.
    Sha1,
    /// `=md5`: 16 bytes.
    Md5,
    /// `=sha256`: 32 bytes.
    Sha256,
    /// `=uuid`: 16 random bytes (RFC 4122 version 4). The one form that is not reproducible.
    Uuid,
    /// `=0xHEX`: these bytes.
    Hex(Vec<u8>),
}

/// What happens with a reference that nothing defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum UnresolvedPolicy {
    /// An error.
    #[default]
    Error,
    /// A warning; the reference resolves to zero, or stays for the dynamic linker.
    Warn,
    /// Neither.
    Ignore,
}

/// Identical code folding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum IcfMode {
    /// Off.
    #[default]
    None,
    /// Functions whose address is not significant (by `.llvm_addrsig`, or by how they are referred to).
    Safe,
    /// All identical functions, though their addresses may be compared.
    All,
}

/// How debug sections are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum CompressDebug {
    /// As they are, uncompressed.
    #[default]
    None,
    /// `ELFCOMPRESS_ZLIB`.
    Zlib,
    /// Zlib, in sections named `.zdebug_*`, as before the gABI knew of compression.
    ZlibGnu,
    /// `ELFCOMPRESS_ZSTD`.
    Zstd,
}

/// Which references a shared object binds to its own definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Symbolic {
    /// All default-visibility symbols can be preempted.
    #[default]
    None,
    /// `-Bsymbolic-functions`.
    Functions,
    /// `-Bsymbolic-non-weak-functions`.
    NonWeakFunctions,
    /// `-Bsymbolic-non-weak`.
    NonWeak,
    /// `-Bsymbolic`; also sets `DF_SYMBOLIC`.
    All,
}

/// What is done when a position-independent output needs relocations in read-only segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TextRel {
    /// `-z text`: an error.
    Error,
    /// `--warn-textrel`, and the default as with GNU ld: allowed with a warning (`DT_TEXTREL`).
    #[default]
    Warn,
    /// `-z notext`: allowed (`DT_TEXTREL`).
    Allow,
}

/// A report level, for `-z cet-report=` and its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Report {
    /// Say nothing.
    #[default]
    None,
    /// Warn.
    Warning,
    /// Refuse.
    Error,
}

/// How segments are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SeparateCode {
    /// `-z separate-code`, the default on x86-64 Linux: code shares no page with anything else.
    #[default]
    Code,
    /// `-z noseparate-code`: read-only data and code may share a segment.
    None,
    /// `-z separate-loadable-segments`: no two segments share a page of the file.
    All,
}

/// `-N`, `-n`: the old layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Magic {
    /// Pages are aligned, code is read-only.
    #[default]
    Normal,
    /// `-n`: segments are not page-aligned in the file.
    Nmagic,
    /// `-N`: text and data in one writable segment, not page-aligned.
    Omagic,
}

/// What becomes of input sections that a linker script does not place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum OrphanHandling {
    /// Put where sections of their kind are.
    #[default]
    Place,
    /// Placed, with a warning.
    Warn,
    /// An error.
    Error,
    /// Left out.
    Discard,
}

/// `--sort-section`: the order of wildcards without a `SORT` of their own in a linker script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SortSection {
    /// As found.
    #[default]
    None,
    /// By name.
    Name,
    /// By alignment, largest first.
    Alignment,
}

/// `STV_*` for `-z start-stop-visibility=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum StartStopVisibility {
    /// `STV_DEFAULT`.
    Default,
    /// `STV_PROTECTED`: GNU ld's default.
    #[default]
    Protected,
    /// `STV_HIDDEN`.
    Hidden,
    /// `STV_INTERNAL`.
    Internal,
}

/// Which relative relocations are packed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PackDynRelocs {
    /// `.rela.dyn` only.
    #[default]
    None,
    /// `DT_RELR`.
    Relr,
}

/// When a link's progress is shown on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ProgressMode {
    /// On a terminal, if the link takes longer than a second.
    #[default]
    Auto,
    /// From the start; if standard error is no terminal, a line for each phase.
    Always,
    /// Never.
    Never,
}

/// How `--print-timing` shows the phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimingForm {
    /// For people.
    Table,
    /// For programs: one line of JSON.
    Json,
}

/// When error messages use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The format of the output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum OutputFormat {
    /// ELF for x86-64.
    #[default]
    Elf,
    /// `--oformat binary`: the bytes of the loaded sections, without headers.
    Binary,
}

/// The format of an input file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum InputFormat {
    /// Found out from the file itself: ELF, archive, ticket or linker script.
    #[default]
    Detect,
    /// `-b binary`: the file's bytes become a `.data` section with `_binary_NAME_start` and its like.
    Binary,
}

/// The program's entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A symbol (also tried by GNU ld as a number when no such symbol exists; see [`Entry::address`]).
    Symbol(Vec<u8>),
}

impl Entry {
    /// The entry as an address, for when no symbol of the name exists: `-e 0x1000` is an address.
    pub fn address(&self) -> Option<u64> {
        let Entry::Symbol(name) = self;
        super::number::parse(name)
    }

    /// The symbol's name.
    pub fn symbol(&self) -> &[u8] {
        let Entry::Symbol(name) = self;
        name
    }
}

/// `--defsym NAME=EXPRESSION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defsym {
    /// The symbol that is defined.
    pub name: Vec<u8>,
    /// The expression, in the linker script's language (see [`crate::script::parse_expr`]).
    pub expr: Vec<u8>,
}

impl Defsym {
    /// Whether it is a number, or another name of one symbol.
    pub fn is_plain(&self) -> bool {
        let expr = self.expr.trim_ascii();
        let hex = expr.strip_prefix(b"0x").filter(|hex| !hex.is_empty());
        let is_number = match hex {
            Some(hex) => hex.iter().all(u8::is_ascii_hexdigit),
            None => !expr.is_empty() && expr.iter().all(u8::is_ascii_digit),
        };
        is_number || self.symbol().is_some()
    }

    /// The symbol whose other name it is.
    pub fn symbol(&self) -> Option<&[u8]> {
        let expr = self.expr.trim_ascii();
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let is_name = expr.first().is_some_and(|byte| !byte.is_ascii_digit());
        (is_name && expr.iter().all(is_word)).then_some(expr)
    }
}

/// A linker plugin (`-plugin`), as the LTO plugins of gcc and LLVM are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// The shared object.
    pub path: PathBuf,
    /// Its `-plugin-opt`s, in order.
    pub options: Vec<OsString>,
}

/// Switches that hold for the inputs that follow them on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct InputState {
    /// `--as-needed`: a shared object gets `DT_NEEDED` only if it is used.
    pub as_needed: bool,
    /// `--whole-archive`: every member of an archive is linked.
    pub whole_archive: bool,
    /// `-Bstatic` or `-static`: `-l` finds archives only.
    pub static_only: bool,
    /// `--copy-dt-needed-entries`.
    pub copy_dt_needed: bool,
    /// `-b`.
    pub format: InputFormat,
    /// The group (`--start-group` … `--end-group`) that the input is in; counted from 1 in command-line order.
    pub group: Option<u32>,
    /// The `--start-lib` … `--end-lib` range that the input is in: objects in it are as members of an archive.
    pub lib: Option<u32>,
}

/// Where it is said that an input stands for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remap {
    /// `--remap-inputs=PATTERN=FILE`.
    One(Vec<u8>),
    /// `--remap-inputs-file=FILE`.
    File(PathBuf),
}

/// What an [`InputArg`] names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// A file, by path.
    File(PathBuf),
    /// `-lNAME`: `libNAME.so` or `libNAME.a` on the search path.
    Library(OsString),
    /// `-l:FILE`: exactly this file name on the search path.
    LibraryFile(OsString),
    /// `-R FILE`: only the file's symbols, as absolute ones.
    JustSymbols(PathBuf),
}

/// One input, in command-line order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InputArg {
    /// What is read.
    pub kind: InputKind,
    /// What was in force where it stood.
    pub state: InputState,
}

/// An option that GNU ld has, that changes the output, and that is not implemented: the link must not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// As written on the command line.
    pub option: String,
    /// What it would need, in a few words.
    pub reason: &'static str,
}

/// What to do instead of linking, or beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct InfoRequests {
    /// `--version`, `-V`, `-v`: print the version line.
    pub version: bool,
    /// `-V`: also the emulations.
    pub emulations: bool,
    /// `--help`, `--target-help`.
    pub help: bool,
    /// `--print-output-format`.
    pub output_format: bool,
    /// `--print-sysroot`.
    pub sysroot: bool,
    /// `--version`, `--help` and their like: nothing is linked even if inputs are given.
    pub exit: bool,
}
