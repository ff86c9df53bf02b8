//! Disks on real file systems, through the door and a real shard.
#![expect(clippy::unwrap_used, reason = "the functions that tests share fail their test")]

mod encrypted;
mod file_systems;
mod folder;
mod host;
mod joined;
mod kills;
mod listing;
mod shared;
