//! Moving slices, on the side that asks: small transfers on the caller's own connection, the others
//! on shards.

mod batch_wait;
mod blocking_call;
pub(crate) mod blocking_connection;
mod borrowed;
mod call_bounds;
mod exchange;
mod mooncake;
mod own_waits;
mod peers;
mod scatter;
mod shard_connection;
mod shards;
mod terms;
mod unsettled;

pub use batch_wait::BatchWait;
pub use blocking_call::BlockingCall;
pub use peers::{PeerQueues, SliceOrder};
pub use shards::{Shards, ShardsError, ShardsOptions};
pub use terms::Terms;
