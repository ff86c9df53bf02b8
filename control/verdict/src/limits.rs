//! Bounds of what agents report.

/// Hosts that are remembered.
pub const HOSTS_MAX: usize = 1024;
/// Hosts that report from one address: more than the pods of a host.
pub const HOSTS_PER_ADDRESS_MAX: usize = 64;
/// Most NICs of one report; further ones are refused.
pub const REPORTED_NICS_MAX: usize = 64;
/// Addresses of a NIC.
pub const ADDRESSES_MAX: usize = 16;
/// Most links of one report; further ones are refused.
pub const REPORTED_LINKS_MAX: usize = 256;
/// Most suspects of one report; further ones are refused.
pub const REPORTED_SUSPECTS_MAX: usize = 64;
/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// Longest evidence, in bytes.
pub const EVIDENCE_BYTES_MAX: usize = 512;
/// Links that are shown of all hosts together; the sick ones first.
pub const SHOWN_LINKS_MAX: usize = 16_384;
/// Milliseconds between two reports of an agent.
pub const REPORT_PERIOD_MS: u64 = 2_000;
/// Milliseconds without a report after which a host is left out.
pub const REPORT_FRESH_MS: u64 = 15_000;
/// Milliseconds for which a host that reports no more is listed as silent: an hour.
pub const SILENT_SHOWN_MS: u64 = 3_600_000;
/// Milliseconds that a culprit is the same before it is named: the others may be about to report.
pub const SETTLE_MS: u64 = 4_000;
/// The same of a way between two NICs, which is also what the first report of any fault looks like.
pub const SETTLE_PATH_MS: u64 = 12_000;
/// Milliseconds for which a culprit is still named while no report explains it: agents that watch a
/// link that loses at random name it and pause, and their reports are two seconds apart.
pub const CARRIED_MS: u64 = 4_000;
/// Milliseconds between two judgements: reports and questions in between cost nothing.
pub const JUDGE_PERIOD_MS: u64 = 1_000;
/// Texts of evidence that are kept of a culprit.
pub const EVIDENCE_MAX: usize = 4;
