//! Puts that find no room on their shard: room of the other shards comes before eviction, the room
//! of all shards last.
//! Invariant: loans go from the shard that gives them straight to the one that takes them, so that
//! none is lost with the connection that asked.

use super::control_shard::ControlShard;
use super::merge::Placements;
use super::scatter::KeySubset;
use perigee_master::{Effort, KeyShard, Need, SpaceLoan, shard_of};
use perigee_schemas::PartLayout;
use perigee_schemas::extent::extent_bytes;
use perigee_shard::{Call, Environment, Post};
use std::sync::Arc;

/// Bytes that the puts waiting on one shard lack.
#[derive(Clone, Copy, Default)]
struct WaitingPuts {
    bytes: u64,
    longest_bytes: u64,
    /// One of them takes room of many segments.
    in_parts: bool,
}

impl WaitingPuts {
    fn add(&mut self, payload_bytes: u64, cut: Option<PartLayout>) {
        let whole_bytes = extent_bytes(payload_bytes);
        let (bytes, longest_bytes) = cut.map_or((whole_bytes, whole_bytes), |cut| {
            (cut.extents_bytes(), extent_bytes(cut.part_bytes))
        });
        self.bytes = self.bytes.saturating_add(bytes);
        self.longest_bytes = self.longest_bytes.max(longest_bytes);
        self.in_parts |= cut.is_some();
        debug_assert!(self.longest_bytes <= self.bytes, "the longest is one of them");
    }
}

/// A batch of puts that shards can start.
pub(crate) trait Startable: Send + Sync + 'static {
    /// Payload lengths in bytes, one per key.
    fn payload_bytes(&self) -> &[u64];

    /// Wanted replicas of each key.
    fn replicas(&self) -> usize;

    /// Whether the writer can write an object that is larger than any segment in parts.
    fn takes_parts(&self) -> bool;

    /// Starts the puts of some keys on their owner.
    fn start(
        &self,
        owner: &mut KeyShard,
        now_ms: u64,
        share: &KeySubset<'_>,
        out: &mut Placements,
        effort: Effort,
    );
}

impl<E: Environment> ControlShard<E> {
    /// Starts a batch of puts. Where nothing is to be evicted without a copy on a disk, those
    /// without room wait a moment for disks.
    pub(crate) async fn start_puts(&self, keys: &[&[u8]], puts: Arc<impl Startable>) -> Placements {
        let waits = self.keys.borrow().puts_wait_for_disks();
        let last = if waits { Effort::Evict } else { Effort::Last };
        let started = self.start_now(keys, &puts, last).await;
        match waits {
            true => self.wait_for_disks(keys, started, &puts).await,
            false => started,
        }
    }

    /// Starts a batch of puts. With one shard that is one call of the state machine; with several,
    /// keys without room are tried again when other shards have given what they can spare, and at
    /// last with the effort `last`.
    async fn start_now(
        &self,
        keys: &[&[u8]],
        puts: &Arc<impl Startable>,
        last: Effort,
    ) -> Placements {
        let all: Vec<usize> = (0..keys.len()).collect();
        if self.members().len() <= 1 {
            let started = self.try_start(keys, &all, puts, move |_, _| last).await;
            return self.relieve_tenants(keys, started, puts, move |_, _| last).await;
        }
        let cautious = |owner: &mut KeyShard, now_ms| match owner.may_borrow(now_ms) {
            true => Effort::Free,
            false => Effort::Evict,
        };
        let started = self.try_start(keys, &all, puts, cautious).await;
        let started = self.relieve_tenants(keys, started, puts, cautious).await;
        let short = started.short();
        if short.is_empty() {
            return started;
        }
        self.borrow_for_puts(keys, &short, puts.as_ref()).await;
        let evicting = self.try_start(keys, &short, puts, |_, _| Effort::Evict);
        let started = started.replaced(&short, evicting.await);
        match started.short().is_empty() {
            true => started,
            false => self.gather_for(keys, started, puts, last).await,
        }
    }

