//! Tells programs of this host where the master is and which tenant and rails are the node's, so
//! that they need to know only the node's port, or the file of its socket.
//! Invariant: under the port only the node's own user gets an answer, at the file who may connect
//! by its mode bits, and an answer never waits for its reader.

use crate::config::{ClientSocket, NodeName};
use crate::limits::NAME_PORTS_TRIED;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use perigee_memory::rendezvous::{SocketFile, listen, verify_peer};
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

/// Where programs ask.
enum Entrance {
    /// Under the port of the node's name.
    Port(UnixListener),
    /// At a file.
    File(SocketFile),
}

impl Entrance {
    fn listener(&self) -> &UnixListener {
        match self {
            Self::Port(listener) => listener,
            Self::File(file) => file.listener(),
        }
    }

    fn answer(&self, mut stream: &UnixStream, lines: &[u8]) -> io::Result<()> {
        if let Self::Port(_) = self {
            verify_peer(stream).map_err(io::Error::other)?;
        }
        // The lines fit into the buffer of a new socket.
        stream.set_nonblocking(true)?;
        stream.write_all(lines)
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
        let started = Self::try_start(Entrance::Port(claim.listener), answer);
        started
            .map_err(|error| tracing::warn!(port, %error, "Programs on this host cannot ask this node for the master"))
            .ok()
    }

    /// Tells the same to those who may connect to this file.
    ///
    /// # Errors
    /// There can be no such socket.
    pub(crate) fn at_file(socket: &ClientSocket, answer: &NodeAnswer) -> io::Result<Self> {
        Self::try_start(Entrance::File(SocketFile::listen(&socket.path, socket.mode)?), answer)
    }

    fn try_start(entrance: Entrance, answer: &NodeAnswer) -> io::Result<Self> {
        entrance.listener().set_nonblocking(true)?;
        let lines = answer.to_lines();
        let (stop, stopped) = UnixStream::pair()?;
        let thread = std::thread::Builder::new()
            .name("perigee-intro".to_owned())
            .spawn(move || serve(&entrance, &stopped, lines.as_bytes()))?;
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
fn serve(entrance: &Entrance, stopped: &UnixStream, lines: &[u8]) {
    let listener = entrance.listener();
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
            && let Err(error) = entrance.answer(&stream, lines)
        {
            tracing::debug!(%error, "A program got no answer about the master");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_store::{ask_node, ask_node_at};
    use std::time::Duration;

    #[test]
    fn programs_learn_the_master_while_the_node_runs_and_nothing_after_it() {
        let port = std::process::id() as u16;
        let wait = Duration::from_secs(10);
        let claim = NameClaim::try_new(port).unwrap();
        let answer = NodeAnswer {
            master: "10.1.2.3:50051".to_owned(),
            tenant_id: "red".to_owned(),
            protocol: "rdma".to_owned(),
            device_names: "mlx5_0".to_owned(),
        };
        let introduction = Introduction::start(claim, &answer).unwrap();
        for _ in 0..2 {
            assert_eq!(ask_node(port, wait).unwrap(), answer);
        }
        assert!(NameClaim::of(&format!("node-7:{port}")).is_none());
        introduction.stop();
        assert!(ask_node(port, wait).is_err());
    }

    #[test]
    fn programs_learn_the_same_at_the_file_of_a_socket() {
        let folder = tempfile::tempdir().unwrap();
        let socket = ClientSocket { path: folder.path().join("node.sock"), mode: 0o600 };
        let wait = Duration::from_secs(10);
        let answer = NodeAnswer::of_environment("10.1.2.3:50051".to_owned(), "red".to_owned());
        let introduction = Introduction::at_file(&socket, &answer).unwrap();
        assert_eq!(ask_node_at(&socket.path, wait).unwrap(), answer);
        assert!(Introduction::at_file(&socket, &answer).is_err(), "it is taken");
        introduction.stop();
        assert!(ask_node_at(&socket.path, wait).is_err() && !socket.path.exists());
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
