//! From merged settings to [`NodeConfig`]. Invariant: what a table entry cannot check (addresses,
//! lists, rules between settings) is checked here, with the name of the setting in the message.

use super::{ClientSocket, HttpPage, Metadata, NodeConfig, NodeName, StopDrain};
use crate::limits::{CPU_NUMBER_MAX, SOCKET_PATH_BYTES_MAX};
use perigee_flags::{FlagError, LogSettings, ProcessEnvironment, Settings};
use perigee_schemas::TenantId;
use perigee_settings::{SettingError, Variables, congestion};
use perigee_store::{DiskSettings, StoreEnvironment};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Hosts that stand for "any address of this machine".
const ANY_HOST: [&str; 4] = ["0.0.0.0", "::", "[::]", ""];
const DISK_READS: &str = "start_offload_rpc_server";

pub(super) fn node_config(
    settings: &Settings,
    environment: &ProcessEnvironment,
) -> Result<NodeConfig, FlagError> {
    let mut warnings = settings.warnings().to_vec();
    if settings.integer::<u64>("global_segment_size") == 0 {
        warnings.push("Setting `global_segment_size` is 0: this node donates nothing".to_owned());
    }
    Ok(NodeConfig {
        name: name(settings, &mut warnings)?,
        may_take_next_port: !settings.is_given("port")
            && !is_host_and_port(settings.text("host").trim()),
        master: master(settings)?,
        metadata: metadata(settings)?,
        segment_bytes: settings.integer("global_segment_size"),
        protocol: settings.text("protocol").to_owned(),
        device_names: settings.text("device_names").to_owned(),
        disks: disks(settings, environment, &mut warnings)?,
        tenant: tenant(settings)?,
        client_socket: client_socket(settings, &mut warnings)?,
        max_wait: Duration::from_millis(settings.integer("max_wait_time")),
        drain: drain(settings),
        http: http(settings, &mut warnings)?,
        environment: data_path(settings, environment)?,
        log: LogSettings::from_settings(settings),
        changed: settings.changed(),
        warnings,
    })
}

fn refuse(settings: &Settings, name: &'static str, expected: &str) -> FlagError {
    settings.refusal(name, expected.to_owned())
}

/// One line for each of these that is given beside a switch that takes their effect away.
fn warn_of_idle(settings: &Settings, names: &[&str], reason: &str, warnings: &mut Vec<String>) {
    for name in names.iter().filter(|name| settings.is_given(name)) {
        warnings.push(format!("Setting `{name}` has no effect {reason}"));
    }
}

fn client_socket(
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Result<Option<ClientSocket>, FlagError> {
    let path = PathBuf::from(settings.text("ipc_socket_path").trim());
    let mode = u32::from_str_radix(settings.text("ipc_socket_mode").trim(), 8);
    let Some(mode) = mode.ok().filter(|mode| *mode <= 0o777) else {
        return Err(refuse(settings, "ipc_socket_mode", "octal mode bits, such as 0660"));
    };
    if path.as_os_str().is_empty() {
        let reason = "without ipc_socket_path: there is no socket";
        warn_of_idle(settings, &["ipc_socket_mode"], reason, warnings);
        return Ok(None);
    }
    if !path.is_absolute() || path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        let expected = "an absolute path of at most 107 bytes, in a folder that is there";
        return Err(refuse(settings, "ipc_socket_path", expected));
    }
    Ok(Some(ClientSocket { path, mode }))
}

fn name(settings: &Settings, warnings: &mut Vec<String>) -> Result<NodeName, FlagError> {
    let host = settings.text("host").trim();
    let port: u16 = settings.integer("port");
    if ANY_HOST.contains(&host) {
        return Ok(NodeName::OfRoute(port));
    }
    if host.contains(char::is_whitespace) || host.contains('/') {
        return Err(refuse(settings, "host", "a host name or an IP address"));
    }
    if host.parse::<IpAddr>().is_ok() || !host.contains(':') {
        return Ok(NodeName::Given(with_port(host, port)));
    }
    if host.ends_with(']') {
        return Ok(NodeName::Given(with_port(host.trim_matches(['[', ']']), port)));
    }
    if !is_host_and_port(host) {
        return Err(refuse(settings, "host", "HOST or HOST:PORT"));
    }
    if settings.is_given("port") {
        warnings.push("Setting `port` is not used: `host` has a port of its own".to_owned());
    }
    Ok(NodeName::Given(host.to_owned()))
}

/// `host:port` with brackets where an address needs them; without a port when it is 0.
pub(crate) fn with_port(host: &str, port: u16) -> String {
    let bare_v6 = host.contains(':') && !host.starts_with('[');
    match (bare_v6, port) {
        (true, 0) => format!("[{host}]"),
        (false, 0) => host.to_owned(),
        (true, port) => format!("[{host}]:{port}"),
        (false, port) => format!("{host}:{port}"),
    }
}

fn is_host_and_port(text: &str) -> bool {
    port_of(text).is_some_and(|port| port > 0)
}

/// The port of `HOST:PORT`.
pub(super) fn port_of(text: &str) -> Option<u16> {
    let (host, port) = text.rsplit_once(':')?;
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let bare = !host.contains(':') && !host.contains(char::is_whitespace);
    (!host.is_empty() && (bracketed || bare)).then(|| port.parse().ok())?
}

