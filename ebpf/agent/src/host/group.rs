//! Where control groups of processes lie below a mount of cgroup2. Invariant: the kernel tells
//! groups as this process's own namespace sees them; in a namespace of its own, as containers have,
//! those of others begin with `..`.

use crate::limits::GROUPS_SEARCHED_MAX;
use perigee_topology::Roots;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why the group of a process has no folder here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GroupError {
    /// No mount at all.
    #[error("no control groups of version 2 are mounted")]
    NotMounted,
    /// The mount begins below it.
    #[error("the control group `/{0}` lies outside of what is mounted here")]
    OutOfReach(String),
    /// It has gone, or another file system hides it.
    #[error("there is no control group {0}")]
    Absent(String),
}

/// A path of groups relative to this namespace's root: so many steps up, then names down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GroupPath<'a> {
    up: usize,
    down: Vec<&'a str>,
}

impl<'a> GroupPath<'a> {
    fn of(path: &'a str) -> Self {
        let parts = path.split('/').filter(|part| !part.is_empty());
        let mut way = Self::default();
        for part in parts {
            match part {
                ".." if way.down.is_empty() => way.up += 1,
                ".." => drop(way.down.pop()),
                name => way.down.push(name),
            }
        }
        way
    }
}

/// The mount that reaches highest.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    mount: Option<PathBuf>,
    /// The mount's own root, relative to the namespace's.
    root: String,
    /// Names of the groups from the mount down to the namespace's root, if the mount begins above
    /// it.
    own: Vec<String>,
}

impl Cgroups {
    /// What is mounted for this process.
    pub(crate) fn open(roots: &Roots) -> Self {
        let mounts = roots.proc().text("self/mountinfo").unwrap_or_default();
        let own = roots.proc().text("self/cgroup");
        let own = own.as_deref().and_then(group_of).unwrap_or_default();
        Self::of(&mounts, &own, std::process::id())
    }

    fn of(mounts: &str, own: &str, pid: u32) -> Self {
        let mut visible: Vec<(&str, &str, bool)> = Vec::new();
        for line in mounts.lines() {
            let mut words = line.split(' ').skip(3);
            let (Some(root), Some(point)) = (words.next(), words.next()) else {
                continue;
            };
            let is_groups = line.contains(" - cgroup2 ");
            // What is mounted later at the same place hides what was there.
            visible.retain(|(_, other, _)| *other != point);
            visible.push((root, point, is_groups));
        }
        let groups = visible.into_iter().filter(|(.., is_groups)| *is_groups);
        let Some((root, point, _)) = groups.min_by_key(|(root, ..)| rank(root)) else {
            return Self::default();
        };
        let steps = GroupPath::of(root).up;
        let own_depth = steps + GroupPath::of(own).down.len();
        let found = (steps > 0).then(|| folder_of(Path::new(point), own_depth, pid));
        let own = found.flatten().unwrap_or_default();
        Self {
            mount: Some(PathBuf::from(point)),
            root: root.to_owned(),
            own: own.into_iter().take(steps).collect(),
        }
    }

    /// The highest group that can be seen.
    pub(crate) fn top(&self) -> Result<&Path, GroupError> {
        self.mount.as_deref().ok_or(GroupError::NotMounted)
    }

    /// The kernel's number of a group.
    pub(crate) fn number(&self, group: &str) -> Result<u64, GroupError> {
        let folder = self.folder(group)?;
        let facts = std::fs::metadata(&folder);
        facts.map(|facts| facts.ino()).map_err(|_| GroupError::Absent(folder.display().to_string()))
    }

    /// The folder of a group, as the kernel gives it, without the leading slash.
    fn folder(&self, group: &str) -> Result<PathBuf, GroupError> {
        let mount = self.mount.as_ref().ok_or(GroupError::NotMounted)?;
        let below = self.below(group);
        let below = below.ok_or_else(|| GroupError::OutOfReach(group.to_owned()))?;
        let folder = mount.join(below);
        if folder.is_dir() {
            return Ok(folder);
        }
        Err(GroupError::Absent(folder.display().to_string()))
    }

    /// The group relative to the mount.
    fn below(&self, group: &str) -> Option<String> {
        let (root, group) = (GroupPath::of(&self.root), GroupPath::of(group));
        let path: Vec<&str> = match root.up {
            0 if group.up > 0 => return None,
            0 => group.down.strip_prefix(root.down.as_slice())?.to_vec(),
            // A mount of a sibling: what it shows is known by its own names only.
            _ if !root.down.is_empty() => return None,
            steps => {
                let kept = steps.checked_sub(group.up)?;
                let own = self.own.get(..kept)?.iter().map(String::as_str);
                own.chain(group.down).collect()
            }
        };
        Some(path.join("/"))
    }
}

