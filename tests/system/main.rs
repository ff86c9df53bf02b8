//! System tests: real processes, real sockets, on loopback.
//! Invariant: each test starts what it needs and leaves nothing behind.

#[cfg(all(test, feature = "store"))]
mod damaged_disk;
#[cfg(test)]
mod descriptors;
#[cfg(all(test, feature = "store"))]
mod drain_command;
#[cfg(all(test, feature = "store"))]
mod drain_jobs;
#[cfg(all(test, feature = "store"))]
mod drain_on_stop;
#[cfg(test)]
mod flags;
#[cfg(all(test, feature = "store"))]
mod forged_segments;
#[cfg(all(test, feature = "store"))]
mod full_tmpfs;
#[cfg(test)]
mod hostile_bytes;
#[cfg(test)]
mod hostile_floods;
#[cfg(test)]
mod hostile_http;
#[cfg(all(test, feature = "store"))]
mod hot_keys;
#[cfg(test)]
mod idle_connections;
#[cfg(all(test, feature = "store"))]
mod inspect_key;
mod kills_under_load;
#[cfg(all(test, feature = "store"))]
mod larger_objects;
#[cfg(test)]
mod logs;
#[cfg(all(test, feature = "store"))]
mod master_restart;
#[cfg(test)]
mod membership;
#[cfg(all(test, feature = "store"))]
mod memory_limits;
mod metadata_services;
#[cfg(all(test, feature = "store"))]
mod one_request;
#[cfg(test)]
mod ports_in_use;
#[cfg(all(test, feature = "store"))]
mod puts_beside_disks;
#[cfg(all(test, feature = "store"))]
mod repairs;
#[cfg(all(test, feature = "store"))]
mod save_on_stop;
#[cfg(all(test, feature = "store"))]
mod shared_directory;
#[cfg(test)]
mod shutdown;
#[cfg(all(test, feature = "store"))]
mod slow_disk;
#[cfg(all(test, feature = "store"))]
mod ssd_containers;
#[cfg(all(test, feature = "store"))]
mod ssd_return;
#[cfg(all(test, feature = "store"))]
mod ssd_tier;
#[cfg(all(test, feature = "store"))]
mod store_churn;
#[cfg(all(test, feature = "store"))]
mod store_faults;
#[cfg(all(test, feature = "store"))]
mod store_freezes;
#[cfg(all(test, feature = "store"))]
mod store_leases;
#[cfg(all(test, feature = "store"))]
mod store_limits;
#[cfg(all(test, feature = "store"))]
mod store_upserts;
#[cfg(all(test, feature = "store"))]
mod tasks;
#[cfg(all(test, feature = "store"))]
mod tenant_quotas;
#[cfg(all(test, feature = "store"))]
mod tenants;
#[cfg(all(test, feature = "store"))]
mod without_io_uring;
