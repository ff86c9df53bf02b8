//! Memory that a client donates or registers. Invariant: what the master refused to mount is given
//! back at once.
#![expect(unsafe_code, reason = "it lends memory of callers to the engine")]

use crate::api::{CallerRange, SegmentId};
use crate::client::{Store, refused};
use crate::disks::SavedObjects;
use crate::error::StoreError;
use perigee_metrics::DiskNumbers;
use perigee_rpc::{MountForm, SegmentOffer};
use perigee_schemas::{SegmentKind, Status};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Store {
    pub(super) fn donate(&self, bytes: u64) -> Result<SegmentId, StoreError> {
        self.mount(self.donation.add(bytes, None)?)
    }

    /// Has the master mount what is served already.
    fn mount(&self, (offer, number): (SegmentOffer, u64)) -> Result<SegmentId, StoreError> {
        let id = offer.id;
        let announces = [(id, self.ledger.add(id, offer.bytes))];
        let form = MountForm { number, announces: &announces, ..MountForm::default() };
        let mounted = self.master.mount_as(&[offer], &form);
        let verdict = match mounted {
            Ok(statuses) => statuses
                .first()
                .copied()
                .unwrap_or(Status::InternalError)
                .ok()
                .map_err(StoreError::Mount),
            Err(error) => Err(error.into()),
        };
        if verdict.is_err() {
            // A request without an answer may still be carried out: the next heartbeat tells that
            // the segment is gone.
            self.donation.remove(id);
            self.ledger.remove(id);
            debug_assert!(!self.donation.offers_segment(id), "it is given back at once");
        } else {
            self.ledger.follow(id);
        }
        verdict.map(|()| id)
    }

    /// Donates another segment, its pages from a NUMA node if one is named.
    ///
    /// # Errors
    /// The memory cannot be allocated, or the master refused it.
    pub fn mount_segment(
        &self,
        bytes: u64,
        numa_node: Option<u32>,
    ) -> Result<Vec<SegmentId>, Status> {
        self.while_open()?;
        if bytes == 0 {
            return Err(Status::InvalidParams);
        }
        self.mounted(self.donation.add(bytes, numa_node).and_then(|added| self.mount(added)))
    }

    /// Words of the protocols that all memory which this store donates has.
    pub fn donated_protocol(&self) -> &str {
        self.donation.protocol()
    }

    /// Donates a range of a file or shared-memory object, from `offset` on, a multiple of the page
    /// size. What is in it is overwritten. Clients of this host reach it over TCP or RDMA.
    ///
    /// # Errors
    /// `InvalidParams`: there is no such file or range, or a part of it is lent already; else what
    /// the master answers.
    pub fn mount_file(
        &self,
        path: &str,
        offset: u64,
        bytes: u64,
        numa_node: Option<u32>,
    ) -> Result<Vec<SegmentId>, Status> {
        self.while_open()?;
        let added = self.donation.add_file(Path::new(path), offset, bytes, numa_node);
        self.mounted(added.and_then(|added| self.mount(added)))
    }

    fn mounted(&self, mounted: Result<SegmentId, StoreError>) -> Result<Vec<SegmentId>, Status> {
        let donated = mounted.map_err(|error| {
            tracing::warn!(%error, "Cannot donate a segment");
            error.status()
        })?;
        self.registration.renew(&self.donation);
        Ok(vec![donated])
    }

    /// Unmounts donated segments; with a grace they stay readable for that long. The first refusal
    /// is returned.
    pub fn unmount_segments(&self, ids: &[SegmentId], grace_ms: u64) -> Status {
        if let Err(status) = self.while_open() {
            return status;
        }
        let statuses = match self.master.unmount(ids, grace_ms) {
            Ok(statuses) => statuses,
            Err(error) => return refused(&error),
        };
        assert_eq!(statuses.len(), ids.len(), "one answer per segment");
        let settled = ids.iter().zip(statuses).map(|(id, status)| match status {
            Status::Ok => {
                self.ledger.remove(*id);
                self.donation.retire(*id, Duration::from_millis(grace_ms));
                Status::Ok
            }
            // A restarted master does not know it yet: it has no readers, and the master will not
            // learn of it any more.
            Status::SegmentNotFound if self.donation.offers_segment(*id) => {
                self.ledger.remove(*id);
                self.donation.remove(*id);
                Status::Ok
            }
            refused => refused,
        });
        let settled: Vec<Status> = settled.collect();
        if settled.contains(&Status::Ok) {
            self.registration.renew(&self.donation);
        }
        settled.into_iter().find(|status| *status != Status::Ok).unwrap_or(Status::Ok)
    }

    /// Writes what this client's memory alone has to its disks, most worth first, until then at
    /// most: for a client that is about to close. `None` without a disk that is open.
    pub fn save_to_disks(&self, until: Instant) -> Option<SavedObjects> {
        self.disks.save(until)
    }

    /// Whether it has disks, whether they can be used or not.
    pub fn has_disks(&self) -> bool {
        !self.disks.numbers().is_empty()
    }

    /// Withdraws this client's disks: nothing more is written there, and what lies only there is
    /// gone after `grace_ms`. `Ok` without disks, too.
    pub fn unmount_disks(&self, grace_ms: u64) -> Status {
        self.disks.leave();
        let disks = self.donation.offers().into_iter();
        let ids: Vec<SegmentId> =
            disks.filter(|offer| offer.kind == SegmentKind::Disk).map(|offer| offer.id).collect();
        match ids.is_empty() {
            true => self.while_open().err().unwrap_or(Status::Ok),
            false => self.unmount_segments(&ids, grace_ms),
        }
    }

    /// How often calls of this client have asked owners of disks, itself among them, for objects
    /// that lie there: one for each owner in a step of a call.
    pub fn disk_requests(&self) -> u64 {
        self.disk_requests.load(Ordering::Relaxed)
    }

    /// What each disk of this client has done, and how it is.
    pub fn disk_numbers(&self) -> Vec<DiskNumbers> {
        self.disks.numbers()
    }

    /// Registers memory of the caller, on this host or on an accelerator. Refuses what overlaps
    /// registered memory and what this process may not read.
    pub fn register_buffer(&self, address: usize, bytes: usize) -> Status {
        if let Err(status) = self.while_open() {
            return status;
        }
        match self.memory.register(address, bytes) {
            // Bytes of an accelerator go through host memory, which the rails know.
            Ok(true) => Status::Ok,
            Ok(false) => {
                self.register_with_devices(address, bytes);
                Status::Ok
            }
            Err(status) => status,
        }
    }

    /// Lets devices read and write memory of the caller in place, until it is unregistered or the
    /// store is closed. Without RDMA there is nothing to do, and memory that devices refuse is
    /// moved otherwise.
    pub fn register_with_devices(&self, address: usize, bytes: usize) {
        let Some(rdma) = &self.rdma else {
            return;
        };
        // SAFETY: callers of the store keep registered memory mapped until they unregister it or
        // close the store.
        if let Err(error) = unsafe { rdma.register(address as u64, bytes as u64) } {
            tracing::warn!(%error, bytes, "RDMA devices refuse this memory; it is copied, or goes over TCP");
        }
    }

    /// Copies the bytes of a caller's piece, of this host or of an accelerator, to memory of this
    /// process.
    ///
    /// # Safety
    /// `host` must be writable for as many bytes and not be used elsewhere during the call.
    ///
    /// # Errors
    /// `InvalidParams`: the piece is no memory that can be read.
    pub unsafe fn load(&self, piece: &CallerRange, host: *mut u8) -> Result<(), Status> {
        // SAFETY: the caller's promise.
        unsafe { self.memory.load(piece, host) }
    }

    /// Copies memory of this process to a caller's piece, on this host or on an accelerator.
    ///
    /// # Safety
    /// `host` must be readable for as many bytes, and the piece not be used elsewhere during the
    /// call.
    ///
    /// # Errors
    /// `InvalidParams`: the piece is no memory that can be written.
    pub unsafe fn save(&self, piece: &CallerRange, host: *const u8) -> Result<(), Status> {
        // SAFETY: the caller's promise.
        unsafe { self.memory.save(piece, host) }
    }

    /// The accelerator that has a caller's piece, as this process numbers them; `None` for memory
    /// of this host.
    pub fn device_of(&self, piece: &CallerRange) -> Option<u32> {
        self.memory.device_of(piece)
    }

    /// Forgets registered memory; an address that is not registered is refused.
    pub fn unregister_buffer(&self, address: usize) -> Status {
        if let Err(status) = self.while_open() {
            return status;
        }
        if !self.memory.unregister(address) {
            return Status::InvalidParams;
        }
        if let Some(rdma) = &self.rdma {
            rdma.unregister(address as u64);
        }
        Status::Ok
    }
}