/// The mount of all groups comes first, one of a part last.
fn rank(root: &str) -> (std::cmp::Reverse<usize>, usize) {
    let way = GroupPath::of(root);
    (std::cmp::Reverse(way.up), way.down.len())
}

/// The group in `/proc/PID/cgroup`, without the slash at its begin.
pub(super) fn group_of(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(line.to_owned())
}

/// Names of the groups from `top` to the one of this process, so many levels below.
fn folder_of(top: &Path, depth: usize, pid: u32) -> Option<Vec<String>> {
    let mut level = vec![(top.to_owned(), Vec::new())];
    let mut left = GROUPS_SEARCHED_MAX;
    for _ in 0..depth {
        let mut next = Vec::new();
        for (folder, names) in level {
            let children = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let groups = children.filter(|child| child.file_type().is_ok_and(|kind| kind.is_dir()));
            for child in groups {
                left = left.checked_sub(1)?;
                let name = child.file_name().to_string_lossy().into_owned();
                next.push((child.path(), [names.as_slice(), &[name]].concat()));
            }
        }
        level = next;
    }
    let pid = pid.to_string();
    let holds_us = |folder: &Path| {
        let members = std::fs::read_to_string(folder.join("cgroup.procs"));
        members.is_ok_and(|members| members.lines().any(|line| line == pid))
    };
    let found = level.into_iter().find(|(folder, _)| holds_us(folder));
    found.map(|(_, names)| names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mount with these groups, the second one ours.
    fn hierarchy() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        for group in ["system/store", "pods/agent", "pods/node"] {
            std::fs::create_dir_all(top.path().join(group)).unwrap();
        }
        std::fs::write(top.path().join("system/store/cgroup.procs"), "77\n").unwrap();
        std::fs::write(top.path().join("pods/agent/cgroup.procs"), "7\n77123\n").unwrap();
        top
    }

    fn line(root: &str, point: &Path, kind: &str) -> String {
        format!("36 30 0:26 {root} {} rw,nosuid shared:9 - {kind} cgroup2 rw\n", point.display())
    }

    fn groups(root: &str) -> (Cgroups, tempfile::TempDir) {
        let top = hierarchy();
        let found = Cgroups::of(&line(root, top.path(), "cgroup2"), "", 7);
        (found, top)
    }

    #[test]
    fn in_the_hosts_namespace_a_group_lies_where_its_path_says() {
        let (groups, top) = groups("/");
        assert_eq!(groups.folder("pods/node"), Ok(top.path().join("pods/node")));
        assert_eq!(groups.folder(""), Ok(top.path().join("")));
        let absent = groups.folder("pods/gone").unwrap_err();
        assert!(matches!(absent, GroupError::Absent(_)));
    }

    #[test]
    fn in_a_namespace_of_its_own_groups_above_and_beside_it_are_found() {
        let (groups, top) = groups("/../..");
        assert_eq!(groups.own, ["pods", "agent"]);
        for (shown, place) in
            [("../node", "pods/node"), ("../../system/store", "system/store"), ("", "pods/agent")]
        {
            assert_eq!(groups.folder(shown), Ok(top.path().join(place)), "{shown}");
        }
        let above = groups.folder("../../../x").unwrap_err();
        assert!(matches!(above, GroupError::OutOfReach(_)));
    }

    #[test]
    fn a_container_that_sees_only_its_own_groups_reaches_no_other() {
        let (groups, _top) = groups("/");
        let error = groups.folder("../node").unwrap_err();
        assert_eq!(error, GroupError::OutOfReach("../node".to_owned()));
        assert_eq!(Cgroups::default().folder("x"), Err(GroupError::NotMounted));
    }

    #[test]
    fn a_mount_that_begins_at_a_group_is_stripped_of_its_path() {
        let (groups, top) = groups("/kube");
        assert_eq!(groups.folder("kube/pods/node"), Ok(top.path().join("pods/node")));
        assert!(groups.folder("system/store").is_err());
    }

    #[test]
    fn of_several_mounts_the_highest_that_is_not_hidden_is_taken() {
        let top = hierarchy();
        let own = tempfile::tempdir().unwrap();
        let hidden = tempfile::tempdir().unwrap();
        let mounts = [
            line("/../..", hidden.path(), "cgroup2"),
            line("/", hidden.path(), "tmpfs"),
            line("/", own.path(), "cgroup2"),
            line("/../..", top.path(), "cgroup2"),
        ];
        let groups = Cgroups::of(&mounts.concat(), "", 7);
        assert_eq!(groups.folder("../node"), Ok(top.path().join("pods/node")));
    }
}
