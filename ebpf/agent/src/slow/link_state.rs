//! Links that run slower than they did, or are gone: what a half-seated cable or optic does, or a
//! bond that has lost its last port.
//!
//! Pure, as the rest of the judgement. Invariant: a link is held against its own past only, since
//! ports of one host may differ, and a single bad turn names none.

use crate::snapshot::{LinkSeries, NicSeries, Suspect, SuspectCause, SuspectKind};
use std::collections::{BTreeMap, BTreeSet};

/// Turns in a row in which a link shows something before it counts: as good, and as bad.
const STEADY_TURNS: u32 = 3;
/// Turns without the port after which it is forgotten.
const ABSENT_TURNS_MAX: u32 = 30;
/// Ports that are remembered; more are not watched.
const PORTS_MAX: usize = 1024;
const BYTES_PER_GIGABIT: f64 = 125_000_000.0;

/// What the link of a port is in one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkState {
    device: String,
    port: u8,
    is_up: bool,
    /// Whether the administrator wants it.
    is_enabled: bool,
    /// Whether it matters: it has a cable of its own, or connections of ours go over it.
    is_used: bool,
    /// Bytes per second; unknown where the port does not say, as most do without a link.
    speed: Option<u64>,
    /// What `perigee check` found it to run at.
    checked_speed: Option<u64>,
}

/// Remembers what links were.
#[derive(Debug, Default)]
pub(crate) struct LinkStateDetector {
    known: BTreeMap<(String, u8), LinkPast>,
}

#[derive(Debug, Default)]
struct LinkPast {
    /// The highest speed that it has shown for a while; 0 for a link that does not say.
    best: Option<u64>,
    /// What it showed last, and in how many turns in a row: the speed while it is up.
    last: Option<(Option<u64>, u32)>,
    bad_since_ms: Option<u64>,
    absent_turns: u32,
}

impl LinkState {
    /// Those of all ports. Bonds, VLANs and ends of virtual wires, of which a host may have
    /// hundreds, matter where they carry something of ours.
    pub(crate) fn of(nics: &[NicSeries], links: &[LinkSeries]) -> Vec<Self> {
        let busy = links.iter().filter(|link| link.connections > 0);
        let busy: BTreeSet<&str> = busy.map(|link| link.device.as_str()).collect();
        let state = |nic: &NicSeries| Self {
            device: nic.device.clone(),
            port: nic.port,
            is_up: nic.up,
            is_enabled: nic.enabled,
            is_used: nic.kind != "virtual" || busy.contains(&*nic.device),
            speed: nic.link_bytes_per_second,
            checked_speed: None,
        };
        nics.iter().filter(|nic| nic.kind != "loopback").map(state).collect()
    }

    /// Takes the speed at which its NIC was found, of those that are known.
    pub(crate) fn take_checked(&mut self, speeds: &BTreeMap<String, u64>) {
        self.checked_speed = speeds.get(&self.device).copied();
    }
}

impl LinkStateDetector {
    /// Takes what links are in a turn, and tells which are worse than they were.
    pub(crate) fn judge(&mut self, now_ms: u64, links: &[LinkState]) -> Vec<Suspect> {
        self.known.values_mut().for_each(|past| past.absent_turns += 1);
        let mut suspects: Vec<Suspect> = Vec::new();
        for link in links {
            let name = (link.device.clone(), link.port);
            let is_watched = link.is_used && self.known.len() < PORTS_MAX;
            if !self.known.contains_key(&name) && !is_watched {
                continue;
            }
            let past = self.known.entry(name).or_default();
            past.absent_turns = 0;
            let Some(evidence) = past.judge(now_ms, link) else { continue };
            if !suspects.iter().any(|other| other.name == link.device) {
                suspects.push(Suspect {
                    kind: SuspectKind::Nic,
                    name: link.device.clone(),
                    cause: SuspectCause::Link,
                    evidence,
                    since_ms: past.bad_since_ms.unwrap_or(now_ms),
                    now_ns: 0,
                    usual_ns: 0,
                });
            }
        }
        self.known.retain(|_, past| past.absent_turns < ABSENT_TURNS_MAX);
        suspects
    }
}

