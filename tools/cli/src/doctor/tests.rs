//! Every misconfiguration is injected into a sound host and must be named, and nothing else with
//! it.

mod sample;

use super::*;
use crate::limits::{DOCTOR_CLOCK_ERROR_US_MAX, DOCTOR_DISK_RATE_MIN};
use disk::DiskFault;
use perigee_shard::ClockDiscipline;
use sample::Sample;
use serde_json::Value;
use std::collections::BTreeSet;

/// One misconfiguration: the check that must name it, what it must name, how it comes about.
struct Case {
    check: &'static str,
    named: &'static str,
    /// A check that is right to complain as well.
    also: &'static str,
    /// Breaks the tree.
    inject: Option<fn(&Sample)>,
    /// Breaks what does not stand in the tree.
    adjust: fn(&mut HostFacts),
}

fn file(check: &'static str, named: &'static str, inject: fn(&Sample)) -> Case {
    double(check, "", named, inject)
}

/// The second check is right to complain as well.
fn double(
    check: &'static str,
    also: &'static str,
    named: &'static str,
    inject: fn(&Sample),
) -> Case {
    let inject = Some(inject);
    Case { check, named, also, inject, adjust: |_| {} }
}

fn value(check: &'static str, named: &'static str, adjust: fn(&mut HostFacts)) -> Case {
    Case { check, named, also: "", inject: None, adjust }
}

fn memory_cases() -> Vec<Case> {
    vec![
        file("memlock", "RLIMIT_MEMLOCK", |sample| {
            sample.limits("65536", "65536");
            sample.capabilities("000000c000001000");
        }),
        file("memlock", "RLIMIT_MEMLOCK", |sample| {
            sample.limits("8388608", "65536");
        }),
        value("reactor", "io_uring", |host| {
            host.io_uring = Some(Err(perigee_shard::UringUnavailable::Disabled(2)));
        }),
        file("open_files", "RLIMIT_NOFILE", |sample| {
            sample.limits("unlimited", "1024");
        }),
        file("huge_pages", "vm.nr_hugepages", |sample| {
            sample.meminfo(9000, 100, 64 << 20);
        }),
        double("shmem_huge_pages", "huge_pages", "shmem_enabled", |sample| {
            sample
                .sys("kernel/mm/transparent_hugepage/shmem_enabled", "always advise [never] deny");
            sample.meminfo(0, 0, 64 << 20);
        }),
        file("memory_limit", "memory limit", |sample| {
            sample.proc("self/cgroup", "0::/pod/engine");
            sample.sys("fs/cgroup/pod/memory.max", "4294967296");
        }),
        file("memory_limit", "memory limit", |sample| {
            sample.proc("self/cgroup", "4:memory:/docker/1");
            sample.sys("fs/cgroup/memory/memory.limit_in_bytes", "1073741824");
        }),
        file("memory_limit", "free memory", |sample| {
            sample.meminfo(9000, 9000, 1 << 20);
        }),
        file("swap", "swap", |sample| {
            sample.proc("swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 8 0 -2");
        }),
    ]
}

