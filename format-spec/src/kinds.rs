//! Bodies of the records that are written in envelopes (SPEC.md, sections 21 and 26 to 34), as far as they are settled.
//!
//! A body names records, names and pieces by their places in the lists of its [`Envelope`]. What has no body here has its
//! index, key and class in SPEC.md; its body has version 0 until somebody writes it.

use crate::digest::Digest;
use crate::envelope::{Envelope, Strength};
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

/// Head of a manifest's body. After it come `result_count` × [`ManifestResult`], `input_count` × [`ManifestInput`].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct ManifestHeader {
    /// Place, in the references, of the compiler's record.
    pub compiler: u32,
    /// Number of results.
    pub result_count: u32,
    /// Number of inputs of all results.
    pub input_count: u32,
    /// Zero.
    pub reserved: u32,
}

/// What an invocation made of inputs as they once were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ManifestResult {
    /// Place, in the references, of the compilation, an owner.
    pub compilation: u32,
    /// 1 + place, in the references, of what was written to standard error; 0 for nothing.
    pub diagnostics: u32,
    /// 1 + place, in the references, of the dependency file; 0 for none.
    pub dependencies: u32,
    /// Number of its first input, within all of the manifest.
    pub first_input: u32,
    /// Number of its inputs.
    pub input_count: u32,
    /// Zero.
    pub reserved: u32,
}

/// A file that was read, or looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ManifestInput {
    /// BLAKE3 of its bytes.
    pub digest: Digest,
    /// Its size, bytes.
    pub size: u64,
    /// When it was modified, in nanoseconds since 1970; 0 if that must not be relied on.
    pub modified: u64,
    /// Place, in the names, of its path, as it was opened.
    pub path: u32,
    /// [`ManifestInput::ABSENT`] or 0.
    pub bits: u32,
}

impl ManifestInput {
    /// There was no such file, and there must be none; digest, size and time are 0.
    pub const ABSENT: u32 = 1;
}

/// A manifest's body taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Manifest<'a> {
    /// Its head.
    pub header: &'a ManifestHeader,
    /// Its results, newest first.
    pub results: &'a [ManifestResult],
    /// The inputs of all results.
    pub inputs: &'a [ManifestInput],
}

