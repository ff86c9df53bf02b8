//! Facts from made-up folders.

use super::*;

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn host() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| put(root.path(), file, text);
    write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\n");
    write("proc/meminfo", "MemTotal:       2097152 kB\n");
    write("proc/sys/kernel/osrelease", "6.1.0\n");
    write("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n");
    write("proc/loadavg", "1.75 0.97 1.04 2/300 1234\n");
    write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    write("sys/devices/system/node/node0/cpulist", "0\n");
    write("sys/devices/system/node/node1/cpulist", "1\n");
    write("sys/class/net/eth0/device/numa_node", "1\n");
    for (at, name) in ["lo", "eth0", "docker0"].into_iter().enumerate() {
        write(&format!("sys/class/net/{name}/ifindex"), &format!("{}\n", at + 1));
    }
    write("sys/class/net/eth0/type", "1\n");
    write("sys/class/net/docker0/type", "1\n");
    write("sys/class/net/eth0/speed", "25000\n");
    write("sys/class/net/eth0/mtu", "9000\n");
    write("sys/class/net/eth0/operstate", "up\n");
    write("sys/class/net/lo/mtu", "65536\n");
    write("sys/class/net/lo/type", "772\n");
    write("sys/class/net/docker0/mtu", "1500\n");
    write("sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    write("sys/class/infiniband/mlx5_0/fw_ver", "28.39.1002\n");
    write("sys/class/infiniband/mlx5_0/device/numa_node", "-1\n");
    root
}

#[test]
fn facts_are_read_from_the_folders_of_the_system() {
    let root = host();
    let machine = Machine::read(root.path());
    assert_eq!(machine.cpu, "Some CPU");
    assert_eq!((machine.numa_nodes, machine.memory_bytes), (2, 2 << 30));
    assert_eq!(machine.governor, "powersave");
    assert_eq!(machine.congestion_control, "bbr");
    assert_eq!(machine.transparent_huge_pages, "madvise");
    assert_eq!(machine.load_1m, 1.75);
}

#[test]
fn cards_are_those_with_a_device_behind_them() {
    let root = host();
    let nics = Machine::read(root.path()).nics;
    let kinds: Vec<(&str, &str)> =
        nics.iter().map(|nic| (nic.name.as_str(), nic.kind.as_str())).collect();
    assert_eq!(kinds, [("eth0", "ethernet"), ("lo", "loopback"), ("mlx5_0", "rdma")]);
    assert_eq!((nics[0].link_mbps, nics[0].numa_node), (Some(25_000), Some(1)));
    assert_eq!((nics[2].link_mbps, nics[2].numa_node), (Some(200_000), None));
    assert_eq!((nics[2].state.as_str(), nics[2].firmware.as_str()), ("4: ACTIVE", "28.39.1002"));
}

#[test]
fn a_machine_that_tells_nothing_is_still_a_machine() {
    let root = tempfile::tempdir().unwrap();
    let machine = Machine::read(root.path());
    assert_eq!((machine.numa_nodes, machine.memory_bytes), (1, 0));
    assert!(machine.nics.is_empty() && machine.cpu.is_empty());
    assert!(machine.text().contains("governor -"), "{}", machine.text());
}

#[test]
fn only_facts_that_differ_are_named() {
    let one = samples::machine();
    let mut two = one.clone();
    (two.load_1m, two.governor) = (9.0, "powersave".to_owned());
    let names: Vec<&str> = one.differences(&two).iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, ["governor"]);
}
