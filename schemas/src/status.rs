//! The one table of status codes: wire code, Python return code, HTTP status and exit code of each.
//!
//! The integers and names are the ones Mooncake's clients know; every Rust error of the project
//! maps onto one of them.

use std::fmt;

macro_rules! statuses {
    ($(
        $(#[$doc:meta])*
        $name:ident = $code:literal, $text:literal, $http:literal, $exit:literal;
    )*) => {
        /// Outcome of a call, as it travels on the wire and as Python sees it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Status {
            $($(#[$doc])* $name,)*
        }

        impl Status {
            /// Every status, in the order of the table.
            pub const ALL: &'static [Status] = &[$(Status::$name,)*];

            /// The integer on the wire and in Python.
            pub const fn code(self) -> i32 {
                match self { $(Status::$name => $code,)* }
            }

            /// The name Mooncake gives the code.
            pub const fn name(self) -> &'static str {
                match self { $(Status::$name => $text,)* }
            }

            /// The HTTP status that answers a request with this outcome.
            pub const fn http(self) -> u16 {
                match self { $(Status::$name => $http,)* }
            }

            /// The exit code of a program that ends because of it.
            pub const fn exit(self) -> u8 {
                match self { $(Status::$name => $exit,)* }
            }

            /// The status of a code, if the table has it.
            pub const fn from_code(code: i32) -> Option<Status> {
                match code { $($code => Some(Status::$name),)* _ => None }
            }
        }
    };
}

statuses! {
    /// Done.
    Ok = 0, "OK", 200, 0;
    /// A defect on our side.
    InternalError = -1, "INTERNAL_ERROR", 500, 70;
    /// The caller's buffer is too small.
    BufferOverflow = -10, "BUFFER_OVERFLOW", 400, 65;
    /// A shard number out of range.
    ShardIndexOutOfRange = -100, "SHARD_INDEX_OUT_OF_RANGE", 400, 65;
    /// No such segment.
    SegmentNotFound = -101, "SEGMENT_NOT_FOUND", 404, 66;
    /// The segment is mounted already.
    SegmentAlreadyExists = -102, "SEGMENT_ALREADY_EXISTS", 409, 73;
    /// The master does not know the client.
    ClientNotFound = -103, "CLIENT_NOT_FOUND", 404, 66;
    /// No segment has room, even after eviction.
    NoAvailableHandle = -200, "NO_AVAILABLE_HANDLE", 507, 75;
    /// The two sides speak no common protocol version.
    InvalidVersion = -300, "INVALID_VERSION", 426, 76;
    /// The key cannot be stored.
    InvalidKey = -400, "INVALID_KEY", 400, 65;
    /// Bytes could not be written.
    WriteFail = -500, "WRITE_FAIL", 500, 74;
    /// An argument is wrong.
    InvalidParams = -600, "INVALID_PARAMS", 400, 64;
    /// Another client owns what was named.
    IllegalClient = -601, "ILLEGAL_CLIENT", 403, 77;
    /// The object is not in a state that can be written.
    InvalidWrite = -700, "INVALID_WRITE", 409, 75;
    /// The object is not in a state that can be read.
    InvalidRead = -701, "INVALID_READ", 409, 75;
    /// The replica is not usable.
    InvalidReplica = -702, "INVALID_REPLICA", 409, 75;
    /// No replica is complete yet.
    ReplicaIsNotReady = -703, "REPLICA_IS_NOT_READY", 409, 75;
    /// No such key.
    ObjectNotFound = -704, "OBJECT_NOT_FOUND", 404, 66;
    /// The key exists.
    ObjectAlreadyExists = -705, "OBJECT_ALREADY_EXISTS", 409, 73;
    /// A lease is running on the object.
    ObjectHasLease = -706, "OBJECT_HAS_LEASE", 409, 75;
    /// The read took longer than its lease.
    LeaseExpired = -707, "LEASE_EXPIRED", 409, 75;
    /// A copy or move is running on the object.
    ObjectHasReplicationTask = -708, "OBJECT_HAS_REPLICATION_TASK", 409, 75;
    /// No copy or move is running on the object.
    ObjectNoReplicationTask = -709, "OBJECT_NO_REPLICATION_TASK", 409, 75;
    /// No such replica.
    ReplicaNotFound = -710, "REPLICA_NOT_FOUND", 404, 66;
    /// The replica exists.
    ReplicaAlreadyExists = -711, "REPLICA_ALREADY_EXISTS", 409, 73;
    /// The replica went away.
    ReplicaIsGone = -712, "REPLICA_IS_GONE", 410, 75;
    /// The replica is not in the memory of this client.
    ReplicaNotInLocalMemory = -713, "REPLICA_NOT_IN_LOCAL_MEMORY", 409, 75;
    /// The object is being read or written.
    ObjectReplicaBusy = -714, "OBJECT_REPLICA_BUSY", 409, 75;
    /// Bytes did not arrive.
    TransferFail = -800, "TRANSFER_FAIL", 502, 74;
    /// Bytes arrived that are not the ones that were put.
    ChecksumMismatch = -801, "CHECKSUM_MISMATCH", 502, 74;
    /// The peer cannot be reached or broke off.
    RpcFail = -900, "RPC_FAIL", 503, 69;
    /// The peer did not answer within the deadline.
    RpcTimeout = -901, "RPC_TIMEOUT", 504, 75;
    /// Not possible while the thing is in its present state.
    UnavailableInCurrentStatus = -1010, "UNAVAILABLE_IN_CURRENT_STATUS", 409, 75;
    /// Not possible in the mode the service runs in.
    UnavailableInCurrentMode = -1011, "UNAVAILABLE_IN_CURRENT_MODE", 503, 69;
    /// This build does not have the feature.
    NotSupported = -1012, "NOT_SUPPORTED", 501, 69;
    /// A file does not exist.
    FileNotFound = -1100, "FILE_NOT_FOUND", 404, 66;
    /// A file could not be opened.
    FileOpenFail = -1101, "FILE_OPEN_FAIL", 500, 74;
    /// No such task.
    TaskNotFound = -1400, "TASK_NOT_FOUND", 404, 66;
    /// Too many calls are waiting.
    TaskPendingLimitExceeded = -1401, "TASK_PENDING_LIMIT_EXCEEDED", 429, 75;
    /// No such job.
    JobNotFound = -1402, "JOB_NOT_FOUND", 404, 66;
    /// A message could not be decoded.
    DeserializeFail = -1502, "DESERIALIZE_FAIL", 400, 65;
    /// The tenant has no quota left.
    TenantQuotaExceeded = -1700, "TENANT_QUOTA_EXCEEDED", 429, 75;
    /// The tenant is not known.
    TenantNotRegistered = -1701, "TENANT_NOT_REGISTERED", 404, 66;
    /// The tenant still has objects.
    TenantNotEmpty = -1702, "TENANT_NOT_EMPTY", 409, 73;
}

impl Status {
    /// The status of a code from a peer; a code this build does not know is an internal error.
    pub const fn from_peer(code: i32) -> Status {
        match Status::from_code(code) {
            Some(status) => status,
            None => Status::InternalError,
        }
    }

    /// `Ok(())` for [`Status::Ok`], the status itself otherwise.
    pub const fn ok(self) -> Result<(), Status> {
        match self {
            Status::Ok => Ok(()),
            other => Err(other),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.name(), self.code())
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_and_names_are_unique_and_round_trip() {
        let mut codes = HashSet::new();
        let mut names = HashSet::new();
        for status in Status::ALL {
            assert!(codes.insert(status.code()));
            assert!(names.insert(status.name()));
            assert_eq!(Status::from_code(status.code()), Some(*status));
        }
    }

    #[test]
    fn only_success_has_success_codes_elsewhere() {
        for status in Status::ALL {
            let good = *status == Status::Ok;
            assert_eq!(status.code() == 0, good);
            assert_eq!(status.exit() == 0, good);
            assert_eq!(status.http() == 200, good);
        }
    }

    #[test]
    fn unknown_peer_codes_become_internal_errors() {
        assert_eq!(Status::from_peer(-31_337), Status::InternalError);
    }
}
