//! Where the master is: its name is resolved once, and again after a connection failed. Invariant:
//! all addresses of a name are tried, each with its share of the time, before a call fails.

use crate::connection::MasterConnection;
use crate::error::CallError;
use perigee_schemas::session::Hello;
use perigee_shard::monotonic;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct MasterAddress {
    name: String,
    /// Empty until the name was resolved; the address that answered last comes first.
    known: Mutex<Vec<SocketAddr>>,
}

impl MasterAddress {
    /// The master at `host:port`.
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), known: Mutex::default() }
    }

    /// A greeted connection to the first address that gives one.
    pub(crate) fn open(
        &self,
        hello: &Hello,
        limits: (Duration, Duration),
    ) -> Result<MasterConnection, CallError> {
        let mut addresses = self.remembered();
        if addresses.is_empty() {
            addresses = resolve(&self.name)?;
        }
        let opened = first_open(&addresses, hello, limits);
        match opened {
            Ok((connection, index)) => {
                addresses.swap(0, index);
                self.remember(addresses);
                Ok(connection)
            }
            Err(error) => {
                self.remember(Vec::new());
                Err(error)
            }
        }
    }

    /// All addresses, as far as they are known.
    pub(crate) fn all(&self) -> Vec<SocketAddr> {
        match self.remembered() {
            known if known.is_empty() => resolve(&self.name).unwrap_or_default(),
            known => known,
        }
    }

    fn remembered(&self) -> Vec<SocketAddr> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, addresses: Vec<SocketAddr>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }
}

/// The first connection that opens, with the index of its address.
fn first_open(
    addresses: &[SocketAddr],
    hello: &Hello,
    (connect_deadline, deadline): (Duration, Duration),
) -> Result<(MasterConnection, usize), CallError> {
    let mut failure = None;
    for (index, address) in addresses.iter().enumerate() {
        let untried = (addresses.len() - index) as u32;
        let now = monotonic();
        let share = now + deadline.saturating_sub(now) / untried;
        match MasterConnection::open(*address, hello, (connect_deadline, share)) {
            Ok(connection) => return Ok((connection, index)),
            Err(
                error @ (CallError::Unreachable { .. } | CallError::Deadline(_) | CallError::Io(_)),
            ) => failure = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(failure.unwrap_or(CallError::Deadline(Duration::ZERO)))
}

/// All addresses of `host:port`, at least one. A name without an address now may have one later.
fn resolve(name: &str) -> Result<Vec<SocketAddr>, CallError> {
    check_form(name)?;
    let unknown = |source: io::Error| CallError::Unreachable { address: name.to_owned(), source };
    let found: Vec<SocketAddr> = name.to_socket_addrs().map_err(unknown)?.collect();
    if found.is_empty() {
        return Err(unknown(io::Error::other("its name has no address")));
    }
    Ok(found)
}

/// Refuses what no name service can make an address of.
fn check_form(name: &str) -> Result<(), CallError> {
    let refuse = |reason: String| CallError::Address { address: name.to_owned(), reason };
    if let Some((scheme, _)) = name.split_once("://") {
        return Err(refuse(format!("{scheme}:// is a way to several masters, which is not built")));
    }
    let Some((host, port)) = name.rsplit_once(':') else {
        return Err(refuse("it has no port".to_owned()));
    };
    if port.parse::<u16>().is_err() {
        return Err(refuse(format!("{port:?} is no port number")));
    }
    let is_six = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || host.contains(char::is_whitespace) || host.contains(':') && !is_six {
        return Err(refuse(format!("{host:?} is no host")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LentSegments;
    use crate::{ClientOptions, MasterClient};
    use perigee_schemas::{Identity, Status};
    use std::net::TcpListener;

    fn client(address: &str) -> MasterClient {
        let mut options = ClientOptions::new(address, Identity::from_halves(1, 2));
        options.deadline = Duration::from_millis(100);
        MasterClient::new(options)
    }

    #[test]
    fn a_locator_of_several_masters_is_refused_in_words() {
        for name in ["etcd://h:2379", "redis://h:6379", "k8s://space/lease"] {
            let error = resolve(name).unwrap_err().to_string();
            assert!(error.contains("not built; write host:port"), "{error}");
        }
    }

    #[test]
    fn a_malformed_address_is_a_wrong_argument_and_an_unknown_name_is_a_master_out_of_reach() {
        for name in
            ["", "master", ":50051", "master:", "master:port", "master:70000", "a b:1", "fe80::1"]
        {
            let error = resolve(name).unwrap_err();
            assert!(error.to_string().contains("write host:port"), "{name}: {error}");
            assert_eq!(error.status(), Status::InvalidParams, "{name}");
        }
        let error = resolve("no-such-host.invalid:50051").unwrap_err();
        assert!(error.to_string().contains("no-such-host.invalid:50051 cannot be reached"));
        assert_eq!(error.status(), Status::RpcFail);
        assert!(resolve("[::1]:50051").is_ok() && resolve("127.0.0.1:50051").is_ok());
    }

    #[test]
    fn a_master_that_accepts_and_is_silent_fails_the_call_and_then_calls_at_once() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = client(&silent.local_addr().unwrap().to_string());
        let whole = Duration::from_millis(100);
        let ping = || client.ping(&LentSegments::default());
        assert!(matches!(ping(), Err(CallError::Deadline(limit)) if limit == whole));
        assert!(matches!(ping(), Err(CallError::Broken { .. })));
    }

    #[test]
    fn a_connection_has_its_own_deadline() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listening.local_addr().unwrap().to_string();
        let options = ClientOptions {
            connect_deadline: Duration::ZERO,
            ..ClientOptions::new(&address, Identity::from_halves(1, 2))
        };
        let refused = MasterClient::new(options).ping(&LentSegments::default());
        assert!(matches!(refused, Err(CallError::Unreachable { .. })));
    }

    #[test]
    fn every_address_is_tried_and_a_failure_is_resolved_again() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        let refusing = closed.local_addr().unwrap();
        drop(closed);
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = MasterAddress::new("127.0.0.1:1");
        address.remember(vec![refusing, silent.local_addr().unwrap()]);
        let hello = Hello::new(perigee_schemas::session::Role::Client, Identity::from_halves(1, 2));
        let limits = (Duration::from_secs(2), monotonic() + Duration::from_millis(100));
        let opened = address.open(&hello, limits);
        assert!(matches!(opened, Err(CallError::Deadline(_))));
        assert!(silent.accept().is_ok(), "the second address was tried");
        assert!(address.remembered().is_empty());
    }
}
