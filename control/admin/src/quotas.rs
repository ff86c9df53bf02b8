//! Routes of tenants' quotas, with the bodies of Mooncake and two more fields behind its own.
//! Invariant: nothing is changed by a request that names no tenant or no quota.

use crate::answer;
use crate::query::check_change;
use crate::shared::RouteContext;
use crate::tenants::{self, TenantRefusal};
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use perigee_metrics::TenantNumbers;
use perigee_schemas::{Status, TenantId};
use serde::Serialize;

#[derive(Serialize)]
struct QuotaAnswer<T> {
    success: bool,
    data: T,
}

#[derive(Serialize)]
struct QuotaView {
    tenant_id: String,
    requested_quota_bytes: u64,
    effective_quota_bytes: u64,
    charged_bytes: u64,
    admission_closed: bool,
    over_quota: bool,
    has_explicit_policy: bool,
    guaranteed_bytes: u64,
    object_count: u64,
}

impl From<TenantNumbers> for QuotaView {
    fn from(numbers: TenantNumbers) -> Self {
        Self {
            requested_quota_bytes: numbers.requested_bytes,
            effective_quota_bytes: numbers.effective_bytes,
            charged_bytes: numbers.charged_bytes,
            admission_closed: numbers.is_closed,
            over_quota: numbers.is_over(),
            has_explicit_policy: numbers.requested_bytes > 0,
            guaranteed_bytes: numbers.guaranteed_bytes,
            object_count: numbers.objects,
            tenant_id: numbers.name,
        }
    }
}

pub(crate) async fn quotas(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let tenant = tenants::named(query.as_deref())?;
    let asked = tenant.clone();
    let found = shared.ask(move |plane| plane.tenants(asked.as_ref())).await?;
    let found = found.ok_or_else(answer::switched_off)?;
    let mut quotas = found.into_iter().map(QuotaView::from);
    match tenant {
        None => Ok(good(quotas.collect::<Vec<_>>())),
        Some(_) => Ok(good(quotas.next().ok_or_else(|| answer::error(Status::ObjectNotFound))?)),
    }
}

pub(crate) async fn set_quota(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Result<Response, Response> {
    check_change("/api/v1/tenant_quotas", query.as_deref())?;
    let bytes = quota_of(&body).ok_or_else(|| {
        let message = "Tenant quota must be in [1, 2^63 - 1] bytes";
        answer::error_text(StatusCode::BAD_REQUEST, Status::InvalidParams, message)
    })?;
    if shared.ask(|plane| plane.tenants(Some(&TenantId::default())).is_none()).await? {
        return Err(answer::switched_off());
    }
    let tenant = tenant_of(query.as_deref())?;
    let set = shared.ask(move |plane| plane.set_quota(&tenant, bytes)).await?;
    Ok(good(QuotaView::from(set.map_err(answer::refusal)?)))
}

pub(crate) async fn remove_quota(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    check_change("/api/v1/tenant_quotas", query.as_deref())?;
    if shared.ask(|plane| plane.tenants(Some(&TenantId::default())).is_none()).await? {
        return Err(answer::switched_off());
    }
    let tenant = tenant_of(query.as_deref())?;
    let removed = shared.ask(move |plane| plane.remove_quota(&tenant)).await?;
    removed.map_err(answer::refusal)?;
    Ok(good(None::<QuotaView>))
}

fn good<T: Serialize>(data: T) -> Response {
    answer::json(StatusCode::OK, &QuotaAnswer { success: true, data })
}

/// The tenant whose quota is to change, which must be named: none is not the default one.
fn tenant_of(query: Option<&str>) -> Result<TenantId, TenantRefusal> {
    let nameless = || TenantRefusal("Name the tenant: ?tenant_id=NAME".to_owned());
    tenants::named(query)?.ok_or_else(nameless)
}

fn quota_of(body: &[u8]) -> Option<u64> {
    let body: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let quota = body.as_ref().and_then(|body| body.get("requested_quota_bytes"));
    let bytes = quota.and_then(serde_json::Value::as_i64).filter(|bytes| *bytes > 0)?;
    Some(bytes.unsigned_abs())
}
