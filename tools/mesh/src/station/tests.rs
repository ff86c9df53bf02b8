//! Which NICs of two hosts are held against each other.

use super::*;

fn host(nics: &[(&str, &str)]) -> MeshHost {
    let nic = |(name, network): &(&str, &str)| {
        let (address, prefix) = network.split_once('/').unwrap();
        NicFacts {
            name: (*name).to_owned(),
            mtu: 1500,
            speed_mbps: None,
            addresses: vec![NicAddress {
                address: address.parse().unwrap(),
                prefix: prefix.parse().unwrap(),
            }],
        }
    };
    MeshHost { nics: nics.iter().map(nic).collect(), ..MeshHost::default() }
}

fn named(from: &MeshHost, to: &MeshHost) -> Vec<(String, String)> {
    let links = links(from, to);
    links.iter().map(|one| (one.from.nic.name.clone(), one.to.nic.name.clone())).collect()
}

fn pairs(names: &[(&str, &str)]) -> Vec<(String, String)> {
    names.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

#[test]
fn nics_of_one_network_are_a_link() {
    let one = host(&[("rail0", "10.0.0.1/24"), ("rail1", "10.0.1.1/24"), ("mgmt", "10.9.0.1/16")]);
    let other = host(&[("eth1", "10.0.1.2/24"), ("eth0", "10.0.0.2/24")]);
    assert_eq!(named(&one, &other), pairs(&[("rail0", "eth0"), ("rail1", "eth1")]));
}

#[test]
fn rails_that_share_a_network_are_paired_by_name() {
    let one = host(&[("rail0", "10.0.0.1/24"), ("rail1", "10.0.0.2/24")]);
    let other = host(&[("rail1", "10.0.0.4/24"), ("rail0", "10.0.0.3/24")]);
    assert_eq!(named(&one, &other), pairs(&[("rail0", "rail0"), ("rail1", "rail1")]));
}

#[test]
fn rails_of_routed_networks_are_paired_by_name() {
    let one = host(&[("rail0", "10.0.0.1/31"), ("rail1", "10.1.0.1/31")]);
    let other = host(&[("rail0", "10.0.2.1/31"), ("rail1", "10.1.2.1/31")]);
    assert_eq!(named(&one, &other), pairs(&[("rail0", "rail0"), ("rail1", "rail1")]));
    assert_eq!(named(&one, &host(&[("x", "fd00::1/64")])), []);
}

#[test]
fn hosts_are_found_with_and_without_a_port() {
    for (written, found) in [
        ("127.0.0.1", "127.0.0.1:9306"),
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("::1", "[::1]:9306"),
        ("[::1]:80", "[::1]:80"),
    ] {
        assert_eq!(resolve(written).unwrap(), [found.parse().unwrap()], "{written}");
    }
}
