//! The table of checks. Invariant: a check is a name, a question and a pure function; text, JSON,
//! help and tests all read this table.

use super::finding::CheckOutcome;
use super::host::HostFacts;
use super::{
    agent, clock, disk, links, memory, network, packages, pcie, peers, placement, rdma, reactor,
    segments, tcp,
};

/// One thing that is looked at.
pub(super) struct Check {
    /// What `--only` and `--skip` take.
    pub(super) name: &'static str,
    /// What it looks at.
    pub(super) about: &'static str,
    pub(super) run: fn(&HostFacts) -> CheckOutcome,
}

const fn check(
    name: &'static str,
    about: &'static str,
    run: fn(&HostFacts) -> CheckOutcome,
) -> Check {
    Check { name, about, run }
}

/// All checks, in the order of the report.
pub(super) const CHECKS: &[Check] = &[
    check("memlock", "memory that may be locked", memory::memlock),
    check("reactor", "io_uring for shards", reactor::io_uring),
    check("huge_pages", "reserved huge pages", memory::huge_pages),
    check("shmem_huge_pages", "huge pages of shared memory", memory::shmem_huge_pages),
    check("memory_limit", "room for the segment", memory::memory_limit),
    check("swap", "swapping of segments", memory::swap),
    check("open_files", "files that may be open", memory::open_files),
    check("rdma_modules", "kernel modules of RDMA cards", rdma::modules),
    check("rdma_files", "device files of RDMA cards", rdma::device_files),
    check("gid", "addresses of RoCE ports", rdma::gids),
    check("link_down", "links without a carrier", network::link_down),
    check("link_speed", "rails slower than the others", network::link_speed),
    check("rail_mtu", "frame sizes of the rails", network::rail_mtu),
    check("peer_mtu", "frame sizes of the peers' rails", peers::frame_sizes),
    check("peer_gid", "GID types of the peers' rails", peers::gid_types),
    check("link_baseline", "links to other hosts, as last checked", links::baseline),
    check("congestion_control", "congestion control of TCP", tcp::congestion_control),
    check("socket_buffers", "buffer sizes of TCP", tcp::socket_buffers),
    check("segment_reach", "data ports of the cluster's segments", segments::reachable),
    check("pcie_width", "PCIe lanes of cards", pcie::link_width),
    check("iommu", "address translation for cards", pcie::iommu),
    check("pcie_acs", "direct way between GPU and NIC", pcie::access_control),
    check("relaxed_ordering", "order of the cards' writes", pcie::relaxed_ordering),
    check("irq_affinity", "interrupts near their cards", placement::interrupts),
    check("shard_cores", "shards near the rails", placement::shard_cores),
    check("cpu_governor", "frequency of the CPUs", placement::cpu_governor),
    check("disk_usable", "folders for disks that this user can write to", disk::usable),
    check("disk_file_system", "file systems that are no local disk", disk::file_system),
    check("disk_in_use", "other clients on the same path", disk::in_use),
    check("disk_direct", "access past the page cache", disk::direct_access),
    check("disk_full", "free space", disk::full),
    check("disk_slow", "rate of reading", disk::slow),
    check("clock", "time service", clock::synchronised),
    check("clock_error", "error of the clock", clock::error),
    check("packages", "Python packages in Perigee's place", packages::compiled_modules),
    check("probes", "eBPF probes in this program", agent::probes),
    check("agent_rights", "capabilities for probes", agent::capabilities),
    check("btf", "type information for probes", agent::type_information),
    check("cgroup2", "control groups for probes", agent::control_groups),
];
