//! File systems that are no disk of this host, or not for long.

use nix::sys::statfs::statfs;
use std::path::Path;

/// A file system on which a disk of objects is not what its user expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::doctor) enum FileSystem {
    /// A server has the bytes.
    Network(&'static str),
    /// The layer of a container.
    Overlay,
    /// Memory.
    Memory,
    /// A program of a user serves it.
    Fuse,
}

/// Numbers of the kernel for file systems.
const NETWORKS: [(i64, &str); 6] = [
    (0x6969, "NFS"),
    (0x00c3_6400, "CephFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0xfe53_4d42, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0x0102_1997, "9P"),
];
const OVERLAY: i64 = 0x794c_7630;
const MEMORIES: [i64; 2] = [0x0102_1994, 0x8584_58f6];
const FUSE: i64 = 0x6573_5546;

impl FileSystem {
    /// What is unusual about a folder's file system, if anything is.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        Self::of_number(statfs(folder).ok()?.filesystem_type().0 as i64)
    }

    fn of_number(number: i64) -> Option<Self> {
        let network = NETWORKS.iter().find(|(known, _)| *known == number);
        match number {
            _ if network.is_some() => network.map(|(_, name)| Self::Network(name)),
            OVERLAY => Some(Self::Overlay),
            FUSE => Some(Self::Fuse),
            number if MEMORIES.contains(&number) => Some(Self::Memory),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Network(name) => name,
            Self::Overlay => "overlay",
            Self::Memory => "tmpfs",
            Self::Fuse => "FUSE",
        }
    }

    pub(super) fn why(self) -> &'static str {
        match self {
            Self::Network(_) => {
                "objects cross the network once more, and a server that hangs is a disk that hangs"
            }
            Self::Overlay => {
                "that is the container's own layer, which goes with the container and is slow"
            }
            Self::Memory => "that is memory, which the disk was to spare",
            Self::Fuse => "a program stands between the disk and its bytes",
        }
    }

    pub(super) fn fix(self) -> &'static str {
        match self {
            Self::Overlay => "Mount a volume there: hostPath, a claim, or docker run --volume",
            _ => "Use a folder on ext4 or XFS of a local NVMe disk",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_no_disk_and_numbers_lead_to_names() {
        let memory = FileSystem::of(Path::new("/dev/shm"));
        assert!([Some(FileSystem::Memory), Some(FileSystem::Overlay), None].contains(&memory));
        assert_eq!(FileSystem::of_number(0x6969), Some(FileSystem::Network("NFS")));
        assert_eq!(FileSystem::of_number(OVERLAY), Some(FileSystem::Overlay));
        assert_eq!(FileSystem::of_number(0xef53), None, "ext4");
        assert_eq!(FileSystem::of(Path::new("/no/such/folder")), None);
    }
}
