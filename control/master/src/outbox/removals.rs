//! Removals that outlive the master: owners keep them beside what lies in their segments, and the
//! next life of the master hears of them before it takes anything over.
//! Invariant: owners of several segments hear of each removal, as far as there are several.

use perigee_schemas::Identity;
use perigee_schemas::record::{Record, RecordOp};

use crate::limits::REMOVAL_KEEPERS_MAX;
use crate::pattern::Pattern;
use crate::removals::names_of;
use crate::space::Space;

use super::Outbox;

impl Outbox {
    /// Notes that a key was removed, whichever owners had it, and that its copies of smaller
    /// generations are void: some owners may be away.
    pub(crate) fn note_removal(&mut self, space: &Space, generation: u64, key: &[u8]) {
        self.note_for_keepers(space, (RecordOp::Removed, generation), key, &[]);
    }

    /// The same of all keys that match a pattern.
    pub(crate) fn note_pattern_removal(
        &mut self,
        space: &Space,
        generation: u64,
        pattern: &Pattern,
    ) {
        let (tenant, text) = names_of(pattern);
        self.note_for_keepers(space, (RecordOp::RemovedPattern, generation), text, tenant);
    }

    /// Notes that copies of smaller generations are void.
    fn note_for_keepers(
        &mut self,
        space: &Space,
        (op, generation): (RecordOp, u64),
        key: &[u8],
        group: &[u8],
    ) {
        let record = Record {
            op,
            flags: 0,
            checksum: 0,
            sequence: 0,
            generation,
            offset: 0,
            payload_bytes: 1,
            client: Identity(0),
            key,
            group,
            part: None,
        };
        if !record.is_valid() {
            return;
        }
        for segment in self.removal_keepers(space) {
            self.note(segment, &record);
        }
    }

    /// Segments of several owners: enough that one of them outlives the master.
    fn removal_keepers(&self, space: &Space) -> Vec<u32> {
        let mut keepers: Vec<(u128, u32)> = Vec::with_capacity(REMOVAL_KEEPERS_MAX);
        for (segment, share) in space.iter() {
            let client = share.spec.client;
            let is_followed = share.is_memory() && self.is_followed(segment);
            if is_followed && keepers.iter().all(|(known, _)| *known != client) {
                keepers.push((client, segment));
            }
            if keepers.len() == REMOVAL_KEEPERS_MAX {
                break;
            }
        }
        keepers.into_iter().map(|(_, segment)| segment).collect()
    }
}
