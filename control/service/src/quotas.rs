//! Quotas of tenants as the operator sets them: read from a file at the start, changed over HTTP,
//! and written back.
//! Invariant: a change is in force only if the file has it, so that the next start has it, too.

mod file;

pub use file::QuotaFileError;
use file::{QuotaFile, TenantQuota};

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use perigee_admin::AdminRefusal;
use perigee_master::{TenantLedger, TenantUsage};
use perigee_schemas::{Status, TenantId};

/// The quotas of a master and the file that has them.
#[derive(Debug)]
pub(crate) struct TenantQuotas {
    ledger: TenantLedger,
    file: Mutex<QuotaFile>,
}

impl TenantQuotas {
    /// Reads the quotas of a file. A ratio of each is guaranteed, whatever others need.
    pub(crate) fn open(path: &Path, guaranteed_ratio: f64) -> Result<Self, QuotaFileError> {
        let file = QuotaFile::at(path);
        let ledger = TenantLedger::new(guaranteed_ratio);
        for quota in file.load()? {
            let set = ledger.set_quota(&quota.name, quota.bytes);
            debug_assert!(set.is_ok(), "the file was checked");
        }
        Ok(Self { ledger, file: Mutex::new(file) })
    }

    pub(crate) fn ledger(&self) -> &TenantLedger {
        &self.ledger
    }

    /// Gives a tenant a quota, or another one.
    pub(crate) fn set(&self, tenant: &TenantId, bytes: u64) -> Result<TenantUsage, AdminRefusal> {
        let file = self.file();
        let mut quotas = self.quotas();
        quotas.retain(|quota| quota.name != tenant.name());
        quotas.push(TenantQuota { name: tenant.name().to_owned(), bytes });
        save(&file, &mut quotas)?;
        let usage = self.ledger.set_quota(tenant.name(), bytes)?;
        tracing::info!(%tenant, bytes, "Quota set");
        Ok(usage)
    }

    /// Takes a tenant's quota away. The tenant must have nothing left.
    pub(crate) fn remove(&self, tenant: &TenantId) -> Result<(), AdminRefusal> {
        let file = self.file();
        let bytes = self.ledger.remove_quota(tenant.name())?;
        let saved = save(&file, &mut self.quotas());
        if saved.is_err() {
            self.ledger.set_quota(tenant.name(), bytes)?;
        } else {
            tracing::info!(%tenant, bytes, "Quota removed");
        }
        saved
    }

    /// One changes quotas at a time.
    fn file(&self) -> MutexGuard<'_, QuotaFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn quotas(&self) -> Vec<TenantQuota> {
        let usages = self.ledger.usages().into_iter().filter(TenantUsage::has_quota);
        usages.map(|usage| TenantQuota { name: usage.name, bytes: usage.requested_bytes }).collect()
    }
}

fn save(file: &QuotaFile, quotas: &mut [TenantQuota]) -> Result<(), AdminRefusal> {
    quotas.sort_by(|one, other| one.name.cmp(&other.name));
    file.save(quotas).map_err(|error| {
        tracing::warn!(%error, "Quotas stay as they are");
        AdminRefusal { status: Status::WriteFail, reason: error.to_string() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red() -> TenantId {
        TenantId::parse("red").unwrap()
    }

    fn open(path: &Path) -> TenantQuotas {
        TenantQuotas::open(path, 1.0).unwrap()
    }

    #[test]
    fn what_is_changed_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("quotas.yaml");
        std::fs::write(&path, "version: 1\ntenants: [{name: blue, quota: 1KB}]\n").unwrap();
        let quotas = open(&path);
        assert_eq!(quotas.set(&red(), 7).unwrap().requested_bytes, 7);
        assert_eq!(quotas.set(&red(), 8).unwrap().requested_bytes, 8);
        let names = |quotas: &TenantQuotas| -> Vec<(String, u64)> {
            let quotas = quotas.quotas().into_iter();
            quotas.map(|quota| (quota.name, quota.bytes)).collect()
        };
        assert_eq!(names(&open(&path)), [("blue".to_owned(), 1024), ("red".to_owned(), 8)]);
        quotas.remove(&red()).unwrap();
        assert_eq!(quotas.remove(&red()).unwrap_err().status, Status::ObjectNotFound);
        assert_eq!(names(&open(&path)), [("blue".to_owned(), 1024)]);
    }

    #[test]
    fn a_change_that_cannot_be_written_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("quotas.yaml");
        std::fs::write(&path, "version: 1\ntenants: [{name: red, quota: 5}]\n").unwrap();
        let quotas = open(&path);
        drop(folder);
        for refused in [quotas.set(&red(), 7).map(|_| ()), quotas.remove(&red())] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.status, Status::WriteFail);
            assert!(refused.reason.contains("quotas.yaml"), "{}", refused.reason);
        }
        let usage = quotas.ledger().usage("red").unwrap();
        assert_eq!((usage.requested_bytes, usage.is_closed), (5, false));
    }
}
