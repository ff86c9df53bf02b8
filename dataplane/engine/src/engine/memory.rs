//! Registering memory with a running engine.
//! Invariant: a buffer is published only after it is in the registry, and gone from the document
//! before it leaves it.

use super::{EngineState, TransferEngine};
use crate::arena::Arena;
use crate::error::{BufferError, EngineError};
use crate::limits::{UNREGISTER_DEADLINE, UNREGISTER_GRACE};
use crate::registry::{MemoryLocation, RegisteredRegion, check_mapped};
use perigee_memory::Segment;
use perigee_memory::shared::Owner;
use perigee_rails::{Preference, Registration};
use perigee_rdma::Rdma;
use perigee_verbs::RegionAccess;
use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

impl TransferEngine {
    /// Lets peers read and write a buffer.
    ///
    /// # Safety
    /// The memory must stay valid until [`TransferEngine::unregister`] has returned success, or the
    /// engine was closed.
    ///
    /// # Errors
    /// It overlaps a registered buffer, has no bytes, or is not memory of this process.
    pub unsafe fn register(
        &self,
        address: u64,
        bytes: u64,
        location: &str,
    ) -> Result<(), EngineError> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.register_all(&[(address, bytes)], location) }
    }

    /// Makes a buffer known to this engine's NICs only: peers cannot reach it.
    ///
    /// # Safety
    /// As [`TransferEngine::register`].
    ///
    /// # Errors
    /// As [`TransferEngine::register`].
    pub unsafe fn register_private(
        &self,
        address: u64,
        bytes: u64,
        location: &str,
    ) -> Result<(), EngineError> {
        let region = self.inner.region(address, bytes, MemoryLocation::parse(location)?);
        let region = region.map(|region| region.private(true));
        // SAFETY: the caller's promise is the same.
        unsafe { self.inner.enroll(std::iter::once(region)) }
    }

    /// Registers several buffers, all or none, with one publication.
    ///
    /// # Safety
    /// As [`TransferEngine::register`], for every buffer.
    ///
    /// # Errors
    /// As [`TransferEngine::register`]; then none of them is registered.
    pub unsafe fn register_all(
        &self,
        ranges: &[(u64, u64)],
        location: &str,
    ) -> Result<(), EngineError> {
        let inner = &self.inner;
        let location = MemoryLocation::parse(location)?;
        let region = |(address, bytes): &(u64, u64)| inner.region(*address, *bytes, location);
        // SAFETY: the caller keeps the memory until it is unregistered.
        unsafe { inner.enroll(ranges.iter().map(region)) }
    }

    /// Lets peers read and write a whole segment, which the engine keeps until it is unregistered
    /// by its first address. Peers on this host may map it and copy directly.
    ///
    /// # Errors
    /// It overlaps a registered buffer.
    pub fn register_segment(
        &self,
        segment: &Arc<Segment>,
        location: &str,
    ) -> Result<(), EngineError> {
        let region =
            RegisteredRegion::of_segment(segment.clone(), MemoryLocation::parse(location)?);
        // SAFETY: the region keeps the segment, and is kept as long as it is used.
        unsafe { self.inner.enroll(std::iter::once(Ok(region))) }?;
        self.inner.owner.iter().for_each(Owner::extend);
        Ok(())
    }

    /// Takes a buffer back: waits for operations that use it, at most [`UNREGISTER_DEADLINE`].
    ///
    /// # Errors
    /// No buffer begins there, or a managed one, or it is still in use: then its memory must be
    /// kept and the call repeated.
    pub fn unregister(&self, address: u64) -> Result<(), EngineError> {
        self.unregister_all(&[address])
    }

    /// Takes several buffers back with one publication. All are tried; the first error is returned.
    ///
    /// # Errors
    /// As [`TransferEngine::unregister`]; an address that is named again is not registered any
    /// more.
    pub fn unregister_all(&self, addresses: &[u64]) -> Result<(), EngineError> {
        let inner = &self.inner;
        let mut named = HashSet::new();
        let close = |address: &u64| {
            // Other managed buffers lie in the same registration as the first one.
            if !named.insert(*address) || inner.is_arena(*address) {
                return Err(BufferError::NotRegistered { address: *address }.into());
            }
            let region = inner.registry.close(*address)?;
            inner.hide(&region);
            Ok(region)
        };
        let closed: Vec<_> = addresses.iter().map(close).collect();
        if !inner.is_closed()
            && let Err(error) = inner.publish()
        {
            // Peers that read the old document are refused by the registry.
            tracing::warn!(%error, "The document without the buffer could not be published");
        }
        let mut first = Ok(());
        for region in closed {
            let left = region.and_then(|region| inner.leave(&region));
            first = first.and(left);
        }
        first
    }

    /// A buffer of at least this many bytes in memory of the engine, already registered: it must
    /// not be registered again.
    ///
    /// # Errors
    /// It is too large, or there is no memory left.
    pub fn allocate_managed(&self, bytes: u64) -> Result<u64, EngineError> {
        let mut arena = self.inner.arena.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.check_open()?;
        if arena.is_none() {
            let made = Arena::create()?;
            self.register_segment(made.memory(), "cpu:0")?;
            *arena = Some(made);
        }
        match arena.as_mut() {
            Some(arena) => arena.allocate(bytes),
            None => Err(EngineError::Closed),
        }
    }

    /// Gives a managed buffer back; its space is used again. The length is not needed: the engine
    /// knows it.
    ///
    /// # Errors
    /// No managed buffer begins there.
    pub fn free_managed(&self, address: u64, _bytes: u64) -> Result<(), EngineError> {
        let mut arena = self.inner.arena.lock().unwrap_or_else(PoisonError::into_inner);
        let freed = arena.as_mut().map(|arena| arena.free(address));
        freed.unwrap_or(Err(BufferError::NotRegistered { address }.into()))
    }

    /// The first address that a segment has registered.
    ///
    /// # Errors
    /// The segment cannot be found or has no buffer.
    pub fn first_buffer(&self, segment: &str) -> Result<u64, EngineError> {
        let (address, _) = self.first_buffer_within(segment, Duration::MAX)?;
        Ok(address)
    }

    /// Address and length of the first buffer that a segment has registered, for a caller who waits
    /// no longer than `limit`.
    ///
    /// # Errors
    /// As [`TransferEngine::first_buffer`], or the time is over.
    pub fn first_buffer_within(
        &self,
        segment: &str,
        limit: Duration,
    ) -> Result<(u64, u64), EngineError> {
        self.inner.check_open()?;
        let document = self.inner.segments.document_within(segment, limit)?;
        let first = document.buffers.first();
        first
            .map(|buffer| (buffer.addr, buffer.length))
            .ok_or_else(|| EngineError::Metadata(format!("{segment} has no registered buffer")))
    }
}

