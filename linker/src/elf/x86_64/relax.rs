//! Rewriting instructions at link time (psABI sections 10.7, "Optimize
//! GOTPCRELX Relocations", and 11, "TLS linker optimization").
//!
//! Compilers emit the most general access to a symbol that they cannot see: a
//! load through the GOT, a call of `__tls_get_addr`. The linker sees where the
//! symbol is, and may put a cheaper instruction of the same length there. Each
//! rewrite is done in two steps, because the GOT must be sized before addresses
//! are known:
//!
//! 1. while scanning, a function such as [`got_load`] looks at the bytes around
//!    the place. It returns a plan if they are exactly an instruction sequence
//!    that the psABI allows to be rewritten, else `None`: then the relocation is
//!    applied as it stands. The bytes decide, never the relocation type alone;
//! 2. while writing, the plan's method rewrites the copied bytes. A plan is
//!    cheap to make again, so nothing needs to be kept between the phases.
//!
//! Whether a rewrite is *wanted* (is the symbol bound here? is the output an
//! executable?) is the caller's business, as is the check that the call of a TLS
//! sequence calls `__tls_get_addr`.

use super::reloc::{self, ApplyError, Field};

/// Puts `bytes` at `offset` of the section.
fn put(section: &mut [u8], offset: usize, bytes: &[u8]) -> Result<(), ApplyError> {
    let end = offset
        .checked_add(bytes.len())
        .ok_or(ApplyError::OutsideSection)?;
    let place = section
        .get_mut(offset..end)
        .ok_or(ApplyError::OutsideSection)?;
    place.copy_from_slice(bytes);
    Ok(())
}

/// Applies `value` to the field at `offset` of the section.
fn put_field(
    section: &mut [u8],
    offset: usize,
    field: Field,
    value: u64,
) -> Result<(), ApplyError> {
    let place = section
        .get_mut(offset..)
        .ok_or(ApplyError::OutsideSection)?;
    reloc::apply(place, field, value)
}

/// Checks that the field holds `value` without writing it.
fn check_fits(field: Field, value: u64) -> Result<(), ApplyError> {
    reloc::apply(&mut [0; 8], field, value)
}

/// The bytes of the section from `offset + from`, `N` of them, if they exist.
fn bytes_at<const N: usize>(section: &[u8], offset: u64, from: isize) -> Option<&[u8; N]> {
    let start = usize::try_from(offset).ok()?.checked_add_signed(from)?;
    section.get(start..)?.first_chunk()
}

/// Extension of an instruction's register numbers and operand size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    /// None of the below: 32-bit operands, low registers.
    None,
    /// REX: `0100WRXB`.
    Rex(u8),
    /// The payload of APX's REX2: `M0 R4 X4 B4 W R3 X3 B3`. M0 is 0.
    Rex2(u8),
}

impl Prefix {
    /// Reads the prefix of the instruction with a two-byte `opcode modrm` before
    /// its 32-bit displacement at `offset`. The relocation type tells which
    /// prefix there is.
    fn rex(section: &[u8], offset: u64) -> Option<Prefix> {
        let [rex] = *bytes_at::<1>(section, offset, -3)?;
        (rex & 0xf0 == 0x40).then_some(Prefix::Rex(rex))
    }

    /// As [`Prefix::rex`], for REX2.
    fn rex2(section: &[u8], offset: u64) -> Option<Prefix> {
        let [escape, payload] = *bytes_at::<2>(section, offset, -4)?;
        (escape == 0xd5 && payload & 0x80 == 0).then_some(Prefix::Rex2(payload))
    }

    /// Operands are 64 bits wide.
    fn is_wide(self) -> bool {
        match self {
            Prefix::None => false,
            Prefix::Rex(bits) | Prefix::Rex2(bits) => bits & 8 != 0,
        }
    }

