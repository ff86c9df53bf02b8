//! Sysfs and procfs trees made to order, for tests here and in other crates. Invariant: files and
//! links have the form of the kernel's own, so that readers cannot tell them apart.

mod hosts;
pub(crate) mod tree;

pub use hosts::{bare_host, eight_gpu_host, two_socket_host, virtual_machine};
pub use tree::{NicSpec, RdmaSpec, Tree};
