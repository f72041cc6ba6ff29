//! Canonical encodings: the bytes whose BLAKE3 is a digest of the program model.
//!
//! Nothing in them depends on one repository: names stand as strings, other
//! fragments as digests, pieces with their bytes. Integers are little-endian and unaligned; a
//! string is its length (u32) and its bytes. Each kind of thing is hashed with a key of its own,
//! so that no two kinds can share a digest. `SPEC.md`, "Digests", has the layouts; a fragment's parts
//! are written in the order in which [`FragmentEncoder`]'s methods are named here.
//!
//! A fragment's fixups and bytes, which are most of it, come first, so that a writer can hash them where it has put them for the
//! file: the encoder writes what else is hashed behind them, and takes it away again.
//!
//! The encoder is used twice: on what a splitter has in memory, and on what a
//! reader finds in the file (`repo-dump --verify`).

use crate::digest::Digest;
use crate::fragment::TargetKind;
use crate::program::{CompilationHeader, SymbolRecord};

const FRAGMENT: &[u8; 32] = b"repo.fragment.4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
const COMPILATION: &[u8; 32] = b"repo.compilation.3\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

const CAPTURED: &[u8; 32] = b"repo.captured.1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
const COMPILER: &[u8; 32] = b"repo.compiler.1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// The key of bytes that a compiler wrote (SPEC.md, section 28).
pub fn captured(bytes: &[u8]) -> Digest {
    Digest::keyed(CAPTURED, bytes)
}

/// The key of a compiler's file (SPEC.md, section 29): its absolute path, size in bytes, and time of
/// modification in nanoseconds since 1970.
pub fn compiler(path: &[u8], size: u64, modified: u64) -> Digest {
    let mut buffer = Vec::with_capacity(20 + path.len());
    string(&mut buffer, path);
    u64(&mut buffer, size);
    u64(&mut buffer, modified);
    Digest::keyed(COMPILER, &buffer)
}

/// What the bytes of a section are, beside its name, fixups and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionFacts {
    /// Size in memory, bytes.
    pub size: u64,
    /// ELF `sh_type`.
    pub sh_type: u32,
    /// ELF `sh_flags` as in [`SectionRecord`](crate::fragment::SectionRecord).
    pub sh_flags: u32,
    /// ELF `sh_entsize`.
    pub entsize: u32,
    /// A [`SectionKind`](crate::fragment::SectionKind).
    pub kind: u8,
    /// Alignment as a power of two.
    pub align_log2: u8,
    /// As in [`SectionRecord`](crate::fragment::SectionRecord).
    pub bits: u8,
    /// As in [`SectionRecord`](crate::fragment::SectionRecord).
    pub target_bits: u8,
    /// 1 + index of the target that `sh_link` names, or 0.
    pub link: u32,
    /// Number of fixups.
    pub fixup_count: u32,
}

/// What a mergeable string or constant is, wherever it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceFacts<'a> {
    /// Name of the sections that pieces of its class come from, without suffixes.
    pub section_name: &'a [u8],
    /// ELF `sh_flags`.
    pub sh_flags: u32,
    /// Size of an element in bytes.
    pub entsize: u32,
    /// Alignment as a power of two.
    pub align_log2: u8,
    /// The bytes, with a string's terminator.
    pub bytes: &'a [u8],
}

impl PieceFacts<'_> {
    fn put(&self, buffer: &mut Vec<u8>) {
        string(buffer, self.section_name);
        u32(buffer, self.sh_flags);
        u32(buffer, self.entsize);
        buffer.push(self.align_log2);
        string(buffer, self.bytes);
    }
}

/// Encodes one thing after another into one buffer that keeps its memory.
#[derive(Default)]
pub struct Encoder {
    buffer: Vec<u8>,
}

impl Encoder {
    /// An encoder with an empty buffer.
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// Begins a compilation: all members, then all symbols, groups and
    /// bindings, then [`CompilationEncoder::finish`]. Of the header, everything but
    /// `section_count` and `wide_count` (which follow from the rest) is digested.
    pub fn compilation(&mut self, header: &CompilationHeader) -> CompilationEncoder<'_> {
        self.buffer.clear();
        for value in [
            header.member_count,
            header.symbol_count,
            header.first_global,
            header.group_count,
            header.binding_count,
            header.e_flags,
            u32::from(header.machine),
            u32::from(header.os_abi),
            u32::from(header.abi_version),
            header.bits,
        ] {
            u32(&mut self.buffer, value);
        }
        CompilationEncoder(&mut self.buffer)
    }
}

fn u32(buffer: &mut Vec<u8>, value: u32) {
    buffer.extend_from_slice(&value.to_le_bytes());
}

fn u64(buffer: &mut Vec<u8>, value: u64) {
    buffer.extend_from_slice(&value.to_le_bytes());
}

/// Strings in ELF objects are shorter than 4 GiB; a longer one is refused by the
/// splitter long before, so saturating keeps the encoding injective.
fn string(buffer: &mut Vec<u8>, bytes: &[u8]) {
    u32(buffer, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    buffer.extend_from_slice(bytes);
}

/// Writes the parts of one fragment behind its body: all targets, then all sections.
pub struct FragmentEncoder<'b> {
    buffer: &'b mut Vec<u8>,
    /// Where the body begins and ends.
    body: std::ops::Range<usize>,
}

