//! Bytes and descriptors through a Unix stream, each wait bounded by a deadline.
//! Invariant: every descriptor that arrives is owned at once, so none leaks however a message ends.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::error::RendezvousError;
use super::{OfferedSegment, wait};
use crate::limits::RENDEZVOUS_SEGMENTS_MAX;

/// Control area for the 253 descriptors that the kernel sends at most, in aligned words.
const CONTROL_WORDS: usize = 160;
const _: () = assert!(CONTROL_WORDS * size_of::<u64>() >= 24 + 253 * size_of::<RawFd>());

/// Sends `body`, the descriptors of `segments` with its first byte.
pub(super) fn send(
    stream: &UnixStream,
    body: &[u8],
    segments: &[OfferedSegment<'_>],
    deadline: Instant,
) -> Result<(), RendezvousError> {
    let raw: Vec<RawFd> = segments.iter().map(|segment| segment.fd.as_raw_fd()).collect();
    let mut sent_bytes = 0;
    while sent_bytes < body.len() {
        let rights = [ControlMessage::ScmRights(&raw)];
        let beside: &[ControlMessage<'_>] =
            if sent_bytes == 0 && !raw.is_empty() { &rights } else { &[] };
        let part = [IoSlice::new(&body[sent_bytes..])];
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        match sendmsg::<()>(stream.as_raw_fd(), &part, beside, flags, None) {
            Ok(bytes) => sent_bytes += bytes,
            Err(Errno::EAGAIN) => wait(stream, PollFlags::POLLOUT, deadline)?,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Fills `buffer` and appends the descriptors that came with it.
pub(super) fn recv(
    stream: &UnixStream,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
    deadline: Instant,
) -> Result<(), RendezvousError> {
    let mut received_bytes = 0;
    while received_bytes < buffer.len() {
        wait(stream, PollFlags::POLLIN, deadline)?;
        match recv_some(stream, &mut buffer[received_bytes..], descriptors) {
            Ok(0) => return Err(RendezvousError::Closed { received_bytes }),
            Ok(bytes) => received_bytes += bytes,
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if descriptors.len() > RENDEZVOUS_SEGMENTS_MAX {
            return Err(RendezvousError::Count { count: descriptors.len() as u64 });
        }
    }
    Ok(())
}

/// One `recvmsg`. Done by hand because descriptors that came before a cut must be owned, too.
fn recv_some(
    stream: &UnixStream,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> Result<usize, Errno> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = [0u64; CONTROL_WORDS];
    // SAFETY: all-zero is a valid header: null pointers of length zero.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    // SAFETY: the header points to the buffer and the control area, which live through the call.
    let received = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut header, flags) };
    let received_bytes = Errno::result(received)?.cast_unsigned();
    debug_assert!(received_bytes <= buffer.len());
    // SAFETY: the kernel has filled the header, and the control area is still there.
    unsafe { own_descriptors(&header, descriptors) };
    if header.msg_flags & libc::MSG_CTRUNC != 0 {
        // The area has room for all that the kernel can send, so it was our limit of open files.
        return Err(Errno::EMFILE);
    }
    Ok(received_bytes)
}

/// Takes every descriptor in the control area of `header`.
///
/// # Safety
/// `header` must come from a successful `recvmsg`, and this must be the only call for it.
unsafe fn own_descriptors(header: &libc::msghdr, descriptors: &mut Vec<OwnedFd>) {
    // SAFETY: the macros stay within the control area that the header names; the kernel wrote whole
    // messages into it, and each descriptor in them is new and ours.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(head) = message.as_ref() {
            if head.cmsg_level == libc::SOL_SOCKET && head.cmsg_type == libc::SCM_RIGHTS {
                let data_bytes = head.cmsg_len - libc::CMSG_LEN(0) as usize;
                let first = libc::CMSG_DATA(message).cast::<RawFd>();
                for index in 0..data_bytes / size_of::<RawFd>() {
                    let raw = first.add(index).read_unaligned();
                    descriptors.push(OwnedFd::from_raw_fd(raw));
                }
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
}
