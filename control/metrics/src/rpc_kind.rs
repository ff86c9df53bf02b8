//! The kinds of calls a master answers. Invariant: the order is the index into the cells and is
//! the same in every program of one build.

macro_rules! rpc_kinds {
    ($($(#[$doc:meta])* $variant:ident => $family:expr;)+) => {
        /// A kind of call. The `Batch` kinds count keys as items.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RpcKind { $($(#[$doc])* $variant,)+ }

        impl RpcKind {
            /// All kinds in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Name in labels and logs.
            #[must_use]
            pub fn label(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)+ }
            }

            /// Middle part of Mooncake's family names, `None` where Mooncake has no family.
            #[must_use]
            pub fn family(self) -> Option<&'static str> {
                match self { $(Self::$variant => $family,)+ }
            }
        }
    };
}

rpc_kinds! {
    /// One key asked for existence.
    ExistKey => Some("exist_key");
    /// Space for one object.
    PutStart => Some("put_start");
    /// One object made visible.
    PutEnd => Some("put_end");
    /// One write given up.
    PutRevoke => Some("put_revoke");
    /// Replicas of one key.
    GetReplicaList => Some("get_replica_list");
    /// Replicas of all keys that match.
    GetReplicaListByRegex => Some("get_replica_list_by_regex");
    /// One key removed.
    Remove => Some("remove");
    /// All keys that match removed.
    RemoveByRegex => Some("remove_by_regex");
    /// All keys removed.
    RemoveAll => Some("remove_all");
    /// Segments mounted.
    MountSegment => Some("mount_segment");
    /// Segments unmounted.
    UnmountSegment => Some("unmount_segment");
    /// Segments mounted again after a restart of the master.
    ReMountSegment => Some("remount_segment");
    /// Sign of life.
    Ping => Some("ping");
    /// Several keys asked for existence.
    BatchExistKey => Some("batch_exist_key");
    /// Replicas of several keys.
    BatchGetReplicaList => Some("batch_get_replica_list");
    /// Space for several objects.
    BatchPutStart => Some("batch_put_start");
    /// Several objects made visible.
    BatchPutEnd => Some("batch_put_end");
    /// Several writes given up.
    BatchPutRevoke => Some("batch_put_revoke");
    /// Replicas of several keys dropped on one segment.
    BatchReplicaClear => Some("batch_replica_clear");
    /// Addresses of several clients.
    BatchQueryIp => Some("batch_query_ip");
    /// Several keys removed.
    BatchRemove => None;
    /// Space for a new version of one object.
    UpsertStart => None;
    /// Space for new versions of several objects.
    BatchUpsertStart => None;
    /// A new version of one object made visible.
    UpsertEnd => None;
    /// New versions of several objects made visible.
    BatchUpsertEnd => None;
    /// A new version of one object given up.
    UpsertRevoke => None;
    /// New versions of several objects given up.
    BatchUpsertRevoke => None;
    /// Keys that match, listed.
    ListByRegex => None;
    /// State of segments.
    QuerySegments => None;
    /// A client that leaves.
    Leave => None;
    /// Moves taken by the client that is to carry them out.
    FetchTasks => Some("fetch_tasks");
    /// Objects taken to be written to a disk.
    FetchDemotions => None;
    /// What became of objects that were to be written to a disk.
    EndDemotions => None;
    /// Void copies on a disk asked for.
    FetchTombstones => None;
    /// Void copies on a disk that never come back.
    ConfirmTombstones => None;
    /// What a disk has.
    AnnounceCopies => None;
    /// Segments of the log of a disk that are gone.
    Recycled => None;
    /// Moves that have ended.
    UpdateTask => Some("update_task");
    /// A copy of one object asked for.
    CreateCopyTask => Some("create_copy_task");
    /// A move of one object asked for.
    CreateMoveTask => Some("create_move_task");
    /// A copy or a move asked about.
    QueryTask => Some("query_task");
    /// An owner that asks for the records of a segment.
    Follow => None;
    /// An owner that tells what lies in a segment.
    Announce => None;
}

impl RpcKind {
    /// Number of kinds.
    pub const COUNT: usize = Self::ALL.len();

    /// A number for it, from 1 on, of this build alone.
    #[must_use]
    pub fn number(self) -> u16 {
        self as u16 + 1
    }

    /// The kind with that number.
    #[must_use]
    pub fn of_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// True for kinds that count keys as items.
    #[must_use]
    pub fn is_batch(self) -> bool {
        self.label().starts_with("Batch")
    }

    /// The batch kind of a single-key kind, and itself otherwise.
    #[must_use]
    pub fn batched(self) -> Self {
        match self {
            Self::ExistKey => Self::BatchExistKey,
            Self::GetReplicaList => Self::BatchGetReplicaList,
            Self::PutStart => Self::BatchPutStart,
            Self::PutEnd => Self::BatchPutEnd,
            Self::PutRevoke => Self::BatchPutRevoke,
            Self::Remove => Self::BatchRemove,
            Self::UpsertStart => Self::BatchUpsertStart,
            Self::UpsertEnd => Self::BatchUpsertEnd,
            Self::UpsertRevoke => Self::BatchUpsertRevoke,
            kind => kind,
        }
    }

    /// The kind for replacing writes of a kind for writes, and itself otherwise. Mooncake counts no
    /// upserts.
    #[must_use]
    pub fn replacing(self) -> Self {
        match self {
            Self::PutStart => Self::UpsertStart,
            Self::PutEnd => Self::UpsertEnd,
            Self::PutRevoke => Self::UpsertRevoke,
            kind => kind,
        }
    }
}
