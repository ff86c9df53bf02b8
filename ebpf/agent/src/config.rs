//! Settings of `perigee agent`. Invariant: the defaults are those of [`AgentOptions`].

use crate::options::AgentOptions;
use crate::otlp::OtlpTarget;
use axum::http::uri::Authority;
use perigee_activity::PageDirectory;
use perigee_flags::{
    Flag, FlagError, LOG_FLAGS, LogSettings, ProcessEnvironment, Program, ProgramStart, Settings,
    ValueKind, nearest,
};
use perigee_topology::{Roots, Topology};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Largest port number.
const PORT_MAX: i128 = 65_535;
/// The usual port of measurements.
const CHECK_PORT: &str = "9306";
/// The usual HTTP port of a master.
const MASTER_PORT: u16 = 9003;
/// Longest threshold of a slow batch: a minute.
const SLOW_MS_MAX: i128 = 60_000;

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    Flag::new("host", ValueKind::Text, "127.0.0.1",
        "Address of metrics and page; 0.0.0.0 lets other hosts see them"),
    Flag::new("port", ValueKind::Int32, "9305", "Port of metrics and page; 0 lets the system choose")
        .within(0, PORT_MAX),
    Flag::new("explain", ValueKind::Bool, "false",
        "Print what can be seen on this host, what cannot, and what changes that; then end"),
    Flag::new("format", ValueKind::Text, "text", "Form of --explain").one_of(&["text", "json"]),
    Flag::new("ebpf", ValueKind::Bool, "true", "Use eBPF probes where they are allowed"),
    Flag::new("slow_ms", ValueKind::Int64, "10",
        "List batches of the data plane that take longer").within(0, SLOW_MS_MAX),
    Flag::new("packets", ValueKind::Bool, "false",
        "Count packets by eBPF (tcx) as well, to compare with the kernel's own counters; this slows every packet"),
    Flag::new("measure_costs", ValueKind::Bool, "false",
        "Let the kernel measure what the probes cost, which adds about 30 ns to each of their runs"),
    Flag::new("interfaces", ValueKind::Text, "", "NICs to watch, with commas; empty for all"),
    Flag::new("state_dir", ValueKind::Text, AgentOptions::STATE,
        "Folder that keeps counters over a restart; empty starts from zero"),
    Flag::new("baseline", ValueKind::Text, "",
        "File with what `perigee check` measured, against which NICs are judged from the first day; `none` disables it; empty: the default file"),
    Flag::new("activity_dir", ValueKind::Text, "",
        "Folder with the pages of our processes; empty asks PERIGEE_ACTIVITY_DIR, else /dev/shm/perigee"),
    Flag::new("report_to", ValueKind::Text, "",
        "HOST or HOST:PORT of a master's HTTP port (9003) that gets links and suspects of this host; empty reports to none"),
    Flag::new("otlp_endpoint", ValueKind::Text, "",
        "Collector of OpenTelemetry, such as http://HOST:4318, that gets kept spans and metrics (OTLP over HTTP); empty asks OTEL_EXPORTER_OTLP_ENDPOINT, else exports nothing"),
    Flag::new("check_host", ValueKind::Text, "",
        "Address at which `perigee check` of other hosts may measure this one, such as 0.0.0.0; empty: none may"),
    Flag::new("check_port", ValueKind::Int32, CHECK_PORT, "Port for that measurement, the same on all hosts").within(0, PORT_MAX),
    Flag::new("sysfs", ValueKind::Text, "/sys", "The host's /sys, where a container has it"),
    Flag::new("procfs", ValueKind::Text, "/proc", "The host's /proc, where a container has it"),
];

/// The agent as its settings see it.
pub const AGENT: Program = Program {
    name: "perigee agent",
    version: env!("CARGO_PKG_VERSION"),
    summary: "shows what NICs, disks and shards of this host do: metrics on /metrics, a page on /",
    variable_prefix: "PERIGEE_AGENT_",
    words: &[],
    tables: &[("Agent", FLAGS), ("Logs", LOG_FLAGS)],
};

/// Everything a start needs to know.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// For the agent itself.
    pub options: AgentOptions,
    /// Only print the table of sources.
    pub explain: Option<OutputFormat>,
    /// Log switches.
    pub log: LogSettings,
    /// What the operator should know about these settings.
    pub warnings: Vec<String>,
}

/// Form of printed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// What a start should do.
#[derive(Debug)]
pub enum AgentStart {
    /// Work with this configuration.
    Serve(Box<AgentConfig>),
    /// Print this text on standard output and exit with 0.
    Print(String),
}

