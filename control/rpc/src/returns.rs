//! Read leases on their way back to the master. They go with the next call, so giving one back
//! costs nothing by itself.
//! Invariant: a lease is sent at most once; one that is lost on the way ends by time.

use crate::limits::{LEASES_PER_CALL, LEASES_WAITING_MAX};
use flatbuffers::FlatBufferBuilder;
use perigee_schemas::frame::{FrameHeader, HEADER_BYTES, MessageKind};
use perigee_schemas::master;
use std::sync::{Mutex, PoisonError};

/// A read lease that the master granted, as it wants it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Name in the answer to the lookup.
    pub name: u64,
    /// Generation of the first location there.
    pub generation: u64,
}

/// Leases that wait for the next call.
#[derive(Debug, Default)]
pub(crate) struct Returns(Mutex<Vec<Lease>>);

impl Returns {
    /// Adds one; beyond the bound it is left to end by time.
    pub(crate) fn add(&self, lease: Lease) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < LEASES_WAITING_MAX {
            waiting.push(lease);
        }
    }

    /// Takes as many as one call carries, in the place of what is in `taken`.
    pub(crate) fn take(&self, taken: &mut Vec<Lease>) {
        taken.clear();
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.len().checked_sub(LEASES_PER_CALL) {
            None => std::mem::swap(&mut *waiting, taken),
            Some(kept) => taken.extend(waiting.drain(kept..)),
        }
    }
}

/// Header and body of the frame that gives leases back. Nothing answers it.
pub(crate) fn frame<'a>(
    leases: &[Lease],
    builder: &'a mut FlatBufferBuilder<'static>,
) -> ([u8; HEADER_BYTES], &'a [u8]) {
    builder.reset();
    let names = leases.iter().map(|lease| lease.name);
    let generations = leases.iter().map(|lease| lease.generation);
    let args = master::GiveBackArgs {
        lease: Some(builder.create_vector_from_iter(names)),
        generation: Some(builder.create_vector_from_iter(generations)),
    };
    let root = master::GiveBack::create(builder, &args);
    builder.finish_minimal(root);
    let body = builder.finished_data();
    (FrameHeader::encode(MessageKind::GiveBack, 0, body), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(name: u64) -> Lease {
        Lease { name, generation: 1 }
    }

    #[test]
    fn a_call_carries_a_bounded_number_and_each_lease_goes_once() {
        let returns = Returns::default();
        for name in 0..LEASES_PER_CALL as u64 + 2 {
            returns.add(lease(name));
        }
        let (mut sent, mut more) = (Vec::new(), vec![lease(7)]);
        returns.take(&mut sent);
        assert_eq!(sent.len(), LEASES_PER_CALL);
        returns.take(&mut more);
        sent.extend(more);
        sent.sort_by_key(|lease| lease.name);
        assert!(sent.iter().map(|lease| lease.name).eq(0..LEASES_PER_CALL as u64 + 2));
        returns.take(&mut sent);
        assert_eq!(sent, []);
    }

    #[test]
    fn leases_beyond_the_bound_are_left_to_end_by_time() {
        let returns = Returns::default();
        for name in 0..LEASES_WAITING_MAX as u64 + 1 {
            returns.add(lease(name));
        }
        let (mut sent, mut taken) = (0, vec![lease(0)]);
        while !taken.is_empty() {
            returns.take(&mut taken);
            sent += taken.len();
        }
        assert_eq!(sent, LEASES_WAITING_MAX);
    }
}
