//! NICs, GPUs, disks and their distances, read from folders that are given; rails per memory
//! location in Mooncake's shape. Invariant: a broken or empty tree gives less, never an error.
#![forbid(unsafe_code)]

mod disk;
mod document;
mod error;
mod explanation;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod gid;
mod gpu;
mod host;
pub mod limits;
mod local;
mod matrix;
mod nic;
mod numa;
mod place;
mod ranking;
mod rdma;
mod roots;
mod selection;

pub use disk::Disk;
pub use error::TopologyError;
pub use explanation::{DeviceNote, Explanation, LocationNote};
pub use gpu::{Gpu, GpuVendor};
pub use host::Topology;
pub use local::CUSTOM_MATRIX_VARIABLE;
pub use matrix::{Matrix, Rails};
pub use nic::{Nic, NicKind, OperState};
pub use numa::{NumaNode, cpu_list};
pub use place::{DevicePlace, Distance, PciAddress, PciPath};
pub use ranking::RankedDevice;
pub use rdma::{LinkLayer, PortState, RdmaDevice, RdmaPort};
pub use roots::{Folder, Roots};
pub use selection::Selection;
