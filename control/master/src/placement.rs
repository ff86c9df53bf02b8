//! How a writer wants its objects placed and kept.
//! Invariant: a `PutConfig` is checked once per batch, before any key of it changes state.

use perigee_schemas::Status;

use crate::limits::REPLICAS_MAX;
use crate::settings::ShardSettings;

/// What a put does to the soft pin of its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SoftPin {
    /// Keep the pin of the replaced object; a new object has none.
    #[default]
    Preserve,
    /// Pin from the moment the object can be read.
    Enable {
        /// Length of the pin in milliseconds; `None` is the master's default.
        ttl_ms: Option<u64>,
    },
    /// No pin.
    Disable,
}

impl SoftPin {
    /// When the pin of an object ends that is published now; `replaced_end_ms` is that of the pin
    /// which it has, and `default_ttl_ms` the length of one that names none.
    pub(crate) fn end_ms(
        self,
        now_ms: u64,
        default_ttl_ms: u64,
        replaced_end_ms: Option<u64>,
    ) -> Option<u64> {
        match self {
            Self::Enable { ttl_ms } => {
                Some(now_ms.saturating_add(ttl_ms.unwrap_or(default_ttl_ms)))
            }
            Self::Preserve => replaced_end_ms.filter(|end_ms| *end_ms > now_ms),
            Self::Disable => None,
        }
    }

    /// Reads the wire's form: action 0 preserve, 1 enable, 2 disable; a negative time is none;
    /// the old `with_soft_pin` field enables where the action says nothing.
    ///
    /// # Errors
    /// `InvalidParams` for an unknown action or a time without a pin.
    pub fn from_wire(action: u8, ttl_ms: i64, with_soft_pin: bool) -> Result<Self, Status> {
        let ttl_ms = u64::try_from(ttl_ms).ok();
        match (action, with_soft_pin) {
            (1, _) | (0, true) => Ok(Self::Enable { ttl_ms }),
            (0, false) if ttl_ms.is_none() => Ok(Self::Preserve),
            (2, _) if ttl_ms.is_none() => Ok(Self::Disable),
            _ => Err(Status::InvalidParams),
        }
    }
}

/// Placement and pins of all objects of a batch.
#[derive(Debug, Clone, Copy)]
pub struct PutConfig<'a> {
    /// Wanted replicas, 1 to [`REPLICAS_MAX`], each in another segment; fewer are a success if
    /// there is one.
    pub replica_num: u32,
    /// Never evict; the object stays until it is removed.
    pub hard_pin: bool,
    /// Evict last.
    pub soft_pin: SoftPin,
    /// Names of segments to try first, in this order.
    pub preferred_segments: &'a [&'a str],
    /// Identities of segments to avoid as long as an object can be placed elsewhere, such as
    /// unreachable ones.
    pub excluded: &'a [u128],
    /// Put all objects of the batch where the first one went, as long as they fit.
    pub prefer_alloc_in_same_node: bool,
    /// Identity of the writer's host, or empty.
    pub host_id: &'a str,
    /// Name of the writer's host without port, or empty.
    pub host_name: &'a str,
    /// The writer can write an object that is larger than any segment in parts.
    pub parts: bool,
}

impl Default for PutConfig<'_> {
    fn default() -> Self {
        Self {
            replica_num: 1,
            hard_pin: false,
            soft_pin: SoftPin::Preserve,
            preferred_segments: &[],
            excluded: &[],
            prefer_alloc_in_same_node: false,
            host_id: "",
            host_name: "",
            parts: false,
        }
    }
}

impl PutConfig<'_> {
    /// Checks what does not depend on the key.
    pub(crate) fn check(&self, settings: &ShardSettings) -> Result<(), Status> {
        let replicas_ok = (1..=REPLICAS_MAX).contains(&self.replica_num);
        let pin_ok = match self.soft_pin {
            SoftPin::Enable { ttl_ms: Some(ttl_ms) } => ttl_ms <= settings.soft_pin_ttl_max_ms,
            _ => true,
        };
        if replicas_ok && pin_ok { Ok(()) } else { Err(Status::InvalidParams) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Strategy;

    #[test]
    fn both_forms_of_the_soft_pin_are_read() {
        assert_eq!(SoftPin::from_wire(0, -1, false), Ok(SoftPin::Preserve));
        assert_eq!(SoftPin::from_wire(0, -1, true), Ok(SoftPin::Enable { ttl_ms: None }));
        assert_eq!(SoftPin::from_wire(1, 50, false), Ok(SoftPin::Enable { ttl_ms: Some(50) }));
        assert_eq!(SoftPin::from_wire(2, -1, true), Ok(SoftPin::Disable));
        assert_eq!(SoftPin::from_wire(0, 50, false), Err(Status::InvalidParams));
        assert_eq!(SoftPin::from_wire(3, -1, false), Err(Status::InvalidParams));
    }

    #[test]
    fn strategies_have_the_flag_names_of_mooncake() {
        assert_eq!(Strategy::from_flag("ssd_free_ratio_first"), Some(Strategy::FreeRatioFirst));
        assert_eq!(Strategy::from_flag("local_first"), Some(Strategy::LocalFirst));
        assert_eq!(Strategy::from_flag("Random"), None);
    }
}
