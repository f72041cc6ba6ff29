//! What a linker script says, before anything is done with it.

use crate::base::glob::{Glob, has_wildcard};
use crate::script::version_script::VersionScript;

use super::expr::Expr;

/// A name of a section, symbol, file or region: bytes, as in the files.
pub type Name = Vec<u8>;

/// A place in a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pos {
    /// An index into [`Script::files`].
    pub file: u32,
    /// The line, counted from 1; 0 for what is not from a file (`--defsym`).
    pub line: u32,
}

/// A parsed script, with what it includes.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The files that the script is from: itself, then those that it includes.
    pub files: Vec<String>,
    /// Its commands in order.
    pub commands: Vec<Command>,
}

impl Script {
    /// `file:line`, for a message.
    pub fn place(&self, pos: Pos) -> String {
        let file = self
            .files
            .get(pos.file as usize)
            .map_or("<script>", String::as_str);
        match pos.line {
            0 => file.to_string(),
            line => format!("{file}:{line}"),
        }
    }
}

/// The formats that a script names for the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formats {
    /// Without `-EB` and `-EL`.
    pub default: Name,
    /// With `-EB`, and with `-EL`; a script may name only one format.
    pub by_order: Option<[Name; 2]>,
}

/// A command at the top level.
#[derive(Clone, Debug)]
pub enum Command {
    /// `INPUT(…)`.
    Input(Vec<FileRef>),
    /// `GROUP(…)`.
    Group(Vec<FileRef>),
    /// `LIB(file …)`: as members of an archive.
    Lib(Vec<FileRef>),
    /// `STARTUP(file)`: linked first.
    Startup(FileRef),
    /// `OUTPUT(file)`.
    Output(Name),
    /// `OUTPUT_FORMAT(default, big, little)`.
    OutputFormat(Formats, Pos),
    /// `OUTPUT_ARCH(arch)`.
    OutputArch(Name, Pos),
    /// `TARGET(bfdname)`.
    Target(Name, Pos),
    /// `SEARCH_DIR(path)`.
    SearchDir(Name),
    /// `ENTRY(symbol)`.
    Entry(Name),
    /// `EXTERN(symbol …)`.
    Extern(Vec<Name>),
    /// `symbol = expression;`, `PROVIDE(…)` and their like.
    Assign(Assignment),
    /// `ASSERT(expression, message)`.
    Assert(Assertion),
    /// `SECTIONS { … }`.
    Sections(Vec<SectionsCommand>),
    /// `MEMORY { … }`.
    Memory(Vec<MemoryRegion>),
    /// `REGION_ALIAS(alias, region)`.
    RegionAlias {
        /// The new name.
        alias: Name,
        /// The region.
        region: Name,
        /// Where.
        pos: Pos,
    },
    /// `PHDRS { … }`.
    Phdrs(Vec<ProgramHeader>),
    /// `VERSION { … }`.
    Version(VersionScript),
    /// `INSERT AFTER section`, `INSERT BEFORE section`: concerns the `SECTIONS` before it.
    Insert {
        /// After or before.
        after: bool,
        /// The output section.
        section: Name,
        /// Where.
        pos: Pos,
    },
    /// `NOCROSSREFS(section …)`: no references among these output sections.
    NoCrossRefs(Vec<Name>, Pos),
    /// `NOCROSSREFS_TO(to, from …)`: none to the first from the others.
    NoCrossRefsTo(Vec<Name>, Pos),
    /// `FORCE_COMMON_ALLOCATION`: as `-d`.
    ForceCommonAllocation,
    /// `INHIBIT_COMMON_ALLOCATION`: as `--no-define-common`.
    InhibitCommonAllocation,
    /// `FORCE_GROUP_ALLOCATION`.
    ForceGroupAllocation(Pos),
    /// `LD_FEATURE("SANE_EXPR")`: numbers are numbers everywhere.
    SaneExpr,
}

