//! Segments of other processes on this host, mapped here.

use crate::limits::{OWNER_CHECK_MS, RENDEZVOUS_DEADLINE, SHARED_MEMORY_RETRY};
use crate::place::SegmentAddress;
use perigee_memory::MappedSegment;
use perigee_memory::rendezvous::{ReceivedSegment, connect, recv_segments};
use perigee_memory::segment::Access;
use perigee_schemas::Identity;
use perigee_shard::monotonic_ms;
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

/// Mappings by segment. A mapping lasts as long as its owner keeps the rendezvous connection open.
#[derive(Debug, Default)]
pub(crate) struct SharedMemory {
    mapped: RwLock<HashMap<Identity, Mapping>>,
    owners: Mutex<Vec<Owner>>,
    swept_ms: AtomicU64,
}

#[derive(Debug)]
enum Mapping {
    Ready(Arc<MappedSegment>),
    Refused { until: Instant },
}

#[derive(Debug)]
struct Owner {
    stream: UnixStream,
    segments: Vec<Identity>,
}

impl SharedMemory {
    /// The mapping of a segment, made on first use; `None` if its memory cannot be shared.
    pub(crate) fn get(&self, address: &SegmentAddress) -> Option<Arc<MappedSegment>> {
        self.sweep_if_due();
        match self
            .mapped
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&address.id)
        {
            Some(Mapping::Ready(segment)) => return Some(segment.clone()),
            Some(Mapping::Refused { until }) if Instant::now() < *until => return None,
            _ => {}
        }
        self.meet(address);
        match self
            .mapped
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&address.id)
        {
            Some(Mapping::Ready(segment)) => Some(segment.clone()),
            _ => None,
        }
    }

    /// A mapping outlives its owner, so it says nothing of whether the bytes are still kept: owners are asked often.
    fn sweep_if_due(&self) {
        let now = monotonic_ms();
        let swept = self.swept_ms.load(Ordering::Relaxed);
        let due = now >= swept + OWNER_CHECK_MS;
        if due
            && self
                .swept_ms
                .compare_exchange(swept, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.sweep();
        }
    }

    /// Drops the mappings of owners that have gone or withdrawn theirs.
    pub(crate) fn sweep(&self) {
        let mut gone = Vec::new();
        self.owners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain_mut(|owner| {
                let closed = matches!(owner.stream.read(&mut [0; 1]), Ok(0));
                if closed {
                    gone.append(&mut owner.segments);
                }
                !closed
            });
        if !gone.is_empty() {
            let mut mapped = self.mapped.write().unwrap_or_else(PoisonError::into_inner);
            gone.iter().for_each(|id| drop(mapped.remove(id)));
        }
    }

    fn meet(&self, address: &SegmentAddress) {
        let deadline = Instant::now() + RENDEZVOUS_DEADLINE;
        let received = connect(&address.rendezvous, deadline)
            .and_then(|stream| recv_segments(&stream, deadline).map(|segments| (stream, segments)));
        // Mapping takes long and readers must not wait for it, so the table is locked only to take the result.
        let memories = match received {
            Ok((stream, segments)) => {
                let memories: Vec<_> = segments.into_iter().filter_map(map).collect();
                let _ = stream.set_nonblocking(true);
                let segments = memories.iter().map(|(id, _)| *id).collect();
                self.owners
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(Owner { stream, segments });
                memories
            }
            Err(error) => {
                tracing::debug!(%error, "No shared memory with this owner, TCP is used");
                Vec::new()
            }
        };
        let mut mapped = self.mapped.write().unwrap_or_else(PoisonError::into_inner);
        for (id, memory) in memories {
            mapped.insert(id, Mapping::Ready(Arc::new(memory)));
        }
        let usable = |mapping: &Mapping| match mapping {
            Mapping::Ready(segment) => segment.len() as u64 == address.bytes,
            Mapping::Refused { .. } => false,
        };
        if !mapped.get(&address.id).is_some_and(usable) {
            let until = Instant::now() + SHARED_MEMORY_RETRY;
            mapped.insert(address.id, Mapping::Refused { until });
        }
    }
}

fn map(segment: ReceivedSegment) -> Option<(Identity, MappedSegment)> {
    let id = Identity(segment.id);
    match MappedSegment::map(segment.fd, segment.segment_bytes, Access::ReadWrite) {
        Ok(memory) => Some((id, memory)),
        Err(error) => {
            tracing::info!(%error, segment = %id, "Shared memory refused, TCP is used");
            None
        }
    }
}