impl LinkPast {
    /// What is wrong with it, if that has lasted.
    fn judge(&mut self, now_ms: u64, link: &LinkState) -> Option<String> {
        if !link.is_enabled {
            // What it does when it is turned on again is learned again.
            *self = Self::default();
            return None;
        }
        let shown = link.is_up.then(|| link.speed.unwrap_or(0));
        let turns = match self.last {
            Some((last, turns)) if last == shown => turns.saturating_add(1),
            _ => 1,
        };
        self.last = Some((shown, turns));
        self.best = self.best.max(link.checked_speed);
        let is_worse = self.best.is_some_and(|best| shown.is_none_or(|speed| speed < best));
        if !is_worse {
            self.bad_since_ms = None;
            if turns >= STEADY_TURNS {
                self.best = self.best.max(shown);
            }
            return None;
        }
        self.bad_since_ms.get_or_insert(now_ms);
        let best = self.best.filter(|_| turns >= STEADY_TURNS)?;
        Some(match shown {
            None => "its link is down, and was up before".to_owned(),
            // A speed that it does not say proves nothing.
            Some(0) => return None,
            Some(speed) => {
                let gigabits = |speed: u64| speed as f64 / BYTES_PER_GIGABIT;
                format!(
                    "its link runs at {} Gbit/s, and at {} before",
                    gigabits(speed),
                    gigabits(best)
                )
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: u64 = 125_000_000;

    fn link(speed: Option<u64>, is_up: bool, is_enabled: bool) -> Vec<LinkState> {
        let nic = |device: &str, kind: &str, speed: Option<u64>, up, enabled| NicSeries {
            device: device.to_owned(),
            kind: kind.to_owned(),
            port: 1,
            up,
            enabled,
            link_bytes_per_second: speed.map(|gigabits| gigabits * GIGABIT),
            ..NicSeries::default()
        };
        let nics = [
            nic("mlx5_0", "roce", speed, is_up, is_enabled),
            nic("eno1", "ethernet", Some(1), true, true),
            nic("veth0", "virtual", None, false, true),
        ];
        LinkState::of(&nics, &[])
    }

    /// Plays so many turns; what is named in the last one.
    fn play(detector: &mut LinkStateDetector, turns: u64, links: &[LinkState]) -> Vec<String> {
        let mut named = Vec::new();
        for turn in 0..turns {
            named = detector.judge(turn * 1000, links);
        }
        named.into_iter().map(|suspect| format!("{}: {}", suspect.name, suspect.evidence)).collect()
    }

    #[test]
    fn a_link_that_runs_slower_than_before_is_named_until_it_is_as_fast_again() {
        let mut detector = LinkStateDetector::default();
        assert!(play(&mut detector, 10, &link(Some(100), true, true)).is_empty());
        assert!(play(&mut detector, 2, &link(Some(25), true, true)).is_empty(), "a moment");
        let named = play(&mut detector, 10, &link(Some(25), true, true));
        assert_eq!(named, ["mlx5_0: its link runs at 25 Gbit/s, and at 100 before"]);
        assert!(play(&mut detector, 1, &link(Some(100), true, true)).is_empty());
    }

    #[test]
    fn a_link_that_is_gone_is_named_unless_it_was_turned_off() {
        let mut detector = LinkStateDetector::default();
        play(&mut detector, 10, &link(Some(100), true, true));
        let named = play(&mut detector, 4, &link(None, false, true));
        assert_eq!(named, ["mlx5_0: its link is down, and was up before"]);
        assert!(play(&mut detector, 4, &link(None, false, false)).is_empty());
        assert!(play(&mut detector, 4, &link(None, false, true)).is_empty(), "no cable so far");
    }

    #[test]
    fn a_virtual_link_that_is_gone_is_named_if_it_carried_connections_of_ours() {
        let links = |is_up, connections| {
            let nic = |device: &str| NicSeries {
                device: device.to_owned(),
                kind: "virtual".to_owned(),
                up: is_up,
                enabled: true,
                ..NicSeries::default()
            };
            let link =
                LinkSeries { device: "bond0".to_owned(), connections, ..LinkSeries::default() };
            LinkState::of(&[nic("bond0"), nic("veth7")], &[link])
        };
        let mut detector = LinkStateDetector::default();
        assert!(play(&mut detector, 10, &links(true, 0)).is_empty());
        assert!(play(&mut detector, 10, &links(false, 0)).is_empty(), "nothing of ours goes there");
        assert!(play(&mut detector, 10, &links(true, 4)).is_empty());
        assert!(play(&mut detector, 2, &links(false, 4)).is_empty(), "a moment");
        // Connections over it move nothing more.
        let named = play(&mut detector, 4, &links(false, 0));
        assert_eq!(named, ["bond0: its link is down, and was up before"]);
        assert!(play(&mut detector, 1, &links(true, 0)).is_empty());
    }

    #[test]
    fn ports_that_differ_and_those_that_never_had_a_link_are_not_named() {
        let mut detector = LinkStateDetector::default();
        assert!(play(&mut detector, 20, &link(None, false, true)).is_empty());
        assert!(play(&mut detector, 20, &link(Some(25), true, true)).is_empty());
        assert!(play(&mut detector, 20, &link(Some(100), true, true)).is_empty());
    }

    #[test]
    fn a_link_that_was_faster_when_it_was_checked_is_named_from_the_start() {
        let mut detector = LinkStateDetector::default();
        let mut links = link(Some(25), true, true);
        let speeds = [("mlx5_0".to_owned(), 100 * GIGABIT), ("eno1".to_owned(), GIGABIT)];
        links.iter_mut().for_each(|link| link.take_checked(&speeds.clone().into()));
        let named = play(&mut detector, 4, &links);
        assert_eq!(named, ["mlx5_0: its link runs at 25 Gbit/s, and at 100 before"]);
    }

    #[test]
    fn a_speed_that_is_not_known_for_a_while_names_none() {
        let mut detector = LinkStateDetector::default();
        play(&mut detector, 10, &link(Some(100), true, true));
        assert!(play(&mut detector, 10, &link(None, true, true)).is_empty());
    }

    #[test]
    fn a_port_that_left_is_forgotten() {
        let mut detector = LinkStateDetector::default();
        play(&mut detector, 10, &link(Some(100), true, true));
        play(&mut detector, u64::from(ABSENT_TURNS_MAX), &[]);
        assert!(detector.known.is_empty());
    }
}
