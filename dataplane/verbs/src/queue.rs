//! Completion queues and reliable connected queue pairs.
//! Invariant: a queue pair is made through the completion queue that reports for it and keeps that
//! queue alive, so no completion ever names a queue that is gone.

use std::fmt;
use std::os::fd::BorrowedFd;

use crate::capacity::QueuePairCapacity;
use crate::error::{PostError, VerbsError};
use crate::limits::{
    MTU_BYTES_MAX, READS_OUTSTANDING_DEFAULT, RETRIES_MAX, SEND_ENTRIES_DEFAULT,
    TIMEOUT_EXPONENT_DEFAULT, TIMEOUT_EXPONENT_MAX,
};
use crate::region::RegionAccess;
use crate::work::{WorkCompletion, WorkRequest};

/// Where the ends of work requests arrive. May be polled from any thread; meant for one.
pub trait CompletionQueue: Send + Sync + fmt::Debug {
    /// Takes up to `into.len()` completions and returns how many were taken.
    fn poll(&self, into: &mut [WorkCompletion]) -> Result<usize, VerbsError>;

    /// Makes [`CompletionQueue::event_fd`] readable at the next completion, once. Poll again after
    /// arming: what arrived before does not count.
    fn arm(&self) -> Result<(), VerbsError>;

    /// Readable after a completion arrived on the armed queue.
    fn event_fd(&self) -> BorrowedFd<'_>;

    /// Takes the events that made the descriptor readable and returns how many there were.
    fn drain_events(&self) -> Result<usize, VerbsError>;

    /// Completions the queue can hold. The work requests waiting on all its queue pairs must never
    /// be more: a queue that overflows is lost.
    fn entries(&self) -> u32;

    /// A queue pair that reports here, not yet connected.
    fn queue_pair(&self, options: &QueuePairOptions) -> Result<Box<dyn QueuePair>, VerbsError>;
}

/// One end of a reliable connection.
pub trait QueuePair: Send + fmt::Debug {
    /// Number, unique on the device.
    fn number(&self) -> u32;

    /// What the peer needs to connect to this end.
    fn endpoint(&self) -> &EndpointAddress;

    /// What was granted: never more than asked, and for inline data perhaps less.
    fn capacity(&self) -> QueuePairCapacity;

    /// Joins this end to `remote`. Both ends have to do it; nothing is sent, so an unreachable peer
    /// shows only with the first work request.
    fn connect(
        &mut self,
        remote: &EndpointAddress,
        options: &ConnectOptions,
    ) -> Result<(), VerbsError>;

    /// Hands the requests to the device in order, with one doorbell per
    /// [`crate::limits::CHAIN_MAX`]. On an error the requests before `accepted` are on their way,
    /// the others are not.
    fn post(&mut self, chain: &[WorkRequest<'_>]) -> Result<(), PostError>;

    /// The state as the device sees it now.
    fn state(&self) -> Result<QueuePairState, VerbsError>;

    /// Moves to the error state: all that waits completes as flushed, nothing new is accepted.
    fn fail(&mut self) -> Result<(), VerbsError>;
}

/// What a queue pair is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairOptions {
    /// Entry of the device's GID table to speak from.
    pub gid_index: u32,
    /// Entry of the port's partition key table.
    pub partition_index: u16,
    /// Largest packet payload in bytes, unless the port takes less. Peers hear of it in the
    /// endpoint, and the connection takes the least of both ends.
    pub mtu_bytes: u32,
    /// Work requests that may wait.
    pub send_entries: u32,
    /// Pieces of one work request.
    pub pieces: u32,
    /// Inline bytes wished for; the device may grant less.
    pub inline_bytes: u32,
    /// What peers may do through this queue pair, whatever the region allows.
    pub access: RegionAccess,
}

impl Default for QueuePairOptions {
    fn default() -> QueuePairOptions {
        QueuePairOptions {
            gid_index: 0,
            partition_index: 0,
            mtu_bytes: MTU_BYTES_MAX,
            send_entries: SEND_ENTRIES_DEFAULT,
            pieces: 1,
            inline_bytes: 0,
            access: RegionAccess::ALL,
        }
    }
}

/// The address of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointAddress {
    /// Global identifier of the port, in network order.
    pub gid: [u8; 16],
    /// Local identifier on InfiniBand; 0 on Ethernet.
    pub lid: u16,
    /// Number of the queue pair, 24 bits.
    pub queue_pair: u32,
    /// First packet sequence number that this end sends, 24 bits.
    pub sequence: u32,
    /// Largest packet payload that this end takes, in bytes.
    pub mtu_bytes: u32,
}

/// How a connection behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// One attempt waits 4.096 us times 2 to this power for an answer; 1 to 31. Devices round up.
    pub timeout_exponent: u8,
    /// Attempts after the first, 0 to 6: 7 is forever on some devices and therefore refused.
    pub retries: u8,
    /// Attempts when the peer is not ready, 0 to 6.
    pub rnr_retries: u8,
    /// Reads outstanding at a time; cut to what the device allows.
    pub reads_outstanding: u8,
    /// Traffic class (RoCE: DSCP and ECN bits).
    pub traffic_class: u8,
    /// Service level (RoCE: priority).
    pub service_level: u8,
    /// Routers a packet may pass.
    pub hop_limit: u8,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions {
            timeout_exponent: TIMEOUT_EXPONENT_DEFAULT,
            retries: RETRIES_MAX,
            rnr_retries: RETRIES_MAX,
            reads_outstanding: READS_OUTSTANDING_DEFAULT,
            traffic_class: 0,
            service_level: 0,
            hop_limit: 64,
        }
    }
}

impl ConnectOptions {
    /// Whether a connection with these options gives up some time, and the fields fit their bits.
    pub(crate) fn check(&self, device: &str) -> Result<(), VerbsError> {
        let too_much = |what, asked: u8, limit: u8| {
            Err(VerbsError::TooMuch {
                device: device.to_owned(),
                what,
                asked: u64::from(asked),
                limit: u64::from(limit),
            })
        };
        if self.timeout_exponent == 0 || self.timeout_exponent > TIMEOUT_EXPONENT_MAX {
            // Zero means forever on InfiniBand, which is more than the limit too.
            return too_much(
                "Timeout exponent (0 is for ever)",
                self.timeout_exponent,
                TIMEOUT_EXPONENT_MAX,
            );
        }
        if self.retries > RETRIES_MAX {
            return too_much("Number of retries", self.retries, RETRIES_MAX);
        }
        if self.rnr_retries > RETRIES_MAX {
            return too_much("Number of retries of an unready peer", self.rnr_retries, RETRIES_MAX);
        }
        Ok(())
    }
}

/// Where a queue pair is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePairState {
    /// Made, not connected.
    Unconnected,
    /// Connected and usable.
    Connected,
    /// Failed; can only be dropped.
    Failed,
}
