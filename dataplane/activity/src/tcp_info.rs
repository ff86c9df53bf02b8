//! What the kernel knows of a TCP connection. Invariant: a kernel that answers less than is asked
//! leaves zeros.
#![expect(unsafe_code, reason = "it reads a socket option that no library has")]

use crate::socket_counters::SocketCounters;
use nix::libc;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Enough for all that is read here; the kernel fills what fits.
const BYTES: usize = 256;
/// Offsets in the kernel's `struct tcp_info`, which only grows.
const SEGMENT_BYTES: usize = 16;
const ROUND_TRIP_US: usize = 68;
const WINDOW_SEGMENTS: usize = 80;
const RETRANSMITS: usize = 100;
const ROUND_TRIP_MIN_US: usize = 148;
const SEGMENTS_RECEIVED: usize = 152;
const SEGMENTS_SENT: usize = 156;
const DELIVERY: usize = 160;
const BUSY_US: usize = 168;
const WINDOW_LIMITED_US: usize = 176;
const BUFFER_LIMITED_US: usize = 184;
const MARKED: usize = 196;
const BYTES_SENT: usize = 200;
const BYTES_AGAIN: usize = 208;
const NEEDLESS: usize = 216;
const OUT_OF_ORDER: usize = 224;
/// Of 16 bits.
const TIMEOUTS: usize = 240;

/// A connection at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Smoothed.
    pub(crate) round_trip_us: u64,
    /// The shortest of the last minutes.
    pub(crate) round_trip_min_us: u64,
    /// Segments that may be under way.
    pub(crate) window_segments: u64,
    /// Payload bytes of a full segment.
    pub(crate) segment_bytes: u64,
    /// Segments sent again, in all its life.
    pub(crate) retransmits: u64,
    /// The last rate at which data arrived while there was enough to send.
    pub(crate) delivery_bytes_per_second: u64,
    /// In all its life.
    pub(crate) counters: SocketCounters,
}

impl TcpInfo {
    /// `None` for what is no TCP connection.
    pub(crate) fn of(socket: BorrowedFd<'_>) -> Option<Self> {
        let mut bytes = [0u8; BYTES];
        let mut length = BYTES as libc::socklen_t;
        // SAFETY: the buffer is as long as `length` says, and both outlive the call; any bytes are
        // a value.
        let failed = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        (failed == 0).then(|| Self::decode(&bytes))
    }

    fn decode(bytes: &[u8; BYTES]) -> Self {
        let word = |offset: usize| u64::from(u32::from_ne_bytes(part(bytes, offset)));
        let long = |offset: usize| u64::from_ne_bytes(part(bytes, offset));
        Self {
            round_trip_us: word(ROUND_TRIP_US),
            round_trip_min_us: word(ROUND_TRIP_MIN_US),
            window_segments: word(WINDOW_SEGMENTS),
            segment_bytes: word(SEGMENT_BYTES),
            retransmits: word(RETRANSMITS),
            delivery_bytes_per_second: long(DELIVERY),
            counters: SocketCounters {
                segments_sent: word(SEGMENTS_SENT),
                segments_received: word(SEGMENTS_RECEIVED),
                out_of_order: word(OUT_OF_ORDER),
                needless: word(NEEDLESS),
                timeouts: u64::from(u16::from_ne_bytes(part(bytes, TIMEOUTS))),
                marked: word(MARKED),
                bytes_again: long(BYTES_AGAIN),
                bytes_sent: long(BYTES_SENT),
                busy_us: long(BUSY_US),
                window_limited_us: long(WINDOW_LIMITED_US),
                buffer_limited_us: long(BUFFER_LIMITED_US),
            },
        }
    }
}

fn part<const N: usize>(bytes: &[u8; BYTES], offset: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[offset..offset + N]);
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn offsets_are_those_of_the_system_header() {
        assert_eq!(std::mem::offset_of!(libc::tcp_info, tcpi_snd_mss), SEGMENT_BYTES);
        assert_eq!(std::mem::offset_of!(libc::tcp_info, tcpi_rtt), ROUND_TRIP_US);
        assert_eq!(std::mem::offset_of!(libc::tcp_info, tcpi_snd_cwnd), WINDOW_SEGMENTS);
        assert_eq!(std::mem::offset_of!(libc::tcp_info, tcpi_total_retrans), RETRANSMITS);
    }

    #[test]
    fn a_file_is_no_connection() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(TcpInfo::of(file.as_fd()), None);
    }
}
