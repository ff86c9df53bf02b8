//! Perigee for Rust programs: [`ObjectStore`] puts and gets objects of a cluster, [`PeerEngine`]
//! moves bytes between registered memory of two processes.
//!
//! # Memory
//!
//! Calls take `&[u8]` and `&mut [u8]` from anywhere. [`CacheMemory`] is memory for many calls: it
//! can be registered with RDMA devices, and lends parts of itself ([`MemorySlice`]) to calls that
//! outlive the code that made them. Memory that exists already, of an accelerator too, is taken
//! over by [`CacheMemory::adopt`].
//!
//! # Async runtimes
//!
//! Every call blocks its thread until it is done, and ends within its deadlines. An async program
//! wraps a call in [`ObjectStore::start`] or [`PeerEngine::start`]: the call runs on a thread of
//! its own, and the [`PendingCall`] is a future for any runtime. A shorter deadline is the
//! runtime's, such as `tokio::time::timeout`, and cancellation is dropping the future. Both are
//! safe: a call that has begun keeps the memory that was moved into it until it has ended.
//!
//! ```no_run
//! use perigee_client::{CacheMemory, ObjectStore, ReplicateConfig, StoreConfig};
//! use std::time::Duration;
//!
//! type Failure = Box<dyn std::error::Error>;
//!
//! async fn page(store: &ObjectStore, memory: &CacheMemory) -> Result<(), Failure> {
//!     let mut slice = memory.lend(0..4096)?;
//!     let read = store.start(move |store| {
//!         let bytes = store.get_slice("layer-0/page-7", &mut slice)?;
//!         Ok::<_, perigee_client::ObjectError>((bytes, slice))
//!     });
//!     // When the time is over, the slice stays lent until the call has ended, then it is free.
//!     let (bytes, slice) = tokio::time::timeout(Duration::from_millis(50), read).await??;
//!     assert!(bytes <= slice.len());
//!     Ok(())
//! }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = ObjectStore::open(StoreConfig {
//!     local_hostname: "10.0.0.7".into(),
//!     master_server_address: "10.0.0.1:50051".into(),
//!     ..StoreConfig::default()
//! })?;
//! store.put("greeting", b"hello", &ReplicateConfig::default())?;
//! assert_eq!(store.get("greeting")?, b"hello");
//! # Ok(()) }
//! ```
//!
//! # Errors
//!
//! [`ObjectError`] names the object and what happened to it ([`ObjectFault`]): not there, under a
//! lease, no room, not reached. Setting up answers [`StoreError`], engines answer [`EngineError`];
//! their messages say what to change. Messages about the rest go through `tracing`.
//!
//! The invariant: no call of a safe function lets bytes move in memory that the program does not
//! own any more.
#![deny(missing_docs)]
#![deny(unsafe_code)]

mod background;
mod engine;
mod error;
mod home;
mod leases;
mod memory;
mod object;
mod registration;
mod slice;
mod store;
mod trace;
mod transfer;

pub use background::PendingCall;
pub use engine::PeerEngine;
pub use error::{ObjectError, ObjectFault};
pub use leases::ObjectLeases;
pub use memory::CacheMemory;
pub use object::{ObjectSource, ObjectTarget};
pub use perigee_schemas::Identity;
pub use registration::MemoryRegistration;
pub use slice::{LendError, MemorySlice};
pub use store::ObjectStore;
pub use trace::in_trace;
pub use transfer::PeerTransfer;

pub use perigee_engine::{EngineError, EngineOptions, Notify, SubmitOptions};
pub use perigee_memory::segment::{Exhausted, SegmentError};
pub use perigee_schemas::Status;
pub use perigee_store::{ReplicateConfig, SoftPinAction, StoreConfig, StoreError};
