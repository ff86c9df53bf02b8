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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_above_a_path_is_found() {
        assert_eq!(mount_point(Path::new("/proc/self/fd")), Some("/proc".into()));
        assert_eq!(mount_point(Path::new("/")), None);
        assert!(is_mounted(Path::new("/proc")));
        assert!(!is_mounted(Path::new("/proc/sys")) && !is_mounted(Path::new("/no/such/folder")));
    }
}
