//! What a load is held against: the same work by this machine, or by another program, without ours.

pub(crate) mod copy;
pub(crate) mod memcached;
pub(crate) mod ping_pong;
pub(crate) mod pump;
pub(crate) mod rounds;
