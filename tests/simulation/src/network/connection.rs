//! Connections: two ends with their operations, and what is on the way between them.
//! Invariant: every operation on an end ends once: done, cut short by the peer, or broken.

use super::host::HostId;
use super::pipe::{Load, Pipe};
use super::{Arrival, Core, EndId};
use crate::limits::{KEEP_ALIVE, SHUTTING_MAX};
use crate::slot::Slot;
use perigee_reactor::Message;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// What a receive ends with: how many bytes, and the buffer they are in.
pub(crate) type Received = (io::Result<usize>, Vec<u8>);

/// What a receive waits for.
pub(crate) enum Wanted {
    /// Some bytes behind the contents of a buffer, at most so many.
    Some(Vec<u8>, usize),
    /// All bytes of a message.
    All(Message),
}

/// A TCP connection.
pub(crate) struct Connection {
    pub(super) ends: [End; 2],
    /// By sending side.
    pub(super) pipes: [Pipe; 2],
    window_bytes: usize,
}

/// One side of a connection.
pub(crate) struct End {
    pub(super) host: HostId,
    address: SocketAddr,
    sends: VecDeque<(Message, Slot<io::Result<()>>)>,
    receives: VecDeque<(Wanted, Slot<Received>)>,
    inbox: VecDeque<u8>,
    /// The peer will send nothing more.
    heard_farewell: bool,
    is_broken: bool,
    /// This side sends and receives nothing more.
    is_shut: bool,
    /// No task has it any more.
    is_released: bool,
    /// The kernel has forgotten it.
    is_gone: bool,
}

impl Connection {
    pub(super) fn new(hosts: [HostId; 2], addresses: [SocketAddr; 2], window_bytes: usize) -> Self {
        let end = |side: usize| End {
            host: hosts[side],
            address: addresses[side],
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            inbox: VecDeque::new(),
            heard_farewell: false,
            is_broken: false,
            is_shut: false,
            is_released: false,
            is_gone: false,
        };
        Self { ends: [end(0), end(1)], pipes: Default::default(), window_bytes }
    }

    /// Ends that tasks or unfinished operations keep.
    pub(crate) fn open_ends(&self) -> usize {
        self.ends.iter().filter(|end| !end.is_gone).count()
    }
}

impl End {
    /// Why nothing can be sent or received, if so.
    fn fault(&self) -> Option<io::ErrorKind> {
        (self.is_broken || self.is_gone).then_some(io::ErrorKind::ConnectionReset)
    }

    fn is_finished(&self) -> bool {
        self.heard_farewell || self.is_shut
    }
}

impl Core {
    pub(crate) fn address_of(&self, (number, side): EndId) -> Option<SocketAddr> {
        self.connections.get(&number).map(|connection| connection.ends[side].address)
    }

    pub(crate) fn send(&mut self, end: EndId, message: Message) -> Slot<io::Result<()>> {
        let slot = Slot::default();
        match self.end(end) {
            Some(found) => found.sends.push_back((message, slot.clone())),
            None => slot.give(Err(io::ErrorKind::ConnectionReset.into())),
        }
        self.go_on_sending(end);
        slot
    }

    pub(crate) fn receive(&mut self, end: EndId, wanted: Wanted) -> Slot<Received> {
        let slot = Slot::default();
        match self.end(end) {
            Some(found) => found.receives.push_back((wanted, slot.clone())),
            None => slot.give((Err(io::ErrorKind::ConnectionReset.into()), Vec::new())),
        }
        self.go_on_receiving(end);
        slot
    }

    /// This side is through with the connection, in both directions.
    pub(crate) fn shut(&mut self, end: EndId) {
        let Some(found) = self.end(end) else {
            return;
        };
        if found.is_shut || found.fault().is_some() {
            return;
        }
        found.is_shut = true;
        self.note("shuts", end.0, end.1 as u64);
        self.put(end, Load::Farewell);
        // A kernel ends what is under way a little later, and uses its memory until then.
        let later = self.random.length(Duration::ZERO, SHUTTING_MAX);
        self.plan(later, Arrival::Shut(end));
    }

    pub(super) fn operations_end(&mut self, end: EndId) {
        self.go_on_sending(end);
        self.go_on_receiving(end);
    }

    /// Whether an end is open and nothing has come that was not read.
    pub(crate) fn is_quiet(&mut self, end: EndId) -> bool {
        self.end(end).is_some_and(|found| {
            found.fault().is_none() && !found.is_finished() && found.inbox.is_empty()
        })
    }

    /// No task has this end any more: it is closed as soon as no operation uses it.
    pub(crate) fn release(&mut self, end: EndId) {
        if let Some(found) = self.end(end) {
            found.is_released = true;
        }
        self.close_if_unused(end);
    }

    /// Breaks both ends.
    pub(crate) fn break_connection(&mut self, number: u64) {
        self.note("breaks", number, 0);
        self.break_end((number, 0));
        self.break_end((number, 1));
    }

    pub(super) fn break_end(&mut self, end: EndId) {
        let Some(found) = self.end(end) else {
            return;
        };
        found.is_broken = true;
        found.inbox.clear();
        self.go_on_sending(end);
        self.go_on_receiving(end);
    }

    /// Its kernel has asked whether an idle peer is still there, and it is not.
    pub(super) fn peer_is_missed(&mut self, (number, side): EndId) {
        let peer_is_gone = self.end((number, 1 - side)).is_some_and(|peer| peer.is_gone);
        if peer_is_gone {
            self.break_end((number, side));
        }
    }

