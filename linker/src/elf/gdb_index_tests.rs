//! Tests of the index: of tables made by hand, and of a program that the system's
//! compiler and linker made, read back after the description in gdb's manual.

use super::*;
use object::{Object, ObjectSection, ObjectSymbol};
use proptest::prelude::*;
use std::process::Command;

fn word(index: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(index[at..at + 4].try_into().unwrap())
}

fn wide(index: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(index[at..at + 8].try_into().unwrap())
}

/// Looks a name up as gdb does: its elements (unit and kind).
fn find(index: &[u8], name: &str) -> Option<Vec<u32>> {
    let (table, pool) = (word(index, 16) as usize, word(index, 20) as usize);
    let slot_count = (pool - table) / 8;
    assert!(slot_count.is_power_of_two());
    let mut hash = 0u32;
    for byte in name.bytes() {
        hash = hash
            .wrapping_mul(67)
            .wrapping_add(byte.to_ascii_lowercase().into());
        hash = hash.wrapping_sub(113);
    }
    let mut slot = hash as usize & (slot_count - 1);
    let step = (hash as usize).wrapping_mul(17) & (slot_count - 1) | 1;
    loop {
        let at = table + 8 * slot;
        let (text, list) = (word(index, at) as usize, word(index, at + 4) as usize);
        if (text, list) == (0, 0) {
            return None;
        }
        if index[pool + text..].starts_with(&[name.as_bytes(), &[0]].concat()) {
            let count = word(index, pool + list) as usize;
            return Some(
                (1..=count)
                    .map(|i| word(index, pool + list + 4 * i))
                    .collect(),
            );
        }
        slot = (slot + step) & (slot_count - 1);
    }
}

/// A table of names, for the unit at `unit`.
fn name_table(unit: u32, names: &[(u8, &str)]) -> Vec<u8> {
    let mut body = 2u16.to_le_bytes().to_vec();
    body.extend(unit.to_le_bytes());
    body.extend(100u32.to_le_bytes());
    for (kind, name) in names {
        body.extend(0x2au32.to_le_bytes());
        body.push(*kind);
        body.extend(name.as_bytes());
        body.push(0);
    }
    body.extend(0u32.to_le_bytes());
    [&(body.len() as u32).to_le_bytes()[..], &body].concat()
}

/// Two units of DWARF 4 with nothing but a root entry: the first has code.
fn two_units() -> (Vec<u8>, Vec<u8>) {
    // 1: DW_TAG_compile_unit, no children, DW_AT_low_pc addr, DW_AT_high_pc data4.
    // 2: the same without attributes.
    let abbrev = vec![
        1, 0x11, 0, 0x11, 0x01, 0x12, 0x06, 0, 0, 2, 0x11, 0, 0, 0, 0,
    ];
    let unit = |entry: &[u8]| {
        let body = [&[4, 0, 0, 0, 0, 0, 8][..], entry].concat();
        [&(body.len() as u32).to_le_bytes()[..], &body].concat()
    };
    let first = [&[1][..], &0x1000u64.to_le_bytes(), &0x20u32.to_le_bytes()].concat();
    ([unit(&first), unit(&[2])].concat(), abbrev)
}

#[test]
fn by_hand() {
    let (info, abbrev) = two_units();
    let second = 4 + 7 + 13;
    let gnu_pubnames = [
        name_table(0, &[(0x30, "main"), (0xa0, "count")]),
        name_table(second, &[(0xa0, "count"), (0x30, "Main")]),
        name_table(77, &[(0x30, "nowhere")]),
    ]
    .concat();
    let sections = DebugSections {
        info: &info,
        abbrev: &abbrev,
        gnu_pubnames: &gnu_pubnames,
        ..Default::default()
    };
    let GdbIndex {
        bytes: index,
        units_without_names,
    } = build(&sections).unwrap();
    assert_eq!(units_without_names, 0);
    assert_eq!(word(&index, 0), 7);
    let starts: Vec<_> = (1..6).map(|i| word(&index, 4 * i) as usize).collect();
    assert_eq!(starts[..4], [24, 24 + 32, 24 + 32, 24 + 32 + 20]);
    assert_eq!((wide(&index, 24), wide(&index, 32)), (0, u64::from(second)));
    assert_eq!(
        (wide(&index, 40), wide(&index, 48)),
        (u64::from(second), 12)
    );
    assert_eq!(
        (wide(&index, 56), wide(&index, 64), word(&index, 72)),
        (0x1000, 0x1020, 0)
    );

    assert_eq!(find(&index, "main"), Some(vec![0x3000_0000]));
    assert_eq!(find(&index, "Main"), Some(vec![0x3000_0001]));
    assert_eq!(find(&index, "count"), Some(vec![0xa000_0000, 0xa000_0001]));
    assert_eq!(find(&index, "nowhere"), None);
    assert_eq!(find(&index, "x"), None);

    // An offset of zero before a name is not the end of the table.
    let mut zero = name_table(0, &[(0x10, "first"), (0x10, "second")]);
    zero[14..18].fill(0);
    let index = build(&DebugSections {
        gnu_pubnames: &zero,
        ..sections
    })
    .unwrap()
    .bytes;
    assert!(find(&index, "first").is_some() && find(&index, "second").is_some());

    let sections = DebugSections {
        gnu_pubnames: &[],
        ..sections
    };
    assert_eq!(build(&sections).unwrap().units_without_names, 2);
}

