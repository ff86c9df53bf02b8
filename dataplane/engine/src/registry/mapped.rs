//! Whether a range is memory of this process at all. A buffer that is not would turn a peer's
//! request into a fault of ours.

use crate::error::BufferError;

/// Refuses host memory that is not mapped.
pub(crate) fn check_mapped(address: u64, bytes: u64) -> Result<(), BufferError> {
    if bytes == 0 || is_mapped(address, bytes) {
        return Ok(());
    }
    Err(BufferError::Unusable {
        address,
        bytes,
        reason: "part of it is not mapped in this process, and no accelerator here has it"
            .to_owned(),
    })
}

fn is_mapped(address: u64, bytes: u64) -> bool {
    let Some((first, length)) = pages(address, bytes) else {
        return false;
    };
    // SAFETY: the call only looks at the process's list of mappings; MS_ASYNC starts no writing.
    unsafe { libc::msync(first as *mut libc::c_void, length, libc::MS_ASYNC) == 0 }
}

/// First page of a range, and the bytes from there to its end.
fn pages(address: u64, bytes: u64) -> Option<(u64, usize)> {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    let page = page.ok().flatten().and_then(|page| u64::try_from(page).ok()).unwrap_or(4096);
    let first = address - address % page;
    let length = address.checked_add(bytes)? - first;
    Some((first, length as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_this_process_is_distinguished_from_the_rest() {
        let bytes = vec![0u8; 100_000];
        let address = bytes.as_ptr() as u64;
        check_mapped(address, bytes.len() as u64).unwrap();
        assert!(check_mapped(64, 4096).is_err());
        assert!(check_mapped(u64::MAX - 4096, 4096).is_err());
    }
}
