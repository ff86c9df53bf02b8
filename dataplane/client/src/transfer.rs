//! One contiguous transfer between memory of this process and memory of a peer. Invariant: the
//! memory here is borrowed for as long as the transfer exists.

use crate::slice::MemorySlice;
use perigee_engine::{Direction, TransferRequest};
use std::marker::PhantomData;

/// One transfer of a batch. Addresses of a peer are those that it exposes
/// ([`CacheMemory::address`](crate::CacheMemory::address)).
#[derive(Debug)]
pub struct PeerTransfer<'a> {
    pub(crate) request: TransferRequest,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> PeerTransfer<'a> {
    /// Writes bytes to the peer.
    #[must_use]
    pub fn write(bytes: &'a [u8], remote: u64) -> Self {
        let local = bytes.as_ptr().expose_provenance();
        Self::new(Direction::Write, local as u64, remote, bytes.len())
    }

    /// Reads bytes of the peer.
    #[must_use]
    pub fn read(bytes: &'a mut [u8], remote: u64) -> Self {
        let local = bytes.as_mut_ptr().expose_provenance();
        Self::new(Direction::Read, local as u64, remote, bytes.len())
    }

    /// Writes a slice, of an accelerator too, to the peer.
    #[must_use]
    pub fn write_slice(slice: &'a MemorySlice, remote: u64) -> Self {
        Self::new(Direction::Write, slice.address(), remote, slice.len())
    }

    /// Reads into a slice, of an accelerator too.
    #[must_use]
    pub fn read_slice(slice: &'a mut MemorySlice, remote: u64) -> Self {
        Self::new(Direction::Read, slice.address(), remote, slice.len())
    }

    fn new(direction: Direction, local: u64, remote: u64, bytes: usize) -> Self {
        let request = TransferRequest { direction, local, remote, bytes: bytes as u64 };
        Self { request, memory: PhantomData }
    }
}
