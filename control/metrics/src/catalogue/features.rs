//! Mooncake's families of features that are not built. Invariant: all are 0 and marked so.

use crate::family::Family;

macro_rules! promotion {
    ($($part:literal $unit:literal $help:literal;)*) => {
        &[
            $(Family::counter(concat!("master_promotion_", $part, "_total"), $unit, $help).zero(),)*
        ]
    };
}

pub(super) const PROMOTION: &[Family] = promotion! {
    "expired" "tasks" "Promotions that took too long";
    "cancelled" "tasks" "Promotions given up because the object went away";
    "candidate_recorded" "keys" "Promotion candidates noted";
    "candidate_admitted" "keys" "Promotion candidates started later";
    "candidate_admission_rejected" "keys" "Promotion candidates refused again";
    "candidate_expired_evaluated" "keys" "Promotion candidates dropped after tries";
    "candidate_expired_unevaluated" "keys" "Promotion candidates dropped without a try";
    "candidate_dropped_limit" "keys" "Promotion candidates dropped for lack of room";
};

pub(super) const HIGH_AVAILABILITY: &[Family] = &[
    Family::gauge("ha_oplog_last_sequence_id", "entries", "Newest operation written").zero(),
    Family::gauge("ha_oplog_applied_sequence_id", "entries", "Newest operation applied").zero(),
    Family::gauge("ha_oplog_standby_lag", "entries", "Operations a standby is behind").zero(),
    Family::gauge("ha_oplog_pending_entries", "entries", "Operations waiting for earlier ones")
        .zero(),
    Family::gauge("ha_pending_mutation_queue_size", "entries", "Operations waiting to be written")
        .zero(),
    Family::gauge("ha_standby_state", "state", "State of the standby, 0 for stopped").zero(),
];