    /// Bytes from the start of the prefix to the displacement.
    fn distance(self) -> usize {
        match self {
            Prefix::None => 2,
            Prefix::Rex(_) => 3,
            Prefix::Rex2(_) => 4,
        }
    }

    /// Writes the prefix for an instruction that names in `ModRM.rm` the register
    /// that the original names in `ModRM.reg`: R becomes B.
    fn put_reg_as_rm(self, section: &mut [u8], offset: usize) -> Result<(), ApplyError> {
        let at = |n| offset.checked_sub(n).ok_or(ApplyError::OutsideSection);
        match self {
            Prefix::None => Ok(()),
            Prefix::Rex(rex) => put(section, at(3)?, &[0x40 | rex & 8 | (rex & 4) >> 2]),
            Prefix::Rex2(bits) => put(section, at(3)?, &[bits & 8 | (bits & 0x44) >> 2]),
        }
    }
}

/// Whether ModRM is `disp32(%rip)` with some register.
fn is_rip_relative(modrm: u8) -> bool {
    modrm & 0xc7 == 0x05
}

/// ModRM for register operand `reg field of modrm`, and opcode extension.
fn modrm_register(modrm: u8, extension: u8) -> u8 {
    0xc0 | extension << 3 | (modrm >> 3) & 7
}

/// An instruction that reads a GOT slot and may be rewritten. Made by [`got_load`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GotLoad {
    instruction: GotInstruction,
    prefix: Prefix,
    modrm: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GotInstruction {
    /// `call *foo@GOTPCREL(%rip)`
    Call,
    /// `jmp *foo@GOTPCREL(%rip)`
    Jmp,
    /// `mov foo@GOTPCREL(%rip), %reg`
    Mov,
    /// `test %reg, foo@GOTPCREL(%rip)`
    Test,
    /// `adc, add, and, cmp, or, sbb, sub, xor foo@GOTPCREL(%rip), %reg`; the
    /// number is the operation's in opcode 0x81.
    Binop(u8),
}

/// Recognises the instruction at a `R_X86_64_GOTPCRELX`, `_REX_GOTPCRELX` or
/// `_CODE_4_GOTPCRELX` relocation. `offset` is the relocation's.
///
/// `R_X86_64_GOTPCREL` is never relaxed: nothing says where the instruction
/// begins. `CODE_5` and `CODE_6` (instructions with three operands) are declined.
pub fn got_load(section: &[u8], offset: u64, r_type: u32, addend: i64) -> Option<GotLoad> {
    // Any other addend reads something else than the slot.
    if addend != -4 {
        return None;
    }
    bytes_at::<4>(section, offset, 0)?;
    let [opcode, modrm] = *bytes_at::<2>(section, offset, -2)?;
    let prefix = match r_type {
        reloc::R_X86_64_GOTPCRELX => Prefix::None,
        reloc::R_X86_64_REX_GOTPCRELX => Prefix::rex(section, offset)?,
        reloc::R_X86_64_CODE_4_GOTPCRELX => Prefix::rex2(section, offset)?,
        _ => return None,
    };
    let instruction = match (opcode, modrm) {
        // With a REX prefix the replacement would need another order of prefixes.
        (0xff, 0x15) if prefix == Prefix::None => GotInstruction::Call,
        (0xff, 0x25) if prefix == Prefix::None => GotInstruction::Jmp,
        _ if !is_rip_relative(modrm) => return None,
        (0x8b, _) => GotInstruction::Mov,
        // A 16-bit operand would make the immediate 16 bits wide.
        _ if has_operand_size_prefix(section, offset, prefix) => return None,
        (0x85, _) => GotInstruction::Test,
        (0x03 | 0x0b | 0x13 | 0x1b | 0x23 | 0x2b | 0x33 | 0x3b, _) => {
            GotInstruction::Binop(opcode >> 3)
        }
        _ => return None,
    };
    Some(GotLoad {
        instruction,
        prefix,
        modrm,
    })
}

