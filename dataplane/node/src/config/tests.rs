//! The configuration of a start. Invariant: no test reads the environment of the test process.

use super::table::NODE;
use super::*;
use perigee_flags::testing::{Configured, silent_flags, unread_fields};
use perigee_shard::Congestion;
use std::path::{Path, PathBuf};

fn load_with(arguments: &[&str], variables: &[(&str, &str)]) -> Result<NodeConfig, FlagError> {
    let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
    match NodeConfig::load(&arguments, &ProcessEnvironment::of(variables))? {
        NodeStart::Serve(config) => Ok(*config),
        NodeStart::Print(text) => panic!("printed {text}"),
    }
}

fn load(arguments: &[&str]) -> Result<NodeConfig, FlagError> {
    load_with(arguments, &[])
}

fn name(arguments: &[&str]) -> NodeName {
    load(arguments).unwrap().name
}

#[test]
fn tables_are_sound() {
    assert_eq!(NODE.check(), Vec::<String>::new());
}

/// Flags that need another value than any, or another flag beside them.
const HINTS: &[&[&str]] = &[
    &["--ssd_offload_path=/disk", "--enable_offload"],
    &["--host=here"],
    &["--master_server_address=there:1"],
    &["--metadata_server=P2PHANDSHAKE"],
    &["--http_port=2", "--enable_http_server"],
    &["--http_host=127.0.0.1", "--enable_http_server"],
    &["--master_metrics_port=2", "--drain_on_stop=1"],
    &["--data_shards=5"],
    &["--data_cpus=0"],
    &["--bind_address=127.0.0.1"],
    &["--vmodule=rpc=1"],
    &["--logtostderr=true", "--log_dir=/tmp"],
];

#[test]
fn no_flag_is_accepted_in_silence() {
    let silent = silent_flags(&NODE, HINTS, |arguments| {
        let start = NodeConfig::load(arguments, &ProcessEnvironment::default())?;
        let NodeStart::Serve(mut config) = start else { panic!("{arguments:?} prints") };
        let warnings = std::mem::take(&mut config.warnings);
        config.changed.clear();
        Ok(Configured { shown: format!("{config:?}"), warnings })
    });
    assert_eq!(silent, [] as [&str; 0]);
}

#[test]
fn every_field_of_the_configuration_is_read_by_the_daemon() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut unread = unread_fields(include_str!("../config.rs"), &folder);
    // The program starts its log before the daemon.
    unread.retain(|name| name != "log");
    assert_eq!(unread, [] as [String; 0]);
}

#[test]
fn a_tenant_is_taken_by_its_name_and_one_that_cannot_be_is_refused() {
    assert_eq!(load(&["--tenant_id=red"]).unwrap().tenant.name(), "red");
    assert!(load(&["--tenant_id=default"]).unwrap().tenant.is_default());
    assert!(load(&[]).unwrap().tenant.is_default());
    let text = load(&["--tenant_id=_red"]).unwrap_err().to_string();
    assert!(text.contains("tenant_id") && text.contains("does not begin with _"), "{text}");
}

#[test]
fn defaults_are_those_of_mooncake() {
    let config = load(&[]).unwrap();
    assert_eq!(config.name, NodeName::OfRoute(50052));
    assert_eq!(config.master, "127.0.0.1:50051");
    assert_eq!(config.segment_bytes, 4 << 30);
    assert_eq!(config.protocol, "tcp");
    assert_eq!(config.http, HttpPage::IfFree("0.0.0.0:9300".parse().unwrap()));
    assert_eq!(config.max_wait.as_secs(), 60);
    let url = "http://127.0.0.1:8080/metadata".to_owned();
    assert_eq!(config.metadata, Metadata::IfThere(url));
    assert_eq!((config.warnings, config.changed), (Vec::new(), Vec::new()));
}

#[test]
fn command_line_of_the_mooncake_guide_is_read() {
    let config = load(&[
        "--global_segment_size=4GB",
        "--master_server_address",
        "10.0.0.1:50051",
        "--metadata_server=P2PHANDSHAKE",
        "-host=10.0.0.2",
        "--protocol=rdma",
        "--enable_http_server",
        "--http_port=9301",
    ])
    .unwrap();
    assert_eq!(config.name, NodeName::Given("10.0.0.2:50052".to_owned()));
    assert_eq!(config.master, "10.0.0.1:50051");
    assert_eq!(config.metadata, Metadata::Required("P2PHANDSHAKE".to_owned()));
    assert_eq!(config.http, HttpPage::Required("0.0.0.0:9301".parse().unwrap()));
    assert_eq!(load(&["--enable_http_server=false"]).unwrap().http, HttpPage::Off);
}

