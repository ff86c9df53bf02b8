//! Datagrams that look for loss and for the largest frame. Invariant: an answer is no longer than
//! what it answers, and only the other end of an open session gets one.

use crate::limits::{
    FRAME_BYTES_MIN, FRAME_TRIES, PROBE_BYTES, PROBE_DEADLINE, PROBES_IN_FLIGHT, PROBES_TIME,
};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Session, kind, sequence number.
const HEADER_BYTES: usize = 13;
const LOSS: u8 = 0;
const FRAME: u8 = 1;
/// Longest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// How often the answering end looks whether its session is over.
const LOOK: Duration = Duration::from_millis(50);

/// Answers the datagrams of a session until it is over.
pub(crate) fn answer(
    socket: &UdpSocket,
    (session, peer): (u64, IpAddr),
    counted: &AtomicU32,
    is_over: &AtomicBool,
) {
    let mut bytes = vec![0u8; DATAGRAM_BYTES_MAX];
    if socket.set_read_timeout(Some(LOOK)).is_err() {
        return;
    }
    while !is_over.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut bytes) else {
            continue;
        };
        let is_ours = length >= HEADER_BYTES && bytes[..8] == session.to_le_bytes();
        if !is_ours || from.ip().to_canonical() != peer {
            continue;
        }
        if bytes[8] == LOSS {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        // What this end cannot send whole is answered in short.
        if socket.send_to(&bytes[..length], from).is_err() {
            let _ = socket.send_to(&bytes[..HEADER_BYTES], from);
        }
    }
}

/// The asking end.
pub(crate) struct DatagramProbe {
    pub(crate) socket: UdpSocket,
    pub(crate) session: u64,
    /// Round trip of a small message.
    pub(crate) round_trip: Duration,
}

/// What became of the datagrams that looked for loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DatagramTally {
    pub(crate) sent: u32,
    pub(crate) answered: u32,
}

impl DatagramProbe {
    fn deadline(&self) -> Duration {
        self.round_trip * 3 + PROBE_DEADLINE
    }

    fn datagram(&self, kind: u8, sequence: u32, length: usize) -> Vec<u8> {
        let mut bytes = vec![0x5A; length.max(HEADER_BYTES)];
        bytes[..8].copy_from_slice(&self.session.to_le_bytes());
        bytes[8] = kind;
        bytes[9..13].copy_from_slice(&sequence.to_le_bytes());
        bytes
    }

    /// The next answer within a time: its kind, number and length.
    fn next(&self, limit: Duration, bytes: &mut [u8]) -> Option<(u8, u32, usize)> {
        self.socket.set_read_timeout(Some(limit.max(Duration::from_millis(1)))).ok()?;
        let length = self.socket.recv(bytes).ok()?;
        if length < HEADER_BYTES || bytes[..8] != self.session.to_le_bytes() {
            return None;
        }
        let number = u32::from_le_bytes([bytes[9], bytes[10], bytes[11], bytes[12]]);
        Some((bytes[8], number, length))
    }

    /// Sends so many, of which few are under way at a time: what is lost is lost on the way and
    /// not in a full queue.
    pub(crate) fn losses(&self, count: u32) -> DatagramTally {
        let until = Instant::now() + PROBES_TIME;
        let mut bytes = vec![0u8; DATAGRAM_BYTES_MAX];
        let mut under_way: VecDeque<(u32, Instant)> = VecDeque::new();
        let mut is_answered = vec![false; count as usize];
        let mut sent = 0;
        while Instant::now() < until && (sent < count || !under_way.is_empty()) {
            while sent < count && under_way.len() < PROBES_IN_FLIGHT {
                // A refusal is that of a port that nothing listens on; it shows as loss of all.
                let _ = self.socket.send(&self.datagram(LOSS, sent, PROBE_BYTES));
                under_way.push_back((sent, Instant::now()));
                sent += 1;
            }
            let Some((_, oldest)) = under_way.front() else {
                break;
            };
            let left = self.deadline().saturating_sub(oldest.elapsed());
            match self.next(left, &mut bytes) {
                Some((LOSS, number, _)) => {
                    is_answered.get_mut(number as usize).into_iter().for_each(|one| *one = true);
                    under_way.retain(|(other, _)| *other != number);
                }
                _ => under_way.retain(|(_, then)| then.elapsed() < self.deadline()),
            }
            if sent as usize == PROBES_IN_FLIGHT * 2 && !is_answered.contains(&true) {
                break;
            }
        }
        let answered = is_answered.iter().filter(|one| **one).count() as u32;
        DatagramTally { sent, answered }
    }

    /// The largest frame up to `most` that passes both ways; `None` if none does.
    pub(crate) fn largest_frame(&self, most: u32) -> Option<u32> {
        if self.passes(most) {
            return Some(most);
        }
        let (mut passes, mut fails) = (FRAME_BYTES_MIN.min(most), most);
        if !self.passes(passes) {
            return None;
        }
        while fails - passes > 1 {
            let middle = passes + (fails - passes) / 2;
            if self.passes(middle) {
                passes = middle;
            } else {
                fails = middle;
            }
        }
        Some(passes)
    }

    fn passes(&self, frame_bytes: u32) -> bool {
        let headers = match self.socket.local_addr() {
            Ok(address) if address.is_ipv6() => 48,
            _ => 28,
        };
        let length = (frame_bytes as usize).saturating_sub(headers);
        let mut bytes = vec![0u8; DATAGRAM_BYTES_MAX];
        for _ in 0..FRAME_TRIES {
            match self.socket.send(&self.datagram(FRAME, frame_bytes, length)) {
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => return false,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return false,
                _ => {}
            }
            let until = Instant::now() + self.deadline();
            while Instant::now() < until {
                let left = until.saturating_duration_since(Instant::now());
                match self.next(left, &mut bytes) {
                    Some((FRAME, number, came)) if number == frame_bytes => {
                        return came == length.max(HEADER_BYTES);
                    }
                    _ => {}
                }
            }
        }
        false
    }
}
