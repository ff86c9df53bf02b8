//! Benchmarks against the machine's own limits.
