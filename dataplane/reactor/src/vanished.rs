//! Whether the host at the other end of a connection is gone: a power cut, a cable. No packet says
//! so. Invariant: a peer whose process stands still is never taken for gone, because its kernel
//! goes on answering.
#![expect(unsafe_code, reason = "it reads a socket option that no library has")]

use crate::limits::{KEEP_ALIVE_IDLE, KEEP_ALIVE_PAUSE, KEEP_ALIVE_PROBES, VANISHED_TRIES};
use socket2::{SockRef, TcpKeepalive};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Silence after which a host is taken for gone.
const SILENCE: Duration =
    KEEP_ALIVE_IDLE.saturating_add(KEEP_ALIVE_PAUSE.saturating_mul(KEEP_ALIVE_PROBES));

/// Has the kernel ask the other end whether it is there while nothing is under way, and break the
/// connection if it does not answer. Asking begins when all data is acknowledged; for the rest
/// there is [`has_vanished`].
pub(crate) fn keep_alive(socket: BorrowedFd<'_>) {
    let asking = TcpKeepalive::new().with_time(KEEP_ALIVE_IDLE).with_interval(KEEP_ALIVE_PAUSE);
    let asking = asking.with_retries(KEEP_ALIVE_PROBES);
    // A kernel that refuses keeps its own, longer times.
    let _ = SockRef::from(&socket).set_tcp_keepalive(&asking);
}

/// Whether data was sent again and again, and nothing at all has come back for as long as
/// keep-alive waits. `TCP_USER_TIMEOUT` is no way to ask: it also ends connections to a peer whose
/// window stays shut, which a process that stands still has.
pub fn has_vanished(connection: BorrowedFd<'_>) -> bool {
    info_of(connection).is_some_and(|info| is_silent(&info))
}

fn is_silent(info: &libc::tcp_info) -> bool {
    let tries = info.tcpi_retransmits.max(info.tcpi_probes);
    let silence = Duration::from_millis(u64::from(info.tcpi_last_ack_recv));
    tries >= VANISHED_TRIES && silence >= SILENCE
}

/// `None` for what is no TCP connection.
fn info_of(connection: BorrowedFd<'_>) -> Option<libc::tcp_info> {
    // SAFETY: `tcp_info` consists of numbers, for which zero is a value.
    let mut info = unsafe { std::mem::zeroed::<libc::tcp_info>() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the structure is as long as `length` says, and both outlive the call; any bytes are
    // a value.
    let failed = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (failed == 0).then_some(info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn only_silence_after_several_tries_is_the_end() {
        let (listener, file) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), std::fs::File::open("/dev/null").unwrap());
        let open = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!has_vanished(open.as_fd()) && !has_vanished(file.as_fd()));
        let long = SILENCE.as_millis() as u32;
        for (tries, silence_ms, is_gone) in
            [(0, 10 * long, false), (VANISHED_TRIES, long - 1, false), (VANISHED_TRIES, long, true)]
        {
            let mut info = info_of(open.as_fd()).unwrap();
            info.tcpi_last_ack_recv = silence_ms;
            info.tcpi_retransmits = tries;
            assert_eq!(is_silent(&info), is_gone);
            (info.tcpi_retransmits, info.tcpi_probes) = (0, tries);
            assert_eq!(is_silent(&info), is_gone, "a shut window is asked about, too");
        }
    }
}
