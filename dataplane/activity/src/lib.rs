//! What this process moved, by NIC, route and direction, in a page that other processes read
//! without privilege; its latest batches, one by one; and the spans of requests that were slow.
//!
//! Each [`Slot`] has one writer thread; a record is a few plain loads and stores. The agent finds
//! the pages of a host with [`pages`] and sums their slots. The invariant: a slot's counters only
//! grow, also when its next thread writes them.
#![deny(unsafe_code)]

mod device;
mod directory;
mod disk_cells;
mod disk_page;
mod disk_reading;
mod error;
mod folder;
mod group;
mod layout;
mod limits;
mod link;
mod link_wait;
mod mark;
mod operation;
mod page;
mod process_counts;
mod reader;
mod request;
mod ring;
mod ring_cells;
mod slot;
mod socket_counters;
mod span;
mod span_ring;
mod stages;
mod tcp_info;
mod thread;

pub use device::{device_of_socket, device_towards};
pub use directory::{PageDirectory, PageListing, pages};
pub use disk_page::DiskPage;
pub use disk_reading::{DiskLatency, DiskReading};
pub use error::PageError;
pub use group::control_group;
pub use layout::{SlotKey, text};
pub use limits::{LATENCY_BUCKETS, QUARTERED_POWER, QUARTERED_POWERS, SLOW_CLASSES, SLOW_MARK_NS};
pub use link::{Arrival, Link, LinkRole};
pub use link_wait::LinkWait;
pub use mark::{BatchMark, slow_class_begin_ns};
pub use operation::Operation;
pub use page::{Page, page};
pub use perigee_schemas::{Direction, Route};
pub use process_counts::{ProcessReading, count_unreachable_owner, count_wrong_bytes};
pub use reader::marks::{MarkReading, RingsSeen};
pub use reader::spans::{KeptSpans, SpansSeen};
pub use reader::{LinkReading, PageReader, SlotReading};
pub use request::{
    CallOutcome, DetachedCall, KeptCall, OpenCall, Request, add_span, answered, begin_call,
    belonging, belongs_to, counting_as, current_context, current_request,
};
pub use ring::{MarkRing, batch_done};
pub use slot::Slot;
pub use socket_counters::SocketCounters;
pub use span::{Span, SpanKind};
pub use stages::Stages;
pub use thread::{record, record_failure, record_retry};
