//! The memory a client donates: segments, their server, and what the master knows of them.

use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use crate::host::random_identity;
use crate::limits::USABLE_STEP_BYTES;
use crate::ports::PortClaims;
use perigee_discovery::OwnAddress;
use perigee_memory::Segment;
use perigee_memory::segment::{Pages, Populate, SegmentOptions, SegmentWarning, ShortagePolicy};
use perigee_rdma::Rdma;
use perigee_rpc::{LentSegments, SegmentOffer};
use perigee_schemas::master::Unbacked;
use perigee_schemas::{Identity, SegmentKind};
use perigee_ssd::{Disk, DiskSpec};
use perigee_transfer::{SegmentServer, SegmentTable, ServerOptions};
use std::collections::BTreeSet;
use std::mem::{Discriminant, discriminant};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Segments of this process. The server starts with the first one.
#[derive(Debug)]
pub(crate) struct Donation {
    identity: Identity,
    name: String,
    host_id: String,
    protocol: String,
    address: OwnAddress,
    environment: StoreEnvironment,
    rdma: Option<Arc<Rdma>>,
    table: Arc<SegmentTable>,
    state: Mutex<DonationState>,
}

#[derive(Debug, Default)]
struct DonationState {
    server: Option<SegmentServer>,
    /// Ports that are kept while the client lives.
    claims: PortClaims,
    offers: Vec<SegmentOffer>,
    /// Mount requests that were begun; the last one's number.
    mounts: u64,
    /// Unmounted segments that stay readable until their grace is over.
    retiring: Vec<(Identity, Instant)>,
}

impl DonationState {
    /// In builds with debug assertions panics unless every segment on offer is served, once, and
    /// none of them retires.
    fn debug_check(&self, table: &SegmentTable) {
        if !cfg!(debug_assertions) {
            return;
        }
        let ids: BTreeSet<Identity> = self.offers.iter().map(|offer| offer.id).collect();
        assert_eq!(ids.len(), self.offers.len(), "a segment is offered once");
        for offer in &self.offers {
            match offer.kind {
                SegmentKind::Memory => {
                    let bytes = table.get(offer.id).map(|segment| segment.len() as u64);
                    assert_eq!(bytes, Some(offer.bytes), "what is offered is served whole");
                }
                SegmentKind::Disk => assert!(table.disk(offer.id).is_some(), "a disk is served"),
            }
        }
        let is_offered = |(id, _): &(Identity, Instant)| ids.contains(id);
        assert!(!self.retiring.iter().any(is_offered), "what retires is not offered");
        let is_mounted = self.mounts > 0 || self.offers.is_empty();
        assert!(is_mounted, "what is offered was to be mounted");
        let is_served = self.server.is_some() || self.offers.is_empty();
        assert!(is_served, "what is offered has a port where peers find it");
    }
}

impl Donation {
    pub(crate) fn new(
        identity: Identity,
        name: &str,
        host_id: &str,
        protocol: &str,
        address: OwnAddress,
        environment: &StoreEnvironment,
        rdma: Option<Arc<Rdma>>,
    ) -> Self {
        Self {
            identity,
            name: name.to_owned(),
            host_id: host_id.to_owned(),
            protocol: protocol.to_owned(),
            address,
            environment: environment.clone(),
            rdma,
            table: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// Keeps ports that were claimed; to be called before the first segment, whose server takes the
    /// data port.
    pub(crate) fn keep_ports(&self, claims: PortClaims) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert!(state.server.is_none(), "ports are kept before the server takes one");
        state.claims = claims;
    }

    /// Segments that this process can touch directly.
    pub(crate) fn table(&self) -> &Arc<SegmentTable> {
        &self.table
    }

    /// Allocates a segment, on a NUMA node if one is named, and begins to serve it. It comes with
    /// the number of the request that is to mount it.
    pub(crate) fn add(
        &self,
        bytes: u64,
        numa_node: Option<u32>,
    ) -> Result<(SegmentOffer, u64), StoreError> {
        let options = SegmentOptions {
            pages: if self.environment.huge_pages {
                Pages::Hugetlb(self.environment.huge_page_bytes)
            } else {
                Pages::Transparent
            },
            numa_node: numa_node.or(self.environment.numa_node),
            populate: Populate::Ahead,
            shortage: if self.environment.strict_segment {
                ShortagePolicy::Refuse
            } else {
                ShortagePolicy::Cut
            },
        };
        self.offer(Segment::create(bytes, &options)?, self.rendezvous())
    }

    /// Begins to serve a range of a file. As [`Donation::add`].
    pub(crate) fn add_file(
        &self,
        path: &Path,
        offset: u64,
        bytes: u64,
        numa_node: Option<u32>,
    ) -> Result<(SegmentOffer, u64), StoreError> {
        // Clients on this host cannot map it, so they are not to ask.
        self.offer(Segment::of_file(path, offset, bytes, numa_node)?, String::new())
    }

    fn offer(
        &self,
        segment: Segment,
        rendezvous: String,
    ) -> Result<(SegmentOffer, u64), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        warn_once(segment.warnings());
        let endpoint = self.serve(&mut state)?;
        let offer = SegmentOffer {
            id: random_identity()?,
            bytes: segment.len() as u64,
            base: segment.base() as u64,
            name: self.name.clone(),
            endpoint,
            host_id: self.host_id.clone(),
            rendezvous,
            protocol: self.protocol.clone(),
            kind: SegmentKind::Memory,
        };
        let segment = Arc::new(segment);
        self.table.insert(offer.id, segment.clone());
        if let Some(rdma) = &self.rdma {
            rdma.serve(offer.id, &segment);
        }
        state.offers.push(offer.clone());
        state.mounts += 1;
        state.debug_check(&self.table);
        if let Some(server) = &state.server {
            server.extend_sharing();
        }
        Ok((offer, state.mounts))
    }

