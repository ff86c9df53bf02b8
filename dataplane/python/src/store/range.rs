//! Parts of objects: range reads, read sessions and write sessions. Invariant: a range that does
//! not lie inside its object is refused whole; nothing of it is copied.

use super::{NOT_OPEN, StoreClient};
use crate::arguments::{Count, Keys, borrow_keys, piece, pieces};
use crate::lock::lock;
use crate::replicate_config::{OwnedConfig, ReplicateConfig, placement};
use crate::session::StoreSession;
use crate::staging::Draft;
use perigee_schemas::Status;
use perigee_store::api::{PutRequest, RangeRequest};
use perigee_store::count_or_code;
use pyo3::prelude::*;
use std::sync::Arc;

/// Range reads of a nested call with the place of each result.
#[derive(Default)]
struct RangeBatch<'a, Place> {
    requests: Vec<RangeRequest<'a>>,
    places: Vec<Place>,
}

impl<'a, Place: Copy> RangeBatch<'a, Place> {
    fn push(&mut self, place: Place, request: RangeRequest<'a>) {
        self.requests.push(request);
        self.places.push(place);
    }

    fn read(&self, session: &StoreSession) -> Vec<(Place, Result<u64, Status>)> {
        if self.requests.is_empty() {
            return Vec::new();
        }
        let results = session.store().read_ranges(&self.requests);
        self.places.iter().copied().zip(results).collect()
    }
}

fn range<'a>(
    key: &'a str,
    address: Option<u64>,
    source_offset: Count,
    bytes: Count,
) -> Result<RangeRequest<'a>, Status> {
    let target = piece(Count(address.ok_or(Status::InvalidParams)?), bytes)?;
    Ok(RangeRequest { key, source_offset: source_offset.0, target })
}

type RangeCodes = Vec<Vec<Vec<i64>>>;

/// Arguments of `get_into_ranges`: for buffer i and key j, one list entry per range.
struct NestedRanges {
    buffers: Vec<Count>,
    keys: Vec<Keys>,
    targets: Vec<Vec<Vec<Count>>>,
    sources: Vec<Vec<Vec<Count>>>,
    sizes: Vec<Vec<Vec<Count>>>,
}

impl NestedRanges {
    /// A refusal for every range of every key, as many as the longest of its lists names; one for a
    /// key without lists.
    fn refused(&self) -> RangeCodes {
        let ranges = |i: usize, j: usize| {
            let lists = [&self.targets, &self.sources, &self.sizes];
            let named = lists.iter().filter_map(|list| Some(list.get(i)?.get(j)?.len()));
            vec![i64::from(NOT_OPEN); named.max().unwrap_or(1)]
        };
        let buffers = self.keys.iter().enumerate();
        buffers.map(|(i, keys)| (0..keys.len()).map(|j| ranges(i, j)).collect()).collect()
    }

    /// Whether all five lists have one shape.
    fn is_regular(&self) -> bool {
        fn shape(lists: &[Vec<Vec<Count>>]) -> Vec<Vec<usize>> {
            let row = |keys: &Vec<Vec<Count>>| keys.iter().map(Vec::len).collect();
            lists.iter().map(row).collect()
        }
        let sizes = shape(&self.sizes);
        self.buffers.len() == sizes.len()
            && self.keys.len() == sizes.len()
            && self.keys.iter().zip(&sizes).all(|(keys, row)| keys.len() == row.len())
            && shape(&self.targets) == sizes
            && shape(&self.sources) == sizes
    }

    fn read(&self, session: &StoreSession) -> RangeCodes {
        let mut results = self.refused();
        if !self.is_regular() {
            return results;
        }
        let mut ranges = RangeBatch::default();
        for (i, keys) in self.keys.iter().enumerate() {
            for (j, key) in keys.iter().enumerate() {
                for (k, &bytes) in self.sizes[i][j].iter().enumerate() {
                    if bytes.0 == 0 {
                        results[i][j][k] = 0;
                        continue;
                    }
                    let address = self.buffers[i].0.checked_add(self.targets[i][j][k].0);
                    let address = address.filter(|_| self.buffers[i].0 != 0);
                    if let Ok(request) = range(key, address, self.sources[i][j][k], bytes) {
                        ranges.push((i, j, k), request);
                    }
                }
            }
        }
        for ((i, j, k), result) in ranges.read(session) {
            results[i][j][k] = count_or_code(result);
        }
        results
    }
}

