//! What stands in the tables of the [state file](super::state).

use crate::input::stamp::{Left, Stamp};
use crate::resolve::symbol_facts::SymbolFacts;

/// An input file: an object, an archive, a library, a script.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct InputRecord {
    /// Its path: where it begins in [`Table::Text`].
    pub path: u64,
    /// Its bytes.
    pub path_len: u32,
    /// The only linked file in it, if it is an object; else [`NONE`].
    pub file: u32,
    /// What it was like.
    pub stamp: Stamp,
    /// Of an archive that holds its members: its [`MemberRecord`]s' offset in the state file, and number. Of a shared object the
    /// same of [`SymbolRecord`]s.
    pub members: [u64; 2],
    /// [`content_key`] of its bytes; of an archive with members here, of the names in its index; of a shared object, of its
    /// [interface](super::interface). Zeros, which are like nothing, if there is none.
    pub content: [u64; 2],
    /// The place among the inputs of the command line that names a linked object by its path; else [`NONE`]. What compilers
    /// make for the link alone is called otherwise each time.
    pub argument: u32,
    /// What it is: see [`input`].
    pub kind: u32,
}

/// Kinds of [`InputRecord`]s.
pub mod input {
    /// A script, a shared object, or an object that is not linked.
    pub const OTHER: u32 = 0;
    /// An object that is linked.
    pub const OBJECT: u32 = 1;
    /// An archive whose members are listed.
    pub const ARCHIVE: u32 = 2;
    /// An object that the command line does not name any more.
    pub const GONE: u32 = 3;
}

/// An argument that names an input.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct ArgumentRecord {
    /// Key of what it says.
    pub key: NameKey,
    /// Hash of what it says but the name.
    pub how: u64,
    /// The input, if it is a linked object that only this argument names; else [`NONE`]. Such an object may be called otherwise
    /// next time: what is in it counts.
    pub object: u32,
    /// Unused.
    pub padding: u32,
}

/// A member of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct MemberRecord {
    /// [`content_key`] of a linked one.
    pub content: [u64; 2],
    /// Hash of its name.
    pub name: u64,
    /// Its number among the files, if it is linked; else [`NONE`].
    pub file: u32,
    /// Unused.
    pub padding: u32,
}

/// What a symbol of a shared object is like that the program has a name for, in the order of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct SymbolRecord {
    /// The name, or what else is [described](super::interface).
    pub key: NameKey,
    /// [`content_key`] of all that a link takes of it.
    pub content: [u64; 2],
}

/// What tells contents apart. (Nobody gains by having two of one key: these are the user's own files, and the time stamps have
/// said already that they differ.)
pub fn content_key(bytes: &[u8]) -> [u64; 2] {
    let hash = twox_hash::XxHash3_128::oneshot(bytes);
    [hash as u64, (hash >> 64) as u64]
}

/// A library that was searched for. That the first file found now is one that was opened then shows that none has come
/// before it.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct SearchRecord {
    /// Its name: where it begins in [`Table::Text`].
    pub name: u64,
    /// The name's bytes.
    pub name_len: u32,
    /// 1: only static libraries; 2: a file of this very name; 3: [by a script](crate::input::open::Searched::BY_SCRIPT).
    pub how: u32,
}

/// A hash of a name that tells it from all others. (Who makes two names of one key has written the program.)
pub type NameKey = [u64; 2];

/// What tells libraries apart in [`HoldRecord`](super::holds::HoldRecord)s. If it does not, both stay as long as one is needed.
pub fn library_number(soname: &[u8]) -> u32 {
    key_of(soname)[0] as u32
}

/// The key of a name: XXH3, as names are short and many.
pub fn key_of(name: &[u8]) -> NameKey {
    let hash = xxhash_rust::xxh3::xxh3_128(name);
    [hash as u64, (hash >> 64) as u64]
}

/// A linked object, and where its parts of the output are.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct FileRecord {
    /// Bits: see [`file`].
    pub bits: u32,
    /// The input that it is in.
    pub input: u32,
    /// Its [`ChunkRecord`]s: offset in the state file, and number.
    pub chunks: [u64; 2],
    /// Its [`PlaceRecord`]s: offset in the state file, and number.
    pub places: [u64; 2],
    /// Which member of the input it is, counted from 1; 0 if it is the whole.
    pub member: u32,
    /// Number of its symbols in the first part of `.symtab`.
    pub locals: u32,
    /// Number of its symbols in the second part.
    pub globals: u32,
    /// `R_X86_64_RELATIVE` in its sections, with their room.
    pub relative: u32,
    /// Relocations of its sections that name symbols.
    pub symbolic: u32,
    /// `R_X86_64_IRELATIVE` in its sections.
    pub irelative: u32,
    /// Its frame descriptions: offset in `.eh_frame`, and size with their room.
    pub frames: [u64; 2],
    /// File offset of the first of its locals.
    pub locals_at: u64,
    /// File offset of the first of its globals.
    pub globals_at: u64,
    /// Its names: offset in `.strtab`, and size.
    pub names: [u64; 2],
    /// File offset of its first `R_X86_64_RELATIVE`.
    pub relative_at: u64,
    /// File offset of its first `R_X86_64_IRELATIVE`.
    pub irelative_at: u64,
    /// Digest of what it says beside its sections (`.note.gnu.property`).
    pub notes: [u64; 2],
    /// The names that it defines: first and number in [`Table::Defined`].
    pub defined: [u32; 2],
}

