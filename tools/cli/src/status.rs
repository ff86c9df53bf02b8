//! `perigee status`: what a master knows of its segments, disks and tenants, and which segments and
//! disks this host reaches.
//! Invariant: one call and one try per segment, within the given time; nothing is changed.

mod disk_table;
mod table;
mod tenants;

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::limits::STATUS_TIMEOUT_MS_MAX;
use crate::output;
use crate::reachability::try_all;
use perigee_flags::{Flag, ProcessEnvironment, Program, ProgramStart, ValueKind};
use perigee_rpc::{ClientOptions, DiskReport, ListedDisks, MasterClient, SegmentUse, TenantUse};
use perigee_schemas::Identity;
use perigee_schemas::session::Role;
use serde_json::json;
use std::time::{Duration, Instant};

#[cfg(test)]
pub(crate) use table::samples;

const FLAGS: &[Flag] = &[
    Flag::new(
        "master_server_address",
        ValueKind::Text,
        "127.0.0.1:50051",
        "HOST:PORT of the master; also a word before all flags",
    )
    .aliases(&["master"]),
    Flag::new("format", ValueKind::Text, "text", "text for people, json for programs")
        .one_of(&["text", "json"]),
    Flag::new(
        "timeout",
        ValueKind::DurationMs,
        "5s",
        "Longest wait for the master's answer, and again for the data ports of the segments",
    )
    .within(1, STATUS_TIMEOUT_MS_MAX),
];

/// The command as its settings see it.
const STATUS: Program = Program {
    name: "perigee status",
    version: env!("CARGO_PKG_VERSION"),
    summary: "shows the segments, disks and tenants of a cluster, how full they are, and which this host cannot reach",
    variable_prefix: "PERIGEE_STATUS_",
    words: &[],
    tables: &[("Status", FLAGS)],
};

/// Asks a master and prints its segments and disks.
pub(crate) fn run(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    let arguments = with_flag_for_address(&invocation.arguments);
    let settings = match STATUS.load(&arguments, environment)? {
        ProgramStart::Print(text) => return Ok(output::print(&text)?),
        ProgramStart::Run(settings) => settings,
    };
    let master = settings.text("master_server_address");
    let deadline = Duration::from_millis(settings.integer("timeout"));
    let shown = Shown::of(master, deadline)?;
    let text = match settings.text("format") {
        "json" => shown.json(master),
        _ => shown.text(master),
    };
    Ok(output::print(&text)?)
}

/// The segments and disks of a master as JSON, and which of them this host cannot reach.
pub(crate) fn report(master: &str, deadline: Duration) -> Result<String, Failure> {
    Ok(Shown::of(master, deadline)?.json(master))
}

/// What a master knows, segments before disks, and why this host does not reach some of them.
struct Shown {
    /// Nothing where tenants have no quotas.
    tenants: Option<Vec<TenantUse>>,
    listed: Vec<SegmentUse>,
    reports: Vec<DiskReport>,
    obstacles: Vec<Option<String>>,
    segments: usize,
}

impl Shown {
    fn of(master: &str, deadline: Duration) -> Result<Self, Failure> {
        let mut listed = segments_of(master, deadline)?;
        let segments = listed.len();
        let client = client_of(master, deadline)?;
        let ListedDisks { disks, reports } = client.disks()?;
        let tenants = client.tenants()?;
        listed.extend(sorted(disks));
        let obstacles = try_all(&listed, Instant::now() + deadline);
        Ok(Self { tenants, listed, reports, obstacles, segments })
    }

    fn parts(&self) -> (Reached<'_>, Reached<'_>) {
        let (segments, disks) = self.listed.split_at(self.segments);
        let (reached, reached_disks) = self.obstacles.split_at(self.segments);
        ((segments, reached), (disks, reached_disks))
    }

    fn json(&self, master: &str) -> String {
        let (segments, disks) = self.parts();
        json_text(master, segments, disks, (&self.reports, self.tenants.as_deref()))
    }

    fn text(&self, master: &str) -> String {
        let ((segments, reached), (disks, reached_disks)) = self.parts();
        let tenants = self.tenants.as_deref().map(tenants::text).unwrap_or_default();
        let memory = table::text(master, segments, reached);
        memory + &disk_table::text(disks, reached_disks, &self.reports) + &tenants
    }
}

