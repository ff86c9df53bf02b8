//! What becomes of the objects of a node that stops: they go to other nodes, or to its own disks.
//! Invariant: all of it ends with the time that was given for it.

use crate::config::{NodeConfig, StopDrain};
use crate::default_drain::drain_by_default;
use crate::drain::{DrainError, DrainJobs, Moved};
use nix::sys::signal::Signal;
use perigee_store::Store;
use perigee_store::disks::SavedObjects;
use std::time::{Duration, Instant};

/// Moves the objects of the node to others, if that is wanted, and writes the rest to its disks.
/// What neither has in time is dropped with the memory. If `drain_on_stop` is not given, SIGTERM
/// drains as long as other nodes take objects: that is how a pod is replaced.
pub(crate) fn stop_drain(config: &NodeConfig, signal: Option<Signal>, store: &Store) {
    let is_due = |drain: &StopDrain| drain.is_asked || signal == Some(Signal::SIGTERM);
    let Some(drain) = config.drain.filter(is_due).filter(|_| config.segment_bytes > 0) else {
        return;
    };
    let started = Instant::now();
    let until = started + drain.patience;
    let has_disks = store.has_disks();
    let moved = move_away(config, &drain, store, started + for_nodes(drain.patience, has_disks));
    // What the master knows nothing of may lie here all the same, and disks take it.
    let moved_all = !matches!(moved, Err(_) | Ok(Some(Moved { objects: 0, .. })));
    match moved {
        Ok(Some(Moved { objects: 0, .. })) => {
            tracing::info!(took = ?started.elapsed(), "The master knows of no objects here");
        }
        Ok(moved) => tracing::info!(
            objects = moved.as_ref().map(|moved| moved.objects),
            bytes = moved.as_ref().map(|moved| moved.bytes),
            took = ?started.elapsed(),
            "All objects were moved"
        ),
        Err(error) if has_disks => {
            tracing::info!(%error, "Objects here go to the disks of this node");
        }
        Err(error) if drain.is_asked => {
            tracing::error!(%error, "Objects are dropped with this node");
        }
        Err(error) => tracing::warn!(%error, "Objects are dropped with this node"),
    }
    if has_disks && !moved_all {
        let began = Instant::now();
        match store.save_to_disks(until) {
            Some(saved) => say(saved, began.elapsed()),
            None => tracing::warn!("No disk is open: objects are dropped with this node"),
        }
    }
}

/// How long other nodes may take: disks behind the memory have the other half.
fn for_nodes(patience: Duration, has_disks: bool) -> Duration {
    if has_disks { patience / 2 } else { patience }
}

fn move_away(
    config: &NodeConfig,
    drain: &StopDrain,
    store: &Store,
    until: Instant,
) -> Result<Option<Moved>, DrainError> {
    let patience = drain.patience;
    tracing::info!(?patience, "Moving objects to other nodes; another signal ends at once");
    let segments = [store.hostname()];
    let jobs = DrainJobs::of(&config.master, drain.master_port);
    // With disks it need not be found out slowly that no other node takes objects.
    match drain.is_asked && !store.has_disks() {
        true => jobs.run(&segments, until),
        false => drain_by_default(jobs, &config.master, &segments, until),
    }
}

fn say(saved: SavedObjects, took: Duration) {
    let SavedObjects { objects, bytes, failed, left, is_all } = saved;
    match is_all {
        true => tracing::info!(
            objects,
            bytes,
            ?took,
            "What memory alone had is on the disks, as far as their budgets allow"
        ),
        false => tracing::warn!(
            objects,
            bytes,
            failed,
            left,
            ?took,
            "What the disks did not take in time is dropped with this node"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_have_half_of_the_time() {
        let second = Duration::from_secs(1);
        assert_eq!(for_nodes(20 * second, false), 20 * second);
        assert_eq!(for_nodes(20 * second, true), 10 * second);
    }
}
