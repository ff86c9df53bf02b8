//! One attempt of one work request: who is reached, what is allowed, and the copy.
//! Invariant: not one byte is copied before keys, bounds and rights of both sides are checked.

use crate::gid::scope_of;
use crate::pair_state::QueuePairState;
use crate::queue::EndpointAddress;
use crate::region::RegionAccess;
use crate::work::{CompletionStatus, Sge};
use perigee_memory::{ByteRange, ByteRangeMut};

use super::region::LiveRegion;
use super::state::{FabricState, LocalBytes, PairState, PostedRequest};

/// How an attempt went.
pub(super) enum AttemptOutcome {
    /// It is over.
    Ended(CompletionStatus),
    /// No answer came.
    NoAnswer,
    /// The peer's queue pair refused it, and failed with it.
    Refused { peer: u32 },
}

pub(super) fn attempt(
    state: &FabricState,
    pair: &PairState,
    number: u32,
    work: &PostedRequest,
) -> AttemptOutcome {
    let Some((endpoint, _)) = pair.peer else {
        return AttemptOutcome::Ended(CompletionStatus::LocalOperation);
    };
    let bytes = work.local.bytes();
    let Some(local) = local_runs(state, pair, &work.local) else {
        return AttemptOutcome::Ended(CompletionStatus::LocalProtection);
    };
    if work.vanishes || !reaches(state, pair, number, &endpoint) {
        return AttemptOutcome::NoAnswer;
    }
    let Some(peer) = state.pairs.get(&endpoint.queue_pair) else {
        return AttemptOutcome::NoAnswer;
    };
    let reads = matches!(work.local, LocalBytes::Read(_));
    if bytes == 0 {
        return AttemptOutcome::Ended(CompletionStatus::Success);
    }
    let remote = (work.remote_address, work.remote_key);
    match remote_run(state, peer, remote, bytes, reads) {
        Some(remote) => {
            copy(&local, &remote, reads);
            AttemptOutcome::Ended(CompletionStatus::Success)
        }
        None => AttemptOutcome::Refused { peer: endpoint.queue_pair },
    }
}

fn reaches(state: &FabricState, pair: &PairState, number: u32, endpoint: &EndpointAddress) -> bool {
    let Some(peer) = state.pairs.get(&endpoint.queue_pair) else {
        return false;
    };
    let (here, there) = (&state.ports[pair.port], &state.ports[peer.port]);
    let own_gid = here.gids.iter().find(|gid| gid.index == pair.options.gid_index);
    let addressed = own_gid.is_some_and(|gid| gid.may_reach(&endpoint.gid))
        && scope_of(endpoint.gid) != crate::gid::GidReach::Unusable
        && there.gids.iter().any(|gid| gid.address == endpoint.gid);
    let joined = peer.state == QueuePairState::Connected
        && peer.peer.is_some_and(|(back, _)| back.queue_pair == number);
    let carried = here.up && there.up && !here.lost && !there.lost;
    addressed && joined && carried && !state.is_cut(pair.port, peer.port)
}

fn local_runs(
    state: &FabricState,
    pair: &PairState,
    local: &LocalBytes,
) -> Option<Vec<ByteRangeMut>> {
    let (pieces, writes) = match local {
        LocalBytes::Read(pieces) => (pieces, true),
        LocalBytes::Write(pieces) => (pieces, false),
        LocalBytes::Inline(data) => {
            return Some(vec![ByteRange::from(&data[..]).cast_mut()]);
        }
    };
    let run = |piece: &Sge| {
        let region = state.regions.get(&piece.local_key)?;
        let allowed = region.domain == pair.domain && (!writes || region.access.local_write);
        allowed.then(|| place(region, piece.address, u64::from(piece.bytes))).flatten()
    };
    pieces.iter().map(run).collect()
}

/// The bytes of a write as they are now; `None` for a read, or if its pieces are not registered.
pub(super) fn payload(
    state: &FabricState,
    pair: &PairState,
    local: &LocalBytes,
) -> Option<Vec<u8>> {
    if matches!(local, LocalBytes::Read(_)) {
        return None;
    }
    let mut bytes = Vec::new();
    for run in local_runs(state, pair, local)? {
        // SAFETY: the run lies in a region that is registered now, or in data that the request
        // owns; nothing writes to it while its write is under way.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(run.ptr, run.len) });
    }
    Some(bytes)
}

/// Carries out a write whose bytes left their sender long ago. False if keys or bounds do not allow
/// it.
pub(super) fn land(state: &FabricState, peer: &PairState, data: &[u8], remote: (u64, u32)) -> bool {
    let Some(place) = remote_run(state, peer, remote, data.len() as u64, false) else {
        return false;
    };
    let run = ByteRange::from(data).cast_mut();
    copy(&[run], &place, false);
    true
}

fn remote_run(
    state: &FabricState,
    peer: &PairState,
    (address, key): (u64, u32),
    bytes: u64,
    reads: bool,
) -> Option<ByteRangeMut> {
    let region = state.regions.get(&LiveRegion::local_of(key)?)?;
    let allows = |access: &RegionAccess| {
        if reads { access.remote_read } else { access.remote_write }
    };
    let allowed =
        region.domain == peer.domain && allows(&region.access) && allows(&peer.options.access);
    allowed.then(|| place(region, address, bytes)).flatten()
}

fn place(region: &LiveRegion, address: u64, bytes: u64) -> Option<ByteRangeMut> {
    let offset = address.checked_sub(region.address)?;
    let inside = offset.checked_add(bytes)? <= region.bytes;
    inside.then(|| ByteRangeMut::at(region.base as u64 + offset, bytes))
}

fn copy(local: &[ByteRangeMut], remote: &ByteRangeMut, reads: bool) {
    let mut offset = 0;
    for run in local {
        // SAFETY: both runs lie in regions that are registered now: their registration promised
        // that they are mapped (inline data is owned by the request). The pieces together are as
        // long as the remote run. No references to them exist, and `copy` allows an overlap.
        unsafe {
            let there = remote.ptr.add(offset);
            if reads {
                std::ptr::copy(there, run.ptr, run.len);
            } else {
                std::ptr::copy(run.ptr, there, run.len);
            }
        }
        offset += run.len;
    }
}
