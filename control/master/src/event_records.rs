//! Key events one behind the other in one block of memory, which is used again.
//! Invariant: events come out as they went in; the memory of those that are gone is never more
//! than that of those that wait, and no event has memory of its own.

use crate::key_event::{KeyChange, KeyEvent, Medium};

/// The head of an event: bytes of the value, of the key and of the group, and what happened where.
const HEAD_BYTES: usize = 8 + 4 + 4 + 1;
/// In place of the bytes of a group.
const NO_GROUP: u32 = u32::MAX;
const IS_REMOVED: u8 = 1;
const IS_ON_DISK: u8 = 2;
/// Memory that an empty list keeps for the next events.
const KEPT_BYTES: usize = 1 << 20;

/// Events, oldest first.
#[derive(Default)]
pub struct EventRecords {
    bytes: Vec<u8>,
    /// Where the oldest begins.
    start: usize,
    len: usize,
}

impl EventRecords {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory of all of them.
    pub fn bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Each of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = KeyEvent<'_>> {
        let mut rest = &self.bytes[self.start..];
        std::iter::from_fn(move || {
            let (event, after) = event(rest)?;
            rest = after;
            Some(event)
        })
    }

    /// Forgets all, and keeps some memory for the next ones.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        (self.start, self.len) = (0, 0);
    }

    pub(crate) fn push(&mut self, event: &KeyEvent<'_>) {
        let group = event.group.map_or(NO_GROUP, length);
        let kind = match event.change {
            KeyChange::Stored => 0,
            KeyChange::Removed => IS_REMOVED,
        };
        let place = match event.medium {
            Medium::Memory => 0,
            Medium::Disk => IS_ON_DISK,
        };
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&event.payload_bytes.to_le_bytes());
        head[8..12].copy_from_slice(&length(event.key).to_le_bytes());
        head[12..16].copy_from_slice(&group.to_le_bytes());
        head[16] = kind | place;
        self.bytes.extend_from_slice(&head);
        self.bytes.extend_from_slice(event.key);
        self.bytes.extend_from_slice(event.group.unwrap_or_default());
        self.len += 1;
    }

    /// Forgets the oldest.
    pub(crate) fn drop_oldest(&mut self) {
        let waiting = &self.bytes[self.start..];
        let Some((_, after)) = event(waiting) else {
            return;
        };
        self.start += waiting.len() - after.len();
        self.len -= 1;
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

/// Keys and groups are bounded far below this.
fn length(name: &[u8]) -> u32 {
    debug_assert!(name.len() < NO_GROUP as usize, "no name is that long");
    name.len() as u32
}

/// The first event, and what is behind it.
fn event(bytes: &[u8]) -> Option<(KeyEvent<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let (payload_bytes, head) = head.split_first_chunk()?;
    let (key, head) = head.split_first_chunk()?;
    let (group, head) = head.split_first_chunk()?;
    let kind = *head.first()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key) as usize)?;
    let (group, rest) = match u32::from_le_bytes(*group) {
        NO_GROUP => (None, rest),
        length => {
            let (group, rest) = rest.split_at_checked(length as usize)?;
            (Some(group), rest)
        }
    };
    let event = KeyEvent {
        change: if kind & IS_REMOVED == 0 { KeyChange::Stored } else { KeyChange::Removed },
        medium: if kind & IS_ON_DISK == 0 { Medium::Memory } else { Medium::Disk },
        key,
        payload_bytes: u64::from_le_bytes(*payload_bytes),
        group,
    };
    Some((event, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Debug, Clone)]
    enum Step {
        Push {
            is_removed: bool,
            is_on_disk: bool,
            key: Vec<u8>,
            payload: u64,
            group: Option<Vec<u8>>,
        },
        DropOldest,
        Clear,
    }

    fn step() -> impl Strategy<Value = Step> {
        let name = || proptest::collection::vec(any::<u8>(), 0..40);
        let push =
            (any::<bool>(), any::<bool>(), name(), any::<u64>(), proptest::option::of(name()));
        prop_oneof![
            6 => push.prop_map(|(is_removed, is_on_disk, key, payload, group)| Step::Push {
                is_removed, is_on_disk, key, payload, group
            }),
            3 => Just(Step::DropOldest),
            1 => Just(Step::Clear),
        ]
    }

    fn event_of(step: &Step) -> Option<KeyEvent<'_>> {
        let Step::Push { is_removed, is_on_disk, key, payload, group } = step else {
            return None;
        };
        Some(KeyEvent {
            change: if *is_removed { KeyChange::Removed } else { KeyChange::Stored },
            medium: if *is_on_disk { Medium::Disk } else { Medium::Memory },
            key,
            payload_bytes: *payload,
            group: group.as_deref(),
        })
    }

    proptest! {
        #[test]
        fn it_is_a_queue_whose_dead_part_is_no_longer_than_the_rest(
            steps in proptest::collection::vec(step(), 0..200)
        ) {
            let (mut records, mut model) = (EventRecords::default(), VecDeque::new());
            for step in &steps {
                match step {
                    Step::DropOldest => {
                        records.drop_oldest();
                        model.pop_front();
                    }
                    Step::Clear => {
                        records.clear();
                        model.clear();
                    }
                    Step::Push { .. } => {
                        let event = event_of(step).unwrap();
                        records.push(&event);
                        model.push_back(event);
                    }
                }
                prop_assert!(records.iter().eq(model.iter().copied()));
                prop_assert_eq!(records.len(), model.len());
                prop_assert_eq!(records.is_empty(), model.is_empty());
                prop_assert!(records.start <= records.bytes());
                let texts = |event: &KeyEvent<'_>| {
                    event.key.len() + event.group.unwrap_or_default().len()
                };
                let wanted: usize = model.iter().map(|event| HEAD_BYTES + texts(event)).sum();
                prop_assert_eq!(records.bytes(), wanted);
            }
        }
    }

    #[test]
    fn an_empty_list_gives_the_memory_of_a_burst_back() {
        let key = vec![0; 1000];
        let event = KeyEvent {
            change: KeyChange::Stored,
            medium: Medium::Memory,
            key: &key,
            payload_bytes: 1,
            group: None,
        };
        let mut records = EventRecords::default();
        for _ in 0..5000 {
            records.push(&event);
        }
        assert!(records.bytes.capacity() > 4 * KEPT_BYTES);
        records.clear();
        assert!(records.bytes.capacity() <= KEPT_BYTES);
    }
}
