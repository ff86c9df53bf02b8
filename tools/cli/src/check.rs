//! `perigee check`: measures every link between hosts and names who is at fault. Invariant: a host
//! is measured only where its operator has started a server for that.

mod document;
mod report;

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::status::segments_of;
use crate::{daemon, output};
use perigee_flags::{
    Flag, LOG_FLAGS, LogSettings, ProcessEnvironment, Program, ProgramStart, Settings, ValueKind,
};
use perigee_mesh::{
    LinkBaseline, LinkFinding, LinkPlan, LinkResult, Mesh, MeshHost, MeshServer, PROBES_MAX,
    STREAMS_MAX, Unheard, WHOLE_LOAD_MAX, judge, sick_links, usual_file,
};
use perigee_rpc::SegmentUse;
use perigee_schemas::Status;
use perigee_verdict::{Culprit, Switches, culprits};
use report::CheckReport;
use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) use report::age_text;

/// Exit code when something does not work.
const EXIT_FAILED: u8 = 1;
/// Exit code when something works less well than it could.
const EXIT_DEGRADED: u8 = 3;
/// Longest wait for the segments of a master.
const MASTER_DEADLINE: Duration = Duration::from_secs(5);
/// Largest port number.
const PORT_MAX: i128 = 65_535;
/// Most pairs of hosts at a time.
const AT_ONCE_MAX: i128 = 4096;
/// What `--baseline` takes to keep none.
const NO_BASELINE: &str = "none";

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    Flag::new("hosts", ValueKind::Text, "",
        "HOST or HOST:PORT of each server, with commas; also the words before all flags"),
    Flag::new("master_server_address", ValueKind::Text, "",
        "HOST:PORT of a master: the hosts of its segments, too").aliases(&["master"]),
    Flag::new("load", ValueKind::DurationMs, "500ms", "Load in each direction of a link; 0 measures no bandwidth")
        .within(0, WHOLE_LOAD_MAX.as_millis() as i128),
    Flag::new("streams", ValueKind::Int64, "2", "Connections that carry the load").within(1, STREAMS_MAX as i128),
    Flag::new("probes", ValueKind::Int64, "3000", "Datagrams per link that look for loss and frame sizes; 0 sends none")
        .within(0, PROBES_MAX as i128),
    Flag::new("at_once", ValueKind::Int64, "0", "Pairs of hosts that are measured at the same time; 0: no limit")
        .within(0, AT_ONCE_MAX),
    Flag::new("baseline", ValueKind::Text, "",
        "File of earlier measurements; empty: check.json in the state folder; none: keep none"),
    Flag::new("renew", ValueKind::Bool, "false", "Replace the baseline by what is measured now"),
    Flag::new("format", ValueKind::Text, "text", "text for people, json for programs").one_of(&["text", "json"]),
];

#[rustfmt::skip]
const SERVER: &[Flag] = &[
    Flag::new("serve", ValueKind::Bool, "false", "Let other hosts measure this one until stopped"),
    Flag::new("host", ValueKind::Text, "0.0.0.0", "Address of the server"),
    Flag::new("port", ValueKind::Int32, "9306", "Port of the server, the same on all hosts").within(0, PORT_MAX),
    Flag::new("name", ValueKind::Text, "", "Name of this host; empty is its own"),
    Flag::new("interfaces", ValueKind::Text, "", "NICs of this host to measure, with commas; empty for all"),
];

/// The command as its settings see it.
const CHECK: Program = Program {
    name: "perigee check",
    version: env!("CARGO_PKG_VERSION"),
    summary: "measures every link between hosts (bandwidth, round trip, loss, frames) and names who is at fault",
    variable_prefix: "PERIGEE_CHECK_",
    words: &[],
    tables: &[("Check", FLAGS), ("This host", SERVER), ("Logs", LOG_FLAGS)],
};

/// Measures, or lets others measure.
pub(crate) fn run(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    let arguments = with_flag_for_hosts(&invocation.arguments);
    let settings = match CHECK.load(&arguments, environment)? {
        ProgramStart::Print(text) => return Ok(output::print(&text)?),
        ProgramStart::Run(settings) => settings,
    };
    if settings.bool("serve") {
        return serve(&settings, invocation, environment);
    }
    let mut hosts = words(settings.text("hosts"));
    if let Some(master) = settings.optional_text("master_server_address") {
        hosts.extend(hosts_of(&segments_of(master, MASTER_DEADLINE)?, &hosts));
    }
    if hosts.is_empty() {
        return Err(Failure::NoHosts);
    }
    let report = measure(&settings, &hosts)?;
    let text = match settings.text("format") {
        "json" => document::json(&report),
        _ => report.text(),
    };
    output::print(&text)?;
    match exit_code(&report) {
        0 => Ok(()),
        code => Err(Failure::Reported(code)),
    }
}

