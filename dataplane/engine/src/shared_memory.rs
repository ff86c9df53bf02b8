//! The route of peers on this host: memory that the owner handed out is mapped here and copied into and out of directly.
//!
//! Only whole registered segments are handed out, to processes of the same user (`perigee_memory::rendezvous`), so a mapping
//! reaches exactly what was registered. The invariant: before a copy begins the owner was seen alive and has not closed the
//! guest's gate, and it gives memory up only when nobody who passed its gate is still copying.

mod copiers;
mod crossing;
mod gate;
mod lobby;
mod neighbour;

pub(crate) use copiers::Copiers;
pub(crate) use crossing::Crossing;
pub(crate) use lobby::Lobby;
pub(crate) use neighbour::{Joint, Neighbour};

use perigee_discovery::Extra;
use serde_json::{Value, json};

/// Name of the document's field that tells where segments are handed out.
const FIELD: &str = "shared_memory";

/// Where an engine hands out its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Door {
    /// The running kernel: only its processes can come.
    host: String,
    /// Abstract Unix socket, new in each life.
    socket: String,
}

impl Door {
    fn write(&self, extra: &mut Extra) {
        let value = json!({"host": self.host, "socket": self.socket});
        extra.unknown.insert(FIELD.to_owned(), value);
    }

    fn read(extra: &Extra) -> Option<Self> {
        let field = extra.unknown.get(FIELD)?;
        let text = |name: &str| field.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            host: text("host")?,
            socket: text("socket")?,
        })
    }
}

/// Identity of this host's running kernel; empty if it has none, and then nothing is shared.
fn host_identity() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}
