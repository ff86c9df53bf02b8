//! Many NICs as one mover of bytes: slices over the rails that deliver first, failover, endpoints,
//! proofs.
//!
//! What decides (slices, retries, health, spraying, the endpoint pool) is pure and gets the time as
//! an argument; a shard of rails drives queue pairs with it, on an executor in production and under
//! a seeded simulation in tests. The invariant: a caller gets the end of each request exactly once,
//! and not before every device has let go of its memory.

mod accepted;
mod active_request;
mod addresses;
mod bandwidth;
mod cores;
mod descriptor;
mod devices;
mod endpoint;
mod endpoints;
mod engine;
mod error;
mod fencing;
mod health;
mod joining;
mod keys;
mod limits;
mod pairing;
mod parts;
mod peer;
mod placement;
mod pool;
mod preference;
mod proof;
mod rail;
mod registration;
mod report;
mod request;
mod retry;
mod shard;
mod sink;
mod slab;
mod slice;
mod slicing;
mod spray;
mod tuning;
mod waiting;

pub use active_request::RailRequest;
pub use descriptor::{
    EndpointAnswer, EndpointDescriptor, EndpointOffer, FencedPair, GidDescriptor, PairAnswer,
    PairOffer, PeerDescriptor, ProofDescriptor, RailDescriptor, RegionDescriptor,
};
pub use devices::host_devices;
pub use engine::exchange::{ExchangeDone, OfferExchange};
pub use engine::{BatchTicket, PeerHandle, RailEngine, RailOptions, deadline_in};
pub use error::RailError;
pub use keys::RemoteKeys;
pub use limits::{LATENCY_BUCKETS, PAIRS_PER_PEER, PAIRS_PER_PEER_MAX, QUEUE_PAIRS_MAX, RAILS_MAX};
pub use placement::Placement;
pub use preference::Preference;
pub use rail::RailDevice;
pub use registration::Registration;
pub use report::RailReport;
pub use sink::{ParkSink, Sink};
pub use tuning::{Partners, RailTuning};
