//! Messages of a C library on the standard error.

use std::io;
use std::sync::Once;
use tracing_subscriber::EnvFilter;

/// Environment variable with the filter, for example `info`.
const FILTER_VARIABLE: &str = "PERIGEE_LOG";
/// The line of throughput and latency is written only if a variable asks for it.
const DEFAULT_FILTER: &str = "warn,glommio=error,perigee_report=info";

static BEGUN: Once = Once::new();

/// Prints messages from the first call on.
pub(crate) fn print_messages() {
    BEGUN.call_once(|| {
        let filter = EnvFilter::try_from_env(FILTER_VARIABLE)
            .unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
        let printer = tracing_subscriber::fmt().with_env_filter(filter);
        // Another printer of the process sees the messages then.
        let _ = printer.with_writer(io::stderr).with_ansi(false).try_init();
    });
}
