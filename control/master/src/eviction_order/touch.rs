//! Touches, as the policy of eviction hears of them.
//! Invariant: it hears of each read and each put once.

use crate::index::Slot;
use crate::read_view::ReadView;
use crate::stored::StoredObjects;
use crate::touch::Touch;

use super::EvictionOrder;

impl EvictionOrder {
    /// Grants the lease to an object, or to its whole group, and makes it the newest. Returns the
    /// name by which a reader gives its lease back.
    pub(crate) fn touch(&mut self, stored: &mut StoredObjects, object: u32, touch: Touch) -> u64 {
        if touch == Touch::Read {
            let kind = stored.kind_of(object).read();
            stored.keys[object].set_kind(kind);
            self.note_access(stored, object, kind, true);
        }
        stored.touch(object, touch)
    }

    /// A client asked for what is kept of a key.
    pub(crate) fn probe(&mut self, stored: &mut StoredObjects, slot: Slot) {
        match (slot.as_object(), slot.as_packed()) {
            (Some(object), _) => {
                self.touch(stored, object, Touch::Probe);
            }
            (None, Some(place)) => stored.probe_packed(place),
            (None, None) => {}
        }
    }

    /// Whether what is kept of a key that is put again is a packed record that can be read: its
    /// writer has no use for that now, but would have had.
    pub(crate) fn is_packed_again(&mut self, view: ReadView<'_>, hash: u64, known: Slot) -> bool {
        let place = known.as_packed();
        let Some(place) = place.filter(|place| view.is_packed_readable(*place)) else {
            return false;
        };
        let kind = view.stored.keys.packed().copy(place).kind;
        self.note_access_of(view.stored, hash, kind, true);
        true
    }
}
