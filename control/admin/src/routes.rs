//! The table of routes. Invariant: every route of Mooncake's admin port is here, with its own
//! answer or the answer of a feature that is switched off.

use crate::shared::RouteContext;
use crate::{
    answer, cluster, drains, key_events, keys, origin, overview, quotas, reads, segments, tenants,
};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};

/// All routes.
pub(crate) fn router(shared: RouteContext) -> Router {
    let quotas = get(quotas::quotas).put(quotas::set_quota).delete(quotas::remove_quota);
    let mut pages = Router::new();
    for (path, kind, body) in cluster::FILES {
        pages = pages.route(path, get(move || cluster::file(kind, body)));
    }
    pages
        .route("/", get(overview::index))
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(overview::ready))
        .route("/metrics", get(overview::metrics))
        .route("/metrics/summary", get(overview::summary))
        .route("/health", get(overview::health))
        .route("/role", get(|| async { answer::word("leader") }))
        .route("/ha_status", get(overview::ha_status))
        .route("/leader", get(overview::leader))
        .route("/kv_events/status", get(key_events::status))
        .route("/kv_events/snapshot", get(key_events::snapshot))
        .route("/query_key", get(keys::query_key))
        .route("/batch_query_keys", get(keys::batch_query_keys))
        .route("/api/v1/keys/inspect", get(keys::inspect))
        .route("/get_all_keys", get(keys::all_keys))
        .route("/api/v1/keys", get(keys::matching_keys))
        .route("/get_all_segments", get(segments::names))
        .route("/get_segments_detail", get(segments::detail))
        .route("/query_segment", get(segments::query))
        .route("/api/v1/segments/status", get(segments::status))
        .route("/api/v1/remove_all", post(keys::remove_all))
        .route("/api/v1/drain_jobs", post(drains::create))
        .route("/api/v1/drain_jobs/query", get(drains::query))
        .route("/api/v1/drain_jobs/cancel", post(drains::cancel))
        .route("/api/v1/tenant_quotas", quotas)
        .route("/api/v1/cluster/reports", post(cluster::report))
        .route("/api/v1/cluster/verdict", get(cluster::verdict))
        .fallback(|| async { (StatusCode::NOT_FOUND, "404 Not Found") })
        .method_not_allowed_fallback(|| async {
            (StatusCode::METHOD_NOT_ALLOWED, "405 Method Not Allowed")
        })
        .layer(axum::middleware::from_fn(reads::guard))
        .layer(axum::middleware::from_fn(tenants::guard))
        .layer(axum::middleware::from_fn(origin::guard))
        .with_state(shared)
}

#[cfg(test)]
mod tests;
