//! A machine with fixed facts, for tests of formats.

use super::{Machine, Nic};

pub(crate) fn machine() -> Machine {
    let card = |name: &str, kind: &str| Nic {
        name: name.to_owned(),
        kind: kind.to_owned(),
        link_mbps: Some(100_000),
        mtu_bytes: (kind == "ethernet").then_some(9000),
        numa_node: Some(0),
        state: "up".to_owned(),
        firmware: String::new(),
    };
    Machine {
        cpu: "Example CPU 9000 @ 2.0GHz".to_owned(),
        cpus: 64,
        numa_nodes: 2,
        memory_bytes: 512 << 30,
        kernel: "6.1.0-40-amd64".to_owned(),
        governor: "performance".to_owned(),
        congestion_control: "cubic".to_owned(),
        transparent_huge_pages: "madvise".to_owned(),
        load_1m: 0.25,
        version: "0.1.0".to_owned(),
        commit: "0123456789ab".to_owned(),
        nics: vec![card("eth0", "ethernet"), card("mlx5_0", "rdma")],
    }
}