impl EngineState {
    /// Whether the memory of managed buffers begins there, which only the engine takes back.
    fn is_arena(&self, address: u64) -> bool {
        let arena = self.arena.lock().unwrap_or_else(PoisonError::into_inner);
        arena.as_ref().is_some_and(|arena| arena.memory().base() as u64 == address)
    }

    /// A buffer of a caller, which must be memory of this process or of a device.
    fn region(
        &self,
        address: u64,
        bytes: u64,
        location: MemoryLocation,
    ) -> Result<RegisteredRegion, EngineError> {
        let on_device = self.is_on_device(address);
        if !on_device {
            check_mapped(address, bytes)?;
        }
        Ok(RegisteredRegion::new(address, bytes, location).on_device(on_device))
    }

    /// Takes buffers into the registry, all or none, with one publication.
    ///
    /// # Safety
    /// Their memory must stay valid until they are unregistered, or the engine was closed.
    unsafe fn enroll(
        &self,
        mut regions: impl Iterator<Item = Result<RegisteredRegion, EngineError>>,
    ) -> Result<(), EngineError> {
        self.check_open()?;
        let mut made = Vec::new();
        let enrolled = regions.try_for_each(|region| {
            let region = self.registry.insert(region?)?;
            made.push(region.clone());
            // SAFETY: the caller keeps the memory until it is unregistered, which revokes the
            // registration first.
            unsafe { self.tell_rails(&region) }
        });
        let enrolled = enrolled.and_then(|()| self.publish());
        if enrolled.is_err() {
            made.iter().for_each(|region| {
                region.close();
                self.hide(region);
            });
            let unused = |region: &Arc<RegisteredRegion>| self.leave(region).is_ok();
            if !made.iter().all(unused) {
                tracing::warn!("A buffer whose registration failed is in use by a peer already");
            }
            // Another thread may have composed the document with them in between.
            self.directory.publish_later();
        }
        enrolled
    }

