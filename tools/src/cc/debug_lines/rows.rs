//! The rows of a line table: each is said by how it differs from the one before, so a line that moves changes the row in which it begins to
//! differ, and perhaps the number of bytes that it takes.
//!
//! A row's instructions are read up to the one that makes it. The last ones of them, which advance line and address, are what an
//! assembler has made of two differences; LLVM's and GNU as do that alike (`emit`). Those of a row whose difference is another one now
//! are made anew, if what is there is what would have been made: else it is another assembler's.

use super::files::{Encoding, Files, LENGTH};
use super::object_file::DebugSections;
use super::{Kept, Reason};
use gimli::{EndianSlice, LittleEndian, constants as dw};
use std::ops::Range;

const UNKNOWN: Reason = "rows of lines that another assembler has written";

/// A section with other lines.
pub(super) struct Rewritten {
    pub bytes: Vec<u8>,
    /// What was copied, ascending.
    pub kept: Vec<Kept>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instruction {
    /// Makes a row.
    Special(u8),
    /// Makes a row.
    Copy,
    AdvanceAddress(u64),
    AdvanceLine(i64),
    SetFile(u64),
    AddConstant,
    EndSequence,
    /// One that says nothing of files and lines.
    Other,
}

/// Reads instructions.
struct Reader<'r> {
    bytes: &'r [u8],
    at: usize,
    files: &'r Files<'r>,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, Reason> {
        let byte = *self.bytes.get(self.at).ok_or(UNKNOWN)?;
        self.at += 1;
        Ok(byte)
    }

    fn unsigned(&mut self) -> Result<u64, Reason> {
        let mut rest = EndianSlice::new(self.bytes.get(self.at..).ok_or(UNKNOWN)?, LittleEndian);
        let value = gimli::leb128::read::unsigned(&mut rest).map_err(|_| UNKNOWN)?;
        self.at = self.bytes.len() - rest.len();
        Ok(value)
    }

    fn signed(&mut self) -> Result<i64, Reason> {
        let mut rest = EndianSlice::new(self.bytes.get(self.at..).ok_or(UNKNOWN)?, LittleEndian);
        let value = gimli::leb128::read::signed(&mut rest).map_err(|_| UNKNOWN)?;
        self.at = self.bytes.len() - rest.len();
        Ok(value)
    }

    fn skip(&mut self, count: u64) -> Result<(), Reason> {
        let count = usize::try_from(count).map_err(|_| UNKNOWN)?;
        let end = self.at.checked_add(count);
        self.at = end
            .filter(|end| *end <= self.bytes.len())
            .ok_or(UNKNOWN)?;
        Ok(())
    }

    fn next(&mut self) -> Result<Instruction, Reason> {
        let code = self.byte()?;
        if code >= self.files.encoding.opcode_base {
            return Ok(Instruction::Special(code));
        }
        if code == 0 {
            let size = self.unsigned()?.checked_sub(1).ok_or(UNKNOWN)?;
            let code = dw::DwLne(self.byte()?);
            self.skip(size)?;
            return match code {
                dw::DW_LNE_end_sequence => Ok(Instruction::EndSequence),
                // It would make a file that is in no table.
                dw::DW_LNE_define_file => Err(UNKNOWN),
                _ => Ok(Instruction::Other),
            };
        }
        Ok(match dw::DwLns(code) {
            dw::DW_LNS_copy => Instruction::Copy,
            dw::DW_LNS_advance_pc => Instruction::AdvanceAddress(self.unsigned()?),
            dw::DW_LNS_advance_line => Instruction::AdvanceLine(self.signed()?),
            dw::DW_LNS_set_file => Instruction::SetFile(self.unsigned()?),
            dw::DW_LNS_const_add_pc => Instruction::AddConstant,
            dw::DW_LNS_fixed_advance_pc => {
                self.skip(2)?;
                Instruction::Other
            }
            _ => {
                let operands = self.files.operands.get(usize::from(code) - 1);
                for _ in 0..*operands.ok_or(UNKNOWN)? {
                    self.unsigned()?;
                }
                Instruction::Other
            }
        })
    }
}

impl Encoding {
    fn largest_special(&self) -> u64 {
        u64::from(255 - self.opcode_base) / self.line_range
    }

    /// How far a special instruction advances address and line.
    fn special(&self, code: u8) -> (u64, i64) {
        let code = u64::from(code - self.opcode_base);
        let line = self.line_base + (code % self.line_range) as i64;
        (code / self.line_range, line)
    }

