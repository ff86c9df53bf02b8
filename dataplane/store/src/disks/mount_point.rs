//! On which mount a folder lies. Invariant: a disk that was unmounted to be mended is not taken for
//! the folder below it, which lies on another disk.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a path lies on, unless that is the root.
pub(super) fn mount_point(path: &Path) -> Option<PathBuf> {
    path.ancestors().find(|folder| is_mounted(folder)).map(Path::to_owned)
}

/// Whether something is mounted on a folder other than the root.
pub(super) fn is_mounted(folder: &Path) -> bool {
    let file_system = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    let above = folder.parent().and_then(file_system);
    above.is_some() && file_system(folder).is_some_and(|own| Some(own) != above)
}

/// How many of these paths lie on the same file system as one of them; at least that one does.
pub(super) fn disks_beside(path: &Path, paths: &[PathBuf]) -> u64 {
    let own = file_system(path);
    let same = paths.iter().filter(|other| own.is_some() && file_system(other) == own);
    (same.count() as u64).max(1)
}

/// The file system that a path lies on, or will when it is made.
fn file_system(path: &Path) -> Option<u64> {
    path.ancestors().find_map(|folder| std::fs::metadata(folder).ok()).map(|found| found.dev())
}

/// What a path lies on by the kernel's list, unless that is the root. Nothing is asked of the file
/// systems, and links are not followed.
pub(super) fn listed_mount(path: &Path) -> Option<PathBuf> {
    let listed = listed();
    let places = path.ancestors().filter(|folder| folder.parent().is_some());
    let mut places = places.filter(|folder| listed.iter().any(|one| one == folder));
    places.next().map(Path::to_owned)
}

/// Whether something is mounted on a folder by the kernel's list.
pub(super) fn is_listed(folder: &Path) -> bool {
    listed().iter().any(|one| one == folder)
}

/// Where something is mounted. Places with blanks in their names are not understood.
fn listed() -> Vec<PathBuf> {
    let list = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    list.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_above_a_path_is_found() {
        assert_eq!(mount_point(Path::new("/proc/self/fd")), Some("/proc".into()));
        assert_eq!(mount_point(Path::new("/")), None);
        assert!(is_mounted(Path::new("/proc")));
        assert!(is_listed(Path::new("/proc")) && !is_listed(Path::new("/no/such/folder")));
        assert_eq!(listed_mount(Path::new("/proc/self/fd")), Some("/proc".into()));
        assert_eq!(listed_mount(Path::new("/no/such/folder")), None);
        let paths = ["/proc/self", "/no/such/folder", "/proc/sys", "/no/other"].map(PathBuf::from);
        assert_eq!(disks_beside(&paths[0], &paths), 2);
        assert_eq!(disks_beside(&paths[1], &paths), 2, "both would lie on the root's");
        assert_eq!(disks_beside(Path::new("/sys"), &paths), 1);
        assert!(!is_mounted(Path::new("/proc/sys")) && !is_mounted(Path::new("/no/such/folder")));
    }
}
