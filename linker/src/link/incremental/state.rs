//! The state file: what a link leaves for the next link of the same output.
//!
//! It is not part of the repository: it belongs to one output, is as good as the last link of it, and is changed in place,
//! while a repository only grows. It stands beside the repository, in the folder `FILE.links`, under a digest of the output's
//! path, and nobody needs it: without it, the next link is a full one.
//!
//! *Form.* A [`Header`], then tables of records of fixed size, each aligned to 16 bytes, which are mapped and used where they
//! stand; behind them is space for what incremental links add. All numbers are of the machine's byte order: the file is for
//! this machine, and for the very `repo-ld` that has made it.
//!
//! *Trust.* The file is the user's own and is made with mode 0600. It counts only if the header's digest of the options, the
//! linker's and the output's [`Stamp`]s and the boot are what they are now, and if no link was at work on it when it ended:
//! [`Header::clean`] is taken away before the first change of the output and put back after the last of the state. So a kill
//! leaves a state that does not count; what a power cut leaves does not count, as the boot is another. Its numbers are believed
//! as those of the output are, which the same user may change as well; but no offset leads outside of the file.

use super::held::Held;
pub use super::records::{
    ADDED, ArgumentRecord, ChunkRecord, CieRecord, FileRecord, FreeRecord, GroupRecord,
    InputRecord, MemberRecord, MentionRecord, NameKey, NameRecord, OutputRecord, PartRecord,
    PieceRecord, PlaceRecord, SearchRecord, SymbolRecord, content_key, file, hash_piece, input,
    key_of, part_room,
};
use super::records::{Images, Range};
use crate::input::stamp::{Left, Stamp};
use memmap2::{MmapMut, MmapOptions};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use store::engine::{Linux, System};

/// What the file begins with. The last byte is the version of the form.
const MAGIC: [u8; 8] = *b"repo-ld\x03";

/// No number.
pub const NONE: u32 = u32::MAX;

/// More numbers than one.
pub const MANY: u32 = u32::MAX - 1;

/// A table in the file.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Extent {
    /// Offset of the first record.
    pub at: u64,
    /// Number of records.
    pub count: u64,
    /// Number of records for which there is space.
    pub capacity: u64,
}

/// What the file begins with.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Header {
    magic: [u8; 8],
    /// 1 if the state is that of the output; 0 while a link is at work.
    pub clean: u64,
    /// The boot in which it was made.
    pub boot: [u8; 16],
    /// Digest of options, environment, working directory and umask.
    pub options: [u8; 32],
    /// The linker's program.
    pub linker: Stamp,
    /// The output.
    pub output: Left,
    /// 1 if it has another name beside the state.
    pub has_image: u64,
    /// The [spare image](super::spare); zeros if there is none.
    pub spare: Stamp,
    /// Where the spare is not as the output: offset in the state file, and number, of ranges of the output (offset and size).
    pub stale: [u64; 2],
    /// The tables, by [`Table`].
    pub tables: [Extent; TABLES],
    /// Where there is space for more, and where that ends.
    pub free: [u64; 2],
    /// What incremental links have added: by [`List`], the last record, or 0.
    pub lists: [u64; LISTS],
    /// See [`Facts`].
    pub facts: Facts,
}

/// What is known of the output as a whole.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Facts {
    /// Address of the thread-local storage's image.
    pub tls_start: u64,
    /// What that is aligned to.
    pub tls_align: u64,
    /// Where the thread pointer stands.
    pub thread_pointer: u64,
    /// Address of the file's first byte.
    pub image_base: u64,
    /// Number of `R_X86_64_IRELATIVE` at the end of `.rela.dyn`, in static programs.
    pub static_irelative: u64,
    /// File offset and length of the build id's bytes; none if it is no digest of the output.
    pub build_id: [u64; 2],
    /// Bits: see [`fact`].
    pub bits: u64,
    /// File offset of the section headers.
    pub section_headers: u64,
    /// Number of records of `.symtab`.
    pub symbols: u64,
    /// Bytes of `.strtab`.
    pub strings: u64,
    /// Words of `.got`.
    pub got_words: u32,
    /// The module's slots in it.
    pub got_module: u32,
    /// Relative relocations that are not used yet: file offset of the first, and number.
    pub spare_relocations: [u64; 2],
    /// The place that they are about.
    pub spare_place: u64,
    /// Where the [abbreviations](crate::resolve::room::ABBREVIATIONS) of units that say nothing are in `.debug_abbrev`; else more than
    /// 32 bits.
    pub abbreviations: u64,
    /// Frame descriptions that are not used yet: offset in `.eh_frame`, and size.
    pub spare_frames: [u64; 2],
    /// Local symbols that are not used yet: file offset of the first, and number.
    pub spare_locals: [u64; 2],
    /// Bytes for names in `.dynstr` that are not used yet: offset, and size.
    pub spare_strings: [u64; 2],
    /// Where the next copy of a variable of a shared object would be, and where the room for them ends: of those that can be
    /// written to, and of those that are only read later.
    pub spare_copies: [[u64; 2]; 2],
    /// Symbols that can be imported beside those that are: how many, the next word of `.got`, the next direct PLT entry, and the
    /// next place in `.dynsym`.
    pub spare_imports: [u32; 4],
    /// Symbols that others may find beside those that they do: the place of the next in `.dynsym`, and how many.
    pub spare_exports: [u32; 2],
    /// Files that are linked.
    pub tickets: u32,
    /// Files that are linked and no tickets.
    pub objects: u32,
}

