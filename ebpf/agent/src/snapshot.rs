//! What the agent knows of a host at one moment: plain data, served as JSON and turned into
//! metrics.

mod suspect;

use crate::explain::SourceState;
use crate::histogram::Distribution;
use perigee_activity::SocketCounters;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use suspect::{PastSuspect, Suspect, SuspectCause, SuspectKind};

/// A host at one moment. Counters only grow from one snapshot to the next.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`Snapshot::SCHEMA`] of the agent that took it.
    #[serde(default)]
    pub schema: u32,
    /// Milliseconds since 1970.
    pub taken_ms: u64,
    /// Monotonic nanoseconds, for rates.
    pub monotonic_ns: u64,
    /// Name of the host.
    pub host: String,
    /// Version of the agent.
    pub version: String,
    /// Ports of the NICs that are watched.
    pub nics: Vec<NicSeries>,
    /// What our processes moved.
    pub flows: Vec<FlowSeries>,
    /// TCP connections of our processes, by NIC.
    pub tcp: Vec<TcpSeries>,
    /// Connections of our processes as their sockets tell, by NIC and peer.
    #[serde(default)]
    pub links: Vec<LinkSeries>,
    /// Who is slow: the odd ones out, if there are any.
    #[serde(default)]
    pub suspects: Vec<Suspect>,
    /// Who was slow, the newest first; also before the agent was started again.
    #[serde(default)]
    pub past_suspects: Vec<PastSuspect>,
    /// Packets that the host dropped.
    pub drops: Vec<DropSeries>,
    /// Disks.
    pub blocks: Vec<BlockSeries>,
    /// Disks of our processes that keep objects.
    #[serde(default)]
    pub disks: Vec<DiskSeries>,
    /// io_uring requests of our programs.
    pub urings: Vec<UringSeries>,
    /// Threads of our programs.
    pub tasks: Vec<TaskSeries>,
    /// Batches by NIC, peer and tenant.
    pub batches: Vec<BatchSeries>,
    /// Batches that took long, the newest first.
    pub slow: Vec<SlowBatchEntry>,
    /// Our processes.
    pub processes: Vec<ProcessSeries>,
    /// What our programs count as a whole.
    #[serde(default)]
    pub programs: Vec<ProgramSeries>,
    /// The probes and what they cost.
    pub probes: Vec<ProbeSeries>,
    /// Events that a probe could not count, by reason.
    pub lost: BTreeMap<String, u64>,
    /// What became of spans for a collector: `sent`, `refused` by it, `dropped` while it was away.
    /// Empty where nothing is exported.
    #[serde(default)]
    pub exported_spans: BTreeMap<String, u64>,
    /// What can be seen on this host and what cannot, and why.
    pub sources: Vec<SourceState>,
    /// How long it took to make this snapshot, in nanoseconds.
    pub collect_ns: u64,
}

impl Snapshot {
    /// Version of the form, which `ebpf/agent/snapshot.schema.json` describes. Grows when a member
    /// changes its meaning or goes; new members do not change it.
    pub const SCHEMA: u32 = 1;
}

/// A NIC's port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NicSeries {
    /// Name of the interface, RDMA device or disk in the kernel.
    pub device: String,
    /// Port of an RDMA device; 1 for an interface.
    pub port: u8,
    /// NUMA node, if known.
    pub numa: Option<u32>,
    /// `ethernet`, `roce`, `ib`; `virtual`, `loopback`; and `bond`, `ipoib`, `soft_roce`, whose
    /// bytes others count too.
    pub kind: String,
    /// Whether it carries data.
    pub up: bool,
    /// Whether the administrator wants it to.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Bytes per second that the link can carry, if known.
    pub link_bytes_per_second: Option<u64>,
    /// Bytes received, as the kernel or the port counts.
    pub receive_bytes: u64,
    /// Bytes sent.
    pub transmit_bytes: u64,
    /// Packets received, as the kernel or the port counts.
    pub receive_packets: u64,
    /// Packets sent.
    pub transmit_packets: u64,
    /// Errors of both directions.
    pub errors: u64,
    /// Packets the NIC or its driver dropped.
    pub drops: u64,
    /// Hardware counters of an RDMA port.
    pub hardware: BTreeMap<String, u64>,
    /// What the probes saw, if they watch it: bytes and packets received, bytes and packets sent.
    pub probed: Option<[u64; 4]>,
    /// Packets dropped on it, as the probes saw.
    pub probed_drops: Option<u64>,
}

fn yes() -> bool {
    true
}

