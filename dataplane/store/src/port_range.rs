//! Ports that clients of this host share out among each other.
//! Invariant: two clients of one host never have the same port of a range, however their sockets
//! are shared between shards.

use crate::error::StoreError;
use crate::limits::{CLAIM_PATIENCE, CLAIM_PAUSE, CLIENT_PORTS};
use perigee_settings::SettingError;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Instant;

/// Variables that name the first and the last port.
pub(crate) const FIRST: &str = "MC_STORE_CLIENT_MIN_PORT";

pub(crate) const LAST: &str = "MC_STORE_CLIENT_MAX_PORT";

/// Ports that clients of this host may take, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
}

/// A port that no other client of this host has while this lives.
#[derive(Debug)]
pub(crate) struct PortClaim {
    port: u16,
    /// The name of this socket stands for the port: data ports are shared by the shards of a
    /// client, so that the kernel would let another client of the same user share them too.
    _lock: UnixListener,
}

impl PortRange {
    /// The range between two settings, of which either may be left out; none if both are.
    ///
    /// # Errors
    /// A port 0, or a range without a port.
    pub(crate) fn between(
        first: Option<u16>,
        last: Option<u16>,
    ) -> Result<Option<Self>, StoreError> {
        if first.is_none() && last.is_none() {
            return Ok(None);
        }
        let (own_first, own_last) = (first.is_some(), last.is_some());
        let first = first.unwrap_or(*CLIENT_PORTS.start());
        let last = last.unwrap_or(*CLIENT_PORTS.end());
        let refuse = |name, port: u16, reason: String| {
            Err(SettingError::new(name, port.to_string(), reason).into())
        };
        if first == 0 {
            return refuse(FIRST, first, "write a port from 1 to 65535".to_owned());
        }
        if first > last {
            let default = |own: bool| if own { "" } else { ", its default" };
            return match own_first {
                true => refuse(
                    FIRST,
                    first,
                    format!("it is above {LAST} ({last}{})", default(own_last)),
                ),
                false => refuse(
                    LAST,
                    last,
                    format!("it is below {FIRST} ({first}{})", default(own_first)),
                ),
            };
        }
        Ok(Some(Self { first, last }))
    }

    /// Takes a free port, waiting a little for one.
    pub(crate) fn claim(self) -> Result<PortClaim, StoreError> {
        let deadline = Instant::now() + CLAIM_PATIENCE;
        loop {
            if let Some(claim) = self.try_claim()? {
                return Ok(claim);
            }
            if Instant::now() >= deadline {
                return Err(StoreError::PortsTaken { first: self.first, last: self.last });
            }
            std::thread::sleep(CLAIM_PAUSE);
        }
    }

    /// A free port; the search begins at a random one.
    pub(crate) fn try_claim(self) -> Result<Option<PortClaim>, StoreError> {
        let random = getrandom::u64().map_err(|error| StoreError::System(error.to_string()))?;
        debug_assert!(0 < self.first && self.first <= self.last, "a range has a port");
        let count = u64::from(self.last - self.first) + 1;
        let mut ports = (0..count).map(|at| {
            let offset = random.wrapping_add(at) % count;
            // The offset of a port within the range is one of 16 bits.
            self.first + offset as u16
        });
        Ok(ports.find_map(PortClaim::of))
    }
}

impl PortClaim {
    /// The port, unless another client has it or another program listens on it.
    pub(crate) fn of(port: u16) -> Option<Self> {
        let name = SocketAddr::from_abstract_name(format!("perigee-port-{port}")).ok()?;
        let lock = UnixListener::bind_addr(&name).ok()?;
        is_free(port).then_some(Self { port, _lock: lock })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// Whether a socket that shares nothing can listen on the port.
pub(crate) fn is_free(port: u16) -> bool {
    let anywhere: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    anywhere.into_iter().all(|ip| {
        let refused = TcpListener::bind((ip, port)).err().map(|error| error.kind());
        !matches!(refused, Some(ErrorKind::AddrInUse | ErrorKind::PermissionDenied))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A range of ports that were free a moment ago and follow each other.
    fn free_range(ports: u16) -> PortRange {
        loop {
            let probe = TcpListener::bind("0.0.0.0:0").unwrap();
            let first = probe.local_addr().unwrap().port();
            drop(probe);
            let Some(last) = first.checked_add(ports - 1) else {
                continue;
            };
            let claims: Vec<Option<PortClaim>> = (first..=last).map(PortClaim::of).collect();
            if claims.iter().all(Option::is_some) {
                return PortRange { first, last };
            }
        }
    }

    #[test]
    fn every_port_of_a_range_is_claimed_once() {
        let range = free_range(4);
        let claims: Vec<PortClaim> = (0..4).map(|_| range.claim().unwrap()).collect();
        let mut ports: Vec<u16> = claims.iter().map(PortClaim::port).collect();
        ports.sort_unstable();
        assert!(ports.into_iter().eq(range.first..=range.last));
        let message = range.claim().unwrap_err().to_string();
        for part in [FIRST, LAST, &range.first.to_string(), &range.last.to_string()] {
            assert!(message.contains(part), "{message}");
        }
        drop(claims);
        assert!(range.claim().is_ok(), "what was given back is free");
    }

    #[test]
    fn a_port_on_which_another_program_listens_is_left_out() {
        let range = free_range(2);
        let other = TcpListener::bind(("127.0.0.1", range.first)).unwrap();
        assert_eq!(range.claim().unwrap().port(), range.last);
        drop(other);
    }

    #[test]
    fn a_range_is_what_its_ends_say_and_wrong_ends_are_refused_by_name() {
        assert_eq!(PortRange::between(None, None).unwrap(), None);
        let one = PortRange::between(Some(700), Some(700)).unwrap();
        assert_eq!(one, Some(PortRange { first: 700, last: 700 }));
        let refused = |first, last| PortRange::between(first, last).unwrap_err().to_string();
        assert!(refused(Some(0), Some(9)).contains(FIRST));
        assert!(refused(Some(9), Some(8)).contains("above MC_STORE_CLIENT_MAX_PORT (8)"));
        assert!(refused(Some(20_000), None).contains("14300, its default"));
        assert!(refused(None, Some(9)).contains("12300, its default"));
    }
}
