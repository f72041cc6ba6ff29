//! What can be done on a file system, judged by its type (`f_type` of statfs(2), mostly a number
//! of `linux/magic.h`).
//!
//! A repository is asked more of its file system than other files are: what one process writes, all
//! others see at once in their mappings; a lock holds for all who can write; and one kernel, of which the boot id
//! tells, knows all that was done since the disk was last in order. Where other machines write
//! too, none of this holds, and nothing that could be tried here would show it. So it is a list:
//!
//! * **Stored**: words are stored through a mapping, each with one instruction. For that, a store into a block
//!   that the file has must not need another block, or else a full disk is a signal (`SIGBUS`) and not an error. ext2, ext3
//!   and ext4 write where the data is; tmpfs and ramfs have nothing else.
//! * **Written**: words are written by `pwrite`, which can say that there is no room. Those that write elsewhere than where the data
//!   is, always (btrfs, ZFS, F2FS, bcachefs, NILFS) or where two files share it (XFS, after `cp --reflink`); those that lie above another
//!   one of which nothing is known (overlayfs, eCryptfs, aufs); and all others on a block device of
//!   this machine.
//! * **Refused**: those of other machines, those of several machines on one disk, those of a machine that hosts this one, and what
//!   has neither a block device nor a place in this list: nobody knows who else writes to it. FUSE is whatever a program makes of it, so
//!   the name of its type decides, as the mount table has it.

use super::error::{Error, Result};
use super::system::System;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::path::Path;

/// How words come into a file, if it may be a repository at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// By stores through a mapping.
    Stored,
    /// By system calls.
    Written,
}

/// Why a file system is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unfit {
    /// Its name, or its type's number.
    name: String,
    /// What is the matter with it.
    why: &'static str,
}

const OF_OTHERS: &str =
    "other machines can write to it, and what they write is not seen here at once";
const OF_THE_HOST: &str =
    "the machine that hosts this one can write to it, and what it writes is not seen here at once";
const SHARED_DISK: &str = "other machines can write to its disk";
const UNKNOWN: &str = "nothing is known of who else writes to it";

const FUSE: u64 = 0x6573_5546;

/// Those on which blocks that a file has are written in place.
const STORED: [u64; 3] = [
    0xef53,      // EXT2_SUPER_MAGIC, also of ext3 and ext4
    0x0102_1994, // TMPFS_MAGIC
    0x8584_58f6, // RAMFS_MAGIC
];

/// Those of this machine that have no block device to show for it, or several.
const WRITTEN: [u64; 9] = [
    0x9123_683e, // BTRFS_SUPER_MAGIC
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // BCACHEFS_STATFS_MAGIC
    0x794c_7630, // OVERLAYFS_SUPER_MAGIC
    0xf15f,      // ECRYPTFS_SUPER_MAGIC
    0x6175_6673, // aufs
    0x5846_5342, // XFS_SUPER_MAGIC
    0xf2f5_2010, // F2FS_SUPER_MAGIC
    0x2405_1905, // UBIFS_SUPER_MAGIC
];

/// Those that are refused, whatever they say of their device.
const REFUSED: [(u64, &str, &str); 22] = [
    (0x6969, "NFS", OF_OTHERS),
    (0x517b, "SMB", OF_OTHERS),
    (0xfe53_4d42, "SMB", OF_OTHERS),
    (0xff53_4d42, "CIFS", OF_OTHERS),
    (0x564c, "NCP", OF_OTHERS),
    (0x00c3_6400, "Ceph", OF_OTHERS),
    (0x5346_414f, "AFS", OF_OTHERS),
    (0x6b41_4653, "AFS", OF_OTHERS),
    (0x7375_7245, "Coda", OF_OTHERS),
    (0x0bd0_0bd0, "Lustre", OF_OTHERS),
    (0x4750_4653, "GPFS", OF_OTHERS),
    (0x1983_0326, "BeeGFS", OF_OTHERS),
    (0x2003_0528, "OrangeFS", OF_OTHERS),
    (0xaad7_aaea, "PanFS", OF_OTHERS),
    (0x0131_11a8, "IBRIX", OF_OTHERS),
    (0xbeef_dead, "StorNext", SHARED_DISK),
    (0x7461_636f, "OCFS2", SHARED_DISK),
    (0x0116_1970, "GFS2", SHARED_DISK),
    // Also the drives of Windows below WSL.
    (0x0102_1997, "9p", OF_THE_HOST),
    (0xbacb_acbc, "VMware's shared folders", OF_THE_HOST),
    (0x786f_4256, "VirtualBox's shared folders", OF_THE_HOST),
    (0x7c7c_6673, "Parallels' shared folders", OF_THE_HOST),
];

/// Types of mounts whose FUSE programs serve what is on a disk of this machine.
const LOCAL_FUSE: [&str; 2] = ["fuseblk", "fuse.fuse-overlayfs"];

/// Whether `file` can be made, as far as the file system of its directory goes: that of the nearest
/// one above it that is there.
///
/// # Errors
/// [`Error::NotLocal`] if not; [`Error::Io`] if the directory cannot be looked at.
pub fn check_place(file: &Path, system: &dyn System) -> Result<()> {
    let mut directories = file.ancestors().skip(1);
    let nearest = directories.find(|directory| directory.metadata().is_ok());
    let checked = check_directory(nearest.unwrap_or(Path::new(".")), system);
    checked.map_err(|error| error.about(file))
}

