//! Why an object was not put, got or removed. Invariant: every error names its object, and keeps
//! the code that clients in other languages see.

use perigee_schemas::Status;
use std::fmt;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectFault {
    /// There is no such object, or it is not complete yet.
    NotFound,
    /// A reader has a lease on it, or it is being copied or moved: wait, or remove it by force.
    Leased,
    /// The read took longer than its lease, and the bytes have gone: read it again.
    LeaseExpired,
    /// No segment of the cluster has room, even after eviction.
    NoRoom,
    /// The quota of the tenant is used up, and nothing of the tenant may be evicted.
    OverQuota,
    /// The tenant has no quota, and the master admits no others.
    UnknownTenant,
    /// A replica is being written by another client.
    Busy,
    /// The master does not answer, or no owner of a replica does, or its bytes are not as they were
    /// put.
    Unreachable,
    /// The bytes did not arrive, or not as they were put.
    Transfer,
    /// The key, the memory or another argument cannot be used: an object has at least one byte, and
    /// its target has room for all of it.
    Argument,
    /// The store is closed.
    Closed,
    /// Another answer; see [`ObjectError::status`].
    Refused,
}

impl ObjectFault {
    fn of(status: Status) -> Self {
        match status {
            Status::ObjectNotFound | Status::ReplicaIsNotReady | Status::ReplicaNotFound => {
                Self::NotFound
            }
            Status::ObjectHasLease | Status::ObjectHasReplicationTask => Self::Leased,
            Status::LeaseExpired | Status::ReplicaIsGone => Self::LeaseExpired,
            Status::NoAvailableHandle => Self::NoRoom,
            Status::TenantQuotaExceeded => Self::OverQuota,
            Status::TenantNotRegistered => Self::UnknownTenant,
            Status::ObjectReplicaBusy | Status::InvalidWrite | Status::InvalidRead => Self::Busy,
            // The last is a read of which no replica came, whatever the reason.
            Status::RpcFail | Status::RpcTimeout | Status::InvalidReplica => Self::Unreachable,
            Status::TransferFail | Status::ChecksumMismatch => Self::Transfer,
            Status::InvalidParams | Status::InvalidKey | Status::BufferOverflow => Self::Argument,
            _ => Self::Refused,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "it is not there",
            Self::Leased => "it is being read or moved; wait, or remove it by force",
            Self::LeaseExpired => "its lease ended during the read; read it again",
            Self::NoRoom => "the cluster has no room; lend more memory or remove objects",
            Self::OverQuota => {
                "the quota of the tenant is used up; remove objects, or let the operator raise it"
            }
            Self::UnknownTenant => "the tenant has no quota; let the operator give it one",
            Self::Busy => "another client is writing it; try again",
            Self::Unreachable => {
                "the master or the owners of its bytes do not answer, or the bytes are not as they \
                 were put; see the log for the address"
            }
            Self::Transfer => "its bytes did not arrive; try again",
            Self::Argument => {
                "its key or its memory cannot be used; an object has at least one byte, and its \
                 target room for all of it"
            }
            Self::Closed => "the store is closed",
            Self::Refused => "the cluster refused",
        }
    }
}

/// Why a call about an object failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectError {
    what: String,
    fault: ObjectFault,
    status: Status,
}

impl ObjectError {
    pub(crate) fn of(what: &str, status: Status) -> Self {
        Self { what: what.to_owned(), fault: ObjectFault::of(status), status }
    }

    pub(crate) fn closed(what: &str, status: Status) -> Self {
        Self { what: what.to_owned(), fault: ObjectFault::Closed, status }
    }

    /// The key, or what else the call was about.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What happened to it.
    #[must_use]
    pub fn fault(&self) -> ObjectFault {
        self.fault
    }

    /// The status with the code and the name that all clients know.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether the same call may succeed a little later.
    #[must_use]
    pub fn is_worth_a_retry(&self) -> bool {
        use ObjectFault as F;
        matches!(
            self.fault,
            F::Leased
                | F::LeaseExpired
                | F::NoRoom
                | F::OverQuota
                | F::Busy
                | F::Unreachable
                | F::Transfer
        )
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} ({})", self.what, self.fault.words(), self.status)
    }
}

impl std::error::Error for ObjectError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_object_the_reason_and_the_code() {
        let leased = ObjectError::of("page-7", Status::ObjectHasLease);
        assert_eq!(leased.fault(), ObjectFault::Leased);
        assert!(leased.is_worth_a_retry());
        let text = leased.to_string();
        assert!(text.starts_with("page-7: ") && text.contains("-706"), "{text}");
        let missing = ObjectError::of("page-7", Status::ObjectNotFound);
        assert_eq!((missing.fault(), missing.is_worth_a_retry()), (ObjectFault::NotFound, false));
        assert_eq!(missing.what(), "page-7");
        let away = ObjectError::of("page-7", Status::InvalidReplica);
        assert_eq!((away.fault(), away.is_worth_a_retry()), (ObjectFault::Unreachable, true));
    }

    #[test]
    fn a_status_without_a_fault_of_its_own_keeps_its_name() {
        let other = ObjectError::of("k", Status::NotSupported);
        assert_eq!((other.fault(), other.status()), (ObjectFault::Refused, Status::NotSupported));
    }
}
