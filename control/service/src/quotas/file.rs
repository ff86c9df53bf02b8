//! The file of quotas: YAML with a version and a list of tenants, as Mooncake has it.
//! Invariant: the file is whole at any time; what is written can be read.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use perigee_flags::parse_size_bytes;
use perigee_schemas::TenantId;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// The version that is written and read.
const VERSION: u64 = 1;
/// Longest file that is read: far more than all tenants that a master can have.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Why quotas cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaFileError {
    /// There is no such file, or it cannot be read.
    #[error(
        "Quotas of tenants cannot be read from {path} (tenant_quota_connector_uri): {error}. A file \
         without tenants has two lines: `version: 1` and `tenants: []`"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The file is not as it has to be.
    #[error("Quotas of tenants in {path}: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What to change, and where.
        reason: String,
    },
    /// The file cannot be replaced.
    #[error("Quotas of tenants cannot be written to {path}: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// The quota of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TenantQuota {
    pub(super) name: String,
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct QuotaFile {
    path: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u64,
    tenants: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Name,
    quota: Quota,
}

struct Name(String);

struct Quota(u64);

impl QuotaFile {
    pub(super) fn at(path: &Path) -> Self {
        // What a link names is replaced, not the link.
        Self { path: path.canonicalize().unwrap_or_else(|_| path.to_owned()) }
    }

    pub(super) fn load(&self) -> Result<Vec<TenantQuota>, QuotaFileError> {
        let unread = |error| QuotaFileError::Read { path: self.path.clone(), error };
        let wrong = |reason| QuotaFileError::Content { path: self.path.clone(), reason };
        let bytes = std::fs::metadata(&self.path).map_err(unread)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(wrong(format!("{bytes} bytes are more than {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(&self.path).map_err(unread)?;
        parse(&text).map_err(wrong)
    }

    /// Replaces the file. Comments in it are gone then.
    pub(super) fn save(&self, quotas: &[TenantQuota]) -> Result<(), QuotaFileError> {
        self.replace(&text_of(quotas))
            .map_err(|error| QuotaFileError::Write { path: self.path.clone(), error })
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let beside = self.path.with_file_name(name);
        let written = write(&beside, text).and_then(|()| std::fs::rename(&beside, &self.path));
        if written.is_err() {
            let _ = std::fs::remove_file(&beside);
        }
        written?;
        match self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) => File::open(folder)?.sync_all(),
            None => File::open(".")?.sync_all(),
        }
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn parse(text: &str) -> Result<Vec<TenantQuota>, String> {
    let document: Document = serde_yaml_ng::from_str(text).map_err(|error| error.to_string())?;
    if document.version != VERSION {
        return Err(format!("version is {}: write `version: {VERSION}`", document.version));
    }
    let mut names = BTreeSet::new();
    let entries = document.tenants.into_iter();
    let quotas: Vec<TenantQuota> = entries
        .map(|Entry { name: Name(name), quota: Quota(bytes) }| TenantQuota { name, bytes })
        .collect();
    match quotas.iter().find(|quota| !names.insert(&quota.name)) {
        Some(twice) => Err(format!("tenant {} is there twice: leave one of them", twice.name)),
        None => Ok(quotas),
    }
}

fn text_of(quotas: &[TenantQuota]) -> String {
    if quotas.is_empty() {
        return format!("version: {VERSION}\n\ntenants: []\n");
    }
    let mut text = format!("version: {VERSION}\n\ntenants:\n");
    for TenantQuota { name, bytes } in quotas {
        let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
        text.push_str(&format!("  - name: \"{quoted}\"\n    quota: {bytes}\n"));
    }
    text
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameVisitor)
    }
}

impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuotaVisitor)
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a tenant, in quotes if it is not plain text")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Name, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Name, E> {
        match TenantId::parse(name) {
            Ok(tenant) if !name.is_empty() => Ok(Name(tenant.name().to_owned())),
            Ok(_) => Err(E::custom("the name of a tenant is empty")),
            Err(error) => Err(E::custom(format!("{name:?}: {error}"))),
        }
    }
}

struct QuotaVisitor;

impl Visitor<'_> for QuotaVisitor {
    type Value = Quota;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a quota of 1 byte or more, such as 200GB or 500MB")
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<Quota, E> {
        match bytes {
            1..=0x7fff_ffff_ffff_ffff => Ok(Quota(bytes)),
            _ => Err(E::invalid_value(Unexpected::Unsigned(bytes), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quota, E> {
        match parse_size_bytes(text) {
            Some(bytes) if bytes > 0 => Ok(Quota(bytes)),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(name: &str, bytes: u64) -> TenantQuota {
        TenantQuota { name: name.to_owned(), bytes }
    }

    #[test]
    fn a_file_as_mooncake_has_it_is_read() {
        let text = "version: 1\n\ntenants:\n  - name: tenant-a\n    quota: 200GB\n  - name: 7\n    \
                    quota: 12345\n  - {name: default, quota: 500MB}\n";
        let wanted =
            [quota("tenant-a", 200 << 30), quota("7", 12_345), quota("default", 500 << 20)];
        assert_eq!(parse(text).unwrap(), wanted);
        assert_eq!(parse("version: 1\ntenants: []\n").unwrap(), []);
    }

    #[test]
    fn what_is_written_reads_back() {
        let quotas = [quota("a \"b\" \\c", 1), quota("~", i64::MAX as u64), quota("true", 3)];
        assert_eq!(parse(&text_of(&quotas)).unwrap(), quotas);
        assert_eq!(parse(&text_of(&[])).unwrap(), []);
    }

    #[test]
    fn errors_say_where_and_what() {
        let entry = |entry: &str| format!("version: 1\ntenants:\n  - name: a\n    {entry}\n");
        for (text, parts) in [
            ("tenants: []".to_owned(), ["version", "missing"]),
            ("version: 2\ntenants: []".to_owned(), ["version is 2", "version: 1"]),
            ("version: 1\ntenants: 5".to_owned(), ["tenants", "line 2"]),
            ("version: 1\ntenant: []".to_owned(), ["`tenant`", "`tenants`"]),
            (entry("quota: 1XB"), ["1XB", "line 4"]),
            (entry("quota: 0"), ["1 byte or more", "line 4"]),
            (entry("quota: -5"), ["tenants[0].quota", "line 4"]),
            (entry("quotas: 5"), ["`quotas`", "`quota`"]),
            (entry("size: 5"), ["tenants[0]", "`size`"]),
            (entry("quota: 5\n  - name: a\n    quota: 6"), ["tenant a", "twice"]),
            (entry("quota: 5\n  - name: _b\n    quota: 6"), ["_b", "line 5"]),
            (entry("quota: 5\n  - name: \"\"\n    quota: 6"), ["empty", "line 5"]),
            ("version: [".to_owned(), ["line 1", ""]),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{text}\n{error}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_says_what_to_write() {
        let missing = QuotaFile::at(Path::new("/no/such/quotas.yaml"));
        let error = missing.load().unwrap_err().to_string();
        assert!(error.contains("/no/such/quotas.yaml") && error.contains("tenants: []"), "{error}");
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("real.yaml"), folder.path().join("link.yaml"));
        std::fs::write(&path, "version: 1\ntenants: []\n").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        QuotaFile::at(&link).save(&[quota("red", 5)]).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(QuotaFile::at(&path).load().unwrap(), [quota("red", 5)]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside");
    }
}