/// A file in `INPUT` or `GROUP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRef {
    /// A path, or the name after `-l` (a leading `:` for an exact file name).
    pub name: Name,
    /// Whether it was written `-lNAME`.
    pub is_library: bool,
    /// Inside `AS_NEEDED(…)`.
    pub as_needed: bool,
    /// Where.
    pub pos: Pos,
}

/// What an assignment assigns to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The location counter.
    Dot,
    /// A symbol.
    Symbol(Name),
}

/// `=` and its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AssignOp {
    /// `=`
    Set,
    /// `+=`
    Add,
    /// `-=`
    Sub,
    /// `*=`
    Mul,
    /// `/=`
    Div,
    /// `<<=`
    Shl,
    /// `>>=`
    Shr,
    /// `&=`
    And,
    /// `|=`
    Or,
    /// `^=`
    Xor,
}

/// `target op expr;`.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The left side.
    pub target: Target,
    /// The operator.
    pub op: AssignOp,
    /// The right side.
    pub expr: Expr,
    /// `PROVIDE`: only if the symbol is referred to and nothing else defines it.
    pub provide: bool,
    /// `HIDDEN`, `PROVIDE_HIDDEN`: the symbol is hidden.
    pub hidden: bool,
    /// Where.
    pub pos: Pos,
}

/// `ASSERT(expr, message)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    /// Must not be zero.
    pub expr: Expr,
    /// What is said if it is.
    pub message: String,
    /// Where.
    pub pos: Pos,
}

/// A command in `SECTIONS`.
#[derive(Clone, Debug)]
pub enum SectionsCommand {
    /// An output section.
    Section(Box<OutputSection>),
    /// An assignment.
    Assign(Assignment),
    /// An assertion.
    Assert(Assertion),
    /// `ENTRY(symbol)`.
    Entry(Name),
    /// `OVERLAY …`.
    Overlay(Box<Overlay>),
}

/// The type of an output section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SectionType {
    /// By its contents.
    #[default]
    Normal,
    /// `NOLOAD`: not loaded; `SHT_NOBITS`.
    NoLoad,
    /// `DSECT`, `COPY`, `INFO`, `OVERLAY`: not allocated.
    NotAllocated,
}

/// When an output section is made at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Constraint {
    /// Always.
    #[default]
    None,
    /// `ONLY_IF_RO`: if all its input sections are read-only.
    OnlyIfRo,
    /// `ONLY_IF_RW`: if not all are read-only.
    OnlyIfRw,
}

/// An output section description.
#[derive(Clone, Debug, Default)]
pub struct OutputSection {
    /// Its name; `/DISCARD/` is special.
    pub name: Name,
    /// Its address.
    pub address: Option<Expr>,
    /// `(NOLOAD)` and its like.
    pub kind: SectionType,
    /// `(TYPE = …)`: `sh_type`.
    pub elf_type: Option<Expr>,
    /// `(READONLY)`.
    pub readonly: bool,
    /// `AT(…)`: the load address.
    pub at: Option<Expr>,
    /// `ALIGN(…)`.
    pub align: Option<Expr>,
    /// `ALIGN_WITH_INPUT`.
    pub align_with_input: bool,
    /// `SUBALIGN(…)`: alignment of its input sections.
    pub subalign: Option<Expr>,
    /// `ONLY_IF_RO` and its like.
    pub constraint: Constraint,
    /// What is in it.
    pub commands: Vec<SectionCommand>,
    /// `>region`.
    pub region: Option<Name>,
    /// `AT>region`.
    pub lma_region: Option<Name>,
    /// `:phdr …`; `NONE` for no segment.
    pub phdrs: Vec<Name>,
    /// `=fill`.
    pub fill: Option<Fill>,
    /// Where.
    pub pos: Pos,
}

impl OutputSection {
    /// Whether it is `/DISCARD/`.
    pub fn is_discard(&self) -> bool {
        self.name == b"/DISCARD/"
    }
}

