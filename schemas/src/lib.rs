//! Wire and record formats: FlatBuffers messages, framing, limits and the one status table.
//!
//! Everything that crosses a socket or a file border is described here and nowhere else. The crate
//! has no I/O; decoding never panics and never allocates from an unchecked length.
#![deny(unsafe_code)]

mod checksum;
mod direction;
pub mod disk_address;
mod disk_health;
pub mod extent;
pub mod frame;
pub mod frame_buffer;
pub mod identity;
pub mod key_hash;
pub mod limits;
pub mod message;
mod part_layout;
pub mod record;
mod route;
mod segment_kind;
pub mod session;
pub mod status;
pub mod tenant;
pub mod trace;

pub use direction::Direction;
pub use disk_health::DiskHealth;
pub use identity::Identity;
pub use part_layout::PartLayout;
pub use route::Route;
pub use segment_kind::SegmentKind;
pub use status::Status;
pub use tenant::TenantId;

#[allow(
    clippy::all,
    unused_imports,
    missing_docs,
    unreachable_pub,
    elided_lifetimes_in_paths,
    clippy::allow_attributes_without_reason,
    clippy::undocumented_unsafe_blocks,
    clippy::semicolon_if_nothing_returned,
    clippy::unwrap_used,
    unsafe_code,
    reason = "written by the FlatBuffers compiler"
)]
mod generated {
    include!("generated/perigee_generated.rs");
}
pub use generated::perigee::{master, mover, object, rails};
