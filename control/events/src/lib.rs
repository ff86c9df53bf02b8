//! Publishes which keys became readable and which are gone, so that routers know where a prefix is
//! cached: batches in msgpack, with Mooncake's field names, to ZeroMQ subscribers.
//!
//! Invariant: a consumer never delays a call of the master. What one consumer makes the publisher
//! keep is bounded, and what it misses it sees as a gap in the sequence numbers.
//!
//! ZeroMQ's wire protocol is spoken here, in `zmtp/`, because the port may be open to strangers:
//! the Rust library reserves whatever length a peer announces, and the C++ one needs a C++
//! toolchain for each wheel. A publisher needs little of it: greeting, READY, subscriptions.
#![forbid(unsafe_code)]

mod batch;
mod counts;
mod endpoint;
mod error;
mod event_log;
mod event_template;
mod limits;
mod message_run;
mod msgpack;
mod published_event;
mod publisher;
mod publisher_state;
mod replay;
mod sequence_hash;
mod server;
mod settings;
mod subscriber;
mod zmtp;

pub use counts::EventCounts;
pub use endpoint::Endpoint;
pub use error::EventsError;
pub use publisher::EventPublisher;
pub use settings::EventSettings;
