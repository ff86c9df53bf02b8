//! Carries objects out of this client's segments while the master empties them or has tasks for it:
//! takes moves, copies, tells how it went.
//! Invariant: a copy is reported as good only if its bytes were read under the checksum of the
//! object's writer, and the thread runs only from the first time the master has asked for it, or
//! has said that it may move what is read from disks.
#![expect(unsafe_code, reason = "it lends its own memory to the engine")]

use crate::addresses::SegmentAddresses;
use crate::limits::{
    ASKED_PAUSE, MOVE_GROUP_BYTES, MOVER_PAUSE, MOVER_STOP, MOVES_PER_FETCH, REMOUNT_PAUSE,
    REPORT_TRIES,
};
use crate::unreachable::UnreachableOwners;
use perigee_memory::{ByteRange, ByteRangeMut};
use perigee_rpc::{CallError, EndedMove, Location, MasterClient, Moves, ReplySegment};
use perigee_schemas::Status;
use perigee_transfer::{
    ObjectEngine, PromotionJob, ReadJob, ReplicaAddress, TransferError, WriteJob,
};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The thread, started when it is needed.
#[derive(Debug)]
pub(crate) struct ReplicaMover {
    carrier: Mutex<Option<MoverContext>>,
    signal: Arc<MoverSignal>,
    ended: Mutex<Receiver<()>>,
}

/// What the thread works with.
#[derive(Debug)]
struct MoverContext {
    master: Arc<MasterClient>,
    engine: Arc<ObjectEngine>,
    addresses: Arc<SegmentAddresses>,
    unreachable: Arc<UnreachableOwners>,
    signal: Arc<MoverSignal>,
    end: Sender<()>,
}

/// What others tell the thread.
#[derive(Debug, Default)]
pub(crate) struct MoverSignal {
    orders: Mutex<MoverOrders>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct MoverOrders {
    state: MoverState,
    /// The master is to be asked once, whatever the state is.
    is_asked: bool,
}

/// What the thread is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MoverTurn {
    /// Rounds until it is to rest.
    Work,
    /// One round.
    Once,
    End,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum MoverState {
    #[default]
    Rest,
    Work,
    Stop,
}

/// One object on its way.
struct MovedObject {
    key: String,
    checksum: u32,
    source: ReplicaAddress,
    target: ReplicaAddress,
    outcome: Result<(), TransferError>,
}

impl ReplicaMover {
    pub(crate) fn new(
        master: Arc<MasterClient>,
        engine: Arc<ObjectEngine>,
        addresses: Arc<SegmentAddresses>,
        unreachable: Arc<UnreachableOwners>,
    ) -> Self {
        let signal = Arc::<MoverSignal>::default();
        let (end, ended) = channel();
        let shared = signal.clone();
        let carrier = MoverContext { master, engine, addresses, unreachable, signal: shared, end };
        Self { carrier: Mutex::new(Some(carrier)), signal, ended: Mutex::new(ended) }
    }

    /// Lets the thread work, or rest until it is needed again.
    pub(crate) fn set_wanted(&self, wanted: bool) {
        let state = if wanted { MoverState::Work } else { MoverState::Rest };
        if self.signal.set(state) && wanted {
            self.begin();
        }
    }

    /// Starts the thread, which rests until it is needed.
    pub(crate) fn begin(&self) {
        let carrier = lock(&self.carrier).take();
        if let Some(carrier) = carrier {
            let thread = std::thread::Builder::new().name("perigee-move".to_owned());
            if let Err(error) = thread.spawn(move || carrier.run()) {
                tracing::warn!(%error, "Objects of this client's segments cannot be moved or copied: no thread");
            }
        }
    }

    /// What wakes the thread.
    pub(crate) fn signal(&self) -> Arc<MoverSignal> {
        self.signal.clone()
    }

    /// Tells the thread to end; what it has in hand is left to the master's deadlines.
    pub(crate) fn stop(&self) {
        self.signal.set(MoverState::Stop);
        // If no thread was started, dropping its state closes the `ended` channel, so `join`
        // returns at once.
        drop(lock(&self.carrier).take());
    }

