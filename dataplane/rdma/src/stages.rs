//! Registered memory through which bytes pass that lie in memory no device knows, and footers of
//! objects.
//! Invariant: a stage is lent to one batch at a time, which gives it back when no device touches it
//! any more.

use crate::limits::{STAGE_ALIGNMENT, STAGE_BYTES, STAGES_MAX};
use perigee_memory::HostBuffer;
use perigee_rails::{Preference, RailEngine, RailError, Registration};
use perigee_verbs::RegionAccess;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One piece of registered memory.
#[derive(Debug)]
struct Stage {
    /// Declared first, so that it is revoked before the memory goes.
    registration: Arc<Registration>,
    buffer: HostBuffer,
}

/// All pieces; they are made when they are first needed and then kept.
#[derive(Debug, Default)]
pub struct Stages {
    state: Mutex<FreeStages>,
}

#[derive(Debug, Default)]
struct FreeStages {
    free: Vec<Stage>,
    made: usize,
}

impl FreeStages {
    /// Panics if a stage is free twice, or one that was never made.
    fn check(&self) {
        debug_assert!(self.free.len() <= self.made, "each stage is lent or free");
    }
}

/// A range of a stage.
#[derive(Clone, Debug)]
pub struct StageSlot {
    /// Of the stage.
    pub registration: Arc<Registration>,
    /// First byte.
    pub address: u64,
}

impl StageSlot {
    /// First byte.
    pub fn pointer(&self) -> *mut u8 {
        self.address as *mut u8
    }
}

/// Stages on loan.
#[derive(Debug)]
pub struct StageLoan {
    stages: Arc<Stages>,
    taken: Vec<Stage>,
    /// Bytes used of the last one.
    used: u64,
}

impl Stages {
    fn state(&self) -> MutexGuard<'_, FreeStages> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A free stage, or a new one; `None` if all are lent or no more memory can be registered.
    fn take(&self, engine: &RailEngine) -> Option<Stage> {
        {
            let mut state = self.state();
            state.check();
            if let Some(stage) = state.free.pop() {
                return Some(stage);
            }
            if state.made >= STAGES_MAX {
                return None;
            }
            // Counted before it is made, because that takes long and others wait for the lock.
            state.made += 1;
            debug_assert!(state.made <= STAGES_MAX);
        }
        let made = make(engine);
        if let Err(error) = &made {
            tracing::info!(%error, "No registered memory for copies, TCP is used");
            let mut state = self.state();
            state.made -= 1;
            state.check();
        }
        made.ok()
    }
}

fn make(engine: &RailEngine) -> Result<Stage, RailError> {
    let buffer = HostBuffer::allocate(STAGE_BYTES as usize)
        .map_err(|error| RailError::Shard { reason: error.to_string() })?;
    let address = buffer.base() as u64;
    // SAFETY: the registration lies beside the buffer and is dropped first.
    let registration = unsafe {
        engine.register(address, STAGE_BYTES, RegionAccess::LOCAL, &Preference::default())
    }?;
    debug_assert!(registration.contains(address, STAGE_BYTES), "no slot crosses its end");
    Ok(Stage { registration, buffer })
}

impl StageLoan {
    /// Nothing yet.
    pub fn new(stages: &Arc<Stages>) -> Self {
        Self { stages: stages.clone(), taken: Vec::new(), used: STAGE_BYTES }
    }

    /// Room for `bytes` in one piece, if there is any.
    pub fn slot(&mut self, engine: &RailEngine, bytes: u64) -> Option<StageSlot> {
        if bytes > STAGE_BYTES {
            return None;
        }
        if self.used + bytes > STAGE_BYTES {
            self.taken.push(self.stages.take(engine)?);
            self.used = 0;
        }
        let stage = self.taken.last()?;
        let address = stage.buffer.base() as u64 + self.used;
        debug_assert!(self.used.is_multiple_of(STAGE_ALIGNMENT));
        // Device and CPU would write into the next slot, or behind the memory.
        assert!(stage.registration.contains(address, bytes), "a slot lies inside its stage");
        self.used = (self.used + bytes).next_multiple_of(STAGE_ALIGNMENT);
        Some(StageSlot { registration: stage.registration.clone(), address })
    }
}

impl Drop for StageLoan {
    fn drop(&mut self) {
        let mut state = self.stages.state();
        state.free.append(&mut self.taken);
        state.check();
    }
}
