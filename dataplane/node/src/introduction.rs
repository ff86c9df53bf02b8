//! Tells programs of this host where the master is and which tenant is the node's, so that they
//! need to know only the node's port.
//! Invariant: only the node's own user gets an answer, and an answer never waits for its reader.

use crate::config::NodeName;
use crate::limits::NAME_PORTS_TRIED;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use perigee_memory::rendezvous::{listen, verify_peer};
use perigee_store::{NodeAnswer, introduction_name};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;

/// The port of a node's name, which no other node of this host has while this value lives.
pub(crate) struct NameClaim {
    port: u16,
    listener: UnixListener,
}

impl NameClaim {
    /// The name of a node, with its port claimed where it has one. If another node has the port and
    /// it is only the default, the name gets the next free one; otherwise both have the name, and
    /// programs find the other one.
    pub(crate) fn name(name: &NodeName, may_take_next: bool) -> (NodeName, Option<Self>) {
        let Some(wanted) = name.port() else {
            return (name.clone(), None);
        };
        let tried = if may_take_next { NAME_PORTS_TRIED } else { 1 };
        let mut ports = (0..tried).map_while(|step| wanted.checked_add(step));
        let Some(claim) = ports.find_map(|port| Self::try_new(port).ok()) else {
            tracing::warn!(
                port = wanted,
                "Another node of this host has this port in its name; give each its own with `port`"
            );
            return (name.clone(), None);
        };
        if claim.port != wanted {
            tracing::info!(
                taken = wanted,
                port = claim.port,
                "Another node of this host has the default port in its name; this one takes the next that is free"
            );
        }
        (name.at_port(claim.port), Some(claim))
    }

    /// A port that the store has chosen.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let port = name.rsplit_once(':')?.1.parse().ok()?;
        let claimed = Self::try_new(port);
        claimed
            .map_err(|error| tracing::warn!(port, %error, "Programs on this host cannot ask this node for the master"))
            .ok()
    }

    fn try_new(port: u16) -> io::Result<Self> {
        let listener = listen(&introduction_name(port)).map_err(io::Error::other)?;
        Ok(Self { port, listener })
    }
}

/// The running thread.
pub(crate) struct Introduction {
    /// Dropped to end the thread.
    stop: UnixStream,
    thread: JoinHandle<()>,
}

impl Introduction {
    /// Tells every program that asks for the node of the claimed port its master and its tenant.
    /// Without it programs must get the master's address as a setting, so a failure is a warning.
    pub(crate) fn start(claim: NameClaim, answer: &NodeAnswer) -> Option<Self> {
        let port = claim.port;
        let started = Self::try_start(claim.listener, answer);
        started
            .map_err(|error| tracing::warn!(port, %error, "Programs on this host cannot ask this node for the master"))
            .ok()
    }

    fn try_start(listener: UnixListener, answer: &NodeAnswer) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let lines = format!("{}\n{}\n", answer.master, answer.tenant_id);
        let (stop, stopped) = UnixStream::pair()?;
        let thread = std::thread::Builder::new()
            .name("perigee-intro".to_owned())
            .spawn(move || serve(&listener, &stopped, lines.as_bytes()))?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // The thread has nothing that panics; if it did, there is nothing left to end.
        let _ = self.thread.join();
    }
}

/// Answers until the other end of `stopped` is closed.
fn serve(listener: &UnixListener, stopped: &UnixStream, lines: &[u8]) {
    loop {
        let mut events = [
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
        ];
        let polled = poll(&mut events, PollTimeout::NONE);
        if polled.is_ok() && events[1].any() != Some(false) {
            return;
        }
        if let Ok((stream, _)) = listener.accept()
            && let Err(error) = answer(&stream, lines)
        {
            tracing::debug!(%error, "A program got no answer about the master");
        }
    }
}

fn answer(mut stream: &UnixStream, lines: &[u8]) -> io::Result<()> {
    verify_peer(stream).map_err(io::Error::other)?;
    // The lines fit into the buffer of a new socket.
    stream.set_nonblocking(true)?;
    stream.write_all(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_store::ask_node;
    use std::time::Duration;

    #[test]
    fn programs_learn_the_master_while_the_node_runs_and_nothing_after_it() {
        let port = std::process::id() as u16;
        let wait = Duration::from_secs(10);
        let claim = NameClaim::try_new(port).unwrap();
        let answer =
            NodeAnswer { master: "10.1.2.3:50051".to_owned(), tenant_id: "red".to_owned() };
        let introduction = Introduction::start(claim, &answer).unwrap();
        for _ in 0..2 {
            assert_eq!(ask_node(port, wait).unwrap(), answer);
        }
        assert!(NameClaim::of(&format!("node-7:{port}")).is_none());
        introduction.stop();
        assert!(ask_node(port, wait).is_err());
    }

    #[test]
    fn of_nodes_that_were_given_no_port_each_has_a_name_of_its_own() {
        let wanted = NodeName::OfRoute(1000 + std::process::id() as u16 % 1000);
        let claims = [(); 3].map(|()| NameClaim::name(&wanted, true));
        let ports = claims.each_ref().map(|(name, _)| name.port().unwrap());
        assert!(ports[0] < ports[1] && ports[1] < ports[2], "{ports:?}");
        let given = NodeName::Given(format!("node-7:{}", ports[0]));
        let (same, claim) = NameClaim::name(&given, false);
        assert_eq!(same, given, "a configured name is kept");
        assert!(claim.is_none());
        let (other, claim) = NameClaim::name(&given, true);
        assert!(other.port() > given.port() && claim.is_some());
        let none = NodeName::Given("node-7".to_owned());
        let (same, claim) = NameClaim::name(&none, true);
        assert!(same == none && claim.is_none());
    }
}
