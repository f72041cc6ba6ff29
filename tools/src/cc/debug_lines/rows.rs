//! The rows of a line table: each is said by how it differs from the one before, so a line that moves changes the row in which it begins to
//! differ, and perhaps the number of bytes that it takes.
//!
//! A row's instructions are read up to the one that makes it. The last ones of them, which advance line and address, are what an
//! assembler has made of two differences; LLVM's and GNU as do that alike (`emit`). Those of a row whose difference is another one now
//! are made anew, if what is there is what would have been made: else it is another assembler's.
//!
//! Of the rest of a row, gcc says nothing by lines. To clang a row is a statement if its line is another number than the one before, whatever
//! the files ([`Statements`]); so it may become one, or none. (Discriminators, and which row a merged instruction has, could follow from lines of two
//! files only within one function: where one includes another file. Such sources are not moved.)

use super::files::{Encoding, Files, LENGTH};
use super::object_file::DebugSections;
use super::producer::Producer;
use super::{Kept, Reason};
use gimli::{EndianSlice, LittleEndian, constants as dw};
use std::ops::Range;

const UNKNOWN_STATEMENT: Reason = "a row of which it is not known whether a statement begins there";
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
    SetColumn(u64),
    /// Statements begin or end.
    Negate,
    EndPrologue,
    /// The address, or another flag of the row.
    Behind,
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
        self.at = end.filter(|end| *end <= self.bytes.len()).ok_or(UNKNOWN)?;
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
                dw::DW_LNE_set_address => Ok(Instruction::Behind),
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
            dw::DW_LNS_set_column => Instruction::SetColumn(self.unsigned()?),
            dw::DW_LNS_negate_stmt => Instruction::Negate,
            dw::DW_LNS_set_prologue_end => Instruction::EndPrologue,
            dw::DW_LNS_set_basic_block | dw::DW_LNS_set_epilogue_begin => Instruction::Behind,
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
pub(super) fn moved(
    sections: &DebugSections,
    files: &Files<'_>,
    producer: Producer,
) -> Result<Rewritten, Reason> {
    let bytes = &sections.lines.plain;
    let (head, rows) = bytes.split_at_checked(files.rows_at).ok_or(UNKNOWN)?;
    let mut head = head.to_vec();
    for change in &files.changes {
        let place = head.get_mut(change.at..change.at + change.bytes.len());
        place.ok_or(UNKNOWN)?.copy_from_slice(&change.bytes);
    }
    let start = head.len();
    let mut out = Output {
        rows,
        start,
        kept: vec![Kept {
            before: 0,
            now: 0,
            size: start,
        }],
        bytes: head,
    };
    rewrite(&mut out, files, producer)?;
    let length = u32::try_from(out.bytes.len() - LENGTH).map_err(|_| UNKNOWN)?;
    out.bytes[..LENGTH].copy_from_slice(&length.to_le_bytes());
    Ok(Rewritten {
        bytes: out.bytes,
        kept: out.kept,
    })
}

/// What is written of rows.
struct Output<'r> {
    /// The rows before the moves.
    rows: &'r [u8],
    /// Where these begin in their section.
    start: usize,
    bytes: Vec<u8>,
    kept: Vec<Kept>,
}

impl Output<'_> {
    /// Copies instructions.
    fn keep(&mut self, range: Range<usize>) {
        self.kept.push(Kept {
            before: self.start + range.start,
            now: self.bytes.len(),
            size: range.len(),
        });
        self.bytes.extend_from_slice(&self.rows[range]);
    }
}

/// The line of the first row of a sequence, before anything is said; and the file.
const FIRST: u64 = 1;

/// Which rows are statements, before the moves and after them.
struct Statements {
    producer: Producer,
    /// What it was before the first row of a sequence.
    default: bool,
    before: bool,
    now: bool,
    column: u64,
    /// Whether there was a row already.
    has_row: bool,
    /// The line of the row before, or of the last one that had a line, before the moves and after them.
    last: (u64, u64),
}

impl Statements {
    fn begin(producer: Producer, default: bool) -> Statements {
        Statements {
            producer,
            default,
            before: default,
            now: default,
            column: 0,
            has_row: false,
            last: (FIRST, FIRST),
        }
    }

