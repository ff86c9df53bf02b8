//! Links on which we ask: where the time of their exchanges went. Invariant: time that a round
//! trip, the wire, arriving payload or a wait of our own explains is no sign of the peer.

use super::counters::TurnCounters;
use crate::slow::sample::Sample;
use crate::slow::{OWN_GROUP, STILL_GROUP, WIRE_GROUP, Ways};
use crate::snapshot::{LinkSeries, Snapshot, SuspectCause, SuspectKind};
use std::collections::{BTreeMap, BTreeSet};

/// What the time on a wire is given for. Exchanges of fewer bytes say nothing of what it carries.
const BLOCK_BYTES: u64 = 64 << 10;
/// A window after a pause: ten segments. It doubles with each round trip.
const FIRST_WINDOW_BYTES: u64 = 14_600;
/// No peer is slow because of bytes whose time is not known: each may take this long (100 MB/s).
const PEER_NS_PER_BYTE: u64 = 10;
/// Where the time goes that an exchange takes at a peer.
const PEER_CAUSES: [(SuspectCause, &str); 4] = [
    (SuspectCause::Core, "waiting for a core, each exchange there takes"),
    (SuspectCause::Copy, "copying and summing, each exchange there takes"),
    (SuspectCause::Disk, "reading its disks, each exchange there takes"),
    (SuspectCause::Still, "standing still, each exchange there takes"),
];

/// A link, and what was counted of it since its last sign.
pub(super) struct Asked<'a> {
    pub(super) link: &'a LinkSeries,
    grown: Growth,
}

/// Counters of a link that are looked at together.
const LINK_COUNTERS: usize = 13;

/// What was added to them since their last sign.
#[derive(Clone, Copy, Debug)]
struct Growth {
    operations: u64,
    total_ns: u64,
    /// What the socket's round trips do not explain of it.
    beside_ns: u64,
    waited_ns: u64,
    copied_ns: u64,
    disk_ns: u64,
    arrived_bytes: u64,
    arrived_ns: u64,
    /// With data under way and room at the peer.
    busy_ns: u64,
    sent_bytes: u64,
    bytes: u64,
    mishaps: u64,
    /// Time that a thread of this host was ready without a core.
    our_waits_ns: u64,
}

/// What one exchange costs at the peer, by where it goes: as in [`PEER_CAUSES`].
#[derive(Clone, Copy, Debug)]
struct PeerTime([u64; 4]);