    /// Registers a buffer with the rails. Without them, or with TCP beside them, it is reached over
    /// TCP.
    ///
    /// # Safety
    /// The memory must stay mapped until the registration was revoked.
    unsafe fn tell_rails(&self, region: &Arc<RegisteredRegion>) -> Result<(), EngineError> {
        let Some(rdma) = &self.rdma else {
            return Ok(());
        };
        let (address, bytes) = (region.address(), region.bytes());
        let preference = self.affinity.of(region, self.devices.as_ref());
        if region.is_on_device() {
            // SAFETY: the caller's promise is the same.
            unsafe { self.tell_rails_of_device(rdma, region, &preference) };
            return Ok(());
        }
        // SAFETY: the caller's promise is the same.
        let made = unsafe {
            let rails = rdma.engine();
            rails.register(address, bytes, access(region), &preference)
        };
        match made {
            Ok(registration) => lend(rdma, region, registration),
            Err(error) if self.wants_tcp() => {
                tracing::warn!(%error, address, bytes, "The buffer is reached over TCP only");
            }
            Err(error) => {
                let reason = error.to_string();
                return Err(BufferError::Unusable { address, bytes, reason }.into());
            }
        }
        Ok(())
    }

    /// Lets the rails reach a device's memory where driver and devices can. Otherwise its bytes are
    /// staged.
    ///
    /// # Safety
    /// As [`EngineState::tell_rails`].
    unsafe fn tell_rails_of_device(
        &self,
        rdma: &Rdma,
        region: &Arc<RegisteredRegion>,
        preference: &Preference,
    ) {
        let (address, bytes) = (region.address(), region.bytes());
        let exported = match &self.devices {
            Some(devices) if rdma.engine().knows_dmabuf() => devices.0.export(address, bytes),
            _ => Err("no rail takes dma-bufs".to_owned()),
        };
        let registered = exported.and_then(|buffer| {
            let (file, range) = (buffer.file.as_fd(), (address, bytes));
            // SAFETY: the range is what the device has at this address, as the driver that exported
            // it knows.
            let made = unsafe {
                let rails = rdma.engine();
                rails.register_dmabuf(file, buffer.offset_bytes, range, access(region), preference)
            };
            made.map_err(|error| error.to_string())
        });
        match registered {
            Ok(registration) => lend(rdma, region, registration),
            Err(reason) => {
                tracing::info!(
                    reason,
                    address,
                    bytes,
                    "Device memory is staged through host memory"
                );
            }
        }
    }

    /// Peers get no new lease on a buffer.
    fn hide(&self, region: &RegisteredRegion) {
        self.rdma.iter().for_each(|rdma| rdma.hide(region.lease_id()));
    }

    /// Takes the keys of an unused buffer back.
    fn revoke_keys(region: &RegisteredRegion) -> Result<(), EngineError> {
        let Some(registration) = region.registration() else {
            return Ok(());
        };
        registration.revoke().map_err(|error| {
            tracing::error!(%error, address = region.address(), "The keys of a buffer cannot be revoked");
            in_use(region)
        })
    }

    /// Waits until a closed buffer is unused: first patiently, then after breaking the connections
    /// that use it. Then its keys are revoked and it is forgotten.
    fn leave(&self, region: &Arc<RegisteredRegion>) -> Result<(), EngineError> {
        debug_assert!(region.is_closed(), "a buffer that is taken back takes no new uses");
        let is_shared = region.segment().is_some();
        if is_shared
            && let Some(owner) = &self.owner
            && !owner.revoke(UNREGISTER_DEADLINE)
        {
            return Err(in_use(region));
        }
        if !region.wait_unused(UNREGISTER_GRACE) {
            let servers = [Some(&self.server), self.upstream.as_ref()];
            servers
                .into_iter()
                .flatten()
                .for_each(|server| server.revoke(Arc::as_ptr(region) as usize));
            if !region.wait_unused(UNREGISTER_DEADLINE - UNREGISTER_GRACE) {
                return Err(in_use(region));
            }
        }
        Self::revoke_keys(region)?;
        self.registry.forget_unused(region, UNREGISTER_GRACE);
        Ok(())
    }
}

/// The rails use a buffer from now on, and so do peers unless it is private.
fn lend(rdma: &Rdma, region: &RegisteredRegion, registration: Arc<Registration>) {
    if !region.is_private() {
        rdma.lend(region.lease_id(), &registration);
    }
    region.set_registration(registration);
    if region.is_closed() {
        // It was taken back before it was lent.
        rdma.hide(region.lease_id());
    }
}

/// What devices let peers do with a buffer.
fn access(region: &RegisteredRegion) -> RegionAccess {
    if region.is_private() { RegionAccess::LOCAL } else { RegionAccess::ALL }
}

fn in_use(region: &RegisteredRegion) -> EngineError {
    BufferError::InUse { address: region.address(), waited: UNREGISTER_DEADLINE }.into()
}
