//! Calls about clients and segments: they change the registry on the first shard, and every shard
//! applies the events before the caller hears of it.

use super::control_shard::ControlShard;
use perigee_master::{
    ClientState, DiskReport, Extent, ListedSegments, Registry, SegmentEvent, SegmentSpec,
};
use perigee_schemas::{Identity, Status};
use perigee_shard::{Environment, Post};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Answer to a heartbeat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PingAnswer {
    /// The client must mount again.
    pub(crate) must_mount: bool,
    /// The client is to ask for moves.
    pub(crate) has_moves: bool,
    /// The client is to ask for demotions and tombstones.
    pub(crate) has_disk_work: bool,
    /// What is read from its disks may be moved to memory.
    pub(crate) promotes: bool,
}

/// The client's segments, as its heartbeat reports them.
pub(crate) struct BeatReport {
    pub(crate) segments: Vec<u128>,
    /// What it has memory for.
    pub(crate) usable_bytes: Vec<u64>,
    /// What it has no memory for, by position in the list.
    pub(crate) unbacked: Vec<(u32, Extent)>,
    /// How many mount requests are in the list; an older client says 0 and tells nothing.
    pub(crate) mounts: u64,
    pub(crate) disks: Vec<DiskReport>,
}

/// Request of a client to mount segments.
pub(crate) struct MountRequest {
    pub(crate) segments: Vec<SegmentSpec>,
    /// The client answers a request to mount again.
    pub(crate) is_remount: bool,
    /// Number of the request among those of the client; 0 from one that does not count.
    pub(crate) number: u64,
    /// Largest generation of another life of the master that the client has heard of.
    pub(crate) generation: u64,
}

impl<E: Environment> ControlShard<E> {
    /// Mounts segments of a client from this address; one code per segment. Then the client is
    /// asked at its endpoint whether it is there.
    pub(crate) async fn mount(
        &self,
        client: Identity,
        address: Option<IpAddr>,
        request: MountRequest,
    ) -> Vec<i32> {
        let MountRequest { segments, is_remount, number, generation } = request;
        let count = segments.len();
        let gone = self.gone_owners(client, &segments).await;
        let change = move |registry: &mut Registry, now: u64| {
            // With the mount in one step: what only a disk has is at no time unknown and not
            // waited for.
            gone.iter().for_each(|(owner, disk)| registry.forget_owner(now, *owner, *disk));
            let code = |result: Result<u32, Status>| result.map_or_else(Status::code, |_| 0);
            if let Some(Err(status)) = address.map(|from| registry.arrive(now, client.0, from)) {
                return vec![status.code(); count];
            }
            registry.raise_generations(generation);
            let ids: Vec<u128> = segments.iter().map(|spec| spec.id).collect();
            // A client without segments makes itself known by an empty remount.
            let codes = if is_remount || segments.is_empty() {
                match registry.remount(now, client.0, segments) {
                    Ok(results) => results.into_iter().map(code).collect(),
                    Err(status) => vec![status.code(); count],
                }
            } else {
                let mount = |spec| code(registry.mount(now, spec));
                segments.into_iter().map(mount).collect()
            };
            debug_assert_eq!(codes.len(), count, "one code per segment");
            registry.number_mounts(client.0, &ids, number);
            codes
        };
        let codes = self.change_registry(change).await;
        self.confirm_segments(client).await;
        codes.unwrap_or_else(|| vec![Status::InternalError.code(); count])
    }

    /// Unmounts segments, after `grace_ms` if that is not 0; one code per segment.
    pub(crate) async fn unmount(
        &self,
        client: Identity,
        segments: Vec<Identity>,
        grace_ms: u64,
    ) -> Vec<i32> {
        let count = segments.len();
        let change = move |registry: &mut Registry, now: u64| {
            let one = |id: Identity| match grace_ms {
                0 => registry.unmount(now, client.0, id.0),
                grace_ms => registry.drain(now, client.0, id.0, grace_ms),
            };
            let results = segments.into_iter().map(one);
            results.map(|result| result.map_or_else(Status::code, |()| 0)).collect::<Vec<_>>()
        };
        self.change_registry(change)
            .await
            .unwrap_or_else(|| vec![Status::InternalError.code(); count])
    }

    /// A heartbeat.
    pub(crate) async fn ping(&self, client: Identity, beat: BeatReport) -> Option<PingAnswer> {
        let BeatReport { segments, usable_bytes, unbacked, mounts, disks } = beat;
        let change = move |registry: &mut Registry, now: u64| {
            let mut state = registry.ping(now, client.0);
            // Who is not known mounts again and tells it then.
            let _ = registry.note_disks(client.0, disks);
            if state == ClientState::Ok && mounts > 0 {
                let holdings = ListedSegments {
                    segments: &segments,
                    usable_bytes: &usable_bytes,
                    unbacked: &unbacked,
                    mounts,
                };
                state = registry.agree(client.0, &holdings);
            }
            let pong = PingAnswer {
                must_mount: state != ClientState::Ok,
                has_moves: registry.has_moves(client.0),
                has_disk_work: false,
                promotes: false,
            };
            (pong, registry.has_disks(client.0))
        };
        let (mut pong, has_disks) = self.change_registry(change).await?;
        if has_disks {
            let (has_work, has_moves) = self.disk_work(client).await;
            pong.has_disk_work = has_work;
            pong.promotes = self.keys.borrow().promotes();
            pong.has_moves |= has_moves;
        }
        self.confirm_segments(client).await;
        Some(pong)
    }

