//! Data connections have their congestion control from birth, also where the host's default is BBR:
//! a connection that is switched later keeps BBR's pacing for good.
#![allow(clippy::unwrap_used, reason = "tests")]

use nix::sched::{CloneFlags, unshare};
use perigee_reactor::{Congestion, connect_blocking, connect_socket, listen_socket, suit_accepted};
use socket2::SockRef;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const LONG: Duration = Duration::from_secs(20);
/// Another network than the loopback's, on a device of the namespace's own.
const ADDRESS: &str = "10.213.9.1";

/// Enters a network namespace whose default is BBR; why not, if that cannot be had.
fn enter_bbr() -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("no namespace: {error}"))?;
    std::fs::write(DEFAULT, "bbr").map_err(|error| format!("no BBR: {error}"))?;
    for words in ["link set lo up", &format!("address add {ADDRESS}/32 dev lo")] {
        let status = Command::new("ip").args(words.split(' ')).status();
        assert!(status.unwrap().success(), "ip {words}");
    }
    Ok(())
}

fn congestion_of(socket: &impl AsFd) -> String {
    let name = SockRef::from(socket).tcp_congestion().unwrap();
    let name = String::from_utf8(name).unwrap();
    name.trim_end_matches('\0').to_owned()
}

/// The congestion control of a connection's two ends, and of a socket that is about to connect, for
/// a listener on `ip` or on all addresses.
fn at_birth(ip: &str, on_all: bool, congestion: &Congestion) -> [String; 3] {
    let own = if on_all { "0.0.0.0" } else { ip };
    let address = SocketAddr::new(own.parse().unwrap(), 0);
    let listener = TcpListener::from(listen_socket(address, false, congestion).unwrap());
    let port = listener.local_addr().unwrap().port();
    let address = SocketAddr::new(ip.parse().unwrap(), port);
    let client = connect_blocking(address, LONG, congestion, || false).unwrap();
    let (server, _) = listener.accept().unwrap();
    suit_accepted(server.as_fd(), congestion);
    let (unconnected, _) = connect_socket(address, congestion).unwrap();
    [congestion_of(&client), congestion_of(&server), congestion_of(&unconnected)]
}

#[test]
fn connections_are_born_with_the_wanted_congestion_control() {
    if let Err(reason) = enter_bbr() {
        println!("SKIP: {reason}");
        return;
    }
    let names = [
        ("127.0.0.1", Congestion::Automatic, "reno"),
        (ADDRESS, Congestion::Automatic, "cubic"),
        (ADDRESS, Congestion::Host, "bbr"),
        (ADDRESS, Congestion::Named("reno".into()), "reno"),
    ];
    for (ip, congestion, name) in names {
        for on_all in [false, true] {
            let found = at_birth(ip, on_all, &congestion);
            assert_eq!(found, [name; 3], "{congestion:?} to {ip}, {on_all}");
        }
    }
}

#[test]
fn a_refused_connection_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let refused = connect_blocking(address, LONG, &Congestion::Automatic, || false).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}
