//! `perigee bundle`: diagnostics of a problem, in one archive to send. Invariant: it changes
//! nothing, waits for nothing without a deadline, and what it could not get is listed inside.

mod archive;
mod pieces;
mod program;
mod redaction;
mod watched;

use crate::asked_agent::AskedAgent;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::limits::{BUNDLE_MINUTES_MAX, MASTER_PORT};
use crate::size::size_text;
use crate::{doctor, output, status, topology};
use archive::Archive;
use perigee_flags::{Flag, ProcessEnvironment, Program, ProgramStart, Settings, ValueKind};
use perigee_topology::Roots;
use pieces::Piece;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longest wait for a master, and again for the data ports of its segments.
const CLUSTER_DEADLINE: Duration = Duration::from_secs(5);

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    Flag::new("output", ValueKind::Text, "",
        "File to write; empty is perigee-bundle-HOST-SECONDS.tar.gz in this folder").aliases(&["o"]),
    Flag::new("agent", ValueKind::Text, "",
        "HOST or HOST:PORT of an agent; empty asks the one on this host, and reads the host itself if there is none"),
    Flag::new("minutes", ValueKind::Int64, "15", "How much of what the agent has recorded goes in, in full")
        .within(1, BUNDLE_MINUTES_MAX),
    Flag::new("master_server_address", ValueKind::Text, "",
        "HOST:PORT of a master whose segments are listed; empty leaves the cluster out")
        .aliases(&["master"]).variables(&["MOONCAKE_MASTER"]),
    Flag::new("metrics", ValueKind::Text, "127.0.0.1:9003,127.0.0.1:9300",
        "HOST:PORT of masters and nodes whose metrics go in, with commas; port 9003 of the master that is named is added"),
    Flag::new("logs", ValueKind::Text, "", "Log files whose last 4 MiB go in, with commas"),
];

/// The command as its settings see it.
const BUNDLE: Program = Program {
    name: "perigee bundle",
    version: env!("CARGO_PKG_VERSION"),
    summary: "puts status, doctor, the agent's recordings, NIC and socket statistics and logs into one archive \
              to send; object keys and secrets are taken out",
    variable_prefix: "PERIGEE_BUNDLE_",
    words: &[],
    tables: &[("Bundle", FLAGS)],
};

/// Writes the archive.
pub(crate) fn run(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    let settings = match BUNDLE.load(&invocation.arguments, environment)? {
        ProgramStart::Print(text) => return Ok(output::print(&text)?),
        ProgramStart::Run(settings) => settings,
    };
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let host = nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned();
    let folder = format!("perigee-bundle-{}-{begun}", file_name(&host));
    let path = settings.optional_text("output").map(PathBuf::from);
    let path = path.unwrap_or_else(|| PathBuf::from(format!("{folder}.tar.gz")));
    let failed = |cause| Failure::NoBundle { path: path.display().to_string(), cause };
    let mut archive = Archive::create(&path, &folder, begun).map_err(failed)?;
    for step in [of_agent, of_cluster, of_host, of_logs] {
        for (name, content) in step(&settings, environment) {
            archive.add(&name, content).map_err(failed)?;
        }
    }
    let lacking: Vec<String> =
        archive.lacking().iter().map(|(name, reason)| format!("  {name}: {reason}\n")).collect();
    let bytes = archive.finish(&head(&host, begun)).map_err(failed)?;
    let mut text = format!("{}: {}\n", path.display(), size_text(bytes));
    if !lacking.is_empty() {
        text.push_str("Not in it, because it could not be had here:\n");
        text.extend(lacking);
    }
    Ok(output::print(&text)?)
}

fn head(host: &str, begun: u64) -> String {
    format!(
        "Perigee {} on host {host}, {begun} s after 1970 began.\n\
         Object keys and secrets were taken out; names and addresses of hosts, NICs, tenants and programs were not.\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn of_agent(settings: &Settings, _environment: &ProcessEnvironment) -> Vec<Piece> {
    let minutes = settings.integer("minutes");
    match settings.optional_text("agent") {
        Some(agent) => watched::of_agent(&AskedAgent::at(agent), minutes),
        None => {
            let mut pieces = watched::of_agent(&AskedAgent::of_this_host(), minutes);
            if pieces.iter().all(|(_, content)| content.is_err()) {
                pieces.extend(watched::of_own_reading());
            }
            pieces
        }
    }
}

fn of_cluster(settings: &Settings, _environment: &ProcessEnvironment) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let master = settings.text("master_server_address").trim();
    pieces.push((
        "cluster/status.json".to_owned(),
        match master {
            "" => Err("no master was named; write --master=HOST:PORT".to_owned()),
            master => status::report(master, CLUSTER_DEADLINE).map_err(|error| error.to_string()),
        },
    ));
    pieces.extend(metric_places(settings.text("metrics"), master).iter().map(|place| {
        let text = AskedAgent::at(place).ask("/metrics");
        let text = text.map_err(|reason| format!("{place} does not answer: {reason}"));
        (format!("cluster/metrics-{}.txt", file_name(place)), text)
    }));
    pieces
}

/// Where metrics are asked for: at the places that are named, and at the master's usual port.
fn metric_places(named: &str, master: &str) -> Vec<String> {
    let mut places: Vec<String> = words(named).map(str::to_owned).collect();
    if let Some((host, _)) = master.rsplit_once(':') {
        let at_master = format!("{host}:{MASTER_PORT}");
        if !places.contains(&at_master) {
            places.push(at_master);
        }
    }
    places
}

fn of_host(settings: &Settings, environment: &ProcessEnvironment) -> Vec<Piece> {
    let master = settings.text("master_server_address").trim();
    let (text, json) = match doctor::report(master, environment) {
        Ok((text, json)) => (Ok(text), Ok(json)),
        Err(error) => (Err(error.to_string()), Err(error.to_string())),
    };
    let topology = topology::report(environment).map_err(|error| error.to_string());
    let mut pieces = vec![
        ("doctor.txt".to_owned(), text),
        ("doctor.json".to_owned(), json),
        ("topology.txt".to_owned(), topology),
    ];
    pieces.extend(pieces::of_host(&Roots::system()));
    pieces
}

fn of_logs(settings: &Settings, _environment: &ProcessEnvironment) -> Vec<Piece> {
    pieces::of_logs(&words(settings.text("logs")).collect::<Vec<_>>())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// A name that is one on every file system.
fn file_name(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    text.chars().map(|letter| if is_plain(letter) { letter } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_master_that_is_named_is_asked_at_its_usual_port_too() {
        let usual = "127.0.0.1:9003,127.0.0.1:9300";
        let places = |master| metric_places(usual, master).len();
        assert_eq!(metric_places(usual, "10.0.0.7:50051")[2], "10.0.0.7:9003");
        assert_eq!([places(""), places("10.0.0.7:50051"), places("127.0.0.1:50051")], [2, 3, 2]);
    }

    #[test]
    fn table_is_sound() {
        assert_eq!(BUNDLE.check(), Vec::<String>::new());
    }

    #[test]
    fn names_of_hosts_become_names_of_files() {
        assert_eq!(file_name("gpu-7.example"), "gpu-7.example");
        assert_eq!(file_name("[fe80::1]:9003 ../x"), "-fe80--1--9003-..-x");
    }
}