impl<'b> FragmentEncoder<'b> {
    /// Begins a fragment whose body is what `buffer` has from `body` on: the fixups of all sections, then the bytes of all
    /// sections, as they are in the value.
    ///
    /// # Panics
    /// If `buffer` is not so long.
    pub fn new(
        buffer: &'b mut Vec<u8>,
        body: usize,
        section_count: u32,
        target_count: u32,
        bindable_count: u32,
    ) -> FragmentEncoder<'b> {
        let body = body..buffer.len();
        assert!(body.start <= body.end, "the body begins behind its end");
        u32(buffer, section_count);
        u32(buffer, target_count);
        u32(buffer, bindable_count);
        FragmentEncoder { buffer, body }
    }

    /// What the buffer had before the body, and has in it.
    pub fn written(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// A target that is known by a name: global, local, or named section.
    pub fn target_name(&mut self, kind: TargetKind, name: &[u8]) {
        self.buffer.push(kind as u8);
        string(self.buffer, name);
    }

    /// An anonymous fragment, which is known by its digest.
    pub fn target_anonymous(&mut self, digest: &Digest) {
        self.buffer.push(TargetKind::OwnAnonymous as u8);
        self.buffer.extend_from_slice(&digest.0);
    }

    /// A piece.
    pub fn target_piece(&mut self, piece: &PieceFacts<'_>) {
        self.buffer.push(TargetKind::Piece as u8);
        piece.put(self.buffer);
    }

    /// A section of this fragment.
    pub fn target_section(&mut self, index: u32) {
        self.buffer.push(TargetKind::Section as u8);
        u32(self.buffer, index);
    }

    /// A section. `name` is without the member's suffix.
    pub fn section(&mut self, name: &[u8], facts: &SectionFacts) {
        let buffer = &mut *self.buffer;
        string(buffer, name);
        u64(buffer, facts.size);
        u32(buffer, facts.sh_type);
        u32(buffer, facts.sh_flags);
        u32(buffer, facts.entsize);
        buffer.extend_from_slice(&[facts.kind, facts.align_log2, facts.bits, facts.target_bits]);
        u32(buffer, facts.link);
        u32(buffer, facts.fixup_count);
    }

    /// The fragment's digest. The buffer ends with the body again.
    pub fn finish(self) -> Digest {
        u64(self.buffer, self.body.len() as u64);
        let digest = Digest::keyed(FRAGMENT, &self.buffer[self.body.start..]);
        self.buffer.truncate(self.body.end);
        digest
    }
}

/// Writes the parts of one compilation.
pub struct CompilationEncoder<'a>(&'a mut Vec<u8>);

impl CompilationEncoder<'_> {
    /// A member: its fragment, suffix, and 1 + its group or 0.
    pub fn member(&mut self, fragment: &Digest, suffix: &[u8], group: u32) {
        self.0.extend_from_slice(&fragment.0);
        string(self.0, suffix);
        u32(self.0, group);
    }

    /// A symbol; `piece` is that in which it is defined, if it is in one, and then
    /// `record.section` does not matter. `value` and `size` are the real ones (not
    /// indices of wide words); of `record.bits`, all but `WIDE` is digested.
    pub fn symbol(
        &mut self,
        name: &[u8],
        record: &SymbolRecord,
        value: u64,
        size: u64,
        piece: Option<&PieceFacts<'_>>,
    ) {
        let buffer = &mut *self.0;
        string(buffer, name);
        let bits = (record.bits & !SymbolRecord::WIDE) as u8;
        buffer.extend_from_slice(&[record.info, record.other, bits]);
        match piece {
            Some(piece) => piece.put(buffer),
            None => u32(buffer, record.section),
        }
        u64(buffer, value);
        u64(buffer, size);
    }

    /// A section group.
    pub fn group(&mut self, signature: &[u8], flags: u32) {
        string(self.0, signature);
        u32(self.0, flags);
    }

    /// All bindings, in order.
    pub fn bindings(&mut self, symbols: &[u32]) {
        for &symbol in symbols {
            u32(self.0, symbol);
        }
    }

    /// The compilation's digest.
    pub fn finish(self) -> Digest {
        Digest::keyed(COMPILATION, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_do_not_share_digests_and_strings_are_delimited() {
        let of_piece = |align_log2| {
            let mut buffer = Vec::new();
            let mut fragment = FragmentEncoder::new(&mut buffer, 0, 0, 1, 0);
            fragment.target_piece(&PieceFacts {
                section_name: b".rodata",
                sh_flags: 0x32,
                entsize: 1,
                align_log2,
                bytes: b"ab\0",
            });
            fragment.finish()
        };
        assert_eq!(of_piece(0), of_piece(0));
        assert_ne!(of_piece(0), of_piece(3));
        let fragment = |body: &[u8], names: [&[u8]; 2]| {
            let mut buffer = body.to_vec();
            let mut fragment = FragmentEncoder::new(&mut buffer, 0, 0, 2, 2);
            for name in names {
                fragment.target_name(TargetKind::Global, name);
            }
            let digest = fragment.finish();
            assert_eq!(buffer, body);
            digest
        };
        let first = fragment(b"", [b"ab", b"c"]);
        assert_ne!(first, fragment(b"", [b"a", b"bc"]));
        // A body that is the beginning of what follows an empty one.
        assert_ne!(first, fragment(&[0, 0, 0, 0], [b"ab", b"c"]));
    }
}
