//! `perigee drain`: moves all objects out of segments that are about to stop, for example as a
//! pod's preStop hook.
//! Invariant: success means that every object was moved, and the program ends soon after its time
//! either way.

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::limits::DRAIN_ANSWER_DEADLINE;
use crate::output;
use crate::status::segments_of;
use nix::ifaddrs::getifaddrs;
use perigee_flags::{Flag, ProcessEnvironment, Program, ProgramStart, Settings, ValueKind};
use perigee_node::limits::{DRAIN_POLL_PAUSE, DRAIN_SILENCE, DRAIN_TIMEOUT_MS_MAX, MASTER_SETTLES};
use perigee_node::{DrainError, DrainJobs, Moved, drain_by_default};
use perigee_rpc::{CallError, SegmentUse};
use perigee_schemas::Status;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// State of a segment whose objects were moved away by an earlier call.
const DRAINED: u8 = 3;

const FLAGS: &[Flag] = &[
    Flag::new(
        "master_server_address",
        ValueKind::Text,
        "127.0.0.1:50051",
        "HOST:PORT of the master",
    )
    .aliases(&["master"])
    .variables(&["MOONCAKE_MASTER"]),
    Flag::new("metrics_port", ValueKind::Int32, "9003", "HTTP port of the master")
        .within(1, 65_535),
    Flag::new(
        "segment",
        ValueKind::Text,
        "",
        "Names of segments, with commas between them; empty takes those of the one client at an address of this host",
    ),
    Flag::new(
        "timeout",
        ValueKind::DurationMs,
        "25s",
        "Longest time for all moves; keep it below the pod's terminationGracePeriodSeconds",
    )
    .within(1, DRAIN_TIMEOUT_MS_MAX),
    Flag::new(
        "quick",
        ValueKind::Bool,
        "false",
        "Stop at once if no other node takes objects, and soon if the master does not answer",
    ),
    Flag::new(
        "cancel",
        ValueKind::Bool,
        "true",
        "Cancel a job that is given up, so that its segments take objects again; false for an owner that ends all the same",
    ),
];

/// The command as its settings see it.
const DRAIN: Program = Program {
    name: "perigee drain",
    version: env!("CARGO_PKG_VERSION"),
    summary: "moves all objects out of the segments of this host or pod, so that stopping it loses none",
    variable_prefix: "PERIGEE_DRAIN_",
    words: &[],
    tables: &[("Drain", FLAGS)],
};

/// Empties segments and says what was moved.
pub(crate) fn run(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    let settings = match DRAIN.load(&invocation.arguments, environment)? {
        ProgramStart::Print(text) => return Ok(output::print(&text)?),
        ProgramStart::Run(settings) => settings,
    };
    let started = Instant::now();
    let until = started + Duration::from_millis(settings.integer("timeout"));
    let master = settings.text("master_server_address");
    let jobs = DrainJobs::of(master, settings.integer("metrics_port")).telling(complain);
    let jobs = if settings.bool("cancel") { jobs.canceling() } else { jobs };
    let names = chosen(&settings, &jobs, until)?;
    if names.is_empty() {
        return Ok(output::print("Nothing to drain: no segment of this host takes objects\n")?);
    }
    let moved = match settings.bool("quick") {
        true => drain_by_default(jobs, master, &names, until)?,
        false => jobs.run(&names, until)?,
    };
    Ok(output::print(&summary(&names, moved.as_ref(), started.elapsed()))?)
}

/// Says what the command waits for.
fn complain(error: &DrainError) {
    output::complain(&format!("{}: {error}; asking it again until the time is over\n", DRAIN.name));
}

/// Names of the segments to be emptied.
fn chosen(settings: &Settings, jobs: &DrainJobs, until: Instant) -> Result<Vec<String>, Failure> {
    let wanted = settings.text("segment").split(',').map(str::trim);
    let wanted: Vec<String> = wanted.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if !wanted.is_empty() {
        return Ok(wanted);
    }
    let silent = match settings.bool("quick") {
        true => until.min(Instant::now() + DRAIN_SILENCE),
        false => until,
    };
    found(settings.text("master_server_address"), jobs, (silent, until))
}