/// Bits of [`FileRecord::bits`].
pub mod file {
    /// It is linked.
    pub const LINKED: u32 = 1;
    /// It is a ticket.
    pub const TICKET: u32 = 2;
    /// It can be linked again by itself.
    pub const ALONE: u32 = 4;
    /// Its note asks for an executable stack.
    pub const EXECUTABLE_STACK: u32 = 8;
    /// `--exclude-libs` covers it.
    pub const EXCLUDED: u32 = 16;
    /// An incremental link has added it: its number does not say what it comes before.
    pub const ADDED: u32 = 32;
    /// Something refers to its entries of [lists of functions](super::super::lists), which do not move for others.
    pub const PINNED: u32 = 64;
}

/// What a file has in a part of the output.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct ChunkRecord {
    /// Number in [`Table::Parts`].
    pub part: u32,
    /// The number of its only section, in a sorted part; else 0.
    pub only: u32,
    /// Offset in the output section.
    pub offset: u64,
    /// Bytes, with its room.
    pub capacity: u64,
    /// In a sorted list of functions, its priority.
    pub priority: u64,
}

/// Where a section of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct PlaceRecord {
    /// Digest of its name, and of how many of that name are before it in the file.
    pub section: u64,
    /// Offset in the output section.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// The chunk that it is in, counted from the file's first.
    pub chunk: u32,
    padding: u32,
}

impl PlaceRecord {
    /// Makes one.
    pub fn new(section: u64, chunk: u32, offset: u64, size: u64) -> PlaceRecord {
        PlaceRecord {
            section,
            offset,
            size,
            chunk,
            padding: 0,
        }
    }
}

/// What a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct NameRecord {
    /// See [`key_of`].
    pub key: NameKey,
    /// Its address.
    pub address: u64,
    /// What is known of it.
    pub facts: SymbolFacts,
    /// Number of its slots in [`Table::Slots`].
    pub slots: u32,
    /// The object that defines it.
    pub definer: u32,
    /// Its number in `.dynsym`; 0 if it is not there.
    pub dynamic: u32,
    /// Kind of its definition.
    pub rank: u16,
    /// 1 if its section is in the output.
    pub is_placed: u16,
    /// The only file that says that it has another visibility than `STV_DEFAULT`; [`NONE`] or [`MANY`].
    pub hidden_by: u32,
}

/// A file that mentions a name since an incremental link.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct MentionRecord {
    /// The name: its index in [`Table::Names`], or the offset of its record, with [`ADDED`].
    pub name: u64,
    /// The file.
    pub file: u32,
    /// Unused.
    pub padding: u32,
}

/// Of a [`MentionRecord`]: the name's record is one that was added.
pub const ADDED: u64 = 1 << 63;

/// An output section.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct OutputRecord {
    /// Its name: where it begins in [`Table::Text`].
    pub name: u64,
    /// The name's bytes.
    pub name_len: u32,
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// Address.
    pub address: u64,
    /// File offset.
    pub offset: u64,
    /// Size.
    pub size: u64,
    /// Index in the section header table.
    pub header: u32,
    /// Number in the link's own list.
    pub id: u32,
}

/// A part of an output section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct PartRecord {
    /// Number in [`Table::Outputs`].
    pub output: u32,
    /// See [`Part::order`](crate::resolve::output_sections::Part::order).
    pub order: i32,
    /// 0 if it has no merged pieces; 1 for constants, 2 for strings.
    pub merge: u32,
    /// Size of a piece's element.
    pub entsize: u32,
    /// Offset in the output section.
    pub offset: u64,
    /// Size, with all room but that behind a list.
    pub size: u64,
    /// Of merged pieces: where the next new one would go, in the part. Of lists: where the room behind it ends, in the output
    /// section. Else, where the next new chunk would go, in the output section.
    pub next: u64,
    /// How it is sorted.
    pub sort: u32,
    /// What room there is in it: see [`part_room`].
    pub room: u32,
}

/// Kinds of [room](crate::resolve::room::Kind) in a part.
pub mod part_room {
    /// None.
    pub const NONE: u32 = 0;
    /// Between sections.
    pub const GAPS: u32 = 1;
    /// Filled.
    pub const FILLED: u32 = 2;
    /// Behind a list of functions.
    pub const LIST: u32 = 3;
}

/// Who has the one group of a signature that is linked.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct GroupRecord {
    /// [`key_of`] the signature.
    pub key: NameKey,
    /// The file.
    pub owner: u32,
    /// Unused.
    pub padding: u32,
}

/// A merged piece.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct PieceRecord {
    /// See [`hash_piece`].
    pub hash: u64,
    /// The part.
    pub part: u32,
    /// Offset in the part.
    pub offset: u32,
}

/// What merged pieces are looked for by.
pub fn hash_piece(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// A common information entry of the output.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct CieRecord {
    /// Offset in `.eh_frame`.
    pub offset: u32,
    /// Size.
    pub size: u32,
}

/// A range of the output that is nobody's any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct FreeRecord {
    /// The part of the output that it is in, by its number in [`Table::Parts`].
    pub part: u32,
    /// Unused.
    pub padding: u32,
    /// Offset in the output section.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// A range of a file: offset and size.
pub type Range = [u64; 2];

/// What the images are like after a link.
#[derive(Default)]
pub struct Images {
    /// The output.
    pub output: Left,
    /// It has another name beside the state.
    pub has_image: bool,
    /// The spare; zeros if there is none.
    pub spare: Stamp,
}
