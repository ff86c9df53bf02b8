//! Clients and segments: who is alive and what it donates.
//! Invariant: a client is its random identity, never its host or port, so two clients of one name
//! are two clients.

mod addresses;
mod check;
mod client;
mod client_state;
mod confirm;
mod disk_report;
mod disks;
mod drain;
mod drain_request;
mod expire;
mod held_segments;
mod holdings;
mod jobs;
mod mounted;
mod remembered;
mod segment_state;
mod task;
mod tasks;
#[cfg(test)]
mod tests;

pub use client_state::ClientState;
pub use disk_report::DiskReport;
pub use drain_request::DrainJobRequest;
pub use held_segments::ListedSegments;
pub use jobs::{DrainJob, JobState};
pub use segment_state::{SegmentState, SegmentView};
pub use tasks::{TaskKind, TaskRecord, TaskSettings, TaskState};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use perigee_schemas::{DiskHealth, SegmentKind, Status};

use crate::generations::EPOCH_SHIFT;
use crate::limits::{ATTENTION_MS, CLIENTS_MAX, GRACE_MS_MAX, SEGMENTS_MAX};
use crate::segment::{SegmentEvent, SegmentSpec};
use client_state::Client;
use jobs::Jobs;
use perigee_schemas::limits::SEGMENT_BYTES_MAX;
use segment_state::{Mounted, Occupancy};
use tasks::TaskTable;

/// Settings of the registry.
#[derive(Debug, Clone)]
pub struct RegistrySettings {
    /// Milliseconds without a heartbeat after which a client is forgotten; pauses of the master do
    /// not count.
    pub client_ttl_ms: u64,
    /// Segments take objects only when their owner has said at their endpoint that they are there.
    /// Without it they do at once.
    pub confirms: bool,
    /// Disks may be mounted; otherwise clients keep theirs for themselves.
    pub takes_disks: bool,
    /// Copies and moves of single objects.
    pub tasks: TaskSettings,
    /// First generation of the shards.
    pub generation_base: u64,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            client_ttl_ms: 10_000,
            confirms: false,
            takes_disks: true,
            tasks: TaskSettings::default(),
            generation_base: 1,
        }
    }
}

/// The members of the cluster. What it decides comes out as events that every shard must apply in
/// order.
#[derive(Debug)]
pub struct Registry {
    settings: RegistrySettings,
    now_ms: u64,
    /// Time during which this master received no heartbeat because it was paused itself.
    missed_ms: u64,
    clients: BTreeMap<u128, Client>,
    segments: BTreeMap<u32, Mounted>,
    index_by_id: BTreeMap<u128, u32>,
    next_index: u32,
    /// High bits of the generations that are given.
    epoch: u64,
    events: Vec<SegmentEvent>,
    jobs: Jobs,
    tasks: TaskTable,
    /// Clients that have copies for repairs in hand, or are to take some.
    repairers: BTreeSet<u128>,
}

impl Registry {
    /// A registry without clients.
    pub fn new(settings: RegistrySettings) -> Self {
        Self {
            now_ms: 0,
            missed_ms: 0,
            clients: BTreeMap::new(),
            segments: BTreeMap::new(),
            index_by_id: BTreeMap::new(),
            next_index: 0,
            epoch: settings.generation_base >> EPOCH_SHIFT,
            events: Vec::new(),
            jobs: Jobs::default(),
            tasks: TaskTable::default(),
            repairers: BTreeSet::new(),
            settings,
        }
    }

    /// Mounts a segment of `spec.client`, which makes that client known and alive. Returns the
    /// segment's number.
    ///
    /// Mounting the same segment again is fine. A client at the same data endpoint of the same host
    /// under another identity is the dead predecessor of this one once this one has answered there,
    /// because an endpoint has one listener: its segments are unmounted then. Segments of the same
    /// name elsewhere stay.
    ///
    /// # Errors
    /// `InvalidParams`: no bytes or too many, no name, texts that are too long, or too many
    /// segments or clients; `UnavailableInCurrentStatus`: the identity is mounted by another client
    /// or is being unmounted.
    pub fn mount(&mut self, now_ms: u64, spec: SegmentSpec) -> Result<u32, Status> {
        self.advance(now_ms);
        if !(1..=SEGMENT_BYTES_MAX).contains(&spec.bytes)
            || spec.name.is_empty()
            || !spec.is_short()
        {
            return Err(Status::InvalidParams);
        }
        if spec.kind == SegmentKind::Disk && !self.settings.takes_disks {
            return Err(Status::UnavailableInCurrentMode);
        }
        if let Some(&index) = self.index_by_id.get(&spec.id) {
            return self.mount_again(index, &spec);
        }
        let is_waiting = self.settings.confirms;
        if is_waiting {
            self.make_room_for_unconfirmed();
        }
        let is_full = self.segments.len() >= SEGMENTS_MAX || self.next_index == u32::MAX;
        if is_full || !self.has_share(spec.client) {
            return Err(Status::InvalidParams);
        }
        self.admit(spec.client)?;
        if !is_waiting {
            self.bury_predecessors(&spec);
        }
        let index = self.next_index;
        debug_assert!(!self.segments.contains_key(&index), "a number is given once");
        self.next_index += 1;
        let spec = Arc::new(spec);
        self.index_by_id.insert(spec.id, index);
        self.segments.insert(
            index,
            Mounted {
                usable_bytes: spec.bytes,
                unbacked: Arc::default(),
                spec: Arc::clone(&spec),
                mount_number: 0,
                drain_end_ms: None,
                occupancy: Occupancy::Open,
                health: DiskHealth::Healthy,
                is_confirmed: !is_waiting,
                asked_ms: None,
            },
        );
        if let Some(owner) = self.clients.get_mut(&spec.client) {
            owner.segments.push(index);
        }
        self.events.push(SegmentEvent::Mounted { index, spec });
        if is_waiting {
            self.events.push(SegmentEvent::Draining { index });
        }
        Ok(index)
    }

