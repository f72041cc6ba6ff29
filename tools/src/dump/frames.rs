//! Call frame information as text (DWARF 5, section 6.4; LSB core, section 10.6).
//!
//! A fragment holds its FDEs with a zero CIE pointer and a fixup that says which
//! CIE's fragment it means. To decode them, CIE and FDE are put together again as
//! they stood in `.eh_frame`, and `gimli` reads that.

use gimli::{
    BaseAddresses, CallFrameInstruction as Cfi, CieOrFde, EhFrame, EndianSlice, LittleEndian,
    Register, UnwindSection, X86_64,
};
use serde::Serialize;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// One CIE or FDE.
#[derive(Debug, Serialize)]
pub struct Frame {
    /// `CIE` or `FDE`.
    pub kind: &'static str,
    /// Offset within the section.
    pub offset: u64,
    /// What it says besides its instructions.
    pub facts: String,
    /// `DW_CFA_…`.
    pub instructions: Vec<String>,
}

/// Decodes an FDE section of a fragment. For each of its records `cie_of` gives, by
/// the offset of its CIE pointer field, the bytes of the CIE that it has.
pub fn decode_fdes<'a>(
    section: &[u8],
    mut cie_of: impl FnMut(u64) -> Option<&'a [u8]>,
) -> Result<Vec<Frame>, String> {
    let mut frames = Vec::new();
    let mut offset = 0;
    while offset < section.len() {
        let record = record_at(section, offset)?;
        let Some(cie) = cie_of(offset as u64 + 4) else {
            return Err(format!("offset {offset:#x}: FDE without CIE"));
        };
        // The CIE first: its pointer is the distance from the field to it.
        let mut joined = cie.to_vec();
        joined.extend_from_slice(record);
        let distance = u32::try_from(cie.len() + 4).map_err(|_| "CIE is too large".to_owned())?;
        let Some(field) = joined.get_mut(cie.len() + 4..cie.len() + 8) else {
            return Err(format!("offset {offset:#x}: FDE is too short"));
        };
        field.copy_from_slice(&distance.to_le_bytes());
        for mut frame in decode(&joined)? {
            if frame.offset == cie.len() as u64 {
                frame.offset = offset as u64;
                frames.push(frame);
            }
        }
        offset += record.len();
    }
    Ok(frames)
}

/// The record at `offset`, with its length field.
fn record_at(section: &[u8], offset: usize) -> Result<&[u8], String> {
    let fault = || format!("offset {offset:#x}: record reaches beyond the section's end");
    let rest = section.get(offset..).ok_or_else(fault)?;
    let length = u32::from_le_bytes(*rest.first_chunk().ok_or_else(fault)?);
    // A splitter keeps frames with 64-bit lengths as whole sections.
    usize::try_from(length)
        .ok()
        .and_then(|length| length.checked_add(4))
        .and_then(|length| rest.get(..length))
        .ok_or_else(fault)
}