/// The segments of a master, by name.
pub(crate) fn segments_of(master: &str, deadline: Duration) -> Result<Vec<SegmentUse>, Failure> {
    Ok(sorted(client_of(master, deadline)?.segments(&[])?))
}

fn sorted(mut segments: Vec<SegmentUse>) -> Vec<SegmentUse> {
    segments.sort_by(|one, other| one.segment.name.cmp(&other.segment.name));
    segments
}

fn client_of(master: &str, deadline: Duration) -> Result<MasterClient, Failure> {
    let mut options = ClientOptions::new(master, identity()?);
    options.role = Role::Operator;
    options.deadline = deadline;
    Ok(MasterClient::new(options))
}

/// `perigee status HOST:PORT` is `perigee status --master_server_address=HOST:PORT`.
fn with_flag_for_address(arguments: &[String]) -> Vec<String> {
    let mut arguments = arguments.to_vec();
    if let Some(first) = arguments.first_mut()
        && !first.starts_with('-')
    {
        *first = format!("--master_server_address={first}");
    }
    arguments
}

fn identity() -> Result<Identity, Failure> {
    let number = || getrandom::u64().map_err(std::io::Error::other);
    Ok(Identity::from_halves(number()?, number()?))
}

type Reached<'a> = (&'a [SegmentUse], &'a [Option<String>]);

fn json_text(
    master: &str,
    (segments, obstacles): Reached<'_>,
    (disks, disk_obstacles): Reached<'_>,
    (reports, tenants): (&[DiskReport], Option<&[TenantUse]>),
) -> String {
    let of_segment = |(one, obstacle): (&SegmentUse, &Option<String>)| {
        json!({
            "name": one.segment.name,
            "endpoint": one.segment.endpoint,
            "protocol": one.segment.protocol,
            "host_id": one.segment.host_id,
            "state": table::state_word(one.state),
            "used_bytes": one.used_bytes,
            "capacity_bytes": one.usable_bytes,
            "reachable": obstacle.is_none(),
            "unreachable_reason": obstacle,
        })
    };
    let of_disk = |(one, obstacle): (&SegmentUse, &Option<String>)| {
        let mut document = of_segment((one, obstacle));
        if let Some(report) = reports.iter().find(|report| report.disk == one.segment.id) {
            document["health"] = json!(report.health.name());
            document["path"] = json!(report.path);
            document["reason"] = json!(report.reason);
        }
        document
    };
    let unused = disk_table::unused(disks, reports).map(|report| {
        json!({
            "health": report.health.name(),
            "path": report.path,
            "reason": report.reason,
        })
    });
    let document = json!({
        "master": master,
        "segments": segments.iter().zip(obstacles).map(of_segment).collect::<Vec<_>>(),
        "used_bytes": table::used_bytes(segments),
        "capacity_bytes": table::capacity_bytes(segments),
        "disks": disks.iter().zip(disk_obstacles).map(of_disk).collect::<Vec<_>>(),
        "disks_out_of_use": unused.collect::<Vec<_>>(),
        "disk_used_bytes": table::used_bytes(disks),
        "disk_capacity_bytes": table::capacity_bytes(disks),
        "tenants": tenants.map(tenants::json),
    });
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sound() {
        assert_eq!(STATUS.check(), Vec::<String>::new());
    }

    #[test]
    fn the_first_word_may_be_the_address() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            with_flag_for_address(&words(&["a:1", "--format=json"])),
            ["--master_server_address=a:1", "--format=json"]
        );
        assert_eq!(with_flag_for_address(&words(&["--master=a:1"])), ["--master=a:1"]);
    }

    #[test]
    fn json_has_the_sums() {
        let obstacles = [None, Some("refused".to_owned())];
        let document: serde_json::Value =
            json_text("m:1", (&table::samples(), &obstacles), (&[], &[]), (&[], None))
                .parse()
                .expect("the text is JSON");
        assert_eq!(document["used_bytes"], 3 << 20);
        assert_eq!(document["capacity_bytes"], 6_u64 << 30);
        assert_eq!((&document["disks"], &document["disk_used_bytes"]), (&json!([]), &json!(0)));
        assert_eq!(document["segments"][0]["state"], "ok");
        assert_eq!(document["segments"][0]["reachable"], true);
        assert_eq!(document["segments"][1]["unreachable_reason"], "refused");
    }
}
