//! Two machines, rail by rail: the end of one program is a power cut for the other.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use perigee_verbs::{CompletionStatus, EndpointAddress, Sge, WorkOperation, WorkRequest};

use crate::end::{BYTES, End, LONG, host, impatient, pattern};

const PORT: u16 = 7471;

/// What one host tells the other: its end of the connection, and its memory.
struct Greeting {
    endpoint: EndpointAddress,
    address: u64,
    key: u32,
}

impl Greeting {
    fn of(end: &End) -> Greeting {
        Greeting {
            endpoint: *end.pair.endpoint(),
            address: end.region.address(),
            key: end.region.remote_key(),
        }
    }

    fn to_line(&self) -> String {
        let endpoint = &self.endpoint;
        format!(
            "{} {} {} {} {} {}\n",
            u128::from_be_bytes(endpoint.gid),
            endpoint.queue_pair,
            endpoint.sequence,
            endpoint.mtu_bytes,
            self.address,
            self.key
        )
    }

    fn from_line(line: &str) -> Greeting {
        let numbers: Vec<u128> =
            line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let number = |at: usize| u32::try_from(numbers[at]).unwrap();
        Greeting {
            endpoint: EndpointAddress {
                gid: numbers[0].to_be_bytes(),
                lid: 0,
                queue_pair: number(1),
                sequence: number(2),
                mtu_bytes: number(3),
            },
            address: u64::try_from(numbers[4]).unwrap(),
            key: number(5),
        }
    }
}

/// The words between the hosts.
struct Line {
    reader: BufReader<TcpStream>,
}

impl Line {
    fn new(stream: TcpStream) -> Line {
        stream.set_read_timeout(Some(LONG)).unwrap();
        Line { reader: BufReader::new(stream) }
    }

    fn say(&mut self, line: &str) {
        self.reader.get_mut().write_all(line.as_bytes()).unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line
    }
}

fn connect(address: &str) -> Line {
    let end = Instant::now() + LONG;
    loop {
        match TcpStream::connect((address, PORT)) {
            Ok(stream) => return Line::new(stream),
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::yield_now();
    }
}

/// Joins `end` with the other host's, and waits until both can answer.
fn meet(line: &mut Line, end: &mut End) -> Greeting {
    line.say(&Greeting::of(end).to_line());
    let theirs = Greeting::from_line(&line.hear());
    end.pair.connect(&theirs.endpoint, &impatient()).unwrap();
    line.say("connected\n");
    assert_eq!(line.hear(), "connected\n");
    theirs
}

/// The first host's part: sees what the other wrote, clears it, says so.
fn receive(line: &mut Line, end: &End) {
    assert_eq!(line.hear(), "written\n");
    assert!((0..BYTES).all(|offset| end.bytes(offset, 1) == [pattern(offset)]));
    end.fill(|_| 0);
    line.say("seen\n");
}

fn write<'a>(pieces: &'a [Sge], theirs: &Greeting) -> WorkRequest<'a> {
    WorkRequest {
        id: 1,
        operation: WorkOperation::Write(pieces),
        remote_address: theirs.address,
        remote_key: theirs.key,
        signaled: true,
    }
}

/// The link-local IPv6 entry: all that a host without any other address has. It comes a moment
/// late.
fn ipv6_index(end: &End) -> u32 {
    let limit = Instant::now() + LONG;
    loop {
        let gids = end.device.gids().unwrap();
        let found = gids.iter().find(|gid| gid.text().starts_with("fe80:"));
        match found {
            Some(gid) => return gid.index,
            None => assert!(Instant::now() < limit, "{gids:?}"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn two_hosts_meet_over_ipv4_and_ipv6_and_one_survives_the_power_cut_of_the_other() {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let peers = variable("PERIGEE_VM_PEER_ADDRESSES");
    let Some(peer) = peers.split_whitespace().next() else {
        return;
    };
    let Some(host) = host() else { return };
    let own = variable("PERIGEE_VM_ADDRESSES");
    let own = own.split_whitespace().next().unwrap();
    let first = variable("PERIGEE_VM_HOST") == "0";
    let mut line = if first {
        let listener = TcpListener::bind((own, PORT)).unwrap();
        Line::new(listener.accept().unwrap().0)
    } else {
        connect(peer)
    };
    let mut end = host.end(0);
    let pieces = [end.piece(0, BYTES)];
    if !first {
        end.fill(pattern);
    }
    for round in ["IPv4", "IPv6"] {
        if round == "IPv6" {
            end.gid_index = ipv6_index(&end);
            end.renew();
        }
        let theirs = meet(&mut line, &mut end);
        if first {
            receive(&mut line, &end);
            continue;
        }
        assert_eq!(end.run(write(&pieces, &theirs)), CompletionStatus::Success, "{round}");
        line.say("written\n");
        assert_eq!(line.hear(), "seen\n");
        if round == "IPv6" {
            // The first host's program has ended by now, and its machine with it.
            let started = Instant::now();
            while end.run(write(&pieces, &theirs)).is_success() {
                assert!(started.elapsed() < LONG, "the other host does not end");
            }
        }
    }
}
