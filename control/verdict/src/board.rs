//! What the agents of a cluster have reported lately, and the verdict on all of it together.
//! Invariant: what is kept is bounded, whatever is reported, and a culprit is named only after it
//! has been the same for a while.

use crate::cluster::{
    ClusterLink, ClusterVerdict, JudgedHost, NamedCulprit, SilentHost, VERDICT_VERSION,
};
use crate::culprit::{Culprit, CulpritKind};
use crate::elimination::culprits;
use crate::limits::{
    CARRIED_MS, EVIDENCE_MAX, HOSTS_MAX, HOSTS_PER_ADDRESS_MAX, JUDGE_PERIOD_MS, REPORT_FRESH_MS,
    SETTLE_MS, SETTLE_PATH_MS, SHOWN_LINKS_MAX, SILENT_SHOWN_MS,
};
use crate::link::{JudgedLink, NicOfHost, Switches};
use crate::report::{AgentReport, ReportedSuspect};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// What agents have reported lately.
#[derive(Debug, Default)]
pub struct ClusterBoard {
    hosts: BTreeMap<String, HostRow>,
    /// Those that report no more, and when they did last.
    silent: BTreeMap<String, u64>,
    /// Who has been a culprit, without a longer pause.
    standing: BTreeMap<(CulpritKind, String), StandingCulprit>,
    /// The last judgement.
    last: ClusterVerdict,
}

/// The last report of a host.
#[derive(Debug)]
struct HostRow {
    report: AgentReport,
    from: IpAddr,
    taken_ms: u64,
}

/// A culprit, since when and until when it was found.
#[derive(Debug)]
struct StandingCulprit {
    culprit: NamedCulprit,
    since_ms: u64,
    seen_ms: u64,
}

/// Why a report is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportRefusal {
    /// It has no name.
    Nameless,
    /// Another address reports for this host.
    Taken,
    /// There are too many hosts, in all or at this address.
    Full,
}

impl ReportRefusal {
    /// For people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Nameless => "a report needs the name of its host",
            Self::Taken => {
                "another address reports for a host of this name; give each host its own"
            }
            Self::Full => "too many hosts report, in all or from this address",
        }
    }
}

/// Ends of links that agents name, and what they say.
#[derive(Default)]
struct Named {
    sick: BTreeSet<[NicOfHost; 2]>,
    said: BTreeMap<[NicOfHost; 2], Vec<(u64, String)>>,
    /// Hosts whose peers see that they themselves take long, and how.
    own: BTreeMap<String, Vec<OwnComplaint>>,
}

/// What an agent says of a host whose programs take long.
struct OwnComplaint {
    since_ms: u64,
    text: String,
}

impl ClusterBoard {
    /// Takes a report from an address.
    ///
    /// # Errors
    /// It is not taken.
    pub fn take(
        &mut self,
        report: AgentReport,
        from: IpAddr,
        now_ms: u64,
    ) -> Result<(), ReportRefusal> {
        let report = report.bounded();
        if report.host.is_empty() {
            return Err(ReportRefusal::Nameless);
        }
        self.forget(now_ms);
        match self.hosts.get(&report.host) {
            Some(row) if row.from != from => return Err(ReportRefusal::Taken),
            Some(_) => {}
            None => {
                let of_address = self.hosts.values().filter(|row| row.from == from).count();
                if self.hosts.len() >= HOSTS_MAX || of_address >= HOSTS_PER_ADDRESS_MAX {
                    return Err(ReportRefusal::Full);
                }
            }
        }
        self.silent.remove(&report.host);
        self.hosts.insert(report.host.clone(), HostRow { report, from, taken_ms: now_ms });
        self.verdict(now_ms);
        Ok(())
    }

    /// Who is at fault as all agents see it, and its links; judged at most once a second.
    pub fn verdict(&mut self, now_ms: u64) -> &ClusterVerdict {
        let age_ms = now_ms.saturating_sub(self.last.taken_ms);
        let is_set_back = now_ms < self.last.taken_ms;
        if self.last.version == 0 || is_set_back || age_ms >= JUDGE_PERIOD_MS {
            self.forget(now_ms);
            self.last = self.judge(now_ms);
        }
        &self.last
    }

