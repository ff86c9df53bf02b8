//! Routes about the objects of a tenant. Invariant: looking at a key never grants a lease.

use crate::answer;
use crate::limits::{BATCH_KEYS_MAX, LISTED_KEYS_MAX, LOOKED_UP_AT_A_TIME};
use crate::listing::ObjectListing;
use crate::master_view::{KeyPlaces, ObjectInfo, ReplicaPlace, id_text};
use crate::query::{check_change, filled_parameter, parameter};
use crate::shared::RouteContext;
use crate::tenants::{TenantRefusal, named, tenant};
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures_lite::{StreamExt, stream};
use perigee_schemas::tenant::is_free;
use perigee_schemas::{Status, TenantId};
use serde::Serialize;

const REGEX_REFUSAL: &str = "This is no regular expression that the master takes: it is too long, \
     malformed, or has what there is none of here: no backreferences, no look-around";
const BODY_REFUSAL: &str = "A body means nothing here, so nothing is removed: write the tenant as \
     /api/v1/remove_all?tenant_id=NAME";

#[derive(Serialize)]
struct BufferDescriptor {
    size_: u64,
    buffer_address_: u64,
    protocol_: String,
    transport_endpoint_: String,
}

#[derive(Serialize)]
struct LocalDiskDescriptor {
    client_id: String,
    object_size: u64,
    transport_endpoint: String,
}

#[derive(Serialize)]
struct LookupBody {
    success: bool,
    data: Vec<BufferDescriptor>,
}

#[derive(Serialize)]
struct KeyResult {
    ok: bool,
    error: Option<&'static str>,
    values: Option<Vec<BufferDescriptor>>,
    disk_values: Option<()>,
    local_disk_values: Option<Vec<LocalDiskDescriptor>>,
    nof_values: Option<()>,
}

#[derive(Serialize)]
struct NoKeys {
    success: bool,
    error: &'static str,
}

#[derive(Serialize)]
struct Removed {
    success: bool,
    removed_count: u64,
}

/// Where a key lies: in memory, on disks.
fn descriptors(places: Vec<ReplicaPlace>) -> (Vec<BufferDescriptor>, Vec<LocalDiskDescriptor>) {
    let (mut memory, mut disks) = (Vec::new(), Vec::new());
    for place in places {
        match place {
            ReplicaPlace::Memory { payload_bytes, buffer_address, protocol, endpoint } => {
                memory.push(BufferDescriptor {
                    size_: payload_bytes,
                    buffer_address_: buffer_address,
                    protocol_: protocol,
                    transport_endpoint_: endpoint,
                });
            }
            ReplicaPlace::Disk { payload_bytes, client, endpoint } => {
                disks.push(LocalDiskDescriptor {
                    client_id: id_text(client),
                    object_size: payload_bytes,
                    transport_endpoint: endpoint,
                });
            }
        }
    }
    (memory, disks)
}

/// A list as Mooncake shows it: null for none.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

impl From<KeyPlaces> for KeyResult {
    fn from(places: KeyPlaces) -> Self {
        let error = places.as_ref().err().map(|status| status.name());
        let (values, local_disk_values) = descriptors(places.unwrap_or_default());
        Self {
            ok: error.is_none(),
            error,
            values: some(values),
            disk_values: None,
            local_disk_values: some(local_disk_values),
            nof_values: None,
        }
    }
}

/// A key with its tenant in front. No tenant reaches another one's keys by how it writes its own.
fn stored(tenant: &TenantId, key: &str) -> Result<String, Status> {
    match is_free(key.as_bytes()) {
        true => Ok(tenant.stored(key).into_owned()),
        false => Err(Status::InvalidParams),
    }
}

pub(crate) async fn query_key(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    // Mooncake answers a missing parameter like a missing key, and so do we.
    let key = filled_parameter(query.as_deref(), "key");
    let key = key.ok_or_else(|| answer::error(Status::ObjectNotFound))?;
    let key = stored(&tenant(query.as_deref())?, &key).map_err(answer::error)?;
    let located = shared.ask(move |plane| plane.locate(&[key])).await?.map_err(answer::error)?;
    let places = located.into_iter().next().unwrap_or(Err(Status::ObjectNotFound));
    let (data, _) = descriptors(places.map_err(answer::error)?);
    Ok(answer::json(StatusCode::OK, &LookupBody { success: true, data }))
}

/// What is known of a key, and why replicas of it went.
pub(crate) async fn inspect(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let key = filled_parameter(query.as_deref(), "key");
    let key = key.ok_or_else(|| {
        answer::error_text(StatusCode::BAD_REQUEST, Status::InvalidParams, "Name a key: ?key=KEY")
    })?;
    let key = stored(&tenant(query.as_deref())?, &key).map_err(answer::error)?;
    let report = shared.ask(move |plane| plane.inspect(&key)).await?.map_err(answer::error)?;
    Ok(answer::json(StatusCode::OK, &report))
}

