//! The elimination: what explains the most sick links, and is part of hardly any that is well, is
//! named; its links are taken away, and the rest is asked again.

use crate::culprit::{Culprit, CulpritKind};
use crate::link::{JudgedLink, NicOfHost, Switches};
use std::collections::{BTreeMap, BTreeSet};

/// A part of the cluster is at fault only if so many of ten of its links are sick.
const SICK_OF_TEN_MIN: usize = 7;

/// A part of the cluster that may be at fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClusterPart {
    kind: CulpritKind,
    name: String,
}

/// A part and the links that go through it.
#[derive(Debug, Default)]
struct PartLinks {
    /// Places in the list of links.
    links: Vec<usize>,
    /// NICs of its own.
    nics: BTreeSet<NicOfHost>,
    hosts: BTreeSet<String>,
    /// Hosts at the other ends.
    far_hosts: BTreeSet<String>,
}

/// Names who is at fault, those that explain the most first.
#[must_use]
pub fn culprits(links: &[JudgedLink], switches: &Switches) -> Vec<Culprit> {
    let parts = parts(links, switches);
    let mut left: BTreeSet<usize> =
        (0..links.len()).filter(|place| links[*place].is_sick).collect();
    let mut found = Vec::new();
    while !left.is_empty() {
        let candidates = parts.iter().filter_map(|(part, through)| {
            let explained = through.links.iter().filter(|place| left.contains(place)).count();
            is_possible(part.kind, through, links, explained).then_some((part, through, explained))
        });
        // Of those that explain as many, the smallest.
        let best = candidates.max_by(|one, other| {
            (one.2, other.0.kind, &other.0.name).cmp(&(other.2, one.0.kind, &one.0.name))
        });
        let Some((part, through, _)) = best else {
            break;
        };
        found.push(culprit(part, through, links, &left));
        left.retain(|place| !through.links.contains(place));
    }
    found.extend(left.iter().map(|place| path(&links[*place], links)));
    found
}

/// Whether a part can be at fault for so many links that nothing else explains yet.
fn is_possible(
    kind: CulpritKind,
    through: &PartLinks,
    links: &[JudgedLink],
    explained: usize,
) -> bool {
    let sick = through.links.iter().filter(|place| links[**place].is_sick).count();
    let is_mostly_sick = sick * 10 >= through.links.len() * SICK_OF_TEN_MIN;
    let is_shown_by_several = match kind {
        CulpritKind::Path | CulpritKind::Disk | CulpritKind::Shard => false,
        CulpritKind::Nic => through.far_hosts.len() >= 2,
        CulpritKind::Host => through.nics.len() >= 2,
        CulpritKind::Switch => through.hosts.len() >= 3,
    };
    // Others must not have explained most of it already.
    explained >= 2 && is_mostly_sick && is_shown_by_several && explained * 2 > sick
}

/// All parts of which the links tell.
fn parts(links: &[JudgedLink], switches: &Switches) -> BTreeMap<ClusterPart, PartLinks> {
    let mut parts: BTreeMap<ClusterPart, PartLinks> = BTreeMap::new();
    for (place, link) in links.iter().enumerate() {
        for (near, far) in [(&link.from, &link.to), (&link.to, &link.from)] {
            let nic = (CulpritKind::Nic, near.to_string());
            let host = (CulpritKind::Host, near.host.clone());
            let switch = (CulpritKind::Switch, switch_of(near, switches));
            for (kind, name) in [nic, host, switch] {
                let through = parts.entry(ClusterPart { kind, name }).or_default();
                if through.links.last() != Some(&place) {
                    through.links.push(place);
                }
                through.nics.insert(near.clone());
                through.hosts.insert(near.host.clone());
                through.far_hosts.insert(far.host.clone());
            }
        }
    }
    parts
}

/// The switch of a NIC; where that is not known, what all NICs of its name have in common: rails
/// are wired by name.
fn switch_of(nic: &NicOfHost, switches: &Switches) -> String {
    switches.get(nic).cloned().unwrap_or_else(|| format!("the switch of all {}", nic.nic))
}

fn culprit(
    part: &ClusterPart,
    through: &PartLinks,
    links: &[JudgedLink],
    left: &BTreeSet<usize>,
) -> Culprit {
    let explained = through.links.iter().filter(|place| left.contains(place));
    let ends: Vec<_> = explained.map(|place| ends(&links[*place])).collect();
    Culprit {
        kind: part.kind,
        name: part.name.clone(),
        sick: ends.len(),
        looked_at: through.links.len(),
        links: ends,
    }
}

/// A link whose two ends are well otherwise.
fn path(link: &JudgedLink, links: &[JudgedLink]) -> Culprit {
    let ends = ends(link);
    let is_same = |other: &&JudgedLink| {
        [&other.from, &other.to] == [&link.from, &link.to]
            || [&other.to, &other.from] == [&link.from, &link.to]
    };
    Culprit {
        kind: CulpritKind::Path,
        name: format!("{} - {}", link.from, link.to),
        sick: 1,
        looked_at: links.iter().filter(is_same).count(),
        links: vec![ends],
    }
}

fn ends(link: &JudgedLink) -> [NicOfHost; 2] {
    [link.from.clone(), link.to.clone()]
}

#[cfg(test)]
mod tests;
