//! Agreeing with a client on what it lends. Calls overtake each other and answers are lost, so the two lists may differ.
//! Invariant: the client's list decides, except about what it asked to mount after it had made the list.

use std::collections::BTreeSet;

use super::{ClientState, Registry};

/// What a client lends, by its own list.
#[derive(Debug, Clone, Copy)]
pub struct Holdings<'a> {
    /// All its segments, those with a running grace aside.
    pub segments: &'a [u128],
    /// Number of the last mount request that it had begun when it made the list.
    pub mounts: u64,
}

impl Registry {
    /// Notes that a client's mount request of this number named segments; without a number none of them is ever
    /// unmounted for being missing from a list.
    pub fn number_mounts(&mut self, client: u128, segments: &[u128], number: u64) {
        for id in segments {
            let index = self.index_by_id.get(id);
            let mounted = index.and_then(|index| self.segments.get_mut(index));
            if let Some(mounted) = mounted.filter(|mounted| mounted.spec.client == client) {
                mounted.mount_number = mounted.mount_number.max(number);
            }
        }
    }

    /// Unmounts what a known client does not lend any more. It must mount again if it lends what is not mounted.
    pub fn agree(&mut self, client: u128, holdings: &Holdings<'_>) -> ClientState {
        let Some(known) = self.clients.get(&client) else {
            return ClientState::NeedRemount;
        };
        let listed: BTreeSet<u128> = holdings.segments.iter().copied().collect();
        let is_stray = |index: &&u32| {
            self.segments.get(index).is_some_and(|mounted| {
                (1..=holdings.mounts).contains(&mounted.mount_number)
                    && mounted.drain_end_ms.is_none()
                    && !listed.contains(&mounted.spec.id)
            })
        };
        let strays: Vec<u32> = known.segments.iter().filter(is_stray).copied().collect();
        for index in strays {
            self.forget_segment(index);
        }
        let is_mounted = |id| self.index_by_id.contains_key(id);
        match listed.iter().all(is_mounted) {
            true => ClientState::Ok,
            false => ClientState::NeedRemount,
        }
    }
}
