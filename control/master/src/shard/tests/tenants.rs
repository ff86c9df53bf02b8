//! Facts about keys of several tenants in one shard.

use std::collections::BTreeSet;

use perigee_schemas::TenantId;
use proptest::prelude::{Just, Strategy, prop, prop_assert_eq, prop_oneof, proptest};

use super::*;

const TENANTS: [&str; 4] = ["default", "red", "re", "red blue"];
const KEYS: [&str; 3] = ["k", "red", "a/k"];

/// A call of one tenant.
#[derive(Debug, Clone, Copy)]
enum TenantCall {
    Put(usize),
    Remove(usize),
    RemoveMatching(&'static str),
    RemoveAll,
}

fn call() -> impl Strategy<Value = (usize, TenantCall)> {
    let key = 0..KEYS.len();
    let call = prop_oneof![
        4 => key.clone().prop_map(TenantCall::Put),
        1 => key.prop_map(TenantCall::Remove),
        1 => prop_oneof![Just("^k$"), Just("red"), Just("k")].prop_map(TenantCall::RemoveMatching),
        1 => Just(TenantCall::RemoveAll),
    ];
    (0..TENANTS.len(), call)
}

/// What a tenant lists, by its own names of the keys.
fn listed(stage: &Stage, tenant: &TenantId) -> BTreeSet<String> {
    let pattern = Pattern::any().of(tenant.clone());
    let mut keys = BTreeSet::new();
    let mut scan = stage.shard.scan();
    while !scan.has_ended() {
        stage.shard.list_step(&mut scan, &pattern, |listed| {
            let (of, key) = TenantId::split(listed.key);
            assert_eq!(of, tenant.name().as_bytes(), "it is the tenant's own");
            keys.insert(String::from_utf8(key.to_vec()).unwrap());
            true
        });
    }
    keys
}

/// Plays a call of a tenant that has these keys.
fn play(stage: &mut Stage, tenant: &TenantId, keys: &mut BTreeSet<String>, call: TenantCall) {
    match call {
        TenantCall::Put(key) => {
            if keys.insert(KEYS[key].to_owned()) {
                stage.put(&tenant.stored(KEYS[key]));
            }
        }
        TenantCall::Remove(key) => {
            let was_there = keys.remove(KEYS[key]);
            let removed = stage.remove(&tenant.stored(KEYS[key]), true);
            assert_eq!(removed == 0, was_there);
        }
        TenantCall::RemoveMatching(text) => {
            let before = keys.len();
            keys.retain(|key| match text {
                "^k$" => key != "k",
                text => !key.contains(text),
            });
            let pattern = Pattern::compile(text).unwrap().of(tenant.clone());
            let removed = stage.remove_matching(&pattern, true);
            assert_eq!(removed as usize, before - keys.len());
        }
        TenantCall::RemoveAll => {
            let removed = stage.remove_matching(&Pattern::any().of(tenant.clone()), true);
            assert_eq!(removed as usize, std::mem::take(keys).len());
        }
    }
}

proptest! {
    #[test]
    fn no_tenant_sees_counts_or_removes_keys_of_another(
        calls in prop::collection::vec(call(), 1..60)
    ) {
        let tenants = TENANTS.map(|name| TenantId::parse(name).unwrap());
        let mut stage = Stage::new(&[64]);
        let mut keys: [BTreeSet<String>; TENANTS.len()] = Default::default();
        for (at, call) in calls {
            play(&mut stage, &tenants[at], &mut keys[at], call);
            for (tenant, keys) in tenants.iter().zip(&keys) {
                prop_assert_eq!(&listed(&stage, tenant), keys);
                for key in KEYS {
                    prop_assert_eq!(stage.holds(&tenant.stored(key)), keys.contains(key));
                }
            }
        }
        stage.shard.check();
        prop_assert_eq!(stage.shard.gauges().keys as usize, keys.iter().map(BTreeSet::len).sum());
    }
}

#[test]
fn a_key_with_a_front_part_that_is_no_tenant_and_a_group_of_another_tenant_are_refused() {
    let mut stage = Stage::new(&[4]);
    let start = |stage: &mut Stage, key: &str, group: &str| {
        let batch = PutStart {
            client: WRITER,
            keys: &[key.as_bytes()],
            payload_bytes: &[PAYLOAD_BYTES],
            positions: &[],
            batch_keys: 0,
            groups: &[group],
            config: &PutConfig::default(),
            upsert: false,
            effort: Effort::Last,
        };
        let mut placed = PlacementColumns::default();
        stage.shard.put_start(stage.now_ms, &batch, &mut placed);
        placed.status[0]
    };
    let invalid = code(Status::InvalidParams);
    for key in ["\u{1}red", "\u{1}_red\u{1}k", "\u{1}default\u{1}k", "\u{1}red\u{1}"] {
        assert_eq!(start(&mut stage, key, ""), invalid, "{key:?}");
    }
    assert_eq!(start(&mut stage, "\u{1}red\u{1}k", "group"), invalid);
    assert_eq!(start(&mut stage, "k", "\u{1}red\u{1}group"), invalid);
    assert_eq!(start(&mut stage, "\u{1}red\u{1}k", "\u{1}red\u{1}group"), 0);
}
