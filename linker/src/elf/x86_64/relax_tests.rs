//! Tests of relaxation: what the assembler makes of the general sequence is
//! rewritten, and compared with what it makes of the special one. The bytes of
//! the sequences that the psABI spells out are also here literally.

use super::super::test_asm::{assemble, assemble_if_known};
use super::*;
use proptest::prelude::*;

/// Where the tests' code is linked, and their targets. Chosen so that the
/// distances have four different bytes.
const BASE: u64 = 0x40_1000;
const TARGET: u64 = 0x0123_4568;

const REGISTERS: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
const REGISTERS_32: [&str; 16] = [
    "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d",
    "r13d", "r14d", "r15d",
];

/// The code that a rewrite should give, with every symbol at [`TARGET`].
fn expected(source: &str) -> Option<Vec<u8>> {
    let assembled = assemble(source)?;
    let mut text = assembled.bytes;
    for (offset, r_type, addend) in assembled.relocs {
        let place = BASE + offset;
        let value = match reloc::howto(r_type).class {
            reloc::Class::PcRelative | reloc::Class::PltPcRelative => {
                TARGET.wrapping_add_signed(addend).wrapping_sub(place)
            }
            reloc::Class::Absolute => TARGET.wrapping_add_signed(addend),
            class => panic!("{class:?}"),
        };
        let field = reloc::howto(r_type).field;
        reloc::apply(&mut text[offset as usize..], field, value).unwrap();
    }
    Some(text)
}

fn next_of(relocs: &[(u64, u32, i64)]) -> Option<NextReloc> {
    relocs
        .get(1)
        .map(|&(offset, r_type, _)| NextReloc { offset, r_type })
}

fn check_got(source: &str, wanted: &str, immediate: bool) {
    let Some(original) = assemble(source) else {
        return;
    };
    let wanted = expected(wanted).unwrap();
    let (offset, r_type, addend) = original.relocs[0];
    let plan = got_load(&original.bytes, offset, r_type, addend).expect(source);
    let mut text = original.bytes.clone();
    if immediate {
        assert!(plan.can_be_immediate(), "{source}");
        plan.to_immediate(&mut text, offset, TARGET).unwrap();
    } else {
        assert!(plan.can_be_pc_relative(), "{source}");
        plan.to_pc_relative(&mut text, offset, TARGET, BASE + offset)
            .unwrap();
    }
    assert_eq!(text, wanted, "{source}: {text:02x?} {wanted:02x?}");
}

#[test]
fn got_calls_and_jumps() {
    check_got("call *x@GOTPCREL(%rip)", ".byte 0x67; call x", false);
    check_got("jmp *x@GOTPCREL(%rip)", "jmp x; nop", false);
    let bytes = [0xff, 0x25, 0, 0, 0, 0];
    let plan = got_load(&bytes, 2, reloc::R_X86_64_GOTPCRELX, -4).unwrap();
    let mut text = bytes;
    plan.to_pc_relative(&mut text, 2, 0x1000, 0x2002).unwrap();
    // From 0x2005 to 0x1000.
    assert_eq!(text, [0xe9, 0xfb, 0xef, 0xff, 0xff, 0x90]);
}

#[test]
fn got_loads() {
    for (wide, narrow) in REGISTERS.iter().zip(REGISTERS_32) {
        let load = format!("mov x@GOTPCREL(%rip), %{wide}");
        check_got(&load, &format!("lea x(%rip), %{wide}"), false);
        check_got(&load, &format!("movq $x, %{wide}"), true);
        let load = format!("mov x@GOTPCREL(%rip), %{narrow}");
        check_got(&load, &format!("lea x(%rip), %{narrow}"), false);
        // The short `mov $x, %reg` has no ModRM byte; the replacement must have.
        let modrm = 0xc0 | (REGISTERS_32.iter().position(|r| *r == narrow).unwrap() & 7);
        let rex = if narrow.starts_with("r") {
            ".byte 0x41;"
        } else {
            ""
        };
        check_got(&load, &format!("{rex} .byte 0xc7, {modrm}; .long x"), true);
    }
}

