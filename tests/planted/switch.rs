//! Which planted fault this process plays. `play.py` adds this file to the crates that faults
//! touch, as module `planted`.

use std::sync::LazyLock;

pub(crate) fn is(fault: &str) -> bool {
    static CHOSEN: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("PERIGEE_PLANTED").ok());
    CHOSEN.as_deref() == Some(fault)
}
