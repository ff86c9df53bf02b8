//! RDMA of a process, for stores and engines alike: its rails, the memory that peers may reach, and
//! for how long.
//!
//! A process asks the owner of memory on its data port what rails and keys it has
//! ([`Rdma::rails_of`]), keeps that connection, and renews its lease there; the owner answers on
//! that connection ([`PeerSession`]). The invariant: a write of a peer lands only while the peer's
//! connection stands, its lease runs and the memory is lent; afterwards its queue pairs are gone.

mod buffers;
mod context;
mod fault;
mod lent;
mod limits;
mod owner_session;
mod owner_sessions;
mod pair_joiner;
mod peer_session;
mod peers;
mod rdma;
mod remote;
mod stages;
mod start;
mod ticket_book;
mod tuning;
pub mod wire;

pub use fault::peer_error;
pub use limits::{LEASE, TICKET_LIFE};
pub use owner_session::Done;
pub use peer_session::PeerSession;
pub use peers::FirstLoad;
pub use perigee_rails::RailTuning;
pub use rdma::{Rdma, RdmaOptions};
pub use remote::{PeerRails, RemoteRegion};
pub use stages::{StageLoan, StageSlot, Stages};
pub use start::{GivenFabric, StartOptions, Unavailable, start};
pub use tuning::rail_tuning;
