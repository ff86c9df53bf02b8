//! A put that is over, and what it does to the pins of its object if it has ended well.

use crate::pending::OvertakenPins;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overtaken {
    pub(crate) object: u32,
    pub(crate) generation: u64,
    pub(crate) pins: OvertakenPins,
}
