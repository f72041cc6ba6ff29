//! Bodies of the records that are written in envelopes (SPEC.md, sections 21 and 26 to 34), as far as they are settled.
//!
//! A body names records, names and pieces by their places in the lists of its [`Envelope`]. What has no body here has its
//! index, key and class in SPEC.md; its body has version 0 until somebody writes it.

use crate::digest::Digest;
use crate::envelope::{Envelope, Strength};
use crate::ids::NameId;
use bytemuck::{Pod, Zeroable};

/// Version of all bodies that this module describes.
pub const BODY_VERSION: u8 = 1;

/// Head of the body of a type's record; the type's bytes follow. The envelope has the types that it refers
/// to, all strongly, and its name.
///
/// The bytes are the canonical form of the type's DIE tree (DWARF 5, section
/// 7.32, "Type Signature Computation") with a reference to another type
/// replaced by that type's place among the references: so types are vertices of a
/// graph, shared by all compilations that mention them.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct TypeBody {
    /// DWARF tag (`DW_TAG_*`).
    pub tag: u16,
    /// Zero.
    pub reserved: [u16; 3],
}

/// Body of a compiler's record. The envelope has one name, the absolute path of the compiler's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct CompilerBody {
    /// Size of the file, bytes.
    pub size: u64,
    /// When it was modified, in nanoseconds since 1970.
    pub modified: u64,
    /// What tells this compiler from others, whatever its path and time: a digest that its user computes.
    pub identity: Digest,
}

/// Body of the record of a last use. The envelope has the record that was used as its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LastUseBody {
    /// Days since 1970-01-01 UTC.
    pub day: u32,
    /// Zero.
    pub reserved: u32,
}

/// Body of the record of a prefix: a directory below which a compactor looks for tickets. The envelope has one name, the
/// directory's absolute path, and no references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct PrefixBody {
    /// When the user named it, in nanoseconds since 1970.
    pub named: u64,
}

/// Head of a manifest's body. After it come `result_count` × [`ManifestResult`], and for each of these
/// [`ManifestHeader::words`] words of 64 bits, which say of which conditions it is.
///
/// The envelope's names are the parts of the key, in their order, and then the conditions of all results ([`Condition`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ManifestHeader {
    /// Number of the parts of the key.
    pub part_count: u32,
    /// Number of conditions of all results.
    pub condition_count: u32,
    /// Number of results.
    pub result_count: u32,
    /// When it was written: days since 1970-01-01 UTC. It was used on this day, at least.
    pub day: u32,
}

impl ManifestHeader {
    /// How many words say of a result which of the conditions are its own.
    pub const fn words(&self) -> usize {
        (self.condition_count as usize).div_ceil(64)
    }
}

/// What an invocation made of its inputs as they once were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ManifestResult {
    /// 1 + place, in the references, of the compilation; 0 for none.
    pub compilation: u32,
    /// 1 + place, in the references, of what was written to standard error; 0 for nothing.
    pub diagnostics: u32,
    /// 1 + place, in the references, of the dependency file; 0 for none.
    pub dependencies: u32,
    /// 1 + place, in the references, of whole files that were written; 0 for none.
    pub files: u32,
    /// [`ManifestResult::COLOURED`] or 0.
    pub bits: u32,
    /// 0.
    pub reserved: u32,
}

impl ManifestResult {
    /// What was written to standard error is for a terminal.
    pub const COLOURED: u32 = 1;
}

