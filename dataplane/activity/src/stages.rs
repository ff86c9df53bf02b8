//! Where the time of one operation went. Invariant: the peer's parts are no more in sum than the
//! whole; what they leave is the wire's.

/// Times of one operation, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// In queues of this side: before its first byte went, and while the thread that asked had no
    /// core to take the answer.
    pub queue_ns: u64,
    /// From then until its end: on the wire and at the peer, or on a disk.
    pub total_ns: u64,
    /// Of `total_ns`: the peer was ready but had no core. As the two that follow, by the peer's own
    /// clock; 0 from a peer that does not say.
    pub waited_ns: u64,
    /// Of `total_ns`: the peer judged, summed and staged bytes.
    pub copied_ns: u64,
    /// Of `total_ns`: the peer read from disks.
    pub disk_ns: u64,
}

impl Stages {
    /// Of an operation in which no peer took part, or none that says what it did.
    pub fn whole(total_ns: u64, queue_ns: u64) -> Self {
        Self { queue_ns, total_ns, ..Self::default() }
    }

    /// The peer's parts.
    pub fn peer_ns(&self) -> u64 {
        self.waited_ns.saturating_add(self.copied_ns).saturating_add(self.disk_ns)
    }

    /// What the peer's parts leave.
    pub fn wire_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.peer_ns())
    }
}