    /// Writes the instructions that make a row so far behind the last one.
    fn emit(&self, line: i64, address: u64, out: &mut Vec<u8>) {
        let (base, range) = (u64::from(self.opcode_base), self.line_range);
        let mut line = line;
        let mut code = line.wrapping_sub(self.line_base) as u64;
        let is_advanced = code >= range || code + base > 255;
        if is_advanced {
            out.push(dw::DW_LNS_advance_line.0);
            gimli::leb128::write::signed(out, line).expect("written to memory");
            line = 0;
            code = 0_i64.wrapping_sub(self.line_base) as u64;
        }
        if line == 0 && address == 0 {
            out.push(dw::DW_LNS_copy.0);
            return;
        }
        code += base;
        let is_byte = |code: u64| u8::try_from(code).ok();
        let most = self.largest_special();
        if address < 256 + most {
            if let Some(code) = is_byte(code + address * range) {
                out.push(code);
                return;
            }
            let rest = address.checked_sub(most);
            if let Some(code) = rest.and_then(|rest| is_byte(code + rest * range)) {
                out.extend([dw::DW_LNS_const_add_pc.0, code]);
                return;
            }
        }
        out.push(dw::DW_LNS_advance_pc.0);
        gimli::leb128::write::unsigned(out, address).expect("written to memory");
        out.push(match is_advanced {
            true => dw::DW_LNS_copy.0,
            // (Below 255, as was asked before.)
            false => code as u8,
        });
    }
}

/// The section of the line table after the moves.
pub(super) fn moved(sections: &DebugSections, files: &Files<'_>) -> Result<Rewritten, Reason> {
    let bytes = &sections.lines.plain;
    let (head, rows) = bytes.split_at_checked(files.rows_at).ok_or(UNKNOWN)?;
    let mut out = head.to_vec();
    for change in &files.changes {
        let place = out.get_mut(change.at..change.at + change.bytes.len());
        place.ok_or(UNKNOWN)?.copy_from_slice(&change.bytes);
    }
    let mut kept = vec![Kept {
        before: 0,
        now: 0,
        size: head.len(),
    }];
    rewrite(rows, files, &mut out, &mut kept, head.len())?;
    let length = u32::try_from(out.len() - LENGTH).map_err(|_| UNKNOWN)?;
    out[..LENGTH].copy_from_slice(&length.to_le_bytes());
    Ok(Rewritten { bytes: out, kept })
}

/// The state at which a sequence begins.
const FIRST: u64 = 1;

/// Rewrites rows, which begin at `start` in their section.
fn rewrite(
    rows: &[u8],
    files: &Files<'_>,
    out: &mut Vec<u8>,
    kept: &mut Vec<Kept>,
    start: usize,
) -> Result<(), Reason> {
    let mut reader = Reader {
        bytes: rows,
        at: 0,
        files,
    };
    let mut keep = |range: Range<usize>, out: &mut Vec<u8>| {
        kept.push(Kept {
            before: start + range.start,
            now: out.len(),
            size: range.len(),
        });
        out.extend_from_slice(&rows[range]);
    };
    let (mut file, mut line, mut now) = (FIRST, FIRST as i64, FIRST as i64);
    let mut of_row: Vec<(Instruction, Range<usize>)> = Vec::new();
    while reader.at < rows.len() {
        let begin = reader.at;
        let instruction = reader.next()?;
        of_row.push((instruction, begin..reader.at));
        let own = match instruction {
            Instruction::SetFile(number) => {
                file = number;
                continue;
            }
            Instruction::EndSequence => {
                if of_row.iter().any(|(it, _)| matches!(it, Instruction::AdvanceLine(_))) {
                    return Err(UNKNOWN);
                }
                keep(of_row[0].1.start..reader.at, out);
                of_row.clear();
                (file, line, now) = (FIRST, FIRST as i64, FIRST as i64);
                continue;
            }
            Instruction::Copy => 0,
            Instruction::Special(code) => files.encoding.special(code).1,
            _ => continue,
        };
        let advanced = of_row.iter().map(|(it, _)| match it {
            Instruction::AdvanceLine(lines) => *lines,
            _ => 0,
        });
        let difference = advanced.fold(own, i64::wrapping_add);
        line = line.wrapping_add(difference);
        let number = u64::try_from(line).map_err(|_| UNKNOWN)?;
        let moved = files.line(file, number)?;
        let moved = i64::try_from(moved).map_err(|_| UNKNOWN)?;
        let anew = moved.wrapping_sub(now);
        now = moved;
        let all = of_row[0].1.start..reader.at;
        if anew == difference {
            keep(all, out);
        } else {
            let tail = tail(&of_row, files, difference, rows)?;
            let (from, address) = tail;
            keep(all.start..from, out);
            files.encoding.emit(anew, address, out);
        }
        of_row.clear();
    }
    if let Some((_, range)) = of_row.first() {
        keep(range.start..rows.len(), out);
    }
    Ok(())
}

