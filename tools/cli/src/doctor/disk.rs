//! Folders for files of the cluster. Invariant: what is judged was measured before; nothing stays
//! behind in the folder.

mod probe;

use super::finding::{CheckOutcome, Finding};
use super::host::HostFacts;
use crate::limits::{DOCTOR_DISK_FREE_PERCENT_MIN, DOCTOR_DISK_RATE_MIN, DOCTOR_DISK_TEST_BYTES};
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

/// What was measured in one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostDisk {
    pub(super) folder: PathBuf,
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
        Self { folder: folder.to_owned(), space, direct }
    }

    fn shown(&self) -> String {
        self.folder.display().to_string()
    }
}

/// Without direct access each block is in memory twice.
pub(super) fn direct_access(host: &HostFacts) -> CheckOutcome {
    judge(host, |disk| {
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
        let percent = free.saturating_mul(100).checked_div(all);
        let is_full = percent.is_some_and(|percent| percent < DOCTOR_DISK_FREE_PERCENT_MIN);
        (is_full || disk.direct == Err(DiskFault::NoSpace)).then(|| {
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