/// Reads the ranges of each key whose read session is open; bytes read or the first failure per
/// key.
fn read_session_ranges(
    session: &StoreSession,
    keys: &[&str],
    lists: [&[Vec<Count>]; 3],
) -> Vec<i64> {
    let [addresses, sizes, offsets] = lists;
    let mut results = vec![0_i64; keys.len()];
    let mut ranges = RangeBatch::default();
    for (index, &key) in keys.iter().enumerate() {
        let targets = pieces(&addresses[index], &sizes[index]);
        match targets {
            Ok(targets) if targets.len() == offsets[index].len() && session.reads(key) => {
                for (&target, offset) in targets.iter().zip(&offsets[index]) {
                    let request = RangeRequest { key, source_offset: offset.0, target };
                    ranges.push(index, request);
                }
            }
            _ => results[index] = i64::from(Status::InvalidParams.code()),
        }
    }
    for (index, result) in ranges.read(session) {
        let outcome = count_or_code(result);
        match (results[index], outcome) {
            (..=-1, _) => {}
            (_, ..=-1) => results[index] = outcome,
            (sum, bytes) => results[index] = sum + bytes,
        }
    }
    results
}

/// Copies the ranges into the drafts of each key; bytes copied or a code per key.
fn write_session_ranges(
    session: &StoreSession,
    keys: &[&str],
    lists: [&[Vec<Count>]; 3],
) -> Vec<i64> {
    let [addresses, sizes, offsets] = lists;
    let copy = |(index, key): (usize, &&str)| {
        let pieces = pieces(&addresses[index], &sizes[index])?;
        let draft = lock(&session.staging).find(key);
        draft.ok_or(Status::InvalidParams)?.write(session.store(), &pieces, &offsets[index])
    };
    keys.iter().enumerate().map(|entry| count_or_code(copy(entry))).collect()
}

/// Stores the drafts of the keys; keys without a session answer -600.
fn store_drafts(session: &StoreSession, keys: &[&str]) -> Vec<i32> {
    let drafts: Vec<Option<Arc<Draft>>> = {
        let mut staging = lock(&session.staging);
        keys.iter().map(|key| staging.take(key)).collect()
    };
    let mut codes = vec![Status::InvalidParams.code(); keys.len()];
    let mut next = 0;
    while next < keys.len() {
        let Some(first) = &drafts[next] else {
            next += 1;
            continue;
        };
        // Neighbours started by one call share their placement and go out as one batch.
        let shared = |draft: &&Option<Arc<Draft>>| {
            let draft = draft.as_ref();
            draft.is_some_and(|draft| Arc::ptr_eq(&draft.placement, &first.placement))
        };
        let count = drafts[next..].iter().take_while(shared).count();
        let batch: Vec<&Draft> =
            drafts[next..next + count].iter().flatten().map(|it| &**it).collect();
        let pieces: Vec<_> = batch.iter().map(|draft| [draft.piece()]).collect();
        let requests: Vec<_> = batch
            .iter()
            .zip(&pieces)
            .zip(&keys[next..next + count])
            .map(|((draft, pieces), &key)| PutRequest {
                key,
                pieces,
                group: draft.group.as_deref(),
            })
            .collect();
        let statuses = session.store().put(&requests, &first.placement.config);
        for (code, status) in codes[next..next + count].iter_mut().zip(statuses) {
            *code = status.code();
        }
        next += count;
    }
    codes
}

fn begin_writes(
    session: &StoreSession,
    keys: &[&str],
    sizes: &[Count],
    placement: &Arc<OwnedConfig>,
) -> Vec<i32> {
    let groups = match placement.groups(keys.len()) {
        Ok(groups) if keys.len() == sizes.len() => groups,
        _ => return vec![Status::InvalidParams.code(); keys.len()],
    };
    let existing = session.store().exist(keys);
    let mut staging = lock(&session.staging);
    let mut begin =
        |(((key, &bytes), group), exists): (((&&str, _), _), Result<bool, Status>)| match exists {
            Ok(false) => staging.begin(key, bytes, placement, group),
            Ok(true) => Err(Status::ObjectAlreadyExists),
            Err(status) => Err(status),
        };
    let wishes = keys.iter().zip(sizes).zip(groups).zip(existing);
    wishes.map(|wish| begin(wish).map_or_else(Status::code, |()| Status::Ok.code())).collect()
}

#[pymethods]
impl StoreClient {
    /// Read ranges: for buffer i, key j and range k, `all_sizes[i][j][k]` bytes of the key from
    /// `all_src_offsets[i][j][k]` on, to `buffer_ptrs[i] + all_dst_offsets[i][j][k]`.
    ///
    /// Returns bytes read or a negative code for each, in the same nesting.
    fn get_into_ranges(
        &self,
        py: Python<'_>,
        buffer_ptrs: Vec<Count>,
        all_keys: Vec<Keys>,
        all_dst_offsets: Vec<Vec<Vec<Count>>>,
        all_src_offsets: Vec<Vec<Vec<Count>>>,
        all_sizes: Vec<Vec<Vec<Count>>>,
    ) -> Vec<Vec<Vec<i64>>> {
        let nested = NestedRanges {
            buffers: buffer_ptrs,
            keys: all_keys,
            targets: all_dst_offsets,
            sources: all_src_offsets,
            sizes: all_sizes,
        };
        self.call(py, || nested.refused(), |session| nested.read(session))
    }