/// What must be so for a result to be what the compiler would make again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition<'a> {
    /// A file has bytes of this digest.
    File(Digest, &'a [u8]),
    /// Of functions in the sources that are texts ([`Condition::Text`]), which bodies matter.
    Bodies {
        /// What counts as a body, by the number that the writer has for it.
        version: u8,
        /// Two bytes for each function whose body matters, ascending.
        used: &'a [u8],
        /// Two bytes for each word that the body of another must not have, ascending.
        reaching: &'a [u8],
    },
    /// A source is a text that, without comments, has this digest.
    Text {
        /// Of the text without comments, or of its bytes, as `keeps` says.
        rest: Digest,
        /// What must be as it was.
        keeps: TextKeeps,
        /// The file's path.
        path: &'a [u8],
    },
    /// In a directory are entries of this digest. If they are others, what was looked for there is looked for again.
    Listing(Digest, &'a [u8]),
    /// Of this path there is no file.
    Absent(&'a [u8]),
    /// There is nothing of this path: neither a file nor a directory, and so nothing below it.
    Nothing(&'a [u8]),
    /// There is nothing that compilers take in place of what is at this path: of this name with `.gch` or `.pch` behind it.
    NotPrecompiled(&'a [u8]),
    /// As `Absent`; it is enough that the directories above it list what they did.
    NotListed(&'a [u8]),
    /// Of this path there is a file, whatever is in it.
    Present(&'a [u8]),
    /// The directories that are searched, each with a NUL behind it. A result has one such condition at most.
    Search(&'a [u8]),
    /// A variable of the environment: `NAME=VALUE`, or `NAME` for one that is not set.
    Variable(&'a [u8]),
    /// In `count` of the directories searched, from `first` on, there is no file of this name; it is enough that they list
    /// what they did.
    NotFound {
        /// Number of the first directory.
        first: u8,
        /// Number of directories.
        count: u8,
        /// What was looked for.
        name: &'a [u8],
    },
}

/// What of a text must be as it was ([`Condition::Text`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TextKeeps {
    /// The text without comments; lines of nothing but blanks and comments are left out.
    Order = 0,
    /// The text without comments, in which all else keeps its place.
    Places = 1,
    /// As `Places`; or as `Order`, where the lines in the object's debug information are moved.
    PlacesOrMoved = 2,
    /// The bytes; or as `Order`, where the lines in the object's debug information are moved.
    BytesOrMoved = 3,
}

impl TextKeeps {
    fn from_byte(byte: u8) -> Option<TextKeeps> {
        Some(match byte {
            0 => TextKeeps::Order,
            1 => TextKeeps::Places,
            2 => TextKeeps::PlacesOrMoved,
            3 => TextKeeps::BytesOrMoved,
            _ => return None,
        })
    }
}

impl<'a> Condition<'a> {
    /// The condition that a name is; `None` if it is none of these.
    pub fn parse(name: &'a [u8]) -> Option<Condition<'a>> {
        let (kind, rest) = name.split_first()?;
        let with_digest = || {
            let (digest, path) = rest.split_first_chunk::<32>()?;
            Some((Digest(*digest), path))
        };
        Some(match kind {
            b'F' => with_digest().map(|(digest, path)| Condition::File(digest, path))?,
            b'T' => {
                let (rest, after) = with_digest()?;
                let (&keeps, path) = after.split_first()?;
                Condition::Text {
                    rest,
                    keeps: TextKeeps::from_byte(keeps)?,
                    path,
                }
            }
            b'B' => {
                let (&version, rest) = rest.split_first()?;
                let (size, rest) = rest.split_first_chunk::<4>()?;
                let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
                let (used, reaching) = rest.split_at_checked(size.checked_mul(2)?)?;
                if !reaching.len().is_multiple_of(2) {
                    return None;
                }
                Condition::Bodies {
                    version,
                    used,
                    reaching,
                }
            }
            b'L' => with_digest().map(|(digest, path)| Condition::Listing(digest, path))?,
            b'A' => Condition::Absent(rest),
            b'E' => Condition::Nothing(rest),
            b'G' => Condition::NotPrecompiled(rest),
            b'S' => Condition::NotListed(rest),
            b'P' => Condition::Present(rest),
            b'D' => Condition::Search(rest),
            b'V' => Condition::Variable(rest),
            b'N' => {
                let (&[first, count], name) = rest.split_first_chunk::<2>()?;
                Condition::NotFound { first, count, name }
            }
            _ => return None,
        })
    }

    /// The name that says it.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Condition::File(digest, path) => [b"F", &digest.0[..], path].concat(),
            Condition::Text { rest, keeps, path } => {
                [b"T", &rest.0[..], &[*keeps as u8], path].concat()
            }
            Condition::Bodies {
                version,
                used,
                reaching,
            } => {
                let count = (used.len() / 2) as u32;
                [&[b'B', *version][..], &count.to_le_bytes(), used, reaching].concat()
            }
            Condition::Listing(digest, path) => [b"L", &digest.0[..], path].concat(),
            Condition::Absent(path) => [b"A", *path].concat(),
            Condition::Nothing(path) => [b"E", *path].concat(),
            Condition::NotPrecompiled(path) => [b"G", *path].concat(),
            Condition::NotListed(path) => [b"S", *path].concat(),
            Condition::Present(path) => [b"P", *path].concat(),
            Condition::Search(directories) => [b"D", *directories].concat(),
            Condition::Variable(text) => [b"V", *text].concat(),
            Condition::NotFound { first, count, name } => {
                [&[b'N', *first, *count][..], name].concat()
            }
        }
    }
}

/// A manifest's body taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Manifest<'a> {
    /// The parts of its key.
    pub parts: &'a [NameId],
    /// The conditions of all results.
    pub conditions: &'a [NameId],
    /// Its results, newest first.
    pub results: &'a [ManifestResult],
    /// When it was written: days since 1970.
    pub day: u32,
    words: &'a [u64],
}

impl<'a> Manifest<'a> {
    /// Takes a manifest's body apart; `None` if it is none, or of another version.
    pub fn parse(envelope: &Envelope<'a>) -> Option<Manifest<'a>> {
        let body = of_this_version(envelope)?;
        let (header, rest) = body.split_at_checked(size_of::<ManifestHeader>())?;
        let header: &ManifestHeader = bytemuck::try_from_bytes(header).ok()?;
        let results = size_of::<ManifestResult>().checked_mul(header.result_count as usize)?;
        let (results, words) = rest.split_at_checked(results)?;
        let results: &[ManifestResult] = bytemuck::try_cast_slice(results).ok()?;
        let words: &[u64] = bytemuck::try_cast_slice(words).ok()?;
        let is = |place: u32| {
            let reference = envelope.references.get(place as usize);
            reference.is_some_and(|reference| reference.strength() == Some(Strength::Strong))
        };
        let is_or_none = |place: u32| place.checked_sub(1).is_none_or(is);
        let result_is_good = |result: &ManifestResult| {
            is_or_none(result.compilation)
                && is_or_none(result.diagnostics)
                && is_or_none(result.dependencies)
                && is_or_none(result.files)
                && result.compilation.max(result.files) > 0
                && result.bits & !ManifestResult::COLOURED == 0
                && result.reserved == 0
        };
        let names = (header.part_count as usize).checked_add(header.condition_count as usize)?;
        // What lies beyond the last condition belongs to none.
        let beyond = match header.condition_count % 64 {
            0 => 0,
            some => u64::MAX << some,
        };
        let per_result = header.words();
        let is_good = names == envelope.names.len()
            && Some(words.len()) == per_result.checked_mul(results.len())
            && results.iter().all(result_is_good)
            && (words.chunks_exact(per_result.max(1)))
                .all(|words| words.last().is_none_or(|last| last & beyond == 0));
        let (parts, conditions) = envelope
            .names
            .split_at_checked(header.part_count as usize)?;
        is_good.then_some(Manifest {
            parts,
            conditions,
            results,
            day: header.day,
            words,
        })
    }

    /// The words that say which conditions are those of a result: bit `n % 64` of word `n / 64` for condition `n`.
    pub fn words_of(&self, result: usize) -> &'a [u64] {
        let count = self.conditions.len().div_ceil(64);
        self.words
            .get(result * count..(result + 1) * count)
            .unwrap_or_default()
    }

    /// The conditions of a result.
    pub fn conditions_of(&self, result: usize) -> impl Iterator<Item = (usize, NameId)> + use<'a> {
        let words = self.words_of(result);
        let all = self.conditions.iter().copied().enumerate();
        all.filter(move |(number, _)| words[number / 64] >> (number % 64) & 1 != 0)
    }
}

impl CompilerBody {
    /// The body of a compiler's record; `None` if it is none, or of another version.
    pub fn parse<'a>(envelope: &Envelope<'a>) -> Option<&'a CompilerBody> {
        let body = of_this_version(envelope)?;
        let has_path = envelope.names.len() == 1;
        bytemuck::try_from_bytes(body).ok().filter(|_| has_path)
    }
}

impl LastUseBody {
    /// The body of the record of a last use; `None` if it is none, or of another version.
    pub fn parse<'a>(envelope: &Envelope<'a>) -> Option<&'a LastUseBody> {
        let body: &LastUseBody = bytemuck::try_from_bytes(of_this_version(envelope)?).ok()?;
        let [owner] = envelope.references else {
            return None;
        };
        let is_good = body.reserved == 0 && owner.strength() == Some(Strength::Owner);
        is_good.then_some(body)
    }
}

