//! Views of a shard that borrow some of its parts.
//! Invariant: a view lives for one step, and owns nothing.

use crate::demoting::Demoting;
use crate::owner_notes::OwnerNotes;
use crate::read_view::ReadView;
use crate::relocating::Relocating;
use crate::victim_search::VictimSearch;
use crate::wishing::Wishing;

use super::KeyShard;

impl KeyShard {
    /// What can be read now.
    pub(super) fn view(&self) -> ReadView<'_> {
        ReadView { stored: &self.stored, space: &self.space }
    }

    /// The tier of disks, with what its steps change.
    pub(super) fn demoting(&mut self) -> Demoting<'_> {
        Demoting {
            tier: &mut self.tier,
            stored: &mut self.stored,
            space: &mut self.space,
            outbox: &mut self.outbox,
            counters: &mut self.counters,
        }
    }

    /// The search for what is evicted next.
    pub(super) fn victims(&mut self) -> VictimSearch<'_> {
        VictimSearch {
            order: &mut self.order,
            quotas: &self.quotas,
            relocation: &self.relocation,
            tier: &mut self.tier,
            stored: &mut self.stored,
            space: &mut self.space,
            outbox: &mut self.outbox,
            counters: &mut self.counters,
        }
    }

    /// The moves under way.
    pub(super) fn relocating(&mut self) -> Relocating<'_> {
        Relocating {
            settings: &self.settings,
            quotas: &self.quotas,
            relocation: &mut self.relocation,
            stored: &mut self.stored,
            space: &mut self.space,
            hits: &mut self.hits,
            counters: &mut self.counters,
        }
    }

    /// The wishes for more replicas.
    pub(super) fn wishing(&mut self) -> Wishing<'_> {
        Wishing {
            settings: &self.settings,
            wishes: &mut self.wishes,
            heat: &mut self.heat,
            rebuild: &mut self.rebuild,
            relocation: &self.relocation,
            pending: &self.pending,
            stored: &self.stored,
            space: &self.space,
            counters: &mut self.counters,
        }
    }

    /// What owners hear.
    pub(super) fn owner_notes(&mut self) -> OwnerNotes<'_> {
        OwnerNotes {
            settings: &self.settings,
            outbox: &mut self.outbox,
            wishes: &self.wishes,
            rebuild: &self.rebuild,
            removals: &mut self.removals,
            tier: &self.tier,
            stored: &mut self.stored,
            space: &self.space,
        }
    }
}
