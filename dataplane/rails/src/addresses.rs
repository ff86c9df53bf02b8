//! The addresses of one rail at one moment: its device's table of GIDs, and which of them to speak
//! from.
//!
//! A table changes while we run: links flap, addresses come late. It is read again then, never
//! changed in place.

use crate::descriptor::GidDescriptor;
use perigee_verbs::gid::{ForcedIndex, PortGid, rank};
use perigee_verbs::{Device, GidKind, LinkLayer, VerbsError};

/// Addresses of one rail that peers get.
const GIDS_SENT_MAX: usize = 4;

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RailAddresses {
    table: Vec<GidDescriptor>,
    usable: Vec<GidDescriptor>,
    explain: Vec<String>,
    is_infiniband: bool,
}

impl RailAddresses {
    /// Reads the table and ranks it, and says why no entry is usable if none is.
    ///
    /// # Errors
    /// The table cannot be read.
    pub(crate) fn read(
        name: &str,
        device: &dyn Device,
    ) -> Result<(Self, Option<VerbsError>), VerbsError> {
        let gids = device.gids()?;
        let mut addresses = Self {
            table: gids.iter().map(describe).collect(),
            usable: Vec::new(),
            explain: Vec::new(),
            is_infiniband: device.info().link_layer == LinkLayer::InfiniBand,
        };
        let forced = ForcedIndex::read(|name| std::env::var(name).ok());
        let forced = forced.unwrap_or_else(|(variable, value)| {
            tracing::warn!(variable, value, "Not a GID index; the best GID is chosen");
            None
        });
        match rank(name, &gids, forced) {
            Ok(ranked) => {
                let usable = ranked.iter().filter(|ranked| ranked.usable);
                let usable = usable.take(GIDS_SENT_MAX);
                addresses.usable = usable.map(|ranked| describe(&ranked.gid)).collect();
                addresses.explain = ranked.into_iter().map(|ranked| ranked.explain).collect();
                Ok((addresses, None))
            }
            Err(error) => {
                addresses.explain = vec![error.to_string()];
                Ok((addresses, Some(error)))
            }
        }
    }

    /// Those that connections are made from, the best first.
    pub(crate) fn usable(&self) -> &[GidDescriptor] {
        &self.usable
    }

    /// Each address and why it stands where it stands, one line each.
    pub(crate) fn explain(&self) -> &[String] {
        &self.explain
    }

    /// Why none is usable, if none is.
    pub(crate) fn trouble(&self) -> Option<&str> {
        let reported = self.explain.first().filter(|_| self.usable.is_empty());
        reported.map(String::as_str)
    }

    /// What the table has at an index.
    pub(crate) fn at(&self, index: u32) -> Option<[u8; 16]> {
        let found = self.table.iter().find(|gid| gid.index == index);
        found.map(|gid| gid.address)
    }

    /// The index to speak from to `remote`: `wanted`, which the peer read off an earlier table
    /// perhaps, if what is there now can; else the best that can.
    pub(crate) fn index_towards(&self, remote: &[u8; 16], wanted: u32) -> Option<u32> {
        let reaches = |gid: &&GidDescriptor| self.is_infiniband || as_gid(gid).may_reach(remote);
        let there = self.table.iter().filter(|gid| gid.index == wanted);
        let found = there.chain(&self.usable).find(reaches);
        found.map(|gid| gid.index)
    }
}

fn describe(gid: &PortGid) -> GidDescriptor {
    GidDescriptor { index: gid.index, address: gid.address, roce_v1: gid.kind == GidKind::RoceV1 }
}

fn as_gid(gid: &GidDescriptor) -> PortGid {
    PortGid {
        index: gid.index,
        address: gid.address,
        kind: if gid.roce_v1 { GidKind::RoceV1 } else { GidKind::RoceV2 },
        interface: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(index: u32, address: [u8; 16]) -> GidDescriptor {
        GidDescriptor { index, address, roce_v1: false }
    }

    #[test]
    fn a_peer_that_read_an_earlier_table_is_answered_from_an_address_that_reaches_it() {
        let ipv4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
        let ipv6 = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let addresses = RailAddresses {
            table: vec![gid(1, ipv6), gid(3, ipv4)],
            usable: vec![gid(3, ipv4), gid(1, ipv6)],
            explain: Vec::new(),
            is_infiniband: false,
        };
        assert_eq!(addresses.index_towards(&ipv6, 1), Some(1));
        assert_eq!(addresses.index_towards(&ipv4, 1), Some(3), "other family");
        assert_eq!(addresses.index_towards(&ipv4, 7), Some(3), "gone");
        let none = RailAddresses { usable: Vec::new(), ..addresses };
        assert_eq!(none.index_towards(&ipv4, 7), None);
    }
}
