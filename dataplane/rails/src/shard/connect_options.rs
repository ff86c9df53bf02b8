//! How queue pairs are connected. Invariant: both ends use the same options.

use crate::limits::{ACK_TIMEOUT, READS_IN_FLIGHT, RETRY_COUNT, RNR_RETRY_COUNT};
use perigee_verbs::ConnectOptions;

/// How connections behave, on both ends.
pub(crate) fn connect_options() -> ConnectOptions {
    ConnectOptions {
        timeout_exponent: ACK_TIMEOUT,
        retries: RETRY_COUNT,
        rnr_retries: RNR_RETRY_COUNT,
        reads_outstanding: READS_IN_FLIGHT,
        ..ConnectOptions::default()
    }
}