/// Whether the byte before the instruction may be the operand size prefix, which
/// counts unless the operands are 64 bits wide. It may also be the last byte of the
/// instruction before: declining is harmless.
fn has_operand_size_prefix(section: &[u8], offset: u64, prefix: Prefix) -> bool {
    let before = -(prefix.distance() as isize) - 1;
    !prefix.is_wide() && bytes_at::<1>(section, offset, before) == Some(&[0x66])
}

impl GotLoad {
    /// Whether [`GotLoad::to_pc_relative`] is possible: for calls, jumps, and
    /// loads of the address. The target must be at a fixed distance of the place.
    pub fn can_be_pc_relative(self) -> bool {
        matches!(
            self.instruction,
            GotInstruction::Call | GotInstruction::Jmp | GotInstruction::Mov
        )
    }

    /// Whether [`GotLoad::to_immediate`] is possible. The target's address must
    /// be a link-time constant, that is the output position-dependent or the
    /// symbol absolute, and fit 32 bits.
    pub fn can_be_immediate(self) -> bool {
        matches!(
            self.instruction,
            GotInstruction::Mov | GotInstruction::Test | GotInstruction::Binop(_)
        )
    }

    /// Makes it a direct call, a direct jump, or a `lea`. `target` is the
    /// symbol's address (S), `place` the address of the relocated field (P).
    ///
    /// # Errors
    /// If the target is out of reach (the bytes are then unchanged), or if the
    /// instruction is not of this kind.
    pub fn to_pc_relative(
        self,
        section: &mut [u8],
        offset: u64,
        target: u64,
        place: u64,
    ) -> Result<(), ApplyError> {
        let offset = usize::try_from(offset).map_err(|_| ApplyError::OutsideSection)?;
        let start = offset.checked_sub(2).ok_or(ApplyError::OutsideSection)?;
        // All of them end where the original ends, but for the jump, after which
        // comes one byte of padding.
        let distance = target.wrapping_sub(place).wrapping_sub(4);
        match self.instruction {
            GotInstruction::Call => {
                put_field(section, offset, Field::Signed32, distance)?;
                // addr32 call target
                put(section, start, &[0x67, 0xe8])
            }
            GotInstruction::Jmp => {
                let distance = distance.wrapping_add(1);
                check_fits(Field::Signed32, distance)?;
                // jmp target; nop
                put(section, start, &[0xe9])?;
                put_field(section, start + 1, Field::Signed32, distance)?;
                put(section, start + 5, &[0x90])
            }
            GotInstruction::Mov => {
                put_field(section, offset, Field::Signed32, distance)?;
                // lea target(%rip), %reg
                put(section, start, &[0x8d])
            }
            GotInstruction::Test | GotInstruction::Binop(_) => Err(ApplyError::NotRelaxable),
        }
    }

    /// Makes it an operation with the symbol's address as immediate operand.
    ///
    /// # Errors
    /// If the address does not fit the operand (the bytes are then unchanged),
    /// or if the instruction is not of this kind.
    pub fn to_immediate(
        self,
        section: &mut [u8],
        offset: u64,
        target: u64,
    ) -> Result<(), ApplyError> {
        let offset = usize::try_from(offset).map_err(|_| ApplyError::OutsideSection)?;
        let start = offset.checked_sub(2).ok_or(ApplyError::OutsideSection)?;
        let (opcode, extension) = match self.instruction {
            GotInstruction::Mov => (0xc7, 0),
            GotInstruction::Test => (0xf7, 0),
            GotInstruction::Binop(operation) => (0x81, operation),
            GotInstruction::Call | GotInstruction::Jmp => return Err(ApplyError::NotRelaxable),
        };
        // 64-bit operations sign-extend the immediate; 32-bit ones take it as it is.
        let field = match self.prefix.is_wide() {
            true => Field::Signed32,
            false => Field::Unsigned32,
        };
        put_field(section, offset, field, target)?;
        put(
            section,
            start,
            &[opcode, modrm_register(self.modrm, extension)],
        )?;
        self.prefix.put_reg_as_rm(section, offset)
    }
}

