//! Options of an agent.

use crate::otlp::OtlpTarget;
use perigee_activity::PageDirectory;
use perigee_topology::Roots;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Options of an agent.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Where metrics, JSON and the page are served.
    pub listen: SocketAddr,
    /// Where `/sys` and `/proc` of the host are.
    pub roots: Roots,
    /// Where processes of this host leave their activity pages.
    pub activity: PageDirectory,
    /// Folder that keeps counters over a restart; `None` starts from zero each time.
    pub state: Option<PathBuf>,
    /// What `perigee check` has measured; `None` holds no NIC against it.
    pub baseline: Option<PathBuf>,
    /// Whether eBPF is used where it is allowed.
    pub ebpf: bool,
    /// Whether probes count packets, which the kernel does as well.
    pub packets: bool,
    /// Batches that take longer are listed one by one.
    pub slow: Duration,
    /// Whether the kernel measures the probes' own cost all the time.
    pub measure_costs: bool,
    /// Interfaces to watch; empty for all.
    pub interfaces: Vec<String>,
    /// `HOST:PORT` of a master's HTTP port that gets links and suspects; `None` reports to none.
    pub report_to: Option<String>,
    /// A collector of OpenTelemetry that gets kept spans and metrics; `None` exports nothing.
    pub otlp: Option<OtlpTarget>,
    /// Where others may measure this host; `None` lets none.
    pub check: Option<SocketAddr>,
    /// Whether it looks at the pages of processes without telling them, so that it leaves nothing.
    pub looks_only: bool,
}

impl AgentOptions {
    /// Port of metrics and page.
    pub const PORT: u16 = 9305;
    /// The usual folder for counters over a restart.
    pub const STATE: &'static str = "/run/perigee-agent";
}

impl Default for AgentOptions {
    fn default() -> Self {
        let activity = PageDirectory::from_environment();
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), Self::PORT),
            roots: Roots::system(),
            activity: activity.unwrap_or_else(|| PageDirectory::new("/dev/shm/perigee")),
            state: Some(PathBuf::from(Self::STATE)),
            baseline: Some(perigee_mesh::usual_file()),
            ebpf: true,
            packets: false,
            slow: Duration::from_millis(10),
            measure_costs: false,
            interfaces: Vec::new(),
            report_to: None,
            otlp: None,
            check: None,
            looks_only: false,
        }
    }
}
