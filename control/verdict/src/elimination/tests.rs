//! Clusters of which one part is sick, and clusters of which any links are.

use super::*;
use proptest::prelude::*;

/// All links of so many hosts over two rails; those are sick of which `is_sick` says so.
fn mesh(hosts: usize, is_sick: impl Fn(&NicOfHost, &NicOfHost) -> bool) -> Vec<JudgedLink> {
    let mut links = Vec::new();
    for one in 0..hosts {
        for other in one + 1..hosts {
            for nic in ["rail0", "rail1"] {
                let (from, to) = (nic_of(one, nic), nic_of(other, nic));
                let is_sick = is_sick(&from, &to);
                links.push(JudgedLink { from, to, is_sick });
            }
        }
    }
    links
}

fn nic_of(host: usize, nic: &str) -> NicOfHost {
    NicOfHost::new(format!("h{host}"), nic)
}

fn named(links: &[JudgedLink], switches: &Switches) -> Vec<(CulpritKind, String)> {
    culprits(links, switches).into_iter().map(|one| (one.kind, one.name)).collect()
}

fn one(kind: CulpritKind, name: &str) -> Vec<(CulpritKind, String)> {
    vec![(kind, name.to_owned())]
}

#[test]
fn a_cluster_that_is_well_has_no_culprit() {
    assert_eq!(named(&mesh(4, |_, _| false), &Switches::new()), []);
    assert_eq!(named(&[], &Switches::new()), []);
}

#[test]
fn a_nic_that_is_sick_to_all_is_the_nic() {
    let sick = nic_of(2, "rail1");
    for hosts in 3..6 {
        let links = mesh(hosts, |from, to| *from == sick || *to == sick);
        assert_eq!(named(&links, &Switches::new()), one(CulpritKind::Nic, "h2/rail1"), "{hosts}");
    }
}

#[test]
fn one_sick_pair_is_the_path_between_its_ends() {
    let (one_end, other) = (nic_of(0, "rail1"), nic_of(3, "rail1"));
    let links = mesh(4, |from, to| *from == one_end && *to == other);
    assert_eq!(named(&links, &Switches::new()), one(CulpritKind::Path, "h0/rail1 - h3/rail1"));
}

#[test]
fn two_hosts_cannot_tell_the_ends_of_a_link_apart() {
    let links = mesh(2, |from, _| from.nic == "rail1");
    assert_eq!(named(&links, &Switches::new()), one(CulpritKind::Path, "h0/rail1 - h1/rail1"));
}

#[test]
fn a_host_that_is_sick_on_all_rails_is_the_host() {
    let links = mesh(4, |from, to| from.host == "h1" || to.host == "h1");
    assert_eq!(named(&links, &Switches::new()), one(CulpritKind::Host, "h1"));
}

#[test]
fn hosts_behind_one_switch_are_not_named_for_it() {
    let links = mesh(4, |from, _| from.nic == "rail1");
    let common = "the switch of all rail1";
    assert_eq!(named(&links, &Switches::new()), one(CulpritKind::Switch, common));
    let leaf = |host| (nic_of(host, "rail1"), "leaf-7".to_owned());
    let switches: Switches = (0..4).map(leaf).collect();
    assert_eq!(named(&links, &switches), one(CulpritKind::Switch, "leaf-7"));
}

#[test]
fn a_switch_with_some_of_the_hosts_is_named_and_not_the_other_switches() {
    // Hosts 0 to 2 hang on one, 3 to 6 on the other; what goes over the first is sick.
    let is_first = |nic: &NicOfHost| ["h0", "h1", "h2"].contains(&nic.host.as_str());
    let links = mesh(7, |from, to| from.nic == "rail0" && (is_first(from) || is_first(to)));
    let leaf = |host: usize| {
        (nic_of(host, "rail0"), if host < 3 { "leaf-1" } else { "leaf-2" }.to_owned())
    };
    let switches: Switches = (0..7).map(leaf).collect();
    assert_eq!(named(&links, &switches), one(CulpritKind::Switch, "leaf-1"));
}

#[test]
fn two_faults_are_two_culprits() {
    let sick = nic_of(0, "rail0");
    let (here, there) = (nic_of(2, "rail1"), nic_of(3, "rail1"));
    let links = mesh(5, |from, to| *from == sick || *to == sick || (*from == here && *to == there));
    let found = named(&links, &Switches::new());
    let nic = (CulpritKind::Nic, "h0/rail0".to_owned());
    assert_eq!(found, [nic, (CulpritKind::Path, "h2/rail1 - h3/rail1".to_owned())]);
}

proptest! {
    #[test]
    fn each_sick_link_has_one_culprit_and_no_other_link_has_any(
        hosts in 2usize..7,
        sick in proptest::collection::vec(any::<bool>(), 64),
    ) {
        let mut links = mesh(hosts, |_, _| false);
        for (link, is_sick) in links.iter_mut().zip(&sick) {
            link.is_sick = *is_sick;
        }
        let found = culprits(&links, &Switches::new());
        let mut explained: Vec<_> = found.iter().flat_map(|one| one.links.clone()).collect();
        let mut wanted: Vec<_> = links.iter().filter(|link| link.is_sick).map(ends).collect();
        explained.sort();
        wanted.sort();
        prop_assert_eq!(explained, wanted);
        for one in &found {
            prop_assert_eq!(one.sick, one.links.len());
            prop_assert!(one.sick <= one.looked_at);
        }
    }
}