/// The relocation that follows in the section's table. The general and the local
/// dynamic TLS sequences have a second one, at the call of `__tls_get_addr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextReloc {
    /// Its offset in the section.
    pub offset: u64,
    /// Its type.
    pub r_type: u32,
}

/// How a TLS sequence calls `__tls_get_addr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsCall {
    /// `call __tls_get_addr@PLT`
    Direct,
    /// `call *__tls_get_addr@GOTPCREL(%rip)`, or what that was relaxed to
    Indirect,
    /// Large code model: `movabs $__tls_get_addr@PLTOFF, %rax; add %rbx, %rax;
    /// call *%rax`
    Large,
}

impl TlsCall {
    /// Checks that the call's relocation is `at` bytes after the first one, and of
    /// a type that suits the form.
    fn check_reloc(self, offset: u64, at: u64, next: NextReloc) -> Option<TlsCall> {
        let r_type_fits = match self {
            TlsCall::Direct => matches!(
                next.r_type,
                reloc::R_X86_64_PLT32 | reloc::R_X86_64_PC32 | reloc::R_X86_64_PLT32_BND
            ),
            TlsCall::Indirect => matches!(
                next.r_type,
                reloc::R_X86_64_GOTPCREL
                    | reloc::R_X86_64_GOTPCRELX
                    | reloc::R_X86_64_REX_GOTPCRELX
                    | reloc::R_X86_64_PLT32
                    | reloc::R_X86_64_PC32
            ),
            TlsCall::Large => next.r_type == reloc::R_X86_64_PLTOFF64,
        };
        (r_type_fits && offset.checked_add(at)? == next.offset).then_some(self)
    }
}

/// Whether the bytes after the displacement at `offset` are the large code
/// model's call.
fn is_large_call(section: &[u8], offset: u64) -> bool {
    let Some(bytes) = bytes_at::<15>(section, offset, 4) else {
        return false;
    };
    bytes[..2] == [0x48, 0xb8]
        && (bytes[10..13] == [0x48, 0x01, 0xd8] || bytes[10..13] == [0x4c, 0x01, 0xf8])
        && bytes[13..] == [0xff, 0xd0]
}

/// `mov %fs:0, %rax`
const MOV_TP_RAX: [u8; 9] = [0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0];

/// A general dynamic TLS sequence that may be rewritten. Made by [`tls_gd`].
/// Rewriting it uses up the following relocation too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsGd(TlsCall);

/// Recognises the general dynamic sequence at a `R_X86_64_TLSGD` relocation.
/// The caller checks that `next` refers to `__tls_get_addr`.
pub fn tls_gd(section: &[u8], offset: u64, addend: i64, next: Option<NextReloc>) -> Option<TlsGd> {
    let next = next?;
    if addend != -4 {
        return None;
    }
    // lea x@tlsgd(%rip), %rdi
    if bytes_at::<3>(section, offset, -3)? != &[0x48, 0x8d, 0x3d] {
        return None;
    }
    if is_large_call(section, offset) {
        return TlsCall::Large.check_reloc(offset, 6, next).map(TlsGd);
    }
    // Small code model: data16 before the lea, and prefixes before the call, make
    // room for the replacement.
    if bytes_at::<1>(section, offset, -4)? != &[0x66] {
        return None;
    }
    let call = match bytes_at::<8>(section, offset, 4)?.first_chunk::<4>()? {
        // data16 data16 rex.W call
        [0x66, 0x66, 0x48, 0xe8] => TlsCall::Direct,
        // data16 rex.W call *, and the same after an earlier relaxation
        [0x66, 0x48, 0xff, 0x15] | [0x66, 0x48, 0x67, 0xe8] => TlsCall::Indirect,
        _ => return None,
    };
    call.check_reloc(offset, 8, next).map(TlsGd)
}

