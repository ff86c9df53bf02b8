//! The pieces of a request after they were judged, and their bytes on the way between sockets and
//! memory.
//! Invariant: a piece that was refused is never touched, and a message that names a range keeps it.
#![expect(unsafe_code, reason = "it reads and writes memory that an owner vouches for")]

use super::granted_range::GrantedRange;
use super::owner::{MemoryOwner, PieceRequest};
use super::service::MoveService;
use crate::scope::Scope;
use crate::wire::MoveRequest;
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_writev};
use nix::unistd::Pid;
use perigee_schemas::{Direction, Status};
use perigee_shard::Message;
use std::io::{IoSlice, Read, Write};

/// A piece that may be used, or why not.
pub(super) type Verdict = Result<GrantedRange, Status>;

/// Judges every piece of a request.
pub(super) fn judge<O: MemoryOwner>(
    service: &MoveService<O>,
    request: &MoveRequest,
) -> Vec<Verdict> {
    let registered = request.scope == Scope::Registered;
    if registered && request.epoch != service.context.identity.low() {
        return request.pieces.iter().map(|_| Err(Status::InvalidReplica)).collect();
    }
    let find = |(index, piece)| {
        let guard = request.guards.get(index);
        let (scope, direction) = (request.scope, request.direction);
        let mut range = service.owner.find(&PieceRequest { scope, direction, piece, guard })?;
        debug_assert_eq!(range.bytes(), piece.bytes(), "the range that was asked for");
        range.stage(request.direction)?;
        Ok(range)
    };
    request.pieces.iter().enumerate().map(find).collect()
}

/// The status of each piece as it is written.
pub(super) fn codes(verdicts: &[Verdict]) -> Vec<i32> {
    let code = |verdict: &Verdict| verdict.as_ref().map_or_else(|status| status.code(), |_| 0);
    verdicts.iter().map(code).collect()
}

/// A piece whose staging fails is refused after all.
pub(super) fn settle(verdict: &mut Verdict, step: impl Fn(&GrantedRange) -> Result<(), Status>) {
    if let Ok(range) = verdict
        && let Err(status) = step(range)
    {
        *verdict = Err(status);
    }
}

/// Appends the last `bytes` of a range to a message, which keeps the right to use them.
pub(super) fn lend_last(range: &GrantedRange, bytes: u64, message: &mut Message) {
    debug_assert!(bytes <= range.bytes());
    let first = range.host().wrapping_add((range.bytes() - bytes) as usize);
    // SAFETY: the range was checked, and the message keeps it.
    unsafe { message.push_borrowed(first, bytes as usize) };
    message.guard(range.keep());
}

/// Puts payload that came with its frame into place. Returns how many bytes of each piece are still
/// to come.
pub(super) fn place_early(
    request: &MoveRequest,
    verdicts: &mut [Verdict],
    early: &[u8],
) -> Vec<u64> {
    debug_assert_eq!(request.direction, Direction::Write);
    let mut early = early;
    let mut left = Vec::with_capacity(verdicts.len());
    for (piece, verdict) in request.pieces.iter().zip(verdicts) {
        let (now, later) = early.split_at(early.len().min(piece.bytes() as usize));
        early = later;
        if !now.is_empty() {
            settle(verdict, |range| place(range, now));
        }
        left.push(piece.bytes() - now.len() as u64);
    }
    debug_assert!(early.is_empty(), "all that came belongs to a piece");
    left
}

/// Puts the first bytes of a range into place. The kernel does it, because memory that cannot be
/// written must be an error and not a fault.
fn place(range: &GrantedRange, bytes: &[u8]) -> Result<(), Status> {
    debug_assert!(bytes.len() as u64 <= range.bytes(), "it ends within the range");
    let from = [IoSlice::new(bytes)];
    let into =
        [RemoteIoVec { base: range.host() as usize, len: bytes.len().min(range.bytes() as usize) }];
    match process_vm_writev(Pid::this(), &from, &into) {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(_) | Err(Errno::EFAULT) => Err(Status::InvalidParams),
        // Forbidden here: a pipe does the same with more steps.
        Err(_) => place_by_pipe(range, bytes),
    }
}

fn place_by_pipe(range: &GrantedRange, bytes: &[u8]) -> Result<(), Status> {
    let piped = |bytes: &[u8]| {
        let (reader, mut writer) = std::io::pipe()?;
        writer.write_all(bytes)?;
        Ok(reader)
    };
    let mut reader = piped(bytes).map_err(|error: std::io::Error| {
        tracing::warn!(%error, "Cannot open a pipe; the write is refused");
        Status::TransferFail
    })?;
    debug_assert!(bytes.len() as u64 <= range.bytes(), "it ends within the range");
    // SAFETY: the range was checked; the kernel refuses what cannot be written.
    let target = unsafe { std::slice::from_raw_parts_mut(range.host(), bytes.len()) };
    reader.read_exact(target).map_err(|_| Status::InvalidParams)
}