    fn forget(&mut self, now_ms: u64) {
        let is_fresh = |row: &HostRow| now_ms.saturating_sub(row.taken_ms) < REPORT_FRESH_MS;
        let silent = self.hosts.extract_if(.., |_, row| !is_fresh(row));
        self.silent.extend(silent.map(|(host, row)| (host, row.taken_ms)));
        self.silent.retain(|_, taken_ms| now_ms.saturating_sub(*taken_ms) < SILENT_SHOWN_MS);
        while self.silent.len() > HOSTS_MAX {
            self.silent.pop_first();
        }
    }

    /// Judges what is known now.
    fn judge(&mut self, now_ms: u64) -> ClusterVerdict {
        let owners = self.owners();
        let named = self.named(&owners);
        let mut links = self.links(&owners, &named);
        let found = self.culprits(&links, &named);
        let culprits = self.settled(found, now_ms);
        links.sort_by_key(|link| !link.is_sick);
        links.truncate(SHOWN_LINKS_MAX);
        ClusterVerdict {
            version: VERDICT_VERSION,
            taken_ms: now_ms,
            culprits,
            hosts: self.hosts.values().map(|row| row.judged(now_ms)).collect(),
            silent: self.silent(now_ms),
            links,
        }
    }

    /// Those that have been found for long enough, also those that are missing for a moment only.
    fn settled(&mut self, found: Vec<NamedCulprit>, now_ms: u64) -> Vec<NamedCulprit> {
        let who = |one: &NamedCulprit| (one.kind, one.name.clone());
        let mut order: Vec<_> = Vec::new();
        for culprit in found {
            // A host may be found twice: for what it does itself, and for its links.
            if order.contains(&who(&culprit)) {
                continue;
            }
            order.push(who(&culprit));
            let known = self.standing.get(&who(&culprit));
            let since_ms = known.map_or(now_ms, |known| known.since_ms);
            let standing = StandingCulprit { culprit, since_ms, seen_ms: now_ms };
            self.standing.insert(who(&standing.culprit), standing);
        }
        self.standing.retain(|_, one| now_ms.abs_diff(one.seen_ms) < CARRIED_MS);
        let missing = self.standing.iter().filter(|(_, one)| one.seen_ms != now_ms);
        let missing = missing.map(|(who, _)| who);
        let all = order.iter().chain(missing).filter_map(|who| self.standing.get(who));
        let settled = all
            .filter(|one| one.seen_ms.saturating_sub(one.since_ms) >= settle_ms(one.culprit.kind));
        settled.map(|one| one.culprit.clone()).collect()
    }

    fn silent(&self, now_ms: u64) -> Vec<SilentHost> {
        let silent = self.silent.iter();
        let silent = silent.map(|(host, taken_ms)| SilentHost {
            host: host.clone(),
            age_ms: now_ms.saturating_sub(*taken_ms),
        });
        silent.collect()
    }

    /// Whose each address is. One that two hosts have (bridges of containers) has no owner.
    fn owners(&self) -> BTreeMap<String, NicOfHost> {
        let mut owners: BTreeMap<String, Option<NicOfHost>> = BTreeMap::new();
        for row in self.hosts.values() {
            for nic in &row.report.nics {
                let own = NicOfHost::new(&row.report.host, &nic.name);
                for address in &nic.addresses {
                    let entry = owners.entry(address.to_canonical().to_string());
                    let kept = entry.or_insert_with(|| Some(own.clone()));
                    if kept.as_ref().is_some_and(|other| other.host != own.host) {
                        *kept = None;
                    }
                }
            }
        }
        owners.into_iter().filter_map(|(address, nic)| Some((address, nic?))).collect()
    }

    /// Links that an end names: by its own NIC, or by the peer. A host that names a disk or a
    /// thread of its own explains what its peers see of it. A host whose own programs take long, as
    /// its peers measure it, has no sick links for that.
    fn named(&self, owners: &BTreeMap<String, NicOfHost>) -> Named {
        let mut named = Named { own: self.own_complaints(owners), ..Named::default() };
        for row in self.hosts.values() {
            for link in &row.report.links {
                let ends = ends(row, &link.nic, &link.peer, owners);
                let far = &ends[1].host;
                let nic = row.report.suspect("nic", &link.nic);
                let peer = row.report.suspect("peer", &link.peer);
                let is_own = named.own.contains_key(far);
                let peer = peer.filter(|one| !(one.is_own() && is_own));
                let peer = peer.filter(|_| !self.explains_itself(far));
                let found = [nic, peer].into_iter().flatten();
                for suspect in found.filter(|one| !(is_own && one.is_of_way())) {
                    named.add(ends.clone(), &row.report.host, suspect);
                }
            }
        }
        named
    }

