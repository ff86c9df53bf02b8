//! What the control groups of this process leave of their memory.
//! Invariant: a group whose files are unreadable or name no limit does not count.

use std::fs;
use std::path::{Path, PathBuf};

const UNIFIED_ROOT: &str = "/sys/fs/cgroup";
const LEGACY_ROOT: &str = "/sys/fs/cgroup/memory";

/// Bytes left by the tightest group from this process's own up to the root; `None` without a limit.
pub(super) fn available_bytes() -> Option<u64> {
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    membership
        .lines()
        .filter_map(group_of)
        .flat_map(|(root, path)| ancestors(root, path))
        .filter_map(|group| left_bytes(&group))
        .min()
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

/// Limit less use; cached file pages that the kernel gives back first do not count as used.
fn left_bytes(group: &Path) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(group.join(name)).ok()?;
        text.trim().parse().ok()
    };
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cached = statistics
        .lines()
        .find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse().ok())
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cached)))
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
        assert_eq!(left_bytes(&group), Some(600));
        fs::write(group.join("memory.max"), "max\n").unwrap();
        assert_eq!(left_bytes(&group), None);
        fs::remove_dir_all(&group).unwrap();
    }
}
