//! Changes that know the format of what they change.

pub mod archive;
pub mod elf;
pub mod line;
pub mod program;
pub mod repository;
pub mod text;

use crate::Random;

/// Changes a few bytes, whatever they mean.
pub fn blindly(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        bytes.push(random.number() as u8);
        return;
    }
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.number() as u8,
            2 => bytes[at] = random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            3 if bytes.len() > 1 => {
                bytes.remove(at);
            }
            4 => bytes.insert(at, random.number() as u8),
            _ => {
                let end = at + random.below(bytes.len() - at).min(64);
                let part = bytes[at..end].to_vec();
                let to = random.below(bytes.len() - part.len() + 1);
                bytes[to..to + part.len()].copy_from_slice(&part);
            }
        }
    }
}
