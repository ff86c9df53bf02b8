//! The hosts of a mesh and the links between them.

use crate::client::{MeshError, facts, have_measured, measure};
use crate::facts::{MeshHost, NicAddress, NicFacts};
use crate::limits::PORT;
use crate::plan::LinkPlan;
use crate::readings::LinkResult;
use crate::schedule::turns;
use perigee_verdict::NicOfHost;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Mutex, PoisonError};

/// A host of the mesh.
#[derive(Clone, Debug)]
struct Station {
    /// A name that no other has.
    name: String,
    facts: MeshHost,
    /// Its server; this host needs none.
    server: Option<SocketAddr>,
}

/// A host that was named and is not part of the mesh.
#[derive(Debug)]
pub struct Unheard {
    /// As it was written.
    pub host: String,
    /// Why.
    pub reason: String,
}

/// The hosts of a mesh.
#[derive(Clone, Debug, Default)]
pub struct Mesh {
    stations: Vec<Station>,
}

/// One end of a link.
#[derive(Clone, Copy, Debug)]
struct LinkEnd<'a> {
    nic: &'a NicFacts,
    address: NicAddress,
}

/// A link that is to be measured.
#[derive(Debug)]
struct PlannedLink<'a> {
    from: LinkEnd<'a>,
    to: LinkEnd<'a>,
}

impl Mesh {
    /// Asks the servers of `hosts` (`HOST` or `HOST:PORT`) who they are. `here` is part of the mesh
    /// also without a server.
    #[must_use]
    pub fn gather(hosts: &[String], here: MeshHost) -> (Self, Vec<Unheard>) {
        let asked = std::thread::scope(|scope| {
            let asking = hosts.iter().map(|host| (host, scope.spawn(move || meet(host))));
            let asking: Vec<_> = asking.collect();
            let gone = || Err("the thread that asked it is gone".to_owned());
            let join = asking
                .into_iter()
                .map(|(host, thread)| (host, thread.join().unwrap_or_else(|_| gone())));
            join.collect::<Vec<_>>()
        });
        let (mut mesh, mut unheard) = (Self::default(), Vec::new());
        for (host, answer) in asked {
            match answer {
                Ok((server, facts)) if mesh.stations.iter().all(|one| one.facts != facts) => {
                    mesh.add(facts, Some(server));
                }
                Ok(_) => {}
                Err(reason) => unheard.push(Unheard { host: host.clone(), reason }),
            }
        }
        let is_here =
            |station: &Station| here.nics.iter().any(|nic| station.facts.nics.contains(nic));
        if !here.nics.is_empty() && !mesh.stations.iter().any(is_here) {
            mesh.add(here, None);
        }
        (mesh, unheard)
    }

    fn add(&mut self, facts: MeshHost, server: Option<SocketAddr>) {
        let is_taken = |name: &str| self.stations.iter().any(|one| one.name == name);
        let mut name = facts.host.clone();
        if is_taken(&name) {
            let address = facts.nics.first().and_then(|nic| nic.addresses.first());
            name = match address {
                Some(address) => format!("{name}@{}", address.address),
                None => format!("{name}@{}", self.stations.len()),
            };
        }
        self.stations.push(Station { name, facts, server });
    }

