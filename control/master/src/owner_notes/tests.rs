//! Facts about what owners hear.

use perigee_schemas::record::RecordOp;

use crate::disk_tier::DiskTier;
use crate::outbox::Outbox;
use crate::read_view::tests::space;
use crate::rebuild::Rebuild;
use crate::removals::Removals;
use crate::settings::ShardSettings;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::stored::tests::{MEMORY, add, stored};
use crate::wishes::Wishes;

use super::OwnerNotes;

/// Objects, and the notes about them.
struct NotesStage {
    stored: StoredObjects,
    space: Space,
    outbox: Outbox,
}

impl NotesStage {
    fn new() -> Self {
        Self { stored: stored(), space: space(), outbox: Outbox::new(0) }
    }

    /// Whether a step was noted.
    fn notes(&mut self, step: impl FnOnce(OwnerNotes<'_>)) -> bool {
        let settings = ShardSettings::default();
        let Self { stored, space, outbox } = self;
        step(OwnerNotes {
            settings: &settings,
            outbox,
            wishes: &Wishes::default(),
            rebuild: &Rebuild::default(),
            removals: &mut Removals::default(),
            tier: &DiskTier::new(&settings),
            stored,
            space,
        });
        self.stored.check();
        self.outbox.check();
        let taken = self.outbox.take();
        taken.is_some_and(|(segment, records)| segment == MEMORY && records.is_some())
    }
}

#[test]
fn only_who_follows_a_segment_hears_of_it() {
    let mut parts = NotesStage::new();
    let object = add(&mut parts.stored, "a", "");
    let first = parts.stored.keys[object].first;
    assert!(!parts.notes(|mut notes| notes.note_commits(first)));
    parts.outbox.follow(MEMORY);
    assert!(parts.notes(|mut notes| notes.note_commits(first)));
    assert!(parts.notes(|mut notes| notes.note(first, RecordOp::Free)));
}

#[test]
fn a_pin_is_noted_when_it_changes() {
    let mut parts = NotesStage::new();
    let object = add(&mut parts.stored, "a", "");
    parts.outbox.follow(MEMORY);
    assert!(parts.notes(|mut notes| notes.set_soft_pin(object, Some(5_000))));
    assert!(!parts.notes(|mut notes| notes.set_soft_pin(object, Some(6_000))), "it stays pinned");
    assert!(parts.notes(|mut notes| notes.set_soft_pin(object, None)));
}

#[test]
fn another_number_of_replicas_is_noted() {
    let mut parts = NotesStage::new();
    let object = add(&mut parts.stored, "a", "");
    parts.outbox.follow(MEMORY);
    assert!(!parts.notes(|mut notes| notes.note_wanted(object, 1)));
    assert!(parts.notes(|mut notes| notes.note_wanted(object, 2)));
}