    /// Goes on to a row with these instructions, whose line was and is this. Whether the row is to have an instruction that negates.
    fn next(&mut self, of_row: &[Piece], line: (u64, u64)) -> Result<bool, Reason> {
        let mut ends_prologue = false;
        for (instruction, _) in of_row {
            match instruction {
                Instruction::Negate => self.before = !self.before,
                Instruction::SetColumn(column) => self.column = *column,
                Instruction::EndPrologue => ends_prologue = true,
                _ => {}
            }
        }
        let was_same = line.0 == self.last.0;
        let is_same = line.1 == self.last.1;
        let is = match self.producer {
            Producer::Gcc => self.before,
            Producer::Clang if line.0 == 0 || was_same == is_same => self.before,
            // Another number than before makes a statement.
            Producer::Clang if was_same => true,
            // What is one for another reason: a function begins in it, or its prologue ends.
            Producer::Clang if ends_prologue || !self.has_row => self.before,
            // So may be this one, or it may not.
            Producer::Clang if self.column == 0 || !self.before => return Err(UNKNOWN_STATEMENT),
            Producer::Clang => false,
        };
        if line.0 != 0 {
            self.last = line;
        }
        self.has_row = true;
        let negates = is != self.now;
        self.now = is;
        Ok(negates)
    }

    fn end_sequence(&mut self) {
        *self = Statements::begin(self.producer, self.default);
    }
}

/// An instruction, and where it is.
type Piece = (Instruction, Range<usize>);

/// Rewrites rows.
fn rewrite(out: &mut Output<'_>, files: &Files<'_>, producer: Producer) -> Result<(), Reason> {
    let rows = out.rows;
    let mut reader = Reader {
        bytes: rows,
        at: 0,
        files,
    };
    let mut statements = Statements::begin(producer, files.is_statement);
    let (mut file, mut line, mut now) = (FIRST, FIRST as i64, FIRST as i64);
    let mut of_row: Vec<Piece> = Vec::new();
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
                let is_strange = |(it, _): &Piece| {
                    matches!(it, Instruction::AdvanceLine(_) | Instruction::Negate)
                };
                if of_row.iter().any(is_strange) {
                    return Err(UNKNOWN);
                }
                out.keep(of_row[0].1.start..reader.at);
                of_row.clear();
                statements.end_sequence();
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
        let negates = statements.next(&of_row, (number, moved))?;
        let moved = i64::try_from(moved).map_err(|_| UNKNOWN)?;
        let differences = (difference, moved.wrapping_sub(now));
        now = moved;
        write_row(&of_row, differences, negates, files, out)?;
        of_row.clear();
    }
    if let Some((_, range)) = of_row.first() {
        out.keep(range.start..rows.len());
    }
    Ok(())
}

/// Writes a row, which has been `differences.0` lines behind the one before and now is `differences.1`; with an instruction that negates, or without.
fn write_row(
    of_row: &[Piece],
    differences: (i64, i64),
    negates: bool,
    files: &Files<'_>,
    out: &mut Output<'_>,
) -> Result<(), Reason> {
    let (start, end) = (of_row[0].1.start, of_row[of_row.len() - 1].1.end);
    let tail = match differences.0 == differences.1 {
        true => None,
        false => Some(tail(of_row, files, differences.0, out.rows)?),
    };
    let head_end = tail.map_or(end, |(from, _)| from);
    let mut negations = of_row.iter().filter(|(it, _)| *it == Instruction::Negate);
    match (negations.next(), negations.next()) {
        (_, Some(_)) => return Err(UNKNOWN),
        (Some((_, range)), None) if !negates => {
            out.keep(start..range.start);
            out.keep(range.end..head_end);
        }
        (None, None) if negates => {
            // Behind file, column and discriminator, and before all else.
            let is_behind = |(it, _): &&Piece| {
                !matches!(
                    it,
                    Instruction::SetFile(_) | Instruction::SetColumn(_) | Instruction::Other
                )
            };
            let at = of_row
                .iter()
                .find(is_behind)
                .map_or(end, |(_, range)| range.start);
            out.keep(start..at);
            out.bytes.push(dw::DW_LNS_negate_stmt.0);
            out.keep(at..head_end);
        }
        _ => out.keep(start..head_end),
    }
    if let Some((_, address)) = tail {
        files.encoding.emit(differences.1, address, &mut out.bytes);
    }
    Ok(())
}

