//! The shard of a disk. Invariant: it runs until it is stopped or dropped, so that what is asked
//! of its disk is answered.

use super::adoption::FolderLook;
use crate::error::StoreError;
use crate::limits::DISK_STOP;
use perigee_shard::{CallReply, Environment, Shard, ShardEnvironment, ShardOptions};
use perigee_ssd::{Answer, Disk, DiskOptions, OpenError, OpenedDisk};
use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::channel;

pub(super) struct DiskShard {
    shard: Shard,
    /// Dropped, it ends the shard.
    end: CallReply<ShardEnvironment, ()>,
}

impl fmt::Debug for DiskShard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DiskShard").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl DiskShard {
    pub(super) fn start() -> Result<Self, StoreError> {
        let (send, receive) = channel();
        let shard = Shard::start(ShardOptions::named("perigee-ssd"), |environment| async move {
            let (end, reply) = environment.ask::<()>();
            if send.send(reply).is_ok() {
                end.await;
            }
        });
        let failed =
            |error: &dyn fmt::Display| StoreError::System(format!("No shard for a disk: {error}"));
        let shard = shard.map_err(|error| failed(&error))?;
        let end = receive.recv_timeout(DISK_STOP).map_err(|error| failed(&error))?;
        Ok(Self { shard, end })
    }

    pub(super) fn open(&self, options: DiskOptions) -> Answer<Result<OpenedDisk, OpenError>> {
        Disk::open::<ShardEnvironment>(&self.shard.mailbox(), options)
    }

    /// The folders in a path that no process has.
    pub(super) fn free_folders(&self, options: DiskOptions) -> FolderLook {
        Disk::free_folders::<ShardEnvironment>(&self.shard.mailbox(), options)
    }

    /// Whether bytes can be written below a path.
    pub(super) fn try_path(&self, path: PathBuf) -> Answer<Result<(), OpenError>> {
        Disk::try_path::<ShardEnvironment>(&self.shard.mailbox(), path)
    }

    pub(super) fn stop(self) {
        drop(self.end);
        if let Err(error) = self.shard.join(DISK_STOP) {
            tracing::warn!(%error, "The shard of a disk did not stop in time; it ends by itself");
        }
    }
}
