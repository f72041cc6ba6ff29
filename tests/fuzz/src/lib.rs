//! What each program of `fuzz_targets` is: a target under libFuzzer, with its own mutation beside libFuzzer's.

pub use libfuzzer_sys;
use libfuzzer_sys::fuzzer_mutate;
use repo_hostile::{Random, Target};

/// The program of a target.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        const TARGET: repo_hostile::Target = repo_hostile::Target::$name;
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::run(TARGET, data));
        $crate::libfuzzer_sys::fuzz_mutator!(|data: &mut [u8],
                                              size: usize,
                                              limit: usize,
                                              seed: u32| {
            $crate::mutate(TARGET, data, size, limit, seed)
        });
    };
}

/// Runs a target.
pub fn run(target: Target, data: &[u8]) {
    target.run(data);
}

/// A change of the target's own kind, or now and then one of libFuzzer's, which knows what comparisons failed.
pub fn mutate(target: Target, data: &mut [u8], size: usize, limit: usize, seed: u32) -> usize {
    let mut random = Random::new(seed.into());
    if random.one_in(4) {
        return fuzzer_mutate(data, size, limit);
    }
    let mut bytes = data[..size].to_vec();
    target.mutate(&mut bytes, &mut random, limit);
    let size = bytes.len().min(limit);
    data[..size].copy_from_slice(&bytes[..size]);
    size
}
