//! Changes to ELF files by their fields: section headers, symbols, relocations, groups, notes, frame descriptions,
//! dynamic entries, version tables, names. Tables can grow: what becomes longer moves to the end of the file.

use crate::Random;
use linker::elf::c;
use std::ops::Range;

/// Size of the file header.
const EHDR: usize = 64;
/// Size of a section header.
const SHDR: usize = 64;
/// Size of a program header.
const PHDR: usize = 56;
/// Size of a symbol.
const SYM: usize = 24;
/// Size of a relocation.
const RELA: usize = 24;

/// Names that linkers know.
#[rustfmt::skip]
const SECTION_NAMES: &[&[u8]] = &[
    b".text", b".text.hot.f", b".text.unlikely", b".rodata.str1.1", b".rodata.cst16", b".data.rel.ro", b".bss", b".tbss", b".tdata",
    b".init", b".fini", b".init_array", b".init_array.7", b".fini_array.65535", b".preinit_array", b".ctors", b".ctors.100",
    b".dtors", b".eh_frame", b".sframe", b".gcc_except_table", b".gcc_except_table.f", b".note.gnu.property", b".note.GNU-stack",
    b".note.gnu.build-id", b".comment", b".debug_info", b".debug_str", b".debug_line", b".debug_abbrev", b".debug_gnu_pubnames",
    b".debug_aranges", b".zdebug_info", b".stab", b".stabstr", b".interp", b".dynamic", b".got", b".plt", b".symtab", b".strtab",
    b".gnu.warning.fuzzed", b".gnu.linkonce.t.f", b".gnu.lto_.x", b".llvm_addrsig", b".llvm.lto", b".lbss", b".ldata", b"members",
    b".rela.dyn", b".gnu.hash", b".relr.dyn", b"", b".", b"c_name", b".note.repo",
];

/// Names of symbols that linkers know, and some that others of the inputs have.
#[rustfmt::skip]
const SYMBOL_NAMES: &[&[u8]] = &[
    b"fuzzed", b"_start", b"main", b"__start_members", b"__stop_members", b"_GLOBAL_OFFSET_TABLE_", b"_DYNAMIC", b"__ehdr_start",
    b"_end", b"_etext", b"__bss_start", b"__rela_iplt_start", b"__init_array_start", b"__tls_get_addr", b"__gxx_personality_v0",
    b"fuzzed@V1", b"fuzzed@@V1", b"fuzzed@@@V1", b"@", b"@@", b"__wrap_fuzzed", b"__real_fuzzed", b"_ZN1aC2Ev", b"_ZTV1a",
    b"_TLS_MODULE_BASE_", b"outside", b"data", b"__dso_handle", b"__gnu_lto_slim", b"_init", b"_fini", b"",
];

#[rustfmt::skip]
const SECTION_TYPES: &[u32] = &[
    c::SHT_NULL, c::SHT_PROGBITS, c::SHT_SYMTAB, c::SHT_STRTAB, c::SHT_RELA, c::SHT_HASH, c::SHT_DYNAMIC, c::SHT_NOTE, c::SHT_NOBITS,
    c::SHT_REL, c::SHT_DYNSYM, c::SHT_INIT_ARRAY, c::SHT_FINI_ARRAY, c::SHT_PREINIT_ARRAY, c::SHT_GROUP, c::SHT_SYMTAB_SHNDX,
    c::SHT_CREL, 19, 0x6fff_4c03, 0x6fff_4c0c, 0x6fff_fff6, 0x6fff_fffd, 0x6fff_fffe, 0x6fff_ffff, 0x7000_0001, 0x8000_0000,
];

/// An ELF file whose section header table is where its header says.
struct Elf<'b> {
    bytes: &'b mut Vec<u8>,
    headers: usize,
    count: usize,
}