    /// Waits for the end of the thread, for a bounded time.
    pub(crate) fn join(&self) {
        // An error is a thread that has ended or never began, or one that is left to end by itself.
        let _ = lock(&self.ended).recv_timeout(MOVER_STOP);
    }
}

impl MoverSignal {
    /// Changes the state unless it is `Stop`; whether it is now the wanted one.
    fn set(&self, state: MoverState) -> bool {
        let mut orders = lock(&self.orders);
        if orders.state == MoverState::Stop {
            return false;
        }
        orders.state = state;
        drop(orders);
        self.changed.notify_all();
        true
    }

    /// Has the master asked once whether there is something to move.
    pub(crate) fn ask(&self) {
        let was_asked = std::mem::replace(&mut lock(&self.orders).is_asked, true);
        if !was_asked {
            self.changed.notify_all();
        }
    }

    /// Waits until there is work.
    fn wait_for_work(&self) -> MoverTurn {
        let orders = lock(&self.orders);
        let is_idle =
            |orders: &mut MoverOrders| orders.state == MoverState::Rest && !orders.is_asked;
        let orders = self.changed.wait_while(orders, is_idle);
        let mut orders = orders.unwrap_or_else(PoisonError::into_inner);
        orders.is_asked = false;
        match orders.state {
            MoverState::Rest => MoverTurn::Once,
            MoverState::Work => MoverTurn::Work,
            MoverState::Stop => MoverTurn::End,
        }
    }

    /// Waits a while, but not beyond the end.
    fn pause(&self, pause: Duration) {
        let orders = lock(&self.orders);
        let goes_on = |orders: &mut MoverOrders| orders.state != MoverState::Stop;
        let waited = self.changed.wait_timeout_while(orders, pause, goes_on);
        drop(waited);
    }
}

impl MoverContext {
    fn run(self) {
        tracing::info!("The master has objects of this client moved or copied");
        let mut arena = Vec::new();
        loop {
            let turn = self.signal.wait_for_work();
            if turn == MoverTurn::End {
                break;
            }
            match self.round(&mut arena) {
                Ok(0) if turn == MoverTurn::Once => self.signal.pause(ASKED_PAUSE),
                Ok(0) => self.signal.pause(MOVER_PAUSE),
                // There may be more.
                Ok(_) => self.signal.ask(),
                Err(error) => {
                    tracing::debug!(%error, "No moves could be taken");
                    self.signal.pause(REMOUNT_PAUSE);
                }
            }
        }
        // The caller has stopped waiting if the last round took too long.
        let _ = self.end.send(());
    }

    /// Takes some moves and carries them out; returns how many.
    fn round(&self, arena: &mut Vec<u8>) -> Result<usize, CallError> {
        let moves = self.master.fetch_moves(MOVES_PER_FETCH)?;
        let moved = self.unpack(moves);
        let count = moved.len();
        let is_promoted = |one: &MovedObject| self.engine.has_disk_of(&one.source);
        let (mut promoted, mut carried): (Vec<_>, Vec<_>) =
            moved.into_iter().partition(is_promoted);
        if !promoted.is_empty() {
            self.promote(&mut promoted);
            self.report(&promoted);
        }
        while !carried.is_empty() {
            let rest = carried.split_off(group_len(&carried));
            debug_assert!(!carried.is_empty(), "each step carries some");
            self.carry(&mut carried, arena);
            self.report(&carried);
            carried = rest;
        }
        if arena.capacity() > MOVE_GROUP_BYTES {
            *arena = Vec::new();
        }
        Ok(count)
    }

    fn unpack(&self, moves: Moves) -> Vec<MovedObject> {
        let segments: &[ReplySegment] = &moves.segments;
        let addresses = self.addresses.of(segments);
        let place = |location: &Location| ReplicaAddress {
            segment: addresses[location.segment as usize].clone(),
            offset: location.offset,
            payload_bytes: location.payload_bytes,
            generation: location.generation,
        };
        let one =
            |(key, checksum, (source, target)): (String, u32, (Location, Location))| MovedObject {
                key,
                checksum,
                source: place(&source),
                target: place(&target),
                outcome: Ok(()),
            };
        let columns = moves.keys.into_iter().zip(moves.checksum).zip(moves.places);
        columns.map(|((key, checksum), places)| one((key, checksum, places))).collect()
    }

