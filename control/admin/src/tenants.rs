//! Requests of one tenant. Tenants are not built: all share one space of names.
//! Invariant: a request that names a tenant never touches what belongs to others.

use crate::answer;
use crate::query::parameters;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use perigee_schemas::Status;

const PARAMETER: &str = "tenant_id";
/// What stands for no tenant in particular.
const NO_TENANT: [&str; 2] = ["", "default"];
/// Has its own answer.
const QUOTAS: &str = "/api/v1/tenant_quotas";
const REFUSAL: &str = "Tenants are not built: all share one space of names; leave tenant_id out";

/// Refuses requests that name a tenant.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let uri = request.uri();
    let mut given = parameters(uri.query(), PARAMETER);
    if uri.path() != QUOTAS && given.any(|tenant| !NO_TENANT.contains(&tenant.as_str())) {
        let status = Status::UnavailableInCurrentMode;
        return answer::error_text(StatusCode::CONFLICT, status, REFUSAL);
    }
    drop(given);
    next.run(request).await
}
