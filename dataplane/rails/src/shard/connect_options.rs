//! How queue pairs are connected. Invariant: both ends wait and retry alike.

use crate::limits::{ACK_TIMEOUT, READS_IN_FLIGHT, RETRY_COUNT, RNR_RETRY_COUNT};
use perigee_verbs::{ConnectOptions, LinkOptions};

/// How connections behave.
pub(crate) fn connect_options(link: &LinkOptions) -> ConnectOptions {
    ConnectOptions {
        timeout_exponent: ACK_TIMEOUT,
        retries: RETRY_COUNT,
        rnr_retries: RNR_RETRY_COUNT,
        reads_outstanding: READS_IN_FLIGHT,
        traffic_class: link.traffic_class,
        service_level: link.service_level,
        ..ConnectOptions::default()
    }
}