    /// Starts the puts at some positions of a batch.
    pub(super) async fn try_start(
        &self,
        keys: &[&[u8]],
        positions: &[usize],
        puts: &Arc<impl Startable>,
        effort: impl Fn(&mut KeyShard, u64) -> Effort + Clone + Send + 'static,
    ) -> Placements {
        let puts = puts.clone();
        let start =
            move |owner: &mut KeyShard, now_ms, share: &KeySubset<'_>, out: &mut Placements| {
                let effort = effort(owner, now_ms);
                puts.start(owner, now_ms, share, out, effort);
            };
        self.scatter_some(keys, positions, start).await
    }

    /// Lets other shards lend to the owners of these keys.
    async fn borrow_for_puts(&self, keys: &[&[u8]], short: &[usize], puts: &impl Startable) {
        let count = self.members().len();
        let mut waiting = vec![WaitingPuts::default(); count];
        for position in short {
            let payload_bytes = puts.payload_bytes()[*position];
            let cut = self.cut(payload_bytes, puts);
            waiting[shard_of(keys[*position], count)].add(payload_bytes, cut);
        }
        for (owner, WaitingPuts { bytes, longest_bytes, in_parts }) in
            waiting.into_iter().enumerate()
        {
            if bytes > 0 {
                let needs = self.on(owner, move |owner| {
                    owner.keys.borrow_mut().needs_of_puts(bytes, longest_bytes)
                });
                let needs = needs.await.flatten().unwrap_or_default();
                let segments = if in_parts { needs.len() } else { puts.replicas() };
                self.borrow_room(owner, needs, segments).await;
            }
        }
    }

    /// How a payload is cut if no segment is large enough for it. All shards know all segments.
    pub(super) fn cut(&self, payload_bytes: u64, puts: &impl Startable) -> Option<PartLayout> {
        let replicas = u32::try_from(puts.replicas()).unwrap_or(u32::MAX);
        let cut = || self.keys.borrow().cut(payload_bytes, replicas);
        puts.takes_parts().then(cut).flatten()
    }

    /// Lets other shards lend to this one where it is above the watermark.
    pub(super) async fn borrow_for_watermark(&self) {
        let needs = self.keys.borrow_mut().needs_of_watermark();
        let segments = needs.len();
        self.borrow_room(self.index, needs, segments).await;
    }

    /// Asks all shards but the borrower to lend in up to `segments` segments each. If none does,
    /// the borrower gets an empty answer.
    pub(super) async fn borrow_room(&self, borrower: usize, needs: Vec<Need>, segments: usize) {
        if needs.is_empty() {
            return;
        }
        let mut dry: Vec<u32> = needs.iter().map(|need| need.segment).collect();
        let needs: Arc<[Need]> = needs.into();
        let asked: Vec<_> = (0..self.members().len())
            .filter(|lender| *lender != borrower)
            .map(|lender| {
                let needs = needs.clone();
                self.on(lender, move |lender| lender.lend_to(borrower, &needs, segments))
            })
            .collect();
        for answer in asked {
            let lent = answer.await.flatten().unwrap_or_default();
            dry.retain(|segment| !lent.contains(segment));
        }
        if !dry.is_empty() {
            self.on(borrower, move |borrower| {
                borrower.keys.borrow_mut().note_dry(borrower.now_ms(), dry);
            })
            .await;
        }
    }

    /// Lends to another shard; returns in which segments.
    fn lend_to(&self, borrower: usize, needs: &[Need], segments: usize) -> Vec<u32> {
        let loans = self.keys.borrow_mut().lend(self.now_ms(), needs, segments);
        let lent = loans.iter().map(|loan| loan.segment).collect();
        self.send_loans(borrower, loans);
        lent
    }

    /// Sends free bytes to another shard. They arrive before anything that is sent there after this
    /// call's answer.
    pub(super) fn send_loans(&self, to: usize, loans: Vec<SpaceLoan>) {
        if loans.is_empty() {
            return;
        }
        debug_assert_ne!(to, self.index, "a shard lends to others");
        let member = &self.members()[to];
        let name = member.name;
        member.mailbox.post(Box::new(move |theirs: &E| {
            if let Some(shard) = theirs.local(name) {
                shard.keys.borrow_mut().receive(shard.now_ms(), &loans);
            }
        }));
    }

    /// Runs `work` on a shard; `None` if it is gone.
    pub(super) fn on<R: Send + 'static>(
        &self,
        index: usize,
        work: impl FnOnce(&Self) -> R + Send + 'static,
    ) -> Call<E, Option<R>> {
        let member = &self.members()[index];
        let name = member.name;
        self.environment.call_later(&member.mailbox, move |theirs, reply| {
            if let Some(shard) = theirs.local(name) {
                let result = work(&shard);
                shard.reply_when_sent(reply, result);
            }
        })
    }

    /// Up to `limit` of what the shards have to hand out, one shard after the other; `take` is
    /// given how many may still come.
    pub(super) async fn take_from_all<R: Send + 'static>(
        &self,
        limit: usize,
        take: impl Fn(&Self, usize) -> Vec<R> + Clone + Send + 'static,
    ) -> Vec<R> {
        let mut taken = Vec::new();
        for index in 0..self.members().len() {
            let room = limit.saturating_sub(taken.len());
            if room == 0 {
                break;
            }
            let take = take.clone();
            let part = self.on(index, move |shard| take(shard, room)).await;
            taken.extend(part.flatten().unwrap_or_default());
            debug_assert!(taken.len() <= limit, "no more is handed out than was asked for");
        }
        taken
    }
}
