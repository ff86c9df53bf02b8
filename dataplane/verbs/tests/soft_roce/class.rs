//! What the network sees of class, partition and packet size: packets are taken off the links.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Instant;

use perigee_verbs::CompletionStatus::Success;
use perigee_verbs::{ConnectOptions, QueuePairOptions};

use crate::end::{LONG, guest, impatient, join_with, options};

/// UDP port of RoCE v2.
const ROCE_PORT: u16 = 4791;
/// DSCP 26, ECN-capable.
const TRAFFIC_CLASS: u8 = 26 << 2 | 2;
const MTU_BYTES: u32 = 512;
const WRITTEN_BYTES: usize = 8192;
/// Opcodes of the packets of a write of several.
const WRITE_FIRST: u8 = 6;
const WRITE_MIDDLE: u8 = 7;
const DEFAULT_PARTITION: u16 = 0xffff;

/// All packets of this machine, from when it is made.
struct Capture(File);

impl Capture {
    fn start() -> Self {
        let protocol = i32::from((libc::ETH_P_ALL as u16).to_be());
        // SAFETY: no memory of ours is involved.
        let fd = unsafe {
            libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, protocol)
        };
        assert!(fd >= 0, "{}", Error::last_os_error());
        // SAFETY: the descriptor was made just now and is owned by none else.
        Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next packet of RoCE over IPv4: its type of service and what follows the UDP header.
    fn next(&mut self) -> (u8, Vec<u8>) {
        let end = Instant::now() + LONG;
        let mut bytes = [0; 9000];
        while Instant::now() < end {
            let length = match self.0.read(&mut bytes) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::yield_now();
                    continue;
                }
                Err(error) => unreachable!("{error}"),
            };
            if let Some(packet) = roce(&bytes[..length]) {
                return packet;
            }
        }
        unreachable!("no packet of RoCE within {LONG:?}");
    }
}

fn roce(packet: &[u8]) -> Option<(u8, Vec<u8>)> {
    let (first, service) = (*packet.first()?, *packet.get(1)?);
    let header_bytes = usize::from(first & 15) * 4;
    let is_udp = first >> 4 == 4 && i32::from(*packet.get(9)?) == libc::IPPROTO_UDP;
    let port = packet.get(header_bytes + 2..header_bytes + 4)?;
    let is_roce = is_udp && port == ROCE_PORT.to_be_bytes();
    is_roce.then(|| Some((service, packet.get(header_bytes + 8..)?.to_vec())))?
}

#[test]
fn packets_have_the_class_the_partition_and_the_size_that_were_set() {
    let Some(host) = guest() else { return };
    let (mut a, mut b) = (host.end(1), host.end(0));
    let small = QueuePairOptions { mtu_bytes: MTU_BYTES, ..options(b.gid_index) };
    b.pair = b.queue.queue_pair(&small).unwrap();
    assert_eq!(b.pair.endpoint().mtu_bytes, MTU_BYTES);
    let class = ConnectOptions { traffic_class: TRAFFIC_CLASS, service_level: 3, ..impatient() };
    join_with(&mut a, &mut b, &class);
    let mut capture = Capture::start();
    assert_eq!(a.write(&b, WRITTEN_BYTES), Success);
    let (service, packet) = loop {
        let (service, packet) = capture.next();
        if [WRITE_FIRST, WRITE_MIDDLE].contains(&packet[0]) {
            break (service, packet);
        }
    };
    assert_eq!(service, TRAFFIC_CLASS);
    assert_eq!(u16::from_be_bytes([packet[2], packet[3]]), DEFAULT_PARTITION);
    // Transport header, address of the write in the first packet, payload, checksum.
    let headers = if packet[0] == WRITE_FIRST { 12 + 16 } else { 12 };
    assert_eq!(packet.len(), headers + MTU_BYTES as usize + 4, "the other end asked for less");
}
