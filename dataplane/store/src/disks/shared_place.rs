//! The directory that all hosts share, as a client uses it. Invariant: what a master names leads to
//! a folder of one cluster below that directory, whatever it writes there.

use perigee_rpc::OfferedDirectory;
use std::path::{Component, Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SharedPlace {
    /// The folder of the cluster. The directory above is there already, or is not mounted.
    pub(super) path: PathBuf,
    pub(super) cluster: String,
    /// Most bytes of all folders there; 0 for no bound.
    pub(super) bytes_of_all: u64,
}

impl SharedPlace {
    /// None if what is offered cannot be used.
    pub(super) fn of(offered: &OfferedDirectory) -> Option<Self> {
        let OfferedDirectory { path, cluster, bytes } = offered;
        let directory = Path::new(path);
        let is_plain = directory.components().all(|part| part != Component::ParentDir);
        let parts: Vec<Component<'_>> = Path::new(cluster).components().collect();
        let is_name = matches!(&parts[..], [Component::Normal(name)] if *name == cluster.as_str());
        let place =
            Self { path: directory.join(cluster), cluster: cluster.clone(), bytes_of_all: *bytes };
        let is_used = directory.is_absolute() && is_plain && is_name;
        let is_below = place.path.parent() == Some(directory);
        debug_assert!(!is_used || is_below, "the folder is one of those in the directory");
        is_used.then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_below_an_absolute_path_is_used() {
        let of = |path: &str, cluster: &str| {
            let (path, cluster) = (path.to_owned(), cluster.to_owned());
            SharedPlace::of(&OfferedDirectory { path, cluster, bytes: 7 })
        };
        let place = of("/mnt/kv", "blue").unwrap();
        assert_eq!(place.path, Path::new("/mnt/kv/blue"));
        for (path, cluster) in [
            ("mnt", "blue"),
            ("/mnt/../etc", "blue"),
            ("/mnt", ".."),
            ("/mnt", "."),
            ("/mnt", ""),
            ("/mnt", "a/b"),
            ("/mnt", "/etc"),
            ("/mnt", "a/"),
        ] {
            assert_eq!(of(path, cluster), None, "{path} {cluster}");
        }
    }
}
