//! The lists of one segment: one set for all replicas, or, where tenants have quotas, one for each
//! tenant, so that one tenant's replicas are found without looking at another's.
//! Invariant: a tenant that has nothing in the segment has no lists.

use std::collections::BTreeMap;

use crate::recency::Recency;
use crate::replica::Replica;
use crate::slab::{NONE, Slab};
use crate::tenant::{SHARED, TenantLane, TenantNumber};

#[derive(Debug, Default)]
pub(crate) struct SegmentLists {
    /// Of what is charged to no tenant.
    shared: Recency,
    of_tenants: BTreeMap<TenantNumber, Box<Recency>>,
}

impl SegmentLists {
    /// The lists of a tenant, if it has something here.
    pub(crate) fn of(&self, tenant: TenantNumber) -> Option<&Recency> {
        match tenant {
            SHARED => Some(&self.shared),
            tenant => self.of_tenants.get(&tenant).map(|lists| &**lists),
        }
    }

    /// As `of`, to be changed.
    pub(crate) fn of_mut(&mut self, tenant: TenantNumber) -> Option<&mut Recency> {
        match tenant {
            SHARED => Some(&mut self.shared),
            tenant => self.of_tenants.get_mut(&tenant).map(|lists| &mut **lists),
        }
    }

    /// The lists of a tenant that is about to have something here.
    pub(crate) fn open(&mut self, tenant: TenantNumber) -> &mut Recency {
        match tenant {
            SHARED => &mut self.shared,
            tenant => self.of_tenants.entry(tenant).or_default(),
        }
    }

    /// Forgets the lists of a tenant if they are empty.
    pub(crate) fn close_empty(&mut self, tenant: TenantNumber) {
        if self.of_tenants.get(&tenant).is_some_and(|lists| lists.len() == 0) {
            self.of_tenants.remove(&tenant);
        }
    }

    /// The tenants that have something here.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = TenantNumber> + '_ {
        self.of_tenants.keys().copied()
    }

    /// Number of replicas in all lists.
    pub(crate) fn len(&self) -> usize {
        self.all().map(Recency::len).sum()
    }

    /// Bytes of the replicas that are ready to go, without those that follow them.
    pub(crate) fn ready_bytes(&self) -> u64 {
        self.all().map(Recency::ready_bytes).sum()
    }

    /// Any replica, or `NONE`.
    pub(crate) fn any(&self) -> u32 {
        self.all().map(Recency::any).find(|id| *id != NONE).unwrap_or(NONE)
    }

    /// Panics unless every tenant's lists agree with themselves. Returns how many replicas are in
    /// them.
    pub(crate) fn check(&self, replicas: &Slab<Replica>, segment: u32) -> usize {
        assert!(self.of_tenants.values().all(|lists| lists.len() > 0), "no lists are empty");
        let of_tenants = self.of_tenants.iter().map(|(tenant, lists)| (*tenant, &**lists));
        let all = std::iter::once((SHARED, &self.shared)).chain(of_tenants);
        all.map(|(tenant, lists)| lists.check(replicas, TenantLane { segment, tenant })).sum()
    }

    fn all(&self) -> impl Iterator<Item = &Recency> {
        std::iter::once(&self.shared).chain(self.of_tenants.values().map(|lists| &**lists))
    }
}