fn network_cases() -> Vec<Case> {
    vec![
        file("rail_mtu", "ens1f0np0", |sample| {
            sample.sys("class/net/ens1f0np0/mtu", "1500");
        }),
        double("rail_mtu", "peer_mtu", "ens0f0np0", |sample| {
            (0..2).for_each(|rail| sample.sys(&format!("class/net/ens{rail}f0np0/mtu"), "1500"));
        }),
        file("link_down", "mlx5_1", |sample| {
            sample.sys("class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
        }),
        file("link_down", "eno1", |sample| {
            sample.sys("class/net/eno1/operstate", "down");
            sample.sys("class/net/eno1/flags", "0x1003");
        }),
        file("link_speed", "mlx5_0", |sample| {
            sample.sys("class/infiniband/mlx5_0/ports/1/rate", "25 Gb/sec (1X EDR)");
        }),
        file("congestion_control", "tcp_congestion_control", |sample| {
            sample.proc("sys/net/ipv4/tcp_congestion_control", "bbr");
        }),
        file("socket_buffers", "net.ipv4.tcp_rmem", |sample| {
            sample.proc("sys/net/ipv4/tcp_rmem", "4096\t87380\t262144");
        }),
        file("socket_buffers", "net.core.wmem_max", |sample| {
            sample.proc("sys/net/core/wmem_max", "65536");
        }),
        value("peer_mtu", "other.json", |host| {
            host.peers = vec![sample::peer(1500, "RoCE v2")];
        }),
        value("segment_reach", "10.0.0.9:12345", |host| {
            host.cluster = ClusterSegments::Seen(vec![segments::UnreachableSegment {
                name: "10.0.0.9:12345".to_owned(),
                endpoint: "127.0.0.1:40000".to_owned(),
                reason: "Connection refused".to_owned(),
            }]);
        }),
        value("segment_reach", "10.0.0.1:50051", |host| {
            host.cluster = ClusterSegments::Silent {
                master: "10.0.0.1:50051".to_owned(),
                reason: "Connection refused".to_owned(),
            };
        }),
        value("peer_gid", "other.json", |host| {
            host.peers = vec![sample::peer(9000, "RoCE v1")];
        }),
    ]
}

fn rdma_cases() -> Vec<Case> {
    vec![
        file("rdma_modules", "mlx5_ib", |sample| {
            sample.remove("bus/pci/devices/0000:98:00.0/infiniband/mlx5_1");
            sample.remove("class/infiniband/mlx5_1");
        }),
        file("rdma_modules", "ib_uverbs", |sample| {
            sample.remove("class/infiniband_verbs");
        }),
        file("rdma_files", "uverbs0", |sample| {
            sample.remove_device_file("infiniband/uverbs0");
        }),
        file("rdma_files", "uverbs1", |sample| {
            sample.device_mode("infiniband/uverbs1", 0o600);
            // As a user that is not the owner of the file.
            sample.user(54_321);
            sample.capabilities("000000c000005000");
        }),
        file("gid", "mlx5_1 port 1", |sample| {
            sample.remove("class/infiniband/mlx5_1/ports/1/gids");
        }),
        file("gid", "mlx5_0 port 1", |sample| {
            sample.remove("class/infiniband/mlx5_0/ports/1/gids/2");
            sample.remove("class/infiniband/mlx5_0/ports/1/gids/3");
        }),
        file("gid", "mlx5_1 port 1", |sample| {
            for index in [1, 3] {
                sample.remove(&format!("class/infiniband/mlx5_1/ports/1/gids/{index}"));
            }
        }),
    ]
}

fn hardware_cases() -> Vec<Case> {
    vec![
        file("pcie_width", "0000:20:00.0", |sample| {
            sample.sys("bus/pci/devices/0000:20:00.0/current_link_width", "8");
        }),
        file("iommu", "0000:18:00.0", |sample| {
            sample.sys("bus/pci/devices/0000:18:00.0/iommu_group/type", "DMA-FQ");
        }),
        file("pcie_acs", "0000:17:05.0", |sample| {
            sample.configuration("0000:17:05.0", true, true);
        }),
        file("relaxed_ordering", "0000:98:00.0", |sample| {
            sample.configuration("0000:98:00.0", false, false);
        }),
        file("irq_affinity", "ens1f0np0", |sample| {
            sample.proc("irq/1010/effective_affinity_list", "0-3");
        }),
        value("shard_cores", "ens1f0np0", |host| {
            host.cores = vec![0, 1, 2, 3];
        }),
        value("shard_cores", "cores", |host| host.cores = vec![0, 32, 999]),
        file("cpu_governor", "scaling_governor", |sample| {
            sample.sys("devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave");
        }),
    ]
}

fn service_cases() -> Vec<Case> {
    vec![
        value("disk_direct", "/data", |host| {
            host.disks =
                vec![sample::disk(50, Err(DiskFault::Refused("Invalid argument".to_owned())))];
        }),
        value("disk_full", "/data", |host| {
            host.disks = vec![sample::disk(2, Ok(DOCTOR_DISK_RATE_MIN))];
        }),
        value("disk_full", "/data", |host| {
            host.disks = vec![sample::disk(50, Err(DiskFault::NoSpace))];
        }),
        value("disk_slow", "/data", |host| {
            host.disks = vec![sample::disk(50, Ok(DOCTOR_DISK_RATE_MIN / 4))];
        }),
        value("clock", "clock", |host| {
            host.clock = Some(ClockDiscipline { is_synchronised: false, error_us: 16_000_000 });
        }),
        value("clock_error", "clock", |host| {
            let error_us = DOCTOR_CLOCK_ERROR_US_MAX + 1;
            host.clock = Some(ClockDiscipline { is_synchronised: true, error_us });
        }),
        file("packages", "site-packages/mooncake", |sample| {
            sample.foreign_module("store.so");
        }),
        value("probes", "perigee", |host| host.has_probes = false),
        file("agent_rights", "CAP_BPF, CAP_PERFMON", |sample| {
            sample.capabilities("0000000000005002");
        }),
        file("agent_rights", "CAP_SYS_PTRACE", |sample| {
            sample.capabilities("000000c000205002");
        }),
        file("btf", "btf", |sample| sample.remove("kernel/btf/vmlinux")),
        file("cgroup2", "cgroup2", |sample| {
            sample.proc("self/mounts", "proc /proc proc rw 0 0");
        }),
    ]
}

fn cases() -> Vec<Case> {
    let families =
        [memory_cases(), network_cases(), rdma_cases(), hardware_cases(), service_cases()];
    families.into_iter().flatten().collect()
}

fn all_checks() -> Vec<&'static Check> {
    CHECKS.iter().collect()
}

