//! A disk that is simulated, and the kernel's memory of it: from what was done to a file
//! (`Op`), what of it a power cut may leave.
//!
//! What was written is *unsafe*: each 512-byte sector by itself may be what it was at any
//! moment since the last sync that covered it. While a word is stored through a mapping, the
//! disk may be reading the sector: so of such a mixture each 8-byte word may be of another
//! moment. A write that fails leaves the sector as it was at some moment, too, but the
//! kernel then takes it for *clean*: it will not be written again unless something in it is
//! changed, and whoever syncs afterwards is told that all is well. On a file system as ext4, what had never been
//! written before is *stuck* then: nothing brings it to the disk any more, and nobody is told.

use super::{Op, Random};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const SECTOR: u64 = 512;

/// How what is unsafe fares in a power cut.
#[derive(Clone, Copy, Debug)]
pub enum Weather {
    AllLost,
    AllKept,
    /// Each sector at any of its moments.
    Random,
    /// Each word of each sector at any of its moments.
    Mixed,
    /// One in so many sectors at a random moment, the others at the last.
    MostlyKept(u64),
    /// One in so many sectors at a random moment, the others at the first.
    MostlyLost(u64),
}

impl Weather {
    pub fn any(random: &mut Random) -> Weather {
        match random.below(9) {
            0 => Weather::AllLost,
            1 => Weather::AllKept,
            2 | 3 => Weather::Random,
            4 => Weather::Mixed,
            5 | 6 => Weather::MostlyKept(1 + random.below(20)),
            _ => Weather::MostlyLost(1 + random.below(20)),
        }
    }
}

/// A sector since the last sync that covered it.
#[derive(Clone, Default)]
struct Unsafe {
    /// Its contents after each write.
    moments: Vec<Vec<u8>>,
    /// The kernel has given it to the disk: the next flush, whatever it is for, brings it there.
    is_written: bool,
}

/// The disk while it is being written to.
#[derive(Clone, Default)]
pub struct Disk {
    /// The file as the running system sees it.
    memory: Vec<u8>,
    /// What is certainly there.
    safe: Vec<u8>,
    sectors: BTreeMap<u64, Unsafe>,
    sticks: bool,
    /// Those that have been on the disk at some time, and those that never will be.
    were_written: BTreeSet<u64>,
    stuck: BTreeSet<u64>,
}

impl Disk {
    /// A disk with just this; whether what fails sticks to it.
    pub fn new(image: Vec<u8>, sticks: bool) -> Disk {
        Disk {
            memory: image.clone(),
            were_written: (0..(image.len() as u64).div_ceil(SECTOR)).collect(),
            safe: image,
            sectors: BTreeMap::new(),
            sticks,
            stuck: BTreeSet::new(),
        }
    }

    /// After these operations.
    pub fn after(mut self, ops: &[Op]) -> Disk {
        ops.iter().for_each(|op| self.perform(op));
        self
    }