impl TlsGd {
    /// Where the sequence starts, relative to the relocation: backwards.
    fn start(self, offset: u64) -> Result<usize, ApplyError> {
        let back = if self.0 == TlsCall::Large { 3 } else { 4 };
        usize::try_from(offset)
            .ok()
            .and_then(|offset| offset.checked_sub(back))
            .ok_or(ApplyError::OutsideSection)
    }

    /// To local exec: `mov %fs:0, %rax; lea x@tpoff(%rax), %rax`. `tpoff` is the
    /// symbol's offset from the thread pointer.
    ///
    /// # Errors
    /// If `tpoff` does not fit 32 bits; the bytes are then unchanged.
    pub fn to_le(self, section: &mut [u8], offset: u64, tpoff: u64) -> Result<(), ApplyError> {
        let start = self.start(offset)?;
        put_field(section, start + 12, Field::Signed32, tpoff)?;
        put(section, start, &MOV_TP_RAX)?;
        put(section, start + 9, &[0x48, 0x8d, 0x80])?;
        self.pad(section, start)
    }

    /// To initial exec: `mov %fs:0, %rax; add x@gottpoff(%rip), %rax`. `slot` is
    /// the address of the GOT slot with the offset from the thread pointer,
    /// `place` the address of the relocated field (P).
    ///
    /// # Errors
    /// If the slot is out of reach; the bytes are then unchanged.
    pub fn to_ie(
        self,
        section: &mut [u8],
        offset: u64,
        slot: u64,
        place: u64,
    ) -> Result<(), ApplyError> {
        let start = self.start(offset)?;
        let start_address = place.wrapping_sub(offset).wrapping_add(start as u64);
        let distance = slot.wrapping_sub(start_address.wrapping_add(16));
        put_field(section, start + 12, Field::Signed32, distance)?;
        put(section, start, &MOV_TP_RAX)?;
        put(section, start + 9, &[0x48, 0x03, 0x05])?;
        self.pad(section, start)
    }

    /// The large model's sequence is 6 bytes longer than its replacement.
    fn pad(self, section: &mut [u8], start: usize) -> Result<(), ApplyError> {
        match self.0 {
            // nopw 0(%rax,%rax,1)
            TlsCall::Large => put(section, start + 16, &[0x66, 0x0f, 0x1f, 0x44, 0, 0]),
            TlsCall::Direct | TlsCall::Indirect => Ok(()),
        }
    }
}

/// A local dynamic TLS sequence that may be rewritten. Made by [`tls_ld`].
/// Rewriting it uses up the following relocation too; and all relocations of
/// [`Class::TlsModuleOffset`](super::reloc::Class::TlsModuleOffset) in allocated
/// sections of the same object must then give the offset from the thread pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsLd(TlsCall);

/// Recognises the local dynamic sequence at a `R_X86_64_TLSLD` relocation. The
/// caller checks that `next` refers to `__tls_get_addr`.
pub fn tls_ld(section: &[u8], offset: u64, addend: i64, next: Option<NextReloc>) -> Option<TlsLd> {
    let next = next?;
    if addend != -4 {
        return None;
    }
    // lea x@tlsld(%rip), %rdi
    if bytes_at::<3>(section, offset, -3)? != &[0x48, 0x8d, 0x3d] {
        return None;
    }
    if is_large_call(section, offset) {
        return TlsCall::Large.check_reloc(offset, 6, next).map(TlsLd);
    }
    let call = bytes_at::<5>(section, offset, 4)?;
    let plan = match call {
        [0xe8, ..] => TlsCall::Direct.check_reloc(offset, 5, next)?,
        [0xff, 0x15, ..] | [0x67, 0xe8, ..] => {
            bytes_at::<6>(section, offset, 4)?;
            TlsCall::Indirect.check_reloc(offset, 6, next)?
        }
        _ => return None,
    };
    Some(TlsLd(plan))
}