    /// Brings objects from disks of this process to their new places.
    fn promote(&self, group: &mut [MovedObject]) {
        let jobs: Vec<PromotionJob<'_>> = group
            .iter()
            .map(|MovedObject { source, target, checksum, .. }| {
                let checksum = *checksum;
                PromotionJob { source, target, checksum }
            })
            .collect();
        let promoted = self.engine.promote(&jobs);
        assert_eq!(promoted.len(), group.len(), "one outcome per object");
        for (one, outcome) in group.iter_mut().zip(promoted) {
            one.outcome = self.noted(&one.target, outcome);
        }
    }

    /// Reads objects into memory of this thread, checks them, and writes them to their new places.
    fn carry(&self, group: &mut [MovedObject], arena: &mut Vec<u8>) {
        let Some(buffers) = lay_out(group, arena) else {
            let refused = || TransferError::Engine("no memory for the copy".to_owned());
            group.iter_mut().for_each(|one| one.outcome = Err(refused()));
            return;
        };
        let pieces: Vec<[ByteRangeMut; 1]> = buffers.iter().map(|buffer| [*buffer]).collect();
        let jobs: Vec<ReadJob<'_>> = group
            .iter()
            .zip(&pieces)
            .map(|(one, pieces)| ReadJob { place: &one.source, checksum: one.checksum, pieces })
            .collect();
        // SAFETY: the pieces are parts of the arena that do not overlap; only this thread uses it.
        let read = unsafe { self.engine.read(&jobs) };
        drop(jobs);
        assert_eq!(read.len(), group.len(), "one outcome per object");
        let good: Vec<usize> = (0..group.len()).filter(|at| read[*at].is_ok()).collect();
        let sources: Vec<[ByteRange; 1]> =
            good.iter().map(|at| [as_source(buffers[*at])]).collect();
        let jobs: Vec<WriteJob<'_>> = good
            .iter()
            .zip(&sources)
            .map(|(at, pieces)| WriteJob { place: &group[*at].target, pieces })
            .collect();
        // SAFETY: as above; nothing writes to the arena until the call returns.
        let written = unsafe { self.engine.write(&jobs) };
        drop(jobs);
        // An object that was read and has no outcome here would be reported as a good copy.
        assert_eq!(written.len(), good.len(), "one outcome per copy");
        for (one, read) in group.iter_mut().zip(read) {
            one.outcome = self.noted(&one.source, read);
        }
        for (at, written) in good.into_iter().zip(written) {
            let expected = group[at].checksum;
            group[at].outcome =
                self.noted(&group[at].target, written).and_then(|found| match found == expected {
                    true => Ok(()),
                    false => Err(TransferError::Checksum { found, expected }),
                });
        }
    }

    /// The outcome of one transfer; an owner that cannot be reached shows outside of it, too.
    fn noted<T>(
        &self,
        place: &ReplicaAddress,
        outcome: Result<T, TransferError>,
    ) -> Result<T, TransferError> {
        outcome.inspect_err(|error| self.unreachable.note(place, error))
    }

    /// Tells the master, a few times if it does not answer: what it does not hear of costs it a
    /// deadline.
    fn report(&self, group: &[MovedObject]) {
        let ended: Vec<EndedMove<'_>> = group.iter().map(MovedObject::ended).collect();
        for one in group {
            if let Err(error) = &one.outcome {
                tracing::debug!(key = one.key, %error, "An object could not be moved");
            }
        }
        for _ in 0..REPORT_TRIES {
            match self.master.end_moves(&ended) {
                Ok(_) => return,
                Err(error) => {
                    tracing::debug!(%error, "The master did not get the outcome of moves");
                }
            }
            self.signal.pause(REMOUNT_PAUSE);
        }
    }
}

impl MovedObject {
    fn ended(&self) -> EndedMove<'_> {
        let failed = self.outcome.as_ref().err();
        EndedMove {
            key: &self.key,
            generation: self.target.generation,
            status: failed.map_or(Status::Ok, TransferError::status),
            in_flight: failed.is_some_and(TransferError::may_still_arrive),
        }
    }

