//! The capabilities that the kernel asks for, and which of them this process has.

use std::fmt;

/// A capability that some probe needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Capability {
    /// Maps and programs.
    Bpf,
    /// Programs that trace.
    Perfmon,
    /// Programs that see packets and sockets.
    NetAdmin,
    /// Probes on programs, and run time statistics.
    SysAdmin,
    /// The program files of other users' processes.
    SysPtrace,
}

impl Capability {
    /// All that matter here.
    pub const ALL: [Self; 5] =
        [Self::Bpf, Self::Perfmon, Self::NetAdmin, Self::SysAdmin, Self::SysPtrace];

    /// The kernel's number.
    fn bit(self) -> u32 {
        match self {
            Self::NetAdmin => 12,
            Self::SysPtrace => 19,
            Self::SysAdmin => 21,
            Self::Perfmon => 38,
            Self::Bpf => 39,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Bpf => "CAP_BPF",
            Self::Perfmon => "CAP_PERFMON",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::SysPtrace => "CAP_SYS_PTRACE",
        })
    }
}

/// Which of them this process has. The administrator's capability includes the finer ones, as the
/// kernel sees it.
pub fn held_capabilities() -> Vec<Capability> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    effective(&status)
}

fn effective(status: &str) -> Vec<Capability> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let mask = mask.unwrap_or(0);
    let holds = |capability: Capability| mask >> capability.bit() & 1 == 1;
    let admin = holds(Capability::SysAdmin);
    let included = |capability: &Capability| {
        let fine = matches!(capability, Capability::Bpf | Capability::Perfmon);
        holds(*capability) || (admin && fine)
    };
    Capability::ALL.into_iter().filter(included).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mask: &str) -> Vec<Capability> {
        effective(&format!("Name:\tx\nCapEff:\t{mask}\nSeccomp:\t0\n"))
    }

    #[test]
    fn capabilities_are_read_from_the_mask() {
        assert_eq!(of("0000000000000000"), []);
        assert_eq!(of("0000008000000000"), [Capability::Bpf]);
        let three = [Capability::Bpf, Capability::Perfmon, Capability::NetAdmin];
        assert_eq!(of("000000c000001000"), three);
        assert_eq!(of("0000000000080000"), [Capability::SysPtrace]);
    }

    #[test]
    fn the_administrator_may_trace_but_not_change_the_network() {
        let wanted = [Capability::Bpf, Capability::Perfmon, Capability::SysAdmin];
        assert_eq!(of("0000000000200000"), wanted);
    }

    #[test]
    fn a_status_without_a_mask_gives_nothing() {
        assert_eq!(effective("Name:\tx\n"), []);
    }
}