#[test]
fn got_operands() {
    for (wide, narrow) in REGISTERS.iter().zip(REGISTERS_32) {
        for operation in [
            "adc", "add", "and", "cmp", "or", "sbb", "sub", "xor", "test",
        ] {
            for (suffix, register) in [("q", *wide), ("l", narrow)] {
                // The accumulator has a shorter form that the assembler prefers.
                if register.ends_with("ax") {
                    continue;
                }
                let source = match operation {
                    "test" => format!("test %{register}, x@GOTPCREL(%rip)"),
                    _ => format!("{operation} x@GOTPCREL(%rip), %{register}"),
                };
                check_got(
                    &source,
                    &format!("{operation}{suffix} $x, %{register}"),
                    true,
                );
            }
        }
    }
    // The accumulator, by hand: REX.W 81 /0 and F7 /0.
    let mut text = [0x48, 0x03, 0x05, 0, 0, 0, 0];
    let plan = got_load(&text, 3, reloc::R_X86_64_REX_GOTPCRELX, -4).unwrap();
    plan.to_immediate(&mut text, 3, 0x1234).unwrap();
    assert_eq!(text, [0x48, 0x81, 0xc0, 0x34, 0x12, 0, 0]);
    assert!(!plan.can_be_pc_relative());
    assert_eq!(
        plan.to_pc_relative(&mut text, 3, 0, 0),
        Err(ApplyError::NotRelaxable)
    );
}

#[test]
fn got_with_rex2() {
    // APX, from the instruction format: d5, M0 R4 X4 B4 W R3 X3 B3.
    // mov x(%rip), %r25: R4 and R3 set, low bits 1.
    let original = [0xd5, 0b0100_1100, 0x8b, 0b00_001_101, 0, 0, 0, 0];
    let plan = got_load(&original, 4, reloc::R_X86_64_CODE_4_GOTPCRELX, -4).unwrap();
    let mut text = original;
    plan.to_pc_relative(&mut text, 4, 0x1008, 0x1004).unwrap();
    assert_eq!(text, [0xd5, 0b0100_1100, 0x8d, 0b00_001_101, 0, 0, 0, 0]);
    let mut text = original;
    plan.to_immediate(&mut text, 4, 0x11223344).unwrap();
    // B4 and B3 set, register in rm.
    assert_eq!(
        text,
        [
            0xd5,
            0b0001_1001,
            0xc7,
            0b11_000_001,
            0x44,
            0x33,
            0x22,
            0x11
        ]
    );
    // Map 1 has other instructions at the same opcodes.
    let other_map = [0xd5, 0b1100_1100, 0x8b, 0b00_001_101, 0, 0, 0, 0];
    assert_eq!(
        got_load(&other_map, 4, reloc::R_X86_64_CODE_4_GOTPCRELX, -4),
        None
    );
}

#[test]
fn got_not_relaxable() {
    use reloc::{R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX, R_X86_64_REX_GOTPCRELX};
    let mov = [0x48, 0x8b, 0x05, 0, 0, 0, 0];
    assert!(got_load(&mov, 3, R_X86_64_REX_GOTPCRELX, -4).is_some());
    // Another slot than the symbol's.
    assert_eq!(got_load(&mov, 3, R_X86_64_REX_GOTPCRELX, 4), None);
    // A type that promises nothing.
    assert_eq!(got_load(&mov, 3, R_X86_64_GOTPCREL, -4), None);
    // Truncated.
    assert_eq!(got_load(&mov[..6], 3, R_X86_64_REX_GOTPCRELX, -4), None);
    assert_eq!(got_load(&mov[1..], 2, R_X86_64_REX_GOTPCRELX, -4), None);
    // Not an address relative to the instruction: mov 0(%rbp), %rax
    assert_eq!(
        got_load(
            &[0x48, 0x8b, 0x85, 0, 0, 0, 0],
            3,
            R_X86_64_REX_GOTPCRELX,
            -4
        ),
        None
    );
    // No REX prefix where there should be one.
    assert_eq!(
        got_load(
            &[0x90, 0x8b, 0x05, 0, 0, 0, 0],
            3,
            R_X86_64_REX_GOTPCRELX,
            -4
        ),
        None
    );
    // push x@GOTPCREL(%rip)
    assert_eq!(
        got_load(&[0xff, 0x35, 0, 0, 0, 0], 2, R_X86_64_GOTPCRELX, -4),
        None
    );
    // With 64-bit operands the prefix means nothing.
    let wide = [0x66, 0x48, 0x03, 0x05, 0, 0, 0, 0];
    assert!(got_load(&wide, 4, R_X86_64_REX_GOTPCRELX, -4).is_some());
    // addw x@GOTPCREL(%rip), %ax
    assert_eq!(
        got_load(&[0x66, 0x03, 0x05, 0, 0, 0, 0], 3, R_X86_64_GOTPCRELX, -4),
        None
    );
}

