//! Where disks lie and how much they may take. Invariant: a path is absolute and leads to one
//! place only, so that two processes that mean the same disk find each other's lock.

use perigee_memory::size::parse_bytes;
use perigee_settings::{SettingError, Variables};
use perigee_ssd::StorageKey;
use perigee_ssd::limits::{DISK_BYTES_MIN, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use std::path::{Component, Path, PathBuf};

/// Where objects go if neither setup nor a variable says it.
const USUAL_PATH: &str = "/data/file_storage";
/// Cluster whose objects a disk keeps, unless a variable names it.
const USUAL_CLUSTER: &str = "mooncake_cluster";
const PATHS: [&str; 2] =
    ["MOONCAKE_OFFLOAD_FILE_STORAGE_PATHS", "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH"];
/// Each of them bounds what a client's disks hold.
const CAPACITIES: [&str; 3] = [
    "MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES",
    "MOONCAKE_OFFLOAD_BUCKET_MAX_TOTAL_SIZE",
    "MOONCAKE_BUCKET_MAX_TOTAL_SIZE",
];
const SEGMENT_BYTES: &str = "MOONCAKE_OFFLOAD_BUCKET_SIZE_LIMIT_BYTES";
const CLUSTER: &str = "MC_STORE_CLUSTER_ID";
const BACKEND: &str = "MOONCAKE_OFFLOAD_STORAGE_BACKEND_DESCRIPTOR";
const EVICTION_POLICIES: [&str; 2] =
    ["MOONCAKE_OFFLOAD_BUCKET_EVICTION_POLICY", "MOONCAKE_BUCKET_EVICTION_POLICY"];
const KEY_SETTING: &str = "ssd_key_file";
const KEY_FILE: &str = "PERIGEE_SSD_KEY_FILE";

/// Disks that objects of a client's memory go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSettings {
    /// A folder on each disk; clients that name the same one get folders of their own in it. None
    /// for the directory alone that all hosts share, if the master has one.
    pub paths: Vec<PathBuf>,
    /// Most bytes on each disk; 0 for nine tenths of what is free.
    pub capacity_bytes: u64,
    /// Bytes of a segment of the log; 0 to have them chosen.
    pub segment_bytes: u32,
    /// Cluster whose objects they keep.
    pub cluster: String,
    /// What they are encrypted with; none to write them as they are.
    pub key: Option<StorageKey>,
    /// Whether a client that has no disk for the key is refused: it was given one by name.
    pub needs_disk: bool,
}

impl DiskSettings {
    /// The paths and the file of the key that setup names, or the variables; the rest from the
    /// variables.
    ///
    /// # Errors
    /// A path, a key or a variable cannot be used; the error names it.
    pub fn read(
        path: &str,
        key_file: &str,
        variables: &Variables<'_>,
    ) -> Result<Self, SettingError> {
        Self::on(named_paths(path, variables)?, key_file, variables)
    }

    /// Those of a client that has no disk of its own: for the directory that all hosts share.
    ///
    /// # Errors
    /// As [`DiskSettings::read`].
    pub fn read_shared(key_file: &str, variables: &Variables<'_>) -> Result<Self, SettingError> {
        Self::on(Vec::new(), key_file, variables)
    }

    fn on(
        paths: Vec<PathBuf>,
        key_file: &str,
        variables: &Variables<'_>,
    ) -> Result<Self, SettingError> {
        check_backend(variables)?;
        eviction_policy(variables)?;
        // As with Mooncake the limits are those of a client, whatever number of disks it has.
        let capacity_bytes = capacity(paths.len().max(1) as u64, variables)?;
        Ok(Self {
            capacity_bytes,
            segment_bytes: segment_bytes(capacity_bytes, variables)?,
            cluster: variables.text(CLUSTER).unwrap_or_else(|| USUAL_CLUSTER.to_owned()),
            key: key(key_file, variables)?,
            needs_disk: !key_file.trim().is_empty(),
            paths,
        })
    }
}

impl DiskSettings {
    /// What is set and has another effect, or none: one line each.
    #[must_use]
    pub fn notices(variables: &Variables<'_>) -> Vec<String> {
        let policy = match eviction_policy(variables) {
            Ok(Some((name, "none"))) => Some(format!(
                "{name}=none has no effect: a full disk uses its oldest segment again, and what \
                 lay there is gone from it"
            )),
            Ok(Some((name, "lru"))) => Some(format!(
                "{name}=lru has no effect: a full disk uses its oldest segment again, whatever was \
                 read from it"
            )),
            _ => None,
        };
        let bytes = bytes(SEGMENT_BYTES, variables).unwrap_or(0);
        let used = segment_bytes(0, variables).unwrap_or(0);
        let segment = (bytes != u64::from(used)).then(|| {
            format!(
                "{SEGMENT_BYTES}={bytes} is taken as {used}: segments have {SEGMENT_BYTES_MIN} to \
                 {SEGMENT_BYTES_MAX} bytes"
            )
        });
        policy.into_iter().chain(segment).collect()
    }