/// Names of the segments of this host. A master that does not answer is asked again until the first
/// time, one that has just started and lists none until the second.
fn found(
    master: &str,
    jobs: &DrainJobs,
    (silent, until): (Instant, Instant),
) -> Result<Vec<String>, Failure> {
    let mut settles = None;
    loop {
        let patience = until.saturating_duration_since(Instant::now()).max(DRAIN_POLL_PAUSE);
        let listed = segments_of(master, patience.min(DRAIN_ANSWER_DEADLINE));
        let now = Instant::now();
        match listed {
            Ok(listed) => {
                let names = own(&listed, &addresses_of_this_host()?)?;
                let settles = settles
                    .get_or_insert_with(|| jobs.settles_at().unwrap_or(now + MASTER_SETTLES));
                if !names.is_empty() || now >= *settles {
                    return Ok(names);
                }
                if now >= until {
                    return Err(DrainError::Unsettled.into());
                }
            }
            Err(Failure::Call(error)) if is_silence(&error) && now < silent => settles = None,
            Err(error) => return Err(error),
        }
        std::thread::sleep(DRAIN_POLL_PAUSE);
    }
}

/// Whether a master may answer later.
fn is_silence(error: &CallError) -> bool {
    matches!(error.status(), Status::RpcFail | Status::RpcTimeout)
}

/// Names of the segments of the one client at these addresses; drained ones are left out.
fn own(segments: &[SegmentUse], here: &BTreeSet<IpAddr>) -> Result<Vec<String>, DrainError> {
    let mut by_client: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for one in segments.iter().filter(|one| one.state != DRAINED) {
        if is_at(&one.segment.endpoint, here) {
            let client = one.segment.client;
            by_client.entry(client).or_default().insert(&one.segment.name);
        }
    }
    if by_client.len() > 1 {
        let names: Vec<&str> = by_client.into_values().flatten().collect();
        return Err(DrainError::Ambiguous(names.join(", ")));
    }
    Ok(by_client.into_values().flatten().map(str::to_owned).collect())
}

/// Whether `host:port` is one of these addresses.
fn is_at(endpoint: &str, here: &BTreeSet<IpAddr>) -> bool {
    let found = endpoint.to_socket_addrs();
    found.is_ok_and(|mut found| found.any(|address| here.contains(&address.ip())))
}

fn addresses_of_this_host() -> io::Result<BTreeSet<IpAddr>> {
    let address = |interface: nix::ifaddrs::InterfaceAddress| {
        let address = interface.address?;
        let four = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
        four.or_else(|| address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
    };
    Ok(getifaddrs()?.filter_map(address).collect())
}

fn summary(names: &[String], moved: Option<&Moved>, took: Duration) -> String {
    let what = moved.map_or("all objects moved".to_owned(), |moved| {
        format!("{} objects moved ({} bytes)", moved.objects, moved.bytes)
    });
    format!("Drained {}: {what} in {:.1} s\n", names.join(", "), took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::samples;

    #[test]
    fn table_is_sound() {
        assert_eq!(DRAIN.check(), Vec::<String>::new());
    }

    fn at(endpoints: [&str; 2]) -> Vec<SegmentUse> {
        let mut segments = samples();
        for (one, endpoint) in segments.iter_mut().zip(endpoints) {
            one.segment.endpoint = endpoint.to_owned();
            one.state = 1;
        }
        segments
    }

    #[test]
    fn segments_are_ones_own_by_the_address_of_their_data_port() {
        let here = BTreeSet::from([IpAddr::from([10, 0, 0, 7])]);
        let segments = at(["10.0.0.7:40000", "10.0.0.8:40000"]);
        assert_eq!(own(&segments, &here).unwrap(), [segments[0].segment.name.clone()]);
        assert!(own(&at(["10.0.0.9:1", "no port"]), &here).unwrap().is_empty());
    }

    #[test]
    fn a_segment_that_is_empty_already_is_left_out() {
        let here = BTreeSet::from([IpAddr::from([10, 0, 0, 7])]);
        let mut segments = at(["10.0.0.7:40000", "10.0.0.8:40000"]);
        segments[0].state = DRAINED;
        assert!(own(&segments, &here).unwrap().is_empty());
    }

    #[test]
    fn two_clients_at_one_address_have_to_be_distinguished() {
        let here = BTreeSet::from([IpAddr::from([10, 0, 0, 7])]);
        let mut segments = at(["10.0.0.7:40000", "10.0.0.7:40001"]);
        segments[1].segment.client = perigee_schemas::Identity::from_halves(7, 7);
        let refusal = own(&segments, &here).unwrap_err().to_string();
        assert!(refusal.contains("--segment=NAME"), "{refusal}");
        segments[1].segment.client = segments[0].segment.client;
        assert_eq!(own(&segments, &here).unwrap().len(), 2);
    }

    #[test]
    fn this_host_has_its_loopback_address() {
        let here = addresses_of_this_host().unwrap();
        assert!(is_at("127.0.0.1:1", &here), "{here:?}");
    }
}