impl PeerTime {
    /// All of it, and where most of it goes.
    fn whole(self) -> (u64, (SuspectCause, &'static str)) {
        self.sum(|_| true)
    }

    /// The part that does not depend on what the work is.
    fn still(self) -> (u64, (SuspectCause, &'static str)) {
        self.sum(|cause| matches!(cause, SuspectCause::Core | SuspectCause::Still))
    }

    fn sum(self, counts: impl Fn(SuspectCause) -> bool) -> (u64, (SuspectCause, &'static str)) {
        let parts = self.0.into_iter().zip(PEER_CAUSES);
        let parts = parts.filter(|(_, (cause, _))| counts(*cause));
        let most = parts.clone().max_by_key(|(part, _)| *part);
        let sum_ns = parts.fold(0, |sum: u64, (part, _)| sum.saturating_add(part));
        (sum_ns, most.map_or(PEER_CAUSES[3], |(_, what)| what))
    }
}

impl Growth {
    fn of(counters: [u64; LINK_COUNTERS]) -> Self {
        let [operations, total_ns, beside_ns, waited_ns, copied_ns, rest @ ..] = counters;
        let [disk_ns, arrived_bytes, arrived_ns, busy_ns, rest @ ..] = rest;
        let [sent_bytes, bytes, mishaps, our_waits_ns] = rest;
        Self {
            operations,
            total_ns,
            beside_ns,
            waited_ns,
            copied_ns,
            disk_ns,
            arrived_bytes,
            arrived_ns,
            busy_ns,
            sent_bytes,
            bytes,
            mishaps,
            our_waits_ns,
        }
    }

    /// What one exchange costs at the peer, and where most of that goes: what the peer says, and
    /// what neither the peer nor the kernel knows and no thread here can have waited, such as the
    /// time that it stood still.
    fn peer(&self) -> PeerTime {
        let said_ns = [self.waited_ns, self.copied_ns, self.disk_ns];
        let known = said_ns.into_iter().chain([self.arrived_ns, self.busy_ns]);
        let left_ns = known.fold(self.total_ns, u64::saturating_sub).min(self.beside_ns);
        let untimed_bytes = [self.arrived_bytes, self.sent_bytes];
        let untimed_bytes = untimed_bytes.into_iter().fold(self.bytes, u64::saturating_sub);
        let left_ns = left_ns.saturating_sub(untimed_bytes.saturating_mul(PEER_NS_PER_BYTE));
        let left_ns = left_ns.saturating_sub(self.our_waits_ns);
        let [waited_ns, copied_ns, disk_ns] = said_ns;
        PeerTime([waited_ns, copied_ns, disk_ns, left_ns].map(|part| part / self.operations.max(1)))
    }

    /// What the wire takes for a block on the way out and on the way in, beside the round trips in
    /// which windows grow and, on the way out, the peer's own time; where exchanges are large
    /// enough to tell.
    fn block_ns(&self, round_trip_ns: u64) -> [Option<u64>; 2] {
        let said_ns = [self.waited_ns, self.copied_ns, self.disk_ns];
        let out_ns = said_ns.into_iter().fold(self.busy_ns, u64::saturating_sub);
        let ways = [(self.sent_bytes, out_ns), (self.arrived_bytes, self.arrived_ns)];
        ways.map(|(bytes, took_ns)| {
            let each_bytes = bytes / self.operations.max(1);
            let round_trips = self.operations.saturating_mul(windows(each_bytes));
            let wire_ns = took_ns.saturating_sub(round_trips.saturating_mul(round_trip_ns));
            let block_ns = u128::from(wire_ns) * u128::from(BLOCK_BYTES) / u128::from(bytes.max(1));
            (each_bytes >= BLOCK_BYTES).then(|| u64::try_from(block_ns).unwrap_or(u64::MAX))
        })
    }
}

/// Windows that so many bytes need after a pause.
fn windows(bytes: u64) -> u64 {
    u64::from(1 + (bytes / FIRST_WINDOW_BYTES + 1).ilog2())
}

/// Links on which we asked often enough since their last sign: a smoothed round trip forgets a
/// single bad one within as many exchanges. `our_waits_ns` is how long this host
/// waited for a core.
pub(super) fn asked<'a>(
    snapshot: &'a Snapshot,
    counters: &mut TurnCounters,
    our_waits_ns: u64,
) -> Vec<Asked<'a>> {
    let mut asked = Vec::new();
    for link in &snapshot.links {
        let name = format!("peer/{}/{}", link.device, link.peer);
        let socket = &link.socket;
        let lost = link.retransmits.saturating_sub(socket.needless);
        let busy_us = socket.busy_us.saturating_sub(socket.window_limited_us);
        let now = [
            link.operations,
            link.wire_ns,
            link.peer_ns,
            link.waited_ns,
            link.copied_ns,
            link.disk_ns,
            link.arrived_bytes,
            link.arrived_ns,
            busy_us.saturating_mul(1000),
            socket.bytes_sent,
            link.bytes,
            lost.saturating_add(socket.out_of_order),
            our_waits_ns,
        ];
        let grown = counters.grown_enough(&name, now).map(Growth::of);
        asked.extend(grown.map(|grown| Asked { link, grown }));
    }
    asked
}

/// Peers of one NIC by their round trips, all peers by what round trips and bytes do not explain;
/// the only peer also by the part of that which does not depend on the work.
pub(super) fn peers(asked: &[Asked<'_>], snapshot: &Snapshot) -> Vec<Sample> {
    let mut samples = Vec::new();
    let asks = |link: &&LinkSeries| link.asked_round_trip_ns.is_some() && !link.is_loopback();
    let all = snapshot.links.iter().filter(asks).map(|link| &link.peer);
    let is_only = all.collect::<BTreeSet<_>>().len() == 1;
    for asked in asked {
        let link = asked.link;
        let sample = |group: &str, value_ns, (cause, what)| Sample {
            kind: SuspectKind::Peer,
            name: link.peer.clone(),
            group: group.to_owned(),
            value_ns,
            what,
            cause,
            starts_over: false,
        };
        let way = (SuspectCause::Wire, "round trips of");
        let round_trip_ns = link.asked_round_trip_ns;
        samples.extend(round_trip_ns.map(|value| sample(&link.device, value, way)));
        // Where segments were lost, times tell of the wire; without a round trip, nothing can be a
        // multiple.
        if asked.grown.mishaps > 0 || link.round_trip_min_ns == 0 {
            continue;
        }
        let time = asked.grown.peer();
        // What stays on this host is no measure for what leaves it.
        let own = if link.is_loopback() { "beside/lo" } else { OWN_GROUP };
        let mut add = |group, (spent_ns, what): (u64, _)| {
            samples.push(sample(group, spent_ns.saturating_add(link.round_trip_min_ns), what));
        };
        add(own, time.whole());
        if is_only && !link.is_loopback() {
            add(STILL_GROUP, time.still());
        }
    }
    samples
}

/// What wires take for a block: the luckiest link stands for its NIC, each link for its peer among
/// those behind the same NIC.
pub(super) fn wires(asked: &[Asked<'_>], snapshot: &Snapshot) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut nics: BTreeMap<(&str, &str), (u64, &'static str)> = BTreeMap::new();
    for asked in asked.iter().filter(|asked| !asked.link.is_loopback()) {
        let ways = [
            ("out", "beyond round trips each 64 KiB out take"),
            ("in", "beyond round trips each 64 KiB in take"),
        ];
        for (block_ns, (way, what)) in
            asked.grown.block_ns(asked.link.round_trip_min_ns).into_iter().zip(ways)
        {
            let Some(value_ns) = block_ns else { continue };
            let nic = nics.entry((&asked.link.device, way)).or_insert((value_ns, what));
            nic.0 = nic.0.min(value_ns);
            samples.push(Sample {
                kind: SuspectKind::Peer,
                name: asked.link.peer.clone(),
                group: format!("{WIRE_GROUP}{way}/{}", asked.link.device),
                value_ns,
                what,
                cause: SuspectCause::Wire,
                starts_over: false,
            });
        }
    }
    for ((device, way), (value_ns, what)) in nics {
        let kind = snapshot.nics.iter().find(|nic| nic.device == device).map(|nic| &nic.kind);
        samples.extend(kind.map(|kind| Sample {
            kind: SuspectKind::Nic,
            name: device.to_owned(),
            group: format!("{WIRE_GROUP}{way}/{kind}"),
            value_ns,
            what,
            cause: SuspectCause::Wire,
            starts_over: false,
        }));
    }
    samples
}

/// NICs by the peer that is reached over them now.
pub(super) fn ways(snapshot: &Snapshot) -> Ways {
    let mut ways = Ways::new();
    for link in snapshot.links.iter().filter(|link| link.connections > 0) {
        ways.entry(link.peer.clone()).or_default().insert(link.device.clone());
    }
    ways
}
