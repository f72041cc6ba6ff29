//! A reader of program repositories that was written from parts 2 and 3 of SPEC.md. It uses nothing of this project.
//!
//! [`Programs::check`] holds a whole file to the specification: every record is taken apart byte by byte, every reference is
//! followed, every digest, check and outline computed again. What is wrong is a panic that says where.

#![allow(dead_code, unused_imports, reason = "each test uses a part of this")]

use super::reader::Reader;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

mod compilations;
mod compressed;
mod cursor;
mod envelopes;
mod fragments;
mod outlines;

pub use compilations::{Compilation, Member, Placed, Shape};
use compressed::{lz4, take_planes};
use cursor::{Cursor, Digested, blake3_of, check_of, short_key};
pub use fragments::{
    CIE, EXTENDED, Fixup, Fragment, PACKED, Piece, SUFFIXED, Section, WHOLE_UNWIND, WIDE,
};

pub type Key = [u8; 32];

/// What was read, in numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub packs: u64,
    pub names: u64,
    pub pieces: u64,
    pub fragments: u64,
    pub compressed: u64,
    pub packed: u64,
    pub narrow: u64,
    pub wide: u64,
    pub compilations: u64,
    /// Of these, those that are recorded compressed.
    pub compressed_compilations: u64,
    /// And those that are recorded as differences.
    pub differences: u64,
    pub members: u64,
    pub plain: u64,
    pub one_fde: u64,
    pub tickets: u64,
    pub images: u64,
    pub envelopes: u64,
}

/// The newest revision of a program repository.
pub struct Programs {
    file: Reader,
    trailer: u64,
    /// The newest records, by index and key.
    records: BTreeMap<(u8, Key), u64>,
    names: Vec<u64>,
    pieces: Vec<u64>,
    packs: u64,
}

impl Programs {
    pub fn new(bytes: Vec<u8>) -> Programs {
        let file = Reader(bytes);
        let trailer = file.state_word(512);
        let mut records = BTreeMap::new();
        let mut numbered = vec![Vec::new(); 8];
        let (mut at, mut packs) = (4096, 0);
        while at <= trailer {
            let (_, _, _, _, next) = file.item(at);
            let packed = file.packed(at);
            for &at in [at].iter().chain(&packed) {
                if let Some((index, key, _)) = file.record(at) {
                    records.insert((index, key), at);
                }
                if let Some(vector) = file.numbered_by(at) {
                    numbered[usize::from(vector)].push(at);
                }
            }
            packs += u64::from(!packed.is_empty());
            at = next;
        }
        let (names, pieces) = (file.vector(trailer, 0), file.vector(trailer, 1));
        // Names and pieces are numbered in the order of the log.
        assert_eq!([&names, &pieces], [&numbered[0], &numbered[1]]);
        // Section 3: who does not know packs must not read them.
        assert_eq!(packs > 0, file.u64(trailer + 72 + 16) == 1);
        Programs {
            trailer,
            packs,
            records,
            names,
            pieces,
            file,
        }
    }

    /// The address of a record.
    pub fn find(&self, index: u8, key: &Key) -> Option<u64> {
        self.records.get(&(index, *key)).copied()
    }

    /// The keys of an index with the addresses of their records.
    pub fn index(&self, index: u8) -> impl Iterator<Item = (Key, u64)> {
        let all = self.records.range((index, [0; 32])..=(index, [0xff; 32]));
        all.map(|((_, key), address)| (*key, *address))
    }

    pub fn vector(&self, vector: u64) -> Vec<u64> {
        self.file.vector(self.trailer, vector)
    }

    /// Index, key and value of the record at an address.
    pub fn record(&self, address: u64) -> (u8, Key, &[u8]) {
        self.file.record(address).expect("a record")
    }

    pub(super) fn value(&self, address: u64, index: u8) -> &[u8] {
        let (found, _, value) = self.record(address);
        assert_eq!(found, index, "{address:#x}");
        value
    }

    /// Section 16.
    pub fn name(&self, id: u32) -> &[u8] {
        let mut cursor = Cursor::new(self.value(self.names[id as usize], 0));
        assert_eq!(cursor.u32(), id);
        cursor.rest()
    }

    /// The seed of the keys of names and pieces, sections 16 and 17.
    pub(super) fn seed(&self) -> u64 {
        self.file.u64(16) ^ self.file.u64(24)
    }

    /// Holds all of it to the specification.
    pub fn check(&self) -> Summary {
        let mut summary = Summary {
            packs: self.packs,
            names: self.names.len() as u64,
            pieces: self.pieces.len() as u64,
            ..Summary::default()
        };
        assert!(self.names.is_empty() || self.name(0).is_empty());
        let mut envelopes = 0;
        for (&(index, key), &address) in &self.records {
            // By the index as well, which leads to the same.
            let found = self.file.look_up(self.trailer, index.into(), &key);
            assert_eq!(found, Some(self.record(address).2), "{address:#x}");
            match index {
                0 => {
                    let id = u32::from_le_bytes(self.value(address, 0)[..4].try_into().unwrap());
                    assert_eq!(self.names[id as usize], address);
                    assert_eq!(short_key(self.name(id), self.seed()), key);
                }
                1 => {
                    let mut head = self.value(address, 1)[..16].to_vec();
                    let id = u32::from_le_bytes(head[8..12].try_into().unwrap());
                    assert_eq!(self.pieces[id as usize], address);
                    head[8..12].fill(0);
                    let class = xxhash_rust::xxh3::xxh3_64_with_seed(&head, self.seed());
                    assert_eq!(short_key(self.piece(id).bytes, class), key);
                }
                2 => {
                    assert_eq!(self.fragment_digest(address), key, "{address:#x}");
                    summary.fragments += 1;
                    summary.compressed += u64::from(self.plain_fragment(address).1);
                    for section in &self.fragment(address).sections {
                        match section.bits & (PACKED | WIDE) {
                            PACKED => summary.packed += 1,
                            WIDE => summary.wide += 1,
                            _ => summary.narrow += u64::from(!section.fixups.is_empty()),
                        }
                    }
                }
                3 => {
                    let compilation = self.compilation(address);
                    assert_eq!(self.compilation_digest(&compilation), key, "{address:#x}");
                    self.check_outline(&compilation, &mut summary);
                    summary.compilations += 1;
                    let marker = self.value(address, 3)[..4].try_into().unwrap();
                    let marker = u32::from_le_bytes(marker);
                    summary.compressed_compilations += u64::from(marker == u32::MAX - 1);
                    summary.differences += u64::from(marker == u32::MAX);
                    summary.members += compilation.members.len() as u64;
                }
                4 => {
                    let (compilation, _, path) = self.ticket(address);
                    assert_eq!(blake3_of(path), key);
                    assert!(compilation < address);
                    self.compilation(compilation);
                    summary.tickets += 1;
                }
                6 => {
                    let image = self.image(address);
                    assert_eq!(blake3_of(image.path), key);
                    for (compilation, _) in image.inputs {
                        if compilation > 0 {
                            self.compilation(compilation);
                        }
                    }
                    summary.images += 1;
                }
                _ => {
                    let envelope = self.envelope(address);
                    self.check_kind(index, &key, &envelope);
                    envelopes += 1;
                }
            }
        }
        summary.envelopes = envelopes;
        for vector in 2..8 {
            for element in self.vector(vector) {
                if element > 0 {
                    self.record(element);
                }
            }
        }
        // Section 24: the feature is set where there are some.
        let features = self.file.u64(self.trailer + 72) | self.file.u64(40);
        assert!(envelopes == 0 || features & 1 == 1);
        summary
    }
}