impl AgentConfig {
    /// Reads the configuration of a start; `arguments` is without the program name.
    ///
    /// # Errors
    /// Any setting that is unknown or unreadable.
    pub fn load(
        arguments: &[String],
        environment: &ProcessEnvironment,
    ) -> Result<AgentStart, FlagError> {
        let settings = match AGENT.load(arguments, environment)? {
            ProgramStart::Print(text) => return Ok(AgentStart::Print(text)),
            ProgramStart::Run(settings) => settings,
        };
        let format = match settings.text("format") {
            "json" => OutputFormat::Json,
            _ => OutputFormat::Text,
        };
        let mut warnings = settings.warnings().to_vec();
        Ok(AgentStart::Serve(Box::new(Self {
            options: options(&settings, environment, &mut warnings)?,
            explain: settings.bool("explain").then_some(format),
            log: LogSettings::from_settings(&settings),
            warnings,
        })))
    }
}

fn options(
    settings: &Settings,
    environment: &ProcessEnvironment,
    warnings: &mut Vec<String>,
) -> Result<AgentOptions, FlagError> {
    let address = address_of("host", settings.text("host"))?;
    let check = match settings.text("check_host") {
        "" => None,
        host => {
            Some(SocketAddr::new(address_of("check_host", host)?, settings.integer("check_port")))
        }
    };
    let names = settings.text("interfaces").split(',').map(str::trim);
    let defaults = AgentOptions::default();
    let activity = settings.optional_text("activity_dir").map(PageDirectory::new);
    let roots = Roots::new(settings.text("sysfs"), settings.text("procfs"));
    let interfaces: Vec<String> =
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    refuse_unknown(&roots, &interfaces)?;
    Ok(AgentOptions {
        listen: SocketAddr::new(address, settings.integer("port")),
        roots,
        activity: activity.unwrap_or(defaults.activity),
        state: settings.optional_text("state_dir").map(PathBuf::from),
        baseline: baseline(settings.text("baseline"), defaults.baseline, warnings),
        ebpf: settings.bool("ebpf"),
        packets: settings.bool("packets"),
        slow: Duration::from_millis(settings.integer("slow_ms")),
        measure_costs: settings.bool("measure_costs"),
        interfaces,
        report_to: reported(settings.optional_text("report_to"))?,
        otlp: OtlpTarget::of(settings.optional_text("otlp_endpoint"), environment, warnings)?,
        check,
        looks_only: false,
    })
}

/// A named file may be written later; until then it is worth a word.
fn baseline(file: &str, usual: Option<PathBuf>, warnings: &mut Vec<String>) -> Option<PathBuf> {
    match file {
        "" => usual,
        "none" => None,
        file => {
            let file = PathBuf::from(file);
            if !file.exists() {
                warnings.push(format!(
                    "--baseline={} is not there; `perigee check --baseline` writes it, and it is \
                     read as soon as it is",
                    file.display()
                ));
            }
            Some(file)
        }
    }
}

fn reported(master: Option<&str>) -> Result<Option<String>, FlagError> {
    let Some(master) = master else {
        return Ok(None);
    };
    if master.starts_with("https://") {
        return Err(FlagError::Conflict(format!(
            "Masters serve plain HTTP, so --report_to=`{master}` cannot be reached; write HOST:PORT"
        )));
    }
    let place = with_port(master);
    let parsed: Option<Authority> = place.parse().ok();
    let is_place = parsed.is_some_and(|place| {
        let is_bare = !place.host().is_empty() && !place.as_str().contains('@');
        is_bare && place.port_u16().is_some_and(|port| port > 0)
    });
    match is_place {
        true => Ok(Some(place)),
        false => Err(FlagError::Conflict(format!(
            "--report_to=`{master}` is no address of a master; write HOST or HOST:PORT, such as \
             10.0.0.1:{MASTER_PORT}"
        ))),
    }
}

/// The master's HTTP port is the usual one where none is given. An `http://` before it says
/// nothing new.
fn with_port(master: &str) -> String {
    let master = master.strip_prefix("http://").unwrap_or(master).trim_end_matches('/');
    let host = match master.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]"),
        Err(_) => master.to_owned(),
    };
    let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
    if has_port { host } else { format!("{host}:{MASTER_PORT}") }
}

fn address_of(flag: &str, text: &str) -> Result<IpAddr, FlagError> {
    text.trim_matches(['[', ']']).parse().map_err(|_| {
        let text = format!("The {flag} `{text}` is no address; write one such as 127.0.0.1 or ::");
        FlagError::Conflict(text)
    })
}

