//! Which CPU runs what, and how quiet the machine was.
//! Invariant: time of others is what the machine spent in programs, less what our own programs
//! spent.

use std::io::{Error, ErrorKind};
use std::time::Duration;

/// Keeps the calling thread, and those it starts, on one CPU.
pub(crate) fn pin_to_cpu(cpu: usize) -> Result<(), Error> {
    // SAFETY: an all-zero set is a valid empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(Error::from(ErrorKind::InvalidInput));
    }
    // SAFETY: `cpu` lies within the set; the call reads a set of the given size.
    let outcome = unsafe {
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    if outcome == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Ticks per second of the times in /proc.
fn ticks_per_second() -> f64 {
    // SAFETY: asks for a constant of the system.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

/// User and system time of a process, in seconds.
pub(crate) fn process_cpu_seconds(pid: u32) -> Result<f64, Error> {
    cpu_seconds(&format!("/proc/{pid}/stat"))
}

/// The same of those of its threads that have this name.
pub(crate) fn thread_cpu_seconds(pid: u32, name: &str) -> Result<f64, Error> {
    let mut seconds = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let folder = thread?.path();
        if std::fs::read_to_string(folder.join("comm"))?.trim_end() == name {
            seconds += cpu_seconds(&folder.join("stat").to_string_lossy())?;
        }
    }
    Ok(seconds)
}

fn cpu_seconds(path: &str) -> Result<f64, Error> {
    let text = std::fs::read_to_string(path)?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    match (ticks(11), ticks(12)) {
        (Some(user), Some(system)) => Ok((user + system) / ticks_per_second()),
        _ => Err(Error::from(ErrorKind::InvalidData)),
    }
}

/// Resident bytes of a process.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64, Error> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| Error::from(ErrorKind::InvalidData))
}

/// What all CPUs together have spent, in seconds.
#[derive(Clone, Copy, Debug)]
struct MachineTimes {
    programs: f64,
    stolen: f64,
}

fn machine_times() -> Result<MachineTimes, Error> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let first = text.lines().next().unwrap_or("");
    let ticks: Vec<f64> =
        first.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    let [user, nice, system, _, _, _, _, stolen, ..] = ticks[..] else {
        return Err(Error::from(ErrorKind::InvalidData));
    };
    // Interrupts are left out: it depends on the kernel whether a program is charged for them.
    Ok(MachineTimes {
        programs: (user + nice + system) / ticks_per_second(),
        stolen: stolen / ticks_per_second(),
    })
}

/// Watches for work of others.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    pids: &'a [u32],
    machine: MachineTimes,
    own: f64,
}

/// Shares of all CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Noise {
    /// Programs that are not ours.
    pub(crate) foreign: f64,
    /// Taken by the hypervisor.
    pub(crate) stolen: f64,
}

impl<'a> Watch<'a> {
    /// Begins to watch; `pids` are our own programs.
    pub(crate) fn start(pids: &'a [u32]) -> Result<Self, Error> {
        Ok(Self { pids, machine: machine_times()?, own: own_seconds(pids)? })
    }

    /// Noise since the start, `elapsed` ago.
    pub(crate) fn noise(&self, elapsed: Duration) -> Result<Noise, Error> {
        let now = machine_times()?;
        let own = own_seconds(self.pids)? - self.own;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let all = elapsed.as_secs_f64().max(1e-9) * cores as f64;
        Ok(Noise {
            foreign: (now.programs - self.machine.programs - own).max(0.0) / all,
            stolen: (now.stolen - self.machine.stolen).max(0.0) / all,
        })
    }
}

fn own_seconds(pids: &[u32]) -> Result<f64, Error> {
    pids.iter().map(|pid| process_cpu_seconds(*pid)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_time() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).unwrap() > 0);
        assert!(process_cpu_seconds(pid).unwrap() >= 0.0);
        assert!(process_cpu_seconds(u32::MAX).is_err());
    }

    #[test]
    fn only_threads_of_the_name_are_counted() {
        let work = || {
            let pid = std::process::id();
            let deadline = std::time::Instant::now() + Duration::from_secs(60);
            let mut counted = 0.0;
            while counted == 0.0 && std::time::Instant::now() < deadline {
                counted = thread_cpu_seconds(pid, "counted").unwrap();
            }
            (counted, thread_cpu_seconds(pid, "other").unwrap())
        };
        let thread = std::thread::Builder::new().name("counted".to_owned()).spawn(work).unwrap();
        let (counted, other) = thread.join().unwrap();
        assert!(counted > 0.0);
        assert_eq!(other, 0.0);
    }

    #[test]
    fn a_cpu_beyond_every_machine_is_refused() {
        assert!(pin_to_cpu(1 << 20).is_err());
    }
}
