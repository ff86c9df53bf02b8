//! What is reported of a snapshot.

use crate::snapshot::{LinkSeries, Snapshot, SuspectKind};
use perigee_mesh::MeshHost;
use perigee_verdict::{AgentReport, ReportedLink, ReportedNic, ReportedSuspect};

/// What is reported of a host: its NICs, its links, and its suspects.
pub(super) fn report(now: &Snapshot, before: Option<&Snapshot>, host: &MeshHost) -> AgentReport {
    let nics = host.nics.iter().map(|nic| ReportedNic {
        name: nic.name.clone(),
        addresses: nic.addresses.iter().map(|one| one.address).collect(),
        switch: None,
    });
    let links = now.links.iter().filter(|link| is_reported(link, now)).map(|link| ReportedLink {
        nic: link.device.clone(),
        peer: link.peer.clone(),
        round_trip_ns: link.asked_round_trip_ns,
        sent_again: link.retransmits.saturating_sub(retransmits_before(before, link)),
    });
    let suspects = now.suspects.iter().map(|suspect| ReportedSuspect {
        kind: suspect.kind.label().to_owned(),
        name: suspect.name.clone(),
        cause: suspect.cause.label().to_owned(),
        evidence: suspect.evidence.clone(),
        since_ms: suspect.since_ms,
    });
    AgentReport {
        host: now.host.clone(),
        nics: nics.collect(),
        links: links.collect(),
        suspects: suspects.collect(),
        port: None,
    }
}

/// Links that move something, and those that are named: a wire that was cut moves nothing.
fn is_reported(link: &LinkSeries, now: &Snapshot) -> bool {
    let is_named = now.suspects.iter().any(|suspect| match suspect.kind {
        SuspectKind::Nic => suspect.name == link.device,
        SuspectKind::Peer => suspect.name == link.peer,
        SuspectKind::Shard | SuspectKind::Disk => false,
    });
    !link.is_loopback() && (link.connections > 0 || is_named)
}

/// Without an earlier snapshot nothing is known to be new.
fn retransmits_before(before: Option<&Snapshot>, link: &LinkSeries) -> u64 {
    let Some(before) = before else {
        return u64::MAX;
    };
    let mut links = before.links.iter();
    let same = links.find(|other| (&other.device, &other.peer) == (&link.device, &link.peer));
    same.map_or(0, |same| same.retransmits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Suspect, SuspectCause};

    fn link(device: &str, peer: &str, connections: u64, retransmits: u64) -> LinkSeries {
        LinkSeries {
            device: device.to_owned(),
            peer: peer.to_owned(),
            connections,
            retransmits,
            round_trip_ns: Some(9_000_000),
            asked_round_trip_ns: Some(70_000),
            ..LinkSeries::default()
        }
    }

    fn host() -> MeshHost {
        MeshHost { nics: Vec::new(), ..MeshHost::of_this_host("h", &[]) }
    }

    #[test]
    fn links_that_are_quiet_or_stay_on_the_host_are_left_out_unless_they_are_named() {
        let suspect = Suspect {
            kind: SuspectKind::Peer,
            name: "10.0.0.9".to_owned(),
            cause: SuspectCause::Still,
            evidence: "no answer".to_owned(),
            since_ms: 5,
            now_ns: 1,
            usual_ns: 1,
        };
        let snapshot = Snapshot {
            host: "h".to_owned(),
            links: vec![
                link("lo", "127.0.0.1", 3, 0),
                link("rail0", "10.0.0.2", 1, 0),
                link("rail0", "10.0.0.3", 0, 0),
                link("rail0", "10.0.0.9", 0, 0),
            ],
            suspects: vec![suspect],
            ..Snapshot::default()
        };
        let reported = report(&snapshot, None, &host());
        let peers: Vec<&str> = reported.links.iter().map(|link| link.peer.as_str()).collect();
        assert_eq!(peers, ["10.0.0.2", "10.0.0.9"]);
        let suspect = &reported.suspects[0];
        assert_eq!((&*suspect.kind, &*suspect.cause, suspect.since_ms), ("peer", "still", 5));
    }

    #[test]
    fn segments_are_sent_again_since_the_report_before() {
        let of = |retransmits| Snapshot {
            links: vec![link("rail0", "10.0.0.2", 1, retransmits)],
            ..Snapshot::default()
        };
        let again =
            |before: Option<Snapshot>| report(&of(7), before.as_ref(), &host()).links[0].sent_again;
        assert_eq!(again(None), 0);
        assert_eq!(again(Some(of(4))), 3);
        assert_eq!(again(Some(Snapshot::default())), 7);
    }
}
