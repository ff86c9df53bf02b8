//! Program settings described as data: each program lists its flags in one table, and this crate
//! reads the command line, the environment and the configuration file against it.
//!
//! Invariant: precedence is flag > environment > file > default, and a flag that is given wins
//! even when its value equals the default (Mooncake lets the file win in that case).
#![forbid(unsafe_code)]

pub mod environment;
mod error;
pub mod file;
pub mod flag;
mod gflags;
mod help;
pub mod limits;
pub mod logging;
mod origin;
mod parse;
pub mod program;
pub mod quantity;
pub mod settings;
mod start;
mod suggestion;
#[cfg(feature = "testing")]
pub mod testing;
mod value;

pub use environment::ProcessEnvironment;
pub use error::{FlagError, USAGE_EXIT_CODE};
pub use flag::{ALLOW_UNBUILT, Bounds, Flag, FlagSupport, ValueKind};
pub use help::MOONCAKE_VERSION;
pub use logging::{LOG_FLAGS, LogSettings};
pub use origin::Origin;
pub use program::Program;
pub use quantity::{duration_text, parse_duration_ms, parse_size_bytes};
pub use settings::Settings;
pub use start::ProgramStart;
pub use suggestion::nearest;
pub use value::Value;
