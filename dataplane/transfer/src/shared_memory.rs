//! Segments of other processes on this host, mapped here.

use crate::limits::{RENDEZVOUS_DEADLINE, SHARED_MEMORY_RETRY};
use crate::place::SegmentAddress;
use perigee_memory::MappedSegment;
use perigee_memory::rendezvous::{connect, recv_segments};
use perigee_memory::segment::Access;
use perigee_schemas::Identity;
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

/// Mappings by segment. A mapping lasts as long as its owner keeps the rendezvous connection open.
#[derive(Debug, Default)]
pub(crate) struct SharedMemory {
    mapped: RwLock<HashMap<Identity, Mapping>>,
    owners: Mutex<Vec<Owner>>,
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
        let mut mapped = self.mapped.write().unwrap_or_else(PoisonError::into_inner);
        match received {
            Ok((stream, segments)) => {
                let mut ids = Vec::new();
                for segment in segments {
                    let id = Identity(segment.id);
                    match MappedSegment::map(segment.fd, segment.segment_bytes, Access::ReadWrite) {
                        Ok(memory) => {
                            mapped.insert(id, Mapping::Ready(Arc::new(memory)));
                            ids.push(id);
                        }
                        Err(error) => {
                            tracing::info!(%error, segment = %id, "Shared memory refused, TCP is used");
                        }
                    }
                }
                let _ = stream.set_nonblocking(true);
                self.owners
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(Owner {
                        stream,
                        segments: ids,
                    });
            }
            Err(error) => tracing::debug!(%error, "No shared memory with this owner, TCP is used"),
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