/// Bits of [`Facts::bits`].
pub mod fact {
    /// The output can be loaded at any address.
    pub const PIC: u64 = 1;
    /// It is a shared object.
    pub const SHARED: u64 = 2;
    /// Instructions are relaxed.
    pub const RELAX: u64 = 4;
    /// PLT entries begin with `endbr64`.
    pub const IBT: u64 = 8;
    /// What nothing refers to in tickets is left out.
    pub const PRUNE: u64 = 16;
    /// New definitions would have to be in the dynamic symbol table.
    pub const EXPORTS: u64 = 32;
    /// There is a symbol table.
    pub const SYMTAB: u64 = 64;
    /// There are common blocks.
    pub const COMMONS: u64 = 128;
}

/// The tables.
#[derive(Clone, Copy, Debug)]
pub enum Table {
    /// [`InputRecord`]s.
    Inputs,
    /// Bytes: paths.
    Text,
    /// [`FileRecord`]s, by file.
    Files,
    /// [`ChunkRecord`]s.
    Chunks,
    /// [`PlaceRecord`]s.
    Places,
    /// [`NameRecord`]s, by key.
    Names,
    /// [`Slots`](crate::layout::got::Slots).
    Slots,
    /// [`OutputRecord`]s.
    Outputs,
    /// [`PartRecord`]s.
    Parts,
    /// [`GroupRecord`]s, by key.
    Groups,
    /// `u32`: for each name, where its files begin in the next table; one more at the end.
    Mentions,
    /// `u32`: files that mention a name.
    Mentioning,
    /// [`PieceRecord`]s, by hash.
    Pieces,
    /// [`CieRecord`]s.
    Cies,
    /// 16 bytes each: digests of the output's chunks.
    Digests,
    /// `u32`: the names that a file defines, file after file.
    Defined,
    /// [`SearchRecord`]s.
    Searches,
    /// [`MemberRecord`]s, archive after archive.
    Members,
    /// [`SymbolRecord`]s, library after library.
    Symbols,
    /// [`NameKey`]s: names whose mention is warned of.
    Warned,
    /// [`ArgumentRecord`]s, in the order of the command line.
    Arguments,
    /// `[u32; 2]`, in order: a file, and a name that would be seen from outside if that file did not say that it is not
    /// everybody's.
    Hidden,
    /// `[u64; 2]`: texts of [warnings](super::said) that later links give, too, as ranges of [`Table::Text`].
    Said,
    /// [`FreeRecord`]s.
    Free,
    /// [`HoldRecord`](super::holds::HoldRecord)s, by file.
    Holds,
}

/// How many there are.
pub const TABLES: usize = 25;

/// What incremental links add, each a list from the last record to the first.
#[derive(Clone, Copy, Debug)]
pub enum List {
    /// [`NameRecord`]s.
    Names,
    /// [`PieceRecord`]s.
    Pieces,
    /// [`GroupRecord`]s.
    Groups,
    /// [`MentionRecord`]s.
    Mentions,
    /// [`MentionRecord`]s of the files that have come to define a name.
    Definitions,
    /// [`HoldRecord`](super::holds::HoldRecord)s.
    Holds,
}

/// How many there are.
const LISTS: usize = 6;

/// Why a state cannot be used whose offsets lead nowhere.
pub const DAMAGED: &str = "the state of the earlier link is damaged";

/// A state file as it is being made.
pub struct Builder {
    bytes: Vec<u8>,
    header: Header,
}

impl Builder {
    /// Nothing is in it.
    pub fn new(facts: Facts) -> Builder {
        Builder {
            bytes: vec![0; size_of::<Header>().next_multiple_of(16)],
            header: Header {
                magic: MAGIC,
                clean: 1,
                boot: boot(),
                options: [0; 32],
                linker: Stamp::default(),
                output: Left::default(),
                has_image: 0,
                spare: Stamp::default(),
                stale: [0; 2],
                tables: [Extent::default(); TABLES],
                free: [0; 2],
                lists: [0; LISTS],
                facts,
            },
        }
    }