/// Decodes a whole `.eh_frame`, or one CIE.
pub fn decode(section: &[u8]) -> Result<Vec<Frame>, String> {
    let eh_frame = EhFrame::new(section, LittleEndian);
    // Sections of relocatable code are at address 0; what is relative to
    // something is shown by its fixup.
    let bases = BaseAddresses::default().set_eh_frame(0).set_text(0);
    let mut entries = eh_frame.entries(&bases);
    let mut frames = Vec::new();
    let say = |error: gimli::Error| error.to_string();
    while let Some(entry) = entries.next().map_err(say)? {
        frames.push(match entry {
            CieOrFde::Cie(cie) => {
                let augmentation = match cie.augmentation() {
                    Some(_) => augmentation_string(section, cie.offset()),
                    None => String::new(),
                };
                let facts = format!(
                    "version {} augmentation \"{augmentation}\" code align {} data align {} \
                     return address {}{}",
                    cie.version(),
                    cie.code_alignment_factor(),
                    cie.data_alignment_factor(),
                    register(cie.return_address_register()),
                    if cie.is_signal_trampoline() {
                        " signal frame"
                    } else {
                        ""
                    },
                );
                Frame {
                    kind: "CIE",
                    offset: cie.offset() as u64,
                    facts,
                    instructions: instructions(
                        cie.instructions(&eh_frame, &bases),
                        cie.code_alignment_factor(),
                        cie.data_alignment_factor(),
                    )?,
                }
            }
            CieOrFde::Fde(partial) => {
                let offset = partial.offset() as u64;
                let fde = partial
                    .parse(|section, bases, at| section.cie_from_offset(bases, at))
                    .map_err(say)?;
                let cie = fde.cie();
                let lsda = if fde.lsda().is_some() {
                    " with LSDA"
                } else {
                    ""
                };
                Frame {
                    kind: "FDE",
                    offset,
                    facts: format!("length {:#x}{lsda}", fde.len()),
                    instructions: instructions(
                        fde.instructions(&eh_frame, &bases),
                        cie.code_alignment_factor(),
                        cie.data_alignment_factor(),
                    )?,
                }
            }
        });
    }
    Ok(frames)
}

/// The augmentation string of the CIE at `offset`: after length, id and version.
fn augmentation_string(section: &[u8], offset: usize) -> String {
    let bytes = section.get(offset.saturating_add(9)..).unwrap_or_default();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(0);
    super::output::printable(&bytes[..end]).into_owned()
}

fn register(register: Register) -> String {
    match X86_64::register_name(register) {
        Some(name) => name.to_owned(),
        None => format!("r{}", register.0),
    }
}

fn instructions(
    mut iterator: gimli::CallFrameInstructionIter<'_, Slice<'_>>,
    code_align: u64,
    data_align: i64,
) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    let mut location = 0_u64;
    while let Some(instruction) = iterator.next().map_err(|error| error.to_string())? {
        if instruction == Cfi::Nop {
            continue;
        }
        lines.push(instruction_text(
            &instruction,
            &mut location,
            code_align,
            data_align,
        ));
    }
    Ok(lines)
}

