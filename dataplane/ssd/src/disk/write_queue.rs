//! Objects that wait to be written, and those that are on their way.
//! Invariant: each object of a call is decided once, and the call is answered with the last of
//! them.

use super::command::{Outgoing, VoidCopy, WritePromise};
use super::error::WriteError;
use crate::limits::{BATCH_BYTES_MAX, BATCH_ENTRIES_BYTES};
use perigee_schemas::disk_address::DiskAddress;
use perigee_schemas::extent::extent_bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

type WriteResult = Result<DiskAddress, WriteError>;

/// A call and what is decided of it.
struct WriteCall {
    results: Vec<Option<WriteResult>>,
    left: usize,
    promise: Option<WritePromise>,
}

/// The place of one object in its call.
#[derive(Clone)]
pub(super) struct WriteTicket {
    call: Rc<RefCell<WriteCall>>,
    index: usize,
}

impl WriteTicket {
    pub(super) fn decide(self, result: WriteResult) {
        let mut call = self.call.borrow_mut();
        let is_first = call.results[self.index].replace(result).is_none();
        debug_assert!(is_first, "each object of a call is decided once");
        if is_first {
            call.left -= 1;
        }
        if call.left == 0
            && let Some(promise) = call.promise.take()
        {
            promise.give(call.results.drain(..).flatten().collect());
        }
    }
}

/// An object that waits.
pub(super) struct QueuedObject {
    pub(super) outgoing: Outgoing,
    pub(super) ticket: WriteTicket,
}

impl QueuedObject {
    pub(super) fn bytes(&self) -> u64 {
        extent_bytes(u64::from(self.outgoing.object.payload_bytes))
    }
}

/// What waits, and what is under way.
#[derive(Default)]
pub(super) struct WriteQueue {
    waiting: VecDeque<QueuedObject>,
    waiting_bytes: u64,
    /// Since when the oldest waits.
    since: Option<Duration>,
    /// Objects in batches that are not announced, by their packed addresses.
    placed: BTreeMap<u64, WriteTicket>,
}

impl WriteQueue {
    /// Tickets for the objects of a call. One without objects is answered at once.
    pub(super) fn begin_call(objects: usize, promise: WritePromise) -> Vec<WriteTicket> {
        if objects == 0 {
            promise.give(Vec::new());
            return Vec::new();
        }
        let results = std::iter::repeat_with(|| None).take(objects).collect();
        let call = WriteCall { results, left: objects, promise: Some(promise) };
        let call = Rc::new(RefCell::new(call));
        (0..objects).map(|index| WriteTicket { call: call.clone(), index }).collect()
    }

    pub(super) fn push(&mut self, waiting: QueuedObject, now: Duration) {
        self.waiting_bytes += waiting.bytes();
        self.since.get_or_insert(now);
        self.waiting.push_back(waiting);
        self.check();
    }

    fn check(&self) {
        let is_idle = self.waiting.is_empty();
        debug_assert_eq!(is_idle, self.waiting_bytes == 0, "bytes that wait are those of objects");
        debug_assert_eq!(is_idle, self.since.is_none(), "what waits has its time");
    }

    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    pub(super) fn since(&self) -> Option<Duration> {
        self.since
    }

    /// The next objects that fit into one batch.
    pub(super) fn take(&mut self, now: Duration) -> Vec<QueuedObject> {
        let (mut taken, mut bytes, mut entries) = (Vec::new(), 0, 0);
        while let Some(next) = self.waiting.front() {
            bytes += next.bytes();
            entries += next.outgoing.object.entry_bytes();
            if !taken.is_empty() && (bytes > BATCH_BYTES_MAX || entries > BATCH_ENTRIES_BYTES) {
                break;
            }
            self.waiting_bytes -= next.bytes();
            taken.extend(self.waiting.pop_front());
        }
        self.since = (!self.waiting.is_empty()).then_some(now);
        self.check();
        taken
    }

    pub(super) fn place(&mut self, address: DiskAddress, ticket: WriteTicket) {
        let is_new = self.placed.insert(address.pack(), ticket).is_none();
        debug_assert!(is_new, "no two objects on their way have one place");
    }

    pub(super) fn take_placed(&mut self, address: DiskAddress) -> Option<WriteTicket> {
        self.placed.remove(&address.pack())
    }

    /// All objects on their way to a segment.
    pub(super) fn take_placed_in(&mut self, sequence: u32) -> Vec<WriteTicket> {
        let first = DiskAddress { sequence, offset: 0 }.pack();
        let last = DiskAddress { sequence, offset: u32::MAX }.pack();
        let found: Vec<u64> = self.placed.range(first..=last).map(|(place, _)| *place).collect();
        found.into_iter().filter_map(|place| self.placed.remove(&place)).collect()
    }

    /// Takes out what waits and is void before it was written: a tombstone would lie before it.
    pub(super) fn take_void(&mut self, copies: &[VoidCopy]) -> Vec<WriteTicket> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let void: HashSet<_> = copies.iter().map(|copy| (copy.hash, copy.generation)).collect();
        let mut taken = Vec::new();
        self.waiting.retain(|waiting| {
            let object = &waiting.outgoing.object;
            let is_void = void.contains(&(object.hash, object.generation));
            if is_void {
                self.waiting_bytes -= waiting.bytes();
                taken.push(waiting.ticket.clone());
            }
            !is_void
        });
        self.since.take_if(|_| self.waiting.is_empty());
        self.check();
        taken
    }

    /// Everything that waits.
    pub(super) fn take_waiting(&mut self) -> Vec<WriteTicket> {
        self.waiting_bytes = 0;
        self.since = None;
        self.waiting.drain(..).map(|waiting| waiting.ticket).collect()
    }

    /// Everything that waits or is under way.
    pub(super) fn take_all(&mut self) -> Vec<WriteTicket> {
        let waiting = self.take_waiting().into_iter();
        waiting.chain(std::mem::take(&mut self.placed).into_values()).collect()
    }
}
