//! A batch in flight: the state of each request, what the caller waits for, and what happens at its
//! end.
//!
//! Routes report piece by piece from any thread. The invariant: a request becomes final only when
//! its last piece has been reported, and from then on its memory is not touched.

pub(crate) mod submission;
pub(crate) mod table;
pub(crate) mod traced_batch;

use crate::batch::traced_batch::TracedBatch;
use crate::error::EngineError;
use crate::registry::RegionUse;
use crate::request::{RequestStatus, TransferState};
use perigee_activity::Request;
use perigee_device::GivenDevices;
use perigee_mover::{PeerError, SPIN, STALL_CHECK};
use perigee_rails::BatchTicket;
use perigee_shard::SpinWait;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What happens when the last request has become final; runs on the thread that reports it.
pub(crate) type AtEnd = Box<dyn FnOnce(&Batch) + Send>;

/// What happens when a batch is taken back.
pub(crate) type AtCancel = Box<dyn FnOnce() + Send>;

/// Requests that were submitted together.
pub(crate) struct Batch {
    requests: Box<[RequestProgress]>,
    pending: AtomicUsize,
    canceled: AtomicBool,
    end: Mutex<End>,
    changed: Condvar,
    /// Set if some local memory is a device's: its bytes are staged slice by slice.
    devices: Option<GivenDevices>,
    /// What follows it for who traces requests; nothing for a batch of a shard.
    traced: Option<TracedBatch>,
}

#[derive(Default)]
struct End {
    reached: bool,
    first_error: Option<EngineError>,
    /// Bytes of a piece that failed may still arrive.
    in_doubt: bool,
    action: Option<AtEnd>,
    /// What follows that, if set.
    after: Option<AtEnd>,
    /// What the rails know the batch by.
    ticket: Option<BatchTicket>,
    at_cancel: Option<AtCancel>,
    /// Keeps registered local memory from being unregistered.
    uses: Vec<Arc<RegionUse>>,
}

/// One request: pieces that have not reported, the worst that happened, bytes in place.
#[derive(Debug, Default)]
struct RequestProgress {
    left: AtomicU32,
    state: AtomicU8,
    worst: AtomicU8,
    moved: AtomicU64,
}

impl Batch {
    /// A batch whose request `i` consists of `pieces[i]` pieces; a request without pieces is
    /// completed at once.
    pub(crate) fn new(
        pieces: impl ExactSizeIterator<Item = u32>,
        uses: Vec<Arc<RegionUse>>,
        devices: Option<GivenDevices>,
        traced: Option<TracedBatch>,
        action: Option<AtEnd>,
    ) -> Self {
        let requests: Box<[RequestProgress]> = pieces.map(RequestProgress::new).collect();
        let pending = requests.iter().filter(|progress| !progress.is_final()).count();
        let batch = Self {
            requests,
            pending: AtomicUsize::new(pending),
            canceled: AtomicBool::new(false),
            end: Mutex::new(End { action, uses, ..End::default() }),
            changed: Condvar::new(),
            devices,
            traced,
        };
        if pending == 0 {
            batch.reach_end();
        }
        batch
    }

    /// The devices that some of its local memory may be on.
    pub(crate) fn devices(&self) -> Option<&GivenDevices> {
        self.devices.as_ref()
    }

    /// The request of the program that it is, if that is traced.
    pub(crate) fn traced(&self) -> Option<&Request> {
        self.traced.as_ref().map(TracedBatch::request)
    }

    /// A piece of a request is in place.
    pub(crate) fn moved(&self, request: u32, bytes: u64) {
        let progress = &self.requests[request as usize];
        progress.moved.fetch_add(bytes, Ordering::Relaxed);
        self.account(progress);
    }

    /// A piece of a request will not move. The error of the first one is kept for the caller.
    pub(crate) fn failed(&self, request: u32, error: &EngineError) {
        let progress = &self.requests[request as usize];
        progress.worst.fetch_max(error.state() as u8, Ordering::Relaxed);
        let mut end = self.lock();
        end.in_doubt |= error.may_still_arrive();
        end.first_error.get_or_insert_with(|| error.clone());
        drop(end);
        self.account(progress);
    }

    /// Whether the caller took the batch back: what has not begun need not begin.
    pub(crate) fn is_canceled(&self) -> bool {
        self.canceled.load(Ordering::Relaxed)
    }

    /// Takes the batch back. Requests become final as routes let go of their memory.
    pub(crate) fn cancel(&self) {
        self.canceled.store(true, Ordering::Relaxed);
    }

    /// Has something happen when it has been taken back, which may be now.
    pub(crate) fn when_taken_back(&self, action: AtCancel) {
        let mut end = self.lock();
        if !self.canceled.load(Ordering::Relaxed) {
            end.at_cancel = Some(action);
            return;
        }
        drop(end);
        action();
    }

    /// Follows [`Batch::cancel`], where requests may become final on this thread.
    pub(crate) fn taken_back(&self) {
        let action = self.lock().at_cancel.take();
        action.into_iter().for_each(|action| action());
    }

