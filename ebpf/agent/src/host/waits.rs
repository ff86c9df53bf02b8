//! How long our threads ran and how long they waited for a core.

use super::process::OurProcess;
use perigee_probe_loader::Probes;
use perigee_topology::Roots;
use std::collections::BTreeMap;

/// What one thread did in all its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// `program/thread`, with its number where that is not enough.
    pub(crate) thread: String,
    /// Ready but without a core, as the kernel counts.
    pub(crate) waited_ns: u64,
    /// The same as the probe counts, since it watches.
    pub(crate) probed_ns: u64,
    pub(crate) run_ns: u64,
}

/// All threads of our processes. The probe also sees waits of threads that a control group
/// throttles; the kernel's own statistics need no privilege.
pub(crate) fn waits(roots: &Roots, processes: &[OurProcess], probes: Option<&Probes>) -> Vec<Wait> {
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    let threads = processes.iter().flat_map(|process| {
        let named = move |(thread, name): (&u32, &String)| (process, *thread, name.clone());
        process.threads.iter().map(named)
    });
    let threads: Vec<_> = threads.collect();
    for (process, _, name) in &threads {
        *names.entry(format!("{}/{name}", process.program)).or_default() += 1;
    }
    let wait = |(process, thread, name): (&OurProcess, u32, String)| {
        let text = roots.proc().text(&format!("{}/task/{thread}/schedstat", process.pid))?;
        let (run_ns, waited_ns) = times(&text)?;
        let probed = probes.and_then(|probes| probes.task(thread));
        let name = format!("{}/{name}", process.program);
        let is_unique = names.get(&name) == Some(&1);
        Some(Wait {
            thread: if is_unique { name } else { format!("{name}/{thread}") },
            waited_ns,
            probed_ns: probed.map_or(0, |totals| totals.run_queue.sum),
            run_ns,
        })
    };
    threads.into_iter().filter_map(wait).collect()
}

/// Nanoseconds on a core and nanoseconds ready without one.
fn times(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_first_two_numbers() {
        assert_eq!(times("347704 3665909 2\n"), Some((347_704, 3_665_909)));
        assert_eq!(times(""), None);
        assert_eq!(times("1 x 2"), None);
    }

    #[test]
    fn threads_of_one_name_are_kept_apart() {
        let process = |pid, thread| OurProcess {
            pid,
            program: "perigee".to_owned(),
            threads: BTreeMap::from([(thread, "perigee-data".to_owned())]),
            group: None,
        };
        let own = std::process::id();
        let twice = [process(own, own), process(own, own)];
        let found = waits(&Roots::system(), &twice, None);
        assert_eq!(found[0].thread, format!("perigee/perigee-data/{own}"));
        let found = waits(&Roots::system(), &twice[..1], None);
        assert_eq!(found[0].thread, "perigee/perigee-data");
    }
}