    /// Open a read session of each key, for `batch_get_into_multi_buffer_ranges`.
    ///
    /// Returns 0 or a negative code per key (-704 for a miss). Sessions of one key nest.
    fn batch_get_session_start(&self, py: Python<'_>, keys: Keys) -> Vec<i32> {
        let keys = borrow_keys(&keys);
        self.call(py, || vec![NOT_OPEN; keys.len()], |session| session.begin_reads(&keys))
    }

    /// Read ranges of keys in a read session: piece k of key i is `all_sizes[i][k]` bytes from
    /// offset `all_src_offsets[i][k]` of the object, to address `all_buffer_ptrs[i][k]`.
    ///
    /// Returns the bytes read or a negative code per key; -600 without an open session.
    fn batch_get_into_multi_buffer_ranges(
        &self,
        py: Python<'_>,
        keys: Keys,
        all_buffer_ptrs: Vec<Vec<Count>>,
        all_sizes: Vec<Vec<Count>>,
        all_src_offsets: Vec<Vec<Count>>,
    ) -> Vec<i64> {
        let keys = borrow_keys(&keys);
        let lists = [&all_buffer_ptrs[..], &all_sizes[..], &all_src_offsets[..]];
        let refused = || vec![i64::from(NOT_OPEN); keys.len()];
        if lists.iter().any(|list| list.len() != keys.len()) {
            return refused();
        }
        self.call(py, refused, |session| read_session_ranges(session, &keys, lists))
    }

    /// Close one read session of each key. Returns 0.
    fn batch_get_session_end(&self, py: Python<'_>, keys: Keys) -> i32 {
        let keys = borrow_keys(&keys);
        let end = |session: &StoreSession| {
            session.end_reads(&keys);
            Status::Ok.code()
        };
        self.call(py, || NOT_OPEN, end)
    }

    /// Open a write session of each key for an object of `sizes[i]` bytes, filled by ranges.
    ///
    /// Bytes never written are zero. Returns 0 or a negative code per key; -705 for a key that
    /// exists, -600 when this store has a session of the key, -200 when the sessions of this store
    /// hold too much memory.
    #[pyo3(signature = (keys, sizes, config = None))]
    fn batch_put_session_start(
        &self,
        py: Python<'_>,
        keys: Keys,
        sizes: Vec<Count>,
        config: Option<PyRef<'_, ReplicateConfig>>,
    ) -> Vec<i32> {
        let placement = match placement(config.as_deref()) {
            Ok(placement) => Arc::new(placement),
            Err(status) => return vec![status.code(); keys.len()],
        };
        let keys = borrow_keys(&keys);
        self.call(
            py,
            || vec![NOT_OPEN; keys.len()],
            |session| begin_writes(session, &keys, &sizes, &placement),
        )
    }

    /// Write ranges of objects in a write session. Returns the bytes written or a negative code per
    /// key; -600 without an open session and when a range does not fit.
    fn batch_put_from_multi_buffer_ranges(
        &self,
        py: Python<'_>,
        keys: Keys,
        all_buffer_ptrs: Vec<Vec<Count>>,
        all_sizes: Vec<Vec<Count>>,
        all_dst_offsets: Vec<Vec<Count>>,
    ) -> Vec<i64> {
        let keys = borrow_keys(&keys);
        let lists = [&all_buffer_ptrs[..], &all_sizes[..], &all_dst_offsets[..]];
        let refused = || vec![i64::from(NOT_OPEN); keys.len()];
        if lists.iter().any(|list| list.len() != keys.len()) {
            return refused();
        }
        self.call(py, refused, |session| write_session_ranges(session, &keys, lists))
    }

    /// Store the objects of write sessions and close them. Returns a code per key as `put_from`.
    fn batch_put_session_end(&self, py: Python<'_>, keys: Keys) -> Vec<i32> {
        let keys = borrow_keys(&keys);
        self.call(py, || vec![NOT_OPEN; keys.len()], |session| store_drafts(session, &keys))
    }

    /// Close write sessions without storing anything. Returns 0, or -600 without a session.
    fn batch_put_session_revoke(&self, py: Python<'_>, keys: Keys) -> Vec<i32> {
        let keys = borrow_keys(&keys);
        let revoke = |session: &StoreSession| {
            let mut staging = lock(&session.staging);
            let taken = keys.iter().map(|key| staging.take(key));
            taken.map(|draft| draft.map_or(Status::InvalidParams, |_| Status::Ok).code()).collect()
        };
        self.call(py, || vec![NOT_OPEN; keys.len()], revoke)
    }
}
