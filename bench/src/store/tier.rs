//! Rows of a working set that is larger than the memory, with a disk behind it.
//! Invariant: a row says where its blocks lie: in memory, on the disk alone, or wherever they are.

use std::path::Path;
use std::time::{Duration, Instant};

use perigee_schemas::{SegmentKind, Status};
use perigee_store::{CallerRange, DiskSettings, PutRequest, ReplicateConfig, Store};

use super::settings::StoreSettings;
use super::{READY, cell};
use crate::baseline::rounds::Taken;
use crate::ends::cluster::{open_store, open_store_with, start_master_with};
use crate::ends::process::Companion;
use crate::ends::run_folder::RunFolder;
use crate::error::BenchError;
use crate::limits::{DISK_DEADLINE, TIER_LOOK, TIER_POOLS};
use crate::load::content;
use crate::load::drive::{Step, Worker, drive};
use crate::load::get_worker::GetWorker;
use crate::report::{Figure, Report, Row};
use crate::stop::Stop;

/// New blocks, which push older ones to the disk.
const PUT: &str = "tier put";
/// Blocks that lie in memory.
const MEMORY: &str = "tier memory";
/// Blocks that the disk alone has.
const DISK: &str = "tier disk";
/// Blocks of the whole working set.
const ALL: &str = "tier get";

/// Serves a cluster of one node with a disk until `stop`; `ready` gets the master's address.
pub(super) fn serve(
    settings: &StoreSettings,
    stop: &Stop,
    ready: impl FnOnce(&str) -> std::io::Result<()>,
) -> Result<(), BenchError> {
    let flags = ["--enable_offload", "--offload_on_evict", "--offload_force_evict=false"];
    let master = start_master_with(&flags)?;
    let address = master.address().to_string();
    let disks = DiskSettings {
        paths: vec![settings.disk.clone()],
        // What the log has beside objects, and segments that are begun.
        capacity_bytes: (TIER_POOLS + 1) * settings.pool_bytes + (64 << 20),
        segment_bytes: 0,
        cluster: "perigee-bench".to_owned(),
        key: None,
        needs_disk: false,
    };
    let node = open_store_with(&address, settings.pool_bytes, settings.route, Some(disks))?;
    ready(&address)?;
    stop.wait();
    node.close();
    master.stop();
    Ok(())
}

/// Rows of all sizes, each with a cluster of its own.
pub(super) fn rows(
    settings: &StoreSettings,
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    report.notes.push(format!(
        "tier rows: {TIER_POOLS} times as many blocks as memory holds, a disk behind it; \
         tier put: new blocks, each as soon as there is room; tier memory, tier disk: \
         blocks that lie there alone; tier get: any"
    ));
    settings.load.sizes.iter().try_for_each(|bytes| of_size(settings, *bytes, stop, report))
}

fn of_size(
    settings: &StoreSettings,
    bytes: u64,
    stop: &Stop,
    report: &mut Report,
) -> Result<(), BenchError> {
    let folder = RunFolder::make(&settings.disk, "--disk")?;
    let companion = companion(settings, folder.path())?;
    let client = open_store(&companion.ready, 0, settings.route)?;
    let tier = Tier { settings, client: &client, bytes, stop };
    let outcome = tier.rows(report);
    client.close();
    outcome
}

fn companion(settings: &StoreSettings, folder: &Path) -> Result<Companion, BenchError> {
    let words = [
        "bench".to_owned(),
        "store".to_owned(),
        "--serve".to_owned(),
        format!("--pool={}", settings.pool_bytes),
        format!("--route={}", settings.route_word()),
        format!("--disk={}", folder.join("disk").display()),
    ];
    Companion::start(&words, READY, settings.far_cpu())
}

/// One working set.
struct Tier<'a> {
    settings: &'a StoreSettings,
    client: &'a Store,
    bytes: u64,
    stop: &'a Stop,
}