#[test]
fn table_is_sound() {
    assert_eq!(DOCTOR.check(), Vec::<String>::new());
    let names: BTreeSet<&str> = CHECKS.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), CHECKS.len());
}

#[test]
fn on_a_sound_host_every_check_looks_and_finds_nothing() {
    let sample = Sample::sound();
    let host = sample.host();
    let report = examine(&host, &all_checks());
    let text = report.text(true);
    assert_eq!(report.findings().count(), 0, "{text}");
    let count = all_checks().len();
    let summary = format!("Checks {count}, failures 0, warnings 0, not applicable here 0\n");
    assert!(text.starts_with(&summary), "{text}");
    assert_eq!(report.worst(), None);
}

#[test]
fn every_injected_misconfiguration_is_named_and_nothing_else() {
    let cases = cases();
    assert!(cases.len() >= 40);
    let sound = Sample::sound();
    let mut faults = Vec::new();
    for Case { check, named, also, inject, adjust } in cases {
        let broken = inject.map(|inject| {
            let sample = Sample::sound();
            inject(&sample);
            sample
        });
        let mut host = broken.as_ref().unwrap_or(&sound).host();
        adjust(&mut host);
        let report = examine(&host, &all_checks());
        let is_named = report
            .findings()
            .any(|(of, finding)| of.name == check && finding.subject.contains(named));
        let is_alone = report.findings().all(|(of, _)| of.name == check || of.name == also);
        let text = report.text(false);
        let has_fixes = report.findings().all(|(_, finding)| {
            !finding.fix.is_empty() && text.contains(&format!("fix: {}\n", finding.fix))
        });
        if !is_named || !is_alone || !has_fixes {
            faults.push(format!("{check} for {named}:\n{}", report.text(false)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_check_has_an_injected_misconfiguration() {
    let injected: BTreeSet<&str> = cases().iter().map(|case| case.check).collect();
    let all: BTreeSet<&str> = CHECKS.iter().map(|check| check.name).collect();
    assert_eq!(injected, all);
}

#[test]
fn many_misconfigurations_at_once_are_all_named() {
    let sample = Sample::sound();
    let rest = network_cases().into_iter().take(4).chain(hardware_cases().into_iter().take(4));
    let cases: Vec<Case> = rest.collect();
    let broken = cases.iter().filter_map(|case| case.inject);
    broken.for_each(|inject| inject(&sample));
    let report = examine(&sample.host(), &all_checks());
    for case in &cases {
        assert!(report.findings().any(|(of, _)| of.name == case.check), "{}", case.check);
    }
}

#[test]
fn an_empty_tree_is_examined_without_blame_for_what_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let tree = perigee_topology::fixture::bare_host(folder.path()).unwrap();
    let roots = tree.roots();
    let host = HostFacts {
        topology: Topology::discover(&roots),
        process: Process::read(&roots),
        roots,
        dev: folder.path().to_owned(),
        has_probes: true,
        clock: None,
        io_uring: None,
        packages: Vec::new(),
        segment_bytes: 0,
        cores: Vec::new(),
        disks: Vec::new(),
        peers: Vec::new(),
        cluster: ClusterSegments::Unknown,
    };
    let report = examine(&host, &all_checks());
    let found: Vec<&str> = report.findings().map(|(check, _)| check.name).collect();
    assert_eq!(found, ["btf"]);
}

#[test]
fn programs_get_status_findings_and_facts() {
    let sample = Sample::sound();
    sample.sys("class/net/ens1f0np0/mtu", "1500");
    let host = sample.host();
    let document: Value = examine(&host, &all_checks()).json(&host).parse().unwrap();
    assert_eq!(document["status"], "degraded");
    let checks = document["checks"].as_array().unwrap();
    let mtu = checks.iter().find(|check| check["check"] == "rail_mtu").unwrap();
    assert_eq!(mtu["findings"][0]["subject"], "ens1f0np0");
    assert_eq!(mtu["findings"][0]["fix"], "ip link set dev ens1f0np0 mtu 9000");
    assert_eq!(document["facts"]["rails"][0]["gid_type"], "RoCE v2");
}

/// Names of the fields of an object.
fn fields(value: &Value) -> Vec<&str> {
    let object = value.as_object().unwrap();
    object.keys().map(String::as_str).collect()
}

/// Programs rely on these fields: more may come, none may go without a new version.
#[test]
fn the_form_of_the_document_is_version_1() {
    let sample = Sample::sound();
    sample.sys("class/net/ens1f0np0/mtu", "1500");
    sample.remove("bus/pci/devices");
    let host = sample.host();
    let document: Value = examine(&host, &all_checks()).json(&host).parse().unwrap();
    assert_eq!(document["version"], 1);
    assert_eq!(fields(&document), ["checks", "facts", "status", "version"]);
    let checks = document["checks"].as_array().unwrap();
    let of = |status: &str| checks.iter().find(|check| check["status"] == status).unwrap();
    assert_eq!(fields(of("ok")), ["check", "findings", "status"]);
    assert_eq!(fields(of("skipped")), ["check", "findings", "reason", "status"]);
    let finding = &of("degraded")["findings"][0];
    assert_eq!(fields(finding), ["fix", "message", "severity", "subject"]);
    let rail = fields(&document["facts"]["rails"][0]);
    assert_eq!(rail, ["gid_type", "mtu", "name", "node", "speed_mbps"]);
}

#[test]
fn every_check_is_documented() {
    let text = include_str!("../../doctor.md");
    for Check { name, about, .. } in CHECKS {
        assert!(text.contains(&format!("| `{name}` | {about} |")), "{name}");
    }
}

#[test]
fn a_report_is_read_back_as_a_peers() {
    let (one, other) = (Sample::sound(), Sample::sound());
    for rail in 0..2 {
        other.sys(&format!("class/net/ens{rail}f0np0/mtu"), "4200");
    }
    let host = other.host();
    let path = other.folder().join("report.json");
    std::fs::write(&path, examine(&host, &[]).json(&host)).unwrap();
    let mut host = one.host();
    host.peers = vec![PeerHost::read(path.to_str().unwrap()).unwrap()];
    let report = examine(&host, &all_checks());
    let found: Vec<&str> = report.findings().map(|(check, _)| check.name).collect();
    assert_eq!(found, ["peer_mtu"]);
    assert!(PeerHost::read("/no/such/report").is_err());
    let other = r#"{"version": 99, "facts": {"rails": []}}"#;
    std::fs::write(&path, other).unwrap();
    let message = PeerHost::read(path.to_str().unwrap()).unwrap_err().to_string();
    assert!(message.contains("version is 99"), "{message}");
    std::fs::write(&path, "{\"status\": \"ok\"}").unwrap();
    let message = PeerHost::read(path.to_str().unwrap()).unwrap_err().to_string();
    assert!(message.contains("perigee doctor --format=json"), "{message}");
}

#[test]
fn sizes_of_memory_are_printed_in_units_for_people() {
    let sample = Sample::sound();
    sample.proc("self/cgroup", "0::/pod/engine");
    sample.sys("fs/cgroup/pod/memory.max", "4294967296");
    let mut host = sample.host();
    host.segment_bytes = 10 << 40;
    let text = examine(&host, &all_checks()).text(false);
    let expected = "the container may use 4.0 GiB and the segment needs 10.0 TiB";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn checks_are_chosen_by_name() {
    let choose = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match DOCTOR.load(&words, &ProcessEnvironment::of(&[])).unwrap() {
            ProgramStart::Run(settings) => {
                super::chosen(&settings).map_err(|error| error.to_string())
            }
            ProgramStart::Print(text) => panic!("{text}"),
        }
    };
    let names = |words: &[&str]| -> Vec<&str> {
        choose(words).unwrap().iter().map(|check| check.name).collect()
    };
    assert_eq!(names(&["--only=btf,memlock"]), ["memlock", "btf"]);
    assert_eq!(names(&["--skip=btf"]).len(), CHECKS.len() - 1);
    let none = choose(&["--only=clock", "--skip=clock"]);
    assert!(none.is_err_and(|text| text.contains("no check to run")));
    assert!(choose(&["--only=memlok"]).is_err_and(|text| text.contains("did you mean `memlock`?")));
}
