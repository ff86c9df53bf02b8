//! From counters of two turns to signs: how each NIC, peer, shard and disk did in between.

mod asked;
mod counters;
mod shares;

use super::distances::PeerDistances;
use crate::histogram::Distribution;
use crate::host::Wait;
use crate::slow::link_state::LinkState;
use crate::slow::sample::Sample;
use crate::slow::silence::LinkSilence;
use crate::slow::{RDMA_GROUP, SHORTEST_GROUP, Signs};
use crate::snapshot::{LinkSeries, Snapshot, SuspectCause, SuspectKind};
use asked::{Asked, asked, peers, ways, wires};
use counters::{TurnCounters, VALUES_MIN};
use shares::shares;
use std::collections::{BTreeMap, BTreeSet};

/// A disk is not slow because its requests are large: each byte may take this long (50 MB/s).
const DISK_NS_PER_BYTE: u64 = 20;
/// The share of values below the one that stands for a turn: what also the lucky ones take is no
/// accident.
const QUANTILE: f64 = 0.25;

/// A thread that neither ran nor wanted to for this share of a turn, in percent, is idle and no
/// measure for others.
const BUSY_PERCENT: u64 = 1;

/// What is remembered from one turn to the next.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    counters: TurnCounters,
    /// Peers of all connections, which the probe sees, and of those on which we ask.
    reach: PeerDistances,
    asked_reach: PeerDistances,
    /// Groups and NICs whose baseline starts over with their next sample, which may come turns
    /// later.
    starts_over: BTreeSet<(String, String)>,
    last_ns: Option<u64>,
    /// How long the thread that waited most for a core did so, over all turns.
    our_waits_ns: u64,
}

impl Samples {
    /// The signs of the turn that ends with this snapshot; none after the first one.
    pub(crate) fn take(&mut self, snapshot: &Snapshot, waits: &[Wait]) -> Signs {
        self.counters.begin();
        let before = self.last_ns.replace(snapshot.monotonic_ns);
        let elapsed_ns = before.map_or(0, |before| snapshot.monotonic_ns.saturating_sub(before));
        let shards = self.shards(waits, elapsed_ns);
        let waited_ns = shards.iter().map(|shard| shard.value_ns).max().unwrap_or(0);
        self.our_waits_ns = self.our_waits_ns.saturating_add(of_turn(waited_ns, elapsed_ns));
        let asked = asked(snapshot, &mut self.counters, self.our_waits_ns);
        self.reach.see(snapshot.links.iter());
        let asks = |link: &&LinkSeries| link.asked_round_trip_ns.is_some();
        self.asked_reach.see(snapshot.links.iter().filter(asks));
        let mut samples = self.nics(snapshot, &asked);
        samples.extend(self.rails(snapshot));
        samples.extend(peers(&asked, snapshot));
        samples.extend(wires(&asked, snapshot));
        let outward = snapshot.links.iter().filter(|link| !link.is_loopback());
        let silences = outward.map(LinkSilence::of).collect();
        samples.extend(shards);
        samples.extend(self.disks(snapshot, elapsed_ns));
        let shares = shares(snapshot, &mut self.counters);
        if elapsed_ns == 0 {
            Signs::default()
        } else {
            let links = LinkState::of(&snapshot.nics, &snapshot.links);
            let ways = ways(snapshot);
            Signs { samples, shares, links, silences, ways, ..Signs::default() }
        }
    }