pub(crate) async fn batch_query_keys(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let written = parameter(query.as_deref(), "keys").unwrap_or_default();
    let mut keys: Vec<String> =
        written.split(',').filter(|key| !key.is_empty()).map(str::to_owned).collect();
    let mut seen = std::collections::HashSet::new();
    keys.retain(|key| seen.insert(key.clone()));
    let refused = match keys.len() {
        0 => Some("No keys provided. Use ?keys=key1,key2,..."),
        count if count > BATCH_KEYS_MAX => Some("Too many keys. Ask for at most 10000 at a time"),
        _ => None,
    };
    if let Some(error) = refused {
        return Ok(answer::json(StatusCode::BAD_REQUEST, &NoKeys { success: false, error }));
    }
    let tenant = tenant(query.as_deref())?;
    for key in &keys {
        stored(&tenant, key).map_err(answer::error)?;
    }
    let mut lookup = KeyLookup { shared, tenant, keys: keys.into_iter(), is_first: true };
    let first = lookup.piece().await.map_err(answer::error)?;
    if lookup.keys.len() == 0 {
        return Ok(answer::json_pieces(std::iter::once(first)));
    }
    // As with listings: a slow reader keeps one piece here.
    let rest = stream::try_unfold(lookup, |mut lookup| async move {
        if lookup.keys.len() == 0 {
            return Ok(None);
        }
        let piece = lookup.piece().await;
        piece.map(|piece| Some((piece, lookup)))
    });
    Ok(answer::json_stream(Body::from_stream(stream::once(Ok(first)).chain(rest))))
}

/// Keys with their places in the order asked, written piece by piece.
struct KeyLookup {
    shared: RouteContext,
    tenant: TenantId,
    /// Those that are left.
    keys: std::vec::IntoIter<String>,
    is_first: bool,
}

impl KeyLookup {
    async fn piece(&mut self) -> Result<String, Status> {
        let keys: Vec<String> = self.keys.by_ref().take(LOOKED_UP_AT_A_TIME).collect();
        let asked: Vec<String> =
            keys.iter().map(|key| self.tenant.stored(key).into_owned()).collect();
        let located = self.shared.ask(move |plane| plane.locate(&asked)).await;
        let located = located.map_err(|_| Status::InternalError)??;
        let mut text = String::new();
        if self.is_first {
            text.push_str(r#"{"success":true,"data":{"#);
        }
        for (key, places) in keys.iter().zip(located) {
            if !std::mem::take(&mut self.is_first) {
                text.push(',');
            }
            text.push_str(&answer::row(key));
            text.push(':');
            text.push_str(&answer::row(&KeyResult::from(places)));
        }
        if self.keys.len() == 0 {
            text.push_str("}}");
        }
        Ok(text)
    }
}

pub(crate) async fn all_keys(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let listing = listing(shared, query.as_deref())?;
    let body = listing.body(String::new(), lines).await.map_err(answer::error)?;
    Ok(answer::text_stream(body))
}

/// The keys in which a regular expression is found, as `all_keys` lists them.
pub(crate) async fn matching_keys(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let regex = filled_parameter(query.as_deref(), "regex").ok_or_else(|| {
        answer::invalid("Name a regular expression: ?regex=EXPRESSION; /get_all_keys lists all")
    })?;
    let listing = listing(shared, query.as_deref())?.matching(&regex);
    let body = listing.body(String::new(), lines).await.map_err(|status| match status {
        Status::InvalidParams => answer::invalid(REGEX_REFUSAL),
        other => answer::error(other),
    })?;
    Ok(answer::text_stream(body))
}

/// The keys of a tenant, as many as the query says.
fn listing(shared: RouteContext, query: Option<&str>) -> Result<ObjectListing, KeysRefusal> {
    let limit = filled_parameter(query, "limit").map(|text| text.parse());
    let limit: usize = match limit {
        Some(Err(_)) => return Err(KeysRefusal::Limit),
        Some(Ok(limit)) => LISTED_KEYS_MAX.min(limit),
        None => LISTED_KEYS_MAX,
    };
    let tenant = tenant(query).map_err(KeysRefusal::Tenant)?;
    Ok(ObjectListing::new(shared, Some(tenant), limit))
}

/// Why keys are not listed.
enum KeysRefusal {
    Limit,
    Tenant(TenantRefusal),
}

impl From<KeysRefusal> for Response {
    fn from(refused: KeysRefusal) -> Self {
        match refused {
            KeysRefusal::Limit => answer::error(Status::InvalidParams),
            KeysRefusal::Tenant(refused) => refused.into(),
        }
    }
}

/// One key a line.
fn lines(objects: Vec<ObjectInfo>) -> String {
    let mut lines = String::with_capacity(objects.iter().map(|it| it.key.len() + 1).sum());
    for object in objects {
        lines.push_str(&object.key);
        lines.push('\n');
    }
    lines
}

/// Of one tenant, or of all if none is named. A request whose words are not all understood removes
/// nothing: it may have been meant for one tenant.
pub(crate) async fn remove_all(
    State(shared): State<RouteContext>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Result<Response, Response> {
    let query = query.as_deref();
    check_change("/api/v1/remove_all", query)?;
    if !matches!(body.trim_ascii(), b"" | b"{}") {
        return Err(answer::invalid(BODY_REFUSAL));
    }
    let force = match parameter(query, "force").as_deref() {
        None | Some("false" | "0") => false,
        Some("true" | "1") => true,
        Some(_) => return Err(answer::invalid("force is true or false: nothing is removed")),
    };
    let tenant = named(query)?;
    let removed = shared.ask(move |plane| plane.remove_all(tenant.as_ref(), force)).await?;
    let removed_count = removed.map_err(answer::error)?;
    Ok(answer::json(StatusCode::OK, &Removed { success: true, removed_count }))
}
