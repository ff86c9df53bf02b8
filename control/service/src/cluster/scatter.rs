//! Splitting a batch by the shard that owns each key, and joining the answers.
//!
//! With one shard a batch is answered in place; with several, each gets one job per batch and all
//! work at once. A large batch is cut, and other calls get their turn in between.

use super::control_shard::ControlShard;
use super::merge::Columns;
use perigee_master::{KeyShard, shard_of};
use perigee_shard::{Call, Environment};
use std::time::Duration;

/// Keys that one turn looks at...
const TURN_KEYS: usize = 1024;
/// ... and bytes of them.
const TURN_KEY_BYTES: usize = 256 << 10;

/// Some keys of a batch, with their positions in it.
pub(crate) struct KeySubset<'a> {
    pub(crate) keys: &'a [&'a [u8]],
    pub(crate) positions: &'a [usize],
}

impl KeySubset<'_> {
    /// The entries of another column of the batch that belong to this share.
    pub(crate) fn pick<T: Clone>(&self, column: &[T]) -> Vec<T> {
        self.positions.iter().map(|position| column[*position].clone()).collect()
    }
}

impl<E: Environment> ControlShard<E> {
    /// Runs `work` on the owners of `keys` and joins what they say in the order of the batch.
    pub(crate) async fn scatter<C: Columns>(
        &self,
        keys: &[&[u8]],
        work: impl Fn(&mut KeyShard, u64, &KeySubset<'_>, &mut C) + Clone + Send + 'static,
    ) -> C {
        let all: Vec<usize> = (0..keys.len()).collect();
        self.scatter_some(keys, &all, work).await
    }

    /// [`Self::scatter`] for the keys at some positions of the batch, in their order.
    pub(crate) async fn scatter_some<C: Columns>(
        &self,
        keys: &[&[u8]],
        wanted: &[usize],
        work: impl Fn(&mut KeyShard, u64, &KeySubset<'_>, &mut C) + Clone + Send + 'static,
    ) -> C {
        let mut whole = C::default();
        let mut left = wanted;
        while !left.is_empty() {
            let (turn, rest) = left.split_at(keys_of_a_turn(keys, left));
            let mut part = self.scatter_turn(keys, turn, work.clone()).await;
            if turn.len() == wanted.len() {
                return part;
            }
            part.seal();
            (0..turn.len()).for_each(|rank| whole.push(Some((&part, rank))));
            debug_assert!(!turn.is_empty(), "each turn looks at some keys");
            left = rest;
            // Calls of others that have arrived come first now.
            self.environment.sleep(Duration::ZERO).await;
        }
        debug_assert_eq!(whole.entries(), wanted.len(), "one entry per key");
        whole
    }

    async fn scatter_turn<C: Columns>(
        &self,
        keys: &[&[u8]],
        wanted: &[usize],
        work: impl Fn(&mut KeyShard, u64, &KeySubset<'_>, &mut C) + Clone + Send + 'static,
    ) -> C {
        let count = self.members().len();
        if count <= 1 {
            let own: Vec<&[u8]> = wanted.iter().map(|position| keys[*position]).collect();
            return self.answer(&own, wanted, &work);
        }
        let mut shares: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut owners = Vec::with_capacity(wanted.len());
        for position in wanted {
            let owner = shard_of(keys[*position], count);
            owners.push((owner, shares[owner].len()));
            shares[owner].push(*position);
        }
        let mut parts: Vec<Option<C>> = (0..count).map(|_| None).collect();
        let mut asked = Vec::new();
        for (owner, positions) in shares.iter().enumerate().filter(|(_, share)| !share.is_empty()) {
            if owner != self.index {
                asked.push((owner, self.ask_owner(owner, keys, positions, work.clone())));
            }
        }
        if !shares[self.index].is_empty() {
            let own: Vec<&[u8]> =
                shares[self.index].iter().map(|position| keys[*position]).collect();
            parts[self.index] = Some(self.answer(&own, &shares[self.index], &work));
        }
        for (owner, answer) in asked {
            parts[owner] = answer.await.flatten();
        }
        join(&owners, &mut parts)
    }

    fn answer<C: Columns>(
        &self,
        keys: &[&[u8]],
        positions: &[usize],
        work: &impl Fn(&mut KeyShard, u64, &KeySubset<'_>, &mut C),
    ) -> C {
        debug_assert_eq!(keys.len(), positions.len(), "each key has its position in the batch");
        let mut columns = C::default();
        work(
            &mut self.keys.borrow_mut(),
            self.now_ms(),
            &KeySubset { keys, positions },
            &mut columns,
        );
        debug_assert_eq!(columns.entries(), keys.len(), "one answer per key");
        columns
    }

    fn ask_owner<C: Columns>(
        &self,
        owner: usize,
        keys: &[&[u8]],
        positions: &[usize],
        work: impl Fn(&mut KeyShard, u64, &KeySubset<'_>, &mut C) + Send + 'static,
    ) -> Call<E, Option<C>> {
        let member = self.members()[owner].clone();
        let keys: Vec<Box<[u8]>> =
            positions.iter().map(|position| keys[*position].into()).collect();
        let positions = positions.to_vec();
        let name = member.name;
        self.environment.call_later(&member.mailbox, move |theirs, reply| {
            if let Some(shard) = theirs.local(name) {
                let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
                let columns = shard.answer(&keys, &positions, &work);
                shard.reply_when_sent(reply, columns);
            }
        })
    }
}

/// How many of these keys are looked at before other calls get their turn.
fn keys_of_a_turn(keys: &[&[u8]], positions: &[usize]) -> usize {
    let mut bytes = 0;
    let fits = |position: &&usize| {
        bytes += keys[**position].len();
        bytes <= TURN_KEY_BYTES
    };
    let few = positions.iter().take(TURN_KEYS);
    few.take_while(fits).count().max(1)
}

/// Joins parts, given the shard and the entry there of each key.
fn join<C: Columns>(owners: &[(usize, usize)], parts: &mut [Option<C>]) -> C {
    parts.iter_mut().flatten().for_each(Columns::seal);
    let mut whole = C::default();
    for (owner, rank) in owners {
        whole.push(parts[*owner].as_ref().map(|part| (part, *rank)));
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use crate::cluster::merge::Replicas;
    use crate::config::{MasterConfig, MasterStart};
    use perigee_flags::ProcessEnvironment;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Keys of the largest batch that a frame takes.
    const BATCH: usize = 60 * TURN_KEYS;

    #[test]
    fn others_get_their_turn_while_a_large_batch_is_answered() {
        let flags = ["--rpc_shards=1".to_owned()];
        let loaded = MasterConfig::load(&flags, &ProcessEnvironment::of(&[]));
        let MasterStart::Serve(config) = loaded.expect("the flag is known") else {
            unreachable!("no text was asked for")
        };
        let address = "127.0.0.1:0".parse().expect("an address");
        let cluster = Cluster::start(&config, address, None).expect("a port is free");
        let turns = cluster.run_first(|shard| async move {
            let names: Vec<String> = (0..BATCH).map(|key| format!("key-{key}")).collect();
            let keys: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
            let (turns, is_over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
            let (counted, watched) = (turns.clone(), is_over.clone());
            let other = shard.environment.clone();
            shard.environment.spawn(async move {
                while !watched.get() {
                    counted.set(counted.get() + 1);
                    other.sleep(Duration::ZERO).await;
                }
            });
            shard.environment.sleep(Duration::ZERO).await;
            let before = turns.get();
            let look_up =
                |owner: &mut KeyShard, now, share: &KeySubset<'_>, found: &mut Replicas| {
                    owner.get_replicas(now, share.keys, &mut found.columns);
                };
            let found: Replicas = shard.scatter(&keys, look_up).await;
            is_over.set(true);
            assert_eq!(found.columns.status.len(), BATCH);
            turns.get() - before
        });
        cluster.stop();
        let turns = turns.expect("the batch ends");
        assert!(turns >= BATCH / TURN_KEYS - 1, "{turns} turns of others");
    }

    #[test]
    fn a_turn_is_bounded_in_keys_and_in_bytes_and_never_empty() {
        let turn = |count: usize, bytes: usize| {
            let key = vec![b'k'; bytes];
            let keys: Vec<&[u8]> = (0..count).map(|_| &key[..]).collect();
            let positions: Vec<usize> = (0..count).collect();
            keys_of_a_turn(&keys, &positions)
        };
        assert_eq!(turn(10, 8192), 10);
        assert_eq!(turn(5000, 10), TURN_KEYS);
        assert_eq!(turn(5000, 8192), TURN_KEY_BYTES / 8192);
        assert_eq!(turn(2, TURN_KEY_BYTES + 1), 1);
    }
}
