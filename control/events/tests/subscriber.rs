//! A subscriber on a socket: what it is sent while it listens, and after it was away.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use perigee_events::{Endpoint, EventPublisher, EventSettings};
use perigee_master::{KeyChange, KeyEvent, KeyEventQueue, Medium};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const GREETING_BYTES: usize = 64;
/// Our READY as a SUB socket, and a subscription to everything.
const READY_AND_SUBSCRIBE: &[u8] =
    b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB\x00\x01\x01";

fn publisher() -> EventPublisher {
    let settings = EventSettings {
        publish: Endpoint::Tcp("127.0.0.1".to_owned(), 0),
        replay: None,
        backend_id: "pool".to_owned(),
        model_name: None,
        block_size: None,
        additional_salt: None,
        lora_name: None,
        dp_rank: 0,
        has_object_key: true,
        has_legacy_fields: true,
        queue_capacity: 1 << 16,
    };
    EventPublisher::start(&settings, 1).unwrap()
}

fn store(queue: &KeyEventQueue, key: &str) {
    if queue.is_wanted() {
        queue.push(&KeyEvent {
            change: KeyChange::Stored,
            medium: Medium::Memory,
            key: key.as_bytes(),
            payload_bytes: 1,
            group: None,
        });
    }
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

struct Listener(TcpStream);

impl Listener {
    fn join(publisher: &EventPublisher) -> Self {
        let Endpoint::Tcp(host, port) = publisher.publish_endpoint() else {
            unreachable!("it is a TCP port");
        };
        let mut stream = TcpStream::connect((host.as_str(), *port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut greeting = [0; GREETING_BYTES];
        (greeting[0], greeting[9], greeting[10]) = (0xff, 0x7f, 3);
        greeting[12..16].copy_from_slice(b"NULL");
        stream.write_all(&greeting).unwrap();
        stream.write_all(READY_AND_SUBSCRIBE).unwrap();
        stream.read_exact(&mut greeting).unwrap();
        let mut listener = Self(stream);
        listener.frame();
        listener
    }

    fn frame(&mut self) -> Vec<u8> {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        let length = if head[0] & 2 == 0 {
            usize::from(head[1])
        } else {
            let mut length = [head[1], 0, 0, 0, 0, 0, 0, 0];
            self.0.read_exact(&mut length[1..]).unwrap();
            u64::from_be_bytes(length) as usize
        };
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        body
    }

    /// The number of the next message, and its events.
    fn message(&mut self) -> (u64, Vec<String>) {
        assert_eq!(self.frame(), b"");
        let number = u64::from_be_bytes(self.frame().try_into().unwrap());
        let batch = self.frame();
        type Batch = (u64, Vec<Event>, u32);
        let (_, events, _): Batch = rmp_serde::from_slice(&batch).unwrap();
        (number, events.into_iter().map(|event| event.object_key).collect())
    }

    /// Reads on until this key has come; the number behind that of its message.
    fn read_to(&mut self, key: &str) -> u64 {
        loop {
            let (number, events) = self.message();
            if events.iter().any(|heard| heard == key) {
                return number + 1;
            }
        }
    }

    /// Stores keys until the first one is heard; its number.
    fn settle(&mut self, queue: &KeyEventQueue) -> u64 {
        let short = Some(Duration::from_millis(20));
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            store(queue, "first");
            self.0.set_read_timeout(short).unwrap();
            if self.0.peek(&mut [0]).is_ok() {
                self.0.set_read_timeout(Some(PATIENCE)).unwrap();
                return self.message().0;
            }
        }
        panic!("nothing was heard");
    }
}

#[derive(serde::Deserialize)]
struct Event {
    object_key: String,
}

#[test]
fn a_subscriber_hears_every_event_in_order_and_numbers_without_a_gap() {
    let publisher = publisher();
    let queue = publisher.queue(0).unwrap();
    let mut listener = Listener::join(&publisher);
    let mut expected = listener.settle(&queue) + 1;
    let keys: Vec<String> = (0..10_000).map(|key| key.to_string()).collect();
    keys.iter().for_each(|key| store(&queue, key));
    let mut heard = Vec::new();
    while heard.len() < keys.len() {
        let (number, events) = listener.message();
        assert_eq!(number, expected);
        expected += 1;
        heard.extend(events.into_iter().filter(|key| key != "first"));
    }
    assert_eq!(heard, keys);
}

#[test]
fn who_was_away_sees_that_something_was_missed() {
    let publisher = publisher();
    let queue = publisher.queue(0).unwrap();
    let mut listener = Listener::join(&publisher);
    listener.settle(&queue);
    store(&queue, "last");
    let expected = listener.read_to("last");
    drop(listener);
    wait_for("it is gone", || !queue.is_wanted());
    store(&queue, "missed");
    let mut back = Listener::join(&publisher);
    assert!(back.settle(&queue) > expected);
    assert_eq!(publisher.counts().dropped_events, 0);
}