/// What our processes moved over one device and route in one direction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlowSeries {
    /// NIC or disk; empty for memory.
    pub device: String,
    /// How the bytes travelled, as the label `route` says.
    pub route: String,
    /// `read` or `write`.
    pub direction: String,
    /// File name of the program, as its activity page says.
    pub program: String,
    /// Number of the shard, or `caller`.
    pub shard: String,
    /// Finished operations.
    pub operations: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Failed operations.
    pub errors: u64,
    /// Repeated operations.
    pub retries: u64,
    /// Operations under way.
    pub depth: u64,
    /// Nanoseconds in queues.
    pub queue_ns: u64,
    /// Time on the wire or disk, the peer's part included.
    pub latency: Distribution,
    /// Nanoseconds of that in which peers were ready but had no core, as they say.
    #[serde(default)]
    pub waited_ns: u64,
    /// Nanoseconds in which peers judged, summed and staged bytes.
    #[serde(default)]
    pub copied_ns: u64,
    /// Nanoseconds in which peers read from disks.
    #[serde(default)]
    pub disk_ns: u64,
}

impl FlowSeries {
    /// Adds what another flow moved. Numbers of a page may be anything: at their end they stay
    /// there.
    pub(crate) fn add(&mut self, flow: &Self) {
        for (cell, more) in [
            (&mut self.operations, flow.operations),
            (&mut self.bytes, flow.bytes),
            (&mut self.errors, flow.errors),
            (&mut self.retries, flow.retries),
            (&mut self.depth, flow.depth),
            (&mut self.queue_ns, flow.queue_ns),
            (&mut self.waited_ns, flow.waited_ns),
            (&mut self.copied_ns, flow.copied_ns),
            (&mut self.disk_ns, flow.disk_ns),
        ] {
            *cell = cell.saturating_add(more);
        }
        self.latency.merge(&flow.latency);
    }

    /// Nanoseconds on the wire: what the peers' parts leave.
    pub fn wire_ns(&self) -> u64 {
        let peers = [self.waited_ns, self.copied_ns, self.disk_ns];
        peers.into_iter().fold(self.latency.sum_ns, u64::saturating_sub)
    }
}

/// TCP connections behind a NIC.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TcpSeries {
    /// NIC.
    pub device: String,
    /// Round trip times.
    pub round_trip: Distribution,
    /// The shortest one since the last reading; `None` if there was none.
    #[serde(default)]
    pub shortest_ns: Option<u64>,
    /// Segments sent again, all connections of the host.
    pub retransmits: u64,
    /// Resets sent and received, all connections of the host.
    pub resets: [u64; 2],
}

/// Connections of our processes between a NIC and a peer, as `TCP_INFO` tells; needs no privilege.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkSeries {
    /// NIC.
    pub device: String,
    /// Peer, without a port.
    pub peer: String,
    /// Connections that moved something lately.
    pub connections: u64,
    /// The best smoothed round trip time of them; `None` if none moved anything lately.
    pub round_trip_ns: Option<u64>,
    /// The same of those on which we ask; those on which we only answer also show the pauses of the
    /// peer.
    #[serde(default)]
    pub asked_round_trip_ns: Option<u64>,
    /// Turns for which an exchange there has been waiting for an answer while nothing moved; 0
    /// where all are answered.
    #[serde(default)]
    pub silent_turns: u64,
    /// The shortest round trip of the last minutes.
    pub round_trip_min_ns: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Segments that may be under way, all connections together.
    pub congestion_window: u64,
    /// What the connections delivered when they last had something to send, together.
    pub delivery_bytes_per_second: u64,
    /// Exchanges with the peer.
    pub operations: u64,
    /// Nanoseconds that they took, the peer's part included.
    pub wire_ns: u64,
    /// The part that round trips, windows and arriving payload do not explain.
    pub peer_ns: u64,
    /// Payload bytes of them.
    #[serde(default)]
    pub bytes: u64,
    /// Nanoseconds in which the peer was ready but had no core, as it says.
    #[serde(default)]
    pub waited_ns: u64,
    /// Nanoseconds in which it judged, summed and staged bytes.
    #[serde(default)]
    pub copied_ns: u64,
    /// Nanoseconds in which it read from disks.
    #[serde(default)]
    pub disk_ns: u64,
    /// Payload bytes that came behind answers.
    #[serde(default)]
    pub arrived_bytes: u64,
    /// Nanoseconds that they took, from their answers on.
    #[serde(default)]
    pub arrived_ns: u64,
    /// What the kernel counted of the connections.
    #[serde(default)]
    pub socket: SocketCounters,
}

impl LinkSeries {
    /// Whether it stays on its host, also in another network namespace.
    pub(crate) fn is_loopback(&self) -> bool {
        self.device.rsplit(':').next() == Some("lo")
    }
}

