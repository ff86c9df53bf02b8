//! A place for a disk, and what has become of the disk there. Invariant: at most one
//! disk is open, opened or closed there at a time; the next one begins after its predecessor has
//! given the folder back.

use super::mount_point::{is_listed, is_mounted, listed_mount, mount_point};
use super::retry::DiskRetry;
use super::shard::DiskShard;
use crate::limits::DISK_READ_ONLY_MAX;
use perigee_activity::{DiskLatency, DiskReading};
use perigee_metrics::{DiskNumbers, DiskTimes};
use perigee_rpc::DiskReport;
use perigee_schemas::{DiskHealth, Identity};
use perigee_ssd::{Answer, Disk, DiskStatus, OpenError, OpenedDisk};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Why there is a disk in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceUse {
    /// The user has named the path.
    Named,
    /// It is in the directory that all hosts share.
    Shared,
    /// It is a folder there whose client has gone.
    Adopted,
}

#[derive(Debug)]
pub(super) struct DiskPlace {
    pub(super) path: PathBuf,
    pub(super) is_for: PlaceUse,
    pub(super) stage: PlaceStage,
    pub(super) retry: DiskRetry,
    /// The folder of the disk that is open, or was last.
    pub(super) folder: Option<PathBuf>,
    /// Why there is no disk, for people; empty while there is one.
    pub(super) reason: String,
    /// What it lay on when it was open last.
    mount_point: Option<PathBuf>,
}

/// What has become of the disk.
#[derive(Debug)]
pub(super) enum PlaceStage {
    Opening(OpeningDisk),
    Open(OpenDisk),
    Closing(ClosingDisk),
    /// There is none until it is tried again.
    Failed,
}

/// A disk that is being opened. One that hangs stays so until its file system has answered.
#[derive(Debug)]
pub(super) struct OpeningDisk {
    pub(super) shard: DiskShard,
    pub(super) opened: Answer<Result<OpenedDisk, OpenError>>,
    pub(super) began: Instant,
    /// It was said that it takes too long.
    pub(super) is_late: bool,
}

/// A disk that is used.
#[derive(Debug)]
pub(super) struct OpenDisk {
    pub(super) id: Identity,
    pub(super) disk: Disk,
    pub(super) shard: DiskShard,
    pub(super) trial: Trial,
    /// Since when it takes no writes.
    pub(super) read_only: Option<Instant>,
}

/// Whether a disk that can be read and not be written is to be opened again.
#[derive(Debug)]
pub(super) enum Trial {
    /// It takes writes, or has not been tried.
    None,
    /// Bytes of our own are written beside it.
    UnderWay(Answer<Result<(), OpenError>>),
    /// Its folder takes writes: the keeper takes it out of use, so that it is opened again.
    Passed,
}

/// A disk that is out of use at the master, until nothing of it is under way any more.
#[derive(Debug)]
pub(super) struct ClosingDisk {
    pub(super) shard: DiskShard,
    pub(super) closed: Answer<()>,
}

impl OpenDisk {
    /// Whether it can be read, and not be written until it is opened again: its log has ended, or
    /// its files are those of a file system that has gone.
    pub(super) fn is_read_only_for_good(&mut self, now: Instant) -> bool {
        let status = self.disk.status();
        if status.state.health != DiskHealth::ReadOnly {
            self.read_only = None;
            return false;
        }
        let since = *self.read_only.get_or_insert(now);
        status.must_reopen || now.saturating_duration_since(since) >= DISK_READ_ONLY_MAX
    }
}

/// What is to be known of a disk that is open: why it is not healthy, and what it has lost.
fn reason_of(status: &DiskStatus) -> String {
    let damaged = match status.counters.damaged {
        0 => return status.state.reason.clone(),
        1 => "1 copy there was not what was written".to_owned(),
        copies => format!("{copies} copies there were not what was written"),
    };
    match status.state.reason.as_str() {
        "" => damaged,
        reason => format!("{reason}; {damaged}"),
    }
}

impl DiskPlace {
    pub(super) fn new(path: &Path, is_for: PlaceUse) -> Self {
        Self {
            path: path.to_owned(),
            is_for,
            stage: PlaceStage::Failed,
            retry: DiskRetry::default(),
            folder: None,
            reason: String::new(),
            mount_point: None,
        }
    }

    /// There is no disk here; the log says so once, until there is one.
    pub(super) fn fail(&mut self, now: Instant, reason: String) {
        debug_assert!(self.open().is_none(), "a disk in use leaves by the master first");
        if self.is_for == PlaceUse::Adopted {
            tracing::debug!(reason, "A folder in the shared directory is not taken over");
            self.reason = reason;
            return;
        }
        match self.reason.is_empty() {
            true => tracing::error!(
                reason,
                "A disk cannot be used, and objects that memory has no room for are not kept \
                 there; it is tried again"
            ),
            false => tracing::debug!(reason, "A disk still cannot be used"),
        }
        self.reason = reason;
        self.retry.note_failure(now);
    }

    /// The disk here serves.
    pub(super) fn serve(&mut self, now: Instant, disk: OpenDisk) {
        if !self.reason.is_empty() {
            tracing::info!(path = %self.path.display(), disk = %disk.id, "A disk is back in use");
        }
        self.reason.clear();
        self.mount_point = match self.is_for {
            PlaceUse::Named => mount_point(&self.path),
            // A file server that hangs delays no call that asks the kernel alone.
            PlaceUse::Shared | PlaceUse::Adopted => listed_mount(&self.path),
        };
        debug_assert!(matches!(self.stage, PlaceStage::Failed), "one disk at a time");
        self.stage = PlaceStage::Open(disk);
        self.retry.note_service(now);
    }

