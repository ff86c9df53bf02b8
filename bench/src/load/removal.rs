//! Removing what a run has stored. Invariant: a cluster that does not answer is asked once only, so
//! the end of a run is not held up key by key.

use perigee_schemas::Status;
use perigee_store::Store;

use crate::error::BenchError;

/// Keys removed by one call.
const REMOVE_KEYS: usize = 4096;

/// Removes keys, under a lease or not. Those that the cluster evicted in the meantime are gone as
/// well.
///
/// # Errors
/// The first refusal. All other keys are removed all the same, unless no server answers.
pub(crate) fn remove<'k>(
    store: &Store,
    keys: impl Iterator<Item = &'k str>,
) -> Result<(), BenchError> {
    let keys: Vec<&str> = keys.collect();
    let mut refusal = None;
    for part in keys.chunks(REMOVE_KEYS) {
        for (key, status) in part.iter().zip(store.remove(part, true)) {
            match status {
                // A put whose end did not arrive is discarded by the cluster.
                Status::Ok | Status::ObjectNotFound | Status::ReplicaIsNotReady => {}
                Status::RpcFail | Status::RpcTimeout => return Err(refused(key, status)),
                status => {
                    refusal.get_or_insert_with(|| refused(key, status));
                }
            }
        }
    }
    refusal.map_or(Ok(()), Err)
}

/// Whether no server answered, so that asking for more is no use.
pub(crate) fn is_unheard(error: &BenchError) -> bool {
    let BenchError::Outcome { status, .. } = error else {
        return false;
    };
    matches!(status, Status::RpcFail | Status::RpcTimeout)
}

/// A warning of blocks that could not be removed.
pub(crate) fn left_behind(error: &BenchError) -> String {
    format!("Blocks of this run stay in the cluster until it evicts them: {error}")
}

fn refused(key: &str, status: Status) -> BenchError {
    BenchError::Outcome { call: "remove", key: key.to_owned(), status }
}
