//! Canonical encodings: the bytes whose BLAKE3 is a digest of the program model.
//!
//! Nothing in them depends on one repository: names stand as strings, other
//! fragments and pieces as digests. Integers are little-endian and unaligned; a
//! string is its length (u32) and its bytes. Every encoding begins with 16 bytes
//! that say what it is, so that no two kinds of thing can share a digest. `SPEC.md`,
//! "Digests", has the layouts; a fragment's parts are written in the order in
//! which [`FragmentEncoder`]'s methods are named here.
//!
//! The encoder is used twice: on what a splitter has in memory, and on what a
//! reader finds in the file (`repo-dump --verify`).

use crate::digest::Digest;
use crate::program::{CompilationHeader, SymbolRecord, TargetKind};

const FRAGMENT: &[u8; 16] = b"repo.fragment.1\0";
const PIECE: &[u8; 16] = b"repo.piece.1\0\0\0\0";
const COMPILATION: &[u8; 16] = b"repo.compile.1\0\0";

/// What the bytes of a section are, beside its name, fixups and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionFacts {
    /// Size in memory, bytes.
    pub size: u64,
    /// ELF `sh_type`.
    pub sh_type: u32,
    /// ELF `sh_flags` as in [`SectionRecord`](crate::program::SectionRecord).
    pub sh_flags: u32,
    /// ELF `sh_entsize`.
    pub entsize: u32,
    /// A [`SectionKind`](crate::program::SectionKind).
    pub kind: u8,
    /// Alignment as a power of two.
    pub align_log2: u8,
    /// As in [`SectionRecord`](crate::program::SectionRecord).
    pub bits: u8,
    /// 1 + index of the target that `sh_link` names, or 0.
    pub link: u32,
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

    /// The digest of a piece (a string or constant of an `SHF_MERGE` section).
    pub fn piece(
        &mut self,
        section_name: &[u8],
        sh_flags: u32,
        entsize: u32,
        align_log2: u8,
        bytes: &[u8],
    ) -> Digest {
        self.begin(PIECE);
        self.string(section_name);
        self.u32(sh_flags);
        self.u32(entsize);
        self.u8(align_log2);
        self.buffer.extend_from_slice(bytes);
        self.finish()
    }

    /// Begins a fragment: all `target_count` targets, then all sections, then
    /// [`FragmentEncoder::finish`].
    pub fn fragment(
        &mut self,
        section_count: u32,
        target_count: u32,
        bindable_count: u32,
    ) -> FragmentEncoder<'_> {
        self.begin(FRAGMENT);
        self.u32(section_count);
        self.u32(target_count);
        self.u32(bindable_count);
        FragmentEncoder(self)
    }

    /// Begins a compilation: all members, then all symbols, groups and
    /// bindings, then [`CompilationEncoder::finish`]. Of the header, everything but
    /// `section_count` and `wide_count` (which follow from the rest) is digested.
    pub fn compilation(&mut self, header: &CompilationHeader) -> CompilationEncoder<'_> {
        self.begin(COMPILATION);
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
            self.u32(value);
        }
        CompilationEncoder(self)
    }

    fn begin(&mut self, tag: &[u8; 16]) {
        self.buffer.clear();
        self.buffer.extend_from_slice(tag);
    }

    fn u8(&mut self, value: u8) {
        self.buffer.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    /// Strings in ELF objects are shorter than 4 GiB; a longer one is refused by the
    /// splitter long before, so saturating keeps the encoding injective.
    fn string(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.buffer.extend_from_slice(bytes);
    }

    fn finish(&self) -> Digest {
        Digest::of(&self.buffer)
    }
}

/// Writes the parts of one fragment.
pub struct FragmentEncoder<'a>(&'a mut Encoder);

impl FragmentEncoder<'_> {
    /// A target that is known by a name: global, local, or named section.
    pub fn target_name(&mut self, kind: TargetKind, name: &[u8]) {
        self.0.u8(kind as u8);
        self.0.string(name);
    }

    /// A target that is known by its content: anonymous fragment or piece.
    pub fn target_content(&mut self, kind: TargetKind, digest: &Digest) {
        self.0.u8(kind as u8);
        self.0.buffer.extend_from_slice(&digest.0);
    }

    /// A section of this fragment.
    pub fn target_section(&mut self, index: u32) {
        self.0.u8(TargetKind::Section as u8);
        self.0.u32(index);
    }

    /// A section. `name` is without the member's suffix; `fixups` are the records'
    /// bytes (narrow or wide, which `facts.bits` says); `data` is empty for `SHT_NOBITS`.
    pub fn section(&mut self, name: &[u8], facts: &SectionFacts, fixups: &[u8], data: &[u8]) {
        let encoder = &mut *self.0;
        encoder.string(name);
        encoder.u64(facts.size);
        encoder.u32(facts.sh_type);
        encoder.u32(facts.sh_flags);
        encoder.u32(facts.entsize);
        encoder.u8(facts.kind);
        encoder.u8(facts.align_log2);
        encoder.u8(facts.bits);
        encoder.u32(facts.link);
        encoder.u64(fixups.len() as u64);
        encoder.buffer.extend_from_slice(fixups);
        encoder.u64(data.len() as u64);
        encoder.buffer.extend_from_slice(data);
    }

    /// The fragment's digest.
    pub fn finish(self) -> Digest {
        self.0.finish()
    }
}

/// Writes the parts of one compilation.
pub struct CompilationEncoder<'a>(&'a mut Encoder);

impl CompilationEncoder<'_> {
    /// A member: its fragment, suffix, and 1 + its group or 0.
    pub fn member(&mut self, fragment: &Digest, suffix: &[u8], group: u32) {
        self.0.buffer.extend_from_slice(&fragment.0);
        self.0.string(suffix);
        self.0.u32(group);
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
        piece: Option<&Digest>,
    ) {
        let encoder = &mut *self.0;
        encoder.string(name);
        encoder.u8(record.info);
        encoder.u8(record.other);
        encoder.u8((record.bits & !SymbolRecord::WIDE) as u8);
        match piece {
            Some(digest) => encoder.buffer.extend_from_slice(&digest.0),
            None => encoder.u32(record.section),
        }
        encoder.u64(value);
        encoder.u64(size);
    }

    /// A section group.
    pub fn group(&mut self, signature: &[u8], flags: u32) {
        self.0.string(signature);
        self.0.u32(flags);
    }

    /// All bindings, in order.
    pub fn bindings(&mut self, symbols: &[u32]) {
        for &symbol in symbols {
            self.0.u32(symbol);
        }
    }

    /// The compilation's digest.
    pub fn finish(self) -> Digest {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_do_not_share_digests_and_strings_are_delimited() {
        let mut encoder = Encoder::new();
        let one = encoder.piece(b".rodata", 0x32, 1, 0, b"ab\0");
        assert_eq!(one, encoder.piece(b".rodata", 0x32, 1, 0, b"ab\0"));
        assert_ne!(one, encoder.piece(b".rodata", 0x32, 1, 3, b"ab\0"));
        let mut fragment = encoder.fragment(0, 2, 2);
        fragment.target_name(TargetKind::Global, b"ab");
        fragment.target_name(TargetKind::Global, b"c");
        let first = fragment.finish();
        let mut fragment = encoder.fragment(0, 2, 2);
        fragment.target_name(TargetKind::Global, b"a");
        fragment.target_name(TargetKind::Global, b"bc");
        assert_ne!(first, fragment.finish());
    }
}