/// A part of a file as a number.
fn get(bytes: &[u8], at: usize, size: usize) -> u64 {
    let mut value = [0; 8];
    if let Some(part) = at.checked_add(size).and_then(|end| bytes.get(at..end)) {
        value[..size].copy_from_slice(part);
    }
    u64::from_le_bytes(value)
}

fn put(bytes: &mut [u8], at: usize, size: usize, value: u64) {
    if let Some(part) = at.checked_add(size).and_then(|end| bytes.get_mut(at..end)) {
        part.copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

/// Fields of a section header: offset and size.
mod field {
    pub const NAME: (usize, usize) = (0, 4);
    pub const TYPE: (usize, usize) = (4, 4);
    pub const FLAGS: (usize, usize) = (8, 8);
    pub const OFFSET: (usize, usize) = (24, 8);
    pub const SIZE: (usize, usize) = (32, 8);
    pub const LINK: (usize, usize) = (40, 4);
    pub const INFO: (usize, usize) = (44, 4);
    pub const ALIGN: (usize, usize) = (48, 8);
    pub const ENTSIZE: (usize, usize) = (56, 8);
}

/// Changes something in an ELF file. The result is at most `limit` bytes long, if the file was.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut Random, limit: usize) {
    let before = (bytes.len() <= limit).then(|| bytes.clone());
    for _ in 0..1 + random.below(3) {
        match Elf::of(bytes) {
            Some(mut elf) if !random.one_in(16) => elf.change(random),
            _ => change_header(bytes, random),
        }
    }
    if let Some(before) = before.filter(|_| bytes.len() > limit) {
        *bytes = before;
        super::blindly(bytes, random);
        bytes.truncate(limit);
    }
}

fn change_header(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.len() < EHDR || random.one_in(3) {
        return super::blindly(bytes, random);
    }
    let fields = [
        (16, 2),
        (18, 2),
        (24, 8),
        (32, 8),
        (40, 8),
        (48, 4),
        (54, 2),
        (56, 2),
        (58, 2),
        (60, 2),
        (62, 2),
    ];
    let (at, size) = random.pick(&fields);
    let value = random.value(get(bytes, at, size));
    put(bytes, at, size, value);
}

impl<'b> Elf<'b> {
    fn of(bytes: &'b mut Vec<u8>) -> Option<Elf<'b>> {
        if !bytes.starts_with(b"\x7fELF") {
            return None;
        }
        let headers = usize::try_from(get(bytes, 40, 8)).ok()?;
        let count = get(bytes, 60, 2) as usize;
        let end = headers.checked_add(count * SHDR)?;
        (count > 1 && end <= bytes.len()).then_some(Elf {
            bytes,
            headers,
            count,
        })
    }

    fn section(&self, number: usize, field: (usize, usize)) -> u64 {
        get(self.bytes, self.headers + number * SHDR + field.0, field.1)
    }

    fn set_section(&mut self, number: usize, field: (usize, usize), value: u64) {
        put(
            self.bytes,
            self.headers + number * SHDR + field.0,
            field.1,
            value,
        );
    }

    /// The bytes of a section in the file.
    fn range(&self, number: usize) -> Option<Range<usize>> {
        if number >= self.count || self.section(number, field::TYPE) == u64::from(c::SHT_NOBITS) {
            return None;
        }
        let start = usize::try_from(self.section(number, field::OFFSET)).ok()?;
        let end = start.checked_add(usize::try_from(self.section(number, field::SIZE)).ok()?)?;
        (end <= self.bytes.len()).then_some(start..end)
    }

    /// Some section of one of these types that has bytes.
    fn of_type(&self, types: &[u32], random: &mut Random) -> Option<(usize, Range<usize>)> {
        let fitting: Vec<usize> = (1..self.count)
            .filter(|number| types.contains(&(self.section(*number, field::TYPE) as u32)))
            .filter(|number| self.range(*number).is_some_and(|range| !range.is_empty()))
            .collect();
        if fitting.is_empty() {
            return None;
        }
        let number = random.pick(&fitting);
        Some((number, self.range(number)?))
    }

    fn name(&self, number: usize) -> Option<&[u8]> {
        let names = self.range(get(self.bytes, 62, 2) as usize)?;
        let rest = self.bytes[names].get(self.section(number, field::NAME) as usize..)?;
        rest.split(|byte| *byte == 0).next()
    }

    /// Gives a section other bytes, at the end of the file.
    fn replace(&mut self, number: usize, content: &[u8]) {
        let at = self.bytes.len().next_multiple_of(8);
        self.bytes.resize(at, 0);
        self.bytes.extend_from_slice(content);
        self.set_section(number, field::OFFSET, at as u64);
        self.set_section(number, field::SIZE, content.len() as u64);
    }

    /// Adds a name to a string table; its offset in the table.
    fn add_name(&mut self, table: usize, name: &[u8]) -> Option<u64> {
        let mut content = self.bytes[self.range(table)?].to_vec();
        let at = content.len() as u64;
        content.extend_from_slice(name);
        content.push(0);
        self.replace(table, &content);
        Some(at)
    }

    fn change(&mut self, random: &mut Random) {
        let done = match random.below(20) {
            0..=3 => self.change_section(random),
            4..=6 => self.change_symbol(random),
            7..=9 => self.change_relocation(random),
            10 => self.change_group(random),
            11 | 12 => self.change_frames(random),
            13 if random.one_in(3) => self.change_words(&[c::SHT_CREL], 1, random),
            13 => self.change_words(&[c::SHT_NOTE], 4, random),
            14 => self.change_names(random),
            15 => self.change_content(random),
            16 => self.change_sections(random),
            17 => self.change_compression(random),
            18 => self.change_segment(random),
            _ => self.change_dynamic(random),
        };
        if done.is_none() {
            self.change_section(random);
        }
    }

    fn some_section(&self, random: &mut Random) -> usize {
        1 + random.below(self.count - 1)
    }

    fn change_section(&mut self, random: &mut Random) -> Option<()> {
        let number = self.some_section(random);
        let other = self.some_section(random);
        let (which, value) = match random.below(10) {
            0 => (field::TYPE, u64::from(random.pick(SECTION_TYPES))),
            1 | 2 => {
                let bits = [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 28, 31, 21];
                (
                    field::FLAGS,
                    self.section(number, field::FLAGS) ^ (1 << random.pick(&bits)),
                )
            }
            3 => (
                field::OFFSET,
                random.value(self.section(number, field::OFFSET)),
            ),
            4 => {
                let size = self.section(number, field::SIZE);
                let odd = [
                    size.wrapping_add(1),
                    size.wrapping_sub(1),
                    size / 2,
                    size.wrapping_mul(2),
                    0,
                    1 << 20,
                    1 << 33,
                    1 << 47,
                ];
                let any = random.value(size);
                (
                    field::SIZE,
                    if random.one_in(2) {
                        any
                    } else {
                        random.pick(&odd)
                    },
                )
            }
            5 => (
                field::LINK,
                random.pick(&[other as u64, 0, self.count as u64, u64::MAX]),
            ),
            6 => (
                field::INFO,
                random.pick(&[other as u64, 0, self.count as u64, u64::MAX, 3]),
            ),
            // Larger ones only make outputs longer.
            7 if random.one_in(8) => (field::ALIGN, random.value(8)),
            7 => (
                field::ALIGN,
                random.pick(&[0, 1, 2, 3, 4, 8, 16, 32, 64, 4096]),
            ),
            8 => (
                field::ENTSIZE,
                random.pick(&[0, 1, 2, 3, 4, 8, 16, 24, 1 << 32, u64::MAX]),
            ),
            _ => (field::NAME, self.section(other, field::NAME)),
        };
        self.set_section(number, which, value);
        Some(())
    }

    /// One more section header, one less, or two in each other's place.
    fn change_sections(&mut self, random: &mut Random) -> Option<()> {
        let (one, other) = (self.some_section(random), self.some_section(random));
        let at = |number| self.headers + number * SHDR;
        let (one_at, other_at) = (at(one), at(other));
        match random.below(4) {
            0 => self.set_section(one, field::TYPE, 0),
            1 => {
                for byte in 0..SHDR {
                    self.bytes.swap(one_at + byte, other_at + byte);
                }
            }
            2 => self.bytes.copy_within(one_at..one_at + SHDR, other_at),
            _ => {
                let mut table = self.bytes[self.headers..self.headers + self.count * SHDR].to_vec();
                table.extend_from_within(one * SHDR..(one + 1) * SHDR);
                let headers = self.bytes.len().next_multiple_of(8);
                self.bytes.resize(headers, 0);
                self.bytes.extend_from_slice(&table);
                put(self.bytes, 40, 8, headers as u64);
                put(self.bytes, 60, 2, self.count as u64 + 1);
            }
        }
        Some(())
    }

    fn change_symbol(&mut self, random: &mut Random) -> Option<()> {
        let (number, range) = self.of_type(&[c::SHT_SYMTAB, c::SHT_DYNSYM], random)?;
        let count = range.len() / SYM;
        if count == 0 {
            return None;
        }
        if random.one_in(10) {
            let mut content = self.bytes[range].to_vec();
            let one = random.below(count) * SYM;
            content.extend_from_within(one..one + SYM);
            self.replace(number, &content);
            return Some(());
        }
        if random.one_in(12) {
            self.set_section(number, field::INFO, random.below(count + 2) as u64);
            return Some(());
        }
        let at = range.start + random.below(count) * SYM;
        let (offset, size, value) = match random.below(8) {
            0 => {
                let strings = self.section(number, field::LINK) as usize;
                let name = random.pick(SYMBOL_NAMES);
                (0, 4, self.add_name(strings, name)?)
            }
            1 => (0, 4, random.value(get(self.bytes, at, 4))),
            2 | 3 => {
                let info = random.pick(&[0u8, 1, 2, 10]) << 4
                    | random.pick(&[0u8, 1, 2, 3, 4, 5, 6, 10, 13]);
                (4, 1, info.into())
            }
            4 => (5, 1, random.below(8) as u64),
            5 => {
                let section = self.some_section(random) as u64;
                let reserved = [
                    0,
                    0xfff1,
                    0xfff2,
                    0xffff,
                    0xff00,
                    0xff01,
                    0xff02,
                    0xff3f,
                    self.count as u64,
                ];
                (
                    6,
                    2,
                    if random.one_in(3) {
                        random.pick(&reserved)
                    } else {
                        section
                    },
                )
            }
            6 => (8, 8, random.value(get(self.bytes, at + 8, 8))),
            _ => (16, 8, random.value(get(self.bytes, at + 16, 8))),
        };
        put(self.bytes, at + offset, size, value);
        Some(())
    }

    fn change_relocation(&mut self, random: &mut Random) -> Option<()> {
        let (number, range) = self.of_type(&[c::SHT_RELA], random)?;
        let count = range.len() / RELA;
        if count == 0 {
            return None;
        }
        let at = range.start + random.below(count) * RELA;
        let other = range.start + random.below(count) * RELA;
        match random.below(9) {
            0 | 1 => put(self.bytes, at + 8, 4, random.below(46) as u64),
            2 => {
                let value = random.value(get(self.bytes, at + 12, 4));
                put(self.bytes, at + 12, 4, value);
            }
            3 => {
                let symbol = get(self.bytes, other + 12, 4);
                put(self.bytes, at + 12, 4, symbol);
            }
            4 => {
                let value = random.value(get(self.bytes, at, 8));
                put(self.bytes, at, 8, value);
            }
            5 => {
                let value = random.value(get(self.bytes, at + 16, 8));
                put(self.bytes, at + 16, 8, value);
            }
            6 => {
                for byte in 0..RELA {
                    self.bytes.swap(at + byte, other + byte);
                }
            }
            7 => {
                let types = [
                    1, 2, 4, 9, 10, 11, 19, 20, 22, 23, 24, 25, 26, 32, 33, 34, 35, 41, 42, 17, 18,
                    21,
                ];
                put(self.bytes, at + 8, 4, random.pick(&types));
            }
            _ => {
                let mut content = self.bytes[range.clone()].to_vec();
                let one = at - range.start;
                content.extend_from_within(one..one + RELA);
                self.replace(number, &content);
            }
        }
        Some(())
    }

    fn change_group(&mut self, random: &mut Random) -> Option<()> {
        let Some((number, range)) = self.of_type(&[c::SHT_GROUP], random) else {
            // One for a section that has none.
            let number = self.some_section(random);
            let member = self.some_section(random) as u64;
            let flags = self.section(member as usize, field::FLAGS) | u64::from(c::SHF_GROUP);
            self.set_section(member as usize, field::FLAGS, flags);
            self.set_section(number, field::TYPE, c::SHT_GROUP.into());
            let mut content = vec![1, 0, 0, 0];
            content.extend_from_slice(&(member as u32).to_le_bytes());
            self.replace(number, &content);
            return Some(());
        };
        let word = range.start + random.below(range.len().div_ceil(4)) * 4;
        match random.below(4) {
            0 => self.set_section(number, field::INFO, random.below(40) as u64),
            1 => {
                let value = random.value(get(self.bytes, word, 4));
                put(self.bytes, word, 4, value);
            }
            2 => {
                let mut content = self.bytes[range].to_vec();
                content.extend_from_slice(&(self.some_section(random) as u32).to_le_bytes());
                self.replace(number, &content);
            }
            _ => {
                let member = self.some_section(random) as u64;
                put(self.bytes, word, 4, member);
            }
        }
        Some(())
    }

    /// Records of `.eh_frame`: lengths, pointers to CIEs, augmentation, encodings; swapped, doubled, a terminator.
    fn change_frames(&mut self, random: &mut Random) -> Option<()> {
        let number = (1..self.count).find(|number| self.name(*number) == Some(b".eh_frame"))?;
        let range = self.range(number)?;
        let content = &self.bytes[range.clone()];
        let mut records = Vec::new();
        let mut at = 0;
        while at + 4 <= content.len() && records.len() < 1000 {
            let end = at + 4 + get(content, at, 4) as usize;
            if end > content.len() {
                break;
            }
            records.push(at..end);
            at = end;
        }
        if records.is_empty() {
            return None;
        }
        let one = random.pick(&records);
        let other = random.pick(&records);
        let start = range.start + one.start;
        match random.below(8) {
            0 => {
                let value = random.value(get(self.bytes, start, 4));
                put(self.bytes, start, 4, value);
            }
            1 => {
                let value = random.value(get(self.bytes, start + 4, 4));
                put(self.bytes, start + 4, 4, value);
            }
            2 | 3 => {
                let byte = 8 + random.below(24);
                let value = random.value(get(self.bytes, start + byte, 1));
                put(self.bytes, start + byte, 1, value);
            }
            4 => {
                let letters = b"zRPLSBzeh\0";
                put(
                    self.bytes,
                    start + 9 + random.below(5),
                    1,
                    random.pick(letters).into(),
                );
            }
            5 => {
                let mut content = content.to_vec();
                content.extend_from_within(one);
                self.replace(number, &content);
            }
            6 => {
                let mut content = content.to_vec();
                content.splice(one.start..one.start, [0; 4]);
                self.replace(number, &content);
            }
            _ if one.len() == other.len() => {
                for byte in 0..one.len() {
                    self.bytes
                        .swap(start + byte, range.start + other.start + byte);
                }
            }
            _ => self.set_section(number, field::SIZE, one.end as u64),
        }
        Some(())
    }

    /// A word of a section of one of these types.
    fn change_words(&mut self, types: &[u32], size: usize, random: &mut Random) -> Option<()> {
        let (_, range) = self.of_type(types, random)?;
        let at = range.start + random.below(range.len().div_ceil(size)) * size;
        let value = random.value(get(self.bytes, at, size));
        put(self.bytes, at, size, value);
        Some(())
    }

    fn change_names(&mut self, random: &mut Random) -> Option<()> {
        let number = self.some_section(random);
        let names = get(self.bytes, 62, 2) as usize;
        let name = self.add_name(names, random.pick(SECTION_NAMES))?;
        self.set_section(number, field::NAME, name);
        Some(())
    }

    fn change_content(&mut self, random: &mut Random) -> Option<()> {
        let (number, other) = (self.some_section(random), self.some_section(random));
        let range = self.range(number).filter(|range| !range.is_empty())?;
        match random.below(5) {
            0 => {
                let content = self.bytes[self.range(other)?].to_vec();
                self.replace(number, &content);
            }
            1 => {
                let mut content = self.bytes[range].to_vec();
                content.resize(content.len() + 1 + random.below(64), 0);
                self.replace(number, &content);
            }
            2 => {
                let at = range.start + random.below(range.len());
                put(self.bytes, at, 1, 0);
            }
            3 => {
                let at = range.start + random.below(range.len());
                let size = random.pick(&[1, 2, 4, 8]);
                let value = random.value(get(self.bytes, at, size));
                put(self.bytes, at, size, value);
            }
            _ => self.set_section(number, field::SIZE, random.below(range.len() + 1) as u64),
        }
        Some(())
    }

    /// `SHF_COMPRESSED`, and what the head of such a section says.
    fn change_compression(&mut self, random: &mut Random) -> Option<()> {
        let compressed: Vec<usize> = (1..self.count)
            .filter(|number| {
                self.section(*number, field::FLAGS) & u64::from(c::SHF_COMPRESSED) != 0
            })
            .collect();
        if compressed.is_empty() || random.one_in(4) {
            let number = self.some_section(random);
            let flags = self.section(number, field::FLAGS) ^ u64::from(c::SHF_COMPRESSED);
            self.set_section(number, field::FLAGS, flags);
            return Some(());
        }
        let range = self.range(random.pick(&compressed))?;
        let (at, size) = random.pick(&[(0, 4), (8, 8), (8, 8), (16, 8)]);
        let value = random.value(get(self.bytes, range.start + at, size));
        put(self.bytes, range.start + at, size, value);
        Some(())
    }

    fn change_segment(&mut self, random: &mut Random) -> Option<()> {
        let at = usize::try_from(get(self.bytes, 32, 8)).ok()?;
        let count = get(self.bytes, 56, 2) as usize;
        if at == 0 || count == 0 {
            return None;
        }
        let at = at.checked_add(random.below(count) * PHDR)?;
        let (offset, size) =
            random.pick(&[(0, 4), (4, 4), (8, 8), (16, 8), (32, 8), (40, 8), (48, 8)]);
        let value = random.value(get(self.bytes, at.saturating_add(offset), size));
        put(self.bytes, at.saturating_add(offset), size, value);
        Some(())
    }

    fn change_dynamic(&mut self, random: &mut Random) -> Option<()> {
        const GNU_HASH: u32 = 0x6fff_fff6;
        const VERDEF: u32 = 0x6fff_fffd;
        const VERNEED: u32 = 0x6fff_fffe;
        const VERSYM: u32 = 0x6fff_ffff;
        match random.below(4) {
            0 => self.change_words(&[VERSYM], 2, random),
            1 => self.change_words(&[VERDEF, VERNEED], random.pick(&[2, 4]), random),
            2 => self.change_words(&[c::SHT_HASH, GNU_HASH], 4, random),
            _ => self.change_words(&[c::SHT_DYNAMIC], 8, random),
        }
    }
}
