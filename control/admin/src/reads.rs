//! Which parameters each reading route knows.
//! Invariant: a parameter that a route does not know is refused. It would be passed over otherwise,
//! and the answer would be about the keys of another tenant, say.

use crate::query::check_names;
use crate::tenants;
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Pages that a browser opens, metrics and probes are not here: who asks for those may add words
/// of its own.
const ROUTES: [(&str, &[&str]); 17] = [
    ("/role", &[]),
    ("/ha_status", &[]),
    ("/leader", &[]),
    ("/kv_events/status", &[]),
    ("/kv_events/snapshot", &[]),
    ("/query_key", &["key", tenants::PARAMETER]),
    ("/batch_query_keys", &["keys", tenants::PARAMETER]),
    ("/api/v1/keys/inspect", &["key", tenants::PARAMETER]),
    ("/get_all_keys", &["limit", tenants::PARAMETER]),
    ("/api/v1/keys", &["regex", "limit", tenants::PARAMETER]),
    ("/get_all_segments", &[]),
    ("/get_segments_detail", &[]),
    ("/query_segment", &["segment"]),
    ("/api/v1/segments/status", &["segment"]),
    ("/api/v1/drain_jobs/query", &["job_id"]),
    ("/api/v1/tenant_quotas", &[tenants::PARAMETER]),
    ("/api/v1/cluster/verdict", &[]),
];

/// Refuses a reading request with a parameter that its route does not know. A tenant was judged
/// before.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let uri = request.uri();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let route = ROUTES.iter().find(|(path, _)| is_read && *path == uri.path());
    let judged =
        route.map_or(Ok(()), |(_, known)| check_names(uri.query(), known, tenants::PARAMETER));
    match judged {
        Ok(()) => next.run(request).await,
        Err(flaw) => Response::from(flaw).into_response(),
    }
}