/// What the processes of a program count as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSeries {
    /// Name of the program.
    pub program: String,
    /// Calls of it that ended.
    pub calls: u64,
    /// Objects whose bytes did not match their checksum.
    pub wrong_bytes: u64,
    /// Transfers that failed because nothing answers at the endpoint of the segment's owner.
    pub unreachable_owners: u64,
}

/// Packets dropped for one reason.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DropSeries {
    /// The kernel's word for it.
    pub reason: String,
    /// Packets dropped for it.
    pub packets: u64,
}

/// A disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BlockSeries {
    /// Disk.
    pub device: String,
    /// `read`, `write` or `other`.
    pub direction: String,
    /// Bytes of finished requests.
    pub bytes: u64,
    /// Requests under way.
    pub depth: u64,
    /// Time before the device got them.
    pub queue: Distribution,
    /// From the start of a request in the device to its end.
    pub device_time: Distribution,
}

/// A disk on which a process of ours keeps objects that its memory has no room for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DiskSeries {
    /// Process.
    pub pid: u32,
    /// File name of the program, as its activity page says.
    pub program: String,
    /// The folder that its user has named.
    pub path: String,
    /// `healthy`, `slow`, `hung`, `full`, `read_only`, `failed`, `withdrawn`.
    pub state: String,
    /// Why it is not healthy; empty if it is.
    pub reason: String,
    /// When it is tried again, in milliseconds since 1970; 0 if it is not.
    pub retry_ms: u64,
    /// Most bytes of its log.
    pub capacity_bytes: u64,
    /// Bytes of its log that can be read.
    pub used_bytes: u64,
    /// Bytes that were read since it was opened.
    pub read_bytes: u64,
    /// Bytes that were written since then.
    pub written_bytes: u64,
    /// Operations that failed since then.
    pub errors: u64,
    /// How long reads of its files took.
    pub reads: Distribution,
    /// How long writes and syncs took.
    pub writes: Distribution,
}

/// io_uring requests of a program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UringSeries {
    /// File name of the program, as its activity page says.
    pub program: String,
    /// From submission to completion; a sample.
    pub latency: Distribution,
}

/// Threads of one name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TaskSeries {
    /// File name of the program, as its activity page says.
    pub program: String,
    /// Name of the threads.
    pub thread: String,
    /// Threads that bear the name now.
    pub threads: u64,
    /// Ready but without a core.
    pub run_queue: Distribution,
    /// Asleep.
    pub off_cpu: Distribution,
}

/// Batches of one NIC, peer and tenant.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BatchSeries {
    /// NIC.
    pub device: String,
    /// Host of the peer, without a port.
    pub peer: String,
    /// Tenant whose objects were moved.
    pub tenant: String,
    /// How the bytes travelled, as the label `route` says.
    pub route: String,
    /// `read` or `write`.
    pub direction: String,
    /// Requests in these batches.
    pub operations: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Queue, wire and disk together.
    pub latency: Distribution,
    /// Nanoseconds in queues.
    pub queue_ns: u64,
    /// Nanoseconds on the wire.
    pub wire_ns: u64,
}

impl BatchSeries {
    /// What a peer is called in a series: a port number changes with every connection, a host does
    /// not.
    pub(crate) fn peer_of(peer: &str) -> &str {
        let is_bare = peer.parse::<std::net::IpAddr>().is_ok();
        peer.rsplit_once(':').filter(|_| !is_bare).map_or(peer, |(host, _)| host)
    }
}

/// One batch that took long, stage by stage.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SlowBatchEntry {
    /// Milliseconds since 1970 when it ended.
    pub ended_ms: u64,
    /// Process.
    pub pid: u32,
    /// File name of the program, as its activity page says.
    pub program: String,
    /// NIC.
    pub device: String,
    /// Host of the peer, without a port.
    pub peer: String,
    /// Tenant whose objects were moved.
    pub tenant: String,
    /// How the bytes travelled, as the label `route` says.
    pub route: String,
    /// `read` or `write`.
    pub direction: String,
    /// Requests in these batches.
    pub operations: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Status code; 0 when all went well.
    pub status: i32,
    /// Nanoseconds in the queue of this process.
    pub queue_ns: u64,
    /// On the wire without the peer's part.
    pub wire_ns: u64,
    /// On a disk of this host.
    pub disk_ns: u64,
    /// At the peer.
    pub peer_ns: u64,
}

/// A process of ours.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProcessSeries {
    /// Number, as this agent's namespace counts.
    pub pid: u32,
    /// File name of the program, as its activity page says.
    pub program: String,
}

/// A probe.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProbeSeries {
    /// Feature it belongs to.
    pub probe: String,
    /// Program in the kernel.
    pub program: String,
    /// Runs while costs were measured.
    pub runs: u64,
    /// Run time while costs were measured, in nanoseconds.
    pub run_ns: u64,
}

#[cfg(test)]
mod tests;
