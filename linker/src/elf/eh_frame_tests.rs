//! Tests of `.eh_frame` reading and `.eh_frame_hdr` writing. The independent
//! reader is gimli.

use super::*;
use crate::elf::x86_64::{reloc, test_asm};
use gimli::{BaseAddresses, CieOrFde, EhFrame, EhFrameHdr, LittleEndian, UnwindSection};
use proptest::prelude::*;

/// Three functions: a plain one, one with personality and LSDA, and one of
/// another CIE (signal frame).
const SOURCE: &str = "
    .globl a, b, c
a:  .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    ret
    .cfi_endproc
    .skip 11
b:  .cfi_startproc
    .cfi_personality 0x9b, __gxx_personality_v0
    .cfi_lsda 0x1b, lsda
    nop
    ret
    .cfi_endproc
c:  .cfi_startproc
    .cfi_signal_frame
    nop
    nop
    ret
    .cfi_endproc
    .section .gcc_except_table,\"a\"
lsda: .long 0";

fn all(section: &[u8]) -> Result<Vec<Record>, EhFrameError> {
    records(section, 0, |_| 0).collect()
}

#[test]
fn assembled_section() {
    let Some(object) = test_asm::assemble_section(SOURCE, ".eh_frame") else {
        return;
    };
    let (section, relocs) = (&object.bytes, &object.relocs);
    let records: Vec<_> = records(section, relocs.len(), |i| relocs[i].0)
        .collect::<Result<_, _>>()
        .unwrap();
    let mut pc_ranges = vec![];
    for record in &records {
        let RecordKind::Fde { cie } = record.kind else {
            assert_eq!(record.kind, RecordKind::Cie);
            let cie = Cie::parse(section, record).unwrap();
            assert_eq!(cie.fde_encoding, Encoding::PCREL_SDATA4);
            let relocs: Vec<_> = relocs[record.relocs.clone()].iter().map(|r| r.0).collect();
            let personality: Vec<_> = cie.personality.iter().map(|p| p.offset).collect();
            assert_eq!(relocs, personality);
            if let Some(personality) = cie.personality {
                assert_eq!(personality.encoding, Encoding(0x9b));
                assert_eq!(personality.encoding.0 & 0x80, 0x80, "indirect");
                assert_eq!(personality.encoding.base(), Base::Place);
            }
            continue;
        };
        let cie_record = records.iter().find(|record| record.offset == cie).unwrap();
        let cie = Cie::parse(section, cie_record).unwrap();
        let fde = Fde::parse(section, record, &cie).unwrap();
        assert_eq!(fde.pointer_size, 4);
        // Exactly the pointers have relocations.
        let places: Vec<_> = std::iter::once(fde.pc_begin).chain(fde.lsda).collect();
        let relocs = &relocs[record.relocs.clone()];
        assert_eq!(relocs.iter().map(|r| r.0).collect::<Vec<_>>(), places);
        assert!(relocs.iter().all(|r| r.1 == reloc::R_X86_64_PC32));
        pc_ranges.push((fde.pc_range, fde.lsda.is_some(), cie.is_signal_frame));
    }
    assert_eq!(
        pc_ranges,
        [(2, false, false), (2, true, false), (3, false, true)]
    );
}