/// The words before the first flag are hosts.
fn with_flag_for_hosts(arguments: &[String]) -> Vec<String> {
    let hosts = arguments.iter().take_while(|word| !word.starts_with('-')).count();
    if hosts == 0 || arguments.first().is_some_and(|word| word == "help") {
        return arguments.to_vec();
    }
    let mut flags = vec![format!("--hosts={}", arguments[..hosts].join(","))];
    flags.extend_from_slice(&arguments[hosts..]);
    flags
}

/// Hosts of a master's segments, each once, without those that are named already.
fn hosts_of(segments: &[SegmentUse], named: &[String]) -> Vec<String> {
    let endpoints = segments.iter().filter_map(|one| one.segment.endpoint.rsplit_once(':'));
    let mut hosts: Vec<String> = endpoints.map(|(host, _)| host.to_owned()).collect();
    hosts.sort();
    hosts.dedup();
    hosts.retain(|host| !named.contains(host));
    hosts
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

fn serve(
    settings: &Settings,
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    let host = settings.text("host");
    let address: IpAddr = host.trim_matches(['[', ']']).parse().map_err(|_| {
        let text = format!("The host `{host}` is no address; write one such as 0.0.0.0 or ::");
        perigee_flags::FlagError::Conflict(text)
    })?;
    let listen = SocketAddr::new(address, settings.integer("port"));
    let log = LogSettings::from_settings(settings);
    daemon::serve(invocation, environment, &log, |signals| {
        let nics = words(settings.text("interfaces"));
        let server = MeshServer::start(listen, settings.text("name"), &nics)
            .map_err(|cause| Failure::NoServer { listen, cause })?;
        tracing::info!(address = %server.address(), "Ready to be measured");
        let signal = signals.wait().map_err(io::Error::from)?;
        tracing::info!(%signal, "Stopping");
        drop(server);
        Ok(())
    })
}

fn measure(settings: &Settings, hosts: &[String]) -> Result<CheckReport, Failure> {
    let file = match settings.text("baseline") {
        "" => Some(usual_file()),
        NO_BASELINE => None,
        file => Some(file.into()),
    };
    let mut baseline = match &file {
        Some(file) if !settings.bool("renew") => LinkBaseline::load(file)?,
        _ => LinkBaseline::default(),
    };
    let here = MeshHost::of_this_host(settings.text("name"), &words(settings.text("interfaces")));
    let begun = Instant::now();
    let (mesh, unheard) = Mesh::gather(hosts, here);
    let plan = LinkPlan {
        load_ms: settings.integer("load"),
        streams: settings.integer("streams"),
        probes: settings.integer("probes"),
    };
    let is_watched = io::stderr().is_terminal();
    let tell = |result: &LinkResult| {
        if is_watched {
            output::complain(&format!("{} - {}\n", result.from, result.to));
        }
    };
    let links = mesh.measure(plan, settings.integer("at_once"), &tell);
    let findings = judge(&links, &baseline);
    let culprits = culprits(&sick_links(&links, &findings), &Switches::new());
    let (before, known) = (baseline.checked_unix_s, baseline.links());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    baseline.learn(&links, &findings, now);
    let hosts = mesh.hosts().map(|(name, facts)| (name.to_owned(), facts.clone()));
    let hosts: Vec<_> = hosts.collect();
    baseline.hosts.extend(hosts.iter().cloned());
    if let Some(file) = file.filter(|_| !links.is_empty()) {
        baseline.save(&file)?;
    }
    Ok(CheckReport {
        hosts,
        unheard,
        seconds: begun.elapsed().as_secs(),
        now_unix_s: now,
        before_unix_s: before,
        known_links: known,
        links,
        findings,
        culprits,
    })
}

fn exit_code(report: &CheckReport) -> u8 {
    if report.links.is_empty() {
        return Status::RpcFail.exit();
    }
    let is_failed = report.findings.iter().any(|finding| finding.kind.is_failure());
    match (is_failed || !report.unheard.is_empty(), report.findings.is_empty()) {
        (true, _) => EXIT_FAILED,
        (false, false) => EXIT_DEGRADED,
        (false, true) => 0,
    }
}

#[cfg(test)]
mod tests;
