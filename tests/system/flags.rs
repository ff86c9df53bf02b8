//! Wrong flags and configuration: a refused start that says what to do, never a guess.
//! Invariant: exit code 2 means wrong usage, and the message names the setting.

use std::io::Write;

use perigee_tests::cluster::{MASTER, METADATA, Master, NODE, node_flags};
use perigee_tests::network::free_ports;
use perigee_tests::program::Program;

const USAGE_EXIT_CODE: i32 = 2;

#[track_caller]
fn refused(personality: &str, flags: &[&str], words: &[&str]) {
    let ended = Program::run(personality, flags);
    assert_eq!(ended.code, Some(USAGE_EXIT_CODE), "{flags:?}: {}", ended.output);
    for word in words {
        assert!(ended.output.contains(word), "{flags:?} without {word:?}: {}", ended.output);
    }
    assert!(!ended.output.contains("panicked"), "{}", ended.output);
}

#[track_caller]
fn refused_file(name: &str, text: &str, words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    refused(MASTER, &[&format!("--config_path={}", path.display())], words);
}

#[test]
fn an_unknown_flag_is_refused_with_the_nearest_name() {
    refused(MASTER, &["--rpc_prt=1"], &["rpc_prt", "rpc_port"]);
    refused(NODE, &["--global_segment_sise=1"], &["global_segment_sise", "global_segment_size"]);
    refused(METADATA, &["--prot=1"], &["prot", "port"]);
}

#[test]
fn values_of_the_wrong_kind_or_range_are_refused_by_name() {
    for (flag, name) in [
        ("--rpc_port=abc", "rpc_port"),
        ("--rpc_port=70000", "rpc_port"),
        ("--metrics_port=-2", "metrics_port"),
        ("--eviction_ratio=1.5", "eviction_ratio"),
        ("--eviction_high_watermark_ratio=-0.1", "eviction_high_watermark_ratio"),
        ("--default_kv_lease_ttl=soon", "default_kv_lease_ttl"),
        ("--enable_http_metadata_server=perhaps", "enable_http_metadata_server"),
        ("--client_ttl=x", "client_ttl"),
        ("--allocation_strategy=best", "allocation_strategy"),
        ("--memory_allocator=malloc", "memory_allocator"),
    ] {
        refused(MASTER, &[flag], &[name]);
    }
}

#[test]
fn a_flag_without_its_value_and_a_stray_word_are_refused() {
    refused(MASTER, &["--rpc_port"], &["rpc_port"]);
    refused(MASTER, &["serve"], &["serve"]);
}

#[test]
fn a_node_refuses_sizes_and_addresses_it_cannot_read() {
    refused(NODE, &["--global_segment_size=50%"], &["global_segment_size"]);
    refused(NODE, &["--global_segment_size=-1"], &["global_segment_size"]);
    refused(NODE, &["--global_segment_size=99999999999999999999"], &["global_segment_size"]);
    refused(NODE, &["--master_server_address=nowhere"], &["master_server_address"]);
    refused(NODE, &["--port=99999"], &["port"]);
    for locator in ["etcd://h:2379", "redis://h:6379", "k8s://space/lease"] {
        let flag = format!("--master_server_address={locator}");
        refused(NODE, &[&flag], &["master_server_address", "several masters"]);
    }
}

#[test]
fn a_key_for_disks_is_refused_by_a_node_that_has_none() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, [7; 32]).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o400)).unwrap();
    let master = Master::start(&["--enable_offload"]);
    let [port] = free_ports();
    let mut flags = node_flags(&master, port, "16MB");
    flags.push(format!("--ssd_key_file={}", key.display()));
    let words: Vec<&str> = flags.iter().map(String::as_str).collect();
    refused(NODE, &words, &["ssd_key_file", "no disk", "enable_offload"]);
}

#[test]
fn what_variables_of_disks_say_without_effect_is_in_the_log_of_the_node() {
    let master = Master::start(&[]);
    let [port] = free_ports();
    let flags = node_flags(&master, port, "16MB");
    let variables = [("MOONCAKE_OFFLOAD_BUCKET_EVICTION_POLICY", "none")];
    let mut node = Program::start_with(NODE, &flags, &variables);
    master.wait_for_segments(1);
    let lines = |log: &str| {
        log.lines().filter(|line| line.contains("WARN") && line.contains(variables[0].0)).count()
    };
    assert_eq!(lines(&node.log()), 1, "{}", node.log());
    node.stop();
}

