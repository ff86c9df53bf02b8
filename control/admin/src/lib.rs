//! The master's HTTP routes: health, metrics, keys, segments.
