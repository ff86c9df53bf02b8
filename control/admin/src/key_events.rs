//! Routes about published key events: what was published, and a snapshot for consumers that come
//! late or missed something.
//! Invariant: a consumer that takes a snapshot and then applies every event from its sequence
//! number on knows what the master has.

use crate::answer;
use crate::listing::ObjectListing;
use crate::master_view::{KeyEventCounts, ObjectInfo};
use crate::shared::RouteContext;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

#[derive(Serialize)]
struct StatusBody {
    enabled: bool,
    published_batches: u64,
    published_events: u64,
    dropped_events: u64,
    skipped_unparsed_keys: u64,
}

/// The first line of a snapshot.
#[derive(Serialize)]
struct SnapshotHead {
    sequence: u64,
    /// The same in decimal: it is above 2^53, which a reader of doubles rounds.
    sequence_text: String,
}

/// Each further line.
#[derive(Serialize)]
struct SnapshotObject<'a> {
    object_key: &'a str,
    size: u64,
    group_id: Option<&'a str>,
    medium: &'static str,
    tenant_id: &'a str,
}

pub(crate) async fn status(State(shared): State<RouteContext>) -> Response {
    let published = shared.plane.key_events();
    let counts = published.unwrap_or_default();
    let KeyEventCounts { published_batches, published_events, .. } = counts;
    let body = StatusBody {
        enabled: published.is_some(),
        published_batches,
        published_events,
        dropped_events: counts.dropped_events,
        skipped_unparsed_keys: counts.skipped_unparsed_keys,
    };
    answer::json(StatusCode::OK, &body)
}

/// All objects, one JSON document a line for each medium that one lies on. Events that are not
/// numbered yet get numbers from that of the first line on, and applying one twice changes nothing.
pub(crate) async fn snapshot(State(shared): State<RouteContext>) -> Result<Response, Response> {
    let published = shared.plane.key_events();
    let sequence = published.ok_or_else(answer::switched_off)?.next_sequence;
    let head = line(&SnapshotHead { sequence, sequence_text: sequence.to_string() });
    let page = |objects: Vec<ObjectInfo>| objects.into_iter().flat_map(object_lines).collect();
    let body = ObjectListing::new(shared, None, usize::MAX).body(head, page).await;
    Ok(answer::json_lines(body.map_err(answer::error)?))
}

fn object_lines(object: ObjectInfo) -> impl Iterator<Item = String> {
    let media = object.media.clone();
    media.into_iter().map(move |medium| {
        line(&SnapshotObject {
            object_key: &object.key,
            size: object.payload_bytes,
            group_id: object.group.as_deref(),
            medium,
            tenant_id: &object.tenant,
        })
    })
}

fn line(document: &impl Serialize) -> String {
    // Text and numbers can always be written.
    serde_json::to_string(document).unwrap_or_default() + "\n"
}
