//! What a run of a disk shares, and what is wrong with its disk.

use super::model::Model;
use crate::disk::DiskBehaviour;
use crate::network::HostId;
use crate::random::Random;
use crate::scenario::Tally;
use crate::world::World;
use perigee_ssd::{DiskEvent, DiskOptions, FolderChoice, StorageKey};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// The smallest segments, and as few as still move.
const SEGMENT_BYTES: u32 = 16 << 20;
const SEGMENTS: u64 = 3;

/// What is wrong with the disk of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trouble {
    pub(super) behaviour: DiskBehaviour,
    pub(super) flips: bool,
}

impl Trouble {
    pub(super) fn of(random: &Random) -> Self {
        let mut behaviour = DiskBehaviour::default();
        let mut flips = false;
        match random.below(9) {
            0 => behaviour.error_odds = random.between(20, 400),
            1 => behaviour.stall_odds = random.between(50, 400),
            2 => behaviour.capacity_bytes = random.between(40 << 20, 60 << 20),
            3 => flips = true,
            4 => behaviour.lie_odds = random.between(20, 400),
            _ => {}
        }
        Self { behaviour, flips }
    }

    /// Whether what the disk has said to have is not there: tombstones too.
    pub(super) fn is_untrue(self) -> bool {
        self.flips || self.behaviour.lie_odds > 0
    }

    pub(super) fn is_none(self) -> bool {
        self.behaviour.error_odds == 0 && self.behaviour.stall_odds == 0 && !self.is_untrue()
    }
}

/// What a run shares.
pub(super) struct Play {
    pub(super) world: Rc<World>,
    pub(super) host: HostId,
    pub(super) random: Random,
    pub(super) trouble: Trouble,
    /// What the disk is encrypted with, in some runs.
    pub(super) key: Option<StorageKey>,
    pub(super) model: RefCell<Model>,
    pub(super) tally: Cell<Tally>,
    /// What the disk has said in the present life.
    pub(super) events: Arc<Mutex<Vec<DiskEvent>>>,
}

impl Play {
    pub(super) fn count(&self, is_done: bool) {
        let mut tally = self.tally.get();
        if is_done {
            tally.done += 1;
        } else {
            tally.failed += 1;
        }
        self.tally.set(tally);
    }

    pub(super) fn note_fault(&self) {
        let mut tally = self.tally.get();
        tally.faults += 1;
        self.tally.set(tally);
    }

    pub(super) fn options(&self) -> DiskOptions {
        let events = self.events.clone();
        DiskOptions {
            path: "/ssd".into(),
            folder: FolderChoice::FirstFree,
            capacity_bytes: SEGMENTS * u64::from(SEGMENT_BYTES),
            sharers: 1,
            segment_bytes: SEGMENT_BYTES,
            cluster: "simulation".to_owned(),
            key: self.key.clone(),
            promotes: Arc::new(AtomicBool::new(true)),
            on_event: Arc::new(move |event| {
                events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
            }),
        }
    }

    /// What the disk has said changes what the user counts on.
    pub(super) fn hear(&self) {
        let events =
            std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
        for event in events {
            if let DiskEvent::Recycled { oldest } = event {
                self.model.borrow_mut().recycled(oldest);
            }
        }
    }
}
