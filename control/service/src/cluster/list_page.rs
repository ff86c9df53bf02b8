//! Listings of keys, page by page. Invariant: a page is bounded in keys, in bytes and in steps, and
//! other calls get their turn between two steps.

use super::control_shard::ControlShard;
use perigee_admin::ObjectInfo;
use perigee_master::{ListedKey, Medium, Pattern, Scan};
use perigee_schemas::limits::LISTING_PAGE_BYTES;
use perigee_schemas::{Status, TenantId};
use perigee_shard::Environment;

/// Steps after which a page ends, whatever was found.
const STEPS_MAX: usize = 64;

/// Where a listing goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) shard: usize,
    pub(crate) position: (u32, u32),
}

impl Cursor {
    /// The form in which peers keep it.
    pub(crate) fn numbers(self) -> [u64; 3] {
        let (high, low) = self.position;
        [self.shard as u64, u64::from(high), u64::from(low)]
    }

    /// The cursor in such numbers, which may be any.
    pub(crate) fn from_numbers(numbers: [u64; 3]) -> Self {
        let [shard, high, low] = numbers.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        Self { shard: shard as usize, position: (high, low) }
    }
}

/// Some objects of a listing; without `next` the last ones.
#[derive(Debug, Default)]
pub(crate) struct ListPage {
    pub(crate) objects: Vec<ObjectInfo>,
    pub(crate) next: Option<Cursor>,
}

/// What one step met, and where it stopped.
struct ScanStep {
    objects: Vec<ObjectInfo>,
    bytes: usize,
    scan: Scan,
}

impl<E: Environment> ControlShard<E> {
    /// The page of a listing that begins at a cursor. A step takes at most so many keys that the
    /// page keeps its bounds.
    pub(crate) async fn list_page(
        &self,
        pattern: &Pattern,
        limit: usize,
        from: Option<Cursor>,
    ) -> Result<ListPage, Status> {
        if limit == 0 {
            return Ok(ListPage::default());
        }
        let _turn = self.listings.turn(&self.environment).await?;
        let mut page = ListPage::default();
        let mut bytes = 0;
        let mut shard = from.map_or(0, |from| from.shard);
        let mut position = from.map(|from| from.position);
        for _ in 0..STEPS_MAX {
            if shard >= self.members().len() {
                return Ok(page);
            }
            let room = (limit - page.objects.len(), LISTING_PAGE_BYTES.saturating_sub(bytes));
            let step = self.list_step(shard, position, pattern.clone(), room).await?;
            bytes += step.bytes;
            page.objects.extend(step.objects);
            debug_assert!(page.objects.len() <= limit, "a page has no more than was asked for");
            (shard, position) = match step.scan.has_ended() {
                true => (shard + 1, None),
                false => (shard, Some(step.scan.position())),
            };
            if page.objects.len() >= limit || bytes >= LISTING_PAGE_BYTES {
                break;
            }
        }
        if shard < self.members().len() {
            // A shard that was not begun is walked from its first key.
            let position = position.unwrap_or_default();
            page.next = Some(Cursor { shard, position });
        }
        Ok(page)
    }

    /// One step on the shard that owns the keys. It is posted to this shard too: calls that wait in
    /// its mailbox come first.
    async fn list_step(
        &self,
        owner: usize,
        position: Option<(u32, u32)>,
        pattern: Pattern,
        (keys_max, bytes_max): (usize, usize),
    ) -> Result<ScanStep, Status> {
        let member = &self.members()[owner];
        let name = member.name;
        let step = self.environment.call(&member.mailbox, move |theirs| {
            let shard = theirs.local(name)?;
            let state = shard.keys.borrow();
            let mut scan = position.map_or_else(|| state.scan(), |at| state.scan_from(at));
            let (mut objects, mut bytes) = (Vec::new(), 0);
            let take = |listed: ListedKey<'_>| {
                bytes += listed.key.len() + listed.group.map_or(0, str::len);
                objects.push(info(&listed));
                objects.len() < keys_max && bytes < bytes_max
            };
            state.list_step(&mut scan, &pattern, take);
            Some(ScanStep { objects, bytes, scan })
        });
        step.await.flatten().ok_or(Status::InternalError)
    }
}

fn info(listed: &ListedKey<'_>) -> ObjectInfo {
    let (tenant, key) = TenantId::split(listed.key);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    ObjectInfo {
        tenant: text(tenant),
        key: text(key),
        payload_bytes: listed.payload_bytes,
        group: listed.group.map(|group| text(TenantId::split(group.as_bytes()).1)),
        media: listed.media.iter().map(Medium::name).collect(),
    }
}