fn master(settings: &Settings) -> Result<String, FlagError> {
    let address = settings.text("master_server_address").trim();
    if address.contains("://") {
        let expected = "HOST:PORT of the master: ways to several masters are not built";
        return Err(refuse(settings, "master_server_address", expected));
    }
    if !is_host_and_port(address) {
        let expected = "HOST:PORT of the master, such as 10.0.0.1:50051";
        return Err(refuse(settings, "master_server_address", expected));
    }
    Ok(address.to_owned())
}

fn tenant(settings: &Settings) -> Result<TenantId, FlagError> {
    let parsed = TenantId::parse(settings.text("tenant_id"));
    parsed.map_err(|error| refuse(settings, "tenant_id", &error.to_string()))
}

fn disks(
    settings: &Settings,
    environment: &ProcessEnvironment,
    warnings: &mut Vec<String>,
) -> Result<Option<DiskSettings>, FlagError> {
    let (path, key_file) = (settings.text("ssd_offload_path"), settings.text("ssd_key_file"));
    let variable = |name: &str| environment.get(name).map(str::to_owned);
    let variables = Variables::new(&variable);
    warnings.extend(DiskSettings::notices(&variables));
    if settings.bool("enable_offload") {
        let disks = DiskSettings::read(path, key_file, &variables);
        return disks.map(Some).map_err(|error| FlagError::Conflict(error.to_string()));
    }
    let mut idle = vec!["ssd_offload_path"];
    // Off, it has a line of its own.
    idle.extend(settings.bool(DISK_READS).then_some(DISK_READS));
    warn_of_idle(settings, &idle, "without enable_offload", warnings);
    let shared = DiskSettings::read_shared(key_file, &variables);
    if let (Err(error), true) = (&shared, settings.is_given("ssd_key_file")) {
        return Err(FlagError::Conflict(error.to_string()));
    }
    // A master without a shared directory needs none of it.
    Ok(shared.inspect_err(|error| warnings.push(unshared(error))).ok())
}

fn unshared(error: &SettingError) -> String {
    format!("No directory that all hosts share is used, if the master has one: {error}")
}

fn drain(settings: &Settings) -> Option<StopDrain> {
    let patience = Duration::from_secs(settings.integer("drain_on_stop"));
    let master_port = settings.integer("master_metrics_port");
    let is_asked = settings.is_given("drain_on_stop");
    (!patience.is_zero()).then_some(StopDrain { patience, master_port, is_asked })
}

fn metadata(settings: &Settings) -> Result<Metadata, FlagError> {
    let server = settings.text("metadata_server").trim();
    if !settings.is_given("metadata_server") {
        return Ok(Metadata::IfThere(server.to_owned()));
    }
    Ok(Metadata::Required(server.to_owned()))
}

fn http(settings: &Settings, warnings: &mut Vec<String>) -> Result<HttpPage, FlagError> {
    let is_given = settings.is_given("enable_http_server");
    if is_given && !settings.bool("enable_http_server") {
        let reason = "with enable_http_server=false: nothing is served";
        warn_of_idle(settings, &["http_host", "http_port"], reason, warnings);
        return Ok(HttpPage::Off);
    }
    let host = settings.text("http_host").trim_matches(['[', ']']);
    let address =
        host.parse().map_err(|_| refuse(settings, "http_host", "an IP address such as 0.0.0.0"))?;
    let address = SocketAddr::new(address, settings.integer("http_port"));
    Ok(if is_given { HttpPage::Required(address) } else { HttpPage::IfFree(address) })
}

/// The environment's settings with those of the flags on top.
fn data_path(
    settings: &Settings,
    environment: &ProcessEnvironment,
) -> Result<StoreEnvironment, FlagError> {
    let variable = |name: &str| environment.get(name).map(str::to_owned);
    let mut path = StoreEnvironment::from_variables(variable)
        .map_err(|error| FlagError::Conflict(error.to_string()))?;
    path.routes.shared_memory = settings.bool("shared_memory");
    path.huge_pages |= settings.bool("huge_pages");
    path.data_cpus = cpus(settings)?;
    path.congestion = congestion(settings.text("tcp_congestion"));
    if let shards @ 1.. = settings.integer("data_shards") {
        path.data_shards = shards;
    }
    if let Some(poll_us) = non_negative(settings, "poll_us") {
        path.poll = Duration::from_micros(poll_us.into());
    }
    path.numa_node = non_negative(settings, "numa_node");
    path.discovery.bind_address = match settings.optional_text("bind_address") {
        None => None,
        Some(text) => Some(
            text.trim()
                .parse()
                .map_err(|_| refuse(settings, "bind_address", "an IP address of this host"))?,
        ),
    };
    Ok(path)
}

fn non_negative(settings: &Settings, name: &str) -> Option<u32> {
    u32::try_from(settings.integer::<i64>(name)).ok()
}

fn cpus(settings: &Settings) -> Result<Vec<usize>, FlagError> {
    let parts = settings.text("data_cpus").split(',').map(str::trim);
    let number = |part: &str| {
        let number = part.parse::<u16>().ok();
        number
            .filter(|cpu| i128::from(*cpu) <= CPU_NUMBER_MAX)
            .map(usize::from)
            .ok_or_else(|| refuse(settings, "data_cpus", "CPU numbers such as 0,2,4"))
    };
    match settings.optional_text("data_cpus") {
        None => Ok(Vec::new()),
        Some(_) => parts.map(number).collect(),
    }
}
