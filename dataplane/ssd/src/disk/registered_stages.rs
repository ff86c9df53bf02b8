//! Which parts of the memory for stages the reactor has registered. Plain reads of 1 MiB have three
//! fifths of the throughput of registered ones where a virtual disk answers.
//! Invariant: a part is registered when it is first used, and refused once for all of them.

use crate::limits::LOCKED_BYTES_WANTED;
use crate::stage::{PooledStage, StagePool};
use perigee_memory::memlock::check_memlock;
use perigee_shard::{Files, RingRegistration};
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug)]
enum StageParts {
    /// The parts that are registered, by their numbers.
    Registered(Vec<Option<RingRegistration>>),
    /// Operations look up their pages each time.
    Plain,
}

#[derive(Debug)]
pub(super) struct RegisteredStages(RefCell<StageParts>);

impl RegisteredStages {
    /// None yet. Says so if there will never be any.
    pub(super) fn of(disk: &Path) -> Self {
        let allowed = check_memlock(LOCKED_BYTES_WANTED);
        let used = match &allowed {
            Ok(()) => StageParts::Registered(Vec::new()),
            Err(_) => StageParts::Plain,
        };
        if let Err(error) = allowed {
            tracing::info!(disk = %disk.display(), %error, "Memory for the disk is not registered, so it is slower");
        }
        Self(RefCell::new(used))
    }

    /// Registers what a stage lies in, unless it is.
    pub(super) fn cover(&self, files: &impl Files, pool: &Arc<StagePool>, stage: &PooledStage) {
        let mut used = self.0.borrow_mut();
        let StageParts::Registered(parts) = &mut *used else { return };
        for number in stage.parts() {
            if parts.len() <= number {
                parts.resize_with(number + 1, || None);
            }
            if parts[number].is_some() {
                continue;
            }
            match files.register(pool.part(number)) {
                Ok(Some(registration)) => parts[number] = Some(registration),
                Ok(None) => return *used = StageParts::Plain,
                Err(error) => {
                    tracing::info!(%error, "The kernel registers no memory for a disk, so it is slower");
                    return *used = StageParts::Plain;
                }
            }
        }
    }
}
