//! Where the copy of a replica may go.

pub(crate) enum Destination {
    /// Nowhere: a replica lies where the copy was to go.
    Held,
    /// Into the least used of these segments with room.
    Open(Vec<u32>),
}