    /// Makes a client known (again) together with its segments, of which there may be none. One
    /// result per segment.
    ///
    /// # Errors
    /// `InvalidParams` if there are too many clients.
    pub fn remount(
        &mut self,
        now_ms: u64,
        client: u128,
        specs: impl IntoIterator<Item = SegmentSpec>,
    ) -> Result<Vec<Result<u32, Status>>, Status> {
        self.advance(now_ms);
        self.admit(client)?;
        let mount = |spec: SegmentSpec| match spec.client == client {
            true => self.mount(now_ms, spec),
            false => Err(Status::IllegalClient),
        };
        Ok(specs.into_iter().map(mount).collect())
    }

    /// A client has heard of this generation in another life of the master: all that are given from
    /// now on are larger.
    pub fn raise_generations(&mut self, generation: u64) {
        let epoch = (generation >> EPOCH_SHIFT).saturating_add(1);
        if generation > 0 && epoch > self.epoch {
            self.epoch = epoch;
            // A life that begins in that epoch counts from a place of its own, and so does this.
            let place = self.settings.generation_base & ((1 << EPOCH_SHIFT) - 1);
            let generation = epoch.min(u64::MAX >> EPOCH_SHIFT) << EPOCH_SHIFT | place;
            self.events.push(SegmentEvent::Raised { generation });
        }
    }

    /// Unmounts a segment; its replicas vanish at once.
    ///
    /// # Errors
    /// `SegmentNotFound`, or `IllegalClient` for a segment of another client.
    pub fn unmount(&mut self, now_ms: u64, client: u128, id: u128) -> Result<(), Status> {
        self.advance(now_ms);
        let index = self.own_segment(client, id)?;
        self.forget_segment(index);
        Ok(())
    }

    /// Unmounts a segment after `grace_ms`; until then it is readable but takes no new objects. A
    /// second call may bring the end forward but not put it off.
    ///
    /// # Errors
    /// As `unmount`.
    pub fn drain(
        &mut self,
        now_ms: u64,
        client: u128,
        id: u128,
        grace_ms: u64,
    ) -> Result<(), Status> {
        self.advance(now_ms);
        let index = self.own_segment(client, id)?;
        if grace_ms == 0 {
            self.forget_segment(index);
            return Ok(());
        }
        let end_ms = self.now_ms.saturating_add(grace_ms.min(GRACE_MS_MAX));
        if let Some(mounted) = self.segments.get_mut(&index) {
            if mounted.drain_end_ms.is_none() {
                self.events.push(SegmentEvent::Draining { index });
            }
            mounted.drain_end_ms = Some(mounted.drain_end_ms.unwrap_or(end_ms).min(end_ms));
        }
        Ok(())
    }

    /// What happened since the last call, to be applied to every shard in this order.
    pub fn take_events(&mut self) -> Vec<SegmentEvent> {
        std::mem::take(&mut self.events)
    }

    /// Notes the time. While the master runs, at most [`ATTENTION_MS`] pass between two calls. A
    /// longer gap means the master itself was paused and messages are still unread; it does not
    /// count as client silence.
    fn advance(&mut self, now_ms: u64) {
        let gap_ms = now_ms.saturating_sub(self.now_ms);
        self.missed_ms += gap_ms.saturating_sub(ATTENTION_MS);
        self.now_ms += gap_ms;
    }

    /// Time that only passes while the master can hear its clients; what their silence is measured
    /// in. Leases, graces and deadlines run in real time, because others count on them while the
    /// master is stopped.
    fn heard_ms(&self) -> u64 {
        debug_assert!(self.missed_ms <= self.now_ms);
        self.now_ms - self.missed_ms
    }

    fn mount_again(&mut self, index: u32, spec: &SegmentSpec) -> Result<u32, Status> {
        let same = self.segments.get(&index).is_some_and(|mounted| {
            mounted.spec.client == spec.client
                && mounted.spec.bytes == spec.bytes
                && mounted.drain_end_ms.is_none()
        });
        if !same {
            return Err(Status::UnavailableInCurrentStatus);
        }
        self.admit(spec.client)?;
        Ok(index)
    }

    /// Notes a heartbeat of a client, known or new.
    fn admit(&mut self, client: u128) -> Result<(), Status> {
        if self.clients.len() >= CLIENTS_MAX && !self.clients.contains_key(&client) {
            return Err(Status::InvalidParams);
        }
        let heard_ms = self.heard_ms();
        self.clients.entry(client).or_default().heard_ms = heard_ms;
        Ok(())
    }

    fn own_segment(&self, client: u128, id: u128) -> Result<u32, Status> {
        let index = *self.index_by_id.get(&id).ok_or(Status::SegmentNotFound)?;
        let own = self.segments.get(&index).is_some_and(|mounted| mounted.spec.client == client);
        if own { Ok(index) } else { Err(Status::IllegalClient) }
    }

    fn forget_segment(&mut self, index: u32) {
        if let Some(mounted) = self.segments.remove(&index) {
            let known = self.index_by_id.remove(&mounted.spec.id);
            debug_assert_eq!(known, Some(index), "its identity led to it");
            if let Some(owner) = self.clients.get_mut(&mounted.spec.client) {
                owner.segments.retain(|own| *own != index);
            }
            self.events.push(SegmentEvent::Unmounted { index });
        }
    }
}
