//! Clients: heartbeats and leaving. Invariant: the registry asks a client it does not know to mount
//! again; only mounting makes it known.

use super::Registry;
use super::client_state::ClientState;

impl Registry {
    /// A heartbeat.
    pub fn ping(&mut self, now_ms: u64, client: u128) -> ClientState {
        self.advance(now_ms);
        let heard_ms = self.heard_ms();
        match self.clients.get_mut(&client) {
            Some(known) => {
                known.heard_ms = heard_ms;
                ClientState::Ok
            }
            None => ClientState::NeedRemount,
        }
    }

    /// A client says goodbye: its segments are unmounted at once. Returns whether it was known.
    pub fn leave(&mut self, now_ms: u64, client: u128) -> bool {
        self.advance(now_ms);
        self.forget_client(client)
    }

    /// Number of known clients, those without segments included.
    pub fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Whether a client is known.
    pub fn knows(&self, client: u128) -> bool {
        self.clients.contains_key(&client)
    }

    pub(super) fn forget_client(&mut self, client: u128) -> bool {
        let Some(known) = self.clients.remove(&client) else {
            return false;
        };
        for index in known.segments {
            self.forget_segment(index);
        }
        true
    }
}