    /// Begins to serve a disk. As [`Donation::add`].
    pub(crate) fn add_disk(
        &self,
        spec: &DiskSpec,
        disk: Disk,
    ) -> Result<(SegmentOffer, u64), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let endpoint = self.serve(&mut state)?;
        if let Some(rdma) = &self.rdma {
            rdma.serve_stage(spec.id, disk.stage_memory());
        }
        self.table.insert_disk(spec.id, disk);
        let offer = SegmentOffer {
            id: spec.id,
            bytes: spec.capacity_bytes,
            base: 0,
            name: self.name.clone(),
            endpoint,
            host_id: self.host_id.clone(),
            // Its bytes are read by its owner only.
            rendezvous: String::new(),
            protocol: self.protocol.clone(),
            kind: SegmentKind::Disk,
        };
        state.offers.push(offer.clone());
        state.mounts += 1;
        state.debug_check(&self.table);
        Ok((offer, state.mounts))
    }

    /// Takes a segment or a disk out: no new transfer finds it.
    pub(crate) fn remove(&self, id: Identity) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.offers.retain(|offer| offer.id != id);
        if let Some(rdma) = &self.rdma {
            rdma.withdraw(id);
        }
        self.table.remove(id);
        self.table.remove_disk(id);
        state.debug_check(&self.table);
        if let Some(server) = &state.server {
            server.withdraw_sharing();
        }
    }

    /// Takes a segment out when its grace is over; until then it is read, but not mounted again.
    pub(crate) fn retire(&self, id: Identity, grace: Duration) {
        if grace.is_zero() {
            return self.remove(id);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.offers.retain(|offer| offer.id != id);
        if let Some(due) = Instant::now().checked_add(grace) {
            state.retiring.push((id, due));
        }
        state.debug_check(&self.table);
    }

    /// Gives the memory of segments back whose grace is over.
    pub(crate) fn give_back_due(&self, now: Instant) {
        let due: Vec<Identity> = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let due = state.retiring.extract_if(.., |(_, due)| *due <= now);
            due.map(|(id, _)| id).collect()
        };
        for id in due {
            self.remove(id);
        }
    }

    /// Name of this client.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Protocol that is shown to users.
    pub(crate) fn protocol(&self) -> &str {
        &self.protocol
    }

    /// What is on offer.
    pub(crate) fn offers(&self) -> Vec<SegmentOffer> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.offers.clone()
    }

    /// Bytes of memory on offer.
    pub(crate) fn lent_bytes(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = state.offers.iter().filter(|offer| offer.kind == SegmentKind::Memory);
        memory.map(|offer| offer.bytes).sum()
    }

    /// What is on offer, with the number of the request that mounts it all again. A master that
    /// does not know disks would take them for memory.
    pub(crate) fn offers_again(&self, with_disks: bool) -> (Vec<SegmentOffer>, u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.mounts += 1;
        let mut offers = state.offers.clone();
        offers.retain(|offer| with_disks || offer.kind == SegmentKind::Memory);
        (offers, state.mounts)
    }

    /// The disks on offer, with the number of the request that mounts them.
    pub(crate) fn disk_offers(&self) -> (Vec<SegmentOffer>, u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.mounts += 1;
        let disks = state.offers.iter().filter(|offer| offer.kind == SegmentKind::Disk);
        (disks.cloned().collect(), state.mounts)
    }

    /// What the master is to know of this client.
    pub(crate) fn holdings(&self) -> LentSegments {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let usable_bytes = |offer: &SegmentOffer| {
            let segment = self.table.get(offer.id);
            let usable = segment.map_or(offer.bytes, |segment| segment.usable_bytes());
            // In steps: what the container has left changes all the time.
            match usable < offer.bytes {
                true => usable - usable % USABLE_STEP_BYTES,
                false => offer.bytes,
            }
        };
        let unbacked = (0..).zip(&state.offers).flat_map(|(position, offer)| {
            let ranges = self.table.get(offer.id).map(|segment| segment.unbacked());
            ranges
                .into_iter()
                .flatten()
                .map(move |range| Unbacked::new(position, range.start, range.end - range.start))
        });
        LentSegments {
            unbacked: unbacked.collect(),
            segments: state.offers.iter().map(|offer| offer.id).collect(),
            usable_bytes: state.offers.iter().map(usable_bytes).collect(),
            mounts: state.mounts,
            disks: Vec::new(),
        }
    }

    /// Whether a segment is on offer.
    pub(crate) fn offers_segment(&self, id: Identity) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.offers.iter().any(|offer| offer.id == id)
    }

    /// Host and port under which peers reach the data port, if anything is served.
    pub(crate) fn endpoint(&self) -> Option<(String, u16)> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let server = state.server.as_ref()?;
        Some((self.address.announced.to_string(), server.address().port()))
    }

    /// Ends the server and gives all memory back.
    pub(crate) fn stop(&self) {
        let state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        for offer in &state.offers {
            self.table.remove(offer.id);
            self.table.remove_disk(offer.id);
        }
        for (id, _) in &state.retiring {
            self.table.remove(*id);
        }
        if let Some(server) = state.server {
            server.stop();
        }
    }

    /// The endpoint of the running server, started if need be.
    fn serve(&self, state: &mut DonationState) -> Result<String, StoreError> {
        if state.server.is_none() {
            let options = ServerOptions {
                address: SocketAddr::new(self.address.listen, state.claims.data_port()),
                shards: self.environment.data_shards,
                cpus: self.environment.data_cpus.clone(),
                poll: self.environment.poll,
                congestion: self.environment.congestion.clone(),
                rendezvous: Some(self.rendezvous()).filter(|name| !name.is_empty()),
                identity: self.identity,
                rdma: self.rdma.clone(),
            };
            state.server = Some(SegmentServer::start(&options, &self.table)?);
        }
        let port = state.server.as_ref().map_or(0, |server| server.address().port());
        Ok(SocketAddr::new(self.address.announced, port).to_string())
    }

    fn rendezvous(&self) -> String {
        if self.environment.routes.shared_memory {
            format!("perigee-{}", self.identity)
        } else {
            String::new()
        }
    }
}

