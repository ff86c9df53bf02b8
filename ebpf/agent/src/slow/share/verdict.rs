//! Whose fault it is that links lose: the NIC that they share, or the peer. Invariant: those that
//! are held against each other are counted over as many turns.

use super::history::{Fault, LinkHistory, Mishap, Share, WINDOWS, sum};
use crate::slow::evidence::percent;
use crate::snapshot::{Suspect, SuspectKind};
use std::cmp::Ordering;
use std::collections::BTreeMap;

const SHORTEST_WINDOW: usize = WINDOWS[0].0;

/// Turns for which a NIC stays named while a link behind it still shows the mishap: of several that
/// lose at random, one or the other pauses.
const HELD_TURNS: u32 = 10;

/// A NIC that was named, and how many turns ago.
#[derive(Debug)]
pub(super) struct NamedNic {
    suspect: Suspect,
    turns: u32,
}

/// What is counted, NIC and peer.
pub(super) type LinkName = (Mishap, String, String);

/// One link as it is weighed.
struct Weighed<'a> {
    device: &'a str,
    peer: &'a str,
    history: &'a LinkHistory,
}

impl Weighed<'_> {
    fn is_bad(&self) -> bool {
        self.history.fault.is_some()
    }

    /// What it shows: its fault, else so many turns.
    fn share(&self, turns: usize) -> Share {
        self.history.fault.map_or_else(|| self.history.last(turns), |fault| fault.share)
    }
}

/// The links of one kind of mishap, and whose fault it is.
pub(super) struct Verdict<'a> {
    mishap: Mishap,
    links: Vec<Weighed<'a>>,
    /// Whether there are links that showed it a moment ago, and too little since to be weighed.
    has_recovering: bool,
}

impl<'a> Verdict<'a> {
    pub(super) fn of(links: &'a BTreeMap<LinkName, LinkHistory>, mishap: Mishap) -> Self {
        let links = links.iter().filter(|(name, _)| name.0 == mishap);
        let weighed = links.map(|((_, device, peer), history)| Weighed { device, peer, history });
        let (links, silent): (Vec<_>, Vec<_>) =
            weighed.partition(|link| link.share(SHORTEST_WINDOW).is_measured());
        let has_recovering = silent.iter().any(|link| link.history.is_recovering());
        Self { mishap, links, has_recovering }
    }

    /// Who is at fault, beside NICs that were named lately and may still be.
    pub(super) fn suspects(
        &self,
        lately: &mut BTreeMap<(Mishap, String), NamedNic>,
    ) -> Vec<Suspect> {
        let mut found: Vec<Suspect> = Vec::new();
        let devices: BTreeMap<&str, ()> = self.links.iter().map(|link| (link.device, ())).collect();
        for device in devices.into_keys() {
            found.extend(self.nic(device));
        }
        lately.retain(|(mishap, device), named| {
            let is_ours = *mishap == self.mishap;
            named.turns += u32::from(is_ours);
            !is_ours || named.turns < HELD_TURNS && self.is_any_bad(device)
        });
        for suspect in &found {
            let named = NamedNic { suspect: suspect.clone(), turns: 0 };
            lately.insert((self.mishap, suspect.name.clone()), named);
        }
        let held = lately.iter().filter(|(who, named)| who.0 == self.mishap && named.turns > 0);
        found.extend(held.map(|(_, named)| named.suspect.clone()));
        let sick: Vec<String> = found.iter().map(|suspect| suspect.name.clone()).collect();
        let peers: BTreeMap<&str, ()> = self.links.iter().map(|link| (link.peer, ())).collect();
        for peer in peers.into_keys().filter(|peer| !peer.is_empty()) {
            found.extend(self.peer(peer, &sick));
        }
        found
    }

    fn is_any_bad(&self, device: &str) -> bool {
        self.links.iter().any(|link| link.device == device && link.is_bad())
    }

    /// A NIC behind which most links lose, more than behind another NIC; without another one, more
    /// than they used to. What a port counts itself is its own; a single link may lose at either
    /// end.
    fn nic(&self, device: &str) -> Option<Suspect> {
        let (own, others): (Vec<_>, Vec<_>) =
            self.links.iter().partition(|link| link.device == device);
        let bad = own.iter().filter(|link| link.is_bad()).count();
        if bad * 2 <= own.len() {
            return None;
        }
        let turns = turns(&own);
        let share = sum(own.iter().map(|link| link.share(turns)));
        let healthiest = healthiest_nic(&others, turns);
        let is_odd = match healthiest {
            Some(other) => share.exceeds(other),
            None => {
                let is_telling = own.len() > 1 || own.iter().all(|link| link.peer.is_empty());
                is_telling && own.iter().all(|link| link.history.knows_usual())
            }
        };
        if !is_odd {
            return None;
        }
        Some(self.suspect(SuspectKind::Nic, device, (share, healthiest), &own))
    }

