use super::{Contents, MergeClass, MergeError, MergeInput, Merged, Source, merge};
use proptest::prelude::*;

fn strings(bytes: &[u8], align: u64) -> MergeInput<'_> {
    let contents = Contents::Section(bytes);
    MergeInput {
        class: MergeClass(0),
        contents,
        strings: true,
        entsize: 1,
        align,
        source: None,
    }
}

fn written(merged: &Merged, class: u32) -> Vec<u8> {
    let mut out = vec![0xcc; merged.size(MergeClass(class)) as usize];
    merged.write(MergeClass(class), &mut out);
    out
}

#[test]
fn equal_strings_have_one_place() {
    let merged = merge(vec![strings(b"one\0two\0", 1), strings(b"two\0three\0", 1)]).unwrap();
    assert_eq!(written(&merged, 0), b"one\0two\0three\0");
    assert_eq!(merged.place(0, 4), Some(4));
    assert_eq!(merged.place(1, 0), Some(4));
    assert_eq!(merged.place(1, 6), Some(10));
    assert_eq!(merged.place(2, 0), None);
}

#[test]
fn aligned_strings_stay_aligned() {
    let merged = merge(vec![
        strings(b"a\0", 1),
        strings(b"b\0", 1),
        strings(b"b\0\0\0c\0", 4),
    ])
    .unwrap();
    for (input, offset) in [(2, 0), (2, 4)] {
        assert_eq!(merged.place(input, offset).unwrap() % 4, 0);
    }
    assert_eq!(merged.place(1, 0), merged.place(2, 0));
    assert_eq!(merged.align(MergeClass(0)), 4);
}

#[test]
fn constants_and_wide_strings() {
    let words = Contents::Section(&[1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]);
    let wide = Contents::Section(b"a\0b\0\0\0a\0b\0\0\0");
    let inputs = [
        MergeInput {
            class: MergeClass(0),
            contents: words,
            strings: false,
            entsize: 4,
            align: 4,
            source: None,
        },
        MergeInput {
            class: MergeClass(1),
            contents: wide,
            strings: true,
            entsize: 2,
            align: 2,
            source: None,
        },
    ];
    let merged = merge(inputs.to_vec()).unwrap();
    assert_eq!(written(&merged, 0), [1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(merged.place(0, 8), Some(0));
    assert_eq!(written(&merged, 1), b"a\0b\0\0\0");
}

#[test]
fn pieces_of_the_repository_merge_with_sections() {
    let contents = Contents::Pieces(vec![(b"two\0", 1), (b"one\0", 8)]);
    let cut = MergeInput {
        class: MergeClass(0),
        contents,
        strings: true,
        entsize: 1,
        align: 1,
        source: None,
    };
    let merged = merge(vec![strings(b"one\0", 1), cut]).unwrap();
    assert_eq!(merged.place(1, 4), merged.place(0, 0));
    assert_eq!(merged.place(0, 0).unwrap() % 8, 0);
    assert_eq!(merged.size(MergeClass(0)), 8);
}

#[test]
fn pieces_of_one_source_are_not_compared() {
    let input = |pieces: &[(&'static [u8], u64)], source| MergeInput {
        class: MergeClass(0),
        contents: Contents::Pieces(pieces.to_vec()),
        strings: true,
        entsize: 1,
        align: 1,
        source,
    };
    let ours = Some(Source(0));
    let first = input(&[(b"two\0", 1), (b"one\0", 1)], ours);
    let merged = merge(vec![
        first.clone(),
        input(&[(b"", 1), (b"three\0", 1)], ours),
    ])
    .unwrap();
    assert_eq!(written(&merged, 0), b"two\0one\0three\0");
    assert_eq!(merged.place(1, 0), Some(8));
    // Two sources may have the same.
    for other in [Some(Source(1)), None] {
        let other = input(&[(b"one\0", 1)], other);
        let merged = merge(vec![first.clone(), other]).unwrap();
        assert_eq!(merged.place(1, 0), merged.place(0, 4));
    }
    // One with alignments has them once with each; the largest come first.
    let merged = merge(vec![
        first,
        input(&[(b"one\0", 4), (b"6\0", 8), (b"7\0", 8)], ours),
    ])
    .unwrap();
    assert_eq!(
        written(&merged, 0),
        b"6\0\0\0\0\0\0\0\x37\0\0\0one\0two\0one\0"
    );
    let places = [0, 4, 6].map(|offset| merged.place(1, offset));
    assert_eq!(places, [Some(12), Some(0), Some(8)]);
    assert_eq!(merged.place(0, 4), Some(20));
}

#[test]
fn chunks_of_one_source_keep_their_alignment() {
    // More than one chunk holds, so that the second one's place is that of an aligned piece.
    let long = vec![b'x'; 1 << 20];
    let inputs: Vec<_> = (0..8)
        .map(|number| MergeInput {
            class: MergeClass(0),
            contents: Contents::Pieces(vec![(&long[number..], 1), (&long[..24], 16)]),
            strings: false,
            entsize: 1,
            align: 1,
            source: Some(Source(0)),
        })
        .collect();
    let merged = merge(inputs).unwrap();
    for number in 0..8 {
        let offset = ((1 << 20) - number) as u64;
        assert_eq!(merged.place(number, offset).unwrap() % 16, 0);
    }
    assert_eq!(merged.align(MergeClass(0)), 16);
}

#[test]
fn unsound_sections_are_refused() {
    let refused = |input: MergeInput<'_>| merge(vec![strings(b"\0", 1), input]).err().unwrap();
    assert_eq!(
        refused(strings(b"ab\0cd", 1)),
        (1, MergeError::Unterminated(4))
    );
    let odd = MergeInput {
        entsize: 2,
        ..strings(b"a\0\0", 1)
    };
    assert_eq!(
        refused(odd),
        (
            1,
            MergeError::Size {
                size: 3,
                entsize: 2
            }
        )
    );
    let none = MergeInput {
        entsize: 0,
        ..strings(b"", 1)
    };
    assert_eq!(
        refused(none),
        (
            1,
            MergeError::Size {
                size: 0,
                entsize: 0
            }
        )
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Every byte is found again, at its alignment, and nothing is there twice.
    #[test]
    fn every_string_is_found(
        sections in prop::collection::vec((prop::collection::vec("[a-c]{0,3}", 0..40), 0u32..4), 0..20),
        repeat in 1usize..40,
    ) {
        let sections: Vec<(Vec<u8>, u64)> = sections
            .into_iter()
            .map(|(words, align)| {
                let bytes = words.iter().flat_map(|w| [w.as_bytes(), b"\0"].concat()).collect::<Vec<u8>>();
                // Repeated, so that there is more than one chunk and shard at times.
                (bytes.repeat(repeat * repeat), 1 << align)
            })
            .collect();
        let inputs: Vec<_> = sections.iter().map(|(bytes, align)| strings(bytes, *align)).collect();
        let merged = merge(inputs.to_vec()).unwrap();
        let out = written(&merged, 0);
        for (input, (bytes, align)) in sections.iter().enumerate() {
            for (offset, byte) in bytes.iter().enumerate() {
                let place = merged.place(input, offset as u64).unwrap();
                prop_assert_eq!(out[place as usize], *byte);
                if offset == 0 || bytes[offset - 1] == 0 {
                    let wanted = (*align).min(1 << offset.trailing_zeros().min(60));
                    prop_assert_eq!(place % wanted, 0);
                }
            }
        }
        let again = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(|| {
            written(&merge(inputs.to_vec()).unwrap(), 0)
        });
        prop_assert!(out == again);
    }
}
