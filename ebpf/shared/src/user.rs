//! Declares the types of maps as plain bytes, so that the loader can read them.
#![expect(unsafe_code, reason = "it vouches that messages of probes are plain bytes")]

use crate::{
    BlockKey, BlockTotals, DurationHistogram, GroupKey, NicTotals, TaskTotals, TcpTotals,
    UringTotals,
};

macro_rules! plain {
    ($($name:ty),* $(,)?) => {
        // SAFETY: made of integers only, without padding, and every bit pattern is a value.
        $(unsafe impl aya::Pod for $name {})*
    };
}

plain!(
    BlockKey,
    BlockTotals,
    DurationHistogram,
    GroupKey,
    NicTotals,
    TaskTotals,
    TcpTotals,
    UringTotals,
);
