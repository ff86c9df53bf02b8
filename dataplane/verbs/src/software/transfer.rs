//! One attempt of one work request: who is reached, what is allowed, and the copy.
//! Invariant: not one byte is copied before keys, bounds and rights of both sides are checked.

use crate::gid::scope_of;
use crate::queue::{Endpoint, QueuePairState};
use crate::region::Access;
use crate::work::{CompletionStatus, Piece};

use super::region::Registered;
use super::state::{Local, Pair, Posted, State};

/// How an attempt went.
pub(super) enum Outcome {
    /// It is over.
    Ended(CompletionStatus),
    /// Nobody answered.
    NoAnswer,
    /// The peer's queue pair refused it, and failed with it.
    Refused { peer: u32 },
}

/// A run of bytes that was checked.
struct Run {
    base: *mut u8,
    bytes: usize,
}

pub(super) fn attempt(state: &State, pair: &Pair, number: u32, work: &Posted) -> Outcome {
    let Some((endpoint, _)) = pair.peer else {
        return Outcome::Ended(CompletionStatus::LocalOperation);
    };
    let bytes = work.local.bytes();
    let Some(local) = local_runs(state, pair, &work.local) else {
        return Outcome::Ended(CompletionStatus::LocalProtection);
    };
    if work.vanishes || !reaches(state, pair, number, &endpoint) {
        return Outcome::NoAnswer;
    }
    let Some(peer) = state.pairs.get(&endpoint.queue_pair) else {
        return Outcome::NoAnswer;
    };
    let reads = matches!(work.local, Local::Read(_));
    if bytes == 0 {
        return Outcome::Ended(CompletionStatus::Success);
    }
    let remote = (work.remote_address, work.remote_key);
    match remote_run(state, peer, remote, bytes, reads) {
        Some(remote) => {
            copy(&local, &remote, reads);
            Outcome::Ended(CompletionStatus::Success)
        }
        None => Outcome::Refused {
            peer: endpoint.queue_pair,
        },
    }
}

fn reaches(state: &State, pair: &Pair, number: u32, endpoint: &Endpoint) -> bool {
    let Some(peer) = state.pairs.get(&endpoint.queue_pair) else {
        return false;
    };
    let (here, there) = (&state.ports[pair.port], &state.ports[peer.port]);
    let own_gid = here
        .gids
        .iter()
        .find(|gid| gid.index == pair.options.gid_index);
    let addressed = own_gid.is_some_and(|gid| gid.may_reach(&endpoint.gid))
        && scope_of(endpoint.gid) != crate::gid::GidScope::Unusable
        && there.gids.iter().any(|gid| gid.address == endpoint.gid);
    let joined = peer.state == QueuePairState::Connected
        && peer.peer.is_some_and(|(back, _)| back.queue_pair == number);
    let carried = here.up && there.up && !here.lost && !there.lost;
    addressed && joined && carried && !state.is_cut(pair.port, peer.port)
}

fn local_runs(state: &State, pair: &Pair, local: &Local) -> Option<Vec<Run>> {
    let (pieces, writes) = match local {
        Local::Read(pieces) => (pieces, true),
        Local::Write(pieces) => (pieces, false),
        Local::Inline(data) => {
            return Some(vec![Run {
                base: data.as_ptr().cast_mut(),
                bytes: data.len(),
            }]);
        }
    };
    let run = |piece: &Piece| {
        let region = state.regions.get(&piece.local_key)?;
        let allowed = region.domain == pair.domain && (!writes || region.access.local_write);
        allowed
            .then(|| place(region, piece.address, u64::from(piece.bytes)))
            .flatten()
    };
    pieces.iter().map(run).collect()
}

/// The bytes of a write as they are now; `None` for a read, or if its pieces are not registered.
pub(super) fn payload(state: &State, pair: &Pair, local: &Local) -> Option<Vec<u8>> {
    if matches!(local, Local::Read(_)) {
        return None;
    }
    let mut bytes = Vec::new();
    for run in local_runs(state, pair, local)? {
        // SAFETY: the run lies in a region that is registered now, or in data that the request owns; nobody writes to it
        // while its write is under way.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(run.base, run.bytes) });
    }
    Some(bytes)
}

/// Carries out a write whose bytes left their sender long ago. False if keys or bounds do not allow it.
pub(super) fn land(state: &State, peer: &Pair, data: &[u8], remote: (u64, u32)) -> bool {
    let Some(place) = remote_run(state, peer, remote, data.len() as u64, false) else {
        return false;
    };
    let run = Run {
        base: data.as_ptr().cast_mut(),
        bytes: data.len(),
    };
    copy(&[run], &place, false);
    true
}

fn remote_run(
    state: &State,
    peer: &Pair,
    (address, key): (u64, u32),
    bytes: u64,
    reads: bool,
) -> Option<Run> {
    let region = state.regions.get(&Registered::local_of(key)?)?;
    let allows = |access: &Access| {
        if reads {
            access.remote_read
        } else {
            access.remote_write
        }
    };
    let allowed =
        region.domain == peer.domain && allows(&region.access) && allows(&peer.options.access);
    allowed.then(|| place(region, address, bytes)).flatten()
}

fn place(region: &Registered, address: u64, bytes: u64) -> Option<Run> {
    let offset = address.checked_sub(region.address)?;
    let inside = offset.checked_add(bytes)? <= region.bytes;
    inside.then(|| Run {
        base: (region.base + offset as usize) as *mut u8,
        bytes: bytes as usize,
    })
}

fn copy(local: &[Run], remote: &Run, reads: bool) {
    let mut offset = 0;
    for run in local {
        // SAFETY: both runs lie in regions that are registered now: whoever registered them promised
        // that they are mapped (inline data is owned by the request). The pieces together are as long
        // as the remote run. Nobody holds references to them, and `copy` allows an overlap.
        unsafe {
            let there = remote.base.add(offset);
            if reads {
                std::ptr::copy(there, run.base, run.bytes);
            } else {
                std::ptr::copy(run.base, there, run.bytes);
            }
        }
        offset += run.bytes;
    }
}
