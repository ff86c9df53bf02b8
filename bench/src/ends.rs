//! What stands at the ends of a load: engines, clusters, processes, memories.

pub(crate) mod cluster;
pub(crate) mod engine_end;
pub(crate) mod memory_pair;
pub(crate) mod mover;
pub(crate) mod own_host;
pub(crate) mod process;
pub(crate) mod run_folder;