    pub fn perform(&mut self, op: &Op) {
        match op {
            Op::Write { offset, bytes } => self.write(*offset, bytes),
            Op::SyncRange(range) => self.sync(range),
            Op::Sync => self.sync(&(0..u64::MAX)),
            Op::FailedSync { range, seed } => self.fail(range, &mut Random(*seed)),
            Op::WriteBack { fails, seed } => self.write_back(*fails, &mut Random(*seed)),
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        if self.memory.len() < end as usize {
            self.memory.resize(end as usize, 0);
        }
        self.memory[offset as usize..end as usize].copy_from_slice(bytes);
        for sector in offset / SECTOR..end.div_ceil(SECTOR) {
            let contents = contents_of(&self.memory, sector);
            let of = self.sectors.entry(sector).or_default();
            of.moments.push(contents);
            of.is_written = false;
        }
    }

    fn sync(&mut self, range: &Range<u64>) {
        let covered = sectors_of(range);
        let is_done = |sector: u64, of: &Unsafe| covered.contains(&sector) || of.is_written;
        let done: Vec<u64> = (self.sectors.iter())
            .filter(|(sector, of)| is_done(**sector, of))
            .map(|(sector, _)| *sector)
            .collect();
        for sector in done {
            self.settle(sector, u64::MAX);
        }
    }

    /// The sector is as after so many of its writes, for good.
    fn settle(&mut self, sector: u64, moment: u64) {
        if let Some(of) = self.sectors.remove(&sector)
            && !self.stuck.contains(&sector)
        {
            self.were_written.insert(sector);
            let moment = moment.min(of.moments.len() as u64);
            if let Some(moment) = moment.checked_sub(1) {
                let length = self.memory.len() as u64;
                put(&mut self.safe, sector, &of.moments[moment as usize], length);
            }
        }
    }

    fn fail(&mut self, range: &Range<u64>, random: &mut Random) {
        let tried: Vec<u64> = (self.sectors.range(sectors_of(range)))
            .filter(|(_, of)| !of.is_written)
            .map(|(sector, _)| *sector)
            .collect();
        for sector in tried {
            self.lose(sector, random);
        }
    }

    /// The kernel has tried to write it, and holds it for written.
    fn lose(&mut self, sector: u64, random: &mut Random) {
        let all = self.sectors[&sector].moments.len() as u64;
        let moment = match random.below(4) {
            0 => all,
            1 => random.below(all + 1),
            _ if self.sticks && !self.were_written.contains(&sector) => {
                self.stuck.insert(sector);
                0
            }
            _ => 0,
        };
        self.settle(sector, moment);
    }

    /// What who reads past the kernel's memory gets: what is still to be written is before.
    pub fn read(&self, range: Range<u64>) -> Vec<u8> {
        let length = self.memory.len() as u64;
        let mut read = Vec::new();
        for sector in sectors_of(&range) {
            let newest = self.sectors.get(&sector).and_then(|of| of.moments.last());
            let contents = match newest.filter(|_| !self.stuck.contains(&sector)) {
                Some(newest) => newest.clone(),
                None => contents_of(&self.safe, sector),
            };
            read.extend_from_slice(&contents);
        }
        let start = (range.start % SECTOR) as usize;
        read[start..start + (range.end.min(length) - range.start) as usize].to_vec()
    }

    fn write_back(&mut self, fails: bool, random: &mut Random) {
        let chosen: Vec<u64> = (self.sectors.iter())
            .filter(|(_, of)| !of.is_written)
            .map(|(sector, _)| *sector)
            .filter(|_| random.below(2) == 0)
            .collect();
        for sector in chosen {
            if fails {
                self.lose(sector, random);
            } else if let Some(of) = self.sectors.get_mut(&sector) {
                of.is_written = true;
            }
        }
    }

    /// What the kernel holds for written is thrown out of its memory, and read again. Returns
    /// what of the file that changes.
    pub fn forget_clean(&mut self) -> Vec<(u64, Vec<u8>)> {
        let mut changes = Vec::new();
        for sector in 0..(self.memory.len() as u64).div_ceil(SECTOR) {
            if self.sectors.contains_key(&sector) {
                continue;
            }
            let there = contents_of(&self.safe, sector);
            if there != contents_of(&self.memory, sector) {
                let length = self.memory.len() as u64;
                put(&mut self.memory, sector, &there, length);
                let start = sector * SECTOR;
                let end = (start + SECTOR).min(length);
                changes.push((start, there[..(end - start) as usize].to_vec()));
            }
        }
        changes
    }

    /// What is there after a power cut.
    pub fn cut(&self, weather: Weather, random: &mut Random) -> Vec<u8> {
        let mut left = self.safe.clone();
        let length = self.memory.len() as u64;
        let unsafe_sectors = self.sectors.iter();
        for (&sector, of) in unsafe_sectors.filter(|(sector, _)| !self.stuck.contains(sector)) {
            let all = of.moments.len() as u64;
            let any = random.below(all + 1);
            let moment = match weather {
                Weather::AllLost => 0,
                Weather::AllKept => all,
                Weather::Random | Weather::Mixed => any,
                Weather::MostlyKept(few) if random.below(few) == 0 => any,
                Weather::MostlyKept(_) => all,
                Weather::MostlyLost(few) if random.below(few) == 0 => any,
                Weather::MostlyLost(_) => 0,
            };
            let first = contents_of(&self.safe, sector);
            let at = |moment: u64| match moment.checked_sub(1) {
                Some(moment) => &of.moments[moment as usize],
                None => &first,
            };
            let mut contents = at(moment).clone();
            if let Weather::Mixed = weather {
                for (word, bytes) in contents.chunks_exact_mut(8).enumerate() {
                    bytes.copy_from_slice(&at(random.below(all + 1))[word * 8..word * 8 + 8]);
                }
            } else if moment == 0 {
                continue;
            }
            put(&mut left, sector, &contents, length);
        }
        left
    }
}

fn sectors_of(range: &Range<u64>) -> Range<u64> {
    range.start / SECTOR..range.end.div_ceil(SECTOR)
}

fn contents_of(bytes: &[u8], sector: u64) -> Vec<u8> {
    let start = (sector * SECTOR) as usize;
    let end = (start + SECTOR as usize).min(bytes.len());
    let mut contents = bytes.get(start..end).unwrap_or_default().to_vec();
    contents.resize(SECTOR as usize, 0);
    contents
}

/// Writes a sector of a file that is `length` bytes long.
fn put(bytes: &mut Vec<u8>, sector: u64, contents: &[u8], length: u64) {
    let start = (sector * SECTOR) as usize;
    let end = (start + SECTOR as usize).min(length as usize);
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(&contents[..end - start]);
}