/// A name that no NIC of the host bears would show nothing, for ever.
fn refuse_unknown(roots: &Roots, wanted: &[String]) -> Result<(), FlagError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let topology = Topology::discover(roots);
    let nics = topology.nics.iter().map(|nic| nic.name.as_str());
    let known: Vec<&str> =
        nics.chain(topology.rdma.iter().map(|device| device.name.as_str())).collect();
    let Some(name) = wanted.iter().find(|name| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", known.join(", ")),
    };
    Err(FlagError::Conflict(format!(
        "--interfaces names `{name}`, which this host does not have; {hint}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(arguments: &[&str]) -> Result<AgentConfig, FlagError> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        match AgentConfig::load(&arguments, &ProcessEnvironment::default())? {
            AgentStart::Serve(config) => Ok(*config),
            AgentStart::Print(text) => panic!("printed {text}"),
        }
    }

    #[test]
    fn the_table_is_sound_and_its_defaults_are_the_agents() {
        assert_eq!(AGENT.check(), Vec::<String>::new());
        let (found, wanted) = (load(&[]).unwrap().options, AgentOptions::default());
        assert_eq!(found.listen, wanted.listen);
        assert_eq!((found.state, found.slow), (wanted.state, wanted.slow));
        assert_eq!((found.ebpf, found.packets), (wanted.ebpf, wanted.packets));
        assert_eq!(found.interfaces, wanted.interfaces);
        assert_eq!(found.baseline, wanted.baseline);
        assert_eq!(load(&["--baseline=none"]).unwrap().options.baseline, None);
        let named = load(&["--baseline=/no/such"]).unwrap();
        assert_eq!(named.options.baseline, Some("/no/such".into()));
        assert!(named.warnings[0].contains("/no/such is not there"), "{:?}", named.warnings);
    }

    #[test]
    fn settings_reach_the_agent() {
        let config = load(&["--host=::1", "--port=0", "--interfaces=lo, lo,", "--ebpf=false"]);
        let options = config.unwrap().options;
        assert_eq!(options.listen, "[::1]:0".parse().unwrap());
        assert_eq!(options.interfaces, ["lo", "lo"]);
        assert!(!options.ebpf);
    }

    #[test]
    fn only_the_flag_for_a_collector_is_refused() {
        let with = |arguments: &[&str], variable: &str| {
            let environment = ProcessEnvironment::of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", variable)]);
            let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
            match AgentConfig::load(&arguments, &environment)? {
                AgentStart::Serve(config) => Ok((config.options.otlp, config.warnings)),
                AgentStart::Print(text) => panic!("printed {text}"),
            }
        };
        let (target, warnings) = with(&[], "collector:4317").unwrap();
        assert!(target.is_none() && warnings.len() == 1, "{warnings:?}");
        let (target, warnings) = with(&["--otlp_endpoint=http://a:1"], "collector:4317").unwrap();
        assert_eq!((target.is_some(), warnings), (true, Vec::new()));
        let error: FlagError = with(&["--otlp_endpoint=b:2"], "").unwrap_err();
        assert!(error.to_string().contains("http://127.0.0.1:4318"), "{error}");
    }

    #[test]
    fn a_master_without_a_port_gets_reports_at_the_usual_one() {
        for (given, wanted) in
            [("m", "m:9003"), ("m:1", "m:1"), ("fe80::1", "[fe80::1]:9003"), ("[::1]:7", "[::1]:7")]
        {
            let options = load(&[&format!("--report_to={given}")]).unwrap().options;
            assert_eq!(options.report_to.as_deref(), Some(wanted));
        }
        for given in ["http://m:1", "http://m:1/"] {
            let options = load(&[&format!("--report_to={given}")]).unwrap().options;
            assert_eq!(options.report_to.as_deref(), Some("m:1"));
        }
        let error = load(&["--report_to=https://m:1"]).unwrap_err().to_string();
        assert!(error.contains("write HOST:PORT"), "{error}");
        for given in ["a:b:c", "a:b", "m:0", "m:70000", "u@m", ":9003", "m/x", "a b"] {
            let error = load(&[&format!("--report_to={given}")]).unwrap_err().to_string();
            assert!(error.contains(given) && error.contains("write HOST"), "{error}");
        }
        assert_eq!(load(&[]).unwrap().options.report_to, None);
    }

    #[test]
    fn addresses_that_are_none_and_unknown_flags_are_refused() {
        assert!(load(&["--host=here"]).unwrap_err().to_string().contains("`here`"));
        let error = load(&["--interfaces=lo,l0"]).unwrap_err().to_string();
        assert!(error.contains("`l0`") && error.contains("did you mean `lo`?"), "{error}");
        assert!(load(&["--prot=1"]).is_err());
        assert!(load(&["--port=70000"]).is_err());
    }
}
