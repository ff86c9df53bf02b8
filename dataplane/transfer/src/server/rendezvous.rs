//! Handing out the segments' descriptors to clients of the same user on this host.
//!
//! The connection stays open: a client that sees it close drops its mappings, so memory of a dead or withdrawn segment
//! is not kept by others.

use crate::limits::RENDEZVOUS_DEADLINE;
use crate::segments::SegmentTable;
use perigee_memory::rendezvous::{Host, OfferedSegment, Reception, RendezvousError, send_segments};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

/// The thread that meets clients.
pub(crate) type RendezvousServer = Reception<Offering>;

/// What is handed out.
#[derive(Debug)]
pub(crate) struct Offering(pub(crate) Arc<SegmentTable>);

impl Host for Offering {
    type Guest = ();

    fn welcome(&self, stream: &UnixStream) -> Option<()> {
        let handed = self.hand_out(stream);
        let log = |error: &RendezvousError| {
            tracing::info!(%error, "A client on this host was not given the segments");
        };
        handed.inspect_err(log).ok()
    }
}

impl Offering {
    fn hand_out(&self, stream: &UnixStream) -> Result<(), RendezvousError> {
        let segments = self.0.list();
        let offers: Vec<OfferedSegment<'_>> = segments
            .iter()
            .map(|(id, segment)| OfferedSegment {
                id: id.0,
                segment_bytes: segment.len() as u64,
                fd: segment.fd(),
            })
            .collect();
        send_segments(stream, &offers, Instant::now() + RENDEZVOUS_DEADLINE)
    }
}