    /// What agents say of hosts whose own programs take long. Where packets are lost at either end,
    /// or a thread of the agent's own host has no core, only what the peer says itself counts.
    fn own_complaints(
        &self,
        owners: &BTreeMap<String, NicOfHost>,
    ) -> BTreeMap<String, Vec<OwnComplaint>> {
        let mut own: BTreeMap<String, Vec<OwnComplaint>> = BTreeMap::new();
        let lossy = self.lossy_hosts(owners);
        for report in self.hosts.values().map(|row| &row.report) {
            let host = report.host.as_str();
            for suspect in report.counted().filter(|one| one.kind == "peer" && one.is_own()) {
                let far = host_of(&suspect.name, owners);
                let is_lossy = [host, far].iter().any(|end| lossy.contains(end));
                if is_lossy && !suspect.is_said_by_peer() {
                    continue;
                }
                let text = format!("{host}: peer {}: {}", suspect.name, suspect.evidence);
                let complaint = OwnComplaint { since_ms: suspect.since_ms, text };
                own.entry(far.to_owned()).or_default().push(complaint);
            }
        }
        own
    }

    /// Hosts at whose NICs packets are lost, as they or their peers see it.
    fn lossy_hosts<'a>(&'a self, owners: &'a BTreeMap<String, NicOfHost>) -> BTreeSet<&'a str> {
        let reports = self.hosts.values().map(|row| &row.report);
        let suspects = reports
            .flat_map(|report| report.suspects.iter().map(move |suspect| (&report.host, suspect)));
        let lossy = suspects.filter(|(_, suspect)| suspect.is_of_loss());
        let hosts = lossy.filter_map(|(host, suspect)| match suspect.kind.as_str() {
            "nic" => Some(host.as_str()),
            "peer" => Some(host_of(&suspect.name, owners)),
            _ => None,
        });
        hosts.collect()
    }

    fn explains_itself(&self, host: &str) -> bool {
        let row = self.hosts.get(host);
        row.is_some_and(|row| row.report.suspects.iter().any(|one| inner(one).is_some()))
    }

    fn links(&self, owners: &BTreeMap<String, NicOfHost>, named: &Named) -> Vec<ClusterLink> {
        let rows = self.hosts.values();
        let links = rows.flat_map(|row| row.report.links.iter().map(move |link| (row, link)));
        let links = links.map(|(row, link)| {
            let [from, to] = ends(row, &link.nic, &link.peer, owners);
            let is_sick = named.sick.contains(&sorted([from.clone(), to.clone()]));
            let (round_trip_ns, sent_again) = (link.round_trip_ns, link.sent_again);
            ClusterLink { from, to, is_sick, round_trip_ns, sent_again }
        });
        links.filter(|link| link.from.host != link.to.host).collect()
    }

    fn culprits(&self, links: &[ClusterLink], named: &Named) -> Vec<NamedCulprit> {
        let both_ends: BTreeSet<([NicOfHost; 2], bool)> = links
            .iter()
            .map(|link| (sorted([link.from.clone(), link.to.clone()]), link.is_sick))
            .collect();
        let judged =
            both_ends.into_iter().map(|([from, to], is_sick)| JudgedLink { from, to, is_sick });
        let judged: Vec<JudgedLink> = judged.collect();
        let found = culprits(&judged, &self.switches());
        let found = found.into_iter().map(|culprit| named.evidence_of(culprit));
        let own = named.own.iter().filter(|(host, _)| !self.explains_itself(host));
        let own = own.map(|(host, said)| slow_host(host, said));
        own.chain(found).chain(self.inner_culprits()).collect()
    }

    fn switches(&self) -> Switches {
        let rows = self.hosts.values().map(|row| &row.report);
        let nics = rows.flat_map(|report| report.nics.iter().map(move |nic| (&report.host, nic)));
        let known = nics
            .filter_map(|(host, nic)| Some((NicOfHost::new(host, &nic.name), nic.switch.clone()?)));
        known.collect()
    }

