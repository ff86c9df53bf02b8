//! Moving slices, on the side that asks: small transfers on the caller's own connection, the others on shards.

mod batch_wait;
mod blocking_connection;
mod exchange;
mod mooncake;
mod peers;
mod scatter;
mod shard_connection;
mod shards;

pub use batch_wait::BatchWait;
pub(crate) use blocking_connection::BlockingConnection;
pub use blocking_connection::Call;
pub use peers::{Order, Peers, Terms};
pub use shards::{Shards, ShardsError, ShardsOptions};
