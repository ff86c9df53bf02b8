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
        assert!(!is_mounted(Path::new("/proc/sys")) && !is_mounted(Path::new("/no/such/folder")));
    }
}
