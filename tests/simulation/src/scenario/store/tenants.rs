//! Tenants with quotas: every third key is of another one.
//! Invariant: what a tenant is charged for is what it has on all shards together.

use crate::environment::SimulatedEnvironment;
use crate::world::World;
use perigee_master::TenantLedger;
use perigee_schemas::tenant::{DEFAULT_TENANT, TenantId};
use perigee_service::MasterShard;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub(super) const NAMES: [&str; 3] = [DEFAULT_TENANT, "red", "blue"];
/// Part of a quota that stays whatever other tenants need.
const GUARANTEED_RATIO: f64 = 0.7;

/// Who has a quota, in every life of the master.
pub(super) struct Tenants {
    world: Rc<World>,
    quotas: Vec<(&'static str, u64)>,
    /// Of the present life.
    ledger: RefCell<Option<TenantLedger>>,
}

impl Tenants {
    pub(super) fn new(world: &Rc<World>, payload_bytes_max: u64) -> Self {
        let random = world.fork_random();
        let quota = |name| (name, payload_bytes_max * random.between(1, 6));
        let quotas = NAMES.into_iter().map(quota).collect();
        Self { world: world.clone(), quotas, ledger: RefCell::default() }
    }

    /// The accounts of a master that knows nothing of an earlier one.
    pub(super) fn open_ledger(&self) -> TenantLedger {
        let ledger = TenantLedger::new(GUARANTEED_RATIO);
        for (name, bytes) in &self.quotas {
            let set = ledger.set_quota(name, *bytes);
            self.world.check(set.is_ok(), || format!("{name} gets no quota: {set:?}"));
        }
        *self.ledger.borrow_mut() = Some(ledger.clone());
        ledger
    }

    /// Ends the run if shards have other bytes or objects than tenants are charged for.
    pub(super) fn check(&self, shards: &[Rc<MasterShard<SimulatedEnvironment>>]) {
        let ledger = self.ledger.borrow();
        let Some(ledger) = ledger.as_ref().filter(|_| !shards.is_empty()) else {
            return;
        };
        let mut held: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (name, (bytes, objects)) in shards.iter().flat_map(|shard| shard.tenant_holdings()) {
            let sum = held.entry(name).or_default();
            *sum = (sum.0 + bytes, sum.1 + objects);
        }
        for usage in ledger.usages() {
            let held = held.get(&usage.name).copied().unwrap_or_default();
            self.world.check((usage.charged_bytes, usage.objects) == held, || {
                format!("Shards have {held:?} bytes and objects of a tenant: {usage:?}")
            });
        }
    }

    /// Ends the run unless an empty store charges for nothing.
    pub(super) fn check_nothing_is_charged(&self) {
        let usages = self.ledger.borrow().as_ref().map(TenantLedger::usages);
        for usage in usages.into_iter().flatten() {
            self.world.check((usage.charged_bytes, usage.objects) == (0, 0), || {
                format!("A tenant is charged for what an empty store has: {usage:?}")
            });
        }
    }
}

/// A key of the tenant that it falls to by its number.
pub(super) fn stored(number: u64, key: &str) -> String {
    let name = NAMES[(number % NAMES.len() as u64) as usize];
    TenantId::parse(name).map_or_else(|_| key.to_owned(), |it| it.stored(key).into_owned())
}

/// The tenant of a stored key.
pub(super) fn of(key: &str) -> TenantId {
    let (name, _) = TenantId::split(key.as_bytes());
    let name = std::str::from_utf8(name).unwrap_or(DEFAULT_TENANT);
    TenantId::parse(name).unwrap_or_default()
}
