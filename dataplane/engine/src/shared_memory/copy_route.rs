//! Slices of one batch that go through shared memory; what the owner has taken back by then goes
//! another way.
//! Invariant: a slice is reported as moved only if its owner was alive after the last byte was in
//! place.

use super::local_peer::range;
use crate::error::EngineError;
use crate::fallback::Fallback;
use crate::request::Direction;
use crate::request_piece::RequestPiece;
use crate::slice::RequestSlice;
use nix::errno::Errno;
use perigee_activity::SpanKind;
use perigee_memory::checksum::crc32c_raw;
use perigee_memory::copy::copy_streaming;
use perigee_memory::shared::OwnerMemory;
use perigee_mover::{PeerError, RouteCounters, record_copy};
use perigee_schemas::Route;
use perigee_shard::monotonic;
use std::sync::Arc;

/// The route of a batch.
#[derive(Debug)]
pub(crate) struct CopyRoute {
    pub(crate) memory: Arc<OwnerMemory>,
    /// Unregistered local memory: the kernel copies, because it notices pages that are not there.
    pub(crate) is_careful: bool,
    /// Whether another route may take over.
    pub(crate) may_divert: bool,
    pub(crate) counters: Arc<RouteCounters>,
    pub(crate) fallback: Fallback,
}

/// Why a slice was not copied.
enum CopyFault {
    /// The owner has gone or has taken its memory back.
    Lost,
    /// The caller's memory is not there.
    Local,
    /// Other bytes arrived than were sent.
    Damaged,
}

impl CopyRoute {
    /// Copies a slice, which then reports to its batch.
    pub(crate) fn run(&self, mut slice: RequestSlice) {
        let terms = self.fallback.terms;
        if slice.batch().is_canceled() {
            return slice.give_up(&EngineError::Canceled);
        }
        let peer = || self.fallback.target.name().to_string();
        if monotonic() >= terms.due {
            let deadline = terms.length;
            return slice
                .give_up(&EngineError::Peer(PeerError::Deadline { peer: peer(), deadline }));
        }
        if let Err(reason) = slice.stage() {
            return slice.give_up(&EngineError::Memory(reason));
        }
        let begun = monotonic();
        match self.copy(&slice) {
            Ok(()) => {
                let now = monotonic();
                let took = now.saturating_sub(begun);
                let (name, moved) = (self.fallback.target.name(), slice.moved());
                record_copy(name, slice.direction, moved, took);
                if let Some(request) = slice.batch().traced() {
                    request.add(SpanKind::Transfer, ("", name), |span| {
                        span.go_over(Route::SharedMemory, slice.direction);
                        (span.parts, span.bytes) = (1, moved.bytes);
                        (now, took)
                    });
                }
                slice.complete(&self.counters);
            }
            Err(CopyFault::Local) => slice.give_up(&EngineError::Peer(PeerError::LocalMemory)),
            Err(CopyFault::Damaged) => {
                slice.give_up(&EngineError::Peer(PeerError::Damaged { peer: peer() }));
            }
            Err(CopyFault::Lost) if self.may_divert => {
                slice.unstage();
                self.fallback.divert(slice);
            }
            Err(CopyFault::Lost) => slice.give_up(&EngineError::Peer(PeerError::Broken {
                peer: peer(),
                reason: "it has taken its shared memory back".to_owned(),
            })),
        }
    }

    fn copy(&self, slice: &RequestSlice) -> Result<(), CopyFault> {
        let alive = || self.memory.is_alive().then_some(()).ok_or(CopyFault::Lost);
        alive()?;
        let _permit = self.memory.begin_copy().ok_or(CopyFault::Lost)?;
        for piece in &slice.pieces {
            self.copy_piece(slice.direction, piece)?;
        }
        alive()
    }

    fn copy_piece(&self, direction: Direction, piece: &RequestPiece) -> Result<(), CopyFault> {
        let remote = range(&self.memory, piece.remote, piece.bytes).ok_or(CopyFault::Lost)?;
        let (local, bytes) = (piece.local as *mut u8, piece.bytes as usize);
        let (target, source) = match direction {
            Direction::Write => (remote, local),
            Direction::Read => (local, remote),
        };
        if self.is_careful {
            copy_checked(target, source, bytes)?;
        } else {
            // SAFETY: the remote range was checked against its mapping; the local one is
            // registered, and the caller that submitted the batch keeps it and writes it nowhere
            // else until the batch is over.
            unsafe { copy_streaming(target, source, bytes) };
        }
        let is_checked = self.fallback.terms.with_checksum;
        // SAFETY: both ranges were readable a moment ago, and are kept as said above.
        if is_checked && unsafe { crc32c_raw(target, bytes) != crc32c_raw(source, bytes) } {
            return Err(CopyFault::Damaged);
        }
        Ok(())
    }
}

/// Copies by the kernel, which answers with an error where a copy of our own would fault.
fn copy_checked(target: *mut u8, source: *const u8, bytes: usize) -> Result<(), CopyFault> {
    let range = |base: *mut u8| libc::iovec { iov_base: base.cast(), iov_len: bytes };
    let (from, into) = (range(source.cast_mut()), range(target));
    // SAFETY: both lists live across the call, and the kernel refuses ranges that are not such
    // memory of this process.
    let moved = unsafe { libc::process_vm_writev(libc::getpid(), &from, 1, &into, 1, 0) };
    match usize::try_from(moved) {
        Ok(moved) if moved == bytes => Ok(()),
        Err(_) if Errno::last() != Errno::EFAULT => Err(CopyFault::Lost),
        _ => Err(CopyFault::Local),
    }
}
