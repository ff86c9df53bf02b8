//! The summary people read instead of the metrics. Invariant: every number in it is one of the
//! exported metrics, so the two never disagree.

use std::fmt::Write as _;

const OPERATIONS: [(&str, &str); 4] = [
    ("Get", "mooncake_transfer_get_latency"),
    ("Put", "mooncake_transfer_put_latency"),
    ("Batch Get", "mooncake_transfer_batch_get_latency"),
    ("Batch Put", "mooncake_transfer_batch_put_latency"),
];

const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];

/// Summary of a text in Prometheus format.
pub(crate) fn summary_text(metrics: &str) -> String {
    let mut text = String::from("Client Metrics Summary\n=== Transfer Metrics Summary ===\n");
    for (title, name) in [
        ("Total Read", "mooncake_transfer_read_bytes"),
        ("Total Write", "mooncake_transfer_write_bytes"),
    ] {
        let _ = writeln!(text, "{title}: {}", size_text(value_of(metrics, name)));
    }
    text.push_str("\n=== Latency Summary (microseconds) ===\n");
    for (title, name) in OPERATIONS {
        let count = value_of(metrics, &format!("{name}_count"));
        let sum = value_of(metrics, &format!("{name}_sum"));
        let _ = match count {
            0.0 => writeln!(text, "{title}: No data"),
            count => writeln!(text, "{title}: count={count}, mean={:.0}us", sum / count),
        };
    }
    text
}

/// Value of the first sample of a metric; 0 when there is none.
fn value_of(metrics: &str, name: &str) -> f64 {
    let is_sample =
        |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
    let sample = metrics.lines().find(is_sample);
    sample.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}

fn size_text(bytes: f64) -> String {
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value} B"),
        unit => format!("{value:.2} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_metrics::{BuildInfo, ClientCall, ClientCells, Samples};

    #[test]
    fn numbers_are_those_of_the_metrics() {
        let cells = ClientCells::default();
        cells.record_transfer(
            perigee_schemas::Route::Tcp,
            perigee_schemas::Direction::Read,
            3 << 20,
            2_000,
        );
        cells.record_operation(ClientCall::Get, 3 << 20, 60_000);
        let build = BuildInfo { version: "1", commit: "c", reactor: "epoll" };
        let text = summary_text(&Samples::of_client([&cells], "real", build).render());
        for line in
            ["Total Read: 3.00 MB", "Total Write: 0 B", "Get: count=1, mean=60us", "Put: No data"]
        {
            assert!(text.contains(&format!("\n{line}\n")), "{line} in {text}");
        }
    }
}