    /// Adds a table.
    pub fn table<T: bytemuck::Pod>(&mut self, table: Table, records: &[T]) {
        self.bytes.resize(self.bytes.len().next_multiple_of(16), 0);
        self.header.tables[table as usize] = Extent {
            at: self.bytes.len() as u64,
            count: records.len() as u64,
            capacity: records.len() as u64,
        };
        self.bytes.extend_from_slice(bytemuck::cast_slice(records));
    }

    /// Where the records of a table begin.
    pub fn start_of(&self, table: Table) -> u64 {
        self.header.tables[table as usize].at
    }

    /// The header, to be completed.
    pub fn header(&mut self) -> &mut Header {
        &mut self.header
    }

    /// Writes the file, which replaces the one that is there.
    ///
    /// # Errors
    /// Of the file system.
    pub fn write(mut self, path: &Path) -> io::Result<()> {
        // Enough to be edited all day. It takes nothing from the disk until it is used.
        let space = self.bytes.len() as u64 / 2 + (16 << 20);
        self.bytes.resize(self.bytes.len().next_multiple_of(16), 0);
        let end = self.bytes.len() as u64;
        self.header.free = [end, end + space];
        let header = bytemuck::bytes_of(&self.header);
        self.bytes[..header.len()].copy_from_slice(header);
        let new = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            io::Write::write_all(&mut file, &self.bytes)?;
            file.set_len(end + space)?;
            std::fs::rename(&new, path)
        };
        write().inspect_err(|_| _ = std::fs::remove_file(&new))
    }
}

/// A state file, mapped.
pub struct State {
    map: MmapMut,
}

impl State {
    /// Maps the state file of an output. `None` if there is none that counts.
    pub fn open(held: &Held) -> Option<State> {
        let path = held.state();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .ok()?;
        let metadata = file.metadata().ok()?;
        let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
        if !metadata.is_file() || !is_own || metadata.mode() & 0o077 != 0 {
            return None;
        }
        // SAFETY: the file is the user's own, nobody else may write to it, and links that do are kept out by the lock.
        let map = unsafe { MmapOptions::new().map_mut(&file) }.ok()?;
        let state = State { map };
        let bytes = state.map.get(..size_of::<Header>())?;
        let header: &Header = bytemuck::from_bytes(bytes);
        let boot = boot();
        let is_good =
            header.magic == MAGIC && header.clean == 1 && header.boot == boot && boot != [0; 16];
        is_good.then_some(state)
    }

    /// The header.
    pub fn header(&self) -> &Header {
        bytemuck::from_bytes(&self.map[..size_of::<Header>()])
    }

    /// The header, to be changed.
    pub fn header_mut(&mut self) -> &mut Header {
        bytemuck::from_bytes_mut(&mut self.map[..size_of::<Header>()])
    }

    /// A table; empty if the file lies about it.
    pub fn table<T: bytemuck::Pod>(&self, table: Table) -> &[T] {
        let Extent { at, count, .. } = self.header().tables[table as usize];
        self.records(at, count)
    }

    /// Records that stand anywhere; none if they are not in the file.
    pub fn records<T: bytemuck::Pod>(&self, at: u64, count: u64) -> &[T] {
        let bytes = self
            .range::<T>(at, count)
            .and_then(|range| self.map.get(range));
        bytes
            .and_then(|bytes| bytemuck::try_cast_slice(bytes).ok())
            .unwrap_or(&[])
    }

    /// A record of a table, to be changed.
    pub fn record_mut<T: bytemuck::Pod>(&mut self, table: Table, index: usize) -> Option<&mut T> {
        let Extent { at, count, .. } = self.header().tables[table as usize];
        let range = self.range::<T>(at, count)?;
        let records: &mut [T] = bytemuck::try_cast_slice_mut(self.map.get_mut(range)?).ok()?;
        records.get_mut(index)
    }

    /// Adds a record to a list; gives where it is. `None` if there is no space.
    pub fn push<T: bytemuck::Pod>(&mut self, list: List, record: T) -> Option<u64> {
        // Before each record stands where the one before it is.
        self.add(&[self.header().lists[list as usize], 0])?;
        let at = self.add(&[record])?;
        self.header_mut().lists[list as usize] = at;
        Some(at)
    }

    /// The records of a list, each with its place, the last one first.
    pub fn list<T: bytemuck::Pod>(&self, list: List) -> Vec<(u64, T)> {
        let mut found = Vec::new();
        let mut at = self.header().lists[list as usize];
        while let Some(link) = at.checked_sub(LINK_SIZE)
            && let (Some(next), Some(record)) = (
                self.records::<u64>(link, 1).first(),
                self.records::<T>(at, 1).first(),
            )
        {
            found.push((at, *record));
            // Each is behind the one that was added before it, so that the list ends.
            at = if *next < at { *next } else { 0 };
        }
        found
    }

