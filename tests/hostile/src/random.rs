//! Numbers that look random and are the same every time (SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom
//! number generators", 2014).

/// A sequence of numbers that its seed decides.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of several.
    pub fn pick<T: Clone>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len())].clone()
    }

    /// A number in place of `old` of the kind that programs trip over: small, near the old one, a power of two, the
    /// largest ones.
    pub fn value(&mut self, old: u64) -> u64 {
        match self.below(10) {
            0 => 0,
            1 | 2 => self.below(40) as u64,
            3 => old.wrapping_add(1 + self.below(16) as u64),
            4 => old.wrapping_sub(1 + self.below(16) as u64),
            5 => 1 << self.below(64),
            6 => (1 << self.below(64)) - 1,
            7 => u64::MAX - self.below(64) as u64,
            8 => old ^ (1 << self.below(64)),
            _ => self.number() >> self.below(64),
        }
    }
}
