//! Listings of objects as bodies that are written page by page.
//! Invariant: the next page is made when the one before it has been taken, so a slow reader keeps
//! one page here.

use crate::master_view::{KeyCursor, ObjectInfo};
use crate::shared::RouteContext;
use axum::body::Body;
use futures_lite::{StreamExt, stream};
use perigee_schemas::{Status, TenantId};
use std::sync::Arc;

/// A walk over all objects.
pub(crate) struct ObjectListing {
    shared: RouteContext,
    /// Whose objects; those of all without.
    tenant: Option<TenantId>,
    /// Expression that keys must match; `None` lists all.
    regex: Option<Arc<str>>,
    /// Where it goes on; `None` at its beginning and its end.
    from: Option<KeyCursor>,
    /// Objects that may still be listed.
    left: usize,
}

impl ObjectListing {
    /// A walk that lists at most `limit` objects of one tenant, or of all.
    pub(crate) fn new(shared: RouteContext, tenant: Option<TenantId>, limit: usize) -> Self {
        Self { shared, tenant, regex: None, from: None, left: limit }
    }

    /// Only objects in whose keys a regular expression is found.
    pub(crate) fn matching(self, regex: &str) -> Self {
        Self { regex: Some(regex.into()), ..self }
    }

    /// The whole listing after a head, with each page in the form that `write` gives it.
    ///
    /// # Errors
    /// The first page could not be made. A later one that cannot breaks the body off.
    pub(crate) async fn body(
        mut self,
        head: String,
        write: impl Fn(Vec<ObjectInfo>) -> String + Send + 'static,
    ) -> Result<Body, Status> {
        let first = head + &write(self.page().await?);
        if self.from.is_none() {
            return Ok(Body::from(first));
        }
        let rest = stream::try_unfold((self, write), |(mut listing, write)| async move {
            if listing.from.is_none() {
                return Ok(None);
            }
            let page = listing.page().await;
            page.map(|page| Some((write(page), (listing, write))))
        });
        Ok(Body::from_stream(stream::once(Ok(first)).chain(rest)))
    }

    async fn page(&mut self) -> Result<Vec<ObjectInfo>, Status> {
        let (tenant, from, limit) = (self.tenant.clone(), self.from, self.left);
        let regex = self.regex.clone();
        let asked = self
            .shared
            .ask(move |plane| plane.list_objects(tenant.as_ref(), regex.as_deref(), from, limit));
        let page = asked.await.map_err(|_| Status::InternalError)??;
        self.left = self.left.saturating_sub(page.objects.len());
        self.from = page.next.filter(|_| self.left > 0);
        Ok(page.objects)
    }
}