    /// Has something happen at its end, after all else. Meant for batches that have not begun.
    pub(crate) fn then(&self, after: AtEnd) {
        let mut end = self.lock();
        debug_assert!(end.after.is_none(), "one thing follows a batch");
        end.after = Some(after);
    }

    /// The rails have it under this ticket.
    pub(crate) fn set_ticket(&self, ticket: BatchTicket) {
        let mut end = self.lock();
        debug_assert!(end.ticket.is_none(), "the rails have a batch once");
        end.ticket = Some(ticket);
    }

    /// What the rails know it by, if they have it.
    pub(crate) fn ticket(&self) -> Option<BatchTicket> {
        self.lock().ticket
    }

    /// Whether every request is final.
    pub(crate) fn is_over(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 0
    }

    /// How far one request is.
    pub(crate) fn request(&self, index: usize) -> Option<RequestStatus> {
        self.requests.get(index).map(RequestProgress::status)
    }

    /// How far the whole batch is: pending until all requests are final, then the worst of them.
    pub(crate) fn status(&self) -> RequestStatus {
        let over = self.is_over();
        let mut all = RequestStatus {
            state: if over { TransferState::Completed } else { TransferState::Pending },
            bytes: 0,
        };
        for status in self.requests.iter().map(RequestProgress::status) {
            all.bytes += status.bytes;
            if over && severity(status.state) > severity(all.state) {
                all.state = status.state;
            }
        }
        all
    }

    /// The first error, or that all went well. Meant for batches that are over.
    pub(crate) fn outcome(&self) -> Result<(), EngineError> {
        self.lock().first_error.clone().map_or(Ok(()), Err)
    }

    /// Whether all of it failed without a byte sent because the peer is not where it was, or not
    /// who it was. Meant for batches that are over.
    pub(crate) fn is_worth_a_second_try(&self) -> bool {
        let elsewhere = |error: &EngineError| {
            matches!(
                error,
                EngineError::Peer(PeerError::Unreachable { .. })
                    | EngineError::Peer(PeerError::Restarted { .. })
            )
        };
        let is_elsewhere = self.outcome().is_err_and(|error| elsewhere(&error));
        is_elsewhere && self.has_moved_nothing() && !self.lock().in_doubt
    }

    /// Whether no byte of it has moved.
    pub(crate) fn has_moved_nothing(&self) -> bool {
        let unmoved = |progress: &RequestProgress| progress.moved.load(Ordering::Relaxed) == 0;
        self.requests.iter().all(unmoved)
    }

    /// What failed has failed for another reason than was known before. Meant for batches that are
    /// over.
    pub(crate) fn overrule(&self, error: &EngineError) {
        debug_assert!(self.is_over(), "only what is final is overruled");
        let failed =
            |progress: &&RequestProgress| progress.status().state != TransferState::Completed;
        for progress in self.requests.iter().filter(failed) {
            progress.state.store(error.state() as u8, Ordering::Release);
        }
        self.lock().first_error = Some(error.clone());
    }

