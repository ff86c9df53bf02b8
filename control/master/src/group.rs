//! Groups of objects that share one lease and are evicted together.
//! Invariant: a group exists while it has members; `blockers` counts members that cannot be evicted.
//!
//! Members live in the shard of their key, so with several shards a group name stands for one group per
//! shard: leases are shared, and members evicted together, within a shard.

use std::collections::BTreeMap;

use crate::slab::{NONE, Slab};

#[derive(Debug)]
pub(crate) struct Group {
    name: Box<str>,
    pub(crate) members: Vec<u32>,
    /// Members that are unfinished or hard-pinned.
    pub(crate) blockers: u32,
    /// Members that are soft-pinned; one is enough for the whole group.
    pub(crate) soft_pinned: u32,
    pub(crate) read_end_ms: u64,
    pub(crate) probe_end_ms: u64,
    /// Number of the call that touched the group last; further members in that call change nothing.
    pub(crate) touched_by_call: u64,
}

#[derive(Debug)]
pub(crate) struct Groups {
    by_name: BTreeMap<Box<str>, u32>,
    groups: Slab<Group>,
}

impl Groups {
    pub(crate) fn new() -> Self {
        Self {
            by_name: BTreeMap::new(),
            groups: Slab::new(),
        }
    }

    /// The group of that name, or `NONE`.
    pub(crate) fn find(&self, name: &str) -> u32 {
        self.by_name.get(name).copied().unwrap_or(NONE)
    }

    /// Adds a member; the group is made if there is none.
    pub(crate) fn join(&mut self, name: &str, object: u32) -> u32 {
        let mut id = self.find(name);
        if id == NONE {
            id = self.groups.insert(Group {
                name: name.into(),
                members: Vec::new(),
                blockers: 0,
                soft_pinned: 0,
                read_end_ms: 0,
                probe_end_ms: 0,
                touched_by_call: 0,
            });
            self.by_name.insert(name.into(), id);
        }
        self.groups[id].members.push(object);
        id
    }

    /// Removes a member; the group goes with its last one.
    pub(crate) fn leave(&mut self, id: u32, object: u32) {
        let group = &mut self.groups[id];
        group.members.retain(|member| *member != object);
        if group.members.is_empty()
            && let Some(group) = self.groups.remove(id)
        {
            self.by_name.remove(&group.name);
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Group> {
        self.groups.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Group> {
        self.groups.get_mut(id)
    }
}