#[test]
fn got_out_of_reach_changes_nothing() {
    for bytes in [
        [0xff, 0x15, 1, 2, 3, 4],
        [0xff, 0x25, 1, 2, 3, 4],
        [0x8b, 0x05, 1, 2, 3, 4],
    ] {
        let plan = got_load(&bytes, 2, reloc::R_X86_64_GOTPCRELX, -4).unwrap();
        let mut text = bytes;
        let result = plan.to_pc_relative(&mut text, 2, 0x1_0000_0000, 0x1000);
        assert!(
            matches!(result, Err(ApplyError::Overflow { .. })),
            "{result:?}"
        );
        assert_eq!(text, bytes);
    }
    let bytes = [0x48, 0x8b, 0x05, 1, 2, 3, 4];
    let plan = got_load(&bytes, 3, reloc::R_X86_64_REX_GOTPCRELX, -4).unwrap();
    let mut text = bytes;
    // Would be sign-extended.
    assert!(plan.to_immediate(&mut text, 3, 0x8000_0000).is_err());
    assert_eq!(text, bytes);
}

const GD_CALLS: [&str; 2] = [
    ".word 0x6666; rex64; call __tls_get_addr@PLT",
    ".byte 0x66; rex64; call *__tls_get_addr@GOTPCREL(%rip)",
];
const LARGE_CALLS: [&str; 2] = [
    "movabs $__tls_get_addr@PLTOFF, %rax; add %rbx, %rax; call *%rax",
    "movabs $__tls_get_addr@PLTOFF, %rax; add %r15, %rax; call *%rax",
];

fn check_gd(source: &str, padding: &str) {
    let source = format!("nop; {source}; ret");
    let Some(original) = assemble(&source) else {
        return;
    };
    let (offset, r_type, addend) = original.relocs[0];
    assert_eq!(r_type, reloc::R_X86_64_TLSGD);
    let plan = tls_gd(&original.bytes, offset, addend, next_of(&original.relocs)).expect(&source);
    let mut text = original.bytes.clone();
    plan.to_le(&mut text, offset, TARGET).unwrap();
    let wanted = format!("nop; mov %fs:0, %rax; lea {TARGET}(%rax), %rax; {padding} ret");
    assert_eq!(text, expected(&wanted).unwrap(), "{source}");

    let mut text = original.bytes.clone();
    plan.to_ie(&mut text, offset, TARGET, BASE + offset)
        .unwrap();
    let wanted = format!("nop; mov %fs:0, %rax; add x(%rip), %rax; {padding} ret");
    assert_eq!(text, expected(&wanted).unwrap(), "{source}");

    // Without the call's relocation, or with one elsewhere, the call is not known.
    assert_eq!(tls_gd(&original.bytes, offset, addend, None), None);
    let mut next = next_of(&original.relocs).unwrap();
    next.offset += 1;
    assert_eq!(tls_gd(&original.bytes, offset, addend, Some(next)), None);
}

