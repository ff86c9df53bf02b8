//! Moving objects for a client: each place by its nearest route, remote ones together in one batch.
//!
//! Copies in mapped memory and from this process's disks run on the caller's thread while the
//! shards move what goes over TCP.

mod completion_wait;
mod disk_jobs;
mod far;
mod job;
mod outcome;
mod promotion;
mod rail_batch;
mod rail_job;
mod rail_route;
mod shard_client;
mod staged_job;
mod staged_jobs;
mod tcp_route;

pub use job::{ReadJob, WriteJob};
pub use promotion::PromotionJob;
pub use shard_client::{SegmentClient, SubmittedJobs};

use crate::activity::record_copy;
use crate::client::{Content, FarJob, TcpOptions};
use crate::error::TransferError;
use crate::extent::MappedExtent;
use crate::limits::COPIED_UNASKED_MAX;
use crate::place::ReplicaAddress;
use crate::range::{Cover, RangeJob};
use crate::route::{NearMemory, Observer, Routes};
use crate::segments::SegmentTable;
use far::{FarRoutes, RemoteBatch};
use job::ObjectJob;
use outcome::Outcome;
use perigee_memory::ByteRangeMut;
use perigee_memory::segment::Exhausted;
use perigee_memory::shared::Guest;
use perigee_mover::PeerError;
use perigee_rdma::Rdma;
use perigee_schemas::extent::extent_bytes;
use perigee_schemas::{Direction, Identity, Route};
use perigee_shard::{Congestion, monotonic, poll_interruption};
use promotion::Promoter;
use std::sync::Arc;
use std::time::Duration;
use tcp_route::TcpRoute;

/// How an engine works.
#[derive(Clone, Debug)]
pub struct ObjectEngineOptions {
    /// Random identity of the client.
    pub identity: Identity,
    /// Identity of this host.
    pub host_id: String,
    /// Allowed routes.
    pub routes: Routes,
    /// Shards that move slices over TCP; started with the first such transfer.
    pub shards: usize,
    /// Longest a slice may take.
    pub deadline: Duration,
    /// Congestion control of data connections.
    pub congestion: Congestion,
    /// Whose bytes are moved, where measurements name it; empty where there are no tenants.
    pub tenant: Arc<str>,
    /// Taken before TCP.
    pub rdma: Option<Arc<Rdma>>,
    /// Who counts.
    pub observer: Arc<dyn Observer>,
}

/// Transfers of one client. Shared by all its threads.
#[derive(Debug)]
pub struct ObjectEngine {
    options: ObjectEngineOptions,
    own: Arc<SegmentTable>,
    guest: Guest,
    tcp: TcpRoute,
}

impl ObjectEngine {
    /// An engine that also reaches this process's own segments.
    pub fn new(options: ObjectEngineOptions, own: Arc<SegmentTable>) -> Self {
        // The agent of this host finds the process, and watches its shards, before it moves
        // anything itself: the memory of a node on the same host is read and written by its
        // clients.
        perigee_activity::page();
        let tcp = TcpRoute::new(TcpOptions {
            identity: options.identity,
            shards: options.shards,
            deadline: options.deadline,
            congestion: options.congestion.clone(),
            tenant: options.tenant.clone(),
        });
        Self { options, own, guest: Guest::default(), tcp }
    }

