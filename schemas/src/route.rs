//! The way bytes take: one type from the choice of a route to the counters and their labels.
//! Invariant: a number keeps its meaning, because processes of different builds read it.

/// The way bytes take between two memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Route {
    /// A copy inside the process.
    SameProcess = 0,
    /// A copy through memory shared with another process of the host.
    SharedMemory = 1,
    /// A socket.
    Tcp = 2,
    /// One-sided verbs.
    Rdma = 3,
}

impl Route {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::SameProcess, Self::SharedMemory, Self::Tcp, Self::Rdma];

    /// The route with a number; `None` for one that this build does not know.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Value of the `route` label.
    pub fn label(self) -> &'static str {
        match self {
            Self::SameProcess => "same_process",
            Self::SharedMemory => "shared_memory",
            Self::Tcp => "tcp",
            Self::Rdma => "rdma",
        }
    }

    /// Mooncake's word for it, in hints and reports of engines.
    pub fn transport(self) -> &'static str {
        match self {
            Self::SameProcess | Self::SharedMemory => "shm",
            Self::Tcp => "tcp",
            Self::Rdma => "rdma",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_in_the_list_and_no_others_exist() {
        for route in Route::ALL {
            assert_eq!(Route::from_number(route as u8), Some(route));
        }
        assert_eq!(Route::from_number(4), None);
    }
}