    /// Where the path lay, if that is not mounted any more: its folder is that of another disk now.
    pub(super) fn gone(&self) -> Option<&Path> {
        let is_there = match self.is_for {
            PlaceUse::Named => is_mounted,
            PlaceUse::Shared | PlaceUse::Adopted => is_listed,
        };
        self.mount_point.as_deref().filter(|folder| !is_there(folder))
    }

    /// The master does not have this disk any more: it is closed, and then tried again. A disk that
    /// takes writes already is tried at once.
    pub(super) fn retire(&mut self, now: Instant, id: Identity) {
        let stage = std::mem::replace(&mut self.stage, PlaceStage::Failed);
        let PlaceStage::Open(open) = stage else {
            self.stage = stage;
            return;
        };
        if open.id != id {
            self.stage = PlaceStage::Open(open);
            return;
        }
        let OpenDisk { disk, shard, trial, .. } = open;
        let status = disk.status();
        self.reason = status.state.reason;
        // With a trial the failure was counted when writes had ended.
        if !matches!(trial, Trial::Passed) {
            self.retry.note_failure(now);
        }
        self.stage = PlaceStage::Closing(ClosingDisk { shard, closed: disk.close() });
    }

    pub(super) fn open(&self) -> Option<&OpenDisk> {
        match &self.stage {
            PlaceStage::Open(open) => Some(open),
            _ => None,
        }
    }

    /// Whether its disk has this folder, or had it last.
    pub(super) fn has_folder(&self, folder: &Path) -> bool {
        self.path == folder || self.folder.as_deref() == Some(folder)
    }

    /// The folder that was another client's.
    pub(super) fn adopted_folder(&self) -> Option<PathBuf> {
        (self.is_for == PlaceUse::Adopted).then(|| self.path.clone())
    }

    /// Whether nothing more comes of it: what was taken over and is not used any more is looked for
    /// again with the other folders there.
    pub(super) fn is_over(&self) -> bool {
        self.is_for == PlaceUse::Adopted && matches!(self.stage, PlaceStage::Failed)
    }

    /// Whether opening has come to an end that was not looked at yet.
    pub(super) fn has_opened(&self) -> bool {
        match &self.stage {
            PlaceStage::Opening(opening) => opening.opened.is_here(Duration::ZERO),
            _ => false,
        }
    }

    /// Whether something here ends soon, so that it is looked at often.
    pub(super) fn is_in_passing(&self) -> bool {
        matches!(self.stage, PlaceStage::Opening(_) | PlaceStage::Closing(_))
            || self.open().is_some_and(|open| matches!(open.trial, Trial::UnderWay(_)))
    }

    /// How the disk is, for the master and for people, and when it is tried again.
    pub(super) fn report(&self, now: Option<Instant>) -> DiskReport {
        let status = self.open().map(|open| open.disk.status());
        let (health, reason) = match (status, &self.stage) {
            (Some(status), _) => (status.state.health, reason_of(&status)),
            (None, PlaceStage::Closing(_)) => (DiskHealth::Withdrawn, self.reason.clone()),
            (None, _) => (DiskHealth::Failed, self.reason.clone()),
        };
        let what_next = match &self.stage {
            PlaceStage::Opening(opening) if !opening.is_late => "; it is being opened".to_owned(),
            PlaceStage::Opening(_) | PlaceStage::Closing(_) => {
                "; what is under way has not ended".to_owned()
            }
            _ => now.and_then(|now| self.retry.left(now)).map_or_else(String::new, |left| {
                format!("; it is tried again in {} s", left.as_secs())
            }),
        };
        let disk = self.open().map_or(Identity(0), |open| open.id);
        let path = self.path.display().to_string();
        DiskReport { disk, health, path, reason: reason + &what_next }
    }

    /// What an agent of the host is to know of it.
    pub(super) fn shown(&self, is_tried: bool) -> DiskReading {
        let status = self.open().map_or_else(DiskStatus::default, |open| open.disk.status());
        let DiskReport { health, path, reason, .. } = self.report(None);
        let is_waiting = is_tried && !self.is_in_passing();
        let retry = self.retry.left(Instant::now()).filter(|_| is_waiting);
        let retry =
            retry.and_then(|left| (SystemTime::now() + left).duration_since(UNIX_EPOCH).ok());
        let latency = |times: &DiskTimes| {
            let (sum_ns, buckets) = times.powers();
            DiskLatency { sum_ns, buckets }
        };
        DiskReading {
            path,
            state: health.name().to_owned(),
            reason,
            retry_ms: retry.map_or(0, |at| at.as_millis() as u64),
            capacity_bytes: status.capacity_bytes,
            used_bytes: status.used_bytes,
            read_bytes: status.counters.read_bytes,
            written_bytes: status.counters.written_bytes,
            errors: status.counters.errors,
            reads: latency(&status.reads),
            writes: latency(&status.writes),
        }
    }

    /// What the disk has done since it was opened.
    pub(super) fn numbers(&self) -> DiskNumbers {
        let status = self.open().map_or_else(DiskStatus::default, |open| open.disk.status());
        let DiskReport { health, path, .. } = self.report(None);
        let counters = status.counters;
        DiskNumbers {
            path,
            health,
            capacity_bytes: status.capacity_bytes,
            used_bytes: status.used_bytes,
            written_objects: counters.written_objects,
            object_bytes: counters.image_bytes,
            written_bytes: counters.written_bytes,
            reads: counters.read_pieces,
            joined_reads: counters.joined_pieces,
            promotions_read: counters.promotions_read,
            promotions_joined: counters.promotions_joined,
            read_bytes: counters.read_bytes,
            voided: counters.buried,
            damaged: counters.damaged,
            errors: counters.errors,
            read_times: status.reads,
            write_times: status.writes,
        }
    }
}
