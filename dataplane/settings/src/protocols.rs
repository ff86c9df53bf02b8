//! The words of the `protocol` argument, the same for stores, nodes and engines.

use crate::data_path::ForcedTransport;
use crate::error::SettingError;

/// Transports of Mooncake that are not built here: they are other accelerators' links, and TCP and
/// RDMA reach all hosts.
const NOT_BUILT: [&str; 15] = [
    "ascend",
    "barex",
    "cxi",
    "cxl",
    "efa",
    "hip",
    "maca",
    "musa",
    "nccl",
    "nvlink",
    "nvlink_intra",
    "nvmeof",
    "rpc_only",
    "ub",
    "ubshmem",
];
const ALLOWED: &str = "write tcp, rdma or shm, several with commas or +, or nothing to choose";

/// Ways to peers that a client or engine may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Protocols {
    /// Sockets.
    pub tcp: bool,
    /// Verbs; without devices TCP is used, unless RDMA is required.
    pub rdma: bool,
    /// Memory shared with peers on this host. Beside the others it says nothing: memory that can be
    /// shared is.
    pub shm: bool,
}

impl Protocols {
    /// All of them.
    pub const ALL: Self = Self { tcp: true, rdma: true, shm: true };

    /// Reads the words, with commas or `+` between them; nothing means all.
    ///
    /// # Errors
    /// A word is not known, or is a transport that is not built.
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        let mut wanted = Self::default();
        let words = text.split([',', '+']).map(str::trim);
        for word in words.filter(|word| !word.is_empty()) {
            match word.to_ascii_lowercase().as_str() {
                "tcp" => wanted.tcp = true,
                "rdma" => wanted.rdma = true,
                "shm" => wanted.shm = true,
                known if NOT_BUILT.contains(&known) => {
                    let allowed = format!("this transport is not built; {ALLOWED}");
                    return Err(SettingError::new("protocol", word, allowed));
                }
                _ => return Err(SettingError::new("protocol", word, ALLOWED)),
            }
        }
        Ok(if wanted == Self::default() { Self::ALL } else { wanted })
    }

    /// The protocols with what is used whatever they say.
    pub fn with_forced(self, forced: Option<ForcedTransport>) -> Self {
        match forced {
            None => self,
            Some(ForcedTransport::Tcp) => Self { tcp: true, rdma: false, ..self },
            Some(ForcedTransport::Rdma) => Self { rdma: true, ..self },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_commas_and_plus_signs() {
        let both = Protocols { tcp: true, rdma: true, shm: false };
        for text in ["tcp,rdma", "tcp+rdma", " RDMA , tcp ", "tcp,,rdma+"] {
            assert_eq!(Protocols::parse(text), Ok(both), "{text}");
        }
        assert_eq!(Protocols::parse(""), Ok(Protocols::ALL));
        assert!(!Protocols::parse("tcp").unwrap().rdma);
        let forced =
            |words: &str, transport| Protocols::parse(words).unwrap().with_forced(Some(transport));
        assert!(!forced("rdma", ForcedTransport::Tcp).rdma);
        assert!(forced("tcp", ForcedTransport::Rdma).rdma);
    }

    #[test]
    fn unknown_words_and_transports_that_are_not_built_are_refused_by_name() {
        let error = Protocols::parse("rdma,tcpp").unwrap_err().to_string();
        assert!(error.contains("tcpp") && error.contains("write tcp"), "{error}");
        let error = Protocols::parse("nvlink").unwrap_err().to_string();
        assert!(error.contains("nvlink") && error.contains("not built"), "{error}");
    }
}