    /// Disks, threads and NICs without links, which hosts name themselves.
    fn inner_culprits(&self) -> Vec<NamedCulprit> {
        let mut found = Vec::new();
        for AgentReport { host, suspects, links, .. } in self.hosts.values().map(|row| &row.report)
        {
            for suspect in suspects {
                let is_linked = links.iter().any(|link| link.nic == suspect.name);
                let alone = (suspect.kind == "nic" && !is_linked).then_some(CulpritKind::Nic);
                let Some(kind) = inner(suspect).or(alone) else {
                    continue;
                };
                found.push(NamedCulprit {
                    kind,
                    name: format!("{host}/{}", suspect.name),
                    sick_links: 0,
                    links: 0,
                    since_ms: suspect.since_ms,
                    evidence: vec![format!("{host}: {}", suspect.evidence)],
                });
            }
        }
        found
    }
}

impl HostRow {
    fn judged(&self, now_ms: u64) -> JudgedHost {
        JudgedHost {
            host: self.report.host.clone(),
            nics: self.report.nics.iter().map(|nic| nic.name.clone()).collect(),
            age_ms: now_ms.saturating_sub(self.taken_ms),
            agent: self.report.port.map(|port| SocketAddr::new(self.from, port).to_string()),
        }
    }
}

impl Named {
    fn add(&mut self, ends: [NicOfHost; 2], host: &str, suspect: &ReportedSuspect) {
        let ReportedSuspect { kind, name, evidence, since_ms, .. } = suspect;
        let text = format!("{host}: {kind} {name}: {evidence}");
        let ends = sorted(ends);
        self.sick.insert(ends.clone());
        self.said.entry(ends).or_default().push((*since_ms, text));
    }

    /// A culprit with what agents say of its links, the earliest first.
    fn evidence_of(&self, culprit: Culprit) -> NamedCulprit {
        let ends = culprit.links.iter().map(|link| sorted(link.clone()));
        let said: BTreeSet<&(u64, String)> =
            ends.filter_map(|ends| self.said.get(&ends)).flatten().collect();
        NamedCulprit {
            kind: culprit.kind,
            name: culprit.name,
            sick_links: culprit.sick,
            links: culprit.looked_at,
            since_ms: said.first().map_or(0, |(since_ms, _)| *since_ms),
            evidence: said.into_iter().take(EVIDENCE_MAX).map(|(_, text)| text.clone()).collect(),
        }
    }
}

/// The host of a peer; its address where that is not known.
fn host_of<'a>(peer: &'a str, owners: &'a BTreeMap<String, NicOfHost>) -> &'a str {
    owners.get(peer).map_or(peer, |nic| nic.host.as_str())
}

/// A host whose programs take long, as its peers measure it.
fn slow_host(host: &str, said: &[OwnComplaint]) -> NamedCulprit {
    NamedCulprit {
        kind: CulpritKind::Host,
        name: host.to_owned(),
        sick_links: 0,
        links: 0,
        since_ms: said.iter().map(|one| one.since_ms).min().unwrap_or(0),
        evidence: said.iter().take(EVIDENCE_MAX).map(|one| one.text.clone()).collect(),
    }
}

/// A suspect that its host has inside.
fn inner(suspect: &ReportedSuspect) -> Option<CulpritKind> {
    match suspect.kind.as_str() {
        "disk" => Some(CulpritKind::Disk),
        "shard" => Some(CulpritKind::Shard),
        _ => None,
    }
}

fn ends(
    row: &HostRow,
    nic: &str,
    peer: &str,
    owners: &BTreeMap<String, NicOfHost>,
) -> [NicOfHost; 2] {
    let unknown = || NicOfHost::new(peer, "");
    let far = owners.get(peer).cloned().unwrap_or_else(unknown);
    [NicOfHost::new(&row.report.host, nic), far]
}

fn sorted(mut ends: [NicOfHost; 2]) -> [NicOfHost; 2] {
    ends.sort();
    ends
}

fn settle_ms(kind: CulpritKind) -> u64 {
    match kind {
        CulpritKind::Path => SETTLE_PATH_MS,
        _ => SETTLE_MS,
    }
}

#[cfg(test)]
mod tests;