    /// Round trips of TCP connections: from the probe, else from the sockets themselves. What the
    /// luckiest takes tells small delays apart; what a quarter takes also tells those that hit only
    /// some packets.
    fn nics(&mut self, snapshot: &Snapshot, asked: &[Asked<'_>]) -> Vec<Sample> {
        let mut samples = Vec::new();
        let nics = &snapshot.nics;
        self.starts_over.retain(|(_, device)| nics.iter().any(|nic| nic.device == *device));
        for nic in nics.iter().filter(|nic| nic.kind != "loopback") {
            let probed = snapshot.tcp.iter().find(|tcp| tcp.device == nic.device);
            let quarter = probed.and_then(|tcp| {
                let more = self.counters.more(format!("nic/{}", nic.device), &tcp.round_trip);
                typical(&more)
            });
            let of_shortest = format!("{SHORTEST_GROUP}{}", nic.kind);
            let of_sockets = format!("sockets/{}", nic.kind);
            for (reach, group) in [
                (&self.reach, &nic.kind),
                (&self.reach, &of_shortest),
                (&self.asked_reach, &of_sockets),
            ] {
                if reach.has_grown(&nic.device) {
                    self.starts_over.insert((group.clone(), nic.device.clone()));
                }
            }
            let starts_over = &mut self.starts_over;
            let mut sample = |group: &str, value_ns, what| {
                let who = (group.to_owned(), nic.device.clone());
                Sample {
                    kind: SuspectKind::Nic,
                    starts_over: starts_over.remove(&who),
                    group: who.0,
                    name: who.1,
                    value_ns,
                    what,
                    cause: SuspectCause::Wire,
                }
            };
            if let Some(value_ns) = quarter {
                samples.push(sample(&nic.kind, value_ns, "a quarter of its round trips below"));
                let shortest = probed.and_then(|tcp| tcp.shortest_ns);
                samples.extend(
                    shortest.map(|value| sample(&of_shortest, value, "round trips of at least")),
                );
                continue;
            }
            let links = asked.iter().map(|asked| asked.link);
            let links = links.filter(|link| link.device == nic.device);
            let shortest = links.filter_map(|link| link.asked_round_trip_ns).min();
            samples.extend(shortest.map(|value| sample(&of_sockets, value, "round trips of")));
        }
        samples
    }

    /// RDMA ports: operations as our processes counted them.
    fn rails(&mut self, snapshot: &Snapshot) -> Vec<Sample> {
        let mut devices: BTreeMap<&str, Distribution> = BTreeMap::new();
        let flows = snapshot.flows.iter().filter(|flow| flow.route == "rdma");
        for flow in flows.filter(|flow| !flow.device.is_empty()) {
            devices.entry(&flow.device).or_default().merge(&flow.latency);
        }
        let mut samples = Vec::new();
        for (device, latency) in devices {
            if let Some(value_ns) = typical(&self.counters.more(format!("rail/{device}"), &latency))
            {
                samples.push(Sample {
                    kind: SuspectKind::Nic,
                    name: device.to_owned(),
                    group: RDMA_GROUP.to_owned(),
                    value_ns,
                    what: "operations of",
                    cause: SuspectCause::Wire,
                    starts_over: false,
                });
            }
        }
        samples
    }

    /// Nanoseconds of each second that a thread was ready without a core.
    fn shards(&mut self, waits: &[Wait], elapsed_ns: u64) -> Vec<Sample> {
        let mut samples = Vec::new();
        for wait in waits {
            let waited_ns = self.counters.grown(format!("wait/{}", wait.thread), wait.waited_ns);
            let probed_ns = self.counters.grown(format!("probed/{}", wait.thread), wait.probed_ns);
            let ran_ns = self.counters.grown(format!("run/{}", wait.thread), wait.run_ns);
            let (Some(waited_ns), Some(ran_ns)) = (waited_ns.max(probed_ns), ran_ns) else {
                continue;
            };
            if (waited_ns + ran_ns) * 100 < elapsed_ns * BUSY_PERCENT {
                continue;
            }
            let of_a_second = u128::from(waited_ns) * 1_000_000_000 / u128::from(elapsed_ns.max(1));
            samples.push(Sample {
                kind: SuspectKind::Shard,
                name: wait.thread.clone(),
                group: String::new(),
                value_ns: u64::try_from(of_a_second).unwrap_or(u64::MAX),
                what: "waits for a core in each second of",
                cause: SuspectCause::Core,
                starts_over: false,
            });
        }
        samples
    }

    /// Time per request that its size and the requests beside it do not explain.
    fn disks(&mut self, snapshot: &Snapshot, elapsed_ns: u64) -> Vec<Sample> {
        let mut disks: BTreeMap<&str, (Distribution, u64, u64)> = BTreeMap::new();
        for block in &snapshot.blocks {
            let sum = disks.entry(&block.device).or_default();
            sum.0.merge(&block.device_time);
            sum.1 += block.bytes;
            sum.2 += block.depth;
        }
        let mut samples = Vec::new();
        for (disk, (device_time, bytes, depth)) in disks {
            let time = self.counters.more(format!("disk/{disk}"), &device_time);
            let bytes = self.counters.grown(format!("disk/{disk}/bytes"), bytes).unwrap_or(0);
            let value_ns = match time.count {
                0 if depth == 0 => continue,
                // Nothing came back in the whole turn.
                0 => elapsed_ns,
                count => {
                    let beside = (time.sum_ns / elapsed_ns.max(1)).max(1);
                    let each_ns = time.sum_ns / count / beside;
                    each_ns.saturating_sub(bytes / count * DISK_NS_PER_BYTE)
                }
            };
            let letters = disk.find(|letter: char| !letter.is_ascii_alphabetic());
            let kind = &disk[..letters.unwrap_or(disk.len())];
            samples.push(Sample {
                kind: SuspectKind::Disk,
                name: disk.to_owned(),
                group: kind.to_owned(),
                value_ns,
                what: "requests of",
                cause: SuspectCause::Disk,
                starts_over: false,
            });
        }
        samples
    }
}

/// What so much of each second is of a turn.
fn of_turn(of_a_second_ns: u64, elapsed_ns: u64) -> u64 {
    let of_turn = u128::from(of_a_second_ns) * u128::from(elapsed_ns) / 1_000_000_000;
    u64::try_from(of_turn).unwrap_or(u64::MAX)
}

fn typical(more: &Distribution) -> Option<u64> {
    (more.count >= VALUES_MIN).then(|| more.quantile(QUANTILE))
}

#[cfg(test)]
mod tests;
