//! Placing pages on one NUMA node.
//! Invariant: called before the pages are touched; pages that exist already are not moved.

use std::io;

use crate::mapping::Mapping;

/// Highest node number plus one that the kernel can be built for.
const NODES_MAX: u32 = 1024;
const _: () = assert!(NODES_MAX.is_multiple_of(64), "a mask of whole words");
/// `MPOL_BIND` of `linux/mempolicy.h`: pages come from the given nodes only.
const MPOL_BIND: libc::c_long = 2;

/// Binds all pages of `mapping` to `node`.
pub(crate) fn bind(mapping: &Mapping, node: u32) -> io::Result<()> {
    if node >= NODES_MAX {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut nodes = [0u64; (NODES_MAX / 64) as usize];
    nodes[(node / 64) as usize] = 1 << (node % 64);
    // SAFETY: the range is mapped, the node mask lives through the call, and one more than its bits
    // is what the call wants as its length.
    let status = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            mapping.base(),
            mapping.mapped_bytes(),
            MPOL_BIND,
            nodes.as_ptr(),
            libc::c_ulong::from(NODES_MAX) + 1,
            0 as libc::c_uint,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The nodes that exist, as the kernel writes them, such as `0-1`.
pub(crate) fn online_nodes() -> String {
    let text = std::fs::read_to_string("/sys/devices/system/node/online");
    text.map_or_else(|_| "0".to_owned(), |text| text.trim().to_owned())
}
