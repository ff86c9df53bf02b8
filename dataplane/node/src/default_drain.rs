//! The drain of a stop whose `drain_on_stop` was not given. Invariant: it ends at once if nothing
//! lies here, no other node takes objects, or the master does not answer; a master that has just
//! started is not believed that. It asks the master at the RPC port that the node itself uses.

use crate::drain::{DrainError, DrainJobs, Moved, Unlisted};
use crate::limits::{DRAIN_LOOK_DEADLINE, DRAIN_POLL_PAUSE, DRAIN_SILENCE, MASTER_SETTLES};
use perigee_rpc::{ClientOptions, MasterClient, SegmentUse};
use perigee_schemas::Identity;
use perigee_schemas::session::Role;
use std::collections::HashSet;
use std::time::Instant;

/// Mooncake's status of a segment whose owner the master has not seen yet, of one that takes
/// objects, and of those that a drain empties and has emptied.
const UNVERIFIED: u8 = 0;
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
    /// The master does not know all of what is to be emptied, or not yet.
    Unknown,
    /// Nothing lies here.
    Empty,
    /// Objects lie here, and no other node takes any.
    Nowhere,
}

/// Empties segments before their process ends, until then at most. Gives up sooner if no other node
/// takes objects. `master` is the `HOST:PORT` of the RPC port of the master whose `jobs` these are.
///
/// # Errors
/// Objects are left; the message says why.
pub fn drain_by_default(
    jobs: DrainJobs,
    master: &str,
    segments: &[String],
    until: Instant,
) -> Result<Option<Moved>, DrainError> {
    let cluster = Cluster::of(master);
    let jobs = jobs.giving_up_after(DRAIN_SILENCE);
    let (first, listed) = outlook(&cluster, &jobs, segments, until)?;
    match first {
        Prospect::Unknown => return Err(not_mounted(segments, &listed)),
        Prospect::Empty => return Ok(Some(Moved { objects: 0, bytes: 0 })),
        Prospect::Nowhere => return Err(DrainError::Nowhere),
        Prospect::Useful | Prospect::UnderWay => {}
    }
    let mine = listed.iter().filter(|one| is_meant(one, segments));
    let owned = mine.map(|one| (one.segment.name.clone(), id_text(one.segment.client)));
    jobs.check_owners(&owned.collect::<Vec<_>>(), until)?;
    if first == Prospect::UnderWay {
        let reason = "another drain ended before".to_owned();
        return jobs.wait_for_segments(segments, reason, until).map(|()| None);
    }
    jobs.run_while(segments, until, || {
        let goes_on = others_take(&cluster.list()?, segments) || !has_settled(&jobs);
        if goes_on { Ok(()) } else { Err(DrainError::Nowhere) }
    })
}

/// What a drain would do once the master has heard of all owners; waits for that.
fn outlook(
    cluster: &Cluster,
    jobs: &DrainJobs,
    segments: &[String],
    until: Instant,
) -> Result<(Prospect, Vec<SegmentUse>), DrainError> {
    let mut settles = None;
    let mut hears = jobs.hearer();
    loop {
        let listed = cluster.list()?;
        let found = prospect(&listed, segments);
        let now = Instant::now();
        let is_final = match found {
            Prospect::Useful | Prospect::UnderWay => true,
            Prospect::Unknown => {
                if now < until
                    && let Some(hears) = hears.take()
                {
                    hears(&not_mounted(segments, &listed));
                }
                // What lies there is announced after it is mounted again.
                settles = Some(now + MASTER_SETTLES);
                false
            }
            Prospect::Empty | Prospect::Nowhere => {
                now >= *settles.get_or_insert_with(|| jobs.settles_at().unwrap_or(now))
            }
        };
        if is_final || now >= until {
            return match found {
                Prospect::Empty if !is_final => Err(DrainError::Unsettled),
                found => Ok((found, listed)),
            };
        }
        std::thread::sleep(DRAIN_POLL_PAUSE);
    }
}

fn not_mounted(segments: &[String], listed: &[SegmentUse]) -> DrainError {
    let listed = listed.iter().map(|one| (one.segment.name.clone(), id_text(one.segment.id)));
    DrainError::NotMounted(Unlisted::beside(segments, &listed.collect::<Vec<_>>()))
}

/// Whether the master has heard of all owners, as far as it says.
fn has_settled(jobs: &DrainJobs) -> bool {
    jobs.settles_at().is_none_or(|at| at <= Instant::now())
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
    let mine = || listed.iter().filter(|one| is_meant(one, own));
    let is_listed = |name: &String| listed.iter().any(|one| is_named(one, name));
    if !own.iter().all(is_listed) {
        return Prospect::Unknown;
    }
    // One that the master does not reach gets no objects.
    let is_bare = |one: &SegmentUse| one.state == UNVERIFIED && one.used_bytes == 0;
    if mine().all(|one| one.state == DRAINED || is_bare(one)) {
        return Prospect::Empty;
    }
    if mine().any(|one| one.state == UNVERIFIED) {
        return Prospect::Unknown;
    }
    match others_take(listed, own) {
        true if mine().any(|one| one.state == DRAINING) => Prospect::UnderWay,
        // Also where nothing lies here now: what is put until the job begins is moved, too.
        true => Prospect::Useful,
        false if mine().all(|one| one.used_bytes == 0) => Prospect::Empty,
        false => Prospect::Nowhere,
    }
}

/// Whether another client has a segment that takes objects.
fn others_take(listed: &[SegmentUse], own: &[String]) -> bool {
    let mine = listed.iter().filter(|one| is_meant(one, own));
    let clients: HashSet<Identity> = mine.map(|one| one.segment.client).collect();
    listed.iter().any(|one| one.state == OPEN && !clients.contains(&one.segment.client))
}

fn is_meant(one: &SegmentUse, own: &[String]) -> bool {
    own.iter().any(|name| is_named(one, name))
}

/// A drain job takes a segment's identity for its name.
fn is_named(one: &SegmentUse, name: &str) -> bool {
    one.segment.name == name || id_text(one.segment.id) == name
}

/// An identity as the master's HTTP routes write it.
fn id_text(id: Identity) -> String {
    format!("{}-{}", id.high(), id.low())
}

#[cfg(test)]
mod tests;
