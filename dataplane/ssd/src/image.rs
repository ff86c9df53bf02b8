//! The image of an object on a disk: its extent in memory as it is.
//! Invariant: an image is intact only if its generation and each of its checksums are right.

use perigee_memory::crc32c;
use perigee_schemas::extent::{BLOCK_BYTES, extent_bytes, footer_offset, generation_offset};

/// Whether `image` is that of an object of this generation, with each byte as it was written.
pub fn is_intact(image: &[u8], payload_bytes: u32, generation: u64) -> bool {
    let payload_bytes = u64::from(payload_bytes);
    if (image.len() as u64) < extent_bytes(payload_bytes) {
        return false;
    }
    let (payload, sums) = image.split_at(footer_offset(payload_bytes) as usize);
    let payload = &payload[..payload_bytes as usize];
    let blocks = payload.chunks(BLOCK_BYTES as usize);
    let are_right =
        blocks.zip(sums.chunks(4)).all(|(block, sum)| crc32c(block).to_le_bytes() == sum);
    let at = generation_offset(payload_bytes) as usize;
    are_right && image[at..at + 8] == generation.to_le_bytes()
}

/// The image of a payload.
pub fn of_payload(payload: &[u8], generation: u64) -> Vec<u8> {
    let bytes = payload.len() as u64;
    let mut image = vec![0; extent_bytes(bytes) as usize];
    image[..payload.len()].copy_from_slice(payload);
    let sums = &mut image[footer_offset(bytes) as usize..];
    for (block, sum) in payload.chunks(BLOCK_BYTES as usize).zip(sums.chunks_mut(4)) {
        sum.copy_from_slice(&crc32c(block).to_le_bytes());
    }
    let at = generation_offset(bytes) as usize;
    image[at..at + 8].copy_from_slice(&generation.to_le_bytes());
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_intact_only_with_all_bits_and_its_generation() {
        let payload: Vec<u8> = (0..70_001_u32).map(|at| at as u8).collect();
        let image = of_payload(&payload, 9);
        assert!(is_intact(&image, 70_001, 9));
        assert!(!is_intact(&image, 70_001, 8));
        assert!(!is_intact(&image[..image.len() - 8], 70_001, 9));
        for at in [0, 65_535, 65_536, 70_000, footer_offset(70_001) as usize] {
            let mut damaged = image.clone();
            damaged[at] ^= 1;
            assert!(!is_intact(&damaged, 70_001, 9), "byte {at}");
        }
    }
}
