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

    /// Takes as many as one call carries.
    pub(crate) fn take(&self) -> Vec<Lease> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.len().checked_sub(LEASES_PER_CALL) {
            None => std::mem::take(&mut *waiting),
            Some(kept) => waiting.split_off(kept),
        }
    }
}

/// The frame that gives leases back. Nothing answers it.
pub(crate) fn frame(leases: &[Lease]) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let names: Vec<u64> = leases.iter().map(|lease| lease.name).collect();
    let generations: Vec<u64> = leases.iter().map(|lease| lease.generation).collect();
    let args = master::GiveBackArgs {
        lease: Some(builder.create_vector(&names)),
        generation: Some(builder.create_vector(&generations)),
    };
    let root = master::GiveBack::create(&mut builder, &args);
    builder.finish_minimal(root);
    let body = builder.finished_data();
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.extend_from_slice(&FrameHeader::encode(MessageKind::GiveBack, 0, body));
    frame.extend_from_slice(body);
    frame
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
        let mut sent = returns.take();
        assert_eq!(sent.len(), LEASES_PER_CALL);
        sent.extend(returns.take());
        sent.sort_by_key(|lease| lease.name);
        assert!(sent.iter().map(|lease| lease.name).eq(0..LEASES_PER_CALL as u64 + 2));
        assert_eq!(returns.take(), []);
    }

    #[test]
    fn leases_beyond_the_bound_are_left_to_end_by_time() {
        let returns = Returns::default();
        for name in 0..LEASES_WAITING_MAX as u64 + 1 {
            returns.add(lease(name));
        }
        let mut sent = 0;
        while let taken @ 1.. = returns.take().len() {
            sent += taken;
        }
        assert_eq!(sent, LEASES_WAITING_MAX);
    }
}
