//! The perigee program as a process. Invariant: every wait has a deadline, and every process is
//! gone when its test ends.

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod process;
#[cfg(test)]
mod usage;
