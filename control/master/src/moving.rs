//! Moves under way: one object's replica being copied to another segment, for a drain job or a
//! task.
//! Invariant: an object with a move has the move's source among its complete replicas, and the
//! move's target is in no chain.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{MOVE_BYTES_PER_MS, MOVE_DEADLINE_MS};
use crate::put_name::PutName;

/// No drain and no task: those have random identities.
pub(crate) const NO_JOB: u128 = 0;

/// What a copy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A drain job: the copy takes the source's place.
    Drain,
    /// A task: the copy takes the source's place.
    Move,
    /// A task: the object has one more replica.
    Copy,
    /// An object that is read often and lies on a disk alone gets a replica in memory.
    Promotion,
    /// An object that lost a replica with its segment gets another one.
    Repair,
    /// An object that is read often gets one more.
    Heat,
}

/// When a copy that is handed out now must have ended.
pub(crate) fn move_deadline_ms(now_ms: u64, payload_bytes: u64) -> u64 {
    let span_ms = MOVE_DEADLINE_MS + payload_bytes / MOVE_BYTES_PER_MS;
    now_ms.saturating_add(span_ms)
}

impl Purpose {
    /// Whether a task wants it.
    fn is_of_task(self) -> bool {
        matches!(self, Purpose::Move | Purpose::Copy)
    }

    /// Whether a wish of the master's own leads to it.
    pub(crate) fn is_of_wish(self) -> bool {
        matches!(self, Purpose::Repair | Purpose::Heat)
    }
}

/// A replica on its way to another segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplicaMove {
    /// The drain job or the task that wants it.
    pub(crate) job: u128,
    pub(crate) purpose: Purpose,
    /// Who carries it out: the owner of the source's segment.
    pub(crate) client: u128,
    /// The complete replica that is copied.
    pub(crate) source: u32,
    /// The replica that is being written.
    pub(crate) target: u32,
    /// Generation of the target; names the move.
    pub(crate) generation: u64,
    /// When it was given to the client; nothing is written before.
    pub(crate) taken_ms: Option<u64>,
    /// When it is given up.
    pub(crate) deadline_ms: u64,
}

impl ReplicaMove {
    /// What names the writing of the target among all writings.
    pub(crate) fn name(&self) -> PutName {
        PutName { client: self.client, generation: self.generation }
    }
}

/// The moves of a shard, at most one per object.
#[derive(Debug, Default)]
pub(crate) struct ReplicaMoves {
    by_object: BTreeMap<u32, ReplicaMove>,
    /// Moves not taken yet, by client.
    waiting: BTreeSet<(u128, u32)>,
    by_deadline: BTreeSet<(u64, u32)>,
    count_of_job: BTreeMap<u128, u32>,
    /// Those of tasks, by client.
    tasks_of_client: BTreeMap<u128, u32>,
    tasks: u32,
    promotions: u32,
    /// Those for wishes, by client.
    wishes_of_client: BTreeMap<u128, u32>,
    wishes: u32,
}

impl ReplicaMoves {
    pub(crate) fn insert(&mut self, object: u32, started: ReplicaMove) {
        if started.taken_ms.is_none() {
            self.waiting.insert((started.client, object));
        }
        self.by_deadline.insert((started.deadline_ms, object));
        *self.count_of_job.entry(started.job).or_default() += 1;
        self.promotions += u32::from(started.purpose == Purpose::Promotion);
        if started.purpose.is_of_task() {
            *self.tasks_of_client.entry(started.client).or_default() += 1;
            self.tasks += 1;
        }
        if started.purpose.is_of_wish() {
            *self.wishes_of_client.entry(started.client).or_default() += 1;
            self.wishes += 1;
        }
        debug_assert_ne!(started.source, started.target);
        let before = self.by_object.insert(object, started);
        debug_assert!(before.is_none(), "one move per object");
    }

    pub(crate) fn get(&self, object: u32) -> Option<&ReplicaMove> {
        self.by_object.get(&object)
    }

    pub(crate) fn remove(&mut self, object: u32) -> Option<ReplicaMove> {
        let ended = self.by_object.remove(&object)?;
        self.waiting.remove(&(ended.client, object));
        self.by_deadline.remove(&(ended.deadline_ms, object));
        count_down(&mut self.count_of_job, ended.job);
        self.promotions -= u32::from(ended.purpose == Purpose::Promotion);
        if ended.purpose.is_of_task() {
            count_down(&mut self.tasks_of_client, ended.client);
            self.tasks -= 1;
        }
        if ended.purpose.is_of_wish() {
            count_down(&mut self.wishes_of_client, ended.client);
            self.wishes -= 1;
        }
        Some(ended)
    }

    /// The object of the next move that waits for a client.
    pub(crate) fn next_of(&self, client: u128) -> Option<u32> {
        let mut own = self.waiting.range((client, 0)..=(client, u32::MAX));
        own.next().map(|(_, object)| *object)
    }

