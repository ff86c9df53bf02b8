//! One queue pair with what is posted on it: order, signalling and bandwidth.
//!
//! Work completes in the order it was posted, so one signalled completion ends everything up to it.
//! What the device may still touch is exactly what is in `posted`; dropping the queue pair ends
//! that at once.

use crate::bandwidth::Bandwidth;
use crate::limits::{DOORBELL_BATCH, SIGNAL_BYTES, SIGNAL_EVERY};
use crate::proof::ProofSlot;
use crate::slab::SlabKey;
use perigee_verbs::{PostError, QueuePair, Sge, WorkOperation, WorkRequest};
use std::collections::VecDeque;
use std::time::Duration;

/// What a work request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkPurpose {
    /// A slice, by its slot.
    Slice(SlabKey),
    /// Proof that the pair works, or a liveness write.
    Proof,
}

/// A work request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostedWork {
    pub(crate) ticket: u64,
    pub(crate) work: WorkPurpose,
    pub(crate) bytes: u64,
    pub(crate) at: Duration,
    /// Asks for a completion; it stands for the unsignaled ones before it.
    pub(crate) signaled: bool,
}

/// One work request to post.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostOrder {
    pub(crate) work: WorkPurpose,
    pub(crate) write: bool,
    /// The local bytes may be read by this thread, so that they can travel inside the work request.
    pub(crate) inline: bool,
    pub(crate) piece: Sge,
    pub(crate) remote_address: u64,
    pub(crate) remote_key: u32,
}

/// A queue pair in use.
#[derive(Debug)]
pub(crate) struct Endpoint {
    queue_pair: Box<dyn QueuePair>,
    name: u32,
    posted: VecDeque<PostedWork>,
    next: u32,
    unsignaled: u32,
    unsignaled_bytes: u64,
    pub(crate) rail: usize,
    /// Where its address stood in the rail's table when it was made.
    pub(crate) gid_index: u32,
    pub(crate) bandwidth: Bandwidth,
    pub(crate) slot: ProofSlot,
    pub(crate) role: EndpointRole,
    pub(crate) moved_at: Duration,
    pub(crate) retiring: bool,
    /// The other end's number, once joined.
    pub(crate) joined_to: Option<u32>,
}

/// Whose end it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndpointRole {
    /// Ours: a lane to a peer.
    Lane {
        /// The peer's number.
        peer: u64,
        /// Its lane.
        lane: usize,
        /// The peer's rail that it was opened to.
        remote: usize,
    },
    /// Accepted for a peer, which reads and writes through it.
    Accepted(crate::accepted::AcceptedKey),
}

impl Endpoint {
    pub(crate) fn new(
        queue_pair: Box<dyn QueuePair>,
        (rail, gid_index): (usize, u32),
        slot: ProofSlot,
        bandwidth: Bandwidth,
        role: EndpointRole,
    ) -> Self {
        let entries = queue_pair.capacity().send_entries as usize;
        Self {
            queue_pair,
            name: 0,
            posted: VecDeque::with_capacity(entries),
            next: 0,
            unsignaled: 0,
            unsignaled_bytes: 0,
            rail,
            gid_index,
            bandwidth,
            slot,
            role,
            moved_at: Duration::ZERO,
            retiring: false,
            joined_to: None,
        }
    }

    /// Names the endpoint in the ids of its work requests.
    pub(crate) fn set_name(&mut self, key: SlabKey) {
        self.name = key.bits();
    }

    pub(crate) fn queue_pair(&mut self) -> &mut dyn QueuePair {
        self.queue_pair.as_mut()
    }

    /// Number of the queue pair on its device.
    pub(crate) fn number(&self) -> u32 {
        self.queue_pair.number()
    }

    /// The address it speaks from.
    pub(crate) fn address(&self) -> [u8; 16] {
        self.queue_pair.endpoint().gid
    }

    /// Work requests on their way, oldest first.
    pub(crate) fn posted(&self) -> &VecDeque<PostedWork> {
        &self.posted
    }

    /// Whether anything on its way will tell that it has arrived, and what was posted before it.
    pub(crate) fn awaits_completions(&self) -> bool {
        self.posted.iter().any(|posted| posted.signaled)
    }

    /// How many more work requests it takes.
    pub(crate) fn room(&self) -> usize {
        (self.queue_pair.capacity().send_entries as usize).saturating_sub(self.posted.len())
    }