    /// A record anywhere, to be changed.
    pub fn record_at<T: bytemuck::Pod>(&mut self, at: u64) -> Option<&mut T> {
        let range = self.range::<T>(at, 1)?;
        bytemuck::try_from_bytes_mut(self.map.get_mut(range)?).ok()
    }

    fn range<T>(&self, at: u64, count: u64) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(at).ok()?;
        let len = usize::try_from(count).ok()?.checked_mul(size_of::<T>())?;
        Some(start..start.checked_add(len)?)
    }

    /// Where the spare image is not as the output.
    pub fn stale(&self) -> &[Range] {
        let [at, count] = self.header().stale;
        self.records(at, count)
    }

    /// Notes what the output and the spare image are like after a link, which has changed `stale` of the output.
    pub fn note_images(&mut self, images: &Images, stale: &[Range]) -> Option<()> {
        let stale = [self.add(stale)?, stale.len() as u64];
        let header = self.header_mut();
        (header.output, header.has_image) = (images.output, images.has_image.into());
        (header.spare, header.stale) = (images.spare, stale);
        Some(())
    }

    /// Bytes of [`Table::Text`], or those that [`add_text`](State::add_text) has added.
    pub fn text(&self, at: u64, len: u32) -> &[u8] {
        let start = self.header().tables[Table::Text as usize].at;
        self.records(start.saturating_add(at), len.into())
    }

    /// Adds text; gives where it is. `None` if there is no space.
    pub fn add_text(&mut self, text: &[u8]) -> Option<u64> {
        let start = self.header().tables[Table::Text as usize].at;
        self.add(text)?.checked_sub(start)
    }

    /// Adds records to a table, which may move. `None` if there is no space.
    pub fn extend<T: bytemuck::Pod>(&mut self, table: Table, records: &[T]) -> Option<()> {
        let Extent {
            at,
            count,
            capacity,
        } = self.header().tables[table as usize];
        let new = count.checked_add(records.len() as u64)?;
        let mut extent = Extent {
            at,
            count: new,
            capacity,
        };
        if new > capacity {
            let old: &[T] = self.table(table);
            let mut moved = old.to_vec();
            extent.capacity = new + new / 4 + 16;
            moved.resize(usize::try_from(extent.capacity).ok()?, T::zeroed());
            extent.at = self.add(&moved)?;
        }
        let end = extent.at + count * size_of::<T>() as u64;
        let range = self.range::<T>(end, records.len() as u64)?;
        let bytes: &[u8] = bytemuck::cast_slice(records);
        self.map.get_mut(range)?.copy_from_slice(bytes);
        self.header_mut().tables[table as usize] = extent;
        Some(())
    }

    /// Puts records in place of all of a table. `None` if there is no space.
    pub fn replace_table<T: bytemuck::Pod>(&mut self, table: Table, records: &[T]) -> Option<()> {
        self.header_mut().tables[table as usize].count = 0;
        self.extend(table, records)
    }

    /// Puts records in the place of `old` ones (offset and number), or in the free space if they are more; gives where they are.
    /// `None` if there is no more space.
    pub fn replace<T: bytemuck::Pod>(&mut self, old: [u64; 2], records: &[T]) -> Option<[u64; 2]> {
        let count = records.len() as u64;
        if count > old[1] {
            return Some([self.add(records)?, count]);
        }
        let range = self.range::<T>(old[0], count)?;
        let bytes: &[u8] = bytemuck::cast_slice(records);
        self.map.get_mut(range)?.copy_from_slice(bytes);
        Some([old[0], count])
    }

    /// Puts records in the free space; gives where. `None` if there is no more.
    pub fn add<T: bytemuck::Pod>(&mut self, records: &[T]) -> Option<u64> {
        let [at, end] = self.header().free;
        let bytes: &[u8] = bytemuck::cast_slice(records);
        let next = at.checked_add(bytes.len().next_multiple_of(16) as u64)?;
        if next > end {
            return None;
        }
        let start = usize::try_from(at).ok()?;
        self.map
            .get_mut(start..start.checked_add(bytes.len())?)?
            .copy_from_slice(bytes);
        self.header_mut().free[0] = next;
        Some(at)
    }
}

/// Bytes before each record of a list.
const LINK_SIZE: u64 = 16;

/// What tells this boot of the machine from all others; zeros, which count for none, if the system does not say.
fn boot() -> [u8; 16] {
    Linux.boot_id()
}