#[test]
fn general_dynamic() {
    for call in GD_CALLS {
        check_gd(&format!(".byte 0x66; lea x@TLSGD(%rip), %rdi; {call}"), "");
    }
    for call in LARGE_CALLS {
        check_gd(
            &format!("lea x@TLSGD(%rip), %rdi; {call}"),
            ".byte 0x66, 0x0f, 0x1f, 0x44, 0, 0;",
        );
    }
    // Literally, after the psABI's tables.
    let mut text = [
        0x66, 0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0,
    ];
    let next = NextReloc {
        offset: 12,
        r_type: reloc::R_X86_64_PLT32,
    };
    let plan = tls_gd(&text, 4, -4, Some(next)).unwrap();
    plan.to_le(&mut text, 4, -8i64 as u64).unwrap();
    assert_eq!(
        text,
        [
            0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0x48, 0x8d, 0x80, 0xf8, 0xff, 0xff, 0xff
        ]
    );
}

#[test]
fn general_dynamic_without_room_is_declined() {
    let Some(original) = assemble("lea x@TLSGD(%rip), %rdi; call __tls_get_addr@PLT") else {
        return;
    };
    let (offset, _, addend) = original.relocs[0];
    assert_eq!(
        tls_gd(&original.bytes, offset, addend, next_of(&original.relocs)),
        None
    );
}

#[test]
fn local_dynamic() {
    // The no-op is spelt in bytes: the assembler would choose a shorter form.
    let tail = "; .byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0";
    let cases = [
        ("call __tls_get_addr@PLT", 3, ""),
        ("call *__tls_get_addr@GOTPCREL(%rip)", 4, ""),
        (".byte 0x67; call __tls_get_addr@PLT", 4, ""),
        (LARGE_CALLS[0], 3, tail),
        (LARGE_CALLS[1], 3, tail),
    ];
    for (call, prefixes, tail) in cases {
        let source = format!("nop; lea x@TLSLD(%rip), %rdi; {call}; ret");
        let Some(original) = assemble(&source) else {
            return;
        };
        let (offset, r_type, addend) = original.relocs[0];
        assert_eq!(r_type, reloc::R_X86_64_TLSLD);
        let next = next_of(&original.relocs);
        let plan = tls_ld(&original.bytes, offset, addend, next).expect(&source);
        let mut text = original.bytes.clone();
        plan.to_le(&mut text, offset).unwrap();
        let wanted = format!("nop; .fill {prefixes}, 1, 0x66; mov %fs:0, %rax {tail}; ret");
        assert_eq!(text, expected(&wanted).unwrap(), "{source}");
        assert_eq!(tls_ld(&original.bytes, offset, addend, None), None);
    }
}

#[test]
fn initial_exec() {
    for register in REGISTERS {
        for (operation, wanted) in [("mov", "movq"), ("add", "addq")] {
            let source = format!("{operation} x@GOTTPOFF(%rip), %{register}");
            let Some(original) = assemble(&source) else {
                return;
            };
            let (offset, r_type, addend) = original.relocs[0];
            let plan = tls_ie(&original.bytes, offset, r_type, addend).expect(&source);
            let mut text = original.bytes.clone();
            plan.to_le(&mut text, offset, TARGET).unwrap();
            if operation == "add" && register == "rax" {
                // The assembler prefers the accumulator's shorter form.
                assert_eq!(text, [0x48, 0x81, 0xc0, 0x68, 0x45, 0x23, 0x01]);
                continue;
            }
            let wanted = format!("{wanted} ${TARGET}, %{register}");
            assert_eq!(text, expected(&wanted).unwrap(), "{source}");
        }
    }
    for source in ["sub x@GOTTPOFF(%rip), %rax", "cmp x@GOTTPOFF(%rip), %rax"] {
        let Some(original) = assemble(source) else {
            return;
        };
        let (offset, r_type, addend) = original.relocs[0];
        assert_eq!(
            tls_ie(&original.bytes, offset, r_type, addend),
            None,
            "{source}"
        );
    }
}

#[test]
fn initial_exec_with_rex2() {
    // add x(%rip), %r20
    let mut text = [0xd5, 0b0100_1000, 0x03, 0b00_100_101, 0, 0, 0, 0];
    let plan = tls_ie(&text, 4, reloc::R_X86_64_CODE_4_GOTTPOFF, -4).unwrap();
    plan.to_le(&mut text, 4, -16i64 as u64).unwrap();
    assert_eq!(
        text,
        [
            0xd5,
            0b0001_1000,
            0x81,
            0b11_000_100,
            0xf0,
            0xff,
            0xff,
            0xff
        ]
    );
}