#[test]
fn a_default_metadata_server_that_is_written_out_is_required() {
    let url = "http://127.0.0.1:8080/metadata";
    let config = load(&[&format!("--metadata_server={url}")]).unwrap();
    assert_eq!(config.metadata, Metadata::Required(url.to_owned()));
}

#[test]
fn hosts_get_the_port_unless_they_have_one() {
    assert_eq!(name(&["--host=node-7"]), NodeName::Given("node-7:50052".to_owned()));
    assert_eq!(name(&["--host=fe80::1"]), NodeName::Given("[fe80::1]:50052".to_owned()));
    assert_eq!(name(&["--host=[fe80::1]"]), NodeName::Given("[fe80::1]:50052".to_owned()));
    assert_eq!(name(&["--host=a:9"]), NodeName::Given("a:9".to_owned()));
    assert_eq!(name(&["--host=a", "--port=0"]), NodeName::Given("a".to_owned()));
    assert_eq!(name(&["--host=::", "--port=7"]), NodeName::OfRoute(7));
    assert!(load(&["--host=a:9", "--port=8"]).unwrap().warnings[0].contains("port of its own"));
}

#[test]
fn values_that_cannot_be_used_are_refused_by_name() {
    for (argument, part) in [
        ("--global_segment_size=-1", "global_segment_size"),
        ("--global_segment_size=50%", "global_segment_size"),
        ("--master_server_address=nowhere", "such as 10.0.0.1:50051"),
        ("--master_server_address=:1", "master_server_address"),
        ("--host=a:b:c", "host"),
        ("--host=two words", "host"),
        ("--data_cpus=0,x", "data_cpus"),
        ("--bind_address=here", "bind_address"),
        ("--port=70000", "port"),
        ("--max_wait_time=soon", "max_wait_time"),
    ] {
        let text = load(&[argument]).unwrap_err().to_string();
        assert!(text.contains(part), "{argument}: {text}");
    }
    let text = load(&["--enable_http_server", "--http_host=x"]).unwrap_err().to_string();
    assert!(text.contains("http_host"), "{text}");
}

#[test]
fn a_stop_drains_for_as_long_as_is_said() {
    assert_eq!(load(&["--drain_on_stop=0"]).unwrap().drain, None);
    let drain = load(&["--drain_on_stop=90", "--master_metrics_port=8"]).unwrap().drain;
    let patience = Duration::from_secs(90);
    assert_eq!(drain, Some(StopDrain { patience, master_port: 8, is_asked: true }));
    let usual = load(&[]).unwrap().drain.map(|drain| (drain.patience, drain.is_asked));
    // Less than the 30 s that Kubernetes gives a pod.
    assert_eq!(usual, Some((Duration::from_secs(20), false)));
    assert!(load(&["--drain_on_stop=soon"]).unwrap_err().to_string().contains("drain_on_stop"));
}

#[test]
fn flags_that_are_not_needed_say_so() {
    let config = load(&["--threads=8", "--local_buffer_size=1GB"]).unwrap();
    let mut warnings = config.warnings;
    warnings.sort();
    let [buffer, threads] = warnings.try_into().unwrap();
    assert!(buffer.contains("local_buffer_size") && buffer.contains("dummy clients"), "{buffer}");
    assert!(threads.contains("threads") && threads.contains("no effect"), "{threads}");
}

#[test]
fn flags_beside_a_switch_that_makes_them_idle_say_so() {
    for (arguments, name, reason) in [
        (&["--ipc_socket_mode=666"][..], "ipc_socket_mode", "ipc_socket_path"),
        (&["--start_offload_rpc_server"], "start_offload_rpc_server", "enable_offload"),
        (&["--start_offload_rpc_server=false"], "start_offload_rpc_server", "data port"),
        (&["--noenable_http_server", "--http_host=::1"], "http_host", "enable_http_server"),
        (&["--noenable_http_server", "--http_port=9301"], "http_port", "enable_http_server"),
    ] {
        let warnings = load(arguments).unwrap().warnings;
        let [line] = warnings.as_slice() else { panic!("{arguments:?}: {warnings:?}") };
        assert!(line.contains(name) && line.contains(reason), "{line}");
    }
    let disks = ["--enable_offload", "--ssd_offload_path=/a", "--start_offload_rpc_server"];
    for arguments in [&["--http_host=::1"][..], &["--ipc_socket_path=/run/p.sock"], &disks] {
        assert_eq!(load(arguments).unwrap().warnings, Vec::<String>::new(), "{arguments:?}");
    }
}