/// A command in an output section description.
#[derive(Clone, Debug)]
pub enum SectionCommand {
    /// Input sections.
    Input(InputSpec),
    /// An assignment.
    Assign(Assignment),
    /// An assertion.
    Assert(Assertion),
    /// `BYTE(…)` … `QUAD(…)`.
    Data {
        /// 1, 2, 4 or 8 bytes, little-endian.
        size: u8,
        /// The value.
        expr: Expr,
        /// Where.
        pos: Pos,
    },
    /// `ASCII("…")`, `ASCIZ("…")`: these bytes.
    Text(Vec<u8>),
    /// `FILL(…)`: gaps from here on.
    Fill(Fill),
    /// `CREATE_OBJECT_SYMBOLS`.
    CreateObjectSymbols(Pos),
    /// `CONSTRUCTORS`, without effect for ELF.
    Constructors,
}

/// What gaps are filled with.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    /// A plain hexadecimal number: these bytes, repeated. "Leading zeros become part of the pattern too."
    Pattern(Vec<u8>),
    /// Otherwise: the four least significant bytes of the value, big-endian, repeated.
    Expr(Expr),
}

/// A pattern with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// As written.
    pub text: Name,
    /// Compiled.
    pub glob: Glob,
}

impl Pattern {
    /// Compiles a pattern. Quotes make no difference: they are for characters that no word has.
    pub fn new(text: &[u8]) -> Pattern {
        Pattern {
            text: text.to_vec(),
            glob: Glob::new(text),
        }
    }

    /// Whether it matches all of `name`.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.glob.matches(name)
    }
}

/// Which files an input section description is about ("Input Section Basics" in the manual).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePattern {
    /// `file`: by path; with wildcards also a member of an archive, by the member's name.
    Plain(Pattern),
    /// `archive:file`, `archive:`, `:file`.
    InArchive {
        /// The archive; `None`: the file is in no archive.
        archive: Option<Pattern>,
        /// The member; `None`: all.
        file: Option<Pattern>,
    },
}

impl FilePattern {
    /// Whether a file matches: its path, or for a member its name and its archive's path.
    pub fn matches(&self, file: &[u8], archive: Option<&[u8]>) -> bool {
        match self {
            FilePattern::Plain(pattern) => {
                (archive.is_none() || has_wildcard(&pattern.text)) && pattern.matches(file)
            }
            FilePattern::InArchive {
                archive: wanted,
                file: member,
            } => {
                let in_archive = match (wanted, archive) {
                    (Some(wanted), Some(archive)) => wanted.matches(archive),
                    (None, None) => true,
                    _ => false,
                };
                in_archive && member.as_ref().is_none_or(|member| member.matches(file))
            }
        }
    }

    /// Whether a file is excluded by this pattern in `EXCLUDE_FILE`: there GNU ld also takes a plain pattern that
    /// matches the archive, or a member without wildcards.
    pub fn excludes(&self, file: &[u8], archive: Option<&[u8]>) -> bool {
        match self {
            FilePattern::Plain(pattern) => {
                pattern.matches(file) || archive.is_some_and(|archive| pattern.matches(archive))
            }
            FilePattern::InArchive { .. } => self.matches(file, archive),
        }
    }

    /// Whether it is `*`.
    pub fn is_all(&self) -> bool {
        matches!(self, FilePattern::Plain(pattern) if pattern.glob.is_all())
    }
}

/// The order of what one pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Sort {
    /// No keyword: input order, or `--sort-section`.
    #[default]
    Default,
    /// `SORT_NONE`: input order, whatever `--sort-section` says.
    None,
    /// `SORT`, `SORT_BY_NAME`.
    Name,
    /// `SORT_BY_ALIGNMENT`, largest first.
    Alignment,
    /// `SORT_BY_NAME(SORT_BY_ALIGNMENT(…))`.
    NameAlignment,
    /// `SORT_BY_ALIGNMENT(SORT_BY_NAME(…))`.
    AlignmentName,
    /// `SORT_BY_INIT_PRIORITY`.
    InitPriority,
    /// `REVERSE`, `SORT_BY_NAME(REVERSE(…))`, `REVERSE(SORT_BY_NAME(…))`.
    NameReversed,
    /// `SORT_BY_INIT_PRIORITY(REVERSE(…))`, `REVERSE(SORT_BY_INIT_PRIORITY(…))`.
    InitPriorityReversed,
}

