//! What tells one content of a file from another without reading it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What tells one content of a file from another without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Stamp {
    /// Device.
    pub dev: u64,
    /// Number of the file there.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Time of the last change of the content: seconds and nanoseconds.
    pub modified: [i64; 2],
    /// Time of the last change of anything.
    pub changed: [i64; 2],
}

impl Stamp {
    /// Of a file's metadata.
    pub fn of(metadata: &std::fs::Metadata) -> Stamp {
        Stamp {
            dev: metadata.dev(),
            ino: metadata.ino(),
            size: metadata.size(),
            modified: [metadata.mtime(), metadata.mtime_nsec()],
            changed: [metadata.ctime(), metadata.ctime_nsec()],
        }
    }

    /// The same if a change that comes later is sure to give another one: the last change was long enough ago for the file
    /// system's clock to have gone on. If not, what is like nothing.
    pub fn settled(self) -> Stamp {
        // Clocks of file systems go on with the kernel's timer, by a hundredth of a second at most; some know seconds only,
        // or pairs of them.
        let tick = match self.changed[1] | self.modified[1] {
            0 => Duration::from_secs(3),
            _ => Duration::from_millis(30),
        };
        let since_epoch = Duration::new(
            u64::try_from(self.changed[0]).unwrap_or(0),
            u32::try_from(self.changed[1]).unwrap_or(0),
        );
        let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + since_epoch);
        match age.is_ok_and(|age| age > tick) {
            true => self,
            false => Stamp {
                size: u64::MAX,
                ..self
            },
        }
    }

    /// Of what stands at a path, by way of links; `None` if there is nothing.
    pub fn at(path: &Path) -> Option<Stamp> {
        Some(Stamp::of(&std::fs::metadata(path).ok()?))
    }
}
