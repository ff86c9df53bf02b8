//! Flags that mean the same in several tools, and what becomes of their values.
//! Invariant: a flag of this list has one text, one default and one limit, whichever tool has it.

use std::collections::BTreeMap;
use std::time::Duration;

use perigee_flags::{Flag, Kind, Settings, duration_text};

use crate::cluster::Route;
use crate::drive::Span;
use crate::limits::{DURATION_MS_MAX, ITERATIONS_MAX};
use crate::report::{BandwidthUnit, Format};

/// The words of [`ROUTE`].
const AUTO: &str = "auto";
const TCP: &str = "tcp";

pub(crate) const DURATION: Flag =
    Flag::new("duration", Kind::DurationMs, "2s", "Time per row").within(1, DURATION_MS_MAX);

pub(crate) const FORMAT: Flag =
    Flag::new("format", Kind::Text, "text", "text, json or csv").one_of(Format::WORDS);

pub(crate) const UNIT: Flag = Flag::new(
    "unit",
    Kind::Text,
    "GB",
    "Unit of text: GB, GiB, Gb, MB, MiB, Mb, KB, KiB or Kb",
)
.one_of(BandwidthUnit::WORDS);

pub(crate) const CLUSTER: Flag = Flag::new(
    "master",
    Kind::Text,
    "",
    "HOST:PORT of a running cluster; its own if empty",
);

pub(crate) const ROUTE: Flag = Flag::new(
    "route",
    Kind::Text,
    AUTO,
    "auto: shared memory on one host; tcp: TCP only",
)
.one_of(&[AUTO, TCP]);

/// The number of `what` per row instead of a time.
pub(crate) const fn iterations(what: &'static str) -> Flag {
    Flag::new("iterations", Kind::Int64, "0", what).within(0, ITERATIONS_MAX)
}

/// How long a row takes, of [`DURATION`] and [`iterations`].
pub(crate) fn span(settings: &Settings) -> Span {
    let duration = Duration::from_millis(settings.integer("duration"));
    Span::of(duration, settings.integer("iterations"))
}

/// [`DURATION`] as it would be written.
pub(crate) fn duration_word(span: &Span) -> String {
    duration_text(u64::try_from(span.duration.as_millis()).unwrap_or(u64::MAX))
}

/// The value of [`FORMAT`].
pub(crate) fn format(settings: &Settings) -> Format {
    Format::of_word(settings.text("format"))
}

/// The value of [`UNIT`].
pub(crate) fn unit(settings: &Settings) -> BandwidthUnit {
    settings.text("unit").parse().unwrap_or_default()
}

/// The value of [`ROUTE`].
pub(crate) fn route(settings: &Settings) -> Route {
    match settings.text("route") {
        TCP => Route::Tcp,
        _ => Route::SharedMemory,
    }
}

/// The word of [`ROUTE`] for a value.
pub(crate) fn route_word(route: Route) -> &'static str {
    match route {
        Route::Tcp => TCP,
        Route::SharedMemory => AUTO,
    }
}

/// What a report says of settings: those that have a value.
pub(crate) fn echo<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    let owned = pairs.map(|(name, value)| (name.to_owned(), value));
    let given = owned.into_iter().filter(|(_, value)| !value.is_empty());
    given.collect()
}