/// The same of a file in a directory that is there.
pub(super) fn check_directory(directory: &Path, system: &dyn System) -> Result<()> {
    let io_error = |source| Error::Io {
        path: directory.to_owned(),
        action: "examine",
        source,
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty());
    let opened = File::from(opened.map_err(|errno| io_error(errno.into()))?);
    use_of(directory, &opened, system).map(drop)
}

/// How words come into `file`, which is open; `path` is for the error.
pub(super) fn use_of(path: &Path, file: &File, system: &dyn System) -> Result<Use> {
    let (device, _) = system.identity(file).map_err(|source| Error::Io {
        path: path.to_owned(),
        action: "examine",
        source,
    })?;
    // Where that cannot be asked, the device must tell.
    let number = system.file_system(file).unwrap_or(0);
    judge(number, device, || system.mount_type(device)).map_err(|unfit| Error::NotLocal {
        path: path.to_owned(),
        file_system: unfit.name,
        why: unfit.why,
    })
}

/// Judges a file system by its type's number. `device` is the number of its device (`st_dev`); `mount` tells the type's name in the mount
/// table, which is asked for only where nothing else decides.
fn judge(
    number: u64,
    device: u64,
    mount: impl FnOnce() -> Option<String>,
) -> std::result::Result<Use, Unfit> {
    if STORED.contains(&number) {
        return Ok(Use::Stored);
    }
    if WRITTEN.contains(&number) {
        return Ok(Use::Written);
    }
    if let Some((_, name, why)) = REFUSED.iter().find(|(of, ..)| *of == number) {
        let name = (*name).to_owned();
        return Err(Unfit { name, why });
    }
    if number == FUSE {
        let name = mount().unwrap_or_else(|| "fuse".to_owned());
        if LOCAL_FUSE.contains(&name.as_str()) {
            return Ok(Use::Written);
        }
        let why = if name == "virtiofs" {
            OF_THE_HOST
        } else {
            UNKNOWN
        };
        return Err(Unfit { name, why });
    }
    // A device with a number of its own major is a disk's; others have 0.
    if rustix::fs::major(device) != 0 {
        return Ok(Use::Written);
    }
    let name = mount().unwrap_or_else(|| format!("number {number:#x}"));
    Err(Unfit { name, why: UNKNOWN })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> u64 {
        rustix::fs::makedev(8, 1)
    }

    fn none() -> u64 {
        rustix::fs::makedev(0, 49)
    }

    fn nobody_asks() -> Option<String> {
        panic!("the mount table is not needed")
    }

    #[test]
    fn by_what_they_can_do() {
        for number in [0xef53, 0x0102_1994, 0x8584_58f6] {
            assert_eq!(judge(number, none(), nobody_asks), Ok(Use::Stored));
        }
        for number in [0x9123_683e, 0x5846_5342, 0x794c_7630, 0x2fc1_2fc1] {
            assert_eq!(judge(number, none(), nobody_asks), Ok(Use::Written));
        }
        // vfat: in no list, and on a disk.
        assert_eq!(judge(0x4d44, disk(), nobody_asks), Ok(Use::Written));
        let named = || Some("newfs".to_owned());
        let unfit = judge(0x1234, none(), named).unwrap_err();
        assert_eq!((unfit.name.as_str(), unfit.why), ("newfs", UNKNOWN));
        let unfit = judge(0x1234, none(), || None).unwrap_err();
        assert_eq!(unfit.name, "number 0x1234");
    }

    #[test]
    fn other_machines() {
        for (number, name) in [
            (0x6969, "NFS"),
            (0xff53_4d42, "CIFS"),
            (0x0102_1997, "9p"),
            (0x0bd0_0bd0, "Lustre"),
            (0x4750_4653, "GPFS"),
            (0x5346_414f, "AFS"),
            (0x00c3_6400, "Ceph"),
            (0x7461_636f, "OCFS2"),
        ] {
            // Whatever the device: that of OCFS2 is a disk.
            for device in [disk(), none()] {
                let unfit = judge(number, device, nobody_asks).unwrap_err();
                assert_eq!(unfit.name, name);
                assert!(unfit.why.contains("machine"), "{}", unfit.why);
            }
        }
    }

    #[test]
    fn fuse_by_its_name() {
        let of = |name: &'static str| judge(FUSE, none(), move || Some(name.to_owned()));
        assert_eq!(of("fuseblk"), Ok(Use::Written));
        assert_eq!(of("fuse.fuse-overlayfs"), Ok(Use::Written));
        assert_eq!(of("fuse.sshfs").unwrap_err().name, "fuse.sshfs");
        assert_eq!(of("virtiofs").unwrap_err().why, OF_THE_HOST);
        assert_eq!(judge(FUSE, disk(), || None).unwrap_err().name, "fuse");
    }

    #[test]
    fn lists_do_not_contradict_each_other() {
        let refused = REFUSED.iter().map(|(number, ..)| *number);
        let mut all: Vec<u64> = (STORED.into_iter().chain(WRITTEN)).chain(refused).collect();
        all.push(FUSE);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