impl PrefixBody {
    /// The body of a prefix's record; `None` if it is none, or of another version.
    pub fn parse<'a>(envelope: &Envelope<'a>) -> Option<&'a PrefixBody> {
        let body = of_this_version(envelope)?;
        let has_path = envelope.names.len() == 1 && envelope.references.is_empty();
        bytemuck::try_from_bytes(body).ok().filter(|_| has_path)
    }
}

impl TypeBody {
    /// The head of the body of a type's record, and the type's bytes; `None` if it is none, or of another version.
    pub fn parse<'a>(envelope: &Envelope<'a>) -> Option<(&'a TypeBody, &'a [u8])> {
        let (head, bytes) = of_this_version(envelope)?.split_at_checked(size_of::<TypeBody>())?;
        let head: &TypeBody = bytemuck::try_from_bytes(head).ok()?;
        let is_strong = |strength| strength == Some(Strength::Strong);
        let is_good = head.reserved == [0; 3]
            && envelope.names.len() == 1
            && (envelope.references.iter()).all(|reference| is_strong(reference.strength()));
        is_good.then_some((head, bytes))
    }
}

fn of_this_version<'a>(envelope: &Envelope<'a>) -> Option<&'a [u8]> {
    (envelope.body_version == BODY_VERSION).then_some(envelope.body)
}

