//! The environment variables of the data plane. Stores, engines, nodes and discovery read them
//! here, so that a variable means the same to all of them. The table of Mooncake's variables says
//! what each does here.
//!
//! Invariant: a value that cannot be understood is an error that names variable, value and what is
//! allowed; it never becomes a default in silence.
#![forbid(unsafe_code)]

mod data_path;
mod effectless;
mod error;
mod log_level;
mod misspelt;
mod mooncake;
mod own;
mod protocols;
mod table;
mod variables;

pub use data_path::{
    DataPath, ForcedTransport, QUEUE_PAIRS_MAX, TRANSFER_DEADLINE_MIN, check_congestion, congestion,
};
pub use effectless::{effectless, warn_once};
pub use error::SettingError;
pub use log_level::log_level;
pub use misspelt::{MisspeltVariable, misspelt};
pub use mooncake::words::{
    GFLAGS, MooncakeWord, REPLICATE_CONFIG, SETUP_KEYS, SETUP_KEYWORDS, WordKind, mooncake_words,
    word_without_effect,
};
pub use mooncake::{MooncakeEffect, MooncakeVariable, mooncake_variables};
pub use own::own_variables;
pub use protocols::Protocols;
pub use table::{
    AUTO_DISCOVERY, FORCE_RDMA, FORCE_TCP, POLL_US, QUEUE_PAIRS, REQUIRE_RDMA, SHARED_MEMORY,
    TABLE, TCP_BIND_ADDRESS, TCP_CONGESTION, TRANSFER_TIMEOUT, Variable,
};
pub use variables::Variables;