    /// Waits for the end, at most `limit`; true if it was reached.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let mut patience = match self.ticket() {
            Some(_) => SpinWait::for_device(limit),
            None => SpinWait::new(SPIN.min(limit)),
        };
        while !self.is_over() {
            if !patience.watch_on() {
                return self.sleep(limit);
            }
        }
        // The end's action may still run; a waiting caller must not overtake it.
        self.sleep(limit.max(STALL_CHECK))
    }

    fn sleep(&self, limit: Duration) -> bool {
        let deadline = Instant::now().checked_add(limit);
        let mut end = self.lock();
        while !end.reached {
            let left = deadline
                .map_or(STALL_CHECK, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(end, left.min(STALL_CHECK));
            end = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn account(&self, progress: &RequestProgress) {
        let left = progress.left.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(left > 0, "a piece reports once");
        if left != 1 {
            return;
        }
        progress.finish();
        let pending = self.pending.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(pending > 0, "a request that became final was pending");
        if pending == 1 {
            self.reach_end();
        }
    }

    fn reach_end(&self) {
        let (actions, uses, at_cancel) = {
            let mut end = self.lock();
            debug_assert!(!end.reached, "a batch ends once");
            let actions = [end.action.take(), end.after.take()];
            (actions, std::mem::take(&mut end.uses), end.at_cancel.take())
        };
        drop((uses, at_cancel));
        if let Some(traced) = &self.traced {
            traced.end(&self.outcome(), self.status().bytes);
        }
        for action in actions.into_iter().flatten() {
            action(self);
        }
        self.lock().reached = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Batch")
            .field("requests", &self.requests)
            .field("pending", &self.pending)
            .finish_non_exhaustive()
    }
}

impl RequestProgress {
    fn new(pieces: u32) -> Self {
        let state = if pieces == 0 { TransferState::Completed } else { TransferState::Pending };
        Self {
            left: AtomicU32::new(pieces),
            state: AtomicU8::new(state as u8),
            worst: AtomicU8::new(0),
            moved: AtomicU64::new(0),
        }
    }

    fn finish(&self) {
        debug_assert!(!self.is_final(), "a request becomes final once");
        let worst = TransferState::from_number(self.worst.load(Ordering::Relaxed));
        let state = if worst.is_final() { worst } else { TransferState::Completed };
        self.state.store(state as u8, Ordering::Release);
    }

    fn is_final(&self) -> bool {
        TransferState::from_number(self.state.load(Ordering::Acquire)).is_final()
    }

    fn status(&self) -> RequestStatus {
        RequestStatus {
            state: TransferState::from_number(self.state.load(Ordering::Acquire)),
            bytes: self.moved.load(Ordering::Relaxed),
        }
    }
}

/// Which of several final states describes a batch.
fn severity(state: TransferState) -> u8 {
    match state {
        TransferState::Waiting | TransferState::Pending | TransferState::Completed => 0,
        TransferState::Canceled => 1,
        TransferState::Invalid => 2,
        TransferState::Timeout => 3,
        TransferState::Failed => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::mpsc::channel;

    fn deadline() -> EngineError {
        EngineError::Peer(PeerError::Deadline { peer: "p".to_owned(), deadline: Duration::ZERO })
    }

    fn batch(pieces: &[u32]) -> Batch {
        Batch::new(pieces.iter().copied(), Vec::new(), None, None, None)
    }

    #[test]
    fn a_batch_of_nothing_is_over_at_once() {
        for pieces in [vec![], vec![0, 0]] {
            let batch = batch(&pieces);
            assert!(batch.is_over() && batch.wait(Duration::ZERO));
            assert_eq!(batch.status().state, TransferState::Completed);
        }
    }

    #[test]
    fn a_failed_piece_does_not_end_its_request_before_the_others_let_go() {
        let batch = batch(&[2]);
        batch.failed(0, &deadline());
        assert_eq!(batch.request(0).unwrap().state, TransferState::Pending);
        assert!(!batch.wait(Duration::ZERO));
        batch.moved(0, 7);
        let timeout = RequestStatus { state: TransferState::Timeout, bytes: 7 };
        assert_eq!(batch.request(0), Some(timeout));
        assert_eq!(batch.outcome(), Err(deadline()));
    }

    #[test]
    fn a_batch_of_which_bytes_may_still_arrive_is_not_tried_again() {
        let away = || PeerError::Unreachable { peer: String::new(), reason: String::new() };
        for (second, is_worth_it) in [(EngineError::Peer(away()), true), (deadline(), false)] {
            let batch = batch(&[1, 1]);
            batch.failed(0, &EngineError::Peer(away()));
            batch.failed(1, &second);
            assert_eq!(batch.is_worth_a_second_try(), is_worth_it, "{second}");
        }
    }

    #[test]
    fn the_end_runs_its_action_once_and_wakes_a_sleeper() {
        let (sender, receiver) = channel();
        let action: AtEnd = Box::new(move |batch| sender.send(batch.status()).unwrap());
        let batch =
            Arc::new(Batch::new([1u32, 1].into_iter(), Vec::new(), None, None, Some(action)));
        let theirs = batch.clone();
        let sleeper = std::thread::spawn(move || theirs.wait(Duration::from_secs(60)));
        batch.moved(0, 1);
        assert!(receiver.try_recv().is_err());
        batch.moved(1, 2);
        assert!(sleeper.join().unwrap());
        assert_eq!(receiver.try_recv().unwrap().bytes, 3);
        assert!(receiver.try_recv().is_err());
    }

    proptest! {
        /// Reports in any order: every request ends exactly when its last piece has, with the worst
        /// of its states.
        #[test]
        fn requests_end_with_their_last_piece(
            pieces in proptest::collection::vec(0u32..4, 0..6),
            order in proptest::collection::vec((any::<u16>(), 0u8..4), 0..40),
        ) {
            let batch = batch(&pieces);
            let mut left = pieces.clone();
            let mut worst = vec![0u8; pieces.len()];
            let mut moved = 0;
            for (pick, outcome) in order {
                let open: Vec<usize> = (0..left.len()).filter(|i| left[*i] > 0).collect();
                let Some(&request) = open.get(usize::from(pick) % open.len().max(1)) else { break };
                let error = match outcome {
                    0 => None,
                    1 => Some(deadline()),
                    2 => Some(EngineError::Canceled),
                    _ => Some(EngineError::Peer(PeerError::LocalMemory)),
                };
                match &error {
                    None => { batch.moved(request as u32, 3); moved += 3; }
                    Some(error) => {
                        worst[request] = worst[request].max(error.state() as u8);
                        batch.failed(request as u32, error);
                    }
                }
                left[request] -= 1;
                for (index, left) in left.iter().enumerate() {
                    let state = batch.request(index).unwrap().state;
                    prop_assert_eq!(state.is_final(), *left == 0);
                    if *left == 0 {
                        let fine = TransferState::Completed as u8;
                        let expected = if worst[index] == 0 { fine } else { worst[index] };
                        prop_assert_eq!(state as u8, expected);
                    }
                }
                prop_assert_eq!(batch.is_over(), left.iter().all(|left| *left == 0));
                prop_assert_eq!(batch.status().bytes, moved);
            }
        }
    }
}
