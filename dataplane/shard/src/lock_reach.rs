//! Whether a lock of a file is known to all hosts that have the file.
//! Invariant: of a file system that is not known, it is not believed.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

const ADVICE: &str = "NFS, CephFS, GlusterFS, JuiceFS, GPFS, OCFS2, GFS2 and Lustre with flock \
                      have locks for all hosts";
/// Of one host, or of many that know of each other's locks.
const KNOWN: [&str; 16] = [
    "tmpfs",
    "ramfs",
    "overlay",
    "zfs",
    "bcachefs",
    "nfs",
    "nfs4",
    "ceph",
    "lustre",
    "gpfs",
    "fuse.ceph",
    "fuse.ceph-fuse",
    "fuse.glusterfs",
    "fuse.juicefs",
    "ocfs2",
    "gfs2",
];
/// Options of a mount with which its locks are those of one host.
const OF_ONE_HOST: [&str; 6] =
    ["nolock", "local_lock=all", "local_lock=flock", "localflock", "localflocks", "noflock"];

/// Why two processes on different hosts may both get the lock of a file in a folder; none if they
/// cannot.
///
/// # Errors
/// The folder is not there, or the kernel does not say where it lies.
pub(crate) fn lock_refusal(folder: &Path) -> io::Result<Option<String>> {
    let folder = folder.canonicalize()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let kinds = std::fs::read_to_string("/proc/filesystems")?;
    Ok(refusal(&folder, &mounts, &kinds))
}

fn refusal(folder: &Path, mounts: &str, kinds: &str) -> Option<String> {
    let mounts = mounts.lines().filter_map(parsed);
    let over = mounts.filter(|mount| folder.starts_with(&mount.place));
    // Of those at the same place the last one is seen.
    let Some(mount) = over.max_by_key(|mount| mount.place.components().count()) else {
        return Some("the kernel does not say what it lies on".to_owned());
    };
    let kind = mount.kind;
    let has = |option: &str| mount.options.contains(&option);
    if let Some(option) = OF_ONE_HOST.into_iter().find(|option| has(option)) {
        return Some(format!(
            "it lies on {kind} mounted with {option}, so that hosts do not see each other's locks; \
             mount it without that"
        ));
    }
    if kind == "lustre" && !has("flock") {
        return Some("it lies on Lustre without locks; mount it with flock".to_owned());
    }
    let is_block = kinds.lines().any(|line| line.trim() == kind && line.starts_with('\t'));
    let is_known = KNOWN.contains(&kind) || (is_block && kind != "fuseblk");
    (!is_known)
        .then(|| format!("it lies on {kind}, whose locks may be those of one host only; {ADVICE}"))
}

struct Mount<'a> {
    place: PathBuf,
    kind: &'a str,
    options: Vec<&'a str>,
}

/// A line of `/proc/self/mountinfo`: `36 35 0:42 / /mnt rw,noatime shared:1 - nfs4 host:/kv rw`.
fn parsed(line: &str) -> Option<Mount<'_>> {
    let (mount, of_kind) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(4);
    let (place, options) = (mount.next()?, mount.next()?);
    let mut of_kind = of_kind.split(' ');
    let (kind, _source) = (of_kind.next()?, of_kind.next()?);
    let options = options.split(',').chain(of_kind.next().unwrap_or_default().split(','));
    Some(Mount { place: plain(place), kind, options: options.collect() })
}

/// A path without the octal numbers that stand for blanks and the like.
fn plain(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let number = (*first == b'\\').then(|| after.get(..3)).flatten();
        let number = number.and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: &str = "nodev\tproc\nnodev\tnfs4\n\text4\n\tfuseblk\nnodev\tfuse\n";

    fn of(kind: &str, options: &str) -> Option<String> {
        let root = "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw";
        let shared = format!("99 21 0:55 / /mnt/a\\040b rw,noatime - {kind} host:/kv {options}");
        refusal(Path::new("/mnt/a b/kv"), &format!("{root}\n{shared}\n"), KINDS)
    }

    #[test]
    fn file_systems_whose_locks_reach_all_that_see_them_are_taken() {
        for (kind, options) in [
            ("ext4", "rw"),
            ("tmpfs", "rw,size=1k"),
            ("nfs4", "rw,vers=4.2,local_lock=none,addr=10.0.0.1"),
            ("nfs", "rw,vers=3,local_lock=posix"),
            ("ceph", "rw"),
            ("lustre", "rw,flock"),
            ("fuse.juicefs", "rw"),
        ] {
            assert_eq!(of(kind, options), None, "{kind} {options}");
        }
    }

    #[test]
    fn locks_of_one_host_are_refused_with_what_to_do() {
        for (kind, options, part) in [
            ("nfs", "rw,nolock,local_lock=all", "mounted with nolock"),
            ("nfs4", "rw,local_lock=flock", "mount it without that"),
            ("lustre", "rw", "mount it with flock"),
            ("lustre", "rw,localflock", "localflock"),
            ("fuse.hf3fs", "rw", "fuse.hf3fs"),
            ("fuseblk", "rw", "one host only"),
            ("9p", "rw", "CephFS"),
            ("virtiofs", "rw", "NFS"),
        ] {
            let reason = of(kind, options).unwrap();
            assert!(reason.contains(part), "{kind} {options}: {reason}");
        }
        assert!(refusal(Path::new("/"), "", KINDS).is_some());
    }

    #[test]
    fn the_latest_mount_at_the_deepest_place_counts() {
        let line = |place: &str, kind: &str| format!("9 1 0:5 / {place} rw - {kind} none rw\n");
        let mounts = line("/", "ext4") + &line("/kv", "9p") + &line("/kv", "nfs4");
        assert_eq!(refusal(Path::new("/kv/a"), &mounts, KINDS), None);
        assert!(refusal(Path::new("/kv/a"), &(mounts + &line("/kv", "9p")), KINDS).is_some());
        assert_eq!(refusal(Path::new("/kva"), &line("/", "ext4"), KINDS), None);
    }

    #[test]
    fn folders_of_this_host_have_locks() {
        let folder = std::env::temp_dir();
        assert_eq!(lock_refusal(&folder).unwrap(), None);
        let missing = lock_refusal(Path::new("/no/such/folder")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