    /// Writes objects; the outcome of each is the CRC-32C of its payload.
    ///
    /// # Safety
    /// The pieces must be valid for reads and unchanged until the call returns.
    pub unsafe fn write(&self, jobs: &[WriteJob<'_>]) -> Outcome<u32> {
        self.carry_out(jobs)
    }

    /// Whether a place lies on a disk of this process.
    pub fn has_disk_of(&self, place: &ReplicaAddress) -> bool {
        !place.is_in_memory() && self.own.disk(place.segment.id).is_some()
    }

    /// Copies objects from disks of this process to other places.
    pub fn promote(&self, jobs: &[PromotionJob<'_>]) -> Outcome<()> {
        // SAFETY: what was read stays as it is until it was written.
        let write = |writes: &[WriteJob<'_>]| unsafe { self.write(writes) };
        Promoter { own: &self.own, write }.promote(jobs)
    }

    /// Reads objects whole and checks them.
    ///
    /// # Safety
    /// The pieces must be valid for writes and not used by others until the call returns.
    pub unsafe fn read(&self, jobs: &[ReadJob<'_>]) -> Outcome<()> {
        let outcome = self.carry_out(jobs);
        outcome.into_iter().map(|found| found.map(drop)).collect()
    }

    /// Moves whole objects: those that are near on this thread, while the shards move the others.
    fn carry_out<J: ObjectJob>(&self, jobs: &[J]) -> Outcome<u32> {
        let start = monotonic();
        let reaches: Vec<_> = jobs.iter().map(|job| self.reach(job.place(), job.bytes())).collect();
        let far = jobs.iter().zip(&reaches).filter(|(_, reach)| is_far(reach));
        let remote: Vec<FarJob> = far.map(|(job, _)| job.far_job()).collect();
        let under_way = self.begin_remote(&remote);
        let mut copied = 0;
        let near = jobs.iter().zip(&reaches).map(|(job, reach)| match reach {
            Ok(Some(_)) if breaks_off(&mut copied, job.bytes()) => Err(PeerError::Canceled.into()),
            Ok(Some(reach)) => job.in_memory(extent(reach, job.place())?),
            Ok(None) => Ok(0),
            Err(error) => Err(error.clone()),
        });
        let mut outcome: Outcome<u32> = near.collect();
        let mut routes = near_routes(&reaches);
        let landed = under_way.wait();
        // A slot that nothing landed in would tell of bytes that never moved.
        assert_eq!(landed.len(), remote.len(), "one outcome per far job");
        let slots = outcome.iter_mut().zip(jobs).zip(&mut routes).zip(&reaches);
        let slots = slots.filter(|(_, reach)| is_far(reach));
        for ((((slot, job), route), _), (taken, result)) in slots.zip(landed) {
            *slot = result.and_then(|found| job.judge(found));
            *route = taken;
        }
        let bytes = jobs.iter().map(ObjectJob::bytes);
        self.report(J::DIRECTION, start, &routes, bytes, &outcome);
        outcome
    }

    fn begin_remote<'a>(&'a self, jobs: &'a [FarJob]) -> RemoteBatch<'a> {
        let routes = FarRoutes {
            own: self.options.routes.same_process.then_some(&*self.own),
            rdma: self.options.rdma.as_ref(),
            tcp: &self.tcp,
        };
        RemoteBatch::begin(&routes, jobs)
    }

    /// Reads ranges of objects; each covering block is checked.
    ///
    /// # Safety
    /// The targets must be valid for writes and not used by others until the call returns.
    pub unsafe fn read_ranges(&self, jobs: &[RangeJob<'_>]) -> Outcome<()> {
        let start = monotonic();
        let reaches: Vec<_> =
            jobs.iter().map(|job| self.reach(job.place, job.place.payload_bytes)).collect();
        let mut covers: Vec<_> = jobs.iter().map(Cover::new).collect();
        let mut remote = Vec::new();
        for ((job, reach), cover) in jobs.iter().zip(&reaches).zip(&mut covers) {
            if let (Ok(None), Ok(cover)) = (reach, cover)
                && !cover.is_empty()
            {
                remote.extend(cover_jobs(job.place, cover));
            }
        }
        let mut routes = near_routes(&reaches);
        let mut landed = self.begin_remote(&remote).wait().into_iter();
        let mut outcome = Vec::with_capacity(jobs.len());
        let covered = jobs.iter().zip(&reaches).zip(covers);
        for (((job, reach), cover), route) in covered.zip(&mut routes) {
            let filled = cover.and_then(|cover| fill(cover, job, reach, &mut landed, route));
            // SAFETY: the caller vouches for the target.
            outcome.push(filled.and_then(|cover| unsafe { cover.deliver(job) }));
        }
        let bytes = jobs.iter().map(|job| job.target.len as u64);
        self.report(Direction::Read, start, &routes, bytes, &outcome);
        outcome
    }

    /// Tells the observer what a batch did, route by route.
    fn report<T>(
        &self,
        direction: Direction,
        start: Duration,
        routes: &[Route],
        bytes: impl Iterator<Item = u64>,
        outcome: &[Result<T, TransferError>],
    ) {
        let elapsed = monotonic() - start;
        let mut moved = Route::ALL.map(|route| (route, 0));
        for ((route, bytes), outcome) in routes.iter().zip(bytes).zip(outcome) {
            match outcome {
                Ok(_) => moved[*route as usize].1 += bytes,
                Err(error) => self.options.observer.failed(*route, direction, error),
            }
        }
        for (route, bytes) in moved.into_iter().filter(|(_, bytes)| *bytes > 0) {
            record_copy(route, direction, bytes, elapsed);
            self.options.observer.moved(route, direction, bytes, elapsed);
        }
    }

    /// Drops mappings of owners that have gone, and closes idle connections to them. Called now and
    /// then.
    pub fn sweep(&self) {
        self.guest.sweep();
        self.tcp.sweep();
    }

    /// Breaks all connections; transfers in flight fail, and later ones over TCP too.
    pub fn close(&self) {
        self.tcp.close();
    }

    /// The nearest way to a place for buffers of this many bytes; `None` if this process cannot
    /// touch it.
    fn reach(
        &self,
        place: &ReplicaAddress,
        buffers: u64,
    ) -> Result<Option<NearMemory>, TransferError> {
        if buffers != place.payload_bytes {
            return Err(TransferError::BufferSize { buffers, wanted: place.payload_bytes });
        }
        if !place.is_in_bounds() {
            return Err(TransferError::OutOfBounds {
                offset: place.offset,
                bytes: place.payload_bytes,
            });
        }
        Ok(NearMemory::find(
            place,
            self.options.routes,
            &self.options.host_id,
            &self.own,
            &self.guest,
        ))
    }

    /// Whether this process can touch a place's memory, so that its bytes are copied on the
    /// caller's thread.
    pub fn is_near(&self, place: &ReplicaAddress) -> bool {
        let options = &self.options;
        let reach =
            NearMemory::find(place, options.routes, &options.host_id, &self.own, &self.guest);
        reach.is_some()
    }
}

fn extent(reach: &NearMemory, place: &ReplicaAddress) -> Result<MappedExtent, TransferError> {
    let out_of_bounds =
        TransferError::OutOfBounds { offset: place.offset, bytes: place.payload_bytes };
    if let NearMemory::Own(segment) = reach {
        let populated = segment.populate(place.offset, extent_bytes(place.payload_bytes));
        populated.map_err(|Exhausted| TransferError::Exhausted)?;
    }
    let base = reach.extent(place).ok_or(out_of_bounds)?;
    // SAFETY: the extent lies inside memory that `reach` keeps mapped, at a multiple of 8 from a
    // page border; `reach` outlives the value at every use in this file.
    Ok(unsafe { MappedExtent::new(base, place.payload_bytes) })
}

/// Whether the caller breaks off before it copies `bytes`; asked only after many.
fn breaks_off(copied: &mut u64, bytes: u64) -> bool {
    *copied += bytes;
    *copied > COPIED_UNASKED_MAX && poll_interruption()
}

/// Fills a cover from memory or with what came over the network; two jobs have landed for each
/// cover that asked for any.
fn fill(
    mut cover: Cover,
    job: &RangeJob<'_>,
    reach: &Result<Option<NearMemory>, TransferError>,
    landed: &mut impl Iterator<Item = (Route, Result<u32, TransferError>)>,
    route: &mut Route,
) -> Result<Cover, TransferError> {
    match reach {
        Ok(Some(reach)) => cover.copy_from(extent(reach, job.place)?, job.place.generation)?,
        Ok(None) if cover.is_empty() => {}
        Ok(None) => {
            let both: Vec<_> = landed.take(2).collect();
            assert_eq!(both.len(), 2, "one outcome per far job");
            // That of the blocks: their sums are few bytes, which may go another way.
            *route = both[0].0;
            for (_, result) in both {
                result?;
            }
        }
        Err(error) => return Err(error.clone()),
    }
    Ok(cover)
}

/// The route of each job as far as it is known before anything has landed.
fn near_routes(reaches: &[Result<Option<NearMemory>, TransferError>]) -> Vec<Route> {
    let route = |reach: &Result<Option<NearMemory>, TransferError>| {
        let reach = reach.as_ref().ok().and_then(Option::as_ref);
        reach.map_or(Route::Tcp, NearMemory::route)
    };
    reaches.iter().map(route).collect()
}

fn is_far(reach: &Result<Option<NearMemory>, TransferError>) -> bool {
    matches!(reach, Ok(None))
}

/// The two reads that fill a cover: its blocks and the checksums of all blocks.
fn cover_jobs(place: &ReplicaAddress, cover: &mut Cover) -> [FarJob; 2] {
    let memory = |bytes: &mut Vec<u8>| vec![ByteRangeMut::from(bytes.as_mut_slice())];
    [
        FarJob {
            place: place.clone(),
            content: Content::Read(cover.start),
            memory: memory(&mut cover.bytes),
        },
        FarJob {
            place: place.clone(),
            content: Content::ReadChecksums,
            memory: memory(&mut cover.checksums),
        },
    ]
}
