//! What the control groups of this process leave of their memory.
//! Invariant: a group whose files are unreadable or name no limit does not count.

use std::fs;
use std::path::{Path, PathBuf};

use super::Room;

const UNIFIED_ROOT: &str = "/sys/fs/cgroup";
const LEGACY_ROOT: &str = "/sys/fs/cgroup/memory";

/// What the groups that have a limit leave, from this process's own up to the root.
pub(super) fn rooms() -> Vec<Room> {
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = membership.lines().filter_map(group_of);
    let groups = groups.flat_map(|(root, path)| ancestors(root, path));
    groups.filter_map(|group| room(&group)).collect()
}

/// Root and path of a line of `/proc/self/cgroup` that is about memory.
fn group_of(line: &str) -> Option<(&'static str, &str)> {
    let mut words = line.splitn(3, ':');
    let (_, controllers, path) = (words.next()?, words.next()?, words.next()?);
    match controllers {
        "" => Some((UNIFIED_ROOT, path)),
        _ if controllers.split(',').any(|name| name == "memory") => Some((LEGACY_ROOT, path)),
        _ => None,
    }
}

/// The directory of a group and of all groups above it. In a container the path may name a
/// directory that is not visible; the root then still has the container's own limit.
fn ancestors(root: &'static str, path: &str) -> Vec<PathBuf> {
    Path::new(path.trim_start_matches('/'))
        .ancestors()
        .map(|part| Path::new(root).join(part))
        .collect()
}

/// Limit and what is left of it; cached file pages that the kernel gives back first do not count as
/// used. A group that is above `memory.high` is slowed down until it stands still, so that is a
/// limit as well.
fn room(group: &Path) -> Option<Room> {
    let number = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(group.join(name)).ok()?;
        text.trim().parse().ok()
    };
    let limits = ["memory.max", "memory.high", "memory.limit_in_bytes"].map(number);
    let limit_bytes = limits.into_iter().flatten().min()?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cached = statistics
        .lines()
        .find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse().ok())
        .unwrap_or(0);
    Some(Room { limit_bytes, left_bytes: limit_bytes.saturating_sub(used.saturating_sub(cached)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_memory_name_their_group() {
        assert_eq!(group_of("0::/a/b"), Some((UNIFIED_ROOT, "/a/b")));
        assert_eq!(group_of("5:cpu,memory:/x"), Some((LEGACY_ROOT, "/x")));
        assert_eq!(group_of("4:cpuset:/x"), None);
        assert_eq!(
            ancestors(UNIFIED_ROOT, "/a/b"),
            ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup/"].map(PathBuf::from)
        );
    }

    #[test]
    fn what_is_left_is_the_limit_less_the_use_that_stays() {
        let group = std::env::temp_dir().join(format!("perigee-cgroup-{}", std::process::id()));
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("memory.max"), "1000\n").unwrap();
        fs::write(group.join("memory.current"), "700\n").unwrap();
        fs::write(group.join("memory.stat"), "anon 1\ninactive_file 300\n").unwrap();
        let left_bytes = || room(&group).map(|room| room.left_bytes);
        assert_eq!(left_bytes(), Some(600));
        fs::write(group.join("memory.high"), "900\n").unwrap();
        assert_eq!(left_bytes(), Some(500));
        fs::write(group.join("memory.high"), "max\n").unwrap();
        fs::write(group.join("memory.max"), "max\n").unwrap();
        assert_eq!(left_bytes(), None);
        fs::remove_dir_all(&group).unwrap();
    }
}
