//! The perigee program as a process. Invariant: every wait has a deadline, and every process is
//! gone when its test ends.

mod cluster;
mod process;
mod usage;
