//! Sockets with a file, for programs of other users: the mode bits of the file say whose.
//! Invariant: no caller is connected before the file has its mode bits.

use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, socket};

const CALLERS_WAITING_MAX: i32 = 128;

/// A listening socket whose file is gone when it is dropped.
#[derive(Debug)]
pub struct SocketFile {
    listener: UnixListener,
    path: PathBuf,
}

impl SocketFile {
    /// Listens at `path`, where those may connect that the bits of `mode` let write. The file of a
    /// listener that has ended is replaced.
    ///
    /// # Errors
    /// Another program listens there, the path has something else, or no file can be made.
    pub fn listen(path: &Path, mode: u32) -> io::Result<Self> {
        remove_left_behind(path)?;
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        let address = UnixAddr::new(path)?;
        bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &address)?;
        let owned = Self { listener: UnixListener::from(socket), path: path.to_owned() };
        // No caller can connect before it listens.
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
        let backlog = Backlog::new(CALLERS_WAITING_MAX)?;
        nix::sys::socket::listen(&owned.listener, backlog)?;
        Ok(owned)
    }

    /// The socket.
    #[must_use]
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn remove_left_behind(path: &Path) -> io::Result<()> {
    let kind = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?.file_type(),
    };
    if !kind.is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is a file that is no socket",
        ));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another program listens there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{Uid, setfsuid};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_file_has_its_mode_bits_and_goes_with_the_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let bound = SocketFile::listen(&path, 0o660).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
        assert!(UnixStream::connect(&path).is_ok());
        let taken = SocketFile::listen(&path, 0o660).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_was_left_behind_is_replaced_and_another_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let bound = SocketFile::listen(&path, 0o600).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        drop(bound);
        std::fs::write(&path, "kept").unwrap();
        assert!(SocketFile::listen(&path, 0o600).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
    }

    #[test]
    fn another_user_is_let_in_by_the_mode_bits_alone() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        // The group stays root's.
        for (mode, is_let_in) in [(0o600, false), (0o660, true), (0o666, true)] {
            let path = folder.path().join(format!("{mode:o}"));
            let _bound = SocketFile::listen(&path, mode).unwrap();
            // Of this thread only.
            setfsuid(Uid::from_raw(65534));
            let connected = UnixStream::connect(&path).is_ok();
            setfsuid(Uid::from_raw(0));
            assert_eq!(connected, is_let_in, "{mode:o}");
        }
    }
}