/// SPEC.md gives these sizes and offsets.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Class, Reference};
    use crate::ids::{Address, NameId};
    use std::mem::offset_of;

    #[test]
    fn bodies_are_as_specified() {
        assert_eq!(size_of::<TypeBody>(), 8);
        assert_eq!(size_of::<CompilerBody>(), 48);
        assert_eq!(offset_of!(CompilerBody, modified), 8);
        assert_eq!(offset_of!(CompilerBody, identity), 16);
        assert_eq!(size_of::<LastUseBody>(), 8);
        assert_eq!(size_of::<ManifestHeader>(), 16);
        assert_eq!(offset_of!(ManifestHeader, result_count), 8);
        assert_eq!(size_of::<ManifestResult>(), 24);
        assert_eq!(offset_of!(ManifestResult, dependencies), 8);
        assert_eq!(offset_of!(ManifestResult, bits), 16);
    }

    const REFERENCES: [Reference; 3] = [
        Reference::new(Address(0x1000), Strength::Strong),
        Reference::new(Address(0x1008), Strength::Owner),
        Reference::new(Address(0x1010), Strength::Strong),
    ];

    fn in_envelope(body: &[u8]) -> Envelope<'_> {
        Envelope {
            class: Class::AttachedToAny as u8,
            body_version: BODY_VERSION,
            references: &REFERENCES,
            names: &[NameId(4)],
            pieces: &[],
            body,
        }
    }

    const HEADER: ManifestHeader = ManifestHeader {
        part_count: 1,
        condition_count: 2,
        result_count: 1,
        day: 20_000,
    };
    const RESULT: ManifestResult = ManifestResult {
        compilation: 1,
        diagnostics: 3,
        dependencies: 0,
        files: 0,
        bits: ManifestResult::COLOURED,
        reserved: 0,
    };

    /// Whether this is a manifest.
    fn is_manifest(header: ManifestHeader, result: ManifestResult, words: &[u64]) -> bool {
        let mut body: Vec<u64> = Vec::new();
        body.extend(bytemuck::cast::<_, [u64; 2]>(header));
        body.extend(bytemuck::cast::<_, [u64; 3]>(result));
        body.extend(words);
        let envelope = Envelope {
            names: &[NameId(1), NameId(2), NameId(3)],
            ..in_envelope(bytemuck::cast_slice(&body))
        };
        let Some(manifest) = Manifest::parse(&envelope) else {
            return false;
        };
        assert_eq!(manifest.results, [result]);
        assert_eq!(manifest.parts, [NameId(1)]);
        assert_eq!(manifest.conditions, [NameId(2), NameId(3)]);
        let mut of_it = manifest.conditions_of(0);
        assert_eq!((of_it.next(), of_it.next()), (Some((1, NameId(3))), None));
        let other = Envelope {
            body_version: 2,
            ..envelope
        };
        assert!(Manifest::parse(&other).is_none());
        true
    }

    #[test]
    fn manifests_refer_to_what_is_there() {
        assert!(is_manifest(HEADER, RESULT, &[2]));
        let of_files = ManifestResult {
            compilation: 0,
            files: 1,
            ..RESULT
        };
        assert!(is_manifest(HEADER, of_files, &[2]));
        let results = [
            ManifestResult {
                compilation: 2,
                ..RESULT
            },
            ManifestResult {
                compilation: 4,
                ..RESULT
            },
            // Nothing at all was made.
            ManifestResult {
                compilation: 0,
                ..RESULT
            },
            ManifestResult { files: 2, ..RESULT },
            ManifestResult {
                diagnostics: 2,
                ..RESULT
            },
            ManifestResult {
                diagnostics: 4,
                ..RESULT
            },
            ManifestResult {
                dependencies: u32::MAX,
                ..RESULT
            },
            ManifestResult { bits: 2, ..RESULT },
            ManifestResult {
                reserved: 1,
                ..RESULT
            },
        ];
        for result in results {
            assert!(!is_manifest(HEADER, result, &[2]), "{result:?}");
        }
        for words in [&[][..], &[4], &[2, 0]] {
            assert!(!is_manifest(HEADER, RESULT, words), "{words:?}");
        }
        let headers = [
            ManifestHeader {
                part_count: 2,
                ..HEADER
            },
            ManifestHeader {
                part_count: u32::MAX,
                ..HEADER
            },
            ManifestHeader {
                condition_count: 65,
                ..HEADER
            },
            ManifestHeader {
                result_count: 0,
                ..HEADER
            },
            ManifestHeader {
                result_count: u32::MAX,
                ..HEADER
            },
        ];
        for header in headers {
            assert!(!is_manifest(header, RESULT, &[2]), "{header:?}");
        }
    }

    #[test]
    fn conditions_are_read_as_they_were_written() {
        let digest = Digest([7; 32]);
        let text = |keeps| Condition::Text {
            rest: digest,
            keeps,
            path: b"a.h",
        };
        for condition in [
            Condition::File(digest, b"a.c"),
            text(TextKeeps::Order),
            text(TextKeeps::Places),
            text(TextKeeps::PlacesOrMoved),
            text(TextKeeps::BytesOrMoved),
            Condition::Bodies {
                version: 1,
                used: &[1, 2, 3, 4],
                reaching: &[5, 6],
            },
            Condition::Bodies {
                version: 255,
                used: &[],
                reaching: &[],
            },
            Condition::Listing(digest, b""),
            Condition::Absent(b"/x"),
            Condition::NotPrecompiled(b"/x.h"),
            Condition::NotListed(b"y"),
            Condition::Present(b"z"),
            Condition::Search(b"/usr/include\0/include\0"),
            Condition::Variable(b"A=b"),
            Condition::NotFound {
                first: 1,
                count: 255,
                name: b"stdio.h",
            },
        ] {
            assert_eq!(Condition::parse(&condition.encode()), Some(condition));
        }
        for name in [
            &b""[..],
            b"F",
            b"Lshort",
            b"N",
            b"N1",
            b"?",
            b"a.c",
            b"B",
            b"B\x01\x01\0\0\0x",
            b"B\x01\0\0\0\0x",
        ] {
            assert_eq!(Condition::parse(name), None);
        }
    }

    #[test]
    fn small_bodies_are_read_whole_or_not() {
        let compiler = CompilerBody {
            size: 1,
            modified: 2,
            identity: Digest([3; 32]),
        };
        let words: [u64; 6] = bytemuck::cast(compiler);
        let envelope = in_envelope(bytemuck::cast_slice(&words));
        assert_eq!(CompilerBody::parse(&envelope), Some(&compiler));
        let nameless = Envelope {
            names: &[],
            ..envelope
        };
        assert_eq!(CompilerBody::parse(&nameless), None);
        assert_eq!(
            CompilerBody::parse(&in_envelope(&envelope.body[..40])),
            None
        );

        let day = [20_000_u64];
        let day: &[u8] = bytemuck::cast_slice(&day);
        let used = Envelope {
            references: &REFERENCES[1..2],
            ..in_envelope(day)
        };
        assert_eq!(LastUseBody::parse(&used).map(|body| body.day), Some(20_000));
        assert_eq!(LastUseBody::parse(&in_envelope(day)), None);

        let named = Envelope {
            references: &[],
            names: &envelope.names[..1],
            ..in_envelope(day)
        };
        assert_eq!(
            PrefixBody::parse(&named),
            Some(&PrefixBody { named: 20_000 })
        );
        assert_eq!(PrefixBody::parse(&used), None);

        let of_type = [0x24_u64, 0x7478_6574];
        let of_type: &[u8] = bytemuck::cast_slice(&of_type);
        let strong = Envelope {
            references: &REFERENCES[..1],
            ..in_envelope(&of_type[..12])
        };
        let (head, bytes) = TypeBody::parse(&strong).unwrap();
        assert_eq!((head.tag, bytes), (0x24, &b"text"[..]));
        assert!(TypeBody::parse(&in_envelope(of_type)).is_none());
    }
}
