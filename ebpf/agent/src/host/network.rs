//! The network namespace whose NICs the host's are. Invariant: what a page of another namespace
//! says of its `eth0` never counts for the `eth0` of this one; all of those NICs bear the mark of a
//! foreign name.

use perigee_activity::PageReader;
use perigee_topology::Roots;
use std::os::unix::fs::MetadataExt;

/// Begins the names of NICs of other namespaces. The kernel allows no colon in its own.
const FOREIGN: &str = "netns:";

/// The agent's own network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetworkNamespace(Option<u64>);

impl NetworkNamespace {
    /// The one that this process is in.
    pub(crate) fn open(roots: &Roots) -> Self {
        let own = std::fs::metadata(roots.proc().top().join("self/ns/net"));
        Self(own.ok().map(|own| own.ino()))
    }

    /// Whether NICs of a page are of another namespace. Pages of older builds do not say, and are
    /// taken for this one's.
    pub(crate) fn is_foreign(self, page: &PageReader) -> bool {
        matches!((self.0, page.network()), (Some(own), Some(other)) if own != other)
    }
}

/// The name for a NIC of another namespace; what has no name gets none.
pub(crate) fn foreign_name(device: &str) -> String {
    match device {
        "" => String::new(),
        device => format!("{FOREIGN}{device}"),
    }
}
