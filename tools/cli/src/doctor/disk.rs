//! Folders for files of the cluster. Invariant: what is judged was measured before; nothing stays
//! behind in the folder.

mod file_system;
mod locks;
mod probe;

use super::finding::{CheckOutcome, Finding};
use super::host::HostFacts;
pub(super) use file_system::FileSystem;

use crate::limits::{DOCTOR_DISK_FREE_PERCENT_MIN, DOCTOR_DISK_RATE_MIN, DOCTOR_DISK_TEST_BYTES};
use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why a folder could not be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DiskFault {
    /// There is not enough room for the test, or for this user.
    NoSpace,
    /// The system refused an access, with this message.
    Refused(String),
}

/// Why a folder takes no files of this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FolderFault {
    /// There is no such folder.
    Missing,
    /// This user may not write there.
    NotAllowed,
    /// It is mounted read-only.
    ReadOnly,
}

impl FolderFault {
    fn of(folder: &Path) -> Option<Self> {
        match access(folder, AccessFlags::W_OK | AccessFlags::X_OK) {
            Ok(()) if folder.is_dir() => None,
            Err(Errno::EACCES | Errno::EPERM) => Some(Self::NotAllowed),
            Err(Errno::EROFS) => Some(Self::ReadOnly),
            _ => Some(Self::Missing),
        }
    }
}

/// What was measured in one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostDisk {
    pub(super) folder: PathBuf,
    /// Why this user cannot make files there.
    pub(super) obstacle: Option<FolderFault>,
    /// What is unusual about its file system.
    pub(super) file_system: Option<FileSystem>,
    /// Folders of disks in it that running processes have.
    pub(super) in_use: usize,
    /// What disks in it have: room that they use again.
    pub(super) own_bytes: u64,
    /// Free and all bytes of its file system.
    pub(super) space: Option<(u64, u64)>,
    /// Bytes per second past the page cache, or why there is no such access.
    pub(super) direct: Result<u64, DiskFault>,
}

impl HostDisk {
    /// Measures a folder, within a bounded time.
    pub(super) fn measure(folder: &Path) -> Self {
        let space = nix::sys::statvfs::statvfs(folder).ok();
        let space = space.map(|found| {
            let unit = found.fragment_size();
            let bytes = |blocks: u64| blocks.saturating_mul(unit);
            (bytes(found.blocks_available()), bytes(found.blocks()))
        });
        // The test must not be what fills a disk. Some file systems say nothing of their size.
        let is_tight =
            space.is_some_and(|(free, all)| all > 0 && free < DOCTOR_DISK_TEST_BYTES * 2);
        let direct = match is_tight {
            true => Err(DiskFault::NoSpace),
            false => probe::direct_rate(folder).map_err(|error| match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => DiskFault::NoSpace,
                _ => DiskFault::Refused(error.to_string()),
            }),
        };
        Self {
            folder: folder.to_owned(),
            obstacle: FolderFault::of(folder),
            file_system: FileSystem::of(folder),
            in_use: locks::held_in(folder),
            own_bytes: locks::bytes_in(folder),
            space,
            direct,
        }
    }

    fn shown(&self) -> String {
        self.folder.display().to_string()
    }
}

/// A client goes on without a disk that it cannot use.
pub(super) fn usable(host: &HostFacts) -> CheckOutcome {
    judge(host, |disk| {
        let (what, fix) = match disk.obstacle? {
            FolderFault::Missing => {
                ("there is no such folder", "Make it, and mount the disk there")
            }
            FolderFault::NotAllowed => (
                "this user may not make files in it",
                "Give the folder to the user that runs the client (chown), or name another one",
            ),
            FolderFault::ReadOnly => (
                "its file system is mounted read-only",
                "Mount it so that it can be written to, or name another folder",
            ),
        };
        Some(Finding::failure(disk.shown(), what, fix))
    })
}

/// Not every file system is a disk of this host.
pub(super) fn file_system(host: &HostFacts) -> CheckOutcome {
    judge(host, |disk| {
        let file_system = disk.file_system?;
        let message = format!("lies on {}: {}", file_system.name(), file_system.why());
        Some(Finding::warning(disk.shown(), message, file_system.fix()))
    })
}

/// Clients on one path share its room.
pub(super) fn in_use(host: &HostFacts) -> CheckOutcome {
    judge(host, |disk| {
        (disk.in_use > 0).then(|| {
            let message = format!(
                "{} clients have a disk there already, each with a folder of its own; one more shares their room",
                disk.in_use
            );
            let fix = "If that is not wanted, name another path, or set \
                       MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES for each client";
            Finding::warning(disk.shown(), message, fix)
        })
    })
}

/// Without direct access each block is in memory twice.
pub(super) fn direct_access(host: &HostFacts) -> CheckOutcome {
    judge(host, |disk| {
        if disk.obstacle.is_some() {
            return None;
        }
        let Err(DiskFault::Refused(cause)) = &disk.direct else {
            return None;
        };
        Some(Finding::failure(
            disk.shown(),
            format!("files cannot be written and read past the page cache: {cause}"),
            "Use a folder on ext4 or XFS of a local disk that this user may write to",
        ))
    })
}

/// A full disk ends offloading.
pub(super) fn full(host: &HostFacts) -> CheckOutcome {
    judge(host, |disk| {
        let (free, all) = disk.space.unwrap_or_default();
        let usable = free.saturating_add(disk.own_bytes);
        let percent = usable.saturating_mul(100).checked_div(all);
        let is_full = percent.is_some_and(|percent| percent < DOCTOR_DISK_FREE_PERCENT_MIN);
        let is_refused = disk.direct == Err(DiskFault::NoSpace) && disk.own_bytes == 0;
        (is_full || is_refused).then(|| {
            let percent = free.saturating_mul(100).checked_div(all);
            let (free, all) = (free >> 20, all >> 20);
            let percent = percent.unwrap_or(0);
            Finding::failure(
                disk.shown(),
                format!("too full: {percent} % are free ({free} MiB of {all} MiB)"),
                "Remove files, raise the quota, or use another disk",
            )
        })
    })
}

/// A disk slower than the network makes reads from it slower than computing again.
pub(super) fn slow(host: &HostFacts) -> CheckOutcome {
    judge(host, |disk| {
        let rate = *disk.direct.as_ref().ok()?;
        (rate < DOCTOR_DISK_RATE_MIN).then(|| {
            Finding::warning(
                disk.shown(),
                format!(
                    "{} MiB/s when read, {} are needed",
                    rate >> 20,
                    DOCTOR_DISK_RATE_MIN >> 20
                ),
                "Use an NVMe disk, and see whether something else uses this one",
            )
        })
    })
}

fn judge(host: &HostFacts, one: impl Fn(&HostDisk) -> Option<Finding>) -> CheckOutcome {
    if host.disks.is_empty() {
        return CheckOutcome::Skipped("no --disk");
    }
    CheckOutcome::of(host.disks.iter().filter_map(one))
}
