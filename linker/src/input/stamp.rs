//! What tells one content of a file from another without reading it.

use rustix::time::{ClockId, clock_gettime};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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

    /// The same if whatever changes the file after `since` gives it another one: its last change was before the file system's
    /// clock came there. If not, what is like nothing.
    pub fn settled(self, since: Moment) -> Stamp {
        let Moment([seconds, nanoseconds]) = since;
        let before = match self.changed[1] | self.modified[1] {
            // There are clocks that know seconds only, or pairs of them.
            0 => [seconds - 3, nanoseconds],
            _ => [seconds, nanoseconds],
        };
        match self.changed < before {
            true => self,
            false => Stamp {
                size: u64::MAX,
                ..self
            },
        }
    }

    /// Whether this is of the same content as another one: a name more or less has changed nothing else than the time of the last
    /// change of anything.
    pub fn is_content_of(&self, other: &Stamp) -> bool {
        Stamp {
            changed: other.changed,
            ..*self
        } == *other
    }

    /// Of what stands at a path, by way of links; `None` if there is nothing.
    pub fn at(path: &Path) -> Option<Stamp> {
        Some(Stamp::of(&std::fs::metadata(path).ok()?))
    }
}

/// An output as it was left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Left {
    /// What it was like.
    stamp: Stamp,
    /// How many names it had.
    names: u64,
    /// Mode, owner and group.
    about: [u32; 3],
    padding: u32,
}

impl From<std::fs::Metadata> for Left {
    fn from(metadata: std::fs::Metadata) -> Left {
        Left {
            stamp: Stamp::of(&metadata),
            names: metadata.nlink(),
            about: about(&metadata),
            padding: 0,
        }
    }
}

fn about(metadata: &std::fs::Metadata) -> [u32; 3] {
    [metadata.mode(), metadata.uid(), metadata.gid()]
}

impl Left {
    /// Whether it still is so. Who gives it names or takes them away has not changed it: so much is known if it has another number
    /// of them, or is `renamed`. (Not then, whether it was given attributes.)
    pub fn is_still(&self, now: &std::fs::Metadata, renamed: bool) -> bool {
        let is_named = || {
            (renamed || now.nlink() != self.names)
                && Stamp::of(now).is_content_of(&self.stamp)
                && about(now) == self.about
        };
        self.is_untouched(now) || is_named()
    }

    /// Whether nothing at all was done to it.
    pub fn is_untouched(&self, now: &std::fs::Metadata) -> bool {
        Stamp::of(now) == self.stamp
    }
}

/// A time by the clock that file systems take theirs from: seconds and nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Moment([i64; 2]);

impl Moment {
    /// Now.
    pub fn now() -> Moment {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Moment([now.tv_sec, now.tv_nsec])
    }
}

#[cfg(test)]
mod tests {
    use super::{Moment, Stamp};

    #[test]
    fn what_has_just_changed_is_like_nothing() {
        let of = |seconds, nanoseconds| Stamp {
            size: 5,
            modified: [seconds, nanoseconds],
            changed: [seconds, nanoseconds],
            ..Stamp::default()
        };
        assert_eq!(of(100, 1).settled(Moment([100, 2])), of(100, 1));
        assert_ne!(of(100, 1).settled(Moment([100, 1])), of(100, 1));
        // Of a clock that knows seconds only.
        assert_ne!(of(100, 0).settled(Moment([102, 500])), of(100, 0));
        assert_eq!(of(100, 0).settled(Moment([103, 1])), of(100, 0));
        // From the future.
        assert_ne!(of(200, 1).settled(Moment([100, 0])), of(200, 1));
    }
}