/// `INPUT_SECTION_FLAGS(A & !B)`: bits of `sh_flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct SectionFlags {
    /// All of these are set.
    pub with: u64,
    /// None of these is.
    pub without: u64,
}

/// `KEEP(EXCLUDE_FILE(…) file(sections …))`.
#[derive(Clone, Debug)]
pub struct InputSpec {
    /// `KEEP`: garbage collection begins here.
    pub keep: bool,
    /// The files.
    pub file: FilePattern,
    /// `SORT_BY_NAME(file)`: the order of files; only [`Sort::Default`], [`Sort::None`], [`Sort::Name`],
    /// [`Sort::NameReversed`].
    pub file_sort: Sort,
    /// `EXCLUDE_FILE(…)` before the file: not these.
    pub exclude: Vec<FilePattern>,
    /// `INPUT_SECTION_FLAGS(…)`.
    pub flags: SectionFlags,
    /// The sections; `None`: all (a file without a list). `COMMON` stands for common symbols.
    pub sections: Option<Vec<SectionPattern>>,
    /// Where.
    pub pos: Pos,
}

/// One pattern of the list of sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionPattern {
    /// The sections' names.
    pub pattern: Pattern,
    /// `EXCLUDE_FILE(…)` before it: not from these files.
    pub exclude: Vec<FilePattern>,
    /// Their order.
    pub sort: Sort,
}

/// `OVERLAY start : NOCROSSREFS AT(lma) { … }`.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    /// The address that all sections run at.
    pub start: Option<Expr>,
    /// `NOCROSSREFS`.
    pub no_cross_refs: bool,
    /// `AT(…)`.
    pub at: Option<Expr>,
    /// The sections: no addresses or regions of their own.
    pub sections: Vec<OutputSection>,
    /// `>region`.
    pub region: Option<Name>,
    /// `AT>region`.
    pub lma_region: Option<Name>,
    /// `:phdr`.
    pub phdrs: Vec<Name>,
    /// `=fill`.
    pub fill: Option<Fill>,
    /// Where.
    pub pos: Pos,
}

/// A region of `MEMORY`.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryRegion {
    /// Its name.
    pub name: Name,
    /// Its attributes, for sections that no command places.
    pub attributes: RegionAttributes,
    /// `ORIGIN`.
    pub origin: Expr,
    /// `LENGTH`, in bytes.
    pub length: Expr,
    /// Where.
    pub pos: Pos,
}

/// The attributes of a region: sections that have one of `any`, and none of `none`, may be put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct RegionAttributes {
    /// Attributes of which one is enough.
    pub any: Attributes,
    /// Attributes (after `!`) that a section must not have.
    pub none: Attributes,
}

bitflags::bitflags! {
    /// Kinds of sections in the attributes of a region.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Attributes: u8 {
        /// `r`: read-only.
        const READ_ONLY = 1;
        /// `w`: writable.
        const WRITABLE = 2;
        /// `x`: executable.
        const EXECUTABLE = 4;
        /// `a`: allocated.
        const ALLOCATED = 8;
        /// `i`, `l`: initialised.
        const INITIALISED = 16;
    }
}

/// A program header of `PHDRS`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramHeader {
    /// Its name in the script.
    pub name: Name,
    /// `p_type`.
    pub kind: Expr,
    /// `FILEHDR`: the segment begins with the ELF header.
    pub filehdr: bool,
    /// `PHDRS`: it has the program headers in it.
    pub phdrs: bool,
    /// `AT(…)`: `p_paddr`.
    pub at: Option<Expr>,
    /// `FLAGS(…)`: `p_flags`.
    pub flags: Option<Expr>,
    /// Where.
    pub pos: Pos,
}
