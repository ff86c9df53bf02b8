//! What the kernel counts of one TCP connection and shows in `TCP_INFO`: all that only grows.
//! Invariant: the order of the fields is that of the page.

use serde::{Deserialize, Serialize};

/// Counters of a connection.
pub(crate) const SOCKET_COUNTERS: usize = 11;

/// What the kernel counted of a connection, or of all connections between two ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketCounters {
    /// Data segments sent, repeated ones included.
    pub segments_sent: u64,
    /// Data segments received.
    pub segments_received: u64,
    /// Segments that came before one that was sent earlier: a sign of loss on the way here.
    pub out_of_order: u64,
    /// Segments that the peer says it had already: they were sent again without need.
    pub needless: u64,
    /// Timeouts after which the kernel sent again; 0 before Linux 6.8.
    pub timeouts: u64,
    /// Segments that a switch marked as having met a queue (ECN).
    pub marked: u64,
    /// Payload bytes sent again.
    pub bytes_again: u64,
    /// Payload bytes sent, repeated ones included.
    pub bytes_sent: u64,
    /// Microseconds in which data was on its way or wanted to be.
    pub busy_us: u64,
    /// Microseconds of them in which the peer's window was full.
    pub window_limited_us: u64,
    /// Microseconds of them in which this side's buffer was full.
    pub buffer_limited_us: u64,
}

impl SocketCounters {
    /// In the order of the page.
    pub(crate) fn encode(self) -> [u64; SOCKET_COUNTERS] {
        [
            self.segments_sent,
            self.segments_received,
            self.out_of_order,
            self.needless,
            self.timeouts,
            self.marked,
            self.bytes_again,
            self.bytes_sent,
            self.busy_us,
            self.window_limited_us,
            self.buffer_limited_us,
        ]
    }

    /// As a page has them.
    pub(crate) fn decode(words: [u64; SOCKET_COUNTERS]) -> Self {
        let [segments_sent, segments_received, out_of_order, needless, timeouts, rest @ ..] = words;
        let [marked, bytes_again, bytes_sent, busy_us, window_limited_us, buffer_limited_us] = rest;
        Self {
            segments_sent,
            segments_received,
            out_of_order,
            needless,
            timeouts,
            marked,
            bytes_again,
            bytes_sent,
            busy_us,
            window_limited_us,
            buffer_limited_us,
        }
    }

    /// Each counter together with that of another.
    #[must_use]
    pub fn with(self, combine: impl Fn(u64, u64) -> u64, other: Self) -> Self {
        let (ours, theirs) = (self.encode(), other.encode());
        Self::decode(std::array::from_fn(|index| combine(ours[index], theirs[index])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_survive_the_page() {
        let words = std::array::from_fn(|index| index as u64 + 1);
        assert_eq!(SocketCounters::decode(words).encode(), words);
        let twice =
            SocketCounters::decode(words).with(u64::saturating_add, SocketCounters::decode(words));
        assert_eq!((twice.segments_sent, twice.buffer_limited_us), (2, 22));
    }
}
