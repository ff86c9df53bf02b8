//! One change of one key, and where its value lies.

/// What happened to a key in one medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyChange {
    /// A value can be read there: a new one, one in place of another, or another copy of it.
    Stored,
    /// There is nothing to read there any more.
    Removed,
}

/// What a value lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Medium {
    /// Memory of a host.
    Memory,
    /// A disk.
    Disk,
}

impl Medium {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Disk];

    /// The word that consumers of events know.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "cpu",
            Self::Disk => "disk",
        }
    }
}

/// The media that one value lies on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Media(u8);

impl Media {
    /// Whether the value lies there.
    pub fn has(self, medium: Medium) -> bool {
        self.0 & Self::bit(medium) != 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Medium> {
        Medium::ALL.into_iter().filter(move |medium| self.has(*medium))
    }

    fn bit(medium: Medium) -> u8 {
        1 << medium as u8
    }
}

impl FromIterator<Medium> for Media {
    fn from_iter<I: IntoIterator<Item = Medium>>(media: I) -> Self {
        Self(media.into_iter().fold(0, |bits, medium| bits | Self::bit(medium)))
    }
}

/// One change of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyEvent<'a> {
    /// What happened.
    pub change: KeyChange,
    /// Where.
    pub medium: Medium,
    /// The key.
    pub key: &'a [u8],
    /// Length of the value in bytes.
    pub payload_bytes: u64,
    /// The group of the object, if it has one.
    pub group: Option<&'a [u8]>,
}