#[test]
fn nothing() {
    let GdbIndex { bytes: index, .. } = build(&DebugSections::default()).unwrap();
    assert_eq!(index.len(), 24 + 16 * 8);
    assert_eq!(find(&index, "x"), None);
}

#[test]
fn damaged_sections() {
    let (info, abbrev) = two_units();
    let good = DebugSections {
        info: &info,
        abbrev: &abbrev,
        ..Default::default()
    };
    let error = build(&DebugSections {
        info: &info[..30],
        ..good
    })
    .unwrap_err()
    .to_string();
    assert!(error.starts_with(".debug_info at offset 0x18: "), "{error}");
    let error = build(&DebugSections {
        abbrev: &abbrev[..3],
        ..good
    })
    .unwrap_err()
    .to_string();
    assert!(error.starts_with(".debug_info at offset 0x0: "), "{error}");
    let names = name_table(0, &[(0x30, "main")]);
    for len in 1..names.len() {
        let error = build(&DebugSections {
            gnu_pubtypes: &names[..len],
            ..good
        })
        .unwrap_err();
        assert_eq!(
            error,
            GdbIndexError::Names {
                section: ".debug_gnu_pubtypes",
                offset: 0
            }
        );
    }
}

/// A real program, in both versions of DWARF that are in use.
#[test]
fn compiled_program() {
    let directory = tempfile::tempdir().unwrap();
    let (source, output) = (directory.path().join("a.c"), directory.path().join("a.out"));
    std::fs::write(
        &source,
        "struct point { int x; } origin; static int twice(int n) { return 2 * n; }
         int main(int argc, char **argv) { return twice(argc) + origin.x; }",
    )
    .unwrap();
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let child = crate::base::children::start();
        let mut compile = Command::new("gcc");
        compile
            .args(["-O0", "-ggnu-pubnames", version, "-o"])
            .arg(&output)
            .arg(&source);
        let status = compile.status();
        drop(child);
        match status {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("not tested: no compiler (gcc)");
                return;
            }
            status => assert!(status.unwrap().success()),
        }
        let data = std::fs::read(&output).unwrap();
        let file = object::File::parse(&*data).unwrap();
        let section = |name| {
            file.section_by_name(name)
                .map_or(&[][..], |s| s.data().unwrap())
        };
        let built = build(&DebugSections {
            info: section(".debug_info"),
            types: section(".debug_types"),
            abbrev: section(".debug_abbrev"),
            addr: section(".debug_addr"),
            ranges: section(".debug_ranges"),
            rnglists: section(".debug_rnglists"),
            str: section(".debug_str"),
            str_offsets: section(".debug_str_offsets"),
            line: section(".debug_line"),
            line_str: section(".debug_line_str"),
            gnu_pubnames: section(".debug_gnu_pubnames"),
            gnu_pubtypes: section(".debug_gnu_pubtypes"),
        })
        .unwrap();
        assert_eq!(built.units_without_names, 0);
        let index = built.bytes;
        // Kinds: 1 is a type, 2 a variable, 3 a function; the top bit is "static".
        assert_eq!(find(&index, "main"), Some(vec![3 << 28]));
        assert_eq!(find(&index, "twice"), Some(vec![1 << 31 | 3 << 28]));
        assert_eq!(find(&index, "origin"), Some(vec![2 << 28]));
        assert_eq!(find(&index, "point").map(|list| list[0] >> 28 & 7), Some(1));
        let main = file
            .symbols()
            .find(|symbol| symbol.name() == Ok("main"))
            .unwrap();
        let ranges = word(&index, 12) as usize..word(&index, 16) as usize;
        assert!(
            ranges
                .step_by(20)
                .any(|at| { (wide(&index, at)..wide(&index, at + 8)).contains(&main.address()) })
        );
    }
}

proptest! {
    #[test]
    fn every_name_is_found(names in proptest::collection::btree_map("[a-cA-C:]{1,5}", 0u8..=255, 0..100)) {
        let (info, abbrev) = two_units();
        let list: Vec<_> = names.iter().map(|(name, kind)| (*kind, name.as_str())).collect();
        let gnu_pubnames = name_table(0, &list);
        let sections = DebugSections { info: &info, abbrev: &abbrev, gnu_pubnames: &gnu_pubnames, ..Default::default() };
        let index = build(&sections).unwrap().bytes;
        for (name, kind) in &names {
            prop_assert_eq!(find(&index, name), Some(vec![u32::from(*kind) << 24]));
        }
        prop_assert_eq!(find(&index, "other"), None);
    }

    #[test]
    fn arbitrary_bytes(
        at in 0usize..40,
        byte in any::<u8>(),
        extra in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let (mut info, mut abbrev) = two_units();
        if let Some(place) = info.get_mut(at) { *place = byte }
        let names = name_table(0, &[(1, "a")]);
        let mut bad_names = names.clone();
        if let Some(place) = bad_names.get_mut(at) { *place = byte }
        bad_names.extend(&extra);
        for gnu_pubnames in [&names, &bad_names, &extra] {
            let _ = build(&DebugSections { info: &info, abbrev: &abbrev, gnu_pubnames, rnglists: &extra, ..Default::default() });
        }
        if let Some(place) = abbrev.get_mut(at) { *place = byte }
        let _ = build(&DebugSections { info: &info, abbrev: &abbrev, ranges: &extra, ..Default::default() });
        let _ = build(&DebugSections { info: &extra, types: &extra, abbrev: &abbrev, ..Default::default() });
    }
}