impl TlsLd {
    /// To local exec: `mov %fs:0, %rax`, padded with prefixes.
    ///
    /// # Errors
    /// If the sequence does not lie within the section.
    pub fn to_le(self, section: &mut [u8], offset: u64) -> Result<(), ApplyError> {
        let start = usize::try_from(offset)
            .ok()
            .and_then(|offset| offset.checked_sub(3))
            .ok_or(ApplyError::OutsideSection)?;
        let prefixes = if self.0 == TlsCall::Indirect { 4 } else { 3 };
        put(section, start, &[0x66; 4][..prefixes])?;
        put(section, start + prefixes, &MOV_TP_RAX)?;
        if self.0 == TlsCall::Large {
            // cs nopw 0(%rax,%rax,1)
            put(
                section,
                start + 12,
                &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
            )?;
        }
        Ok(())
    }
}

/// Opcode, prefix and ModRM byte of an instruction with a 64-bit operand that reaches memory relative to `%rip`, at a relocation
/// of its displacement. `is_extended`: the type of the relocation says that it has a REX2 prefix.
fn wide_access(
    section: &[u8],
    offset: u64,
    addend: i64,
    is_extended: bool,
) -> Option<(u8, Prefix, u8)> {
    if addend != -4 {
        return None;
    }
    bytes_at::<4>(section, offset, 0)?;
    let [opcode, modrm] = *bytes_at::<2>(section, offset, -2)?;
    let prefix = match is_extended {
        false => Prefix::rex(section, offset)?,
        true => Prefix::rex2(section, offset)?,
    };
    (prefix.is_wide() && is_rip_relative(modrm)).then_some((opcode, prefix, modrm))
}

/// An initial exec access that may be rewritten. Made by [`tls_ie`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsIe {
    is_add: bool,
    prefix: Prefix,
    modrm: u8,
}

/// Recognises `mov x@gottpoff(%rip), %reg` and `add x@gottpoff(%rip), %reg` at a
/// `R_X86_64_GOTTPOFF` or `R_X86_64_CODE_4_GOTTPOFF` relocation. Other
/// instructions, and those with 32-bit operands, are declined.
pub fn tls_ie(section: &[u8], offset: u64, r_type: u32, addend: i64) -> Option<TlsIe> {
    let is_extended = match r_type {
        reloc::R_X86_64_GOTTPOFF => false,
        reloc::R_X86_64_CODE_4_GOTTPOFF => true,
        _ => return None,
    };
    let (opcode, prefix, modrm) = wide_access(section, offset, addend, is_extended)?;
    let is_add = match opcode {
        0x8b => false,
        0x03 => true,
        _ => return None,
    };
    Some(TlsIe {
        is_add,
        prefix,
        modrm,
    })
}

impl TlsIe {
    /// To local exec: `mov $x@tpoff, %reg` or `add $x@tpoff, %reg`. (The psABI
    /// has `lea x@tpoff(%reg), %reg` for the latter. It is of the same length, but
    /// does not set the flags, and needs another form for `%rsp` and `%r12`.)
    ///
    /// # Errors
    /// If `tpoff` does not fit 32 bits; the bytes are then unchanged.
    pub fn to_le(self, section: &mut [u8], offset: u64, tpoff: u64) -> Result<(), ApplyError> {
        let offset = usize::try_from(offset).map_err(|_| ApplyError::OutsideSection)?;
        let start = offset.checked_sub(2).ok_or(ApplyError::OutsideSection)?;
        put_field(section, offset, Field::Signed32, tpoff)?;
        let opcode = if self.is_add { 0x81 } else { 0xc7 };
        put(section, start, &[opcode, modrm_register(self.modrm, 0)])?;
        self.prefix.put_reg_as_rm(section, offset)
    }
}

