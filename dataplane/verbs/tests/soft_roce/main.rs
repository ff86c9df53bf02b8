//! The real verbs on real devices: Soft-RoCE in the guest of `tests/rdma`, or whatever a host has.
//! Invariant: without a device each test says SKIP on standard error; it never passes in silence.
//!
//! `make test-rdma` runs this inside the guest. Tests take turns, since some take a rail down.

#![expect(clippy::unwrap_used, reason = "what fails while a test is being set up fails the test")]

mod class;
mod connecting;
mod end;
mod faults;
mod linking;
mod memory;
mod moving;
mod refusals;
mod two_hosts;