/// Logs each kind of warning once per process: they tell about the host, not about one store.
fn warn_once(warnings: &[SegmentWarning]) {
    static WARNED: Mutex<Vec<Discriminant<SegmentWarning>>> = Mutex::new(Vec::new());
    let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
    for warning in warnings {
        let kind = discriminant(warning);
        if !warned.contains(&kind) {
            warned.push(kind);
            tracing::warn!("{warning}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn donation() -> Donation {
        let environment = StoreEnvironment::from_variables(|_| None).unwrap();
        let identity = random_identity().unwrap();
        let address = OwnAddress::find("127.0.0.1", &[], &environment.discovery);
        Donation::new(identity, "127.0.0.1:1", "host", "tcp", address, &environment, None)
    }

    #[test]
    fn a_retired_segment_is_kept_for_its_grace_and_not_mounted_again() {
        let donation = donation();
        let id = donation.add(1 << 20, None).unwrap().0.id;
        let before = Instant::now();
        donation.retire(id, Duration::from_secs(60));
        assert!(donation.offers().is_empty());
        donation.give_back_due(before);
        assert_eq!(donation.table().list().len(), 1);
        donation.give_back_due(Instant::now() + Duration::from_secs(60));
        assert!(donation.table().list().is_empty());
        donation.stop();
    }
}
