//! Requests to records and back. Invariant: a body comes back exactly as it was written.

use crate::key::{KeyError, key_of_query};
use crate::store::{Change, Condition, MetadataStore, WriteRefusal};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{RawQuery, Request, State};
use axum::http::header::{CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::time::Duration;

/// With this header a record lives only so many seconds, unless it is written again. The answer
/// repeats it, which tells a client that this service knows it: Mooncake's do not.
const LIFE: &str = "perigee-life-seconds";

/// All routes of the service.
pub(crate) fn router(store: MetadataStore) -> Router {
    let records = get(read).put(write).delete(remove).fallback(other_method);
    Router::new()
        .route("/metadata", records)
        .route("/health", get(|| async { "OK" }))
        .layer(axum::middleware::from_fn(refuse_pages))
        .fallback(|| async { (StatusCode::NOT_FOUND, "404 Not Found") })
        .with_state(store)
}

/// Refuses changes by web pages: this service has none of its own, and any page can make its
/// reader's browser send them here. Browsers always say that a page asks.
async fn refuse_pages(request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let headers = request.headers();
    if !reads && (headers.contains_key(ORIGIN) || headers.contains_key("sec-fetch-site")) {
        let reason = "Web pages change nothing here (Origin, Sec-Fetch-Site)";
        return (StatusCode::FORBIDDEN, reason).into_response();
    }
    next.run(request).await
}

impl IntoResponse for KeyError {
    fn into_response(self) -> Response {
        match self {
            Self::Missing => (StatusCode::BAD_REQUEST, "Missing key parameter"),
            Self::TooLong => (StatusCode::BAD_REQUEST, "The key is too long"),
        }
        .into_response()
    }
}

fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "metadata not found").into_response()
}

async fn read(
    State(store): State<MetadataStore>,
    RawQuery(query): RawQuery,
) -> Result<Response, KeyError> {
    let key = key_of_query(query.as_deref())?;
    Ok(match store.get(&key) {
        Some(body) => {
            let kind = (CONTENT_TYPE, "application/json".to_owned());
            ([kind, (ETAG, shown(store.tag(&body)))], body.to_vec()).into_response()
        }
        None => not_found(),
    })
}

async fn write(
    State(store): State<MetadataStore>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, KeyError> {
    let key = key_of_query(query.as_deref())?;
    let life = headers.get(LIFE);
    let seconds = life.and_then(|life| life.to_str().ok()?.parse().ok());
    let Some(condition) = condition(&headers) else {
        return Ok((StatusCode::BAD_REQUEST, "The condition is not understood").into_response());
    };
    let life_asked = seconds.map(Duration::from_secs);
    let mut answer = match store.put(key, &body, life_asked, condition) {
        Ok(Change::Updated) => "metadata updated".into_response(),
        Ok(Change::Unchanged) => "metadata unchanged".into_response(),
        Err(WriteRefusal::Condition) => {
            (StatusCode::PRECONDITION_FAILED, "metadata has changed").into_response()
        }
        Err(WriteRefusal::Full) => {
            tracing::warn!(records = store.len(), "Metadata store is full; a record was refused");
            (StatusCode::INSUFFICIENT_STORAGE, "metadata store is full").into_response()
        }
    };
    if let Some(life) = life.filter(|_| seconds.is_some()) {
        answer.headers_mut().insert(LIFE, life.clone());
    }
    Ok(answer)
}

/// The tag of a body as a header has it.
fn shown(tag: u64) -> String {
    format!("\"{tag:016x}\"")
}

/// What `If-None-Match: *` or an `If-Match` with one tag asks for. `None` = something else is
/// asked.
fn condition(headers: &HeaderMap) -> Option<Condition> {
    match (headers.get(IF_NONE_MATCH), headers.get(IF_MATCH)) {
        (None, None) => Some(Condition::Always),
        (Some(any), None) => (any == "*").then_some(Condition::Absent),
        (None, Some(tag)) => {
            let digits = tag.to_str().ok()?.strip_prefix('"')?.strip_suffix('"')?;
            Some(Condition::Tagged(u64::from_str_radix(digits, 16).ok()?))
        }
        (Some(_), Some(_)) => None,
    }
}

async fn remove(
    State(store): State<MetadataStore>,
    RawQuery(query): RawQuery,
) -> Result<Response, KeyError> {
    let key = key_of_query(query.as_deref())?;
    Ok(if store.remove(&key) { "metadata deleted".into_response() } else { not_found() })
}

async fn other_method() -> (StatusCode, &'static str) {
    (StatusCode::METHOD_NOT_ALLOWED, "Method not allowed")
}
