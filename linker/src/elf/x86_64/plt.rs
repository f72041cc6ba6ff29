//! The procedure linkage table (psABI section 5.2, and 13.2 for the tables that
//! indirect branch tracking asks for).
//!
//! There are two families of entries:
//!
//! * *Lazy* ones stand in `.plt`, after a header. Their slots in `.got.plt` lead
//!   back to them at first, where they push the index of their `JUMP_SLOT`
//!   relocation and go to the header, which calls the dynamic linker. Under
//!   indirect branch tracking (IBT) an entry must begin with `endbr64`, which leaves
//!   no room for the jump through the slot: that jump is in `.plt.sec`, and calls go
//!   there.
//! * *Direct* ones (`.plt.got`, and the PLT of local IFUNCs) are only a jump through
//!   a GOT slot that the dynamic linker fills in before the program starts.
//!
//! The third word of `.got.plt` holds the dynamic linker's entry point, the second
//! one its handle of the module.

use super::reloc::{self, ApplyError, Field};

/// Size of the header of a lazy `.plt`, in bytes.
pub const HEADER_SIZE: usize = 16;
/// Size of a lazy entry in `.plt`, with IBT or without, in bytes.
pub const LAZY_SIZE: usize = 16;
/// Size of an entry in `.plt.sec`, in bytes.
pub const SECOND_SIZE: usize = 16;
/// Size of the `endbr64` that an entry begins with where IBT is on, in bytes.
pub const ENDBR64_SIZE: usize = 4;
/// Size of a direct entry without IBT, in bytes.
pub const DIRECT_SIZE: usize = 8;
/// Size of a direct entry with IBT, in bytes.
pub const DIRECT_IBT_SIZE: usize = 16;

/// Number of words at the start of `.got.plt` that the dynamic linker uses: the
/// address of `_DYNAMIC`, and two that it fills in.
pub const GOT_PLT_RESERVED: usize = 3;

/// Writes the distance from the end of the field (4 bytes at `at` of the code at
/// address `code`) to `target`.
fn put_distance(out: &mut [u8], at: usize, code: u64, target: u64) -> Result<(), ApplyError> {
    let place = code.wrapping_add(at as u64);
    let distance = target.wrapping_sub(place).wrapping_sub(4);
    let field = out.get_mut(at..).ok_or(ApplyError::OutsideSection)?;
    reloc::apply(field, Field::Signed32, distance)
}

/// Writes the header of a lazy `.plt` at address `plt`.
///
/// # Errors
/// If `.got.plt` is out of reach.
pub fn write_header(out: &mut [u8; HEADER_SIZE], plt: u64, got_plt: u64) -> Result<(), ApplyError> {
    *out = [
        0xff, 0x35, 0, 0, 0, 0, // push got_plt+8(%rip)
        0xff, 0x25, 0, 0, 0, 0, // jmp *got_plt+16(%rip)
        0x0f, 0x1f, 0x40, 0x00, // nopl 0(%rax)
    ];
    put_distance(out, 2, plt, got_plt.wrapping_add(8))?;
    put_distance(out, 8, plt, got_plt.wrapping_add(16))
}

/// Writes a lazy entry at address `entry`, which jumps through `slot`. `index` is
/// that of the slot's relocation in `.rela.plt`, `plt` the header's address.
///
/// The slot's initial value is [`lazy_slot_value`].
///
/// # Errors
/// If the slot or the header is out of reach, or the index negative as 32 bits.
pub fn write_lazy(
    out: &mut [u8; LAZY_SIZE],
    entry: u64,
    slot: u64,
    index: u64,
    plt: u64,
) -> Result<(), ApplyError> {
    *out = [
        0xff, 0x25, 0, 0, 0, 0, // jmp *slot(%rip)
        0x68, 0, 0, 0, 0, // push $index
        0xe9, 0, 0, 0, 0, // jmp plt
    ];
    put_distance(out, 2, entry, slot)?;
    // The instruction sign-extends.
    reloc::apply(&mut out[7..], Field::Signed32, index)?;
    put_distance(out, 12, entry, plt)
}

/// What the slot of the lazy entry at `entry` holds at first: the address to which
/// the entry goes on when it is used for the first time.
pub const fn lazy_slot_value(entry: u64, is_ibt: bool) -> u64 {
    if is_ibt { entry } else { entry.wrapping_add(6) }
}

/// Writes a lazy entry for IBT. The jump through the slot is in `.plt.sec`.
///
/// # Errors
/// As [`write_lazy`].
pub fn write_lazy_ibt(
    out: &mut [u8; LAZY_SIZE],
    entry: u64,
    index: u64,
    plt: u64,
) -> Result<(), ApplyError> {
    *out = [
        0xf3, 0x0f, 0x1e, 0xfa, // endbr64
        0x68, 0, 0, 0, 0, // push $index
        0xe9, 0, 0, 0, 0, // jmp plt
        0x66, 0x90, // xchg %ax, %ax
    ];
    reloc::apply(&mut out[5..], Field::Signed32, index)?;
    put_distance(out, 10, entry, plt)
}

