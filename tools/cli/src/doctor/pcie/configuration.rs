//! Registers of one PCI function. Invariant: a list of capabilities that is damaged or goes round
//! in circles ends the search, nothing else.

use crate::doctor::host::HostFacts;

/// Where the first capability is named.
const FIRST_CAPABILITY: usize = 0x34;
/// Where extended capabilities begin.
const FIRST_EXTENDED: usize = 0x100;
/// Capability of PCI Express.
const ID_EXPRESS: u8 = 0x10;
/// Its device control register, and the bit for relaxed ordering there.
const DEVICE_CONTROL: usize = 8;
const RELAXED_ORDERING: u16 = 1 << 4;
/// Extended capability of access control services.
const ID_ACCESS_CONTROL: u16 = 0x0d;
/// Its control register; request and completion redirection there.
const ACCESS_CONTROL: usize = 6;
const REDIRECTIONS: u16 = 0b1100;
/// More capabilities than any function has.
const CAPABILITIES_MAX: usize = 96;

/// Configuration space of one function.
pub(super) struct Configuration(Vec<u8>);

impl Configuration {
    /// `None` if it cannot be read beyond the header, which needs privilege.
    pub(super) fn read(host: &HostFacts, address: &str) -> Option<Self> {
        let bytes = host.roots.sys().bytes(&format!("bus/pci/devices/{address}/config"))?;
        (bytes.len() >= FIRST_EXTENDED).then_some(Self(bytes))
    }

    /// Whether relaxed ordering is on; `None` if the function is not PCI Express.
    pub(super) fn relaxes_ordering(&self) -> Option<bool> {
        let at = self.capability(ID_EXPRESS)?;
        Some(self.word(at + DEVICE_CONTROL)? & RELAXED_ORDERING != 0)
    }

    /// True if traffic between two cards below this bridge is sent upwards.
    pub(super) fn redirects_peers(&self) -> bool {
        let control =
            self.extended(ID_ACCESS_CONTROL).and_then(|at| self.word(at + ACCESS_CONTROL));
        control.is_some_and(|control| control & REDIRECTIONS != 0)
    }

    fn capability(&self, id: u8) -> Option<usize> {
        let mut at = usize::from(*self.0.get(FIRST_CAPABILITY)?);
        for _ in 0..CAPABILITIES_MAX {
            if at < FIRST_CAPABILITY {
                return None;
            }
            if *self.0.get(at)? == id {
                return Some(at);
            }
            at = usize::from(*self.0.get(at + 1)?);
        }
        None
    }

    fn extended(&self, id: u16) -> Option<usize> {
        let mut at = FIRST_EXTENDED;
        for _ in 0..CAPABILITIES_MAX {
            if self.word(at)? == id {
                return Some(at);
            }
            // The upper twelve bits of the second word.
            at = usize::from(self.word(at + 2)? >> 4);
            if at < FIRST_EXTENDED {
                return None;
            }
        }
        None
    }

    fn word(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes([*self.0.get(at)?, *self.0.get(at + 1)?]))
    }
}

/// A function with one PCI Express capability and access control.
#[cfg(test)]
pub(in crate::doctor) fn sample(relaxed_ordering: bool, redirects: bool) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[FIRST_CAPABILITY] = 0x40;
    bytes[0x40..0x42].copy_from_slice(&[0x05, 0x60]);
    bytes[0x60..0x62].copy_from_slice(&[ID_EXPRESS, 0]);
    bytes[0x60 + DEVICE_CONTROL] = if relaxed_ordering { 0x10 } else { 0 };
    // Error reporting first, access control behind it.
    bytes[0x100..0x104].copy_from_slice(&[0x01, 0x00, 0x01, 0x20]);
    bytes[0x200..0x204].copy_from_slice(&[0x0d, 0x00, 0x01, 0x00]);
    bytes[0x200 + ACCESS_CONTROL] = if redirects { 0x0c } else { 0 };
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_found_behind_other_capabilities() {
        let on = Configuration(sample(true, true));
        assert_eq!((on.relaxes_ordering(), on.redirects_peers()), (Some(true), true));
        let off = Configuration(sample(false, false));
        assert_eq!((off.relaxes_ordering(), off.redirects_peers()), (Some(false), false));
    }

    #[test]
    fn circles_and_short_tables_end_the_search() {
        let mut circle = vec![0_u8; 4096];
        circle[FIRST_CAPABILITY] = 0x40;
        circle[0x41] = 0x40;
        circle[0x103] = 0x10;
        let circle = Configuration(circle);
        assert_eq!((circle.relaxes_ordering(), circle.redirects_peers()), (None, false));
        let ones = Configuration(vec![0xff; 256]);
        assert_eq!((ones.relaxes_ordering(), ones.redirects_peers()), (None, false));
        let none = Configuration(Vec::new());
        assert_eq!((none.relaxes_ordering(), none.redirects_peers()), (None, false));
    }
}