/// What we see in a section is what gimli sees in it.
#[test]
fn agrees_with_gimli() {
    let Some(object) = test_asm::assemble_section(SOURCE, ".eh_frame") else {
        return;
    };
    let section = &object.bytes;
    let bases = BaseAddresses::default().set_eh_frame(0);
    let eh_frame = EhFrame::new(section, LittleEndian);
    let mut theirs = eh_frame.entries(&bases);
    for record in all(section).unwrap() {
        match theirs.next().unwrap().unwrap() {
            CieOrFde::Cie(their) => {
                assert_eq!(record.kind, RecordKind::Cie);
                let cie = Cie::parse(section, &record).unwrap();
                assert_eq!(record.offset, their.offset() as u64);
                assert_eq!(record.size, their.entry_len() as u64 + 4);
                assert_eq!(cie.is_signal_frame, their.is_signal_trampoline());
                assert_eq!(
                    cie.lsda_encoding.map(|e| e.0),
                    their.lsda_encoding().map(|e| e.0)
                );
                assert_eq!(
                    cie.personality.map(|p| p.encoding.0),
                    their.personality_with_encoding().map(|p| p.0.0)
                );
            }
            CieOrFde::Fde(partial) => {
                let RecordKind::Fde { cie } = record.kind else {
                    panic!("{record:?}")
                };
                let their = partial.parse(|frame, bases, at| frame.cie_from_offset(bases, at));
                let their = their.unwrap();
                assert_eq!(record.offset, their.offset() as u64);
                assert_eq!(cie, their.cie().offset() as u64);
                let cie_record = all(section).unwrap().into_iter().find(|r| r.offset == cie);
                let cie = Cie::parse(section, &cie_record.unwrap()).unwrap();
                let fde = Fde::parse(section, &record, &cie).unwrap();
                assert_eq!(fde.pc_range, their.len());
                assert_eq!(fde.lsda.is_some(), their.lsda().is_some());
            }
        }
    }
    assert!(theirs.next().unwrap().is_none());
}

/// A record: length, id, body.
fn record(id: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(id.to_le_bytes());
    bytes.extend(body);
    bytes
}

#[test]
fn wide_lengths_and_terminators() {
    // CIE in 64-bit form: escape, length, id, version, "", 1, -8, 16.
    let mut section = vec![0xff, 0xff, 0xff, 0xff, 9, 0, 0, 0, 0, 0, 0, 0];
    section.extend([0, 0, 0, 0, 1, 0, 1, 0x78, 16]);
    let cie_size = section.len() as u64;
    section.extend(0u32.to_le_bytes());
    // FDE: pointer to the CIE from offset 29.
    section.extend(record(29, &[0; 16]));
    let list = all(&section).unwrap();
    assert_eq!(list[0].kind, RecordKind::Cie);
    assert_eq!((list[0].size, list[0].id_offset), (cie_size, 12));
    assert_eq!(list[1].kind, RecordKind::Terminator);
    assert_eq!(list[2].kind, RecordKind::Fde { cie: 0 });
    assert_eq!(list[2].offset, 25);
    let cie = Cie::parse(&section, &list[0]).unwrap();
    assert_eq!(cie.fde_encoding, Encoding::ABSPTR);
    let fde = Fde::parse(&section, &list[2], &cie).unwrap();
    assert_eq!((fde.pc_begin, fde.pointer_size, fde.lsda), (33, 8, None));
}

#[test]
fn damaged_sections() {
    use EhFrameError::*;
    assert_eq!(all(&[1, 0, 0]), Err(Truncated { offset: 0 }));
    assert_eq!(all(&[4, 0, 0, 0, 0, 0, 0]), Err(Truncated { offset: 0 }));
    assert_eq!(all(&[0xff; 11]), Err(Truncated { offset: 0 }));
    assert_eq!(all(&[0xff; 64]), Err(Truncated { offset: 0 }));
    assert_eq!(
        all(&[3, 0, 0, 0, 0, 0, 0]),
        Err(FieldOutsideRecord { offset: 4 })
    );
    assert_eq!(all(&record(5, &[])), Err(BadCiePointer { offset: 0 }));
    assert_eq!(
        all(&record(4, &[])).unwrap()[0].kind,
        RecordKind::Fde { cie: 0 }
    );

    let parse = |body: &[u8]| {
        let section = record(0, body);
        Cie::parse(&section, &all(&section).unwrap()[0])
    };
    assert_eq!(parse(&[]), Err(FieldOutsideRecord { offset: 8 }));
    assert_eq!(
        parse(&[2, 0, 1, 1, 1]),
        Err(UnknownVersion {
            offset: 0,
            version: 2
        })
    );
    assert_eq!(parse(b"\x01zR"), Err(FieldOutsideRecord { offset: 9 }));
    assert_eq!(
        parse(b"\x01eh\0\x01\x78\x10"),
        Err(UnknownAugmentation { offset: 0 })
    );
    assert_eq!(
        parse(b"\x01zX\0\x01\x78\x10\x01\0"),
        Err(UnknownAugmentation { offset: 0 })
    );
    // The augmentation data end before the encoding.
    assert_eq!(
        parse(b"\x01zR\0\x01\x78\x10\0\x1b"),
        Err(FieldOutsideRecord { offset: 16 })
    );
    assert_eq!(
        parse(b"\x01zR\0\x01\x78\x10\x01\x01"),
        Err(BadEncoding {
            offset: 0,
            encoding: 1
        })
    );
    assert_eq!(
        parse(b"\x01zR\0\x01\x78\x10\x01\x50"),
        Err(BadEncoding {
            offset: 0,
            encoding: 0x50
        })
    );
    // A length of 2^70.
    assert_eq!(
        parse(b"\x01zR\0\x01\x78\x10\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x1b"),
        Err(FieldOutsideRecord { offset: 15 })
    );
    assert_eq!(
        parse(b"\x01zR\0\x01\x78\x10\x01\x1b").unwrap().fde_encoding,
        Encoding::PCREL_SDATA4
    );
}