    /// Posts a chain of at most [`DOORBELL_BATCH`] with one doorbell; the last one asks for a
    /// completion. `on_posted` gets each accepted order with its ticket. On an error the accepted
    /// ones are on their way.
    pub(crate) fn post(
        &mut self,
        orders: &[PostOrder],
        now: Duration,
        mut on_posted: impl FnMut(&PostOrder, u64),
    ) -> Result<(), PostError> {
        let orders = &orders[..orders.len().min(DOORBELL_BATCH)];
        let mut chain = [EMPTY; DOORBELL_BATCH];
        for (index, (request, order)) in chain.iter_mut().zip(orders).enumerate() {
            let last = index + 1 == orders.len();
            *request = self.request(order, self.next.wrapping_add(index as u32), last);
        }
        debug_assert!(!orders.is_empty(), "a doorbell is for something");
        debug_assert!(orders.len() <= self.room(), "the device has room for it");
        let result = self.queue_pair.post(&chain[..orders.len()]);
        let accepted = match &result {
            Ok(()) => orders.len(),
            Err(error) => error.accepted.min(orders.len()),
        };
        if self.posted.is_empty() {
            self.moved_at = now;
        }
        for (order, request) in orders.iter().zip(&chain).take(accepted) {
            let bytes = u64::from(order.piece.bytes);
            let (ticket, work) = (request.id, order.work);
            let at = now;
            self.posted.push_back(PostedWork {
                ticket,
                work,
                bytes,
                at,
                signaled: request.signaled,
            });
            self.next = self.next.wrapping_add(1);
            on_posted(order, ticket);
        }
        debug_assert!(accepted == orders.len() || result.is_err());
        result
    }

    fn request<'a>(&mut self, order: &'a PostOrder, sequence: u32, last: bool) -> WorkRequest<'a> {
        let bytes = order.piece.bytes;
        self.unsignaled += 1;
        self.unsignaled_bytes += u64::from(bytes);
        let signaled =
            last || self.unsignaled >= SIGNAL_EVERY || self.unsignaled_bytes >= SIGNAL_BYTES;
        if signaled {
            self.unsignaled = 0;
            self.unsignaled_bytes = 0;
        }
        let fits_inline = order.inline && bytes <= self.queue_pair.capacity().inline_bytes;
        let operation = if !order.write {
            WorkOperation::Read(std::slice::from_ref(&order.piece))
        } else if fits_inline {
            // SAFETY: the caller that submitted the request keeps the range readable until its end
            // is reported.
            WorkOperation::WriteInline(unsafe {
                std::slice::from_raw_parts(order.piece.address as *const u8, bytes as usize)
            })
        } else {
            WorkOperation::Write(std::slice::from_ref(&order.piece))
        };
        WorkRequest {
            id: u64::from(self.name) << 32 | u64::from(sequence),
            operation,
            remote_address: order.remote_address,
            remote_key: order.remote_key,
            signaled,
        }
    }

    /// Whether this id is on its way here.
    pub(crate) fn knows(&self, ticket: u64) -> bool {
        let Some(first) = self.posted.front() else {
            return false;
        };
        let distance = (ticket as u32).wrapping_sub(first.ticket as u32) as usize;
        ticket >> 32 == first.ticket >> 32 && distance < self.posted.len()
    }

    /// Takes the oldest work request off, if it was posted no later than `ticket`, which
    /// [`Endpoint::knows`].
    pub(crate) fn pop_through(&mut self, ticket: u64) -> Option<PostedWork> {
        let first = self.posted.front()?.ticket;
        let distance = (ticket as u32).wrapping_sub(first as u32) as i32;
        if distance < 0 {
            return None;
        }
        self.posted.pop_front()
    }

    /// Panics unless tickets follow each other and bytes in flight are those of what was posted.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let entries = self.queue_pair.capacity().send_entries as usize;
        assert!(self.posted.len() <= entries, "the device has room for it");
        let follows = |(first, next): (&PostedWork, &PostedWork)| {
            (first.ticket as u32).wrapping_add(1) == next.ticket as u32
        };
        let next = self.posted.iter().skip(1);
        assert!(self.posted.iter().zip(next).all(follows), "tickets in order");
        let of_slice = |posted: &&PostedWork| matches!(posted.work, WorkPurpose::Slice(_));
        let slices = self.posted.iter().filter(of_slice);
        let bytes: u64 = slices.map(|posted| posted.bytes).sum();
        assert_eq!(self.bandwidth.in_flight(), bytes, "bytes in flight");
    }

    /// Ends the queue pair: the device touches no memory for it any more. Returns what was on its
    /// way.
    pub(crate) fn end(self) -> VecDeque<PostedWork> {
        drop(self.queue_pair);
        self.posted
    }
}

const EMPTY: WorkRequest<'static> = WorkRequest {
    id: 0,
    operation: WorkOperation::Write(&[]),
    remote_address: 0,
    remote_key: 0,
    signaled: false,
};

/// The endpoint that a completion's id names.
pub(crate) fn endpoint_of(ticket: u64) -> SlabKey {
    SlabKey::from_bits((ticket >> 32) as u32)
}
