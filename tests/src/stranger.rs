//! A peer that says what it likes to a master, through the calls that clients use.
//! Invariant: it lends no memory, whatever it says.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};

use perigee_rpc::{ClientOptions, MasterClient, SegmentOffer};
use perigee_schemas::frame::{FrameHeader, HEADER_BYTES};
use perigee_schemas::limits::HELLO_BODY_BYTES_MAX;
use perigee_schemas::session::Hello;
use perigee_schemas::{Identity, SegmentKind, Status};

use crate::cluster::Master;

/// The calls of a client with this identity, which may be another's.
pub fn stranger(master: &Master, identity: Identity) -> MasterClient {
    MasterClient::new(ClientOptions::new(&master.address(), identity))
}

/// A segment without an owner.
pub fn forged(id: u128, endpoint: &str, bytes: u64) -> SegmentOffer {
    SegmentOffer {
        id: Identity(id),
        bytes,
        base: 0,
        name: format!("forged-{id}:1"),
        endpoint: endpoint.to_owned(),
        host_id: format!("forged-{id}"),
        rendezvous: String::new(),
        protocol: "tcp".to_owned(),
        kind: SegmentKind::Memory,
    }
}

/// Announces segments in one call.
#[track_caller]
pub fn announce(client: &MasterClient, segments: &[SegmentOffer]) -> Vec<Status> {
    let verdicts = client.mount(segments, false, 0);
    assert!(verdicts.is_ok(), "the master answers: {verdicts:?}");
    verdicts.unwrap_or_default()
}

/// A data port that greets each peer under an identity and never says another word. It serves as
/// long as the test runs.
pub fn silent_owner(identity: Identity) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut header = [0; HEADER_BYTES];
            let Ok(()) = stream.read_exact(&mut header) else {
                continue;
            };
            let Ok(judged) = FrameHeader::decode(&header, HELLO_BODY_BYTES_MAX) else {
                continue;
            };
            let mut body = vec![0; judged.body_bytes];
            let Ok(()) = stream.read_exact(&mut body) else {
                continue;
            };
            if let Ok(hello) = Hello::decode(&body) {
                let welcome = hello.answer(identity.low()).encode();
                let _ = std::io::Write::write_all(&mut stream, &welcome);
                silent.push(stream);
            }
        }
    });
    address
}
