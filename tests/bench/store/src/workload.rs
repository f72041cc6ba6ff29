//! The records: random digests, values with log-normal sizes.

use format_spec::digest::Digest;
use std::ops::Range;

/// A small generator of pseudo-random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Uniform in (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Normal with mean 0 and variance 1 (Box and Muller).
    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

pub struct Workload {
    keys: Vec<Digest>,
    values: Vec<(u32, u32)>,
    bytes: Vec<u8>,
    payload: usize,
    seed: u64,
}

impl Workload {
    pub fn new(records: usize) -> Workload {
        Workload::seeded(records, 1)
    }

    /// exp(N(ln 300, 1.4²)) has the median 300 and the mean 300 exp(1.4²/2) = 799.
    pub fn seeded(records: usize, seed: u64) -> Workload {
        Workload::with_sizes(records, seed, |random| {
            (300.0 * (1.4 * random.normal()).exp()).clamp(1.0, 1e6) as u32
        })
    }

    /// Records with values of 24 bytes.
    pub fn small(records: usize) -> Workload {
        Workload::with_sizes(records, 99, |_| 24)
    }

    fn with_sizes(records: usize, seed: u64, mut size: impl FnMut(&mut Random) -> u32) -> Workload {
        let mut random = Random(seed << 40);
        // Values are pieces of these bytes.
        let bytes: Vec<u8> = (0..1 << 18)
            .flat_map(|_| random.next().to_le_bytes())
            .collect();
        let keys = (0..records).map(|_| digest(&mut random)).collect();
        let values: Vec<(u32, u32)> = (0..records)
            .map(|_| {
                let size = size(&mut random);
                (
                    random.below(bytes.len() as u64 - u64::from(size)) as u32,
                    size,
                )
            })
            .collect();
        let payload = values.iter().map(|value| value.1 as usize).sum();
        Workload {
            keys,
            values,
            bytes,
            payload,
            seed,
        }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes of all values.
    pub fn payload(&self) -> usize {
        self.payload
    }

    pub fn key(&self, i: usize) -> Digest {
        self.keys[i]
    }

    pub fn keys(&self, range: Range<usize>) -> &[Digest] {
        &self.keys[range]
    }

    pub fn value(&self, i: usize) -> &[u8] {
        let (start, size) = self.values[i];
        &self.bytes[start as usize..][..size as usize]
    }

    pub fn batches(&self, size: usize) -> impl Iterator<Item = Range<usize>> {
        let len = self.len();
        (0..len)
            .step_by(size)
            .map(move |start| start..(start + size).min(len))
    }

    /// Keys that are there, in random order.
    pub fn some_keys(&self, count: usize) -> Vec<Digest> {
        let mut random = Random(self.seed + 5);
        (0..count)
            .map(|_| self.keys[random.below(self.len() as u64) as usize])
            .collect()
    }

    /// Keys that are not there.
    pub fn absent_keys(&self, count: usize) -> Vec<Digest> {
        let mut random = Random((self.seed << 40) + 0x1234_5678_9abc);
        (0..count).map(|_| digest(&mut random)).collect()
    }
}

fn digest(random: &mut Random) -> Digest {
    let mut digest = Digest([0; 32]);
    for chunk in digest.0.chunks_mut(8) {
        chunk.copy_from_slice(&random.next().to_le_bytes());
    }
    digest
}