#[test]
fn a_strict_node_refuses_to_lend_more_memory_than_the_machine_has() {
    let master = Master::start(&[]);
    let [port] = free_ports();
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = meminfo.split_whitespace().nth(1).unwrap();
    let bytes = 2 * 1024 * total.parse::<u64>().unwrap();
    let flags = node_flags(&master, port, &bytes.to_string());
    let mut program = Program::start_with(NODE, &flags, &[("PERIGEE_STRICT_SEGMENT", "1")]);
    let status = program.wait(perigee_tests::limits::EXIT_DEADLINE).unwrap();
    assert!(status.code().is_some_and(|code| code != 0), "{status}: {}", program.log());
    for word in ["global_segment_size", "available"] {
        assert!(program.log().contains(word), "{word}: {}", program.log());
    }
}

#[test]
fn a_congestion_control_that_the_kernel_does_not_have_ends_the_start_of_a_node() {
    let mut program = Program::start_with::<&str>(NODE, &[], &[("PERIGEE_TCP_CONGESTION", "nope")]);
    let status = program.wait(perigee_tests::limits::EXIT_DEADLINE).unwrap();
    assert!(status.code().is_some_and(|code| code != 0), "{status}: {}", program.log());
    for word in ["PERIGEE_TCP_CONGESTION", "nope", "tcp_allowed_congestion_control"] {
        assert!(program.log().contains(word), "{word}: {}", program.log());
    }
}

#[test]
fn a_configuration_file_is_refused_with_the_place_of_the_error() {
    refused(MASTER, &["--config_path=/nonexistent.json"], &["/nonexistent.json"]);
    refused_file("a.json", "{\"rpc_port\": ", &["a.json"]);
    refused_file("b.json", "{\"rpc_prt\": 1}", &["rpc_prt", "rpc_port"]);
    refused_file("c.yaml", "rpc_port: many\n", &["rpc_port", "many"]);
}

#[test]
fn a_value_from_the_environment_is_refused_by_the_variable() {
    let variables = [("PERIGEE_MASTER_RPC_PORT", "many")];
    let mut program = Program::start_with::<&str>(MASTER, &[], &variables);
    let status = program.wait(perigee_tests::limits::EXIT_DEADLINE).unwrap();
    assert_eq!(status.code(), Some(USAGE_EXIT_CODE), "{}", program.log());
    assert!(program.log().contains("PERIGEE_MASTER_RPC_PORT"), "{}", program.log());
}

#[test]
fn both_spellings_and_both_forms_of_a_flag_are_accepted() {
    let master = Master::start(&[
        "--default-kv-lease-ttl",
        "3000",
        "-noenable_metric_reporting",
        "--eviction_ratio=0.05",
    ]);
    assert!(master.is_serving());
}

#[test]
fn guarantees_that_are_not_built_yet_need_a_word_and_give_a_warning() {
    let refused = Program::run(MASTER, &["--enable_snapshot=true"]);
    assert_eq!(refused.code, Some(2), "{}", refused.output);
    assert!(refused.output.contains("--allow_unbuilt"), "{}", refused.output);
    let master = Master::start(&["--enable_snapshot=true", "--allow_unbuilt"]);
    assert!(master.program.log().contains("enable_snapshot"), "{}", master.program.log());
}

#[test]
fn help_and_version_end_with_0_and_start_nothing() {
    for personality in [MASTER, NODE, METADATA] {
        for (flag, word) in [("--help", "--name=value"), ("--version", "version")] {
            let ended = Program::run(personality, &[flag]);
            assert_eq!(ended.code, Some(0), "{personality} {flag}: {}", ended.output);
            assert!(ended.output.contains(word), "{personality} {flag}: {}", ended.output);
        }
    }
}

#[test]
fn a_node_without_a_master_says_so_and_names_the_address() {
    let master = Master::start(&[]);
    let [port, closed] = free_ports();
    let mut flags = node_flags(&master, port, "16mb");
    flags.push(format!("--master_server_address=127.0.0.1:{closed}"));
    let mut node = Program::start(NODE, &flags);
    let address = format!("127.0.0.1:{closed}");
    perigee_tests::deadline::wait_until(
        "the missing master is named",
        perigee_tests::limits::MEMBERSHIP_DEADLINE,
        || node.log().contains(&address),
    );
    if let Some(status) = node.wait(std::time::Duration::ZERO) {
        assert_ne!(status.code(), Some(0), "{}", node.log());
    }
}