fn instruction_text(
    instruction: &Cfi<usize>,
    location: &mut u64,
    code_align: u64,
    data_align: i64,
) -> String {
    let unsigned = |offset: u64| (offset as i64).wrapping_mul(data_align);
    let signed = |offset: i64| offset.wrapping_mul(data_align);
    match *instruction {
        Cfi::SetLoc { address } => {
            *location = address;
            format!("DW_CFA_set_loc to {address:#x}")
        }
        Cfi::AdvanceLoc { delta } => {
            let delta = u64::from(delta).wrapping_mul(code_align);
            *location = location.wrapping_add(delta);
            format!("DW_CFA_advance_loc {delta} to {location:#x}")
        }
        Cfi::DefCfa {
            register: r,
            offset,
        } => {
            format!("DW_CFA_def_cfa {} offset {offset}", register(r))
        }
        Cfi::DefCfaSf {
            register: r,
            factored_offset,
        } => format!(
            "DW_CFA_def_cfa_sf {} offset {}",
            register(r),
            signed(factored_offset)
        ),
        Cfi::DefCfaRegister { register: r } => {
            format!("DW_CFA_def_cfa_register {}", register(r))
        }
        Cfi::DefCfaOffset { offset } => format!("DW_CFA_def_cfa_offset {offset}"),
        Cfi::DefCfaOffsetSf { factored_offset } => {
            format!("DW_CFA_def_cfa_offset_sf {}", signed(factored_offset))
        }
        Cfi::DefCfaExpression { expression } => {
            format!("DW_CFA_def_cfa_expression ({} bytes)", expression.length)
        }
        Cfi::Undefined { register: r } => format!("DW_CFA_undefined {}", register(r)),
        Cfi::SameValue { register: r } => format!("DW_CFA_same_value {}", register(r)),
        Cfi::Offset {
            register: r,
            factored_offset,
        } => format!(
            "DW_CFA_offset {} at cfa{:+}",
            register(r),
            unsigned(factored_offset)
        ),
        Cfi::OffsetExtendedSf {
            register: r,
            factored_offset,
        } => format!(
            "DW_CFA_offset_extended_sf {} at cfa{:+}",
            register(r),
            signed(factored_offset)
        ),
        Cfi::ValOffset {
            register: r,
            factored_offset,
        } => format!(
            "DW_CFA_val_offset {} is cfa{:+}",
            register(r),
            unsigned(factored_offset)
        ),
        Cfi::ValOffsetSf {
            register: r,
            factored_offset,
        } => format!(
            "DW_CFA_val_offset_sf {} is cfa{:+}",
            register(r),
            signed(factored_offset)
        ),
        Cfi::Register {
            dest_register,
            src_register,
        } => format!(
            "DW_CFA_register {} in {}",
            register(dest_register),
            register(src_register)
        ),
        Cfi::Expression {
            register: r,
            expression,
        } => format!(
            "DW_CFA_expression {} ({} bytes)",
            register(r),
            expression.length
        ),
        Cfi::ValExpression {
            register: r,
            expression,
        } => format!(
            "DW_CFA_val_expression {} ({} bytes)",
            register(r),
            expression.length
        ),
        Cfi::Restore { register: r } => format!("DW_CFA_restore {}", register(r)),
        Cfi::RememberState => "DW_CFA_remember_state".to_owned(),
        Cfi::RestoreState => "DW_CFA_restore_state".to_owned(),
        Cfi::ArgsSize { size } => format!("DW_CFA_GNU_args_size {size}"),
        // `gimli` may learn more of them.
        ref other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As gcc writes it: "zR", pcrel sdata4; def_cfa rsp 8; offset rip at cfa-8.
    const CIE: [u8; 24] = [
        20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
    ];
    /// CIE pointer zero, as fragments have it; push %rbp at 1.
    const FDE: [u8; 24] = [
        20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0x41, 0x0e, 16, 0x86, 2, 0, 0,
    ];

    #[test]
    fn a_cie_alone() {
        let frames = decode(&CIE).expect("decoded");
        assert_eq!(frames.len(), 1);
        assert_eq!(
            frames[0].facts,
            "version 1 augmentation \"zR\" code align 1 data align -8 return address RA"
        );
        assert_eq!(
            frames[0].instructions,
            ["DW_CFA_def_cfa rsp offset 8", "DW_CFA_offset RA at cfa-8"]
        );
    }

    #[test]
    fn fdes_find_their_cies() {
        let section = [FDE, FDE].concat();
        let mut asked = Vec::new();
        let frames = decode_fdes(&section, |field| {
            asked.push(field);
            Some(&CIE)
        })
        .expect("decoded");
        assert_eq!(asked, [4, 28]);
        assert_eq!((frames[0].offset, frames[1].offset), (0, 24));
        assert_eq!(frames[1].kind, "FDE");
        assert_eq!(frames[1].facts, "length 0x10");
        assert_eq!(
            frames[1].instructions,
            [
                "DW_CFA_advance_loc 1 to 0x1",
                "DW_CFA_def_cfa_offset 16",
                "DW_CFA_offset rbp at cfa-16"
            ]
        );
    }

    #[test]
    fn damage_is_an_error() {
        assert!(decode_fdes(&FDE[..20], |_| Some(&CIE)).is_err());
        assert!(decode_fdes(&FDE[..3], |_| Some(&CIE)).is_err());
        assert!(decode_fdes(&FDE, |_| None).is_err());
        assert!(decode_fdes(&[2, 0, 0, 0, 0, 0], |_| Some(&CIE)).is_err());
        assert!(decode_fdes(&FDE, |_| Some(&CIE[..10])).is_err());
        assert!(decode_fdes(&[0xff; 40], |_| Some(&CIE)).is_err());
    }
}
