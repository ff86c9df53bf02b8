//! Sockets that belong to one NIC. Invariant: what is sent through them leaves over that NIC, or
//! they say why that cannot be had.
#![expect(unsafe_code, reason = "two socket options that no library has")]

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Connects from an address, over the NIC that it belongs to.
pub(crate) fn connect(
    nic: &str,
    address: IpAddr,
    to: SocketAddr,
    limit: Duration,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    keep_to(&socket, nic);
    socket.bind(&SockAddr::from(SocketAddr::new(address, 0)))?;
    socket.connect_timeout(&SockAddr::from(to), limit)?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket.into())
}

/// Datagrams from an address, which are never cut into pieces: one that is too large for the NIC is
/// an error here, one that is too large for the way is lost.
pub(crate) fn datagrams(nic: Option<&str>, address: IpAddr, port: u16) -> io::Result<UdpSocket> {
    let local = SocketAddr::new(address, port);
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(nic) = nic {
        keep_to(&socket, nic);
    }
    socket.bind(&SockAddr::from(local))?;
    // The kernel may grant less; what is in flight fits into that, too.
    let _ = socket.set_recv_buffer_size(4 << 20);
    let socket: UdpSocket = socket.into();
    let (level, option, value) = match address {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE),
    };
    // SAFETY: the value is as long as is said and outlives the call.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    match failed {
        0 => Ok(socket),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Two NICs may be of one network, and the kernel would take either. Needs no right since Linux
/// 5.7; where it is refused, routes decide.
fn keep_to(socket: &Socket, nic: &str) {
    if let Err(error) = socket.bind_device(Some(nic.as_bytes())) {
        tracing::debug!(nic, %error, "A socket could not be kept to its NIC");
    }
}

/// Segments that a connection has sent, and those that it has sent again.
pub(crate) fn segments(stream: &TcpStream) -> [u64; 2] {
    /// Offset of the number of sent segments in the kernel's structure, which only grows.
    const SENT: usize = 156;
    const AGAIN: usize = 100;
    let mut bytes = [0u8; 256];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the buffer is as long as is said and outlives the call; any bytes are a value.
    let failed = unsafe {
        libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let word = |offset: usize| {
        let part = [bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]];
        u64::from(u32::from_ne_bytes(part))
    };
    if failed == 0 { [word(SENT), word(AGAIN)] } else { [0, 0] }
}
