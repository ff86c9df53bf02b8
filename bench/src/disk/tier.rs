//! A store whose objects lie on a disk of its own, and one that reads them over TCP.
//! Invariant: what is read is on the disk alone, as the master says, and its folder goes with the
//! run.

use std::path::PathBuf;
use std::time::Instant;

use perigee_schemas::{Route, SegmentKind, Status};
use perigee_service::Cluster;
use perigee_store::api::{CallerRange, PutRequest, ReplicateConfig};
use perigee_store::{DiskSettings, Store};

use super::settings::DiskLoad;
use crate::ends::cluster::{open_store_with, start_master_with};
use crate::ends::run_folder::RunFolder;
use crate::error::BenchError;
use crate::limits::{DISK_DEADLINE, TIER_LOOK, TIER_MEMORY_BYTES};
use crate::load::content;

/// A master, an owner and a reader in this process.
pub(super) struct TierEnd {
    pub(super) reader: Store,
    pub(super) owner: Store,
    master: Cluster,
    /// What lies on the disk alone, in the order in which it was put.
    pub(super) keys: Vec<String>,
    folder: RunFolder,
}

impl TierEnd {
    /// Puts as many objects of a size as fill the pool on a disk behind memory.
    pub(super) fn start(settings: &DiskLoad, bytes: u64) -> Result<Self, BenchError> {
        let folder = RunFolder::make(&settings.path, "--path")?;
        let master = start_master_with(&[
            "--enable_offload",
            "--offload_on_evict",
            "--offload_force_evict=false",
        ])?;
        let address = master.address().to_string();
        let disks = DiskSettings {
            paths: vec![folder.path().to_owned()],
            capacity_bytes: settings.pool_bytes / 4 * 5 + (64 << 20),
            segment_bytes: 0,
            cluster: "perigee-bench".to_owned(),
            key: None,
            needs_disk: false,
        };
        let owner = open_store_with(&address, TIER_MEMORY_BYTES, Route::SameProcess, Some(disks))?;
        let reader = open_store_with(&address, 0, Route::Tcp, None)?;
        let mut end = Self { reader, owner, master, keys: Vec::new(), folder };
        end.fill(settings.pool_bytes + TIER_MEMORY_BYTES, bytes)?;
        Ok(end)
    }

    fn fill(&mut self, all_bytes: u64, bytes: u64) -> Result<(), BenchError> {
        let mut payload = vec![0; bytes as usize];
        content::fill(&mut payload, bytes);
        let keys: Vec<String> = (0..all_bytes / bytes).map(|key| format!("tier-{key}")).collect();
        keys.iter().try_for_each(|key| self.put(key, &payload))?;
        let is_on_disk = |key: &&String| {
            let found = self.reader.replicas(&[key.as_str()]).remove(0).unwrap_or_default();
            !found.is_empty() && found.iter().all(|it| it.kind == Some(SegmentKind::Disk))
        };
        self.keys = keys.iter().filter(is_on_disk).cloned().collect();
        match self.keys.is_empty() {
            true => Err(BenchError::program("disk", "nothing was written to it; see the log")),
            false => Ok(()),
        }
    }

    /// Puts an object as soon as eviction has made room for it.
    fn put(&self, key: &str, payload: &[u8]) -> Result<(), BenchError> {
        let pieces = [CallerRange::owned(payload.as_ptr() as usize, payload.len())];
        let request = [PutRequest { key, pieces: &pieces, group: None }];
        let begun = Instant::now();
        loop {
            match self.reader.put(&request, &ReplicateConfig::default())[0] {
                Status::Ok => return Ok(()),
                Status::NoAvailableHandle if begun.elapsed() < DISK_DEADLINE => {
                    std::thread::sleep(TIER_LOOK);
                }
                status => {
                    return Err(BenchError::Outcome { call: "put", key: key.to_owned(), status });
                }
            }
        }
    }

    /// Where the files of the disk lie.
    pub(super) fn files(&self) -> Result<PathBuf, BenchError> {
        let first = std::fs::read_dir(self.folder.path())?.next().transpose()?;
        let first = first.ok_or_else(|| BenchError::program("disk", "its folder has gone"))?;
        Ok(first.path())
    }

    pub(super) fn stop(self) {
        self.reader.close();
        self.owner.close();
        self.master.stop();
        drop(self.folder);
    }
}