#[test]
fn tls_descriptors() {
    for register in REGISTERS {
        let source = format!("lea x@TLSDESC(%rip), %{register}; call *x@TLSCALL(%rax)");
        // Older assemblers take %rax only.
        let original = match register {
            "rax" => assemble(&source),
            _ => assemble_if_known(&source),
        };
        let Some(original) = original else {
            continue;
        };
        let (offset, r_type, addend) = original.relocs[0];
        let (call_offset, call_type, _) = original.relocs[1];
        assert_eq!(call_type, reloc::R_X86_64_TLSDESC_CALL);
        let lea = tlsdesc_lea(&original.bytes, offset, r_type, addend).expect(&source);
        let call = tlsdesc_call(&original.bytes, call_offset).expect(&source);

        let mut text = original.bytes.clone();
        lea.to_le(&mut text, offset, TARGET).unwrap();
        call.to_nop(&mut text, call_offset).unwrap();
        let wanted = expected(&format!("movq ${TARGET}, %{register}; xchg %ax, %ax"));
        assert_eq!(text, wanted.unwrap());

        let mut text = original.bytes.clone();
        lea.to_ie(&mut text, offset, TARGET, BASE + offset).unwrap();
        call.to_nop(&mut text, call_offset).unwrap();
        let wanted = expected(&format!("mov x(%rip), %{register}; xchg %ax, %ax"));
        assert_eq!(text, wanted.unwrap());
    }
    let mut text = [0x67, 0xff, 0x10];
    tlsdesc_call(&text, 0)
        .unwrap()
        .to_nop(&mut text, 0)
        .unwrap();
    assert_eq!(text, [0x0f, 0x1f, 0x00]);
    // call *(%rcx)
    assert_eq!(tlsdesc_call(&[0xff, 0x11], 0), None);
    assert_eq!(tlsdesc_call(&[0xff], 0), None);
    assert_eq!(tlsdesc_call(&[0xff, 0x10], u64::MAX), None);
}

proptest! {
    /// Whatever the bytes and offsets: no panic, and a plan always fits the bytes
    /// that it was made from.
    #[test]
    fn arbitrary_bytes(
        mut text in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(&[0x66u8, 0x48, 0x4c, 0x8d, 0x8b, 0x3d, 0x05, 0xe8, 0xff, 0x15, 0x03, 0xd5][..]),
                any::<u8>(),
            ],
            0..40,
        ),
        offset in prop_oneof![0u64..48, any::<u64>()],
        r_type in 0u32..60,
        next_at in 0u64..10,
        next_type in 0u32..60,
    ) {
        let next = Some(NextReloc { offset: offset.saturating_add(next_at), r_type: next_type });
        if let Some(plan) = got_load(&text, offset, r_type, -4) {
            if plan.can_be_immediate() {
                plan.to_immediate(&mut text, offset, 0x1000).unwrap();
            } else {
                plan.to_pc_relative(&mut text, offset, 0x1000, 0x2000).unwrap();
            }
        }
        if let Some(plan) = tls_gd(&text, offset, -4, next) {
            plan.to_ie(&mut text, offset, 0x1000, 0x2000).unwrap();
        }
        if let Some(plan) = tls_ld(&text, offset, -4, next) {
            plan.to_le(&mut text, offset).unwrap();
        }
        if let Some(plan) = tls_ie(&text, offset, r_type, -4) {
            plan.to_le(&mut text, offset, 8).unwrap();
        }
        if let Some(plan) = tlsdesc_lea(&text, offset, r_type, -4) {
            plan.to_ie(&mut text, offset, 0x1000, 0x2000).unwrap();
        }
        if let Some(plan) = tlsdesc_call(&text, offset) {
            plan.to_nop(&mut text, offset).unwrap();
        }
    }
}