/// The address computation of a TLS descriptor sequence. Made by [`tlsdesc_lea`].
///
/// The call that belongs to it is somewhere behind, and only the symbol connects
/// the two: whoever rewrites one must rewrite the other. If one of them cannot be
/// recognised, and the output cannot keep the descriptor, that is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsDescLea {
    prefix: Prefix,
    modrm: u8,
}

/// Recognises `lea x@tlsdesc(%rip), %reg` at a `R_X86_64_GOTPC32_TLSDESC` or
/// `R_X86_64_CODE_4_GOTPC32_TLSDESC` relocation.
pub fn tlsdesc_lea(section: &[u8], offset: u64, r_type: u32, addend: i64) -> Option<TlsDescLea> {
    let is_extended = match r_type {
        reloc::R_X86_64_GOTPC32_TLSDESC => false,
        reloc::R_X86_64_CODE_4_GOTPC32_TLSDESC => true,
        _ => return None,
    };
    let (opcode, prefix, modrm) = wide_access(section, offset, addend, is_extended)?;
    (opcode == 0x8d).then_some(TlsDescLea { prefix, modrm })
}

impl TlsDescLea {
    /// To local exec: `mov $x@tpoff, %reg`.
    ///
    /// # Errors
    /// If `tpoff` does not fit 32 bits; the bytes are then unchanged.
    pub fn to_le(self, section: &mut [u8], offset: u64, tpoff: u64) -> Result<(), ApplyError> {
        TlsIe {
            is_add: false,
            prefix: self.prefix,
            modrm: self.modrm,
        }
        .to_le(section, offset, tpoff)
    }

    /// To initial exec: `mov x@gottpoff(%rip), %reg`. `slot` is the address of the
    /// GOT slot with the offset from the thread pointer, `place` the address of
    /// the relocated field (P).
    ///
    /// # Errors
    /// If the slot is out of reach; the bytes are then unchanged.
    pub fn to_ie(
        self,
        section: &mut [u8],
        offset: u64,
        slot: u64,
        place: u64,
    ) -> Result<(), ApplyError> {
        let offset = usize::try_from(offset).map_err(|_| ApplyError::OutsideSection)?;
        let start = offset.checked_sub(2).ok_or(ApplyError::OutsideSection)?;
        let distance = slot.wrapping_sub(place).wrapping_sub(4);
        put_field(section, offset, Field::Signed32, distance)?;
        put(section, start, &[0x8b])
    }
}

/// The call of a TLS descriptor sequence. Made by [`tlsdesc_call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsDescCall {
    length: usize,
}

/// Recognises `call *x@tlsdesc(%rax)` at a `R_X86_64_TLSDESC_CALL` relocation,
/// with or without an address size prefix.
pub fn tlsdesc_call(section: &[u8], offset: u64) -> Option<TlsDescCall> {
    match bytes_at::<2>(section, offset, 0)? {
        [0xff, 0x10] => Some(TlsDescCall { length: 2 }),
        [0x67, 0xff] if bytes_at::<1>(section, offset, 2)? == &[0x10] => {
            Some(TlsDescCall { length: 3 })
        }
        _ => None,
    }
}

impl TlsDescCall {
    /// Replaces the call by a `nop` of its length: after the rewritten `lea`, the
    /// offset from the thread pointer is in `%rax` already.
    ///
    /// # Errors
    /// If the call does not lie within the section.
    pub fn to_nop(self, section: &mut [u8], offset: u64) -> Result<(), ApplyError> {
        let offset = usize::try_from(offset).map_err(|_| ApplyError::OutsideSection)?;
        match self.length {
            2 => put(section, offset, &[0x66, 0x90]),
            _ => put(section, offset, &[0x0f, 0x1f, 0x00]),
        }
    }
}

#[cfg(test)]
#[path = "relax_tests.rs"]
mod tests;