impl Tier<'_> {
    fn rows(&self, report: &mut Report) -> Result<(), BenchError> {
        let load = &self.settings.load;
        let mut putters: Vec<Putter<'_>> = (0..load.threads)
            .map(|thread| Putter::new(self.client, thread, self.bytes, load.depth))
            .collect();
        let wanted = (TIER_POOLS * self.settings.pool_bytes / self.bytes / load.threads).max(1);
        if load.operations.contains(&"put") {
            let taken = drive(&mut putters, &load.span, self.stop)?.into();
            self.note(PUT, &taken, report);
        }
        for putter in &mut putters {
            while putter.begun < wanted {
                if self.stop.is_set() {
                    return Err(BenchError::Interrupted);
                }
                putter.step(1)?;
            }
        }
        if !load.operations.contains(&"get") {
            return Ok(());
        }
        let latest = putters.iter().flat_map(|putter| {
            (putter.begun.saturating_sub(wanted)..putter.begun).map(|number| putter.key(number))
        });
        let places = BlockPlaces::find(self.client, latest.collect());
        let (memory, disk) = (places.memory.len(), places.disk.len());
        report.notes.push(format!(
            "of the latest {} blocks {memory} lay in memory and {disk} on the disk alone",
            places.all.len()
        ));
        for (name, keys) in [(MEMORY, &places.memory), (DISK, &places.disk), (ALL, &places.all)] {
            if (keys.len() as u64) < load.depth {
                report.warnings.push(format!("{name}: too few blocks lie there for one call"));
                continue;
            }
            let worker = |_| GetWorker::new(self.client, keys, self.bytes, load.depth);
            let mut workers: Vec<_> = (0..load.threads).map(worker).collect();
            let taken = drive(&mut workers, &load.span, self.stop)?.into();
            self.note(name, &taken, report);
        }
        Ok(())
    }

    fn note(&self, name: &'static str, taken: &Taken, report: &mut Report) {
        let row = Row::of(&cell(name, self.bytes, self.settings), taken);
        report.figures.push(Figure::rate(&row));
        report.rows.push(row);
    }
}

/// Where blocks lie.
#[derive(Default)]
struct BlockPlaces {
    memory: Vec<String>,
    disk: Vec<String>,
    /// Both.
    all: Vec<String>,
}

impl BlockPlaces {
    /// Of keys in the order in which they were put; what is nowhere is left out.
    fn find(client: &Store, keys: Vec<String>) -> Self {
        let mut places = Self::default();
        for key in keys {
            let found = client.replicas(&[&key]).remove(0).unwrap_or_default();
            let on_disk = found.iter().filter(|it| it.kind == Some(SegmentKind::Disk)).count();
            match on_disk {
                _ if found.is_empty() => continue,
                all if all == found.len() => places.disk.push(key.clone()),
                _ => places.memory.push(key.clone()),
            }
            places.all.push(key);
        }
        places
    }
}

/// One thread that puts new blocks.
struct Putter<'a> {
    store: &'a Store,
    thread: u64,
    bytes: u64,
    depth: u64,
    payload: Vec<u8>,
    begun: u64,
}

impl<'a> Putter<'a> {
    fn new(store: &'a Store, thread: u64, bytes: u64, depth: u64) -> Self {
        let mut payload = vec![0; bytes as usize];
        content::fill(&mut payload, bytes);
        Self { store, thread, bytes, depth, payload, begun: 0 }
    }

    fn key(&self, number: u64) -> String {
        format!("tier-{}-{}-{number}", self.thread, self.bytes)
    }
}

impl Worker for Putter<'_> {
    /// The time of a call has that of waiting for room, as its user has it.
    fn step(&mut self, _wanted: u64) -> Result<Step, BenchError> {
        let mut keys: Vec<String> =
            (self.begun..self.begun + self.depth).map(|number| self.key(number)).collect();
        self.begun += self.depth;
        let place = self.payload.as_ptr() as usize;
        let pieces = [CallerRange::owned(place, self.payload.len())];
        let begun = Instant::now();
        while !keys.is_empty() {
            let requests: Vec<PutRequest<'_>> =
                keys.iter().map(|key| PutRequest { key, pieces: &pieces, group: None }).collect();
            let outcomes = self.store.put(&requests, &ReplicateConfig::default());
            let mut refused = Vec::new();
            for (key, status) in keys.into_iter().zip(outcomes) {
                match status {
                    Status::Ok | Status::ObjectAlreadyExists => {}
                    Status::NoAvailableHandle if begun.elapsed() < DISK_DEADLINE => {
                        refused.push(key);
                    }
                    status => return Err(BenchError::Outcome { call: "put", key, status }),
                }
            }
            keys = refused;
            if !keys.is_empty() {
                std::thread::sleep(TIER_LOOK);
            }
        }
        let took: Duration = begun.elapsed();
        Ok(Step { took, units: self.bytes * self.depth, corrupt: 0 })
    }
}