#[test]
fn stray_relocations() {
    let section = record(0, &[1, 0, 1, 0x78, 16]);
    let end = section.len() as u64;
    for (offsets, stray) in [
        (vec![8, 4], 4),
        (vec![4, end], end),
        (vec![4, u64::MAX], u64::MAX),
    ] {
        let result: Result<Vec<_>, _> = records(&section, offsets.len(), |i| offsets[i]).collect();
        assert_eq!(
            result,
            Err(EhFrameError::StrayReloc { offset: stray }),
            "{offsets:?}"
        );
    }
}

/// Every row of the table is found by an independent reader, at its address.
#[test]
fn table_is_readable() {
    // Two functions of one CIE, so that there is something to find.
    let mut eh_frame = record(0, b"\x01zR\0\x01\x78\x10\x01\x1b\0\0\0");
    let cie_size = eh_frame.len() as u32;
    let (hdr_address, frame_address) = (0x1000u64, 0x1100u64);
    let mut entries = vec![];
    for pc in [0x9000u64, 0x4000, 0x6000] {
        let at = eh_frame.len() as u32;
        entries.push(TableEntry {
            pc,
            fde: frame_address + u64::from(at),
        });
        let relative = pc.wrapping_sub(frame_address + u64::from(at) + 8) as u32;
        let mut body = relative.to_le_bytes().to_vec();
        body.extend(0x10u32.to_le_bytes());
        body.extend([0; 4]);
        eh_frame.extend(record(at + 4, &body));
    }
    assert_eq!(cie_size, 20);
    // A second description of the first function.
    entries.push(TableEntry {
        pc: 0x9000,
        fde: entries[0].fde + 1,
    });
    let mut hdr = vec![0xaa; hdr_size(entries.len())];
    let written = write_hdr(&mut hdr, hdr_address, frame_address, &mut entries);
    assert_eq!(written, HdrTable::Written(3));
    assert_eq!(hdr[hdr_size(3)..], [0; 8]);

    let bases = BaseAddresses::default()
        .set_eh_frame_hdr(hdr_address)
        .set_eh_frame(frame_address);
    let parsed = EhFrameHdr::new(&hdr, LittleEndian)
        .parse(&bases, 8)
        .unwrap();
    assert_eq!(parsed.eh_frame_ptr(), gimli::Pointer::Direct(frame_address));
    let table = parsed.table().unwrap();
    let frame = EhFrame::new(&eh_frame, LittleEndian);
    for (pc, start) in [(0x4000, 0x4000), (0x600f, 0x6000), (0x9008, 0x9000)] {
        let fde = table
            .fde_for_address(&frame, &bases, pc, |frame, bases, at| {
                frame.cie_from_offset(bases, at)
            })
            .unwrap();
        assert_eq!((fde.initial_address(), fde.len()), (start, 0x10));
    }
}

