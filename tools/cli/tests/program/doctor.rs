//! The doctor as a program. Invariant: its exit code says how the host is: 0 sound, 1 failed,
//! 2 wrong usage, 3 degraded.

use crate::process::{output_of, output_with};
use perigee_topology::fixture::{self, Tree};
use serde_json::Value;
use std::process::{Command, Output};

fn examine(tree: &Tree, arguments: &[&str]) -> Output {
    let folders = [
        format!("--sysfs={}", tree.sys_path().display()),
        format!("--procfs={}", tree.proc_path().display()),
        format!("--devfs={}", tree.sys_path().display()),
    ];
    let mut words = vec!["doctor"];
    words.extend(folders.iter().map(String::as_str));
    words.extend(arguments);
    output_of("perigee", &words)
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn exit_codes_tell_sound_failed_and_degraded_apart() {
    let folder = tempfile::tempdir().unwrap();
    let tree = fixture::two_socket_host(folder.path()).unwrap();
    let rails = ["--only=rail_mtu,link_down,link_speed,gid,rdma_modules"];
    let sound = examine(&tree, &rails);
    assert_eq!(sound.status.code(), Some(0), "{}", text(&sound));
    tree.sys("class/net/ens1f0np0/mtu", "1500").unwrap();
    let degraded = examine(&tree, &rails);
    assert_eq!(degraded.status.code(), Some(3));
    let shown = text(&degraded);
    assert!(shown.contains("rail_mtu: ens1f0np0: MTU 1500"), "{shown}");
    assert!(shown.contains("fix: ip link set dev ens1f0np0 mtu 9000"), "{shown}");
    assert!(degraded.stderr.is_empty());
    tree.remove("class/infiniband_verbs").unwrap();
    let failed = examine(&tree, &["--only=rail_mtu,rdma_modules", "--format=json"]);
    assert_eq!(failed.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(document["status"], "failed");
    assert_eq!(document["checks"][0]["findings"][0]["subject"], "ib_uverbs");
}

#[test]
fn variables_of_mooncake_are_listed_with_what_they_do() {
    let all = output_of("perigee", &["doctor", "--mooncake-env=all"]);
    assert_eq!(all.status.code(), Some(0));
    assert!(text(&all).lines().count() > 300);
    let asked = ["doctor", "--mooncake-env", "--format=json"];
    let set = output_with("perigee", &asked, &[("MC_MAX_WR", "512"), ("MC_NVME_DATA_DIGEST", "1")]);
    assert_eq!(set.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&set.stdout).unwrap();
    let row = |name: &str| {
        let rows = document["variables"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap().clone()
    };
    assert_eq!(row("MC_MAX_WR")["effect"], "not needed");
    assert_eq!(row("MC_NVME_DATA_DIGEST")["effect"], "not built");
}

#[test]
fn wrong_usage_is_distinguished_from_a_sick_host() {
    for arguments in [
        ["doctor", "--only=nothing"],
        ["doctor", "--cores=many"],
        ["doctor", "--sysfs=/no/such/folder"],
        ["doctor", "--peers=/no/such/report"],
    ] {
        let output = output_of("perigee", &arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(text(&output), "");
    }
}

#[test]
fn this_machine_is_examined_as_it_is() {
    let output = output_of("perigee", &["doctor", "--format=json"]);
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["checks"].as_array().unwrap().len() >= 22);
}

#[test]
fn a_real_limit_is_named() {
    let program = env!("CARGO_BIN_EXE_perigee");
    let script = format!("ulimit -n 64; exec {program} doctor --only=open_files");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(text(&output).contains("open_files: RLIMIT_NOFILE: 64 files"));
}

#[test]
fn a_real_folder_that_cannot_hold_files_is_named() {
    let arguments = ["doctor", "--disk=/proc", "--only=disk_direct,disk_full,disk_slow"];
    let output = output_of("perigee", &arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output).contains("disk_direct: /proc:"), "{}", text(&output));
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let arguments = ["doctor", "--ssd_offload_path=/no/such/folder", "--only=disk_usable"];
    let output = output_of("perigee", &arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output).contains("/no/such/folder: there is no such"), "{}", text(&output));
}

/// A small file system in a namespace of its own, filled to the end. Needs root.
#[test]
fn a_real_full_disk_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_perigee");
    let at = folder.path().display();
    let script = format!(
        "mount -t tmpfs -o size=1m none {at} || exit 77; head -c 1040000 /dev/zero > {at}/file; \
         exec {program} doctor --disk={at} --only=disk_full"
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output();
    match output.map(|output| (output.status.code(), text(&output))) {
        Ok((Some(1), text)) if text.starts_with("Checks 1,") => {
            assert!(text.contains("disk_full") && text.contains("0 % are free"), "{text}");
        }
        other => {
            let is_root = nix::unistd::geteuid().is_root();
            assert!(!is_root, "as root this must work: {other:?}");
            println!("SKIP: a file system cannot be mounted here: {other:?}");
        }
    }
}

/// Settings of a network namespace of its own, which the kernel keeps apart from the host's. Needs
/// root.
#[test]
fn real_network_settings_are_named_with_commands_that_put_them_right() {
    let program = env!("CARGO_BIN_EXE_perigee");
    let script = format!(
        "cd /proc/sys/net/ipv4; echo 4096 87380 262144 > tcp_rmem || exit 77; \
         {program} doctor --only=socket_buffers --format=json; \
         echo 4096 131072 33554432 > tcp_rmem; {program} doctor --only=socket_buffers >&2"
    );
    let output = Command::new("unshare").args(["-n", "sh", "-c", &script]).output();
    let output = match output {
        Ok(output) if output.status.code() != Some(77) && !output.stdout.is_empty() => output,
        other => {
            let is_root = nix::unistd::geteuid().is_root();
            assert!(!is_root, "as root this must work: {other:?}");
            println!("SKIP: no network namespace can be made here: {other:?}");
            return;
        }
    };
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = document["checks"][0]["findings"].as_array().unwrap();
    let named = |finding: &&Value| finding["subject"] == "net.ipv4.tcp_rmem";
    let finding = findings.iter().find(named).unwrap();
    assert_eq!(finding["fix"], "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 33554432\"");
    let after = String::from_utf8_lossy(&output.stderr);
    assert!(!after.contains("tcp_rmem"), "{after}");
}
