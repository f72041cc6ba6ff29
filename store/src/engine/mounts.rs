//! The table of mounts.

/// The type of the mount with this device, in the text of `/proc/self/mountinfo`:
/// `36 35 0:49 / /mnt rw - fuse.sshfs host:/ rw`.
pub(super) fn mount_type(mounts: &str, device: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let wanted = format!("{major}:{minor}");
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let found = before.split(' ').nth(2)?;
        let name = after.split(' ').next()?;
        (found == wanted).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_the_mount_table() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                      36 22 0:49 / /mnt/a\\040b rw,nosuid shared:2 master:3 - fuse.sshfs host:/x rw\n\
                      nonsense\n";
        assert_eq!(
            mount_type(mounts, rustix::fs::makedev(0, 49)).as_deref(),
            Some("fuse.sshfs")
        );
        assert_eq!(
            mount_type(mounts, rustix::fs::makedev(8, 1)).as_deref(),
            Some("ext4")
        );
        assert_eq!(mount_type(mounts, rustix::fs::makedev(9, 9)), None);
    }
}
