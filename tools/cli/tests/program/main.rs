//! The perigee program as a process. Invariant: every wait has a deadline, and every process is
//! gone when its test ends.

#[cfg(test)]
mod bench;
#[cfg(test)]
mod bench_end;
#[cfg(test)]
mod bundle;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod process;
#[cfg(test)]
mod topology;
#[cfg(test)]
mod usage;
