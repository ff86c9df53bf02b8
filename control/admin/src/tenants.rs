//! The tenant that a request names. Invariant: a request that names a tenant never touches what
//! belongs to others, and one that names it wrongly touches nothing.

use crate::answer;
use crate::parameters::TENANT;
use crate::query::parameters;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use perigee_schemas::{Status, TenantId};

/// Routes that are about the keys or the quota of a tenant.
const ROUTES: [&str; 7] = [
    "/query_key",
    "/batch_query_keys",
    "/get_all_keys",
    "/api/v1/keys",
    "/api/v1/keys/inspect",
    "/api/v1/remove_all",
    "/api/v1/tenant_quotas",
];
const REFUSAL: &str = "This route is about all tenants: leave tenant_id out";

/// Why a request is refused for its tenant.
#[derive(Debug)]
pub(crate) struct TenantRefusal(pub(crate) String);

/// Refuses a tenant on routes that know none.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let uri = request.uri();
    if !ROUTES.contains(&uri.path()) {
        match named(uri.query()) {
            Ok(tenant) if tenant.as_ref().is_none_or(TenantId::is_default) => {}
            Ok(_) => return TenantRefusal(REFUSAL.to_owned()).into(),
            Err(refused) => return refused.into(),
        }
    }
    next.run(request).await
}

/// The tenant of a request; the default one if it names none.
pub(crate) fn tenant(query: Option<&str>) -> Result<TenantId, TenantRefusal> {
    Ok(named(query)?.unwrap_or_default())
}

/// The tenant that a request names, if it names one.
pub(crate) fn named(query: Option<&str>) -> Result<Option<TenantId>, TenantRefusal> {
    let mut names: Vec<String> = parameters(query, TENANT).collect();
    names.dedup();
    match names.as_slice() {
        [] => Ok(None),
        [name] if name.is_empty() => Ok(None),
        [name] => match TenantId::parse(name) {
            Ok(tenant) => Ok(Some(tenant)),
            Err(error) => Err(TenantRefusal(format!("tenant_id={name}: {error}"))),
        },
        _ => Err(TenantRefusal("Name one tenant_id".to_owned())),
    }
}

impl From<TenantRefusal> for Response {
    fn from(TenantRefusal(message): TenantRefusal) -> Self {
        answer::error_text(StatusCode::BAD_REQUEST, Status::InvalidParams, &message)
    }
}
