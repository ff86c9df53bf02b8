//! Gathers the room of all shards for an object that no shard has room for alone. All hand over
//! what is free and evict step by step until it fits; the rest is shared out again.
//! Invariant: one gathers at a time, so that two large objects do not take the room from each
//! other.

use super::control_shard::ControlShard;
use super::lending::Startable;
use super::merge::Placements;
use perigee_master::limits::GATHER_ROUNDS_MAX;
use perigee_master::{Effort, shard_of};
use perigee_schemas::PartLayout;
use perigee_schemas::extent::extent_bytes;
use perigee_shard::Environment;
use std::sync::Arc;
use std::time::Duration;

/// Segments tried for one object.
const SEGMENTS_TRIED_MAX: usize = 2;
/// Pause between two looks whether it is one's turn.
const TURN_PAUSE: Duration = Duration::from_micros(500);
/// Looks before a put goes without: several turns.
const TURN_LOOKS_MAX: u32 = 8_000;

/// One object that needs the room of all shards.
struct Large<'a, S> {
    keys: &'a [&'a [u8]],
    position: usize,
    owner: usize,
    payload_bytes: u64,
    puts: &'a Arc<S>,
}

impl<E: Environment> ControlShard<E> {
    /// Tries the puts without space once more with the room of all shards.
    pub(super) async fn gather_for<S: Startable>(
        &self,
        keys: &[&[u8]],
        mut started: Placements,
        puts: &Arc<S>,
        last: Effort,
    ) -> Placements {
        let mut hopeless_bytes = u64::MAX;
        for position in started.short() {
            let payload_bytes = puts.payload_bytes()[position];
            let large = Large {
                keys,
                position,
                owner: shard_of(keys[position], self.members().len()),
                payload_bytes,
                puts,
            };
            if let Some(layout) = self.cut(payload_bytes, puts.as_ref()) {
                if let Some(placed) = self.gather_parts(&large, layout).await {
                    started = started.replaced(&[position], placed);
                    continue;
                }
            } else if payload_bytes < hopeless_bytes {
                match self.gather(&large).await {
                    Some(placed) => {
                        started = started.replaced(&[position], placed);
                        continue;
                    }
                    None => hopeless_bytes = payload_bytes,
                }
            }
            let tried = self.try_start(keys, &[position], puts, move |_, _| last).await;
            started = started.replaced(&[position], tried);
        }
        started
    }

    async fn gather<S: Startable>(&self, large: &Large<'_, S>) -> Option<Placements> {
        let segments = self.segments_with_room(large).await;
        if segments.is_empty() {
            return None;
        }
        let turn = self.take_turn().await?;
        let mut placed = None;
        for segment in segments {
            placed = self.gather_in(segment, large).await;
            if placed.is_some() {
                break;
            }
        }
        self.on(0, move |first| first.gathering.borrow_mut().end(turn)).await;
        placed
    }

    /// Gathers the room of all shards in many segments for an object in parts.
    async fn gather_parts<S: Startable>(
        &self,
        large: &Large<'_, S>,
        layout: PartLayout,
    ) -> Option<Placements> {
        let candidates = self.keys.borrow().part_segments();
        let rooms = self.rooms_of_all(candidates, large).await;
        let bytes = layout.extents_bytes();
        let mut room_bytes = 0_u64;
        // Some more than is needed, because parts leave holes.
        let enough = rooms.into_iter().take_while(|(room, _)| {
            let before = room_bytes;
            room_bytes = room_bytes.saturating_add(*room);
            before / 2 < bytes
        });
        let segments: Vec<u32> = enough.map(|(_, segment)| segment).collect();
        if room_bytes < bytes {
            return None;
        }
        let turn = self.take_turn().await?;
        let mut placed = None;
        for round in 0..=GATHER_ROUNDS_MAX {
            placed = self.gather_round(&segments, large, round > 0).await;
            if placed.is_some() {
                break;
            }
        }
        self.share_out_of(large.owner, segments).await;
        self.on(0, move |first| first.gathering.borrow_mut().end(turn)).await;
        placed
    }

    /// Segments in which what is free and what may be evicted is enough on all shards together, the
    /// roomiest first.
    async fn segments_with_room<S>(&self, large: &Large<'_, S>) -> Vec<u32> {
        let payload_bytes = large.payload_bytes;
        let candidates =
            self.on(large.owner, move |owner| owner.keys.borrow().large_enough(payload_bytes));
        let candidates = candidates.await.flatten().unwrap_or_default();
        let mut rooms = self.rooms_of_all(candidates, large).await;
        rooms.retain(|(room, _)| *room >= extent_bytes(payload_bytes));
        let segments = rooms.into_iter().map(|(_, segment)| segment);
        segments.take(SEGMENTS_TRIED_MAX).collect()
    }

