//! The variables that more than one part of the data plane reads. Errors, warnings and pages take
//! their words from here.

/// A variable of the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name of the environment variable.
    pub name: &'static str,
    /// What may be written, as the end of "write ...".
    pub allowed: &'static str,
    /// What holds without it.
    pub usual: &'static str,
    /// What it does.
    pub about: &'static str,
}

const SWITCH: &str = "0 or 1";

/// `MC_TRANSFER_TIMEOUT`.
pub const TRANSFER_TIMEOUT: Variable = Variable {
    name: "MC_TRANSFER_TIMEOUT",
    allowed: "whole seconds; less than 5 counts as 5",
    usual: "10 for a slice of the store, 30 for a batch of the engine",
    about: "Longest a transfer may take",
};

/// `MC_FORCE_TCP`.
pub const FORCE_TCP: Variable = Variable {
    name: "MC_FORCE_TCP",
    allowed: SWITCH,
    usual: "0",
    about: "Uses TCP although the protocol says rdma",
};

/// `MC_FORCE_HCA`.
pub const FORCE_RDMA: Variable = Variable {
    name: "MC_FORCE_HCA",
    allowed: SWITCH,
    usual: "0",
    about: "Uses RDMA whatever the protocol says, and refuses to start if no device works",
};

/// `MC_MS_AUTO_DISC`.
pub const AUTO_DISCOVERY: Variable = Variable {
    name: "MC_MS_AUTO_DISC",
    allowed: SWITCH,
    usual: "the named devices, or all",
    about: "1 uses all RDMA devices whatever names were given; 0 uses only those that were named",
};

/// `MC_TCP_BIND_ADDRESS`.
pub const TCP_BIND_ADDRESS: Variable = Variable {
    name: "MC_TCP_BIND_ADDRESS",
    allowed: "an IP address of this host",
    usual: "the address that the name stands for, or the one towards the master",
    about: "Address that data and handshake ports listen on and that peers connect to",
};

/// `MC_NUM_QP_PER_EP`.
pub const QUEUE_PAIRS: Variable = Variable {
    name: "MC_NUM_QP_PER_EP",
    allowed: "a number from 1 to 32",
    usual: "up to 4 to a peer of few NICs",
    about: "Most RDMA queue pairs of a shard between the same two NICs",
};

/// `PERIGEE_REQUIRE_RDMA`.
pub const REQUIRE_RDMA: Variable = Variable {
    name: "PERIGEE_REQUIRE_RDMA",
    allowed: SWITCH,
    usual: "0",
    about: "Refuses to start if the protocol names rdma and no device works; TCP is used otherwise",
};

/// `PERIGEE_SHARED_MEMORY`.
pub const SHARED_MEMORY: Variable = Variable {
    name: "PERIGEE_SHARED_MEMORY",
    allowed: SWITCH,
    usual: "1",
    about: "Copies directly between processes of the same user on one host",
};

/// `PERIGEE_TCP_CONGESTION`.
pub const TCP_CONGESTION: Variable = Variable {
    name: "PERIGEE_TCP_CONGESTION",
    allowed: "auto, host, or a name the kernel knows",
    usual: "auto",
    about: "Congestion control of data connections",
};

/// `PERIGEE_POLL_US`.
pub const POLL_US: Variable = Variable {
    name: "PERIGEE_POLL_US",
    allowed: "microseconds from 0 to 1000000",
    usual: "150",
    about: "How long a shard polls after its last completion before it sleeps",
};

/// All of them, by name.
pub const TABLE: [Variable; 10] = [
    FORCE_RDMA,
    FORCE_TCP,
    AUTO_DISCOVERY,
    QUEUE_PAIRS,
    TCP_BIND_ADDRESS,
    TRANSFER_TIMEOUT,
    POLL_US,
    REQUIRE_RDMA,
    SHARED_MEMORY,
    TCP_CONGESTION,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_complete_in_words() {
        assert!(TABLE.is_sorted_by_key(|variable| variable.name));
        for variable in TABLE {
            let texts = [variable.allowed, variable.usual, variable.about];
            assert!(texts.iter().all(|text| !text.is_empty()), "{}", variable.name);
        }
    }
}