#[test]
fn table_too_far_away() {
    let far = TableEntry {
        pc: 0x1_0000_1000,
        fde: 0x1200,
    };
    let mut entries = vec![
        TableEntry {
            pc: 0x1000,
            fde: 0x1100,
        },
        far,
    ];
    let mut hdr = vec![0xaa; hdr_size(2)];
    assert_eq!(
        write_hdr(&mut hdr, 0x1000, 0x1100, &mut entries),
        HdrTable::Omitted
    );
    assert_eq!(hdr[..8], [1, 0x1b, 0xff, 0xff, 0xfc, 0, 0, 0]);
    assert!(hdr[8..].iter().all(|byte| *byte == 0));

    let mut hdr = vec![0xaa; hdr_size(0)];
    let result = write_hdr(&mut hdr, 0x1000, 0x1_0000_1100, &mut vec![]);
    assert_eq!(result, HdrTable::Omitted);
    assert_eq!(hdr, [1, 0x1c, 0xff, 0xff, 0xfc, 0, 0, 0, 1, 0, 0, 0]);
    let bases = BaseAddresses::default().set_eh_frame_hdr(0x1000);
    let parsed = EhFrameHdr::new(&hdr, LittleEndian)
        .parse(&bases, 8)
        .unwrap();
    assert_eq!(parsed.eh_frame_ptr(), gimli::Pointer::Direct(0x1_0000_1100));
    assert!(parsed.table().is_none());
}

#[test]
fn encodings() {
    assert_eq!(
        Encoding(0x0b).read(&[0xfe, 0xff, 0xff, 0xff]),
        Some(-2i64 as u64)
    );
    assert_eq!(
        Encoding(0x03).read(&[0xfe, 0xff, 0xff, 0xff]),
        Some(0xffff_fffe)
    );
    assert_eq!(Encoding(0x0a).read(&[0xfe, 0xff]), Some(-2i64 as u64));
    assert_eq!(
        Encoding(0x00).read(&[1, 0, 0, 0, 0, 0, 0, 0x80]),
        Some(0x8000_0000_0000_0001)
    );
    assert_eq!(Encoding(0x0b).read(&[0; 3]), None);
    assert_eq!(Encoding(0x01).read(&[0; 8]), None);
    assert_eq!(Encoding::OMIT.size(), None);
}

/// Bytes that are more often than by chance records, CIEs and FDEs.
fn plausible_section() -> impl Strategy<Value = Vec<u8>> {
    let body = prop_oneof![
        Just(b"\x01zR\0\x01\x78\x10\x01\x1b".to_vec()),
        Just(b"\x01zPLR\0\x01\x78\x10\x07\x9b\0\0\0\0\x1b\x1b".to_vec()),
        Just(b"\x03zRS\0\x01\x78\x10\x01\x1b".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..40),
    ];
    let piece = prop_oneof![
        (prop_oneof![Just(0u32), 0u32..80], body).prop_map(|(id, body)| record(id, &body)),
        Just(vec![0; 4]),
        proptest::collection::vec(any::<u8>(), 0..16),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Never a panic; records tile the section; fields lie within their record.
    #[test]
    fn arbitrary_sections(section in plausible_section(), relocs in proptest::collection::vec(0u64..100, 0..4)) {
        let mut end = 0;
        let mut cies = vec![];
        for record in records(&section, relocs.len(), |i| relocs[i]) {
            let Ok(record) = record else { break };
            prop_assert_eq!(record.offset, end);
            end = record.offset + record.size;
            prop_assert!(relocs[record.relocs.clone()].iter().all(|at| (record.offset..end).contains(at)));
            match record.kind {
                RecordKind::Terminator => prop_assert_eq!(record.size, 4),
                RecordKind::Cie => cies.extend(Cie::parse(&section, &record)),
                RecordKind::Fde { cie } => prop_assert!(cie < record.id_offset),
            }
            for cie in &cies {
                if let Ok(fde) = Fde::parse(&section, &record, cie) {
                    prop_assert!(fde.pc_begin >= record.offset && fde.pc_begin + 2 * u64::from(fde.pointer_size) <= end);
                    prop_assert!(fde.lsda.is_none_or(|lsda| lsda < end));
                }
            }
        }
        prop_assert!(end <= section.len() as u64);
    }
}
