//! The configuration of a start. Invariant: no test reads the environment of the test process.

use super::table::MASTER;
use super::*;
use perigee_flags::ValueKind;
use perigee_flags::testing::{Configured, silent_flags, unread_fields};
use std::path::Path;

/// Mooncake's 97 master flags with their types, one per line.
const MOONCAKE_FLAGS: &str = include_str!("mooncake_flags.txt");

fn load_with(arguments: &[&str], variables: &[(&str, &str)]) -> Result<MasterConfig, FlagError> {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    match MasterConfig::load(&arguments, &ProcessEnvironment::of(variables))? {
        MasterStart::Serve(config) => Ok(*config),
        MasterStart::Print(text) => panic!("printed {text}"),
    }
}

fn load(arguments: &[&str]) -> Result<MasterConfig, FlagError> {
    load_with(arguments, &[])
}

fn refusal(argument: &str) -> String {
    load(&[argument]).unwrap_err().to_string()
}

#[test]
fn tables_are_sound() {
    assert_eq!(MASTER.check(), Vec::<String>::new());
}

#[test]
fn every_mooncake_flag_is_known_with_its_type() {
    assert_eq!(MOONCAKE_FLAGS.lines().count(), 97);
    for line in MOONCAKE_FLAGS.lines() {
        let (name, kind) = line.split_once(' ').unwrap();
        let flag = MASTER.find(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(flag.kind.label(), kind, "{name}");
    }
}

#[test]
fn defaults_are_those_of_mooncake() {
    let config = load(&[]).unwrap();
    assert_eq!(config.rpc.listen, Listen { host: "0.0.0.0".to_owned(), port: 50051 });
    assert_eq!(config.http, Listen { host: "0.0.0.0".to_owned(), port: 9003 });
    assert_eq!(config.metadata, None);
    assert_eq!(config.leases.read_ttl_ms, 10_000);
    assert_eq!(config.leases.soft_pin_ttl_ms, 1_800_000);
    assert_eq!(config.leases.soft_pin_ttl_ms_max, 86_400_000);
    assert_eq!(config.eviction.high_watermark_ratio, 0.9);
    assert_eq!(config.eviction.ratio, 0.05);
    assert_eq!(config.writes.discard_timeout_ms, 30_000);
    assert_eq!(config.writes.release_timeout_ms, 600_000);
    assert_eq!(config.client_ttl_ms, 10_000);
    assert_eq!(config.allocation, AllocationStrategy::Random);
    assert_eq!(config.rpc.idle_timeout_ms, None);
    assert!(config.report_metrics);
    assert_eq!((config.warnings, config.changed), (Vec::new(), Vec::new()));
}

/// Flags that need another value than any, or another flag beside them.
const HINTS: &[&[&str]] = &[
    &["--allow_unbuilt=true", "--enable_oplog"],
    &["--enable_metadata_cleanup_on_timeout=true", "--enable_http_metadata_server"],
    &["--metadata_server=http://h:1/metadata", "--enable_metadata_cleanup_on_timeout"],
    &["--rpc_shards=2", "--max_threads=1"],
    &["--rpc_thread_num=2", "--max_threads=1"],
    &["--quota_bytes=99000000"],
    &["--global_file_segment_size=99000000"],
    &["--vmodule=rpc=1"],
    &["--logtostderr=true", "--log_dir=/tmp"],
];

#[test]
fn no_flag_is_accepted_in_silence() {
    let silent = silent_flags(&MASTER, HINTS, |arguments| {
        let start = MasterConfig::load(arguments, &ProcessEnvironment::default())?;
        let MasterStart::Serve(mut config) = start else { panic!("{arguments:?} prints") };
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
fn command_line_of_the_sglang_guide_is_read() {
    let config = load(&[
        "--eviction_high_watermark_ratio=0.95",
        "--enable_http_metadata_server",
        "--http_metadata_server_port",
        "8081",
        "-http-metadata-server-host=127.0.0.1",
        "-v=1",
        "--default_kv_lease_ttl=2s",
    ])
    .unwrap();
    assert_eq!(config.eviction.high_watermark_ratio, 0.95);
    assert_eq!(config.metadata, Some(Listen { host: "127.0.0.1".to_owned(), port: 8081 }));
    assert_eq!(config.leases.read_ttl_ms, 2000);
    assert_eq!(config.log.verbosity, 1);
}

#[test]
fn rpc_port_replaces_port_only_when_not_zero() {
    assert_eq!(load(&["--port=1", "--rpc_port=2"]).unwrap().rpc.listen.port, 2);
    assert_eq!(load(&["--port=1", "--rpc_port=0"]).unwrap().rpc.listen.port, 1);
    assert_eq!(load(&["--port=0"]).unwrap().rpc.listen.port, 0);
}

#[test]
fn rpc_interface_replaces_rpc_address() {
    let config = load(&["--rpc_interface=lo", "--rpc_address=1.2.3.4"]).unwrap();
    assert_eq!(config.rpc.listen.host, "127.0.0.1");
    assert!(refusal("--rpc_interface=nosuch0").contains("nosuch0"));
}

#[test]
fn shards_come_from_the_own_flag_then_threads_then_cores() {
    let shards = |arguments: &[&str]| load(arguments).unwrap().rpc.shards;
    assert_eq!(shards(&["--rpc_shards=3", "--rpc_thread_num=5"]), 3);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(shards(&["--rpc_thread_num=1"]), 1);
    assert_eq!(shards(&["--rpc_thread_num=256"]), cores.min(16));
    assert!((1..=16).contains(&shards(&[])));
    if cores < 256 {
        let warnings = load(&["--rpc_thread_num=256"]).unwrap().warnings;
        assert!(warnings[0].contains("rpc_thread_num"), "{warnings:?}");
    }
    assert_eq!(load(&["--rpc_thread_num=1"]).unwrap().warnings, Vec::<String>::new());
}

#[test]
fn the_metadata_service_runs_when_the_command_line_gives_its_place() {
    let place = |arguments: &[&str]| {
        let listen = load(arguments).unwrap().metadata;
        listen.map(|listen| format!("{}:{}", listen.host, listen.port))
    };
    let on = |text: &str| Some(text.to_owned());
    assert_eq!(place(&["--http_metadata_server_port=8088"]), on("0.0.0.0:8088"));
    assert_eq!(place(&["--http_metadata_server_host=::"]), on(":::8080"));
    assert_eq!(place(&[]), None);
    let off = "--enable_http_metadata_server=false";
    assert_eq!(place(&[off, "--http_metadata_server_port=8088"]), None);
    for flag in ["http_metadata_server_port=8088", "http_metadata_server_host=::"] {
        let warnings = load(&[off, &format!("--{flag}")]).unwrap().warnings;
        let name = flag.split('=').next().unwrap_or_default();
        assert!(warnings.len() == 1 && warnings[0].contains(name), "{warnings:?}");
        assert!(warnings[0].contains("enable_http_metadata_server"), "{warnings:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("master.yaml");
    std::fs::write(&path, "http_metadata_server_port: 8080\n").unwrap();
    let file = format!("--config_path={}", path.display());
    assert_eq!(place(&[&file]), None);
    assert_eq!(load(&[&file]).unwrap().warnings, Vec::<String>::new());
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    for (argument, part) in [
        ("--eviction_ratio=1.5", "from 0 to 1"),
        ("--eviction_high_watermark_ratio=-0.1", "from 0 to 1"),
        ("--metrics_port=65536", "from 0 to 65535"),
        ("--rpc_shards=17", "from 0 to 16"),
        ("--client_ttl=0", "from 1"),
        ("--default_kv_lease_ttl=10 seconds", "500ms, 1.5s, 5m, 1h"),
        ("--default_kv_lease_ttl=0", "from 1 ms"),
        ("--offloading_queue_limit=0", "from 1 to 100000000"),
        ("--allocation_strategy=Random", "one of random"),
        ("--memory_allocator=slab", "one of offset, cachelib"),
        ("--allocation_strategy=cxl", "CXL memory is not built yet"),
        ("--max_kv_soft_pin_ttl=1s", "is above"),
    ] {
        assert!(refusal(argument).contains(part), "{argument}: {}", refusal(argument));
    }
}

#[test]
fn values_that_mean_nothing_are_refused_with_flag_value_and_range() {
    for (name, value, range) in [
        ("offload_cap_ratio", "0", "from 0.001 to 1"),
        ("offload_cap_ratio", "-0.5", "from 0.001 to 1"),
        ("offload_cap_ratio", "NaN", "from 0.001 to 1"),
        ("offload_drive_writes_per_day", "0.0000001", "0 for no bound, or a number from 0.001"),
        ("offload_drive_writes_per_day", "-1", "from 0 to 1000000"),
        ("quota_bytes", "5", "0 for no bound, or at least 33554432 bytes"),
        ("quota_bytes", "-5", "a non-negative integer"),
        ("global_file_segment_size", "33554431", "at least 33554432 bytes"),
        ("promotion_admission_threshold", "-1", "a non-negative integer"),
        ("promotion_admission_threshold", "two", "a non-negative integer"),
        ("promotion_queue_limit", "0", "from 1 to 100000000"),
        ("max_total_processing_tasks", "0", "from 1 to 4294967295"),
    ] {
        let text = refusal(&format!("--{name}={value}"));
        let start = format!("Setting `{name}` cannot be `{value}` (command line); give ");
        assert!(text.starts_with(&start) && text.contains(range), "{text}");
    }
    for given in ["--quota_bytes=0", "--global_file_segment_size=0", "--quota_bytes=33554432"] {
        assert!(load(&["--root_fs_dir=/mnt", given]).is_ok(), "{given}");
    }
}

#[test]
fn a_threshold_out_of_range_stands_for_the_nearest_one_and_is_warned_of() {
    for (given, counted, warnings) in [("0", 1, 1), ("1", 1, 0), ("255", 255, 0), ("999", 255, 1)] {
        let threshold = format!("--promotion_admission_threshold={given}");
        let config = load(&["--enable_offload", "--promotion_on_hit", &threshold]).unwrap();
        assert_eq!(config.promotion.map(|it| it.threshold), Some(Some(counted)));
        let warned: Vec<&String> =
            config.warnings.iter().filter(|it| it.contains("threshold")).collect();
        assert_eq!(warned.len(), warnings, "{given}: {:?}", config.warnings);
    }
    let low = load(&["--eviction_high_watermark_ratio=0"]).unwrap();
    assert!(low.warnings[0].contains("eviction_high_watermark_ratio"), "{:?}", low.warnings);
}

#[test]
fn features_not_built_are_accepted_with_one_warning_that_names_them() {
    let config =
        load(&["--enable_ha=true", "--etcd_endpoints=a:1", "--enable_snapshot", "--allow_unbuilt"])
            .unwrap();
    assert_eq!(config.warnings.len(), 1);
    for part in ["enable_ha", "etcd_endpoints", "high availability", "enable_snapshot"] {
        assert!(config.warnings[0].contains(part), "{part}");
    }
}

#[test]
fn guarantees_about_data_that_are_not_built_are_refused_unless_that_is_allowed() {
    for argument in
        ["--enable_ha", "--enable_oplog", "--enable_snapshot", "--enable_snapshot_restore"]
    {
        let text = refusal(argument);
        assert!(text.contains("not built yet") && text.contains("--allow_unbuilt"), "{text}");
        let name = argument.trim_start_matches("--").split('=').next().unwrap();
        assert!(text.contains(name), "{text}");
        let allowed = load(&[argument, "--allow_unbuilt"]).unwrap();
        assert!(allowed.warnings[0].contains(name), "{:?}", allowed.warnings);
    }
    assert!(load(&["--enable_ha=false", "--enable_oplog=false"]).is_ok());
}

#[test]
fn a_shared_directory_turns_the_tier_on_and_leads_to_one_place() {
    let shared = |arguments: &[&str]| load(arguments).map(|config| config.shared);
    assert_eq!(shared(&["--root_fs_dir="]).unwrap(), None);
    let config = load(&["--root_fs_dir=/mnt/kv"]).unwrap();
    let cluster = "mooncake_cluster".to_owned();
    let expected = SharedDirectory { path: "/mnt/kv".to_owned(), cluster, bytes: 0 };
    assert_eq!((config.shared, config.warnings.len()), (Some(expected), 0));
    assert!(!config.offload.unwrap().on_evict, "each object goes there after its put");
    let bounded = ["--root_fs_dir=/mnt", "--cluster_id=a", "--quota_bytes=99000000"];
    let bounded = shared(&[&bounded[..], &["--global_file_segment_size=88000000"]].concat());
    let bounded = bounded.unwrap().unwrap();
    assert_eq!((&*bounded.cluster, bounded.bytes), ("a", 88_000_000));
    for (argument, part) in [
        ("--root_fs_dir=kv", "an absolute path"),
        ("--root_fs_dir=/a/../b", "without .."),
        ("--cluster_id=a/b", "without slashes"),
        ("--cluster_id=..", "without slashes"),
        ("--global_file_segment_size=-1", "from 0 to"),
    ] {
        let error = shared(&["--root_fs_dir=/mnt", argument]).unwrap_err().to_string();
        assert!(error.contains(part), "{argument}: {error}");
    }
    let idle = load(&["--quota_bytes=99000000", "--cluster_id=a", "--promotion_on_hit"]).unwrap();
    assert_eq!((idle.shared, idle.offload, idle.warnings.len()), (None, None, 3));
}

#[test]
fn objects_come_back_from_disks_on_reads_on_questions_or_not_at_all() {
    let promotion = |more: &[&str]| {
        let config = load(&[&["--enable_offload"], more].concat()).unwrap();
        (config.promotion.map(|it| (it.threshold, it.on_exist)), config.warnings.len())
    };
    assert_eq!(promotion(&[]), (None, 0));
    assert_eq!(promotion(&["--promotion_on_hit"]), (Some((Some(2), false)), 0));
    assert_eq!(promotion(&["--promotion_on_exist"]), (Some((None, true)), 0));
    let both = ["--promotion_on_hit", "--promotion_on_exist", "--promotion_admission_threshold=7"];
    assert_eq!(promotion(&both), (Some((Some(7), true)), 0));
    let idle = ["--promotion_on_exist", "--promotion_admission_threshold=7"];
    assert_eq!(promotion(&idle), (Some((None, true)), 1));
    assert_eq!(promotion(&["--promotion_queue_limit=7"]), (None, 1));
    let nowhere = load(&["--promotion_on_exist"]).unwrap();
    assert!(nowhere.warnings[0].contains("without enable_offload"), "{:?}", nowhere.warnings);
}

#[test]
fn heat_is_counted_only_if_it_is_asked_for() {
    assert_eq!(load(&[]).unwrap().heat, None);
    let heat = HeatSettings { enforce: false, window_ms: 10_000, reads_needed: 8, replicas_max: 2 };
    let observed = load(&["--dynamic_replication_mode=observe"]).unwrap();
    assert_eq!((observed.heat, observed.warnings.len()), (Some(heat), 0));
    let enforced = load(&[
        "--dynamic_replication_mode=enforce",
        "--dynamic_replication_heat_window_seconds=3",
        "--dynamic_replication_admission_qps_threshold=0.5",
        "--dynamic_replication_max_memory_replicas=4",
    ]);
    let heat = HeatSettings { enforce: true, window_ms: 3_000, reads_needed: 2, replicas_max: 4 };
    assert_eq!(enforced.unwrap().heat, Some(heat));
    let idle = load(&["--dynamic_replication_max_memory_replicas=3"]).unwrap();
    assert!(idle.warnings[0].contains("dynamic_replication_mode is off"), "{:?}", idle.warnings);
}

#[test]
fn cachelib_is_accepted_with_a_warning() {
    let config = load(&["--memory_allocator=cachelib"]).unwrap();
    assert!(config.warnings[0].contains("offset allocator is used"));
}

#[test]
fn metadata_cleanup_prefers_the_embedded_service() {
    let cleanup = "--enable_metadata_cleanup_on_timeout";
    let url = "http://10.0.0.1:8080/metadata";
    let variables = [("MOONCAKE_TE_META_DATA_SERVER", url)];
    let embedded = load_with(&[cleanup, "--enable_http_metadata_server"], &variables).unwrap();
    assert_eq!(embedded.metadata_cleanup, MetadataCleanup::Embedded);
    let remote = load_with(&[cleanup], &variables).unwrap();
    assert_eq!(remote.metadata_cleanup, MetadataCleanup::Remote(url.to_owned()));
    let none = load(&[cleanup]).unwrap();
    assert_eq!((none.metadata_cleanup, none.warnings.len()), (MetadataCleanup::Off, 1));
}

#[test]
fn file_key_of_the_client_ttl_differs_from_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("master.yaml");
    std::fs::write(&path, "client_live_ttl_sec: 60\neviction_ratio: 0.1\nenable_ha: false\n")
        .unwrap();
    let config = load(&[&format!("--config_path={}", path.display())]).unwrap();
    assert_eq!(config.client_ttl_ms, 60_000);
    assert_eq!(config.eviction.ratio, 0.1);
}

#[test]
fn a_client_file_named_by_the_environment_is_left_alone() {
    let config = load_with(&[], &[("MOONCAKE_CONFIG_PATH", "/no/such/client.json")]).unwrap();
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn environment_names_follow_the_flag_names() {
    let config = load_with(&[], &[("PERIGEE_MASTER_RPC_PORT", "6000")]).unwrap();
    assert_eq!(config.rpc.listen.port, 6000);
    let text = load_with(&[], &[("PERIGEE_MASTER_RPC_PORT", "x")]).unwrap_err().to_string();
    assert!(text.contains("environment variable PERIGEE_MASTER_RPC_PORT"), "{text}");
}

#[test]
fn durations_and_sizes_are_shown_as_strings_like_in_mooncake() {
    let lease = MASTER.find("default_kv_lease_ttl").unwrap();
    assert_eq!((lease.kind, lease.kind.label()), (ValueKind::DurationMs, "string"));
}

#[test]
fn a_release_timeout_that_late_writes_can_outlast_is_warned_of() {
    let config = load(&["--put_start_release_timeout_sec=19"]).unwrap();
    assert!(config.warnings[0].contains("put_start_release_timeout_sec"));
    let config = load(&["--put_start_release_timeout_sec=20"]).unwrap();
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn events_need_an_endpoint_and_a_name_and_are_off_otherwise() {
    let (on, at, name) = (
        "--enable_kv_events",
        "--kv_events_bind_endpoint=tcp://*:5557",
        "--kv_events_backend_id=b",
    );
    let off = load(&[at, name]).unwrap();
    assert_eq!((off.events, off.warnings.len()), (None, 1));
    assert!(off.warnings[0].contains("kv_events_bind_endpoint, kv_events_backend_id"));
    for (arguments, part) in [
        (vec![on, name], "--kv_events_bind_endpoint=tcp://*:5557"),
        (vec![on, at], "--kv_events_backend_id="),
        (vec![on, name, "--kv_events_bind_endpoint=5557"], "tcp://HOST:PORT"),
        (vec![on, at, name, "--kv_events_replay_endpoint=here"], "`kv_events_replay_endpoint`"),
    ] {
        let text = load(&arguments).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    }
    let replay = "--kv_events_replay_endpoint=ipc:///run/perigee/replay";
    let legacy = "--kv_events_emit_legacy_compat=false";
    let events = load(&[on, at, name, replay, legacy]).unwrap().events.unwrap();
    assert_eq!(events.publish.to_string(), "tcp://*:5557");
    assert_eq!(events.replay.unwrap().to_string(), "ipc:///run/perigee/replay");
    assert!(events.has_object_key && !events.has_legacy_fields);
    assert_eq!((events.backend_id.as_str(), events.queue_capacity), ("b", 65536));
}

#[test]
fn events_name_the_model_that_an_operator_gives_and_none_otherwise() {
    let on = [
        "--enable_kv_events",
        "--kv_events_bind_endpoint=tcp://*:5557",
        "--kv_events_backend_id=b",
    ];
    let plain = load(&on).unwrap().events.unwrap();
    assert_eq!((plain.model_name, plain.block_size, plain.dp_rank), (None, None, 0));
    assert_eq!((plain.additional_salt, plain.lora_name), (None, None));
    let flags = [
        "--kv_events_model_name=a-model",
        "--kv_events_block_size=16",
        "--kv_events_additional_salt=w8a8",
        "--kv_events_lora_name=sql",
        "--kv_events_dp_rank=3",
    ];
    let config = load(&[on.as_slice(), &flags].concat()).unwrap();
    assert_eq!(config.warnings, Vec::<String>::new());
    let named = config.events.unwrap();
    assert_eq!((named.model_name.as_deref(), named.block_size), (Some("a-model"), Some(16)));
    assert_eq!(named.additional_salt.as_deref(), Some("w8a8"));
    assert_eq!((named.lora_name.as_deref(), named.dp_rank), (Some("sql"), 3));
    let idle = load(&flags[..1]).unwrap();
    assert!(idle.warnings[0].contains("kv_events_model_name"), "{:?}", idle.warnings);
}

#[test]
fn quotas_of_tenants_come_from_a_file_that_must_be_named() {
    let (on, place) = ("--enable_multi_tenants", "--tenant_quota_connector_uri=/etc/quotas.yaml");
    assert_eq!(load(&[on, place]).unwrap().quota_file, Some("/etc/quotas.yaml".into()));
    assert_eq!(load(&[]).unwrap().quota_file, None);
    let idle = load(&[place]).unwrap();
    assert_eq!((idle.quota_file, idle.warnings.len()), (None, 1));
    assert!(idle.warnings[0].contains("enable_multi_tenants"), "{}", idle.warnings[0]);
    let nameless = load(&[on]).unwrap_err().to_string();
    assert!(nameless.contains("tenant_quota_connector_uri="), "{nameless}");
    let etcd = load(&[on, place, "--tenant_quota_connector_type=etcd"]).unwrap_err().to_string();
    assert!(etcd.contains("cannot be etcd") && etcd.contains("use file"), "{etcd}");
    let other = load(&[on, place, "--tenant_quota_connector_type=s3"]).unwrap_err().to_string();
    assert!(other.contains("file, etcd"), "{other}");
}

#[test]
fn objects_go_to_ssds_only_with_the_switch_and_idle_settings_are_named() {
    let on = load(&[
        "--enable_offload",
        "--allow_unbuilt",
        "--offload_on_evict",
        "--offloading_queue_limit=7",
        "--offload_cap_ratio=0.25",
        "--offload_drive_writes_per_day=1.5",
    ])
    .unwrap();
    let wanted = OffloadSettings {
        on_evict: true,
        force_evict: true,
        queue_limit: 7,
        cap_ratio: 0.25,
        drive_writes_per_day: 1.5,
    };
    assert_eq!(on.offload, Some(wanted));
    let waiting = load(&["--enable_offload", "--offload_force_evict=false"]).unwrap();
    assert!(waiting.offload.is_some_and(|offload| !offload.force_evict));
    let off = load(&["--offload_on_evict"]).unwrap();
    assert_eq!((off.offload, off.warnings.len()), (None, 1));
    assert!(off.warnings[0].contains("enable_offload"), "{}", off.warnings[0]);
    assert_eq!(load(&[]).unwrap().offload, None);
}
