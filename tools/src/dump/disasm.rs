//! Disassembly of text sections, with fixups where they belong.
//!
//! As `objdump -dr` does: AT&T syntax, an operand that a fixup will fill shown as
//! the symbol that it will be, and under the instruction the fixup itself.

use iced_x86::{
    ConstantOffsets, Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, OpKind,
    SymbolResolver, SymbolResult,
};
use linker::elf::x86_64::reloc;
use serde::Serialize;

/// A fixup, with its target as text.
#[derive(Clone, Debug, Serialize)]
pub struct Fixup {
    /// Offset within the section.
    pub offset: u64,
    /// `R_X86_64_…`.
    #[serde(rename = "type")]
    pub name: String,
    /// What it refers to; empty for a fixup without a symbol.
    pub target: String,
    /// The constant addend.
    pub addend: i64,
    /// Whether the field holds a distance from itself.
    #[serde(skip)]
    pub pc_relative: bool,
}

impl Fixup {
    /// Target and addend, as an assembler writes them.
    pub fn expression(&self) -> String {
        expression(&self.target, self.addend)
    }
}

fn expression(target: &str, addend: i64) -> String {
    match (target, addend) {
        ("", _) => format!("{addend:#x}"),
        (_, 0) => target.to_owned(),
        (_, 1..) => format!("{target}+{addend:#x}"),
        _ => format!("{target}-{:#x}", addend.unsigned_abs()),
    }
}

/// Whether a relocation type computes a distance from its place (psABI, table 4.9).
pub fn is_pc_relative(r_type: u32) -> bool {
    matches!(
        r_type,
        reloc::R_X86_64_PC8
            | reloc::R_X86_64_PC16
            | reloc::R_X86_64_PC32
            | reloc::R_X86_64_PC64
            | reloc::R_X86_64_PLT32
            | reloc::R_X86_64_GOTPCREL
            | reloc::R_X86_64_GOTPCREL64
            | reloc::R_X86_64_GOTPCRELX
            | reloc::R_X86_64_REX_GOTPCRELX
            | reloc::R_X86_64_GOTPC32
            | reloc::R_X86_64_GOTTPOFF
            | reloc::R_X86_64_TLSGD
            | reloc::R_X86_64_TLSLD
            | reloc::R_X86_64_GOTPC32_TLSDESC
    )
}

/// One instruction.
#[derive(Debug, Serialize)]
pub struct Line {
    /// Offset within the section.
    pub offset: u64,
    /// Its bytes, in hexadecimal.
    pub bytes: String,
    /// The instruction.
    pub text: String,
    /// The fixups in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fixups: Vec<Fixup>,
}

/// Disassembles 64-bit code. `fixups` are in ascending order of their offsets.
/// Bytes that are no instruction are shown one by one as `(bad)`.
pub fn disassemble(code: &[u8], fixups: &[Fixup]) -> Vec<Line> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut lines = Vec::new();
    let mut rest = fixups;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let start = instruction.ip();
        let length = if instruction.is_invalid() {
            // Resume behind the first byte, as objdump does.
            let _ = decoder.set_position(start as usize + 1);
            decoder.set_ip(start + 1);
            1
        } else {
            instruction.len() as u64
        };
        let end = start + length;
        let before = rest.partition_point(|fixup| fixup.offset < start);
        let count = rest[before..].partition_point(|fixup| fixup.offset < end);
        let inside = &rest[before..before + count];
        rest = &rest[before + count..];
        let text = if instruction.is_invalid() {
            "(bad)".to_owned()
        } else {
            let operands = Operands {
                offsets: decoder.get_constant_offsets(&instruction),
                fixups: inside.to_vec(),
            };
            format(&instruction, operands)
        };
        let bytes = code.get(start as usize..end as usize).unwrap_or_default();
        lines.push(Line {
            offset: start,
            bytes: super::output::hex(bytes),
            text,
            fixups: inside.to_vec(),
        });
    }
    lines
}