    fn bytes(&self) -> usize {
        usize::try_from(self.source.payload_bytes).unwrap_or(usize::MAX)
    }
}

/// How many of the first objects are carried together: as many as fit into the group's bytes, at
/// least one.
fn group_len(carried: &[MovedObject]) -> usize {
    let mut bytes = 0usize;
    let fits = |one: &&MovedObject| {
        bytes = bytes.saturating_add(one.bytes());
        bytes <= MOVE_GROUP_BYTES
    };
    carried.iter().take_while(fits).count().max(1)
}

/// A part of the arena for each object; nothing if there is no memory for them.
fn lay_out(group: &[MovedObject], arena: &mut Vec<u8>) -> Option<Vec<ByteRangeMut>> {
    let total = group.iter().try_fold(0usize, |sum, one| sum.checked_add(one.bytes()))?;
    if arena.len() < total {
        arena.try_reserve_exact(total - arena.len()).ok()?;
        arena.resize(total, 0);
    }
    let mut rest = arena.as_mut_slice();
    let mut pieces = Vec::with_capacity(group.len());
    for one in group {
        let (piece, after) = rest.split_at_mut(one.bytes());
        rest = after;
        pieces.push(ByteRangeMut { ptr: piece.as_mut_ptr(), len: piece.len() });
    }
    debug_assert_eq!(pieces.len(), group.len(), "a part per object");
    Some(pieces)
}

fn as_source(buffer: ByteRangeMut) -> ByteRange {
    ByteRange { ptr: buffer.ptr, len: buffer.len }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_schemas::Identity;
    use perigee_transfer::PeerError;
    use perigee_transfer::SegmentAddress;

    fn carried(payload_bytes: u64, outcome: Result<(), TransferError>) -> MovedObject {
        let place = ReplicaAddress {
            segment: Arc::new(SegmentAddress {
                id: Identity(1),
                bytes: u64::MAX,
                endpoint: String::new(),
                host_id: String::new(),
                rendezvous: String::new(),
                kind: Some(perigee_schemas::SegmentKind::Memory),
            }),
            offset: 0,
            payload_bytes,
            generation: 9,
        };
        MovedObject {
            key: "k".to_owned(),
            checksum: 1,
            source: place.clone(),
            target: place,
            outcome,
        }
    }

    #[test]
    fn a_group_has_at_least_one_object_and_no_more_bytes_than_allowed() {
        let half = MOVE_GROUP_BYTES as u64 / 2;
        let of = |sizes: &[u64]| {
            let carried: Vec<MovedObject> =
                sizes.iter().map(|size| carried(*size, Ok(()))).collect();
            group_len(&carried)
        };
        assert_eq!(of(&[4 * half, 1]), 1);
        assert_eq!(of(&[half, half, 1]), 2);
        assert_eq!(of(&[1, 4 * half]), 1);
        assert_eq!(of(&[u64::MAX, u64::MAX]), 1);
    }

    #[test]
    fn an_object_for_which_there_is_no_memory_is_refused_and_no_panic() {
        let group = [carried(u64::MAX / 4, Ok(()))];
        assert!(lay_out(&group, &mut Vec::new()).is_none());
    }

    #[test]
    fn parts_of_the_arena_do_not_overlap() {
        let group = [carried(3, Ok(())), carried(5, Ok(()))];
        let mut arena = Vec::new();
        let pieces = lay_out(&group, &mut arena).unwrap();
        assert_eq!(pieces[0].ptr.wrapping_add(3), pieces[1].ptr);
        assert_eq!((pieces[1].len, arena.len()), (5, 8));
    }

    #[test]
    fn a_peer_that_broke_off_may_still_receive_bytes() {
        let broken =
            TransferError::Peer(PeerError::Broken { peer: String::new(), reason: String::new() });
        assert!(carried(1, Err(broken)).ended().in_flight);
        let stale = carried(1, Err(TransferError::Stale));
        assert!(!stale.ended().in_flight);
        assert_eq!(stale.ended().status, Status::LeaseExpired);
        assert_eq!(carried(1, Ok(())).ended().status, Status::Ok);
    }
}