    /// Notes that the client has a move, which is to be done by `deadline_ms`.
    pub(crate) fn take(&mut self, object: u32, now_ms: u64, deadline_ms: u64) {
        if let Some(waiting) = self.remove(object) {
            let taken = ReplicaMove { taken_ms: Some(now_ms), deadline_ms, ..waiting };
            self.insert(object, taken);
        }
    }

    /// An object whose move should have ended by now.
    pub(crate) fn overdue(&self, now_ms: u64) -> Option<u32> {
        let &(deadline_ms, object) = self.by_deadline.first()?;
        (deadline_ms <= now_ms).then_some(object)
    }

    /// Moves of a job.
    pub(crate) fn count_of(&self, job: u128) -> u32 {
        self.count_of_job.get(&job).copied().unwrap_or_default()
    }

    /// Moves of tasks.
    pub(crate) fn tasks(&self) -> u32 {
        self.tasks
    }

    /// Promotions under way.
    pub(crate) fn promotions(&self) -> u32 {
        self.promotions
    }

    /// Moves for wishes.
    pub(crate) fn wishes(&self) -> u32 {
        self.wishes
    }

    /// Moves for wishes in the hands of a client, or waiting for it.
    pub(crate) fn wishes_of(&self, client: u128) -> u32 {
        self.wishes_of_client.get(&client).copied().unwrap_or_default()
    }

    /// The clients that have moves for wishes in hand, or are to take some.
    pub(crate) fn wish_carriers(&self) -> impl Iterator<Item = u128> + '_ {
        self.wishes_of_client.keys().copied()
    }

    /// Moves of tasks in the hands of a client, or waiting for it.
    pub(crate) fn tasks_of(&self, client: u128) -> u32 {
        self.tasks_of_client.get(&client).copied().unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_object.len()
    }

    /// Panics unless the orders and the counts agree with the moves.
    pub(crate) fn check(&self) {
        let mut of_job: BTreeMap<u128, u32> = BTreeMap::new();
        let mut of_client: BTreeMap<u128, u32> = BTreeMap::new();
        let mut wishes_of: BTreeMap<u128, u32> = BTreeMap::new();
        let (mut waiting, mut tasks, mut promotions) = (0, 0, 0);
        for (object, under_way) in self.iter() {
            let deadline = (under_way.deadline_ms, object);
            assert!(self.by_deadline.contains(&deadline), "{object} ends");
            *of_job.entry(under_way.job).or_default() += 1;
            if under_way.taken_ms.is_none() {
                let waits = self.waiting.contains(&(under_way.client, object));
                assert!(waits, "{object} waits for its client");
                waiting += 1;
            }
            promotions += u32::from(under_way.purpose == Purpose::Promotion);
            if under_way.purpose.is_of_task() {
                *of_client.entry(under_way.client).or_default() += 1;
                tasks += 1;
            }
            if under_way.purpose.is_of_wish() {
                *wishes_of.entry(under_way.client).or_default() += 1;
            }
        }
        assert_eq!(self.wishes, wishes_of.values().sum::<u32>());
        assert_eq!(self.wishes_of_client, wishes_of);
        assert_eq!(self.by_deadline.len(), self.by_object.len());
        assert_eq!((self.waiting.len(), self.tasks), (waiting, tasks));
        assert_eq!(self.promotions, promotions);
        assert_eq!(self.count_of_job, of_job);
        assert_eq!(self.tasks_of_client, of_client);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &ReplicaMove)> {
        self.by_object.iter().map(|(object, under_way)| (*object, under_way))
    }
}

/// Takes one off a count, which goes with its last one.
fn count_down(counts: &mut BTreeMap<u128, u32>, of: u128) {
    debug_assert!(counts.contains_key(&of), "what ends was counted");
    if let Some(count) = counts.get_mut(&of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(client: u128, deadline_ms: u64) -> ReplicaMove {
        ReplicaMove {
            job: 1,
            purpose: Purpose::Copy,
            client,
            source: 0,
            target: 1,
            generation: 9,
            taken_ms: None,
            deadline_ms,
        }
    }

    #[test]
    fn a_client_takes_its_own_moves_and_each_once() {
        let mut moves = ReplicaMoves::default();
        moves.insert(3, waiting(7, 50));
        moves.insert(4, waiting(8, 50));
        assert_eq!(moves.next_of(7), Some(3));
        moves.take(3, 10, 90);
        assert_eq!(moves.next_of(7), None);
        assert_eq!(moves.get(3).and_then(|taken| taken.taken_ms), Some(10));
        assert_eq!(moves.overdue(60), Some(4));
        assert_eq!((moves.count_of(1), moves.tasks()), (2, 2));
        assert_eq!((moves.tasks_of(7), moves.tasks_of(9)), (1, 0));
        moves.remove(4);
        assert_eq!((moves.overdue(60), moves.overdue(90)), (None, Some(3)));
        moves.remove(3);
        assert_eq!((moves.count_of(1), moves.len()), (0, 0));
        assert_eq!((moves.tasks(), moves.tasks_of(7)), (0, 0));
    }
}