/// Where the instructions begin that advance line and address and make the row, and how far they advance the address.
fn tail(
    of_row: &[Piece],
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
        column: u8,
        ends_prologue: bool,
        ends: bool,
    }

    /// The instructions that a compiler's rows become.
    fn assemble(rows: &[Row], encoding: &Encoding, producer: Producer) -> Vec<u8> {
        let mut out = Vec::new();
        let (mut file, mut line, mut column) = (FIRST, FIRST as i64, 0);
        let (mut is_statement, mut last) = (true, None);
        for row in rows {
            if row.ends {
                out.extend([dw::DW_LNS_advance_pc.0, 3, 0, 1, 1]);
                (file, line, column) = (FIRST, FIRST as i64, 0);
                (is_statement, last) = (true, None);
                continue;
            }
            if row.file != file {
                file = row.file;
                out.extend([dw::DW_LNS_set_file.0, file as u8]);
            }
            if row.column != column {
                column = row.column;
                out.extend([dw::DW_LNS_set_column.0, column]);
            }
            let is = match producer {
                Producer::Gcc => row.column != 9,
                Producer::Clang => {
                    let is_other = row.line != 0 && last.is_none_or(|last| last != row.line);
                    is_other || row.ends_prologue
                }
            };
            if row.line != 0 {
                last = Some(row.line);
            }
            if is != is_statement {
                is_statement = is;
                out.push(dw::DW_LNS_negate_stmt.0);
            }
            if row.ends_prologue {
                out.push(dw::DW_LNS_set_prologue_end.0);
            }
            encoding.emit(i64::from(row.line) - line, row.address, &mut out);
            line = i64::from(row.line);
        }
        out
    }

    fn a_row() -> impl Strategy<Value = Row> {
        let line = prop_oneof![Just(0), 1..30_u32, 1..200_u32];
        let address = prop_oneof![0..20_u64, 0..400_u64];
        let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.1));
        (1..4_u64, line, address, 7..10_u8, flags).prop_map(
            |(file, line, address, column, (ends_prologue, ends))| Row {
                file,
                line,
                address,
                column,
                ends_prologue: ends_prologue && line != 0,
                ends,
            },
        )
    }

    fn run(rows: &[u8], files: &Files<'_>, producer: Producer) -> Result<Rewritten, Reason> {
        let mut out = Output {
            rows,
            start: 0,
            bytes: Vec::new(),
            kept: Vec::new(),
        };
        rewrite(&mut out, files, producer)?;
        Ok(Rewritten {
            bytes: out.bytes,
            kept: out.kept,
        })
    }

    proptest! {
        #[test]
        fn moved_rows_are_what_an_assembler_makes_of_them(
            rows in prop::collection::vec(a_row(), 0..60),
            gaps in prop::collection::vec(1..8_u32, 200),
            is_clang in any::<bool>(),
        ) {
            let producer = if is_clang { Producer::Clang } else { Producer::Gcc };
            let now: Vec<u32> = gaps.iter().scan(0, |sum, gap| { *sum += gap; Some(*sum) }).collect();
            let it = Move { path: b"a.h".to_vec(), before: (1..=200).collect(), now, md5: [0; 16] };
            let files = Files::for_tests(vec![None, None, Some(&it), None]);
            let before = assemble(&rows, &files.encoding, producer);
            let moved: Vec<Row> = rows.iter().map(|row| Row {
                line: match (row.file, row.line) {
                    (2, line @ 1..) => it.now[line as usize - 1],
                    (_, line) => line,
                },
                ..row.clone()
            }).collect();
            let found = run(&before, &files, producer).expect("known rows");
            prop_assert_eq!(&found.bytes, &assemble(&moved, &files.encoding, producer));
            for piece in found.kept {
                let (from, to) = (piece.before..piece.before + piece.size, piece.now..piece.now + piece.size);
                prop_assert_eq!(&before[from], &found.bytes[to]);
            }
        }

        #[test]
        fn no_bytes_are_too_strange(rows in prop::collection::vec(any::<u8>(), 0..60)) {
            let it = Move { path: b"a.h".to_vec(), before: vec![1, 2], now: vec![2, 3], md5: [0; 16] };
            let files = Files::for_tests(vec![None, Some(&it)]);
            let _ = run(&rows, &files, Producer::Clang);
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
        let reason = |rows: &[u8]| run(rows, &files, Producer::Gcc).err();
        // Line and address are advanced, where one instruction would do.
        let rows = [dw::DW_LNS_advance_line.0, 1, dw::DW_LNS_copy.0];
        assert_eq!(reason(&rows), Some(UNKNOWN));
        // Line 3, of which nothing is known.
        assert!(reason(&[20]).is_some());
    }
}