    /// What is free and what may be evicted in each of some segments on all shards together, not
    /// counted further than the object needs on each; the roomiest first.
    async fn rooms_of_all<S>(&self, candidates: Vec<u32>, large: &Large<'_, S>) -> Vec<(u64, u32)> {
        let payload_bytes = large.payload_bytes;
        let candidates: Arc<[u32]> = candidates.into();
        let asked: Vec<_> = (0..self.members().len())
            .map(|index| {
                let candidates = candidates.clone();
                self.on(index, move |shard| shard.rooms(&candidates, payload_bytes))
            })
            .collect();
        let mut rooms: Vec<(u64, u32)> = candidates.iter().map(|segment| (0, *segment)).collect();
        for answer in asked {
            let theirs = answer.await.flatten().unwrap_or_default();
            for ((room, _), more) in rooms.iter_mut().zip(theirs) {
                *room = room.saturating_add(more);
            }
        }
        rooms.sort_by_key(|(room, _)| std::cmp::Reverse(*room));
        rooms
    }

    fn rooms(&self, segments: &[u32], payload_bytes: u64) -> Vec<u64> {
        let mut keys = self.keys.borrow_mut();
        let mut room = |segment: &u32| keys.room(self.now_ms(), *segment, payload_bytes);
        segments.iter().map(|segment| room(segment).unwrap_or_default()).collect()
    }

    async fn gather_in<S: Startable>(
        &self,
        segment: u32,
        large: &Large<'_, S>,
    ) -> Option<Placements> {
        let mut placed = None;
        for round in 0..=GATHER_ROUNDS_MAX {
            placed = self.gather_round(&[segment], large, round > 0).await;
            if placed.is_some() {
                break;
            }
        }
        self.share_out_of(large.owner, vec![segment]).await;
        placed
    }

    /// The owner gives back what it does not need of some segments.
    async fn share_out_of(&self, owner: usize, segments: Vec<u32>) {
        self.on(owner, move |owner| {
            segments.into_iter().for_each(|segment| owner.share_out(segment));
        })
        .await;
    }

    /// All shards evict their part of what the object needs, if so wanted, and give the owner what
    /// is free.
    async fn gather_round<S: Startable>(
        &self,
        segments: &[u32],
        large: &Large<'_, S>,
        evicts: bool,
    ) -> Option<Placements> {
        let count = self.members().len();
        let places = (count * segments.len()) as u64;
        let evict_bytes = match evicts {
            true => extent_bytes(large.payload_bytes).div_ceil(places.max(1)),
            false => 0,
        };
        let segments: Arc<[u32]> = segments.into();
        let owner = large.owner;
        let asked: Vec<_> = (0..count)
            .filter(|index| *index != owner)
            .map(|index| {
                let segments = segments.clone();
                self.on(index, move |shard| {
                    segments.iter().for_each(|segment| {
                        shard.surrender_to(owner, *segment, evict_bytes);
                    });
                })
            })
            .collect();
        for answer in asked {
            answer.await;
        }
        let place = move |owner: &mut perigee_master::KeyShard, now_ms| {
            segments.iter().for_each(|segment| owner.evict_from(now_ms, *segment, evict_bytes));
            Effort::Free
        };
        let positions = [large.position];
        let placed = self.try_start(large.keys, &positions, large.puts, place).await;
        placed.short().is_empty().then_some(placed)
    }

    fn surrender_to(&self, owner: usize, segment: u32, evict_bytes: u64) {
        let mut keys = self.keys.borrow_mut();
        keys.evict_from(self.now_ms(), segment, evict_bytes);
        let loans = keys.surrender(segment);
        drop(keys);
        self.send_loans(owner, loans);
    }

    /// Gives the other shards an equal part each of what was gathered and not used.
    fn share_out(&self, segment: u32) {
        let others = self.members().len() - 1;
        let parts = self.keys.borrow_mut().share_out(segment, others);
        let others = (0..=others).filter(|index| *index != self.index);
        for (index, loans) in others.zip(parts) {
            self.send_loans(index, loans);
        }
    }

    /// Waits for the turn to gather, which the first shard gives; `None` if it does not come in
    /// time.
    async fn take_turn(&self) -> Option<u64> {
        for _ in 0..TURN_LOOKS_MAX {
            let turn = self.on(0, |first| first.gathering.borrow_mut().begin(first.now_ms()));
            match turn.await.flatten()? {
                Some(number) => return Some(number),
                None => self.environment.sleep(TURN_PAUSE).await,
            }
        }
        None
    }
}