fn format(instruction: &Instruction, operands: Operands) -> String {
    let mut formatter = GasFormatter::with_options(Some(Box::new(operands)), None);
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_space_after_operand_separator(false);
    options.set_gas_show_mnemonic_size_suffix(false);
    options.set_rip_relative_addresses(true);
    let mut text = String::new();
    formatter.format(instruction, &mut text);
    text
}

/// Gives the operands of one instruction their symbols.
struct Operands {
    offsets: ConstantOffsets,
    fixups: Vec<Fixup>,
}

impl SymbolResolver for Operands {
    fn symbol(
        &mut self,
        instruction: &Instruction,
        _operand: u32,
        instruction_operand: Option<u32>,
        address: u64,
        _address_size: u32,
    ) -> Option<SymbolResult<'_>> {
        let is_memory = instruction_operand
            .is_some_and(|operand| instruction.op_kind(operand) == OpKind::Memory);
        let field = if is_memory {
            self.offsets
                .has_displacement()
                .then(|| self.offsets.displacement_offset())
        } else {
            self.offsets
                .has_immediate()
                .then(|| self.offsets.immediate_offset())
        }?;
        let place = instruction.ip() + field as u64;
        let fixup = self.fixups.iter().find(|fixup| fixup.offset == place)?;
        // The processor counts from the end of the instruction, the fixup from
        // its place.
        let addend = if fixup.pc_relative {
            fixup
                .addend
                .wrapping_add((instruction.next_ip() - place) as i64)
        } else {
            fixup.addend
        };
        Some(SymbolResult::with_string(
            address,
            expression(&fixup.target, addend),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixup(offset: u64, r_type: u32, target: &str, addend: i64) -> Fixup {
        Fixup {
            offset,
            name: reloc::name(r_type).to_string(),
            target: target.into(),
            addend,
            pc_relative: is_pc_relative(r_type),
        }
    }

    fn texts(code: &[u8], fixups: &[Fixup]) -> Vec<String> {
        let lines = disassemble(code, fixups);
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn calls_and_loads_show_their_symbols() {
        // push %rbp; lea .LC0(%rip),%rdi; call puts; ret
        let code = [0x55, 0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0xc3];
        let fixups = [
            fixup(4, reloc::R_X86_64_PC32, "\"hello\"", -4),
            fixup(9, reloc::R_X86_64_PLT32, "puts", -4),
        ];
        assert_eq!(
            texts(&code, &fixups),
            ["push %rbp", "lea \"hello\"(%rip),%rdi", "call puts", "ret"]
        );
    }

    #[test]
    fn an_immediate_behind_the_displacement_is_counted() {
        // movl $5,x(%rip): the fixup's addend is -8, and means x itself.
        let code = [0xc7, 0x05, 0, 0, 0, 0, 5, 0, 0, 0];
        let fixups = [fixup(2, reloc::R_X86_64_PC32, "x", -8)];
        assert_eq!(texts(&code, &fixups), ["movl $0x5,x(%rip)"]);
        // movl $y+4,8(%rsp): absolute, in the immediate.
        let code = [0xc7, 0x44, 0x24, 0x08, 0, 0, 0, 0];
        let fixups = [fixup(4, reloc::R_X86_64_32S, "y", 4)];
        assert_eq!(texts(&code, &fixups), ["movl $y+0x4,0x8(%rsp)"]);
    }

    #[test]
    fn what_is_no_code_is_not_the_end() {
        assert_eq!(texts(&[0x06, 0xc3], &[]), ["(bad)", "ret"]);
        assert_eq!(texts(&[0xe8, 0], &[]), ["(bad)", "(bad)"]);
        assert!(disassemble(&[], &[]).is_empty());
    }

    #[test]
    fn branches_within_show_offsets() {
        assert_eq!(
            texts(&[0xeb, 0x01, 0x90, 0xc3], &[]),
            ["jmp 0x3", "nop", "ret"]
        );
    }
}
