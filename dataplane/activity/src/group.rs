//! The control group of this process, by the kernel's number, which means the same in every
//! namespace.

use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where cgroup2 is mounted: alone, or beside version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Number of the group of version 2 that this process is in; `None` where that is not to be seen.
pub fn control_group() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    MOUNTS.iter().find_map(|mount| {
        let folder = Path::new(mount).join(own);
        let is_group =
            statfs(&folder).is_ok_and(|facts| facts.filesystem_type() == CGROUP2_SUPER_MAGIC);
        is_group.then(|| std::fs::metadata(&folder).ok())?.map(|facts| facts.ino())
    })
}