/// Where the instructions begin that advance line and address and make the row, and how far they advance the address.
fn tail(
    of_row: &[(Instruction, Range<usize>)],
    files: &Files<'_>,
    difference: i64,
    rows: &[u8],
) -> Result<(usize, u64), Reason> {
    let mut from = of_row.len() - 1;
    let mut address = match of_row[from].0 {
        Instruction::Special(code) => files.encoding.special(code).0,
        _ => 0,
    };
    let before = |from: usize| from.checked_sub(1).map(|at| of_row[at].0);
    match before(from) {
        Some(Instruction::AdvanceAddress(by)) => {
            address = address.wrapping_add(by);
            from -= 1;
        }
        Some(Instruction::AddConstant) => {
            address += files.encoding.largest_special();
            from -= 1;
        }
        _ => {}
    }
    if let Some(Instruction::AdvanceLine(_)) = before(from) {
        from -= 1;
    }
    let (head, tail) = of_row.split_at(from);
    let is_elsewhere = head
        .iter()
        .any(|(it, _)| matches!(it, Instruction::AdvanceLine(_)));
    let mut expected = Vec::new();
    files.encoding.emit(difference, address, &mut expected);
    let range = tail[0].1.start..tail[tail.len() - 1].1.end;
    if is_elsewhere || rows[range.clone()] != expected {
        return Err(UNKNOWN);
    }
    Ok((range.start, address))
}

#[cfg(test)]
mod tests {
    use super::super::Move;
    use super::*;
    use proptest::prelude::*;

    /// A row, as assemblers are told it.
    #[derive(Clone, Debug)]
    struct Row {
        file: u64,
        line: u32,
        address: u64,
        has_column: bool,
        ends: bool,
    }

    /// The rows' instructions.
    fn assemble(rows: &[Row], encoding: &Encoding) -> Vec<u8> {
        let mut out = Vec::new();
        let (mut file, mut line) = (FIRST, FIRST as i64);
        for row in rows {
            if row.ends {
                out.extend([dw::DW_LNS_advance_pc.0, 3, 0, 1, 1]);
                (file, line) = (FIRST, FIRST as i64);
                continue;
            }
            if row.file != file {
                file = row.file;
                out.extend([dw::DW_LNS_set_file.0, file as u8]);
            }
            if row.has_column {
                out.extend([dw::DW_LNS_set_column.0, 7]);
            }
            encoding.emit(i64::from(row.line) - line, row.address, &mut out);
            line = i64::from(row.line);
        }
        out
    }

    fn a_row() -> impl Strategy<Value = Row> {
        (
            1..4_u64,
            1..200_u32,
            prop_oneof![0..20_u64, 0..400_u64],
            any::<bool>(),
            prop::bool::weighted(0.1),
        )
            .prop_map(|(file, line, address, has_column, ends)| Row {
                file,
                line,
                address,
                has_column,
                ends,
            })
    }

    proptest! {
        #[test]
        fn moved_rows_are_what_an_assembler_makes_of_them(
            rows in prop::collection::vec(a_row(), 0..60),
            gaps in prop::collection::vec(1..40_u32, 200),
        ) {
            let now: Vec<u32> = gaps.iter().scan(0, |sum, gap| { *sum += gap; Some(*sum) }).collect();
            let it = Move { path: b"a.h".to_vec(), before: (1..=200).collect(), now, md5: [0; 16] };
            let files = Files::for_tests(vec![None, None, Some(&it), None]);
            let before = assemble(&rows, &files.encoding);
            let moved: Vec<Row> = rows.iter().map(|row| Row {
                line: match row.file {
                    2 => it.now[row.line as usize - 1],
                    _ => row.line,
                },
                ..row.clone()
            }).collect();
            let (mut out, mut kept) = (Vec::new(), Vec::new());
            rewrite(&before, &files, &mut out, &mut kept, 0).expect("known rows");
            prop_assert_eq!(&out, &assemble(&moved, &files.encoding));
            for piece in kept {
                let (from, to) = (piece.before..piece.before + piece.size, piece.now..piece.now + piece.size);
                prop_assert_eq!(&before[from], &out[to]);
            }
        }

        #[test]
        fn no_bytes_are_too_strange(rows in prop::collection::vec(any::<u8>(), 0..60)) {
            let it = Move { path: b"a.h".to_vec(), before: vec![1, 2], now: vec![2, 3], md5: [0; 16] };
            let files = Files::for_tests(vec![None, Some(&it)]);
            let _ = rewrite(&rows, &files, &mut Vec::new(), &mut Vec::new(), 0);
        }
    }

    #[test]
    fn what_another_assembler_writes_is_left_alone() {
        let it = Move {
            path: b"a.h".to_vec(),
            before: vec![1, 2],
            now: vec![2, 3],
            md5: [0; 16],
        };
        let files = Files::for_tests(vec![None, Some(&it)]);
        let run = |rows: &[u8]| rewrite(rows, &files, &mut Vec::new(), &mut Vec::new(), 0);
        // Line and address are advanced, where one instruction would do.
        assert_eq!(run(&[dw::DW_LNS_advance_line.0, 1, dw::DW_LNS_copy.0]), Err(UNKNOWN));
        // Line 3, of which nothing is known.
        assert!(run(&[20]).is_err());
    }
}
