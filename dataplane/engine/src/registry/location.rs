//! Where memory lies: `cpu:N`, `cuda:N`, or `*` for "find out".
//! Invariant: the text a location came from is the text it shows.

use perigee_settings::SettingError;
use std::fmt;

/// Where registered memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MemoryLocation {
    /// Not said.
    #[default]
    Anywhere,
    /// Memory of a NUMA node.
    Cpu(u32),
    /// Memory of a CUDA device.
    Cuda(u32),
}

impl MemoryLocation {
    /// Reads a location as callers write it; the empty text is `*`.
    ///
    /// # Errors
    /// The text is none of the three forms.
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        let number = |prefix: &str| text.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
        match text {
            "" | "*" => Ok(MemoryLocation::Anywhere),
            "cpu" => Ok(MemoryLocation::Cpu(0)),
            "cuda" => Ok(MemoryLocation::Cuda(0)),
            _ => number("cpu:")
                .map(MemoryLocation::Cpu)
                .or_else(|| number("cuda:").map(MemoryLocation::Cuda))
                .ok_or_else(|| SettingError::new("location", text, "write cpu:N, cuda:N or *")),
        }
    }
}

impl fmt::Display for MemoryLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryLocation::Anywhere => formatter.write_str("*"),
            MemoryLocation::Cpu(node) => write!(formatter, "cpu:{node}"),
            MemoryLocation::Cuda(device) => write!(formatter, "cuda:{device}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_show_as_they_were_written() {
        for text in ["*", "cpu:0", "cpu:7", "cuda:3"] {
            assert_eq!(MemoryLocation::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(MemoryLocation::parse("").unwrap(), MemoryLocation::Anywhere);
        for text in ["cpu:", "gpu:1", "cuda:-1", "cpu:x"] {
            assert!(MemoryLocation::parse(text).is_err(), "{text}");
        }
    }
}
