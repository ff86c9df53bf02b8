//! `libmooncake_store.so`: the store client behind the functions of `store_c.h`, with the names,
//! layouts and codes of Mooncake's library.
//!
//! The invariant: each exported function is declared in `include/store_c.h`, and answers whatever
//! it is given.

mod answer;
mod handle;
mod library;
mod placement;

pub use library::ask::*;
pub use library::get::*;
pub use library::lifecycle::*;
pub use library::memory::*;
pub use library::put::*;
pub use library::remove::*;
pub use placement::Placement;