    /// The process of an end has died.
    pub(super) fn end_dies(&mut self, end: EndId, power_stays: bool) {
        let Some(found) = self.end(end) else {
            return;
        };
        let was_open = !found.is_gone && !found.is_broken;
        found.is_gone = true;
        found.sends.clear();
        found.receives.clear();
        let is_clean = found.inbox.is_empty();
        if !power_stays {
            if let Some(connection) = self.connections.get_mut(&end.0) {
                connection.pipes[end.1].loads.clear();
            }
            let asked = self.random.length(KEEP_ALIVE.0, KEEP_ALIVE.1);
            self.plan(asked, Arrival::Missed((end.0, 1 - end.1)));
        } else if was_open {
            self.put(end, if is_clean { Load::Farewell } else { Load::Break });
        }
        self.forget_if_over(end.0);
    }

    pub(super) fn deliver(&mut self, end: EndId, bytes: &[u8]) {
        let Some(found) = self.end(end) else {
            return;
        };
        if found.is_gone || found.is_shut {
            return self.put(end, Load::Break);
        }
        if !found.is_broken {
            found.inbox.extend(bytes);
            self.go_on_receiving(end);
        }
    }

    pub(super) fn hear_farewell(&mut self, end: EndId) {
        if let Some(found) = self.end(end) {
            found.heard_farewell = true;
        }
        self.go_on_receiving(end);
    }

    fn end(&mut self, (number, side): EndId) -> Option<&mut End> {
        self.connections.get_mut(&number).map(|connection| &mut connection.ends[side])
    }

    /// Puts on the way what the window has room for, and ends sends that are through.
    fn go_on_sending(&mut self, (number, side): EndId) {
        while let Some(connection) = self.connections.get_mut(&number) {
            let room = connection.window_bytes.saturating_sub(connection.pipes[side].unread);
            let end = &mut connection.ends[side];
            let (fault, is_shut) = (end.fault(), end.is_shut);
            let Some((message, _)) = end.sends.front_mut() else {
                break;
            };
            let result = match fault {
                Some(kind) => Some(Err(kind.into())),
                None if is_shut => Some(Err(io::ErrorKind::BrokenPipe.into())),
                None => (message.bytes() == 0).then_some(Ok(())),
            };
            if let Some(result) = result {
                if let Some((_, slot)) = end.sends.pop_front() {
                    slot.give(result);
                }
                continue;
            }
            if room == 0 {
                break;
            }
            let mut bytes = Vec::new();
            message.take_bytes(&mut bytes, self.link_conditions.chunk(&self.random).min(room));
            self.put((number, side), Load::Bytes(bytes));
        }
        self.close_if_unused((number, side));
    }

    /// Hands out what has arrived, and ends receives that are through.
    fn go_on_receiving(&mut self, (number, side): EndId) {
        let mut read = 0;
        while let Some(connection) = self.connections.get_mut(&number) {
            let end = &mut connection.ends[side];
            let Some((wanted, slot)) = end.receives.pop_front() else {
                break;
            };
            let chunk = self.link_conditions.chunk(&self.random);
            match end.serve(wanted, chunk, &mut read) {
                Ok(received) => slot.give(received),
                Err(wanted) => {
                    end.receives.push_front((wanted, slot));
                    break;
                }
            }
        }
        if read > 0
            && let Some(connection) = self.connections.get_mut(&number)
        {
            let pipe = &mut connection.pipes[1 - side];
            pipe.unread = pipe.unread.saturating_sub(read);
            self.go_on_sending((number, 1 - side));
        }
        self.close_if_unused((number, side));
    }

    fn close_if_unused(&mut self, end: EndId) {
        let Some(found) = self.end(end) else {
            return;
        };
        let unused = found.sends.is_empty() && found.receives.is_empty();
        if !found.is_released || found.is_gone || !unused {
            return;
        }
        found.is_gone = true;
        let (said, is_clean) = (found.is_shut || found.is_broken, found.inbox.is_empty());
        self.note("closes", end.0, end.1 as u64);
        if !is_clean {
            self.put(end, Load::Break);
        } else if !said {
            self.put(end, Load::Farewell);
        }
        self.forget_if_over(end.0);
    }

    fn forget_if_over(&mut self, number: u64) {
        if self.connections.get(&number).is_some_and(|connection| connection.open_ends() == 0) {
            self.connections.remove(&number);
        }
    }
}

impl End {
    /// What a receive ends with now, or what it goes on waiting for. Adds to `read` what was read.
    fn serve(
        &mut self,
        wanted: Wanted,
        chunk: usize,
        read: &mut usize,
    ) -> Result<Received, Wanted> {
        let (fault, is_finished) = (self.fault(), self.is_finished());
        match wanted {
            Wanted::Some(mut buffer, limit) => {
                let room = limit.min(buffer.capacity() - buffer.len());
                let count = self.inbox.len().min(room).min(chunk);
                buffer.extend(self.inbox.drain(..count));
                *read += count;
                match fault {
                    Some(kind) => Ok((Err(kind.into()), buffer)),
                    None if count > 0 || room == 0 || is_finished => Ok((Ok(count), buffer)),
                    None => Err(Wanted::Some(buffer, limit)),
                }
            }
            Wanted::All(mut message) => {
                let filled = message.fill_bytes(self.inbox.make_contiguous());
                self.inbox.drain(..filled);
                *read += filled;
                match fault {
                    _ if message.bytes() == 0 => Ok((Ok(filled), Vec::new())),
                    Some(kind) => Ok((Err(kind.into()), Vec::new())),
                    None if is_finished => {
                        Ok((Err(io::ErrorKind::UnexpectedEof.into()), Vec::new()))
                    }
                    None => Err(Wanted::All(message)),
                }
            }
        }
    }
}