/// Writes an entry of `.plt.sec` at address `entry`, which jumps through `slot`.
///
/// # Errors
/// If the slot is out of reach.
pub fn write_second(out: &mut [u8; SECOND_SIZE], entry: u64, slot: u64) -> Result<(), ApplyError> {
    *out = [
        0xf3, 0x0f, 0x1e, 0xfa, // endbr64
        0xff, 0x25, 0, 0, 0, 0, // jmp *slot(%rip)
        0x66, 0x0f, 0x1f, 0x44, 0, 0, // nopw 0(%rax,%rax,1)
    ];
    put_distance(out, 6, entry, slot)
}

/// Writes a direct entry at address `entry`, which jumps through `slot`.
///
/// # Errors
/// If the slot is out of reach.
pub fn write_direct(out: &mut [u8; DIRECT_SIZE], entry: u64, slot: u64) -> Result<(), ApplyError> {
    *out = [
        0xff, 0x25, 0, 0, 0, 0, // jmp *slot(%rip)
        0x66, 0x90, // xchg %ax, %ax
    ];
    put_distance(out, 2, entry, slot)
}

/// Writes a direct entry for IBT: the same as in `.plt.sec`.
///
/// # Errors
/// If the slot is out of reach.
pub fn write_direct_ibt(
    out: &mut [u8; DIRECT_IBT_SIZE],
    entry: u64,
    slot: u64,
) -> Result<(), ApplyError> {
    write_second(out, entry, slot)
}

#[cfg(test)]
mod tests {
    use super::super::test_asm::assemble;
    use super::*;

    const PLT: u64 = 0x40_1020;
    const ENTRY: u64 = PLT + 0x70;
    const GOT_PLT: u64 = 0x40_3fe8;
    const SLOT: u64 = GOT_PLT + 0x48;

    /// Assembles code for `address`, in which `plt`, `got_plt` and `slot` are at
    /// the tests' addresses.
    fn code_at(address: u64, source: &str) -> Option<Vec<u8>> {
        let at = |name: &str, target: u64| {
            format!(".set {name}, start + {}\n", target as i64 - address as i64)
        };
        let symbols = [at("plt", PLT), at("got_plt", GOT_PLT), at("slot", SLOT)].concat();
        let assembled = assemble(&format!("start:\n{symbols}{source}"))?;
        assert_eq!(assembled.relocs, []);
        Some(assembled.bytes)
    }

    fn check(address: u64, source: &str, bytes: &[u8]) {
        if let Some(wanted) = code_at(address, source) {
            assert_eq!(wanted, bytes, "{wanted:02x?} {bytes:02x?}");
        }
    }

    #[test]
    fn entries_are_the_code_they_should_be() {
        // The no-ops in bytes: the assembler would choose shorter forms.
        let nop4 = ".byte 0x0f, 0x1f, 0x40, 0";
        let nop6 = ".byte 0x66, 0x0f, 0x1f, 0x44, 0, 0";
        // `push $imm` and `jmp` with 32-bit fields, whatever the value.
        let push = ".byte 0x68; .long 0x1234";
        let jump = ".byte 0xe9; .long plt - . - 4";

        let mut out = [0; 16];
        write_header(&mut out, PLT, GOT_PLT).unwrap();
        check(
            PLT,
            &format!("push got_plt+8(%rip); jmp *got_plt+16(%rip); {nop4}"),
            &out,
        );
        write_lazy(&mut out, ENTRY, SLOT, 0x1234, PLT).unwrap();
        check(ENTRY, &format!("jmp *slot(%rip); {push}; {jump}"), &out);
        write_lazy_ibt(&mut out, ENTRY, 0x1234, PLT).unwrap();
        check(
            ENTRY,
            &format!("endbr64; {push}; {jump}; xchg %ax, %ax"),
            &out,
        );
        write_second(&mut out, ENTRY, SLOT).unwrap();
        check(ENTRY, &format!("endbr64; jmp *slot(%rip); {nop6}"), &out);
        write_direct_ibt(&mut out, ENTRY, SLOT).unwrap();
        check(ENTRY, &format!("endbr64; jmp *slot(%rip); {nop6}"), &out);
        let mut out = [0; 8];
        write_direct(&mut out, ENTRY, SLOT).unwrap();
        check(ENTRY, "jmp *slot(%rip); xchg %ax, %ax", &out);
    }

    #[test]
    fn lazy_slots_lead_behind_the_jump() {
        let mut out = [0; 16];
        write_lazy(&mut out, ENTRY, SLOT, 1, PLT).unwrap();
        let at = (lazy_slot_value(ENTRY, false) - ENTRY) as usize;
        assert_eq!(out[at], 0x68); // push
        write_lazy_ibt(&mut out, ENTRY, 1, PLT).unwrap();
        let at = (lazy_slot_value(ENTRY, true) - ENTRY) as usize;
        assert_eq!(out[at..at + 4], [0xf3, 0x0f, 0x1e, 0xfa]);
    }

    #[test]
    fn out_of_reach() {
        let far = 1 << 40;
        assert!(write_header(&mut [0; 16], PLT, far).is_err());
        assert!(write_lazy(&mut [0; 16], PLT, far, 0, PLT).is_err());
        assert!(write_lazy(&mut [0; 16], PLT, SLOT, 0x8000_0000, PLT).is_err());
        assert!(write_lazy(&mut [0; 16], PLT, SLOT, 0, far).is_err());
        assert!(write_lazy_ibt(&mut [0; 16], PLT, 0, far).is_err());
        assert!(write_second(&mut [0; 16], PLT, far).is_err());
        assert!(write_direct(&mut [0; 8], PLT, far).is_err());
    }
}
