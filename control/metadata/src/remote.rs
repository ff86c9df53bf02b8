//! Clean-up in a separate metadata service. Invariant: each request ends by its deadline; a service
//! that is away costs a warning, nothing else.

use crate::key::encode;
use crate::limits::REMOTE_TIMEOUT;
use crate::store::client_keys;

/// Deletes the two records of a client from the service at `url` (which ends in `/metadata`) and
/// returns how many there were. Blocks for at most twice [`REMOTE_TIMEOUT`].
///
/// # Errors
/// The service cannot be reached or answers something unexpected; the text says what.
pub fn remove_client(url: &str, cluster: &str, segment_name: &str) -> Result<usize, String> {
    let mut removed = 0;
    for key in client_keys(cluster, segment_name) {
        removed += usize::from(delete(url, &key)?);
    }
    Ok(removed)
}

fn delete(url: &str, key: &str) -> Result<bool, String> {
    let target = format!("{url}?key={}", encode(key));
    let request = ureq::delete(&target)
        .config()
        .timeout_global(Some(REMOTE_TIMEOUT))
        .http_status_as_error(false)
        .build();
    match request.call().map_err(|error| error.to_string())?.status().as_u16() {
        200 => Ok(true),
        404 => Ok(false),
        status => Err(format!("metadata service answered {status}")),
    }
}
