//! Facts about a shard, one test each.
//! Invariant: every test states in its name what holds.