#[test]
fn a_socket_for_other_users_has_a_path_and_mode_bits() {
    let socket = |arguments: &[&str]| load(arguments).map(|config| config.client_socket);
    assert_eq!(socket(&[]).unwrap(), None);
    let found = socket(&["--ipc_socket_path=/run/p.sock"]).unwrap().unwrap();
    assert_eq!((found.path, found.mode), (PathBuf::from("/run/p.sock"), 0o660));
    let found = socket(&["--ipc_socket_path=/run/p.sock", "--ipc_socket_mode=666"]).unwrap();
    assert_eq!(found.unwrap().mode, 0o666);
    for (bad, part) in [
        ("--ipc_socket_path=p.sock", "absolute"),
        ("--ipc_socket_mode=rw", "octal"),
        ("--ipc_socket_mode=4755", "octal"),
    ] {
        let text = socket(&[bad]).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn disks_are_named_by_flag_or_variable_and_only_with_the_switch() {
    let disks = load(&["--enable_offload", "--ssd_offload_path=/a,/b"]).unwrap().disks.unwrap();
    assert_eq!(disks.paths, [Path::new("/a"), Path::new("/b")]);
    let text = load(&["--enable_offload", "--ssd_offload_path=a"]).unwrap_err().to_string();
    assert!(text.contains("ssd_offload_path") && text.contains("absolute"), "{text}");
    let idle = load(&["--ssd_offload_path=/a"]).unwrap();
    assert!(idle.disks.unwrap().paths.is_empty() && idle.warnings[0].contains("enable_offload"));
    let key = load(&["--enable_offload", "--ssd_key_file=/nowhere/key"]).unwrap_err().to_string();
    assert!(key.contains("ssd_key_file") && key.contains("/nowhere/key"), "{key}");
    let key = load(&["--ssd_key_file=/nowhere/key"]).unwrap_err().to_string();
    assert!(key.contains("ssd_key_file"), "also without the switch: {key}");
    let shared = load(&[]).unwrap();
    assert!(shared.disks.unwrap().paths.is_empty() && shared.warnings.is_empty());
}

#[test]
fn what_variables_of_disks_say_without_effect_is_a_warning_of_the_start() {
    let policy = ("MOONCAKE_OFFLOAD_BUCKET_EVICTION_POLICY", "none");
    let warnings = |arguments: &[&str]| load_with(arguments, &[policy]).unwrap().warnings;
    for arguments in [&["--enable_offload", "--ssd_offload_path=/a"][..], &[]] {
        let named: Vec<String> =
            warnings(arguments).into_iter().filter(|line| line.contains(policy.0)).collect();
        assert_eq!(named.len(), 1, "{named:?}");
    }
    let limit = ("MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES", "5");
    let text = load_with(&["--enable_offload"], &[limit]).unwrap_err().to_string();
    assert!(text.contains(limit.0) && text.contains("33554432"), "{text}");
}

#[test]
fn a_node_without_memory_warns_that_it_is_of_little_use() {
    let config = load(&["--global_segment_size=0"]).unwrap();
    assert!(config.warnings[0].contains("donates nothing"));
}

#[test]
fn data_path_settings_reach_the_store() {
    let path = load(&[
        "--noshared_memory",
        "--data_shards=3",
        "--data_cpus=1, 2",
        "--numa_node=0",
        "--huge_pages",
        "--tcp_congestion=bbr",
        "--poll_us=7",
        "--bind_address=127.0.0.1",
    ])
    .unwrap()
    .environment;
    assert!(!path.routes.shared_memory && path.huge_pages);
    assert_eq!((path.data_shards, path.data_cpus), (3, vec![1, 2]));
    assert_eq!((path.numa_node, path.poll.as_micros()), (Some(0), 7));
    assert_eq!(path.congestion, Congestion::Named("bbr".into()));
    assert_eq!(path.discovery.bind_address, Some("127.0.0.1".parse().unwrap()));
}

#[test]
fn variables_of_clients_are_read_and_flags_win() {
    let variables = [
        ("PERIGEE_SHARED_MEMORY", "0"),
        ("PERIGEE_DATA_SHARDS", "2"),
        ("MC_STORE_USE_HUGEPAGE", "anything"),
        ("PERIGEE_POLL_US", "9"),
    ];
    let path = load_with(&["--poll_us=7"], &variables).unwrap().environment;
    assert!(!path.routes.shared_memory && path.huge_pages);
    assert_eq!((path.data_shards, path.poll.as_micros()), (2, 7));
    let unset = load(&[]).unwrap().environment;
    assert_eq!(unset.poll, perigee_shard::POLL_DEFAULT);
}
