//! The drain of a stop whose `drain_on_stop` was not given. Invariant: it ends at once if nothing
//! lies here, no other node takes objects, or the master does not answer. It asks the master at the
//! RPC port that the node itself uses.

use crate::drain::{DrainError, DrainJobs, Moved};
use crate::limits::{DRAIN_LOOK_DEADLINE, DRAIN_SILENCE};
use perigee_rpc::{ClientOptions, MasterClient, SegmentUse};
use perigee_schemas::Identity;
use perigee_schemas::session::Role;
use std::collections::HashSet;
use std::time::Instant;

/// Mooncake's status of a segment that takes objects, and of those that a drain empties and has
/// emptied.
const OPEN: u8 = 1;
const DRAINING: u8 = 2;
const DRAINED: u8 = 3;

/// What a drain would do.
#[derive(Debug, PartialEq, Eq)]
enum Prospect {
    /// Others can take what lies here.
    Useful,
    /// Another drain is at it.
    UnderWay,
    /// Nothing lies here.
    Empty,
    /// Objects lie here, and no other node takes any.
    Nowhere,
}

/// Empties segments of this process before it ends, until then at most. Gives up sooner if no
/// other node takes objects. `master` is the `HOST:PORT` of its RPC port.
///
/// # Errors
/// Objects are left; the message says why.
pub fn drain_by_default(
    master: &str,
    http_port: u16,
    segments: &[String],
    until: Instant,
) -> Result<Option<Moved>, DrainError> {
    let cluster = Cluster::of(master);
    let listed = cluster.list()?;
    let first = prospect(&listed, segments);
    match first {
        Prospect::Empty => return Ok(Some(Moved { objects: 0, bytes: 0 })),
        Prospect::Nowhere => return Err(DrainError::Nowhere),
        Prospect::Useful | Prospect::UnderWay => {}
    }
    let jobs = DrainJobs::of(master, http_port).giving_up_after(DRAIN_SILENCE);
    let mine = listed.iter().filter(|one| segments.contains(&one.segment.name));
    let owned = mine.map(|one| (one.segment.name.clone(), id_text(one.segment.client)));
    jobs.check_owners(&owned.collect::<Vec<_>>(), until)?;
    if first == Prospect::UnderWay {
        let reason = "another drain ended before".to_owned();
        return jobs.wait_for_segments(segments, reason, until).map(|()| None);
    }
    jobs.run_while(segments, until, || match others_take(&cluster.list()?, segments) {
        true => Ok(()),
        false => Err(DrainError::Nowhere),
    })
}

/// The segments of a master as its RPC port lists them.
struct Cluster {
    client: MasterClient,
    master: String,
}

impl Cluster {
    fn of(master: &str) -> Self {
        // It asks and owns nothing, so a number that another process has would do no harm.
        let asker = Identity::from_halves(u64::from(std::process::id()), u64::MAX);
        let mut options = ClientOptions::new(master, asker);
        options.role = Role::Operator;
        options.deadline = DRAIN_LOOK_DEADLINE;
        options.connect_deadline = DRAIN_LOOK_DEADLINE;
        Self { client: MasterClient::new(options), master: master.to_owned() }
    }

    fn list(&self) -> Result<Vec<SegmentUse>, DrainError> {
        self.client.segments(&[]).map_err(|error| DrainError::NoList {
            master: self.master.clone(),
            reason: error.to_string(),
        })
    }
}

fn prospect(listed: &[SegmentUse], own: &[String]) -> Prospect {
    let mine = || listed.iter().filter(|one| own.contains(&one.segment.name));
    let takes = others_take(listed, own);
    if mine().all(|one| one.state == DRAINED) || !takes && mine().all(|one| one.used_bytes == 0) {
        return Prospect::Empty;
    }
    match takes {
        true if mine().any(|one| one.state == DRAINING) => Prospect::UnderWay,
        // Also where nothing lies here now: what is put until the job begins is moved, too.
        true => Prospect::Useful,
        false => Prospect::Nowhere,
    }
}

/// Whether another client has a segment that takes objects.
fn others_take(listed: &[SegmentUse], own: &[String]) -> bool {
    let mine = listed.iter().filter(|one| own.contains(&one.segment.name));
    let clients: HashSet<Identity> = mine.map(|one| one.segment.client).collect();
    listed.iter().any(|one| one.state == OPEN && !clients.contains(&one.segment.client))
}

/// An identity as the master's HTTP routes write it.
fn id_text(id: Identity) -> String {
    format!("{}-{}", id.high(), id.low())
}

#[cfg(test)]
mod tests;
