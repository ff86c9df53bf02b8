//! A server and those that measure it, on the loopback.

use super::*;
use crate::limits::LINE_BYTES_MAX;
use std::io::{Read as _, Write as _};
use std::time::Duration;

const PLAN: LinkPlan = LinkPlan { load_ms: 60, streams: 2, probes: 200 };
const LOCAL: (&str, IpAddr) = ("lo", IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

fn server() -> MeshServer {
    MeshServer::start("127.0.0.1:0".parse().unwrap(), "here", &[]).unwrap()
}

fn ask(stream: &TcpStream, request: &MeshRequest) -> MeshAnswer {
    say(stream, request).unwrap();
    hear(stream, Duration::from_secs(10)).unwrap().unwrap()
}

#[test]
fn a_link_is_measured_both_ways() {
    let server = server();
    let readings = measure(LOCAL, server.address(), 4000, PLAN).unwrap();
    assert!(readings.there.unwrap().bytes_per_second > 0.0, "{readings:?}");
    assert!(readings.back.unwrap().bytes_per_second > 0.0, "{readings:?}");
    assert!(readings.round_trip_min_ns > 0 && readings.segments > 0, "{readings:?}");
    assert_eq!(readings.frame_bytes, Some(4000));
    assert_eq!((readings.probes, readings.lost_there, readings.lost_back), (200, 0, 0));
    // The next has its turn as soon as this one is over.
    measure(LOCAL, server.address(), 4000, LinkPlan { load_ms: 0, ..PLAN }).unwrap();
}

#[test]
fn a_server_measures_for_others_towards_its_own_port_only() {
    let server = server();
    let stream = TcpStream::connect(server.address()).unwrap();
    let request = |to: SocketAddr| MeshRequest::Measure {
        nic: "lo".to_owned(),
        address: LOCAL.1,
        to,
        frame_bytes: 1500,
        plan: PLAN,
    };
    let foreign = SocketAddr::new(LOCAL.1, 22);
    let MeshAnswer::Refused { reason, .. } = ask(&stream, &request(foreign)) else {
        panic!("a foreign port is measured");
    };
    assert!(reason.contains("its own port"), "{reason}");
}

#[test]
fn one_session_at_a_time_and_no_load_without_one() {
    let server = server();
    let connect = || TcpStream::connect(server.address()).unwrap();
    let (first, second, third) = (connect(), connect(), connect());
    let open = MeshRequest::Open { plan: PLAN };
    let MeshAnswer::Opened { session, .. } = ask(&first, &open) else {
        panic!("no session");
    };
    assert!(matches!(ask(&second, &open), MeshAnswer::Refused { wait_ms: Some(_), .. }));
    let foreign = MeshRequest::Stream { session: !session, is_read: true };
    assert!(matches!(ask(&third, &foreign), MeshAnswer::Refused { wait_ms: None, .. }));
    // A session has no more connections than its plan.
    let own = MeshRequest::Stream { session, is_read: false };
    let streams: Vec<TcpStream> = (0..PLAN.streams * 2).map(|_| connect()).collect();
    for stream in &streams {
        assert!(matches!(ask(stream, &own), MeshAnswer::Go));
    }
    assert!(matches!(ask(&connect(), &own), MeshAnswer::Refused { wait_ms: None, .. }));
    drop((first, streams));
    measure(LOCAL, server.address(), 1500, LinkPlan { load_ms: 0, ..PLAN }).unwrap();
}

#[test]
fn a_plan_beyond_the_bounds_is_refused() {
    let server = server();
    let beyond = [
        LinkPlan { load_ms: 60_000, ..PLAN },
        LinkPlan { streams: 0, ..PLAN },
        LinkPlan { streams: 10_000, ..PLAN },
        LinkPlan { probes: u32::MAX, ..PLAN },
    ];
    for plan in beyond {
        let stream = TcpStream::connect(server.address()).unwrap();
        let answer = ask(&stream, &MeshRequest::Open { plan });
        assert!(matches!(answer, MeshAnswer::Refused { wait_ms: None, .. }), "{plan:?}");
    }
}

#[test]
fn noise_ends_its_connection_and_nothing_else() {
    let server = server();
    let long = vec![b'x'; LINE_BYTES_MAX + 2];
    let noise: [&[u8]; 4] = [b"GET / HTTP/1.1\r\n\r\n", b"{\"ask\":\"facts\"", b"\n\n\n", &long];
    for bytes in noise {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
    assert_eq!(crate::client::facts(server.address()).unwrap().host, "here");
}
