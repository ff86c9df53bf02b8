//! Reading the GID table of a port. Invariant: an entry of unknown kind is left out, because its
//! packets would be guesses.

use crate::device_info::LinkLayer;
use crate::error::VerbsError;
use crate::gid::{GidKind, PortGid};
use crate::limits::GIDS_MAX;

use super::abi::{
    IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2, Zeroed, ibv_gid_entry,
};
use super::context::DeviceContext;
use super::facts::sysfs;

/// The table of the context's port.
pub(super) fn read(context: &DeviceContext) -> Result<Vec<PortGid>, VerbsError> {
    match from_table(context) {
        Some(gids) => Ok(gids),
        None => from_sysfs(context),
    }
}

/// All ports' entries in one call; not offered by old libraries.
fn from_table(context: &DeviceContext) -> Option<Vec<PortGid>> {
    let query = context.library.query_gid_table?;
    let ports = u32::from(context.info.ports.max(1));
    let room = context.info.gid_entries.min(GIDS_MAX).saturating_mul(ports);
    let mut entries: Vec<ibv_gid_entry> = (0..room).map(|_| ibv_gid_entry::zeroed()).collect();
    // SAFETY: the library writes at most as many entries as there is room for, of the size given.
    let count = unsafe {
        query(context.raw, entries.as_mut_ptr(), entries.len(), 0, size_of::<ibv_gid_entry>())
    };
    entries.truncate(usize::try_from(count).ok()?);
    let own = entries.iter().filter(|entry| entry.port_num == u32::from(context.info.port));
    let gids = own.filter_map(|entry| {
        Some(PortGid {
            index: entry.gid_index,
            address: entry.gid,
            kind: kind_of(entry.gid_type)?,
            interface: interface_name(entry.ndev_ifindex),
        })
    });
    Some(gids.collect())
}

fn kind_of(code: u32) -> Option<GidKind> {
    match code {
        IBV_GID_TYPE_IB => Some(GidKind::InfiniBand),
        IBV_GID_TYPE_ROCE_V1 => Some(GidKind::RoceV1),
        IBV_GID_TYPE_ROCE_V2 => Some(GidKind::RoceV2),
        _ => None,
    }
}

fn interface_name(index: u32) -> Option<String> {
    if index == 0 {
        return None;
    }
    let name = nix::net::if_::if_indextoname(index).ok()?;
    Some(name.to_string_lossy().into_owned())
}

/// One entry at a time, with the kinds that the kernel shows in files.
fn from_sysfs(context: &DeviceContext) -> Result<Vec<PortGid>, VerbsError> {
    let attributes = sysfs(context.name()).join(format!("ports/{}/gid_attrs", context.info.port));
    let mut gids = Vec::new();
    for index in 0..context.info.gid_entries.min(GIDS_MAX) {
        let mut address = [0; 16];
        let port = context.info.port;
        // SAFETY: the context is open and the library writes 16 bytes.
        let code = unsafe {
            (context.library.ibv_query_gid)(context.raw, port, index as i32, &raw mut address)
        };
        if code != 0 || address == [0; 16] {
            continue;
        }
        let read = |what: &str| {
            let text = std::fs::read_to_string(attributes.join(what).join(index.to_string()));
            text.ok().map(|text| text.trim().to_owned())
        };
        let Some(kind) = kind_in_words(read("types").as_deref(), context.info.link_layer) else {
            continue;
        };
        gids.push(PortGid { index, address, kind, interface: read("ndevs") });
    }
    Ok(gids)
}

fn kind_in_words(words: Option<&str>, link_layer: LinkLayer) -> Option<GidKind> {
    match (words, link_layer) {
        (_, LinkLayer::InfiniBand) => Some(GidKind::InfiniBand),
        (Some("RoCE v2"), _) => Some(GidKind::RoceV2),
        (Some("IB/RoCE v1"), _) => Some(GidKind::RoceV1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_given_by_code_and_by_word_and_never_guessed() {
        assert_eq!(kind_of(2), Some(GidKind::RoceV2));
        assert_eq!(kind_of(7), None);
        let word = |word| kind_in_words(word, LinkLayer::Ethernet);
        assert_eq!(word(Some("RoCE v2")), Some(GidKind::RoceV2));
        assert_eq!(word(Some("IB/RoCE v1")), Some(GidKind::RoceV1));
        assert_eq!(word(None), None);
        let native = kind_in_words(None, LinkLayer::InfiniBand);
        assert_eq!(native, Some(GidKind::InfiniBand));
    }

    #[test]
    fn interfaces_have_names() {
        assert_eq!(interface_name(0), None);
        assert_eq!(interface_name(1).as_deref(), Some("lo"));
    }
}