    /// A client leaves: all its segments go at once.
    pub(crate) async fn leave(&self, client: Identity) {
        self.change_registry(move |registry, now| registry.leave(now, client.0)).await;
    }

    /// Ends clients that were silent for too long. Runs on the first shard.
    pub(crate) fn expire_clients(&self) {
        let Some(registry) = &self.registry else {
            return;
        };
        let gone = registry.borrow_mut().tick(self.now_ms());
        let events = registry.borrow_mut().take_events();
        if !gone.is_empty() {
            self.expired.set(self.expired.get() + gone.len() as u64);
            self.report_expired(&gone, &events);
        }
        self.apply_everywhere(events);
    }

    /// Names the segments that go with each expired client, before the shards forget them. The
    /// cleanup gets only names that no mounted segment has: a client that was restarted at once
    /// reuses its predecessor's.
    fn report_expired(&self, clients: &[u128], events: &[SegmentEvent]) {
        let keys = self.keys.borrow();
        let mut gone: BTreeMap<u128, Vec<&str>> = clients.iter().map(|it| (*it, vec![])).collect();
        let mut peers = BTreeMap::new();
        for event in events {
            if let SegmentEvent::Unmounted { index } = event
                && let Some(spec) = keys.segment(*index)
                && let Some(names) = gone.get_mut(&spec.client)
            {
                names.push(&spec.name);
                peers.insert(spec.client, spec.peer);
            }
        }
        for (client, segments) in &gone {
            let peer = peers.get(client).copied().flatten();
            if let Some(left_out) = self.log_line(peer) {
                tracing::warn!(client = %Identity(*client), ?segments, left_out, "Client stopped pinging; it is expired");
            }
        }
        let (Some(listener), Some(registry)) = (&self.expiry_listener, &self.registry) else {
            return;
        };
        let registry = registry.borrow();
        let is_free = |name: &&str| registry.segments_by_name(name).next().is_none();
        let names: BTreeSet<&str> = gone.into_values().flatten().filter(is_free).collect();
        let _ = listener.send(names.into_iter().map(str::to_owned).collect());
    }

    /// Tells of segments that go or come back, before this shard forgets their names.
    fn report_changes(&self, events: &[SegmentEvent]) {
        let keys = self.keys.borrow();
        for event in events {
            let (index, what) = match event {
                SegmentEvent::Unmounted { index } => (*index, "Unmounting a segment"),
                SegmentEvent::Draining { index } => (*index, "Draining a segment"),
                SegmentEvent::Resumed { index } => (*index, "A segment takes objects"),
                SegmentEvent::Mounted { .. }
                | SegmentEvent::Raised { .. }
                | SegmentEvent::Usable { .. }
                | SegmentEvent::Health { .. }
                | SegmentEvent::Unbacked { .. }
                | SegmentEvent::Recycled { .. } => continue,
            };
            if let Some(spec) = keys.segment(index)
                && let Some(left_out) = self.log_line(spec.peer)
            {
                let (client, peer) = (Identity(spec.client), spec.peer);
                tracing::info!(segment = spec.name, %client, ?peer, left_out, "{what}");
            }
        }
    }

    /// Runs `change` on the first shard's registry; when it returns, every shard has applied the
    /// events.
    pub(super) async fn change_registry<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Registry, u64) -> R + Send + 'static,
    ) -> Option<R> {
        let change = move |first: &Self| {
            let result = change(&mut first.registry.as_ref()?.borrow_mut(), first.now_ms());
            Some((result, first.publish_events()))
        };
        let (result, has_events) = match self.registry {
            Some(_) => change(self)?,
            None => self.on(0, change).await.flatten().flatten()?,
        };
        if has_events {
            self.wait_for_all().await;
        }
        Some(result)
    }

    /// Has every shard apply what the registry decided; whether that was anything. Runs on the
    /// first shard, which alone posts events: so every shard gets them in the order in which they
    /// happened.
    pub(super) fn publish_events(&self) -> bool {
        let events = self
            .registry
            .as_ref()
            .map(|registry| registry.borrow_mut().take_events())
            .unwrap_or_default();
        self.apply_everywhere(events)
    }

    fn apply_everywhere(&self, events: Vec<SegmentEvent>) -> bool {
        if events.is_empty() {
            return false;
        }
        debug_assert!(self.registry.is_some(), "events come from one shard, in their order");
        self.report_changes(&events);
        for (index, member) in self.members().iter().enumerate() {
            if index != self.index {
                let (name, events) = (member.name, events.clone());
                member.mailbox.post(Box::new(move |theirs: &E| {
                    if let Some(shard) = theirs.local(name) {
                        shard.apply(&events);
                    }
                }));
            }
        }
        self.apply(&events);
        true
    }

    /// Resolves when every shard has run what was posted to it before.
    async fn wait_for_all(&self) {
        let asked: Vec<_> = (0..self.members().len())
            .filter(|index| *index != self.index)
            .map(|index| self.on(index, |_| ()))
            .collect();
        for answer in asked {
            answer.await;
        }
    }
}