    /// Names and facts of all hosts.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, &MeshHost)> {
        self.stations.iter().map(|station| (station.name.as_str(), &station.facts))
    }

    /// How many links there are.
    #[must_use]
    pub fn links(&self) -> usize {
        let pairs = turns(self.stations.len()).concat();
        pairs.iter().map(|pair| self.planned(*pair).len()).sum()
    }

    /// Measures all links, those of at most so many pairs of hosts at the same time (0: as many as
    /// there are), and tells of each.
    pub fn measure(
        &self,
        plan: LinkPlan,
        at_once: usize,
        tell: &(dyn Fn(&LinkResult) + Sync),
    ) -> Vec<LinkResult> {
        let results = Mutex::new(Vec::new());
        for turn in turns(self.stations.len()) {
            let most = if at_once == 0 { turn.len().max(1) } else { at_once };
            for pairs in turn.chunks(most) {
                std::thread::scope(|scope| {
                    for pair in pairs {
                        let results = &results;
                        scope.spawn(move || {
                            for result in self.measure_pair(*pair, plan) {
                                tell(&result);
                                let mut all =
                                    results.lock().unwrap_or_else(PoisonError::into_inner);
                                all.push(result);
                            }
                        });
                    }
                });
            }
        }
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by(|one, other| (&one.from, &one.to).cmp(&(&other.from, &other.to)));
        results
    }

    fn planned(&self, (from, to): (usize, usize)) -> Vec<PlannedLink<'_>> {
        links(&self.stations[from].facts, &self.stations[to].facts)
    }

    /// Links of a pair, one after the other; the end without a server measures.
    fn measure_pair(&self, (one, other): (usize, usize), plan: LinkPlan) -> Vec<LinkResult> {
        let (from, to) = match self.stations[other].server {
            Some(_) => (one, other),
            None => (other, one),
        };
        let (near, far) = (&self.stations[from], &self.stations[to]);
        let port = far.server.map_or(PORT, |server| server.port());
        let planned = self.planned((from, to)).into_iter();
        let results = planned.map(|link| {
            let from = (link.from.nic.name.as_str(), link.from.address.address);
            let to = SocketAddr::new(link.to.address.address, port);
            let frame_bytes = link.from.nic.mtu.min(link.to.nic.mtu);
            let measured = match near.server {
                Some(control) => have_measured(control, from, to, frame_bytes, plan),
                None => measure(from, to, frame_bytes, plan),
            };
            LinkResult {
                from: NicOfHost::new(&near.name, from.0),
                to: NicOfHost::new(&far.name, &link.to.nic.name),
                nic_frame_bytes: [link.from.nic.mtu, link.to.nic.mtu],
                speed_mbps: link.from.nic.speed_mbps.min(link.to.nic.speed_mbps),
                outcome: measured.map_err(|error: MeshError| error.to_string()),
            }
        });
        results.collect()
    }
}

/// Links between two hosts: NICs of one network, else NICs of one name.
fn links<'a>(from: &'a MeshHost, to: &'a MeshHost) -> Vec<PlannedLink<'a>> {
    let (near, far) = (ends(from), ends(to));
    let mut links: Vec<PlannedLink<'a>> = Vec::new();
    for (place, end) in near.iter().enumerate() {
        let beside = |other: &&LinkEnd<'_>| end.address.is_beside(&other.address);
        let reached: Vec<&LinkEnd<'a>> = far.iter().filter(beside).collect();
        let mut named = reached.iter().filter(|other| other.nic.name == end.nic.name);
        let Some(other) = named.next().or_else(|| reached.get(place % reached.len().max(1))) else {
            continue;
        };
        let is_known = |link: &PlannedLink<'_>| {
            link.from.nic.name == end.nic.name && link.to.nic.name == other.nic.name
        };
        if !links.iter().any(is_known) {
            links.push(PlannedLink { from: *end, to: **other });
        }
    }
    if !links.is_empty() {
        return links;
    }
    for end in &near {
        let same = |other: &&LinkEnd<'_>| {
            other.nic.name == end.nic.name
                && other.address.address.is_ipv4() == end.address.address.is_ipv4()
        };
        let is_known = links.iter().any(|link| link.from.nic.name == end.nic.name);
        if let (Some(other), false) = (far.iter().find(same), is_known) {
            links.push(PlannedLink { from: *end, to: *other });
        }
    }
    links
}

fn ends(facts: &MeshHost) -> Vec<LinkEnd<'_>> {
    let all = facts.nics.iter().flat_map(|nic| {
        nic.addresses.iter().map(move |address| LinkEnd { nic, address: *address })
    });
    all.collect()
}

/// Where a host answers, and what it says of itself.
fn meet(host: &str) -> Result<(SocketAddr, MeshHost), String> {
    let advice = "start `perigee check --serve` there, or its agent with --check_host";
    let mut last = "it has no address".to_owned();
    for server in resolve(host).map_err(|error| format!("the name is not known: {error}"))? {
        match facts(server) {
            Ok(facts) => return Ok((server, facts)),
            Err(error) => last = format!("{error}; {advice}"),
        }
    }
    Err(last)
}

/// Addresses of `HOST` or `HOST:PORT`; an IPv6 address may stand without brackets.
fn resolve(host: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<Ipv6Addr>() {
        return Ok(vec![SocketAddr::new(IpAddr::V6(address), PORT)]);
    }
    let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
    let found = match has_port {
        true => host.to_socket_addrs()?,
        false => (host.trim_matches(['[', ']']), PORT).to_socket_addrs()?,
    };
    Ok(found.collect())
}

#[cfg(test)]
mod tests;
