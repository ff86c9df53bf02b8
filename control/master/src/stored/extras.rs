//! Replicas that were made because their keys are hot.
//! Invariant: such a replica is never the only one in memory that its object has.

use crate::list_name::ListName;

use super::StoredObjects;

impl StoredObjects {
    /// A replica that was made for heat joins the others.
    pub(crate) fn enlist_extra(&mut self, id: u32) {
        self.replicas.relink(id, ListName::Extra);
        self.extras += 1;
    }

    /// An object has lost a replica: if it has one that was made for heat, that takes its place.
    pub(crate) fn adopt_extra(&mut self, object: u32) {
        let extra = {
            let mut complete = self.replicas.chain(self.keys[object].first);
            complete.find(|id| self.replicas[*id].is_extra())
        };
        let Some(extra) = extra else {
            return;
        };
        self.replicas.relink(extra, ListName::Held);
        self.extras -= 1;
        let list = self.list_of(object);
        self.enlist(extra, list);
    }
}