    /// The refusal of a client that has no disk, if a key for one was named.
    pub(super) fn refuse_without_disk(&self) -> Result<(), SettingError> {
        match (&self.key, self.needs_disk) {
            (Some(_), true) => Err(SettingError::new(
                KEY_SETTING,
                "a file",
                "this client has no disk to encrypt: give enable_offload (in Python \
                 enable_ssd_offload) and a path, or leave the key out",
            )),
            (Some(_), false) => {
                tracing::warn!(
                    "{KEY_FILE} has no effect: this client has no disk, so nothing is encrypted"
                );
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// The same with one disk more for the same bytes.
    pub(super) fn with_one_more(&self) -> Self {
        let disks = self.paths.len() as u64;
        let capacity_bytes = match disks {
            0 => self.capacity_bytes,
            _ => self.capacity_bytes / (disks + 1) * disks,
        };
        let bytes = |each: u64, disks: u64| u128::from(each) * u128::from(disks);
        let before = bytes(self.capacity_bytes, disks.max(1));
        debug_assert!(bytes(capacity_bytes, disks + 1) <= before, "all take no more than before");
        Self { capacity_bytes, ..self.clone() }
    }
}

fn named_paths(path: &str, variables: &Variables<'_>) -> Result<Vec<PathBuf>, SettingError> {
    let mut named = ("ssd_offload_path", path.to_owned());
    for name in PATHS {
        if named.1.trim().is_empty() {
            named = (name, variables.text(name).unwrap_or_default());
        }
    }
    if named.1.trim().is_empty() {
        named.1 = USUAL_PATH.to_owned();
    }
    let (name, text) = named;
    let mut paths: Vec<PathBuf> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let path = Path::new(part);
        let is_plain = path.components().all(|it| it != Component::ParentDir);
        if !path.is_absolute() || !is_plain {
            return Err(SettingError::new(name, part, "write an absolute path without .."));
        }
        if paths.iter().any(|other| other == path) {
            return Err(SettingError::new(name, part, "write each path once"));
        }
        paths.push(path.to_owned());
    }
    match paths.is_empty() {
        true => Err(SettingError::new(name, &text, "write a path, or several and commas")),
        false => Ok(paths),
    }
}

/// The key of the file that setup names, or the variable; none if neither does. A user who names
/// one wants nothing on a disk that it does not protect: one that cannot be used is an error.
fn key(file: &str, variables: &Variables<'_>) -> Result<Option<StorageKey>, SettingError> {
    let mut named = (KEY_SETTING, file.to_owned());
    if file.trim().is_empty() {
        named = (KEY_FILE, variables.text(KEY_FILE).unwrap_or_default());
    }
    let (name, path) = (named.0, named.1.trim());
    if path.is_empty() {
        return Ok(None);
    }
    let read = StorageKey::read(Path::new(path));
    read.map(Some).map_err(|error| SettingError::new(name, path, error.to_string()))
}

/// There is one way to store objects, so what asks for one that keeps them elsewhere is refused.
fn check_backend(variables: &Variables<'_>) -> Result<(), SettingError> {
    let Some(backend) = variables.text(BACKEND) else {
        return Ok(());
    };
    let advice = match backend.trim() {
        ""
        | "bucket_storage_backend"
        | "offset_allocator_storage_backend"
        | "file_per_key_storage_backend" => return Ok(()),
        "distributed_storage_backend" => {
            "leave it out and start the master with --root_fs_dir: its directory is shared by all \
             hosts"
        }
        "nvme_kv_storage_backend" => {
            "NVMe key-value drives are not supported: leave it out and name folders on file systems"
        }
        _ => "leave it out: objects go to a log in the folders that are named",
    };
    Err(SettingError::new(BACKEND, &backend, advice))
}

/// What a full disk is to do, and the variable that says so.
fn eviction_policy(
    variables: &Variables<'_>,
) -> Result<Option<(&'static str, &'static str)>, SettingError> {
    let mut first = None;
    for name in EVICTION_POLICIES {
        let Some(text) = variables.text(name) else { continue };
        let known = ["fifo", "lru", "none"].into_iter().find(|word| *word == text.trim());
        let refused = || SettingError::new(name, &text, "write fifo, which is what is done");
        let word = known.ok_or_else(refused)?;
        first = first.or(Some((name, word)));
    }
    Ok(first)
}

/// The smallest of the limits that are set, of each of so many disks; 0 for none.
fn capacity(disks: u64, variables: &Variables<'_>) -> Result<u64, SettingError> {
    let mut least = 0;
    for name in CAPACITIES {
        let bytes = bytes(name, variables)?;
        // As with Mooncake 0 is no bound, but for the first one.
        let is_meant = bytes > 0 || name == CAPACITIES[0] && variables.text(name).is_some();
        if is_meant && bytes / disks < DISK_BYTES_MIN {
            let needed = DISK_BYTES_MIN * disks;
            let reason = format!("write at least {needed} bytes, for each disk {DISK_BYTES_MIN}");
            return Err(SettingError::new(name, bytes.to_string(), reason));
        }
        if bytes > 0 && (least == 0 || bytes < least) {
            least = bytes;
        }
    }
    Ok(least / disks)
}

/// Bytes of a segment of a disk of so many bytes; 0 to have both chosen.
fn segment_bytes(capacity_bytes: u64, variables: &Variables<'_>) -> Result<u32, SettingError> {
    let Some(text) = variables.text(SEGMENT_BYTES) else {
        return Ok(0);
    };
    let asked = bytes(SEGMENT_BYTES, variables)?;
    if asked == 0 {
        let reason = format!("write {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX} bytes");
        return Err(SettingError::new(SEGMENT_BYTES, &text, reason));
    }
    let segments = DISK_BYTES_MIN / u64::from(SEGMENT_BYTES_MIN);
    let most = match capacity_bytes {
        0 => u64::from(SEGMENT_BYTES_MAX),
        bytes => (bytes / segments).min(SEGMENT_BYTES_MAX.into()),
    };
    let within = asked.clamp(SEGMENT_BYTES_MIN.into(), most.max(SEGMENT_BYTES_MIN.into()));
    Ok(u32::try_from(within).unwrap_or(SEGMENT_BYTES_MAX))
}

fn bytes(name: &'static str, variables: &Variables<'_>) -> Result<u64, SettingError> {
    match variables.text(name) {
        None => Ok(0),
        Some(text) => {
            parse_bytes(&text).map_err(|error| SettingError::new(name, &text, error.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(path: &str, values: &[(&str, &str)]) -> Result<DiskSettings, SettingError> {
        let value = |asked: &str| {
            let found = values.iter().find(|(name, _)| *name == asked);
            found.map(|(_, value)| (*value).to_owned())
        };
        DiskSettings::read(path, "", &Variables::new(&value))
    }

    #[test]
    fn setup_goes_before_variables_and_those_before_the_usual_path() {
        let usual = with("", &[]).unwrap();
        assert_eq!(usual.paths, [Path::new("/data/file_storage")]);
        assert_eq!((usual.capacity_bytes, usual.segment_bytes), (0, 0));
        let one = [("MOONCAKE_OFFLOAD_FILE_STORAGE_PATH", "/one")];
        assert_eq!(with("", &one).unwrap().paths, [Path::new("/one")]);
        assert_eq!(with("/x, /y", &one).unwrap().paths, [Path::new("/x"), Path::new("/y")]);
        let both = [one[0], ("MOONCAKE_OFFLOAD_FILE_STORAGE_PATHS", "/a,/b")];
        assert_eq!(with("", &both).unwrap().paths, [Path::new("/a"), Path::new("/b")]);
    }

    #[test]
    fn disks_share_the_limits_of_their_client_and_sizes_are_bounded() {
        let values = [
            ("MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES", "8GB"),
            ("MOONCAKE_OFFLOAD_BUCKET_MAX_TOTAL_SIZE", "4GB"),
            ("MOONCAKE_OFFLOAD_BUCKET_SIZE_LIMIT_BYTES", "10485760"),
        ];
        let settings = with("/x,/y", &values).unwrap();
        assert_eq!(settings.capacity_bytes, 2 << 30);
        assert_eq!(settings.segment_bytes, SEGMENT_BYTES_MIN);
    }

    #[test]
    fn the_file_of_a_key_is_named_by_setup_or_a_variable_and_must_have_one() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, byte: u8, mode: u32| {
            let path = folder.path().join(name);
            std::fs::write(&path, [byte; 32]).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path.display().to_string()
        };
        let (one, two, open) = (file("1", 1, 0o400), file("2", 2, 0o600), file("3", 3, 0o644));
        let read = |named: &str, variable: &str| {
            let value = |asked: &str| (asked == KEY_FILE).then(|| variable.to_owned());
            DiskSettings::read("/x", named, &Variables::new(&value))
        };
        let key = |byte: u8| Some(StorageKey::new([byte; 32]));
        assert_eq!(read("", "").unwrap().key, None);
        assert_eq!(read("", &one).unwrap().key, key(1));
        assert_eq!(read(&two, &one).unwrap().key, key(2), "setup goes before the variable");
        for (named, variable, name) in [(&*open, "", "ssd_key_file"), ("", &*open, KEY_FILE)] {
            let error = read(named, variable).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("chmod 400"), "{error}");
        }
    }

    #[test]
    fn a_way_to_store_that_is_not_ours_is_refused_with_what_to_do() {
        let read = |backend: &str| with("/x", &[(BACKEND, backend)]);
        for backend in ["", "bucket_storage_backend", "offset_allocator_storage_backend"] {
            assert!(read(backend).is_ok(), "{backend}");
        }
        for (backend, advice) in [
            ("nvme_kv_storage_backend", "not supported"),
            ("distributed_storage_backend", "--root_fs_dir"),
            ("else", "log"),
        ] {
            let error = read(backend).unwrap_err().to_string();
            assert!(error.contains(BACKEND) && error.contains(advice), "{error}");
        }
    }

    #[test]
    fn what_has_no_effect_is_named_and_what_means_nothing_is_refused() {
        let said = |name: &str, value: &str| {
            let source = |asked: &str| (asked == name).then(|| value.to_owned());
            let variables = Variables::new(&source);
            let read = DiskSettings::read("/x,/y", "", &variables);
            read.map(|_| DiskSettings::notices(&variables)).map_err(|error| error.to_string())
        };
        let none: Vec<String> = Vec::new();
        for (name, value) in [
            (EVICTION_POLICIES[0], "none"),
            (EVICTION_POLICIES[1], "none"),
            (EVICTION_POLICIES[1], "lru"),
            (SEGMENT_BYTES, "10485760"),
            (SEGMENT_BYTES, "4GB"),
        ] {
            let lines = said(name, value).unwrap();
            assert!(lines.len() == 1 && lines[0].contains(name), "{name}: {lines:?}");
        }
        for (name, value) in [
            (EVICTION_POLICIES[0], "fifo"),
            (SEGMENT_BYTES, "64MB"),
            (CAPACITIES[0], "64MB"),
            (CAPACITIES[1], "0"),
        ] {
            assert_eq!(said(name, value), Ok(none.clone()), "{name}={value}");
        }
        for (name, value, part) in [
            (EVICTION_POLICIES[0], "newest", "fifo"),
            (EVICTION_POLICIES[1], "newest", "fifo"),
            (SEGMENT_BYTES, "0", "16777216"),
            (SEGMENT_BYTES, "-1", "negative"),
            (SEGMENT_BYTES, "NaN", "NaN"),
            (CAPACITIES[0], "0", "67108864"),
            (CAPACITIES[0], "5", "67108864"),
            (CAPACITIES[1], "33554432", "67108864"),
            (CAPACITIES[0], "nan", "nan"),
            (CAPACITIES[0], "99999999999999999999", "99999999999999999999"),
        ] {
            let error = said(name, value).unwrap_err();
            assert!(error.contains(name) && error.contains(part), "{name}={value}: {error}");
        }
    }

    #[test]
    fn a_policy_that_means_nothing_is_refused_beside_one_that_does() {
        let values = [(EVICTION_POLICIES[0], "fifo"), (EVICTION_POLICIES[1], "newest")];
        let error = with("/x", &values).unwrap_err().to_string();
        assert!(error.contains(EVICTION_POLICIES[1]), "{error}");
    }

    #[test]
    fn a_small_disk_has_small_segments_whatever_is_asked_for() {
        let values = [(CAPACITIES[0], "100MB"), (SEGMENT_BYTES, "256MB")];
        let settings = with("/x", &values).unwrap();
        assert_eq!((settings.capacity_bytes, settings.segment_bytes), (100 << 20, 50 << 20));
    }

    #[test]
    fn a_shared_directory_is_one_more_disk_of_the_same_bytes() {
        let bytes = [("MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES", "12GB")];
        let own = with("/a,/b", &bytes).unwrap();
        assert_eq!((own.capacity_bytes, own.with_one_more().capacity_bytes), (6 << 30, 4 << 30));
        let value = |asked: &str| (asked == bytes[0].0).then(|| bytes[0].1.to_owned());
        let shared = DiskSettings::read_shared("", &Variables::new(&value)).unwrap();
        assert_eq!((shared.paths.len(), shared.with_one_more().capacity_bytes), (0, 12 << 30));
    }

    #[test]
    fn paths_and_sizes_that_cannot_be_used_are_refused_by_name() {
        for path in ["data", "/a/../b", "/a,/a", ","] {
            let error = with(path, &[]).unwrap_err().to_string();
            assert!(error.contains("ssd_offload_path"), "{error}");
        }
        let name = "MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES";
        let error = with("", &[(name, "much")]).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}
