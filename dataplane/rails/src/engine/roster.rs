//! The peers of an engine by name, and whether they are still held. Invariant: a name has one
//! record at a time, and a record that a handle holds is not dropped for want of room.

use crate::descriptor::PeerDescriptor;
use crate::error::RailError;
use crate::limits::PEERS_MAX;
use crate::peer::PeerRecord;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A peer that was opened.
#[derive(Clone, Debug)]
pub struct PeerHandle {
    record: Arc<PeerRecord>,
    /// Shared by the handles and the roster; shards hold the record alone.
    _held: Arc<()>,
}

impl PeerHandle {
    /// The name it was opened under.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Number that tells this run of the process from the next.
    pub fn epoch(&self) -> u64 {
        self.record.epoch
    }

    /// False once it was forgotten or another engine runs under its name.
    pub fn is_open(&self) -> bool {
        !self.record.is_gone()
    }

    pub(crate) fn record(&self) -> &Arc<PeerRecord> {
        &self.record
    }
}

#[derive(Debug)]
struct RosterEntry {
    record: Arc<PeerRecord>,
    held: Arc<()>,
}

impl RosterEntry {
    fn handle(&self) -> PeerHandle {
        PeerHandle { record: self.record.clone(), _held: self.held.clone() }
    }

    fn is_held(&self) -> bool {
        Arc::strong_count(&self.held) > 1
    }
}

/// Peers by name.
#[derive(Debug, Default)]
pub(super) struct Roster {
    places: Mutex<HashMap<String, RosterEntry>>,
    numbers: AtomicU64,
}

/// A peer that was opened, and those that had to go for it.
#[derive(Debug)]
pub(super) struct OpenedPeer {
    pub(super) peer: PeerHandle,
    pub(super) gone: Vec<Arc<PeerRecord>>,
}

impl Roster {
    /// The peer of a name and descriptor. Another epoch under the name is another peer; other rails
    /// of the same epoch are the same one's, whose addresses changed. If there is no room, peers
    /// without holders are dropped.
    pub(super) fn open(
        &self,
        name: &str,
        descriptor: &PeerDescriptor,
    ) -> Result<OpenedPeer, RailError> {
        let mut places = self.places();
        let mut gone = Vec::new();
        if let Some(known) = places.get(name) {
            if known.record.epoch == descriptor.epoch && !known.record.is_gone() {
                known.record.describe(&descriptor.rails);
                let peer = known.handle();
                return Ok(OpenedPeer { peer, gone });
            }
            known.record.replaced.store(true, Ordering::Release);
            gone.push(known.record.clone());
        } else if places.len() >= PEERS_MAX {
            let unheld = places.extract_if(|_, place| !place.is_held());
            gone.extend(unheld.map(|(_, place)| place.record));
            if gone.is_empty() {
                return Err(RailError::Full { waiting: places.len(), limit: PEERS_MAX });
            }
        }
        let place = RosterEntry {
            record: Arc::new(PeerRecord::new(
                self.numbers.fetch_add(1, Ordering::Relaxed),
                name,
                descriptor,
            )),
            held: Arc::new(()),
        };
        let peer = place.handle();
        places.insert(name.to_owned(), place);
        debug_assert!(places.len() <= PEERS_MAX, "another one made room");
        Ok(OpenedPeer { peer, gone })
    }

    /// Takes a peer out, if its name still stands for it.
    pub(super) fn remove(&self, peer: &PeerHandle) {
        let mut places = self.places();
        let known = places.get(peer.name());
        if known.is_some_and(|known| Arc::ptr_eq(&known.record, peer.record())) {
            places.remove(peer.name());
        }
    }

    fn places(&self) -> MutexGuard<'_, HashMap<String, RosterEntry>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(epoch: u64) -> PeerDescriptor {
        PeerDescriptor { epoch, rails: Vec::new() }
    }

    #[test]
    fn a_name_stands_for_one_peer_at_a_time() {
        let roster = Roster::default();
        let first = roster.open("a", &descriptor(1)).unwrap().peer;
        let same = roster.open("a", &descriptor(1)).unwrap();
        assert!(Arc::ptr_eq(first.record(), same.peer.record()) && same.gone.is_empty());
        let restarted = roster.open("a", &descriptor(2)).unwrap();
        assert!(Arc::ptr_eq(&restarted.gone[0], first.record()));
        roster.remove(&first);
        let known = roster.open("a", &descriptor(2)).unwrap().peer;
        assert!(Arc::ptr_eq(known.record(), restarted.peer.record()));
    }

    #[test]
    fn other_rails_of_the_same_epoch_are_the_same_peers() {
        let roster = Roster::default();
        let first = roster.open("a", &descriptor(1)).unwrap().peer;
        let mut moved = descriptor(1);
        moved.rails.push(crate::descriptor::RailDescriptor {
            device: "sw0".to_owned(),
            infiniband: false,
            lid: 0,
            gids: Vec::new(),
        });
        let same = roster.open("a", &moved).unwrap();
        assert!(Arc::ptr_eq(first.record(), same.peer.record()) && same.gone.is_empty());
        assert!(first.is_open() && *first.record().rails() == moved.rails);
    }

    #[test]
    fn peers_without_a_holder_make_room_and_the_others_stay() {
        let roster = Roster::default();
        let held: Vec<_> = (0..10)
            .map(|number| roster.open(&format!("held-{number}"), &descriptor(1)).unwrap())
            .collect();
        for number in 0..3 * PEERS_MAX {
            let opened = roster.open(&format!("gone-{number}"), &descriptor(1)).unwrap();
            let names = opened.gone.iter().map(|record| &record.name);
            assert!(names.into_iter().all(|name| name.starts_with("gone")));
        }
        for (number, opened) in held.iter().enumerate() {
            let again = roster.open(&format!("held-{number}"), &descriptor(1)).unwrap();
            assert!(Arc::ptr_eq(again.peer.record(), opened.peer.record()));
        }
        let all: Vec<_> = (0..2 * PEERS_MAX)
            .map_while(|number| roster.open(&format!("all-{number}"), &descriptor(1)).ok())
            .collect();
        assert_eq!(all.len() + held.len(), PEERS_MAX, "what is held is bounded");
    }
}