    /// A peer that loses behind every NIC that reaches it while its neighbours do not; the only
    /// link of the host, if it loses more than it used to.
    fn peer(&self, peer: &str, sick: &[String]) -> Option<Suspect> {
        let own: Vec<_> = self.links.iter().filter(|link| link.peer == peer).collect();
        let is_behind_sick = |link: &&Weighed<'_>| sick.iter().any(|nic| nic == link.device);
        if !own.iter().all(|link| link.is_bad()) || own.iter().any(is_behind_sick) {
            return None;
        }
        let is_neighbour = |link: &&Weighed<'_>| {
            link.peer != peer && own.iter().any(|mine| mine.device == link.device)
        };
        let neighbours: Vec<_> = self.links.iter().filter(is_neighbour).collect();
        let turns = turns(&own);
        let share = sum(own.iter().map(|link| link.share(turns)));
        let others = median(&neighbours, turns);
        let is_odd = match others {
            Some(others) => share.exceeds(others),
            None => {
                let is_telling = own.len() > 1 || self.is_only_link();
                is_telling && own.iter().all(|link| link.history.knows_usual())
            }
        };
        is_odd.then(|| self.suspect(SuspectKind::Peer, peer, (share, others), &own))
    }

    fn is_only_link(&self) -> bool {
        self.links.len() == 1 && !self.has_recovering
    }

    fn suspect(
        &self,
        kind: SuspectKind,
        name: &str,
        (share, others): (Share, Option<Share>),
        own: &[&Weighed<'_>],
    ) -> Suspect {
        let per_million =
            |share: Share| share.events.saturating_mul(1_000_000) / share.segments.max(1);
        let is_of_port = own.iter().all(|link| link.peer.is_empty());
        let mut evidence = format!(
            "{} of its {} {} ({} of {})",
            percent(per_million(share)),
            if is_of_port { "packets" } else { "segments" },
            self.mishap.what(),
            share.events,
            share.segments,
        );
        if !is_of_port {
            evidence.push_str(&format!(" on {} of {} links", faults(own).count(), own.len()));
        }
        if let Some(others) = others {
            let theirs = percent(per_million(others));
            evidence
                .push_str(&format!(", others {theirs} ({} of {})", others.events, others.segments));
        } else if kind == SuspectKind::Peer && own.len() == 1 {
            evidence.push_str("; this host has no other link that tells which end it is");
        }
        Suspect {
            kind,
            name: name.to_owned(),
            cause: self.mishap.cause(),
            evidence,
            since_ms: faults(own).map(|fault| fault.since_ms).min().unwrap_or(0),
            now_ns: 0,
            usual_ns: 0,
        }
    }
}

fn faults<'a>(links: &'a [&Weighed<'_>]) -> impl Iterator<Item = Fault> + 'a {
    links.iter().filter_map(|link| link.history.fault)
}

/// Turns in which links showed their faults: others are held against them over as many.
fn turns(links: &[&Weighed<'_>]) -> usize {
    faults(links).map(|fault| fault.turns).max().unwrap_or(SHORTEST_WINDOW)
}

/// What the NIC that shows least shows, of some others.
fn healthiest_nic(others: &[&Weighed<'_>], turns: usize) -> Option<Share> {
    let mut nics: BTreeMap<&str, Share> = BTreeMap::new();
    for link in others {
        nics.entry(link.device).or_default().add(link.share(turns));
    }
    nics.into_values().min_by(order)
}

/// What the middle one of some links shows.
fn median(links: &[&Weighed<'_>], turns: usize) -> Option<Share> {
    let mut shares: Vec<Share> = links.iter().map(|link| link.share(turns)).collect();
    shares.sort_by(order);
    shares.get(shares.len().saturating_sub(1) / 2).copied()
}

/// The smaller share first.
fn order(one: &Share, two: &Share) -> Ordering {
    let one_share = u128::from(one.events) * u128::from(two.segments);
    one_share.cmp(&(u128::from(two.events) * u128::from(one.segments)))
}
