//! The node daemon: donates memory, serves its segments, reports health.
