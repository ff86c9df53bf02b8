//! The tenants of the fixed master, and its answers to changes of their quotas.

use crate::master_view::AdminRefusal;
use perigee_metrics::TenantNumbers;
use perigee_schemas::{Status, TenantId};

fn red() -> TenantNumbers {
    TenantNumbers {
        name: "red".to_owned(),
        requested_bytes: 2048,
        effective_bytes: 1024,
        guaranteed_bytes: 900,
        charged_bytes: 512,
        objects: 3,
        is_closed: false,
        refused: 4,
        evicted_bytes: 99,
    }
}

pub(super) fn tenants(tenant: Option<&TenantId>) -> Vec<TenantNumbers> {
    let blue = TenantNumbers {
        name: "blue".to_owned(),
        charged_bytes: 7,
        objects: 1,
        is_closed: true,
        ..TenantNumbers::default()
    };
    let all = [blue, red()].into_iter();
    all.filter(|it| tenant.is_none_or(|tenant| tenant.name() == it.name)).collect()
}

pub(super) fn set(tenant: &TenantId, bytes: u64) -> Result<TenantNumbers, AdminRefusal> {
    match tenant.name() {
        "red" => Ok(TenantNumbers { requested_bytes: bytes, ..red() }),
        _ => Err(AdminRefusal { status: Status::WriteFail, reason: "the disk is full".to_owned() }),
    }
}

pub(super) fn remove(tenant: &TenantId) -> Result<(), AdminRefusal> {
    match tenant.name() {
        "red" => Ok(()),
        "blue" => Err(Status::TenantNotEmpty.into()),
        _ => Err(Status::ObjectNotFound.into()),
    }
}
