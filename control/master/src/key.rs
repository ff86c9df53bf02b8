//! Keys: which can be stored, and their hash.

use perigee_schemas::Status;
pub use perigee_schemas::key_hash::{hash_key, shard_of, shard_of_hash};

use perigee_schemas::tenant::check_stored_key;

/// Whether a key can be stored.
pub(crate) fn check_key(key: &[u8]) -> Result<(), Status> {
    check_stored_key(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_1_to_8192_bytes_can_be_stored() {
        assert_eq!(check_key(b""), Err(Status::InvalidParams));
        assert_eq!(check_key(&[b'k'; 8192]), Ok(()));
        assert_eq!(check_key(&[b'k'; 8193]), Err(Status::InvalidKey));
    }
}