impl<'a> Manifest<'a> {
    /// Takes a manifest's body apart; `None` if it is none, or of another version.
    pub fn parse(envelope: &Envelope<'a>) -> Option<Manifest<'a>> {
        let body = of_this_version(envelope)?;
        let (header, rest) = body.split_at_checked(size_of::<ManifestHeader>())?;
        let header: &ManifestHeader = bytemuck::try_from_bytes(header).ok()?;
        let results = size_of::<ManifestResult>() * header.result_count as usize;
        let (results, inputs) = rest.split_at_checked(results)?;
        let results: &[ManifestResult] = bytemuck::try_cast_slice(results).ok()?;
        let inputs: &[ManifestInput] = bytemuck::try_cast_slice(inputs).ok()?;
        let is = |place: u32, strength: Strength| {
            let reference = envelope.references.get(place as usize);
            reference.is_some_and(|reference| reference.strength() == Some(strength))
        };
        let is_or_none = |place: u32| match place.checked_sub(1) {
            Some(place) => is(place, Strength::Strong),
            None => true,
        };
        let result_is_good = |result: &ManifestResult| {
            is(result.compilation, Strength::Owner)
                && is_or_none(result.diagnostics)
                && is_or_none(result.dependencies)
                && (result.first_input.checked_add(result.input_count))
                    .is_some_and(|end| end as usize <= inputs.len())
                && result.reserved == 0
        };
        let input_is_good = |input: &ManifestInput| {
            let is_absent = input.bits & ManifestInput::ABSENT != 0;
            (input.path as usize) < envelope.names.len()
                && input.bits & !ManifestInput::ABSENT == 0
                && (!is_absent
                    || (input.digest, input.size, input.modified) == (Digest([0; 32]), 0, 0))
        };
        let is_good = header.reserved == 0
            && inputs.len() == header.input_count as usize
            && is(header.compiler, Strength::Strong)
            && results.iter().all(result_is_good)
            && inputs.iter().all(input_is_good);
        is_good.then_some(Manifest {
            header,
            results,
            inputs,
        })
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
        assert_eq!(offset_of!(ManifestHeader, input_count), 8);
        assert_eq!(size_of::<ManifestResult>(), 24);
        assert_eq!(offset_of!(ManifestResult, dependencies), 8);
        assert_eq!(offset_of!(ManifestResult, input_count), 16);
        assert_eq!(size_of::<ManifestInput>(), 56);
        assert_eq!(offset_of!(ManifestInput, size), 32);
        assert_eq!(offset_of!(ManifestInput, modified), 40);
        assert_eq!(offset_of!(ManifestInput, path), 48);
        assert_eq!(offset_of!(ManifestInput, bits), 52);
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
        compiler: 0,
        result_count: 1,
        input_count: 2,
        reserved: 0,
    };
    const RESULT: ManifestResult = ManifestResult {
        compilation: 1,
        diagnostics: 3,
        dependencies: 0,
        first_input: 0,
        input_count: 2,
        reserved: 0,
    };
    const INPUT: ManifestInput = ManifestInput {
        digest: Digest([7; 32]),
        size: 100,
        modified: 5,
        path: 0,
        bits: 0,
    };
    const ABSENT: ManifestInput = ManifestInput {
        digest: Digest([0; 32]),
        size: 0,
        modified: 0,
        path: 0,
        bits: ManifestInput::ABSENT,
    };

    /// Whether this is a manifest.
    fn is_manifest(header: ManifestHeader, result: ManifestResult, second: ManifestInput) -> bool {
        let mut body: Vec<u64> = Vec::new();
        body.extend(bytemuck::cast::<_, [u64; 2]>(header));
        body.extend(bytemuck::cast::<_, [u64; 3]>(result));
        body.extend(bytemuck::cast::<_, [u64; 7]>(INPUT));
        body.extend(bytemuck::cast::<_, [u64; 7]>(second));
        let envelope = in_envelope(bytemuck::cast_slice(&body));
        let Some(manifest) = Manifest::parse(&envelope) else {
            return false;
        };
        assert_eq!(manifest.results, [result]);
        assert_eq!(manifest.inputs, [INPUT, second]);
        let other = Envelope {
            body_version: 2,
            ..envelope
        };
        assert!(Manifest::parse(&other).is_none());
        true
    }

    #[test]
    fn manifests_refer_to_what_is_there() {
        assert!(is_manifest(HEADER, RESULT, ABSENT));
        let results = [
            ManifestResult {
                compilation: 0,
                ..RESULT
            },
            ManifestResult {
                compilation: 3,
                ..RESULT
            },
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
            ManifestResult {
                first_input: 1,
                ..RESULT
            },
            ManifestResult {
                first_input: u32::MAX,
                ..RESULT
            },
            ManifestResult {
                reserved: 1,
                ..RESULT
            },
        ];
        for result in results {
            assert!(!is_manifest(HEADER, result, ABSENT), "{result:?}");
        }
        let inputs = [
            ManifestInput { path: 1, ..ABSENT },
            ManifestInput { bits: 2, ..INPUT },
            ManifestInput { size: 1, ..ABSENT },
        ];
        for input in inputs {
            assert!(!is_manifest(HEADER, RESULT, input), "{input:?}");
        }
        let headers = [
            ManifestHeader {
                compiler: 1,
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
            ManifestHeader {
                input_count: 1,
                ..HEADER
            },
            ManifestHeader {
                reserved: 1,
                ..HEADER
            },
        ];
        for header in headers {
            assert!(!is_manifest(header, RESULT, ABSENT), "{header:?}");
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
